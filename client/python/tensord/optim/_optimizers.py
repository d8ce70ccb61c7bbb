"""Optimizers. A step of SGD, Adam and AdamW is one op a parameter, in the daemon, in place; the others (and Adam with amsgrad) are put together from ops.
With differentiable=True all are, and the ops are recorded: gradients flow through a step, to what its gradients came from and to numbers that are tensors.

foreach, fused and capturable, which change no number in PyTorch, are taken and change nothing.
"""

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias

import tensord as td
from tensord import _C
from tensord._C import ops
from tensord.core._overloads import _apart
from tensord.nn._module_hooks import Hook


class _HookedStep:
    """What stands for step() in an optimizer that has hooks around it, and in no other."""

    def __init__(self, optimizer):
        self.optimizer, self.before, self.after = optimizer, OrderedDict(), OrderedDict()

    def __call__(self, *args, **kwargs):
        args = (self.optimizer, *args)  # hooks see what the function step() takes, as in PyTorch
        for hook in list(self.before.values()):
            changed = hook(self.optimizer, args, kwargs)
            if changed is not None:
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise _C.Error(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        self.optimizer._opt_called = True
        out = type(self.optimizer).step(*args, **kwargs)
        for hook in list(self.after.values()):
            hook(self.optimizer, args, kwargs)
        return out


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()  # what older optimizers have as the default of a number that must be given
ParamsT: TypeAlias = "Iterable[td.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, td.Tensor]]"  # what an optimizer takes


class Optimizer:
    """Groups of parameters, each with its own numbers; the state of each parameter."""

    _in_parts = True  # may complex parameters be stepped on as pairs of real ones?
    _opt_called = False  # has step() run, which a schedule of learning rates wants to know

    def __init__(self, params, defaults):
        self.defaults: dict[str, Any] = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Any, dict[str, Any]] = defaultdict(dict)
        if td.is_tensor(params):
            raise _C.DTypeError(f"an optimizer's parameters are an iterable of tensors or dicts, not {_C._a_type(params)}")
        params = list(params)
        if not params:
            raise _C.InvalidError("the optimizer got no parameters")
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def add_param_group(self, group):
        if not isinstance(group, dict):
            raise _C.DTypeError(f"a group of parameters is a dict, not {_C._a_type(group)}")
        if isinstance(group["params"], (set, frozenset)):
            raise _C.DTypeError("the order of an optimizer's parameters counts, and a set has none: give a list")
        params = [group["params"]] if td.is_tensor(group["params"]) else list(group["params"])
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names:
            if len(names) != len(params):
                raise _C.InvalidError("all optimizer params should be with/without names. Some param names are missing")
            params, group = [p for _, p in params], {**group, "param_names": names}
        for p in params:
            if not td.is_tensor(p):
                raise _C.DTypeError(f"an optimizer optimizes tensors, not {_C._a_type(p)}")
            if not p.is_leaf and not self.defaults.get("differentiable"):
                raise _C.InvalidError("can't optimize a non-leaf Tensor")
            if any(p is q for g in self.param_groups for q in g["params"]):
                raise _C.InvalidError("a parameter is in two groups")
        if len({id(p) for p in params}) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error", stacklevel=3)
        self.param_groups.append({**self.defaults, **group, "params": params})

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif (g := p.grad) is not None:
                    g.zero_()

    def step(self, closure=None):
        self._opt_called = True
        loss = None
        if closure is not None:
            with td.enable_grad():
                loss = closure()
        for group in self.param_groups:
            recorded = bool(group.get("differentiable"))
            with td.set_grad_enabled(recorded):
                for p, g in zip(group["params"], _C._grads(group["params"])):
                    if g is None:
                        continue
                    state = self.state[p]
                    if recorded:  # what earlier steps saved of it stays as it was
                        state.update({k: v.clone() for k, v in state.items() if td.is_tensor(v)})
                    self._step_of(p, -g if group.get("maximize") else g, group, state)
        return loss

    def _step_of(self, p, g, group, state):
        """Of complex parameters the real and imaginary parts are stepped on, each for itself; the state is kept as complex numbers."""
        if not (p.is_complex() and self._in_parts):
            return self._update(p, g, group, state)
        parts, at = {k: td.view_as_real(v) if _is_complex(v) else v for k, v in state.items()}, td.view_as_real(p)
        self._update(at, td.view_as_real(g), group, parts)
        for k, v in parts.items():
            if k not in state:
                state[k] = td.view_as_complex(v) if td.is_tensor(v) and v.shape == at.shape else v
        for k in [k for k in state if k not in parts]:
            del state[k]

    def _watched_step(self):
        """See to it that step() tells that it ran: that of this class does, another is called by way of what runs hooks."""
        if type(self).step is not Optimizer.step and "step" not in self.__dict__:
            self._hooked()

    def _hooked(self):
        return self.__dict__.setdefault("step", _HookedStep(self))

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) runs before step() and may return other (args, kwargs). remove() of what is returned takes it away."""
        return Hook(self._hooked().before, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) runs behind step(). remove() of what is returned takes it away."""
        return Hook(self._hooked().after, hook)

    def _state_hooks(self, when):
        return self.__dict__.setdefault("_hooks", {}).setdefault(when, OrderedDict())

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) runs before state_dict(). remove() of what is returned takes it away."""
        return Hook(self._state_hooks("before"), hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) runs behind state_dict(); what it returns, unless None, is given in its place."""
        return Hook(self._state_hooks("after"), hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) runs before load_state_dict(); what it returns, unless None, is loaded in its place."""
        return Hook(self._state_hooks("before loading"), hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) runs behind load_state_dict()."""
        return Hook(self._state_hooks("after loading"), hook, prepend)

    def _tell(self, when, *state_dict):
        """What the hooks make of a state dict."""
        for hook in list(self.__dict__.get("_hooks", {}).get(when, {}).values()):
            changed = hook(self, *state_dict)
            if state_dict and changed is not None:
                state_dict = (changed,)
        return state_dict[0] if state_dict else None

    def share_memory(self):
        """The state of all parameters now, not at their first step, and in memory that outlives this process.

        Who gets the optimizer together with its module (pickled) steps on the same state: one Adam for all workers, counts included.
        """
        with td.service_memory(), td.racy(), _apart():
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state.setdefault(p, {})
                    self._begin(p, group, state)
                    state.update({k: v.clone() for k, v in state.items() if td.is_tensor(v)})
        return self

    def _begin(self, p, group, state):
        """Put into an empty state what steps need."""

    def _ready(self, p, group, state):
        """The same, whatever the modes of who steps first: others go on with the state."""
        if not state:
            with _apart():
                self._begin(p, group, state)

    def _update(self, p, g, group, state):
        raise NotImplementedError(f"{type(self).__name__} has no _update(p, grad, group, state); or override step()")

    def _index(self):
        """Of each parameter its place, of one that is there more often the first."""
        places = list(enumerate(p for g in self.param_groups for p in g["params"]))
        return {id(p): k for k, p in reversed(places)}

    def state_dict(self):
        self._tell("before")
        index = self._index()
        groups = [{**g, "params": [index[id(p)] for p in g["params"]]} for g in self.param_groups]
        return self._tell("after", {"state": {index[id(p)]: self._state_of(s) for p, s in self.state.items()}, "param_groups": groups})

    def _state_of(self, state):
        """What state_dict() has of a parameter's."""
        return dict(state)

    def load_state_dict(self, state_dict):
        state_dict = self._tell("before loading", state_dict)
        sizes = [len(g["params"]) for g in self.param_groups]
        if sizes != [len(g["params"]) for g in state_dict["param_groups"]]:
            raise _C.InvalidError("the state belongs to an optimizer with other groups of parameters")
        params = [p for g in self.param_groups for p in g["params"]]
        groups = [{**mine, **theirs, "params": mine["params"]} for mine, theirs in zip(self.param_groups, state_dict["param_groups"])]
        state = defaultdict(dict)
        for k, held in state_dict["state"].items():
            if isinstance(k, int) and 0 <= k < len(params):
                state[params[k]] = {n: _as_state(n, v, params[k]) for n, v in held.items()}
            else:
                state[k] = held
        self.__setstate__({"state": state, "param_groups": groups})
        self._tell("after loading")

    def __setstate__(self, state):
        """What load_state_dict() and copies put in; an optimizer that knows older states adds what they lack."""
        self.__dict__.update(state)

    def __repr__(self):
        rows = [f"group {k}: " + ", ".join(f"{n}={v}" for n, v in g.items() if n != "params") for k, g in enumerate(self.param_groups)]
        return f"{type(self).__name__}(\n  " + "\n  ".join(rows) + "\n)"


