"""How long the handle of a pickled tensor is good, for whom, what becomes of it when processes end, and what unpickling does where there is none."""
import concurrent.futures
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler

import pytest
import tensord as td
from common import SLOW, at_rest, seed, settles, wait_for
from tensord.core import _pickling

METHODS = multiprocessing.get_all_start_methods()
LONG = 60 * SLOW


@pytest.fixture
def brief(monkeypatch):
    """Handles that nobody takes are kept for a fifth of a second."""
    monkeypatch.setattr(_pickling, "HANDLE_SECONDS", 0.2)


@pytest.fixture
def met(monkeypatch):
    """Processes that are started find this one's daemon, from which the tests' own scripts are kept apart."""
    td.ones(1)
    monkeypatch.setenv("TENSORD_SOCKET", td.connection()["path"])


def handles():
    """The shapes of the tensors that have handles."""
    td.sync()
    return sorted(r["tensor"] for r in td.status("names") if r["name"].startswith("handle/"))


def carried(x):
    return bytes(ForkingPickler.dumps(x))


def their_time_is_over():
    """Of what was pickled before, with the seconds of now: the daemon has looked at it since, twice where it asks whether a process has ended."""
    for _ in range(3):
        pickle.dumps(td.ones(3, 1, 4))
        assert wait_for(lambda: "float32[3, 1, 4]" not in handles(), LONG)
        time.sleep(1)  # it looks at what is lent no oftener than once a second


def test_as_long_as_the_tensor_lives(brief):
    t = td.arange(5.0)
    both = pickle.dumps(t), carried(t)
    their_time_is_over()
    for data in both * 2:
        same = pickle.loads(data)
        same += 1
    assert t.tolist() == [4, 5, 6, 7, 8]
    del same, t
    assert wait_for(lambda: not handles(), LONG)


def test_what_multiprocessing_carries_waits_as_long_as_its_sender_lives(brief):
    """A queue whose consumer is slow; the tensor itself is nowhere else."""
    q = multiprocessing.Queue()
    q.put(td.full((2, 7), 3.0))
    assert wait_for(lambda: handles() == ["float32[2, 7]"], LONG)
    their_time_is_over()
    assert q.get(timeout=LONG).sum().item() == 42
    assert wait_for(lambda: not handles(), LONG)


def test_what_else_is_pickled_waits_for_its_time(brief):
    """Whoever pickles to compare, or to a file, never takes it."""
    kept = td.ones(3, 5)
    with pytest.MonkeyPatch.context() as longer:  # they are looked at before their time is over
        longer.setattr(_pickling, "HANDLE_SECONDS", 60)
        taken = [pickle.dumps(x) for x in (td.ones(2, 9), kept, td.ones(2, 9))]
        assert handles() == ["float32[2, 9]", "float32[2, 9]", "float32[3, 5]"]
        assert [pickle.loads(x).sum().item() for x in taken] == [18, 15, 18]
    many = [pickle.dumps(x) for x in (td.ones(2, 9), kept, td.ones(2, 9))]
    assert wait_for(lambda: handles() == ["float32[3, 5]"], LONG)
    assert pickle.loads(many[1]).shape == (3, 5)


def test_a_thousand_pickles_are_one_handle():
    before = at_rest()
    t = td.ones(100)
    data = [pickle.dumps(t) for _ in range(1000)]
    lasting = [carried(t) for _ in range(1000)]
    assert handles() == ["float32[100]"] * 2
    assert all(pickle.loads(d).sum().item() == 100 for d in data + lasting)
    assert handles() == ["float32[100]"] * 2
    del t
    assert settles(before) == before


def test_so_many_takes_as_pickles_when_the_sender_lets_go():
    t = td.ones(4)
    data = carried(t), carried(t)
    del t
    for d in data:
        assert pickle.loads(d).sum().item() == 4
    with pytest.raises(LookupError, match=rf"process {os.getpid()} pickled is gone.*once for each receiver"):
        pickle.loads(data[0]).sum()


def test_what_cannot_be_had_has_a_shape_and_a_reason():
    data = pickle.dumps({"x": td.ones(2, 3, dtype=td.int16), "p": td.nn.Parameter(td.ones(5))})
    pickle.loads(data)
    gone = pickle.loads(data)
    x, p = gone["x"], gone["p"]
    assert (x.shape, x.dtype, p.shape, type(p)) == ((2, 3), td.int16, (5,), td.nn.Parameter)
    assert "is gone" in repr(x)
    y = td.ones(2, 3, dtype=td.int16)
    for use in (lambda: x + 1, lambda: y + x, lambda: x + y, lambda: td.stack([y, x]), lambda: x.tolist(), lambda: memoryview(x), lambda: x.add_(1),
                lambda: y.copy_(x), lambda: x[0], lambda: bool(x[0, 0]), lambda: pickle.dumps(x), lambda: p.sum().backward(), lambda: x.publish("gone"),
                lambda: td.Queue("gone").put(x)):
        with pytest.raises(td.NotFound, match="is gone"):
            use()
    assert (y + 1).sum().item() == 12


