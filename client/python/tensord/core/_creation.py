"""Tensors made from numbers and from parts: complex, polar, logspace, indices of triangles."""

import math
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops


def _pair(function, a, b, names):
    for x, name in ((a, names[0]), (b, names[1])):
        if not _C.is_tensor(x):
            raise _C.DTypeError(f"{function}(): argument '{name}' must be Tensor, not {_C._a_type(x)}")
    if a.dtype not in (_C.float32, _C.float64) or b.dtype not in (_C.float32, _C.float64):
        halves = ": there is no complex32" if _C.float16 in (a.dtype, b.dtype) else ""
        raise _C.DTypeError(f"{function}(): Expected both inputs to be float32 or float64 tensors but got {a.dtype} and {b.dtype}{halves}")
    if a.dtype is not b.dtype:
        raise _C.DTypeError(f"{function}(): Expected object of dtype {a.dtype} but got {b.dtype} for second argument, '{names[1]}'")


def _join(real, imag):
    """The pairs of their numbers, as they are."""
    return _C.view_as_complex(_C.stack(ops.broadcast_tensors((real, imag)), -1))


@_overloads._exactly
def complex(real: Tensor, imag: Tensor) -> Any:
    """The complex tensor with these real and imaginary parts."""
    _pair("complex", real, imag, ("real", "imag"))
    return _join(real, imag)


@_overloads._exactly
def polar(abs: Tensor, angle: Tensor) -> Any:
    """The complex tensor with these sizes and angles."""
    _pair("polar", abs, angle, ("abs", "angle"))
    return _join(abs * ops.cos(angle), abs * ops.sin(angle))


@_overloads._exactly
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """steps powers of base, their exponents evenly spaced from start to end, both included."""
    start, end = _overloads._ends("logspace", start, end)

    def make():
        kind = dtype or _overloads._number_dtype(1.0, start, end)
        whole = not (kind.is_floating_point or kind.is_complex)
        ends = (int(start), int(end)) if whole else (start, end)
        exponents = _overloads.linspace(*ends, steps, _C.complex128 if kind.is_complex else _C.float64)
        return ops.pow(base, exponents).to(kind)

    return _overloads._made(device, requires_grad, make)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of this shape and these strides, with whatever its memory holds."""
    return _overloads._made(device, requires_grad, ops.empty_strided, tuple(size), tuple(stride), dtype or _C.get_default_dtype())


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor without dimensions."""
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


def _indices(triangle, name, row, col, offset, dtype, device):
    if row < 0 or col < 0:
        raise _C.InvalidError(f"{name}: row and col must be non-negative, got {row} and {col}")
    places = _overloads._made("cpu", False, lambda: ops.nonzero(triangle(ops.make_full((row, col), True, _C.bool), offset)).t().contiguous().to(dtype or _C.int64))
    return places.to(_C.get_default_device() if device is None else device)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the lower triangle of a matrix."""
    return _indices(ops.tril, "tril_indices", row, col, offset, dtype, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the upper triangle of a matrix."""
    return _indices(ops.triu, "triu_indices", row, col, offset, dtype, device)


def _strides_in(size, order):
    """Strides of what lies in this order of dimensions, from the outermost in."""
    return tuple(math.prod(size[d] for d in order[order.index(i) + 1:]) for i in range(len(size)))


def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of this shape whose dimensions lie in memory in the order of physical_layout, with whatever its memory holds."""
    size, order = tuple(size), [int(d) for d in physical_layout]
    if sorted(order) != list(range(len(size))):
        raise _C.InvalidError(f"empty_permuted(): physical_layout must name each of {len(size)} dimensions once, not {tuple(order)}")
    return _overloads._made(device, requires_grad, ops.empty_strided, size, _strides_in(size, order), dtype or _C.get_default_dtype())


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> Tensor:
    """A tensor of numbers out of bytes: `count` of them (-1: all) from `offset` on. A copy, unlike PyTorch's.

    Raises InvalidError for an empty buffer, a part that is not there, and bytes that are no whole numbers.
    """
    view, size = memoryview(buffer).cast("B"), dtype.itemsize
    if not len(view) or count == 0:
        raise _C.InvalidError(f"both buffer length ({len(view)}) and count ({count}) must not be 0")
    if not 0 <= offset < len(view):
        raise _C.InvalidError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({len(view)} bytes) minus 1")
    if count < 0 and (len(view) - offset) % size:
        raise _C.InvalidError(f"buffer length ({len(view) - offset} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})")
    n = (len(view) - offset) // size if count < 0 else count
    if offset + n * size > len(view):
        raise _C.InvalidError(f"requested buffer length ({n} * {size} bytes) after offset ({offset} bytes) must not be greater than actual buffer length ({len(view)} bytes)")
    made: Any = _C.empty(n, dtype=dtype, device="cpu")
    with made.view(_C.uint8).writing() as bytes_:
        memoryview(bytes_).cast("B")[:] = view[offset : offset + n * size]
    return made.requires_grad_() if requires_grad else made
