#!/usr/bin/env python3
"""A model that several processes use: a published program of tensord, called by eight, against a session of onnxruntime of one thread in each.

Prints the lines that table.py reads. The model is a perceptron 784-128-10 with one relu; arguments come as arrays of NumPy that differ from call
to call, results are arrays of NumPy again, and both sides are checked against each other. Callers begin together, after a token each. Memory is what
all processes of a side have (each page shared by n counts 1/n), above what they had before the model was there: of 100 MB of weights, in eight processes and
in one."""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from bench_python import child, ours, reference, skip

CALLERS, CALLS = 8, 1500
SIZES = (784, 128, 10)
LARGE = (5000, 5000)  # 100 MB


def weights(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((o, i), np.float32) / np.float32(i**0.5), rng.standard_normal(o, np.float32)) for i, o in zip(sizes, sizes[1:])]


def inputs(rows, n=64):
    return [np.random.default_rng(k).standard_normal((rows, SIZES[0]), np.float32) for k in range(n)]


def expected(x):
    layers = weights(SIZES)
    for k, (w, b) in enumerate(layers):
        x = x @ w.T + b
        x = np.maximum(x, 0) if k + 1 < len(layers) else x
    return x


# ---- the two sides: each gives a function from an array to an array


def publish(name, sizes):
    import tensord as td

    net = td.nn.Sequential()
    for k, (w, b) in enumerate(weights(sizes)):
        layer = td.nn.Linear(1, 1)
        layer.weight, layer.bias = td.nn.Parameter(td.tensor(w), False), td.nn.Parameter(td.tensor(b), False)
        if k:
            net.append(td.nn.ReLU())
        net.append(layer)
    p = td.jit.script(net.eval())
    p.publish(name)
    return p


def of_tensord(name):
    import tensord as td

    td.set_grad_enabled(False)
    p = td.jit.open(name, timeout=10)
    return lambda x: p(td.from_numpy(x)).numpy()


def onnx_model(sizes):
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, at = [], [], "x"
    for k, (w, b) in enumerate(weights(sizes)):
        constants += [numpy_helper.from_array(w, f"w{k}"), numpy_helper.from_array(b, f"b{k}")]
        if k:
            nodes.append(helper.make_node("Relu", [at], [f"r{k}"]))
            at = f"r{k}"
        nodes.append(helper.make_node("Gemm", [at, f"w{k}", f"b{k}"], [f"y{k}"], transB=1))
        at = f"y{k}"
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", s]) for n, s in (("x", sizes[0]), (at, sizes[-1])))
    graph = helper.make_graph(nodes, "perceptron", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def of_onnx(model, threads=1):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


# ---- processes


class Caller:
    """A child that runs body(token), where token() says that it has come so far, and waits until it may go on."""

    def __init__(self, body):
        def run(there):
            body(lambda: (there.send(b"!"), there.recv(1)))
            there.send(b"!")

        self.pid, self.here = child(run)

    def wait(self):
        if not self.here.recv(1):
            raise RuntimeError("a caller has ended")

    def go(self):
        self.here.send(b"!")


@contextlib.contextmanager
def callers(body, n=CALLERS):
    all = [Caller(body) for _ in range(n)]
    try:
        yield all
    except BaseException:  # those that wait would not be told: each has the ends of those before it
        for c in all:
            os.kill(c.pid, signal.SIGKILL)
        raise
    finally:
        for c in all:
            c.here.close()
            os.waitpid(c.pid, 0)


def each(all, *steps):
    for step in steps:
        for c in all:
            getattr(c, step)()


def us_a_call(make):
    """Of all callers together, that do nothing else."""
    def body(token):
        f, xs = make(), inputs(1)
        assert np.allclose(f(xs[0]), expected(xs[0]), 1e-3, 1e-3)
        for k in range(200):
            f(xs[k % len(xs)])
        token()
        for k in range(CALLS):
            f(xs[k % len(xs)])

    with callers(body) as all:
        each(all, "wait")
        began = time.perf_counter()
        each(all, "go", "wait")
        return (time.perf_counter() - began) / (CALLERS * CALLS) * 1e6


def us_alone(f, rows):
    xs, best = inputs(rows), float("inf")
    assert np.allclose(f(xs[0]), expected(xs[0]), 1e-3, 1e-3)
    for _ in range(7):
        began = time.perf_counter()
        for k in range(300):
            f(xs[k % len(xs)])
        best = min(best, (time.perf_counter() - began) / 300 * 1e6)
    return best


def memory_of(pids):
    """Bytes, pages that several of them share counted once."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return total * 1024


# ---- the lines


def many():
    import tensord as td

    with daemon():
        keep = publish("perceptron", SIZES)
        ours("prog.many", us_a_call(lambda: (td.disconnect(), of_tensord("perceptron"))[1]), "us", 0.85)
        for rows in (1, 64):
            ours(f"prog.mlp.{rows}", us_alone(of_tensord("perceptron"), rows), "us", 1.0)
        del keep
    try:
        model = onnx_model(SIZES)
        for rows in (1, 64):
            f = of_onnx(model, len(os.sched_getaffinity(0)))
            reference(f"prog.mlp.{rows}", us_alone(f, rows), "onnxruntime in process, all threads")
            del f
        reference("prog.many", us_a_call(lambda: of_onnx(model)), "8 sessions of onnxruntime of one thread, a process each")
    except ImportError as e:
        for name in ("prog.many", "prog.mlp.1", "prog.mlp.64"):
            skip(name, str(e))


def taken(n):
    """What 100 MB of a published model take, when n processes call it."""
    import tensord as td

    def body(token):
        td.disconnect()
        td.zeros(1).item()
        token()
        f = of_tensord("large")
        f(np.ones((1, LARGE[0]), np.float32))
        token()

    with daemon(), callers(body, n) as all:
        each(all, "wait")
        pids = [td.connection()["pid"], *(c.pid for c in all)]
        before = memory_of(pids)
        keep = publish("large", LARGE)
        each(all, "go", "wait")
        after = memory_of(pids)
        each(all, "go", "wait")
        del keep
    return (after - before) / 1e6


def memory():
    ours("prog.memory", taken(CALLERS), "MB", 1.1)
    reference("prog.memory", taken(1), "one process that calls it")


@contextlib.contextmanager
def daemon():
    """One of their own, which this process and its callers use."""
    import tensord as td

    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "socket")
        server = subprocess.Popen([os.environ["TENSORD_DAEMON"], "--socket", path])
        try:
            while not os.path.exists(path):
                time.sleep(0.01)
            os.environ["TENSORD_SOCKET"] = path
            yield
        finally:
            td.disconnect()
            os.environ.pop("TENSORD_SOCKET", None)
            server.terminate()
            server.wait()


if __name__ == "__main__":
    many()
    memory()
    sys.exit(0)
