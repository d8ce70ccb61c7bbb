"""Weights as kernels want them, kept from one call to the next: counted, the same bits, and never older than what is in the weights."""
import gc
import time

import pytest
import tensord as td
from common import daemon, script
from tensord.nn import functional as F


def status(*keys):
    all = {r["key"]: r["value"] for r in td.status()}
    return [all[k] for k in keys] if len(keys) > 1 else all[keys[0]]


def conv(w, x=None):
    return F.conv2d(td.ones(1, 32, 14, 14) if x is None else x, w, padding=1)


def product(w, x=None):
    return (td.ones(128, 1024) if x is None else x) @ w


KINDS = [(conv, (64, 32, 3, 3)), (product, (1024, 1600))]
of_kinds = pytest.mark.parametrize("f, shape", KINDS, ids=["conv2d", "mm"])


@pytest.fixture(autouse=True)
def no_gradients():
    with td.no_grad():
        yield


def used(f, *args):
    """What it gives, and whether it found something packed."""
    before = status("run_packed")
    y = f(*args)
    td.sync()
    return y, status("run_packed") - before


@of_kinds
def test_the_fourth_use_finds_them(f, shape):
    gc.collect(), td.sync()
    before = status("bytes_packed")
    w = td.randn(shape)
    results = [used(f, w) for _ in range(6)]
    assert [n for _, n in results] == [0, 0, 0, 1, 1, 1]
    assert all(td.equal(y, results[0][0]) for y, _ in results)
    assert status("bytes_packed") > before
    del w
    gc.collect(), td.sync()
    assert status("bytes_packed") == before


@of_kinds
def test_a_write_is_seen(f, shape):
    w = td.randn(shape)
    for k in range(5):
        used(f, w)
    part = w[:3]
    for write in (lambda: w.mul_(2), lambda: part.zero_(), lambda: w.data.add_(1), lambda: w.copy_(td.randn(shape)), lambda: td.add(w, 1, out=w)):
        assert used(f, w)[1] == 1
        write()
        y, n = used(f, w)
        assert n == 0 and td.equal(y, f(w.clone()))
        for _ in range(3):
            assert td.equal(used(f, w)[0], y)
    assert used(f, w)[1] == 1


@of_kinds
def test_what_is_mapped_is_never_kept(f, shape):
    """A program may write its arrays whenever it likes."""
    w = td.randn(shape)
    for _ in range(5):
        used(f, w)
    mapped = memoryview(w).cast("B").cast("f")
    for k in range(5):
        mapped[k] = k + 2.5
        y, n = used(f, w)
        assert n == 0 and td.equal(y, f(w.clone()))
    given = td.tensor(w.tolist())  # which this program has written itself
    assert [used(f, given)[1] for _ in range(5)] == [0] * 5


@of_kinds
def test_writes_and_uses_in_one_breath(f, shape):
    """Nothing is waited for: packs are made, used and out of date while calls are pending."""
    w, got, want = td.randn(shape), [], []
    for k in range(60):
        if k % 9 == 8:
            w.mul_(0.5 if k % 2 else 2.1)
        got.append(f(w))
        want.append(w.clone())
    for a, b in zip(got, want):
        assert (a == f(b)).all().item()


def test_each_shape_has_its_own():
    w, x = td.randn(64, 32, 3, 3), [td.randn(n, 32, s, s) for n in (1, 3) for s in (9, 14, 17)]
    want = [conv(w.clone(), a).tolist() for a in x]
    for _ in range(5):
        assert [conv(w, a).tolist() for a in x] == want
    flat, wide = td.randn(1024, 1024), td.randn(300, 1024)
    before = status("run_packed")
    for b in (flat, flat.T, flat[:, 16:1000], flat[8:].T[:, :900]):
        a = wide[:, :b.shape[0]].contiguous()
        y = a @ b.clone()
        assert all(td.equal(a @ b, y) for _ in range(5))
    assert status("run_packed") >= before + 12


