"""What lies in a queue is what was put: a write to the tensor afterwards, by whomever and in whatever way, does not change it, and nothing is copied where nobody writes."""
import multiprocessing
import os

import pytest
import tensord as td
from common import SLOW, at_rest, daemon, script, settles

LONG = 60 * SLOW


def storages():
    td.sync()
    return next(r["value"] for r in td.status() if r["key"] == "storages")


def _write_lease(t):
    with t.writing() as bytes_of:
        memoryview(bytes_of).cast("B")[:] = b"\1" * t.nbytes


def _program(t):
    _filled(t)


@td.jit.script
def _filled(t: td.Tensor):
    t.fill_(9)


def _elsewhere(t):
    p = multiprocessing.get_context("fork").Process(target=lambda: (t.mul_(7), td.sync()))
    p.start()
    p.join()


def _step(t):
    optimizer = td.optim.SGD([t], lr=0.5)
    t.requires_grad_()
    (t * 2).sum().backward()
    optimizer.step()
    t.requires_grad_(False)


def _set_data(t):
    t.data = td.full((4, 3), 8.0)


WRITES = {"add_": lambda t: t.add_(1), "fill_": lambda t: t.fill_(7), "index": lambda t: t.__setitem__((1, 2), 50), "copy_": lambda t: t.copy_(td.ones(4, 3)),
          "zero_": lambda t: t.zero_(), "+=": lambda t: t.__iadd__(2), "a view": lambda t: t[2:].mul_(3), "transposed": lambda t: t.T[1].fill_(6),
          "out=": lambda t: td.add(td.ones(4, 3), 1, out=t), "scatter_": lambda t: t.index_fill_(0, td.tensor([0]), 4.0), "random": lambda t: t.uniform_(),
          "a step": _step, "writing()": _write_lease, "a program": _program, "another process": _elsewhere, "data": _set_data}


@pytest.mark.parametrize("way", WRITES)
def test_a_write_after_put_does_not_change_what_was_put(way):
    t = td.arange(12.0).reshape(4, 3).clone()
    before = t.tolist()
    with td.Queue("queued/writes", 9) as q:
        q.put({"x": t, "row": t[1], "again": [t]})
        q.put(t.T)
        WRITES[way](t)
        now = t.tolist()
        assert now != before
        q.put(t)
        got, transposed, after = q.get(), q.get(), q.get()
        assert got["x"].tolist() == before and got["row"].tolist() == before[1] and got["again"][0] is got["x"]
        assert transposed.T.tolist() == before and after.tolist() == now == t.tolist()
        got["row"].fill_(-1)  # parts of one tensor are that still, and the sender's is another
        assert got["x"][1].tolist() == [-1, -1, -1] and transposed.T[1].tolist() == [-1, -1, -1] and t.tolist() == now


def test_ways_are_of_members_alone():
    """What a queue goes through is memory of C: nothing else comes there, in neither place."""
    with td.Queue("queued/ways", 2) as q:
        q.put(1)
        for wrong in ((1, None), (None, 1), (q, None), (None, q)):
            with pytest.raises(td.DTypeError, match="a member of a queue, not"):
                q._by(*wrong)
        assert q.get() == 1


def test_a_gradient_that_was_put():
    w = td.ones(3, requires_grad=True)
    with td.Queue("queued/grad", 9) as q:
        for k in range(1, 4):
            (w * 2).sum().backward()
            q.put(w.grad)
            assert w.grad.tolist() == [2 * k] * 3
        assert [q.get()[0].item() for _ in range(3)] == [2, 4, 6]


def test_one_buffer_for_all_items():
    """Each has its own values, and they take no more than a copy each."""
    with td.Queue("queued/buffer", 200) as q:
        buffer = td.zeros(100)
        for k in range(100):
            buffer.fill_(k)
            q.put((k, buffer))
        before = storages()
        for k in range(100):
            number, x = q.get()
            assert number == k and x.tolist() == [k] * 100
        del x
        assert storages() == before - 99


