"""In place of torch's tensors whose bytes cannot be had: of the same shape and dtype, and whoever uses one is told why.

Unpickling must not raise (tensord/core/_pickling.py), and torch knows no storage without bytes. So a storage that is lost is one of torch's device "meta",
with the reason beside it, and a tensor over it refuses whatever torch is asked to do with it. Tensors of classes of their own, which torch itself
puts together, stay on that device: what is asked of their values is an error of torch's.
"""

from typing import Any

import torch

_DESCRIPTION = ("shape", "dtype", "ndim", "layout", "requires_grad")  # what is known without the bytes
_DESCRIBES = {getattr(torch.Tensor, name).__get__ for name in _DESCRIPTION} | {torch.Tensor.size, torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.element_size,
                                                                              torch.Tensor.stride, torch.Tensor.storage_offset, torch.Tensor.is_floating_point}


class LostTensor(torch.Tensor):
    """Each has a class of its own, as torch asks the class and not the tensor."""

    _why: BaseException

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _DESCRIBES:
            raise cls._why.with_traceback(None)
        with torch._C.DisableTorchFunction():
            return func(*args, **(kwargs or {}))

    def __repr__(self) -> str:  # type: ignore[override]
        from tensord.core import _repr

        return _repr.without("torch.Tensor", "a value", self._why)

    __format__ = object.__format__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return id(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._why.with_traceback(None)


def storage(nbytes, why):
    lost: Any = torch.UntypedStorage(nbytes, device="meta")
    lost.tensord_why = why
    return lost


def reason(typed):
    """Why a storage is lost; None: it is not."""
    own = typed._untyped_storage if hasattr(typed, "_untyped_storage") else typed._storage
    return getattr(own, "tensord_why", None)


def tensor(kind, dtype, metadata, why):
    offset, size, stride, requires_grad = metadata
    meta = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    own = type("LostTensor", (LostTensor,), {"_why": why, "_is_param": kind is torch.nn.parameter.Parameter})
    return torch.Tensor._make_subclass(own, meta, requires_grad)
