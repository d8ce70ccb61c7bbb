"""Gradients through Python."""
import copy
import math
import subprocess
import sys

import pytest
import tensord as td


def test_backward():
    w = td.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert w.requires_grad and w.is_leaf and w.grad is None and w.grad_fn is None
    loss = (w * w).sum()
    assert not loss.is_leaf and loss.grad_fn and loss.requires_grad
    loss.backward()
    assert w.grad.tolist() == [2, 4, 6]
    (w * 3).sum().backward()
    assert w.grad.tolist() == [5, 7, 9]
    w.grad = None
    assert w.grad is None
    (w * 2).backward(td.ones(3))
    assert w.grad.tolist() == [2, 2, 2]
    w.grad.zero_()
    assert w.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("join", [td.stack, td.cat])
def test_joins_of_any_length(join):
    """More tensors than one request takes: gradients, and gradients of these."""
    w = td.arange(1.0, 4.0).requires_grad_()
    scale = [float(k % 5) for k in range(2100)]
    y = join([w * s if s else td.ones(3) for s in scale])
    (g,) = td.autograd.grad((y**3).sum(), w, create_graph=True)
    cubes = sum(s**3 for s in scale)
    assert g.tolist() == [3 * cubes * v**2 for v in (1, 2, 3)]
    g.sum().backward()
    assert w.grad.tolist() == [6 * cubes * v for v in (1, 2, 3)]


@pytest.mark.parametrize("spread", [lambda x: x.norm(), lambda x: x.norm(3.0), lambda x: x.norm(dim=1).sum(), lambda x: (x + 2).std(),
                                    lambda x: (x + 2).std(1).sum(), lambda x: td.nn.functional.normalize(x).sum()])
def test_norm_and_std_of_what_is_all_alike(spread):
    """The slope of the root is infinite there; weights that start at zero must not become NaN by it."""
    x = td.zeros(2, 3, requires_grad=True)
    spread(x).backward()
    assert td.isfinite(x.grad).all()


def test_norm_where_one_row_is_zero():
    x = td.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    n = x.norm(dim=1)
    n.sum().backward()
    assert n.tolist() == [5, 0] and td.allclose(x.grad, td.tensor([[0.6, 0.8], [0.0, 0.0]]))
    with td.no_grad():
        assert x.norm(dim=1).tolist() == [5, 0] and x.norm(-2.0, 1)[1].item() == 0


def test_a_mode_decorates_generators():
    """Their body runs in it, in every turn; who iterates them does not."""
    log = []

    @td.no_grad()
    def numbers():
        try:
            got = yield td.is_grad_enabled()
            try:
                yield got, td.is_grad_enabled()
            except KeyError:
                yield "caught", td.is_grad_enabled()
            return 5
        finally:
            log.append(td.is_grad_enabled())

    def all_of():
        return (yield from numbers())

    g = numbers()
    assert next(g) is False and td.is_grad_enabled() and g.send(3) == (3, False) and td.is_grad_enabled()
    assert g.throw(KeyError()) == ("caught", False)
    with pytest.raises(StopIteration) as end:
        next(g)
    assert end.value.value == 5 and td.is_grad_enabled()
    g = all_of()
    next(g)
    g.close()
    assert log == [False, False] and td.is_grad_enabled()


def test_modes_as_decorators_are_for_the_function_alone():
    @td.set_grad_enabled(False)
    def off():
        return td.is_grad_enabled()

    @td.inference_mode
    def bare():
        return td.is_grad_enabled()

    @td.inference_mode(False)
    def on():
        return td.is_grad_enabled()

    assert td.is_grad_enabled() and (off(), bare(), on()) == (False, False, True) and td.is_grad_enabled()


def test_grad_of_lists():
    x, y = td.tensor(2.0, requires_grad=True), td.tensor(3.0, requires_grad=True)
    gx, gy = td.autograd.grad(x * x * y, [x, y])
    assert (gx.item(), gy.item()) == (12, 4) and x.grad is None
    g = td.autograd.grad(x**3, x, create_graph=True)[0]
    assert td.autograd.grad(g, x)[0].item() == 12
    assert td.autograd.grad(x * 2, [x, y], allow_unused=True)[1] is None
    td.autograd.backward([x * 2, y * 3])
    assert (x.grad.item(), y.grad.item()) == (2, 3)
    (x * y).backward(inputs=[x])
    assert (x.grad.item(), y.grad.item()) == (5, 3)


