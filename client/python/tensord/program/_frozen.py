"""Frozen modules: programs whose parameters and buffers are constants of their own."""
import itertools

from tensord import _C
from tensord.program._archive import LoadedProgram
from tensord.program._published import Named
from tensord.nn import Module


class FrozenModule(LoadedProgram):
    """A module for inference; made by tensord.jit.freeze(). What it was made of may change, and go."""

    __slots__ = ()

    def __repr__(self):
        return f"<tensord.jit.FrozenModule: {', '.join(map(repr, self._programs.values()))}>"


def _attribute(module, name):
    """What a name means in a module; names of modules within modules have dots."""
    for part in name.split("."):
        if not hasattr(module, part):
            raise AttributeError(f"freeze(): the module has no attribute or method '{name}' that could be preserved")
        module = getattr(module, part)
    return module


def _kept(module, preserved):
    """The names of methods, and {name: value} of attributes; of a module within it, those of all that it has."""
    methods, attributes = ["forward"], {}
    for name in preserved:
        value = _attribute(module, name)
        if isinstance(value, Named) and not isinstance(value, Module) or callable(value) and not isinstance(value, Module):
            methods.append(name)
        elif isinstance(value, Module):
            attributes.update({f"{name}.{k}": v for k, v in itertools.chain(value.named_parameters(), value.named_buffers())})
        else:
            attributes[name] = value
    return methods, attributes


class _Freezing:
    """The state of a frozen module, as its programs are added."""

    def __init__(self, name, attributes, tensors, exactly):
        self.name_of_module = name
        self.attributes, self.tensors, self.exactly = attributes, tensors, exactly
        self.state = {name: value for name, value in attributes.items() if _C.is_tensor(value)}
        self.transient, self.programs = [], []

    def add(self, part):
        kept = tuple(name for name, tensor in part.captured.items() if self.state.get(name) is tensor)
        frozen = _C._program_freeze(_C._Program(part.graph, tuple(part.captured.values())), kept, self.exactly)
        graph = _C._program_text(frozen)[0]
        names = [self.name(name, part, tensor) for name, tensor in zip(_C._names_in(graph)[1], _C._program_captured(frozen))]
        for name in (state["tensor"] for state in (part.call or {}).get("states", ()) if "tensor" in state):
            if name not in self.state:  # which programs assign: the frozen module's own from now on
                self.state[name] = self.tensors[name].detach().clone()
                self.transient.append(name)
        self.programs.append((part.name, graph, names, part.call))

    def name(self, name, part, tensor):
        """Where a constant is found; a second method has others under the same names."""
        if name in self.attributes and part.captured.get(name) is self.attributes[name]:
            return name
        free = next(n for n in itertools.chain([name], (f"{part.name}.{name}_{k}" for k in itertools.count(2))) if n not in self.state)
        self.state[free] = tensor
        self.transient.append(free)
        return free

    def module(self):
        made = FrozenModule(self.state, [(name, graph, names, {**(call or {}), "transient": self.transient}) for name, graph, names, call in self.programs])
        made.__dict__.update(training=False, _original_name=self.name_of_module)
        made.__dict__.update({name: value for name, value in self.attributes.items() if not _C.is_tensor(value) and "." not in name})
        return made


def freeze(mod, preserved_attrs=None, optimize_numerics: bool = True):
    """A module of script() or trace() for inference: its parameters and buffers become constants.

    Each is a copy, so that training goes on beside it, and the memory of the module that it was made of can go; tensors of several names
    are one. What is computed of constants alone is computed once, now, and batch norms behind convolutions and linear layers go into their weights,
    as do constants that these are multiplied with, or that are added; so what is divided by 0 may come as nan, and not as inf.
    That changes last bits: with optimize_numerics=False results are those of the module, to the bit. No gradient comes to constants; through
    them it does. Of methods forward() is left, and those that preserved_attrs names; an attribute that it names stays what it is in the module, as do
    tensors that the programs write; attributes that they assign, and lists that they may change, become the frozen module's own, and go on from what they are now. The module has to be in eval mode. What comes is saved, published and called as programs are."""
    if not isinstance(mod, Named) or not isinstance(mod, Module):
        raise TypeError("Freezing expects a program that is a module: use td.jit.script or td.jit.trace to make one of your 'nn.Module'")
    if mod.training and not isinstance(mod, LoadedProgram):
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing.")
    methods, attributes = _kept(mod, preserved_attrs or ())
    freezing = _Freezing(mod.original_name, attributes, mod._state()[0], not optimize_numerics)
    for part in mod._parts():
        if part.name in methods:
            freezing.add(part)
    return freezing.module()


def optimize_for_inference(mod, other_methods=None):
    """The module frozen (freeze(); it is put into eval mode), with the methods that other_methods names; one that is frozen is as fast as it gets."""
    return mod if isinstance(mod, FrozenModule) else freeze(mod.eval(), other_methods)


def run_frozen_optimizations(mod, optimize_numerics: bool = True, preserved_methods=None) -> None:
    """Nothing is left to do behind freeze()."""
    if not isinstance(mod, FrozenModule):
        raise TypeError("run_frozen_optimizations() takes what td.jit.freeze() gave")
