"""Results that come later, by the names of torch.futures: one thread waits for what another sets.

    found = td.futures.Future()
    found.then(lambda f: print(f.value()))
    found.set_result(td.ones(3))       # from any thread; what then() was given runs here

What is asked of the daemon is computed later without them.
"""

import contextlib
import threading
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tensord import _C
from tensord.core import _forking

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


def _callable(name: str, callback: Any) -> None:
    if not callable(callback):
        raise _C.DTypeError(f"Future.{name}(): the callback is no function, but {_C._a_type(callback)}")


class Future(Generic[T]):
    """A result that set_result() or set_exception() brings, once."""

    def __init__(self, *, devices: Any = None) -> None:
        self._changed = threading.Condition(_forking.rlock())
        self._done, self._value = False, None
        self._fault: "BaseException | None" = None
        self._callbacks: "list[Callable[[Future[T]], Any]]" = []

    def done(self) -> bool:
        """Whether there is a result, or an exception."""
        return self._done

    def wait(self) -> T:
        """The result when it is there, or its exception raised."""
        with self._changed:
            self._changed.wait_for(self.done)
        try:
            return self.value()
        finally:
            del self  # see value()

    def value(self) -> T:
        """The result, which must be there, or its exception raised."""
        if not self._done:
            raise _C.InvalidError("Future.value(): there is no result yet; wait() waits for it")
        if self._fault is not None:
            try:
                raise self._fault
            finally:
                del self  # or else the exception, which knows this frame, would hold the future that holds it
        return self._value  # type: ignore[return-value]

    def _set(self, value: Any, fault: "BaseException | None") -> None:
        with self._changed:
            if self._done:
                raise _C.InvalidError("Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once.")
            self._value, self._fault, self._done = value, fault, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        with contextlib.ExitStack() as behind:  # one that ends the thread lets the others run, too
            for callback in reversed(callbacks):
                behind.callback(self._call, callback)

    def _call(self, callback: "Callable[[Future[T]], Any]") -> None:
        try:
            callback(self)
        except Exception:  # it is nobody's who sets a result
            traceback.print_exc()

    def set_result(self, result: T) -> None:
        """There it is: whoever waits goes on, and callbacks run here, in the order in which they were added."""
        self._set(result, None)

    def set_exception(self, result: BaseException) -> None:
        """There is none: wait() raises this."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._set(None, result)

    def add_done_callback(self, callback: "Callable[[Future[T]], None]") -> None:
        """callback(self) when there is a result; at once if it is there. What it raises is printed."""
        _callable("add_done_callback", callback)
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback: "Callable[[Future[T]], S]") -> "Future[S]":
        """A future of what callback(self) returns, or raises."""
        _callable("then", callback)
        after: Future[S] = Future()

        def run(_: "Future[T]") -> None:
            try:
                result = callback(self)
            except Exception as e:
                after.set_exception(e)
            except BaseException as e:  # a Ctrl-C or an exit goes on in this thread, and who waits is told, too
                after._set(None, e)
                raise
            else:
                after.set_result(result)

        self.add_done_callback(run)
        return after


def collect_all(futures: "list[Future[Any]]") -> "Future[list[Future[Any]]]":
    """A future of the list itself, there when all are; with the first exception if there is one."""
    futures, whole = list(futures), Future[Any]()
    left, lock = [len(futures)], _forking.lock()

    def one(_: Any) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            fault = next((f._fault for f in futures if f._fault is not None), None)
            whole.set_result(futures) if fault is None else whole._set(None, fault)

    for f in futures:
        f.add_done_callback(one)
    if not futures:
        whole.set_result(futures)
    return whole


def wait_all(futures: "list[Future[Any]]") -> "list[Any]":
    """Their results when all are there; raises the first exception."""
    return [f.wait() for f in collect_all(futures).wait()]
