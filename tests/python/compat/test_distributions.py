"""tensord.testing and tensord.distributions: values and gradients as torch has them, moments of what is drawn, and what errors say."""
import contextlib
import copy
import importlib
import math

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

close, make = td.testing.assert_close, td.testing.make_tensor


def message(*args, **kw):
    with pytest.raises(AssertionError) as e:
        close(*args, **kw)
    return str(e.value)


def test_assert_close_says_what_differs():
    said = message(td.tensor([[1.0, 2.0], [3.0, 4.0]]), td.tensor([[1.0, 2.5], [3.0, 8.0]]))
    assert "Mismatched elements: 2 / 4 (50.0%)" in said and "absolute difference: 4.0 at index (1, 1) (up to 1e-05 allowed)" in said
    assert "relative difference: 0.5 at index (1, 1) (up to 1.3e-06 allowed)" in said
    assert "Absolute difference: 0.5" in message(1.0, 1.5) and "1.0 and 1.5 are not close" in message(1.0, 1.5)
    assert "[1]['b']" in message([1, {"b": 2}], [1, {"b": 3}]) and "keys differ: only actual has [\"'a'\"]" in message({"a": 1}, {"b": 1})
    assert "lengths differ: 2 != 1" in message([1, 2], (1,)) and "shapes differ: (2,) != (1,)" in message(td.ones(2), td.ones(1))
    assert "dtypes differ: tensord.float32 != tensord.float64" in message(td.ones(2), td.ones(2, dtype=td.float64))
    assert "strides differ" in message(td.ones(2, 3).t(), td.ones(3, 2), check_stride=True)
    assert message(1, 2, msg="my words") == "my words" and message(1, 2, msg=lambda m: m[:1] + "!") == "1!"
    assert "Mismatched elements: 1 / 2" in message(td.tensor([True, False]), td.tensor([True, True]))
    assert "absolute difference: 1 at index (0,)" in message(td.tensor([(1 << 53) + 1]), td.tensor([1 << 53]))
    assert message(td.tensor(math.nan), td.tensor(math.nan)) and message(None, 1) == "None is not 1" and message("a", "b") == "'a' != 'b'"


def test_assert_close_lets_pass():
    close(td.tensor([1.0, math.inf]), td.tensor([1.000001, math.inf]))
    close(td.ones(2), td.ones(2, dtype=td.float64), check_dtype=False)
    close({"a": [1, td.ones(2)], "b": None}, {"b": None, "a": (1, np.ones(2, np.float32))})
    close(td.tensor(math.nan), math.nan, equal_nan=True)
    close(td.tensor([1.0]), td.tensor([1.5]), rtol=0, atol=0.5)
    close(td.zeros(0), td.zeros(0))
    close(td.tensor([1 + 2j]), td.tensor([1 + 2.000001j]))
    for kind, (rtol, atol) in {td.float16: (1e-3, 1e-5), td.bfloat16: (1.6e-2, 1e-5), td.float32: (1.3e-6, 1e-5), td.float64: (1e-7, 1e-7)}.items():
        assert f"(up to {atol} allowed)" in message(td.ones(1, dtype=kind), td.zeros(1, dtype=kind)) and f"(up to {rtol} allowed)" in message(td.ones(1, dtype=kind), td.zeros(1, dtype=kind))
    with pytest.raises(ValueError, match="both rtol and atol"):
        close(1, 1, rtol=1)
    with pytest.raises(TypeError, match="cannot compare int with list"):
        close(1, [1])


def test_make_tensor():
    td.manual_seed(1)
    for kind in (td.float32, td.float64, td.float16, td.int8, td.uint8, td.int64, td.bool):
        x = make(40, 50, dtype=kind)
        least, most = (0, 1) if kind is td.bool else (0, 9) if kind is td.uint8 else (-9, 9)
        assert x.dtype is kind and x.shape == (40, 50) and least <= x.to(td.float64).min().item() and most - 1 < x.to(td.float64).max().item() + 0.1 <= most + 0.2
    z = make((100,), dtype=td.complex64, low=1, high=2, requires_grad=True)
    assert z.requires_grad and z.real.min().item() >= 1 and z.imag.max().item() <= 2 and not td.equal(z.real, z.imag)
    assert not make(3, 4, dtype=td.float32, noncontiguous=True).is_contiguous() and make((), dtype=td.int64).ndim == 0
    assert sorted(make(200, dtype=td.int64, low=0.5, high=3.5).unique().tolist()) == [1, 2, 3]
    assert sorted(make(200, dtype=td.int64, low=0, high=2, exclude_zero=True).unique().tolist()) == [1]
    with pytest.raises(ValueError, match="low < high"):
        make(2, dtype=td.float32, low=1, high=1)
    with pytest.raises(ValueError, match="floating or complex"):
        make(2, dtype=td.int32, requires_grad=True)


