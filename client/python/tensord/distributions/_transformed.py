"""Distributions of functions of draws."""

from tensord import _C, _more
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution
from tensord.distributions._located import Normal
from tensord.distributions.transforms import ExpTransform, Transform


class TransformedDistribution(Distribution):
    """Of t(x), x drawn from a base; several transforms are applied one after the other. Each is of one number at a time."""

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.base_dist, self.transforms = base_distribution, [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise _C.InvalidError(f"transforms must be a Transform or a list of Transforms, but was {transforms!r}")
        self.has_rsample = base_distribution.has_rsample
        super().__init__(base_distribution.batch_shape, base_distribution.event_shape, validate_args)

    @constraints.dependent_property
    def support(self):
        """Affine transforms of bounded draws are not followed: then it is any number."""
        kind = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        return constraints.independent(kind, len(self._event_shape)) if self.transforms and self._event_shape else kind

    def expand(self, batch_shape):
        new = self._new(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape)
        return new

    def _applied(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape=()):
        with _more.no_grad():
            return self._applied(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._applied(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        """log_prob of what became the value, less log |dy/dx| of every transform."""
        self._validate_sample(value)
        y, n, total = value, len(self._event_shape), 0.0
        for t in reversed(self.transforms):
            x = t.inv(y)
            slope = t.log_abs_det_jacobian(x, y)
            total = total - (_C.sum(slope, tuple(range(-n, 0))) if n else slope)
            y = x
        return self.base_dist.log_prob(y) + total

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
