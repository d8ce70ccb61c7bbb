"""A parameter worked out of others before each forward(): its direction and length apart, or over its largest singular value."""

import tensord as td
from tensord import _C
from tensord.nn import functional as F
from tensord.nn.module import Parameter

_HOOKS = "_tensord_norms"


def _hold(module, name, hook):
    hooks = module.__dict__.setdefault(_HOOKS, {})
    if name in hooks:
        raise _C.InvalidError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hooks[name] = (module.register_forward_pre_hook(lambda m, args: hook(m)), hook)


def _let_go(module, name, kind):
    held = module.__dict__.get(_HOOKS, {})
    if name not in held or held[name][1].kind != kind:
        raise ValueError(f"{kind} of '{name}' not found in {module}")
    handle, hook = held.pop(name)
    handle.remove()
    return hook


class _Weight:
    kind = "weight_norm"

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def length(self, v):
        if self.dim is None:
            return v.norm()
        return v.norm(2, [d for d in range(v.ndim) if d != self.dim % v.ndim], True)

    def made(self, module):
        v = getattr(module, self.name + "_v")
        return v * (getattr(module, self.name + "_g") / self.length(v))

    def __call__(self, module):
        setattr(module, self.name, self.made(module))


def weight_norm(module, name="weight", dim=0):
    """The parameter becomes NAME_g, its length along a dimension (None: in all), times the direction of NAME_v."""
    hook = _Weight(name, dim)
    weight = getattr(module, name)
    _hold(module, name, hook)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(hook.length(weight.detach())))
    module.register_parameter(name + "_v", Parameter(weight.detach().clone()))
    hook(module)
    return module


def remove_weight_norm(module, name="weight"):
    """The parameter as it was before weight_norm(), with its value now."""
    hook = _let_go(module, name, "weight_norm")
    made = hook.made(module).detach()
    for part in (name, name + "_g", name + "_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(made))
    return module


class _Spectral:
    kind = "spectral_norm"

    def __init__(self, name, steps, dim, eps):
        self.name, self.steps, self.dim, self.eps = name, steps, dim, eps

    def matrix(self, w):
        return (w if self.dim == 0 else w.movedim(self.dim, 0)).reshape(w.shape[self.dim], -1)

    def made(self, module, steps):
        w, u, v = getattr(module, self.name + "_orig"), getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        m = self.matrix(w)
        with td.no_grad():
            for _ in range(steps):
                v.copy_(F.normalize(m.t().mv(u), dim=0, eps=self.eps))
                u.copy_(F.normalize(m.mv(v), dim=0, eps=self.eps))
        u, v = u.clone(), v.clone()
        return w / td.dot(u, m.mv(v))

    def __call__(self, module):
        setattr(module, self.name, self.made(module, self.steps if module.training else 0))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The parameter becomes NAME_orig over its largest singular value, which NAME_u and NAME_v come nearer to in each forward() of training."""
    if n_power_iterations < 1:
        raise _C.InvalidError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook = _Spectral(name, n_power_iterations, dim, eps)
    weight = getattr(module, name)
    _hold(module, name, hook)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    h, w = hook.matrix(weight.detach()).shape
    for part, n in (("_u", h), ("_v", w)):
        module.register_buffer(name + part, F.normalize(td.randn(n, dtype=weight.dtype, device=weight.device), dim=0, eps=eps))
    setattr(module, name, weight.detach())
    return module


def remove_spectral_norm(module, name="weight"):
    """The parameter with the value that it had in the last forward()."""
    hook = _let_go(module, name, "spectral_norm")
    made = hook.made(module, 0).detach()
    for part in (name, name + "_orig", name + "_u", name + "_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(made))
    return module
