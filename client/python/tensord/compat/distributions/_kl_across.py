"""Divergences of p and q of two families, as -(entropy of p) - (mean under p of log q): what that mean needs of p are a few means.

Where p draws what q never does, the divergence is infinite.
"""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions._chances import ContinuousBernoulli
from tensord.distributions._counted import Bernoulli, Binomial, Poisson
from tensord.distributions._gamma import Beta, Exponential, Gamma
from tensord.distributions._located import Gumbel, Laplace, Normal, Uniform
from tensord.distributions._tailed import Pareto
from tensord.distributions.kl import register_kl

_EULER = 0.57721566490153286061


def _infinite(p, q):
    like = next(v for n in p.arg_constraints if _C.is_tensor(v := getattr(p, n, None)))
    shape = _overloads.broadcast_shapes(p.batch_shape, q.batch_shape)
    return _overloads._made(like.device, False, ops.make_full, tuple(shape), math.inf, like.dtype)


for _p, _qs in {Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform), Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
                Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), Pareto: (Beta, ContinuousBernoulli, Uniform),
                Beta: (Pareto,), ContinuousBernoulli: (Pareto,), Poisson: (Bernoulli, Binomial)}.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)


# ---- means under p


def _mean_log(p):
    """Of log x."""
    if isinstance(p, Gamma):
        return ops.digamma(p.concentration) - ops.log(p.rate)
    if isinstance(p, Exponential):
        return -_EULER - ops.log(p.rate)
    if isinstance(p, Beta):
        return ops.digamma(p.concentration1) - ops.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Pareto):
        return ops.log(p.scale) + 1 / p.alpha
    return (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _mean_log1m(p):
    """Of log(1 - x), of a Uniform."""
    above, below = 1 - p.low, 1 - p.high
    return (ops.xlogy(above, above) - ops.xlogy(below, below)) / (p.high - p.low) - 1


def _mean_exp(p, t):
    """Of exp(-t x)."""
    if isinstance(p, Normal):
        return ops.exp(ops.square(p.scale * t) / 2 - p.loc * t)
    if isinstance(p, Gumbel):
        return ops.exp(ops.lgamma(1 + p.scale * t) - p.loc * t)
    if isinstance(p, Gamma):
        return (p.rate / (p.rate + t)) ** p.concentration
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    return (ops.exp(-p.low * t) - ops.exp(-p.high * t)) / (t * (p.high - p.low))


def _never(wrong, divergence):
    return ops.where(wrong, math.inf, divergence)


# ---- divergences


def _to_normal(p, q):
    square = p.variance + ops.square(p.mean - q.loc)
    return 0.5 * square / ops.square(q.scale) + ops.log(q.scale) + 0.5 * math.log(2 * math.pi) - p.entropy()


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    register_kl(_p, Normal)(_to_normal)


def _positive(p, divergence):
    """Infinite where a Uniform draws negative numbers."""
    return _never(p.low < 0, divergence) if isinstance(p, Uniform) else divergence


def _to_exponential(p, q):
    return _positive(p, q.rate * p.mean - ops.log(q.rate) - p.entropy())


def _to_gamma(p, q):
    a = q.concentration
    return _positive(p, q.rate * p.mean - a * ops.log(q.rate) + ops.lgamma(a) - (a - 1) * _mean_log(p) - p.entropy())


for _p in (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform):
    register_kl(_p, Exponential)(_to_exponential)
for _p in (Beta, Exponential, Pareto, Uniform):
    register_kl(_p, Gamma)(_to_gamma)


def _to_gumbel(p, q):
    return (p.mean - q.loc) / q.scale + ops.exp(q.loc / q.scale) * _mean_exp(p, 1 / q.scale) + ops.log(q.scale) - p.entropy()


for _p in (Exponential, Gamma, Gumbel, Normal, Uniform):
    register_kl(_p, Gumbel)(_to_gumbel)


@register_kl(Normal, Laplace)
def _normal_to_laplace(p, q):
    apart = (p.loc - q.loc) / p.scale
    size = p.scale * (math.sqrt(2 / math.pi) * ops.exp(-0.5 * ops.square(apart)) + apart * ops.erf(apart * math.sqrt(0.5)))  # the mean of |x - q.loc|
    return size / q.scale + ops.log(2 * q.scale) - p.entropy()


def _outside(p, low, high):
    return ops.logical_or(p.low < low, p.high > high)


@register_kl(Uniform, Beta)
def _uniform_to_beta(p, q):
    a, b = q.concentration1, q.concentration0
    size = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
    return _never(_outside(p, 0, 1), size - (a - 1) * _mean_log(p) - (b - 1) * _mean_log1m(p) - p.entropy())


@register_kl(Uniform, Pareto)
def _uniform_to_pareto(p, q):
    within = (q.alpha + 1) * _mean_log(p) - ops.log(q.alpha) - q.alpha * ops.log(q.scale) - p.entropy()
    return _never(p.low < q.scale, within)


def _to_continuous_bernoulli(p, q):
    within = ops.softplus(q.logits) - p.mean * q.logits - q._log_norm() - p.entropy()
    return _never(_outside(p, 0, 1), within) if isinstance(p, Uniform) else within


for _p in (Beta, Uniform):
    register_kl(_p, ContinuousBernoulli)(_to_continuous_bernoulli)


def _to_uniform(p, q):
    """Of what lies between 0 and 1."""
    return _never(ops.logical_or(q.low > 0, q.high < 1), ops.log(q.high - q.low) - p.entropy())


for _p in (Beta, ContinuousBernoulli):
    register_kl(_p, Uniform)(_to_uniform)


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p, q):
    return q.rate - p.probs * ops.log(q.rate) - p.entropy()
