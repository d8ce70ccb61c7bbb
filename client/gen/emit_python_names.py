"""python_names.c: where names of the Python package live (client/python/src/names.c looks them up).

tdpy_shown: what tensord's own __getattr__ finds, by the imports below `if TYPE_CHECKING` in tensord/__init__.py, which type checkers read.
tdpy_called: what the C files call, by the column `py` of surface.toml and its block [python].
Invariant: each name has one module, and that module defines it. The build makes the tables anew when one of the modules changes (emit() says which).
"""

import ast
import functools
import tomllib

import table as model
from cdata import HEAD, string
from python_forms import SURFACE, load

PACKAGE = SURFACE.parent / "tensord"
_READ = {PACKAGE / "__init__.py"}  # the modules that were looked at


def _path(module):
    """The source of a module of the package; one of compat/ has its name without it."""
    for root in (PACKAGE, PACKAGE / "compat"):
        for file in (root.joinpath(*module.split(".")).with_suffix(".py"), root.joinpath(*module.split("."), "__init__.py")):
            if file.exists():
                _READ.add(file)
                return file
    raise model.TableError([f"{SURFACE.name}: [python]: there is no module tensord.{module}"])


def _bound(body):
    """Names that these statements define or import."""
    for n in body:
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)):
            yield n.name, True
        elif isinstance(n, (ast.Assign, ast.AnnAssign)):
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            yield from ((t.id, True) for target in targets for t in ast.walk(target) if isinstance(t, ast.Name))
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            yield from ((a.asname or a.name, False) for a in n.names)
        elif isinstance(n, ast.For) and isinstance(n.iter, ast.Tuple):
            # for _name in ("cumsum", ...): globals()[_name + "_"] = ...
            for target in (t for each in n.body if isinstance(each, ast.Assign) for t in each.targets):
                if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "globals()" and isinstance(target.slice, ast.BinOp):
                    yield from ((c.value + target.slice.right.value, True) for c in n.iter.elts)
        elif isinstance(n, (ast.If, ast.Try)):
            yield from _bound(n.body + n.orelse)


@functools.cache
def _names(module, defined=False):
    """What a module has, or only what it defines itself."""
    return {name for name, own in _bound(ast.parse(_path(module).read_text()).body) if own or not defined}


def shown():
    """{name: (module, attribute)}; no attribute: the module itself."""
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    block = next(n for n in body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    found = {a.name: (f"{n.module}.{a.name}", None) if n.module == "tensord" else (n.module, a.name) for n in block.body for a in n.names}
    wrong = [f"tensord/__init__.py: {module} has no {name}" for name, (module, attribute) in found.items()
             if attribute and attribute not in _names(module.removeprefix("tensord.")) and "globals()[" not in _path(module.removeprefix("tensord.")).read_text()]
    if wrong:
        raise model.TableError(wrong)
    return found


def called(table):
    """{name: (module, attribute)}."""
    surface = tomllib.loads(SURFACE.read_text())["python"]
    found, errors = {}, []
    defined = {module: _names(module, defined=True) for module in surface["modules"]}
    for name in sorted({f.py for group in load(table) for f in group if f.py} - set(surface["calls"])):
        homes = [module for module, names in defined.items() if name in names]
        if len(homes) != 1:
            errors.append(f"{SURFACE.name}: py = '{name}' is defined in {' and in '.join(homes) or 'none'} of the modules of [python]")
        else:
            found[name] = (f"tensord.{homes[0]}", name)
    for name, home in surface["calls"].items():
        module, _, attribute = home.rpartition(".")
        if attribute not in _names(module, defined=True):
            errors.append(f"{SURFACE.name}: [python.calls] {name}: tensord.{module} defines no {attribute}")
        found[name] = (f"tensord.{module}", attribute)
    if errors:
        raise model.TableError(errors)
    return found


def _rows(name, found, out):
    out.write(f"static tdpy_name {name}[] = {{\n")
    for key, (module, attribute) in sorted(found.items()):
        out.write(f"    {{{string(key)}, {string(module)}, {string(attribute) if attribute else 'NULL'}, NULL}},\n")
    out.write("};\n")


def emit(table, out):
    out.write(HEAD + '#include "client/python/src/py.h"\n\n')
    for name, found in (("shown", shown()), ("called", called(table))):
        _rows(name, found, out)
        out.write(f"const tdpy_names tdpy_{name} = {{sizeof {name} / sizeof *{name}, {name}}};\n")
    return _READ
