"""Layers with parameters, in PyTorch's order and with its initialisation."""

import math

import tensord as td
from tensord import Tensor
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn.module import Module, Parameter

__all__ = ["Linear", "Bilinear", "Embedding", "EmbeddingBag", "LayerNorm", "RMSNorm", "GroupNorm", "PReLU"]


def _parameter(*size, dtype, device):
    return Parameter(td.empty(size, dtype=dtype, device=device))


def _as_nothing(norm):
    """Parameters that change nothing."""
    for name, fill in (("weight", init.ones_), ("bias", init.zeros_)):
        if (p := norm._parameters.get(name)) is not None:
            fill(p)


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
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.in1_features) if self.in1_features else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, bias={self.bias is not None}"


class _Rows(Module):
    def _set_up(self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype):
        F._refuse(type(self).__name__, sparse=sparse)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise td.InvalidError("Padding_idx must be within num_embeddings")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        if _weight is not None and tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise td.ShapeError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = _parameter(num_embeddings, embedding_dim, dtype=dtype, device=device) if _weight is None else Parameter(_weight)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self):
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with td.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def extra_repr(self) -> str:
        usual = dict(padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *(f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)])


class Embedding(_Rows):
    """A row of numbers for each index."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
                 _weight=None, _freeze=False, device=None, dtype=None):
        super().__init__()
        self._set_up(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype)
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
        """With these rows; frozen ones are not trained."""
        made = cls(*embeddings.shape, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
                   dtype=embeddings.dtype, device=embeddings.device)
        made.weight = Parameter(embeddings, requires_grad=not freeze)
        return made

    def forward(self, input):
        if self.max_norm is None and not self.scale_grad_by_freq:
            return F.embedding(input, self.weight, self.padding_idx)
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)


class EmbeddingBag(_Rows):
    """The sum, mean or largest of the rows of each bag of indices."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
                 _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None):
        super().__init__()
        self._set_up(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
                        include_last_offset=False, padding_idx=None):
        """With these rows; frozen ones are not trained."""
        made = cls(*embeddings.shape, max_norm, norm_type, scale_grad_by_freq, mode, sparse, None, include_last_offset, padding_idx, dtype=embeddings.dtype,
                   device=embeddings.device)
        made.weight = Parameter(embeddings, requires_grad=not freeze)
        return made

    def forward(self, input, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None):
        if self.max_norm is None and self.padding_idx is None and not self.scale_grad_by_freq and not self.include_last_offset:
            return F.embedding_bag(input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights)
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
                               per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"


class LayerNorm(Module):
    """The last dimensions of each example to mean 0 and variance 1."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(td.ones(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(td.zeros(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine and bias else None)

    def reset_parameters(self):
        """A weight of 1 and a bias of 0, as they were made."""
        _as_nothing(self)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """The last dimensions of each example to a mean square of 1."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(td.ones(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine else None)

    def reset_parameters(self):
        """A weight of 1 and a bias of 0, as they were made."""
        _as_nothing(self)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class GroupNorm(Module):
    """Groups of channels of each example to mean 0 and variance 1."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.register_parameter("weight", Parameter(td.ones(num_channels, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_channels, dtype=dtype, device=device)) if affine and bias else None)

    def reset_parameters(self):
        """A weight of 1 and a bias of 0, as they were made."""
        _as_nothing(self)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.weight is not None}, bias={self.bias is not None}"


class PReLU(Module):
    """x, or a learnt part of it below 0."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(td.full((num_parameters,), init, dtype=dtype or td.get_default_dtype(), device=device))

    def reset_parameters(self):
        """As it was made."""
        with td.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
