"""The language in which gradients and ops made of ops are written: parser, checker, and what each gradient saves.

A formula is an expression over an op's inputs and attributes and calls of other ops of the table; a gradient's also over its outputs and
`g` (the gradient that arrives). Its types are known when the table is built, so a wrong formula is an error here, with file and line, and never
at run time. Grammar, by falling looseness (from # to the end of a line is a comment):

    let NAME = e, ... in e      if CONDITION then e else e      or  and  not  == != < <= > >=      + -      * / // %      - e      **
    e.field     e[i]     op(args, name=arg)     part(args)     (e, e)     [e, e]     [e for a, b in xs, is]     fail(KIND, 'text {e}')
    scan NAME = e for a, b in xs, is do e

A part is a formula that others share: [part.NAME] with `args` (their names) and `is`; it is put in where it is called. fail refuses the call:
KIND is shape, index, type, invalid or unsupported. A scan is the list of what NAME becomes, from the e before `for` on: one value for each
item, of which the next is made. What a gradient uses other than through .shape .stride .offset .dtype .ndim is what the graph keeps for it.
"""
import dataclasses
import re

from signature import DTYPES


class FormulaError(Exception):
    """Says what is wrong with a formula, and where: "binary.toml:12: op.mul grad.x: ..."."""


# ---- the table, as much of it as formulas need

TYPES = {"TENSOR": "T", "OPTIONAL": "T?", "NUMBER": "TS", "LIST": "T[]", "OPTIONAL_LIST": "T?[]",
         "INT": "i", "FLOAT": "f", "BOOL": "b", "SCALAR": "S", "DTYPE": "D", "INTS": "I", "TEXT": "s"}


@dataclasses.dataclass
class Arg:
    """A tensor argument or an attribute; `index` counts among its own sort."""
    name: str
    kind: str  # T T? TS T[] T?[] | i f b S D I s
    index: int
    optional: bool = False
    has_default: bool = False
    default: object = None
    linear: bool = False

    @property
    def is_param(self):
        return self.kind.startswith("T")


@dataclasses.dataclass
class Op:
    name: str
    id: int
    args: list
    outs: list  # names; one called "out" when the signature gives none
    out_list: bool
    nondiff: set  # outputs
    flags: set
    grads: dict  # names of inputs -> text of the formula
    row: object = None  # the table's own row: knows files and lines

    @property
    def params(self):
        return [a for a in self.args if a.is_param]

    @property
    def attrs(self):
        return [a for a in self.args if not a.is_param]

    def arg(self, name):
        return next((a for a in self.args if a.name == name), None)

    @property
    def grad_name(self):
        """The gradient that arrives is g; gg where an input is itself called g (the op is a gradient)."""
        return "gg" if self.arg("g") else "g"


class Ops(dict):
    """Ops by name, and the parts that formulas share: name -> (names of arguments, text)."""

    parts = {}


def from_table(table):
    """{name: Op} of a checked table (table.load)."""
    ops = Ops()
    ops.parts = table.parts
    for row in table.ops:
        linear = row.raw.get("linear", [])
        args = [Arg(a.name, TYPES[a.kind], a.index, getattr(a, "optional", False), getattr(a, "has_default", False),
                    getattr(a, "default", None), a.name in linear) for a in row.sig.args]
        ops[row.name] = Op(row.name, row.id, args, [o.name for o in row.outs], any(o.is_list for o in row.outs),
                           set(row.nondiff_outputs), set(row.flags), row.grad, row)
    return ops


# ---- parsing

TOKEN = re.compile(r"(?:\s|#[^\n]*)*(?:(\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)|([A-Za-z_]\w*)"
                   r"|(\*\*|//|==|!=|<=|>=|[-+*/%<>=()\[\],.])|'([^'\n]*)')")
BLANK = re.compile(r"(?:\s|#[^\n]*)*")
WORDS = {"let", "in", "if", "then", "else", "or", "and", "not", "for", "scan", "do", "none", "true", "false"}


@dataclasses.dataclass
class Node:
    kind: str  # num name text none bool call field item neg not bin let if list tuple comp scan
    a: object = None
    b: object = None
    c: object = None
    col: int = 0


