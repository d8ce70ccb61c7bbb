"""tensord.torch.Store and init_method="tensord://name": keys that processes share by a name, ranks that come, do not come, or die."""
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from common import SLOW

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

import tensord as td
import tensord.torch as tdt
import torch.distributed as dist
from tensord.share import _meet
from tensord.torch._store import _Seats

NEW = int(torch.__version__.split(".")[0]) >= 2


@pytest.fixture
def name(request):
    return f"{request.node.name}-{os.getpid()}"


def is_held(name):
    """Does any process hold this name?"""
    address = _meet.address("table", f"tensord://{name}", os.environ.get("TENSORD_BELOW", ""), os.environ.get("TORCHELASTIC_RUN_ID", ""))
    return address.replace("\0", "@") in pathlib.Path("/proc/net/unix").read_text().split()


@pytest.fixture
def store(name):
    s = tdt.Store(name, timeout=0.2)
    assert is_held(name)
    yield s
    s.close()
    assert not is_held(name)


def all_of_it(s, extended):
    s.set("k", "v")
    assert s.get("k") == b"v"
    assert (s.add("n", 5), s.add("n", -2), s.get("n")) == (5, 3, b"3")
    s.wait(["k", "n"])
    s.wait(["k"], datetime.timedelta(seconds=1))
    assert bytes(s.compare_set("k", "v", "w")) == b"w" == s.get("k")
    assert bytes(s.compare_set("k", "v", "x")) == b"w" and bytes(s.compare_set("new", "", "x")) == b"x" and bytes(s.compare_set("no", "a", "x")) == b"a"
    for call in (lambda: s.get("absent"), lambda: s.wait(["k", "absent"], datetime.timedelta(milliseconds=1))):
        with pytest.raises(td.Timeout, match=r"nobody has set '.*absent' in tensord://.* in 0\.\d+ s") as e:
            call()
        assert isinstance(e.value, getattr(dist, "DistStoreError", RuntimeError))
    keys = s.num_keys()
    assert s.delete_key("k") is True and s.delete_key("k") is False and s.num_keys() == keys - 1
    if extended:
        assert s.check(["n"]) is True and s.check(["n", "k"]) is False
        s.append("a", "x")
        s.append("a", "y")
        s.multi_set(["m1", "m2"], ["1", "2"])
        assert s.multi_get(["a", "m1", "m2"]) == [b"xy", b"1", b"2"] and s.has_extended_api()


def test_it_is_a_store_of_pytorch(store):
    all_of_it(store, True)
    all_of_it(dist.PrefixStore("p", store), NEW)
    all_of_it(dist.PrefixStore("p", dist.PrefixStore("q", store)), NEW)
    assert {"n", "p/n", "q/p/n"} <= set(store.list_keys())


def test_pytorch_keeps_it(name):
    s = dist.PrefixStore("p", tdt.Store(name))
    s.set("k", "v")
    assert s.get("k") == b"v" == tdt.Store(name).get("p/k")
    for kept in [k for k in tdt._store._kept if k.name == name]:
        kept.close()


def test_what_is_not_right(name):
    for call, error in ((lambda: tdt.Store(""), td.DTypeError), (lambda: tdt.Store(name, 2), td.InvalidError), (lambda: tdt.Store(name, 2, 2), td.InvalidError),
                        (lambda: dist.init_process_group("tensord", init_method="tensord://"), td.InvalidError),
                        (lambda: dist.init_process_group("tensord", init_method="tensord://x"), td.InvalidError)):
        with pytest.raises(error):
            call()


def test_what_was_is_given_back(store):
    large = os.urandom(300000)
    for k in range(60):
        store.set(f"large {k % 3}", large[k:])
    assert store.get("large 2") == large[59:] and store.get("large 0") == large[57:]
    assert os.fstat(store._table._fd).st_blocks * 512 < 8 << 20
    other = tdt.Store(store.name)
    other.add("n", 1)
    assert store.add("n", 1) == 2 and other.get("large 1") == large[58:]
    other.close()


