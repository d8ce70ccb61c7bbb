"""What programs ask of torch.compiler: nothing is compiled behind a program's back, so these say so, or do nothing. tensord.jit makes programs of functions."""

import contextlib
import typing as _typing

from tensord.core import _absent
from tensord._settings import compile

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting",
           "list_backends", "reset", "set_stance"]


def is_compiling() -> bool:
    """False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: _typing.Any = None, recursive: bool = True, *, reason: _typing.Any = None) -> _typing.Any:
    """The function as it is; without one, a decorator that leaves it so."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: _typing.Any) -> _typing.Any:
    """The function as it is."""
    return fn


assume_constant_result = allow_in_graph


def reset() -> None:
    """Nothing."""


cudagraph_mark_step_begin = reset


def list_backends(exclude_tags: _typing.Any = ()) -> "list[str]":
    """[]"""
    return []


def set_stance(stance: str = "default", **options: _typing.Any) -> _typing.Any:
    """Nothing, also as a block or a decorator."""
    return _Nothing()


class _Nothing(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
