"""What a function of a program does with attributes, by its tree: which it assigns, changes where they stand, or lets out.

An attribute is a *path*: the name that it begins at ("" where that is none) and those of the attributes. A list that is only read in place
(an item, its length, what is in it) is not let out; one that gets a name, is an argument or a result is, as it may be changed there.
"""
import ast
import types
import typing

_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "popitem", "setdefault"}
_ITEMS = {"get", "values", "items", "copy"}  # methods of what is read, which give its items
_READ, _LET_OUT = 1 << 20, 0  # how deep what is let out lies
_READS_ITEMS = {"sum", "max", "min", "sorted", "list", "tuple", "enumerate", "zip", "reversed", "any", "all", "dict"}
_READS = {"len", "isinstance", "print", "str", "repr", "bool", "range", "hasattr"}
_TAKE_SIZES = {"view", "reshape", "expand", "permute", "repeat", "flip", "new_zeros", "new_ones", "new_empty", "new_full"}  # methods of tensors
_TAKE_INTS = _TAKE_SIZES | {"tile", "roll", "sum", "mean", "amax", "amin", "std", "var", "norm", "split"}
_TAKE_ITEMS = {"extend", "join", "update", "format"}


class Written(typing.NamedTuple):
    first: str  # its first parameter
    local: "set[str]"  # names that are assigned here, or parameters
    assigned: "list[tuple[tuple[str, ...], None]]"
    changed: "list[tuple[tuple[str, ...], None]]"
    used: "list[tuple[tuple[str, ...], int]]"  # with how many items down what is let out lies


def written_by(nodes, meaning):
    """`meaning`: what a name means outside of the function, or None."""
    function = next((n for n in nodes if isinstance(n, ast.FunctionDef)), None)
    first = function.args.args[0].arg if function and function.args.args else ""
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    parameters = {n.arg for n in nodes if isinstance(n, ast.arg)}
    values = (stored | parameters) - _modules_in(nodes) - {first}
    found = Written(first, stored | parameters, [], [], [])
    uses = _Uses(nodes, first, lambda name: None if name in found.local else meaning(name))
    for node in nodes:
        path = _path(node)
        if path is None or path[0] in values:
            continue
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            found.assigned.append((path, None))
            if isinstance(uses.parent.get(node), ast.AugAssign):
                found.changed.append((path, None))
            continue
        depth = uses.of(node)
        (found.changed if depth is None else found.used).append((path, depth))
    return found


def _modules_in(nodes):
    """Names of variables that may mean modules: what is gone over, and other names of attributes. No parameter does."""
    found = set()
    for node in nodes:
        if isinstance(node, (ast.For, ast.comprehension)):
            targets = [node.target]
        elif isinstance(node, ast.Assign) and (isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.IfExp)) or _is_getattr(node.value)):
            targets = node.targets
        else:
            continue
        found.update(n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
    return found


def _is_getattr(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant)


def _path(node):
    """("self", "sub", "x"), ("", "x") of what is an item; None: it is no attribute of a module."""
    if isinstance(node, ast.Attribute):
        name, base = node.attr, node.value
    elif _is_getattr(node):
        name, base = str(node.args[1].value), node.args[0]
    else:
        return None
    if isinstance(base, ast.Name):
        return base.id, name
    if isinstance(base, ast.Subscript):
        return "", name
    above = _path(base)
    return above and (*above, name)


class _Uses:
    def __init__(self, nodes, first, meaning):
        self.first, self.meaning = first, meaning
        self.parent = {child: node for node in nodes for child in ast.iter_child_nodes(node)}

    def of(self, node):
        """How many items down it is let out, from where this stands; None: it is changed."""
        depth, whole = 0, None
        while True:
            above = self.parent.get(node)
            if isinstance(above, ast.Subscript) and above.value is node:
                if not isinstance(above.ctx, ast.Load):
                    return None
                if isinstance(above.slice, ast.Slice):
                    whole = depth + 1 if whole is None else whole  # another list, of the same items
                else:
                    depth += 1
                node = above
                continue
            if isinstance(above, ast.Attribute) and not self.is_called(above):
                depth, node = depth + 1, above  # a field of a tuple
                continue
            at = self.at(node, above)
            if whole is not None:
                return _READ if at == _READ else whole
            return None if at is None else at + depth

    def is_called(self, node):
        call = self.parent.get(node)
        return isinstance(call, ast.Call) and call.func is node

    def at(self, node, above):
        """Where it stands in `above`: None, 0 (let out), 1 (its items are), or more than there are."""
        if isinstance(above, ast.Attribute):
            return None if above.attr in _CHANGES else 1 if above.attr in _ITEMS else _READ
        if isinstance(above, ast.keyword) or isinstance(above, ast.Call) and node is not above.func:
            return self.argument(self.parent.get(above) if isinstance(above, ast.keyword) else above)
        if isinstance(above, ast.Call):
            return _READ
        if isinstance(above, (ast.For, ast.comprehension, ast.Starred, ast.BinOp)) or isinstance(above, ast.AugAssign):
            return 1
        if isinstance(above, ast.Assign):
            return 1 if all(isinstance(target, (ast.Tuple, ast.List)) for target in above.targets) else _LET_OUT
        tested = isinstance(above, (ast.If, ast.While, ast.Assert, ast.IfExp)) and above.test is node
        if tested or isinstance(above, (ast.Compare, ast.UnaryOp, ast.FormattedValue, ast.Expr, ast.Subscript, ast.Slice)):
            return _READ
        return _LET_OUT

    def argument(self, call):
        f = call.func
        root = f
        while isinstance(root, ast.Attribute):
            root = root.value
        value = self.meaning(root.id) if isinstance(root, ast.Name) else None
        if isinstance(f, ast.Name):
            if value is None and f.id in _READS | _READS_ITEMS:
                return _READ if f.id in _READS else 1
            return _READ if value is not None and _is_op(value) else _LET_OUT
        if not isinstance(f, ast.Attribute):
            return _LET_OUT
        if isinstance(value, types.ModuleType):
            known = value.__name__ == "math" or _is_ours(value.__name__)
            return _READ if known and f.attr not in ("annotate", "_unwrap_optional") else _LET_OUT
        of_module = isinstance(root, ast.Name) and root.id == self.first  # or of what is in it
        if f.attr in _TAKE_SIZES and f.value is not root or f.attr in _TAKE_INTS and not of_module:
            return _READ
        return 1 if f.attr in _TAKE_ITEMS and not of_module else _LET_OUT


def _is_ours(name):
    return (name or "").split(".")[0] == "tensord"


def _is_op(value):
    return isinstance(value, types.BuiltinFunctionType) or isinstance(value, types.FunctionType) and _is_ours(value.__module__)
