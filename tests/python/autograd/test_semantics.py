"""What derivatives mean, a test for each line: leaves, versions, views, order, modes (A1 to A19). Lines that are about hooks are in test_hooks.py and
test_function.py, and each has its share of other suites."""
import os
import subprocess
import sys

import pytest
import tensord as td
from common import held


def leaf(*values):
    return td.tensor(list(values), requires_grad=True)


def test_a1_leaves_refuse_writes_in_place():
    x = leaf(1.0, 2.0)
    with pytest.raises(td.AutogradError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)
    with td.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]
    with pytest.raises(td.DTypeError, match="float"):
        td.tensor([1]).requires_grad_()
    assert td.tensor([1j]).requires_grad_().requires_grad


def test_a2_versions_of_what_was_saved():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y[0] = 5  # the family's counter, by a view
    with pytest.raises(td.VersionError, match=r"\[float32\[2\]\], made by 'exp' and saved by 'exp', is at version 1; expected version 0 instead. It was changed by "):
        y.sum().backward()
        x.grad
    z = x * 3  # what is saved and never asked for never complains
    w = td.ones(2)
    k = z * w
    z.detach().add_(1)
    k.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a3_who_shares_a_counter():
    x = td.ones(4)
    view, apart, data = x[:2], x.detach(), x.data
    x.add_(1)
    assert view._version == apart._version == x._version == 1 and data._version == 0
    w = leaf(1.0)
    y = w * w
    w.data.mul_(7)  # PyTorch's back door
    y.sum().backward()
    assert w.grad.tolist() == [14]
    bn = td.nn.BatchNorm1d(2)
    bn(td.ones(3, 2, requires_grad=True))
    assert bn.running_var._version == bn.running_mean._version == 1


