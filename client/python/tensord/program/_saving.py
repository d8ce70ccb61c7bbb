"""What save() writes of programs: their tensors, a record of JSON for each call, and extra files."""
import itertools
import json

from tensord import _C
from tensord.files import _save
from tensord.nn import Parameter
from tensord.program._parts import Part


def _tied_in(state):
    """The other names of tensors that have several: {name: the first one}."""
    first: "dict[int, str]" = {}
    return {name: first[id(tensor)] for name, tensor in state.items() if first.setdefault(id(tensor), name) != name}


def _extra_records(extra) -> "tuple[tuple[str, bytes], ...]":
    """What else a file is to hold: (the name of its record, its bytes)."""
    records = []
    for name, text in extra.items():
        if not isinstance(name, str) or not isinstance(text, (str, bytes)):
            raise TypeError(f"_extra_files: texts or bytes by their names, not a {type(text).__name__} as {name!r}")
        if not name or len(name.encode()) > 1000 or name.startswith("/") or ".." in name.split("/") or not name.isprintable() or "\\" in name:
            raise _C.InvalidError(f"_extra_files: {name[:80]!r} is no name in a file")
        records.append((f"extra/{name}", text.encode() if isinstance(text, str) else text))
    return tuple(records)


def save_parts(parts: "list[Part]", f, state: "dict[str, _C.Tensor]", transient: "list[str]", whole: bool, extra) -> None:
    """Programs, the tensors they capture, what else `state` names, and extra files, to a path or a file."""
    state, programs = dict(state), []
    tied = _tied_in(state)
    frozen = [name for name, tensor in state.items() if isinstance(tensor, Parameter) and not tensor.requires_grad]
    for part in parts:
        graph = part.graph
        for name, tensor in part.captured.items():
            if state.setdefault(name, tensor) is not tensor:  # another program has another one of this name
                other = next(n for n in (f"{name}:{k}" for k in itertools.count(1)) if state.get(n, tensor) is tensor)
                state[other] = tensor
                head, at, rest = graph.partition("graph(")
                was, new = (f" = {json.dumps(n, ensure_ascii=False)}\n" for n in (name, other))
                if head.count(was) != 1:
                    raise _C.Unsupported(f"save(): two tensors are called '{name}', one of them in the program '{part.name}'; give one another name")
                graph = head.replace(was, new) + at + rest
        call = {**(part.call or {}), "transient": [name for name in transient if name in state], "frozen": frozen, "tied": tied}
        programs.append((part.name, graph, json.dumps(call)))
    _save.save_programs(state, tuple(programs), f, whole, _extra_records(extra))