class Parser:
    def __init__(self, text):
        self.text, self.tokens, pos = text, [], 0
        while (at := BLANK.match(text, pos).end()) < len(text):
            m = TOKEN.match(text, pos)
            if not m:
                pos = at
                raise FormulaError(f"column {pos + 1}: unexpected {text[pos]!r}")
            group = m.lastindex
            word = m.group(group)
            kind = ("num", "name", "sym", "text")[group - 1]
            self.tokens.append(("word" if word in WORDS and kind == "name" else kind, word, m.start(group) + 1))
            pos = m.end()
        self.tokens.append(("end", "", len(text) + 1))
        self.pos = 0

    def fail(self, what):
        kind, word, col = self.tokens[self.pos]
        raise FormulaError(f"column {col}: {what}, found {word!r}" if kind != "end" else f"column {col}: {what}, found the end")

    def at(self, *words):
        kind, word, _ = self.tokens[self.pos]
        return word if kind in ("sym", "word") and word in words else None

    def take(self, *words):
        if word := self.at(*words):
            self.pos += 1
            return word
        return None

    def need(self, word):
        if not self.take(word):
            self.fail(f"expected {word!r}")

    def name(self):
        kind, word, _ = self.tokens[self.pos]
        if kind != "name":
            self.fail("expected a name")
        self.pos += 1
        return word

    @property
    def col(self):
        return self.tokens[self.pos][2]

    def parse(self):
        e = self.expr()
        if self.tokens[self.pos][0] != "end":
            self.fail("expected an operator")
        return e

    def expr(self):
        col = self.col
        if self.take("let"):
            binds = []
            while True:
                name = self.name()
                self.need("=")
                binds.append((name, self.expr()))
                if not self.take(","):
                    break
            self.need("in")
            return Node("let", binds, self.expr(), col=col)
        if self.take("if"):
            condition = self.expr()
            self.need("then")
            yes = self.expr()
            self.need("else")
            return Node("if", condition, yes, self.expr(), col=col)
        if self.take("scan"):
            name = self.name()
            self.need("=")
            start = self.expr()
            self.need("for")
            names, sources = self.sources(col)
            self.need("do")
            return Node("scan", [(name, start)], names, [*sources, self.expr()], col=col)
        return self.binary(0)

    def sources(self, col):
        """a, b in xs, is"""
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        self.need("in")
        sources = [self.expr()]
        while self.take(","):
            sources.append(self.expr())
        if len(names) != len(sources):
            raise FormulaError(f"column {col}: {len(names)} names for {len(sources)} lists")
        return names, sources

    LEVELS = (("or",), ("and",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "//", "%"))

    def binary(self, level):
        if level == len(self.LEVELS):
            return self.unary()
        if level == 2 and self.at("not"):
            col = self.col
            self.take("not")
            return Node("not", self.binary(2), col=col)
        left = self.binary(level + 1)
        while op := self.at(*self.LEVELS[level]):
            col = self.col
            self.pos += 1
            left = Node("bin", op, left, self.binary(level + 1), col=col)
            if level == 2:
                break
        return left

    def unary(self):
        col = self.col
        if self.take("-"):
            return Node("neg", self.unary(), col=col)
        left = self.postfix()
        col = self.col
        if self.take("**"):
            return Node("bin", "**", left, self.unary(), col=col)
        return left

    def postfix(self):
        e = self.atom()
        while True:
            col = self.col
            if self.take("."):
                e = Node("field", e, self.name(), col=col)
            elif self.take("["):
                e = Node("item", e, self.expr(), col=col)
                self.need("]")
            elif e.kind == "name" and self.take("("):
                args, named = [], {}
                while not self.take(")"):
                    if self.tokens[self.pos][0] == "name" and self.tokens[self.pos + 1][1] == "=":
                        name = self.name()
                        self.need("=")
                        named[name] = self.expr()
                    else:
                        args.append(self.expr())
                    if not self.at(")"):
                        self.need(",")
                e = Node("call", e.a, args, named, col=e.col)
            else:
                return e

    def atom(self):
        kind, word, col = self.tokens[self.pos]
        if kind == "num":
            self.pos += 1
            return Node("num", word, col=col)
        if kind in ("name", "text"):
            self.pos += 1
            return Node(kind, word, col=col)
        if word := self.take("none", "true", "false"):
            return Node("none", col=col) if word == "none" else Node("bool", word == "true", col=col)
        if self.take("("):
            items = [self.expr()]
            while self.take(","):
                items.append(self.expr())
            self.need(")")
            return items[0] if len(items) == 1 else Node("tuple", items, col=col)
        if self.take("["):
            return self.list(col)
        return self.fail("expected a value")

    def list(self, col):
        items = []
        while not self.take("]"):
            items.append(self.expr())
            if len(items) == 1 and self.take("for"):
                names, sources = self.sources(col)
                self.need("]")
                return Node("comp", items[0], names, sources, col=col)
            if not self.at("]"):
                self.need(",")
        return Node("list", items, col=col)


# ---- checking

# Kinds of expressions: V value (tensor, number or undefined), R one whose shape depends on values, and which is only a result, L list of values,
# P several values (outputs of a call), i int, f float, b bool, S scalar of any category, D dtype, I list of ints, M shapes of a list of values, none.
HOST = ("b", "i", "f", "S")
VALUE_OPS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "**": "pow", "%": "remainder", "==": "eq",
             "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
