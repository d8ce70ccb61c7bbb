"""Traces in programs: what was traced is a source again (Program.code), behind a function that takes and gives its trees."""
import json
import re

from tensord.program import _namedtuples
from tensord.program._trees import LEAF

_CAPTURED = re.compile(r'^# (\w+): captured as (".*")$', re.MULTILINE)
_OURS = ("forward", "results_of_trace", "td", "math")


class _NoType(Exception):
    pass


class _Trace:
    """One as a unit of a world."""

    def __init__(self, world, program, title):
        self.world, self.program = world, program
        self.title = title + "." if title else ""
        self.names = {"td": ("tensord",), "math": ("math",)}

    def unit(self, name):
        """Its source, with a function of this name that calls it."""
        code, tensors = self.program.code, dict(zip(self.program._called, self.program._captured))
        for shown, key in _CAPTURED.findall(code):
            key = json.loads(key)
            self.names[shown] = "tensor", self.world.tensor(tensors[key], self.title + key)
        return code + self.wrapper(name), "trace.py", 1, self.names, False

    def wrapper(self, name):
        shapes = self.program._takes[1]
        names = [n + "_" * (n in _OURS or n in self.names) for n in self.program._argument_names]
        given = ", ".join(f"{n}: {self.type_of(shape)}" for n, shape in zip(names, shapes))
        leaves = [leaf for n, shape in zip(names, shapes) for leaf in self.leaves(shape, n)]
        count = len([*self.leaves(self.program._gives, "")])
        made = iter([_OURS[1]] if count == 1 else [f"{_OURS[1]}[{k}]" for k in range(count)])
        return f"\n\ndef {name}({given}):\n    {_OURS[1]} = forward({', '.join(leaves)})\n    return {self.tree(self.program._gives, made)}\n"

    def type_of(self, shape):
        if shape is LEAF:
            return "td.Tensor"
        kind, items = shape
        if issubclass(kind, dict):
            keys = {type(key).__name__ for key, _ in items}
            return f"dict[{self.one(keys)}, {self.one({self.type_of(item) for _, item in items})}]"
        parts = [self.type_of(item) for item in items]
        if hasattr(kind, "_fields"):
            return self.named(kind)
        return f"tuple[{', '.join(parts)}]" if issubclass(kind, tuple) else f"list[{self.one(set(parts))}]"

    def one(self, types):
        if len(types) != 1:
            raise _NoType
        return types.pop()

    def named(self, kind):
        self.names[kind.__name__] = _namedtuples.described(self.world, kind)
        return kind.__name__

    def leaves(self, shape, path):
        """Where its tensors are."""
        if shape is LEAF:
            yield path
            return
        kind, items = shape
        for k, item in items if issubclass(kind, dict) else enumerate(items):
            yield from self.leaves(item, f"{path}[{k!r}]")

    def tree(self, shape, made):
        """A tree of what was made."""
        if shape is LEAF:
            return next(made)
        kind, items = shape
        if issubclass(kind, dict):
            return "{" + ", ".join(f"{key!r}: {self.tree(item, made)}" for key, item in items) + "}"
        parts = "".join(self.tree(item, made) + ", " for item in items)
        if hasattr(kind, "_fields"):
            return f"{self.named(kind)}({parts.rstrip(', ')})"
        return f"({parts})" if issubclass(kind, tuple) else f"[{parts.rstrip(', ')}]"


def function(world, program, title, name="traced", at=-1):
    """What a trace means."""
    try:
        world.units.append(_Trace(world, program, title).unit(name))
    except _NoType:
        return "refused", "a program calls no trace whose lists or dicts hold things of different kinds"
    return "function", len(world.units) - 1, name, at


def module(world, traced, title):
    """The number of an object, whose methods are those that were traced."""
    world.objects.append((0, 0, title, {name: function(world, program, title, "traced_" + name) for name, program in traced._methods_by_name().items()}))
    return len(world.objects) - 1