def test_a_producer_that_goes_on_writing_while_items_wait():
    with td.Queue("queued/all", 9, role="consumer") as q:
        p = multiprocessing.get_context("fork").Process(target=_put_all, args=("queued/all",))
        p.start()
        p.join()  # all of them lie there
        assert [q.get(timeout=LONG)[0].item() for _ in range(5)] == [0, 1, 2, 3, 4]
        p.close()


def _put_all(name):
    q, buffer = td.Queue(name, 9), td.zeros(1000)
    for k in range(5):
        buffer.fill_(k)
        q.put(buffer)
    buffer.fill_(-1)
    td.sync()


def test_nothing_is_copied_where_nobody_writes():
    """A tensor, and what a loader has filled in place, arrive where they lie."""
    with td.Queue("queued/same", 9) as q:
        t = td.ones(1000)
        filled = td.zeros(1000)
        _write_lease(filled)
        before = storages()
        q.put([t, filled])
        q.put(t)
        assert storages() == before
        (x, y), z = q.get(), q.get()
        assert storages() == before
        assert x.untyped_storage() == z.untyped_storage() == t.untyped_storage() and y.untyped_storage() == filled.untyped_storage()
        x.add_(1)  # from get() on they share it
        assert t.tolist() == z.tolist() == [2] * 1000


def test_what_is_shared_on_purpose_is_shared():
    w = td.ones(3).publish("queued/w")
    leaf = td.ones(3, requires_grad=True)
    with td.Queue("queued/shared", 9) as q:
        q.put((w, leaf))
        w.add_(1)
        with td.no_grad():
            leaf.add_(1)
        same, parameter = q.get()
        assert same.tolist() == [2, 2, 2] and parameter.tolist() == [2, 2, 2]
        (parameter * 3).sum().backward()
        assert leaf.grad.tolist() == [3, 3, 3]
    td.drop("queued/w")


def test_all_of_it_returns():
    """Taken, left lying, given back, and with a queue that goes."""
    def story():
        q = td.Queue("queued/returns", 50, keep=0)
        buffer = td.zeros(50)
        for k in range(20):
            buffer.fill_(k)
            q.put([buffer, buffer[k:]])
        x = q.get()
        assert x[0].tolist() == [0] * 50
        many = [td.ones(1) for _ in range(100)]
        q.put(many)  # more tensors than the next get brings ids for
        for t in many:
            t.add_(1)
        for k in range(1, 20):
            assert q.get()[1].tolist() == [k] * (50 - k)
        assert [t.item() for t in q.get()] == [1] * 100
        for _ in range(3):
            q.put(buffer)
            buffer.add_(1)
        q.close()

    story()
    before = at_rest()
    story()
    assert settles(before) == before


def test_memory_that_lacks_for_the_copy_is_an_error_of_the_write(tmp_path):
    """The item is what was put, and the tensor what it was."""
    with daemon(str(tmp_path), "--memory", "64M") as own:
        r = script("""
            import tensord as td
            q = td.Queue("full", 2)
            t = td.ones(10_000_000)
            q.put(t)
            try:
                t.add_(1)
                print(t[0].item())
            except td.OutOfMemory as e:
                print("OutOfMemory")
            print(t[0].item(), t[-1].item(), q.get()[5].item())
            t.add_(1)
            print(t[0].item())
        """, TENSORD_SOCKET=own.path)
        assert (r.stdout, r.returncode) == ("OutOfMemory\n1.0 1.0 1.0\n2.0\n", 0), r.stderr


def test_items_of_who_was_killed():
    """What it wrote, and what it put before."""
    with td.Queue("queued/killed", 9, role="consumer") as q:
        p = multiprocessing.get_context("fork").Process(target=_put_and_die, args=("queued/killed",))
        p.start()
        p.join()
        assert [q.get(timeout=LONG).tolist() for _ in range(3)] == [[k] * 10 for k in range(3)]
        p.close()


def _put_and_die(name):
    q, buffer = td.Queue(name, 9), td.zeros(10)
    for k in range(3):
        buffer.fill_(k)
        q.put(buffer)
    buffer.fill_(-1)
    td.sync()
    os.kill(os.getpid(), 9)
