"""What queues carry beyond plain data: taken apart into plain data and tensors, and put together again where it arrives.

A class goes by its name, and is looked for among the modules that the receiver has imported: nothing is imported, and no code of a class is
run, for what a queue brings (but that of __eq__ and __hash__, in sets). The first thing of what is taken apart says which kind it is.
"""

import dataclasses
import enum
import sys
from collections import Counter, OrderedDict

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
    return None


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
           "Counter": Counter, "Size": _C.Size, "bytearray": bytearray, "device": lambda parts: _device(*parts), "dtype": lambda name: getattr(_C, name),
           "Parameter": _parameter}


def together(parts):
    """What apart() took apart; errors of Python when another program put something else."""
    return _MAKERS[parts[0]](*parts[1:])
