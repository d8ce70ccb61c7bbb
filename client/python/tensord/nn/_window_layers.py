"""Layers without parameters over (N, C, ...): edges, pools, other sizes, channels in another order."""

from typing import Any

from tensord import _C
from tensord.nn import functional as F
from tensord.nn._plain_layers import _KINDS, Upsample, _dropout, _layer, _plain
from tensord.nn.module import Module

__all__ = ["Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "MaxPool3d", "AvgPool3d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
           "AdaptiveMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
           "MaxUnpool3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
           "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ZeroPad1d", "ZeroPad2d",
           "ZeroPad3d", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelUnshuffle", "ChannelShuffle", "Fold", "Unfold", "RReLU", "Softmax2d",
           "LocalResponseNorm", "CrossMapLRN2d"]

_POOL: dict = dict(kernel_size=..., stride=None, padding=0)
Dropout3d = _layer("Dropout3d", _dropout(F.dropout3d), "Random channels set to 0 in training.", "p inplace", p=0.5, inplace=False)
AlphaDropout = _layer("AlphaDropout", _dropout(F.alpha_dropout), "Dropout that keeps mean and variance of what selu made.", "p inplace", p=0.5, inplace=False)
FeatureAlphaDropout = _layer("FeatureAlphaDropout", _dropout(F.feature_alpha_dropout), "Whole channels of alpha dropout.", "p inplace", p=0.5, inplace=False)
MaxPool3d = _layer("MaxPool3d", _plain(F.max_pool3d), "The largest of each window.", "kernel_size stride padding dilation ceil_mode", **_POOL, dilation=1,
                   return_indices=False, ceil_mode=False)
AvgPool3d = _layer("AvgPool3d", _plain(F.avg_pool3d), "The mean of each window.", "kernel_size stride padding", **_POOL, ceil_mode=False,
                   count_include_pad=True, divisor_override=None)
AdaptiveAvgPool3d = _layer("AdaptiveAvgPool3d", _plain(F.adaptive_avg_pool3d), "Means, so that the output has a given size.", "output_size", output_size=...)
AdaptiveMaxPool1d = _layer("AdaptiveMaxPool1d", _plain(F.adaptive_max_pool1d), "The largest, so that the output has a given size.", "output_size",
                           output_size=..., return_indices=False)
AdaptiveMaxPool3d = _layer("AdaptiveMaxPool3d", _plain(F.adaptive_max_pool3d), "The largest, so that the output has a given size.", "output_size",
                           output_size=..., return_indices=False)
LPPool1d = _layer("LPPool1d", _plain(F.lp_pool1d), "The norm of each window.", "norm_type kernel_size stride ceil_mode", norm_type=..., kernel_size=...,
                  stride=None, ceil_mode=False)
LPPool2d = _layer("LPPool2d", _plain(F.lp_pool2d), "The norm of each window.", "norm_type kernel_size stride ceil_mode", norm_type=..., kernel_size=...,
                  stride=None, ceil_mode=False)
LPPool3d = _layer("LPPool3d", _plain(F.lp_pool3d), "The norm of each window.", "norm_type kernel_size stride ceil_mode", norm_type=..., kernel_size=...,
                  stride=None, ceil_mode=False)
FractionalMaxPool2d = _layer("FractionalMaxPool2d", _plain(F.fractional_max_pool2d), "The largest of windows that random numbers spread.", "", kernel_size=...,
                             output_size=None, output_ratio=None, return_indices=False, _random_samples=None)
FractionalMaxPool3d = _layer("FractionalMaxPool3d", _plain(F.fractional_max_pool3d), "The largest of windows that random numbers spread.", "", kernel_size=...,
                             output_size=None, output_ratio=None, return_indices=False, _random_samples=None)
_KINDS["UpsamplingNearest"] = _KINDS["UpsamplingBilinear"] = Upsample
UpsamplingNearest2d = _layer("UpsamplingNearest2d", lambda self, x, size, scale_factor: F.interpolate(x, size, scale_factor),
                             "Pictures in another size, by the nearest.", "scale_factor", size=None, scale_factor=None)
UpsamplingBilinear2d = _layer("UpsamplingBilinear2d", lambda self, x, size, scale_factor: F.interpolate(x, size, scale_factor, "bilinear", True),
                              "Pictures in another size, between their corners.", "scale_factor", size=None, scale_factor=None)
UpsamplingNearest2d.mode, UpsamplingNearest2d.align_corners, UpsamplingBilinear2d.mode, UpsamplingBilinear2d.align_corners = "nearest", None, "bilinear", True


def _enlarged(self) -> str:
    """How much, or to what size, and how, as of any Upsample."""
    return (f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}") + f", mode={self.mode!r}"


