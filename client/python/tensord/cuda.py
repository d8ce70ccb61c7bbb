"""What programs ask before they choose a device: there is no CUDA here."""

import typing as _typing

from tensord import _absent


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing, as in a PyTorch that sees no device."""


def empty_cache() -> None:
    """Nothing, as in a PyTorch that sees no device."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no device to seed. tensord.manual_seed() seeds the one there is."""

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.cuda")
