"""What programs set of PyTorch's way to compute. Here most of it has been decided: the daemon's threads compute, results are the same in every run, float32 is
computed in float32. So these keep what was set and give it back, check it as PyTorch does, and change no result.
"""

import warnings
from typing import Any

from tensord import _C

__all__ = ["are_deterministic_algorithms_enabled", "compile", "get_deterministic_debug_mode", "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
           "is_deterministic_algorithms_warn_only_enabled", "is_inference", "is_inference_mode_enabled", "is_warn_always_enabled", "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
           "set_num_interop_threads", "set_num_threads", "set_warn_always", "use_deterministic_algorithms"]

_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")
_set: "dict[str, Any]" = {"debug": 0, "precision": "highest", "warn_always": False}


# ---- threads


def _workers() -> int:
    return next(row["value"] for row in _C.status() if row["key"] == "workers")


def _positive(function: str, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int):
        raise _C.DTypeError(f"{function}() expects an int, but got {type(n).__name__}")
    if n < 1:
        raise _C.InvalidError(f"{function}() expects a positive integer, not {n}")
    return n


def get_num_threads() -> int:
    """How many threads compute for all clients together: the daemon's workers; or what set_num_threads() said."""
    return _set.get("threads") or _workers()


def set_num_threads(n: int) -> None:
    """Keeps the number for get_num_threads(). How many threads compute is the daemon's affair, as they are everybody's: `tensord --workers N`."""
    _set["threads"] = _positive("set_num_threads", n)


def get_num_interop_threads() -> int:
    """How many ops may run beside each other: the daemon's workers; or what set_num_interop_threads() said."""
    return _set.get("interop") or _workers()


def set_num_interop_threads(n: int) -> None:
    """Keeps the number for get_num_interop_threads(); see set_num_threads()."""
    _set["interop"] = _positive("set_num_interop_threads", n)


# ---- the same results


def set_deterministic_debug_mode(debug_mode: "int | str") -> None:
    """Keeps 0, 1 or 2, or "default", "warn" or "error". Nothing warns or fails: results are the same in every run, however many threads compute."""
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise _C.InvalidError(f"debug_mode is one of {', '.join(map(repr, _MODES))}, not {debug_mode!r}")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise _C.InvalidError(f"debug_mode is 0, 1 or 2, not {debug_mode!r}")
    _set["debug"] = int(debug_mode)


def get_deterministic_debug_mode() -> int:
    """What was set: 0, 1 or 2."""
    return _set["debug"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """set_deterministic_debug_mode("error"), or "warn" with warn_only, or "default" when mode is False. Results are the same in every run anyway."""
    set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether use_deterministic_algorithms() asked for them."""
    return _set["debug"] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it asked with warn_only."""
    return _set["debug"] == 1


# ---- modes


def is_inference(input: "_C.Tensor") -> bool:
    """Was it made in inference mode? As input.is_inference()."""
    return input.is_inference()


def is_inference_mode_enabled() -> bool:
    """Is this thread inside of an inference_mode()?"""
    before = _C._set_inference(False)
    _C._set_inference(before)
    return bool(before)


def set_warn_always(b: bool) -> None:
    """Keeps what is_warn_always_enabled() says. Warnings go through Python's warnings, whose filters decide how often one is shown."""
    if not isinstance(b, bool):
        raise _C.DTypeError(f"set_warn_always() expects a bool, but got {type(b).__name__}")
    _set["warn_always"] = b


def is_warn_always_enabled() -> bool:
    """What was set."""
    return _set["warn_always"]


# ---- numbers


def set_float32_matmul_precision(precision: str) -> None:
    """Keeps "highest", "high" or "medium". Products of float32 are computed in float32, which is "highest", and satisfies them all."""
    if precision not in _PRECISIONS:
        raise _C.InvalidError(f"the precision is one of {', '.join(map(repr, _PRECISIONS))}, not {precision!r}")
    _set["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What was set."""
    return _set["precision"]


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are kept as they are, and cannot be flushed."""
    return False


def set_default_tensor_type(t: Any) -> None:
    """set_default_dtype() by a type: tensord.DoubleTensor or "torch.DoubleTensor"."""
    warnings.warn("set_default_tensor_type() is deprecated: set_default_dtype() and set_default_device() say the two things it says", UserWarning, stacklevel=2)
    dtype = _C.ops.empty([0], _C.float32).type(t).dtype
    _C.set_default_dtype(dtype)


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: "bool | None" = None, backend: Any = "inductor", mode: "str | None" = None,
            options: "dict[str, Any] | None" = None, disable: bool = False) -> Any:
    """The function or module as it is, whatever is asked for; without one, a decorator that leaves it so.

    Ops go to the daemon as they are, many at a time, and rows of small ones are known again. tensord.jit.script() makes a program of one function or module.
    """
    return model if model is not None else lambda function: function
