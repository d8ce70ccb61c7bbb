"""Special functions, writing at places, scans and shapes: what is more than a row of the table, and values that are known from elsewhere."""
import bisect
import itertools
import math

import pytest
import tensord as td
from tensord.nn import functional as F

# (name, arguments, value): worked out with 40 digits from the definitions.
FACTS = [
    ("bessel_j0", (6.5,), 0.2600946055816064),
    ("bessel_j1", (6.5,), -0.15384130140997185),
    ("bessel_y0", (6.5,), -0.17324243491898234),
    ("bessel_y1", (6.5,), -0.27409127395927546),
    ("airy_ai", (-7.5,), 0.3217757163806479),
    ("airy_ai", (-3.0,), -0.37881429367765806),
    ("airy_ai", (-5.0,), 0.35076100902411433),
    ("airy_ai", (5.0,), 0.00010834442813607442),
    ("ndtri", (1e-20,), -9.262340089798407),
    ("erfinv", (0.999999,), 3.458910737275499),
    ("log_ndtr", (-30.0,), -454.3212439563432),
    ("erfcx", (-5.0,), 144009798674.66104),
    ("zeta", (2.0, 0.25,), 17.19732915450711),
    ("zeta", (3.0, -2.5,), 0.0541020258208637),
    ("zeta", (2.0, -100.25,), 19.729283325349364),
    ("digamma", (-10.5,), 2.3982391295357814),
    ("gammainc", (1000.0, 1010.0,), 0.6276789447369947),
    ("gammaincc", (0.001, 0.5,), 0.0005600666564707498),
    ("gammainc", (2.5, 1.5,), 0.3000141641213725),
    ("gammaincc", (20.5, 60.0,), 1.120159429896784e-09),
    ("i0", (50.0,), 2.9325537838493362e+20),
    ("i1", (-0.5,), -0.2578943053908963),
    ("modified_bessel_k0", (0.1,), 2.4270690247020164),
    ("modified_bessel_k1", (30.0,), 2.1677320018915495e-14),
]


@pytest.mark.parametrize("name, args, value", FACTS)
def test_known_values(name, args, value):
    got = getattr(td.special, name)(*(td.tensor(a, dtype=td.float64) for a in args)).item()
    assert got == pytest.approx(value, rel=1e-12)
    assert getattr(td.special, name)(*(td.tensor(a) for a in args)).dtype is td.float32


def test_absurd_arguments_end():
    x = td.tensor([1e300, -1e300, 1e-300, math.inf, -math.inf, math.nan, 0.0, -0.0, 1e15, -1e15 + 0.5], dtype=td.float64)
    for name in ("airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma gammaln entr erfcx erfinv i0 i0e i1 i1e log_ndtr modified_bessel_k0 modified_bessel_k1 ndtr ndtri "
                 "scaled_modified_bessel_k0 scaled_modified_bessel_k1 sinc spherical_bessel_j0 logit").split():
        assert getattr(td.special, name)(x).shape == x.shape
    for name in ("gammainc gammaincc zeta xlogy xlog1py chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
                 "laguerre_polynomial_l legendre_polynomial_p").split():
        assert getattr(td.special, name)(x[:, None], x[None]).isnan().shape == (10, 10)
    assert td.special.polygamma(150, x).shape == x.shape


def test_polynomials():
    x = td.tensor([-1.5, -1.0, -0.3, 0.0, 0.5, 1.0, 2.0], dtype=td.float64)
    one = td.ones(7, dtype=td.float64)
    for name, second, step in (("chebyshev_polynomial_t", x, None), ("chebyshev_polynomial_u", 2 * x, None), ("chebyshev_polynomial_v", 2 * x - 1, None), ("chebyshev_polynomial_w", 2 * x + 1, None),
                               ("hermite_polynomial_h", 2 * x, lambda k: (2 * x, 2 * k)), ("hermite_polynomial_he", x, lambda k: (x, k)),
                               ("laguerre_polynomial_l", 1 - x, lambda k: ((2 * k + 1 - x) / (k + 1), k / (k + 1))), ("legendre_polynomial_p", x, lambda k: ((2 * k + 1) / (k + 1) * x, k / (k + 1)))):
        f = getattr(td.special, name)
        before, now = one, second
        assert f(x, 0).tolist() == one.tolist() and f(x, -1).tolist() == [0] * 7
        for k in range(1, 12):
            a, b = step(k) if step else (2 * x, 1)
            before, now = now, a * now - b * before
            assert td.allclose(f(x, k + 1), now, rtol=1e-9, atol=1e-9), (name, k)
    assert td.special.shifted_chebyshev_polynomial_t(x, 3).tolist() == td.special.chebyshev_polynomial_t(2 * x - 1, 3).tolist()
    assert td.special.laguerre_polynomial_l(x, 2000).isnan().all()


def test_polynomials_of_nan():
    """Order 0 is 1 whatever x is, as PyTorch's; every other keeps a NaN."""
    for name in ("chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
                 "laguerre_polynomial_l legendre_polynomial_p").split():
        for dtype in (td.float32, td.float64):
            n = td.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, 9.0, 2000.0], dtype=dtype)
            got = getattr(td.special, name)(td.full((7,), math.nan, dtype=dtype), n).tolist()
            assert got[:3] == [0, 1, 1] and all(map(math.isnan, got[3:])), (name, dtype)


def test_polygamma_and_round():
    x = td.tensor([0.5, 1.5])
    assert td.polygamma(1, x).tolist() == x.polygamma(1).tolist() == td.special.polygamma(1, x).tolist()
    far = td.tensor([1e-3, 0.7, 25.5, -0.25, -30.7, 0.0, -2.0], dtype=td.float64)  # with 17 digits from the definition
    assert td.polygamma(1, far).tolist() == pytest.approx([1000001.6425331958, 2.8340491566946109, 0.039994669649562924, 18.541879647671606, 15.047365163581194, math.inf, math.inf], rel=2e-15)
    with pytest.raises(ValueError, match="negative n"):
        td.polygamma(-1, x)
    assert td.round(td.tensor([1.255, 2.5]), decimals=1).tolist() == pytest.approx([1.3, 2.5])
    assert td.tensor([1.5, 2.5]).round_().tolist() == [2, 2]


