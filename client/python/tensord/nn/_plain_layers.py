"""Layers without parameters: a function each, whose arguments are attributes."""

import re
from typing import Any

import tensord as td
from tensord.nn import functional as F
from tensord.nn.module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Flatten", "Unflatten", "MaxPool1d", "MaxPool2d", "AvgPool1d",
           "AvgPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "Upsample", "PixelShuffle",
           "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid",
           "LogSigmoid", "Tanh", "Tanhshrink", "Softsign", "Softplus", "Softshrink", "Hardshrink", "Hardtanh",
           "Hardsigmoid", "Hardswish", "Threshold", "GLU", "Softmax", "Softmin", "LogSoftmax", "CosineSimilarity",
           "PairwiseDistance"]


class _DropoutNd(Module):
    """What programs look for when they turn dropout on or off."""

    def _check(self):
        F._check_dropout(self.p, False)


class _MaxPoolNd(Module):
    """The largest of windows."""


class _AvgPoolNd(Module):
    """Means of windows."""


class _LPPoolNd(Module):
    """Norms of windows."""


class _AdaptiveAvgPoolNd(Module):
    """Means, so that the output has a given size."""


class _AdaptiveMaxPoolNd(Module):
    """The largest, so that the output has a given size."""


_KINDS: dict = {"Dropout": _DropoutNd, "AlphaDropout": _DropoutNd, "FeatureAlphaDropout": _DropoutNd, "MaxPool": _MaxPoolNd, "AvgPool": _AvgPoolNd, "LPPool": _LPPoolNd,
                "AdaptiveAvgPool": _AdaptiveAvgPoolNd, "AdaptiveMaxPool": _AdaptiveMaxPoolNd}  # what a layer is a kind of


def _layer(name, function, doc, shown="", **defaults) -> Any:
    """A layer whose arguments go to the function by name. Its repr shows those of `shown`: "a" as a=1, "=a" as 1, "?a" as a=1 if it is not as it
    was by default."""

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        names = list(defaults)
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, {len(args)} were given")
        given = dict(zip(names, args), **kwargs)
        for k in given:
            if k not in defaults:
                raise TypeError(f"{name}() got an unexpected argument '{k}'")
        self._arguments = {**defaults, **given}
        lacking = [k for k, v in self._arguments.items() if v is ...]
        if lacking:
            raise TypeError(f"{name}() needs {lacking[0]}")
        for k, v in self._arguments.items():
            setattr(self, k, v)
        if self._arguments.get("stride", 0) is None:
            self.stride = self.kernel_size
        if isinstance(self, _DropoutNd):
            self._check()

    def forward(self, input):
        return function(self, input, **{k: getattr(self, k) for k in defaults})

    def extra_repr(self) -> str:
        parts = []
        for word in shown.split():
            key = word.lstrip("=?")
            value = getattr(self, key)
            if word[0] != "?" or value != defaults[key]:
                parts.append(str(value) if word[0] == "=" else f"{key}={value!r}")
        return ", ".join(parts)

    return type(name, (_KINDS.get(re.sub("[123]d$", "", name), Module),), {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "_defaults": defaults, "__doc__": doc, "__module__": __name__})


def _plain(function):
    return lambda self, input, **kw: function(input, **kw)


def _dropout(function):
    return lambda self, input, p, inplace: function(input, p, self.training, inplace)


Dropout = _layer("Dropout", _dropout(F.dropout), "Random elements set to 0 in training.", "p inplace", p=0.5, inplace=False)
Dropout1d = _layer("Dropout1d", _dropout(F.dropout1d), "Random channels set to 0 in training.", "p inplace", p=0.5, inplace=False)
Dropout2d = _layer("Dropout2d", _dropout(F.dropout2d), "Random channels set to 0 in training.", "p inplace", p=0.5, inplace=False)
Flatten = _layer("Flatten", _plain(td.flatten), "Several dimensions as one.", "start_dim end_dim", start_dim=1, end_dim=-1)
Unflatten = _layer("Unflatten", lambda self, x, dim, unflattened_size: td.unflatten(x, dim, unflattened_size), "One dimension as several.",
                   "dim unflattened_size", dim=..., unflattened_size=...)
MaxPool1d = _layer("MaxPool1d", _plain(F.max_pool1d), "The largest of each window.", "kernel_size stride padding dilation ceil_mode", kernel_size=...,
                   stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False)
MaxPool2d = _layer("MaxPool2d", _plain(F.max_pool2d), "The largest of each window.", "kernel_size stride padding dilation ceil_mode", kernel_size=...,
                   stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False)
AvgPool1d = _layer("AvgPool1d", _plain(F.avg_pool1d), "The mean of each window.", "kernel_size stride padding", kernel_size=..., stride=None, padding=0,
                   ceil_mode=False, count_include_pad=True)
