"""pointwise_loops.c: the CPU's loops over the elements of the pointwise ops, and the tables that find them.

One function for an op and body type: `n` contiguous elements of each input to `n` of the output. The file is compiled
several times: TD_ISA names the instruction set (base, v3, v4), TD_SHARD the part of the loops. A loop that gains nothing from a wider
instruction set is made for the narrower ones only, and the wider tables point at it.
"""

import re

from cdata import HEAD

BODIES = {"f32": "float", "f64": "double", "i64": "int64_t", "i32": "int32_t", "u8": "unsigned char", "c64": "td_c64",
          "c128": "td_c128", "u64": "uint64_t"}
CATEGORY = {"f32": "float", "f64": "float", "i64": "int", "i32": "int", "u8": "bool", "c64": "complex", "c128": "complex",
            "u64": "int"}
ISAS = ("base", "v3", "v4")
SHARDS = 4
# Calls that cost about as much as an operator; all others count as elementary functions.
SIMPLE = {"abs", "sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "finite", "conj", "div", "scale", "clamp", "maximum",
          "minimum", "sign", "signbit", "copysign", "mantissa", "exponent", "shl", "shr", "trigbig", "fmax", "fmin", "heaviside", "near", "nextafter"}
# Functions that stand once, behind a call: no instruction set makes them faster.
BEHIND = {"polygamma", "zeta", "igamma", "igammac", "airy_ai", "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "hermite_h", "hermite_he", "laguerre_l", "legendre_p"}
# Functions of doubles that vectorise, too.
WIDE_F64 = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "tanh", "sinh", "cosh", "sin", "cos", "pow", "log1pexp", "logaddexp", "logaddexp2", "npdf",
            "mish", "tan", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "erf", "erfc", "hypot", "ncdf", "gelu", "gelu_grad", "sinc", "geluarg", "geluarg_slope", "gelutanh", "gelutanh_grad", "xlogy", "xlog1py", "entr", "logit", "bce"}
# The same, under the name of td_NAME_wide: td_NAME_f64 is the function that is called.
SPECIAL_F64 = {"lgamma", "digamma", "erfinv", "ndtri", "erfcx", "log_ndtr", "i0", "i0e", "i1", "i1e", "k0", "k0e", "k1", "k1e", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
               "spherical_j0"}
WIDE_F64 |= SPECIAL_F64
# Faster functions for blocks that doubles have, too.
FAST_F64 = {"fmodnear", "remaindernear", "floordivnear", "bessel_j0near", "bessel_j1near"}
# Picoseconds of one element of float32 and of float64: of a loop without calls, of what a call adds (AVX-512, in cache), and of a polynomial of an order that is not known.
PLAIN_PS, OTHER_PS, ORDERS_PS = (250, 500), (700, 8000), (100000, 100000)
CALLS_PS = {
    "exp": (100, 500), "exp2": (10, 400), "expm1": (550, 700), "log": (200, 600), "log2": (600, 800), "log10": (600, 800), "log1p": (300, 1100),
    "sin": (700, 1000), "cos": (700, 1000), "tan": (850, 1700), "asin": (800, 1500), "acos": (800, 1200), "atan": (600, 1500), "atan2": (700, 2600),
    "sinh": (700, 1400), "cosh": (700, 1400), "tanh": (300, 1400), "asinh": (1200, 3200), "acosh": (1100, 2600), "atanh": (1100, 2000),
    "sigmoid": (50, 650), "log1pexp": (400, 3000), "logaddexp": (1020, 3400), "logaddexp2": (1060, 3400), "pow": (2100, 4500), "gelu": (370, 4300),
    "gelutanh": (200, 1000), "mish": (250, 1200), "erf": (520, 3700), "erfc": (520, 3900), "ncdf": (410, 4200), "ldexp": (200, 300),
    "hypot": (400, 1300), "logit": (900, 1500), "sinc": (950, 1700), "xlogy": (250, 800), "xlog1py": (350, 1200), "entr": (300, 1000), "bce": (550, 1800),
    "lgamma": (2800, 3100), "digamma": (3500, 3300), "trigamma": (3000, 11000), "erfinv": (1500, 3900), "ndtri": (2300, 3900), "log_ndtr": (2800, 7000),
    "erfcx": (1400, 2500), "i0": (1900, 3700), "i0e": (1300, 2600), "i1": (1900, 3700), "i1e": (1300, 2600), "k0": (2200, 4800), "k1": (2700, 4900),
    "k0e": (2700, 4500), "k1e": (2900, 4600), "bessel_j0": (2000, 4300), "bessel_j1": (2000, 4300), "bessel_y0": (4300, 5800), "bessel_y1": (4300, 5800),
    "spherical_j0": (800, 1300), "igamma": (60000, 130000), "igammac": (60000, 130000), "zeta": (300000, 300000), "polygamma": (400000, 400000), "digamma_any": (3500, 16000),
    "airy_ai": (40000, 40000)}
