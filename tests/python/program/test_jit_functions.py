"""PyTorch's functions in programs: what a script calls gives what the same call gives outside."""
import importlib.util

import pytest
import tensord as td

CALLS = """
td.fft.fft(x)
td.fft.rfft(x, 4, norm="ortho")
td.fft.irfft(td.fft.rfft(x), norm="forward")
td.fft.fft2(x)
td.fft.ifftn(x, dim=[0])
td.fft.fftshift(x)
td.linalg.vector_norm(x, 3.0, dim=1)
td.linalg.matrix_norm(s)
td.linalg.matrix_norm(s, 1.0)
td.linalg.matrix_norm(s, "nuc", keepdim=True)
td.linalg.matrix_rank(s)
td.linalg.matrix_power(s, 3)
td.linalg.matrix_exp(s)
td.linalg.solve_triangular(s, x.mT, upper=True)
td.linalg.pinv(s)
td.linalg.cond(s)
td.linalg.multi_dot([s, s, s])
td.linalg.vecdot(x, x)
td.linalg.vander(x[0])
td.linalg.ldl_factor(s)
td.svd(s)
td.svd(x, some=False)
td.qr(s)
td.cholesky(s)
td.triangular_solve(x.mT, s)
td.triangular_solve(x.mT, s, upper=False, transpose=True)
td.matrix_exp(s)
td.pinverse(x)
td.std_mean(x)
td.std_mean(x, 1)
td.var_mean(x, [0, 1], False, True)
td.var_mean(x, 1, correction=2)
td.numel(x)
td.as_tensor(x)
td.as_tensor(x, dtype=td.float64)
td.as_tensor([1, 2])
td.as_tensor(2.5)
td.asarray(x)
td.histogram(x, 4)
td.histogram(x, 3, range=(0.0, 2.0), density=True)
td.histogram(x, td.tensor([-1.0, 0.0, 0.5, 3.0]), weight=x * 2)
td.histogramdd(p.reshape(-1, 3)[:, :2], 3)
td.histogramdd(p.reshape(-1, 3), [2, 3, 4], range=[-1.0, 1.0, -2.0, 2.0, 0.0, 1.0], density=True)
td.histogramdd(x.T, [td.tensor([-1.0, 0.0, 0.5]), td.tensor([-2.0, 0.0, 1.0, 3.0])], weight=x[0])
td.gradient(x)
td.gradient(p, spacing=0.5, dim=[1, -1], edge_order=2)
td.gradient(p, spacing=[0.5, 2.0], dim=(2, 3))
td.gradient(x, spacing=[td.tensor([0.0, 1.0, 3.0])], dim=1)
td.gradient(td.tensor([1, 4, 9, 16]), dim=0)
td.combinations(x[0])
td.combinations(x.flatten(), 3)
td.combinations(x[0], 3, with_replacement=True)
td.combinations(x[0], 4)
td.combinations(x[0], r=0)
list(td.broadcast_shapes((2, 1), (3,), (1, 1, 1)))
list(td.broadcast_shapes(x.shape, 3))
td.result_type(x, td.tensor([1]))
td.result_type(td.tensor([1, 2]), 1.5)
td.result_type(2, x.to(td.float64))
td.result_type(1, 2.5)
td.promote_types(td.int32, td.float16)
td.can_cast(td.float32, td.int64), td.can_cast(td.bool, td.complex64), td.can_cast(td.int64, td.bool)
td.is_signed(x), td.is_signed(td.tensor([True])), x.is_signed()
td.round(x, decimals=2), x.round(decimals=-1), td.round(x), x.round()
td.roll(x, 1), x.roll(2), td.roll(x, -1, 0), x.roll((1, 2), dims=(0, 1)), td.roll(x, shifts=1, dims=1)
x.where(x > 0, x * 2), x.where(x > 0, 1.5), td.where(x > 0, x, 0.0)
td.vander(x[0])
td.vander(x[0], 4, increasing=True)
td.lu(s)
td.lu(s, get_infos=True)
td.lu_solve(x.mT, *td.lu(s))
td.as_strided_copy(x, (2, 2), (1, 2), 1)
td.astype(x, td.float64)
td.native_channel_shuffle(p.transpose(1, 2), 2)
td.native_dropout(x, 0.5, False)
td.native_layer_norm(p, [4, 5], None, None, 1e-5)[0]
[(y * 1000).round() for y in td.native_layer_norm(p, [4, 5], None, None, 1e-5)]
td.linalg.lu_solve(*td.linalg.lu_factor(s), x.mT)
td.native_group_norm(p, None, None, 2, 3, 20, 3, 1e-5)
td.convolution(p, td.ones(2, 3, 2, 2), td.zeros(2), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
td.convolution(p[:, :, 0], td.ones(3, 2, 2), None, [2], [0], [1], True, [1], 1)
td.threshold_(x.clone(), 0.1, 5.0)
F.threshold_(x.clone(), 0.1, 5.0)
td.rrelu_(x.clone())
td.alpha_dropout_(x.clone(), 0.5, False)
td.addmv_(td.ones(2), x, s[0], beta=2)
td.ldexp_(x.clone(), td.tensor(2))
F.triplet_margin_with_distance_loss(x, x + 1, x * 2, swap=True)
td.special.shifted_chebyshev_polynomial_t(x, 3)
td.special.shifted_chebyshev_polynomial_u(x, 2)
td.special.shifted_chebyshev_polynomial_v(x, 4)
td.special.shifted_chebyshev_polynomial_w(td.tensor([1, 2]), 3)
td.special.modified_bessel_i1(x)
td.unique_consecutive((x * 2).round().flatten())
td.unique_consecutive(td.tensor([1, 1, 2, 2, 2, 1]), return_inverse=True, return_counts=True)
td.unique_consecutive(td.tensor([[1, 1], [1, 1], [2, 1]]), dim=0, return_counts=True)
td.unique(td.tensor([3, 1, 1, 2]))
td.unique(td.tensor([3, 1, 1, 2]), return_inverse=True)
td.unique(td.tensor([3, 1, 1, 2]), return_counts=True, return_inverse=True)
td.unique(td.tensor([[1, 1], [1, 1], [2, 1]]), dim=0)
td.unique(td.tensor([[1, 1], [1, 1], [2, 1]]), dim=1, return_inverse=True)
td.kaiser_window(9)
td.kaiser_window(8, False, 5.0)
td.kaiser_window(12, beta=0.0, dtype=td.float64)
td.kaiser_window(1)
td.logspace(0, 2, 5)
td.logspace(0.0, 3.0, 4, base=2.0, dtype=td.float64)
td.conv_tbc(p[0], td.ones(2, 5, 2), td.zeros(2))
F.conv_tbc(p[0], td.ones(2, 5, 2), td.zeros(2), 1)
td.grid_sampler_2d(p, g, 0, 0, False)
td.norm_except_dim(p, 2, 1)
td.unbind_copy(x)
td.split_copy(x, 2, 1)
td.split_with_sizes_copy(x, [1, 2], 1)
td.unsafe_split(x, 1)
td.embedding_renorm_(x.clone(), td.tensor([0, 1]), 0.5, 2.0)
td.quantile(x, 0.3)
td.quantile(x, 0.5, dim=1, keepdim=True)
td.quantile(x, [0.25, 0.75], 0, interpolation="nearest")
td.quantile(x, td.tensor([0.1, 0.9]), dim=1)
td.quantile(x, 1)
td.nanquantile(x, 0.5, interpolation="higher")
x.quantile(0.25, 1)
F.embedding(td.tensor([1, 0, 2]), s, -1)
F.max_pool2d_with_indices(p, 2)
F.max_pool1d_with_indices(x, 2)
F.adaptive_max_pool2d_with_indices(p, 2)
F.max_unpool2d(p[:1, :1, :1, :2], td.tensor([[[[3, 0]]]]), 2)
F.embedding_bag(td.tensor([[1, 0], [2, 2]]), s, mode="max", padding_idx=2)
F.multi_head_attention_forward(s[:, None, :2], s[:, None, :2], s[:, None, :2], 2, 1, td.ones(6, 2), None, None, None, True, 0.0, s[:2, :2], x[0, :2], attn_mask=s)
td.view_as_real(td.view_as_complex(g[..., :2]))
td.view_as_complex(x[:, :2].contiguous())
td.view_as_real(td.complex(x, x + 1))
td.complex(x[0], x)
td.polar(x, x * 2)
td.is_conj(x)
td.resolve_conj(x)
td.is_same_size(x, s)
td.fill(x, 2.5)
td.hann_window(16)
td.hann_window(7, periodic=False, dtype=td.float64)
td.hann_window(1)
td.hann_window(0)
td.hamming_window(10, False)
td.blackman_window(12)
td.bartlett_window(9)
td.bartlett_window(2, False)
td.fft.fftfreq(7, 0.5)
td.fft.fftfreq(6)
td.fft.rfftfreq(8, d=0.25)
td.frobenius_norm(x, [0, 1])
td.frobenius_norm(x, 1, True)
td.nuclear_norm(s)
td.diagonal_copy(s, 1)
td.permute_copy(x, [1, 0])
td.expand_copy(x[:1], [3, -1])
td.slice_copy(x, 1, 1, None, 2)
td.squeeze_copy(x[:1], 0)
td.t_copy(x)
td.unfold_copy(x, 1, 2, 1)
td.view_copy(x, [-1])
td.view_as_real_copy(td.complex(x, x))
td.select_copy(x, 0, 1)
td.narrow_copy(x, 1, 0, 2)
td.numel(input=x)
td.sort(input=x, dim=1)
td.allclose(input=x, other=x)
td.equal(input=x, other=x)
td.fft.fft(input=x)
td.clamp_min(input=x, min=0.5)
td.std_mean(input=x, dim=1)
td.hsplit(input=x, indices_or_sections=3)
td.allclose(x, x + 1e-9)
td.equal(x, x)
td.is_floating_point(x)
td.is_complex(x)
td.clone(x)
td.empty_like(x) * 0 == 0
td.clamp_min(x, 0.5)
td.clamp_max(x, 0.5)
td.clip(x, -1.0, 1.0)
td.constant_pad_nd(x, [1, 2])
td.split_with_sizes(x, [1, 2], 1)
td.hsplit(x, 3)
td.vsplit(x, 2)
td.take(x, td.tensor([0, 3]))
td.bucketize(x, td.tensor([-1.0, 0.0, 1.0]), right=True)
td.absolute(x)
td.arctan2(x, x + 1)
td.negative(x)
td.subtract(x, 1.0)
td.multiply(x, x)
td.greater(x, 0.0)
td.not_equal(x, x)
td.concatenate([x, x])
td.row_stack([x, x])
td.swapdims(x, 0, 1)
td.moveaxis(x, 0, 1)
td.argwhere(x)
td.ger(x[0], x[1])
td.trapz(x)
td.abs_(x.clone())
td.arccos_(x.clone() * 0)
td.relu_(x.clone())
td.clip_(x.clone(), -0.5, 0.5)
td.special.expit(x)
td.special.gammaln(x)
td.special.i1e(x)
td.special.psi(x)
x.absolute()
x.clamp_min(0.1)
x.equal(x)
x.allclose(x)
x.is_floating_point()
x.split_with_sizes([1, 2], 1)
x.swapdims(0, 1)
x.new_full([2], 3.0)
x.short()
x.cfloat()
x.greater_equal(0.0)
x.clone().subtract_(1.0)
x.clone().arctan_()
s.clone().addmm_(s, s)
s.clone().tril_()
s.clone().cumsum_(0)
s.clone().index_fill_(1, td.tensor([0]), 2.0)
s.clone().index_copy_(0, td.tensor([1]), x[:1])
td.batch_norm(p, x[0], x[1], s[0], s[1] ** 2, False, 0.1, 1e-5, True)
F.batch_norm(p, s[0], s[1] ** 2, x[0], x[1])
td.embedding(x, td.tensor([1, 0]))
F.embedding(td.tensor([1, 0]), x)
F.instance_norm(p)
F.instance_norm(p, s[0], s[1] ** 2, x[0], x[1], use_input_stats=False)
td.instance_norm(p, x[0], x[1], s[0], s[1] ** 2, False, 0.1, 1e-5, True)
LA.qr(x)
fft.rfft(x)
torch_batch_norm(p, s[0], s[1] ** 2)
td.atleast_2d(x[0, 0])
td.tril_indices(3, 4, 1)
td.triu_indices(3, 3)
td.is_tensor(x)
F.threshold(x, 0.1, 20.0)
F.threshold(x.clone(), 0.1, 20.0, inplace=True)
F.relu_(x.clone())
F.dropout2d(p, 0.5, training=False)
F.interpolate(p, scale_factor=2.0)
F.interpolate(p, scale_factor=1.5, mode="bilinear")
F.interpolate(p, size=[5, 7], mode="bilinear", align_corners=True)
F.interpolate(p, size=6, mode="bicubic")
F.interpolate(p, scale_factor=(1.5, 0.5), mode="nearest-exact")
F.interpolate(p, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
F.interpolate(p, size=(2, 2), mode="area")
F.interpolate(p[:, :, 0], scale_factor=2.5, mode="linear")
F.interpolate(p[None], scale_factor=2.0, mode="trilinear", align_corners=False)
F.upsample_nearest(p, scale_factor=2)
F.grid_sample(p, g, align_corners=False)
F.grid_sample(p, g, mode="nearest", padding_mode="border", align_corners=True)
F.adaptive_max_pool1d(p[:, :, 0], 2)
F.adaptive_max_pool1d(p[:, :, 0], 2, return_indices=True)
F.adaptive_max_pool2d(p, (2, 3))
F.adaptive_max_pool3d(p[None], 2)
""".strip().splitlines()