COMPARE = ("==", "!=", "<", "<=", ">", ">=")
META = {"shape": "I", "stride": "I", "offset": "i", "dtype": "D", "ndim": "i"}

# Helper functions: kinds of arguments, kind of result. An argument kind that ends in ? may be absent (none, or an optional attribute).
HELPERS = {
    "zeros": ("I", "V"), "ones": ("I", "V"), "positions": ("I", "V"), "reshape": ("VI", "V"), "cast": ("VD", "V"),
    "exclusive_prod": ("Vi", "V"),
    "count": ("II?", "i"), "numel": ("I", "i"), "rows": ("I", "i"), "len": ("I", "i"), "range": ("ii", "I"), "kept": ("II?b", "I"),
    "inverse": ("I", "I"), "broadcast": ("II", "I"), "offsets": ("Mi", "I"), "indices": ("M", "I"),
    "span": ("IIi", "i"), "overlaps": ("II", "b"), "concat": ("II", "I"), "interleave": ("II", "I"), "pad_left": ("Ii", "I"),
    "float": ("f", "f"), "int": ("i", "i"), "max": ("ff", "f"), "min": ("ff", "f"), "wrap": ("ii", "i"),
    "iscomplex": ("D", "b"), "isfloat": ("D", "b"), "default": ("i?i", "i"), "without": ("II?", "I"),
    "head": ("Ii", "I"), "tail": ("Ii", "I"), "axis": ("ii", "i"), "moved": ("iii", "I"), "real_dtype": ("D", "D"), "promoted": ("DD", "D"),
    "halves": ("i", "I"), "common": ("M", "I"),
}
# A helper keeps its meaning in formulas where an op has its name.
KEPT = {"range", "reshape"}
FAILURES = {"shape": "SHAPE", "index": "INDEX", "type": "TYPE", "invalid": "INVALID", "unsupported": "UNSUPPORTED"}
# Undefined arguments: these ops take it as zero (beside another that is defined).
JOINTLY_LINEAR = {"add", "sub", "where"}
# These take numbers too: they are computed on the spot.
FOLDED = {"conj", "neg"}
# Helpers that are linear in their first argument.
LINEAR_HELPERS = {"reshape", "cast"}


@dataclasses.dataclass
class Use:
    """What a gradient uses of the forward call."""
    inputs: set = dataclasses.field(default_factory=set)
    outputs: set = dataclasses.field(default_factory=set)
    shapes: set = dataclasses.field(default_factory=set)  # of inputs


@dataclasses.dataclass
class T:
    """An expression with its kind. `maybe`: it may be undefined. `of`: what it names (("in", k), ("out", k), ("g", k), ...)."""
    kind: str
    node: Node
    maybe: bool = False
    of: tuple = None
    args: list = None
    extra: object = None


