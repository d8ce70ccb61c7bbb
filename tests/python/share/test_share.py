"""Tensors between processes: pickled as handles, in queues."""
import collections
import dataclasses
import enum
import io
import multiprocessing
import os
import pickle
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest
import tensord as td
from common import HERE, SLOW, at_rest, daemon, script, settles, wait_for
from tensord import _C

METHODS = multiprocessing.get_all_start_methods()


def test_a_handle_is_some_bytes():
    t = td.zeros(1000, 1000)
    data = pickle.dumps(t)
    assert len(data) < 400
    same = pickle.loads(data)
    same[0, 0] = 5
    assert t[0, 0].item() == 5 and same.shape == t.shape


def test_in_flight_it_keeps_the_tensor():
    def in_flight(shape):
        td.sync()
        return any(r["tensor"] == f"float32[{shape}]" for r in td.status("names"))

    kept = pickle.dumps(td.full((5, 9), 3.0))
    assert in_flight("5, 9")
    assert pickle.loads(kept).tolist() == [[3] * 9] * 5 and not in_flight("5, 9")


def test_subclasses_and_containers():
    t = td.ones(2, requires_grad=True)
    out = pickle.loads(pickle.dumps({"a": [t, t], "b": td.float16}))
    assert out["a"][0] is out["a"][1] and out["a"][0].requires_grad and out["b"] is td.float16


def test_a_queue_without_a_number_holds_what_there_is_room_for():
    """As multiprocessing.Queue does: maxsize=0 does not wait; who says a number says it for all."""
    with td.Queue("share/open", role="consumer") as q, td.Queue("share/open", -1) as p:
        for k in range(1000):
            p.put((k, td.ones(1)), block=False)
        assert [q.get()[0] for _ in range(1000)] == list(range(1000))
        large = bytes((1 << 20) - 100)  # not yet so much that it goes as a tensor
        for k in range(65):
            p.put(large, block=False)
        with pytest.raises(TimeoutError, match="65 items, 64 MB"):
            p.put(b"", block=False)
        q.get()
        p.put(b"", block=False)
        with td.Queue("share/open", 3) as sized, pytest.raises(TimeoutError, match="of 3"):
            sized.put(1, timeout=0.01)
    for wrong, error in ((2.5, TypeError), ("3", TypeError), (2**32, ValueError)):
        with pytest.raises(error, match="maxsize"):
            td.Queue("share/wrong", wrong)


def _worker(q, back):
    while (t := q.get()) is not None:
        t += 1
        td.sync()
        back.put(t.sum().item())


@pytest.mark.parametrize("method", METHODS)
def test_multiprocessing_queues(method):
    context = multiprocessing.get_context(method)
    q, back = context.Queue(), context.Queue()
    p = context.Process(target=_worker, args=(q, back))
    p.start()
    t = td.zeros(4)
    for k in range(1, 4):
        q.put(t)
        assert back.get(timeout=60 * SLOW) == 4 * k
    q.put(None)
    p.join()
    assert t.tolist() == [3, 3, 3, 3] and p.exitcode == 0


def _deep(x, times):
    return [_deep(x, times - 1)] if times else x


ITEMS = [None, True, 1, -(2**63), 2**80, -(2**63) - 1, 1.5, 1j, "text é", "half \ud800", "", b"bytes", b"\0", [1, [2, (3,)]], {"a": {"b": (None, False)}},
         {}, [], (), {1: 2, None: 3, (4, "5"): [6.0], True: b""}, _deep("deep", 32), [["x" * k, k] for k in range(300)]]


@pytest.mark.parametrize("item", ITEMS, ids=repr)
def test_queue_items(item):
    with td.Queue("items", 2) as q:
        q.put(item)
        got = q.get()
        assert got == item and repr(got) == repr(item)  # 1 is True


def test_queue_tensors():
    q = td.Queue("tensors", 4)
    t = td.zeros(3)
    q.put({"x": t, "again": [t], "y": (td.arange(2), 7)})
    got = q.get()
    got["x"][1] = 5
    assert t.tolist() == [0, 5, 0] and got["again"][0] is got["x"] and got["y"][0].tolist() == [0, 1] and got["y"][1] == 7
    q.close()


