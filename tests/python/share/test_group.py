"""Groups from Python: arrays and tensors in and out, ranks as processes, errors as objects."""
import os
import platform
import signal
import subprocess
import sys
import textwrap

import pytest
import tensord as td
from common import SLOW

BEGIN = """
import os, signal, sys, pickle
import tensord as td

rank, size, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
"""


def start(text, size, name, **env):
    """Ranks as processes, in this process's daemon."""
    whole = BEGIN + textwrap.dedent(text)
    td.connect()
    env["TENSORD_SOCKET"] = td.connection()["path"]
    return [subprocess.Popen([sys.executable, "-X", "dev", "-c", whole, str(r), str(size), name], env={**os.environ, **env}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(size)]


def ends(ranks, killed=()):
    """What they said. killed: those that are; None: one is, whichever."""
    said = [p.communicate(timeout=120 * SLOW) for p in ranks]
    if killed is None:
        killed = [r for r, p in enumerate(ranks) if p.returncode == -signal.SIGKILL]
        assert len(killed) == 1, said
    for r, p in enumerate(ranks):
        assert p.returncode == (-signal.SIGKILL if r in killed else 0), said[r][0] + said[r][1]
    return [out for out, _ in said]


def run(text, size, name, killed=(), **env):
    return ends(start(text, size, name, **env), killed)


def test_tensors_of_tensord():
    run("""
        with td.Group(name, size, rank=rank) as g:
            assert (g.rank, g.size, g.name) == (rank, size, name) and f"rank {rank} of {size}" in repr(g)
            x = td.arange(6.0).reshape(2, 3) + rank
            total = g.all_reduce(x)
            assert isinstance(total, td.Tensor) and total.shape == (2, 3) and total.tolist() == (td.arange(6.0).reshape(2, 3) * size + sum(range(size))).tolist()
            assert x.tolist() == (td.arange(6.0).reshape(2, 3) + rank).tolist()
            assert g.all_reduce(x.t(), "max").tolist() == (td.arange(6.0).reshape(2, 3) + size - 1).t().tolist()
            assert g.all_reduce(x, op="mean", out=x) is x and x[0, 0].item() == (size - 1) / 2
            view = td.zeros(4, 2)
            assert g.all_reduce(td.full((4,), rank), out=view.long()[:, 0]) is not None
            assert g.broadcast(td.full((3,), rank), root=size - 1).tolist() == [size - 1] * 3
            assert g.all_gather(td.tensor(rank)).tolist() == list(range(size))
            assert g.all_gather(td.full((2, 2), rank)).shape == (size, 2, 2)
            assert g.all_reduce(3).item() == 3 * size and g.all_reduce([1, 2]).tolist() == [size, 2 * size]
            assert g.all_reduce(td.zeros(0)).shape == (0,)
            assert g.all_reduce(td.ones(3, requires_grad=True)).tolist() == [size] * 3
            half = g.all_reduce(td.full((5,), 0.1, dtype=td.bfloat16))
            assert half.dtype == td.bfloat16 and half.tolist() == (td.full((5,), 0.1, dtype=td.bfloat16).float() * size).bfloat16().tolist()
            g.barrier()
    """, 3, "ours")


def test_others_read_a_result_that_is_waited_for():
    """While a rank waits for another one, who knows the tensor that the result goes to reads it."""
    run("""
        with td.Group(name, size, rank=rank) as g:
            if rank == 0:
                x = td.ones(5)
                td.publish("result", x)
                g.barrier()
                assert g.all_reduce(x, out=x) is x and x.tolist() == [3.0] * 5
            else:
                g.barrier()
                while not any(r["rank"] == 0 and r["now"].startswith("in all_reduce") for r in td.status("groups") if r["group"] == name):
                    pass
                assert td.open("result").sum().item() == 5
                g.all_reduce(td.full((5,), 2.0))
            g.barrier()
    """, 2, "read")


def test_arrays_of_numpy():
    pytest.importorskip("numpy")
    run("""
        import numpy as np
        g = td.Group(name, size, rank=rank)
        x = np.arange(10, dtype=np.int32) * (rank + 1)
        y = g.all_reduce(x)
        assert type(y) is np.ndarray and y.dtype == np.int32 and (y == np.arange(10) * 6).all() and (x == np.arange(10) * (rank + 1)).all()
        strided = np.zeros((10, 3), np.int32)
        assert g.all_reduce(x, out=strided[:, 1]).base is strided and (strided[:, 1] == y).all() and (strided[:, 0] == 0).all()
        assert g.all_reduce(np.array(2.5)).shape == () and (g.all_gather(np.array([rank])) == [[0], [1], [2]]).all()
        assert (g.broadcast(np.full((2, 3), rank), root=1) == 1).all()
        assert (g.all_reduce(np.ones(1_500_000, np.float32)[::-1]) == size).all()
        for bad, why in ((np.zeros(2, "datetime64[s]"), "datetime64"), (np.zeros(2, ">f4"), ">f4"), (np.array(["a"]), "U1")):
            try:
                g.all_reduce(bad)
                raise AssertionError(bad)
            except td.DTypeError as e:
                assert why in str(e), e
        locked = np.zeros(3)
        locked.flags.writeable = False
        try:
            g.all_reduce(np.zeros(3), out=locked)
            raise AssertionError
        except td.PermissionDenied:
            pass
        for bad in (np.zeros(4), np.zeros(3, np.int32), td.zeros(3)):
            try:
                g.all_reduce(np.zeros(3), out=bad)
                raise AssertionError
            except td.ShapeError:
                pass
        g.barrier()  # nothing of that spent a round
        g.leave()
        try:
            g.barrier()
            raise AssertionError
        except td.Closed:
            pass
    """, 3, "numpy")


def test_tensors_of_torch():
    pytest.importorskip("torch")
    run("""
        import torch
        g = td.Group(name, size, rank=rank)
        x = torch.tensor([1 + 2j, 3 - 4j])
        for at in (2, 200, 20000):  # with the call, in small slots, in large ones
            many = x.repeat(at)
            assert torch.equal(g.all_reduce(many.conj()), many.conj() * size) and torch.equal(g.broadcast(torch._neg_view(many)), -many)
            assert torch.equal(g.all_gather(many.conj())[rank], many.conj())
            out = torch.zeros_like(many)
            assert g.all_reduce(many, out=out.conj()).is_conj() and torch.equal(out.conj(), many * size)
        g.leave()
    """, 2, "torch")


def test_arguments():
    with pytest.raises(td.DTypeError, match="is a text"):
        td.Group(3, 2)
    with pytest.raises(td.InvalidError, match="1 to 256 members, not 0"):
        td.Group("x", 0)
    with pytest.raises(td.InvalidError, match="no rank 2"):
        td.Group("x", 2, rank=2)
    with pytest.raises(td.Timeout, match=r"group 'alone': 1 of 2 came in 0.01 s: rank 1 \(pid .*; rank 0 did not"):
        td.Group("alone", 2, rank=1, timeout=0.01)
    g = td.Group("one", 1)
    with pytest.raises(td.InvalidError, match="op is one of"):
        g.all_reduce(1.0, op="median")
    with pytest.raises(td.DTypeError, match="no mean of int64"):
        g.all_reduce(1, op="mean")
    with pytest.raises(td.InvalidError, match="no rank 1"):
        g.broadcast(1.0, root=1)
    with pytest.raises(td.DTypeError, match="its name"):
        import pickle
        pickle.dumps(g)
    assert g.all_reduce(td.arange(5)).tolist() == [0, 1, 2, 3, 4]
    g.leave()
    g.leave()


def test_calls_that_differ_name_both():
    out = run("""
        g = td.Group(name, size, rank=rank)
        x = td.zeros(10 + rank)
        try:
            g.all_reduce(x)
            raise AssertionError
        except td.Mismatch as e:
            assert "rank 0 called all_reduce #1 (float32[10], sum) at <string>:" in str(e) and "rank 1 all_reduce #1 (float32[11], sum) at <string>:" in str(e), e
            assert (e.rank, e.round, e.epoch) == (1, 1, g.epoch) and e.pid
        try:
            g.barrier()
            raise AssertionError
        except td.EpochOver as e:
            assert "float32[11]" in str(e)
        print("told")
    """, 2, "differ")
    assert out == ["told\n"] * 2


def test_a_death_is_told():
    out = run("""
        g = td.Group(name, size, rank=rank)
        g.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            g.all_reduce(td.zeros(10))
            raise AssertionError
        except td.MemberLost as e:
            assert (e.rank, e.round, e.epoch) == (1, 2, g.epoch) and f"rank 1 (pid {e.pid}," in str(e), e
            assert "its last call was barrier #1 at <string>:" in str(e), e
        print("told")
    """, 3, "dies", killed=(1,))
    assert [out[0], out[2]] == ["told\n"] * 2


FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())


