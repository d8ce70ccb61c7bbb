"""Against PyTorch, where it can be imported: the same functions on the same numbers, and memory handed over."""
import asyncio
import pickle
import warnings

import pytest
import tensord as td
from common import script, without

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 4)).astype("float32"), RNG.standard_normal((3, 4)).astype("float32")

CALLS = ["x + y", "x * y - 2", "x / y", "x ** 2", "x @ y.T", "x.sum()", "x.sum(0)", "x.mean(1, keepdim=True)", "x.exp().log()", "x.abs().sqrt()",
         "x.relu()", "x.sigmoid()", "x.tanh()", "x.softmax(1)", "x.log_softmax(dim=0)", "x.clamp(-0.5, 0.5)", "x.max()", "x.max(1)[0]", "x.max(1)[1]",
         "x.min(dim=0).values", "x.argmax()", "x.argmin(1)", "x.var()", "x.var(1)", "x.std(0)", "x.norm()", "x.logsumexp(1)", "x.cumsum(0)", "x.prod(1)",
         "x.reshape(4, 3)", "x.view(2, 6)", "x.T", "x.permute(1, 0)", "x.flatten()", "x.unsqueeze(1)", "x[:, 1:3]", "x[0]", "x[x > 0]", "x[[0, 2]]",
         "x[:, None, 1]", "x.expand(2, 3, 4)", "x.repeat(2, 1)", "x.flip(0)", "x.roll(1, 0)", "x.sort(1)[0]", "x.sort(0, descending=True)[1]",
         "x.topk(2, 1)[0]", "x.tril()", "x.triu(1)", "lib.cat([x, y], 1)", "lib.stack([x, y])", "lib.where(x > 0, x, y)", "lib.maximum(x, y)",
         "x.gather(1, i)", "x.scatter(1, i, y)", "x.index_select(0, i[0])", "x.masked_fill(x > 0, 7)", "x.floor()", "x.round()", "x.sign()", "x > y",
         "(x > 0) & (y > 0)", "x.isnan()", "x.any()", "(x > 0).all(1)", "(x > 0).sum()", "x.int() + 2.5", "x.int() // 2", "x % 0.7", "x.to(lib.float64)",
         "lib.outer(x[0], y[0])", "x.split(2, 1)[1]", "x.chunk(2)[0]", "x.unbind(1)[2]", "x.diagonal()", "lib.lerp(x, y, 0.3)", "x.addcmul(x, y, value=2)",
         "lib.atan2(x, y)", "x.fmod(0.6)", "lib.ones(2, 3)", "lib.arange(2, 9, 2)", "lib.linspace(0, 1, 5)", "lib.eye(3)", "x.movedim(0, 1)", "x.t()",
         "lib.meshgrid(x[0], y[0], indexing='ij')[1]", "lib.isclose(x, y)", "x.nonzero()", "2 - x", "2 / x", "-x", "lib.full((2,), 3)", "x.square()",
         "x.rsqrt()", "x.erf()", "x.expm1()", "x.log1p()", "x.sin() + x.cos()", "x.div(0.3, rounding_mode='floor')", "x.unfold(1, 2, 1)", "x.amax(0)"]


def of(lib, grad=False):
    make = torch.tensor if lib is torch else td.tensor
    return {"lib": lib, "x": make(A, requires_grad=grad), "y": make(B, requires_grad=grad), "i": make([[0, 1, 2, 0], [1, 1, 2, 2], [2, 0, 0, 1]])}


@pytest.mark.parametrize("call", CALLS)
def test_values(call):
    ours, theirs = eval(call, of(td)), eval(call, of(torch))
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    np.testing.assert_allclose(np.asarray(ours.contiguous()), theirs.contiguous().numpy(), rtol=2e-5, atol=1e-5, equal_nan=True)


DIFFERENTIABLE = [c for c in CALLS if not any(w in c for w in ("argm", ">", "int()", "nonzero", "isnan", "isclose", "[1]", "ones(", "arange", "linspace",
                                                               "eye", "full(", "any()", "//"))]


