"""Memory lent to another process: a handle of some bytes for bytes that both may write.

Unlike a pickled tensor's handle (core/_pickling.py), it lasts as long as the process that made it, and LENT_SECONDS more: a trainer may look at
its next batch in an hour, and when all are killed nothing stays.
"""

import os

from tensord import _C
from tensord.core._pickling import TAKE_SECONDS, _connect

journal = None  # a list: handles are noted there, for who wants to take back what was not taken
LENT_SECONDS = float(os.environ.get("TENSORD_LENT_SECONDS", 60))


def connect():
    """The daemon that all of this program's processes are to share: connected before the first of them is forked."""
    return _C._connected()["path"]


def lend(t):
    handle = t._lend(LENT_SECONDS)
    if journal is not None:
        journal.append(handle)
    return handle, _C.connection()["path"]


def take_back(handles):
    """What nobody took, nobody can take from now on."""
    for handle in handles:
        try:
            _C._take(handle, 0)
        except _C.ConnectionLost:
            return
        except _C.Error:
            pass  # it was taken


def take(handle, path):
    _connect(path)
    try:
        return _C._take(handle, TAKE_SECONDS)
    except (_C.Timeout, _C.NotFound):
        raise _C.NotFound("the memory of an object that another process sent is gone: a handle is for one receiver and ends "
                          f"{LENT_SECONDS:.0f} s after the process that sent it (TENSORD_LENT_SECONDS)") from None
