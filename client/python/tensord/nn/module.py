"""Modules: parameters, buffers and children by name.

Hooks of backward are functions in the graph (autograd.Function) around what forward() is given and what it returns.
"""

import copy
import operator
from collections import OrderedDict
from typing import Any, Callable, Iterator

import tensord as td
from tensord import _C
from tensord.core import _layouts
from tensord.nn._adopted import adopt
from tensord.nn._module_hooks import Hook, WithKwargs, after as _after_all, around as _around_all, before as _before_all, registered
from tensord.nn._state import Never as _Never, State, is_lazy as _is_lazy


class Parameter(_C.Tensor):
    """A tensor that a module trains."""

    def __new__(cls, data=None, requires_grad=True):
        data = td.empty(0) if data is None else data.detach() if td.is_tensor(data) else data
        self = super().__new__(cls, data)
        return self.requires_grad_(requires_grad) if requires_grad else self

    def __deepcopy__(self, memo):
        if type(self) is not Parameter:  # a class of one's own may want more to be called with
            return super().__deepcopy__(memo)
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self):
        try:
            plain, trains = repr(self.detach()), self.requires_grad
        except td.Error:
            return super().__repr__()  # it has no value, and says why
        return "Parameter containing:\n" + plain[:-1] + (", requires_grad=True)" if trains else ")")


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


def _no_forward(self, *input):
    raise NotImplementedError(f"{type(self).__name__} has no forward()")