def many(kind, *args):
    """A distribution of ours and its parameters, requiring gradients."""
    made = [td.tensor(a, dtype=td.float64).requires_grad_() if isinstance(a, list) else a for a in args]
    return getattr(td.distributions, kind)(*made), made


def theirs(torch, kind, *args):
    made = [torch.tensor(a, dtype=torch.float64).requires_grad_() if isinstance(a, list) else a for a in args]
    return getattr(torch.distributions, kind)(*made), made


def same(x, y, **kw):
    np.testing.assert_allclose(np.asarray(x.detach()), y.detach().numpy(), **{"rtol": 1e-9, "atol": 1e-12, **kw})


P2, Q2 = [[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]], [[0.1, 0.6, 0.3], [0.3, 0.3, 0.4]]
COVARIANCE = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]]
TRIL = [[[1.0, 0, 0], [0.5, 2.0, 0], [-0.3, 0.1, 0.7]]] * 2
# (kind, parameters, values, parameters of another for the divergence).
CASES = [
    ("Normal", ([0.5, -1.0], [1.5, 0.3]), [0.1, -0.7], ([0.1, 0.2], [0.5, 2.0])),
    ("Uniform", ([0.5, -1.0], [1.5, 0.3]), [0.9, -0.7], ([0.0, -0.5], [2.0, 2.0])),
    ("Laplace", ([0.5, -1.0], [1.5, 0.3]), [0.1, -0.7], ([0.1, 0.2], [0.5, 2.0])),
    ("Cauchy", ([0.5, -1.0], [1.5, 0.3]), [0.1, -0.7], None),
    ("Gumbel", ([0.5, -1.0], [1.5, 0.3]), [0.1, -0.7], None),
    ("HalfNormal", ([0.5, 2.0],), [0.1, 0.7], None),
    ("LogNormal", ([0.5, -1.0], [0.5, 0.3]), [0.1, 0.7], ([0.1, 0.2], [0.5, 2.0])),
    ("Exponential", ([0.5, 2.0],), [0.1, 0.7], ([3.0, 0.2],)),
    ("Gamma", ([0.5, 4.0], [1.5, 0.3]), [0.1, 12.0], ([3.0, 0.2], [0.4, 1.0])),
    ("Chi2", ([0.5, 4.0],), [0.1, 7.0], None),
    ("Beta", ([0.5, 4.0], [1.5, 2.3]), [0.1, 0.7], ([3.0, 0.2], [0.4, 1.0])),
    ("StudentT", ([3.5, 5.0], [0.1, -0.2], [1.5, 0.3]), [0.1, 0.7], None),
    ("Dirichlet", ([[0.5, 4.0, 1.0], [2.0, 3.0, 4.0]],), [0.2, 0.3, 0.5], ([[1.5, 2.0, 1.0], [0.3, 3.0, 4.0]],)),
    ("Bernoulli", ([0.2, 0.7],), [1.0, 0.0], ([0.5, 0.1],)),
    ("Bernoulli", (None, [0.2, -0.7]), [1.0, 0.0], (None, [0.5, 0.1])),
    ("Geometric", ([0.2, 0.7],), [3.0, 0.0], ([0.5, 0.1],)),
    ("Binomial", (4, [0.2, 0.7]), [3.0, 0.0], (4, [0.5, 0.1])),
    ("Binomial", (4, None, [0.2, 0.7]), [3.0, 4.0], (4, None, [0.5, 0.1])),
    ("Poisson", ([0.2, 3.7],), [3.0, 0.0], ([0.5, 2.1],)),
    ("Categorical", (P2,), [2, 0], (Q2,)),
    ("Categorical", (None, P2), [2, 0], (None, Q2)),
    ("OneHotCategorical", (P2,), [[0.0, 0, 1], [1, 0, 0]], (Q2,)),
    ("Multinomial", (5, P2), [[2.0, 0, 3], [1, 2, 2]], None),
    ("MultivariateNormal", ([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]], None, None, TRIL), [0.5, 0.4, 2.0], ([0.0, 0.0, 0.0], COVARIANCE)),
    ("MultivariateNormal", ([0.1, 0.2, 0.3], COVARIANCE), [0.5, 0.4, 2.0], ([0.0, 0.5, 0.0], None, None, TRIL)),
    ("MultivariateNormal", ([0.1, 0.2, 0.3], None, COVARIANCE), [[0.5, 0.4, 2.0]] * 2, ([0.0, 0.5, 0.0], None, None, TRIL)),
]
NAMES = [f"{c[0]}{i}" for i, c in enumerate(CASES)]
SMOOTH = {"Normal", "Uniform", "Laplace", "Cauchy", "Gumbel", "HalfNormal", "LogNormal", "Exponential", "Gamma", "Chi2", "Beta", "StudentT", "Dirichlet", "MultivariateNormal"}


