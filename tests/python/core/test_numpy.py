"""The same bytes for NumPy, the buffer protocol and DLPack."""
import array
import gc
import pickle

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_both_ways(name):
    a = np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
    t = td.asarray(a)
    assert t.dtype is getattr(td, name) and t.numpy().dtype == a.dtype and (np.asarray(t) == a).all()
    assert td.asarray(a.T).tolist() == a.T.tolist() and td.asarray(a[:, ::2]).tolist() == a[:, ::2].tolist()


@pytest.mark.parametrize("name", [*DTYPES, "uint16", "uint32", "uint64"])
def test_scalars_count_as_numbers_of_their_kind(name):
    """A bool as a bool, and so on, as those of Python; where data is taken, with their own dtype. Warnings are errors here."""
    v = np.dtype(name).type(1)
    kind = {"b": td.bool, "u": td.int64, "i": td.int64, "f": td.float32, "c": td.complex64}[v.dtype.kind]
    assert td.full((2,), v).dtype is td.where(td.tensor([True]), v, v).dtype is td.array_api.full((2,), v).dtype is kind
    small = td.ones(1, dtype=td.int8)
    for x in (small + v, v + small, td.mul(small, v)):
        assert x.dtype is (small + v.item()).dtype
    assert td.tensor(v).dtype is td.tensor([v, v]).dtype is getattr(td, name, td.int64)
    assert td.zeros(2).fill_(v).tolist() == td.full_like(td.zeros(2), v).tolist() == [1, 1]


def test_writes_are_seen_by_both():
    t = td.zeros(2, 3)
    a = np.asarray(t)
    assert a.flags.writeable and not a.flags.owndata
    a[0, 1] = 5
    assert t[0, 1].item() == 5 and (t + 1)[0, 1].item() == 6
    t.add_(1)
    td.sync()
    assert a[0, 1] == 6 and t.T.numpy().strides == (4, 12) and t.numpy().ctypes.data == t.data_ptr()
    y = t * 2
    t.numpy()[:] = 0  # what was asked before still sees the old values
    assert y.sum().item() == 22


def test_beside_a_tensor_numpy_makes_tensors():
    """Whichever comes first: else a result would leave the graph, or the daemon, without a word."""
    t, a = td.tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0], dtype=np.float32)
    for made in (t + a, a + t, a.astype(np.int16) + t, a * t, t - a, a - t, a / t, a**t, a @ t, t @ a, np.float64(2) * t, np.float32(2) * t,
                 np.int64(2) * t, t * np.float64(2), np.float64(2) - t):
        assert type(made) is td.Tensor and made.dtype is td.float32 and made.requires_grad
    assert (a - t).tolist() == [2, 2] and (np.float64(2) - t).tolist() == [1, 0] and (a @ t).item() == 11
    for made in (a > t, t < a, np.float64(3) > t, a != t, t != a):
        assert type(made) is td.Tensor and made.tolist() == [True, True]
    assert (a == t).tolist() == [False, False]
    (a * t).sum().backward()
    assert t.grad.tolist() == [3, 4]
    x = td.ones(2)
    y = x
    x += a
    assert x is y and y.tolist() == [4, 5]
    assert (td.ones(2) * a.astype(np.float64)).dtype is td.float64 and (td.ones(2) * np.array(2.0)).dtype is td.float32
    with pytest.raises(TypeError, match="elements of dtype '<U1' cannot become a tensor"):
        t + np.array(["a", "b"])
    assert (t == "a") is False


def test_a_buffer_has_the_order_that_was_asked_for():
    """A consumer that asks for C or Fortran order need not look at the strides."""
    import ctypes
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release

    def gives(x, flags):
        view = ctypes.create_string_buffer(256)
        try:
            get(ctypes.py_object(x), view, flags)
        except (BufferError, ValueError) as e:  # NumPy says the second
            assert "contiguous" in str(e)
            return False
        release(view)
        return True

    simple, nd, strides, c, fortran, some = 0, 0x8, 0x18, 0x38, 0x58, 0x98
    x = td.arange(6).view(2, 3)
    for t in (x, x.t(), td.arange(12).view(4, 3)[::2], td.arange(3), td.zeros(0, 3), td.tensor(1)):
        a = t.numpy()
        for flags in (simple, nd, strides, c, fortran, some):
            assert gives(t, flags) == gives(a, flags), (t.shape, t.stride(), flags)


