"""What PyTorch 2.13 does at the edges of its functions, as values that it gave: sizes of 0, zero vectors, NaNs, whole numbers, shapes that are wrong."""
import math
import warnings

import pytest
import tensord as td
from tensord.nn import functional as F


def test_cosine_embedding_loss_of_zero_vectors_and_other_targets():
    x, y = td.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 2.0]], requires_grad=True), td.tensor([[3.0, 4.0], [1.0, 1.0], [2.0, 1.0]])
    F.cosine_embedding_loss(x, y, td.tensor([1, -1, 0]), reduction="sum").backward()
    td.testing.assert_close(x.grad[0], td.tensor([-6e5, -8e5]))  # the squared length is held above 0 by 1e-12
    td.testing.assert_close(x.grad[1:], td.tensor([[0.0226274, -0.0169706], [0.0, 0.0]]))
    assert F.cosine_embedding_loss(x.half(), y.half(), td.tensor([1, -1, 0])).dtype is td.float16


def test_variances_of_whole_rows():
    x, t = td.zeros(2, 2, requires_grad=True), td.ones(2, 2)
    for var in (td.tensor([1.0, 4.0]), td.tensor([[1.0], [4.0]])):  # one for each row
        td.testing.assert_close(F.gaussian_nll_loss(x, t, var, reduction="none"), td.tensor([[0.5, 0.5], [0.8181472, 0.8181472]]))
    with pytest.raises(td.ShapeError, match="var is of incorrect size"):
        F.gaussian_nll_loss(x, t, td.ones(3))


def test_largest_of_windows_with_nans():
    nan = math.nan
    out, places = F.adaptive_max_pool1d(td.tensor([[[2.0, nan, nan, nan, 2.0]]]), 3, return_indices=True)
    assert places.tolist() == [[[1, 3, 3]]] and bool(out.isnan().all())  # the last of several
    x = td.tensor([[[nan, 1.0, 4.0], [4.0, nan, 0.0], [2.0, 3.0, 3.0]]], requires_grad=True)
    out, places = F.adaptive_max_pool2d(x, 2, return_indices=True)
    assert places.tolist() == [[[4, 4], [4, 4]]]
    out.sum().backward()
    assert x.grad.tolist() == [[[0, 0, 0], [0, 4, 0], [0, 0, 0]]]
    places = F.adaptive_max_pool3d(td.tensor([[[[nan, nan, 1.0]], [[1.0, nan, 7.0]], [[9.0, 9.0, -math.inf]]]]), (2, 1, 2), return_indices=True)[1]
    assert places.tolist() == [[[[4, 4]], [[4, 4]]]]


def test_pools_to_no_places():
    x = td.ones(1, 2, 3, 4, requires_grad=True)
    out = F.adaptive_avg_pool2d(x, (0, 2))
    assert out.shape == (1, 2, 0, 2) and out.requires_grad
    out.sum().backward()
    assert x.grad.shape == x.shape and not bool(x.grad.any())
    out, places = F.adaptive_max_pool2d(x, (2, 0), return_indices=True)
    assert out.shape == places.shape == (1, 2, 2, 0) and places.dtype is td.int64 and out.requires_grad
    assert F.adaptive_avg_pool3d(td.ones(1, 2, 2, 2), (0, 1, 1)).shape == (1, 0, 1, 1) and F.adaptive_max_pool3d(td.ones(1, 1, 2, 2, 2), 0).shape == (1, 1, 0, 0, 0)
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        for shape, size, text in (((1, 1, 4, 4), (-1, 2), "elements of output_size must be greater"), ((1, 1, 0, 4), (1, 1), "non-zero size for non-batch dimensions")):
            with pytest.raises(RuntimeError, match=text):
                pool(td.ones(shape), size)


def test_means_of_whole_numbers_are_cut_off():
    x = td.arange(-13, 14).reshape(1, 1, 3, 3, 3)
    assert F.avg_pool3d(x, 2).tolist() == [[[[[-6]]]]] and F.avg_pool3d(x, 3).tolist() == [[[[[0]]]]] and F.avg_pool3d(x * 3, 2).dtype is td.int64  # -6.5; 0
    assert F.avg_pool3d(x, 2, divisor_override=-3).tolist() == [[[[[17]]]]]  # 52 / 3
    assert F.avg_pool3d(td.full((1, 3, 3, 3), 7), 3).item() == 7 and F.avg_pool3d(td.full((1, 3, 3, 3), -7), 3).item() == -7
    assert F.avg_pool2d(td.arange(-8, 8).reshape(1, 4, 4), 3, 1, divisor_override=2).tolist() == [[[-13, -9], [4, 9]]]


def test_frequencies_of_no_places_and_no_step():
    assert td.fft.fftfreq(0).shape == (0,) and td.fft.rfftfreq(0).isnan().tolist() == [True]  # infinitely many times 0
    assert td.fft.fftfreq(5, 0.0)[1:].tolist() == [math.inf, math.inf, -math.inf, -math.inf]
    assert td.fft.fftfreq(7).tolist()[3] == 0.4285714626312256  # multiplied as float32
    for call in (lambda: td.fft.fftfreq(-1), lambda: td.fft.fftfreq(5, dtype=td.int64)):
        with pytest.raises(RuntimeError):
            call()


