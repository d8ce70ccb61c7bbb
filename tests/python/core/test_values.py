"""What numbers, dtypes and arguments mean: as in PyTorch, without needing it. What it says itself is in test_parity.py."""
import contextlib
import doctest
import inspect
import math
import re
import warnings

import pytest
import tensord as td


@contextlib.contextmanager
def default_dtype(dtype):
    before = td.get_default_dtype()
    td.set_default_dtype(dtype)
    try:
        yield
    finally:
        td.set_default_dtype(before)


@pytest.mark.parametrize("kind, dtype", [(float, td.float64), (int, td.int64), (bool, td.bool), (complex, td.complex128)])
@pytest.mark.parametrize("default", [td.float32, td.float64])
def test_python_s_types_as_dtypes(kind, dtype, default):
    x = td.ones(2)
    with default_dtype(default):
        made = [td.tensor([1], dtype=kind), td.zeros(2, dtype=kind), td.full((2,), 1, dtype=kind), td.zeros_like(x, dtype=kind), x.to(kind),
                x.sum(dtype=kind), x.new_zeros(2, dtype=kind), td.asarray([1], dtype=kind), td.empty(2, dtype=kind)]
    assert [m.dtype for m in made] == [dtype] * len(made)


def test_limits_of_python_s_types():
    assert td.finfo(float).bits == 64 and td.finfo(complex).bits == 64 and td.iinfo(int).bits == 64


@pytest.mark.parametrize("dtype", [td.float64, td.float16, td.bfloat16])
@pytest.mark.parametrize("call", [
    "i / 2", "i / i", "2 / (i + 1)", "i * 2.5", "i.sin()", "i.add(2.5)", "i.sub(2.5)", "i ** 0.5", "2.5 ** i", "td.where(i > 1, i, 2.5)", "td.where(i > 1, 2.5, i)",
    "td.where(i > 1, 1.0, 2.5)", "i.clamp(0.5)", "i.clamp(0, 2.5)", "(i > 1).sigmoid()", "(i > 1) * 2.5", "i[1] * 2.5", "i.true_divide(3)", "td.maximum(i, 2 * i).exp()",
    "i.logsumexp(0)", "td.atan2(i, i)", "i % 2.5", "i.fmod(2.5)", "td.result_type(i, 2.5)"])
def test_a_default_dtype_is_what_whole_numbers_become(dtype, call):
    i = td.arange(4)
    with default_dtype(dtype):
        out = eval(call)
    assert (out if isinstance(out, td.dtype) else out.dtype) is dtype


def test_what_a_default_dtype_leaves_alone():
    i, x = td.arange(4), td.ones(4, dtype=td.float32)
    with default_dtype(td.float64):
        assert (x / 2).dtype is td.float32 and (i + x).dtype is td.float32 and (i + x[0]).dtype is td.float32 and (x.half() * 2.5).dtype is td.float16
        assert (i + 2).dtype is td.int64 and i.sum().dtype is td.int64 and (i > 2.5).dtype is td.bool and i.masked_fill(i > 1, 2.5).dtype is td.int64
        assert (i * 1j).dtype is td.complex128 and i.float().dtype is td.float32 and td.clamp(i, min=td.tensor(0.5, dtype=td.float32)).dtype is td.float32
        with pytest.raises(td.DTypeError, match="float64 can't be cast to int64"):
            i.add_(2.5)
    assert (i / 2).dtype is td.float32


def test_values_in_a_wider_default_dtype():
    i = td.tensor([2**24 + 1, 3])
    with default_dtype(td.float64):
        assert (i / 1).tolist() == [2**24 + 1, 3] and not (i == 2.0**24).any() and (i[:1] * 1.0).item() == 2**24 + 1
        assert (td.arange(3) / 3).tolist() == [0, 1 / 3, 2 / 3]


# ---- arguments of another kind


@pytest.mark.parametrize("call", [
    "x.sum(True)", "x.mean(True)", "x.argmax(True)", "x.cumsum(True)", "x.max(True)", "x.softmax(True)", "x.prod(True)", "x.amax(True)", "x.median(True)",
    "x.sort(True)", "x.topk(True)", "x.topk(1, True)", "x.unsqueeze(True)", "x.squeeze(True)", "x.transpose(True, False)", "x.flatten(True)", "x.split(True)",
    "x.chunk(True)", "x.repeat(True, 2)", "x.reshape(True, -1)", "td.ones(True)", "td.multinomial(x[0], True)", "td.argsort(x, True)"])
