"""The gamma distribution and what is made of it. Densities and entropies: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions."""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution, broadcast, drawn, filled, open_uniform
from tensord.distributions._family import ExponentialFamily

_TRIES = 4  # candidates at a time: one in twenty is refused at worst


def log_gamma_draws(shape, concentration):
    """Logarithms of gamma draws of scale 1, in float64, with their gradient by the concentration.

    Draws: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables (2000), for a concentration of one more, times a power of a uniform number;
    a logarithm holds what a float would make zero of. Each round waits for whether all are accepted; those that are not are drawn again.
    """
    a = concentration.to(_C.float64).expand(tuple(shape))
    with _overloads.no_grad():
        d = a + (1 - 1 / 3)
        c = 1 / ops.sqrt(9 * d)
        possible = ops.logical_and(a > 0, ops.isfinite(a))  # nothing is accepted of others
        log_v, done = None, ops.logical_not(possible)
        while a.numel():
            x = drawn(ops.randn, (_TRIES, *shape), a)
            v = (1 + c * x) ** 3
            log_candidate = ops.log(ops.clamp(v, 1e-300, None))
            good = ops.logical_and(v > 0, ops.log(open_uniform((_TRIES, *shape), a)) < 0.5 * ops.square(x) + d * (1 - v + log_candidate))
            for i in range(_TRIES):
                log_v = log_candidate[i] if log_v is None else ops.where(done, log_v, log_candidate[i])
                done = ops.logical_or(done, good[i])
            if _C.all(done).item():
                break
        z = ops.where(possible, ops.log(d) + log_v + ops.log(open_uniform(shape, a)) / a, math.nan) if a.numel() else a.detach()
    if not a.requires_grad:
        return z
    return z + _slope(a.detach(), z) * (a - a.detach())


def _slope(a, log_z):
    """d log z / d a at a fixed cdf: -(dP(a, z)/da) / (z density(z)); Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients (2018).

    dP/da by differences of fourth order, of the smaller of P and 1 - P; where z is so small that P = z^a / gamma(a + 1), in closed form. Exact to some
    nine digits; only a first derivative.
    """
    with _overloads.no_grad():
        z = ops.exp(ops.clamp(log_z, -600.0, None))
        h = 1e-3 * ops.minimum(a, ops.sqrt(a))

        def by_a(f):
            return (8 * (f(a + h, z) - f(a - h, z)) - (f(a + 2 * h, z) - f(a - 2 * h, z))) / (12 * h)

        slope = ops.where(ops.igamma(a, z) < 0.5, -by_a(ops.igamma), by_a(ops.igammac)) / ops.exp(a * log_z - z - ops.lgamma(a))
        return ops.where(z < 1e-14, (ops.digamma(a + 1) - log_z) / a, slope)


class Gamma(ExponentialFamily):
    """Gamma(concentration, rate): of mean concentration / rate."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        """Of shape sample_shape + batch_shape; gradients are implicit, and only first ones."""
        made = ops.exp(log_gamma_draws(self._extended_shape(sample_shape), self.concentration)).to(self.concentration.dtype) / self.rate
        return ops.clamp(made, _overloads.finfo(made.dtype).tiny, None)

    def log_prob(self, value):
        value = value if _C.is_tensor(value) else _C.tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return ops.xlogy(a, rate) + ops.xlogy(a - 1, value) - rate * value - ops.lgamma(a)

    def cdf(self, value):
        """Without a gradient by the concentration: that of the incomplete gamma function has no closed form."""
        self._validate_sample(value)
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self):
        a = self.concentration
        return a - ops.log(self.rate) + ops.lgamma(a) + (1 - a) * ops.digamma(a)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ops.clamp((self.concentration - 1) / self.rate, 0.0, None)

    @property
    def variance(self):
        return self.concentration / ops.square(self.rate)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return ops.lgamma(x + 1) - (x + 1) * ops.log(-y)


class Chi2(Gamma):
    """Chi2(df): the sum of df squares of normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        (self.df,) = broadcast(df)
        Distribution.__init__(self, self.df.shape, (), validate_args)

    @property
    def concentration(self):
        return 0.5 * self.df

    @property
    def rate(self):
        return filled(self._batch_shape, 0.5, self.df)


