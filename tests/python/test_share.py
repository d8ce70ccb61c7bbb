"""Tensors between processes: pickled as handles, in queues."""
import multiprocessing
import os
import pickle

import pytest
import tensord as td

METHODS = multiprocessing.get_all_start_methods()


def test_a_handle_is_some_bytes_and_for_one():
    t = td.zeros(1000, 1000)
    data = pickle.dumps(t)
    assert len(data) < 400
    same = pickle.loads(data)
    same[0, 0] = 5
    assert t[0, 0].item() == 5 and same.shape == t.shape
    from tensord import _pickle
    before, _pickle.TAKE_SECONDS = _pickle.TAKE_SECONDS, 0.05
    try:
        with pytest.raises(LookupError, match="one receiver"):
            pickle.loads(data)
    finally:
        _pickle.TAKE_SECONDS = before


def test_in_flight_it_keeps_the_tensor_and_then_dies():
    from tensord import _pickle
    before, _pickle.HANDLE_SECONDS = _pickle.HANDLE_SECONDS, 0.3
    try:
        kept, lost = pickle.dumps(td.full((5,), 3)), pickle.dumps(td.ones(7, 11))
    finally:
        _pickle.HANDLE_SECONDS = before
    assert pickle.loads(kept).tolist() == [3] * 5
    assert any(r["tensor"] == "float32[7, 11]" for r in td.status("names"))
    import time
    time.sleep(0.6)
    td.sync()
    assert not any(r["tensor"] == "float32[7, 11]" for r in td.status("names"))


def test_subclasses_and_containers():
    t = td.ones(2, requires_grad=True)
    out = pickle.loads(pickle.dumps({"a": [t, t], "b": td.float16}))
    assert out["a"][0] is out["a"][1] and out["a"][0].requires_grad and out["b"] is td.float16


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
        assert back.get(timeout=30) == 4 * k
    q.put(None)
    p.join()
    assert t.tolist() == [3, 3, 3, 3] and p.exitcode == 0


ITEMS = [None, True, 1, -(2**63), 2**80, 1.5, 1j, "text é", b"bytes", [1, [2, (3,)]], {"a": {"b": (None, False)}}, {}, [], ()]


@pytest.mark.parametrize("item", ITEMS, ids=repr)
def test_queue_items(item):
    with td.Queue("items", 2) as q:
        q.put(item)
        assert q.get() == item


def test_queue_tensors():
    q = td.Queue("tensors", 4)
    t = td.zeros(3)
    q.put({"x": t, "again": [t], "y": (td.arange(2), 7)})
    got = q.get()
    got["x"][1] = 5
    assert t.tolist() == [0, 5, 0] and got["again"][0] is got["x"] and got["y"][0].tolist() == [0, 1] and got["y"][1] == 7
    q.close()


def test_queue_refuses():
    q = td.Queue("refusing", 1)
    loop = []
    loop.append(loop)
    for item, kind in ((object(), TypeError), (loop, ValueError), ([td.ones(1) for _ in range(65)], ValueError), ({1, 2}, TypeError)):
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
            seen.append(q.get(timeout=30)["k"])
        except EOFError:  # one has ended before the other began
            assert any(p.is_alive() for p in members)
    for p in members:
        p.join()
    assert sorted(seen) == sorted([*range(5)] * 2)
    with pytest.raises((EOFError, TimeoutError)):
        q.get(timeout=0.2)
    q.close()


def test_many_in_flight_need_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    handles = [pickle.dumps(td.full((4,), k)) for k in range(2000)]
    assert len(os.listdir("/proc/self/fd")) - before <= 2
    assert all(pickle.loads(h)[0].item() == k for k, h in enumerate(handles[:50]))
    assert pickle.loads(handles[-1]).tolist() == [1999] * 4


def _puts_and_dies(name, path):
    td.connect(path)
    q = td.Queue(name)
    q.put(td.ones(3))
    td.sync()
    os.kill(os.getpid(), 9)


def test_a_consumer_is_told_of_deaths():
    said = []
    q = td.Queue("share/deaths", 4, role="consumer", on_death=said.append)
    held = td.Queue("share/deaths", role="producer")
    p = multiprocessing.get_context("fork").Process(target=_puts_and_dies, args=("share/deaths", td.connection()["path"]))
    p.start()
    assert q.get(timeout=30).tolist() == [1, 1, 1], "what a producer put before it died is there"
    p.join()
    for _ in range(300):
        with pytest.raises(TimeoutError):  # it is told, and the wait goes on
            q.get(timeout=0.1)
        if said:
            break
    assert len(said) == 1 and str(p.pid) in said[0] and "share/deaths" in said[0], said
    held.close()
    with pytest.raises(td.Closed):
        q.get(timeout=30)
    q.close()


def test_on_death_may_raise():
    def stop(text):
        raise KeyError(text)

    with td.Queue("share/deaths", 4, role="consumer", on_death=stop) as q, td.Queue("share/deaths", role="producer"):
        p = multiprocessing.get_context("fork").Process(target=_puts_and_dies, args=("share/deaths", td.connection()["path"]))
        p.start()
        assert q.get(timeout=30).tolist() == [1, 1, 1]
        with pytest.raises(KeyError, match="share/deaths"):
            q.get(timeout=30)
        p.join()


@pytest.mark.parametrize("wrong, words", [({"role": "both"}, "'producer'"), ({"on_death": 3}, "function")])
def test_wrong_arguments_of_a_queue(wrong, words):
    with pytest.raises(td.Error, match=words):
        td.Queue("share/wrong", **wrong)
