"""uint16, uint32 and uint64 against NumPy, over the whole of their range: arithmetic that wraps, order, reductions, places, exchange, files."""
import io
import pickle

import pytest

import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

DTYPES = ("uint16", "uint32", "uint64")
SIZES = (1, 7, 64, 1000, 70_000)


def numbers(dtype, n, seed=0):
    """Some of everywhere, the ends of the range among them."""
    rng = np.random.default_rng(seed)
    most = np.iinfo(dtype).max
    x = rng.integers(0, most, n, dtype=dtype, endpoint=True)
    small = rng.random(n) < 0.5
    x[small] = rng.integers(0, 40, int(small.sum()))
    x[rng.random(n) < 0.05] = most
    x[rng.random(n) < 0.05] = most // 2 + 1  # the first that would be below 0 with a sign
    return x


def same(got, want):
    got = got.numpy() if isinstance(got, td.Tensor) else got
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
       "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
       "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "gcd": np.gcd, "logical_and": np.logical_and}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TWO)
def test_two(name, dtype, n):
    a, b = numbers(dtype, n, 1), numbers(dtype, n, 2)
    f = getattr(td, name)
    same(f(td.tensor(a), td.tensor(b)), TWO[name](a, b))
    if n > 1:  # views with strides, a row beside many
        same(f(td.tensor(a)[::2], td.tensor(b)[::2]), TWO[name](a[::2], b[::2]))
        same(f(td.tensor(a).reshape(n, 1), td.tensor(b)[:3]), TWO[name](a.reshape(n, 1), b[:3]))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients(dtype, n):
    a, b = numbers(dtype, n, 3), np.maximum(numbers(dtype, n, 4), 1)
    x, y = td.tensor(a), td.tensor(b)
    same(x // y, a // b)
    same(x % y, a % b)
    same(td.fmod(x, y), np.fmod(a, b))
    same(td.div(x, y, rounding_mode="trunc"), a // b)
    with pytest.raises(td.Error, match="ZeroDivisionError"):
        (x // td.zeros_like(y)).numpy()
    want = a.astype(np.float32) / b.astype(np.float32)
    np.testing.assert_allclose((x / y).numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits(dtype):
    a = numbers(dtype, 1000, 5)
    bits = np.dtype(dtype).itemsize * 8
    shifts = (np.arange(1000) % (bits + 3)).astype(dtype)
    x, by = td.tensor(a), td.tensor(shifts)
    same(x << by, np.where(shifts < bits, a << np.minimum(shifts, bits - 1).astype(dtype), 0).astype(dtype))
    same(x >> by, np.where(shifts < bits, a >> np.minimum(shifts, bits - 1).astype(dtype), 0).astype(dtype))
    same(~x, ~a)
    same(-x, (0 - a.astype(dtype)).astype(dtype))
    same(abs(x), a)
    same(td.sign(x), np.sign(a))
    same(td.signbit(x), np.zeros(1000, bool))
    same(x**3, a**np.array(3, dtype))
    same(td.square(x), a * a)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers(dtype, n):
    """Beside numbers of Python they stay what they are; below 0 those wrap."""
    a = numbers(dtype, n, 6)
    x = td.tensor(a)
    same(x + 5, a + np.array(5, dtype))
    same(x - 5, a - np.array(5, dtype))
    same(x * 3, a * np.array(3, dtype))
    same(x + -1, a - np.array(1, dtype))
    same(x < 40, a < 40)
    same(x.clamp(3, 1000), np.clip(a, np.array(3, dtype), np.array(1000, dtype)))
    same(x.clamp(min=7), np.maximum(a, np.array(7, dtype)))
    same(x.clamp(max=7), np.minimum(a, np.array(7, dtype)))
    assert (x + 1.5).dtype is td.float32
    same(td.where(x > 20, x, 0), np.where(a > 20, a, 0).astype(dtype))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype, n):
    a = numbers(dtype, n, 7)
    x = td.tensor(a)
    same(x.max(), a.max())
    same(x.min(), a.min())
    assert int(x.argmax()) in np.flatnonzero(a == a.max()) and int(x.argmin()) in np.flatnonzero(a == a.min())
    same(x.amax(), a.max())
    assert x.sum().dtype is td.int64
    same(x.sum(), a.sum(dtype=dtype if dtype == "uint64" else "uint64").astype("int64"))
    same(x.prod(), a.prod(dtype="uint64").astype("int64"))
    same(x.any(), np.bool_(a.any()))
    same(x.all(), np.bool_(a.all()))
    if n % 2 == 0:
        m, y = a.reshape(-1, 2), td.tensor(a).reshape(-1, 2)
        for dim in 0, 1:
            got = y.max(dim)
            same(got.values, m.max(dim))
            same(y.gather(dim, got.indices.unsqueeze(dim)).squeeze(dim), m.max(dim))
            same(y.amin(dim), m.min(dim))
        same(y.t().amax(0), m.max(1))
    same(td.cumsum(x, 0), a.cumsum(dtype="uint64").astype("int64"))
    same(td.cummax(x, 0).values, np.maximum.accumulate(a))
    same(td.cummin(x, 0).values, np.minimum.accumulate(a))
    assert int(td.count_nonzero(x)) == np.count_nonzero(a)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_order(dtype, n):
    a = numbers(dtype, n, 8)
    x = td.tensor(a)
    for down in False, True:
        got = td.sort(x, descending=down, stable=True)
        same(got.values, np.sort(a)[::-1] if down else np.sort(a))
        same(x[got.indices], np.sort(a)[::-1] if down else np.sort(a))
    k = min(n, 9)
    same(td.topk(x, k).values, np.sort(a)[::-1][:k])
    same(td.unique(x), np.unique(a))
    same(td.isin(x, x[:3]), np.isin(a, a[:3]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_places(dtype):
    a = numbers(dtype, 600, 9).reshape(20, 30)
    x, rng = td.tensor(a), np.random.default_rng(1)
    at = rng.integers(0, 20, 50)
    same(x[td.tensor(at)], a[at])
    same(x[x > 20], a[a > 20])
    same(td.nonzero(x), np.stack(np.nonzero(a), 1))
    same(td.cat([x, x], 1), np.concatenate([a, a], 1))
    same(x.flip(0).roll(3, 1), np.roll(a[::-1], 3, 1))
    y = td.zeros(20, 30, dtype=getattr(td, dtype))
    want = np.zeros((20, 30), dtype)
    np.add.at(want, at, a[at])
    y.index_add_(0, td.tensor(at), x[td.tensor(at)])
    same(y, want)
    for reduce, ufunc in (("amax", np.maximum), ("amin", np.minimum), ("prod", np.multiply)):
        to = rng.integers(0, 20, (40, 30))
        src = numbers(dtype, 1200, 10).reshape(40, 30)
        want = a.copy()
        ufunc.at(want, (to, np.arange(30)[None].repeat(40, 0)), src)
        same(x.scatter_reduce(0, td.tensor(to), td.tensor(src), reduce), want)
        fresh = np.full((20, 30), {"amax": 0, "amin": np.iinfo(dtype).max, "prod": 1}[reduce], dtype)
        ufunc.at(fresh, (to, np.arange(30)[None].repeat(40, 0)), src)
        hit = np.zeros((20, 30), bool)
        hit[to, np.arange(30)[None].repeat(40, 0)] = True
        same(x.scatter_reduce(0, td.tensor(to), td.tensor(src), reduce, include_self=False), np.where(hit, fresh, a))
    x[3] = 7
    assert x[3].tolist() == [7] * 30


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    a, b = numbers(dtype, 60, 11).reshape(6, 10), numbers(dtype, 70, 12).reshape(10, 7)
    same(td.tensor(a) @ td.tensor(b), a @ b)
    same(td.tensor(a) @ td.tensor(b[:, 0]), a @ b[:, 0])
    same(td.tensor(a[0]) @ td.tensor(b[:, 0]), a[0] @ b[:, 0])
    same(td.nn.functional.max_pool2d(td.tensor(a).reshape(1, 1, 6, 10), 2), a.reshape(1, 1, 3, 2, 5, 2).max((3, 5)))


@pytest.mark.parametrize("other", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", *DTYPES])
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype, other):
    rng = np.random.default_rng(2)
    for n in SIZES:
        a = numbers(dtype, n, 13)
        if other == "float16":
            a = a % np.array(60_000, dtype)
        same(td.tensor(a).to(getattr(td, other)), a.astype(other))
        whole = other.startswith(("int", "uint", "bool"))
        b = rng.integers(0, 100, n).astype(other)
        same(td.tensor(b).to(getattr(td, dtype)), b.real.astype(dtype))
        if whole and other != "bool":
            ends = np.array([np.iinfo(other).min, np.iinfo(other).max], other)
            same(td.tensor(ends).to(getattr(td, dtype)), ends.astype(dtype))
    if other in ("float32", "float64"):
        most = float(np.iinfo(dtype).max // 2 + 1)
        assert int(td.tensor([most], dtype=getattr(td, other)).to(getattr(td, dtype))[0]) == int(most)


def test_promotion():
    for a in DTYPES:
        for b in ("bool", "uint8", "int8", "int16", "int32", "int64", *DTYPES):
            one, other = td.tensor([1], dtype=getattr(td, a)), td.tensor([True]).to(getattr(td, b))
            want = np.promote_types(a, b)
            if want == np.float64:
                with pytest.raises(TypeError, match="no dtype holds both 'x', which is uint64, and 'y', which is int"):
                    one + other
                with pytest.raises(TypeError, match="no dtype holds both"):
                    td.promote_types(one.dtype, other.dtype)
            else:
                assert (one + other).dtype is td.promote_types(one.dtype, other.dtype) is getattr(td, str(want))
    assert (td.tensor([1], dtype=td.uint64) + td.tensor(1)).dtype is td.uint64  # without dimensions it counts less
    with pytest.raises(TypeError, match="no dtype holds all of the data, which is uint64 and int64: say dtype="):
        td.tensor([td.tensor(1, dtype=td.uint64), 1])


def test_python_numbers():
    most = 2**64 - 1
    x = td.tensor([[0, 1], [2**63, most]], dtype=td.uint64)
    assert x.tolist() == [[0, 1], [2**63, most]] and x[1, 1].item() == most and int(x.max()) == most and float(x[1, 0]) == 2.0**63
    assert repr(td.tensor([1, most], dtype=td.uint64)) == "tensor([                   1, 18446744073709551615], dtype=tensord.uint64)"
    assert repr(td.tensor([1, 2], dtype=td.uint16)) == "tensor([1, 2], dtype=tensord.uint16)"
    assert td.full((2,), 65535, dtype=td.uint16).tolist() == [65535] * 2 and td.full((1,), -1, dtype=td.uint64).item() == most
    with pytest.raises(ValueError, match="65536 does not fit into uint16"):
        td.tensor([65536], dtype=td.uint16)
    with pytest.raises((ValueError, OverflowError)):
        td.tensor([2**64], dtype=td.uint64)
    with pytest.raises(ValueError):
        td.full((1,), 65536, dtype=td.uint16)
    for dtype in DTYPES:
        info = td.iinfo(getattr(td, dtype))
        assert (info.min, info.max, info.bits) == (0, np.iinfo(dtype).max, np.iinfo(dtype).bits)
        assert not getattr(td, dtype).is_signed
    assert td.arange(3, dtype=td.uint32).tolist() == [0, 1, 2] and td.eye(2, dtype=td.uint64).tolist() == [[1, 0], [0, 1]]
    assert td.randint(0, 9, (100,), dtype=td.uint16).max() < 9
    assert td.isclose(td.tensor([1, most], dtype=td.uint64), td.tensor([most, most], dtype=td.uint64)).tolist() == [False, True]


def test_no_gradients():
    with pytest.raises(RuntimeError, match="float"):
        td.tensor([1], dtype=td.uint16).requires_grad_()
    w = td.ones(3, requires_grad=True)
    (w * td.tensor([1, 2, 3], dtype=td.uint16)).sum().backward()
    assert w.grad.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exchange(dtype):
    a = numbers(dtype, 50, 14).reshape(5, 10)
    x = td.from_numpy(a.copy())
    same(x, a)
    same(np.from_dlpack(td.tensor(a)), a)
    same(td.from_dlpack(a.copy()), a)
    same(np.asarray(td.tensor(a))[:, ::2], a[:, ::2])
    same(pickle.loads(pickle.dumps(td.tensor(a))), a)
    y = td.tensor(a)
    y.numpy()[0, 0] = 3
    assert y[0, 0].item() == 3
    assert memoryview(td.tensor(a)).format == {"uint16": "H", "uint32": "I", "uint64": "Q"}[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_files(dtype, tmp_path):
    a = numbers(dtype, 50, 15).reshape(5, 10)
    x = td.tensor(a)
    for name in ("x.npy", "x.npz", "x.safetensors", "x.pt", "x.td"):
        tree = x if name.endswith(".npy") else {"a": x, "b": x[1:3]}
        td.save(tree, tmp_path / name)
        back = td.load(tmp_path / name)
        same(back if name.endswith(".npy") else back["a"], a)
        if isinstance(tree, dict):
            same(back["b"], a[1:3])
    same(np.load(tmp_path / "x.npz")["a"], a)
    np.save(tmp_path / "y.npy", a.astype(a.dtype.newbyteorder(">")))
    same(td.load(tmp_path / "y.npy"), a)
    with io.BytesIO() as f:
        td.save(x, f)
        f.seek(0)
        same(td.load(f), a)


def test_programs():
    @td.jit.script
    def f(x):
        return (x + 1).to(td.uint16), x.to(td.uint64) * 2

    a, b = f(td.tensor([65535, 1], dtype=td.int64))
    assert a.dtype is td.uint16 and a.tolist() == [0, 2] and b.dtype is td.uint64 and b.tolist() == [131070, 2]


def test_queues():
    x = td.tensor([1, 65535], dtype=td.uint16)
    with td.Queue("unsigned") as q:
        q.put({"x": x})
        assert q.get()["x"].tolist() == [1, 65535]


HIGH = 0x9E3779B97F4A7C15  # a number that no int64 holds


@pytest.mark.parametrize("f", [
    lambda x, p: x * p, lambda x, p: p + x, lambda x, p: x ^ p, lambda x, p: x & p, lambda x, p: x // p, lambda x, p: x % p,
    lambda x, p: x == p, lambda x, p: x < p, lambda x, p: p <= x])
def test_numbers_above_int64(f):
    a = np.array([0, 1, HIGH, 2**63, 2**64 - 1], np.uint64)
    same(f(td.tensor(a), HIGH), f(a, np.uint64(HIGH)))
    same(f(td.tensor(a), np.uint64(HIGH)), f(a, np.uint64(HIGH)))


def test_numbers_above_int64_fill_and_bound():
    a = np.array([0, 1, HIGH, 2**64 - 1], np.uint64)
    x, mask = td.tensor(a), [True, False, True, False]
    same(td.full((3,), HIGH, dtype=td.uint64), np.full(3, HIGH, np.uint64))
    same(td.full_like(x, 2**63), np.full(4, 2**63, np.uint64))
    same(x.clamp(1, HIGH - 1), a.clip(1, np.uint64(HIGH - 1)))
    same(x.masked_fill(td.tensor(mask), HIGH), np.where(mask, np.uint64(HIGH), a))
    same(td.where(td.tensor(mask), x, HIGH), np.where(mask, a, np.uint64(HIGH)))
    y = x.clone()
    y[0], y[td.tensor([1])] = HIGH, 2**63
    y += 2**63
    assert y.tolist() == [(v + 2**63) % 2**64 for v in (HIGH, 2**63, HIGH, 2**64 - 1)]


def test_numbers_above_int64_elsewhere():
    assert (td.tensor([1.0, 2.0]) * 2**63).tolist() == [2.0**63, 2.0**64]
    for f in (lambda: td.tensor([1]) + 2**63, lambda: td.full((2,), 2**63), lambda: td.tensor([1], dtype=td.int32) * HIGH):
        with pytest.raises(OverflowError, match="more than an int64 holds"):
            f()
    with pytest.raises(OverflowError):
        td.tensor([1], dtype=td.uint64) + 2**64


def test_lcm_of_large_magnitudes():
    a, b = np.array([4294967295, 4294967291, 6], np.uint32), np.array([4294967294, 4294967279, 4], np.uint32)
    same(td.lcm(td.tensor(a), td.tensor(b)), np.lcm(a, b))
