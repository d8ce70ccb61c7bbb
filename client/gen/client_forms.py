"""How an op of the table looks as C functions: the one model that emit_client_h.py and emit_client_c.py write from.

An op has up to three forms: the function (td_add), the one that writes into its first argument (td_add_), and the one that
writes into a given array (td_add_out). Each is a real function td_at_... that takes every argument and the call site first, and a macro
that fills in the call site and the arguments left out at the end.
"""

from dataclasses import dataclass

RESERVED = {"and", "bool", "case", "class", "default", "delete", "else", "enum", "export", "for", "if", "int", "new", "not", "operator", "or",
            "out", "private", "register", "room", "signed", "template", "this", "union", "where", "xor", "client", "op", "attrs", "in", "n"}
TENSORS = {"TENSOR": "td_array *", "OPTIONAL": "td_array *", "NUMBER": "td_arg ", "LIST": "td_list ", "OPTIONAL_LIST": "td_list "}
ATTRS = {"INT": "int64_t ", "FLOAT": "double ", "BOOL": "bool ", "SCALAR": "td_arg ", "DTYPE": "td_dtype ", "INTS": "td_ints ", "TEXT": "const char *"}
GIVE = {"INT": "int", "FLOAT": "float", "BOOL": "bool", "SCALAR": "number", "DTYPE": "dtype", "INTS": "ints", "TEXT": "text"}


@dataclass(frozen=True)
class Argument:
    """A parameter of the C function after the call site. `default` is C text, or None when it must be given."""

    name: str
    type: str
    default: str = None
    convert: bool = False  # through TD_ARG
    arg: object = None  # of the signature; None for client, out and room

    @property
    def declaration(self):
        return f"{self.type}{self.name}"


@dataclass(frozen=True)
class Form:
    """One function. `writes`: "" (makes its results), "first" or "out"."""

    op: object
    writes: str
    arguments: tuple

    @property
    def suffix(self):
        return {"": "", "first": "_", "out": "_out"}[self.writes]

    @property
    def function(self):
        return f"td_at_{self.op.name}{self.suffix}"

    @property
    def macro(self):
        return f"td_{self.op.name}{self.suffix}"

    @property
    def helper(self):
        return f"td_{ {'': 'fn', 'first': 'in', 'out': 'to'}[self.writes]}_{self.op.name}"

    @property
    def makes_one(self):
        """It returns an array; else a code, or a count for a list."""
        return not self.writes and len(self.op.outs) > 0 and not self.op.outs[0].is_list

    @property
    def returns(self):
        return "td_array *" if self.makes_one else "int "

    @property
    def required(self):
        """Arguments that cannot be left out: all up to the last one without a default."""
        return max((i + 1 for i, a in enumerate(self.arguments) if a.default is None), default=0)

    @property
    def prototype(self):
        return f"{self.returns}{self.function}({', '.join(['const char *where', *(a.declaration for a in self.arguments)])})"


def _name(text):
    return text + "_" if text in RESERVED else text


def _default(a):
    """C text of an attribute's default."""
    v = a.default
    if a.kind == "DTYPE":
        return "TD_DTYPE_NONE"
    if a.kind == "INTS":
        return "td_no_dims()" if v is None else f"td_dims({', '.join(map(str, v))})"
    if v is None:
        return "NULL" if a.kind == "TEXT" else "td_none()"
    if isinstance(v, bool):
        return "true" if v else "false"
    return repr(v)


def _argument(a):
    if hasattr(a, "is_list"):
        return Argument(_name(a.name), TENSORS[a.kind], None, a.kind == "NUMBER", a)
    number = a.kind == "SCALAR" or (a.optional and a.kind in ("INT", "FLOAT", "BOOL"))
    return Argument(_name(a.name), "td_arg " if number else ATTRS[a.kind], _default(a) if a.has_default else None, number, a)


def _with_optional_tail(arguments):
    """An optional tensor may be left out when everything after it may."""
    done, open_tail = [], True
    for a in reversed(arguments):
        optional = a.arg is not None and getattr(a.arg, "kind", "") == "OPTIONAL"
        if open_tail and optional:
            a = Argument(a.name, a.type, "NULL", a.convert, a.arg)
        open_tail = open_tail and a.default is not None
        done.append(a)
    return done[::-1]


def _function(op):
    arguments = _with_optional_tail([_argument(a) for a in op.sig.args])
    cut = max((i + 1 for i, a in enumerate(arguments) if a.default is None or hasattr(a.arg, "is_list")), default=0)
    extra = []
    if op.outs and op.outs[0].is_list:
        extra = [Argument("room", "int "), Argument("out", "td_array **")]
    elif len(op.outs) > 1:
        extra = [Argument(_name(o.name), "td_array **", "NULL") for o in op.outs[1:]]
        taken = {a.name for a in arguments}
        extra = [Argument(e.name + "_out" if e.name in taken else e.name, e.type, e.default) for e in extra]
    client = [] if op.params else [Argument("client", "td_client *")]
    return Form(op, "", tuple(client + arguments[:cut] + extra + arguments[cut:]))


def _in_place(op):
    first = Argument(_name(op.params[0].name), "td_array *", None, False, op.params[0])
    return Form(op, "first", tuple([first] + _with_optional_tail([_argument(a) for a in op.sig.args[1:]])))


def _into(op):
    return Form(op, "out", tuple([Argument("out", "td_array *")] + _with_optional_tail([_argument(a) for a in op.sig.args])))


def forms(op):
    """All forms of an op, the plain one first."""
    found = [_function(op)]
    one = len(op.outs) == 1 and not op.outs[0].is_list
    if one and "inplace" in op.flags and op.params and op.params[0].name == "x" and op.name != "copy":
        found.append(_in_place(op))
    if one and "view" not in op.flags and "data_shape" not in op.flags:
        found.append(_into(op))
    return found
