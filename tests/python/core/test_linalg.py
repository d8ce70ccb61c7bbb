"""tensord.linalg and what stands beside it: results that the table's examples and the oracle do not see (vectors without a sign of their own, errors,
forms of arguments, what is singular or not finite)."""
import functools
import math

import common
import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

KINDS = ["float32", "float64", "complex64", "complex128"]
CLOSE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-10, "complex128": 1e-10}


def draw(kind, *shape, seed=1):
    r = np.random.default_rng(seed)
    x = r.standard_normal(shape)
    if "complex" in kind:
        x = x + 1j * r.standard_normal(shape)
    return x.astype(kind)


def near(a, b, kind):
    a, b = (np.asarray(v.detach() if td.is_tensor(v) else v) for v in (a, b))
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    scale = max(1.0, float(np.abs(b).max()) if b.size else 1.0)
    assert np.abs(a - b).max(initial=0) <= CLOSE[kind] * scale, (a, b)


def h(x):
    return np.conj(np.swapaxes(x, -1, -2))


SHAPES = [(3, 3), (5, 2), (2, 5), (1, 1), (2, 3, 4, 4), (0, 3, 3), (2, 0, 0), (3, 0), (0, 3), (33, 40), (70, 31)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_value_decomposition(kind, shape):
    a = draw(kind, *shape)
    for full in (False, True):
        f = td.linalg.svd(td.tensor(a), full_matrices=full)
        u, s, vh = (np.asarray(t) for t in f)
        k = min(shape[-2:])
        near((u[..., :k] * s[..., None, :].astype(kind)) @ vh[..., :k, :], a, kind)
        near(h(u) @ u, np.broadcast_to(np.eye(u.shape[-1], dtype=kind), u.shape[:-2] + (u.shape[-1],) * 2), kind)
        near(vh @ h(vh), np.broadcast_to(np.eye(vh.shape[-2], dtype=kind), vh.shape[:-2] + (vh.shape[-2],) * 2), kind)
        near(td.linalg.svdvals(td.tensor(a)), s, kind)
        assert (np.diff(s, axis=-1) <= 1e-6).all() and f.Vh is f[2]


SQUARES = [(3, 3), (1, 1), (2, 3, 4, 4), (0, 3, 3), (2, 0, 0), (40, 40)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SQUARES)
def test_eigenvectors(kind, shape):
    a = draw(kind, *shape)
    w, v = (np.asarray(t) for t in td.linalg.eig(td.tensor(a)))
    near(a.astype(v.dtype) @ v, v * w[..., None, :], kind)
    near(np.linalg.norm(v, axis=-2), np.ones(v.shape[:-2] + v.shape[-1:], dtype=v.real.dtype), kind)
    near(np.sort_complex(np.round(np.asarray(td.linalg.eigvals(td.tensor(a))), 3)), np.sort_complex(np.round(w, 3)), "float32")
    s = a + h(a)
    w, q = (np.asarray(t) for t in td.linalg.eigh(td.tensor(s)))
    near((q * w[..., None, :].astype(kind)) @ h(q), s, kind)
    for side, here, there in ("L", np.tril, np.triu), ("U", np.triu, np.tril):
        rest = np.where(there(np.ones(shape), 1 if side == "L" else -1) > 0, np.nan, 0)  # that triangle is not looked at
        near(td.linalg.eigvalsh(td.tensor((here(s) + rest).astype(kind)), side), w, kind)


def test_layouts():
    """Turned, with gaps, seen again, broken into parts: the same."""
    a = draw("float64", 6, 6) + 4 * np.eye(6)
    x = td.tensor(a)
    wide = td.zeros(12, 18, dtype=td.float64)
    wide[::2, 1::3] = x
    turned = td.tensor(a.T.copy()).t()
    for y in (wide[::2, 1::3], turned, x.unsqueeze(0).expand(3, 6, 6)):
        for f in (td.linalg.inv, td.linalg.det, td.linalg.cholesky_ex, td.linalg.svdvals, lambda v: td.linalg.solve(v, x[:, :2]), lambda v: td.linalg.qr(v)[1], td.linalg.matrix_exp):
            one, other = f(x), f(y)
            one, other = (one, other) if td.is_tensor(one) else (one[0], other[0])
            near(other[0] if other.ndim > one.ndim else other, one, "float64")
    z = td.tensor(draw("complex128", 4, 4))
    near(td.linalg.inv(z.conj()), np.linalg.inv(np.conj(np.asarray(z))), "complex128")


def test_large():
    a = draw("float64", 300, 300)
    x = td.tensor(a)
    near(td.linalg.inv(x) @ x, np.eye(300), "float32")
    near(td.linalg.solve(x, x[:, :5]), np.eye(300)[:, :5], "float32")
    u, s, vh = td.linalg.svd(x, False)
    near((u * s) @ vh, a, "float64")
    w, v = td.linalg.eigh(x @ x.t())
    near((v * w) @ v.t(), a @ a.T, "float64")
    q, r = td.linalg.qr(x)
    near(q @ r, a, "float64")
    p, l, u = td.linalg.lu(x)
    near(p @ l @ u, a, "float64")


def test_what_is_singular():
    x = td.tensor([[1.0, 2.0], [2.0, 4.0]])
    for call, words in ((lambda: td.linalg.inv(x), "singular"), (lambda: td.linalg.solve(x, x), "singular"), (lambda: td.linalg.lu_factor(td.zeros(2, 2)), "is zero"),
                        (lambda: td.linalg.cholesky(-x), "leading minor of order 1"), (lambda: td.linalg.cholesky(td.stack([td.eye(2), -td.eye(2)])), "Batch element 1")):
        with pytest.raises(td.linalg.LinAlgError, match=words):
            call()
    assert issubclass(td.linalg.LinAlgError, RuntimeError) and td.LinAlgError is td.linalg.LinAlgError is td._C._LinAlgError
    assert td.linalg.inv_ex(x).info.tolist() == 2 and td.linalg.inv_ex(td.eye(2)).info.item() == 0
    assert td.linalg.cholesky_ex(td.stack([td.eye(2), -td.eye(2)])).info.tolist() == [0, 1]
    assert td.linalg.det(x).item() == 0 and td.linalg.slogdet(x).logabsdet.item() == -math.inf and td.linalg.slogdet(x).sign.item() == 0
    assert td.linalg.matrix_rank(x).item() == 1 and td.linalg.cond(x, 1).item() == math.inf
    near(td.linalg.pinv(x), np.linalg.pinv(np.asarray(x)), "float32")


FAILING = {
    "linalg_inv": lambda none, nan: td.linalg.inv(none), "inverse": lambda none, nan: none.inverse(), "linalg_solve": lambda none, nan: td.linalg.solve(none, none),
    "linalg_cholesky": lambda none, nan: td.linalg.cholesky(none), "cholesky": lambda none, nan: td.cholesky(none), "linalg_lu_factor": lambda none, nan: td.linalg.lu_factor(none),
    "linalg_ldl_factor": lambda none, nan: td.linalg.ldl_factor(none), "linalg_inv_ex": lambda none, nan: td.linalg.inv_ex(none, check_errors=True),
    "linalg_solve_ex": lambda none, nan: td.linalg.solve_ex(none, none, check_errors=True), "linalg_tensorinv": lambda none, nan: td.linalg.tensorinv(none.reshape(2, 1, 2), 1),
    "linalg_tensorsolve": lambda none, nan: td.linalg.tensorsolve(none, td.ones(2)), "matrix_power": lambda none, nan: none.matrix_power(-2), "linalg_svd": lambda none, nan: td.linalg.svd(nan),
    "linalg_svdvals": lambda none, nan: td.linalg.svdvals(nan), "linalg_eigh": lambda none, nan: td.linalg.eigh(nan), "linalg_eigvalsh": lambda none, nan: td.linalg.eigvalsh(nan),
    "linalg_eig": lambda none, nan: td.linalg.eig(nan), "linalg_eigvals": lambda none, nan: td.linalg.eigvals(nan), "linalg_pinv": lambda none, nan: td.linalg.pinv(nan),
    "linalg_lstsq": lambda none, nan: td.linalg.lstsq(nan, nan), "linalg_matrix_norm": lambda none, nan: td.linalg.matrix_norm(nan, 2), "linalg_matrix_rank": lambda none, nan: td.linalg.matrix_rank(nan),
    "linalg_cond": lambda none, nan: td.linalg.cond(nan), "norm": lambda none, nan: td.norm(nan, "nuc"), "pinverse": lambda none, nan: td.pinverse(nan),
}


@pytest.mark.parametrize("name", FAILING)
def test_errors_come_at_the_call(name):
    with pytest.raises(td.linalg.LinAlgError) as caught:
        FAILING[name](td.zeros(2, 2), td.full((2, 2), math.nan))
    assert str(caught.value).startswith(name.removeprefix("linalg_") + "(): ") and "asked for at" not in str(caught.value)
    td.sync()  # it is told once


def test_only_what_fails_for_its_values_waits():
    """A call waits for its own result: an earlier op's error stays with who looks at that."""
    none, nan, lost = td.zeros(2, 2), td.full((2, 2), math.nan), td.arange(3)[td.tensor([7])]
    assert td.linalg.inv(td.eye(2)).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(td.linalg.LinAlgError):
        td.linalg.inv(none)
    with pytest.raises(td.OutOfRange):
        lost.tolist()
    assert td.linalg.inv_ex(none).info.item() == 1 and nan.matrix_power(2).isnan().all() and td.linalg.matrix_norm(nan, 1).isnan()
    kept = td.ones(2, 2)
    with pytest.raises(td.linalg.LinAlgError):
        td.cholesky(none, out=kept)
    assert kept.tolist() == [[1, 1], [1, 1]]
    traced = td.jit.trace(lambda x: td.linalg.inv(x) * 2, (td.eye(2),))
    made = traced(none)  # a program's results come later, and so do its errors
    with pytest.raises(td.linalg.LinAlgError):
        made.tolist()


def test_gradients_of_what_is_singular():
    """The determinant of a singular matrix has its cofactors for a slope."""
    x = td.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=td.float64, requires_grad=True)
    td.linalg.det(x).backward()
    near(x.grad, np.array([[4.0, -2.0], [-2.0, 1.0]]), "float32")
    y = td.tensor(np.diag([3.0, 0.0, 0.0]), requires_grad=True)  # values alone have a slope where vectors have none
    td.linalg.svd(y)[1].sum().backward()
    assert td.isfinite(y.grad).all()


