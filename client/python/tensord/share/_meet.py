"""Where processes meet that nobody started together: by a name, without a port, a file or a server.

A name is an abstract socket's address: it is bound by one process at a time and goes with it, so nothing stale is ever found. A Table is a dict
of bytes that all who open its name share. It lies in memory that the process that came first has made; the others find that process by the
address and open its memory. What is written is a log with a head that says where it ends: a process that is killed half way has written nothing, and the
lock that it held (flock) goes with it.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import socket
import struct
import sys
import time
import weakref

from tensord import _C
from tensord.core import _forking

PATIENCE = 60  # seconds until an address whose holder cannot be found is an error
_HEAD, _RECORD = struct.Struct("<QQQ"), struct.Struct("<II")  # generation, begin, end of the log; bytes of a key and of its value
_HOLDER = _HEAD.size  # where the process that holds the lock says so
_GONE = 2**32 - 1  # in place of a value's bytes: the key is deleted
_LARGE = 1 << 20  # a log of as many bytes is written anew once it is mostly out of date


def address(kind, *key):
    """An abstract address of this user's, made of a kind and what tells two of them apart."""
    text = " ".join(map(str, (os.getuid(), *key)))
    return f"\0tensord/{kind}/" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# ---- processes


def began(pid):
    """When a process began, in the kernel's ticks; None: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def me():
    """This process, for others to name and to look for."""
    return {"pid": os.getpid(), "began": began(os.getpid()), "program": os.path.basename(sys.argv[0] if sys.argv else "") or "python"}


def lives(who):
    return began(who["pid"]) == who["began"]


# ---- a table


class _Lost(Exception):
    """Whoever held the name ended while this process was looking."""


def _reopen(fd):
    return os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)


def _holder(sock):
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


_tables: "weakref.WeakSet[Table]" = weakref.WeakSet()


def _after_fork():
    for table in list(_tables):
        table._forked()


os.register_at_fork(after_in_child=_after_fork)


class Table:
    """A dict of bytes by texts. Use it inside of `with table.held(until):`, which is what others' uses wait for."""

    def __init__(self, name, *key):
        self.name, self._address = name, address("table", name, *key)
        self._memory = "tensord" + self._address.rpartition("/")[2]
        self._threads, self._listener, self._fd = _forking.lock(), None, None
        self._index, self._generation, self._begun, self._at, self._live = {}, 0, 0, 0, 0
        self._fd = self._find()
        _tables.add(self)

    # ---- its memory

    def _find(self):
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fd = self._there()
                if fd is None:
                    fd = self._begin()
                if fd is not None:
                    return fd
            except _Lost as e:
                if time.monotonic() > until:
                    raise _C.Timeout(f"the name '{self.name}' is held by a process that cannot be used: {e}") from None
            time.sleep(0.002)

    def _there(self):
        """The memory that the name's holder has; None: nobody holds it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.setblocking(False)
            try:
                sock.connect(self._address)
            except ConnectionRefusedError:
                return None
            except BlockingIOError:
                raise _Lost("more processes look for it than there is room for") from None
            pid, uid = _holder(sock)
        if uid not in (os.getuid(), 0):
            raise _C.PermissionDenied(f"the name '{self.name}' is held by a process of another user (uid {uid})")
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    if os.readlink(f"/proc/{pid}/fd/{fd}") == f"/memfd:{self._memory} (deleted)":
                        return os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _Lost(f"process {pid} has ended, and left its descriptors to another") from None
        except PermissionError as e:
            raise _C.PermissionDenied(f"the name '{self.name}' is held by process {pid}, whose memory this one may not open ({e.strerror})") from None
        raise _Lost(f"process {pid} does not have its memory")

    def _begin(self):
        made = os.memfd_create(self._memory, os.MFD_CLOEXEC)
        try:
            os.pwrite(made, _HEAD.pack(1, mmap.PAGESIZE, mmap.PAGESIZE), 0)
            if self._listen():
                return made
        except BaseException:
            os.close(made)
            raise
        os.close(made)
        return None

    def _listen(self):
        """Holds the name from now on. False: somebody does."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.bind(self._address)
            sock.listen(4096)  # who connects looks at the holder, and goes
        except OSError:
            sock.close()
            return False
        sock.setblocking(False)
        self._listener = sock
        return True

    def keep_found(self):
        """Whoever held the name has ended: hold it, so that others find this memory. Asked again and again by those who wait."""
        if self._listener is None:
            self._listen()

    def _forked(self):
        """The name and the lock are the parent's."""
        if self._fd is None:
            return
        self._threads = _forking.lock()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        fd = self._fd
        self._fd = _reopen(fd)
        os.close(fd)

    def close(self):
        with self._threads:
            if self._fd is not None:
                os.close(self._fd)
                if self._listener is not None:
                    self._listener.close()
            self._fd = self._listener = None

    # ---- one use at a time

    @contextlib.contextmanager
    def held(self, until=None):
        """until: of the monotonic clock, when to give up with tensord.Timeout; None: never."""
        if not self._threads.acquire(timeout=-1 if until is None else max(0.0, until - time.monotonic())):
            raise _C.Timeout(f"another thread of this process uses '{self.name}'")
        try:
            self._lock(until)
            try:
                self._read()
                yield self
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def _lock(self, until):
        if self._fd is None:
            raise _C.Closed(f"the table '{self.name}' was closed")
        pause = 0.00005
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if until is not None and time.monotonic() > until:
                    pid = int.from_bytes(os.pread(self._fd, 8, _HOLDER), "little")
                    raise _C.Timeout(f"'{self.name}' is held by process {pid}, which does not let go of it: it may have been stopped") from None
                time.sleep(pause)
                pause = min(pause * 2, 0.01)
        os.pwrite(self._fd, os.getpid().to_bytes(8, "little"), _HOLDER)
        self._let_go()

    def _let_go(self):
        """Those who have looked at the holder: the address has room for so many only."""
        with contextlib.suppress(OSError):
            while self._listener is not None:
                self._listener.accept()[0].close()

    def moved(self):
        """Has anything been written since this process looked? Asked without the lock."""
        self._let_go()
        return os.pread(self._fd, _HEAD.size, 0) != _HEAD.pack(self._generation, self._begun, self._at)

    # ---- the log

    def _read(self):
        generation, self._begun, end = _HEAD.unpack(os.pread(self._fd, _HEAD.size, 0))
        if generation != self._generation:
            self._index, self._generation, self._at, self._live = {}, generation, self._begun, 0
        if self._at < end:
            self._enter(_all(self._fd, end - self._at, self._at))

    def _enter(self, log):
        at = 0
        while at < len(log):
            key_bytes, value_bytes = _RECORD.unpack_from(log, at)
            at += _RECORD.size
            key = log[at : at + key_bytes].decode("utf-8", "surrogateescape")
            at += key_bytes
            self._forget(key)
            if value_bytes != _GONE:
                self._index[key] = (self._at + at, value_bytes, key_bytes)
                self._live += _RECORD.size + key_bytes + value_bytes
                at += value_bytes
        self._at += len(log)

    def _forget(self, key):
        known = self._index.pop(key, None)
        if known:
            self._live -= _RECORD.size + known[1] + known[2]

    def _append(self, records):
        written = 0
        while written < len(records):
            written += os.pwrite(self._fd, records[written:], self._at + written)
        os.pwrite(self._fd, _HEAD.pack(self._generation, self._begun, self._at + len(records)), 0)
        self._enter(records)
        if self._at - self._begun > _LARGE and 2 * self._live < self._at - self._begun:
            self._write_anew()

    def _write_anew(self):
        """What is alive, behind what there is; then that goes back to the system."""
        page, old, end = mmap.PAGESIZE, self._begun, self._at
        begin = at = -(-end // page) * page
        for key, (where, size, _) in self._index.items():
            record = _record(key, _all(self._fd, size, where))
            while record:
                n = os.pwrite(self._fd, record, at)
                record, at = record[n:], at + n
        os.pwrite(self._fd, _HEAD.pack(self._generation + 1, begin, at), 0)
        self._read()
        with contextlib.suppress(OSError), mmap.mmap(self._fd, begin - old, offset=old) as m:
            m.madvise(mmap.MADV_REMOVE)

    # ---- what it holds

    def get(self, key):
        known = self._index.get(key)
        return None if known is None else _all(self._fd, known[1], known[0])

    def set(self, key, value):
        self._append(_record(key, value))

    def delete(self, key):
        there = key in self._index
        if there:
            self._append(_record(key, None))
        return there

    def __contains__(self, key):
        return key in self._index

    def keys(self):
        return self._index.keys()


def _record(key, value):
    name = key.encode("utf-8", "surrogateescape")
    if len(name) >= _GONE or (value is not None and len(value) >= _GONE):
        raise _C.InvalidError(f"a key and its value have less than 4 GiB: {key[:60]!r}")
    return _RECORD.pack(len(name), _GONE if value is None else len(value)) + name + (value or b"")


def _all(fd, size, at):
    got = os.pread(fd, size, at)
    while len(got) < size:
        more = os.pread(fd, size - len(got), at + len(got))
        if not more:
            raise _C.Error("a table's memory is shorter than it says")
        got += more
    return got
