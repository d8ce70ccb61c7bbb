"""pool="name": one set of workers for all ranks. Each rank gets what it would get alone, whoever is killed; and nothing is left."""
import faulthandler
import importlib.util
import json
import multiprocessing
import os
import pickle
import random
import select
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import resource_tracker

import pytest

os.environ.setdefault("TENSORD_LENT_SECONDS", "1")
import tensord as td  # noqa: E402
from common import SLOW, at_rest, held, settles, wait_for  # noqa: E402
from tensord.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402
from tensord.data._host import address_of  # noqa: E402
from tensord.data._likeness import differences, digest, parts  # noqa: E402

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
have_torch = importlib.util.find_spec("torch") is not None  # imported only by ranks that use it


class Numbers:
    """Values, random numbers of every kind that a transform might use, and where they were drawn."""

    def __init__(self, n=48, pause=0.0):
        self.n, self.pause = n, pause

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.pause)
        info, torch = get_worker_info(), sys.modules.get("torch")
        more = {}
        if info is None:
            info, more = torch.utils.data.get_worker_info(), {"t": torch.rand(2)}
        return {"i": i, "x": np.full(2000, i, "float32"), "r": random.random(), "n": np.random.rand(), "w": info.id, "seed": info.seed % 1000,
                "pid": os.getpid(), **more}


class Parts(IterableDataset):
    """Each worker its share; counts in itself, so two who iterate the same object would disturb each other."""

    def __init__(self, n=40):
        self.n, self.at = n, 0

    def __iter__(self):
        info = get_worker_info()
        while self.at < self.n:
            self.at += 1
            yield {"i": self.at * 10 + info.id, "x": np.full(1500, self.at, "float32"), "r": random.random(), "pid": os.getpid()}


def plain(x):
    """Without tensors, and without the process that made it."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items() if k != "pid"}
    return x.tolist() if hasattr(x, "tolist") else x


def loader_of(kind, seed, pool, dataset=None, **more):
    dataset = dataset or Numbers()
    if not isinstance(dataset, Parts):
        more.setdefault("shuffle", True)
    if kind == "torch":
        import torch
        from tensord.torch import DataLoader as Torch

        return Torch(dataset, batch_size=4, num_workers=2, pool=pool, generator=torch.Generator().manual_seed(seed), **more)
    return DataLoader(dataset, batch_size=4, num_workers=2, pool=pool, generator=random.Random(seed), **more)


def alone(kind, seed, epochs=1, **more):
    loader = loader_of(kind, seed, None, **more)
    return [plain(b) for _ in range(epochs) for b in loader]


def rank(link, kind, seed, pool, epochs=1, stop=-1, **more):
    """A rank: tells each batch, and waits behind `stop` of them until it is told to go on."""
    faulthandler.register(signal.SIGUSR2, file=2)
    try:
        loader = loader_of(kind, seed, pool, **more)
        for _ in range(epochs):
            for n, b in enumerate(loader):
                link.send((plain(b), b["pid"].tolist()[0]))
                if n == stop:
                    link.recv()
        link.send("end")
        link.recv()
    except Exception as e:
        link.send(e)


class Rank:
    def __init__(self, method, *arguments, **more):
        context = multiprocessing.get_context(method)
        self.link, theirs = context.Pipe()
        self.process = context.Process(target=rank, args=(theirs, *arguments), kwargs=more)
        self.process.start()
        theirs.close()
        self.batches, self.pids, self.end = [], set(), None

    def read(self, n=None):
        """So many batches, or all."""
        while (n is None or len(self.batches) < n) and self.end is None:
            if not self.link.poll(60 * SLOW):
                pytest.fail(f"the rank says nothing any more after {len(self.batches)} batches; what runs:\n{self.where()}")
            try:
                got = self.link.recv()
            except EOFError:
                got = "killed"
            if isinstance(got, tuple):
                self.batches.append(got[0])
                self.pids.add(got[1])
            else:
                self.end = got
        if n is None or len(self.batches) < n:
            print(f"rank {self.process.pid} after {len(self.batches)} batches: {self.end!r}")  # shown when the test fails
        return self.batches

    def where(self):
        """What all the processes wait in; where this one stands in Python goes to its stderr, which is shown too."""
        os.kill(self.process.pid, signal.SIGUSR2)
        time.sleep(1)
        return subprocess.run(["ps", "-eo", "pid,ppid,stat,wchan:20,args", "--forest"], capture_output=True, text=True).stdout[-6000:]

    def go_on(self):
        self.link.send(None)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.leave()

    def leave(self):
        if self.end == "end":
            self.go_on()
        self.process.join(60 * SLOW)
        self.link.close()
        code = self.process.exitcode
        self.process.close()
        return code


@pytest.fixture
def ranks(monkeypatch):
    """A maker of ranks that share this test's daemon; afterwards nothing is left of them and of what they started."""
    resource_tracker.ensure_running()
    before, made = at_rest(), []
    monkeypatch.setenv("TENSORD_SOCKET", td.connection()["path"])

    def make(method, *arguments, **more):
        made.append(Rank(method, *arguments, **more))
        return made[-1]

    yield make
    for r in made:
        if not r.link.closed:
            r.process.kill()
            r.leave()
    assert settles(before) == before


