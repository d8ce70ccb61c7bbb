"""Kullback-Leibler divergences: the mean under p of log p - log q. Closed forms worked out from the entropies and means of the families."""

import math

from tensord import _C, _more
from tensord._C import ops
from tensord.distributions._base import Independent
from tensord.distributions._counted import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from tensord.distributions._gamma import Beta, Dirichlet, Exponential, Gamma
from tensord.distributions._located import Laplace, Normal, Uniform
from tensord.distributions._multivariate import MultivariateNormal, half_log_det, solved
from tensord.distributions._transformed import LogNormal

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


@register_kl(LogNormal, LogNormal)
def _log_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


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


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    if p.event_shape != q.event_shape:
        raise _C.ShapeError(f"KL of two MultivariateNormals needs the same event_shape, not {p.event_shape} and {q.event_shape}")
    shape = (*_more.broadcast_shapes(p.batch_shape, q.batch_shape), *p.event_shape * 2)
    one, other = p.scale_tril.expand(shape), q.scale_tril.expand(shape)
    spread = _C.sum(ops.square(ops.linalg_solve_triangular(other, one, False)), (-2, -1))
    apart = _C.sum(ops.square(solved(other, q.loc - p.loc)), -1)
    return half_log_det(other) - half_log_det(one) + 0.5 * (spread + apart - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of two Independents of different reinterpreted_batch_ndims is not implemented: give both the same")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