@pytest.mark.parametrize("kind, args, value, other", CASES, ids=NAMES)
def test_formulas(kind, args, value, other):
    torch = pytest.importorskip("torch")
    (p, mine), (q, given) = many(kind, *args), theirs(torch, kind, *args)
    assert p.batch_shape == tuple(q.batch_shape) and p.event_shape == tuple(q.event_shape) and p.has_rsample == q.has_rsample == (kind in SMOOTH)
    x, y = (lib.tensor(value, **({} if kind == "Categorical" else {"dtype": lib.float64})) for lib in (td, torch))
    if x.is_floating_point():
        x.requires_grad_(), y.requires_grad_()
    a, b = p.log_prob(x), q.log_prob(y)
    same(a, b)
    a.sum().backward(retain_graph=True), b.sum().backward(retain_graph=True)  # what follows from a parameter is kept
    for m, t in zip(mine, given):
        if td.is_tensor(m):
            same(m.grad, t.grad if t.grad is not None else torch.zeros_like(t), rtol=1e-7)
    if y.grad is not None and kind in SMOOTH:
        same(x.grad, y.grad, rtol=1e-7)
    else:
        assert kind not in SMOOTH or kind == "Uniform"
    for what in ("mean", "variance", "stddev"):
        same(getattr(p, what), getattr(q, what))
    if kind in ("Normal", "Gamma", "Binomial", "Poisson", "Geometric", "LogNormal", "Categorical", "OneHotCategorical", "Bernoulli", "Exponential", "HalfNormal", "StudentT"):
        same(p.mode, q.mode)
    if kind != "Poisson":
        same(p.entropy(), q.entropy(), rtol=1e-7 if kind == "Multinomial" else 1e-9)  # log n! is a float32 there
    else:
        with pytest.raises(NotImplementedError, match="Poisson has no entropy"):
            p.entropy()
    for what, at in (("cdf", value), ("icdf", [0.2, 0.9])):
        try:
            there = torch.tensor(at, dtype=torch.float64)
            expected = torch.special.gammainc(q.concentration, q.rate * there) if (what, kind) in (("cdf", "Gamma"), ("cdf", "Chi2")) else getattr(q, what)(there)
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                getattr(p, what)(td.tensor(at, dtype=td.float64))
        else:
            same(getattr(p, what)(td.tensor(at, dtype=td.float64)), expected)
    if p.has_enumerate_support:
        same(p.enumerate_support(), q.enumerate_support()), same(p.enumerate_support(False), q.enumerate_support(False))
    wide = p.expand((3, 2))
    assert wide.batch_shape == (3, 2) and wide.event_shape == p.event_shape and wide.sample((4,)).shape == (4, 3, 2, *p.event_shape)
    same(wide.log_prob(x), q.expand((3, 2)).log_prob(y))
    assert (p.support.check(p.sample((50,)))).all().item() and p.sample().shape == (*p.batch_shape, *p.event_shape)
    if other is not None:
        (p2, mine), (q2, given) = many(kind, *other), theirs(torch, kind, *other)
        a, b = td.distributions.kl_divergence(p, p2), torch.distributions.kl_divergence(q, q2)
        same(a, b)
        a.sum().backward(), b.sum().backward()
        for m, t in zip(mine, given):
            if td.is_tensor(m):
                same(m.grad, t.grad, rtol=1e-7)


