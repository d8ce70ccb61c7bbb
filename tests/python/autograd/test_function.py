"""Functions with a backward of their own, and what is built on derivatives: autograd.functional, gradcheck, anomaly mode."""
import json
import os

import hook_programs
import pytest
import tensord as td
import tensord.autograd.functional as AF
from tensord.autograd import Function, gradcheck, gradgradcheck

with open(os.path.join(os.path.dirname(__file__), "hook_results.json")) as f:
    EXPECTED = json.load(f)


@pytest.mark.parametrize("program", hook_programs.FUNCTIONS, ids=lambda p: p.__name__)
def test_as_pytorch(program):
    assert hook_programs.n(program(td)) == EXPECTED[program.__name__]


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 3 * x * x * g


class Wrong(Cube):
    @staticmethod
    def backward(ctx, g):
        return g * 2


def f64(*shape):
    td.manual_seed(3)
    return td.randn(*shape, dtype=td.float64).requires_grad_()


def test_gradcheck():
    x, y = f64(2, 3), f64(3, 2)
    assert gradcheck(lambda a, b: (a @ b).sin(), (x, y))
    assert gradcheck(Cube.apply, x) and gradgradcheck(Cube.apply, x)
    assert gradgradcheck(lambda a, b: (a @ b).tanh(), (x, y))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x)
    assert gradcheck(Wrong.apply, x, raise_exception=False) is False
    z = (f64(2) + f64(2) * 1j).detach().requires_grad_()
    assert gradcheck(lambda a: a * a.conj(), z) and gradcheck(lambda a: (a * a).exp(), z) and gradcheck(lambda a: a.real * a.imag, z)
    assert gradcheck(lambda a: a + a * a * 1j, f64(2))
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(Cube.apply, td.ones(1))


