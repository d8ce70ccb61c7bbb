"""Means of a model's weights over its training: of all moments alike, or of the last more than of those before."""

import copy
import math

import tensord as td
from tensord import _C
from tensord.nn._norms import _BatchNorm
from tensord.nn.module import Module
from tensord.optim.lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]


def _one_by_one(average):
    """The same for lists of tensors, in place."""

    @td.no_grad()
    def averages(averaged_params, current_params, num_averaged):
        for averaged, current in zip(averaged_params, current_params, strict=True):
            averaged.copy_(average(averaged, current, num_averaged))

    return averages


def get_ema_avg_fn(decay=0.999):
    """f(averaged, current, n): decay parts of what is averaged and 1 - decay of the current. Raises InvalidError for a decay outside of [0, 1]."""
    if not 0 <= decay <= 1:
        raise _C.InvalidError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @td.no_grad()
    def average(averaged, current, num_averaged):
        return decay * averaged + (1 - decay) * current

    return average


def get_swa_avg_fn():
    """f(averaged, current, n): the mean of n that are averaged already and the current."""

    @td.no_grad()
    def average(averaged, current, num_averaged):
        return averaged + (current - averaged) / (num_averaged + 1)

    return average


def get_ema_multi_avg_fn(decay=0.999):
    """get_ema_avg_fn() for lists of tensors, in place."""
    return _one_by_one(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn():
    """get_swa_avg_fn() for lists of tensors, in place."""
    return _one_by_one(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model, `module`, whose parameters are the mean of those that update_parameters() was shown; it is called as the model is.

    avg_fn(averaged, current, n_averaged) makes another mean, tensor by tensor; multi_avg_fn makes it in place for lists of one device and dtype. The
    first time all is copied. Buffers are copied every time, or, use_buffers=True, averaged too. n_averaged is an int64 buffer.
    """

    n_averaged: _C.Tensor

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", td.tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @td.no_grad()
    def update_parameters(self, model):
        """Take the model's parameters into the mean."""
        mine, theirs = list(self.module.parameters()), list(model.parameters())
        buffers = list(zip(self.module.buffers(), model.buffers(), strict=True))
        if self.use_buffers:
            mine, theirs = mine + [b for b, _ in buffers], theirs + [b for _, b in buffers]
        groups: dict = {}
        for averaged, current in zip(mine, theirs, strict=True):
            ours, others = groups.setdefault((averaged.device, averaged.dtype), ([], []))
            ours.append(averaged.detach())
            others.append(current.detach().to(averaged.device))
        first = int(self.n_averaged) == 0
        average = self.multi_avg_fn or _one_by_one(self.avg_fn or get_swa_avg_fn())
        for (device, _), (ours, others) in groups.items():
            if first:
                for averaged, current in zip(ours, others):
                    averaged.copy_(current)
            else:
                average(ours, others, self.n_averaged.to(device))
        if not self.use_buffers:
            for averaged, current in buffers:
                averaged.copy_(current)
        self.n_averaged.add_(1)


@td.no_grad()
def update_bn(loader, model, device=None):
    """The running statistics of the model's batch norms, from one pass over the batches: tensors, or lists whose first member is one."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta, training = [m.momentum for m in norms], model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    for batch in loader:
        input = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(input if device is None else input.to(device))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the rate that is there to swa_lr (one, or one a group) in anneal_epochs steps, along half a cosine ("cos") or a line ("linear"), and no further."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if len(rates) != len(optimizer.param_groups):
            raise _C.InvalidError(f"swa_lr must have the same length as optimizer.param_groups. swa_lr has {len(rates)} values, param_groups has "
                                  f"{len(optimizer.param_groups)}.")
        if anneal_strategy not in ("cos", "linear"):
            raise _C.InvalidError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise _C.InvalidError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, k):
        """Of swa_lr in the rate at step k."""
        at = min(max(k / max(1, self.anneal_epochs), 0), 1)
        return at if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * at)) / 2

    def get_lr(self):
        self._inside()
        k = max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch
        before, now, rates = self._share(k - 1), self._share(k), []
        for group in self.optimizer.param_groups:
            aim = group["swa_lr"]
            start = aim if before == 1 else (group["lr"] - before * aim) / (1 - before)  # what the rate would be without this schedule
            rates.append(aim * now + start * (1 - now))
        return rates
