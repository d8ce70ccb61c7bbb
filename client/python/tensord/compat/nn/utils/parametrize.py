"""Parameters and buffers that are worked out of others at each look: `module.weight` becomes f(module.parametrizations.weight.original).

A module with such has a class of its own, made of its first one and the names, whose properties do it. Classes are never changed once they are made, so
copies share them, and other processes make them anew from the same two things.
"""

import contextlib
import copyreg
import threading
from typing import Any

import tensord as td
from tensord import _C
from tensord.nn.module import ModuleDict, ModuleList, Parameter


class _Kept(threading.local):
    depth = 0  # of cached() inside each other

    def __init__(self):
        self.values = {}


_kept = _Kept()


@contextlib.contextmanager
def cached():
    """Inside it each tensor is worked out once, at its first look, however often it is looked at. Of this thread alone."""
    _kept.depth += 1
    try:
        yield
    finally:
        _kept.depth -= 1
        if not _kept.depth:
            _kept.values.clear()


def _put(original, value):
    """The same object with this value from now on, whatever shape it has. An optimizer may hold it."""
    with td.no_grad():
        if original.shape == value.shape and original.dtype is value.dtype:
            original.copy_(value)
        else:
            original._become(value.detach().clone().requires_grad_(original.requires_grad))


def _check_dtype(dtype, tensor, subject):
    if tensor.dtype is not dtype:
        raise _C.InvalidError(f"{subject} may not change the dtype: it is {dtype}, and becomes {tensor.dtype}")