@pytest.mark.parametrize("call", DIFFERENTIABLE)
def test_gradients(call):
    grads = []
    for lib in (td, torch):
        names = of(lib, True)
        out = eval(call, names)
        (out * out).sum().backward() if out.dtype is lib.float32 else (out * out).sum().to(lib.float32).backward()
        grads.append([np.zeros_like(A) if names[n].grad is None else np.asarray(names[n].grad.detach()) for n in "xy"])
    for ours, theirs in zip(*grads):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("made", ["[1., 2.]", "[1.5, -2.]", "[[1, 2], [3, 40]]", "3.5", "[True, False]", "[1e-9, 1.]", "[1e10, 1.]", "[]", "[[], []]",
                                  "[float('nan'), 1., float('inf')]", "list(range(2000))", "[[0.1 * i * j for i in range(40)] for j in range(40)]",
                                  "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]", "[0.00001, 2.]", "[123456.0, 0.5]"])
def test_printing(made):
    ours, theirs = repr(td.tensor(eval(made))), repr(torch.tensor(eval(made)))
    assert ours.replace("tensord.", "torch.") == theirs.replace("size=(2, 0)", "size=(2, 0)"), f"\n{ours}\n{theirs}"


def test_read_only_memory_is_given_as_private_mappings():
    with td.service_memory():
        t = td.arange(5000.0)
    x, y, z = torch.from_dlpack(t), torch.from_dlpack(t), torch.from_dlpack(t[4990:])
    x[3] = -1  # was the end of the process, without a word
    x[4995:] = -1
    assert t[3].item() == 3 and y[3] == 3 and x[3] == -1 and z[5] == 4995
    t += 1  # what the daemon writes is seen, but where one has written
    td.sync()
    assert y[3] == 4 and x[3] == -1 and x[2000] == 2001 and z.tolist() == list(range(4991, 5001)) and t[4995].item() == 4996
    linear = torch.nn.Linear(100, 50, bias=False)
    linear.load_state_dict({"weight": torch.from_dlpack(t.reshape(50, 100))}, **({"assign": True} if torch.__version__ >= "2.1" else {}))
    assert linear(torch.ones(100))[0].item() == sum(range(1, 101))


def test_private_mappings_go():
    import gc
    import os

    def count():
        gc.collect()
        with open("/proc/self/maps") as f:
            return len(f.readlines()), len(os.listdir("/proc/self/fd"))

    with td.service_memory():
        t, empty = td.ones(30000), td.ones(0)
    assert torch.from_dlpack(empty).numel() == 0
    kept = torch.from_dlpack(t)
    before = count()
    many = [torch.from_dlpack(t) for _ in range(500)]
    during = count()
    assert during[1] == before[1] and during[0] >= before[0] + 400
    del many
    assert [b - a for a, b in zip(before, count())] <= [2, 0]
    del t
    [td.zeros(30000) for _ in range(20)]
    td.sync()
    assert kept.sum() == 30000


def test_handing_over():
    t = td.arange(6).view(2, 3)
    shared = torch.from_dlpack(t)
    assert shared.data_ptr() == t.data_ptr() and shared.tolist() == t.tolist()
    shared[0, 0] = 50
    assert t[0, 0].item() == 50
    assert td.from_dlpack(torch.ones(2, 3).t()).shape == (3, 2)
    assert td.asarray(torch.ones(2).numpy()).tolist() == [1, 1]
    import gc
    p = t.data_ptr()
    del t
    gc.collect()
    [td.zeros(6, dtype=td.int64) for _ in range(20)]
    td.sync()
    assert shared.tolist() == [[50, 1, 2], [3, 4, 5]] and shared.data_ptr() == p


