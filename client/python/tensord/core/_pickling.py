"""Pickling: a tensor travels as a handle of some bytes, and the receiver has the same memory.

A handle is good as long as the process that pickled the tensor has it, for any number of receivers. What that process lets go of is kept until it
was taken as often as it was pickled: HANDLE_SECONDS at most; or, when multiprocessing carried it (its queues, pipes, pools), until that process has
ended and HANDLE_SECONDS have passed. A published tensor is found by its name beside that.

Unpickling raises nothing: multiprocessing's pools and executors would lose the task and wait for ever, or break. What cannot be had is a tensor of
that shape, which raises the reason wherever it is used: in the task, or in the program that looks at the result.
"""

import os
import sys
import threading
from typing import Any

from tensord import _C

HANDLE_SECONDS = float(os.environ.get("TENSORD_HANDLE_SECONDS", 60))
TAKE_SECONDS = 10  # the words of who lends memory may still be on their way (share/_loans.py)

_now = threading.local()  # .carried: what is pickled now, multiprocessing carries
_known = set()  # classes that multiprocessing's pickler asks _reduce_carried() about
_PICKLERS = {"ForkingPickler", "_ForkingPickler"}


def reduce(t, protocol=None):
    """For __reduce_ex__: whatever pickler asks."""
    carried = getattr(_now, "carried", False) or _meet(type(t))
    handle, named = t._hand(HANDLE_SECONDS, carried)
    state = {k: v for k, v in getattr(t, "__dict__", {}).items()}
    return rebuild, (handle, _C.connection()["path"], type(t), state, (t.dtype, tuple(t.shape), os.getpid()), named)


def _reduce_carried(t):
    """For multiprocessing's pickler."""
    before, _now.carried = getattr(_now, "carried", False), True
    try:
        return t.__reduce_ex__(2)
    finally:
        _now.carried = before


def _meet(kind):
    """The first time that one of a class is pickled: multiprocessing's pickler will ask for the next ones by itself. Is it that one now?"""
    reduction = sys.modules.get("multiprocessing.reduction")
    if reduction is None or kind in _known:
        return False
    _known.add(kind)
    reduction.ForkingPickler.register(kind, _reduce_carried)
    frame: Any = sys._getframe(1)
    while frame and not _PICKLERS & frame.f_globals.keys():
        frame = frame.f_back
    return frame is not None


def _connect(path):
    here = _C._connected(path)
    if os.path.realpath(here["path"]) != os.path.realpath(path):
        raise _C.ConnectionLost(f"the tensor lives in the daemon at {path}, but this process is connected to {here['path']}; "
                                "set TENSORD_SOCKET to one of them for both processes")


def _of_class(kind, t):
    """The tensor as an object of a class, which is not called: what it asks for, or does, was done where the original was made."""
    nn, wanted = sys.modules.get("tensord.nn"), t.requires_grad
    if nn and issubclass(kind, (nn.Parameter, nn.Buffer)):
        t = t.detach()  # its gradients are this process's
    t = _C.Tensor.__new__(kind, t)
    return t if t.requires_grad == wanted else t.requires_grad_(wanted)


def _take(handle, pid, named):
    try:
        return _C._take(handle, 0, named and named[0])
    except _C.NotFound:
        pass
    why = (f"the tensor that process {pid} pickled is gone: that process has ended or let go of it, and it was taken as often as it was pickled, or left lying "
           f"for {HANDLE_SECONDS:g} s. Pickle it once for each receiver, keep it there, or publish() it")
    if named is None:
        raise _C.NotFound(why)
    try:
        return _C._open_version(*named)
    except _C.NotFound as e:
        raise _C.NotFound(f"{why}. It was published as {named[0]!r}: {e}") from None


def _have(handle, path, pid, named):
    """A process that did nothing since its daemon ended learns of it here: the tensor may be in the next daemon."""
    try:
        _connect(path)
        return _take(handle, pid, named)
    except _C.ConnectionLost as e:
        lost = e
    try:
        _connect(path)
        return _take(handle, pid, named)
    except (_C.NotFound, _C.ConnectionLost):
        raise lost from None


def rebuild(handle, path, kind, state, form, named=None):
    dtype, shape, pid = form
    try:
        t = _have(handle, path, pid, named)
        if kind is not _C.Tensor:
            t = _of_class(kind, t)
    except _C.Error as e:
        t = _C._lost(kind, dtype, shape, type(e), str(e))
    if kind is not _C.Tensor:
        t.__dict__.update(state)
    return t