def test_tensors_of_an_item_outside_of_graphs_are_known_to_be():
    """Their bytes are handed out at once; those of others, and of what comes into a graph after it came, are refused as ever. (cpu() is the very
    tensor where it lies there, and a copy of what lies on a device.)"""
    np = pytest.importorskip("numpy")
    with td.Queue("outside", 4) as q:
        leaf = td.ones(3, requires_grad=True)
        q.put([leaf, leaf * 2, td.zeros(3), td.zeros(3), td.zeros(3), td.zeros(3)])
        leaf_got, product, plain, later, written, viewed = q.get()
        for x in (leaf_got, product):
            with pytest.raises(BufferError, match="requires grad"):
                np.frombuffer(x.cpu())
        assert np.asarray(plain.cpu()).tolist() == [0, 0, 0]
        later.requires_grad_()
        written.mul_(leaf_got)
        viewed[:1].add_(leaf_got[:1])
        for x in (later, written, viewed):
            with pytest.raises(BufferError, match="requires grad"):
                np.frombuffer(x.cpu())
        assert not plain.requires_grad and later.requires_grad and written.requires_grad and viewed.requires_grad


def test_items_with_more_and_fewer_tensors():
    """A consumer asks for as many as it has seen; what has more comes all the same, in its order."""
    numbers = [0, 1, 0, 3, 0, 0, 64, 1, 2, 0, 65, 300, 2, 4096, 3]
    with td.Queue("numbers", len(numbers)) as q:
        for n in numbers:
            q.put([td.full((2,), k) for k in range(n)])
        for n in numbers:
            assert [x.tolist() for x in q.get()[:70]] == [[k, k] for k in range(min(n, 70))]
        one = td.ones(2)
        with pytest.raises(ValueError, match="more than 4096 tensors"):
            q.put([one[:] for _ in range(4097)])
        q.put([[one] * 5000, one])
        many, again = q.get()
        assert len(many) == 5000 and all(x is again for x in many)


def test_all_tensors_of_a_large_item_are_known_to_be_outside_of_graphs():
    np = pytest.importorskip("numpy")
    with td.Queue("large", 2) as q:
        q.put([td.full((1,), k) for k in range(100)])
        assert [np.frombuffer(x.cpu(), np.int64)[0] for x in q.get()] == list(range(100))
        q.put([td.ones(1, requires_grad=k == 99) for k in range(100)])
        x = q.get()
        assert [t.requires_grad for t in x] == [False] * 99 + [True]


class Point(collections.namedtuple("Point", "x y")):
    """With a method, and with room for more."""

    def length(self):
        return abs(self.x) + abs(self.y)


@dataclasses.dataclass
class Job:
    number: int
    data: object = None
    tags: list = dataclasses.field(default_factory=list, repr=False)

    def __post_init__(self):
        self.made = True


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: object = dataclasses.field(init=False, default=7)


class Colour(enum.IntFlag):
    RED = 1
    BLUE = 2


class Outer:
    class Inner(enum.Enum):
        ONE = (1, [])


CONTAINERS = [collections.OrderedDict(b=1, a=collections.OrderedDict()), {1, (2, "3"), None}, frozenset({frozenset({1})}), set(), Point(1, Point(2, [3])),
              Frozen(1), Frozen(Frozen({2: Colour.RED})), Colour.RED | Colour.BLUE, Outer.Inner.ONE, {Colour.BLUE: 1, Point(1, 2): 2, Frozen(3): 4},
              _deep(collections.OrderedDict(x={1}), 30)]


@pytest.mark.parametrize("item", CONTAINERS, ids=repr)
def test_queue_containers(item):
    with td.Queue("containers", 2) as q:
        q.put(item)
        got = q.get()
        assert got == item and type(got) is type(item) and len(repr(got)) == len(repr(item))  # a set has no order


def test_objects_arrive_as_they_were():
    """All of them, and made by nobody anew."""
    with td.Queue("objects", 2) as q:
        job, state, point = Job(1, td.arange(3), ["t"]), collections.OrderedDict(w=td.ones(2)), Point(1, 2)
        job.made, job.more = False, {"a": 1}
        state._metadata, point.colour = collections.OrderedDict(version=2), Colour.RED
        q.put((job, state, point, job.data))
        there, opened, moved, data = q.get()
        assert type(there) is Job and there.data.tolist() == [0, 1, 2] and there.data is data
        assert (there.number, there.tags, there.made, there.more) == (1, ["t"], False, {"a": 1})
        assert opened._metadata == state._metadata and opened["w"].tolist() == [1, 1] and list(opened) == ["w"]
        assert moved == point and moved.colour is Colour.RED and moved.length() == 3


def test_a_whole_state_dict_goes_through_a_queue():
    model = td.nn.Sequential(*[td.nn.Linear(3, 3) for _ in range(50)])
    with td.Queue("state", 2) as q:
        q.put(model.state_dict())
        got = q.get()
        assert type(got) is collections.OrderedDict and len(got) == 100
        assert model.load_state_dict(got).missing_keys == []


