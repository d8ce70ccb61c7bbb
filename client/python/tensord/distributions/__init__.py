"""Distributions of random numbers, with the names and arguments of torch.distributions.

    p = td.distributions.Normal(td.zeros(3), td.ones(3))
    x = p.rsample((100,))                       # (100, 3), with gradients to the parameters
    loss = -p.log_prob(x).mean() + td.distributions.kl_divergence(p, td.distributions.Normal(0.0, 2.0)).sum()

Numbers are drawn from the daemon's stream, which td.manual_seed() begins anew. Parameters and values that make no sense raise ValueError; looking waits
for the daemon, and validate_args=False or Distribution.set_default_validate_args(False) leaves it out.
"""

from tensord.distributions import constraints as constraints, transforms as transforms
from tensord.distributions._base import Distribution, Independent
from tensord.distributions._counted import Bernoulli, Binomial, Categorical, Geometric, Multinomial, OneHotCategorical, Poisson
from tensord.distributions._gamma import Beta, Chi2, Dirichlet, Exponential, Gamma, StudentT
from tensord.distributions._located import Cauchy, Gumbel, HalfNormal, Laplace, Normal, Uniform
from tensord.distributions._multivariate import MultivariateNormal
from tensord.distributions._transformed import LogNormal, TransformedDistribution
from tensord.distributions.kl import kl_divergence, register_kl
from tensord.distributions.transforms import AffineTransform, ExpTransform, SigmoidTransform, TanhTransform, Transform

__all__ = ["AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
           "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal", "Multinomial", "MultivariateNormal", "Normal",
           "OneHotCategorical", "Poisson", "SigmoidTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "constraints",
           "kl_divergence", "register_kl", "transforms"]
