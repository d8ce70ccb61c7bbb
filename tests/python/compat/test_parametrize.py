"""tensord.nn.utils.parametrize and parametrizations: values, names, gradients and errors as torch has them."""
import copy
import pickle

import pytest
import tensord as td
import tensord.nn as nn
from tensord.nn.utils import parametrizations, parametrize

try:
    import numpy as np
    import torch
    import torch.nn.utils.parametrize  # noqa: F401
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


class Split(nn.Module):
    """Out of two originals."""

    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return 0.25 * x, 0.75 * x


def test_a_weight_is_worked_out():
    layer = nn.Linear(3, 3)
    before, weight = layer.weight.detach().clone(), layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert td.equal(layer.weight, layer.weight.mT) and td.equal(layer.weight.triu(), before.triu())
    assert layer.parametrizations.weight.original is weight, "an optimizer goes on with it"
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear and isinstance(layer, nn.Linear) and type(layer).__name__ == "ParametrizedLinear"
    layer(td.ones(2, 3)).sum().backward()
    assert td.equal(weight.grad, td.tensor([[2.0, 4, 4], [0, 2, 4], [0, 0, 2]]))
    layer.weight = td.full((3, 3), 2.0)
    assert layer.weight.tolist() == [[2.0] * 3] * 3 and weight.tolist() == [[2, 2, 2], [0, 2, 2], [0, 0, 2]]
    with pytest.raises(KeyError, match="already exists"):
        layer.weight = nn.Parameter(td.ones(3, 3))
    other = nn.Linear(3, 3)
    assert type(other) is nn.Linear and "weight" in dict(other.named_parameters())


def test_one_behind_the_other():
    layer = nn.Linear(2, 2)
    with td.no_grad():
        layer.weight.copy_(td.tensor([[1.0, 2], [3, 4]]))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "bias", Doubled())
    assert layer.weight.tolist() == [[2, 4], [4, 8]] and len(layer.parametrizations.weight) == 2
    with pytest.raises(RuntimeError, match="Doubled does not implement right_inverse"):
        layer.weight = td.ones(2, 2)
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.tolist() == [[2, 4], [4, 8]] and parametrize.is_parametrized(layer, "bias") and isinstance(layer.weight, nn.Parameter)
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert type(layer) is nn.Linear and not hasattr(layer, "parametrizations") and list(layer.state_dict()) == ["weight", "bias"]


def test_several_originals_and_buffers():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Split())
    assert [n for n, _ in layer.named_parameters()][1:] == ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    td.testing.assert_close(layer.weight.detach(), before)
    layer.weight = td.ones(2, 2)
    assert layer.parametrizations.weight.original0.tolist() == [[0.25] * 2] * 2
    with pytest.raises(ValueError, match="leave_parametrized=False"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == [[1, 1], [1, 1]]
    norm = nn.BatchNorm1d(2)
    parametrize.register_parametrization(norm, "running_mean", Doubled())
    assert "parametrizations.running_mean.original" in dict(norm.named_buffers()) and norm.running_mean.tolist() == [0, 0]
    parametrize.remove_parametrizations(norm, "running_mean")
    assert "running_mean" in dict(norm.named_buffers())


def test_looked_at_once():
    looks = []

    class Counts(nn.Module):
        def forward(self, x):
            looks.append(1)
            return x + 1

        def right_inverse(self, x):
            return x - 1

    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Counts())
    looks.clear()
    with parametrize.cached():
        with parametrize.cached():
            assert layer.weight is layer.weight
        assert layer.weight is layer.weight and len(looks) == 1
        layer.weight = td.ones(2, 2)
        assert layer.weight.tolist() == [[1, 1], [1, 1]] and len(looks) == 2
    layer.weight, layer.weight
    assert len(looks) == 4