def test_a_bool_is_no_dimension(call):
    x = td.arange(6.0).reshape(2, 3)
    with pytest.raises(TypeError, match="int.*not bool"):
        eval(call)


@pytest.mark.parametrize("call, value", [
    ("td.var_mean(x, True)", (3.5, 2.5)), ("td.var_mean(x, False)", (35 / 12, 2.5)), ("td.std_mean(x, False)", ((35 / 12) ** 0.5, 2.5)),
    ("td.var_mean(x, unbiased=False)", (35 / 12, 2.5)), ("td.var_mean(x, 1, False)", ([2 / 3, 2 / 3], [1, 4])),
    ("td.std_mean(x, 1, True, True)", ([[1], [1]], [[1], [4]])), ("td.var_mean(x, dim=1, correction=0, keepdim=True)", ([[2 / 3], [2 / 3]], [[1], [4]])),
    ("(x.var(False), x.var(1, False))", (35 / 12, [2 / 3, 2 / 3])), ("(x.std(True), x.std(correction=None))", (3.5**0.5, 3.5**0.5)),
    ("(x.var(axis=1), x.std(axis=1, keepdims=True))", ([1, 1], [[1], [1]])), ("(x.max(axis=1).values, x.softmax(axis=1).sum())", ([2, 5], 2))])
def test_forms_of_spread(call, value):
    x = td.arange(6.0).reshape(2, 3)
    for ours, right in zip(eval(call), value):
        assert ours.shape == td.tensor(right).shape and td.allclose(ours, td.tensor(right, dtype=td.float32))


def test_norms_of_complex_numbers_are_real():
    z = td.tensor([3 + 4j, 0, 5j])
    for p, right in ((0, 2), (1, 10), (2, 50**0.5), (td.inf, 5), (-td.inf, 0), (0.5, (5**0.5 * 2) ** 2), ("fro", 50**0.5)):
        assert z.norm(p).dtype is td.float32 and abs(z.norm(p).item() - right) < 1e-5, p
    assert td.norm(z, dtype=td.complex128).dtype is td.float64 and td.norm(td.arange(3), dtype=td.float64).dtype is td.float64
    with pytest.raises(td.DTypeError, match="floating point and complex"):
        td.norm(td.arange(3))


@pytest.mark.parametrize("weights, n, replacement, error", [
    ([1.0, -1.0], 1, True, "element < 0"), ([1.0, -1.0], 1, False, "element < 0"), ([0.0, 0.0], 1, True, "sum of probabilities <= 0"),
    ([[1.0, 0.0], [0.0, 0.0]], 1, False, "sum of probabilities <= 0"), ([1.0, float("nan")], 1, True, "`nan`"), ([1.0, float("inf")], 1, True, "`inf`"),
    ([1, 2], 1, True, "not implemented for int64"), ([1.0, 2.0], 0, True, "n_sample <= 0"), ([1.0, 2.0], 3, False, "without replacement"),
    ([[[1.0]]], 1, False, "1 or 2 dim"), (1.0, 1, False, "1 or 2 dim"), ([1.0, 2.0], 1.5, False, "must be an int"), ([1.0, 2.0], 1, 1, "must be bool")])
def test_what_nothing_can_be_drawn_from(weights, n, replacement, error):
    with pytest.raises(td.Error, match=error):
        td.multinomial(td.tensor(weights), n, replacement).tolist()


@pytest.mark.parametrize("dtype", [td.float16, td.float32, td.float64])
def test_multinomial_draws_only_what_has_a_chance(dtype):
    weights = td.tensor([0.0, 1.0, 0.0, 2.0, 0.0], dtype=dtype)
    drawn = td.multinomial(weights, 3000, replacement=True)
    assert drawn.dtype is td.int64 and set(drawn.tolist()) == {1, 3} and 850 < (drawn == 1).sum().item() < 1150
    alike = td.ones(7, dtype=dtype).expand(5000, 7)
    assert all(len(set(row)) == 7 for row in td.multinomial(alike[:9], 7).tolist())
    first, second = (td.bincount(column, minlength=7).tolist() for column in td.multinomial(alike, 2).unbind(1))
    assert all(570 < n < 860 for n in first + second)
    assert sorted(td.multinomial(weights, 2).tolist()) == [1, 3] and td.multinomial(weights.expand(4, 5), 2).shape == (4, 2)


