"""The keeper of a pool, and what runs in a pool's worker.

The keeper is a process that belongs to nobody: it has the workers as its children, brings each seat (_host.py) and each worker together, says how
a worker died, and puts up another when a seat asks for it. It ends its workers and itself when the last seat is empty.

A worker serves lanes, one for each loader: a batch for one, a batch for the next. A lane has the seed, the random state, the worker info and
(of an iterable data set) the copy that the loader would have in a worker of its own, so its batches are the same.
"""

import dataclasses
import faulthandler
import fcntl
import gc
import io
import os
import pickle
import select
import signal
import socket
import stat
import time
from collections import deque
from multiprocessing import get_context
from typing import Any

from tensord.data import _likeness, _link, _pool, _worker

_FIRST_SEAT = 60  # seconds until it must be taken
_this = None  # the keeper, in its process and in those that it forks


def put_up(listener, setup, context, name):
    """A keeper, as a grandchild: whoever founds a pool neither waits for it nor is waited for."""
    p = context.Process(target=_detach, args=(listener, setup, context.get_start_method(), name))
    p.start()
    p.join()
    if p.exitcode:
        raise _pool.Dead(f"the keeper of the pool '{name}' could not be started: its process {_pool.how_it_ended(p.exitcode)}")
    p.close()


def _detach(listener, setup, method, name):
    global _this
    if os.fork():
        os._exit(0)
    try:
        _let_go()
        os.setsid()  # what is sent to the founder's group is not meant for all
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _this = _Keeper(listener, setup, get_context(method))
        _this.serve()
    finally:
        os._exit(0)


def _let_go():
    """Of the pipes by whose end others see that the founder has ended, as those that multiprocessing gives each process. They belong to
    no object, unlike those that a data set may have."""
    from multiprocessing import forkserver, resource_tracker
    from multiprocessing.connection import Connection

    trackers: Any = (resource_tracker._resource_tracker, forkserver._forkserver)
    kept = {0, 1, 2, trackers[0]._fd, trackers[1]._forkserver_alive_fd}
    for x in gc.get_objects():
        if issubclass(type(x), (Connection, io.FileIO)) and not x.closed:
            kept.add(x.fileno())
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            writes = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if fd not in kept and writes and stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.close(fd)
        except OSError:
            pass  # the directory's own


class _Seat:
    def __init__(self, number, sock):
        self.number, self.sock = number, sock
        try:
            self.pidfd = os.pidfd_open(_link.peer(sock)[0])
        except OSError:
            self.pidfd = None  # of another namespace: the end of the socket must do


class _Worker:
    def __init__(self, k):
        self.k = k
        self.process: Any = None
        self.control: Any = None
        self.ends = {}  # pid -> (how, last words), of those that died


class _Keeper:
    def __init__(self, listener, setup, context):
        self.listener, self.setup, self.context = listener, setup, context
        self.parts = _likeness.parts(setup)
        self.workers = [_Worker(k) for k in range(setup.num_workers)]
        self.seats, self.by_fd, self.poll, self.count = set(), {}, select.poll(), 0
        listener.setblocking(False)
        self.poll.register(listener, select.POLLIN)

    def serve(self):
        end = time.monotonic() + _FIRST_SEAT
        while self.seats or not self.count and time.monotonic() < end or self._accept():
            for fd, _ in self.poll.poll(1000 if not self.count else None):
                if fd == self.listener.fileno():
                    self._accept()
                elif (seat := self.by_fd.get(fd)) is not None:
                    if fd == seat.pidfd or not self._answer(seat):
                        self._leave(seat)
        self.listener.close()
        workers = [w for w in self.workers if w.process]
        for w in workers:
            w.control.shutdown(socket.SHUT_RDWR)
        for w in workers:
            w.process.end(_pool.GRACE)

    # ---- seats --------------------------------------------------------------------------------------------------

    def _accept(self):
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return False
        if _link.peer(sock)[1] not in (os.getuid(), 0):
            sock.close()
            return True
        self.count += 1
        seat = _Seat(self.count, sock)
        self.seats.add(seat)
        for fd in (sock.fileno(), seat.pidfd):
            if fd is not None:
                self.by_fd[fd] = seat
                self.poll.register(fd, select.POLLIN)
        return True

    def _leave(self, seat):
        self.seats.discard(seat)
        for fd in (seat.sock.fileno(), seat.pidfd):
            if fd is not None:
                del self.by_fd[fd]
                self.poll.unregister(fd)
        seat.sock.close()
        if seat.pidfd is not None:
            os.close(seat.pidfd)
        for w in self.workers:
            self._tell(w, ("left", seat.number))

    def _answer(self, seat):
        """False: it has left."""
        fds = []
        try:
            data, fds, _, _ = socket.recv_fds(seat.sock, 1 << 17, 4)
            if not data:
                return False
            kind, *rest = pickle.loads(data)
            answer = getattr(self, "_on_" + kind)(seat, *rest, *fds)
            seat.sock.setblocking(False)  # who does not read its answers has left
            seat.sock.send(pickle.dumps(answer))
            seat.sock.setblocking(True)
            return True
        except Exception:  # it has gone, or asks what no seat does: anybody of this user may have found the address
            return False
        finally:
            for fd in fds:
                os.close(fd)

    def _on_hello(self, seat, parts):
        return "welcome" if parts == self.parts else "refused", os.getpid(), self.parts

    def _on_how(self, seat, k, pid):
        w = self.workers[k]
        if w.process and w.process.pid == pid:
            self._bury(w)
        return ("how", *w.ends.get(pid, ("", "")))

    def _on_link(self, seat, k, dead, fd):
        w = self.workers[k]
        if w.process and (w.process.pid == dead or w.process.process.exitcode is not None):
            self._bury(w)
        if not w.process:
            self._spawn(w)
        self._tell(w, ("lane", seat.number), [fd])
        return "linked", w.process.pid

    # ---- workers ------------------------------------------------------------------------------------------------

    def _spawn(self, w):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            w.process = _pool.Process(self.context, work, w.k, theirs, os.getpid(), self.setup)
        w.control = ours

    def _tell(self, w, message, fds=()):
        """A worker that has just died takes it with it; whose lane that was asks again."""
        if w.control:
            try:
                socket.send_fds(w.control, [pickle.dumps(message)], fds)
            except OSError:
                pass

    def _bury(self, w):
        w.ends[w.process.pid] = w.process.how()
        while len(w.ends) > 16:
            del w.ends[next(iter(w.ends))]
        w.process.close()
        w.control.close()
        w.process = w.control = None

    def drop(self):
        """In a worker that was forked: what is the keeper's to hold, whose end others wait for."""
        for sock in (self.listener, *(seat.sock for seat in self.seats), *(w.control for w in self.workers if w.control)):
            sock.close()


