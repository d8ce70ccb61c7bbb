"""How long the handle of a pickled tensor is good, for whom, and what becomes of it when processes end."""
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
from tensord import _pickle

METHODS = multiprocessing.get_all_start_methods()
LONG = 60 * SLOW


@pytest.fixture
def brief(monkeypatch):
    """Handles that nobody takes are kept for a fifth of a second."""
    monkeypatch.setattr(_pickle, "HANDLE_SECONDS", 0.2)


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
    many = [pickle.dumps(x) for x in (td.ones(2, 9), kept, td.ones(2, 9))]
    assert handles() == ["float32[2, 9]", "float32[2, 9]", "float32[3, 5]"]
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
    with pytest.raises(td.NotFound, match=f"process {p.pid} pickled is gone"):
        here.recv()[0].sum()
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


def _fresh(k):
    return td.full((50, 50), 2.0) * k


@pytest.mark.parametrize("method", METHODS)
def test_workers_that_end_after_each_task(method):
    """What holds a result then is the daemon."""
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as pool:
        results = [pool.apply_async(_fresh, (td.tensor(k),)) for k in range(6)]
        assert [r.get(LONG)[0, 0].item() for r in results] == [0, 2, 4, 6, 8, 10]
