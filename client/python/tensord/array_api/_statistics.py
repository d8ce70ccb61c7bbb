"""Sums, means and extremes; truth of many elements; sums and products so far."""

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.array_api import _dtypes
from tensord.array_api._shapes import _axes, wrap_axis


def _dims(x, axis):
    """The dimensions an axis argument names, as a tuple; None is all of them."""
    if axis is None:
        return None
    places = tuple(wrap_axis(a, x.ndim) for a in _axes(axis))
    if len(set(places)) < len(places):
        raise ValueError(f"an axis is named twice: {axis}")
    return places


def _over(x, axis, keepdims, op, *more):
    dims = _dims(x, axis)
    return x.clone() if dims == () else op(x, dims, keepdims, *more)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum; whole numbers add up in int64, or uint64 when they have no sign, unless a dtype is given."""
    dtype = dtype or _dtypes.summed(x.dtype)
    if axis == ():
        return x.to(dtype, copy=True)
    return ops.sum(x, _dims(x, axis), keepdims, dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product; whole numbers multiply in int64, or uint64 when they have no sign, unless a dtype is given."""
    dtype = dtype or _dtypes.summed(x.dtype)
    dims = _dims(x, axis)
    if dims is None:
        return ops.prod(x, None, keepdims, dtype)
    x = x.to(dtype)
    for dim in sorted(dims, reverse=True):
        x = ops.prod(x, dim, keepdims, dtype)
    return x


def mean(x, /, *, axis=None, keepdims=False):
    """The mean."""
    return _over(x, axis, keepdims, ops.mean)


def max(x, /, *, axis=None, keepdims=False):
    """The largest element."""
    return _over(x, axis, keepdims, ops.amax)


def min(x, /, *, axis=None, keepdims=False):
    """The smallest element."""
    return _over(x, axis, keepdims, ops.amin)


def _spread(op, x, axis, correction, keepdims):
    dims = _dims(x, axis)
    if dims == ():  # of one element each: no list of dimensions says that to an op
        return op(ops.unsqueeze(x, 0), (0,), float(correction), False)
    return op(x, dims, float(correction), keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance, with n - correction in the denominator."""
    return _spread(ops.var, x, axis, correction, keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation, with n - correction in the denominator; where it is 0, its gradient counts as 0."""
    return _spread(ops.std, x, axis, correction, keepdims)


def _truth(x):
    return x if x.dtype is _C.bool else x != 0


def all(x, /, *, axis=None, keepdims=False):
    """Is every element not zero?"""
    return _over(_truth(x), axis, keepdims, ops.all)


def any(x, /, *, axis=None, keepdims=False):
    """Is any element not zero?"""
    return _over(_truth(x), axis, keepdims, ops.any)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    return sum(_truth(x), axis=axis, keepdims=keepdims)


def _line(x, axis, what):
    if axis is None and x.ndim != 1:
        raise ValueError(f"{what}(): axis is needed unless there is one dimension; here are {x.ndim}")
    return wrap_axis(0 if axis is None else axis, x.ndim)


@_overloads._beside
def _with_initial(x, axis, value):
    shape = x.shape[:axis] + (1,) + x.shape[axis + 1 :]
    return ops.cat([ops.make_full(shape, value, x.dtype), x], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The sums of all elements up to each one; with include_initial a zero before them."""
    axis = _line(x, axis, "cumulative_sum")
    sums = ops.cumsum(x, axis, dtype or _dtypes.summed(x.dtype))
    return _with_initial(sums, axis, 0) if include_initial else sums


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The products of all elements up to each one; with include_initial a one before them."""
    axis = _line(x, axis, "cumulative_prod")
    products = ops.cumprod(x, axis, dtype or _dtypes.summed(x.dtype))
    return _with_initial(products, axis, 1) if include_initial else products


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """The n-th differences between neighbours along a dimension, after joining what is to stand before and after."""
    axis = wrap_axis(axis, x.ndim)
    if prepend is not None or append is not None:
        parts = iter(_dtypes.together(*(p for p in (prepend, x, append) if p is not None)))
        prepend, x, append = (p if p is None else next(parts) for p in (prepend, x, append))
    return ops.diff(x, n, axis, prepend, append)
