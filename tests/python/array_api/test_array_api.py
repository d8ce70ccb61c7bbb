"""The array API standard's namespace: what its own conformance suite, which is not part of the repository, does not say or says at length."""
import pytest
import tensord as td

xp = td.array_api


def values(*tensors):
    return [t.tolist() for t in tensors]


def test_a_tensor_names_its_namespace():
    x = td.ones(3)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="1999.01"):
        x.__array_namespace__(api_version="1999.01")
    with pytest.raises(TypeError):
        x.__array_namespace__("2024.12")


def test_every_name_is_there():
    assert not [n for n in xp.__all__ if not hasattr(xp, n)] and not [n for n in xp.linalg.__all__ if not hasattr(xp.linalg, n)]


def test_matrices():
    x = td.tensor([[4.0, 2.0], [2.0, 5.0]])
    assert xp.linalg.qr(x)._fields == ("Q", "R") and xp.linalg.svd(x).Vh.shape == (2, 2) and xp.linalg.slogdet(x).sign.item() == 1
    assert xp.linalg.solve(x.expand(2, 2, 2), xp.ones((2, 2))).shape == (2, 2, 2)  # two right sides, not a vector each
    assert xp.linalg.trace(xp.ones((3, 2, 2), dtype=xp.int8)).tolist() == [2, 2, 2]
    with pytest.raises(td.linalg.LinAlgError):
        xp.linalg.inv(xp.zeros((2, 2)))


def test_what_it_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices() and info.default_device() == td.ones(1).device
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}
    assert info.default_dtypes() == {"real floating": td.float32, "complex floating": td.complex64, "integral": td.int64, "indexing": td.int64}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8", "uint16", "uint32", "uint64"}
    with pytest.raises(td.Unsupported):
        info.dtypes(device="cuda")


def test_unsigned_and_signed():
    assert xp.can_cast(xp.uint16, xp.int32) and not xp.can_cast(xp.uint64, xp.int64) and not xp.can_cast(xp.int8, xp.uint64)
    assert xp.sum(xp.ones(3, dtype=xp.uint16)).dtype is xp.prod(xp.ones(3, dtype=xp.uint8)).dtype is xp.cumulative_sum(xp.ones(3, dtype=xp.uint32)).dtype is xp.uint64
    assert xp.sum(xp.ones(3, dtype=xp.bool)).dtype is xp.sum(xp.ones(3, dtype=xp.int8)).dtype is xp.int64
    with pytest.raises(TypeError, match="no dtype holds both"):
        xp.result_type(xp.uint64, xp.int8)


def test_to_device():
    x = td.ones(2)
    assert x.cpu().to_device("cpu").device.type == "cpu" and x.to_device(x.device, stream=None) is x
    with pytest.raises(td.Unsupported, match="no device 'cuda:1' here; only 'cpu'"):
        x.to_device("cuda:1")
    with pytest.raises(td.Error):
        x.to_device("cpu", stream=1)


@pytest.mark.parametrize("a, b, both", [("int8", "uint8", "int16"), ("int32", "uint8", "int32"), ("uint8", "uint8", "uint8"), ("float32", "float64", "float64"),
                                        ("float64", "complex64", "complex128"), ("int64", "float32", "float32"), ("float16", "bfloat16", "float32"),
                                        ("bool", "int8", "int8"), ("int8", "int64", "int64")])
def test_promotion_is_that_of_the_operators(a, b, both):
    a, b, both = getattr(td, a), getattr(td, b), getattr(td, both)
    x, y = td.ones(2, dtype=a), td.ones(2, dtype=b)
    assert xp.result_type(a, b) is xp.result_type(b, x) is both is (x + y).dtype
    assert xp.add(x, td.ones((), dtype=b)).dtype is both  # dimensions do not count here, unlike `+`
    assert xp.can_cast(a, both) and (a is both or not xp.can_cast(both, a))


def test_numbers_beside_tensors():
    assert xp.result_type(td.int8, 1) is td.int8 and xp.result_type(td.int8, 1.0) is td.float32 and xp.result_type(td.float64, 1j) is td.complex128
    assert values(xp.subtract(5, td.tensor([1, 2]))) == [[4, 3]]
    with pytest.raises(ValueError):
        xp.result_type(1, 2)