RANDOM = """
td.randint(5, (4,))
td.randint(0, 5, (2, 3))
td.randint(2, 9, size=[4], dtype=td.int32)
td.randint(high=7, low=1, size=(3,))
td.randperm(9)
td.randperm(5, dtype=td.float32)
td.normal(0.0, 1.0, (2, 3))
td.normal(x, 2.0)
td.normal(1.0, x.abs())
td.normal(mean=0.5, std=td.tensor([0.1, 2.0]))
F.dropout1d(p[:, :, 0], 0.5)
F.dropout2d(p, 0.3, True)
F.dropout3d(p[None], 0.5)
F.gumbel_softmax(x, 0.7)
td.randint_like(x, 9)
td.randint_like(x, 3, 9, dtype=td.int64)
td.native_dropout(x, 0.5, True)
td.rrelu_(x.clone(), training=True)
td.alpha_dropout_(x.clone(), 0.5, True)
td.feature_dropout_(p.clone(), 0.5, True)
td.feature_alpha_dropout_(p.clone(), 0.5, True)
td.svd_lowrank(s, 2)
td.pca_lowrank(x, 2)
F.gumbel_softmax(x, hard=True, dim=0)
""".strip().splitlines()

SOURCE = """
import tensord as td
import tensord.linalg as LA
import tensord.nn.functional as F
from tensord import fft
from tensord.nn.functional import batch_norm as torch_batch_norm
def f(x, s, p, g):
    return {}
"""


