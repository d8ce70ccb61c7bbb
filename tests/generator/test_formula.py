"""The formula language: what is parsed, what is saved, what C comes out, and that wrong formulas are refused at the right place."""

import re
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "proto" / "gen"))

import emit_formulas  # noqa: E402
import formula  # noqa: E402
import signature  # noqa: E402
import table as model  # noqa: E402

# A table of a few ops to write formulas over.
OPS = """
[op.neg]
id = 1
sig = "(x:T) -> T"
linear = ["x"]
[op.add]
id = 2
sig = "(x:TS, y:TS, alpha:S=1) -> T"
[op.mul]
id = 3
sig = "(x:TS, y:TS) -> T"
linear = ["x", "y"]
[op.conj]
id = 4
sig = "(x:T) -> T"
linear = ["x"]
[op.sum]
id = 5
sig = "(x:T, dim:I[]?=none, keepdim:b=false) -> T"
linear = ["x"]
[op.slice]
id = 6
sig = "(x:T, dim:i, start:i?=none, end:i?=none, step:i=1) -> T"
[op.log]
id = 7
sig = "(x:T) -> T"
[op.pair]
id = 8
sig = "(x:T, w:T?, n:i=3) -> (a:T, b:T, c:T)"
nondiff_outputs = ["c"]
[op.cat]
id = 9
sig = "(xs:T[], dim:i=0) -> T"
[op.find]
id = 10
sig = "(x:T) -> T"
flags = ["data_shape", "nondiff"]
[op.split]
id = 11
sig = "(x:T, sizes:I[], dim:i=0) -> T[]"
[op.eq]
id = 12
sig = "(x:TS, y:TS) -> T"
flags = ["nondiff"]
"""


def load(text):
    """(ops of the formula language, rows) of OPS with `text` put after it as a second file."""
    errors, ops = [], {}
    with tempfile.TemporaryDirectory() as d:
        for name, body in (("ops.toml", OPS), ("grads.toml", text)):
            path = Path(d) / name
            path.write_text(body)
            blocks, lines = model.read_file(path, errors)
            for op, columns in blocks.items():
                model.merge(ops.setdefault(op, model.Op(op)), columns, lines.get(op, {}), errors)
    assert not errors, errors
    for op in ops.values():
        op.sig = signature.parse(op.raw["sig"])
    rows = model.Table(list(ops.values()), [])
    return formula.from_table(rows), rows


def grad(name, what, text):
    return load(f'[op.{name}]\ngrad."{what}" = "{text}"\n')


def saved(name, what, text):
    ops, _ = grad(name, what, text)
    op = ops[name]
    return formula.saves(ops, op)[op.arg(what.split(",")[0]).index]


def c_code(name, what, text):
    ops, _ = grad(name, what, text)
    op = ops[name]
    return "\n".join(line for gr in formula.gradients(ops, op) for line in emit_formulas.emit_gradient(ops, op, gr))


class Parsing(unittest.TestCase):
    def shape(self, text):
        def walk(n):
            if not isinstance(n, formula.Node):
                return n
            if n.kind in ("num", "name", "bool"):
                return n.a
            if n.kind == "bin":
                return f"({walk(n.b)} {n.a} {walk(n.c)})"
            return f"{n.kind}({', '.join(str(walk(p)) for p in (n.a, n.b, n.c) if isinstance(p, formula.Node))})"
        return walk(formula.Parser(text).parse())

    def test_precedence(self):
        self.assertEqual(self.shape("a + b * c ** d ** e"), "(a + (b * (c ** (d ** e))))")
        self.assertEqual(self.shape("-x * y"), "(neg(x) * y)")
        self.assertEqual(self.shape("-x ** y"), "neg((x ** y))")
        self.assertEqual(self.shape("a - b - c"), "((a - b) - c)")
        self.assertEqual(self.shape("a / b * c"), "((a / b) * c)")
        self.assertEqual(self.shape("a + 1 < b and not c or d"), "((((a + 1) < b) and not(c)) or d)")

    def test_positions(self):
        for text, column in (("g * ", 5), ("g $ x", 3), ("let a = 1 g", 11), ("f(a, b", 7), ("if a then b", 12), ("(a", 3), ("a b", 3)):
            with self.assertRaisesRegex(formula.FormulaError, f"column {column}:"):
                formula.Parser(text).parse()


