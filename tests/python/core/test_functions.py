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


def test_conditions_and_loops():
    x = td.tensor(3.0, requires_grad=True)
    td.cond(x > 2, lambda a: a * a, lambda a: -a, (x,)).backward()
    assert x.grad.item() == 6 and td.cond(False, lambda: 1, lambda: 2) == 2
    assert td.while_loop(lambda k, s: k < 4, lambda k, s: (k + 1, s + k), (td.tensor(0), td.tensor(0)))[1].item() == 6
    for wrong, kind in ((lambda: td.cond(True, len, len, 3), TypeError), (lambda: td.while_loop(len, len, 3), TypeError),
                        (lambda: td.while_loop(lambda a: True, lambda a: (a, a), (1,)), ValueError)):
        with pytest.raises(kind):
            wrong()


def test_settings_that_are_asked_for():
    assert not td.is_anomaly_enabled() and not td.is_storage(td.ones(1))
    td.set_anomaly_enabled(True)
    assert td.is_anomaly_enabled() and td.is_anomaly_check_nan_enabled()
    td.set_anomaly_enabled(False)
    assert not td.is_anomaly_enabled()
    for make, dtype in ((td.HalfTensor, td.float16), (td.BFloat16Tensor, td.bfloat16), (td.CharTensor, td.int8), (td.ShortTensor, td.int16)):
        assert make([1, 2]).dtype is dtype and make(2, 3).shape == (2, 3)


def test_methods_alone():
    x = td.tensor([[0.25, -2.0], [1.0, 0.0]])
    assert td.equal(x.hardshrink(), F.hardshrink(x)) and td.equal(x.hardshrink(lambd=1.5), F.hardshrink(x, 1.5)) and td.equal(x.prelu(td.tensor([0.5])), F.prelu(x, td.tensor([0.5])))
    assert x.histogram(2, range=(-2.0, 2.0))[0].tolist() == [1, 3] and td.tensor(1.0).is_nonzero() and not td.tensor([0]).is_nonzero()
    y = x.clone().apply_(lambda v: v + 1)
    assert y.tolist() == [[1.25, -1], [2, 1]] and y.map_(x, lambda a, b: a * b).tolist() == [[0.3125, 2], [2, 0]]
    assert y.map2_(x, td.ones(2, 2), lambda a, b, c: b + c).tolist() == (x + 1).tolist() and td.ones(0).apply_(abs).shape == (0,)
    z = td.empty(0)
    assert z.set_(x) is z and z.is_set_to(x) and z[0].fill_(7) is not None and x[0].tolist() == [7, 7] and z.set_().shape == (0,) and x.to_dense() is x
    assert not x.is_set_to(x.t()) and not x.is_set_to(x.clone()) and x.to_dense(td.float64).dtype is td.float64
    for wrong, kind in ((lambda: x.apply_(3), TypeError), (lambda: td.ones(1, requires_grad=True).apply_(abs), RuntimeError), (lambda: x.set_(td.ones(1, dtype=td.int8)), TypeError),
                        (lambda: x.set_(3), TypeError), (lambda: x.is_set_to(3), TypeError), (lambda: td.ones(2).is_nonzero(), ValueError)):
        with pytest.raises(kind):
            wrong()
    assert isinstance(nn.LSTM(1, 1), nn.RNNBase) and isinstance(nn.GRUCell(1, 1), nn.RNNCellBase)


def test_scripts_and_traces_know_them():
    x, w = td.randn(1, 2, 5, 5), td.randn(3, 2, 3, 3)
    td.testing.assert_close(td.jit.trace(lambda x, w: td.max_pool2d(td.conv2d(x, w), 2), (x, w))(x, w), F.max_pool2d(F.conv2d(x, w), 2))


