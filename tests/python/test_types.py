"""What type checkers are told is what there is."""
import ast
import importlib.util
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys

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
rows: int = z.detach().numpy().shape[0]
if td.allclose(x, x):
    x[0, 1:] = 3
net = td.nn.Sequential(td.nn.Linear(2, 3), td.nn.ReLU())
optimizer = td.optim.AdamW(net.parameters(), lr=0.1)
schedule = td.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=10)
optimizer.step()


class Net(td.nn.Module):
    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.lstm = td.nn.LSTM(2, width, batch_first=True)
        self.head = td.nn.Linear(width, 1)

    def forward(self, x: td.Tensor, scale: float = 1.0) -> td.Tensor:
        out, (h, c) = self.lstm(x)
        return td.nn.functional.relu(self.head(out[:, -1])) * scale


@td.no_grad()
def test(model: Net, x: td.Tensor) -> float:
    model.eval()
    return float(td.nn.functional.mse_loss(model(x), td.zeros(1), reduction="sum"))


loss: td.Tensor = td.einsum("ij,jk->ik", x, z.reshape(3, -1))[:1].unique().to("cpu").div_(2.0)
weights: dict[str, td.Tensor] = net.state_dict()
td.save(weights, "a.safetensors")
td.distributed.all_reduce(x, group=td.distributed.group.WORLD)
maybe: object = td.load("a.safetensors")["0.weight"]
if td.is_tensor(maybe):
    maybe.add_(1)
x.data -= 0.1 * (x.grad if x.grad is not None else x)


async def serve(name: str) -> int:
    async with td.aio.Queue(name, 2, role="consumer") as jobs:
        async for job in jobs:
            size: int = (await td.aio.numpy(job["x"], timeout=1.5)).shape[0] + jobs.qsize()
        done: td.Tensor = await td.aio.ready(x)
        tree, version = await td.aio.open("weights", newer_than=3)
        theirs, newer = td.open("weights", newer_than=td.version_of("weights"), out="torch")
        await jobs.put([done.to("cpu"), await td.aio.item(done)])
        await td.aio.sync()
        return version + jobs.maxsize
"""
BAD = ['td.ones(2).add("x")', "td.zeros('a')", "td.nothing", "td.ones(2).reshape(1.5)", "td.cat(3)", "wrong: int = td.ones(2)", "td.sum()", "td.aio.Queue(3)",
       "late: int = td.aio.ready(x)"]


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
    assert {*td._C._homes()} == told - {"_C", "_forking", "__version__", "ops"} and all(hasattr(td, n) for n in td._C._homes() if n != "torch")


def test_asyncio_is_annotated():
    for name in td.aio.__all__:
        what = getattr(td.aio, name)
        for f in [what] if not isinstance(what, type) else [v.fget if isinstance(v, property) else v for k, v in vars(what).items() if callable(v) or isinstance(v, property)]:
            missing = {*inspect.signature(f).parameters, "return"} - {"self"} - set(f.__annotations__)
            assert not missing, (f, missing)


def pyright():
    """The command of one that is there, or None."""
    if importlib.util.find_spec("basedpyright"):
        return [sys.executable, "-m", "basedpyright"]
    return next(([found] for found in map(shutil.which, ("basedpyright", "pyright")) if found), None)


@pytest.mark.skipif(not pyright(), reason="pyright is not there (pip install basedpyright)")
def test_pyright(tmp_path):
    """The package, the examples and a program: no error, but in each line of BAD."""
    lines = GOOD.strip().splitlines() + BAD
    (tmp_path / "program.py").write_text("\n".join(lines) + "\n")
    package, examples = pathlib.Path(td.__file__).parent, pathlib.Path(__file__).resolve().parents[2] / "client/examples"
    config = {"include": [str(tmp_path), str(package), str(examples)], "extraPaths": [str(package.parent), str(examples)],
              "typeCheckingMode": "standard", "reportMissingImports": False, "stubPath": str(tmp_path / "stubs")}
    for other in ("numpy", "torch"):  # what versions of theirs are told is not the matter here
        (tmp_path / "stubs" / other).mkdir(parents=True)
        (tmp_path / "stubs" / other / "__init__.pyi").write_text("from typing import Any\ndef __getattr__(name: str) -> Any: ...\n")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    run = subprocess.run([*pyright(), "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"], capture_output=True, text=True)
    found = [d for d in json.loads(run.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    wrong = {d["range"]["start"]["line"] + 1 for d in found if d["file"].endswith("program.py")}
    others = [(d["file"], d["range"]["start"]["line"] + 1, d["message"]) for d in found if not d["file"].endswith("program.py")]
    assert others == [] and wrong == set(range(len(lines) - len(BAD) + 1, len(lines) + 1)), found


@pytest.mark.skipif(not shutil.which("mypy"), reason="mypy is not there (Debian: mypy)")
def test_mypy(tmp_path):
    lines = GOOD.strip().splitlines() + BAD
    (tmp_path / "program.py").write_text("\n".join(lines) + "\n")
    run = subprocess.run(["mypy", "--cache-dir", str(tmp_path / "cache"), "program.py"], cwd=tmp_path, capture_output=True, text=True,
                         env={**os.environ, "MYPYPATH": os.path.dirname(os.path.dirname(td.__file__))})
    wrong = {int(row.split(":")[1]) for row in run.stdout.splitlines() if row.startswith("program.py:") and " error: " in row}
    others = [row for row in run.stdout.splitlines() if " error: " in row and not row.startswith("program.py:")]
    assert others == [] and wrong == set(range(len(lines) - len(BAD) + 1, len(lines) + 1)), run.stdout + run.stderr
