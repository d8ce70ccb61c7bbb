"""What layers are made with, what they do to what they are given, and tools for their parameters and sequences, with PyTorch's numbers."""
import inspect
import re

import pytest
import tensord as td
import tensord.nn.functional as F
from tensord import nn
from tensord.nn.utils import rnn

# The layers whose arguments are attributes, as PyTorch 2.13 declares them.
DECLARED = """
    AdaptiveAvgPool1d(output_size); AdaptiveAvgPool2d(output_size); AdaptiveAvgPool3d(output_size); AdaptiveMaxPool1d(output_size, return_indices=False);
    AdaptiveMaxPool2d(output_size, return_indices=False); AdaptiveMaxPool3d(output_size, return_indices=False); AlphaDropout(p=0.5, inplace=False); AvgPool1d(kernel_size,
    stride=None, padding=0, ceil_mode=False, count_include_pad=True); AvgPool2d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None); AvgPool3d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None); CELU(alpha=1.0, inplace=False);
    ChannelShuffle(groups); Dropout(p=0.5, inplace=False); Dropout1d(p=0.5, inplace=False); Dropout2d(p=0.5, inplace=False); Dropout3d(p=0.5, inplace=False); ELU(alpha=1.0,
    inplace=False); FeatureAlphaDropout(p=0.5, inplace=False); Flatten(start_dim=1, end_dim=-1); Fold(output_size, kernel_size, dilation=1, padding=0, stride=1);
    FractionalMaxPool2d(kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None); FractionalMaxPool3d(kernel_size, output_size=None,
    output_ratio=None, return_indices=False, _random_samples=None); GELU(approximate='none'); GLU(dim=-1); Hardshrink(lambd=0.5); Hardsigmoid(inplace=False);
    Hardswish(inplace=False); Hardtanh(min_val=-1.0, max_val=1.0, inplace=False); LPPool1d(norm_type, kernel_size, stride=None, ceil_mode=False); LPPool2d(norm_type,
    kernel_size, stride=None, ceil_mode=False); LPPool3d(norm_type, kernel_size, stride=None, ceil_mode=False); LeakyReLU(negative_slope=0.01, inplace=False);
    LocalResponseNorm(size, alpha=0.0001, beta=0.75, k=1.0); LogSigmoid(); LogSoftmax(dim=None); MaxPool1d(kernel_size, stride=None, padding=0, dilation=1,
    return_indices=False, ceil_mode=False); MaxPool2d(kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False); MaxPool3d(kernel_size,
    stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False); Mish(inplace=False); PixelShuffle(upscale_factor); PixelUnshuffle(downscale_factor);
    RReLU(lower=0.125, upper=0.3333333333333333, inplace=False); ReLU(inplace=False); ReLU6(inplace=False); SELU(inplace=False); SiLU(inplace=False); Sigmoid();
    Softmax(dim=None); Softmin(dim=None); Softplus(beta=1.0, threshold=20.0); Softshrink(lambd=0.5); Softsign(); Tanh(); Tanhshrink(); Threshold(threshold, value,
    inplace=False); Unflatten(dim, unflattened_size); Unfold(kernel_size, dilation=1, padding=0, stride=1); Upsample(size=None, scale_factor=None, mode='nearest',
    align_corners=None, recompute_scale_factor=None); UpsamplingBilinear2d(size=None, scale_factor=None); UpsamplingNearest2d(size=None, scale_factor=None)"""
LAYERS = {each[: each.index("(")]: inspect.signature(eval(f"lambda {each[each.index('(') + 1 : -1]}: 0")).parameters for each in " ".join(DECLARED.split()).split("; ")}


def test_none_is_forgotten():
    assert sorted(LAYERS) == sorted(name for name, layer in vars(nn).items() if isinstance(layer, type) and hasattr(layer, "_defaults"))