def with_torch(*values):
    return pytest.param(*values, marks=pytest.mark.skipif(not have_torch, reason="torch is not there (Debian: python3-torch)"))


KINDS = ["plain", with_torch("torch")]


@pytest.mark.parametrize("kind,method,workers,n", [("plain", "fork", "fork", 2), ("plain", "fork", "fork", 3), ("plain", "spawn", "spawn", 3),
                                                   ("plain", "fork", "forkserver", 2), with_torch("torch", "fork", "fork", 2),
                                                   with_torch("torch", "spawn", "spawn", 2)])
def test_each_as_alone(ranks, kind, method, workers, n):
    group = [ranks(method, kind, seed, "p", 2, multiprocessing_context=workers) for seed in range(n)]
    for seed, r in enumerate(group):
        assert r.read() == alone(kind, seed, 2) and r.end == "end"
    assert len(set.union(*(r.pids for r in group))) == 2
    assert [r.leave() for r in group] == [0] * n


@pytest.mark.parametrize("more", [dict(persistent_workers=True), dict(dataset=Parts()), dict(in_order=False)], ids=lambda m: next(iter(m)))
def test_each_as_alone_with(ranks, more):
    group = [ranks("fork", "plain", seed, "p", 2, **more) for seed in range(2)]
    for seed, r in enumerate(group):
        got, expected = r.read(), alone("plain", seed, 2, **more)
        if "in_order" in more:  # which worker takes what is not told beforehand
            got, expected = (sorted(b["i"] for b in x) for x in (got, expected))
        assert got == expected
    assert [r.leave() for r in group] == [0, 0]


def test_batches_of_different_sizes():
    one, two = (DataLoader(Numbers(), batch_size=size, num_workers=2, pool="sizes", generator=random.Random(1)) for size in (4, 9))
    both = list(zip(iter(one), iter(two)))
    assert [len(a["i"]) for a, _ in both] == [4] * 6 and [len(b["i"]) for _, b in both] == [9, 9, 9, 9, 9, 3]
    assert one.stats()["workers"][1]["pid"] == two.stats()["workers"][1]["pid"]
    one.close()
    two.close()


# ---- death ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_is_killed(ranks, kind):
    group = [ranks("fork", kind, seed, "p", stop=3, on_worker_death="respawn", dataset=Numbers(pause=0.002)) for seed in range(2)]
    for r in group:
        r.read(4)
    os.kill(group[0].pids.pop(), signal.SIGKILL)
    for r in group:
        r.go_on()
    for seed, r in enumerate(group):
        assert r.read() == alone(kind, seed) and r.end == "end" and r.leave() == 0


def test_a_worker_is_killed_and_that_is_told(ranks):
    r = ranks("fork", "plain", 1, "p", stop=3)
    other = ranks("fork", "plain", 2, "p", stop=3, on_worker_death="respawn")
    r.read(4), other.read(4)
    os.kill(min(r.pids), signal.SIGKILL)
    r.go_on(), other.go_on()
    r.read()
    assert isinstance(r.end, RuntimeError) and "of the pool 'p' was killed by SIGKILL" in str(r.end) and str(min(r.pids)) in str(r.end)
    assert other.read() == alone("plain", 2) and r.leave() == 0 and other.leave() == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("who", ["founder", "another"])
