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
