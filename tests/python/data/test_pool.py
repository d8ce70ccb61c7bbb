"""pool="name": one set of workers for all ranks. Each rank gets what it would get alone, whoever is killed; and nothing is left."""
import ctypes
import faulthandler
import importlib.util
import json
import multiprocessing
import os
import pickle
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import types
from multiprocessing import resource_tracker

import pytest

os.environ.setdefault("TENSORD_LENT_SECONDS", "1")
import tensord as td  # noqa: E402
from common import SLOW, at_rest, held, settles, wait_for  # noqa: E402
from tensord.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402
from tensord.data._host import address_of  # noqa: E402
from tensord.data._keeper import _Keeper  # noqa: E402
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
        return {"i": i, "x": np.full(2000, i, "float32"), "r": random.random(), "n": np.random.rand(), "d": td.rand(()).item(), "w": info.id, "seed": info.seed % 1000,
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


PR_SET_PDEATHSIG = 1


def die_with(parent):
    """This process is killed with the one that started it, however that one ends: also when it was stopped, or waits for a word of it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def rank(link, parent, kind, seed, pool, epochs=1, stop=-1, **more):
    """A rank: tells each batch, and waits behind `stop` of them until it is told to go on."""
    die_with(parent)
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
        traceback.print_exc()  # a test that expected batches shows this
        link.send(e)


class Rank:
    def __init__(self, method, *arguments, **more):
        context = multiprocessing.get_context(method)
        self.link, theirs = context.Pipe()
        self.process = context.Process(target=rank, args=(theirs, os.getpid(), *arguments), kwargs=more)
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
    expected = [alone(kind, seed, 2) for seed in range(n)]  # first: then torch is imported once for all that are forked
    group = [ranks(method, kind, seed, "p", 2, multiprocessing_context=workers) for seed in range(n)]
    for r in group:
        assert r.read() == expected.pop(0) and r.end == "end"
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


def test_who_comes_while_the_last_one_leaves(tmp_path, monkeypatch):
    """Nobody has a seat just then, and the keeper goes on."""
    path = str(tmp_path / "keeper")
    listener, last, late = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3))
    listener.bind(path)
    listener.listen()
    keeper = _Keeper([listener], types.SimpleNamespace(num_workers=0), None, None)
    leave, left = keeper._leave, []

    def leave_and_come(seat):
        leave(seat)
        left.append(seat.number)
        if seat.number == 1:
            late.connect(path)
            late.close()

    monkeypatch.setattr(keeper, "_leave", leave_and_come)
    last.connect(path)
    assert keeper._accept(listener.fileno())
    keeper.begun = True
    last.close()
    keeper.serve()
    keeper.reserve.let_go()
    assert left == [1, 2] and not keeper.seats


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


# ---- what one rank alone does wrong ----------------------------------------------------------------------------------


def no_module_here():
    raise ModuleNotFoundError("No module named 'ranks_own'")


class Foreign(int):
    """An index of a type that a worker does not have."""

    def __reduce__(self):
        return no_module_here, ()


class Deadly(int):
    def __reduce__(self):
        return os._exit, (9,)


class Small(Numbers):
    """Of whose batches, as lists, none needs shared memory."""

    def __getitem__(self, i):
        return i


SMALL = dict(dataset=Small(), num_workers=2, collate_fn=list)


def beside(name, **more):
    """Another loader's pass over the same pool's workers, begun; and how to see that it ends well, by the same processes."""
    loader = DataLoader(batch_size=4, pool=name, **SMALL, **more)
    it = iter(loader)
    first = next(it)

    def ends_well():
        pids = [w["pid"] for w in loader.stats()["workers"]]
        assert [i for b in (first, *it) for i in b] == list(range(48))
        same = [w["pid"] for w in loader.stats()["workers"]] == pids
        loader.close()
        return same

    return ends_well


def test_an_index_that_a_worker_cannot_unpickle():
    others = beside("index")
    loader = DataLoader(batch_size=4, pool="index", sampler=[0, 1, 2, Foreign(3), 4, 5], **SMALL)
    it = iter(loader)
    words = r"of batch 0 \(a list of builtins.int, test_pool.Foreign\) were unpickled in DataLoader worker process 0(?s:.*)ranks_own"
    with pytest.raises(ModuleNotFoundError, match=words):
        next(it)
    assert list(it) == [[4, 5]]  # this rank goes on, too
    loader.close()
    assert others()


def test_an_index_that_cannot_be_pickled():
    others = beside("index")
    loader = DataLoader(batch_size=2, pool="index", sampler=[0, lambda: 3], **SMALL)
    with pytest.raises(TypeError, match=r"indices of batch 0 \(a list of builtins.function, builtins.int\) cannot be pickled for a worker"):
        iter(loader)
    loader.close()
    assert others()


def test_an_index_that_ends_the_worker():
    others = beside("index", on_worker_death="respawn")
    loader = DataLoader(pool="index", sampler=[Deadly(3)], on_worker_death="respawn", **SMALL)
    with pytest.raises(RuntimeError, match="(?s)exited unexpectedly with code 9.*The 3. death at the same batch"):
        next(iter(loader))
    loader.close()
    others()


class Once(Small):
    """Comes out of its pickle as something that cannot be pickled again."""

    def __setstate__(self, state):
        self.function = lambda: state


def test_a_data_set_that_can_be_pickled_once():
    loader = DataLoader(Once(), pool="once", num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(RuntimeError, match=r"pool 'once' cannot serve this loader: its keeper \(pid \d+\) cannot start worker 0: .*pickle"):
        iter(loader)
    loader.close()


class NoWorkers(Numbers):
    """A keeper can unpickle it, a worker dies of that."""

    def __setstate__(self, state):
        if ":" in multiprocessing.current_process().name:
            os._exit(4)
        self.__dict__.update(state)


def init_by_exit(k):
    os._exit(4)


@pytest.mark.parametrize("dataset,more", [(NoWorkers(), dict(multiprocessing_context="spawn")), (Numbers(), dict(worker_init_fn=init_by_exit))],
                         ids=["spawn", "init"])
def test_workers_that_never_come_up(dataset, more):
    loader = DataLoader(dataset, num_workers=1, pool="never", on_worker_death="respawn", **more)
    with pytest.raises(RuntimeError, match="(?s)exited unexpectedly with code 4.*The 3. death"):
        next(iter(loader))
    loader.close()


def init_by_error(k):
    raise KeyError(f"no file for worker {k}")


def test_an_init_function_that_raises():
    loader = DataLoader(Numbers(8), batch_size=4, num_workers=1, pool="init", worker_init_fn=init_by_error)
    it = iter(loader)
    with pytest.raises(KeyError, match="no file for worker 0"):
        next(it)
    with pytest.raises(RuntimeError, match="could not be set up; see its first failure"):
        next(it)
    loader.close()


@pytest.mark.parametrize("who", ["keeper", "worker"])
def test_no_descriptors_are_left(who):
    """For another loader: it is told so, the others go on, and when some have left there is room again."""
    small = SMALL | dict(batch_size=4, num_workers=1, pool="descriptors")
    stays = DataLoader(**small)
    it = iter(stays)
    got = [next(it)]
    pid = stays.stats()["workers"][0]["pid"]
    pid = pid if who == "worker" else parent_of(pid)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1 + max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")), limits[1]))
    others = []
    with pytest.raises(RuntimeError, match=rf"{who}.* \(pid {pid}\) has no descriptors left for another loader; raise .*ulimit -n"):
        for _ in range(100):
            others.append(DataLoader(**small))
            next(iter(others[-1]))
    got += it
    assert got == [list(range(i, i + 4)) for i in range(0, 48, 4)]
    os.kill(pid, signal.SIGSTOP)  # it hears of those who have left and of who comes at one time
    threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()
    while others:
        others.pop().close()
    again = DataLoader(**small)
    assert len(list(again)) == 12 and again.stats()["workers"][0]["pid"] == stays.stats()["workers"][0]["pid"]
    again.close()
    stays.close()


class Locked(Parts):
    """Stands somewhere that cannot be told."""

    def state_dict(self):
        return {"lock": lambda: None}

    def load_state_dict(self, state):
        pass


def test_a_state_that_cannot_be_told():
    for pool in (None, "locked"):
        loader = DataLoader(Locked(), batch_size=4, num_workers=1, pool=pool)
        pids, it = set(), iter(loader)
        for _ in range(3):
            with pytest.raises((AttributeError, pickle.PicklingError), match=r"state_dict\(\) was to be sent with a batch, in DataLoader worker process 0"):
                next(it)
            pids.add(loader.stats()["workers"][0]["pid"])
        assert len(pids) == 1
        loader.close()


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


def test_a_name_is_free_when_its_last_loader_has_left():
    for n in range(8, 14):
        loader = DataLoader(Numbers(n), batch_size=n, num_workers=1, pool="again")
        assert [b["i"].tolist() for b in loader] == [list(range(n))]
        loader.close()


@pytest.mark.parametrize("name", ["x" * 100000, "a/b//../c", "a\0\n b", "\udcff", "\U0001f642" * 100, "."],
                         ids=["long", "slashes", "control", "surrogate", "wide", "dot"])
def test_names(name):
    one, two = (DataLoader(Numbers(8), batch_size=4, num_workers=1, pool=name) for _ in range(2))
    assert [[b["i"].tolist() for b in x] for x in (one, two)] == [[[0, 1, 2, 3], [4, 5, 6, 7]]] * 2
    one.close()
    two.close()


def test_many_loaders():
    loaders = [DataLoader(Numbers(), batch_size=4, num_workers=2, pool="many", sampler=[k] * 16) for k in range(32)]
    batches = [[b["i"].tolist() for b in all_at_once] for all_at_once in zip(*loaders)]
    assert batches == [[[k] * 4 for k in range(32)]] * 4
    assert len({w["pid"] for x in loaders for w in x.stats()["workers"]}) == 2
    for x in loaders:
        x.close()


def test_who_is_stopped_holds_up_nobody(ranks):
    stopped = ranks("fork", "plain", 1, "p", stop=2)
    stopped.read(3)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, stopped.process.pid, os.WSTOPPED | os.WNOWAIT)
    stopped.go_on()
    try:
        for seed in (2, 3):
            r = ranks("fork", "plain", seed, "p")
            assert r.read() == alone("plain", seed) and r.end == "end" and r.pids == stopped.pids and r.leave() == 0
    finally:
        os.kill(stopped.process.pid, signal.SIGCONT)
    assert stopped.read() == alone("plain", 1) and stopped.leave() == 0


def in_child(work):
    """Of a forked child: what work() gives, or the text of what it raises."""
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            told = work()
        except BaseException as e:
            told = f"{type(e).__name__}: {e}"
        os.write(there, pickle.dumps(told))
        os._exit(0)
    os.close(there)
    with open(here, "rb") as f:
        told = pickle.load(f)
    assert os.waitpid(pid, 0)[1] == 0
    return told


@pytest.mark.parametrize("pool", [None, "forked"])
def test_in_a_forked_child(pool):
    loader = DataLoader(Numbers(24), batch_size=4, num_workers=2, pool=pool, persistent_workers=True)
    whole = [list(range(i, i + 4)) for i in range(0, 24, 4)]
    assert [b["i"].tolist() for b in loader] == whole
    it = iter(loader)
    got = [next(it)["i"].tolist()]
    assert f"RuntimeError: this pass over a loader was begun by process {os.getpid()}" in in_child(lambda: next(it))
    assert in_child(lambda: ([b["i"].tolist() for b in loader], loader.close())[0]) == whole  # by workers, or lanes, of its own
    assert got + [b["i"].tolist() for b in it] == whole
    loader.close()


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
                    assert not answer or pickle.loads(answer)[0] in ("linked", "how", "failed")
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


# ---- ranks that nobody starts together ------------------------------------------------------------------------------

LONE = """
import sys
import tensord as td
from tensord.data import DataLoader

class Numbers:
    def __len__(self):
        return 48
    def __getitem__(self, i):
        return i

sys.modules["__main__"].Numbers = Numbers
exec(sys.argv[1])
loader = DataLoader(Numbers(), batch_size=4, num_workers=2, pool="lone", on_worker_death="respawn")
it = iter(loader)
next(it)
print([w["pid"] for w in loader.stats()["workers"]], td.connection()["path"], sep="|", flush=True)
sys.stdin.readline()
print(td.rand(1).item(), [b.tolist() for b in it], sep="|", flush=True)
loader.close()
"""


class Lone:
    """A rank as a shell's script starts it: it has a private daemon of its own, and neither finds others' nor is found."""

    def __init__(self, before="pass"):
        env = {k: v for k, v in os.environ.items() if k != "TENSORD_SOCKET"} | {"TENSORD_BELOW": str(os.getpid())}
        self.process = subprocess.Popen([sys.executable, "-W", "always", "-c", LONE, before], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read(self):
        return self.process.stdout.readline().strip().split("|")

    def end(self):
        """What it tells when it goes on, and what it wrote to stderr."""
        told = self.process.communicate("\n", timeout=60 * SLOW)
        assert self.process.returncode == 0, told
        return told[0].strip().split("|"), told[1]

    def kill(self):
        """Its keeper may have its output still."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


@pytest.fixture
def lone():
    made = []

    def make(*before):
        made.append(Lone(*before))
        return made[-1]

    yield make
    for r in made:
        r.kill()


def test_ranks_that_nobody_starts_together(lone):
    """They meet in the daemon of who came first, though all begin at once and that one is killed; a seed is kept."""
    group = [lone("td.manual_seed(7)") for _ in range(3)]
    told = [r.read() for r in group]
    assert len({pids for pids, _ in told}) == 1 == len({path for _, path in told})
    path = told[0][1]
    founder = next(r for r in group if f"/{r.process.pid}-" in path)
    founder.kill()
    late = lone()
    assert late.read() == told[0]
    (one, _), (two, _), (three, _) = (r.end() for r in (*group, late) if r is not founder)
    assert one == two and one[1] == three[1] == str([list(range(i, i + 4)) for i in range(4, 48, 4)])
    assert wait_for(lambda: not os.path.exists(path))


def test_a_rank_that_cannot_go_there_is_told(lone):
    first = lone()
    _, path = first.read()
    second = lone("x = td.ones(3)")
    _, own = second.read()
    assert own != path
    told = second.end()[1]
    assert f"the pool 'lone' is in another process's private daemon, at {path}, which this process cannot share" in told
    assert f"of its own, at {own} (pid " in told and "TENSORD_SOCKET" in told
    assert first.end()[1] == ""


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


def hold_and_stop(parent, numbers):
    """In a process of its own: a board under a write lease, whose holder does not go on."""
    die_with(parent)
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
    p = multiprocessing.get_context("fork").Process(target=hold_and_stop, args=(os.getpid(), good[0]))
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