def test_what_is_not_finite():
    """It ends, with an error or with NaN."""
    for bad in (math.nan, math.inf, -math.inf):
        x = td.eye(40, dtype=td.float64)
        x[3, 2] = bad
        for f in (td.linalg.svd, td.linalg.svdvals, td.linalg.eig, td.linalg.eigvals, td.linalg.eigh, td.linalg.pinv, lambda v: td.linalg.lstsq(v, v)):
            with pytest.raises(td.linalg.LinAlgError, match="finite|infs or NaNs"):
                f(x)
        for f in (td.linalg.qr, td.linalg.inv_ex, td.linalg.lu_factor_ex, td.linalg.cholesky_ex, td.linalg.matrix_exp, td.linalg.ldl_factor_ex, td.linalg.slogdet):
            made = f(x)
            (made if td.is_tensor(made) else made[0]).tolist()
        assert td.isnan(td.linalg.matrix_exp(x)).any()


def test_shapes_that_do_not_fit():
    x, y = td.ones(2, 3), td.ones(3, 3)
    for call in (lambda: td.linalg.inv(x), lambda: td.linalg.det(x), lambda: td.linalg.cholesky(td.ones(3)), lambda: td.linalg.solve(y, x), lambda: td.linalg.eigh(x),
                 lambda: td.linalg.matrix_power(x, 2), lambda: td.linalg.solve_triangular(y, x, upper=True), lambda: td.linalg.svd(td.ones(2)),
                 lambda: td.linalg.multi_dot([x, x]), lambda: td.linalg.lu_solve(y, td.tensor([1, 2]), y), lambda: td.linalg.lstsq(y, x),
                 lambda: td.linalg.householder_product(x, td.ones(3)), lambda: td.linalg.tensorinv(x, 1)):
        with pytest.raises(td.Error):
            made = call()
            np.asarray(made if td.is_tensor(made) else made[0])
    for call in (lambda: td.linalg.eigh(y, "X"), lambda: td.linalg.qr(y, "x"), lambda: td.linalg.lstsq(y, y, driver="x"), lambda: td.linalg.matrix_norm(y, 3),
                 lambda: td.linalg.cond(y, "x"), lambda: td.linalg.norm(td.ones(2, 2, 2), 2)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(td.Error, match="not implemented for float16"):
        td.linalg.inv(td.ones(2, 2, dtype=td.float16)).tolist()


def test_sizes_beyond_reckoning():
    """Dimensions of 2^31 and more, seen again and again: refused, whatever else."""
    for shape in ((1 << 31, 1 << 10), (1 << 40, 2), (1 << 20, 1 << 20), (1 << 33, 0, 5)):
        x = td.ones(*[min(n, 1) for n in shape[:-1]], 1).expand(*shape)
        for f in (td.linalg.svdvals, td.linalg.eigvalsh, td.linalg.inv, td.linalg.det, td.linalg.pinv, td.linalg.matrix_exp, td.linalg.cholesky, td.geqrf):
            try:
                made = f(x)
                (made if td.is_tensor(made) else made[0]).sum().item()
            except td.Error:
                pass
    assert td.linalg.det(td.eye(2)).item() == 1


def test_pivots_are_checked():
    lu = td.eye(3)
    for bad in ([1, 2, 4], [0, 1, 2], [-1, 2, 3], [1 << 40, 1, 1]):
        with pytest.raises(IndexError):
            td.linalg.lu_solve(lu, td.tensor(bad), lu).tolist()
        with pytest.raises(td.Error):
            td.linalg.ldl_solve(lu, td.tensor([4, -5, 9] if bad[0] else [0, 1, 2]), lu).tolist()
    with pytest.raises(td.Error):
        td.linalg.ldl_solve(lu, td.tensor([1, 2, -3]), lu).tolist()


def test_older_forms():
    a = draw("float64", 5, 3)
    x = td.tensor(a)
    u, s, v = td.svd(x)
    near((u * s) @ v.t(), a, "float64")
    assert x.svd(compute_uv=False).U.abs().sum().item() == 0 and [t.shape for t in x.svd(some=False)] == [(5, 5), (3,), (3, 3)]
    q, r = x.qr()
    near(q @ r, a, "float64")
    near(td.pinverse(x), np.linalg.pinv(a), "float64")
    y = td.tensor(a.T @ a)
    near(y.inverse() @ y, np.eye(3), "float64")
    near(td.cholesky_solve(y, td.cholesky(y)), np.eye(3), "float64")
    near(td.lu_solve(y, *td.lu(y)), np.eye(3), "float64")
    near(td.triangular_solve(y, y.triu()).solution, np.linalg.solve(np.triu(a.T @ a), a.T @ a), "float64")
    near(td.orgqr(*td.geqrf(x)), np.asarray(q), "float64")
    near(td.ormqr(*td.geqrf(x), x, transpose=True)[:3], np.asarray(r), "float64")
    near(td.chain_matmul(x, y, y), a @ (a.T @ a) @ (a.T @ a), "float64")
    near(td.vander(x[:, 0], 3), np.vander(a[:, 0], 3), "float64")
    p, l, u = td.lu_unpack(*td.lu(x))
    near(p @ l @ u, a, "float64")
    z = td.zeros(3, dtype=td.float64)
    assert z.addmv_(y, td.ones(3, dtype=td.float64), beta=0) is z
    near(z, (a.T @ a).sum(1), "float64")


def test_low_rank():
    a = draw("float64", 20, 3) @ draw("float64", 3, 12, seed=2)
    u, s, v = td.svd_lowrank(td.tensor(a), 3)
    near((u * s) @ v.t(), a, "float64")
    u, s, v = td.svd_lowrank(td.tensor(a.T.copy()), 3)
    near((u * s) @ v.t(), a.T, "float64")
    u, s, v = td.pca_lowrank(td.tensor(a), 3)
    near((u * s) @ v.t(), a - a.mean(0), "float64")


def test_tolerances_of_tensors():
    a = td.tensor(np.stack([np.diag([4.0, 1.0, 0.1]), np.diag([2.0, 1.0, 0.5])]))
    assert td.linalg.matrix_rank(a, atol=td.tensor([0.5, 0.1], dtype=td.float64)).tolist() == [2, 3]
    assert td.linalg.matrix_rank(a, rtol=td.tensor([0.5, 0.4], dtype=td.float64)).tolist() == [1, 2]
    near(td.linalg.pinv(a, rtol=td.tensor([0.5, 0.1], dtype=td.float64))[0], np.diag([0.25, 0, 0]), "float64")
    assert td.linalg.matrix_rank(a, 0.7).tolist() == [2, 2]
    x = draw("float64", 2, 4, 2)
    near(td.linalg.pinv(td.tensor(x), rtol=td.tensor([0.0, 0.0], dtype=td.float64)), np.linalg.pinv(x), "float64")
    zero = td.zeros(2)
    assert td.linalg.pinv(td.zeros(2, 0, 3), atol=zero).shape == td.linalg.pinv(td.zeros(2, 0, 3)).shape == (2, 3, 0)
    for hermitian in (False, True):
        assert td.linalg.matrix_rank(td.zeros(2, 0, 0), hermitian=hermitian, atol=zero).tolist() == [0, 0]


NONE, SOME, ONE, MOST = (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.8)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("kind, atol, rtol, ranks", [  # those of PyTorch, where it takes both as these kinds
    ("float32", NONE, None, [2, 2]), ("float64", NONE, None, [3, 2]), ("float64", SOME, None, [3, 0]), ("float64", ONE, None, [1, 2]), ("float32", NONE, 0.25, [1, 2]),
    ("float32", ONE, 0.75, [1, 1]), ("float64", ONE, MOST, [1, 1]), ("float64", None, MOST, [3, 1]), ("float64", 1.0, MOST, [1, 0]), ("float64", 0.0, MOST, [3, 1])])
def test_what_counts_as_zero_beside_tensors(kind, atol, rtol, ranks, hermitian):
    """Up to the larger one of atol and rtol times the largest value; without rtol that of the dtype, where atol is no more than 0."""
    values = np.array([[4.0, 1.0, 1e-8], [-1.0, 0.75, 1e-17]], kind)
    a = td.tensor(np.stack([np.diag(v) for v in values]))
    atol, rtol = (td.tensor(x, dtype=a.dtype) if isinstance(x, tuple) else x for x in (atol, rtol))
    assert td.linalg.matrix_rank(a, hermitian=hermitian, atol=atol, rtol=rtol).tolist() == ranks
    wanted = [[1 / x if k < n else 0 for k, x in enumerate(v)] for v, n in zip(values, ranks)]
    near(td.linalg.pinv(a, hermitian=hermitian, atol=atol, rtol=rtol).diagonal(0, -2, -1), np.array(wanted, kind), kind)


def test_norms():
    a = draw("float64", 2, 4, 3)
    x = td.tensor(a)
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        for keep in (False, True):
            near(td.linalg.matrix_norm(x, order, keepdim=keep), np.linalg.norm(a, order, (-2, -1), keep), "float64")
        near(td.linalg.matrix_norm(x, order, (0, 1)), np.linalg.norm(a, order, (0, 1)), "float64")
        near(td.linalg.cond(x[:, :3], order), np.linalg.cond(a[:, :3], order), "float64")
    near(td.linalg.norm(x), np.array(np.linalg.norm(a)), "float64")
    near(td.linalg.norm(x[0], 2), np.array(np.linalg.norm(a[0], 2)), "float64")
    near(td.linalg.norm(x, 3, 1), np.linalg.norm(a, 3, 1), "float64")


def test_forms_of_norms():
    a = draw("float32", 2, 4, 3)
    x = td.tensor(a)
    for f, name in ((td.linalg.vector_norm, "vector_norm"), (td.linalg.matrix_norm, "matrix_norm"), (td.linalg.norm, "norm")):
        with pytest.raises(TypeError, match=rf"linalg.{name}\(\): Expected a floating point or complex tensor as input. Got tensord.int64"):
            f(td.ones(2, 2, dtype=td.int64))
        near(f(td.complex(x[0], x[1])), np.array(np.linalg.norm(a[0] + 1j * a[1])), "float32")
        assert f(x, dtype=td.float64).dtype is td.float64
    for order in ("fro", "nuc", 1):
        assert td.linalg.matrix_norm(x, order, (0, -1), True).shape == td.linalg.norm(x, order, (0, 2), True).shape == (1, 4, 1)
        assert td.linalg.matrix_norm(x, order, dtype=td.float64).dtype is td.float64
    near(td.linalg.norm(x, None, (0, 1)), np.linalg.norm(a.reshape(8, 3), axis=0), "float32")
    near(td.linalg.norm(x, 2, (0, 1)), np.linalg.norm(a, 2, (0, 1)), "float32")
    near(td.linalg.norm(x[0], 1, keepdim=True, dtype=td.float64), np.linalg.norm(a[0].astype("float64"), 1, keepdims=True), "float64")
    near(td.linalg.norm(x[0, 0], 1), np.array(np.linalg.norm(a[0, 0], 1)), "float32")
    for wrong, kind, said in (
        (lambda: td.linalg.vector_norm(x, "fro"), TypeError, "'ord' must be a number, not 'fro'"), (lambda: td.linalg.matrix_norm(x[0, 0]), td.ShapeError, "at least 2 dimensions, but it has 1"),
        (lambda: td.linalg.matrix_norm(x, "fro", (1,)), ValueError, r"2-tuple of different dimensions. Got \(1,\)"),
        (lambda: td.linalg.matrix_norm(x, "fro", (1, -2)), ValueError, r"2-tuple of different dimensions. Got \(1, -2\)"), (lambda: td.linalg.matrix_norm(x, "no"), ValueError, "Order no not supported"),
        (lambda: td.linalg.matrix_norm(x, 3), ValueError, "Order 3 not supported"), (lambda: td.linalg.norm(x, 2), td.ShapeError, "must be 1D or 2D. Got 3D"),
        (lambda: td.linalg.norm(x[0, 0, 0], 2), td.ShapeError, "must be 1D or 2D. Got 0D"), (lambda: td.linalg.cond(x[0, :3], "no"), ValueError, "invalid norm type: no"),
        (lambda: td.linalg.cond(x[0, :3], 3), ValueError, "invalid norm type: 3"), (lambda: td.linalg.cross(x, x[0]), td.ShapeError, "the same number of dimensions, not 3 and 2"),
        (lambda: td.linalg.svd(x, driver="gesvd"), ValueError, "only supported on CUDA"), (lambda: td.linalg.svdvals(x, driver="gesvdj"), ValueError, "only supported on CUDA"),
        (lambda: td.linalg.svd(x, driver="no"), ValueError, "unknown svd driver no"), (lambda: td.linalg.svdvals(x, driver="no"), ValueError, "unknown svd driver no"),
    ):
        with pytest.raises(kind, match=said):
            wrong()


def test_exponentials_of_matrices():
    """Each dtype by itself; the half ones in float32."""
    for kind, turn, wanted in ((td.float64, 1.0, [[math.cos(1), math.sin(1)], [-math.sin(1), math.cos(1)]]), (td.complex128, 1j, [[math.cosh(1), 1j * math.sinh(1)], [-1j * math.sinh(1), math.cosh(1)]])):
        near(td.linalg.matrix_exp(td.tensor([[0, turn], [-turn, 0]], dtype=kind)), np.array(wanted), "float64")
    for half in (td.float16, td.bfloat16):
        made = td.linalg.matrix_exp(td.tensor([[0, 1], [-1, 0]], dtype=half))
        assert made.dtype is half and abs(made[0, 1].item() - math.sin(1)) < 0.01
    with pytest.raises(TypeError, match="matrix_exp.*int64"):
        td.linalg.matrix_exp(td.eye(2, dtype=td.int64))
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        td.linalg.matrix_exp([[1.0]])


def test_given_tensors():
    x, out = td.tensor([[2.0, 0.0], [0.0, 4.0]]), td.zeros(2, 2)
    assert td.linalg.inv(x, out=out) is out and out.tolist() == [[0.5, 0.0], [0.0, 0.25]]
    q, r = td.zeros(2, 2), td.zeros(2, 2)
    assert td.linalg.eigh(td.eye(2), out=(q[0], r))[1] is r


def test_least_squares():
    a, b = draw("float64", 2, 6, 3), draw("float64", 2, 6, 2, seed=5)
    for driver in (None, "gelsy", "gelsd", "gelss", "gels"):
        f = td.linalg.lstsq(td.tensor(a), td.tensor(b), driver=driver)
        near(f.solution, np.linalg.pinv(a) @ b, "float64")
        assert f.rank.tolist() == ([] if driver == "gels" else [3, 3]) and f.singular_values.shape == ((2, 3) if driver in ("gelsd", "gelss") else (0,))
    near(f.residuals, (np.abs(a @ np.linalg.pinv(a) @ b - b) ** 2).sum(-2), "float64")
    near(td.linalg.lstsq(td.tensor(a), td.tensor(b[..., 0].copy())).solution, (np.linalg.pinv(a) @ b)[..., 0], "float64")


# Of complex matrices: what does not depend on the phases of vectors.
FUNCTIONS = {
    "svd": lambda lib, x: (lambda f: (f[0] * (f[1] ** 2).to(x.dtype).unsqueeze(-2)) @ f[2])(lib.linalg.svd(x, full_matrices=False)),
    "svd vectors": lambda lib, x: f2(lib, lib.linalg.svd(x, full_matrices=False)),
    "eigh": lambda lib, x: (lambda f: (f[1] * f[0].exp().to(x.dtype).unsqueeze(-2)) @ f[1].transpose(-2, -1).conj())(lib.linalg.eigh(x @ x.transpose(-2, -1).conj())),
    "eig": lambda lib, x: (lambda f: (f[1] * f[0].exp().unsqueeze(-2)) @ lib.linalg.inv(f[1]))(lib.linalg.eig(uneven(x))),
    "eigvals": lambda lib, x: (lib.linalg.eigvals(uneven(x)) ** 2).sum(),
    "qr": lambda lib, x: sum((t * t.conj()).sum() * k for k, t in enumerate(lib.linalg.qr(x), 1)),
    "cond": lambda lib, x: lib.linalg.cond(x),
    "lu": lambda lib, x: lib.linalg.lu(x)[1].sum() + (lib.linalg.lu(x)[2] ** 2).sum(),
    "norm": lambda lib, x: lib.linalg.matrix_norm(x, "nuc") + lib.linalg.matrix_norm(x, 2),
}


def uneven(x):
    """Square, and not Hermitian."""
    s = x @ x.transpose(-2, -1)
    return s + s.triu(1) * 0.3


def f2(lib, f):
    """Projections on some of the vectors."""
    u, v = f[0][..., :1], f[2][..., :1, :]
    return (u @ u.transpose(-2, -1).conj()).sum() + (v.transpose(-2, -1).conj() @ v)[..., :1].sum() + u @ v


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (2, 2, 4)])
def test_gradients_are_pytorchs(name, kind, shape):
    torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
    a, grads = draw(kind, *shape, seed=7), []
    for lib in (td, torch):
        x = lib.tensor(a, requires_grad=True)
        y = FUNCTIONS[name](lib, x)
        y = lib.real(y) if y.is_complex() else y
        (y * y).sum().backward()
        grads.append(np.array(x.grad.detach() if lib is td else x.grad.resolve_conj()))
    near(grads[0], grads[1], "float32")