def _sum(q, x):
    q.put(x.sum().item())


def _loads(q, data):
    q.put(pickle.loads(data).sum().item())


@pytest.mark.parametrize("method", METHODS)
def test_one_pickle_for_all(method):
    """As a broadcast does it."""
    context = multiprocessing.get_context(method)
    t, q = td.full((10,), 2.0), context.Queue()
    data = pickle.dumps(t)
    ps = [context.Process(target=_loads, args=(q, data)) for _ in range(3)] + [context.Process(target=_sum, args=(q, t)) for _ in range(3)]
    for p in ps:
        p.start()
    assert [q.get(timeout=LONG) for _ in ps] == [20] * 6
    for p in ps:
        p.join()


# ---- processes that end


def _send(pipe, kill):
    td.ones(1)
    pipe.send([td.full((3, 11), 4.0), td.arange(6)])
    pipe.send("sent")
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kill", [False, True])
def test_what_was_handed_over_outlives_its_sender(kill):
    td.ones(1)
    before = at_rest()
    here, there = multiprocessing.Pipe()
    p = multiprocessing.get_context("fork").Process(target=_send, args=(there, kill))
    p.start()
    p.join()
    x, y = here.recv()
    assert x.sum().item() == 132 and y.sum().item() == 15 and here.recv() == "sent"
    del x, y
    here.close(), there.close()
    p.close()
    assert settles(before, LONG) == before


@pytest.mark.parametrize("kill", [False, True])
def test_what_nobody_takes_goes_after_its_sender(kill, brief):
    td.ones(1)
    before = at_rest()
    here, there = multiprocessing.Pipe()
    p = multiprocessing.get_context("fork").Process(target=_send, args=(there, kill))
    p.start()
    p.join()
    assert wait_for(lambda: not handles(), LONG)
    x, y = here.recv()
    with pytest.raises(td.NotFound, match=f"process {p.pid} pickled is gone"):
        x.sum()
    del x, y
    here.close(), there.close()
    p.close()
    assert settles(before, LONG) == before


def _put_for_ever(q, rng):
    while True:
        n = rng.randrange(1, 20000)
        q.put((n, td.full((n,), n)))


def test_senders_that_are_killed_at_any_moment(brief):
    """What came is whole, and nothing stays. (A queue's lock may be held by whoever is killed, so each has a pipe of its own.)"""
    td.ones(1)
    rng = random.Random(seed())
    before = at_rest()
    for _ in range(8):
        here, there = multiprocessing.Pipe(duplex=False)
        there.put = there.send
        p = multiprocessing.get_context("fork").Process(target=_put_for_ever, args=(there, random.Random(rng.random())))
        p.start()
        there.close()
        for _ in range(rng.randrange(1, 20)):
            n, x = here.recv()
            assert x.shape == (n,) and x[-1].item() == n
        p.kill()
        p.join()
        p.close()
        here.close()
    del x
    assert settles(before, LONG) == before


# ---- names


def test_a_published_tensor_is_found_by_its_name(brief):
    """Also when nobody has a handle any more, from whichever process it came."""
    w = td.arange(3.0).publish("handles/w")
    data = pickle.dumps(w), carried(w)
    del w
    assert wait_for(lambda: len(handles()) < 2, LONG)
    for d in (data[0], data[1], data[1]):
        assert pickle.loads(d).tolist() == [0, 1, 2] and pickle.loads(d).name == "handles/w"
    told = _run("import pickle; w = td.open('handles/w'); print(pickle.dumps(w).hex())", TENSORD_SOCKET=td.connection()["path"])
    again = pickle.loads(bytes.fromhex(told))
    again += 1
    assert td.open("handles/w").tolist() == [1, 2, 3]
    del again
    td.ones(3).publish("handles/w", replace=True)
    assert wait_for(lambda: not handles(), LONG)
    with pytest.raises(td.NotFound, match="published as 'handles/w': another has been published as 'handles/w' since"):
        pickle.loads(data[0]).sum()
    td.drop("handles/w")
    with pytest.raises(td.NotFound, match="published as 'handles/w': .*nothing is published"):
        pickle.loads(data[0]).sum()


def test_a_name_that_is_another_tensors_by_now():
    """The very tensor comes, as long as somebody has it."""
    w = td.arange(3.0).publish("handles/old")
    data = pickle.dumps(w)
    td.ones(3).publish("handles/old", replace=True)
    assert pickle.loads(data).tolist() == pickle.loads(pickle.dumps(w)).tolist() == [0, 1, 2]
    td.drop("handles/old")


def _run(text, **environment):
    r = subprocess.run([sys.executable, "-c", "import tensord as td, sys, os\n" + text], capture_output=True, text=True, timeout=LONG, env={**os.environ, **environment})
    assert r.returncode == 0, r.stderr
    return r.stdout


