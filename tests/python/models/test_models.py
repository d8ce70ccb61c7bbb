"""Models from ONNX files: called, published, opened by other processes, awaited, shared by sessions; what does not fit is said by name."""
import asyncio
import multiprocessing
import os
import pathlib
import pickle
import re
import signal
import sys
import threading
import time

import pytest
import tensord as td
import tensord.aio
from common import daemon, script, wait_for
from onnx_file import FLOAT, INT64, write

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

W = np.arange(12, dtype=np.float32).reshape(4, 3) / 10


@pytest.fixture
def layer(tmp_path):
    """y = relu(x @ w), s = y + 1, of any number of rows."""
    nodes = [("MatMul", ["x", "w"], ["p"]), ("Relu", ["p"], ["y"]), ("Add", ["y", "one"], ["s"])]
    constants = {"w": W, "one": np.ones(1, dtype=np.float32)}
    return write(tmp_path / "layer.onnx", nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 3]), ("s", FLOAT, ["n", 3])], constants)


@pytest.fixture
def sums(tmp_path):
    """z = a + b."""
    return write(tmp_path / "sums.onnx", [("Add", ["a", "b"], ["z"])], [("a", FLOAT, ["n", 2]), ("b", FLOAT, ["n", 2])], [("z", FLOAT, ["n", 2])], {})


@pytest.fixture(autouse=True)
def no_model_stays():
    yield
    for row in td.status("models"):
        td.drop(row["name"])


def expected(x):
    y = np.maximum(np.asarray(x, dtype=np.float32) @ W, 0)
    return y, y + 1


def is_right(made, x):
    return len(made) == 2 and all(np.allclose(a.numpy(), b, rtol=1e-5, atol=1e-6) for a, b in zip(made, expected(x)))


def test_a_model_is_called(layer, sums):
    model = td.load_model(layer)
    x = np.ones((2, 4), dtype=np.float32)
    assert is_right(model(x), x) and is_right(model(x=td.tensor(x)), x) and is_right(model([[1, 2, 3, 4]]), [[1, 2, 3, 4]])
    assert [x["name"] for x in model.inputs] == ["x"] and model.outputs[1]["shape"] == ["n", 3] and model.card["opset"] == 13
    assert model.version == 0 and model.name is None and "'x' -> 'y', 's'" in repr(model)
    both = td.load_model(sums)
    assert both([[1, 2]], b=[[3, 4]]).tolist() == [[4, 6]]
    assert both(b=[[3, 4]], a=[[1, 2]]).tolist() == [[4, 6]]
    model.close()
    with pytest.raises(td.Closed):
        model(x)


def test_inputs_that_do_not_fit_are_named(layer, sums):
    model, both = td.load_model(layer), td.load_model(sums)
    for published in range(2):
        if published:
            model.publish("fits")
            both.publish("fits too")
            model, both = td.model("fits"), td.model("fits too")
        with pytest.raises(td.ShapeError, match=r"input 0, 'x', is float32 \[n, 4\], but .*5.* came"):
            model(np.ones((2, 5), dtype=np.float32))
        with pytest.raises(td.DTypeError, match="'x', is float32"):
            model(np.ones((2, 4)))
        with pytest.raises(td.InvalidError, match="no input 'X'; it takes 'x'"):
            model(np.ones((2, 4), dtype=np.float32), X=1)
        with pytest.raises(td.InvalidError, match="no input 'c'; it takes 'a', 'b'"):
            both([[1, 2]], c=[[1, 2]])
        with pytest.raises(td.InvalidError, match="input 'b' is not given"):
            both([[1, 2]])
        with pytest.raises(td.InvalidError, match="input 'a' is given twice"):
            both([[1, 2]], [[1, 2]], a=[[1, 2]])
        with pytest.raises(td.InvalidError, match="takes 2 inputs, and 3 are given"):
            both(1, 2, 3)
        with pytest.raises(td.ShapeError, match="n is 1 in 'a'"):
            both([[1, 2]], [[1, 2], [3, 4]])


@pytest.mark.parametrize("option", [{"max_batch": -1}, {"max_batch": 1025}, {"delay": -1.0}, {"queue": -1}, {"queue": 65537}, {"instances": 17}, {"version": -1}])
def test_options_are_checked_before_trial_runs(layer, option):
    (name, value), = option.items()
    with pytest.raises(td.InvalidError, match=f"{name}.* is from 0 to .*, and is {-1000000 if name == 'delay' else value} here"):
        td.load_model(layer).publish("never", **option)
    with pytest.raises(td.NotPublished, match="nothing is published as 'never'"):
        td.model("never")


