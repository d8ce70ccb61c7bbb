"""Modules as programs: what they compute, write and train is what the same module called as it stands does; what cannot be one is refused with its
place."""
import copy
import inspect
import threading
import typing

import pytest

import tensord as td
import tensord.nn.functional as F
from tensord import nn

td.manual_seed(5)


def values(out):
    return [values(x) for x in out] if isinstance(out, (tuple, list)) else out.tolist() if td.is_tensor(out) else out


def same(model, *inputs):
    """Results, gradients and state of two copies, one of them a program, in training and out of it."""
    for training in (True, False):
        ours, theirs = (copy.deepcopy(model).train(training) for _ in range(2))
        program = td.jit.script(ours)
        found = []
        for m in (program, theirs):
            given = [x.clone().requires_grad_() if td.is_tensor(x) and x.is_floating_point() else x for x in inputs]
            td.manual_seed(7)
            outs = m(*given)
            first = outs[0] if isinstance(outs, tuple) else outs
            grads = []
            if first.requires_grad:
                first.square().sum().backward()
                grads = [x.grad.tolist() for x in [*m.parameters(), *given] if td.is_tensor(x) and x.requires_grad and x.grad is not None]
            found.append((values(outs), grads, [x.tolist() for x in m.state_dict().values()]))
        assert found[0] == found[1]


IMAGES, ROWS, WORDS = td.randn(3, 4, 8, 8), td.randn(3, 4), td.tensor([[1, 0, 3], [2, 2, 0]])


@pytest.mark.parametrize("layer, x", [
    (nn.Linear(4, 2), ROWS), (nn.Linear(4, 2, bias=False), ROWS), (nn.Conv2d(4, 6, 3), IMAGES), (nn.Conv2d(4, 4, 3, 2, 1, 1, 2, bias=False), IMAGES),
    (nn.Conv2d(4, 2, (3, 5), padding="same"), IMAGES), (nn.Conv2d(4, 2, 3, padding="valid"), IMAGES), (nn.Conv2d(4, 2, 3), IMAGES[0]),
    (nn.Conv1d(8, 2, 3, padding=1), IMAGES[0]), (nn.BatchNorm2d(4), IMAGES), (nn.BatchNorm2d(4, affine=False), IMAGES),
    (nn.BatchNorm2d(4, track_running_stats=False), IMAGES), (nn.BatchNorm1d(4, momentum=None), ROWS), (nn.LayerNorm(8), IMAGES), (nn.LayerNorm((8, 8)), IMAGES),
    (nn.RMSNorm(8), IMAGES), (nn.GroupNorm(2, 4), IMAGES), (nn.Embedding(5, 3), WORDS), (nn.Embedding(5, 3, padding_idx=0), WORDS), (nn.PReLU(), ROWS),
    (nn.Dropout(0.4), ROWS), (nn.Dropout(0.0), ROWS), (nn.Flatten(), IMAGES), (nn.MaxPool2d(2), IMAGES), (nn.MaxPool2d((3, 2), 1, 1), IMAGES),
    (nn.MaxPool1d(2), IMAGES[0]), (nn.AvgPool2d(2), IMAGES), (nn.AvgPool1d(4, 2), IMAGES[0]), (nn.AdaptiveAvgPool2d(1), IMAGES),
    (nn.AdaptiveAvgPool2d((None, 4)), IMAGES), (nn.AdaptiveAvgPool1d(2), IMAGES[0]), (nn.ReLU(), ROWS), (nn.ReLU6(), ROWS), (nn.LeakyReLU(0.2), ROWS),
    (nn.ELU(), ROWS), (nn.SELU(), ROWS), (nn.CELU(), ROWS), (nn.GELU(), ROWS), (nn.GELU("tanh"), ROWS), (nn.SiLU(), ROWS), (nn.Mish(), ROWS),
    (nn.Sigmoid(), ROWS), (nn.LogSigmoid(), ROWS), (nn.Tanh(), ROWS), (nn.Tanhshrink(), ROWS), (nn.Softsign(), ROWS), (nn.Softplus(), ROWS),
    (nn.Softshrink(), ROWS), (nn.Hardshrink(), ROWS), (nn.Hardtanh(), ROWS), (nn.Hardsigmoid(), ROWS), (nn.Hardswish(), ROWS), (nn.GLU(), ROWS),
    (nn.Softmax(1), ROWS), (nn.LogSoftmax(-1), ROWS), (nn.Identity(), ROWS), (nn.LSTMCell(4, 3), ROWS), (nn.GRUCell(4, 3), ROWS), (nn.RNNCell(4, 3), ROWS),
    (nn.LSTM(4, 3), IMAGES[:, :, 0, :4]), (nn.LSTM(8, 3, 2, batch_first=True, bidirectional=True), IMAGES[0]), (nn.LSTM(4, 3, bias=False), ROWS),
    (nn.LSTM(8, 3), td.randn(70, 2, 8)), (nn.GRU(8, 3, 2, bidirectional=True), IMAGES[0]), (nn.GRU(4, 5, batch_first=True), ROWS.unsqueeze(0)),
    (nn.RNN(8, 3, 3), IMAGES[0]), (nn.RNN(8, 3, nonlinearity="relu", batch_first=True), IMAGES[0]), (nn.LSTM(8, 3, 2, dropout=0.4), IMAGES[0]),
    (nn.CosineSimilarity(), (ROWS, ROWS + 1)), (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 1), nn.Tanh())), ROWS)],
    ids=lambda v: repr(v).split("\n")[0] if isinstance(v, nn.Module) else "")
