"""Backwards of graphs that look like ones before, whose nodes become single calls (rows), give what they give node by node: gradients to the bit and
where they lie, errors, what is kept; of gradients alone, added to .grad, retained, twice over one graph, and of higher order. A hook on a leaf makes a
backward go node by node, so that both ways can be compared over one graph."""
import os
import random
import threading

import pytest

import tensord as td
from common import at_rest, script, seed, settles
from test_plans import COUNT, ONE, SMALL, bits, drawn, filled, planned, tensor
from tensord import nn

PLANS = os.environ.get("TENSORD_PLANS") != "0"


def node_by_node(leaf, work):
    hook = leaf.register_hook(lambda g: None)
    try:
        return work()
    finally:
        hook.remove()


def all_bits(gradients):
    return [None if g is None else bits(g) for g in gradients]


def leaves_like(r, looks):
    return [filled(r, w).detach().clone().requires_grad_() for w in looks]


@pytest.mark.parametrize("shapes", [SMALL, [(20000,), (130, 127), (1, 127), (16384,), (1,)]], ids=["small", "straddling"])
def test_drawn_gradients_are_those_of_node_by_node(shapes):
    r = random.Random(seed())
    spared = planned()
    for number in range(COUNT if shapes is SMALL else COUNT // 3):
        looks = [tensor(r, shapes) for _ in range(2)]
        function = drawn(r, [filled(r, w) for w in looks], list(ONE))
        for turn in range(5):
            leaves = leaves_like(r, looks)
            outs = [y for y in function(*leaves) if y.requires_grad]
            if not outs:
                break
            seeds = [(td.arange(float(y.numel())) * 0.7).sin().add(turn).reshape(y.shape).to(y.dtype) for y in outs]

            def work():
                return td.autograd.grad(outs, leaves, seeds, retain_graph=True, allow_unused=True)

            ours, theirs = all_bits(work()), all_bits(node_by_node(leaves[0], work) if leaves else [])
            assert ours == theirs, f"number {number}, turn {turn}, {looks}"
            td.autograd.backward(outs, seeds)
            added = [x.grad for x in leaves]
            for x in leaves:
                x.grad = None
            assert [None if g is None else bits(g)[3] for g in added] == [None if g is None else g[3] for g in ours]
    assert not PLANS or planned() > spared + COUNT


def cell(x, w, b):
    h = x
    for _ in range(12):
        h = (h @ w + b).tanh() * 0.5 + x
    return h.sum()


def weights(n=6, dtype=td.float64):
    td.manual_seed(4)
    return [td.randn(n, n, dtype=dtype).requires_grad_(), (td.randn(n, n, dtype=dtype) / n).requires_grad_(), td.zeros(n, dtype=dtype).requires_grad_()]


def known(work, times=3):
    """Until rows are known."""
    for _ in range(times):
        work()


def test_most_of_a_backward_is_spared():
    args = weights()
    known(lambda: cell(*args).backward())
    before = planned()
    cell(*args).backward()
    args[0].grad.tolist()
    assert not PLANS or planned() - before > 12 * 4


def test_gradients_are_added_to_what_is_there():
    args = weights()
    once = [g.clone() for g in td.autograd.grad(cell(*args), args)]
    for turn in range(1, 6):
        cell(*args).backward()
        want = once
        for _ in range(turn - 1):
            want = [a + g for a, g in zip(want, once)]
        assert [bits(a.grad) for a in args] == [bits(g) for g in want], turn


def test_one_graph_twice_and_never_a_third_time():
    args = weights()
    known(lambda: cell(*args).backward())
    y = cell(*args)
    first = all_bits(td.autograd.grad(y, args, retain_graph=True))
    assert all_bits(td.autograd.grad(y, args)) == first
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        td.autograd.grad(y, args)


def test_retained_gradients_and_those_of_what_lies_between():
    x, w, b = weights()
    for turn in range(5):
        h = (x @ w + b).tanh()
        z = (h * h).exp() * w
        y = (z * z + h).sum()
        h.retain_grad()
        y.backward(retain_graph=True)
        kept, (gh, gx) = h.grad, td.autograd.grad(y, [h, x], retain_graph=True)
        theirs = node_by_node(x, lambda: td.autograd.grad(y, [h, x]))
        assert bits(kept) == bits(gh) == bits(theirs[0]) and bits(gx) == bits(theirs[1]), turn


def test_gradients_of_gradients():
    args = weights(4)
    for turn in range(5):
        y = cell(*args)
        g = td.autograd.grad(y, args, create_graph=True)
        s = sum((x * x).sum() for x in g)
        ours = td.autograd.grad(s, args, retain_graph=True)
        theirs = node_by_node(args[0], lambda: td.autograd.grad(s, args))
        assert all_bits(ours) == all_bits(theirs), turn
    x, w, b = args
    assert td.autograd.gradcheck(cell, (x, w, b)) and td.autograd.gradgradcheck(lambda x, w, b: (x @ w + b).tanh().sum(), (x, w, b))


def test_what_was_written_since_is_refused():
    x, w, b = weights()

    def made():
        h = (x @ w + b).tanh()
        return h, ((h * h).exp() * w + h).sum()

    known(lambda: made()[1].backward())
    h, y = made()
    with td.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    h, y = made()
    y.backward()  # and the next is as ever


def test_writes_in_place_are_part_of_it():
    x, w, b = weights()
    for turn in range(5):
        h = x @ w
        h.add_(b).mul_(0.5)
        h[0] = h[1] * 2
        h[:, 1].tanh_()
        y = (h.sigmoid() * x).sum()
        ours = td.autograd.grad(y, [x, w, b], retain_graph=True)
        theirs = node_by_node(x, lambda: td.autograd.grad(y, [x, w, b]))
        assert all_bits(ours) == all_bits(theirs), turn


def test_anomalies_are_found():
    x = td.zeros(3).requires_grad_()

    def made():
        return (((x * 2).sqrt() * 0).exp() + x).sum()

    known(lambda: made().backward())
    with td.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        made().backward()
        td.ones(1).tolist()


def test_one_tensor_in_many_places():
    r = random.Random(seed())
    for turn in range(6):
        x = td.tensor([r.uniform(-1, 1) for _ in range(6)], dtype=td.float64).reshape(2, 3).requires_grad_()
        y = x * x
        z = td.cat([y, y, x]).sum(0) + y.expand(2, 2, 3).sum((0, 1)) + x.t().reshape(-1)[:3] * x[0]
        outs = [z, y]
        seeds = [z.detach() * 2, y.detach()]
        ours = td.autograd.grad(outs, [x], seeds, retain_graph=True)
        theirs = node_by_node(x, lambda: td.autograd.grad(outs, [x], seeds))
        assert all_bits(ours) == all_bits(theirs), turn


def test_what_looks_nearly_the_same_is_not_the_same():
    """Numbers, shapes, dtypes, who requires a gradient, and what leads where, all in turns."""
    r = random.Random(seed())
    for turn in range(60):
        n, dtype, number, way = r.choice([3, 4]), r.choice([td.float32, td.float64]), r.choice([2.0, 3.0]), r.randrange(4)
        x, w, b = (t.detach().to(dtype).requires_grad_() for t in weights(n))
        w.requires_grad_(way != 1)
        h = (x * number + w).sigmoid()
        h = (h * (x if way == 2 else b) - h ** number).exp()
        y = (h * (h if way == 3 else x)).mean()
        leaves = [t for t in (x, w, b) if t.requires_grad]
        ours = td.autograd.grad(y, leaves, retain_graph=True, allow_unused=True)
        theirs = node_by_node(x, lambda: td.autograd.grad(y, leaves, allow_unused=True))
        assert all_bits(ours) == all_bits(theirs), (turn, n, dtype, number, way)


def test_a_loss_that_is_lost_says_why():
    table, good, bad = td.ones(4, 3).requires_grad_(), td.tensor([0, 3]), td.tensor([0, 4])

    def step(i):
        h = (table * 2).index_select(0, i)
        ((h.exp() + 1).log() * h).sum().backward()

    known(lambda: step(good))
    with pytest.raises(td.Error, match="index_select"):
        step(bad)
        table.grad.tolist()
    table.grad = None
    step(good)
    want = table.grad
    table.grad = None
    node_by_node(table, lambda: step(good))
    assert bits(table.grad) == bits(want)


def test_nothing_stays_behind():
    before = at_rest()
    args = weights()
    for turn in range(8):
        cell(*args).backward()
        y = cell(*args)
        del y
    del args
    assert settles(before) == before


def test_training_is_what_it_is_node_by_node():
    def trained(hooked):
        td.manual_seed(2)
        net = nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
        opt, x, y = td.optim.Adam(net.parameters(), lr=0.01), td.randn(7, 5), td.arange(7) % 3
        if hooked:
            for p in net.parameters():
                p.register_hook(lambda g: None)
        for _ in range(8):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        return all_bits(p.detach() for p in net.parameters())

    assert trained(False) == trained(True)


def test_threads_with_one_graph():
    x, w, b = weights()
    known(lambda: cell(x, w, b).backward())
    want, y, got = all_bits(td.autograd.grad(cell(x, w, b), [x, w, b])), cell(x, w, b), []

    def work():
        for _ in range(5):
            got.append(all_bits(td.autograd.grad(y, [x, w, b], retain_graph=True)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [want] * 15


def test_one_who_ends_in_the_midst_leaves_nothing():
    before = at_rest()
    said = script("""
        import os, signal, tensord as td
        w = td.ones(6, 6).requires_grad_()
        for turn in range(6):
            h = w
            for _ in range(12):
                h = (h @ w * 0.1).tanh() + w
            h.sum().backward()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert said.returncode == -9, said
    assert settles(before) == before
