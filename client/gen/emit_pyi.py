"""_C.pyi: what type checkers know of the Python module. The part that is no op is client/python/tensord/_C.pyi.in, with places for the rest."""

from pathlib import Path

from python_forms import has_default, load, plain

TEMPLATE = Path(__file__).resolve().parents[2] / "client" / "python" / "tensord" / "_C.pyi.in"
TYPES = {"TENSOR": "Tensor", "OPTIONAL": "Tensor | None", "NUMBER": "Tensor | _Number", "LIST": "Sequence[Tensor]",
         "OPTIONAL_LIST": "Sequence[Tensor | None]", "INT": "_int", "FLOAT": "_float", "BOOL": "_bool", "SCALAR": "_Number", "DTYPE": "_DType",
         "INTS": "_int | Sequence[_int]", "TEXT": "_str"}


def argument(f, a):
    name, type_ = f.python_name(a), "_str" if a.name in f.choices else TYPES[a.kind]
    if f.varargs == name:
        return f"*{name}: _int | Sequence[_int]"
    if getattr(a, "optional", False):
        type_ += " | None"
    return f"{name}: {type_}" + (" = ..." if has_default(a) else "")


def result(f):
    if f.returns:
        return f.returns
    if not f.outs:
        return "None"
    if f.outs[0].is_list:
        return "tuple[Tensor, ...]"
    return "Tensor" if len(f.outs) == 1 or f.first else "_" + "_".join(o.name for o in f.outs)


def declare(f, method, name=None, returns=None, indent=""):
    parts = ["self"] if method else []
    open_tail = not f.names_only
    for k, a in enumerate(f.args):
        if method and not k:
            continue
        parts += ["*"] * (k == f.positional)
        parts.append(argument(f, a))
    parts += [f.params] if f.params else []
    parts += ["inplace: _bool = ..."] * f.placed
    extra = ["dtype: _DType | None = ...", "device: _Device = ...", "requires_grad: _bool = ...", "layout: _Layout | None = ...", "pin_memory: _bool = ..."] if f.creation else []
    extra += ["memory_format: _MemoryFormat | None = ..."] if f.creation or f.laid else []
    known = {p.split(":")[0] for p in parts}
    extra = [e for e in extra if e.split(":")[0] not in known]
    if (f.takes_out or f.copies_out) and not method:
        extra.append("out: Tensor | None = ..." if f.takes_out else "out: Any = ...")
    if extra and open_tail:
        parts.append("*")
    text = f"{indent}def {name or f.name}({', '.join(parts + extra)}) -> {returns or result(f)}:\n"
    return text + f'{indent}    """{plain(f.doc)}"""\n'


def tuples(functions):
    """A NamedTuple for each list of results."""
    found = {}
    for f in functions:
        if len(f.outs) > 1:
            found["_" + "_".join(o.name for o in f.outs)] = [o.name for o in f.outs]
    return "".join(f"class {name}(NamedTuple):\n" + "".join(f"    {n}: Tensor\n" for n in names) + "\n" for name, names in found.items())


def emit(table, out):
    public, raw, layers = load(table)
    methods = ""
    for f in (f for f in public if f.method):
        methods += declare(f, True, indent="    ")
        if f.in_place:
            methods += declare(f, True, f.name + "_", "Tensor", "    ")
    functions = "".join(declare(f, False) for f in public if f.function)
    text = TEMPLATE.read_text()
    nn = "".join("    @staticmethod\n" + declare(f, False, indent="    ") for f in layers)
    for place, what in (("@TUPLES@", tuples(public + raw)), ("    @METHODS@\n", methods), ("@FUNCTIONS@\n", functions), ("    @LAYERS@\n", nn)):
        text = text.replace(place, what)
    out.write(text)