def test_names_and_versions(layer):
    model = td.load_model(layer, "layer")
    assert model.version == 1 and model.name == "layer" and model.card["batch"]["inputs"] == [0]
    other = td.model("layer")
    assert is_right(other([[1, 0, 0, 0]]), [[1, 0, 0, 0]])
    td.load_model(layer).publish("layer", keep_old=True)
    assert td.model("layer").version == 2 and td.model("layer", 1).version == 1
    other.serve(1)
    assert td.model("layer").version == 1
    with pytest.raises(td.NotFound, match="no version 7"):
        other.serve(7)
    with pytest.raises(td.AlreadyExists):
        td.load_model(layer).publish("layer", replace=False)
    assert is_right(pickle.loads(pickle.dumps(other))([[0, 1, 0, 0]]), [[0, 1, 0, 0]])
    with pytest.raises(TypeError, match="publish"):
        pickle.dumps(td.load_model(layer))
    with pytest.raises(td.NotPublished):
        td.model("nobody's")
    with pytest.raises(td.DTypeError, match="'layer' is a model, not a tensor"):
        td.open("layer")
    td.drop("layer")
    with pytest.raises(td.NotFound):
        other([[1, 0, 0, 0]])


def ask(seed):
    model = td.model("asked", timeout=60)
    random = np.random.default_rng(seed)
    for k in range(40):
        x = random.standard_normal((1 + k % 3, 4), dtype=np.float32)
        if not is_right(model(x), x):
            return False
    return True


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_four_processes_at_once(layer, way):
    td.load_model(layer, "asked")
    with multiprocessing.get_context(way).Pool(4, td.connect, (td.connection()["path"],)) as pool:
        assert pool.map(ask, range(4)) == [True] * 4
    assert ask(5)


def test_threads(layer):
    td.load_model(layer, "asked")
    good = []
    threads = [threading.Thread(target=lambda k=k: good.append(ask(k))) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert good == [True] * 4


def test_awaiting(layer):
    model = td.load_model(layer).publish("awaited", max_batch=8)
    rows = [np.full((1, 4), k, dtype=np.float32) for k in range(30)]

    async def main():
        made = await asyncio.gather(*(td.aio.infer(model, x, timeout=60, priority=k % 3) for k, x in enumerate(rows)))
        assert all(is_right(y, x) for y, x in zip(made, rows))
        with pytest.raises(td.ShapeError):
            await td.aio.infer(model, np.ones((1, 5), dtype=np.float32))
        with pytest.raises(td.Timeout):
            await td.aio.infer(model, rows[0], timeout=0)
        with pytest.raises(TypeError, match="takes a model"):
            await td.aio.infer(ask, rows[0])
        local = td.load_model(layer)
        assert is_right(await td.aio.infer(local, rows[1]), rows[1])
        tasks = [asyncio.ensure_future(td.aio.infer(model, x=x)) for x in rows]
        await asyncio.sleep(0)
        for t in tasks[::2]:
            t.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(y, asyncio.CancelledError) or is_right(y, x) for y, x in zip(done, rows))
        assert all(is_right(y, x) for y, x in zip(done[1::2], rows[1::2]))

    asyncio.run(main())
    row = next(r for r in td.status("models") if r["name"] == "awaited")
    assert row["failed"] == 0 and row["waiting"] == 0


SESSION = """
    import sys
    import numpy as np
    import tensord as td
    s = td.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    x = np.ones((2, 4), dtype=np.float32)
    y, = s.run(["s"], {s.get_inputs()[0].name: x})
    assert y.dtype == np.float32 and y.shape == (2, 3)
    print(len(td.status("models")), float(y[0, 0]))
    sys.stdin.read()
"""


def one_input(path, nodes, constants=None):
    return write(path, nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])], constants or {})