class Checker:
    """Turns a parsed formula into a typed one (class T), and notes in `use` what it keeps alive. `composing`: the formula makes the op."""

    def __init__(self, ops, op, use, composing=False):
        self.ops, self.op, self.use, self.composing = ops, op, use, composing
        self.scope, self.given, self.inside = {}, set(), []

    def fail(self, node, what):
        raise FormulaError(f"column {node.col}: {what}")

    def check(self, node):
        return getattr(self, "check_" + node.kind)(node)

    def check_num(self, n):
        return T("i" if n.a.isdigit() else "f", n)

    def check_bool(self, n):
        return T("b", n)

    def check_none(self, n):
        return T("none", n, maybe=True)

    def check_name(self, n, touch=True):
        name, op = n.a, self.op
        if name in self.scope:
            bound = self.scope[name]
            if bound.of and bound.of[0] == "item":
                if touch:
                    self.use.inputs.add(bound.of[1])
            return T(bound.kind, n, bound.maybe, bound.of, extra=bound.extra)
        if name == op.grad_name and not self.composing:
            if op.out_list:
                return T("L", n, True, ("g",))
            if len(op.outs) == 1:
                return T("V", n, False, ("g", 0))
            return T("P", n, True, ("g",))
        if name == "out" and not op.arg("out") and not self.composing:
            if len(op.outs) > 1:
                return T("P", n, False, ("out",))
            if op.out_list:
                self.fail(n, "a list output cannot be saved")
            if touch:
                self.use.outputs.add(0)
            return T("V", n, False, ("out", 0))
        if name == "need" and not self.composing:
            return T("i", n, of=("need",))
        if name == "create_graph":
            return T("b", n, of=("create_graph",))
        if name in ("pi", "inf"):
            return T("f", n, of=(name,))
        a = op.arg(name)
        if not a and name in DTYPES:
            return T("D", n, of=("dtype", name))
        if not a:
            self.fail(n, f"nothing is called {name!r} here")
        if a.is_param:
            if touch:
                self.use.inputs.add(a.index)
            if a.kind in ("T[]", "T?[]"):
                return T("L", n, a.kind == "T?[]", ("in", a.index))
            return T("V", n, a.kind == "T?" and name not in self.given, ("in", a.index))
        return T(a.kind, n, False, ("attr", a.index, a.optional))

    def check_field(self, n):
        base = n.a
        if n.b in META:
            inner = self.check_name(base, touch=False) if base.kind == "name" else self.check(base)
            if inner.kind == "L" and n.b == "shape" and inner.of and inner.of[0] == "in":
                self.use.shapes.add(inner.of[1])
                return T("M", n, of=inner.of, args=[inner])
            if inner.kind != "V":
                self.fail(n, f".{n.b} of something that is not one tensor")
            if inner.of and inner.of[0] in ("in", "item"):
                self.use.shapes.add(inner.of[1])
            elif inner.of and inner.of[0] == "out" and n.b in ("stride", "offset"):
                self.fail(n, "the strides of an output are not kept")
            elif inner.maybe:
                self.fail(n, f".{n.b} of a value that may be undefined")
            return T(META[n.b], n, args=[inner], extra=n.b)
        inner = self.check(base)
        if inner.kind != "P":
            self.fail(n, f"no field {n.b!r} here (.shape, .stride, .offset, .dtype, .ndim, or an output's name)")
        names = self.op.outs if inner.of else names_of(inner)
        if not names:
            self.fail(n, "the results of this have no names")
        if n.b not in names:
            self.fail(n, f"no output {n.b!r}; there are {', '.join(names)}")
        k = names.index(n.b)
        if inner.of == ("out",):
            self.use.outputs.add(k)
            return T("V", n, False, ("out", k))
        if inner.of == ("g",):
            if n.b in self.op.nondiff:
                self.fail(n, f"output {n.b!r} has no gradient: it is declared nondiff")
            diff = [o for o in names if o not in self.op.nondiff]
            return T("V", n, len(diff) > 1, ("g", k))
        return T("V", n, inner.maybe, args=[inner], extra=("pick", k))

    def check_item(self, n):
        base, index = self.check(n.a), self.check(n.b)
        if index.kind != "i":
            self.fail(n, "an index must be an int")
        if base.kind == "I":
            return T("i", n, args=[base, index])
        if base.kind == "L":
            return T("V", n, base.maybe, args=[base, index])
        return self.fail(n, "only lists have items")

    def check_neg(self, n):
        e = self.check(n.a)
        if e.kind == "V":
            return self.op_call(n, "neg", [e], {})
        if e.kind not in ("i", "f", "S", "I"):
            self.fail(n, "this has no negative")
        return T(e.kind, n, args=[e])

    def check_not(self, n):
        e = self.check(n.a)
        if e.kind != "b":
            self.fail(n, "'not' takes a condition on attributes")
        return T("b", n, args=[e])

    def check_bin(self, n):
        x, y = self.check(n.b), self.check(n.c)
        if n.a in ("and", "or"):
            if x.kind != "b" or y.kind != "b":
                self.fail(n, f"{n.a!r} takes conditions on attributes (for tensors: logical_{n.a})")
            return T("b", n, args=[x, y])
        if x.kind == y.kind and x.kind in ("D", "I") and n.a in ("==", "!="):
            return T("b", n, args=[x, y])
        for e in (x, y):
            if e.kind not in HOST + ("V", "none"):
                self.fail(n, f"{n.a!r} of a {KIND_NAMES[e.kind]}")
        if "V" in (x.kind, y.kind):
            return self.op_call(n, VALUE_OPS[n.a], [x, y], {})
        if "none" in (x.kind, y.kind):
            self.fail(n, f"{n.a!r} of none")
        if n.a in COMPARE:
            return T("b", n, args=[x, y])
        kinds = {x.kind, y.kind}
        kind = "S" if "S" in kinds else "f" if "f" in kinds or n.a in ("/", "**") else "i"
        if n.a in ("//", "%") and kind != "i":
            self.fail(n, f"{n.a!r} takes ints")
        if kind == "S" and n.a not in "+-*/":
            self.fail(n, f"{n.a!r} of a scalar attribute")
        return T(kind, n, args=[x, y])

    def check_let(self, n):
        saved, binds = dict(self.scope), []
        for name, e in n.a:
            if self.op.arg(name) or name in (self.op.grad_name, "out", "need"):
                self.fail(n, f"{name!r} already has a meaning here")
            value = self.check(e)
            binds.append((name, value))
            self.scope[name] = T(value.kind, n, value.maybe, extra=("var", name, value))
        body = self.check(n.b)
        self.scope = saved
        return T(body.kind, n, body.maybe, args=[body], extra=binds)

    def check_if(self, n):
        condition = self.check(n.a)
        if condition.kind != "b":
            self.fail(n, "a condition looks at attributes and shapes only, never at values")
        saved = set(self.given)
        self.given |= given_names(n.a)
        yes = self.check(n.b)
        self.given = saved | (given_names(n.a.a) if n.a.kind == "not" else set())
        no = self.check(n.c)
        self.given = saved
        kind = self.join(n, yes, no)
        return T(kind, n, yes.maybe or no.maybe, args=[condition, yes, no])

    def join(self, n, x, y):
        if "fail" in (x.kind, y.kind):
            return y.kind if x.kind == "fail" else x.kind
        if x.kind == y.kind:
            return x.kind
        kinds = {x.kind, y.kind}
        if kinds == {"V", "R"}:
            return "R"
        if kinds <= {"V", "none"} | set(HOST) and kinds & {"V", "none"}:
            return "V"
        if kinds == {"L", "none"} or kinds == {"P", "none"}:
            self.fail(n, "none in place of a list")
        if kinds <= set(HOST):
            return "S" if "S" in kinds else "f" if "f" in kinds else "i"
        return self.fail(n, f"the branches are a {KIND_NAMES[x.kind]} and a {KIND_NAMES[y.kind]}")

    def check_tuple(self, n):
        items = [self.check(e) for e in n.a]
        for e in items:
            if e.kind not in ("V", "none", "R") + HOST:
                self.fail(n, "a tuple holds gradients")
        return T("P", n, True, args=items, extra="tuple")

    def check_list(self, n):
        items = [self.check(e) for e in n.a]
        kinds = {e.kind for e in items}
        if kinds <= {"i"}:
            return T("I", n, args=items)
        if kinds <= {"V", "none"}:
            return T("L", n, any(e.maybe for e in items), args=items)
        return self.fail(n, "a list holds ints, or tensors")

    def go_through(self, n, lists):
        """[(name, list)] of what is gone through; the names are in scope then."""
        sources = []
        for name, e in zip(n.b, lists):
            src = self.check_name(e, touch=False) if e.kind == "name" else self.check(e)
            if src.kind == "L":
                of = ("item", src.of[1]) if src.of and src.of[0] == "in" else None
                self.scope[name] = T("V", n, src.maybe, of, extra=("var", name))
            elif src.kind == "I":
                self.scope[name] = T("i", n, extra=("var", name))
            else:
                self.fail(n, f"cannot go through a {KIND_NAMES[src.kind]}")
            sources.append((name, src))
        return sources

    def check_comp(self, n):
        saved = dict(self.scope)
        sources = self.go_through(n, n.c)
        body = self.check(n.a)
        self.scope = saved
        if body.kind in ("V", "none"):
            return T("L", n, body.maybe, args=[body], extra=sources)
        if body.kind == "i":
            return T("I", n, args=[body], extra=sources)
        return self.fail(n, "a list is made of ints or tensors")

    def check_scan(self, n):
        saved, (name, e) = dict(self.scope), n.a[0]
        start = self.check(e)
        sources = self.go_through(n, n.c[:-1])
        self.scope[name] = T("V", n, start.maybe, extra=("var", name))
        body = self.check(n.c[-1])
        self.scope = saved
        if start.kind not in ("V", *HOST) or body.kind != "V" or body.maybe and not start.maybe:
            self.fail(n, f"{name!r} is a tensor, before and after")
        return T("L", n, body.maybe, args=[start, body], extra=sources)

    def check_text(self, n):
        self.fail(n, "a text is only for fail(KIND, 'text')")

    def check_fail(self, n):
        if len(n.b) != 2 or n.c or n.b[0].kind != "name" or n.b[0].a not in FAILURES or n.b[1].kind != "text":
            self.fail(n, f"it is fail(KIND, 'text'), with a KIND of {', '.join(FAILURES)}")
        values = []
        for text in re.findall(r"{([^{}]*)}", n.b[1].a):
            e = Parser(text).parse()
            for names in n.b[1].b or ():
                e = replace_names(e, names)
            values.append(self.check(e))
        for e in values:
            if e.kind not in ("i", "I"):
                self.fail(n, "the text of a failure takes ints and lists of ints")
        return T("fail", n, args=values, extra=("fail", FAILURES[n.b[0].a], n.b[1].a))

    def check_part(self, n):
        """Put the part in: its arguments as `let`, all of its names made its own."""
        names, text = self.ops.parts[n.a]
        if n.a in self.inside:
            self.fail(n, f"part {n.a} needs itself")
        if n.c or len(n.b) != len(names):
            self.fail(n, f"part {n.a} takes {', '.join(names)}")
        body, mark = Parser(text).parse(), f"'{n.a}{len(self.scope)}"
        own = set(names) | bound_names(body)
        plain = {name: e for name, e in zip(names, n.b) if e.kind in ("name", "num", "bool", "none")}
        body = replace_names(body, {name: plain.get(name, Node("name", name + mark, col=n.col)) for name in own})
        free = free_names(Parser(text).parse(), set(names)) - {"pi", "inf", "create_graph", *DTYPES, *FAILURES}
        if free:
            self.fail(n, f"part {n.a}: nothing is called {sorted(free)[0]!r} there")
        binds = [(name + mark, e) for name, e in zip(names, n.b) if name not in plain]
        self.inside.append(n.a)
        result = self.check(Node("let", binds, body, col=n.col) if binds else body)
        self.inside.pop()
        return result

    def check_call(self, n):
        name, args, named = n.a, n.b, n.c
        if name == "fail":
            return self.check_fail(n)
        if name in self.ops.parts:
            return self.check_part(n)
        if name == "given":
            return self.check_given(n)
        if name == "number":
            return self.check_number(n)
        if name == "keep":
            return self.check_keep(n)
        if name == "filled":
            e = self.check(args[0]) if len(args) == 1 else self.fail(n, "filled takes one gradient")
            if not e.of or e.of[0] != "g" or e.kind not in ("V", "L"):
                self.fail(n, "filled takes a gradient that arrives (g, g.k)")
            return T(e.kind, n, False, args=[e], extra=("filled",))
        if name in HELPERS and (name not in self.ops or name in KEPT):
            return self.check_helper(n)
        if name not in self.ops:
            self.fail(n, f"no op and no helper is called {name!r}")
        return self.op_call(n, name, [self.check(e) for e in args], {k: self.check(e) for k, e in named.items()})

    def check_given(self, n):
        a = self.op.arg(n.b[0].a) if len(n.b) == 1 and n.b[0].kind == "name" else None
        if not a or not (a.optional or a.kind == "T?"):
            self.fail(n, "given takes the name of an optional input or attribute")
        if a.is_param:
            self.use.shapes.add(a.index)
        return T("b", n, extra=("given", a))

    def check_number(self, n):
        a = self.op.arg(n.b[0].a) if len(n.b) == 1 and n.b[0].kind == "name" else None
        if not a or a.kind != "TS":
            self.fail(n, "number takes the name of an input that may be a number")
        self.use.inputs.add(a.index)
        return T("b", n, extra=("number", a))

    def check_keep(self, n):
        op = self.op
        first = op.params[0]
        if not op.arg("dim") or not op.arg("keepdim") or len(n.b) != 1:
            self.fail(n, "keep(v) puts back the dimensions that an op with dim and keepdim has dropped")
        value = self.check(n.b[0])
        shape = self.check(Node("field", Node("name", first.name, col=n.col), "shape", col=n.col))
        dim, keepdim = self.check(Node("name", "dim", col=n.col)), self.check(Node("name", "keepdim", col=n.col))
        kept = T("I", n, args=[shape, self.coerce(n, dim, "I", True), keepdim], extra=("helper", "kept"))
        return T("V", n, value.maybe, args=[value, kept], extra=("helper", "reshape"))

    def check_helper(self, n):
        name, kinds, result = n.a, HELPERS[n.a][0], HELPERS[n.a][1]
        want = re.findall(r"\w\??", kinds)
        if n.c or len(n.b) != len(want):
            self.fail(n, f"{name} takes {len(want)} arguments")
        given = [self.check(e) for e in n.b]
        if name in ("max", "min") and all(t.kind == "i" for t in given):
            name, result, want = "int" + name, "i", ["i", "i"]
        if name == "len" and given[0].kind == "L":
            want = ["L"]
        args = [self.coerce(n, t, kind[0], kind.endswith("?")) for t, kind in zip(given, want)]
        maybe = False
        for k, e in enumerate(args):
            if e.kind == "V" and e.maybe:
                if k or name not in LINEAR_HELPERS:
                    self.fail(n, f"{name} of a value that may be undefined")
                maybe = True
        return T(result, n, maybe, args=args, extra=("helper", name))

    def coerce(self, n, e, kind, optional):
        """e as an argument of the wanted kind; the result's kind says how it is written in C."""
        absent = e.kind == "none" or (e.of and e.of[0] == "attr" and e.of[2])
        if absent and not optional and e.kind == "none":
            self.fail(n, f"none where a {KIND_NAMES[kind]} is needed")
        ok = e.kind == kind or e.kind == "none" or (kind == "f" and e.kind == "i") or (kind == "S" and e.kind in HOST) or \
            (kind == "I" and e.kind == "i") or (kind == "V" and e.kind in HOST)
        if not ok:
            self.fail(n, f"a {KIND_NAMES[e.kind]} where a {KIND_NAMES[kind]} is needed")
        return T(e.kind, e.node, e.maybe, e.of, e.args, ("coerce", kind, optional, e))

    def op_call(self, n, name, args, named):
        if name not in self.ops:
            self.fail(n, f"the formula needs op {name!r}, which is not in the table")
        callee = self.ops[name]
        shaped = "data_shape" in callee.flags
        if shaped and not self.composing:
            self.fail(n, f"{name}: its shape depends on values, which a formula may not do")
        if len(args) > len(callee.args):
            self.fail(n, f"{name} takes {len(callee.args)} arguments, {len(args)} given")
        bound = dict(zip((a.name for a in callee.args), args))
        for key, e in named.items():
            if not callee.arg(key):
                self.fail(n, f"{name} has no argument {key!r}")
            if key in bound:
                self.fail(n, f"{name}: {key} is given twice")
            bound[key] = e
        inputs, attrs, absorbed, defined = [], [], False, []
        for a in callee.args:
            e = bound.get(a.name)
            if not a.is_param:
                attrs.append((a, self.attribute(n, callee, a, e)))
                continue
            if e is None or e.kind == "none":
                if a.kind == "T?":
                    inputs.append((a, None))
                    continue
                if e is None:
                    self.fail(n, f"{name}: {a.name} is missing")
            inputs.append((a, e))
            absorbed |= self.input(n, callee, a, e)
            if e is not None and not e.maybe:
                defined.append(a.name)
        maybe = absorbed
        if name in JOINTLY_LINEAR:
            pair = ("x", "y")
            maybe = not any(p in defined for p in pair)
        kind = "R" if shaped else "V" if len(callee.outs) == 1 else "P"
        if len(callee.outs) == 0 or (callee.out_list and not self.composing):
            self.fail(n, f"{name}: a gradient calls ops with one or several outputs, not with a list of them")
        return T("L" if callee.out_list else kind, n, maybe, extra=callee, args=[inputs, attrs])

    def input(self, n, callee, a, e):
        """Check one tensor argument; True when an undefined one makes the result undefined."""
        want = "L" if a.kind in ("T[]", "T?[]") else "V"
        if want == "L" and e.kind != "L" or want == "V" and e.kind not in ("V", "none") + HOST:
            self.fail(n, f"{callee.name}: {a.name} is a {KIND_NAMES[e.kind]}, a {KIND_NAMES[want]} is needed")
        if want == "V" and e.kind in HOST and a.kind != "TS" and callee.name not in FOLDED:
            self.fail(n, f"{callee.name}: {a.name} takes a tensor, not a number")
        if not e.maybe or a.kind in ("T?", "T?[]"):
            return False
        if callee.name in JOINTLY_LINEAR and a.name in ("x", "y"):
            return True
        if not a.linear:
            self.fail(n, f"{callee.name}: {a.name} may be undefined here, and the op is not linear in it")
        return True

    def attribute(self, n, callee, a, e):
        if e is None:
            if not a.has_default:
                self.fail(n, f"{callee.name}: {a.name} is missing")
            return None
        return self.coerce(n, e, a.kind, a.optional)