def test_kinds_and_conversion():
    assert xp.isdtype(td.int8, "integral") and xp.isdtype(td.bool, (td.int8, "bool")) and not xp.isdtype(td.complex64, "real floating")
    with pytest.raises(ValueError, match="reall"):
        xp.isdtype(td.int8, "reall")
    x = td.ones(2, dtype=td.complex64)
    assert xp.astype(x, td.complex64, copy=False) is x and xp.astype(x, td.complex64) is not x
    with pytest.raises(TypeError, match="imag"):
        xp.astype(x, td.float32)


def test_creation():
    assert values(xp.arange(5, 0), xp.arange(3, 0, -1), xp.linspace(0, 4, 4, endpoint=False)) == [[], [3, 2, 1], [0.0, 1.0, 2.0, 3.0]]
    assert values(xp.eye(2, 3, k=1), xp.eye(3, 2, k=-2), xp.eye(2, k=5)) == [[[0, 1, 0], [0, 0, 1]], [[0, 0], [0, 0], [1, 0]], [[0, 0], [0, 0]]]
    assert values(xp.linspace(0, 1 + 1j, 2))[0] == [0, 1 + 1j] and values(xp.meshgrid(td.arange(2), td.arange(3))[0]) == [[[0, 1]] * 3]
    with pytest.raises(ValueError):
        xp.arange(1, 2, 0)
    with pytest.raises(ValueError):
        xp.asarray([1], copy=False)


def test_shapes():
    x = td.arange(6).reshape(2, 3)
    assert values(xp.repeat(x, 2, axis=1), xp.repeat(td.arange(3), td.tensor([2, 0, 1]))) == [[[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]], [0, 0, 2]]
    assert xp.moveaxis(td.ones(2, 3, 4), (0, 1), (-1, 0)).shape == (3, 4, 2) and xp.expand_dims(x, (0, -1)).shape == (1, 2, 3, 1)
    assert xp.broadcast_shapes((2, 1), (3,), ()) == (2, 3) and xp.concat([x, x], axis=None).shape == (12,) and xp.unstack(x, axis=1)[2].tolist() == [2, 5]
    assert values(xp.roll(x, 1), xp.roll(x, 1, axis=(0, 1)), xp.tile(x[0], (2, 1))) == [[[5, 0, 1], [2, 3, 4]], [[5, 3, 4], [2, 0, 1]], [[0, 1, 2]] * 2]
    for wrong in (lambda: xp.squeeze(x, 0), lambda: xp.broadcast_shapes((2,), (3,)), lambda: xp.expand_dims(x, (0, 0)), lambda: xp.flip(x, axis=2)):
        with pytest.raises((ValueError, IndexError)):
            wrong()
    with pytest.raises(td.Error):
        xp.reshape(x.T, (6,), copy=False)


def test_reductions_over_several_axes():
    x = td.arange(24).reshape(2, 3, 4)
    assert xp.sum(x, axis=(0, 2)).tolist() == [60, 92, 124] and xp.prod(x, axis=(0, 1), keepdims=True).shape == (1, 1, 4) and xp.max(x, axis=()).shape == (2, 3, 4)
    assert xp.any(td.tensor([0, 2], dtype=td.uint8)).dtype is td.bool and xp.count_nonzero(x, axis=0).tolist()[0] == [1, 2, 2, 2]
    assert values(xp.cumulative_sum(td.tensor([1, 2, 3]), include_initial=True), xp.cumulative_prod(td.tensor([2, 3, 4]), include_initial=True)) == [[0, 1, 3, 6], [1, 2, 6, 24]]
    assert xp.diff(td.tensor([1, 4, 9]), prepend=td.tensor([0]), n=2).tolist() == [2, 2] and xp.var(td.tensor([1.0, 3.0])).item() == 1.0
    assert xp.std(td.tensor([1.0, 3.0]), axis=(), keepdims=True).tolist() == [0, 0]
    with pytest.raises(ValueError):
        xp.sum(x, axis=(0, 0))


def test_more_parts_than_an_op_takes():
    x = td.ones(2, 3000)
    assert len(xp.unstack(x, axis=1)) == 3000 and xp.stack(xp.unstack(x, axis=1), axis=1).shape == (2, 3000)
    assert xp.cumulative_prod(x, axis=1)[1, -1].item() == 1 and xp.concat([td.ones(1)] * 3000).shape == (3000,)


