"""What modules that are programs have in common, whether script(), trace(), freeze() or load() made them."""
from ._named import Named
from .nn import Module


class ScriptModule(Named, Module):
    """A module that is a program: what script(), trace(), freeze() and load() give of modules. It is not made by itself, nor a class derived of it."""

    def __init__(self, *args):
        raise TypeError("a ScriptModule is not made by itself: td.jit.script(module) makes a program of a module")

    @property
    def original_name(self) -> str:
        """The name of the class that it was made of, where that is known."""
        return self.__dict__.get("_original_name") or type(self).__name__

    def define(self, src):
        raise TypeError("a program's methods are those of its module: write them in its class, or take td.jit.CompilationUnit")
