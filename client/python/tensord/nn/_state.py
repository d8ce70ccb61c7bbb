"""What a module keeps and takes: state_dict() and load_state_dict(), and the methods and hooks by which a class does its part of them in its own way.

A state is taken as a whole or not at all: all of it is looked at before the first value is copied. A class that takes its part itself
(`_load_from_state_dict`) does so while that goes on, so what it has copied stays where another part does not fit.
"""

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

import tensord as td
from tensord import _C
from tensord.nn._module_hooks import Hook

_EXTRA = "_extra_state"  # PyTorch's name


def is_lazy(x):
    """Whether it has no shape yet (parameter.py)."""
    return getattr(type(x), "_lazy", False)


class Never(set):
    """A module that stands in two places has both names in a state."""

    def __contains__(self, x):
        return False


class _Keys(namedtuple("_IncompatibleKeys", "missing_keys unexpected_keys")):
    """What load_state_dict() found to be missing and too much."""

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"


def _misfits(own, given):
    """{name: why} of what is no tensor, or has another shape than is held under that name; what has no shape yet gets one. Arrays in `given` become tensors."""
    wrong = {}
    for name, (home, key) in own.items():
        if name not in given:
            continue
        if not _C.is_tensor(given[name]) and not is_lazy(given[name]):
            try:
                if not hasattr(given[name], "shape"):
                    raise _C.DTypeError("a tensor or an array is expected")
                given[name] = _C.asarray(given[name])
            except _C.DTypeError as e:
                wrong[name] = f"{name} is {_C._a_type(given[name])}: {e}"
                continue
        if is_lazy(home[key]):
            if not is_lazy(given[name]):
                home[key].materialize(tuple(given[name].shape))
        elif tuple(given[name].shape) != home[key].shape:
            wrong[name] = f"{name} has shape {tuple(given[name].shape)}, here it is {home[key].shape}"
    return wrong


def _take(own, given, assign):
    for name, (home, key) in own.items():
        mine = home[key]
        if name not in given or is_lazy(mine):
            continue
        if assign:
            value = given[name].detach()
            home[key] = td.nn.Parameter(value, mine.requires_grad) if isinstance(mine, td.nn.Parameter) else value
        else:
            mine.detach().copy_(given[name])


def _dotted(place):
    return place + "." * bool(place)