def test_areas_of_no_size():
    x = td.ones(1, 1, 4, 4, requires_grad=True)
    assert F.interpolate(x, (0, 2), mode="area").shape == (1, 1, 0, 2) and F.interpolate(x, scale_factor=0.1, mode="area").shape == (1, 1, 0, 0)
    assert F.interpolate(x[0], 0, mode="area").shape == (1, 4, 0) and F.interpolate(x[None], (0, 1, 1), mode="area").shape == (1, 1, 0, 1, 1)
    for size, mode, text in (((-1, 2), "area", "elements of output_size"), ((1, 2, 3), "area", "same number of spatial dimensions"), ((0, 2), "nearest", "should be greater than 0")):
        with pytest.raises((RuntimeError, ValueError), match=text):
            F.interpolate(x, size, mode=mode)


def test_powers_of_two_beyond_the_range():
    assert td.ldexp(td.tensor([1e-45, 1e30, 0.0, math.inf]), td.tensor([270, -240, 5000, -5000])).tolist()[2:] == [0, math.inf]
    td.testing.assert_close(td.ldexp(td.tensor([1e-45, 1e30]), td.tensor([270, -240])), td.tensor([2.6584560e36, 5.6612e-43]))
    big = td.ldexp(td.tensor([5e-324, 1e300, 0.0], dtype=td.float64), td.tensor([2090, -2060, 5000]))
    assert big.tolist() == [math.ldexp(5e-324, 2090), math.ldexp(1e300, -2060), 0]
    for kind in (td.float16, td.bfloat16):
        out = td.ldexp(td.tensor([1.5, 2.0], dtype=kind, requires_grad=True), td.tensor([3, 5]))
        assert out.dtype is kind and out.tolist() == [12, 64] and out.requires_grad
    assert td.ldexp(td.tensor([2.0]).half(), td.tensor([15])).tolist() == [math.inf] and td.ldexp(td.tensor([1, 2]), td.tensor([3, -4])).tolist() == [8, 0.125]


def test_the_next_half():
    x = td.tensor([1.0, 2.0, 0.0, 65504.0], dtype=td.float16, requires_grad=True)
    out = td.nextafter(x, td.tensor([3.0, 2.0, -1.0, math.inf]).half())
    assert out.dtype is td.float16 and out.tolist() == [1.0009765625, 2, -5.960464477539063e-08, math.inf]
    out.sum().backward()
    assert x.grad.tolist()[:3] == [1, 0, 1]
    assert td.ones(2).half().nextafter_(td.zeros(2).half()).tolist() == [0.99951171875] * 2
    assert td.tensor([1.0], dtype=td.bfloat16).nextafter(td.tensor([0.0], dtype=td.bfloat16)).tolist() == [0.99609375]


def test_running_logarithms_of_complex_numbers():
    x = td.tensor([1 + 2j, 3 - 1j, -5 + 4j, 10j, -math.inf, complex(math.inf, 1), complex(math.nan, 1)])
    out = td.logcumsumexp(x, 0)
    td.testing.assert_close(out[:6], td.tensor([1 + 2j, 2.8564 - 0.9780j, 2.8565 - 0.9783j, 2.8572 - 1.0358j, 2.8572 - 1.0358j, complex(math.inf, 1)]), atol=1e-4, rtol=0)
    assert bool(out[6].isnan()) and td.logcumsumexp(td.tensor([-1000.0 + 0j, 0j]), 0).tolist() == [-1000, 0]
    z = td.randn(3, 4, dtype=td.complex128, requires_grad=True)
    assert td.autograd.gradcheck(lambda z: td.logcumsumexp(z, 1), (z,)) and td.autograd.gradgradcheck(lambda z: td.logcumsumexp(z, 0), (z,))
    none = td.zeros(0, 3, requires_grad=True)
    assert td.autograd.grad(td.logcumsumexp(none, 0).sum(), none, create_graph=True)[0].shape == (0, 3)


def test_nothing_has_a_place_in_the_graph():
    none = td.zeros(0, 3, requires_grad=True)
    for median in (td.median, td.nanmedian):
        out = median(none)
        assert out.requires_grad and math.isnan(out.item()) and td.autograd.grad(out, none)[0].shape == (0, 3)
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            median(none, 0)


def test_norms_of_matrices_without_elements():
    for order, shape in ((1, (3, 0)), (2, (0, 3)), (2, (3, 0)), (math.inf, (0, 3))):
        assert td.linalg.matrix_norm(td.zeros(shape), order).item() == 0
        assert td.linalg.matrix_norm(td.zeros(2, *shape), order, keepdim=True).tolist() == [[[0]], [[0]]]
    for order, shape in ((-1, (3, 0)), (-2, (0, 3)), (-math.inf, (0, 3))):
        with pytest.raises(IndexError):
            td.linalg.matrix_norm(td.zeros(shape), order)