def syscall(pid):
    """The number of the system call that a process sleeps in, -1 while it runs, None when it has ended."""
    try:
        with open(f"/proc/{pid}/syscall") as f:
            first = f.read().split()
        return int(first[0]) if first and first[0] not in ("running", "-1") else -1
    except (OSError, ProcessLookupError):
        return None


@pytest.mark.skipif(FUTEX is None or syscall(os.getpid()) is None, reason="the system does not say where a process sleeps")
def test_ctrl_c_ends_a_wait():
    """The rank has come to that call: the others get by it, and its next is theirs, too."""
    ranks = start("""
        g = td.Group(name, size, rank=rank)
        g.barrier()
        if rank == 0:
            try:
                print("waits", flush=True)
                g.barrier()
                raise AssertionError
            except KeyboardInterrupt:
                print("stopped", flush=True)
        else:
            sys.stdin.readline()
            g.barrier()
        assert g.all_reduce(rank + 1).item() == 3
    """, 2, "stops")
    assert ranks[0].stdout.readline() == "waits\n"
    while (at := syscall(ranks[0].pid)) != FUTEX:  # it has come there, and sleeps
        assert at is not None, ranks[0].communicate()
    os.kill(ranks[0].pid, signal.SIGINT)
    assert ranks[0].stdout.readline() == "stopped\n"
    ranks[1].stdin.write("go on\n")
    ranks[1].stdin.flush()
    ends(ranks)


