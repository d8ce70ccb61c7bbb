"""Mixtures of distributions of one family."""

from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution
from tensord.distributions._counted import Categorical


class MixtureSameFamily(Distribution):
    """MixtureSameFamily(mixture_distribution, component_distribution): drawn from one of k components, which a Categorical chooses.

    The components are the last dimension of the second's batch. ValueError when the Categorical has another number of places, or another batch.
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise _C.InvalidError(f"The mixture distribution needs to be an instance of tensord.distributions.Categorical, not {type(mixture).__name__}")
        if not isinstance(component, Distribution):
            raise _C.InvalidError(f"The component distribution needs to be an instance of tensord.distributions.Distribution, not {type(component).__name__}")
        batch, k = component.batch_shape[:-1], mixture._given.shape[-1]
        if not component.batch_shape or component.batch_shape[-1] != k:
            raise _C.ShapeError(f"`mixture_distribution component` ({k}) does not equal `component_distribution.batch_shape[-1]` ({component.batch_shape[-1:]})")
        for one, other in zip(reversed(mixture.batch_shape), reversed(batch)):
            if one != 1 and other != 1 and one != other:
                raise _C.ShapeError(f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                                    f"`component_distribution.batch_shape` ({component.batch_shape})")
        self._mixture_distribution, self._component_distribution, self._num_component = mixture, component, k
        super().__init__(batch, component.event_shape, validate_args)

    @property
    def mixture_distribution(self) -> Any:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        return self._component_distribution

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def expand(self, batch_shape):
        new = self._new(batch_shape)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    def _apart(self, value):
        """Beside each of the components."""
        return value.unsqueeze(value.ndim - len(self._event_shape))

    def _mixed(self, x):
        """The mean over components, of a value for each of them."""
        n = len(self._event_shape)
        probs = self._mixture_distribution.probs
        return _C.sum(probs.reshape((*probs.shape, *((1,) * n))) * x, -1 - n)

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            places = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            n = len(self._event_shape)
            dim = drawn.ndim - n - 1
            index = places.reshape((*places.shape, *((1,) * (n + 1)))).expand((*drawn.shape[:dim], 1, *self._event_shape))
            return ops.gather(drawn, dim, index).squeeze(dim)

    def log_prob(self, value):
        self._validate_sample(value)
        return _C.logsumexp(self._component_distribution.log_prob(self._apart(value)) + ops.log_softmax(self._mixture_distribution.logits, -1), -1)

    def cdf(self, value):
        """Of numbers whose components have one."""
        self._validate_sample(value)
        return _C.sum(self._component_distribution.cdf(self._apart(value)) * self._mixture_distribution.probs, -1)

    @property
    def mean(self):
        return self._mixed(self._component_distribution.mean)

    @property
    def variance(self):
        """The mean of the variances, and the variance of the means."""
        means = self._component_distribution.mean
        return self._mixed(self._component_distribution.variance) + self._mixed(ops.square(means - self._apart(self.mean)))

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self._mixture_distribution!r},\n  {self._component_distribution!r})"