def test_sets():
    x = td.tensor([[3.0, 1.0, 3.0], [td.nan, -0.0, 0.0]])
    found = xp.unique_all(x)
    assert found.values.tolist()[:3] == [0, 1, 3] and found.indices.tolist() == [4, 1, 0, 3] and found.counts.tolist() == [2, 1, 2, 1]
    assert found.inverse_indices.tolist() == [[2, 1, 2], [3, 0, 0]] and found.inverse_indices.dtype is td.int64
    assert [len(t) for t in xp.unique_all(td.ones(0))] == [0, 0, 0, 0] and xp.unique_counts(td.tensor([True, True])).counts.tolist() == [2]
    assert values(xp.isin(td.tensor([1, 2, 3]), td.tensor([3, 1])), xp.isin(2, td.tensor([[1, 2]])), xp.isin(td.tensor([1]), td.ones(0), invert=True)) == [[True, False, True], True, [True]]


def test_searching():
    x = td.tensor([10, 20, 20, 30])
    assert values(xp.searchsorted(x, td.tensor([[5, 20], [25, 40]])), xp.searchsorted(x, 20, side="right")) == [[[0, 1], [3, 4]], 3]
    assert xp.searchsorted(td.tensor([30, 10, 20]), td.tensor([15]), sorter=td.tensor([1, 2, 0])).tolist() == [1]
    m = td.arange(6).reshape(2, 3)
    assert values(xp.take(m, td.tensor([-1, 0]), axis=1), xp.take_along_axis(m, td.tensor([[2], [-3]]))) == [[[2, 0], [5, 3]], [[2], [3]]]
    assert xp.take_along_axis(m, td.tensor([[1]]), axis=0).tolist() == [[3, 4, 5]]
    with pytest.raises(ValueError):
        xp.nonzero(td.tensor(1))


def test_products():
    a, b = td.arange(6).reshape(2, 3), td.arange(12).reshape(3, 4)
    assert xp.tensordot(a, b, axes=1).tolist() == (a @ b).tolist() and xp.tensordot(a, a, axes=((0, 1), (0, 1))).item() == 55
    assert xp.matmul(a, b.float()).dtype is td.float32 and xp.vecdot(td.tensor([1j]), td.tensor([1j])).item() == 1
    with pytest.raises(ValueError):
        xp.tensordot(a, b, axes=2)


def test_gradients_pass_through():
    x = td.tensor([1.0, 2.0, 3.0], requires_grad=True)
    xp.sum(xp.multiply(xp.clip(x, 0, 2.5), td.tensor([1.0, 2.0, 4.0]))).backward()
    assert x.grad.tolist() == [1, 2, 0]


def test_signs():
    assert str(xp.sign(td.tensor([-2.0, 0.0, td.nan])).tolist()) == "[-1.0, 0.0, nan]" and xp.sign(td.tensor([3 + 4j, 0j])).tolist() == td.tensor([0.6 + 0.8j, 0]).tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 30, 64, 97, 360])
def test_transforms_undo_each_other_and_agree_with_the_sum(n):
    x = td.randn(2, n, dtype=td.float64) * (1 + 0.5j if n % 2 else 1)
    k = td.arange(n, dtype=td.float64)
    sums = (x.to(td.complex128).unsqueeze(1) * xp.exp(td.outer(k, k) * (-2j * td.pi / n))).sum(2)
    assert (xp.fft.fft(x) - sums).abs().max().item() < 1e-9 * n
    for norm in ("backward", "ortho", "forward"):
        assert (xp.fft.ifft(xp.fft.fft(x, norm=norm), norm=norm) - x).abs().max().item() < 1e-12 * n
        real = xp.real(x)
        assert (xp.fft.irfft(xp.fft.rfft(real, norm=norm), n=n, norm=norm) - real).abs().max().item() < 1e-12 * n
        assert (xp.fft.hfft(xp.fft.ihfft(real, norm=norm), n=n, norm=norm) - real).abs().max().item() < 1e-12 * n
        assert (xp.fft.irfftn(xp.fft.rfftn(real, norm=norm), s=(2, n), norm=norm) - real).abs().max().item() < 1e-12 * n


