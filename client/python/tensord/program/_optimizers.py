"""Optimizers in programs: what step() and zero_grad() of those of tensord.optim are in the subset, and the tensors that they work on.

A step writes the same state by the same ops as the eager one, so either goes on where the other has stopped. State that the first step would
make is made when the program is. What schedules change (learning rate, momentum, betas, weight decay) are tensors, which are told before each
call what the group has.
"""

from tensord import _C
from tensord.core._overloads import _apart
from tensord.optim import SGD, Adagrad, Adam, AdamW, RMSprop

_CLOSURE = "step() of a program takes no closure: before it compute the loss and call loss.backward(), in a loop where that is wanted several times"

_STEP = """def step(self):
    with td.no_grad():
        for group in self.groups:
            lr, momentum, decay = float(group.lr), float(group.momentum), float(group.weight_decay)
            beta1, beta2 = float(group.betas[0]), float(group.betas[1])
            for each in group.each:
                grad = each.p.grad
                if grad is not None:
                    g = -grad if group.maximize else grad
"""

ZERO = """def zero_grad(self, set_to_none: bool = True):
    for p in self.params:
        if set_to_none:
            p.grad = None
        else:
            g = p.grad
            if g is not None:
                g.zero_()
"""

_SGD = (
    "dampening = float(group.dampening)",
    "if each.first is not None:",
    "    dampening = 0.0 if bool(each.first) else dampening",
    "    each.first.fill_(False)",
    "td.ops.sgd_step(each.p, g, each.momentum_buffer, lr, momentum, dampening, decay, group.nesterov)")

_ADAM = ("td.ops.adam_step(each.p, g, each.exp_avg, each.exp_avg_sq, each.step, lr, beta1, beta2, group.eps, decay, group.decoupled)"),

_DECAYED = "if group.decays:", "    g = g.add(each.p, alpha=decay)"

_RMSPROP = (
    "each.step.add_(1)", *_DECAYED,
    "size = each.square_avg.mul_(group.alpha).addcmul_(g, g, value=1 - group.alpha)",
    "if group.centered:",
    "    mean = each.grad_avg.lerp_(g, 1 - group.alpha)",
    "    size = size.addcmul(mean, mean, value=-1)",
    "size = size.sqrt().add_(group.eps)",
    "if each.momentum_buffer is not None:",
    "    each.p.add_(each.momentum_buffer.mul_(momentum).addcdiv_(g, size), alpha=-lr)",
    "else:",
    "    each.p.addcdiv_(g, size, value=-lr)")

_ADAGRAD = (
    *_DECAYED,
    "size = each.sum.addcmul_(g, g).sqrt().add_(group.eps)",
    "if group.lr_decay != 0:",
    "    size = size * (1 + each.step * group.lr_decay)",
    "each.step.add_(1)",
    "each.p.addcdiv_(g, size, value=-lr)")

_STATE = {SGD: ("momentum_buffer", "first"), Adam: ("exp_avg", "exp_avg_sq", "step"), RMSprop: ("step", "square_avg", "momentum_buffer", "grad_avg"),
          Adagrad: ("step", "sum")}
_RULES = {SGD: _SGD, Adam: _ADAM, AdamW: _ADAM, RMSprop: _RMSPROP, Adagrad: _ADAGRAD}
_STATE[AdamW] = _STATE[Adam]


def is_optimizer(value):
    return hasattr(value, "param_groups") and hasattr(value, "zero_grad")


class Rate:
    """A number of a group that schedules change, as programs read it."""

    def __init__(self, group, name, at=None):
        self._group, self._name, self._at = group, name, at
        self._told = self._now()
        with _apart():
            self.tensor = _C.ops.full((), float(self._told), _C.float64)

    def _now(self):
        value = self._group[self._name]
        return value if self._at is None else value[self._at]

    def tell(self):
        """Before a call: what the group has now."""
        now = self._now()
        if now is not self._told:
            with _apart():
                self.tensor.fill_(float(now))
            self._told = now


_SCHEDULED = "lr", "betas", "momentum", "weight_decay"
_SWITCHES = "momentum", "weight_decay"  # where they are 0 a step has less to do