@pytest.mark.parametrize("kind, args, value, other", CASES, ids=NAMES)
def test_moments(kind, args, value, other):
    """Means and squares of 20000 draws: within five of their standard deviations."""
    if kind == "Cauchy":  # which has none: the share below the quartiles
        p, _ = many(kind, *args)
        td.manual_seed(3)
        below = (p.sample((20000,)) < p.icdf(td.tensor(0.25, dtype=td.float64))).to(td.float64).mean(0).tolist()
        assert all(abs(b - 0.25) < 5 * (0.25 * 0.75 / 20000) ** 0.5 for b in below)
        return
    p, _ = many(kind, *args)
    td.manual_seed(3)
    n = 20000
    x = np.asarray(p.sample((n,)).to(td.float64))
    again = np.asarray(td.manual_seed(3) and p.sample((n,)).to(td.float64))
    assert np.array_equal(x, again) and x.shape == (n, *p.batch_shape, *p.event_shape)
    if kind == "Categorical":
        x, mean, variance = np.eye(3)[x.astype(int)], np.asarray(p.probs.detach()), np.asarray((p.probs * (1 - p.probs)).detach())
    else:
        mean, variance = np.asarray(p.mean.detach()), np.asarray(p.variance.detach())
    assert (abs(x.mean(0) - mean) < 5 * np.sqrt(variance / n)).all(), (x.mean(0), mean)
    if kind != "StudentT":  # whose fourth moment is infinite or nearly
        fourth = ((x - mean) ** 4).mean(0)
        assert (abs(((x - mean) ** 2).mean(0) - variance) < 5 * np.sqrt((fourth - variance**2).clip(1e-30) / n)).all(), (x.var(0), variance)


def test_gamma_draws_are_gamma_and_have_their_gradient():
    torch = pytest.importorskip("torch")
    td.manual_seed(5)
    a = td.tensor([1e-3, 0.05, 0.7, 1.0, 3.0, 50.0, 1e4], dtype=td.float64).requires_grad_()
    x = td.distributions._gamma.log_gamma_draws((4000, 7), a)
    u = np.sort(np.asarray(td.distributions.Gamma(a.detach(), td.ones_like(a)).cdf(x.exp().clamp(1e-300, None)).detach())[:, 1:], 0)
    gap = abs(u - (np.arange(4000)[:, None] + 0.5) / 4000).max(0)
    assert (gap * 4000**0.5 < 2.2).all(), gap  # Kolmogorov: beyond once in 8000
    (slope,) = td.autograd.grad(x.exp()[0].sum(), a)
    z = x.detach().exp()[0]
    expected = torch._standard_gamma_grad(torch.tensor(a.tolist(), dtype=torch.float64), torch.tensor(z.tolist(), dtype=torch.float64))
    np.testing.assert_allclose(slope.tolist()[1:], expected.tolist()[1:], rtol=2e-3)
    x, w = np.polynomial.legendre.leggauss(200)
    for shape, at in ((0.3, 0.1), (0.3, 1.5), (1.0, 2.0), (4.0, 2.0), (4.0, 9.0)):  # P and dP/da as integrals over t = at s^k
        k = 8 / min(shape, 1.0)
        log_t = math.log(at) + k * np.log((x + 1) / 2)
        share = np.exp(shape * log_t - np.exp(log_t)) * k / (x + 1) * w
        psi = td.digamma(td.tensor(shape, dtype=td.float64)).item()
        exact = (psi * share.sum() - (share * log_t).sum()) / math.exp(shape * math.log(at) - at)
        found = td.distributions._gamma._slope(td.tensor(shape, dtype=td.float64), td.tensor(math.log(at), dtype=td.float64)).item()
        assert found == pytest.approx(exact, rel=1e-9), (shape, at)
    # E[log z] = digamma(a) has trigamma as its gradient.
    (of_mean,) = td.autograd.grad(td.distributions._gamma.log_gamma_draws((20000, 7), a).mean(0).sum(), a)
    np.testing.assert_allclose(of_mean.tolist(), td.polygamma(1, a).tolist(), rtol=0.06)