def test_whole_numbers():
    assert td.linspace(1.7, 9.9, 7, dtype=td.int32).tolist() == [1, 2, 3, 5, 6, 7, 9] and td.logspace(0, 1.2, 2, dtype=td.int64).tolist() == [1, 10]
    assert td.arange(-0.9, 2.1, 2.0, dtype=td.int32).tolist() == [0, 2] and td.arange(0.5, 7.1, 1.7, dtype=td.int64).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert td.ones(2, 2, dtype=td.bool).sum_to_size(2, 2).dtype is td.bool and td.masked.cumsum(td.ones(3, dtype=td.int32), 0).dtype is td.int32
    few = td.tensor([0, 1, 2], dtype=td.uint8)
    assert td.special.shifted_chebyshev_polynomial_t(few, td.tensor([3])).tolist() == [-1, 1, 99]
    assert [i.tolist() for i in td.unravel_index(few, (4, 1073741824))] == [[0, 0, 0], [0, 1, 2]] and td.unravel_index(few, (3, 1))[0].dtype is td.int64
    assert td.tensordot(td.ones(1, 1, 1, dtype=td.int32), td.ones(2, 1, 2, dtype=td.int32), ((0, 1), (2, 0))).dtype is td.int32
    assert td.cov(td.ones(2, 3).half(), fweights=td.tensor([1, 2, 3])).dtype is td.float16


def test_numbers_stand_for_tensors():
    """As in the array API's standard; PyTorch refuses some of these."""
    x = td.tensor([1.0, 4.0])
    for name in "atan2 maximum minimum fmax fmin logaddexp hypot copysign logical_and logical_or".split():
        f = getattr(td, name)
        assert f(x, 2).tolist() == f(x, td.tensor(2.0)).tolist() and f(2, x).tolist() == f(td.tensor(2.0), x).tolist()
    assert td.less(2, x).tolist() == [False, True]


def test_windows_of_halves():
    for window, name in ((td.signal.windows.hann, "hann_window"), (td.signal.windows.kaiser, "kaiser_window")):
        with pytest.raises(ValueError, match="expects float32 or float64"):
            window(4, dtype=td.float16)
        assert getattr(td, name)(4, dtype=td.bfloat16, requires_grad=True).dtype is td.bfloat16


def test_reductions_of_segments():
    inf, w = math.inf, td.arange(12.0).reshape(6, 2)
    wanted = {"sum": [[2, 4], [0, 0], [28, 32]], "max": [[2, 3], [-inf, -inf], [10, 11]], "min": [[0, 1], [inf, inf], [4, 5]], "prod": [[0, 3], [1, 1], [1920, 3465]]}
    for reduce, rows in wanted.items():
        assert td.segment_reduce(w, reduce, lengths=td.tensor([2, 0, 4])).tolist() == td.segment_reduce(w, reduce, offsets=td.tensor([0, 2, 2, 6])).tolist() == rows
        assert td.segment_reduce(w, reduce, lengths=td.tensor([[1, 1]] * 6), axis=1).tolist() == w.tolist()
    assert td.segment_reduce(w, "mean", lengths=td.tensor([2, 0, 4]), initial=5).tolist() == [[3.5, 4.5], [5, 5], [8.25, 9.25]]
    assert td.segment_reduce(w, "sum", lengths=td.tensor([2, 3]), unsafe=True).tolist() == [[2, 4], [18, 21]]
    x = td.tensor([1.0, 3.0, 3.0, 2.0], requires_grad=True)
    for reduce, wanted in (("sum", [1, 1, 1, 2]), ("max", [0, 0.5, 0.5, 2]), ("min", [1, 0, 0, 2]), ("prod", [9, 3, 3, 2])):
        out = td.segment_reduce(x, reduce, lengths=td.tensor([3, 1]))
        assert td.autograd.grad((out * td.tensor([1.0, 2.0])).sum(), x)[0].tolist() == wanted
    for how in ({}, {"lengths": td.tensor([2, 3])}, {"lengths": td.tensor([7, -1])}, {"lengths": td.tensor([3, 3]), "axis": 1}):
        with pytest.raises((ValueError, RuntimeError)):
            td.segment_reduce(w, "sum", **how)


def test_bags_with_their_sizes():
    w, i = td.arange(12.0).reshape(6, 2), td.tensor([1, 2, 4, 5, 4, 3])
    out, bag, sizes, rows = td.embedding_bag(w, i, td.tensor([0, 2, 2]), mode=2)
    assert out.tolist() == [[4, 5], [0, 0], [10, 11]] and bag.tolist() == [0, 0, 2, 2, 2, 2] and sizes.tolist() == [2, 0, 4] and rows.tolist() == [[2, 2], [0, 0], [5, 5]]
    assert td.embedding_bag(w, i, td.tensor([0, 2, 5]), False, 0, False, td.ones(6))[0].tolist() == [[6, 8], [26, 29], [6, 7]]


