"""PyTorch's tutorials after changing the import. Each script of tutorials/ runs under tensord, and under torch where that is importable: the numbers it
collects in `losses` are the same. The scripts roll dice as they like: both libraries get theirs from one place, so equal losses also say that
layers are initialised in the same order, by the same distributions."""
import contextlib
import io
import pathlib
import re
import warnings

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="numpy is not there (Debian: python3-numpy)")
try:
    import torch
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).resolve().parent / "tutorials"
NEWER = {"digits_mlp", "transformer"}  # what they use came with torch 2: weights_only of a whole checkpoint, scaled_dot_product_attention
SCRIPTS = sorted(p.stem for p in HERE.glob("*.py"))


def after_changing_the_import(text):
    text = re.sub(r"^import torch$", "import tensord as torch", text, flags=re.M)
    text = re.sub(r"^import torch\.(\S+) as ", r"import tensord.\1 as ", text, flags=re.M)
    return re.sub(r"^from torch(\S*) import", r"from tensord\1 import", text, flags=re.M)


def load_dice(monkeypatch, lib):
    """Random numbers from NumPy, in the order in which they are asked for."""
    rng = np.random.default_rng(5)

    def size_of(args, size):
        args = (size,) if size is not None else args
        return tuple(args[0]) if args and isinstance(args[0], (tuple, list)) else tuple(args)

    def fresh(draw, dtype):
        def make(*args, size=None, dtype=dtype, requires_grad=False, device=None):
            t = lib.tensor(draw(size_of(args, size)), dtype=dtype)
            return t.requires_grad_() if requires_grad else t

        return make

    def fill(draw):
        def into(self, a=None, b=None, *, mean=None, std=None, generator=None):
            low, high = mean if a is None else a, std if b is None else b
            with lib.no_grad():
                return self.copy_(lib.tensor(draw(low or 0.0, 1.0 if high is None else high, tuple(self.shape)), dtype=self.dtype))

        return into

    def randint(low, high, size=None):
        low, high, size = (0, low, high) if size is None else (low, high, size)
        return lib.tensor(rng.integers(low, high, size))

    monkeypatch.setattr(lib, "randn", fresh(rng.standard_normal, lib.float32))
    monkeypatch.setattr(lib, "rand", fresh(rng.random, lib.float32))
    monkeypatch.setattr(lib, "randint", randint)
    monkeypatch.setattr(lib, "normal", lambda mean, std, size: lib.tensor(rng.normal(mean, std, tuple(size)), dtype=lib.float32))
    monkeypatch.setattr(lib.Tensor, "uniform_", fill(rng.uniform))
    monkeypatch.setattr(lib.Tensor, "normal_", fill(rng.normal))


def run(name, lib, monkeypatch):
    text = (HERE / f"{name}.py").read_text()
    text = text if lib is torch else after_changing_the_import(text)
    assert lib is torch or not re.search(r"^\s*(from|import) torch\b", text, flags=re.M)
    namespace = {"__name__": f"tutorial_{name}"}
    with monkeypatch.context() as patched, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_dice(patched, lib)
        exec(compile(text, f"{name}.py", "exec"), namespace)
    return namespace["losses"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_runs_after_changing_the_import(name, monkeypatch):
    ours = run(name, td, monkeypatch)
    assert len(ours) > 5 and np.isfinite(ours).all()
    if torch is not None and (int(torch.__version__.split(".")[0]) > 1 or name not in NEWER):
        np.testing.assert_allclose(ours, run(name, torch, monkeypatch), rtol=2e-3, atol=2e-5)


def test_dice_belong_to_the_scripts(monkeypatch):
    """The scripts run with tensord's own random numbers too."""
    monkeypatch.setattr(__import__(__name__), "load_dice", lambda *args: None)
    assert np.isfinite(run("digits_mlp", td, monkeypatch)).all()
