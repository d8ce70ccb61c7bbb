"""Tensors as people expect them: creation, attributes, operators, conversion, printing, copies."""
import copy
import inspect
import math
import pickle
import weakref

import pytest
import tensord as td


@pytest.mark.parametrize("data, shape, dtype", [
    (3, (), td.int64), (3.5, (), td.float32), (True, (), td.bool), (1j, (), td.complex64),
    ([], (0,), td.float32), ([[], []], (2, 0), td.float32), ([1, 2, 3], (3,), td.int64), ([1, 2.5], (2,), td.float32),
    ([[1, 2], [3, 4]], (2, 2), td.int64), ([True, 2], (2,), td.int64), (((1, 2), [3, 4]), (2, 2), td.int64), (range(3), (3,), td.int64),
    ([1, 2j], (2,), td.complex64), ([[[True]]], (1, 1, 1), td.bool),
])
def test_nested_data(data, shape, dtype):
    t = td.tensor(data)
    assert t.shape == shape and t.dtype is dtype


def test_nested_tensors_keep_their_dtype():
    assert td.tensor([td.tensor(1.0, dtype=td.float64), 2]).dtype is td.float64
    assert td.tensor([td.tensor([1, 2]), [3, 4]]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("data, kind, words", [
    ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
    ([[1, 2], 3], TypeError, "not a sequence"), ([1, [2]], ValueError, "expected a number"), ("abc", TypeError, "str"),
    ([1, "a"], TypeError, "str"), ([None], TypeError, "None"), (300, ValueError, "does not fit"), ({1: 2}, TypeError, "dict"),
])
def test_nested_data_refused(data, kind, words):
    with pytest.raises(kind) as e:
        td.tensor(data, dtype=td.int8)
    assert words in str(e.value) and isinstance(e.value, td.Error)


def test_a_list_in_itself_is_refused():
    x = []
    x.append(x)
    with pytest.raises(ValueError, match="contains itself"):
        td.tensor(x)


@pytest.mark.parametrize("made, expected", [
    (lambda: td.zeros(2, 3), [[0.0] * 3] * 2), (lambda: td.ones((2,)), [1.0, 1.0]), (lambda: td.full((2,), 7), [7, 7]),
    (lambda: td.zeros(2, dtype=td.int32), [0, 0]), (lambda: td.arange(3), [0, 1, 2]), (lambda: td.arange(1, 7, 2), [1, 3, 5]),
    (lambda: td.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75]), (lambda: td.linspace(0, 1, 3), [0, 0.5, 1]), (lambda: td.eye(2), [[1, 0], [0, 1]]),
    (lambda: td.zeros(()), 0.0), (lambda: td.ones_like(td.zeros(2, dtype=td.int64)), [1, 1]), (lambda: td.full_like(td.zeros(2), 3), [3, 3]),
    (lambda: td.zeros(size=(1, 2)), [[0, 0]]), (lambda: td.zeros(shape=(2,)), [0, 0]), (lambda: td.empty(0, 3), []),
])
def test_creation(made, expected):
    assert made().tolist() == expected


def test_random_numbers_are_the_seed_s():
    td.manual_seed(7)
    a, b = td.rand(4), td.randn(2, 2)
    td.manual_seed(7)
    assert td.equal(a, td.rand(4)) and td.equal(b, td.randn(2, 2))
    assert sorted(td.randperm(5).tolist()) == [0, 1, 2, 3, 4]
    assert all(2 <= v < 5 for v in td.randint(2, 5, (20,)).tolist())


def test_attributes():
    t = td.zeros(2, 3, 4, dtype=td.float64)
    assert isinstance(t.shape, tuple) and (t.shape, t.ndim, t.numel(), t.nbytes, t.itemsize) == ((2, 3, 4), 3, 24, 192, 8)
    assert (t.size(), t.size(-1), t.dim(), t.stride(), t.stride(0), t.element_size()) == ((2, 3, 4), 4, 3, (12, 4, 1), 12, 8)
    assert t.T.shape == (4, 3, 2) and t.mT.shape == (2, 4, 3) and not t.mT.is_contiguous() and t.mT.contiguous().is_contiguous()
    assert str(t.device) == "cpu" and t.is_floating_point() and len(t) == 2
    z = td.tensor([1 + 2j, 3.0])
    assert z.real.tolist() == [1, 3] and z.imag.tolist() == [2, 0] and td.real(z).dtype is td.float32 and t.real is t
    with pytest.raises(td.DTypeError):
        t.imag
    with pytest.raises(IndexError):
        t.size(3)


