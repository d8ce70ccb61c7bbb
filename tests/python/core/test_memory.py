"""numpy_memory(): what NumPy allocates itself lies in shared memory, and nothing of it stays."""
import asyncio
import contextlib
import gc
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import tensord as td
from common import script

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
N = 100_000  # bytes of an array, more than what stays ordinary memory


def is_shared(a):
    return td.asarray(a).data_ptr() == a.ctypes.data


def saved():
    file = io.BytesIO()
    np.save(file, np.arange(N))
    file.seek(0)
    return file


LANDS = {
    "empty": lambda a: np.empty(N), "zeros": lambda a: np.zeros(N), "full": lambda a: np.full(N, 3.0), "stack": lambda a: np.stack([a] * 3),
    "arithmetic": lambda a: a * 2 + 1, "copy": lambda a: a.copy(), "concatenate": lambda a: np.concatenate([a, a]), "astype": lambda a: a.astype("int16"),
    "array of a list": lambda a: np.array([[1.5] * N]), "random": lambda a: np.random.default_rng(0).random(N), "load": lambda a: np.load(saved()),
    "frombuffer, copied": lambda a: np.frombuffer(bytes(N), "uint8").copy(), "sort": np.sort, "fft": lambda a: np.fft.fft(a),
}


@pytest.mark.parametrize("name", LANDS)
def test_lands(name):
    plain = np.linspace(0, 1, N)
    expected = LANDS[name](plain)
    with td.numpy_memory():
        a = LANDS[name](plain)
    assert is_shared(a) and a.dtype == expected.dtype and not is_shared(expected)
    if name != "empty":
        np.testing.assert_array_equal(a, expected)


def test_zeros_are_zero_in_memory_that_was_used():
    with td.numpy_memory():
        for _ in range(5):
            np.full(N, 7.0)
            assert not np.zeros(N).any()


def test_one_memory():
    with td.numpy_memory():
        a = np.arange(6 * N, dtype="float32").reshape(6, N)
    t = td.asarray(a)
    assert t.dtype is td.float32 and t.shape == a.shape and t.data_ptr() == a.ctypes.data
    a[0, 0] = 50
    assert t[0, 0].item() == 50
    t[0, 1] = 60
    td.sync()
    assert a[0, 1] == 60 and t.sum().item() == pytest.approx(a.sum(dtype="float64"), rel=1e-5)
    for view in (a.T, a[2:4, ::7], a[1], a[:, None, 5:], a[3:3]):
        s = td.asarray(view)
        assert s.tolist() == view.tolist() and (s.data_ptr() == view.ctypes.data or not view.size)
    assert td.from_numpy(a).data_ptr() == td.from_dlpack(a).data_ptr() == td.asarray(a, copy=False).data_ptr() == t.data_ptr()
    assert td.from_dlpack(a, copy=False).data_ptr() == t.data_ptr()


def test_what_copies():
    with td.numpy_memory():
        a = np.ones((2, N))
    at = a.ctypes.data
    backwards, odd, fixed = a[::-1], a.view("uint8").reshape(-1)[3:-5].view(), a.view()
    fixed.flags.writeable = False
    for x in (backwards, fixed):
        assert td.asarray(x).data_ptr() != x.ctypes.data and td.asarray(x).tolist() == x.tolist()
        with pytest.raises(ValueError, match="copy"):
            td.asarray(x, copy=False)
    assert td.asarray(odd).data_ptr() == at + 3
    record = np.zeros(N, dtype=[("a", "u1"), ("b", "f4")])["b"]  # elements that no stride reaches
    assert td.asarray(record).sum().item() == 0
    for t in (td.tensor(a), td.asarray(a, copy=True), td.asarray(a, dtype=td.float32), td.from_dlpack(a, copy=True)):
        assert t.data_ptr() != at and t.sum().item() == 2 * N
    with pytest.raises(BufferError):
        td.from_dlpack(np.ones(N), copy=False)


def test_ordinary_memory():
    with td.numpy_memory():
        small, grown = np.ones(100), np.zeros(N)
        grown[-1] = 5
        assert is_shared(grown)
        grown.resize(2 * N, refcheck=False)
        assert grown[N - 1] == 5 and not grown[N:].any() and not is_shared(small) and not is_shared(grown)
        grown.resize(10, refcheck=False)
    assert not is_shared(np.ones(N))