def test_transforms_of_other_lengths_and_what_they_refuse():
    x = td.tensor([1.0, 2.0, 3.0])
    assert xp.fft.fft(x, n=2).tolist() == [3, -1] and xp.fft.rfft(x, n=5).shape == (3,) and xp.fft.fft(x).dtype is td.complex64
    assert values(xp.fft.fftfreq(4), xp.fft.rfftfreq(4, d=0.5), xp.fft.fftshift(td.arange(5))) == [[0, 0.25, -0.5, -0.25], [0, 0.5, 1], [3, 4, 0, 1, 2]]
    with pytest.raises(TypeError):
        xp.fft.rfft(td.tensor([1j]))
    for wrong in (lambda: xp.fft.fft(x, n=0), lambda: xp.fft.fft(x, norm="both"), lambda: xp.fft.fftn(x, s=(1, 2), axes=(0,))):
        with pytest.raises(ValueError):
            wrong()


def test_gradient_of_a_transform():
    x = td.tensor([1.0, -2.0, 0.5, 3.0], requires_grad=True)
    (xp.fft.fft(x).abs() ** 2).sum().backward()
    assert (x.grad - 2 * 4 * x).abs().max().item() < 1e-4  # Parseval


def test_parts_and_neighbours():
    z = td.tensor([1 + 2j, -3j], requires_grad=True)
    xp.sum(xp.imag(z)).backward()
    assert values(xp.imag(z.detach()), z.grad) == [[2, -3], [1j, 1j]]
    assert values(xp.signbit(td.tensor([-0.0, 1.0])), xp.copysign(td.tensor([2.0]), -1), xp.hypot(3, td.tensor(4.0))) == [[True, False], [-2], 5]
    x = td.tensor([1.0, 1.0], dtype=td.float64)
    assert xp.nextafter(x, td.tensor([2.0, 0.0], dtype=td.float64)).tolist() == [1 + 2.0**-52, 1 - 2.0**-53]
    assert xp.logaddexp(td.tensor([0.0, -td.inf]), td.tensor([0.0, -td.inf])).tolist() == [td.tensor(2.0).log().item(), -td.inf]
    with pytest.raises(td.DTypeError):
        xp.imag(x)
    with pytest.raises(td.DTypeError):
        xp.nextafter(td.ones(1, dtype=td.float16), td.ones(1, dtype=td.float16))


def test_names_and_texts_of_functions_of_elements():
    for name in ("add", "pow", "abs", "bitwise_invert"):
        f = getattr(xp, name)
        assert f.__name__ == f.__qualname__ == name and f.__doc__.count("\n") == 0 and len(f.__doc__) > 10
    assert xp.abs.__doc__ == "The magnitude of each element; real for complex numbers."


def test_what_is_like_another():
    x = td.ones(2, 3, dtype=td.int8)
    for f, value in ((xp.zeros_like, 0), (xp.ones_like, 1), (lambda x, **kw: xp.full_like(x, 7, **kw), 7), (xp.empty_like, None)):
        for made, dtype, device in ((f(x), td.int8, x.device), (f(x, dtype=td.float64, device="cpu"), td.float64, td.device("cpu"))):
            assert made.shape == (2, 3) and made.dtype is dtype and made.device == device and (value is None or (made == value).all())


def test_edges_of_creation():
    for made, dtype in ((xp.arange(2, 2), td.int64), (xp.arange(2.0, 1), td.float32), (xp.arange(2, 3, -1, dtype=td.int8), td.int8), (xp.arange(0), td.int64)):
        assert made.shape == (0,) and made.dtype is dtype
    for made, wanted, dtype in ((xp.linspace(1j, 1, 3), [1j, 0.5 + 0.5j, 1], td.complex64), (xp.linspace(0, 1j, 2, dtype=td.complex128), [0, 1j], td.complex128),
                                (xp.linspace(0, 1, 3, dtype=td.complex128), [0, 0.5, 1], td.complex128), (xp.linspace(0, 4, 2, dtype=td.float64, endpoint=False), [0, 2], td.float64),
                                (xp.linspace(0, 2j, 2, endpoint=False), [0, 1j], td.complex64), (xp.linspace(2, 4, 1), [2], td.float32)):
        assert made.tolist() == wanted and made.dtype is dtype
    for n, m, k in ((3, 4, 0), (3, 4, 2), (3, 4, 4), (3, 4, -1), (3, 4, -3), (4, 3, 1), (2, None, 0), (2, None, -1), (0, 3, 1)):
        assert xp.eye(n, m, k=k, dtype=td.int8).tolist() == [[int(j == i + k) for j in range(n if m is None else m)] for i in range(n)]
    assert xp.eye(2).dtype is td.float32 and xp.meshgrid() == () and values(*xp.meshgrid(td.arange(2), td.arange(1), indexing="ij")) == [[[0], [1]], [[0], [0]]]
    x = td.arange(9).reshape(3, 3)
    assert values(xp.tril(x, k=-1), xp.triu(x, k=1)) == [[[0, 0, 0], [3, 0, 0], [6, 7, 0]], [[0, 1, 2], [0, 0, 5], [0, 0, 0]]]


