"""Convolutions and pools as functions, with PyTorch's arguments: one number stands for one in each dimension."""

from typing import Any

import tensord as td
from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
           "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "adaptive_avg_pool1d",
           "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
           "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices", "max_unpool1d",
           "max_unpool2d", "max_unpool3d", "fractional_max_pool2d", "fractional_max_pool3d", "fractional_max_pool2d_with_indices",
           "fractional_max_pool3d_with_indices"]


def _spread(v, n):
    """One number for each of n dimensions."""
    if isinstance(v, int):
        return (v,) * n
    v = tuple(v)
    return v * n if len(v) == 1 else v


def _pair(v):
    return _spread(v, 2)


def _refuse(function, **given):
    """What PyTorch takes and nobody here does."""
    for name, on in given.items():
        if on:
            raise _C.Unsupported(f"{function} has no {name} here")


def _convolve(op, n, input, weight, bias, stride, padding, dilation, groups):
    stride, dilation = _spread(stride, n), _spread(dilation, n)
    if not isinstance(padding, str):
        return op(input, weight, bias, stride, _spread(padding, n), dilation, groups)
    if padding not in ("valid", "same"):
        raise _C.InvalidError(f"Invalid padding string '{padding}', should be one of 'valid', 'same'")
    if padding == "valid":
        return op(input, weight, bias, stride, (0,) * n, dilation, groups)
    if any(s != 1 for s in stride):
        raise _C.InvalidError("padding='same' is not supported for strided convolutions")
    span = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(s % 2 for s in span):  # one more behind than before
        input = ops.constant_pad(input, [p for s in reversed(span) for p in (0, s % 2)], 0)
    return op(input, weight, bias, stride, tuple(s // 2 for s in span), dilation, groups)


def conv1d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """Filters (K, C / groups, k) moved over rows (N, C, L); padding may be 'valid' or 'same'.

    >>> F.conv1d(td.tensor([[[1.0, 2.0, 3.0]]]), td.tensor([[[1.0, -1.0]]]))
    tensor([[[-1., -1.]]])
    """
    return _convolve(lambda x, w, b, stride, padding, dilation, groups: ops.conv1d(x, w, b, stride[0], padding[0], dilation[0], groups), 1, input, weight, bias,
                     stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad=0) -> Tensor:
    """conv1d() of (time, batch, channels) with a weight (width, channels in, channels out).

    >>> F.conv_tbc(td.ones(3, 1, 1), td.ones(2, 1, 1), td.zeros(1)).flatten()
    tensor([2., 2.])
    """
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise _C.ShapeError(f"Input must have 3 dims: time, batch, in_channel, weight 3, bias 1; got {input.ndim}, {weight.ndim} and {bias.ndim}")
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def conv2d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """Filters (K, C / groups, kh, kw) moved over pictures (N, C, H, W); padding may be 'valid' or 'same'.

    >>> F.conv2d(td.arange(9.0).reshape(1, 1, 3, 3), td.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    if input.ndim == 3:
        return conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    return _convolve(ops.conv2d, 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input: Tensor, weight, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups=1) -> Tensor:
    """Filters (K, C / groups, kd, kh, kw) moved over volumes (N, C, D, H, W); padding may be 'valid' or 'same'.

    >>> F.conv3d(td.arange(8.0).reshape(1, 1, 2, 2, 2), td.ones(1, 1, 2, 1, 2))
    tensor([[[[[10.],
               [18.]]]]])
    """
    return _convolve(ops.conv3d, 3, input, weight, bias, stride, padding, dilation, groups)


def _stride(stride, kernel, n):
    """None, and as in PyTorch an empty list: that of the kernel."""
    return kernel if stride is None or stride == () or stride == [] else _spread(stride, n)


def max_pool1d_with_indices(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of (N, C, L), and its place.

    >>> F.max_pool1d_with_indices(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)[1]
    tensor([[[1, 2]]])
    """
    kernel = _spread(kernel_size, 1)
    return _C._as("max_pool1d", ops.max_pool1d_with_indices, input, kernel, _stride(stride, kernel, 1), _spread(padding, 1), _spread(dilation, 1), ceil_mode)


def max_pool1d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of (N, C, L); with return_indices also its place.

    >>> F.max_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    out = max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return out if return_indices else out[0]


def max_pool2d_with_indices(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of pictures (N, C, H, W), and its place h * W + w.

    >>> F.max_pool2d_with_indices(td.arange(16.0).reshape(1, 1, 4, 4), 2)[1]
    tensor([[[[ 5,  7],
              [13, 15]]]])
    """
    if input.ndim == 3:
        return tuple(x.squeeze(0) for x in max_pool2d_with_indices(input.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode))
    kernel = _pair(kernel_size)
    return ops.max_pool2d(input, kernel, _stride(stride, kernel, 2), _pair(padding), _pair(dilation), ceil_mode)


def max_pool2d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of pictures (N, C, H, W); with return_indices also its place h * W + w.

    >>> F.max_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    out = max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return out if return_indices else out[0]


def max_pool3d_with_indices(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of volumes (N, C, D, H, W), and its place (d * H + h) * W + w.

    >>> F.max_pool3d_with_indices(td.arange(8.0).reshape(1, 1, 2, 2, 2), 2)[1]
    tensor([[[[[7]]]]])
    """
    kernel = _spread(kernel_size, 3)
    return _C._as("max_pool3d", ops.max_pool3d_with_indices, input, kernel, _stride(stride, kernel, 3), _spread(padding, 3), _spread(dilation, 3), ceil_mode)


def max_pool3d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False, return_indices=False) -> Any:
    """The largest of each window of volumes (N, C, D, H, W); with return_indices also its place (d * H + h) * W + w.

    >>> F.max_pool3d(td.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    tensor([[[[[7.]]]]])
    """
    if return_indices:
        return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    kernel = _spread(kernel_size, 3)
    return ops.max_pool3d(input, kernel, _stride(stride, kernel, 3), _spread(padding, 3), _spread(dilation, 3), ceil_mode)


def avg_pool1d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, ceil_mode=False, count_include_pad=True) -> Tensor:
    """The mean of each window of (N, C, L).

    >>> F.avg_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    kernel = _spread(kernel_size, 1)
    return _C._as("avg_pool1d", avg_pool2d, input.unsqueeze(-2), (1, *kernel), (1, *_stride(stride, kernel, 1)), (0, *_spread(padding, 1)), ceil_mode,
                  count_include_pad).squeeze(-2)


@_overloads._exactly
def avg_pool2d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, ceil_mode=False, count_include_pad=True, divisor_override=None) -> Tensor:
    """The mean of each window of pictures (N, C, H, W), or its sum over divisor_override.

    >>> F.avg_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    if input.ndim == 3:
        return avg_pool2d(input.unsqueeze(0), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override).squeeze(0)
    kernel = _pair(kernel_size)
    stride, padding = _stride(stride, kernel, 2), _pair(padding)
    if divisor_override is None:
        return ops.avg_pool2d(input, kernel, stride, padding, ceil_mode, count_include_pad)
    return ops.avg_pool3d(input.unsqueeze(-3), (1, *kernel), (1, *stride), (0, *padding), ceil_mode, count_include_pad, divisor_override).squeeze(-3)


@_overloads._exactly
def avg_pool3d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, ceil_mode=False, count_include_pad=True, divisor_override=None) -> Tensor:
    """The mean of each window of volumes (N, C, D, H, W), or its sum over divisor_override.

    >>> F.avg_pool3d(td.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    tensor([[[[[3.5000]]]]])
    """
    kernel = _spread(kernel_size, 3)
    return ops.avg_pool3d(input, kernel, _stride(stride, kernel, 3), _spread(padding, 3), ceil_mode, count_include_pad, divisor_override)