def test_a_rank_is_killed(ranks, who, method):
    founder = ranks(method, "plain", 0, "p", stop=2, multiprocessing_context=method)
    founder.read(3)
    others = [ranks(method, "plain", seed, "p", 2, stop=2, multiprocessing_context=method) for seed in (1, 2)]
    for r in others:
        r.read(3)
    victim, *rest = [founder, *others] if who == "founder" else [others[0], founder, others[1]]
    victim.kill()
    for r in rest:
        r.go_on()
        r.read(12)
        if r is not founder:
            r.go_on()  # the second epoch stops too
    for r in rest:
        assert r.read() == alone("plain", 0 if r is founder else 1 + others.index(r), 1 if r is founder else 2)
        assert r.end == "end" and r.pids == founder.pids  # the workers have stayed
    assert [r.leave() for r in rest] == [0, 0]


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


@pytest.mark.parametrize("how", ["respawn", "raise"])
def test_the_keeper_is_killed(ranks, how):
    group = [ranks("fork", "plain", seed, "p", stop=3, on_worker_death=how) for seed in range(2)]
    for r in group:
        r.read(4)
    keeper = parent_of(min(group[0].pids))
    assert keeper not in [r.process.pid for r in group] + [os.getpid()]
    ended = os.pidfd_open(keeper)
    os.kill(keeper, signal.SIGKILL)
    select.select([ended], [], [])  # or a rank may have all its batches before
    os.close(ended)
    for r in group:
        r.go_on()
    for seed, r in enumerate(group):
        r.read()
        if how == "respawn":
            assert r.end == "end" and r.batches == alone("plain", seed)
        else:
            assert "keeper of the pool 'p'" in str(r.end)
        assert r.leave() == 0


class Poison(Numbers):
    def __getitem__(self, i):
        if i == 21:
            os._exit(7)
        return super().__getitem__(i)


def test_who_kills_workers_is_told_and_others_go_on(ranks):
    bad = ranks("fork", "plain", 1, "p", stop=0, on_worker_death="respawn", dataset=Poison())
    good = ranks("fork", "plain", 1, "p", stop=0, on_worker_death="respawn", dataset=Poison(), sampler=[1, 2, 3] * 40, shuffle=False)
    bad.read(1), good.read(1)
    bad.go_on(), good.go_on()
    bad.read()
    assert "exited unexpectedly with code 7" in str(bad.end) and "The 3. death at the same batch" in str(bad.end)
    assert [i for b in good.read() for i in b["i"]] == [1, 2, 3] * 40 and good.end == "end"
    assert bad.leave() == 0 and good.leave() == 0


def test_anybody_at_any_moment(ranks):
    rng, group = random.Random(5), []
    for seed in range(3):
        group.append(ranks("fork", "plain", seed, "p", 3, on_worker_death="respawn", dataset=Numbers(pause=0.002)))
        group[-1].read(1)
    workers = set.union(*(r.pids for r in group))
    for _ in range(6):
        for r in group[1:]:
            r.read(min(len(r.batches) + rng.randrange(1, 5), 34))
        pid = rng.choice(sorted(workers))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        workers = set.union(*(r.pids for r in group[1:])) - {pid} or workers
    group[0].kill()
    for seed, r in enumerate(group):
        if seed:
            assert r.read() == alone("plain", seed, 3) and r.end == "end" and r.leave() == 0


# ---- state, refusals, what is left ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", [None, Parts()], ids=["map", "iterable"])
def test_state_in_the_middle(dataset):
    def make(pool):
        return loader_of("plain", 3, pool, dataset)

    other = iter(make("state"))  # a rank that has the workers too
    next(other)
    loader = make("state")
    it = iter(loader)
    head = [plain(next(it)) for _ in range(5)]
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    rest = [plain(b) for b in it]
    for pool in ("state", None):
        again = make(pool)
        again.load_state_dict(state)
        assert [plain(b) for b in again] == rest
        again.close()
    assert head + rest == alone("plain", 3, dataset=dataset) and len(list(other)) > 3
    loader.close()


@pytest.mark.parametrize("arguments,words", [(dict(dataset=Numbers(49)), r"dataset.n \(48 there, 49 here\)"), (dict(num_workers=3), r"num_workers \(2 there, 3 here\)"),
                                             (dict(dataset=Parts()), "the data set's class"), (dict(collate_fn=lambda b: b), "collate_fn")], ids=str)
