"""Mixed precision: which ops are cast, that gradients come back in the dtype of what was cast, and the scaler's way through overflows."""
import threading
import warnings

import pytest
import tensord as td
from tensord import nn
from tensord.nn import functional as F

try:
    import torch
except ImportError:
    torch = None

HALF, SINGLE = "bfloat16", "float32"
x, m = td.ones(2, 3), td.ones(3, 3)
TURNED = lambda lib, f, x, m: f.conv_transpose2d(x[None, None], m[None, None])  # noqa: E731, which older PyTorch did not cast
CALLS = [
    (lambda lib, f, x, m: x @ m, HALF), (lambda lib, f, x, m: lib.mm(x, m), HALF), (lambda lib, f, x, m: x.matmul(m), HALF), (lambda lib, f, x, m: lib.addmm(x, x, m), HALF),
    (lambda lib, f, x, m: f.linear(x, m), HALF), (lambda lib, f, x, m: lib.bmm(x[None], m[None]), HALF), (lambda lib, f, x, m: f.conv2d(x[None, None], m[None, None, :1]), HALF),
    (lambda lib, f, x, m: f.conv1d(x[None], m[:, :2, None]), HALF), (TURNED, HALF),
    (lambda lib, f, x, m: x + m[:2], SINGLE), (lambda lib, f, x, m: x.softmax(-1), SINGLE), (lambda lib, f, x, m: (x @ m).relu(), HALF), (lambda lib, f, x, m: x @ m + x, SINGLE),
    (lambda lib, f, x, m: f.mse_loss(x @ m, x), SINGLE), (lambda lib, f, x, m: f.cross_entropy(x @ m, lib.tensor([0, 2])), SINGLE), (lambda lib, f, x, m: (x @ m).prod(0), SINGLE),
    (lambda lib, f, x, m: f.l1_loss(x @ m, x), SINGLE), (lambda lib, f, x, m: lib.cat([x @ m, x]), SINGLE), (lambda lib, f, x, m: lib.stack([x @ m, x @ m]), HALF),
    (lambda lib, f, x, m: lib.fft.rfft(x @ m), "complex64"), (lambda lib, f, x, m: x.double() @ m.double(), "float64"), (lambda lib, f, x, m: (x @ m) * 2, HALF),
    (lambda lib, f, x, m: lib.cat([x.double(), x @ m]), "float64"), (lambda lib, f, x, m: lib.linalg.inv(x[:, :2] @ m[:2, :2] + lib.eye(2)), SINGLE), (lambda lib, f, x, m: f.binary_cross_entropy_with_logits(x @ m, x), SINGLE),
]


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_what_is_cast(k):
    call, expected = CALLS[k]
    with td.autocast("cpu"):
        ours = call(td, F, x, m)
    assert ours.dtype == getattr(td, expected)
    assert call(td, F, x, m).dtype != td.bfloat16
    if torch is not None and not (call is TURNED and torch.__version__ < "2"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            theirs = call(torch, torch.nn.functional, torch.ones(2, 3), torch.ones(3, 3))
        assert str(theirs.dtype) == f"torch.{expected}"


def test_where_it_holds():
    with td.autocast("cpu", td.float16):
        assert (x @ m).dtype == td.float16 and td.is_autocast_enabled() and td.get_autocast_dtype("cpu") == td.float16
        with td.autocast("cpu", enabled=False):
            assert (x @ m).dtype == td.float32 and not td.is_autocast_enabled()
        with pytest.raises(ZeroDivisionError), td.autocast("cpu"):
            assert (x @ m).dtype == td.bfloat16
            1 / 0
        assert (x @ m).dtype == td.float16
        seen = []
        t = threading.Thread(target=lambda: seen.append((x @ m).dtype))
        t.start(), t.join()
        assert seen == [td.float32]
    assert (x @ m).dtype == td.float32 and not td.is_autocast_enabled("cpu") and td.get_autocast_dtype() == td.bfloat16

    @td.autocast("cpu")
    def f(v, *, w):
        """says so"""
        return v @ w
    assert f(x, w=m).dtype == td.bfloat16 and f.__doc__ == "says so" and (x @ m).dtype == td.float32
    context = td.autocast("cpu")
    with context, context:
        assert td.is_autocast_enabled()
    assert not td.is_autocast_enabled()


def test_what_older_programs_ask():
    if torch is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is a newer name
            assert torch.get_autocast_gpu_dtype() == torch.float16
    assert not td.is_autocast_cpu_enabled() and td.is_autocast_cache_enabled() and td.clear_autocast_cache() is None
    assert td.get_autocast_gpu_dtype() == td.get_autocast_dtype("cuda") == td.float16
    with td.autocast("cpu", td.float16):
        assert td.is_autocast_cpu_enabled() and td.get_autocast_cpu_dtype() == td.float16
    assert td.get_autocast_cpu_dtype() == td.bfloat16
    td.set_autocast_cache_enabled(False)
    assert not td.is_autocast_cache_enabled()
    td.set_autocast_cache_enabled(True)


def test_what_there_is_nothing_to_cast_on():
    for make in (lambda: td.autocast("cuda"), lambda: td.autocast("cpu", td.float64), lambda: td.cuda.amp.autocast(), lambda: td.amp.GradScaler("cuda"), lambda: td.cuda.amp.GradScaler()):
        with pytest.warns(UserWarning):
            make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = td.cuda.amp.GradScaler(enabled=False)
        with td.cuda.amp.autocast(enabled=False):
            assert (x @ m).dtype == td.float32
    assert scaler.scale(x) is x and scaler.get_scale() == 1 and scaler.state_dict() == {} and not scaler.is_enabled()
    with pytest.raises(td.InvalidError, match="device_type"):
        td.autocast(3)
    assert td.amp.is_autocast_available("cpu") and not td.amp.is_autocast_available("cuda") and not td.amp.is_autocast_available("mps")
    assert not td.is_autocast_enabled("cuda") and not td.amp.is_autocast_enabled("mps")
    with td.autocast("cpu"):
        assert td.is_autocast_enabled("cpu") and not td.is_autocast_enabled("cuda") and td.get_autocast_dtype("cuda") == td.float16
    with pytest.warns(UserWarning, match="there is no mps here; nothing is cast"), td.autocast("mps"):
        assert (x @ m).dtype == td.float32
    with pytest.warns(UserWarning, match="not to tensord.float64; nothing is cast"), td.autocast("cpu", td.float64):
        assert (x @ m).dtype == td.float32


def test_gradients_come_back_in_float32():
    layer = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))  # no kink, which a rounding may cross
    v = td.randn(5, 3, requires_grad=True)
    with td.autocast("cpu"):
        out = layer(v)
        loss = F.cross_entropy(out, td.tensor([0, 1, 1, 0, 1]))
    loss.backward()
    assert out.dtype == td.bfloat16 and loss.dtype == td.float32
    whole = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    F.cross_entropy(layer(v), td.tensor([0, 1, 1, 0, 1])).backward()
    for p, g in zip(layer.parameters(), whole):
        assert g.dtype == td.float32 and td.allclose(g, p.grad, atol=0.03, rtol=0.05)
    assert v.grad.dtype == td.float32


