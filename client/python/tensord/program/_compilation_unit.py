"""Programs of a text: td.jit.CompilationUnit. The text is a file of its own to Python, so that what finds the source of a function finds this."""
import __future__

import ast
import itertools
import linecache
import sys
import typing
import weakref

from tensord import _C
from tensord.program._scripted import ScriptFunction

_NUMBERS = itertools.count()
_TYPES = {name: getattr(typing, name) for name in ("Any", "Dict", "List", "NamedTuple", "Optional", "Tuple", "Union")}


class CompilationUnit:
    """Functions that a text defines, each a program: CompilationUnit("def f(x): return x + 1").f(x). Other names are those of where it is made;
    Tensor, List, Optional and their like are known."""

    def __init__(self, lang=None, _frames_up=0):
        self._functions = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang, rcb=None, _frames_up=0):
        """Functions more."""
        frame = sys._getframe(_frames_up + 1)
        names = {**_TYPES, "Tensor": _C.Tensor, **frame.f_globals, **frame.f_locals, **{k: f._function for k, f in self._functions.items()}}
        for name, function in _functions_of(lang, names).items():
            self._functions[name] = ScriptFunction(function)

    def find_function(self, name):
        return self._functions.get(name)

    def get_functions(self):
        return list(self._functions.values())

    def __getattr__(self, name):
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' object has no attribute '{name}'")
        return found


def _functions_of(text, names):
    """What it defines, as functions of Python."""
    if not isinstance(text, str):
        raise TypeError(f"CompilationUnit() takes a text, not {type(text).__name__}")
    file = f"<unit {next(_NUMBERS)}>"
    lines = text.splitlines(True)
    try:
        tree = ast.parse(text, file)
        code = compile(tree, file, "exec", __future__.annotations.compiler_flag, True)
    except SyntaxError as e:
        raise _C.InvalidError(f"{file}:{e.lineno}:{e.offset}: {e.msg}\n    {(e.text or '').rstrip()}\n    {' ' * ((e.offset or 1) - 1)}^") from None
    other = next((node for node in tree.body if not isinstance(node, ast.FunctionDef) or node.decorator_list), None)
    if other is not None:  # it would run, here and now
        raise _C.Unsupported(f"{file}:{other.lineno}:{other.col_offset + 1}: a unit defines functions, without decorators, and does nothing else")
    linecache.cache[file] = len(text), None, lines, file
    before = dict(names)
    exec(code, names)
    made = {k: v for k, v in names.items() if v is not before.get(k) and getattr(v, "__code__", None) is not None and v.__code__.co_filename == file}
    for function in made.values():
        weakref.finalize(function, linecache.cache.pop, file, None)
    return made
