"""client/examples/swap.py: the same losses with PyTorch's loader as it is, with one line more, and with tensord's."""
import importlib.util
import os
import re

import pytest
from test_examples import EXAMPLES, start  # noqa: F401


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not there (Debian: python3-torch)")
def test_swap_has_the_same_losses(start):
    status, out, err = start("swap.py", "--epochs", "1", "--side", "56", "--batch", "125").end()
    assert (status, err) == (0, ""), err
    assert re.findall(r"^(stock|one line|own loader) +epoch 1/1 +loss (\d\.\d+)", out, re.M)[::2] and len(set(re.findall(r"epoch 1/1  loss (\S+)", out))) == 1
    rows = re.findall(r"^(stock|one line|own loader) +\S+ +\S+ ms +\S+ MB +\S+ MB +\d+ +(\d+ of \d+)$", out, re.M)
    assert rows == [(kind, "12 of 12") for kind in ("stock", "one line", "own loader")] and "the same losses, to the last bit" in out


def test_swap_tells_losses_apart(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import swap
    assert swap.same([1.0, 0.5, 0.0], [1.0, 0.5 + 2**-52, -0.0]) == 1
    row = {"rate": 10.0, "work": 0.001, "memory": 1e6, "under way": 0, "descriptors": 5}
    shown = swap.table({"stock": {**row, "losses": [1.0, 2.0]}, "one-line": {**row, "losses": [1.0, 2.5]}, "own-loader": {**row, "losses": [1.0, 2.0]}})
    assert [line.split()[-3:] for line in shown.splitlines()[1:]] == [["2", "of", "2"], ["1", "of", "2"], ["2", "of", "2"]]


def test_swap_without_torch_says_what_to_install(start, monkeypatch, tmp_path_factory):
    place = tmp_path_factory.mktemp("no-torch")
    (place / "sitecustomize.py").write_text("import importlib.util as u, builtins\nfind = u.find_spec\n"
                                            "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n")
    monkeypatch.setenv("PYTHONPATH", f"{place}:{os.environ.get('PYTHONPATH', '')}")
    status, out, err = start("swap.py").end()
    assert status == 1 and out == "" and len(err.splitlines()) == 1 and "python3-torch" in err and "pip install torch" in err
