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
import time

import torch.distributed as dist

from tensord import _C
from tensord.share._group import Group
from tensord.torch._collectives import Collectives
from tensord.torch._errors import for_torch
from tensord.torch._mail import Mail
from tensord.torch._store import rendezvous


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


def _wait(store, key, seconds):
    """PyTorch 2's own wait writes lines to stderr each time it ends without the key, so that one is only begun when the key is there."""
    until, pause = time.monotonic() + seconds, 0.001
    while hasattr(store, "check") and not store.check([key]) and time.monotonic() < until:
        time.sleep(min(pause, max(0, until - time.monotonic())))
        pause = min(2 * pause, 0.02)
    if hasattr(store, "check") and not store.check([key]):
        raise RuntimeError(f"timeout: {key} has not been set in {seconds:g} s")
    store.wait([key], datetime.timedelta(seconds=seconds))


def _told_by_rank_0(store, rank, size, timeout):
    """What rank 0 says; while it says nothing it is seen who else has come, as it may hold the store, which then goes with it."""
    until, pause, missing = time.monotonic() + timeout.total_seconds(), 0.25, None
    while True:
        left = max(0.001, until - time.monotonic())
        try:
            _wait(store, "tensord", min(pause, left))
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


class ProcessGroup(Collectives, dist.ProcessGroup):
    """A process group whose ranks are processes of one machine."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.made_by = "new_group" if dist.is_initialized() else "init_process_group"
        self._rank, self._size = rank, size
        self.drawn, socket = _meet(store, rank, size, timeout)
        self._names = {"name": "", "desc": ""}
        self._works = collections.deque(maxlen=64)  # PyTorch 1.13 forgets what is Python's of a work that nobody here has
        seconds = timeout.total_seconds()
        self._timeout = seconds if seconds > 0 else None
        try:
            self._group = Group(self.drawn, size, rank=rank, timeout=seconds, socket=socket)
        except _C.Error as e:
            raise for_torch(e, self) from None
        self._mail = Mail(self._group._raw)
        self.buckets = None  # of _hooks.py

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
        self.shutdown()

    def _keep(self, work):
        self._works.append(work)
        return work


def register():
    """Makes "tensord" a backend of torch.distributed, and a way for its ranks to meet."""
    if "tensord" not in dist.Backend._plugins:
        try:
            dist.Backend.register_backend("tensord", ProcessGroup, devices=["cpu"])
        except TypeError:  # before PyTorch 2.0
            dist.Backend.register_backend("tensord", ProcessGroup)
        dist.register_rendezvous_handler("tensord", rendezvous)