if common.SANITIZED:
    SHAPES, SQUARES = SHAPES[:5], SQUARES[:4]


@pytest.mark.parametrize("kind", KINDS)
def test_a_determinant_beyond_all_numbers_is_infinite(kind):
    if "complex" not in kind:  # (inf + 0i) * (a + 0i) has no sign, in PyTorch either
        x = draw(kind, 600, 600) * 4
        assert float(td.linalg.det(td.tensor(x))) == np.linalg.slogdet(x)[0] * math.inf
    big, small = (1e30, 1e-30) if kind in ("float32", "complex64") else (1e200, 1e-300)
    x = np.diag(np.array([big, small, big, small, 3], kind))
    near(td.linalg.det(td.tensor(x)), np.linalg.det(x), kind)
    if kind == "float64":
        assert float(td.linalg.det(td.tensor([1e200, 1e200, 1e-300, 1e-300], dtype=td.float64).diag())) == math.inf


def cofactors(x):
    n = x.shape[-1]
    return np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(n)] for i in range(n)]).reshape(n, n).conj()


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("n, rank", [(1, 0), (2, 2), (2, 1), (2, 0), (3, 3), (3, 2), (3, 1), (3, 0), (4, 3), (5, 5), (5, 3), (5, 2)])
def test_derivatives_of_determinants_of_any_rank(kind, n, rank):
    a = draw(kind, n, rank) @ draw(kind, rank, n, seed=2)
    x = td.tensor(a, requires_grad=True)
    near(td.autograd.grad(td.linalg.det(x), x, td.tensor(1, dtype=x.dtype), create_graph=True)[0], cofactors(a), kind)
    assert td.autograd.gradgradcheck(td.linalg.det, (x,))


