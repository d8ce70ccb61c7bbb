"""Write the gradient formulas as C: for each op one backward function over a builder (proto/ops/formula.h).

The same functions serve the eager engine, which evaluates each op as it is asked for, and a compiler, which puts them into its
program. Every sub-expression becomes one C expression, or a statement that sets a variable v<N>.
"""

import re

import formula
from cdata import CALLS, HEAD, string


C_TYPES = {"V": "td_fval", "R": "td_fval", "L": "td_flist", "i": "int64_t", "f": "double", "b": "bool", "S": "td_scalar", "D": "td_dtype",
           "I": "td_fints"}
HELPER_CALLS = {  # helper -> C function; the context comes first, but for those marked pure
    "float": "({0})", "int": "({0})", "max": "fmax({0}, {1})", "min": "fmin({0}, {1})", "len": "({0}).n",
    "iscomplex": "td_dtype_is_complex({0})", "numel": "td_fi_numel({0})", "rows": "td_fi_rows({0})", "count": "td_fi_count({0}, {1})",
    "intmax": "td_fi_max({0}, {1})", "intmin": "td_fi_min({0}, {1})", "isfloat": "td_dtype_is_float({0})",
    "real_dtype": "td_dtype_real({0})", "promoted": "td_promote({0}, {1})", "span": "td_fi_span({0}, {1}, {2})", "overlaps": "td_fi_overlaps({0}, {1})", "wrap": "td_fi_wrap({0}, {1})",
}
EMPTY = {"V": "td_fv_none()", "R": "td_fv_none()", "L": "td_fl_new(f, 0)", "I": "td_fi_new(f, 0)", "P": "td_fx_values(f, 8)", "i": "0", "f": "0", "b": "false",
         "S": "td_int(0)", "D": "TD_FLOAT32"}
MANGLED = {"*": "mul", "+": "add", "-": "sub", "/": "div"}


