"""Queues between processes, without pickle: tensors go as they are, what holds them as a few bytes.

An item is a tree of dicts, lists, tuples, None, bools, numbers, strings, bytes and tensors (at most 64). NumPy's arrays travel as tensors, and
come out as tensors.
"""

import operator
import struct
import time
from typing import Any

from tensord import _C

_INT = struct.Struct("<q")
_FLOAT = struct.Struct("<d")
_MAX_DEPTH = 32
_PRODUCER, _CONSUMER, _WATCH = 1, 2, 4
_ANY_NUMBER = 2**32 - 1


def _index(x):
    try:
        return operator.index(x)
    except TypeError:
        raise _C.DTypeError(f"maxsize is a number of items, not a {type(x).__name__}") from None


class _Writer:
    def __init__(self):
        self.out, self.tensors = bytearray(), []

    def text(self, kind, data):
        self.out += kind + _INT.pack(len(data)) + data

    def many(self, kind, x, depth):
        self.out += kind + _INT.pack(len(x))
        for each in x:
            self.put(each, depth)

    def put(self, x, depth=0):
        if depth > _MAX_DEPTH:
            raise _C.InvalidError(f"an item of a queue is nested deeper than {_MAX_DEPTH} (or contains itself)")
        kind = type(x)
        if x is None or kind is bool:
            self.out += {None: b"N", True: b"T", False: b"F"}[x]
        elif kind is int and -(2**63) <= x < 2**63:
            self.out += b"i" + _INT.pack(x)
        elif kind is int:
            self.text(b"I", str(x).encode())
        elif kind is float:
            self.out += b"f" + _FLOAT.pack(x)
        elif kind is complex:
            self.out += b"c" + _FLOAT.pack(x.real) + _FLOAT.pack(x.imag)
        elif kind is str:
            self.text(b"s", x.encode("utf-8", "surrogatepass"))
        elif kind is bytes:
            self.text(b"b", x)
        elif kind is list:
            self.many(b"l", x, depth + 1)
        elif kind is tuple:
            self.many(b"t", x, depth + 1)
        elif kind is dict:
            self.out += b"d" + _INT.pack(len(x))
            for k, v in x.items():
                self.put(k, depth + 1)
                self.put(v, depth + 1)
        else:
            self.tensor(x)

    def tensor(self, x):
        if not _C.is_tensor(x):
            if type(x).__module__ != "numpy":
                raise _C.DTypeError(f"a queue carries dicts, lists, tuples, numbers, strings, bytes and tensors, not a {type(x).__name__}")
            x = _C.asarray(x)
        for k, known in enumerate(self.tensors):
            if known is x:
                break
        else:
            k = len(self.tensors)
            self.tensors.append(x)
        self.out += b"x" + _INT.pack(k)


class _Reader:
    def __init__(self, data, tensors):
        self.data, self.at, self.tensors = data, 0, tensors

    def take(self, n):
        self.at += n
        if n < 0 or self.at > len(self.data):
            raise _C.ProtocolError("an item of the queue was put by something else than tensord.Queue")
        return self.data[self.at - n : self.at]

    def count(self):
        return _INT.unpack(self.take(8))[0]

    def get(self, depth=0):
        if depth > _MAX_DEPTH + 1:
            raise _C.ProtocolError("an item of the queue is nested too deep")
        kind = self.take(1)
        if kind in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[kind]
        if kind == b"i":
            return self.count()
        if kind == b"f":
            return _FLOAT.unpack(self.take(8))[0]
        if kind == b"c":
            return complex(_FLOAT.unpack(self.take(8))[0], _FLOAT.unpack(self.take(8))[0])
        n = self.count()
        if kind == b"x":
            return self.tensors[n]
        if kind in b"lt":
            x = [self.get(depth + 1) for _ in range(n)]
            return x if kind == b"l" else tuple(x)
        if kind == b"d":
            return {self.get(depth + 1): self.get(depth + 1) for _ in range(n)}
        data = self.take(n)
        return data if kind == b"b" else int(data) if kind == b"I" else data.decode("utf-8", "surrogatepass")


