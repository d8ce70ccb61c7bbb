"""L-BFGS (Nocedal 1980), with or without a line search for the strong conditions of Wolfe (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and
3.6, with cubic steps): arguments, state and stops are PyTorch's. One decision needs one number, so a step waits for the daemon several times.
"""

import tensord as td
from tensord import _C
from tensord.optim._optimizers import Optimizer, _not_negative


def _cubic(x1, f1, g1, x2, f2, g2, low, high):
    """Where the cubic through two points with their slopes is least, within bounds."""
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = square**0.5
    x = x2 - (x2 - x1) * (g2 + d2 - d1) / (g2 - g1 + 2 * d2) if x1 <= x2 else x1 - (x1 - x2) * (g1 + d2 - d1) / (g1 - g2 + 2 * d2)
    return min(max(x, low), high)


class _Point:
    """The function at a step t along the direction."""

    def __init__(self, t, value, grad, slope):
        self.t, self.value, self.grad, self.slope = t, value, grad, slope


def _search(at, start, t, reach, most, armijo=1e-4, curvature=0.9, least=1e-9):
    """(point, calls of `at`): a point that is low and flat enough, or the best of those at the first step and at `most` others."""
    before, now, calls, bracket = start, at(t), 1, None
    while calls <= most:
        if now.value > start.value + armijo * now.t * start.slope or calls > 2 and now.value >= before.value:
            bracket = [before, now]
        elif abs(now.slope) <= -curvature * start.slope:
            return now, calls
        elif now.slope >= 0:
            bracket = [before, now]
        if bracket:
            break
        low, high = now.t + 0.01 * (now.t - before.t), now.t * 10
        t = _cubic(before.t, before.value, before.slope, now.t, now.value, now.slope, low, high)
        before, now, calls = now, at(t), calls + 1
    bracket, stuck = bracket or [start, now], False
    bracket.sort(key=lambda p: p.value)
    while calls <= most and abs(bracket[1].t - bracket[0].t) * reach >= least:
        a, b = bracket
        low, high = sorted((a.t, b.t))
        t = _cubic(a.t, a.value, a.slope, b.t, b.value, b.slope, low, high)
        edge = 0.1 * (high - low)
        if min(high - t, t - low) < edge:  # hardly a step: once, and the next is pushed inside
            if stuck or t >= high or t <= low:
                t, stuck = (high - edge if abs(t - high) < abs(t - low) else low + edge), False
            else:
                stuck = True
        else:
            stuck = False
        now, calls = at(t), calls + 1
        if now.value > start.value + armijo * t * start.slope or now.value >= a.value:
            bracket = sorted((a, now), key=lambda p: p.value)
        elif abs(now.slope) <= -curvature * start.slope:
            return now, calls
        else:
            bracket = [now, a if now.slope * (b.t - a.t) >= 0 else b]
    return bracket[0], calls


def _parts(x):
    """The same memory as real numbers, of complex ones both parts."""
    return td.view_as_real(x) if x.is_complex() else x


class LBFGS(Optimizer):
    """Newton's step by the gradients of the last steps: step(closure) asks the closure, which computes the loss and its gradients, as often as it needs."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=None):
        _not_negative(lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise _C.InvalidError(f"only 'strong_wolfe' is supported, not {line_search_fn!r}")
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size, line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise _C.InvalidError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _grad(self):
        return td.cat([_parts(td.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(self._params, _C._grads(self._params))])

    def _move(self, t, direction):
        at = 0
        for p in map(_parts, self._params):
            p.add_(direction[at : at + p.numel()].reshape(p.shape), alpha=t)
            at += p.numel()

    def _direction(self, state, grad, size):
        """Minus the gradient, times what is known of the inverse of the second derivatives."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -grad
        change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
        product = float(change.dot(step))
        if product > 1e-10:
            if len(state["ro"]) == size:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(change)
            state["old_stps"].append(step)
            state["ro"].append(1 / product)
            state["H_diag"] = product / float(change.dot(change))
        q, shares = -grad, []
        for y, s, r in zip(reversed(state["old_dirs"]), reversed(state["old_stps"]), reversed(state["ro"])):
            shares.append(s.dot(q) * r)
            q = q - y * shares[-1]
        q = q * state["H_diag"]
        for y, s, r, share in zip(state["old_dirs"], state["old_stps"], state["ro"], reversed(shares)):
            q = q + s * (share - y.dot(q) * r)
        return q

    def step(self, closure):
        """One round: up to max_iter directions. Returns the loss that it began with."""
        def asked():
            with td.enable_grad():
                return closure()

        with td.no_grad():
            return self._round(asked, self.param_groups[0], self.state.setdefault(self._params[0], {"func_evals": 0, "n_iter": 0}))

    def _round(self, closure, group, state):
        first = closure()
        loss, grad, asked, n = float(first), self._grad(), 1, 0
        state["func_evals"] += 1
        flat = float(grad.abs().max()) <= group["tolerance_grad"]
        while n < group["max_iter"] and not flat:
            n += 1
            state["n_iter"] += 1
            d = self._direction(state, grad, group["history_size"])
            t = group["lr"] / max(1.0, float(grad.abs().sum())) if state["n_iter"] == 1 else group["lr"]
            state.update(d=d, prev_flat_grad=grad.clone(), prev_loss=loss)
            slope, before = float(grad.dot(d)), loss
            if slope > -group["tolerance_change"]:
                state["t"] = t
                break
            calls = 0
            if group["line_search_fn"]:
                t, loss, grad, calls = self._searched(closure, group, d, t, _Point(0.0, loss, grad, slope), group["max_eval"] - asked)
                self._move(t, d)
            else:
                self._move(t, d)
                if n != group["max_iter"]:
                    loss, grad, calls = float(closure()), self._grad(), 1
            state["t"] = t
            asked += calls
            state["func_evals"] += calls
            flat = float(grad.abs().max()) <= group["tolerance_grad"]
            if asked >= group["max_eval"] or float(d.mul(t).abs().max()) <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _searched(self, closure, group, d, t, start, most):
        begun = [p.clone() for p in self._params]

        def at(t):
            self._move(t, d)
            value, grad = float(closure()), self._grad()
            for p, b in zip(self._params, begun):
                p.copy_(b)
            return _Point(t, value, grad, float(grad.dot(d)))

        found, calls = _search(at, start, t, float(d.abs().max()), most)
        return found.t, found.value, found.grad, calls
