"""How the ops look in Python: the one model that emit_python.py and emit_pyi.py write from.

It puts together the op table and client/python/surface.toml (whose head says what its columns mean). Invariant: every function has a
signature whose arguments are named as Python's users know them, a line of doc, and one way to be run: an op, a C expression, or a function
of tensord/core/_overloads.py.
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
COLUMNS = {"op", "sig", "call", "code", "py", "params", "doc", "varargs", "kind", "creation", "laid", "returns", "plain", "keywords", "name", "out", "places"}
OUT = ("exact", "made", "apart", "apart_rest")
CASTS = ("lower", "float32", "widest")
NN_COLUMNS = {"op", "doc", "shows", "keywords", "choices", "inplace", "returns", "names", "first", "out", "averages"}


@dataclass
class Function:
    name: str
    sig: object
    doc: str
    op: object = None  # of the table
    call: str = None
    code: str = None
    py: str = None
    plain: str = None  # with `py`: the op that a call with what it needs, and nothing else, is
    places: int = None  # with `plain`: so many arguments by place are the op's as well
    params: str = None  # with `py`: what follows the first tensor, as a stub writes it
    varargs: str = None
    returns: str = None  # what type checkers are told, when it is no tensor
    creation: bool = False
    laid: bool = False  # memory_format= is taken
    function: bool = True
    method: bool = False
    raw: bool = False
    nn: bool = False  # of tensord.nn.functional
    shows: str = ""  # an example as Python's prompt shows it
    positional: int = None  # so many arguments may be given by place; None: all
    choices: dict = field(default_factory=dict)  # argument: the words that stand for 0, 1, ...
    placed: bool = False  # `inplace` is taken
    out: bool = False  # the function takes out=, and its results are copied there
    averages: bool = False  # a loss that takes size_average= and reduce=
    first: bool = False  # of several results the first is the function's
    out_is: list = field(default_factory=list)  # what its out= has to be: words of [out]
    waits: bool = False  # it may fail for the values: a call waits for its result
    casts: str = ""  # what autocast makes of its floats: "lower", "float32" or "widest"
    symbol: str = ""
    where: str = ""  # "FILE:LINE" that says what it is
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
        return bool(o) and not self.nn and len(o.outs) == 1 and not o.outs[0].is_list and not {"view", "data_shape"} & set(o.flags)

    @property
    def copies_out(self):
        """Its results are made first, then written to out=: so of each op that makes several, or whose values say how much it makes."""
        o = self.op
        made = o and self.function and not self.nn and o.outs and not o.outs[0].is_list and "view" not in o.flags and not self.takes_out
        return self.out or bool(made)

    @property
    def names_only(self):
        """What follows its parameters is given by name without a word about it."""
        return bool(self.varargs) or self.positional is not None or bool(self.params) and "*" in self.params

    def python_name(self, arg):
        return self.names.get(arg.name, arg.name)

    def text(self, first="$module"):
        """The text signature that inspect understands."""
        parts = [first]
        for k, a in enumerate(self.args):
            if k == 0 and first == "$self":
                continue
            name = self.python_name(a)
            if k == self.positional:
                parts.append("*")
            if self.varargs == name:
                parts.append("*" + name)
            else:
                parts.append(name + (f"={default_text(a, self.choices.get(a.name))}" if has_default(a) else ""))
        if self.params:
            parts.append(without_types(self.params))
        keywords = ["device=None", "requires_grad=False", "layout=None", "pin_memory=False"] if self.creation else []
        keywords += ["memory_format=None"] if self.creation or self.laid else []
        keywords += ["out=None"] if (self.takes_out or self.copies_out) and first == "$module" else []
        parts += (["*"] if keywords and not self.names_only else []) + keywords
        parts += ["inplace=False"] * self.placed
        return f"{self.name}({', '.join(parts)})"


def has_default(a):
    return a.kind == "OPTIONAL" or getattr(a, "has_default", False)


def default_text(a, words=None):
    v = getattr(a, "default", None)
    return repr(words[v]) if words else repr(v)


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
    f = _make(block.get("name", name), sig, doc, surface, op=op, call=block.get("call"), code=block.get("code"), py=block.get("py"), params=block.get("params"),
              out=block.get("out", False), varargs=block.get("varargs"), returns=block.get("returns"), creation=block.get("creation", False), laid=block.get("laid", False), plain=block.get("plain"), places=block.get("places"))
    if f.plain and not (f.py and table.op(f.plain)):
        raise model.TableError([f"{SURFACE.name}: function {name}: plain = '{f.plain}' names an op, beside py"])
    f.symbol = f"fn_{name}"
    _kind(f, block.get("kind"))
    f.positional = _positional(f, block)
    return f


def _positional(f, block):
    """How many arguments may be given by place; None: all."""
    return [a.name for a in f.args].index(block["keywords"]) if "keywords" in block else None


def _layer(name, block, table, surface):
    """A function of tensord.nn.functional: an op in the forms of PyTorch's."""
    def wrong(what):
        raise model.TableError([f"{SURFACE.name}: nn {name}: {what}"])

    unknown = sorted(set(block) - NN_COLUMNS)
    if unknown:
        wrong(f"unknown column '{unknown[0]}'")
    op = table.op(block.get("op", name))
    if not op:
        wrong(f"there is no op '{block.get('op', name)}'")
    f = _make(name, op.sig, block.get("doc", op.doc), surface, op=op, nn=True, shows=block.get("shows", ""), placed=block.get("inplace", False), out=block.get("out", False), first=block.get("first", False), averages=block.get("averages", False),
              choices=block.get("choices", {}), returns=block.get("returns"), function=False, symbol=f"nn_{name}")
    args, f.names = [a.name for a in f.args], {**f.names, **block.get("names", {})}
    missing = [n for n in [*f.choices, *block.get("names", {}), *([block["keywords"]] if "keywords" in block else [])] if n not in args]
    if missing:
        wrong(f"'{missing[0]}' is no argument")
    f.positional = _positional(f, block)
    if not f.shows:
        wrong("shows no example")
    return f


