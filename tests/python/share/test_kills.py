"""Processes that are killed at any moment, in the middle of everything; whoever is left goes on, and everything of theirs goes with them.

Each round starts some of them beside this process, works with what they bring, and kills them one after another. Then the daemon holds
what it held before, and so does this process. A seed gives the same rounds, though not the same moments.
"""
import importlib.util
import multiprocessing
import os
import random
import time

import pytest
import tensord as td
from common import SLOW, daemon, seed, wait_for

ROUNDS, SECONDS = 40, 10
HAVE_NUMPY, HAVE_TORCH = (importlib.util.find_spec(name) is not None for name in ("numpy", "torch"))


def producer(rng, name, out):
    q = td.Queue(name + "/items", 3, keep=0)
    while True:
        k = rng.randrange(1, 50000)
        q.put({"k": k, "x": [td.full((k,), k), td.ones(2)]}, timeout=rng.choice([None, None, 5]))
        yield


def consumer(rng, name, out):
    q = td.Queue(name + "/items", 3, keep=0)
    while True:
        try:
            item = q.get(timeout=rng.random() * 0.01)
            assert item["x"][0][-1].item() == item["k"]
        except TimeoutError:
            pass
        yield


def graph(rng, name, out):
    w = td.open(name + "/w", timeout=20 * SLOW)
    while True:
        y = w
        for _ in range(rng.randrange(1, 60)):
            y = y * w if rng.random() < 0.5 else y + w
        if rng.random() < 0.5:
            td.autograd.grad(y.sum(), w)
        yield


def writer(rng, name, out):
    mine = td.zeros(20000)
    td.Queue(name + "/leased", 9, keep=0).put(mine)
    while True:
        with mine.writing() as bytes_of:
            memoryview(bytes_of)[0] = float(rng.random())
            yield


def numpy_memory(rng, name, out):
    import numpy as np

    q = td.Queue(name + "/arrays", 2, keep=0)
    with td.numpy_memory():
        while True:
            parts = [np.full((rng.randrange(100, 20000),), 3, "float32") for _ in range(3)]
            try:
                q.put(np.concatenate(parts), timeout=0.01)
            except TimeoutError:
                pass
            yield


def torch_child(rng, name, out):
    import torch
    from tensord.share import _loans

    _loans.LENT_SECONDS = 0.2  # after its end
    td.torch.set_sharing_strategy()
    while True:
        out.send(torch.full((rng.randrange(1, 30000),), 5.0))
        yield


ROLES = [producer, consumer, graph, writer] + [numpy_memory] * HAVE_NUMPY + [torch_child] * HAVE_TORCH


def victim(role, path, given, name, out):
    td.connect(path)
    try:
        for k, _ in enumerate(role(random.Random(given), name, out)):
            if k == 0 and role is not torch_child:
                out.send("begun")
    except (td.Closed, TimeoutError):  # the others are dead
        pass


def counts():
    """What the daemon holds beside warm segments, and what this process has of it."""
    td.sync()
    s = {r["key"]: r["value"] for r in td.status()}
    held = {k: s[k] for k in ("sessions", "tensors", "storages", "names", "queues", "nodes", "bytes_used")}
    with open("/proc/self/maps") as f:
        mapped = sum("memfd:tensord" in line for line in f)
    return {**held, "daemon's descriptors": s["descriptors"] - 2 * s["segments"], "descriptors": len(os.listdir("/proc/self/fd")), "mappings of what is gone": max(0, mapped - s["segments"])}


def more(before, now):
    """What there is more of; of mappings and descriptors there may be less, as warm segments come and go."""
    return {k: (before[k], now[k]) for k in now if now[k] > before[k] or (now[k] < before[k] and "mappings of what is gone" != k != "descriptors" and "'" not in k)}


def look(rng, channel, queues):
    """Some work of the one who stays, with what the others brought."""
    try:
        what = rng.randrange(4)
        if what == 0:
            queues["items"].put({"k": 3, "x": [td.full((3,), 3)]}, timeout=0.002)
        elif what == 1:
            item = queues["items"].get(timeout=0.002)
            assert item["x"][0][-1].item() == item["k"]
        elif what == 2:
            assert queues["arrays"].get(timeout=0.002)[-1].item() == 3
        else:
            assert 0 <= queues["leased"].get(timeout=0.002)[0].item() < 1
    except (TimeoutError, td.Closed):  # or whoever had the other end was killed
        pass
    for c in list(channel):
        for _ in range(10):  # who sends may be as quick as this
            if not c.poll():
                break
            try:
                got = c.recv()
            except (EOFError, OSError, LookupError, td.Error):  # it was killed in the middle of a message, or before the handle was there
                channel.remove(c)
                c.close()
                break
            assert isinstance(got, str) or got[-1].item() == 5


def one_round(rng, context, path, name, roles):
    w = td.ones(50, requires_grad=True)
    w.publish(name + "/w")
    queues = {"items": td.Queue(name + "/items", 3, keep=0), "arrays": td.Queue(name + "/arrays", 2, keep=0), "leased": td.Queue(name + "/leased", 9, keep=0)}
    victims, channels = [], []
    for role in roles:
        mine, theirs = context.Pipe(duplex=False)
        p = context.Process(target=victim, args=(role, path, rng.random(), name, theirs), daemon=True)
        p.start()
        theirs.close()
        victims.append(p), channels.append(mine)
    if rng.random() < 0.7:
        for c in channels:
            c.poll(20 * SLOW)  # it is at work
    while victims:
        for _ in range(rng.randrange(4)):
            look(rng, channels, queues)
        time.sleep(rng.random() * 0.02)
        p = victims.pop(rng.randrange(len(victims)))
        p.kill()
        p.join()
        p.close()
    look(rng, channels, queues)
    for c in channels:
        c.close()
    for q in queues.values():
        q.close()
    td.drop(name + "/w")
    assert (td.ones(3) + 1).tolist() == [2, 2, 2]


def test_kills(tmp_path, monkeypatch):
    rng = random.Random(seed())
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensord", *["numpy"] * HAVE_NUMPY, *["torch"] * HAVE_TORCH])
    if HAVE_TORCH:
        import torch

        from tensord.share import _loans

        monkeypatch.setattr(_loans, "TAKE_SECONDS", 0.2)  # who sent it may have been killed before its words were out
        td.torch.set_sharing_strategy()
    with daemon(tmp_path) as d:
        td.connect(d.path)
        try:
            one_round(rng, context, d.path, "warm", ROLES)
            for _ in range(50):
                td.sync()  # who waits often has a ring
            assert wait_for(lambda: (c := counts())["sessions"] == 1 and c["tensors"] == c["names"] == c["queues"] == 0), counts()
            before = counts()
            end = time.monotonic() + SECONDS
            for k in range(ROUNDS):
                roles = rng.choices(ROLES, k=rng.randrange(1, 5))
                one_round(rng, context, d.path, f"round{k}", roles)
                assert wait_for(lambda: not more(before, counts())), (k, roles, more(before, counts()))
                if time.monotonic() > end:
                    break
            print(f"{k + 1} rounds")
        finally:
            td.disconnect()
            if HAVE_TORCH:
                torch.multiprocessing.set_sharing_strategy("file_descriptor")


@pytest.mark.parametrize("module, role", [("numpy", numpy_memory), ("torch", torch_child)])
def test_who_was_there(module, role):
    """A role that needs what is not installed was left out above: that is said as skipped."""
    pytest.importorskip(module)
    assert role in ROLES
