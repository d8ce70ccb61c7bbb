"""Layers as functions."""

import tensord as td
from tensord import _C
from tensord._C import ops

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name):
    if name not in _REDUCTIONS:
        raise _C.InvalidError(f"reduction must be 'none', 'mean' or 'sum', not {name!r}")
    return _REDUCTIONS[name]


def _pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


def linear(input, weight, bias=None):
    return ops.linear(input, weight, bias)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
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


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if input.ndim == 3:
        return max_pool2d(input.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode).squeeze(0)
    kernel = _pair(kernel_size)
    out = ops.max_pool2d(input, kernel, kernel if stride is None else _pair(stride), _pair(padding), _pair(dilation), ceil_mode)
    return out if return_indices else out[0]


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    if input.ndim == 3:
        return avg_pool2d(input.unsqueeze(0), kernel_size, stride, padding, ceil_mode, count_include_pad).squeeze(0)
    kernel = _pair(kernel_size)
    return ops.avg_pool2d(input, kernel, kernel if stride is None else _pair(stride), _pair(padding), ceil_mode, count_include_pad)


def adaptive_avg_pool2d(input, output_size):
    size = [n if o is None else o for o, n in zip(_pair(output_size), input.shape[-2:])]
    if size == [1, 1]:
        return input.mean((-2, -1), keepdim=True)
    if any(n % o for n, o in zip(input.shape[-2:], size)):
        raise _C.Unsupported(f"adaptive_avg_pool2d of {tuple(input.shape[-2:])} to {tuple(size)}: here the sizes must divide each other")
    return avg_pool2d(input, [n // o for n, o in zip(input.shape[-2:], size)])


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if input.shape[input.ndim - len(shape) :] != shape:
        raise _C.ShapeError(f"layer_norm over {shape} of an input of shape {input.shape}: the last dimensions must be these")
    return ops.layer_norm(input, weight, bias, len(shape), eps)[0]


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training and input.numel() == input.shape[1]:
        raise _C.InvalidError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    n, c = input.shape[:2]
    if c % num_groups:
        raise _C.ShapeError(f"group_norm: {c} channels cannot be cut into {num_groups} groups")
    out = ops.layer_norm(input.reshape(n, num_groups, -1), None, None, 1, eps)[0].reshape(input.shape)
    shape = (1, c) + (1,) * (input.ndim - 2)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    dims = tuple(range(-len(normalized_shape) if not isinstance(normalized_shape, int) else -1, 0))
    out = input * (input.square().mean(dims, keepdim=True) + (td.finfo(input.dtype).eps if eps is None else eps)).rsqrt()
    return out if weight is None else out * weight


def embedding(input, weight, padding_idx=None):
    return ops.embedding(weight, input)


def dropout(input, p=0.5, training=True, inplace=False):
    if not 0 <= p <= 1:
        raise _C.InvalidError(f"dropout probability has to be between 0 and 1, but got {p}")
    return ops.dropout(input, p)[0] if training and p > 0 else input


def one_hot(tensor, num_classes=-1):
    n = int(tensor.max()) + 1 if num_classes < 0 else num_classes
    return (tensor.unsqueeze(-1) == td.arange(n)).long()


def pad(input, pad, mode="constant", value=0):
    if mode != "constant":
        raise _C.Unsupported(f"pad() knows mode='constant', not {mode!r}")
    return ops.constant_pad(input, tuple(pad), value or 0)


def normalize(input, p=2.0, dim=1, eps=1e-12):
    return input / td.norm(input, p, dim, True).clamp(min=eps)


# ---- activations


def relu(input, inplace=False):
    return input.relu_() if inplace else input.relu()


def relu6(input, inplace=False):
    return ops.hardtanh(input, 0.0, 6.0)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return ops.leaky_relu(input, negative_slope)


def elu(input, alpha=1.0, inplace=False):
    return ops.elu(input, alpha)


def gelu(input, approximate="none"):
    return ops.gelu(input, approximate == "tanh")


def silu(input, inplace=False):
    return ops.silu(input)


def mish(input, inplace=False):
    return ops.mish(input)


def softplus(input, beta=1.0, threshold=20.0):
    return ops.softplus(input, beta, threshold)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return ops.hardtanh(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    return ops.hardtanh(input + 3, 0.0, 6.0) / 6


def hardswish(input, inplace=False):
    return input * hardsigmoid(input)


def logsigmoid(input):
    return -ops.softplus(-input)


def glu(input, dim=-1):
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


sigmoid, tanh, softmax, log_softmax = td.sigmoid, td.tanh, td.softmax, td.log_softmax


# ---- losses


def mse_loss(input, target, reduction="mean"):
    return ops.mse_loss(input, target, _reduction(reduction))


def l1_loss(input, target, reduction="mean"):
    return ops.l1_loss(input, target, _reduction(reduction))


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    if label_smoothing:
        raise _C.Unsupported("cross_entropy() has no label_smoothing here")
    if target.is_floating_point():
        each = -(target * td.log_softmax(input, 1)).sum(1)
        return _reduce(each, reduction)
    return ops.cross_entropy(input, target, weight, _reduction(reduction), ignore_index)


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    return ops.nll_loss(input, target, weight, _reduction(reduction), ignore_index)[0]


def _reduce(each, reduction):
    return {0: lambda x: x, 1: lambda x: x.mean(), 2: lambda x: x.sum()}[_reduction(reduction)](each)


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    size = (input - target).abs()
    return _reduce(td.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta) if beta else size, reduction)


def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    each = -(target * input.log().clamp(min=-100) + (1 - target) * (1 - input).log().clamp(min=-100))
    return _reduce(each if weight is None else each * weight, reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    log_weight = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    each = (1 - target) * input + log_weight * ops.softplus(-input)
    return _reduce(each if weight is None else each * weight, reduction)


def kl_div(input, target, reduction="mean", log_target=False):
    if reduction == "batchmean":
        return kl_div(input, target, "sum", log_target) / input.shape[0]
    each = target.exp() * (target - input) if log_target else td.where(target > 0, target * (target.clamp(min=1e-38).log() - input), 0.0)
    return _reduce(each, reduction)
