"""tensord.nn and tensord.optim: a tutorial's network runs after changing the import, with PyTorch's numbers."""
import copy
import io
import math
import multiprocessing
import pickle
from collections import OrderedDict

import pytest
import tensord as td
import tensord.nn as nn
import tensord.nn.functional as F

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
try:
    import torch
except ImportError:
    torch = None
NEW = torch is not None and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
OLD = torch is not None and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4 * 4 * 4, 3)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv(x))))
        return self.fc(self.drop(td.flatten(x, 1)))


@needs_torch
def test_parameters_in_a_list_are_printed():
    for ours, theirs in ((nn.ParameterList([td.ones(3), nn.Parameter(td.ones(2, 3))]), torch.nn.ParameterList([torch.ones(3), torch.ones(2, 3)])),
                         (nn.ParameterList(), torch.nn.ParameterList())):
        assert repr(ours).replace("tensord.", "torch.") == repr(theirs)
    assert repr(nn.ParameterDict({"a": td.ones(3)})) == "ParameterDict(\n    (a): Parameter containing: [tensord.float32 of size 3]\n)"


def test_a_tutorial_s_network_learns():
    td.manual_seed(1)
    x = td.randn(60, 1, 8, 8)
    y = td.arange(60) % 3
    for k in range(3):
        x[y == k, 0, 2 * k] += 2
    net, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = td.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with td.no_grad():
        accuracy = (net(x).argmax(1) == y).float().mean().item()
    assert losses[-1] < losses[0] / 2 and accuracy > 0.9


def test_modules():
    net = Net()
    names = [n for n, _ in net.named_parameters()]
    assert names == ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "fc.weight", "fc.bias"]
    assert [n for n, _ in net.named_buffers()] == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert len(list(net.modules())) == 6 and sum(p.numel() for p in net.parameters()) == 4 * 9 + 4 + 8 + 3 * 64 + 3
    assert not net.eval().drop.training and net.train().drop.training
    assert isinstance(net.fc.weight, nn.Parameter) and net.fc.weight.requires_grad and net.fc.weight.is_leaf
    assert "(conv): Conv2d(1, 4, kernel_size=(3, 3)" in repr(net) and repr(nn.ReLU()) == "ReLU()"
    net.fc.bias = None
    assert "fc.bias" not in net.state_dict() and len(list(net.parameters())) == 5
    with pytest.raises(AttributeError):
        net.nothing
    with pytest.raises(TypeError):
        net.fc.weight = td.ones(1)
    net.apply(lambda m: setattr(m, "seen", True))
    assert net.fc.seen and next(net.double().parameters()).dtype is td.float64


def test_state():
    a, b = Net(), Net()
    state = a.state_dict()
    b.load_state_dict(state)
    assert td.equal(a.fc.weight, b.fc.weight) and b.fc.weight.requires_grad
    c = copy.deepcopy(a)
    with td.no_grad():
        a.fc.weight.fill_(0)
    assert c.fc.weight.abs().sum().item() > 0 and isinstance(c.fc.weight, nn.Parameter)
    with pytest.raises(ValueError, match="missing: fc.weight"):
        b.load_state_dict({k: v for k, v in state.items() if k != "fc.weight"})
    with pytest.raises(ValueError, match="shape"):
        b.load_state_dict({**state, "fc.bias": td.ones(7)})
    b.load_state_dict({"fc.bias": td.ones(3)}, strict=False)
    assert b.fc.bias.tolist() == [1, 1, 1]


def test_containers():
    s = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    assert s(td.ones(4, 2)).shape == (4, 1) and len(s) == 3 and len(s[:2]) == 2
    m = nn.ModuleList([nn.Linear(1, 1)]).append(nn.Linear(1, 1))
    assert len(nn.ModuleList(None)) == len(nn.ModuleList()) == 0
    d = nn.ModuleDict({"a": nn.Linear(1, 1)})
    assert len(list(m.parameters())) == 4 and len(m) == 2 and [n for n, _ in d.named_parameters()] == ["a.weight", "a.bias"]
    shared = nn.Linear(2, 2)
    twice = nn.Sequential(shared, shared)
    assert len(list(twice.parameters())) == 2 and len(twice.state_dict()) == 4


@pytest.mark.parametrize("wrong, kind", [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError), (lambda: nn.MaxPool2d(), TypeError), (lambda: nn.Dropout(2)(td.ones(1)), ValueError),
    (lambda: td.optim.SGD([], lr=1), ValueError), (lambda: td.optim.SGD([td.ones(1)], lr=-1), ValueError), (lambda: td.optim.Adam([3]), TypeError),
    (lambda: nn.Sequential(3), TypeError), (lambda: nn.ModuleList([3]), TypeError), (lambda: nn.ModuleList(3), TypeError),
    (lambda: nn.Sequential(nn.ReLU()).append("x"), TypeError), (lambda: nn.CrossEntropyLoss()(td.ones(2, 3), td.ones(3)), ValueError),
    (lambda: F.one_hot(td.ones(2)), TypeError), (lambda: td.clamp(td.ones(2)), ValueError),
    (lambda: nn.BatchNorm1d(3)(td.ones(1, 3)), ValueError), (lambda: nn.MSELoss(reduction="avg"), ValueError), (lambda: nn.ReLU(1, 2), TypeError),
])
def test_refused(wrong, kind):
    with pytest.raises(kind):
        wrong()


@pytest.mark.parametrize("n, kind", [(10**40, ValueError), (10**6, ValueError), (-1, ValueError), (True, TypeError), (2.0, TypeError), ("2", TypeError)])
def test_numbers_of_layers(n, kind):
    """Refused before anything is built."""
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    for make in (lambda: nn.TransformerEncoder(layer, n), lambda: nn.LSTM(2, 3, n), lambda: nn.GRU(2, 3, num_layers=n), lambda: nn.RNN(2, 3, n)):
        with pytest.raises(kind, match="num_layers") as e:
            make()
        assert isinstance(e.value, td.Error)
    assert len(nn.TransformerEncoder(layer, 0).layers) == 0 and nn.LSTM(2, 3, 2).num_layers == 2
    with pytest.raises(ValueError, match="num_layers"):
        nn.LSTM(2, 3, 0)


class Counts(nn.Module):
    """With more in its state than tensors."""

    def __init__(self, n=0):
        super().__init__()
        self.n, self.w = n, nn.Parameter(td.ones(1))

    def get_extra_state(self):
        return {"n": self.n}

    def set_extra_state(self, state):
        self.n = state["n"]


def test_states_of_more_than_tensors():
    net = nn.Sequential(Counts(3), Counts(4))
    state = net.state_dict()
    assert list(state) == ["0.w", "0._extra_state", "1.w", "1._extra_state"]
    other = nn.Sequential(Counts(), Counts())
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>" and [m.n for m in other] == [3, 4]
    with pytest.raises(ValueError, match="missing: 0._extra_state"):
        other.load_state_dict({k: v for k, v in state.items() if k != "0._extra_state"})
    with pytest.raises(ValueError, match="unexpected: _extra_state"):
        nn.Linear(1, 1).load_state_dict({**nn.Linear(1, 1).state_dict(), "_extra_state": 1})
    with pytest.raises(RuntimeError):
        nn.Linear(1, 1).get_extra_state()