def test_out_of_the_very_dtype():
    x, m = td.tensor([[3.0, -1.0], [2.0, 5.0]]), td.tensor([[True, False], [True, True]])
    place = td.tensor([[0, 1], [1, 0]])
    wide = lambda *size: td.zeros(size, dtype=td.float64)
    calls = [(td.gather, (x, 1, place), wide(2, 2)), (td.take, (x, place), wide(2, 2)), (td.index_select, (x, 0, place[0]), wide(2, 2)), (td.masked_select, (x, m), wide(3)), (td.mm, (x, x), wide(2, 2)),
             (td.abs, (x,), wide(2, 2)), (td.amax, (x, 0), wide(2)), (td.softmax, (x, 0), wide(2, 2)), (td.where, (m, x, x), wide(2, 2)), (td.quantile, (x, 0.5), wide()), (td.linalg.inv, (x,), wide(2, 2)),
             (td.complex, (x, x), td.zeros(2, 2, dtype=td.complex128)), (td.fft.fft, (x,), td.zeros(2, 2, dtype=td.complex128)), (td.nn.functional.gelu, (x,), wide(2, 2)), (td.multinomial, (x.abs(), 1), wide(2, 1)),
             (td.argmax, (x, 1), td.zeros(2)), (td.all, (x, 1), td.zeros(2)), (td.isneginf, (x,), td.zeros(2, 2)), (td.nn.functional.avg_pool2d, (x[None], 2), wide(1, 1, 1))]
    for function, arguments, out in calls:
        with pytest.raises(TypeError, match="expected out to have dtype"):
            function(*arguments, out=out)
        made = function(*arguments)
        given = td.zeros_like(made)
        assert function(*arguments, out=given) is given
        if function is not td.multinomial:
            assert given.tolist() == made.tolist()
    assert td.add(x, x, out=wide(2, 2)).tolist() == [[6, -2], [4, 10]] and td.fft.irfft(x + 0j, out=wide(2, 2)).dtype is td.float64  # these widen
    for function, arguments, outs in ((td.aminmax, (x,), (wide(), wide())), (td.sort, (x,), (td.zeros(2, 2), td.zeros(2, 2))), (td.max, (x, 0), (wide(2), td.zeros(2, dtype=td.int64)))):
        with pytest.raises(TypeError, match="expected out to have dtype"):
            function(*arguments, out=outs)
    with pytest.raises(TypeError, match="floating point"):
        td.fft.irfft(x + 0j, out=td.zeros(2, 2, dtype=td.complex64))


def test_out_apart_from_the_inputs():
    x, place = td.arange(6.0).reshape(2, 3), td.tensor([[0, 1, 1], [1, 0, 0]])
    for function, arguments, out in ((td.gather, (x, 0, place), x), (td.take, (x, place), x), (td.index_select, (x, 0, place[0, :2]), x), (td.masked_select, (x, x > 2), x.view(-1)[:3]),
                                     (td.cat, ([x[:1], x[1:]],), x), (td.kthvalue, (x, 1), (x.view(-1)[2:4], td.zeros(2, dtype=td.int64))), (td.aminmax, (x,), (x[0, 0], td.tensor(0.0))),
                                     (td.take, (place, place[0]), place[0]), (td.cross, (x, x + 1), x), (td.stack, ([x[0]],), x[:1])):
        with pytest.raises(td.InvalidError, match="refer to a single memory location"):
            function(*arguments, out=out)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert td.scatter_add(x, 1, place, td.ones(2, 3), out=x) is x and x.sum().item() == 21  # the first is what is written
    with pytest.raises(td.InvalidError, match="refer to a single memory location"):
        td.index_add(td.zeros(2, 3), 0, td.tensor([0, 1]), x, out=x)
    halves = td.arange(8.0).reshape(4, 2)
    assert td.cat([halves[:2], halves[:1]], out=halves[1:4].clone()).shape == (3, 2) and td.gather(halves[:1], 0, td.zeros(1, 2, dtype=td.int64), out=halves[1:2]).tolist() == [[0, 1]]


def test_refused_numbers():
    x, m = td.tensor([1, 2]), td.tensor([True, False])
    for value in (2 + 3j, td.tensor(2 + 3j)):
        for y in (x, x.float()):
            with pytest.raises((td.InvalidError, TypeError), match="cannot be converted to .* without overflow"):
                y.masked_fill(m, value)
    assert x.bool().masked_fill(m, td.tensor(3j)).tolist() == [True, True] and (x + 0j).masked_fill(m, td.tensor(3j)).tolist() == [3j, 2]
    with pytest.raises(TypeError, match="'start' must be an int"):
        td.arange(5).narrow(0, td.tensor(True), 1)
    assert td.arange(5).narrow(0, td.tensor(1), 1).tolist() == [1]


def test_to_by_every_form():
    x = td.arange(6.0).reshape(1, 1, 2, 3)
    assert x.to(td.float64, False, True).dtype is td.float64 and x.to("cpu", td.float16, True, True).dtype is td.float16 and x.to(x.half(), True).dtype is td.float16
    assert x.to(other=x.double(), copy=True).dtype is td.float64 and x.to(None) is x and x.to(x, True, False) is x and x.to("cpu", None, True) is x
    for copied in (x.to(td.float32, False, True), x.to(x, False, True), x.to(td.float32, copy=True), x.to("cpu", None, False, True)):
        assert copied.data_ptr() != x.data_ptr() and copied.tolist() == x.tolist()
    for name in "float double half bfloat16 int long short char byte bool cfloat cdouble".split():
        assert getattr(x.expand(1, 2, 2, 3), name)(memory_format=td.channels_last).stride() == (12, 1, 6, 2)
        with pytest.raises(TypeError, match="argument"):
            getattr(x, name)(td.channels_last)
    for bad in ((True,), (td.float32, td.float64), (td.float32, 3), (td.float32, False, True, True), (3,)):
        with pytest.raises(TypeError):
            x.to(*bad)
    with pytest.raises(TypeError, match="multiple values for argument 'non_blocking'"):
        x.to(td.float32, True, non_blocking=True)
    assert td.ones(2).copy_(td.zeros(2), non_blocking=True).tolist() == td.ones(2).copy_(td.zeros(2), True).tolist() == [0, 0]


