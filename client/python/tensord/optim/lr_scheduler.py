"""Schedules of learning rates: step() after each epoch (or batch) sets the "lr" of every group of an optimizer. Those that need others, or a number, are here."""

import bisect
import math

from tensord import _C
from tensord.optim._cycles import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts, CyclicLR as CyclicLR, OneCycleLR as OneCycleLR
from tensord.optim._schedule import (ConstantLR as ConstantLR, CosineAnnealingLR as CosineAnnealingLR, ExponentialLR as ExponentialLR, LambdaLR as LambdaLR,
                                     LinearLR as LinearLR, LRScheduler as LRScheduler, MultiplicativeLR as MultiplicativeLR, MultiStepLR as MultiStepLR,
                                     PolynomialLR as PolynomialLR, StepLR as StepLR, _an_optimizer, _epoch_given, _LRScheduler as _LRScheduler, _rates)


class _Several(LRScheduler):
    """What has schedules of its own, for one optimizer."""

    def _take(self, schedulers, optimizer):
        name, self._schedulers = type(self).__name__, list(schedulers)
        if not self._schedulers:
            raise _C.InvalidError(f"{name} expects at least one scheduler, but got no scheduler.")
        for k, s in enumerate(self._schedulers):
            if not hasattr(s, "optimizer"):
                raise _C.DTypeError(f"{name} at index {k} should have `optimizer` as its attribute.")
            if isinstance(s, ReduceLROnPlateau):
                raise _C.InvalidError(f"{name} does not support `ReduceLROnPlateau` scheduler as it requires a number when calling `step`, but got one at index {k}.")
            if s.optimizer is not (optimizer or self._schedulers[0].optimizer):
                raise _C.InvalidError(f"{name} expects all schedulers to belong to the same optimizer, but the one at index {k} has another.")
        self.optimizer = self._schedulers[0].optimizer

    def state_dict(self):
        return {**{k: v for k, v in super().state_dict().items() if k != "_schedulers"}, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        for s, state in zip(self._schedulers, state_dict["_schedulers"]):
            s.load_state_dict(state)
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})


class SequentialLR(_Several):
    """One schedule after the other, each from its milestone on."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._take(schedulers, optimizer)
        if len(milestones) != len(self._schedulers) - 1:
            raise _C.InvalidError(f"Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, but got "
                                  f"number of schedulers {len(self._schedulers)} and the number of milestones to be equal to {len(milestones)}")
        self._milestones, self.last_epoch = list(milestones), last_epoch + 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._take_back(self)
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def _take_back(self, of):
        """The first step of each, which it made when it was made."""
        for s in getattr(of, "_schedulers", ()):
            if hasattr(s, "_schedulers"):
                self._take_back(s)
            else:
                s.last_epoch -= 1

    def step(self):  # type: ignore[override]
        self.last_epoch += 1
        now = bisect.bisect_right(self._milestones, self.last_epoch)
        s = self._schedulers[now]
        if now and self._milestones[now - 1] == self.last_epoch:
            s._update_lr(0)
        else:
            s.step()
        self._last_lr = s.get_last_lr()


class ChainedScheduler(_Several):
    """Several schedules of one optimizer, each of which changes the rate that the one before has left."""

    def __init__(self, schedulers, optimizer=None):
        self._take(schedulers, optimizer)
        self._last_lr = _rates(self.optimizer)

    def step(self):  # type: ignore[override]
        for s in self._schedulers:
            s.step()
        self._last_lr = _rates(self.optimizer)


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a number, given to step(), has not become better for `patience` steps."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1:
            raise _C.InvalidError("Factor should be < 1.0.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise _C.InvalidError(f"mode is 'min' or 'max' and threshold_mode 'rel' or 'abs', not {mode!r} and {threshold_mode!r}")
        self.optimizer, self.mode, self.factor, self.patience, self.threshold = _an_optimizer(optimizer), mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.eps, self.last_epoch = threshold_mode, cooldown, eps, 0
        each = isinstance(min_lr, (list, tuple))
        if each and len(min_lr) != len(optimizer.param_groups):
            raise _C.InvalidError(f"there are {len(min_lr)} min_lrs, and {len(optimizer.param_groups)} groups")
        self.default_min_lr, self.min_lrs = None if each else min_lr, list(min_lr) if each else [min_lr] * len(optimizer.param_groups)
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()
        self._last_lr = _rates(optimizer)

    def _reset(self):
        """Forget what was seen."""
        self.best, self.num_bad_epochs, self.cooldown_counter = self.mode_worse, 0, 0

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def _least(self):
        """The lowest rate of each group, of those too that the optimizer was given since."""
        if len(self.min_lrs) != len(self.optimizer.param_groups):
            if self.default_min_lr is None:
                raise _C.Error(f"The number of param groups in the `optimizer` ({len(self.optimizer.param_groups)}) differs from when `ReduceLROnPlateau` was "
                               f"initialized ({len(self.min_lrs)}): modify the `min_lrs` field to match it.")
            self.min_lrs = [self.default_min_lr] * len(self.optimizer.param_groups)
        return self.min_lrs

    def _better(self, value):
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold

    def step(self, metrics, epoch=None):  # type: ignore[override]
        value = float(metrics)
        if epoch is not None:
            _epoch_given()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.num_bad_epochs = 0 if self._better(value) else self.num_bad_epochs + 1
        if not self.num_bad_epochs:
            self.best = value
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            now = _rates(self.optimizer)
            less = [max(lr * self.factor, low) for lr, low in zip(now, self._least())]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            self._set([b if a - b > self.eps else a for a, b in zip(now, less)])
        else:
            self._last_lr = _rates(self.optimizer)
