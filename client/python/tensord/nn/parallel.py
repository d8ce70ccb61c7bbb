"""Modules for several devices, by the names of torch.nn.parallel: here a module runs where it lies, and the daemon's threads share the work of each op."""

import sys as _sys
import typing as _typing

from tensord import _C
from tensord.core import _absent, _aliases
from tensord.nn.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """A module under the name `module`, which is called as it is: what PyTorch's does where there is no GPU. Its state has "module." before each name."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids, self.dim = module, [], dim

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs, **module_kwargs); inputs that are no tuple are one."""
    return module(*(inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Refused when it is made: gradients are not added up between processes. It is here for isinstance(model, DistributedDataParallel), which is False."""

    def __init__(self, module, *args, **kwargs):
        raise _C.Unsupported("DistributedDataParallel is not there: no process group adds up gradients; processes of one machine train the same parameters, each "
                             "with its own gradients, behind module.share_memory()")


class _OverDevices:
    """The names of torch.nn.parallel.scatter_gather, which programs import before they know of any device."""

    @staticmethod
    def scatter(inputs, target_gpus, dim=0):
        raise _C.Unsupported("scatter(): a module runs where it lies; module(*inputs) does")

    @staticmethod
    def gather(outputs, target_device, dim=0):
        raise _C.Unsupported("gather(): a module runs where it lies, and its results lie there; tensord.cat() puts several together")


_aliases.put(__name__, _sys.modules[__name__], {"distributed": "DistributedDataParallel", "scatter_gather": "gather=_OverDevices.gather scatter=_OverDevices.scatter"})

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
