"""Derivatives: backward and grad of whole lists, functions with a backward of one's own, and the modes."""

import sys as _sys
import typing as _typing
import warnings as _warnings

import tensord as _td
from tensord import _C
from tensord.core import _absent, _aliases
from tensord.core._overloads import _backward, _flag, _kept, _tensors, enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from tensord.autograd import function  # noqa: F401
from tensord.autograd.function import Function  # noqa: F401


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None, is_grads_batched=False,
         materialize_grads=False):
    """Gradients of outputs with respect to inputs, a tuple, or a dict for a dict; .grad is left alone. allow_unused: None for an input that took no part;
    materialize_grads: zeros. only_inputs, of old programs, is taken and changes nothing."""
    if not only_inputs:
        _warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the graph, please use "
                       "tensord.autograd.backward.", FutureWarning, stacklevel=2)
    if isinstance(inputs, dict):
        found = grad(outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, True, allow_unused, is_grads_batched, materialize_grads)
        return dict(zip(inputs, found))
    if _flag(materialize_grads, "grad", "materialize_grads") and allow_unused is False:
        raise _C.InvalidError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    grads = None if grad_outputs is None else _tensors(grad_outputs)
    retain = _kept(retain_graph, create_graph, "grad")
    unused = materialize_grads or (allow_unused is not None and _flag(allow_unused, "grad", "allow_unused"))
    inputs = _tensors(inputs)
    if not inputs:
        raise _C.InvalidError("grad(): argument 'inputs' cannot be empty")
    if _flag(is_grads_batched, "grad", "is_grads_batched"):
        return _batched(_tensors(outputs), inputs, grads, retain, create_graph, unused, materialize_grads)
    return _filled(_C._autograd_grad(_tensors(outputs), inputs, grads, retain, create_graph, unused), inputs, materialize_grads)


def _filled(results, inputs, materialize):
    if not materialize:
        return results
    return tuple(_td.zeros_like(x) if g is None else g for g, x in zip(results, inputs))


def _batched(outputs, inputs, grads, retain, create_graph, unused, materialize):
    """One grad() for each first index of the gradients given; results are stacked as PyTorch's vmap would."""
    if not grads or any(g is None for g in grads):
        raise _C.InvalidError("grad(): is_grads_batched wants the gradients of all outputs")
    n = grads[0].shape[0]
    rows = [_filled(_C._autograd_grad(outputs, inputs, tuple(g[k] for g in grads), retain or k + 1 < n, create_graph, unused), inputs, materialize)
            for k in range(n)]
    return tuple(None if rows[0][i] is None else _td.stack([row[i] for row in rows]) for i in range(len(inputs)))


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, *, inputs=None):
    """Add the gradients of several tensors to the .grad of the leaves, or of `inputs` alone."""
    grads = None if grad_tensors is None else _tensors(grad_tensors)
    _backward(_tensors(tensors), grads, retain_graph, create_graph, inputs)


def private_grads(on=True):
    """From here on .grad and backward() of this process speak of gradients of its own.

    Without it all processes that have one leaf (by its name, from a queue, or since a fork) add to one .grad. With it each has its own, and
    what was there before is not seen; they end with the process. A pickled Parameter is a leaf of its own anyway.
    """
    _C._set_private_grads(_flag(on, "private_grads", "on"))


class set_detect_anomaly:
    """Look for NaN in every gradient: at once, and until the end when used with `with`. check_nan=False looks for none."""

    def __init__(self, mode, check_nan=True):
        self._before = _C._set_anomaly(_flag(mode, "set_detect_anomaly", "mode") and _flag(check_nan, "set_detect_anomaly", "check_nan"))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        _C._set_anomaly(self._before)


class detect_anomaly:
    """A backward that gives NaN is an error that names the op and the line that called it."""

    def __init__(self, check_nan=True):
        self._on = _flag(check_nan, "detect_anomaly", "check_nan")

    def __enter__(self):
        self._before = _C._set_anomaly(self._on)
        return self

    def __exit__(self, *exc):
        _C._set_anomaly(self._before)


def Variable(data, requires_grad=False, volatile=None):  # noqa: N802, a class in PyTorch
    """A tensor: what variables have become."""
    return data.detach().requires_grad_() if requires_grad else data


_aliases.put(__name__, _sys.modules[__name__], {"grad_mode": "enable_grad inference_mode no_grad set_grad_enabled", "variable": "Variable"})
_LAZY = {"functional": "functional", "graph": "graph", "profiler": "profiler", "gradcheck": "gradcheck", "gradgradcheck": "gradcheck", "GradcheckError": "gradcheck"}

if not _typing.TYPE_CHECKING:
    _missing = _absent.of("tensord.autograd")

    def __getattr__(name):
        if name not in _LAZY:
            return _missing(name)
        import importlib

        module = importlib.import_module("tensord.autograd." + _LAZY[name])
        # all that it has at once: the import has put the module where its function of the same name belongs
        globals().update({n: getattr(module, n, module) for n, home in _LAZY.items() if home == _LAZY[name]})
        return globals()[name]
