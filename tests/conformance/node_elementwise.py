"""Elementwise float operators and reductions as exact functions of exact numbers.

Each entry takes (attributes, inputs, opset) and returns the outputs, unrounded.
"""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np

from node_numbers import INF, NAN, divide, each, exp, log, real, sqrt, total


def _number(x):
    """The exact value of a float attribute, which ONNX keeps as float32."""
    return Fraction(float(np.float32(x)))


def _is_nan(x):
    return x != x


def _inside(function, low, high):
    """A real function with a domain."""
    inner = real(function)
    return lambda x: NAN if _is_nan(x) or not low <= x <= high else inner(x)


def _whole(function):
    return lambda x: x if isinstance(x, float) else Fraction(function(x))


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x)) if x >= 0 else mp.exp(x) / (1 + mp.exp(x))


def _softplus(x):
    return x + mp.log1p(mp.exp(-x)) if x > 0 else mp.log1p(mp.exp(x))


def _gelu(x):
    return x if x == mp.inf else mp.mpf(0) if x == -mp.inf else x * mp.erfc(-x / mp.sqrt(2)) / 2


def _gelu_tanh(x):
    inner = mp.sqrt(2 / mp.pi) * (x + mp.mpf(44715) / 1000000 * x**3)
    return x * _sigmoid(2 * inner)


def _clamp(x, low, high):
    return x if _is_nan(x) else max(low, min(high, x))


def power(x, y):
    if y == 0 or x == 1:
        return Fraction(1)
    if _is_nan(x) or _is_nan(y):
        return NAN
    if not isinstance(x, float) and not isinstance(y, float):
        if y.denominator == 1 and abs(y) < 10000:
            return divide(Fraction(1), x ** -int(y)) if y < 0 else x ** int(y)
        if x == 0:
            return Fraction(0) if y > 0 else INF
        if x < 0:
            return NAN
        root = sqrt(x)
        if abs(y) == Fraction(1, 2):
            return root if y > 0 else 1 / root
        return real(lambda b: mp.power(b, mp.mpf(y.numerator) / y.denominator))(x)
    value = float(x) ** float(y)
    return value if not math.isfinite(value) else Fraction(value)


def modulo(fmod):
    def f(x, y):
        if _is_nan(x) or _is_nan(y) or y == 0 or abs(x) == INF:
            return NAN
        if abs(y) == INF:
            return x if fmod or x == 0 or (x > 0) == (y > 0) else y
        quotient = x / y
        return x - y * (math.trunc(quotient) if fmod else math.floor(quotient))

    return f


def _extreme(choose):
    def f(x, y):
        return NAN if _is_nan(x) or _is_nan(y) else choose(x, y)

    return each(f)


least, greatest = _extreme(min), _extreme(max)

# One float tensor in, one out: name -> attributes -> function of a number.
UNARY = {
    "Abs": lambda a: abs,
    "Neg": lambda a: lambda x: -x,
    "Sign": lambda a: lambda x: x if _is_nan(x) else Fraction((x > 0) - (x < 0)),
    "Ceil": lambda a: _whole(math.ceil),
    "Floor": lambda a: _whole(math.floor),
    "Round": lambda a: _whole(round),
    "Reciprocal": lambda a: lambda x: divide(Fraction(1), x),
    "Sqrt": lambda a: sqrt,
    "Exp": lambda a: exp,
    "Log": lambda a: log,
    "Sin": lambda a: real(mp.sin),
    "Cos": lambda a: real(mp.cos),
    "Tan": lambda a: real(mp.tan),
    "Sinh": lambda a: real(mp.sinh),
    "Cosh": lambda a: real(mp.cosh),
    "Tanh": lambda a: real(mp.tanh),
    "Asin": lambda a: _inside(mp.asin, -1, 1),
    "Acos": lambda a: _inside(mp.acos, -1, 1),
    "Atan": lambda a: real(mp.atan),
    "Asinh": lambda a: real(mp.asinh),
    "Acosh": lambda a: _inside(mp.acosh, 1, INF),
    "Atanh": lambda a: _inside(mp.atanh, -1, 1),
    "Erf": lambda a: real(mp.erf),
    "Sigmoid": lambda a: real(_sigmoid),
    "Softplus": lambda a: real(_softplus),
    "Softsign": lambda a: lambda x: x / (1 + abs(x)),
    "Gelu": lambda a: real(_gelu_tanh if a.get("approximate") == "tanh" else _gelu),
    "Mish": lambda a: real(lambda x: x * mp.tanh(_softplus(x))),
    "Relu": lambda a: lambda x: x if _is_nan(x) or x > 0 else Fraction(0),
}


def _with(a, name, default):
    return _number(a.get(name, default))


def _swish(a):
    alpha = _with(a, "alpha", 1.0)
    return real(lambda x: x * _sigmoid(x * alpha.numerator / alpha.denominator))


def _exponential(a, alpha, gamma):
    alpha, gamma = _with(a, "alpha", alpha), _with(a, "gamma", gamma)
    below = real(mp.expm1)
    return lambda x: gamma * (x if _is_nan(x) or x > 0 else alpha * below(x))


def _celu(a):
    alpha = _with(a, "alpha", 1.0)
    below = real(mp.expm1)
    return lambda x: x if _is_nan(x) or x > 0 else alpha * below(x / alpha)


def _hard_sigmoid(a):
    alpha, beta = _with(a, "alpha", 0.2), _with(a, "beta", 0.5)
    return lambda x: _clamp(alpha * x + beta, Fraction(0), Fraction(1))


