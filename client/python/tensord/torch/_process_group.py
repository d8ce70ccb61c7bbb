"""torch.distributed by tensord: init_process_group("tensord").

The ranks of a process group are the members of a group of tensord (share/_group.py), in the daemon of the one that is rank 0: it puts that
daemon's socket into the store by which PyTorch has its ranks meet. A call is complete when it returns: so an error comes out of it, and out of
backward(), as what it is.
"""

import collections
import datetime
import json
import os
import secrets
import sys
import time

import torch
import torch.distributed as dist

from tensord import _C
from tensord.share._group import Group, kind_of, lies_plainly
from tensord.torch._errors import for_torch
from tensord.torch._store import rendezvous


_OPS = [(getattr(dist.ReduceOp, name), number) for name, number in (("SUM", 0), ("AVG", 1), ("MIN", 2), ("MAX", 3), ("PRODUCT", 4))
        if hasattr(dist.ReduceOp, name)]


def _host():
    """What ranks must have in common to share memory: the machine, since it was started, the user and the processes that it sees."""
    with open("/proc/sys/kernel/random/boot_id") as f:
        return {"boot": f.read().strip(), "uid": os.geteuid(), "processes": os.readlink("/proc/self/ns/pid")}


def _invite():
    """What rank 0 says to the others: the group's name, and the daemon it is in. A failure to have one is theirs, too."""
    try:
        if _C.connection() is None:
            _C.connect()
        return {"name": f"torch/{secrets.token_hex(8)}", "socket": _C.connection()["path"], **_host()}
    except _C.Error as e:
        return {"error": str(e)}


_AT_ONCE = datetime.timedelta(milliseconds=1)


def _here(store, rank):
    """Has this rank come? PyTorch 1.13 can only wait."""
    key = [f"tensord/{rank}"]
    if hasattr(store, "check"):
        return store.check(key)
    try:
        store.wait(key, _AT_ONCE)
    except RuntimeError as e:
        if "tim" not in str(e).lower():  # "Timeout", "timed out": in all versions
            raise
        return False
    return True


def _told_by_rank_0(store, rank, size, timeout):
    """What rank 0 says; while it says nothing it is seen who else has come, as it may hold the store, which then goes with it."""
    until, pause, missing = time.monotonic() + timeout.total_seconds(), 0.25, None
    while True:
        left = max(0.001, until - time.monotonic())
        try:
            store.wait(["tensord"], datetime.timedelta(seconds=min(pause, left)))
            return store.get("tensord").decode()
        except RuntimeError as e:  # of PyTorch, in all its versions
            if isinstance(e, _C.MemberLost):
                raise
            words = str(e).splitlines()[0]
            lost = any(word in words.lower() for word in ("reset", "pipe", "closed", "recv"))
            pause *= 2
            if not lost and left > pause:
                try:
                    missing = [r for r in range(1, size) if r != rank and not _here(store, r)]
                    continue
                except RuntimeError:
                    lost = True
            if not lost and time.monotonic() < until:
                continue
        words = f" ({words})" if lost else f", and has said nothing in {timeout.total_seconds():g} s"
        who = f"; rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing[:6]))}{' and more' * (len(missing) > 6)} of {size} had not come, either" if missing else ""
        raise (_C.Error if lost else _C.Timeout)(f"rank {rank} was not told by rank 0 which daemon the group is in: rank 0 has not come, has died, or holds "
                                                 f"a store that waits for other ranks{words}{who}") from None