class State:
    """The part of a Module that is about its state."""

    _version: "int | None" = 1  # of how a class writes its part; a class that reads older ones is told theirs
    _parameters: Any
    _buffers: Any
    _modules: Any
    _transient: Any
    named_modules: Any

    def _held_in_state(self):
        """(the dict that holds it, its key) of what a state has of this module alone."""
        homes: Any = (self._parameters, self._buffers)
        return [(home, key) for home in homes for key, x in home.items() if x is not None and (home is homes[0] or key not in self._transient)]

    def _own(self, prefix):
        return {prefix + key: (home, key) for home, key in self._held_in_state()}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Writes the part of this module alone. For a class that writes its own in another way."""
        for home, name in self._held_in_state():
            destination[prefix + name] = home[name] if keep_vars or is_lazy(home[name]) else home[name].detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(self, *, destination=None, prefix="", keep_vars=False) -> "OrderedDict[str, Any]":
        """Parameters and buffers by their names, detached (keep_vars=True: as they are), over the same memory; into `destination`, where there is one.
        Its `_metadata` tells the version of each module's part; of files, those that end with .pt keep it."""
        state: Any = destination
        if destination is None:
            state = OrderedDict()
            state._metadata = OrderedDict()
        places, told = list(self.named_modules(Never(), prefix[:-1] if prefix.endswith(".") else prefix)), {}
        for place, module in places:
            told[place] = {"version": module._version}
            for hook in module._state_hooks("before"):
                hook(module, _dotted(place), keep_vars)
            module._save_to_state_dict(state, _dotted(place), keep_vars)
        if hasattr(state, "_metadata"):
            state._metadata.update(told)
        for place, module in places:
            for hook in module._state_hooks("after"):
                hook(module, state, _dotted(place), told[place])
        return state

    def get_extra_state(self) -> Any:
        """Write it, and set_extra_state(), where a state has more than tensors: what it returns is kept as `_extra_state`."""
        raise _C.Error("Reached a code path in Module.get_extra_state() that should never be called: a class that has one writes it itself")

    def set_extra_state(self, state) -> None:
        """Given by load_state_dict() what get_extra_state() returned."""
        raise _C.Error("Reached a code path in Module.set_extra_state() that should never be called: a class that has one writes it itself")

    def _state_hooks(self, when):
        return list(self.__dict__.get("_hooks_of_state", {}).get(when, {}).values())

    def _hook_state(self, when, hook):
        return Hook(self.__dict__.setdefault("_hooks_of_state", {}).setdefault(when, OrderedDict()), hook)

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) runs before state_dict() looks at the module."""
        return self._hook_state("before", hook)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) runs behind state_dict(), and may change what it returns."""
        return self._hook_state("after", hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) runs before load_state_dict() looks at
        what it was given, a copy of the dict that the hook may change."""
        return self._hook_state("load", hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """The same by its older name: the hook is given no module unless with_module."""
        return self.register_load_state_dict_pre_hook(hook if with_module else lambda module, *args: hook(*args))

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) runs behind load_state_dict(), before keys that are missing or too much are an error; it may change their lists."""
        return self._hook_state("loaded", hook)

    def _before_load(self, *given):
        """What load_state_dict() does for this module first, with the arguments of _load_from_state_dict()."""
        for hook in self._state_hooks("load"):
            hook(self, *given)

    def _is_of_it(self, prefix, name):
        """Whether a name under its prefix is of this module, and of none in it."""
        return name.startswith(prefix) and name[len(prefix):].partition(".")[0] not in self._modules

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Takes the part of this module alone. For a class that reads its own in another way, and may call this one for the rest."""
        self._before_load(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own, extra = self._own(prefix), type(self).set_extra_state is not State.set_extra_state
        wrong = _misfits(own, state_dict)
        names = [*own, *[prefix + _EXTRA] * extra]
        error_msgs.extend(wrong.values())
        if strict:
            missing_keys.extend(k for k in names if k not in state_dict)
            unexpected_keys.extend(k for k in state_dict if k not in names and self._is_of_it(prefix, k))
        _take({k: v for k, v in own.items() if k not in wrong}, state_dict, local_metadata.get("assign_to_params_buffers", False))
        if extra and prefix + _EXTRA in state_dict:
            self.set_extra_state(state_dict[prefix + _EXTRA])

    @td.no_grad()
    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Take the values of a state, also of arrays. Returns which keys are missing and too much, which is InvalidError when `strict`, as another shape is always.

        assign: the module has the tensors of the state from then on, with their dtypes and devices, as parameters that require grad as its own did.
        """
        if not isinstance(state_dict, Mapping):
            raise _C.DTypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        given: Any = OrderedDict(state_dict)
        told = given._metadata = getattr(state_dict, "_metadata", None) or {}
        keys, wrong = _Keys([], []), []
        own, extra, apart = {}, {}, []
        places = list(self.named_modules(Never()))
        for place, module in places:
            prefix = _dotted(place)
            args = given, prefix, dict(told.get(place) or {}, assign_to_params_buffers=assign), True, *keys, wrong  # strict, to hear of all
            if type(module)._load_from_state_dict is not State._load_from_state_dict:
                apart.append((prefix, module))
                module._load_from_state_dict(*args)
                continue
            module._before_load(*args)
            own.update(module._own(prefix))
            if type(module).set_extra_state is not State.set_extra_state:
                extra[prefix + _EXTRA] = module
        wrong += _misfits(own, given).values()
        keys.missing_keys.extend(k for k in (*own, *extra) if k not in given)
        keys.unexpected_keys.extend(k for k in given if k not in own and k not in extra and not any(m._is_of_it(prefix, k) for prefix, m in apart))
        if not wrong:
            for _, module in places:
                for hook in module._state_hooks("loaded"):
                    hook(module, keys)
        missing, unexpected = keys
        if wrong or (strict and (missing or unexpected)):
            reasons = [f"missing: {', '.join(missing)}"] * bool(missing and strict) + [f"unexpected: {', '.join(map(str, unexpected))}"] * bool(unexpected and strict)
            raise _C.InvalidError(f"the state does not fit {type(self).__name__}: " + "; ".join(reasons + wrong))
        _take(own, given, assign)
        for k, module in extra.items():
            if k in given:
                module.set_extra_state(given[k])
        return keys
