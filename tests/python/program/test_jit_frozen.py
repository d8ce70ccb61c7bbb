"""Frozen modules: what they compute, what is left of them, and what they share with the module that they were made of."""
import inspect
import linecache
import re
import warnings

import pytest
import tensord as td
from tensord import nn
from tensord.nn import functional as F


class Block(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.down = nn.Sequential(nn.Conv2d(before, after, 1, stride), nn.BatchNorm2d(after)) if stride != 1 else None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.down is not None:
            x = self.down(x)
        return F.relu(x + y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.drop = nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8, affine=False), nn.Dropout(0.3)
        self.a, self.b, self.fc = Block(8, 8), Block(8, 16, 2), nn.Linear(16, 5)

    def forward(self, x):
        if self.training:
            x = x + 1
        x = self.drop(F.relu(self.bn(self.conv(x))))
        return self.fc(self.b(self.a(x)).mean((2, 3)))


def trained(module, *shape):
    """With statistics that are those of no norm at its beginning."""
    td.manual_seed(3)
    with td.no_grad():
        for _ in range(3):
            module(td.randn(shape) * 2 + 0.5)
        for p in module.parameters():
            p.add_(td.randn(p.shape) * 0.1)
    return module.eval()


def far(a, b):
    return float((a - b).abs().max() / b.abs().max())


def captured(program):
    return re.findall(r'^captured .* = "(.*)"$', program.graph, re.MULTILINE)


def test_norms_go_into_the_weights():
    net = trained(Net(), 4, 3, 8, 8)
    x = td.randn(2, 3, 8, 8)
    frozen = td.jit.freeze(td.jit.script(net))
    assert "batch_norm" not in frozen.graph and "dropout" not in frozen.graph
    assert far(frozen(x), net(x)) < 1e-5
    assert "conv.weight" in captured(frozen) and not any("running_var" in k for k in captured(frozen))
    assert not frozen.training and not list(frozen.parameters()) and not frozen.state_dict()
    assert frozen.train() is frozen and not frozen.training


def test_exactly():
    net = trained(Net(), 4, 3, 8, 8)
    x = td.randn(2, 3, 8, 8)
    frozen = td.jit.freeze(td.jit.script(net), optimize_numerics=False)
    assert frozen.graph.count("td::batch_norm") == 6
    assert frozen(x).tolist() == net(x).tolist()


LAYERS = [
    (nn.Conv1d(3, 4, 3, bias=False), nn.BatchNorm1d(4), (2, 3, 9)),
    (nn.Conv1d(4, 8, 3, groups=2), nn.BatchNorm1d(8), (2, 4, 9)),
    (nn.Conv2d(4, 8, 3, padding="same", groups=4), nn.BatchNorm2d(8, affine=False), (2, 4, 6, 6)),
    (nn.Conv3d(3, 4, 2), nn.BatchNorm3d(4), (2, 3, 4, 4, 4)),
    (nn.ConvTranspose1d(3, 4, 3), nn.BatchNorm1d(4), (2, 3, 9)),
    (nn.ConvTranspose2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), (2, 3, 5, 5)),
    (nn.ConvTranspose2d(4, 4, 3, groups=2), nn.BatchNorm2d(4), (2, 4, 5, 5)),
    (nn.ConvTranspose3d(3, 4, 2), nn.BatchNorm3d(4), (2, 3, 3, 3, 3)),
    (nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), (5, 3)),
    (nn.Linear(3, 4), nn.BatchNorm1d(4), (5, 4, 3)),
    (nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), (3, 8)),  # a batch of 3 to the norm, and none to the layer
]


@pytest.mark.parametrize("layer, norm, shape", LAYERS[:-1], ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else None)
def test_layers(layer, norm, shape):
    net = trained(nn.Sequential(layer.train(), norm.train()), *shape)
    x = td.randn(shape)
    assert far(td.jit.freeze(td.jit.script(net))(x), net(x)) < 1e-5


