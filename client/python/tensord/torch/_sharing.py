"""set_sharing_strategy(): what multiprocessing pickles of torch goes through tensord.

Three hooks, the same for every version of torch: how ForkingPickler reduces tensors and storages; where default_collate stacks, in a
worker; and queues, which carry the hooks to processes that are spawned. Whatever cannot go this way goes torch's.
"""

import collections
import ctypes
import multiprocessing.queues
import multiprocessing.util
import threading
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing.queue
import torch.multiprocessing.reductions as stock
from tensord import _C, _lent
from tensord.torch import _memory
from torch.utils.data import get_worker_info
from torch.utils.data._utils import collate

MOST_UNTAKEN = 256  # handles that a worker of torch's own loader remembers
SMALL = 4096  # bytes; a worker sends so little in the message itself, which is quicker than a handle
_KINDS = (torch.Tensor, torch.nn.parameter.Parameter)
_QUEUES = (multiprocessing.queues.Queue, multiprocessing.queues.JoinableQueue, multiprocessing.queues.SimpleQueue,
           torch.multiprocessing.queue.Queue, torch.multiprocessing.queue.SimpleQueue)
_stock_collate = collate.default_collate_fn_map[torch.Tensor]
_installed = False
_ending = None  # of this process, when it is a worker of torch's own loader
in_worker = False  # also of a loader of tensord's: nobody looks at a tensor again that was sent


def _is_worker():
    return in_worker or get_worker_info() is not None


# ---- storages and tensors -------------------------------------------------------------------------------------------


def rebuild_storage(handle, path):
    return _memory.storage_of(_lent.take(handle, path))


def rebuild_small(data):
    return _memory.untyped(torch.frombuffer(bytearray(data), dtype=torch.uint8))


def _shared(storage):
    """The daemon's tensor with these bytes, or None: torch is to carry it. A worker's are copied there."""
    t = _memory.lies_in(storage)
    if t is None and _is_worker():
        ours = _memory.new_storage(storage.nbytes())
        ours.copy_(storage)
        t = _memory.lies_in(ours)
    return t


class _Ending:
    """A worker of torch's own loader ends when nobody will look at its last batches: they are free at once, and not only some time later. Its
    queue pickles in a thread of its own, which may be at work even then: from then on it lends nothing, and sends zeros to nobody."""

    def __init__(self):
        self.lock, self.ended = threading.Lock(), False
        _lent.journal = collections.deque(maxlen=MOST_UNTAKEN)
        multiprocessing.util.Finalize(None, self.end, exitpriority=10)

    def end(self):
        with self.lock:
            self.ended = True
            _lent.take_back(list(_lent.journal))

    def lend(self, t):
        with self.lock:
            return (rebuild_small, (bytes(t.numel()),)) if self.ended else (rebuild_storage, _lent.lend(t))


def _lend(t):
    global _ending
    if not in_worker and _ending is None and get_worker_info() is not None:
        _ending = _Ending()
    return _ending.lend(t) if _ending else (rebuild_storage, _lent.lend(t))


def reduce_storage(storage):
    if storage.device.type != "cpu" or storage.nbytes() == 0:
        return stock.reduce_storage(storage)
    if storage.nbytes() <= SMALL and _is_worker():
        return rebuild_small, (ctypes.string_at(storage.data_ptr(), storage.nbytes()),)
    try:
        t = _shared(storage)
        if t is not None:
            return _lend(t)
    except (_C.OutOfMemory, _C.ConnectionLost):
        pass  # better torch's way than not at all
    return stock.reduce_storage(storage)


def reduce_tensor(tensor):
    plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and type(tensor) in _KINDS
    if plain and not _is_worker() and not (tensor.requires_grad and not tensor.is_leaf):
        try:
            storage = _memory.untyped(tensor)
            if storage.nbytes() and _memory.lies_in(storage) is None:
                del storage
                _memory.move(tensor)
        except (_C.OutOfMemory, _C.ConnectionLost):
            pass
    return stock.reduce_tensor(tensor)


# ---- batches are stacked where they are to lie ----------------------------------------------------------------------


def collate_tensors(batch, *, collate_fn_map=None):
    first = batch[0]
    if not _is_worker() or type(first) is not torch.Tensor or first.device.type != "cpu" or first.layout != torch.strided:
        return _stock_collate(batch, collate_fn_map=collate_fn_map)
    size = sum(x.numel() for x in batch) * first.element_size()
    if size <= SMALL or size != len(batch) * first.numel() * first.element_size() or first.is_quantized:
        return torch.stack(batch, 0)
    return torch.stack(batch, 0, out=_memory.empty((len(batch), *first.shape), first.dtype))


# ---- processes that are spawned -------------------------------------------------------------------------------------


def rebuild_queue(kind, state, path):
    from tensord import _pickle

    _pickle._connect(path)
    install()
    q = kind.__new__(kind)
    q.__setstate__(state)
    return q


def reduce_queue(q):
    return rebuild_queue, (type(q), q.__getstate__(), _C.connection()["path"])


# ---- on and off -----------------------------------------------------------------------------------------------------


def install():
    global _installed
    for kind in _KINDS:
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    for kind in _QUEUES:
        ForkingPickler.register(kind, reduce_queue)
    collate.default_collate_fn_map[torch.Tensor] = collate_tensors
    _installed = True


def remove():
    global _installed
    for kind in _KINDS:
        ForkingPickler.register(kind, stock.reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, stock.reduce_storage)
    reducers = vars(ForkingPickler)["_extra_reducers"]
    for kind in _QUEUES:
        reducers.pop(kind, None)
    collate.default_collate_fn_map[torch.Tensor] = _stock_collate
    _installed = False


def set_sharing_strategy(strategy="tensord"):
    """Let torch's DataLoader workers, torch.multiprocessing's queues, pipes and process arguments hand CPU tensors over through tensord.

    One line at the start of a program, before workers are made. Bytes lie in tensord's shared memory; a message holds a handle; the receiver
    maps the same bytes, and both sides see what either writes. "torch": as it was.
    """
    if strategy not in ("tensord", "torch"):
        raise _C.InvalidError(f"set_sharing_strategy: the strategies are 'tensord' and 'torch', not {strategy!r}")
    if strategy == "tensord":
        _lent.connect()
        install()
    elif _installed:
        remove()
