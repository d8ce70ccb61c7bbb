"""Modules of the package by the names that they had: pickles and files name the module of each function and class that they hold."""

import importlib
from importlib.machinery import ModuleSpec

_NOW = {
    "_absent": "core._absent",
    "_compose": "core._composed",
    "_created": "core._creation",
    "_foreach": "core._foreach",
    "_foreign": "core._interop",
    "_forking": "core._forking",
    "_formats": "core._layouts",
    "_math": "core._numeric",
    "_more": "core._overloads",
    "_paths": "core._aliases",
    "_pickle": "core._pickling",
    "_random": "core._generators",
    "_repr": "core._repr",
    "_sampled": "core._sampling",
    "_spans": "core._overlapping",
    "_storage": "core._storage",
    "_hooks": "autograd._hooks",
    "_saved": "autograd._saved_tensors",
    "_graph": "autograd._picture",
    "_queue": "share._queue",
    "_carry": "share._codec",
    "_lent": "share._loans",
    "_launch": "share._launch",
    "_save": "files._save",
    "_whole": "files._objects",
    "_program": "program._plan",
    "_named": "program._published",
    "_filed": "program._archive",
    "_trace": "program._trace",
    "_stepwise": "program._loops",
    "_turns": "program._mutex",
    "_script": "program._script",
    "_script_base": "program._module_base",
    "_script_classes": "program._classes",
    "_script_frozen": "program._frozen",
    "_script_module": "program._modules",
    "_script_named": "program._namedtuples",
    "_script_optim": "program._optimizers",
    "_script_program": "program._scripted",
    "_script_schema": "program._schema",
    "_script_several": "program._unions",
    "_script_states": "program._state",
    "_script_traced": "program._traced",
    "_script_types": "program._isinstance",
    "_script_unit": "program._compilation_unit",
    "_script_uses": "program._escapes",
    "_script_usual": "program._jit_api",
    "_script_written": "program._script_method",
    "_functions": "nn._toplevel",
    "nn._more_losses": "nn._composed_losses",
    "optim._more_optimizers": "optim._composed",
    "_averages": "_size_average",
}


class _Loader:
    """A module of the old name asks that of today for each attribute."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        now = importlib.import_module("tensord." + _NOW[module.__name__.removeprefix("tensord.")])
        module.__getattr__ = lambda name: getattr(now, name)


def find(name):
    """The spec of such a module, or None."""
    return ModuleSpec(name, _Loader) if name.removeprefix("tensord.") in _NOW else None  # type: ignore[arg-type]