def test_gradients_twice():
    for f in (td.lgamma, td.erfinv, td.special.i0e, td.special.i1, td.special.i1e, td.sinc, td.special.erfcx, td.special.log_ndtr, td.special.ndtri, td.special.entr, td.logit,
              lambda x: td.logcumsumexp(x, 0), lambda x: td.xlogy(x, x + 1), lambda x: td.special.zeta(3.0, x), lambda x: td.logaddexp2(x, x * x)):
        x = td.tensor([0.3, 0.6, 0.45], dtype=td.float64, requires_grad=True)
        (g,) = td.autograd.grad(f(x).sum(), x, create_graph=True)
        (h,) = td.autograd.grad((g * td.tensor([1.0, 2.0, -1.0], dtype=td.float64)).sum(), x)
        step = 1e-4
        slope = [(sum((td.autograd.grad(f(y).sum(), y)[0] * td.tensor([1.0, 2.0, -1.0], dtype=td.float64)).tolist()) for y in
                  [td.tensor([v + sign * step * (i == k) for i, v in enumerate(x.tolist())], dtype=td.float64, requires_grad=True) for sign in (1, -1)]) for k in range(3)]
        assert h.tolist() == pytest.approx([(a - b) / (2 * step) for a, b in slope], rel=1e-4, abs=1e-5)
    a = td.tensor(2.0, requires_grad=True)
    with pytest.raises(td.Error, match="igamma"):
        td.igamma(a, td.tensor(1.0)).backward()
        td.sync()


def twice(f, at, dtype=td.float64):
    """A function's first and second derivative."""
    x = td.tensor(at, dtype=dtype, requires_grad=True)
    (g,) = td.autograd.grad(f(x).sum(), x, create_graph=True)
    return g.tolist(), td.autograd.grad(g.sum(), x)[0].tolist()


def test_gradients_twice_at_points():
    f64 = td.float64
    near = [0.0, 1e-9, -0.01, 0.06, 0.065, 0.5]  # with 17 digits from the definition
    first, second = twice(td.sinc, near)
    assert first == pytest.approx([0, -3.289868133696453e-09, 0.0328954344817124, -0.19669163195271142, -0.21295105657643915, -1.2732395447351628], rel=3e-14, abs=0)
    assert second == pytest.approx([-3.289868133696453, -3.289868133696453, -3.2888941000101957, -3.2548749569514603, -3.248814833545922, -1.1902271282389358], rel=1e-12)
    for f in (td.nn.functional.elu, td.nn.functional.selu, td.nn.functional.celu, lambda x: td.nn.functional.celu(x, 0.5)):
        assert twice(f, [0.0, -0.0, 1.0])[1] == [0, 0, 0]  # as PyTorch has it
        assert f(td.tensor(math.nan)).isnan()
    x, y = (td.tensor(v, dtype=f64, requires_grad=True) for v in ([-2.0, 2.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.5]))
    gx, gy = td.autograd.grad((x**y).sum(), (x, y), create_graph=True)
    assert gx.tolist() == [0, 0, 0, 0.25] and gy.tolist()[1:] == pytest.approx([math.log(2), 0, 2 * math.log(4)])
    mixed = 0.5 * math.log(4) * 0.5 + 0.5
    assert td.autograd.grad(gx.sum(), y, retain_graph=True)[0].tolist()[1:] == pytest.approx([0.5, 0, mixed])
    assert td.autograd.grad(gy.sum(), x)[0].tolist() == pytest.approx([-0.5, 0.5, 0, mixed])


def test_gradient_beside_infinity():
    x = td.tensor([1.0, 2.0, math.inf, 3.0, 4.0, 7.0])
    assert td.gradient(x)[0].tolist() == [1, math.inf, 0.5, -math.inf, 2, 3]
    assert td.gradient(x, spacing=2.0, edge_order=2)[0].tolist() == [-math.inf, math.inf, 0.25, -math.inf, 1, 2]


def test_products_of_complex_numbers_at_places():
    x, src = td.tensor([1 + 1j, 2, 3j], dtype=td.complex128, requires_grad=True), td.tensor([1j, 2 + 1j, 3], dtype=td.complex128, requires_grad=True)
    at = td.tensor([0, 0, 2])
    for out in (td.scatter_reduce(x, 0, at, src, "prod"), td.scatter(x, 0, at, src, reduce="multiply")):
        assert out.tolist() == [-3 + 1j, 2, 9j]
    assert td.scatter_reduce(x, 0, at, src, "prod", include_self=False).tolist() == [-1 + 2j, 2, 3]
    assert x.detach().clone().scatter_(0, at, 2j, reduce="multiply").tolist() == [-4 - 4j, 2, -6]
    td.scatter_reduce(x, 0, at, src, "prod").real.sum().backward()
    assert x.grad.tolist() == [-1 - 2j, 1, 3]  # the conjugate of what it is multiplied with
    assert src.grad.tolist() == pytest.approx([1 - 3j, -1 - 1j, -3j])
    for reduce in ("amax", "amin"):
        with pytest.raises(td.Error, match="no order"):
            td.scatter_reduce(x.detach(), 0, at, src.detach(), reduce).tolist()


def test_gradients_of_segments_with_nan():
    for values, reduce, want in (([1, math.nan, 3, 4, math.nan, 6], "max", [0, 1, 0, 1, 1, 0]), ([1, math.nan, 3, 4, math.nan, 6], "min", [0, 1, 1, 0, 1, 0]),
                                 ([1, math.nan, 3, 4, math.nan, math.nan], "max", [0, 1, 0, 1, 0.5, 0.5]), ([1, math.nan, 3, 4, math.nan, 6], "prod", [math.nan, 1, 4, 3, 6, math.nan])):
        x = td.tensor([float(v) for v in values], dtype=td.float64, requires_grad=True)
        td.segment_reduce(x, reduce, lengths=td.tensor([2, 0, 2, 2])).sum().backward()
        assert x.grad.tolist() == pytest.approx(want, nan_ok=True)


