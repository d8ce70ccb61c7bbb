"""A loader's seat in a pool: workers that all processes of the host share by a name.

A process of its own, the keeper (_keeper.py), owns the workers, so they belong to nobody who trains: whoever comes first puts it up and then
takes a seat as all others do, and whoever ends, killed or not, only leaves a seat. The name is an abstract socket, made of the
pool's name and the daemon that its members share; it is bound by one process and gone with the last, so there is nothing stale to find.
Ranks that nobody starts together (by a shell's script, by torchrun) have a private daemon each: a keeper whose founder has one is bound to a
second address, the sign, made of the name alone, where the others learn which daemon that is, and go there.
Through its address a seat hands the keeper one end of a pair of sockets for each worker, and from then on speaks with the workers directly.

Invariant: what a worker was given and has not sent back is known here (`pending`), so when the worker, the founder or even the keeper is
killed, this loader goes on where it was.
"""

import errno
import os
import pickle
import socket
import time
import warnings

from tensord import _C
from tensord.data import _keeper, _likeness, _link, _pool
from tensord.share._meet import address

_PATIENCE = 60  # seconds until a keeper that says nothing counts as broken
_joined = None  # the private daemon of another process, to which this one has gone


class Gone(Exception):
    """The keeper has ended."""


# ---- addresses and daemons ------------------------------------------------------------------------------------------


def address_of(name):
    daemon = _C.connection()
    return address("pool", os.path.realpath(daemon["path"]), daemon["pid"], name)


def sign_of(name):
    return address("sign", os.environ.get("TENSORD_BELOW", ""), name)


def _is_alone():
    """Whether only processes of this program find its daemon: a private one (client/wire/places.h), or one that it has gone to."""
    return _C._private() or _C.connection()["path"] == _joined


def _go_to(path):
    """To another daemon, unless something lies in this one or somebody else uses it."""
    global _joined
    sessions = _C.status("sessions")
    if len(sessions) != 1 or sessions[0]["objects"] or sessions[0]["ops_run"]:
        return False
    try:
        _C.connect(path)
    except _C.Error:
        return False
    _joined = os.environ["TENSORD_SOCKET"] = path  # for processes that this one starts
    return True


def _bound(sock, address):
    try:
        sock.bind(address)
    except OSError as e:
        if e.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _socket():
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Seat:
    def __init__(self, name, setup, context):
        self.name, self.setup, self.context, self.owner = name, setup, context, os.getpid()
        self.sock = self.keeper = None
        self.apart = False  # another process's pool has this name, and this one cannot go there
        self.attach()

    # ---- in and out ---------------------------------------------------------------------------------------------

    def attach(self):
        """Take a seat in the pool, and put the pool up if there is none."""
        self.close()
        parts, end = _likeness.parts(self.setup), time.monotonic() + _PATIENCE
        answer = None
        while answer is None:
            while not (self._connect(address_of(self.name)) or self._found(parts)):
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
        sock = _socket()
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

    def _found(self, parts):
        """Put the pool up. False: look again, somebody else does."""
        address, alone = address_of(self.name), _is_alone() and not self.apart
        with _socket() as listener, _socket() as sign:
            if not _bound(listener, address):
                time.sleep(0.005)  # bound, and not yet listening
                return False
            if not alone or _bound(sign, sign_of(self.name)):
                listeners = [listener, sign] if alone else [listener]
                for x in listeners:
                    x.listen(1024)
                self.setup.path = _C.connection()["path"]
                _keeper.put_up(listeners, self.setup, parts, self.context, self.name)
                return self._connect(address)
        self._follow()
        return False

    def _follow(self):
        """Go where the pool of this name is that another private daemon has, or say why not."""
        try:
            if not self._connect(sign_of(self.name)):
                time.sleep(0.005)
                return
            path = self.ask("where")[1]
        except Gone:
            return
        finally:
            self.close()
        here = _C.connection()
        if os.path.realpath(path) == os.path.realpath(here["path"]) or _go_to(path):
            return
        self.apart = True
        warnings.warn(f"the pool '{self.name}' is in another process's private daemon, at {path}, which this process cannot share: it is connected to one of "
                      f"its own, at {here['path']} (pid {here['pid']}), and has used it. So it puts up workers of its own. For one set of workers start "
                      "the daemon before all ranks (tensord), or give all of them the same TENSORD_SOCKET, or start them from a process that has "
                      "made a tensor, or make no tensor before the loader's first pass; if these are not to be one pool, give it another name",
                      RuntimeWarning, stacklevel=10)

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
            answer = self._exchange(pickle.dumps(request), fds)
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
        answer = pickle.loads(answer)
        if answer[0] == "failed":
            raise _pool.Dead(f"the pool '{self.name}' cannot serve this loader: {answer[1]}")
        return answer

    def _exchange(self, request, fds):
        try:
            socket.send_fds(self.sock, [request], fds)
            return self.sock.recv(1 << 17)
        except (BrokenPipeError, ConnectionResetError):
            return self.sock.recv(1 << 17)  # it may have said why before it closed


class Pool(_pool.Pool):
    """One loader's share of a pool's workers."""

    def __init__(self, setup, seat, starts, on_death):
        self.seat = seat
        super().__init__(setup, None, starts, on_death)

    def _spawn(self, m):
        for again in range(_pool.MOST_DEATHS, -1, -1):
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    m.pid = self.seat.ask("link", m.k, m.pid, fds=[theirs.fileno()])[1]
                    break
                except Gone:
                    ours.close()
                    if not again:
                        raise _pool.Dead(f"the keeper of the pool '{self.seat.name}' ends again and again when it is asked for worker {m.k}; "
                                         "see what it writes to stderr") from None
                    self.seat.attach()
                except BaseException:
                    ours.close()
                    raise
        m.link = _link.LoaderSide(ours)
        self._listen(m)
        s = self.setup
        m.link.send(("lane", dict(base_seed=s.base_seed, batch_size=s.batch_size, drop_last=s.drop_last, options=s.options), pickle.dumps(m.start)))

    def _how(self, m):
        try:
            how, words, came_up = self.seat.ask("how", m.k, m.pid)[1:]
            guilty = bool(how) and (m.at_work or not came_up)
        except Gone:
            keeper = self.seat.keeper
            if self.on_death == "raise":
                raise _pool.Dead(f"the keeper of the pool '{self.seat.name}' (pid {keeper}) was killed, and the workers with it") from None
            self.seat.attach()
            how, words, guilty = "", "", False
        return f"of the pool '{self.seat.name}' {how or 'ended with its keeper'}", words, guilty