@pytest.mark.parametrize("call, name", [
    ("td.ones(-1)", "ones"), ("td.zeros((2, -1))", "zeros"), ("td.randn(-1)", "randn"), ("x.max(5)", "max"), ("x.std(5)", "std"), ("x.flatten(7)", "flatten"),
    ("x.argsort(5)", "argsort"), ("x.norm(2, 7)", "norm"), ("x.split('a')", "split"), ("td.full((-1,), 2)", "full")])
def test_errors_name_what_was_called(call, name):
    x = td.ones(2, 3)
    with pytest.raises(td.Error, match=rf"^{name}\(\)"):
        eval(call)


def test_names_that_are_nearly_there():
    for module, wrong, right in ((td, "reluu", "relu"), (td, "no_gard", "no_grad"), (td.nn.functional, "reluu", "relu"), (td.nn, "Linar", "Linear")):
        with pytest.raises(AttributeError) as e:
            getattr(module, wrong)
        assert e.value.name == wrong and e.value.obj is module and right in dir(module)


# ---- indexing


def test_a_tensor_of_uint8_is_a_mask():
    x = td.arange(6).reshape(2, 3)
    for mask, right in (([1, 0], [[0, 1, 2]]), ([[1, 0, 0], [0, 7, 1]], [0, 4, 5])):
        mask = td.tensor(mask, dtype=td.uint8)
        with pytest.warns(UserWarning, match="uint8"):
            assert x[mask].tolist() == right
        with pytest.warns(UserWarning):
            y = x.clone()
            y[mask] = -1
        assert y.sum().item() == 15 - sum(td.tensor(right).flatten().tolist()) - td.tensor(right).numel()
    with pytest.warns(UserWarning):
        assert x[..., td.tensor([1, 0, 1], dtype=td.uint8)].tolist() == [[0, 2], [3, 5]]
    with pytest.warns(UserWarning), pytest.raises(IndexError, match="mask"):
        x[td.tensor([1, 0, 1], dtype=td.uint8)]
    assert x[td.tensor(1, dtype=td.uint8)].shape == (1, 2, 3) and x[td.tensor(0, dtype=td.uint8)].shape == (0, 2, 3)


@pytest.mark.parametrize("dtype", [td.int8, td.int16, td.int32, td.int64])
def test_an_integer_may_be_a_tensor(dtype):
    x = td.arange(24.0).reshape(2, 3, 4)
    one, last = td.tensor(1, dtype=dtype), td.tensor(-1, dtype=dtype)
    assert x[one].data_ptr() == x[1].data_ptr() and x[one, last].data_ptr() == x[1, -1].data_ptr() and x[..., one].stride() == x[..., 1].stride()
    x[one].zero_()
    x[0][one][2:] = -1
    assert x[1].sum().item() == 0 and x[0, 1].tolist() == [4, 5, -1, -1]
    assert x[one, :, td.tensor([0, 1])].shape == (3, 2)  # it selects first
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[td.tensor(2, dtype=dtype)]
    w = td.ones(3, requires_grad=True)
    (w[td.tensor(2, dtype=dtype)] * 5).backward()
    assert w.grad.tolist() == [0, 0, 5]


# ---- functions of layers


ACTIVATIONS = [("relu", ()), ("relu6", ()), ("leaky_relu", (0.1,)), ("elu", (1.5,)), ("silu", ()), ("mish", ()), ("hardtanh", (-1.0, 0.5)), ("hardsigmoid", ()),
               ("hardswish", ()), ("selu", ()), ("celu", (1.5,)), ("threshold", (0.1, 20.0))]
LAYERS = {"relu": "ReLU", "relu6": "ReLU6", "leaky_relu": "LeakyReLU", "elu": "ELU", "silu": "SiLU", "mish": "Mish", "hardtanh": "Hardtanh",
          "hardsigmoid": "Hardsigmoid", "hardswish": "Hardswish", "selu": "SELU", "celu": "CELU", "threshold": "Threshold"}


