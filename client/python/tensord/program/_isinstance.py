"""td.jit.isinstance(): what of it Python sees; programs decide it by types, while they are made."""
import builtins
import types
import typing
from typing import Any

from tensord import _C


def _is(obj, kind) -> bool:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if builtins.isinstance(kind, tuple):
        return any(_is(obj, k) for k in kind)
    if kind is Any:
        return True
    if kind is None:
        return obj is None
    if origin in (typing.Union, types.UnionType):
        return any(_is(obj, k) for k in parts)
    if kind in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple):
        raise RuntimeError(f"isinstance(): {getattr(kind, '__name__', kind)} of a program says of what: list[int], dict[str, int], tuple[int, str]")
    if origin is list:
        return builtins.isinstance(obj, list) and all(_is(x, parts[0]) for x in obj)
    if origin is dict:
        return builtins.isinstance(obj, dict) and all(_is(k, parts[0]) and _is(v, parts[1]) for k, v in obj.items())
    if origin is tuple:
        return builtins.isinstance(obj, tuple) and len(obj) == len(parts) and all(map(_is, obj, parts))
    return _C.is_tensor(obj) if getattr(kind, "__name__", "") == "Tensor" else builtins.isinstance(obj, kind)


def isinstance(obj: Any, target_type: Any) -> bool:
    """Is it of this type, items included: td.jit.isinstance(x, list[td.Tensor])? A program decides it by the type that the value has in it,
    and knows what it is behind the test."""
    return _is(obj, target_type)
