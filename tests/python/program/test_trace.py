"""Traces from Python: programs of functions and modules do what these did, with all of their forms; parameters stay shared; what a program does
not follow is told with its line; and nothing stays behind."""
import collections
import copy
import importlib
import inspect
import math
import pickle
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


def told(function, example):
    """A program of it, and how many warnings there were."""
    with warnings.catch_warnings(record=True) as all_told:
        warnings.simplefilter("always")
        program = td.jit.trace(function, (example,))
    return program, [w for w in all_told if w.category is td.jit.TracerWarning]


def unpacked(x):
    b, t, d = x.shape
    return x.reshape(b * t, d).view(b, t, d).permute(1, 0, 2).reshape(t, b * d)


def masked_attention(x):
    b, t, d = x.size()
    q = x.view(b, t, 2, d // 2).transpose(1, 2)
    weights = q @ q.transpose(-2, -1) * (d // 2) ** -0.5
    seen = td.tril(td.ones(t, t)).view(1, 1, t, t)
    weights = weights.masked_fill(seen == 0, float("-inf")).softmax(-1)
    return (weights @ q).transpose(1, 2).contiguous().view(b, t, d)


def places(x):
    angles = td.arange(x.size(1)).unsqueeze(1) * td.exp(td.arange(0, x.size(2), 2).float() * (-4.0 / x.size(2)))
    made = td.zeros(x.size(1), x.size(2))
    made[:, 0::2] = td.sin(angles)
    made[:, 1::2] = td.cos(angles)
    return x + made


def written_by_sizes(x):
    y = td.zeros(x.size(0), x.size(1) + 2, x.size(2))
    y[:, 1:x.size(1) + 1] = x
    y[:, -1] = x.size(1)
    y[0].fill_(x.size(2))
    y[:, x.size(1)] += 1
    return y


def in_place(x):
    y = x.clone()
    y.zero_()
    y.add_(1)
    z = y.clone().fill_(3)
    return y, z.copy_(td.arange(x.shape[2]))


F = nn.functional
BY_SIZES = {
    "arange": lambda x: td.arange(1, x.shape[1] + 1, 2), "linspace": lambda x: td.linspace(0, 1, x.size(1)), "view": lambda x: x.view(x.size(0), -1), "view of two": lambda x: x.view(x.size(0) * x.size(1), x.size(2)),
    "reshape": lambda x: x.transpose(0, 1).reshape(x.size(1), -1), "zeros": lambda x: td.cat([x, td.zeros(x.size(0), 1, x.size(2))], 1), "full": lambda x: td.full((x.size(1),), x.size(0)), "eye": lambda x: td.eye(x.size(1), x.size(2)),
    "new": lambda x: x.new_full((x.size(0),), 2.5), "like": lambda x: (td.zeros_like(x), td.ones_like(x), td.full_like(x, 3.0), td.rand_like(x) * 0, td.empty_like(x).fill_(2)), "randint": lambda x: td.randint(0, 5, (x.size(1),)) * 0,
    "half": lambda x: x[:, :x.size(1) // 2], "last": lambda x: x[:, x.size(1) - 1], "step": lambda x: x[:, ::x.size(1) // 2], "narrow": lambda x: x.narrow(1, 1, x.size(1) - 1), "select": lambda x: x.select(1, x.size(1) - 1),
    "mean": lambda x: x.sum(1) / x.shape[1], "numel": lambda x: x.sum() / x.numel(), "numel of a Size": lambda x: x.sum() / x.shape.numel(), "whole arithmetic": lambda x: x * (-x.size(1) % 3 + x.size(2) // 2 + divmod(x.size(1), 2)[1] + (x.size(0) << 1 | 1)),
    "floats": lambda x: x * x.size(2) ** -0.5 + 1 / x.size(1) + abs(x.size(1) - 7.5), "rounded": lambda x: x * round(x.size(1) / 4) + math.ceil(x.size(1) / 3) - math.floor(x.size(2) / 3), "product": lambda x: x * math.prod(x.shape) + sum(x.shape), "backwards": lambda x: x.size(1) - x,
    "full of a float": lambda x: (td.full((2,), x.size(1) / 2), td.full((), 1.0 * x.size(0))), "arange of floats": lambda x: td.arange(0, 4 * (x.size(1) / x.size(1))) * x.size(1),
    "alpha": lambda x: td.add(x, x, alpha=x.size(1)), "tensor": lambda x: x * td.tensor(x.size(1)), "tensors": lambda x: td.tensor([[x.size(0), 1], [2, x.size(1)]], dtype=td.float32), "of a float": lambda x: td.tensor(x.size(1) / 2), "clamp": lambda x: (x * 10).clamp(0, x.size(1)),
    "where": lambda x: td.where(x > 0, x, x.size(1) * 1.0), "compared": lambda x: td.arange(10) < x.size(1), "chunk": lambda x: x.chunk(2, 1), "split": lambda x: x.split(x.size(1) // 2, 1), "split by list": lambda x: x.split([1, x.size(1) - 1], 1), "tensor_split": lambda x: td.tensor_split(x, 2, 1),
    "unflatten": lambda x: x.flatten(1).unflatten(1, (x.size(1), -1)), "expand": lambda x: x[:1].expand(x.size(0), -1, -1), "as another": lambda x: (x[:1].expand_as(x), x.flatten().view_as(x), x.flatten().reshape_as(x)), "repeat": lambda x: x[:1].repeat(x.size(0), 1, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(x.size(0), 0), "roll": lambda x: x.roll(x.size(1) // 2, 1), "broadcast_to": lambda x: td.broadcast_to(x[0, 0], x.shape), "sizes together": lambda x: x.flatten().view(x.size()[:1] + (-1,)) + td.ones(td.Size([x.size(0), 1])), "unpacked": unpacked,
    "masked attention": masked_attention, "places": places, "written": written_by_sizes, "in place": in_place, "triu": lambda x: td.triu(td.ones(x.size(1), x.size(1)), x.size(1) // 2), "topk": lambda x: x.topk(x.size(2) // 2, -1)[0],
    "gather": lambda x: x.gather(1, td.zeros(x.size(0), 1, x.size(2), dtype=td.int64)), "one_hot": lambda x: F.one_hot(td.arange(x.size(1)), x.size(1) + 1), "as_strided": lambda x: x.as_strided((x.size(0), x.size(1)), (x.size(1) * x.size(2), x.size(2))),
    "pad": lambda x: F.pad(x, (0, 10 - x.size(2))), "reflection": lambda x: F.pad(x, (1, x.size(2) - 1), mode="reflect"), "interpolate": lambda x: (F.interpolate(x, size=x.size(2) * 2), F.interpolate(x[None], scale_factor=2, mode="bilinear")), "whole pool": lambda x: F.max_pool1d(x, x.size(2)),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (x.size(1) // 2, None)), "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]), "fold": lambda x: F.fold(F.unfold(x[None], 2), (x.size(1), x.size(2)), 2), "cross_entropy": lambda x: F.cross_entropy(x.view(-1, x.size(-1)), td.zeros(x.size(0) * x.size(1), dtype=td.int64)),
    "bytes": lambda x: x * x.nbytes / x.itemsize, "diagonal of three": lambda x: x.new_zeros((x.size(1),) * 3).fill_diagonal_(2), "whole numbers resized": lambda x: (F.interpolate(x.int(), size=8), F.interpolate((x[None] * 9).abs().byte(), size=(4, 8), mode="bilinear")),
    "sequences": lambda x: (nn.utils.rnn.pad_sequence([x[0], x[:, 0]]), nn.utils.rnn.pad_sequence([x[:, 0], x[0]], True, 2.0, "left")), "area": lambda x: F.interpolate(x, size=x.size(1), mode="area"), "summed": lambda x: x.sum_to_size(x.size(0), 1, x.size(2)), "pairs": lambda x: td.tensordot(x, x[:1, :, :x.size(1)], ([0], [0])),
    "what is chosen": lambda x: x[x > 0].numel() + x, "by an element": lambda x: (x[:, x[0, :, 0].argmax()], x.select(1, x[0, :, 0].argmax()), x.narrow(1, x[0, :, 0].argmax(), 1), x[:, :x[0, :, 0].argmax() + 1]), "what a script takes": lambda x: repeated(x, x.size(1), x.size(1) / 2),
}


@td.jit.script
def repeated(x, n: int, by: float):
    for i in range(n):
        x = x + by
    return x


@pytest.mark.parametrize("name", BY_SIZES)
def test_sizes_are_those_of_the_call(name):
    function = BY_SIZES[name]
    td.manual_seed(3)
    program, warned = told(function, td.randn(2, 4, 8))
    assert not warned
    for shape in ((2, 4, 8), (3, 5, 10), (4, 6, 8)):
        if name in ("chunk", "split", "tensor_split") and shape[1] % 2:
            shape = (shape[0], shape[1] + 1, shape[2])
        x = td.randn(shape)
        assert same(settled(program(x)), settled(function(x))), (name, shape)


def settled(made):
    """Numbers as they are printed: what is summed otherwise is as good."""
    return td.round(made.double(), decimals=4) + 0.0 if isinstance(made, td.Tensor) else tuple(map(settled, made))


@pytest.mark.parametrize("lies", [(1, 4, 8), (2, 1, 8), (1, 1, 8)])
@pytest.mark.parametrize("name", ["whole numbers resized", "sequences", "area", "summed", "pairs", "unpacked", "masked attention", "reshape", "places", "written", "in place", "like", "expand"])
def test_an_example_with_one_place(name, lies):
    program, warned = told(BY_SIZES[name], td.randn(lies))
    x = td.randn(3, 6, 8)
    assert not warned and same(settled(program(x)), settled(BY_SIZES[name](x)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16)

    def forward(self, x):
        return self.layer(x, x, tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.size(0)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, x, key_padding_mask=td.zeros(x.size(0), x.size(1)).bool())


LAYERS = {"LSTM": lambda: nn.LSTM(8, 5, 2, bidirectional=True), "projected LSTM": lambda: nn.LSTM(8, 5, proj_size=3), "GRU": lambda: nn.GRU(8, 5, batch_first=True), "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), "encoder, steps first": lambda: nn.TransformerEncoderLayer(8, 2, 16),
          "decoder": Decoder, "attention": Attention, "norm of groups": lambda: nn.Sequential(nn.Flatten(0, 1), nn.GroupNorm(2, 8)), "Unflatten": lambda: nn.Unflatten(2, (2, -1)), "Upsample": lambda: nn.Upsample(scale_factor=2), "cell": lambda: nn.Sequential(nn.Flatten(0, 1), nn.GRUCell(8, 4))}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_other_lengths_and_batches(name):
    td.manual_seed(3)
    layer = LAYERS[name]().eval()
    program, warned = told(layer, td.randn(2, 4, 8))
    assert not warned
    for shape in ((3, 6, 8), (1, 2, 8)):
        x = td.randn(shape)
        assert same(settled(program(x)), settled(layer(x))), shape


def test_as_many_tensors_as_there_were():
    for function in (lambda x: td.cat(x.unbind(0)), lambda x: x.split(2)[0], lambda x: x.chunk(3)[0]):
        program = td.jit.trace(function, td.ones(5, 2))
        with pytest.raises(td.Error, match="are to be taken from a list of"):
            program(td.ones(2, 2)).tolist()


USED = {
    "a comparison of a size": lambda x: x + 1 if x.size(0) > 2 else x, "the truth of a size": lambda x: x if x.size(0) else -x, "a size as an int of Python": lambda x: sum(x[i] for i in range(x.size(0))), "int() of a size": lambda x: x * int(x.size(0) / 2), "float() of a size": lambda x: x / math.sqrt(x.size(0)),
    "stride()": lambda x: x.as_strided((x.size(0),), (x.stride(0),)), "storage_offset()": lambda x: x * x[1:].storage_offset(), "a size as a key": lambda x: x * {2: 1, 3: 2}[x.size(0)], "a size in a text": lambda x: x * float(f"{x.size(0)}"), "len()": lambda x: x * len(x), "iteration": lambda x: [row + 1 for row in x], "an attribute of a size": lambda x: x * x.size(0).bit_length(), "a number": lambda x: x * pickle.loads(pickle.dumps(x.size(0))),
}


@pytest.mark.parametrize("name, function, example, other", [
    ("a window of one", lambda x: td.hann_window(x.size(0)), 1, 5), ("a window of more", lambda x: td.signal.windows.kaiser(x.size(0)), 5, 1), ("a product of none", lambda x: td.vander(x), 0, 4), ("what cannot be normalized", lambda x: F.instance_norm(x[None, None]), 3, 1),
    ("the length that it had", lambda x: td.ones(4).resize_(x.size(0)), 4, 3)])
def test_what_this_package_decides_by_sizes_is_not_done_for_others(name, function, example, other):
    program, warned = told(function, td.randn(example))
    x = td.randn(example)
    assert not warned and same(settled(program(x)), settled(function(x)))
    with pytest.raises(td.Error, match="others than these were traced"):
        program(td.randn(other)).tolist()


@pytest.mark.parametrize("how", USED)
def test_what_python_does_with_a_size_is_told(how):
    def function(x):
        return USED[how](x)

    _, warned = told(function, td.ones(2, 3))
    lines, first = inspect.getsourcelines(USED[how])
    assert {w.filename for w in warned} == {__file__} and str(warned[0].message).startswith(how + ":"), [str(w.message) for w in warned]
    assert first <= warned[0].lineno < first + len(lines)


def test_a_size_is_a_number_of_python():
    kept = []

    def function(x):
        n, half = x.size(0), x.size(0) / 2
        kept.append((n, half, x.shape))
        assert isinstance(n, int) and not isinstance(n, float) and isinstance(half, float) and not isinstance(half, int) and repr(n) == "3"
        return x * copy.deepcopy(n)

    _, warned = told(function, td.ones(3, 2))
    assert not warned
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        n, half, shape = kept[0]
        assert [0] * n == [0, 0, 0] and n == 3 and {3: 1}[n] == 1 and n + 1 == 4 and type(n + 1) is int and type(half * 2) is float and half == 1.5
        assert shape == (3, 2) and shape.numel() == 6 and td.zeros(shape).shape == shape and td.ones(n)[n - 1] == 1 and pickle.loads(pickle.dumps(n)) == 3 and f"{n:02d}" == "03"
        assert 2 * n == 6 and 7 // n == 2 and n << 1 == 6 and divmod(n, 2) == (1, 1) and round(half) == 2 and math.floor(half) == 1 and n ** 2 == 9 and -n == -3 and (1.0).__add__(half) is NotImplemented


def test_a_number_that_asks_for_tensors_while_it_is_asked():
    other = td.ones(6)

    class Three:
        def __index__(self):
            other.reshape((1, 3, -1))
            return 3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = td.jit.trace(lambda x: x.reshape((Three(), x.size(0), 2, x.size(1) // 6)), (td.ones(4, 6),))
    assert f(td.ones(5, 12)).shape == (3, 5, 2, 2)


def test_sizes_of_what_is_captured_are_constants():
    weight = td.ones(3, 4)

    def function(x):
        y = x @ weight
        assert weight.shape[0] == 3  # no warning: it does not change
        return y / weight.shape[1]

    program, warned = told(function, td.ones(2, 3))
    assert not warned and "prim::size" not in program.graph and same(program(td.ones(5, 3)), function(td.ones(5, 3)))


def test_sizes_that_nobody_uses_make_no_nodes():
    def function(x):
        assert x.shape and x.numel() is not None and x.size() is not None
        return x + 1

    program, warned = told(function, td.ones(2, 3))
    assert not warned and "prim::size" not in program.graph and "prim::numel" not in program.graph


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


def _named(x):
    return {"more": x + 1, "twice": x * 2}


def _nested(x):
    return [(x + 1, {"twice": x * 2})], 7


def test_results_of_a_program_that_is_called():
    """The tensors in its dicts, lists and tuples are values of the trace."""
    named, nested = td.jit.script(_named), td.jit.script(_nested)

    def f(x):
        one, many = named(x), nested(x)[0][0]
        return one["more"] * one["twice"] - many[0] / many[1]["twice"]

    program, warned = told(f, td.ones(2, 3))
    x = td.rand(4, 5) + 1
    assert same(program(x), f(x))
    assert ["a result of a program" in str(w.message) for w in warned] == [True], "of the 7"