class Module(State):
    """What layers are made from: assign Parameters, buffers and Modules as attributes, and write forward()."""

    training: bool
    _parameters: "OrderedDict[str, Parameter | None]"
    _buffers: "OrderedDict[str, _C.Tensor | None]"
    _modules: "OrderedDict[str, Module | None]"

    def __init__(self):
        d = self.__dict__
        d.update(training=True, _before=OrderedDict(), _after=OrderedDict(), _around=(OrderedDict(), OrderedDict()), _parameters=OrderedDict(), _buffers=OrderedDict(), _modules=OrderedDict(), _transient=set())

    def __setstate__(self, state):
        if "_before" in state:
            self.__dict__.update(state)
        else:
            adopt(Module, self, state)

    forward: Callable[..., Any] = _no_forward  # so that any arguments do in an override

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in (*_before_all.values(), *self._before.values()) if _before_all or self._before else ():
            if isinstance(hook, WithKwargs):
                both = hook.function(self, args, kwargs)
                if both is not None and (not isinstance(both, tuple) or len(both) != 2):
                    raise _C.Error(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {both}.")
                args, kwargs = both or (args, kwargs)
                continue
            changed = hook(self, args)
            args = args if changed is None else changed if isinstance(changed, tuple) else (changed,)
        around = self._around
        gate: Any = None
        if around[0] or around[1] or _around_all[0] or _around_all[1]:
            from tensord.nn._gates import Gate

            gate = Gate(self, {**_around_all[0], **around[0]}, {**_around_all[1], **around[1]})
            args = gate.inputs(args)
        out = self.forward(*args, **kwargs)
        for hook in (*_after_all.values(), *self._after.values()) if _after_all or self._after else ():
            changed = hook.function(self, args, kwargs, out) if isinstance(hook, WithKwargs) else hook(self, args, out)
            out = out if changed is None else changed
        return out if gate is None else gate.outputs(out)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) runs before forward() and may return other args. remove() of what is returned takes it away.

        prepend: before the others. with_kwargs: hook(module, args, kwargs), which may return (args, kwargs).
        """
        return Hook(self._before, WithKwargs(hook) if with_kwargs else hook, prepend)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args, output) runs after forward() and may return another output. remove() of what is returned takes it away.

        prepend: before the others. with_kwargs: hook(module, args, kwargs, output).
        """
        return Hook(self._after, WithKwargs(hook) if with_kwargs else hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) runs when a backward has come through the module; may return other grad_input."""
        return Hook(self._around[0], hook, prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) runs when a backward comes to the module; may return other grad_output."""
        return Hook(self._around[1], hook, prepend)

    register_backward_hook = register_full_backward_hook

    # ---- attributes

    def __setattr__(self, name, value):
        if "_parameters" not in self.__dict__:
            if isinstance(value, (Parameter, Module, Buffer)):
                raise AttributeError(f"call super().__init__() before assigning a {type(value).__name__} to a Module")
            return object.__setattr__(self, name, value)
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
        home[name] = registered("_parameters" if home is homes[0] else "_buffers" if home is homes[1] else "_modules", self, name, value)

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
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())  # what no program could write behind a dot

    def _may_register(self, what, home, name):
        if not isinstance(name, str):
            raise _C.DTypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if not name or "." in name:
            raise KeyError(f"{what} name can't be empty, or contain \".\", got: {name!r}")
        if name not in home and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        self._may_register("parameter", self._parameters, name)
        if param is not None and not isinstance(param, Parameter):
            raise _C.DTypeError(f"cannot assign {_C._a_type(param)} to parameter '{name}' (a Parameter or None required)")
        self._parameters[name] = registered("_parameters", self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        self._may_register("buffer", self._buffers, name)
        if tensor is not None and not _C.is_tensor(tensor):
            raise _C.DTypeError(f"cannot assign {_C._a_type(tensor)} to buffer '{name}' (a Tensor or None required)")
        self._buffers[name] = registered("_buffers", self, name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name, module):
        if module is not None and not isinstance(module, Module):
            raise _C.DTypeError(f"{type(module).__name__} is not a Module subclass")
        self._may_register("module", self._modules, name)
        self._modules[name] = registered("_modules", self, name, module)

    add_module = register_module

    # ---- all of them

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = (set() if remove_duplicate else _Never()) if memo is None else memo
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
        """Each child once, whatever other names it has."""
        seen = set()
        for name, m in self._modules.items():
            if m is not None and m not in seen:
                seen.add(m)
                yield name, m

    def children(self):
        return (m for _, m in self.named_children())

    def _named(self, home, prefix, recurse, once=True):
        seen: Any = set() if once else _Never()
        for prefix, module in self.named_modules(None if once else _Never(), prefix) if recurse else [(prefix, self)]:
            for name, x in getattr(module, home).items():
                if x is not None and id(x) not in seen:
                    seen.add(id(x))
                    yield prefix + "." * bool(prefix) + name, x

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True) -> "Iterator[tuple[str, Parameter]]":
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True) -> "Iterator[Parameter]":
        return (p for _, p in self.named_parameters("", recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True) -> "Iterator[tuple[str, _C.Tensor]]":
        return self._named("_buffers", prefix, recurse, remove_duplicate)

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
        return self._under(target, "_parameters", "parameter")

    def get_buffer(self, target):
        """The buffer under a name with dots."""
        return self._under(target, "_buffers", "buffer")

    def _under(self, target, home, what):
        place, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(place), home).get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no {what} `{target}`")
        return found

    def set_submodule(self, target, module, strict=False):
        """Put a module under a name with dots, in place of the one there; strict: raises AttributeError when there is none.

        Raises InvalidError for an empty name, DTypeError for what is no module.
        """
        if not target:
            raise _C.InvalidError("Cannot set the submodule without a target name!")
        place, _, name = target.rpartition(".")
        home = self.get_submodule(place)
        if strict and name not in home._modules:
            raise AttributeError(f"{type(home).__name__} has no module `{name}`")
        if not isinstance(module, Module):
            raise _C.DTypeError(f"{type(module).__name__} is not a Module subclass")
        setattr(home, name, module)

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
        """Floats in another dtype; parameters, their gradients and buffers on another device. Parameters stay the objects that they are, and
        lie row after row whatever memory_format says: so convolutions take their weights."""
        _layouts._order(kwargs.pop("memory_format", None) or _layouts.preserve_format, "to")
        _C.ops.make_full((0,), 0, _C.float32).to(*args, **kwargs)  # a device that is not here is refused also without parameters
        return self._apply(lambda x: _moved(x, args, kwargs))

    def _apply(self, fn, recurse=True):
        """What fn makes of each parameter, its gradient, and each buffer, in its place; a module that holds others writes its own."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        homes: Any = (self._parameters, self._buffers)
        for home in homes:
            for name, x in home.items():
                if x is None or (y := fn(now := x.data)) is now:
                    continue
                if not isinstance(x, Parameter) and not _is_lazy(x):
                    home[name] = y
                    continue
                grad = x.grad
                with td.no_grad():
                    x._become(y.requires_grad_(x.requires_grad))
                x.grad = None if grad is None else fn(grad)
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

    def type(self, dst_type):
        """Parameters and buffers, whole numbers too, in another dtype, or in that of a tensor type."""
        dtype = td.empty(0).type(dst_type).dtype
        for module in self.modules():
            for home in (module._parameters, module._buffers):
                for x in home.values():
                    if x is not None and x.dtype is not dtype:
                        with td.no_grad():
                            x._become(x.detach().to(dtype).requires_grad_(x.requires_grad and dtype.is_floating_point))
        return self

    def to_empty(self, *, device, recurse=True):
        """Parameters and buffers on another device, with values that are not set."""
        for module in self.modules() if recurse else [self]:
            for home in (module._parameters, module._buffers):
                for x in home.values():
                    if x is not None:
                        with td.no_grad():
                            x._become(td.empty(x.shape, dtype=x.dtype, device=device).requires_grad_(x.requires_grad))
        return self

    def cpu(self):
        return self.to("cpu")

    def cuda(self, device=None):
        """to() a GPU: the first one, or that of this number."""
        return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)

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


class Identity(Module):
    """Its input."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class _Members(Module):
    """Modules by their places."""

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """append() for each of several."""
        for m in list(modules):
            self.append(m)
        return self

    def insert(self, index, module):
        """The module at this place, the others behind it one place further."""
        if not -len(self) <= index <= len(self):
            raise _C.OutOfRange(f"Index out of range: {index}")
        self._numbered([*(m := list(self))[:index], module, *m[index:]])
        return self

    def pop(self, key):
        """Take away the module at this place, and return it."""
        module = self[key]
        del self[key]
        return module

    def _numbered(self, modules):
        """These from now on, named by their places."""
        for m in modules:
            if m is not None and not isinstance(m, Module):
                raise _C.DTypeError(f"{type(m).__name__} is not a Module subclass")
        self._modules.clear()
        for k, m in enumerate(modules):
            self.add_module(str(k), m)

    def _name_at(self, k):
        if not -len(self) <= operator.index(k) < len(self):
            raise _C.OutOfRange(f"index {k} is out of range")
        return list(self._modules)[k]

    def __setitem__(self, k, module):
        self.add_module(self._name_at(k), module)

    def __delitem__(self, k):
        """Without it; the others are named by their places from then on, if all were."""
        numbered = list(self._modules) == [str(i) for i in range(len(self))]
        for name in [list(self._modules)[i] for i in range(len(self))[k]] if isinstance(k, slice) else [self._name_at(k)]:
            del self._modules[name]
        if numbered:
            self._numbered(list(self))

    def __iadd__(self, other):
        return self.extend(other)

    def __len__(self):
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())


