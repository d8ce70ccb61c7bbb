"""Hooks of modules: what register_..._hook() returns, and those of all modules at once, which run before a module's own.

    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: print(type(module).__name__, output.shape))

They stand in dicts of this process, so a call asks two dicts that are empty. A hook of registration is shown what any module is given from then on, and
what it returns, if anything, is taken in its place.
"""

from collections import OrderedDict
from typing import Any


class Hook:
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


class WithKwargs:
    """A hook that is shown arguments by their names, too."""

    def __init__(self, function):
        self.function = function


before: "OrderedDict[object, Any]" = OrderedDict()
after: "OrderedDict[object, Any]" = OrderedDict()
around: "tuple[OrderedDict[object, Any], OrderedDict[object, Any]]" = OrderedDict(), OrderedDict()  # behind a module in a backward, and before it
given: "dict[str, OrderedDict[object, Any]]" = {"_parameters": OrderedDict(), "_buffers": OrderedDict(), "_modules": OrderedDict()}


def registered(home, module, name, value):
    """What a module gets as its parameter, buffer or module of this name."""
    for hook in list(given[home].values()) if value is not None or home == "_buffers" else ():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward() of every module, which may return other args."""
    return Hook(before, hook)


def register_module_forward_hook(hook, *, with_kwargs=False):
    """hook(module, args, output) behind the forward() of every module, which may return another output; with_kwargs: hook(module, args, kwargs, output)."""
    return Hook(after, WithKwargs(hook) if with_kwargs else hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) when a backward has come through any module; may return other grad_input."""
    return Hook(around[0], hook)


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) when a backward comes to any module; may return other grad_output."""
    return Hook(around[1], hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) when any module is given one."""
    return Hook(given["_parameters"], hook)


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) when any module is given one."""
    return Hook(given["_buffers"], hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) when any module is given one."""
    return Hook(given["_modules"], hook)