def test_derivatives_of_determinants_of_several_and_of_what_is_not_finite():
    a = np.array([[[1.0, 2, 3], [2, 4, 6], [1, 0, 1]], [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]])
    x = td.tensor(a, requires_grad=True)
    near(td.autograd.grad(td.linalg.det(x).sum(), x, create_graph=True)[0], np.stack([cofactors(m) for m in a]), "float64")
    x = td.full((3, 3), math.nan, requires_grad=True)
    assert td.autograd.grad(td.linalg.det(x), x, create_graph=True)[0].isnan().all()


def test_conditions_of_nothing_and_of_what_is_no_number():
    for p in (None, 1, -1, math.inf, -2, "fro", "nuc"):
        assert td.linalg.cond(td.zeros(2, 0, 0), p).tolist() == [0, 0]
    for p in (1, -1, math.inf, "fro"):
        assert float(td.linalg.cond(td.tensor([[1.0, math.nan], [2.0, 3.0]]), p)) == math.inf
    for shape in ((), (3,)):
        with pytest.raises(td.ShapeError, match="matri"):
            td.ops.linalg_cond(td.ones(*shape))


NAMED = {
    "sort": "values indices", "geqrf": "a tau", "frexp": "mantissa exponent", "slogdet": "sign logabsdet", "aminmax": "min max", "linalg.cholesky_ex": "L info",
    "linalg.lu_factor_ex": "LU pivots info", "linalg.inv_ex": "inverse info", "linalg.qr": "Q R", "linalg.svd": "U S Vh", "linalg.eigh": "eigenvalues eigenvectors",
    "linalg.ldl_factor_ex": "LD pivots info", "linalg.lu": "P L U", "linalg.lu_factor": "LU pivots", "linalg.ldl_factor": "LD pivots", "ops.unique_counts": "values counts",
    "ops.unique_all": "values indices inverse counts", "ops.unique_inverse": "values inverse",
}


def test_all_results_have_their_names_in_one_program():
    """As many kinds of them as a program likes."""
    x = td.eye(3) * 2
    for name, names in NAMED.items():
        made = functools.reduce(getattr, name.split("."), td)(x)
        assert [made[k] is getattr(made, each) for k, each in enumerate(names.split())] == [True] * len(made), name
