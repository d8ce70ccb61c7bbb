"""Modules for several devices, by the names of torch.nn.parallel: here a module runs where it lies, and the daemon's threads share the work of each op."""

import typing as _typing

from tensord import _absent, _C
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


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
