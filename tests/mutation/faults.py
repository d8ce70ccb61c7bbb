"""Faults that can be planted in a source: where they are, and what stands there then.

A fault replaces one piece of a text by another one of as many lines. Invariant: none is found in a comment, a text, a line of the preprocessor, an assert,
a prefetch or words for a log, where it would change nothing that a test can see; and the same text gives the same faults."""
import ast
import re
from dataclasses import dataclass

# What each kind does, with an example in C and one in Python: before and after.
KINDS = {
    "bound": ("a bound is off by one", ("int f(int i) { return i < 7; }", "int f(int i) { return i <= 7; }"), ("f(i < 7)", "f(i <= 7)")),
    "comparison": ("a comparison says the opposite", ("int f(int i) { return i == 7; }", "int f(int i) { return i != 7; }"), ("f(i is a)", "f(i is not a)")),
    "and-or": ("`and` is `or`, or the other way round", ("int f(int i, int j) { return i && j; }", "int f(int i, int j) { return i || j; }"), ("f(i and j)", "f(i or j)")),
    "not": ("a `not` is left out", ("int f(int i) { return !i; }", "int f(int i) { return i; }"), ("f(not i)", "f(i)")),
    "check": ("a check is left out: what it would refuse goes on",
              ("int f(int i)\n{\n    if (i) return i;\n}", "int f(int i)\n{\n    if ((i) && 0) return i;\n}"),
              ("def f():\n    if i:\n        return j", "def f():\n    if (i) and False:\n        return j")),
    "edge": ("an edge is off by one", ("int f(int i) { return i + 1; }", "int f(int i) { return i; }"), ("f(i - 1)", "f(i)")),
    "sign": ("a sum is a difference, or the other way round", ("int f(int i) { return i + i; }", "int f(int i) { return i - i; }"), ("i += j", "i -= j")),
    "answer": ("another answer is given", ("int f(void) { return true; }", "int f(void) { return false; }"), ("def f():\n    return True", "def f():\n    return False")),
    "argument": ("another truth is passed on", ("int f(void) { return g(true); }", "int f(void) { return g(false); }"), ("f(i=True)", "f(i=False)")),
    "release": ("a release is left out", ("void f(int *i)\n{\n    g_unref(i);\n}", "void f(int *i)\n{\n    ;\n}"), ("i.close()", "pass")),
    "call": ("a call is left out", ("void f(int *i)\n{\n    g(i);\n}", "void f(int *i)\n{\n    ;\n}"), ("g(i)", "pass")),
    "store": ("a store is left out", ("void f(int *i)\n{\n    i->j = 7;\n}", "void f(int *i)\n{\n    ;\n}"), ("i.j = 7", "pass")),
}
BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}
SIGNS = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++"}
ANSWERS = {"true": "false", "false": "true", "0": "-1", "-1": "0", "True": "False", "False": "True"}
RELEASES = re.compile(r"(^|_)(un(ref|map|lock|link|pin|do|lease|register)|free|release|deinit|close|drop|forget|leave|clear|reset|remove|destroy|discard|end|pop|give|kill|terminate|"
                      r"shutdown|stop|cancel|trim|wither)(_|$)")
# A change there shows in nothing but words for people who look for a fault.
SILENT = re.compile(r"\b(?:\w*assert|_Static_assert|__builtin_prefetch|td_log|perror|fprintf|abort)\w*\(")
QUIET = re.compile(r"log|warn|debug|prefetch|assert|abort")


@dataclass(frozen=True)
class Fault:
    path: str
    kind: str
    line: int
    start: int
    end: int
    new: str

    def plant(self, text):
        return text[: self.start] + self.new + text[self.end :]

    def lines(self, text):
        """The lines that it touches, before and after."""
        first, last = text.rfind("\n", 0, self.start) + 1, (text + "\n").index("\n", self.end)
        return tuple(" ".join(t.split()) for t in (text[first:last], text[first : self.start] + self.new + text[self.end : last]))


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def closing(text, start):
    """Where the bracket closes that opens at `start`; None: nowhere."""
    depth = 0
    for m in re.compile(r"[()]").finditer(text, start):
        depth += 1 if m.group() == "(" else -1
        if depth == 0:
            return m.start()
    return None


HIDDEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.M)


def bare(text):
    """A text in C, of the same length, without what no fault is planted in."""
    text = HIDDEN.sub(lambda m: blank(m.group()), text)
    for m in SILENT.finditer(text):
        if (end := closing(text, m.end() - 1)) is not None:
            text = text[: m.start()] + blank(text[m.start() : end + 1]) + text[end + 1 :]
    return text


