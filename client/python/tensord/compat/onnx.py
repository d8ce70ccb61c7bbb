"""Imported by programs that can write ONNX files when they are told to: they are not written here. tensord.jit.save() writes TorchScript, which torch.onnx reads."""

import typing as _typing

from tensord.core import _absent

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False."""
    return False


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
