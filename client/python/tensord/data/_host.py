"""A loader's seat in a pool: workers that all processes of the host share by a name.

A process of its own, the keeper (_keeper.py), owns the workers, so they belong to nobody who trains: whoever comes first puts it up and then
takes a seat as all others do, and whoever ends, killed or not, only leaves a seat. The name is an abstract socket, made of the
pool's name and the daemon that its members share; it is bound by one process and gone with the last, so there is nothing stale to find.
Through it a seat hands the keeper one end of a pair of sockets for each worker, and from then on speaks with the workers directly.

Invariant: what a worker was given and has not sent back is known here (`pending`), so when the worker, the founder or even the keeper is
killed, this loader goes on where it was.
"""

import errno
import hashlib
import os
import pickle
import socket
import time

from tensord import _C
from tensord.data import _keeper, _likeness, _link, _pool

_PATIENCE = 60  # seconds until a keeper that says nothing counts as broken


class Gone(Exception):
    """The keeper has ended."""


def address_of(name):
    daemon = _C.connection()
    key = f"{os.getuid()} {os.path.realpath(daemon['path'])} {daemon['pid']} {name}"
    return "\0tensord/pool/" + hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


class Seat:
    def __init__(self, name, setup, context):
        self.name, self.setup, self.context, self.owner = name, setup, context, os.getpid()
        self.sock = self.keeper = None
        self.attach()

    # ---- in and out ---------------------------------------------------------------------------------------------

    def attach(self):
        """Take a seat in the pool, and put the pool up if there is none."""
        self.close()
        address, parts = address_of(self.name), _likeness.parts(self.setup)
        end = time.monotonic() + _PATIENCE
        answer = None
        while answer is None:
            while not (self._connect(address) or self._found(address)):
                if time.monotonic() > end:
                    raise _pool.Dead(f"the address of the pool '{self.name}' is held by a process that does not listen: one that was stopped (SIGSTOP) "
                                     "while it put up the pool, or another program; end it, or choose another name") from None
            try:
                answer = self.ask("hello", parts)
            except Gone:  # the last of that pool has just left
                if time.monotonic() > end:
                    raise _pool.Dead(f"the pool '{self.name}' ends again and again before it answers; see what it writes to stderr") from None
        self.keeper = answer[1]
        if answer[0] == "refused":
            self.close()
            raise ValueError(f"the pool '{self.name}' serves other loaders: " + "; ".join(_likeness.differences(parts, answer[2])) +
                             ". All that share a pool have the same data set, collate_fn and num_workers; give this one a pool of its own name")

    def _connect(self, address):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.settimeout(_PATIENCE)
            sock.connect(address)
        except ConnectionRefusedError:
            sock.close()
            return False
        except BaseException:
            sock.close()
            raise
        if _link.peer(sock)[1] not in (os.getuid(), 0):
            sock.close()
            raise PermissionError(f"the address of the pool '{self.name}' is held by a process of user {_link.peer(sock)[1]}; choose another name")
        self.sock = sock
        return True

    def _found(self, address):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            try:
                listener.bind(address)
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                time.sleep(0.005)  # bound, and not yet listening
                return False
            listener.listen(1024)
            _keeper.put_up(listener, self.setup, self.context, self.name)
        return self._connect(address)

    def close(self):
        if self.sock is not None:
            if os.getpid() == self.owner:
                try:
                    self.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.sock.close()
        self.sock = None

    __del__ = close

    # ---- asking -------------------------------------------------------------------------------------------------

    def ask(self, *request, fds=()):
        """One question, one answer."""
        if self.sock is None:
            raise Gone
        try:
            socket.send_fds(self.sock, [pickle.dumps(request)], fds)
            answer = self.sock.recv(1 << 17)
        except TimeoutError:
            self.close()
            raise _pool.Dead(f"the keeper of the pool '{self.name}' (pid {self.keeper}) does not answer for {_PATIENCE} s") from None
        except OSError:
            answer = b""
        except BaseException:  # interrupted: the answer to come would be taken for another's
            self.close()
            raise
        if not answer:
            self.close()
            raise Gone
        return pickle.loads(answer)


class Pool(_pool.Pool):
    """One loader's share of a pool's workers."""

    def __init__(self, setup, seat, starts, on_death):
        self.seat = seat
        super().__init__(setup, None, starts, on_death)

    def _spawn(self, m):
        while True:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    m.pid = self.seat.ask("link", m.k, m.pid, fds=[theirs.fileno()])[1]
                    break
                except Gone:
                    ours.close()
                    self.seat.attach()
                except BaseException:
                    ours.close()
                    raise
        m.link = _link.LoaderSide(ours)
        self._listen(m)
        s = self.setup
        m.link.send(("lane", dict(base_seed=s.base_seed, batch_size=s.batch_size, drop_last=s.drop_last, options=s.options), m.start))

    def _how(self, m):
        try:
            how, words = self.seat.ask("how", m.k, m.pid)[1:]
            guilty = m.at_work and bool(how)
        except Gone:
            keeper = self.seat.keeper
            if self.on_death == "raise":
                raise _pool.Dead(f"the keeper of the pool '{self.seat.name}' (pid {keeper}) was killed, and the workers with it") from None
            self.seat.attach()
            how, words, guilty = "", "", False
        return f"of the pool '{self.seat.name}' {how or 'ended with its keeper'}", words, guilty
