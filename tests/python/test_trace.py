"""Traces from Python: programs of functions and modules do what these did, with all of their forms; parameters stay shared; what a program does
not follow is told with its line; and nothing stays behind."""
import collections
import importlib
import inspect
import shutil
import subprocess
import sys
import threading
import warnings
from xml.etree import ElementTree

import pytest

import tensord as td
from common import at_rest, settles
from tensord import nn

Pair = collections.namedtuple("Pair", "left right")


def same(ours, theirs):
    if isinstance(theirs, td.Tensor):
        return ours.tolist() == theirs.tolist()
    if isinstance(theirs, dict):
        return type(ours) is type(theirs) and list(ours) == list(theirs) and all(same(ours[k], theirs[k]) for k in theirs)
    if not isinstance(theirs, (list, tuple)):
        return ours == theirs
    return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))


def ops(x, y):
    z = (x @ y.T).softmax(-1) + td.std(x, 1, keepdim=True)
    parts = td.cat([z, x[:, :1], y.sum(dim=0).expand(2, 3)], dim=1).split(2, dim=1)
    return parts[0] * 2.5, td.stack(parts[:2]).max(dim=0), x.reshape(-1)[2:5].clamp(min=0), td.where(x > 0, x, -1.0).mean()


def writes(x):
    y = x.clone()
    y[0] = 5
    y[:, 1] += 2
    y[1, 1:] = td.tensor([7.0, 8.0])
    y.clamp_(max=6).mul_(td.tensor(0.5))
    with td.no_grad():
        z = td.zeros(3)
        z.copy_(y[0])
        td.add(z, 1, out=z)
        y.t()[0].fill_(-1)
    y[y < 0] = 0
    return y, z, y.view(-1)[0]


def trees(xs, d):
    return {"sum": xs[0] + xs[1], 3: [d["w"], Pair(xs[0], (d["b"],))]}


def made(x):
    return x + td.arange(3) + td.ones(3) * td.tensor(2.0) + td.tensor([1.0, 2.0, 3.0])


X, Y = [[0.5, -1.0, 2.0], [3.0, 0.25, -4.0]], [[1.0, 2.0, -0.5], [0.0, 1.5, 1.0]]


@pytest.mark.parametrize("function, inputs, others", [
    (ops, (X, Y), (Y, X)), (writes, (X,), (Y,)), (made, (X,), (Y,)),
    (trees, ([X, Y], {"w": X, "b": Y}), ([Y, Y], {"w": Y, "b": X})),
    (lambda x: td.diff(td.nn.functional.gelu(x)), (X,), (Y,)), (td.relu, (X,), (Y,))])
def test_functions(function, inputs, others):
    def tensors(value):
        if isinstance(value, dict):
            return {k: tensors(v) for k, v in value.items()}
        return [tensors(v) for v in value] if isinstance(value[0][0], list) else td.tensor(value)

    given, more = [tuple(map(tensors, v)) for v in (inputs, others)]
    p = td.jit.trace(function, given)
    assert same(p(*given), function(*given))
    assert same(p(*more), function(*more))


