"""tensord.distributions.transforms, constraints, the ways to them, and divergences of all pairs: values, gradients and shapes as torch has them."""
import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
from torch.distributions import kl  # noqa: E402

D, M = td.distributions, td.distributions.constraints
C = torch.distributions.constraints
V, SQUARE = [[0.1, -0.4, 0.7], [1.2, 0.3, -2.0]], [[[0.1, -0.4, 0.7], [1.2, 0.3, -2.0], [0.2, 0.3, 0.4]]]


def same(x, y, rtol=1e-7, atol=1e-9):
    np.testing.assert_allclose(np.asarray(x.detach()), y.detach().numpy(), rtol=rtol, atol=atol)


def transforms(lib):
    """Names, transforms, and values to go through."""
    t, d, k = lib.distributions.transforms, lib.distributions, {"dtype": lib.float64}
    v, square = lib.tensor(V, **k), lib.tensor(SQUARE, **k)
    return {
        "exp": (t.ExpTransform(), v), "power": (t.PowerTransform(lib.tensor(2.5, **k)), v.abs()), "falling power": (t.PowerTransform(lib.tensor(-1.5, **k)), v.abs()),
        "sigmoid": (t.SigmoidTransform(), v), "tanh": (t.TanhTransform(), v), "abs": (t.AbsTransform(), v),
        "affine": (t.AffineTransform(lib.tensor([1.0, 2.0, 3.0], **k), -2.0), v), "affine of vectors": (t.AffineTransform(1.0, lib.tensor([1.0, -2.0, 3.0], **k), event_dim=1), v),
        "sticks": (t.StickBreakingTransform(), v), "softmax": (t.SoftmaxTransform(), v), "softplus": (t.SoftplusTransform(), v) if hasattr(t, "SoftplusTransform") else None,
        "correlations": (t.CorrCholeskyTransform(), v), "correlations of 4": (t.CorrCholeskyTransform(), v.reshape(6)), "correlations of 2": (t.CorrCholeskyTransform(), v[:, :1]),
        "cdf": (t.CumulativeDistributionTransform(d.Normal(lib.tensor(0.5, **k), 2.0)), v) if hasattr(t, "CumulativeDistributionTransform") else None,
        "none": (t.identity_transform, v), "one and sticks": (t.ComposeTransform([t.AffineTransform(0.5, 2.0), t.StickBreakingTransform()]), v),
        "back": (t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.5, 2.0)]).inv, v.abs() + 0.6),
        "sticks and more": (t.ComposeTransform([t.StickBreakingTransform(), t.AffineTransform(0.5, 2.0), t.ReshapeTransform((4,), (2, 2))]), v),
        "independent": (t.IndependentTransform(t.ExpTransform(), 1), v), "reshape": (t.ReshapeTransform((3,), (3, 1)), v),
        "cat": (t.CatTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2]), v), "cat of rows": (t.CatTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)]), v),
        "stack": (t.StackTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0), t.SigmoidTransform()], dim=-1), v),
        "root": (t.LowerCholeskyTransform(), square), "covariance": (t.PositiveDefiniteTransform(), square) if hasattr(t, "PositiveDefiniteTransform") else None,
    }


MADE = {name: (mine, theirs) for (name, mine), theirs in zip(transforms(td).items(), transforms(torch).values()) if theirs is not None}


def outcome(f, *args):
    try:
        return f(*args)
    except (ValueError, NotImplementedError) as e:
        return ValueError if isinstance(e, ValueError) else NotImplementedError


