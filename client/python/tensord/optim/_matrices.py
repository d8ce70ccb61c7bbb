"""Optimizers that look at a parameter as a matrix: Adafactor keeps of its second moments a row and a column, Muon makes steps orthogonal."""

import math

import tensord as td
from tensord import _C
from tensord.optim._composed import _count, _zero
from tensord.optim._optimizers import Optimizer, _not_negative


class Adafactor(Optimizer):
    """Steps over the root of second moments, of which a matrix has a row and a column only, as large as the parameter's own size lets them (Shazeer and Stern 2018).

    eps: (the least root of a moment, None: the dtype's eps; the least size of a parameter). d: the largest root mean square of a step before it is
    scaled down. Raises InvalidError for numbers that are out of range, DTypeError for complex parameters.
    """

    _in_parts = False

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, maximize=False, foreach=None, capturable=False, fused=None):
        _not_negative(lr=lr, weight_decay=weight_decay)
        if beta2_decay > 0:
            raise _C.InvalidError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0:
            raise _C.InvalidError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if eps[1] < 0:
            raise _C.InvalidError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if d < 1:
            raise _C.InvalidError(f"Clipping threshold d should be >= 1 but is: {d}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, maximize=maximize))

    def _begin(self, p, group, state):
        if state:
            return
        if p.is_complex():
            raise _C.DTypeError("Adafactor does not support complex parameters")
        state["step"] = _zero(p)
        if p.ndim > 1:
            state["row_var"] = td.zeros_like(p[..., :1])
            state["col_var"] = td.zeros_like(p[..., :1, :])
        else:
            state["variance"] = td.zeros_like(p)

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        t, lr, (least, smallest) = _count(state), group["lr"], group["eps"]
        least = td.finfo(p.dtype).eps if least is None else least
        share = t ** group["beta2_decay"]  # of the new moments
        size = (td.norm(p).to(_C.float64) / math.sqrt(max(p.numel(), 1))).clamp(min=smallest) * (t**-0.5).clamp(max=lr)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        square = g * g
        if p.ndim > 1:
            row, col = state["row_var"], state["col_var"]
            row.add_((square.mean(-1, keepdim=True) - row) * share)
            col.add_((square.mean(-2, keepdim=True) - col) * share)
            moment = row @ col / row.mean(-2, keepdim=True).clamp(min=least)
        else:
            moment = state["variance"].add_((square - state["variance"]) * share)
        step = moment.clamp(min=least * least).rsqrt() * g
        held = (td.norm(step).to(_C.float64) / (math.sqrt(max(step.numel(), 1)) * group["d"])).clamp(min=1.0)
        p.sub_(step * (size / held))


class Muon(Optimizer):
    """Momentum whose matrices are made nearly orthogonal by ns_steps of an iteration of Newton and Schulz in bfloat16 (Jordan 2024). Parameters are matrices.

    adjust_lr_fn: what the rate is scaled by, "original" (None: the same), sqrt(max(1, rows / columns)), or "match_rms_adamw", 0.2 sqrt(max(rows, columns)).
    Raises InvalidError for a parameter that is no matrix and numbers out of range, DTypeError for complex ones.
    """

    _in_parts = False

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5,
                 adjust_lr_fn=None):
        _not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise _C.InvalidError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if ns_steps >= 100:
            raise _C.InvalidError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise _C.InvalidError("Coefficients must be a tuple of exactly 3 values")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, ns_coefficients=ns_coefficients, eps=eps,
                                      ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn))

    def add_param_group(self, group):
        super().add_param_group(group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise _C.InvalidError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}")
            if p.is_complex():
                raise _C.DTypeError("Muon does not support complex parameters")

    def _begin(self, p, group, state):
        if not state:
            state["momentum_buffer"] = td.zeros_like(p)

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        mean = state["momentum_buffer"].lerp_(g, 1 - group["momentum"])
        step = self._orthogonalised(g.lerp(mean, group["momentum"]) if group["nesterov"] else mean, group)
        rows, columns = p.shape
        scale = 0.2 * math.sqrt(max(rows, columns)) if group["adjust_lr_fn"] == "match_rms_adamw" else math.sqrt(max(1, rows / max(columns, 1)))
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(step.to(p.dtype), alpha=group["lr"] * scale)

    @staticmethod
    def _orthogonalised(x, group):
        """Singular values near 1: each iteration sends s to a s + b s^3 + c s^5."""
        (a, b, c), tall = group["ns_coefficients"], x.shape[0] > x.shape[1]
        x = (x.mT if tall else x).to(_C.bfloat16)
        x = x / td.norm(x).clamp(min=group["eps"])
        for _ in range(group["ns_steps"]):
            gram = x @ x.mT
            x = td.addmm(x, td.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x.mT if tall else x
