"""The generator: what it writes for a small table, word for word, and what it refuses, with file and line.

Run with --update to write the golden files anew (and read the difference before keeping it).
"""

import contextlib
import io
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPGEN = HERE.parent.parent / "proto" / "gen" / "opgen.py"
KINDS = {"opid": "opid.h", "table": "optable.c", "docs": "ops.md", "check": "check.txt"}
UPDATE = "--update" in sys.argv

BLOCK = """[op.one]
id = 1
sig = "(x:T) -> T"
doc = "One."
infer = "same"
kernel = "one"
flags = ["nondiff"]
"""


sys.path.insert(0, str(OPGEN.parent))
sys.dont_write_bytecode = True
import opgen  # noqa: E402


def run(tables, *args):
    """The generator over some files: (exit status, what it said)."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = opgen.main([*(a for t in tables for a in ("--table", str(t))), *map(str, args)])
    return status, said.getvalue()


class Folder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def table(self, text, name="ops.toml"):
        path = self.dir / name
        path.write_text(text)
        return path


class Golden(Folder):
    def test_outputs(self):
        tables = [self.table((HERE / n).read_text(), n) for n in ("small.toml", "small_expr.toml")]
        self.assertEqual(run(tables, "--lock"), (0, ""))
        args = [a for kind, name in KINDS.items() for a in ("--emit", kind, "--out", self.dir / name)]
        self.assertEqual(run(tables, *args), (0, ""))
        for name in [*KINDS.values(), "ops.lock"]:
            golden = HERE / "golden" / name
            text = (self.dir / name).read_text()
            if UPDATE:
                golden.write_text(text)
            self.assertEqual(text, golden.read_text(), f"{name} differs from {golden}; --update writes it anew")

    def test_as_a_program(self):
        """The command line itself, twice: the same bytes whatever the hash seed of the interpreter."""
        table = self.table((HERE / "small.toml").read_text())
        run([table], "--lock")
        texts = []
        for name in ("a.c", "b.c"):
            command = [sys.executable, OPGEN, "--table", table, "--emit", "table", "--out", self.dir / name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            texts.append((self.dir / name).read_text())
        self.assertEqual(*texts)

    def test_depfile_names_what_an_emitter_read(self):
        table, out, deps = self.table(BLOCK), self.dir / "out", self.dir / "out.d"
        self.assertEqual(run([table], "--lock"), (0, ""))
        (self.dir / "emit_reads.py").write_text("def emit(table, out):\n    out.write('made')\n    return {'/b c', '/a'}\n")
        args = "--path", self.dir, "--emit", "reads", "--out", out, "--depfile", deps
        self.assertEqual(run([table], *args), (0, ""))
        self.assertEqual((out.read_text(), deps.read_text()), ("made", f"{out}: /a /b\\ c\n"))
        with self.assertRaises(SystemExit):
            run([table], *args, "--emit", "reads", "--out", out)

    def test_hash_follows_the_contract_only(self):
        def hash_of(text):
            table = self.table(text)
            self.assertEqual(run([table], "--lock")[0], 0)
            self.assertEqual(run([table], "--emit", "table", "--out", self.dir / "t.c"), (0, ""))
            return re.search(r"td_ops_hash = (\w+);", (self.dir / "t.c").read_text()).group(1)

        whole = hash_of(BLOCK)
        self.assertEqual(hash_of(BLOCK.replace("One.", "Another word.")), whole)
        for old, new in (("(x:T)", "(y:T)"), ('"same"', '"sort"'), ('"nondiff"', '"nondiff", "random"'),
                         ("kernel", 'dtypes = "floats"\nkernel')):
            self.assertNotEqual(hash_of(BLOCK.replace(old, new)), whole, new)


class Refusal(Folder):
    """A test of something that must be refused."""

    def refused(self, text, *expected, args=(), lock=True):
        """Not one file is written, and each expected line is said."""
        table = self.table(text)
        if lock:
            ids = re.findall(r"^\[op\.(\w+)\]\nid = (\d+)", text, re.M)
            (self.dir / "ops.lock").write_text("".join(f"{i} {n}\n" for n, i in dict(ids).items()))
        status, said = run([table], "--emit", "check", "--out", self.dir / "out", *args)
        self.assertEqual(status, 1, said)
        self.assertFalse((self.dir / "out").exists())
        for line in expected:
            self.assertIn(line, said)
        for line in said.splitlines():
            self.assertRegex(line, r"^[\w.]+:\d+: ")

    def changed(self, old, new, *expected, **more):
        self.assertIn(old, BLOCK)
        self.refused(BLOCK.replace(old, new), *expected, **more)


class Refusals(Refusal):
    def test_the_block_itself_is_taken(self):
        self.table("1 one\n", "ops.lock")
        self.assertEqual(run([self.table(BLOCK)], "--emit", "check", "--out", self.dir / "out"), (0, ""))

    def test_result_without_words(self):
        rules = self.dir / "infer.h"
        for comment in ("", " /* other: like x */"):
            rules.write_text(f"TD_RULE(same);{comment}\n")
            self.refused(BLOCK, "ops.toml:5: op one: the comment behind TD_RULE(same)", args=("--rules", rules))

    def test_duplicate_id(self):
        self.refused(BLOCK + BLOCK.replace("op.one", "op.two"), "ops.toml:9: op two: id 1 is taken by one")

    def test_id_out_of_range(self):
        self.changed("id = 1", "id = 0", "ops.toml:2: op one: id 0 is outside 1..")
        self.changed("id = 1", "id = 70000", "ops.toml:2: op one: id 70000 is outside 1..")

    def test_changed_id(self):
        self.table("5 one\n", "ops.lock")
        self.refused(BLOCK, "ops.toml:2: op one: id changed from 5 to 1", lock=False)

    def test_reused_id(self):
        self.table("1 gone\n", "ops.lock")
        self.refused(BLOCK, "ops.toml:2: op one: id 1 belongs to gone", lock=False)

    def test_id_that_is_not_locked(self):
        self.refused(BLOCK, "ops.toml:2: op one: id 1 is not in ops.lock: add it with opgen.py --lock", lock=False)

    def test_lock_adds_and_never_changes(self):
        lock = self.table("3 gone\n", "ops.lock")
        self.assertEqual(run([self.table(BLOCK)], "--lock"), (0, ""))
        self.assertEqual(lock.read_text().splitlines()[1:], ["1 one", "3 gone"])
        status, said = run([self.table(BLOCK.replace("id = 1", "id = 3"))], "--lock")
        self.assertEqual(status, 1)
        self.assertIn("id changed from 1 to 3", said)
        self.assertEqual(lock.read_text().splitlines()[1:], ["1 one", "3 gone"])

    def test_unknown_rule(self):
        self.changed('"same"', '"guess"', "ops.toml:5: op one: unknown inference rule 'guess'")

    def test_unknown_flag(self):
        self.changed('"nondiff"', '"nondif"', "ops.toml:7: op one: unknown flag 'nondif'")

    def test_unknown_promotion(self):
        self.changed("kernel", 'promote = "up"\nkernel', "ops.toml:6: op one: unknown promotion 'up'")

    def test_unknown_dtype(self):
        self.changed("kernel", 'dtypes = "floats int65"\nkernel', "ops.toml:6: op one: unknown dtype or set 'int65'")

    def test_unknown_column(self):
        self.changed("kernel", 'kernal = "x"\nkernel', "ops.toml:6: op one: unknown column 'kernal'")

    def test_column_of_the_wrong_type(self):
        self.changed("id = 1", 'id = "1"', "ops.toml:2: op one: column 'id' has the wrong type")
        self.changed('["nondiff"]', '"nondiff"', "ops.toml:7: op one: column 'flags' has the wrong type")

    def test_names_in_aten(self):
        self.changed("kernel", 'aten = "one(y?)"\nkernel', "ops.toml:6: op one: 'y' in 'one(y?)' is no argument")
        self.changed("kernel", 'aten = "[k=1] one; two(x"\nkernel', "op one: 'k' in '[k=1] one' is no argument", "op one: 'two(x' is no name in ATen")

    def test_missing_column(self):
        self.changed('infer = "same"\n', "", "ops.toml:1: op one: no infer")
        self.changed('sig = "(x:T) -> T"\n', "", "ops.toml:1: op one: no sig")

    def test_missing_doc(self):
        self.changed('doc = "One."\n', "", "ops.toml:1: op one: no doc")
        self.changed("One.", "  ", "ops.toml:4: op one: no doc")

    def test_missing_gradient(self):
        self.changed('flags = ["nondiff"]', "", "ops.toml:1: op one: no gradient", args=["--strict"])

    def test_gradient_of_nothing(self):
        self.changed("kernel", 'grad.z = "g"\nkernel', "ops.toml:6: op one: gradient for 'z', which is no tensor argument")

    def test_ways_to_compute(self):
        self.changed('kernel = "one"\n', "", "ops.toml:1: op one: needs exactly one of")
        self.changed("kernel", 'expr = "x"\nkernel', "ops.toml:1: op one: needs exactly one of")

    def test_references(self):
        self.changed("kernel", 'checked = ["y"]\nkernel', "ops.toml:6: op one: 'y' in checked is no tensor argument")
        self.changed("kernel", 'nondiff_outputs = ["y"]\nkernel', "ops.toml:6: op one: 'y' in nondiff_outputs is no output")

    def test_shapes(self):
        def refused(text, why, old="kernel", new=None):
            self.changed(old, f'shape_of = {{ x = "{text}" }}\nkernel' if new is None else new, f"ops.toml:6: op one: {why}")

        refused("y", "shape of 'x': 'y' is no tensor argument")
        refused("x[-n:]", "shape of 'x': 'n' is no attribute")
        refused("x[8]", "shape of 'x': 8 is more than 7")
        refused("x[1:2]", "shape of 'x': 'x[1:2]' is none of x, x[1], x[:-n], x[-n:], [2] and []")
        refused("", "'y' in shape_of is no tensor argument", new='shape_of = { y = "x" }\nkernel')

    def test_shapes_of_a_rule(self):
        two = BLOCK.replace("op.one", "op.two").replace("id = 1", "id = 2").replace("kernel", 'shape_of = { x = "x" }\nkernel')
        self.refused(BLOCK + two, "ops.toml:5: op one: no shape_of, but two, which has the same rule, leaves shapes to it")

    def test_words_of_shapes(self):
        import shapes
        import signature
        import table

        op = table.Op("any", sig=signature.parse("(x:T, w:T?, s:f, n:i, m:i?) -> T"))
        said = {"x": ("OF", 0, 0), "x[1]": ("SIZE", 0, 1), "x[:-n]": ("HEAD", 0, 1), "x[-n:]": ("TAIL", 0, 1), "[2]": ("GIVEN", 1, 2), "[]": ("GIVEN", 0, 0)}
        self.assertEqual({text: shapes.parse(text, op) for text in said}, said)
        for text, why in (("w", "'w' may be absent"), ("x[-s:]", "'s' is no integer"), ("x[-m:]", "'m' is no integer"), ("[128]", "128 is more")):
            self.assertRaisesRegex(ValueError, why, shapes.parse, text, op)

    def test_names(self):
        self.refused(BLOCK.replace("op.one", "op.One"), "ops.toml:1: op One: a name is")

    def test_bad_toml(self):
        self.changed('doc = "One."', "doc = One", "ops.toml:4: ")

    def test_stranger_at_the_top(self):
        self.refused("[pop.one]\nid = 1\n", "ops.toml:1: unknown table [pop]")

    def test_two_files_that_disagree(self):
        first, second = self.table(BLOCK), self.table('\n[op.one]\ndoc = "Another."\n', "more.toml")
        self.table("1 one\n", "ops.lock")
        status, said = run([first, second], "--emit", "check", "--out", self.dir / "out")
        self.assertEqual((status, said.strip()), (1, "more.toml:3: op one: column 'doc' stands in ops.toml:4 already"))
        second.write_text('[op.one]\ndoc = "One."\n')
        self.assertEqual(run([first, second], "--emit", "check", "--out", self.dir / "out"), (0, ""))

    def test_a_folder_is_the_files_in_it(self):
        folder = self.dir / "ops"
        folder.mkdir()
        (folder / "one.toml").write_text(BLOCK)
        (folder / "two.toml").write_text(BLOCK.replace("op.one", "op.two").replace("id = 1", "id = 2"))
        self.assertEqual(run([folder], "--lock"), (0, ""))
        self.assertEqual((folder / "ops.lock").read_text().split()[-4:], "1 one 2 two".split())
        self.assertEqual(run([folder], "--emit", "opid", "--out", self.dir / "out"), (0, ""))
        self.assertIn("TD_OP_TWO = 2", (self.dir / "out").read_text())

    def test_all_mistakes_are_said_at_once(self):
        self.refused(BLOCK.replace('"same"', '"guess"').replace('"One."', '""'), "no doc", "unknown inference rule")

    def test_unknown_emitter(self):
        self.table("1 one\n", "ops.lock")
        status, said = run([self.table(BLOCK)], "--emit", "poems", "--out", self.dir / "out")
        self.assertEqual((status, said.strip()), (1, "opgen.py: no emitter emit_poems.py"))

    def test_emitters_of_other_rooms(self):
        self.table("1 one\n", "ops.lock")
        self.table("def emit(table, out):\n    out.write(table.ops[0].name)\n", "emit_name.py")
        args = ("--path", self.dir, "--emit", "name", "--out", self.dir / "out")
        self.assertEqual(run([self.table(BLOCK)], *args), (0, ""))
        self.assertEqual((self.dir / "out").read_text(), "one")


class Signatures(Refusal):
    """Every way in which a signature can be malformed."""

    BAD = {
        "x:T -> T": "malformed",
        "(x:T)": "malformed",
        "(x) -> T": "'x' is not name:type",
        "(X:T) -> T": "'X:T' is not name:type",
        "(x:Q) -> T": "'x': unknown type 'Q'",
        "(x:T=1) -> T": "'x': a tensor has no default",
        "(x:T, n!:i) -> T": "'n': only a tensor can be written",
        "(x!n:T, n:i) -> T": "'x' is written if 'n', which is no b",
        "(x!if:T) -> T": "'x' is written if 'if', which is no b",
        "(x:T, n:i=1.5) -> T": "'n': '1.5' is no default for int",
        "(x:T, n:i=none) -> T": "'n': default none for a type without '?'",
        "(x:T, n:b=1) -> T": "'n': '1' is no default for bool",
        "(x:T, n:I[]=[1,a]) -> T": "'n': '[1,a]' is no default for ints",
        "(x:T, n:D=float32) -> T": "'n': 'float32' is no default for dtype",
        "(x:T, a:i=1, b:i) -> T": "'b' without a default stands after an attribute with one",
        "(x:T[], y:T?[]) -> T": "at most one list of tensors",
        "(x:T, x:i) -> T": "two arguments are named 'x'",
        "(x:T) -> (y:T, y:T)": "two outputs are named 'y'",
        "(x:T) -> (T, T)": "each of several outputs needs a name",
        "(x:T) -> (a:T, b:T[])": "a list of outputs stands alone",
        "(x:T) -> S": "output 'S' is not",
        f"({', '.join(f'x{i}:T' for i in range(13))}) -> T": "at most 12 tensors",
        f"({', '.join(f'x{i}:i' for i in range(13))}) -> T": "at most 12 tensors and 12 attributes",
    }

    def test_malformed(self):
        for text, message in self.BAD.items():
            with self.subTest(text):
                self.changed("(x:T) -> T", text, "ops.toml:3: op one: " + message)


class Examples(Refusal):
    """Every way in which a worked example can be malformed."""

    SIG = "(x:T, y:TS, n:i=1, v:I[]=[], t:D?=none) -> T"
    BAD = {
        "two([1], 1) == [1]": "must begin with one(",
        "one([1], 1)": "expected ==",
        "one([1], 1) == [1] [2]": "something stands after",
        "one([1]) == [1]": "'y' is missing",
        "one([1], 1, 2, [], none, 3) == [1]": "too many arguments",
        "one([1], 1, x=[1]) == [1]": "'x' is no argument, or stands twice",
        "one([1], 1, 1.5) == [1]": "'n' takes i",
        "one([1], 1, none) == [1]": "'n' may not be none",
        "one([1], 1, 1, [1.5]) == [1]": "'v' takes I[]",
        "one([1], 1, t=int9) == [1]": "'t' takes D?",
        "one([[1], [1, 2]], 1) == [1]": "differ in length",
        "one([[1], 2], 1) == [1]": "differ in depth",
        "one([1, [2]], 1) == [1]": "differ in depth",
        "one([1], 1) == ([1], [2])": "2 expected values for 1 results",
        "one([1], 1) == $": "cannot read from",
        "one([1], 1) == int8(1, 2)": "int8(...) takes one number",
    }

    def test_malformed(self):
        for text, message in self.BAD.items():
            with self.subTest(text):
                block = BLOCK.replace("(x:T) -> T", self.SIG) + f'example = "{text}"\n'
                self.refused(block, f"ops.toml:8: op one: example '{text}': ", message)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if a != "--update"])