ALL = """
import asyncio, weakref
import numpy as np
g = td.Group(name, size, rank=rank)
for n in (1, 20, 3000, 400_000):
    X = np.stack([np.random.default_rng(1000 * n + r).standard_normal((size, n), np.float32) for r in range(size)])  # by rank, row
    x, t, total = X[rank].copy(), td.tensor(X[rank]), X[0].copy()
    for r in range(1, size):
        total = total + X[r]
"""


def test_all_collectives():
    pytest.importorskip("numpy")
    run(ALL + """
    for wait in (True, False):
        end = (lambda y: y) if wait else (lambda y: y.wait())
        assert (end(g.all_reduce(x, wait=wait)) == total).all()
        y = end(g.reduce(x, root=1, wait=wait))
        assert (y == total).all() if rank == 1 else y is None
        assert (end(g.reduce_scatter(x, wait=wait)) == total[rank]).all() and (end(g.reduce_scatter(t, "max", wait=wait)).numpy() == X.max(0)[rank]).all()
        assert (end(g.broadcast(x, root=1, wait=wait)) == X[1]).all()
        y = end(g.scatter(x if rank == size - 1 else None, root=size - 1, wait=wait))
        assert type(y) is (np.ndarray if rank == size - 1 else td.Tensor) and (np.asarray(y) == X[size - 1][rank]).all()
        out = np.zeros(n, np.float32)
        assert end(g.scatter(x if rank == 0 else None, out=out, wait=wait)) is out and (out == X[0][rank]).all()
        y = end(g.gather(x, wait=wait))
        assert (y == X).all() if rank == 0 else y is None
        assert (end(g.all_gather(x, wait=wait)) == X).all() and (end(g.all_gather(t, wait=wait)).numpy() == X).all()
        assert (end(g.all_to_all(x, wait=wait)) == X[:, rank]).all()
        assert end(g.all_to_all(t, out=t, wait=wait)) is t and (t.numpy() == X[:, rank]).all()
        t = td.tensor(X[rank])
        assert end(g.barrier(wait=wait)) is None
for bad in (np.zeros(3), np.zeros((size + 1, 2)), 1.5):
    for call in (g.reduce_scatter, g.all_to_all):
        try:
            call(bad)
            raise AssertionError(bad)
        except td.ShapeError as e:
            assert f"{size} rows" in str(e)
for root in (size, -1, None, 0.5):
    for call in (g.reduce, g.broadcast, g.gather, g.scatter):
        try:
            call(x, root=root)
            raise AssertionError(root)
        except td.InvalidError as e:
            assert f"there is no rank {root}" in str(e)
g.barrier()  # nothing of that spent a round
for wrong in (np.zeros(3), np.zeros(4, np.float32), td.zeros(5, 5)):
    try:
        y = g.scatter(np.zeros((size, 4)) if rank == 0 else None, out=None if rank == 0 else wrong)
        assert rank == 0 and y.shape == (4,)
    except td.ShapeError as e:
        assert rank and "(4,)" in str(e), e
g.barrier()
""", 2, "all")