def test_gradients_and_shared_parameters():
    td.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    p = td.jit.trace(net, (td.randn(5, 3),))
    assert [n for n, _ in p.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert '= "2.bias"' in p.graph
    x = td.randn(7, 3, requires_grad=True)
    ours, theirs = [td.autograd.grad(f(x).square().sum(), [x, *net.parameters()]) for f in (p, net)]
    assert [g.tolist() for g in ours] == [g.tolist() for g in theirs]
    optimizer = td.optim.SGD(p.parameters(), lr=0.1)
    before = p(x).tolist()
    p(x).sum().backward()
    optimizer.step()
    assert p(x).tolist() == net(x).tolist() != before
    again = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    p.load_state_dict(again.state_dict())
    assert p(x).tolist() == again(x).tolist()
    assert nn.Sequential(p, nn.ReLU())(x).shape == (7, 2)
    assert repr(p) == "<tensord.jit.TracedModule of Sequential>"


def test_a_network_with_state():
    td.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(18, 3))
    x = td.randn(4, 1, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = td.jit.trace(net, x)  # the same numbers are drawn for both
    mean = net[1].running_mean.tolist()
    p(x)
    assert net[1].running_mean.tolist() != mean
    net.eval()
    q = td.jit.trace(net, x)
    assert q(x).tolist() == net(x).tolist()
    assert q.train() is q and "rng=0" in p.graph and "td::bernoulli" not in q.graph


def test_modes_are_those_of_then():
    w = td.tensor([2.0], requires_grad=True)

    def f(x):
        with td.no_grad():
            y = x * w
        return y + w * x.detach()

    x = td.tensor([3.0], requires_grad=True)
    f_x = td.jit.trace(f, x)(x)
    f_x.backward()
    assert w.grad.tolist() == [3.0] and x.grad is None


def test_what_it_does_not_follow_is_told():
    def f(x):
        if x.sum() > 0:
            return x * x.max().item()
        return x

    _, line = inspect.getsourcelines(f)
    with pytest.warns(td.jit.TracerWarning, match="becomes a constant") as told:
        p = td.jit.trace(f, td.tensor([1.0, 2.0]))
    assert [(w.filename, w.lineno) for w in told] == [(__file__, line + 1), (__file__, line + 2)]
    assert p(td.tensor([-1.0, -2.0])).tolist() == [-2.0, -4.0]
    with pytest.warns(td.jit.TracerWarning), pytest.raises(td.jit.TracingCheckError, match="Graphs differed across invocations") as told:
        td.jit.trace(f, td.tensor([1.0, 2.0]), check_inputs=[td.tensor([-1.0, -2.0])])
    assert "-   return (%x)" in str(told.value) or "+   return (%x)" in str(told.value)
    for look in (td.Tensor.tolist, td.Tensor.numpy, bool, float):
        with pytest.warns(td.jit.TracerWarning):
            td.jit.trace(lambda x: (x * 2, look(x.sum()))[0], td.tensor([1.0, 2.0]))


def test_warnings_show_the_line_of_a_file_with_a_long_path(tmp_path):
    """A call site keeps 75 characters of a path; the line is to be shown all the same, of a program and of a module it imports."""
    place = tmp_path / ("a-long-name-of-a-folder-" * 4)
    place.mkdir()
    (place / "looks.py").write_text("def f(x):\n    return x * x.max().item()  # the module's\n")
    (place / "main.py").write_text("import tensord as td, looks\ntd.jit.trace(looks.f, td.ones(2))\n"
                                   "td.jit.trace(lambda x: x * x.min().item(), td.ones(2))  # the program's\n")
    said = subprocess.run([sys.executable, place / "main.py"], capture_output=True, text=True, check=True).stderr
    for file, line, text in ("looks", 2, "return x * x.max().item()  # the module's"), ("main", 3, "# the program's"):
        assert f"{place / file}.py:{line}: TracerWarning" in said and text in said


def test_checks():
    calls = []

    def counted(x):
        calls.append(x)
        return x * len(calls)

    td.jit.trace(counted, td.ones(1), check=False)
    td.jit.trace(counted, td.ones(1), check_trace=False)
    assert len(calls) == 2
    with pytest.raises(td.jit.TracingCheckError, match=r"\+ .*value=5"):
        td.jit.trace(counted, td.ones(1))

    kept = td.zeros(1)
    with pytest.warns(td.jit.TracerWarning, match="result 0 of the traced program is not that of the function.*something else each time"):
        td.jit.trace(lambda x: x * kept.add_(1), td.ones(1))
    x = td.ones(3)
    td.jit.trace(lambda x: x.add_(1), x)
    assert x.tolist() == [1, 1, 1]  # the examples stay as they are


def through_its_code(p, tmp_path, monkeypatch, **captured):
    """What script() makes of p.code."""
    (tmp_path / "written.py").write_text("import math\nimport tensord as td\n" + p.code)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("written", None)
    importlib.invalidate_caches()
    module = importlib.import_module("written")
    vars(module).update(captured)
    return td.jit.script(module.forward)


def test_code_is_a_program_again(tmp_path, monkeypatch):
    def loops(x, n: int, items: list[float]):
        total = 0.5
        for i in range(n):
            if i % 2 == 0:
                x = td.relu(x) + i
            elif x.sum() > 100:
                break
            for y in items:
                total += y * -1.5
            x = x * total
        while float(x.sum()) < 50 and n > 0:
            x = td.clamp(x * 2 + 1, max=40)
            n -= 1
        return x, n

    f = td.jit.script(loops)
    again = through_its_code(f, tmp_path, monkeypatch)
    for n in range(5):
        for start in (-1.0, 3.0):
            x = td.tensor([start, 2.0])
            assert same(again(x, n, [0.5, 2.0]), f(x, n, [0.5, 2.0]))

    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2), nn.Softmax(-1)).eval()
    p = td.jit.trace(net, td.randn(5, 3))
    again = through_its_code(p, tmp_path, monkeypatch, **{"_" + k.replace(".", "_"): v for k, v in net.state_dict().items()})
    x = td.randn(2, 3)
    assert same(again(x), p(x))
    x, y = td.tensor(X), td.tensor(Y)
    p = td.jit.trace(ops, (x, y))
    first, second, *rest = through_its_code(p, tmp_path, monkeypatch)(y, x)  # its results are flat
    assert same([first, *rest[1:]], [p(y, x)[k] for k in (0, 2, 3)])