def function(text, place):
    path = place / "called.py"
    path.write_text(SOURCE.format(text))
    spec = importlib.util.spec_from_file_location("called", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def arguments():
    td.manual_seed(3)
    s = td.randn(3, 3)
    return td.randn(2, 3), s @ s.mT + 3 * td.eye(3), td.randn(2, 3, 4, 5), td.rand(2, 3, 3, 2) * 2 - 1


def same(a, b):
    if isinstance(b, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif td.is_tensor(b):
        assert a.shape == b.shape and a.dtype == b.dtype and td.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
    else:
        assert a == b


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize("text", CALLS)
def test_calls(text, tmp_path):
    f = function(text, tmp_path)
    same(td.jit.script(f)(*arguments()), f(*arguments()))


@pytest.mark.parametrize("text", RANDOM)
def test_random_calls(text, tmp_path):
    f, p = function(text, tmp_path), None
    p, args = td.jit.script(f), arguments()
    td.manual_seed(5)
    want = f(*args)
    td.manual_seed(5)
    same(p(*args), want)


def test_what_is_not_known_is_refused_by_name(tmp_path):
    with pytest.raises(td.Error, match="a program cannot call 'td.vmap'"):
        td.jit.script(function("td.vmap(x)", tmp_path))
    with pytest.raises(td.Error, match="a program cannot call 'td.fft.no_such'"):
        td.jit.script(function("td.fft.no_such(x)", tmp_path))


PLACES = {"td": td, "td.linalg": td.linalg, "td.fft": td.fft, "td.special": td.special, "F": td.nn.functional}


def is_known(name, place):
    """Is it a function for programs, whatever it wants to be given?"""
    try:
        td.jit.script(function(name + "(x)", place))
    except td.Error as e:
        return f"cannot call '{name}'" not in str(e)
    return True


def test_most_functions_are_known_to_programs(tmp_path):
    names = [f"{at}.{n}" for at, module in PLACES.items() for n in dir(module)
             if not n.startswith("_") and callable(getattr(module, n)) and not isinstance(getattr(module, n), type)]
    known = [n for n in names if is_known(n, tmp_path)]
    print(f"{len(known)} of {len(names)} public functions can be called in programs")
    assert len(known) >= 790, sorted({*names} - {*known})


LAYERS = """
nn.Dropout1d(0.9).eval()|p[:, :, 0]
nn.Dropout2d(0.9).eval()|p
nn.Dropout3d(0.9).eval()|p[None]
nn.AlphaDropout(0.5)|p
nn.AlphaDropout(0.5).eval()|p
nn.FeatureAlphaDropout(0.5)|p
nn.RReLU()|p
nn.RReLU(0.2, 0.4).eval()|p
nn.Unflatten(1, (3, 1))|p
nn.Unflatten(-1, (-1, 1))|p
nn.UpsamplingNearest2d(scale_factor=2)|p
nn.UpsamplingBilinear2d((7, 9))|p
nn.EmbeddingBag(5, 3, mode="sum")|td.tensor([[0, 1], [4, 2]])
nn.EmbeddingBag(5, 3)|td.tensor([0, 1, 4, 2]), td.tensor([0, 3])
nn.EmbeddingBag(5, 3, mode="sum")|td.tensor([0, 1, 4, 2]), td.tensor([0, 3]), td.tensor([0.5, 1.0, 2.0, 3.0])
nn.InstanceNorm1d(3)|p[:, :, 0]
nn.InstanceNorm2d(3, affine=True)|p
nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval()|p
nn.InstanceNorm3d(3)|p[None].transpose(1, 2)
nn.ConvTranspose1d(3, 4, 3, stride=2)|p[:, :, 0]
nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)|p
nn.ConvTranspose3d(2, 4, 2)|p[None]
nn.ReflectionPad1d(2)|p[:, :, 0]
nn.ReflectionPad2d((1, 2, 0, 1))|p
nn.ReplicationPad2d(1)|p
nn.CircularPad2d(1)|p
nn.ConstantPad2d(1, 3.5)|p
nn.MaxPool3d(2)|p[None]
nn.MaxPool3d((1, 2, 2), stride=1)|p[None]
nn.AvgPool3d(2, count_include_pad=False)|p[None]
nn.LPPool2d(2.0, 2)|p
nn.Unfold(2, stride=(1, 2))|p
nn.Fold((4, 5), 2)|F.unfold(p, 2)
nn.Upsample(scale_factor=2.0, mode="bilinear")|p
nn.MSELoss()|x, x + 1
nn.L1Loss(reduction="sum")|x, x + 1
nn.SmoothL1Loss(beta=0.5)|x, x * 2
nn.HuberLoss(reduction="none")|x, x * 3
nn.CrossEntropyLoss(weight=td.ones(3), label_smoothing=0.1)|x, td.tensor([0, 2])
nn.NLLLoss()|x, td.tensor([0, 2])
nn.BCELoss()|x.sigmoid(), (x > 0).float()
nn.BCEWithLogitsLoss(pos_weight=td.ones(3) * 2)|x, (x > 0).float()
nn.KLDivLoss(reduction="batchmean")|x.log_softmax(1), x.softmax(1)
nn.HingeEmbeddingLoss()|x, x.sign()
nn.MarginRankingLoss(0.1)|x[0], x[1], x[0].sign()
nn.CosineEmbeddingLoss()|x, x + 1, td.tensor([1.0, -1.0])
nn.TripletMarginLoss(swap=True)|x, x + 1, x - 1
nn.GaussianNLLLoss(full=True)|x, x + 1, x * x + 1
nn.PoissonNLLLoss()|x, x.abs()
nn.SoftMarginLoss()|x, x.sign()
nn.MultiMarginLoss()|x, td.tensor([0, 2])
nn.MultiLabelSoftMarginLoss()|x, (x > 0).float()
nn.CTCLoss()|td.zeros(4, 1, 3).log_softmax(2), td.tensor([[1, 2]]), td.tensor([4]), td.tensor([2])
nn.MaxPool1d(2, return_indices=True)|p[:, :, 0]
nn.MaxPool2d((2, 3), 1, return_indices=True)|p
nn.MaxPool2d(2, return_indices=True)|p[0]
nn.MaxPool3d(2, return_indices=True)|p[None]
nn.AdaptiveMaxPool1d(2, return_indices=True)|p[:, :, 0]
nn.AdaptiveMaxPool2d((2, 3), return_indices=True)|p
nn.AdaptiveMaxPool3d(2, return_indices=True)|p[None]
nn.AdaptiveMaxPool2d((None, 3))|p
nn.AdaptiveMaxPool2d((2, None), return_indices=True)|p
nn.MaxUnpool1d(2)|*F.max_pool1d(p[:, :, 0], 2, return_indices=True), [5]
nn.MaxUnpool2d(2)|*F.max_pool2d(p, 2, return_indices=True), [4, 5]
nn.MaxUnpool2d(3, stride=2, padding=1)|*F.max_pool2d(p, 3, 2, 1, return_indices=True), [2, 3, 4, 6]
nn.MaxUnpool2d((2, 1))|F.max_pool2d(p, (2, 1), return_indices=True)[0], F.max_pool2d(p, (2, 1), return_indices=True)[1]
nn.MaxUnpool3d((1, 2, 2))|*F.max_pool3d(p[None], (1, 2, 2), return_indices=True), [3, 4, 5]
nn.FractionalMaxPool2d(2, output_size=(3, 2))|p
nn.FractionalMaxPool2d((2, 3), output_ratio=0.5, return_indices=True)|p[0]
nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.7), _random_samples=g.sigmoid()[:, :, 0])|p
nn.FractionalMaxPool3d(2, output_size=2)|p[None]
nn.FractionalMaxPool3d((1, 2, 2), output_ratio=(0.9, 0.5, 0.5), return_indices=True)|p[None]
nn.TripletMarginWithDistanceLoss()|x, x + 1, x - 1
nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(1.0), swap=True, margin=2.0, reduction="none")|x, x + 1, x - 1
nn.TripletMarginWithDistanceLoss(distance_function=F.cosine_similarity, reduction="sum")|x, x + 1, x - 1
nn.TripletMarginWithDistanceLoss(distance_function=farthest)|x, x + 1, x - 1
nn.AdaptiveLogSoftmaxWithLoss(3, 12, [2, 5], div_value=2.0)|x, td.tensor([0, 11])
nn.AdaptiveLogSoftmaxWithLoss(3, 12, [4], head_bias=True)|x[0], td.tensor(3)
nn.MultiheadAttention(5, 1)|p[0], p[0], p[0]
nn.MultiheadAttention(5, 5, bias=False, batch_first=True)|p[0], p[1], p[1], td.zeros(3, 4, dtype=td.bool), False
nn.MultiheadAttention(5, 1)|p[0, 0], p[0, 1], p[0, 1], None, True, td.tril(td.ones(4, 4)) == 0, False
nn.TransformerEncoderLayer(5, 1, 8, dropout=0.0)|p[0]
nn.TransformerEncoder(nn.TransformerEncoderLayer(5, 1, 8, dropout=0.0, norm_first=True, activation="gelu"), 2)|p[0], td.zeros(3, 3)
nn.TransformerDecoderLayer(5, 1, 8, dropout=0.0)|p[0], p[1]
nn.Transformer(5, 1, 1, 1, 8, dropout=0.0)|p[0], p[1]
""".strip().splitlines()


def farthest(a, b):
    return (a - b).abs().amax(-1)


@pytest.mark.parametrize("text", LAYERS)
def test_layers(text, tmp_path):
    make, given = text.split("|")
    x, s, p, g = arguments()
    names = {"td": td, "nn": td.nn, "F": td.nn.functional, "farthest": farthest, "x": x, "s": s, "p": p, "g": g}
    layer, args = eval(make, names), eval(f"({given},)", names)
    td.manual_seed(7)
    expected = layer(*args)
    td.manual_seed(7)
    same(td.jit.script(layer)(*args), expected)


class Unpooled(td.nn.Module):
    """Pools, and back: places go from one layer to the other."""

    def __init__(self):
        super().__init__()
        self.pool, self.unpool = td.nn.MaxPool2d(2, return_indices=True), td.nn.MaxUnpool2d(2)
        self.classes = td.nn.AdaptiveLogSoftmaxWithLoss(5, 8, [2, 4])

    def forward(self, x):
        y, places = self.pool(x)
        back = self.unpool(y, places, output_size=x.shape)
        rows = back.reshape(-1, 5)
        return back, self.classes.log_prob(rows), self.classes.predict(rows)


def test_layers_that_work_together():
    x, model = arguments()[2].requires_grad_(), Unpooled()
    found = []
    for call in model, td.jit.script(model):
        out = call(x)
        grads = td.autograd.grad(out[0].square().sum() + out[1].sum(), [x, *model.parameters()])
        found.append(([y.tolist() for y in out], [g.tolist() for g in grads]))
    assert found[0] == found[1]