def test_deviations_beyond_squares():
    for dtype, values, want in ((td.float32, [1e30, 2e30], 7.0710677e29), (td.float32, [1e-30, 2e-30], 7.0710677e-31), (td.float16, [300.0, -300.0], 424.25)):
        for dim, x in ((0, td.tensor(values, dtype=dtype)), (1, td.tensor([values], dtype=dtype)), (0, td.tensor(values, dtype=dtype).reshape(2, 1))):
            assert td.std(x, dim).item() == pytest.approx(want, rel=1e-6)
    x = td.tensor([1e300, 2e300, -1e300], dtype=td.float64, requires_grad=True)
    assert td.var(x).item() == td.std(x).item() == math.inf
    td.std(x).backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_gradients_twice_where_forms_change():
    same, inf = td.tensor([-2.0, 0.0, 700.0], dtype=td.float64), math.inf
    for f, scale in ((td.logaddexp, 1.0), (td.logaddexp2, math.log(2))):  # of equal operands, too
        for g in (lambda x: f(x, same), lambda x: f(same, x)):
            assert twice(g, same.tolist()) == ([0.5] * 3, pytest.approx([0.25 * scale] * 3))
        ends = td.tensor([inf, -inf], dtype=td.float64)
        assert twice(lambda x: f(x, ends), [inf, -inf]) == ([0.5, 0.5], [0, 0])
    z = [-40.0, -3.0, 4.5, 8.0, 8.4, 8.6, 12.0, 37.0, 39.0, 1e300]
    for dtype in (td.float64, td.float32):
        first, second = twice(td.special.log_ndtr, [*z[:-1], 1e30], dtype)
        density = [math.exp(-0.5 * v * v) / math.sqrt(2 * math.pi) / (0.5 * math.erfc(-v / math.sqrt(2))) for v in z[1:-1]]
        rel, least = (1e-13, 0) if dtype is td.float64 else (1e-4, 1e-37)
        assert first[1:] == pytest.approx([*density, 0], rel=rel, abs=least) and first[0] == pytest.approx(40.024969, rel=1e-6)
        assert second[1:] == pytest.approx([*(-d * (v + d) for d, v in zip(density, z[1:])), 0], rel=rel * 100, abs=least * 100)
    for v in (-10.0, -19.5, -20.5, -25.0, -39.5, -40.5, 30.0):
        want = min(v, 0) - math.log1p(math.exp(-abs(v)))
        assert F.logsigmoid(td.tensor(v, dtype=td.float64)).item() == pytest.approx(want, rel=1e-15)
        first, second = twice(F.logsigmoid, v)
        slope = 1 / (1 + math.exp(v))
        assert first == pytest.approx(slope, rel=1e-15) and second == pytest.approx(-slope / (1 + math.exp(-v)), rel=1e-6, abs=1e-16)


def test_scatter_reduce():
    x, i, v = td.tensor([1.0, 2.0, 3.0]), td.tensor([0, 0, 2]), td.tensor([4.0, 0.5, 9.0])
    want = {"sum": ([5.5, 2, 12], [4.5, 2, 9]), "prod": ([2, 2, 27], [2, 2, 9]), "mean": ([5.5 / 3, 2, 6], [2.25, 2, 9]), "amax": ([4, 2, 9], [4, 2, 9]), "amin": ([0.5, 2, 3], [0.5, 2, 9])}
    for name, (with_self, without) in want.items():
        assert x.scatter_reduce(0, i, v, name).tolist() == pytest.approx(with_self)
        assert x.scatter_reduce(0, i, v, name, include_self=False).tolist() == pytest.approx(without)
    assert x.clone().scatter_reduce_(0, i, v, "sum").tolist() == [5.5, 2, 12]
    assert x.scatter(0, i, v, reduce="add").tolist() == [5.5, 2, 12] and x.clone().scatter_(0, i, 2.0, reduce="multiply").tolist() == [4, 2, 6]
    with pytest.raises(ValueError, match="reduce"):
        x.scatter_reduce(0, i, v, "median")
    with pytest.raises(IndexError):
        x.scatter_reduce(0, i + 2, v, "amax").tolist()
    m = td.tensor([[1, 2], [3, 4]])
    assert m.index_reduce(0, td.tensor([0, 0]), m + 5, "amax").tolist() == [[8, 9], [3, 4]]


def test_places():
    x = td.arange(6.0).reshape(2, 3)
    assert td.take(x, td.tensor([0, -1])).tolist() == [0, 5] and x.put(td.tensor([1]), td.tensor([9.0])).tolist() == [[0, 9, 2], [3, 4, 5]]
    assert x.index_copy(1, td.tensor([2]), td.tensor([[7.0], [8.0]])).tolist() == [[0, 1, 7], [3, 4, 8]]
    assert x.index_fill(1, td.tensor([0]), 9).tolist() == [[9, 1, 2], [9, 4, 5]]
    y = x.clone()
    assert y.index_put_((td.tensor([0]), td.tensor([1])), td.tensor(9.0)) is y and y[0, 1].item() == 9
    assert y.index_put_((y > 4,), td.tensor(0.0)).tolist() == [[0, 0, 2], [3, 4, 0]]
    assert x.index_put((td.tensor([0, 0]), td.tensor([0, 0])), td.tensor([1.0, 2.0]), accumulate=True)[0, 0].item() == 3
    assert td.unravel_index(td.tensor([5, 2]), (2, 3))[0].tolist() == [1, 0]
    assert x.where(x > 2, -1).tolist() == [[-1, -1, -1], [3, 4, 5]]
    assert td.argwhere(x > 4).tolist() == [[1, 2]] and td.nonzero_static(x > 3, size=3).tolist() == [[1, 1], [1, 2], [-1, -1]]
    with pytest.raises(td.Error):
        td.as_strided_scatter(x, td.ones(2), (2,), (1, 1))
    with pytest.raises(td.Error):
        td.as_strided_scatter(x, td.ones(2), (2,), (9,))