def test_weights_that_never_came():
    """What could not be computed is no weight: each use says so, and nothing is kept of it."""
    w = td.randn(1024, 1600)
    for k in range(4):
        used(product, w)
    before, slow = status("bytes_packed"), td.ones(1500, 1500)
    for _ in range(12):
        slow = slow @ slow * 1e-3  # so that what follows is all pending
    bad = td.randn(2, 1024, 1600)[td.tensor([1, 77]) + (slow[0, 0] * 0).long()][0]
    results = [product(bad) for _ in range(5)]  # the third would make a pack, and is never run
    for y in results:
        with pytest.raises(td.OutOfRange):
            y.tolist()
    assert status("bytes_packed") == before
    assert used(product, w)[1] == 1


def test_frozen_programs_have_them():
    net = td.nn.Sequential(td.nn.Conv2d(32, 64, 3), td.nn.BatchNorm2d(64), td.nn.ReLU(), td.nn.Conv2d(64, 64, 3)).eval()
    frozen, x = td.jit.freeze(td.jit.script(net)), td.randn(1, 32, 14, 14)
    before, want = status("run_packed"), frozen(x).tolist()
    for _ in range(5):
        assert frozen(x).tolist() == want
    assert status("run_packed") - before == 6


def test_a_fifth_shape_waits_until_another_is_idle():
    w, sizes = td.randn(64, 32, 3, 3), (12, 13, 14, 15, 20)
    def uses(s, n):
        before = status("run_packed")
        for _ in range(n):
            conv(w, td.ones(1, 32, s, s)).sum().item()
        return status("run_packed") - before

    began = time.monotonic()
    first, again = [uses(s, 5) for s in sizes], [uses(s, 5) for s in sizes]
    slow = time.monotonic() - began > 0.9  # then one may have been idle for a second, and its room another's
    assert slow or (first == [2, 4, 4, 4, 0] and again == [5, 5, 5, 5, 0]), (first, again)
    time.sleep(1.1)
    began = time.monotonic()
    late = [uses(s, 5) for s in reversed(sizes)]
    assert slow or time.monotonic() - began > 0.9 or late == [4, 5, 5, 5, 0], late


def test_there_is_room_for_some(tmp_path):
    """With 96 MB, packs have 12: who came first stays as long as it is used, and is gone when it was not for a second."""
    with daemon(str(tmp_path), "--memory", "96M") as d:
        r = script("""
            import time
            import tensord as td
            def status(key):
                return next(r["value"] for r in td.status() if r["key"] == key)
            def uses(w, n=5):
                before = status("run_packed")
                for _ in range(n): (x @ w).sum().item()
                return status("run_packed") - before
            with td.no_grad():
                ws = [td.randn(512, 1024) for _ in range(9)]  # 2 MB each
                x = td.randn(400, 512)
                began = time.monotonic()
                first = [uses(w) for w in ws]
                n = sum(map(bool, first))
                slow = time.monotonic() - began > 0.9  # then one may have been idle for a second, and gone
                assert slow or 4 <= n <= 6 and first == [2] * n + [0] * (9 - n), first
                assert 8e6 < status("bytes_packed") <= 12 << 20, status("bytes_packed")
                again = [uses(w, 1) for w in ws]
                slow = time.monotonic() - began > 0.9
                assert slow or again == [1] * n + [0] * (9 - n), again
                time.sleep(1.1)
                began = time.monotonic()
                late = [uses(ws[8]), uses(ws[0], 1)]
                assert slow or time.monotonic() - began > 0.9 or late == [4, 0], late
                large, x = td.randn(1024, 2048), td.ones(128, 1024)
                assert uses(large) == 0 and status("bytes_packed") <= 12 << 20  # more than half of the room
        """, TENSORD_SOCKET=d.path)
        assert r.returncode == 0, r.stderr


def test_without(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORD_PACKS", "0")
    with daemon(str(tmp_path)) as d:
        r = script("""
            import tensord as td
            w = td.randn(64, 32, 3, 3)
            for _ in range(6): td.conv2d(td.ones(1, 32, 14, 14), w)
            td.sync()
            assert [r["value"] for r in td.status() if "_packed" in r["key"]] == [0, 0]
        """, TENSORD_SOCKET=d.path)
    assert r.returncode == 0, r.stderr
