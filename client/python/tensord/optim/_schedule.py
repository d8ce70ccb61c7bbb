"""What schedules of learning rates are made of, and those that need no more than a share of the first rate at each step.

A schedule sets the "lr" of every group of its optimizer. As in PyTorch, most multiply the rate that is there, so several schedules of one optimizer work
together; what sets it from the rate that the optimizer began with (kept as "initial_lr") says so. Attributes, and so state dicts, have PyTorch's names.
"""

import bisect
import collections
import contextlib
import math
import numbers
import types
import warnings

from tensord import _C
from tensord.optim._optimizers import Optimizer, _HookedStep


def _above_0(of, **given):
    """The one named number."""
    ((name, value),) = given.items()
    if not value > 0:
        raise _C.InvalidError(f"{of}: {name} must be above 0, not {value}")
    return value


def _whole(of, **given):
    ((name, value),) = given.items()
    if not isinstance(value, numbers.Integral):
        raise _C.InvalidError(f"{of}: {name} must be a whole number, not {value!r}")
    return _above_0(of, **given)


def _for_each_group(optimizer, name, value):
    if not isinstance(value, (list, tuple)):
        return [value] * len(optimizer.param_groups)
    if len(value) != len(optimizer.param_groups):
        raise _C.InvalidError(f"{name} must have the same length as optimizer.param_groups: it has {len(value)} values, and there are "
                              f"{len(optimizer.param_groups)} groups")
    return list(value)


def _rates(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


def _an_optimizer(x):
    if not isinstance(x, Optimizer):
        raise _C.DTypeError(f"a schedule needs an Optimizer, not {_C._a_type(x)}")
    return x


def _epoch_given():
    warnings.warn("the epoch parameter of step() is deprecated: call step() once for each epoch. A schedule that has a closed form goes by it meanwhile", UserWarning,
                  stacklevel=3)


class LRScheduler:
    """The base: write get_lr(), the rates at step last_epoch; and _get_closed_form_lr(), the same from the first rates, if step(epoch) shall go anywhere."""

    _get_lr_called_within_step = False
    _is_initial = False  # the first step takes its share of the rate that is there, which may be another schedule's

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer = _an_optimizer(optimizer)
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise _NotResumed("param 'initial_lr' is not specified in the groups of the optimizer when resuming a schedule")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        optimizer._watched_step()
        self._initial_step()

    def _initial_step(self):
        self._step_count, self._is_initial = 0, True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self):
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def _inside(self):
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() says what step() is about to set; get_last_lr() is the rate there is", UserWarning, stacklevel=3)

    def step(self, epoch=None):
        if self._step_count == 1:
            self._in_order()
        self._step_count += 1
        if epoch is not None:
            _epoch_given()
        self._update_lr(epoch)

    def _in_order(self):
        own = self.optimizer.__dict__.get("step")
        if own is not None and not isinstance(own, _HookedStep):
            warnings.warn("optimizer.step() was overridden after the schedule was made, so the order of both step() calls is not known: call the optimizer's first",
                          UserWarning, stacklevel=3)
        elif not self.optimizer._opt_called:
            warnings.warn("the schedule's step() was called before `optimizer.step()`, and the first rate was never used: call the optimizer's first", UserWarning,
                          stacklevel=3)

    @contextlib.contextmanager
    def _asking(self):
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _update_lr(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", None) if epoch is not None else None
        with self._asking():
            self._set(closed() if closed else self.get_lr())

    def _set(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr
        self._last_lr = _rates(self.optimizer)

    def get_last_lr(self):
        """The rates that were set last, one a group."""
        return self._last_lr

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


class _NotResumed(_C.InvalidError, KeyError):
    """PyTorch raises a KeyError there."""

    __str__ = Exception.__str__


_LRScheduler = LRScheduler  # its name before PyTorch 2


class _Factors(LRScheduler):
    """Schedules with a function, or one a group. Of these a state dict has what objects hold, and of functions nothing."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        given = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * len(optimizer.param_groups)
        if len(given) != len(optimizer.param_groups):
            raise _C.InvalidError(f"there are {len(given)} lr_lambdas, and {len(optimizer.param_groups)} groups")
        for f in given:
            if not callable(f):
                raise _C.DTypeError(f"lr_lambda should be a function, but got {type(f).__name__}")
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        return {**super().state_dict(), "lr_lambdas": [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict):
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for f, held in zip(self.lr_lambdas, state_dict.get("lr_lambdas", ())):
            if held is not None:
                f.__dict__.update(held)


class LambdaLR(_Factors):
    """The first rate times lr_lambda(k): one function, or one a group. Of these a state dict has what objects hold, and of functions nothing."""

    def get_lr(self):
        self._inside()
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(_Factors):
    """The rate that is there times lr_lambda(k): one function, or one a group."""

    def get_lr(self):
        self._inside()
        rates = _rates(self.optimizer)
        return rates if self._is_initial else [lr * f(self.last_epoch) for lr, f in zip(rates, self.lr_lambdas)]


class _Shares(LRScheduler):
    """Schedules that write _share(k), the share of the first rate at step k."""

    _floor = 0.0  # what shares are taken of lies above this rate
    _stays = True  # a schedule that goes on later leaves the rate that it finds there

    def _share(self, k):
        raise NotImplementedError

    def get_lr(self):
        self._inside()
        k, low = self.last_epoch, self._floor
        if self._is_initial and k > 0 and self._stays:
            return _rates(self.optimizer)
        if k == 0 and self._is_initial:
            return [low + (lr - low) * self._share(0) for lr in _rates(self.optimizer)]
        before = self._share(k - 1) if k > 0 else 0.0
        if abs(before) < 1e-12:
            return self._get_closed_form_lr()
        return [low + (lr - low) * (self._share(k) / before) for lr in _rates(self.optimizer)]

    def _get_closed_form_lr(self):
        low = self._floor
        return [low + (base - low) * self._share(self.last_epoch) for base in self.base_lrs]


class StepLR(_Shares):
    """Times gamma every step_size steps."""

    _stays = False

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = _above_0("StepLR", step_size=step_size), gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        return self.gamma ** (k // self.step_size)


class MultiStepLR(_Shares):
    """Times gamma at each milestone."""

    _stays = False

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = collections.Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        return self.gamma ** bisect.bisect_right(sorted(self.milestones.elements()), k)


class ExponentialLR(_Shares):
    """Times gamma at each step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        return self.gamma**k


class ConstantLR(_Shares):
    """A share of the rate for the first steps."""

    _stays = False

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise _C.InvalidError(f"ConstantLR: factor must be from 0 to 1, not {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        return self.factor if k < self.total_iters else 1.0


class LinearLR(_Shares):
    """From one share of the rate to another in a straight line."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise _C.InvalidError(f"LinearLR: start_factor must be above 0 and at most 1, end_factor from 0 to 1, not {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, _above_0("LinearLR", total_iters=total_iters)
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        return self.start_factor + (self.end_factor - self.start_factor) * min(k, self.total_iters) / self.total_iters


class PolynomialLR(_Shares):
    """Down to 0 along a power of what is left."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = _above_0("PolynomialLR", total_iters=total_iters), power
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        return (1 - min(k, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(_Shares):
    """Down to eta_min along half a cosine in T_max steps, and up again in as many."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = _above_0("CosineAnnealingLR", T_max=T_max), eta_min
        super().__init__(optimizer, last_epoch)

    @property
    def _floor(self):
        return self.eta_min

    def _share(self, k):
        return (1 + math.cos(math.pi * k / self.T_max)) / 2
