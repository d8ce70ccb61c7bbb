"""Letters between the ranks of a group: bytes with a tag, from one to one.

Each rank listens at an abstract address (_meet.py) before the group is complete, so there is nobody who cannot be written to. What is small goes in
a packet. Of what is large the packet brings memory, into which the sender has copied it; the receiver makes it empty when it has its copy, by
which the sender sees how much is under way. So to post a letter waits for nobody.

Letters of one sender and tag are handed out in the order in which they were posted, to those who ask in the order in which they asked. Nothing goes on by itself:
each call takes what has come. Invariant: a rank that has gone is told only after all that it had sent.
"""

import collections
import contextlib
import ctypes
import errno
import os
import select
import socket
import struct
import threading
import time
import weakref

from tensord import _C
from tensord.share import _meet

SMALL = 32 << 10  # bytes that a packet brings
MOST, MANY = 256 << 20, 64  # bytes and letters that are under way, before who has posted more waits
_HEAD = struct.Struct("<qQ48s")  # tag, bytes, what they are
_LOOK = 0.1  # seconds between two looks at whether a process lives
_all: "weakref.WeakSet[Letters]" = weakref.WeakSet()


def memory(at, count):
    """The bytes at an address."""
    return memoryview((ctypes.c_ubyte * count).from_address(at)).cast("B") if count else memoryview(bytearray())


class Posted:
    """A letter that is on its way."""

    def __init__(self, to, packet, fd, count):
        self.to, self.packet, self.fd, self.count = to, packet, fd, count

    def taken(self):
        return self.packet is None and (self.fd is None or not os.fstat(self.fd).st_size)


class Asked:
    """A letter that somebody wants: of this rank, or (None) of any."""

    def __init__(self, sender, tag, note, into):
        self.sender, self.tag, self.note, self.into = sender, tag, note, into
        self.done, self.failed = False, None


class _Peer:
    def __init__(self):
        self.out = self.into = None  # sockets: by which this rank writes, by which it is written to
        self.who = None  # the process
        self.waiting = collections.deque()  # Posted that the socket has no room for
        self.come = collections.deque()  # (tag, bytes, what, data, memory) that nobody has asked for


def _close_after_fork():
    for letters in list(_all):
        letters._close()


os.register_at_fork(after_in_child=_close_after_fork)


