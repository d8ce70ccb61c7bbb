"""Checkpoints: what a function computed is not kept, and computed again by a backward. The same bits, less memory."""
import inspect
import random
import threading

import pytest
import tensord as td
import tensord.nn.functional as F
from common import held, script, seed
from tensord.utils.checkpoint import checkpoint_sequential


def made(*shapes):
    td.manual_seed(11)
    return [td.randn(*s, requires_grad=True) for s in shapes]


def plainly(function, *args, **kw):
    return function(*args, **kw)


def outcome(f, leaves, create_graph=False):
    """What a loss gives: gradients, those of gradients, its value, and the random numbers that come next."""
    def one(call):
        for p in leaves:
            p.grad = None
        td.manual_seed(7)
        y = f(call)
        if create_graph:
            first = td.autograd.grad(y, leaves, create_graph=True, allow_unused=True)
            td.stack([(g * g).sum() for g in first if g is not None]).sum().backward()
        else:
            first = ()
            y.backward()
        return [None if g is None else g.tolist() for g in (*first, *(p.grad for p in leaves))], y.item(), td.rand(3).tolist()

    return one(plainly), one(td.checkpoint)


X, W, V = (4, 6), (6, 6), (6,)


def chain(x, w, v):
    def fn(x):
        h = F.dropout(td.tanh(x @ w), 0.5)
        return td.relu(h @ w + v) * x
    return lambda call: (call(fn, x) + x).sum()


def in_place(x, w, v):
    def fn(x):
        h = x * 2
        h.mul_(w[0])  # its gradient needs what is overwritten
        h.sigmoid_()
        k = h.clone()
        k[1] = k[2] * 3
        k[:, 0].add_(h[:, 0])
        k += v
        return k.t() @ w[:4]
    return lambda call: call(fn, x).sin().sum()


def nested(x, w, v):
    def inner(a):
        return td.exp(td.sin(a @ w)) + v

    def outer(call, a):
        b = call(inner, td.cos(a @ w))
        b = F.dropout(b, 0.3)
        return call(inner, b) * b
    return lambda call: (call(outer, call, x) * x).sum()


def one_after_the_other(x, w, v):
    def loss(call):
        y = x
        for _ in range(5):
            y = call(lambda y: F.dropout(td.tanh(y @ w), 0.2) + y * v, y)
        return y.sum()
    return loss


def trees(x, w, v):
    def fn(d, k, *, scale):
        a = d["a"][0] * k * scale
        return {"o": [td.exp(a), a + 1, td.arange(6.0)], "n": 3, "x": d["a"][0]}

    def loss(call):
        r = call(fn, {"a": [x]}, 2.5, scale=v)
        return (r["o"][0] * r["o"][1] * r["o"][2]).sum() + r["n"] * r["x"].sum()
    return loss


def looks_at_values(x, w, v):
    def fn(a):
        h = td.sin(a) * a
        h = h * 3 if h.sum().item() > 0 else h * h
        i = td.nonzero(h > 0)
        return h * h[h > 0].sum() + h[i[:, 0], i[:, 1]].exp().sum()
    return lambda call: call(fn, x).sum()


def partly_without_gradients(x, w, v):
    def fn(a):
        with td.no_grad():
            m, s = td.tanh(a), td.rand(4, 6)
        d = (a * a).detach()
        d.mul_(2)
        return td.exp(a) * m * s * d
    return lambda call: call(fn, x).sum()


def views(x, w, v):
    def fn(a):
        u, q = a.t().chunk(2)
        return (a @ w.t()).tanh().sum() + (u.exp() * q).sum() + td.cat([a, a * 2, a.sin()]).exp().sum() + td.stack([a[0], a[1]]).cos().sum()
    return lambda call: call(fn, x)


def data(x, w, v):
    def fn(a):
        h = a * 2
        h.data.mul_(3)
        return (h * h).sin() * h
    return lambda call: call(fn, x).sum()


def gives_its_arguments(x, w, v):
    def loss(call):
        a, b = call(lambda a: (a, a[0]), x)
        return (a * a).sum() + b.exp().sum()
    return loss


def statistics(x, w, v):
    def loss(call):
        mean, var = td.zeros(6), td.ones(6)
        y = call(lambda a: F.batch_norm(a * 2, mean, var, v, None, True) * a, x).sum()
        return y + mean.sum() + var.sum()  # written once
    return loss


def written_inside(x, w, v):
    def loss(call):
        seen = td.zeros(6)

        def fn(a):
            h = td.sin(a)
            seen.add_(h.detach().mean(0))
            return h * seen.clone() * h
        return call(fn, x).sum() + seen.sum()
    return loss