CHOSEN = re.compile(r" ([^?;{}]+?) \? ([^?:;{}]+?) : ")
KEPT = re.compile(r" ([^;{}]+?)\)\s+([^=;{}]+?) = ([^=;{}]+);")


def ends_with(text, operand):
    """Whether it is all that is compared on the left."""
    return text.endswith(operand) and re.search(r"(?:[(=,?:{\[&|]|\breturn)\s*$", text[: len(text) - len(operand)])


def begins_with(text, operand):
    return text.startswith(operand) and re.match(r"\s*[;,)\]}:]", text[len(operand) :])


def is_edge_of_a_choice(text, start, end):
    """Is it the comparison of `a < b ? a : b` or of `if (a < b) a = b`? Of equals each one is as good."""
    before = text[: start - 1]
    if m := CHOSEN.match(text, end):
        right, first, rest = m.group(1), m.group(2), text[m.end() : m.end() + 80]
        if first == right:
            return any(begins_with(rest, rest[:n]) and ends_with(before, rest[:n]) for n in range(1, len(rest)))
        return bool(begins_with(rest, right) and ends_with(before, first))
    m, left = KEPT.match(text, end), before[before.rfind("if (") + len("if (") :]
    return bool(m) and {left, m.group(1)} == {m.group(2), m.group(3)} and left != m.group(1)


def words_in_c(text):
    """(kind, start, end, what stands there then) of the words of a bare text."""
    for kind, pattern, table in (
        ("bound", r"(?<= )(?:<=?|>=?)(?= )", BOUNDS),
        ("comparison", r"(?<= )(?:==|!=|<=?|>=?)(?=[ \n])", OPPOSITES),
        ("and-or", r"(?<= )(?:&&|\|\|)(?=[ \n])", {"&&": "||", "||": "&&"}),
        ("sign", r"(?<=[\w)\]] )(?:[+-]=?)(?= (?!1\b))|\+\+|--", SIGNS),
        ("answer", r"(?<=\breturn )(?:true|false|0|-1)(?=;)", ANSWERS),
        ("argument", r"(?:(?<=\w\()|(?<=, ))(?:true|false)(?=[,)])", ANSWERS),
    ):
        for m in re.finditer(pattern, text):
            if kind != "bound" or not is_edge_of_a_choice(text, *m.span()):
                yield kind, *m.span(), table[m.group()]
    for m in re.finditer(r"(?<![\w)\]])!(?=[\w(*])", text):
        yield "not", *m.span(), ""
    for m in re.finditer(r"(?<=[\w)\]]) [+-] 1\b(?![.\w])", text):
        yield "edge", *m.span(), ""
    for m in re.finditer(r"\bfor \([^;\n]*?= (0)(?=;|, )", text):
        yield "edge", *m.span(1), "1"


def checks_in_c(text):
    for m in re.finditer(r"\bif \(", text):
        end = closing(text, m.end() - 1)
        if end is not None and re.match(r"\s*(?:\{\s*)?(?:return|goto|break|continue)\b", text[end + 1 :]):
            yield "check", m.end() - 1, end + 1, None


def statements_in_c(text):
    """Calls and stores that are a statement of their own."""
    for m in re.finditer(r"(?:(?<=[;{})]) |(?<=\belse) |^[ \t]+)((\w+)\()", text, re.M):
        end, before = closing(text, m.end() - 1), text[: m.start()].rstrip()
        if end is None or text[end + 1 : end + 2] != ";" or not (before.endswith((";", "{", "}", ")", ":")) or before.endswith("else")):
            continue
        if m.group(2) not in ("if", "for", "while", "switch", "return", "sizeof") and not m.group(2).isupper() and not QUIET.search(m.group(2)):
            yield "release" if RELEASES.search(m.group(2)) else "call", m.start(1), end + 2, ";"
    for m in re.finditer(r"(?:(?<=[;{})]) |^[ \t]+)(\*?\w[\w\[\]>.-]*(?:->|\.)[\w\[\]>.-]+ [-+|&]?= [^;{}]*;)", text, re.M):
        if text[: m.start()].rstrip().endswith((";", "{", "}", ")")):
            yield "store", *m.span(1), ";"


def in_c(text):
    hidden = bare(text)
    for kind, start, end, new in (*words_in_c(hidden), *checks_in_c(hidden), *statements_in_c(hidden)):
        if new is None:
            new = f"({text[start:end]} && 0)"
        yield kind, start, end, new