def test_a_norm_along_another_dimension_stays():
    """One row without a batch: its channels are a batch to the norm, and its places are channels."""
    layer, norm, shape = LAYERS[-1]
    net = trained(nn.Sequential(layer, norm), *shape)
    x = td.randn(shape)
    program, frozen = td.jit.script(net), td.jit.freeze(td.jit.script(net))
    assert frozen(x).tolist() == program(x).tolist()


SCALED = [
    (nn.Conv2d(3, 4, 3, bias=False), lambda s, y: y * s.each + s.other, (4, 1, 1), (2, 3, 6, 6)),
    (nn.Conv2d(3, 4, 3), lambda s, y: s.other + y / s.each * s.one, (4, 1, 1), (1, 3, 6, 6)),
    (nn.Conv1d(3, 4, 3), lambda s, y: (y - 0.5) * 3 - s.each, (4, 1), (2, 3, 8)),
    (nn.Conv1d(3, 4, 3), lambda s, y: s.each * y, (4, 1), (3, 8)),
    (nn.Conv3d(2, 4, 2), lambda s, y: y / s.each, (4, 1, 1, 1), (2, 2, 3, 3, 3)),
    (nn.ConvTranspose2d(3, 4, 3), lambda s, y: y * s.each - s.other, (4, 1, 1), (2, 3, 4, 4)),
    (nn.Linear(3, 4), lambda s, y: s.each * y + s.other, (4,), (2, 5, 3)),
    (nn.Linear(3, 4, bias=False), lambda s, y: y.mul(s.each).add(s.other).div(s.one), (4,), (3,)),
]


class Scaled(nn.Module):
    def __init__(self, layer, shape, after=None):
        super().__init__()
        self.after = after
        self.layer, self.each, self.other = layer, nn.Parameter(td.randn(shape)), nn.Parameter(td.randn(shape))
        self.one = nn.Parameter(td.tensor(-1.5))

    def forward(self, x):
        return self.after(self, self.layer(x))


@pytest.mark.parametrize("layer, after, shape, of", SCALED)
def test_scales_go_into_the_weights(layer, after, shape, of):
    """Whether there is a batch or not, from both sides, one after the other."""
    td.manual_seed(4)
    net, x = Scaled(layer, shape, after).eval(), td.randn(of)
    frozen = td.jit.freeze(td.jit.trace(net, x))
    assert not re.search(r"td::(mul|add|sub|div)", frozen.graph), frozen.graph
    wanted = net(x).detach()
    assert frozen(x).shape == wanted.shape and far(frozen(x), wanted) < 1e-5


class Kept(Scaled):
    def forward(self, x):
        y = self.layer(x)
        wide = y * td.ones(2, 1, 1) * self.each  # for whoever adds a dimension
        return y + self.each.reshape(1, 4), self.other - self.layer(x), wide


def test_scales_that_are_no_factors_of_channels_stay():
    """Another dimension would come in front; what is used twice has to be there; c - y is no sum."""
    net, x = Kept(nn.Linear(3, 4), (4,)).eval(), td.randn(3)
    frozen = td.jit.freeze(td.jit.script(net))
    for a, b in zip(frozen(x), net(x)):
        assert a.shape == b.shape and a.tolist() == b.tolist()


def test_numbers_far_out_stay():
    class Far(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x):
            return self.layer(x) * 1e-30 * 1e-30 * 1e30 * 1e30, self.layer(x) / 0.0, self.layer(x) * 1e39, self.layer(x) / 0, self.layer(x) * 0

    net, x = Far().eval(), td.randn(5, 3)
    frozen = td.jit.freeze(td.jit.script(net))
    for a, b in zip(frozen(x), net(x)):
        assert a.tolist() == b.tolist()


def test_a_norm_and_a_scale_behind_one_layer():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.scale = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), nn.Parameter(td.randn(4, 1, 1))

        def forward(self, x):
            return (self.net(x) * self.scale + 0.5) * 2

    net = trained(Both(), 4, 3, 8, 8)
    x = td.randn(2, 3, 8, 8)
    frozen = td.jit.freeze(td.jit.script(net))
    assert not re.search(r"td::(mul|add|batch_norm)", frozen.graph), frozen.graph
    assert far(frozen(x), net(x)) < 1e-5
    kept = td.jit.freeze(td.jit.script(net), optimize_numerics=False)
    assert kept(x).tolist() == net(x).tolist()