AvgPool2d = _layer("AvgPool2d", _plain(F.avg_pool2d), "The mean of each window.", "kernel_size stride padding", kernel_size=..., stride=None, padding=0,
                   ceil_mode=False, count_include_pad=True, divisor_override=None)
AdaptiveAvgPool1d = _layer("AdaptiveAvgPool1d", _plain(F.adaptive_avg_pool1d), "Means, so that the output has a given size.", "output_size",
                           output_size=...)
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", _plain(F.adaptive_avg_pool2d), "Means, so that the output has a given size.", "output_size",
                           output_size=...)
AdaptiveMaxPool2d = _layer("AdaptiveMaxPool2d", _plain(F.adaptive_max_pool2d), "The largest, so that the output has a given size.", "output_size",
                           output_size=..., return_indices=False)
Upsample = _layer("Upsample", _plain(F.interpolate), "Pictures in another size.", "scale_factor mode", size=None, scale_factor=None, mode="nearest",
                  align_corners=None, recompute_scale_factor=None)
PixelShuffle = _layer("PixelShuffle", _plain(F.pixel_shuffle), "Channels as finer pixels.", "upscale_factor", upscale_factor=...)
ReLU = _layer("ReLU", _plain(F.relu), "max(x, 0)", "?inplace", inplace=False)
LeakyReLU = _layer("LeakyReLU", _plain(F.leaky_relu), "x, or a small part of it below 0", "negative_slope ?inplace", negative_slope=0.01, inplace=False)
ELU = _layer("ELU", _plain(F.elu), "x, or alpha * (exp(x) - 1) below 0", "alpha ?inplace", alpha=1.0, inplace=False)
SELU = _layer("SELU", _plain(F.selu), "ELU with the scale that keeps mean and variance", "?inplace", inplace=False)
CELU = _layer("CELU", _plain(F.celu), "x, or alpha * (exp(x / alpha) - 1) below 0", "alpha ?inplace", alpha=1.0, inplace=False)
GELU = _layer("GELU", _plain(F.gelu), "x times the normal distribution at x", "approximate", approximate="none")
SiLU = _layer("SiLU", _plain(F.silu), "x * sigmoid(x)", "?inplace", inplace=False)
Mish = _layer("Mish", _plain(F.mish), "x * tanh(softplus(x))", "?inplace", inplace=False)
Sigmoid = _layer("Sigmoid", _plain(td.sigmoid), "1 / (1 + exp(-x))")
LogSigmoid = _layer("LogSigmoid", _plain(F.logsigmoid), "log(sigmoid(x))")
Tanh = _layer("Tanh", _plain(td.tanh), "tanh(x)")
Tanhshrink = _layer("Tanhshrink", _plain(F.tanhshrink), "x - tanh(x)")
Softsign = _layer("Softsign", _plain(F.softsign), "x / (1 + |x|)")
Softplus = _layer("Softplus", _plain(F.softplus), "log(1 + exp(beta * x)) / beta", "beta threshold", beta=1.0, threshold=20.0)
Softshrink = _layer("Softshrink", _plain(F.softshrink), "x nearer to 0 by lambd", "=lambd", lambd=0.5)
Hardshrink = _layer("Hardshrink", _plain(F.hardshrink), "x, or 0 when it is small", "=lambd", lambd=0.5)
Hardtanh = _layer("Hardtanh", _plain(F.hardtanh), "x held between two numbers", "min_val max_val ?inplace", min_val=-1.0, max_val=1.0, inplace=False)
_KINDS["ReLU6"] = Hardtanh
ReLU6 = _layer("ReLU6", _plain(F.relu6), "x held between 0 and 6", "?inplace", inplace=False)
ReLU6.min_val, ReLU6.max_val = 0.0, 6.0
Hardsigmoid = _layer("Hardsigmoid", _plain(F.hardsigmoid), "relu6(x + 3) / 6", "", inplace=False)
Hardswish = _layer("Hardswish", _plain(F.hardswish), "x * relu6(x + 3) / 6", "", inplace=False)
Threshold = _layer("Threshold", _plain(F.threshold), "x, or a value when it is not above the threshold", "threshold value ?inplace", threshold=...,
                   value=..., inplace=False)
GLU = _layer("GLU", _plain(F.glu), "One half times the sigmoid of the other.", "dim", dim=-1)
Softmax = _layer("Softmax", _plain(F.softmax), "Shares of one along a dimension.", "dim", dim=None)
Softmin = _layer("Softmin", _plain(F.softmin), "Shares of one along a dimension, the largest for the smallest.", "dim", dim=None)
LogSoftmax = _layer("LogSoftmax", _plain(F.log_softmax), "The logarithm of softmax.", "dim", dim=None)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of differences."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
