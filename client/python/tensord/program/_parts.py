"""Parts of a program's file: what save() writes of each program (Part), the state of a module, and values as JSON has them."""
import inspect
import math
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

from tensord import _C

if TYPE_CHECKING:
    from tensord.nn import Module


class Part(NamedTuple):
    """A program as a file has it."""

    name: str
    graph: str
    captured: "dict[str, _C.Tensor]"
    call: "dict[str, Any] | None" = None


def _places(module: "Module", prefix="") -> "Iterator[tuple[str, Module]]":
    """Modules by all names that they have."""
    yield prefix, module
    for name, part in module._modules.items():
        if part is not None:
            yield from _places(part, f"{prefix}{name}.")


def state_of(module: "Module") -> "dict[str, _C.Tensor]":
    """What state_dict() has, the very tensors."""
    return {place + name: value for place, part in _places(module) for home in (part._parameters, part._buffers) for name, value in home.items()
            if value is not None and not (home is part._buffers and name in part._transient)}


def transient_of(module: "Module") -> "list[str]":
    """The names of buffers that are not part of the state."""
    return [place + name for place, part in _places(module) for name in part._transient if part._buffers.get(name) is not None]


class _NoJson(Exception):
    pass


def packed(value):
    """A default or a state as JSON, which knows neither tuples, keys that are numbers, nor numbers that are none."""
    if isinstance(value, (list, tuple)):
        items = [packed(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {"dict": [packed(x) for pair in value.items() for x in pair]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise _NoJson


def unpacked(value):
    """The value that packed() made this of."""
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        words = [unpacked(x) for x in value["dict"]]
        return dict(zip(words[::2], words[1::2]))
    return float(value["float"]) if "float" in value else tuple(unpacked(item) for item in value["tuple"])


def call_of(signature: inspect.Signature, named=None) -> "dict[str, Any]":
    """The names of parameters, the defaults that a file can hold, and the named tuples that it gives."""
    defaults = {}
    for name, p in signature.parameters.items():
        if p.default is not p.empty:
            try:
                defaults[name] = packed(p.default)
            except _NoJson:
                pass
    return {"names": list(signature.parameters), "defaults": defaults, **({} if named is None else {"named": named})}


def state_words(name, value):
    """A state in the record of a call: a tensor of the file by its name, or a value."""
    if _C.is_tensor(value):
        return {"name": name, "tensor": name}
    try:
        return {"name": name, "value": packed(value)}
    except _NoJson:
        raise _C.Unsupported(f"save(): the state '{name}' of the program is neither a tensor nor numbers, texts, lists and dicts of such") from None