def _lp_pool(op, n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = _spread(kernel_size, n)
    return op(input, norm_type, kernel, _stride(stride, kernel, n), ceil_mode)


def lp_pool1d(input: Tensor, norm_type, kernel_size, stride: Any = None, ceil_mode=False) -> Tensor:
    """The norm of each window of (N, C, L).

    >>> F.lp_pool1d(td.tensor([[[3.0, 4.0, 1.0, 0.0]]]), 2, 2)
    tensor([[[5., 1.]]])
    """
    return _lp_pool(ops.lp_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type, kernel_size, stride: Any = None, ceil_mode=False) -> Tensor:
    """The norm of each window of pictures (N, C, H, W).

    >>> F.lp_pool2d(td.tensor([[[[3.0, 4.0]]]]), 2, (1, 2))
    tensor([[[[5.]]]])
    """
    return _lp_pool(ops.lp_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type, kernel_size, stride: Any = None, ceil_mode=False) -> Tensor:
    """The norm of each window of volumes (N, C, D, H, W).

    >>> F.lp_pool3d(td.tensor([[[[[3.0, 4.0]]]]]), 2, (1, 1, 2))
    tensor([[[[[5.]]]]])
    """
    return _lp_pool(ops.lp_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)


def _places(output_size, input, n):
    """None: as many as there are."""
    return [k if o is None else o for o, k in zip((output_size,) * n if output_size is None else _spread(output_size, n), input.shape[-n:])]


def _one(output_size, function):
    sizes = _spread(output_size, 1)
    if len(sizes) != 1:
        raise _C.InvalidError(f"{function}() argument 'output_size' should contain one int (got {len(sizes)})")
    return sizes[0]


def adaptive_avg_pool1d(input: Tensor, output_size) -> Tensor:
    """Means over as many windows as the output has places.

    >>> F.adaptive_avg_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return ops.adaptive_avg_pool1d(input, _one(output_size, "adaptive_avg_pool1d"))


def adaptive_avg_pool2d(input: Tensor, output_size) -> Tensor:
    """Means over as many windows as the output has places.

    >>> F.adaptive_avg_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), (1, 2))
    tensor([[[[6.5000, 8.5000]]]])
    """
    return ops.adaptive_avg_pool2d(input, _places(output_size, input, 2))


def adaptive_avg_pool3d(input: Tensor, output_size) -> Tensor:
    """Means over as many windows as the output has places.

    >>> F.adaptive_avg_pool3d(td.arange(8.0).reshape(1, 1, 2, 2, 2), (1, 1, 2))
    tensor([[[[[3., 4.]]]]])
    """
    return ops.adaptive_avg_pool3d(input, _places(output_size, input, 3))


def adaptive_max_pool1d_with_indices(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places, and their places.

    >>> F.adaptive_max_pool1d_with_indices(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)[1]
    tensor([[[1, 2]]])
    """
    return ops.adaptive_max_pool1d(input, _one(output_size, "adaptive_max_pool1d"))


