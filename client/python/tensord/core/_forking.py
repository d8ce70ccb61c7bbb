"""fork() while other threads of the program use this package: the child has none of these threads, so nothing may wait there for one.

A module that another thread imports is waited for before the fork: nearly all of the package is imported at its first use, and the child would
wait for ever at its own first use of what was half there. All locks of the package are made by lock() and rlock(), and are free in a child, but for an
rlock() that the thread has which forks; so nothing forks while it has a lock(). What is kept for a thread beside a lock is let go of by in_child().
"""

import os
import threading
import weakref
from importlib import _bootstrap

_locks, _told = weakref.WeakSet(), weakref.WeakSet()
_MOST_IMPORTS = 1000


def lock():
    """A threading.Lock that is free in a child."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock():
    """A threading.RLock that is free in a child, unless the thread that forks has it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def in_child(owner):
    """owner._in_child() is called in each child, after locks are free."""
    _told.add(owner)


def _imported_elsewhere():
    """The package's modules that other threads import now."""
    locks = ((name, ref()) for name, ref in list(getattr(_bootstrap, "_module_locks", {}).items()) if name.partition(".")[0] == "tensord")
    return [name for name, held in locks if getattr(held, "owner", None) not in (None, threading.get_ident())]


def _finish_imports():
    """One import may lead to the next. Where a thread waits for a module that this one imports, neither waits for long: the count ends it."""
    for _ in range(_MOST_IMPORTS):
        names = _imported_elsewhere()
        if not names:
            return
        for name in names:
            _bootstrap._lock_unlock_module(name)


def _child():
    for each in list(_locks):
        if not (hasattr(each, "_is_owned") and each._is_owned()):
            each._at_fork_reinit()
    for owner in list(_told):
        owner._in_child()


os.register_at_fork(before=_finish_imports, after_in_child=_child)
