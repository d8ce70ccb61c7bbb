"""Layers as functions. With inplace=True an activation's values are in its argument's memory afterwards, as in PyTorch, and it returns its argument;
but relu() they all need room for the result meanwhile, and where gradients are recorded for a copy of the argument."""

import math
import operator
from typing import Any

import tensord as td
from tensord import _C, _more
from tensord._C import Tensor, ops

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
tanhshrink, softshrink, hardshrink, softmin = _C._nn.tanhshrink, _C._nn.softshrink, _C._nn.hardshrink, _C._nn.softmin
glu, group_norm, rms_norm, normalize = _C._nn.glu, _C._nn.group_norm, _C._nn.rms_norm, _C._nn.normalize
scaled_dot_product_attention, conv_transpose2d, pixel_shuffle = _C._nn.scaled_dot_product_attention, _C._nn.conv_transpose2d, _C._nn.pixel_shuffle


def _pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


def _refuse(function, **given):
    """What PyTorch takes and nobody here does."""
    for name, on in given.items():
        if on:
            raise _C.Unsupported(f"{function} has no {name} here")


def _padding(word, dilation, kernel):
    """How much 'valid' or 'same' is."""
    if word not in ("valid", "same"):
        raise _C.InvalidError(f"Invalid padding string '{word}', should be one of 'valid', 'same'")
    span = [0 if word == "valid" else d * (k - 1) for d, k in zip(dilation, kernel)]
    if any(s % 2 for s in span):
        raise _C.Unsupported("padding='same' is for kernels of odd size here; pad the input first")
    return [s // 2 for s in span]


def conv2d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """Filters (K, C, kh, kw) moved over pictures (N, C, H, W); padding may be 'valid' or 'same'.

    >>> F.conv2d(td.arange(9.0).reshape(1, 1, 3, 3), td.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    if input.ndim == 3:
        return conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    dilation = _pair(dilation)
    padding = _padding(padding, dilation, weight.shape[2:]) if isinstance(padding, str) else _pair(padding)
    return ops.conv2d(input, weight, bias, _pair(stride), padding, dilation, groups)


def _single(v):
    return v if isinstance(v, (int, str)) or v is None else v[0]


def conv1d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """(N, C, L) as pictures that are one row high.

    >>> F.conv1d(td.tensor([[[1.0, 2.0, 3.0]]]), td.tensor([[[1.0, -1.0]]]))
    tensor([[[-1., -1.]]])
    """
    stride, dilation = _single(stride), _single(dilation)
    padding = _padding(padding, (dilation,), weight.shape[2:])[0] if isinstance(padding, str) else _single(padding)
    return ops.conv1d(input, weight, bias, stride, padding, dilation, groups)


def max_pool1d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of (N, C, L).

    >>> F.max_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    _refuse("max_pool1d()", return_indices=return_indices)
    kernel = _single(kernel_size)
    stride = kernel if stride is None else _single(stride)
    return max_pool2d(input.unsqueeze(-2), (1, kernel), (1, stride), (0, _single(padding)), (1, _single(dilation)), ceil_mode).squeeze(-2)


def avg_pool1d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, ceil_mode=False, count_include_pad=True) -> Tensor:
    """The mean of each window of (N, C, L).

    >>> F.avg_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    kernel = _single(kernel_size)
    stride = kernel if stride is None else _single(stride)
    return avg_pool2d(input.unsqueeze(-2), (1, kernel), (1, stride), (0, _single(padding)), ceil_mode, count_include_pad).squeeze(-2)


def max_pool2d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of pictures (N, C, H, W); with return_indices also its place h * W + w.

    >>> F.max_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    if input.ndim == 3:
        out = max_pool2d(input.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return tuple(x.squeeze(0) for x in out) if return_indices else out.squeeze(0)
    kernel = _pair(kernel_size)
    out = ops.max_pool2d(input, kernel, kernel if stride is None else _pair(stride), _pair(padding), _pair(dilation), ceil_mode)
    return out if return_indices else out[0]


def avg_pool2d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, ceil_mode=False, count_include_pad=True, divisor_override=None) -> Tensor:
    """The mean of each window of pictures (N, C, H, W).

    >>> F.avg_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    _refuse("avg_pool2d()", divisor_override=divisor_override)
    if input.ndim == 3:
        return avg_pool2d(input.unsqueeze(0), kernel_size, stride, padding, ceil_mode, count_include_pad).squeeze(0)
    kernel = _pair(kernel_size)
    return ops.avg_pool2d(input, kernel, kernel if stride is None else _pair(stride), _pair(padding), ceil_mode, count_include_pad)


def _places(output_size, input):
    """Of pictures; None: as many as there are."""
    return [n if o is None else o for o, n in zip(_pair(output_size), input.shape[-2:])]


def adaptive_avg_pool2d(input: Tensor, output_size) -> Tensor:
    """Means over as many windows as the output has places.

    >>> F.adaptive_avg_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), (1, 2))
    tensor([[[[6.5000, 8.5000]]]])
    """
    return ops.adaptive_avg_pool2d(input, _places(output_size, input))


def adaptive_avg_pool1d(input: Tensor, output_size) -> Tensor:
    """Means over as many windows as the output has places.

    >>> F.adaptive_avg_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return ops.adaptive_avg_pool1d(input, _single(output_size))