def test_rows_that_meet_are_not_joined(tmp_path):
    """Not though they meet for large numbers only, which trial runs might never see."""
    thirty = {"thirty": ((1,), [30.0])}
    nodes = {"max": [("Abs", ["x"], ["a"]), ("ReduceMax", ["a"], ["m"], {"keepdims": 0}), ("Greater", ["m", "thirty"], ["c"]), ("Neg", ["x"], ["n"]),
                     ("Where", ["c", "n", "x"], ["y"])],
             "softmax": [("Softmax", ["x"], ["y"], {"axis": 0})],
             "mean": [("ReduceMean", ["x"], ["m"], {"axes": [0]}), ("Sub", ["x", "m"], ["y"])]}
    for name, each in nodes.items():
        model = td.load_model(one_input(tmp_path / f"{name}.onnx", each, thirty)).publish(name)
        batch = model.card["batch"]
        assert batch["most"] == 1 and batch["inputs"] == [None] and "rows" in batch["alone"], (name, batch)
        model = td.load_model(one_input(tmp_path / f"{name}.onnx", each, thirty)).publish(name, max_batch=4)
        assert model.card["batch"]["alone"] == "two rows together gave something else than alone", name
    model = td.load_model(one_input(tmp_path / "apart.onnx", [("Softmax", ["x"], ["y"], {"axis": 1})])).publish("apart", max_batch=4)
    assert model.card["batch"] == {"inputs": [0], "outputs": [0], "sizes": [1, 2, 4], "most": 4}
    model = td.load_model(one_input(tmp_path / "apart.onnx", [("Softmax", ["x"], ["y"], {"axis": 1})])).publish("apart", max_batch=1)
    assert model.card["batch"]["alone"] == "max_batch is 1"


def test_sessions_share_one_model(layer):
    session = td.InferenceSession(layer)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    assert (inputs[0].name, inputs[0].type, inputs[0].shape) == ("x", "tensor(float)", ["n", 4])
    assert [x.name for x in outputs] == ["y", "s"] and session.get_providers()
    x = np.ones((2, 4), dtype=np.float32)
    for made, want in zip(session.run(None, {"x": x}), expected(x)):
        assert np.allclose(made, want)
    with pytest.raises(td.InvalidError, match="no output 'q'"):
        session.run(["q"], {"x": x})
    again = td.InferenceSession(layer)
    assert len(td.status("models")) == 1
    done = script(SESSION, layer, TENSORD_SOCKET=td.connection()["path"])
    assert done.returncode == 0 and done.stdout.split() == ["1", str(float(expected(x)[1][0, 0]))], done.stderr
    assert len(td.status("models")) == 1
    del session, again
    td.sync()
    assert td.status("models") == []  # it goes with the last