class Saves(unittest.TestCase):
    """(exists, inputs, outputs, shapes) as bit masks."""

    def test_values_are_saved(self):
        self.assertEqual(saved("mul", "x", "g * conj(y)"), (True, 2, 0, 0))
        self.assertEqual(saved("mul", "x", "g * x * out"), (True, 1, 1, 0))

    def test_shapes_are_not(self):
        self.assertEqual(saved("mul", "x", "if x.ndim == y.ndim then g else reshape(g, x.shape)"), (True, 0, 0, 3))
        self.assertEqual(saved("sum", "x", "reshape(keep(g), x.shape)"), (True, 0, 0, 1))

    def test_numbers_and_attributes_are_not(self):
        self.assertEqual(saved("add", "y", "if alpha == 1 then g else g * conj(alpha)"), (True, 0, 0, 0))

    def test_lists(self):
        self.assertEqual(saved("cat", "xs", "[g * x for x in xs]"), (True, 1, 0, 0))
        self.assertEqual(saved("cat", "xs", "[slice(g, dim, o, o + x.shape[dim]) for x, o in xs, offsets(xs.shape, dim)]"),
                         (True, 0, 0, 1))

    def test_outputs_by_name(self):
        self.assertEqual(saved("pair", "x", "g.a * out.c"), (True, 0, 4, 0))

    def test_missing_has_no_formula(self):
        self.assertEqual(saved("mul", "x", "missing"), (False, 0, 0, 0))


class Code(unittest.TestCase):
    def test_mul(self):
        self.assertEqual(c_code("mul", "x", "g * conj(y)"), """\
    if (td_fx_wants(f, 0)) { /* g * conj(y) */
        td_fval v1 = td_fx_op(f, TD_OP_CONJ, 1, (td_fval[]){td_fx_in(f, 1)}, NULL);
        td_fval v2 = td_fx_op(f, TD_OP_MUL, 2, (td_fval[]){td_fx_g(f, 0), v1}, NULL);
        td_fx_result(f, 0, v2);
    }""")

    def test_condition_let_and_attributes(self):
        self.assertEqual(c_code("add", "y", "let h = g * alpha in if alpha == 1 then g else h"), """\
    if (td_fx_wants(f, 1)) { /* let h = g * alpha in if alpha == 1 then g else h */
        td_fval v1 = td_fx_op(f, TD_OP_MUL, 2, (td_fval[]){td_fx_g(f, 0), td_fv_number(f, f->attrs->at[0].s)}, NULL);
        td_fval v2;
        if (td_fs_compare(f->attrs->at[0].s, td_int(1)) == 0) {
            v2 = td_fx_g(f, 0);
        } else {
            v2 = v1;
        }
        td_fx_result(f, 1, v2);
    }""")

    def test_comprehension_computes_only_wanted_items(self):
        code = c_code("cat", "xs", "[g * x for x in xs]")
        self.assertIn("if (!td_fx_wants_item(f, k3)) continue;", code)
        self.assertIn("td_fx_result_list(f, v3);", code)

    def test_several_at_once(self):
        code = c_code("pair", "x,w", "(g.a * n, g.b * n)")
        self.assertIn("int64_t need = (int64_t)td_fx_wants(f, 0) << 0 | (int64_t)td_fx_wants(f, 1) << 1;", code)
        self.assertIn("td_fx_result(f, 0, v1[0]);", code)
        self.assertIn("td_fx_result(f, 1, v1[1]);", code)

    def test_optional_attributes_pass_through(self):
        self.assertIn("td_fx_pass(f, &v1, 0, TD_A_INTS);", c_code("sum", "x", "sum(x, dim, true)"))
        self.assertIn("td_fx_pass(f, &v1, 1, TD_A_INT);", c_code("slice", "x", "slice(g, dim, start, end, step)"))