def test_functional():
    def f(x):
        return (x * x).sum(0) * x[0]

    x = td.tensor([[1.0, 2.0], [3.0, 4.0]])
    j = AF.jacobian(f, x)
    assert j.shape == (2, 2, 2) and j[0, 0, 0].item() == 12 and j[1, 1, 1].item() == 16 and j[0, 0, 1].item() == 0
    scalar = lambda a, b: (a * a * b).sum()
    a, b = td.tensor([1.0, 2.0]), td.tensor([3.0, 4.0])
    h = AF.hessian(scalar, (a, b))
    assert h[0][0].tolist() == [[6, 0], [0, 8]] and h[0][1].tolist() == [[2, 0], [0, 4]] and h[1][1].tolist() == [[0, 0], [0, 0]]
    out, v = AF.vjp(scalar, (a, b))
    assert out.item() == 19 and v[0].tolist() == [6, 16] and v[1].tolist() == [1, 4]
    out, v = AF.jvp(lambda a: a * a, a, td.tensor([1.0, 10.0]))
    assert out.tolist() == [1, 4] and v.tolist() == [2, 40]
    assert AF.hvp(scalar, (a, b), (td.ones(2), td.ones(2)))[1][0].tolist() == [8, 12]
    assert AF.vhp(scalar, (a, b), (td.ones(2), td.ones(2)))[1][0].tolist() == [8, 12]
    x = td.ones(2, requires_grad=True)
    AF.jacobian(lambda a: a * a, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(td.AutogradError, match="strict mode"):
        AF.jacobian(lambda a: td.ones(1), a, strict=True)
    assert AF.jacobian(lambda a: td.ones(1), a).tolist() == [[0, 0]]
    with pytest.raises(td.InvalidError, match="single element"):
        AF.hessian(lambda a: a * 2, a)


def test_grad_of_batches_and_of_what_takes_no_part():
    x, y = td.tensor([1.0, 2.0], requires_grad=True), td.ones(3, requires_grad=True)
    z = x * x
    g, = td.autograd.grad(z, x, td.tensor([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True, retain_graph=True)
    assert g.tolist() == [[2, 0], [0, 4]]
    got = td.autograd.grad(z.sum(), (x, y), materialize_grads=True, retain_graph=True)
    assert got[1].tolist() == [0, 0, 0]
    with pytest.raises(td.InvalidError, match="Expected allow_unused to be True"):
        td.autograd.grad(z.sum(), (x, y), allow_unused=False, materialize_grads=True)
    assert td.autograd.grad(z, x, td.eye(2), is_grads_batched=True)[0].tolist() == [[2, 0], [0, 4]]
    with pytest.raises(td.AutogradError):
        td.autograd.grad(z, x, td.eye(2), is_grads_batched=True)  # the last row has freed the graph


def test_a16_anomaly_mode_names_the_op():
    x = td.tensor([-1.0], requires_grad=True)
    with td.autograd.detect_anomaly(), pytest.raises(td.AutogradError, match="the gradient of 'sqrt' gave nan values"):
        x.sqrt().sum().backward()
        x.grad
    with td.autograd.set_detect_anomaly(True), pytest.raises(td.AutogradError, match="'NaNBackward' gave nan values"):
        class NaN(Function):
            forward = staticmethod(lambda ctx, x: x * 1)
            backward = staticmethod(lambda ctx, g: g * float("nan"))

        NaN.apply(x).sum().backward()
    x.grad = None
    x.sqrt().sum().backward()  # nobody looks
    with td.autograd.detect_anomaly():
        (x / 0).sum().backward()  # inf is none


def test_saved_tensors_are_there_in_backward_alone():
    kept = []

    class Keeps(Cube):
        @staticmethod
        def forward(ctx, x):
            kept.append(ctx)
            ctx.save_for_backward(x)
            assert ctx.saved_tensors[0] is x
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    x = td.ones(1, requires_grad=True)
    Keeps.apply(x).sum().backward()
    with pytest.raises(td.AutogradError, match="in forward\\(\\) and in backward\\(\\)"):
        kept[0].saved_tensors
    with pytest.raises(td.DTypeError, match="can only save variables"):
        kept[0].save_for_backward(1)


def test_variables_and_modes():
    v = td.autograd.Variable(td.ones(1), requires_grad=True)
    assert v.requires_grad and v.is_leaf
    with td.inference_mode():
        t = td.ones(1)
    assert t.is_inference() and not v.is_inference()
    version = t.clone()._version
    c = td.ones(1)
    before = c._version
    td.autograd.graph.increment_version(c)
    assert c._version > before and version == 0
    with td.autograd.graph.save_on_cpu():
        (v * 2).sum().backward()
    assert v.grad.tolist() == [2]


def test_functions_in_checkpoints():
    x = td.tensor([0.5, 1.5], requires_grad=True)

    def f(x):
        return (Cube.apply(x.exp()) * x).sin()

    td.checkpoint(f, x).sum().backward()
    kept, x.grad = x.grad, None
    f(x).sum().backward()
    assert kept.tolist() == x.grad.tolist()


def test_functions_in_threads():
    import threading

    x, wrong = td.tensor([2.0], requires_grad=True), []

    def work():
        for _ in range(10):
            g, = td.autograd.grad(Cube.apply(x).sum(), x)
            if g.item() != 12:
                wrong.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_views_are_not_written():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = td.ones(4, requires_grad=True)
    with pytest.raises(td.Unsupported, match="Double writes a view in place"):
        Double.apply((x * 1)[:2])
    y = td.ones(4, requires_grad=True)
    z = y * 1
    part = z[:2]
    Double.apply(z)
    (part * 3).sum().backward()  # views follow
    assert y.grad.tolist() == [6, 6, 0, 0]


def gives(forward):
    """A function that gives what forward makes of its input, whose gradient is ten times that of its result, in the place of the first of them."""

    class Gives(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return forward(x)

        @staticmethod
        def backward(ctx, g, *more):
            whole = td.zeros(4)
            whole[:g.numel()] = g.reshape(-1) * 10
            return whole.view(ctx.shape)

    return Gives


GIVEN = {"a view": lambda x: x.view(-1), "the input": lambda x: x, "a row": lambda x: x[0], "a view and a result": lambda x: (x.view(-1), x * 3)}


def write(how, z, y):
    if how == "its base":
        z.mul_(5)
    elif how == "its base, under no_grad":
        with td.no_grad():
            z.mul_(5)
    elif how == "its base, detached":
        z.detach().mul_(5)
    elif how == "another part of its base":
        z[1].mul_(5)
    elif how == "it, under no_grad":
        with td.no_grad():
            y.mul_(5)
    elif how == "a part of it, under no_grad":
        with td.no_grad():
            y[0:1].mul_(5)


@pytest.mark.parametrize("how", ["its base", "its base, under no_grad", "its base, detached", "another part of its base", "it, under no_grad", "a part of it, under no_grad"])
@pytest.mark.parametrize("given", GIVEN)
def test_views_whose_base_is_written_are_used_no_more(given, how):
    function = gives(GIVEN[given])
    for use in (lambda y, part: y, lambda y, part: part, lambda y, part: y[0:1]):
        x = td.ones(2, 2, requires_grad=True)
        z = x * 1
        y = function.apply(z)
        y = y[0] if isinstance(y, tuple) else y
        part, before = y[0:1], y.sum()
        write(how, z, y)
        before.backward(retain_graph=True)  # what was made of it before is as it was
        assert x.grad.sum().item() == 10 * y.numel()
        with pytest.raises(td.AutogradError, match="modified inplace since"):
            use(y, part).sum().backward()
            td.sync()
        with td.no_grad():
            assert use(y, part).sum().item() >= 1
    x = td.ones(2, 2, requires_grad=True)  # a clone is no view
    y = gives(lambda x: (GIVEN[given](x), 0)[0][0].clone() if given == "a view and a result" else GIVEN[given](x).clone()).apply(z := x * 1)
    write(how, z, y)
    assert y.sum().backward() is None and x.grad.sum().item() == 10 * y.numel()


@pytest.mark.parametrize("given", GIVEN)
def test_views_of_a_function_are_not_written_where_gradients_are_recorded(given):
    x = td.ones(2, 2, requires_grad=True)
    y = gives(GIVEN[given]).apply(x * 1)
    y = y[0] if isinstance(y, tuple) else y
    for wrote in (lambda: y.mul_(2), lambda: y[0:1].mul_(2), lambda: y.fill_(1)):
        with pytest.raises(td.AutogradError, match="a function is a view, and is being modified inplace.*clone"):
            wrote()
            td.sync()


def test_what_is_no_view_of_the_input_is_let_be():
    """What a function gives outside of the graph, and data's versions, as in PyTorch."""
    for forward, wrote in ((lambda x: x.detach(), lambda z: z.mul_(5)), (lambda x: x.view(-1), lambda z: z.data.mul_(5)), (lambda x: x * 2, lambda z: z.mul_(5))):
        x = td.ones(2, 2, requires_grad=True)
        z = x * 1
        y = gives(forward).apply(z)
        wrote(z)
        y.sum().backward()
        assert x.grad.tolist() == [[10, 10], [10, 10]]


def test_many_arguments():
    class Sum(Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.n = len(xs)
            ctx.save_for_backward(*xs)
            return sum(x.detach() for x in xs)

        @staticmethod
        def backward(ctx, g):
            assert len(ctx.saved_tensors) == ctx.n
            return (g,) * ctx.n

    xs = [td.ones(1, requires_grad=True) for _ in range(300)]
    Sum.apply(*xs).backward()
    assert all(g.tolist() == [1] for g in td._C._grads(xs))


def test_grad_fn_has_what_ctx_keeps():
    """There it is the ctx; here its attributes are seen through it, as long as the graph is."""

    class Scaled(td.autograd.Function):
        @staticmethod
        def forward(ctx, x, options):
            ctx.options, ctx.result = options, None
            ctx.save_for_backward(x)
            return x * options["by"]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.options["by"], None

    x, options = td.ones(2, requires_grad=True), {"by": 3.0}
    y = Scaled.apply(x, options)
    assert y.grad_fn.options is options and y.grad_fn.needs_input_grad == (True, False) and y.grad_fn.result is None
    assert y.grad_fn.saved_tensors[0].tolist() == [1, 1]
    y.grad_fn.options["by"] = 4.0
    with pytest.raises(AttributeError, match="'ScaledBackward' object has no attribute 'nothing'"):
        y.grad_fn.nothing
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]
    y = y.detach() * 2
    assert y.grad_fn is None and not hasattr((x * 2).grad_fn, "options")