class ParametrizationList(ModuleList):
    """What one tensor is worked out of, and by which modules, one after the other.

    The first module with a right_inverse() that returns several tensors makes several originals: original0, original1, ...; else there is `original`.
    Raises InvalidError where dtype or shape would change, unless `unsafe`.
    """

    def __init__(self, modules, original, unsafe=False):
        modules = list(modules)
        if not modules:
            raise _C.InvalidError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype, new = original.shape, original.dtype, original
        with td.no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass  # it has one in some of its forms
        if not td.is_tensor(new) and not isinstance(new, (list, tuple)):
            raise _C.InvalidError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}")
        self.is_tensor = td.is_tensor(new)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            _check_dtype(dtype, new, "right_inverse() that returns one tensor")
            if new is not original:
                _put(original, new)
            self._hold("original", original)
        else:
            for k, part in enumerate(new):
                if not td.is_tensor(part):
                    raise _C.InvalidError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {k} of the sequence with type {type(part).__name__}.")
                part = part.detach().clone()
                self._hold(f"original{k}", Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part)
        if not unsafe:
            made: Any = self()
            if not td.is_tensor(made):
                raise _C.InvalidError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
            _check_dtype(dtype, made, "Registering a parametrization")
            if made.shape != shape:
                raise _C.InvalidError(f"Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag is enabled.\n"
                                      f"unparametrized tensor.shape: {shape}\nparametrized tensor.shape: {made.shape}")

    def _hold(self, name, tensor):
        (self.register_parameter if isinstance(tensor, Parameter) else self.register_buffer)(name, tensor)

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{k}") for k in range(self.ntensors)]

    def right_inverse(self, value):
        """Give the originals what makes this value. Raises Error when a module has no right_inverse(), InvalidError when what it returns is not of their kind."""
        with td.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise _C.Error(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor and not td.is_tensor(value):
                raise _C.InvalidError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            if not self.is_tensor and not isinstance(value, (list, tuple)):
                raise _C.InvalidError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            parts = [value] if self.is_tensor else value
            if len(parts) != self.ntensors:
                raise _C.InvalidError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length {len(parts)}.")
            originals = self._originals()
            for k, (original, part) in enumerate(zip(originals, parts)):
                if not td.is_tensor(part):
                    raise _C.InvalidError(f"`right_inverse` must return a sequence of tensors. Got element {k} of type {type(part).__name__}")
                _check_dtype(original.dtype, part, "right_inverse()")
            for original, part in zip(originals, parts):
                _put(original, part)

    def forward(self) -> Any:  # type: ignore[override]
        first, *others = self
        made = first(*self._originals())
        for module in others:
            made = module(made)
        return made


def _looked_up(name):
    def get(self):
        if not _kept.depth:
            return self.parametrizations[name]()
        at = id(self), name
        if at not in _kept.values:
            _kept.values[at] = self.parametrizations[name]()
        return _kept.values[at]

    def put(self, value):
        _kept.values.pop((id(self), name), None)
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


class _Parametrized:
    """What the classes of parametrized modules have beside properties."""

    _base: type
    _names: tuple

    def __setattr__(self, name, value):
        if name in self._names and isinstance(value, Parameter):
            raise KeyError(f"attribute '{name}' already exists")
        super().__setattr__(name, value)

    def __reduce_ex__(self, protocol):
        _, _, *state = super().__reduce_ex__(max(2, int(protocol)))  # type: ignore[misc]
        return _born, (self._base, self._names), *state


def _class_of(base, names):
    members = {"_base": base, "_names": names, "__module__": base.__module__, **{name: _looked_up(name) for name in names}}
    return type("Parametrized" + base.__name__, (_Parametrized, base), members)


def _born(base, names):
    return copyreg.__newobj__(_class_of(base, names))  # type: ignore[attr-defined]


def _set_names(module, names):
    """Which tensors of the module are worked out."""
    base = type_before_parametrizations(module)
    module.__class__ = _class_of(base, tuple(names)) if names else base


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on the parameter or buffer is what this module makes of it, or of what is made of it already. Returns the module.

    `parametrization.right_inverse(tensor)`, if there is one, makes the original out of the value that was there, and of what is assigned later.
    Raises InvalidError when there is no such tensor, and when its shape or dtype would change (unsafe=True: nothing is looked at).
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held = module.parametrizations[tensor_name]
        if not unsafe:
            before: Any = getattr(module, tensor_name)
            _check_one(before, parametrization(before), "A parametrization", "Registering a parametrization")
            if hasattr(parametrization, "right_inverse"):
                try:
                    _check_one(before, parametrization.right_inverse(parametrization(before)), "parametrization.right_inverse", "right_inverse()")
                except NotImplementedError:
                    pass
        held.append(parametrization)
        held.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = made
        _set_names(module, list(module.parametrizations))
    else:
        raise _C.InvalidError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def _check_one(before, made, maker, subject):
    if not td.is_tensor(made):
        raise _C.InvalidError(f"{maker} must return a tensor. Got {type(made).__name__}.")
    _check_dtype(before.dtype, made, subject)
    if made.shape != before.shape:
        raise _C.InvalidError(f"{subject} may not change the shape of the tensor, unless the `unsafe` flag is enabled: it is {before.shape}, and becomes {made.shape}")


def is_parametrized(module, tensor_name=None):
    """Whether this tensor of the module is worked out; without a name, whether any is."""
    held = module._modules.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The tensor as an own one again: with the value that it had, or, leave_parametrized=False, with that of its one original. Returns the module.

    The original stays the object that it was, so an optimizer goes on with it. Raises InvalidError for a tensor that is not parametrized, and where
    several originals are to be left as they are.
    """
    if not is_parametrized(module, tensor_name):
        raise _C.InvalidError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        left = held.original
        if leave_parametrized:
            _put(left, getattr(module, tensor_name))
    elif leave_parametrized:
        value: Any = getattr(module, tensor_name)
        left = Parameter(value) if value.requires_grad else value
    else:
        raise _C.InvalidError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors.")
    del module.parametrizations[tensor_name]
    _set_names(module, list(module.parametrizations))
    if not len(module.parametrizations):
        del module.parametrizations
    (module.register_parameter if isinstance(left, Parameter) else module.register_buffer)(tensor_name, left)
    return module


def type_before_parametrizations(module):
    """The class that the module had."""
    return module._base if isinstance(module, _Parametrized) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """The other module gets the parametrizations, as the same modules, and the originals of one tensor, or of all. Returns it."""
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations) if is_parametrized(from_module) else []
    for name in names:
        if not is_parametrized(from_module, name):
            raise _C.InvalidError(f"Module {type(from_module).__name__} does not have a parametrization on {name}")
        held = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            to_module.register_parameter(name, Parameter(getattr(from_module, name)))
        for parametrization in held:
            register_parametrization(to_module, name, parametrization)
        theirs = to_module.parametrizations[name]
        for part in ["original"] if held.is_tensor else [f"original{k}" for k in range(held.ntensors)]:
            theirs._hold(part, getattr(held, part))
    return to_module


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations", "transfer_parametrizations_and_params",
           "type_before_parametrizations"]