def adaptive_max_pool2d(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places; with return_indices also its place h * W + w.

    >>> F.adaptive_max_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[15.]]]])
    """
    out = ops.adaptive_max_pool2d(input, _places(output_size, input))
    return out if return_indices else out[0]


def _scaled_sizes(sizes, size, scale_factor, recompute):
    """(sizes of the result, scales): scales are those that were given, or None where the sizes alone say them."""
    if (size is None) == (scale_factor is None):
        raise _C.InvalidError(f"interpolate(): {'either' if size is None else 'only one of'} size or scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    given = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(sizes)
    if len(given) != len(sizes):
        raise _C.ShapeError(f"interpolate(): {len(given)} numbers for {len(sizes)} dimensions of pictures {tuple(sizes)}")
    if scale_factor is None:
        return given, [None] * len(sizes)
    return [math.floor(n * s) for n, s in zip(sizes, given)], [None if recompute else s for s in given]


_LINEAR = {"linear": 3, "bilinear": 4, "trilinear": 5}


def interpolate(input: Tensor, size=None, scale_factor=None, mode="nearest", align_corners: Any = None, recompute_scale_factor=None, antialias=False) -> Tensor:
    """Pictures (N, C, W), (N, C, H, W) or (N, C, D, H, W) in another size, each place from the nearest one, or from those around it. A scale_factor says where
    the places are looked for, also when size * scale_factor is no whole number; with recompute_scale_factor the sizes say it.

    >>> F.interpolate(td.tensor([[[1.0, 2.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2., 3., 3.]]])
    """
    if mode not in ("nearest", "nearest-exact", *_LINEAR) or not 3 <= input.ndim <= 5:
        raise _C.Unsupported(f"interpolate() knows mode='nearest', 'nearest-exact', 'linear', 'bilinear' and 'trilinear' of 3 to 5 dimensions, not {mode!r} of {input.ndim}")
    if mode in _LINEAR and input.ndim != _LINEAR[mode]:
        raise _C.Unsupported(f"interpolate(): mode={mode!r} is for {_LINEAR[mode]} dimensions, not for {input.ndim}")
    if align_corners is not None and mode not in _LINEAR:
        raise _C.InvalidError("align_corners option can only be set with the interpolating modes: linear | bilinear | trilinear")
    _refuse("interpolate()", antialias=antialias)
    sizes, scales = _scaled_sizes(input.shape[2:], size, scale_factor, recompute_scale_factor)
    for dim, (to, scale) in enumerate(zip(sizes, scales), 2):
        if input.shape[dim] != to or scale is not None:
            given = None if scale is None else float(scale)
            if mode in _LINEAR:
                input = ops.resample_linear(input, dim, to, given, bool(align_corners))
            else:
                input = ops.resample_nearest(input, dim, to, given, mode == "nearest-exact")
    return input


def layer_norm(input: Tensor, normalized_shape, weight: Tensor | None = None, bias: Tensor | None = None, eps=1e-5) -> Tensor:
    """The last dimensions at mean 0 and variance 1, times weight plus bias.

    >>> F.layer_norm(td.tensor([1.0, 3.0]), (2,), eps=0)
    tensor([-1.,  1.])
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(map(operator.index, normalized_shape))
    if input.shape[input.ndim - len(shape) :] != shape:
        raise _C.ShapeError(f"layer_norm over {shape} of an input of shape {input.shape}: the last dimensions must be these")
    return ops.layer_norm(input, weight, bias, len(shape), eps)[0]


def batch_norm(input: Tensor, running_mean, running_var, weight: Tensor | None = None, bias: Tensor | None = None, training=False, momentum=0.1, eps=1e-5) -> Tensor:
    """Each channel at mean 0 and variance 1: those of the batch in training, else the running ones.

    >>> F.batch_norm(td.tensor([[1.0], [3.0]]), td.tensor([2.0]), td.tensor([4.0]), eps=0)
    tensor([[-0.5000],
            [ 0.5000]])
    """
    if training and input.numel() == input.shape[1]:
        raise _C.InvalidError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats=True, momentum=0.1, eps=1e-5) -> Tensor:
    """Each channel of each picture at mean 0 and variance 1.

    >>> F.instance_norm(td.tensor([[[1.0, 3.0]]]), eps=0)
    tensor([[[-1.,  1.]]])
    """
    _refuse("instance_norm()", running_mean=running_mean is not None or running_var is not None or not use_input_stats)
    return group_norm(input, input.shape[1], weight, bias, eps)


