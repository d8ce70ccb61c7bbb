"""Functions of each element, with the standard's signatures. A number may stand for one of two operands."""

from tensord import _C
from tensord._C import ops
from tensord.array_api import _dtypes
from tensord.array_api._ops import BINARY as _BINARY
from tensord.array_api._ops import UNARY

# What stands below says these otherwise.
_OTHERWISE = {"sign", "clip", "astype"}
_UNARY = {name: op for name, op in UNARY.items() if name not in _OTHERWISE}


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


globals().update({name: _unary(name, getattr(ops, op)) for name, op in _UNARY.items()})
globals().update({name: _binary(name, getattr(ops, op)) for name, op in _BINARY.items()})


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


__all__ = [*_UNARY, *_BINARY, "positive", "sign", "clip"]