def test_arguments_by_the_names_of_pytorch():
    x, m, v = td.tensor([3.0, 1.0, 2.0]), td.tensor([[2.0, 1.0], [0.0, 3.0]]), td.tensor([1.0, 2.0])
    assert td.mm(m, mat2=m).tolist() == td.mm(input=m, other=m).tolist() == [[4, 5], [0, 9]] and td.bmm(m[None], mat2=m[None]).tolist() == [[[4, 5], [0, 9]]]
    assert v.dot(tensor=v).item() == 5 and m.mv(vec=v).tolist() == [4, 6] and td.pow(v, exponent=2).tolist() == v.clone().pow_(exponent=2).tolist() == [1, 4]
    assert td.float_power(v, exponent=2).dtype is td.float64 and v.heaviside(values=v).tolist() == [1, 1] and td.swapaxes(m, axis0=0, axis1=1).tolist() == m.T.tolist()
    place = td.tensor([1, 0])
    assert v.index_add(0, place, source=v).tolist() == [3, 3] and v.clone().index_add_(0, place, source=v, alpha=2).tolist() == [5, 4] and v.index_copy(0, place, source=v).tolist() == [2, 1]
    assert v.masked_scatter(v > 1, source=x).tolist() == [1, 3] and td.put(v, place, source=v).tolist() == [2, 1] and td.cholesky_solve(v[:, None], input2=m.tril()).shape == (2, 1)
    assert x.expand(size=(2, 3)).shape == x.broadcast_to(size=(2, 3)).shape == (2, 3) and m.view(size=(4,)).shape == (4,) and x.unfold(dimension=0, size=2, step=1).shape == (2, 2)
    assert x.new_ones(size=(2,)).tolist() == [1, 1] and x.new_zeros(2, 2).shape == x.new_empty(size=[2, 2]).shape == (2, 2) and m.sum_to_size(size=(1, 2)).tolist() == [[2, 4]]
    assert v.divide(2, rounding_mode="floor").tolist() == v.clone().divide_(2, rounding_mode="floor").tolist() == [0, 1] and td.divide(v, v, out=td.zeros(2)).tolist() == [1, 1]
    nan = td.tensor([1.0, math.nan])
    assert td.nansum(nan, dtype=td.float64).dtype is nan.nanmean(0, True, dtype=td.float64).dtype is td.float64 and td.nansum(nan).item() == nan.nanmean(0).item() == 1
    for split in (x.tensor_split(indices=(1,)), x.hsplit(indices=(1,)), x.split(split_size=2), x.tensor_split(sections=2), x.split(split_sizes=[1, 2]), td.hsplit(x[:2], sections=2)):
        assert len(split) == 2
    assert 1 <= td.zeros(9).uniform_(**{"from": 1, "to": 2}).min().item() and td.zeros(9).random_(to=1).max().item() == 0 and td.zeros(9).random_(**{"from": 5}, to=6).tolist() == [5] * 9
    made = [f(x, dtype=td.float64, generator=td.Generator().manual_seed(3)) for f in (td.rand_like, td.rand_like, td.randn_like, td.randn_like)] + [td.randint_like(x, 2, 9, generator=td.Generator().manual_seed(3)) for _ in range(2)]
    assert all(made[k].tolist() == made[k + 1].tolist() for k in (0, 2, 4)) and td.isin(place, place, assume_unique=True).all()
    assert td.zeros(3).resize_(size=(2,), memory_format=td.contiguous_format).shape == td.zeros(3).resize_as_(v, memory_format=td.preserve_format).shape == (2,)
    with pytest.raises(TypeError, match="multiple values"):
        x.tensor_split(2, sections=2)
    for arguments in ({}, {"dim": 0}, {"dim": -1, "descending": False}, {"stable": True}, {"stable": True, "dim": 0}, {"dim": 0, "descending": False, "stable": False}):
        assert x.sort(**arguments).values.tolist() == td.sort(x, **arguments)[0].tolist() == [1, 2, 3] and x.argsort(**arguments).tolist() == [1, 2, 0]


def test_diagonals_that_begin_anew():
    tall = td.zeros(7, 3).fill_diagonal_(1, wrap=True)
    assert tall.nonzero().tolist() == [[0, 0], [1, 1], [2, 2], [4, 0], [5, 1], [6, 2]] and td.zeros(4, 3).fill_diagonal_(1, True).sum() == 3
    assert td.zeros(2, 2, 2).fill_diagonal_(1).nonzero().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_adjoints_are_in_the_graph():
    z = td.tensor([[1 + 2j, 3 - 1j], [0.5j, 2 + 0j]], requires_grad=True)
    for adjoint in (z.H, z.mH, td.adjoint(z), z.adjoint(), z.mT.conj()):
        assert adjoint.requires_grad
        td.testing.assert_close(td.autograd.grad((adjoint * td.tensor([[1j, 2], [3 + 1j, 4]])).real.sum(), z)[0], td.tensor([[1j, 3 + 1j], [2, 4]]))