def embedding(input: Tensor, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False) -> Tensor:
    """Rows of weight; the row padding_idx gets no gradient.

    >>> F.embedding(td.tensor([1, 0, 1]), td.tensor([[0.0, 0.5], [1.0, 1.5]]))
    tensor([[1.0000, 1.5000],
            [0.0000, 0.5000],
            [1.0000, 1.5000]])
    """
    _refuse("embedding()", max_norm=max_norm is not None, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    out = ops.embedding(weight, input)
    if padding_idx is None:
        return out
    return td.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), out.detach(), out)


def embedding_bag(input: Tensor, weight, offsets: Tensor | None = None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights: Tensor | None = None, include_last_offset=False, padding_idx=None) -> Tensor:
    """The sum or mean of the rows of each bag: rows of input (B, N), or of one vector the parts that begin at offsets.

    >>> F.embedding_bag(td.tensor([[0, 1]]), td.tensor([[0.0, 0.5], [1.0, 1.5]]), mode="sum")
    tensor([[1., 2.]])
    """
    _refuse("embedding_bag()", max_norm=max_norm is not None, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
            include_last_offset=include_last_offset, padding_idx=padding_idx is not None)
    if mode not in ("sum", "mean"):
        raise _C.Unsupported(f"embedding_bag() knows mode='sum' and 'mean', not {mode!r}")
    return ops.embedding_bag(weight, input, offsets, per_sample_weights, mode == "mean")


def _placed(input, inplace, function):
    """function(input); with inplace written over input. What it saves for backward is of a copy then, as input changes."""
    if not inplace:
        return function(input)
    recorded = td.is_grad_enabled() and input.requires_grad
    return _more._store(input, function(input.clone() if recorded else input), "inplace")


def _check_dropout(p, training):
    if not 0 <= p <= 1:
        raise _C.InvalidError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _more._flag(training, "dropout", "training") and p > 0


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


def pad(input: Tensor, pad, mode="constant", value=0) -> Tensor:
    """A value around the tensor: pairs (before, after) of the last dimension, then the one before it, ...

    >>> F.pad(td.tensor([1.0, 2.0]), (1, 2), value=9.0)
    tensor([9., 1., 2., 9., 9.])
    """
    if mode != "constant":
        raise _C.Unsupported(f"pad() knows mode='constant', not {mode!r}")
    return ops.constant_pad(input, tuple(pad), value or 0)


# ---- activations


def threshold(input: Tensor, threshold, value: Any, inplace=False) -> Tensor:
    """x, or value where x is not above the threshold

    >>> F.threshold(td.tensor([0.5, 2.0]), 1.0, 20.0)
    tensor([20.,  2.])
    """
    return _placed(input, inplace, lambda x: td.where(x <= threshold, value if x.is_floating_point() else int(value), x))


sigmoid, tanh, softmax, log_softmax = td.sigmoid, td.tanh, td.softmax, td.log_softmax