# ---- tensors of torch come in, and ours go to torch -----------------------------------------------------------------

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("take", [td.tensor, td.asarray, td.as_tensor, td.from_numpy], ids=lambda f: f.__name__)
def test_tensors_of_torch_come_in(take):
    for name in DTYPES:
        theirs = (torch.arange(12).reshape(3, 4) % 5).to(getattr(torch, name))
        for view in (theirs, theirs.T, theirs[1:, ::2], theirs[2, 3], theirs[:0], theirs[0].expand(2, 4)):
            ours = take(view)
            assert ours.dtype is getattr(td, name) and ours.shape == tuple(view.shape) and ours.tolist() == view.tolist()
    parameter = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    assert take(parameter).tolist() == [1, 2] and not take(parameter).requires_grad and take(parameter * 2).tolist() == [2, 4]
    z = torch.tensor([1 + 2j])
    assert take(z.conj()).tolist() == [1 - 2j] and take(z.conj().imag).tolist() == [-2]
    with pytest.raises(TypeError, match="sparse_coo tensor of torch.*to_dense"):
        take(torch.eye(2).to_sparse())


def test_tensors_of_torch_within_others():
    a = torch.arange(3)
    assert td.tensor([a, a + 1]).tolist() == [[0, 1, 2], [1, 2, 3]] and td.tensor([a[1], 2.5]).tolist() == [1, 2.5]
    assert td.tensor(a, dtype=td.float64).dtype is td.float64 and td.as_tensor(a, dtype=td.int8).tolist() == [0, 1, 2]
    x = td.zeros(2, 3)
    x[1] = a
    x[0, :2] = torch.tensor(5.0)
    assert x.tolist() == [[5, 5, 0], [0, 1, 2]] and x[:, torch.tensor([2, 0])].tolist() == [[0, 5], [2, 0]]
    with pytest.raises(TypeError, match="as_tensor.. takes it in"):
        x.copy_(a)


def test_memory_of_ours_comes_back_without_a_copy():
    """Whatever way it went out, and whatever the other library made of it."""
    x = td.zeros(4, 6)
    ways = [torch.from_dlpack(x), torch.from_numpy(x.numpy()), torch.frombuffer(x.view(-1), dtype=torch.float32).reshape(4, 6), np.asarray(x)]
    for k, theirs in enumerate(ways):
        for part, view in enumerate((theirs, theirs[1:, ::2], theirs.T, theirs[2, 2:3])):
            back = td.asarray(view, copy=False)
            assert back.shape == tuple(view.shape)
            back += 1
            assert td.equal(back, td.tensor(view)) and x[2, 2].item() == 4 * k + part + 1
    bits = td.asarray(ways[0].view(torch.int32), copy=False)
    bits[0, 0] = 0x40000000
    assert x[0, 0].item() == 2
    tail = torch.from_dlpack(x[1:, 1:].T)
    del ways
    assert td.as_tensor(tail[0]).data_ptr() == x[1:, 1].data_ptr()
    assert td.tensor(tail).data_ptr() != tail.data_ptr()  # tensor() always copies
    kept = td.as_tensor(tail)
    del x, tail
    assert kept.shape == (5, 3) and kept.sum().item() > 0  # it holds the memory itself
    for copied in (torch.zeros(3), torch.from_dlpack(td.zeros(3)).double()):
        with pytest.raises(ValueError, match="copy"):
            td.asarray(copied, copy=False)
    td.zeros(3).publish("torch/in")
    private = torch.from_dlpack(td.open("torch/in"))
    private += 1
    assert td.as_tensor(private).tolist() == [1, 1, 1] and td.open("torch/in").tolist() == [0, 0, 0]
    td.drop("torch/in")


def test_a_queue_carries_tensors_of_torch():
    from tensord.torch import _memory

    ours = _memory.empty((2, 3), torch.float32)
    with td.Queue("torch/items", 2) as q:
        q.put({"a": [torch.arange(3), ours[:, 1:]], "p": torch.nn.Parameter(torch.ones(2)), "b": torch.tensor([True]), "ours": ours})
        got = q.get()
        assert got["a"][0].tolist() == [0, 1, 2] and got["p"].tolist() == [1, 1] and got["b"].tolist() == [True] and got["b"].dtype is td.bool
        got["a"][1][0, 0] = 7  # the same memory, since it was shared already
        td.sync()
        assert ours[0, 1].item() == 7 and got["ours"][0, 1].item() == 7
        state = torch.nn.Linear(2, 3).state_dict()
        q.put(state)
        got = q.get()
        assert list(got) == list(state) and all(got[k].tolist() == v.tolist() for k, v in state.items()) and got._metadata == state._metadata