def test_layers(layer, x):
    same(layer, *(x if isinstance(x, tuple) else (x,)))


CUBES, BAG, BEGINS = td.randn(2, 2, 5, 5, 5), td.tensor([1, 2, 2, 4, 0, 3, 2, 1]), td.tensor([0, 3, 3, 5])
HIDDEN, SEEN = td.tensor([[False, True, False, False, False], [False] * 5]), td.randn(3, 5)
QUERY, KEYS, NARROW = td.randn(3, 2, 8), td.randn(5, 2, 8), td.randn(5, 2, 6)


@pytest.mark.parametrize("layer, x", [
    *[(nn.Conv2d(4, 6, 3, padding=p, padding_mode=mode, groups=2), IMAGES) for mode in ("reflect", "replicate", "circular") for p in (1, (2, 1), "same", "valid")],
    (nn.Conv1d(8, 6, 3, 2, 2, padding_mode="circular"), IMAGES[0]), (nn.Conv1d(8, 6, 4, padding="same", padding_mode="reflect"), IMAGES[0]),
    (nn.Conv3d(2, 3, 3, padding=1, padding_mode="replicate"), CUBES),
    *[(nn.EmbeddingBag(5, 3, mode=mode, padding_idx=k), given) for mode in ("sum", "mean", "max") for k in (None, 2, -1) for given in (WORDS, (BAG, BEGINS))],
    *[(nn.EmbeddingBag(5, 3, mode=mode, include_last_offset=True), (BAG, td.tensor([0, 3, 3, 5, 8]))) for mode in ("sum", "mean", "max")],
    (nn.EmbeddingBag(5, 3, max_norm=1.0), WORDS), (nn.EmbeddingBag(5, 3, scale_grad_by_freq=True), WORDS),
    (nn.EmbeddingBag(5, 3, mode="sum", padding_idx=1), (WORDS, None, td.randn(2, 3))), (nn.EmbeddingBag(5, 3, mode="sum"), (BAG, BEGINS, td.randn(8))),
    (nn.Embedding(5, 3, max_norm=0.5, norm_type=1.0, padding_idx=-1), WORDS), (nn.Embedding(5, 3, scale_grad_by_freq=True), WORDS),
    *[(norm(n, track_running_stats=True, affine=affine), x) for affine in (True, False) for norm, n, x in (
        (nn.InstanceNorm1d, 8, IMAGES[0]), (nn.InstanceNorm2d, 4, IMAGES), (nn.InstanceNorm2d, 4, IMAGES[0]), (nn.InstanceNorm3d, 2, CUBES))],
    (nn.InstanceNorm2d(4, momentum=None, track_running_stats=True), IMAGES),
    *[(nn.MultiheadAttention(8, 2, bias=bias, **more), (QUERY, KEYS, KEYS, HIDDEN, need, mask)) for bias, need, mask in ((True, True, None), (False, False, SEEN))
      for more in (dict(add_bias_kv=True), dict(add_zero_attn=True), dict(add_bias_kv=True, add_zero_attn=True, dropout=0.5))],
    (nn.MultiheadAttention(8, 2, kdim=6, vdim=6), (QUERY, NARROW, NARROW)), (nn.MultiheadAttention(8, 2, add_bias_kv=True), (QUERY[:, 0], KEYS[:, 0], KEYS[:, 0])),
    (nn.MultiheadAttention(8, 2, vdim=6, batch_first=True), tuple(x.transpose(0, 1) for x in (QUERY, KEYS, NARROW)))],
    ids=lambda v: repr(v).split("\n")[0] if isinstance(v, nn.Module) else "")