def test_keys_stay_what_they_are():
    np = pytest.importorskip("numpy")
    keys = [np.int64(1), np.float32(2.5), np.bool_(True), np.str_("text"), np.datetime64("2020-01-01"), np.uint16(7), np.complex64(1j)]
    with td.Queue("keys", 2) as q:
        for key in keys:
            q.put([{key: 2}, {(key, 1): 3}, {key}, key if isinstance(key, str) else None])
            plain, inner, held, _ = q.get()
            assert plain == {key: 2} and inner == {(key, 1): 3} and held == {key}
            assert [type(k) for k in plain] == [type(k) for k in held] == [type(key)]
        q.put([np.int64(1), {1: np.float32(2)}])
        a, b = q.get()
        assert a.item() == 1 and b[1].item() == 2 and td.is_tensor(a) and td.is_tensor(b[1])


def test_what_is_not_carried_is_refused_at_the_put():
    local = collections.namedtuple("Local", "x")

    class Dict(dict):
        pass

    class Mine:
        pass

    with td.Queue("refused", 2) as q:
        for item, words in ((local(1), "define it at the top of a module"), (Mine(), "not a Mine"), (Dict(), "not a Dict"), ([{1: {Mine()}}], "not a Mine"),
                            (collections.ChainMap(), "not a ChainMap"), (map(int, ()), "not a map"), (object(), "not an object")):
            with pytest.raises(TypeError, match=words):
                q.put(item)
        assert q.put(3) is None and q.get() == 3


def test_a_class_that_the_program_lacks_is_asked_for(tmp_path, monkeypatch):
    """Nothing is imported for what a queue brings."""
    (tmp_path / "queue_jobs.py").write_text("import dataclasses\n@dataclasses.dataclass\nclass Job:\n    a: int\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import queue_jobs

    with td.Queue("lacking", 3) as q:
        q.put((queue_jobs.Job(4), td.ones(2)))
        q.put(queue_jobs.Job(5))
        q.put(queue_jobs.Job(6))
        known = sys.modules.pop("queue_jobs")
        with pytest.raises(LookupError, match="dataclass queue_jobs.Job, which this program has not imported: import it before get"):
            q.get()
        assert "queue_jobs" not in sys.modules
        sys.modules["queue_jobs"] = known
        assert q.get() == known.Job(5)
        known.Job = dataclasses.make_dataclass("Job", ["a", "b"])
        with pytest.raises(LookupError, match="with the fields a; here it has a, b"):
            q.get()


def _run(text, **environment):
    return subprocess.run([sys.executable, "-c", "import tensord as td, sys, os\n" + text], capture_output=True, text=True, timeout=60 * SLOW,
                          env={**os.environ, **environment})


def test_items_wait_for_the_first_consumer():
    """A producer that ends before a consumer comes, and one that is a temporary object, or is killed."""
    socket = {"TENSORD_SOCKET": td.connection()["path"]}
    made = _run("q = td.Queue('kept/jobs', 5)\nfor k in range(3): q.put({'k': k, 't': td.full((2,), k)})", **socket)
    assert (made.returncode, made.stderr) == (0, "")
    _run("td.Queue('kept/jobs').put(3); os.kill(os.getpid(), 9)", **socket)
    row, = [r for r in td.status("queues") if r["queue"] == "kept/jobs"]
    assert row["items"] == 4 and row["producers"] == 0 and 0 < row["goes_in_s"] <= 60
    with td.Queue("kept/jobs", 9) as q:  # another size: that of who left is as gone as he is
        assert q.qsize() == 4 and [(x["k"], x["t"].tolist()) for x in (q.get(), q.get(), q.get())] == [(k, [k, k]) for k in range(3)]
        assert q.get() == 3
        with pytest.raises(td.Closed, match="no producer any more"):
            q.get()
    td.Queue("kept/temporary").put(1)
    assert td.Queue("kept/temporary").get() == 1
    assert not [r for r in td.status("queues") if r["queue"].startswith("kept/")]


def _puts(q):
    for k in range(3):
        q.put(k)


@pytest.mark.parametrize("method", METHODS)
def test_a_child_that_puts_and_ends(method):
    """As multiprocessing's children do, without a word."""
    q = td.Queue(f"kept/{method}")
    p = multiprocessing.get_context(method).Process(target=_puts, args=(q,))
    p.start()
    p.join()
    assert [q.get(timeout=10), q.get(timeout=10), q.get(timeout=10)] == [0, 1, 2]
    q.close()


def test_how_long_items_are_kept_is_said():
    socket = {"TENSORD_SOCKET": td.connection()["path"]}

    def run(text):
        r = _run(text, **socket)
        return r.stdout, r.stderr, r.returncode

    lost = "tensord: 2 items of queue 'kept/said' that nobody took are lost with its last user; Queue(..., keep=60) would keep them for a minute\n"
    both = "q = td.Queue('kept/said'{}); q.put(1); q.put(2); {}"
    assert run(both.format(", keep=0", "")) == ("", lost, 0)
    assert run(both.format(", keep=0", "q.close(); print('closed', file=sys.stderr)")) == ("", lost + "closed\n", 0)
    assert run(both.format("", "c = td.Queue('kept/said', role='consumer'); c.close()")) == ("", lost, 0)
    assert run(both.format("", "print(q.get())")) == ("1\n", "", 0)  # who gets knows that he goes
    assert td.status("queues") == []
    assert run(both.format(", keep=30", "print(td.Queue('kept/said').get())")) == ("1\n", "", 0)
    assert run("print(td.Queue('kept/said').get())") == ("2\n", "", 0)
    assert run(both.format(", keep=0.05", "")) == ("", "", 0)
    wait_for(lambda: td.status("queues") == [])
    for wrong in (-1, float("nan"), "long", 1e9):
        with pytest.raises(ValueError, match="keep is a number of seconds"):
            td.Queue("kept/said", keep=wrong)


def test_items_that_outlive_their_program_are_told(tmp_path):
    """They stay a while in its daemon, which only those find that know its socket."""
    private = {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path), "TENSORD_SOCKET": "", "TENSORD_BELOW": str(os.getpid())}
    r = _run("q = td.Queue('jobs'); q.put(1)", **private)
    told = re.fullmatch(r"tensord: 1 item of queue 'jobs' that nobody took waits 60 s in the daemon at (\S+), which only processes of this program find: "
                        "start `tensord` before programs that are to meet, or the next with TENSORD_SOCKET set to that\n", r.stderr)
    assert r.returncode == 0 and told, r.stderr
    r = _run("print(td.Queue('jobs').get())", **{**private, "TENSORD_SOCKET": told[1]})
    assert (r.stdout, r.stderr) == ("1\n", "")
    assert _run("q = td.Queue('jobs'); q.put(1); q.get()", **private).stderr == ""


