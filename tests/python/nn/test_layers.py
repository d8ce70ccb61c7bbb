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