class Emitter:
    def __init__(self, ops, op):
        self.ops, self.op = ops, op
        self.lines, self.depth, self.next = [], 1, 0
        self.scope = {}

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def var(self, ctype, value=None):
        self.next += 1
        name = f"v{self.next}"
        self.line(f"{ctype} {name}" + (f" = {value};" if value is not None else ";"))
        return name

    # ---- kinds

    def as_kind(self, t, kind):
        """t's C expression, converted to the C type of `kind`."""
        code = self.gen(t)
        if t.kind == "fail":
            return EMPTY[kind]
        have = "none" if t.node.kind == "none" else t.kind
        if have == kind or {have, kind} == {"V", "R"}:
            return code
        if kind == "V":
            return "td_fv_none()" if have == "none" else f"td_fv_number(f, {scalar(have, code)})"
        if kind == "S":
            return scalar(have, code)
        if kind == "I":
            return "td_fi_none()" if have == "none" else f"td_fi_one(f, {code})"
        if kind == "f" and have in "ib":
            return f"(double)({code})"
        if kind == "i" and have == "b":
            return f"(int64_t)({code})"
        raise AssertionError((have, kind))

    def coerced(self, t):
        _, kind, optional, inner = t.extra
        if optional and inner.of and inner.of[0] == "attr" and inner.of[2] and kind == "I":
            return f"td_fx_attr_ints(f, {inner.of[1]})"
        return self.as_kind(inner, kind)

    # ---- expressions

    def gen(self, t):
        if isinstance(t.extra, tuple) and t.extra[0] == "coerce":
            return self.coerced(t)
        if isinstance(t.extra, formula.Op):
            return self.gen_op(t)
        return getattr(self, "gen_" + t.node.kind)(t)

    def gen_num(self, t):
        return t.node.a

    def gen_bool(self, t):
        return "true" if t.node.a else "false"

    def gen_none(self, t):
        return "td_fv_none()"

    def gen_name(self, t):
        if t.extra and t.extra[0] == "var":
            return self.scope[t.extra[1]]
        what, k = t.of[0], t.of[1] if len(t.of) > 1 else None
        if what == "attr":
            return self.attribute(k, t.kind)
        if what == "in":
            return f"td_fx_list(f)" if t.kind == "L" else f"td_fx_in(f, {k})"
        if what == "dtype":
            return f"TD_{k.upper()}"
        simple = {"inf": "(double)INFINITY", "out": f"td_fx_out(f, {k})", "g": f"td_fx_g(f, {k})" if k is not None else "td_fx_gs(f)", "need": "need",
                  "create_graph": "f->create_graph", "pi": "3.14159265358979323846"}
        return simple[what]

    def attribute(self, k, kind):
        return {"i": f"td_attr_int(f->attrs, {k})", "b": f"td_attr_bool(f->attrs, {k})", "f": f"td_attr_float(f->attrs, {k})",
                "S": f"f->attrs->at[{k}].s", "D": f"td_attr_dtype(f->attrs, {k})", "I": f"td_fx_attr_ints(f, {k})"}[kind]

    def gen_field(self, t):
        if t.kind == "M":
            return ""
        if t.extra in formula.META:
            return self.meta(t.args[0], t.extra)
        if isinstance(t.extra, tuple) and t.extra[0] == "pick":
            return f"{self.gen(t.args[0])}[{t.extra[1]}]"
        return f"td_fx_out(f, {t.of[1]})" if t.of[0] == "out" else f"td_fx_g(f, {t.of[1]})"

    def meta(self, t, field):
        if t.of and t.of[0] in ("in", "out"):
            where = f"td_fx_meta_{t.of[0]}(f, {t.of[1]})"
        elif t.of and t.of[0] == "item":
            where = f"td_fx_meta_item(f, {self.scope[t.node.a + '#']})"
        else:
            value = self.gen(t)
            where = f"td_fx_meta(f, {value if value.isidentifier() else self.var('td_fval', value)})"
        return {"shape": f"td_fi_shape({where})", "stride": f"td_fi_stride({where})", "offset": f"{where}.offset",
                "dtype": f"(td_dtype){where}.dtype", "ndim": f"(int64_t){where}.ndim"}[field]

    def gen_item(self, t):
        base, index = self.gen(t.args[0]), self.gen(t.args[1])
        return f"td_fi_at(f, {base}, {index})" if t.kind == "i" else f"td_fl_at(f, {base}, {index})"

    def gen_neg(self, t):
        e = self.gen(t.args[0])
        return {"S": f"td_fs_neg({e})", "I": f"td_fi_neg(f, {e})", "i": f"td_fi_sub(0, {e})"}.get(t.kind, f"-({e})")

    def gen_not(self, t):
        return f"!({self.gen(t.args[0])})"

    def gen_bin(self, t):
        op, (x, y) = t.node.a, t.args
        if op in ("and", "or"):
            return f"({self.gen(x)} {'&&' if op == 'and' else '||'} {self.gen(y)})"
        if x.kind == "I":
            same = f"td_fi_equal({self.gen(x)}, {self.gen(y)})"
            return same if op == "==" else f"!{same}"
        if "S" in (x.kind, y.kind):
            a, b = self.as_kind(x, "S"), self.as_kind(y, "S")
            if op in formula.COMPARE:
                return f"(td_fs_compare({a}, {b}) {op} 0)"
            return f"td_fs_{MANGLED[op]}({a}, {b})"
        a, b = self.gen(x), self.gen(y)
        if op == "**":
            return f"pow({a}, {b})"
        if op == "/":
            return f"((double)({a}) / (double)({b}))"
        if op in ("//", "%"):
            return f"td_fi_{'div' if op == '//' else 'mod'}({a}, {b})"
        if op in MANGLED and x.kind == y.kind == "i":
            return f"td_fi_{MANGLED[op]}({a}, {b})"
        return f"({a} {op} {b})"

    def gen_let(self, t):
        saved = dict(self.scope)
        for name, value in t.extra:
            code = self.gen(value)
            ctype = "td_fval *" if value.kind == "P" else C_TYPES[value.kind]
            self.scope[name] = code if code.isidentifier() else self.var(ctype, code)
        code = self.gen(t.args[0])
        self.scope = saved
        return code

    def gen_if(self, t):
        condition = self.gen(t.args[0])
        name = self.var("td_fval *" if t.kind == "P" else C_TYPES[t.kind])
        self.line(f"if {in_parentheses(condition)} {{")
        for k, branch in enumerate(t.args[1:]):
            self.depth += 1
            self.line(f"{name} = {self.gen(branch) if t.kind == 'P' and branch.kind != 'fail' else self.as_kind(branch, t.kind)};")
            self.depth -= 1
            self.line("} else {" if k == 0 else "}")
        return name

    def gen_tuple(self, t):
        name = self.var("td_fval *", f"td_fx_values(f, {len(t.args)})")
        for k, e in enumerate(t.args):
            self.line(f"{name}[{k}] = {self.as_kind(e, 'V')};")
        return name

    def gen_list(self, t):
        n = len(t.args)
        if t.kind == "I":
            name = self.var("td_fints", f"td_fi_new(f, {n})")
        else:
            name = self.var("td_flist", f"td_fl_new(f, {n})")
        for k, e in enumerate(t.args):
            self.line(f"{name}.v[{k}] = {self.as_kind(e, 'i' if t.kind == 'I' else 'V')};")
        return name

    def lists(self, t):
        """What a comprehension or a scan goes through, and how far: ([(name, list, C variable)], C variable)."""
        sources = [(name, src, self.gen(src) if src.kind != "L" or not src.of or src.of[0] != "in" else "td_fx_list(f)")
                   for name, src in t.extra]
        sources = [(name, src, c if c.isidentifier() else self.var(C_TYPES[src.kind], c)) for name, src, c in sources]
        count = self.var("int", f"{sources[0][2]}.n")
        for _, _, c in sources[1:]:
            self.line(f"if ({c}.n < {count}) {count} = {c}.n;")
        return sources, count

    def gen_scan(self, t):
        start, body = t.args
        sources, count = self.lists(t)
        now = self.var("td_fval", self.as_kind(start, "V"))
        result = self.var("td_flist", f"td_fl_new(f, {count})")
        k = result.replace("v", "k")
        self.line(f"for (int {k} = 0; {k} < {count}; {k}++) {{")
        self.depth += 1
        saved = dict(self.scope)
        for name, _, c in sources:
            self.scope[name], self.scope[name + "#"] = f"{c}.v[{k}]", k
        self.scope[t.node.a[0][0]] = now
        self.line(f"{result}.v[{k}] = {now} = {self.gen(body)};")
        self.scope = saved
        self.depth -= 1
        self.line("}")
        return result

    def gen_comp(self, t):
        sources, count = self.lists(t)
        make = "td_fi_new" if t.kind == "I" else "td_fl_new"
        result = self.var(C_TYPES[t.kind], f"{make}(f, {count})")
        k = result.replace("v", "k")
        self.line(f"for (int {k} = 0; {k} < {count}; {k}++) {{")
        self.depth += 1
        first = sources[0][1]
        if t.extra == self.direct and first.of and first.of[0] == "in":
            self.line(f"if (!td_fx_wants_item(f, {k})) continue;")
        saved = dict(self.scope)
        for name, _, c in sources:
            self.scope[name], self.scope[name + "#"] = f"{c}.v[{k}]", k
        body = self.as_kind(t.args[0], "i" if t.kind == "I" else "V")
        self.line(f"{result}.v[{k}] = {body};")
        self.scope = saved
        self.depth -= 1
        self.line("}")
        return result

    def gen_fail(self, t):
        """The statement; where it stands a value is wanted, which nobody will look at."""
        _, code, text = t.extra
        values = [f"td_fi_text(f, {self.gen(e)})" if e.kind == "I" else f"(long long)({self.gen(e)})" for e in t.args]
        kinds = iter(["%s" if e.kind == "I" else "%lld" for e in t.args])
        text = re.sub("{[^{}]*}", lambda _: next(kinds), text.replace("%", "%%"))
        self.line(f"td_fx_fail(f, TD_E_{code}, {', '.join([string(text), *values])});")
        return ""

    def gen_call(self, t):
        if t.kind == "fail":
            return self.gen_fail(t)
        kind, what = t.extra[0], t.extra[1] if len(t.extra) > 1 else None
        if kind == "given":
            return f"td_fx_given(f, {what.index})" if what.is_param else f"td_attr_given(f->attrs, {what.index})"
        if kind == "number":
            return f"(td_fx_in(f, {what.index}).kind == TD_F_NUMBER)"
        if kind == "filled":
            e = t.args[0]
            return "td_fx_filled_list(f)" if e.kind == "L" else f"td_fx_filled(f, {e.of[1]})"
        if what in ("offsets", "indices", "common"):
            rest = "".join(", " + self.gen(a) for a in t.args[1:])
            return f"td_fi_{what}(f{rest})"
        if what == "default":
            return f"(td_attr_given(f->attrs, {t.args[0].extra[3].of[1]}) ? {self.gen(t.args[0].extra[3])} : {self.gen(t.args[1])})"
        args = [self.gen(a) for a in t.args]
        if what in HELPER_CALLS:
            return HELPER_CALLS[what].format(*args)
        code = f"td_f{'x' if t.kind == 'V' else 'i'}_{what}(f, {', '.join(args)})"
        return self.var(C_TYPES[t.kind], code)

    # ---- calls of ops

    def gen_op(self, t):
        callee = t.extra
        inputs, attrs = t.args
        values = [(a, "td_fv_none()" if e is None else self.gen(e) if a.kind in ("T[]", "T?[]") else self.as_kind(e, "V"))
                  for a, e in inputs]
        array, count = self.inputs(values)
        a = "NULL"
        if attrs:
            a = "&" + self.attrs(attrs)
        if callee.out_list:
            return self.var("td_flist", f"td_fx_op_list(f, TD_OP_{callee.name.upper()}, {count}, {array}, {a})")
        if len(callee.outs) > 1:
            name = self.var("td_fval *", f"td_fx_values(f, {len(callee.outs)})")
            self.line(f"td_fx_op_many(f, TD_OP_{callee.name.upper()}, {count}, {array}, {a}, {len(callee.outs)}, {name});")
            return name
        return self.var("td_fval", f"td_fx_op(f, TD_OP_{callee.name.upper()}, {count}, {array}, {a})")

    def inputs(self, values):
        if not any(a.kind in ("T[]", "T?[]") for a, _ in values):
            return "(td_fval[]){" + ", ".join(c for _, c in values) + "}", len(values)
        array = self.var("td_flist", "td_fl_new(f, 0)")
        for a, code in values:
            self.line(f"td_fl_{'join' if a.kind in ('T[]', 'T?[]') else 'push'}(f, &{array}, {code});")
        return f"{array}.v", f"{array}.n"

    def attrs(self, attrs):
        # The values first: they may take statements of their own.
        codes = [self.attr_code(a, e) for a, e in attrs]
        name = self.var("td_attrs")
        self.line(f"td_attrs_init(&{name});")
        for code in codes:
            self.line(code.replace("@", "&" + name) + ";")
        return name

    def attr_code(self, a, e):
        """The statement that appends attribute `a`; @ stands for the attributes' address."""
        if e is None:
            return default_code(a)
        inner = e.extra[3]
        if inner.kind == "none":
            return "td_attrs_none(@)"
        if a.optional and inner.of and inner.of[0] == "attr" and inner.of[2]:
            return f"td_fx_pass(f, @, {inner.of[1]}, TD_A_{formula_kind(a.kind)})"
        code = self.as_kind(inner, a.kind)
        if a.kind == "I":
            if not code.isidentifier():
                code = self.var("td_fints", code)
            return f"td_fx_push_ints(f, @, {code})"
        push = {"i": "int", "f": "float", "b": "bool", "S": "scalar", "D": "dtype"}[a.kind]
        return f"td_attrs_{push}(@, {code})"

    direct = None


