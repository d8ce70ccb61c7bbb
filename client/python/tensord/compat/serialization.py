"""save() and load() by the names of torch.serialization, and what programs set of it.

A file makes tensors, numbers, texts and containers of them. Of other objects load() makes those whose classes and functions are in the list of safe globals, and
all with weights_only=False.
"""

import contextlib
import enum
import typing as _typing
from typing import Any

from tensord import _C
from tensord.core import _absent
from tensord.files._save import load as load, save as save

__all__ = ["LoadEndianness", "add_safe_globals", "clear_safe_globals", "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
           "get_safe_globals", "load", "safe_globals", "save", "set_default_load_endianness"]

MAP_LOCATION: Any = "_typing.Callable[[Any, str], Any] | _C.device | str | dict[str, str] | None"  # what load() takes, for annotations

_safe: list = []


class LoadEndianness(enum.Enum):
    """Which end of a number stands first in files that do not say so."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> "LoadEndianness | None":
    """None: files are read as they say, or with the low end first."""
    return None


def set_default_load_endianness(endianness: Any) -> None:
    """Nothing for None, NATIVE and LITTLE, which is how files are read. Raises Unsupported for BIG, DTypeError for what is none of them."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise _C.DTypeError("Invalid argument type in function set_default_load_endianness")
    if endianness is LoadEndianness.BIG:
        raise _C.Unsupported("set_default_load_endianness(): files with the high end first are read when they say so")


def get_crc32_options() -> bool:
    """True: sums of what is written stand beside it."""
    return True


def get_default_mmap_options() -> int:
    """MAP_PRIVATE: what is written to a loaded tensor is not written to its file."""
    return 2


def add_safe_globals(safe_globals: "list[Any]") -> None:
    """Some more for the list: objects, or (object, "module.name") of one that files have under another name."""
    for x in safe_globals:
        if isinstance(x, tuple) and not (len(x) == 2 and isinstance(x[1], str)):
            raise _C.DTypeError(f"add_safe_globals(): an object, or a pair (object, 'module.name'), not {x!r}")
    _safe.extend(x for x in safe_globals if x not in _safe)


def get_safe_globals() -> "list[Any]":
    """The list."""
    return list(_safe)


def clear_safe_globals() -> None:
    """An empty list."""
    _safe.clear()


@contextlib.contextmanager
def _for_a_block(more):
    before = list(_safe)
    add_safe_globals(more)
    try:
        yield
    finally:
        _safe[:] = before


def safe_globals(safe_globals: "list[Any]") -> Any:
    """A block with some more in the list."""
    return _for_a_block(safe_globals)


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
