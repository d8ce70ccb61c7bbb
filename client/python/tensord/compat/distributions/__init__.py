"""Distributions of random numbers, with the names and arguments of torch.distributions.

    p = td.distributions.Normal(td.zeros(3), td.ones(3))
    x = p.rsample((100,))                       # (100, 3), with gradients to the parameters
    loss = -p.log_prob(x).mean() + td.distributions.kl_divergence(p, td.distributions.Normal(0.0, 2.0)).sum()

Numbers are drawn from the daemon's stream, which td.manual_seed() begins anew. Parameters and values that make no sense raise ValueError; looking waits
for the daemon, and validate_args=False or Distribution.set_default_validate_args(False) leaves it out.
"""

import sys as _sys

from tensord.core import _aliases
from tensord.distributions import _kl_across as _kl_across, constraints as constraints, transforms as transforms, utils as utils
from tensord.distributions._base import Distribution, Independent
from tensord.distributions._chances import ContinuousBernoulli, NegativeBinomial
from tensord.distributions._circle import VonMises
from tensord.distributions._counted import Bernoulli, Binomial, Categorical, Geometric, Multinomial, OneHotCategorical, Poisson
from tensord.distributions._family import ExponentialFamily
from tensord.distributions._gamma import Beta, Chi2, Dirichlet, Exponential, Gamma, StudentT
from tensord.distributions._located import Cauchy, Gumbel, HalfNormal, Laplace, Normal, Uniform
from tensord.distributions._low_rank import LowRankMultivariateNormal
from tensord.distributions._matrices import LKJCholesky, Wishart
from tensord.distributions._mixture import MixtureSameFamily
from tensord.distributions._multivariate import MultivariateNormal
from tensord.distributions._relaxed import OneHotCategoricalStraightThrough, RelaxedBernoulli, RelaxedOneHotCategorical
from tensord.distributions._tailed import FisherSnedecor, GeneralizedPareto, HalfCauchy, Kumaraswamy, Pareto, Weibull
from tensord.distributions._transformed import InverseGamma, LogisticNormal, LogNormal, TransformedDistribution
from tensord.distributions.constraint_registry import biject_to, transform_to
from tensord.distributions.kl import kl_divergence, register_kl
from tensord.distributions.transforms import (AbsTransform, AffineTransform, CatTransform, ComposeTransform, CorrCholeskyTransform, CumulativeDistributionTransform,
                                              ExpTransform, IndependentTransform, LowerCholeskyTransform, PositiveDefiniteTransform, PowerTransform,
                                              ReshapeTransform, SigmoidTransform, SoftmaxTransform, SoftplusTransform, StackTransform, StickBreakingTransform,
                                              TanhTransform, Transform, identity_transform)

__all__ = ["AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy", "Chi2", "ComposeTransform",
           "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
           "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
           "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal",
           "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
           "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform", "PowerTransform", "RelaxedBernoulli",
           "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
           "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart",
           "biject_to", "constraints", "identity_transform", "kl_divergence", "register_kl", "transform_to", "transforms", "utils"]

_aliases.put(__name__, _sys.modules[__name__], {
    "distribution": "Distribution", "exp_family": "ExponentialFamily", "independent": "Independent", "transformed_distribution": "TransformedDistribution",
    "mixture_same_family": "MixtureSameFamily", "lowrank_multivariate_normal": "LowRankMultivariateNormal", "lkj_cholesky": "LKJCholesky",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough", "relaxed_bernoulli": "RelaxedBernoulli", "studentT": "StudentT",
    "relaxed_categorical": "RelaxedOneHotCategorical", "fishersnedecor": "FisherSnedecor", "von_mises": "VonMises", "chi2": "Chi2",
    "multivariate_normal": "MultivariateNormal", **{name: name.title().replace("_", "") for name in """bernoulli beta binomial categorical cauchy
    continuous_bernoulli dirichlet exponential gamma generalized_pareto geometric gumbel half_cauchy half_normal inverse_gamma kumaraswamy laplace log_normal
    logistic_normal multinomial negative_binomial normal pareto poisson uniform weibull wishart""".split()}})
