"""Lazy modules, and parameters without a shape: what the first input makes of them, states before and after it, and errors."""
import copy
import pickle

import pytest
import tensord as td
import tensord.nn as nn

try:
    import numpy as np
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")

LAYERS = [  # how a layer is made, what it sees, what its lazy one becomes
    (lambda m: m.LazyLinear(3), (2, 4)), (lambda m: m.LazyLinear(3, bias=False), (5, 2, 4)), (lambda m: m.LazyConv1d(4, 3), (2, 6, 8)),
    (lambda m: m.LazyConv2d(4, 3, stride=2, padding=1, groups=2), (2, 6, 8, 8)), (lambda m: m.LazyConv2d(4, 3, padding=1, padding_mode="reflect"), (6, 8, 8)),
    (lambda m: m.LazyConv3d(4, 2, bias=False), (1, 2, 3, 4, 5)), (lambda m: m.LazyConvTranspose1d(4, 3), (2, 6, 8)),
    (lambda m: m.LazyConvTranspose2d(4, 3, stride=2, groups=2), (2, 6, 4, 4)), (lambda m: m.LazyConvTranspose3d(4, 2), (1, 2, 3, 4, 5)),
    (lambda m: m.LazyBatchNorm1d(), (4, 3)), (lambda m: m.LazyBatchNorm2d(affine=False), (4, 3, 2, 2)), (lambda m: m.LazyBatchNorm3d(track_running_stats=False), (2, 3, 2, 2, 2)),
    (lambda m: m.LazyInstanceNorm1d(affine=True), (2, 3, 4)), (lambda m: m.LazyInstanceNorm2d(track_running_stats=True), (2, 3, 4, 4)),
    (lambda m: m.LazyInstanceNorm3d(), (2, 3, 2, 2, 2))]


@pytest.mark.parametrize("make, shape", LAYERS)
def test_the_first_input_makes_it(make, shape):
    layer = make(nn)
    lazy, kept = type(layer), {id(p) for p in layer.parameters()}
    assert all(isinstance(p, nn.UninitializedParameter) and isinstance(p, nn.Parameter) for p in layer.parameters())
    assert layer.has_uninitialized_params() == (len(kept) > 0 or any(isinstance(b, nn.UninitializedBuffer) for b in layer.buffers()))
    out = layer(td.randn(*shape))
    assert type(layer) is lazy.cls_to_become and lazy.__name__ == "Lazy" + type(layer).__name__
    assert {id(p) for p in layer.parameters()} == kept and all(type(p) is nn.Parameter and p.is_leaf for p in layer.parameters()), "an optimizer may have them"
    if kept:
        out.sum().backward()
    assert all(p.grad.shape == p.shape for p in layer.parameters()) and layer(td.randn(*shape)).shape == out.shape