KIND_NAMES = {"fail": "failure", "V": "tensor", "R": "tensor whose shape depends on values", "L": "list of tensors", "P": "group of outputs", "i": "int", "f": "float", "b": "condition", "S": "number",
              "D": "dtype", "s": "text", "I": "list of ints", "M": "list of shapes", "none": "none"}


def parts_of(node):
    """The nodes right below a node."""
    for field in (node.a, node.b, node.c):
        items = field.values() if isinstance(field, dict) else field if isinstance(field, list) else [field]
        for item in items:
            item = item[1] if isinstance(item, tuple) else item
            if isinstance(item, Node):
                yield item


def bound_names(node):
    """Names that a formula itself binds, by let or in a list."""
    own = {name for name, _ in node.a} if node.kind in ("let", "scan") else set()
    own |= set(node.b) if node.kind in ("comp", "scan") else set()
    return own.union(*(bound_names(e) for e in parts_of(node)))


def free_names(node, known):
    known = known | bound_names(node)
    if node.kind == "name":
        return {node.a} - known
    return set().union(*(free_names(e, known) for e in parts_of(node)))


def replace_names(node, names):
    """The same formula with other nodes for names (Node), where they are used, and other names where they are bound."""
    def put(item):
        if isinstance(item, Node):
            return replace_names(item, names)
        if isinstance(item, list):
            return [put(e) for e in item]
        if isinstance(item, tuple):
            return (names[item[0]].a, put(item[1]))
        return {k: put(e) for k, e in item.items()} if isinstance(item, dict) else item

    if node.kind == "name":
        return names.get(node.a, node)
    if node.kind == "text":  # what it shows is read where it is said
        return Node("text", node.a, [*(node.b or ()), names], col=node.col)
    b = [names[name].a for name in node.b] if node.kind in ("comp", "scan") else put(node.b)
    return Node(node.kind, put(node.a), b, put(node.c), node.col)