def test_a4_in_place_on_a_view_rebases_its_base():
    x, base = leaf(2.0), td.ones(3)
    sibling, part = base[1:], base[:2]
    part.mul_(x)
    assert base.requires_grad and sibling.requires_grad and base.grad_fn.name().endswith("CopySlices")
    (sibling * td.tensor([10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [10]


def test_a4_what_is_overwritten_as_a_whole_gets_zeros():
    x, v = td.arange(4.0, requires_grad=True), td.ones(4, requires_grad=True)
    writes = (lambda y: y.fill_(3.0), lambda y: y.zero_(), lambda y: y.copy_(v * 2), lambda y: y.mul_(2).zero_(), lambda y: y.view(2, 2).zero_())
    for write in writes:
        y = x * 2
        write(y)
        assert y.requires_grad and not y.is_leaf
        g, = td.autograd.grad(y.sum(), x, allow_unused=True)
        assert g.tolist() == [0, 0, 0, 0]
        y = x * 2
        write(y)
        g, = td.autograd.grad((y * x).sum(), x, create_graph=True)
        assert g.tolist() == y.tolist()
    w = td.zeros(4)  # by a view, and then as a whole
    w[1:3].copy_(x[:2])
    w.zero_()
    assert w.requires_grad and td.autograd.grad(w.sum(), x)[0].tolist() == [0, 0, 0, 0]
    y = x * 2
    y.copy_(v * 2)
    assert [to and to.name() for to, _ in y.grad_fn.next_functions] == ["MulBackward0", "MulBackward0"]
    g = td.autograd.grad(y.sum(), [x, v])
    assert [k.tolist() for k in g] == [[0] * 4, [2] * 4]


def test_a5_views_of_no_grad_refuse_whatever_is_written():
    x = td.ones(2, requires_grad=True)
    for base, refuses in ((x, True), (x * 1, True), (td.ones(2), False)):
        with td.no_grad():
            v = base[0]
            v.mul_(2)
        for write in (lambda: v.mul_(2), lambda: v.fill_(2.0), lambda: v.copy_(x.detach()[1])):
            write()
            if not refuses:
                td.sync()
                continue
            with pytest.raises(td.AutogradError, match="a view was created in no_grad mode"):
                td.sync()


def test_a5_views_that_refuse():
    x = leaf(1.0, 2.0) * 1
    for part in (x.unbind()[0], x.split(1)[0], x.chunk(2)[0]):
        with pytest.raises(td.AutogradError, match="output of a function that returns multiple views"):
            part.mul_(2)
            td.sync()
    x.tensor_split(2)[0].mul_(2)
    with td.no_grad():
        v = x[:1]
    with pytest.raises(td.AutogradError, match="a view was created in no_grad mode"):
        v.mul_(leaf(2.0))  # the result would need grad
        td.sync()
    with pytest.raises(Exception, match="[vV]iew"):
        x[:1].detach_()
        td.sync()


def test_a6_a_graph_serves_once():
    x = leaf(1.0, 2.0)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(td.AutogradError, match="Trying to backward through the graph a second time"):
        y.backward()
    z = (x + 1).sum()  # saved nothing
    z.backward()
    z.backward()
    w = (x * 2).sum()  # saved its number
    w.backward()
    with pytest.raises(td.AutogradError, match="second time"):
        w.backward()


def test_a7_any_order():
    x = leaf(2.0)
    y = x ** 4
    for want in (32, 48, 48, 24, 0):
        y, = td.autograd.grad(y, x, create_graph=True)
        assert y.item() == want
        if not y.requires_grad:
            break


def test_a8_grad_accumulates_and_stays_the_same():
    x = leaf(1.0, 2.0)
    (x * 1).sum().backward()
    kept = x.grad
    (x * 2).sum().backward()
    assert kept.tolist() == [3, 3]  # in place
    (x * x).sum().backward(create_graph=True)
    assert kept.tolist() == [3, 3] and x.grad.tolist() == [5, 7] and x.grad.requires_grad
    w, g = leaf(1.0), td.ones(1)
    for _ in range(2):
        (w * 1).backward(g)
    assert g.tolist() == [1] and w.grad.tolist() == [2]  # a given one is copied


def test_a9_sums_never_write_to_what_others_hold():
    x, seen = leaf(1.0, 2.0), []
    y = x * 1
    a, b = y + 0, y + 0
    a.register_hook(lambda g: seen.append(g))
    (a + b).sum().backward()  # both get one gradient
    y = x * 1
    (y + y + y).sum().backward()
    assert seen[0].tolist() == [1, 1] and x.grad.tolist() == [5, 5]


def test_a10_casts_sums_and_what_is_undefined():
    a, b = td.ones(2, dtype=td.float64, requires_grad=True), leaf(1.0)
    (a * b).sum().backward()
    assert a.grad.dtype == td.float64 and b.grad.dtype == td.float32 and b.grad.tolist() == [2]
    with pytest.raises(td.ShapeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of"):
        (a * 1).backward(td.ones(3))
    u = leaf(1.0, 2.0)
    p, q = (u * 1).unbind()
    p.backward()
    assert u.grad.tolist() == [1, 0]  # beside a defined one it counts as zeros
    w = leaf(1.0)
    w.detach()
    assert w.grad is None


def test_a13_modes():
    x = leaf(1.0)
    with td.no_grad():
        assert not (x * 2).requires_grad and not td.is_grad_enabled()
        with td.enable_grad():
            assert (x * 2).requires_grad
        with td.set_grad_enabled(True):
            assert (x * 2).requires_grad

    @td.no_grad()
    def f():
        return (x * 2).requires_grad

    assert not f() and td.is_grad_enabled()
    td.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    td.set_grad_enabled(True)
    with td.inference_mode():
        t = td.ones(1)
    assert t.is_inference()
    with pytest.raises(td.AutogradError, match="[Ii]nference tensors cannot be saved for backward"):
        (x * t).sum().backward()


def test_a14_what_nobody_needs_goes_at_once():
    m, x = td.ones(1 << 18), td.ones(1 << 18, requires_grad=True)
    td.sync()
    before = held()[0]
    y = ((x + 2) * m).sum()
    y.item()
    assert held()[0] - before < 1 << 19  # neither of the intermediates
    z = (x * x).exp().sum()
    assert held()[0] - before > 1 << 19
    del z
    assert held()[0] - before < 1 << 19
    y.backward()


@pytest.mark.parametrize("f, at, want", [
    ("relu", [0.0, float("nan"), 1.0], [0, 1, 1]), ("abs", [0.0, -1.0], [0, -1]), ("amax", [2.0, 2.0, 1.0], [0.5, 0.5, 0]), ("amin", [1.0, 1.0], [0.5, 0.5]),
    ("clamp", [0.0, 1.0, 2.0], [1, 1, 0]), ("hardtanh", [-1.0, 0.0, 1.0], [0, 1, 0]), ("relu6", [0.0, 6.0, 3.0], [0, 0, 1]),
    ("sort", [2.0, 2.0], [1, 10]), ("max", [3.0, 3.0], [1, 0]), ("median", [1.0, 1.0, 1.0], None),
])
def test_a15_subgradients(f, at, want):
    x = leaf(*at)
    made = {"relu": td.relu, "abs": td.abs, "amax": lambda x: x.amax(), "amin": lambda x: x.amin(), "clamp": lambda x: x.clamp(0, 1), "hardtanh": td.nn.functional.hardtanh,
            "relu6": td.nn.functional.relu6, "sort": lambda x: x.sort()[0] * td.tensor([1.0, 10.0]), "max": lambda x: x.max(0)[0], "median": lambda x: x.median(0)[0]}[f](x)
    made.sum().backward()
    got = x.grad.tolist()
    assert got == want if want else sorted(got) == [0, 0, 1]


def test_a15_ties_of_two():
    for f, want in (("maximum", (0.5, 0.5)), ("minimum", (0.5, 0.5)), ("fmax", (1, 0)), ("fmin", (1, 0))):
        if not hasattr(td, f):
            continue
        a, b = leaf(1.0), leaf(1.0)
        getattr(td, f)(a, b).sum().backward()
        assert (a.grad.item(), b.grad.item()) == want


def test_a17_ten_processes_and_one_leaf():
    w = leaf(0.0, 0.0)
    q = td.Queue("leaves")
    text = """
import tensord as td
w = td.Queue("leaves").get(timeout=30)
for k in range(20):
    (w * (k + 1)).sum().backward()
td.sync()
"""
    td.sync()
    env = {**os.environ, "TENSORD_SOCKET": td.connection()["path"]}
    all_of_them = [subprocess.Popen([sys.executable, "-c", text], env=env) for _ in range(10)]
    for _ in all_of_them:
        q.put(w)
    assert [p.wait(60) for p in all_of_them] == [0] * 10
    assert w.grad.tolist() == [10 * 210] * 2


def test_a19_a_graph_of_three_processes():
    x = leaf(1.0, 2.0)
    there, back = td.Queue("there"), td.Queue("back")
    text = """
import tensord as td
y, x = td.Queue("there").get(timeout=30)
td.Queue("back").put(y * y * x)
"""
    td.sync()
    p = subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "TENSORD_SOCKET": td.connection()["path"]})
    there.put([x * 3, x])
    z = back.get(timeout=30)
    assert p.wait(30) == 0
    z.sum().backward()
    assert x.grad.tolist() == [27, 108]