@pytest.mark.parametrize("name, more", ACTIVATIONS)
@pytest.mark.parametrize("layer", [False, True])
def test_in_place(name, more, layer):
    function = getattr(td.nn.functional, name)
    placed = getattr(td.nn, LAYERS[name])(*more, inplace=True) if layer else lambda x: function(x, *more, inplace=True)
    given = [-4.0, -1.0, -0.25, 0.375, 2.0, 7.0]
    results = []
    for run in (placed, lambda x: function(x, *more)):
        w = td.tensor(given, requires_grad=True)
        x = w * 1
        y = run(x)
        assert (y is x) == (run is placed)
        (y * y).sum().backward()
        results.append((y.tolist(), w.grad.tolist(), x.tolist()))
    assert results[0][:2] == results[1][:2] and results[0][2] == results[0][0] and results[1][2] == given
    with pytest.raises(td.AutogradError, match="leaf"):
        placed(td.tensor(given, requires_grad=True))
    view = td.tensor(given)
    assert placed(view[:2]) is not view and view.tolist() == results[0][0][:2] + given[2:]


def test_a_threshold_leaves_nan():
    x = td.tensor([math.nan, 0.0, 2.0], requires_grad=True)
    y = td.nn.functional.threshold(x, 1.0, 20.0)
    y.sum().backward()
    assert math.isnan(y[0]) and y[1:].tolist() == [20, 2] and x.grad.tolist() == [1, 0, 1]


@pytest.mark.parametrize("name, shape", [("Dropout", (40, 50)), ("Dropout1d", (40, 50, 2)), ("Dropout1d", (400, 2)), ("Dropout2d", (40, 50, 1, 2))])
def test_dropout_in_place(name, shape):
    layer = getattr(td.nn, name)(0.25, inplace=True)
    x = td.ones(shape)
    assert layer(x) is x and sorted(set(x.flatten().tolist())) == [0, td.tensor(1 / 0.75).item()] and 0.6 < (x > 0).float().mean().item() < 0.9
    assert layer.eval()(x) is x
    w = td.ones(shape, requires_grad=True)
    y = layer.train()(w * 1)
    y.sum().backward()
    assert w.grad.tolist() == y.tolist()


def test_cosine_similarity_broadcasts():
    f = td.nn.functional.cosine_similarity
    one, many = td.tensor([[1.0, 2.0, 2.0]]), td.tensor([[2.0, 1.0, 2.0], [-1.0, -2.0, -2.0], [0.0, 0.0, 0.0]])
    assert td.allclose(f(one, many), td.tensor([8 / 9, -1, 0])) and td.allclose(f(many.unsqueeze(1), many.unsqueeze(0), -1)[0], td.tensor([1, -8 / 9, 0]))
    # dim is of the shape that both broadcast to
    assert f(td.ones(3), td.ones(2, 3), 1).shape == (2,) and f(td.ones(3), td.ones(2, 3), 0).shape == (3,) and f(td.ones(3, 1), td.ones(1, 4), 0).shape == (4,)
    assert td.allclose(f(td.ones(1, 4), td.ones(2, 4), 0), td.ones(4)) and td.allclose(f(td.ones(2, 1), td.ones(2, 4), 1), td.ones(2))


@pytest.mark.parametrize("dtype", [td.float16, td.bfloat16])
def test_norms_of_halves(dtype):
    """Squares of 1e-4 and of 1000 are no halves."""
    F = td.nn.functional
    for v in (1e-4, 1000.0):
        x = td.full((2, 3), v, dtype=dtype)
        assert td.norm(x, 2.0, 1).tolist() == pytest.approx([math.sqrt(3) * v] * 2, rel=1e-2) and td.norm(x, 2.0, 1).dtype is dtype
        assert F.normalize(x).tolist()[0] == pytest.approx([math.sqrt(1 / 3)] * 3, rel=1e-2)
        assert F.cosine_similarity(x, x).tolist() == pytest.approx([1, 1], rel=1e-2)
        assert td.norm(x, 3.0).item() == pytest.approx(6 ** (1 / 3) * v, rel=1e-2)
    x = td.tensor([[3.0, 4.0]], dtype=dtype, requires_grad=True)
    td.norm(x).backward()
    assert x.grad.dtype is dtype and x.grad.tolist()[0] == pytest.approx([0.6, 0.8], rel=1e-2)


def test_nothing_is_multiplied_by_zero():
    """What is infinite, or NaN, stays where it is."""
    F = td.nn.functional
    x = td.tensor([math.nan, math.inf, 2.0])
    assert td.diag_embed(x).tolist()[1:] == [[0, math.inf, 0], [0, 0, 2]] and td.diag_embed(x, 1).tolist()[0][2:] == [0, 0]
    for f, two in (F.softshrink, 1.5), (F.hardshrink, 2.0):
        out = f(x).tolist()
        assert math.isnan(out[0]) and out[1:] == [math.inf, two], f
        assert f(td.tensor([-2.0, -0.5, 0.5])).tolist() == [-two, 0, 0], f