@pytest.mark.parametrize("name", LAYERS)
def test_arguments_of_layers(name):
    """By place and by name, and what they are where nobody says it."""
    layer, declared = getattr(nn, name), LAYERS[name]
    needed = [k for k, p in declared.items() if p.default is p.empty]
    given = {k: 0.25 + n for n, k in enumerate(declared)}
    if "Dropout" in name:
        given["p"] = 0.25
    for made in (layer(*given.values()), layer(**given)):
        assert {k: getattr(made, k) for k in declared} == given
    made = layer(*range(2, 2 + len(needed)))
    usual = {k: p.default for k, p in declared.items() if p.default is not p.empty}
    if "stride" in usual and usual["stride"] is None:
        usual["stride"] = made.kernel_size  # which is what it is then
    assert {k: getattr(made, k) for k in usual} == usual and [getattr(made, k) for k in needed] == list(range(2, 2 + len(needed)))
    with pytest.raises(TypeError, match=rf"{name}\(\) takes {len(declared)} arguments, {len(declared) + 1} were given"):
        layer(*range(len(declared) + 1))
    with pytest.raises(TypeError, match="unexpected argument 'nothing'"):
        layer(*needed, nothing=1)
    if needed:
        with pytest.raises(TypeError, match=rf"{name}\(\) needs {needed[-1]}"):
            layer(*range(len(needed) - 1))


@pytest.mark.parametrize("name", [name for name, declared in LAYERS.items() if "inplace" in declared])
def test_layers_in_place(name):
    """What they are given is kept, or becomes what they give."""
    needed = (0.1, 20.0) if name == "Threshold" else ()
    for training in (False, True):
        x = td.linspace(-8, 8, 24).reshape(2, 3, 4)
        kept, layer, other = x.clone(), getattr(nn, name)(*needed).train(training), getattr(nn, name)(*needed, inplace=True).train(training)
        made = layer(x)
        assert td.equal(x, kept) and other(x) is x
        if "Dropout" not in name and name != "RReLU" or not training:
            assert td.equal(x, made)
        assert td.equal(x, kept) == ("Dropout" in name and not training)


@pytest.mark.parametrize("layer, said", [
    (lambda: nn.MaxPool2d(3), "kernel_size=3, stride=3, padding=0, dilation=1, ceil_mode=False"), (lambda: nn.AvgPool1d(2, 1), "kernel_size=2, stride=1, padding=0"), (lambda: nn.ReLU(), ""),
    (lambda: nn.ReLU(True), "inplace=True"), (lambda: nn.LeakyReLU(0.2, True), "negative_slope=0.2, inplace=True"), (lambda: nn.Softshrink(0.25), "0.25"), (lambda: nn.Hardswish(True), ""),
    (lambda: nn.LocalResponseNorm(2), "2, alpha=0.0001, beta=0.75, k=1.0"), (lambda: nn.CrossMapLRN2d(3), "3, alpha=0.0001, beta=0.75, k=1"), (lambda: nn.GELU("tanh"), "approximate='tanh'"),
    (lambda: nn.Upsample(2), "size=2, mode='nearest'"), (lambda: nn.UpsamplingBilinear2d(scale_factor=2), "scale_factor=2, mode='bilinear'"), (lambda: nn.ZeroPad2d(1), "(1, 1, 1, 1)"),
    (lambda: nn.ConstantPad1d((1, 2), 3), "padding=(1, 2), value=3"), (lambda: nn.MaxUnpool2d(2), "kernel_size=(2, 2), stride=(2, 2), padding=(0, 0)"),
    (lambda: nn.MaxUnpool1d(2, 1), "kernel_size=(2,), stride=(1,), padding=(0,)")])
def test_what_layers_show(layer, said):
    assert layer().extra_repr() == said