def test_a_get_that_waits_for_nobody_says_so(capfd):
    with td.Queue("waits/nobody") as q:
        for _ in range(2):  # once
            with pytest.raises(queue.Empty):
                q.get(timeout=1.3)
        err = capfd.readouterr().err
        assert err.count("\n") == 1 and "get() has waited for a second, and nobody has joined queue 'waits/nobody' as a producer" in err
    with td.Queue("waits/somebody") as q, td.Queue("waits/somebody", role="producer"):
        with pytest.raises(queue.Empty):
            q.get(timeout=1.3)
        late = threading.Timer(1.2, lambda: td.Queue("waits/somebody").put(5))
        late.start()
        assert q.get() == 5
        late.join()
        with pytest.raises(queue.Empty):
            q.get(timeout=0.2)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("way", ["get", "put"])
def test_a_queue_may_be_closed_while_its_wait_for_nobody_is_told(way, monkeypatch):
    """By another thread, or by who writes what is told."""
    q = td.Queue(f"closed/{way}", 1)

    class Closing(io.StringIO):
        def write(self, text):
            q.close()
            return super().write(text)

    if way == "put":
        q.put(0)
    told = Closing()
    monkeypatch.setattr(sys, "stderr", told)
    with pytest.raises(td.Closed, match="closed by another thread"):
        q.get(timeout=60) if way == "get" else q.put(1, timeout=60)
    assert "has waited for a second" in told.getvalue()


def test_a_put_that_waits_for_nobody_says_so(capfd, monkeypatch):
    """A put that waits for room; the first one behind a full queue is on its way when it returns."""
    with td.Queue("full/nobody", 1) as q:
        q.put(0)
        for _ in range(2):  # once
            with pytest.raises(queue.Full):
                q.put(1, timeout=1.3)
        err = capfd.readouterr().err
        assert err.count("\n") == 1 and "put() has waited for a second for room, and nobody has joined queue 'full/nobody' as a consumer" in err
        assert q.get() == 0
    with td.Queue("full/long", 1) as q:
        putting, said = threading.Thread(target=q.put, args=(2,)), io.StringIO()
        with monkeypatch.context() as m:
            m.setattr(sys, "stderr", said)  # what is written while capfd is read would be lost
            q.put(0), q.put(1)  # the second may wait so long that it says so itself
            putting.start()
            while "nobody has joined queue 'full/long' as a consumer" not in said.getvalue():
                time.sleep(0.01)
            assert [q.get() for _ in range(3)] == [0, 1, 2] and said.getvalue().count("\n") == 1
            putting.join()
    with td.Queue("full/somebody", 1) as q, td.Queue("full/somebody", role="consumer"):
        q.put(0)
        with pytest.raises(queue.Full):
            q.put(1, timeout=1.3)
        assert q.get() == 0
    assert capfd.readouterr().err == ""


