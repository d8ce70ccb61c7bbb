"""Programs lowered to the IR against Python: a small evaluator runs the IR's text, and hypothesis draws functions with loops, branches and
early exits, whose results, errors and prints must be Python's own."""
import copy
import math
import os
import re

import pytest
from test_script import Ours

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not there (Debian: python3-hypothesis)")
st = hypothesis.strategies
SETTINGS = hypothesis.settings(max_examples=150, deadline=None, database=None, derandomize=True,
                               suppress_health_check=list(hypothesis.HealthCheck))
SHOW = os.environ.get("TENSORD_SHOW_SCRIPT", "")

# ---- the evaluator

LINE = re.compile(r'^( *)(?:(%.*?) = )?(\w+::[\w.]+)(?:\[value=(.*)\])?\(([^"]*)\)(?: #.*)?$')
UNDEFINED = object()


class Node:
    def __init__(self, outs, op, value, args):
        self.outs, self.op, self.value, self.args, self.blocks = outs, op, value, args, []


class Block:
    def __init__(self, params):
        self.params, self.nodes, self.returns = params, [], []


def names(text):
    return re.findall(r"%[\w.]+", text)


def params(text):
    return re.findall(r"(%[\w.]+) :", text)


def read_block(lines, block, depth):
    """Until its returns; `lines` is a list that is used up."""
    while True:
        line = lines.pop(0)
        text = line.strip()
        if text.startswith(("-> (", "return (")):
            block.returns = names(text)
            return block
        m = LINE.match(line)
        assert m and len(m[1]) == depth, line
        outs = [(n, t) for n, t in re.findall(r"(%[\w.]+) : ([^%]*?)(?:, (?=%)|$)", m[2] or "")]
        node = Node(outs, m[3], m[4], names(m[5]))
        while lines and re.match(rf" {{{depth + 2}}}block\d+\(", lines[0]):
            node.blocks.append(read_block(lines, Block(params(lines.pop(0))), depth + 4))
        block.nodes.append(node)


def read(text):
    lines, functions = text.splitlines(), {}
    while lines:
        head = lines.pop(0)
        name = head.split("(")[0].removeprefix("fn ")
        functions[name] = read_block(lines, Block(params(head)), 2)
    return functions


def constant(node):
    kind, text = node.outs[0][1], node.value
    if text is None:
        return None
    if kind == "bool":
        return text == "1"
    return eval(text, {"inf": math.inf, "nan": math.nan})


class Raised(Exception):
    pass


def setitem(x, i, v):
    x[i] = v


def over(f):
    """int results are of 64 bits."""
    def checked(*a):
        v = f(*a)
        if isinstance(v, int) and not -2**63 <= v < 2**63:
            raise OverflowError
        return v
    return checked


OPS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "truediv": lambda a, b: a / b, "floordiv": lambda a, b: a // b,
       "mod": lambda a, b: a % b, "pow": lambda a, b: a**b, "neg": lambda a: -a, "abs": abs, "not": lambda a: not a, "and": lambda a, b: a & b,
       "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "invert": lambda a: ~a, "lshift": lambda a, b: a << b, "rshift": lambda a, b: a >> b,
       "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
       "ge": lambda a, b: a >= b, "min": min, "max": max, "sum": sum, "int": int, "float": float, "bool": bool, "str": str, "len": len, "round": round,
       "getitem": lambda x, i: x[i], "setitem": setitem, "slice": lambda x, a, b, s: x[a:b:s], "contains": lambda x, a: a in x, "append": lambda x, v: x.append(v),
       "pop": lambda x, i: x.pop(i), "extend": lambda x, y: x.extend(y), "insert": lambda x, i, v: x.insert(i, v), "reverse": lambda x: x.reverse(),
       "copy": lambda x: x.copy(), "index": lambda x, v: x.index(v), "count": lambda x, v: x.count(v), "keys": lambda x: list(x.keys()),
       "values": lambda x: list(x.values()), "items": lambda x: list(x.items()), "get": lambda x, k, v: x.get(k, v), "is_none": lambda x: x is None,
       "unchecked_cast": lambda x: x, "format": lambda f, *a: f.format(*a), "join": lambda a, b: a.join(b), "upper": lambda s: s.upper(), "floor": math.floor}