def test_cross_entropy_of_a_linear_layer():
    """The numbers are PyTorch 2.13's."""
    x, w, b = td.arange(6.0).reshape(2, 3) / 4, td.arange(12.0).reshape(4, 3).sin(), td.tensor([0.5, -0.5, 0.25, 0.0])
    at = td.tensor([3, 1])

    def loss(*a, **k):
        return F.linear_cross_entropy(*a, **k).tolist()

    assert loss(x, w, at) == pytest.approx(3.3218586, rel=1e-5)
    assert loss(x, w, at, linear_bias=b, reduction="none") == pytest.approx([2.5120733, 5.3023596], rel=1e-5)
    assert loss(x, w, at, weight=td.tensor([1.0, 2.0, 3.0, 4.0]), label_smoothing=0.25, options="anything") == pytest.approx(2.6914260, rel=1e-5)
    assert loss(x, w, at, ignore_index=1, reduction="sum") == pytest.approx(2.2291131, rel=1e-5)
    assert loss(x[1], w, at[1]) == pytest.approx(4.4146042, rel=1e-5)
    assert loss(x, w.reshape(2, 2, 3), at.new_tensor([[0, 1], [1, 0]]), linear_bias=b.reshape(2, 2)) == pytest.approx(0.8132514, rel=1e-5)
    assert loss(x, w, td.full((2, 4), 0.25)) == pytest.approx(2.0356798, rel=1e-5)
    for bad, text in (((x[0, 0], w, at), "dimensionality 1 or 2"), ((x, w[:, :2], at), "equal input and linear_weight"), ((x[0], w.reshape(2, 2, 3), at), "batched input")):
        with pytest.raises(td.ShapeError, match=rf"linear_cross_entropy\(\): .*{text}"):
            F.linear_cross_entropy(*bad)
    with pytest.raises(td.ShapeError, match="linear_bias shape"):
        F.linear_cross_entropy(x, w, at, linear_bias=b[:3])
    with pytest.raises(td.InvalidError, match="ignore_index"):
        F.linear_cross_entropy(x, w, td.full((2, 4), 0.25), ignore_index=1)
    w.requires_grad_()
    F.linear_cross_entropy(x, w, at).backward()
    F.cross_entropy(x @ (v := w.detach().requires_grad_()).t(), at).backward()
    assert td.allclose(w.grad, v.grad)


def test_functions_of_each_tensor_of_a_list():
    """The numbers are PyTorch 2.13's."""
    def two():
        return [td.tensor([[0.5, 2.0]], dtype=td.float64), td.tensor([4.0, 1.0, 0.25], dtype=td.float64)]

    def values(tensors):
        return [t.tolist() for t in tensors]

    x, y = two(), td._foreach_neg(two())
    assert isinstance(y, tuple) and values(y) == [[[-0.5, -2.0]], [-4.0, -1.0, -0.25]]
    assert values(td._foreach_sqrt(x)[1:]) == [[2.0, 1.0, 0.5]] and values(td._foreach_norm(x, 1)) == [2.5, 5.25] and values(td._foreach_max(x)) == [2.0, 4.0]
    assert values(td._foreach_norm(x, float("inf"))) == [2.0, 4.0] and values(td._foreach_powsum(x)) == [4.25, 17.0625]
    assert values(td._foreach_mul(x, [2, 3])) == [[[1.0, 4.0]], [12.0, 3.0, 0.75]] and values(td._foreach_add(x, y, alpha=2)) == values(y)
    assert values(td._foreach_sub(x, td.tensor(1.0))) == [[[-0.5, 1.0]], [3.0, 0.0, -0.75]] and values(td._foreach_pow(2, x[1:])) == [[16.0, 2.0, 2.0**0.25]]
    assert values(td._foreach_lerp(x, y, 0.25)) == values(td._foreach_mul(x, scalar=0.5)) == values(td._foreach_lerp(x, y, weight=[0.25, 0.25]))
    assert values(td._foreach_addcmul(x, y, y, value=-1))[0] == [[0.25, -2.0]] and values(td._foreach_addcdiv(x, x, x, td.tensor([1.0, 2.0])))[1] == [6.0, 3.0, 2.25]
    assert values(td._foreach_maximum(x, 1)) == values(td._foreach_clamp_min(x, 1)) == [[[1.0, 2.0]], [4.0, 1.0, 1.0]]
    assert td._foreach_mul_(x, 2) is x and values(x) == [[[1.0, 4.0]], [8.0, 2.0, 0.5]]
    td._foreach_copy_(x, two())
    td._foreach_lerp_(x, td._foreach_clone(y), 1.0)
    assert values(x) == values(y)
    td._foreach_zero_(x)
    assert values(x) == [[[0.0, 0.0]], [0.0, 0.0, 0.0]]
    w = td.tensor([1.0, 2.0], requires_grad=True)
    td._foreach_mul([w, w], [w, 3])[0].sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]
    for bad, text in ((lambda: td._foreach_add([], 1), "at least one tensor"), (lambda: td._foreach_add(x, y[:1]), "got 2 and 1"), (lambda: td._foreach_mul(x, [1]), "as scalar list"),
                      (lambda: td._foreach_add(x, td.ones(3)), "expected to be 0 dim"), (lambda: td._foreach_add_([td.ones(2)], [td.ones(3)]), r"_foreach_add_\(\): "),
                      (lambda: td._foreach_exp(td.ones(3)), "in a list or tuple")):
        with pytest.raises((RuntimeError, TypeError), match=text):
            bad()
    with pytest.raises(AttributeError):
        td._foreach_clone_(x)
