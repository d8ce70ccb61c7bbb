"""Tensors that live in a daemon, in memory that processes share; with PyTorch's manners.

    import tensord as td
    x = td.ones(2, 3, requires_grad=True)     # a daemon is found, or a private one started, by the first tensor
    y = (x * 2).sum()                         # asked of the daemon, computed there, waited for by nobody
    y.backward()
    print(x.grad, y.item())

Importing starts nothing. What is not needed by every program is imported when it is first used.
"""

import os as _os

from tensord import _C
from tensord._C import *  # noqa: F401,F403
from tensord._C import __version__, ops  # noqa: F401

_C._set_package(_os.path.dirname(__file__) + _os.sep)

short, int, long = _C.int16, _C.int32, _C.int64
half, float, double = _C.float16, _C.float32, _C.float64
cfloat, cdouble = _C.complex64, _C.complex128
pi, e, inf, nan, newaxis = 3.141592653589793, 2.718281828459045, 1e400, 1e400 - 1e400, None

TYPE_CHECKING = False
if TYPE_CHECKING:  # what __getattr__ finds
    from tensord import array_api as array_api, autograd as autograd, data as data, nn as nn, optim as optim, torch as torch
    from tensord._more import (broadcast_tensors as broadcast_tensors, enable_grad as enable_grad, finfo as finfo, from_numpy as from_numpy,
                               hstack as hstack, iinfo as iinfo, inference_mode as inference_mode, is_complex as is_complex,
                               is_floating_point as is_floating_point, meshgrid as meshgrid, no_grad as no_grad, numel as numel,
                               numpy_memory as numpy_memory, racy as racy, result_type as result_type, service_memory as service_memory,
                               set_grad_enabled as set_grad_enabled, set_printoptions as set_printoptions, var_mean as var_mean,
                               vstack as vstack)
    from tensord._queue import Queue as Queue

# Where each name lives that is imported at its first use.
_LAZY = {
    "_more": ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "service_memory", "numpy_memory", "racy", "set_printoptions",
              "from_numpy", "numel", "is_floating_point", "is_complex", "finfo", "iinfo", "result_type", "meshgrid", "vstack", "hstack",
              "var_mean", "broadcast_tensors"),
    "_queue": ("Queue",),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}
_MODULES = ("array_api", "autograd", "data", "nn", "optim", "torch")


if not TYPE_CHECKING:

    def __getattr__(name):
        import importlib

        if name in _HOME:
            value = getattr(importlib.import_module("tensord." + _HOME[name]), name)
        elif name in _MODULES:
            value = importlib.import_module("tensord." + name)
        else:
            raise AttributeError(f"module 'tensord' has no attribute '{name}'")
        globals()[name] = value
        return value


def __dir__():
    return sorted({*globals(), *_HOME, *_MODULES})