def test_kinds_of_dtypes():
    assert xp.isdtype(td.int8, td.int8) and not xp.isdtype(td.int8, td.int16) and not xp.isdtype(td.int8, (td.bool, td.int16))
    for half in (td.float16, td.bfloat16):
        assert [kind for kind in ("bool", "integral", "real floating", "complex floating", "numeric") if xp.isdtype(half, kind)] == ["real floating", "numeric"]
    assert xp.finfo(td.float32).eps == 2.0**-23 and xp.iinfo(td.int8).max == 127
    for a, b, both in ((td.int8, td.complex64, td.complex64), (td.bool, td.complex64, td.complex64), (td.float64, td.complex64, td.complex128), (td.uint16, td.uint8, td.uint16),
                       (td.uint64, td.uint32, td.uint64), (td.int16, td.uint16, td.int32), (td.int8, td.uint32, td.int64), (td.uint64, td.float32, td.float32), (td.bfloat16, td.float16, td.float32)):
        assert xp.result_type(a, b) is xp.result_type(b, a) is both
    assert xp.sum(td.ones(2, dtype=td.float16)).dtype is td.float16 and xp.sum(td.ones(2, dtype=td.complex64)).dtype is td.complex64
    assert xp.result_type(td.int8, td.float64, 1j) is td.complex128 and xp.result_type(td.bool, 1) is td.int64 and xp.result_type(td.bool, 1j) is td.complex64 and xp.result_type(td.float64, True) is td.float64
    assert xp.where(td.tensor([True]), td.ones(1, dtype=td.int8), 2).dtype is td.int8 and xp.where(td.tensor([True]), td.ones(1, dtype=td.int8), td.ones((), dtype=td.float64)).dtype is td.float64
    assert not xp.can_cast(td.ones(1, dtype=td.float64), td.float32) and xp.can_cast(td.ones(1, dtype=td.float64), td.complex128)


def test_places_of_this_namespace():
    info = xp.__array_namespace_info__()
    assert type(info.devices()) is tuple and set(info.dtypes()) == {n for n in xp.__all__ if isinstance(getattr(xp, n), td.dtype)} and info.dtypes(kind="bool") == {"bool": td.bool}
    assert info.default_dtypes(device="cpu") == info.default_dtypes()
    with pytest.raises(td.Unsupported, match="'cuda'"):
        info.default_dtypes(device="cuda")


def test_products_of_pairs():
    x = td.arange(6).reshape(2, 3)
    assert xp.tensordot(x, x, axes=0).shape == (2, 3, 2, 3) and xp.tensordot(x, x, axes=((-2,), (0,))).tolist() == (x.mT @ x).tolist() and xp.tensordot(x, x, axes=2).item() == 55
    assert values(xp.vecdot(x, x), xp.vecdot(x, x.double(), axis=-2), xp.vecdot(x.float() * 1j, x[0])) == [[5, 50], [9, 17, 29], [-5j, -14j]]
    a, b = td.tensor([[1.0, 0, 0]]), td.tensor([0.0, 1, 0], dtype=td.float64)
    assert xp.linalg.cross(a, b).tolist() == [[0, 0, 1]] and xp.linalg.cross(a, b).dtype is td.float64 and xp.linalg.cross(a.mT, b.reshape(3, 1), axis=-2).tolist() == [[0], [0], [1]]
    assert xp.linalg.cross(a[0], b).tolist() == [0, 0, 1], "the first of the dimensions is one of them"
    m = td.tensor([[2.0, 0], [0, 4.0]])
    assert xp.linalg.solve(m, td.tensor([2.0, 4.0])).tolist() == [1, 1] and xp.linalg.solve(m, m).tolist() == [[1, 0], [0, 1]] and xp.linalg.solve(m.expand(3, 2, 2), td.ones(3, 2, 1)).shape == (3, 2, 1)
    assert values(xp.linalg.outer(td.tensor([1, 2]), td.tensor([0.5])), xp.linalg.diagonal(x, offset=1), xp.linalg.trace(x, offset=1, dtype=td.float64)) == [[[0.5], [1.0]], [1, 5], 6]
    assert xp.linalg.svd(td.ones(3, 2), full_matrices=False).U.shape == (3, 2) and xp.linalg.svd(td.ones(3, 2)).U.shape == (3, 3) and xp.linalg.vector_norm(td.tensor([[3.0, 4.0]]), axis=1, keepdims=True).tolist() == [[5]]
    assert xp.linalg.matrix_norm(m, keepdims=True).shape == (1, 1) and xp.linalg.cholesky(m, upper=True)[0, 1].item() == 0 and xp.matrix_transpose(x).tolist() == x.T.tolist()


