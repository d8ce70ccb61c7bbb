"""How the elements of a tensor lie: `tensord.memory_format` and `tensord.layout`, as PyTorch names them.

    y = x.to(memory_format=td.channels_last)     # (N, C, H, W), and in memory the channels of a pixel side by side

What is made of it element by element, by convolutions, pools, batch norms, interpolation, cat, pad and dropout lies so, too; what other ops make lies
row after row. Copies (clone(), to(), float(), zeros_like(), ...) lie as what they are made of, which preserve_format says; contiguous_format says row
after row, and so do copies inside of programs (tensord.jit) and files. Values are the same in any format.
"""

import functools
from collections.abc import Callable
from typing import Any

from tensord import _C
from tensord.core._overloads import _leaf
from tensord._C import ops


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"tensord.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(_Named):
    """How the elements of a dense tensor lie: one of tensord.contiguous_format, preserve_format, channels_last, channels_last_3d."""


class layout(_Named):
    """What a tensor is made of. All are tensord.strided; the others are there to be compared with."""


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = map(layout, ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"))

NUMBERS = {contiguous_format: 0, preserve_format: 1, channels_last: 2, channels_last_3d: 3}  # as programs have them

_ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}  # dimensions from the outermost in


def _order(format: Any, function: str) -> tuple[int, ...] | None:
    """None: row after row."""
    if not isinstance(format, memory_format):
        raise TypeError(f"{function}(): argument 'memory_format' must be tensord.memory_format, not {type(format).__name__}")
    return _ORDERS.get(format)


def _layout_of(x: _C.Tensor) -> layout:
    return strided


def _is_laid(x: _C.Tensor, format: Any) -> bool:
    order = _order(format, "is_contiguous")
    return x.is_contiguous() if order is None else x.ndim == len(order) and x.permute(order).is_contiguous()


def _laid_out(made: _C.Tensor, format: Any, layout: Any, function: str, given: Any) -> _C.Tensor:
    """What a function made, in the format that it was asked for; `given`: what may be returned as it is."""
    if layout not in (None, strided):
        raise _C.Unsupported(f"{function}(): tensors are dense here; layout can be tensord.strided only, not {layout!r}")
    order = None if format is None else _order(format, function)
    if order is None:
        if format is contiguous_format and given is not None and given.is_contiguous():
            return given
        return made.contiguous() if format is contiguous_format else made
    if made.ndim != len(order):
        raise _C.ShapeError(f"{function}(): required rank {len(order)} tensor to use {format!r} format, but it has {made.ndim} dimensions")
    if given is not None and _is_laid(given, format):
        return given
    return ops.copy_last(made)


def _laid_as(like: _C.Tensor, made: _C.Tensor) -> _C.Tensor:
    """What was made of the shape of `like`: channels last where that lies so."""
    last = like.ndim in (4, 5) and not like.is_contiguous() and _is_laid(like, channels_last if like.ndim == 4 else channels_last_3d)
    return ops.copy_last(made) if last else made


def _laid_to(x: _C.Tensor, format: Any) -> _C.Tensor:
    """x.to(memory_format=format)"""
    return _laid_out(x, format, None, "to", x)


def _taking(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a tensor, with layout=, memory_format= and pin_memory=, of which nothing comes: memory is shared."""

    @functools.wraps(make)
    def made(*args: Any, layout: Any = None, memory_format: Any = None, pin_memory: bool = False, requires_grad: bool = False, **kw: Any) -> Any:
        if not isinstance(pin_memory, bool):
            raise _C.DTypeError(f"{made.__name__}(): argument 'pin_memory' must be bool, not {type(pin_memory).__name__}")
        if layout is None and memory_format is None:
            return make(*args, requires_grad=requires_grad, **kw)
        return _leaf(_laid_out(make(*args, **kw), memory_format, layout, made.__name__, None), requires_grad)

    return made