def test_a_function_of_ones_own():
    class Twice(td.autograd.Function):
        @staticmethod
        @td.amp.custom_fwd(device_type="cpu", cast_inputs=td.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append((a.dtype, (a @ b).dtype))
            return a @ b

        @staticmethod
        @td.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append((g @ b.t()).dtype)
            return g @ b.t(), a.t() @ g
    seen, v = [], td.randn(2, 3, requires_grad=True)
    with td.autocast("cpu"):
        Twice.apply(v.to(td.bfloat16), m).sum().backward()
    assert seen == [(td.float32, td.float32), td.float32] and td.allclose(v.grad, td.full((2, 3), 3.0))


def scaled_training(lib, f, overflow_at):
    """Weights and factors of some steps, of which some overflow."""
    w = lib.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.1, momentum=0.9)
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen = []
    for step in range(9):
        optimizer.zero_grad()
        loss = f.mse_loss(lib.tensor([[1.0, 2.0]]) @ w, lib.tensor([[0.5, -1.0]])) * (float("inf") if step in overflow_at else 1.0)
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            lib.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), w.tolist()))
    return seen, scaler.state_dict()


def test_the_scaler_leaves_out_steps_that_overflow():
    ours, state = scaled_training(td, F, {3, 4})
    factors = [s for s, _ in ours]
    assert factors == [8, 16, 16, 8, 4, 4, 8, 8, 16] and state["_growth_tracker"] == 0
    assert ours[2][1] == ours[3][1] == ours[4][1] != ours[5][1]
    if torch is not None and hasattr(torch.amp, "GradScaler"):
        theirs, their_state = scaled_training(torch, torch.nn.functional, {3, 4})
        assert [s for s, _ in theirs] == factors and their_state == state
        for (_, a), (_, b) in zip(ours, theirs):
            assert td.allclose(td.tensor(a), td.tensor(b), rtol=1e-6)


