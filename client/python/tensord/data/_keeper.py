"""The keeper of a pool, and what runs in a pool's worker.

The keeper is a process that belongs to nobody: it has the workers as its children, brings each seat (_host.py) and each worker together, says how
a worker died, and puts up another when a seat asks for it. It ends its workers and itself when the last seat is empty.

A worker serves lanes, one for each loader: a batch for one, a batch for the next. A lane has the seed, the random state, the worker info and
(of an iterable data set) the copy that the loader would have in a worker of its own, so its batches are the same.
"""

import dataclasses
import errno
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
import traceback
from collections import deque
from multiprocessing import get_context
from typing import Any

from tensord.data import _link, _pool, _worker

_FIRST_SEAT = 60  # seconds until it must be taken
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_this = None  # the keeper, in its process and in those that it forks


def put_up(listeners, setup, parts, context, name):
    """A keeper, as a grandchild: whoever founds a pool neither waits for it nor is waited for. `parts` (_likeness.py) are of the founder's
    data set: the keeper's may have been pickled, which some come out of otherwise."""
    p = context.Process(target=_detach, args=(listeners, setup, parts, context.get_start_method()))
    p.start()
    p.join()
    if p.exitcode:
        raise _pool.Dead(f"the keeper of the pool '{name}' could not be started: its process {_pool.how_it_ended(p.exitcode)}")
    p.close()


def _detach(listeners, setup, parts, method):
    global _this
    if os.fork():
        os._exit(0)
    try:
        _let_go()
        os.setsid()  # what is sent to the founder's group is not meant for all
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _this = _Keeper(listeners, setup, parts, get_context(method))
        _this.serve()
    except BaseException:
        traceback.print_exc()
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


class _Reserve:
    """A descriptor that is let go of when one is to come in: so somebody who comes when there are no more can be told."""

    def __init__(self):
        self.fd = None
        self.renew()

    def let_go(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def renew(self):
        """False: there are no more."""
        try:
            self.fd = self.fd if self.fd is not None else os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True


def _no_more(who):
    return f"{who} (pid {os.getpid()}) has no descriptors left for another loader; raise their number (ulimit -n) before the pool is put up, or close some loaders"


class _Seat:
    def __init__(self, number, sock):
        self.number, self.sock, self.taken = number, sock, False
        sock.setblocking(False)
        try:
            self.pidfd = os.pidfd_open(_link.peer(sock)[0])
        except OSError:
            self.pidfd = None  # of another namespace: the end of the socket must do

    def has_left(self):
        poll = select.poll()
        poll.register(self.sock, 0)
        if self.pidfd is not None:
            poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))


class _Worker:
    def __init__(self, k):
        self.k = k
        self.process: Any = None
        self.control: Any = None
        self.ends = {}  # pid -> (how, last words, whether it had come up), of those that died