def test_unique_along_a_dimension():
    rows = [[2, 1], [0, 9], [2, 1], [2, 0]]
    values, inverse, counts = td.unique(td.tensor(rows), dim=0, return_inverse=True, return_counts=True)
    assert values.tolist() == sorted(map(list, {tuple(r) for r in rows})) and counts.tolist() == [1, 1, 2] and [values[k].tolist() for k in inverse] == rows
    wide = [[k * 7 % 3 for k in range(j, j + 9)] for j in (0, 1, 3, 0)]
    assert td.unique(td.tensor(wide), dim=0).tolist() == sorted(map(list, {tuple(r) for r in wide}))
    values, inverse, counts = td.unique_consecutive(td.tensor([[1, 2], [1, 2], [0, 5], [1, 2]]), return_inverse=True, return_counts=True, dim=0)
    assert values.tolist() == [[1, 2], [0, 5], [1, 2]] and inverse.tolist() == [0, 0, 1, 2] and counts.tolist() == [2, 1, 1]
    assert td.unique_consecutive(td.tensor([1, 1, 2, 2, 1])).tolist() == [1, 2, 1]


def test_scans():
    x = td.tensor([[1.0, math.nan, 3.0], [2.0, 2.0, 1.0]])
    values, indices = td.cummax(x, 1)
    assert values[1].tolist() == [2, 2, 2] and indices.tolist() == [[0, 1, 1], [0, 1, 1]]
    assert td.logcumsumexp(td.tensor([-math.inf, -math.inf, 1000.0]), 0).tolist() == [-math.inf, -math.inf, 1000]
    long = td.arange(100000).flip([0])
    assert td.cummin(long, 0)[0].tolist()[-1] == 0 and (td.cummax(long, 0).values == 99999).all()
    assert td.ones(3).cumsum_(0).tolist() == [1, 2, 3] and td.full((3,), 2.0).cumprod_(0).tolist() == [2, 4, 8]


def test_statistics():
    x = td.tensor([0.0, 1.0, 2.0, 4.0])
    for how, want in (("linear", 1.2), ("lower", 1), ("higher", 2), ("midpoint", 1.5), ("nearest", 1)):
        assert td.quantile(x, 0.4, interpolation=how).item() == pytest.approx(want)
    with_hole = td.tensor([math.nan, 1.0, 3.0])
    assert td.nanquantile(with_hole, 0.5).item() == 2 and td.nanmedian(with_hole).item() == 1 and math.isnan(td.quantile(with_hole, 0.5).item())
    assert with_hole.nanmedian(0).indices.item() == 1
    assert td.trapezoid(td.tensor([1.0, 2.0, 3.0]), dx=2).item() == 8 and td.cumulative_trapezoid(td.tensor([1.0, 2.0, 3.0])).tolist() == [1.5, 4]
    assert [g.tolist() for g in td.gradient(td.tensor([1.0, 4.0, 9.0]))] == [[3, 4, 5]]
    hist, edges = td.histogram(td.tensor([1.0, 2.0, 1.0]), 3, range=(0.0, 3.0))
    assert hist.tolist() == [0, 2, 1] and edges.tolist() == [0, 1, 2, 3]
    assert td.histogram(td.tensor([1.0, 3.0]), td.tensor([0.0, 2.0, 3.0]), weight=td.tensor([2.0, 5.0])).hist.tolist() == [2, 5]
    assert td.searchsorted(td.tensor([[1, 3], [2, 4]]), td.tensor([[3], [3]]), out_int32=True).tolist() == [[1], [1]]
    assert td.searchsorted(td.tensor([3, 1]), td.tensor([2]), sorter=td.tensor([1, 0])).tolist() == [1]
    nan, inf = float("nan"), float("inf")
    for right in (False, True):  # what is looked for: NaN stands behind all, in one row and in several
        assert td.searchsorted(td.tensor([1.0, 2.0]), td.tensor([nan, 2.0, -inf, inf]), right=right).tolist() == [2, 1 + right, 0, 2]
        assert td.searchsorted(td.tensor([[1.0, 2.0], [3.0, inf]]), td.tensor([[nan], [inf]]), right=right).tolist() == [[2], [1 + right]]
    for n in (*range(20), 63, 64, 65):  # all lengths beside a power of 2, below, at and above each element
        row, at = [2 * k for k in range(n)], list(range(-1, 2 * n + 1))
        for right, found in ((False, bisect.bisect_left), (True, bisect.bisect_right)):
            assert td.searchsorted(td.tensor(row), td.tensor(at), right=right).tolist() == [found(row, v) for v in at]