def test_layers_of_their_own():
    x, y = td.tensor([[3.0, 4.0], [1.0, 0.0]]), td.tensor([[4.0, 3.0], [0.0, 1.0]])
    assert nn.CosineSimilarity()(x, y).tolist() == pytest.approx([0.96, 0]) and nn.CosineSimilarity(0)(x, y).tolist() == pytest.approx([12 / 10**0.5 / 4, 12 / 4 / 10**0.5])
    assert nn.PairwiseDistance(1.0, 0.0)(x, y).tolist() == [2, 2] and nn.PairwiseDistance(keepdim=True)(x, y).shape == (2, 1)
    shares = nn.Softmax2d()
    assert td.equal(shares(td.ones(2, 4, 1, 3)), td.full((2, 4, 1, 3), 0.25)) and td.equal(shares(td.ones(4, 1, 3)), td.full((4, 1, 3), 0.25))
    for n in (2, 5):
        with pytest.raises(ValueError, match=f"Softmax2d: expected input to be 3D or 4D, got {n}D instead"):
            shares(td.ones(n * [1]))
    across = td.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1)
    assert nn.CrossMapLRN2d(3, 3.0, 1.0, 2.0)(across).flatten().tolist() == pytest.approx([1 / 7, 2 / 16, 3 / 15])  # over what is before and behind
    assert nn.CrossMapLRN2d(2, 2.0, 1.0, 2.0)(across).flatten().tolist() == pytest.approx([1 / 3, 2 / 6, 3 / 11])  # an even size takes one less
    with pytest.raises(ValueError, match="CrossMapLRN2d: Expected input to be 4D, got 3D instead"):
        nn.CrossMapLRN2d(3)(across[0])
    pooled, places = F.max_pool1d(td.tensor([[[1.0, 4, 2, 3]]]), 2, return_indices=True)
    assert nn.MaxUnpool1d(2)(pooled, places).tolist() == [[[0, 4, 0, 3]]] and nn.MaxUnpool1d(2)(pooled, places, output_size=[1, 1, 5]).tolist() == [[[0, 4, 0, 3, 0]]]
    row = td.tensor([[[1.0, 2.0, 3.0]]])
    for layer, wanted in ((nn.ReflectionPad1d(1), [2, 1, 2, 3, 2]), (nn.ReplicationPad1d((2, 0)), [1, 1, 1, 2, 3]), (nn.CircularPad1d(1), [3, 1, 2, 3, 1]), (nn.ZeroPad1d((0, 1)), [1, 2, 3, 0]),
                          (nn.ConstantPad1d(1, 9.0), [9, 1, 2, 3, 9])):
        assert layer(row).flatten().tolist() == wanted
    assert isinstance(nn.ZeroPad3d(1), nn.ConstantPad3d) and nn.ReflectionPad3d(1).padding == nn.ZeroPad3d(1).padding == (1,) * 6
    picture = td.tensor([[[[1.0, 3.0]]]])
    assert nn.UpsamplingBilinear2d((1, 3))(picture).flatten().tolist() == [1, 2, 3] and nn.UpsamplingNearest2d(scale_factor=2)(picture).flatten().tolist() == [1, 1, 3, 3] * 2


# ---- sequences of several lengths

LONG, SHORT = td.tensor([[1.0], [2.0], [3.0]]), td.tensor([[4.0]])


def told(packed):
    return [None if x is None else x.tolist() for x in packed]


def test_sequences_are_packed():
    x = td.arange(1.0, 13).reshape(3, 2, 2)
    for packed in (rnn.pack_padded_sequence(x, [2, 3], enforce_sorted=False), rnn.pack_padded_sequence(x.transpose(0, 1), td.tensor([2, 3]), True, False)):
        assert told(packed) == [[[3, 4], [1, 2], [7, 8], [5, 6], [11, 12]], [2, 2, 1], [1, 0], [1, 0]]
    back, lengths = rnn.pad_packed_sequence(packed, padding_value=-1.0)
    assert back.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[-1, -1], [11, 12]]] and lengths.tolist() == [2, 3]
    back, lengths = rnn.pad_packed_sequence(packed, True, -1.0, 4)
    assert back.tolist() == [[[1, 2], [5, 6], [-1, -1], [-1, -1]], [[3, 4], [7, 8], [11, 12], [-1, -1]]] and lengths.tolist() == [2, 3]
    assert rnn.pad_packed_sequence(packed, total_length=3)[0].shape == (3, 2, 2)
    assert told(rnn.pack_padded_sequence(x, [3, 2])) == [[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], [2, 2, 1], None, None]
    assert told(rnn.pack_padded_sequence(x, [3, 3]))[1] == [2, 2, 2]
    packed = rnn.pack_sequence([SHORT, LONG], enforce_sorted=False)
    assert told(packed) == [[[1], [4], [2], [3]], [2, 1, 1], [1, 0], [1, 0]] and [s.tolist() for s in rnn.unpack_sequence(packed)] == [[[4]], [[1], [2], [3]]]
    assert packed.to(td.float32) is packed and not packed.is_pinned() and packed.pin_memory() is packed and packed.cpu() is packed and not packed.is_cuda
    assert told(packed.double()) == told(packed) and told(rnn.PackedSequence(packed.data, packed.batch_sizes, td.tensor([2, 0, 1])))[3] == [1, 2, 0]
    assert rnn.invert_permutation(None) is None and told(rnn.PackedSequence((packed.data, packed.batch_sizes)))[2:] == [None, None]


