"""New tensors, with the standard's arguments."""

import operator

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops


def _shape(shape):
    return tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else (operator.index(shape),)


def _float(dtype):
    return _C.get_default_dtype() if dtype is None else dtype


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """A tensor of nested data, of an array of another library, or of a tensor, which is taken as it is unless copy=True."""
    try:
        return _C.asarray(obj, dtype, device=device, copy=copy)
    except _C.InvalidError as e:
        raise ValueError(str(e)) from None


def from_dlpack(x, /, *, device=None, copy=None):
    """A tensor of what another library shows by DLPack; that is copied."""
    return _C.from_dlpack(x, device=device, copy=copy)


def empty(shape, *, dtype=None, device=None):
    """A tensor of this shape with whatever its memory holds."""
    return _overloads._made(device, None, ops.empty, _shape(shape), _float(dtype))


def full(shape, fill_value, *, dtype=None, device=None):
    """A tensor of this shape filled with a number."""
    return _overloads.full(_shape(shape), fill_value, dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """A tensor of this shape filled with zeros."""
    return _overloads.full(_shape(shape), 0, _float(dtype), device=device)


def ones(shape, *, dtype=None, device=None):
    """A tensor of this shape filled with ones."""
    return _overloads.full(_shape(shape), 1, _float(dtype), device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """A tensor of the same shape and dtype with whatever its memory holds."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """A number in the same shape and dtype."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros of the same shape and dtype."""
    return full(x.shape, 0, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones of the same shape and dtype."""
    return full(x.shape, 1, dtype=dtype or x.dtype, device=device or x.device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, ... up to but not including stop; arange(stop) starts at 0. Empty when the step leads away."""
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ValueError("arange(): the step must not be 0")
    if (stop - start) * step <= 0:
        return empty((0,), dtype=dtype or _overloads._number_dtype(start, stop, step), device=device)
    return _overloads.arange(start, stop, step, dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` numbers evenly spaced from start to stop, which is the last of them unless endpoint=False."""
    if endpoint:
        return _overloads.linspace(start, stop, num, dtype, device=device)
    return _overloads.linspace(start, stop, num + 1, dtype, device=device)[:num]


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the k-th diagonal of a matrix, zeros elsewhere."""
    made = zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    made[max(-k, 0) :, max(k, 0) :].diagonal().fill_(1)
    return made


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid from those of its sides."""
    if not arrays:
        return ()
    return _overloads.meshgrid(*arrays, indexing=indexing)


def tril(x, /, *, k=0):
    """The lower triangle up to the k-th diagonal, zeros above."""
    return ops.tril(x, k)


def triu(x, /, *, k=0):
    """The upper triangle from the k-th diagonal on, zeros below."""
    return ops.triu(x, k)