def gradients_inside(x, w, v):
    def fn(a):
        h = td.sin(a * w[0])
        (g,) = td.autograd.grad(h.exp().sum(), a, create_graph=True)
        return h * g
    return lambda call: call(fn, x).sum()


ALL = [chain, in_place, nested, one_after_the_other, trees, looks_at_values, partly_without_gradients, views, data, gives_its_arguments, statistics, written_inside, gradients_inside]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("case", ALL)
def test_same_bits(case, create_graph):
    leaves = made(X, W, V)
    plain, again = outcome(case(*leaves), leaves, create_graph)
    assert plain == again


def drawn(rng, x, w, call, depth):
    """A random function of some ops, in place and not, with checkpoints in it."""
    steps = [rng.randrange(11) for _ in range(rng.randrange(2, 12))]
    numbers = [rng.random() for _ in steps]
    inner = [drawn(rng, x, w, call, depth - 1) if depth and s == 10 else None for s in steps]

    def fn(a):
        kept = [a * 1]
        for s, p, f in zip(steps, numbers, inner):
            h = kept[int(p * len(kept))]
            kept.append([lambda: td.tanh(h @ w), lambda: h * h, lambda: F.dropout(h, p), lambda: h + x, lambda: h.exp() * 0.1, lambda: h.t().contiguous().t() * p,
                         lambda: h.clone().mul_(td.sin(h)), lambda: td.cat([h[:2].cos(), h[2:]]), lambda: F.layer_norm(h, (6,), w[0]), lambda: h.softmax(1) * td.rand(6),
                         lambda: call(f, h) if f else td.sigmoid(h)][s]())
        return sum(kept[1:], kept[0])
    return fn


@pytest.mark.parametrize("number", range(30))
def test_any_function(number):
    leaves = x, w = made(X, W)

    def loss(call):
        rng = random.Random(start)
        return call(drawn(rng, x, w, call, 2), x * 1).sum()
    start = seed() + number
    assert len(set(map(repr, outcome(loss, leaves, number % 2 == 0)))) == 1


def test_modules():
    m = td.nn.Sequential(td.nn.Linear(6, 16), td.nn.BatchNorm1d(16), td.nn.ReLU(), td.nn.Dropout(0.5), td.nn.Linear(16, 6), td.nn.GELU())
    twin = td.nn.Sequential(td.nn.Linear(6, 16), td.nn.BatchNorm1d(16), td.nn.ReLU(), td.nn.Dropout(0.5), td.nn.Linear(16, 6), td.nn.GELU())
    twin.load_state_dict(m.state_dict())
    x = td.randn(5, 6)  # requires no grad: the parameters do
    for model, call in ((m, plainly), (twin, td.checkpoint)):
        td.manual_seed(3)
        for _ in range(3):
            call(model, x).square().sum().backward()
    assert [p.grad.tolist() for p in m.parameters()] == [p.grad.tolist() for p in twin.parameters()]
    assert {k: v.tolist() for k, v in m.state_dict().items()} == {k: v.tolist() for k, v in twin.state_dict().items()}
    assert twin[1].num_batches_tracked.item() == 3


def test_sequential():
    parts = [td.nn.Linear(6, 6), td.nn.Tanh(), td.nn.Dropout(0.3), td.nn.Linear(6, 6), td.nn.Sigmoid()]
    model, x = td.nn.Sequential(*parts), td.randn(4, 6, requires_grad=True)

    def of(f):
        td.manual_seed(5)
        y = f()
        return y.tolist(), [g.tolist() for g in td.autograd.grad(y.sum(), [x, *model.parameters()])]

    plain = of(lambda: model(x))
    for segments in range(1, 6):
        assert of(lambda: checkpoint_sequential(model, segments, x, use_reentrant=False)) == plain
        assert of(lambda: checkpoint_sequential(parts, segments, x)) == plain
    for wrong in (0, 6, 1.5, True):
        with pytest.raises(td.InvalidError, match="from 1 to 5"):
            checkpoint_sequential(model, wrong, x)


def test_segments_of_a_sequence(monkeypatch):
    """All but the last are checkpoints; the last one has what is left over. Arguments go to each."""
    seen, real = [], td.utils.checkpoint.checkpoint

    def noted(run, first, last, x, **more):
        seen.append((first, last, more))
        return real(run, first, last, x, **more)

    monkeypatch.setattr(td.utils.checkpoint, "checkpoint", noted)
    x = td.ones(2, requires_grad=True)
    for n, segments, wanted in ((5, 1, []), (5, 2, [(0, 2)]), (5, 5, [(0, 1), (1, 2), (2, 3), (3, 4)]), (6, 3, [(0, 2), (2, 4)]), (7, 3, [(0, 2), (2, 4)])):
        made = checkpoint_sequential(iter([lambda x: x * 2] * n), segments, x, use_reentrant=True, preserve_rng_state=False, early_stop=False)
        assert made.tolist() == [2**n] * 2 and seen == [(*part, dict(use_reentrant=True, preserve_rng_state=False, early_stop=False)) for part in wanted]
        seen.clear()
    checkpoint_sequential([td.sin, td.cos], 2, x)
    assert seen == [(0, 1, dict(use_reentrant=None, preserve_rng_state=True))]


