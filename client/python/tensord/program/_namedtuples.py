"""Named tuples in programs: their classes as sources of the front end, and what a program gives as such tuples again.

To the front end a class is a function whose parameters are the fields. To the daemon a named tuple is a tuple: its names are given back here, by
the *shape* of a result: None, ["t", shape...] of a tuple, ["l", shape] of a list, ["d", shape] of a dict's values, ["n", class, name, [field...], shape...].
"""
import collections
import enum
import functools
import inspect
import json
import sys
import types
import typing

from tensord import _C

OVERLOADED: "set[tuple[str, str]]" = set()  # functions that are called in several forms: module, name
_PLAIN = {int: "int", float: "float", bool: "bool", complex: "complex", str: "str", type(None): "None"}


def is_class(value):
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def is_enum(value):
    return isinstance(value, enum.EnumMeta) and not issubclass(value, (int, str)) and len(value) > 0


def member(world, value):
    """What a member of an enumeration means: its name and its value, which have one type in all members."""
    kind = described(world, type(value))
    return kind if kind[0] == "refused" else ("tuple", [value.name, world.meaning(value.value, value.name)], *kind[1:])


def without_enums(value):
    """Arguments, with pairs for members of enumerations."""
    if isinstance(value, enum.Enum) and not isinstance(value, (int, str)):
        return value.name, value.value
    if type(value) in (list, tuple):
        return type(value)(map(without_enums, value))
    return {key: without_enums(item) for key, item in value.items()} if type(value) is dict else value


def has_enums(kind):
    """Does a type of this annotation hold members of enumerations?"""
    return is_enum(kind) or any(map(has_enums, typing.get_args(kind)))


def annotated(function):
    """Classes by the names that annotations have of them, also where these are no variables of the function."""
    todo, found = list(getattr(function, "__annotations__", {}).values()), {}
    while todo:
        kind = todo.pop()
        todo += typing.get_args(kind)
        if is_class(kind) or is_enum(kind):
            found[kind.__name__] = kind
    return found


class _Writer:
    """A class as a source, whose names are meanings."""

    def __init__(self, world, cls):
        self.world, self.cls, self.names = world, cls, {}

    def source(self):
        if is_enum(self.cls):
            return f"def {self.cls.__name__}(name: str, value: {self.of_values()}):\n    pass\n"
        kinds, defaults = {}, self.cls._field_defaults
        for klass in reversed(self.cls.__mro__):
            kinds.update(inspect.get_annotations(klass))
        fields = [name + self.annotation(kinds.get(name)) + self.default(name, defaults) for name in self.cls._fields]
        return f"def {self.cls.__name__}({', '.join(fields)}):\n    pass\n"

    def of_values(self):
        kinds = {type(m.value) for m in self.cls}
        kind = kinds.pop()
        if kinds or kind not in _PLAIN:
            raise TypeError(f"a program knows enumerations whose values have one type, numbers or texts; those of {self.cls.__name__} have not")
        return _PLAIN[kind]

    def annotation(self, kind):
        return "" if kind is None else ": " + self.words(kind)

    def default(self, name, defaults):
        if name not in defaults:
            return ""
        self.names["default_" + name] = self.world.meaning(defaults[name], name)
        return " = default_" + name

    def words(self, kind):
        """A type as a text."""
        if isinstance(kind, typing.ForwardRef):
            kind = kind.__forward_arg__
        if isinstance(kind, str):
            return self.said(kind)
        if kind in _PLAIN:
            return _PLAIN[kind]
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            return " | ".join(map(self.words, typing.get_args(kind)))
        if typing.get_origin(kind) in (list, tuple, dict):
            return f"{typing.get_origin(kind).__name__}[{', '.join(map(self.words, typing.get_args(kind)))}]"
        return self.named(kind, getattr(kind, "__name__", str(kind)))

    def said(self, text):
        """One that is written as a text: its names are those of the class's module."""
        home = vars(sys.modules.get(self.cls.__module__, types))
        for name in text.replace("[", " ").replace("]", " ").replace(",", " ").replace("|", " ").split():
            self.named(home.get(name), name)
        return text

    def named(self, kind, name):
        if is_class(kind) or is_enum(kind):
            self.names[name] = self.world.value(kind, name)
        return name


def is_alias(value):
    """Ints = list[int], and other names of types."""
    return typing.get_origin(value) is not None and typing.get_origin(value) is not typing.Annotated or isinstance(value, types.UnionType)


def alias(world, kind, name):
    """What such a name means: the type of a parameter."""
    number = len(world.units)
    world.units.append(None)
    writer = _Writer(world, type)
    world.units[number] = f"def alias(of: {writer.words(kind)}):\n    pass\n", name, 1, writer.names, False
    return "type", number, "alias"


def described(world, cls):
    """What a class means: its unit's number is that of the class."""
    if cls not in world.named:
        number = len(world.units)
        world.named[cls] = number
        world.units.append(None)
        writer = _Writer(world, cls)
        try:
            source = writer.source()
        except TypeError as e:
            del world.named[cls]
            world.units[number] = "def unknown():\n    pass\n", cls.__name__, 1, {}, False
            return "refused", str(e)
        world.units[number] = source, cls.__name__, 1, writer.names, False
    return "named", world.named[cls], cls.__name__


# ---- results


def giver(gives, world):
    """What makes of a result the one with named tuples; None: there are none."""
    if gives is None:
        return None, None
    classes = {(number, cls.__name__): cls for cls, number in world.named.items()}
    shape = json.loads(gives)
    return shape, functools.partial(shaped, shape=shape, classes=classes.__getitem__)


def shaped(value, shape, classes):
    if shape is None or value is None:
        return value
    kind = shape[0]
    if kind == "l":
        return [shaped(item, shape[1], classes) for item in value]
    if kind == "d":
        return {key: shaped(item, shape[1], classes) for key, item in value.items()}
    items = [shaped(item, part, classes) for item, part in zip(value, shape[1 if kind == "t" else 4:])]
    if kind == "t":
        return tuple(items)
    made = classes((shape[1], shape[2]))
    if is_class(made):
        return made(*items)
    if is_enum(made):
        return made[items[0]]
    return _object_of(made, shape[3], items)


def _object_of(cls, fields, items):
    """Of a class of one's own (_classes.py): what its __init__() would make."""
    made = object.__new__(cls)
    for name, item in zip(fields, items):
        if not (hasattr(cls, name) and getattr(cls, name) == item):
            setattr(made, name, item)
    return made


def _classes_in(shape, made):
    """Those of a file, made here; what makes no sense is a ValueError."""
    if shape is None:
        return
    kind, *parts = shape
    if kind == "n":
        number, name, fields, *parts = parts
        if len(parts) != len(fields) or not isinstance(number, int):
            raise ValueError
        made[number, name] = collections.namedtuple(name, fields)
    elif kind not in ("t", "l", "d") or (kind != "t" and len(parts) != 1):
        raise ValueError
    for part in parts:
        _classes_in(part, made)


def loaded_giver(shape, name):
    """The same as giver's second, of a file."""
    made: "dict[tuple[int, str], type]" = {}
    try:
        _classes_in(shape, made)
    except (TypeError, ValueError, RecursionError) as e:
        raise _C.InvalidError(f"load(): what the program '{name}' gives makes no sense") from e

    def give(value):
        try:
            return shaped(value, shape, made.__getitem__)
        except (TypeError, AttributeError) as e:
            raise _C.InvalidError(f"{name}() gives something else than its file says") from e

    return give