def _shrink(a):
    bias, lambd = _with(a, "bias", 0.0), _with(a, "lambd", 0.5)
    return lambda x: x + bias if x < -lambd else x - bias if x > lambd else Fraction(0)


def _leaky(a):
    alpha = _with(a, "alpha", 0.01)
    return lambda x: x if _is_nan(x) or x >= 0 else alpha * x


def _thresholded(a):
    alpha = _with(a, "alpha", 1.0)
    return lambda x: x if x > alpha else Fraction(0)


UNARY |= {
    "Swish": _swish,
    "Elu": lambda a: _exponential({k: v for k, v in a.items() if k == "alpha"}, 1.0, 1.0),
    "Selu": lambda a: _exponential(a, 1.67326319217681884765625, 1.05070102214813232421875),
    "Celu": _celu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda a: lambda x: x * _clamp(x / 6 + Fraction(1, 2), Fraction(0), Fraction(1)),
    "Shrink": _shrink,
    "LeakyRelu": _leaky,
    "ThresholdedRelu": _thresholded,
}

BINARY = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": divide,
    "Pow": power,
    "PRelu": lambda x, y: x if _is_nan(x) or x >= 0 else x * y,
}


def _fold(combine):
    def f(a, x, opset):
        out = x[0]
        for more in x[1:]:
            out = combine(out, more)
        return [out]

    return f


def _sum(a, x, opset):
    return _fold(lambda p, q: p + q)(a, x, opset)


def _clip(a, x, opset):
    out = x[0]
    for k, name, choose in ((1, "min", greatest), (2, "max", least)):
        bound = x[k] if len(x) > k and x[k] is not None else _number(a[name]) if name in a else None
        if bound is not None:
            out = choose(out, bound)
    return [out]


def _reduce(values):
    """values(x, axes) reduces with the axes kept."""

    def f(a, x, opset):
        data = x[0]
        axes = x[1] if len(x) > 1 and x[1] is not None else a.get("axes")
        if axes is None or len(axes) == 0:
            if a.get("noop_with_empty_axes", 0):
                return [values(data, ())]
            axes = range(data.ndim)
        axes = tuple(sorted(int(k) % max(data.ndim, 1) for k in axes))
        out = values(data, axes)
        return [out if a.get("keepdims", 1) else np.asarray(out, dtype=object).reshape(
            [n for k, n in enumerate(data.shape) if k not in axes])]

    return f


def _count(data, axes):
    return math.prod(data.shape[k] for k in axes)


def _over(combine, start):
    ufunc = np.frompyfunc(combine, 2, 1)

    def f(data, axes):
        for axis in axes:
            data = np.asarray(ufunc.reduce(data, axis=axis, keepdims=True, initial=start), dtype=object)
        return data

    return f


def _nan_or(choose):
    return lambda x, y: NAN if _is_nan(x) or _is_nan(y) else choose(x, y)


def mean(data, axes):
    count = _count(data, axes)
    return total(data, axes) / Fraction(count) if count else np.full(
        [1 if k in axes else n for k, n in enumerate(data.shape)], NAN, dtype=object)


def log_sum_exp(data, axes):
    top = _over(_nan_or(max), -INF)(data, axes)
    shift = each(lambda x: x if not isinstance(x, float) else Fraction(0))(top)
    return each(log)(total(each(exp)(data - shift), axes)) + shift


REDUCE = {
    "ReduceSum": total,
    "ReduceMean": mean,
    "ReduceMax": _over(_nan_or(max), -INF),
    "ReduceMin": _over(_nan_or(min), INF),
    "ReduceProd": _over(lambda x, y: x * y, Fraction(1)),
    "ReduceL1": lambda x, axes: total(abs(x), axes),
    "ReduceL2": lambda x, axes: each(sqrt)(total(x * x, axes)),
    "ReduceSumSquare": lambda x, axes: total(x * x, axes),
    "ReduceLogSum": lambda x, axes: each(log)(total(x, axes)),
    "ReduceLogSumExp": log_sum_exp,
}


def _softmax(last_step):
    def f(a, x, opset):
        data = x[0]
        axis = a.get("axis", -1 if opset >= 13 else 1)
        if opset < 13:  # everything from the axis inwards is one row
            shaped = data.reshape(math.prod(data.shape[: axis % data.ndim]), -1)
            return [last_step(shaped, 1).reshape(data.shape)]
        return [last_step(data, axis % data.ndim)]

    return f


def _share(data, axis):
    top = _over(_nan_or(max), -INF)(data, (axis,))
    powers = each(exp)(data - top)
    return each(divide)(powers, total(powers, (axis,)))


OPERATORS = {
    "Sum": _sum,
    "Mean": lambda a, x, opset: [_sum(a, x, opset)[0] / Fraction(len(x))],
    "Max": _fold(greatest),
    "Min": _fold(least),
    "Mod": lambda a, x, opset: [each(modulo(a.get("fmod", 0)))(x[0], x[1])],
    "Clip": _clip,
    "Softmax": _softmax(_share),
    "LogSoftmax": _softmax(lambda data, axis: data - log_sum_exp(data, (axis,))),
}
OPERATORS |= {k: lambda a, x, opset, f=f: [each(_named(f(a)))(x[0])] for k, f in UNARY.items()}
OPERATORS |= {k: lambda a, x, opset, f=f: [each(f)(x[0], x[1])] for k, f in BINARY.items()}
OPERATORS |= {k: _reduce(f) for k, f in REDUCE.items()}


def _named(function):
    """A plain function of one argument (builtins do not say how many they take)."""
    return lambda x: function(x)
