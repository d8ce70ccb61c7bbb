"""Reductions and normalisations over the elements that a mask is true for, with the names and arguments of torch.masked, of plain tensors.

    td.masked.mean(td.tensor([1.0, 2.0, 9.0]), mask=td.tensor([True, True, False]))     # tensor(1.5000)

What the mask leaves out counts as the number that changes nothing; where it leaves nothing, that number (mean, var, std and median: nan) is the result. Gradients
pass through the ops that these are made of.
"""

from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["sum", "prod", "cumsum", "cumprod", "amax", "amin", "argmax", "argmin", "mean", "median", "logsumexp", "logaddexp", "norm", "var", "std",
           "softmax", "log_softmax", "softmin", "normalize"]

_inf = float("inf")


def _taken(input, dtype, mask):
    """The input in its dtype, and the mask in its shape (None: all)."""
    if dtype is not None:
        input = input.to(dtype)
    if mask is None:
        return input, None
    if not _C.is_tensor(mask) or mask.dtype is not _C.bool:
        raise _C.DTypeError("a mask is a tensor of bools")
    if mask.ndim > input.ndim:
        raise _C.InvalidError(f"expected mask dimensionality to be at most that of the input, {input.ndim}, but it is {mask.ndim}")
    return input, mask.expand(input.shape)


def _with(input, mask, number):
    return input if mask is None else ops.where(mask, input, _least(input.dtype, number))


def _least(dtype, number):
    """-inf and inf as whole-number dtypes have them."""
    if abs(number) != _inf or dtype.is_floating_point or dtype.is_complex:
        return number
    if dtype is _C.bool:
        return number > 0
    limits = _overloads.iinfo(dtype)
    return limits.max if number > 0 else limits.min


def _floating(input):
    return input if input.is_floating_point() or input.is_complex() else input.to(_C.get_default_dtype())


def _dims(dim):
    return None if dim is None or dim == () else dim


def _each(op, x, dim, keepdim):
    """A reduction of one dimension at a time."""
    dims = range(x.ndim) if _dims(dim) is None else (dim,) if isinstance(dim, int) else dim
    for d in sorted((d % max(x.ndim, 1) for d in dims), reverse=True):
        x = op(x, d, keepdim)
    return x