def test_pictures_of_bytes():
    x = td.tensor([[[[0, 255, 10, 200], [90, 30, 250, 60], [5, 120, 180, 240]]]], dtype=td.uint8)
    want = {("bilinear", False): [[[[23, 111, 177, 92, 118, 165], [26, 62, 114, 181, 196, 195]]]],
            ("bilinear", True): [[[[34, 103, 159, 112, 124, 148], [37, 62, 106, 186, 189, 173]]]],
            ("bicubic", False): [[[[25, 124, 196, 81, 102, 170], [25, 49, 114, 190, 210, 193]]]],
            ("bicubic", True): [[[[37, 104, 171, 105, 117, 147], [37, 50, 98, 201, 199, 168]]]]}
    for (mode, antialias), values in want.items():
        made = F.interpolate(x, size=(2, 6), mode=mode, antialias=antialias)
        assert made.dtype is td.uint8 and made.tolist() == values  # lines are rounded before columns are made of them
    with pytest.raises(td.DTypeError, match="not implemented for int64"):
        F.interpolate(x.long(), size=(2, 6), mode="bilinear")


def test_gradients_of_eigenvectors_are_hermitian():
    a = td.tensor([[2.0, 0.5, -1.0], [0.5, 1.0, 0.25], [-1.0, 0.25, -3.0]], dtype=td.float64, requires_grad=True)
    for upper in "LU":
        values, vectors = td.linalg.eigh(a, UPLO=upper)
        grad = td.autograd.grad((vectors**2 * td.arange(9.0).reshape(3, 3)).sum() + values[0], a)[0]
        td.testing.assert_close(grad, grad.mT)
    z = td.tensor([[2.0, 1j], [-1j, 5.0]], dtype=td.complex128, requires_grad=True)
    grad = td.autograd.grad((td.linalg.eigh(z)[1].abs() * td.tensor([[1.0, 2.0], [3.0, 5.0]])).sum(), z)[0]
    td.testing.assert_close(grad, grad.mH)


def test_exponentials_of_halves():
    x = td.tensor([[1.0, 2.0], [0.5, -1.0]], requires_grad=True)
    for dtype in (td.float16, td.bfloat16):
        for made in (td.matrix_exp(x.to(dtype)), td.linalg.matrix_exp(x.to(dtype)), x.to(dtype).matrix_exp()):
            assert made.dtype is dtype and made.requires_grad
            td.testing.assert_close(made.float(), td.matrix_exp(x), atol=0.01, rtol=0.01)


def test_pairs_of_rows():
    for n in (0, 1, 2, 3, 6):
        x = td.randn(n, 3)
        for p in (2.0, 1.0, 0.0):
            want = [(x[i] - x[j]).norm(p).item() for i in range(n) for j in range(i + 1, n)]
            td.testing.assert_close(F.pdist(x, p), td.tensor(want).reshape(-1), atol=1e-5, rtol=1e-5)


def test_norms_without_an_identity():
    for p in (-1, -2.5, math.inf, -math.inf):
        for x, dim in ((td.zeros(0), None), (td.zeros(2, 0), 1), (td.zeros(2, 0, 3), (0, 1))):
            with pytest.raises(td.InvalidError, match="norm of no elements: the operation does not have an identity"):
                td.linalg.vector_norm(x, p, dim)
        assert td.linalg.vector_norm(td.zeros(0, 2), p, 1).shape == (0,)
    assert td.linalg.vector_norm(td.zeros(0)).item() == td.linalg.vector_norm(td.zeros(0), 0).item() == td.linalg.vector_norm(td.zeros(0), 0.5).item() == 0


def test_complex_numbers_of_halves():
    with pytest.raises(TypeError, match=r"chalf\(\): there is no complex32"):
        td.ones(2).chalf()
    with pytest.raises(TypeError, match="there is no complex32"):
        td.complex(td.ones(2).half(), td.ones(2).half())
    for name in ("complex32", "chalf"):
        with pytest.raises(AttributeError, match="complex64 holds them"):
            getattr(td, name)
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        halves = torch.zeros(2, dtype=torch.complex64).to(torch.complex32)
    with pytest.raises(TypeError, match="tensord has no complex32: make it complex64"):
        td.from_dlpack(halves)


def test_pinned_memory_may_be_asked_for():
    x, size = td.tensor([[3.0, 1.0], [2.0, 4.0]]), (2, 2)
    makers = [lambda **kw: td.zeros(2, 2, **kw), lambda **kw: td.ones(size, **kw), lambda **kw: td.empty(size, **kw), lambda **kw: td.full(size, 1.0, **kw), lambda **kw: td.rand(2, 2, **kw), lambda **kw: td.randn(size, **kw),
              lambda **kw: td.eye(2, **kw), lambda **kw: td.zeros_like(x, **kw), lambda **kw: td.full_like(x, 1, **kw), lambda **kw: td.rand_like(x, **kw), lambda **kw: td.randint_like(x, 3, **kw),
              lambda **kw: x.new_zeros(2, 2, **kw), lambda **kw: x.new_full(size, 1.0, **kw), lambda **kw: x.new_empty_strided(size, (2, 1), **kw), lambda **kw: x.new_tensor([[1, 2], [3, 4]], **kw),
              lambda **kw: td.randint(3, size, **kw), lambda **kw: td.arange(4, **kw).view(2, 2), lambda **kw: td.linspace(0, 1, 4, **kw).view(2, 2), lambda **kw: td.randperm(4, **kw).view(2, 2)]
    for make in makers:
        for pinned in (True, False):
            assert make(pin_memory=pinned).shape == make(pin_memory=pinned, layout=td.strided, device="cpu").shape == size
        assert make(pin_memory=True, dtype=td.float64, requires_grad=True).requires_grad
        with pytest.raises(TypeError, match="pin_memory"):
            make(pin_memory=1)
    assert x.type(td.float64, non_blocking=True).dtype is td.float64 and not x.is_pinned(device="cuda") and x.clone().swapaxes_(axis0=0, axis1=1).tolist() == [[3, 2], [1, 4]]


