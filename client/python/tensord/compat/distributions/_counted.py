"""Distributions over whole numbers and places. Formulas: Johnson, Kemp and Kotz, Univariate Discrete Distributions."""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution, broadcast, drawn, filled, later, logits_of, open_uniform
from tensord.distributions._family import ExponentialFamily

_AT_ONCE = 1 << 24  # numbers that one draw of Binomial makes at a time


def _one_of(probs, logits):
    if (probs is None) == (logits is None):
        raise _C.InvalidError("Either `probs` or `logits` must be specified, but not both")


class _Chance(Distribution):
    """A probability, or its logit log(p / (1 - p)), for each place of the batch."""

    def _chances(self, probs, logits, *others):
        _one_of(probs, logits)
        given, *others = broadcast(probs if logits is None else logits, *others)
        self.__dict__["probs" if logits is None else "logits"] = given
        return given, *others

    @later
    def probs(self):
        return ops.sigmoid(self.logits)

    @later
    def logits(self):
        return logits_of(self.probs, True)

    @property
    def _given(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits

    def _entropy1(self):
        """Of one trial."""
        return ops.softplus(self.logits) - self.logits * self.probs


class Bernoulli(_Chance, ExponentialFamily):
    """Bernoulli(probs) or Bernoulli(logits=...): 1 with this probability, else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        (given,) = self._chances(probs, logits)
        super().__init__(given.shape, (), validate_args)

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        return value * self.logits - ops.softplus(self.logits)

    def entropy(self):
        return self._entropy1()

    def enumerate_support(self, expand=True):
        return self._enumerated(_overloads._made(self._given.device, False, ops.arange, 0, 2, 1, self._given.dtype), expand)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        """nan where both are as probable."""
        return ops.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        return ops.softplus(x)


class Geometric(_Chance):
    """Geometric(probs) or Geometric(logits=...): failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        given = self._chances(probs, logits)[0]
        super().__init__(given.shape, (), validate_args)
        if self._validate_args and logits is None and not _C.all(given > 0).item():
            raise _C.InvalidError("Expected parameter probs of distribution Geometric to be greater than 0, but found a zero: it would never succeed")

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            u = open_uniform(self._extended_shape(sample_shape), self._given)
            return ops.floor(ops.log(u) / ops.log1p(-self.probs))

    def log_prob(self, value):
        self._validate_sample(value)
        return ops.xlog1py(value, -self.probs) + ops.log(self.probs)

    def entropy(self):
        return self._entropy1() / self.probs

    @property
    def mean(self):
        return 1 / self.probs - 1

    @property
    def mode(self):
        return filled(self._batch_shape, 0.0, self._given)

    @property
    def variance(self):
        return (1 / self.probs - 1) / self.probs


class Binomial(_Chance):
    """Binomial(total_count, probs) or Binomial(total_count, logits=...): successes among total_count trials."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        given, self.total_count = self._chances(probs, logits, total_count)
        self.total_count = self.total_count.to(given.dtype)
        super().__init__(given.shape, (), validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    def sample(self, sample_shape=()):
        """Counts trials, so it takes time in proportion to total_count, whose greatest is waited for."""
        with _overloads.no_grad():
            shape = self._extended_shape(sample_shape)
            n, size = int(self.total_count.max().item()) if math.prod(self._batch_shape) else 0, math.prod(shape)
            counts, step = filled(shape, 0.0, self._given), max(1, _AT_ONCE // max(size, 1))
            for start in range(0, n, step):
                m = min(step, n - start)
                trials = ops.bernoulli(self.probs.expand((m, *shape)))
                index = _overloads._made(trials.device, False, ops.arange, start, start + m, 1, trials.dtype).reshape((m, *((1,) * len(shape))))
                counts = counts + _C.sum(ops.where(index < self.total_count, trials, 0.0), 0)
            return counts

    def log_prob(self, value):
        self._validate_sample(value)
        n = self.total_count
        ways = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        return ways + value * self.logits - n * ops.softplus(self.logits)

    def _count(self, what):
        most = int(self.total_count.max().item())
        if not _C.all(self.total_count == most).item():
            raise NotImplementedError(f"Binomial has {what} only where total_count is the same everywhere")
        return most

    def entropy(self):
        """Summed over all values; total_count has to be the same everywhere."""
        self._count("an entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -_C.sum(ops.exp(log_prob) * log_prob, 0)

    def enumerate_support(self, expand=True):
        n = self._count("a list of its values")
        return self._enumerated(_overloads._made(self._given.device, False, ops.arange, 0, n + 1, 1, self._given.dtype), expand)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ops.minimum(ops.floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)


class Poisson(ExponentialFamily):
    """Poisson(rate): events that come at this rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        return ops.xlogy(value, self.rate) - self.rate - ops.lgamma(value + 1)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return ops.floor(self.rate)

    @property
    def variance(self):
        return self.rate

    @property
    def _natural_params(self):
        return (ops.log(self.rate),)

    def _log_normalizer(self, x):
        return ops.exp(x)


class _Shares(Distribution):
    """Probabilities (made to add up to one) or their logarithms along the last dimension."""

    def _shares(self, probs, logits):
        _one_of(probs, logits)
        given = probs if logits is None else logits
        if not _C.is_tensor(given) or not given.ndim:
            raise _C.InvalidError(f"`{'probs' if logits is None else 'logits'}` must be a tensor of at least one dimension, that of the events")
        if logits is None:
            self.probs = given / _C.sum(given, -1, True)
        else:
            self.logits = given - _C.logsumexp(given, -1, True)
        return given

    @later
    def probs(self):
        return ops.softmax(self.logits, -1)

    @later
    def logits(self):
        return logits_of(self.probs, False)

    @property
    def _given(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self):
        """The shape of the probabilities."""
        return self._given.shape

    def _places(self, shape, n):
        """n draws for each row of probabilities, (n, *shape)."""
        k = self._given.shape[-1]
        probs = self.probs.detach()
        made = ops.multinomial(probs.reshape((-1, k)), n, True) if n and probs.numel() else _none(probs, n)
        return made.transpose(0, 1).reshape((n, *shape))

    def _entropy1(self):
        least = _overloads.finfo(self._given.dtype).min
        return -_C.sum(ops.clamp(self.logits, least, None) * self.probs, -1)


def _none(probs, n):
    rows = math.prod(probs.shape[:-1])
    return _overloads._made(probs.device, False, ops.make_full, (rows, n), 0, _C.int64)


class Categorical(_Shares):
    """Categorical(probs) or Categorical(logits=...): a place along the last dimension, (..., k)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        given = self._shares(probs, logits)
        super().__init__(given.shape[:-1], (), validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.integer_interval(0, self._given.shape[-1] - 1)

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            return self._places(self._batch_shape, math.prod(sample_shape)).reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        shape = _overloads.broadcast_shapes(tuple(value.shape), self._batch_shape)
        logits = self.logits.expand((*shape, self._given.shape[-1]))
        return ops.gather(logits, -1, value.to(_C.int64).expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self):
        return self._entropy1()

    def enumerate_support(self, expand=True):
        return self._enumerated(_overloads._made(self._given.device, False, ops.arange, 0, self._given.shape[-1], 1, _C.int64), expand)

    @property
    def mean(self):
        """nan: places are no numbers."""
        return filled(self._batch_shape, math.nan, self._given)

    @property
    def mode(self):
        return ops.argmax(self.probs, -1, False)

    @property
    def variance(self):
        return filled(self._batch_shape, math.nan, self._given)


class OneHotCategorical(_Shares):
    """As Categorical, drawing the place as a one among zeros, of shape (..., k)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        given = self._shares(probs, logits)
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args)

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            places = self._places(self._batch_shape, math.prod(sample_shape)).reshape((*sample_shape, *self._batch_shape))
            return ops.one_hot(places, self._event_shape[0]).to(self._given.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        return _C.sum(ops.where(value != 0, self.logits, 0.0), -1)

    def entropy(self):
        return self._entropy1()

    def enumerate_support(self, expand=True):
        k = self._event_shape[0]
        values = drawn(lambda shape, dtype: ops.eye(*shape, dtype), (k, k), self._given).reshape((k, *((1,) * len(self._batch_shape)), k))
        return values.expand((k, *self._batch_shape, k)) if expand else values

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        return ops.one_hot(ops.argmax(self.probs, -1, False), self._event_shape[0]).to(self._given.dtype)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)


