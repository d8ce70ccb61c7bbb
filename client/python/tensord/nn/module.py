"""Modules: parameters, buffers and children by name.

Hooks of backward are functions in the graph (autograd.Function) around what forward() is given and what it returns.
"""

import copy
import operator
from collections import OrderedDict, namedtuple
from typing import Any, Callable, Iterator

import tensord as td
from tensord import _C


class Parameter(_C.Tensor):
    """A tensor that a module trains."""

    def __new__(cls, data=None, requires_grad=True):
        data = td.empty(0) if data is None else data.detach() if td.is_tensor(data) else data
        self = super().__new__(cls, data)
        return self.requires_grad_(requires_grad) if requires_grad else self

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = new = type(self)(self.detach().clone(), self.requires_grad)
            new.grad = None if self.grad is None else self.grad.clone()
        return memo[id(self)]

    def __repr__(self):
        return "Parameter containing:\n" + repr(self.detach())[:-1] + (", requires_grad=True)" if self.requires_grad else ")")


class Buffer(_C.Tensor):
    """A tensor that belongs to a module and is not trained: assigned as an attribute, it is registered. persistent=False: state_dict() has it not."""

    persistent = True

    def __new__(cls, data=None, *, persistent=True):
        self = super().__new__(cls, td.empty(0) if data is None else data.detach() if td.is_tensor(data) else data)
        if not persistent:
            self.persistent = False
        return self


def _moved(x, args, kwargs):
    """x.to(...), which changes the dtype of floats alone."""
    y = x.to(*args, **kwargs)
    return y if x.is_floating_point() else x.to(y.device)


def _is_lazy(x):
    """Whether it has no shape yet (parameter.py)."""
    return getattr(type(x), "_lazy", False)


class _Keys(namedtuple("_IncompatibleKeys", "missing_keys unexpected_keys")):
    """What load_state_dict() found to be missing and too much."""

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"