# ---- a worker -------------------------------------------------------------------------------------------------------


class _Lane:
    """One loader's work in this worker."""

    def __init__(self, seat, sock):
        self.seat, self.link, self.work, self.asked = seat, _link.LoaderSide(sock), None, deque()
        self.idle = self.busy = 0.0  # the worker's, when this lane was served last

    def pull(self):
        self.link.pull()
        while (message := self.link.messages.next()) is not None:
            self.asked.append(message)

    def close(self):
        self.link.close()
        if self.work:
            self.work.take_back()


class _Serve:
    def __init__(self, k, control, keeper_pid, setup):
        self.k, self.control, self.setup = k, control, setup
        self.flavour = __import__(setup.flavour, fromlist=["_"])
        self.lanes, self.current = {}, None  # by descriptor; whose random state this process has
        self.idle = self.busy = 0.0
        try:
            self.keeper = os.pidfd_open(keeper_pid)
        except ProcessLookupError:
            raise _link.Gone from None
        self.poll = select.poll()
        for fd in (control.fileno(), self.keeper):
            self.poll.register(fd, select.POLLIN)

    def run(self):
        while True:
            begin = time.perf_counter()
            self._look(None if not any(lane.asked for lane in self.lanes.values()) else 0)
            self.idle += time.perf_counter() - begin
            for lane in [lane for lane in self.lanes.values() if lane.asked]:
                if lane.link.fileno() in self.lanes:
                    self._serve(lane)
                    self._look(0)

    # ---- who speaks ---------------------------------------------------------------------------------------------

    def _look(self, timeout):
        for fd, lane in self.lanes.items():
            self.poll.modify(fd, select.POLLIN | (select.POLLOUT if lane.link.out else 0))
        for fd, events in self.poll.poll(timeout):
            if fd == self.keeper:
                raise _link.Gone
            if fd == self.control.fileno():
                self._told()
            elif (lane := self.lanes.get(fd)) is not None:
                if events & select.POLLOUT:
                    lane.link.push()
                lane.pull()
                if lane.link.ended:
                    self._close(lane)

    def _told(self):
        data, fds, _, _ = socket.recv_fds(self.control, 4096, 4)
        if not data:
            raise _link.Gone
        kind, seat = pickle.loads(data)
        if kind == "lane":
            try:
                lane = _Lane(seat, socket.socket(fileno=fds[0]))
            except OSError:  # no socket: whoever brought it hears nothing
                return os.close(fds[0])
            self.lanes[fds[0]] = lane
            self.poll.register(fds[0], select.POLLIN)
        else:
            for lane in [x for x in self.lanes.values() if x.seat == seat]:
                self._close(lane)

    def _close(self, lane):
        fd = lane.link.fileno()
        del self.lanes[fd]
        self.poll.unregister(fd)
        lane.close()
        if self.current is lane:
            self.current = None

    # ---- work ---------------------------------------------------------------------------------------------------

    def _begin(self, lane, changes, start):
        """As a worker of its loader's own begins: with its seed, and for an iterable data set with a copy of it."""
        self._leave_lane()
        setup = dataclasses.replace(self.setup, **changes)
        self.current, lane.work = lane, _worker.Work(self.k, lane.link, setup, start, own_copy=setup.iterable)
        lane.info = self.flavour.worker_info()

    def _leave_lane(self):
        if self.current:
            self.current.random = self.flavour.get_rng()

    def _enter(self, lane):
        if self.current is not lane:
            self._leave_lane()
            self.flavour.set_rng(lane.random)
            self.flavour.set_worker_info(lane.info)
            self.current = lane

    def _serve(self, lane):
        begin = time.perf_counter()
        kind, *rest = lane.asked.popleft()
        if kind == "lane":
            self._begin(lane, *rest)
        else:
            self._enter(lane)
            if kind == "epoch":
                lane.work.epoch(*rest)
            else:
                self._fetch(lane, *rest)
        self.busy += time.perf_counter() - begin
        lane.idle, lane.busy = self.idle, self.busy

    def _fetch(self, lane, number, indices, unpacked):
        lane.link.send(("begun", number, None, None))
        lane.work.answer(number, indices, unpacked, self.idle - lane.idle, self.busy - lane.busy)


def work(k, control, keeper_pid, setup, crash):
    """A pool's worker's whole life."""
    faulthandler.enable(crash)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever is interrupted leaves its seat
    if _this:
        _this.drop()
    try:
        _Serve(k, control, keeper_pid, setup).run()
    except _link.Gone:
        pass
