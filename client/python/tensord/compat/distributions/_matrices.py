"""Distributions of matrices: of covariances, and of roots of correlations."""

import math
import warnings

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution, broadcast, drawn, later
from tensord.distributions._family import ExponentialFamily
from tensord.distributions._gamma import Beta, log_gamma_draws
from tensord.distributions._multivariate import half_log_det, root_of_inverse
from tensord.distributions._vectors import counted


def _digammas(x, p):
    """The derivative of mvlgamma(x, p)."""
    return _C.sum(ops.digamma(x.unsqueeze(-1) - 0.5 * counted(x, 0, p)), -1)


class Wishart(ExponentialFamily):
    """Wishart(df, covariance_matrix) or with precision_matrix= or scale_tril=: the sum of df outer products of normal vectors of this covariance.

    df: more than n - 1, not always whole; the matrix: (..., n, n), exactly one of them, else ValueError. Draws: Bartlett's decomposition; where df is
    below n they are nearly singular, of which a RuntimeWarning tells. Gupta and Nagar, Matrix Variate Distributions (1999).
    """

    support = constraints.positive_definite
    has_rsample = True

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [(n, m) for n, m in (("covariance_matrix", covariance_matrix), ("precision_matrix", precision_matrix), ("scale_tril", scale_tril)) if m is not None]
        if len(given) != 1:
            raise _C.InvalidError(f"Exactly one of covariance_matrix, precision_matrix and scale_tril must be given, not {len(given)}")
        name, matrix = given[0]
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            raise _C.ShapeError(f"{name} must be (..., n, n), but its shape is {tuple(matrix.shape)}")
        n = matrix.shape[-1]
        (df,) = [df] if _C.is_tensor(df) else [_overloads._made(matrix.device, False, ops.make_full, (), float(df), matrix.dtype)]
        batch = _overloads.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape))
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, n, n))
        if _C.any(df <= n - 1).item():
            raise _C.InvalidError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self.arg_constraints = {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(n - 1)}
        super().__init__(batch, (n, n), validate_args)
        if _C.any(df < n).item():
            warnings.warn(f"a df below {n}, the size of the matrices: draws will be nearly singular", RuntimeWarning, stacklevel=2)

    @later
    def scale_tril(self):
        return ops.linalg_cholesky(self.covariance_matrix) if "covariance_matrix" in self.__dict__ else root_of_inverse(self.precision_matrix)

    @later
    def covariance_matrix(self):
        return _C.matmul(self.scale_tril, self.scale_tril.transpose(-2, -1))

    @later
    def precision_matrix(self):
        return ops.cholesky_inverse(self.scale_tril, False)

    def rsample(self, sample_shape=()):
        """Of shape sample_shape + batch_shape + (n, n): L A A^T L^T, A of normal numbers below a diagonal of roots of Chi2 draws."""
        shape, n = self._extended_shape(sample_shape), self._event_shape[0]
        halves = 0.5 * (self.df.unsqueeze(-1) - counted(self.df, 0, n))
        diagonal = ops.exp(0.5 * (log_gamma_draws(shape[:-1], halves) + math.log(2))).to(self.df.dtype)
        a = ops.tril(drawn(ops.randn, shape, self.df), -1) + ops.diag_embed(ops.clamp(diagonal, _overloads.finfo(self.df.dtype).tiny, None))
        root = _C.matmul(self.scale_tril, a)
        return _C.matmul(root, root.transpose(-2, -1))

    def log_prob(self, value):
        self._validate_sample(value)
        nu, n = self.df, self._event_shape[0]
        root = self.scale_tril
        shape = (*_overloads.broadcast_shapes(tuple(value.shape[:-2]), self._batch_shape), n, n)
        value = value.expand(shape)
        trace = _C.sum(_C.diagonal(ops.cholesky_solve(value, root.expand(shape), False), 0, -2, -1), -1)
        size = nu * (0.5 * n * math.log(2) + half_log_det(root)) + ops.mvlgamma(nu / 2, n)
        return 0.5 * (nu - n - 1) * (2 * half_log_det(ops.linalg_cholesky(value))) - 0.5 * trace - size

    def entropy(self):
        nu, n = self.df, self._event_shape[0]
        half = nu / 2
        return (n + 1) * (half_log_det(self.scale_tril) + 0.5 * n * math.log(2)) + ops.mvlgamma(half, n) - 0.5 * (nu - n - 1) * _digammas(half, n) + half * n

    @property
    def _wide_df(self):
        return self.df.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self):
        return self._wide_df * self.covariance_matrix

    @property
    def mode(self):
        """nan up to a df of n + 1."""
        factor = self._wide_df - self._event_shape[0] - 1
        return ops.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = _C.diagonal(v, 0, -2, -1)
        return self._wide_df * (ops.square(v) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    @property
    def _natural_params(self):
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[0] - 1)

    def _log_normalizer(self, x, y):
        n = self._event_shape[0]
        half = y + (n + 1) / 2
        return half * (n * math.log(2) - ops.linalg_slogdet(-2 * x)[1]) + ops.mvlgamma(half, n)


class LKJCholesky(Distribution):
    """LKJCholesky(dim, concentration=1.0): roots L of dim x dim matrices of correlations, of a density as det(L L^T) ** (concentration - 1).

    At 1 all matrices are as probable. ValueError for a dim below 2. Draws: the onion method of Lewandowski, Kurowicka and Joe, Generating Random
    Correlation Matrices Based on Vines and Extended Onion Method (2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise _C.InvalidError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape=()):
        """Each row: how much of its length is off the diagonal (a Beta draw), in a direction that is uniform."""
        with _overloads.no_grad():
            a, n, shape = self.concentration, self.dim, self._extended_shape(sample_shape)
            below = counted(a, 1, n)  # numbers beside the diagonal
            share = Beta(0.5 * below, a.unsqueeze(-1) + 0.5 * (n - 1 - below), validate_args=False).sample(sample_shape)
            share = ops.constant_pad(share, (1, 0), 0.0)
            noise = ops.tril(drawn(ops.randn, shape, a), -1)
            length = ops.sqrt(_C.sum(ops.square(noise), -1, True))
            off = ops.sqrt(share).unsqueeze(-1) * noise / ops.where(length > 0, length, 1.0)
            rest = ops.clamp(1 - _C.sum(ops.square(off), -1), _overloads.finfo(a.dtype).tiny, None)
            return off + ops.diag_embed(ops.sqrt(rest))

    def log_prob(self, value):
        """Powers of the diagonal over a constant, which is that of the onion's shells."""
        self._validate_sample(value)
        a, n = self.concentration, self.dim
        diagonal = _C.diagonal(value, 0, -2, -1).narrow(-1, 1, n - 1)
        power = 2 * (a - 1).unsqueeze(-1) + n - counted(a, 2, n + 1)
        alpha = a + 0.5 * (n - 1)
        size = 0.5 * (n - 1) * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, n - 1) - (n - 1) * ops.lgamma(alpha)
        return _C.sum(power * ops.log(diagonal), -1) - size
