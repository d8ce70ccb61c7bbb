"""Losses as functions; tensord.nn.functional shows them. What PyTorch's old size_average and reduce said, reduction says alone."""

import math
from typing import Any

import tensord as td
from tensord import _C
from tensord._C import Tensor, ops

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name):
    if name not in _REDUCTIONS:
        raise _C.InvalidError(f"reduction must be 'none', 'mean' or 'sum', not {name!r}")
    return _REDUCTIONS[name]


def mse_loss(input: Tensor, target: Tensor, *, reduction="mean") -> Tensor:
    """The squares of the differences.

    >>> F.mse_loss(td.tensor([1.0, 2.0]), td.tensor([1.0, 4.0]))
    tensor(2.)
    """
    return ops.mse_loss(input, target, _reduction(reduction))


def l1_loss(input: Tensor, target: Tensor, *, reduction="mean") -> Tensor:
    """The sizes of the differences.

    >>> F.l1_loss(td.tensor([1.0, 2.0]), td.tensor([1.0, 4.0]))
    tensor(1.)
    """
    return ops.l1_loss(input, target, _reduction(reduction))


def _smoothed(log, target, weight, ignore_index, reduction, share):
    """Classes of which a share is spread evenly over all."""
    nll = ops.nll_loss(log, target, weight, 0, ignore_index)[0]
    seen = (target != ignore_index).to(log.dtype)
    each = log if weight is None else log * weight.reshape((1, -1) + (1,) * (log.ndim - 2))
    out = (1 - share) * nll - each.sum(1) * seen * (share / log.shape[1])
    if reduction != "mean":
        return _reduce(out, reduction)
    picked = target.clamp(min=0)
    return out.sum() / (seen if weight is None else weight[picked] * seen).sum()


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0) -> Tensor:
    """Scores (N, C, ...) or (C) against classes (N, ...), or against probabilities of all classes.

    >>> F.cross_entropy(td.tensor([[2.0, 2.0]]), td.tensor([1]))
    tensor(0.6931)
    """
    if not 0 <= label_smoothing <= 1:
        raise _C.InvalidError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.ndim == 1:
        out = cross_entropy(input.unsqueeze(0), target.unsqueeze(0), weight, ignore_index=ignore_index, reduction=reduction,
                            label_smoothing=label_smoothing)
        return out.squeeze(0) if reduction == "none" else out
    if target.is_floating_point():
        if target.shape != input.shape:
            raise _C.ShapeError(f"cross_entropy(): probabilities of classes have the shape of the scores, {tuple(input.shape)}, not {tuple(target.shape)}; "
                                "classes are whole numbers")
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[1] if label_smoothing else target
        target = target if weight is None else target * weight.reshape((1, -1) + (1,) * (input.ndim - 2))
        return _reduce(-(target * td.log_softmax(input, 1)).sum(1), reduction)
    if label_smoothing:
        return _smoothed(td.log_softmax(input, 1), target, weight, ignore_index, reduction, label_smoothing)
    return ops.cross_entropy(input, target, weight, _reduction(reduction), ignore_index)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index=-100, reduction="mean") -> Tensor:
    """Minus the log probabilities (N, C, ...) of the classes (N, ...).

    >>> F.nll_loss(td.tensor([[-0.5, -1.0]]), td.tensor([1]))
    tensor(1.)
    """
    return ops.nll_loss(input, target, weight, _reduction(reduction), ignore_index)[0]