def test_shapes():
    x = td.arange(4).reshape(2, 2)
    assert td.block_diag(x, td.tensor(7), td.tensor([8, 9])).tolist() == [[0, 1, 0, 0, 0], [2, 3, 0, 0, 0], [0, 0, 7, 0, 0], [0, 0, 0, 8, 9]]
    v = td.tensor([1, 2, 3])
    assert [tuple(r) for r in td.combinations(v).tolist()] == list(itertools.combinations([1, 2, 3], 2))
    assert [tuple(r) for r in td.combinations(v, 3, True).tolist()] == list(itertools.combinations_with_replacement([1, 2, 3], 3))
    assert td.cartesian_prod(v, td.tensor([4])).tolist() == [[1, 4], [2, 4], [3, 4]]
    assert td.atleast_3d(v).shape == (1, 3, 1) and td.dstack((v, v)).shape == (1, 3, 2) and td.rot90(x).tolist() == [[1, 3], [0, 2]]
    assert [p.tolist() for p in td.hsplit(x, 2)] == [[[0], [2]], [[1], [3]]] and len(td.vsplit(x, [1])) == 2
    z = td.tensor([[1 + 2j, 3j]])
    assert z.H.tolist() == z.mH.tolist() == td.adjoint(z).tolist() == [[1 - 2j], [-3j]] and x.H.tolist() == [[0, 2], [1, 3]]
    y = td.arange(4.0)
    assert y.resize_(2, 1).tolist() == [[0], [1]] and y.resize_((2, 3)).shape == (2, 3) and y[0, :2].tolist() == [0, 1]
    with pytest.raises(td.Error, match="require grad"):
        td.ones(2, requires_grad=True).resize_(3)
    copied = td.view_copy(x, (4,))
    copied.fill_(9)
    assert x[0, 0].item() == 0 and [p.tolist() for p in td.split_copy(x, 1)] == [[[0, 1]], [[2, 3]]]
    assert x.sum_to_size(1, 2).tolist() == [[2, 4]] and x.split_with_sizes([1, 1])[1].tolist() == [[2, 3]]


def test_functions_in_place():
    x = td.tensor([0.25, 0.5])
    assert td.sqrt_(x) is x and x[0].item() == 0.5 and td.exp_(td.zeros(1)).item() == 1 and td.fill_(x, 3).tolist() == [3, 3]
    w = td.ones(2, requires_grad=True)
    with pytest.raises(td.AutogradError):
        w.cumsum_(0)
    assert td.tensor([1, 2]).lcm_(td.tensor([4, 3])).tolist() == [4, 6]


def test_special_has_all_of_pytorchs():
    torch = pytest.importorskip("torch")
    names = [n for n in dir(torch.special) if not n.startswith("_") and callable(getattr(torch.special, n)) and n != "Tensor"]
    assert [n for n in names if not hasattr(td.special, n)] == []


# ---- forms that PyTorch has: values are those of torch 2.13


def test_powers_of_bools():
    """A number True or False as an exponent leaves them bools; every other power is of the exponent's dtype, squares are of int64."""
    x = td.tensor([True, False])
    for made, dtype, want in ((x.square(), td.int64, [1, 0]), (td.square(td.tensor(True)), td.int64, 1), (x**True, td.bool, [True, False]), (td.pow(x, False), td.bool, [True, True]),
                              (x.clone().pow_(False), td.bool, [True, True]), (x**0, td.int64, [1, 1]), (x**2.0, td.float32, [1.0, 0.0]), (x ** td.tensor(2), td.int64, [1, 0]),
                              (2**x, td.int64, [2, 1]), (td.float_power(x, True), td.float64, [1.0, 0.0]), (td.square(x, out=td.empty(2)), td.float32, [1.0, 0.0])):
        assert made.dtype is dtype and made.tolist() == want
    many = td.arange(100000) % 3 == 0
    assert td.equal(many.square(), many.long()) and td.equal(many**True, many) and (many**False).all()
    for refused in (lambda: x**x, lambda: x ** td.tensor(True), lambda: True**x):
        with pytest.raises(TypeError, match='"pow" is not implemented for bool'):
            refused()
    for refused in (lambda: x.clone().square_(), lambda: x.clone().pow_(2), lambda: td.square(x, out=td.empty(2, dtype=td.bool))):
        with pytest.raises(TypeError, match="int64 can't be cast to bool"):
            refused()


def test_orders_say_that_they_are_stable():
    x = td.tensor([[2, 1, 2], [0, 0, 1]])
    for stable in (True, False, None):
        assert td.sort(x, stable=stable, dim=1, descending=True).indices.tolist() == [[0, 2, 1], [2, 0, 1]] == x.argsort(1, True, stable).tolist()
    assert x.sort(0).values.tolist() == [[0, 0, 1], [2, 1, 2]] and td.argsort(x).tolist() == [[1, 0, 2], [0, 1, 2]]
    with pytest.raises(TypeError, match="'stable' must be bool"):
        td.sort(x, stable="yes")


