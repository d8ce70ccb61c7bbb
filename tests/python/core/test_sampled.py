"""Random tensors and their generators, windows, reductions under masks, tensors made from parts."""
import math

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
N = 60000


def moments(x, mean, variance):
    """Within five standard errors of the mean, and a tenth of the variance."""
    values = x.to(td.float64).numpy()
    assert abs(values.mean() - mean) < 5 * math.sqrt(variance / values.size), values.mean()
    assert abs(values.var() - variance) < 0.1 * variance, values.var()


@pytest.mark.parametrize("kind", [td.float32, td.float64])
def test_moments(kind):
    td.manual_seed(3)
    x = td.empty(N, dtype=kind)
    moments(x.exponential_(2.0), 0.5, 0.25)
    moments(x.geometric_(0.25), 4, 12)
    moments(x.log_normal_(0.5, 0.5), math.exp(0.625), (math.exp(0.25) - 1) * math.exp(1.25))
    moments(x.normal_(2, 3), 2, 9)
    moments(x.uniform_(-1, 3), 1, 16 / 12)
    values = np.sort(x.cauchy_(1.0, 2.0).numpy())
    assert abs(values[N // 2] - 1) < 0.1 and abs(values[N // 4] + 1) < 0.15 and abs(values[3 * N // 4] - 3) < 0.15
    for rate in (0.1, 3.0, 9.9, 10.0, 47.0, 1e5):
        moments(td.poisson(td.full((N,), rate, dtype=kind)), rate, rate)
    assert td.poisson(td.zeros(3)).tolist() == [0, 0, 0]


def test_poisson_is_poisson():
    """Each number as often as the formula says."""
    td.manual_seed(5)
    for rate in (4.0, 12.0):
        found = np.bincount(td.poisson(td.full((N,), rate)).to(td.int64).numpy(), minlength=40)[:40]
        want = N * np.exp([k * math.log(rate) - rate - math.lgamma(k + 1) for k in range(40)])
        big = want > 20
        assert (((found - want) ** 2 / want)[big].sum() < big.sum() + 6 * math.sqrt(2 * big.sum()))


def test_whole_numbers():
    x = td.empty(4000, dtype=td.int8).random_()
    assert x.min().item() >= 0 and x.max().item() > 100 and td.empty(100, dtype=td.uint8).random_(3, 5).unique().tolist() == [3, 4]
    like = td.randint_like(td.zeros(50, dtype=td.int16), 2, 4)
    assert like.dtype is td.int16 and like.unique().tolist() == [2, 3]
    assert td.empty(200, dtype=td.int64).geometric_(0.5).min().item() == 1


@pytest.mark.parametrize("call", [lambda x: x.exponential_(0), lambda x: x.geometric_(1.0), lambda x: x.cauchy_(0, -1), lambda x: x.log_normal_(0, 0), lambda x: x.normal_(0, -1),
                                  lambda x: td.poisson(x - 1), lambda x: x.uniform_(1, 0), lambda x: x.random_(3, 3), lambda x: x.int().exponential_(),
                                  lambda x: td.randn(2, generator=7), lambda x: td.bernoulli(x, 2.0)])
def test_refusals(call):
    with pytest.raises((RuntimeError, TypeError)):
        call(td.zeros(3)).sum().item()


DRAWS = [lambda g: td.rand(5, generator=g), lambda g: td.randn((2, 3), generator=g, dtype=td.float64), lambda g: td.randint(0, 99, (5,), generator=g), lambda g: td.randperm(9, generator=g),
         lambda g: td.empty(7).exponential_(generator=g), lambda g: td.poisson(td.full((6,), 20.0), g), lambda g: td.normal(0.0, 1.0, (3,), generator=g),
         lambda g: td.bernoulli(td.full((30,), 0.5), generator=g), lambda g: td.multinomial(td.ones(20), 5, generator=g), lambda g: td.empty(4).uniform_(generator=g)]


@pytest.mark.parametrize("draw", DRAWS)
def test_generators(draw):
    """The same numbers of the same seed, the session's own left alone."""
    td.manual_seed(1)
    plain = draw(None).tolist()
    after = td.rand(3).tolist()
    dice = td.Generator().manual_seed(1)
    td.manual_seed(1)
    assert draw(dice).tolist() == plain and draw(None).tolist() == plain and td.rand(3).tolist() == after
    state = dice.get_state()
    second = draw(dice).tolist()
    assert dice.set_state(state) is dice and draw(dice).tolist() == second and draw(td.Generator().set_state(state)).tolist() == second
    assert dice.initial_seed() == 1 and dice.device == td.device("cpu")


def test_session_state():
    td.manual_seed(2)
    td.rand(3)
    state = td.get_rng_state()
    assert state.dtype is td.uint8
    first = td.rand(3).tolist()
    td.set_rng_state(state)
    assert td.rand(3).tolist() == first
    assert td.default_generator.set_state(state) and td.rand(3, generator=td.default_generator).tolist() == first
    with pytest.raises((RuntimeError, TypeError)):
        td.set_rng_state(state[:-1])
    seed = td.seed()
    first = td.rand(3).tolist()
    assert td.manual_seed(seed) is td.default_generator and td.rand(3).tolist() == first


def test_parts_draw_the_same():
    """An element's number depends on its place alone: chunks make no difference."""
    for make in (lambda n: td.empty(n).exponential_(), lambda n: td.empty(n, dtype=td.float64).cauchy_(), lambda n: td.poisson(td.full((n,), 30.0)),
                 lambda n: td.empty(n).log_normal_(), lambda n: td.empty(n).geometric_(0.1)):
        td.manual_seed(9)
        short = make(1001)
        td.manual_seed(9)
        assert make(300000)[:1001].tolist() == short.tolist()


@pytest.mark.parametrize("M", [0, 1, 2, 7, 64])
def test_windows(M):
    w = td.signal.windows
    for name, of_numpy in (("hann", np.hanning), ("hamming", np.hamming), ("blackman", np.blackman), ("bartlett", np.bartlett)):
        assert np.allclose(getattr(w, name)(M, dtype=td.float64).numpy(), of_numpy(M), atol=1e-12), name
        periodic = of_numpy(M + 1)[:-1] if M > 1 else of_numpy(M)
        assert np.allclose(getattr(td, name + "_window")(M, dtype=td.float64).numpy(), periodic, atol=1e-12)
        assert np.allclose(getattr(w, name)(M, sym=False, dtype=td.float64).numpy(), periodic, atol=1e-12)
    for beta in (0.0, 5.0, 12.0, 300.0):
        assert np.allclose(w.kaiser(M, beta=beta, dtype=td.float64).numpy(), np.kaiser(M, beta), atol=1e-12), beta
    n = np.arange(M)
    if M > 1:
        assert np.allclose(w.gaussian(M, std=2.5, dtype=td.float64).numpy(), np.exp(-((n - (M - 1) / 2) / 2.5) ** 2 / 2))
        assert np.allclose(w.exponential(M, tau=3.0, dtype=td.float64).numpy(), np.exp(-abs(n - (M - 1) / 2) / 3))
        assert np.allclose(w.cosine(M, dtype=td.float64).numpy(), np.sin(np.pi * (n + 0.5) / M))
        a = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
        assert np.allclose(w.nuttall(M, dtype=td.float64).numpy(), sum((-1) ** i * v * np.cos(2 * np.pi * i * n / (M - 1)) for i, v in enumerate(a)))
    assert w.hann(M).dtype is td.float32 and w.hann(M, requires_grad=True).requires_grad


def test_window_refusals():
    w = td.signal.windows
    for call in (lambda: w.hann(-1), lambda: w.hann(4, dtype=td.int64), lambda: w.exponential(4, center=1.0), lambda: w.gaussian(4, std=0), lambda: w.general_cosine(4, a=[])):
        with pytest.raises(RuntimeError):
            call()


MASKS = [[[True, False, True, True], [False, False, False, False], [True, True, True, True]]]


@pytest.mark.parametrize("dim", [0, 1, None])
def test_masked(dim):
    g = np.random.default_rng(0)
    x, mask = g.standard_normal((3, 4)), np.array(MASKS[0])
    t, m, nan = td.from_numpy(x), td.tensor(MASKS[0]), np.where(mask, x, np.nan)
    here = np.ma.array(x, mask=~mask)
    with np.errstate(all="ignore"):
        import warnings
        warnings.simplefilter("ignore")
        same = lambda a, b: np.allclose(a.numpy(), b, equal_nan=True)  # noqa: E731
        assert same(td.masked.sum(t, dim, mask=m), np.nansum(nan, dim)) and same(td.masked.prod(t, dim, mask=m), np.nanprod(nan, dim))
        assert same(td.masked.mean(t, dim, mask=m), np.nanmean(nan, dim))
        assert same(td.masked.amax(t, dim, mask=m), here.max(dim).filled(-np.inf) if dim is not None else here.max())
        assert same(td.masked.amin(t, dim, keepdim=True, mask=m), np.where(mask, x, np.inf).min(dim, keepdims=True))
        assert same(td.masked.norm(t, 2.0, dim, mask=m), np.sqrt(np.nansum(nan**2, dim)))
        assert td.masked.argmax(t, dim, mask=m).tolist() == np.where(mask, x, -np.inf).argmax(dim).tolist()
        if dim is not None:
            assert same(td.masked.var(t, dim, mask=m), np.where(mask.sum(dim) == 0, np.nan, np.where(mask.sum(dim) == 1, np.nan, np.nanvar(nan, dim, ddof=1))))
            assert same(td.masked.std(t, dim, unbiased=False, mask=m), np.nanstd(nan, dim))
            assert same(td.masked.cumsum(t, dim, mask=m), np.cumsum(np.where(mask, x, 0), dim)) and same(td.masked.cumprod(t, dim, mask=m), np.cumprod(np.where(mask, x, 1), dim))
            e = np.where(mask, np.exp(x), 0)
            assert same(td.masked.softmax(t, dim, mask=m), e / e.sum(dim, keepdims=True)) and same(td.masked.logsumexp(t, dim, mask=m), np.log(e.sum(dim)))
            assert same(td.masked.median(t, dim, mask=m), np.nanpercentile(nan, 50, dim, method="lower"))
            down = np.where(mask, np.exp(-x), 0)
            assert same(td.masked.softmin(t, dim, mask=m), down / down.sum(dim, keepdims=True))
            assert same(td.masked.normalize(t, 1.0, dim, mask=m), np.where(mask, x, 0) / np.maximum(np.nansum(abs(nan), dim, keepdims=True), 1e-12))
    assert td.masked.sum(td.tensor([1, 2, 3]), mask=td.tensor([True, False, True])).item() == 4 and td.masked.amax(td.tensor([1, 2]), mask=td.tensor([False, False])).item() == -(1 << 63)
    y = td.tensor([1.0, 2.0, 5.0], requires_grad=True)
    td.masked.mean(y, mask=td.tensor([True, True, False])).backward()
    assert y.grad.tolist() == [0.5, 0.5, 0]
    with pytest.raises((RuntimeError, TypeError)):
        td.masked.sum(t, mask=td.ones(3, 4))


def test_made_from_parts():
    z = td.complex(td.tensor([1.0, math.inf]), td.tensor([2.0, 0.0]))
    assert z.tolist() == [1 + 2j, complex(math.inf, 0)] and td.complex(td.ones(2, 1), td.zeros(3)).shape == (2, 3)
    assert np.allclose(td.polar(td.tensor([2.0]), td.tensor([math.pi / 2])).numpy(), [2j], atol=1e-6)
    pairs = td.view_as_real(z)
    pairs[0, 1] = 7.0
    assert z[0].item() == 1 + 7j and td.view_as_complex(td.tensor([[3.0, 4.0]])).tolist() == [3 + 4j] and td.view_as_complex(td.tensor([3.0, 4.0])).shape == ()
    a, b = td.ones(2, requires_grad=True), td.ones(2, requires_grad=True)
    (td.complex(a, b).abs() ** 2).sum().backward()
    assert np.allclose(a.grad.numpy(), 2) and np.allclose(b.grad.numpy(), 2)
    assert td.logspace(0, 3, 4).tolist() == [1, 10, 100, 1000] and td.logspace(0, 2, 3, base=2.0, dtype=td.int64).tolist() == [1, 2, 4]
    assert td.scalar_tensor(3).dtype is td.float32 and td.scalar_tensor(3).shape == ()
    assert td.tril_indices(3, 3).tolist() == [list(v) for v in np.tril_indices(3)] and td.triu_indices(2, 4, 1).tolist() == [list(v) for v in np.triu_indices(2, 1, 4)]
    assert td.tril_indices(0, 3).shape == (2, 0)
    assert td.empty_permuted((2, 3, 5), (1, 2, 0)).stride() == (1, 10, 2) and td.ones(1).new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    for call in (lambda: td.complex(td.ones(1), td.ones(1).double()), lambda: td.view_as_complex(td.ones(3)), lambda: td.empty_permuted((2, 3), (0, 0)), lambda: td.view_as_real(td.ones(2))):
        with pytest.raises((RuntimeError, TypeError)):
            call()
