"""What users of other model servers ask for most often: a test for each, which fails when it comes back.

The threads that each one stands for are in brackets. Nothing here goes by the clock: what costs time elsewhere (a hop, a copy, a model that is loaded again)
is counted in frames, bytes, threads and runs. Times are measured by tests/bench/bench_models.py."""
import asyncio
import concurrent.futures
import multiprocessing
import os
import pathlib
import subprocess
import threading

import pytest
import tensord as td
import tensord.aio
from common import SANITIZED, wait_for
from onnx_file import FLOAT, write

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")

BUILD = pathlib.Path(os.environ["TENSORD_DAEMON"]).parents[2]
MEGA = 1 << 20
FRAME = 2 << 10  # bytes that a frame of one request takes at most, both ways together


@pytest.fixture(autouse=True)
def no_model_stays():
    yield
    for row in td.status("models"):
        td.drop(row["name"])


def a_file(path, columns=256, constant=1.0):
    """y = relu(x @ w) + constant: `columns` * `columns` weights."""
    rng = np.random.default_rng(0)
    nodes = [("MatMul", ["x", "w"], ["p"]), ("Relu", ["p"], ["r"]), ("Add", ["r", "c"], ["y"])]
    shape = ["n", columns]
    constants = {"w": rng.standard_normal((columns, columns), np.float32), "c": np.full(1, constant, np.float32)}
    return write(path, nodes, [("x", FLOAT, shape)], [("y", FLOAT, shape)], constants)


def a_long_file(path, times=30, size=700):
    """A request takes some hundred milliseconds: products one after the other."""
    nodes = [("MatMul", [f"t{k}" if k else "x", "w"], [f"t{k + 1}" if k + 1 < times else "y"]) for k in range(times)]
    return write(path, nodes, [("x", FLOAT, [size, size])], [("y", FLOAT, [size, size])], {"w": np.zeros((size, size), np.float32)})


def status():
    return {row["key"]: row["value"] for row in td.status("status")}


def row_of(name, version=None):
    rows = [r for r in td.status("models") if r["name"] == name and r["serves" if version is None else "version"] in (True, version)]
    return rows[0] if rows else None


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def in_children(function, count, *args):
    with concurrent.futures.ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool:
        return [f.result() for f in [pool.submit(function, k, *args) for k in range(count)]]


# ---- 1 the hop costs more than the model [onnxruntime#8655, server#8558]


def test_a_call_is_two_frames_there_and_one_back(tmp_path):
    td.load_model(a_file(tmp_path / "m.onnx")).publish("m")
    model = td.model("m")
    x = np.ones((1, 256), np.float32)
    for _ in range(20):
        model(x).numpy()
    before = status()["frames_in"]
    for _ in range(100):
        model(x).numpy()
    assert status()["frames_in"] - before <= 2 * 100 + 20  # the values and the question, in one write; and a few that tell of memory that is not needed


# ---- 2 bytes through memory, not through the wire [server#1, kserve#1957]