def test_products_that_leave_the_range_on_the_way():
    for dtype, large in (td.float16, 2.0**10), (td.float32, 2.0**100), (td.complex64, 2.0**100):
        out = td.cumprod(td.tensor([large, large, 0.0, 1.0], dtype=dtype), 0)
        assert out.dtype is dtype and out.tolist()[0] == large and not math.isfinite(abs(out.tolist()[1])) and out.tolist()[2:] == [0, 0]
    assert td.cumprod(td.tensor(3, dtype=td.uint8), 0).dtype is td.int64 and td.cumprod(td.tensor(True), 0).item() == 1
    long = td.cumprod(td.full((2, 2500), 1.0 + 2.0**-10, dtype=td.float64), 1)  # more than one op joins
    assert long.shape == (2, 2500) and all(math.isclose(long[1, k].item(), (1.0 + 2.0**-10) ** (k + 1)) for k in (0, 1249, 1250, 2499))


@pytest.mark.parametrize("n, options, places", [
    (5, {"scale_factor": 1.5}, [0, 0, 1, 2, 2, 3, 4]), (5, {"scale_factor": 1.5, "recompute_scale_factor": True}, [0, 0, 1, 2, 2, 3, 4]),
    (3, {"scale_factor": 2.5}, [0, 0, 0, 1, 1, 2, 2]), (3, {"scale_factor": 2.5, "recompute_scale_factor": True}, [0, 0, 0, 1, 1, 2, 2]),
    (10, {"scale_factor": 0.35}, [0, 2, 5]), (10, {"scale_factor": 0.35, "recompute_scale_factor": True}, [0, 3, 6]), (10, {"size": 3}, [0, 3, 6]),
    (5, {"scale_factor": 1.1}, [0, 1, 2, 3, 4]), (3, {"scale_factor": 2.3}, [0, 0, 1, 1, 2, 2]), (4, {"size": 6, "mode": "nearest-exact"}, [0, 1, 1, 2, 3, 3])])
def test_nearest_at_fractional_scales(n, options, places):
    """The places are PyTorch's."""
    x = td.arange(float(n)).reshape(1, 1, n)
    assert td.nn.functional.interpolate(x, **options)[0, 0].tolist() == places
    assert td.nn.functional.interpolate(x.unsqueeze(2), **{k: (1, v) if k in ("size", "scale_factor") else v for k, v in options.items()})[0, 0, 0].tolist() == places


def test_broadcast_tensors_are_views():
    a, b = td.ones(30000, 1), td.ones(1, 30000)
    x, y = td.broadcast_tensors(a, b)
    assert x.shape == y.shape == (30000, 30000) and x.stride() == (1, 0) and x.data_ptr() == a.data_ptr() and y.data_ptr() == b.data_ptr()
    assert td.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3) and td.broadcast_shapes((0, 1), (3,)) == (0, 3) and td.broadcast_shapes() == ()
    for wrong in (((2,), (3,)), ((0,), (2,)), ((2, 3), (3, 3), (2, 1))):
        with pytest.raises(td.ShapeError, match="broadcast"):
            td.broadcast_shapes(*wrong)


def test_the_standard_s_std_has_gradients_where_it_is_0():
    for f in (td.std, td.array_api.std):
        x = td.ones(4, requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == [0, 0, 0, 0]


def _examples():
    functional = td.nn.functional
    return [n for n, f in inspect.getmembers(functional, inspect.isroutine) if not n.startswith("_") and f.__module__.startswith("tensord.nn")]


class Anywhere(doctest.OutputChecker):
    """Examples lie on the CPU."""

    def check_output(self, want, got, flags):
        return super().check_output(want, re.sub(r",\s*device='fake:0'", "", got), flags)


@pytest.mark.parametrize("name", _examples())
def test_the_example_of(name):
    """Every function of layers shows one, and it is true."""
    function = getattr(td.nn.functional, name)
    found = [t for t in doctest.DocTestFinder(recurse=False).find(function, name, globs={"td": td, "F": td.nn.functional}) if t.examples]
    assert found, f"{name} has no example"
    said = []
    with warnings.catch_warnings():  # of names that PyTorch gave up, too
        warnings.simplefilter("ignore")
        failed = doctest.DocTestRunner(Anywhere()).run(found[0], out=said.append).failed
    assert failed == 0, "".join(said)