class Refusals(unittest.TestCase):
    CASES = (
        ("mul", "x", "g * z", "nothing is called 'z'"),
        ("mul", "x", "frobnicate(g)", "no op and no helper is called 'frobnicate'"),
        ("mul", "x", "sum(g, keep=true)", "sum has no argument 'keep'"),
        ("mul", "x", "mul(g)", "mul: y is missing"),
        ("mul", "x", "mul(g, g, g)", "takes 2 arguments, 3 given"),
        ("mul", "x", "if g == 0 then g else g", "a condition looks at attributes and shapes only"),
        ("mul", "x", "g and y", "takes conditions on attributes"),
        ("mul", "x", "[g]", "a gradient is one tensor"),
        ("mul", "x", "x.shape", "a gradient is one tensor"),
        ("mul", "x", "x.size", "no field 'size'"),
        ("mul", "x", "find(g)", "its shape depends on values"),
        ("mul", "x", "split(g, [1, 2])", "not with a list of them"),
        ("mul", "x", "log(none)", "may be undefined here, and the op is not linear in it"),
        ("mul", "x", "reshape(g, 1.5)", "a float where a list of ints is needed"),
        ("mul", "x", "let x = g in x", "already has a meaning here"),
        ("mul", "z", "g", "'z' is not an input of mul"),
        ("mul", "x,y", "g", "2 gradients wanted, the formula gives one value"),
        ("mul", "x,y", "(g, g, g)", "2 gradients wanted, the formula gives 3"),
        ("mul", "x", "out.c", "no field 'c'"),
        ("pair", "x", "g", "a gradient is one tensor"),
        ("pair", "x", "g.c", "declared nondiff"),
        ("pair", "x", "g.d", "no output 'd'"),
        ("pair", "x", "log(g.a)", "may be undefined"),
        ("pair", "x", "g.a * log(w)", "may be undefined"),
        ("cat", "xs", "g", "the gradient of the list xs is a list"),
        ("cat", "xs", "[g for x, y in xs]", "2 names for 1 lists"),
        ("find", "x", "g", "declared nondiff, but has a gradient"),
    )

    def test_refusals(self):
        for name, what, text, message in self.CASES:
            with self.subTest(text=text):
                ops, _ = grad(name, what, text)
                with self.assertRaises(formula.FormulaError) as caught:
                    formula.gradients(ops, ops[name])
                self.assertIn(message, str(caught.exception))

    def test_place(self):
        _, rows = load('\n\n[op.mul]\ngrad.x = "g * conj(y)"\ngrad.y = "g * conj(q)"\n')
        errors = []
        formula.check(rows, errors)
        self.assertEqual(errors, ["grads.toml:5: op mul: grad.y: column 10: nothing is called 'q' here"])

    def test_defined_in_a_guard(self):
        ops, _ = grad("pair", "x", "if given(w) then g.a * log(w) else g.a")
        formula.gradients(ops, ops["pair"])
        with self.assertRaisesRegex(formula.FormulaError, "may be undefined"):
            ops, _ = grad("pair", "x", "if given(w) then g.a else g.a * log(w)")
            formula.gradients(ops, ops["pair"])


