"""What queues carry beyond plain data: taken apart into plain data and tensors, and put together again where it arrives.

A class goes by its name, and is looked for among the modules that the receiver has imported: for what a queue brings nothing is imported but the
standard library's modules that are named here, and no code of a class is run (but that of __eq__ and __hash__, in sets). The first thing of
what is taken apart says which kind it is.
"""

import dataclasses
import enum
import importlib
import os
import sys
import types
from collections import OrderedDict

from tensord import _C


def _find(module, name):
    """The class of this name, without running what a module does when it is asked for a name that it does not have."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def _named(kind):
    if _find(kind.__module__, kind.__qualname__) is not kind:
        raise _C.DTypeError(f"a queue carries an object of {kind.__module__}.{kind.__qualname__} by the name of its class, and by that name nothing, or "
                            "something else, is found: define it at the top of a module")
    return kind.__module__, kind.__qualname__


def _class(module, name, is_one, what):
    kind = _find(module, name)
    if kind is None or not is_one(kind):
        here = "has not imported" if module not in sys.modules else "does not have"
        raise _C.NotFound(f"the item holds {what} {module}.{name}, which this program {here}: import it before get(); for what a queue brings nothing is imported, "
                          "as that would run code")
    return kind


def _is_namedtuple(kind):
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def _is_enum(kind):
    return issubclass(kind, enum.Enum)


def _state(x):
    """All that an object has: what its class has no place for, and its slots."""
    state = dict(getattr(x, "__dict__", {}))
    for kind in type(x).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(x, name):
                state[name] = getattr(x, name)
    return state


def _set_state(x, state):
    for name, value in state.items():
        object.__setattr__(x, name, value)


def _with_fold(kind, *parts):
    return kind(*parts[:-1], fold=parts[-1])


def _zone(kind, key):
    try:
        return kind(key)
    except (LookupError, ValueError, OSError):
        raise _C.NotFound(f"the item holds a time of the zone {key!r}, which is not known here: the package tzdata has them all") from None


def _called(kind, *parts):
    return kind(*parts)


def _path(x):
    return (str(x),)


# Values of the standard library, by the name of their class: its module, what it is made of, how it is made again.
_VALUES = {
    "date": ("datetime", lambda x: (x.year, x.month, x.day), _called),
    "time": ("datetime", lambda x: (x.hour, x.minute, x.second, x.microsecond, x.tzinfo, x.fold), _with_fold),
    "datetime": ("datetime", lambda x: (x.year, x.month, x.day, x.hour, x.minute, x.second, x.microsecond, x.tzinfo, x.fold), _with_fold),
    "timedelta": ("datetime", lambda x: (x.days, x.seconds, x.microseconds), _called),
    "timezone": ("datetime", lambda x: x.__getinitargs__(), _called),
    "ZoneInfo": ("zoneinfo", lambda x: (x.key,), _zone),
    "Decimal": ("decimal", lambda x: (str(x),), _called),
    "Fraction": ("fractions", lambda x: (x.numerator, x.denominator), _called),
    "UUID": ("uuid", lambda x: (x.hex,), _called),
    "PosixPath": ("pathlib", _path, _called),
    "WindowsPath": ("pathlib", _path, _called),
    "PurePosixPath": ("pathlib", _path, _called),
    "PureWindowsPath": ("pathlib", _path, _called),
    "range": ("builtins", lambda x: (x.start, x.stop, x.step), _called),
    "slice": ("builtins", lambda x: (x.start, x.stop, x.step), _called),
    "bytearray": ("builtins", lambda x: (bytes(x),), _called),
    "deque": ("collections", lambda x: (list(x), x.maxlen), _called),
    "Counter": ("collections", lambda x: (dict(x),), _called),
}


def _value_apart(x):
    kind = type(x)
    module, parts, _ = _VALUES.get(kind.__name__, ("", None, None))
    return (kind.__name__, *parts(x)) if parts and getattr(sys.modules.get(module), kind.__name__, None) is kind else None


# ---- exceptions: as pickle has them, by class, arguments and attributes; where it was raised is a note for who raises it again


def _is_exception(kind):
    return issubclass(kind, BaseException)


def _blank(kind, args):
    """One of the class by the constructor of the built-in that it is made of; no code of its own is run."""
    base = kind
    while base.__flags__ & 1 << 9:  # made by a class statement
        base = base.__base__
    return base.__new__(kind, *(args if issubclass(kind, BaseExceptionGroup) else ()))


def _members(x):
    """What built-in classes keep of an exception beside its arguments: errno, filename, value, code, ..."""
    return {name: getattr(x, name) for kind in type(x).__mro__ if kind.__module__ == "builtins" for name, what in vars(kind).items()
            if isinstance(what, types.MemberDescriptorType) and name != "obj" and not name.startswith("__")}


def _exception_apart(x):
    kind, told = type(x), ""
    try:
        _blank(kind, x.args)
    except TypeError:
        raise _C.DTypeError(f"an exception of {kind.__module__}.{kind.__qualname__} has a constructor in C of its own, and a queue makes none without "
                            "it; put its text: str(e)") from None
    if x.__traceback__ or x.__cause__ or x.__context__:
        import traceback

        told = f"in process {os.getpid()}, before it was put into a queue:\n" + "".join(traceback.format_exception(x)).rstrip()
    members = {} if isinstance(x, BaseExceptionGroup) else {k: v for k, v in _members(x).items() if v is not None}
    return "exception", *_named(kind), x.args, {**members, **_state(x)}, told


def _exception(module, name, args, state, told):
    kind = _class(module, name, _is_exception, "the exception")
    made = _blank(kind, args)
    made.args = args
    _set_state(made, state)
    if told:
        made.__notes__ = [*state.get("__notes__", ()), told]
    return made


def apart(x):
    """A tuple of plain data and tensors, or None: a queue does not carry this."""
    kind = type(x)
    if kind is OrderedDict:
        return "OrderedDict", dict(x), vars(x)
    if kind is set or kind is frozenset:
        return kind.__name__, list(x)
    if kind.__module__ == "numpy" and hasattr(x, "tobytes"):
        return "numpy", x.dtype.str, x.tobytes()
    if kind is _C.Size:
        return "Size", tuple(x)
    if _is_namedtuple(kind):
        return "namedtuple", *_named(kind), kind._fields, tuple(x), vars(x) if hasattr(x, "__dict__") else {}
    if dataclasses.is_dataclass(kind):
        return "dataclass", *_named(kind), tuple(f.name for f in dataclasses.fields(kind)), _state(x)
    if _is_enum(kind):
        named = x.name in kind.__members__  # not so of flags that were put together
        return "enum", *_named(kind), named, x.name if named else x.value
    return _exception_apart(x) if isinstance(x, BaseException) else _value_apart(x)


def _same(kind, ours, theirs):
    if ours != theirs:
        raise _C.NotFound(f"the item holds a {kind.__module__}.{kind.__qualname__} with the fields {', '.join(theirs)}; here it has {', '.join(ours)}")


def _ordered(items, attributes):
    made = OrderedDict(items)
    vars(made).update(attributes)
    return made


def _numpy(dtype, data):
    if "numpy" not in sys.modules:
        import numpy  # noqa: F401 - so that the number is of its type, as it was
    return sys.modules["numpy"].frombuffer(data, dtype, 1)[0]


def _namedtuple(module, name, fields, values, attributes):
    kind = _class(module, name, _is_namedtuple, "a namedtuple")
    _same(kind, kind._fields, fields)
    made = tuple.__new__(kind, values)
    _set_state(made, attributes)
    return made


def _dataclass(module, name, fields, state):
    kind = _class(module, name, dataclasses.is_dataclass, "an object of the dataclass")
    _same(kind, tuple(f.name for f in dataclasses.fields(kind)), fields)
    made = object.__new__(kind)
    _set_state(made, state)
    return made


def _enum(module, name, named, which):
    kind = _class(module, name, _is_enum, "a value of the enum")
    if named and which not in kind.__members__:
        raise _C.NotFound(f"the item holds {module}.{name}.{which}, which that enum does not have here")
    return kind.__members__[which] if named else kind(which)


# ---- what files of torch.save() hold beside that (client/files/load.c)


def _device(kind, index=None):
    """A device that is here; of another its name."""
    text = kind if index is None else f"{kind}:{index}"
    try:
        return _C.device(text)
    except _C.Error:
        return text


def _parameter(x):
    return sys.modules["tensord"].nn.Parameter(x, requires_grad=x.requires_grad)


_MAKERS = {"OrderedDict": _ordered, "set": set, "frozenset": frozenset, "numpy": _numpy, "namedtuple": _namedtuple, "dataclass": _dataclass, "enum": _enum,
           "exception": _exception, "Size": _C.Size, "device": lambda parts: _device(*parts), "dtype": lambda name: getattr(_C, name), "Parameter": _parameter}


def together(parts):
    """What apart() took apart; errors of Python when another program put something else."""
    name = parts[0]
    if name not in _VALUES:
        return _MAKERS[name](*parts[1:])
    module, _, make = _VALUES[name]
    return make(getattr(importlib.import_module(module), name), *parts[1:])


# ---- where in an item something is wrong

# What the parts of a kind are to who has the object: its keys, attributes, elements, fields (by the names before them), arguments.
_INSIDE = {("OrderedDict", 1): "{key}", ("OrderedDict", 2): ".{name}", ("set", 1): "in", ("frozenset", 1): "in", ("namedtuple", 4): ".{field}",
           ("namedtuple", 5): ".{name}", ("dataclass", 4): ".{name}", ("enum", 4): ".value", ("exception", 3): ".args[{name}]", ("exception", 4): ".{name}",
           ("deque", 1): "{key}", ("Counter", 1): "{key}", ("time", 5): ".tzinfo", ("datetime", 8): ".tzinfo"}
_MOST_STEPS = 10


def _key(key):
    text = '"' + key.replace('"', '\\"') + '"' if type(key) is str else repr(key)
    return f"[{text if len(text) <= 60 else text[:57] + '...'}]"


def _inside(kind, part, steps, parts):
    """The step to what lies in a part of an object, which may be one step further."""
    form = _INSIDE.get((kind, part), "")
    if form in ("", ".value", ".tzinfo"):
        return form
    way, name = steps.pop(0) if steps else ("into", "")
    if way == "key" or form == "in":
        return way if way == "key" else form
    return form.format(key=_key(name), name=name, field=parts[3][name] if form == ".{field}" else "")


def place(steps):
    """A path as one would write it, item["a"][3].b, of the steps from the outside in: ("into", an index or a key), ("key", None) of what is a key
    itself, ("parts", what apart() made)."""
    steps, path, before = list(steps), ["item"], ""
    while steps and not before:
        way, what = steps.pop(0)
        if way == "parts":
            part = steps.pop(0)[1] if steps else 0
            step = _inside(what[0], part, steps, what)
        else:
            step = "key" if way == "key" else _key(what)
        before = {"key": "a key of ", "in": "an element of "}.get(step, "")
        path.append("" if before else step)
    return before + "".join(path if len(path) <= _MOST_STEPS else [*path[:_MOST_STEPS], "..."])


def say_where(error, steps):
    """The error's text says where in the item it is."""
    where = f" (at {place(steps)})"
    if len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (error.args[0] + where,)
    else:
        error.add_note(where.strip())