def test_sequences_are_padded():
    assert rnn.pad_sequence([LONG, SHORT]).tolist() == [[[1], [4]], [[2], [0]], [[3], [0]]] == rnn.pad_sequence(rnn.pad_sequence([LONG, SHORT], True)).tolist()
    assert rnn.pad_sequence([LONG, SHORT], True, 9.0).tolist() == [[[1], [2], [3]], [[4], [9], [9]]]
    assert rnn.pad_sequence([LONG, SHORT], padding_value=9.0, padding_side="left").tolist() == [[[1], [9]], [[2], [9]], [[3], [4]]]
    for lengths in (td.tensor([3, 1]), [3, 1]):
        for first in (False, True):
            assert [s.tolist() for s in rnn.unpad_sequence(rnn.pad_sequence([LONG, SHORT], first), lengths, first)] == [LONG.tolist(), SHORT.tolist()]


@pytest.mark.parametrize("wrong, said", [
    (lambda x: rnn.pack_padded_sequence(x, [2, 3]), "must be sorted in decreasing order when `enforce_sorted` is True"), (lambda x: rnn.pack_padded_sequence(x, [2]), "but got 1 (batch_size=2)"),
    (lambda x: rnn.pack_padded_sequence(x, [2, 0]), "has to be greater than 0"), (lambda x: rnn.pack_padded_sequence(x[:, :0], []), "has to be greater than 0"),
    (lambda x: rnn.pack_padded_sequence(x, [4, 2]), "a length of 4 of 3 steps"), (lambda x: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [3, 2]), total_length=2), "got total_length=2 and max sequence length being 3"),
    (lambda x: rnn.pad_sequence([]), "an empty list of sequences"), (lambda x: rnn.pad_sequence([x], padding_side="top"), "one of left or right, but got top"), (lambda x: rnn.pad_sequence(5), "pads a list of tensors, not an int")])
def test_sequences_that_are_refused(wrong, said):
    with pytest.raises((ValueError, RuntimeError), match=re.escape(said)):
        wrong(td.zeros(3, 2, 2))


# ---- what is refused, with the words