def test_hooks_of_states():
    net, seen = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1)), []
    handles = [net[1].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((m, prefix, keep))),
               net[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state.update({prefix + "version": 2})),
               net[0].register_load_state_dict_pre_hook(lambda m, state, prefix, *more: state.pop(prefix + "version", None)),
               net[1]._register_load_state_dict_pre_hook(lambda state, prefix, *more: state.pop(prefix + "old", None)),
               net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())]
    state = net.state_dict(keep_vars=True)
    assert seen == [(net[1], "1.", True)] and state["0.version"] == 2 and state["0.weight"] is net[0].weight
    given = {k: v for k, v in state.items() if k != "1.bias"} | {"1.old": 1}
    assert net.load_state_dict(given) == ([], []) and given["0.version"] == 2, "hooks change a copy"
    for h in handles:
        h.remove()
    assert "0.version" not in net.state_dict() and len(seen) == 1
    with pytest.raises(ValueError, match="missing: 1.bias; unexpected: 0.version, 1.old"):
        net.load_state_dict(given)
    into = {"a": 1}
    assert nn.Linear(1, 1).state_dict(destination=into, prefix="x.") is into and list(into) == ["a", "x.weight", "x.bias"]


def test_a_state_that_is_assigned():
    net = nn.BatchNorm1d(2)
    net.bias.requires_grad_(False)
    given = {k: v.double() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    net.load_state_dict(given, assign=True)
    assert net.weight.dtype is td.float64 and net.weight.requires_grad and not net.bias.requires_grad and isinstance(net.bias, nn.Parameter)
    given["weight"].fill_(5)
    assert net.weight.tolist() == [5, 5], "the same memory"


def test_modules_by_names():
    net = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
    assert net.get_buffer("1.running_mean") is net[1].running_mean and net.get_parameter("0.bias") is net[0].bias
    net.set_submodule("0", nn.Identity())
    assert isinstance(net[0], nn.Identity)
    for wrong, kind in ((lambda: net.get_buffer("0.x"), AttributeError), (lambda: net.set_submodule("7", nn.ReLU(), strict=True), AttributeError),
                        (lambda: net.set_submodule("", nn.ReLU()), ValueError), (lambda: net.set_submodule("0", 3), TypeError)):
        with pytest.raises(kind):
            wrong()
    shared = nn.Linear(1, 1)
    twice = nn.Sequential(shared, shared)
    assert [n for n, _ in twice.named_parameters(remove_duplicate=False)] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert len(list(twice.named_modules(remove_duplicate=False))) == 3 and len(list(nn.Sequential(nn.BatchNorm1d(1)).named_buffers())) == 3
    whole = nn.BatchNorm1d(2).type(td.float64)
    assert whole.num_batches_tracked.dtype is td.float64 and whole.weight.requires_grad
    weight = whole.weight
    assert whole.to_empty(device="cpu").weight is weight and weight.shape == (2,) and weight.dtype is td.float64


@needs_torch
def test_lists_of_modules():
    for lib in (nn, torch.nn):
        a, b, c, d = (lib.Linear(1, k) for k in range(1, 5))
        s = lib.Sequential(a, b, c)
        del s[1]
        assert list(s._modules) == ["0", "1"] and list(s) == [a, c]
        s.insert(1, d)
        s[0] = b
        assert list(s) == [b, d, c] and s.pop(1) is d and list(s._modules) == ["0", "1"]
        s.extend([a, d])
        del s[1:3]
        assert list(s) == [b, d] and len(s + lib.Sequential(a)) == 3 and type(s + lib.Sequential(a)) is lib.Sequential
        m = lib.ModuleList([a])
        m += [b, c]
        m.insert(0, d)
        assert list(m) == [d, a, b, c] and m.pop(-1) is c and len(m + [a]) == 4
        with pytest.raises(IndexError):
            m[5] = a
        if lib is nn:  # PyTorch 1.13 takes it
            with pytest.raises(TypeError):
                m.insert(0, 3)
        k = lib.ModuleDict({"a": a})
        k.update({"b": b, "c": c})
        assert k.pop("a") is a and list(k) == ["b", "c"]
        k.clear()
        assert len(k) == 0


def test_lists_of_parameters():
    a, b = nn.Parameter(td.ones(1)), nn.Parameter(td.zeros(2))
    p = nn.ParameterList([a]).extend([b])
    p += [td.ones(3)]
    p[0] = b
    assert len(p) == 3 and p[0] is b and p[2].requires_grad
    d = nn.ParameterDict({"a": a})
    assert d.get("x") is None and d.setdefault("b", b) is b and d.copy()["a"] is a and list((d | {"c": td.ones(1)}).keys()) == ["a", "b", "c"]
    d |= {"c": td.ones(1)}
    assert d.pop("a") is a and d.popitem()[0] == "c" and len(d) == 1
    del d["b"]
    d.update({"z": a})
    d.clear()
    assert len(d) == 0 and nn.ParameterDict().fromkeys("ab", td.ones(2)).keys() == {"a", "b"}


def test_hooks_that_see_arguments_by_names():
    class Scaled(nn.Module):
        def forward(self, x, scale=1):
            return x * scale

    net, order = Scaled(), []
    one = net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True)
    net.register_forward_pre_hook(lambda m, args: order.append("first"), prepend=True)
    net.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["scale"], with_kwargs=True)
    assert net(td.ones(1), scale=2).tolist() == [6] and order == ["first"]
    one.remove()
    assert net(td.ones(1), scale=2).tolist() == [4]
    net.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="new_args, new_kwargs"):
        net(td.ones(1), scale=2)


def test_parameters_as_they_were_made():
    for layer in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.RMSNorm(3), nn.PReLU(2, 0.5), nn.LayerNorm(3, elementwise_affine=False)):
        before = {k: v.clone() for k, v in layer.state_dict().items()}
        for p in layer.parameters():
            p.data.fill_(9)
        layer.reset_parameters()
        assert all(td.equal(v, before[k]) for k, v in layer.state_dict().items())
    layer = nn.Bilinear(2, 2, 3)
    layer.weight.data.fill_(9)
    layer.reset_parameters()
    assert layer.weight.abs().max().item() <= 2**-0.5


def test_initialisation():
    w = nn.Linear(100, 50).weight
    assert 0.08 < w.abs().max().item() <= 0.1 and abs(w.mean().item()) < 0.01
    assert abs(nn.Embedding(200, 50).weight.std().item() - 1) < 0.05
    assert nn.init.xavier_normal_(td.empty(50, 50)).std().item() == pytest.approx(0.14142, rel=0.1)


def test_orthogonal_dirac_and_sparse():
    for shape in ((4, 4), (3, 5), (5, 3), (3, 2, 2), (2, 0)):
        w = nn.Parameter(td.empty(shape))
        assert nn.init.orthogonal_(w, gain=2) is w and w.requires_grad and w.grad_fn is None
        m = w.detach().reshape(shape[0], -1)
        if m.numel():
            td.testing.assert_close(m @ m.t() if m.shape[0] <= m.shape[1] else m.t() @ m, 4 * td.eye(min(m.shape)), atol=1e-5, rtol=0)
    w = nn.init.sparse_(td.empty(10, 50), 0.35, std=2.0)
    assert (w == 0).sum(0).tolist() == [4] * 50 and 1.5 < w[w != 0].std().item() < 2.5
    conv = nn.Conv1d(4, 4, 3, padding=1, groups=2, bias=False)
    nn.init.dirac_(conv.weight, 2)
    x = td.randn(1, 4, 5)
    td.testing.assert_close(conv(x).detach(), x)
    for function, wrong, kind in ((nn.init.orthogonal_, (td.ones(2),), td.ShapeError), (nn.init.dirac_, (td.ones(2, 2),), td.ShapeError), (nn.init.sparse_, (td.ones(2), 0.1), td.ShapeError),
                                  (nn.init.dirac_, (td.ones(3, 2, 2), 2), td.InvalidError), (nn.init.calculate_gain, ("sinus",), td.InvalidError),
                                  (nn.init.calculate_gain, ("leaky_relu", "a"), td.InvalidError), (nn.init.kaiming_normal_, (td.ones(2, 2), 0, "fan"), td.InvalidError)):
        with pytest.raises(kind):
            function(*wrong)
    with pytest.warns(FutureWarning, match="nn.init.constant_"):
        assert nn.init.constant(td.empty(2), 3.0).tolist() == [3, 3]