def test_a_region_ends_with_the_function():
    """And without gradients there is none."""
    x = td.ones(3, requires_grad=True)

    def asks(a):
        with pytest.raises(td.InvalidError, match="in no checkpoint"):
            td._C._checkpoint(False)
        return a * 2

    with td.no_grad():
        assert not td.checkpoint(asks, x).requires_grad
    assert td.checkpoint(lambda a, *, k: a * k, x, k=3).tolist() == [3, 3, 3]


def block(x, w):
    for _ in range(8):
        x = td.tanh(x @ w) * 0.5 + x
    return x


def kept(call, blocks):
    w, x = td.randn(128, 128, requires_grad=True), td.randn(256, 128)
    y, before = x, held()[0]
    for _ in range(blocks):
        y = call(block, y, w)
    between = held()[0] - before
    y.sum().backward()
    del y
    return between, held()[0] - before


def test_memory_falls():
    """256x128 float32 are 128 KiB: of a block of 8 steps one is kept instead of 16."""
    size = 256 * 128 * 4
    kept(plainly, 1), kept(td.checkpoint, 1)
    much, left = kept(plainly, 4)
    assert much >= 4 * 16 * size and left <= size
    little, left = kept(td.checkpoint, 4)
    assert 4 * size <= little <= 6 * size and left <= size


def test_memory_of_nested_ones():
    """A block at a time is made again, and of it what the inner ones begin with."""
    size, w = 256 * 128 * 4, td.randn(128, 128, requires_grad=True)

    def outer(x):
        for _ in range(8):
            x = td.checkpoint(block, x, w)
        return x

    x, before = td.randn(256, 128), held()[0]
    y = td.checkpoint(outer, x)
    assert held()[0] - before <= 3 * size
    (g,) = td.autograd.grad(y.sum(), w)
    z = x
    for _ in range(8):
        z = block(z, w)
    assert g.tolist() == td.autograd.grad(z.sum(), w)[0].tolist()


def test_nothing_is_left():
    leaves = made(X, W, V)
    for case in ALL:
        outcome(case(*leaves), leaves)
    before = held()
    for case in ALL:
        outcome(case(*leaves), leaves)
        case(*leaves)(td.checkpoint)  # a graph that nobody runs backwards
    assert held() == before
    assert next(r["value"] for r in td.status() if r["key"] == "nodes") == 0


def test_twice():
    x, w = made(X, W)
    y = td.checkpoint(lambda a: F.dropout(td.exp(a @ w), 0.5), x).sum()
    first, second = (td.autograd.grad(y, (x, w), retain_graph=True) for _ in range(2))
    assert [g.tolist() for g in first] == [g.tolist() for g in second]
    y.backward()
    assert x.grad.tolist() == first[0].tolist()
    with pytest.raises(td.AutogradError, match="a second time"):
        y.backward()
        td.sync()


def test_of_several_outputs_one():
    x, w, v = made(X, W, V)
    p, q = td.checkpoint(lambda a: (td.exp(a @ w), td.sin(a * v)), x)
    (g,) = td.autograd.grad(q.sum(), v)
    assert g.tolist() == (x * td.cos(x * v)).sum(0).tolist()
    p.sum().backward()
    assert v.grad is None and w.grad is not None


def test_without_gradients():
    x, w = made(X, W)
    with td.no_grad():
        assert not td.checkpoint(lambda a: a @ w, x).requires_grad
        assert td._C._checkpoint  # no region was begun: there is none to end
        with pytest.raises(td.InvalidError, match="in no checkpoint"):
            td._C._checkpoint(False)
    assert td.checkpoint(lambda a: a @ w, x.detach()).requires_grad
    assert not td.checkpoint(lambda a: a * 2, x.detach()).requires_grad
    assert td.checkpoint(lambda: 5) == 5


def test_what_was_overwritten():
    x, w = made(X, W)
    for written in (x.detach(), w.detach()):
        y = td.checkpoint(lambda a: td.exp(a @ w) * w.sum(), x).sum()
        written.add_(1)
        with pytest.raises(td.VersionError, match="inplace operation"):
            y.backward()
            td.sync()
    h = td.checkpoint(lambda a: td.exp(a), x)  # what came of it may be
    h = h.mul_(2)
    (g,) = td.autograd.grad(h.sum(), x)
    assert g.tolist() == (td.exp(x) * 2).tolist()


