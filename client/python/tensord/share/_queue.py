"""Queues between processes, without pickle: tensors go as they are, what holds them as a few bytes.

An item is a tree of dicts, lists, tuples, sets, None, bools, numbers, texts, bytes and tensors (at most 4096), of dates, times, paths, Decimals
and their like (_codec.py), of OrderedDicts, namedtuples, dataclasses, enums and exceptions (by the name of their class, which the receiver must
have imported). NumPy's arrays and numbers travel as tensors, and come out as tensors; numbers that are keys of a dict, or in a set, stay what
they are. Bytes and texts of a MB and more, and all that is not tensors where that is as much, go through shared memory: a copy into it, a copy
out of it.
"""

import atexit
import operator
import os
import queue
import sys
import time
import weakref
from typing import Literal

from tensord import _C
from tensord.core import _interop

_PRODUCER, _CONSUMER, _WATCH = 1, 2, 4
_ANY_NUMBER = 2**32 - 1


class QueueEmpty(_C.Timeout, queue.Empty):
    """get() found no item in the time that it had. A queue.Empty and a TimeoutError."""


class QueueFull(_C.Timeout, queue.Full):
    """put() found no room in the time that it had. A queue.Full and a TimeoutError."""


QueueEmpty.__module__ = QueueFull.__module__ = "tensord"
_C._queue_errors(QueueEmpty, QueueFull)


def _index(x):
    try:
        return operator.index(x)
    except TypeError:
        raise _C.DTypeError(f"maxsize is a number of items, not {_C._a_type(x)}") from None


def _name(name):
    if isinstance(name, str):
        if name:
            return name
        raise _C.InvalidError("the name of a Queue is empty")
    number = f", {name}" if isinstance(name, int) else ""
    raise _C.DTypeError(f"a Queue is found by its name, a text, in whatever process: tensord.Queue('jobs'{number}), not a name of type {type(name).__name__}")


def _seconds(keep):
    if keep is None or (isinstance(keep, (int, float)) and 0 <= keep <= 1e6):
        return keep
    raise _C.InvalidError(f"keep is a number of seconds from 0 to a million, or None, not {keep!r}")


_producers: "weakref.WeakSet[Queue]" = weakref.WeakSet()  # that have joined as such
_watched = False


def _lost(q, ends):
    """Why what lies in the queue goes when this process leaves it as a producer, or None."""
    items, _, producers, consumers, _, _, keeps = _C._queue_look(q.name)
    if not items or consumers or producers > 1:
        return None
    what = _untaken(q.name, items)
    if not keeps:
        return f"{what} {'are' if items > 1 else 'is'} lost with its last user; Queue(..., keep=60) would keep them for a minute"
    if ends and _is_all():
        return f"{what} {_stay(items, keeps / 1000)}"
    return None


def _untaken(name, items):
    return f"{items} item{'s' * (items > 1)} of queue {name!r} that nobody took"


def _stay(items, seconds):
    return (f"wait{'s' * (items == 1)} {seconds:g} s in the daemon at {_C.connection()['path']}, which only processes of this program find: "
            "start `tensord` before programs that are to meet, or the next with TENSORD_SOCKET set to that")


def _is_all():
    """Whether this process is the one after which its private daemon is called (client/wire/places.h), and nobody else is there."""
    return _C._private() and len(_C.status("sessions")) == 1 and os.path.basename(os.path.dirname(_C.connection()["path"])).startswith(f"{os.getpid()}-")


def _tell_what_is_lost(q, ends=False):
    members = q._open
    if q._closed or _PRODUCER not in members or _CONSUMER in members or q._process != os.getpid():
        return
    if not _C.connection() or members[_PRODUCER].over():
        return  # its daemon has gone, perhaps before it answered the last put; to ask for the items would start another
    try:
        lost = _lost(q, ends)
    except _C.Error:
        return  # the daemon is gone, and more with it
    if lost:
        print(f"tensord: {lost}", file=sys.stderr)


def _at_exit():
    told = {q.name for q in _producers if not q._closed}
    for q in list(_producers):
        _tell_what_is_lost(q, True)
    try:
        if _C.connection() and _is_all():
            for row in _C.status("queues"):
                if row["goes_in_s"] and row["queue"] not in told:  # closed by now, or one of a function that has returned; nobody has joined
                    print(f"tensord: {_untaken(row['queue'], row['items'])} {_stay(row['items'], row['goes_in_s'])}", file=sys.stderr)
    except _C.Error:
        pass


def _remember(q):
    global _watched
    if not _watched:  # after it was connected, so as to run before the end of the connection
        _watched = True
        atexit.register(_at_exit)
    _producers.add(q)


