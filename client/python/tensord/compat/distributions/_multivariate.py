"""The normal distribution of vectors."""

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import HALF_LOG_2PI, Distribution, drawn, later


def half_log_det(scale_tril):
    return _C.sum(ops.log(_C.diagonal(scale_tril, 0, -2, -1)), -1)


def solved(scale_tril, x):
    """L^-1 x for vectors along the last dimension."""
    return ops.linalg_solve_triangular(scale_tril, x.unsqueeze(-1), False).squeeze(-1)


def eye(n, like):
    return drawn(lambda shape, dtype: ops.eye(n, n, dtype), (), like)


def root_of_inverse(matrix):
    """L with L L^T the inverse of a positive definite matrix P. P = R R^T turned around is (R')^T R' with R' upper: the inverse of its transpose is lower."""
    turned = ops.linalg_cholesky(ops.flip(matrix, (-2, -1)))
    root = ops.flip(turned, (-2, -1)).transpose(-2, -1)
    return ops.linalg_solve_triangular(root, eye(matrix.shape[-1], matrix), False)


class MultivariateNormal(Distribution):
    """MultivariateNormal(loc, covariance_matrix) or with precision_matrix=, its inverse, or scale_tril=, its lower triangular root L: covariance = L L^T.

    loc: (..., n); the matrix: (..., n, n), exactly one of them, else ValueError. scale_tril costs least.
    """

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                       "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [(n, m) for n, m in (("covariance_matrix", covariance_matrix), ("precision_matrix", precision_matrix), ("scale_tril", scale_tril)) if m is not None]
        if len(given) != 1:
            raise _C.InvalidError(f"Exactly one of covariance_matrix, precision_matrix and scale_tril must be given, not {len(given)}")
        name, matrix = given[0]
        if loc.ndim < 1 or matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or matrix.shape[-1] != loc.shape[-1]:
            raise _C.ShapeError(f"loc must be (..., n) and {name} (..., n, n), but they are {tuple(loc.shape)} and {tuple(matrix.shape)}")
        batch, n = _overloads.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1])), loc.shape[-1]
        self.loc = loc.expand((*batch, n))
        self.__dict__[name] = matrix.expand((*batch, n, n))
        super().__init__(batch, (n,), validate_args)

    @later
    def scale_tril(self):
        return ops.linalg_cholesky(self.covariance_matrix) if "covariance_matrix" in self.__dict__ else root_of_inverse(self.precision_matrix)

    @later
    def covariance_matrix(self):
        return _C.matmul(self.scale_tril, self.scale_tril.transpose(-2, -1))

    @later
    def precision_matrix(self):
        inverse = ops.linalg_solve_triangular(self.scale_tril, eye(self._event_shape[0], self.loc), False)
        return _C.matmul(inverse.transpose(-2, -1), inverse)

    def rsample(self, sample_shape=()):
        noise = drawn(ops.randn, self._extended_shape(sample_shape), self.loc)
        return self.loc + _C.matmul(self.scale_tril, noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        x = value - self.loc
        shape = (*_overloads.broadcast_shapes(tuple(x.shape[:-1]), self._batch_shape), *self._event_shape * 2)
        z = solved(self.scale_tril.expand(shape), x)
        return -0.5 * _C.sum(ops.square(z), -1) - half_log_det(self.scale_tril) - self._event_shape[0] * HALF_LOG_2PI

    def entropy(self):
        return half_log_det(self.scale_tril) + self._event_shape[0] * (0.5 + HALF_LOG_2PI)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return _C.sum(ops.square(self.scale_tril), -1)