@pytest.mark.parametrize(("name", "args"), [("clamp", (-1, 3)), ("clamp_min", (0.55,)), ("clamp_max", (0.55,)), ("clip", (0.55, 0.7)), ("clamp", (td.zeros(3), td.full((3,), 0.7))), ("renorm", (2, 0, 1.0))],
                         ids=lambda x: x if isinstance(x, str) else "")
def test_in_place_keeps_what_its_gradient_needs(name, args):
    x = td.tensor([[0.25, 0.3, 0.4]], requires_grad=True)
    made, = td.autograd.grad(getattr(x * 2, name + "_")(*args).sum(), x)
    wanted, = td.autograd.grad(getattr(x * 2, name)(*args).sum(), x)
    assert td.equal(made, wanted)
    y = td.tensor([[0.25, 0.3, 0.4]])
    assert getattr(y, name + "_")(*args) is y and y.grad_fn is None


def test_a_filter_of_one_layer_may_be_dilated():
    x = td.arange(35.0).reshape(1, 1, 1, 5, 7)
    assert td.equal(td.nn.functional.conv3d(x, td.ones(1, 1, 1, 1, 1), None, 1, 0, [2, 1, 1]), x)
    assert td.equal(td.nn.functional.conv3d(x, td.ones(1, 1, 1, 3, 3), None, 1, 0, [9, 1, 1])[:, :, 0], td.nn.functional.conv2d(x[:, :, 0], td.ones(1, 1, 3, 3)))


def test_what_adds_has_the_dtype_of_out():
    """The terms are cast before, as in PyTorch: 1.5 + 2.5 is 3 in whole numbers."""
    x = td.tensor([[1.5, 2.5], [1.0, 2.0]])
    assert td.sum(x[0], 0, out=td.empty((), dtype=td.int64)).tolist() == 3
    assert td.sum(x, dim=1, out=td.empty(2, dtype=td.int64)).tolist() == [3, 3]
    assert td.prod(x, dim=1, out=td.empty(2, dtype=td.int64)).tolist() == [2, 2]
    assert td.cumsum(x, 1, out=td.empty(2, 2, dtype=td.int32)).tolist() == [[1, 3], [1, 3]]
    assert td.sum(td.full((1 << 12,), 0.1), 0, out=td.empty((), dtype=td.float64)).item() == pytest.approx(409.6, rel=1e-7)
    with pytest.raises(td.DTypeError, match="can't be cast to int64"):
        td.mean(x, dim=1, out=td.empty(2, dtype=td.int64))


def test_what_is_so_already_is_the_tensor_itself():
    x = td.ones(2, 3, requires_grad=True)
    y = x * 2
    for t in (x, y):
        assert t.contiguous() is t and t.contiguous(memory_format=td.contiguous_format) is t and t.to(td.float32) is t and t.to(t) is t
    assert y.t().contiguous() is not y and y.t().contiguous().is_contiguous() and y.contiguous(memory_format=td.contiguous_format).grad_fn is y.grad_fn


def test_gather_is_dense():
    x, i = td.tensor([1.0, 2.0], requires_grad=True), td.tensor([1])
    assert td.gather(x, 0, i, sparse_grad=False).tolist() == x.gather(0, i).tolist() == x.gather(dim=0, index=i, sparse_grad=False).tolist() == [2]
    assert td.gather(x.detach(), 0, i, out=td.empty(1)).tolist() == [2]
    with pytest.raises(td.Unsupported, match="sparse_grad"):
        td.gather(x, 0, i, sparse_grad=True)
    with pytest.raises(td.DTypeError, match="must be bool"):
        x.gather(0, i, sparse_grad=1)


@pytest.mark.parametrize("place", [True, False])
def test_attention_lies_as_it_is_asked_for(place):
    q = td.ones(5, 3, 4)
    for weights in (True, False):
        out, _ = td.nn.MultiheadAttention(4, 2, batch_first=place)(q, q, q, need_weights=weights)
        assert out.shape == q.shape and out.is_contiguous()


def test_a_window_divided_by_what_is_said():
    F = td.nn.functional

    def f(x):
        return F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool2d(x, [2, 1], [1, 2], [1, 0], True, True, 5)

    x = td.arange(32.0).reshape(1, 2, 4, 4)
    for ours, expected in zip(td.jit.script(f)(x), f(x)):
        assert td.equal(ours, expected)
    assert td.jit.script(f)(x[0])[0].flatten().tolist() == pytest.approx([(4 * k + 10) / 3 for k in (0, 2, 8, 10, 16, 18, 24, 26)])