# ---- pools and executors: what cannot be had is an error of the one task


class Unreachable:
    """Unpickles as a tensor that is gone, or lives in a daemon that is not there."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return _pickling.rebuild, ("handle/" + "0" * 32, self.path, td.Tensor, {}, (td.float32, (3,), 12345))


class Stranded:
    """Unpickles as a queue of a daemon that is not there."""

    def __reduce__(self):
        return td.Queue("stranded").__reduce__()[0], ("stranded", 0, "/nowhere/socket", None)


def _total(x):
    return x.sum().item()


def _give(path):
    return Unreachable(path) if path else td.full((3,), 2.0)


def _put(q):
    q.put(1)


def _tell(ask):
    try:
        return ask()
    except Exception as e:
        return type(e).__name__, "is gone" in str(e) or "lives in the daemon at /nowhere" in str(e)


WRONG = [("NotFound", True), ("ConnectionLost", True)]


def _ask(submit, result):
    """Tasks and results that are in order, among those that are not."""
    here, nowhere = td.connection()["path"], "/nowhere/socket"
    asked = [submit(_total, x) for x in (td.ones(3), Unreachable(here), Unreachable(nowhere), td.ones(4))]
    given = [submit(_give, path) for path in (here, nowhere, None)]
    stranded = submit(_put, Stranded())
    assert [_tell(lambda a=a: result(a)) for a in asked] == [3, *WRONG, 4]
    assert [_tell(lambda g=g: result(g).sum().item()) for g in given] == [*WRONG, 6]
    assert _tell(lambda: result(stranded)) == ("ConnectionLost", True)
    with pytest.raises(td.NotFound, match="is gone"):
        result(submit(_total, pickle.loads(pickle.dumps(Unreachable(here)))))  # cannot even be sent


@pytest.mark.parametrize("method", METHODS)
def test_pools(method, met):
    with multiprocessing.get_context(method).Pool(2) as pool:
        _ask(lambda f, x: pool.apply_async(f, (x,)), lambda r: r.get(LONG))
        with pytest.raises(td.NotFound):
            pool.map_async(_total, [td.ones(1), Unreachable(td.connection()["path"])], 1).get(LONG)
        assert pool.map_async(_total, [td.ones(k) for k in range(1, 5)]).get(LONG) == [1, 2, 3, 4]


@pytest.mark.parametrize("method", METHODS)
def test_executors(method, met):
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        _ask(pool.submit, lambda f: f.result(LONG))
        assert list(pool.map(_total, [td.ones(k) for k in range(1, 5)], timeout=LONG)) == [1, 2, 3, 4]


def test_joblib(met):
    joblib = pytest.importorskip("joblib")
    tasks = [td.ones(3), Unreachable(td.connection()["path"]), Unreachable("/nowhere/socket"), td.ones(4)]
    with joblib.parallel_config("loky", n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(_tell_total)(x) for x in tasks) == [3, *WRONG, 4]
        with pytest.raises((td.NotFound, td.ConnectionLost)):  # of two that fail, the first
            joblib.Parallel()(joblib.delayed(_total)(x) for x in tasks)
        given = joblib.Parallel()(joblib.delayed(_give)(p) for p in (td.connection()["path"], "/nowhere/socket", None))
    assert [_tell(lambda g=g: g.sum().item()) for g in given] == [*WRONG, 6]
    joblib.externals.loky.get_reusable_executor().shutdown(kill_workers=True)


def _tell_total(x):
    return _tell(lambda: x.sum().item())


def test_queues_and_pipes_go_on():
    """Loops that end at an OSError or EOFError do not end here."""
    here, there = multiprocessing.Pipe()
    q = multiprocessing.Queue()
    for send, get in ((there.send, here.recv), (q.put, lambda: q.get(timeout=LONG))):
        for x in (Unreachable(td.connection()["path"]), Unreachable("/nowhere/socket"), td.ones(3)):
            send(x)
        got = [get() for _ in range(3)]
        assert [_tell(lambda x=x: x.sum().item()) for x in got] == [*WRONG, 3]


def test_a_queue_that_cannot_be_reached_says_so_when_it_is_used():
    q = pickle.loads(pickle.dumps(Stranded()))
    for use in (lambda: q.put(1), q.get, q.get_nowait, q.qsize, q.full, lambda: next(iter(q)), lambda: q.close(end=True)):
        with pytest.raises(td.ConnectionLost, match="/nowhere/socket"):
            use()
    q.close()


def _fresh(k):
    return td.full((50, 50), 2.0) * k


@pytest.mark.parametrize("method", METHODS)
def test_workers_that_end_after_each_task(method):
    """What holds a result then is the daemon."""
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as pool:
        results = [pool.apply_async(_fresh, (td.tensor(k),)) for k in range(6)]
        assert [r.get(LONG)[0, 0].item() for r in results] == [0, 2, 4, 6, 8, 10]
