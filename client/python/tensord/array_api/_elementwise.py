"""Functions of each element, with the standard's signatures. A number may stand for one of two operands."""

from tensord import _C
from tensord._C import ops
from tensord.array_api import _dtypes

_UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "bitwise_invert": "bitwise_not",
    "ceil": "ceil", "conj": "conj", "cos": "cos", "cosh": "cosh", "exp": "exp", "expm1": "expm1", "floor": "floor", "imag": "imag",
    "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2",
    "logical_not": "logical_not", "negative": "neg", "real": "real", "reciprocal": "reciprocal", "round": "round",
    "signbit": "signbit", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "tan": "tan", "tanh": "tanh",
    "trunc": "trunc", "abs": "abs",
}
_BINARY = {
    "add": "add", "atan2": "atan2", "bitwise_and": "bitwise_and", "bitwise_left_shift": "bitwise_left_shift", "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor", "copysign": "copysign", "divide": "div", "equal": "eq",
    "floor_divide": "floor_divide", "greater": "gt", "greater_equal": "ge", "hypot": "hypot", "less": "lt", "less_equal": "le",
    "logaddexp": "logaddexp", "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "maximum": "maximum", "minimum": "minimum", "multiply": "mul", "nextafter": "nextafter", "not_equal": "ne", "pow": "pow",
    "remainder": "remainder", "subtract": "sub",
}


def _named(function, name, op):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (getattr(op, "__doc__", None) or "").rpartition("\n\n")[2] or f"See tensord.ops.{name}."
    return function


def _unary(name, op):
    def function(x, /):
        return op(x)

    return _named(function, name, op)


def _binary(name, op):
    def function(x1, x2, /):
        # Elements decide the dtype, not dimensions: a 0-d tensor counts as much as another.
        if isinstance(x1, _C.Tensor) and isinstance(x2, _C.Tensor) and x1.dtype is not x2.dtype and not (x1.ndim and x2.ndim):
            x1, x2 = _dtypes.together(x1, x2)
        return op(x1, x2)

    return _named(function, name, op)


globals().update({name: _unary(name, getattr(ops, op)) for name, op in _UNARY.items() if hasattr(ops, op)})
globals().update({name: _binary(name, getattr(ops, op)) for name, op in _BINARY.items() if hasattr(ops, op)})


def positive(x, /):
    """The same elements."""
    return x.clone()


def sign(x, /):
    """-1, 0 or 1 by the sign of each element; of complex ones x / abs(x). NaN stays."""
    if x.dtype.is_complex:
        return ops.where(x == 0, 0, x / ops.abs(x))
    return ops.where(x != x, x, ops.sign(x)) if x.dtype.is_floating_point else ops.sign(x)


def clip(x, /, min=None, max=None):
    """Each element held between min and max: numbers, or tensors of a shape that fits. The dtype is that of x."""
    for bound, hold in ((min, ops.maximum), (max, ops.minimum)):
        if bound is not None:
            x = hold(x, bound.to(x.dtype) if isinstance(bound, _C.Tensor) else bound).to(x.dtype)
    return x


__all__ = [n for n in (*_UNARY, *_BINARY, "positive", "sign", "clip") if n in globals()]