def given_names(node):
    if node.kind == "call" and node.a == "given" and node.b and node.b[0].kind == "name":
        return {node.b[0].a}
    if node.kind == "bin" and node.a == "and":
        return given_names(node.b) | given_names(node.c)
    return set()


# ---- one op's gradients

@dataclasses.dataclass
class Gradient:
    names: list  # of inputs, in the order of the formula's results
    text: str
    tree: T
    use: Use


def gradients(ops, op):
    """The checked gradients of an op: [Gradient]. Raises FormulaError with file, line, op and input."""
    result, seen = [], set()
    for key, text in op.grads.items():
        if text == "missing":
            continue
        place = f"{op.row.where('grad.' + key)}: op {op.name}: grad.{key}"
        try:
            names = [s.strip() for s in key.split(",")]
            for name in names:
                a = op.arg(name)
                if not a or not a.is_param:
                    raise FormulaError(f"{name!r} is not an input of {op.name}")
                if name in seen:
                    raise FormulaError(f"a second gradient for {name!r}")
                seen.add(name)
            result.append(gradient(ops, op, names, text))
        except FormulaError as e:
            raise FormulaError(f"{place}: {e}") from None
    if op.grads and "nondiff" in op.flags:
        raise FormulaError(f"{op.row.where()}: op {op.name}: declared nondiff, but has a gradient")
    return result