def in_parentheses(code):
    """Code between parentheses, those it has already among them: clang takes a second pair around a comparison for a mistake."""
    depth = 0
    for k, c in enumerate(code):
        depth += (c == "(") - (c == ")")
        if not depth:
            break
    return code if code.startswith("(") and k == len(code) - 1 else f"({code})"


def scalar(kind, code):
    return {"i": f"td_int({code})", "f": f"td_float({code})", "b": f"td_bool({code})", "S": code}[kind]


def formula_kind(kind):
    return {"i": "INT", "f": "FLOAT", "b": "BOOL", "S": "SCALAR", "D": "DTYPE", "I": "INTS"}[kind]


def default_code(a):
    d = a.default
    if d is None:
        return "td_attrs_none(@)"
    if a.kind == "I":
        values = ", ".join(map(str, d)) or "0"
        return f"td_attrs_ints(@, {len(d)}, (const int64_t[]){{{values}}})"
    if a.kind == "S":
        return f"td_attrs_scalar(@, {'td_int' if isinstance(d, int) else 'td_float'}({d}))"
    push = {"i": "int", "f": "float", "b": "bool"}[a.kind]
    return f"td_attrs_{push}(@, {str(d).lower()})"


def emit_composition(ops, op):
    """The function that makes the op of others."""
    e = Emitter(ops, op)
    tree = formula.composition(ops, op)
    if op.out_list:
        e.line(f"f->made = {e.as_kind(tree, 'L')};")
    elif len(op.outs) == 1:
        e.line(f"f->made.v[0] = {e.as_kind(tree, 'V')};")
    else:
        values = e.gen(tree)
        e.line(f"for (int k = 0; k < {len(op.outs)}; k++) f->made.v[k] = {values}[k];")
    return "\n".join([f"void td_compose_{op.name}(td_fx *f)", "{", *e.lines, "}", "", ""])