def _reads(name, path, reads, out):
    td.connect(path)
    torn = version = 0
    for _ in range(reads):
        state = td.open(name, timeout=60 * SLOW)
        torn += len({x.flatten()[0].item() for x in state.values()}) != 1
    seen = []
    while not seen or seen[-1] >= 0:
        state, newer = td.open(name, newer_than=version, timeout=60 * SLOW)
        torn += newer <= version or len({x.flatten()[0].item() for x in state.values()}) != 1
        version = newer
        seen.append(state["last"].item())
    out.put((torn, len(seen)))


def test_a_state_is_published_and_opened_whole():
    """Readers beside a writer: never some tensors of one version and some of another, and each version is newer than the one before."""
    readers, reads = 3, 3400  # more than 10,000 together
    out = multiprocessing.get_context("fork").Queue()
    state = collections.OrderedDict((f"w{k}", td.zeros(k + 1, 50, dtype=[td.float32, td.int64, td.float16][k % 3])) for k in range(4))
    state["last"] = td.zeros(())
    td.publish("whole", state)
    them = [multiprocessing.get_context("fork").Process(target=_reads, args=("whole", td.connection()["path"], reads, out)) for _ in range(readers)]
    for p in them:
        p.start()
    versions, n = [], 0
    while out.qsize() < readers and any(p.is_alive() for p in them):
        n += 1
        done = n > 200 and n % 200 == 0
        for x in state.values():
            x.fill_(-1 if done else n % 1000)
        versions.append(td.publish("whole", state))
        time.sleep(0.05 * done)  # all see the last
    got = [out.get(timeout=60 * SLOW) for _ in them]
    for p in them:
        p.join()
    assert [torn for torn, _ in got] == [0] * readers and min(seen for _, seen in got) >= 1
    assert versions == sorted(set(versions))
    td.drop("whole")


def test_trees_under_a_name():
    tree = {"a": [td.arange(6).reshape(2, 3).T, td.ones(0, 2), td.tensor(2.5)], "b": (td.tensor([True, False]), td.tensor([1 + 2j])), "step": 7, "same": None}
    tree["same"] = tree["a"][0]
    version = td.publish("tree", tree)
    got, there = td.open("tree", newer_than=0)
    assert there == version and got["a"][0].tolist() == [[0, 3], [1, 4], [2, 5]] and got["a"][1].shape == (0, 2) and got["a"][2].item() == 2.5
    told = {r["name"]: (r["tensor"], r["bytes"]) for r in td.status("names")}["tree"]
    assert told[0] == "tree of 5 tensors" and 64 * 4 <= told[1] < 4096  # one is there twice; of its bytes, each at a multiple of 64
    assert got["b"][0].tolist() == [True, False] and got["b"][1].tolist() == [1 + 2j] and got["step"] == 7 and got["same"] is got["a"][0]
    tree["a"][2].fill_(9)
    assert td.open("tree")["a"][2].item() == 2.5  # a copy
    with pytest.raises(td.AlreadyExists):
        td.publish("tree", tree, replace=False)
    with pytest.raises(LookupError, match="nothing newer than version"):
        td.open("tree", newer_than=version)
    with pytest.raises(TimeoutError):
        td.open("tree", newer_than=version, timeout=0.05)
    threading.Timer(0.1, lambda: td.publish("tree", [1, td.ones(2, requires_grad=True)])).start()
    got, newer = td.open("tree", newer_than=version, timeout=30)
    assert newer > version and got[0] == 1 and got[1].tolist() == [1, 1] and not got[1].requires_grad
    td.zeros(2).publish("tree", replace=True)
    plain, last = td.open("tree", newer_than=newer)
    assert "float32[2]" in [r["tensor"] for r in td.status("names") if r["name"] == "tree"]
    assert plain.tolist() == [0, 0] and last > newer and td.open("tree").tolist() == [0, 0]
    model, other = td.nn.Linear(3, 2), td.nn.Linear(3, 2)
    td.publish("tree", model)
    other.load_state_dict(td.open("tree"))
    assert td.equal(model.weight, other.weight) and td.equal(model.bias, other.bias)
    for wrong in (-1, "1", 1.5):
        with pytest.raises((ValueError, TypeError)):
            td.open("tree", newer_than=wrong)
    td.drop("tree")
    with pytest.raises(LookupError):
        td.open("tree", newer_than=0)