class Queue:
    """A queue of this name in the daemon: whoever opens the name, in whatever process, has the same one.

    put() and get() wait as queue.Queue does; timeout in seconds. The one who brings what is waited for may be a thread of the same process.

    maxsize: the number of items that it holds, the same for all who say one; for who came without a number, too. As long as nobody has said
    one (0 or less, the default) it holds as many as the daemon has room for: 65,536 items, or 64 MB of plain data beside their tensors; then
    put() waits. Tensors of items count as their producer's memory: tensord.OutOfMemory is raised where the next one is made.

    When every producer has gone and the queue is empty, or somebody ended it
    with close(end=True), get() raises tensord.Closed.

    A process joins as a producer at its first put(), as a consumer at its first get(). role="producer" or "consumer" joins at once: the queue
    and what lies in it are there as long as somebody has joined, and a producer that waits beside the others keeps it from ending when they die.

    on_death: called by get() with a line about each producer that died without leaving; then get() goes on waiting, unless it raised.
    """

    def __init__(self, name, maxsize=0, *, role=None, on_death=None):
        if role not in (None, "producer", "consumer"):
            raise _C.InvalidError(f"role is 'producer', 'consumer' or None, not {role!r}")
        if on_death is not None and not callable(on_death):
            raise _C.DTypeError(f"on_death is a function of one text, not a {type(on_death).__name__}")
        self.name, self.maxsize, self.on_death = name, _index(maxsize), on_death
        if self.maxsize >= _ANY_NUMBER:
            raise _C.InvalidError(f"maxsize is a number of items below {_ANY_NUMBER}, not {maxsize}; 0: as many as there is room for")
        self._open, self._closed = {}, False
        if role is not None:
            self._role(_PRODUCER if role == "producer" else _CONSUMER)

    def _role(self, role):
        """A member as what it does: who only gets does not count as one that might still put."""
        if self._closed:
            raise _C.InvalidError(f"Queue({self.name!r}) is closed: close() has left it; tensord.Queue({self.name!r}) joins it anew")
        if role not in self._open:
            watch = _WATCH if role == _CONSUMER and self.on_death is not None else 0
            self._open[role] = _C._RawQueue(self.name, self._capacity(), role | watch)
        return self._open[role]

    def _capacity(self):
        return self.maxsize if self.maxsize > 0 else _ANY_NUMBER

    def put(self, item, block=True, timeout=None):
        """Append dicts, lists, tuples, numbers, texts, bytes, None and tensors, nested, with at most 64 tensors: a copy of all but the tensors,
        whose memory the receiver shares. A full queue is waited for (timeout in seconds; block=False: not at all), then tensord.Timeout."""
        w = _Writer()
        w.put(item)
        if len(w.tensors) > 64:
            raise _C.InvalidError(f"{len(w.tensors)} tensors in one item of a queue; at most 64")
        self._role(_PRODUCER).put(tuple(w.tensors), bytes(w.out), timeout if block else 0)

    def get(self, block=True, timeout=None) -> Any:
        """The oldest item, for this consumer alone. An empty queue is waited for (timeout in seconds; block=False: not at all), then
        tensord.Timeout; tensord.Closed when nobody is left who could put."""
        tensors, note = self._get(timeout if block else 0)
        try:
            return _Reader(note, tensors).get()
        except (IndexError, KeyError, struct.error, ValueError) as e:
            raise _C.ProtocolError("an item of the queue was put by something else than tensord.Queue") from e

    def _get(self, timeout):
        if self.on_death is None:
            return self._role(_CONSUMER).get(timeout)[:2]
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._role(_CONSUMER).get(None if until is None else max(0.0, until - time.monotonic()))[:2]
            except _C.ConnectionLost as e:
                _C.status()  # raises it again when it is the daemon that died, not a producer
                self.on_death(str(e).removeprefix(f"{e.op}(): "))

    def put_nowait(self, item):
        self.put(item, block=False)

    def get_nowait(self):
        return self.get(block=False)

    def close(self, end=False):
        """Leave the queue: put() and get() of this object raise a ValueError from then on; others go on. end: nobody may put any more."""
        members, self._open, self._closed = self._open, {}, True
        if end and not members:
            members = {_PRODUCER: _C._RawQueue(self.name, self._capacity(), _PRODUCER)}
        for m in members.values():
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
        return _rebuild, (self.name, self.maxsize, (_C.connection() or {}).get("path"))

    def __repr__(self):
        return f"tensord.Queue({self.name!r}, maxsize={self.maxsize})"


def _rebuild(name, maxsize, path):
    if path:
        from tensord import _pickle

        _pickle._connect(path)
    return Queue(name, maxsize)
