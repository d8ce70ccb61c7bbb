"""Sorting, searching, sets. What a tensor holds decides shapes here, so some of these wait for the daemon."""

from collections import namedtuple

from tensord import _C
from tensord._C import ops
from tensord.array_api import _dtypes
from tensord.array_api._shapes import wrap_axis


def argmax(x, /, *, axis=None, keepdims=False):
    """Where the largest element stands."""
    return ops.argmax(x, None if axis is None else wrap_axis(axis, x.ndim), keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the smallest element stands."""
    return ops.argmin(x, None if axis is None else wrap_axis(axis, x.ndim), keepdims)


def where(condition, x1, x2, /):
    """x1 where the condition holds, else x2."""
    if isinstance(x1, _C.Tensor) and isinstance(x2, _C.Tensor):
        x1, x2 = _dtypes.together(x1, x2)
    return ops.where(condition, x1, x2)


def nonzero(x, /):
    """The places of the elements that are not zero: one tensor a dimension."""
    if not x.ndim:
        raise ValueError("nonzero(): a 0-d tensor has no places")
    return tuple(ops.nonzero(x).unbind(1))


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted along a dimension, always stably."""
    return ops.sort(x, wrap_axis(axis, x.ndim), descending)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The places of the elements in sorted order, always stable."""
    return ops.sort(x, wrap_axis(axis, x.ndim), descending)[1]


def _counted_from_start(indices, size):
    indices = indices if indices.dtype in (_C.int64, _C.int32) else indices.to(_C.int64)
    return ops.where(indices < 0, indices + size, indices)


def take(x, indices, /, *, axis=None):
    """The parts at these indices along a dimension."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take(): axis is needed unless there is one dimension; here are {x.ndim}")
    axis = wrap_axis(0 if axis is None else axis, x.ndim)
    flat = _counted_from_start(indices.reshape(-1), x.shape[axis])
    taken = ops.index_select(x, axis, flat)
    return taken if indices.ndim == 1 else taken.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def take_along_axis(x, indices, /, *, axis=-1):
    """For each index the element of x at it along the axis and at the index's own place elsewhere; other dimensions broadcast."""
    axis = wrap_axis(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis(): {x.ndim} dimensions and {indices.ndim} of the indices; they must be the same")
    return ops.take_along_dim(x, indices if indices.dtype in (_C.int64, _C.int32) else indices.to(_C.int64), axis)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where in the sorted x1 each element of x2 would be put: before those equal to it, or (side='right') behind them."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side must be 'left' or 'right', not {side!r}")
    if not isinstance(x2, _C.Tensor):
        x2 = _C.asarray(x2, _dtypes.result_type(x1, x2), device=x1.device)
    if sorter is not None:
        x1 = take(x1, sorter)
    return ops.searchsorted(*_dtypes.together(x1, x2), side == "right")


# ---- sets


unique_all_result = namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = namedtuple("unique_counts_result", "values counts")
unique_inverse_result = namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
    """The different elements, where each stands first, which of them each element is, and how often each is there."""
    return unique_all_result(*ops.unique_all(x))


def unique_counts(x, /):
    """The different elements and how often each is there."""
    return unique_counts_result(*ops.unique_counts(x))


def unique_inverse(x, /):
    """The different elements and which of them each element is."""
    return unique_inverse_result(*ops.unique_inverse(x))


def unique_values(x, /):
    """The different elements."""
    return ops.unique(x)


def isin(x1, x2, /, *, invert=False):
    """Is each element of x1 (not, with invert) among those of x2?"""
    first = x1 if isinstance(x1, _C.Tensor) else x2
    x1, x2 = (x if isinstance(x, _C.Tensor) else _C.asarray(x, _dtypes.result_type(x1, x2), device=first.device) for x in (x1, x2))
    return ops.isin(*_dtypes.together(x1, x2), invert)