def test_pictures(tmp_path):
    @td.jit.script
    def f(x, n: int):
        for i in range(n):
            if x.sum() > i:
                x = x * 2
            else:
                x = -x
        return x

    p = td.jit.trace(nn.LSTM(3, 4), td.randn(3, 1, 3))
    for program in (f, p, td.jit.script(nn.Linear(2, 2))):
        tree = ElementTree.fromstring(program.svg(tmp_path / "p.svg"))
        assert (tmp_path / "p.svg").read_text() == program._repr_svg_()
        boxes = [e for e in tree.iter() if e.tag.endswith("rect")]
        nodes = [line for line in str(program.graph).splitlines() if ("td::" in line or "prim::" in line) and "prim::Constant" not in line]
        assert len(boxes) > len(nodes)
        spots = [tuple(float(e.get(k)) for k in ("x", "y", "width", "height")) for e in boxes]
        for k, (x, y, w, h) in enumerate(spots):  # within the picture, and none over another
            assert 0 <= x and x + w <= float(tree.get("width")) and 0 <= y and y + h <= float(tree.get("height"))
            assert not any(x < u + v and u < x + w and y < t + r and t < y + h for u, t, v, r in spots[:k])
        assert program.dot().count("[label=") == len(boxes)
        if shutil.which("dot"):
            assert "</svg>" in subprocess.run(["dot", "-Tsvg"], input=program.dot(), text=True, capture_output=True, check=True).stdout


