"""Exact numbers for the node tests: arrays of fractions, and their one rounding to a float type.

A float array becomes a NumPy object array whose elements are Fractions; infinities and NaN stay Python floats, which
Python's arithmetic combines with Fractions as IEEE 754 says.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np

# Bits of the real functions: more than twice what any output type holds, with room for cancellation.
mpmath.mp.prec = 400

INF = math.inf
NAN = math.nan

# significant bits, exponent of the lowest bit, greatest finite exponent
_FORMATS = {"float16": (11, -24, 16), "bfloat16": (8, -133, 128), "float32": (24, -149, 128), "float64": (53, -1074, 1024)}


def is_float(dtype):
    """The four types in which operators compute."""
    return np.dtype(dtype).name in _FORMATS


def exact(array):
    """Object array of the numbers that a float or integer array holds."""

    def number(x):
        if isinstance(x, Fraction):
            return x
        value = float(x) if not isinstance(x, (int, np.integer)) else int(x)
        return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)

    array = np.asarray(array)
    out = np.empty(array.shape, dtype=object)
    flat = out.reshape(-1)
    for i, x in enumerate(array.reshape(-1)):
        flat[i] = number(x)
    return out


def nearest(x, dtype):
    """The number of the type nearest to x, ties to even, overflow to infinity: a float, which holds it exactly."""
    if isinstance(x, float) and not math.isfinite(x):
        return x
    x = Fraction(x)
    if x == 0:
        return 0.0
    precision, lowest, limit = _FORMATS[np.dtype(dtype).name]
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = max(exponent - precision + 1, lowest)
    steps = round(size / Fraction(2) ** step)  # half to even
    if steps * Fraction(2) ** step >= Fraction(2) ** limit:
        return math.copysign(INF, x)
    return math.copysign(math.ldexp(steps, step), x)


def rounded(array, dtype):
    """An object array rounded once to a float type."""
    array = np.asarray(array, dtype=object)
    values = [nearest(x, dtype) for x in array.reshape(-1)]
    with np.errstate(all="ignore"):
        return np.array(values, dtype=np.float64).astype(dtype).reshape(array.shape)


def each(function):
    """Applies a scalar function to object arrays, with broadcasting."""
    count = function.__code__.co_argcount
    lifted = np.frompyfunc(function, count, 1)
    return lambda *arrays: np.asarray(lifted(*arrays), dtype=object)


def to_mp(x):
    return mpmath.mpf(x) if isinstance(x, float) else mpmath.mpf(x.numerator) / x.denominator


def from_mp(x):
    if isinstance(x, mpmath.mpc):
        return NAN
    if mpmath.isnan(x):
        return NAN
    if mpmath.isinf(x):
        return INF if x > 0 else -INF
    return Fraction(*map(int, mpmath.libmp.to_rational(x._mpf_)))


def real(function):
    """A real function of one number, given for mpmath, as a function of Fractions."""

    def call(x):
        if isinstance(x, float) and math.isnan(x):
            return NAN
        return from_mp(function(to_mp(x)))

    return call


def divide(a, b):
    """IEEE 754's quotient."""
    if b != 0:
        return 0 * Fraction(0) if isinstance(b, float) and math.isinf(b) and not isinstance(a, float) else a / b
    if a == 0 or a != a:
        return NAN
    return INF if a > 0 else -INF


def sqrt(x):
    if x != x or x < 0:
        return NAN
    if not isinstance(x, float):
        top, bottom = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if top * top == x.numerator and bottom * bottom == x.denominator:
            return Fraction(top, bottom)
    return real(mpmath.sqrt)(x)


def log(x):
    if x != x or x < 0:
        return NAN
    return -INF if x == 0 else real(mpmath.log)(x)


exp = real(mpmath.exp)


def scaled_integers(array):
    """(integers, scale) with array = integers * scale: long sums are far quicker so. None if it holds a non-number."""
    flat = array.reshape(-1)
    if any(isinstance(x, float) for x in flat):
        return None
    common = math.lcm(*{x.denominator for x in flat}) if len(flat) else 1
    out = np.empty(array.shape, dtype=object)
    view = out.reshape(-1)
    for i, x in enumerate(flat):
        view[i] = x.numerator * (common // x.denominator)
    return out, Fraction(1, common)


def contract(equation, a, b):
    """einsum of two exact arrays."""
    whole_a, whole_b = scaled_integers(a), scaled_integers(b)
    if whole_a is None or whole_b is None:
        return np.asarray(np.einsum(equation, a, b), dtype=object)
    scale = whole_a[1] * whole_b[1]
    return np.asarray(np.einsum(equation, whole_a[0], whole_b[0]), dtype=object) * scale


def total(array, axes, keepdims=True):
    """Sum over axes."""
    whole = scaled_integers(array)
    if whole is None:
        return np.asarray(np.sum(array, axis=axes, keepdims=keepdims), dtype=object)
    return np.asarray(np.sum(whole[0], axis=axes, keepdims=keepdims), dtype=object) * whole[1]