@contextlib.contextmanager
def daemon(path, *options):
    p = subprocess.Popen([os.environ["TENSORD_DAEMON"], "--socket", path, *options])
    try:
        yield p
    finally:
        p.send_signal(signal.SIGCONT)
        p.terminate()
        assert p.wait(60) == 0


CONNECT = """
    import sys, time, numpy as np, tensord as td
    for _ in range(10_000):
        try:
            td.connect()
            break
        except td.Error:
            time.sleep(0.01)
"""


def test_a_full_quota(tmp_path):
    path = str(tmp_path / "socket")
    with daemon(path, "--session-memory", "8M"):
        r = script(CONNECT + """
    shared = lambda a: td.asarray(a).data_ptr() == a.ctypes.data
    with td.numpy_memory():
        held = [np.full(1 << 20, k, dtype="uint8") for k in range(12)]
    print([int(a[7]) for a in held] == list(range(12)), shared(held[0]))
    try:
        td.asarray(held[11])
    except td.OutOfMemory:
        print("full")
    del held
    td.sync()
    with td.numpy_memory():
        print(shared(np.ones(1 << 18)))
""", TENSORD_SOCKET=path)
    assert (r.stdout, r.stderr) == ("True True\nfull\nTrue\n", "")


def test_a_signal_while_the_daemon_does_not_answer(tmp_path):
    path = str(tmp_path / "socket")
    with daemon(path):
        r = script(CONNECT + """
    import os, signal
    pid = td.connection()["pid"]
    def handler(*_):
        raise TimeoutError("alarm")
    signal.signal(signal.SIGALRM, handler)
    with td.numpy_memory():
        td.sync()
        os.kill(pid, signal.SIGSTOP)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            a = np.ones(1 << 20)
            print("no exception")
        except TimeoutError:
            print("interrupted")
        finally:
            os.kill(pid, signal.SIGCONT)
        a = None
        td.sync()
        td.sync()  # what was granted too late has gone back
        print(td.status("sessions")[0]["bytes"] < 1 << 20)
        a = np.ones(1 << 20)
    print(td.asarray(a).data_ptr() == a.ctypes.data)
    del a
    td.sync()
    print(td.status("sessions")[0]["objects"])
""", TENSORD_SOCKET=path)
    assert (r.stdout, r.stderr) == ("interrupted\nTrue\nTrue\n0\n", "")


def test_contexts():
    inside = {}

    def look(name):
        inside[name] = is_shared(np.ones(N))

    async def main():
        look("task")
        await asyncio.to_thread(look, "to_thread")

    with td.numpy_memory():
        with pytest.raises(ZeroDivisionError):
            with td.numpy_memory():
                1 / 0
        thread = threading.Thread(target=look, args=("thread",))
        thread.start()
        thread.join()
        asyncio.run(main())
        look("here")
    look("after")
    decorated = td.numpy_memory()(lambda: look("decorated"))
    decorated()
    assert inside == {"task": True, "to_thread": True, "thread": False, "here": True, "after": False, "decorated": True}


def test_beside_a_thread_that_waits_for_an_item():
    """Its wait holds nobody up."""
    q = td.Queue("memory/held", 2)
    q.put(1)
    q.get()
    got = []
    thread = threading.Thread(target=lambda: got.append(q.get(timeout=60)))
    thread.start()
    with td.numpy_memory():
        arrays = [np.full(N, k, dtype="uint8") for k in range(200)]
        assert not got and all(is_shared(a) and a[5] == k % 256 for k, a in enumerate(arrays))
    del arrays
    other = subprocess.run([sys.executable, "-c", "import tensord as td; td.Queue('memory/held').put(5)"], timeout=60,
                           env={**os.environ, "TENSORD_SOCKET": td.connection()["path"]})
    thread.join(60)
    assert got == [5] and other.returncode == 0
    q.close()


