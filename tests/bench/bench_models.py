#!/usr/bin/env python3
"""The model server beside onnxruntime: real models of $TENSORD_MODELS (default ../shared/data/onnx beside the project), in turns within one run.

infer.NAME.1          one caller, one row: a call, against a session of onnxruntime with as many threads in the same process
infer.many            four processes that call one model at once: a call of all together, against a session of one thread in each
infer.memory          what eight processes and the daemon have more when they call super_resolution and ultraface, against eight pairs of sessions
infer.first           the first request after publishing, against the median of the tenth to the thirtieth
infer.batch           eight callers of a perceptron 784-512-512-10, a call of all together, against max_batch=1
infer.batch.alone     one caller of it with batches allowed, against max_batch=1
infer.reload          the 99th percentile of one caller's calls while another process publishes the model anew, against while nobody does

Arguments differ from call to call; results are checked against onnxruntime's. The value of each is the median round."""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from bench_python import in_turns, ours, reference, skip
from bench_serve import callers, daemon, each, memory_of

GOALS = {"many": 1.0, "memory": 0.25, "first": 1.2, "batch": 0.4, "batch.alone": 1.02, "reload": 2.0}
MODELS = {  # file, and the shapes of a call of one row
    "mnist": ("mnist_8", [(1, 1, 28, 28)]),
    "superres": ("super_resolution_10", [(1, 1, 224, 224)]),
    "ultraface": ("ultraface_RFB_320", [(1, 3, 240, 320)]),
    "yunet": ("yunet_n_dynamic", [(1, 3, 160, 160)]),
    "ppocr": ("ch_ppocr_mobile_v2.0_cls_infer", [(1, 3, 48, 192)]),
    "tract": ("tract_byte_sb_bidi_lstm", [(1, 100)]),
    "silero": ("silero_vad_16k_op15", [(1, 576), (2, 1, 128), ()]),
}
PLACE = pathlib.Path(os.environ.get("TENSORD_MODELS") or pathlib.Path(__file__).resolve().parents[3] / "shared/data/onnx")
ROUNDS, SECONDS = 9, 0.25


def path_of(name):
    return PLACE / (MODELS[name][0] + ".onnx")


def session(model, threads=None):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"])


def arguments(s, shapes, n=4):
    """n sets of arrays for a session's inputs: floats from -1 to 1, a rate of 16,000, bytes for what counts tokens."""
    import numpy as np

    sets = []
    for k in range(n):
        rng = np.random.default_rng(k)
        make = {"tensor(float)": lambda shape: rng.uniform(-1, 1, shape).astype(np.float32),
                "tensor(int64)": lambda shape: np.array(16000, np.int64) if shape == () else rng.integers(0, 200, shape),
                "tensor(int32)": lambda shape: rng.integers(0, 200, shape).astype(np.int32),
                "tensor(uint8)": lambda shape: rng.integers(0, 200, shape).astype(np.uint8)}
        sets.append([make[i.type](shape) for i, shape in zip(s.get_inputs(), shapes, strict=True)])
    return sets


def as_list(results):
    return results if isinstance(results, (list, tuple)) else [results]


def ours_of(td, model):
    return lambda xs: [y.numpy() for y in as_list(model(*[td.from_numpy(x) for x in xs]))]


def theirs_of(s):
    names = [i.name for i in s.get_inputs()]
    return lambda xs: s.run(None, dict(zip(names, xs)))


def alike(np, a, b):
    return all(np.allclose(x, y, rtol=1e-3, atol=1e-4) for x, y in zip(a, b, strict=True))


def rounds_of(f, sets, n):
    return lambda: [f(sets[k % len(sets)]) for k in range(n)]


def calls_in(f, xs):
    began = time.perf_counter()
    f(xs)
    return max(3, int(SECONDS / (time.perf_counter() - began)))


# ---- one caller


def one_row(td, np):
    for name, (_, shapes) in MODELS.items():
        s = session(path_of(name))
        sets = arguments(s, shapes)
        model = td.load_model(str(path_of(name)))
        model.publish(f"bench/{name}")
        f, g = ours_of(td, td.model(f"bench/{name}")), theirs_of(s)
        for _ in range(5):
            for xs in sets:
                mine, theirs = f(xs), g(xs)
        if not alike(np, mine, theirs):
            raise SystemExit(f"infer.{name}.1: the results differ")
        n = calls_in(g, sets[0])
        a, b = in_turns(rounds_of(f, sets, n), rounds_of(g, sets, n), rounds=ROUNDS)
        ours(f"infer.{name}.1", a / n * 1e6, "us", 1.4)
        reference(f"infer.{name}.1", b / n * 1e6, f"onnxruntime, {len(os.sched_getaffinity(0))} threads")


# ---- several processes


def together(make, sets, n=4, calls=300):
    """Microseconds a call of n processes that do nothing else."""
    def body(token):
        f = make()
        for k in range(20):
            f(sets[k % len(sets)])
        token()
        for k in range(calls):
            f(sets[k % len(sets)])

    with callers(body, n) as all:
        each(all, "wait")
        began = time.perf_counter()
        each(all, "go", "wait")
        return (time.perf_counter() - began) / (n * calls) * 1e6


def open_anew(td, name):
    td.disconnect()
    return ours_of(td, td.model(name, timeout=10))