def test_doubles():
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).double().eval()
    x = td.randn(1, 2, 5, 5).double()
    frozen = td.jit.freeze(td.jit.script(net))
    assert "batch_norm" not in frozen.graph and float((frozen(x) - net(x)).abs().max()) < 1e-12


def test_what_is_made_of_constants_is_made_once():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(td.randn(4, 3))

        def forward(self, x):
            return x @ td.exp(self.weight).t() * self.weight.shape[0]

    net = Scaled().eval()
    frozen, x = td.jit.freeze(td.jit.script(net), optimize_numerics=False), td.randn(2, 3)
    assert "exp" not in frozen.graph and "td::t(" not in frozen.graph and captured(frozen) == ["weight"]
    assert frozen(x).tolist() == net(x).tolist()


def test_it_is_a_copy():
    net = nn.Sequential(nn.Linear(2, 2)).eval()
    program = td.jit.script(net)
    frozen, x = td.jit.freeze(program), td.randn(3, 2)
    before = frozen(x).tolist()
    with td.no_grad():
        net[0].weight.zero_()
    assert frozen(x).tolist() == before != program(x).tolist()


def test_gradients_go_through_it():
    net = nn.Sequential(nn.Linear(2, 2)).eval()
    frozen, x = td.jit.freeze(td.jit.script(net)), td.randn(3, 2, requires_grad=True)
    frozen(x).sum().backward()
    assert x.grad.tolist() == net[0].weight.detach().sum(0).expand(3, 2).tolist() and net[0].weight.grad is None


def test_training_is_refused():
    program = td.jit.script(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(RuntimeError, match=r"Freezing is currently only implemented for modules in eval mode\. Please call \.eval\(\)"):
        td.jit.freeze(program)
    td.jit.freeze(program.eval())


@pytest.mark.parametrize("what", [nn.Linear(2, 2).eval(), td.relu, 3])
def test_only_modules_of_programs(what):
    with pytest.raises(TypeError, match="Freezing expects a program that is a module: use td.jit.script"):
        td.jit.freeze(what)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.version = nn.Parameter(td.ones(2)), 7
        self.register_buffer("seen", td.zeros(1))
        self.register_buffer("part", self.seen[:1])

    def forward(self, x):
        self.seen.add_(1)
        return x * self.weight + self.part

    @td.jit.export
    def twice(self, x):
        return x * self.weight * 2


def test_what_it_writes_stays_shared():
    """Also what shares memory with it, under another name."""
    net = Counted().eval()
    frozen = td.jit.freeze(td.jit.script(net))
    assert [frozen(td.zeros(2)).tolist() for _ in range(2)] == [[1, 1], [2, 2]]
    assert net.seen.tolist() == [2] and not hasattr(frozen, "twice")


def test_preserved():
    net = Counted().eval()
    frozen = td.jit.freeze(td.jit.script(net), preserved_attrs=["twice", "weight", "version"])
    assert frozen.twice(td.ones(2)).tolist() == [2, 2] and frozen.version == 7 and frozen.weight is net.weight
    with td.no_grad():
        net.weight.mul_(3)
    assert frozen.twice(td.ones(2)).tolist() == [6, 6]
    with pytest.raises(AttributeError, match="the module has no attribute or method 'thrice' that could be preserved"):
        td.jit.freeze(td.jit.script(net), preserved_attrs=["thrice"])


def test_two_methods_have_constants_of_their_own():
    net = Counted().eval()
    frozen = td.jit.freeze(td.jit.script(net), ["twice"])
    with td.no_grad():
        net.weight.mul_(3)
    assert frozen.twice(td.ones(2)).tolist() == [2, 2] and frozen(td.zeros(2)).tolist() == [1, 1]


def test_files(tmp_path):
    net = trained(Net(), 4, 3, 8, 8)
    frozen, x = td.jit.freeze(td.jit.script(net)), td.randn(2, 3, 8, 8)
    for ending in ("td", "pt"):
        path = str(tmp_path / f"net.{ending}")
        frozen.save(path)
        loaded = td.jit.load(path)
        assert loaded(x).tolist() == frozen(x).tolist()
        again = td.jit.freeze(loaded)
        assert again(x).tolist() == frozen(x).tolist()


def test_names():
    net = trained(Net(), 4, 3, 8, 8)
    frozen, x = td.jit.freeze(td.jit.script(net)), td.randn(2, 3, 8, 8)
    frozen.publish("frozen")
    try:
        assert td.jit.open("frozen")(x).tolist() == frozen(x).tolist()
    finally:
        td.drop("frozen")


def test_optimize_for_inference():
    net = Net()
    program = td.jit.script(net)
    frozen = td.jit.optimize_for_inference(program)
    assert not net.training and isinstance(frozen, td.jit.FrozenModule) and td.jit.optimize_for_inference(frozen) is frozen
    assert "FrozenModule" in repr(frozen)


def test_a_trace():
    net = trained(Net(), 4, 3, 8, 8)
    x = td.randn(2, 3, 8, 8)
    frozen = td.jit.freeze(td.jit.trace(net, (x,)))
    assert "batch_norm" not in frozen.graph and far(frozen(x), net(x)) < 1e-5


# ---- beside torch


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.norm, self.drop, self.fc = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), nn.BatchNorm1d(12), nn.Dropout(0.5), nn.Linear(12, 3)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.fc(self.drop(self.norm(y[:, -1])))