@pytest.mark.parametrize("timeout", [0, 0.02])
def test_what_is_not_there_and_what_is_not_newer_are_told_apart_or_not(timeout):
    """Whatever the timeout: two classes, and each is a NotFound and a TimeoutError."""
    kinds = (td.NotFound, td.Timeout, LookupError, TimeoutError)
    assert all(issubclass(td.NotNewer, k) and issubclass(td.NotPublished, k) for k in kinds) and not issubclass(td.NotNewer, td.NotPublished)
    earlier = td.publish("share/earlier", [td.ones(2)])
    td.drop("share/earlier")
    for newer_than in (None, 0, earlier):
        with pytest.raises(td.NotPublished, match="'share/newer'"):
            td.open("share/newer", timeout, newer_than=newer_than)
    with pytest.raises(td.NotPublished, match="'share/newer'"):
        td.jit.open("share/newer", timeout)
    assert td.version_of("share/newer") == 0
    first = td.publish("share/newer", [td.ones(2)])
    assert td.version_of("share/newer") == first
    with pytest.raises(td.NotNewer, match=f"version {first}"):
        td.open("share/newer", timeout, newer_than=first)
    second = td.publish("share/newer", [td.zeros(2)])
    assert td.version_of("share/newer") == second > first and td.open("share/newer", timeout, newer_than=first)[1] == second
    td.drop("share/newer")
    assert td.version_of("share/newer") == 0
    with pytest.raises(TypeError):
        td.version_of(3)


def test_a_version_is_looked_at_without_opening():
    td.publish("share/looked", [td.zeros(1000)])
    before = at_rest()
    for _ in range(100):
        assert td.version_of("share/looked")
    assert settles(before) == before
    td.drop("share/looked")


def _note(item):
    """What Queue.put sends beside the tensors."""
    with td.Queue("notes", 2) as q:
        q.put(item)
        member = td._C._RawQueue("notes", 2, 2)
        note = member.get(None)[1]
        member.close()
        return note


def test_what_others_put_is_an_error_or_an_item():
    """Every beginning of an item, and items with wrong bytes."""
    good = _note({"a": [1, 2.5, (None, True, 1j)], "text": "ab", "bytes": b"cd", "large": 2**70, "set": {1}, "ordered": collections.OrderedDict(a=1), "p": Point(1, 2),
                  "job": Job(1), "colour": Colour.RED})
    with td.Queue("strange", 2) as q:
        strange = td._C._RawQueue("strange", 2, 1)

        def got(note):
            strange.put((), note, None)
            try:
                return q.get(timeout=30)
            except td.NotFound as e:
                assert "the item holds" in str(e)
            except td.ProtocolError as e:
                assert "something else" in str(e) or "too deep" in str(e)

        assert got(good)["large"] == 2**70
        assert got(good + b"N") is None
        assert got(b"d" + (1).to_bytes(8, "little") + _note([])+ b"N") is None  # no list is a key
        large = b"".join(b"t" + (2**19 - 9 * (k + 1)).to_bytes(8, "little") for k in range(33)).ljust(2**19, b"N")
        tracemalloc.start()
        try:
            assert got(large) is None
            assert tracemalloc.get_traced_memory()[1] < 2**19 * 12  # one such tuple, not one in the other
        finally:
            tracemalloc.stop()
        assert not any(got(good[:n]) for n in range(len(good)))
        many = (2**62).to_bytes(8, "little")
        for kind in b"ltdsbIxm?":
            for count in (many, (-1).to_bytes(8, "little", signed=True), (2**31).to_bytes(8, "little")):
                assert got(bytes([kind]) + count + b"N" * 9) is None
        assert got(_note(_deep(0, 32))[:9] * 40) is None
        rng = random.Random(5)
        for _ in range(1000):
            note = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                note[rng.randrange(len(note))] = rng.choice((rng.randrange(256), *b"NTFifcltdsbIxm"))
            got(bytes(note))
        strange.close()


def test_what_changes_while_it_is_put():
    class Sly:  # taken for NumPy's: it is asked for its elements
        __module__ = "numpy"

        def __init__(self, act):
            self.act = act

        def __len__(self):
            self.act()
            return 0

        def __getitem__(self, k):
            raise IndexError

    with td.Queue("sly", 2) as q:
        items, pairs = [], {}
        items.extend([Sly(items.clear), "text", {}])
        pairs.update(a=Sly(pairs.clear), b=[])
        for item in (items, pairs):
            with pytest.raises(RuntimeError, match="changed"):
                q.put(item)
        x, others = td.ones(3), []
        q.put([x, Sly(lambda: [x.unsqueeze_(0), others.extend(td.full((7,), 77.0) for _ in range(3))])])
        assert q.get()[0].tolist() == [1, 1, 1] and x.ndim > 1
        q.put(1)
        assert q.get() == 1