def _lines(text):
    """{"function.NAME": "FILE:LINE"} of the blocks."""
    heads = ((n, re.match(r"\[((?:function|nn)\.\w+)\]", line)) for n, line in enumerate(text.split("\n"), 1))
    return {head[1]: f"{SURFACE.name}:{n}" for n, head in heads if head}


def load(table):
    """(functions of the package, functions of tensord.ops, functions of tensord.nn.functional)."""
    text = SURFACE.read_text()
    surface, lines = tomllib.loads(text), _lines(text)
    blocks = surface["function"]
    for key in ("hidden", "waits"):
        missing = [n for n in surface[key] if not table.op(n)]
        if missing:
            raise model.TableError([f"{SURFACE.name}: {key}: op '{missing[0]}' is not in the table"])
    public, raw = [], []
    for op in table.ops:
        shown = op.name not in surface["hidden"] and op.name not in blocks
        f = _make(op.name, op.sig, op.doc, surface, op=op)
        f.symbol = f"fn_{op.name}" if shown else f"op_{op.name}"
        f.where = op.where()
        _kind(f, None)
        raw.append(f)
        if shown:
            public.append(f)
    for name, block in blocks.items():
        f = _block(name, block, table, surface)
        f.where = lines[f"function.{name}"]
        (raw if f.raw else public).append(f)
    layers = [_layer(name, block, table, surface) for name, block in surface["nn"].items()]
    for f in layers:
        f.where = lines[f"nn.{f.name}"]
    _cast(surface["autocast"], table, [*public, *raw, *layers])
    for f in (*public, *raw):
        f.waits = bool(f.op) and f.op.name in surface["waits"]
    _given(surface["out"], [*public, *raw, *layers])
    _renamed(surface["also"], public)
    return public, raw, layers


def _renamed(also, functions):
    """Second names of arguments, of single functions."""
    for name, others in also.items():
        found = [f for f in functions if f.name == name]
        for old, new in others.items():
            meant = [(f, a.name) for f in found for a in f.args if f.python_name(a) == old]
            if not meant:
                raise model.TableError([f"{SURFACE.name}: also: '{name}' has no argument '{old}'"])
            for f, argument in meant:
                f.aliases[argument] = new


def _given(out, functions):
    """What each function wants of its out=."""
    for word, names in out.items():
        for name in names:
            meant = [f for f in functions if f.name == name.removeprefix("nn.") and f.nn == name.startswith("nn.") and (f.takes_out or f.copies_out)]
            if word not in OUT or not meant:
                raise model.TableError([f"{SURFACE.name}: out: " + (f"'{name}' takes no out=" if word in OUT else f"'{word}' is none of {', '.join(OUT)}")])
            for f in meant:
                f.out_is.append(word)


def _cast(autocast, table, functions):
    """What autocast makes of the arguments of each: said of ops, so of whatever is one of them."""
    how = {}
    half = {o.name for o in table.ops if o.composed or {"float16", "bfloat16"} <= set(o.dtypes)}
    for word, names in autocast.items():
        for name in names:
            if word not in CASTS or not table.op(name) or name in how:
                raise model.TableError([f"{SURFACE.name}: autocast: '{word}' is none of {', '.join(CASTS)}" if word not in CASTS else
                                        f"{SURFACE.name}: autocast: '{name}' is {'named twice' if name in how else 'no op'}"])
            if word == "lower" and name not in half:
                raise model.TableError([f"{SURFACE.name}: autocast: '{name}' does not take half types, which 'lower' makes of its arguments"])
            how[name] = word
    for f in functions:
        f.casts = how.get(f.op.name if f.op else f.name, "")


def c_identifier(name):
    """A parameter's name in the C expression of a `call`."""
    return name + "_" if keyword.iskeyword(name) or name in ("where", "client", "int", "float") else name


def plain(text):
    return re.sub(r"\s+", " ", text.strip())
