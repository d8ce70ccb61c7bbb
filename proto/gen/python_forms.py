"""How the ops look in Python: the one model that emit_python.py and emit_pyi.py write from.

It puts together the op table and client/python/surface.toml (whose head says what its columns mean). Invariant: every function has a
signature whose arguments are named as Python's users know them, a line of doc, and one way to be run: an op, a C expression, or a function
of tensord/_more.py.
"""

import ast
import keyword
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import signature
import table as model

SURFACE = Path(__file__).resolve().parents[2] / "client" / "python" / "surface.toml"
COLUMNS = {"op", "sig", "call", "code", "py", "params", "doc", "varargs", "kind", "creation", "returns"}


@dataclass
class Function:
    name: str
    sig: object
    doc: str
    op: object = None  # of the table
    call: str = None
    code: str = None
    py: str = None
    params: str = None  # with `py`: what follows the first tensor, as a stub writes it
    varargs: str = None
    returns: str = None  # what type checkers are told, when it is no tensor
    creation: bool = False
    function: bool = True
    method: bool = False
    raw: bool = False
    symbol: str = ""
    names: dict = field(default_factory=dict)  # argument of the signature -> its name in Python
    aliases: dict = field(default_factory=dict)

    @property
    def args(self):
        return self.sig.args

    @property
    def outs(self):
        return self.sig.outs

    @property
    def in_place(self):
        """It has a form that writes into its first argument."""
        o = self.op
        return bool(o) and len(o.outs) == 1 and not o.outs[0].is_list and "inplace" in o.flags and bool(o.params) and o.name != "copy" \
            and o.params[0].name == "x"

    @property
    def takes_out(self):
        o = self.op
        return bool(o) and len(o.outs) == 1 and not o.outs[0].is_list and not {"view", "data_shape"} & set(o.flags)

    def python_name(self, arg):
        return self.names.get(arg.name, arg.name)

    def text(self, first="$module"):
        """The text signature that inspect understands."""
        parts = [first]
        for k, a in enumerate(self.args):
            if k == 0 and first == "$self":
                continue
            name = self.python_name(a)
            if self.varargs == name:
                parts.append("*" + name)
            else:
                parts.append(name + (f"={default_text(a)}" if has_default(a) else ""))
        if self.params:
            parts.append(without_types(self.params))
        if self.creation:
            parts += ([] if self.varargs else ["*"]) + ["device=None", "requires_grad=False"]
        elif self.takes_out and first == "$module":
            parts += ["out=None"] if self.varargs else ["*", "out=None"]
        return f"{self.name}({', '.join(parts)})"


def has_default(a):
    return a.kind == "OPTIONAL" or getattr(a, "has_default", False)


def default_text(a):
    v = getattr(a, "default", None)
    return repr(v)


def without_types(params):
    """Parameters of a stub as inspect reads them: without annotations."""
    args = ast.parse(f"def f({params}): ...").body[0].args
    for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if a:
            a.annotation = None
    return ast.unparse(args)


def is_tensor(arg):
    return hasattr(arg, "is_list")


def _names(sig, surface):
    """Renamed arguments, as long as that makes no two alike."""
    taken = {a.name for a in sig.args}
    names = {}
    for a in sig.args:
        new = surface["names"].get(a.name, a.name)
        if new not in taken or new == a.name:
            names[a.name] = new
            taken.add(new)
    return {old: new + "_" if keyword.iskeyword(new) else new for old, new in names.items()}


def _kind(f, kind):
    first = f.args[0] if f.args else None
    tensor_first = first is not None and first.kind in ("TENSOR", "NUMBER") and f.python_name(first) == "input"
    if kind == "raw":
        f.raw, f.function, f.method = True, False, False
    else:
        f.function = kind != "method"
        f.method = kind == "method" or (kind == "both" and tensor_first) or (kind is None and tensor_first)


def _make(name, sig, doc, surface, **more):
    f = Function(name, sig, doc, **more)
    f.names = _names(sig, surface)
    f.aliases = {a.name: surface["aliases"][f.python_name(a)] for a in sig.args if f.python_name(a) in surface["aliases"]}
    return f


def _block(name, block, table, surface):
    unknown = set(block) - COLUMNS
    if unknown:
        raise model.TableError([f"{SURFACE.name}: function {name}: unknown column '{sorted(unknown)[0]}'"])
    op = table.op(block["op"]) if "op" in block else None
    if "op" in block and not op:
        raise model.TableError([f"{SURFACE.name}: function {name}: there is no op '{block['op']}'"])
    if not op and not {"call", "code", "py"} & set(block):
        raise model.TableError([f"{SURFACE.name}: function {name}: nothing says how it is run (op, call, code or py)"])
    try:
        sig = op.sig if op else signature.parse(block.get("sig", "(input:T) -> T") if "params" in block else block["sig"])
    except (KeyError, signature.SignatureError) as e:
        raise model.TableError([f"{SURFACE.name}: function {name}: sig: {e}"]) from None
    doc = block.get("doc") or (op.doc if op else None)
    if not doc:
        raise model.TableError([f"{SURFACE.name}: function {name}: no doc"])
    f = _make(name, sig, doc, surface, op=op, call=block.get("call"), code=block.get("code"), py=block.get("py"), params=block.get("params"),
              varargs=block.get("varargs"), returns=block.get("returns"), creation=block.get("creation", False))
    f.symbol = f"fn_{name}"
    _kind(f, block.get("kind"))
    return f


def load(table):
    """(functions of the package, functions of tensord.ops)."""
    surface = tomllib.loads(SURFACE.read_text())
    blocks = surface["function"]
    missing = [n for n in surface["hidden"] if not table.op(n)]
    if missing:
        raise model.TableError([f"{SURFACE.name}: hidden op '{missing[0]}' is not in the table"])
    public, raw = [], []
    for op in table.ops:
        shown = op.name not in surface["hidden"] and op.name not in blocks
        f = _make(op.name, op.sig, op.doc, surface, op=op)
        f.symbol = f"fn_{op.name}" if shown else f"op_{op.name}"
        _kind(f, None)
        raw.append(f)
        if shown:
            public.append(f)
    for name, block in blocks.items():
        f = _block(name, block, table, surface)
        (raw if f.raw else public).append(f)
    return public, raw


def c_identifier(name):
    """A parameter's name in the C expression of a `call`."""
    return name + "_" if keyword.iskeyword(name) or name in ("where", "client", "int", "float") else name


def plain(text):
    return re.sub(r"\s+", " ", text.strip())
