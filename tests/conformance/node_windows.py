"""Convolutions, pools, matrix products, normalisations, Resize and conversions as exact functions of exact numbers.

Each entry takes (attributes, inputs, opset) and returns the outputs, unrounded.
"""

import itertools
import math
from fractions import Fraction

import numpy as np

from node_elementwise import _number as number
from node_elementwise import mean
from node_numbers import contract, each, exact, from_mp, sqrt, to_mp, total


class Window:
    """Where the kernel of a convolution or pool lies: positions along each axis."""

    def __init__(self, a, image, kernel):
        n = len(image)
        self.kernel = kernel
        self.strides = a.get("strides") or [1] * n
        self.dilations = a.get("dilations") or [1] * n
        pads = a.get("pads") or [0] * (2 * n)
        self.begin, self.end = list(pads[:n]), list(pads[n:])
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilations)]
        auto = a.get("auto_pad", "NOTSET")
        self.out = []
        for i in range(n):
            if auto in ("SAME_UPPER", "SAME_LOWER"):
                count = -(-image[i] // self.strides[i])
                need = max((count - 1) * self.strides[i] + extent[i] - image[i], 0)
                self.begin[i] = need // 2 if auto == "SAME_UPPER" else need - need // 2
                self.end[i] = need - self.begin[i]
            else:
                if auto == "VALID":
                    self.begin[i] = self.end[i] = 0
                span = image[i] + self.begin[i] + self.end[i] - extent[i]
                count = span // self.strides[i] + 1
                if a.get("ceil_mode", 0):
                    count = -(-span // self.strides[i]) + 1
                    if (count - 1) * self.strides[i] >= image[i] + self.begin[i]:
                        count -= 1
            self.out.append(count)
        self.image = image

    def taps(self, at):
        """(index in kernel, index in image, inside the image, inside image and padding) of one output position."""
        for k in itertools.product(*map(range, self.kernel)):
            p = [o * s + i * d - b for o, s, i, d, b in zip(at, self.strides, k, self.dilations, self.begin)]
            inside = all(0 <= q < n for q, n in zip(p, self.image))
            padded = all(-b <= q < n + e for q, n, b, e in zip(p, self.image, self.begin, self.end))
            yield k, tuple(p), inside, padded

    def positions(self):
        return itertools.product(*map(range, self.out))


def conv(a, x, opset):
    data, weights = x[0], x[1]
    window = Window(a, data.shape[2:], weights.shape[2:])
    groups = a.get("group", 1)
    per_in, per_out = weights.shape[1], weights.shape[0] // groups
    out = np.empty((data.shape[0], weights.shape[0], *window.out), dtype=object)
    for at in window.positions():
        inside = [(k, p) for k, p, ok, _ in window.taps(at) if ok]
        for g in range(groups):
            rows = slice(g * per_out, (g + 1) * per_out)
            if not inside:
                out[(slice(None), rows, *at)] = Fraction(0)
                continue
            patch = np.stack([data[(slice(None), slice(g * per_in, (g + 1) * per_in), *p)] for _, p in inside], -1)
            taps = np.stack([weights[(rows, slice(None), *k)] for k, _ in inside], -1)
            out[(slice(None), rows, *at)] = contract("ncp,mcp->nm", patch, taps)
    if len(x) > 2 and x[2] is not None:
        out = out + x[2].reshape(-1, *[1] * len(window.out))
    return [out]


def conv_transpose(a, x, opset):
    data, weights = x[0], x[1]
    n = data.ndim - 2
    strides, dilations = a.get("strides") or [1] * n, a.get("dilations") or [1] * n
    extra = a.get("output_padding") or [0] * n
    kernel, groups = weights.shape[2:], a.get("group", 1)
    pads = list(a.get("pads") or [0] * (2 * n))
    full = [(i - 1) * s + (k - 1) * d + 1 for i, s, k, d in zip(data.shape[2:], strides, kernel, dilations)]
    auto = a.get("auto_pad", "NOTSET")
    shape = a.get("output_shape")
    if shape is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        shape = [i * s for i, s in zip(data.shape[2:], strides)]
    if shape is not None:
        shape = list(shape)[-n:]
        for i in range(n):
            cut = full[i] + extra[i] - shape[i]
            less = cut // 2
            pads[i], pads[n + i] = (less, cut - less) if auto == "SAME_UPPER" else (cut - less, less)
    size = [f + e - pads[i] - pads[n + i] for i, (f, e) in enumerate(zip(full, extra))]
    per_in, per_out = weights.shape[0] // groups, weights.shape[1]
    out = np.full((data.shape[0], per_out * groups, *size), Fraction(0), dtype=object)
    for at in itertools.product(*map(range, data.shape[2:])):
        for k in itertools.product(*map(range, kernel)):
            p = [i * s + j * d - b for i, s, j, d, b in zip(at, strides, k, dilations, pads)]
            if not all(0 <= q < m for q, m in zip(p, size)):
                continue
            for g in range(groups):
                rows = slice(g * per_in, (g + 1) * per_in)
                part = contract("nc,cm->nm", data[(slice(None), rows, *at)], weights[(rows, slice(None), *k)])
                out[(slice(None), slice(g * per_out, (g + 1) * per_out), *p)] += part
    if len(x) > 2 and x[2] is not None:
        out = out + x[2].reshape(-1, *[1] * n)
    return [out]


def _pool(value):
    def f(a, x, opset):
        data = x[0]
        window = Window(a, data.shape[2:], a["kernel_shape"])
        out = np.empty((*data.shape[:2], *window.out), dtype=object)
        for at in window.positions():
            taps = list(window.taps(at))
            inside = [p for _, p, ok, _ in taps if ok]
            counted = len([1 for _, _, _, ok in taps if ok]) if a.get("count_include_pad", 0) else len(inside)
            patch = np.stack([data[(slice(None), slice(None), *p)] for p in inside], -1)
            out[(slice(None), slice(None), *at)] = value(a, patch, counted)
        return [out]

    return f


def _norm(data, axes, p):
    if p == 1:
        return total(abs(data), axes)
    powers = total(abs(data) ** p, axes)
    if p == 2:
        return each(sqrt)(powers)
    return each(lambda v: v if v == 0 else from_mp(to_mp(v) ** (to_mp(Fraction(1)) / p)))(powers)


def _global(value):
    return lambda a, x, opset: [value(a, x[0], tuple(range(2, x[0].ndim)))]


def matmul(a, x, opset):
    p, q = x[0], x[1]
    left, right = p.ndim == 1, q.ndim == 1
    p, q = (p[None] if left else p), (q[:, None] if right else q)
    lead = np.broadcast_shapes(p.shape[:-2], q.shape[:-2])
    p, q = np.broadcast_to(p, (*lead, *p.shape[-2:])), np.broadcast_to(q, (*lead, *q.shape[-2:]))
    out = contract("...ij,...jk->...ik", p, q)
    out = out[..., 0, :] if left else out
    return [out[..., 0] if right else out]


def gemm(a, x, opset):
    p = x[0].T if a.get("transA", 0) else x[0]
    q = x[1].T if a.get("transB", 0) else x[1]
    out = contract("ij,jk->ik", p, q) * number(a.get("alpha", 1.0))
    if len(x) > 2 and x[2] is not None:
        out = out + x[2] * number(a.get("beta", 1.0))
    return [out]


def _channels(v, ndim):
    return v.reshape(-1, *[1] * (ndim - 2))


def _standard(data, axes, epsilon):
    centre = data - mean(data, axes)
    scale = 1 / each(sqrt)(mean(centre * centre, axes) + epsilon)
    return centre * scale, scale


def batch_normalization(a, x, opset):
    if a.get("training_mode", 0):
        raise NotImplementedError("training")
    data, scale, bias, centre, variance = x
    root = each(sqrt)(variance + number(a.get("epsilon", 1e-5)))
    n = data.ndim
    return [(data - _channels(centre, n)) / _channels(root, n) * _channels(scale, n) + _channels(bias, n)]


def instance_normalization(a, x, opset):
    data = x[0]
    y, _ = _standard(data, tuple(range(2, data.ndim)), number(a.get("epsilon", 1e-5)))
    return [y * _channels(x[1], data.ndim) + _channels(x[2], data.ndim)]


def group_normalization(a, x, opset):
    data, groups = x[0], a["num_groups"]
    folded = data.reshape(data.shape[0], groups, -1)
    y, _ = _standard(folded, (2,), number(a.get("epsilon", 1e-5)))
    scale, bias = x[1], x[2]
    if opset < 21:  # one per group then, one per channel since
        scale, bias = (np.repeat(v, data.shape[1] // groups) for v in (scale, bias))
    return [y.reshape(data.shape) * _channels(scale, data.ndim) + _channels(bias, data.ndim)]


def layer_normalization(a, x, opset):
    data = x[0]
    axes = tuple(range(a.get("axis", -1) % data.ndim, data.ndim))
    y, scale = _standard(data, axes, number(a.get("epsilon", 1e-5)))
    y = y * x[1]
    if len(x) > 2 and x[2] is not None:
        y = y + x[2]
    return [y, mean(data, axes), scale]


def rms_normalization(a, x, opset):
    data = x[0]
    axes = tuple(range(a.get("axis", -1) % data.ndim, data.ndim))
    return [data / each(sqrt)(mean(data * data, axes) + number(a.get("epsilon", 1e-5))) * x[1]]


def lp_normalization(a, x, opset):
    data = x[0]
    size = _norm(data, (a.get("axis", -1) % data.ndim,), a.get("p", 2))
    return [each(lambda v, s: Fraction(0) if s == 0 else v / s)(data, size)]


def lrn(a, x, opset):
    data, size = x[0], a["size"]
    alpha, beta, bias = number(a.get("alpha", 1e-4)), number(a.get("beta", 0.75)), number(a.get("bias", 1.0))
    squares = data * data
    sums = np.stack([total(squares[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1], (1,))[:, 0]
                     for c in range(data.shape[1])], 1)
    return [each(lambda v, s: v * from_mp(to_mp(bias + alpha / size * s) ** -to_mp(beta)))(data, sums)]


def cumsum(a, x, opset):
    data, axis = np.moveaxis(x[0], int(x[1]), -1), int(x[1])
    if a.get("reverse", 0):
        data = data[..., ::-1]
    out = np.add.accumulate(data, axis=-1)
    if a.get("exclusive", 0):
        out = np.concatenate([np.full((*out.shape[:-1], 1), Fraction(0), dtype=object), out[..., :-1]], -1)
    return [np.moveaxis(out[..., ::-1] if a.get("reverse", 0) else out, -1, axis)]


def float_range(a, x, opset):
    start, limit, step = (v.item() for v in x)
    count = max(math.ceil((limit - start) / step), 0)
    out = np.empty(count, dtype=object)
    out[:] = [start + i * step for i in range(count)]
    return [out]


def spread(a, v, shape):
    """Scales or zero points laid out for a tensor of that shape: per tensor, per axis or blocked."""
    if v.size == 1 and v.ndim <= 1:
        return v.reshape(())
    axis = a.get("axis", 1) % len(shape)
    if a.get("block_size", 0):
        return np.repeat(v, a["block_size"], axis=axis).take(range(shape[axis]), axis=axis)
    return v.reshape([-1 if k == axis else 1 for k in range(len(shape))])


def dequantize_linear(a, x, opset):
    data = exact(x[0])
    if len(x) > 2 and x[2] is not None:
        data = data - spread(a, exact(x[2]), data.shape)
    return [data * spread(a, x[1], data.shape)]


OPERATORS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "AveragePool": _pool(lambda a, patch, count: total(patch, (-1,), False) / Fraction(count)),
    "LpPool": _pool(lambda a, patch, count: _norm(patch, (-1,), a.get("p", 2))[..., 0]),
    "GlobalAveragePool": _global(lambda a, x, axes: mean(x, axes)),
    "GlobalMaxPool": _global(lambda a, x, axes: np.asarray(np.max(x, axis=axes, keepdims=True), dtype=object)),
    "MatMul": matmul,
    "Gemm": gemm,
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "LpNormalization": lp_normalization,
    "LRN": lrn,
    "CumSum": cumsum,
    "Range": float_range,
    "DequantizeLinear": dequantize_linear,
    "Cast": lambda a, x, opset: [x[0]],
    "CastLike": lambda a, x, opset: [x[0]],
}
