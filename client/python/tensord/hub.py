"""Imported by programs that can fetch weights: nothing is fetched here. tensord.load() reads the file that was."""

import typing as _typing

from tensord import _absent

__all__: "list[str]" = []


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
