"""Layers as functions. With inplace=True an activation's values are in its argument's memory afterwards, as in PyTorch, and it returns its argument;
but relu() they all need room for the result meanwhile, and where gradients are recorded for a copy of the argument."""

import operator
import typing as _typing
import warnings as _warnings
from typing import Any

import tensord as td
from tensord import _C
from tensord.core import _absent, _overloads
from tensord._C import Tensor, ops
from tensord.nn._attend import *  # noqa: F401,F403
from tensord.nn._composed_losses import *  # noqa: F401,F403
from tensord.nn._sizes import *  # noqa: F401,F403
from tensord.nn._windows import *  # noqa: F401,F403
from tensord.nn._windows import _pair, _refuse, _spread  # noqa: F401

# What is an op in PyTorch's forms is there already (client/python/surface.toml).
elu, gelu, hardtanh, leaky_relu, linear = _C._nn.elu, _C._nn.gelu, _C._nn.hardtanh, _C._nn.leaky_relu, _C._nn.linear
mish, relu, silu, softplus = _C._nn.mish, _C._nn.relu, _C._nn.silu, _C._nn.softplus
binary_cross_entropy, binary_cross_entropy_with_logits = _C._nn.binary_cross_entropy, _C._nn.binary_cross_entropy_with_logits
cosine_embedding_loss, cosine_similarity, cross_entropy = _C._nn.cosine_embedding_loss, _C._nn.cosine_similarity, _C._nn.cross_entropy
gaussian_nll_loss, huber_loss, kl_div, l1_loss = _C._nn.gaussian_nll_loss, _C._nn.huber_loss, _C._nn.kl_div, _C._nn.l1_loss
margin_ranking_loss, mse_loss, nll_loss, pairwise_distance = _C._nn.margin_ranking_loss, _C._nn.mse_loss, _C._nn.nll_loss, _C._nn.pairwise_distance
poisson_nll_loss, smooth_l1_loss, triplet_margin_loss = _C._nn.poisson_nll_loss, _C._nn.smooth_l1_loss, _C._nn.triplet_margin_loss
relu6, hardsigmoid, hardswish, logsigmoid = _C._nn.relu6, _C._nn.hardsigmoid, _C._nn.hardswish, _C._nn.logsigmoid
selu, celu, prelu, softsign = _C._nn.selu, _C._nn.celu, _C._nn.prelu, _C._nn.softsign
tanhshrink, softshrink, hardshrink = _C._nn.tanhshrink, _C._nn.softshrink, _C._nn.hardshrink
affine_grid, bilinear, channel_shuffle, pixel_unshuffle = _C._nn.affine_grid, _C._nn.bilinear, _C._nn.channel_shuffle, _C._nn.pixel_unshuffle
native_channel_shuffle = channel_shuffle
fold, unfold, local_response_norm, pdist = _C._nn.fold, _C._nn.unfold, _C._nn.local_response_norm, _C._nn.pdist
conv_transpose1d, conv_transpose3d, hinge_embedding_loss = _C._nn.conv_transpose1d, _C._nn.conv_transpose3d, _C._nn.hinge_embedding_loss
multi_margin_loss, multilabel_margin_loss, soft_margin_loss = _C._nn.multi_margin_loss, _C._nn.multilabel_margin_loss, _C._nn.soft_margin_loss
multilabel_soft_margin_loss = _C._nn.multilabel_soft_margin_loss
glu, group_norm, rms_norm, normalize = _C._nn.glu, _C._nn.group_norm, _C._nn.rms_norm, _C._nn.normalize
scaled_dot_product_attention, conv_transpose2d, pixel_shuffle = _C._nn.scaled_dot_product_attention, _C._nn.conv_transpose2d, _C._nn.pixel_shuffle


def _is_mixed(input, weight, bias):
    """Halves beside weights of float32, as in networks that keep these exact: computed in float32, and halves again."""
    return (weight is not None and weight.dtype is td.float32 and input.dtype in (td.float16, td.bfloat16)
            and (bias is None or bias.dtype is td.float32))


