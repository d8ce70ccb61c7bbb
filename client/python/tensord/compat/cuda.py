"""What programs ask before they choose a device: there is no CUDA here."""

import sys as _sys
import types as _types
import typing as _typing

from tensord import amp as _amp
from tensord.core import _absent
from tensord._C import OutOfMemory as OutOfMemoryError


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


def _amp_of_cuda():
    """tensord.cuda.amp: the names of torch.cuda.amp, which do nothing here, and say so when they were to be on."""
    def autocast(enabled: bool = True, dtype: _typing.Any = None, cache_enabled: bool = True) -> _amp.autocast:
        return _amp.autocast("cuda", dtype, enabled, cache_enabled)

    def GradScaler(*args: _typing.Any, **kwargs: _typing.Any) -> _amp.GradScaler:
        return _amp.GradScaler("cuda", *args, **kwargs)

    module = _types.ModuleType("tensord.cuda.amp", _amp_of_cuda.__doc__)
    module.__dict__.update(autocast=autocast, GradScaler=GradScaler, custom_fwd=_amp.custom_fwd, custom_bwd=_amp.custom_bwd)
    _sys.modules[module.__name__] = module
    return module


amp = _amp_of_cuda()

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.cuda")