def _meet(store, rank, size, timeout):
    store.set(f"tensord/{rank}", "")
    if rank == 0:
        store.set("tensord", json.dumps(_invite()))
    said = _told_by_rank_0(store, rank, size, timeout)
    there, here = json.loads(said), _host()
    if "error" in there:
        raise _C.Error(f"rank 0 has no daemon for the group: {there['error']}")
    if there["boot"] != here["boot"]:
        raise _C.Unsupported(f"rank {rank} is on another machine than rank 0: a group of tensord is of one machine; take gloo or nccl for several")
    for what, of in (("uid", "user"), ("processes", "process namespace (container)")):
        if there[what] != here[what]:
            raise _C.Unsupported(f"rank {rank} is of another {of} than rank 0 ({here[what]}, not {there[what]}): a group of tensord is of one")
    return there["name"], there["socket"]


class _Done(dist._Work if hasattr(dist, "_Work") else dist.Work):
    """What a call returns: it is over, and these are its results."""

    def __init__(self, results):
        super().__init__()
        self._results = results

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def is_success(self):
        return True

    def exception(self):
        return None

    def result(self):
        return self._results

    def synchronize(self):
        pass

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self._results)
        return future


def _seconds(opts):
    """The deadline that a call names; None: the group's."""
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if timeout is not None else -1
    return seconds if seconds > 0 else None


def _reduction(op):
    for known, number in _OPS:
        if op == known:
            return number
    raise _C.Unsupported(f"tensord has no all_reduce by {op}; there are SUM, AVG, MIN, MAX and PRODUCT")


_BETWEEN = tuple(os.path.dirname(os.path.dirname(os.path.abspath(f))) + os.sep for f in (dist.__file__, __file__))
_SITES_MOST = 4096
_sites: "dict[tuple[object, int], bytes]" = {}  # texts that the library keeps by their address


