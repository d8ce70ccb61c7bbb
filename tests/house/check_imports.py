#!/usr/bin/env python3
"""No module of the Python package imports, through whatever others, itself: neither as it is loaded nor in a function later."""
import ast
import sys
from pathlib import Path


def modules(package):
    for path in sorted(package.rglob("*.py")):
        yield ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"), path


def typing_only(tree):
    """What stands below `if TYPE_CHECKING` is never imported."""
    return {id(n) for block in ast.walk(tree) if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test) for n in ast.walk(block)}


def imported(tree, known):
    """The package itself, which gives its names when they are asked for, counts for nothing."""
    aside = typing_only(tree)
    for n in ast.walk(tree):
        if id(n) in aside:
            continue
        if isinstance(n, ast.Import):
            yield from (a.name for a in n.names if a.name in known)
        if isinstance(n, ast.ImportFrom) and n.module:
            yield from (f"{n.module}.{a.name}" if f"{n.module}.{a.name}" in known else n.module for a in n.names)


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
    graph = {name: {m for m in imported(ast.parse(path.read_text()), paths) if m in paths and m not in (name, package.name)}
             for name, path in paths.items()}
    circles = [c for c in (circle(graph, name) for name in graph) if c]
    for c in circles:
        print(f"{paths[c[0]].relative_to(root)}: imports itself: {' > '.join(c)}")
    print(f"suite imports: {len(graph) - len(circles)} passed, {len(circles)} failed, 0 skipped")
    return bool(circles)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
