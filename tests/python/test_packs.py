"""Weights as kernels want them, kept from one call to the next: counted, the same bits, and never older than what is in the weights."""
import gc

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
    for _ in range(4):
        bad = td.randn(2, 1024, 1600)[td.tensor([1, 77])][0]
        with pytest.raises(td.OutOfRange):
            product(bad).tolist()
    assert used(product, w)[1] == 1


def test_frozen_programs_have_them():
    net = td.nn.Sequential(td.nn.Conv2d(32, 64, 3), td.nn.BatchNorm2d(64), td.nn.ReLU(), td.nn.Conv2d(64, 64, 3)).eval()
    frozen, x = td.jit.freeze(td.jit.script(net)), td.randn(1, 32, 14, 14)
    before, want = status("run_packed"), frozen(x).tolist()
    for _ in range(5):
        assert frozen(x).tolist() == want
    assert status("run_packed") - before == 6


def test_there_is_room_for_some(tmp_path):
    """With 96 MB, packs have 12: those that were used last stay."""
    with daemon(str(tmp_path), "--memory", "96M") as d:
        r = script("""
            import tensord as td
            def status(key):
                return next(r["value"] for r in td.status() if r["key"] == key)
            with td.no_grad():
                ws = [td.randn(512, 1024) for _ in range(9)]  # 2 MB each
                x = td.randn(400, 512)
                for w in ws:
                    for _ in range(5): (x @ w).sum().item()
                assert 8e6 < status("bytes_packed") <= 12 << 20, status("bytes_packed")
                before = status("run_packed")
                (x @ ws[-1]).sum().item(), (x @ ws[0]).sum().item()
                assert status("run_packed") == before + 1
                large = td.randn(1024, 2048)
                for _ in range(5): (td.ones(128, 1024) @ large).sum().item()  # more than half of the room
                assert status("run_packed") == before + 1 and status("bytes_packed") <= 12 << 20
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
