"""Programs that nobody thought of: functions in the subset of Python, drawn by their types, run as programs and as they stand.

Results, what became of the arguments and of a captured tensor, gradients and errors must be the same, tensors to the bit. A function that
shows a difference is made smaller, line by line, before it is shown. TENSORD_SEED=random draws others; TENSORD_PROGRAMS=N draws N times as many."""
import ast
import contextlib
import gc
import linecache
import math
import os
import random
import struct

import pytest
from common import SANITIZED, seed

import tensord as td

TIMES = float(os.environ.get("TENSORD_PROGRAMS", 0.3 if SANITIZED else 1))
SIMPLIFIED = os.environ.get("TENSORD_PASSES") != "0"  # what nobody uses is not computed, and so does not fail
SHAPES = [(1,), (3,), (2, 3), (3, 3), (4, 1), (2, 2, 3)]
FLOATS, DTYPES = [td.float32, td.float64], [td.float32, td.float64, td.int64, td.int32, td.bool]
SCALE = td.tensor([0.5, -1.25, 2.0])

# ---- what a function is made of: {type: [templates]}, where {type} stands for an expression of it, and
# [type] for a variable; what often fails begins with '!'

T, I, F, B, S = "Tensor", "int", "float", "bool", "str"
LI, LF, LT, LS, O, TU = "list[int]", "list[float]", "list[Tensor]", "list[str]", "Optional[Tensor]", "tuple[Tensor, int]"
SIMPLE = {
    T: ["[Tensor]"] * 3 + ["SCALE", "td.tensor({float})", "td.zeros_like([Tensor])", "td.arange(3)", "td.tensor({float}, dtype=td.float64)"],
    I: ["[int]"] * 4 + ["-3", "-1", "0", "1", "2", "7", "[Tensor].ndim", "len([list[int]])", "len([list[Tensor]])"],
    F: ["[float]"] * 3 + ["0.5", "-1.5", "0.1", "2.0", "1e3", "float([int])"],
    B: ["[bool]"] * 2 + ["True", "False"],
    S: ["[str]", "'a'", "'b,c'", "''"],
    LI: ["[list[int]]", "[[int]]", "[1, -2, 3]"], LF: ["[list[float]]", "[0.5, -1.0]"], LT: ["[list[Tensor]]", "[[Tensor]]"], LS: ["[list[str]]", "['x']"],
    O: ["[Optional[Tensor]]", "None", "[Tensor]"], TU: ["([Tensor], [int])", "[tuple[Tensor, int]]"],
}
DEEP = {
    T: ["({Tensor} + {Tensor})", "({Tensor} - {Tensor})", "({Tensor} * {Tensor})", "({Tensor} * {float})", "({int} - {Tensor})", "({Tensor} / ({Tensor} * {Tensor} + 1))", "({Tensor} + {int})",
        "({float} / {Tensor})", "(-{Tensor})", "td.relu({Tensor})", "td.tanh({Tensor})", "td.sigmoid({Tensor})", "td.exp({Tensor} * 0.1)", "td.where({Tensor} > 0, {Tensor}, {Tensor})",
        "({Tensor} % 3)", "({Tensor} // 2)", "({Tensor} ** 2)", "td.maximum({Tensor}, {Tensor})", "{Tensor}.sum()", "{Tensor}.sum(dim=-1)", "{Tensor}.mean()", "{Tensor}.clone()", "{Tensor}.unsqueeze(0)",
        "!{Tensor}[0]", "{Tensor}[..., 1:]", "{Tensor}[..., ::2]", "{Tensor}[{int}:{int}]", "{Tensor}[None]", "!{Tensor}[..., {int}]", "{Tensor}.transpose(0, -1)", "!td.cat([{Tensor}, {Tensor}])",
        "!td.stack({list[Tensor]})", "{Tensor}.float()", "{Tensor}.to(td.float64)", "{Tensor}.to({Tensor}.dtype)", "({Tensor} > {Tensor})", "({Tensor} <= {float})", "({Tensor} == {Tensor})", "{Tensor}.detach()",
        "!({Tensor} @ {Tensor})", "{Tensor}.abs()", "{Tensor}.clamp(-1, 1)", "td.softmax({Tensor}, -1)", "td.cumsum({Tensor}, 0)", "!{Tensor}.t()", "{Tensor}.flip([0])", "!{list[Tensor]}[{int}]", "td.ones((2, 3))",
        "td.full((3,), {float})", "{tuple[Tensor, int]}[0]", "({Tensor} if {bool} else {Tensor})", "helper({Tensor}, {int})", "!td.zeros(({int}, 3))", "!{Tensor}.expand((2, 3))", "!td.bernoulli(td.sigmoid({Tensor}))",
        "!{Tensor}.view((-1,))", "!{Tensor}.permute((1, 0))", "{Tensor}.squeeze(0)", "{Tensor}.max()", "{Tensor}.bool()", "{Tensor}.long()", "td.argmax({Tensor}, -1)",
        "!{Tensor}.T", "td.logsumexp({Tensor}, -1)", "td.var({Tensor})", "!td.matmul({Tensor}, {Tensor}.t())", "!td.outer({Tensor}, {Tensor})", "td.std({Tensor})", "td.norm({Tensor}.float())"],
    I: ["({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} // 3)", "({int} % -4)", "({int} // {int})", "({int} % {int})", "({int} & {int})", "({int} | {int})", "({int} ^ {int})", "(~{int})", "(-{int})", "({int} << 3)",
        "({int} >> 2)", "({int} >> {int} % 70)", "({int} << {int} % 8)", "!({int} >> {int})", "!({int} << {int})", "!({int} ** 2)", "abs({int})", "min({int}, {int})", "max({int}, {int})", "!int({float})", "int({bool})", "!round({float})", "!math.floor({float})", "!math.ceil({float})",
        "({int} if {bool} else {int})", "sum({list[int]})", "!max({list[int]})", "[{int}, 4, 5][{int} % 3]", "!{list[int]}[{int}]", "!{list[int]}.index({int})", "{list[int]}.count({int})", "len({str})", "!ord({str})", "{str}.find({str})",
        "{Tensor}.shape[0]", "{Tensor}.size(-1)", "{Tensor}.numel()", "!int({Tensor}.sum())", "len({Tensor})", "{tuple[Tensor, int]}[1]", "twice({int})", "({int} + {bool})", "math.gcd({int}, {int})", "{str}.count({str})",
        "int(str({int}))", "!int({str})"],
    F: ["({float} + {float})", "({float} - {int})", "({float} * {float})", "({float} / ({int} * {int} + 1))", "({int} / ({int} % 7 + 1))", "({float} // 0.7)", "({float} % -1.5)", "!({float} / {float})", "!({int} / {int})", "!({float} // {float})", "!({float} % {float})", "({float} ** 2)", "(-{float})", "abs({float})",
        "min({float}, {float})", "max({float}, {float})", "float({int})", "float({bool})", "math.sqrt(abs({float}))", "!math.exp({float})", "math.sin({float})", "!math.log({float})", "!math.fmod({float}, {float})", "math.pi",
        "({float} if {bool} else {float})", "sum([{float}] + {list[float]})", "!{list[float]}[{int}]", "float({Tensor}.sum())", "math.atan2({float}, {float})", "math.copysign({float}, {float})", "({int} * {float})", "!({float} // {int})", "float(str({float}))", "float('-inf')",
        "!float({str})"],
    B: ["({int} < {int})", "({int} < {int} <= {int})", "({float} > {float} != {float})", "({bool} and {bool})", "({bool} or {bool})", "(not {bool})", "({int} == {int})", "({float} >= {float})", "({int} in {list[int]})",
        "({str} in {str})", "({str} == {str})", "({str} < {str})", "bool({int})", "bool({Tensor}.sum() > 0)", "([Optional[Tensor]] is None)", "([Optional[Tensor]] is not None and {bool})", "({int} not in (1, 2, {int}))", "({bool} ^ {bool})",
        "({list[int]} == {list[int]})", "{str}.startswith({str})", "({bool} == {bool})", "({int} < {float})", "({float} == {int})", "({bool} & {bool})", "({bool} if {bool} else {bool})"],
    S: ["({str} + {str})", "({str} * {int})", "f'{{[int]}}|{{[float]}}'", "f'{{[str]}}-{{[bool]}}'", "f'{{[int]:06d}}|{{[float]:.3e}}|{{[str]:>5}}|{{[int]:,}}'", "('%5d %.3f %s' % ({int}, {float}, {str}))", "repr({str})", "str({float})", "str({int})", "str({list[int]})", "str({list[str]})", "str({list[float]})", "{list[str]}[0].lower()", "'aBc'.upper()", "{str}.replace('a', {str})", "{str}[{int}:]",
        "{str}[::-1]", "!{str}[{int}]", "','.join({list[str]})", "{str}.strip()", "({str} if {bool} else {str})", "!{list[str]}[{int}]"],
    LI: ["({list[int]} + {list[int]})", "{list[int]}[{int}:]", "{list[int]}[::-1]", "{list[int]}[{int}:{int}:2]", "[{int}, {int}]", "[q * q for q in {list[int]}]", "({list[int]} * 2)", "{list[int]}.copy()", "[q for q in range({int} % 5)]",
         "list({list[int]})", "[q + {int} for q in range(3) if q != {int}]"],
    LF: ["({list[float]} + {list[float]})", "[q * 0.5 for q in {list[float]}]", "{list[float]}[:{int}]", "[{float}, {float}]", "[float(q) for q in {list[int]}]"],
    LT: ["[{Tensor}, {Tensor}]", "({list[Tensor]} + {list[Tensor]})", "{list[Tensor]}[{int}:]", "[q * 2 for q in {list[Tensor]}]"],
    LS: ["{str}.split(',')", "({list[str]} + {list[str]})", "[{str}, {str}]", "{str}.split()"],
    O: ["({Tensor} if {bool} else None)"], TU: ["({Tensor}, {int})"],
}
STATEMENTS = ["![Tensor].add_({Tensor})", "!{Tensor}.mul_({float})", "[Tensor].mul_(2)", "![Tensor] += {Tensor}", "![Tensor] *= {int}", "[Tensor][0] *= 2", "![Tensor][..., 0] += {Tensor}", "![Tensor].t().add_(1)", "[Tensor].relu_()", "[Tensor].abs_()", "!{Tensor}.div_(2)",
              "[Tensor].detach().sub_({Tensor})", "SCALE.mul_({float})", "[int] += {int}", "![int] //= {int}", "[int] -= {int}", "[int] <<= 1", "[float] *= {float}", "[float] -= {int}", "[list[int]].append({int})",
              "[list[int]].extend({list[int]})", "[list[int]] += {list[int]}", "![list[int]][{int}] = {int}", "![list[int]][0] += {int}", "[list[int]].insert({int}, {int})", "[list[int]].reverse()", "[list[int]].sort()", "![list[int]].pop()",
              "[list[float]].sort()", "[list[Tensor]].append({Tensor})", "![list[Tensor]][{int}].add_(1)", "![list[Tensor]][{int}] = {Tensor}", "[list[float]].append({float})", "[list[str]].append({str})", "[list[int]].clear()",
              "!assert {bool}, 'no'", "pass", "[Tensor], [int] = {tuple[Tensor, int]}", "[int], [float] = {int}, {float}", "[float], [Tensor] = {float}, {Tensor}", "[str] += {str}"]