class Sequential(_Members):
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

    def __add__(self, other):
        return type(self)(*self, *other)

    def __mul__(self, times):
        """The same modules, one round after the other."""
        if not isinstance(times, int):
            return NotImplemented
        if times <= 0:
            raise _C.InvalidError(f"Non-positive multiplication factor {times} for {type(self).__name__}")
        return type(self)(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times):
        made = self.__mul__(times)
        return made if made is NotImplemented else self.extend(list(made)[len(self):])

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


class ModuleList(_Members):
    """A list whose members are found as children."""

    def __init__(self, modules=None):
        super().__init__()
        self.extend(() if modules is None else modules)

    def __add__(self, other):
        return type(self)([*self, *other])

    def forward(self, *input):
        raise NotImplementedError("a ModuleList is no layer; call its members")

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

    def pop(self, key):
        """Take away the module of this name, and return it."""
        return self._modules.pop(key)

    def clear(self):
        """Take away all."""
        self._modules.clear()

    def update(self, modules):
        """Those of a dict, or of pairs, in place of those that have their names."""
        for name, m in dict(modules).items():
            self[name] = m

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

    def extend(self, values):
        """append() for each of several."""
        for v in list(values):
            self.append(v)
        return self

    __iadd__ = extend

    def __setitem__(self, k, value):
        name = list(self._parameters)[operator.index(k)]
        self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, k):
        found = list(self._parameters.values())[k]
        return type(self)(found) if isinstance(k, slice) else found


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

    def __delitem__(self, name):
        del self._parameters[name]

    def get(self, key, default=None):
        """The parameter of this name, or the default."""
        return self._parameters.get(key, default)

    def setdefault(self, key, default=None):
        """The parameter of this name, which is put there when there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key):
        """Take away the parameter of this name, and return it."""
        return self._parameters.pop(key)

    def popitem(self):
        """Take away the last one, and return (name, parameter)."""
        return self._parameters.popitem()

    def clear(self):
        """Take away all."""
        self._parameters.clear()

    def update(self, parameters):
        """Those of a dict, or of pairs, in place of those that have their names."""
        for name, p in dict(parameters).items():
            self[name] = p

    def copy(self):
        """Another with the same parameters."""
        return type(self)(self._parameters)

    def fromkeys(self, keys, default=None):
        """Another with the same value for each of these names."""
        return type(self)({k: default for k in keys})

    def __or__(self, other):
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other):
        self.update(other)
        return self

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