def many(td, np):
    s = session(path_of("mnist"), 1)  # its threads would not live on in what is forked
    sets = arguments(s, MODELS["mnist"][1])
    del s
    td.load_model(str(path_of("mnist"))).publish("bench/many")
    mine, theirs = [], []
    for _ in range(5):
        mine.append(together(lambda: open_anew(td, "bench/many"), sets))
        theirs.append(together(lambda: theirs_of(session(path_of("mnist"), 1)), sets))
    ours("infer.many", statistics.median(mine), "us", GOALS["many"])
    reference("infer.many", statistics.median(theirs), "4 sessions of onnxruntime of one thread, a process each (mnist)")


def memory(td, np):
    chosen = ["superres", "ultraface"]
    sets = {name: arguments(session(path_of(name), 1), MODELS[name][1], 1)[0] for name in chosen}

    def taken(make, before):
        def body(token):
            before()
            token()
            fs = {name: make(name) for name in chosen}
            for _ in range(5):
                for name, f in fs.items():
                    f(sets[name])
            token()
            token()

        with callers(body, 8) as all:
            each(all, "wait")
            connect()
            pids = [td.connection()["pid"], *(c.pid for c in all)]
            begin = memory_of(pids)
            for name in chosen:
                if make is of_tensord:
                    td.load_model(str(path_of(name))).publish(f"bench/memory/{name}")
            each(all, "go", "wait")
            end = memory_of(pids)
            each(all, "go", "wait")
            each(all, "go")
            return (end - begin) / 1e6

    def of_tensord(name):
        return ours_of(td, td.model(f"bench/memory/{name}", timeout=10))

    def connect():
        td.disconnect()
        td.zeros(1).item()

    mine = taken(of_tensord, connect)
    theirs = taken(lambda name: theirs_of(session(path_of(name), 1)), lambda: __import__("onnxruntime"))
    ours("infer.memory", mine, "MB", GOALS["memory"])
    reference("infer.memory", theirs, "8 processes with 2 sessions of onnxruntime each")


# ---- life


def first(td, np):
    sets = arguments(session(path_of("ultraface")), MODELS["ultraface"][1])
    firsts, later = [], []
    for k in range(9):
        td.load_model(str(path_of("ultraface"))).publish("bench/first")
        f = ours_of(td, td.model("bench/first"))
        took = []
        for n in range(30):
            began = time.perf_counter()
            f(sets[n % len(sets)])
            took.append(time.perf_counter() - began)
        firsts.append(took[0])
        later.append(statistics.median(took[9:]))
    ours("infer.first", statistics.median(firsts) * 1e3, "ms", GOALS["first"])
    reference("infer.first", statistics.median(later) * 1e3, "the tenth to the thirtieth")


def reload(td, np):
    sets = arguments(session(path_of("mnist")), MODELS["mnist"][1])
    td.load_model(str(path_of("mnist"))).publish("bench/reload")
    f = ours_of(td, td.model("bench/reload"))

    def percentile(seconds):
        took, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            f(sets[len(took) % len(sets)])
            took.append(time.perf_counter() - began)
        return sorted(took)[int(0.99 * len(took))]

    quiet, busy = [], []
    for _ in range(5):
        quiet.append(percentile(1.0))
        program = "import sys, time, tensord as td\nwhile True: td.load_model(sys.argv[1]).publish('bench/reload'); time.sleep(1)"
        loader = subprocess.Popen([sys.executable, "-c", program, str(path_of("mnist"))])
        time.sleep(1)
        busy.append(percentile(3.0))
        loader.kill()
        loader.wait()
    ours("infer.reload", statistics.median(busy) * 1e6, "us", GOALS["reload"])
    reference("infer.reload", statistics.median(quiet) * 1e6, "while nobody publishes")


# ---- batches


def perceptron_file(folder, sizes=(784, 512, 512, 10)):
    from bench_serve import onnx_model

    path = os.path.join(folder, "perceptron.onnx")
    with open(path, "wb") as f:
        f.write(onnx_model(sizes))
    return path


def batch(td, np, folder):
    path = perceptron_file(folder)
    xs = [[np.random.default_rng(k).standard_normal((1, 784), np.float32)] for k in range(8)]
    td.load_model(path).publish("bench/batch")
    td.load_model(path).publish("bench/single", max_batch=1)
    took = {"batch": [], "single": []}
    for _ in range(5):
        for name in took:
            took[name].append(together(lambda name=name: open_anew(td, f"bench/{name}"), xs, n=8))
    ours("infer.batch", statistics.median(took["batch"]), "us", GOALS["batch"])
    reference("infer.batch", statistics.median(took["single"]), "eight callers, max_batch=1")
    f, g = (ours_of(td, td.model(f"bench/{name}")) for name in took)
    n = calls_in(g, xs[0])
    a, b = in_turns(rounds_of(f, xs, n), rounds_of(g, xs, n), rounds=2 * ROUNDS)
    ours("infer.batch.alone", a / n * 1e6, "us", GOALS["batch.alone"])
    reference("infer.batch.alone", b / n * 1e6, "max_batch=1")


def main():
    names = [f"infer.{m}.1" for m in MODELS] + [f"infer.{n}" for n in GOALS]
    missing = next((f"{path_of(m)} is not there" for m in MODELS if not path_of(m).exists()), None)
    try:
        import numpy as np
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401

        import tensord as td
    except ImportError as e:
        missing = str(e)
    if missing:
        for name in names:
            skip(name, missing)
        return
    parts = {"one": one_row, "many": many, "memory": memory, "first": first, "reload": reload, "batch": batch}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or parts:
            with daemon():
                parts[name](td, np, *([folder] if name == "batch" else []))


if __name__ == "__main__":
    main()
