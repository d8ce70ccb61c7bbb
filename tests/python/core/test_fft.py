"""tensord.fft beside NumPy's transforms: every length, factors large and small, long lines, layouts, errors."""
import math

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
fft = td.fft

LENGTHS = [*range(1, 300), 331, 512, 961, 1009, 1023, 1024, 2018, 3721, 4096, 4099, 8191, 8192, 10007, 12288, 16384, 30030, 32768, 65536, 65537, 73984, 1 << 18, 1 << 20, 1000003]


def near(got, want, n, eps):
    """Within eps * log n of the size of the whole."""
    size = np.sqrt(np.mean(np.abs(want) ** 2)) + 1e-30
    return float(np.sqrt(np.mean(np.abs(np.asarray(got) - want) ** 2)) / size) < eps * (math.log2(n) + 3)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_every_length(kind):
    g = np.random.default_rng(1)
    eps = 2.0**-53 if kind == "float64" else 2.0**-24
    for n in LENGTHS:
        rows = 3 if n > 5000 else 11 if n > 200 else 19
        x = g.standard_normal((rows, n)).astype(kind)
        z = (x + 1j * g.standard_normal((rows, n))).astype("complex128" if kind == "float64" else "complex64")
        exact, halves = np.fft.fft(z.astype("complex128")), np.fft.rfft(x.astype("float64"))
        t, u = td.from_numpy(z), td.from_numpy(x)
        assert near(fft.fft(t).numpy(), exact, n, eps), n
        assert near(fft.fft(t[0]).numpy(), exact[0], n, eps), n
        assert near(fft.ifft(t).numpy(), np.fft.ifft(z.astype("complex128")), n, eps), n
        half = fft.rfft(u)
        assert near(half.numpy(), halves, n, eps), n
        assert near(fft.irfft(half, n).numpy(), x, n, 3 * eps), n
        assert near(fft.fft(u).numpy(), np.fft.fft(x.astype("float64")), n, eps), n


def test_lines_are_their_own():
    """What is wrong in one line stays there."""
    for n in (6, 7, 64, 67):
        x = td.ones(9, n)
        x[4, 0] = td.nan
        for y in (fft.rfft(x), fft.fft(x), fft.irfft(x.to(td.complex64))):
            good = td.isnan(y.abs()).any(1).tolist()
            assert good == [False] * 4 + [True] + [False] * 4


@pytest.mark.parametrize("shape, dims", [((5, 6, 7), (0,)), ((5, 6, 7), (1, 2)), ((3, 4, 20, 2), (2, 0)), ((16, 1024), (0, 1)), ((16384, 3), (0,)), ((2, 9, 8192), (1, 2)),
                                         ((2, 3, 2, 3, 2, 3, 2, 3), tuple(range(8))), ((4, 0, 3), (0, 2)), ((2, 16384, 2), (0, 1, 2))])
def test_dimensions_and_layouts(shape, dims):
    g = np.random.default_rng(2)
    x = td.from_numpy(g.standard_normal(shape) + 1j * g.standard_normal(shape))
    for t in (x, x.transpose(0, -1), x.flip(0).expand(x.shape), td.cat([x, x], -1)[..., ::2]):
        axes = tuple(d for d in dims if t.shape[d])
        a, real = t.numpy().copy(), td.real(t)
        assert np.allclose(fft.fftn(t, dim=axes).numpy(), np.fft.fftn(a, axes=axes), atol=1e-9)
        assert np.allclose(fft.ifftn(t, dim=axes, norm="ortho").numpy(), np.fft.ifftn(a, axes=axes, norm="ortho"), atol=1e-9)
        assert np.allclose(fft.rfftn(real, dim=axes).numpy(), np.fft.rfftn(a.real, axes=axes), atol=1e-9)
        back = fft.irfftn(fft.rfftn(real, dim=axes), tuple(t.shape[d] for d in axes), axes)
        assert np.allclose(back.numpy(), a.real, atol=1e-9)