class Machine:
    def __init__(self, functions):
        self.functions, self.printed = functions, []

    def block(self, block, values, args):
        values.update(zip(block.params, args, strict=True))
        for node in block.nodes:
            results = self.node(node, values)
            values.update(zip([n for n, _ in node.outs], results, strict=True))
        return [values[r] for r in block.returns]

    def loop(self, node, values, most, condition, *carried):
        trip = 0
        while trip < most and condition:
            condition, *carried = self.block(node.blocks[0], values, [trip, *carried])
            trip += 1
        return carried

    def node(self, node, values):
        args = [values[a] for a in node.args]
        room, _, name = node.op.partition("::")
        name = name.split(".")[0]
        if room == "fn":
            return self.block(self.functions[name], {}, args)
        assert room == "prim" and (UNDEFINED not in args or name == "Loop"), node.op
        if name == "Constant":
            return [constant(node)]
        if name == "If":
            return self.block(node.blocks[0 if args[0] else 1], values, [])
        if name == "Loop":
            return self.loop(node, values, *args)
        if name == "Raise":
            raise Raised(*args)
        if name == "Print":
            self.printed.append(" ".join(map(str, args)))
            return []
        if name in ("TupleUnpack", "ListUnpack"):
            return list(args[0])
        made = {"Uninitialized": lambda: UNDEFINED, "TupleConstruct": lambda *a: a, "ListConstruct": lambda *a: list(a),
                "DictConstruct": lambda *a: dict(zip(a[::2], a[1::2]))}.get(name) or over(OPS[name])
        result = made(*args)
        return [result] if node.outs else []


@pytest.fixture(scope="module")
def lowered():
    if not SHOW:
        pytest.skip("TENSORD_SHOW_SCRIPT does not name the program")
    show = Ours("ir")
    yield show
    show.close()


def outcome(call):
    try:
        return call()
    except Raised as e:
        return e.args[0]
    except (AssertionError, ValueError, ZeroDivisionError, OverflowError, IndexError, KeyError) as e:
        return type(e).__name__


def same(lowered, source, *arguments):
    """The same results, errors and prints as Python's."""
    text = lowered(source)
    assert not text.startswith("TD_E_"), (source, text)
    functions = read(text)
    printed, scope = [], {"print": lambda *a: printed.append(" ".join(map(str, a)))}
    exec("from __future__ import annotations\n" + source, scope)
    for args in arguments:
        printed.clear()
        machine = Machine(functions)
        want = outcome(lambda: scope["f"](*copy.deepcopy(args)))
        got = outcome(lambda: machine.block(functions["graph"], {}, copy.deepcopy(args))[0])
        assert got == want and repr(got) == repr(want), (source, args, got, want, text)
        assert machine.printed == printed, (source, args, text)


# ---- drawn functions of ints

VARIABLES = st.sampled_from("abc")


def joined(*parts):
    return st.tuples(*[st.just(p) if isinstance(p, str) else p for p in parts]).map("".join)


ATOMS = VARIABLES | st.integers(-3, 9).map(str)
NUMBERS = st.recursive(ATOMS, lambda e: st.one_of(
    joined("(", e, st.sampled_from([" + ", " - ", " & ", " ^ "]), e, ")"), joined("(", e, " * ", e, ") % 31"), joined(e, " // 3"), joined("abs(", e, ")"), joined("min(", e, ", ", e, ")"),
    joined("(", e, " if ", e, " else ", e, ")"), joined("int(", e, " < ", e, ")")), max_leaves=5)
TESTS = st.recursive(joined(NUMBERS, st.sampled_from([" < ", " == ", " != ", " >= "]), NUMBERS), lambda e: st.one_of(
    joined("(", e, " and ", e, ")"), joined("(", e, " or ", e, ")"), joined("not ", e), joined(ATOMS, " <= ", ATOMS, " < ", ATOMS)), max_leaves=3)


def indent(lines):
    return ["  " + line for line in lines]


class Drawn:
    """Draws statements; `loops` counts those around, `n` numbers counters."""

    def __init__(self, draw):
        self.draw, self.n = draw, 0

    def block(self, depth, loops):
        lines = []
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(depth, loops)
        return indent(lines)

    def statement(self, depth, loops):
        kinds = ["set", "set", "add", "swap", "return", "raise", "print", "assert"] + ["if", "if", "else", "for", "while"] * (depth > 0) + ["break", "continue"] * 2 * (loops > 0)
        kind = self.draw(st.sampled_from(kinds))
        number, test = (lambda: self.draw(NUMBERS)), (lambda: self.draw(TESTS))
        v = self.draw(VARIABLES)
        if kind == "set":
            return [f"{v} = {number()}"]
        if kind == "add":
            return [f"{v} += {number()}", f"{v} %= 101"]
        if kind == "swap":
            return [f"a, {v} = {v}, {number()}"] if v != "a" else ["b, c = c, b"]
        if kind == "print":
            return [f"print({v}, 'x')"]
        if kind == "assert":
            return [f"assert {test()}, 'no'"]
        if kind in ("break", "continue"):
            return [f"if {test()}:", "  " + kind] if self.draw(st.booleans()) else [kind]
        if kind in ("return", "raise"):
            what = "return a, b, c" if kind == "return" else "raise ValueError('v')"
            return [f"if {test()}:", "  " + what] if self.draw(st.integers(0, 3)) else [what]
        if kind in ("if", "else"):
            lines = [f"if {test()}:", *self.block(depth - 1, loops)]
            if kind == "else" and self.draw(st.booleans()):
                lines += [f"elif {test()}:", *self.block(depth - 1, loops)]
            return lines + (["else:", *self.block(depth - 1, loops)] if kind == "else" else [])
        return self.loop(kind, depth, loops, v, number, test)

    def loop(self, kind, depth, loops, v, number, test):
        self.n += 1
        counter = f"i{self.n}"
        if kind == "for":
            over = self.draw(st.sampled_from(["range(3)", "range({n}, 4)", "range(5, {n}, -2)", "[1, {n}, 2]", "range({n} % 4)"])).format(n=number())
            lines = [f"for {self.draw(st.sampled_from([counter, v]))} in {over}:", *self.block(depth - 1, loops + 1)]
        else:
            test = self.draw(st.sampled_from(["True", f"{test()}"]))
            lines = [f"{counter} = 0", f"while {test}:", f"  {counter} += 1", f"  if {counter} > 3: break", *self.block(depth - 1, loops + 1)]
        return lines + (["else:", *self.block(depth - 1, loops)] if self.draw(st.integers(0, 3)) == 0 else [])