@pytest.mark.parametrize("name", MADE)
def test_transforms(name):
    (mine, x), (theirs, y) = MADE[name]
    x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
    a, b = mine(x), theirs(y)
    same(a, b), same(mine.inv(a), theirs.inv(b), 1e-6)
    assert mine.bijective == theirs.bijective and mine == mine and mine.inv.inv == mine
    if mine.bijective:
        same(mine.inv(a), y, 1e-6)
    for end in ("domain", "codomain"):
        if name != "cdf":
            assert repr(getattr(mine, end)).replace("tensord", "torch") == repr(getattr(theirs, end))
    assert repr(mine) == repr(theirs)
    for way in ("forward_shape", "inverse_shape"):
        for shape in (tuple(y.shape), tuple(b.shape), ()):
            expected = outcome(getattr(theirs, way), torch.Size(shape))
            assert outcome(getattr(mine, way), shape) == (expected if isinstance(expected, type) else tuple(expected)), (way, shape)
    expected = outcome(lambda: theirs.log_abs_det_jacobian(y, b))
    found = outcome(lambda: mine.log_abs_det_jacobian(x, a))
    if isinstance(expected, type):
        assert found is expected
        return
    # torch's 0 of no transform, and of a reshape, has no gradient.
    same(found, expected.expand(found.shape) if name == "none" else expected)
    if expected.requires_grad:
        (slope,), (there,) = td.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), y)
        same(slope, there, 1e-6)


def test_the_determinant_is_that_of_the_derivative():
    """By torch's own derivative of the same values: of what is triangular only by an argument."""
    for name in ("sticks", "correlations", "correlations of 4"):
        (mine, x), _ = MADE[name]
        for row in x.reshape(-1, x.shape[-1]):
            n = row.shape[0]
            if name == "sticks":
                free = mine(row).shape[0] - 1
                take = lambda z: mine(z)[:free]  # noqa: E731
            else:
                size = mine(row).shape[-1]
                places = [(i, j) for i in range(size) for j in range(i)]
                take = lambda z: td.stack([mine(z)[i, j] for i, j in places])  # noqa: E731
            jacobian = td.autograd.functional.jacobian(take, row)
            assert jacobian.shape == (n, n)
            td.testing.assert_close(mine.log_abs_det_jacobian(row, mine(row)), jacobian.det().abs().log(), rtol=1e-8, atol=1e-10)


def test_caches_signs_and_errors():
    t = D.transforms
    x = td.ones(3)
    for kept in (t.ExpTransform(cache_size=1), t.ExpTransform().with_cache(), t.IndependentTransform(t.ExpTransform(), 1, cache_size=1), t.ComposeTransform([t.ExpTransform()], cache_size=1)):
        assert kept.inv(kept(x)) is x and kept(x) is kept(x)
    assert t.ExpTransform() == t.ExpTransform() and t.AffineTransform(0.0, 1.0) != t.AffineTransform(0.0, 2.0) and t.ExpTransform() != t.TanhTransform()
    assert t.ExpTransform().sign == 1 and t.AffineTransform(0.0, -2.0).sign == -1 and t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.0, -2.0)]).sign == -1
    with pytest.raises(NotImplementedError, match="StickBreakingTransform has no sign"):
        t.StickBreakingTransform().sign
    with pytest.raises(NotImplementedError, match="no log_abs_det_jacobian"):
        t.SoftmaxTransform().log_abs_det_jacobian(x, x)
    for make, said in ((lambda: t.ReshapeTransform((2,), (3,)), "different numbers of elements"), (lambda: t.ExpTransform(cache_size=2), "cache_size must be 0 or 1"),
                       (lambda: t.CatTransform([t.ExpTransform()], lengths=[1, 2]), "as many lengths"), (lambda: t.StackTransform([3]), "list of transforms"),
                       (lambda: t.StackTransform([t.ExpTransform()])(x), "1 transforms"), (lambda: t.CorrCholeskyTransform()(td.ones(2)), "lower-diagonal"),
                       (lambda: t.LowerCholeskyTransform().inv.event_dim and t.CorrCholeskyTransform().event_dim, "domain.event_dim"),
                       (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), t.StickBreakingTransform()), "size at least 1")):
        with pytest.raises(ValueError, match=said):
            make()


WAYS = [("real", 3), ("positive", 3), ("nonnegative", 3), ("unit_interval", 3), ("simplex", 3), ("corr_cholesky", 3), ("real_vector", 3), ("lower_cholesky", 0), ("positive_definite", 0)]
BUILT = [lambda c: c.interval(1.0, 3.0), lambda c: c.less_than(2.0), lambda c: c.half_open_interval(0.0, 2.0), lambda c: c.greater_than(1.0), lambda c: c.independent(c.positive, 1),
         lambda c: c.cat([c.positive, c.real], -1, [1, 2]), lambda c: c.stack([c.positive, c.real, c.unit_interval], -1)]


