"""What modules that are programs have in common, whether script(), trace(), freeze() or load() made them, or a class that says which of its methods
are programs (_script_method.py)."""
from tensord.program._published import Named
from tensord.nn import Module


class _Kind(type):
    def __new__(cls, name, bases, members, **kw):
        """One's own classes are derived of what makes programs of methods, in the place of ScriptModule."""
        if not members.get("__module__", "").startswith("tensord."):
            from tensord.program._script_method import Written

            bases = tuple(Written if base is ScriptModule else base for base in bases)
        return super().__new__(cls, name, bases, members, **kw)

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made._complete()
        return made


class ScriptModule(Named, Module, metaclass=_Kind):
    """A module that is a program: what script(), trace(), freeze() and load() give of modules. It is not made by itself; a class derived of it
    says by @script_method which of its methods are programs."""

    def __init__(self, *args):
        if hasattr(self, "_program_of_it"):  # called by its name, as older classes do
            return Module.__init__(self)
        raise TypeError("a ScriptModule is not made by itself: td.jit.script(module) makes a program of a module, and so do classes derived of it, with @td.jit.script_method")

    def _complete(self):
        """Behind the last __init__()."""

    @property
    def original_name(self) -> str:
        """The name of the class that it was made of, where that is known."""
        return self.__dict__.get("_original_name") or type(self).__name__

    def define(self, src):
        raise TypeError("a program's methods are those of its module: write them in its class, or take td.jit.CompilationUnit")
