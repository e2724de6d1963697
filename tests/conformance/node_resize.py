"""Resize and Upsample as exact functions of exact numbers: rational coordinates, rational weights."""

import math
from fractions import Fraction

import numpy as np

from node_elementwise import _number as number


def _source(mode, out, scale, size, length, roi):
    """Coordinate in the input of output position `out`. `length` is the output's length, a whole number."""
    if mode == "asymmetric":
        return out / scale
    if mode == "tf_half_pixel_for_nn":
        return (out + Fraction(1, 2)) / scale
    if mode == "align_corners":
        return Fraction(0) if length == 1 else Fraction(out * (size - 1), length - 1)
    if mode == "pytorch_half_pixel":
        return (out + Fraction(1, 2)) / scale - Fraction(1, 2) if length > 1 else Fraction(0)
    if mode == "tf_crop_and_resize":
        start, end = roi
        if length == 1:
            return (start + end) * (size - 1) / 2
        return start * (size - 1) + out * (end - start) * (size - 1) / (length - 1)
    centre = (out + Fraction(1, 2)) / scale - Fraction(1, 2)
    if mode == "half_pixel_symmetric":
        adjustment = length / (scale * size)
        return Fraction(size, 2) * (1 - adjustment) + centre
    if mode == "half_pixel":
        return centre
    raise NotImplementedError(mode)


def _nearest(coordinate, mode):
    half = Fraction(1, 2)
    if mode == "round_prefer_floor":
        return math.ceil(coordinate - half)
    if mode == "round_prefer_ceil":
        return math.floor(coordinate + half)
    return math.floor(coordinate) if mode == "floor" else math.ceil(coordinate)


def _cubic(distance, a):
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else Fraction(0)


def _weights(a, coordinate, size):
    """{input position: weight} of one output position."""
    mode = a.get("mode", "nearest")
    low = math.floor(coordinate)
    if mode == "nearest":
        taps = {_nearest(coordinate, a.get("nearest_mode", "round_prefer_floor")): Fraction(1)}
    elif mode == "linear":
        taps = {low: 1 - (coordinate - low), low + 1: coordinate - low}
    elif mode == "cubic":
        coefficient = number(a.get("cubic_coeff_a", -0.75))
        taps = {low + k: _cubic(coordinate - low - k, coefficient) for k in (-1, 0, 1, 2)}
    else:
        raise NotImplementedError(mode)
    if a.get("exclude_outside", 0):
        taps = {p: w for p, w in taps.items() if 0 <= p < size}
        whole = sum(taps.values())
        taps = {p: w / whole for p, w in taps.items()}
    clamped = {}
    for p, w in taps.items():
        p = min(max(p, 0), size - 1)
        clamped[p] = clamped.get(p, Fraction(0)) + w
    return clamped


def _geometry(a, x, axes, opset):
    """Scales, output lengths and regions of the axes that change."""
    data = x[0]
    old = opset < 11
    given = [x[k] if len(x) > k and x[k] is not None and x[k].size else None for k in range(4)]
    scales, sizes = (given[1], None) if old else (given[2], given[3])
    roi = [(given[1][k], given[1][len(axes) + k]) if not old and given[1] is not None else None for k in range(len(axes))]
    shape = [data.shape[k] for k in axes]
    if scales is not None:
        scales = list(scales)
        lengths = []
        for n, s, r in zip(shape, scales, roi):
            part = r[1] - r[0] if r and a.get("coordinate_transformation_mode") == "tf_crop_and_resize" else 1
            lengths.append(math.floor(n * part * s))
        return scales, lengths, roi
    lengths = [int(v) for v in sizes]
    scales = [Fraction(m, n) for m, n in zip(lengths, shape)]
    policy = a.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        common = min(scales) if policy == "not_larger" else max(scales)
        scales = [common] * len(axes)
        lengths = [math.floor(common * n + Fraction(1, 2)) for n in shape]
    return scales, lengths, roi


def resize(a, x, opset):
    if a.get("antialias", 0):
        raise NotImplementedError("antialias")
    out = x[0]
    axes = [k % out.ndim for k in a.get("axes") or range(out.ndim)]
    mode = a.get("coordinate_transformation_mode", "half_pixel" if opset >= 11 else "asymmetric")
    if opset < 11:
        a = {**a, "nearest_mode": "floor"}
    scales, lengths, roi = _geometry(a, x, axes, opset)
    outside = np.zeros((), dtype=bool)
    for axis, scale, length, region in zip(axes, scales, lengths, roi):
        size = out.shape[axis]
        if mode != "tf_crop_and_resize" and length == size and scale == 1:
            continue
        rows, crossed = [], []
        for k in range(length):
            at = _source(mode, k, scale, size, length, region)
            crossed.append(mode == "tf_crop_and_resize" and not 0 <= at <= size - 1)
            taps = _weights(a, at, size)
            rows.append(sum((out.take(p, axis=axis) * w for p, w in taps.items())))
        out = np.stack([np.asarray(r, dtype=object) for r in rows], axis)
        outside = outside | np.array(crossed).reshape([-1 if k == axis else 1 for k in range(out.ndim)])
    if outside.any():
        out = np.where(outside, number(a.get("extrapolation_value", 0.0)), out)
    return [out]


OPERATORS = {"Resize": resize, "Upsample": lambda a, x, opset: resize(a, x, 10)}