def layer_norm(input: Tensor, normalized_shape, weight: Tensor | None = None, bias: Tensor | None = None, eps=1e-5) -> Tensor:
    """The last dimensions at mean 0 and variance 1, times weight plus bias.

    >>> F.layer_norm(td.tensor([1.0, 3.0]), (2,), eps=0)
    tensor([-1.,  1.])
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(n if isinstance(n, int) else operator.index(n) for n in normalized_shape)
    if input.shape[input.ndim - len(shape) :] != shape:
        raise _C.ShapeError(f"layer_norm(): Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but got input of size{list(input.shape)}")
    if _is_mixed(input, weight, bias):
        return ops.layer_norm(input.to(td.float32), weight, bias, len(shape), eps)[0].to(input.dtype)
    return ops.layer_norm(input, weight, bias, len(shape), eps)[0]


def batch_norm(input: Tensor, running_mean, running_var, weight: Tensor | None = None, bias: Tensor | None = None, training=False, momentum=0.1, eps=1e-5) -> Tensor:
    """Each channel at mean 0 and variance 1: those of the batch in training, else the running ones.

    >>> F.batch_norm(td.tensor([[1.0], [3.0]]), td.tensor([2.0]), td.tensor([4.0]), eps=0)
    tensor([[-0.5000],
            [ 0.5000]])
    """
    if input.ndim < 2 and not input.numel():
        return input.clone()
    if training and input.ndim > 1 and input.numel() == input.shape[1]:
        raise _C.InvalidError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    if _is_mixed(input, weight, bias):
        return ops.batch_norm(input.to(td.float32), weight, bias, running_mean, running_var, training, momentum, eps)[0].to(input.dtype)
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats=True, momentum=0.1, eps=1e-5) -> Tensor:
    """Each channel of each picture at mean 0 and variance 1.

    >>> F.instance_norm(td.tensor([[[1.0, 3.0]]]), eps=0)
    tensor([[[-1.,  1.]]])
    """
    if use_input_stats and input.ndim > 2 and input.numel() == input.shape[0] * input.shape[1] > 0:
        raise _C.InvalidError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if running_mean is None and running_var is None and use_input_stats:
        return group_norm(input, input.shape[1], weight, bias, eps)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise _C.InvalidError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return ops.batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    n, c = input.shape[:2]
    mean, var = (None if r is None else r.detach().repeat(n) for r in (running_mean, running_var))
    each = [None if v is None else v.repeat(n) for v in (weight, bias)]
    out = ops.batch_norm(input.reshape(1, n * c, *input.shape[2:]), *each, mean, var, True, momentum, eps)[0]
    with td.no_grad():
        for running, new in ((running_mean, mean), (running_var, var)):
            if running is not None and new is not None:
                running.copy_(new.reshape(n, c).mean(0))
    return out.reshape(input.shape)


def _held_rows(weight, input, max_norm, norm_type):
    """Rows that are used and longer than max_norm are made that long."""
    with td.no_grad():
        rows = td.unique(input.reshape(-1))
        found = weight.detach().index_select(0, rows)
        norm = found.norm(norm_type, 1, True)
        weight.detach()[rows] = td.where(norm > max_norm, found * (max_norm / (norm + 1e-7)), found)


def _often(weight, input):
    """weight whose gradient is divided by how often each row is used."""
    if not weight.requires_grad:
        return weight
    flat = input.reshape(-1)
    uses = td.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device).index_add(0, flat, td.ones(flat.shape, dtype=weight.dtype, device=weight.device))
    return weight.detach() + (weight - weight.detach()) / td.where(uses == 0, 1.0, uses).unsqueeze(1)


def embedding(input: Tensor, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False) -> Tensor:
    """Rows of weight; the row padding_idx gets no gradient.

    >>> F.embedding(td.tensor([1, 0, 1]), td.tensor([[0.0, 0.5], [1.0, 1.5]]))
    tensor([[1.0000, 1.5000],
            [0.0000, 0.5000],
            [1.0000, 1.5000]])
    """
    _refuse("embedding()", sparse=sparse)
    if max_norm is not None:
        _held_rows(weight, input, max_norm, norm_type)
    out = ops.embedding(_often(weight, input) if scale_grad_by_freq else weight, input)
    if padding_idx is None:
        return out
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise _C.InvalidError("Padding_idx must be within num_embeddings")
    return td.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), out.detach(), out)


def _bags(input, offsets, include_last_offset):
    """(the indices of all bags, the bag of each, how many there are)"""
    if input.ndim == 2:
        return input.reshape(-1), td.arange(input.shape[0], device=input.device).repeat_interleave(input.shape[1]), input.shape[0]
    n = offsets.shape[0] - bool(include_last_offset)
    return input, td.searchsorted(offsets[:n], td.arange(input.shape[0], dtype=offsets.dtype, device=input.device), right=True) - 1, n


def _largest(input, weight, offsets, include_last_offset, padding_idx):
    """The largest of each bag, 0 where it is empty. Where bags begin is waited for."""
    found = ops.embedding(weight, input)
    if padding_idx is not None:
        found = found.masked_fill((input == padding_idx % weight.shape[0]).unsqueeze(-1), -td.inf)
    if input.ndim == 2:
        best = found.max(1)[0] if input.shape[1] else found.sum(1)
    else:
        ends = offsets.tolist() + ([] if include_last_offset else [input.shape[0]])
        bags = [found[a:b] for a, b in zip(ends, ends[1:])]
        if not bags:
            return found[:0]
        best = td.stack([bag.max(0)[0] if bag.shape[0] else bag.sum(0) for bag in bags])
    return best if padding_idx is None else best.masked_fill(best == -td.inf, 0.0)


def embedding_bag(input: Tensor, weight, offsets: Tensor | None = None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights: Tensor | None = None, include_last_offset=False, padding_idx=None) -> Tensor:
    """The sum, mean or largest of the rows of each bag: rows of input (B, N), or of one vector the parts that begin at offsets. The row padding_idx counts
    nothing.

    >>> F.embedding_bag(td.tensor([[0, 1]]), td.tensor([[0.0, 0.5], [1.0, 1.5]]), mode="sum")
    tensor([[1., 2.]])
    """
    _refuse("embedding_bag()", sparse=sparse)
    if mode not in ("sum", "mean", "max"):
        raise _C.InvalidError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise _C.Unsupported(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}').")
    if input.ndim == 2 and offsets is not None:
        raise _C.InvalidError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences")
    if input.ndim != 2 and (input.ndim != 1 or offsets is None or offsets.ndim != 1):
        raise _C.InvalidError("input has to be 2D, or 1D with offsets that are a 1D Tensor")
    if max_norm is not None:
        _held_rows(weight, input, max_norm, norm_type)
    if scale_grad_by_freq:
        weight = _often(weight, input)
    if mode != "max" and padding_idx is None and not (include_last_offset and input.ndim == 1):
        return ops.embedding_bag(weight, input, offsets, per_sample_weights, mode == "mean")
    if mode == "max":
        return _largest(input, weight, offsets, include_last_offset, padding_idx)
    flat, bag, n = _bags(input, offsets, include_last_offset)
    used = None if padding_idx is None else flat != padding_idx % weight.shape[0]
    found = ops.embedding(weight, flat)
    counts = td.ones(flat.shape, dtype=weight.dtype, device=weight.device) if used is None else used.to(weight.dtype)
    scale = counts if per_sample_weights is None else counts * per_sample_weights.reshape(-1)
    sums = td.zeros(n, weight.shape[1], dtype=weight.dtype, device=weight.device).index_add(0, bag, found * scale.unsqueeze(1))
    if mode == "sum":
        return sums
    return sums / td.zeros(n, dtype=weight.dtype, device=weight.device).index_add(0, bag, counts).clamp(min=1).unsqueeze(1)


def _placed(input, inplace, function):
    """function(input); with inplace written over input. What it saves for backward is of a copy then, as input changes."""
    if not inplace:
        return function(input)
    recorded = td.is_grad_enabled() and input.requires_grad
    return _overloads._store(input, function(input.clone() if recorded else input), "inplace")


def _check_dropout(p, training):
    if not 0 <= p <= 1:
        raise _C.InvalidError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _overloads._flag(training, "dropout", "training") and p > 0


def dropout(input: Tensor, p=0.5, training=True, inplace=False) -> Tensor:
    """In training each element is set to 0 with probability p, and the others are divided by 1 - p.

    >>> F.dropout(td.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    return _placed(input, inplace, lambda x: ops.dropout(x, p)[0]) if _check_dropout(p, training) else input


def _channels(input, p, training, ndim, inplace):
    """Whole channels of (N, C, ...) set to 0."""
    if not _check_dropout(p, training):
        return input
    kept = ops.dropout(td.ones(input.shape[:2] + (1,) * (ndim - 2), dtype=input.dtype, device=input.device), p)[0]
    return input.mul_(kept) if inplace else input * kept


def dropout1d(input: Tensor, p=0.5, training=True, inplace=False) -> Tensor:
    """Whole channels of (N, C, L) set to 0.

    >>> F.dropout1d(td.ones(1, 2, 3), 0.5, training=False).shape
    (1, 2, 3)
    """
    if input.ndim not in (2, 3):
        raise _C.ShapeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input")
    if input.ndim == 3:
        return _channels(input, p, training, 3, inplace)
    out = _channels(input.unsqueeze(0), p, training, 3, inplace)
    return input if inplace else out.squeeze(0)


def dropout2d(input: Tensor, p=0.5, training=True, inplace=False) -> Tensor:
    """Whole channels of (N, C, H, W) set to 0.

    >>> F.dropout2d(td.ones(1, 2, 3, 3), 0.5, training=False).shape
    (1, 2, 3, 3)
    """
    return _channels(input, p, training, input.ndim, inplace)


def dropout3d(input: Tensor, p=0.5, training=True, inplace=False) -> Tensor:
    """Whole channels of (N, C, D, H, W) set to 0.

    >>> F.dropout3d(td.ones(1, 2, 3, 3, 3), 0.5, training=False).shape
    (1, 2, 3, 3, 3)
    """
    if input.ndim == 4:
        out = _channels(input.unsqueeze(0), p, training, 5, inplace)
        return input if inplace else out.squeeze(0)
    return _channels(input, p, training, input.ndim, inplace)


def one_hot(tensor, num_classes=-1) -> Tensor:
    """For each class a row with a 1 at its place. Without num_classes there are as many as the largest wants, which waits for it.

    >>> F.one_hot(td.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if num_classes == -1:
        if not tensor.numel():
            raise _C.InvalidError("one_hot(): of no classes num_classes must be given")
        num_classes = max(int(tensor.max()), 0) + 1
    return ops.one_hot(tensor, num_classes)


# ---- activations


def threshold(input: Tensor, threshold, value: Any, inplace=False) -> Tensor:
    """x, or value where x is not above the threshold

    >>> F.threshold(td.tensor([0.5, 2.0]), 1.0, 20.0)
    tensor([20.,  2.])
    """
    return _placed(input, inplace, lambda x: td.where(x <= threshold, value if x.is_floating_point() else int(value), x))


sigmoid, tanh = td.sigmoid, td.tanh
_softmax, _log_softmax, _softmin = td.softmax, td.log_softmax, _C._nn.softmin


def _implied(input: Tensor, name: str, level: int) -> int:
    """The dimension that older programs mean when they say none."""
    _warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.", stacklevel=level)
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: "int | None" = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) as a share of its sum along a dimension. Without one it warns, and takes 0 of 0, 1 and 3 dimensions, else 1.

    >>> F.softmax(td.tensor([1.0, 1.0]), 0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = _implied(input, "softmax", _stacklevel)
    return _softmax(input, dim) if dtype is None else _softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: "int | None" = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, computed so that it does not overflow.

    >>> F.log_softmax(td.tensor([1.0, 1.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    if dim is None:
        dim = _implied(input, "log_softmax", _stacklevel)
    return _log_softmax(input, dim) if dtype is None else _log_softmax(input, dim, dtype)


def softmin(input: Tensor, dim: "int | None" = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x)

    >>> F.softmin(td.tensor([1.0, 1.0]), 0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = _implied(input, "softmin", _stacklevel)
    return _softmin(input, dim) if dtype is None else _softmin(input, dim, dtype)


def _in_place(name):
    function = globals()[name]

    def placed(input: Tensor, *args, **kwargs) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)

    placed.__name__ = placed.__qualname__ = name + "_"
    placed.__doc__ = f"{name}() in the memory of its argument.\n\n>>> F.{name}_(td.tensor([1.0]){', 0.5, 2.0' if name == 'threshold' else ''})\ntensor([1.{'0507' if name == 'selu' else ''}])\n"
    return placed


relu_, elu_, selu_, celu_ = _in_place("relu"), _in_place("elu"), _in_place("selu"), _in_place("celu")
leaky_relu_, hardtanh_, threshold_ = _in_place("leaky_relu"), _in_place("hardtanh"), _in_place("threshold")

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.nn.functional")