class Exponential(ExponentialFamily):
    """Exponential(rate): times between events that come at this rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        return drawn(ops.exponential, self._extended_shape(sample_shape), self.rate, 1.0) / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        return ops.log(self.rate) - self.rate * value

    def cdf(self, value):
        self._validate_sample(value)
        return -ops.expm1(-self.rate * value)

    def icdf(self, value):
        return -ops.log1p(-value) / self.rate

    def entropy(self):
        return 1 - ops.log(self.rate)

    @property
    def mean(self):
        return 1 / self.rate

    @property
    def mode(self):
        return filled(self._batch_shape, 0.0, self.rate)

    @property
    def stddev(self):
        return 1 / self.rate

    @property
    def variance(self):
        return 1 / ops.square(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -ops.log(-x)


class Dirichlet(ExponentialFamily):
    """Dirichlet(concentration): k shares that add up to one, of a concentration (..., k)."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if not _C.is_tensor(concentration) or not concentration.ndim:
            raise _C.InvalidError("`concentration` must be a tensor of at least one dimension, that of the shares")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape=()):
        """Of shape sample_shape + batch_shape + (k,): gamma draws over their sum."""
        shares = ops.softmax(log_gamma_draws(self._extended_shape(sample_shape), self.concentration), -1).to(self.concentration.dtype)
        limits = _overloads.finfo(shares.dtype)
        return ops.clamp(shares, limits.tiny, 1 - limits.eps / 2)

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return _C.sum(ops.xlogy(a - 1, value), -1) + ops.lgamma(_C.sum(a, -1)) - _C.sum(ops.lgamma(a), -1)

    def entropy(self):
        a, k = self.concentration, self._event_shape[0]
        total = _C.sum(a, -1)
        return _C.sum(ops.lgamma(a), -1) - ops.lgamma(total) - (k - total) * ops.digamma(total) - _C.sum((a - 1) * ops.digamma(a), -1)

    @property
    def mean(self):
        return self.concentration / _C.sum(self.concentration, -1, True)

    @property
    def mode(self):
        """Where no concentration reaches 1, the corner of the largest."""
        above = ops.clamp(self.concentration - 1, 0.0, None)
        corner = ops.one_hot(ops.argmax(self.concentration, -1), self._event_shape[0]).to(above.dtype)
        none = ops.all(self.concentration < 1, -1, True)
        return ops.where(none, corner, above / ops.where(none, 1.0, _C.sum(above, -1, True)))

    @property
    def variance(self):
        total, mean = _C.sum(self.concentration, -1, True), self.mean
        return mean * (1 - mean) / (total + 1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return _C.sum(ops.lgamma(x), -1) - ops.lgamma(_C.sum(x, -1))


class Beta(ExponentialFamily):
    """Beta(concentration1, concentration0): the first share of a Dirichlet distribution of two."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def _shares(self):
        return Dirichlet(_C.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    def rsample(self, sample_shape=()):
        return self._shares().rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._validate_sample(value)
        return self._shares().log_prob(_C.stack([value, 1 - value], -1))

    def entropy(self):
        return self._shares().entropy()

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._shares().mode.select(-1, 0)

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (ops.square(total) * (total + 1))

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)


class StudentT(Distribution):
    """StudentT(df, loc, scale): a normal number over the root of a Chi2 / df."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        chi2 = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * drawn(ops.randn, shape, self.df) * ops.rsqrt(chi2 / self.df)

    def _log_size(self):
        return ops.log(self.scale) + 0.5 * ops.log(self.df) + 0.5 * math.log(math.pi) + ops.lgamma(0.5 * self.df) - ops.lgamma(0.5 * (self.df + 1))

    def log_prob(self, value):
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * ops.log1p(ops.square(z) / self.df) - self._log_size()

    def entropy(self):
        half = 0.5 * (self.df + 1)
        return half * (ops.digamma(half) - ops.digamma(0.5 * self.df)) + self._log_size()

    @property
    def mean(self):
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        df = self.df
        inside = ops.square(self.scale) * df / (ops.clamp(df, 2.0, None) - 2)
        return ops.where(df > 2, inside, ops.where(df > 1, math.inf, filled(self._batch_shape, math.nan, df)))