MLP = [("Linear", 6, 8), ("BatchNorm1d", 8), ("ReLU",), ("Dropout", 0.2), ("Linear", 8, 8), ("BatchNorm1d", 8), ("ReLU",), ("Linear", 8, 2)]


def built(layers, of):
    return of.Sequential(*(getattr(of, kind)(*args) for kind, *args in layers))


def rebuilt(cls, torch):
    """The class over torch's modules."""
    scope = {**globals(), "nn": torch.nn, "F": torch.nn.functional, "td": torch}
    text = "".join(inspect.getsource(c) for c in ([Block, cls] if cls is Net else [cls]))
    linecache.cache[f"<torch {cls.__name__}>"] = len(text), None, text.splitlines(True), f"<torch {cls.__name__}>"
    exec(compile(text, f"<torch {cls.__name__}>", "exec"), scope)
    return scope[cls.__name__]()


@pytest.mark.parametrize("what, shape", [(Net, (4, 3, 8, 8)), (MLP, (5, 6)), (Classifier, (3, 7, 4))], ids=["resnet", "mlp", "lstm"])
def test_as_torch(what, shape):
    torch = pytest.importorskip("torch")
    ours = trained(built(MLP, nn) if what is MLP else what(), *shape)
    theirs = built(MLP, torch.nn) if what is MLP else rebuilt(what, torch)
    theirs.load_state_dict({k: torch.tensor(v.tolist()) for k, v in ours.state_dict().items()})
    x = td.randn(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch has something newer
        want = torch.jit.freeze(torch.jit.script(theirs.eval()))(torch.tensor(x.tolist()))
    got = td.jit.freeze(td.jit.script(ours))(x)
    assert far(got, td.tensor(want.detach().tolist())) < 1e-5


def test_numbers_before_weights():
    """A weight may be any argument of what is made once."""
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(td.tensor([0.5, 2.0]))

        def forward(self, x):
            return x * (1.0 - self.w) + 2**self.w + 1 / self.w + td.einsum("i,i->i", self.w, self.w)

    net = Turned().eval()
    frozen = td.jit.freeze(td.jit.script(net))
    x = td.randn(3, 2)
    assert far(frozen(x), net(x)) < 1e-6 and captured(frozen) == ["w", "w_2", "w_3", "w_4"]


def test_errors_of_others_stay_theirs():
    """What failed before is told where it is asked for, and keeps nobody from freezing."""
    net = trained(nn.Linear(3, 2), 4, 3)
    bad = td.ones(3)[td.tensor([7])] + 1
    frozen = td.jit.freeze(td.jit.script(net))
    x = td.randn(4, 3)
    assert far(frozen(x), net(x)) < 1e-6
    with pytest.raises(IndexError, match="7"):
        bad.tolist()


class Pictures(nn.Module):
    """Channels that are no multiple of 16, odd sizes, strides, dilations, groups; and what sees how a picture lies."""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 18, 3, 2, 1), nn.BatchNorm2d(18)
        self.deep, self.point, self.grouped = nn.Conv2d(18, 18, 5, 1, 2, groups=18), nn.Conv2d(18, 10, 1), nn.Conv2d(10, 20, 3, 1, 1, groups=5)
        self.square, self.wide, self.relu = nn.Conv2d(20, 20, 3, 1, 1), nn.Conv2d(20, 6, 3, padding=2, dilation=2), nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm(self.a(x)))
        y = self.grouped(self.point(self.deep(y)))
        y = F.relu(self.square(y) + y)
        z = self.wide(y)
        heads = z.permute(0, 2, 3, 1).reshape(z.shape[0], -1, 3)
        return y, z, z.view(z.shape[0], -1), heads, td.cat([y, z], 1).mean((2, 3)), [y, z]


