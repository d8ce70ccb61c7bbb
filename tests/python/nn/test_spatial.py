"""Layers over windows, edges, other sizes and sequences, held to PyTorch: the same names in state_dict(), the same values and gradients."""
import math
import warnings

import common
import pytest
import tensord as td
from tensord import nn
from tensord.nn import functional as F

torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")


def both(make, *inputs, call=lambda m, *x: m(*x)):
    """A module of each, with the same parameters: values, gradients of inputs and parameters."""
    theirs, ours = make(torch.nn), make(nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: td.tensor(v.tolist(), dtype=getattr(td, str(v.dtype).split(".")[-1])).reshape(tuple(v.shape)) for k, v in theirs.state_dict().items()})
    results = []
    for lib, m in ((torch, theirs), (td, ours)):
        given = [lib.tensor(x.tolist()).reshape(tuple(x.shape)) for x in inputs]
        given = [x.requires_grad_() if x.is_floating_point() else x for x in given]
        out = call(m, *given)
        out = [o for o in (out if isinstance(out, tuple) else (out,)) if o is not None]
        out[0].sin().sum().backward()
        results.append([o.detach() for o in out] + [x.grad for x in given] + [p.grad for p in m.parameters()] + list(m.buffers()))
    for a, b in zip(*results):
        assert (a is None) == (b is None)
        if a is not None:
            assert tuple(a.shape) == tuple(b.shape)
            torch.testing.assert_close(torch.tensor(b.tolist()).reshape(a.shape).to(a.dtype), a, rtol=2e-4, atol=2e-5)
    return ours


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