def test_modes():
    w = td.ones(2, requires_grad=True)
    with td.no_grad():
        assert not td.is_grad_enabled() and not (w * 2).requires_grad
        with td.enable_grad():
            assert (w * 2).requires_grad
        w.add_(1)
    assert td.is_grad_enabled() and w.tolist() == [2, 2]

    @td.no_grad()
    def f():
        return (w * 2).requires_grad

    @td.no_grad
    def g():
        return td.is_grad_enabled()

    assert not f() and not g() and td.is_grad_enabled()
    with td.set_grad_enabled(False):
        assert not td.is_grad_enabled()
    td.set_grad_enabled(False)
    assert not td.is_grad_enabled()
    td.set_grad_enabled(True)
    with td.inference_mode():
        assert not (w * 2).requires_grad
    with pytest.raises(ZeroDivisionError):
        with td.no_grad():
            1 / 0
    assert td.is_grad_enabled()


def test_a_view_is_not_detached_in_place():
    w = td.ones(4, 3, requires_grad=True)
    y = w * 2
    with td.no_grad():
        silent = y.view(12)
    views = [y[0], y.t(), y.view(12), y.chunk(2)[0], y.expand(2, 4, 3), y.unbind()[1], silent, td.ones(3)[:2], copy.copy(y[0]), y[0].mul_(2)]
    for v in views:
        with pytest.raises(td.AutogradError, match=r"a view cannot be detached in place.*detach\(\)"):
            v.detach_()
    y.sum().backward()
    assert w.grad.sum().item() == 12 * 2 + 3 * 2, "its history is still there"
    for t in (y, y[0].detach(), y[0].clone(), y.data, td.ones(3), (w * 2).unsqueeze_(0), (w * 2).t_()):
        assert t.detach_() is t and not t.requires_grad


def test_detach_and_data():
    w = td.ones(2, requires_grad=True)
    d = w.detach()
    assert not d.requires_grad and d.data_ptr() == w.data_ptr() and not w.data.requires_grad
    assert not td.ones(2).requires_grad and td.ones(2).requires_grad_().requires_grad
    m = w * 2
    m.retain_grad()
    m.sum().backward()
    assert m.grad.tolist() == [1, 1]


@pytest.mark.parametrize("wrong, kind, words", [
    (lambda: td.ones(2).sum().backward(), td.AutogradError, "grad"),
    (lambda: td.arange(3).requires_grad_(), TypeError, "float"),
    (lambda: td.ones(2, requires_grad=True).add_(1), td.AutogradError, "leaf"),
    (lambda: (td.ones(2, requires_grad=True) * 2).backward(), RuntimeError, "scalar"),
])
def test_refused(wrong, kind, words):
    with pytest.raises(kind) as e:
        wrong()
        td.sync()
    assert words in str(e.value)


def test_a_second_backward_and_overwritten_values():
    w = td.ones(2, requires_grad=True)
    y = (w * w).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(td.AutogradError):
        y.backward()
        td.sync()
    m = w * 2
    z = (m * m).sum()
    with td.no_grad():
        m.add_(1)
    with pytest.raises(td.VersionError):
        z.backward()
        td.sync()


def test_a_failed_backward_is_told_by_grad():
    w = td.ones(2, requires_grad=True)
    y = (w * w).sum()
    y.backward()
    v = td.ones(2, requires_grad=True)
    (y * v.sum()).backward()
    with pytest.raises(td.AutogradError):
        v.grad


def test_a_network_learns():
    td.manual_seed(0)
    x = td.randn(64, 3)
    target = x @ td.tensor([1.0, -2.0, 0.5])
    w = td.zeros(3, requires_grad=True)
    for _ in range(100):
        loss = ((x @ w - target) ** 2).mean()
        loss.backward()
        with td.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
    assert w.tolist() == pytest.approx([1.0, -2.0, 0.5], abs=1e-3)