def test_copies_and_other_processes():
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert td.equal(made.weight, layer.weight) and parametrize.is_parametrized(made, "weight") and list(made.state_dict()) == list(layer.state_dict())
        parametrize.remove_parametrizations(made, "weight")
        assert type(made) is nn.Linear and parametrize.is_parametrized(layer, "weight"), "each has its own"
        td.testing.assert_close(made.weight.detach(), layer.weight.detach())
    other = nn.Linear(3, 2)
    parametrize.transfer_parametrizations_and_params(layer, other, "weight")
    assert td.equal(other.weight, layer.weight) and other.parametrizations.weight.original0 is layer.parametrizations.weight.original0
    assert parametrize.transfer_parametrizations_and_params(nn.Linear(1, 1), other) is other


class Wrong(nn.Module):
    def __init__(self, there, back=None):
        super().__init__()
        self.there = there
        if back is not None:
            self.right_inverse = back

    def forward(self, x):
        return self.there(x)


@pytest.mark.parametrize("there, back, said", [
    (lambda x: x[0], None, "may not change the shape"), (lambda x: x.double(), None, "may not change the dtype"), (lambda x: 3, None, "must return a tensor"),
    (lambda x: x, lambda x: 3, "must return a"), (lambda x: x, lambda x: x.double(), "dtype"),
])
def test_refused(there, back, said):
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=said):
        parametrize.register_parametrization(layer, "weight", Wrong(there, back))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with pytest.raises(ValueError, match=said):
        parametrize.register_parametrization(layer, "weight", Wrong(there, back))
    assert len(layer.parametrizations.weight) == 1


def test_refused_names_and_values():
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'weigh'"):
        parametrize.register_parametrization(layer, "weigh", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(ValueError, match="one or more"):
        parametrize.ParametrizationList([], td.ones(2))
    parametrize.register_parametrization(layer, "weight", Wrong(lambda x: x[:1], lambda x: x), unsafe=True)
    assert layer.weight.shape == (1, 2) and layer.parametrizations.weight.unsafe
    for wrong, said in ((lambda: parametrizations.orthogonal(nn.Linear(2, 2), "bias"), "Expected a matrix"),
                        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr"), "orthogonal_map has to be"),
                        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "nothing"), "no parameter or buffer"),
                        (lambda: parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "n_power_iterations"),
                        (lambda: parametrizations.spectral_norm(nn.Linear(2, 2), "nothing"), "no parameter or buffer")):
        with pytest.raises(ValueError, match=said):
            wrong()
    with pytest.raises(IndexError, match="out of range"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)
    exact = parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="use_trivialization"):
        exact.weight = td.eye(2)


@needs_torch
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (2, 4)])
@pytest.mark.parametrize("turned", [True, False])
def test_orthogonal(kind, shape, turned):
    mine, theirs = nn.Linear(*shape[::-1], dtype=td.float64), torch.nn.Linear(*shape[::-1], dtype=torch.float64)
    parametrizations.orthogonal(mine, orthogonal_map=kind, use_trivialization=turned)
    torch.nn.utils.parametrizations.orthogonal(theirs, orthogonal_map=kind, use_trivialization=turned)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    with torch.no_grad():
        x = theirs.parametrizations.weight.original
        x.add_(torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 0.1)
        x.diagonal().round_()
    mine.load_state_dict(theirs.state_dict())
    q = mine.weight
    np.testing.assert_allclose(q.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-10, atol=1e-10)
    td.testing.assert_close((q.mT @ q if shape[0] >= shape[1] else q @ q.mT).detach(), td.eye(min(shape), dtype=td.float64))
    for w in (mine.weight, theirs.weight):
        (w**3).sum().backward()
    np.testing.assert_allclose(mine.parametrizations.weight.original.grad.numpy(), theirs.parametrizations.weight.original.grad.numpy(), rtol=1e-8, atol=1e-10)
    if turned or (kind or ("householder" if shape[0] != shape[1] else "")) == "householder":
        given = np.linalg.qr(np.random.default_rng(2).standard_normal(shape if shape[0] >= shape[1] else shape[::-1]))[0]
        mine.weight = td.tensor(given if shape[0] >= shape[1] else given.T.copy())
        np.testing.assert_allclose(mine.weight.detach().numpy(), given if shape[0] >= shape[1] else given.T, atol=1e-10)