ROW, PICTURE, VOLUME = numbers(2, 4, 9), numbers(2, 4, 7, 8), numbers(1, 4, 5, 6, 7)
LAYERS = [
    (lambda n: n.Conv3d(4, 6, 3, 2, 1, groups=2), VOLUME), (lambda n: n.Conv3d(4, 2, (1, 2, 3), padding="same", bias=False), VOLUME),
    (lambda n: n.Conv3d(4, 2, 1), VOLUME), (lambda n: n.Conv3d(4, 2, 2, dilation=2), VOLUME[0]),
    (lambda n: n.Conv1d(4, 2, 4, padding="same"), ROW), (lambda n: n.Conv2d(4, 2, 3, padding="same", dilation=(1, 2)), PICTURE),
    *((lambda n, m=mode: n.Conv2d(4, 2, 3, padding=(1, 2), padding_mode=m), PICTURE) for mode in ("reflect", "replicate", "circular")),
    (lambda n: n.Conv1d(4, 2, 4, padding="same", padding_mode="circular"), ROW), (lambda n: n.Conv3d(4, 2, 3, padding=1, padding_mode="replicate"), VOLUME),
    (lambda n: n.ConvTranspose1d(4, 3, 3, 2, 1, 1), ROW), (lambda n: n.ConvTranspose2d(4, 6, 3, 2, groups=2, dilation=2), PICTURE),
    (lambda n: n.ConvTranspose3d(4, 2, 3, 2, 1, 1), VOLUME), (lambda n: n.ConvTranspose3d(4, 4, (1, 2, 3), (3, 1, 2), groups=2), VOLUME),
    (lambda n: n.ReflectionPad1d((2, 1)), ROW), (lambda n: n.ReflectionPad2d(2), PICTURE), (lambda n: n.ReplicationPad1d(2), ROW),
    (lambda n: n.ReplicationPad2d((1, 0, 2, 1)), PICTURE), (lambda n: n.ReplicationPad3d(1), VOLUME), (lambda n: n.ConstantPad1d(2, 3.5), ROW),
    (lambda n: n.ConstantPad3d(1, 0.5), VOLUME), (lambda n: n.ZeroPad2d((1, 2, 0, 1)), PICTURE), (lambda n: n.ReflectionPad3d(1), VOLUME),
    (lambda n: n.MaxPool1d(2, return_indices=True), ROW), (lambda n: n.MaxPool3d(2, 1, 1, return_indices=True), VOLUME), (lambda n: n.MaxPool3d(2, ceil_mode=True), VOLUME),
    (lambda n: n.AvgPool3d(3, 2, 1, count_include_pad=False), VOLUME), (lambda n: n.AvgPool2d(2, divisor_override=3), PICTURE),
    (lambda n: n.AvgPool3d(2, 2, 1, ceil_mode=True, divisor_override=5), VOLUME), (lambda n: n.LPPool1d(3, 2), ROW.abs()), (lambda n: n.LPPool2d(2, (2, 3), 1), PICTURE),
    (lambda n: n.AdaptiveAvgPool3d((2, None, 3)), VOLUME), (lambda n: n.AdaptiveMaxPool1d(4, True), ROW), (lambda n: n.AdaptiveMaxPool3d(3, True), VOLUME),
    (lambda n: n.Upsample(scale_factor=1.7, mode="bicubic"), PICTURE), (lambda n: n.Upsample(size=4, mode="trilinear"), VOLUME),
    (lambda n: n.UpsamplingBilinear2d(scale_factor=2), PICTURE), (lambda n: n.UpsamplingNearest2d(size=5), PICTURE),
    (lambda n: n.PixelUnshuffle(2), numbers(1, 2, 4, 6)), (lambda n: n.Fold((4, 5), 2, padding=1), numbers(1, 8, 30)), (lambda n: n.Unfold(2, 2, 1, 2), PICTURE),
    (lambda n: n.LocalResponseNorm(3, 0.5), PICTURE), (lambda n: n.RReLU(0.25, 0.25), ROW), (lambda n: n.Softmax2d(), PICTURE),
    (lambda n: n.BatchNorm3d(4), VOLUME), (lambda n: n.InstanceNorm1d(4, affine=True, track_running_stats=True), ROW), (lambda n: n.InstanceNorm3d(4), VOLUME),
    (lambda n: n.InstanceNorm2d(4, track_running_stats=True).eval(), PICTURE), (lambda n: n.Bilinear(9, 9, 2), (ROW, ROW + 1)),
    (lambda n: n.Embedding(4, 3, padding_idx=1, scale_grad_by_freq=True), torch.tensor([[0, 1, 3], [3, 3, 2]])), (lambda n: n.Embedding(4, 3, max_norm=1.0), torch.tensor([1, 1, 3])),
    (lambda n: n.EmbeddingBag(4, 3, mode="max"), torch.tensor([[0, 1, 3], [3, 3, 2]])), (lambda n: n.EmbeddingBag(4, 3, padding_idx=3), torch.tensor([[0, 1, 3], [3, 3, 2]])),
    (lambda n: n.EmbeddingBag(4, 3, mode="sum", include_last_offset=True), (torch.tensor([0, 1, 3, 2]), torch.tensor([0, 1, 1, 4]))),
    (lambda n: n.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True), (numbers(3, 2, 4), numbers(5, 2, 3), numbers(5, 2, 5))),
    (lambda n: n.MultiheadAttention(4, 2, add_zero_attn=True, batch_first=True), (numbers(2, 3, 4), numbers(2, 5, 4), numbers(2, 5, 4))),
    (lambda n: n.TransformerDecoderLayer(4, 2, 6, 0.0), (numbers(3, 2, 4), numbers(5, 2, 4))),
    (lambda n: n.TransformerDecoder(n.TransformerDecoderLayer(4, 2, 6, 0.0, batch_first=True, norm_first=True), 2, n.LayerNorm(4)), (numbers(2, 3, 4), numbers(2, 5, 4))),
    (lambda n: n.Transformer(4, 2, 1, 2, 6, 0.0), (numbers(5, 2, 4), numbers(3, 2, 4))),
    (lambda n: n.utils.weight_norm(n.Linear(9, 3)), ROW), (lambda n: n.utils.weight_norm(n.Conv1d(4, 3, 2), dim=None), ROW),
    (lambda n: n.utils.spectral_norm(n.Linear(9, 3)), ROW),
    (lambda n: n.AdaptiveLogSoftmaxWithLoss(9, 12, [3, 7], 2.0), (ROW[0], torch.tensor([1, 5, 11, 0]))),
]


