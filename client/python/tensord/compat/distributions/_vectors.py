"""Transforms of vectors and matrices: to shares of one, and to roots of matrices of correlations and covariances."""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._transform import Transform


def counted(like, first, last):
    """first, first + 1, ... before last, as numbers beside a tensor."""
    return _overloads._made(like.device, False, ops.arange, first, last, 1, like.dtype)


class SoftmaxTransform(Transform):
    """softmax along the last dimension, of which many x have the same: the inverse is the logarithm. It has no log_abs_det_jacobian."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        return ops.softmax(x, -1)

    def _inverse(self, y):
        return ops.log(y)

    def _needs_a_vector(self, shape):
        if not shape:
            raise _C.ShapeError("Too few dimensions on input")
        return tuple(shape)

    forward_shape = inverse_shape = _needs_a_vector


class StickBreakingTransform(Transform):
    """k numbers to k + 1 shares: each share is sigmoid(x_i - log(k - i)) of what the ones before left, so x = 0 gives equal shares."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def _call(self, x):
        k = x.shape[-1]
        z = x - ops.log(k - counted(x, 0, k))
        left = _C.cumsum(-ops.softplus(z), -1)  # log of what is left behind each
        before = ops.constant_pad(left, (1, 0), 0.0)
        return ops.exp(before + ops.constant_pad(-ops.softplus(-z), (0, 1), 0.0))

    def _inverse(self, y):
        k = y.shape[-1] - 1
        rest = ops.flip(_C.cumsum(ops.flip(y, (-1,)), -1), (-1,)).narrow(-1, 1, k)
        tiny = _overloads.finfo(y.dtype).tiny
        return ops.log(ops.clamp(y.narrow(-1, 0, k), tiny, None)) - ops.log(ops.clamp(rest, tiny, None)) + ops.log(k - counted(y, 0, k))

    def log_abs_det_jacobian(self, x, y):
        """The matrix is triangular: y_i (1 - share of the rest) on its diagonal."""
        k = x.shape[-1]
        z = x - ops.log(k - counted(x, 0, k))
        return _C.sum(ops.log(y.narrow(-1, 0, k)) - ops.softplus(z), -1)

    def forward_shape(self, shape):
        if not shape:
            raise _C.ShapeError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape):
        if not shape:
            raise _C.ShapeError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] - 1)


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the root of an n x n matrix of correlations: lower triangular, rows of length 1, a positive diagonal.

    tanh(x) are partial correlations, row by row: each takes its part of what the ones before it left of the row's length (Lewandowski, Kurowicka and
    Joe, Generating Random Correlation Matrices Based on Vines and Extended Onion Method, 2009).
    """

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    @staticmethod
    def _size(numbers):
        n = round((0.25 + 2 * numbers) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != numbers:
            raise _C.ShapeError(f"Input is not a flattened lower-diagonal number: {numbers} is no n (n - 1) / 2")
        return n

    @staticmethod
    def _places(n, like):
        """Where each number lies in a matrix laid out row by row."""
        return _C.tensor([i * n + j for i in range(n) for j in range(i)], dtype=_C.int64, device=like.device)

    def _call(self, x):
        n = self._size(x.shape[-1])
        eps = _overloads.finfo(x.dtype).eps
        shares = ops.clamp(ops.tanh(x), eps - 1, 1 - eps)
        flat = _zeros((*x.shape[:-1], n * n), x)
        r = ops.index_add(flat, -1, self._places(n, x), shares).reshape((*x.shape[:-1], n, n)) if n > 1 else flat.reshape((*x.shape[:-1], n, n))
        left = ops.exp(0.5 * _C.cumsum(ops.log1p(-ops.square(r)), -1))  # of the row's length, behind each
        return (r + ops.diag_embed(_ones((*x.shape[:-1], n), x))) * ops.constant_pad(left.narrow(-1, 0, n - 1), (1, 0), 1.0)

    def _inverse(self, y):
        n = y.shape[-1]
        left = 1 - _C.cumsum(ops.square(y), -1)
        before = ops.constant_pad(left.narrow(-1, 0, n - 1), (1, 0), 1.0).flatten(-2)
        places = self._places(n, y)
        # The diagonal's own rest is 0: it is not looked at.
        share = ops.index_select(y.flatten(-2), -1, places) / ops.sqrt(ops.index_select(before, -1, places))
        return ops.atanh(share)

    def log_abs_det_jacobian(self, x, y):
        """Row by row triangular: the root of what is left before each number, times 1 - tanh(x)^2."""
        n = y.shape[-1]
        left = ops.constant_pad((1 - _C.cumsum(ops.square(y), -1)).narrow(-1, 0, n - 1), (1, 0), 1.0).flatten(-2)
        before = ops.index_select(left, -1, self._places(n, y))
        return _C.sum(0.5 * ops.log(before) + 2 * (math.log(2) - x - ops.softplus(-2 * x)), -1)

    def forward_shape(self, shape):
        if not shape:
            raise _C.ShapeError("Too few dimensions on input")
        n = self._size(shape[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise _C.ShapeError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise _C.ShapeError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _zeros(shape, like):
    return _overloads._made(like.device, False, ops.make_full, tuple(shape), 0.0, like.dtype)


def _ones(shape, like):
    return _overloads._made(like.device, False, ops.make_full, tuple(shape), 1.0, like.dtype)


class LowerCholeskyTransform(Transform):
    """A square matrix to a lower triangular one whose diagonal is exp of its own; what lies above is left out."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return ops.tril(x, -1) + ops.diag_embed(ops.exp(_C.diagonal(x, 0, -2, -1)))

    def _inverse(self, y):
        return ops.tril(y, -1) + ops.diag_embed(ops.log(_C.diagonal(y, 0, -2, -1)))


class PositiveDefiniteTransform(Transform):
    """A square matrix to L L^T, L as LowerCholeskyTransform makes it."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        root = LowerCholeskyTransform()(x)
        return _C.matmul(root, root.transpose(-2, -1))

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(ops.linalg_cholesky(y))
