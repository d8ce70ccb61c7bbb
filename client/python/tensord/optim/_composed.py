"""The optimizers that are put together from ops, a few a parameter, with the names and numbers of PyTorch's; Lion and Lamb are by their papers.

What a step counts is a tensor of the daemon, so that processes may share it (share_memory()): what follows from it is worked out there too, in float64.
"""

import tensord as td
from tensord import _C
from tensord.optim._optimizers import _STEP, Optimizer, _decayed as _with_decay, _not_negative


def _betas_are_right(betas):
    if not all(0 <= b < 1 for b in betas):
        raise _C.InvalidError(f"betas must be at least 0 and below 1, but are {betas}")


def _zero(p, dtype=_STEP):
    return td.zeros((), dtype=dtype, device=p.device)


def _count(state):
    """One step more; how many, to compute with."""
    return state["step"].add_(1).to(_C.float64)


def _decayed(p, g, group):
    return _with_decay(p, g, group, group.get("decoupled_weight_decay"))


class Adadelta(Optimizer):
    """Steps as large as the mean square of those before (Zeiler 2012)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0 <= rho <= 1:
            raise _C.InvalidError(f"rho must be between 0 and 1, but is {rho}")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), square_avg=td.zeros_like(p), acc_delta=td.zeros_like(p))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        state["step"].add_(1)
        g, rho, eps = _decayed(p, g, group), group["rho"], group["eps"]
        size = state["square_avg"].mul_(rho).addcmul_(g, g, value=1 - rho).add(eps).sqrt()
        step = state["acc_delta"].add(eps).sqrt().div(size).mul(g)
        state["acc_delta"].mul_(rho).addcmul_(step, step, value=1 - rho)
        p.add_(step, alpha=-group["lr"])


class Adamax(Optimizer):
    """Adam by the largest gradient (Kingma and Ba 2015)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        _betas_are_right(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), exp_avg=td.zeros_like(p), exp_inf=td.zeros_like(p))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        (b1, b2), t, g = group["betas"], _count(state), _decayed(p, g, group)
        mean = state["exp_avg"].lerp_(g, 1 - b1)
        largest = state["exp_inf"].copy_(td.maximum(state["exp_inf"] * b2, g.abs().add(group["eps"])))
        p.sub_(mean / largest * (group["lr"] / (1 - b1**t)))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        _betas_are_right(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), mu_product=td.ones((), dtype=_STEP, device=p.device), exp_avg=td.zeros_like(p), exp_avg_sq=td.zeros_like(p))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        (b1, b2), t, g, decay = group["betas"], _count(state), _decayed(p, g, group), group["momentum_decay"]
        now, then = (b1 * (1 - 0.5 * 0.96 ** (k * decay)) for k in (t, t + 1))
        product = state["mu_product"].mul_(now).to(_C.float64)
        mean = state["exp_avg"].lerp_(g, 1 - b1)
        size = state["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2).div(1 - b2**t).sqrt().add(group["eps"])
        p.sub_(g / size * (group["lr"] * (1 - now) / (1 - product)))
        p.sub_(mean / size * (group["lr"] * then / (1 - product * then)))


class RAdam(Optimizer):
    """Adam that is no faster than its variance allows at first (Liu 2020)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        _betas_are_right(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), exp_avg=td.zeros_like(p), exp_avg_sq=td.zeros_like(p))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        (b1, b2), t, g = group["betas"], _count(state), _decayed(p, g, group)
        mean, size = state["exp_avg"].lerp_(g, 1 - b1), state["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2).sqrt().add(group["eps"])
        limit, rest = 2 / (1 - b2) - 1, 1 - b2**t
        length = limit - 2 * t * b2**t / rest
        slowed = ((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)).clamp(min=0).sqrt() * rest.sqrt()
        p.sub_(mean * td.where(length > 5, slowed / size, td.ones_like(size)) * (group["lr"] / (1 - b1**t)))


class Rprop(Optimizer):
    """A step of its own for each weight, by the signs of its gradients (Riedmiller and Braun 1993)."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise _C.InvalidError(f"etas lie below and above 1, but are {etas}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), prev=td.zeros_like(p), step_size=td.full_like(p, group["lr"]))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        state["step"].add_(1)
        (less, more), (low, high), turn = group["etas"], group["step_sizes"], g * state["prev"]
        factor = td.where(turn > 0, more, td.where(turn < 0, less, td.ones_like(turn)))
        size = state["step_size"].mul_(factor).clamp_(low, high)
        g = td.where(turn < 0, td.zeros_like(g), g)
        p.addcmul_(g.sign(), size, value=-1)
        state["prev"].copy_(g)


class ASGD(Optimizer):
    """Gradient descent whose mean over the steps is kept as "ax" (Polyak and Juditsky 1992)."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), eta=td.full((), group["lr"], dtype=_C.float64, device=p.device), mu=td.ones((), dtype=_C.float64, device=p.device),
                         ax=td.zeros_like(p))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        t, g, eta, mu = _count(state), _decayed(p, g, group), state["eta"], state["mu"]
        p.mul_(1 - group["lambd"] * eta).sub_(g * eta.clone())
        state["ax"].add_((p - state["ax"]) * mu.clone())
        eta.copy_(group["lr"] / (1 + group["lambd"] * group["lr"] * t) ** group["alpha"])
        mu.copy_(1 / (t - group["t0"]).clamp(min=1))


class Lion(Optimizer):
    """The sign of a mean of gradients (Chen 2023)."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False):
        _not_negative(lr=lr, weight_decay=weight_decay)
        _betas_are_right(betas)
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    def _begin(self, p, group, state):
        if not state:
            state["exp_avg"] = td.zeros_like(p)

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        b1, b2 = group["betas"]
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(state["exp_avg"].lerp(g, 1 - b1).sign_(), alpha=-group["lr"])
        state["exp_avg"].lerp_(g, 1 - b2)


class Lamb(Optimizer):
    """Adam whose step is as long as the weights of its layer (You 2020)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, *, maximize=False):
        _not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        _betas_are_right(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=_zero(p), exp_avg=td.zeros_like(p), exp_avg_sq=td.zeros_like(p))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        (b1, b2), t = group["betas"], _count(state)
        mean = state["exp_avg"].lerp_(g, 1 - b1) / (1 - b1**t)
        size = state["exp_avg_sq"].mul_(b2).addcmul_(g, g, value=1 - b2).div(1 - b2**t).sqrt_().add_(group["eps"])
        step = mean / size
        step = step.add(p, alpha=group["weight_decay"]) if group["weight_decay"] else step
        weights, length = td.norm(p), td.norm(step)
        p.sub_(step * (td.where((weights > 0) & (length > 0), weights / length, td.ones_like(weights)) * group["lr"]))