def test_refusals():
    x = td.tensor([1.0, 2.0], requires_grad=True)

    def steps(x):
        x.sum().backward()
        return x * 2

    line = steps.__code__.co_firstlineno + 1
    with pytest.raises(td.Unsupported, match=rf"(?s)a backward cannot be part of a program.*asked for at .*test_trace.py:{line}"):
        td.jit.trace(steps, x)
    with pytest.raises(TypeError, match="inputs of a trace are Tensors, .* not int"):
        td.jit.trace(lambda x, n: x * n, (x, 3))
    with pytest.raises(TypeError, match="results of a trace are Tensors, .* not int"):
        td.jit.trace(lambda x: (x, 3), x)
    with pytest.raises(TypeError, match="a function or a module, not int"):
        td.jit.trace(3, x)
    with pytest.raises(ZeroDivisionError):
        td.jit.trace(lambda x: x / (1 // 0), x)
    p = td.jit.trace(lambda x: x * 2, x)  # what failed before is over
    with pytest.raises(TypeError, match=r"was traced with \(a Tensor\), and is given \(a Tensor, a Tensor\)"):
        p(x, x)
    assert td.jit.trace(p, x) is p
    with pytest.raises(td.Error, match="traces already"):
        td.jit.trace(lambda x: td.jit.trace(lambda y: y, x), x)
    assert repr(p).startswith("<tensord.jit.TracedFunction ")


def test_methods_and_keywords():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)

        def forward(self, x):
            return self.a(x)

        def twice(self, x, y):
            return self.a(self.a(x)) - y

    m, x, y = Two(), td.ones(1, 2), td.zeros(1, 2) + 1
    p = td.jit.trace_module(m, {"forward": x, "twice": (x, y)})
    assert p(x).tolist() == m(x).tolist()
    assert p.twice(x, y=y).tolist() == m.twice(x, y).tolist()
    assert "(%x : Tensor, %y : Tensor)" in p.twice.graph
    q = td.jit.trace(m.twice, (x, y))
    assert q(y=y, x=x).tolist() == m.twice(x, y).tolist() and '"a.weight"' in q.graph
    with pytest.raises(TypeError):
        td.jit.trace_module(m, {})


def test_programs_within_programs():
    class Gate(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x

    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.linear = td.jit.script(Gate()), nn.Linear(4, 4)

        def forward(self, x, h):
            h = td.tanh(self.gate(self.linear(x)) + h)
            return h, h

    @td.jit.script
    def several(xs: list[td.Tensor], pair: tuple[int, float], maybe: td.Tensor | None = None):
        y = xs[0] * pair[0] + pair[1]
        return [y, xs[1]], (y.sum(), maybe is None)

    cell = Cell()
    p = td.jit.trace(cell, (td.randn(3, 4), td.randn(3, 4)))
    assert str(p.graph).count("fn::program0(") == 1 and "prim::If" in p.graph
    for k in range(8):
        x, h = td.randn(3, 4), td.randn(3, 4)
        assert same(p(x, h), cell(x, h))  # either way of the gate

    def loop(xs, h):
        for i in range(3):
            h, _ = p(xs[i], h)
        return h

    q = td.jit.trace(loop, (td.randn(3, 3, 4), td.zeros(3, 4)))
    assert str(q.graph).count("= fn::program0(") == 3 and str(q.graph).count("fn program0(") == 1
    xs, h = td.randn(3, 3, 4), td.zeros(3, 4)
    assert same(q(xs, h), loop(xs, h)) and "def program0" in q.code
    cell.linear.bias.data.add_(1)
    assert same(q(xs, h), loop(xs, h))

    def uses(x):
        parts, (total, none) = several([x, x + 1], (2, 3.5))
        return parts[0] * total if none else x, parts[1]

    with pytest.warns(td.jit.TracerWarning, match="a result of a program"):
        r = td.jit.trace(uses, td.ones(2))
    assert same(r(h[0]), uses(h[0]))


def test_threads_trace_at_once():
    results = {}

    def work(k):
        p = td.jit.trace(lambda x: sum((x * i for i in range(k)), x), td.ones(2))
        results[k] = (p(td.ones(2)).tolist(), p.graph.count("td::mul"))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 9)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {k: ([1.0 + k * (k - 1) / 2] * 2, k) for k in range(1, 9)}


def test_nothing_stays():
    def once():
        w = td.ones(4)
        p = td.jit.trace(lambda x: (x + w).relu(), td.ones(4))
        p(td.ones(4)).tolist()
        with pytest.raises(KeyError):
            td.jit.trace(lambda x: {}[x + w], td.ones(4))

    once()
    before = at_rest()
    for _ in range(5):
        once()
    assert settles(before) == before


@pytest.mark.parametrize("lies", ["transposed", "stepped", "expanded"])
def test_an_example_lies_as_it_does(lies):
    """What is copied for its layout alone is copied by the program, too."""
    x = {"transposed": td.arange(6.0).reshape(2, 3).t(), "stepped": td.arange(12.0)[::2].reshape(2, 3)[:, 1:], "expanded": td.arange(3.0).expand(2, 3)}[lies]
    p = td.jit.trace(lambda t: (t.reshape(-1) + 1, t * 2), (x,))
    for ours, theirs in zip(p(x), (x.reshape(-1) + 1, x * 2)):
        assert ours.tolist() == theirs.tolist() and ours.stride() == theirs.stride()
