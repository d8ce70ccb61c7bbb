"""Fourier transforms by the standard, over the ops of the table; tensord.fft has PyTorch's."""

from tensord import _C
from tensord._C import ops
from tensord.array_api import _dtypes
from tensord.array_api._shapes import _axes, wrap_axis

__all__ = ["fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft", "fftfreq", "rfftfreq", "fftshift", "ifftshift"]

_NORMS = ("backward", "ortho", "forward")


def _norm(norm):
    if norm not in _NORMS:
        raise ValueError(f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}")
    return _NORMS.index(norm)


def _floating(x):
    if _dtypes.category(x.dtype) < 2:
        return x.to(_C.get_default_dtype())
    return x.to(_C.float32) if x.dtype in (_C.float16, _C.bfloat16) else x


def _along(op, x, n, axis, norm):
    axis = wrap_axis(axis, x.ndim)
    if n is not None and n < 1:
        raise ValueError(f"a transform has at least one place, not {n}")
    return op(_floating(x), n, axis, _norm(norm))


def _real(x, name):
    if x.dtype.is_complex:
        raise TypeError(f"{name}() is for real numbers; use {name[1:]}()")
    return x


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The discrete Fourier transform along an axis, which is first cut or filled up to n places."""
    return _along(ops.fft, x, n, axis, norm)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of fft."""
    return _along(ops.ifft, x, n, axis, norm)


def _several(op, x, s, axes, norm):
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [wrap_axis(a, x.ndim) for a in axes]
    if s is not None and len(s) != len(axes):
        raise ValueError(f"{len(s)} lengths for {len(axes)} axes")
    return op(_floating(x), None if s is None else tuple(s), tuple(axes), _norm(norm))


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform along several axes (none: all)."""
    return _several(ops.fftn, x, s, axes, norm)


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of fftn."""
    return _several(ops.ifftn, x, s, axes, norm)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The first half, n // 2 + 1 places, of the transform of real numbers; the other half mirrors it."""
    return _along(ops.rfft, _real(x, "rfft"), n, axis, norm)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of rfft: n real numbers, 2 (m - 1) of m places unless n is given."""
    return _along(ops.irfft, x, n, axis, norm)


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """rfft along the last of several axes (none: all), fft along the others."""
    return _several(ops.rfftn, _real(x, "rfftn"), s, axes, norm)


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of rfftn."""
    return _several(ops.irfftn, x, s, axes, norm)


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform, real, of what mirrors itself; only its first half is given."""
    return _along(ops.hfft, x, n, axis, norm)


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of hfft: the first half."""
    return _along(ops.ihfft, x, n, axis, norm)


def _frequencies(parts, n, d, dtype, device):
    dtype = _C.get_default_dtype() if dtype is None else dtype
    places = _C.cat([_C.arange(*part, dtype=_C.float64, device=device) for part in parts])
    return (places / (n * d)).to(dtype)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequency of each place of fft, for samples d apart."""
    return _frequencies([(0, (n + 1) // 2), (-(n // 2), 0)], n, d, dtype, device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequency of each place of rfft, for samples d apart."""
    return _frequencies([(0, n // 2 + 1)], n, d, dtype, device)


def _shifted(x, axes, back):
    places = range(x.ndim) if axes is None else [wrap_axis(a, x.ndim) for a in _axes(axes)]
    shifts = [-(x.shape[a] // 2) if back else x.shape[a] // 2 for a in places]
    return ops.roll(x, tuple(shifts), tuple(places)) if shifts else x.clone()


def fftshift(x, /, *, axes=None):
    """The zero frequency moved to the middle along these axes (none: all)."""
    return _shifted(x, axes, False)


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift."""
    return _shifted(x, axes, True)