def test_calls_that_are_begun():
    pytest.importorskip("numpy")
    run(ALL + """
    a, b, c, d = g.all_reduce(x, wait=False), g.all_gather(t, wait=False), g.reduce_scatter(t, wait=False), g.all_reduce(t, "max", wait=False)
    alone = weakref.ref(g.all_reduce(x, wait=False))  # nobody waits for it, and all the same it has its turn, and what was given to it
    assert alone() is not None
    strided = np.zeros((size, n, 2), np.float32)
    e = g.all_reduce(x, out=strided[:, :, 0], wait=False)
    assert (d.wait().numpy() == X.max(0)).all() and a.done() and "done" in repr(a)
    assert (a.wait() == total).all() and a.wait() is a.wait() and (b.wait().numpy() == X).all() and (c.wait().numpy() == total[rank]).all()
    assert (e.wait() == total).all() and (strided[:, :, 0] == total).all() and (strided[:, :, 1] == 0).all()
    g.barrier(wait=False).wait()
    assert alone() is None, "once done, it is let go by the next"

    async def both():
        for y, of in zip(await asyncio.gather(g.all_reduce(x, wait=False), g.all_to_all(x, wait=False)), (total, X[:, rank])):
            assert (y == of).all()
        first, others = g.barrier(wait=False), asyncio.sleep(0)
        await others
        await first
    asyncio.run(both())
late = g.all_reduce(x, wait=False) if rank == 0 else None
if rank == 0:
    try:
        late.wait(timeout=0.02)
        raise AssertionError
    except td.Timeout as e:
        assert "rank 1" in str(e) and e.rank == 1
    try:
        late.wait()
        raise AssertionError
    except td.Timeout:
        pass
left = td.Group(name + "2", size, rank=rank)
one = left.all_reduce(x, wait=False)
if rank == 0:
    assert (one.wait() == total).all()  # what the other gave before it left counts
else:
    left.leave()
    try:
        one.wait()
        raise AssertionError
    except td.Closed as e:
        assert "was left" in str(e)
""", 2, "begun")