class Letters:
    def __init__(self, name, rank, size):
        self._name, self._rank, self._size = name, rank, size
        self._lock, self._peers, self._strangers = threading.RLock(), [_Peer() for _ in range(size)], []
        self._asked, self._sent = [], []
        self._listener = self._socket()
        self._listener.bind(_meet.address("letters", name, rank))
        self._listener.listen(4 * size + 16)
        _all.add(self)

    @staticmethod
    def _socket():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.setblocking(False)
        return sock

    # ---- peers

    def _reach(self, rank):
        """The way to a rank; None: it has gone."""
        peer = self._peers[rank]
        if peer.out is None and peer.who is None:
            sock = self._socket()
            try:
                sock.connect(_meet.address("letters", self._name, rank))
                pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                peer.who = {"pid": pid, "began": _meet.began(pid)}
                if uid != os.getuid():
                    raise _C.PermissionDenied(f"the address of rank {rank} is held by a process of another user (uid {uid})")
                sock.send(struct.pack("<q", self._rank))
                peer.out = sock
            except BlockingIOError:
                sock.close()  # more than it has room for wait there; later
            except OSError:
                sock.close()
                peer.who = peer.who or {"pid": 0, "began": 0}
        return peer.out

    def _lose(self, rank):
        peer = self._peers[rank]
        if peer.out is not None:
            peer.out.close()
            peer.out = None

    def _lives(self, rank):
        return self._reach(rank) is not None and _meet.lives(self._peers[rank].who)

    def _gone(self, rank, what):
        who = self._peers[rank].who or {"pid": 0}
        e = _C.MemberLost(f"rank {rank} (pid {who['pid']}) has gone before {what}" if who["pid"] else f"rank {rank} has gone before {what}")
        e.rank, e.pid, e.epoch, e.round = rank, who["pid"], 0, 0
        return e

    # ---- what has come

    def _take(self):
        """All that is there, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while self._listener is not None:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                self._strangers.append(sock)
        for sock in list(self._strangers):
            with contextlib.suppress(BlockingIOError):
                hello = sock.recv(8)
                self._strangers.remove(sock)
                _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                rank = struct.unpack("<q", hello)[0] if len(hello) == 8 and uid == os.getuid() else -1
                if 0 <= rank < self._size and self._peers[rank].into is None:
                    self._peers[rank].into = sock
                else:
                    sock.close()
        for peer in self._peers:
            while peer.into is not None and self._receive(peer):
                pass
        self._match()
        self._flush()

    def _receive(self, peer):
        try:
            packet, fds, _, _ = socket.recv_fds(peer.into, _HEAD.size + SMALL, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except OSError:
            packet, fds = b"", []
        if len(packet) < _HEAD.size:
            peer.into.close()
            peer.into = None
            return False
        tag, count, what = _HEAD.unpack_from(packet)
        peer.come.append((tag, count, what.rstrip(b"\0").decode(errors="replace"), packet[_HEAD.size :], fds[0] if fds else None))
        return True

    def _match(self):
        for asked in list(self._asked):
            for rank in range(self._size) if asked.sender is None else (asked.sender,):
                letter = next((x for x in self._peers[rank].come if x[0] == asked.tag), None)
                if letter is not None:
                    self._peers[rank].come.remove(letter)
                    self._asked.remove(asked)
                    self._deliver(asked, rank, letter)
                    break

    @staticmethod
    def _deliver(asked, rank, letter):
        _, count, what, data, fd = letter
        try:
            if count != len(asked.into) or what != asked.note:
                asked.failed = _C.Mismatch(f"rank {rank} sent {what}, and {asked.note} was to be received")
            elif fd is None:
                asked.into[:] = data
            else:
                at = 0
                while at < count:
                    n = os.preadv(fd, [asked.into[at:]], at)
                    if not n:
                        asked.failed = _C.Error(f"a letter of rank {rank} is shorter than it says")
                        break
                    at += n
        finally:
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, 0)
                os.close(fd)
        asked.sender, asked.done, asked.into = rank, True, None

    # ---- what goes

    def _flush(self):
        for rank, peer in enumerate(self._peers):
            while peer.waiting and self._send(rank, peer, peer.waiting[0]):
                peer.waiting.popleft()

    def _send(self, rank, peer, letter):
        sock = self._reach(rank)
        if sock is None:
            return False
        try:
            if letter.fd is None:
                sock.send(letter.packet)
            else:
                socket.send_fds(sock, [letter.packet], [letter.fd])
        except BlockingIOError:
            return False
        except OSError as e:
            if e.errno not in (errno.ETOOMANYREFS, errno.ENOBUFS):  # else there is room later
                self._lose(rank)
            return False
        letter.packet = None
        return True

    def _prune(self):
        left = []
        for letter in self._sent:
            if letter.taken():
                if letter.fd is not None:
                    os.close(letter.fd)
                    letter.fd = None
            else:
                left.append(letter)
        self._sent = left

    def post(self, to, tag, note, data):
        """A letter with a copy of these bytes. Waits for nobody."""
        with self._lock:
            self._check()
            small, fd = len(data) <= SMALL, None
            if not small:
                fd = os.memfd_create("tensord-letter", os.MFD_CLOEXEC)
                at = 0
                try:
                    while at < len(data):
                        at += os.pwrite(fd, data[at:], at)
                except BaseException:
                    os.close(fd)
                    raise
            letter = Posted(to, _HEAD.pack(tag, len(data), note.encode()[:48]) + (bytes(data) if small else b""), fd, len(data))
            self._peers[to].waiting.append(letter)
            self._sent.append(letter)
            self._flush()
            self._prune()
            return letter

    def ask(self, sender, tag, note, into):
        """A letter to come, into these bytes."""
        with self._lock:
            self._check()
            asked = Asked(sender, tag, note, into)
            self._asked.append(asked)
            self._take()
            return asked

    # ---- waiting

    def _check(self):
        if self._listener is None:
            raise _C.Closed("the group was left")

    def look(self, asked):
        """Has it come? Never waits."""
        with self._lock:
            if not asked.done and self._listener is not None:
                self._take()
            return asked.done

    def _hangs_up(self, rank):
        """Nothing is ever written to this end: what can be read there is the other's end."""
        sock = self._reach(rank)
        if sock is not None:
            with contextlib.suppress(BlockingIOError):
                with contextlib.suppress(ConnectionError):
                    sock.recv(1)
                self._lose(rank)

    def _wait(self, there, whom, what, seconds, look=_LOOK):
        """Until there(); `whom`: ranks of which one is to live. look: seconds in which it may become so unseen."""
        until, looked = None if seconds is None else time.monotonic() + seconds, time.monotonic()
        while True:
            with self._lock:
                self._check()
                for rank in whom:
                    self._hangs_up(rank)
                if looked + _LOOK < time.monotonic():
                    looked = time.monotonic()
                    lives = any(map(self._lives, whom))
                else:
                    lives = any(self._reach(rank) for rank in whom)
                self._take()
                if there():
                    return
                if not lives:
                    raise self._gone(whom[0], what)
                watched = [(p.into, 0) for p in self._peers] + [(p.out, select.POLLOUT * bool(p.waiting)) for p in self._peers] + [(self._listener, 0)]
                watched += [(s, 0) for s in self._strangers]
            if until is not None and time.monotonic() >= until:
                who = self._peers[whom[0]].who
                raise _C.Timeout(f"rank {whom[0]} (pid {who['pid'] if who else '?'}) has not come to {what} in {seconds:g} s" if len(whom) == 1 else
                                 f"no rank has come to {what} in {seconds:g} s")
            poll = select.poll()
            for s, events in watched:
                if s is not None and s.fileno() >= 0:
                    poll.register(s, select.POLLIN | events)
            poll.poll(1000 * (look if until is None else max(0.001, min(look, until - time.monotonic()))))

    def receive(self, asked, seconds):
        whom = [r for r in range(self._size) if r != self._rank] if asked.sender is None else [asked.sender]
        try:
            if not asked.done:
                self._wait(lambda: asked.done, whom, f"a send of {asked.note} with tag {asked.tag} to rank {self._rank}", seconds)
        except BaseException:
            with self._lock, contextlib.suppress(ValueError):
                self._asked.remove(asked)
            raise
        if asked.failed:
            raise asked.failed

    def sent(self, letter, seconds):
        """Until a letter is on its way, and not too much is."""
        def there():
            self._prune()
            mine = [x for x in self._sent if x.to == letter.to and x is not letter]
            return letter.packet is None and (letter.fd is None or letter.taken() or (len(mine) < MANY and sum(x.count for x in mine) < MOST))

        with self._lock:
            if there():
                return
        self._wait(there, [letter.to], f"a receive from rank {self._rank}", seconds, 0.002)

    # ---- the end

    def _close(self):
        for peer in self._peers:
            for sock in (peer.out, peer.into):
                if sock is not None:
                    sock.close()
            for *_, fd in peer.come:
                if fd is not None:
                    os.close(fd)
            peer.out = peer.into = None
            peer.come.clear()
            peer.waiting.clear()
        for sock in (*self._strangers, self._listener):
            if sock is not None:
                sock.close()
        for letter in self._sent:
            if letter.fd is not None:
                os.close(letter.fd)
                letter.fd = None
        self._listener, self._strangers, self._sent, self._asked = None, [], [], []

    def close(self):
        with self._lock:
            self._flush()
            self._close()