def test_diagonals_anywhere():
    x = td.tensor([[1, 2], [3, 4]])
    assert td.diag_embed(x, dim1=0, dim2=2).tolist() == [[[1, 0], [3, 0]], [[0, 2], [0, 4]]]
    assert td.diag_embed(x[0], 1, 1, 0).tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0]] and x.diag_embed().tolist() == [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    with pytest.raises(td.InvalidError, match="cannot be identical 1"):
        td.diag_embed(x, dim1=1, dim2=-2)


def test_covariances():
    x = td.tensor([[0.0, 1.0, 5.0]])
    assert td.cov(x).shape == td.corrcoef(x).shape == () and td.cov(x).item() == pytest.approx(7) and td.corrcoef(x).item() == 1
    assert td.cov(x, fweights=td.tensor([2, 1, 1])).item() == pytest.approx(5.6666665)
    for weights, words in (({"fweights": td.ones(3)}, "integral"), ({"aweights": td.tensor([1, 1, 1])}, "floating point"), ({"fweights": td.tensor([1, 1])}, "same numel"),
                           ({"aweights": td.tensor([1.0, -1.0, 1.0])}, "negative"), ({"fweights": td.ones(1, 3, dtype=td.int64)}, "one or fewer")):
        with pytest.raises(td.Error, match=words):
            td.cov(x, **weights)


def test_complex_numbers_from_nothing():
    assert td.linspace(1 + 1j, 2, 3).tolist() == [1 + 1j, 1.5 + 0.5j, 2] and td.linspace(1, 2, 3, dtype=td.complex128).dtype is td.complex128
    assert td.logspace(1 + 1j, 2, 2, dtype=td.complex128)[0].item() == pytest.approx(10 ** (1 + 1j))
    td.manual_seed(0)
    z, u = td.randn(20000, dtype=td.complex64), td.rand_like(td.zeros(1000, dtype=td.complex128))
    assert z.real.var().item() == pytest.approx(0.5, rel=0.05) and z.imag.var().item() == pytest.approx(0.5, rel=0.05) and abs((z.real * z.imag).mean().item()) < 0.02
    assert u.dtype is td.complex128 and 0 <= u.real.min().item() and u.imag.max().item() < 1 and td.randn_like(z).shape == z.shape
    assert td.normal(0.0, 1.0, (3,), device="cpu", requires_grad=True).requires_grad


def test_whole_numbers_stay_whole():
    i = td.arange(4).reshape(2, 2)
    assert td.addmv(i[0], i, i[0], beta=1.6, alpha=2.7).tolist() == [2, 7] and td.addmv(i[0], i, i[0], beta=0.6, alpha=0.2).dtype is td.int64
    assert td.baddbmm(i[None], i[None], i[None], beta=1.6, alpha=2.7).tolist() == [[[4, 7], [14, 25]]] == [td.addbmm(i, i[None], i[None], beta=1.6, alpha=2.7).tolist()]
    x = td.ones(2, 2)
    assert x.addmm_(td.eye(2), td.ones(2, 2), beta=2, alpha=3) is x and x.tolist() == [[5, 5], [5, 5]]


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm"])
def test_a_beta_of_zero_reads_nothing(name):
    """What is not read may be no number, must still fit, and has a gradient of 0."""
    m = td.tensor([[1.0, 2.0], [3.0, 4.0]])
    factors = {"addmm": (m, m), "addmv": (m, m[0]), "addr": (m[0], m[1])}.get(name, (m[None], m[None]))
    x, zero = td.full((2,), float("nan")).requires_grad_(), td.zeros(2)
    r = getattr(td, name)(x, *factors, beta=0, alpha=2)
    assert r.tolist() == getattr(td, name)(zero, *factors, alpha=2).tolist() and r.dtype is td.float32
    r.sum().backward()
    assert x.grad.tolist() == [0, 0]
    with pytest.raises(td.ShapeError):
        getattr(td, name)(td.zeros(5), *factors, beta=0)


def test_other_forms():
    x = td.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert td.repeat_interleave(td.tensor([1, 2]), output_size=3).tolist() == [0, 1, 1] == td.tensor([0, 1]).repeat_interleave(td.tensor([1, 2]), output_size=3).tolist()
    with pytest.raises(td.InvalidError, match="output_size is 5, but the repeats make 4"):
        x.repeat_interleave(2, 0, output_size=5)
    assert td.tensordot(td.ones(1, 2), x, ([0], [0])).tolist() == [[4, 6], [4, 6]]
    assert [t.shape for t in td.atleast_1d([td.tensor(1), x])] == [(1,), (2, 2)] and td.atleast_2d([td.tensor(1)]).shape == (1, 1)
    assert td.norm(x, "nuc").item() == pytest.approx(5.8309518) and [g.tolist() for g in td.gradient(x, spacing=None)] == [[[2, 2], [2, 2]], [[1, 1], [1, 1]]]
    assert td.tensor(2.0).index_reduce(0, td.tensor([0]), td.tensor(3.0), "prod").item() == 6 and x.__rdiv__(2).tolist() == (2 / x).tolist()
    assert td.linalg.vander(td.tensor(3.0), N=3).tolist() == [[1, 3, 9]] and td.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    with pytest.raises(td.InvalidError, match="multiple times"):
        td.gradient(x, dim=(0, -2))
    with pytest.raises(td.ShapeError, match="a factor is a matrix"):
        td.cholesky_inverse(td.tensor(2.0))
    with pytest.raises(IndexError, match="no dimensions"):
        td.fft.ihfft2(td.tensor(2.0), (1,), 0)
    with pytest.raises(IndexError, match="no dimensions"):
        td.roll(td.tensor(1.0), 1, 0)
    with pytest.raises(IndexError, match=">= 1-d"):
        td.flipud(td.tensor(1.0))
    for tolerance in ("rtol", "atol"):
        with pytest.raises(ValueError, match=tolerance + " must be greater"):
            td.isclose(x, x, **{tolerance: -1.0})
    with pytest.raises(td.DTypeError, match="float16: argument 'x' may be float32, float64"):
        td.view_as_complex(x.half())


def test_grids_of_counts():
    points = td.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 0.4], [3.0, 9.0]])
    hist, (x, y) = td.histogramdd(points, [2, 1], range=[0.0, 1.0, 0.0, 1.0])
    assert hist.tolist() == [[1], [2]] and x.tolist() == [0, 0.5, 1] and y.tolist() == [0, 1]
    hist = td.histogramdd(points[:3], [td.tensor([0.0, 1.0]), td.tensor([0.0, 0.5, 1.0])], weight=td.tensor([1.0, 2.0, 1.0]), density=True).hist
    assert hist.tolist() == [[1, 1]]
    with pytest.raises(td.InvalidError, match="points of 2 coordinates"):
        td.histogramdd(points, [2])


def test_norms_of_the_engine():
    x = td.arange(24.0).reshape(2, 4, 3)
    made, mean, rstd = td.native_layer_norm(x, (4, 3), None, None, 0.0)
    assert td.allclose(made, td.nn.functional.layer_norm(x, (4, 3), eps=0.0)) and mean.tolist() == [[[5.5]], [[17.5]]] and rstd.shape == (2, 1, 1)
    made, mean, rstd = td.native_group_norm(x, None, None, 2, 4, 3, 2, 0.0)
    assert td.allclose(made, td.nn.functional.group_norm(x, 2, eps=0.0)) and mean.tolist() == [[2.5, 8.5], [14.5, 20.5]] and rstd[0, 0].item() == pytest.approx(0.5855400)
    assert td.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)[1].tolist() == [7, 10, 13, 16]
    assert td.native_batch_norm(x, None, None, td.zeros(4), td.ones(4), False, 0.1, 0.0)[1].shape == (0,)
    assert td.constant_pad_nd(x[0, :1], (1, 0), 9.0).tolist() == [[9, 0, 1, 2]] and td.nn.functional.batch_norm(td.ones(0), td.ones(0), td.ones(0)).shape == (0,)