def test_initialisation_by_a_generator():
    init = nn.init
    for fill in (init.uniform_, init.normal_, init.xavier_uniform_, init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_, init.trunc_normal_,
                 init.orthogonal_, lambda t, generator: init.sparse_(t, 0.5, generator=generator)):
        a, b = (fill(td.empty(4, 4), generator=td.Generator().manual_seed(3)) for _ in range(2))
        assert td.equal(a, b) and not td.equal(a, fill(td.empty(4, 4), generator=td.Generator().manual_seed(4)))


@needs_torch
def test_kernels_that_leave_what_they_see():
    for shape, groups in (((4, 2, 3), 1), ((4, 2, 3), 2), ((2, 4, 3, 2), 1), ((6, 2, 1, 4, 5), 3)):
        np.testing.assert_array_equal(nn.init.dirac_(td.ones(shape), groups).numpy(), torch.nn.init.dirac_(torch.ones(shape), groups).numpy())
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert nn.init._calculate_fan_in_and_fan_out(td.ones(2, 3, 4)) == torch.nn.init._calculate_fan_in_and_fan_out(torch.ones(2, 3, 4))


def both(make, *shapes, seed=0):
    """The same module in both libraries, with the same numbers."""
    torch.manual_seed(seed)
    theirs = make(torch.nn)
    ours = make(nn)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = [np.random.default_rng(k).standard_normal(s).astype("float32") for k, s in enumerate(shapes)]
    return ours, theirs, x


LAYERS = [(lambda n: n.Linear(3, 4), (2, 3)), (lambda n: n.Conv2d(2, 4, 3, stride=2, padding=1, groups=2), (2, 2, 7, 7)),
          (lambda n: n.LayerNorm((3, 4)), (2, 3, 4)), (lambda n: n.BatchNorm1d(3), (5, 3)), (lambda n: n.BatchNorm2d(3), (2, 3, 4, 4)),
          (lambda n: n.GroupNorm(2, 4), (2, 4, 5)), (lambda n: n.MaxPool2d(2), (1, 2, 6, 6)), (lambda n: n.AvgPool2d(3, 1, 1), (1, 2, 6, 6)),
          (lambda n: n.AdaptiveAvgPool2d(1), (2, 3, 5, 5)), (lambda n: n.ReLU(), (3, 4)), (lambda n: n.LeakyReLU(0.2), (3, 4)), (lambda n: n.ELU(), (3, 4)),
          (lambda n: n.GELU(), (3, 4)), (lambda n: n.SiLU(), (3, 4)), (lambda n: n.Mish(), (3, 4)), (lambda n: n.Softplus(), (3, 4)),
          (lambda n: n.Hardtanh(), (3, 4)), (lambda n: n.Hardswish(), (3, 4)), (lambda n: n.Softmax(1), (3, 4)), (lambda n: n.LogSoftmax(-1), (3, 4)),
          (lambda n: n.Flatten(), (2, 3, 4)), (lambda n: n.Sequential(n.Linear(3, 5), n.Tanh(), n.Linear(5, 2)), (4, 3))]


def agree(ours, theirs, a, b, out, want):
    """The outputs, and the gradients of the inputs and of all parameters."""
    (out * out).sum().backward()
    (want * want).sum().backward()
    np.testing.assert_allclose(np.asarray(out.detach().cpu()), want.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(a.grad.cpu()), b.grad.numpy(), rtol=1e-3, atol=1e-4)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        np.testing.assert_allclose(np.asarray(p.grad.cpu()), q.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


@needs_torch
@pytest.mark.parametrize("make, shape", LAYERS)
def test_layers_agree(make, shape):
    ours, theirs, (x,) = both(make, shape)
    a, b = td.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    agree(ours, theirs, a, b, ours(a), theirs(b))
    for (name, p), q in zip(ours.named_buffers(), theirs.buffers()):
        np.testing.assert_allclose(np.asarray(p.cpu()), q.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


# What came with a later torch is compared where that is there.
LAYERS += [(lambda n: n.Conv1d(2, 4, 3, stride=2, padding=1), (2, 2, 9)), (lambda n: n.ConvTranspose2d(2, 3, 4, 2, 1), (2, 2, 5, 5)),
           (lambda n: n.ConvTranspose2d(4, 4, 3, 2, 1, output_padding=1, groups=2, bias=False), (1, 4, 4, 3)), (lambda n: n.MaxPool1d(2), (2, 3, 7)),
           (lambda n: n.AvgPool1d(3, 2, 1), (2, 3, 7)), (lambda n: n.AdaptiveMaxPool2d(2), (2, 3, 4, 6)), (lambda n: n.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
           (lambda n: n.PReLU(3), (2, 3, 4)), (lambda n: n.SELU(), (9,)), (lambda n: n.CELU(2.0), (9,)), (lambda n: n.Softsign(), (9,)),
           (lambda n: n.Softshrink(), (9,)), (lambda n: n.Hardshrink(), (9,)), (lambda n: n.Threshold(0.1, 3.0), (9,)), (lambda n: n.GLU(), (3, 4)),
           (lambda n: n.Hardsigmoid(), (9,)), (lambda n: n.LogSigmoid(), (9,)), (lambda n: n.PixelShuffle(2), (2, 8, 3, 4)),
           (lambda n: n.Upsample(scale_factor=2), (1, 2, 3, 4)), (lambda n: n.ZeroPad2d((1, 2, 0, 1)), (1, 2, 3, 4)), (lambda n: n.Softmin(dim=1), (3, 4)),
           (lambda n: n.TransformerEncoderLayer(6, 2, 8, 0.0, "gelu", norm_first=True), (5, 3, 6))]


def first(out):
    """What a recurrent layer gives at all steps, times what it ends with."""
    while isinstance(out, tuple):
        out = out[0] * sum(p.sum() for p in (out[1] if isinstance(out[1], tuple) else out[1:]))
    return out


RECURRENT = [(kind, options, shape) for kind in ("RNN", "LSTM", "GRU") for options, shape in (
    ({}, (5, 2, 3)), (dict(num_layers=2, bidirectional=True), (4, 2, 3)), (dict(batch_first=True, bias=False), (2, 70, 3)), ({}, (4, 3)))]
RECURRENT += [("RNN", dict(nonlinearity="relu"), (5, 2, 3)), ("LSTM", dict(proj_size=2, num_layers=2, bidirectional=True), (4, 2, 3)), ("RNNCell", {}, (2, 3)), ("LSTMCell", {}, (2, 3)), ("GRUCell", dict(bias=False), (2, 3))]


@needs_torch
@pytest.mark.parametrize("kind, options, shape", RECURRENT)
def test_recurrent_layers_agree(kind, options, shape):
    ours, theirs, (x,) = both(lambda n: getattr(n, kind)(3, 4, **options), shape)
    a, b = td.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    agree(ours, theirs, a, b, first(ours(a)), first(theirs(b)))


LOSSES = ["mse_loss(x, y)", "l1_loss(x, y, reduction='sum')", "smooth_l1_loss(x, y)", "cross_entropy(x, c)", "cross_entropy(x, c, reduction='none')",
          "nll_loss(log_softmax(x, dim=1), c)", "binary_cross_entropy(sigmoid(x), p)", "binary_cross_entropy_with_logits(x, p)",
          "kl_div(log_softmax(x, dim=1), p, reduction='batchmean')", "cross_entropy(x, p)",
          "cross_entropy(x, c, label_smoothing=0.2)", "cross_entropy(x, c, w, label_smoothing=0.2, ignore_index=1)",
          "cross_entropy(x, c, w, reduction='none', label_smoothing=0.3)", "cross_entropy(x, p, w, label_smoothing=0.1)", "cross_entropy(x[0], c[0])",
          "huber_loss(x, y, delta=0.5)", "cosine_similarity(x, y)", "pairwise_distance(x, y)", "triplet_margin_loss(x, y, p)",
          "margin_ranking_loss(x[0], y[0], p[0].sign(), 0.3)", "cosine_embedding_loss(x, y, (c > 0).float() * 2 - 1)", "poisson_nll_loss(x, p)",
          "gaussian_nll_loss(x, y, p, full=True)", "embedding_bag(c, x, c[:2])", "embedding(c, x, padding_idx=1)"]


MADE = ["relu6(x)", "hardswish(x)", "logsigmoid(x)", "selu(x)", "celu(x, 0.5)", "prelu(x, w)", "softsign(x)", "tanhshrink(x)", "softshrink(x)",
        "hardshrink(x)", "softmin(x, 1)", "glu(x, 0)", "group_norm(x, 1, w, y[0])", "normalize(x)"]


@needs_torch
@pytest.mark.parametrize("text", LOSSES)
def test_losses_agree(text):
    rng = np.random.default_rng(0)
    x, y, p = (rng.standard_normal((4, 3)).astype("float32") for _ in range(3))
    p, c = np.abs(p) / np.abs(p).sum(1, keepdims=True), np.array([0, 2, 1, 1])
    got = []
    for lib, functions in ((td, F), (torch, torch.nn.functional)):
        names = {k: getattr(functions, k) for k in dir(functions) if not k.startswith("_")}
        if lib is torch:
            names.update(sigmoid=torch.sigmoid)
        names.update(x=lib.tensor(x), y=lib.tensor(y), p=lib.tensor(p), c=lib.tensor(c), w=lib.tensor(p[0]))
        got.append(np.asarray(eval(text, names).cpu() if lib is td else eval(text, names)))
    np.testing.assert_allclose(*got, rtol=1e-4, atol=1e-6)


@needs_torch
@pytest.mark.parametrize("text", [t for t in LOSSES if not t.startswith("embedding")] + MADE)
def test_slopes_agree(text):
    """The first ones, and those of the sum of their squares."""
    rng = np.random.default_rng(1)
    x, y, p = (rng.standard_normal((4, 3)) for _ in range(3))
    p, c = np.abs(p) / np.abs(p).sum(1, keepdims=True), np.array([0, 2, 1, 1])
    got = []
    for lib, functions in ((td, F), (torch, torch.nn.functional)):
        names = {k: getattr(functions, k) for k in dir(functions) if not k.startswith("_")}
        names.update(sigmoid=lib.sigmoid, x=lib.tensor(x, requires_grad=True), y=lib.tensor(y), p=lib.tensor(p), c=lib.tensor(c), w=lib.tensor(p[0]))
        (first,) = lib.autograd.grad(eval(text, names).sum(), names["x"], create_graph=True)
        (second,) = lib.autograd.grad((first**2).sum() + (names["x"] ** 2).sum(), names["x"])
        got += [first.detach().numpy(), second.numpy()]
    for ours, theirs in zip(got[:2], got[2:]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


OPTIMIZERS = [("SGD", dict(lr=0.1)), ("SGD", dict(lr=0.1, momentum=0.9)), ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.1)),
              ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)), ("Adam", dict(lr=0.05)), ("Adam", dict(lr=0.05, weight_decay=0.1)),
              ("RMSprop", dict(lr=0.01)), ("RMSprop", dict(lr=0.01, momentum=0.5, centered=True, weight_decay=0.1)),
              ("Adagrad", dict(lr=0.1, lr_decay=0.1, weight_decay=0.1)), ("SGD", dict(lr=0.1, maximize=True)),
              ("AdamW", dict(lr=0.05)), ("AdamW", dict(lr=0.05, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.2))]


