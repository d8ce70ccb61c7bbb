"""What modules write for torch.fx, at their top: marks. Nothing is traced symbolically here; tensord.jit.trace() makes a program of what runs."""

import typing as _typing

from tensord.core import _absent

__all__ = ["wrap"]


def wrap(fn_or_name: _typing.Any) -> _typing.Any:
    """What it is given: a function, or the name of one."""
    return fn_or_name


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
