#!/usr/bin/env python3
"""The Python package in one process, beside torch in the same process: ops, gradients, indexing, printing, NumPy's view, the import.

Prints the lines that table.py reads. Each figure is the median of rounds in which both sides take turns, after one that is not counted;
our ops are pipelined and end with a sync, so that everything asked has been computed."""
import importlib
import os
import socket
import statistics
import subprocess
import sys
import time
import traceback

ROUNDS = 15


def ours(name, value, unit, goal):
    print(f"ours {name} {value:.6g} {unit} {goal:g}", flush=True)


def reference(name, value, what):
    print(f"reference {name} {value:.6g} {what}", flush=True)


def skip(name, why):
    print(f"skip {name} {why}", flush=True)


def beside_torch(lines, module="tensord"):
    """torch, and the package's module. Where one of them cannot be had these lines are skipped, and the program is over."""
    found = []
    for wanted, why in (("torch", "torch is not importable"), (module, "the package tensord is not on PYTHONPATH")):
        try:
            found.append(importlib.import_module(wanted))
        except ImportError:
            for name in lines:
                skip(name, why)
            sys.exit(0)
    return found


def child(body):
    """Runs body(one end of a pair of sockets) in a child that ends with it. Gives its pid and the other end."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            here.close()
            body(there)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    there.close()
    return pid, here


def in_turns(*runs, rounds=ROUNDS):
    """The median seconds of each, which take turns."""
    took = [[] for _ in runs]
    for k in range(-1, rounds):
        for times, run in zip(took, runs):
            began = time.perf_counter()
            run()
            if k >= 0:
                times.append(time.perf_counter() - began)
    return [statistics.median(t) for t in took]


def adds(lib, end, count=20000):
    x, y = lib.ones(8), lib.ones(8)

    def run():
        for _ in range(count):
            x + y
        end()

    return run, count


def backwards(lib, end, count=2000):
    x, y = lib.ones(8, requires_grad=True), lib.ones(8)

    def run():
        for _ in range(count):
            (x + y).sum().backward()
            x.grad = None
        end()

    return run, count


def getitem(lib, end, count=3000):
    x = lib.ones(64, 32)

    def run():
        for i in range(count):
            x[i & 31], x[2:4], x[:, 1], x[3, 5:9], x[None, ..., 7]
        end()

    return run, 5 * count


def printing(lib, end, count=30):
    small, large = lib.arange(12.0).view(3, 4) / 7, lib.arange(2000.0).view(40, 50) / 7

    def run():
        for _ in range(count):
            repr(small), repr(large)

    return run, 2 * count


def compare(name, work, goal, unit="us", scale=1e6):
    import tensord as td

    mine, count = work(td, td.sync)
    if torch is None:
        skip(name, NO_TORCH)
        return
    theirs, _ = work(torch, lambda: None)
    a, b = in_turns(mine, theirs)
    ours(name, a / count * scale, unit, goal)
    reference(name, b / count * scale, f"torch {torch.__version__} in process")


def numpy_view():
    try:
        import numpy as np
    except ImportError:
        return skip("py.numpy", "NumPy is not importable")
    import tensord as td

    t, count = td.ones(8), 5000
    t.numpy()

    def run():
        for _ in range(count):
            np.asarray(t)

    ours("py.numpy", in_turns(run)[0] / count * 1e6, "us", 1)
    reference("py.numpy", 2, "2 us for np.asarray(t)")


def importing():
    """Wall time over that of a bare Python, which takes turns with it."""
    def python(code):
        return lambda: subprocess.run([sys.executable, "-S", "-E", "-c", code], check=True)

    place = next(p for p in sys.path if os.path.exists(os.path.join(p, "tensord", "__init__.py")))
    add = f"import sys; sys.path.insert(0, {place!r})"
    bare, all_of_it = in_turns(python(add), python(add + "; import tensord"))
    ours("py.import", (all_of_it - bare) * 1e3, "ms", 1)
    reference("py.import", 15, "15 ms more than a bare Python")


def main():
    if torch:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    compare("py.op", adds, 0.3)
    compare("py.backward", backwards, 0.2)
    compare("py.getitem", getitem, 1)
    compare("py.repr", printing, 1)
    numpy_view()
    importing()


torch, NO_TORCH = None, "torch is not importable"
if __name__ == "__main__":
    try:
        import tensord  # noqa: F401
    except ImportError:
        for each in ("py.op", "py.backward", "py.getitem", "py.repr", "py.numpy", "py.import"):
            skip(each, "the package tensord is not on PYTHONPATH")
        sys.exit(0)
    try:
        import torch
    except ImportError:
        pass
    main()
