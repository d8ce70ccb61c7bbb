"""Modules as programs."""

import copy
import functools

from tensord.program._script import plain
from tensord.program._module_base import ScriptModule
from tensord.program._parts import state_of, transient_of
from tensord.program._scripted import Scripted
from tensord.program._jit_api import Attribute


class Method(Scripted):
    """A method of such a module. It is made anew when its module is another one: in training or not, with other tensors."""

    def __init__(self, module, name):
        function = plain(getattr(type(module), name))
        functools.update_wrapper(self, function)
        self._module, self._name = module, name
        self._begin(function, name, True)

    def _entry(self, world):
        number = world.object(self._module, "", (self._name,))
        entry = world.objects[number][3].get(self._name)
        if not isinstance(entry, tuple) or entry[0] != "function":
            raise TypeError(f"{type(self._module).__name__} has no {self._name}() that could be a program")
        return entry, plain(getattr(type(self._module), self._name))

    @property
    def _bound(self):
        """For programs that call it."""
        return self._module, self._name

    def __repr__(self):
        return f"<tensord.jit method {self.__qualname__}{self._arguments.signature}>"


def _unpack_attributes(module):
    """Of each td.jit.Attribute its value, and beside it what its type is."""
    for name, value in list(vars(module).items()):
        if isinstance(value, Attribute):
            vars(module).setdefault("_types_of_attributes", {})[name] = value.type
            setattr(module, name, value.value)


class RecursiveScriptModule(ScriptModule):
    """A module as a program; made by tensord.jit.script(). It has the attributes, parameters and state of the module that it was made of."""

    __slots__ = ("_original", "_methods")

    def __init__(self, module):
        object.__setattr__(self, "__dict__", module.__dict__)  # the very same
        for part in module.modules():
            _unpack_attributes(part)
        exported = dict.fromkeys(k for c in type(module).__mro__ for k, v in vars(c).items() if hasattr(v, "_tensord_export"))
        if not isinstance(module, ScriptModule):
            exported = {"forward": None, **exported}
        object.__setattr__(self, "_original", module)
        object.__setattr__(self, "_methods", {name: Method(module, name) for name in exported})

    @property
    def forward(self):
        return self._methods["forward"]

    @property
    def graph(self):  # type: ignore[override]
        """The text of the IR that forward() became."""
        return self._methods["forward"].graph

    @property
    def original_name(self):
        return type(self._original).__name__

    def _daemons(self):
        return self._methods["forward"]._daemons()

    def _parts(self):
        return [part for method in self._methods.values() for part in method._parts()]

    def _state(self):
        own = state_of(self._original)
        kept = {name: x for m in self._methods.values() for name, x in m._world.states.tensors().items() if name not in own}
        return {**kept, **own}, [*transient_of(self._original), *kept]

    def _alone(self):
        return self._methods["forward"]._alone()

    def _asks(self, args, kwargs):
        return self._methods["forward"]._asks(args, kwargs)

    @property
    def schema(self):
        return self._methods["forward"].schema

    def __getattr__(self, name):
        return self._methods[name] if name in self._methods else super().__getattr__(name)

    def __copy__(self):
        return RecursiveScriptModule(copy.copy(self._original))

    def __deepcopy__(self, memo):
        return RecursiveScriptModule(copy.deepcopy(self._original, memo))

    def __reduce__(self):
        """The module that it was made of, and made of that again there."""
        return RecursiveScriptModule, (self._original,)

    def __repr__(self):
        return f"ScriptModule({self._original!r})"
