"""What a program takes and gives in one line, as PyTorch writes it: f(Tensor x, int n=3) -> Tensor. Read from the text of its graph."""
import re

from tensord import _C

_HEAD = re.compile(r"^graph\((.*)\):$", re.MULTILINE)
_ENDS = re.compile(r"^  return \((.*)\)$", re.MULTILINE)


def _parts(text):
    """What stands between the commas that are in no brackets."""
    deep, parts = 0, [""]
    for c in text:
        deep += (c in "([") - (c in ")]")
        if c == "," and deep == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _typed(text):
    """{value: type} of "%a : int, %b : Tensor"."""
    return dict(part.split(" : ", 1) for part in _parts(text) if " : " in part)


def _default(value):
    if isinstance(value, str):
        return f'="{value}"'
    if isinstance(value, tuple):
        return f"=({', '.join(map(str, value))})"
    return f"={value}" if value is None or isinstance(value, (bool, int, float, complex, list)) else "=..."


def schema_of(program):
    program = getattr(program, "_main", program)  # of a module its forward()
    graph, arguments, states = program.graph, getattr(program, "_arguments", None), program._states_count()
    given = [f"{kind} {name}" for name, kind in zip(_C._names_in(graph)[0], _typed(_HEAD.search(graph).group(1)).values())]
    given = given[: len(given) - states]
    if arguments is not None:
        parameters = arguments.signature.parameters.values()
        given = [one + ("" if p.default is p.empty else _default(p.default)) for one, p in zip(given, parameters)]
    types = _typed(_HEAD.search(graph).group(1))
    for line in graph.splitlines():
        types.update(_typed(line.split(" = ", 1)[0].strip()) if " = " in line else {})
    gives = [types.get(value, "Tensor") for value in _parts(_ENDS.search(graph).group(1))]
    if states:  # they are taken and given behind what the caller sees
        gives = (_parts(gives[0][1:-1]) if len(gives) == 1 else gives)[:1]
    return f"{getattr(program, '__name__', 'forward')}({', '.join(given)}) -> {gives[0] if len(gives) == 1 else '(' + ', '.join(gives) + ')'}"