def test_epochs():
    run("""
        import time
        g = td.Group(name, (2, 3), timeout=60)
        if g.size == 2:  # the third came later
            while g.size < 3:
                if g.broadcast(td.tensor(g.door)).item():
                    assert g.regroup(timeout=30) is None
        assert g.lost == [] and g.door == 0 and g.all_reduce(1).item() == 3
        epoch, rank = g.epoch, g.rank
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            g.barrier()
            assert False
        except td.MemberLost as e:
            assert e.rank == 1 and e.epoch == epoch
        try:
            g.barrier()
            assert False
        except td.EpochOver as e:
            assert "before its members regroup" in str(e)
        g.regroup()
        assert (g.rank, g.size) == (rank // 2, 2) and g.epoch > epoch and f"rank {g.rank} of 2" in repr(g)
        (lost,) = g.lost
        assert lost.rank == 1 and lost.how == "died" and lost.pid and lost.program
        assert g.all_reduce(1).item() == 2
        begun = g.all_reduce(td.ones(3), wait=False)
        g.regroup()
        try:
            begun.wait()
            assert False
        except td.Closed as e:
            assert "asked for its next epoch" in str(e)
        assert g.all_reduce(1).item() == 2 and g.lost == []
        g.leave()
        try:
            g.regroup()
            assert False
        except td.Closed:
            pass
    """, 3, "epochs", killed=None)


def test_on_without_the_dead():
    run("""
        g = td.Group(name, size, rank=rank, on_death="shrink")
        assert g.all_reduce(td.full((5,), rank)).tolist() == [6] * 5 and g.contributors == [0, 1, 2, 3]
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        assert g.all_reduce(td.full((5,), float(rank)), "mean").tolist() == [td.tensor(4 / 3).item()] * 5 and g.contributors == [0, 1, 3]
        assert g.all_gather(td.tensor(rank + 1)).tolist() == [1, 2, 0, 4]
        try:
            g.broadcast(td.zeros(3), root=2)
            assert False
        except td.MemberLost as e:
            assert e.rank == 2
        assert g.all_reduce(1).item() == 3
        g.leave()
    """, 4, "without", killed=(2,))


def test_sizes():
    for size in ((3, 2), (0, 2), (1, 300)):
        with pytest.raises(td.InvalidError):
            td.Group("sizes", size, timeout=0)
    with pytest.raises(td.InvalidError, match="rank 1 cannot be asked for"):
        td.Group("sizes", (1, 2), rank=1)
    with pytest.raises(td.InvalidError, match="on_death"):
        td.Group("sizes", 2, on_death="weep")
    with pytest.raises(td.Timeout, match="1 of 2 to 4 came"):
        td.Group("sizes", (2, 4), timeout=0.01)
    with td.Group("sizes", (1, 4)) as g:
        assert (g.rank, g.size) == (0, 1)
        with pytest.raises(td.Timeout, match="rank 0 .* is still in epoch"):
            td.Group("sizes", (1, 4), timeout=0.01)


def test_messages():
    pytest.importorskip("numpy")
    run("""
        import threading
        import numpy as np
        g = td.Group(name, size, rank=rank)
        left, right = (rank - 1) % size, (rank + 1) % size
        for n in (0, 1, 1000, 1024, 1025, 300_000):  # as a note, as a tensor
            for k in range(12):  # more than there is room for, while the next takes them
                g.send(np.full((n, 2), rank * 100 + k, np.float32), right, tag=k % 2)
                if k > 5:
                    y = g.recv(left, tag=k % 2)
                    assert y.shape == (n, 2) and y.dtype == td.float32 and (y.numpy() == left * 100 + k - 6).all()
            for k in range(6, 12):
                out = np.zeros((2, n), np.float32).T
                assert g.recv(left, tag=k % 2, out=out) is out and (out == left * 100 + k).all()
        if rank == 0:
            found = {}
            for k in range(2 * (size - 1)):
                y, source = g.recv_any(tag=7)
                found.setdefault(source, []).append(y.item())
            assert found == {r: [r, r + 0.5] for r in range(1, size)}, found
        else:
            g.send(float(rank), 0, tag=7)
            g.send(rank + 0.5, 0, tag=7)
        # A thread waits for a message while others add.
        got = []
        waiter = threading.Thread(target=lambda: got.append(g.recv(left, tag=9).item()))
        waiter.start()
        assert g.all_reduce(1).item() == size
        g.send(rank, right, tag=9)
        waiter.join()
        assert got == [left]
        for call, error, words in ((lambda: g.send(1, rank), td.InvalidError, "itself"), (lambda: g.recv(size), td.InvalidError, "no rank 3"),
                                   (lambda: g.recv(left, tag=3, timeout=0.01), td.Timeout, f"rank {left} (pid")):
            try:
                call()
                raise AssertionError(words)
            except error as e:
                assert words in str(e), e
        g.send([1, 2], right, tag=4)
        try:
            g.recv(left, tag=4, out=np.zeros(3, np.int64))
            raise AssertionError
        except td.ShapeError as e:
            assert f"rank {left} sent" in str(e)
        g.barrier()
        # What was sent before one leaves can be received, and no more.
        if rank == 1:
            g.send("12345".encode().__len__(), 0, tag=5)
            g.leave()
        elif rank == 0:
            assert g.recv(1, tag=5).item() == 5
            try:
                g.recv(1, tag=5)
                raise AssertionError
            except td.MemberLost as e:
                assert e.rank == 1 and "before it sent a message of tag 5" in str(e), e
            try:
                g.recv(1, tag=6)  # of which it has never heard
                raise AssertionError
            except td.MemberLost:
                pass
            g.send(3, 2)
        else:
            assert g.recv(0).item() == 3
    """, 3, "mail")