SCALAR = {"gcd", "lcm", "fmod", "remainder", "floordiv", "truncdiv", "pow"}  # loops or branches inside: no vectors for integers
DIVISIONS = {"fmod", "remainder", "floordiv", "truncdiv"}  # of whole numbers: by 0 they fail
LOOKING = {"bce"}  # at floats, of which some make them fail
ABSENT = {"lowest": 1, "highest": 2, "min_finite": 3, "max_finite": 4}


def calls(text):
    return re.findall(r"\b([a-z]\w*)\(", text)


def spell(text, body):
    """The C text of an expression for one body type."""
    def name(called):
        return f"td_{called}_wide(" if body == "f64" and called in SPECIAL_F64 else f"td_{called}_{body}("
    return re.sub(r"\b([a-z]\w*)\(", lambda m: name(m.group(1)), text)


class Row:
    """What the emitter knows of one op."""

    def __init__(self, op):
        self.op, self.name = op, op.name
        self.expr = op.expr if isinstance(op.expr, dict) else {"all": op.expr}
        self.bool_out = op.promote == "bool"
        self.bool_in = self.expr.get("bool_in", [])

    def text(self, body):
        if body == "i32" and not self.expr.get("int32"):
            return None
        category = CATEGORY[body]
        if body == "u64" and "uint64" in self.expr:
            return self.expr["uint64"]
        return self.expr.get(category) or (self.expr.get("all") if category != "bool" else None)

    def isas(self, body):
        """Instruction sets that this loop is made for."""
        used = set(calls(self.text(body) + self.expr.get("on", "")))
        hard, scalar = used - SIMPLE, used & SCALAR
        if used & BEHIND and not (body == "f32" and "numbers" in self.expr or "orders" in self.expr) or body == "u64":
            return ISAS[:1]
        if body in ("f32", "f64") and used & {"fmod", "remainder", "floordiv"}:
            return ISAS[:2]
        if body == "f32":
            return ISAS
        if body == "f64":
            return ISAS if "orders" in self.expr or not hard - WIDE_F64 - {"truncdiv"} else ISAS[:1]
        if body in ("c64", "c128"):
            return ISAS[:1] if hard or "abs" in used or "sign" in used else ISAS[:2]
        return ISAS[:1] if scalar else ISAS

    def cost(self, body):
        """Picoseconds for one element of float32 or float64, about."""
        k = 0 if body == "f32" else 1
        if "orders" in self.expr:
            return ORDERS_PS[k]
        return self.cost_of(self.text(body) or self.text("i64") or "", k)

    def cost_of(self, text, k):
        return PLAIN_PS[k] + sum(CALLS_PS.get(c, OTHER_PS)[k] for c in calls(text) if c not in SIMPLE)

    def fails(self):
        """TD_PW_FAILS_...: does it fail where a whole number is 0, or for what floats are?"""
        whole = any(set(calls((self.text(b) or "") + self.expr.get("on", ""))) & DIVISIONS for b in ("i64", "u64"))
        return whole | 2 * bool(set(calls(self.text("f32") or "")) & LOOKING)

    def out_type(self, body):
        if self.bool_out:
            return "unsigned char"
        if self.expr.get("real_out") and CATEGORY[body] == "complex":
            return BODIES["f32" if body == "c64" else "f64"]
        return BODIES[body]


def loop(row, body, text, out, depth=4, count="n"):
    pad = " " * depth
    out.write(f"#pragma GCC ivdep\n{pad}for (int64_t i = 0; i < {count}; i++) {{\n")
    element(row, out, depth + 4)
    out.write(f"{pad}    o[i] = {spell(text, body)};\n{pad}}}\n")


def element(row, out, depth):
    """The operands of one element by their names."""
    for p in row.op.params:
        kind = "unsigned char" if p.name in row.bool_in else "T"
        out.write(f"{' ' * depth}const {kind} {p.name} TD_UNUSED = in_{p.name}[i];\n")


def some(row, body, name, condition, out):
    """Does it hold for any element of the block?"""
    out.write(f"        int {name} = 0;\n#pragma GCC ivdep\n        for (int64_t i = 0; i < m; i++) {{\n")
    element(row, out, 12)
    out.write(f"            {name} |= {spell(condition, body)};\n        }}\n")