class _Keeper:
    def __init__(self, listeners, setup, parts, context):
        self.listeners, self.setup, self.parts, self.context = {x.fileno(): x for x in listeners}, setup, parts, context
        self.workers = [_Worker(k) for k in range(setup.num_workers)]
        self.seats, self.by_fd, self.poll, self.count, self.reserve = set(), {}, select.poll(), 0, _Reserve()
        self.begun = False  # somebody has taken a seat
        for listener in listeners:
            listener.setblocking(False)
            self.poll.register(listener, select.POLLIN)

    def serve(self):
        end = time.monotonic() + _FIRST_SEAT
        while self.seats or not self.begun and time.monotonic() < end or any(map(self._accept, self.listeners)):
            for fd, _ in self.poll.poll(1000 if not self.begun else None):
                if fd in self.listeners:
                    self._accept(fd)
                elif (seat := self.by_fd.get(fd)) is not None:
                    if fd == seat.pidfd or not self._answer(seat):
                        self._leave(seat)
        for listener in self.listeners.values():
            listener.close()
        workers = [w for w in self.workers if w.process]
        for w in workers:
            w.control.shutdown(socket.SHUT_RDWR)
        for w in workers:
            w.process.end(_pool.GRACE)

    # ---- seats --------------------------------------------------------------------------------------------------

    def _accept(self, listener):
        self.reserve.let_go()
        try:
            sock, _ = self.listeners[listener].accept()
        except OSError as e:
            if e.errno in _FULL:  # of the whole machine: who asks stays readable, so look again a little later
                time.sleep(0.1)
            self.reserve.renew()
            return False
        if _link.peer(sock)[1] not in (os.getuid(), 0):
            sock.close()
            self.reserve.renew()
            return True
        seat = _Seat(self.count + 1, sock)
        if not self.reserve.renew():
            self._leave_gone()
            if not self.reserve.renew():
                self._refuse(seat)
                return True
        self.count += 1
        self.seats.add(seat)
        for fd in (sock.fileno(), seat.pidfd):
            if fd is not None:
                self.by_fd[fd] = seat
                self.poll.register(fd, select.POLLIN)
        return True

    def _refuse(self, seat):
        if seat.pidfd is not None:
            os.close(seat.pidfd)
        with seat.sock:
            try:
                seat.sock.send(pickle.dumps(("failed", _no_more("its keeper"))))
            except OSError:
                pass  # it has gone
        self.reserve.renew()

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

    def _leave_gone(self):
        """Seats whose end has come, but has not been looked at yet."""
        for seat in [x for x in self.seats if x.taken and x.has_left()]:
            self._leave(seat)

    def _answer(self, seat):
        """False: it has left."""
        data, fds = b"", []
        self.reserve.let_go()
        try:
            data, fds, _, _ = socket.recv_fds(seat.sock, 1 << 17, 4)
            if not data:
                return False
            kind, *rest = pickle.loads(data)
            answer = getattr(self, "_on_" + kind)(seat, *rest, *fds)
            if answer is None:
                return False
            seat.sock.send(pickle.dumps(answer))
            return True
        except BlockingIOError:
            return not data  # what was seen was a seat's before it, with the same descriptor; or it does not read its answers, and has left
        except Exception:  # it has gone, or asks what no seat does: anybody of this user may have found the address
            return False
        finally:
            for fd in fds:
                os.close(fd)
            self.reserve.renew()

    def _on_hello(self, seat, parts):
        if parts == self.parts:
            seat.taken = self.begun = True
            return "welcome", os.getpid(), self.parts
        self._leave_gone()
        if self.begun and not any(x.taken for x in self.seats):
            return None  # this pool has just ended: whoever asks may have the name
        return "refused", os.getpid(), self.parts

    def _on_where(self, seat):
        return "where", self.setup.path

    def _on_how(self, seat, k, pid):
        w = self.workers[k]
        if w.process and w.process.pid == pid and self._has_ended(w):
            self._bury(w)
        return ("how", *w.ends.get(pid, ("", "", True)))

    def _on_link(self, seat, k, dead, fd=None):
        w = self.workers[k]
        if fd is None:
            return "failed", _no_more("its keeper")
        if w.process and (w.process.process.exitcode is not None or w.process.pid == dead and self._has_ended(w)):
            self._bury(w)
        if not w.process:
            try:
                self._spawn(w)
            except Exception as e:  # also whatever a data set raises when it is pickled
                return "failed", f"its keeper (pid {os.getpid()}) cannot start worker {k}: {type(e).__name__}: {e}"
        if not self._tell(w, ("lane", seat.number), [fd]):
            return "failed", f"worker {k} (pid {w.process.pid}) takes no more loaders: those that came last wait for it to look up; was it stopped (SIGSTOP)?"
        return "linked", w.process.pid

    def _has_ended(self, w):
        """Of a worker that somebody takes for dead. That may be seen a little before its end; but who has left its own seat, say, is mistaken."""
        poll, process = select.poll(), w.process.process
        poll.register(w.control, 0)  # its end
        return process.exitcode is not None or bool(poll.poll(_pool.GRACE * 1000)) or process.exitcode is not None

    # ---- workers ------------------------------------------------------------------------------------------------

    def _spawn(self, w):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                w.process = _pool.Process(self.context, work, w.k, theirs, os.getpid(), self.setup)
            except BaseException:
                ours.close()
                raise
        w.control = ours

    def _tell(self, w, message, fds=()):
        """False: it has not read for so long that nothing more goes in. A worker that has just died takes it with it; whose lane that was asks again."""
        if w.control:
            try:
                socket.send_fds(w.control, [pickle.dumps(message)], fds)
            except BlockingIOError:
                return False
            except OSError:
                pass
        return True

    def _bury(self, w):
        try:
            came_up = bool(w.control.recv(1))
        except OSError:
            came_up = False
        w.ends[w.process.pid] = *w.process.how(), came_up
        while len(w.ends) > 16:
            del w.ends[next(iter(w.ends))]
        w.process.close()
        w.control.close()
        w.process = w.control = None

    def drop(self):
        """In a worker that was forked: what is the keeper's to hold, whose end others wait for."""
        self.reserve.let_go()
        for sock in (*self.listeners.values(), *(seat.sock for seat in self.seats), *(w.control for w in self.workers if w.control)):
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
        self.reserve = _Reserve()
        try:
            self.keeper = os.pidfd_open(keeper_pid)
        except ProcessLookupError:
            raise _link.Gone from None
        self.poll = select.poll()
        for fd in (control.fileno(), self.keeper):
            self.poll.register(fd, select.POLLIN)

    def run(self):
        try:
            self.control.send(b"u")  # it has come up: from now on a death is somebody's lane's
        except OSError:
            raise _link.Gone from None
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
        self.reserve.let_go()
        data, fds, _, _ = socket.recv_fds(self.control, 4096, 4)
        if not data:
            raise _link.Gone
        kind, seat = pickle.loads(data)
        if kind == "lane":
            if fds:
                self._open(seat, fds[0])
            self.reserve.renew()
        else:
            self.reserve.renew()
            for lane in [x for x in self.lanes.values() if x.seat == seat]:
                self._close(lane)

    def _open(self, seat, fd):
        try:
            lane = _Lane(seat, socket.socket(fileno=fd))
        except OSError:  # no socket: whoever brought it hears nothing
            return os.close(fd)
        if not self.reserve.renew():
            self._close_ended()
        if self.reserve.renew():
            self.lanes[fd] = lane
            self.poll.register(fd, select.POLLIN)
        else:
            lane.link.send(("refused", None, None, _no_more(f"worker {self.k}"), None))
            lane.close()

    def _close_ended(self):
        """Lanes whose end has come, but has not been looked at yet."""
        for lane in list(self.lanes.values()):
            lane.pull()
            if lane.link.ended:
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
        lane.link.send(("begun", None, None, None, None))
        if kind == "lane":
            self._begin(lane, *rest)
        else:
            self._enter(lane)
            if kind == "epoch":
                lane.work.epoch(*rest)
            else:
                lane.work.answer(*rest, self.idle - lane.idle, self.busy - lane.busy)
        if kind != "fetch":
            lane.link.send(("ready", None, None, None, None))
        self.busy += time.perf_counter() - begin
        lane.idle, lane.busy = self.idle, self.busy


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