def test_errors():
    x = td.ones(3, requires_grad=True)

    def fails(a):
        raise KeyError("here")
    with pytest.raises(KeyError):
        td.checkpoint(fails, x)
    with pytest.raises(td.ShapeError):
        td.checkpoint(lambda a: a @ td.ones(7, 7), x)
    with pytest.raises(td.DTypeError, match="must be callable, not int"):
        td.checkpoint(3, x)
    for name in ("use_reentrant", "preserve_rng_state", "early_stop"):
        with pytest.raises(td.DTypeError, match=name):
            td.checkpoint(td.exp, x, **{name: "no"})
    with pytest.raises(td.Unsupported, match="context_fn"):
        td.checkpoint(td.exp, x, context_fn=lambda: None)
    with pytest.raises(td.Unsupported, match="debug"):
        td.checkpoint(td.exp, x, debug=True)
    with pytest.raises(td.InvalidError, match="determinism_check"):
        td.checkpoint(td.exp, x, determinism_check="always")

    def deep(n, a):
        return td.checkpoint(deep, n - 1, a) if n else a * a
    assert deep(64, x).sum().item() == 3
    with pytest.raises(td.InvalidError, match="64 deep"):
        deep(65, x)
    y = td.checkpoint(td.exp, x, use_reentrant=True, preserve_rng_state=False, early_stop=False, determinism_check="none").sum()
    y.backward()
    assert x.grad.tolist() == td.exp(x).tolist()
    with pytest.raises(td.InvalidError, match="in no checkpoint"):
        td._C._checkpoint(False)  # all of these have ended


def test_threads():
    """Those of one process share a stream; each is in checkpoints of its own."""
    w, plain, again = td.randn(20, 20, requires_grad=True), {}, {}

    def run(into, i, call):
        z = td.ones(20, 20) * 0.01 * i
        for _ in range(30):
            z = call(lambda z: td.tanh(z @ w) + z, z)
        into[i] = td.autograd.grad(z.sum(), w)[0].tolist()

    for i in range(6):
        run(plain, i, plainly)
    threads = [threading.Thread(target=run, args=(again, i, td.checkpoint if i % 3 else plainly)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert again == plain


@td.jit.script
def program(x, w):
    for _ in range(3):
        x = td.tanh(x @ w) * 0.5 + x
    return x


def test_programs():
    x, w = made(X, W)
    plain, again = outcome(lambda call: call(program, x, w).sum(), (x, w), True)
    assert plain == again
    traced = td.jit.trace(lambda a: td.checkpoint(lambda b: td.tanh(b) * 2, a), (x,))
    assert "td::tanh" in str(traced.graph)
    assert td.autograd.grad(traced(x).sum(), x)[0].tolist() == td.autograd.grad((td.tanh(x) * 2).sum(), x)[0].tolist()

    def scripted(x):
        return td.checkpoint(program, x, x)
    with pytest.raises(td.Unsupported, match="cannot call 'td.checkpoint'"):
        td.jit.script(scripted)


def test_child_of_a_fork():
    done = script("""
        import os, tensord as td
        x = td.ones(3, requires_grad=True)
        def fn(a):
            h = a * 2
            pid = os.fork()
            if pid == 0:
                y = td.checkpoint(td.exp, td.ones(2, requires_grad=True))
                os._exit(0 if y.sum().item() > 5 else 1)
            assert os.waitpid(pid, 0)[1] == 0
            return td.exp(h)
        td.checkpoint(fn, x).sum().backward()
        print([round(v, 3) for v in x.grad.tolist()])
    """, flags=())
    assert done.stdout == "[14.778, 14.778, 14.778]\n", done.stderr


def test_as_torch_has_it():
    torch = pytest.importorskip("torch")
    import torch.utils.checkpoint as theirs
    import tensord.utils.checkpoint as ours

    assert set(ours.__dict__) >= {"checkpoint", "checkpoint_sequential"}
    x, w = made(X, W)

    newer = {"use_reentrant": False} if "use_reentrant" in inspect.signature(theirs.checkpoint_sequential).parameters else {}

    def step(lib, names, x, w):
        def fn(a, k):
            h = lib.tanh(a @ w) * k
            return h, (h @ w).exp()
        a, b = names.checkpoint(fn, x, 0.5, use_reentrant=False)
        c = names.checkpoint_sequential([lib.sin, lib.cos, lib.tanh], 2, a * b, **newer)
        (c * a).sum().backward()
        return x.grad, w.grad

    mine = step(td, ours, x, w)
    x2, w2 = (torch.tensor(t.tolist(), requires_grad=True) for t in (x, w))
    for g, h in zip(mine, step(torch, theirs, x2, w2)):
        torch.testing.assert_close(torch.tensor(g.tolist()), h, rtol=1e-5, atol=1e-6)