def test_losses_of_one_score():
    F = td.nn.functional
    assert F.multi_margin_loss(td.tensor(2.0), td.tensor(0)).item() == 0 == F.multilabel_margin_loss(td.tensor(2.0), td.tensor(0)).item()
    with pytest.raises(ValueError, match="margin must be greater than 0"):
        F.triplet_margin_loss(td.ones(1, 2), td.ones(1, 2), td.ones(1, 2), margin=-1.0)
    with pytest.raises(td.ShapeError, match="number or a vector"):
        F.prelu(td.ones(2, 2), td.ones(2, 1))


def test_gradients_where_nothing_moves():
    def grad(f, x):
        x = td.tensor(x, dtype=td.float64, requires_grad=True)
        return td.autograd.grad(f(x).sum(), x)[0].tolist()

    for p in (0, 0.5, 1, 2, 3, -1, -2, math.inf):
        assert grad(lambda x: td.linalg.norm(x, p), [0.0, 0.0]) == [0, 0], p
    assert td.linalg.norm(td.tensor([0.0, 4.0, math.nan]), 0).item() == 2 and td.linalg.norm(td.tensor([0.0, 4.0]), -1).item() == 0
    assert grad(lambda x: td.linalg.matrix_power(x, 0), [[1.0, 2.0], [3.0, 4.0]]) == [[0, 0], [0, 0]] == grad(lambda x: td.fill(x, 3), [[1.0, 2.0], [3.0, 4.0]])
    for f in (lambda x: td.linalg.vector_norm(x, 0.5), lambda x: td.masked_scatter(x[0], td.tensor([[True, False], [False, True]]), x[1]), lambda x: td.as_strided_scatter(x, x[0], (2,), (2,), 1),
              lambda x: td.cdist(x, x + 1, 0.5), lambda x: td.nn.functional.pdist(x, 3.0), lambda x: td.cholesky_solve(x, td.tril(x) + 2 * td.eye(2)),
              lambda x: td.native_group_norm(x.reshape(1, 4, 1), None, None, 1, 4, 1, 2, 0.1)[2]):
        assert td.autograd.gradcheck(f, td.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=td.float64, requires_grad=True))


def test_masked_has_torchs_dtypes():
    x, i, m = td.tensor([[1.0, 3.0]]), td.tensor([1, 2]), td.tensor([True, True])
    assert td.masked.argmax(x, 1).tolist() == [1] and td.masked.argmax(x, 1).dtype is td.float32 and td.masked.argmin(i, 0, mask=m).dtype is td.int64
    z = td.complex(x, x)
    assert td.masked.var(z, 1).dtype is td.masked.std(z, 1).dtype is td.complex64 and td.masked.var(z, 1)[0].item() == pytest.approx(4)
    assert td.masked.logsumexp(x).item() == pytest.approx(3.126928) and td.masked.logsumexp(i, 0).tolist() == 2


def test_complex_forms_of_what_was_for_real_numbers():
    z, w = td.tensor([1 + 2j, 0.5j, -3 + 0.5j], dtype=td.complex128, requires_grad=True), td.tensor([0.3 - 1j, 1j, 2.0], dtype=td.complex128, requires_grad=True)
    for f, by, given in ((F.silu, lambda z: z * z.sigmoid(), (z,)), (td.logaddexp, lambda z, w: (z.exp() + w.exp()).log(), (z, w)),
                         (lambda z: F.rms_norm(z, (3,), eps=0.5), lambda z: z / ((z * z).mean() + 0.5).sqrt(), (z,))):
        assert td.allclose(f(*given), by(*given), atol=1e-12)
        assert td.autograd.gradcheck(f, given) and td.autograd.gradgradcheck(f, given)
    far = td.tensor([-math.inf + 0j, math.inf + 0j, 1000 + 1j])
    assert td.logaddexp(far, far).real.tolist()[:2] == [-math.inf, math.inf] and td.allclose(td.logaddexp(far, far)[2], far[2] + math.log(2))


def test_a_step_goes_with_the_number_that_it_leaves():
    x, y = td.tensor([1.0, 2.0], requires_grad=True), td.tensor([2.0, 2.0], requires_grad=True)
    td.nextafter(x, y).sum().backward()
    assert x.grad.tolist() == [1, 0] and y.grad.tolist() == [0, 0]


def test_bounds_that_no_function_has_are_refused():
    x = td.arange(6).reshape(1, 2, 3)
    for call, says in ((lambda: F.softshrink(x.float(), -1), "at least 0"), (lambda: F.hardtanh(x, 2, 1), "no greater than")):
        with pytest.raises(td.InvalidError, match=says):
            call()
    assert td.allclose(F.local_response_norm(x, 3), F.local_response_norm(x.float(), 3), atol=1e-3)