OPERATORS = [
    ("a + b", [5, 7]), ("a - b", [1, 1]), ("a * 2", [6, 8]), ("2 * a", [6, 8]), ("a / b", [1.5, 4 / 3]), ("a // 2", [1, 2]), ("a % 3", [0, 1]),
    ("a ** 2", [9, 16]), ("2 ** a", [8, 16]), ("1 - a", [-2, -3]), ("-a", [-3, -4]), ("abs(-a)", [3, 4]), ("+a", [3, 4]), ("a @ b", 18),
    ("a == b", [False, False]), ("a != 3", [False, True]), ("a > 3", [False, True]), ("3 <= a", [True, True]), ("(a < 4) & (a > 2)", [True, False]),
    ("~(a > 3)", [True, False]), ("(a > 3) | (b > 2)", [False, True]), ("a << 1", [6, 8]), ("a >> 1", [1, 2]), ("(a > 3) ^ True", [True, False]),
]


@pytest.mark.parametrize("text, expected", OPERATORS)
def test_operators(text, expected):
    assert eval(text, {"a": td.tensor([3, 4]), "b": td.tensor([2, 3])}).tolist() == pytest.approx(expected)


def test_operators_in_place():
    a = b = td.tensor([1.0, 2.0])
    a += 1
    a *= td.tensor([2.0, 3.0])
    a -= 1
    a /= 2
    assert a is b and a.tolist() == [1.5, 4.0]
    assert a.add_(1) is a and a.mul_(2).sub_(1).tolist() == [4.0, 9.0]
    assert a.zero_().tolist() == [0, 0] and a.fill_(3).tolist() == [3, 3] and a.copy_(td.tensor([1, 2])).tolist() == [1, 2]


