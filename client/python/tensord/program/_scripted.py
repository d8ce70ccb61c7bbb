"""What programs of functions and of methods share: they are made of sources, made anew when what these name is another one, and made once for
each combination of types where parameters have several."""
import functools
import inspect
import sys
import types
from typing import Any

from tensord import _C
from tensord.program import _namedtuples, _unions
from tensord.program._parts import Part, call_of
from tensord.program._published import Named
from tensord.program._script import World


class Arguments:
    """Those of a call, in the order of a function's parameters."""

    def __init__(self, function, bound=False):
        self.signature = inspect.signature(function)
        if bound:
            self.signature = self.signature.replace(parameters=list(self.signature.parameters.values())[1:])
        kinds = [p.kind for p in self.signature.parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
            raise TypeError(f"a program takes no *args or **kwargs: {function.__qualname__}")
        kinds_of = getattr(function, "__annotations__", {})
        self._enums = any(_namedtuples.has_enums(kinds_of.get(name)) for name in self.signature.parameters)
        self._by_place = None if inspect.Parameter.KEYWORD_ONLY in kinds else len(kinds)  # so many are all, as they come

    def __call__(self, args, kwargs):
        if kwargs or len(args) != self._by_place:
            given = self.signature.bind(*args, **kwargs)
            given.apply_defaults()
            args = given.args + tuple(given.kwargs.values())
        return _namedtuples.without_enums(args) if self._enums else args


class Scripted(Named):
    """A function or a method as a program. Where parameters have several types, `graph`, save() and the like are about those of the last call."""

    def _begin(self, function, name: str, bound: bool):
        self._arguments = Arguments(function, bound)
        self._part_name = name
        self._several = _unions.of(function, self._arguments.signature)
        self._kinds = self._several.first() if self._several else ()
        self._others = _unions.Made() if self._several else None
        self._made_of: "tuple[Any, ...] | None" = None  # the world, its graph, what it captures, its names of these
        self._program = None
        self._make()

    def _entry(self, world: World) -> "tuple[Any, Any]":
        """What it means in a world, and its function."""
        raise NotImplementedError

    def _make(self):
        if self._made_of is None or self._made_of[0].changed():
            world = World()
            entry, function = self._entry(world)
            if self._several:
                entry = self._several.entry(world, function, entry, self._kinds)
            made = world.compile(entry)
            self._made_of, self._program = (world, *made), None  # what cannot be made leaves the one before, which is asked for again

    def _of_types(self, kinds):
        """Be the program for these types."""
        if kinds == self._kinds:
            return
        before = self._kinds, self._made_of, self._program
        self._kinds, (self._made_of, self._program) = kinds, self._others.pop(kinds, (None, None))
        try:
            self._make()
        except BaseException:
            self._kinds, self._made_of, self._program = before
            raise
        self._others.keep(before[0], before[1:])

    @property
    def _world(self) -> World:
        return self._made_of[0]

    @property
    def graph(self):  # type: ignore[override]
        self._make()
        return self._made_of[1]

    def _states_count(self):
        return len(self._world.states.slots)

    def _alone(self):
        return self._world.states.alone()

    def _asks(self, args, kwargs):
        given = self._arguments(args, kwargs)
        if self._several is None:
            return self._daemons(), self._world.states.given(given), self._world.give
        with self._others.lock:
            self._of_types(self._several.of(given))
            return self._daemons(), self._world.states.given(given), self._world.give

    def _now(self):
        self._make()
        self._world.tell()

    def _daemons(self) -> _C._Program:
        self._now()
        return self._made(*self._made_of[1:3])

    def _parts(self):
        self._now()
        world, graph, captured, called = self._made_of
        call = {**call_of(self._arguments.signature, world.shape), **world.states.words()}
        return [Part(self._part_name, graph, dict(zip(called, captured)), call)]


class ScriptFunction(Scripted):
    """A function as a program; made by script(). Call it as the function."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._function = function
        self._begin(function, "forward", False)

    def _entry(self, world):
        return world.function(self._function), self._function

    def _state(self):
        kept = self._world.states.tensors()
        return kept, list(kept)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    @property
    def name(self):
        return self.__name__

    @property
    def qualified_name(self):
        return "__torch__." + self.__name__

    def __reduce__(self):
        """By its name, where that is its own; otherwise what it was made of, by that name."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else (ScriptFunction, (self._function,))

    def __repr__(self):
        return f"<tensord.jit.ScriptFunction {self.__qualname__}{self._arguments.signature}>"
