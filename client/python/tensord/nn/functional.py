"""Layers as functions. With inplace=True an activation's values are in its argument's memory afterwards, as in PyTorch, and it returns its argument;
but relu() they all need room for the result meanwhile, and where gradients are recorded for a copy of the argument."""

import math
import operator
from typing import Any

import tensord as td
from tensord import _C, _more
from tensord._C import Tensor, ops
from tensord.nn._loss_functions import (_reduction as _reduction, binary_cross_entropy as binary_cross_entropy,  # noqa: F401
                                        binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
                                        cosine_embedding_loss as cosine_embedding_loss, cosine_similarity as cosine_similarity,
                                        cross_entropy as cross_entropy, gaussian_nll_loss as gaussian_nll_loss, huber_loss as huber_loss,
                                        kl_div as kl_div, l1_loss as l1_loss, margin_ranking_loss as margin_ranking_loss, mse_loss as mse_loss,
                                        nll_loss as nll_loss, pairwise_distance as pairwise_distance, poisson_nll_loss as poisson_nll_loss,
                                        smooth_l1_loss as smooth_l1_loss, triplet_margin_loss as triplet_margin_loss)

def _pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


def _refuse(function, **given):
    """What PyTorch takes and nobody here does."""
    for name, on in given.items():
        if on:
            raise _C.Unsupported(f"{function} has no {name} here")


