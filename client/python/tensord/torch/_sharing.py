"""set_sharing_strategy(): what multiprocessing pickles of torch goes through tensord.

Three hooks, the same for every version of torch: how ForkingPickler reduces tensors and storages; where default_collate stacks, in a
worker; and queues, which carry the hooks to processes that are spawned. Whatever cannot go this way goes torch's: what is no plain memory in
silence; what the daemon refuses, having no memory or being gone, with one warning in the process that a user looks at: who sends it, and of
what a worker sends who receives it. Unpickling raises nothing but in a loader of tensord's own, whose caller is there to hear it (_lost.py).
"""

import collections
import ctypes
import multiprocessing.queues
import multiprocessing.util
import pickle
import threading
import warnings
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing.queue
import torch.multiprocessing.reductions as stock
from tensord import _C
from tensord.core import _forking
from tensord.share import _loans
from tensord.torch import _lost, _memory
from torch.utils.data import get_worker_info
from torch.utils.data._utils import collate

MOST_UNTAKEN = 256  # handles that a worker of torch's own loader remembers
SMALL = 4096  # bytes; a worker sends so little in the message itself, which is quicker than a handle
_KINDS = (torch.Tensor, torch.nn.parameter.Parameter)
_QUEUES = (multiprocessing.queues.Queue, multiprocessing.queues.JoinableQueue, multiprocessing.queues.SimpleQueue,
           torch.multiprocessing.queue.Queue, torch.multiprocessing.queue.SimpleQueue)
_stock_collate = collate.default_collate_fn_map[torch.Tensor]
_REFUSALS = (_C.OutOfMemory, _C.ConnectionLost, _C.SystemFailure, _C.NotFound, _C.Timeout)  # no memory, or no daemon any more
_installed = False
_said = False  # that something goes torch's way which was refused
_ending = None  # of this process, when it is a worker of torch's own loader
_now = threading.local()  # .raises: what is lost is an error of the unpickling
in_worker = False  # also of a loader of tensord's: nobody looks at a tensor again that was sent


def _is_worker():
    return in_worker or get_worker_info() is not None


# ---- what the daemon refuses ----------------------------------------------------------------------------------------


def _say(why):
    global _said
    if not _said:
        _said = True
        warnings.warn("what goes between processes goes torch's own way where tensord's daemon refuses it, with copies and one descriptor a tensor: "
                      f"{why}", RuntimeWarning, stacklevel=3)


def rebuild_refused(why, rebuild, args):
    _say(why)
    return rebuild(*args)


def _refused(storage, why):
    """What torch makes of it; a worker sends the reason along, the first time."""
    global _said
    rebuild, args = stock.reduce_storage(storage)
    if not _is_worker():
        _say(why)
    elif not _said:
        _said = True
        return rebuild_refused, (str(why), rebuild, args)
    return rebuild, args


# ---- storages and tensors -------------------------------------------------------------------------------------------


def _take(handle, path):
    try:
        return _memory.storage_of(_loans.take(handle, path))
    except _C.ConnectionLost as e:
        raise _C.ConnectionLost(f"a tensor was on its way from another process when the daemon went, and its values are gone: {e}. What is sent from "
                                "now on goes torch's own way: begin the loop again") from None


def rebuild_storage(handle, path, nbytes):
    try:
        return _take(handle, path)
    except _C.Error as e:
        if getattr(_now, "raises", False):
            raise
        return _lost.storage(nbytes, e)


def rebuild_tensor(kind, storage, metadata):
    why = _lost.reason(storage)
    return stock.rebuild_tensor(kind, storage, metadata) if why is None else _lost.tensor(kind, storage.dtype, metadata, why)


def loads(body):
    """What ForkingPickler wrote. Raises where something of it is lost."""
    _now.raises = True
    try:
        return pickle.loads(body)
    finally:
        _now.raises = False


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
        self.lock, self.ended = _forking.lock(), False
        _loans.journal = collections.deque(maxlen=MOST_UNTAKEN)
        multiprocessing.util.Finalize(None, self.end, exitpriority=10)

    def end(self):
        with self.lock:
            self.ended = True
            _loans.take_back(list(_loans.journal))

    def lend(self, t):
        with self.lock:
            return (rebuild_small, (bytes(t.numel()),)) if self.ended else _by_handle(t)


def _by_handle(t):
    return rebuild_storage, (*_loans.lend(t), t.numel())


def _lend(t):
    global _ending
    if not in_worker and _ending is None and get_worker_info() is not None:
        _ending = _Ending()
    return _ending.lend(t) if _ending else _by_handle(t)


def reduce_storage(storage):
    if storage.device.type != "cpu" or storage.nbytes() == 0:
        return stock.reduce_storage(storage)
    if storage.nbytes() <= SMALL and _is_worker():
        return rebuild_small, (ctypes.string_at(storage.data_ptr(), storage.nbytes()),)
    try:
        t = _shared(storage)
        if t is not None:
            return _lend(t)
    except _REFUSALS as e:
        return _refused(storage, e)
    return stock.reduce_storage(storage)


def reduce_tensor(tensor):
    plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and type(tensor) in _KINDS
    if plain and not _is_worker() and not (tensor.requires_grad and not tensor.is_leaf):
        try:
            storage = _memory.untyped(tensor)
            if storage.nbytes() and _memory.lies_in(storage) is None:
                del storage
                _memory.move(tensor)
        except _REFUSALS as e:
            _say(e)
    rebuild, args = stock.reduce_tensor(tensor)
    return rebuild_tensor if rebuild is stock.rebuild_tensor else rebuild, args


# ---- batches are stacked where they are to lie ----------------------------------------------------------------------


def collate_tensors(batch, *, collate_fn_map=None):
    first = batch[0]
    if not _is_worker() or type(first) is not torch.Tensor or first.device.type != "cpu" or first.layout != torch.strided:
        return _stock_collate(batch, collate_fn_map=collate_fn_map)
    size = sum(x.numel() for x in batch) * first.element_size()
    if size <= SMALL or size != len(batch) * first.numel() * first.element_size() or first.is_quantized:
        return torch.stack(batch, 0)
    try:
        there = _memory.empty((len(batch), *first.shape), first.dtype)
    except _REFUSALS:
        there = None  # its storage will say so, unless there is memory by then
    return torch.stack(batch, 0, out=there)


# ---- processes that are spawned -------------------------------------------------------------------------------------


def rebuild_queue(kind, state, path):
    from tensord.core import _pickling

    try:
        _pickling._connect(path)
    except _REFUSALS as e:
        _say(e)
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
    maps the same bytes, and both sides see what either writes. What the daemon has no memory for, or when it is gone, goes as it did before, and a
    RuntimeWarning says so once. "torch": as it was.
    """
    if strategy not in ("tensord", "torch"):
        raise _C.InvalidError(f"set_sharing_strategy: the strategies are 'tensord' and 'torch', not {strategy!r}")
    if strategy == "tensord":
        _loans.connect()
        install()
    elif _installed:
        remove()