def test_refuses_what_is_not_alike(arguments, words):
    arguments = {"dataset": Numbers(), "num_workers": 2, **arguments}
    first = DataLoader(Numbers(), batch_size=4, num_workers=2, pool="refuses")
    it = iter(first)
    next(it)
    with pytest.raises(ValueError, match=f"(?s)the pool 'refuses' serves other loaders: .*{words}.*pool of its own name"):
        iter(DataLoader(pool="refuses", batch_size=4, **arguments))
    assert len(list(it)) == 11
    first.close()


def test_refuses_bad_arguments():
    for bad in (dict(pool="", num_workers=1), dict(pool=3, num_workers=1), dict(pool="x")):
        with pytest.raises(ValueError, match="pool"):
            DataLoader(Numbers(), **bad)


class Files:
    def __init__(self):
        self.opened, self.words, self.table, self.me = open("/dev/null"), {"a", "b", "zzz"}, np.arange(1000000), self
        self.function = lambda x: x + 1


def test_likeness():
    one, two = Files(), Files()
    two.opened.close()
    two.opened = None
    assert digest(one) == digest(two) and digest(one.opened) is None
    two.table[500000:] += 1
    assert digest(one) != digest(two)
    assert digest({1: [2, (3,)]}) == digest({1: [2, (3,)]}) != digest({1: [2, (4,)]})
    assert digest(lambda x: x + 1) != digest(lambda x: x + 2) and digest([np.float64(1)] * 3) != digest([np.float64(2)] * 3)
    setups = [DataLoader(Numbers(n), num_workers=1)._plan() for n in (3, 4)]
    assert differences(*map(parts, setups)) == ["dataset.n (4 there, 3 here)"]
    one.opened.close()


def test_the_workers_end_with_the_last(ranks):
    group = [ranks("fork", "plain", seed, "p") for seed in range(2)]
    for r in group:
        r.read()
    keeper, workers = parent_of(min(group[0].pids)), group[0].pids
    assert group[0].leave() == 0
    assert all(os.path.exists(f"/proc/{pid}") for pid in (keeper, *workers))
    assert group[1].leave() == 0
    assert wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in (keeper, *workers)))


