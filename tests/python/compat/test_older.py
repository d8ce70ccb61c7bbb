"""Forms that PyTorch kept from its older versions, as programs that were written for those use them."""
import warnings

import pytest

import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")


def quietly(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f()


def test_new():
    x = td.ones(3, dtype=td.float64)
    assert x.new().shape == (0,) and x.new(2, 3).shape == (2, 3) and x.new(td.ones(4, 1).shape).shape == (4, 1)
    assert x.new(np.int64(3)).shape == x.new(*np.array([3])).shape == (3,) and x.new(np.ones(1)).tolist() == [1.0]  # NumPy's whole numbers are sizes, too
    assert x.new([1, 2]).tolist() == [1.0, 2.0] and x.new([1, 2]).dtype is td.float64
    assert td.ones(3, dtype=td.int64).new([1.5, 2]).tolist() == [1, 2]
    assert x.new(x).tolist() == [1, 1, 1]


def test_types_of_tensors():
    x = td.ones(2)
    assert isinstance(x, td.FloatTensor) and not isinstance(x, (td.LongTensor, td.DoubleTensor)) and not isinstance(3, td.LongTensor)
    assert isinstance(td.nn.Parameter(x), td.FloatTensor)
    assert td.LongTensor([1, 2]).dtype is td.int64 and td.FloatTensor(2, 3).shape == (2, 3) and td.FloatTensor(td.ones(4, 1).shape).shape == (4, 1)
    assert td.FloatTensor().shape == (0,) and x.type(td.IntTensor).dtype is td.int32 and td.FloatTensor.__name__ == "FloatTensor"


def test_weight_before_tensors():
    x, y, z = td.tensor([1.0, 2.0]), td.tensor([3.0, 5.0]), td.tensor([2.0, 4.0])
    forms = [(lambda: td.add(x, 2, y), [7, 12]), (lambda: x.sub(2, y), [-5, -8]), (lambda: td.addcmul(x, 2, y, z), [13, 42]),
             (lambda: x.addcdiv(2, y, z), [4, 4.5]), (lambda: x.clone().add_(-0.5, y), [-0.5, -0.5]),
             (lambda: x.clone().addcmul_(2, y, z), [13, 42]), (lambda: x.clone().addcdiv_(-2, y, z), [-2, -0.5])]
    for form, expected in forms:
        assert quietly(form).tolist() == expected
    # A number that is a tensor weighs the tensor before it, as ever.
    assert td.add(x, y, alpha=2).tolist() == td.add(x, y, alpha=td.tensor(2)).tolist() == [7, 12]
    assert td.add(x, 2, alpha=td.tensor(3)).tolist() == [7, 8] and td.addcmul(x, y, z, value=2).tolist() == [13, 42]
    with pytest.raises(TypeError, match="'tensor1' must be Tensor"):
        td.addcmul(x, 2, y)


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "addbmm", "baddbmm"])
def test_factors_before_tensors(name):
    left = td.randn(*{"addmv": (2, 2), "addr": (2,)}.get(name, (2, 2, 2) if "b" in name else (2, 2)))
    right = td.randn(2) if name in ("addmv", "addr") else td.randn(left.shape)
    x = td.randn(*{"addmv": (2,), "baddbmm": (2, 2, 2)}.get(name, (2, 2)))
    f = getattr(td, name)
    for alpha in (), (3,):
        expected = f(x, left, right, beta=2, alpha=alpha[0] if alpha else 1).tolist()
        for form in (lambda: f(2, x, *alpha, left, right), lambda: getattr(x, name)(2, *alpha, left, right), lambda: getattr(x.clone(), name + "_")(2, *alpha, left, right)):
            assert quietly(form).tolist() == expected
    assert getattr(x.clone(), name + "_")(left, right, beta=2, alpha=3).tolist() == expected
    with pytest.raises(TypeError):
        f(2, x, left)


