"""Schedules of learning rates: step() after each epoch (or batch) sets the "lr" of every group of an optimizer.

As in PyTorch, most multiply the rate that is there, so several schedules of one optimizer work together; LambdaLR, OneCycleLR and
CosineAnnealingWarmRestarts set it from the one the optimizer began with, which it keeps as "initial_lr".
"""

import bisect
import math
import numbers

from tensord import _C


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


class LRScheduler:
    """The base: write factor(k), the share of the first rate at step k, or get_lr(), the rates themselves."""

    _floor = 0.0  # what shares are taken of lies above this rate
    _begins = False  # the first step takes its share of the rate that is there, which may be another schedule's

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise _C.InvalidError("param 'initial_lr' is not specified in the groups of the optimizer when resuming a schedule")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch, self._begins = last_epoch, True
        self.step()
        del self._begins

    def factor(self, k):
        raise NotImplementedError(f"{type(self).__name__} has no factor(k)")

    def get_lr(self):
        k, low = self.last_epoch, self._floor
        if k == 0 and self._begins:
            return [low + (group["lr"] - low) * self.factor(0) for group in self.optimizer.param_groups]
        before = self.factor(k - 1) if k > 0 else 0.0
        if abs(before) < 1e-12:
            return [low + (base - low) * self.factor(k) for base in self.base_lrs]
        return [low + (group["lr"] - low) * (self.factor(k) / before) for group in self.optimizer.param_groups]

    def step(self):
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr
        self._last_lr = list(rates)

    def get_last_lr(self):
        """The rates that were set last, one a group."""
        return self._last_lr

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times lr_lambda(k): one function, or one a group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        given = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * len(optimizer.param_groups)
        if len(given) != len(optimizer.param_groups):
            raise _C.InvalidError(f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(given)}")
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]

    def state_dict(self):
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class MultiplicativeLR(LambdaLR):
    """The rate that is there times lr_lambda(k): one function, or one a group."""

    def get_lr(self):
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return rates if self.last_epoch == 0 else [lr * f(self.last_epoch) for lr, f in zip(rates, self.lr_lambdas)]


class StepLR(LRScheduler):
    """Times gamma every step_size steps."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = _above_0("StepLR", step_size=step_size), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return self.gamma ** (k // self.step_size)


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return self.gamma ** bisect.bisect_right(self.milestones, k)


class ExponentialLR(LRScheduler):
    """Times gamma at each step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return self.gamma**k