def adaptive_max_pool1d(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places; with return_indices also its place.

    >>> F.adaptive_max_pool1d(td.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    out = adaptive_max_pool1d_with_indices(input, output_size)
    return out if return_indices else out[0]


def adaptive_max_pool2d_with_indices(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places, and its place h * W + w.

    >>> F.adaptive_max_pool2d_with_indices(td.arange(16.0).reshape(1, 1, 4, 4), 1)[1]
    tensor([[[[15]]]])
    """
    return ops.adaptive_max_pool2d(input, _places(output_size, input, 2))


def adaptive_max_pool2d(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places; with return_indices also its place h * W + w.

    >>> F.adaptive_max_pool2d(td.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[15.]]]])
    """
    out = adaptive_max_pool2d_with_indices(input, output_size)
    return out if return_indices else out[0]


def adaptive_max_pool3d_with_indices(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places, and its place (d * H + h) * W + w.

    >>> F.adaptive_max_pool3d_with_indices(td.arange(8.0).reshape(1, 1, 2, 2, 2), 1)[1]
    tensor([[[[[7]]]]])
    """
    return ops.adaptive_max_pool3d(input, _places(output_size, input, 3))


def adaptive_max_pool3d(input: Tensor, output_size, return_indices=False) -> Any:
    """The largest of as many windows as the output has places; with return_indices also its place (d * H + h) * W + w.

    >>> F.adaptive_max_pool3d(td.arange(8.0).reshape(1, 1, 2, 2, 2), 1)
    tensor([[[[[7.]]]]])
    """
    out = adaptive_max_pool3d_with_indices(input, output_size)
    return out if return_indices else out[0]


def _unpool(n, input, indices, kernel_size, stride, padding, output_size):
    kernel = _spread(kernel_size, n)
    stride, padding = _stride(stride, kernel, n), _spread(padding, n)
    usual = [(k - 1) * s - 2 * p + w for k, s, p, w in zip(input.shape[-n:], stride, padding, kernel)]
    if output_size is None:
        return ops.max_unpool(input, indices, usual)
    sizes = tuple(output_size)[-n:]
    if len(output_size) not in (n, n + 1, n + 2) or any(not d - s < o < d + s for d, s, o in zip(usual, stride, sizes)):
        raise _C.InvalidError(f"invalid output_size {tuple(output_size)}: within a stride of {usual} are possible")
    return ops.max_unpool(input, indices, sizes)


def max_unpool1d(input: Tensor, indices, kernel_size, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros, and the elements at the places where max_pool1d took them.

    >>> F.max_unpool1d(td.tensor([[[3.0, 2.0]]]), td.tensor([[[1, 2]]]), 2)
    tensor([[[0., 3., 2., 0.]]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input: Tensor, indices, kernel_size, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros, and the elements at the places where max_pool2d took them.

    >>> F.max_unpool2d(td.tensor([[[[3.0]]]]), td.tensor([[[[1]]]]), 2)
    tensor([[[[0., 3.],
              [0., 0.]]]])
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input: Tensor, indices, kernel_size, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros, and the elements at the places where max_pool3d took them.

    >>> F.max_unpool3d(td.tensor([[[[[3.0]]]]]), td.tensor([[[[[1]]]]]), (1, 1, 2))
    tensor([[[[[0., 3.]]]]])
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _fractional(n, input, kernel_size, output_size, output_ratio, samples):
    name, op = f"fractional_max_pool{n}d", (ops.fractional_max_pool2d, ops.fractional_max_pool3d)[n - 2]
    if (output_size is None) == (output_ratio is None):
        raise _C.InvalidError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratio = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        output_size = [int(k * r) for k, r in zip(input.shape[-n:], ratio)]
    alone = input.ndim == n + 1
    if alone:
        input = input.unsqueeze(0)
    if samples is None:
        samples = td.rand(*input.shape[:2], n, dtype=input.dtype, device=input.device)
    out = op(input, samples, _spread(kernel_size, n), _spread(output_size, n))
    return tuple(x.squeeze(0) for x in out) if alone else out


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size, output_size: Any = None, output_ratio: Any = None, return_indices=False,
                                       _random_samples: Tensor | None = None) -> Any:
    """The largest of windows that random numbers spread over pictures (N, C, H, W), and its place h * W + w.

    >>> F.fractional_max_pool2d_with_indices(td.arange(4.0).reshape(1, 1, 2, 2), 2, 1)[1]
    tensor([[[[3]]]])
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(input: Tensor, kernel_size, output_size: Any = None, output_ratio: Any = None, return_indices=False,
                          _random_samples: Tensor | None = None) -> Any:
    """The largest of windows that random numbers spread over pictures (N, C, H, W); with return_indices also its place h * W + w.

    >>> F.fractional_max_pool2d(td.arange(4.0).reshape(1, 1, 2, 2), 2, 1)
    tensor([[[[3.]]]])
    """
    out = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return out if return_indices else out[0]


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size, output_size: Any = None, output_ratio: Any = None, return_indices=False,
                                       _random_samples: Tensor | None = None) -> Any:
    """The largest of windows that random numbers spread over volumes (N, C, D, H, W), and its place (d * H + h) * W + w.

    >>> F.fractional_max_pool3d_with_indices(td.arange(8.0).reshape(1, 1, 2, 2, 2), 2, 1)[1]
    tensor([[[[[7]]]]])
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(input: Tensor, kernel_size, output_size: Any = None, output_ratio: Any = None, return_indices=False,
                          _random_samples: Tensor | None = None) -> Any:
    """The largest of windows that random numbers spread over volumes (N, C, D, H, W); with return_indices also its place (d * H + h) * W + w.

    >>> F.fractional_max_pool3d(td.arange(8.0).reshape(1, 1, 2, 2, 2), 2, 1)
    tensor([[[[[7.]]]]])
    """
    out = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return out if return_indices else out[0]