class Compositions(unittest.TestCase):
    def load(self, formula_text, sig="(x:T, dim:i=0) -> T", parts=None):
        ops, _ = load(f'[op.made]\nid = 90\nsig = "{sig}"\ndecompose = """{formula_text}"""\n')
        ops.parts = parts or {}
        return ops, ops["made"]

    def code(self, *args, **named):
        return emit_formulas.emit_composition(*self.load(*args, **named))

    def refused(self, what, *args, **named):
        with self.assertRaisesRegex(formula.FormulaError, what):
            formula.composition(*self.load(*args, **named))

    def test_an_op_of_ops_over_several_lines(self):
        code = self.code("let y = x * x in  # squared\n    y * 2")
        self.assertEqual(code.count("TD_OP_MUL"), 2)
        self.assertIn("f->made.v[0] =", code)

    def test_a_failure_says_its_numbers(self):
        code = self.code("if x.ndim > 1 then fail(shape, 'not {x.ndim}-d, {x.shape}: 100%') else x * 2")
        self.assertIn('td_fx_fail(f, TD_E_SHAPE, "not %lld-d, %s: 100%%", (long long)', code)
        self.assertIn("td_fi_text(f, ", code)

    def test_parts_are_put_in_with_names_of_their_own(self):
        part = {"twice": (["v", "k"], "let y = v * k in y * y")}
        code = self.code("let y = x * 3 in twice(y * 5, dim) * y", parts=part)
        self.assertEqual(code.count("TD_OP_MUL"), 5)

    def test_what_a_part_says_of_its_arguments(self):
        parts = {"flat": (["v"], "if v.ndim > 1 then fail(shape, '{v.shape}') else v"), "twice": (["w"], "flat(w) * flat(w * 2)")}
        code = self.code("twice(x)", parts=parts)
        self.assertIn("td_fi_text(f, td_fi_shape(td_fx_meta_in(f, 0)))", code)
        self.assertEqual(code.count("td_fx_fail"), 2)

    def test_a_scan_goes_on_with_what_it_made(self):
        code = self.code("(scan y = x for k in range(0, dim) do y * k)[-1]")
        now = re.search(r"td_fval (v\d+) = td_fx_in\(f, 0\);", code)[1]
        self.assertRegex(code, rf"td_fx_op\(f, TD_OP_MUL, 2, \(td_fval\[\]\){{{now}, td_fv_number\(f, td_int\(v\d+\.v\[k\d+\]\)\)")
        self.assertRegex(code, rf"v\d+\.v\[k\d+\] = {now} = v\d+;")
        self.refused("'y' is a tensor, before and after", "(scan y = x for k in range(0, dim) do k)[-1]")
        self.refused("nothing is called 'y'", "(scan y = x for k in range(0, dim) do y * k)[-1] * y")

    def test_results_by_name_of_what_let_names(self):
        code = self.code("let both = pair(x, x) in both.a * both.b")
        self.assertEqual(code.count("TD_OP_PAIR"), 1)
        self.assertRegex(code, r"\{(v\d+)\[0\], \1\[1\]\}")
        self.refused("no output 'd'", "let both = pair(x, x) in both.d")
        self.refused("have no names", "let both = (x, x) in both.a")

    def test_what_values_decide_is_a_result_only(self):
        self.assertIn("TD_OP_FIND", self.code("if x.ndim > 1 then find(x) else x"))
        self.assertEqual(self.code("let y = x * 2 in (find(y), y)", sig="(x:T) -> (a:T, b:T)").count("TD_OP_FIND"), 1)
        self.refused("x is a tensor whose shape depends on values, a tensor is needed", "log(find(x))")
        self.refused("not one tensor", "let y = find(x) in x * y.ndim")

    def test_one_of_several_results_is_no_other_op(self):
        ops, made = self.load("pair(x, x)", sig="(x:T) -> (a:T, b:T, c:T)")
        self.assertIsNone(emit_formulas.emit_direct(ops, made))

    def test_refusals(self):
        self.refused("nothing is called 'g'", "x * g")
        self.refused("nothing is called 'out'", "out")
        self.refused("one tensor is to come out, not a list of ints", "x.shape")
        self.refused("2 results are to come out", "x * 2", sig="(x:T) -> (a:T, b:T)")
        self.refused("only for fail", "x * 'two'")
        self.refused("takes ints and lists of ints", "if dim > 1 then fail(shape, '{x}') else x")
        self.refused("with a KIND of", "if dim > 1 then fail(size, 'no') else x")
        self.refused("part half takes v", "half(x, x)", parts={"half": (["v"], "v / 2")})
        self.refused("part half needs itself", "half(x)", parts={"half": (["v"], "half(v)")})
        self.refused("nothing is called 'dim' there", "half(x)", parts={"half": (["v"], "v / dim")})


class WholeTable(unittest.TestCase):
    def test_the_tables_own_formulas(self):
        gen = ROOT / "proto"
        rows = model.load([gen / "ops"], gen / "infer" / "infer.h", gen / "ops" / "ops.lock", True)
        self.assertGreater(sum(1 for op in rows.ops if op.saves), 130)


if __name__ == "__main__":
    unittest.main()
