"""Classes of one's own in programs: what __init__() sets are the fields of a named tuple, and methods are functions that take it first.

So an object is a value, as TorchScript's are: what is in its lists and tensors may be written, and its attributes stay what __init__() made them.
__init__() becomes a function of its other parameters, at the same lines and columns: self.x is the variable self_x, and what it returns is the tuple.
"""
import ast
import os
import types

from tensord.program import _namedtuples


_KNOWN = ("__init__", "__call__", "__len__", "__repr__", "__str__")


def is_class(value):
    """One that is written in Python, with an __init__() and no base."""
    return isinstance(value, type) and type(value) is type and value.__bases__ == (object,) and isinstance(vars(value).get("__init__"), types.FunctionType)


def described(world, cls):
    """What a class means; its unit has the fields, and the names of its functions."""
    if cls in world.named:
        return "named", world.named[cls], cls.__name__
    number = len(world.units)
    world.named[cls] = number
    names = {}
    world.units.append(("def unknown():\n    pass\n", cls.__name__, 1, names, False))
    made = _Made(world, cls, ("named", number, cls.__name__))
    if made.why:
        del world.named[cls]
        return "refused", made.why
    world.units[number] = made.fields_text(), cls.__name__, 1, names, False
    names.update(world.units[made.unit][3])
    for name, function in vars(cls).items():
        if isinstance(function, types.FunctionType) and (name in ("__call__", "__len__") or not name.startswith("__")):
            names["own_" + name] = world.function(function)
    names["own___init__"] = made.constructor()
    return "named", number, cls.__name__


class _Made:
    def __init__(self, world, cls, meaning):
        self.world, self.cls, self.why = world, cls, None
        self.function = vars(cls)["__init__"]
        self.unit = world.function(self.function)[1]
        text, self.file, self.line, self.names, _ = world.units[self.unit]
        self.lines = text.splitlines()
        self.names = {**self.names, cls.__name__: meaning}
        self.tree = next(n for n in ast.walk(ast.parse("if 1:\n" + "\n".join(" " + line for line in self.lines))) if isinstance(n, ast.FunctionDef))
        self.first = self.tree.args.args[0].arg
        self.kinds = {name: value if isinstance(value, str) else _namedtuples._Writer(world, cls).words(value) for name, value in vars(cls).get("__annotations__", {}).items()}
        self.values = {}  # what fields are, at the end of __init__()
        self.find()
        other = [name for name, f in vars(cls).items() if isinstance(f, (types.FunctionType, property)) and name.startswith("__") and name not in _KNOWN or isinstance(f, property)]
        if other:
            self.why = f"a program knows no {other[0]} of a class, which {cls.__name__} has"

    def find(self):
        taken = {a.arg: ast.unparse(a.annotation) if a.annotation else "Tensor" for a in self.tree.args.args[1:] + self.tree.args.kwonlyargs}
        for node in ast.walk(self.tree):
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.first and isinstance(node.ctx, ast.Store)):
                continue
            above = next((n for n in ast.walk(self.tree) if isinstance(n, ast.AnnAssign) and n.target is node or isinstance(n, ast.Assign) and node in n.targets), None)
            kind = ast.unparse(above.annotation) if isinstance(above, ast.AnnAssign) else _kind_of(above.value, taken) if above else None
            kind = self.kinds.setdefault(node.attr, kind)
            self.values[node.attr] = f"{self.first}_{node.attr}"
            if kind is None:
                self.why = f"the type of '{node.attr}' of the class {self.cls.__name__} is not known: say it in __init__(), self.{node.attr}: int = ..."
        for name, value in vars(self.cls).items():
            if name not in self.values and type(value) in (bool, int, float, str) and not name.startswith("__"):
                self.values[name], self.kinds[name] = repr(value), type(value).__name__

    def fields_text(self):
        return f"def {self.cls.__name__}({', '.join(f'{name}: {self.kinds[name]}' for name in self.values)}):\n    pass\n"

    def constructor(self):
        lines = [line.encode() for line in self.lines]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.first:
                row, dot = node.value.end_lineno - 2, node.value.end_col_offset - 1
                lines[row] = lines[row][:dot] + b"_" + lines[row][dot + 1:]
        own = self.tree.args.args[0]
        row, begin, end = own.lineno - 2, own.col_offset - 1, own.end_col_offset - 1
        behind = lines[row][end:]
        behind = behind.replace(b",", b" ", 1) if behind.lstrip().startswith(b",") else behind
        lines[row] = lines[row][:begin] + b" " * (end - begin) + behind
        at = len(self.lines[self.tree.body[-1].lineno - 2]) - len(self.lines[self.tree.body[-1].lineno - 2].lstrip())
        text = "\n".join(line.decode() for line in lines) + "\n" + " " * at + f"return {self.cls.__name__}({', '.join(self.values.values())})\n"
        if self.tree.returns is not None:  # None
            row, begin, end = self.tree.returns.lineno - 2, self.tree.returns.col_offset - 1, self.tree.returns.end_col_offset - 1
            arrow = text.splitlines()[row]
            text = text.replace(arrow, arrow[:begin].rstrip()[:-2] + arrow[end:], 1)
        self.world.units.append((text, os.path.basename(self.file), self.line, self.names, False))
        return "function", len(self.world.units) - 1, "__init__", -1


def _kind_of(value, taken):
    """The type of an expression, where it is plain to see."""
    if isinstance(value, ast.Name):
        return taken.get(value.id)
    if isinstance(value, ast.Constant) and type(value.value) in (bool, int, float, str):
        return type(value.value).__name__
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return _kind_of(value.operand, taken)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("int", "float", "bool", "str", "len"):
        return value.func.id if value.func.id != "len" else "int"
    return None
