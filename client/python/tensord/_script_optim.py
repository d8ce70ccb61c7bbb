"""Optimizers in programs: what step() and zero_grad() of those of tensord.optim are in the subset, and the tensors that they work on.

A step writes the same state by the same ops as the eager one, so either goes on where the other has stopped. State that the first step would
make is made when the program is. The learning rate of a group is a tensor, which is told before each call what the group has: schedules work.
"""

from . import _C
from ._more import no_grad
from .optim import SGD, Adagrad, Adam, AdamW, RMSprop

_STEP = """def step(self):
    with td.no_grad():
        for group in self.groups:
            lr = float(group.lr)
            for each in group.each:
                grad = each.p.grad
                if grad is not None:
                    g = -grad if group.maximize else grad
"""

_ZERO = """def zero_grad(self, set_to_none: bool = True):
    for p in self.params:
        if set_to_none:
            p.grad = None
        else:
            g = p.grad
            if g is not None:
                g.zero_()
"""

_SGD = "td.ops.sgd_step(each.p, g, each.momentum_buffer, lr, group.momentum, group.dampening, group.weight_decay, group.nesterov)",

_ADAM = ("td.ops.adam_step(each.p, g, each.exp_avg, each.exp_avg_sq, each.step, lr, group.betas[0], group.betas[1], group.eps, "
         "group.weight_decay, group.decoupled)"),

_DECAYED = "if group.weight_decay != 0:", "    g = g.add(each.p, alpha=group.weight_decay)"

_RMSPROP = (
    "each.step.add_(1)", *_DECAYED,
    "size = each.square_avg.mul_(group.alpha).addcmul_(g, g, value=1 - group.alpha)",
    "if group.centered:",
    "    mean = each.grad_avg.lerp_(g, 1 - group.alpha)",
    "    size = size.addcmul(mean, mean, value=-1)",
    "size = size.sqrt().add_(group.eps)",
    "if each.momentum_buffer is not None:",
    "    each.p.add_(each.momentum_buffer.mul_(group.momentum).addcdiv_(g, size), alpha=-lr)",
    "else:",
    "    each.p.addcdiv_(g, size, value=-lr)")

_ADAGRAD = (
    *_DECAYED,
    "size = each.sum.addcmul_(g, g).sqrt().add_(group.eps)",
    "if group.lr_decay != 0:",
    "    size = size * (1 + each.step * group.lr_decay)",
    "each.step.add_(1)",
    "each.p.addcdiv_(g, size, value=-lr)")

_STATE = {SGD: ("momentum_buffer",), Adam: ("exp_avg", "exp_avg_sq", "step"), RMSprop: ("step", "square_avg", "momentum_buffer", "grad_avg"),
          Adagrad: ("step", "sum")}
_RULES = {SGD: _SGD, Adam: _ADAM, AdamW: _ADAM, RMSprop: _RMSPROP, Adagrad: _ADAGRAD}
_STATE[AdamW] = _STATE[Adam]


def is_optimizer(value):
    return hasattr(value, "param_groups") and hasattr(value, "zero_grad")


class Rate:
    """The learning rate of a group, as programs read it."""

    def __init__(self, group):
        self._group, self._told = group, group["lr"]  # a number
        self.tensor = _C.ops.full((), float(self._told), _C.float64)

    def tell(self):
        """Before a call: what the group has now."""
        lr = self._group["lr"]
        if lr is not self._told:
            with no_grad():
                self.tensor.fill_(float(lr))
            self._told = lr


def _begun(optimizer):
    """The state that steps need, made where there is none."""
    with no_grad():
        for group in optimizer.param_groups:
            for p in group["params"]:
                optimizer._begin(p, group, optimizer.state.setdefault(p, {}))


def _refusal(optimizer):
    """Why no program steps it, or None."""
    kind = type(optimizer)
    if kind not in _RULES:
        return f"a program steps {', '.join(k.__name__ for k in _RULES)}; {kind.__name__} is none of these: call step() outside, behind the program"
    try:
        _begun(optimizer)
    except _C.Unsupported:
        return "the first step of this optimizer is unlike the others: call step() once outside, and script the function then"
    return None


def _numbers(group):
    return {k: v for k, v in group.items() if isinstance(v, (bool, int, float))}


def _parts_of(optimizer):
    return [(id(group), *map(id, group["params"])) for group in optimizer.param_groups]


def described(world, optimizer, title):
    """The number of an object that has step() and zero_grad()."""
    whole, names = world.listed({}, title)[1], {}
    refusal, params = _refusal(optimizer), {}
    world.checks.append((lambda: _parts_of(optimizer), _parts_of(optimizer)))
    world.seen.append((optimizer, "state", optimizer.state))
    groups = {str(k): _group(world, optimizer, group, f"{title}.{k}", params, refusal) for k, group in enumerate(optimizer.param_groups)}
    names["params"], names["groups"] = world.listed(params, title), world.listed(groups, title)
    names["zero_grad"] = world.text(_ZERO, {}, whole, "zero_grad")
    rule = "".join(" " * 20 + line + "\n" for line in _RULES.get(type(optimizer), ()))
    names["step"] = ("refused", refusal) if refusal else world.text(_STEP + rule, {"td": ("tensord",)}, whole, "step")
    world.objects[whole] = 0, 0, title, names
    return whole


def _group(world, optimizer, group, title, params, refusal):
    names = {**_numbers(group), "decoupled": getattr(optimizer, "_decoupled", False), "betas": ("tuple", list(group.get("betas", ())))}
    if not refusal:
        rate = Rate(group)
        names["lr"] = "tensor", world.tensor(rate.tensor, title + ".lr")
        world.rates.append(rate)
    world.seen += [(group, k, v) for k, v in group.items() if k != "lr"]
    each = {}
    for k, p in enumerate(group["params"]):
        params[str(len(params))] = "tensor", world.tensor(p, f"{title}.{k}")
        if not refusal:
            each[str(k)] = _each(world, optimizer, p, f"{title}.{k}")
    names["each"] = world.listed(each, title)
    world.objects.append((0, 0, title, names))
    return "object", len(world.objects) - 1


def _each(world, optimizer, p, title):
    """A parameter with its state."""
    state, names = optimizer.state[p], {"p": ("tensor", world.tensor(p, title))}
    world.seen.append((optimizer.state, p, state))
    for name in _STATE[type(optimizer)]:
        world.seen.append((state, name, state.get(name)))
        names[name] = ("tensor", world.tensor(state[name], f"{title}.{name}")) if name in state else None
    world.objects.append((0, 0, title, names))
    return "object", len(world.objects) - 1