def test_beside_a_thread_that_waits_to_write():
    """The daemon answers in order, and it lets nobody write what tasks are to read: NumPy gets ordinary memory meanwhile, at once. Where the tasks end
    before anybody looks, there are some more."""
    x = td.ones(2048, 2048)
    plain = False

    def write():
        with x.writing():
            pass

    for _ in range(20):
        if plain:
            break
        sums = [x.sum() for _ in range(300)]
        thread = threading.Thread(target=write)
        thread.start()
        with td.numpy_memory():
            while thread.is_alive() and not plain:
                plain = not is_shared(np.full(N, 1, dtype="uint8"))
        thread.join()
        assert sums[-1].item() == x.numel()
    assert plain


def test_between_processes():
    with td.numpy_memory():
        a = np.zeros((3, N))
    q = td.Queue("memory/there", 2)
    t = td.asarray(a)
    q.put({"x": a, "rows": [a[1]]})
    got = q.get()
    got["rows"][0][4] = 8
    pickle.loads(pickle.dumps(t))[2, 5] = 9
    td.sync()
    assert a[1, 4] == 8 and a[2, 5] == 9 and got["x"].shape == (3, N)
    q.put([a])
    subprocess.run([sys.executable, "-c", "import tensord as td; x, = td.Queue('memory/there').get(timeout=30); x[0, 1] = x.numel(); td.sync()"],
                   timeout=60, check=True, env={**os.environ, "TENSORD_SOCKET": td.connection()["path"]})
    assert a[0, 1] == 3 * N
    q.close()


def test_who_outlives_whom():
    with td.numpy_memory():
        a, b = np.full(N, 3.0), np.full(N, 4.0)
    t, u = td.asarray(a), td.asarray(b)
    at = t.data_ptr()
    view = np.asarray(t)
    del a, u
    gc.collect()
    with td.numpy_memory():
        others = [np.zeros(N) for _ in range(20)]
    assert t.sum().item() == 3 * N and view[7] == 3 and b.sum() == 4 * N and at not in [x.ctypes.data for x in others]


def test_freed_elsewhere():
    """By another thread, in a forked child, after the connection has gone, at the end of the program: all in one life."""
    place = tempfile.mkdtemp()  # the socket of a daemon that is killed stays until the next one starts
    r = script("""
        import os, sys, threading, numpy as np, tensord as td
        with td.numpy_memory():
            held = [np.full(100_000, k) for k in range(40)]
        thread = threading.Thread(target=lambda: held.__delitem__(slice(0, 10)))
        thread.start()
        thread.join()
        td.sync()
        print(td.status("sessions")[0]["objects"])
        pid = os.fork()
        if pid == 0:
            good = held[0][5] == 10
            del held[:10]
            td.sync()
            with td.numpy_memory():
                mine = np.ones(100_000)
            os._exit(0 if good and td.asarray(mine).data_ptr() == mine.ctypes.data else 1)
        print(os.waitpid(pid, 0)[1], held[0][5], td.status("sessions")[0]["objects"])
        td.disconnect()
        print(held[0][5])
        del held[:10]
        with td.numpy_memory():
            again = np.ones(100_000)
        t = td.asarray(again)
        print(t.data_ptr() == again.ctypes.data, td.asarray(held[0]).data_ptr() == held[0].ctypes.data, len(td.status("sessions")))
        os.kill(td.connection()["pid"], 9)
        try:
            while True: td.sync()  # it may answer once more before the signal is there
        except td.ConnectionLost:
            print(again.sum(), len(held))
        del again
        with td.numpy_memory():
            last = np.ones(100_000)
        sys.keep = held, last
        class Late:
            def __del__(self, make=np.ones, keep=held):
                make(100_000)
        sys.late = Late()
    """, XDG_RUNTIME_DIR=place)
    shutil.rmtree(place)
    assert (r.stdout, r.stderr, r.returncode) == ("30\n0 10 30\n10\nTrue False 1\n100000.0 20\n", "", 0)


def count():
    gc.collect()
    td.sync()
    td.ones(1).tolist()
    here = td.connection()["session"]
    with open("/proc/self/maps") as f:
        maps = len(f.readlines())
    row = next(r for r in td.status("sessions") if r["session"] == here)
    return row["objects"], row["bytes"], len(os.listdir("/proc/self/fd")), maps


