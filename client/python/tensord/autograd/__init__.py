"""Derivatives: backward and grad of whole lists, and the modes."""

import typing as _typing

from tensord import _C, _absent
from tensord._more import _backward, _flag, _kept, enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401


def _tuple(x):
    return (x,) if _C.is_tensor(x) else tuple(x)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None):
    """Gradients of outputs with respect to inputs, a tuple; .grad is left alone. allow_unused: None for an input that took no part."""
    grads = None if grad_outputs is None else _tuple(grad_outputs)
    retain, unused = _kept(retain_graph, create_graph, "grad"), allow_unused is not None and _flag(allow_unused, "grad", "allow_unused")
    return _C._autograd_grad(_tuple(outputs), _tuple(inputs), grads, retain, create_graph, unused)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, *, inputs=None):
    """Add the gradients of several tensors to the .grad of the leaves, or of `inputs` alone."""
    grads = None if grad_tensors is None else _tuple(grad_tensors)
    _backward(_tuple(tensors), grads, retain_graph, create_graph, inputs)


def private_grads(on=True):
    """From here on .grad and backward() of this process speak of gradients of its own.

    Without it all processes that have one leaf (by its name, from a queue, or since a fork) add to one .grad. With it each has its own, and
    what was there before is not seen; they end with the process. A pickled Parameter is a leaf of its own anyway.
    """
    _C._set_private_grads(_flag(on, "private_grads", "on"))

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.autograd")
