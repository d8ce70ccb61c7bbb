"""What distributions that are written for PyTorch are made with: probabilities and logits, properties that are computed once, the halves of matrices."""

import functools
import numbers

import tensord as td
from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions._base import broadcast, inner as clamp_probs, logits_of

euler_constant = 0.57721566490153286060

__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec", "vec_to_tril_matrix"]


def broadcast_all(*values):
    """Tensors of one shape, numbers among them in the kind of the first tensor."""
    if not all(_C.is_tensor(v) or isinstance(v, numbers.Number) for v in values):
        raise _C.InvalidError("Input arguments must all be instances of Number or tensord.Tensor.")
    return tuple(broadcast(*values))


def logits_to_probs(logits, is_binary=False):
    """Of one event's log odds, or of logarithms along the last dimension."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def probs_to_logits(probs, is_binary=False):
    """The other way, of probabilities that are neither 0 nor 1."""
    return logits_of(probs, is_binary)


class lazy_property:
    """A property that is computed when it is asked for first, with gradients wherever that is, and is an attribute then."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance, owner=None):
        if instance is None:
            return _OnTheClass(self.wrapped)
        with _overloads.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _OnTheClass(lazy_property, property):
    """What a class shows, which documentation takes for a property."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def _below(n, diag, device):
    if not -n <= diag < n:
        raise _C.InvalidError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return _C.ops.make_full((n, n), 1, _C.bool).to(device).tril(diag)


def tril_matrix_to_vec(mat, diag=0):
    """The elements of the lower triangles of matrices (..., D, D), row after row."""
    return mat[..., _below(mat.shape[-1], diag, mat.device)]


def vec_to_tril_matrix(vec, diag=0):
    """Matrices (..., D, D) of what is in their lower triangles, row after row."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(round(n) - n) > _overloads.finfo(vec.dtype).eps:
        raise _C.InvalidError(f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square D x D matrix.")
    n = round(n)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., _below(n, diag, vec.device)] = vec
    return mat


# What distributions of others take from torch.distributions.utils beside what it documents.


def _standard_normal(shape, dtype, device):
    return td.randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """Sums over the last `dim` dimensions."""
    return value.reshape(tuple(value.shape[:value.dim() - dim]) + (-1,)).sum(-1) if dim else value