def _networks():
    return [lib.nn.Sequential(lib.nn.Conv2d(1, 2, 3), lib.nn.BatchNorm2d(2), lib.nn.Flatten(), lib.nn.Linear(8, 3)) for lib in (td, torch)]


def test_states_go_both_ways():
    ours, theirs = _networks()
    images = np.ones((2, 1, 4, 4), "float32") * np.arange(4, dtype="float32")

    def same():
        return np.allclose(np.asarray(ours(td.tensor(images)).detach()), theirs(torch.from_numpy(images)).detach().numpy(), atol=1e-5)

    assert not same()
    assert not any(ours.load_state_dict(theirs.state_dict()))
    assert same()
    other, _ = _networks()
    result = theirs.load_state_dict(other.state_dict())
    assert not result.missing_keys and not result.unexpected_keys and not same()
    ours.load_state_dict(other.state_dict())
    assert same()
    with pytest.raises(RuntimeError, match="size mismatch"):
        theirs.load_state_dict(td.nn.Sequential(td.nn.Linear(2, 2)).state_dict(), strict=False)


def test_a_parameter_of_torch_is_made_of_the_memory():
    """Ours cannot be one itself: what is refused says how, and that way trains the same bytes."""
    advice = r"torch.nn.Parameter\(torch.from_dlpack\(t\)\).*assign=True"
    with pytest.raises(td.DTypeError, match=advice):
        torch.nn.Parameter(td.ones(2))
    state, linear = {"weight": td.ones(1, 2), "bias": td.zeros(1)}, torch.nn.Linear(2, 1)
    assert not hasattr(state["bias"], "_is_param")
    if torch.__version__ < "2.1":
        pytest.skip("torch 1 has no assign=True")
    with pytest.raises(RuntimeError, match=advice):
        linear.load_state_dict(state, assign=True)
    linear.load_state_dict({k: torch.from_dlpack(t) for k, t in state.items()}, assign=True)
    linear(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(linear.parameters(), lr=0.5).step()
    assert state["weight"].tolist() == [[0.5, 0.5]] and state["bias"].tolist() == [-0.5]


def test_asarray_of_torch_is_warned_of():
    """It asks for bytes without a shape or dtype, and takes them for float32."""
    import io

    with pytest.warns(RuntimeWarning, match=r"torch.asarray\(t\) makes flat float32 of them; torch.from_dlpack\(t\)"):
        assert torch.asarray(td.ones(2, 3)).shape == (6,)
    with pytest.warns(RuntimeWarning, match="from_dlpack"):
        torch.asarray(td.tensor(3))
    into = td.zeros(4, dtype=td.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.asarray(td.arange(3.0)).tolist() == [0, 1, 2]
        assert io.BytesIO(b"abcd").readinto(into) == 4 and bytes(into) == b"abcd"
        assert np.asarray(td.ones(2, 3)).shape == memoryview(td.ones(2, 3)).shape == (2, 3)


def test_what_is_of_torch_is_called_so():
    """Tensor, dtype and device have the same names in both."""
    x, other = td.ones(2), torch.ones(2)
    for call, text in ((lambda: td.add(x, other), "not torch.Tensor of another library; tensord.as_tensor"), (lambda: td.add(x, x, out=other), "out must be a Tensor, not torch.Tensor"),
                       (lambda: x.to(torch.float64), "not torch.dtype"), (lambda: td.zeros(2, device=torch.device("cpu")), "not a torch.device"), (lambda: td.ones(2, requires_grad=True).backward(other), "tensors, not torch.Tensor")):
        with pytest.raises(td.DTypeError, match=text):
            call()


def test_functions_of_torch_take_ours():
    x, a = td.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    for made in (torch.add(a, x), x + a, a + x, torch.stack([a, x])[1] + 1, torch.nn.functional.linear(x, torch.eye(3)) + 1, torch.where(x > 1, x, x) + 1):
        assert type(made) is torch.Tensor and made.tolist() == [[1, 2, 3], [4, 5, 6]]
    a.copy_(x)
    a[0] = x[1]
    assert a.tolist() == [[3, 4, 5], [3, 4, 5]]
    torch.add(x, 1, out=torch.from_dlpack(x))  # the same bytes
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert torch.logical_not(td.tensor([True, False])).tolist() == [False, True] and torch.add(td.ones(2, dtype=td.bfloat16), 1).dtype is torch.bfloat16
    with pytest.raises(BufferError, match="requires grad, and its graph would end there; call detach"):
        torch.add(a, td.ones(2, 3, requires_grad=True))


@pytest.mark.skipif(int(torch.__version__.split(".")[0]) < 2, reason="torch 1 takes sequences of numbers only")
def test_as_tensor_of_torch_takes_ours():
    x = td.arange(6.0).reshape(2, 3)
    assert torch.as_tensor(x).tolist() == x.tolist() and torch.as_tensor(x).data_ptr() == x.data_ptr() and torch.tensor(x).tolist() == x.tolist()


# ---- out="torch": what comes out of queues and names


KINDS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


def test_a_queue_gives_torch_tensors_when_told():
    t, leaf = td.arange(6.0).reshape(2, 3), td.ones(2, requires_grad=True)
    with td.Queue("torch/out", 4, out="torch") as q, td.Queue("torch/out") as ours:
        q.put({"a": t, "rows": [t.T, (t[1:],)], "again": t, "leaf": leaf, "of graph": leaf * 2, "theirs": torch.ones(2, requires_grad=True), "n": 3, "empty": td.zeros(0, 2)})
        got = q.get()
        assert type(got["a"]) is torch.Tensor and got["again"] is got["a"] and got["n"] == 3 and got["empty"].shape == (0, 2)
        assert got["rows"][0].tolist() == t.T.tolist() and got["rows"][1][0].tolist() == [[3, 4, 5]]
        assert got["leaf"].tolist() == [1, 1] and got["of graph"].tolist() == [2, 2] and got["theirs"].tolist() == [1, 1]
        assert not any(got[k].requires_grad for k in ("leaf", "of graph", "theirs"))
        got["a"][0, 0] = 7
        assert t[0, 0].item() == 7 and got["rows"][0][0, 0] == 7  # the same bytes
        q.put(got["a"])
        assert ours.get().tolist() == t.tolist()  # each as it was told
        for k in range(2):
            q.put(k)
        ours.close(end=True)
        assert list(q) == [0, 1] and q.qsize() == 0
    with td.Queue("torch/out", out="torch", on_death=print) as q:
        q.put(t)
        assert type(q.get_nowait()) is torch.Tensor


@pytest.mark.parametrize("kind", KINDS)
def test_torch_tensors_of_each_dtype(kind):
    with td.Queue("torch/kinds", out="torch") as q:
        q.put(td.tensor([0, 1, 1]).to(getattr(td, kind)))
        got = q.get()
    assert got.dtype is getattr(torch, kind) and got.tolist() == [0, 1, 1]


def test_a_dtype_that_torch_has_not_is_told(monkeypatch):
    from tensord.core import _interop

    monkeypatch.delattr(torch, "int16")
    with pytest.raises(TypeError, match="has no int16, which a tensor that came has"):
        _interop.as_torch(td.zeros(2, dtype=td.int16))


def test_names_give_torch_tensors_when_told():
    net = torch.nn.Linear(3, 2)
    version = td.publish("torch/tree", net)
    state, seen = td.open("torch/tree", newer_than=0, out="torch")
    assert seen == version and all(type(x) is torch.Tensor for x in state.values())
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(state)
    assert torch.equal(other.weight, net.weight) and torch.equal(other.bias, net.bias)
    state["weight"].zero_()  # its own
    assert torch.equal(td.open("torch/tree", out="torch")["weight"], net.weight)
    td.drop("torch/tree")
    td.ones(2).publish("torch/one")
    one = td.open("torch/one", out="torch")
    assert type(one) is torch.Tensor and one.tolist() == [1, 1] and type(td.open("torch/one", out="tensord")) is td.Tensor
    td.drop("torch/one")


def test_asyncio_gives_torch_tensors_when_told():
    async def main():
        td.publish("torch/aio", {"w": td.ones(2)})
        state, version = await td.aio.open("torch/aio", newer_than=0, out="torch")
        assert type(state["w"]) is torch.Tensor and version == td.version_of("torch/aio")
        td.ones(2).publish("torch/aio/one")
        assert type(await td.aio.open("torch/aio/one", out="torch")) is torch.Tensor and type(await td.aio.open("torch/aio/one")) is td.Tensor
        async with td.aio.Queue("torch/aio/q", out="torch") as q:
            await q.put([td.ones(3)])
            assert type((await q.get())[0]) is torch.Tensor
        with pytest.raises(ValueError, match="out is"):
            await td.aio.open("torch/aio", out="numpy")
        td.drop("torch/aio"), td.drop("torch/aio/one")

    asyncio.run(main())


def test_out_is_one_of_two():
    for f in (lambda out: td.Queue("torch/wrong", out=out), lambda out: td.open("torch/wrong", out=out)):
        for out in ("numpy", 3):
            with pytest.raises(ValueError, match="out is 'tensord' or 'torch', whose tensors are to come out, not"):
                f(out)
    q = pickle.loads(pickle.dumps(td.Queue("torch/pickled", out="torch")))
    assert q.out == "torch"


def test_without_torch_it_is_told_before_anything_is_taken():
    r = script("""
        import tensord as td
        td.publish("torch/none", [td.ones(2)])
        for f in (lambda: td.Queue("torch/none", out="torch"), lambda: td.open("torch/none", out="torch")):
            try:
                f()
            except ModuleNotFoundError as e:
                assert "out='torch' asks for tensors of PyTorch" in str(e) and "pip install torch" in str(e), e
            else:
                raise SystemExit("no error")
    """, **without("torch"))
    assert r.returncode == 0, r.stderr


SERVER = """
    import re, sys, torch, tensord as td
    def assign(net, weights):
        if hasattr(torch, "set_default_device"):  # PyTorch 2
            return net.load_state_dict(weights, assign=True)
        for name, value in weights.items():
            net._parameters[name] = torch.nn.Parameter(value, requires_grad=False)
    def own():
        # Bytes of this process alone: what it allocated, and pages of private mappings that it wrote.
        return int(re.search(r"Private_Dirty: *(\\d+)", open("/proc/self/smaps_rollup").read())[1]) << 10
    def touched(net):
        with torch.no_grad():
            return sum(float(w.sum()) for w in net.parameters())
    net = torch.nn.Linear(4096, 4096, device="meta")
    touched(torch.nn.Linear(64, 64))
    before = own()
    assign(net, td.open("torch/served", out="torch"))
    total = touched(net)
    print("sum", total, "own", own() - before)
    with torch.no_grad():
        net.weight += 1
    print("sum", touched(net), "own", own() - before)
"""


def test_servers_of_a_model_have_its_weights_once():
    """64 MB of weights in four processes: none has them in memory of its own until it writes them."""
    net = torch.nn.Linear(4096, 4096)
    td.publish("torch/served", net)
    with torch.no_grad():
        want = [float(sum(float(w.sum()) for w in net.parameters()))]
        want.append(want[0] + 4096 * 4096)
    for _ in range(4):
        r = script(SERVER, TENSORD_SOCKET=td.connection()["path"])
        assert r.returncode == 0, r.stderr
        lines = [line.split() for line in r.stdout.splitlines()]
        for line, sum_of_all in zip(lines, want):
            assert abs(float(line[1]) - sum_of_all) < 1e-2 * abs(sum_of_all) + 1
        assert int(lines[0][3]) < 16 << 20 and int(lines[1][3]) > 48 << 20
    assert td.version_of("torch/served")
    td.drop("torch/served")
