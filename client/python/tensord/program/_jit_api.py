"""Parts of torch.jit's interface beside programs: futures, attributes with their types, interfaces, and whether a trace is on."""
import re
import threading
from typing import Any, Generic, NamedTuple, TypeVar

from tensord.program._published import Named

T = TypeVar("T")

# ---- what goes on elsewhere


class Future(Generic[T]):
    """What fork() gives: a result that is there already, as what is asked of the daemon is computed later anyway."""

    def __init__(self, value: T):
        self._value = value

    def wait(self) -> T:
        return self._value

    value = wait

    def done(self) -> bool:
        return True

    def then(self, callback) -> "Future[Any]":
        return Future(callback(self))

    def add_done_callback(self, callback) -> None:
        callback(self)


def fork(func, *args, **kwargs):
    """Call the function; wait() gives the result. In a program it is the call itself: a program finds by itself what may run at once."""
    return Future(func(*args, **kwargs))


def wait(future):
    """The result of what was forked."""
    return future.wait()


# ---- what is said of classes and attributes


class Attribute(NamedTuple):
    """A value of a module with its type: self.found = td.jit.Attribute({}, dict[str, int])."""

    value: Any
    type: Any


def interface(obj):
    """A class that says which methods a module has: the type of an attribute, as which modules may be put one for another. A program is made of the
    module that is there, and made anew when another one is."""
    if not isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    obj._tensord_interface = True
    return obj


# ---- traces


class _Tracing(threading.local):
    now = False


tracing = _Tracing()


def is_tracing():
    """Is a trace recording what this thread does? False in a program."""
    return tracing.now


# ---- programs


def export_opnames(m) -> "list[str]":
    """The ops of tensors that a program has, sorted, as its graph names them: "td::linear"."""
    if not isinstance(m, Named):
        raise TypeError(f"export_opnames() takes a program (script(), trace()), not {type(m).__name__}")
    return sorted({op for part in m._parts() for op in re.findall(r"^ +(?:%[^\n]*? = )?(td::\w+)", part.graph, re.MULTILINE)})
