"""Attributes of modules that programs write: they are kept in the module, given to the program with each call, and taken back behind it.

To the front end such an attribute is a *state* (client/script/script.h); its type is what its class or its __init__() says, otherwise that of its value.
"""
import ast
import inspect
import re
import types
import typing
import weakref

from tensord import _C
from tensord.core import _forking
from tensord.program import _namedtuples
from tensord.program._mutex import Turn, Turns
from tensord.program._parts import state_words

_PLAIN = (bool, int, float, complex, str)
_TURNS: "weakref.WeakKeyDictionary[typing.Any, Turn]" = weakref.WeakKeyDictionary()  # of modules with attributes that programs write


class Slot(typing.NamedTuple):
    """Where a state is kept: in one attribute, or in several that hold one list."""

    homes: "list[tuple[typing.Any, str]]"  # module, attribute
    name: str  # with those of the modules around it
    floats: bool  # what it holds are floats, also where Python wrote an int

    def get(self):
        value = getattr(*self.homes[0])
        return _as_floats(value) if self.floats else value

    def set(self, value):
        for module, key in self.homes:
            (module._buffers if key in module._buffers else vars(module))[key] = value


def _as_floats(value):
    """[1, 0.5] as a program has it."""
    if type(value) is int:
        return float(value)
    if isinstance(value, list) and not all(type(item) is float for item in value):
        return [_as_floats(item) for item in value]
    return {key: _as_floats(item) for key, item in value.items()} if isinstance(value, dict) else value


class _Attribute:
    """One that may become a state."""

    def __init__(self, number, module, title, name, kind):
        self.number, self.module, self.title, self.name, self.kind = number, module, title, name, kind
        self.value = getattr(module, name, None)
        self.held = set(_held(self.value))  # lists and dicts in it, by id
        self.assigned = self.changed = self.written = False