def test_other_types_get_their_turn():
    class Other:
        def __radd__(self, left):
            return "mine"

    assert td.ones(1) + Other() == "mine"
    assert (td.ones(1) == "x") is False and (td.ones(1) != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        td.ones(1) + "x"


def test_numbers_out():
    assert (td.tensor(3).item(), td.tensor([2.5]).item(), td.tensor(True).item()) == (3, 2.5, True)
    assert isinstance(td.tensor(3).item(), int) and isinstance(td.tensor(True).item(), bool)
    assert (int(td.tensor(3.7)), float(td.tensor(3)), complex(td.tensor(2)), bool(td.tensor([1]))) == (3, 3.0, 2 + 0j, True)
    assert [10, 20, 30][td.tensor(1)] == 20 and f"{td.tensor(1.23456):.2f}" == "1.23"
    for wrong in (lambda: int(td.ones(2)), lambda: bool(td.ones(2)), lambda: td.ones(2).item(), lambda: bool(td.ones(0))):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        [1][td.tensor(1.0)]


def test_iteration():
    assert [r.tolist() for r in td.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert [int(v) for v in td.arange(200)] == list(range(200))
    assert 2 in td.tensor([1, 2]) and 5 not in td.tensor([1, 2])
    a, b = td.tensor([1, 2])
    assert (a + b).item() == 3
    for wrong in (lambda: len(td.tensor(1)), lambda: list(td.tensor(1))):
        with pytest.raises(TypeError, match="0-d"):
            wrong()


def test_shapes():
    x = td.arange(6)
    assert x.reshape(2, 3).tolist() == x.reshape((2, 3)).tolist() == x.view(2, -1).tolist() == [[0, 1, 2], [3, 4, 5]]
    y = x.view(2, 3)
    assert y.permute(1, 0).shape == (3, 2) and y.t().shape == (3, 2) and y.expand(4, 2, 3).shape == (4, 2, 3)
    assert y.flatten().shape == (6,) and y.unsqueeze(0).squeeze().shape == (2, 3) and y.repeat(2, 1).shape == (4, 3)
    assert [p.tolist() for p in x.split(4)] == [[0, 1, 2, 3], [4, 5]] and [p.tolist() for p in x.chunk(3)] == [[0, 1], [2, 3], [4, 5]]
    assert td.cat([y, y]).shape == (4, 3) and td.stack((x, x), 1).shape == (6, 2) and td.concat([y, y], axis=1).shape == (2, 6)
    assert y.flip(0).tolist() == [[3, 4, 5], [0, 1, 2]] and y.movedim(0, 1).shape == (3, 2)
    assert td.vstack([x, x]).shape == (2, 6) and td.hstack([x, x]).shape == (12,)
    assert [g.shape for g in td.meshgrid(td.arange(2), td.arange(3), indexing="xy")] == [(3, 2), (3, 2)]


LONG = 2100  # more tensors than one request takes (1012), in three pieces


@pytest.mark.parametrize("modes", [td.enable_grad, td.no_grad, td.inference_mode])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_joins_of_any_length(dim, modes):
    x = td.arange(LONG * 6).reshape(LONG, 2, 3)
    parts = list(x)
    with modes():
        assert td.equal(td.stack(parts, dim), x.movedim(0, dim))
        assert td.equal(td.cat(parts, dim), x.reshape(-1, 3) if dim == 0 else x.movedim(0, 1).reshape(2, -1))
        out = td.zeros(LONG * 2, 3, dtype=td.float64)
        assert td.cat(parts, out=out) is out and td.equal(out, x.reshape(-1, 3).double())
        out = td.zeros(LONG, 2, 3, dtype=td.int64)
        assert td.stack(parts, out=out) is out and td.equal(out, x)
        assert td.equal(td.vstack([r[0] for r in parts]), x[:, 0]) and td.equal(td.hstack(parts), td.cat(parts, 1))
        assert td.equal(td.column_stack([r[0] for r in parts]), x[:, 0].t()) and td.equal(td.concat(parts, axis=-1), td.cat(parts, 1))


@pytest.mark.parametrize("large", [True, False])
def test_joins_of_parts_of_all_sizes(large):
    """Shares of the work end within parts, parts within shares; a part of shape [0] joins with anything."""
    sizes = [k % 7 * (1 + 5000 * (large and k % 500 == 3)) for k in range(LONG)]
    x = td.arange(float(2 * sum(sizes))).reshape(2, -1).requires_grad_(not large)
    parts = [td.zeros(0, requires_grad=not large)] * 1100
    at = 0
    for n in sizes:
        parts.append(x[:, at : at + n])
        at += n
    y = td.cat(parts, 1)
    assert td.equal(y, x) and td.equal(td.cat(parts, -1), x)
    if not large:
        y.backward(y.detach())
        assert td.equal(x.grad, y)


def test_a_long_list_is_promoted_as_a_whole():
    """Each value changes its dtype once: not by way of that of the tensors nearby."""
    big = 2**53 - 1
    parts = [td.tensor([big])] * 1100 + [td.tensor([1.0], dtype=td.float16)] + [td.tensor([big])] * 1100 + [td.tensor([1.0], dtype=td.float64)]
    for join, modes in ((td.cat, td.no_grad), (td.cat, td.enable_grad), (td.stack, td.no_grad), (td.stack, td.enable_grad)):
        with modes():
            y = join([*parts, td.ones(1, dtype=td.float64, requires_grad=True)])
        assert y.dtype is td.float64 and y.reshape(-1)[[0, 1099, 1100, 1101, -2]].tolist() == [big, big, 1.0, big, 1.0]


def test_what_is_wrong_in_a_long_list_is_named():
    parts = [td.ones(2)] * LONG
    for join, words in ((td.stack, "at entry 1700 of"), (td.cat, "tensor number 1700 in")):
        with pytest.raises(td.ShapeError, match=words):
            join(parts[:1700] + [td.ones(2, 2) if join is td.cat else td.ones(3)] + parts)
    with pytest.raises(td.ShapeError, match="position 1700"):
        td.cat(parts[:1700] + [td.tensor(1)] + parts)
    with pytest.raises(TypeError, match="'tensors' must be a tuple or list of tensors, not int"):
        td.stack([*parts, 3])
    with pytest.raises(IndexError, match="Dimension out of range"):
        td.stack(parts, 2)
    with pytest.warns(UserWarning, match="shape of the result"):
        assert td.stack(parts, out=td.empty(LONG, 3)).shape == (LONG, 2)


def test_reductions():
    x = td.tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
    assert (x.sum().item(), x.mean().item(), x.max().item(), x.min().item(), x.prod().item()) == (21, 3.5, 6, 1, 720)
    assert x.sum(0).tolist() == [5, 7, 9] and x.sum(dim=1, keepdim=True).shape == x.sum(axis=1, keepdims=True).shape == (2, 1)
    v, i = x.max(dim=1)
    assert v.tolist() == [5, 6] and i.tolist() == [1, 2] and x.min(1).indices.tolist() == [0, 1]
    assert td.max(x, td.full_like(x, 3)).tolist() == [[3, 5, 3], [4, 3, 6]]
    assert x.argmax().item() == 5 and x.argmax(1).tolist() == [1, 2]
    assert x.var().item() == pytest.approx(3.5) and x.std(0, unbiased=False).tolist() == pytest.approx([1.5, 1.5, 1.5])
    assert x.norm().item() == pytest.approx(91**0.5) and x.norm(p=1).item() == 21 and x.norm(p=math.inf).item() == 6
    assert td.any(x > 5).item() and not td.all(x > 5).item() and x.cumsum(1)[0].tolist() == [1, 6, 9]
    values, indices = x.sort(1, descending=True)
    assert values[0].tolist() == [5, 3, 1] and indices[0].tolist() == [1, 2, 0] and x.topk(2).values.tolist() == [[5, 3], [6, 4]]
    assert x.softmax(1).sum(1).tolist() == pytest.approx([1, 1])


def test_where_and_clamp():
    x = td.tensor([-2.0, 0.5, 3.0])
    assert td.where(x > 0, x, 0).tolist() == [0, 0.5, 3] and [w.tolist() for w in td.where(x > 0)] == [[1, 2]]
    assert x.clamp(-1, 1).tolist() == [-1, 0.5, 1] and x.clamp(min=0).tolist() == [0, 0.5, 3]
    assert x.clamp(max=td.tensor([0.0, 0.0, 5.0])).tolist() == [-2, 0, 3]
    assert x.div(2, rounding_mode="floor").tolist() == [-1, 0, 1]
    assert [(y.item(), y.dtype) for y in (td.div(7, 2, rounding_mode="trunc"), td.div(-7, 2, rounding_mode="floor"), td.div(1, 2))] == [(3, td.int64), (-4, td.int64), (0.5, td.float32)]


def test_out_and_keywords():
    out = td.zeros(2)
    assert td.add(td.ones(2), other=td.ones(2), alpha=2, out=out) is out and out.tolist() == [3, 3]
    for wrong, words in ((lambda: td.add(td.ones(2)), "missing required argument 'other'"), (lambda: td.add(td.ones(2), 1, beta=2), "beta"),
                         (lambda: td.add(td.ones(2), 1, other=1), "multiple values"), (lambda: td.exp(td.ones(2), 1, 2, 3), "positional"),
                         (lambda: td.add(td.ones(2), 1, out=3), "out must be"), (lambda: td.ones(2).add([1]), "must be Tensor or a number")):
        with pytest.raises(TypeError) as e:
            wrong()
        assert words in str(e.value)


# A call with one result, with several; of what makes tensors from nothing; in tensord.nn.functional, linalg, fft.
WRITTEN = ["add(x, 1)", "where(x > 1, x, 0)", "softmax(x, 1)", "max(x, 1)", "sort(x)", "topk(x, 1)", "kthvalue(x, 1)", "cummax(x, 0)", "frexp(x)", "aminmax(x)", "round(x, decimals=1)",
           "clamp(x, 1, 2)", "div(x, 2, rounding_mode='floor')", "std(x, 1)", "norm(x)", "quantile(x, 0.5)", "nonzero(x)", "masked_select(x, x > 1)", "svd(x)", "qr(x)", "zeros(2, 3)",
           "full((2,), 3.0)", "arange(0.0, 3.0)", "linspace(0, 1, 3)", "eye(2)", "unbind_copy(x)", "t_copy(x)", "tensordot(x, x, 2)", "isin(x, x)", "bucketize(x, x[0])",
           "scatter(x, 0, i, 5.0)", "scatter_reduce(x, 0, i, x, 'sum')", "polygamma(1, x)", "histogram(x, 3)", "nn.functional.gelu(x)", "nn.functional.linear(x, x)",
           "nn.functional.avg_pool2d(x[None], 2)", "linalg.svd(x)", "linalg.lstsq(x, x)", "fft.fft(x)", "complex(x, x)"]


@pytest.mark.parametrize("call", WRITTEN)
def test_out_takes_shape_and_values(call):
    def made(out):
        return eval("td." + call[:-1] + ", out=out)", {"td": td, "x": x, "i": td.zeros(1, 2, dtype=td.int64), "out": out})

    x = td.tensor([[1.0, 2.0], [4.0, 3.0]])
    want = made(None)
    parts = [want] if isinstance(want, td.Tensor) else list(want)
    out = [td.empty(0, dtype=p.dtype) for p in parts]
    got = made(out[0] if want is parts[0] else tuple(out))
    assert type(got) is type(want)
    for each, o, p in zip([got] if want is parts[0] else got, out, parts):
        assert each is o and o.shape == p.shape and td.allclose(o, p)


def test_what_out_may_not_be():
    x, o = td.ones(3), td.empty(3)
    with pytest.raises(td.DTypeError, match=r"sort\(\): dtype tensord.float32 does not match dtype of out parameter"):
        td.sort(x, out=(td.empty(3, dtype=td.int64), td.empty(3, dtype=td.int64)))
    with pytest.raises(td.DTypeError, match="dtype tensord.int64 does not match dtype of out"):
        td.zeros(3, dtype=td.int64, out=o)
    assert td.zeros(3, out=td.ones(3, dtype=td.int64)).tolist() == [0, 0, 0] and td.sort(x, out=(td.empty(3), td.empty(3, dtype=td.int64)))[0].dtype is td.float32
    with pytest.raises(td.AutogradError, match="softmax.*don't support automatic differentiation"):
        td.softmax(td.ones(3, requires_grad=True), 0, out=o)
    with pytest.raises(td.AutogradError, match="don't support automatic differentiation"):
        td.sort(x, out=(td.empty(3, requires_grad=True), td.empty(3, dtype=td.int64)))
    with pytest.raises(td.InvalidError, match="out is 2 tensors"):
        td.max(x, 0, out=o)
    with pytest.raises(TypeError, match="out must be a Tensor, not an int"):
        td.softmax(x, 0, out=3)
    with pytest.raises(td.ShapeError, match=r"size of tensor a \(3\)"):
        td.add(x, td.ones(4), out=o)
    with pytest.warns(UserWarning, match=r"add\(\): out had the shape \(3,\)"):
        assert td.add(td.ones(2, 2), 1, out=o) is o and o.tolist() == [[2, 2], [2, 2]]


def test_dtypes():
    assert td.ones(2).to(td.int64).dtype is td.int64 and td.ones(2).double().dtype is td.float64 and td.ones(1).long().dtype is td.int64
    x = td.ones(2)
    assert x.to(td.float32) is x and x.to("cpu") is x and x.to("cpu", td.float16).dtype is td.float16 and x.to(td.zeros(1).int()).dtype is td.int32
    assert repr(td.float32) == "tensord.float32" and td.float32.itemsize == 4 and td.complex64.is_complex and td.float64.is_floating_point
    assert pickle.loads(pickle.dumps(td.bfloat16)) is td.bfloat16 and td.promote_types(td.int32, td.float16) is td.float16
    assert td.finfo(td.float16).max == 65504 and td.iinfo(td.int8).min == -128 and td.result_type(td.ones(1).int(), 1.5) is td.float32
    with pytest.raises(NotImplementedError):
        td.zeros(1, device="cuda")
    cpu = td.device("cpu")
    assert x.device is cpu and td.device("cpu", 0) is cpu and repr(cpu) == "device(type='cpu')" and (cpu.type, cpu.index) == ("cpu", None)
    assert pickle.loads(pickle.dumps(cpu)) is cpu and td.arange(3, device=cpu).device is cpu and td.ones_like(x, device="cpu:0").device is cpu
    assert x.to(cpu) is x and x.to(td.zeros(1)) is x and x.to(cpu, copy=True) is not x and td.tensor([1, 2], device="cpu").tolist() == [1, 2]
    for name, number in ("cuda", 0), ("cuda:3", 3), ("cuda:13", 13):
        say = f"there is no device '{name.split(':')[0]}:{number}' here; only 'cpu'"
        assert td.device(name) is td.device(name) != td.device("cpu") and str(td.device(name)) == name and td.device(name).type == "cuda"
        assert pickle.loads(pickle.dumps(td.device(name))) is td.device(td.device(name))
        for call in (x.to, lambda d: x.to(td.device(d)), lambda d: td.ones(2, device=d), lambda d: td.full((2,), 1, device=d), lambda d: td.tensor(1.5, device=d), lambda d: td.asarray(x, device=d)):
            with pytest.raises(td.Unsupported, match=say):
                call(name)
    assert (td.device("meta"), td.device("cuda", 1)) == (td.device("meta"), td.device("cuda:1")) and repr(td.device("cuda", 1)) == "device(type='cuda', index=1)"
    assert td.device("cuda").index is None and len({td.device("mps"), td.device("mps"), td.device("xpu:0")}) == 2
    for call in (lambda: td.ones(2, device="meta"), lambda: x.to(td.device("meta")), lambda: td.Generator("meta")):
        with pytest.raises(td.Unsupported, match="no device 'meta'"):
            call()
    for wrong in ("tpu", "meta:1234"):
        with pytest.raises(td.Unsupported, match=f"no device '{wrong}'"):
            td.device(wrong)
    with pytest.raises(TypeError, match="device must be"):
        x.to(device=3)
    td.set_default_dtype(td.float64)
    try:
        assert td.tensor(1.5).dtype is td.float64 and td.zeros(1).dtype is td.float64
    finally:
        td.set_default_dtype(td.float32)


@pytest.mark.parametrize("made, text", [
    (lambda: td.tensor([1.0, 2.0]), "tensor([1., 2.])"), (lambda: td.tensor([1.5, 2.0]), "tensor([1.5000, 2.0000])"),
    (lambda: td.tensor([1, -20]), "tensor([  1, -20])"), (lambda: td.tensor(3.5), "tensor(3.5000)"), (lambda: td.tensor([True]), "tensor([True])"),
    (lambda: td.tensor([1e-9, 1.0]), "tensor([1.0000e-09, 1.0000e+00])"), (lambda: td.zeros(1, dtype=td.float64), "tensor([0.], dtype=tensord.float64)"),
    (lambda: td.tensor([1.0, math.nan, math.inf]), "tensor([1., nan, inf])"), (lambda: td.tensor([]), "tensor([])"),
    (lambda: td.zeros(2, 0), "tensor([], size=(2, 0))"), (lambda: td.zeros(1, requires_grad=True), "tensor([0.], requires_grad=True)"),
    (lambda: td.zeros(1, requires_grad=True) * 2, "tensor([0.], grad_fn=<MulBackward0>)"),
    (lambda: td.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"), (lambda: td.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
])
def test_repr(made, text):
    assert repr(made()) == text


def test_repr_never_raises():
    broken = td.zeros(3)[td.tensor([7])]
    assert "without a value" in repr(broken)
    td.sync()  # that counts as told


def test_print_options():
    try:
        td.set_printoptions(precision=2, sci_mode=True)
        assert repr(td.tensor([1.5])) == "tensor([1.50e+00])"
    finally:
        td.set_printoptions(profile="default")
    assert repr(td.tensor([1.5])) == "tensor([1.5000])"


def test_copies():
    x = td.ones(2, requires_grad=True)
    y = copy.deepcopy(x)
    assert y.requires_grad and y.data_ptr() != x.data_ptr() and y.grad is None
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    y.grad.zero_()
    assert x.grad.tolist() == [3, 3] and y.grad.tolist() == [0, 0]
    p = td.nn.Parameter(x)
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3, 3] and copy.deepcopy(p).grad is None  # as PyTorch's, unlike that of other tensors
    both = copy.deepcopy([x, x])
    assert both[0] is both[1]
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 2)
    z = td.zeros(2)
    copy.copy(z).fill_(4)
    assert z.tolist() == [4, 4] and z.clone().fill_(1).tolist() == [1, 1] and z.tolist() == [4, 4]


def test_objects():
    x = td.ones(2)
    seen = []
    r = weakref.ref(x, seen.append)
    assert r() is x and hash(x) == hash(x) and {x: 1}[x] == 1 and td.is_tensor(x) and isinstance(x, td.Tensor)
    del x
    assert r() is None and len(seen) == 1

    class Mine(td.Tensor):
        pass

    m = Mine([1, 2])
    m.note = "n"
    assert isinstance(m, td.Tensor) and m.note == "n" and (m + 1).tolist() == [2, 3] and repr(m).startswith("Mine(")


def test_documentation():
    assert str(inspect.signature(td.sum)) == "(input, dim=None, keepdim=False, dtype=None, *, out=None)"
    assert str(inspect.signature(td.Tensor.add_)) == "(self, /, other, alpha=1)"
    undocumented = [n for n in dir(td.Tensor) if not n.startswith("_") and not getattr(td.Tensor, n).__doc__]
    assert undocumented == []
    assert "tensor" in dir(td) and "no_grad" in dir(td)


@pytest.mark.parametrize("shape, dim", [((160, 0), 1), ((0, 160), 0), ((2, 3, 0), 2)])
def test_reductions_of_nothing(shape, dim):
    x = td.ones(shape)
    assert x.all(dim).all().item() and not x.any(dim).any().item()
    assert x.sum(dim, dtype=td.float64).abs().sum().item() == 0 and x.half().sum(dim).sum().item() == 0


def test_copies_of_subclasses():
    class Named(td.Tensor):
        pass

    x = Named([1.0, 2.0])
    x.names = ["a", "b"]
    x.requires_grad_()
    y, z = copy.copy(x), copy.deepcopy(x)
    assert type(y) is Named and y.names is x.names and y.data_ptr() == x.data_ptr()
    assert type(z) is Named and z.names == x.names and z.names is not x.names and z.requires_grad and z.data_ptr() != x.data_ptr()


def test_a_shape_is_a_size():
    """A tuple in every respect, which knows its elements; what is made of it is one, as PyTorch's torch.Size is."""
    x = td.ones(2, 3)
    sizes = [x.shape, x.size(), x[0].shape, x.mT.shape, x.shape[1:], x.shape[::-1], x.shape + (1,), (1,) + x.shape, x.shape + x.shape, x.shape * 2, 2 * x.shape, td.Size([2, 3]), td.Size(),  # noqa: RUF005
             td.Size(i for i in (2, 3)), td.broadcast_shapes((2, 1), 3), copy.deepcopy(x.shape), pickle.loads(pickle.dumps(x.shape)), td.distributions.Normal(x, 1.0).batch_shape]
    assert {type(s) for s in sizes} == {td.Size} and isinstance(x.shape, tuple) and type(x.stride()) is tuple
    assert [tuple(s) for s in sizes] == [(2, 3), (2, 3), (3,), (3, 2), (3,), (3, 2), (2, 3, 1), (1, 2, 3), (2, 3, 2, 3), (2, 3, 2, 3), (2, 3, 2, 3), (2, 3), (), (2, 3), (2, 3), (2, 3), (2, 3), (2, 3)]
    assert (x.shape.numel(), td.Size().numel(), td.Size([2, 0]).numel(), td.Size([1 << 40] * 3).numel()) == (6, 1, 0, 1 << 120)
    assert x.shape == (2, 3) and hash(x.shape) == hash((2, 3)) and repr(x.shape) == "(2, 3)" and x.shape[-1] == 3 and x.shape.index(3) == 1
    assert td.Size([td.tensor(4), True]) == (4, 1) and type(td.Size([td.tensor(4)])[0]) is int

    class Mine(td.Size):
        pass

    assert type(Mine([1, 2])) is Mine and Mine([1, 2]).numel() == 2
    for wrong, kind in ((lambda: td.Size([1.5]), TypeError), (lambda: td.Size("a"), TypeError), (lambda: td.Size(3), TypeError), (lambda: x.shape[2], IndexError), (lambda: x.shape[-3], IndexError),
                        (lambda: x.shape + [1], TypeError), (lambda: x.shape * 1.5, TypeError), (lambda: x.shape["a"], TypeError), (lambda: x.shape[::0], ValueError)):  # noqa: RUF005
        with pytest.raises(kind):
            wrong()


def test_a_size_is_kept_in_files_and_queues(tmp_path):
    x = td.ones(2, 3)
    td.save({"shape": x.shape, "x": x}, tmp_path / "x.pt")
    queue = td.Queue("sizes", 2)
    queue.put((x.shape, x))
    for shape in (td.load(tmp_path / "x.pt")["shape"], queue.get()[0]):
        assert type(shape) is td.Size and shape == (2, 3)


def test_new_of_old_programs():
    """x.new(...) and FloatTensor(...): of sizes or a Size a shape, of lists and tuples values."""
    x = td.ones(2, 3, dtype=td.float64)
    for made, shape in ((x.new(), (0,)), (x.new(2), (2,)), (x.new(4, 0), (4, 0)), (x.new(x.size()), (2, 3)), (x.new(*x.size()[1:]).zero_(), (3,)), (x.new(x.shape[:0]), ())):
        assert made.shape == shape and made.dtype == td.float64 and not made.requires_grad
    assert x.new([1, 2]).tolist() == x.new((1, 2)).tolist() == [1.0, 2.0] and td.ones(1, dtype=td.int64).new([3]).dtype == td.int64
    assert td.FloatTensor(x.size()).shape == (2, 3) and td.LongTensor((2, 3)).tolist() == [2, 3] and td.FloatTensor(2, 3).shape == (2, 3)


def test_asarray_of_a_tensor_as_a_leaf():
    x = td.ones(2)
    assert td.asarray(x, dtype=td.float64, requires_grad=True).requires_grad and td.asarray(x, copy=True, requires_grad=True).is_leaf and not x.requires_grad
    assert td.asarray(x, requires_grad=True) is x and x.requires_grad
    with pytest.raises(RuntimeError, match="float"):
        td.asarray(td.ones(2, dtype=td.int64), requires_grad=True)


def test_storages_say_who_shares_memory():
    x = td.arange(12, dtype=td.float32).reshape(3, 4)
    whole, part = x.untyped_storage(), x[1:, 2].untyped_storage()
    assert whole == part and hash(whole) == hash(part) and whole._cdata == part._cdata and part.data_ptr() == x.data_ptr() == x[1].data_ptr() - 16
    assert whole != x.clone().untyped_storage() and x.untyped_storage() == x.detach().untyped_storage() == x.t().untyped_storage()
    assert whole.nbytes() == whole.size() == len(whole) == 48 and whole.is_shared() and whole.element_size() == 1 and whole.device.type == "cpu" and td.is_storage(whole)
    typed = x[2].storage()
    assert len(typed) == 12 and typed.nbytes() == 48 and typed.dtype is td.float32 and typed[5] == 5.0 and list(typed)[10:] == [10.0, 11.0] and typed.untyped() == whole
    typed[0] = 7.0
    assert x[0, 0].item() == 7.0 and isinstance(typed, td.TypedStorage) and isinstance(whole, td.UntypedStorage) and not td.is_storage(x)
    assert typed.clone().fill_(1.0).tolist() == [1.0] * 12 and typed.clone() != typed and x[0, 0].item() == 7.0
    w = td.ones(2, requires_grad=True)
    assert w.untyped_storage().nbytes() == 8 and w.is_leaf and td.empty(0).untyped_storage().nbytes() == 0 and td.ones(3, dtype=td.bool).untyped_storage().tolist() == [1] * 3
    for bad in (lambda: whole.resize_(0), lambda: td.UntypedStorage(3), lambda: x.to_sparse()):
        with pytest.raises(td.Error):
            bad()
    assert x.clone()._base is None
    with pytest.raises(AttributeError, match="share memory"):
        x[0]._base


def test_storages_of_copies_and_as_sources():
    x = td.arange(4, dtype=td.float32)
    for whole in (x.untyped_storage(), x.storage()):
        other, same = copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))
        assert other != whole and other.data_ptr() != whole.data_ptr() and other.tolist() == whole.tolist()
        assert same == whole and same._cdata == whole._cdata and copy.copy(whole) == whole and whole.cpu() is whole and whole.share_memory_() is whole
    assert x.storage().type() == "tensord.FloatStorage" and x.untyped_storage().untyped() == x.untyped_storage() and not x.storage().is_sparse
    assert repr(x.storage()).endswith("[tensord.storage.TypedStorage(dtype=tensord.float32, device=cpu) of size 4]")
    assert repr(td.ones(1, dtype=td.uint8).untyped_storage()) == " 1\n[tensord.storage.UntypedStorage(device=cpu) of size 1]"
    for name, kind in (("double", td.float64), ("int", td.int32), ("float", td.float32), ("complex_float", td.complex64)):
        made = getattr(x.storage(), name)()
        assert made.dtype is kind and made.tolist() == [0, 1, 2, 3] and made != x.storage()
    part = td.empty(0).set_(x.untyped_storage(), 1, (2,), (1,))
    part[0] = 9
    assert x.tolist() == [0, 9, 2, 3] and td.empty(0).set_(x.storage()).is_set_to(x) and td.empty(0).set_(x.storage(), 0, td.Size([2, 2])).tolist() == [[0, 9], [2, 3]]
    assert td.empty(0).set_(x[1:], 1, (2,), (1,)).tolist() == [2, 3] and td.empty(0).set_(x, storage_offset=3, size=()).item() == 3
    assert td.empty(0, dtype=td.int16).set_(x.untyped_storage()).shape == (8,)
    for bad in (lambda: td.empty(0, dtype=td.int32).set_(x.storage()), lambda: td.empty(0).set_(x.storage(), -1, (2,)), lambda: td.empty(0).set_(x, 1, (4,)), lambda: td.empty(0).set_(x, 0, (2,), (1, 1))):
        with pytest.raises(td.Error):
            bad()


def test_numbers_of_devices():
    for args in (("cpu", "0"), ("cpu", 0.0), (td.device("cpu"), 1)):
        with pytest.raises(TypeError, match="device"):
            td.device(*args)
    assert td.device("cpu", None) == td.device(td.device("cpu"), None) == td.device("cpu")


def test_parts_are_of_tensors():
    assert td.real(td.ones(1)).item() == 1
    for function in (td.real, td.imag):
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            function(3)