def flat(values):
    return [v for x in values for v in (flat(x) if isinstance(x, (list, tuple)) else [x])]


@pytest.mark.parametrize("dtype", [td.float32, td.float64, td.float16])
def test_pictures_lie_channels_last_inside(dtype, tmp_path):
    net = trained(Pictures(), 2, 3, 21, 17).to(dtype)
    frozen = td.jit.freeze(td.jit.script(net))
    assert ("td::view" in str(frozen.graph).split("prim::ListConstruct")[-1]) == (dtype == td.float32)
    frozen.save(tmp_path / "net.td")
    tolerance = 3e-2 if dtype == td.float16 else 1e-5
    for program in frozen, td.jit.load(tmp_path / "net.td"):
        for size in (1, 31, 33), (2, 31, 33), (1, 31, 33), (3, 16, 17), (1, 5, 5), (1, 1, 1):
            x = td.randn(size[0], 3, *size[1:]).to(dtype)
            for _ in range(4):  # op by op, recorded, planned, with packs
                for got, want in zip(flat(program(x)), flat(net(x))):
                    assert far(got, want) < tolerance and got.is_contiguous()


def test_gradients_of_pictures_that_lie_channels_last():
    net = trained(Pictures(), 2, 3, 21, 17)
    frozen = td.jit.freeze(td.jit.script(net))
    x = td.randn(2, 3, 19, 18)
    grads = []
    for f in net, frozen:
        y = x.clone().requires_grad_()
        td.stack([t.square().mean() for t in flat(f(y))]).sum().backward()
        grads.append(y.grad)
    assert far(*grads) < 1e-5


def test_one_picture_alone_and_what_is_written():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3)

        def forward(self, x):
            y = self.b(self.a(x))
            y.view(-1).mul_(2.0)
            return y

    alone, other = td.randn(3, 9, 12), td.randn(2, 3, 9, 12).to(memory_format=td.channels_last)
    for net, xs in (Written().eval(), []), (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(True), nn.Conv2d(8, 5, 3), nn.MaxPool2d(2)).eval(), [alone, other]):
        frozen = td.jit.freeze(td.jit.script(net))
        for x in [td.randn(1, 3, 9, 12), *xs]:
            assert far(frozen(x), net(x)) < 1e-5


# ---- what follows a convolution goes on behind each of its chunks, in place

TAILS = "relu relu6 clamp leaky square hardswish gelu row".split()


class Alone(nn.Module):
    def __init__(self, tail, groups, stride):
        super().__init__()
        self.conv, self.other, self.tail = nn.Conv2d(32, 64, 3, stride, 1, groups=groups), nn.Conv2d(32, 64, 1, stride), tail

    def forward(self, x):
        return self.tail(self.conv(x))


class Added(Alone):
    def forward(self, x):
        return self.tail(self.other(x) + self.conv(x))