@pytest.mark.parametrize("kind, args, value, other", [c for c in CASES if c[0] in SMOOTH and c[0] != "Cauchy"], ids=[n for n, c in zip(NAMES, CASES) if c[0] in SMOOTH and c[0] != "Cauchy"])
def test_gradients_of_draws(kind, args, value, other):
    """The gradient of the mean of draws is that of the mean."""
    p, given = many(kind, *args)
    td.manual_seed(7)
    params, n = [g for g in given if td.is_tensor(g)], 20000
    weights = td.linspace(0.5, 1.5, max(math.prod(p.event_shape), 1), dtype=td.float64).reshape(p.event_shape)

    def grads(of):
        return [np.asarray(g) if g is not None else 0.0 for g in td.autograd.grad((of * weights).sum(), params, allow_unused=True, retain_graph=True)]

    parts = [grads(p.rsample((n // 20,)).mean(0)) for _ in range(20)]
    for i, expected in enumerate(grads(p.mean)):
        each = np.stack([part[i] + np.zeros(params[i].shape) for part in parts])
        wide = each.std(0, ddof=1) / 20**0.5
        assert (abs(each.mean(0) - expected) <= 7 * wide + 1e-9).all(), (params[i], each.mean(0), expected, wide)  # 19 degrees: 7 is as rare as 5 sigma


def test_independent_and_transformed():
    torch = pytest.importorskip("torch")

    def made(lib):
        d, kw = lib.distributions, {"dtype": lib.float64}
        loc, scale = lib.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], **kw), lib.tensor([0.5, 1.0, 2.0], **kw)
        base = d.Normal(loc, scale)
        tr = d.transforms
        chains = [[tr.SigmoidTransform()], [tr.TanhTransform()], [tr.AffineTransform(0.5, -2.0), tr.ExpTransform()], [tr.ExpTransform().inv.inv, tr.AffineTransform(1.0, 3.0)]]
        return d.Independent(base, 1), [d.TransformedDistribution(base, c) for c in chains], d.Independent(d.Normal(loc * 2, scale), 1)

    (p, ours, p2), (q, others, q2) = made(td), made(torch)
    assert p.batch_shape == (2,) and p.event_shape == (3,) and p.sample((4,)).shape == (4, 2, 3)
    x = q.sample()
    same(p.log_prob(td.tensor(x.tolist(), dtype=td.float64)), q.log_prob(x)), same(p.entropy(), q.entropy())
    same(td.distributions.kl_divergence(p, p2), torch.distributions.kl_divergence(q, q2))
    assert p.expand((5, 2)).log_prob(td.zeros(3, dtype=td.float64)).shape == (5, 2)
    for a, b in zip(ours, others):
        y = b.sample()
        mine = td.tensor(y.tolist(), dtype=td.float64)
        same(a.log_prob(mine), b.log_prob(y)), same(a.cdf(mine), b.cdf(y)), same(a.icdf(td.full((2, 3), 0.3, dtype=td.float64)), b.icdf(torch.full((2, 3), 0.3, dtype=torch.float64)))
        assert a.rsample((4,)).shape == (4, 2, 3)
    with pytest.raises(ValueError, match="from 0 to 2"):
        td.distributions.Independent(td.distributions.Normal(td.zeros(2, 3), 1.0), 3)


def test_errors_say_what_is_wrong():
    d = td.distributions
    for make_one, said in ((lambda: d.Normal(0.0, -1.0), "Expected parameter scale .* GreaterThan"), (lambda: d.Uniform(1.0, 0.0), "low >= high"),
                           (lambda: d.Bernoulli(1.5), "Expected parameter probs"), (lambda: d.Bernoulli(), "Either `probs` or `logits`"),
                           (lambda: d.Bernoulli(0.5, 0.5), "but not both"), (lambda: d.Categorical(0.5), "at least one dimension"), (lambda: d.Geometric(0.0), "never succeed"),
                           (lambda: d.Multinomial(td.ones(2), td.ones(2)), "one whole number"), (lambda: d.MultivariateNormal(td.zeros(2)), "Exactly one"),
                           (lambda: d.MultivariateNormal(td.zeros(2), -td.eye(2)), "Expected parameter covariance_matrix"),
                           (lambda: d.MultivariateNormal(td.zeros(2), td.eye(3)), r"\(2,\) and \(3, 3\)"),
                           (lambda: d.MultivariateNormal(td.zeros(2), scale_tril=td.ones(2, 2)), "LowerCholesky"),
                           (lambda: d.Gamma(1.0, 1.0).log_prob(td.tensor(-1.0)), "within the support"), (lambda: d.Normal(0.0, 1.0).log_prob(1.0), "must be a tensor"),
                           (lambda: d.Dirichlet(td.ones(3)).log_prob(td.ones(2)), "event_shape"), (lambda: d.Poisson(1.0).log_prob(td.tensor(0.5)), "within the support"),
                           (lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]), "list of Transforms")):
        with pytest.raises(ValueError, match=said):
            make_one()
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert math.isnan(d.Gamma(td.tensor(2.0), 1.0, validate_args=False).log_prob(td.tensor(-1.0)).item())
    for call in (lambda: d.Bernoulli(0.5).rsample(), lambda: d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0)), lambda: d.Normal(0.0, 1.0).enumerate_support()):
        with pytest.raises(NotImplementedError):
            call()

    class Mine(d.Normal):
        pass

    @d.register_kl(Mine, d.Normal)
    def _(p, q):
        return 5

    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)) == 5 and d.kl_divergence(d.Normal(0.0, 1.0), Mine(0.0, 1.0)).item() == 0
    with pytest.raises(TypeError, match="two classes"):
        d.register_kl(3, d.Normal)
    assert "Normal(loc: 0.0, scale: 1.0)" == repr(d.Normal(0.0, 1.0)) and d.Normal(td.zeros(2), 1).sample((0,)).shape == (0, 2)


