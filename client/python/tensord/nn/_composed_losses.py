"""Losses that are more than one op's arguments, and numbers drawn with a gradient."""

from typing import Any

import tensord as td
from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["ctc_loss", "triplet_margin_with_distance_loss", "linear_cross_entropy", "gumbel_softmax", "rrelu", "rrelu_", "alpha_dropout", "feature_alpha_dropout"]


def _reduction(reduction):
    try:
        return ("none", "mean", "sum").index(reduction)
    except ValueError:
        raise _C.InvalidError(f"{reduction} is not a valid value for reduction") from None


def ctc_loss(log_probs: Tensor, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False) -> Tensor:
    """Log probabilities (T, N, C) against targets (N, S), or all targets after one another: how unlikely it is to say them, with blanks between.

    >>> F.ctc_loss(td.tensor([[[-0.5, -1.0]], [[-1.0, -0.5]]]), td.tensor([[1]]), [2], [1])
    tensor(0.3197)
    """
    def lengths(v):
        return v if td.is_tensor(v) else td.tensor(v, dtype=td.int64)

    return ops.ctc_loss(log_probs, targets, lengths(input_lengths), lengths(target_lengths), blank, _reduction(reduction), zero_infinity)


def triplet_margin_with_distance_loss(anchor: Tensor, positive, negative, *, distance_function: Any = None, margin=1.0, swap=False, reduction="mean") -> Tensor:
    """triplet_margin_loss with a distance of one's own.

    >>> F.triplet_margin_with_distance_loss(td.zeros(1, 2), td.tensor([[3.0, 4.0]]), td.tensor([[6.0, 8.0]]), distance_function=lambda a, b: (a - b).norm(dim=-1))
    tensor(0.)
    """
    distance = ops.pairwise_distance if distance_function is None else distance_function
    how = _reduction(reduction)
    if margin <= 0:
        raise _C.InvalidError(f"triplet_margin_with_distance_loss(): margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise _C.ShapeError("triplet_margin_with_distance_loss(): The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
                            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs")
    far = distance(anchor, negative)
    if swap:
        far = td.minimum(far, distance(positive, negative))
    loss = td.clamp(distance(anchor, positive) - far + margin, min=0)
    return loss if how == 0 else loss.mean() if how == 1 else loss.sum()


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None,
                         reduction="mean", ignore_index: int | None = None, label_smoothing=0.0, options: Any = None) -> Tensor:
    """The cross entropy of linear(input, linear_weight, linear_bias), where weight (C, d1, ..., in) makes scores for each of C classes at d1 ... places. PyTorch's `options` say
    how much memory it may take, and change nothing here.

    >>> F.linear_cross_entropy(td.zeros(2, 3), td.ones(4, 3), td.tensor([0, 3]))
    tensor(1.3863)
    """
    name = "linear_cross_entropy"
    if input.ndim not in (1, 2) or linear_weight.ndim < 2:
        raise _C.ShapeError(f"{name}(): expected input with dimensionality 1 or 2, and linear_weight with at least 2, got {input.ndim} and {linear_weight.ndim}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise _C.ShapeError(f"{name}(): expected equal input and linear_weight last dimensions (in_features), got {input.shape[-1]} and {linear_weight.shape[-1]}, respectively")
    scores = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != scores:
        raise _C.ShapeError(f"{name}(): expected linear_bias shape {scores}, got {tuple(linear_bias.shape)}")
    if len(scores) > 1 and input.ndim == 1:
        raise _C.ShapeError(f"{name}(): a linear_weight of shape {tuple(linear_weight.shape)} requires batched input, (N, {input.shape[-1]}), got {tuple(input.shape)}")
    shape = (*input.shape[:-1], *scores)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise _C.InvalidError(f"{name}(): ignore_index cannot be specified when target contains probabilities")
    logits = ops.linear(input, linear_weight.reshape(-1, input.shape[-1]), None if linear_bias is None else linear_bias.reshape(-1)).reshape(shape)
    return td.nn.functional.cross_entropy(logits, target, weight=weight, ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
                                          label_smoothing=label_smoothing)


def gumbel_softmax(logits: Tensor, tau=1.0, hard=False, eps=1e-10, dim=-1) -> Tensor:
    """A draw from the classes of logits as shares of one, or (hard) one of them, with the gradient of the shares.

    >>> F.gumbel_softmax(td.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    draws = -td.empty(logits.shape, dtype=logits.dtype, device=logits.device).exponential_().log()
    soft = td.softmax((logits + draws) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    return td.zeros_like(soft).scatter(dim, index, 1.0) - soft.detach() + soft


def _written(input, inplace, out):
    return _overloads._store(input, out, "inplace") if inplace else out


def rrelu(input: Tensor, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False) -> Tensor:
    """x, or a part of it below 0: in training one that is drawn for each element between lower and upper, else the middle.

    >>> F.rrelu(td.tensor([-2.0, 2.0]), 0.25, 0.75)
    tensor([-1.,  2.])
    """
    if lower > upper:
        raise _C.InvalidError("Lower bound should be less than or equal to the upper bound")
    x = input.clone() if inplace and td.is_grad_enabled() and input.requires_grad else input
    if not training:
        return _written(input, inplace, ops.leaky_relu(x, (lower + upper) / 2))
    slope = td.rand(x.shape, dtype=x.dtype, device=x.device) * (upper - lower) + lower
    return _written(input, inplace, td.where(x <= 0, x * slope, x))


def rrelu_(input: Tensor, lower=1.0 / 8, upper=1.0 / 3, training=False) -> Tensor:
    """rrelu() in the memory of its argument.

    >>> F.rrelu_(td.tensor([-2.0, 2.0]), 0.25, 0.75)
    tensor([-1.,  2.])
    """
    return rrelu(input, lower, upper, training, True)


def _alpha_dropout(input, p, training, inplace, shape):
    if not 0 <= p <= 1:
        raise _C.InvalidError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return _written(input, inplace, input * 0.0)
    alpha = 1.7580993408473766
    scale = 1 / ((alpha * alpha * p + 1) * (1 - p)) ** 0.5
    kept = td.bernoulli(td.full(shape, 1 - p, dtype=input.dtype, device=input.device))
    return _written(input, inplace, input * (kept * scale) + (kept - 1) * (alpha * scale) + alpha * scale * p)


def alpha_dropout(input: Tensor, p=0.5, training=False, inplace=False) -> Tensor:
    """Dropout that keeps mean and variance of what selu made.

    >>> F.alpha_dropout(td.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    return _alpha_dropout(input, p, training, inplace, input.shape)


def feature_alpha_dropout(input: Tensor, p=0.5, training=False, inplace=False) -> Tensor:
    """alpha_dropout of whole channels of (N, C, ...).

    >>> F.feature_alpha_dropout(td.ones(1, 2, 3), 0.5, training=False).shape
    (1, 2, 3)
    """
    return _alpha_dropout(input, p, training, inplace, input.shape[:2] + (1,) * (input.ndim - 2))