def test_a_queue_is_closed_beneath_its_first_put(monkeypatch):
    """Whoever joins while another thread closes is out again, and its item is not put."""
    q, there = td.Queue("first", 2), td.Queue("first", 2, role="consumer")

    class Slow:
        def __new__(cls, *args):
            member = real(*args)
            q.close()
            return member

    real = _C._RawQueue
    monkeypatch.setattr(_C, "_RawQueue", Slow)
    with pytest.raises(ValueError, match="is closed"):
        q.put(1)
    monkeypatch.undo()
    with pytest.raises(td.Closed):
        there.get(timeout=30)
    there.close()


def test_flags_of_queues():
    with td.Queue("flags", 2) as q:
        for wrong in (0.2, 1, "no", None):
            with pytest.raises(TypeError, match="block"):
                q.get(wrong)
            with pytest.raises(TypeError, match="block"):
                q.put(1, wrong)
        q.put(1, False)
        assert q.get(block=False) == 1


def _put_and_die(path):
    td.connect(path)
    q = td.Queue("mourned")
    q.put(os.getpid())
    td.sync()
    os.kill(os.getpid(), signal.SIGKILL)


def test_deaths_are_told_apart(tmp_path):
    """The death of a producer is news of that name; the daemon's is the end of the connection."""
    assert not issubclass(td.ProducerDied, td.ConnectionLost)
    with daemon(tmp_path) as d:
        r = script("""
            import os, signal, sys
            sys.path[:0] = sys.argv[2:]
            import tensord as td
            from test_share import _put_and_die, multiprocessing
            context, path = multiprocessing.get_context("spawn"), sys.argv[1]

            class Told(Exception): pass
            def tell(line): raise Told(line)

            def begin():
                p = context.Process(target=_put_and_die, args=(path,))
                p.start()
                return p

            td.connect(path)
            q, stays = td.Queue("mourned", on_death=tell), td.Queue("mourned", role="producer")
            for k in range(2):
                p = begin()
                assert q.get(timeout=60) == p.pid
                try: q.get(timeout=60)
                except Told as e: assert f"pid {p.pid}" in str(e), e
                p.join()
            raw = td._C._RawQueue("mourned", 1, 2 | 4, -1)  # the same without on_death
            p = begin()
            assert raw.get_item(60) == p.pid
            try: raw.get_item(60)
            except td.ProducerDied as e: assert f"pid {p.pid}" in str(e), e
            p.join()
            print("told")
        """, d.path, HERE, os.path.dirname(__file__))
    assert r.stdout == "told\n", r.stdout + r.stderr


def _into_a_graph(there, back):
    x = td.ones(3)
    back.put(x)
    there.get()
    x.requires_grad_()
    td.sync()
    back.put(None)
    there.get()


def test_what_one_is_told_is_known():
    """What a queue gave is in a graph since, and the one who put it there has said so."""
    context = multiprocessing.get_context("fork")
    there, back = td.Queue("told/there", 2), td.Queue("told/back", 2)
    p = context.Process(target=_into_a_graph, args=(there, back), daemon=True)
    p.start()
    y = back.get(timeout=60 * SLOW)
    there.put(None)
    back.get(timeout=60 * SLOW)
    with pytest.raises(BufferError, match="requires grad"):
        memoryview(y)
    assert y.requires_grad
    there.put(None)
    p.join()
    there.close(), back.close()


def test_queue_refuses():
    q = td.Queue("refusing", 1)
    loop = []
    loop.append(loop)
    for item, kind in ((object(), TypeError), (loop, ValueError)):
        with pytest.raises(kind):
            q.put(item)
    with pytest.raises(TimeoutError):
        q.get(timeout=0.05)
    with pytest.raises(TimeoutError):
        q.get_nowait()
    q.put(1)
    with pytest.raises(TimeoutError):
        q.put(2, timeout=0.05)
    assert q.get() == 1
    q.close(end=True)


def test_a_queue_is_used_as_pythons_are():
    """By names, errors and arguments of queue.Queue."""
    q = td.Queue("as python's", 2)
    assert q.qsize() == 0 and q.empty() and not q.full()  # before anybody has joined
    for get in (q.get_nowait, lambda: q.get(False), lambda: q.get(timeout=0.02), lambda: q.get(True, 0)):
        with pytest.raises(queue.Empty, match="as python's' (is|stayed) empty") as e:
            get()
        assert isinstance(e.value, (td.Timeout)) and isinstance(e.value, TimeoutError) and type(e.value) is td.QueueEmpty
    q.put_nowait(1)
    q.put(2, False)
    assert q.qsize() == 2 and not q.empty() and q.full()
    for put in (lambda: q.put_nowait(3), lambda: q.put(3, False), lambda: q.put(3, timeout=0.02), lambda: q.put(3, True, 0)):
        with pytest.raises(queue.Full, match="as python's' (is|stayed) full") as e:
            put()
        assert type(e.value) is td.QueueFull and str(e.value) and e.value.op == "queue_put"
    assert q.get() == 1 and (q.qsize(), q.empty(), q.full()) == (1, False, False)
    q.close()
    for look in (q.qsize, q.empty, q.full):
        with pytest.raises(ValueError, match="is closed"):
            look()


