"""Fourier transforms: cases of the ops of proto/ops/fft.toml."""

import torch
from cases import COMPLEX, NO_COUNTERPART, Skip, op

NORMS = ["backward", "ortho", "forward"]
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 20, 24, 25, 32, 45, 61, 64, 67, 71, 74, 97, 128, 134, 210)
LONG = (8191, 8192, 8193, 8209, 10240, 12288, 16384, 8192 * 3)


def of_complex(r):
    if not r.dtype.is_complex:
        raise Skip


def sizes(r, hi=3):
    """Any rank; one dimension may be long, whatever its factors. The others of wide cases are short: what a gradient holds fits."""
    s = r.shape(1, hi, 5)
    k = r.int(0, len(s) - 1)
    s[k] = r.pick(*LONG) if r.wide and len(s) < 3 and r.int(0, 3) == 0 else r.pick(*SIZES)
    if r.wide:
        s = [r.int(1, 40) if i != k else n for i, n in enumerate(s)]
    return s, k


def some_dims(r, s, k):
    dims = [k] + [d for d in range(len(s)) if d != k and s[d] and r.int(0, 1)]
    order = torch.randperm(len(dims), generator=r.g).tolist()
    return [dims[i] - len(s) * r.int(0, 1) for i in order]


@op("fft_c2c", COMPLEX)
def _(r):
    of_complex(r)
    s, k = sizes(r)
    dims, how, forward = some_dims(r, s, k), r.int(0, 2), bool(r.int(0, 1))
    return [r.t(s)], [dims, how, forward], lambda x: torch._fft_c2c(x, [d % x.ndim for d in dims], how, forward)


@op("fft_r2c")
def _(r):
    s, k = sizes(r)
    dims, how, half = some_dims(r, s, k), r.int(0, 2), bool(r.int(0, 2))
    return [r.t(s)], [dims, how, half], lambda x: torch._fft_r2c(x, [d % x.ndim for d in dims], how, half)


@op("fft_c2r", COMPLEX)
def _(r):
    of_complex(r)
    s, k = sizes(r)
    dims, how = some_dims(r, s, k), r.int(0, 2)
    last = dims[-1] % len(s)
    n = max(2 * (s[last] - 1) + r.int(0, 1), 1)
    s[last] = n // 2 + 1
    return [r.t(s)], [dims, how, n], lambda x: torch._fft_c2r(x, [d % x.ndim for d in dims], how, n)


def along(name, also=()):
    @op(name, also)
    def _(r):
        s, k = sizes(r)
        n, d, norm = r.pick(None, r.int(1, 12)), k - len(s) * r.int(0, 1), r.int(0, 2)
        if name in ("irfft", "hfft") and s[k] < 2 and n is None:
            n = 3
        return [r.t(s)], [n, d, norm], lambda x: getattr(torch.fft, name)(x, n, d, NORMS[norm])


for name in ("fft", "ifft"):
    along(name, [*COMPLEX, torch.int32, torch.bool])
for name in ("rfft", "ihfft"):
    along(name, [torch.int64])
for name in ("irfft", "hfft"):
    along(name, COMPLEX)


def over(name, also=()):
    two = name.endswith("2")

    @op(name, also)
    def _(r):
        s = [r.int(1, 6) for _ in range(r.int(2 if two else 1, 4))]
        most = 2 if two else r.int(1, len(s))
        dims = torch.randperm(len(s), generator=r.g).tolist()[:most]
        given = two or r.int(0, 2) > 0
        wanted = [r.pick(-1, r.int(1, 7)) for _ in range(most)] if r.int(0, 1) else None
        if not given and wanted is None:
            most, dims = len(s), list(range(len(s)))
        last = dims[-1] if given else len(s) - 1
        if name.startswith(("irfft", "hfft")) and s[last] < 2 and (wanted is None or wanted[-1] == -1):
            s[last] = 2
        norm, dim = r.int(0, 2), dims if given else None
        return [r.t(s)], [wanted, dim, norm], lambda x: getattr(torch.fft, name)(x, wanted, dim, NORMS[norm])


for name in ("fftn", "ifftn", "fft2", "ifft2"):
    over(name, COMPLEX)
for name in ("rfftn", "rfft2", "ihfftn", "ihfft2"):
    over(name)
for name in ("irfftn", "irfft2", "hfftn", "hfft2"):
    over(name, COMPLEX)


def shifted(name):
    @op(name, [torch.int64, torch.complex64])
    def _(r):
        s = r.shape(1, 4)
        dim = r.dims(s)
        return [r.t(s)], [dim], lambda x: getattr(torch.fft, name)(x, dim)


shifted("fftshift"), shifted("ifftshift")

MODES = ["reflect", "constant", "replicate", "circular"]


def signal(r):
    n_fft = r.int(1, 16)
    win = r.pick(None, r.int(1, n_fft))
    hop = r.pick(None, r.int(1, 6)) if n_fft > 3 else r.int(1, 4)
    return n_fft, hop, win


@op("stft", COMPLEX)
def _(r):
    n_fft, hop, win = signal(r)
    n, center, mode, normed = n_fft + r.int(1, 20), bool(r.int(0, 1)), r.int(0, 3), bool(r.int(0, 1))
    half = not r.dtype.is_complex and bool(r.int(0, 1))
    w = r.t([win or n_fft], 0.5, 2.0) if r.int(0, 2) else None
    s = [n] if r.int(0, 1) else [r.int(1, 3), n]

    def f(x, *ws):
        # torch 1.13 pads complex signals by none of these ways but the constant one: real and imaginary part by itself
        p, wave = n_fft // 2, x if x.ndim == 2 else x.unsqueeze(0)
        if center:
            pad = lambda v: torch.nn.functional.pad(v.unsqueeze(1), (p, p), MODES[mode]).squeeze(1)  # noqa: E731
            wave = torch.complex(pad(wave.real), pad(wave.imag)) if x.is_complex() else pad(wave)
        y = torch.stft(wave, n_fft, hop, win, ws[0] if ws else None, False, "reflect", normed, half, return_complex=True)
        return y if x.ndim == 2 else y.squeeze(0)

    return [r.t(s), w], [n_fft, hop, win, center, mode, normed, half], f


@op("istft", COMPLEX)
def _(r):
    of_complex(r)
    n_fft = r.int(2, 16)
    hop, win = r.int(1, max(n_fft // 2, 1)), None
    pieces, center, normed, half = r.int(2, 6), bool(r.int(0, 1)), bool(r.int(0, 1)), bool(r.int(0, 1))
    whole = not half and bool(r.int(0, 1))
    real = torch.float32 if r.dtype == torch.complex64 else torch.float64
    w = torch.rand(n_fft, generator=r.g, dtype=torch.float64).add(0.5).to(real) if r.int(0, 2) else None
    total = n_fft + hop * (pieces - 1) - (2 * (n_fft // 2) if center else 0)
    length = r.pick(None, r.int(1, total)) if total > 0 else 1
    s = [n_fft // 2 + 1 if half else n_fft, pieces]
    if r.int(0, 1):
        s = [r.int(1, 3), *s]

    def f(x, *ws):
        return torch.istft(x, n_fft, hop, win, ws[0] if ws else None, center, normed, half, length, whole)

    return [r.t(s), w], [n_fft, hop, win, center, normed, half, length, whole], f


NO_COUNTERPART.update({name: "other numbers" for name in ("exponential", "geometric", "cauchy", "log_normal", "poisson")})
