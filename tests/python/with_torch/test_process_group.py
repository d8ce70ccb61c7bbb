"""torch.distributed by tensord, beside gloo: collectives, DistributedDataParallel, ranks that die."""
import json
import signal
import socket
import subprocess
import sys
import textwrap

import pytest
from common import SLOW

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

from tensord.torch._process_group import _wait
from tensord.torch._works import Done

BEGIN = """
import datetime, json, os, signal, sys
import torch, torch.distributed as dist
import tensord as td
import tensord.torch

torch.set_num_threads(1)
backend, rank, size, store = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def begin(seconds=600):
    dist.init_process_group(backend, init_method="file://" + store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds))

def say(what):
    print(json.dumps(what), flush=True)
"""


def run(text, size, path, backend="tensord", killed=()):
    """What each rank says."""
    program, store = BEGIN + textwrap.dedent(text), path / f"store-{backend}"
    ranks = [subprocess.Popen([sys.executable, "-c", program, backend, str(r), str(size), str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for r in range(size)]
    said = [p.communicate(timeout=240 * SLOW) for p in ranks]
    for r, p in enumerate(ranks):
        assert p.returncode == (-signal.SIGKILL if r in killed else 0), said[r][0] + said[r][1]
    return [[json.loads(line) for line in out.splitlines()] for out, _ in said]


COLLECTIVES = """
    begin()
    assert dist.get_backend() == backend and (dist.get_rank(), dist.get_world_size()) == (rank, size)
    torch.manual_seed(rank)
    for count in (0, 1, 63, 64, 65, 4096, 16384, 16385, 300001, 1048577):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8):
            x = (torch.randn(count) * 50).to(dtype)
            dist.all_reduce(x)
            say([str(dtype), count, x.double().sum().item(), x[:3].tolist()])
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        x = torch.randn(100)
        dist.all_reduce(x, op=op)
        say(x.tolist())
    x = torch.randn(5, 4).t()
    dist.all_reduce(x)
    say(x.tolist())
    x = torch._neg_view(torch.randn(5))
    x = x.resolve_neg() if backend == "gloo" else x
    dist.all_reduce(x)
    say(x.tolist())
    for count in (1, 70, 20000, 1100000):
        x = torch.randn(count)
        dist.broadcast(x, src=size - 1)
        say([x.sum().item(), x[-1].item()])
        into = [torch.empty(count) for _ in range(size)]
        dist.all_gather(into, torch.randn(count))
        say([t.sum().item() for t in into])
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    say(objects)
    objects = [rank, "a"] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    say(objects)
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    assert work.is_completed()
    dist.barrier()
    dist.destroy_process_group()
"""


def test_collectives_are_gloos(tmp_path):
    ours, theirs = run(COLLECTIVES, 2, tmp_path), run(COLLECTIVES, 2, tmp_path, "gloo")
    assert ours == theirs


def test_of_three_ranks_all_have_equal_bits(tmp_path):
    said = run(COLLECTIVES.replace("torch.manual_seed(rank)", "torch.manual_seed(rank + 7)"), 3, tmp_path)
    gathered = 0
    for each in zip(*said):
        assert each[0] == each[1] == each[2]
        gathered += 1
    assert gathered > 40


TRAINING = """
    begin()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10))
    model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + rank)
    for step in range(12):
        x, y = torch.randn(16, 1, 8, 8), torch.randint(10, (16,))
        optimizer.zero_grad()
        if step % 4 == 3:
            with model.no_sync():
                torch.nn.functional.cross_entropy(model(x), y).backward()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        say(loss.item())
    say([p.double().sum().item() for p in model.parameters()])
    dist.destroy_process_group()
"""


def test_training_is_gloos_to_the_bit(tmp_path):
    ours, theirs = run(TRAINING, 2, tmp_path), run(TRAINING, 2, tmp_path, "gloo")
    assert ours == theirs and ours[0][-1] == ours[1][-1]


def test_a_death_comes_out_of_backward(tmp_path):
    said = run("""
        begin()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        for step in range(3):
            loss = model(torch.ones(2, 4)).sum()
            if step == 2 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                loss.backward()
            except RuntimeError as e:
                if int(torch.__version__.split(".")[0]) >= 2:  # before that an error comes out of backward() as its words
                    assert isinstance(e, tensord.torch.MemberLost) and isinstance(e, td.MemberLost), e
                    assert (e.rank, e.epoch > 0) == (1, True) and f"rank 1 (pid {e.pid}" in str(e), e
                    assert isinstance(e, getattr(dist, "DistBackendError", RuntimeError)), e
                say(["MemberLost" in type(e).__name__ + str(e), "rank 1 (pid " in str(e), "its last call was all_reduce" in str(e), "<string>:" in str(e)])
                os._exit(0)
        say("nothing was told")
    """, 3, tmp_path, killed=(1,))
    assert said[0] == said[2] == [[True, True, True, True]]


def test_what_is_not_there_says_so(tmp_path):
    said = run("""
        begin()
        for call in (lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND), lambda: dist.all_reduce(torch.ones(2).to_sparse())):
            try:
                call()
                say("went")
            except (td.Unsupported, RuntimeError) as e:
                say(str(e).splitlines()[0][:60])
        dist.barrier()
        dist.destroy_process_group()
    """, 2, tmp_path)
    assert said[0] == said[1] and "went" not in said[0] and "is of integers and bools" in said[0][0], said


def alone(rank, path):
    """One of two ranks, of which the other does not come."""
    text = BEGIN + textwrap.dedent("""
        try:
            begin(seconds=1)
            say("went")
        except td.Timeout as e:
            say(str(e))
    """)
    return subprocess.run([sys.executable, "-c", text, "tensord", str(rank), "2", str(path / "store")], capture_output=True, text=True, timeout=120 * SLOW)


def test_ranks_that_do_not_come(tmp_path):
    p = alone(0, tmp_path)
    assert "1 of 2 came in 1 s: rank 0 (pid" in p.stdout and "rank 1 did not" in p.stdout, p.stdout + p.stderr


def test_nothing_is_written_while_rank_0_is_awaited():
    """By PyTorch's store at a port, whose own wait writes lines when it ends without the key."""
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    text = BEGIN + textwrap.dedent("""
        import time
        at = dist.TCPStore("localhost", int(store), size, rank == 0, datetime.timedelta(seconds=60))
        time.sleep(1 if rank == 0 else 0)
        dist.init_process_group(backend, store=at, rank=rank, world_size=size)
        dist.barrier()
        dist.destroy_process_group()
    """)
    ranks = [subprocess.Popen([sys.executable, "-c", text, "tensord", str(r), "2", str(port)], stderr=subprocess.PIPE, text=True) for r in range(2)]
    said = [p.communicate(timeout=120 * SLOW)[1] for p in ranks]
    assert [p.returncode for p in ranks] == [0, 0] and not any("waitForInput" in words for words in said), said


def test_a_second_job_at_one_store(tmp_path):
    said = run("""
        import subprocess
        try:
            begin()
        except td.AlreadyExists as e:
            print(e)
            sys.exit()
        if rank == 1:                                   # another rank 0 would begin a group of its own there
            again = subprocess.run(sys.orig_argv, capture_output=True, text=True, timeout=60)
            say(again.stdout.strip() or again.stderr)
        dist.barrier()
        dist.destroy_process_group()
    """, 2, tmp_path)
    assert "complete: rank 0 (pid " in said[1][0] and said[1][0].endswith("; another job that runs at the same time takes a MASTER_PORT or init_method of its own"), said


def test_a_rank_0_that_does_not_come(tmp_path):
    p = alone(1, tmp_path)
    assert "rank 1 was not told by rank 0 which daemon" in p.stdout, p.stdout + p.stderr


def test_two_groups_of_one_program(tmp_path):
    """new_group(): a group of some of the ranks."""
    said = run("""
        begin()
        pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
        for k, group in enumerate(pairs):
            if rank in (k, k + 1):
                x = torch.tensor([float(rank)])
                dist.all_reduce(x, group=group)
                say(x.item())
        x = torch.tensor([1.0])
        dist.all_reduce(x)
        say(x.item())
        dist.destroy_process_group()
    """, 3, tmp_path)
    assert said == [[1.0, 3.0], [1.0, 3.0, 3.0], [3.0, 3.0]]


def test_messages_are_in_the_words_of_torch(tmp_path):
    """Nobody named a group, or knows group_open(); a number of a sub-group's rank is said to be one."""
    said = run("""
        begin()
        def told(call):
            try:
                call()
            except RuntimeError as e:
                assert "torch/" not in str(e) and "group_open" not in str(e), e
                say(str(e))
        group = dist.new_group([1, 2])
        if rank == 2:
            dist.barrier()
            dist.destroy_process_group()
            os._exit(0)
        dist.barrier()
        if rank == 1:
            told(lambda: dist.all_reduce(torch.ones(2), group=group))
            told(lambda: dist.all_reduce(torch.ones(2), group=group))
        if rank == 1:
            store = dist.HashStore()
            store.set("tensord", json.dumps({"name": "torch/x", "socket": td._C.connection()["path"], **tensord.torch._process_group._host()}))
            told(lambda: tensord.torch._process_group.ProcessGroup(store, 1, 2, datetime.timedelta(seconds=0.1)))
        os._exit(0)
    """, 3, tmp_path)[1]
    assert said[0].startswith("all_reduce(): rank 1 (pid ") and "; ranks are those of the group of new_group(), in which rank 1 of all is rank 0" in said[0]
    assert "the process group cannot go on (destroy_process_group() and init_process_group() begin anew)" in said[1]
    assert said[2].startswith("new_group(): the process group: 1 of 2 came in 0.1 s: rank 1 (pid ") and "rank 0 did not" in said[2]


def test_who_has_not_come_is_seen_while_rank_0_says_nothing(tmp_path):
    """Rank 0 may hold the store until all have come: the others look at who has."""
    said = run("""
        store = dist.FileStore(store, 3)
        try:
            tensord.torch._process_group.ProcessGroup(store, rank + 1, 4, datetime.timedelta(seconds=2))
        except td.Timeout as e:
            say(str(e))
    """, 2, tmp_path)
    assert any("rank 3 of 4 had not come, either" in str(each) for each in said), said


def test_a_start_as_from_a_notebook(tmp_path):
    """multiprocessing's spawn from an interpreter without a script, in a directory that cannot be written, tensord imported first."""
    (tmp_path / "ranks.py").write_text(textwrap.dedent(f"""
        def work(rank):
            import tensord.torch
            import torch, torch.distributed as dist
            for again in range(2):
                dist.init_process_group("tensord", init_method="tensord://notebook-{tmp_path.name}", rank=rank, world_size=2)
                x = torch.ones(1)
                dist.all_reduce(x)
                print(x.item(), flush=True)
                dist.destroy_process_group()
    """))
    tmp_path.chmod(0o500)
    typed = ("import multiprocessing, ranks\ncrew = [multiprocessing.get_context('spawn').Process(target=ranks.work, args=(r,)) for r in range(2)]\n"
             "for p in crew: p.start()\n\nfor p in crew: p.join()\n\nprint([p.exitcode for p in crew])\n")
    p = subprocess.run([sys.executable, "-q", "-i"], input=typed, cwd=tmp_path, capture_output=True, text=True, timeout=120 * SLOW)
    tmp_path.chmod(0o700)
    assert p.stdout.splitlines()[-1] == "[0, 0]" and p.stdout.count("2.0") == 4, p.stdout + p.stderr


class Asked:
    """A store of PyTorch 2, which says whether it has keys."""

    def __init__(self, *keys):
        self.keys, self.waited = keys, []

    def check(self, keys):
        return set(keys) <= set(self.keys)

    def wait(self, keys, timeout):
        self.waited += keys


def test_a_store_that_can_be_asked_is_waited_for_when_it_has_the_key():
    store = Asked("k")
    _wait(store, "k", 0)
    with pytest.raises(RuntimeError, match="timeout: absent has not been set in 0 s"):
        _wait(store, "absent", 0)
    assert store.waited == ["k"]


def test_what_is_over_says_so():
    done = Done(["x"])
    assert done.wait() is done.is_completed() is done.is_success() is True and done.exception() is None and done.result() == ["x"]