@pytest.mark.parametrize("name", [3, None, b"jobs", ["jobs"]], ids=repr)
def test_a_queue_without_a_name_is_refused_at_once(name):
    with pytest.raises(TypeError, match="a Queue is found by its name"):
        td.Queue(name)
    with pytest.raises(TypeError, match=r"Queue\('jobs', 3\)"):
        td.Queue(3)
    with pytest.raises(ValueError, match="name of a Queue is empty"):
        td.Queue("")


def test_a_closed_queue_says_so():
    """It would wait for nobody; another object of the name goes on, and a new one joins."""
    q, other = td.Queue("closed", 2), td.Queue("closed")
    q.put(1)
    assert other.get() == 1
    other.put(2)
    q.close()
    for use in (q.get, q.get_nowait, lambda: q.put(3), lambda: q.put_nowait(3), lambda: next(iter(q)), lambda: q.get(timeout=1)):
        with pytest.raises(ValueError, match=r"Queue\('closed'\) is closed.*joins it anew") as e:
            use()
        assert isinstance(e.value, td.Error)
    q.close()
    with td.Queue("closed") as again, pytest.raises(ValueError):
        assert again.get() == 2
        again.close()
        again.put(1)
    other.close(end=True)


def _produce(q, n):
    for k in range(n):
        q.put({"k": k, "x": td.full((10,), k)})
    q.close()


@pytest.mark.parametrize("method", METHODS)
def test_producers(method):
    context = multiprocessing.get_context(method)
    td.ones(1)
    q = td.Queue(f"producers/{method}", 3)
    members = [context.Process(target=_produce, args=(q, 5)) for _ in range(2)]
    for p in members:
        p.start()
    seen = []
    while len(seen) < 10:
        try:
            seen.append(q.get(timeout=60 * SLOW)["k"])
        except EOFError:  # one has ended before the other began
            assert any(p.is_alive() for p in members)
    for p in members:
        p.join()
    assert sorted(seen) == sorted([*range(5)] * 2)
    with pytest.raises((EOFError, TimeoutError)):
        q.get(timeout=0.2)
    q.close()


def names():
    return next(r["value"] for r in td.status() if r["key"] == "names")


def descriptors():
    return len(os.listdir("/proc/self/fd")), next(r["value"] for r in td.status() if r["key"] == "descriptors")


def test_many_handles_die_by_their_deadline_beside_an_idle_daemon(monkeypatch):
    """Nobody asks the daemon anything meanwhile, but for how many there are, and that seldom."""
    from tensord.core import _pickling
    td.ones(1).tolist()
    before = names()
    monkeypatch.setattr(_pickling, "HANDLE_SECONDS", 0.5)
    handles = [pickle.dumps(td.ones(3)) for _ in range(20_000)]
    td.sync()
    for asked in range(20 * SLOW):  # each question may be the occasion for some: there must be few
        if names() <= before:
            break
        time.sleep(1.0)
    assert names() <= before and len(handles) == 20_000, asked


def test_100_000_in_flight_need_no_more_descriptors_than_one(monkeypatch):
    from tensord.core import _pickling
    assert _pickling.HANDLE_SECONDS == 60
    monkeypatch.setattr(_pickling, "HANDLE_SECONDS", 3600)  # on a busy machine making so many may take longer than a minute
    first = pickle.dumps(td.full((4,), 7))
    td.sync()
    before, held = descriptors(), names()
    many = 10_000 if hasattr(sys, "gettotalrefcount") else 100_000  # a debug build is slow
    handles = [pickle.dumps(td.full((4,), k)) for k in range(many)]
    td.sync()
    mine, daemon = descriptors()
    assert names() - held == many and mine - before[0] <= 1 and daemon - before[1] <= 30  # the daemon's are by segments
    assert pickle.loads(handles[-1]).tolist() == [many - 1] * 4 and all(pickle.loads(h)[0].item() == k for k, h in enumerate(handles[:50]))
    assert descriptors()[0] - before[0] <= 1 and pickle.loads(first).tolist() == [7] * 4
