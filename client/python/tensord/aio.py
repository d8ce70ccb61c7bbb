"""tensord for asyncio: await what else would wait, and nothing holds up the loop.

    import asyncio, tensord as td, tensord.aio

    async def main():
        x = td.ones(1000, 1000)
        print(await td.aio.item((x @ x).sum()))
        async with td.aio.Queue("jobs") as jobs:
            job = await jobs.get()

Cancelling a task, and asyncio.timeout(), end the wait in the daemon: who waits next gets the item. Ops are asked for as ever and wait for nothing;
what waits in tensord itself (td.sync(), t.item(), t.numpy(), td.Queue) still does. Any number of loops, in threads, may do this at once.
"""

import asyncio
import contextlib
import os
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from tensord import _C
from tensord.share._queue import _CONSUMER, _PRODUCER, Queue as _Queue

if TYPE_CHECKING:
    import numpy as _np

__all__ = ["Queue", "call", "infer", "item", "numpy", "open", "ready", "status", "sync", "tolist"]

_SILENT = 1.0  # seconds of a wait for nobody, as of those that tensord.Queue tells (client/share/queue.c)
_READY, _ITEM, _LIST, _BYTES = range(4)
_watched: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # of each loop: who waits for which descriptor
_life = object()  # of this process: what a forked child has from its parent is told nothing there


def _child():
    global _life
    _life = object()
    _watched.clear()


os.register_at_fork(after_in_child=_child)


class _Waiting(set):
    """The futures of a loop that wait for a connection's descriptor. The loop's reader alone holds them: what still waits in a loop that is closed
    is let go of."""

    def __init__(self, connection):
        super().__init__()
        self.connection = connection


def _dispatch(waiting):
    _C._aio_dispatch()


def _watch(loop, request, future):
    fds, fd = _watched.setdefault(loop, {}), request.fd
    waiting = fds[fd]() if fd in fds else None
    if waiting and waiting.connection != request.connection:  # that one is over, and closed the descriptor that has this number now
        loop.remove_reader(fd)
        waiting = None
    if not waiting:
        waiting = _Waiting(request.connection)
        loop.add_reader(fd, _dispatch, waiting)
        fds[fd] = weakref.ref(waiting)
    waiting.add(future)


def _unwatch(loop, request, future):
    fd = request.fd
    waiting = _watched.get(loop, {}).get(fd, lambda: None)()
    if waiting is None or waiting.connection != request.connection:
        return
    waiting.discard(future)
    if not waiting:
        del _watched[loop][fd]
        if not loop.is_closed():
            loop.remove_reader(fd)


def _wake(of):
    future = of()
    if future is not None and not future.done():
        future.set_result(None)


def _teller(loop, future):
    life, future = _life, weakref.ref(future)

    def tell():
        if life is not _life:
            return
        if asyncio._get_running_loop() is loop:
            _wake(future)
            return
        try:
            loop.call_soon_threadsafe(_wake, future)  # another loop's dispatch, or a disconnect elsewhere
        except RuntimeError:
            pass  # the loop was closed

    return tell


async def _ask(start: Callable[..., Any], *args: Any) -> Any:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    request = start(*args, _teller(loop, future))
    try:
        _watch(loop, request, future)
        try:
            await future
        finally:
            _unwatch(loop, request, future)
        return request.result()
    finally:
        request.close()  # an item that nobody took goes back


async def ready(tensor: _C.Tensor, timeout: float | None = None) -> _C.Tensor:
    """Wait until the tensor is computed, and return it; raises what became of it. Then its values are there: item() and numpy() take a moment only."""
    await _ask(_C._aio_read, _READY, tensor, timeout)
    return tensor


async def item(tensor: _C.Tensor, timeout: float | None = None) -> Any:
    """The value of a tensor of one element, as a number."""
    return await _ask(_C._aio_read, _ITEM, tensor, timeout)


async def tolist(tensor: _C.Tensor, timeout: float | None = None) -> Any:
    """The values as nested lists; of a tensor without dimensions as a number."""
    return await _ask(_C._aio_read, _LIST, tensor, timeout)


async def numpy(tensor: _C.Tensor, timeout: float | None = None) -> "_np.ndarray[Any, Any]":
    """A copy of the values as an array of NumPy. (The memory itself: numpy() of what ready() gave.)"""
    from tensord.core._overloads import _numpy

    if tensor.dtype is _C.bfloat16:
        raise _C.DTypeError("NumPy knows no bfloat16; call float() first")
    values = await _ask(_C._aio_read, _BYTES, tensor, timeout)
    return _numpy().frombuffer(values, dtype=tensor.dtype.name).reshape(tuple(tensor.shape))