PIC, ROW, IDS = td.ones(1, 2, 3, 3), td.ones(1, 2, 4), td.tensor([[0, 1]])
WRONG = [
    (lambda: nn.Conv2d(2, 2, 1, groups=0), "groups must be a positive integer"), (lambda: nn.Conv2d(2, 2, 1, padding_mode="no"), "padding_mode must be one of"), (lambda: nn.Conv2d(2, 2, 1, padding="no"), "Invalid padding string 'no'"),
    (lambda: nn.Conv1d(2, 2, 1, stride=2, padding="same"), "padding='same' is not supported for strided convolutions"), (lambda: nn.ConvTranspose2d(2, 2, 1, padding_mode="circular"), 'Only "zeros" padding mode is supported for ConvTranspose2d'),
    (lambda: nn.ConvTranspose1d(2, 1, 2, stride=2)(ROW, [10]), "requested an output size of (10,), but valid sizes range from [8] to [9]"), (lambda: nn.ConvTranspose1d(2, 1, 2, stride=2)(ROW, [7]), "requested an output size of (7,)"),
    (lambda: nn.BatchNorm2d(2)(ROW), "BatchNorm2d"), (lambda: nn.InstanceNorm2d(2)(ROW[0]), "InstanceNorm2d"), (lambda: F.pad(ROW, (1, 1), "no"), "Unrecognised padding mode no"), (lambda: F.pad(ROW, (1, 1), "reflect", 1.0), 'doesn\'t take in value argument'),
    (lambda: F.pad(td.ones(2), (1, 1), "reflect"), "Only 2D, 3D, 4D, 5D padding with non-constant padding"), (lambda: F.interpolate(PIC), "either size or scale_factor should be defined"), (lambda: F.interpolate(PIC, 2, 2.0), "only one of size or scale_factor should be defined"),
    (lambda: F.interpolate(PIC, (2, 2, 2)), "must have the same number of spatial dimensions"), (lambda: F.interpolate(PIC, 2, recompute_scale_factor=True), "recompute_scale_factor is not meaningful with an explicit size"),
    (lambda: F.interpolate(PIC, 2, align_corners=True), "align_corners option can only be set with"), (lambda: F.interpolate(PIC, 2, antialias=True), "Anti-alias option is restricted to bilinear and bicubic"),
    (lambda: F.grid_sample(PIC, td.zeros(1, 1, 1, 2), "no"), "expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'no'"), (lambda: F.grid_sample(PIC, td.zeros(1, 1, 1, 2), "nearest", "no"), "expected padding_mode to be 'zeros', 'border', or 'reflection', but got: 'no'"),
    (lambda: F.layer_norm(ROW, (3,)), "expected input with shape [*, 3]"), (lambda: F.instance_norm(ROW, use_input_stats=False), "Expected running_mean and running_var to be defined"), (lambda: F.embedding(IDS, PIC[0, 0], 3), "Padding_idx must be within num_embeddings"),
    (lambda: F.embedding(IDS, PIC[0, 0], -4), "Padding_idx must be within num_embeddings"), *((lambda mode=mode: F.embedding_bag(IDS, PIC[0, 0], td.tensor([0]), mode=mode), "if input is 2D, then offsets has to be None") for mode in ("sum", "mean", "max")),
    *((lambda mode=mode: F.embedding_bag(IDS[0], PIC[0, 0], mode=mode), "1D with offsets that are a 1D Tensor") for mode in ("sum", "mean", "max")), (lambda: F.embedding_bag(IDS[0], PIC[0, 0], IDS), "1D with offsets that are a 1D Tensor"), (lambda: F.embedding_bag(IDS[None], PIC[0, 0]), "input has to be 2D, or 1D"),
    (lambda: F.embedding_bag(IDS, PIC[0, 0], mode="no"), "mode has to be one of sum, mean or max"), (lambda: F.embedding_bag(IDS, PIC[0, 0], mode="mean", per_sample_weights=td.ones(1, 2)), "only supported for mode='sum' (got mode='mean')"),
    (lambda: F.dropout1d(PIC), "dropout1d: Expected 2D or 3D input, but received a 4D input"), (lambda: F.one_hot(td.zeros(0, dtype=td.int64)), "num_classes must be given"), (lambda: F.rrelu(ROW, 0.5, 0.4), "Lower bound should be less than or equal"),
    (lambda: F.dropout(ROW, 1.1), "dropout probability has to be between 0 and 1"), (lambda: F.mse_loss(ROW, ROW, reduction="no"), "reduction must be 'none', 'mean' or 'sum', not 'no'"), (lambda: F.conv2d(PIC, td.ones(1, 2, 1, 1), padding="no"), "Invalid padding string 'no'"),
    (lambda: F.triplet_margin_with_distance_loss(ROW, ROW, ROW, margin=0), "margin must be greater than 0, got 0"), (lambda: F.triplet_margin_with_distance_loss(ROW, ROW, ROW[0]), "the same number of dimensions"),
    (lambda: F.fractional_max_pool2d(PIC, 2), "requires specifying either an output_size or an output_ratio"), (lambda: F.fractional_max_pool2d(PIC, 2, 1, 0.5), "requires specifying either an output_size or an output_ratio"),
    (lambda: nn.init.xavier_uniform_(td.ones(2)), "fan in and fan out are of tensors with 2 or more dimensions"), (lambda: nn.init.eye_(td.ones(2)), "Only tensors with 2 dimensions are supported"), (lambda: nn.Embedding(2, 2, 2), "Padding_idx must be within num_embeddings"),
    (lambda: nn.Embedding(2, 2, -3), "Padding_idx must be within num_embeddings"), (lambda: nn.Embedding(2, 2, _weight=td.ones(2, 3)), "Shape of weight does not match"), (lambda: nn.LSTM(2, 3, dropout=1.5), "dropout should be a number in range [0, 1]"),
    (lambda: nn.LSTM(2, 3, proj_size=3), "smaller than hidden_size"), (lambda: nn.RNN(2, 3, nonlinearity="no"), "Unknown nonlinearity 'no'"), (lambda: nn.RNNCell(2, 3, nonlinearity="no"), "Unknown nonlinearity 'no'"), (lambda: nn.GRU(2, 3)(PIC), "GRU: Expected input to be 2D or 3D, got 4D"),
    (lambda: nn.GRU(3, 3)(ROW), "Expected 3, got 4"), (lambda: nn.MultiheadAttention(5, 2), "embed_dim must be divisible by num_heads"), (lambda: nn.MultiheadAttention(4, 2)(ROW, ROW, ROW, is_causal=True), "Need attn_mask if specifying the is_causal hint"),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="no"), "activation should be relu/gelu, not no"), (lambda: nn.Transformer(4, 2, 1, 1, 4)(td.ones(3, 2, 4), td.ones(3, 1, 4)), "the batch number of src and tgt must be equal"),
    (lambda: nn.Transformer(4, 2, 1, 1, 4)(td.ones(3, 2, 5), td.ones(3, 2, 5)), "the feature number of src and tgt must be equal to d_model"), (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [4, 2]), "cutoffs should be a sequence of unique, positive integers"),
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [7]), "cutoffs should be"), (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [0]), "cutoffs should be"), (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 2]), "cutoffs should be"),
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2])(td.ones(2, 4), td.tensor([1])), "should have the same size in the batch dimension"), (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2])(td.ones(1, 4), td.tensor([7])), "Target values should be in [0, 6]"),
    (lambda: nn.ReLU().train("no"), "training mode is expected to be boolean"), (lambda: nn.Module()(1), "has no forward()"), (lambda: nn.ModuleList()(1), "a ModuleList is no layer"), (lambda: nn.parallel.DistributedDataParallel(nn.ReLU()), "DistributedDataParallel is not there"),
    (lambda: nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(2, 2))), "weight"), (lambda: nn.utils.remove_weight_norm(nn.Linear(2, 2)), "weight_norm of 'weight' not found in Linear"), (lambda: nn.utils.remove_spectral_norm(nn.utils.weight_norm(nn.Linear(2, 2))), "spectral_norm of 'weight' not found"),
    (lambda: nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "Expected n_power_iterations to be positive, but got n_power_iterations=0"), (lambda: nn.utils.get_total_norm([td.tensor([td.inf])], error_if_nonfinite=True), "is non-finite, so it cannot be clipped")]


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_what_is_refused(k):
    wrong, said = WRONG[k]
    with pytest.raises((ValueError, RuntimeError, TypeError, NotImplementedError, AttributeError)) as e:
        wrong()
    assert said in str(e.value)