def test_binary_cross_entropy_at_its_edges():
    """Where a sigmoid is all of 0 or 1 gradients are what PyTorch gives, no NaN; what is no probability is told."""
    x, t = (td.tensor(v, dtype=td.float64, requires_grad=True) for v in ([0.0, 1.0, 0.0, 1.0, 0.3, 1e-14], [1.0, 1.0, 0.0, 0.0, 0.4, 1.0]))
    each = F.binary_cross_entropy(x, t, reduction="none")
    each.sum().backward()
    assert each.tolist() == pytest.approx([100, 0, 0, 100, 0.6955940880936139, 32.23619130191664])
    assert x.grad.tolist() == pytest.approx([-1e12, 0, 0, 1e12, -0.4761904761904764, -1e12]) and t.grad.tolist()[4:] == pytest.approx([0.8472978603872036, 32.23619130191663])
    ones = td.full((70000,), 100.0, requires_grad=True)  # more than one chunk, float32
    F.binary_cross_entropy(ones.sigmoid(), td.ones(70000)).backward()
    assert not bool(ones.grad.isnan().any())
    for n in (1, 5, 70001):
        for name, bad in (("input", 1.5), ("input", -0.1), ("input", math.nan), ("target", 2.0), ("target", -1.0)):
            given = {"input": td.full((n,), 0.5), "target": td.full((n,), 0.5)}
            given[name][n // 2] = bad
            with pytest.raises(RuntimeError, match=f"^binary_cross_entropy.*: all elements of {name} should be between 0 and 1"):
                F.binary_cross_entropy(given["input"], given["target"]).item()
            with pytest.raises(RuntimeError, match=f"binary_cross_entropy.*: all elements of {name} should be between 0 and 1"):
                td.jit.trace(lambda x, y: F.binary_cross_entropy(x * 1, y, reduction="sum"), (td.ones(n), td.ones(n)))(given["input"], given["target"]).item()


def test_triplets_have_as_many_dimensions():
    for shapes, text in ((((2, 3), (3,), (2, 3)), "anchor 2D, positive 1D, and negative 2D"), (((3,), (3,), (2, 3)), "anchor 1D, positive 1D, and negative 2D")):
        with pytest.raises(RuntimeError, match=f"triplet_margin_loss\\(\\): .*same number of dimensions, but got: {text} inputs"):
            F.triplet_margin_loss(*map(td.ones, shapes))
    assert F.triplet_margin_loss(td.ones(3), td.ones(3), td.zeros(3)).item() == 0


def test_bounds_of_uniform_numbers():
    for dtype, a, b, text in ((td.float32, 0, 1e39, "to is out of bounds"), (td.float32, -1e39, 0, "from is out of bounds"), (td.float16, 0, 1e5, "to is out of bounds"),
                              (td.float32, -3e38, 3e38, "uniform_ expects to-from <= "), (td.float32, 2, 1, r"found from=2 > to=1")):
        with pytest.raises(RuntimeError, match=text):
            td.empty(3, dtype=dtype).uniform_(a, b)
    assert bool(td.empty(100).uniform_(-1e38, 2e38).isfinite().all()) and td.empty(1, dtype=td.float64).uniform_(1e39, 1e39).item() == 1e39


@pytest.mark.parametrize("name", ["cuda:01", "cpu:00", "cuda:", "cuda: 1", "cuda:-1", "cuda:1a", "cuda:1:2", "cpu:x", "cpu\0", "cpu\0x", "cuda:1\0", ""])
def test_devices_are_written_in_one_way(name):
    with pytest.raises(RuntimeError, match="Invalid device string" if name else "must not be empty"):
        td.device(name)
    with pytest.raises(RuntimeError, match="Invalid device string" if name else "must not be empty"):
        td.ones(1, device=name)
    assert td.device("cpu:0") == td.device("cpu") and td.device("cuda:10").index == 10


def test_bounds_of_whole_and_of_yes_and_no_numbers():
    for dtype, args, text in ((td.int8, (0, 1000), "to - 1 is out of bounds"), (td.uint8, (-1, 3), "from is out of bounds"), (td.int16, (1 << 15, 1 << 16), "from is out of bounds"),
                              (td.bool, (5,), "to - 1 is out of bounds"), (td.bool, (-1, 1), "from is out of bounds"), (td.float16, (0, 100000), "to - 1 is out of bounds"),
                              (td.float16, (-100000, 0), "from is out of bounds"), (td.int64, (0,), "from=0 >= to=0"), (td.float32, (-3,), "from=0 >= to=-3"),
                              (td.complex64, (3,), "random_.*real tensors")):
        with pytest.raises(RuntimeError, match=text):
            td.empty(3, dtype=dtype).random_(*args)
    assert set(td.empty(1000, dtype=td.int8).random_(-128, 128).tolist()) <= set(range(-128, 128)) and td.empty(3, dtype=td.int64).random_().min().item() >= 0
    assert set(td.empty(500, dtype=td.uint8).random_(254, 256).tolist()) == {254, 255}
    assert set(td.empty(99, dtype=td.bool).random_(0, 2).tolist()) == {False, True} and td.empty(3).random_(0, 1 << 40).dtype is td.float32
    assert td.empty(1000, dtype=td.int16).random_(-5, None).min().item() >= -5 and td.empty(9, dtype=td.int16).random_(high=1).max().item() == 0
    with pytest.raises(td.Unsupported, match="bernoulli_.*real tensors"):
        td.empty(3, dtype=td.complex64).bernoulli_(0.5)
    for std in (-1, math.nan):
        with pytest.raises(RuntimeError, match="normal expects std >= 0"):
            td.normal(0.0, std, (2,))
    for p in (2, -0.5, math.nan):
        with pytest.raises(RuntimeError, match=r"bernoulli_ expects p to be in \[0, 1\], but got p="):
            td.empty(3).bernoulli_(p)
    assert td.empty(3).bernoulli_(1).tolist() == [1.0] * 3