@pytest.mark.parametrize("make, inputs", LAYERS, ids=[f"{k}" for k in range(len(LAYERS))])
def test_layers_are_those_of_pytorch(make, inputs):
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = make(nn), make(torch.nn)
        both(make, *(inputs if isinstance(inputs, tuple) else (inputs,)))
    if not isinstance(ours, (nn.EmbeddingBag, nn.LPPool1d, nn.LPPool2d, nn.Transformer, nn.TransformerDecoder, nn.TransformerDecoderLayer, nn.Upsample, nn.AvgPool2d, nn.AvgPool3d)):
        assert repr(ours).partition("(")[0] == repr(theirs).partition("(")[0]


def test_unpooling_takes_the_indices_of_a_pool():
    for lib, n in ((torch, torch.nn), (td, nn)):
        x = lib.tensor(PICTURE.tolist())
        y, at = n.MaxPool2d(2, return_indices=True)(x)
        back = n.MaxUnpool2d(2)(y, at, output_size=(2, 4, 7, 8))
        assert tuple(back.shape) == (2, 4, 7, 8) and bool((back[back != 0].sort()[0] == y.flatten().sort()[0]).all())


def test_gradients_of_gradients_of_windows():
    """Against those that torch works out."""
    cases = [(lambda f, x, w: f.conv3d(x, w, padding=1, stride=2), (1, 2, 3, 4, 3), (2, 2, 2, 2, 2)), (lambda f, x, w: f.conv_transpose3d(x, w, stride=2), (1, 2, 2, 2, 2), (2, 1, 2, 2, 2)),
             (lambda f, x, w: f.interpolate(x * w, scale_factor=2, mode="bilinear"), (1, 2, 3, 4), (1, 2, 3, 4)), (lambda f, x, w: f.pad(x * w, (1, 2, 0, 1), "reflect"), (1, 2, 3, 4), (1, 2, 3, 4)),
             (lambda f, x, w: f.avg_pool3d(x * w, 2, 1), (1, 1, 3, 3, 3), (1, 1, 3, 3, 3)), (lambda f, x, w: f.fold(x * w, (3, 4), 2), (1, 4, 6), (1, 4, 6)),
             (lambda f, x, w: f.unfold(x * w, 2), (1, 1, 3, 4), (1, 1, 3, 4)), (lambda f, x, w: f.max_pool3d(x * w, 2, 1), (1, 1, 3, 3, 3), (1, 1, 3, 3, 3))]
    for f, a, b in cases:
        results = []
        for lib in (torch, td):
            x, w = (lib.tensor(numbers(*s).tolist(), dtype=lib.float64, requires_grad=True) for s in (a, b))
            g = lib.autograd.grad(f(lib.nn.functional, x, w).sin().sum(), (x, w), create_graph=True)
            again = lib.autograd.grad((g[0] * g[0]).sum() + g[1].sin().sum(), (x, w))
            results.append([v.detach().tolist() for v in (*g, *again)])
        for ours, theirs in zip(*results[::-1]):
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))