def _held(value):
    if isinstance(value, (list, dict)):
        yield id(value)
    if isinstance(value, (list, dict, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _held(item)


def _reaches(value, depth):
    """Is there a list or dict so many items down, or below?"""
    if isinstance(value, (list, dict)) and depth <= 0:
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(_reaches(item, depth - 1) for item in items)


class _Meant:
    """The attributes that paths of functions mean: by the module that a path begins at, otherwise by the name alone."""

    def __init__(self, world, modules, written):
        self.world, self.written = world, written
        self.modules = dict(modules)
        self.number_of = {id(module): number for number, module in modules}
        self.bound = {}  # unit -> modules
        for number, module in modules:
            for meaning in world.objects[number][3].values():
                if isinstance(meaning, tuple) and meaning[0] == "function" and meaning[3] == number:
                    self.bound.setdefault(meaning[1], []).append(module)

    def roots(self, unit, root):
        """The modules that a name means; empty: not known."""
        if root and root == self.written[unit].first:
            return self.bound.get(unit, [])
        meaning = self.world.units[unit][3].get(root)
        known = isinstance(meaning, tuple) and meaning[0] == "object" and root not in self.written[unit].local
        return [self.modules[meaning[1]]] if known and meaning[1] in self.modules else []

    def places(self, unit, path):
        """(number of the object or None: any, name)."""
        roots = self.roots(unit, path[0])
        if not roots:
            return [(None, path[-1])]
        found = []
        for module in roots:
            for step in path[1:-1]:
                at = module._modules.get(step)
                if at is None and (step in module._parameters or step in module._buffers):
                    break  # of a tensor
                module = getattr(at, "_original", at)
                if module is None:
                    found.append((None, path[-1]))
                    break
            else:
                found.append((self.number_of.get(id(module)), path[-1]))
        return found

    def all(self, which):
        """{place: what is said of it, as a list} of all functions."""
        found = {}
        for unit, written in self.written.items():
            for path, how in getattr(written, which):
                for place in self.places(unit, path):
                    found.setdefault(place, []).append(how)
        return found


def _said(module):
    """{attribute: its type as annotations say it, and the class that does}."""
    said = {}
    for klass in reversed(type(module).__mro__[:-2]):
        for node in ast.walk(_init_of(klass)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                said[node.target.attr] = ast.unparse(node.annotation), klass
        said.update((name, (kind, klass)) for name, kind in inspect.get_annotations(klass).items())
    said.update((name, (kind, type(module))) for name, kind in vars(module).get("_types_of_attributes", {}).items())
    return said


def _init_of(klass):
    function = vars(klass).get("__init__")
    if not isinstance(function, types.FunctionType):
        return ast.Module([], [])
    try:
        return ast.parse("if 1:\n" + "\n".join(" " + line for line in inspect.getsource(function).splitlines()) + "\n")
    except (OSError, SyntaxError):
        return ast.Module([], [])


def _type_of(value):
    """As an annotation says it; None: it does not tell."""
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind.__name__
    if _C.is_tensor(value):
        return "Tensor"
    if isinstance(value, tuple):
        parts = [_type_of(item) for item in value]
        return f"tuple[{', '.join(parts)}]" if parts and all(parts) and type(value) is tuple else None
    if isinstance(value, list):
        part = _same(value)
        return part and f"list[{part}]"
    if isinstance(value, dict):
        parts = _same(value), _same(value.values())
        return f"dict[{', '.join(parts)}]" if all(parts) else None
    return None


def _same(values):
    parts = {_type_of(value) for value in values}
    if parts == {"int", "float"}:
        return "float"
    return parts.pop() if len(parts) == 1 else None


_MAKING = _forking.lock()


def _turn_of(module):
    with _MAKING:
        return _TURNS.setdefault(module, Turn())


class States:
    """Those of a world. A parameter or a buffer is none, unless it may be None: it is written where it stands, for whoever shares it."""

    def __init__(self, world):
        self.world, self.slots, self.described, self.turn = world, [], [], None

    def find(self, modules, written):
        """Put into the names of the modules the states that their attributes are; `written`: what each function of the world does, by unit."""
        meant = _Meant(self.world, modules, written)
        assigned, changed, used = (meant.all(which) for which in ("assigned", "changed", "used"))
        attributes = []
        for number, module in modules:
            title, names = self.world.objects[number][2:]
            for name in sorted(names.keys() - {"training"}):
                kind = names[name][0] if isinstance(names[name], tuple) else ""
                if kind not in ("", "list", "dict", "tuple", "tensor"):
                    continue
                a = _Attribute(number, module, title, name, kind)
                places = (number, name), (None, name)
                a.assigned = any(p in assigned for p in places)
                depths = [depth for p in places for depth in used.get(p, ())]
                a.changed = a.assigned or any(p in changed for p in places) and _reaches(a.value, 0)
                a.written = a.changed or any(_reaches(a.value, d) for d in depths)
                if a.kind == "dict" and not a.value and depths:  # its type is not to be seen
                    a.written = True
                attributes.append(a)
        done = set()
        for a in attributes:
            if a.written and id(a) not in done:
                together = self.together(a, attributes)
                done.update(map(id, together))
                self.add(together)

    def together(self, a, attributes):
        """That one, and all that hold a list or dict of it."""
        found, more = [a], True
        while more:
            held = {k for b in found for k in b.held}
            more = [b for b in attributes if b.held & held and b not in found]
            found += more
        return [b for b in attributes if b in found]

    def add(self, together):
        first = together[0]
        if first.kind == "tensor" and not first.assigned:
            return
        why = self.refused(together)
        words, known = (None, None) if why else self.typed(together)
        stands = first.kind == "tensor" and (first.name in first.module._parameters or first.name in first.module._buffers)
        if stands and not (words and ("None" in words or "Optional" in words)):
            return
        if not why and words is None:
            how = "is written" if any(a.changed for a in together) else "may be written where it has another name or is handed on"
            why = f"the type of the attribute '{first.name}' is not known, and it {how}: say it in the class, '{first.name}: {'dict[str, int]' if first.kind == 'dict' else 'list[int]'}'"
        meaning = ("refused", why) if why else ("state", len(self.slots))
        for a in together:
            self.world.objects[a.number][3][a.name] = meaning
        if why:
            return
        floats = re.fullmatch(r"(list\[|dict\[\w+,)+float\]+", words.replace(" ", "").lower()) is not None
        self.slots.append(Slot([(a.module, a.name) for a in together], first.title + "." * bool(first.title) + first.name, floats))
        self.world.units.append((f"def state({first.name}: {words}):\n    pass\n", type(first.module).__name__, 1, known, False))
        self.described.append((first.number, first.name, len(self.world.units) - 1, "state"))

    def refused(self, together):
        """Why these cannot be one state; None: they can."""
        first = together[0]
        other = next((a for a in together if a.value is not first.value), None)
        if other is None:
            other = next((a for a in together[1:] if any(b.assigned for b in together)), None)
        return other and (f"the attributes '{first.name}' and '{other.name}' hold one {'dict' if first.kind == 'dict' else 'list'}, and it or one of them is written: "
                          "give each its own")

    def typed(self, together):
        """(type, what its names mean), as one of the classes says it, otherwise that of the value."""
        for a in together:
            text, klass = _said(a.module).get(a.name, (None, None))
            if text is not None:
                writer = _namedtuples._Writer(self.world, klass)
                return writer.words(text), writer.names
        return _type_of(together[0].value), {}

    def alone(self):
        """What a call is made inside: one at a time, of all that write attributes of these modules. None: it writes none."""
        if not self.slots:
            return None
        if self.turn is None:
            modules = {id(module): module for slot in self.slots for module, _ in slot.homes}
            turns = [_turn_of(modules[k]) for k in sorted(modules)]  # in one order, whoever asks
            self.turn = turns[0] if len(turns) == 1 else Turns(turns)
        return self.turn

    def given(self, arguments):
        """What the program is called with."""
        return (*arguments, *(slot.get() for slot in self.slots)) if self.slots else arguments

    def giver(self, give):
        """What makes the call's result of the program's, and keeps the states."""
        if not self.slots:
            return give

        def keep(made):
            result, now = made
            for slot, value in zip(self.slots, now):
                slot.set(value)
            return result if give is None else give(result)

        return keep

    def words(self):
        """For a file."""
        return {"states": [state_words(slot.name, slot.get()) for slot in self.slots]} if self.slots else {}

    def tensors(self):
        return {slot.name: slot.get() for slot in self.slots if _C.is_tensor(slot.get())}