class NotDirect(Exception):
    """The call is more than one op, or one of something else than what was given."""


class DirectEmitter(Emitter):
    """Write the paths of a composition that are one op with the inputs as they were given: which op, with which attributes. On all other paths the function says NULL."""

    def gen(self, t):
        if t.kind in "VLPR" and t.node.kind != "name":
            raise NotDirect
        return super().gen(t)

    def tail(self, t):
        """The statements that return what t is; true when some path is one op."""
        if isinstance(t.extra, formula.Op):
            return self.leaf(t, 0)
        if t.node.kind == "let":
            saved = dict(self.scope)
            for name, value in t.extra:
                code = self.gen(value)
                self.scope[name] = code if code.isidentifier() else self.var(C_TYPES[value.kind], code)
            found = self.tail(t.args[0])
            self.scope = saved
            return found
        if t.node.kind == "if":
            self.line(f"if {in_parentheses(self.gen(t.args[0]))} {{")
            yes = self.branch(t.args[1])
            self.line("}")
            if self.branch(t.args[2], deeper=0) or yes:
                return True
            raise NotDirect
        if isinstance(t.extra, tuple) and t.extra[0] == "pick" and isinstance(t.args[0].extra, formula.Op):
            return self.leaf(t.args[0], t.extra[1])
        if t.extra == ("helper", "reshape") and self.given(t.args[0], 0):
            return self.reshape(t)
        raise NotDirect

    def branch(self, t, deeper=1):
        self.depth += deeper
        kept = len(self.lines)
        try:
            return self.tail(t)
        except NotDirect:
            del self.lines[kept:]
            self.line("return NULL;")
            return False
        finally:
            self.depth -= deeper

    def given(self, t, k):
        """Is t the k-th input?"""
        if isinstance(t.extra, tuple) and t.extra[0] == "coerce":
            t = t.extra[3]
        return t.node.kind == "name" and t.of == ("in", k)

    def leaf(self, t, pick):
        callee, (inputs, attrs) = t.extra, t.args
        same = len(inputs) == len(self.op.params) and all(e is not None and self.given(e, k) for k, (_, e) in enumerate(inputs))
        if not same or callee.out_list or any(a.is_list for a in self.op.row.params):
            raise NotDirect
        codes = [self.attr_code(a, e).replace("@", "to") for a, e in attrs]
        for code in codes:
            self.line(code + ";")
        if pick:
            self.line(f"f->pick = {pick};")
        self.line(f"return &td_ops[TD_OP_{callee.name.upper()}];")
        return True

    def reshape(self, t):
        self.line(f"return td_fx_reshape_direct(f, {self.gen(t.args[1])}, to);")
        return True