# ---- modules and their tools


def test_gradients_are_held_back():
    a, b, none = (nn.Parameter(td.ones(2)) for _ in range(3))
    a.grad, b.grad = td.tensor([3.0, 0.0]), td.tensor([0.0, -4.0])
    with pytest.warns(FutureWarning, match="deprecated"):
        assert nn.utils.clip_grad_norm([a, b, none], 10.0).item() == 5 and a.grad.tolist() == [3, 0]
    assert nn.utils.get_total_norm([]).item() == 0 and nn.utils.get_total_norm(a.grad).item() == 3 and nn.utils.get_total_norm([a.grad, b.grad], 1.0).item() == 7
    assert nn.utils.clip_grad_norm_([a, b, none], 2.5).item() == 5 and a.grad.tolist() == pytest.approx([1.5, 0], rel=1e-5) and b.grad.tolist() == pytest.approx([0, -2], rel=1e-5)
    nn.utils.clip_grad_value_([a, b, none], 1.0)
    assert a.grad.tolist() == [1, 0] and b.grad.tolist() == [0, -1] and none.grad is None
    a.grad = td.tensor([td.inf, 0.0])
    assert nn.utils.clip_grad_norm_(a, 1.0).item() == td.inf
    net = nn.Linear(2, 1)
    vector = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(td.arange(3.0), net.parameters())
    assert vector.shape == (3,) and net.weight.tolist() == [[0, 1]] and net.bias.tolist() == [2] and isinstance(nn.utils.skip_init(nn.Linear, 2, 3), nn.Linear)
    assert nn.utils.convert_conv2d_weight_memory_format(net, td.channels_last) is net


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 2), lambda: nn.Conv1d(3, 2, 2), lambda: nn.ConvTranspose1d(3, 2, 2)])
def test_weights_over_their_largest_value(make):
    layer, x = make(), td.ones(1, 3) if make().weight.ndim == 2 else td.ones(1, 3, 4)
    weight, made = layer.weight.detach().clone(), nn.utils.spectral_norm(layer, n_power_iterations=30)
    assert made is layer and sorted(dict(layer.named_parameters())) == ["bias", "weight_orig"] and sorted(dict(layer.named_buffers())) == ["weight_u", "weight_v"]
    layer(x)
    matrix = weight.movedim(1, 0) if isinstance(layer, nn.ConvTranspose1d) else weight
    td.testing.assert_close(layer.weight, weight / td.linalg.matrix_norm(matrix.reshape(matrix.shape[0], -1), 2), atol=1e-4, rtol=1e-3)
    layer.eval()
    before = layer.weight_u.clone()
    layer(x)
    assert td.equal(layer.weight_u, before)
    with td.no_grad():
        now = layer.weight.clone()
    assert nn.utils.remove_spectral_norm(layer) is layer and sorted(dict(layer.named_parameters())) == ["bias", "weight"] and not list(layer.buffers())
    td.testing.assert_close(layer.weight, now)
    layer(x)
    td.testing.assert_close(layer.weight, now)