@needs_torch
@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_optimizers_agree(name, options):
    ours, theirs, (x,) = both(lambda n: n.Linear(3, 2), (6, 3))
    a = getattr(td.optim, name)(ours.parameters(), **options)
    b = getattr(torch.optim, name)(theirs.parameters(), **options)
    for _ in range(5):
        for net, opt, lib in ((ours, a, td), (theirs, b, torch)):
            opt.zero_grad()
            (net(lib.tensor(x)) ** 2).mean().backward()
            opt.step()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        np.testing.assert_allclose(np.asarray(p.detach().cpu()), q.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_the_state_of_an_optimizer():
    net = nn.Linear(2, 2)
    opt = td.optim.Adam(net.parameters(), lr=0.1)
    net(td.ones(1, 2)).sum().backward()
    opt.step()
    other = td.optim.Adam(net.parameters(), lr=0.5)
    other.load_state_dict(opt.state_dict())
    assert other.param_groups[0]["lr"] == 0.1 and other.state[net.weight]["step"].item() == 1
    assert opt.step(lambda: td.tensor(3.0)).item() == 3
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    assert norm.item() > 1 and nn.utils.clip_grad_norm_(net.parameters(), 0.1).item() == pytest.approx(0.1, rel=1e-3)


def _steps(given):
    net, optimizer = pickle.loads(given)
    for _ in range(3):
        optimizer.zero_grad()
        net(td.ones(1, 4)).sum().backward()
        optimizer.step()
    td.sync()


@pytest.mark.parametrize("make", [lambda p: td.optim.Adam(p, lr=0.1), lambda p: td.optim.SGD(p, lr=0.1, momentum=0.9),
                                  lambda p: td.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2)], ids=["Adam", "SGD", "dampened"])
def test_weights_and_state_that_processes_share(make):
    def network():
        td.manual_seed(5)
        net = td.nn.Sequential(td.nn.Linear(4, 3), td.nn.BatchNorm1d(3).eval(), td.nn.Linear(3, 1))
        net[0].bias.requires_grad_(False)
        net[2].twin = net[0]
        return net

    net = network().share_memory()
    optimizer = make([p for p in net.parameters() if p.requires_grad]).share_memory()
    other = pickle.loads(pickle.dumps(net))
    assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in net.parameters()] and other[2].twin is other[0]
    for _ in range(2):
        worker = multiprocessing.get_context("spawn").Process(target=_steps, args=(pickle.dumps((net, optimizer)),))
        worker.start()
        worker.join()
        assert worker.exitcode == 0
    assert all(p.grad is None for p in net.parameters()), "a worker's gradients are its own"
    alone = network()
    same = make([p for p in alone.parameters() if p.requires_grad])
    for _ in range(6):
        same.zero_grad()
        alone(td.ones(1, 4)).sum().backward()
        same.step()
    assert [p.tolist() for p in net.parameters()] == [p.tolist() for p in alone.parameters()], "as six steps of one process"


class Scaled(nn.Parameter):
    """Wants more than a Parameter does."""

    def __new__(cls, data, scale, requires_grad=True):
        self = super().__new__(cls, data, requires_grad)
        self.scale = scale
        return self


class Noted(nn.Parameter):
    def __new__(cls, data, requires_grad=True, *, note):
        return super().__new__(cls, data, requires_grad)

    def __init__(self, data, requires_grad=True, *, note):
        self.note = note


class Marked(td.Tensor):
    def __new__(cls, data, mark):
        self = super().__new__(cls, data)
        self.mark = [mark]
        return self

    def __init__(self, data, mark):
        pass


WRAPPED = [lambda: nn.Parameter(td.tensor([1, 2]), requires_grad=False), lambda: nn.Parameter(td.tensor([True]), requires_grad=False),
           lambda: nn.Parameter(td.tensor([7], dtype=td.uint8), requires_grad=False), lambda: nn.Parameter(td.ones(2)), lambda: nn.Parameter(td.ones(2, dtype=td.complex64)),
           lambda: nn.Parameter(td.ones(2), requires_grad=False), lambda: Scaled(td.ones(2), 3), lambda: Scaled(td.tensor([4]), "x", False),
           lambda: Noted(td.ones(1), note=[5]), lambda: Noted(td.tensor([6]), False, note=None), lambda: Marked([1.0], 8), lambda: Marked(td.tensor([9]), 8),
           lambda: nn.Buffer(td.tensor([1]), persistent=False)]


