"""What programs ask before they choose a device: an accelerator is a GPU of the daemon's. What they ask about memory is answered for this process's session, in the
memory that the daemon shares."""
from typing import Any, Optional

from tensord import _C
from tensord.cuda import device_count as device_count, is_available as is_available


def current_accelerator(check_available: bool = False) -> Optional[_C.device]:
    """device("cuda") where the daemon has a GPU, or None."""
    return _C.device("cuda") if is_available() else None


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes that this process's session holds now: storages, what calls under way work with, and graphs."""
    return _memory("memory")["bytes"]


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most that memory_allocated() was, since the session began or reset_peak_memory_stats()."""
    return _memory("memory")["peak_bytes"]


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """max_memory_allocated() begins anew, with what is held now."""
    _memory("memory_anew")


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """Both, under PyTorch's names: "allocated_bytes.all.current" and "allocated_bytes.all.peak"."""
    now = _memory("memory")
    return {"allocated_bytes.all.current": now["bytes"], "allocated_bytes.all.peak": now["peak_bytes"]}


def _memory(what: str) -> dict[str, Any]:
    _C.sync()  # what this process has let go of is back
    return _C.status(what)[0]
