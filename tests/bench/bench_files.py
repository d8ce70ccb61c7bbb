#!/usr/bin/env python3
"""Model files of 400 MB, the page cache warm: loading and saving a state dict, beside torch and safetensors in the same process.

Prints the lines that table.py reads. Each figure is the median of rounds in which both sides take turns, after one that is not counted. What
was loaded is there when the call returns, and is let go of between rounds. Saving is over when the file has its name, in the page cache."""
import os
import tempfile

import tensord as td
from bench_python import in_turns, ours, reference, skip

LAYERS, SIDE = 100, 1024  # of 4 MB each
ROUNDS = 7


def loading(load, path):
    def run():
        state = load(path)
        assert len(state) == LAYERS
        td.sync()

    return run


def against(name, mine, theirs, what, goal):
    t = in_turns(mine, theirs, rounds=ROUNDS)
    ours(name, t[0] * 1e3, "ms", goal)
    reference(name, t[1] * 1e3, what)


def pytorch(folder):
    try:
        import torch
    except ImportError:
        for name in ("file.pt.load", "file.pt.save"):
            skip(name, "torch is not here")
        return
    state = {f"layers.{k}.weight": torch.randn(SIDE, SIDE) for k in range(LAYERS)}
    path = os.path.join(folder, "theirs.pt")
    torch.save(state, path)
    against("file.pt.load", loading(td.load, path), loading(torch.load, path), f"torch.load {torch.__version__}", 0.6)
    mine = td.load(path)
    against("file.pt.save", lambda: td.save(mine, os.path.join(folder, "a.pt")), lambda: torch.save(state, os.path.join(folder, "b.pt")), f"torch.save {torch.__version__}", 1.0)


def safetensors(folder):
    try:
        from safetensors.torch import load_file
    except ImportError:
        skip("file.st.load", "safetensors or torch is not here")
        return
    path = os.path.join(folder, "x.safetensors")
    td.save({f"layers.{k}.weight": td.randn(SIDE, SIDE) for k in range(LAYERS)}, path)
    read = lambda p: {k: v.clone() for k, v in load_file(p).items()}  # it maps the file: so that its bytes are read, too
    against("file.st.load", loading(td.load, path), loading(read, path), "safetensors, and a copy of what it maps", 0.8)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tensord-bench-") as place:
        pytorch(place)
        safetensors(place)
