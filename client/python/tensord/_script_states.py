"""Attributes of modules that programs write: they are kept in the module, given to the program with each call, and taken back behind it.

To the front end such an attribute is a *state* (client/script/script.h); its type is what its class or its __init__() says, otherwise that of its value.
"""
import ast
import inspect
import types
import typing

from . import _C, _script_named

_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "popitem", "setdefault"}
_PLAIN = (bool, int, float, complex, str)


class Written(typing.NamedTuple):
    """Names of attributes that a function assigns, or changes where they stand: of its first argument, and of what else."""

    own: "set[str]"
    others: "set[str]"
    changed: "set[str]"


def written_by(nodes):
    function = next((n for n in nodes if isinstance(n, ast.FunctionDef)), None)
    first = function.args.args[0].arg if function and function.args.args else ""
    found = Written(set(), set(), set())
    for node in nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            (found.own if isinstance(node.value, ast.Name) and node.value.id == first else found.others).add(node.attr)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.changed.update(_root(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            found.changed.update(_root(node.func.value))
    return found


def _root(node):
    """The attribute of which a part is changed, where it is one."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return [node.attr] if isinstance(node, ast.Attribute) else []


class Slot(typing.NamedTuple):
    """Where a state is kept."""

    module: typing.Any
    key: str
    name: str  # with those of the modules around it

    def get(self):
        return getattr(self.module, self.key)

    def set(self, value):
        home = self.module._buffers
        (home if self.key in home else vars(self.module))[self.key] = value


def _said(module):
    """{attribute: its type as annotations say it, and the class that does}."""
    said = {}
    for klass in reversed(type(module).__mro__[:-2]):
        for node in ast.walk(_init_of(klass)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                said[node.target.attr] = ast.unparse(node.annotation), klass
        said.update((name, (kind, klass)) for name, kind in inspect.get_annotations(klass).items())
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
    return parts.pop() if len(parts) == 1 else None


class States:
    """Those of a world. An attribute that means a tensor is none, unless it may be None: it is written where it stands."""

    def __init__(self, world):
        self.world, self.slots, self.described = world, [], []

    def find(self, number, module, title, names, functions):
        """Put into the names of a module the states that its attributes are; `functions`: what each function of the world writes, by unit."""
        mine = [functions[n[1]] for n in names.values() if isinstance(n, tuple) and n[0] == "function" and n[1] in functions]
        assigned = {name for f in mine for name in f.own} | {name for f in functions.values() for name in f.others}
        changed = {name for f in functions.values() for name in f.changed}
        said = None
        for name in sorted((assigned | changed) & names.keys() - {"training"}):
            meaning = names[name]
            kind = meaning[0] if isinstance(meaning, tuple) else ""
            if kind not in ("", "list", "dict", "tuple", "tensor") or name not in assigned and kind not in ("list", "dict"):
                continue
            said = _said(module) if said is None else said
            text, klass = said.get(name, (None, type(module)))
            writer = _script_named._Writer(self.world, klass)
            words = writer.words(text) if text is not None else _type_of(getattr(module, name))
            if kind == "tensor" and not (words and ("None" in words or "Optional" in words)):
                continue
            names[name] = self.add(number, module, title, name, words, writer.names)

    def add(self, number, module, title, name, words, known):
        if words is None:
            return "refused", f"the type of the attribute '{name}' is not known, and it is written: say it in the class, '{name}: list[int]'"
        self.slots.append(Slot(module, name, title + "." * bool(title) + name))
        self.world.units.append((f"def state({name}: {words}):\n    pass\n", type(module).__name__, 1, known, False))
        self.described.append((number, name, len(self.world.units) - 1, "state"))
        return "state", len(self.slots) - 1

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
        from ._filed import state_words

        return {"states": [state_words(slot.name, slot.get()) for slot in self.slots]} if self.slots else {}

    def tensors(self):
        return {slot.name: slot.get() for slot in self.slots if _C.is_tensor(slot.get())}