def test_two_numbers():
    for made, value, dtype in ((td.add(1, 2), 3, td.int64), (td.mul(2.5, 2), 5, td.float32), (td.sub(1, 2, alpha=2), -3, td.int64), (td.true_divide(1, 2), 0.5, td.float32),
                               (td.mul(2, 1j), 2j, td.complex64), (td.mul(True, True), True, td.bool)):
        assert made.shape == () and made.item() == value and made.dtype is dtype
    with pytest.raises(TypeError, match="meshgrid expects all tensors to have the same dtype"):
        td.meshgrid(td.ones(2), td.arange(3), indexing="ij")


def test_parts_are_assigned():
    x = td.tensor([1 + 2j, 3 + 4j])
    x.real = td.tensor([5.0, 6.0])
    x.imag = 0
    assert x.tolist() == [5, 6]
    w, u = td.tensor([1 + 1j], requires_grad=True), td.tensor([3.0], requires_grad=True)
    z = w * 2
    z.real = u
    (z.real * 5 + z.imag * 7).sum().backward()
    assert z.tolist() == [3 + 2j] and u.grad.tolist() == [5] and w.grad.tolist() == [14j]
    y = td.ones(2)
    y.real = 3
    assert y.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="imag is for complex numbers"):
        y.imag = 1
    with pytest.raises(TypeError, match="cannot be deleted"):
        del x.real


def test_reversed_is_a_tensor():
    assert reversed(td.arange(4)).tolist() == [3, 2, 1, 0] and reversed(td.tensor([[1, 2], [3, 4]])).tolist() == [[3, 4], [1, 2]]
    assert reversed(td.tensor(3)).item() == 3


