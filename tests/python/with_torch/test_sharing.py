"""Torch's own DataLoader, queues and pipes after set_sharing_strategy()."""
import multiprocessing.util
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing.reduction import ForkingPickler

import pytest
import tensord as td
from common import SLOW, at_rest, daemon, held, script, settles, wait_for

torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
import tensord.torch as tdt  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

METHODS = multiprocessing.get_all_start_methods()
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def strategy():
    tdt.set_sharing_strategy()
    yield
    tdt.set_sharing_strategy("torch")


def send(x):
    return pickle.loads(bytes(ForkingPickler.dumps(x)))


def test_a_handle_and_the_same_bytes():
    t = torch.arange(100_000).float()
    data = bytes(ForkingPickler.dumps(t))
    assert len(data) < 900 and b"tensord" in data
    same = pickle.loads(data)
    same[0] = -1
    assert t[0] == -1 and torch.equal(t, same)


def test_views_stay_one_storage():
    base = torch.zeros(1000)
    x = send({"a": base, "b": base})
    assert x["a"] is x["b"]
    base = send(base)
    views = send([base, base[10:20], base[::2], base.view(10, 100).T])
    views[0][10] = 7
    assert views[1][0] == 7 and views[2][5] == 7 and views[3][10, 0] == 7 and base[10] == 7
    assert len({tdt._sharing._memory.untyped(v).data_ptr() for v in views}) == 1 and views[3].stride() == (1, 100)


def test_aliases_of_the_sender_are_not_torn_apart():
    base = torch.zeros(1000)
    view = base[500:]
    got = send(view)
    got[0] = 3
    assert base[500] == 3 and view[0] == 3  # by torch's own way


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_dtypes(dtype):
    t = torch.arange(4000).to(dtype)
    got = send(t)
    assert got.dtype == dtype and torch.equal(got, t)


@pytest.mark.filterwarnings("ignore")
def test_what_goes_torch_s_way():
    if torch.__version__ >= "2":  # before that torch itself could not
        s = torch.eye(50).to_sparse()
        assert torch.equal(send(s).to_dense(), s.to_dense())
        meta = send(torch.empty(3, 4, device="meta"))
        assert meta.shape == (3, 4) and meta.device.type == "meta"
    assert send(torch.empty(0, 3)).shape == (0, 3)
    assert send(torch.tensor(5)).item() == 5
    with pytest.raises(RuntimeError, match="non-leaf"):
        send(torch.ones(2000, requires_grad=True) * 2)


def test_parameters():
    p = torch.nn.Parameter(torch.randn(3000))
    got = send(p)
    assert type(got) is torch.nn.Parameter and got.requires_grad
    with torch.no_grad():
        got[0] = 42
    assert p[0] == 42
    layer = send(torch.nn.Linear(50, 60))
    assert layer(torch.ones(50)).shape == (60,)


def _add_one(q, back):
    torch.set_num_threads(1)
    while (t := q.get()) is not None:
        t += 1
        made = torch.full((5000,), float(t[0]))
        back.put((t.sum().item(), made))
    back.get  # the queue's feeder ends with the process


@pytest.mark.parametrize("method", METHODS)
def test_queues(method):
    context = torch.multiprocessing.get_context(method)
    q, back = context.Queue(), context.Queue()
    p = context.Process(target=_add_one, args=(q, back))
    p.start()
    t = torch.zeros(5000)
    for k in range(1, 4):
        q.put(t)
        total, made = back.get(timeout=60 * SLOW)
        assert total == 5000 * k and made.unique().tolist() == [k]
    q.put(None)
    p.join()
    assert t.unique().tolist() == [3] and p.exitcode == 0


