"""Losses as modules."""

from typing import Any

from tensord.nn import functional as F
from tensord.nn.module import Module

__all__ = ["MSELoss", "L1Loss", "SmoothL1Loss", "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss"]


class _Loss(Module):
    _function: Any = None

    def __init__(self, reduction="mean", **options):
        super().__init__()
        F._reduction(reduction) if reduction != "batchmean" else None
        self.reduction = reduction
        self._options = options

    def forward(self, input, target):
        return type(self)._function(input, target, reduction=self.reduction, **self._options)


class MSELoss(_Loss):
    """The mean of the squared differences."""

    _function = staticmethod(F.mse_loss)

    def __init__(self, reduction="mean"):
        super().__init__(reduction)


class L1Loss(_Loss):
    """The mean of the differences' sizes."""

    _function = staticmethod(F.l1_loss)

    def __init__(self, reduction="mean"):
        super().__init__(reduction)


class SmoothL1Loss(_Loss):
    """Squares near 0, sizes further away."""

    _function = staticmethod(F.smooth_l1_loss)

    def __init__(self, reduction="mean", beta=1.0):
        super().__init__(reduction, beta=beta)


class CrossEntropyLoss(_Loss):
    """Scores (N, C, ...) against classes."""

    _function = staticmethod(F.cross_entropy)

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__(reduction, weight=weight, ignore_index=ignore_index, label_smoothing=label_smoothing)


class NLLLoss(_Loss):
    """Log-probabilities (N, C) against classes."""

    _function = staticmethod(F.nll_loss)

    def __init__(self, weight=None, ignore_index=-100, reduction="mean"):
        super().__init__(reduction, weight=weight, ignore_index=ignore_index)


class BCELoss(_Loss):
    """Probabilities against 0 and 1."""

    _function = staticmethod(F.binary_cross_entropy)

    def __init__(self, weight=None, reduction="mean"):
        super().__init__(reduction, weight=weight)


class BCEWithLogitsLoss(_Loss):
    """Scores against 0 and 1."""

    _function = staticmethod(F.binary_cross_entropy_with_logits)

    def __init__(self, weight=None, reduction="mean", pos_weight=None):
        super().__init__(reduction, weight=weight, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """How far a distribution is from another."""

    _function = staticmethod(F.kl_div)

    def __init__(self, reduction="mean", log_target=False):
        super().__init__(reduction, log_target=log_target)