def blocks(row, body, text, out):
    """A loop over blocks: easy ones have a faster way, and elements that are guarded against are done once more, from what they were: the result may
    lie where they did."""
    x = row.op.params[0].name
    guard, slow = guarded(row, body)
    out.write("    while (n > 0) {\n        const int64_t m = n < TD_PW_BLOCK ? n : TD_PW_BLOCK;\n")
    if guard:
        out.write("        T kept[TD_PW_BLOCK];\n")
        some(row, body, "guarded", guard, out)
        out.write(f"        if (guarded) memcpy(kept, in_{x}, (size_t)m * sizeof *kept);\n")
    if fast(row, body):
        some(row, body, "other", f"!({row.expr['easy']})", out)
        out.write("        if (!other) {\n")
        loop(row, body, row.expr["fast"], out, 12, "m")
        out.write("        } else {\n")
        loop(row, body, text, out, 12, "m")
        out.write("        }\n")
    else:
        loop(row, body, text, out, 8, "m")
    if guard:
        out.write(f"        for (int64_t i = 0; guarded && i < m; i++) {{\n            const T {x} = kept[i];\n"
                  f"            if ({spell(guard, body)}) o[i] = {spell(slow, body)};\n        }}\n")
    out.write("        n -= m;\n        o += m;\n" + "".join(f"        in_{p.name} += m;\n" for p in row.op.params) + "    }\n")


def fast(row, body):
    return "fast" in row.expr and (body == "f32" or body == "f64" and calls(row.expr["fast"])[0] in FAST_F64)


def guarded(row, body):
    """Which elements are worked out once more, and how; none: nothing."""
    if body == "f64" and not set(calls(row.text(body))) - WIDE_F64:
        return next(((row.expr[g], row.expr[s]) for g, s in (("guard64", "slow64"), ("guard", "slow")) if g in row.expr), (None, None))
    return (row.expr.get("guard"), row.expr.get("slow")) if body == "f32" else (None, None)


def in_blocks(row, body):
    return fast(row, body) or guarded(row, body)[0] is not None


def numbered(row, body, text, out):
    """Loops of their own for blocks in which one operand is the same such number throughout, and one that gives the same bits where others stand beside it."""
    y, cases = row.expr["number"], [(f"(T){v}", e) for v, e in row.expr["numbers"].items()]
    if y not in [p.name for p in row.op.params]:  # an attribute
        for v, e in cases:
            out.write(f"    if ({y} == {v}) {{\n")
            loop(row, body, e, out)
            out.write("        return err;\n    }\n")
        return
    among = " | ".join(f"({{0}} == {v})" for v, _ in cases)
    out.write(f"    const T first = n > 0 ? in_{y}[0] : 0;\n    int some = {among.format('first')}, others = 0;\n    if (some) {{\n"
              f"        for (int64_t i = 0; i < n; i++) others |= in_{y}[i] != first;\n    }}\n")
    for v, e in cases:
        out.write(f"    if (!others && first == {v}) {{\n")
        loop(row, body, e, out)
        out.write("        return err;\n    }\n")
    out.write(f"    for (int64_t i = 0; i < n; i++) some |= {among.format(f'in_{y}[i]')};\n    if (some) {{\n")
    loop(row, body, "".join(f"{y} == {v} ? {e} : " for v, e in cases) + text, out)
    out.write("        return err;\n    }\n")


def function(row, body, out):
    text = row.text(body)
    out.write(f"/* {row.op.where('expr')} */\ntd_pw_fn_type TD_ISA_NAME(td_pw_{row.name}_{body});\n"
              f"int TD_ISA_NAME(td_pw_{row.name}_{body})(int64_t n, void *out, const void *const *in, const td_pw_attr *at)\n{{\n"
              f"    typedef {BODIES[body]} T;\n    {row.out_type(body)} *o = out;\n    int err = 0;\n    (void)at;\n")
    for k, p in enumerate(row.op.params):
        kind = "unsigned char" if p.name in row.bool_in else "T"
        out.write(f"    const {kind} *in_{p.name} = in[{k}];\n")
    for k, a in enumerate(row.op.attrs):
        if a.name != row.expr.get("switch"):
            out.write(f"    const T {a.name} TD_UNUSED = td_attr_{body}(at[{k}]);\n")
    if "orders" in row.expr:
        x, order = (p.name for p in row.op.params)
        out.write(f"    td_{row.expr['orders']}_orders_{body}(n, o, in_{x}, in_{order});\n    return err;\n}}\n")
        return
    if in_blocks(row, body):
        blocks(row, body, text, out)
        out.write("    return err;\n}\n")
        return
    if "numbers" in row.expr and CATEGORY[body] == "float":
        numbered(row, body, text, out)
    if "switch" in row.expr:
        k = [a.name for a in row.op.attrs].index(row.expr["switch"])
        out.write(f"    if (at[{k}].i) {{\n")
        loop(row, body, row.expr["on"], out)
        out.write("        return err;\n    }\n")
    loop(row, body, text, out)
    out.write("    return err;\n}\n")


