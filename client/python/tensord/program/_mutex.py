"""Turns: calls of a program that keeps what it writes go one at a time, whether a thread waits for them or a task of an event loop.

A lock of threads is no help where two tasks of one thread wait: it would let both in. So a turn belongs to a task, or to a thread in which no
task awaits one; who waits for it is woken in the order of coming.
"""
import asyncio
import collections
import threading

from tensord.core import _forking


class Turn:
    """`with turn:` in threads, `async with turn:` in tasks. A thread may take again what it has."""

    def __init__(self):
        self._guard = _forking.lock()
        self._owner, self._depth = None, 0
        self._waiting = collections.deque()  # (owner to be, what wakes it)
        _forking.in_child(self)

    def _in_child(self):
        """Whoever has it, or waits for it, is not there, except the thread that forked. No loop runs there, so no task has it."""
        self._waiting.clear()
        if self._owner != threading.get_ident():
            self._owner, self._depth = None, 0

    def _take(self, owner, wake):
        """Has it now; otherwise it is in the queue."""
        with self._guard:
            if self._owner is None:
                self._owner, self._depth = owner, 1
            elif self._owner == owner and not isinstance(owner, asyncio.Task):
                self._depth += 1
            else:
                if not isinstance(owner, asyncio.Task):
                    self._refuse_behind_a_task()
                self._waiting.append((owner, wake))
                return False
        return True

    def _refuse_behind_a_task(self):
        """A thread that waited for a task of its own loop would wait for ever."""
        loop = asyncio._get_running_loop()
        before = [self._owner, *(owner for owner, _ in self._waiting)]
        if loop is not None and any(isinstance(owner, asyncio.Task) and owner.get_loop() is loop for owner in before):
            raise RuntimeError("a call of this program is awaited in this event loop, and it keeps what it writes: await tensord.aio.call() here, too")

    def _leave(self):
        with self._guard:
            self._depth -= 1
            if self._depth:
                return
            self._owner = None
            while self._waiting and self._owner is None:
                owner, wake = self._waiting.popleft()
                if wake():
                    self._owner, self._depth = owner, 1

    def _give_up(self, owner, wake):
        """Who waited goes, with the turn if it came meanwhile."""
        with self._guard:
            waits = (owner, wake) in self._waiting
            if waits:
                self._waiting.remove((owner, wake))
        if not waits and self._owner == owner:
            self._leave()

    def __enter__(self):
        came = threading.Event()

        def wake():
            came.set()
            return True

        owner = threading.get_ident()
        if not self._take(owner, wake):
            try:
                came.wait()
            except BaseException:
                self._give_up(owner, wake)
                raise

    def __exit__(self, *exc):
        self._leave()

    async def __aenter__(self):
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        came = loop.create_future()

        def wake():
            try:
                loop.call_soon_threadsafe(lambda: came.done() or came.set_result(None))
            except RuntimeError:
                return False  # the loop was closed
            return True

        if not self._take(task, wake):
            try:
                await came
            except BaseException:
                self._give_up(task, wake)
                raise

    async def __aexit__(self, *exc):
        self._leave()


class Turns:
    """Several, always in one order."""

    def __init__(self, turns):
        self._turns = turns

    def __enter__(self):
        taken = []
        try:
            for turn in self._turns:
                turn.__enter__()
                taken.append(turn)
        except BaseException:
            for turn in reversed(taken):
                turn._leave()
            raise

    def __exit__(self, *exc):
        for turn in reversed(self._turns):
            turn._leave()

    async def __aenter__(self):
        taken = []
        try:
            for turn in self._turns:
                await turn.__aenter__()
                taken.append(turn)
        except BaseException:
            for turn in reversed(taken):
                turn._leave()
            raise

    async def __aexit__(self, *exc):
        self.__exit__()