def test_a_picture_goes_through_memory(tmp_path):
    path = write(tmp_path / "m.onnx", [("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 3, 640, 640])], [("y", FLOAT, ["n", 3, 640, 640])])
    td.load_model(path).publish("m", max_batch=1)
    model, x = td.model("m"), td.zeros(1, 3, 640, 640)
    for _ in range(3):
        model(x).numpy()
    before = status()
    y = model(x)
    assert y.numpy().nbytes == 4915200
    after = status()
    assert after["bytes_in"] - before["bytes_in"] < 2 * FRAME and after["bytes_out"] - before["bytes_out"] < 16 * FRAME  # with both tables
    at = y.numpy().__array_interface__["data"][0]
    maps = [line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    inside = [m for m in maps if int(m[0].split("-")[0], 16) <= at < int(m[0].split("-")[1], 16)]
    assert inside[0][1][3] == "s"  # shared memory, where the daemon wrote it


# ---- 3 one copy of the weights for all workers [BentoML#1866, serve#733, onnxruntime#32507]


def private_bytes():
    with open("/proc/self/smaps_rollup") as f:
        return 1024 * sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def one_worker(k):
    td.disconnect()
    td.zeros(1).item()
    before = private_bytes()
    model = td.model("m", timeout=60)
    for _ in range(5):
        model(np.ones((1, 2048), np.float32)).numpy()
    return private_bytes() - before


def test_eight_workers_have_one_copy(tmp_path, monkeypatch):
    td.load_model(a_file(tmp_path / "m.onnx", 2048)).publish("m")  # 16 MB
    monkeypatch.setenv("TENSORD_SOCKET", td.connection()["path"])
    one_of = td.model("m")
    for _ in range(5):
        one_of(np.ones((1, 2048), np.float32)).numpy()
    before, packed = row_of("m")["bytes"], status()["bytes_packed"]
    grown = in_children(one_worker, 8)
    if not SANITIZED:
        assert max(grown) < 4 * MEGA, grown  # a quarter of the weights, and most of it the interpreter's
    assert row_of("m")["bytes"] - before < MEGA and status()["bytes_packed"] <= packed
    assert before < 2.2 * 16 * MEGA


# ---- 4 one pool of threads for all models [onnxruntime#23523, #17011]


def test_models_start_no_threads(tmp_path):
    path = a_file(tmp_path / "m.onnx", 32)
    td.load_model(path).publish("m0")
    td.model("m0")(np.ones((1, 32), np.float32)).numpy()
    pid = td.connection()["pid"]
    before = threads_of(pid), threads_of(os.getpid())
    for k in range(1, 25):
        td.load_model(path).publish(f"m{k}")
        td.model(f"m{k}")(np.ones((1, 32), np.float32)).numpy()
    assert (threads_of(pid), threads_of(os.getpid())) == before


# ---- 5 a Unix socket instead of TCP [server#4095]


def test_the_front_listens_at_a_unix_socket(tmp_path):
    front = BUILD / "client/tensord-http"
    if not front.exists():
        pytest.skip("tensord-http is not built")
    path = tmp_path / "http"
    with subprocess.Popen([front, "--http-socket", path, a_file(tmp_path / "m.onnx", 32)], stderr=subprocess.DEVNULL) as served:
        try:
            assert wait_for(path.exists, 60)
            inodes = {os.readlink(f"/proc/{served.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{served.pid}/fd")}
            for table in ("tcp", "tcp6", "udp", "udp6"):
                lines = pathlib.Path(f"/proc/{served.pid}/net/{table}").read_text().splitlines()[1:]
                assert not {f"socket:[{line.split()[9]}]" for line in lines} & inodes, table
        finally:
            served.kill()


# ---- 6 unloading gives memory back [server#4966, #3621]


def test_unloading_gives_every_byte_back(tmp_path):
    path = a_file(tmp_path / "m.onnx", 1024)
    seen = []
    for _ in range(10):
        model = td.load_model(path).publish("m")
        model(np.ones((3, 1024), np.float32)).numpy()
        model.close()
        td.drop("m")
        assert wait_for(lambda: not td.status("models"))
        seen.append({k: status()[k] for k in ("bytes_used", "bytes_packed")})
    assert all(each == seen[3] for each in seen[4:]), seen  # the client keeps a lease of the size that it needs again and again


# ---- 7 a reload without a spike [server#8117, #5757]


def test_a_reload_fails_nobody_and_runs_nothing_twice(tmp_path):
    td.load_model(a_file(tmp_path / "1.onnx", 64, 1.0)).publish("m")
    model, x, ended, got = td.model("m"), np.zeros((1, 64), np.float32), threading.Event(), []

    def ask():
        while not ended.is_set():
            got.append(float(model(x).numpy()[0, 0]))

    callers = [threading.Thread(target=ask) for _ in range(3)]
    for c in callers:
        c.start()
    for constant in range(2, 12):
        td.load_model(a_file(tmp_path / "n.onnx", 64, float(constant))).publish("m")
    ended.set()
    for c in callers:
        c.join()
    assert set(got) <= {float(k) for k in range(1, 12)} and float(model(x).numpy()[0, 0]) == 11
    assert row_of("m")["failed"] == 0 and wait_for(lambda: len(td.status("models")) == 1)


# ---- 8 queued work expires, and can be given up [server#7512, #6920]


def test_what_expires_or_is_given_up_is_never_run(tmp_path):
    td.load_model(a_long_file(tmp_path / "m.onnx")).publish("m", max_batch=1)
    model, x = td.model("m"), td.zeros(700, 700)
    before = row_of("m")

    async def all_of_them():
        running = asyncio.create_task(td.aio.infer(model, x))
        while (await td.aio.status("models"))[0]["running"] == 0:
            await asyncio.sleep(0.001)
        late = [asyncio.create_task(td.aio.infer(model, x, timeout=0.001)) for _ in range(5)]
        given_up = [asyncio.create_task(td.aio.infer(model, x)) for _ in range(5)]
        while (await td.aio.status("models"))[0]["waiting"] < 5 and not running.done():
            await asyncio.sleep(0.001)
        for each in given_up:
            each.cancel()
        ends = await asyncio.gather(*late, *given_up, return_exceptions=True)
        await running
        return ends

    ends = asyncio.run(all_of_them())
    assert sum(isinstance(e, (td.Timeout, asyncio.CancelledError)) for e in ends) == len(ends), ends
    assert wait_for(lambda: row_of("m")["waiting"] + row_of("m")["running"] == 0)
    after = row_of("m")
    gone = after["expired"] + after["cancelled"] - before["expired"] - before["cancelled"]
    assert gone <= 10 and after["runs"] - before["runs"] <= 11 - gone  # nobody's request was run


# ---- 9 steps are handed on without copies [server#4719, #2959]


def test_an_output_is_the_next_input(tmp_path):
    path = write(tmp_path / "m.onnx", [("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 1024, 1024])], [("y", FLOAT, ["n", 1024, 1024])])
    first, second = (td.load_model(path).publish(name, max_batch=1) for name in ("first", "second"))
    x = td.ones(1, 1024, 1024)
    for _ in range(3):
        second(first(x)).numpy()
    before = status()
    z = second(first(x))
    z.numpy()
    after = status()
    assert after["bytes_used"] - before["bytes_used"] <= 2 * 4 * MEGA  # z, and at most what lay between
    assert after["bytes_in"] - before["bytes_in"] < 4 * FRAME


# ---- 10 something small without a GPU [server#3913, #2999]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is not small")
def test_the_front_is_small(tmp_path):
    front = BUILD / "client/tensord-http"
    if not front.exists():
        pytest.skip("tensord-http is not built")
    with subprocess.Popen([front, "--http-socket", tmp_path / "http", a_file(tmp_path / "m.onnx", 32)], stderr=subprocess.DEVNULL) as served:
        try:
            assert wait_for((tmp_path / "http").exists, 60)
            resident = int(pathlib.Path(f"/proc/{served.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
            assert resident < 24 * MEGA and front.stat().st_size < 24 * MEGA
        finally:
            served.kill()


# ---- beside them


def flood(ended):
    """As many as may wait, and more, all the time."""
    model, x = td.model("m"), td.zeros(300, 300)

    async def ask():
        while not ended.is_set():
            try:
                await td.aio.infer(model, x)
            except td.Busy:
                await asyncio.sleep(0.001)

    async def all_of_them():
        await asyncio.gather(*(ask() for _ in range(12)))

    asyncio.run(all_of_them())


def test_who_floods_a_queue_keeps_nobody_out(tmp_path):
    """Of a full queue each process has its share: who asks one at a time is never refused. (Whose turn it is among those that wait: tests/unit/service.)"""
    td.load_model(a_long_file(tmp_path / "m.onnx", size=300)).publish("m", max_batch=1, queue=4)
    context, model, x = multiprocessing.get_context("fork"), td.model("m"), td.zeros(300, 300)
    ended = context.Event()
    floods = [context.Process(target=flood, args=(ended,)) for _ in range(2)]
    for each in floods:
        each.start()
    try:
        for _ in range(8):
            assert wait_for(lambda: row_of("m")["waiting"] == 4)
            model(x).numpy()
        assert row_of("m")["refused"] > 0
    finally:
        ended.set()
        for each in floods:
            each.join()
    assert [each.exitcode for each in floods] == [0, 0]


def test_a_batch_needs_no_delay(tmp_path):
    """[server#3624, #7776] What waits while a run is under way is one batch; a request that finds nobody waits for nobody."""
    td.load_model(a_file(tmp_path / "m.onnx", 512)).publish("m", max_batch=8)
    model = td.model("m")
    x = np.ones((1, 512), np.float32)
    model(x).numpy()
    alone = row_of("m")
    assert alone["runs"] >= 1 and alone["waiting"] == 0

    async def many():
        return await asyncio.gather(*(td.aio.infer(model, x) for _ in range(64)))

    assert all(np.array_equal(y.numpy(), model(x).numpy()) or np.allclose(y.numpy(), model(x).numpy(), rtol=1e-5, atol=1e-5) for y in asyncio.run(many())[:4])
    after = row_of("m")
    assert after["requests"] - alone["requests"] >= 64 and after["failed"] == 0


def test_the_first_request_finds_a_warm_model(tmp_path):
    """[server#7161] Publishing ends with runs: the first request plans nothing and packs nothing that the tenth does not."""
    td.load_model(a_file(tmp_path / "m.onnx", 512)).publish("m")
    packed = status()["bytes_packed"]
    x = np.ones((1, 512), np.float32)
    for _ in range(10):
        td.model("m")(x).numpy()
    assert status()["bytes_packed"] == packed