def test_a_rank_is_killed_before_it_sends():
    said = run("""
        g = td.Group(name, size, rank=rank)
        g.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            g.recv(1) if rank == 0 else [g.send(k, 1) for k in range(20)]
            raise AssertionError
        except td.MemberLost as e:
            print(e.rank, "died in epoch" in str(e), flush=True)
    """, 3, "mailkill", killed=(1,))
    assert said[0].split() == said[2].split() == ["1", "True"]


def test_backward_of_a_group():
    run("""
        from tensord import nn
        g = td.Group(name, size, rank=rank)
        td.manual_seed(0)
        x, y = td.randn(size * 8, 10), td.randn(size * 8, 3)
        weights = [td.randn(16, 10), td.randn(16), td.randn(3, 16), td.randn(3)]

        def model():
            m = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3), nn.Linear(3, 3))
            with td.no_grad():
                for p, w in zip(m.parameters(), weights):
                    p.copy_(w)
            return m

        alone, shared = model(), model()  # the last layer is not used
        a, b = td.optim.SGD(alone.parameters(), 0.1, momentum=0.9), td.optim.SGD(shared.parameters(), 0.1, momentum=0.9)
        mine = slice(rank * 8, rank * 8 + 8)
        for step in range(5):
            a.zero_grad(), b.zero_grad()
            ((alone[:3](x) - y) ** 2).mean().backward()
            loss = ((shared[:3](x[mine]) - y[mine]) ** 2).mean()
            if step == 1:
                loss.backward(group=g, inputs=[p for p in shared.parameters()][:4])
            else:
                loss.backward(group=g)
            for p, q in zip(alone.parameters(), shared.parameters()):
                assert (p.grad is None) == (q.grad is None)
                assert p.grad is None or td.allclose(p.grad, q.grad, atol=1e-6), (step, p.grad, q.grad)
            a.step(), b.step()
        for q in shared.parameters():  # all ranks have the same, to the bit
            assert (g.all_gather(q.detach()) == q.detach()).all().item()
        # A leaf that one rank alone has used; one more backward adds to it.
        w = td.ones(3, requires_grad=True)
        for times in (1, 2):
            (w * (rank + 1) if rank == 0 else w[:0]).sum().backward(group=g, inputs=w)
            assert w.grad.tolist() == [0.5 * times] * 3
        v = td.ones(2, requires_grad=True)
        v.sum().backward(group=g)
        (v * rank).sum().backward(group=g)
        assert v.grad.tolist() == [1 + sum(range(size)) / size] * 2
        s = td.tensor(2.0, requires_grad=True)
        s.backward(group=g)
        assert s.grad.item() == 1
        p, q = td.ones(2, requires_grad=True), td.ones(3, requires_grad=True)
        one, other = (p, q) if rank else (q, p)
        try:
            (one.sum() * other.sum()).backward(group=g)
            raise AssertionError
        except td.Mismatch as e:
            assert "inputs=" in str(e)
        (one.sum() * other.sum()).backward(group=g, inputs=[p, q])
        assert p.grad is not None and q.grad is not None
    """, 2, "backward")


