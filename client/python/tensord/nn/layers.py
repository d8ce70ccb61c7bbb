"""The layers."""

import math

import tensord as td
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn.module import Module, Parameter

__all__ = ["Linear", "Conv2d", "Embedding", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "Dropout", "Flatten", "Unflatten",
           "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "ReLU", "ReLU6", "LeakyReLU", "ELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softplus",
           "Hardtanh", "Hardswish", "Softmax", "LogSoftmax"]


def _parameter(*size, dtype=None):
    return Parameter(td.empty(size, dtype=dtype))


class Linear(Module):
    """input @ weight.T + bias"""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _parameter(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", _parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Conv2d(Module):
    """Each place of the output sees a window of the input."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None,
                 dtype=None):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise td.InvalidError(f"in_channels ({in_channels}) and out_channels ({out_channels}) must be divisible by groups ({groups})")
        if padding_mode != "zeros":
            raise td.Unsupported("Conv2d pads with zeros only")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, F._pair(kernel_size)
        self.stride, self.dilation, self.groups = F._pair(stride), F._pair(dilation), groups
        self.padding = padding if isinstance(padding, str) else F._pair(padding)
        self.weight = _parameter(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype)
        self.register_parameter("bias", _parameter(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self):
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class Embedding(Module):
    """A row of numbers for each index."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, device=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = _parameter(num_embeddings, embedding_dim, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self):
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with td.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """The last dimensions of each example to mean 0 and variance 1."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(td.ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(td.zeros(self.normalized_shape, dtype=dtype)) if elementwise_affine and bias else None)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """The last dimensions of each example to a mean square of 1."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(td.ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """Groups of channels of each example to mean 0 and variance 1."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.register_parameter("weight", Parameter(td.ones(num_channels, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_channels, dtype=dtype)) if affine else None)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(Module):
    _dims: tuple = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.register_parameter("weight", Parameter(td.ones(num_features, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_features, dtype=dtype)) if affine else None)
        self.register_buffer("running_mean", td.zeros(num_features, dtype=dtype) if track_running_stats else None)
        self.register_buffer("running_var", td.ones(num_features, dtype=dtype) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", td.tensor(0) if track_running_stats else None)

    def forward(self, input):
        if input.ndim not in self._dims:
            raise td.ShapeError(f"{type(self).__name__} takes {' or '.join(map(str, self._dims))} dimensions, got {input.ndim}")
        tracks = self.running_mean is not None
        if self.training and tracks:
            self.num_batches_tracked.add_(1)
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training or not tracks, self.momentum, self.eps)

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"


class BatchNorm1d(_BatchNorm):
    """Each channel of a batch to mean 0 and variance 1."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of a batch of pictures to mean 0 and variance 1."""

    _dims = (4,)


def _layer(name, function, doc, **defaults):
    """A layer without parameters: its arguments are attributes, and go to the function by name."""

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

    def forward(self, input):
        return function(self, input, **{k: getattr(self, k) for k in defaults})

    def extra_repr(self):
        return ", ".join(f"{k}={getattr(self, k)}" for k in defaults if getattr(self, k) != defaults[k])

    return type(name, (Module,), {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": doc, "__module__": __name__})


def _plain(function):
    return lambda self, input, **kw: function(input, **kw)


Dropout = _layer("Dropout", lambda self, x, p, inplace: F.dropout(x, p, self.training), "Random elements set to 0 in training.", p=0.5, inplace=False)
Flatten = _layer("Flatten", _plain(td.flatten), "Several dimensions as one.", start_dim=1, end_dim=-1)
Unflatten = _layer("Unflatten", lambda self, x, dim, unflattened_size: td.unflatten(x, dim, unflattened_size), "One dimension as several.", dim=...,
                   unflattened_size=...)
MaxPool2d = _layer("MaxPool2d", _plain(F.max_pool2d), "The largest of each window.", kernel_size=..., stride=None, padding=0, dilation=1,
                   return_indices=False, ceil_mode=False)
AvgPool2d = _layer("AvgPool2d", _plain(F.avg_pool2d), "The mean of each window.", kernel_size=..., stride=None, padding=0, ceil_mode=False,
                   count_include_pad=True)
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", _plain(F.adaptive_avg_pool2d), "Means, so that the output has a given size.", output_size=...)
ReLU = _layer("ReLU", _plain(F.relu), "max(x, 0)", inplace=False)
ReLU6 = _layer("ReLU6", _plain(F.relu6), "x held between 0 and 6", inplace=False)
LeakyReLU = _layer("LeakyReLU", _plain(F.leaky_relu), "x, or a small part of it below 0", negative_slope=0.01, inplace=False)
ELU = _layer("ELU", _plain(F.elu), "x, or alpha * (exp(x) - 1) below 0", alpha=1.0, inplace=False)
GELU = _layer("GELU", _plain(F.gelu), "x times the normal distribution at x", approximate="none")
SiLU = _layer("SiLU", _plain(F.silu), "x * sigmoid(x)", inplace=False)
Mish = _layer("Mish", _plain(F.mish), "x * tanh(softplus(x))", inplace=False)
Sigmoid = _layer("Sigmoid", _plain(td.sigmoid), "1 / (1 + exp(-x))")
Tanh = _layer("Tanh", _plain(td.tanh), "tanh(x)")
Softplus = _layer("Softplus", _plain(F.softplus), "log(1 + exp(beta * x)) / beta", beta=1.0, threshold=20.0)
Hardtanh = _layer("Hardtanh", _plain(F.hardtanh), "x held between two numbers", min_val=-1.0, max_val=1.0, inplace=False)
Hardswish = _layer("Hardswish", _plain(F.hardswish), "x * relu6(x + 3) / 6", inplace=False)
Softmax = _layer("Softmax", _plain(td.softmax), "Shares of one along a dimension.", dim=...)
LogSoftmax = _layer("LogSoftmax", _plain(td.log_softmax), "The logarithm of softmax.", dim=...)