def test_gradients_of_one_s_own():
    import os
    w = td.ones(2, requires_grad=True)
    (w * 2).sum().backward()

    def child(private):
        pid = os.fork()
        if pid == 0:
            try:
                if private:
                    td.autograd.private_grads()
                before = w.grad
                (w * 3).sum().backward()
                good = (before, w.grad.tolist()) == (None, [3, 3]) if private else (before is not None and w.grad.tolist() == [5, 5])
                td.sync()
                os._exit(0 if good else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0

    child(private=True)
    assert w.grad.tolist() == [2, 2]
    child(private=False)
    assert w.grad.tolist() == [5, 5], "all add to one"
    td.autograd.private_grads()
    try:
        assert w.grad is None
        (w * 7).sum().backward()
        assert w.grad.tolist() == [7, 7]
        w.grad = None
        assert w.grad is None
    finally:
        td.autograd.private_grads(False)
    assert w.grad.tolist() == [5, 5]


def test_more_outputs_than_a_mask_has_bits():
    """Under the undefined behaviour sanitizer a shift would say so."""
    x = td.arange(80.0).reshape(40, 2).requires_grad_()
    parts = x.unbind(0)
    sum(k * (p * p).sum() for k, p in enumerate(parts)).backward()
    assert len(parts) == 40 and td.equal(x.grad, 2 * x.detach() * td.arange(40.0).reshape(40, 1))


def test_what_can_be_refused_at_the_call_is():
    x = td.ones(2, requires_grad=True)
    with pytest.raises(td.AutogradError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        td.ones(2).sum().backward()
    with pytest.raises(td.AutogradError, match=r"only for scalar outputs, not for shape \[2\]"):
        (x * 2).backward()
    with pytest.raises(td.ShapeError, match=r"grad_output\[0\] has a shape of \[3\]"):
        (x * 2).backward(td.ones(3))
    with pytest.raises(td.ShapeError, match=r"float32\[3\], but must be like the tensor: float32\[2\]"):
        x.grad = td.ones(3)
    td.sync()  # nothing is left to say
    base = td.zeros(3)
    view = base[:2]
    base += td.ones(3, requires_grad=True) * x.sum()
    view.sum().backward()  # it came into the graph with its base
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("n", [4, 1 << 21])
@pytest.mark.parametrize("with_history", [False, True])
def test_a_write_that_fails_leaves_no_trace(n, with_history):
    x, w = td.ones(n, requires_grad=True), td.ones(1, requires_grad=True)
    y = x * 2 if with_history else td.ones(n)
    view, other = y[:2], y[2:]
    square = (y * y).sum()

    def facts():
        return [(t.grad_fn, t._version, t.requires_grad, t.is_leaf) for t in (y, view, other)]

    before = facts()
    for t in y, view:
        with pytest.raises(td.OutOfRange, match="index"):
            t[td.tensor([n + 5])] = w
            td.sync()
        assert facts() == before
    assert y.sum().item() == (2 * n if with_history else n)
    if with_history:
        square.backward()  # what it saved is what it was
        assert x.grad[0].item() == 8 and w.grad is None


def test_backward_with_inputs_gives_each_a_gradient_of_its_own():
    a, b, g = td.ones(3, requires_grad=True), td.ones(3, requires_grad=True), td.ones(3)
    (a + b).backward(g, inputs=[a, b, a])  # the same one twice counts once
    a.grad.mul_(10)
    assert a.grad.tolist() == [10] * 3 and b.grad.tolist() == [1] * 3 and g.tolist() == [1] * 3
    a.grad = None
    a.sum().backward(inputs=a)
    a.grad.mul_(2)  # not one element for all
    assert a.grad.tolist() == [2] * 3


def test_views_know_when_a_program_puts_their_base_into_a_graph():
    @td.jit.script
    def enter(acc):
        w = (acc * 0 + 1).requires_grad_()
        acc.add_(w * w)

    acc = td.zeros(3)
    view = acc[0:2]
    enter(acc)
    assert acc.requires_grad and view.requires_grad


def attended(mask, causal, *heads):
    return td.ops.tiled_attention(*heads, mask, causal, 0.5)[0]


def attention_by_softmax(mask, causal, q, k, v):
    scores = q @ k.transpose(-2, -1) * 0.5
    scores = scores if not causal else scores.masked_fill(~td.ones(*scores.shape[-2:], dtype=td.bool).tril(), -math.inf)
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf) if mask.dtype == td.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0.0) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", ["none", "bool", "float"])
def test_attention_under_masks_has_all_its_derivatives(causal, masked):
    r = [td.sin(td.arange(24, dtype=td.float64) * (n + 2)).reshape(1, 2, 3, 4).requires_grad_() for n in range(4)]
    *heads, g = r
    near = td.sin(td.arange(9, dtype=td.float64)).reshape(3, 3)
    mask = {"none": None, "bool": near > 0, "float": near.requires_grad_()}[masked]
    given = heads + [mask] * (masked == "float")
    wanted = td.autograd.grad(attention_by_softmax(mask, causal, *heads), given, g)
    for again in (False, True):
        got = td.autograd.grad(attended(mask, causal, *heads), given, g, create_graph=again)
        assert all(td.allclose(a, b, atol=1e-12) for a, b in zip(got, wanted))
    call = (lambda *x: attended(x[3], causal, *x[:3])) if masked == "float" else (lambda *x: attended(mask, causal, *x))
    assert td.autograd.gradgradcheck(call, given)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_rows_that_see_nothing_have_gradients_of_zero(kind):
    q, k, v = (td.sin(td.arange(12, dtype=td.float64) * (n + 2)).reshape(1, 1, 3, 4).requires_grad_() for n in range(3))
    seen = td.tensor([[True, False, True], [False, False, False], [True, True, True]])
    mask = seen if kind == "bool" else td.zeros(3, 3, dtype=td.float64).masked_fill(~seen, -math.inf).requires_grad_()
    given = [q, k, v] + [mask] * (kind == "float")

    def call(*x):
        return td.nn.functional.scaled_dot_product_attention(*x[:3], x[3] if kind == "float" else mask)

    plain = td.autograd.grad(call(*given).sum(), given)
    again = td.autograd.grad(call(*given).sum(), given, create_graph=True)
    assert all(bool(a.isfinite().all()) and td.allclose(a, b) for a, b in zip(again, plain))
    assert bool((again[0][0, 0, 1] == 0).all())
    assert td.autograd.gradgradcheck(lambda *x: call(*x, *given[3:]), given[:3])
    five = [x.unsqueeze(0) for x in given[:3]]  # which goes another way
    assert td.allclose(td.nn.functional.scaled_dot_product_attention(*five, mask), call(*given))


