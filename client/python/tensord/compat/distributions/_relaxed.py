"""Whole numbers and places made smooth: draws near 0 and 1, with gradients. Maddison, Mnih and Teh, The Concrete Distribution (2017); Jang, Gu and Poole,
Categorical Reparameterization with Gumbel-Softmax (2017)."""

import math

from tensord import _C
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import open_uniform
from tensord.distributions._counted import OneHotCategorical, _Chance, _Shares
from tensord.distributions._transformed import TransformedDistribution
from tensord.distributions.transforms import ExpTransform, SigmoidTransform


def _temperature(value, like):
    return value if _C.is_tensor(value) else _C.tensor(float(value), dtype=like.dtype, device=like.device)


class LogitRelaxedBernoulli(_Chance):
    """The logit of a RelaxedBernoulli number: logistic noise beside the logits, over the temperature."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        (given,) = self._chances(probs, logits)
        self.temperature = _temperature(temperature, given)
        super().__init__(given.shape, (), validate_args)

    @property
    def param_shape(self):
        """The shape of the probabilities."""
        return self._given.shape

    def rsample(self, sample_shape=()):
        u = open_uniform(self._extended_shape(sample_shape), self._given)
        return (ops.log(u) - ops.log1p(-u) + self.logits) / self.temperature

    def log_prob(self, value):
        self._validate_sample(value)
        apart = self.logits - value * self.temperature
        return ops.log(self.temperature) + apart - 2 * ops.softplus(apart)


class RelaxedBernoulli(TransformedDistribution):
    """RelaxedBernoulli(temperature, probs) or with logits=: between 0 and 1, above 1/2 with this probability; the closer to 0 or 1 the smaller the temperature."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits, validate_args), SigmoidTransform(), validate_args)

    @property
    def temperature(self):
        return self.base_dist.temperature

    @property
    def probs(self):
        return self.base_dist.probs

    @property
    def logits(self):
        return self.base_dist.logits


class ExpRelaxedCategorical(_Shares):
    """The logarithms of RelaxedOneHotCategorical shares: Gumbel noise beside the logits, over the temperature, made shares of one."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        given = self._shares(probs, logits)
        self.temperature = _temperature(temperature, given)
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args)

    def rsample(self, sample_shape=()):
        u = open_uniform(self._extended_shape(sample_shape), self._given)
        return ops.log_softmax((self.logits - ops.log(-ops.log(u))) / self.temperature, -1)

    def log_prob(self, value):
        self._validate_sample(value)
        k = self._event_shape[0]
        return math.lgamma(k) + (k - 1) * ops.log(self.temperature) + _C.sum(ops.log_softmax(self.logits - value * self.temperature, -1), -1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """RelaxedOneHotCategorical(temperature, probs) or with logits=: k shares, the greatest at each place with its probability."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(), validate_args)

    @property
    def temperature(self):
        return self.base_dist.temperature

    @property
    def probs(self):
        return self.base_dist.probs

    @property
    def logits(self):
        return self.base_dist.logits


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws have the gradient of their probabilities. Bengio, Léonard and Courville, Estimating or Propagating Gradients (2013)."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())