def isa_condition(isas):
    return " || ".join(f"TD_ISA_LEVEL == {ISAS.index(i)}" for i in isas)


def shards(rows):
    """Deal (row, body) to the shards, the dearest first, each to the shard that has least."""
    jobs = [(r, b) for r in rows for b in BODIES if r.text(b)]
    weight = {(r.name, b): 1 + 2 * len([c for c in calls(r.text(b)) if c not in SIMPLE]) for r, b in jobs}
    parts, load = [[] for _ in range(SHARDS)], [0] * SHARDS
    for job in sorted(jobs, key=lambda j: (-weight[j[0].name, j[1]], j[0].op.id)):
        k = load.index(min(load))
        parts[k].append(job)
        load[k] += weight[job[0].name, job[1]]
    return parts


def tables(rows, out):
    """Shard 0 also has the table of this instruction set."""
    entries = []
    for r in rows:
        cells = []
        for b in BODIES:
            if not r.text(b):
                continue
            for isa in r.isas(b):
                out.write(f"td_pw_fn_type td_pw_{r.name}_{b}_{isa};\n")
            cells.append((b, r.isas(b)))
        entries.append((r, cells))
    for level, isa in enumerate(ISAS):
        out.write(f"#if TD_ISA_LEVEL == {level}\nextern const td_pw_fn td_pw_table_{isa}[][TD_BODY_COUNT];\n"
                  f"const td_pw_fn td_pw_table_{isa}[][TD_BODY_COUNT] = {{\n")
        for r, cells in entries:
            best = {b: [i for i in isas if ISAS.index(i) <= level][-1] for b, isas in cells}
            out.write("    {" + ", ".join(f"[TD_BODY_{b.upper()}] = td_pw_{r.name}_{b}_{i}" for b, i in best.items()) + "},\n")
        out.write("};\n#endif\n")


def notes(rows, table, out):
    """What does not depend on the instruction set, in the base build alone."""
    out.write("#if TD_ISA_LEVEL == 0\n")
    for r in rows:
        if "numbers" in r.expr:
            out.write(f"static const double numbers_of_{r.name}[] = {{{', '.join(r.expr['numbers'])}}};\n")
    out.write("const td_pw_op td_pw_ops[] = {\n")
    for r in rows:
        names = [p.name for p in r.op.params]
        mask = sum(1 << names.index(n) for n in r.bool_in)
        absent = r.expr.get("absent", {})
        kinds = ", ".join(str(ABSENT[absent[a.name]]) if a.name in absent else "0" for a in r.op.attrs) or "0"
        result = "TD_PW_OUT_BOOL" if r.bool_out else "TD_PW_OUT_REAL" if r.expr.get("real_out") else "TD_PW_OUT_SAME"
        given, easy, easy_ps = 0, (f"{len(names)}, 0, 0" if "orders" in r.expr else "0, 0, 0"), (0, 0)
        if "numbers" in r.expr:
            given = ([a.name for a in r.op.attrs] + [""]).index(r.expr["number"]) + 1 if r.expr["number"] not in names else 0
            easy = f"{0 if given else names.index(r.expr['number']) + 1}, {len(r.expr['numbers'])}, numbers_of_{r.name}"
            easy_ps = [max(r.cost_of(e, k) for e in r.expr["numbers"].values()) for k in range(2)]
        out.write(f"    {{{len(names)}, {len(r.op.attrs)}, {result}, {mask}, {{{r.cost('f32')}, {r.cost('f64')}}}, {{{kinds}}}, {r.fails()}, {easy}, {given}, {{{easy_ps[0]}, {easy_ps[1]}}}}}, /* {r.name} */\n")
    out.write("};\nconst unsigned char td_pw_row_of[] = {\n")
    for k, r in enumerate(rows):
        out.write(f"    [{r.op.id}] = {k + 1},\n")
    out.write(f"    [{max(o.id for o in table.ops) + 1}] = 0,\n}};\n#endif\n")


def emit(table, out):
    rows = [Row(op) for op in table.ops if op.expr and op.expr != "TODO" and op.name not in ("copy", "copy_kept")]
    out.write(HEAD + '#include "daemon/kernels/cpu/vec/loops.h"\n\n')
    for k, part in enumerate(shards(rows)):
        out.write(f"#if TD_SHARD == {k}\n")
        for row, body in part:
            out.write(f"#if {isa_condition(row.isas(body))}\n")
            function(row, body, out)
            out.write("#endif\n")
        out.write("#endif\n")
    out.write("#if TD_SHARD == 0\n")
    tables(rows, out)
    notes(rows, table, out)
    out.write("#endif\n")