def _told(t):
    return type(t), t.dtype, t.requires_grad, t.is_leaf, t.tolist(), vars(t)


@pytest.mark.parametrize("way", [lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy, copy.copy], ids=["pickled", "deep copy", "copy"])
@pytest.mark.parametrize("make", WRAPPED, ids=range(len(WRAPPED)))
def test_objects_of_classes_arrive_as_they_are(make, way):
    """Their class is not called again: it may refuse, want more, or change what it is given."""
    t = make()
    there = way(t)
    assert _told(there) == _told(t)
    if t.requires_grad:
        (there.real * 3).sum().backward()
        assert there.grad.tolist() == [3] * t.numel() and (t.grad is None) == (way is not copy.copy)


def test_an_integer_parameter_in_a_spawned_process():
    net = nn.Linear(1, 1)
    net.count = nn.Parameter(td.tensor(3), requires_grad=False)
    net.scaled = Scaled(td.ones(1), 2)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_parameters, (net,)) == _parameters(net)


def _parameters(net):
    return [(name, _told(p)) for name, p in net.named_parameters()]


SCHEDULES = ["StepLR(o, 3)", "MultiStepLR(o, [2, 5], gamma=0.5)", "ExponentialLR(o, 0.9)", "ConstantLR(o)", "LinearLR(o, total_iters=4)",
             "PolynomialLR(o, total_iters=6, power=2)", "CosineAnnealingLR(o, 4, eta_min=0.01)", "CosineAnnealingWarmRestarts(o, 2, 2)",
             "OneCycleLR(o, 1.0, total_steps=12)", "OneCycleLR(o, 1.0, epochs=3, steps_per_epoch=4, anneal_strategy='linear')",
             "LambdaLR(o, lambda k: 1 / (1 + k))", "SequentialLR(o, [m.LinearLR(o, total_iters=3), m.ExponentialLR(o, 0.8)], [4])",
             "(m.StepLR(o, 3), m.ExponentialLR(o, 0.9))[1]"]


@needs_torch
@pytest.mark.filterwarnings("ignore:Detected call of", "ignore:The epoch parameter")
@pytest.mark.parametrize("text", SCHEDULES)
def test_schedules_agree(text):
    got = []
    for lib in (td, torch):
        m = lib.optim.lr_scheduler
        if text.split("(")[0] not in ("", *dir(m)):
            pytest.skip("this torch has no such schedule")
        o = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.5, momentum=0.9)
        s, rates = eval(text if text[0] == "(" else "m." + text), []
        for _ in range(11):
            rates.append((o.param_groups[0]["lr"], o.param_groups[0]["momentum"], s.get_last_lr()[0]))
            o.step()
            s.step()
        got.append(rates)
    np.testing.assert_allclose(*got, rtol=1e-6)


@needs_torch
def test_a_schedule_by_numbers_and_its_state():
    numbers = [3, 2, 2, 2, 1.9999, 2, 2, 1, 1, 1, 1, 1, 1]
    got = []
    for lib in (td, torch):
        o = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.5)
        s, rates = lib.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1, min_lr=0.1), []
        for v in numbers:
            s.step(v)
            rates.append(o.param_groups[0]["lr"])
        got.append(rates)
    assert got[0] == got[1] and got[0][-1] < 0.5
    o = td.optim.SGD([td.ones(1, requires_grad=True)], lr=1.0)
    s = td.optim.lr_scheduler.StepLR(o, 2)
    for _ in range(3):
        o.step(), s.step()
    other = td.optim.lr_scheduler.StepLR(td.optim.SGD([td.ones(1)], lr=1.0), 5)
    other.load_state_dict(s.state_dict())
    assert other.last_epoch == 3 and other.step_size == 2


@needs_torch
@pytest.mark.parametrize("text", ["Linear(3, 4)", "Conv2d(1, 4, 3, padding=1)", "Conv2d(2, 4, 3, stride=2, bias=False, groups=2)", "Conv1d(1, 4, 3)",
                                  "MaxPool2d(2)", "Dropout(0.2)", "ReLU(inplace=True)", "LeakyReLU()", "GELU()", "Flatten()", "Tanh()",
                                  "Embedding(3, 4, padding_idx=0)", "LSTM(3, 4, 2, batch_first=True)", "GRU(3, 4)", "Softmax(dim=1)", "CrossEntropyLoss()",
                                  "Sequential(n.Linear(2, 3), n.ReLU())", "AdaptiveAvgPool2d((1, 1))", "LSTMCell(3, 4)", "PReLU()"])
def test_layers_are_shown_alike(text):
    assert repr(eval("n." + text, {"n": nn})) == repr(eval("n." + text, {"n": torch.nn}))


def test_hooks_of_forward():
    net, seen = nn.Linear(2, 2), []
    with net.register_forward_hook(lambda m, args, out: seen.append(out.shape) or out * 0):
        assert net(td.ones(1, 2)).abs().sum().item() == 0 and seen == [(1, 2)]
    handle = net.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    assert td.equal(net(td.ones(1, 2))[0], net.bias)
    handle.remove()
    assert not td.equal(net(td.ones(1, 2))[0], net.bias)