class Both(Alone):
    """What the convolution gives is wanted, too."""

    def forward(self, x):
        y = self.conv(x)
        return y, self.tail(y)


class Tail(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, y):
        if self.name == "relu":
            return F.relu(y)
        if self.name == "relu6":
            return F.relu6(y)
        if self.name == "clamp":
            return y.clamp(-0.3, 0.4)
        if self.name == "leaky":
            return F.leaky_relu(y, 0.1)
        if self.name == "square":
            return y * y - 0.5
        if self.name == "hardswish":
            return F.hardswish(y)
        if self.name == "gelu":
            return F.gelu(y)
        return y + y[:1, :1, :1]


def odd(*shape):
    """Numbers among which are NaN, infinities and zeros of both signs."""
    x = td.randn(*shape)
    x.view(-1)[:: 97] = float("nan")
    x.view(-1)[5 :: 1009], x.view(-1)[6 :: 2003], x.view(-1)[7 :: 501] = float("inf"), -float("inf"), -0.0
    return x


def bits(values):
    """Of two NaN that are added either may be the result: their signs do not count."""
    return [td.where(v.isnan(), float("nan"), v).numpy().tobytes() for v in flat([values])]


@pytest.mark.parametrize("kind", [Alone, Added, Both])
@pytest.mark.parametrize("groups, stride, size", [(1, 1, (1, 33, 40)), (1, 2, (3, 27, 20)), (1, 1, (2, 56, 56)), (4, 1, (1, 40, 41))])
def test_tails_of_convolutions(kind, groups, stride, size):
    for name in TAILS:
        frozen, want = td.jit.freeze(td.jit.script(kind(Tail(name), groups, stride).eval())), None
        x = odd(size[0], 32, *size[1:])
        if kind is Added or groups > 1:
            x = x.to(memory_format=td.channels_last)
        for k in range(6):  # op by op, recorded, planned, with packs
            got = bits(frozen(x))
            want = want or got
            assert got == want, (name, k)
        plan = str(frozen.plan(x))
        assert ("chunks of" in plan) == (kind is Added or name not in ("hardswish", "gelu", "row")), (name, plan)


def test_tails_with_gradients_and_packs():
    net = Added(Tail("relu6"), 1, 1).eval()
    frozen, x = td.jit.freeze(td.jit.script(net)), td.randn(1, 32, 33, 40).to(memory_format=td.channels_last)

    def packed():
        return {r["key"]: r["value"] for r in td.status()}["run_packed"]

    for _ in range(6):
        want = frozen(x)
    td.sync()
    before = packed()
    assert "chunks of" in str(frozen.plan(x)) and td.equal(frozen(x), want)
    td.sync()
    assert packed() >= before + 4  # the calls of plan(), and the last one
    grads = []
    for f in net, frozen:
        y = x.clone().requires_grad_()
        f(y).square().sum().backward()
        grads.append(y.grad)
    assert far(*grads) < 1e-5 and td.equal(frozen(x), want)


class Along(nn.Module):
    """Sums of a constant, along the dimensions that are given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("x", td.tensor([[1.0, 2.0], [3.0, 4.0]]))

    def forward(self, dims):
        n: list[int] = dims.tolist()
        return F.relu(td.sum(self.x, n, True))


def test_a_list_that_is_filled_is_no_constant():
    frozen = td.jit.freeze(td.jit.script(Along().eval()))
    assert frozen(td.tensor([1])).tolist() == [[3], [7]] and frozen(td.tensor([0])).tolist() == [[4, 6]]


class Parts(nn.Module):
    """What becomes of the parts of a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("x", td.tensor([1.0, 4.0, 9.0]))

    def forward(self, y):
        a, b = td.split(td.sqrt(self.x), [1, 2])
        return y * td.sum(b) + td.exp(a)


def test_parts_of_a_constant_are_made_once():
    module = Parts().eval()
    frozen = td.jit.freeze(td.jit.script(module))
    assert "td::split" not in frozen.graph and "td::exp" not in frozen.graph
    assert frozen(td.tensor([2.0])).tolist() == module(td.tensor([2.0])).tolist()
