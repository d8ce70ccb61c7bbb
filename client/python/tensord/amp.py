"""Mixed precision, with the names of torch.amp: ops that gain by it compute in a half type, others in float32, and losses are scaled so that small gradients survive.

    scaler = td.amp.GradScaler("cpu")                     # for float16; bfloat16 needs none
    with td.autocast("cpu", dtype=td.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

Products, convolutions and attention take bfloat16 (or float16), losses, transforms and factorisations float32, cat and stack the widest of what they are
given; all others compute in the dtypes that they are given, recurrent layers in float32 behind that. Weights stay float32, and so do their gradients.
"""

import functools
import math
import sys
import typing
import warnings
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from tensord import _C
from tensord.core import _aliases
from tensord._C import Tensor
from tensord.core._overloads import no_grad

__all__ = ["GradScaler", "autocast", "clear_autocast_cache", "custom_bwd", "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
           "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled"]
_set = {"cache": True}


def is_autocast_available(device_type: str) -> bool:
    """Is there anything to cast on it? On "cpu", and on "cuda" where the daemon has a GPU."""
    return device_type == "cpu" or device_type == "cuda" and any(d.type == "cuda" for d in _C._devices())


def is_autocast_enabled(device_type: Optional[str] = None) -> bool:
    """Is this thread inside of an autocast?"""
    return any(_C._autocast_dtype(gpu) is not None for gpu in (False, True) if device_type in (None, "cuda" if gpu else "cpu"))


def is_autocast_cpu_enabled() -> bool:
    """is_autocast_enabled("cpu"), by its older name."""
    return is_autocast_enabled("cpu")


def get_autocast_dtype(device_type: str = "cpu") -> Any:
    """What ops are cast to in here, or would be: bfloat16 on the cpu and float16 on "cuda", unless autocast was told otherwise."""
    return _C._autocast_dtype(True) or _C.float16 if device_type == "cuda" else _C._autocast_dtype() or _C.bfloat16


def get_autocast_cpu_dtype() -> Any:
    """get_autocast_dtype("cpu"), by its older name."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> Any:
    """get_autocast_dtype("cuda"), by its older name."""
    return get_autocast_dtype("cuda")


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keeps what is_autocast_cache_enabled() says: casts of the same weight are not kept."""
    _set["cache"] = bool(enabled)


def is_autocast_cache_enabled() -> bool:
    """What was set."""
    return _set["cache"]


def clear_autocast_cache() -> None:
    """Nothing: casts of the same weight are not kept."""


class autocast:
    """A context, or a decorator, in which ops choose the dtype they compute in.

        with td.autocast("cpu"):             # bfloat16
            y = model(x)

    device_type: "cpu", or "cuda" for tensors on a GPU; where there is none, and of another, the context does nothing, and warns. dtype: bfloat16 or float16. enabled=False: a part of an autocast in which nothing is
    cast. It holds in its thread, for what the thread asks for; a backward computes each gradient in the dtype of its forward. Casts of the same
    weight are not kept: cache_enabled changes nothing. A float64 is never cast, and a program (td.jit.script) computes as it was written.
    """

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: Optional[bool] = None):
        if not isinstance(device_type, str):
            raise _C.InvalidError(f"autocast(): device_type must be a str like 'cpu', not {type(device_type).__name__}")
        self.device, self._gpu = device_type, device_type == "cuda"
        self.fast_dtype = dtype or (_C.float16 if self._gpu else _C.bfloat16)
        if enabled and not is_autocast_available(device_type):
            warnings.warn(f"autocast(): there is no {device_type} here; nothing is cast. Say device_type='cpu'", stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            warnings.warn(f"autocast(): ops are cast to bfloat16 or float16, not to {self.fast_dtype}; nothing is cast", stacklevel=2)
            enabled = False
        self._enabled, self._before = bool(enabled), typing.cast(List[Any], [])

    def __enter__(self):
        self._before.append(_C._autocast(self.fast_dtype if self._enabled else None, self._gpu))
        return self

    def __exit__(self, *error: Any) -> None:
        _C._autocast(self._before.pop(), self._gpu)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled):
                return function(*args, **kwargs)
        return inside


def custom_fwd(fwd: Optional[Callable[..., Any]] = None, *, device_type: str = "cpu", cast_inputs: Any = None) -> Callable[..., Any]:
    """Of a function's forward (autograd.Function): custom_bwd() brings its backward into the same autocast. With cast_inputs, floating tensors are cast to that dtype, and
    nothing is cast inside."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def inside(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._autocast_dtype = _C._autocast_dtype(device_type == "cuda")
        if cast_inputs is None or ctx._autocast_dtype is None:
            return fwd(ctx, *args, **kwargs)
        ctx._autocast_dtype = None
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))
    return inside


def _cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != _C.float64 else value
    if isinstance(value, dict):
        return {k: _cast(v, dtype) for k, v in value.items()}
    return type(value)(_cast(v, dtype) for v in value) if isinstance(value, (list, tuple)) else value


def custom_bwd(bwd: Optional[Callable[..., Any]] = None, *, device_type: str = "cpu") -> Callable[..., Any]:
    """Of the backward that belongs to a custom_fwd()."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def inside(ctx: Any, *args: Any) -> Any:
        to = ctx._autocast_dtype
        with autocast(device_type, to, to is not None):
            return bwd(ctx, *args)
    return inside