Upsample.extra_repr = UpsamplingNearest2d.extra_repr = UpsamplingBilinear2d.extra_repr = _enlarged
PixelUnshuffle = _layer("PixelUnshuffle", _plain(F.pixel_unshuffle), "Finer pixels as channels.", "downscale_factor", downscale_factor=...)
ChannelShuffle = _layer("ChannelShuffle", _plain(F.channel_shuffle), "Channels in another order.", "groups", groups=...)
Fold = _layer("Fold", _plain(F.fold), "Columns as the windows of pictures.", "output_size kernel_size dilation padding stride", output_size=..., kernel_size=...,
              dilation=1, padding=0, stride=1)
Unfold = _layer("Unfold", _plain(F.unfold), "The windows of pictures as columns.", "kernel_size dilation padding stride", kernel_size=..., dilation=1, padding=0,
                stride=1)
LocalResponseNorm = _layer("LocalResponseNorm", _plain(F.local_response_norm), "Channels over what is next to them.", "=size alpha beta k", size=..., alpha=1e-4,
                           beta=0.75, k=1.0)
RReLU = _layer("RReLU", lambda self, x, lower, upper, inplace: F.rrelu(x, lower, upper, self.training, inplace), "x, or a random part of it below 0.",
               "lower upper ?inplace", lower=1.0 / 8, upper=1.0 / 3, inplace=False)


class CrossMapLRN2d(Module):
    """Pictures (N, C, H, W) over what the channels next to each have: x / (k + alpha / size * the sum of their squares) ** beta.

    The sum goes over as many channels behind as before, so an even size takes one less; LocalResponseNorm takes one more before. Of Krizhevsky and others,
    ImageNet Classification with Deep Convolutional Neural Networks, 3.3. PyTorch's, when this was written (2.13), keeps the first channel in the sums of all.
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        if input.ndim != 4:
            raise _C.ShapeError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        width = (self.size - 1) // 2 * 2 + 1
        return F.local_response_norm(input, width, self.alpha * width / self.size, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class Softmax2d(Module):
    """Shares of one over the channels of pictures."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise _C.ShapeError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class _MaxUnpool(Module):
    _function: Any = None
    _dims = 1

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size, self.padding = F._spread(kernel_size, self._dims), F._spread(padding, self._dims)
        self.stride = self.kernel_size if stride is None else F._spread(stride, self._dims)

    def forward(self, input, indices, output_size=None):
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Zeros, and elements at the places where a pool took them."""

    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Zeros, and elements at the places where a pool took them."""

    _function, _dims = staticmethod(F.max_unpool2d), 2


class MaxUnpool3d(_MaxUnpool):
    """Zeros, and elements at the places where a pool took them."""

    _function, _dims = staticmethod(F.max_unpool3d), 3


def _pad(name, mode, n, doc, value: Any = None, kind: Any = Module) -> Any:
    """A layer of padding: one number for all sides, or (before, after) of the last dimension, of that before it, ...; with a value when it is `...`."""

    def __init__(self, padding, value=value):
        Module.__init__(self)
        self.padding, self.value = F._spread(padding, 2 * n), value

    def forward(self, input):
        return F.pad(input, self.padding, mode, self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}" if value is ... else f"{self.padding}"

    own: dict = {"forward": forward, "extra_repr": extra_repr, "__doc__": doc, "__module__": __name__}
    if value is ...:
        def with_value(self, padding, value):
            __init__(self, padding, value)
        own["__init__"] = with_value
    else:
        def without(self, padding):
            __init__(self, padding)
        own["__init__"] = without
    return type(name, (kind,), own)


_MIRRORS, _AGAIN, _ROUND = "What mirrors at the edges show.", "The edges again and again.", "As if it began again."
ReflectionPad1d, ReflectionPad2d = _pad("ReflectionPad1d", "reflect", 1, _MIRRORS), _pad("ReflectionPad2d", "reflect", 2, _MIRRORS)
ReflectionPad3d = _pad("ReflectionPad3d", "reflect", 3, _MIRRORS)
ReplicationPad1d, ReplicationPad2d = _pad("ReplicationPad1d", "replicate", 1, _AGAIN), _pad("ReplicationPad2d", "replicate", 2, _AGAIN)
ReplicationPad3d = _pad("ReplicationPad3d", "replicate", 3, _AGAIN)
CircularPad1d, CircularPad2d = _pad("CircularPad1d", "circular", 1, _ROUND), _pad("CircularPad2d", "circular", 2, _ROUND)
CircularPad3d = _pad("CircularPad3d", "circular", 3, _ROUND)
ConstantPad1d, ConstantPad2d = _pad("ConstantPad1d", "constant", 1, "A value around.", ...), _pad("ConstantPad2d", "constant", 2, "A value around.", ...)
ConstantPad3d = _pad("ConstantPad3d", "constant", 3, "A value around.", ...)
ZeroPad1d, ZeroPad2d = _pad("ZeroPad1d", "constant", 1, "Zeros around.", 0.0, ConstantPad1d), _pad("ZeroPad2d", "constant", 2, "Zeros around.", 0.0, ConstantPad2d)
ZeroPad3d = _pad("ZeroPad3d", "constant", 3, "Zeros around.", 0.0, ConstantPad3d)