class Images(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return {"x": torch.full((3, 20, 30), float(i)), "y": i, "name": f"image {i}"}


@pytest.mark.parametrize("method", METHODS)
def test_data_loader(method):
    def batches(**more):
        return list(DataLoader(Images(), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(3), **more))

    plain = batches()
    ours = batches(num_workers=2, multiprocessing_context=method)
    assert len(ours) == len(plain) == 5
    for a, b in zip(ours, plain):
        assert torch.equal(a["x"], b["x"]) and torch.equal(a["y"], b["y"]) and a["name"] == b["name"]
        assert tdt._sharing._memory.lies_in(tdt._sharing._memory.untyped(a["x"])) is not None
        a["x"] += 1  # may be written


def test_custom_collate():
    loader = DataLoader(Images(), batch_size=8, num_workers=2, collate_fn=lambda batch: torch.cat([b["x"].flatten() for b in batch]))
    assert [int(b[0]) for b in loader] == [0, 8, 16, 24, 32]


def test_nothing_stays_and_no_descriptor_a_tensor():
    loader = DataLoader(Images(), batch_size=4, num_workers=2)
    list(loader)
    before = at_rest(90)
    kept = [b["x"] for b in loader]
    now = held()
    assert len(kept) == 10 and now[4] - before[4] <= 5 and now[0] > before[0]
    del kept
    assert settles(before) == before


class Last(Images):
    """Of the second sample a tensor is pickled, by the queue's own thread, when the worker has begun to end."""

    ending, pickled = threading.Event(), threading.Event()

    def __getitem__(self, i):
        x = torch.full((3000,), float(i))
        if i != 1:
            return x
        for event, priority in ((self.ending.set, 5), (self.pickled.wait, 4)):  # after those that end what was sent
            multiprocessing.util.Finalize(None, event, exitpriority=priority)
        return [Call(self.ending.wait), x, Call(self.pickled.set)]


class Call:
    def __init__(self, what):
        self.what = what

    def __reduce__(self):
        self.what()
        return int, ()


def test_what_a_worker_sends_when_it_ends_is_free_with_it(monkeypatch):
    monkeypatch.setattr("tensord.share._loans.LENT_SECONDS", 1000)
    before = at_rest(90)
    it = iter(DataLoader(Last(), batch_size=None, num_workers=1))
    assert next(it)[0] == 0
    del it
    assert settles(before) == before


class Dies(Images):
    def __getitem__(self, i):
        if i == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


def test_a_killed_worker_leaves_nothing(monkeypatch):
    monkeypatch.setattr("tensord.share._loans.LENT_SECONDS", 0.3)
    before = at_rest(90)
    with pytest.raises(RuntimeError, match="killed|exited unexpectedly"):
        for b in DataLoader(Dies(), batch_size=4, num_workers=2):
            del b
    assert settles(before) == before


def test_a_killed_parent_leaves_nothing():
    before = at_rest(90)
    p = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
        import time, torch, tensord.torch as tdt
        from torch.utils.data import DataLoader
        tdt.set_sharing_strategy()
        class D(torch.utils.data.Dataset):
            def __len__(self): return 1000
            def __getitem__(self, i): return torch.ones(3, 50, 50)
        for b in DataLoader(D(), batch_size=4, num_workers=2, prefetch_factor=4):
            print("one", flush=True)
            time.sleep(100)
    """)], stdout=subprocess.PIPE, env={**os.environ, "TENSORD_SOCKET": td.connection()["path"], "TENSORD_LENT_SECONDS": "0.3"})
    assert p.stdout.readline() == b"one\n"
    assert held()[0] > before[0]
    p.kill()
    p.wait()
    p.stdout.close()
    assert settles(before, 30) == before


def test_handles_outlast_a_slow_receiver(monkeypatch):
    monkeypatch.setattr("tensord.share._loans.LENT_SECONDS", 0.2)
    data = bytes(ForkingPickler.dumps(torch.ones(5000)))
    time.sleep(0.9)
    assert pickle.loads(data).sum() == 5000


def test_refuses_other_strategies():
    with pytest.raises(ValueError, match="file_system"):
        tdt.set_sharing_strategy("file_system")


# ---- what the daemon refuses goes torch's way


LOOP = """
    import os, signal, sys, torch, warnings
    import tensord as td, tensord.torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 24
        def __getitem__(self, k):
            return torch.full((256, 1024), float(k)), k  # 1 MB
    def numbers(loader):
        # The first of each row, and whether all of a batch is what it should be; batches are kept, so the daemon's memory fills.
        kept = []
        for x, k in loader:
            assert torch.equal(x, k.float().view(-1, 1, 1).expand_as(x))
            kept.append((x, k))
        return [int(n) for _, k in kept for n in k]
    def gone():
        os.kill(int(sys.argv[1]), signal.SIGKILL)
        try:
            while True:
                td.ones(1).item()
        except td.Error:
            pass
    tensord.torch.set_sharing_strategy()
"""


def _run(text, *args, socket):
    return script(textwrap.dedent(LOOP) + textwrap.dedent(text), *args, flags=("-W", "always"), TENSORD_SOCKET=socket)


def _told(stderr):
    return stderr.count("goes torch's own way where tensord's daemon refuses it")


@pytest.mark.parametrize("loader", ["DataLoader", "tensord.torch.DataLoader"])
def test_a_daemon_without_memory_ends_no_training(tmp_path, loader):
    """All batches are right, and one line says why they are slower; so too where a second loop is refused from its first batch on."""
    with daemon(str(tmp_path), "--memory", "16M") as d:
        r = _run(f"""
            loader = {loader}(Rows(), batch_size=4, num_workers=2)
            full = td.zeros(3 << 20)  # 12 MB
            assert numbers(loader) == list(range(24)) and numbers(loader) == list(range(24))
        """, socket=d.path)
    assert r.returncode == 0, r.stderr
    assert _told(r.stderr) == 1 and "memory is full" in r.stderr, r.stderr


def test_a_queue_of_a_daemon_without_memory(tmp_path):
    """What the sender has no room for is told in its own process; and the quota of a session is a refusal as well."""
    with daemon(str(tmp_path), "--memory", "64M", "--session-memory", "8M") as d:
        r = _run("""
            import torch.multiprocessing as mp
            q = mp.get_context("fork").Queue()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                for k in range(3):
                    q.put([torch.full((4, 1024, 1024), float(k)), torch.full((9,), float(k))])  # 16 MB
                    large, small = q.get()
                    assert large.min() == large.max() == k and small.tolist() == [k] * 9
            assert len(told) == 1 and told[0].category is RuntimeWarning, told
        """, socket=d.path)
    assert r.returncode == 0, r.stderr


def test_a_daemon_that_goes_ends_no_training_that_has_nothing_on_its_way(tmp_path):
    """Between two loops, and between two items of a queue: what is sent from then on arrives. What had come stays, as its memory is mapped."""
    process = subprocess.Popen([os.environ["TENSORD_DAEMON"], "--socket", f"{tmp_path}/s"], stderr=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: os.path.exists(f"{tmp_path}/s"))
        r = _run("""
            import torch.multiprocessing as mp
            q = mp.get_context("fork").Queue()
            q.put(torch.ones(3 << 20))
            had = q.get()
            before = list(DataLoader(Rows(), batch_size=4, num_workers=2))
            gone()
            assert numbers(DataLoader(Rows(), batch_size=4, num_workers=2)) == list(range(24))
            assert had.sum() == 3 << 20 and [int(n) for _, k in before for n in k] == list(range(24)) and before[5][0][3].mean() == 23
            for k in range(3):
                q.put([torch.full((3 << 20,), float(k)), had])
                x, again = q.get()
                assert x.min() == x.max() == k and again.sum() == 3 << 20
        """, process.pid, socket=f"{tmp_path}/s")
    finally:
        process.kill()
        process.wait()
    assert r.returncode == 0, r.stderr


def test_what_was_on_its_way_says_what_became_of_it(tmp_path):
    """It is lost with the daemon, and the next loop is complete."""
    process = subprocess.Popen([os.environ["TENSORD_DAEMON"], "--socket", f"{tmp_path}/s"], stderr=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: os.path.exists(f"{tmp_path}/s"))
        r = _run("""
            import torch.multiprocessing as mp
            q = mp.get_context("fork").SimpleQueue()
            q.put(torch.ones(3 << 20))
            gone()
            x = q.get()
            assert x.shape == (3 << 20,) and "without a value" in repr(x)
            try:
                x.sum()
            except td.ConnectionLost as e:
                assert "on its way from another process when the daemon went" in str(e) and "begin the loop again" in str(e), e
            else:
                raise SystemExit("it came")
            assert numbers(DataLoader(Rows(), batch_size=4, num_workers=2)) == list(range(24))
        """, process.pid, socket=f"{tmp_path}/s")
    finally:
        process.kill()
        process.wait()
    assert r.returncode == 0, r.stderr