def test_others_at_the_address(ranks):
    """Words that are no question, and descriptors of the wrong kind, end who sent them, and nobody else."""
    r = ranks("fork", "plain", 3, "p", stop=3)
    r.read(4)
    keeper = parent_of(min(r.pids))
    pipes = os.pipe()
    words = [b"", b"garbage", pickle.dumps(3), pickle.dumps(("how",)), pickle.dumps(("none", 1)), pickle.dumps(("link", 99, 0)), pickle.dumps(("how", [], {})),
             pickle.dumps(("link", 0, 0)), pickle.dumps(("close",))]
    for data in words:
        for fds in ([], [pipes[0]], list(pipes)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.settimeout(20)
                s.connect(address_of("p"))
                socket.send_fds(s, [data], fds)
                if data:
                    answer = s.recv(1 << 17)
                    assert not answer or pickle.loads(answer)[0] in ("linked", "how")
    for fd in pipes:
        os.close(fd)
    assert os.path.exists(f"/proc/{keeper}")
    r.go_on()
    assert r.read() == alone("plain", 3) and parent_of(min(r.pids)) == keeper and r.leave() == 0


def test_the_address_is_held(monkeypatch):
    """By a process that does not listen: one that was stopped, or another's."""
    monkeypatch.setattr("tensord.data._host._PATIENCE", 0.2)
    td.ones(1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(address_of("held"))
        with pytest.raises(RuntimeError, match="pool 'held' is held by a process that does not listen"):
            next(iter(DataLoader(Numbers(), num_workers=1, pool="held")))


def test_what_a_dead_rank_did_not_take(ranks):
    """Batches on their way to a rank that is killed are given back while the workers live on."""
    before = held()
    stays = ranks("fork", "plain", 1, "p", stop=2, dataset=Numbers(200))
    stays.read(3)
    for seed in (2, 3, 4):
        r = ranks("fork", "plain", seed, "p", stop=2, dataset=Numbers(200))
        r.read(3)
        r.kill()
    # Of the one that stays: four batches that it has not taken, which have names, three handed out, and its board; each worker may have its last one
    # in hand. The others had as many each. A batch is one storage.
    assert wait_for(lambda: (now := held())[2] - before[2] <= 5 and now[1] - before[1] <= 10), (before, held())
    stays.go_on()
    assert len(stays.read()) == 50 and stays.leave() == 0


# ---- what tensorctl shows -------------------------------------------------------------------------------------------

CTL = os.path.join(os.path.dirname(os.environ.get("TENSORD_DAEMON", "")), "../../client/tensorctl")


def ctl(*arguments):
    return subprocess.run([CTL, "--socket", td.connection()["path"], *arguments], capture_output=True, text=True, timeout=30 * SLOW, check=True).stdout


@pytest.mark.skipif(not os.path.exists(CTL), reason="tensorctl is not beside this daemon")
def test_tensorctl_shows_loaders(ranks):
    first = ranks("fork", "plain", 1, "a/b", stop=5, dataset=Numbers(pause=0.02))
    second = ranks("fork", "plain", 2, "a/b", stop=7, dataset=Numbers(pause=0.02))
    first.read(6), second.read(8)
    rows = json.loads(ctl("--json", "loaders"))
    assert [r["worker"] for r in rows] == ["all", "0", "1"] * 2 and {r["pool"] for r in rows} == {"a/b"}
    of = {r["pid"]: r for r in rows if r["worker"] == "all"}
    assert of.keys() == {first.process.pid, second.process.pid}
    assert {r["pid"] for r in rows if r["worker"] != "all"} == first.pids == second.pids
    for r in rows:
        assert 0 < r["batches"] <= 12 and r["fetch_%"] > 0 and r["respawned"] == 0
        assert all(0 <= r[k] <= 100 for k in r if k.endswith("_%") and r[k] is not None)
    text = ctl("top")  # no terminal: once
    assert text.count("tensord ") == 1 and text.count("a/b") == 6
    first.kill()
    second.go_on()
    assert len(second.read()) == 12 and second.leave() == 0
    assert wait_for(lambda: json.loads(ctl("--json", "loaders")) == [])  # the names go with their processes


def hold_and_stop(numbers):
    """In a process of its own: a board under a write lease, whose holder does not go on."""
    board = td.tensor(numbers, dtype=td.float64)
    board._lend_as("loader/held")
    with board.writing():
        os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.skipif(not os.path.exists(CTL), reason="tensorctl is not beside this daemon")
def test_tensorctl_shows_any_numbers():
    """What is under a loader's name may be anything, and whoever writes to it may have been stopped."""
    nan, inf = float("nan"), float("inf")
    good = [[1, 1, *[v] * 14] for v in (nan, inf, -inf, 1e300, -0.5)]
    bad = [[], [1], [2] + [0] * 7, [nan] * 8, [1, 2] + [0] * 14, [1, -1] + [0] * 6, [1, 1e9] + [0] * 6, [1, 8191] + [0] * 65534]
    boards = [td.tensor(v, dtype=td.float64) for v in good + bad]
    for i, b in enumerate(boards):
        b._lend_as(f"loader/{i}")
    for _ in range(20):  # no more rows than somebody may want to see
        boards[-1]._lend_as(f"loader/many{_}")
    p = multiprocessing.get_context("fork").Process(target=hold_and_stop, args=(good[0],))
    p.start()
    os.waitpid(p.pid, os.WUNTRACED)
    try:
        rows = json.loads(ctl("--json", "loaders"))
        assert {r["loader"] for r in rows} >= {str(i) for i in range(len(good))} and len(rows) < 10000
        assert "held" not in {r["loader"] for r in rows}
        for r in rows:
            assert all(0 <= r[k] <= 100 for k in r if k.endswith("_%") and r[k] is not None)
        assert "tensord " in ctl("top")
    finally:
        p.kill()
        p.join()
    for name in json.loads(ctl("--json", "names")):
        if name["name"].startswith("loader/") and name["pid"] == os.getpid():
            td.drop(name["name"])


def test_counts_of_all_passes():
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in (1, 2):
        assert len(list(loader)) == 12 and [w["batches"] for w in loader.stats()["workers"]] == [6, 6]
        name = loader._record.board.name
        counts = td.open(name).tolist()
        assert counts[:2] == [1, 2] and counts[3] == 12 * epoch and counts[9] == counts[17] == 6 * epoch and counts[7] == 0
    assert counts[8] == loader.stats()["workers"][0]["pid"]
    loader.close()
    with pytest.raises(td.NotFound):
        td.open(name)