def _is_complex(x):
    return td.is_tensor(x) and x.is_complex()


def _as_state(name, value, p):
    """What is loaded as a parameter's state: of the parameter's kind and in its place, but for the count of steps, which older files have as a number."""
    if name == "step":
        return value.clone() if td.is_tensor(value) else td.tensor(float(value), dtype=_STEP, device=p.device)
    if isinstance(value, dict):
        return {k: _as_state(k, v, p) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_as_state("", v, p) for v in value)
    if not td.is_tensor(value):
        return value
    like = p.dtype if value.is_floating_point() and p.is_floating_point() else value.dtype
    return value.to(device=p.device, dtype=like, copy=True)


def _not_negative(**numbers):
    for name, v in numbers.items():
        if v < 0:
            raise _C.InvalidError(f"{name} must not be negative, but is {v}")


def _decayed(p, g, group, decoupled=False):
    """The gradient with the weights' decay, which is taken from the weights themselves when it is decoupled."""
    decay = group["weight_decay"]
    if td.is_tensor(decay) and not decoupled:
        return g + p.clone() * decay  # p is written before anybody asks for the gradient
    if not td.is_tensor(decay) and not decay:
        return g
    if decoupled:
        p.mul_(1 - group["lr"] * decay)
        return g
    return g.add(p, alpha=decay)