def test_parts_by_indices():
    x = td.arange(24).reshape(2, 3, 4)
    for dtype in (td.int8, td.uint8, td.int32, td.int64):
        two = td.tensor([[1, 0], [1, 1]], dtype=dtype)
        assert xp.take(x, two, axis=1).tolist() == [[[row[int(k)] for k in pair] for pair in two] for row in x.tolist()] and xp.take(x, two, axis=0).shape == (2, 2, 3, 4) and xp.take(x, two, axis=-1).shape == (2, 3, 2, 2)
        assert xp.take_along_axis(x, two[:, :1].unsqueeze(2)).flatten().tolist() == [1, 5, 9, 13, 17, 21]
    assert xp.take(td.arange(3), td.tensor([-1])).tolist() == [2] and xp.take(td.arange(3), td.tensor(-1)).shape == ()
    m = td.tensor([[1, 5], [7, 3]])
    assert values(xp.argmax(m), xp.argmin(m), xp.argmax(m, axis=-1), xp.argmin(m, axis=0, keepdims=True)) == [2, 0, [1, 0], [[0, 1]]]
    assert values(xp.sort(m, descending=True), xp.argsort(m, axis=0), *xp.nonzero(m > 4)) == [[[5, 1], [7, 3]], [[0, 1], [1, 0]], [0, 1], [1, 0]]
    assert [x.tolist() for x in xp.unique_inverse(td.tensor([3, 1, 3]))] == [[1, 3], [1, 0, 1]] and xp.unique_values(td.tensor([3, 1, 3])).tolist() == [1, 3]
    assert values(xp.searchsorted(td.tensor([1, 3]), 2.5), xp.searchsorted(td.tensor([1.0, 3.0]), 3, side="left"), xp.searchsorted(td.tensor([1.0, 3.0]), 3, side="right")) == [1, 1, 2]


def test_shapes_in_several_ways():
    x = td.arange(6).reshape(1, 2, 1, 3)
    assert xp.squeeze(x, (0, 2)).tolist() == xp.squeeze(x, (-2, 0, 0)).tolist() == [[0, 1, 2], [3, 4, 5]] and xp.squeeze(x, 2).shape == (1, 2, 3)
    assert xp.expand_dims(td.ones(2, 3), (1, 3)).shape == (2, 1, 3, 1) and xp.moveaxis(x, -1, 0).shape == (3, 1, 2, 1) and xp.moveaxis(x, (0, 1), (1, 3)).shape == (1, 1, 3, 2)
    assert xp.broadcast_shapes(*[(1,) * 64] * 2) == (1,) * 64 and xp.broadcast_shapes() == () and xp.broadcast_arrays() == () and [a.shape for a in xp.broadcast_arrays(td.ones(2, 1), td.ones(3))] == [(2, 3)] * 2
    copied, view = xp.reshape(x, (6,), copy=True), xp.reshape(x, (6,))
    assert copied.data_ptr() != x.data_ptr() == view.data_ptr() == xp.reshape(x, 6, copy=False).data_ptr() and xp.reshape(x.mT, (6,)).tolist() == [0, 1, 2, 3, 4, 5]
    m = td.arange(6).reshape(2, 3)
    assert values(xp.repeat(m, td.tensor([1, 0]), axis=0), xp.repeat(m, td.tensor([2]), axis=0), xp.repeat(m[0], td.tensor([0, 0, 0])), xp.repeat(m[0], td.tensor([0, 0, 3])), xp.repeat(td.ones(0), td.ones(0, dtype=td.int64))) == [
        [[0, 1, 2]], [[0, 1, 2]] * 2 + [[3, 4, 5]] * 2, [], [2, 2, 2], []]
    assert values(xp.flip(m), xp.flip(m, axis=(0,)), xp.roll(m, (1, 1), axis=(0, 1)), xp.roll(m, 2, axis=1)) == [[[5, 4, 3], [2, 1, 0]], [[3, 4, 5], [0, 1, 2]], [[5, 3, 4], [2, 0, 1]], [[1, 2, 0], [4, 5, 3]]]
    assert len(xp.unstack(td.ones(0, 2))) == 0 and xp.tile(m, (2,)).shape == (2, 6) and xp.tile(m, (2, 1, 1)).shape == (2, 2, 3) and xp.stack([m, m.float()], axis=-1).dtype is td.float32