@pytest.mark.parametrize("way", ["biject_to", "transform_to"])
def test_ways_to_constraints(way):
    mine, theirs = getattr(D, way), getattr(torch.distributions, way)
    for name, vector in WAYS:
        values = V if vector else SQUARE
        there = outcome(lambda: theirs(getattr(C, name)))
        if isinstance(there, type):
            if (way, name) != ("transform_to", "positive_definite"):  # older torches have none
                assert outcome(lambda: mine(getattr(M, name))) is there
            continue
        if name == "positive_definite":
            continue  # another way before torch 2
        x = mine(getattr(M, name))(td.tensor(values, dtype=td.float64))
        same(x, there(torch.tensor(values, dtype=torch.float64)))
        assert getattr(M, name).check(x).all().item(), name
    x = D.transform_to(M.positive_definite)(td.tensor(SQUARE, dtype=td.float64))
    assert M.positive_definite.check(x).all().item() and M.positive_semidefinite.check(x).all().item()
    for build in BUILT:
        x = mine(build(M))(td.tensor(V, dtype=td.float64))
        same(x, theirs(build(C))(torch.tensor(V, dtype=torch.float64)))
        assert build(M).check(x).all().item()


def test_own_constraints():
    class Even(M.Constraint):
        def check(self, value):
            return value % 2 == 0

    with pytest.raises(NotImplementedError, match="Cannot transform Even"):
        D.biject_to(Even())
    D.biject_to.register(Even, lambda c: D.AffineTransform(0.0, 2.0))
    assert D.biject_to(Even())(td.ones(1)).item() == 2 and repr(Even()) == "Even()"
    with pytest.raises(TypeError, match="Constraint subclass"):
        D.biject_to.register(int, lambda c: c)
    assert M.is_dependent(D.Uniform.support) and M.is_dependent(M.dependent) and not M.is_dependent(M.real) and M.dependent(event_dim=1).event_dim == 1
    with pytest.raises(ValueError, match="dependent"):
        M.dependent.check(td.ones(1))


VALUES = {"vectors": [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [2.0, 1.0, 1.5], [-1.0, float("nan"), 0.5]],
          "matrices": [[[1.0, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8]], [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]], [[-1.0, 0, 0], [0, 0, 0], [0, 0, 1]], [[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]],
          "no squares": [[[1.0, 0, 0], [0.6, 0.8, 0]]]}


@pytest.mark.parametrize("name", [n for n in C.__all__ if isinstance(getattr(C, n), C.Constraint) and n not in ("dependent", "dependent_property")])
def test_constraints(name):
    mine, theirs = getattr(M, name), getattr(C, name)
    assert mine.event_dim == theirs.event_dim and mine.is_discrete == theirs.is_discrete and repr(mine) == repr(theirs)
    for kind, value in VALUES.items():
        if kind == "no squares" and name not in ("square", "symmetric", "positive_definite", "positive_semidefinite"):
            continue
        if name == "positive_integer" or kind == "vectors" and mine.event_dim == 2:
            continue
        # One at a time: of several, torch looks no further than whether they are symmetric when one is not.
        expected = [theirs.check(torch.tensor(v, dtype=torch.float64)).tolist() for v in value]
        assert mine.check(td.tensor(value, dtype=td.float64)).tolist() == expected == [mine.check(td.tensor(v, dtype=td.float64)).tolist() for v in value], kind


def test_names():
    """All that torch has by these names."""
    for mine, theirs in ((D, torch.distributions), (D.transforms, torch.distributions.transforms), (M, C), (D.constraint_registry, torch.distributions.constraint_registry)):
        assert set(theirs.__all__) <= set(dir(mine)), set(theirs.__all__) - set(dir(mine))


