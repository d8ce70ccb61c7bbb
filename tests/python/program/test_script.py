"""The parser of programs (client/script) against Python's own: the same trees, at the same places, for sources that hypothesis draws and
for functions of Python's library; and what is not in the subset is refused as that, never as wrong Python."""
import ast
import os
import subprocess
import sys
import warnings

import pytest

SHOW = os.environ.get("TENSORD_SHOW_SCRIPT", "")
OPS = {"Add": "+", "Sub": "-", "Mult": "*", "MatMult": "@", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<",
       "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "Invert": "~", "Not": "not", "And": "and", "Or": "or", "Eq": "==",
       "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "In": "in", "NotIn": "not in", "Is": "is", "IsNot": "is not",
       "USub": "-", "UAdd": "+"}


class Ours:
    """One process that reads sources and prints their trees."""

    def __init__(self, *args):
        self.process = subprocess.Popen([SHOW, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, source):
        self.process.stdin.write(source.encode() + b"\0")
        self.process.stdin.flush()
        out = bytearray()
        while (c := self.process.stdout.read1(1 << 16)):
            out += c
            if c.endswith(b"\0"):
                break
        return out[:-1].decode()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def ours():
    if not SHOW:
        pytest.skip("TENSORD_SHOW_SCRIPT does not name the program")
    show = Ours()
    yield show
    show.close()


# ---- Python's tree in our words: (words, place, kids), place None where Python has none or another in each release


def quoted(text):
    out = ""
    for c in text:
        plain = c.isascii() and c.isprintable() and c not in '"\\'
        out += c if plain else "".join(f"\\x{b:02x}" for b in c.encode())
    return f'"{out}"'


def place(node):
    return f"{node.lineno}:{node.col_offset}-{node.end_lineno}:{node.end_col_offset}"


def block(statements):
    return ("Block", None, [convert(s) for s in statements]) if statements else NOTHING


NOTHING = ("-", None, [])


def constant(node):
    v = node.value
    if v is None:
        return "None"
    if v is ...:
        return "Ellipsis"
    if isinstance(v, bool):
        return f"Bool {v}"
    if isinstance(v, int):
        return f"Int {v}"
    if isinstance(v, str):
        return "Str " + quoted(v)
    return f"Float {v:.17g}" if isinstance(v, float) else f"Imaginary {v.imag:.17g}"


def params(a):
    out = []
    pad = len(a.posonlyargs) + len(a.args) - len(a.defaults)
    defaults = [None] * pad + a.defaults + a.kw_defaults
    for i, arg in enumerate(a.posonlyargs + a.args + a.kwonlyargs):
        kind = " /" if i < len(a.posonlyargs) else " *" if i >= len(a.posonlyargs) + len(a.args) else ""
        out.append((f"Param {arg.arg}{kind}", place(arg), [convert(arg.annotation), convert(defaults[i])]))
    return ("Params", None, out)


def without_places(tree):
    return (tree[0], None, [without_places(k) for k in tree[2]])


def many(nodes):
    return [convert(n) for n in nodes]


def kids_of(n):
    match n:
        case ast.Assign():
            return "Assign", [convert(n.value), NOTHING, *many(n.targets)]
        case ast.AnnAssign():
            return "AnnAssign", [convert(n.target), convert(n.annotation), convert(n.value)]
        case ast.AugAssign():
            return "AugAssign " + OPS[type(n.op).__name__], [convert(n.target), convert(n.value)]
        case ast.If() | ast.While():
            return type(n).__name__, [convert(n.test), block(n.body), block(n.orelse)]
        case ast.For():
            return "For", [convert(n.target), convert(n.iter), block(n.body), block(n.orelse)]
        case ast.With():
            return "With", [block(n.body), *[("WithItem", None, [convert(i.context_expr), convert(i.optional_vars)]) for i in n.items]]
        case ast.FunctionDef():
            return "FunctionDef " + n.name, [params(n.args), convert(n.returns), NOTHING, block(n.body), *many(n.decorator_list)]
        case ast.Raise():
            return "Raise", [convert(n.exc)]
        case ast.Assert():
            return "Assert", [convert(n.test), convert(n.msg)]
        case ast.Expr() | ast.Return():
            return type(n).__name__, [convert(n.value)]
        case ast.Name():
            return "Name " + n.id, []
        case ast.Constant():
            return constant(n), []
        case ast.UnaryOp():
            return "UnaryOp " + OPS[type(n.op).__name__], [convert(n.operand)]
        case ast.BinOp():
            return "BinOp " + OPS[type(n.op).__name__], [convert(n.left), convert(n.right)]
        case ast.BoolOp():
            return "BoolOp " + OPS[type(n.op).__name__], many(n.values)
        case ast.Compare():
            rest = [("CompareTo " + OPS[type(op).__name__], None, [convert(c)]) for op, c in zip(n.ops, n.comparators)]
            return "Compare", [convert(n.left), *rest]
        case ast.IfExp():
            return "IfExp", [convert(n.test), convert(n.body), convert(n.orelse)]
        case ast.Call():
            return "Call", [convert(n.func), *many(n.args), *many(n.keywords)]
        case ast.keyword():
            return "Keyword " + n.arg, [convert(n.value)]
        case ast.Attribute():
            return "Attribute " + n.attr, [convert(n.value)]
        case ast.Subscript():
            return "Subscript", [convert(n.value), convert(n.slice)]
        case ast.Slice():
            return "Slice", [convert(n.lower), convert(n.upper), convert(n.step)]
        case ast.Starred():
            return "Starred", [convert(n.value)]
        case ast.Tuple() | ast.List():
            return type(n).__name__, many(n.elts)
        case ast.Dict():
            return "Dict", [convert(x) for pair in zip(n.keys, n.values) for x in pair]
        case ast.ListComp() | ast.GeneratorExp():
            (g,) = n.generators
            return "ListComp", [convert(n.elt), convert(g.target), convert(g.iter), *many(g.ifs)]
        case ast.DictComp():
            (g,) = n.generators
            return "DictComp", [convert(n.key), convert(n.value), convert(g.target), convert(g.iter), *many(g.ifs)]
        case ast.Delete():
            return "Delete", many(n.targets)
        case ast.JoinedStr():
            return "FString", [without_places(k) for k in many(n.values)]
        case ast.FormattedValue():
            return "Value" + (f" !{chr(n.conversion)}" if n.conversion > 0 else ""), [convert(n.value), *many([n.format_spec] if n.format_spec else [])]
    return type(n).__name__, []


def convert(n):
    if n is None:
        return NOTHING
    words, kids = kids_of(n)
    return words, place(n), kids


def flatten(tree, depth=0):
    yield depth, tree[0], tree[1]
    for k in tree[2]:
        yield from flatten(k, depth + 1)


def compare(printed, module):
    """Line by line; a place of None is not compared."""
    want = list(flatten(("Module", None, many(module.body))))
    got = printed.splitlines()
    for line, (depth, words, where) in zip(got, want):
        said, _, at = (line, "", "") if line.strip() == "-" else line.rpartition(" ")
        assert said == "  " * depth + words, (line, words)
        assert where is None or at == where, (line, where)
    assert len(got) == len(want)


def check(ours, source):
    """Is it accepted? Then with the same tree."""
    printed = ours(source)
    try:
        with warnings.catch_warnings(action="ignore"):
            module = ast.parse(source)
    except (SyntaxError, ValueError):
        module = None
    if printed.startswith("TD_E_"):
        assert module is None or printed.startswith("TD_E_UNSUPPORTED\n"), (source, printed)
        return False
    assert module is not None, (source, printed)
    compare(printed, module)
    return True


# ---- functions of Python's library


def functions_of(path):
    """The text of each function at the top and of each method, as it stands in its file."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield "".join(lines[node.lineno - 1 : node.end_lineno])


def dedented(source):
    """So that Python's own parser reads it; places move. None: a string of several lines would change."""
    blanks = len(source) - len(source.lstrip())
    lines = source.splitlines(keepends=True)
    if blanks and any(line.strip() and not line.startswith(" " * blanks) for line in lines):
        return None
    return "".join(line[blanks:] if line.strip() else line for line in lines)


LIBRARY = ["bisect", "calendar", "colorsys", "difflib", "fractions", "heapq", "random", "statistics", "string", "textwrap", "ast", "datetime",
           "_pydecimal", "_pydatetime", "json/decoder", "json/encoder", "argparse", "configparser", "zipfile", "tarfile", "turtle", "inspect"]


def test_library(ours):
    taken = seen = 0
    folder = os.path.dirname(os.__file__)
    for name in LIBRARY:
        path = os.path.join(folder, name + ".py")
        for source in functions_of(path) if os.path.exists(path) else []:
            source = dedented(source)
            if source and "\\N{" not in source:
                seen += 1
                taken += check(ours, source)
    assert seen > 1000 and taken > seen // 2, (seen, taken)


# ---- drawn sources

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not there (Debian: python3-hypothesis)")
st = hypothesis.strategies
SETTINGS = hypothesis.settings(max_examples=400, deadline=None, database=None, derandomize=True,
                               suppress_health_check=list(hypothesis.HealthCheck))
NAMES = st.sampled_from(["x", "y", "self", "_a1", "match", "type", "ünder"[1:], "f", "rb", "u"])
ATOMS = NAMES | st.sampled_from(
    ["0", "00", "1_000", "0x_Ff", "0b10", "0o17", "1.", ".5", "1e5", "1_0.0_1e-3", "2j", "1.5J", "9223372036854775807", "True", "False", "None", "...",
     "'a'", '"b\\n"', "r'\\d'", "'''c\nd'''", "u'é'", "'a' \"b\"", "'\\x41\\u00e9\\101\\q'", "f'{x}'", "f'a{x!r}b{{}}'", "f'{x:>{y}}'", "f'{x=}'",
     "f'{x:.3f}' 'z'", "rf'\\d{x}'", "()", "[]", "{}", "f'{x[1:2]}'", "f'''{\nx}'''"])


def joined(*parts):
    return st.tuples(*[st.just(p) if isinstance(p, str) else p for p in parts]).map("".join)


BLANK = st.sampled_from(["", " ", " ", "  "])
BINARY = st.sampled_from("+ - * / // % ** << >> & | ^ @ < <= == != > >= in is and or".split() + ["not in", "is not"])


def lists(item, most=3):
    return st.lists(item, min_size=1, max_size=most).map(", ".join)


def compound(e):
    return st.one_of(
        joined(e, " ", BINARY, " ", e), joined(e, " ", BINARY, " ", e), joined(st.sampled_from(["-", "+", "~", "not "]), e), joined("(", e, ")"),
        joined("(\n", e, " # note\n)"), joined(e, " if ", e, " else ", e), joined(e, ".", NAMES), joined(e, "(", lists(e), BLANK, ")"),
        joined(e, "(", e, ", ", NAMES, "=", e, ",)"), joined(e, "[", e, "]"), joined(e, "[", e, ":", e, "]"), joined(e, "[:, ", e, ", ...]"),
        joined(e, "[::", e, "]"), joined("[", lists(e), "]"), joined("(", e, ",)"), joined("(", lists(e), ")"), joined("{", e, ": ", e, "}"),
        joined("[", e, " for ", NAMES, " in ", e, "]"), joined(e, "(", e, " for ", NAMES, " in ", e, ")"), joined("{", e, ": ", e, " for ", NAMES, " in ", e, " if ", e, "}"), joined("[", e, " for ", NAMES, ", x in ", e, " if ", e, "]"),
        joined(e, " + \\\n  ", e))


EXPRESSIONS = st.recursive(ATOMS, compound, max_leaves=12)
TARGETS = st.one_of(NAMES, joined(NAMES, "[", ATOMS, "]"), joined(NAMES, ".", NAMES), joined(NAMES, ", ", NAMES), joined("(", NAMES, ", [", NAMES, "])"), joined(NAMES, ","), joined(NAMES, ", *", NAMES), joined("*", NAMES, ", ", NAMES, "[0]"))
ONE = st.one_of(NAMES, joined(NAMES, "[", ATOMS, "]"), joined(NAMES, ".", NAMES))
SIMPLE = st.one_of(
    EXPRESSIONS, joined(TARGETS, " = ", EXPRESSIONS), joined(TARGETS, "=", TARGETS, " = ", EXPRESSIONS, ", ", ATOMS), joined(ONE, " : ", ATOMS),
    joined(ONE, ": ", EXPRESSIONS, " = ", EXPRESSIONS), joined(ONE, " ", st.sampled_from("+= -= *= /= //= %= **= <<= >>= &= |= ^= @=".split()), " ", EXPRESSIONS),
    st.just("pass"), joined("del ", TARGETS), joined("assert ", EXPRESSIONS), joined("assert ", EXPRESSIONS, ", ", EXPRESSIONS), joined("raise ", EXPRESSIONS), joined("return ", EXPRESSIONS, ",", EXPRESSIONS),
    st.sampled_from(["return", "break", "continue", "x; y", "x;"]))


def indented(statements):
    return "".join(f"{' ' * 3}{line}\n" if line.strip() else line + "\n" for s in statements for line in s.split("\n"))


def blocks(statement):
    body = st.lists(statement, min_size=1, max_size=3).map(indented)
    params = st.sampled_from(["", "x", "x, y=1", "x: int, *, y: 'str' = 2", "a, /, b", "a, /, b=1, *, c", "x, y,"])
    return st.one_of(
        joined("if ", EXPRESSIONS, ":\n", body), joined("if ", EXPRESSIONS, ": # why\n\n  # more\n", body, "elif ", EXPRESSIONS, ":\n", body, "else:\n", body),
        joined("while ", EXPRESSIONS, ":\n", body, "else: pass"), joined("for ", TARGETS, " in ", EXPRESSIONS, ", ", ATOMS, ":\n", body),
        joined("for ", TARGETS, " in ", EXPRESSIONS, ": pass"), joined("with ", EXPRESSIONS, " as ", ONE, ", ", ATOMS, ":\n", body),
        joined("def ", NAMES, "(", params, "):\n", body), joined("def f(", params, ") -> ", EXPRESSIONS, ":\n", body))


PROGRAMS = st.lists(st.recursive(SIMPLE, blocks, max_leaves=6), min_size=1, max_size=3).map("\n".join)


@pytest.mark.parametrize("inside", [False, True])
def test_drawn(ours, inside):
    taken = []

    @SETTINGS
    @hypothesis.given(PROGRAMS)
    def run(source):
        source = "def f():\n while x:\n" + indented([source]) if inside else source
        taken.append(agree(ours, source))

    run()
    assert sum(taken) > len(taken) // 4


def agree(ours, source):
    """As check(), but what Python finds out behind its parser (a 'return' outside of a function) is nothing to it."""
    printed = ours(source)
    if printed.startswith("TD_E_INVALID") and ("stands outside of" in printed or "nested more than" in printed):
        return False
    return check(ours, source)


@pytest.mark.parametrize("source", [
    "x = (1", "x = 1)", "x = [1)", "if x\n  y", "if x:\ny", "  x\n y", "x\n  y", "0777", "1__0", "0x", "1_", "1a", "'a", "'''a", "x y", "x = = y", "x + ", "f(x=1, y)", "f(x y)",
    "x not y", "a if b", "def f(x, x2=1, y): pass", "def f(: pass", "def f(x)\n  pass", "def f(*, ): pass", "1 = x", "x + 1 = y", "f() = 1", "x, y += 1", "(x, y): int", "x: int = ",
    "for x y: pass", "for 1 in y: pass", "[x for y]", "[x for 1 in y]", "'\\x1'", "'\\u12'", "f'{'", "f'}'", "f'{x'", "f'{x!z}'", "f'{}'", "x[", "x[]", "x.", "x.1", "$x", "x ? y",
    "if x:\n\ty\n        z", "x = 1 \\", "\\ \nx", "while: pass", "else: pass", "assert", "with: pass", "return x y", "def 1(): pass", "x\n\ty", "!x", "a! b"])
def test_wrong(ours, source):
    """What is no Python is no program; it has its place."""
    with pytest.raises(SyntaxError), warnings.catch_warnings(action="ignore"):
        ast.parse(source)
    code, first, *_ = ours("def f():\n while 1:\n  pass\n" + source if "return" in source else source).splitlines()
    assert code == "TD_E_INVALID", first
    assert first.startswith("test.py:")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