def unread(line, lines):
    """What is said of a variable that this line declares and nothing reads: paths that are no other op's need no more of it."""
    declared = re.fullmatch(r"( *)\w+ (v\d+);", line)
    if not declared:
        return []
    name = declared[2]
    used = [l for l in lines if re.search(rf"\b{name}\b", l) and l is not line and not re.match(rf" *{name} = (?!.*\b{name}\b)", l)]
    return [] if used else [f"{declared[1]}(void){name};"]


def emit_direct(ops, op):
    """The function that says which other op a call for one result is, or None where it never is one."""
    e = DirectEmitter(ops, op)
    if len(op.outs) > 1 or not e.branch(formula.composition(ops, op), deeper=0):
        return None
    unused = [f"    (void){name};" for name in ("f", "to") if not any(re.search(rf"\b{name}\b", line) for line in e.lines)]
    e.lines = [part for line in e.lines for part in (line, *unread(line, e.lines))]
    return "\n".join([f"const td_op *td_direct_{op.name}(td_fx *f, td_attrs *to)", "{", *unused, *e.lines, "}", "", ""])


def emit_gradient(ops, op, gr):
    e = Emitter(ops, op)
    params = [op.arg(n) for n in gr.names]
    wants = " || ".join(f"td_fx_wants(f, {p.index})" for p in params)
    e.line(f"if ({wants}) {{ /* {gr.text.replace('*/', '* /')} */")
    e.depth += 1
    if len(params) > 1:
        bits = " | ".join(f"(int64_t)td_fx_wants(f, {p.index}) << {k}" for k, p in enumerate(params))
        e.line(f"int64_t need = {bits};")
        e.line("(void)need;")
        code = e.gen(gr.tree)
        for k, p in enumerate(params):
            e.line(f"td_fx_result(f, {p.index}, {code}[{k}]);")
    elif gr.tree.kind == "L":
        e.direct = gr.tree.extra if gr.tree.node.kind == "comp" else None
        e.line(f"td_fx_result_list(f, {e.gen(gr.tree)});")
    elif gr.tree.node.kind != "none":
        code = e.as_kind(gr.tree, "V")
        e.line(f"td_fx_result(f, {params[0].index}, {code});")
    e.depth -= 1
    e.line("}")
    return e.lines


def emit(table, out):
    """formulas.c: the functions, what they keep, and the table by op id."""
    ops = formula.from_table(table)
    out.write(HEAD + '#include "daemon/autograd/gradient.h"\n#include "proto/ops/opid.h"\n\n#include <math.h>\n\n' + CALLS)
    rows = []
    for op in ops.values():
        grads = formula.gradients(ops, op)
        if not grads:
            continue
        body = [line for gr in grads for line in emit_gradient(ops, op, gr)]
        out.write("\n".join([f"/* {op.row.where('grad.' + next(iter(op.grads)))} */", f"static void grad_{op.name}(td_fx *f)", "{", *body, "}", "", ""]))
        masks = [f"    {{{str(e).lower()}, {i:#x}, {o:#x}, {s:#x}}}," for e, i, o, s in formula.saves(ops, op)]
        out.write("\n".join([f"static const td_fsaves saves_{op.name}[] = {{", *masks, "};", "", ""]))
        rows.append(f"    [{op.id}] = {{grad_{op.name}, saves_{op.name}}},\n")
    out.write("const td_formula td_formulas[TD_OP_COUNT] = {\n" + "".join(rows) + "};\n")
    out.write("const unsigned td_formula_count = TD_OP_COUNT;\n")