def test_an_array_keeps_the_memory():
    a = td.full((1000,), 3.0).numpy()
    gc.collect()
    for _ in range(50):
        td.zeros(1000)
    td.sync()
    assert (a == 3).all()


def test_read_only_memory():
    with td.service_memory():
        t = td.ones(4)
    a = t.numpy()
    assert not a.flags.writeable and a.sum() == 4
    with pytest.raises(ValueError):
        a[0] = 1
    assert memoryview(t).readonly
    assert np.from_dlpack(t).tolist() == [1] * 4 and not np.from_dlpack(t).flags.writeable


def test_dlpack_s_flags():
    """What a capsule says, read from its bytes: name, version, flags."""
    import ctypes
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    def look(t, **asked):
        c = t.__dlpack__(**asked)
        if name(c) != b"dltensor_versioned":
            return name(c).decode()
        p = pointer(c, name(c))
        return *(ctypes.c_uint32 * 2).from_address(p), ctypes.c_uint64.from_address(p + 24).value

    t = td.ones(4)
    with td.service_memory():
        fixed = td.ones(4)
    assert look(t) == look(t, max_version=(0, 8)) == look(fixed) == "dltensor"
    assert look(t, max_version=(1, 0)) == look(t, max_version=(1, 1)) == look(t, max_version=(2, 0), dl_device=(1, 0), copy=False) == (1, 0, 0)
    assert look(fixed, max_version=(1, 0)) == (1, 0, 1) and look(t, max_version=(1, 0), copy=True) == (1, 0, 2)
    with pytest.raises(BufferError, match="requires grad"):
        look(td.ones(2, requires_grad=True))


def test_refused():
    w = td.ones(2, requires_grad=True)
    for wrong in (w.numpy, lambda: np.asarray(w), (w * 2).numpy):
        with pytest.raises(RuntimeError, match="detach"):
            wrong()
    with pytest.raises(BufferError):
        w.__dlpack__()
    with td.no_grad():
        assert w.numpy().sum() == 2
    assert w.detach().numpy().sum() == 2 and w.numpy(force=True).sum() == 2
    with pytest.raises(TypeError, match="bfloat16"):
        td.ones(1, dtype=td.bfloat16).numpy()
    for wrong in (np.array(["a"]), np.array([object()]), np.zeros(2, "longdouble"), np.zeros(2, ">f4")):
        with pytest.raises(TypeError):
            td.asarray(wrong)
    with pytest.raises(ValueError):
        td.asarray(np.ones(2), copy=False)


def test_numpy_scalars_and_other_buffers():
    assert (td.ones(2) * np.float32(2)).tolist() == [2, 2] and (td.ones(1) + np.int64(1)).dtype is td.float32
    assert td.tensor(np.float64(1)).dtype is td.float64 and td.tensor([np.int8(1), np.int8(2)]).dtype is td.int8
    assert td.tensor([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]] and td.zeros(np.int64(2)).shape == (2,)
    assert td.asarray(array.array("d", [1.5])).tolist() == [1.5] and td.tensor(bytearray(b"ab")).tolist() == [97, 98]
    assert td.asarray(memoryview(np.arange(3))).tolist() == [0, 1, 2] and td.tensor(np.array(5)).shape == ()
    assert td.from_numpy(np.arange(3.0)).dtype is td.float64 and np.sum(td.arange(4)) == 6


def test_empty_and_0d():
    assert td.zeros(0, 3).numpy().shape == (0, 3) and td.tensor(2.5).numpy() == 2.5 and td.asarray(np.zeros((2, 0))).shape == (2, 0)


def test_writing():
    t = td.zeros(3)
    before = t._version
    with t.writing() as a:
        a[:] = [1, 2, 3]
    assert t.tolist() == [1, 2, 3] and t._version == before + 1
    w = td.ones(3, requires_grad=True)
    y = (w * t).sum()
    with t.writing() as a:
        a += 1
    with pytest.raises(td.VersionError):
        y.backward()
        td.sync()
    with pytest.raises(ZeroDivisionError):
        with t.writing():
            1 / 0
    assert (t + 1).tolist() == [3, 4, 5]
    with td.service_memory():
        s = td.ones(1)
    with pytest.raises(PermissionError):
        with s.writing():
            pass