HELPERS = """
def helper(x, n: int):
    if n % 2 == 0:
        return x * n
    for i in range(2):
        x = x - 0.5
    return x


def twice(n: int) -> int:
    return 2 * n


"""
PARAMS = [("x", T), ("y", T), ("z", T), ("n", I), ("m", I), ("s", F), ("u", F), ("p", B), ("t", S), ("ns", LI), ("fs", LF), ("ts", LT), ("o", O)]


class Draw:
    def __init__(self, seed, types=None):
        self.r, self.vars, self.new, self.loops, self.types = random.Random(seed), {}, 0, 0, types
        for name, kind in PARAMS:
            self.vars.setdefault(kind, []).append(name)

    def wanted(self, template):
        return self.types is None or all(kind not in template for kind in ("Tensor", "td.", "SCALE", "helper"))

    def template(self, templates):
        while True:
            t = self.r.choice(templates)
            if self.wanted(t) and (t[0] != "!" or self.r.random() < 0.15):
                return t.lstrip("!")

    def variable(self, kind):
        names = self.vars.get(kind)
        return self.r.choice(names) if names else {LS: "['k', 'a b']", TU: "(x, n)"}[kind]

    def expression(self, kind, depth):
        deep = depth > 0 and self.r.random() < 0.75
        return self.fill(self.template((DEEP if deep else SIMPLE)[kind]), depth - 1)

    def fill(self, template, depth):
        for kind in (TU, O, LI, LF, LT, LS, T, I, F, B, S):  # longer names first
            while "{%s}" % kind in template:
                template = template.replace("{%s}" % kind, self.expression(kind, depth).replace("{", "\0").replace("}", "\1"), 1)
            while "[%s]" % kind in template:
                template = template.replace("[%s]" % kind, self.variable(kind), 1)
        return template.replace("{{", "{").replace("}}", "}").replace("\0", "{").replace("\1", "}")

    def kind(self):
        return self.r.choice([k for k in [T] * 6 + [I] * 3 + [F] * 2 + [B, S, LI, LF, LT, LS, O, TU] if self.wanted(k)])

    def body(self, depth, indent):
        saved = {k: list(v) for k, v in self.vars.items()}
        lines = []
        for _ in range(self.r.randint(1, 6 if depth > 1 else 3)):
            lines += self.statement(depth, indent)
        self.vars = saved
        return lines

    def statement(self, depth, indent):
        r, pad = self.r, "    " * indent
        what = r.random()
        if what < 0.35:
            kind = self.kind()
            names, text = self.vars.setdefault(kind, []), self.expression(kind, 2)
            if names and r.random() < 0.6:
                return [f"{pad}{r.choice(names)} = {text}"]
            name, self.new = f"v{self.new}", self.new + 1
            lines = [f"{pad}{name}: {kind} = {text}" if kind in (O, LI, LF, LT, LS) else f"{pad}{name} = {text}"]
            names.append(name)
            return lines
        if what < 0.65 or depth == 0:
            return [pad + self.fill(self.template(STATEMENTS), 1)]
        if what < 0.78:
            lines = [f"{pad}if {self.expression(B, 2)}:"] + self.body(depth - 1, indent + 1)
            if r.random() < 0.3:
                lines += [f"{pad}elif {self.expression(B, 1)}:"] + self.body(depth - 1, indent + 1)
            return lines + ([f"{pad}else:"] + self.body(depth - 1, indent + 1) if r.random() < 0.6 else [])
        if what < 0.93:
            return self.loop(depth, indent)
        if self.loops and r.random() < 0.6:
            return [f"{pad}if {self.expression(B, 1)}:", f"{pad}    {r.choice(['break', 'continue'])}"]
        return [f"{pad}if {self.expression(B, 1)}:", f"{pad}    " + r.choice(["return " + self.result(), f"raise ValueError({self.expression(S, 1)})"])]

    def loop(self, depth, indent):
        r, pad, self.new = self.r, "    " * indent, self.new + 1
        name, saved = f"i{self.new}", {k: list(v) for k, v in self.vars.items()}
        heads = [(f"for {name} in range({self.expression(I, 1)} % 4):", I), (f"for {name} in [*]:", I), (f"for {name} in {self.expression(LI, 1)}[:4]:", I), (f"for {name}, j{name} in enumerate({self.expression(LI, 1)}[:3]):", I),
                 (f"for {name} in {self.expression(LF, 1)}[:3]:", F), (f"for {name} in range({self.expression(I, 0)} % 5, -3, -2):", I), (f"while {name} < {r.randint(0, 4)} and {self.expression(B, 1)}:", I)]
        if self.types is None:
            heads += [(f"for {name} in {self.expression(LT, 1)}[:3]:", T), (f"for {name} in {self.variable(T)}:", T), (f"for j{name}, {name} in zip({self.expression(LI, 1)}[:3], {self.expression(LT, 1)}):", T)]
        head, kind = r.choice([h for h in heads if "[*]" not in h[0]])
        self.loops += 1
        before = [f"{pad}{name} = 0"] if head.startswith("while") else []
        first = [f"{pad}    {name} += 1"] if before else []
        if not before:
            self.vars[kind].append(name)
        lines = before + [pad + head] + first + self.body(depth - 1, indent + 1)
        self.loops -= 1
        self.vars = saved
        return lines

    def result(self):
        tensors = [] if self.types else ["x", "y", "z"] + ["{Tensor}"] * 2 + ["{list[Tensor]}"]
        return self.fill("(" + ", ".join(tensors + ["{int}", "{float}", "{bool}", "{str}", "{list[int]}", "{list[float]}", "{list[str]}"]) + ")", 1)

    def function(self):
        lines = ["    x, y = x * 1, y * 1"] if self.types is None and self.r.random() < 0.8 else []  # what is no leaf may be written
        for _ in range(self.r.randint(2, 8)):
            lines += self.statement(3, 1)
        return lines + ["    return " + self.result()]