@st.composite
def functions(draw):
    d = Drawn(draw)
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        lines += d.statement(3, 0)
    return "\n".join(["def f(a: int, b: int, c: int):", *indent(lines), "  return a, b, c\n"])


def test_drawn(lowered):
    @SETTINGS
    @hypothesis.given(functions())
    def check(source):
        same(lowered, source, (1, 2, 3), (0, -5, 7), (9, 9, -1))

    check()


# ---- written ones

WRITTEN = ["""
def f(xs: List[int], n: int):
    out = []
    for i, x in enumerate(xs, 1):
        if x in (2, n):
            continue
        out.append(i * x)
    return out, len(out), [a for a in xs if a > 1 if a < 9], sum(xs), max(xs), xs[-1], xs[1:], xs[::-1]
""", """
def g(x: int, y: float = 0.5) -> float:
    if x > 3:
        return y
    return x / 2

def f(xs: List[int], n: int):
    total = 0.0
    for a, b in zip(xs, [4, 5, 6]):
        total += g(a) + g(b, y=1.5)
    return total
""", """
def f(xs: List[int], n: int):
    best: Optional[int] = None
    for x in xs:
        if best is None or x > best:
            best = x
    if best is None:
        raise ValueError("empty")
    return best + n
""", """
def f(xs: List[int], n: int):
    last = None
    while n > 0:
        n -= 1
        if last is not None and last > 3:
            break
        last = n
    else:
        return -1
    return last
""", """
def f(xs: List[int], n: int):
    def twice(a):
        if a > 5:
            return a
        return a * 2 + n
    d = {"a": n, "b": 3}
    d["c"] = twice(n)
    for k in d:
        print(k, d[k])
    return [twice(x) for x in xs], f"{n} of {len(xs)} {{}}", d["c"], ", ".join(["x", "y"])
""", """
def f(xs: List[int], n: int):
    x = n and 7
    y = n or 9
    z = 1 < n < 5 != 3
    return x, y, z, not n, -7 // 2, -7 % 3, 2 ** 5, 7 / 2, ~n, n << 2, (1, 2.5, "s")[1], 1 if n else 0
""", """
def f(xs: List[int], n: int) -> Optional[int]:
    for i in range(n):
        for x in xs:
            if x == i:
                return i
            if x > 5:
                break
        else:
            print("whole", i)
""", """
def f(xs: List[int], n: int):
    a, (b, c) = n, (xs[0], xs[1])
    xs[0], t = b + c, a
    xs.insert(1, t)
    xs += [1]
    return xs.pop(), xs, xs.index(t), n if n > 2 else int(float(3))
"""]


@pytest.mark.parametrize("source", WRITTEN)
def test_written(lowered, source):
    same(lowered, source, *[(xs, n) for n in (0, 1, 2, 4, 7) for xs in ([3, 1, 2], [9, 8, 2, 2], [0, 6, 5])])


def test_hostile(lowered):
    """What would take long or deep ends with words."""
    many = "def f(x):\n" + "".join(f"    v{k} = x\n" for k in range(5000)) + "    return x\n"
    calls = "".join(f"def g{k}(x):\n    return g{k + 1}(g{k + 1}(x))\n" for k in range(900)) + "def g900(x):\n    return x\ndef f(x):\n    return g0(x)\n"
    inside = "def f(x):\n    def g0(x):\n        return x\n" + "".join(f"    def g{k + 1}(x):\n        return g{k}(g{k}(x))\n" for k in range(40)) + "    return g40(x)\n"
    large = "def f(x):\n" + "    x = -x\n" * 70000 + "    return x\n"
    for source, words in (many, "4096 variables"), (calls, "nested more than 800 deep"), (inside, "16384 times"), (large, "65536 nodes"):
        assert words in lowered(source)
