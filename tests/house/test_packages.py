#!/usr/bin/env python3
"""What suites need that may be missing: tests/run installs it before any of them runs, also for one that runs alone, and a suite that is run without
it says so as skipped. Packages are none here: a shell's functions stand for apt-get and for what is there."""
import ast
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAY_LACK = {"hypothesis", "numpy", "onnxruntime", "safetensors", "torch"}
STUBS = """
id() { echo 0; }
have() { [[ " $THERE " == *" $1 "* ]]; }
apt-get() { echo "apt-get $*"; [[ " $* " != *" install "* ]] || return ${FAILS:-0}; } >&4
env() { while [[ $1 == *=* ]]; do shift; done; "$@"; }
"""


def shell(text, **env):
    """What apt-get was asked for, and the exit status."""
    done = subprocess.run(["bash", "-c", f"root=/nowhere; . {ROOT}/.ci/setup.sh; {STUBS} exec 4>&1; {text}"], capture_output=True, text=True, env={**os.environ, **env})
    return [x for x in done.stdout.splitlines() if x.startswith("apt-get") and " install " in x], done.returncode, done.stderr


def unguarded(tree):
    """(line, module) of what is imported as the module is loaded, before importorskip() has looked for it, and in no `try`."""
    looked = set()
    for n in tree.body:
        looked |= {c.args[0].value for c in ast.walk(n) if isinstance(c, ast.Call) and ast.unparse(c.func) == "pytest.importorskip" and isinstance(c.args[0], ast.Constant)}
        names = [a.name for a in n.names] if isinstance(n, ast.Import) else [n.module or ""] if isinstance(n, ast.ImportFrom) else []
        yield from ((n.lineno, x) for x in names if x.partition(".")[0] in MAY_LACK - looked)


class Packages(unittest.TestCase):
    def test_what_is_missing_is_installed(self):
        asked, status, _ = shell('need_packages "a:x b:y" "c:z.installed"', THERE="y")
        self.assertEqual((len(asked), status), (1, 0))
        self.assertTrue(asked[0].endswith(" install a c"), asked)

    def test_nothing_is_asked_where_all_is_there(self):
        self.assertEqual(shell('need_packages "a:x b:y" "c:z.installed"', THERE="x y z.installed")[:2], ([], 0))

    def test_what_cannot_be_installed_ends_the_script(self):
        asked, status, said = shell('need_packages "a:x"; echo "apt-get install went on"', THERE="", FAILS="100")
        self.assertEqual((len(asked), status), (1, 1))
        self.assertIn("apt-get could not install: a", said)

    def test_the_list_has_what_python_suites_need(self):
        asked, _, _ = shell('need_packages "$packages" "$python_packages"', THERE="")
        for name in "python3-pytest", "python3-numpy", "python3-hypothesis", "libonnx-testdata":
            self.assertIn(name, asked[0].split())

    def test_one_suite_alone_has_them_installed_first(self):
        with tempfile.TemporaryDirectory() as place:
            for name in "tests/run", ".ci/setup.sh":
                (pathlib.Path(place) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, f"{place}/{name}")
            with open(f"{place}/.ci/setup.sh", "a") as f:
                f.write('need_packages() { echo needs $*; }\nbuild() { echo built; }\n')
            house = pathlib.Path(place, "tests/house")
            house.mkdir()
            (house / "suites.py").write_text("import sys\nprint('suites', *sys.argv[2:])\n")
            said = subprocess.run([f"{place}/tests/run", "--only", "python_index"], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual([x.split()[0] for x in said], ["needs", "built", "suites"])
        self.assertIn("python_index", said[2])
        for name in "python3-pytest:", "python3-numpy:", "python3-hypothesis:":
            self.assertIn(name, said[0])

    def test_suites_say_what_they_lack(self):
        """A file of tests imports what may be missing by pytest.importorskip(), in a `try`, or where it is used."""
        wrong = [f"{path.relative_to(ROOT)}:{line}: {module}" for path in sorted((ROOT / "tests/python").rglob("test_*.py"))
                 for line, module in unguarded(ast.parse(path.read_text()))]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    sys.exit(unittest.main())
