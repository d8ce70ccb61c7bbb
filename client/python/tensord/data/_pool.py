"""The workers of a loader: started, given tasks, listened to, and put up again when they die.

Invariant: what is in `pending` of a worker was given to it and has not come back, in order; so when it dies, exactly that is to be done
again, by one that begins where its last message left off. Each task and each answer says which pass it is of: a pass may end while answers
are on their way (a worker whose part of an iterable data set is over has been asked for more), and those are nobody's.
"""

import os
import pickle
import select
import signal
import sys
import socket
import time
from collections import deque

from tensord.data import _link, _worker

MOST_DEATHS = 3  # one after the other, without a batch in between
GRACE = 5  # seconds for a worker to end by itself


class Dead(RuntimeError):
    """A worker has died; says how, and where it was."""


class Process:
    """One worker's process, and what it says when it dies."""

    def __init__(self, context, target, *args):
        self.words, words = context.Pipe(duplex=False)
        with words:
            self.process = context.Process(target=target, daemon=True, args=(*args, words))
            self.process.start()
        self.pid = self.process.pid

    def end(self, grace):
        """Wait for it, for so long; then it is made to end."""
        self.process.join(grace)
        for harder in (self.process.terminate, self.process.kill):
            if self.process.exitcode is None:
                harder()
                self.process.join(1)

    def how(self):
        """(How it ended, its last traceback)."""
        if self.process.exitcode is None:  # its socket has ended, but it has not
            self.process.join(GRACE)
            self.process.kill()
            self.process.join()
        os.set_blocking(self.words.fileno(), False)
        try:
            words = os.read(self.words.fileno(), 1 << 16).decode(errors="replace")
        except OSError:
            words = ""
        return how_it_ended(self.process.exitcode), words.strip()

    def close(self):
        self.words.close()


def described(number, indices):
    """What was to be carried to a worker, by its types."""
    kinds = sorted({f"{type(x).__module__}.{type(x).__qualname__}" for x in (indices if isinstance(indices, (list, tuple)) else [indices])})
    return f"the indices of batch {number} ({'a list of ' * isinstance(indices, list)}{', '.join(kinds[:5])})"


def how_it_ended(code):
    if code >= 0:
        return f"exited unexpectedly with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class _Member:
    """One worker, as its loader sees it."""

    def __init__(self, k):
        self.k, self.pending, self.deaths, self.pid = k, deque(), 0, None
        self.start = _worker.Start()
        self.process = self.link = None
        self.at_work = False  # for this loader: on the first of `pending`, or setting out
        self.came = self.unpacked = self.before = 0  # batches; of them unpacked here; that came from processes before this one
        self.begin_times()

    def begin_times(self):
        """Of one pass."""
        self.times = dict(batches=0, idle=0.0, fetch=0.0, collate=0.0, send=0.0, others=0.0, respawned=0)


