"""Losses as modules. size_average and reduce say reduction as older programs do."""

import warnings
from typing import Any

import tensord as td
from tensord import _C
from tensord.nn import functional as F
from tensord.nn.module import Module

__all__ = ["MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss",
           "GaussianNLLLoss", "PoissonNLLLoss", "CosineEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss",
           "TripletMarginWithDistanceLoss", "HingeEmbeddingLoss", "SoftMarginLoss", "MultiMarginLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
           "CTCLoss", "NLLLoss2d"]


def reduction_of(size_average: "bool | None", reduce: "bool | None", reduction: str, stacklevel: int = 3) -> str:
    """What the two say in one word, with a warning; `reduction`, when neither is given."""
    if size_average is None and reduce is None:
        return reduction
    said = "none" if reduce is not None and not reduce else "mean" if size_average is None or size_average else "sum"
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{said}' instead.", UserWarning, stacklevel)
    return said


class _Loss(Module):
    """The base: self.reduction, "none", "mean" or "sum"."""

    _function: Any = None

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction="mean", **options):
        super().__init__()
        reduction = reduction_of(size_average, reduce, reduction, 4)
        if reduction not in ("none", "mean", "sum", "batchmean"):
            raise _C.InvalidError(f"reduction must be 'none', 'mean' or 'sum', not {reduction!r}")
        self.reduction = reduction
        self._names = list(options)
        for k, v in options.items():
            self.register_buffer(k, v) if td.is_tensor(v) else setattr(self, k, v)

    def forward(self, input, target):
        return self._of(input, target)

    def _of(self, *tensors):
        return type(self)._function(*tensors, reduction=self.reduction, **{k: getattr(self, k) for k in self._names})


class _WeightedLoss(_Loss):
    """The base of those that weigh classes: self.weight, a buffer, or None."""

    def __init__(self, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction="mean", **options):
        super().__init__(reduction=reduction_of(size_average, reduce, reduction, 4), weight=weight, **options)


class MSELoss(_Loss):
    """The mean of the squared differences."""

    _function = staticmethod(F.mse_loss)

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)


class L1Loss(_Loss):
    """The mean of the differences' sizes."""

    _function = staticmethod(F.l1_loss)

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)


class SmoothL1Loss(_Loss):
    """Squares near 0, sizes further away."""

    _function = staticmethod(F.smooth_l1_loss)

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction, beta=beta)


class CrossEntropyLoss(_WeightedLoss):
    """Scores (N, C, ...) against classes."""

    _function = staticmethod(F.cross_entropy)

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)


class NLLLoss(_WeightedLoss):
    """Log-probabilities (N, C) against classes."""

    _function = staticmethod(F.nll_loss)

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction, ignore_index=ignore_index)


class BCELoss(_WeightedLoss):
    """Probabilities against 0 and 1."""

    _function = staticmethod(F.binary_cross_entropy)

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)


class BCEWithLogitsLoss(_Loss):
    """Scores against 0 and 1."""

    _function = staticmethod(F.binary_cross_entropy_with_logits)

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
        super().__init__(size_average, reduce, reduction, weight=weight, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """How far a distribution is from another."""

    _function = staticmethod(F.kl_div)

    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction, log_target=log_target)


class HuberLoss(_Loss):
    """Squares near 0, sizes times delta further away."""

    _function = staticmethod(F.huber_loss)

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction, delta=delta)


class GaussianNLLLoss(_Loss):
    """Means (input) and variances of normal distributions against what was seen: loss(input, target, var)."""

    _function = staticmethod(F.gaussian_nll_loss)

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(reduction=reduction, full=full, eps=eps)

    def forward(self, input, target, var):
        return self._of(input, target, var)


class PoissonNLLLoss(_Loss):
    """Rates (their logarithms, with log_input) of Poisson distributions against counts."""

    _function = staticmethod(F.poisson_nll_loss)

    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction, log_input=log_input, full=full, eps=eps)


class CosineEmbeddingLoss(_Loss):
    """Two vectors that should (target 1) or should not (-1) point the same way."""

    _function = staticmethod(F.cosine_embedding_loss)

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction, margin=margin)

    def forward(self, input1, input2, target):
        return self._of(input1, input2, target)


class MarginRankingLoss(_Loss):
    """Two numbers of which the first (target 1) or the second (-1) should be larger."""

    _function = staticmethod(F.margin_ranking_loss)

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction, margin=margin)

    def forward(self, input1, input2, target):
        return self._of(input1, input2, target)


class TripletMarginLoss(_Loss):
    """An anchor should be nearer to the positive than to the negative, by a margin."""

    _function = staticmethod(F.triplet_margin_loss)

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor, positive, negative):
        return self._of(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """An anchor should be nearer to the positive than to the negative, by a margin and a distance of one's own."""

    _function = staticmethod(F.triplet_margin_with_distance_loss)

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(reduction=reduction, distance_function=distance_function, margin=margin, swap=swap)

    def forward(self, anchor, positive, negative):
        return self._of(anchor, positive, negative)


class HingeEmbeddingLoss(_Loss):
    """Distances that should be small (target 1) or above a margin (-1)."""

    _function = staticmethod(F.hinge_embedding_loss)

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction, margin=margin)


class SoftMarginLoss(_Loss):
    """Scores against 1 and -1."""

    _function = staticmethod(F.soft_margin_loss)

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)


class MultiMarginLoss(_WeightedLoss):
    """The score of a class should be above all others by a margin."""

    _function = staticmethod(F.multi_margin_loss)

    def __init__(self, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction, p=p, margin=margin)


class MultiLabelMarginLoss(_Loss):
    """The scores of several classes should be above all others by 1."""

    _function = staticmethod(F.multilabel_margin_loss)

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Scores of several classes against 0 and 1."""

    _function = staticmethod(F.multilabel_soft_margin_loss)

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)


class CTCLoss(_Loss):
    """Log probabilities (T, N, C) against what was said, whenever it was: loss(log_probs, targets, input_lengths, target_lengths)."""

    _function = staticmethod(F.ctc_loss)

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return self._of(log_probs, targets, input_lengths, target_lengths)


class NLLLoss2d(NLLLoss):
    """NLLLoss of pictures, under its old name."""