def test_modules_find_their_parts():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    assert net.get_submodule("1.1") is net[1][1] and net.get_parameter("1.1.bias") is net[1][1].bias
    assert [n for n, _ in net.named_parameters("a")] == ["a.0.weight", "a.0.bias", "a.1.1.weight", "a.1.1.bias"]
    assert list(net.state_dict(prefix="b.")) == ["b.0.weight", "b.0.bias", "b.1.1.weight", "b.1.1.bias"]
    assert repr(net.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    with pytest.raises(td.Unsupported, match="cuda"):
        net.to("cuda")
    with pytest.raises(AttributeError, match="no module"):
        net.get_submodule("3")


@pytest.mark.parametrize("wrong, word", [
    (lambda: nn.Embedding(2, 3, sparse=True), "sparse"),
    (lambda: F.interpolate(td.ones(1, 1, 2), scale_factor=2, mode="bicubic"), "mode"),
])
def test_what_is_not_here_is_refused_by_name(wrong, word):
    with pytest.raises(td.Unsupported, match=word):
        wrong()


def test_truncated_normal_numbers():
    x = nn.init.trunc_normal_(td.empty(4000), std=2.0, a=-1.0, b=3.0)
    assert x.min().item() >= -1 and x.max().item() <= 3 and 0.5 < x.mean().item() < 1.1


def test_the_root_mean_square_of_halves_is_taken_in_float32():
    x = td.tensor([[300.0, 400.0], [0.001, 1.0]], dtype=td.float16)
    y = F.rms_norm(x, (2,), td.tensor([1.1, 2.3], dtype=td.float16))
    assert y.dtype == td.float16 and y.tolist() == [[0.93310546875, 2.603515625], [0.0015554428100585938, 3.25390625]]  # PyTorch 2.13's
    assert F.rms_norm(td.tensor([[1e-4, 2e-4]], dtype=td.bfloat16), (2,)).tolist() == [[0.263671875, 0.52734375]]


@pytest.mark.parametrize("dtype", [td.float16, td.bfloat16])
def test_norms_keep_the_type_of_halves_beside_weights_of_float32(dtype):
    x, w, b = td.randn(2, 4, 3).to(dtype), td.rand(4, requires_grad=True), td.randn(4)
    for given in ((w, b), (w, None), (None, b), (None, None)):
        y, wide = F.group_norm(x, 2, *given), F.group_norm(x.float(), 2, *given)
        assert y.dtype is dtype and td.allclose(y.float(), wide, rtol=0.02, atol=0.02)
        assert F.instance_norm(x, None, None, *given).dtype is dtype
    F.group_norm(x, 2, w, b).sum().backward()
    assert w.grad.dtype is td.float32
    assert F.rms_norm(x, (3,), td.rand(3)).dtype is dtype
    mean, var = td.zeros(4), td.ones(4)
    rows, v, c = td.randn(5, 4).to(dtype).requires_grad_(), td.rand(4, requires_grad=True), td.randn(4)
    for own, of in ((rows, lambda x: F.layer_norm(x, (4,), v, c)), (rows, lambda x: F.layer_norm(x, (4,), v)), (x, lambda x: F.batch_norm(x, mean, var, v, c)),
                    (x, lambda x: F.batch_norm(x, mean.clone(), var.clone(), v, None, True))):
        y, wide = of(own), of(own.detach().float())
        assert y.dtype is dtype and td.equal(y, wide.to(dtype)), "computed in float32"
    v.grad = None
    F.layer_norm(rows, (4,), v, c).sum().backward()
    assert rows.grad.dtype is dtype and v.grad.dtype is td.float32
    for wrong in (lambda: F.layer_norm(rows, (4,), v, c.to(dtype)), lambda: F.layer_norm(rows.double(), (4,), v, c), lambda: F.layer_norm(rows.float(), (4,), v.to(dtype))):
        with pytest.raises(TypeError):
            wrong()


@needs_torch
@pytest.mark.parametrize("place", ["activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance", "dropout", "flatten", "fold", "instancenorm", "linear",
                                   "loss", "module", "normalization", "padding", "pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling", "utils"])
def test_layers_stand_where_programs_import_them_from(place):
    import importlib

    theirs = importlib.import_module("torch.nn.modules." + place)
    ours = importlib.import_module("tensord.nn.modules." + place)
    absent = {"Container", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", *(n for n in dir(theirs) if n.startswith("register_module_"))}
    for name in {n for n in getattr(theirs, "__all__", ()) if n not in absent}:
        assert getattr(ours, name) is getattr(ours if place == "utils" else td.nn, name)
    assert getattr(td.nn.modules, place) is ours
    bases = [n for n in vars(theirs) if n[0] == "_" and hasattr(ours, n) and isinstance(getattr(theirs, n), type)]
    for base in bases:  # the same layers are of a kind
        for name in set(dir(ours)) & set(dir(theirs)):
            mine, other = getattr(ours, name), getattr(theirs, name)
            if isinstance(mine, type) and isinstance(other, type) and name[0] != "_":
                assert issubclass(mine, getattr(ours, base)) == issubclass(other, getattr(theirs, base)), (base, name)


def test_what_layers_of_one_s_own_ask_for():
    from tensord.nn.modules.utils import _list_with_default, _ntuple, _pair, _reverse_repeat_tuple, consume_prefix_in_state_dict_if_present

    assert _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2) and _ntuple(4)("ab") == ("a", "b") and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert _list_with_default([None, 3], [1, 2, 5]) == [2, 3] and _list_with_default(4, []) == 4
    with pytest.raises(ValueError, match="more defaults"):
        _list_with_default([1, 2], [1, 2])
    state = nn.Sequential(nn.Linear(1, 1)).state_dict(prefix="module.")
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"]

    class Off(nn.modules.loss._WeightedLoss):
        def forward(self, x):
            return x if self.reduction == "none" else x.mean()

    with pytest.warns(UserWarning, match="reduction='none'"):
        assert Off(td.ones(2), None, False)(td.ones(3)).shape == (3,)
    assert Off(reduction="sum").weight is None and list(Off(td.ones(2)).state_dict()) == ["weight"]
    for switched, kind in ((nn.Dropout2d(), nn.modules.dropout._DropoutNd), (nn.ConvTranspose3d(1, 1, 1), nn.modules.conv._ConvTransposeNd)):
        assert isinstance(switched, kind)


@needs_torch
def test_batch_norms_for_several_processes():
    for lib in (td,) if OLD else (td, torch):
        inner = lib.nn.BatchNorm1d(3, eps=0.1)
        net = lib.nn.Sequential(lib.nn.Conv1d(2, 3, 1), inner.eval(), lib.nn.Sequential(lib.nn.BatchNorm1d(3, affine=False, momentum=None)), lib.nn.InstanceNorm1d(3))
        made = lib.nn.SyncBatchNorm.convert_sync_batchnorm(net)
        assert made is net and type(made[1]) is type(made[2][0]) is lib.nn.SyncBatchNorm and made[1].weight is inner.weight and not made[1].training
        assert repr(made[2][0]) == "SyncBatchNorm(3, eps=1e-05, momentum=None, affine=False, bias=False, track_running_stats=True)" and made[2][0].training
        with pytest.raises(ValueError, match="expected at least 2D"):
            made[1](lib.ones(3))
        assert type(made[3]) is lib.nn.InstanceNorm1d and made(lib.ones(2, 2, 4)).shape == (2, 3, 4)
    for make in (lambda n: n.BatchNorm1d(3, bias=False), lambda n: n.InstanceNorm1d(3, affine=True), lambda n: n.GroupNorm(1, 3, bias=False), lambda n: n.LayerNorm(5, bias=False),
                 lambda n: n.InstanceNorm2d(3), lambda n: n.LazyBatchNorm1d(bias=False), lambda n: n.SyncBatchNorm(3, bias=False), lambda n: n.GroupNorm(3, 3)):
        if not OLD:
            assert repr(make(nn)) == repr(make(torch.nn)) and list(make(nn).state_dict()) == list(make(torch.nn).state_dict())
            make(nn).reset_parameters()
            assert make(nn)(td.ones(2, 3, 5) if "2d" not in repr(make(nn)) else td.ones(2, 3, 5, 1)).isfinite().all()
    x = td.randn(4, 3, 5)
    assert td.equal(nn.SyncBatchNorm(3)(x), nn.BatchNorm1d(3)(x))
    with pytest.raises(td.Unsupported, match="process_group"):
        nn.SyncBatchNorm(3, process_group=1)


def test_channels_over_what_is_next_to_them():
    x = td.randn(2, 7, 3, 4, dtype=td.float64).requires_grad_()
    for size, reach in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2)):
        layer = nn.CrossMapLRN2d(size, alpha=0.3, beta=0.6, k=1.5)
        sums = td.stack([(x[:, max(0, c - reach) : c + reach + 1] ** 2).sum(1) for c in range(7)], 1)
        assert td.allclose(layer(x), x / (1.5 + 0.3 / size * sums) ** 0.6)
        assert td.autograd.gradcheck(layer, x)
    assert repr(layer) == "CrossMapLRN2d(5, alpha=0.3, beta=0.6, k=1.5)"
    with pytest.raises(ValueError, match="got 3D instead"):
        layer(x[0])


# ---- hooks of all modules, and modules that are not made yet


