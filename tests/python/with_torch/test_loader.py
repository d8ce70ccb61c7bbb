"""tensord.torch.DataLoader beside torch's own: the same batches, and what it has beyond."""
import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

os.environ.setdefault("TENSORD_LENT_SECONDS", "2")
import tensord as td  # noqa: E402
from common import SLOW, at_rest, held, settles, wait_for  # noqa: E402

torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
import tensord.torch as tdt  # noqa: E402
from tensord.torch import DataLoader  # noqa: E402
from tensord.torch._loader import pin  # noqa: E402
from torch.utils.data import BatchSampler, Dataset, IterableDataset, SequentialSampler, get_worker_info  # noqa: E402
from torch.utils.data import DataLoader as Stock  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Numbers(Dataset):
    """Values, and random numbers of every kind that a transform might use."""

    def __init__(self, n=50):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"i": i, "x": torch.full((2000,), float(i)), "r": torch.rand(3), "p": random.random(), "t": (i, str(i)), "w": get_worker_info().id if get_worker_info() else -1}


class Parts(IterableDataset):
    """Each worker its own share, of different sizes."""

    def __init__(self, n=47):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        k, of = (info.id, info.num_workers) if info else (0, 1)
        for i in range(self.n):
            if (i * i) % 7 % of == k:
                yield torch.full((1500,), float(i)), torch.rand(2)


def same(a, b):
    if torch.is_tensor(a):
        return torch.is_tensor(b) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


def all_same(a, b):
    return len(a) == len(b) and all(map(same, a, b))


def both(dataset, epochs=1, generator=None, **arguments):
    results = []
    for kind in (DataLoader, Stock):
        torch.manual_seed(7)
        if generator is not None:
            arguments["generator"] = torch.Generator().manual_seed(generator)
        loader = kind(dataset, **arguments)
        random.seed(3)
        results.append([b for _ in range(epochs) for b in loader] + [len(loader) if not isinstance(dataset, IterableDataset) else 0, torch.rand(1)])
    return results


CASES = {
    "plain": dict(batch_size=8),
    "shuffled": dict(batch_size=8, shuffle=True, drop_last=True),
    "own generator": dict(batch_size=8, shuffle=True, generator=5, epochs=2),
    "no batches": dict(batch_size=None),
    "batch sampler": dict(batch_sampler=BatchSampler(SequentialSampler(range(20)), 3, False)),
    "sampler": dict(batch_size=4, sampler=[5, 3, 1, 9, 8]),
    "collate": dict(batch_size=4, collate_fn=lambda b: torch.stack([x["x"] for x in b]).numpy()[:, 0].tolist()),
    "init": dict(batch_size=8, worker_init_fn=lambda k: random.seed(k)),
}


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_as_torch(case, workers):
    a, b = both(Numbers(), num_workers=workers, **CASES[case])
    assert all_same(a, b)


@pytest.mark.parametrize("workers", [3])
def test_persistent_workers(workers):
    a, b = both(Numbers(), epochs=3, num_workers=workers, batch_size=8, shuffle=True, persistent_workers=True)
    assert all_same(a, b)


@pytest.mark.parametrize("arguments", [dict(batch_size=4), dict(batch_size=4, drop_last=True), dict(batch_size=None)], ids=str)
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable(workers, arguments):
    a, b = both(Parts(), num_workers=workers, epochs=2, **arguments)
    key = (lambda x: str(x)) if workers > 1 else None  # whose turn comes after one has ended depends on when that was noticed
    if key:
        a, b = sorted(a, key=key), sorted(b, key=key)
    assert all_same(a, b)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods(method):
    a, b = both(Numbers(20), num_workers=2, batch_size=4, multiprocessing_context=method)
    assert all_same(a, b)


def test_no_workers_need_no_daemon():
    script = """
        import tensord, tensord.torch, torch
        loader = tensord.torch.DataLoader(torch.arange(10), batch_size=4)
        print([b.tolist() for b in loader], tensord.connection())
    """
    r = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert r.stdout == "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] None\n", r.stderr


def test_out_of_order():
    came = torch.multiprocessing.Event()

    class Uneven(Numbers):
        def __getitem__(self, i):
            assert i or came.wait(60 * SLOW), "nothing comes before the first"
            return i

    it = iter(DataLoader(Uneven(20), batch_size=1, num_workers=2, in_order=False))
    got = [int(next(it))]
    came.set()
    got += map(int, it)
    assert sorted(got) == list(range(20)) and got[0] != 0


class Fails(Numbers):
    def __getitem__(self, i):
        if i == 9:
            raise KeyError("nine") if self.n == 30 else ValueError("nine is bad")
        return i