@needs_torch
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("make, shape", LAYERS)
def test_like_torch(make, shape):
    if shape == (6, 8, 8) and torch.__version__ < "2":
        pytest.skip("PyTorch 1.13 takes another dimension of one picture")
    mine, theirs, x = make(nn), make(torch.nn), np.random.default_rng(0).standard_normal(shape).astype("float32")
    assert repr(mine).split("(")[0] == repr(theirs).split("(")[0] and list(mine.state_dict()) == list(theirs.state_dict())
    theirs(torch.tensor(x))
    state = {k: v.clone() for k, v in theirs.state_dict().items()}
    mine.load_state_dict(state)  # which is enough to have all shapes
    assert not mine.has_uninitialized_params()
    np.testing.assert_allclose(mine(td.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {k: tuple(v.shape) for k, v in state.items()}


def test_a_network_is_made_and_learns():
    td.manual_seed(1)
    net = nn.Sequential(nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    optimizer = td.optim.Adam(net.parameters(), lr=0.05)
    x, y = td.randn(8, 3, 4, 4), td.arange(8) % 2
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2 and [type(m).__name__ for m in net] == ["Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear"]
    bound = 1 / 64**0.5
    fresh = nn.LazyLinear(3)
    fresh(td.ones(1, 64))
    assert 0 < fresh.weight.abs().max().item() <= bound and 0 < fresh.bias.abs().max().item() <= bound


def test_states():
    lazy, made = nn.LazyLinear(3), nn.LazyLinear(3)
    made(td.ones(1, 4))
    assert all(nn.parameter.is_lazy(v) for v in lazy.state_dict().values())
    other = nn.LazyLinear(3)
    other.load_state_dict(lazy.state_dict())
    assert other.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        made.load_state_dict(lazy.state_dict())
    lazy.load_state_dict(made.state_dict())
    assert td.equal(lazy.weight, made.weight) and type(lazy) is nn.LazyLinear
    weight = lazy.weight.detach().clone()
    with pytest.raises(ValueError, match="5 features.*4"):
        lazy(td.ones(1, 5))
    lazy(td.ones(1, 4))
    assert td.equal(lazy.weight, weight) and type(lazy) is nn.Linear and lazy.in_features == 4
    norm = nn.LazyBatchNorm1d()
    norm.load_state_dict(nn.BatchNorm1d(3).state_dict())
    assert norm.running_mean.shape == (3,) and norm(td.randn(4, 3)).shape == (4, 3)


def test_moved_and_copied_before_there_is_a_shape():
    layer = nn.LazyLinear(3, dtype=td.float64)
    assert layer.weight.dtype is td.float64 and layer.weight.requires_grad and layer.weight.is_leaf
    weight = layer.float().weight
    assert weight.dtype is td.float32 and isinstance(weight, nn.UninitializedParameter)
    norm = nn.LazyBatchNorm1d().double()
    assert norm.running_mean.dtype is td.float64 and isinstance(norm.running_mean, nn.UninitializedBuffer)
    assert norm(td.ones(2, 3, dtype=td.float64)).dtype is td.float64
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(twin.weight, nn.UninitializedParameter) and twin.weight is not weight
        assert twin(td.ones(2, 5)).shape == (2, 3)
    assert layer.has_uninitialized_params()
    layer.requires_grad_(False)
    layer(td.ones(1, 2))
    assert not layer.weight.requires_grad


def test_parameters_without_a_shape():
    p = nn.UninitializedParameter()
    assert repr(p) == "<UninitializedParameter>" and isinstance(p, td.Tensor) and p.requires_grad and p.grad is None
    for wrong in (lambda: p + 1, lambda: 1 + p, lambda: p @ p, lambda: p.detach(), lambda: p.numel(), lambda: len(p), lambda: p[0], lambda: p.sum(), lambda: float(p), lambda: -p):
        with pytest.raises(ValueError, match="uninitialized parameter"):
            wrong()
    for wrong in (lambda: p.shape, lambda: p.size()):
        with pytest.raises(RuntimeError, match="shape of an uninitialized"):
            wrong()
    p.materialize((2, 3), dtype=td.float64)
    assert type(p) is nn.Parameter and p.shape == (2, 3) and p.dtype is td.float64 and p.requires_grad and p.is_leaf
    b = nn.UninitializedBuffer()
    b.materialize((2,))
    assert type(b) is nn.Buffer and not b.requires_grad and b.shape == (2,)
    assert {p: 1}[p] == 1


def test_buffers_by_assignment():
    module = nn.Module()
    module.a, module.b = nn.Buffer(td.ones(2)), nn.Buffer(td.zeros(1), persistent=False)
    assert [n for n, _ in module.named_buffers()] == ["a", "b"] and list(module.state_dict()) == ["a"]
    module.a = td.zeros(3)
    assert module.a.shape == (3,) and list(module.state_dict()) == ["a"]
    module.b = nn.Buffer(td.zeros(1))
    assert list(module.state_dict()) == ["a", "b"] and not module.b.requires_grad


@pytest.mark.parametrize("wrong, kind, said", [
    (lambda: nn.LazyConv2d(3, 3)(td.ones(2, 2)), ValueError, r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"),
    (lambda: nn.LazyConv2d(4, 3, groups=2)(td.ones(1, 3, 5, 5)), ValueError, "in_channels must be divisible by groups"),
    (lambda: nn.LazyConv2d(3, 3, groups=2), ValueError, "divisible by groups"), (lambda: nn.LazyBatchNorm2d()(td.ones(2, 2)), ValueError, "expected 4D input"),
    (lambda: nn.LazyLinear(2)(), TypeError, "input"), (lambda: nn.LazyLinear(2).share_memory(), ValueError, "uninitialized"),
    (lambda: td.jit.script(nn.LazyLinear(2)), TypeError, "uninitialized parameters"), (lambda: nn.LazyLinear(2).load_state_dict({"weight": td.ones(2, 3)}), ValueError, "missing: bias")])
def test_refused(wrong, kind, said):
    with pytest.raises(kind, match=said):
        wrong()


class Half(nn._lazy.LazyModuleMixin):
    """Of a user's: it stays what it is, and does not make all."""

    def __init__(self, all_of_it):
        super().__init__()
        self.a, self.b, self.all = nn.UninitializedParameter(), nn.UninitializedParameter(), all_of_it

    def initialize_parameters(self, x, scale=1):
        self.a.materialize(x.shape)
        if self.all:
            self.b.materialize((1,))

    def forward(self, x, scale=1):
        return self.a.detach() * 0 + x * scale


def test_one_of_a_user_s():
    module = Half(True)
    assert module(td.ones(2), scale=3).tolist() == [3, 3] == module(td.ones(2), scale=3).tolist() and type(module) is Half
    with pytest.raises(RuntimeError, match="not been fully initialized: b"):
        Half(False)(td.ones(2))