class _Hook:
    """A hook that stands in a dict until remove()."""

    def __init__(self, home, function, prepend=False):
        self._home, self._key = home, object()
        home[self._key] = function
        if prepend:
            home.move_to_end(self._key, last=False)

    def remove(self):
        self._home.pop(self._key, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def _no_forward(self, *input):
    raise NotImplementedError(f"{type(self).__name__} has no forward()")


class Module:
    """What layers are made from: assign Parameters, buffers and Modules as attributes, and write forward()."""

    training: bool
    _parameters: "OrderedDict[str, Parameter | None]"
    _buffers: "OrderedDict[str, _C.Tensor | None]"
    _modules: "OrderedDict[str, Module | None]"

    def __init__(self):
        d = self.__dict__
        d.update(training=True, _before=OrderedDict(), _after=OrderedDict(), _around=(OrderedDict(), OrderedDict()), _parameters=OrderedDict(), _buffers=OrderedDict(), _modules=OrderedDict(), _transient=set())

    forward: Callable[..., Any] = _no_forward  # so that any arguments do in an override

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in list(self._before.values()):
            changed = hook(self, args)
            args = args if changed is None else changed if isinstance(changed, tuple) else (changed,)
        around = self._around
        gate: Any = None
        if around[0] or around[1]:
            from tensord.nn._gates import Gate

            gate = Gate(self, *around)
            args = gate.inputs(args)
        out = self.forward(*args, **kwargs)
        for hook in list(self._after.values()):
            changed = hook(self, args, out)
            out = out if changed is None else changed
        return out if gate is None else gate.outputs(out)

    def register_forward_pre_hook(self, hook):
        """hook(module, args) runs before forward() and may return other args. remove() of what is returned takes it away."""
        return _Hook(self._before, hook)

    def register_forward_hook(self, hook):
        """hook(module, args, output) runs after forward() and may return another output. remove() of what is returned takes it away."""
        return _Hook(self._after, hook)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) runs when a backward has come through the module; may return other grad_input."""
        return _Hook(self._around[0], hook, prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) runs when a backward comes to the module; may return other grad_output."""
        return _Hook(self._around[1], hook, prepend)

    register_backward_hook = register_full_backward_hook

    # ---- attributes

    def __setattr__(self, name, value):
        if "_parameters" not in self.__dict__:
            raise AttributeError("call super().__init__() before assigning attributes of a Module")
        homes: Any = (self._parameters, self._buffers, self._modules)
        home: Any = self._parameters if isinstance(value, Parameter) else self._modules if isinstance(value, Module) else None
        if isinstance(value, Buffer) and name not in self._parameters:
            home = self._buffers
            (self._transient.discard if value.persistent else self._transient.add)(name)
        if home is None and (value is None or td.is_tensor(value)):
            home = next((h for h in homes if name in h), None)
            if home is self._parameters and value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as parameter '{name}' (tensord.nn.Parameter or None expected)")
        for h in homes:
            if h is not home:
                h.pop(name, None)
        if home is None:
            return object.__setattr__(self, name, value)
        self.__dict__.pop(name, None)
        home[name] = value

    def __getattr__(self, name) -> Any:
        for home in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(home, ()):
                return self.__dict__[home][name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def __delattr__(self, name):
        for home in (self._parameters, self._buffers, self._modules):
            if name in home:
                del home[name]
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name, param):
        self.__dict__.pop(name, None)
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        self.__dict__.pop(name, None)
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name, module):
        if module is not None and not isinstance(module, Module):
            raise _C.DTypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module

    add_module = register_module

    # ---- all of them

    def named_modules(self, memo=None, prefix=""):
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + "." * bool(prefix) + name)

    def modules(self):
        return (m for _, m in self.named_modules())

    def named_children(self):
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self):
        return (m for _, m in self.named_children())

    def _named(self, home, prefix, recurse):
        seen = set()
        for prefix, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, x in getattr(module, home).items():
                if x is not None and id(x) not in seen:
                    seen.add(id(x))
                    yield prefix + "." * bool(prefix) + name, x

    def named_parameters(self, prefix="", recurse=True) -> "Iterator[tuple[str, Parameter]]":
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse=True) -> "Iterator[Parameter]":
        return (p for _, p in self.named_parameters("", recurse))

    def named_buffers(self, prefix="", recurse=True) -> "Iterator[tuple[str, _C.Tensor]]":
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse=True) -> "Iterator[_C.Tensor]":
        return (b for _, b in self.named_buffers("", recurse))

    def get_submodule(self, target):
        """The module under a name with dots."""
        at: Any = self
        for name in target.split(".") if target else ():
            if name not in at._modules:
                raise AttributeError(f"{type(at).__name__} has no module `{name}`")
            at = at._modules[name]
        return at

    def get_parameter(self, target):
        """The parameter under a name with dots."""
        home, _, name = target.rpartition(".")
        found = self.get_submodule(home)._parameters.get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no parameter `{target}`")
        return found

    def apply(self, fn):
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise _C.InvalidError(f"training mode is expected to be boolean, not {mode!r}")
        for m in self.modules():
            m.training = mode
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif (g := p.grad) is not None:
                g.zero_()

    def to(self, *args, **kwargs):
        """Floats in another dtype; parameters, their gradients and buffers on another device. Parameters stay the objects that they are."""
        _C.ops.make_full((0,), 0, _C.float32).to(*args, **kwargs)  # a device that is not here is refused also without parameters
        for module in self.modules():
            homes: Any = (module._parameters, module._buffers)
            for home in homes:
                for name, x in home.items():
                    if x is None:
                        continue
                    y = _moved(x.data, args, kwargs)
                    if y.dtype is x.dtype and y.device is x.device:
                        continue
                    if not isinstance(x, Parameter) and not _is_lazy(x):
                        home[name] = y
                        continue
                    grad = x.grad
                    with td.no_grad():
                        x._become(y.requires_grad_(x.requires_grad))
                    x.grad = None if grad is None else _moved(grad, args, kwargs)
        return self

    def share_memory(self):
        """Parameters and buffers in memory that outlives this process and that several may step on at once (Hogwild).

        Every tensor of tensord can be seen by other processes. These stay when this process dies, and a step between another's forward and
        backward is no error. Like to(), before the optimizer is made. Who gets the module (pickled) has the same weights, and a .grad of its own.
        """
        known = {}  # one that stands in several places stays one
        with td.service_memory(), td.racy():
            for module in self.modules():
                for home in (module._parameters, module._buffers):
                    for name, x in home.items():
                        if x is not None and id(x) not in known:
                            y = x.detach().clone()
                            known[id(x)] = x, Parameter(y, x.requires_grad) if isinstance(x, Parameter) else y
                        home[name] = x if x is None else known[id(x)][1]
        return self

    def float(self):
        return self.to(_C.float32)

    def double(self):
        return self.to(_C.float64)

    def half(self):
        return self.to(_C.float16)

    def bfloat16(self):
        return self.to(_C.bfloat16)

    def cpu(self):
        return self.to("cpu")

    def cuda(self, device=None):
        """Refused: there is no CUDA here."""
        raise _C.Unsupported("there is no CUDA here; tensord.cuda.is_available() tells so beforehand")

    # ---- state

    def state_dict(self, *, prefix="") -> "OrderedDict[str, _C.Tensor]":
        state: OrderedDict[str, _C.Tensor] = OrderedDict()
        for prefix, module in self.named_modules(_Never(), prefix[:-1] if prefix.endswith(".") else prefix):
            dot = prefix + "." * bool(prefix)
            for name, p in module._parameters.items():
                if p is not None:
                    state[dot + name] = p if _is_lazy(p) else p.detach()
            for name, b in module._buffers.items():
                if b is not None and name not in module._transient:
                    state[dot + name] = b if _is_lazy(b) else b.detach()
        return state

    @td.no_grad()
    def load_state_dict(self, state_dict, strict=True):
        own = self.state_dict()
        for k, mine in own.items():
            if _is_lazy(mine) and k in state_dict and not _is_lazy(state_dict[k]):
                mine.materialize(tuple(state_dict[k].shape))
        missing, unexpected = [k for k in own if k not in state_dict], [k for k in state_dict if k not in own]
        wrong = [f"{k} has shape {tuple(state_dict[k].shape)}, here it is {own[k].shape}" for k in own
                 if k in state_dict and not _is_lazy(own[k]) and tuple(state_dict[k].shape) != own[k].shape]
        if wrong or (strict and (missing or unexpected)):
            reasons = [f"missing: {', '.join(missing)}"] * bool(missing and strict) + [f"unexpected: {', '.join(unexpected)}"] * bool(unexpected and strict)
            raise _C.InvalidError(f"the state does not fit {type(self).__name__}: " + "; ".join(reasons + wrong))
        for k, mine in own.items():
            if k in state_dict and not _is_lazy(mine):
                mine.copy_(_C.asarray(state_dict[k]))
        return _Keys(missing, unexpected)

    def __deepcopy__(self, memo):
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return new

    # ---- printing

    def extra_repr(self) -> str:
        return ""

    def __repr__(self):
        lines = [f"({n}): " + repr(m).replace("\n", "\n  ") for n, m in self._modules.items()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join([extra] * bool(extra) + lines) + "\n)"


class _Never(set):
    """A module that stands in two places has both names in a state."""

    def __contains__(self, x):
        return False


class Identity(Module):
    """Its input."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Sequential(Module):
    """One after the other."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else ((str(k), m) for k, m in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, k) -> Any:
        modules = list(self._modules.values())
        return type(self)(*modules[k]) if isinstance(k, slice) else modules[k]


_MOST_LAYERS = 10_000  # more is a slip of the pen, and would be built until memory is gone


def layer_count(n, least=0):
    """The number of layers that were asked for. Raises DTypeError when it is no number, InvalidError when there can be no so many."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise _C.DTypeError(f"num_layers should be of type int, got: {type(n).__name__}")
    if not least <= operator.index(n) <= _MOST_LAYERS:
        raise _C.InvalidError(f"num_layers must be from {least} to {_MOST_LAYERS}, got: {str(n)[:20]}")
    return operator.index(n)


class ModuleList(Sequential):
    """A list whose members are found as children."""

    def __init__(self, modules=()):
        super().__init__(*modules)

    def forward(self, *input):  # type: ignore[override]
        raise NotImplementedError("a ModuleList is no layer; call its members")

    def extend(self, modules):
        for m in modules:
            self.append(m)
        return self

    def __getitem__(self, k):
        modules = list(self._modules.values())
        return ModuleList(modules[k]) if isinstance(k, slice) else modules[k]


class ModuleDict(Module):
    """A dict whose values are found as children."""

    def __init__(self, modules=None):
        super().__init__()
        for name, m in dict(modules or {}).items():
            self[name] = m

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __delitem__(self, name):
        del self._modules[name]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, name):
        return name in self._modules

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()


def _print_parameters(module):
    lines = [f"    ({n}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]" for n, p in module._parameters.items()]
    return "\n".join([f"{type(module).__name__}(", *lines, ")"]) if lines else f"{type(module).__name__}()"


class ParameterList(Module):
    """A list of parameters."""

    __repr__ = _print_parameters

    def __init__(self, values=()):
        super().__init__()
        for v in values:
            self.append(v)

    def append(self, value):
        self.register_parameter(str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, k):
        return list(self._parameters.values())[k]


class ParameterDict(Module):
    """A dict of parameters."""

    __repr__ = _print_parameters

    def __init__(self, parameters=None):
        super().__init__()
        for name, p in dict(parameters or {}).items():
            self[name] = p

    def __setitem__(self, name, value):
        self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))

    def __getitem__(self, name):
        return self._parameters[name]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, name):
        return name in self._parameters

    def keys(self):
        return self._parameters.keys()

    def items(self):
        return self._parameters.items()

    def values(self):
        return self._parameters.values()
