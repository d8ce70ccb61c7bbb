"""Parameters of several types: a program whose caller may hand an int, or a list, where Union[int, list[int]] or Any is written.

The IR has no value of several types, so for each combination that comes there is a program of its own: of a function that takes these types, and
calls the one that was written, which is lowered for them (client/script, takes_union).
"""
import ast
import collections
import types
import typing

from tensord import _C
from tensord.core import _forking
from tensord.program import _namedtuples
from tensord.program._state import _type_of

_MOST = 64  # programs of one function
_UNIONS = (typing.Union, types.UnionType)


def _is_several(kind):
    members = [k for k in typing.get_args(kind) if k is not type(None)]
    if kind is typing.Any or typing.get_origin(kind) in _UNIONS and len(members) > 1:
        return True
    return any(map(_is_several, members))


class Several:
    """Those parameters of a function: the types that their arguments have."""

    def __init__(self, function, signature):
        self.kinds = {}
        for name, parameter in signature.parameters.items():
            kind = self.resolved(function, parameter.annotation)
            if _is_several(kind):
                self.kinds[name] = kind
        self.places = [(list(signature.parameters).index(name), name, kind) for name, kind in self.kinds.items()]

    @staticmethod
    def resolved(function, annotation):
        if not isinstance(annotation, str):
            return annotation
        names = {**vars(typing), **function.__globals__, **dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ())))}
        try:
            return eval(annotation, names)
        except Exception:  # what it names is not there, which the front end says
            return None

    def first(self):
        """Types to begin with."""
        return tuple(_first(kind) for _, _, kind in self.places)

    def of(self, given):
        """Those that the arguments have."""
        found = []
        for place, name, kind in self.places:
            words = _words(given[place], kind, exact=True) or _words(given[place], kind, exact=False)
            if words is None:
                raise _C.DTypeError(f"the argument '{name}' is {_said(kind)}, and {_given(given[place])} is given")
            found.append(words)
        return tuple(found)

    def entry(self, world, function, meaning, words):
        """A function that has these types, and calls that one (its name: `meaning`)."""
        _, unit, _, at = meaning
        parameters, names, line = world.units[unit][0], dict(world.units[unit][3]), world.units[unit][2]
        tree = next(n for n in ast.walk(ast.parse("if 1:\n" + "".join(" " + text for text in parameters.splitlines(True)))) if isinstance(n, ast.FunctionDef))
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs][at >= 0:]
        typed, said = [], dict(zip(self.kinds, words))
        for a in arguments:
            kind = said.get(a.arg) or (ast.unparse(a.annotation) if a.annotation else "Tensor")
            typed.append(f"{a.arg}: {kind}")
        by_name = {a.arg for a in tree.args.kwonlyargs}
        passed = [f"{a.arg}={a.arg}" if a.arg in by_name else a.arg for a in arguments]
        names["of_several_types"] = meaning
        world.units.append((f"def {function.__name__}({', '.join(typed)}): return of_several_types({', '.join(passed)})\n", world.units[unit][1], line, names, False))
        return "function", len(world.units) - 1, function.__name__, -1


def of(function, signature):
    """Several, or None where each parameter has one type."""
    several = Several(function, signature)
    return several if several.places else None


class Made(collections.OrderedDict):
    """The programs that were made, by types; those that were asked for last."""

    def __init__(self):
        super().__init__()
        self.lock = _forking.rlock()

    def keep(self, key, value):
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MOST:
            self.popitem(last=False)


def _first(kind):
    origin, parts = typing.get_origin(kind), [k for k in typing.get_args(kind) if k is not type(None)]
    if kind is typing.Any:
        return "Tensor"
    if origin in _UNIONS:
        return _first(parts[0])
    if origin in (list, tuple, dict):
        return f"{origin.__name__}[{', '.join(map(_first, parts))}]"
    return _namedtuples._Writer(None, type).words(kind) if not _namedtuples.is_class(kind) else kind.__name__


def _words(value, kind, exact):
    """The type of a value that may stand for this kind, as an annotation says it; None: it may not. exact: an int is no float."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return "None" if value is None else _first(list[typing.Any]) if isinstance(value, list) and not value else _type_of(value)
    if origin in _UNIONS:
        return next((words for words in (_words(value, part, exact) for part in parts) if words), None)
    if origin in (list, dict) and isinstance(value, origin):
        sides = [value] if origin is list else [value.keys(), value.values()]
        found = [_same(side, part, exact) for side, part in zip(sides, parts)]
        return f"{origin.__name__}[{', '.join(found)}]" if all(found) else None
    if origin is tuple and isinstance(value, tuple) and len(value) == len(parts):
        found = [_words(item, part, exact) for item, part in zip(value, parts)]
        return f"tuple[{', '.join(found)}]" if all(found) else None
    if kind in (None, type(None)):
        return "None" if value is None else None
    if not exact and kind is float and type(value) is int:
        return "float"
    if kind in (bool, int, float, complex, str):
        return kind.__name__ if type(value) is kind else None
    name = getattr(kind, "__name__", "")
    if name == "Tensor":
        return "Tensor" if _C.is_tensor(value) else None
    return name if isinstance(kind, type) and isinstance(value, kind) else None


def _same(values, kind, exact):
    found = {_words(value, kind, exact) for value in values} or {_first(kind)}
    return found.pop() if len(found) == 1 else None


def _said(kind):
    if typing.get_origin(kind) in _UNIONS:
        *most, last = map(_said, typing.get_args(kind))
        return f"{', '.join(most)} or {last}"
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind)) if not typing.get_args(kind) else str(kind).replace("typing.", "").replace("tensord.", "").replace("_C.", "")


def _given(value):
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of several types, or of none of these" if value else f"an empty {type(value).__name__}"
    return "None" if value is None else f"a {type(value).__name__}" if type(value).__name__[0] not in "aeiou" else f"an {type(value).__name__}"