class Pool:
    """Workers of one loader: children of its process."""

    def __init__(self, setup, context, starts, on_death):
        self.setup, self.context, self.on_death, self.owner = setup, context, on_death, os.getpid()
        self.members = [_Member(k) for k in range(setup.num_workers)]
        self.arrived, self.poll = deque(), select.poll()  # `arrived`: of this pass
        self.by_fd, self.closed, self.epoch = {}, False, 0
        for m, start in zip(self.members, starts):
            m.start = start
        try:
            for m in self.members:
                self._spawn(m)
        except BaseException:
            self.close()
            raise

    # ---- life and death -----------------------------------------------------------------------------------------

    def _spawn(self, m):
        ours, theirs = socket.socketpair()
        m.link = _link.LoaderSide(ours)
        with theirs:
            m.process = Process(self.context, _worker.run, m.k, theirs, os.getpid(), self.setup, m.start)
        m.pid = m.process.pid
        self._listen(m)

    def _listen(self, m):
        self.by_fd[m.link.fileno()] = m
        self.poll.register(m.link.fileno(), select.POLLIN)

    def _forget(self, m):
        if m.link:
            fd = m.link.fileno()
            if self.by_fd.pop(fd, None):
                self.poll.unregister(fd)
            m.link.close()
        if m.process:
            m.process.close()
        m.link, m.at_work = None, False

    def _how(self, m) -> tuple[str, str, bool]:
        """How it died, its last words, and whether that was while it worked for this loader."""
        return *m.process.how(), True

    def _obituary(self, m, how, words, at_work):
        what = f"DataLoader worker {m.k} (pid {m.pid}) {how}"
        if m.pending and at_work:
            _, number, indices, _ = m.pending[0]
            shown = str(indices)
            what += f" while it worked on batch {number}"
            if not self.setup.iterable:
                what += f" (indices {shown if len(shown) < 80 else shown[:77] + '...'})"
        return what + (f". Its last traceback:\n{words}" if words else ".")

    def _died(self, m):
        how, words, at_work = self._how(m)
        text = self._obituary(m, how, words, at_work)
        self._forget(m)
        m.deaths += at_work
        if self.on_death == "raise":
            raise Dead(text)
        if m.deaths >= MOST_DEATHS:
            raise Dead(f"{text}\nThe {m.deaths}. death at the same batch: it is not tried again.")
        m.times["respawned"] += 1
        m.before = m.came
        self._spawn(m)
        m.pending = deque(task for task in m.pending if task[0] == self.epoch)  # what an earlier pass asked for nobody wants
        for _, number, _, packed in m.pending:
            self._ask(m, number, packed)

    # ---- work ---------------------------------------------------------------------------------------------------

    def _ask(self, m, number, packed):
        m.link.send(("fetch", self.epoch, number, packed, max(0, m.unpacked - m.before)))

    def give(self, k, number, indices):
        m = self.members[k]
        try:
            packed = pickle.dumps(indices, pickle.HIGHEST_PROTOCOL)
        except Exception as e:
            raise TypeError(f"{described(number, indices)} cannot be pickled for a worker: {e}") from e
        m.pending.append((self.epoch, number, indices, packed))
        if m.link:
            self._ask(m, number, packed)

    def begin_epoch(self, starts):
        """The next pass. What the last one asked for may be on its way: it is heard, and dropped."""
        self.epoch += 1
        self.arrived.clear()
        for m, start in zip(self.members, starts):
            m.begin_times()
            m.start = _worker.Start(start.fetched, start.rng if start.rng is not None else m.start.rng, start.state)
            if m.link:
                m.link.send(("epoch", pickle.dumps(start, pickle.HIGHEST_PROTOCOL)))

    def _take_messages(self, m):
        m.link.pull()
        while (message := m.link.messages.next()) is not None:
            kind, epoch, number, body, meta = message
            if kind in ("begun", "ready"):
                m.at_work = kind == "begun"
                continue
            if kind == "refused":
                raise Dead(f"DataLoader worker {m.k} cannot serve this loader: {body}")
            indices = m.pending.popleft()[2]
            if kind == "unread":
                kind, body.where = "failed", f"when {described(number, indices)} were unpickled {body.where}, which must have all that these are made of"
            m.deaths, m.at_work = 0, False
            m.came += kind != "end"
            if epoch != self.epoch:
                m.start.rng = meta.rng or m.start.rng
                continue
            m.start = _worker.Start(m.start.fetched + (kind == "data"), meta.rng or m.start.rng, meta.state)
            for name in ("idle", "fetch", "collate", "send", "others"):
                m.times[name] += getattr(meta, name)
            m.times["batches"] += kind == "data"
            self.arrived.append((m.k, kind, number, body, m.start))
        if m.link.ended:
            self._died(m)

    def get(self, timeout=None):
        """(worker, kind, number, body, where it is then); None when the time has passed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.arrived:
            for fd, m in self.by_fd.items():
                self.poll.modify(fd, select.POLLIN | (select.POLLOUT if m.link.out else 0))
            left = None if end is None else max(0, end - time.monotonic())
            ready = self.poll.poll(None if left is None else left * 1000)
            if not ready and left is not None:
                return None
            for fd, events in ready:
                m = self.by_fd.get(fd)
                if m is None:
                    continue
                if events & select.POLLOUT:
                    m.link.push()
                if events & ~select.POLLOUT:
                    self._take_messages(m)
        return self.arrived.popleft()

    def close(self):
        if self.closed:
            return
        self.closed = True
        for m in self.members:
            self._forget(m)
        # Ctrl-C went to the workers too, when it came from a terminal; nobody wants to wait for them.
        end = time.monotonic() + (GRACE / 20 if isinstance(sys.exc_info()[1], KeyboardInterrupt) else GRACE)
        for m in self.members:
            if m.process and os.getpid() == self.owner:
                m.process.end(max(0, end - time.monotonic()))