class _Stage:
    """What one optimizer has had since the last update()."""

    def __init__(self) -> None:
        self.finite: Optional[Tensor] = None  # a mask without dimensions; None: not unscaled yet
        self.stepped = False


class GradScaler:
    """Scales losses before their backward, and gradients back before a step, which is left out when one of them is not finite.

    device: "cpu", or "cuda" where there is a GPU; of another the scaler is off, and warns. init_scale: the first factor, which is multiplied by growth_factor after growth_interval steps in a row with finite
    gradients, and by backoff_factor after a step without. enabled=False: scale() returns what it is given, and step() is optimizer.step().
    """

    def __init__(self, device: Union[str, Any] = "cpu", init_scale: float = 2.0 ** 16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True):
        if enabled and not is_autocast_available(str(device).split(":")[0]):
            warnings.warn(f"GradScaler(): there is no {device} here; the scaler is off. Say device='cpu'", stacklevel=2)
            enabled = False
        if growth_factor <= 1 or not 0 < backoff_factor < 1 or not init_scale > 0:
            raise _C.InvalidError(f"GradScaler(): growth_factor must be above 1, backoff_factor between 0 and 1 and init_scale above 0, but they are {growth_factor}, "
                                  f"{backoff_factor} and {init_scale}")
        self._enabled, self._scale = bool(enabled), float(init_scale)
        self._growth_factor, self._backoff_factor, self._growth_interval = float(growth_factor), float(backoff_factor), int(growth_interval)
        self._growth_tracker = 0
        self._stages: Dict[int, _Stage] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or those in lists and tuples, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(x) for x in outputs)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise _C.DTypeError(f"scale(): outputs must be a Tensor or an iterable of them, not {type(outputs).__name__}")

    def _stage(self, optimizer: Any) -> _Stage:
        return self._stages.setdefault(id(optimizer), _Stage())

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the factor, in place: to clip them, say. step() does it when nobody has."""
        if not self._enabled:
            return
        stage = self._stage(optimizer)
        if stage.stepped or stage.finite is not None:
            raise _C.InvalidError("unscale_() is being called after step()." if stage.stepped else "unscale_() has already been called on this optimizer since the last update().")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype == _C.float16 for g in grads):
            raise _C.InvalidError("Attempting to unscale FP16 gradients: parameters stay float32 in mixed precision, leave model.half() out")
        with no_grad():
            for g in grads:
                g.mul_(1.0 / self._scale)
            stage.finite = _C.stack([g.isfinite().all() for g in grads]).all() if grads else _C.tensor(True)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(*args, **kwargs) and what it returns, if all gradients are finite; else None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise _C.InvalidError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stage(optimizer)
        if stage.stepped:
            raise _C.InvalidError("step() has already been called since the last update().")
        if stage.finite is None:
            self.unscale_(optimizer)
        stage.stepped = True
        return optimizer.step(*args, **kwargs) if bool(stage.finite) else None

    def update(self, new_scale: Union[float, Tensor, None] = None) -> None:
        """The factor for the next losses: larger after many good steps, smaller after one that was left out; or `new_scale`."""
        if not self._enabled:
            return
        stages, self._stages = self._stages, {}
        if new_scale is not None:
            self._scale = float(new_scale)
            return
        finite = [stage.finite for stage in stages.values() if stage.finite is not None]
        if not finite:
            raise _C.InvalidError("No inf checks were recorded prior to update.")
        if not all(map(bool, finite)):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            self._scale, self._growth_tracker = grown if math.isfinite(grown) else self._scale, 0

    def get_scale(self) -> float:
        """The factor; 1.0 of one that is off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By which the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """By which the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By which the factor shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """By which the factor shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """So many good steps in a row let it grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """So many good steps in a row let it grow."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def state_dict(self) -> Dict[str, Any]:
        """What load_state_dict() goes on with; empty of one that is off."""
        if not self._enabled:
            return {}
        return {"scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
                "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on as the one did whose state_dict() this is."""
        if not self._enabled:
            return
        if not state_dict:
            raise _C.InvalidError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._scale, self._growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor, self._growth_interval = (state_dict[k] for k in ("growth_factor", "backoff_factor", "growth_interval"))


_aliases.put(__name__, sys.modules[__name__], {"grad_scaler": "GradScaler", "autocast_mode": "autocast custom_bwd custom_fwd is_autocast_available"})
