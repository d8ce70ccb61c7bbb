"""Kullback-Leibler divergences: the mean under p of log p - log q. Closed forms worked out from the entropies and means of the families.

Here: of two of one family. Those of two families are in _kl_across.py.
"""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions._base import Independent
from tensord.distributions._chances import ContinuousBernoulli
from tensord.distributions._counted import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from tensord.distributions._family import ExponentialFamily
from tensord.distributions._gamma import Beta, Dirichlet, Exponential, Gamma
from tensord.distributions._located import Cauchy, HalfNormal, Laplace, Normal, Uniform
from tensord.distributions._low_rank import LowRankMultivariateNormal
from tensord.distributions._multivariate import MultivariateNormal, half_log_det, solved
from tensord.distributions._tailed import HalfCauchy, Pareto
from tensord.distributions._transformed import TransformedDistribution

_KNOWN = {}


def register_kl(type_p, type_q):
    """A decorator: the function f(p, q) is the divergence of these two classes (and of classes made from them)."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise _C.DTypeError(f"register_kl expects two classes of distributions, not {kind!r}")

    def register(function):
        _KNOWN[type_p, type_q] = function
        return function

    return register


def kl_divergence(p, q):
    """KL(p || q) of the broadcast batch_shape. Of what is registered, that of the nearest classes, p's first; NotImplementedError when there is none."""
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            if (kind_p, kind_q) in _KNOWN:
                return _KNOWN[kind_p, kind_q](p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p of {type(p).__name__} and q of {type(q).__name__}: register_kl adds one")


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = ops.square(p.scale / q.scale)
    return 0.5 * (ratio + ops.square((p.loc - q.loc) / q.scale) - 1 - ops.log(ratio))


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    ratio = ops.square(p.scale / q.scale)
    return 0.5 * (ratio - 1 - ops.log(ratio))


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """Chyzak and Nielsen, A Closed-form Formula for the Kullback-Leibler Divergence between Cauchy Distributions (2019)."""
    return ops.log((ops.square(p.scale + q.scale) + ops.square(p.loc - q.loc)) / (4 * p.scale * q.scale))


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchy(p, q):
    """Both sides of a Cauchy distribution around 0 are the same."""
    return ops.log(ops.square(p.scale + q.scale) / (4 * p.scale * q.scale))


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    apart = ops.abs(p.loc - q.loc)
    return (p.scale * ops.exp(-apart / p.scale) + apart) / q.scale - ops.log(p.scale / q.scale) - 1


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    within = ops.logical_and(q.low <= p.low, p.high <= q.high)
    return ops.where(within, ops.log((q.high - q.low) / (p.high - p.low)), math.inf)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ops.log(ratio) - 1


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    within = q.alpha * ops.log(p.scale / q.scale) - ops.log(ratio) + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, within)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return p.mean * (p.logits - q.logits) - ops.softplus(p.logits) + ops.softplus(q.logits) + p._log_norm() - q._log_norm()


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return ops.xlogy(p.rate, p.rate) - ops.xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    return b * ops.log(p.rate / q.rate) + ops.lgamma(b) - ops.lgamma(a) + (a - b) * ops.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = _C.sum(a, -1)
    sizes = ops.lgamma(total) - ops.lgamma(_C.sum(b, -1)) - _C.sum(ops.lgamma(a) - ops.lgamma(b), -1)
    return sizes + _C.sum((a - b) * (ops.digamma(a) - ops.digamma(total).unsqueeze(-1)), -1)


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p._shares(), q._shares())


def _trial(p, q):
    """Of one trial; nothing comes of what p never draws, infinity of what q never does."""
    p, q = p.probs, q.probs
    return ops.xlogy(p, p) - ops.xlogy(p, q) + ops.xlog1py(1 - p, -p) - ops.xlog1py(1 - p, -q)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    return _trial(p, q)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return _trial(p, q) / p.probs


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if not _C.all(p.total_count == q.total_count).item():
        raise NotImplementedError("KL of two Binomials of different total_count is not implemented: give both the same")
    return p.total_count * _trial(p, q)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    each = p.probs * (p.logits - q.logits)
    each = ops.where(q.probs == 0, math.inf, each)
    return _C.sum(ops.where(p.probs == 0, 0.0, each), -1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p, q)


def _normal_vectors(p, q):
    """Of normal vectors of any kinds, by the roots of their covariances."""
    if p.event_shape != q.event_shape:
        raise _C.ShapeError(f"KL of two {type(p).__name__}s needs the same event_shape, not {p.event_shape} and {q.event_shape}")
    shape = (*_overloads.broadcast_shapes(p.batch_shape, q.batch_shape), *p.event_shape * 2)
    one, other = p.scale_tril.expand(shape), q.scale_tril.expand(shape)
    spread = _C.sum(ops.square(ops.linalg_solve_triangular(other, one, False)), (-2, -1))
    apart = _C.sum(ops.square(solved(other, (q.loc - p.loc).expand(shape[:-1]))), -1)
    return half_log_det(other) - half_log_det(one) + 0.5 * (spread + apart - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_normal_vectors)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of two Independents of different reinterpreted_batch_ndims is not implemented: give both the same")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    """What both went through changes nothing."""
    if p.transforms != q.transforms:
        raise NotImplementedError("KL of two TransformedDistributions of different transforms is not implemented: give both the same")
    if p.event_shape != q.event_shape:
        raise NotImplementedError(f"KL of two TransformedDistributions of different event_shapes, {p.event_shape} and {q.event_shape}, is not implemented")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p, q):
    """F(theta_q) - F(theta_p) - (theta_q - theta_p) . F'(theta_p): the Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(f"No KL(p || q) is implemented for p of {type(p).__name__} and q of {type(q).__name__}: register_kl adds one")
    mine, size, slopes = p._sloped()
    theirs = q._natural_params
    total = q._log_normalizer(*theirs) - size
    for a, b, slope in zip(mine, theirs, slopes):
        total = total - q._summed((b - a) * slope)
    return total