class InPython(ast.NodeVisitor):
    """The same of a text in Python."""

    def __init__(self, text):
        self.text, self.found = text, []
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line, column):
        """Of a line and a byte in it."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, n):
        return self.at(n.lineno, n.col_offset), self.at(n.end_lineno, n.end_col_offset)

    def add(self, kind, start, end, new):
        self.found.append((kind, start, end, new))

    def between(self, kind, left, right, table):
        """The word between two nodes."""
        start, end = self.span(left)[1], self.span(right)[0]
        words = sorted(table, key=len, reverse=True)
        gap = re.sub(r"#[^\n]*", lambda m: blank(m.group()), self.text[start:end])
        m = re.search("|".join(rf"(?<![\w=<>!+-]){joined}(?![\w=<>+-])" for joined in (r"\s+".join(map(re.escape, w.split())) for w in words)), gap)
        if m:
            self.add(kind, start + m.start(), start + m.end(), table[" ".join(m.group().split())])

    def visit_Assert(self, n):
        pass

    visit_Import = visit_ImportFrom = visit_AnnAssign = visit_Assert

    def visit_If(self, n):
        if "TYPE_CHECKING" in ast.unparse(n.test):
            return
        if isinstance(n.body[0], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            start, end = self.span(n.test)
            self.add("check", start, end, f"({self.text[start:end]}) and False")
        self.generic_visit(n)

    def visit_Compare(self, n):
        if len(n.ops) == 1:
            self.between("bound", n.left, n.comparators[0], BOUNDS)
            self.between("comparison", n.left, n.comparators[0], OPPOSITES)
        self.generic_visit(n)

    def visit_BoolOp(self, n):
        for left, right in zip(n.values, n.values[1:]):
            self.between("and-or", left, right, {"and": "or", "or": "and"})
        self.generic_visit(n)

    def visit_UnaryOp(self, n):
        if isinstance(n.op, ast.Not):
            start = self.span(n)[0]
            self.add("not", start, start + len("not "), "")
        self.generic_visit(n)

    def visit_BinOp(self, n):
        if isinstance(n.op, (ast.Add, ast.Sub)):
            if isinstance(n.right, ast.Constant) and n.right.value == 1:
                if self.text[self.span(n.left)[1]] == " ":  # else a bracket stands between
                    self.add("edge", self.span(n.left)[1], self.span(n)[1], "")
            else:
                self.between("sign", n.left, n.right, {"+": "-", "-": "+"})
        self.generic_visit(n)

    def visit_AugAssign(self, n):
        self.between("sign", n.target, n.value, {"+=": "-=", "-=": "+="})
        self.generic_visit(n)

    def visit_Slice(self, n):
        for edge in (n.lower, n.upper):
            if isinstance(edge, ast.Constant) and type(edge.value) is int:
                self.add("edge", *self.span(edge), str(edge.value + 1))
        self.generic_visit(n)

    def visit_Return(self, n):
        if isinstance(n.value, ast.Constant) and isinstance(n.value.value, bool):
            self.add("answer", *self.span(n.value), str(not n.value.value))
        self.generic_visit(n)

    def visit_Call(self, n):
        for each in (*n.args, *(k.value for k in n.keywords)):
            if isinstance(each, ast.Constant) and isinstance(each.value, bool):
                self.add("argument", *self.span(each), str(not each.value))
        self.generic_visit(n)

    def visit_Expr(self, n):
        if not isinstance(n.value, ast.Call):
            return self.generic_visit(n)
        name = ast.unparse(n.value.func).rpartition(".")[2]
        if QUIET.search(name):
            return None
        self.leave_out("release" if RELEASES.search(name) else "call", n)
        return self.generic_visit(n)

    def visit_Assign(self, n):
        if isinstance(n.targets[0], ast.Attribute) and n.targets[0].attr != "__doc__":
            self.leave_out("store", n)
        self.generic_visit(n)

    def leave_out(self, kind, n):
        self.add(kind, *self.span(n), "pass")


def in_python(text):
    finder = InPython(text)
    finder.visit(ast.parse(text))
    return finder.found


def find(path, text):
    """All faults that can be planted in a file, as they stand in it."""
    found = []
    for kind, start, end, new in set(in_python(text) if path.endswith(".py") else in_c(text)):
        new += "\n" * (text.count("\n", start, end) - new.count("\n"))  # lines below keep their numbers
        found.append(Fault(path, kind, text.count("\n", 0, start) + 1, start, end, new))
    return sorted(found, key=lambda f: (f.start, f.end, f.kind))


def draw(rng, found):
    """Of a room's faults one after the other, each once: evenly over the kinds that are left."""
    kinds = {}
    for fault in found:
        kinds.setdefault(fault.kind, []).append(fault)
    while kinds:
        kind = rng.choice(sorted(kinds))
        yield kinds[kind].pop(rng.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]