def sum(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:  # noqa: A001
    """The sum of what the mask leaves."""
    input, mask = _taken(input, dtype, mask)
    return _C.sum(_with(input, mask, 0), _dims(dim), keepdim)


def prod(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The product of what the mask leaves."""
    input, mask = _taken(input, dtype, mask)
    filled = _with(input, mask, 1)
    if _dims(dim) is None:
        made = _C.prod(filled)
        return made.reshape((1,) * input.ndim) if keepdim else made
    return _each(_C.prod, filled, dim, keepdim)


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Running sums."""
    input, mask = _taken(input, dtype, mask)
    return _C.cumsum(_with(input, mask, 0), dim, dtype=input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Running products."""
    input, mask = _taken(input, dtype, mask)
    return _C.cumprod(_with(input, mask, 1), dim, dtype=input.dtype)


def amax(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The largest of what the mask leaves."""
    input, mask = _taken(input, dtype, mask)
    return _C.amax(_with(input, mask, -_inf), _dims(dim), keepdim)


def amin(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The smallest of what the mask leaves."""
    input, mask = _taken(input, dtype, mask)
    return _C.amin(_with(input, mask, _inf), _dims(dim), keepdim)


def argmax(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Where the largest is, as a number of the input's dtype (as in torch.masked)."""
    input, mask = _taken(input, dtype, mask)
    return _C.argmax(_with(input, mask, -_inf), dim, keepdim).to(input.dtype)


def argmin(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """Where the smallest is, as a number of the input's dtype (as in torch.masked)."""
    input, mask = _taken(input, dtype, mask)
    return _C.argmin(_with(input, mask, _inf), dim, keepdim).to(input.dtype)


def _count(input, mask, dim, keepdim):
    there = mask if mask is not None else ops.make_full(input.shape, True, _C.bool)
    return _C.sum(there, _dims(dim), keepdim)


def mean(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The mean of what the mask leaves; nan of nothing."""
    input, mask = _taken(input, dtype, mask)
    if not input.is_floating_point() and not input.is_complex():
        raise _C.DTypeError("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype")
    if mask is None:
        return _C.mean(input, _dims(dim), keepdim)
    return _C.sum(_with(input, mask, 0), _dims(dim), keepdim) / _count(input, mask, dim, keepdim).to(input.dtype.to_real())


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The lower median of what the mask leaves and is no nan; nan of nothing."""
    input, mask = _taken(input, dtype, mask)
    if not input.is_floating_point():
        raise _C.DTypeError(f"input must be of a floating point dtype, not {input.dtype}")
    there = ops.logical_not(ops.isnan(input)) if mask is None else ops.logical_and(mask, ops.logical_not(ops.isnan(input)))
    n = _C.sum(there, dim, True)
    values = ops.sort(ops.where(there, input, _inf), dim)[0]
    found = ops.where(n > 0, ops.gather(values, dim, ops.clamp((n - 1) // 2, 0, None)), float("nan"))
    return found if keepdim else found.squeeze(dim)


def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of the sum of exponentials of what the mask leaves."""
    input, mask = _taken(input, dtype, mask)
    dims = tuple(range(input.ndim)) if _dims(dim) is None else dim
    return _C.logsumexp(_with(_floating(input), mask, -_inf), dims, keepdim).to(input.dtype)


def logaddexp(input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Tensor:
    """The logarithm of the sum of exponentials of two tensors, each with a mask."""
    input, input_mask = _taken(input, dtype, input_mask)
    other, other_mask = _taken(other, dtype, other_mask)
    return _C.logaddexp(_with(input, input_mask, -_inf), _with(other, other_mask, -_inf))


def norm(input: Tensor, ord: Any = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The ord-norm of what the mask leaves."""
    input, mask = _taken(input, dtype, mask)
    ord = 2.0 if ord is None else float(ord)
    return ops.norm(_with(input, mask, _inf if ord < 0 else 0), ord, _dims(dim), keepdim)


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise _C.InvalidError("Only one of unbiased and correction may be given")
    correction = 1.0 if unbiased is None and correction is None else float(unbiased if correction is None else correction)
    input, mask = _taken(input, dtype, mask)
    input = _floating(input)
    middle = mean(input, dim, keepdim=True, mask=mask)
    squares = ops.square(ops.abs(_with(input - middle, mask, 0)))
    n = _count(input, mask, dim, keepdim).to(squares.dtype)
    return (_C.sum(squares, _dims(dim), keepdim) / ops.clamp(n - correction, 0.0, None)).to(input.dtype)


def var(input: Tensor, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The variance of what the mask leaves."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input: Tensor, dim: Any = None, unbiased: Any = None, *, correction: Any = None, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The standard deviation of what the mask leaves."""
    return ops.sqrt(_spread(input, dim, unbiased, correction, keepdim, dtype, mask))


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """softmax over what the mask leaves, zeros elsewhere; nan where it leaves nothing."""
    input, mask = _taken(input, dtype, mask)
    return ops.softmax(_with(_floating(input), mask, -_inf), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of softmax."""
    input, mask = _taken(input, dtype, mask)
    return ops.log_softmax(_with(_floating(input), mask, -_inf), dim)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """softmax of -input."""
    input, mask = _taken(input, dtype, mask)
    return ops.softmax(-_with(_floating(input), mask, _inf), dim)


def normalize(input: Tensor, ord: Any, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Tensor:
    """What the mask leaves over its norm, zeros elsewhere."""
    input, mask = _taken(input, dtype, mask)
    size = norm(input, ord, dim, keepdim=True, mask=mask)
    return _with(input, mask, 0) / ops.clamp(size, eps, None)