def test_cross_finds_its_dimension():
    x, y = td.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 2]]), td.tensor([[0.0, 1, 0], [1, 0, 0], [3, 0, 1]])
    with pytest.warns(UserWarning, match="first dimension of size 3"):
        assert td.cross(x, y).tolist() == td.linalg.cross(x, y, dim=0).tolist()
    assert td.cross(x, y, dim=1).tolist() == td.linalg.cross(x, y).tolist() != td.linalg.cross(x, y, dim=0).tolist()
    assert td.cross(td.ones(2, 3), td.ones(2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]  # no warning: it is the last
    assert td.cross(td.ones(1, 3), td.tensor([[1.0, 2, 3], [0, 0, 0]])).tolist() == [[1, -2, 1], [0, 0, 0]]
    with pytest.raises(RuntimeError, match="along dimension 0 must have 3 elements"), pytest.warns(UserWarning):
        td.cross(td.ones(1, 3), td.ones(3, 3))  # the first of what both have together
    with pytest.raises(RuntimeError, match="no dimension of size 3"):
        td.ones(2).cross(td.ones(2))


def close(a, b):
    td.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_matrices_by_their_older_names():
    a = td.tensor([[2.0, 1.0], [0.5, -1.0], [1.0, 3.0]], dtype=td.float64)
    square, right = a.t() @ a, td.tensor([[1.0], [2.0]], dtype=td.float64)
    close(td.chain_matmul(a), a)
    close(td.chain_matmul([a]), a)
    close(td.chain_matmul(a, square), a @ square)
    close(td.chain_matmul((a, square, right)), a @ square @ right)
    close(td.chain_matmul(a, square, out=td.zeros(3, 2, dtype=td.float64)), a @ square)
    u, s, v = a.svd()
    assert [t.shape for t in a.svd(False)] == [(3, 3), (2,), (2, 2)] and u.shape == (3, 2)
    close((u * s) @ v.t(), a)
    none = a.svd(compute_uv=False)
    close(none.S, s)
    assert [t.shape for t in none] == [(3, 3), (2,), (2, 2)] and not none.U.any() and not none.V.any() and none.U.dtype is td.float64
    z = td.complex(a, a.flip(0))
    u, s, v = td.svd(z)
    close((u * s) @ v.mH, z)
    assert [t.shape for t in a.qr()] == [(3, 2), (2, 2)] and [t.shape for t in td.qr(a, some=False)] == [(3, 3), (3, 2)]
    close(td.matrix_exp(td.zeros(2, 2)), td.eye(2))
    lu, pivots = td.lu(square)
    assert len(td.lu(square, get_infos=True)) == 3 and int(td.lu(square * 0, get_infos=True)[2]) == 1
    p, l, u = td.lu_unpack(lu, pivots)
    close(p @ l @ u, square)
    assert [t.shape for t in td.lu_unpack(lu, pivots, unpack_data=False)] == [(2, 2), (0,), (0,)] and [t.shape for t in td.lu_unpack(lu, pivots, unpack_pivots=False)] == [(0,), (2, 2), (2, 2)]
    close(square @ td.lu_solve(right, lu, pivots), right)
    for upper in (True, False):
        for transpose in (True, False):
            made = td.triangular_solve(right, square, upper, transpose)
            part = square.triu() if upper else square.tril()
            close((part.t() if transpose else part) @ made.solution, right)
            assert td.equal(made.cloned_coefficient, square) and made.cloned_coefficient is not square
    close(td.triangular_solve(right, square, unitriangular=True).solution[1], right[1])
    close(td.pinverse(td.diag(td.tensor([2.0, 2.0**-10]))), td.diag(td.tensor([0.5, 1024.0])))
    close(td.pinverse(td.diag(td.tensor([2.0, 2.0**-10])), 1e-2), td.diag(td.tensor([0.5, 0.0])))
    close(td.pinverse(a) @ a, td.eye(2, dtype=td.float64))
    close(td.cdist(a[:1], a[1:]), td.tensor([[6.25**0.5, 5.0**0.5]], dtype=td.float64))
    close(td.cdist(a[:1], a[1:], 1, compute_mode="donot_use_mm_for_euclid_dist"), td.tensor([[3.5, 3.0]], dtype=td.float64))
    x = td.tensor([2.0, 3.0])
    assert td.vander(x).tolist() == [[2, 1], [3, 1]] and td.vander(x, 3).tolist() == [[4, 2, 1], [9, 3, 1]] and td.vander(x, increasing=True).tolist() == [[1, 2], [1, 3]] and td.vander(x, 0).shape == (2, 0)
    for wrong, said in ((lambda: td.cdist(a, a, compute_mode="fast"), "fast is not a valid value for compute_mode"), (lambda: td.vander(a), "one-dimensional"), (lambda: td.vander(x, -1), "non-negative"),
                        (lambda: td.svd_lowrank(a, 3), r"q\(=3\).*=2$"), (lambda: td.pca_lowrank(a, 3), r"q\(=3\).*=2$"), (lambda: td.svd_lowrank(a, -1), r"q\(=-1\)"), (lambda: td.pca_lowrank(a, -1), r"q\(=-1\)")):
        with pytest.raises(RuntimeError if "valid" not in said else ValueError, match=said):
            wrong()


def test_products_are_added_in_place():
    x, y = td.tensor([[1.0, 2.0], [3.0, 4.0]]), td.tensor([[1.0, 0.0], [1.0, 1.0]])
    for name, given in (("addmm", (x, y)), ("addmv", (x, y[0])), ("addr", (x[0], y[1])), ("addbmm", (x[None], y[None])), ("baddbmm", (x[None], y[None]))):
        start = td.ones(2) if name == "addmv" else td.ones(1, 2, 2) if name == "baddbmm" else td.ones(2, 2)
        wanted, kept = getattr(td, name)(start, *given, beta=0.5, alpha=2), start
        assert getattr(start, name + "_")(*given, beta=0.5, alpha=2) is start and td.equal(start, wanted) and kept.data_ptr() == start.data_ptr()


def test_low_ranks():
    td.manual_seed(1)
    a = td.tensor([[1.0, 2.0, 0.0, 1.0], [2.0, 4.0, 0.0, 2.0], [0.0, 1.0, 1.0, 3.0]], dtype=td.float64)  # of rank 2
    for x in (a, a.t()):
        u, s, v = td.svd_lowrank(x, 2)
        close((u * s) @ v.t(), x)
        assert u.shape == (x.shape[0], 2) and v.shape == (x.shape[1], 2)
        u, s, v = td.svd_lowrank(x, 3, M=x * 0.5)
        close((u * s) @ v.t(), x * 0.5)
        for centred in (True, False):
            u, s, v = td.pca_lowrank(x, center=centred)
            close((u * s) @ v.t(), x - x.mean(0, True) if centred else x)
    several = td.stack([a, 2 * a + 1])
    u, s, v = td.pca_lowrank(several)
    close((u * s.unsqueeze(-2)) @ v.mT, several - several.mean(1, True))
    assert len(td.svd_lowrank(a, 0)[1]) == 0 and td.svd_lowrank(a, 2, niter=0)[0].shape == (3, 2)


def test_random_numbers():
    td.manual_seed(3)
    assert td.randint(high=3, size=(50,)).max().item() <= 2 and td.randint(0, 2, (4,), dtype=td.bool).dtype is td.bool
    drawn = td.randint(0, 2, (200,), dtype=td.bool).sum().item()
    assert 50 < drawn < 150
    assert td.ones(3, dtype=td.int64).bernoulli(1.0).tolist() == [1, 1, 1] and td.ones(2, dtype=td.int64).bernoulli(0.0).dtype is td.int64
    low = td.empty(1000, dtype=td.int8).random_(-128, None)
    assert low.min().item() < -64 and low.max().item() > 64
    assert td.empty(100).random_(3).max().item() <= 2
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(RuntimeError, match="a seed is from"):
            td.manual_seed(wrong)
    td.manual_seed(-1)
    assert td.initial_seed() == 2**64 - 1


def test_einsum_of_labels():
    x, y = td.arange(6.0).reshape(2, 3), td.arange(12.0).reshape(3, 4)
    assert td.einsum(x, [0, 1], y, [1, 2], [0, 2]).tolist() == td.einsum(x, [30, 4], y, [4, 51]).tolist() == (x @ y).tolist()
    assert td.einsum(x, [..., 1], td.ones(3), [1], [...]).tolist() == [3, 12]
    with pytest.raises(ValueError, match="from 0 to 51"):
        td.einsum(x, [0, 52])


def test_norms_take_axis():
    x = td.tensor([[3.0, 0.0], [4.0, 2.0]])
    assert td.linalg.norm(x, axis=0).tolist() == td.linalg.vector_norm(x, axis=0).tolist() == [5, 2]
    assert td.linalg.matrix_norm(x, axis=(0, 1), keepdims=True).shape == (1, 1)
    with pytest.raises(TypeError, match="multiple values for argument 'axis'"):
        td.linalg.norm(x, dim=0, axis=0)


def test_repeats_fit():
    x = td.tensor([1, 2])
    assert td.repeat_interleave(x, td.tensor([2, 1])).tolist() == [1, 1, 2]
    with pytest.raises(RuntimeError, match="same size as input"):
        td.repeat_interleave(x, td.tensor([1, 2, 3]))
    with pytest.raises(RuntimeError, match="can not be negative, but one is -1"):
        td.repeat_interleave(x, td.tensor([-1, 2]))


def test_matrices_of_no_dimensions():
    x = td.tensor(1 + 2j)
    assert x.H.item() == x.mH.item() == 1 - 2j and x.mT.item() == 1 + 2j and td.tensor(3).H.item() == 3


def test_embeddings_with_weights():
    rows = td.arange(8.0).reshape(4, 2)
    assert td.nn.Embedding(4, 2, _weight=rows).weight.tolist() == rows.tolist() and td.nn.Embedding(4, 2, _weight=rows).weight.requires_grad
    assert not td.nn.Embedding(4, 2, _freeze=True).weight.requires_grad
    bag = td.nn.EmbeddingBag(4, 2, mode="sum", _weight=rows)
    assert bag(td.tensor([[0, 3]])).tolist() == [[6, 8]]
    assert td.nn.EmbeddingBag.from_pretrained(rows, include_last_offset=True).include_last_offset
    with pytest.raises(ValueError, match="Shape of weight"):
        td.nn.Embedding(3, 2, _weight=rows)


def test_parts_of_complex_numbers_lie_where_these_do():
    z = td.tensor([[1 + 2j, 3 + 4j], [5 + 6j, 7 + 8j]])
    z.real.mul_(10)
    z.imag[0] = -1
    z.t().real[1] += 1
    assert z.tolist() == [[10 - 1j, 31 - 1j], [50 + 6j, 71 + 8j]]
    real, imag = z.real, z[1].imag
    z.mul_(2)
    assert real.tolist() == [[20, 62], [100, 142]] and imag.tolist() == [12, 16] and real.stride() == (4, 2)
    td.add(real, 1, out=real)
    z.double().real.zero_()
    assert z.real[0].tolist() == [21, 63] and z[0, 1].imag.item() == -2
    wide = td.tensor(3 + 4j, dtype=td.complex128)
    wide.imag.fill_(5)
    assert wide.item() == 3 + 5j and td.zeros(0, dtype=td.complex64).real.shape == (0,)
    u = td.tensor([1 + 1j, 2j], requires_grad=True)
    (u.real * 5 + u.imag * 7).sum().backward()
    assert u.grad.tolist() == [5 + 7j, 5 + 7j]
    with td.no_grad():
        u.imag.zero_()
    assert u.tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="complex"):
        td.ones(2).imag