def test_sequences_are_packed_as_in_pytorch():
    lengths = [2, 4, 1]
    for sort in (False, True):
        results = []
        for lib, n in ((torch, torch.nn), (td, nn)):
            x = lib.tensor(numbers(4, 3, 2).tolist(), requires_grad=True)
            given = sorted(lengths, reverse=True) if sort else lengths
            p = n.utils.rnn.pack_padded_sequence(x, lib.tensor(given), enforce_sorted=sort)
            back, found = n.utils.rnn.pad_packed_sequence(p, batch_first=True, padding_value=7.0, total_length=5)
            assert found.tolist() == given
            (p.data * p.data).sum().backward()
            several = n.utils.rnn.pack_sequence([lib.arange(3.0), lib.arange(2.0)])
            results.append([p.data.tolist(), p.batch_sizes.tolist(), back.tolist(), x.grad.tolist(), several.data.tolist(),
                            n.utils.rnn.pad_sequence([lib.arange(3.0), lib.arange(2.0)], True, -1.0).tolist(),
                            [s.tolist() for s in n.utils.rnn.unpad_sequence(back, found, True)]])
        torch.testing.assert_close(torch.tensor(results[0][0]), torch.tensor(results[1][0]))
        assert results[0][1:2] + results[0][4:6] == results[1][1:2] + results[1][4:6]
        for k in (2, 3):
            torch.testing.assert_close(torch.tensor(results[0][k]), torch.tensor(results[1][k]))
    with pytest.raises(td.InvalidError, match="sorted"):
        nn.utils.rnn.pack_padded_sequence(td.zeros(4, 3), [1, 2, 3])


def test_vectors_become_parameters_and_norms_are_taken_out():
    net = nn.Linear(2, 3)
    nn.utils.vector_to_parameters(td.arange(9.0), net.parameters())
    assert nn.utils.parameters_to_vector(net.parameters()).tolist() == list(range(9)) and net.bias.tolist() == [6, 7, 8]
    x = td.tensor([[1.0, -2.0]])
    before = net(x)
    nn.utils.weight_norm(net)
    assert td.allclose(net(x), before) and {*dict(net.named_parameters())} == {"bias", "weight_g", "weight_v"}
    nn.utils.remove_weight_norm(net)
    assert td.allclose(net(x), before) and {*dict(net.named_parameters())} == {"weight", "bias"}
    conv, bn = nn.Conv2d(2, 3, 1).eval(), nn.BatchNorm2d(3).eval()
    bn.running_mean.copy_(td.tensor([1.0, 2.0, 3.0]))
    y = td.ones(1, 2, 2, 2)
    assert td.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(y), bn(conv(y)), atol=1e-6)


def test_what_cannot_be_is_refused():
    x = td.zeros(1, 1, 3, 4)
    for wrong, word in [(lambda: F.pad(x, (4, 0, 0, 0), "reflect"), "less than"), (lambda: F.pad(x, (5, 0, 0, 0), "circular"), "once"), (lambda: F.conv3d(x, td.zeros(1, 1, 5, 1, 1)), "Kernel|dimensions|channels"),
                        (lambda: F.max_pool3d(x, 9), "small|greater|padding"), (lambda: F.interpolate(x, (0, 2)), "greater than 0"), (lambda: F.grid_sample(x, td.zeros(1, 2, 2, 3), align_corners=False), "grid"),
                        (lambda: F.fold(td.zeros(1, 4, 5), 3, 2), "sliding"), (lambda: F.ctc_loss(td.zeros(2, 1, 3), td.tensor([[9]]), [2], [1]).item(), "label 9"),
                        (lambda: F.ctc_loss(td.zeros(2, 1, 3), td.tensor([[1]]), [5], [1]).item(), "at most 2"), (lambda: F.conv2d(x, td.zeros(1, 1, 2, 2), stride=2, padding="same"), "strided"),
                        (lambda: F.interpolate(x, (1 << 30, 1 << 30), mode="bilinear"), ""), (lambda: F.avg_pool3d(x, 2, 1, 9), "half")]:
        with pytest.raises(td.Error, match=word):
            wrong()
            td.sync()


def test_alpha_dropout_keeps_mean_and_variance():
    td.manual_seed(3)
    x = td.randn(20000)
    y = F.alpha_dropout(x, 0.3, True)
    assert abs(float(y.mean())) < 0.05 and abs(float(y.var()) - 1) < 0.06
    assert F.feature_alpha_dropout(td.randn(2, 3, 50), 0.5, True).var(-1).eq(0).sum() >= 0