@pytest.mark.parametrize("n,kind", [(20, ValueError), (30, KeyError)])
def test_an_exception_of_a_worker(n, kind):
    loader = iter(DataLoader(Fails(n), batch_size=5, num_workers=2))
    assert next(loader).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(kind, match=r"(?s)Caught \w+ in DataLoader worker process 1.*Original Traceback.*in __getitem__.*nine"):
        next(loader)
    assert next(loader).tolist() == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_of_a_data_set_ends_no_epoch(workers):
    class Short(Numbers):
        def __getitem__(self, i):
            if i == 9:
                next(iter(()))
            return super().__getitem__(i)

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Short(), batch_size=4, num_workers=workers))


def test_an_iterator_whose_workers_another_has_says_so():
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, persistent_workers=True)
    old = iter(loader)
    next(old)
    new = iter(loader)
    with pytest.raises(RuntimeError, match="another pass"):
        next(old)
    assert len(list(new)) == 13


def test_ragged_and_unpicklable_batches():
    class Ragged(Numbers):
        def __getitem__(self, i):
            return torch.zeros(i + 2000)

    with pytest.raises(RuntimeError, match="Caught RuntimeError in DataLoader worker process 0"):
        next(iter(DataLoader(Ragged(), batch_size=5, num_workers=1)))
    with pytest.raises(Exception, match="cannot be pickled"):
        next(iter(DataLoader(Numbers(), batch_size=5, num_workers=1, collate_fn=lambda b: lambda: b)))


def test_timeout():
    class Slow(Numbers):
        def __getitem__(self, i):
            time.sleep(10_000)

    loader = iter(DataLoader(Slow(), num_workers=1, timeout=0.5))
    with pytest.raises(RuntimeError, match="timed out after 0.5 seconds"):
        next(loader)
    loader.close()  # it does not wait for the worker


def test_refuses():
    for arguments in (dict(on_worker_death="shrug"), dict(num_workers=-1), dict(batch_size=None, drop_last=True), dict(timeout=-1),
                      dict(persistent_workers=True), dict(shuffle=True, sampler=[1])):
        with pytest.raises(ValueError):
            DataLoader(Numbers(), **arguments)


def test_arrays_whose_elements_lie_on_top_of_each_other():
    np = pytest.importorskip("numpy")

    class Wide(Numbers):
        def __getitem__(self, i):
            return np.broadcast_to(np.float32(i), (1 << 30,))

    got = list(DataLoader(Wide(6), batch_size=2, num_workers=1, collate_fn=list))
    assert [(x.shape, x.strides, x[-1]) for b in got for x in b] == [((1 << 30,), (0,), i) for i in range(6)]


# ---- death ----------------------------------------------------------------------------------------------------------


class Dies(Numbers):
    """The first time that somebody asks for sample 21 the worker dies as it is told; `path` remembers."""

    def __init__(self, path, how, always=False):
        super().__init__(60)
        self.path, self.how, self.always = str(path), how, always

    def __getitem__(self, i):
        if i == 21 and (self.always or not os.path.exists(self.path)):
            open(self.path, "w").close()
            if self.how == "exit":
                os._exit(3)
            elif self.how == "crash":
                import ctypes

                ctypes.string_at(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


@pytest.mark.parametrize("how,words", [("kill", "was killed by SIGKILL"), ("exit", "exited unexpectedly with code 3"),
                                       ("crash", r"(?s)was killed by SIGSEGV.*__getitem__")])
def test_death_is_told(tmp_path, how, words):
    loader = DataLoader(Dies(tmp_path / "x", how), batch_size=4, num_workers=2)
    with pytest.raises(RuntimeError, match=words) as e:
        list(loader)
    assert "batch 5" in str(e.value) and "indices [20, 21, 22, 23]" in str(e.value) and "worker 1" in str(e.value)


@pytest.mark.parametrize("how", ["kill", "exit", "crash"])
def test_respawned_without_loss(tmp_path, how):
    torch.manual_seed(3)
    loader = DataLoader(Dies(tmp_path / "x", how), batch_size=4, num_workers=2, on_worker_death="respawn")
    got = list(loader)
    assert sum(w["respawned"] for w in loader.stats()["workers"]) == 1
    torch.manual_seed(3)
    assert all_same(got, list(Stock(Numbers(60), batch_size=4, num_workers=2)))  # the random numbers too


def test_who_always_dies_is_given_up(tmp_path):
    with pytest.raises(RuntimeError, match="The 3. death at the same batch"):
        list(DataLoader(Dies(tmp_path / "x", "kill", always=True), batch_size=4, num_workers=2, on_worker_death="respawn"))


def test_killed_at_any_moment():
    class Slow(Numbers):
        def __getitem__(self, i):
            time.sleep(0.002)
            return torch.full((3000,), float(i))

    rng = random.Random(1)
    loader = DataLoader(Slow(150), batch_size=3, num_workers=3, on_worker_death="respawn")
    seen, it = [], iter(loader)
    for n, b in enumerate(it):
        seen += b[:, 0].int().tolist()
        if n % 8 == 3:
            os.kill(rng.choice(it.stats()["workers"])["pid"], signal.SIGKILL)
    assert seen == list(range(150)) and sum(w["respawned"] for w in it.stats()["workers"]) >= 3


def test_respawned_in_an_iterable():
    class Slow(IterableDataset):
        def __iter__(self):
            for i in range(40):
                time.sleep(0.003)
                yield torch.full((2000,), float(i * 2 + get_worker_info().id))

    it = iter(DataLoader(Slow(), batch_size=2, num_workers=2, on_worker_death="respawn"))
    seen = []
    for n, b in enumerate(it):
        seen += b[:, 0].int().tolist()
        if n in (5, 20):
            os.kill(it.stats()["workers"][n % 2]["pid"], signal.SIGKILL)
    assert sorted(seen) == list(range(80)) and len(seen) == 80


# ---- state ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [dict(num_workers=0), dict(num_workers=3), dict(num_workers=2, generator=9), dict(num_workers=2, iterable=True),
                                       dict(num_workers=0, iterable=True), dict(num_workers=2, persistent_workers=True)], ids=str)