def test_who_is_not_told_checks_by_default():
    normal = td.distributions.Normal
    before = td.distributions.Distribution._validate_args
    try:
        for on in (False, True):
            td.distributions.Distribution.set_default_validate_args(on)
            with pytest.raises(ValueError, match="Expected parameter scale") if on else contextlib.nullcontext():
                normal(0.0, -1.0)
            with pytest.raises(ValueError, match="Expected parameter scale"):
                normal(0.0, -1.0, validate_args=True)
        with pytest.raises(ValueError, match="expects True or False, not 2"):
            td.distributions.Distribution.set_default_validate_args(2)
    finally:
        td.distributions.Distribution.set_default_validate_args(before)


@pytest.mark.parametrize("concentration", [td.inf, td.nan, -1.0, 0.0])
def test_draws_of_what_is_no_concentration_are_nan(concentration):
    """Nothing would ever be accepted."""
    a = td.tensor([concentration, 2.0])
    for family in (td.distributions.Gamma(a, 1.0, validate_args=False), td.distributions.Chi2(a, validate_args=False)):
        x = family.sample((5,))
        assert x[:, 0].isnan().all() and (x[:, 1] > 0).all()
    assert td.distributions.Dirichlet(a, validate_args=False).sample().isnan().any()


def test_paths_of_pytorch():
    """Each of its modules is there, with what it is named after."""
    for name in ("bernoulli.Bernoulli", "categorical.Categorical", "distribution.Distribution", "half_normal.HalfNormal", "multivariate_normal.MultivariateNormal",
                 "normal.Normal", "relaxed_categorical.RelaxedOneHotCategorical", "studentT.StudentT", "utils.lazy_property", "von_mises.VonMises", "exp_family.ExponentialFamily"):
        module, member = name.split(".")
        found = getattr(importlib.import_module(f"tensord.distributions.{module}"), member)
        assert found is getattr(td.distributions, member, found)


