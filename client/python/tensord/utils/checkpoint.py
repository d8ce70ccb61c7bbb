"""Memory for time: what a function computes is not kept for a backward, but computed again by it. The names of torch.utils.checkpoint."""

import contextlib
import typing as _typing
import warnings
from typing import Any, Callable, Iterable, Optional, Sequence

from tensord import _C
from tensord.core import _absent
from tensord.core._overloads import _flag


class CheckpointError(_C.Error):
    """What PyTorch raises when a function gives other tensors the second time. Here it is called once, so nothing raises it."""


def noop_context_fn():
    """Two contexts that do nothing: the default of `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """A block; nothing changes in it, as a backward runs those ops again that it needs."""
    _flag(enable, "set_checkpoint_early_stop", "enable")
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """A block for False or None. Raises Unsupported for True: the same ops run again, so there is nothing to look for."""
    _refuse(None, "default", bool(enabled))
    yield


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """A warning when none of these requires grad."""
    if not any(_C.is_tensor(x) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def detach_variable(inputs: "tuple[Any, ...]") -> "tuple[Any, ...]":
    """Tensors detached, but requiring grad as they did; other things as they are. Raises Error for what is no tuple."""
    if not isinstance(inputs, tuple):
        raise _C.Error(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if _C.is_tensor(x) else x for x in inputs)


def get_device_states(*args: Any) -> "tuple[list[int], list[Any]]":
    """([], []): random numbers are the session's, and a checkpoint has them by itself."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: Any = None) -> None:
    """Nothing, see get_device_states()."""


class _Region:
    """What this thread asks for in here lies in a checkpoint."""

    def __enter__(self):
        _C._checkpoint(True)

    def __exit__(self, *error):
        _C._checkpoint(False)


def _refuse(context_fn, determinism_check, debug):
    if context_fn is not None and context_fn is not noop_context_fn:
        raise _C.Unsupported("checkpoint(): argument 'context_fn' is not there: the daemon runs the ops again, not the function. Enter contexts inside the function")
    if determinism_check not in ("default", "none"):
        raise _C.InvalidError(f"checkpoint(): determinism_check must be 'default' or 'none', not {determinism_check!r}: the same ops run again, so there is nothing to check")
    if debug is not False and debug is not None:
        raise _C.Unsupported("checkpoint(): argument 'debug' is not there: the same ops run again")


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: Optional[bool] = None, preserve_rng_state: bool = True, context_fn: Any = None,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs), of which nothing is kept for a backward but what it began with: a backward runs its ops again.

        for block in model.blocks:
            x = td.checkpoint(block, x)         # keeps x; inside of the block one block's values are there at a time

    The values, the random numbers and the gradients are those without it, to the last bit. The daemon runs the ops that the function asked for, with
    the random numbers that they had; the function itself is called once. So it may take and return what it likes, print, and look at values; what it writes to what was
    there before (running statistics) is written once. What an op gave whose shape depends on values (nonzero, masked_select) is kept.

    use_reentrant, preserve_rng_state and early_stop may be given as in PyTorch, and change nothing: parameters that the function uses get their gradients
    whether an argument requires grad or not, and random numbers are always the same. Raises VersionError in a backward when what the function began with
    was overwritten since.
    """
    for name, value in (("preserve_rng_state", preserve_rng_state), ("early_stop", early_stop), ("use_reentrant", False if use_reentrant is None else use_reentrant)):
        _flag(value, "checkpoint", name)
    _refuse(context_fn, determinism_check, debug)
    if not callable(function):
        raise _C.DTypeError(f"checkpoint(): argument 'function' must be callable, not {type(function).__name__}")
    if not _C.is_grad_enabled():
        return function(*args, **kwargs)
    with _Region():
        return function(*args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: Optional[bool] = None, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """One function after the other, in `segments` checkpoints; the last of them is none, as its values are needed at once.

        y = checkpoint_sequential(td.nn.Sequential(...), 4, x)

    Other arguments (determinism_check, debug, early_stop, ...) are those of checkpoint().
    """
    parts: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not isinstance(segments, int) or isinstance(segments, bool) or not 1 <= segments <= len(parts):
        raise _C.InvalidError(f"checkpoint_sequential(): segments must be a whole number from 1 to {len(parts)}, the number of functions; not {segments!r}")

    def run(first, last, x):
        for part in parts[first:last]:
            x = part(x)
        return x

    size, begin = len(parts) // segments, 0
    for _ in range(segments - 1):
        input = checkpoint(run, begin, begin + size, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state, **kwargs)
        begin += size
    return run(begin, len(parts), input)


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