# ---- running one

class Checked(ast.NodeTransformer):
    """Ints of 64 bits: where Python's grow, a program's fail."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name("_fits", ast.Load()), [node], []), node)

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        return [node, ast.copy_location(ast.Expr(ast.Call(ast.Name("_fits", ast.Load()), [ast.Name(node.target.id, ast.Load())], [])), node)]

    visit_UnaryOp = visit_BinOp

    def visit_Call(self, node):
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name("_fits", ast.Load()), [node], []), node)


class TooLarge(Exception):
    pass


class Aside(Exception):
    """What Python does, and a program need not."""


def fits(v):
    if type(v) is int and not -2**63 <= v < 2**63:
        raise TooLarge
    if type(v) is complex or (type(v) is str and len(v) > 10000):
        raise Aside
    return v


def written(lines, number):
    head = ", ".join(name if kind == T else f"{name}: {kind}" for name, kind in PARAMS)
    source = "from typing import Optional\nTensor = td.Tensor\n" + HELPERS + f"def f({head}):\n" + "\n".join(lines) + "\n"
    name = f"<drawn {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"td": td, "math": math, "SCALE": SCALE, "__name__": "drawn"}
    exec(compile(source, name, "exec", flags=__import__("__future__").annotations.compiler_flag), scope)
    plain = {**scope, "_fits": fits}
    exec(compile(ast.fix_missing_locations(Checked().visit(ast.parse("from __future__ import annotations\n" + source))), name, "exec"), plain)
    return scope["f"], plain["f"], source


def tensor(r, large=False):
    shape, dtype = ((1000, 1000) if large else r.choice(SHAPES)), r.choice(FLOATS * 3 + DTYPES)
    n = math.prod(shape)
    if large:
        return td.arange(float(n), dtype=td.float64).remainder(7).sub(3).reshape(shape).to(dtype)
    return td.tensor([r.choice([-2.5, -1.0, -0.5, 0.0, 0.25, 1.0, 1.5, 3.0]) for _ in range(n)], dtype=td.float64).reshape(shape).to(dtype)


def arguments(r, large):
    ints = lambda: r.choice([-7, -2, -1, 0, 1, 2, 3, 5, 62, 2**31, 2**53 + 1, 2**63 - 1, -2**63] if r.random() < 0.3 else [-2, -1, 0, 1, 2, 3])
    floats = lambda: r.choice([-1.5, 0.0, -0.0, 0.5, 2.75, 3.0, 1e-5, 1e16, 1 / 3, float("inf")] if r.random() < 0.5 else [0.5, 1.5, -2.0])
    return [tensor(r, large), tensor(r), tensor(r), ints(), ints(), floats(), floats(), r.random() < 0.5, r.choice(["", "a", "ab,ca", "grüß dich", "x'y"]), [ints() for _ in range(r.randint(0, 4))],
            [floats() for _ in range(r.randint(0, 3))], [tensor(r) for _ in range(r.randint(0, 3))], tensor(r) if r.random() < 0.5 else None]


def copied(args, wants):
    def one(a, k):
        if isinstance(a, td.Tensor):
            b = a.clone()
            return b.requires_grad_() if wants and k < 2 and b.dtype in FLOATS else b
        return [one(v, 9) for v in a] if isinstance(a, list) else a
    return [one(a, k) for k, a in enumerate(args)]


def bits(v):
    """A value as what can be compared: to the bit, NaNs of all kinds alike."""
    if isinstance(v, td.Tensor):
        w = v.detach()
        return (str(w.dtype), tuple(w.shape), w.stride(), bool(v.requires_grad), str(w.flatten().tolist()) if w.numel() < 100 else bytes(memoryview(w.contiguous())))
    if isinstance(v, (list, tuple)):
        return (type(v).__name__, *[bits(a) for a in v])
    if isinstance(v, float):
        return "nan" if v != v else struct.pack("d", v)
    return repr(v)


def apart(a, b):
    """Where two outcomes differ."""
    if type(a) is type(b) and isinstance(a, (list, tuple)) and len(a) == len(b):
        return "\n".join(apart(c, d) for c, d in zip(a, b) if c != d)
    return f"program {a}, python {b}"


def tensors(v):
    if isinstance(v, td.Tensor):
        return [v]
    return [t for a in v for t in tensors(a)] if isinstance(v, (list, tuple)) else []


def outcome(f, args, wants):
    """What came of it: values, what the arguments are now, gradients; or that it failed."""
    td.manual_seed(7)
    SCALE.copy_(td.tensor([0.5, -1.25, 2.0]))
    args = copied(args, wants)
    given = tensors(args)
    try:
        result = f(*args)
        shown = [bits(result), [bits(a) for a in given]]
        leaves, loss = [a for a in args[:2] if a.requires_grad and a.is_leaf], [t for t in tensors(result) if t.requires_grad]
        for k, t in enumerate(loss):
            t.double().mul(1 + k).sum().backward(retain_graph=True)
        td.sync()
    except Aside:
        return "aside"
    except Exception:
        with contextlib.suppress(td.Error):
            td.sync()  # what else failed is told now, and not to who comes next
        return "failed"
    return [*shown, [bits(a.grad) for a in leaves], bits(SCALE)]


def differs(lines, args, wants, number):
    """None, or (what it is, the source)."""
    program, plain, source = written(lines, number)
    try:
        program = td.jit.script(program)
    except Exception as e:
        return f"refused: {e}", source
    theirs = outcome(plain, args, wants)
    if theirs == "aside":
        return None
    try:
        ours = outcome(program, args, wants)
    except Exception as e:
        return f"raised {e!r}", source
    if ours == theirs or (theirs == "failed" and SIMPLIFIED):
        return None
    return f"differs: {apart(ours, theirs)}", source


def parts(lines):
    """Runs of lines that may be left out: each with all that stands deeper."""
    depth = [len(line) - len(line.lstrip()) for line in lines]
    for i in range(len(lines) - 1):
        j = i + 1
        while j < len(lines) and depth[j] > depth[i]:
            j += 1
        yield i, j


def smaller(lines, still):
    """Fewer lines of the same trouble."""
    again = True
    while again:
        again = False
        for i, j in list(parts(lines)):
            bare = [line[4:] for line in lines[i + 1:j]]
            for less in (lines[:i] + lines[j:], lines[:i] + bare + lines[j:]):
                try:
                    good = len(less) < len(lines) and still(less)
                except Exception:
                    good = False
                if good:
                    lines, again = less, True
                    break
            if again:
                break
    return lines


def tried(given, number, types=None):
    draw = Draw(f"{given} {number}", types)
    lines, r = draw.function(), draw.r
    args, wants = arguments(r, not types and r.random() < 0.01), r.random() < 0.6
    found = differs(lines, args, wants, number)
    if not found:
        return None
    kind = found[0][:40] if found[0].startswith("refused") else found[0][:7]
    lines = smaller(lines, lambda less: (differs(less, args, wants, number) or [""])[0].startswith(kind))
    what, source = differs(lines, args, wants, number) or (found[0] + "\n(not every time)", found[1])
    return f"TENSORD_SEED={given}, number {number}\n{source[source.index('def f('):]}\n{args}, gradients: {wants}\n{what}"


@pytest.mark.parametrize("types,count", [(None, 250), ("numbers", 250)])
def test_programs_are_what_python_does(types, count):
    given = seed()
    for number in range(int(count * TIMES)):
        found = tried(given, number, types)
        assert not found, found
        linecache.cache.pop(f"<drawn {number}>", None)
        if number % 50 == 0:
            gc.collect()
