"""Programs: functions that the daemon runs by itself, in one message instead of one for each op.

    import tensord as td

    @td.jit.script
    def step(x, w, n: int = 3):
        for i in range(n):
            x = td.relu(x @ w)
        if x.sum() > 0:
            x = x / x.sum()
        return x

    y = step(x, w)          # runs in the daemon: loop, branch and all
    y.sum().backward()      # gradients flow through it
    print(step.graph)       # the IR that it became

A module is a program too: td.jit.script(model) runs forward() and what is marked with @td.jit.export in the daemon, with
the parameters and buffers that the model has, so that training one trains the other.

A function is written in a subset of Python, with types as annotations (a parameter without one is a Tensor); what a
program cannot do is refused where the function is decorated, with line, column and what to write instead. What it
computes, its errors, and its gradients are those of the same calls made one by one.

A step of training is a program, too: loss.backward(), .grad, td.autograd.grad() and an optimizer's zero_grad() and step() may stand
in it, and leave what they leave outside.

trace() makes a program of what any function, or a module, does with examples:

    p = td.jit.trace(model, (x,))
    y = p(x)

Programs live on in files (p.save("model.td"), td.jit.load("model.td")) and under names (p.publish("model"), td.jit.open("model")).
"""
import functools
import importlib
import types
import typing
from typing import Any

from tensord import _C
from tensord.core import _aliases
from tensord.program import _classes, _namedtuples
from tensord.program._published import Named, OpenedProgram, open, timeout
from tensord.program._scripted import ScriptFunction
from tensord.program._jit_api import Attribute, Future, export_opnames, fork, interface, is_tracing, wait

__all__ = ["Attribute", "CompilationUnit", "Error", "Final", "FrozenModule", "Future", "LoadedProgram", "OpenedProgram", "RecursiveScriptModule",
           "ScriptFunction", "ScriptModule", "ScriptWarning", "TopLevelTracedModule", "TracedFunction", "TracedModule", "TracerWarning",
           "TracingCheckError", "annotate", "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "fuser", "ignore", "interface",
           "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "open", "optimize_for_inference", "optimized_execution",
           "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "timeout", "trace",
           "trace_module", "unused", "wait"]

Final = typing.Final
Error = _C.Error
_aliases.put(__name__, typing, {"annotations": "Any Callable Dict List Optional Tuple Union " + " ".join(f"BroadcastingList{n}=List" for n in range(1, 7))})


class ScriptWarning(Warning):
    """PyTorch's, for those who filter it."""


def script(obj: Any, optimize=None) -> Any:
    """A function or a module as a program, to be called as it is.

    Tensors that it names from outside (globals, variables of a function around it, parameters and buffers) are captured: later
    runs see what is written to them. Numbers, bools and texts are constants, as they are now. Functions that it calls become
    parts of it. An optimizer of tensord.optim is captured with its state, and with the learning rate that it has at each call.
    Of a module forward() is made a program, and what is marked with export(); a ScriptModule has the parameters
    and the state of the module that it was made of, and is made anew when that one goes from training to eval(). `optimize` is taken for PyTorch's sake."""
    if isinstance(obj, types.FunctionType):
        return ScriptFunction(obj)
    if isinstance(obj, Named) or _classes.is_class(obj):
        return obj  # a program already, or a class, which programs know by its source
    if hasattr(obj, "_modules") and hasattr(obj, "_buffers"):
        from tensord.program._modules import RecursiveScriptModule

        return RecursiveScriptModule(obj)
    raise TypeError(f"script() takes a function or a module, not {type(obj).__name__}")


def script_if_tracing(fn):
    """A function that runs as it stands, and in a trace is a program, so that the trace has its loops and branches."""
    program = None

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        nonlocal program
        if not is_tracing():
            return fn(*args, **kwargs)
        if program is None:
            program = script(fn)
        return program(*args, **kwargs)

    wrapper._function = fn  # what a program calls
    return wrapper


_script_if_tracing = script_if_tracing  # as model zoos call it


def export(fn):
    """A method that is a program too, beside forward()."""
    fn._tensord_export = True
    return fn


def ignore(fn=None, **kwargs):
    """A function that stays in Python. A program that calls it is refused."""
    if fn is None or isinstance(fn, bool):
        return ignore
    fn._tensord_refused = f"'{fn.__name__}' is ignored by programs; call it outside, and give its result as an argument"
    return fn


def unused(fn):
    """A function that no program runs: a call of it there is a RuntimeError."""
    fn._tensord_unused = True
    return fn


def _overload(fn):
    """One of the forms of a function; programs know them by its calls."""
    _namedtuples.OVERLOADED.add((fn.__module__, fn.__qualname__))
    return fn


_overload_method = _overload


def annotate(the_type, the_value):
    """The value; a program takes it as one of this type: td.jit.annotate(list[int], [])."""
    return the_value


def _unwrap_optional(x):
    assert x is not None, "Unwrapping null optional"
    return x


def is_scripting():
    """True in a program, and False elsewhere."""
    return False


def __getattr__(name):
    if name == "RecursiveScriptModule":
        from tensord.program._modules import RecursiveScriptModule

        return RecursiveScriptModule
    if name == "ScriptModule":
        from tensord.program._module_base import ScriptModule

        return ScriptModule
    if name == "script_method":
        from tensord.program._script_method import script_method

        return script_method
    if name == "CompilationUnit":
        from tensord.program._compilation_unit import CompilationUnit

        return CompilationUnit
    if name in ("LoadedProgram", "load", "save"):
        from tensord.program import _archive

        return getattr(_archive, name)
    if name in ("FrozenModule", "freeze", "optimize_for_inference", "run_frozen_optimizations"):
        from tensord.program import _frozen

        return getattr(_frozen, name)
    if name in ("enable_onednn_fusion", "fuser", "onednn_fusion_enabled", "optimized_execution", "set_fusion_strategy", "strict_fusion"):
        return getattr(importlib.import_module("tensord._fusers"), name)
    if name == "isinstance":
        from tensord.program._isinstance import isinstance as is_of

        return is_of
    if name in __all__:
        from tensord.program import _trace

        return getattr(_trace, name)
    from tensord.core import _absent

    return _absent.of(__name__)(name)
