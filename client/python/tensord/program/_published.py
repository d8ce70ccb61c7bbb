"""Programs under names: what any of them has to be published, and those that were opened."""
import builtins
import os
import tempfile
from collections.abc import Callable
from typing import Any

from tensord import _C
from tensord.program._parts import Part
from tensord.program._plan import Plan, Program


class Named(Program):
    """A program that can be published under a name."""

    _program: "_C._Program | None"

    def _daemons(self) -> "_C._Program":
        raise NotImplementedError

    def _asks(self, args, kwargs) -> "tuple[_C._Program, tuple[Any, ...], Callable[[Any], Any] | None]":
        """A call in parts, for those who wait otherwise (tensord.aio): the daemon's program, what it is given, and what makes the call's
        result of its own (None: it is that)."""
        raise NotImplementedError

    def _alone(self) -> "Any":
        """The turn that a call takes (_mutex.py), of a program that keeps what it writes; None: several may go at once."""
        return None

    def __call__(self, *args, **kwargs):
        alone = self._alone()
        if alone is not None:
            with alone:
                return self._call(args, kwargs)
        return self._call(args, kwargs)

    def _call(self, args, kwargs):
        program, given, finish = self._asks(args, kwargs)
        result = program.call(given)
        return result if finish is None else finish(result)

    def _made(self, graph: str, captured: "tuple[_C.Tensor, ...]") -> "_C._Program":
        """What the daemon has of it, given to it when it has none, or one of other tensors."""
        if self._program is None or not self._program.holds(captured):
            self._program = _C._Program(graph, captured)
        return self._program

    def publish(self, name: str, replace: bool = False, copy: bool = False) -> None:
        """Publish the program: td.jit.open(name) gives it to any process, which calls it with one message.

        As with tensors it is the value that is published: what it captures is copied into service memory, once for all
        who call it, and this program stays apart from it; tensors that lie there already (td.open(), td.service_memory())
        are captured themselves. The name outlives this process; td.drop(name) ends it. replace: in the place of what has
        the name. Who has opened that keeps it."""
        _C._program_publish(self._daemons(), name, replace, copy)

    def plan(self, *args, **kwargs) -> Plan:
        """What the daemon makes of the program for such arguments, as a text: rows of small ops that it runs as one call (a *row*, or a *sweep* of
        larger ones by tiles, or the *chunks* of a convolution and what goes on with each), with what they cost, each op's line, and what ends them; and what goes one by one. It finds them in the first runs: with arguments the program is
        called three times before. Ops that record gradients, write, or draw random numbers go one by one, and are in no row."""
        for _ in range(3 if args or kwargs else 0):
            self(*args, **kwargs)
        return Plan(_C._program_plans(self._daemons()))

    def _parts(self) -> "list[Part]":
        """What a file has of it."""
        raise NotImplementedError

    def _state(self) -> "tuple[dict[str, _C.Tensor], list[str]]":
        """What a file has beside what is captured, and which names are no part of the state."""
        return {}, []

    def save(self, f, *, whole: bool = False, _extra_files=None) -> None:
        """Write the program and the tensors that it captures to a file (a path that ends with .td or .pt, or an object with write()):
        td.jit.load() reads it, in C td_program_load(), and `tensorctl run` runs it without Python. torch.load() and td.load() read its
        tensors, a dict by their names; of a .pt torch.jit.load() makes a module, unless ATen has no name for some op, of which there is a warning
        (then it is as a .td). A regular file appears whole or not at all. whole is that of td.save(). _extra_files: texts or bytes by names, which lie beside
        the program, and which td.jit.load() and torch.jit.load() give back."""
        from tensord.program._saving import save_parts  # with modules and files, which many programs never load

        save_parts(self._parts(), f, *self._state(), whole, _extra_files or {})

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """What save() writes to a .pt."""
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "archive.pt")
            self.save(path, _extra_files=_extra_files)
            with builtins.open(path, "rb") as file:
                return file.read()

    def _states_count(self) -> int:
        """How many attributes it is given and gives back behind its arguments and its result."""
        return 0

    @property
    def schema(self) -> str:
        """What it takes and gives, as PyTorch writes it: f(Tensor x, int n=3) -> Tensor"""
        from tensord.program._schema import schema_of

        return schema_of(self)


class timeout:
    """Inside `with td.jit.timeout(seconds):` a program that this thread calls may run so long from when the daemon begins it. What has not come
    to its end by then is stopped, and the call raises tensord.Timeout; what it had written by then stays written. Such calls wait for their
    end. seconds: None for as long as it takes, as outside."""

    def __init__(self, seconds: "float | None"):
        if seconds is not None and not seconds > 0:
            raise _C.InvalidError(f"timeout(): {seconds!r} seconds; more than 0 are wanted, or None")
        self._ms = 0 if seconds is None else max(1, round(min(seconds, 2e6) * 1000))
        self._was: "list[int]" = []

    def __enter__(self):
        self._was.append(_C._program_timeout(self._ms))

    def __exit__(self, *exc):
        _C._program_timeout(self._was.pop())


class OpenedProgram(Named):
    """A program that some process has published; made by open(). Call it with values for its parameters."""

    _program: "_C._Program"

    def __init__(self, name: str, timeout: "float | None" = 0):
        self._name, self._timeout = name, timeout
        self._open(timeout)

    def _open(self, timeout):
        self._program = _C._program_open(self._name, timeout)
        self.graph, self._names = _C._program_text(self._program)

    def _open_anew(self, timeout: "float | None") -> None:
        """What has the name in the daemon that is there now, when the one that it was opened in has gone."""
        if self._program.is_there():
            return
        try:
            self._open(timeout)
        except _C.NotFound as e:
            e.add_note(f"The daemon in which the program {self._name!r} was opened has gone: whoever published it has to do so again.")
            raise

    def _daemons(self):
        self._open_anew(self._timeout)
        return self._program

    def _parts(self):
        captured = _C._program_captured(self._daemons())
        return [Part("forward", self.graph, dict(zip(_C._names_in(self.graph)[1], captured)))]

    def _asks(self, args, kwargs):
        program = self._daemons()
        given = self._in_order(args, kwargs) if kwargs else args
        if len(given) != len(self._names):
            raise TypeError(f"the program takes {len(self._names)} arguments, and {len(given)} are given: ({', '.join(self._names)})")
        return program, given, None

    def _in_order(self, args, kwargs):
        rest = self._names[len(args):]
        for name in kwargs:
            if name not in rest:
                raise TypeError(f"the program has no parameter '{name}', or it was given before; it takes ({', '.join(self._names)})")
        return args + tuple(kwargs.pop(name) for name in rest if name in kwargs)

    def __repr__(self):
        return f"<tensord.jit.OpenedProgram({', '.join(self._names)})>"


def open(name: str, timeout: "float | None" = 0) -> OpenedProgram:
    """The program that some process has published under this name. Waits for the name up to timeout seconds (None: for ever).

    It keeps its program when the name is given to another one: open() it again for that. When its daemon has gone the next call
    opens what has the name in the next one, and waits for it as open() did. It is called without defaults, which are the
    function's, not the program's."""
    return OpenedProgram(name, timeout)