def _site():
    """The innermost line that is neither PyTorch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    if frame is None:
        return None
    at = (frame.f_code, frame.f_lineno)
    if at not in _sites and len(_sites) < _SITES_MOST:
        _sites[at] = f"{at[0].co_filename}:{at[1]}".encode(errors="replace")[-88:]
    return _sites.get(at)


class ProcessGroup(dist.ProcessGroup):
    """A process group whose ranks are processes of one machine."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.made_by = "new_group" if dist.is_initialized() else "init_process_group"
        self._rank, self._size = rank, size
        self.drawn, socket = _meet(store, rank, size, timeout)
        self._names = {"name": "", "desc": ""}
        self._works = collections.deque(maxlen=64)  # PyTorch 1.13 forgets what is Python's of a work that nobody here has
        try:
            self._group = Group(self.drawn, size, rank=rank, timeout=timeout.total_seconds(), socket=socket)
        except _C.Error as e:
            raise for_torch(e, self) from None

    def say_ranks(self, text):
        """In a group of some of the ranks a number says little."""
        if self.made_by != "new_group" or "rank" not in text:
            return ""
        here = dist.get_rank()
        return f"; ranks are those of the group of new_group(), in which rank {here} of all is rank {self._rank}" if here != self._rank else ""

    # ---- what PyTorch asks of it

    def getBackendName(self):
        return "tensord"

    def name(self):
        return "tensord"

    def getSize(self):
        return self._size

    def size(self):
        return self._size

    def getRank(self):
        return self._rank

    def rank(self):
        return self._rank

    def setGroupName(self, name):
        self._names["name"] = name

    def getGroupName(self):
        return self._names["name"]

    @property
    def group_name(self):
        return self._names["name"]

    def setGroupDesc(self, desc):
        self._names["desc"] = desc

    def getGroupDesc(self):
        return self._names["desc"]

    @property
    def group_desc(self):
        return self._names["desc"]

    @property
    def supports_splitting(self):
        return False

    def shutdown(self):
        self._group.leave()

    def abort(self):
        self._group.leave()

    # ---- collectives

    def _run(self, call, *args):
        try:
            call(*args, _site())
        except _C.Error as e:
            raise for_torch(e, self) from None

    def _done(self, results):
        work = _Done(results)
        self._works.append(work)
        return work

    def _memory(self, t):
        """A tensor's dtype, how many elements it has, and these without gaps: itself, or a copy."""
        if t.device.type != "cpu" or t.layout != torch.strided:
            raise _C.Unsupported(f"tensord's process group takes dense tensors on the CPU, not one on {t.device} ({t.layout})")
        return kind_of(t).dtype(t), t.numel(), kind_of(t).plain(t)

    def _in_place(self, t, call):
        """Runs call(address, dtype, count) on the bytes of a tensor."""
        dtype, count, plain = self._memory(t)
        self._run(call, plain.data_ptr(), dtype, count)
        if not lies_plainly(t):
            t.detach().copy_(plain)

    def allreduce(self, tensors, opts=None):
        op, seconds = _reduction(opts.reduceOp) if opts is not None else 0, _seconds(opts)
        raw = self._group._raw
        for t in tensors:
            self._in_place(t, lambda at, dtype, count, where: raw.all_reduce(at, at, dtype, count, op, seconds, where))
        return self._done(tensors)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, opts):
        seconds, root, raw = _seconds(opts), opts.rootRank, self._group._raw
        for t in tensors:
            self._in_place(t, lambda at, dtype, count, where: raw.broadcast(at, dtype, count, root, seconds, where))
        return self._done(tensors)

    def _gather(self, given, into, seconds):
        """`into`: a contiguous tensor of size times as many elements."""
        dtype, count, plain = self._memory(given)
        self._run(self._group._raw.all_gather, plain.data_ptr(), into.data_ptr(), dtype, count, seconds)

    def allgather(self, outputs, inputs, opts=None):
        for lists, given in zip(outputs, inputs):
            for t in lists:
                if t.numel() != given.numel() or t.dtype != given.dtype:
                    raise _C.ShapeError(f"all_gather of a tensor of {tuple(given.shape)} ({given.dtype}) into one of {tuple(t.shape)} ({t.dtype})")
            all_of_them = given.new_empty((self._size, given.numel()))
            self._gather(given, all_of_them, _seconds(opts))
            for t, each in zip(lists, all_of_them):
                t.detach().copy_(each.view(given.shape).reshape(t.shape))
        return self._done(outputs)

    def _allgather_base(self, output, given, opts=None):
        if output.numel() != given.numel() * self._size or output.dtype != given.dtype:
            raise _C.ShapeError(f"all_gather of {self._size} tensors of {tuple(given.shape)} ({given.dtype}) into one of {tuple(output.shape)} "
                                f"({output.dtype})")
        into = output.detach() if lies_plainly(output) else given.new_empty(output.shape)
        self._gather(given, into, _seconds(opts))
        if into.data_ptr() != output.data_ptr():
            output.detach().copy_(into)
        return self._done([output])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        for output, given in zip(outputs, inputs):
            self._allgather_base(output, given, opts)
        return self._done(outputs)

    def barrier(self, opts=None):
        self._run(self._group._raw.barrier, _seconds(opts))
        return self._done([])


def _lacks(name, what):
    def call(self, *args, **kw):
        raise _C.Unsupported(f"tensord's process group has no {what} yet; there are all_reduce, broadcast, all_gather and barrier")

    call.__name__ = name
    return call


for _name, _what in {"reduce": "reduce", "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter", "reduce_scatter_single": "reduce_scatter",
                     "gather": "gather", "scatter": "scatter", "alltoall": "all_to_all", "alltoall_base": "all_to_all", "send": "send", "recv": "recv",
                     "recv_anysource": "recv"}.items():
    setattr(ProcessGroup, _name, _lacks(_name, _what))


def register():
    """Makes "tensord" a backend of torch.distributed, and a way for its ranks to meet."""
    if "tensord" not in dist.Backend._plugins:
        try:
            dist.Backend.register_backend("tensord", ProcessGroup, devices=["cpu"])
        except TypeError:  # before PyTorch 2.0
            dist.Backend.register_backend("tensord", ProcessGroup)
        dist.register_rendezvous_handler("tensord", rendezvous)