def test_what_a_worker_calls_on_a_session(layer):
    """As programs with onnxruntime do; what is not here says in its line what does."""
    x = np.ones((2, 4), dtype=np.float32)
    session = td.InferenceSession(layer, None, ["CPUExecutionProvider"], [{}])
    first = session.get_inputs()[0]
    for names in (None, [], ["y", "s"], [o.name for o in session.get_outputs()]):
        y, s = session.run(names, {first.name: x}, None)
        assert np.allclose(y, expected(x)[0]) and np.allclose(s, expected(x)[1])
    s, y = session.run(output_names=["s", "y"], input_feed={first.name: x.tolist()}, run_options=None)
    y -= 1  # they are the caller's
    assert np.allclose(y + 2, s) and np.allclose(session.run(["y"], {"x": x})[0], y + 1)
    with pytest.raises(td.InvalidError, match="no input 'X'; it takes 'x'"):
        session.run(None, {"X": x})
    with pytest.raises(td.DTypeError, match="'x', is float32"):
        session.run(None, {"x": x.astype(np.float64)})
    for name, what in {"get_modelmeta": "load_model", "io_binding": "shared memory", "run_with_iobinding": "shared memory", "run_with_ort_values": "run()",
                       "get_session_options": "leave the call out", "set_providers": "leave the call out", "run_async": "aio.infer"}.items():
        assert not hasattr(session, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{re.escape(what)}"):
            getattr(session, name)
    for name in ("SessionOptions", "RunOptions", "GraphOptimizationLevel", "OrtValue", "get_available_providers"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*tensord.InferenceSession"):
            getattr(td, name)


kept = []  # sessions of a process


def session_version(path):
    kept.append(td.InferenceSession(path))
    return kept[-1]._model.version


def test_sessions_that_begin_together_load_once(layer):
    digest = td.load_model(layer).card["digest"]
    with multiprocessing.get_context("fork").Pool(4, td.connect, (td.connection()["path"],)) as pool:
        assert pool.map(session_version, [layer] * 12, chunksize=1) == [1] * 12
        assert td.load_model(layer).publish("onnx/" + digest, while_open=True).version == 2  # no other number was given


def test_a_session_of_a_model_that_is_there_waits_for_nobody(layer, monkeypatch):
    """Another process may have the file's lock for long, as it loads other bytes of it."""
    first = td.InferenceSession(layer)
    monkeypatch.setattr(sys.modules[td.InferenceSession.__module__], "_locked", lambda file: pytest.fail("it waits for the file's lock"))
    assert td.InferenceSession(layer)._model.card["digest"] == first._model.card["digest"]


def test_who_loads_a_model_that_came_meanwhile_takes_that(layer, monkeypatch):
    """As where the lock was not waited for any longer."""
    first, own = td.InferenceSession(layer), sys.modules[td.InferenceSession.__module__]
    monkeypatch.setattr(own, "_opened", lambda digest: None)  # it was not there yet
    made = own._loaded(layer)
    assert made.name == first._model.name == "onnx/" + first._model.card["digest"] and made.version == first._model.version


def test_sessions_of_one_graph_with_other_weights(tmp_path):
    """Weights that lie beside a file are of its model: others are another one's, and so are those that came since."""
    def put(folder, factor):
        folder.mkdir(exist_ok=True)
        (folder / "w.bin").write_bytes((W * factor).tobytes())
        (folder / "b.bin").write_bytes(np.full(2000, factor, dtype=np.float32).tobytes())
        nodes = [("MatMul", ["x", "w"], ["y"]), ("ReduceMax", ["b"], ["m"], {"keepdims": 0}), ("Add", ["y", "m"], ["z"])]
        return write(folder / "one.onnx", nodes, [("x", FLOAT, ["n", 4])], [("z", FLOAT, ["n", 3])], {"w": ((4, 3), "w.bin"), "b": ((2000,), "b.bin")})

    def answer(session):
        return session.run(None, {"x": np.ones((1, 4), dtype=np.float32)})[0]

    one, two = put(tmp_path / "one", 1), put(tmp_path / "two", 2)
    sessions = [td.InferenceSession(path) for path in (one, two, one)]
    want = W.sum(axis=0) + 1
    for session, factor in zip(sessions, (1, 2, 1)):
        assert np.allclose(answer(session), factor * want)
    put(tmp_path / "one", 3)
    sessions.append(td.InferenceSession(one))
    assert np.allclose(answer(sessions[-1]), 3 * want) and np.allclose(answer(sessions[0]), want)
    names = {row["name"] for row in td.status("models")}
    assert len(names) == 3 and names == {"onnx/" + s._model.card["digest"] for s in sessions}
    assert td.load_model(two).card["digest"] == sessions[1]._model.card["digest"] == td._C._model_digest(two)


def test_what_cannot_be_loaded(tmp_path, layer):
    with pytest.raises(td.Error, match="none.onnx"):
        td.load_model(tmp_path / "none.onnx")
    (tmp_path / "cut.onnx").write_bytes(pathlib.Path(layer).read_bytes()[:-7])
    td.load_model(layer, "stands")
    with pytest.raises(td.Error):
        td.load_model(tmp_path / "cut.onnx", "stands")
    odd = write(tmp_path / "odd.onnx", [("Reluu", ["x"], ["y"])], [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])], {})
    with pytest.raises(td.Error, match="Reluu"):
        td.load_model(odd, "stands")
    assert is_right(td.model("stands")([[1, 1, 1, 1]]), [[1, 1, 1, 1]]) and td.model("stands").version == 1
    with pytest.raises(td.Unsupported, match="file"):
        td.InferenceSession(b"bytes")