def test_buffers():
    pytest.importorskip("numpy")
    run("""
        import numpy as np
        g = td.Group(name, size, rank=rank)
        big, small = g.buffer(40_000_000), g.buffer(100)
        given, total = np.frombuffer(big.input, np.float32), np.frombuffer(big.result, np.float32)
        for k in range(3):
            given[:] = rank + 1 + k
            big.all_reduce(td.float32, "mean")
            assert (total == (size + 1) / 2 + k).all() and (given == rank + 1 + k).all()
        given[1000:2000] = rank
        big.all_reduce(td.float32, "max", offset=4000, count=1000)
        assert (total[1000:2000] == size - 1).all() and total[999] == total[2000] == (size + 1) / 2 + 2
        memoryview(small.input).cast("B")[:3] = bytes([rank, 1, 255])
        small.all_reduce(td.uint8, count=3)
        assert bytes(small.result)[:3] == bytes([sum(range(size)), size, 255 * size % 256])
        for bad in (dict(offset=2), dict(offset=100), dict(count=26), dict(offset=96, count=2), dict(offset=2**63)):
            try:
                small.all_reduce(td.float32, **{"count": 1, **bad})
                raise AssertionError(bad)
            except td.InvalidError as e:
                assert "are not in a buffer of 100 bytes" in str(e), e
        try:
            g.buffer(0)
            raise AssertionError
        except td.InvalidError:
            pass
        assert g.all_reduce(np.ones(2_000_000)).sum() == size * 2_000_000  # in slots, beside them
        try:
            g.buffer(5_000 * (1 if rank else 2))
            raise AssertionError
        except td.Mismatch as e:
            assert "10000 bytes" in str(e) and "one of 5000" in str(e), e
        g.regroup()
        try:
            small.all_reduce(td.uint8)
            raise AssertionError
        except td.EpochOver as e:
            assert "make another" in str(e)
        small = [g.buffer(1000) for _ in range(63)]  # several in a segment
        again = g.buffer(100)
        try:
            g.buffer(1)
            raise AssertionError
        except td.Busy as e:
            assert "64 buffers" in str(e), e
        np.frombuffer(again.input, np.int32)[:] = 1
        again.all_reduce(td.int32)
        assert (np.frombuffer(again.result, np.int32) == size).all()
        g.leave()
        del big, small, again
        assert (given[:1000] == rank + 3).all() and total[0] == (size + 1) / 2 + 2  # whatever looks at it keeps it
        try:
            g.buffer(8)
            raise AssertionError
        except td.Closed:
            pass
    """, 3, "buffers")


def test_places_in_a_buffer_that_differ():
    """Who adds up a chunk adds what lies at its own offset, so ranks that differ in it would get anything."""
    run("""
        g = td.Group(name, size, rank=rank)
        b = g.buffer(4096)
        try:
            b.all_reduce(td.float32, offset=64 * rank, count=16)
            raise AssertionError
        except td.Mismatch as e:
            assert "float32[16] at byte 0 of buffer 0, sum" in str(e) and "at byte 64 of buffer 0" in str(e), e
    """, 2, "places")


def test_a_buffer_that_does_not_fit():
    run("""
        g = td.Group(name, size, rank=rank)
        try:
            g.buffer(1 << 50)
            raise AssertionError
        except td.OutOfMemory as e:
            assert "memory" in str(e), e
    """, 2, "toolarge")


def test_buffers_that_share_memory():
    run("""
        with td.Group(name, size, rank=rank) as g:
            for times in (1, 2):
                [g.buffer(4 * n) for n in (1000, 50_000, 100_000, 100_000, 300_000, 300_000, 1_000_000, 700_000, 60_000)]
                g.regroup()
            assert g.all_reduce(1).item() == 2
    """, 2, "shared")
