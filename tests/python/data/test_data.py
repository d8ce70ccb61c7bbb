"""tensord.data without torch: DataLoader with NumPy's arrays and tensors out, SharedList, SharedDict."""
import collections
import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap

import pytest

os.environ.setdefault("TENSORD_LENT_SECONDS", "2")
import tensord as td  # noqa: E402
from common import at_rest, held, settles, wait_for  # noqa: E402
from tensord.data import DataLoader, IterableDataset, SharedDict, SharedList, get_worker_info  # noqa: E402
from tensord.share import _loans  # noqa: E402

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")


class Images:
    def __init__(self, n=30):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": np.full((40, 50), i, dtype="float32"), "y": i, "name": str(i), "r": random.random()}


class Rows(Images):
    def __getitem__(self, i):
        return td.full((3, 4), float(i)), i


IN_BATCHES = [[0, 1], [2]]


@pytest.mark.parametrize("why, options", [(why, options) for why, *all_options in (
    ("out is", {"out": "torch"}), ("num_workers is", {"num_workers": -1}), ("timeout is", {"num_workers": 1, "timeout": -1}), ("prefetch_factor is", {"num_workers": 1, "prefetch_factor": 0}),
    ("need num_workers", {"prefetch_factor": 2}, {"persistent_workers": True}, {"timeout": 1}),
    ("an order of its own", *({"dataset": iter(range(3)), **x} for x in ({"shuffle": True}, {"sampler": [0]}, {"batch_sampler": IN_BATCHES}))),
    ("sampler and shuffle", {"sampler": [0], "shuffle": True}),
    ("batch_sampler excludes", *({"batch_sampler": IN_BATCHES, **x} for x in ({"batch_size": 2}, {"shuffle": True}, {"sampler": [0]}, {"drop_last": True}))),
    ("makes no batches", {"batch_size": None, "drop_last": True})) for options in all_options])
def test_options_that_exclude_each_other(why, options):
    """Each alone is refused, and for its own reason."""
    with pytest.raises(ValueError, match=why):
        DataLoader(**{"dataset": Images(3), **options})