@pytest.mark.parametrize("stop", [0, 5, 11])
def test_state_in_the_middle(arguments, stop):
    arguments = dict(arguments)
    iterable, seed = arguments.pop("iterable", False), arguments.pop("generator", None)

    def make():
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        more = {} if iterable else {"shuffle": True}
        return DataLoader(Parts() if iterable else Numbers(), batch_size=4, generator=generator, **arguments, **more)

    if stop == 0 and not arguments["num_workers"]:
        pytest.skip("the sampler draws its seed with the first batch, from the same numbers as the samples")
    torch.manual_seed(11)
    first = make()
    it = iter(first)
    head = list(itertools.islice(it, stop))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rng = torch.get_rng_state()
    rest = list(it)
    assert len(head) == stop and rest
    torch.manual_seed(99)
    random.seed(99)
    second = make()
    second.load_state_dict(state)
    if not arguments["num_workers"]:
        torch.set_rng_state(rng)  # the samples' random numbers come from this process
        for b in rest:
            not iterable and b.pop("p")
    again = list(second)
    if not arguments["num_workers"]:
        for b in again:
            not iterable and b.pop("p")
    assert all_same(again, rest)
    assert len(list(second)) == stop + len(rest)  # the epoch after is a whole one


def test_state_out_of_order():
    torch.manual_seed(1)
    loader = DataLoader(Numbers(), batch_size=4, num_workers=3, in_order=False, shuffle=True)
    it = iter(loader)
    head = [i for b in itertools.islice(it, 6) for i in b["i"].tolist()]
    state = loader.state_dict()
    del it
    loader.load_state_dict(state)
    assert sorted(head + [i for b in loader for i in b["i"].tolist()]) == list(range(50))


def test_state_of_a_stateful_data_set():
    class Counting(IterableDataset):
        def __init__(self):
            self.at = 0

        def __iter__(self):
            while self.at < 30:
                self.at += 1
                yield self.at * 10 + get_worker_info().id
            self.at = 0

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, s):
            self.at = s["at"]

    loader = DataLoader(Counting(), batch_size=4, num_workers=2)
    it = iter(loader)
    head = [next(it) for _ in range(3)]
    state = loader.state_dict()
    rest = list(it)
    assert state["behind"][0]["state"] == {"at": 8}
    second = DataLoader(Counting(), batch_size=4, num_workers=2)
    second.load_state_dict(state)
    assert all_same(list(second), rest) and len(head) == 3


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("lazy", [True, False])
def test_state_when_the_program_draws_after_iter(workers, lazy):
    """A model is often made after iter(loader), and before its first batch."""
    class Eager:
        def __iter__(self):
            return iter(torch.randperm(50).tolist())

        def __len__(self):
            return 50

    def make():
        if lazy:
            return DataLoader(Numbers(), batch_size=4, num_workers=workers, shuffle=True)
        return DataLoader(Numbers(), batch_size=None, num_workers=workers, sampler=Eager())

    first = make()
    it = iter(first)
    torch.rand(10)
    head = [next(it) for _ in range(3)]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = [b["i"] for b in it]
    second = make()
    second.load_state_dict(state)
    it = iter(second)
    torch.rand(3)
    again = [next(it)["i"]]
    third = make()
    third.load_state_dict(pickle.loads(pickle.dumps(second.state_dict())))
    again += [b["i"] for b in third]
    assert len(head) == 3 and all_same(again, rest)


