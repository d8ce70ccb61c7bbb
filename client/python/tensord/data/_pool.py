"""The workers of a loader: started, given tasks, listened to, and put up again when they die.

Invariant: what is in `pending` of a worker was given to it and has not come back, in order; so when it dies, exactly that is to be done
again, by one that begins where its last message left off.
"""

import os
import select
import signal
import socket
import time
from collections import deque

from tensord.data import _link, _worker

MOST_DEATHS = 3  # one after the other, without a batch in between
GRACE = 5  # seconds for a worker to end by itself


class Dead(RuntimeError):
    """A worker has died; says how, and where it was."""


class _Member:
    def __init__(self, k):
        self.k, self.pending, self.deaths = k, deque(), 0
        self.start = _worker.Start()
        self.process = self.link = self.crash = None
        self.times = dict(batches=0, idle=0.0, fetch=0.0, collate=0.0, send=0.0, respawned=0)


class Pool:
    def __init__(self, setup, context, starts, on_death):
        self.setup, self.context, self.on_death = setup, context, on_death
        self.members = [_Member(k) for k in range(setup.num_workers)]
        self.arrived, self.poll = deque(), select.poll()
        self.by_fd, self.closed = {}, False
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
        m.crash, crash_out = self.context.Pipe(duplex=False)
        m.link = _link.LoaderSide(ours)
        with theirs, crash_out:
            m.process = self.context.Process(target=_worker.run, daemon=True,
                                             args=(m.k, theirs, crash_out, os.getpid(), self.setup, m.start))
            m.process.start()
        self.by_fd[m.link.fileno()] = m
        self.poll.register(m.link.fileno(), select.POLLIN)

    def _forget(self, m):
        if m.link:
            fd = m.link.fileno()
            if self.by_fd.pop(fd, None):
                self.poll.unregister(fd)
            m.link.close()
            m.crash.close()
        m.link = None

    def _last_words(self, m):
        os.set_blocking(m.crash.fileno(), False)
        try:
            return os.read(m.crash.fileno(), 1 << 16).decode(errors="replace")
        except OSError:
            return ""

    def _obituary(self, m):
        code = m.process.exitcode
        if code is not None and code < 0:
            try:
                how = f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was killed by signal {-code}"
        else:
            how = f"exited unexpectedly with code {code}"
        what = f"DataLoader worker {m.k} (pid {m.process.pid}) {how}"
        if m.pending:
            number, indices = m.pending[0]
            shown = str(indices)
            what += f" while it worked on batch {number}"
            if not self.setup.iterable:
                what += f" (indices {shown if len(shown) < 80 else shown[:77] + '...'})"
        words = self._last_words(m)
        return what + (f". Its last traceback:\n{words.strip()}" if words else ".")

    def _died(self, m):
        m.process.join(GRACE)
        if m.process.exitcode is None:  # its socket has ended, but it has not
            m.process.kill()
            m.process.join()
        text = self._obituary(m)
        self._forget(m)
        m.deaths += 1
        if self.on_death == "raise":
            raise Dead(text)
        if m.deaths >= MOST_DEATHS:
            raise Dead(f"{text}\nThe {m.deaths}. death at the same batch: it is not tried again.")
        m.times["respawned"] += 1
        self._spawn(m)
        for number, indices in m.pending:
            m.link.send(("fetch", number, indices))

    # ---- work ---------------------------------------------------------------------------------------------------

    def give(self, k, number, indices):
        m = self.members[k]
        m.pending.append((number, indices))
        if m.link:
            m.link.send(("fetch", number, indices))

    def begin_epoch(self, starts):
        """Nothing may be pending."""
        for m, start in zip(self.members, starts):
            m.start = _worker.Start(start.fetched, start.rng if start.rng is not None else m.start.rng, start.state)
            if m.link:
                m.link.send(("epoch", start))

    def _take_messages(self, m):
        m.link.pull()
        while (message := m.link.messages.next()) is not None:
            kind, number, body, meta = message
            m.pending.popleft()
            m.deaths = 0
            m.start = _worker.Start(m.start.fetched + (kind == "data"), meta.rng or m.start.rng, meta.state)
            for name in ("idle", "fetch", "collate", "send"):
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
        end = time.monotonic() + GRACE
        for m in self.members:
            if m.process is None or m.process.pid is None:
                continue
            m.process.join(max(0, end - time.monotonic()))
            for harder in (m.process.terminate, m.process.kill):
                if m.process.exitcode is None:
                    harder()
                    m.process.join(1)
