"""A probability made more: counts of failures, and a number between 0 and 1."""

import math

from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import inner, later, open_uniform
from tensord.distributions._counted import _Chance
from tensord.distributions._family import ExponentialFamily
from tensord.distributions._gamma import log_gamma_draws


class NegativeBinomial(_Chance):
    """NegativeBinomial(total_count, probs) or with logits=: successes of this probability before total_count failures, which need not be whole."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        given, self.total_count = self._chances(probs, logits, total_count)
        self.total_count = self.total_count.to(given.dtype)
        super().__init__(given.shape, (), validate_args)

    @property
    def param_shape(self):
        """The shape of the probabilities."""
        return self._given.shape

    def sample(self, sample_shape=()):
        """Poisson draws, of rates that are gamma draws."""
        with _overloads.no_grad():
            shape = self._extended_shape(sample_shape)
            none = self.total_count == 0
            rate = ops.exp(log_gamma_draws(shape, ops.where(none, 1.0, self.total_count)) + self.logits).to(self._given.dtype)
            return ops.poisson(ops.where(none, 0.0, rate))

    def log_prob(self, value):
        self._validate_sample(value)
        n = self.total_count
        chance = -n * ops.softplus(self.logits) - value * ops.softplus(-self.logits)
        ways = ops.lgamma(n + value) - ops.lgamma(1 + value) - ops.lgamma(n)
        return chance + ops.where(n + value == 0, 0.0, ways)

    @property
    def mean(self):
        return self.total_count * ops.exp(self.logits)

    @property
    def mode(self):
        return ops.clamp(ops.floor((self.total_count - 1) * ops.exp(self.logits)), 0.0, None)

    @property
    def variance(self):
        return self.mean * (1 + ops.exp(self.logits))


class ContinuousBernoulli(_Chance, ExponentialFamily):
    """ContinuousBernoulli(probs) or with logits=: x between 0 and 1 of a density that is as probs ** x * (1 - probs) ** (1 - x).

    Between lims of probs, where its formulas are 0 / 0, it goes by series. Loaiza-Ganem and Cunningham, The Continuous Bernoulli (2019).
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        (given,) = self._chances(probs, logits)
        super().__init__(given.shape, (), validate_args)
        if logits is None:
            self.__dict__["probs"] = inner(given)
        self._lims = lims

    @later
    def probs(self):
        """Never 0 or 1, which have no logit."""
        return inner(ops.sigmoid(self.logits))

    @property
    def param_shape(self):
        """The shape of the probabilities."""
        return self._given.shape

    def _beside(self, probs):
        """Whether the formulas hold, probs where they do, and how far from 1/2 elsewhere."""
        good = ops.logical_or(probs <= self._lims[0], probs > self._lims[1])
        return good, ops.where(good, probs, self._lims[0]), ops.where(good, 0.0, probs - 0.5)

    def _log_norm(self):
        good, p, x = self._beside(self.probs)
        y = ops.square(x)
        whole = ops.log(ops.abs(ops.log1p(-p) - ops.log(p))) - ops.log(ops.abs(1 - 2 * p))
        return ops.where(good, whole, math.log(2) + (4 / 3 + 104 / 45 * y) * y)

    def rsample(self, sample_shape=()):
        return self.icdf(open_uniform(self._extended_shape(sample_shape), self._given))

    def log_prob(self, value):
        self._validate_sample(value)
        return value * self.logits - ops.softplus(self.logits) + self._log_norm()

    def cdf(self, value):
        self._validate_sample(value)
        good, p, _ = self._beside(self.probs)
        inside = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        return ops.where(value <= 0, 0.0, ops.where(value >= 1, 1.0, ops.where(good, inside, value)))

    def icdf(self, value):
        good, p, _ = self._beside(self.probs)
        inside = (ops.log1p(-p + value * (2 * p - 1)) - ops.log1p(-p)) / (ops.log(p) - ops.log1p(-p))
        return ops.where(good, inside, value)

    def entropy(self):
        return ops.softplus(self.logits) - self.mean * self.logits - self._log_norm()

    @property
    def mean(self):
        good, p, x = self._beside(self.probs)
        return ops.where(good, p / (2 * p - 1) + 1 / (ops.log1p(-p) - ops.log(p)), 0.5 + (1 / 3 + 16 / 45 * ops.square(x)) * x)

    @property
    def variance(self):
        good, p, x = self._beside(self.probs)
        y = ops.square(x)
        whole = p * (p - 1) / ops.square(1 - 2 * p) + 1 / ops.square(ops.log1p(-p) - ops.log(p))
        return ops.where(good, whole, 1 / 12 - (1 / 15 - 128 / 945 * y) * y)

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log((exp(x) - 1) / x), by its series near 0."""
        good = ops.abs(x) > 0.004
        far = ops.where(good, x, 1.0)
        return ops.where(good, ops.log(ops.abs(ops.expm1(far))) - ops.log(ops.abs(far)), x / 2 + ops.square(x) / 24)
