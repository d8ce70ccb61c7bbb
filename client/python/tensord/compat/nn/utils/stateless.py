"""A module called with other parameters than its own, under the name that tensord.func.functional_call() had before."""

import warnings

from tensord.func import functional_call as _call

__all__ = ["functional_call"]


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """tensord.func.functional_call(), and a FutureWarning that says so."""
    warnings.warn("nn.utils.stateless.functional_call() is deprecated; func.functional_call() is the same", FutureWarning, stacklevel=2)
    return _call(module, parameters_and_buffers, () if args is None else args, kwargs, tie_weights=tie_weights, strict=strict)
