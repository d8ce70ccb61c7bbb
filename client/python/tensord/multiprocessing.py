"""Python's multiprocessing, whose queues, pipes and arguments carry tensors as handles: who gets one has the same memory. And spawn(), with the names of
torch.multiprocessing.

    def train(rank, model, results):
        ...

    if __name__ == "__main__":
        td.multiprocessing.spawn(train, args=(model, results), nprocs=4)

What a process of it has asked for is done before the process ends, also where it was forked.
"""

import multiprocessing as _python
import signal as _signal
import sys as _sys
import time as _time
import traceback as _traceback
from multiprocessing import *  # noqa: F401,F403
from multiprocessing import connection as _connection, util as _util
from typing import Any

from tensord import _C

__all__ = [*_python.__all__, "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",  # noqa: F405
           "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]

_strategy = "file_descriptor"
_MOST_TOLD = 30_000  # characters of an error's traceback: what a pipe holds without a reader


def get_all_sharing_strategies():
    """{"file_descriptor", "file_system"}; both are the one way there is: the daemon holds the memory, and gives a descriptor of it to who has a handle."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    """The name that was set."""
    return _strategy


def set_sharing_strategy(new_strategy):
    """Keeps the name. Raises InvalidError for one that get_all_sharing_strategies() has not."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise _C.InvalidError(f"the sharing strategy must be one of {sorted(get_all_sharing_strategies())}, not {new_strategy!r}")
    _strategy = new_strategy


def _finish():
    if _C.connection():
        _C.sync()


# A forked child leaves by os._exit(), behind multiprocessing's own finalizers; so the last ops are sent by one of those.
_util.register_after_fork(_finish, lambda _: _util.Finalize(None, _finish, exitpriority=0))


class ProcessException(Exception):
    """One of several processes failed: the `error_index`th, whose number was `error_pid`."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    @property
    def pid(self):
        return self.error_pid

    def __reduce__(self) -> Any:
        return type(self), tuple(self.__dict__.values())


class ProcessRaisedException(ProcessException):
    """It raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """It ended by a signal (`signal_name`), or by itself with `exit_code`."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: "str | None" = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(fn, index, args, tell):
    try:
        fn(index, *args)
        _finish()
    except KeyboardInterrupt:  # who pressed the keys meant the parent, which ends the others
        pass
    except Exception:
        tell.send(_traceback.format_exc()[-_MOST_TOLD:])
        _sys.exit(1)


class ProcessContext:
    """Processes that start_processes() has started: `processes`, pids(), and join()."""

    def __init__(self, processes, told):
        self.processes, self._told = processes, told
        self.sentinels = {process.sentinel: k for k, process in enumerate(processes)}

    def pids(self):
        return [process.pid for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits until one more has ended, `timeout` seconds at most. Returns whether all have.

        When one has failed, the others are told to end (SIGTERM), after grace_period seconds if that is given, and killed 30 seconds later; then it raises
        ProcessRaisedException or ProcessExitedException.
        """
        ended = _connection.wait(list(self.sentinels), timeout) if self.sentinels else []
        failed = None
        for sentinel in ended:
            k = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[k].join()
            if self.processes[k].exitcode and failed is None:
                failed = k
        if failed is None:
            return not self.sentinels
        self._end_others(grace_period)
        raise self._reason(failed)

    def _end_others(self, grace_period):
        for wait, end in ((grace_period, "terminate"), (30, "kill")):
            if wait is not None and end == "terminate":
                self._join_all(wait)
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            self._join_all(30)

    def _join_all(self, seconds):
        """Those that end within the time. A sentinel is ready a moment before its process can be reaped."""
        until = _time.monotonic() + seconds
        alive = {process.sentinel: process for process in self.processes if process.is_alive()}
        while alive and (ended := _connection.wait(list(alive), max(0, until - _time.monotonic()))):
            for sentinel in ended:
                alive.pop(sentinel).join()  # type: ignore[call-overload]

    def _reason(self, k):
        process, told = self.processes[k], self._told[k]
        code = process.exitcode
        if told.poll():
            try:
                return ProcessRaisedException(f"process {k} raised\n\n{told.recv()}", k, process.pid)
            except EOFError:
                pass
        if code < 0:
            try:
                name = _signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            return ProcessExitedException(f"process {k} was ended by {name}", k, process.pid, code, name)
        return ProcessExitedException(f"process {k} ended with exit code {code}", k, process.pid, code)


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Starts nprocs processes of fn(k, *args), k from 0 on, and waits for all; join=False: returns a ProcessContext instead.

    Raises ProcessRaisedException or ProcessExitedException for the first that fails, when the others have been ended. What is not forked takes
    a function that it can import, and arguments that can be pickled: each process gets handles of its own to the tensors in them.
    """
    context: Any = _python.get_context(start_method)
    processes, told = [], []
    for k in range(nprocs):
        hear, tell = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, k, args, tell), daemon=daemon)
        process.start()
        tell.close()
        processes.append(process)
        told.append(hear)
    started = ProcessContext(processes, told)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes() whose processes begin with nothing of this one's."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
