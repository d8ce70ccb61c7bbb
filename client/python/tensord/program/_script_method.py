"""Classes of modules that say which of their methods are programs, as PyTorch had it before script():

    class Scaled(td.jit.ScriptModule):
        @td.jit.script_method
        def forward(self, x):
            return x * self.weight

An object is an ordinary module, beside which stands the program that script() makes of such a one (_modules.py), of the same attributes. It is made
behind the last __init__(), so that what is refused is refused there. Methods without the mark stay in Python.
"""
import copy
import functools

from tensord.program._module_base import ScriptModule
from tensord.nn import Module


class script_method:
    """A method of a class derived of ScriptModule that is a program."""

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self._function, self._tensord_export = fn, True

    def __get__(self, instance, owner=None):
        return self if instance is None else instance._program_of_it()._methods[self._function.__name__]


class Written(ScriptModule):
    """What such classes are derived of."""

    __slots__ = ("_whole",)

    def __init__(self):
        Module.__init__(self)

    def _complete(self):
        self._program_of_it()

    def _program_of_it(self):
        whole = getattr(self, "_whole", None)
        if whole is None:
            from tensord.program._modules import RecursiveScriptModule

            whole = RecursiveScriptModule(self)
            object.__setattr__(self, "_whole", whole)
        return whole

    __call__ = Module.__call__

    def _of_forward(self):
        """The program behind forward(), for those who publish or save it."""
        if not isinstance(vars_of(type(self)).get("forward"), script_method):
            raise TypeError(f"forward() of {type(self).__name__} is no program: mark it with @td.jit.script_method")
        return self._program_of_it()

    @property
    def graph(self):  # type: ignore[override]
        return self._of_forward().graph

    @property
    def schema(self):
        return self._of_forward().schema

    def _daemons(self):
        return self._of_forward()._daemons()

    def _asks(self, args, kwargs):
        return self._of_forward()._asks(args, kwargs)

    def _alone(self):
        return self._of_forward()._alone()

    def _states_count(self):
        return self._of_forward()._states_count()

    def _parts(self):
        return self._program_of_it()._parts()

    def _state(self):
        return self._program_of_it()._state()

    def __copy__(self):
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo):
        memo[id(self)] = made = type(self).__new__(type(self))
        made.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return made

    def __getstate__(self):
        return self.__dict__

    __repr__ = Module.__repr__


def vars_of(cls):
    """All that a class and those above it have."""
    found = {}
    for each in reversed(cls.__mro__):
        found.update(vars(each))
    return found
