"""The normal distribution of vectors whose covariance is a few columns and a diagonal: W W^T + diag(d)."""


from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import HALF_LOG_2PI, Distribution, drawn
from tensord.distributions._multivariate import eye, half_log_det, solved


class LowRankMultivariateNormal(Distribution):
    """LowRankMultivariateNormal(loc, cov_factor, cov_diag): covariance W W^T + diag(d), W (..., n, r), d (..., n) positive.

    Nothing of n x n is made for a draw, a log_prob or an entropy: by the matrix determinant lemma and Woodbury's identity, only of r x r.
    """

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.ndim < 1:
            raise _C.ShapeError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != n:
            raise _C.ShapeError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != n:
            raise _C.ShapeError(f"cov_diag must be a batch of vectors with shape {n}")
        batch = _overloads.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        self.loc, self.cov_diag = loc.expand((*batch, n)), cov_diag.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        super().__init__(batch, (n,), validate_args)

    def _scaled(self):
        """diag(d)^-1/2 W."""
        return self.cov_factor * ops.rsqrt(self.cov_diag).unsqueeze(-1)

    def _root(self):
        """The root of I + W^T diag(d)^-1 W, r x r."""
        w = self._scaled()
        return ops.linalg_cholesky(_C.matmul(w.transpose(-2, -1), w) + eye(w.shape[-1], w))

    def _half_log_det(self):
        return half_log_det(self._root()) + 0.5 * _C.sum(ops.log(self.cov_diag), -1)

    @property
    def scale_tril(self):
        """The lower triangular root of the covariance, n x n."""
        w = self._scaled()
        return ops.sqrt(self.cov_diag).unsqueeze(-1) * ops.linalg_cholesky(_C.matmul(w, w.transpose(-2, -1)) + eye(w.shape[-2], w))

    @property
    def covariance_matrix(self):
        return _C.matmul(self.cov_factor, self.cov_factor.transpose(-2, -1)) + ops.diag_embed(self.cov_diag)

    @property
    def precision_matrix(self):
        root = self._root()
        a = ops.linalg_solve_triangular(root, (self.cov_factor / self.cov_diag.unsqueeze(-1)).transpose(-2, -1), False)
        return ops.diag_embed(1 / self.cov_diag) - _C.matmul(a.transpose(-2, -1), a)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        few = drawn(ops.randn, (*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        return self.loc + _C.matmul(self.cov_factor, few.unsqueeze(-1)).squeeze(-1) + ops.sqrt(self.cov_diag) * drawn(ops.randn, shape, self.loc)

    def log_prob(self, value):
        self._validate_sample(value)
        return -0.5 * self._distance(value - self.loc) - self._half_log_det() - self._event_shape[0] * HALF_LOG_2PI

    def _distance(self, x):
        """x^T covariance^-1 x."""
        root, w = self._root(), self._scaled()
        x = x * ops.rsqrt(self.cov_diag)
        small = _C.matmul(w.transpose(-2, -1), x.unsqueeze(-1)).squeeze(-1)
        shape = (*_overloads.broadcast_shapes(tuple(small.shape[:-1]), self._batch_shape), *root.shape[-2:])
        return _C.sum(ops.square(x), -1) - _C.sum(ops.square(solved(root.expand(shape), small)), -1)

    def entropy(self):
        return self._half_log_det() + self._event_shape[0] * (0.5 + HALF_LOG_2PI)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return _C.sum(ops.square(self.cov_factor), -1) + self.cov_diag
