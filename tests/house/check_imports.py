#!/usr/bin/env python3
"""The rooms of the Python package and their arrows: each imports only the rooms below it, as it is loaded and in functions later.

No module imports itself through others either, but by the ways of LATE, in functions. compat/ is laid over the package, so a module there has its
name without the folder; nothing outside of compat/ imports one, or reaches it as an attribute of the package. What type checkers alone read counts for
nothing.
"""
import ast
import sys
from pathlib import Path

# Each room, and the rooms that it imports.
ARROWS = {
    "core": "",
    "array_api": "core",
    "autograd": "core",
    "share": "core",
    "data": "core share",
    "torch": "core share data",
    "nn": "core autograd",
    "optim": "core autograd nn",
    "files": "core nn",
    "program": "core autograd nn optim files",
    "models": "core",
    "utils": "core autograd data",
    "doors": "core autograd share data torch nn optim files program models utils",
    "compat": "core autograd share data torch nn optim files program models utils doors",
}
# Files at the top: public modules. Those that a room needs belong to it; all others are doors.
TOP = {"linalg": "core", "fft": "core", "special": "core", "random": "core", "jit": "program"}
# Imports in functions that close a circle, and why they stay.
LATE = {
    # A class statement that names ScriptModule makes a class derived of Written, which is a ScriptModule.
    ("tensord.program._module_base", "tensord.program._script_method"),
}


def modules(package):
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        yield ".".join([package.name, *parts[parts[0] == "compat" :]]).removesuffix(".__init__"), path


def room_of(path, package):
    first = path.relative_to(package).parts[0]
    return first if (package / first).is_dir() else TOP.get(first.removesuffix(".py"), "doors")


def typing_only(tree):
    """What stands below `if TYPE_CHECKING` is never imported."""
    return {id(n) for block in ast.walk(tree) if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test) for n in ast.walk(block)}


def in_functions(tree):
    return {id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) for n in ast.walk(f)}


def imported(tree, known, home, loaded=False):
    """Modules that a module imports, or (`loaded`) those that it imports as it is loaded; `home` is the package that it lies in.

    tensord itself, which gives its names when they are asked for, counts for nothing.
    """
    aside = typing_only(tree) | (in_functions(tree) if loaded else set())
    for n in ast.walk(tree):
        if id(n) in aside:
            continue
        if isinstance(n, ast.Import):
            yield from (a.name for a in n.names if a.name in known)
        if isinstance(n, ast.ImportFrom):
            above = home.split(".")[: len(home.split(".")) + 1 - n.level] if n.level else []
            base = ".".join([*above, *([n.module] if n.module else [])])
            yield from (f"{base}.{a.name}" if f"{base}.{a.name}" in known else base for a in n.names)


def reached(tree, known):
    """Modules that stand as attributes of the package: td.nn.utils.prune."""
    aside = typing_only(tree)
    names = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names if a.name == "tensord"}
    for n in ast.walk(tree):
        if isinstance(n, ast.Attribute) and id(n) not in aside:
            first, _, rest = ast.unparse(n).partition(".")
            if first in names and f"tensord.{rest}" in known:
                yield f"tensord.{rest}"


def circle(graph, start):
    """The way from a module to itself, or None."""
    ways, seen = [[start]], set()
    while ways:
        way = ways.pop(0)
        for to in sorted(graph[way[-1]]):
            if to == start:
                return [*way, to]
            if to not in seen:
                seen.add(to)
                ways.append([*way, to])
    return None


def main(root):
    package = root / "client/python/tensord"
    paths = dict(modules(package))
    trees = {name: ast.parse(path.read_text()) for name, path in paths.items()}
    rooms = {name: room_of(path, package) for name, path in paths.items() if name != package.name}
    homes = {name: name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in paths.items()}

    def edges(name, loaded=False):
        return {m for m in imported(trees[name], paths, homes[name], loaded) if m in rooms and m != name}

    graph = {name: edges(name) for name in paths}
    strict = {name: {m for m in graph[name] if (name, m) not in LATE} | edges(name, True) for name in paths}
    wrong = [f"{paths[c[0]].relative_to(root)}: imports itself: {' > '.join(c)}" for c in (circle(strict, name) for name in strict) if c]
    wrong += [f"{name}: LATE allows an import of {to} that is not there, or closes no circle" for name, to in LATE if to not in graph.get(name, ()) or not circle(graph, name)]
    for name, room in rooms.items():
        outside = {m for m in reached(trees[name], paths) if rooms.get(m) == "compat"}
        for to in sorted(graph[name] | outside):
            if rooms[to] != room and rooms[to] not in ARROWS[room].split():
                wrong.append(f"{paths[name].relative_to(root)}: {room} does not import {rooms[to]}: {to}")
    for to in sorted(m for m in graph[package.name] if rooms[m] == "compat"):
        wrong.append(f"{paths[package.name].relative_to(root)}: the package does not import compat: {to}")
    for row in wrong:
        print(row)
    print(f"suite imports: {len(graph)} passed, {len(wrong)} failed, 0 skipped")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