def gradient(ops, op, names, text):
    if not isinstance(text, str):
        raise FormulaError("a formula is a string")
    use = Use()
    tree = Checker(ops, op, use).check(Parser(text).parse())
    if len(names) > 1:
        n = None
        if tree.kind == "P":
            n = outputs_of(tree)
        if n != len(names):
            raise FormulaError(f"{len(names)} gradients wanted, the formula gives " + (f"{n}" if n else "one value"))
    else:
        wants_list = op.arg(names[0]).kind in ("T[]", "T?[]")
        if wants_list and tree.kind != "L":
            raise FormulaError(f"the gradient of the list {names[0]} is a list, not a {KIND_NAMES[tree.kind]}")
        if not wants_list and tree.kind not in ("V", "none") + HOST:
            raise FormulaError(f"a gradient is one tensor, not a {KIND_NAMES[tree.kind]}")
    return Gradient(names, text, tree, use)


def composition(ops, op):
    """The checked formula that makes an op of others (its column decompose): T. Raises FormulaError with file, line and op."""
    text = op.row.raw["decompose"]
    try:
        tree = Checker(ops, op, Use(), composing=True).check(Parser(text).parse())
        n, kind = len(op.outs), tree.kind
        if op.out_list and kind != "L":
            raise FormulaError(f"a list is to come out, not a {KIND_NAMES[kind]}")
        if n > 1 and (kind != "P" or outputs_of(tree) != n):
            raise FormulaError(f"{n} results are to come out")
        if not op.out_list and n == 1 and kind not in ("V", "R", *HOST):
            raise FormulaError(f"one tensor is to come out, not a {KIND_NAMES[kind]}")
        return tree
    except FormulaError as e:
        raise FormulaError(f"{op.row.where('decompose')}: op {op.name}: decompose: {e}") from None