def _squared(mean, g, beta):
    """The mean of squares, with those of one gradient more."""
    return mean.lerp_(g * g, 1 - beta) if td.is_tensor(beta) else mean.mul_(beta).addcmul_(g, g, value=1 - beta)


class SGD(Optimizer):
    """Gradient descent with momentum."""

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening):
            raise _C.InvalidError("nesterov needs a momentum, and no dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                                      maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if group["momentum"] and not state:
            state["momentum_buffer"] = td.zeros_like(p)
            if group["dampening"]:
                state["first"] = td.ones((), dtype=td.bool, device=p.device)  # is the next step, which nothing dampens

    def _update(self, p, g, group, state):
        if group.get("differentiable"):
            return self._recorded(p, g, group, state)
        buffer, dampening = None, 0.0
        if group["momentum"]:
            begins = not state
            self._ready(p, group, state)
            first = state.pop("first", None)
            dampening = 0.0 if begins or first is not None and first.item() else group["dampening"]
            if first is not None:
                first.fill_(False)  # others may have it, too
            buffer = state["momentum_buffer"]
        ops.sgd_step(p, g, buffer, group["lr"], group["momentum"], dampening, group["weight_decay"], group["nesterov"])

    @staticmethod
    def _recorded(p, g, group, state):
        g, momentum = _decayed(p, g, group), group["momentum"]
        if momentum:
            if "momentum_buffer" in state:
                state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - group["dampening"])
            else:
                state["momentum_buffer"] = g.detach().clone()  # nothing flows to the first gradient that way, as in PyTorch
            g = g.add(state["momentum_buffer"], alpha=momentum) if group["nesterov"] else state["momentum_buffer"]
        p.sub_(g * group["lr"])

    def _state_of(self, state):
        first = state.get("first")
        return {} if first is not None and first.item() else {k: v for k, v in state.items() if k != "first"}


class Adam(Optimizer):
    """Adam; decoupled weight decay makes it AdamW."""

    _decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= b < 1 for b in betas):
            raise _C.InvalidError(f"betas must be at least 0 and below 1, but are {betas}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=td.zeros((), dtype=_STEP, device=p.device), exp_avg=td.zeros_like(p), exp_avg_sq=td.zeros_like(p))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = td.zeros_like(p)

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        b1, b2 = group["betas"]
        if group["amsgrad"] or group.get("differentiable"):
            return self._of_ops(p, g, group, state)
        ops.adam_step(p, g, state["exp_avg"], state["exp_avg_sq"], state["step"], group["lr"], b1, b2, group["eps"], group["weight_decay"],
                      self._decoupled)

    def _of_ops(self, p, g, group, state):
        """amsgrad: the second moment is the largest that there was (Reddi, Kale and Kumar 2018)."""
        (b1, b2), lr = group["betas"], group["lr"]
        t = state["step"].add_(1).to(_C.float64)
        g = _decayed(p, g, group, self._decoupled)
        mean, size = state["exp_avg"].lerp_(g, 1 - b1), _squared(state["exp_avg_sq"], g, b2)
        if group["amsgrad"]:
            size = state["max_exp_avg_sq"].copy_(td.maximum(state["max_exp_avg_sq"].clone(), size))
        p.sub_(mean / (size.sqrt() / (1 - b2**t).sqrt() + group["eps"]) * (lr / (1 - b1**t)))


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    _decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, differentiable=differentiable)


class RMSprop(Optimizer):
    """Gradients over the root of their mean square."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered,
                                      maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=td.zeros((), dtype=_STEP, device=p.device), square_avg=td.zeros_like(p))
            state.update({k: td.zeros_like(p) for k, on in (("momentum_buffer", group["momentum"]), ("grad_avg", group["centered"])) if on})

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        state["step"].add_(1)
        g = _decayed(p, g, group)
        a = group["alpha"]
        size = state["square_avg"].mul_(a).addcmul_(g, g, value=1 - a)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(g, 1 - a)
            size = size.addcmul(mean, mean, value=-1)
        size = size.sqrt().add(group["eps"])
        if group["momentum"]:
            p.add_(state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(g, size), alpha=-group["lr"])
        else:
            p.addcdiv_(g, size, value=-group["lr"])


class Adagrad(Optimizer):
    """Gradients over the root of the sum of their squares."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, *, maximize=False, foreach=None, capturable=False,
                 differentiable=False, fused=None):
        _not_negative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, maximize=maximize, differentiable=differentiable))

    def _begin(self, p, group, state):
        if not state:
            state.update(step=td.zeros((), dtype=_STEP, device=p.device), sum=td.full_like(p, group["initial_accumulator_value"]))

    def _update(self, p, g, group, state):
        self._ready(p, group, state)
        g = _decayed(p, g, group)
        size = state["sum"].addcmul_(g, g).sqrt().add(group["eps"])
        if group["lr_decay"]:
            size = size * (1 + state["step"].clone() * group["lr_decay"])
        state["step"].add_(1)
        p.addcdiv_(g, size, value=-group["lr"])


_STEP = _C.float32
