"""Quantizing operators and scatter reductions as exact functions of exact numbers.

A quantizer's entry takes (attributes, input arrays, opset) and returns its integer outputs, and for output 0 the exact
quotient u / scale that was rounded: it tells how near a tie an element lies.
"""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
from onnx import helper

from node_elementwise import greatest, least
from node_numbers import divide, each, exact, rounded
from node_windows import conv, matmul, spread


def _to_grid(quotient, zero, dtype):
    limits = ml_dtypes.iinfo(dtype)
    whole = each(lambda q, z: max(limits.min, min(limits.max, z + (round(q) if not isinstance(q, float) else
                                                                   limits.max * 2 if q > 0 else limits.min * 2))))
    return whole(quotient, zero).astype(np.int64).astype(dtype)


def _integer(dtype):
    try:
        ml_dtypes.iinfo(dtype)
    except ValueError as kind:
        raise NotImplementedError(f"to {np.dtype(dtype).name}") from kind
    return dtype


def quantize_linear(a, x, opset):
    given = x[2] if len(x) > 2 else None
    to = a.get("output_dtype", 0)
    dtype = given.dtype if given is not None else helper.tensor_dtype_to_np_dtype(to) if to else np.dtype(np.uint8)
    data, scale = exact(x[0]), exact(x[1])
    zero = exact(given) if _integer(dtype) and given is not None else exact(np.zeros_like(x[1]))
    quotient = each(divide)(data, spread(a, scale, data.shape))
    return [_to_grid(quotient, spread(a, zero, data.shape), dtype)], quotient


def dynamic_quantize_linear(a, x, opset):
    data = exact(x[0])
    low, high = min(0, *data.reshape(-1)), max(0, *data.reshape(-1))
    scale = rounded((high - low) / Fraction(255), np.float32)
    if high == low:
        scale = rounded(Fraction(1, 255), np.float32)
    step = exact(scale).item()
    zero = max(0, min(255, round(-low / step)))
    quotient = data / step
    return [_to_grid(quotient, zero, np.uint8), scale, np.uint8(zero)], quotient


def _real(x, scale, zero, axis):
    """The numbers that a quantized tensor stands for; per-axis parameters lie along `axis`."""
    scale, zero = exact(scale), exact(zero)
    if scale.size > 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        scale = scale.reshape(shape) if scale.ndim <= 1 else scale
        zero = zero.reshape(shape) if zero.ndim <= 1 and zero.size > 1 else zero
    else:
        scale, zero = scale.reshape(()), zero.reshape(())
    return (exact(x) - zero) * scale


def _requantize(u, scale, zero):
    quotient = u / exact(scale).reshape(())
    return [_to_grid(quotient, exact(zero).reshape(()), zero.dtype)], quotient


def qlinear_matmul(a, x, opset):
    left, right = _real(x[0], x[1], x[2], -2), _real(x[3], x[4], x[5], -1)
    return _requantize(matmul(a, [left, right], opset)[0], x[6], x[7])


def qlinear_conv(a, x, opset):
    data, weights = _real(x[0], x[1], x[2], 1), _real(x[3], x[4], x[5], 0)
    u = conv(a, [data, weights], opset)[0]
    if len(x) > 8 and x[8] is not None:
        steps = exact(x[1]).reshape(()) * exact(x[4]).reshape(-1)
        u = u + (exact(x[8]) * steps).reshape(-1, *[1] * (data.ndim - 2))
    return _requantize(u, x[6], x[7])


QUANTIZERS = {
    "QuantizeLinear": quantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearMatMul": qlinear_matmul,
    "QLinearConv": qlinear_conv,
}

_COMBINE = {"add": lambda p, q: p + q, "mul": lambda p, q: p * q, "max": greatest, "min": least}


def scatter_elements(a, x, opset):
    out, indices, updates = x[0].copy(), x[1], x[2]
    axis = a.get("axis", 0) % out.ndim
    for at in itertools.product(*map(range, indices.shape)):
        to = list(at)
        to[axis] = int(indices[at]) % out.shape[axis]
        to = tuple(to)
        out[to] = np.asarray(_COMBINE[a["reduction"]](out[to], updates[at]), dtype=object)[()]
    return [out]


def scatter_nd(a, x, opset):
    out, indices, updates = x[0].copy(), x[1], x[2]
    for at in itertools.product(*map(range, indices.shape[:-1])):
        to = tuple(int(i) for i in indices[at])
        out[to] = np.asarray(_COMBINE[a["reduction"]](out[to], updates[at]), dtype=object)[()]
    return [out]


OPERATORS = {"ScatterElements": scatter_elements, "ScatterND": scatter_nd}