def test_utils():
    torch = pytest.importorskip("torch")
    u = td.distributions.utils
    m = np.arange(18.0).reshape(2, 3, 3)
    for diag in (-1, 0, 1):
        got = [lib.distributions.utils.tril_matrix_to_vec(lib.tensor(m), diag) for lib in (td, torch)]
        same(*got)
        same(*(lib.distributions.utils.vec_to_tril_matrix(v, diag) for lib, v in zip((td, torch), got)))
    with pytest.raises(ValueError, match="cannot be expressed"):
        u.vec_to_tril_matrix(td.ones(4))
    with pytest.raises(ValueError, match="outside"):
        u.tril_matrix_to_vec(td.ones(2, 2), 2)
    with pytest.raises(ValueError, match="Number"):
        u.broadcast_all("x")
    p = np.array([0.2, 0.3, 0.5])
    for binary in (False, True):
        same(*(lib.distributions.utils.probs_to_logits(lib.tensor(p), binary) for lib in (td, torch)))
        same(*(lib.distributions.utils.logits_to_probs(lib.tensor(p), binary) for lib in (td, torch)))

    class Squared(td.distributions.Distribution):
        def __init__(self, x):
            self.x, self.asked = x, 0
            super().__init__(x.shape, validate_args=False)

        @u.lazy_property
        def square(self):
            self.asked += 1
            return self.x * self.x

    d = Squared(td.ones(2, requires_grad=True))
    with td.no_grad():
        assert d.square.requires_grad and d.square is d.square and d.asked == 1
    assert isinstance(Squared.square, property)


@pytest.mark.parametrize("logit", [1e3, 80.0, 30.0, 0.1, -30.0, -1e3])
def test_continuous_bernoulli_of_large_logits(logit):
    torch = pytest.importorskip("torch")
    got = []
    for lib in (td, torch):
        l = lib.tensor([logit], requires_grad=True)
        d = lib.distributions.ContinuousBernoulli(logits=l)
        at = d.log_prob(lib.tensor([[0.0], [0.3], [1.0]]))
        at.sum().backward()
        got.append([*at.detach().numpy().ravel(), l.grad.item(), d.mean.item(), d.variance.item()])
    np.testing.assert_allclose(*got, rtol=2e-5, atol=1e-6)


def test_modes_of_shares():
    d = td.distributions
    rows = [[2, 2, 1], [3, 2, 1], [0.5, 0.2, 0.2], [0.2, 0.2, 0.5], [1, 1, 1], [2, 0.5, 0.5]]
    np.testing.assert_allclose(d.Dirichlet(td.tensor(rows)).mode.numpy(), [[0.5, 0.5, 0], [2 / 3, 1 / 3, 0], [1, 0, 0], [0, 0, 1], [np.nan] * 3, [1, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(d.Beta(td.tensor([2.0, 0.3, 3.0]), td.tensor([0.5, 0.2, 2.0])).mode.numpy(), [1, 1, 2 / 3], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_are_inside(dtype):
    """Of concentrations near 0 most are within rounding of 0 or 1, whose logarithm or that of the rest would be infinite."""
    a = td.full((20000,), 1e-3, dtype=getattr(td, dtype))
    x = td.distributions.Beta(a, a).sample()
    assert 0 < x.min().item() and x.max().item() < 1 and 0.45 < x.mean().item() < 0.55
    assert td.distributions.Dirichlet(a.reshape(-1, 4)).sample().min().item() > 0


def test_inverse_of_the_inverse():
    t = td.distributions.ComposeTransform([td.distributions.ExpTransform(), td.distributions.AffineTransform(1.0, 2.0)])
    assert t.inv.inv is t
    one = td.distributions.ExpTransform().inv
    assert one.inv.inv is one and copy.deepcopy(one).inv.inv is not one
    inverse = t.inv
    assert t.inv is inverse and copy.deepcopy(t) == t
    assert copy.copy(t).inv is not inverse
    assert inverse(t(td.tensor(0.5))).item() == pytest.approx(0.5)


def test_density_at_a_number():
    torch = pytest.importorskip("torch")
    for made in (lambda d: d.Gamma(2.0, 1.0), lambda d: d.Chi2(3.0)):
        same(*(made(lib.distributions).log_prob(1) for lib in (td, torch)))
