"""Against PyTorch, where it can be imported: the same functions on the same numbers, and memory handed over."""
import pytest
import tensord as td

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