PARAMETERS = {
    "Bernoulli": ([0.2, 0.7],), "Poisson": ([0.5, 2.0],), "Beta": ([0.5, 4.0], [1.5, 2.3]), "ContinuousBernoulli": ([0.2, 0.7],), "Exponential": ([0.5, 2.0],),
    "Gamma": ([0.5, 4.0], [1.5, 0.3]), "Normal": ([0.5, -1.0], [1.5, 0.3]), "Pareto": ([0.5, 1.0], [3.5, 5.0]), "Uniform": ([0.1, -0.5], [0.9, 2.0]), "Cauchy": ([0.5, -1.0], [1.5, 0.3]),
    "Gumbel": ([0.5, -1.0], [1.5, 0.3]), "Laplace": ([0.5, -1.0], [1.5, 0.3]), "HalfNormal": ([0.5, 2.0],), "Binomial": (4, [0.2, 0.7]), "Geometric": ([0.2, 0.7],),
    "Categorical": ([0.2, 0.8],), "OneHotCategorical": ([0.2, 0.8],), "Dirichlet": ([0.2, 0.8],), "LowRankMultivariateNormal": ([0.1, 0.2, 0.3], [[1.0, 0.5], [0.2, -0.3], [0.4, 0.1]], [1.0, 0.5, 2.0]),
    "MultivariateNormal": ([0.0, 0.5, 0.3], [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])}
PAIRS = sorted((a.__name__, b.__name__) for a, b in kl._KL_REGISTRY if a.__name__ in PARAMETERS)


def parameters(lib, kind, factor):
    return [lib.tensor([x * factor for x in v] if factor != 1 else v, dtype=lib.float64).requires_grad_() if isinstance(v, list) else v for v in PARAMETERS[kind]]


@pytest.mark.parametrize("kinds", PAIRS, ids=["-".join(p) for p in PAIRS])
def test_divergences(kinds):
    factor = 1 if kinds[1] in ("Bernoulli", "LowRankMultivariateNormal", "MultivariateNormal") else 1.1
    mine, theirs = ([*parameters(lib, kinds[0], 1), *parameters(lib, kinds[1], factor)] for lib in (td, torch))
    cut = len(PARAMETERS[kinds[0]])
    a, b = (lib.distributions.kl_divergence(getattr(lib.distributions, kinds[0])(*all[:cut]), getattr(lib.distributions, kinds[1])(*all[cut:])) for lib, all in ((td, mine), (torch, theirs)))
    same(a, b)
    if torch.isfinite(b).all():
        a.sum().backward(), b.sum().backward()
        for m, t in zip(mine, theirs):
            if td.is_tensor(m):
                same(m.grad if m.grad is not None else td.zeros_like(m), t.grad if t.grad is not None else torch.zeros_like(t))


def test_divergences_that_follow_from_others():
    from tensord.distributions.kl import _family

    d = td.float64
    for kind in ("Normal", "Bernoulli", "Beta", "Dirichlet", "Exponential", "Gamma", "Poisson", "ContinuousBernoulli"):  # by the log normalizer
        p, q = getattr(D, kind)(*parameters(td, kind, 1)), getattr(D, kind)(*parameters(td, kind, 1.2))
        td.testing.assert_close(_family(p, q), D.kl_divergence(p, q), rtol=1e-9, atol=1e-11)
    one, other = D.Wishart(td.tensor(5.0, dtype=d), td.eye(2, dtype=d)), D.Wishart(td.tensor(4.0, dtype=d), td.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=d))
    td.manual_seed(2)
    x = one.sample((40000,))
    apart = one.log_prob(x) - other.log_prob(x)
    assert abs(D.kl_divergence(one, other).item() - apart.mean().item()) < 5 * apart.std().item() / 200
    half = [D.HalfCauchy(td.tensor(s, dtype=d)) for s in (0.5, 2.0)]
    x = half[0].sample((40000,))
    apart = half[0].log_prob(x) - half[1].log_prob(x)
    assert abs(D.kl_divergence(*half).item() - apart.mean().item()) < 5 * apart.std().item() / 200
    base = [D.Gamma(*parameters(td, "Gamma", f)) for f in (1, 1.2)]
    td.testing.assert_close(D.kl_divergence(*(D.InverseGamma(p.concentration, p.rate) for p in base)), D.kl_divergence(*base))
    for p, q in ((D.LogNormal(0.0, 1.0), D.InverseGamma(1.0, 1.0)), (D.Wishart(3.0, td.eye(2)), D.Normal(0.0, 1.0))):
        with pytest.raises(NotImplementedError):
            D.kl_divergence(p, q)
