"""Memory lent to another process: a handle of some bytes for bytes that both may write.

Unlike a pickled tensor's handle (_pickle.py), it lasts as long as the process that made it, and LENT_SECONDS more: a trainer may look at
its next batch in an hour, and when all are killed nothing stays.
"""

import os

from tensord import _C
from tensord._pickle import TAKE_SECONDS, _connect

LENT_SECONDS = float(os.environ.get("TENSORD_LENT_SECONDS", 60))


def connect():
    """The daemon that all of this program's processes are to share: connected before the first of them is forked."""
    if _C.connection() is None:
        _C.connect()
    return _C.connection()["path"]


def lend(t):
    return t._lend(LENT_SECONDS), _C.connection()["path"]


def take(handle, path):
    _connect(path)
    try:
        return _C._take(handle, TAKE_SECONDS)
    except _C.Timeout:
        raise _C.NotFound("the memory of an object that another process sent is gone: a handle is for one receiver and ends "
                          f"{LENT_SECONDS:.0f} s after the process that sent it (TENSORD_LENT_SECONDS)") from None
