"""Storages of torch whose bytes lie in tensord's shared memory.

Invariant: an address in `_ours` is the first byte of a tensor of the daemon that is alive as long as a storage of torch at that address
is, for the storage keeps the buffer and the buffer the tensor.
"""

import weakref
from typing import Any

import torch
from tensord import _C
from tensord.core._interop import untyped

LEASED = 1 << 20  # bytes; so little is leased, which needs no wait, as the next lease of the size is kept ready
_ours = weakref.WeakValueDictionary()  # address -> the daemon's tensor (uint8, flat)
_storages = {}  # address -> a weak reference to the storage of torch that was made of it


class _WeakStorage:
    def __init__(self, storage):
        self.cdata = storage._weak_ref()

    def get(self):
        return torch.UntypedStorage._new_with_weak_ptr(self.cdata)

    def __del__(self, free=torch.UntypedStorage._free_weak_ref):
        free(self.cdata)


def typed(storage, dtype):
    if hasattr(torch.Tensor, "untyped_storage"):
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype)


def _forget_dead():
    for address in [a for a in _storages if a not in _ours]:
        del _storages[address]


def storage_of(t):
    """The storage over a tensor of the daemon; the same one as long as it lives."""
    view = memoryview(t)
    if view.readonly:  # torch knows no read-only memory: a private mapping
        return untyped(torch.from_dlpack(t))
    fresh = untyped(torch.frombuffer(view, dtype=torch.uint8))
    address = fresh.data_ptr()
    known = _storages.get(address)
    storage = known.get() if known else None
    if storage is not None and storage.nbytes() == view.nbytes:
        return storage
    storage = fresh
    if len(_storages) > 2 * len(_ours) + 64:
        _forget_dead()
    _ours[address] = t
    _storages[address] = _WeakStorage(storage)
    return storage


def new_storage(nbytes):
    small = 0 < nbytes <= LEASED
    return storage_of(_C._leased(nbytes) if small else _C.empty(nbytes, dtype=_C.uint8, device="cpu"))


def lies_in(storage):
    """The daemon's tensor that the storage is made of, or None. Memory of an array from inside tensord.numpy_memory() is one, too."""
    t = _ours.get(storage.data_ptr())
    if t is None:
        return _C._numpy_bytes(storage.data_ptr(), storage.nbytes())
    return t if t.numel() == storage.nbytes() else None


def empty(shape, dtype):
    """A tensor of torch in shared memory."""
    n = 1
    for s in shape:
        n *= s
    out: Any = torch.empty(0, dtype=dtype)
    return out.set_(typed(new_storage(n * out.element_size()), dtype), 0, tuple(shape))


# ---- who else uses a storage ----------------------------------------------------------------------------------------


def _count(storage):
    if hasattr(torch._C, "_storage_Use_Count"):
        return torch._C._storage_Use_Count(storage._cdata)
    import ctypes

    return ctypes.c_size_t.from_address(storage._cdata + ctypes.sizeof(ctypes.c_void_p)).value


def _count_alone():
    """What _count says of a storage that one tensor uses; None where it cannot be trusted."""
    t = torch.empty(8)
    alone = _count(untyped(t))
    view = t[1:]
    two = _count(untyped(t))
    del view
    return alone if two == alone + 1 and _count(untyped(t)) == alone else None


_ALONE = _count_alone()


def move(tensor):
    """Put the tensor's storage into shared memory, for good, as torch does with what is sent. False: it cannot be done unseen, as other
    tensors use that storage too, or the tensor is of a kind whose memory is not a plain storage."""
    if _ALONE is None or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_inference():
        return False
    storage = untyped(tensor)
    if _count(storage) > _ALONE or storage.is_shared():
        return False
    ours = new_storage(storage.nbytes())
    ours.copy_(storage)
    with torch.no_grad():
        there = torch.empty(0, dtype=tensor.dtype).set_(typed(ours, tensor.dtype), tensor.storage_offset(), tensor.size(), tensor.stride())
        tensor.data = there
    return True
