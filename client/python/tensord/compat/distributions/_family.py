"""Exponential families: what the entropy and the divergence of any of them follow from."""

from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord.distributions._base import Distribution


class ExponentialFamily(Distribution):
    """Of densities exp(t(x) . theta - F(theta) + k(x)). Entropies and divergences of two of one class come from F and its derivative.

    A class of it says _natural_params (theta, a tuple of tensors) and _log_normalizer(*theta) (F); and _mean_carrier_measure, the mean of k(x), for an
    entropy. Nielsen and Nock, Entropies and Cross-entropies of Exponential Families (2010).
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _natural_params")

    def _log_normalizer(self, *natural_params) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise self._missing("entropy")

    def _summed(self, x):
        extra = x.ndim - len(self._batch_shape)
        return _C.sum(x, tuple(range(-extra, 0))) if extra else x

    def _sloped(self):
        """theta, F and dF/dtheta, the mean of t(x)."""
        from tensord import autograd

        with _overloads.enable_grad():
            theta = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
            size = self._log_normalizer(*theta)
            return theta, size, autograd.grad(size.sum(), theta, create_graph=True)

    def entropy(self):
        """F - theta . dF/dtheta - the mean of k(x)."""
        carrier = self._mean_carrier_measure
        theta, size, slopes = self._sloped()
        for p, slope in zip(theta, slopes):
            size = size - self._summed(p * slope)
        return size - carrier
