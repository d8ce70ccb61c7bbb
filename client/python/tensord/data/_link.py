"""The way between a loader and one of its workers: whole messages over a pair of sockets of their own.

Nothing is shared between workers, no lock and no queue, so one that is killed holds nobody up: the loader sees the end of its socket, and
a message that was cut off never counts. The loader's side never blocks in a write (nor does that of a pool's worker, who serves several
loaders); the worker's side ends when the loader's process does.
"""

import os
import pickle
import select
import socket
import struct

_SIZE = struct.Struct("<Q")


def peer(sock):
    """(pid, uid) of the other side."""
    return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[:2]


class Gone(Exception):
    """The other side has ended."""


class Messages:
    """Bytes that come in, cut into messages."""

    def __init__(self):
        self.data, self.at = bytearray(), 0

    def feed(self, more):
        self.data += more

    def next(self):
        """A message, or None when it is not whole yet."""
        if len(self.data) - self.at < _SIZE.size:
            return None
        size = _SIZE.unpack_from(self.data, self.at)[0]
        start = self.at + _SIZE.size
        if len(self.data) - start < size:
            return None
        with memoryview(self.data) as whole, whole[start : start + size] as part:
            message = pickle.loads(part)
        self.at = start + size
        if self.at == len(self.data):
            self.data, self.at = bytearray(), 0
        return message


def packed(message):
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _SIZE.pack(len(body)) + body


class LoaderSide:
    def __init__(self, sock):
        sock.setblocking(False)
        self.sock, self.out, self.messages, self.ended, self.owner = sock, bytearray(), Messages(), False, os.getpid()

    def fileno(self):
        return self.sock.fileno()

    def send(self, message):
        self.out += packed(message)
        self.push()

    def push(self):
        """Write what goes without waiting."""
        while self.out and not self.ended:
            try:
                del self.out[: self.sock.send(self.out)]
            except BlockingIOError:
                return
            except OSError:
                self.out.clear()  # it has ended; what it wrote before is still to be read

    def pull(self):
        """Read what is there."""
        try:
            while not self.ended:
                more = self.sock.recv(1 << 16)
                self.ended = not more
                self.messages.feed(more)
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True

    def close(self):
        """The other side reads an end, whoever else has inherited this socket; in who did, it is only closed."""
        try:
            if os.getpid() == self.owner:
                self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


class WorkerSide:
    def __init__(self, sock, loader_pid):
        self.sock, self.messages = sock, Messages()
        sock.setblocking(False)
        try:
            self.loader = os.pidfd_open(loader_pid)
        except ProcessLookupError:
            raise Gone from None
        self.poll = select.poll()
        self.poll.register(self.loader, select.POLLIN)

    def _wait(self, events):
        self.poll.register(self.sock, events)
        if any(fd == self.loader for fd, _ in self.poll.poll()):
            raise Gone

    def receive(self):
        while (message := self.messages.next()) is None:
            try:
                more = self.sock.recv(1 << 16)
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            except OSError:
                raise Gone from None
            if not more:
                raise Gone
            self.messages.feed(more)
        return message

    def send(self, message):
        data = memoryview(packed(message))
        while data:
            try:
                data = data[self.sock.send(data) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)
            except OSError:
                raise Gone from None