@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_weights_by_length_and_direction(dim):
    layer = nn.Linear(3, 2)
    weight = layer.weight.detach().clone()
    nn.utils.weight_norm(layer, dim=dim)
    assert layer.weight_g.shape == {0: (2, 1), 1: (1, 3), -1: (1, 3), None: ()}[dim]
    with td.no_grad():
        layer.weight_g.mul_(2)
    layer(td.ones(1, 3)).sum().backward()
    td.testing.assert_close(layer.weight.detach(), 2 * weight)
    assert layer.weight_g.grad is not None and layer.weight_v.grad is not None
    nn.utils.remove_weight_norm(layer)
    td.testing.assert_close(layer.weight.detach(), 2 * weight)
    assert sorted(dict(layer.named_parameters())) == ["bias", "weight"] and layer(td.ones(1, 3)).shape == (1, 2)


def test_small_ways_of_modules():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert repr(net[0].bias).startswith("Parameter containing:\ntensor([") and repr(net[0].bias).endswith(", requires_grad=True)") and repr(nn.Parameter(td.ones(1), requires_grad=False)) == "Parameter containing:\ntensor([1.])"
    net[0](td.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net[0].weight.grad.tolist() == [[0, 0], [0, 0]] and net[1].weight.grad is None
    net.zero_grad()
    assert net[0].weight.grad is None and net.half()[0].weight.dtype is td.float16 and net.bfloat16()[0].weight.dtype is td.bfloat16 and net.cpu() is net
    x = td.ones(1)
    assert nn.Identity(3, more=4)(x) is x
    of = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert "a" in of and "c" not in of and list(of.keys()) == ["a", "b"] and [type(m) for m in of.values()] == [nn.ReLU, nn.Tanh] and dict(of.items())["b"] is of["b"]
    del of["a"]
    assert list(of) == ["b"] and len(of) == 1
    held = nn.ParameterDict({"w": nn.Parameter(td.ones(1))})
    assert list(held.keys()) == list(held) == ["w"] and dict(held.items())["w"] is next(iter(held.values())) is held["w"]
    parallel = nn.DataParallel(net.float())
    assert parallel.module is net and td.equal(parallel(td.ones(1, 2)), net(td.ones(1, 2))) and nn.parallel.data_parallel(net, td.ones(1, 2)).shape == (1, 2)


class Keeps(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def get_extra_state(self):
        return {"x": self.x}

    def set_extra_state(self, state):
        self.x = state["x"]


def test_what_a_module_keeps_beside_tensors():
    net, other = nn.Sequential(Keeps(3)), nn.Sequential(Keeps(4))
    assert net.state_dict()["0._extra_state"] == {"x": 3}
    other.load_state_dict(net.state_dict())
    assert other[0].x == 3


def test_a_dimension_that_is_implied():
    for f in (F.softmax, F.log_softmax, F.softmin):
        for x, dim in ((td.tensor([1.0, 2.0]), 0), (td.tensor([[1.0, 2.0], [4.0, 3.0]]), 1), (td.rand(2, 3, 2), 0), (td.rand(2, 3, 2, 2), 1)):
            with pytest.warns(UserWarning, match=f"Implicit dimension choice for {'softmax' if f is F.softmax else f.__name__}|Implicit dimension choice"):
                assert td.equal(f(x), f(x, dim))
    for name, more in (("upsample", {}), ("upsample_nearest", {}), ("upsample_bilinear", {})):
        with pytest.warns(UserWarning, match=f"nn.functional.{name}. is deprecated"):
            made = getattr(F, name)(PIC, 2, **more)
        assert made.shape == (1, 2, 2, 2)


def test_draws_that_choose_one():
    td.manual_seed(3)
    logits = td.tensor([[0.0, 20.0, 0.0], [20.0, 0.0, 0.0]], requires_grad=True)
    soft, hard = F.gumbel_softmax(logits, 0.5), F.gumbel_softmax(logits, 0.5, hard=True)
    assert td.allclose(soft.sum(-1), td.ones(2)) and td.allclose(hard, td.tensor([[0.0, 1, 0], [1, 0, 0]]), atol=1e-6)
    hard[0, 1].backward()
    assert logits.grad is not None and F.gumbel_softmax(logits, dim=0).sum(0).tolist() == pytest.approx([1, 1, 1])
    w, b = td.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]]), td.tensor([0.1, 0.2, 0.3])
    x, target = td.tensor([[1.0, 0.0], [0.0, 1.0]]), td.tensor([2, 0])
    assert F.linear_cross_entropy(x, w, target, linear_bias=b).item() == pytest.approx(F.cross_entropy(x @ w.t() + b, target).item())
    assert F.linear_cross_entropy(x, w, target, ignore_index=2, reduction="sum").item() == pytest.approx(F.cross_entropy(x @ w.t(), target, ignore_index=2, reduction="sum").item())
    for wrong, said in ((lambda: F.linear_cross_entropy(x[None], w, target), "dimensionality 1 or 2"), (lambda: F.linear_cross_entropy(x, w[:, :1], target), "equal input and linear_weight last dimensions"),
                        (lambda: F.linear_cross_entropy(x, w, target, linear_bias=b[:2]), "expected linear_bias shape")):
        with pytest.raises(ValueError, match=said):
            wrong()