def test_median_shares_its_gradient():
    x = td.tensor([1.0, 2.0, 2.0, 3.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5, 0]
    assert td.tensor([5, 1, 3]).median().item() == 3 and math.isnan(td.tensor([1.0, math.nan]).median().item())


def test_distances_far_from_the_origin():
    """By the differences: |x|^2 + |y|^2 - 2xy would leave no digit here."""
    x = td.tensor([[1e4, 1e4], [1e4 + 1, 1e4], [0.0, 0.0]], requires_grad=True)
    assert td.cdist(x, x)[0].tolist() == pytest.approx([0, 1, 1e4 * 2**0.5])
    td.cdist(x[:2], x[:2]).sum().backward()
    assert x.grad.tolist() == [[-2, 0], [2, 0], [0, 0]]


@pytest.mark.parametrize("dtype", [td.int8, td.int16, td.int32, td.uint8, td.bool])
def test_far_numbers_of_few_bits_are_not_close(dtype):
    least, most = (0, 1) if dtype is td.bool else (td.iinfo(dtype).min, td.iinfo(dtype).max)
    x, y = td.tensor([least, most, least, most], dtype=dtype), td.tensor([most, least, least, 0], dtype=dtype)
    assert td.isclose(x, y).tolist() == [False, False, True, False]
    half = td.tensor(least // 2 * 2, dtype=dtype)  # away from 0 by what wraps to itself
    assert td.isclose(half, td.zeros((), dtype=dtype)).item() is (least == 0)


def test_ldexp_is_exact():
    def scaled(v, k):
        try:
            return math.ldexp(v, k)
        except OverflowError:
            return math.copysign(math.inf, v)

    for dtype, powers in ((td.float32, range(-160, 140)), (td.float64, range(-1080, 1030))):
        for v in (1.5, -1.0, 0.0, math.inf):
            x, k = td.tensor(v, dtype=dtype), td.tensor(list(powers))
            want = td.tensor([scaled(v, n) for n in powers], dtype=td.float64).to(dtype)
            assert td.equal(td.ldexp(x, k), want), (dtype, v)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_places_are_told_as_they_were_given(dtype):
    x, kind = td.arange(6.0).reshape(2, 3), getattr(td, dtype)
    for k in (-3, -1, 0, 2):
        assert x.take_along_dim(td.tensor([[k], [0]], dtype=td.int64), 1).tolist() == [[k % 3], [3]]
    for wrong in (-4, 3):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for dimension 1 with size 3"):
            x.take_along_dim(td.tensor([[wrong], [0]]), 1).tolist()
    with pytest.raises(IndexError, match="index -7 is out of bounds for dimension 0 with size 6"):
        x.take_along_dim(td.tensor([-7])).tolist()
    for accumulate, expected in ((True, [2, 0, 1]), (False, [1, 0, 1])):
        assert td.zeros(3).index_put_((td.tensor([0, 0, -1], dtype=kind),), td.ones(3), accumulate=accumulate).tolist() == expected
        assert td.zeros(3).index_put((td.tensor([0, 0, -1], dtype=kind),), td.ones(3), accumulate).tolist() == expected
    assert td.zeros(3).index_put_((td.tensor([0, 1, 1], dtype=td.uint8),), td.tensor(2.0)).tolist() == [0, 2, 2], "uint8 is a mask, as in x[...]"
    assert td.zeros(2, 3).index_put_((td.tensor([True, False]), td.tensor([1], dtype=kind)), td.tensor(2.0)).tolist() == [[0, 2, 0], [0, 0, 0]]


def test_a_negative_zero_stays_one():
    x = td.tensor([-0.0, 0.0, -20.0])  # beside what the loop of small ones does not take, too
    for each in (x, x[:2], x.double()):
        assert [math.copysign(1, v) for v in td.special.bessel_j1(each)[:2].tolist()] == [-1, 1]


def test_slopes_beside_what_is_not_finite():
    """Where the steps are alike, the difference of both neighbours says all: the number between them takes no part."""
    x = td.tensor([1.0, float("nan"), 3.0, 7.0, float("inf"), 9.0])
    (slope,) = td.gradient(x, spacing=0.5)
    assert slope[1].item() == 2 and slope[4].item() == 2 and td.isnan(slope[2]) and slope[3].item() == float("inf")
    (slope,) = td.gradient(td.tensor([1.0, 2.0, 4.0]), spacing=0)
    assert slope.tolist() == [float("inf")] * 3


@pytest.mark.parametrize("dtype, far", [(td.float16, 300.0), (td.float32, 1e13), (td.float64, 1e110)])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_second_derivatives_of_gelu_of_what_is_large(approximate, dtype, far):
    """Squares and cubes of these are beyond range, where the function is straight."""
    x = td.tensor([-far, -25.0, 0.0, 25.0, far], dtype=dtype, requires_grad=True)
    (g,) = td.autograd.grad(F.gelu(x, approximate=approximate).sum(), x, create_graph=True)
    (gg,) = td.autograd.grad(g.sum(), x)
    assert g.tolist() == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-30)
    assert gg.tolist() == pytest.approx([0, 0, 0.7978845608, 0, 0], abs=1e-3)


def test_resize_to_the_shape_that_it_has():
    x = td.arange(6.0).view(2, 3).t()
    assert x.resize_(3, 2).tolist() == [[0, 3], [1, 4], [2, 5]] and x.stride() == (1, 3)
    assert td.zeros(24).resize_((1, 2, 3, 4), memory_format=td.channels_last).stride() == (24, 1, 8, 2)


def test_labels_of_einsum_by_their_order():
    """What is left without a word stands in the order of the labels' numbers, also beyond 26."""
    x = td.arange(6.0).view(2, 3)
    assert td.einsum(x, [30, 4]).tolist() == td.einsum(x, [1, 0]).tolist() == x.t().tolist()
    assert td.einsum(x, [4, 30]).tolist() == td.einsum(x, [4, 30], [4, 30]).tolist() == x.tolist()
    assert td.einsum(x, [30, 4], td.ones(3, 2), [4, 2]).tolist() == [[3, 12], [3, 12]]


@pytest.mark.parametrize("fill", [lambda out: td.arange(0, 6, out=out), lambda out: td.linspace(0, 5, 6, out=out), lambda out: td.logspace(0, 5, 6, out=out).log10_()])
def test_ranges_fill_what_has_room(fill):
    """A view of as many elements stays as it is, and what lies between them too."""
    x = td.full((2, 3, 4), -1.0)
    assert fill(x[..., 1]).shape == (2, 3)
    assert td.allclose(x[..., 1], td.arange(6.0).view(2, 3), atol=1e-6) and (x[..., ::2] == -1).all() and (x[..., 3] == -1).all()
    with pytest.warns(UserWarning, match="had the shape"):
        assert td.arange(0, 3, out=td.zeros(2, 2)).shape == (3,)


def test_a_block_of_nothing():
    made = td.block_diag()
    assert made.shape == (1, 0) and made.dtype is td.float32