def _begun(optimizer):
    """The state that steps need, made where there is none. A schedule is told that steps are made."""
    optimizer._opt_called = True
    for group in optimizer.param_groups:
        for p in group["params"]:
            optimizer._ready(p, group, optimizer.state[p])


def _refusal(optimizer):
    """Why no program steps it, or None."""
    kind = type(optimizer)
    if kind not in _RULES:
        return f"a program steps {', '.join(k.__name__ for k in _RULES)}; {kind.__name__} is none of these: call step() outside, behind the program"
    if "step" in vars(optimizer):
        return f"a program cannot run the hooks of the optimizer {kind.__name__}; remove them, or call step() outside, behind the program"
    for name in ("amsgrad", "differentiable"):
        if any(group.get(name) for group in optimizer.param_groups):
            return f"a program steps no {kind.__name__} with {name}: call step() outside, behind the program"
    _begun(optimizer)
    return None


def _numbers(group):
    return {k: v for k, v in group.items() if isinstance(v, (bool, int, float))}


def _parts_of(optimizer):
    return [(id(group), *[bool(group.get(name)) for name in _SWITCHES], *map(id, group["params"])) for group in optimizer.param_groups]


def described(world, optimizer, title):
    """The number of an object that has step() and zero_grad()."""
    whole, names = world.listed({}, title)[1], {}
    refusal, params = _refusal(optimizer), {}
    world.checks.append((lambda: _parts_of(optimizer), _parts_of(optimizer)))
    world.seen.append((optimizer, "state", optimizer.state))
    groups = {str(k): _group(world, optimizer, group, f"{title}.{k}", params, refusal) for k, group in enumerate(optimizer.param_groups)}
    names["params"], names["groups"] = world.listed(params, title), world.listed(groups, title)
    names["zero_grad"] = world.text(ZERO, {}, whole, "zero_grad")
    rule = "".join(" " * 20 + line + "\n" for line in _RULES.get(type(optimizer), ()))
    names["step"] = ("refused", refusal) if refusal else world.text(_STEP + rule, {"td": ("tensord",)}, whole, "step", _CLOSURE)
    world.objects[whole] = 0, 0, title, names
    return whole


def _group(world, optimizer, group, title, params, refusal):
    names = {"momentum": 0.0, **_numbers(group), "decoupled": getattr(optimizer, "_decoupled", False), "betas": ("tuple", [0.0, 0.0])}
    if not refusal:
        names["decays"] = bool(group["weight_decay"])
        names.update((name, _told(world, group, title, name)) for name in _SCHEDULED if name == "lr" or group.get(name))
    world.seen += [(group, k, v) for k, v in group.items() if k not in _SCHEDULED]
    each = {}
    for k, p in enumerate(group["params"]):
        params[str(len(params))] = "tensor", world.tensor(p, f"{title}.{k}")
        if not refusal:
            each[str(k)] = _each(world, optimizer, p, f"{title}.{k}")
    names["each"] = world.listed(each, title)
    world.objects.append((0, 0, title, names))
    return "object", len(world.objects) - 1


def _told(world, group, title, name):
    """The name of a number that is told, or of such a tuple."""
    if isinstance(group[name], (tuple, list)):
        return "tuple", [_rate(world, Rate(group, name, k), f"{title}.{name}.{k}") for k in range(len(group[name]))]
    return _rate(world, Rate(group, name), f"{title}.{name}")


def _rate(world, rate, title):
    world.rates.append(rate)
    return "tensor", world.tensor(rate.tensor, title)


def _each(world, optimizer, p, title):
    """A parameter with its state."""
    state, names = optimizer.state[p], {"p": ("tensor", world.tensor(p, title))}
    world.seen.append((optimizer.state, p, state))
    for name in _STATE[type(optimizer)]:
        world.seen.append((state, name, state.get(name)))
        names[name] = ("tensor", world.tensor(state[name], f"{title}.{name}")) if name in state else None
    world.objects.append((0, 0, title, names))
    return "object", len(world.objects) - 1
