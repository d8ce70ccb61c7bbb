"""Turns of programs that keep what they write: who gets one, in which order, who goes without it, and what a forked child has."""
import asyncio
import contextlib
import os
import signal
import threading

import pytest
from common import wait_for
from tensord.program._mutex import Turn, Turns


def waiters(turn):
    return len(turn._waiting)


def in_a_thread(turn, name, told):
    """A thread that waits for the turn, tells its name when it has it, and leaves."""

    def work():
        with turn:
            told.append(name)

    before, thread = waiters(turn), threading.Thread(target=work)
    thread.start()
    assert wait_for(lambda: waiters(turn) > before or name in told)
    return thread


@contextlib.contextmanager
def had_by_a_thread(turn):
    """Another thread has the turn until the end of this."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with turn:
            held.set()
            assert done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    try:
        yield
    finally:
        done.set()
        thread.join()


def free(turn):
    return turn._owner is None and not turn._waiting and turn._depth == 0


def test_a_thread_takes_again_what_it_has():
    turn, told = Turn(), []
    with turn:
        with turn:
            other = in_a_thread(turn, "other", told)
        assert waiters(turn) == 1 and not told
    other.join()
    assert told == ["other"] and free(turn)


def test_threads_come_in_their_order():
    turn, told = Turn(), []
    with turn:
        threads = [in_a_thread(turn, n, told) for n in range(4)]
    for thread in threads:
        thread.join()
    assert told == [0, 1, 2, 3] and free(turn)


def test_tasks_come_in_their_order_and_not_twice():
    turn, told = Turn(), []

    async def work(n):
        async with turn:
            told.append(n)
            await asyncio.sleep(0)
            told.append(n)

    async def twice():
        async with turn:
            await asyncio.wait_for(turn.__aenter__(), 0.05)

    async def all_of_them():
        await asyncio.gather(*map(work, range(3)))
        with pytest.raises(asyncio.TimeoutError):
            await twice()

    asyncio.run(all_of_them())
    assert told == [0, 0, 1, 1, 2, 2] and free(turn)


def test_a_thread_waits_for_no_task_of_its_own_loop():
    turn = Turn()

    async def has_it():
        async with turn:
            with pytest.raises(RuntimeError, match="is awaited in this event loop, and it keeps what it writes: await tensord.aio.call"):
                turn.__enter__()

    async def waits_for_it():
        waiting = asyncio.ensure_future(turn.__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="is awaited in this event loop"):
            turn.__enter__()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(has_it())
    assert free(turn)
    with had_by_a_thread(turn):
        asyncio.run(waits_for_it())
    assert free(turn)


def test_a_thread_waits_for_a_task_of_another_loop():
    turn, told, held, done = Turn(), [], threading.Event(), threading.Event()

    async def hold():
        async with turn:
            held.set()
            while not done.is_set():
                await asyncio.sleep(0.001)
            told.append("task")

    loop = threading.Thread(target=lambda: asyncio.run(hold()))
    loop.start()
    assert held.wait(60)
    other = in_a_thread(turn, "thread", told)
    done.set()
    for thread in (loop, other):
        thread.join()
    assert told == ["task", "thread"] and free(turn)


def test_who_gives_up_is_passed_over():
    turn, told = Turn(), []

    async def work(name):
        async with turn:
            told.append(name)

    async def some_go():
        async with turn:
            tasks = [asyncio.ensure_future(work(n)) for n in "abc"]
            await asyncio.sleep(0)
            assert waiters(turn) == 3
            tasks[1].cancel()
            await asyncio.sleep(0)
            assert waiters(turn) == 2
        tasks[0].cancel()  # the turn is its own by now, and it has not run since
        assert isinstance(await asyncio.gather(*tasks, return_exceptions=True), list)

    asyncio.run(some_go())
    assert told == ["c"] and free(turn)


def test_a_loop_that_was_closed_is_passed_over():
    turn, told = Turn(), []
    loop = asyncio.new_event_loop()
    with turn:
        task = loop.create_task(turn.__aenter__())
        loop.run_until_complete(asyncio.sleep(0))
        assert waiters(turn) == 1
        thread = in_a_thread(turn, "thread", told)
        loop.close()
    thread.join()
    assert told == ["thread"] and free(turn)
    task._log_destroy_pending = False


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_thread_that_is_interrupted_waits_no_more():
    turn, held, done = Turn(), threading.Event(), threading.Event()

    def hold():
        with turn:
            held.set()
            wait_for(lambda: waiters(turn))
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            assert done.wait(60)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=hold)
    try:
        thread.start()
        assert held.wait(60)
        with pytest.raises(KeyboardInterrupt):
            turn.__enter__()
        assert waiters(turn) == 0
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert free(turn)


class Broken(Turn):
    def __enter__(self):
        raise KeyboardInterrupt

    async def __aenter__(self):
        raise asyncio.CancelledError


def test_several_are_taken_together():
    first, second = Turn(), Turn()
    with Turns([first, second]):
        assert first._depth == second._depth == 1
    assert free(first) and free(second)

    async def tasks():
        async with Turns([first, second]):
            assert first._owner is second._owner is asyncio.current_task()
        assert free(first) and free(second)
        with pytest.raises(asyncio.CancelledError):
            async with Turns([first, second, Broken()]):
                pass

    asyncio.run(tasks())
    assert free(first) and free(second)
    with pytest.raises(KeyboardInterrupt), Turns([first, second, Broken()]):
        pass
    assert free(first) and free(second)


def child(good):
    """Whether it is so in a forked child."""
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        try:
            os._exit(not good())
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_has_the_turn_of_who_forked_and_no_other():
    """Who waited in the parent waits for nothing in the child, where nobody would ever give the turn back for it."""
    turn, others, told = Turn(), Turn(), []
    def there():
        kept = turn._depth == 1 and turn._owner == threading.get_ident() and free(others)
        turn.__exit__()
        for each in (turn, others):
            with each:
                kept = kept and each._depth == 1
        return kept and free(turn) and free(others)

    with had_by_a_thread(others):
        turn.__enter__()
        waiting = [in_a_thread(turn, "waits", told), in_a_thread(others, "waits, too", told)]
        assert child(there) and waiters(turn) == waiters(others) == 1
        turn.__exit__()
    for each in waiting:
        each.join()
    assert free(turn) and free(others)


def test_a_child_that_a_task_forks_finds_the_turn_free():
    """No loop runs in it."""
    turn = Turn()

    def there():
        with turn:
            return turn._depth == 1

    async def forks():
        async with turn:
            return child(there)

    assert asyncio.run(forks()) and free(turn)
