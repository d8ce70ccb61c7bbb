"""Schedules that go up and down: one cycle, many, and cosines that begin again. They set the rate, and some the momentum, from where they are."""

import math
import types

from tensord import _C
from tensord.optim._schedule import LRScheduler, _an_optimizer, _for_each_group, _whole


def _momentum(optimizer, cycled):
    """Groups that have one, under either of its names."""
    if cycled and not all("momentum" in g or "betas" in g for g in optimizer.param_groups):
        raise _C.InvalidError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")


def _set_momentum(group, momentum):
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min along half a cosine in T_0 steps, then again from the top in T_mult times as many."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        self.T_0, self.T_mult = _whole("CosineAnnealingWarmRestarts", T_0=T_0), _whole("CosineAnnealingWarmRestarts", T_mult=T_mult)
        self.eta_min, self.T_i, self.T_cur = eta_min, T_0, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._inside()
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2 for base in self.base_lrs]

    def step(self, epoch=None):
        """One step further, or to any epoch, a share of one with it."""
        if epoch is not None and epoch < 0:
            raise _C.InvalidError(f"an epoch is 0 or more, not {epoch}")
        at = self.last_epoch + 1 if epoch is None else epoch
        if epoch is None and self.last_epoch >= 0:
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            self.T_cur, self.T_i = at, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self.last_epoch = math.floor(at)
        with self._asking():
            self._set(self.get_lr())


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
        _momentum(_an_optimizer(optimizer), cycle_momentum)
        self.max_lrs = _for_each_group(optimizer, "max_lr", max_lr)
        bases, tops = (_for_each_group(optimizer, n, v) for n, v in (("base_momentum", base_momentum), ("max_momentum", max_momentum)))
        if last_epoch == -1:
            for group, top, low, high in zip(optimizer.param_groups, self.max_lrs, bases, tops):
                first = top / div_factor
                group.update(initial_lr=first, lr=first, max_lr=top, min_lr=first / final_div_factor)
                if cycle_momentum:
                    group.update(max_momentum=high, base_momentum=low)
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
        self._inside()
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                _set_momentum(group, self._at(group["max_momentum"], group["base_momentum"], group["max_momentum"]))
        return [self._at(group["initial_lr"], group["max_lr"], group["min_lr"]) for group in self.optimizer.param_groups]


class CyclicLR(LRScheduler):
    """Up and down between two rates (Smith 2017), with the momentum going the other way."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle",
                 cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1):
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise _C.InvalidError("mode is invalid and scale_fn is None")
        _momentum(_an_optimizer(optimizer), cycle_momentum)
        bases, self.max_lrs = _for_each_group(optimizer, "base_lr", base_lr), _for_each_group(optimizer, "max_lr", max_lr)
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self._scale_fn_custom = scale_fn
        if cycle_momentum:
            self.base_momentums = _for_each_group(optimizer, "base_momentum", base_momentum)
            self.max_momentums = _for_each_group(optimizer, "max_momentum", max_momentum)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, bases):
                group["lr"] = group["initial_lr"] = lr
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def scale_fn(self, x):
        if self._scale_fn_custom:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self):
        self._inside()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x, turn = 1.0 + self.last_epoch / self.total_size - cycle, self.step_ratio
        share = (x / turn if x <= turn else (x - 1) / (turn - 1)) * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high - (high - low) * share)
        return [base + (top - base) * share for base, top in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        held = self._scale_fn_custom
        return {**super().state_dict(), "_scale_fn_custom": None if held is None or isinstance(held, types.FunctionType) else held.__dict__.copy()}

    def load_state_dict(self, state_dict):
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict.get("_scale_fn_custom") is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])
