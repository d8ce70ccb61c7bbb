"""Pickling: a tensor travels as a handle of some bytes, and the receiver has the same memory.

A handle is for one receiver. Until it is taken it keeps the tensor alive, for HANDLE_SECONDS at most, so that messages nobody reads leave
nothing behind.
"""

import os
import sys

from tensord import _C

HANDLE_SECONDS = float(os.environ.get("TENSORD_HANDLE_SECONDS", 60))
TAKE_SECONDS = 10  # the sender's words may still be on their way


def reduce(t):
    handle = t._send(HANDLE_SECONDS)
    state = {k: v for k, v in getattr(t, "__dict__", {}).items()}
    return rebuild, (handle, _C.connection()["path"], type(t), state)


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


def rebuild(handle, path, kind, state):
    _connect(path)
    try:
        t = _C._take(handle, TAKE_SECONDS)
    except _C.Timeout:
        raise _C.NotFound(f"the handle of a pickled tensor is for one receiver, for {HANDLE_SECONDS:.0f} s: it was taken before, or that time "
                          "has passed, or the daemon refused it; to keep a tensor, publish() it or save its numbers") from None
    if kind is not _C.Tensor:
        t = _of_class(kind, t)
        t.__dict__.update(state)
    return t
