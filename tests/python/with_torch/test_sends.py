"""send, recv and their like by tensord: order, tags, sizes, ranks that die or do not come."""
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

from test_collectives import beside_gloo, name, run  # noqa: F401

SENDS = """
    begin()
    def numbers(n, dtype=torch.float32):
        return torch.randint(0, 99, (n,)).to(dtype)
    nxt, before = (rank + 1) % size, (rank - 1) % size
    for dtype in (torch.float32, torch.int64, torch.uint8, torch.float64):
        for n in (1, 1000, 20000, 300000):
            x, out = numbers(n, dtype), torch.empty(n, dtype=dtype)
            works = [dist.isend(x, nxt), dist.irecv(out, before)]
            for w in works:
                w.wait()
            say([n, out.double().sum().item(), out[-3:].tolist(), [w.is_completed() for w in works]])
            for w in dist.batch_isend_irecv([dist.P2POp(dist.irecv, out, before), dist.P2POp(dist.isend, x + 1, nxt)]):
                w.wait()
            say(out.double().sum().item())
    # Tags, and another order.
    a, b = torch.empty(5), torch.empty(5)
    get = [dist.irecv(a, before, tag=1), dist.irecv(b, before, tag=2)]
    give = [dist.isend(torch.full((5,), 2.0 + rank), nxt, tag=2), dist.isend(torch.full((5,), 1.0 + rank), nxt, tag=1)]
    for w in (*reversed(get), *give):
        w.wait()
    say([a.tolist(), b.tolist()])
    # From whoever sends: what is known is the sum.
    if rank == 0:
        got, froms = 0.0, []
        for _ in range(size - 1):
            t = torch.empty(3)
            froms.append(dist.recv(t))
            got += t.sum().item()
        say([got, sorted(froms)])
    else:
        dist.send(torch.full((3,), float(rank)), 0)
    dist.barrier()
    # In a group of some of the ranks.
    pair = dist.new_group([0, size - 1])
    if rank == 0:
        dist.send(torch.tensor([4.0]), size - 1, group=pair)
    elif rank == size - 1:
        t = torch.empty(1)
        say([dist.recv(t, 0, group=pair), t.item()])
    for call in (lambda: dist.send(torch.ones(1), rank), lambda: dist.send(torch.ones(1), size), lambda: dist.recv(torch.ones(1).to_sparse(), nxt)):
        if backend == "gloo":
            say("refused")  # or waits for its deadline, or ends with a signal
            continue
        try:
            call()
            say("went")
        except (RuntimeError, ValueError, NotImplementedError):
            say("refused")
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("size", [2, 3])
def test_sends_are_gloos(name, size):  # noqa: F811
    assert len(beside_gloo(SENDS, size, name)[0]) > 30


def test_many_at_once(name):  # noqa: F811
    """More than a tag has room for, waited for in any order: sends first, backwards, by several threads. Who asked first gets first."""
    said = run("""
        import threading
        begin()
        other = 1 - rank
        for order in (lambda works: works, lambda works: works[::-1]):
            into = [torch.empty(n + 1) for n in range(30)]
            for w in order([dist.isend(torch.full((n + 1,), 100.0 * rank + n), other) for n in range(30)] + [dist.irecv(t, other) for t in into]):
                w.wait()
            say([t[-1].item() for t in into] == [100.0 * other + n for n in range(30)])
        def work(tag):
            for n in range(20):
                t = torch.empty(1)
                send = dist.isend(torch.tensor([float(n)]), other, tag=tag)
                dist.recv(t, other, tag=tag)
                send.wait()
                if t.item() != n:
                    say([tag, n, t.item()])
        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        t = torch.empty(2)
        w = dist.irecv(t, other)
        say(w.is_completed())
        dist.barrier()
        dist.send(torch.ones(2).double(), other)
        try:
            w.wait()
        except td.Mismatch as e:
            say(str(e).splitlines()[0])
        if rank == 0:
            dist.send(torch.zeros(3, 2).t(), 1)
        else:
            t = torch.ones(3, 2).t()
            w = dist.irecv(t)
            while not w.is_completed():
                pass
            say([t.tolist(), w._source_rank()])
        dist.barrier()
        os._exit(0)
    """, 2, name)
    assert said[0] == [True, True, False, "recv(): rank 1 sent float64[2], and float32[2] was to be received"]
    assert said[1][-1] == [[[0.0] * 3] * 2, 0] and len(said[1]) == 5


def test_a_sender_that_dies(name):  # noqa: F811
    said = run("""
        begin()
        out = torch.empty(3).t()
        if rank == 0:
            dist.send(torch.ones(3), 1)
        if rank == 1:
            dist.recv(out, 0)
            try:
                dist.recv(out, 0)
            except td.MemberLost as e:
                say([out.tolist(), e.rank, str(e).startswith("recv(): rank 0 (pid "), "<string>:" in str(e)])
        os._exit(0)
    """, 2, name)
    assert said[1] == [[[1.0] * 3, 0, True, True]]


def test_a_receive_that_was_given_up(name):  # noqa: F811
    """It stays so: nobody takes for received what never came."""
    said = run("""
        import datetime
        begin()
        if rank == 0:
            w = dist.irecv(torch.empty(3), 1)
            for _ in range(2):
                try:
                    w.wait(datetime.timedelta(milliseconds=50))
                    say("came")
                except td.Timeout:
                    say("late")
            say(w.is_success())
        dist.barrier()
        os._exit(0)
    """, 2, name)
    assert said[0] == ["late", "late", False]