def test_nothing_is_left():
    def work(k):
        with td.numpy_memory():
            arrays = [np.full(N // 8 * (1 + (k + j) % 3), j) for j in range(5)]
            tensors = [td.asarray(a) for a in arrays[::2]]
            arrays[1].resize(3, refcheck=False)
            pickle.loads(pickle.dumps(tensors[0]))
            return sum(arrays[4]) + (tensors[2] + 1).sum().item()

    for k in range(40):
        work(k)
    before = [count()]
    for _ in range(3):
        for k in range(100):
            work(k)
        before.append(count())
    growth = [min(b[i] - a[i] for a, b in zip(before, before[1:])) for i in range(4)]
    assert growth[0] <= 0 and growth[1] <= 0 and growth[2] <= 0 and growth[3] <= 2, before
    assert before[-1][1] < 64 * N, before


def test_wrong_versions():
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    before = td._C._numpy_handler(None)  # known from here on: the checks have passed
    td._C._numpy_handler(before)
    assert hasattr(core, "_ARRAY_API")
    r = script("""
        import ctypes, sys, types
        import tensord as td
        other = ctypes.CFUNCTYPE(ctypes.c_uint)(lambda: 0x03000000)
        table = (ctypes.c_void_p * 400)(ctypes.cast(other, ctypes.c_void_p).value)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        for name in ("numpy", "numpy._core", "numpy._core._multiarray_umath"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules[name]._ARRAY_API = new(ctypes.addressof(table), None, None)
        try:
            with td.numpy_memory():
                print("entered")
        except td.Unsupported as e:
            print(e)
    """)
    assert "0x3000000" in r.stdout and "1.22" in r.stdout and not r.stderr, (r.stdout, r.stderr)


def test_torch_sends_such_memory():
    torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
    import tensord.torch as tdt
    from multiprocessing.reduction import ForkingPickler
    with td.numpy_memory():
        a = np.zeros((10, N), "float32")
    x = torch.from_numpy(a)
    tdt.set_sharing_strategy()
    try:
        y = ForkingPickler.loads(bytes(ForkingPickler.dumps(x[3])))
    finally:
        tdt.set_sharing_strategy("torch")
    y[8] = 6
    assert a[3, 8] == 6 and x.data_ptr() == a.ctypes.data


def peak(body):
    """The most that it has at once, in arrays of a million floats."""
    td.accelerator.reset_peak_memory_stats()
    before = td.accelerator.memory_allocated()
    assert td.accelerator.max_memory_allocated() == before
    body()
    td.sync()
    most = td.accelerator.max_memory_allocated()
    assert td.accelerator.memory_stats()["allocated_bytes.all.peak"] == most and most >= td.accelerator.memory_allocated()
    return (most - before) / (4 << 20)


def test_what_is_held_at_once():
    x = td.ones(1 << 20)
    td.sync()

    def chain():
        y = x
        for _ in range(100):
            y = y.sin()

    assert 2 <= peak(chain) <= 6  # the result, its operand, and what is asked for ahead

    w = td.ones(1 << 20, requires_grad=True)

    def forward_and_back():
        y = w
        for _ in range(20):
            y = y.sin()
        y.sum().backward()

    assert 21 <= peak(forward_and_back) <= 30  # what a node saved goes when it has run


def test_who_runs_ahead_has_memory_for_little_of_it():
    """What is asked for faster than it is computed waits in the stream, not in memory: 1.2 GB pass through a fraction of that."""
    before = {row["key"]: row["value"] for row in td.status()}["bytes_committed"]
    x = td.zeros(1 << 21)
    for _ in range(150):
        x = x + 1
    assert x[0].item() == 150
    after = {row["key"]: row["value"] for row in td.status()}["bytes_committed"]
    assert after - before < 300e6, f"{(after - before) / 1e6:.0f} MB were committed for it"


def test_what_stands_behind_a_long_task_does_not_wait_with_it():
    """However much memory is asked for ahead, a session that waits for one task that takes long is served meanwhile."""
    one, y, x = td.ones(1), td.ones(4), td.ones(1 << 20, dtype=td.float64)
    for power in (32, 33, 34, 36):  # what takes long depends on how many work at it
        td.sync()
        began = time.monotonic()
        long = one.expand(1 << power).sum()
        behind = [(x + long).exp() for _ in range(3)]
        y[1].item()
        read = time.monotonic() - began
        td.sync()
        whole = time.monotonic() - began
        del behind
        if read < whole / 2:
            return
    raise AssertionError(f"it waited {read:.2f} s of {whole:.2f}")