def linear(input: Tensor, weight, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias.

    >>> F.linear(td.tensor([1.0, 2.0]), td.tensor([[1.0, 1.0], [0.0, 3.0]]))
    tensor([3., 6.])
    """
    return ops.linear(input, weight, bias)


def conv2d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """Filters (K, C, kh, kw) moved over pictures (N, C, H, W); padding may be 'valid' or 'same'.

    >>> F.conv2d(td.arange(9.0).reshape(1, 1, 3, 3), td.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    if input.ndim == 3:
        return conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    dilation = _pair(dilation)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        span = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        if any(s % 2 for s in span):
            raise _C.Unsupported("padding='same' is for kernels of odd size here; pad the input first")
        padding = [s // 2 for s in span]
    return ops.conv2d(input, weight, bias, _pair(stride), _pair(padding), dilation, groups)


def _single(v):
    return v if isinstance(v, (int, str)) or v is None else v[0]


def conv1d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """(N, C, L) as pictures that are one row high.

    >>> F.conv1d(td.tensor([[[1.0, 2.0, 3.0]]]), td.tensor([[[1.0, -1.0]]]))
    tensor([[[-1., -1.]]])
    """
    padding = padding if isinstance(padding, str) else (0, _single(padding))
    out = conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, (1, _single(stride)), padding, (1, _single(dilation)), groups)
    return out.squeeze(-2)


def conv_transpose2d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups=1, dilation: Any = 1) -> Tensor:
    """What the gradient of conv2d does to its input: zeros between the places, then the kernel turned round.

    >>> F.conv_transpose2d(td.ones(1, 1, 1, 2), td.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 3., 2.]]]])
    """
    if input.ndim == 3:
        return conv_transpose2d(input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation).squeeze(0)
    stride, padding, more, dilation = _pair(stride), _pair(padding), _pair(output_padding), _pair(dilation)
    n, c, h, w = input.shape
    spread = ops.constant_pad(input.reshape(n, c, h, 1, w, 1), (0, stride[1] - 1, 0, 0, 0, stride[0] - 1), 0)
    spread = spread.reshape(n, c, h * stride[0], w * stride[1])[:, :, : (h - 1) * stride[0] + 1, : (w - 1) * stride[1] + 1]
    edge = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding)]
    spread = ops.constant_pad(spread, (edge[1], edge[1] + more[1], edge[0], edge[0] + more[0]), 0)
    turned = ops.flip(weight, (2, 3)).unflatten(0, (groups, c // groups)).transpose(1, 2).flatten(0, 1)
    return ops.conv2d(spread, turned, bias, (1, 1), (0, 0), dilation, groups)


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


def adaptive_avg_pool2d(input: Tensor, output_size) -> Tensor:
    """Means over as many equal windows as the output has places.

    >>> F.adaptive_avg_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), (1, 2))
    tensor([[[[6.5000, 8.5000]]]])
    """
    size = [n if o is None else o for o, n in zip(_pair(output_size), input.shape[-2:])]
    if size == [1, 1]:
        return input.mean((-2, -1), keepdim=True)
    if any(n % o for n, o in zip(input.shape[-2:], size)):
        raise _C.Unsupported(f"adaptive_avg_pool2d of {tuple(input.shape[-2:])} to {tuple(size)}: here the sizes must divide each other")
    return avg_pool2d(input, [n // o for n, o in zip(input.shape[-2:], size)])


def adaptive_avg_pool1d(input: Tensor, output_size) -> Tensor:
    """Means over as many equal windows as the output has places.

    >>> F.adaptive_avg_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return adaptive_avg_pool2d(input.unsqueeze(-2), (1, _single(output_size))).squeeze(-2)


def adaptive_max_pool2d(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many equal windows as the output has places.

    >>> F.adaptive_max_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[15.]]]])
    """
    _refuse("adaptive_max_pool2d()", return_indices=return_indices)
    size = [n if o is None else o for o, n in zip(_pair(output_size), input.shape[-2:])]
    if any(n % o for n, o in zip(input.shape[-2:], size)):
        raise _C.Unsupported(f"adaptive_max_pool2d of {tuple(input.shape[-2:])} to {tuple(size)}: here the sizes must divide each other")
    return max_pool2d(input, [n // o for n, o in zip(input.shape[-2:], size)])


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


def _nearest(n, to, scale, exact, dtype):
    """Which of n places each of `to` shows; computed in the dtype that PyTorch computes it in, and with its two exceptions."""
    if not exact and to in (n, 2 * n):
        return td.arange(to) // (to // n)
    kind = _C.float64 if dtype is _C.float64 else _C.float32
    step = td.tensor(n / to if scale is None else 1 / scale, dtype=kind)
    return ((td.arange(to, dtype=kind) + (0.5 if exact else 0)) * step).float().floor().long().clamp(max=n - 1)


def interpolate(input: Tensor, size=None, scale_factor=None, mode="nearest", align_corners: Any = None, recompute_scale_factor=None, antialias=False) -> Tensor:
    """Pictures (N, C, W), (N, C, H, W) or (N, C, D, H, W) in another size, each place from the nearest one. A scale_factor says where the places are
    looked for, also when size * scale_factor is no whole number; with recompute_scale_factor the sizes say it.

    >>> F.interpolate(td.tensor([[[1.0, 2.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2., 3., 3.]]])
    """
    if mode not in ("nearest", "nearest-exact") or not 3 <= input.ndim <= 5:
        raise _C.Unsupported(f"interpolate() knows mode='nearest' and 'nearest-exact' of (N, C, H, W), not {mode!r} of {input.ndim} dimensions")
    if align_corners is not None or antialias:
        raise _C.InvalidError(f"interpolate(): align_corners and antialias are not for mode={mode!r}")
    sizes, scales = _scaled_sizes(input.shape[2:], size, scale_factor, recompute_scale_factor)
    for dim, (to, scale) in enumerate(zip(sizes, scales), 2):
        n = input.shape[dim]
        if n == 0 or to < 1:
            raise _C.ShapeError(f"interpolate(): sizes must be greater than 0, but {tuple(input.shape[2:])} is to become {tuple(sizes)}")
        if n != to or scale is not None:
            input = input.index_select(dim, _nearest(n, to, scale, mode == "nearest-exact", input.dtype))
    return input


def pixel_shuffle(input: Tensor, upscale_factor) -> Tensor:
    """Of r * r channels one with r times as many places in each direction.

    >>> F.pixel_shuffle(td.arange(4.0).reshape(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    r, (*lead, c, h, w) = upscale_factor, input.shape
    x = input.reshape((-1, c // (r * r), r, r, h, w)).permute((0, 1, 4, 2, 5, 3))
    return x.reshape((*lead, c // (r * r), h * r, w * r))


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


def group_norm(input: Tensor, num_groups, weight: Tensor | None = None, bias: Tensor | None = None, eps=1e-5) -> Tensor:
    """Groups of channels at mean 0 and variance 1.

    >>> F.group_norm(td.tensor([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    n, c = input.shape[:2]
    if c % num_groups:
        raise _C.ShapeError(f"group_norm: {c} channels cannot be cut into {num_groups} groups")
    out = ops.layer_norm(input.reshape(n, num_groups, -1), None, None, 1, eps)[0].reshape(input.shape)
    shape = (1, c) + (1,) * (input.ndim - 2)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


def rms_norm(input: Tensor, normalized_shape, weight: Tensor | None = None, eps=None) -> Tensor:
    """The last dimensions over the root of the mean of their squares.

    >>> F.rms_norm(td.tensor([1.0, 7.0]), (2,), eps=0.0)
    tensor([0.2000, 1.4000])
    """
    dims = tuple(range(-len(normalized_shape) if not isinstance(normalized_shape, int) else -1, 0))
    x = input.float() if input.dtype.itemsize < 4 else input  # the square of 300 is no half
    out = x * (x.square().mean(dims, keepdim=True) + (td.finfo(x.dtype).eps if eps is None else eps)).rsqrt()
    return out.to(input.dtype) if weight is None else (out * weight).to(td.result_type(input, weight))


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
    rows = ops.embedding(weight, input)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(-1)
    if input.ndim == 2:
        return rows.sum(1) if mode == "sum" else rows.mean(1)
    if offsets is None:
        raise _C.InvalidError("offsets has to be a 1D Tensor but got None")
    bag = td.searchsorted(offsets, td.arange(input.shape[0]), right=True) - 1
    sums = td.zeros((offsets.shape[0], weight.shape[1]), dtype=rows.dtype).index_add(0, bag, rows)
    if mode == "sum":
        return sums
    sizes = td.bincount(bag, minlength=offsets.shape[0]).clamp(min=1)
    return sums / sizes.to(sums.dtype).unsqueeze(-1)


def _attention_weights(query, key, mask, scale):
    scores = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.transpose(-2, -1)
    return td.softmax(scores if mask is None else scores + mask, -1)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False) -> Tensor:
    """softmax(query @ key.T / sqrt(E)) @ value; attn_mask: true (or 0) where it may look, false (or -inf) where not.

    >>> F.scaled_dot_product_attention(td.zeros(1, 2), td.zeros(2, 2), td.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    _refuse("scaled_dot_product_attention()", enable_gqa=enable_gqa)
    if is_causal:
        if attn_mask is not None:
            raise _C.InvalidError("Explicit attn_mask should not be set when is_causal=True")
        attn_mask = td.ones(query.shape[-2], key.shape[-2], dtype=_C.bool).tril()
    if attn_mask is not None and attn_mask.dtype is _C.bool:
        attn_mask = td.zeros(attn_mask.shape, dtype=query.dtype).masked_fill(~attn_mask, -td.inf)
    weights = _attention_weights(query, key, attn_mask, scale)
    return dropout(weights, dropout_p) @ value


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
    kept = ops.dropout(td.ones(input.shape[:2] + (1,) * (ndim - 2), dtype=input.dtype), p)[0]
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
    """For each class a row with a 1 at its place.

    >>> F.one_hot(td.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is _C.bool:
        raise _C.DTypeError(f"one_hot() takes classes, which are whole numbers, not {tensor.dtype}")
    if not tensor.numel() and num_classes < 1:
        raise _C.InvalidError("one_hot(): of no classes num_classes must be given")
    least, most = td.stack([tensor.min(), tensor.max()]).tolist() if tensor.numel() else (0, -1)
    n = most + 1 if num_classes < 0 else num_classes
    if least < 0 or most >= n:
        raise _C.OutOfRange(f"one_hot(): Class values must be non-negative and smaller than num_classes: from {least} to {most} of {n}")
    return (tensor.unsqueeze(-1) == td.arange(n)).long()


def pad(input: Tensor, pad, mode="constant", value=0) -> Tensor:
    """A value around the tensor: pairs (before, after) of the last dimension, then the one before it, ...

    >>> F.pad(td.tensor([1.0, 2.0]), (1, 2), value=9.0)
    tensor([9., 1., 2., 9., 9.])
    """
    if mode != "constant":
        raise _C.Unsupported(f"pad() knows mode='constant', not {mode!r}")
    return ops.constant_pad(input, tuple(pad), value or 0)


def normalize(input: Tensor, p=2.0, dim=1, eps=1e-12) -> Tensor:
    """Vectors along a dimension over their p-norm.

    >>> F.normalize(td.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / td.norm(input, p, dim, True).clamp(min=eps)


# ---- activations


def relu(input: Tensor, inplace=False) -> Tensor:
    """max(x, 0)

    >>> F.relu(td.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else input.relu()


def relu6(input: Tensor, inplace=False) -> Tensor:
    """x held between 0 and 6

    >>> F.relu6(td.tensor([-1.0, 2.0, 9.0]))
    tensor([0., 2., 6.])
    """
    return _placed(input, inplace, lambda x: ops.hardtanh(x, 0.0, 6.0))


def leaky_relu(input: Tensor, negative_slope=0.01, inplace=False) -> Tensor:
    """x, or negative_slope * x below 0

    >>> F.leaky_relu(td.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    return _placed(input, inplace, lambda x: ops.leaky_relu(x, negative_slope))


def elu(input: Tensor, alpha=1.0, inplace=False) -> Tensor:
    """x, or alpha * (exp(x) - 1) below 0

    >>> F.elu(td.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _placed(input, inplace, lambda x: ops.elu(x, alpha))


def gelu(input: Tensor, approximate="none") -> Tensor:
    """x times the normal distribution at x, or (approximate='tanh') something near it

    >>> F.gelu(td.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate not in ("none", "tanh"):
        raise _C.InvalidError(f"gelu(): approximate argument must be either none or tanh, not {approximate!r}")
    return ops.gelu(input, approximate == "tanh")


def silu(input: Tensor, inplace=False) -> Tensor:
    """x * sigmoid(x)

    >>> F.silu(td.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return _placed(input, inplace, ops.silu)


def mish(input: Tensor, inplace=False) -> Tensor:
    """x * tanh(softplus(x))

    >>> F.mish(td.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return _placed(input, inplace, ops.mish)


def softplus(input: Tensor, beta=1.0, threshold=20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold

    >>> F.softplus(td.tensor([-1.0, 2.0]))
    tensor([0.3133, 2.1269])
    """
    return ops.softplus(input, beta, threshold)


def hardtanh(input: Tensor, min_val=-1.0, max_val=1.0, inplace=False) -> Tensor:
    """x held between min_val and max_val

    >>> F.hardtanh(td.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return _placed(input, inplace, lambda x: ops.hardtanh(x, min_val, max_val))


def hardsigmoid(input: Tensor, inplace=False) -> Tensor:
    """relu6(x + 3) / 6

    >>> F.hardsigmoid(td.tensor([-3.0, 0.0]))
    tensor([0.0000, 0.5000])
    """
    return _placed(input, inplace, lambda x: ops.hardtanh(x + 3, 0.0, 6.0) / 6)


def hardswish(input: Tensor, inplace=False) -> Tensor:
    """x * relu6(x + 3) / 6

    >>> F.hardswish(td.tensor([-3.0, 3.0]))
    tensor([-0., 3.])
    """
    return _placed(input, inplace, lambda x: x * hardsigmoid(x))


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))

    >>> F.logsigmoid(td.tensor([0.0]))
    tensor([-0.6931])
    """
    return -ops.softplus(-input)


def selu(input: Tensor, inplace=False) -> Tensor:
    """elu with the scale that keeps mean and variance

    >>> F.selu(td.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _placed(input, inplace, lambda x: 1.0507009873554804934193349852946 * ops.elu(x, 1.6732632423543772848170429916717))


def celu(input: Tensor, alpha=1.0, inplace=False) -> Tensor:
    """x, or alpha * (exp(x / alpha) - 1) below 0

    >>> F.celu(td.tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.0000])
    """
    return _placed(input, inplace, lambda x: td.where(x > 0, x, alpha * (x.clamp(max=0) / alpha).expm1()))


def prelu(input: Tensor, weight) -> Tensor:
    """x, or weight * x below 0; one weight, or one for each channel

    >>> F.prelu(td.tensor([-1.0, 2.0]), td.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    if weight.numel() > 1 and (input.ndim == 0 or weight.numel() != input.shape[min(1, input.ndim - 1)]):
        raise _C.ShapeError(f"prelu(): {weight.numel()} parameters for an input of shape {tuple(input.shape)}: one, or one for each of its channels")
    weight = weight.reshape(()) if input.ndim == 0 else weight
    weight = weight.reshape((1, -1) + (1,) * (input.ndim - 2)) if weight.numel() > 1 and input.ndim > 1 else weight
    return td.where(input > 0, input, weight * input)


def threshold(input: Tensor, threshold, value: Any, inplace=False) -> Tensor:
    """x, or value where x is not above the threshold

    >>> F.threshold(td.tensor([0.5, 2.0]), 1.0, 20.0)
    tensor([20.,  2.])
    """
    return _placed(input, inplace, lambda x: td.where(x > threshold, x, value if x.is_floating_point() else int(value)))


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)

    >>> F.softsign(td.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (1 + input.abs())


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)

    >>> F.tanhshrink(td.tensor([1.0]))
    tensor([0.2384])
    """
    return input - input.tanh()


def softshrink(input: Tensor, lambd=0.5) -> Tensor:
    """x nearer to 0 by lambd

    >>> F.softshrink(td.tensor([-0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """
    return td.where(input.abs() <= lambd, 0.0, input - input.sign() * lambd)  # NaN stays


def hardshrink(input: Tensor, lambd=0.5) -> Tensor:
    """x, or 0 where |x| is not above lambd

    >>> F.hardshrink(td.tensor([-0.25, 2.0]))
    tensor([0., 2.])
    """
    return td.where(input.abs() <= lambd, 0.0, input)


def softmin(input: Tensor, dim, dtype=None) -> Tensor:
    """softmax(-x)

    >>> F.softmin(td.tensor([1.0, 1.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return td.softmax(-input, dim, dtype)


def glu(input: Tensor, dim=-1) -> Tensor:
    """One half of x along a dimension times the sigmoid of the other.

    >>> F.glu(td.tensor([3.0, 0.0]))
    tensor([1.5000])
    """
    if input.ndim == 0 or input.shape[dim] % 2:
        raise _C.ShapeError(f"glu(): Halving dimension must be even, but dimension {dim} is size {input.shape[dim] if input.ndim else 1}")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


sigmoid, tanh, softmax, log_softmax = td.sigmoid, td.tanh, td.softmax, td.log_softmax
