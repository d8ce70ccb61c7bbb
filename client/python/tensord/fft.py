"""Discrete Fourier transforms, with the names, arguments and errors of torch.fft.

    import tensord as td
    td.fft.rfft(td.ones(8)).abs()     # tensor([8., 0., 0., 0., 0.])

norm is 'backward' (the default: inverses are divided by the number of places), 'ortho' (all by its root) or 'forward' (transforms are divided).
"""

import math
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn", "rfftn", "irfftn",
           "hfftn", "ihfftn", "fftfreq", "rfftfreq", "fftshift", "ifftshift"]

_NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


def _norm(norm):
    if norm not in _NORMS:
        raise _C.InvalidError(f'Invalid normalization mode: "{norm}"')
    return _NORMS[norm]


def _stored(made, out):
    """Real results may be widened, though not to complex ones."""
    if out is not None and not made.is_complex() and _C.is_tensor(out) and out.is_complex():
        raise _C.DTypeError(f"fft: expected out to have a floating point dtype, but got {out.dtype}")
    return made if out is None else _overloads._into(made, out, "fft", made.is_complex())


def _dims(dim):
    return (dim,) if hasattr(dim, "__index__") else dim


def fft(input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None) -> Tensor:
    """The transform along a dimension, which is first cut or filled up with zeros to n places."""
    return _stored(ops.fft(input, n, dim, _norm(norm)), out)


def ifft(input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of fft."""
    return _stored(ops.ifft(input, n, dim, _norm(norm)), out)


def rfft(input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None) -> Tensor:
    """The first half, n // 2 + 1 places, of the transform of real numbers; the other half mirrors it."""
    return _stored(ops.rfft(input, n, dim, _norm(norm)), out)


def irfft(input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of rfft: n real numbers, 2 (m - 1) of m places unless n is given."""
    return _stored(ops.irfft(input, n, dim, _norm(norm)), out)


def hfft(input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None) -> Tensor:
    """The transform, real, of n places of which the second half mirrors the first; only that is given."""
    return _stored(ops.hfft(input, n, dim, _norm(norm)), out)


def ihfft(input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of hfft: the first half."""
    return _stored(ops.ihfft(input, n, dim, _norm(norm)), out)


def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None, *, out: Any = None) -> Tensor:
    """fft along two dimensions."""
    return _stored(ops.fft2(input, s, dim, _norm(norm)), out)


def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of fft2."""
    return _stored(ops.ifft2(input, s, dim, _norm(norm)), out)


def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None, *, out: Any = None) -> Tensor:
    """rfft along the last of two dimensions, fft along the other."""
    return _stored(ops.rfft2(input, s, dim, _norm(norm)), out)


def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of rfft2."""
    return _stored(ops.irfft2(input, s, dim, _norm(norm)), out)


def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None, *, out: Any = None) -> Tensor:
    """hfft along the last of two dimensions, fft along the other."""
    return _stored(ops.hfft2(input, s, dim, _norm(norm)), out)


def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of hfft2."""
    return _stored(ops.ihfft2(input, s, dim, _norm(norm)), out)


def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Tensor:
    """fft along several dimensions (none: the last ones that s has sizes for, else all)."""
    return _stored(ops.fftn(input, _dims(s), _dims(dim), _norm(norm)), out)


def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of fftn."""
    return _stored(ops.ifftn(input, _dims(s), _dims(dim), _norm(norm)), out)


def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Tensor:
    """rfft along the last of several dimensions, fft along the others."""
    return _stored(ops.rfftn(input, _dims(s), _dims(dim), _norm(norm)), out)


def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of rfftn."""
    return _stored(ops.irfftn(input, _dims(s), _dims(dim), _norm(norm)), out)


def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Tensor:
    """hfft along the last of several dimensions, fft along the others."""
    return _stored(ops.hfftn(input, _dims(s), _dims(dim), _norm(norm)), out)


def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Tensor:
    """The inverse of hfftn."""
    return _stored(ops.ihfftn(input, _dims(s), _dims(dim), _norm(norm)), out)


def _frequencies(name, parts, n, d, dtype, device, requires_grad, out):
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise _C.InvalidError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise _C.ShapeError(f"{name}(): n must be at least 0, not {n}")
    step = n * d
    exact = _C.float64 if dtype in (_C.float64, _C.complex128) else _C.float32

    def make():  # multiplied in the result's precision, as PyTorch does it
        places = _C.cat([ops.arange(*part, 1, exact) for part in parts])
        return places.mul(1.0 / step if step else math.copysign(math.inf, step)).to(dtype)

    return _stored(_overloads._made(device, requires_grad, make), out)


def fftfreq(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequency of each place of fft, for n samples d apart."""
    return _frequencies("fftfreq", [(0, (n + 1) // 2), (-(n // 2), 0)], n, d, dtype, device, requires_grad, out)


def rfftfreq(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequency of each place of rfft, for n samples d apart."""
    return _frequencies("rfftfreq", [(0, n // 2 + 1)], n, d, dtype, device, requires_grad, out)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The zero frequency moved to the middle along these dimensions (none: all)."""
    return ops.fftshift(input, _dims(dim))


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of fftshift."""
    return ops.ifftshift(input, _dims(dim))


def _stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None, return_complex=None):
    """tensord.stft."""
    modes = ("reflect", "constant", "replicate", "circular")
    if pad_mode not in modes:
        raise _C.InvalidError(f"stft(): pad_mode must be one of {', '.join(map(repr, modes))}, not {pad_mode!r}")
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise _C.InvalidError("stft requires the return_complex parameter be given for real inputs")
    onesided = not is_complex if onesided is None else onesided
    y = ops.stft(input, n_fft, hop_length, win_length, window, center, modes.index(pad_mode), normalized, onesided)
    return _C.stack([_C.real(y), _C.imag(y)], -1) if return_complex is False else y


def _istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None, return_complex=False):
    """tensord.istft."""
    if not input.is_complex():
        raise _C.DTypeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    onesided = input.shape[-2] != n_fft if onesided is None else onesided
    return ops.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)
