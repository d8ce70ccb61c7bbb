"""Kinds of tensord.distributions beside those of test_distributions.py: values and gradients as torch has them; draws against their cdf (Kolmogorov and
Smirnov) or their moments; gradients of draws against differences."""
import math
import warnings

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

D = td.distributions
P2 = [[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]]
COVARIANCE = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]]
ROOT = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]
FEW = ([0.1, 0.2, 0.3], [[1.0, 0.5], [0.2, -0.3], [0.4, 0.1]], [1.0, 0.5, 2.0])
# (kind, parameters, values). Parameters lie on both sides of where a mean or variance ends, and where a formula changes.
CASES = [
    ("Pareto", ([0.5, 2.0], [3.5, 5.0]), [0.9, 2.7]), ("Pareto", ([0.5, 2.0], [0.5, 1.5]), [0.9, 2.7]),
    ("Weibull", ([0.5, 2.0], [1.5, 3.0]), [0.1, 0.7]), ("Weibull", ([0.5, 2.0], [0.5, 1.0]), [0.1, 0.7]),
    ("HalfCauchy", ([0.5, 2.0],), [0.1, 0.7]),
    ("Kumaraswamy", ([0.5, 2.0], [1.5, 3.0]), [0.1, 0.7]),
    ("FisherSnedecor", ([3.0, 5.0], [9.0, 12.0]), [0.1, 0.7]), ("FisherSnedecor", ([1.0, 5.0], [1.0, 3.0]), [0.1, 0.7]),
    ("InverseGamma", ([5.5, 0.5], [1.5, 0.3]), [0.1, 0.7]),
    ("LogisticNormal", ([[0.1, 0.2], [0.3, 0.4]], [[0.5, 2.0], [1.0, 2.0]]), [0.2, 0.3, 0.5]),
    ("NegativeBinomial", ([2.5, 4.0], [0.2, 0.7]), [3.0, 0.0]), ("NegativeBinomial", ([2.5, 0.0], None, [0.2, -0.7]), [3.0, 0.0]),
    ("ContinuousBernoulli", ([0.2, 0.5, 0.4995],), [0.3, 0.7, 0.2]), ("ContinuousBernoulli", (None, [0.2, 0.0005]), [0.3, 0.7]),
    ("RelaxedBernoulli", ([0.7], [0.2, 0.7]), [0.3, 0.6]), ("RelaxedBernoulli", ([0.7], None, [0.2, -0.7]), [0.3, 0.6]),
    ("RelaxedOneHotCategorical", ([0.7], P2), [0.2, 0.3, 0.5]), ("RelaxedOneHotCategorical", ([0.7], None, P2), [0.2, 0.3, 0.5]),
    ("OneHotCategoricalStraightThrough", (P2,), [0.0, 0.0, 1.0]),
    ("VonMises", ([0.5, -1.0], [1.5, 0.3]), [0.1, -0.7]), ("VonMises", ([0.5, -1.0], [50.0, 1e-7]), [0.1, -0.7]),
    ("LKJCholesky", (3, [1.0, 2.5]), ROOT), ("LKJCholesky", (2, [0.5, 2.5]), [[1.0, 0.0], [0.6, 0.8]]),
    ("Wishart", ([5.0, 6.0], COVARIANCE), COVARIANCE), ("Wishart", ([5.0, 3.5], None, COVARIANCE), COVARIANCE),
    ("Wishart", ([5.0, 6.0], None, None, ROOT), COVARIANCE),
    ("LowRankMultivariateNormal", FEW, [0.5, 0.4, 2.0]), ("LowRankMultivariateNormal", (FEW[0], [FEW[1]] * 2, FEW[2]), [[0.5, 0.4, 2.0]] * 2),
]
NAMES = [f"{c[0]}{i}" for i, c in enumerate(CASES)]


def given(lib, args):
    return [lib.tensor(a, dtype=lib.float64).requires_grad_() if isinstance(a, list) else a for a in args]