class Queue(_C._Ways):
    """A queue of this name in the daemon: whoever opens the name, in whatever process, has the same one.

    put() and get() wait as queue.Queue does, and raise queue.Full and queue.Empty (tensord.QueueFull, tensord.QueueEmpty) when the timeout, in
    seconds, is over; so do put_nowait() and get_nowait() at once. The one who brings what is waited for may be a thread of the same process.

    maxsize: the number of items that it holds, the same for all who say one; for who came without a number, too. As long as nobody has said
    one (0 or less, the default) it holds as many as the daemon has room for: 65,536 items, or 64 MB of plain data beside their tensors; then
    put() waits. Tensors of items, and plain data of a MB and more, count as their producer's memory: tensord.OutOfMemory is raised where the
    next one is made.

    An item is what was put: a write to one of its tensors before it is taken copies what the item holds, once for all items that wait with it. (Not so of
    tensors that require grad or were published, which are shared, nor of what NumPy writes to memory that it looks at.)

    put() of a tensor that is still being computed waits for nothing, and the item has the values that its ops leave there. When a write in place
    to it had failed before, nothing is put; this put() says so, or, where it did not wait for its answer, the next one. When one fails that
    was still pending, the item has what was there before the write, and the program is told by its next use of that tensor, or by
    tensord.sync(). So what must not go out unwritten is put behind a sync().

    When every producer has gone and the queue is empty, or somebody ended it
    with close(end=True), get() raises tensord.Closed.

    A process joins as a producer at its first put(), as a consumer at its first get(). role="producer" or "consumer" joins at once: the queue
    and what lies in it are there as long as somebody has joined, and a producer that waits beside the others keeps it from ending when they die.

    keep: seconds for which items stay when nobody has joined any more, for who comes later; 0: they go at once. As long as nobody has said it,
    they stay for a minute if no consumer has ever come, and go with the last user otherwise. The producer that leaves as the last and takes
    items along says so on stderr; so does a get() that waits for more than a second while there is no
    producer, and a put() that waits for room while there is no consumer.

    on_death: called by get() with a line about each producer that died without leaving; then get() goes on waiting, unless it raised.

    out: whose tensors get() gives. "tensord" (the default), or "torch": tensors of torch over the same memory, without a copy; of what is in a
    graph the values. put() takes both, whatever it says.
    """

    def __init__(self, name, maxsize=0, *, role=None, on_death=None, keep=None, out: Literal["tensord", "torch"] = "tensord"):
        if role not in (None, "producer", "consumer"):
            raise _C.InvalidError(f"role is 'producer', 'consumer' or None, not {role!r}")
        if on_death is not None and not callable(on_death):
            raise _C.DTypeError(f"on_death is a function of one text, not {_C._a_type(on_death)}")
        self.name, self.maxsize, self.on_death = _name(name), _index(maxsize), on_death
        if self.maxsize >= _ANY_NUMBER:
            raise _C.InvalidError(f"maxsize is a number of items below {_ANY_NUMBER}, not {maxsize}; 0: as many as there is room for")
        _interop.check_out(out)
        self.keep, self.out = _seconds(keep), out
        self._open, self._closed, self._lost = {}, False, None
        _C._connected()  # so that processes that are started from here on find the same daemon
        if role is not None:
            self._role(_PRODUCER if role == "producer" else _CONSUMER)

    def _role(self, role):
        """A member as what it does: who only gets does not count as one that might still put."""
        if self._closed:
            raise self._left()
        members = self._open  # close(), of another thread, puts an empty one in its place
        member = members.get(role)
        if member is None or member.over():  # there is another daemon since, and a queue of this name in it
            watch = _WATCH if role == _CONSUMER and self.on_death is not None else 0
            member = _C._RawQueue(self.name, self._capacity(), role | watch, -1 if self.keep is None else int(self.keep * 1000), self.out)
            members[role] = member
            if role == _PRODUCER:
                self._process = os.getpid()
                _remember(self)
            self._by(members.get(_PRODUCER), members.get(_CONSUMER) if self.on_death is None else None)
            if self._open is not members:
                self._by(None, None)
                member.close()
                raise self._left()
        return member

    def _left(self):
        return (self._lost and self._lost.with_traceback(None)) or _C.InvalidError(f"Queue({self.name!r}) is closed: close() has left it; tensord.Queue({self.name!r}) joins it anew")

    def _capacity(self):
        return self.maxsize if self.maxsize > 0 else _ANY_NUMBER

    def _put(self, item, timeout):
        """put() of who has not joined yet."""
        self._role(_PRODUCER).put_item(item, timeout)

    def _get(self, timeout):
        """get() of who has not joined yet, or wants to hear of deaths."""
        if self.on_death is None:
            return self._role(_CONSUMER).get_item(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._role(_CONSUMER).get_item(None if until is None else max(0.0, until - time.monotonic()))
            except _C.ProducerDied as e:
                self.on_death(str(e).removeprefix(f"{e.op}(): "))

    def put_nowait(self, item):
        self.put(item, block=False)

    def get_nowait(self):
        return self.get(block=False)

    def _look(self):
        if self._closed:
            raise self._left()
        return _C._queue_look(self.name)

    def qsize(self):
        """How many items lie in it, at this moment."""
        return self._look()[0]

    def empty(self):
        """Would a get() wait, at this moment?"""
        return self._look()[0] == 0

    def full(self):
        """Would a put() wait, at this moment?"""
        return self._look()[4]

    def close(self, end=False):
        """Leave the queue: put() and get() of this object raise a ValueError from then on; others go on. end: nobody may put any more."""
        _tell_what_is_lost(self)
        members, self._open, self._closed = self._open, {}, True
        self._by(None, None)
        if end and self._lost:
            raise self._lost
        if end and not members:
            members = {_PRODUCER: _C._RawQueue(self.name, self._capacity(), _PRODUCER)}
        for m in list(members.values()):
            if not m.over():
                m.close(end)

    def __iter__(self):
        """Items until there will be no more."""
        while True:
            try:
                yield self.get()
            except _C.Closed:
                return

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __reduce__(self):
        return _rebuild, (self.name, self.maxsize, (_C.connection() or {}).get("path"), self.keep, self.out)

    def __repr__(self):
        return f"tensord.Queue({self.name!r}, maxsize={self.maxsize})"


def _rebuild(name, maxsize, path, keep=None, out="tensord"):
    """What cannot be reached says so when it is used: whoever unpickles it may be a pool, which an error here would stop."""
    try:
        if path:
            from tensord.core import _pickling

            _pickling._connect(path)
        return Queue(name, maxsize, keep=keep, out=out)
    except (_C.Error, ModuleNotFoundError) as e:
        q = Queue.__new__(Queue)
        q.name, q.maxsize, q.keep, q.out, q.on_death = name, maxsize, keep, out, None
        q._open, q._closed, q._lost = {}, True, e
        return q