def names_of(t):
    """What the values of a tree of kind P are called, or None."""
    if isinstance(t.extra, Op):
        return t.extra.outs
    if isinstance(t.extra, tuple) and t.extra[0] == "var" and len(t.extra) > 2:
        return names_of(t.extra[2])
    if t.node.kind in ("let", "if"):
        return next((names_of(e) for e in t.args[-2:] if e.kind == "P"), None)
    return None


def outputs_of(t):
    """How many values a tree of kind P has, or None."""
    if t.extra == "tuple":
        return len(t.args)
    if t.node.kind == "if":
        a, b = outputs_of(t.args[1]), outputs_of(t.args[2])
        if "fail" in (t.args[1].kind, t.args[2].kind):
            return b if t.args[1].kind == "fail" else a
        return a if a == b else None
    if t.node.kind == "let":
        return outputs_of(t.args[0])
    return len(t.extra.outs) if isinstance(t.extra, Op) else None


def saves(ops, op):
    """What each parameter's gradient keeps: [(exists, inputs, outputs, shapes)] as bit masks, one for each parameter."""
    rows = [(False, 0, 0, 0)] * len(op.params)
    for gr in gradients(ops, op):
        masks = tuple(sum(1 << k for k in s) for s in (gr.use.inputs, gr.use.outputs, gr.use.shapes))
        for name in gr.names:
            rows[op.arg(name).index] = (True, *masks)
    return rows


def check(table, errors):
    """Check the formulas of a table whose columns are right: appends one line to `errors` for each wrong one, and sets op.saves."""
    ops = from_table(table)
    for row in table.ops:
        try:
            masks = saves(ops, ops[row.name])
            if "decompose" in row.raw:
                composition(ops, ops[row.name])
        except FormulaError as e:
            errors.append(str(e))
            continue
        row.saves = masks if any(m[0] for m in masks) else None
