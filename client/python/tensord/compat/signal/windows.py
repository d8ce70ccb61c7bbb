"""Windows, with the names and arguments of torch.signal.windows: M places, sym=False for the first M of a window of M + 1.

All are computed in float64 and then rounded, so every dtype has the nearest numbers.
"""

import math
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall"]


def _made(name, M, sym, kw, make):
    """make(places 0 to M - 1, the last place of the window), of a dtype and on a device; one place is 1."""
    dtype = kw.pop("dtype", None) or _C.get_default_dtype()
    device, requires_grad = kw.pop("device", None), kw.pop("requires_grad", False)
    kw.pop("layout", None)
    if kw:
        raise _C.DTypeError(f"{name}() got an unexpected keyword argument '{next(iter(kw))}'")
    if dtype not in (_C.float32, _C.float64):
        raise _C.InvalidError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if not hasattr(M, "__index__") or M < 0:
        raise _C.InvalidError(f"{name} requires non-negative window length, got M={M}")

    def made():
        if M < 2:
            return ops.make_full((M,), 1.0, dtype)
        return make(ops.arange(0, M, 1, _C.float64), M - 1 if sym else M).to(dtype)

    return _overloads._made(device, requires_grad, made)


def _parameter(name, what, value):
    if value <= 0:
        raise _C.InvalidError(f"{what} must be positive, got: {value} instead.")


def exponential(M: int, *, center: Any = None, tau: float = 1.0, sym: bool = True, **kw: Any) -> Tensor:
    """exp(-|n - center| / tau)."""
    _parameter("exponential", "Tau", tau)
    if sym and center is not None:
        raise _C.InvalidError("Center must be None for symmetric windows")
    return _made("exponential", M, sym, kw, lambda n, last: ops.exp(ops.abs(n - (last / 2 if center is None else center)) / -tau))


def cosine(M: int, *, sym: bool = True, **kw: Any) -> Tensor:
    """Half a wave of a sine."""
    return _made("cosine", M, sym, kw, lambda n, last: ops.sin((n + 0.5) * (math.pi / (last + 1))))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **kw: Any) -> Tensor:
    """A normal curve around the middle."""
    _parameter("gaussian", "Standard deviation", std)
    return _made("gaussian", M, sym, kw, lambda n, last: ops.exp(ops.square((n - last / 2) / std) * -0.5))


def _log_bessel(x, terms):
    """The logarithms of the terms (x / 2)^2k / k!^2 of the modified Bessel function of order 0 for numbers x."""
    return [2 * k * math.log(x / 2) - 2 * math.lgamma(k + 1) if x > 0 else (0.0 if k == 0 else -math.inf) for k in range(terms)]


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **kw: Any) -> Tensor:
    """I0(beta sqrt(1 - x x)) / I0(beta), x from -1 to 1."""
    if beta < 0:
        raise _C.InvalidError(f"beta must be non-negative, got: {beta} instead.")

    def make(n, last):
        terms = int(1.5 * beta) + 40
        logs = _log_bessel(beta, terms)
        top = max(logs)
        whole = top + math.log(sum(math.exp(v - top) for v in logs))
        place = n * (2 / last) - 1
        inside = ops.clamp(1 - ops.square(place), 1e-300, None)  # of the square: I0 has even powers only
        powers = ops.unsqueeze(ops.log(inside), 1) * ops.arange(0, terms, 1, _C.float64)
        return ops.sum(ops.exp(powers + (_C.tensor(logs, dtype=_C.float64) - whole)), (1,))

    return _made("kaiser", M, sym, kw, make)


def general_cosine(M: int, *, a: Any, sym: bool = True, **kw: Any) -> Tensor:
    """A sum of cosines, of 0, 1, 2, ... waves, with signs in turn."""
    if not isinstance(a, (list, tuple)):
        raise _C.DTypeError(f"general_cosine(): Coefficients must be a list/tuple, not {_C._a_type(a)}")
    a = [float(v) for v in a]
    if not a:
        raise _C.InvalidError("Coefficients cannot be empty")

    def make(n, last):
        total = ops.make_full((M,), a[0], _C.float64)
        for i, v in enumerate(a[1:], 1):
            total = total + ops.cos(n * (2 * math.pi * i / last)) * (v * (-1) ** i)
        return total

    return _made("general_cosine", M, sym, kw, make)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **kw: Any) -> Tensor:
    """alpha - (1 - alpha) cos."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **kw)


def hamming(M: int, *, sym: bool = True, **kw: Any) -> Tensor:
    """0.54 - 0.46 cos."""
    return general_hamming(M, sym=sym, **kw)


def hann(M: int, *, sym: bool = True, **kw: Any) -> Tensor:
    """0.5 - 0.5 cos."""
    return general_hamming(M, alpha=0.5, sym=sym, **kw)


def blackman(M: int, *, sym: bool = True, **kw: Any) -> Tensor:
    """0.42 - 0.5 cos + 0.08 cos of two waves."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **kw)


def nuttall(M: int, *, sym: bool = True, **kw: Any) -> Tensor:
    """Of four cosines, with low side lobes."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **kw)


def bartlett(M: int, *, sym: bool = True, **kw: Any) -> Tensor:
    """A triangle with zeros at its ends."""
    return _made("bartlett", M, sym, kw, lambda n, last: 1 - ops.abs(n * (2 / last) - 1))


# ---- tensord.NAME_window: periodic unless told otherwise, and of halves too


def _periodic(window, M, periodic, kw, **more):
    dtype, requires_grad = kw.get("dtype"), kw.pop("requires_grad", False)
    half = dtype in (_C.float16, _C.bfloat16)
    made = window(M, sym=not periodic, **more, **({**kw, "dtype": _C.float64} if half else kw))
    return _overloads._leaf(made.to(dtype) if half else made, requires_grad)


def hann_window(window_length: int, periodic: bool = True, **kw: Any) -> Tensor:
    """0.5 - 0.5 cos."""
    return _periodic(hann, window_length, periodic, kw)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **kw: Any) -> Tensor:
    """alpha - beta cos."""
    return _periodic(general_cosine, window_length, periodic, kw, a=[alpha, beta])


def blackman_window(window_length: int, periodic: bool = True, **kw: Any) -> Tensor:
    """0.42 - 0.5 cos + 0.08 cos of two waves."""
    return _periodic(blackman, window_length, periodic, kw)


def bartlett_window(window_length: int, periodic: bool = True, **kw: Any) -> Tensor:
    """A triangle with zeros at its ends."""
    return _periodic(bartlett, window_length, periodic, kw)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **kw: Any) -> Tensor:
    """I0(beta sqrt(1 - x x)) / I0(beta), x from -1 to 1."""
    return _periodic(kaiser, window_length, periodic, kw, beta=beta)