def test_unitary():
    layer = nn.Linear(3, 3, dtype=td.complex64)
    for kind in ("matrix_exp", "cayley"):
        q = parametrizations.orthogonal(copy.deepcopy(layer), orthogonal_map=kind).weight.detach()
        td.testing.assert_close(q.mH @ q, td.eye(3).to(td.complex64), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="complex"):
        parametrizations.orthogonal(layer, orthogonal_map="householder")


@needs_torch
@pytest.mark.parametrize("dim", [0, 1, None, -1])
def test_weight_norm(dim):
    if not hasattr(torch.nn.utils.parametrizations, "weight_norm"):
        pytest.skip("PyTorch 1.13 has none")
    mine, theirs = nn.Conv2d(2, 3, 2), torch.nn.Conv2d(2, 3, 2)
    mine.load_state_dict(theirs.state_dict())
    parametrizations.weight_norm(mine, dim=dim)
    torch.nn.utils.parametrizations.weight_norm(theirs, dim=dim)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    for w in (mine.weight, theirs.weight):
        (w**2 / 2 + w).sum().backward()
    for (_, a), (_, b) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)
        assert b.grad is None or np.allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_weight_norm_alone():
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    parametrizations.weight_norm(layer)
    td.testing.assert_close(layer.weight.detach(), before)
    assert list(layer.state_dict())[1:] == ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    td.testing.assert_close(layer.parametrizations.weight.original0.detach(), before.norm(dim=1, keepdim=True))
    layer.weight = 2 * before
    td.testing.assert_close(layer.weight.detach(), 2 * before)


def test_a_state_with_the_names_of_before():
    old, new = nn.utils.weight_norm(nn.Linear(3, 2)), nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 2)))
    new.load_state_dict({"0." + k: v for k, v in old.state_dict().items()})
    td.testing.assert_close(new(td.ones(1, 3)), old(td.ones(1, 3)))


@needs_torch
@pytest.mark.parametrize("make", [lambda m: m.Linear(4, 3), lambda m: m.Conv2d(2, 3, 2), lambda m: m.ConvTranspose2d(2, 3, 2), lambda m: m.PReLU(3)])
def test_spectral_norm(make):
    mine, theirs = make(nn), make(torch.nn)
    parametrizations.spectral_norm(mine, n_power_iterations=2)
    torch.nn.utils.parametrizations.spectral_norm(theirs, n_power_iterations=2)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {k: tuple(v.shape) for k, v in theirs.state_dict().items()}
    mine.load_state_dict(theirs.state_dict())
    for _ in range(2):
        for w in (mine.weight, theirs.weight):
            (w**3).sum().backward()
        np.testing.assert_allclose(mine.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mine.parametrizations.weight.original.grad.numpy(), theirs.parametrizations.weight.original.grad.numpy(), rtol=1e-3, atol=1e-5)
    assert td.equal(mine.eval().weight, mine.weight), "in evaluation nothing comes nearer"


def test_spectral_norm_converges():
    layer = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=20)
    assert td.linalg.matrix_norm(layer.weight.detach(), 2).item() == pytest.approx(1, abs=1e-3)
    optimizer = td.optim.SGD(layer.parameters(), lr=0.1)
    layer(td.ones(2, 5)).pow(2).sum().backward()
    optimizer.step()
    assert td.linalg.matrix_norm(layer.weight.detach(), 2).item() == pytest.approx(1, abs=1e-3)


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    @property
    def width(self):
        return 2

    def forward(self, x):
        return self.fc(x)


def test_programs():
    """Traced, but not scripted: what is worked out is a function of Python. Other properties are no matter."""
    net, x = Looks(), td.ones(1, 2)
    td.testing.assert_close(td.jit.script(net)(x), net(x))
    parametrizations.weight_norm(net.fc)
    with pytest.raises(TypeError, match="parametrized tensors of the module 'fc'"):
        td.jit.script(net)
    td.testing.assert_close(td.jit.trace(net, (x,))(x), net(x))