def test_options_that_go_together():
    assert [len(b["y"]) for b in DataLoader(Images(3), batch_sampler=IN_BATCHES)] == [2, 1]
    assert [b["y"] for b in DataLoader(Images(3), batch_size=None, sampler=[2, 0])] == [2, 0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_of_any_size(workers):
    """More samples than one request takes tensors."""
    x, y = next(iter(DataLoader(Rows(2048), batch_size=2048, num_workers=workers, out="tensord")))
    assert x.shape == (2048, 3, 4) and td.equal(x[:, 2, 3].long(), td.arange(2048)) and td.equal(td.asarray(y), td.arange(2048))


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return all(same(a[k], b[k]) for k in a) and len(a) == len(b)
    return a == b


def all_same(a, b):
    return len(a) == len(b) and all(map(same, a, b))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_batches(method):
    batches = list(DataLoader(Images(), batch_size=8, num_workers=2, multiprocessing_context=method))
    assert [b["y"].tolist() for b in batches] == [list(range(8)), list(range(8, 16)), list(range(16, 24)), list(range(24, 30))]
    assert batches[1]["x"].shape == (8, 40, 50) and batches[1]["x"][3, 0, 0] == 11 and batches[1]["name"][0] == "8"
    batches[1]["x"] += 1  # may be written


def test_same_without_workers():
    def batches(workers, epochs=2):
        loader = DataLoader(Images(), batch_size=4, shuffle=True, generator=random.Random(5), num_workers=workers)
        return [b for _ in range(epochs) for b in loader]

    alone, two = batches(0), batches(2)
    for b in alone + two:
        del b["r"]
    assert all_same(alone, two) and alone[0]["y"].tolist() != alone[8]["y"].tolist()


def test_tensors_out():
    for workers in (0, 2):
        b = next(iter(DataLoader(Images(), batch_size=4, num_workers=workers, out="tensord")))
        assert isinstance(b["x"], td.Tensor) and b["x"].sum().item() == 2000 * 6 and b["y"].tolist() == [0, 1, 2, 3]


def test_arrays_of_a_collate_function():
    odd = np.zeros(3, dtype="uint16")
    got = list(DataLoader(range(6), batch_size=2, num_workers=2, collate_fn=lambda b: (np.full((60, 70), b[0]).T, np.arange(2000)[::2], odd)))
    assert [int(x[0, 0]) for x, _, _ in got] == [0, 2, 4] and got[0][0].shape == (70, 60) and got[0][1][1] == 2 and got[0][2].dtype == "uint16"


def test_iterable_and_info():
    class Stream(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            yield from range(info.id, 20, info.num_workers)

    got = [x for b in DataLoader(Stream(), batch_size=3, num_workers=2) for x in b.tolist()]
    assert sorted(got) == list(range(20))


def test_no_daemon_without_workers():
    r = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import sys, tensord, numpy as np
        from tensord.data import DataLoader
        print([b.tolist() for b in DataLoader(np.arange(5), batch_size=2)], tensord.connection(), "torch" in sys.modules)
    """)], capture_output=True, text=True, timeout=60)
    assert r.stdout == "[[0, 1], [2, 3], [4]] None False\n", r.stderr


@pytest.mark.parametrize("stop", [0, 3, 7])
@pytest.mark.parametrize("workers", [0, 2])
def test_state(workers, stop):
    def make():
        return DataLoader(Images(), batch_size=4, shuffle=True, num_workers=workers)

    random.seed(4)
    first = make()
    it = iter(first)
    head = list(itertools.islice(it, stop))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = list(it)
    random.seed(5)
    second = make()
    second.load_state_dict(state)
    again = list(second)
    if not workers:  # the samples' random numbers come from this process
        for b in rest + again:
            del b["r"]
    if workers or stop:  # else the sampler draws its order with the first batch
        assert all_same(again, rest)
    assert len(head) + len(again) == 8


def test_respawn():
    loader = DataLoader(Images(60), batch_size=2, num_workers=2, on_worker_death="respawn")
    it, seen = iter(loader), []
    for n, b in enumerate(it):
        seen += b["y"].tolist()
        if n in (4, 15):
            os.kill(it.stats()["workers"][n % 2]["pid"], signal.SIGKILL)
    assert seen == list(range(60))


class Deadly(Images):
    """Whoever looks at one of these for the first time dies of it."""

    def __init__(self, n, deadly, place):
        super().__init__(n)
        self.deadly, self.place = deadly, place

    def __getitem__(self, i):
        if i in self.deadly:
            try:
                (self.place / str(i)).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os._exit(7)
        return super().__getitem__(i)


def test_deaths_at_different_batches_do_not_add_up(tmp_path):
    """One worker dies at each second batch, and twice at one: no batch is its third."""
    deadly = (0, 1, 4, 8, 12, 16)  # two of the first batch
    loader = DataLoader(Deadly(20, deadly, tmp_path), batch_size=2, num_workers=1, on_worker_death="respawn")
    assert [i for b in loader for i in b["y"].tolist()] == list(range(20))
    assert loader.stats()["workers"][0]["respawned"] == len(deadly)


def test_the_third_death_at_one_batch_is_the_last(tmp_path):
    loader = DataLoader(Deadly(20, (8, 9, 10, 11, 12), tmp_path), batch_size=4, num_workers=1, on_worker_death="respawn")
    it = iter(loader)
    assert [next(it)["y"].tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(RuntimeError, match=r"batch 2 \(indices \[8, 9, 10, 11\]\)(?s:.*)The 3. death at the same batch"):
        next(it)


def all_came(it):
    """All batches that its one worker was asked for, and that still wait to be unpacked."""
    member = it.pool.members[0]
    it.pool._take_messages(member)
    return not member.pending


def test_batches_that_wait_when_a_worker_dies_stay_valid(monkeypatch):
    """What the dead one sent is unpacked later. What the next one sent, and nobody unpacked, is free when the loader has ended, as after no death:
    not only when the time of what is lent is over."""
    monkeypatch.setattr(_loans, "LENT_SECONDS", 10_000.0)  # in workers, which are forked
    before = at_rest()
    loader = DataLoader(Images(80), batch_size=2, num_workers=1, prefetch_factor=4, on_worker_death="respawn", multiprocessing_context="fork")
    it = iter(loader)
    seen = [next(it)["y"].tolist() for _ in range(6)]
    assert wait_for(lambda: all_came(it)) and len(it.tasks) == 4
    os.kill(it.stats()["workers"][0]["pid"], signal.SIGKILL)
    for _ in range(8):
        b = next(it)
        seen.append(b["y"].tolist())
        assert b["x"][:, 7, 7].tolist() == b["y"].tolist()
    assert it.stats()["workers"][0]["respawned"] == 1 and wait_for(lambda: all_came(it))
    assert seen == [[2 * n, 2 * n + 1] for n in range(14)]
    loader.close()
    del b, it, loader
    assert settles(before) == before


def test_failures():
    with pytest.raises(ValueError, match=r"(?s)DataLoader worker process 0.*one shape"):
        next(iter(DataLoader(range(5), batch_size=2, num_workers=1, collate_fn=lambda b: td.data._plain.collate([np.zeros(2), np.zeros(3)]))))
    with pytest.raises(TypeError, match="give a collate_fn"):
        next(iter(DataLoader([object()] * 3)))
    for bad in (dict(out="torch"), dict(num_workers=-1), dict(timeout=3), dict(batch_size=None, drop_last=True), dict(shuffle=True, sampler=[1]),
                dict(on_worker_death="x"), dict(batch_size=0)):
        with pytest.raises(ValueError):
            DataLoader(range(4), **bad)


LAID = {"one number": lambda i: np.broadcast_to(np.float32(i), (100, 1000, 1000)), "a row": lambda i: np.broadcast_to(np.arange(i, i + 1000.0), (100_000, 1000)),
        "a column": lambda i: np.broadcast_to(np.arange(i, i + 1000)[:, None], (1000, 1_000_000)),
        "windows": lambda i: np.lib.stride_tricks.sliding_window_view(np.arange(i, i + 20_000.0), 10_000), "backwards": lambda i: np.broadcast_to(np.arange(i, i + 2000.0)[::-2], (100_000, 1000)),
        "texts": lambda i: np.broadcast_to(np.array(["ab", "c"]), (1_000_000, 2)), "written": lambda i: np.lib.stride_tricks.as_strided(np.arange(i, i + 9.0), (3, 10_000_000), (8, 0))}


class Laid:
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return {"x": LAID[self.how](i), "y": [LAID[self.how](i + 1)[:2]]}


@pytest.mark.parametrize("how", LAID)
def test_arrays_whose_elements_lie_on_top_of_each_other(how):
    """They come as what is in memory, not as what they look like."""
    before = at_rest()[0]
    samples = list(DataLoader(Laid(how), batch_size=None, num_workers=1))
    items = SharedList([Laid(how)[i] for i in range(4)])
    assert held()[0] - before < 12 << 20 and len(items[3]["y"]) == 1
    for i, got in enumerate([*samples, items[0], items[1]]):
        i = i if i < 12 else i - 12
        expected = LAID[how](i)
        x = got["x"]
        assert x.shape == expected.shape and x.strides == expected.strides and x.dtype == expected.dtype and x.flags.writeable == expected.flags.writeable
        places = (slice(None, None, max(1, x.shape[0] // 7)), ..., slice(None, None, max(1, x.shape[-1] // 1000)))
        assert np.array_equal(x[places], expected[places]) and np.array_equal(x[-1, ..., -1], expected[-1, ..., -1])
        assert np.array_equal(got["y"][0][places], LAID[how](i + 1)[:2][places])


def test_arrays_that_only_look_alike():
    from tensord.core import _overlapping

    for a in (np.arange(12.0), np.arange(12.0)[::-1], np.arange(12.0).reshape(3, 4).T[:, ::2], np.zeros((0, 3)), np.array(5), np.broadcast_to(np.array(None), 9),
              np.zeros(3, dtype="f8,i4")["f1"], np.broadcast_to(np.float64(1), 1), np.zeros(3, "V0")):
        assert _overlapping.reduced(a) is None
    for a in (np.broadcast_to(np.int8(3), (2, 2)), np.lib.stride_tricks.sliding_window_view(np.arange(9)[::-1], 5)[::2, ::-1],
              np.broadcast_to(np.arange(24).reshape(2, 3, 4)[:, ::-1, ::2], (5, 2, 3, 2))):
        make, arguments = _overlapping.reduced(a)
        assert arguments[0].size < a.size and np.array_equal(make(*arguments), a) and make(*arguments).strides == a.strides


# ---- SharedList, SharedDict -----------------------------------------------------------------------------------------

ITEMS = [1, "two", (3, [4]), {"five": 6.0}, None, b"7", "é" * 1000]


def test_list():
    x = SharedList(ITEMS)
    assert list(x) == ITEMS and x == ITEMS and len(x) == 7 and x[-1] == ITEMS[-1] and x[1:3] == ITEMS[1:3] and "two" in x and 9 not in x
    assert list(reversed(x)) == ITEMS[::-1] and list(SharedList([])) == []
    for i in (7, -8):
        with pytest.raises(IndexError):
            x[i]
    y = pickle.loads(pickle.dumps(x))
    assert y == x and len(pickle.dumps(x)) < 600


def test_dict():
    d = {f"key {i}": (i, str(i)) for i in range(1000)} | {(1, "a"): 2, 7: "seven", 1.5: None}
    x = SharedDict(d)
    assert len(x) == 1003 and dict(x.items()) == d and all(x[k] == v for k, v in d.items()) and list(x) == list(d)
    assert x[7.0] == "seven" and x[(True, "a")] == 2 and x.get("no", 5) == 5 and "no" not in x and 1.5 in x and len(SharedDict({})) == 0
    with pytest.raises(KeyError):
        x["no"]
    with pytest.raises(TypeError):
        SharedDict({object(): 1})
    assert pickle.loads(pickle.dumps(x)) == d


def _private(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Dirty", "Private_Clean")))


def _grown(x):
    """KB of memory of its own that a forked child has more, after it has looked at every item."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = _private("self")
        for item in x:
            item[0]
        os.write(theirs, str(_private("self") - before).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as f:
        grown = int(f.read())
    os.waitpid(pid, 0)
    return grown


def test_no_growth_by_copy_on_write():
    items = [(f"name {i}", str(i), "x" * 50) for i in range(60_000)]
    plain = _grown(items)
    shared = _grown(SharedList(items))
    assert plain > 4000 and shared < plain / 4, (plain, shared)


def test_read_by_workers():
    names = SharedList([f"image {i}" for i in range(20)])
    labels = SharedDict({f"image {i}": i for i in range(20)})

    class Data:
        def __len__(self):
            return 20

        def __getitem__(self, i):
            return labels[names[i]]

    assert [x for b in DataLoader(Data(), batch_size=5, num_workers=2) for x in b.tolist()] == list(range(20))


def test_nothing_is_left():
    before = at_rest()
    list(DataLoader(Images(), batch_size=4, num_workers=2))
    x = SharedList(ITEMS)
    del x
    assert settles(before) == before


def orders(**more):
    """What is drawn for a script's data, as it writes it down."""
    from tensord.utils import data

    samples, loader = list(range(20)), data.DataLoader(list(range(20)), batch_size=5, shuffle=True, **more)
    return ([part.indices for part in data.random_split(samples, [0.7, 0.3])], [[b.tolist() for b in loader] for _ in range(2)], list(data.RandomSampler(samples)),
            list(data.SubsetRandomSampler([3, 5, 8, 13])), list(data.WeightedRandomSampler([1.0] * 5, 30)), td.initial_seed())


@pytest.mark.parametrize("workers", (0, 2))
def test_a_seed_begins_the_orders_anew(workers):
    td.manual_seed(4)
    first, python = orders(num_workers=workers), random.getstate()
    assert first[1][0] != first[1][1] and sorted(sum(first[1][0], [])) == list(range(20)) and first[-1] == 4
    td.manual_seed(4)
    assert random.getstate() == python, "Python's own numbers are the program's"
    assert orders(num_workers=workers) == first
    td.manual_seed(5)
    assert orders(num_workers=workers)[1] != first[1]


def test_a_generator_of_ones_own():
    from tensord.utils import data

    dice = td.Generator(device="cpu").manual_seed(42)
    parts = [part.indices for part in data.random_split(range(10), [6, 4], generator=dice)]
    state, then = dice.get_state(), [b.tolist() for b in data.DataLoader(range(10), shuffle=True, generator=dice)]
    dice.set_state(state)
    assert [b.tolist() for b in data.DataLoader(range(10), shuffle=True, generator=dice)] == then
    assert [part.indices for part in data.random_split(range(10), [6, 4], generator=td.Generator().manual_seed(42))] == parts
    assert dice.initial_seed() == 42 and dice.seed() == dice.initial_seed() != 42
    with pytest.raises(td.Unsupported):
        td.Generator("cuda")


def test_samplers_of_a_script():
    from tensord.utils import data

    both = data.ConcatDataset([[1, 2], [3], []])
    assert [both[k] for k in range(-3, 3)] == [1, 2, 3, 1, 2, 3] and len(both) == 3
    with pytest.raises(IndexError):
        both[3]
    assert set(data.WeightedRandomSampler([0, 0.5, 0], 20)) == {1} and sorted(data.WeightedRandomSampler(td.tensor([1.0, 0, 9]), 2, replacement=False)) == [0, 2]
    with pytest.raises(ValueError):
        data.WeightedRandomSampler([1.0, 0], 2, replacement=False)
    for bad, kind in ((lambda: data.RandomSampler("ab", replacement=1), TypeError), (lambda: data.RandomSampler("ab", num_samples=0), ValueError),
                      (lambda: data.RandomSampler("ab", num_samples=1.5), ValueError), (lambda: data.BatchSampler(range(3), 2, 1), ValueError)):
        with pytest.raises(kind, match="should be a"):
            bad()
    assert len(list(data.RandomSampler("abc", num_samples=7))) == 7 and set(data.RandomSampler("ab", replacement=True, num_samples=40)) == {0, 1}
    assert issubclass(data.WeightedRandomSampler, data.Sampler)


def counted(n):
    """An iterable data set; its class knows no worker."""
    from tensord.utils import data

    class Counted(data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

        def __len__(self):
            return n

    return Counted()


class Squares:
    """Answers a whole batch at once."""

    def __len__(self):
        return 3

    def __getitem__(self, k):
        raise AssertionError("one by one")

    def __getitems__(self, ks):
        return [k * k for k in ks]


def test_data_sets_beside_and_behind_each_other():
    from tensord.utils import data

    rows = data.TensorDataset(td.arange(3), td.arange(3) * 2)
    both = data.StackDataset(rows, "abc")
    assert len(both) == 3 and both[1][1] == "b" and [int(x) for x in both[1][0]] == [1, 2]
    named = data.StackDataset(x=[1, 2, 3], y=Squares())
    assert named.__getitems__([0, 2]) == [{"x": 1, "y": 0}, {"x": 3, "y": 4}]
    assert [{k: v.tolist() for k, v in b.items()} for b in data.DataLoader(named, batch_size=2)] == [{"x": [1, 2], "y": [0, 1]}, {"x": [3], "y": [4]}]
    for wrong, said in ((lambda: data.StackDataset(), "At least one"), (lambda: data.StackDataset([1], a=[1]), "both types"), (lambda: data.StackDataset([1], [1, 2]), "Size mismatch")):
        with pytest.raises(ValueError, match=said):
            wrong()
    Squares.__getitems__, right = lambda self, ks: [0], Squares.__getitems__
    with pytest.raises(ValueError, match="Expected 2, got 1"):
        named.__getitems__([0, 2])
    Squares.__getitems__ = right
    chain = counted(2) + counted(3)
    assert isinstance(chain, data.ChainDataset) and list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    assert [b.tolist() for b in data.DataLoader(chain, batch_size=3)] == [[0, 1, 0], [1, 2]]
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(data.ChainDataset([[1, 2]]))
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([counted(2)])
    longer = rows + rows
    assert isinstance(longer, data.ConcatDataset) and len(longer) == 6 and data.Dataset[int] and data.IterableDataset[int] and data.Sampler[int]


def test_converted():
    from tensord.utils import data

    made = data.default_convert({"a": np.ones(2, np.float32), "b": (np.float64(2), "x"), "c": [td.ones(1), 3]})
    assert made["a"].tolist() == [1, 1] and td.is_tensor(made["b"][0]) and made["b"][1] == "x" and made["c"][1] == 3 and isinstance(made["b"], list)
    kind = collections.namedtuple("kind", "x y")
    assert data.default_convert(kind(np.arange(2), None)).x.dtype is td.int64 and data.default_convert(np.array(["a"])).tolist() == ["a"]


@pytest.mark.parametrize("n, ranks, drop", [(10, 3, False), (10, 3, True), (9, 3, False), (2, 5, False), (2, 5, True)])
def test_each_rank_has_its_places(monkeypatch, n, ranks, drop):
    from tensord.utils import data

    torch = pytest.importorskip("torch")
    theirs = torch.utils.data.DistributedSampler
    for k in range(ranks):
        if n >= ranks or not drop:
            assert list(data.DistributedSampler(range(n), ranks, k, shuffle=False, drop_last=drop)) == list(theirs(range(n), ranks, k, shuffle=False, drop_last=drop))
    mixed = [data.DistributedSampler(range(n), ranks, k, seed=3, drop_last=drop) for k in range(ranks)]
    all_of_it = [list(s) for s in mixed]
    assert len({len(s) for s in mixed}) == 1 and [len(x) for x in all_of_it] == [len(s) for s in mixed]
    assert set(sum(all_of_it, [])) == set(range(n)) or drop
    for s in mixed:
        s.set_epoch(1)
    assert n < 5 or [list(s) for s in mixed] != all_of_it
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(RuntimeError, match="WORLD_SIZE"):
        data.DistributedSampler(range(n))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert data.DistributedSampler(range(n)).rank == 1
    with pytest.raises(ValueError, match="Invalid rank 2"):
        data.DistributedSampler(range(n), 2, 2)


def told_seed(k):
    random.seed(td.initial_seed())


class Drawn:
    def __len__(self):
        return 4

    def __getitem__(self, k):
        return td.initial_seed() - get_worker_info().seed


class Tensors:
    def __len__(self):
        return 6

    def __getitem__(self, k):
        return td.rand(2)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_tensors_drawn_in_workers_begin_anew_with_the_seed(method):
    """As in PyTorch: worker k has the seed that the loader drew, and k more."""
    from tensord.utils import data

    def drawn(seed):
        td.manual_seed(seed)
        return [b.tolist() for b in data.DataLoader(Tensors(), batch_size=1, num_workers=2, multiprocessing_context=method)]

    first = drawn(4)
    assert drawn(4) == first and drawn(5) != first
    assert len({str(b) for b in first}) == 6  # each worker draws its own, and goes on from batch to batch


def test_a_worker_knows_its_seed():
    from tensord.utils import data

    assert [b.tolist() for b in data.DataLoader(Drawn(), batch_size=2, num_workers=2, worker_init_fn=told_seed)] == [[0, 0], [0, 0]]


def test_annotations_name_what_is_in_a_data_set():
    """def train(batches: DataLoader[Tensor]) is evaluated where it stands."""
    for name in "DataLoader Dataset IterableDataset Subset ConcatDataset ChainDataset StackDataset Sampler".split():
        assert getattr(td.utils.data, name)[int].__origin__ is getattr(td.utils.data, name)
    made = td.utils.data.DataLoader[int](td.utils.data.Subset[int](td.utils.data.TensorDataset(td.arange(6)), [1, 3]), batch_size=2)
    assert [b[0].tolist() for b in made] == [[1, 3]]
