"""Invertible functions for TransformedDistribution, with the names of torch.distributions.transforms. Here: of one number each."""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._transform import (CatTransform, ComposeTransform, IndependentTransform, ReshapeTransform, StackTransform, Transform,
                                              identity_transform)
from tensord.distributions._vectors import CorrCholeskyTransform, LowerCholeskyTransform, PositiveDefiniteTransform, SoftmaxTransform, StickBreakingTransform

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform", "ExpTransform",
           "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform",
           "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform"]


class _Growing(Transform):
    """Of a number, growing with it."""

    bijective = True

    @property
    def sign(self):
        return 1


class ExpTransform(_Growing):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x):
        return ops.exp(x)

    def _inverse(self, y):
        return ops.log(y)

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(_Growing):
    """PowerTransform(exponent): x ** exponent of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self):
        return ops.sign(self.exponent) if _C.is_tensor(self.exponent) else (self.exponent > 0) - (self.exponent < 0)

    def _call(self, x):
        return x**self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return ops.log(ops.abs(self.exponent * y / x))

    def forward_shape(self, shape):
        return _overloads.broadcast_shapes(tuple(shape), tuple(getattr(self.exponent, "shape", ())))

    inverse_shape = forward_shape


class SoftplusTransform(_Growing):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x):
        return ops.softplus(x)

    def _inverse(self, y):
        return ops.log(-ops.expm1(-y)) + y

    def log_abs_det_jacobian(self, x, y):
        return -ops.softplus(-x)


class SigmoidTransform(_Growing):
    """1 / (1 + exp(-x)), never 0 or 1 itself."""

    codomain = constraints.unit_interval

    def _call(self, x):
        limits = _overloads.finfo(x.dtype)
        return ops.clamp(ops.sigmoid(x), limits.tiny, 1 - limits.eps)

    def _inverse(self, y):
        limits = _overloads.finfo(y.dtype)
        y = ops.clamp(y, limits.tiny, 1 - limits.eps)
        return ops.log(y) - ops.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -ops.softplus(-x) - ops.softplus(x)


class TanhTransform(_Growing):
    """tanh(x). Its inverse of -1 and 1 is infinite."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return ops.tanh(x)

    def _inverse(self, y):
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        """log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), which loses nothing at a great x."""
        return 2 * (math.log(2) - x - ops.softplus(-2 * x))


class AbsTransform(Transform):
    """|x|. Two numbers have each value; the inverse is the one that is not negative."""

    codomain = constraints.positive

    def _call(self, x):
        return ops.abs(x)

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """AffineTransform(loc, scale, event_dim=0): loc + scale * x; event_dim: how many of the last dimensions are one event."""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        return self._event_dim

    @property
    def domain(self):
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self):
        return ops.sign(self.scale) if _C.is_tensor(self.scale) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        each = x * 0 + (ops.log(ops.abs(self.scale)) if _C.is_tensor(self.scale) else math.log(abs(self.scale)))
        return _C.sum(each, tuple(range(-self._event_dim, 0))) if self._event_dim else each

    def forward_shape(self, shape):
        return _overloads.broadcast_shapes(tuple(shape), tuple(getattr(self.loc, "shape", ())), tuple(getattr(self.scale, "shape", ())))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(_Growing):
    """CumulativeDistributionTransform(distribution): its cdf, of a distribution of numbers; the inverse is its icdf."""

    codomain = constraints.unit_interval

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)