def test_state_of_another_loader():
    loader = DataLoader(Numbers(), batch_size=4)
    it = iter(loader)
    for _ in range(9):
        next(it)
    other = DataLoader(Numbers(), batch_size=8)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="only 7; .*another data set, sampler or batch size"):
        iter(other)


def test_state_refuses():
    loader = DataLoader(Numbers(), num_workers=2)
    for bad in ({}, {"version": 9}, None):
        with pytest.raises(ValueError, match="no state"):
            loader.load_state_dict(bad)
    parts = DataLoader(Parts(), num_workers=2)
    next(iter(parts))
    other = DataLoader(Parts(), num_workers=1)
    other.load_state_dict(parts.state_dict())
    with pytest.raises(ValueError, match="num_workers=2"):
        iter(other)


# ---- what is left ---------------------------------------------------------------------------------------------------


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"  # a zombie has ended
    except FileNotFoundError:
        return False


def test_nothing_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr("tensord.share._loans.LENT_SECONDS", 0.3)
    list(DataLoader(Numbers(), batch_size=4, num_workers=2))
    before = at_rest()
    list(DataLoader(Numbers(), batch_size=4, num_workers=2))
    assert settles(before) == before
    it = iter(DataLoader(Numbers(), batch_size=4, num_workers=2))
    next(it)
    del it  # in the middle
    assert settles(before) == before
    with pytest.raises(RuntimeError):
        list(DataLoader(Dies(tmp_path / "x", "kill"), batch_size=4, num_workers=2))
    assert settles(before) == before
    list(DataLoader(Dies(tmp_path / "y", "kill"), batch_size=4, num_workers=2, on_worker_death="respawn"))
    assert settles(before) == before


class Large(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        return torch.full((1 << 20,), float(i))


@pytest.mark.parametrize("kind", ["own", "one line"])
def test_memory_is_bounded_and_free_at_once(kind, monkeypatch):
    """Batches of 16 MB: as many as are under way or in hand are in use, little more is committed, and what a loader that is dropped in the middle
    leaves is free with its workers, not only when its handles' time has passed."""
    monkeypatch.setattr("tensord.share._loans.LENT_SECONDS", 1000)
    tdt.set_sharing_strategy()
    try:
        before = at_rest()[0]
        it = iter((DataLoader if kind == "own" else Stock)(Large(), batch_size=4, num_workers=2))
        for _ in range(12):
            batch = next(it)
        size = batch.numel() * batch.element_size()
        now = {r["key"]: r["value"] for r in td.status()}
        assert now["bytes_used"] - before <= 6.1 * size  # 2 workers with 2 each, one in hand, one not yet returned
        assert now["bytes_committed"] - now["bytes_warm"] <= 9 * size + before
        del it, batch
        assert wait_for(lambda: held()[0] <= before), (before, held())
    finally:
        tdt.set_sharing_strategy("torch")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_by_a_trainer_that_ends(how):
    before = at_rest()
    p = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
        import os, time, torch, tensord.torch as tdt
        class D(torch.utils.data.Dataset):
            def __len__(self): return 1000
            def __getitem__(self, i): return torch.ones(3, 50, 50)
        it = iter(tdt.DataLoader(D(), batch_size=4, num_workers=2, prefetch_factor=4))
        next(it)
        print(*[w["pid"] for w in it.stats()["workers"]], flush=True)
        time.sleep(100)
    """)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "TENSORD_SOCKET": td.connection()["path"], "TENSORD_LENT_SECONDS": "0.3"})
    workers = [int(w) for w in p.stdout.readline().split()]
    assert len(workers) == 2 and wait_for(lambda: held()[3] == before[3] + 3), held()  # the second may only be coming
    p.send_signal(how)
    p.wait()
    p.stdout.close()
    assert settles(before) == before
    assert wait_for(lambda: not any(map(runs, workers)))


def test_stats():
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2)
    assert loader.stats()["batches"] == 0
    list(loader)
    s = loader.stats()
    assert s["batches"] == 13 and s["seconds"] > 0 and [w["batches"] for w in s["workers"]] == [7, 6]
    assert all(w["fetch"] > 0 and w["collate"] > 0 and w["send"] > 0 for w in s["workers"])


def test_nothing_is_pinned_for_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    batch = {"x": torch.ones(2)}
    assert pin(batch) is batch
