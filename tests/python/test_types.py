"""What type checkers are told is what there is."""
import ast
import os
import shutil
import subprocess

import pytest
import tensord as td

STUB = os.path.join(os.path.dirname(td.__file__), "_C.pyi")
GOOD = """
import tensord as td
x: td.Tensor = td.ones(2, 3, requires_grad=True)
y = (2 * x + 1).sum(dim=0, keepdim=True)
values, indices = td.sort(y)
shape: tuple[int, ...] = y.shape
kind: td.dtype = y.dtype
x.to(td.float64).add_(1).mul_(2.5)
with td.no_grad():
    z = x.reshape(3, -1) @ x
q = td.Queue("a", 3)
q.put({"a": x})
number: float = float(z.sum())
if td.allclose(x, x):
    x[0, 1:] = 3
net = td.nn.Sequential(td.nn.Linear(2, 3), td.nn.ReLU())
td.optim.SGD(net.parameters(), lr=0.1).step()
"""
BAD = ['td.ones(2).add("x")', "td.zeros('a')", "td.nothing", "td.ones(2).reshape(1.5)", "td.cat(3)", "wrong: int = td.ones(2)", "td.sum()"]


def names_of(body):
    return {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))} | {n.target.id for n in body if isinstance(n, ast.AnnAssign)}


def test_the_stub_names_what_there_is():
    with open(STUB) as f:
        body = ast.parse(f.read()).body
    tensor = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    have = {n for n in dir(td.Tensor) if not n.startswith("__")}
    told = {n for n in names_of(tensor.body) if not n.startswith("__")}
    assert have == told
    module = {n for n in dir(td._C) if not n.startswith("__")} | {"__version__"}
    told = {n for n in names_of(body) if hasattr(td._C, n) or not n.startswith("_")}
    assert module == told


def test_lazy_names_are_told():
    with open(td.__file__) as f:
        text = f.read()
    told = {a.asname for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom) for a in n.names if a.asname}
    assert {*td._HOME, *td._MODULES} <= told and all(hasattr(td, n) for n in td._HOME)


@pytest.mark.skipif(not shutil.which("mypy"), reason="mypy is not there (Debian: mypy)")
def test_mypy(tmp_path):
    lines = GOOD.strip().splitlines() + BAD
    (tmp_path / "program.py").write_text("\n".join(lines) + "\n")
    run = subprocess.run(["mypy", "--cache-dir", str(tmp_path / "cache"), "program.py"], cwd=tmp_path, capture_output=True, text=True,
                         env={**os.environ, "MYPYPATH": os.path.dirname(os.path.dirname(td.__file__))})
    wrong = {int(row.split(":")[1]) for row in run.stdout.splitlines() if row.startswith("program.py:") and " error: " in row}
    others = [row for row in run.stdout.splitlines() if " error: " in row and not row.startswith("program.py:")]
    assert others == [] and wrong == set(range(len(lines) - len(BAD) + 1, len(lines) + 1)), run.stdout + run.stderr