def test_statistics_in_several_ways():
    x = td.arange(24).reshape(2, 3, 4) + 1
    assert xp.prod(x, axis=(0, 1)).tolist() == [1 * 5 * 9 * 13 * 17 * 21, 2 * 6 * 10 * 14 * 18 * 22, 3 * 7 * 11 * 15 * 19 * 23, 4 * 8 * 12 * 16 * 20 * 24] and xp.prod(x[0, 0]).item() == 24
    assert xp.prod(x, axis=(), dtype=td.float64).dtype is td.float64 and xp.prod(x, axis=(-1, 0)).shape == (3,)
    same = td.ones(2, dtype=td.int64)
    for f in (xp.sum, xp.max, xp.mean):
        kept = same if f is not xp.mean else same.float()
        made = f(kept, axis=())
        assert made is not kept and made.data_ptr() != kept.data_ptr() and made.tolist() == [1, 1]
    assert xp.sum(td.ones(2, dtype=td.int8), axis=()).dtype is td.int64
    assert values(xp.cumulative_sum(x[0], axis=0, dtype=td.float64)[2], xp.cumulative_sum(x[0], axis=1, include_initial=True)[0], xp.cumulative_prod(x[0, 0], dtype=td.float64)) == [[15, 18, 21, 24], [0, 1, 3, 6, 10], [1, 2, 6, 24]]
    assert xp.cumulative_prod(x[0, 0], dtype=td.float64).dtype is td.float64 and xp.cumulative_prod(td.ones(2, dtype=td.int8)).dtype is td.int64
    m = td.arange(6).reshape(2, 3) ** 2
    assert values(xp.diff(m), xp.diff(m, axis=0), xp.diff(m, n=2), xp.diff(m, axis=0, append=m[:1]), xp.diff(m, prepend=td.ones(2, 1)), xp.diff(m, prepend=m[:, :1], append=m[:, 2:])) == [
        [[1, 3], [7, 9]], [[9, 15, 21]], [[2], [2]], [[9, 15, 21], [-9, -15, -21]], [[-1, 1, 3], [8, 7, 9]], [[0, 1, 3, 0], [0, 7, 9, 0]]]
    assert xp.diff(m, prepend=td.ones(2, 1)).dtype is td.float32 and xp.diff(m).dtype is td.int64
    assert xp.var(td.tensor([1.0, 3.0]), correction=1).item() == 2 and xp.std(td.tensor([[1.0, 3.0]]), axis=1, keepdims=True).tolist() == [[1]] and xp.all(td.tensor([1, 0]), keepdims=True).tolist() == [False]


def test_transforms_in_several_ways():
    x = td.tensor([[1.0, 2.0], [3.0, 5.0]])
    for half in (td.float16, td.bfloat16):
        assert xp.fft.fft(x.to(half)).dtype is td.complex64
    assert xp.fft.fft(x.double()).dtype is td.complex128 and xp.fft.fft(x.to(td.int8)).dtype is td.complex64 and xp.fft.ifft(x, n=1).tolist() == [[1], [3]]
    assert values(xp.fft.fftn(x), xp.fft.fftn(x, s=(2,)), xp.fft.fftn(x, axes=(0,)), xp.fft.fftn(x, s=(1,), axes=(0,)), xp.fft.ifftn(x, norm="forward")) == [
        [[11, -3], [-5, 1]], [[3, -1], [8, -2]], [[4, 7], [-2, -3]], [[1, 2]], [[11, -3], [-5, 1]]]
    assert values(xp.fft.fftfreq(5, d=0.2, dtype=td.float64), xp.fft.rfftfreq(5, d=0.2, dtype=td.float64)) == [[0, 1, 2, -2, -1], [0, 1, 2]] and xp.fft.fftfreq(4).dtype is td.float32
    m = td.arange(6).reshape(2, 3)
    assert values(xp.fft.fftshift(m), xp.fft.fftshift(m, axes=1), xp.fft.ifftshift(m[0]), xp.fft.ifftshift(xp.fft.fftshift(m)), xp.fft.fftshift(td.tensor(3))) == [
        [[5, 3, 4], [2, 0, 1]], [[2, 0, 1], [5, 3, 4]], [1, 2, 0], [[0, 1, 2], [3, 4, 5]], 3]