if common.SANITIZED:
    del test_layers_are_those_of_pytorch  # it takes long, and the kernels are reached by others


def test_windows_over_integers_and_complex_numbers():
    """Integers wrap and are exact; a complex filter is three real ones, and its gradient takes the conjugate."""
    x, w = td.arange(2 * 4 * 5 * 6).reshape(2, 4, 5, 6) % 7, td.arange(6 * 2 * 3 * 2).reshape(6, 2, 3, 2) % 5 - 2
    b = td.tensor([1, -2, 3, 0, 5, 2])
    wide = F.conv2d(x.double(), w.double(), b.double(), (2, 1), 1, groups=2)
    assert F.conv2d(x, w, b, (2, 1), 1, groups=2).equal(wide.to(td.int64))
    assert F.conv2d(x.to(td.uint8), w.to(td.uint8), None, 1, 1, groups=2).equal(F.conv2d(x, w, None, 1, 1, groups=2).to(td.uint8))
    turned = F.conv_transpose2d(x, w[:4], None, 2, 1, 1, groups=2)
    assert turned.equal(F.conv_transpose2d(x.double(), w[:4].double(), None, 2, 1, 1, groups=2).to(td.int64))
    assert F.max_pool2d(x, 2, ceil_mode=True).equal(F.max_pool2d(x.double(), 2, ceil_mode=True).to(td.int64))
    assert F.avg_pool2d(x - 3, 2).equal(F.avg_pool2d((x - 3).double(), 2).to(td.int64))  # cut off, not rounded down
    with pytest.raises(td.DTypeError, match="bool"):
        F.conv2d(x > 3, w > 0)
    p, q = (td.tensor(numbers(n, 4, 6, 7).tolist(), dtype=td.float64) for n in (1, 2))
    f, g, c = (td.tensor(numbers(3, k, 3, 2).tolist(), dtype=td.float64) for k in (4, 4, 1))
    z, v, bias = td.complex(p, q[:1]).requires_grad_(), td.complex(f, g).requires_grad_(), td.complex(c, c.neg())[:, 0, 0, 0].detach().requires_grad_()
    out = F.conv2d(z, v, bias, padding=1)
    real, other = F.conv2d(p, f, padding=1) - F.conv2d(q[:1], g, padding=1), F.conv2d(p, g, padding=1) + F.conv2d(q[:1], f, padding=1)
    assert td.allclose(out, td.complex(real, other) + bias.reshape(3, 1, 1))
    assert td.autograd.gradcheck(lambda z, v, bias: F.conv2d(z, v, bias, (1, 2), 1), (z, v, bias))
    small = [z[:, :2, :3, :3].detach().requires_grad_(), v[:1, :2, :2].detach().requires_grad_()]
    assert td.autograd.gradgradcheck(F.conv2d, small, [td.complex(p[:, :1, :2, :2], q[:1, :1, 2:4, :2]).requires_grad_()])


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_places_outside_of_a_picture_see_nothing_of_what_is_not_finite(mode, kind):
    dtype = getattr(td, kind)
    x = td.arange(16, dtype=dtype).reshape(1, 1, 4, 4)
    grid = td.tensor([[[[-1.1, 0.3], [5.0, 5.0], [0.3, 0.4]]]], dtype=dtype)  # over the edge, outside, inside
    wanted = F.grid_sample(x, grid, mode, align_corners=False)
    x[0, 0, 0, 0] = math.inf
    x, grid = x.requires_grad_(), grid.requires_grad_()
    out = F.grid_sample(x, grid, mode, align_corners=False)
    assert td.allclose(out, wanted)
    out.backward(td.tensor([[[[1.0, math.inf, 1.0]]]], dtype=dtype))
    assert bool(x.grad.isfinite().all())
    if mode != "nearest":
        assert bool(grid.grad.isfinite().all()) and bool((grid.grad[0, 0, 1] == 0).all())
