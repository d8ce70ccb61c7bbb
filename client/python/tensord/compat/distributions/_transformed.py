"""Distributions of functions of draws."""

import math
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution, Independent
from tensord.distributions._gamma import Gamma
from tensord.distributions._located import Normal
from tensord.distributions._transform import ComposeTransform, Transform, sum_last
from tensord.distributions._vectors import StickBreakingTransform
from tensord.distributions.transforms import ExpTransform, PowerTransform


class TransformedDistribution(Distribution):
    """Of t(x), x drawn from a base; several transforms are applied one after the other.

    Where a transform takes vectors or matrices as one event, so many of the base's last dimensions are. ValueError when it has fewer.
    """

    base_dist: Any

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise _C.InvalidError(f"transforms must be a Transform or a list of Transforms, but was {transforms!r}")
        whole, base = ComposeTransform(self.transforms), base_distribution
        before, n = base.batch_shape + base.event_shape, len(base.event_shape)
        taken = whole.domain.event_dim
        if len(before) < taken:
            raise _C.ShapeError(f"base_distribution needs to have shape with size at least {taken}, but got {before}.")
        shape = whole.forward_shape(before)
        wide = whole.inverse_shape(shape)
        if wide != before:  # a transform's parameters are of more places
            base = base.expand(wide[: len(wide) - n])
        self.base_dist = Independent(base, taken - n) if taken > n else base
        made = whole.codomain.event_dim
        cut = len(shape) - max(made, max(taken, n) + made - taken)
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @property
    def has_rsample(self):  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self):
        """Affine transforms of bounded draws are not followed: then it is any number."""
        kind = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        more = len(self._event_shape) - kind.event_dim
        return constraints.independent(kind, more) if self.transforms and more > 0 else kind

    def expand(self, batch_shape):
        new, shape = super().expand(batch_shape), (*batch_shape, *self._event_shape)
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    def _applied(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            return self._applied(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._applied(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        """log_prob of what became the value, less log |det dy/dx| of every transform."""
        self._validate_sample(value)
        y, n, total = value, len(self._event_shape), 0.0
        for t in reversed(self.transforms):
            x = t.inv(y)
            n += t.domain.event_dim - t.codomain.event_dim
            total = total - sum_last(t.log_abs_det_jacobian(x, y), n - t.domain.event_dim)
            y = x
        return sum_last(self.base_dist.log_prob(y), n - len(self.base_dist.event_shape)) + total

    def _sign(self):
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def cdf(self, value):
        """Of one number; where the transforms fall, of the other side."""
        self._validate_sample(value)
        for t in reversed(self.transforms):
            value = t.inv(value)
        sign, below = self._sign(), self.base_dist.cdf(value)
        return sign * (below - 0.5) + 0.5

    def icdf(self, value):
        return self._applied(self.base_dist.icdf(self._sign() * (value - 0.5) + 0.5))

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"


class LogNormal(TransformedDistribution):
    """LogNormal(loc, scale): exp of a normal number of this mean and standard deviation."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self):
        return self.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.scale

    def entropy(self):
        return self.base_dist.entropy() + self.loc

    @property
    def mean(self):
        return ops.exp(self.loc + ops.square(self.scale) / 2)

    @property
    def mode(self):
        return ops.exp(self.loc - ops.square(self.scale))

    @property
    def variance(self):
        width = ops.square(self.scale)
        return ops.expm1(width) * ops.exp(2 * self.loc + width)


class LogisticNormal(TransformedDistribution):
    """LogisticNormal(loc, scale): k + 1 shares from k normal numbers along the last dimension, by a StickBreakingTransform."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args)

    @property
    def loc(self):
        return self.base_dist.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.base_dist.scale


class InverseGamma(TransformedDistribution):
    """InverseGamma(concentration, rate): 1 / x of a Gamma(concentration, rate) number x."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        super().__init__(Gamma(concentration, rate, validate_args), PowerTransform(-1.0), validate_args)

    @property
    def concentration(self):
        return self.base_dist.concentration

    @property
    def rate(self):
        return self.base_dist.rate

    def entropy(self):
        a = self.concentration
        return a + ops.log(self.rate) + ops.lgamma(a) - (1 + a) * ops.digamma(a)

    @property
    def mean(self):
        """inf up to a concentration of 1."""
        a = self.concentration
        return ops.where(a > 1, self.rate / ops.where(a > 1, a - 1, 1.0), math.inf)

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        """inf up to a concentration of 2."""
        a = ops.where(self.concentration > 2, self.concentration, 3.0)
        return ops.where(self.concentration > 2, ops.square(self.rate / (a - 1)) / (a - 2), math.inf)