class ConstantLR(LRScheduler):
    """A share of the rate for the first steps."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        self.share, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return self.share if k < self.total_iters else 1.0


class LinearLR(LRScheduler):
    """From one share of the rate to another in a straight line."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise _C.InvalidError(f"LinearLR: start_factor must be above 0 and at most 1, end_factor from 0 to 1, not {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, _above_0("LinearLR", total_iters=total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return self.start_factor + (self.end_factor - self.start_factor) * min(k, self.total_iters) / self.total_iters


class PolynomialLR(LRScheduler):
    """Down to 0 along a power of what is left."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = _above_0("PolynomialLR", total_iters=total_iters), power
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return (1 - min(k, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Down to eta_min along half a cosine in T_max steps, and up again in as many."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min, self._floor = _above_0("CosineAnnealingLR", T_max=T_max), eta_min, eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, k):
        return (1 + math.cos(math.pi * k / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min along half a cosine in T_0 steps, then again from the top in T_mult times as many."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        self.T_0, self.T_mult = _whole("CosineAnnealingWarmRestarts", T_0=T_0), _whole("CosineAnnealingWarmRestarts", T_mult=T_mult)
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        at, length = self.last_epoch, self.T_0
        while at >= length:
            at, length = at - length, length * self.T_mult
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2 for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to the first rate / final_div_factor, with three_phase by way of the first rate; momentum or beta1
    the other way round."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy="cos",
                 cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=1e4,
                 three_phase=False, last_epoch=-1):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise _C.InvalidError("You must define either total_steps OR both epochs and steps_per_epoch")
        if anneal_strategy not in ("cos", "linear"):
            raise _C.InvalidError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        if not 0 <= pct_start <= 1:
            raise _C.InvalidError(f"OneCycleLR: pct_start must be from 0 to 1, not {pct_start}")
        if total_steps is None:
            total_steps = _whole("OneCycleLR", epochs=epochs) * _whole("OneCycleLR", steps_per_epoch=steps_per_epoch)
        self.total_steps, self.three_phase = _whole("OneCycleLR", total_steps=total_steps), three_phase
        self.pct_start, self.anneal_strategy, self.cycle_momentum = pct_start, anneal_strategy, cycle_momentum
        self.base_momentum, self.max_momentum, self.final_div_factor = base_momentum, max_momentum, final_div_factor
        groups = optimizer.param_groups
        self.max_lrs = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * len(groups)
        if last_epoch == -1:
            for group, top in zip(groups, self.max_lrs):
                group["initial_lr"] = group["lr"] = top / div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, share):
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def _at(self, low, high, end):
        """From low to high in the first part, from high to end in the last, by way of low where there are three."""
        k, part = self.last_epoch, self.pct_start * self.total_steps
        if k > self.total_steps:
            raise _C.InvalidError(f"Tried to step {k} times. The specified number of total steps is {self.total_steps}")
        values, ends = ([low, high, low, end], [part - 1, 2 * part - 2]) if self.three_phase else ([low, high, end], [part - 1])
        at = next((i for i, last in enumerate(ends) if k <= last), len(ends))
        begun, last = [0.0, *ends, self.total_steps - 1][at : at + 2]
        return self._between(values[at], values[at + 1], (k - begun) / (last - begun) if last != begun else 1.0)  # a part of no steps is over

    def get_lr(self):
        if self.cycle_momentum:
            momentum = self._at(self.max_momentum, self.base_momentum, self.max_momentum)
            for group in self.optimizer.param_groups:
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [self._at(base, top, base / self.final_div_factor) for base, top in zip(self.base_lrs, self.max_lrs)]


class SequentialLR(LRScheduler):
    """One schedule after the other, each from its milestone on."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            raise _C.InvalidError(f"Sequential Schedulers expects number of schedulers - 1 milestones, but got {len(schedulers)} and {len(milestones)}")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        now = bisect.bisect_right(self.milestones, self.last_epoch)
        begun = self.milestones[now - 1] if now else 0
        self.schedulers[now].last_epoch = self.last_epoch - begun
        return self.schedulers[now].get_lr()

    def state_dict(self):
        return {**{k: v for k, v in super().state_dict().items() if k != "schedulers"}, "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state_dict):
        for s, state in zip(self.schedulers, state_dict["schedulers"]):
            s.load_state_dict(state)
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "schedulers"})


class ChainedScheduler(LRScheduler):
    """Several schedules of one optimizer, each of which changes the rate that the one before has left."""

    def __init__(self, schedulers, optimizer=None):
        self.schedulers = list(schedulers)
        if not self.schedulers:
            raise _C.InvalidError("ChainedScheduler expects at least one scheduler")
        self.optimizer = optimizer or self.schedulers[0].optimizer
        if any(s.optimizer is not self.optimizer for s in self.schedulers):
            raise _C.InvalidError("ChainedScheduler expects all schedulers to belong to the same optimizer")
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def step(self):
        for s in self.schedulers:
            s.step()
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    state_dict = SequentialLR.state_dict
    load_state_dict = SequentialLR.load_state_dict


class CyclicLR(LRScheduler):
    """Up and down between two rates (Smith 2017), with the momentum going the other way."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle",
                 cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1):
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise _C.InvalidError("mode is invalid and scale_fn is None")
        groups = optimizer.param_groups

        def each(value):
            return list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)

        if cycle_momentum and not all("momentum" in g or "betas" in g for g in groups):
            raise _C.InvalidError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.max_lrs, self.up, self.total = each(max_lr), step_size_up, float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.mode, self.gamma, self.scale_mode, self.cycle_momentum = mode, gamma, scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle", cycle_momentum
        self.scale_fn, self.base_momentums, self.max_momentums = scale_fn, each(base_momentum), each(max_momentum)
        for group, lr in zip(groups, each(base_lr)):
            if last_epoch == -1:
                group["lr"] = group["initial_lr"] = lr
        super().__init__(optimizer, last_epoch)

    def _share(self, x):
        if self.scale_fn:
            return self.scale_fn(x)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total)
        x, turn = 1.0 + self.last_epoch / self.total - cycle, self.up / self.total
        share = (x / turn if x <= turn else (x - 1) / (turn - 1)) * self._share(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                momentum = high - (high - low) * share
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [base + (top - base) * share for base, top in zip(self.base_lrs, self.max_lrs)]


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a number, given to step(), has not become better for `patience` steps."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1:
            raise _C.InvalidError("Factor should be < 1.0.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise _C.InvalidError(f"mode is 'min' or 'max' and threshold_mode 'rel' or 'abs', not {mode!r} and {threshold_mode!r}")
        self.optimizer, self.mode, self.share, self.patience, self.threshold = optimizer, mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.eps, self.last_epoch = threshold_mode, cooldown, eps, 0
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * len(optimizer.param_groups)
        self.best, self.num_bad_epochs, self.cooldown_counter = math.inf if mode == "min" else -math.inf, 0, 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def _better(self, value):
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold

    def step(self, metrics):  # type: ignore[override]
        self.last_epoch += 1
        value = float(metrics)
        self.num_bad_epochs = 0 if self._better(value) else self.num_bad_epochs + 1
        if not self.num_bad_epochs:
            self.best = value
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            now = [group["lr"] for group in self.optimizer.param_groups]
            less = [max(lr * self.share, low) for lr, low in zip(now, self.min_lrs)]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            self._set([b if a - b > self.eps else a for a, b in zip(now, less)])
        else:
            self._last_lr = [group["lr"] for group in self.optimizer.param_groups]