class Multinomial(_Shares):
    """Multinomial(total_count, probs) or Multinomial(total_count, logits=...): how often each of k places came up among total_count draws, (..., k).

    total_count is one number.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int) or total_count < 0:
            raise _C.InvalidError(f"total_count must be one whole number that is not negative, not {total_count!r}")
        self.total_count = total_count
        given = self._shares(probs, logits)
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=()):
        with _overloads.no_grad():
            n = self.total_count
            places = self._places(self._batch_shape, n * math.prod(sample_shape)).reshape((n, *sample_shape, *self._batch_shape))
            return _C.sum(ops.one_hot(places, self._event_shape[0]), 0).to(self._given.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        ways = math.lgamma(self.total_count + 1) - _C.sum(ops.lgamma(value + 1), -1)
        return ways + _C.sum(ops.where(value == 0, 0.0, value * self.logits), -1)

    def entropy(self):
        """n H(p) - log n! + the mean of log x! of each count, which are binomial."""
        n = self.total_count
        counts = _overloads._made(self._given.device, False, ops.arange, 1, n + 1, 1, self._given.dtype).reshape((n, *((1,) * (len(self._batch_shape) + 1))))
        binomial = ops.exp(Binomial(n, self.probs, validate_args=False).log_prob(counts))
        return n * self._entropy1() - math.lgamma(n + 1) + _C.sum(_C.sum(binomial * ops.lgamma(counts + 1), 0), -1)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)