def _hooks_of_all(lib):
    """What hooks of all modules are told by a small net, and that nothing is told when they are gone."""
    from importlib import import_module

    place, log = import_module(lib.__name__ + ".nn.modules.module"), []
    name = lambda m: type(m).__name__  # noqa: E731
    handles = [place.register_module_forward_pre_hook(lambda m, args: log.append(("before", name(m)))),
               place.register_module_forward_hook(lambda m, args, kwargs, out: log.append(("named", sorted(kwargs))), with_kwargs=True),
               place.register_module_forward_hook(lambda m, args, out: log.append(("behind", name(m))) or (out * 2 if name(m) == "Linear" else None)),
               place.register_module_full_backward_pre_hook(lambda m, go: log.append(("comes", name(m), go[0].tolist()))),
               place.register_module_full_backward_hook(lambda m, gi, go: log.append(("came", name(m), go[0].tolist()))),
               place.register_module_parameter_registration_hook(lambda m, n, p: log.append(("parameter", n))),
               place.register_module_buffer_registration_hook(lambda m, n, b: lib.full_like(b, 3) if n == "b" else None),
               place.register_module_module_registration_hook(lambda m, n, sub: log.append(("module", n)))]
    try:
        net = lib.nn.Sequential(lib.nn.Linear(2, 1, bias=False), lib.nn.Tanh())
        net.b = 1
        net.register_buffer("c", lib.ones(1))
        own = net[0].register_forward_pre_hook(lambda m, args: log.append(("own", name(m))))
        with lib.no_grad():
            net[0].weight.fill_(0.5)
        x = lib.ones(1, 2, requires_grad=True)
        assert net(x).item() == pytest.approx(math.tanh(2.0))
        net(x).sum().backward()
        net = lib.nn.BatchNorm1d(1)
        net.register_buffer("b", lib.ones(1))
        assert net.b.tolist() == [3]
    finally:
        for h in handles:
            h.remove()
    told = len(log)
    lib.nn.Linear(2, 2)(lib.ones(1, 2)).sum().backward()
    assert len(log) == told
    own.remove()
    return [e if e[0] not in ("comes", "came") else (*e[:-1], [[round(v, 4) for v in row] for row in e[-1]]) for e in log]


def test_hooks_of_all_modules():
    log = _hooks_of_all(td)
    assert log[:3] == [("parameter", "weight"), ("module", "0"), ("module", "1")]
    assert log[3:9] == [("before", "Sequential"), ("before", "Linear"), ("own", "Linear"), ("named", []), ("behind", "Linear"), ("before", "Tanh")]
    assert [e[1] for e in log if e[0] == "came"] == ["Tanh", "Linear", "Sequential"]
    if NEW:
        assert log == _hooks_of_all(torch)


def test_what_is_assigned_before_init_of_a_module():
    class Net(nn.Module):
        def __init__(self, first):
            self.width, self.child = 3, first
            super().__init__()

    net = Net(None)
    assert net.width == 3 and net.child is None and list(net.children()) == []
    for first in (nn.Identity(), nn.Parameter(td.ones(1))):
        with pytest.raises(AttributeError, match=rf"call super\(\).__init__\(\) before assigning a {type(first).__name__} to a Module"):
            Net(first)


def test_factory_kwargs():
    assert nn.factory_kwargs(None) == {} and nn.factory_kwargs({"dtype": td.float64}) == {"dtype": td.float64}
    assert nn.factory_kwargs({"factory_kwargs": {"device": "cpu"}, "dtype": None}) == {"device": "cpu", "dtype": None}
    for wrong in ({"dvice": "cpu"}, {"dtype": 1, "factory_kwargs": {"dtype": 2}}):
        with pytest.raises(TypeError, match="unexpected kwargs|specified twice"):
            nn.factory_kwargs(wrong)
        if torch is not None:
            with pytest.raises(TypeError):
                torch.nn.factory_kwargs(wrong)


@pytest.mark.parametrize("name", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"])
def test_a_share_that_is_none(name):
    """Is refused where the layer is made, not by its first batch."""
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            getattr(td.nn, name)(p)


def test_what_a_module_applies():
    """to() and its kin go by _apply(), which modules of others write for what is neither parameter nor buffer."""

    class Held(td.nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.beside = td.ones(2)

        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            self.beside = fn(self.beside)
            return self

    net = td.nn.Sequential(td.nn.Linear(2, 2), Held())
    net(td.ones(1, 2)).sum().backward()
    kept = list(net.parameters())
    assert net.double() is net and net[1].beside.dtype == td.float64
    assert all(p is q and p.dtype == p.grad.dtype == td.float64 and p.requires_grad for p, q in zip(net.parameters(), kept))
    net._apply(lambda x: x * 0 + 3)
    assert net[1].beside.tolist() == [3, 3] and all(p is q and (p == 3).all() and (p.grad == 3).all() for p, q in zip(net.parameters(), kept))
    net._apply(lambda x: x.float(), recurse=False)
    assert net[0].weight.dtype == td.float64


def test_children_and_their_names():
    a, b = td.nn.Linear(2, 2), td.nn.ReLU()
    net = td.nn.Sequential(a, b, a, b)
    assert list(net.children()) == [a, b] and [n for n, _ in net.named_children()] == ["0", "1"] and len(net) == 4
    assert list(td.nn.Sequential(a, b) * 2) == list(2 * td.nn.Sequential(a, b)) == [a, b, a, b]
    twice = td.nn.Sequential(a, b)
    same = twice
    twice *= 3
    assert twice is same and list(twice) == [a, b] * 3
    for wrong, error in ((lambda: net.add_module(1, a), TypeError), (lambda: net.add_module("x", 3), TypeError), (lambda: net.add_module("training", a), KeyError),
                         (lambda: net.add_module("a.b", a), KeyError), (lambda: net.add_module("", a), KeyError), (lambda: td.nn.ModuleDict({1: a}), TypeError),
                         (lambda: net * 0, ValueError), (lambda: net * 1.5, TypeError), (lambda: td.nn.ModuleList([a]) * 2, TypeError), (lambda: net.insert(9, a), IndexError)):
        with pytest.raises(error):
            wrong()
    some = td.nn.ParameterList([td.ones(1), td.ones(2), td.ones(3)])
    assert isinstance(some[1:], td.nn.ParameterList) and [p.numel() for p in some[1:]] == [2, 3] and some[1:][0] is some[1]


def test_statistics_that_are_not_tracked_any_longer():
    norm, x = td.nn.BatchNorm1d(3), td.randn(5, 3)
    norm(x)
    norm.track_running_stats = False
    before = [b.clone() for b in norm.buffers()]
    y = norm(td.randn(5, 3) * 4)
    assert all(td.equal(p, q) for p, q in zip(before, norm.buffers())) and y.mean().abs().item() < 1e-5
    norm.eval()
    assert td.allclose(norm(x), (x - before[0]) / (before[1] + norm.eps).sqrt(), atol=1e-5)


def test_cosines_of_whole_numbers_and_of_wrong_targets():
    few = td.tensor([12, 100], dtype=td.int8)
    assert F.cosine_similarity(few, td.tensor([12.0, 100.0]), dim=0).item() == pytest.approx(1)
    x = td.ones(3, 4)
    for one, target in ((x, td.ones(3, 1)), (x[0], td.ones(1)), (x, td.tensor(1.0))):
        with pytest.raises(RuntimeError, match="target tensor expect"):
            F.cosine_embedding_loss(one, one, target)
    assert F.cosine_embedding_loss(x[0], x[0], td.tensor(-1.0)).item() == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions_by_themselves(n):
    conv = getattr(F, f"conv{n}d")
    x = td.randn(2, 4, *[7, 6, 5][:n], dtype=td.float64, requires_grad=True)
    w = td.randn(6, 2, *[3, 2, 2][:n], dtype=td.float64, requires_grad=True)
    settings = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    y = conv(x, w, None, **settings)
    g = td.randn(*y.shape, dtype=td.float64)
    y.backward(g)
    of_x, of_w = getattr(nn.grad, f"conv{n}d_input"), getattr(nn.grad, f"conv{n}d_weight")
    assert td.allclose(of_x(x.shape, w, g, **settings), x.grad) and td.allclose(of_w(x, w.shape, g, **settings), w.grad)
    assert not of_x(x.shape, w.detach(), g, **settings).requires_grad
    with pytest.raises(td.ShapeError, match="a size of"):
        of_w(x, (6,), g)


def test_dir_of_a_module_leaves_out_numbers():
    assert "weight" in dir(nn.Linear(1, 1)) and "0" not in dir(nn.Sequential(nn.ReLU()))


class Doubled(nn.Module):
    """Writes its part in a way of its own, as its version 3 does; its first wrote the half under another name."""

    _version = 3

    def __init__(self):
        super().__init__()
        self.weight, self.inner, self.seen = nn.Parameter(td.ones(2)), nn.Linear(2, 1), []

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[prefix + "twice"] = self.weight.detach() * 2

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.seen.append((prefix, local_metadata.get("version")))
        name, factor = ("twice", 0.5) if local_metadata.get("version") == 3 else ("old", 1)
        if prefix + name in state_dict:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + name) * factor
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], None, "ab", 3, np.array(["a", "b"])])
def test_a_state_with_what_is_no_tensor(wrong):
    net = nn.Linear(2, 2)
    before = net.weight.tolist()
    for assign in (False, True):
        with pytest.raises(td.InvalidError, match="does not fit Linear: bias is a"):
            net.load_state_dict({"weight": td.ones(2, 2), "bias": wrong}, assign=assign)
        assert net.weight.tolist() == before
    given = {"weight": np.ones((2, 2), np.float32), "bias": td.ones(2)}
    net.load_state_dict(given)
    assert net.weight.tolist() == [[1, 1], [1, 1]] and type(given["weight"]) is np.ndarray