def test_layers_of_all_kinds(layer, x):
    same(layer, *(x if isinstance(x, tuple) else (x,)))


class Block(nn.Module):
    def __init__(self, width, factor):
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.factor = factor

    def forward(self, x):
        return x + self.helper(self.norm(F.gelu(self.linear(x))))

    def helper(self, x, times: int = 2):
        for _ in range(times):
            x = x * self.factor
        return x


class Net(nn.Module):
    shift = 0.25

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4, 0.5 + k) for k in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
        self.sizes, self.name, self.maybe = (1, 2), "net", None
        self.register_buffer("calls", td.zeros(1))
        self.register_buffer("last", td.zeros(4))

    def forward(self, x, pick: bool = True):
        self.calls += 1
        outs = []
        for i, block in enumerate(self.blocks):
            x = block(x) + i * self.shift
            outs.append(x)
        self.last = x[0].detach()
        y = self.heads["a"](x) if pick else self.heads["b"](x)
        if self.maybe is not None:
            y = y + self.maybe
        if self.training:
            y = y * self.sizes[1]
        more = [head(x) for head in self.heads.values()]
        for name, head in self.heads.items():
            if name == "a":
                y = y + head(x)
        return y, outs[-1], more[1], len(self.blocks), self.name

    @td.jit.export
    def first(self, x):
        return self.blocks[0](x) - self.blocks[-1](x)

    @td.jit.ignore
    def printed(self, x):
        return x.tolist()


def test_a_network():
    same(Net(), ROWS)
    net = Net()
    program = td.jit.script(net)
    assert values(program(ROWS, False)) == values(net(ROWS, pick=False)) and net.calls.tolist() == [2.0]
    assert program.first(ROWS).tolist() == net.first(ROWS).tolist()
    assert net.last.tolist() == program.last.tolist() and "fn::blocks_1_forward" in program.graph
    with pytest.raises(AttributeError):
        program.helper(ROWS)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.gru, self.out = nn.Embedding(5, 4), nn.LSTM(4, 3), nn.GRU(3, 3), nn.Linear(3, 2)

    def forward(self, words, h, c):
        x, (h, c) = self.lstm(self.embed(words), (h, c))
        x, last = self.gru(x, h)
        return self.out(x), last, c


def test_recurrent_layers_with_states():
    same(Recurrent(), WORDS, td.randn(1, 3, 3), td.randn(1, 3, 3))


class Early(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Identity(), nn.Tanh()])

    def forward(self, x, limit: float):
        for layer, k in zip(self.layers, [1, 2, 3]):
            x = layer(x) * k
            if float(x.sum()) > limit:
                return x
        return -x


@pytest.mark.parametrize("limit", [-1e9, -3.0, 0.0, 3.0, 1e9])
def test_a_way_out_of_a_loop_over_modules(limit):
    net = Early()
    for x in (ROWS, -ROWS, ROWS * 4):
        assert td.jit.script(net)(x, limit).tolist() == net(x, limit).tolist()