def test_frequencies():
    assert fft.fftfreq(5, 0.5).tolist() == np.float32(np.fft.fftfreq(5, 0.5)).tolist() and fft.rfftfreq(6).dtype is td.float32
    assert fft.fftfreq(4, dtype=td.float64).dtype is td.float64
    assert fft.fftshift(td.arange(5)).tolist() == [3, 4, 0, 1, 2] and fft.ifftshift(fft.fftshift(td.arange(5))).tolist() == [0, 1, 2, 3, 4]


def test_promotion():
    assert fft.fft(td.arange(4)).dtype is td.complex64 and fft.rfft(td.tensor([True, False])).tolist() == [1, 1]
    assert fft.irfft(td.ones(3)).dtype is td.float32


@pytest.mark.parametrize("call, kind", [
    (lambda: fft.fft(td.ones(4), 0), RuntimeError), (lambda: fft.fft(td.ones(4), norm="both"), RuntimeError), (lambda: fft.rfft(td.ones(4) * 1j), (RuntimeError, TypeError)),
    (lambda: fft.fft(td.ones(4), dim=1), IndexError), (lambda: fft.fft(td.tensor(1.0)), IndexError), (lambda: fft.fftn(td.ones(2, 2), dim=(0, 0)), RuntimeError),
    (lambda: fft.fftn(td.ones(2, 2), s=(1, 2, 3)), RuntimeError), (lambda: fft.fftn(td.ones(2, 2), s=(1, 2), dim=(0,)), RuntimeError), (lambda: fft.irfft(td.ones(1)), RuntimeError),
    (lambda: fft.fft(td.ones(4).half()), (RuntimeError, TypeError)), (lambda: fft.fft(td.ones(3, 0)), RuntimeError), (lambda: fft.irfftn(td.ones(2, 2), dim=()), RuntimeError),
    (lambda: fft.fft(td.ones(4), 1 << 60), RuntimeError), (lambda: td.stft(td.ones(8), 4), RuntimeError), (lambda: td.stft(td.ones(8), 40, return_complex=True), RuntimeError)])
def test_refusals(call, kind):
    with pytest.raises(kind):
        td.isnan(td.real(call())).any().item()


def test_pieces_of_a_signal():
    g = np.random.default_rng(3)
    x = td.from_numpy(g.standard_normal((2, 100)))
    w = td.from_numpy(np.hanning(17)[:-1].copy())
    y = td.stft(x, 16, 4, window=w, return_complex=True)
    assert y.shape == (2, 9, 26)
    want = np.fft.rfft(np.pad(x.numpy()[0], 8, "reflect")[20:36] * w.numpy())
    assert np.allclose(y[0, :, 5].numpy(), want)
    assert np.allclose(td.istft(y, 16, 4, window=w, length=100).numpy(), x.numpy())
    assert td.stft(x[0], 16, return_complex=False).shape == (9, 26, 2) and x.stft(16, return_complex=True).shape == (2, 9, 26)


def test_gradients():
    """Of second order, by differences of the first."""
    x = td.from_numpy(np.random.default_rng(4).standard_normal((3, 6))).requires_grad_(True)

    def first(v):
        loss = (fft.irfft2(fft.rfft2(v) ** 2) ** 2).sum() + (fft.fft(v, 4).abs() ** 2).sum()
        return td.autograd.grad(loss, v, create_graph=True)[0]

    g = first(x)
    second = td.autograd.grad((g * g).sum(), x)[0].numpy()
    step, at = 1e-6, x.detach().numpy().copy()
    for i, j in ((0, 0), (1, 3), (2, 5)):
        moved = []
        for sign in (1, -1):
            v = at.copy()
            v[i, j] += sign * step
            h = first(td.tensor(v.tolist(), dtype=td.float64, requires_grad=True))
            moved.append((h * h).sum().item())
        assert abs((moved[0] - moved[1]) / (2 * step) - second[i, j]) < 1e-4 * (1 + abs(second[i, j]))
