"""Recurrent layers as ops: second derivatives against torch, gradients that do not arrive, half types, what is refused, and that bits do not depend on the batch's neighbours."""

import pytest
import tensord as td
from tensord import nn

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
torch = pytest.importorskip("torch")


def pair(kind, dtype="float64", **options):
    """The same layer in torch and here."""
    torch.manual_seed(1)
    theirs = getattr(torch.nn, kind)(3, 4, **options).to(getattr(torch, dtype))
    ours = getattr(nn, kind)(3, 4, **options, dtype=getattr(td, dtype))
    with td.no_grad():
        for (name, a), (theirs_name, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
            assert name == theirs_name
            a.copy_(td.tensor(b.detach().numpy()))
    return ours, theirs


def second(lib, net, x):
    """Gradients, and the gradients of their squares' sum."""
    y, h = net(x)
    h = h[0] * h[1] if isinstance(h, tuple) else h
    grads = lib.autograd.grad((y**3).sum() + (h**2).sum(), [x, *net.parameters()], create_graph=True)
    sum((g**2).sum() for g in grads).backward()
    return [g.detach() for g in grads] + [x.grad] + [p.grad for p in net.parameters()]


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_second_derivatives_agree(kind, both_ways):
    ours, theirs = pair(kind, bidirectional=both_ways)
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    for a, b in zip(second(td, ours, td.tensor(x, requires_grad=True)), second(torch, theirs, torch.tensor(x, requires_grad=True)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-9)


def test_gradients_of_what_arrives():
    layer = nn.LSTM(3, 4)
    for pick in (lambda y, h, c: y[1], lambda y, h, c: h, lambda y, h, c: c):
        x = td.randn(3, 2, 3, requires_grad=True)
        y, (h, c) = layer(x)
        pick(y, h, c).sum().backward()
        assert bool((x.grad != 0).any()) and float(x.grad[2].abs().sum()) == 0 or pick(y, h, c).shape[0] == 1


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"])
def test_half_types(kind):
    layer = getattr(nn, kind)(3, 4)
    half = getattr(nn, kind)(3, 4, dtype=td.bfloat16)
    half.load_state_dict(layer.state_dict())
    x = td.randn(*(2, 3) if kind.endswith("Cell") else (5, 2, 3))
    wide, narrow = layer(x), half(x.to(td.bfloat16))
    wide, narrow = (wide[0], narrow[0]) if isinstance(wide, tuple) else (wide, narrow)
    assert narrow.dtype == td.bfloat16
    np.testing.assert_allclose(narrow.float().detach().numpy(), wide.detach().numpy(), atol=0.05)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_nothing_to_do(kind):
    for shape in ((2, 0, 3), (2, 3, 0)):
        x, layer = td.zeros(shape, requires_grad=True), getattr(nn, kind)(shape[2], 4)
        y, _ = layer(x)
        y.sum().backward()
        assert y.shape == (*shape[:2], 4) and x.grad.shape == shape and layer.weight_ih_l0.grad.shape == layer.weight_ih_l0.shape


def test_what_is_refused():
    w = td.zeros(16, 3), td.zeros(16, 4), None, None
    with pytest.raises(td.ShapeError, match="larger than 0 in RNN"):
        nn.LSTM(3, 4)(td.zeros(0, 2, 3))
    with pytest.raises(td.ShapeError, match="'w_ih' to have shape"):
        td.ops.lstm_layer(td.zeros(1, 2, 5), td.zeros(2, 4), td.zeros(2, 4), *w)
    with pytest.raises(td.ShapeError, match="'c0' to have shape"):
        td.ops.lstm_layer(td.zeros(1, 2, 3), td.zeros(2, 4), td.zeros(1, 2, 4), *w)
    with pytest.raises(td.ShapeError, match=r"Expected hidden\[1\] size \(1, 2, 4\)"):
        nn.LSTM(3, 4)(td.zeros(1, 2, 3), (td.zeros(1, 2, 4), td.zeros(1, 3, 4)))
    with pytest.raises(td.InvalidError, match="only supported for LSTM"):
        nn.GRU(3, 4, proj_size=2)
    huge = td.zeros(1, 1).expand(2**22, 2**22)  # no memory for its panels
    with pytest.raises(td.Error, match="work space|memory|quota"):
        td.ops.rnn_layer(td.zeros(1, 1, 1), td.zeros(1, 1).expand(1, 2**22), td.zeros(1, 1).expand(2**22, 1), huge, None, None).y.sum().item()


def test_rows_do_not_know_of_each_other():
    """A batch is cut into rows: each has the same bits as in another batch of that cut."""
    layer = nn.GRU(5, 6)
    x = td.randn(7, 33, 5)
    y = layer(x)[0]
    assert bool((layer(x.flip(1))[0].flip(1) - y).abs().max() < 1e-6)


def test_kinds_of_what_is_packed():
    made = td.nn.utils.rnn.pack_sequence([td.tensor([1.0, 2.0]), td.tensor([3.0])])
    for name, dtype in (("double", td.float64), ("float", td.float32), ("half", td.float16), ("long", td.int64), ("int", td.int32), ("short", td.int16),
                        ("char", td.int8), ("byte", td.uint8)):
        other = getattr(made, name)()
        assert other.data.dtype == dtype and other.data.tolist() == [1, 3, 2] and isinstance(other, td.nn.utils.rnn.PackedSequence)
    with pytest.raises(RuntimeError, match="a list of tensors"):
        td.nn.utils.rnn.pad_sequence(5)