def test_magnitudes_of_complex_zeros_have_second_derivatives():
    z = td.tensor([0j, 3 + 4j], requires_grad=True)
    (g,) = td.autograd.grad(z.abs().sum(), z, create_graph=True)
    assert td.allclose(td.autograd.grad(g.imag.sum(), z)[0], td.tensor([0j, -0.096 + 0.072j]))


def test_both_checks_are_functions_whichever_comes_first():
    code = "import tensord as td; a = td.autograd; a.gradgradcheck; assert callable(a.gradcheck) and callable(a.gradgradcheck)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_nan_shares_the_gradient(name):
    """Where the result is NaN, each NaN has its share, as in PyTorch, and nothing else has any."""
    nan = float("nan")
    x = td.tensor([nan, nan, nan, nan], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == [0.25] * 4
    x = td.tensor([1.0, nan, 3.0, nan], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == ([1, 0, 0, 0] if name == "nanmedian" else [0, 0.5, 0, 0.5])
    x = td.tensor([2.0, 1.0, 2.0, nan, 3.0, 2.0], requires_grad=True)
    x.nanmedian().backward()
    assert td.allclose(x.grad, td.tensor([1 / 3, 0, 1 / 3, 0, 0, 1 / 3]))


def test_leaves_of_inference_mode():
    with td.inference_mode():
        x = td.ones(2, requires_grad=True)
        assert x.requires_grad and x.is_inference()
    assert x.requires_grad and x.grad is None
    (x + 1).sum().backward()  # nothing is saved of x
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        (x * x).sum().backward()
        td.sync()
    with td.inference_mode():
        y = td.ones(2)
    with pytest.raises(RuntimeError, match="outside inference mode is not allowed"):
        y.requires_grad_()
        td.sync()


def test_parameters_stay_ones():
    p = td.nn.Parameter(td.tensor([1.0, 2.0, 3.0]))
    with td.no_grad():
        p.set_(p[1:])
    assert p.requires_grad and p.is_leaf and p.tolist() == [2, 3]
    (p * p).sum().backward()
    assert p.grad.tolist() == [4, 6]


def test_grad_of_nothing_and_two_backwards():
    x = td.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="'inputs' cannot be empty"):
        td.autograd.grad(x * 2, [])

    class Both(td.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        Both.apply(x).backward()


@pytest.mark.parametrize("write", ["relu_", "exp_", "sigmoid_", "tanh_", "sqrt_"])
def test_gradients_of_gradients_of_a_view_that_was_written(write):
    """The op saves what it wrote; a second backward that keeps nothing comes to it from two sides, and once."""
    def second(in_place):
        x = td.tensor([0.5, 2.0, 1.5, 0.25], dtype=td.float64, requires_grad=True)
        y = (x * 2).view(2, 2)
        if in_place:
            getattr(y[0], write)()
        else:
            y = td.stack([getattr(y[0], write[:-1])(), y[1]])
        (g,) = td.autograd.grad((y**3).sum(), x, create_graph=True)
        (gg,) = td.autograd.grad((g**2).sum(), x)
        return g.detach(), gg

    for ours, plain in zip(second(True), second(False)):
        assert td.allclose(ours, plain, rtol=1e-12)


def test_grad_by_its_other_name():
    x = td.ones(2, requires_grad=True)
    x._grad = td.ones(2)
    (x * 3).sum().backward()
    assert x._grad.tolist() == x.grad.tolist() == [4, 4]
    x._grad = None
    assert x.grad is None
