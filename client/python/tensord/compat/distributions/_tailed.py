"""Distributions of positive numbers, by powers and quotients. Formulas: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions."""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution, broadcast, drawn, filled, open_uniform
from tensord.distributions._gamma import log_gamma_draws

_EULER = 0.57721566490153286061


class _OfExponential(Distribution):
    """Draws are icdf of what an exponential number tells: _from(e), with cdf = 1 - exp(-e)."""

    has_rsample = True

    def _from(self, e):
        raise NotImplementedError

    def rsample(self, sample_shape=()):
        like = next(v for n in self.arg_constraints if _C.is_tensor(v := self.__dict__.get(n)))
        return self._from(drawn(ops.exponential, self._extended_shape(sample_shape), like, 1.0))

    def icdf(self, value):
        return self._from(-ops.log1p(-value))


class Pareto(_OfExponential):
    """Pareto(scale, alpha): from scale up, greater than x with a chance of (scale / x) ** alpha."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast(scale, alpha)
        super().__init__(self.scale.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    def _from(self, e):
        return self.scale * ops.exp(e / self.alpha)

    def log_prob(self, value):
        self._validate_sample(value)
        return ops.log(self.alpha) + self.alpha * ops.log(self.scale) - (self.alpha + 1) * ops.log(value)

    def cdf(self, value):
        self._validate_sample(value)
        return -ops.expm1(self.alpha * ops.log(self.scale / value))

    def entropy(self):
        return ops.log(self.scale / self.alpha) + 1 + 1 / self.alpha

    @property
    def mean(self):
        """inf up to an alpha of 1."""
        a = ops.clamp(self.alpha, 1.0, None)
        return a * self.scale / (a - 1)

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        """inf up to an alpha of 2."""
        a = ops.clamp(self.alpha, 2.0, None)
        return ops.square(self.scale / (a - 1)) * a / (a - 2)


class Weibull(_OfExponential):
    """Weibull(scale, concentration): greater than x with a chance of exp(-(x / scale) ** concentration)."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast(scale, concentration)
        super().__init__(self.scale.shape, (), validate_args)

    def _from(self, e):
        return self.scale * e ** (1 / self.concentration)

    def log_prob(self, value):
        self._validate_sample(value)
        k, log_x = self.concentration, ops.log(value / self.scale)
        return ops.log(k / self.scale) + (k - 1) * log_x - ops.exp(k * log_x)

    def cdf(self, value):
        self._validate_sample(value)
        return -ops.expm1(-((value / self.scale) ** self.concentration))

    def entropy(self):
        k = self.concentration
        return _EULER * (1 - 1 / k) + ops.log(self.scale / k) + 1

    @property
    def mean(self):
        return self.scale * ops.exp(ops.lgamma(1 + 1 / self.concentration))

    @property
    def mode(self):
        """nan below a concentration of 1, where the density has no greatest value."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self):
        k = self.concentration
        return ops.square(self.scale) * (ops.exp(ops.lgamma(1 + 2 / k)) - ops.exp(2 * ops.lgamma(1 + 1 / k)))


class GeneralizedPareto(_OfExponential):
    """GeneralizedPareto(loc, scale, concentration): what is left above a great threshold.

    Greater than x with a chance of (1 + k z) ** (-1 / k), z = (x - loc) / scale, k the concentration: exponential at k = 0, bounded below 0.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        k = self.concentration
        return constraints.interval(self.loc, ops.where(k < 0, self.loc - self.scale / ops.where(k < 0, k, -1.0), math.inf))

    def _bent(self):
        """Where k is as good as 0, and k elsewhere."""
        zero = ops.abs(self.concentration) <= 1e-8
        return zero, ops.where(zero, 1.0, self.concentration)

    def _from(self, e):
        zero, k = self._bent()
        return self.loc + self.scale * ops.where(zero, e, ops.expm1(k * e) / k)

    def _e(self, value):
        """-log of the chance of a greater one."""
        self._validate_sample(value)
        zero, k = self._bent()
        z = (value - self.loc) / self.scale
        return ops.where(zero, z, ops.log1p(ops.where(zero, 0.0, k * z)) / k)

    def log_prob(self, value):
        return -(1 + self.concentration) * self._e(value) - ops.log(self.scale)

    def log_survival_function(self, value):
        """log of the chance of a greater one."""
        return -self._e(value)

    def log_cdf(self, value):
        return ops.log(self.cdf(value))

    def cdf(self, value):
        return -ops.expm1(-self._e(value))

    def entropy(self):
        return ops.log(self.scale) + self.concentration + 1

    @property
    def mean(self):
        """nan from a concentration of 1 on."""
        k = self.concentration
        return ops.where(k < 1, self.loc + self.scale / (1 - ops.where(k < 1, k, 0.0)), math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        """nan from a concentration of 1/2 on."""
        k = ops.where(self.concentration < 0.5, self.concentration, 0.0)
        return ops.where(self.concentration < 0.5, ops.square(self.scale / (1 - k)) / (1 - 2 * k), math.nan)


class HalfCauchy(Distribution):
    """HalfCauchy(scale): the size of a Cauchy number around 0; of infinite mean."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        return ops.abs(drawn(ops.cauchy, self._extended_shape(sample_shape), self.scale, 0.0, 1.0)) * self.scale

    def log_prob(self, value):
        self._validate_sample(value)
        inside = math.log(2 / math.pi) - ops.log(self.scale) - ops.log1p(ops.square(value / self.scale))
        return ops.where(value >= 0, inside, -math.inf)

    def cdf(self, value):
        self._validate_sample(value)
        return ops.atan(value / self.scale) * (2 / math.pi)

    def icdf(self, value):
        return self.scale * ops.tan(value * (math.pi / 2))

    def entropy(self):
        return ops.log(2 * math.pi * self.scale)

    @property
    def mean(self):
        return filled(self._batch_shape, math.inf, self.scale)

    @property
    def mode(self):
        return filled(self._batch_shape, 0.0, self.scale)

    @property
    def variance(self):
        return filled(self._batch_shape, math.inf, self.scale)


class Kumaraswamy(Distribution):
    """Kumaraswamy(concentration1, concentration0): from 0 to 1, up to x with a chance of 1 - (1 - x ** a) ** b. Jones, Kumaraswamy's Distribution (2009)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        return self.icdf(open_uniform(self._extended_shape(sample_shape), self.concentration1))

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return ops.log(a * b) + ops.xlogy(a - 1, value) + ops.xlog1py(b - 1, -(value**a))

    def cdf(self, value):
        self._validate_sample(value)
        return -ops.expm1(ops.xlog1py(self.concentration0, -(value**self.concentration1)))

    def icdf(self, value):
        return (-ops.expm1(ops.log1p(-value) / self.concentration0)) ** (1 / self.concentration1)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * (ops.digamma(b + 1) + _EULER) - ops.log(a * b)

    def _moment(self, n):
        a, b = self.concentration1, self.concentration0
        return ops.exp(ops.log(b) + ops.lgamma(1 + n / a) + ops.lgamma(b) - ops.lgamma(1 + n / a + b))

    @property
    def mean(self):
        return self._moment(1)

    @property
    def mode(self):
        """nan where there is no single one inside."""
        a, b = self.concentration1, self.concentration0
        inside = ops.logical_and(ops.logical_and(a >= 1, b >= 1), a * b > 1)
        return ops.where(inside, ((a - 1) / ops.where(inside, a * b - 1, 1.0)) ** (1 / a), math.nan)

    @property
    def variance(self):
        return self._moment(2) - ops.square(self._moment(1))


class FisherSnedecor(Distribution):
    """FisherSnedecor(df1, df2): the quotient of a Chi2 / df1 and another / df2."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        above, below = (log_gamma_draws(shape, 0.5 * df) - ops.log(df.to(_C.float64)) for df in (self.df1, self.df2))
        return ops.clamp(ops.exp(above - below).to(self.df1.dtype), _overloads.finfo(self.df1.dtype).tiny, None)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        size = ops.lgamma(a + b) - ops.lgamma(a) - ops.lgamma(b)
        return size + a * ops.log(ratio) + (a - 1) * ops.log(value) - (a + b) * ops.log1p(ratio * value)

    @property
    def mean(self):
        """nan up to a df2 of 2."""
        b = ops.where(self.df2 > 2, self.df2, math.nan)
        return b / (b - 2)

    @property
    def mode(self):
        """nan up to a df1 of 2."""
        a = ops.where(self.df1 > 2, self.df1, math.nan)
        return (a - 2) / a * (self.df2 / (self.df2 + 2))

    @property
    def variance(self):
        """nan up to a df2 of 4."""
        a, b = self.df1, ops.where(self.df2 > 4, self.df2, math.nan)
        return 2 * ops.square(b) * (a + b - 2) / (a * ops.square(b - 2) * (b - 4))