@pytest.mark.parametrize("published", [False, True])
def test_a_run_that_fails_names_its_node(tmp_path, published):
    """Its name, its op and what it gives, as the file has them."""
    end = "/model.22/cv3.0/cv3.0.0/of/a/long/name/conv/Gather"
    nodes = [("Relu", ["x"], ["r"]), ("Gather", ["r", "i"], ["rows"], {"axis": 0}), ("Reshape", ["rows", "s"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["n", 4]), ("i", INT64, ["k"]), ("s", INT64, ["d"])], [("y", FLOAT, ["a", "b"])], {})
    long = write(tmp_path / "long.onnx", [("Gather", ["x", "i"], ["y"], {"axis": 0}, end)], [("x", FLOAT, ["n", 4]), ("i", INT64, ["k"])],
                 [("y", FLOAT, ["k", 4])], {})
    short = write(tmp_path / "unnamed.onnx", [("Gather", ["x", "i"], ["y"], {"axis": 0}, "")], [("x", FLOAT, ["n", 4]), ("i", INT64, ["k"])],
                  [("y", FLOAT, ["k", 4])], {})
    model, other, unnamed = td.load_model(path), td.load_model(long), td.load_model(short)
    if published:
        model.publish("m"), other.publish("long"), unnamed.publish("unnamed")
    x = np.ones((2, 4), dtype=np.float32)
    assert model(x, np.array([1, 0, 1]), np.array([3, 4])).shape == (3, 4)
    with pytest.raises(td.OutOfRange, match=r"index 7 is out of bounds.*\n  asked for at node 'n1' \(Gather\) -> 'rows'") as e:
        model(x, np.array([7]), np.array([1, 4])).numpy()
    assert e.value.where == "node 'n1' (Gather) -> 'rows'"
    with pytest.raises(td.ShapeError, match=r"\[3, 3\].*\n  asked for at node 'n2' \(Reshape\) -> 'y'"):
        model(x, np.array([1, 0]), np.array([3, 3])).numpy()
    with pytest.raises(td.OutOfRange, match=re.escape(f"asked for at node '{end}' (Gather)")):
        other(x, np.array([7])).numpy()
    with pytest.raises(td.OutOfRange, match=re.escape("asked for at node 0 (Gather) -> 'y'")):
        unnamed(x, np.array([7])).numpy()


def test_constants_that_fail_name_their_node(tmp_path):
    w = {"w": ((2, 3), [1.0] * 6)}
    path = write(tmp_path / "m.onnx", [("MatMul", ["w", "w"], ["c"]), ("Add", ["x", "c"], ["y"])], [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])], w)
    with pytest.raises(td.ShapeError, match=re.escape("m.onnx: node 'n0' (MatMul) -> 'c': 'x' and 'y' shapes cannot be multiplied")):
        td.load_model(path)


def asks_for_ever():
    model = td.model("asked", timeout=60)
    while True:
        model(np.ones((1, 4), dtype=np.float32))


def test_killed_callers(layer):
    td.load_model(layer, "asked")
    for k in range(5):
        child = multiprocessing.get_context("fork").Process(target=asks_for_ever)
        child.start()
        assert ask(k)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert ask(k)
    row = next(r for r in td.status("models") if r["name"] == "asked")
    assert row["failed"] == 0 and row["version"] == 1


def a_wide_file(path, columns=2500):
    """A row takes twice `columns` floats to work with, and gives one."""
    nodes = [("MatMul", ["x", "w"], ["p"]), ("Relu", ["p"], ["r"]), ("MatMul", ["r", "v"], ["y"])]
    ones = {"w": np.ones((1, columns), np.float32), "v": np.ones((columns, 1), np.float32)}
    return write(path, nodes, [("x", FLOAT, ["n", 1])], [("y", FLOAT, ["n", 1])], ones)


def test_what_lies_empty_in_models_is_for_others(tmp_path):
    """Six models keep 12 MB each for their next request: a tensor of 100 MB has room in 134 MB all the same, and so has a request of a seventh."""
    path = a_wide_file(tmp_path / "wide.onnx")
    with daemon(str(tmp_path), "--memory", "128M") as d:
        r = script("""
            import sys
            import numpy as np
            import tensord as td
            for k in range(7): td.load_model(sys.argv[1]).publish(f"m{k}")
            models = [td.model(f"m{k}") for k in range(7)]
            def call_six():
                assert all((m(np.ones((1200, 1), np.float32)).numpy() == 2500).all() for m in models[:6])
                return sum(row["bytes_committed"] for row in td.status("models")) > 60e6
            print(call_six(), td.full((25_000_000,), 2.0).sum().item())
            print(call_six(), models[6](np.ones((5000, 1), np.float32)).sum().item())
        """, str(path), TENSORD_SOCKET=d.path)
    assert r.stdout == "True 50000000.0\nTrue 12500000.0\n", (r.stdout, r.stderr[-3000:])


def test_what_models_keep_goes_back_at_a_quiet_moment(tmp_path):
    path = a_wide_file(tmp_path / "wide.onnx")
    td.load_model(path).publish("quiet")
    model = td.model("quiet")
    committed = lambda: next(row["bytes_committed"] for row in td.status("models") if row["name"] == "quiet")
    model(np.ones((1200, 1), np.float32)).numpy()
    assert committed() > 10e6
    assert wait_for(lambda: time.sleep(1) or committed() < 1e6)
    assert (model(np.ones((1200, 1), np.float32)).numpy() == 2500).all()
