"""Layers with parameters, in PyTorch's order and with its initialisation."""

import math

import tensord as td
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn.module import Module, Parameter

__all__ = ["Linear", "Bilinear", "Conv1d", "Conv2d", "ConvTranspose2d", "Embedding", "EmbeddingBag", "LayerNorm", "RMSNorm", "GroupNorm",
           "InstanceNorm2d", "BatchNorm1d", "BatchNorm2d", "PReLU"]


def _parameter(*size, dtype, device):
    return Parameter(td.empty(size, dtype=dtype, device=device))


class Linear(Module):
    """input @ weight.T + bias"""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _parameter(out_features, in_features, dtype=dtype, device=device)
        self.register_parameter("bias", _parameter(out_features, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1 @ weight @ x2 + bias"""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = _parameter(out_features, in1_features, in2_features, dtype=dtype, device=device)
        self.register_parameter("bias", _parameter(out_features, dtype=dtype, device=device) if bias else None)
        for p in self.parameters():
            init.uniform_(p, -1 / math.sqrt(in1_features), 1 / math.sqrt(in1_features))

    def forward(self, input1, input2):
        out = td.einsum("...i,oij,...j->...o", input1, self.weight, input2)
        return out if self.bias is None else out + self.bias


class Conv2d(Module):
    """Each place of the output sees a window of the input."""

    _dims = 2
    _spread = staticmethod(F._pair)
    _function = staticmethod(F.conv2d)

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None,
                 dtype=None):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise td.InvalidError(f"in_channels ({in_channels}) and out_channels ({out_channels}) must be divisible by groups ({groups})")
        if padding_mode != "zeros":
            raise td.Unsupported(f"{type(self).__name__} has no padding_mode={padding_mode!r} here; it pads with zeros")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, self._spread(kernel_size)
        self.stride, self.dilation, self.groups = self._spread(stride), self._spread(dilation), groups
        self.padding = padding if isinstance(padding, str) else self._spread(padding)
        self.weight = _parameter(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype, device=device)
        self.register_parameter("bias", _parameter(out_channels, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return self._function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        ones = (1,) * len(self.kernel_size)
        usual = dict(padding=(0,) * len(ones), dilation=ones, groups=1)
        more = [f"{k}={getattr(self, k)!r}" for k, v in usual.items() if getattr(self, k) != v] + ["bias=False"] * (self.bias is None)
        return ", ".join([f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}", *more])


class Conv1d(Conv2d):
    """Each place of the output sees a stretch of the input."""

    _spread = staticmethod(lambda v: (v,) if isinstance(v, int) else tuple(v))
    _function = staticmethod(F.conv1d)


class ConvTranspose2d(Module):
    """Each place of the input reaches a window of the output."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        if padding_mode != "zeros":
            raise td.InvalidError('Only "zeros" padding mode is supported for ConvTranspose2d')
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, F._pair(kernel_size)
        self.stride, self.padding, self.output_padding = F._pair(stride), F._pair(padding), F._pair(output_padding)
        self.groups, self.dilation = groups, F._pair(dilation)
        self.weight = _parameter(in_channels, out_channels // groups, *self.kernel_size, dtype=dtype, device=device)
        self.register_parameter("bias", _parameter(out_channels, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    reset_parameters = Conv2d.reset_parameters

    def forward(self, input):
        return F.conv_transpose2d(input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}" + (
            f", padding={self.padding}" if self.padding != (0, 0) else "")


class Embedding(Module):
    """A row of numbers for each index."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False, *,
                 device=None, dtype=None):
        super().__init__()
        F._refuse("Embedding", max_norm=max_norm is not None, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise td.InvalidError("Padding_idx must be within num_embeddings")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = _parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None):
        """With these rows; frozen ones are not trained."""
        made = cls(*embeddings.shape, padding_idx=padding_idx, dtype=embeddings.dtype, device=embeddings.device)
        made.weight = Parameter(embeddings, requires_grad=not freeze)
        return made

    def reset_parameters(self):
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with td.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}" + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")


class EmbeddingBag(Module):
    """The sum or mean of the rows of each bag of indices."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, *, device=None,
                 dtype=None):
        super().__init__()
        F._refuse("EmbeddingBag", max_norm=max_norm is not None, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.weight = _parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
        init.normal_(self.weight)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode='{self.mode}'"


class LayerNorm(Module):
    """The last dimensions of each example to mean 0 and variance 1."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(td.ones(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(td.zeros(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine and bias else None)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """The last dimensions of each example to a mean square of 1."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(td.ones(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine else None)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class GroupNorm(Module):
    """Groups of channels of each example to mean 0 and variance 1."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.register_parameter("weight", Parameter(td.ones(num_channels, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_channels, dtype=dtype, device=device)) if affine else None)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.weight is not None}"


class InstanceNorm2d(Module):
    """Each channel of each picture to mean 0 and variance 1."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None):
        super().__init__()
        F._refuse("InstanceNorm2d", track_running_stats=track_running_stats)
        self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats = num_features, eps, momentum, affine, False
        self.register_parameter("weight", Parameter(td.ones(num_features, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_features, dtype=dtype, device=device)) if affine else None)

    def forward(self, input):
        if input.ndim == 3:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        return F.instance_norm(input, weight=self.weight, bias=self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"track_running_stats={self.track_running_stats}")


class PReLU(Module):
    """x, or a learnt part of it below 0."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(td.full((num_parameters,), init, dtype=dtype or td.get_default_dtype(), device=device))

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _BatchNorm(Module):
    _dims: tuple = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        self.register_parameter("weight", Parameter(td.ones(num_features, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_features, dtype=dtype, device=device)) if affine else None)
        self.register_buffer("running_mean", td.zeros(num_features, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer("running_var", td.ones(num_features, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", td.tensor(0, device=device) if track_running_stats else None)

    def forward(self, input):
        if input.ndim not in self._dims:
            raise td.ShapeError(f"{type(self).__name__} takes {' or '.join(map(str, self._dims))} dimensions, got {input.ndim}")
        tracks = self.running_mean is not None
        if self.training and tracks:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:  # the mean of all batches so far
            momentum = 1 / int(self.num_batches_tracked) if self.training and tracks else 0.0
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training or not tracks, momentum, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, track_running_stats={self.track_running_stats}"


class BatchNorm1d(_BatchNorm):
    """Each channel of a batch to mean 0 and variance 1."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of a batch of pictures to mean 0 and variance 1."""

    _dims = (4,)
