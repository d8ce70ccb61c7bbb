"""The class that distributions are made from, and what several of them need."""

import functools
import math
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints


def broadcast(*values):
    """Numbers and tensors as tensors of one shape; numbers have the dtype and device of the tensors, or the default."""
    tensors = [v for v in values if _C.is_tensor(v)]
    kinds = [t for t in tensors if t.is_floating_point()]
    dtype = kinds[0].dtype if kinds else _C.get_default_dtype()
    device = tensors[0].device if tensors else None
    made = [v if _C.is_tensor(v) else _overloads._made(device, False, ops.make_full, (), float(v), dtype) for v in values]
    shape = _overloads.broadcast_shapes(*(t.shape for t in made))
    return [t.expand(shape) if tuple(t.shape) != tuple(shape) else t for t in made]


def drawn(make, shape, like, *args):
    """make(shape, *args) with the dtype of a tensor, where it lies."""
    return _overloads._made(like.device, False, make, tuple(shape), *args, like.dtype)


def filled(shape, number, like):
    return drawn(ops.make_full, shape, like, float(number))


def open_uniform(shape, like):
    """Uniform between 0 and 1, never either: what logarithms are taken of."""
    limits = _overloads.finfo(like.dtype)
    return ops.clamp(drawn(ops.rand, shape, like), limits.tiny, 1 - limits.eps)


def inner(probs):
    """Probabilities that have a finite logit."""
    eps = _overloads.finfo(probs.dtype).eps
    return ops.clamp(probs, eps, 1 - eps)


def logits_of(probs, binary):
    """log(p / (1 - p)) of one probability, log(p) of many."""
    probs = inner(probs)
    return ops.log(probs) - ops.log1p(-probs) if binary else ops.log(probs)


class later(functools.cached_property):
    """A parameter that follows from another, computed when asked for; its gradients are recorded wherever that is."""

    def __get__(self, instance, owner=None) -> Any:
        with _overloads.enable_grad():
            return super().__get__(instance, owner)


class Distribution:
    """Of probabilities over events of event_shape, one for each place of batch_shape.

    arg_constraints: what each parameter has to be. support: what it draws. With validate_args (on, unless Python runs with -O, or
    set_default_validate_args(False) said so) a parameter outside raises ValueError, and so does a value that is asked about outside of the support; that
    waits for the daemon.
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    arg_constraints: Any = {}
    support: Any = None
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check, when they are not told."""
        if value not in (True, False):
            raise _C.InvalidError(f"set_default_validate_args expects True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = _C.Size(batch_shape), _C.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if constraint is not None and _C.is_tensor(value) and not _C.all(constraint.check(value)).item():
                raise _C.InvalidError(f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution {type(self).__name__} to satisfy the "
                                      f"constraint {constraint}, but found invalid values:\n{value}")

    @property
    def batch_shape(self):
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one draw."""
        return self._event_shape

    def _new(self, batch_shape):
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._batch_shape = _C.Size(batch_shape)
        return new

    def expand(self, batch_shape):
        """The same with this batch_shape, which the present one broadcasts to."""
        new = self._new(batch_shape)
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if _C.is_tensor(value):
                setattr(new, name, value.expand((*batch_shape, *value.shape[value.ndim - constraint.event_dim :])))
        return new

    def _extended_shape(self, sample_shape=()):
        return _C.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value):
        if not self._validate_args:
            return
        if not _C.is_tensor(value):
            raise _C.InvalidError(f"The value must be a tensor, not {type(value).__name__}: tensord.tensor(...) makes one")
        n = len(self._event_shape)
        if tuple(value.shape[value.ndim - n :]) != self._event_shape or value.ndim < n:
            raise _C.ShapeError(f"The value's last dimensions must be the event_shape {self._event_shape}, but its shape is {tuple(value.shape)}")
        _overloads.broadcast_shapes(tuple(value.shape), self._extended_shape())
        support = self.support
        if support is not None and not _C.all(support.check(value)).item():
            raise _C.InvalidError(f"Expected value (Tensor of shape {tuple(value.shape)}) to be within the support ({support}) of the distribution "
                                  f"{self!r}, but found invalid values:\n{value}")

    def _missing(self, what):
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def sample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + event_shape, without gradients."""
        with _overloads.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Draws whose gradients reach the parameters; NotImplementedError where has_rsample is False."""
        raise self._missing("rsample: its draws are no smooth function of the parameters")

    def log_prob(self, value):
        """The logarithm of the density or probability of values; their shape and batch_shape broadcast, less event_shape."""
        raise self._missing("log_prob")

    def cdf(self, value):
        """The probability of up to the value."""
        raise self._missing("cdf")

    def icdf(self, value):
        """The value whose cdf this is."""
        raise self._missing("icdf")

    def entropy(self):
        """The mean of -log_prob, of shape batch_shape."""
        raise self._missing("entropy")

    def perplexity(self):
        """exp(entropy())."""
        return ops.exp(self.entropy())

    def enumerate_support(self, expand=True):
        """All values, along a new first dimension; expand: for every place of the batch."""
        raise self._missing("enumerate_support: it draws more values than can be listed")

    def _enumerated(self, values, expand):
        values = values.reshape((-1, *((1,) * len(self._batch_shape))))
        return values.expand((values.shape[0], *self._batch_shape)) if expand else values

    @property
    def mean(self) -> Any:
        raise self._missing("mean")

    @property
    def mode(self) -> Any:
        raise self._missing("mode")

    @property
    def variance(self) -> Any:
        raise self._missing("variance")

    @property
    def stddev(self) -> Any:
        return ops.sqrt(self.variance)

    def __repr__(self):
        shown = [f"{n}: {v.item() if v.numel() == 1 else tuple(v.shape)}" for n in self.arg_constraints if _C.is_tensor(v := self.__dict__.get(n))]
        return f"{type(self).__name__}({', '.join(shown)})"


class Independent(Distribution):
    """A distribution whose last reinterpreted_batch_ndims batch dimensions are of one event: log_prob and entropy add up over them.

    ValueError when it has fewer.
    """

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        shape, n = base_distribution.batch_shape, reinterpreted_batch_ndims
        if not 0 <= n <= len(shape):
            raise _C.InvalidError(f"Expected reinterpreted_batch_ndims from 0 to {len(shape)}, the number of batch dimensions of the base, but found {n}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        super().__init__(shape[: len(shape) - n], shape[len(shape) - n :] + base_distribution.event_shape, validate_args)
        self.has_rsample, self.has_enumerate_support = base_distribution.has_rsample, base_distribution.has_enumerate_support and not n

    @constraints.dependent_property
    def support(self):
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    def _summed(self, x):
        n = self.reinterpreted_batch_ndims
        return _C.sum(x, tuple(range(-n, 0))) if n else x

    def expand(self, batch_shape):
        new = self._new(batch_shape)
        new.base_dist = self.base_dist.expand((*batch_shape, *self._event_shape[: self.reinterpreted_batch_ndims]))
        return new

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self):
        return self._summed(self.base_dist.entropy())

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise self._missing("enumerate_support over the values of several dimensions together")
        return self.base_dist.enumerate_support(expand)

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def __repr__(self):
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