def test_the_scaler_says_what_was_forgotten():
    w = td.ones(2, requires_grad=True)
    optimizer, scaler = td.optim.SGD([w], lr=0.1), td.amp.GradScaler()
    a, (b, c) = scaler.scale([w.sum(), (w.sum(), w.prod())])
    assert float(a) == 2 * 65536 and float(b) == float(a) and float(c) == 65536
    with pytest.raises(td.InvalidError, match="No inf checks"):
        scaler.update()
    a.backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1, 1]
    with pytest.raises(td.InvalidError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(td.InvalidError, match="step\\(\\) has already"):
        scaler.step(optimizer)
    with pytest.raises(td.InvalidError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    assert w.tolist() == [pytest.approx(0.9)] * 2
    other = td.amp.GradScaler(init_scale=2.0)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_scale() == 65536
    other.update(4.0)
    assert other.get_scale() == 4
    for wrong in (dict(growth_factor=1.0), dict(backoff_factor=1.0), dict(init_scale=0)):
        with pytest.raises(td.InvalidError, match="growth_factor"):
            td.amp.GradScaler(**wrong)
    half = td.ones(2, dtype=td.float16, requires_grad=True)
    half.sum().backward()
    with pytest.raises(td.InvalidError, match="FP16"):
        td.amp.GradScaler().unscale_(td.optim.SGD([half], lr=0.1))


def test_the_scaler_step_by_step():
    """What it gives back, and when its factor changes."""
    w = td.ones(2, requires_grad=True)
    optimizer, scaler = td.optim.SGD([w], lr=0.5), td.amp.GradScaler(init_scale=4.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=2)
    assert scaler.is_enabled() and (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (4, 0.25, 2)
    optimizer.step = lambda *args, **kw: ("stepped", args, kw)
    assert scaler.step(optimizer, 3, more=4) == ("stepped", (3,), {"more": 4}), "where there are no gradients, none is infinite"
    scaler.update()
    assert scaler.get_scale() == 4 and scaler.state_dict()["_growth_tracker"] == 1
    with pytest.raises(td.InvalidError, match="Closure use is not currently supported if GradScaler is enabled"):
        scaler.step(optimizer, closure=lambda: 1)
    w.grad = td.tensor([1.0, td.inf])
    assert scaler.step(optimizer) is None
    scaler.update()
    assert scaler.get_scale() == 1 and scaler.state_dict()["_growth_tracker"] == 0
    with pytest.raises(td.InvalidError, match="No inf checks"):
        scaler.update()
    for k in range(2):
        w.grad = td.tensor([1.0, 2.0])
        assert scaler.step(optimizer)[0] == "stepped"
        scaler.update()
    assert scaler.get_scale() == 4 and w.grad.tolist() == [1, 2], "by 1 it is not changed"
    scaler.set_growth_factor(3.0), scaler.set_backoff_factor(0.5), scaler.set_growth_interval(1)
    state = scaler.state_dict()
    assert state == {"scale": 4.0, "growth_factor": 3.0, "backoff_factor": 0.5, "growth_interval": 1, "_growth_tracker": 0}
    other = td.amp.GradScaler()
    other.load_state_dict(state)
    for each in (scaler, other):
        each.step(optimizer)
        each.update()
        assert each.get_scale() == 12
    other.update(td.tensor(2.0**1000, dtype=td.float64) * 2.0**23)
    other.step(optimizer)
    other.update()
    assert other.get_scale() == 2.0**1023, "it does not grow beyond all numbers"
    with pytest.raises(td.InvalidError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_a_scaler_that_is_off():
    w = td.ones(2, requires_grad=True)
    optimizer, off, loss = td.optim.SGD([w], lr=0.5), td.amp.GradScaler(enabled=False), w.sum()
    assert off.scale(loss) is loss and off.state_dict() == {} and off.unscale_(optimizer) is off.update() is off.load_state_dict({}) is None and off.get_scale() == 1
    w.grad = td.tensor([td.inf, 1.0])
    off.unscale_(optimizer)
    assert w.grad.tolist() == [td.inf, 1] and off.step(optimizer, closure=lambda: loss) is loss


def test_what_a_scaler_scales():
    on, one = td.amp.GradScaler(init_scale=2.0), td.ones(1)
    scaled = on.scale([one, (one,)])
    assert type(scaled) is list and type(scaled[1]) is tuple and scaled[0].item() == scaled[1][0].item() == 2
    assert [x.item() for x in on.scale(x for x in (one, 2 * one))] == [2, 4]
    with pytest.raises(td.DTypeError, match="must be a Tensor or an iterable of them, not int"):
        on.scale(3)
    for wrong in (dict(growth_factor=0.5), dict(backoff_factor=0.0), dict(backoff_factor=1.5), dict(init_scale=-1)):
        with pytest.raises(td.InvalidError, match="growth_factor must be above 1, backoff_factor between 0 and 1 and init_scale above 0"):
            td.amp.GradScaler(**wrong)


def test_what_a_function_is_given():
    """Of cast_inputs, floats but float64 are cast, wherever they stand; without, and outside of an autocast, all is as it came."""
    seen = []

    def forward(ctx, tree, whole, *, wide, none):
        seen.append((type(tree), tree["a"][0].dtype, type(tree["b"]), tree["b"][0].dtype, whole.dtype, wide.dtype, none, (x @ m).dtype))

    class Ctx:
        pass

    cast, plain = td.amp.custom_fwd(forward, cast_inputs=td.float16), td.amp.custom_fwd(forward)
    given = ({"a": [x], "b": (x.to(td.bfloat16),)}, td.ones(1, dtype=td.int64))
    for f, inside, dtypes in ((cast, True, (td.float16, td.float16, td.float32)), (plain, True, (td.float32, td.bfloat16, td.bfloat16)), (cast, False, (td.float32, td.bfloat16, td.float32))):
        ctx = Ctx()
        with td.autocast("cpu", enabled=inside):
            f(ctx, *given, wide=x.double(), none=None)
        assert seen.pop() == (dict, dtypes[0], tuple, dtypes[1], td.int64, td.float64, None, dtypes[2])
        products = td.amp.custom_bwd(lambda ctx: (x @ m).dtype)
        assert products(ctx) == (td.bfloat16 if f is plain else td.float32), "a backward has the autocast of its forward"
        with td.autocast("cpu", td.float16):
            assert products(ctx) == (td.bfloat16 if f is plain else td.float32)


@pytest.mark.parametrize("dtype", [td.bfloat16, td.float16])
@pytest.mark.parametrize("kind", [td.nn.LSTM, td.nn.GRU, td.nn.RNN])
def test_recurrent_layers(kind, dtype):
    layer, x = kind(5, 4, 2, batch_first=True), td.randn(3, 6, 5)
    with td.autocast("cpu", dtype):
        y, _ = layer(x.to(dtype))
    assert y.dtype is dtype and td.allclose(y.float(), layer(x.to(dtype).float())[0], rtol=0.02, atol=0.02)
    y.sum().backward()
    assert layer.weight_ih_l0.grad.dtype is td.float32


def test_products_made_of_others_are_cast():
    a, b = td.randn(3, 4), td.randn(4, 5)
    with td.autocast("cpu", td.bfloat16):
        for y in (td.einsum("ij,jk->ik", a, b), td.tensordot(a, b, 1), td.linalg.multi_dot([a, b]), td.inner(a, b.t())):
            assert y.dtype is td.bfloat16 and td.allclose(y.float(), a @ b, rtol=0.05, atol=0.05)
