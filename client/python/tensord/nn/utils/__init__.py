"""What is done to parameters together, and to modules that are trained."""

import sys as _sys
import typing as _typing
import warnings

import tensord as td
from tensord import _C
from tensord.core import _absent, _aliases, _layouts
from tensord.nn.utils import rnn as rnn
from tensord.nn.utils._fused import (fuse_conv_bn_eval as fuse_conv_bn_eval, fuse_conv_bn_weights as fuse_conv_bn_weights,
                                     fuse_linear_bn_eval as fuse_linear_bn_eval, fuse_linear_bn_weights as fuse_linear_bn_weights)
from tensord.nn.utils._norms import (remove_spectral_norm as remove_spectral_norm, remove_weight_norm as remove_weight_norm,
                                     spectral_norm as spectral_norm, weight_norm as weight_norm)


def _listed(tensors):
    return [tensors] if td.is_tensor(tensors) else list(tensors)


@td.no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as if they were one vector."""
    tensors = _listed(tensors)
    if not tensors:
        return td.tensor(0.0)
    total = td.norm(td.stack([td.norm(t, norm_type) for t in tensors]), norm_type)
    if error_if_nonfinite and not bool(td.isfinite(total)):
        raise _C.InvalidError(f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so it cannot be clipped. "
                              "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`")
    return total


@td.no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale the gradients by what makes this norm at most max_norm."""
    scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for g in td._C._grads(_listed(parameters)):
        if g is not None:
            g.mul_(scale)


@td.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients so that their common norm is at most max_norm; returns what it was."""
    parameters = _listed(parameters)
    total = get_total_norm([g for g in td._C._grads(parameters) if g is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """clip_grad_norm_() under its old name."""
    warnings.warn("torch.nn.utils.clip_grad_norm is now deprecated in favor of torch.nn.utils.clip_grad_norm_.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


def convert_conv2d_weight_memory_format(module, memory_format):
    """The module: weights lie row after row, which is how convolutions take them."""
    _layouts._order(memory_format, "convert_conv2d_weight_memory_format")
    return module


convert_conv3d_weight_memory_format = convert_conv2d_weight_memory_format


@td.no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Hold every element of the gradients between -clip_value and clip_value."""
    for g in td._C._grads(_listed(parameters)):
        if g is not None:
            g.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters):
    """All parameters one after the other."""
    return td.cat([p.reshape(-1) for p in parameters])


@td.no_grad()
def vector_to_parameters(vec, parameters):
    """The reverse: the parameters get their parts of the vector."""
    at = 0
    for p in parameters:
        p.copy_(vec[at : at + p.numel()].reshape(p.shape))
        at += p.numel()


def skip_init(module_cls, *args, **kwargs):
    """A module; its parameters are initialised here too, which costs little."""
    return module_cls(*args, **kwargs)


_aliases.put(__name__, _sys.modules[__name__], {
    "clip_grad": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    "convert_parameters": "parameters_to_vector vector_to_parameters",
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
})

if _typing.TYPE_CHECKING:  # what __getattr__ finds
    from tensord.nn.utils import parametrizations as parametrizations, parametrize as parametrize, prune as prune, stateless as stateless
else:
    _missing = _absent.of("tensord.nn.utils")

    def __getattr__(name):
        if name not in ("parametrizations", "parametrize", "prune", "stateless"):
            return _missing(name)
        import importlib

        return importlib.import_module("tensord.nn.utils." + name)

    def __dir__():
        return sorted({*globals(), "parametrizations", "parametrize", "prune", "stateless"})