def test_dlpack():
    t = td.arange(6).view(2, 3)
    assert t.__dlpack_device__() == (1, 0)
    a = np.from_dlpack(t)
    assert a.tolist() == t.tolist() and a.ctypes.data == t.data_ptr()
    assert np.from_dlpack(t.T).strides == (8, 24)
    b = td.from_dlpack(np.arange(6.0).reshape(2, 3).T)
    assert b.tolist() == [[0, 3], [1, 4], [2, 5]] and b.dtype is td.float64
    c = td.from_dlpack(t)
    assert c.data_ptr() == t.data_ptr()
    for _ in range(20):
        t.__dlpack__(max_version=(1, 0)), t.__dlpack__(), t.__dlpack__(copy=True)  # nobody takes them
    for wrong in (dict(stream=1), dict(dl_device=(2, 0))):
        with pytest.raises(BufferError):
            t.__dlpack__(**wrong)
    with pytest.raises(BufferError):
        td.from_dlpack(np.ones(2), copy=False)


def _frames():
    return next(r["value"] for r in td.status() if r["key"] == "frames_in")


def _frames_of(work):
    td.sync()
    before = _frames()
    for _ in range(100):
        work()
    return _frames() - before


LARGE = 1 << 21  # not computed before the call returns


@pytest.mark.parametrize("view", [lambda t: t.numpy(), np.asarray, np.from_dlpack, lambda t: np.asarray(memoryview(t))])
def test_a_write_is_seen_by_a_view_that_lives(view):
    t = td.ones(LARGE)
    a = view(t)
    for i in range(5):
        t.add_(1)
        assert a[-1] == 2 + i
    t[-1] = 50
    assert a[-1] == 50
    td.add(t, 1, out=t)
    assert a[-1] == 51


def test_a_write_through_another_handle_is_seen_too():
    base = td.ones(LARGE)
    part, alias = base[1:], base.detach()  # made before anybody knows where it lies
    a = part.numpy()
    base.mul_(3)
    assert a[-1] == 3
    alias.mul_(3)
    assert a[-1] == 9
    base.view(2, -1)[1].fill_(4)
    assert a[-1] == 4
    q = td.Queue("seen")
    q.put(base)
    b = q.get()
    b.add_(1)
    assert a[-1] == 5
    c = b.numpy()
    del a, part
    base.add_(1)
    assert c[-1] == 6


@td.jit.script
def _as_rows(x):
    return x.view(-1, 2)


@td.jit.script
def _itself(x):
    return x


def _saved(x):
    return (x.requires_grad_() * x).grad_fn._saved_self.detach()


def _handed(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("comes_back", [_as_rows, _itself, _saved, _handed])
def test_a_write_is_seen_by_a_view_of_what_came_back(comes_back):
    x = td.ones(LARGE)
    a = comes_back(x).numpy()
    with td.no_grad():
        x.add_(1)
    assert a.reshape(-1)[-1] == 2


def test_what_training_writes_is_seen():
    x = td.ones(LARGE, requires_grad=True)
    values = x.detach().numpy()
    (x * 2).sum().backward()
    grad = x.grad.numpy()
    (x * 2).sum().backward()
    assert grad[-1] == 4
    td.optim.SGD([x], lr=1.0).step()
    assert values[-1] == -3
    x.grad.zero_()
    assert grad[-1] == 0
    with td.no_grad():
        x.copy_(td.full((LARGE,), 7.0))
    assert values[-1] == 7


def test_only_writes_to_what_is_looked_at_wait():
    t, other = td.ones(4), td.ones(4)
    plain = _frames_of(lambda: t.add_(1))
    a = t.numpy()
    assert _frames_of(lambda: t.add_(1)) >= 100 > 10 + plain
    assert _frames_of(lambda: (other.add_(1), (other * 2).add_(1))) <= 2 * plain + 4
    q = td.Queue("seen by none")
    q.put(t)
    b = q.get().numpy()  # may be any storage from before, but none from after
    assert _frames_of(lambda: (other * 2).add_(1)) <= plain + 6
    del a, b
    assert _frames_of(lambda: t.add_(1)) <= plain + 4


@pytest.mark.parametrize("known", (True, False))
def test_bytes_that_may_be_written_are_shown_when_nobody_reads_them_any_more(known):
    n = 700
    x = td.ones(n, n) if known else td.masked_select(td.ones(n, n), td.ones(n, n) > 0).reshape(n, n)
    y = x * 2 if known else td.masked_select(td.full((n * n,), 2.0), td.ones(n * n) > 0)
    z = y.reshape(n, n)
    for _ in range(6):
        z = z @ x / n
    a = y.numpy()
    a[...] = 0
    assert z.min().item() == z.max().item() == 2