def child(work):
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def test_threads_and_forked_children(store):
    threads = [threading.Thread(target=lambda: [store.add("n", 1) for _ in range(100)]) for _ in range(4)]
    children = [child(lambda: [store.add("n", 1) for _ in range(100)]) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for pid in children:
        os.waitpid(pid, 0)
    assert store.get("n") == b"600"


def test_a_killed_process_holds_nothing(name):
    """Processes write until they are killed, the one that came first too: no number is lost but what a killed one was about to write."""
    def work():
        s = tdt.Store(name)
        while True:
            s.set(f"mine {os.getpid()}", str(s.add("n", 1)))
            s.set("large", b"x" * 100000)

    first = child(work)
    deadline = time.monotonic() + 60 * SLOW
    while not is_held(name) and time.monotonic() < deadline:
        time.sleep(0.001)
    s = tdt.Store(name, timeout=30 * SLOW)
    rest = [child(work) for _ in range(3)]
    for k in range(12):
        time.sleep(0.01 * (k % 3))
        pid = (first, *rest)[k % 4]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        before = int(s.get("n"))
        assert s.add("n", 1) > before and all(int(s.get(k)) <= int(s.get("n")) for k in s.list_keys() if k.startswith("mine"))
        if k < 8:
            new = child(work)
            if pid == first:
                first = new
            else:
                rest[rest.index(pid)] = new
    s.close()
    assert not is_held(name)


def test_one_that_was_stopped_is_named(store):
    def work():
        with tdt.Store(store.name)._table.held():
            os.kill(os.getpid(), signal.SIGSTOP)

    pid = child(work)
    os.waitpid(pid, os.WUNTRACED)
    try:
        with pytest.raises(td.Timeout, match=f"is held by process {pid}"):
            store.set("k", "v")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    store.set("k", "v")


# ---- ranks

RANK = textwrap.dedent("""
    import datetime, os, sys, time
    name, rank, size, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    import torch, torch.distributed as dist
    import tensord as td, tensord.torch

    def begin(backend="tensord", **kw):
        kw = kw or dict(rank=rank, world_size=size)
        dist.init_process_group(backend, init_method="tensord://" + name, timeout=datetime.timedelta(seconds=seconds), **kw)

    def sum_of_ranks():
        x = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(x)
        return x.item()
""")


def start(text, name, rank, size, seconds=600, **env):
    return subprocess.Popen([sys.executable, "-c", RANK + textwrap.dedent(text), name, str(rank), str(size), str(seconds)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env})


def said(ranks):
    out = [p.communicate(timeout=120 * SLOW) for p in ranks]
    assert all(p.returncode == 0 for p in ranks), out
    return [o.strip() for o, _ in out]


def test_ranks_meet_by_a_name_again_and_again(name):
    """The last rank comes first; RANK and WORLD_SIZE say what is not given; a gloo group meets so, too."""
    text = """
        begin(**({} if rank else {"rank": 0, "world_size": size}))
        first = sum_of_ranks()
        dist.destroy_process_group()
        begin()
        pair = dist.new_group([0, 1])
        x = torch.tensor([1.0])
        if rank < 2:
            dist.all_reduce(x, group=pair)
        print(first, sum_of_ranks(), x.item(), end=" ")
        dist.barrier()
        dist.destroy_process_group()
        begin("gloo")
        print(sum_of_ranks())
        dist.barrier()
        dist.destroy_process_group()
    """
    ranks = []
    for r in (2, 1, 0):
        ranks.append(start(text, name, r, 3, RANK=str(r), WORLD_SIZE="3"))
    assert said(ranks) == ["3.0 3.0 1.0 3.0", "3.0 3.0 2.0 3.0", "3.0 3.0 2.0 3.0"]
    assert not is_held(name)


class Table(dict):
    set = dict.__setitem__


def test_who_is_left_of_an_earlier_job_is_named():
    seats = _Seats(Table(), "tensord://it")
    left = {"pid": os.getppid(), "began": _meet.began(os.getppid()), "program": "earlier.py"}
    seats._write(0, {"size": 2, "complete": True, "seats": {"0": left, "1": {**left, "began": "another time"}}})
    assert seats.take(1, 2) == 1
    words = seats.say_missing(1, 3)
    assert words.startswith("rank 0 of 2 has not come to tensord://it in 3 s; there is rank 1 (pid")
    assert words.endswith(f"; of an earlier job of this name there still is rank 0 (pid {os.getppid()}, earlier.py)")
    assert "of an earlier job" not in seats.say_missing(0, 3)


def test_a_rank_that_does_not_come_is_named(name):
    text = """
        try:
            begin()
        except td.Timeout as e:
            print(e)
    """
    out = said([start(text, name, r, 4, 3 * SLOW) for r in (0, 1, 3)])
    assert any(f"rank 2 of 4 has not come to tensord://{name} in {3 * SLOW} s" in o for o in out), out
    assert all(o.startswith(("rank 2 of 4 has", "ranks 2, ", "ranks 0, ", "ranks 1, ", "ranks ")) for o in out) and "(pid " in out[0], out


def test_a_second_job_of_the_name_is_told(name):
    first = [start("begin(); print('begun', flush=True); sys.stdin.read()", name, 0, 1)]
    assert first[0].stdout.readline() == "begun\n"
    try:
        for rank, size, words in ((0, 1, f"rank 0 of tensord://{name} is taken by pid {first[0].pid}"), (1, 2, f"tensord://{name} is of 1 ranks, not of 2: rank 0 (pid {first[0].pid}")):
            p = start("begin()", name, rank, size)
            assert words in p.communicate(timeout=120 * SLOW)[1] and p.returncode == 1
    finally:
        first[0].kill()
        first[0].communicate()
    assert said([start("begin(); print(sum_of_ranks())", name, 0, 1)]) == ["0.0"]  # nothing is left of it


def come(name, look, ranks):
    """Waits until these ranks have come."""
    deadline = time.monotonic() + 60 * SLOW
    while time.monotonic() < deadline:
        with look._table.held():
            if look._seats.of(0)["seats"].keys() >= {str(r) for r in ranks}:
                return
        time.sleep(0.01)
    raise AssertionError("they have not come")


def test_a_rank_that_dies_is_replaced_before_all_have_come(name):
    """Rank 0 came first and holds the name; it is killed, and started again: rank 1 waits on."""
    text = "begin(); print(sum_of_ranks())"
    zero, look = start(text, name, 0, 3), None
    while look is None or look._table._listener:  # until it is rank 0 that holds it
        if look:
            look.close()
        look = tdt.Store(name)
    come(name, look, [0])
    one = start(text, name, 1, 3)
    come(name, look, [0, 1])
    zero.kill()
    zero.communicate()
    assert said([start(text, name, 0, 3), one, start(text, name, 2, 3)]) == ["3.0"] * 3
    look.close()


def test_a_death_is_told_to_those_who_wait_for_a_key(name):
    """A rank that ended may have done what it had to; one that was killed has not."""
    text = """
        s = tensord.torch.Store(name, size, rank)
        if rank == 0:
            try:
                s.get("key")
            except td.MemberLost as e:
                print(e.rank, e.pid)
        elif rank == 1:
            s.get("ended")
            os.kill(os.getpid(), 9)
    """
    ranks = [start(text, name, r, 3) for r in range(3)]
    ranks[2].communicate()
    look = tdt.Store(name)
    look._prefix = "0/"
    look.set("ended", "")
    ranks[1].communicate()
    assert said(ranks[:1]) == [f"1 {ranks[1].pid}"]
    look.close()


def test_torchrun(name, tmp_path):
    try:
        import torch.distributed.run  # noqa: F401
    except ImportError:
        pytest.skip("this PyTorch has no torchrun")
    if not NEW:
        pytest.skip("torchrun of PyTorch 1.13 does not run on this Python")
    (tmp_path / "rank.py").write_text("import os, torch, torch.distributed as dist, tensord.torch\n"
                                      f"dist.init_process_group('tensord', init_method='tensord://{name}')\n"
                                      "x = torch.tensor([float(dist.get_rank())])\ndist.all_reduce(x)\nprint(x.item(), flush=True)\n")
    jobs = [subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(tmp_path / "rank.py")],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]  # two jobs of one name at once
    for out, err in [j.communicate(timeout=240 * SLOW) for j in jobs]:
        assert out.split() == ["1.0", "1.0"], err