def made(lib, kind, args):
    args = given(lib, args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(lib.distributions, kind)(*args), args


def same(x, y, rtol=1e-9, atol=1e-11):
    np.testing.assert_allclose(np.asarray(x.detach()), y.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind, args, value", CASES, ids=NAMES)
def test_formulas(kind, args, value):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.distributions, kind):
        pytest.skip(f"this torch has no {kind}")
    (p, mine), (q, theirs) = made(td, kind, args), made(torch, kind, args)
    assert p.batch_shape == tuple(q.batch_shape) and p.event_shape == tuple(q.event_shape) and p.has_rsample == q.has_rsample
    (x,), (y,) = given(td, [value]), given(torch, [value])
    a, b = p.log_prob(x), q.log_prob(y)
    near = 1e-3 if kind == "VonMises" else 1e-7  # Bessel functions are of 7 digits there, and less of their slopes
    same(a, b, near / 100 if kind == "VonMises" else near)
    a.sum().backward(retain_graph=True), b.sum().backward(retain_graph=True)
    for m, t in zip(mine, theirs):
        if td.is_tensor(m):
            expected = t.grad if t.grad is not None else torch.zeros_like(t)
            same(m.grad if m.grad is not None else td.zeros_like(m), expected.tril() if args[-1] is ROOT and t.ndim == 2 else expected, near)  # above, a root is not looked at
    if kind == "LogisticNormal":  # along the shares' sum there is no slope: what is the same is that along the shares
        same(x.grad - x.grad.mean(-1, True), y.grad - y.grad.mean(-1, keepdim=True), 1e-7)
    elif y.grad is not None:
        same(x.grad, y.grad, 1e-7)
    for what in ("mean", "mode", "variance", "stddev", "entropy", "covariance_matrix", "precision_matrix", "scale_tril"):
        try:
            expected = getattr(q, what)
            expected = expected() if callable(expected) else expected
        except (NotImplementedError, AttributeError):
            continue
        if (kind, what) == ("Kumaraswamy", "mode"):  # there it is nan for all: log1p(-b) of b > 1
            expected = torch.tensor([math.nan, (1 / 5) ** 0.5], dtype=torch.float64)
        found = getattr(p, what)
        same(found() if callable(found) else found, expected, near, 1e-6 if kind == "VonMises" else 1e-9)
    for what, at in (("cdf", value), ("icdf", [0.2, 0.9, 0.4][: len(value)])):
        try:
            expected = getattr(q, what)(torch.tensor(at, dtype=torch.float64))
        except (NotImplementedError, AttributeError):
            continue
        same(getattr(p, what)(td.tensor(at, dtype=td.float64)), expected, 1e-7)
    wide = p.expand((3, *p.batch_shape))
    assert wide.batch_shape == (3, *p.batch_shape) and wide.sample((4,)).shape == (4, 3, *p.batch_shape, *p.event_shape) and p.sample((0,)).shape[0] == 0
    same(wide.log_prob(x), q.expand((3, *p.batch_shape)).log_prob(y), near / 100 if kind == "VonMises" else near)
    assert type(p.support).__name__ == type(q.support).__name__ and p.support.check(p.sample((50,))).all().item()


def test_generalized_pareto():
    """float32, as torch's takes nothing else; where k is 0, above and below."""
    torch = pytest.importorskip("torch")
    args, value = ([0.5, -1.0, 0.0, 0.0], [1.5, 0.3, 2.0, 1.0], [0.2, -0.3, 0.0, 0.7]), [0.9, -0.7, 1.0, 5.0]
    p = D.GeneralizedPareto(*(td.tensor(a) for a in args))
    for z, k, s in zip((np.array(value) - args[0]) / args[1], args[2], (1 - p.cdf(td.tensor(value))).tolist()):
        assert s == pytest.approx((1 + k * z) ** (-1 / k) if k else math.exp(-z), rel=1e-5)
    td.testing.assert_close(p.icdf(p.cdf(td.tensor(value))), td.tensor(value), rtol=1e-4, atol=1e-5)
    assert p.support.check(p.sample((1000,))).all().item() and p.mean[:3].isfinite().all() and p.variance[3].isnan().item()
    if hasattr(torch.distributions, "GeneralizedPareto"):
        q = torch.distributions.GeneralizedPareto(*(torch.tensor(a) for a in args))
        for name in ("log_prob", "cdf", "log_cdf", "log_survival_function"):
            same(getattr(p, name)(td.tensor(value)), getattr(q, name)(torch.tensor(value)), 1e-5, 1e-6)
        for name in ("mean", "variance", "mode"):
            same(getattr(p, name), getattr(q, name), 1e-5)
        same(p.entropy(), q.entropy(), 1e-6), same(p.icdf(td.tensor([0.2, 0.5, 0.9, 0.3])), q.icdf(torch.tensor([0.2, 0.5, 0.9, 0.3])), 1e-5, 1e-6)


def furthest(u):
    """How far numbers that should be uniform are from it, times the root of how many: above 2.2 once in 8000."""
    u = np.sort(u, 0)
    n = len(u)
    return (abs(u - (np.arange(n) + 0.5).reshape(-1, *[1] * (u.ndim - 1)) / n).max(0) * n**0.5).max()


WITH_CDF = [("Pareto", CASES[0][1]), ("Weibull", CASES[2][1]), ("GeneralizedPareto", ([0.5, -1.0, 0.0], [1.5, 0.3, 2.0], [0.2, -0.3, 0.0])),
            ("HalfCauchy", CASES[4][1]), ("Kumaraswamy", CASES[5][1]), ("InverseGamma", CASES[8][1]), ("ContinuousBernoulli", CASES[12][1])]


@pytest.mark.parametrize("kind, args", WITH_CDF, ids=[c[0] for c in WITH_CDF])
def test_draws_have_their_cdf(kind, args):
    p, params = made(td, kind, args)
    td.manual_seed(11)
    x = p.rsample((5000,))
    assert furthest(np.asarray(p.cdf(x.detach()).detach())) < 2.2
    # A draw's slope by a parameter is that of icdf at the same chance: -(dcdf/dparameter) / density; of one draw each.
    params = [a for a in params if td.is_tensor(a)]
    if kind == "InverseGamma":  # the incomplete gamma function has no gradient here
        return
    some = x[:20].detach().requires_grad_()
    density = p.log_prob(some).exp().detach()
    for a in params:
        for j in range(a.shape[0]):
            (one,) = td.autograd.grad(x[3, j], a, retain_graph=True)
            (of_cdf,) = td.autograd.grad(p.cdf(some)[3, j], a, retain_graph=True)
            np.testing.assert_allclose(one[j].item(), -of_cdf[j].item() / density[3, j].item(), rtol=1e-6, atol=1e-9)


def test_draws_have_their_density():
    """What has no cdf here: against integrals of the density."""
    td.manual_seed(12)
    for p, low, high in ((D.VonMises(td.tensor([0.5, -3.0, 1.0], dtype=td.float64), td.tensor([1.5, 40.0, 1e-7], dtype=td.float64)), -math.pi, math.pi),
                         (D.FisherSnedecor(td.tensor([3.0, 5.0, 1.0], dtype=td.float64), td.tensor([9.0, 2.0, 12.0], dtype=td.float64)), 0.0, math.inf),
                         (D.RelaxedBernoulli(td.tensor(0.7, dtype=td.float64), td.tensor([0.2, 0.7, 0.5], dtype=td.float64)), 0.0, 1.0)):
        x = np.asarray(p.sample((4000,)))
        grid = np.linspace(0, 1, 200001)[1:-1, None]
        at = low + (high - low) * grid if high < math.inf else (grid / (1 - grid)) ** 2
        slope = high - low if high < math.inf else 2 * grid / (1 - grid) ** 3
        density = np.exp(np.asarray(p.log_prob(td.tensor(at)))) * slope / len(grid)
        whole = np.cumsum(density, 0)
        assert abs(whole[-1] - 1).max() < 2e-2
        u = np.stack([np.interp(x[:, j], at[:, 0], whole[:, j]) for j in range(3)], 1)
        assert furthest(u) < 2.6, type(p)


MOMENTS = [("NegativeBinomial", ([2.5, 4.0], [0.2, 0.7])), ("Wishart", ([5.0, 6.0], COVARIANCE)), ("Wishart", ([5.0, 3.5], None, None, ROOT)), ("LowRankMultivariateNormal", FEW),
           ("OneHotCategoricalStraightThrough", (P2,)), ("FisherSnedecor", ([3.0, 5.0], [19.0, 22.0]))]


@pytest.mark.parametrize("kind, args", MOMENTS, ids=[c[0] for c in MOMENTS])
def test_moments(kind, args):
    """Means and squares of 20000 draws: within five of their standard deviations."""
    p, _ = made(td, kind, args)
    td.manual_seed(3)
    n = 20000
    x, mean, variance = (np.asarray(v.detach()) for v in (p.sample((n,)), p.mean, p.variance))
    assert (abs(x.mean(0) - mean) < 5 * np.sqrt(variance / n) + 1e-12).all()
    fourth = ((x - mean) ** 4).mean(0)
    assert (abs(((x - mean) ** 2).mean(0) - variance) < 6 * np.sqrt((fourth - variance**2).clip(1e-30) / n)).all()


@pytest.mark.parametrize("kind, args", [m for m in MOMENTS if m[0] not in ("NegativeBinomial", "OneHotCategoricalStraightThrough")], ids=["W1", "W2", "L", "F"])
def test_gradients_of_draws(kind, args):
    """The gradient of the mean of draws is that of the mean; by a covariance, as it stays symmetric."""
    p, params = made(td, kind, args)
    td.manual_seed(7)
    params = [a for a in params if td.is_tensor(a)]
    weights = td.linspace(0.5, 1.5, max(math.prod(p.event_shape), 1), dtype=td.float64).reshape(p.event_shape)

    def grads(of):
        found = [np.asarray(g) if g is not None else 0.0 for g in td.autograd.grad((of * weights).sum(), params, allow_unused=True, retain_graph=True)]
        return [g + g.T if args[-1] is COVARIANCE else g for g in found]

    parts = [grads(p.rsample((1000,)).mean(0)) for _ in range(20)]
    for i, expected in enumerate(grads(p.mean)):
        each = np.stack([part[i] + np.zeros(params[i].shape) for part in parts])
        assert (abs(each.mean(0) - expected) <= 7 * each.std(0, ddof=1) / 20**0.5 + 1e-9).all()


def test_roots_of_correlations():
    """At a concentration of 1 each correlation r of n = 3 is (r + 1) / 2 of a Beta(3/2, 3/2); Lewandowski et al., section 3."""
    td.manual_seed(4)
    for n, a in ((2, 1.0), (3, 1.0), (4, 2.5)):
        roots = D.LKJCholesky(n, td.tensor(a, dtype=td.float64)).sample((4000,))
        r = np.asarray(td.matmul(roots, roots.transpose(-1, -2)))
        b = a + (n - 2) / 2
        grid = np.linspace(0, 1, 20001)[1:-1]
        share = np.cumsum((grid * (1 - grid)) ** (b - 1))
        for i in range(n):
            for j in range(i):
                assert furthest(np.interp((r[:, i, j] + 1) / 2, grid, share / share[-1])) < 2.4, (n, a, i, j)


def test_straight_through():
    probs = td.tensor(P2, dtype=td.float64, requires_grad=True)
    p = D.OneHotCategoricalStraightThrough(probs)
    x = p.rsample((3,))
    assert set(np.asarray(x.detach()).round(12).ravel()) == {0.0, 1.0}
    (x[..., 0] * 2).sum().backward()
    (expected,) = td.autograd.grad((D.OneHotCategorical(probs).probs[..., 0] * 6).sum(), probs)
    td.testing.assert_close(probs.grad, expected)


def test_mixtures():
    torch = pytest.importorskip("torch")

    def build(lib):
        d, k = lib.distributions, {"dtype": lib.float64}
        w, loc, scale = (lib.tensor(v, **k).requires_grad_() for v in ([[0.2, 0.8], [0.5, 0.5]], [[0.0, 3.0], [1.0, -1.0]], [[1.0, 0.5], [2.0, 0.3]]))
        plain = d.MixtureSameFamily(d.Categorical(w), d.Normal(loc, scale))
        vectors = d.MixtureSameFamily(d.Categorical(w[0]), d.Independent(d.Normal(loc, scale), 1))
        return plain, vectors, (w, loc, scale)

    (p, v, mine), (q, u, theirs) = build(td), build(torch)
    for one, other, value in ((p, q, [0.3, -2.0]), (v, u, [0.3, -2.0])):
        a, b = one.log_prob(td.tensor(value, dtype=td.float64)), other.log_prob(torch.tensor(value, dtype=torch.float64))
        same(a, b)
        for x, y in zip(td.autograd.grad(a.sum(), mine, retain_graph=True), torch.autograd.grad(b.sum(), theirs, retain_graph=True)):
            same(x, y)
        same(one.mean, other.mean), same(one.variance, other.variance)
        assert one.sample((3, 4)).shape == tuple(other.sample((3, 4)).shape) and repr(one.support) == f"MixtureSameFamilyConstraint({one.component_distribution.support})"
        wide = one.expand((5, *one.batch_shape))
        assert wide.sample((3,)).shape == (3, 5, *one.batch_shape, *one.event_shape)
        same(wide.log_prob(td.tensor(value, dtype=td.float64)), other.expand((5, *one.batch_shape)).log_prob(torch.tensor(value, dtype=torch.float64)))
    same(p.cdf(td.tensor([0.3, -2.0], dtype=td.float64)), q.cdf(torch.tensor([0.3, -2.0], dtype=torch.float64)))
    td.manual_seed(6)
    assert furthest(np.asarray(p.cdf(p.sample((5000,))).detach())) < 2.2
    x = np.asarray(v.sample((20000,)))
    assert (abs(x.mean(0) - np.asarray(v.mean.detach())) < 5 * np.sqrt(np.asarray(v.variance.detach()) / 20000)).all()


def test_families_have_their_entropy():
    """By the derivative of the log normalizer, what each says itself; and its gradient, which is a second derivative."""
    for kind, args in (("Normal", ([0.5, -1.0], [1.5, 0.3])), ("Bernoulli", ([0.2, 0.7],)), ("Gamma", ([0.5, 4.0], [1.5, 0.3])), ("Exponential", ([0.5, 2.0],)),
                       ("ContinuousBernoulli", ([0.2, 0.7],))):
        p, params = made(td, kind, args)
        assert isinstance(p, D.ExponentialFamily)
        q = type("Plain", (type(p),), {"_mean_carrier_measure": 0.0, "entropy": D.ExponentialFamily.entropy})(*params)
        td.testing.assert_close(q.entropy(), p.entropy(), rtol=1e-9, atol=1e-9)
        by = [[0 * a if g is None else g for a, g in zip(params, td.autograd.grad(f.entropy().sum(), params, allow_unused=True, retain_graph=True))] for f in (q, p)]
        td.testing.assert_close(*by, rtol=1e-7, atol=1e-9)


def test_errors():
    v = td.zeros(2)
    for make, said in ((lambda: D.LKJCholesky(1), "greater than or equal to 2. Found dim=1"), (lambda: D.Pareto(1.0, 2.0).log_prob(td.tensor(0.5)), "GreaterThanEq"),
                       (lambda: D.MixtureSameFamily(D.Normal(v, 1.0), D.Normal(v, 1.0)), "Categorical"), (lambda: D.MixtureSameFamily(D.Categorical(td.ones(2)), 3), "Distribution"),
                       (lambda: D.MixtureSameFamily(D.Categorical(td.ones(2)), D.Normal(td.zeros(3), 1.0)), "does not equal"),
                       (lambda: D.MixtureSameFamily(D.Categorical(td.ones(3, 2)), D.Normal(td.zeros(4, 2), 1.0)), "not compatible"),
                       (lambda: D.Wishart(1.0, td.eye(3)), "greater than ndim - 1 = 2"), (lambda: D.Wishart(5.0), "Exactly one"),
                       (lambda: D.Wishart(5.0, td.ones(2, 3)), r"\(2, 3\)"), (lambda: D.LowRankMultivariateNormal(v, td.ones(3, 1), td.ones(2)), "2 x m"),
                       (lambda: D.LowRankMultivariateNormal(v, td.ones(2, 1), td.ones(3)), "shape 2"), (lambda: D.NegativeBinomial(3, 1.0), "HalfOpenInterval"),
                       (lambda: D.NegativeBinomial(-1, 0.5), "total_count"), (lambda: D.RelaxedBernoulli(1.0), "Either `probs` or `logits`"),
                       (lambda: D.VonMises(0.0, 0.0), "concentration"), (lambda: D.ContinuousBernoulli(1.5), "probs")):
        with pytest.raises(ValueError, match=said):
            make()
    with pytest.warns(RuntimeWarning, match="nearly singular"):
        D.Wishart(2.5, td.eye(3))
    assert D.VonMises(0.0, td.nan, validate_args=False).sample((2,)).isnan().all() and D.NegativeBinomial(0, 0.5).sample((9,)).sum().item() == 0
    assert D.NegativeBinomial(td.tensor([3, 4]), td.tensor([0.5, 0.25], dtype=td.float64)).total_count.dtype == td.float64, "as the probabilities"
    assert repr(D.Pareto(1.0, 2.0)) == "Pareto(alpha: 2.0, scale: 1.0)"