def test_parts_are_views_where_gradients_are_wanted():
    a = td.tensor([1 + 2j, 3 - 1j, 0.5 + 0.25j], dtype=td.complex128, requires_grad=True)
    w = a * 1
    w.real.mul_(2)
    w.imag.add_(w.real.detach())
    td.real(w * w).sum().backward()
    assert a.grad.tolist() == [8 - 8j, 24 - 10j, 4 - 2.5j]
    a.grad = None
    w = a.reshape(3, 1) * td.tensor([1.0, 2.0], dtype=td.float64) * 1
    v = td.view_as_real(w.T)[0, 1:]  # of a base that lies otherwise
    v[:, 0] = 5.0
    v.mul_(3)
    (abs(w) ** 2).sum().backward()
    assert a.grad.tolist() == [10 + 20j, 24 - 26j, 4 + 6.5j] and [type(x.grad_fn).__name__ for x in (w.real, td.view_as_real(w), td.imag(w))] == [
        "SelectBackward0", "ViewAsRealBackward0", "SelectBackward0"]


def test_complex_numbers_over_parts_where_gradients_are_wanted():
    r = td.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=td.float64, requires_grad=True)
    p = r * 2
    z = td.view_as_complex(p)
    z.mul_(1j)
    z[1:] *= z[1:].detach().clone()
    (p**3).sum().backward()
    assert r.grad.tolist() == [[24, -96], [-470592, -294144], [-4263360, -3316608]]

    def twice(write):
        p = r * 2
        z = td.view_as_complex(p)
        write(p, z)
        (g,) = td.autograd.grad((z * z.conj() * z).real.sum(), r, create_graph=True)
        return td.autograd.grad((g**2).sum(), r)[0].tolist()

    assert twice(lambda p, z: p.mul_(p.detach().clone())) == [[3031040, 3538944], [9583902720, 7427063808], [678168576000, 439802265600]]
    assert twice(lambda p, z: z.real.mul_(z.imag.clone())) == [[15015936, 10149888], [30731010048, 25954418688], [1770598932480, 1589799591936]]
    at_odd = td.ones(6, dtype=td.float64, requires_grad=True) * 1
    z = td.view_as_complex(at_odd[2:].view(2, 2))
    z.zero_()
    at_odd.sum().backward()
    assert at_odd.tolist() == [1, 1, 0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="storage_offset divisible by 2"):
        td.view_as_complex(at_odd[1:5].view(2, 2))
    with pytest.raises(RuntimeError, match="without gaps"):
        gaps = td.empty_strided((2, 2), (6, 1), dtype=td.float64)
        z = td.view_as_complex(gaps)
        z.mul_(td.ones(2, dtype=td.complex128, requires_grad=True)).tolist()


def test_parts_of_infinite_numbers():
    x = td.tensor([float("inf")], requires_grad=True)
    z = td.complex(x, td.zeros(1))
    assert z.real.item() == float("inf") and z.imag.item() == 0 and z.requires_grad
    w = td.tensor([1 + 2j], requires_grad=True)
    (w.imag * x.detach()).sum().backward()
    assert str(w.grad.item()) == str(complex(0, float("inf")))
    eight = td.ones([1] * 7 + [2], dtype=td.complex128, requires_grad=True)
    (eight.imag * 3).sum().backward()
    assert eight.grad.flatten().tolist() == [3j, 3j]
