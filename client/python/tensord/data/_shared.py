"""Lists and dicts of plain data in shared memory.

A list of Python objects that workers inherit grows in each of them: looking at an object writes its count, and the page is copied. Here the
objects lie pickled in one tensor of the daemon; an access makes a new object of a few bytes. Pickled, they travel as handles. As with tensors
(core/_pickling.py) unpickling raises nothing: of what cannot be had every access says why.
"""

import copyreg
import hashlib
import io
import pickle
import sys

from tensord import _C
from tensord.core import _overlapping
from tensord.share import _loans


def _bytes_of(data):
    t = _C.empty(max(1, len(data)), dtype=_C.uint8, device="cpu")
    with memoryview(t) as view:
        view[: len(data)] = data
    return t


class _Blobs:
    """Byte strings, one after the other: places (n + 1 of 8 bytes), then the bytes."""

    def __init__(self, blobs):
        places, out = [0], bytearray()
        for b in blobs:
            out += b
            places.append(len(out))
        head = b"".join(p.to_bytes(8, "little") for p in places)
        self._open(_bytes_of(head + out), len(places) - 1)

    def _open(self, t, n):
        self.tensor, self.n, self.view = t, n, memoryview(t)
        self.places = self.view[: 8 * (n + 1)].cast("q")
        self.body = self.view[8 * (n + 1) :]

    def __getitem__(self, i):
        return self.body[self.places[i] : self.places[i + 1]]

    def __reduce__(self):
        return _rebuild_blobs, (self.n, *_loans.lend(self.tensor))


class _Lost:
    """In place of byte strings that cannot be had: whoever asks for them is told why."""

    def __init__(self, why):
        self._why = why

    def _raise(self, *ignored):
        raise self._why.with_traceback(None)

    n = property(_raise)
    __getitem__ = __reduce__ = _raise


def _rebuild_blobs(n, handle, path):
    blobs = _Blobs.__new__(_Blobs)
    try:
        blobs._open(_loans.take(handle, path), n)
    except _C.Error as e:
        return _Lost(e)
    return blobs


def _told(x):
    kind = type(x).__name__
    try:
        return f"{kind} of {len(x)} items"
    except _C.Error as e:
        from tensord.core import _repr

        return _repr.without(kind, "its items", e)


def _pack(x):
    np, out = sys.modules.get("numpy"), io.BytesIO()
    if np is None or type(x) in (str, bytes, int, float):
        return pickle.dumps(x, pickle.HIGHEST_PROTOCOL)
    pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {**copyreg.dispatch_table, np.ndarray: _overlapping.reduce}
    pickler.dump(x)
    return out.getvalue()


class SharedList:
    """A list that does not change, of whatever can be pickled, in memory that all processes read: SharedList(iterable)."""

    def __init__(self, items):
        self._blobs = _Blobs([_pack(x) for x in items])

    def __len__(self):
        return self._blobs.n

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        n, k = len(self), i.__index__()
        if not -n <= k < n:
            raise IndexError(f"index {k} is out of range for a SharedList of {n}")
        return pickle.loads(self._blobs[k % n])

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __reversed__(self):
        return (self[k] for k in range(len(self) - 1, -1, -1))

    def __contains__(self, x):
        return any(y is x or y == x for y in self)

    def __eq__(self, other):
        if not isinstance(other, (SharedList, list)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        return _rebuild, (SharedList, self._blobs)

    def __repr__(self):
        return _told(self)


def _plain_key(key):
    """Equal keys the same: 1, 1.0 and True are one key of a dict."""
    if isinstance(key, tuple):
        return tuple(_plain_key(k) for k in key)
    if isinstance(key, (bool, float, complex)) and key == key and key.imag == 0 and abs(key.real) < 2**63 and key.real == int(key.real):
        return int(key.real)
    if key is None or isinstance(key, (int, float, complex, str, bytes)):
        return key
    raise _C.DTypeError(f"a key of a SharedDict is a number, a str, bytes, None or a tuple of these, not {_C._a_type(key)}")


def _key(key):
    return repr(_plain_key(key)).encode("utf-8", "surrogatepass")


def _place(key, size):
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") & (size - 1)


class SharedDict:
    """A dict that does not change, of whatever can be pickled under plain keys, in memory that all processes read: SharedDict(mapping)."""

    def __init__(self, items):
        items = list(dict(items).items())
        size = 2
        while size < 2 * len(items):
            size *= 2
        keys = [_key(k) for k, _ in items]
        table = [0] * size  # 0: free; else 1 + which
        for i, k in enumerate(keys):
            at = _place(k, size)
            while table[at]:
                at = (at + 1) & (size - 1)
            table[at] = 1 + i
        slots = b"".join(x.to_bytes(4, "little") for x in table)
        self._blobs = _Blobs([slots, *keys, *(_pack(kv) for kv in items)])

    def _find(self, key):
        slots = self._blobs[0].cast("I")
        at = _place(key, len(slots))
        while slots[at]:
            if self._blobs[slots[at]] == key:
                return slots[at] - 1
            at = (at + 1) & (len(slots) - 1)
        return -1

    def _item(self, i):
        return pickle.loads(self._blobs[1 + len(self) + i])

    def __len__(self):
        return (self._blobs.n - 1) // 2

    def __getitem__(self, key):
        i = self._find(_key(key))
        if i < 0:
            raise KeyError(key)
        return self._item(i)[1]

    def get(self, key, default=None):
        i = self._find(_key(key))
        return default if i < 0 else self._item(i)[1]

    def __contains__(self, key):
        return self._find(_key(key)) >= 0

    def items(self):
        return (self._item(i) for i in range(len(self)))

    def keys(self):
        return (k for k, _ in self.items())

    def values(self):
        return (v for _, v in self.items())

    def __iter__(self):
        return self.keys()

    def __eq__(self, other):
        return dict(self.items()) == dict(other.items()) if isinstance(other, (SharedDict, dict)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self):
        return _rebuild, (SharedDict, self._blobs)

    def __repr__(self):
        return _told(self)


def _rebuild(kind, blobs):
    x = kind.__new__(kind)
    x._blobs = blobs
    return x
