"""Distributions of a place and a width. Densities and entropies: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions."""

import math

from tensord import _C
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import HALF_LOG_2PI, Distribution, broadcast, drawn, filled, open_uniform
from tensord.distributions._family import ExponentialFamily

_EULER = 0.57721566490153286061


class _Located(Distribution):
    """Draws are loc + scale * standard draws, and so are values of icdf."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def _standard(self, value):
        self._validate_sample(value)
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape=()):
        return self.loc + self.scale * self._draw(self._extended_shape(sample_shape))

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc


class Normal(_Located, ExponentialFamily):
    """Normal(loc, scale): of mean loc and standard deviation scale."""

    def _draw(self, shape):
        return drawn(ops.randn, shape, self.loc)

    def log_prob(self, value):
        return -0.5 * ops.square(self._standard(value)) - ops.log(self.scale) - HALF_LOG_2PI

    def cdf(self, value):
        return ops.ndtr(self._standard(value))

    def icdf(self, value):
        return self.loc + self.scale * ops.ndtri(value)

    def entropy(self):
        return 0.5 + HALF_LOG_2PI + ops.log(self.scale)

    @property
    def variance(self):
        return ops.square(self.scale)

    @property
    def _natural_params(self):
        return self.loc / ops.square(self.scale), -0.5 / ops.square(self.scale)

    def _log_normalizer(self, x, y):
        return -0.25 * ops.square(x) / y + 0.5 * ops.log(-math.pi / y)


class Laplace(_Located):
    """Laplace(loc, scale): exponential to both sides of loc."""

    def _draw(self, shape):
        return drawn(ops.exponential, shape, self.loc, 1.0) - drawn(ops.exponential, shape, self.loc, 1.0)

    def log_prob(self, value):
        return -ops.abs(self._standard(value)) - ops.log(2 * self.scale)

    def cdf(self, value):
        z = self._standard(value)
        return 0.5 - 0.5 * ops.sign(z) * ops.expm1(-ops.abs(z))

    def icdf(self, value):
        u = value - 0.5
        return self.loc - self.scale * ops.sign(u) * ops.log1p(-2 * ops.abs(u))

    def entropy(self):
        return 1 + ops.log(2 * self.scale)

    @property
    def variance(self):
        return 2 * ops.square(self.scale)


class Cauchy(_Located):
    """Cauchy(loc, scale): the quotient of two normal numbers; of no mean (nan), of infinite variance."""

    def _draw(self, shape):
        return drawn(ops.cauchy, shape, self.loc, 0.0, 1.0)

    def log_prob(self, value):
        return -math.log(math.pi) - ops.log(self.scale) - ops.log1p(ops.square(self._standard(value)))

    def cdf(self, value):
        return ops.atan(self._standard(value)) / math.pi + 0.5

    def icdf(self, value):
        return self.loc + self.scale * ops.tan(math.pi * (value - 0.5))

    def entropy(self):
        return math.log(4 * math.pi) + ops.log(self.scale)

    @property
    def mean(self):
        return filled(self._batch_shape, math.nan, self.loc)

    @property
    def variance(self):
        return filled(self._batch_shape, math.inf, self.loc)


class Gumbel(_Located):
    """Gumbel(loc, scale): the greatest of many."""

    def _draw(self, shape):
        return -ops.log(-ops.log(open_uniform(shape, self.loc)))

    def log_prob(self, value):
        z = self._standard(value)
        return -z - ops.exp(-z) - ops.log(self.scale)

    def cdf(self, value):
        return ops.exp(-ops.exp(-self._standard(value)))

    def icdf(self, value):
        return self.loc - self.scale * ops.log(-ops.log(value))

    def entropy(self):
        return ops.log(self.scale) + (1 + _EULER)

    @property
    def mean(self):
        return self.loc + self.scale * _EULER

    @property
    def variance(self):
        return ops.square(self.scale) * (math.pi**2 / 6)


class HalfNormal(Distribution):
    """HalfNormal(scale): the size of a normal number of mean 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        return ops.abs(drawn(ops.randn, self._extended_shape(sample_shape), self.scale)) * self.scale

    def log_prob(self, value):
        self._validate_sample(value)
        inside = math.log(2) - HALF_LOG_2PI - 0.5 * ops.square(value / self.scale) - ops.log(self.scale)
        return ops.where(value >= 0, inside, -math.inf)

    def cdf(self, value):
        self._validate_sample(value)
        return ops.erf(value / self.scale * 0.5**0.5)

    def icdf(self, value):
        return self.scale * ops.ndtri((value + 1) / 2)

    def entropy(self):
        return 0.5 - math.log(2) + HALF_LOG_2PI + ops.log(self.scale)

    @property
    def mean(self):
        return self.scale * (2 / math.pi) ** 0.5

    @property
    def mode(self):
        return filled(self._batch_shape, 0.0, self.scale)

    @property
    def variance(self):
        return ops.square(self.scale) * (1 - 2 / math.pi)


class Uniform(Distribution):
    """Uniform(low, high): from low up to high. ValueError unless low < high."""

    arg_constraints = {"low": constraints.real, "high": constraints.real}
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast(low, high)
        super().__init__(self.low.shape, (), validate_args)
        if self._validate_args and not _C.all(self.low < self.high).item():
            raise _C.InvalidError("Uniform is not defined when low >= high: give a low below the high")

    @constraints.dependent_property
    def support(self):
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape=()):
        return self.low + drawn(ops.rand, self._extended_shape(sample_shape), self.low) * (self.high - self.low)

    def log_prob(self, value):
        self._validate_sample(value)
        inside = ops.logical_and(value >= self.low, value < self.high)
        return ops.where(inside, -ops.log(self.high - self.low), -math.inf)

    def cdf(self, value):
        self._validate_sample(value)
        return ops.clamp((value - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return ops.log(self.high - self.low)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def variance(self):
        return ops.square(self.high - self.low) / 12
