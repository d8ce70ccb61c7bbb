"""What programs of functions and of methods share: they are made of sources, made anew when what these name is another one, and made once for
each combination of types where parameters have several."""
import inspect
from typing import Any

from tensord import _C
from tensord.program import _namedtuples, _unions
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
        from tensord.program._archive import Part, call_of

        self._now()
        world, graph, captured, called = self._made_of
        call = {**call_of(self._arguments.signature, world.shape), **world.states.words()}
        return [Part(self._part_name, graph, dict(zip(called, captured)), call)]