M, X = td.arange(6).reshape(2, 3), td.ones(3)


@pytest.mark.parametrize("wrong, kind, said", [
    (lambda: xp.take(M, td.tensor([0])), ValueError, "axis is needed unless there is one dimension; here are 2"), (lambda: xp.take_along_axis(M, td.tensor([0])), ValueError, "2 dimensions and 1 of the indices"),
    (lambda: xp.vecdot(M, M, axis=1), ValueError, "counts from the last dimension, -1, not 1"), (lambda: xp.vecdot(M, M, axis=0), ValueError, "counts from the last dimension, -1, not 0"),
    (lambda: xp.vecdot(M, M, axis=-3), ValueError, "do not have the same size at -3"), (lambda: xp.vecdot(M, M[:1], axis=-2), ValueError, "do not have the same size at -2"),
    (lambda: xp.tensordot(M, M, axes=3), ValueError, "axes is 3, for tensors of 2 and 2"), (lambda: xp.tensordot(M, M, axes=-1), ValueError, "axes is -1"),
    (lambda: xp.tensordot(M, M, axes=((0,), (0, 1))), ValueError, "do not go together"), (lambda: xp.tensordot(M, M, axes=((0,), (1,))), ValueError, "do not go together"),
    (lambda: xp.cumulative_sum(M), ValueError, r"cumulative_sum\(\): axis is needed"), (lambda: xp.cumulative_prod(td.tensor(1)), ValueError, r"cumulative_prod\(\): axis is needed"),
    (lambda: xp.broadcast_shapes((1,) * 65), ValueError, "a shape of 65 dimensions; a tensor has at most 8"), (lambda: xp.moveaxis(M, (0, 1), (0,)), ValueError, "cannot go to"),
    (lambda: xp.moveaxis(M, (0, 0), (0, 1)), ValueError, "cannot go to"), (lambda: xp.moveaxis(M, (0, 1), (1, 1)), ValueError, "cannot go to"),
    (lambda: xp.searchsorted(X, 1, side="no"), ValueError, "'left' or 'right', not 'no'"), (lambda: xp.result_type(), ValueError, "tensor, dtype or number"),
    (lambda: xp.result_type(1, 2.0), ValueError, "among the numbers"), (lambda: xp.result_type("a"), TypeError, "a str is neither a tensor nor a number"), (lambda: xp.mean(X, axis=(0, 0)), ValueError, "named twice"),
    (lambda: xp.linalg.cross(X, X, axis=0), ValueError, r"cross\(\): axis 0 counts from the last"), (lambda: xp.linalg.cross(X, X.reshape(3, 1), axis=-2), ValueError, r"cross\(\): axis -2 counts from the last"),
    (lambda: xp.fft.rfft(1j * X), TypeError, r"rfft\(\) is for real numbers; use fft\(\)"), (lambda: xp.fft.rfftn(1j * X), TypeError, r"rfftn\(\) is for real numbers; use fftn\(\)"),
    (lambda: xp.fft.fft(X, n=0), ValueError, "at least one place, not 0"), (lambda: xp.fft.fft(X, norm="both"), ValueError, "'forward', not 'both'"),
    (lambda: xp.fft.fftn(X, s=(1, 2), axes=(0,)), ValueError, "2 lengths for 1 axes"), (lambda: xp.squeeze(M, 1), ValueError, "dimension 1 has size 3, not 1"), (lambda: xp.flip(M, axis=2), IndexError, "axis 2 is out of bounds for 2"),
    (lambda: xp.expand_dims(M, (0, -4)), ValueError, "named twice")])
def test_what_is_refused(wrong, kind, said):
    with pytest.raises(kind, match=said):
        wrong()
