"""send, recv and their like by tensord: order, tags, sizes, ranks that die or do not come."""
import os
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

import tensord as td
from tensord.share._letters import MANY, Letters, memory
from test_collectives import beside_gloo, name, run  # noqa: F401


@pytest.fixture
def two(request):
    pair = [Letters(f"{request.node.originalname}-{os.getpid()}", r, 2) for r in range(2)]
    yield pair
    before = len(os.listdir("/proc/self/fd"))
    for each in pair:
        each.close()
    assert len(os.listdir("/proc/self/fd")) < before


def read(letters, sender, count, tag=0, seconds=60):
    got = bytearray(count)
    asked = letters.ask(sender, tag, "x", memoryview(got))
    letters.receive(asked, seconds)
    return bytes(got)


def test_letters_come_in_order(two):
    a, b = two
    large = os.urandom(100000)

    def write():
        last = [a.post(1, 0, "x", bytes([n % 256]) * 1000) for n in range(300)]  # more than the socket has room for
        for letter in (*last, a.post(1, 5, "x", large), a.post(1, 0, "x", large[::-1]), a.post(1, 9, "x", b"")):
            a.sent(letter, 60)

    thread = threading.Thread(target=write)
    thread.start()
    assert read(b, 0, 100000, tag=5) == large
    assert [read(b, 0, 1000)[0] for _ in range(300)] == [n % 256 for n in range(300)] and read(b, 0, 100000) == large[::-1]
    thread.join()


def test_who_asked_first_gets_first(two):
    a, b = two
    into = [bytearray(1) for _ in range(3)]
    asked = [b.ask(None if k == 1 else 0, 0, "x", memoryview(i)) for k, i in enumerate(into)]
    for n in range(3):
        a.post(1, 0, "x", bytes([n]))
    b.receive(asked[2], 60)
    assert [i[0] for i in into] == [0, 1, 2] and all(x.done and x.sender == 0 for x in asked)


def test_what_differs_is_told(two):
    a, b = two
    a.post(1, 0, "float32[2]", bytes(8))
    with pytest.raises(td.Mismatch, match=r"rank 0 sent float32\[2\], and x was to be received"):
        read(b, 0, 8)
    a.post(1, 0, "x", bytes(8))
    assert read(b, 0, 8) == bytes(8)


def test_who_posts_much_waits(two):
    """wait() of a send waits while much is under way; to post waits for nobody."""
    a, b = two
    posted = [a.post(1, 0, "x", bytes(40000)) for _ in range(MANY + 2)]
    with pytest.raises(td.Timeout, match="rank 1 .* has not come to a receive from rank 0"):
        a.sent(posted[-1], 0.05)
    for _ in posted:
        read(b, 0, 40000)
    for letter in posted:
        a.sent(letter, 60)


def test_who_has_gone_is_told_after_what_it_sent(two):
    a, b = two
    a.post(1, 0, "x", b"1")
    a.post(1, 0, "x", bytes(50000))
    a.close()
    assert read(b, 0, 1) == b"1" and read(b, 0, 50000) == bytes(50000)
    for call in (lambda: read(b, 0, 1), lambda: read(b, None, 1), lambda: b.sent(b.post(0, 0, "x", b"1"), 60)):
        with pytest.raises(td.MemberLost, match="rank 0 .*has gone before") as e:
            call()
        assert e.value.rank == 0
    with pytest.raises(td.Closed):
        a.post(1, 0, "x", b"1")


def test_a_forked_child_holds_no_end(two):
    """A rank that has ended is told, whatever its children do."""
    a, b = two
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)
    a.close()
    with pytest.raises(td.MemberLost):
        read(b, 0, 1)
    os.close(w)
    os.waitpid(pid, 0)


def test_memory_of_nothing():
    assert len(memory(0, 0)) == 0


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
    for call in () if not NEW else (lambda: dist.send(torch.ones(1), rank), lambda: dist.send(torch.ones(1), size), lambda: dist.recv(torch.ones(1).to_sparse(), nxt)):
        try:  # gloo of PyTorch 1.13 ends with a signal here
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
                say([out.tolist(), e.rank, str(e).startswith("rank 0 (pid "), "a send of float32[3] with tag 0 to rank 1" in str(e)])
        os._exit(0)
    """, 2, name)
    assert said[1] == [[[1.0] * 3, 0, True, True]]