def _reduce(each, reduction):
    return {0: lambda x: x, 1: lambda x: x.mean(), 2: lambda x: x.sum()}[_reduction(reduction)](each)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction="mean", beta=1.0) -> Tensor:
    """Squares of small differences (below beta), sizes of large ones.

    >>> F.smooth_l1_loss(td.tensor([0.5, 3.0]), td.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    size = (input - target).abs()
    return _reduce(td.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta) if beta else size, reduction)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction="mean") -> Tensor:
    """Of probabilities against 0 and 1, or what is between.

    >>> F.binary_cross_entropy(td.tensor([0.5]), td.tensor([1.0]))
    tensor(0.6931)
    """
    if input.shape != target.shape:
        raise _C.ShapeError(f"binary_cross_entropy(): Using a target size {tuple(target.shape)} that is different to the input size {tuple(input.shape)}: "
                            "please ensure they have the same size")
    each = -(target * input.log().clamp(min=-100) + (1 - target) * (1 - input).log().clamp(min=-100))
    return _reduce(each if weight is None else each * weight, reduction)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction="mean", pos_weight: Tensor | None = None) -> Tensor:
    """binary_cross_entropy of sigmoid(input), computed so that it does not overflow.

    >>> F.binary_cross_entropy_with_logits(td.tensor([0.0]), td.tensor([1.0]))
    tensor(0.6931)
    """
    if input.shape != target.shape:
        raise _C.ShapeError(f"Target size {tuple(target.shape)} must be the same as input size {tuple(input.shape)}")
    log_weight = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    each = (1 - target) * input + log_weight * ops.softplus(-input)
    return _reduce(each if weight is None else each * weight, reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction="mean", log_target=False) -> Tensor:
    """How far target is from the log probabilities input; reduction may be 'batchmean' too.

    >>> F.kl_div(td.tensor([[0.5, 0.5]]).log(), td.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    if reduction == "batchmean":
        return kl_div(input, target, reduction="sum", log_target=log_target) / input.shape[0]
    each = target.exp() * (target - input) if log_target else td.where(target > 0, target * target.clamp(min=1e-38).log(), 0.0) - target * input
    return _reduce(each, reduction)


def huber_loss(input: Tensor, target: Tensor, *, reduction="mean", delta=1.0) -> Tensor:
    """Squares of small differences (below delta), delta times the sizes of large ones.

    >>> F.huber_loss(td.tensor([0.5, 3.0]), td.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    return smooth_l1_loss(input, target, reduction=reduction, beta=delta) * delta


def gaussian_nll_loss(input: Tensor, target: Tensor, var, full=False, eps=1e-6, *, reduction="mean") -> Tensor:
    """Of normal distributions with means input and variances var, at target.

    >>> F.gaussian_nll_loss(td.tensor([1.0]), td.tensor([3.0]), td.tensor([2.0]))
    tensor(1.3466)
    """
    var = var + (var.detach().clamp(min=eps) - var.detach())  # held above eps, with var's own gradient
    each = 0.5 * (var.log() + (input - target).square() / var)
    return _reduce(each + 0.5 * math.log(2 * math.pi) if full else each, reduction)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input=True, full=False, *, eps=1e-8, reduction="mean") -> Tensor:
    """Of Poisson distributions with rates (their logarithms, with log_input) input, at the counts target.

    >>> F.poisson_nll_loss(td.tensor([0.0]), td.tensor([2.0]))
    tensor(1.)
    """
    each = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:  # Stirling's approximation of the logarithm of target!
        several = td.maximum(target, td.tensor(1, dtype=target.dtype))
        each = each + td.where(target > 1, several * several.log() - several + 0.5 * (2 * math.pi * several).log(), 0.0)
    return _reduce(each, reduction)


def cosine_similarity(x1: Tensor, x2: Tensor, dim=1, eps=1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension.

    >>> F.cosine_similarity(td.tensor([[1.0, 0.0]]), td.tensor([[3.0, 4.0]]))
    tensor([0.6000])
    """
    x1, x2 = td.broadcast_tensors(x1, x2)
    # over their norms first: products of halves are soon out of their range
    return ((x1 / td.norm(x1, 2.0, dim, True).clamp(min=eps)) * (x2 / td.norm(x2, 2.0, dim, True).clamp(min=eps))).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p=2.0, eps=1e-6, keepdim=False) -> Tensor:
    """The p-norm of the differences of vectors.

    >>> F.pairwise_distance(td.tensor([0.0, 0.0]), td.tensor([3.0, 4.0]), eps=0)
    tensor(5.)
    """
    return td.norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin=0.0, *, reduction="mean") -> Tensor:
    """1 - cosine where target is 1, the cosine above margin where it is -1.

    >>> F.cosine_embedding_loss(td.tensor([[1.0, 0.0]]), td.tensor([[3.0, 4.0]]), td.tensor([1]))
    tensor(0.4000)
    """
    input1, input2 = (x if x.is_floating_point() else x.float() for x in (input1, input2))
    alike = cosine_similarity(input1, input2, -1)
    return _reduce(td.where(target > 0, 1 - alike, (alike - margin).clamp(min=0)), reduction)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin=0.0, *, reduction="mean") -> Tensor:
    """How far input1 is from being above (target 1) or below (-1) input2 by the margin.

    >>> F.margin_ranking_loss(td.tensor([1.0]), td.tensor([3.0]), td.tensor([1.0]))
    tensor(2.)
    """
    return _reduce((margin - target * (input1 - input2)).clamp(min=0), reduction)


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin=1.0, p=2, eps=1e-6, *, reduction="mean") -> Tensor:
    """How much nearer than the positive the negative is to the anchor, plus the margin.

    >>> F.triplet_margin_loss(td.zeros(1, 2), td.tensor([[3.0, 4.0]]), td.tensor([[6.0, 8.0]]))
    tensor(0.)
    """
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    return _reduce((near - far + margin).clamp(min=0), reduction)