async def call(program: Any, /, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
    """What program(*args, **kwargs) gives, of any program of td.jit: numbers, texts, lists and dicts of such, tensors (await ready() of
    these, or what is wanted of them). A program that is not at its end when the time is over, or the task is cancelled, is stopped;
    what it had written by then stays written. Calls of one that keeps what it writes in its module go one after the other, and the
    time of each begins when it is its turn. A parameter called timeout is given by its place. One of td.jit.open() whose daemon has gone
    is opened anew, without a wait for its name."""
    from tensord.program._published import Named, OpenedProgram

    if isinstance(program, types.MethodType) and isinstance(program.__func__, Named):
        program, args = program.__func__, (program.__self__, *args)
    if not isinstance(program, Named):
        raise TypeError(f"call() takes a program (td.jit.script(), trace(), load(), open()), not {type(program).__name__}")
    if type(program).__call__ is not Named.__call__ and (program._before or program._after or any(program._around)):
        raise _C.Unsupported("call(): hooks of a module run in a call that waits; remove them, or call the module itself")
    async with program._alone() or contextlib.nullcontext():  # of one that keeps what it writes the next one sees it
        if isinstance(program, OpenedProgram):
            program._open_anew(0)
        theirs, given, finish = program._asks(args, kwargs)
        result = await _ask(_C._aio_call, theirs, given, timeout)
        return result if finish is None else finish(result)


async def infer(model: Any, /, *args: Any, timeout: float | None = None, priority: int = 0, **named: Any) -> Any:
    """What model(*args, **named) gives, of td.load_model() and td.model(). When the time is over, or the task is cancelled, a request that was still waiting
    costs nothing. Of those that wait the ones with a higher priority come first. An input called timeout or priority is given by its place."""
    from tensord.models._model import Model, _result

    if not isinstance(model, Model):
        raise TypeError(f"infer() takes a model (td.load_model(), td.model()), not {type(model).__name__}")
    if timeout is not None and timeout <= 0:
        raise _C.Timeout("there was no time left for the model to answer")
    us = 0 if timeout is None else max(1, round(timeout * 1e6))
    try:
        return _result(await _ask(_C._aio_infer, model._handle, model._given(args, named), us, priority))
    except _C.ConnectionLost as lost:
        model._open_again(lost)
    return _result(await _ask(_C._aio_infer, model._handle, model._given(args, named), us, priority))


async def sync(timeout: float | None = None) -> None:
    """Wait until everything asked so far has ended; raises the first error that was not told yet."""
    await _ask(_C._aio_status, None, timeout)


async def status(what: str = "status", timeout: float | None = None) -> Any:
    """As tensord.status()."""
    return await _ask(_C._aio_status, what, timeout)


@overload
async def open(name: str, timeout: float | None = None, *, newer_than: None = None, out: Literal["tensord", "torch"] = "tensord") -> Any: ...


@overload
async def open(name: str, timeout: float | None = None, *, newer_than: int, out: Literal["tensord", "torch"] = "tensord") -> tuple[Any, int]: ...


async def open(name: str, timeout: float | None = None, *, newer_than: int | None = None, out: Literal["tensord", "torch"] = "tensord") -> Any:
    """As tensord.open(), but that it waits for the name as long as it takes unless a timeout (in seconds) is given. newer_than: a version
    (0: any): waits for a larger one, and returns what it opened together with its version; tensord.Closed: as there. out="torch" gives torch tensors."""
    if newer_than is not None and newer_than < 0:
        raise _C.InvalidError("open(): newer_than is a version, and none is negative")
    opened, version = await _ask(_C._aio_open, name, newer_than or 0, timeout, out)
    return opened if newer_than is None else (opened, version)


async def _wait(member: Any, put: bool, asked: Any) -> Any:
    """What is asked of a queue. That it waits for nobody is told by another thread, which waits for the answers that this takes."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(_SILENT, loop.run_in_executor, None, member.tell, put)
    try:
        return await asked
    finally:
        timer.cancel()


class Queue:
    """tensord.Queue for asyncio: the same queue, by its name, whoever else uses it and how.

    `async with` leaves it at the end; `async for` goes on until there will be no more items. timeout in seconds; when it is over, tensord.Timeout
    (a TimeoutError) is raised. A get() that is cancelled takes no item. A put() that is cancelled has put nothing, unless it was in already.
    """

    def __init__(self, name: str, maxsize: int = 0, *, role: Literal["producer", "consumer"] | None = None, keep: float | None = None,
                 out: Literal["tensord", "torch"] = "tensord") -> None:
        self._queue = _Queue(name, maxsize, role=role, keep=keep, out=out)

    @property
    def name(self) -> str:
        return self._queue.name

    @property
    def maxsize(self) -> int:
        return self._queue.maxsize

    async def get(self, timeout: float | None = None) -> Any:
        """The oldest item, for this consumer alone; tensord.Closed when nobody is left who could put."""
        member = self._queue._role(_CONSUMER)
        return await _wait(member, False, _ask(_C._aio_get, member, timeout))

    async def put(self, item: Any, timeout: float | None = None) -> None:
        """Append an item, as tensord.Queue does; when this returns it is in."""
        member = self._queue._role(_PRODUCER)
        await _wait(member, True, _ask(_C._aio_put, member, item, timeout))

    def get_nowait(self) -> Any:
        return self._queue.get_nowait()

    def put_nowait(self, item: Any) -> None:
        self._queue.put_nowait(item)

    def qsize(self) -> int:
        return self._queue.qsize()

    def empty(self) -> bool:
        return self._queue.empty()

    def full(self) -> bool:
        return self._queue.full()

    async def close(self, end: bool = False) -> None:
        """Leave the queue; gets of this object that wait raise tensord.Closed. end: nobody may put any more."""
        await asyncio.shield(asyncio.to_thread(self._queue.close, end))  # it waits for puts that are under way

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.get()
        except _C.Closed:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"tensord.aio.Queue({self.name!r}, maxsize={self.maxsize})"
