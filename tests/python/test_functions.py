"""What PyTorch has at its top beside what test_parity.py compares: random functions, bytes, names, the session's random numbers."""
import pytest
import tensord as td
import tensord.nn as nn
import tensord.nn.functional as F


def test_dropout_of_kernels():
    td.manual_seed(0)
    x = td.ones(1000)
    out, kept = td.native_dropout(x, 0.25, True)
    assert kept.dtype is td.bool and td.equal(out != 0, kept) and out.max().item() == pytest.approx(4 / 3) and 600 < kept.sum().item() < 880
    assert td.native_dropout(x, 0.25, False)[1].all() and 600 < (td.dropout(x, 0.25, True) != 0).sum().item() < 880
    assert td.dropout_(x, 0.5, True) is x and 300 < (x == 0).sum().item() < 700
    channels = td.feature_dropout(td.ones(1, 50, 3), 0.5, True)
    assert {tuple(row) for row in channels[0].tolist()} == {(0.0,) * 3, (2.0,) * 3}
    assert 0.1 < td.rrelu(-td.ones(100), training=True).abs().min().item() < 0.2


def test_gradients_pass():
    weight = td.randn(5, 3, requires_grad=True)
    td.embedding(weight, td.tensor([1, 1, 2]), 1).sum().backward()
    assert weight.grad.tolist() == [[0] * 3, [0] * 3, [1] * 3, [0] * 3, [0] * 3]
    layer = nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    x, h = td.randn(2, 5, 3), (td.randn(4, 2, 4), td.randn(4, 2, 4))
    out, (hn, cn) = layer(x, h)
    made = td.lstm(x, h, list(layer.parameters()), True, 2, 0.0, True, True, True)
    for a, b in zip(made, (out, hn, cn), strict=True):
        td.testing.assert_close(a, b)
    cell = nn.GRUCell(3, 4)
    td.testing.assert_close(td.gru_cell(x[0], h[0][:1].expand(5, 2, 4)[:, 0], *cell.parameters()), cell(x[0], h[0][:1].expand(5, 2, 4)[:, 0]))
    with pytest.raises(ValueError, match="reduction"):
        td.kl_div(x, x, 3)
    with pytest.raises(TypeError, match="reduction"):
        td.kl_div(x, x, "mean")


def test_numbers_of_successes():
    td.manual_seed(1)
    n = td.binomial(td.full((2000,), 10.0), td.tensor(0.3))
    assert n.min().item() >= 0 and n.max().item() <= 10 and n.mean().item() == pytest.approx(3, abs=0.2) and n.var().item() == pytest.approx(2.1, abs=0.3)
    assert td.equal(*(td.binomial(td.full((9,), 10.0), td.full((9,), 0.5), td.Generator().manual_seed(2)) for _ in range(2)))
    with pytest.raises(TypeError, match="floating-point"):
        td.binomial(td.ones(2, dtype=td.int64), td.ones(2))


def test_bytes_and_names():
    data = bytearray(b"\x01\x00\x02\x00\x03\x00")
    x = td.frombuffer(data, dtype=td.int16, offset=2)
    data[2] = 9
    assert x.tolist() == [2, 3], "a copy"
    assert td.frombuffer(memoryview(b"\x00\x00\x80\x3f"), dtype=td.float32, requires_grad=True).requires_grad
    assert td.typename(td.ones(1)) == "tensord.FloatTensor" and td.typename(nn.ReLU()).startswith("tensord.nn.") and td.typename(3) == "int"
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert td.range(1, 3).tolist() == [1, 2, 3]


def test_random_numbers_inside_a_block():
    td.manual_seed(3)
    with td.random.fork_rng():
        inside = td.rand(3)
    assert td.equal(td.rand(3), inside)
    before = td.random.get_rng_state()
    with td.random.fork_rng(enabled=False):
        a = td.rand(3)
    b = td.rand(3)
    td.random.set_rng_state(before)
    assert td.equal(td.rand(3), a) and td.equal(td.rand(3), b)
    with pytest.raises(KeyError):
        with td.random.fork_rng(devices=[]):
            td.rand(1)
            raise KeyError
    assert td.random.manual_seed(5).initial_seed() == 5 == td.random.initial_seed() and td.random.seed() == td.initial_seed()


def test_scripts_and_traces_know_them():
    x, w = td.randn(1, 2, 5, 5), td.randn(3, 2, 3, 3)
    td.testing.assert_close(td.jit.trace(lambda x, w: td.max_pool2d(td.conv2d(x, w), 2), (x, w))(x, w), F.max_pool2d(F.conv2d(x, w), 2))