def test_it_is_the_same_module():
    net = Net()
    program = td.jit.script(net)
    assert isinstance(program, td.jit.ScriptModule) and isinstance(program, nn.Module)
    assert [n for n, _ in program.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert list(program.state_dict()) == list(net.state_dict())
    program.eval()
    assert not net.training and not net.blocks[0].norm.training and not program.training
    assert td.jit.script(program) is program
    steps = []
    for m in (program, net):
        net.load_state_dict({k: td.ones_like(v) * 0.1 for k, v in net.state_dict().items()})
        optimizer = td.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            m(ROWS)[0].square().sum().backward()
            optimizer.step()
        steps.append(values(list(net.parameters())))
    assert steps[0] == steps[1]


def test_what_changes_is_seen():
    net = nn.Linear(2, 2, bias=False)
    program, x = td.jit.script(net), td.ones(1, 2)
    net.weight = nn.Parameter(td.ones(2, 2))
    assert program(x).tolist() == [[2.0, 2.0]]
    net.double()
    assert program(x.double()).dtype is td.float64
    with td.no_grad():
        net.weight.fill_(3)
    assert program(x.double()).tolist() == [[6.0, 6.0]]


def test_a_copy_is_another_one():
    program = td.jit.script(nn.Linear(2, 2))
    other = copy.deepcopy(program)
    with td.no_grad():
        other.weight.fill_(0)
    assert program(td.ones(1, 2)).tolist() != other(td.ones(1, 2)).tolist()


# ---- the tutorial of TorchScript


class MyDecisionGate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        else:
            return -x


class MyCell(nn.Module):
    def __init__(self, dg):
        super(MyCell, self).__init__()
        self.dg = dg
        self.linear = nn.Linear(4, 4)

    def forward(self, x, h):
        new_h = td.tanh(self.dg(self.linear(x)) + h)
        return new_h, new_h


class MyRNNLoop(nn.Module):
    def __init__(self, scripted_gate):
        super(MyRNNLoop, self).__init__()
        self.cell = td.jit.script(MyCell(scripted_gate))

    def forward(self, xs):
        h, y = td.zeros(3, 4), td.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class WrapRNN(nn.Module):
    def __init__(self):
        super(WrapRNN, self).__init__()
        self.loop = td.jit.script(MyRNNLoop(td.jit.script(MyDecisionGate())))

    def forward(self, xs):
        y, h = self.loop(xs)
        return td.relu(y)


def test_the_tutorial():
    xs = td.randn(10, 3, 4)
    same(WrapRNN(), xs)
    scripted = td.jit.script(WrapRNN())
    assert "prim::Loop" in scripted.graph and "prim::If" in scripted.graph


def test_the_tutorial_as_in_pytorch():
    torch = pytest.importorskip("torch")
    ours, xs = WrapRNN(), td.randn(10, 3, 4)
    linear = ours.loop.cell.linear
    theirs = torch.nn.Linear(4, 4)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(linear.weight.tolist()))
        theirs.bias.copy_(torch.tensor(linear.bias.tolist()))

    class Gate(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            else:
                return -x

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dg, self.linear = torch.jit.script(Gate()), theirs

        def forward(self, x, h):
            new_h = torch.tanh(self.dg(self.linear(x)) + h)
            return new_h, new_h

    cell, h = torch.jit.script(Cell()), torch.zeros(3, 4)
    for x in torch.tensor(xs.tolist()):
        y, h = cell(x, h)
    got = td.jit.script(ours)(xs).tolist()
    assert torch.allclose(torch.tensor(got), torch.relu(y), rtol=1e-5, atol=1e-6)


# ---- refusals


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.layers, self.odd = Net(), nn.ModuleList([nn.Identity()]), object()


class Ignored(Calls):
    def forward(self, x):
        return self.net.printed(x)


class Unknown(Calls):
    def forward(self, x):
        return x + self.odd


class ByIndex(Calls):
    def forward(self, x, k: int):
        return self.layers[k](x)


class Inside(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Counts(nn.Module):
    last: td.Tensor | None

    def __init__(self):
        super().__init__()
        self.count, self.on, self.name, self.pair, self.table, self.last, self.inner = 0, False, "a", (1, 2.0), {"a": 1}, None, Inside()
        self.seen: list[float] = []

    def forward(self, x):
        self.count += 1
        self.on = not self.on
        self.name += "b" if self.last is None else "c"
        for k in range(self.count):
            if k == self.count - 1:
                self.seen.append(float(k))
        self.table[self.name] = self.count
        self.pair = (self.count, 0.5)
        last = self.last
        if last is not None:
            x = x + last
        self.last = x
        self.inner.calls += 1
        return self.inner(x) * self.count, self.seen, self.name

    @td.jit.export
    def reset(self):
        self.count, self.last = 0, None
        self.seen.clear()


class Breaks(Calls):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            break
        return x


class AsValue(Calls):
    def forward(self, x):
        return x + self.net


class WritesNew(Calls):
    def forward(self, x):
        self.level = 3
        return x


class WritesNothing(Calls):
    def __init__(self):
        super().__init__()
        self.level = None

    def forward(self, x):
        self.level = 3
        return x


class WritesMode(Calls):
    def forward(self, x):
        self.training = False
        return x


class WritesOther(Counts):
    def forward(self, x):
        self.count = 1.5
        return x


class WritesNumbers(Calls):
    def __init__(self):
        super().__init__()
        self.register_buffer("level", td.zeros(1))

    def forward(self, x):
        self.level = 3
        return x


@pytest.mark.parametrize("net, line, column, text", [
    (WritesNew, 1, 9, "the module has no attribute 'level' to write; set it in __init__()"),
    (WritesNothing, 1, 9, "the type of the attribute 'level' is not known, and it is written: say it in the class, 'level: list[int]'"),
    (WritesMode, 1, 9, "a program writes attributes of modules: tensors, numbers, texts, lists and dicts of such"),
    (WritesOther, 1, 9, "this is a float, and an int is wanted"),
    (Ignored, 1, 16, "'printed' is ignored by programs; call it outside, and give its result as an argument"),
    (Unknown, 1, 20, "a program knows no object as an attribute, which 'odd' is; give it as an argument"),
    (ByIndex, 1, 28, "the index of modules is written here, as they are of different kinds; or go over all by 'for'"),
    (Breaks, 3, 13, "a loop over modules, or over a tuple of different types, goes over all of them; write 'if'"),
    (AsValue, 1, 20, "'net' is a module; a program can only call it"),
    (WritesNumbers, 1, 9, "'level' is a tensor, which is written with tensors; return the value")])
def test_refusals(net, line, column, text):
    at = net.forward.__code__.co_firstlineno + line
    with pytest.raises(td.Error) as e:
        td.jit.script(net())
    assert str(e.value).startswith(f"test_script_modules.py:{at}:{column}: {text}\n")


def test_attributes_that_are_written(tmp_path):
    plain, kept = Counts(), Counts()
    program = td.jit.script(kept)
    for k in range(3):
        assert values(program(ROWS + k)) == values(plain(ROWS + k))
        assert all(values(getattr(m, n)) == values(getattr(plain, n)) for m in (kept, program) for n in ("count", "on", "name", "seen", "table", "pair", "last"))
        assert kept.inner.calls == plain.inner.calls == 2 * k + 2
    program.save(str(tmp_path / "counts.td"))
    loaded = td.jit.load(str(tmp_path / "counts.td"))
    assert values(loaded(ROWS)) == values(program(ROWS)) == values(plain(ROWS)) and loaded.count == kept.count == 4
    program.reset()
    assert (kept.count, kept.seen, kept.last, loaded.count, len(loaded.seen)) == (0, [], None, 4, 4)
    loaded.save(str(tmp_path / "again.td"))
    again = td.jit.load(str(tmp_path / "again.td"))
    again.reset()
    assert (again.count, again.seen, again.last, loaded.count) == (0, [], None, 4)
    kept.count = 7.5
    with pytest.raises(td.DTypeError, match="'count'.* is int, and float is given"):
        program(ROWS)


class Grows(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept, self.sizes, self.linear = td.zeros(0), [2, 6], nn.Linear(4, 4)

    def scaled(self, x, sizes: list[int]):
        return x.reshape(sizes) * sizes[0]

    def forward(self, x):
        before = self.kept
        self.kept = td.cat([self.kept, x.sum().reshape(1)])
        return before, self.kept, reshaped(self.linear(x), self.sizes) + self.scaled(x, self.sizes)


def reshaped(x, sizes: list[int]):
    return x.reshape(sizes)


def test_tensors_that_are_no_buffers_are_bound_anew(tmp_path):
    kept, plain = Grows(), Grows()
    plain.load_state_dict(kept.state_dict())
    program = td.jit.script(kept)
    for _ in range(3):
        assert values(program(ROWS)) == values(plain(ROWS)) and values(kept.kept) == values(plain.kept)
    program.save(str(tmp_path / "grows.td"))
    loaded = td.jit.load(str(tmp_path / "grows.td"))
    for _ in range(2):
        assert values(loaded(ROWS)) == values(plain(ROWS)) and values(loaded.kept) == values(plain.kept) and len(kept.kept) == 3
    loaded.save(str(tmp_path / "again.td"))
    assert values(td.jit.load(str(tmp_path / "again.td"))(ROWS)) == values(plain(ROWS))
    assert list(program.state_dict()) == list(loaded.state_dict()) == list(plain.state_dict())


def test_frozen_modules_go_on_with_attributes_that_are_written(tmp_path):
    for make in (Counts, Grows):
        kept, plain = make().eval(), make().eval()
        plain.load_state_dict(kept.state_dict())
        values(kept(ROWS)), values(plain(ROWS))
        frozen = td.jit.freeze(td.jit.script(kept), optimize_numerics=False)
        for _ in range(3):
            assert values(frozen(ROWS)) == values(plain(ROWS))
        frozen.save(str(tmp_path / "frozen.td"))
        again = td.jit.freeze(td.jit.load(str(tmp_path / "frozen.td")))
        assert values(again(ROWS)) == values(plain(ROWS))
    assert len(kept.kept) == 1 and list(frozen.state_dict()) == []


def test_attributes_of_a_module_that_a_function_calls():
    kept = Counts()

    @td.jit.script
    def twice(x):
        return kept(x)[0] + kept(x)[0]

    plain = Counts()
    assert twice(ROWS).tolist() == (plain(ROWS)[0] + plain(ROWS)[0]).tolist() and kept.count == 2 and kept.seen == plain.seen


def test_attributes_of_a_published_program():
    kept = Counts()
    td.jit.script(kept).publish("counts")
    opened = td.jit.open("counts")
    states = {"calls": 0, "count": 5, "last": None, "name": "a", "on": False, "pair": (1, 2.0), "seen": [], "table": {"a": 1}}
    result, now = opened(ROWS, *(states[name] for name in opened._names[1:]))
    now = dict(zip(opened._names[1:], now))
    del now["last"]
    assert now == {"calls": 2, "count": 6, "name": "ab", "on": True, "pair": (6, 0.5), "seen": [5.0], "table": {"a": 1, "ab": 6}} and kept.count == 0


def push(at: list[int], item: int):
    at.append(item)


class Mixed(nn.Module):
    def __init__(self, scales):
        super().__init__()
        self.scales, self.by_name, self.deep = scales, {"a": 1, "b": 0.5}, [[1, 0.5], [2.0]]

    def forward(self, x):
        s, d, deep = self.scales, self.by_name, self.deep
        deep[1].append(3.0)
        d["b"] += 1
        return x * s[0] * d["a"]


def test_lists_of_ints_and_floats_are_of_floats():
    plain, kept = Mixed([2, 0.5]), Mixed([2, 0.5])
    program = td.jit.script(kept)
    for _ in range(2):
        assert values(program(ROWS)) == values(plain(ROWS)) and (kept.scales, kept.by_name, kept.deep) == (plain.scales, plain.by_name, plain.deep)
    with pytest.raises(td.Error, match="the type of the attribute 'scales' is not known, and it may be written where it has another name or is handed on: say it in the class, 'scales: list"):
        td.jit.script(Mixed([]))


class Pair(typing.NamedTuple):
    items: list[int]
    n: int


class Lists(nn.Module):
    """Its attributes are lists and dicts; forward() is one of the functions below."""

    table: dict[str, int]
    names: dict[int, list[int]]
    pair: "Pair"

    def __init__(self):
        super().__init__()
        self.hist, self.deep, self.pairs, self.table, self.names, self.n = [1, 2], [[1], [2, 3]], ([1], 5), {}, {}, 0
        self.inner, self.pair = Inside(), Pair([1], 2)

    def grow(self, item: int):
        self.hist.append(item)

    def mine(self):
        return self.hist


def named(self, x):
    h = self.hist
    h.append(5)
    return x * len(self.hist)


def given(self, x):
    push(self.hist, 7)
    push(self.pairs[0], 8)
    return x * self.hist[0]


def over(self, x):
    for k in self.deep:
        k.append(2)
    for n, k in enumerate(self.deep):
        k.append(n)
    return x * self.deep[0][0]


def item(self, x):
    k = self.deep[1]
    k.append(2)
    self.deep[0][0] += 1
    return x


def some(self, x):
    for k in self.deep[1:]:
        k.insert(0, 9)
    return x


def result(self, x):
    self.mine().append(3)
    h = self.mine()
    h.append(len(self.hist))
    return x


def chosen(self, x):
    h = self.hist if x.sum() > -1e9 else self.deep[0]
    h.append(6)
    return x


def held(self, x):
    both = [self.hist, self.deep[0]]
    for k in both:
        k.append(6)
    return x


def by_name(self, x):
    getattr(self, "hist").append(4)
    (a, b) = self.deep
    b.append(5)
    return x


def empty(self, x):
    self.table["a"] = self.table.get("a", 0) + 1
    self.names[3] = [len(self.names)]
    return x * len(self.table)


def with_annotation(self, x):
    h: list[int] = self.hist
    h += [3]
    self.grow(2)
    return x


def field(self, x):
    self.pair.items.append(3)
    k = self.pair.items
    k.append(4)
    return x * len(self.pair.items)


def inside(self, x):
    def add(n: int):
        self.hist.append(n)
    add(3)
    [k.append(1) for k in self.deep]
    td.jit.annotate(list[int], self.hist).append(8)
    return x


def written(self, x):
    self.deep[0][0] = 5
    self.hist += [3]
    del self.hist[0]
    self.deep[1:][0].append(6)
    return x


LISTS = "pair", "hist", "deep", "pairs", "table", "names", "n"


def made(forward):
    return type("With", (Lists,), {"forward": forward, "__module__": __name__})()


@pytest.mark.parametrize("forward", [named, given, over, item, some, result, chosen, held, by_name, empty, with_annotation, field, inside, written], ids=lambda f: f.__name__)
def test_lists_that_are_changed_anyhow(forward):
    plain, kept = made(forward), made(forward)
    program = td.jit.script(kept)
    for k in range(3):
        assert values(program(ROWS)) == values(plain(ROWS))
        assert [getattr(kept, name) for name in LISTS] == [getattr(plain, name) for name in LISTS], k
    assert [getattr(plain, name) for name in LISTS] != [getattr(Lists(), name) for name in LISTS]


def reads(self, x):
    n = len(self.hist) + self.hist[0] + self.deep[1][0] + len(self.deep[0]) + sum(self.hist) + max(self.deep[0])
    for k in self.hist:
        n += k
    for j, k in enumerate(self.hist):
        n += k * j
    a, b = self.hist
    if 2 in self.hist and self.hist == [1, 2] and self.table is not None:
        n += a + b
    y = x.reshape(-1)
    shape = y.shape
    return td.zeros(self.hist) + x.new_ones(self.hist) + x.sum() * n + shape[0] + len([k for k in self.hist]), [*self.hist, 3]


def test_lists_that_are_read_stay_constants():
    kept = made(reads)
    kept.table, kept.shape = {"a": 1}, [4]
    program = td.jit.script(kept)
    assert [slot.name for slot in program._methods["forward"]._world.states.slots] == ["inner.calls"] and values(program(ROWS)) == values(made(reads)(ROWS))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = [1]
        self.b = self.a

    def forward(self, x):
        self.a.append(2)
        self.b.append(3)
        return x * len(self.b)


class TwiceAssigned(Twice):
    def forward(self, x):
        self.a = [len(self.b)]
        return x


class TwiceInside(Twice):
    def __init__(self):
        super().__init__()
        self.b = [self.a]

    def forward(self, x):
        self.b[0].append(5)
        return x * len(self.a)


class TwiceApart(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Twice(), Twice()
        self.two.a = self.two.b = self.one.a

    def forward(self, x):
        return self.one(x) + self.two(x)


def test_lists_under_two_names(tmp_path):
    for kind in Twice, TwiceApart:
        plain, kept = kind(), kind()
        program = td.jit.script(kept)
        for _ in range(3):
            assert values(program(ROWS)) == values(plain(ROWS))
        a, b = (kept.a, kept.b) if kind is Twice else (kept.one.a, kept.two.b)
        assert a is b and a == (plain.a if kind is Twice else plain.one.a)
    program.save(str(tmp_path / "twice.td"))
    assert values(td.jit.load(str(tmp_path / "twice.td"))(ROWS)) == values(plain(ROWS))
    for kind in TwiceAssigned, TwiceInside:
        with pytest.raises(td.Error, match="the attributes 'a' and 'b' hold one list, and it or one of them is written: give each its own"):
            td.jit.script(kind())


class Named(nn.Module):
    """An attribute by the same name as one that another module writes."""

    def __init__(self):
        super().__init__()
        self.n, self.seen, self.writer, self.reader = 3, [1], Lists(), Inside()
        self.writer.n = 0

    def forward(self, x):
        self.writer.n += 1
        self.writer.hist.append(1)
        self.reader.calls += 1
        return x * self.n * len(self.seen)


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.hist, self.calls, self.named = 2, [1, 2], [1], Named()

    def forward(self, x):
        return self.named(x) * self.n * self.hist[0] * len(self.calls)


def test_only_attributes_that_are_meant_are_states():
    plain, kept = Reads(), Reads()
    program = td.jit.script(kept)
    for _ in range(2):
        assert values(program(ROWS)) == values(plain(ROWS))
    assert sorted(slot.name for slot in program._methods["forward"]._world.states.slots) == ["named.reader.calls", "named.writer.hist", "named.writer.inner.calls", "named.writer.n"]
    assert kept.named.writer.n == 2 and kept.named.reader.calls == 2


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Inside(), Inside()])
        self.calls = 7

    def forward(self, x):
        for layer in self.layers:
            layer.calls += 1
        first = self.layers[0]
        first.calls += 1
        self.layers[1].calls += 1
        return x * self.layers[0].calls


def test_attributes_by_paths_that_are_not_known():
    plain, kept = Loops(), Loops()
    program = td.jit.script(kept)
    assert values(program(ROWS)) == values(plain(ROWS)) and [m.calls for m in kept.layers] == [2, 2] and kept.calls == 7


class Adds(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n = self.n + 1
        return x

    @td.jit.export
    def back(self, by: int):
        self.n -= by


def from_threads(calls):
    threads = [threading.Thread(target=lambda: [calls() for _ in range(50)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def test_attributes_that_threads_write(tmp_path):
    kept = Adds()
    program, other = td.jit.script(kept), td.jit.script(kept)
    program.save(str(tmp_path / "adds.td"))
    loaded = td.jit.load(str(tmp_path / "adds.td"))
    from_threads(lambda: (program(ROWS), other(ROWS), program.back(1)))
    assert kept.n == 200
    from_threads(lambda: loaded(ROWS))
    assert loaded.n == 200

    @td.jit.script
    def calls(x):
        return kept(x)

    from_threads(lambda: (calls(ROWS), program(ROWS)))
    assert kept.n == 600


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.hist = 0, [1]

    def forward(self, x, well: bool):
        self.n += 1
        self.hist.append(2)
        assert well, "as asked"
        return x


def test_what_a_call_wrote_before_it_failed_is_not_kept():
    kept = Fails()
    program = td.jit.script(kept)
    with pytest.raises(td.Error, match="as asked"):
        program(ROWS, False)
    assert (kept.n, kept.hist) == (0, [1])
    program(ROWS, True)
    assert (kept.n, kept.hist) == (1, [1, 2])


class EmptyDict(Lists):
    def __init__(self):
        super().__init__()
        self.other = {}

    def forward(self, x):
        self.other["a"] = 1
        return x


def test_empty_dicts_have_the_type_that_is_said():
    with pytest.raises(td.Error, match=r"the type of the attribute 'other' is not known, and it is written: say it in the class, 'other: dict\[str, int\]'"):
        td.jit.script(EmptyDict())


class Helpers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.none = nn.Linear(4, 4), None
        self.shares, self.places, self.tables = {"a": 1.5, "b": 2.0}, {3: [1, 2], 4: [5]}, {"w": td.ones(4), "v": ROWS}

    @staticmethod
    def twice(x, times: int = 2):
        return x * times

    def forward(self, x):
        if hasattr(self, "absent"):
            x = self.absent(x)
        if hasattr(self, "linear") and hasattr(self, "none"):
            x = self.linear(x)
        for name, share in self.shares.items():
            x = x + len(name) * share
        x = x * self.tables["w"] + self.tables["v"]
        return self.twice(x) + self.twice(x, times=3), self.shares["b"], self.places[3][1], 4 in self.places, sorted(self.tables.keys()), hasattr(self, "absent"), not hasattr(self, "linear")


class Properties(nn.Module):
    eps = 1e-3

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @property
    def twice(self) -> float:
        return self.eps * 2

    @property
    def weight(self):
        return self.linear.weight

    @property
    def device(self):
        return self.weight.device

    def forward(self, x):
        w = self.weight
        if self.twice > 1.0:
            x = x * 0
        return self.linear(x) + self.twice + self.eps + w.sum(), self.weight.shape[0], td.zeros(2, device=self.device), self.weight @ x.t()


def test_static_methods_dicts_hasattr_and_properties():
    same(Helpers(), ROWS)
    same(Properties(), ROWS)


def test_hooks_are_refused():
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda *a: None)
    other = td.nn.Linear(1, 1)
    other.register_full_backward_hook(lambda *a: None)
    with pytest.raises(TypeError, match="hooks of the module 'Linear'"):
        td.jit.script(other)
    with pytest.raises(TypeError, match="hooks of the module 'Linear'"):
        td.jit.script(net)
    with pytest.raises(TypeError, match="a function or a module, not type"):
        td.jit.script(nn.Linear)
    assert inspect.ismodule(td.jit) and td.jit.is_scripting() is False
