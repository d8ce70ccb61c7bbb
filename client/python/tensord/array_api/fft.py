"""Fourier transforms, put together from products and sums of the op table, so gradients pass through them.

The length is cut into factors, small ones joined to at most 16, and each is one product with a matrix of that size. So n elements
cost n times the sum of those factors: cheap but for a length with a large prime in it.
"""

import math

from tensord import _C, _more
from tensord._C import ops
from tensord.array_api import _dtypes
from tensord.array_api._creation import _complex
from tensord.array_api._shapes import _axes, wrap_axis

__all__ = ["fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft", "fftfreq", "rfftfreq", "fftshift", "ifftshift"]


def _factors(n):
    """Factors of n: joined while they stay below 17."""
    found, p = [], 2
    while n > 1:
        if p * p > n:
            p = n
        while n % p == 0:
            if found and found[-1] * p <= 16:
                found[-1] *= p
            else:
                found.append(p)
            n //= p
        p += 1
    return found


def _roots(rows, cols, n, sign, dtype):
    """exp(sign 2 pi i j k / n) for j below rows and k below cols: from double, and exact at quarters of the circle."""
    j, k = ops.arange(0, rows, 1, _C.int64), ops.arange(0, cols, 1, _C.int64)
    turns = ops.unsqueeze(j, 1) * k % n
    angle, quarter = turns.to(_C.float64) * (sign * 2 * math.pi / n), turns * 4 % n == 0
    return _complex(*[ops.where(quarter, ops.round(v), v) for v in (ops.cos(angle), ops.sin(angle))]).to(dtype)


@_more._beside
def _transform(x, sign):
    """Of the last dimension, unscaled. In between, y[:, r, k] is place k of the transform of every rest-th element from r on."""
    shape, n = x.shape, x.shape[-1]
    batch, done, rest = math.prod(shape[:-1]), 1, n
    y = x.reshape((batch, n, 1))
    for p in _factors(n):
        rest //= p
        y = y.reshape((batch, p, rest, done))
        if done > 1:
            y = y * ops.unsqueeze(_roots(p, done, p * done, sign, x.dtype), 1)
        y = _C.matmul(_roots(p, p, p, sign, x.dtype), y.reshape((batch, p, rest * done)))
        done *= p
        y = ops.permute(y.reshape((batch, p, rest, done // p)), (0, 2, 1, 3)).reshape((batch, rest, done))
    return y.reshape(shape)


def _scale(n, norm, inverse):
    if norm not in ("backward", "ortho", "forward"):
        raise ValueError(f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "backward") == inverse else 1


def _to_length(x, n, axis):
    """Cut, or filled up with zeros, to n places along an axis."""
    size = x.shape[axis]
    if n < 1:
        raise ValueError(f"a transform has at least one place, not {n}")
    return x if n == size else ops.constant_pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, n - size))


def _floating(x):
    if _dtypes.category(x.dtype) < 2:
        return x.to(_C.get_default_dtype())
    return x.to(_C.float32) if x.dtype in (_C.float16, _C.bfloat16) else x


def _along(x, n, axis, norm, inverse):
    """The complex transform along one axis."""
    axis = wrap_axis(axis, x.ndim)
    x = _floating(x)
    x = _to_length(x.to(x.dtype.to_complex()), x.shape[axis] if n is None else n, axis)
    scale = _scale(x.shape[axis], norm, inverse)
    y = ops.transpose(_transform(ops.transpose(x, axis, -1), 1 if inverse else -1), axis, -1)
    return y if scale == 1 else y * scale


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The discrete Fourier transform along an axis, which is first cut or filled up to n places."""
    return _along(x, n, axis, norm, False)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of fft."""
    return _along(x, n, axis, norm, True)


def _several(x, s, axes):
    """Pairs of axis and length."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [wrap_axis(a, x.ndim) for a in axes]
    s = [x.shape[a] for a in axes] if s is None else list(s)
    if len(s) != len(axes):
        raise ValueError(f"{len(s)} lengths for {len(axes)} axes")
    return list(zip(axes, s))


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform along several axes (none: all)."""
    for axis, n in _several(x, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of fftn."""
    for axis, n in _several(x, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The first half, n // 2 + 1 places, of the transform of real numbers; the other half mirrors it."""
    if x.dtype.is_complex:
        raise TypeError("rfft() is for real numbers; use fft()")
    y = fft(x, n=n, axis=axis, norm=norm)
    axis = wrap_axis(axis, x.ndim)
    return ops.slice(y, axis, 0, y.shape[axis] // 2 + 1, 1)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of rfft: n real numbers, 2 (m - 1) of m places unless n is given."""
    axis = wrap_axis(axis, x.ndim)
    n = 2 * (x.shape[axis] - 1) if n is None else n
    half = _to_length(_floating(x), n // 2 + 1, axis)
    mirrored = ops.flip(ops.slice(half, axis, 1, (n + 1) // 2, 1), (axis,))
    return ops.real(ifft(ops.cat([half, ops.conj(mirrored)], axis), axis=axis, norm=norm))


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """rfft along the last of several axes (none: all), fft along the others."""
    *others, (axis, n) = _several(x, s, axes)
    x = rfft(x, n=n, axis=axis, norm=norm)
    for axis, n in others:
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of rfftn."""
    *others, (axis, n) = _several(x, s, axes)
    for other, size in others:
        x = ifft(x, n=size, axis=other, norm=norm)
    return irfft(x, n=n if s is not None else None, axis=axis, norm=norm)


_SWAPPED = {"backward": "forward", "forward": "backward"}


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform, real, of what mirrors itself; only its first half is given."""
    return irfft(ops.conj(x), n=n, axis=axis, norm=_SWAPPED.get(norm, norm))


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of hfft: the first half."""
    return ops.conj(rfft(x, n=n, axis=axis, norm=_SWAPPED.get(norm, norm)))


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