def test_states_whose_metadata_or_keys_are_odd():
    net = nn.Linear(2, 2)
    state = net.state_dict()
    state._metadata = None
    assert str(net.load_state_dict(state)) == "<All keys matched successfully>"
    with pytest.raises(td.InvalidError, match="unexpected: 3"):
        net.load_state_dict({**net.state_dict(), 3: td.ones(1)})


def test_a_class_that_writes_and_reads_its_state_itself():
    net, other = nn.Sequential(nn.Linear(2, 2), Doubled()), nn.Sequential(nn.Linear(2, 2), Doubled())
    with td.no_grad():
        net[1].weight.copy_(td.tensor([3.0, 5.0]))
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.twice", "1.inner.weight", "1.inner.bias"] and state["1.twice"].tolist() == [6, 10]
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 3}, "1.inner": {"version": 1}}
    assert not any(other.load_state_dict(state)) and other[1].weight.tolist() == [3, 5] and other[1].seen == [("1.", 3)]
    assert other[1].inner.weight.equal(net[1].inner.weight) and "1.twice" in state  # what was given is as it was
    before = {k.replace("twice", "old"): v for k, v in state.items()}
    other.load_state_dict(before)
    assert other[1].weight.tolist() == [6, 10] and other[1].seen[1] == ("1.", None)
    before["1.more"] = before["1.inner.more"] = before.pop("1.old")
    keys = other.load_state_dict(before, strict=False)
    assert keys.missing_keys == ["1.weight"] and sorted(keys.unexpected_keys) == ["1.inner.more", "1.more"]
    with pytest.raises(RuntimeError, match="missing: 1.weight; unexpected: 1.more, 1.inner.more"):
        other.load_state_dict(before)
    with pytest.raises(RuntimeError, match=r"1.weight has shape \(3,\)"):
        other.load_state_dict({**state, "1.old": td.ones(3)}, strict=False)
    read = other.load_state_dict(dict(state, **{"1.old": td.ones(2)}), assign=True, strict=False)
    assert read.unexpected_keys == ["1.twice"] and other[1].inner.bias.data_ptr() == net[1].inner.bias.data_ptr()


def test_states_of_norms_from_before_they_counted_batches():
    bn = nn.BatchNorm1d(2)
    bn.num_batches_tracked.fill_(7)
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="missing: num_batches_tracked"):
        bn.load_state_dict(state)
    assert not any(nn.Sequential(bn).load_state_dict({"0." + k: v for k, v in state.items()})) and bn.num_batches_tracked.item() == 7
    state._metadata[""]["version"] = 1
    assert not any(bn.load_state_dict(state)) and "num_batches_tracked" not in state


def test_what_a_state_says_of_itself_is_saved():
    state, kept = nn.Sequential(nn.BatchNorm1d(2)).state_dict(), io.BytesIO()
    td.save(state, kept, format="pt")
    kept.seek(0)
    assert td.load(kept)._metadata == copy.deepcopy(state)._metadata == {"": {"version": 1}, "0": {"version": 2}}
    own = OrderedDict()
    assert nn.Linear(1, 1).state_dict(destination=own, prefix="a.") is own and list(own) == ["a.weight", "a.bias"]


def test_what_cannot_be_registered():
    module = nn.Linear(2, 2)
    for register, made in ((module.register_parameter, nn.Parameter(td.ones(1))), (module.register_buffer, td.ones(1))):
        for name, error in ((5, TypeError), ("a.b", KeyError), ("", KeyError), ("in_features", KeyError), ("forward", KeyError)):
            with pytest.raises(error):
                register(name, made)
        with pytest.raises(TypeError, match="required"):
            register("w", "a text")
    with pytest.raises(TypeError, match="a Parameter"):
        module.register_parameter("w", td.ones(2))
    module.register_parameter("weight", None)  # one of that name may be replaced
    module.register_buffer("held", None)
    module.register_buffer("held", td.ones(1))
    assert module.weight is None and module.held.item() == 1
    with pytest.raises(TypeError, match="dict-like"):
        module.load_state_dict([1])


@pytest.mark.parametrize("ignored", [-100, -1, 3, 255])
def test_smoothed_classes_with_weights_leave_out_any_number(ignored):
    """Also one that is larger than all classes, as 255 is in pictures of classes."""
    x, weight = td.randn(4, 3, dtype=td.float64), td.tensor([0.3, 0.6, 0.1], dtype=td.float64)
    settings = {"weight": weight, "label_smoothing": 0.2}
    loss = F.cross_entropy(x, td.tensor([0, ignored, 2, 1]), ignore_index=ignored, **settings)
    assert loss.item() == pytest.approx(F.cross_entropy(x[td.tensor([0, 2, 3])], td.tensor([0, 2, 1]), **settings).item())
    with pytest.raises(IndexError):
        F.cross_entropy(x, td.tensor([0, 7, 2, 1]), ignore_index=ignored, **settings).item()


@pytest.mark.parametrize("given", [False, True])
def test_smoothed_classes_that_are_left_out_give_no_nan(given):
    """Neither their scores, which may be anything, nor a mean over none, whose slopes are 0."""
    settings = {"weight": td.tensor([0.3, 0.6, 0.1], dtype=td.float64) if given else None, "label_smoothing": 0.2}
    x = td.tensor([[1.0, 2.0, 3.0], [float("nan"), 0.0, float("-inf")]], dtype=td.float64)
    for reduction in ("mean", "sum"):
        loss = F.cross_entropy(x, td.tensor([2, -100]), reduction=reduction, **settings)
        assert loss.item() == F.cross_entropy(x[:1], td.tensor([2]), reduction=reduction, **settings).item()
    scores = td.randn(2, 3, dtype=td.float64, requires_grad=True)
    loss = F.cross_entropy(scores, td.tensor([-100, -100]), **settings)
    loss.backward()
    assert math.isnan(loss.item()) and scores.grad.tolist() == [[0.0] * 3] * 2


def test_norms_of_what_has_no_spread():
    with pytest.raises(ValueError, match="divisible"):
        nn.GroupNorm(3, 4)
    for norm, shape in ((nn.InstanceNorm1d(3), (2, 3, 1)), (nn.InstanceNorm2d(3), (3, 1, 1)), (nn.InstanceNorm2d(3, track_running_stats=True), (2, 3, 1, 1))):
        with pytest.raises(ValueError, match="more than 1 spatial element"):
            norm(td.ones(shape))
    assert nn.InstanceNorm1d(3, track_running_stats=True).eval()(td.ones(2, 3, 1)).shape == (2, 3, 1)
