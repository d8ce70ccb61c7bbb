"""What programs ask before they choose a device, and of a GPU's memory. The GPUs are the daemon's: nothing here opens a driver."""

import functools as _functools
import sys as _sys
import types as _types
import typing as _typing

from tensord import amp as _amp
from tensord import _C
from tensord.core import _absent
from tensord._C import OutOfMemory as OutOfMemoryError


def is_available() -> bool:
    """Has the daemon a GPU?"""
    return device_count() > 0


def device_count() -> int:
    """How many GPUs it has."""
    return sum(d.type == "cuda" for d in _C._devices())


def _row(device: _typing.Any) -> dict[str, _typing.Any]:
    """What the daemon says of a GPU: a number, a device or its name; None is the first one."""
    text = "cuda:0" if device is None else f"cuda:{device}" if isinstance(device, int) else str(_C.device(device))
    for row in _C.status("devices") if text.startswith("cuda") else ():
        if row["device"] == text:
            return row
    raise _C.Unsupported(f"the daemon has no GPU {text!r}; tensord.cuda.device_count() says how many there are")


def get_device_name(device: _typing.Any = None) -> str:
    """Its name. It is known from the first tensor there on, so one is made."""
    return _row(device)["name"] or (_C.empty((1,), device=_row(device)["device"]), _C.sync(), _row(device)["name"])[2]


def memory_allocated(device: _typing.Any = None) -> int:
    """Bytes that all sessions' tensors have there."""
    _C.sync()
    return _row(device)["bytes_used"]


def mem_get_info(device: _typing.Any = None) -> tuple[int, int]:
    """(bytes that tensors may still take there, bytes that they may take in all). The GPU's size is known from the first tensor there on."""
    _C.sync()
    row = _row(device)
    return row["bytes_limit"] - row["bytes_used"], row["bytes_limit"]


def synchronize(device: _typing.Any = None) -> None:
    """Wait until all that this process has asked for is done, and raise what failed."""
    _C.sync()


def manual_seed(seed: int) -> None:
    """Nothing: tensord.manual_seed() seeds all devices."""


def empty_cache() -> None:
    """Nothing: the daemon keeps memory for all of its sessions."""


def manual_seed_all(seed: int) -> None:
    """Nothing: tensord.manual_seed() seeds all devices."""


def _amp_of_cuda():
    """tensord.cuda.amp: the names of torch.cuda.amp, of tensors on a GPU. Where there is none they do nothing, and say so when they were to be on."""
    def autocast(enabled: bool = True, dtype: _typing.Any = None, cache_enabled: bool = True) -> _amp.autocast:
        return _amp.autocast("cuda", dtype, enabled, cache_enabled)

    def GradScaler(*args: _typing.Any, **kwargs: _typing.Any) -> _amp.GradScaler:
        return _amp.GradScaler("cuda", *args, **kwargs)

    module = _types.ModuleType("tensord.cuda.amp", _amp_of_cuda.__doc__)
    module.__dict__.update(autocast=autocast, GradScaler=GradScaler, custom_fwd=_functools.partial(_amp.custom_fwd, device_type="cuda"),
                           custom_bwd=_functools.partial(_amp.custom_bwd, device_type="cuda"))
    _sys.modules[module.__name__] = module
    return module


amp = _amp_of_cuda()

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.cuda")
