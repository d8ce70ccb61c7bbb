"""What is made is freed: references, memory, handles in the daemon, descriptors."""
import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import tracemalloc

import pytest
import tensord as td
import tensord.aio

LOOP = asyncio.new_event_loop()
ITEMS = td.Queue("leaks", maxsize=4)
DOUBLED = td.jit.trace(lambda x: x * 2, (td.ones(2),))


def many():
    """More tensors than an item has places for without asking for memory."""
    return list(td.ones(12, 2).unbind(0))


def awaited(of):
    return LOOP.run_until_complete(of)


async def given_up():
    """A get that nobody answers, and whose task is cancelled while it waits."""
    task = asyncio.ensure_future(td.aio.Queue("nothing").get())
    await td.aio.sync()
    task.cancel()
    await asyncio.wait([task])


async def through_a_queue(x):
    async with td.aio.Queue("leaks in a loop") as q:
        await q.put(x)
        return await q.get()


class Twice(td.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def through_hooks(x):
    x.register_hook(lambda g: g * 2)
    with td.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        Twice.apply(x * x).sum().backward()
    return x.grad


def through(*items):
    for x in items:
        ITEMS.put(x)
    return [ITEMS.get() for _ in items]


PLACES = {
    "operators": lambda: (td.ones(3) + 1) * td.ones(3) @ td.ones(3),
    "keywords": lambda: td.ones(2, 3).sum(dim=1, keepdim=True),
    "lists": lambda: td.cat([td.ones(2), td.ones(2)], dim=0),
    "several results": lambda: td.sort(td.ones(4)),
    "views": lambda: td.ones(4).reshape(2, 2).unbind(0),
    "iteration": lambda: [r for r in td.ones(4, 2)],
    "get": lambda: td.ones(4, 4)[None, 1:, [0, 1], ...],
    "set": lambda: td.ones(4, 4).__setitem__((slice(None), [0, 1]), [1, 2]),
    "mask": lambda: td.ones(4)[td.ones(4) > 0].shape,
    "nested": lambda: td.tensor([[1, 2.5], [True, 3]]),
    "numbers": lambda: (td.ones(1).item(), td.ones(2).tolist(), bool(td.ones(1)), int(td.ones(1))),
    "buffer": lambda: memoryview(td.ones(3)).tobytes(),
    "dlpack": lambda: (td.ones(3).__dlpack__(), td.ones(3).__dlpack__(max_version=(1, 0)), td.from_dlpack(td.ones(3).__dlpack__())),
    "autograd": lambda: (lambda w: ((w * w).sum().backward(), w.grad, td.autograd.grad(w.sum(), w)))(td.ones(3, requires_grad=True)),
    "functions": lambda: through_hooks(td.ones(3, requires_grad=True)),
    "modes": lambda: td.no_grad().__enter__().__exit__(None, None, None),
    "repr": lambda: repr(td.ones(3, 3)),
    "attributes": lambda: (td.ones(2).T, td.ones(2).shape, td.ones(2).dtype, td.ones(2).data, td.ones(2).grad, td.ones(2).stride()),
    "names": lambda: (td.ones(2).publish("leak", replace=True), td.open("leak"), td.drop("leak")),
    "trees": lambda: (td.publish("leaking tree", {"w": td.ones(2), "of": many(), "n": "text"}, replace=True), td.open("leaking tree")),
    "trees into tensors": lambda: (td.publish("leaking tree", [td.ones(2)], replace=True), td.open("leaking tree", out=[td.zeros(2)])),
    "a loop's trees": lambda: (td.publish("leaking tree", many(), replace=True), awaited(td.aio.open("leaking tree"))),
    "status": lambda: td.status(),
    "items": lambda: through({"x": td.ones(2), "n": 1}, [1.5, "text", b"bytes", None, 1 << 80], "long" * 1000),
    "items with many tensors": lambda: through(many(), dict(enumerate(many())), many() * 2),
    "large items": lambda: through([b"y" * (1 << 20), many()]),
    "a loop's values": lambda: [awaited(f(td.ones(1))) for f in (td.aio.ready, td.aio.item, td.aio.tolist)],
    "a loop's calls": lambda: (awaited(td.aio.call(DOUBLED, td.ones(2))), awaited(td.aio.sync()), awaited(td.aio.status("names"))),
    "a loop's names": lambda: (td.ones(2).publish("leak", replace=True), awaited(td.aio.open("leak"))),
    "a loop's items": lambda: awaited(through_a_queue([td.ones(2), many()])),
    "a loop's wait": lambda: awaited(given_up()),
}
FAILURES = {
    "shape": lambda: td.ones(2) + td.ones(3), "index": lambda: td.ones(2)[5], "later": lambda: td.ones(2)[td.tensor([5])].item(),
    "argument": lambda: td.add(td.ones(2), "x"), "keyword": lambda: td.sum(td.ones(2), foo=1), "data": lambda: td.tensor([[1], [2, 3]]),
    "list": lambda: td.cat([td.ones(2), 3]), "key": lambda: td.ones(2)[None, [0], "x"], "dtype": lambda: td.ones(2).to("x"),
    "buffer": lambda: memoryview(td.ones(1, requires_grad=True)), "name": lambda: td.open("no"),
    "item": lambda: through([*many(), object()]), "loop's value": lambda: awaited(td.aio.item(td.ones(2))), "loop's name": lambda: awaited(td.aio.open("no", timeout=0)),
    "loop's tensor": lambda: awaited(td.aio.ready(3)), "loop's call": lambda: td._C._aio_call(DOUBLED._daemons(), (3, 4), None, print), "loop's long name": lambda: awaited(td.aio.open("n" * 5000)), "loop's item": lambda: awaited(through_a_queue([*many(), object()])),
}


def quietly(f):
    try:
        f()
    except Exception:
        pass


class Allocated(ctypes.Structure):
    """What the C library says of its memory: struct mallinfo2."""
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_c():
    """Bytes that C code holds of malloc(): 0 where nobody says."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if not ask:
        return 0
    ask.restype = Allocated
    told = ask()
    return told.uordblks + told.hblkhd


def held_after(f, n):
    """Blocks of memory that Python holds after n calls (some are kept for reuse), and bytes that C code holds."""
    for _ in range(n):
        quietly(f)
    td.sync()
    gc.collect()
    return sys.getallocatedblocks(), in_c()


@pytest.mark.parametrize("name", [*PLACES, *(f"failing {n}" for n in FAILURES)])
def test_nothing_is_left(name):
    f = FAILURES[name[8:]] if name.startswith("failing ") else PLACES[name]
    held = [held_after(f, 300) for _ in range(4)]
    # what is kept for reuse grows at first; a leak grows for ever
    blocks, bytes_more = (min(b - a for a, b in zip(each, each[1:])) for each in zip(*held))
    assert blocks < 200 and bytes_more < 300 * 16, f"{blocks} blocks and {bytes_more} bytes of C more after 300 calls: {held}"


def live_tensors():
    gc.collect()
    td.sync()
    row = td.status("sessions")
    return sum(r.get("tensors", r.get("objects", 0)) for r in row)


def test_the_daemon_s_handles_go():
    quietly(PLACES["operators"])
    before = live_tensors()
    for f in [*PLACES.values(), *FAILURES.values()]:
        for _ in range(20):
            quietly(f)
    assert live_tensors() - before <= 2


def test_descriptors():
    td.ones(1 << 20).numpy()
    before = len(os.listdir("/proc/self/fd"))
    kept = [td.full((1000,), k) for k in range(2000)]
    arrays = [t.numpy() for t in kept[:500]]
    assert len(os.listdir("/proc/self/fd")) - before <= 2 and arrays[7][0] == 7


def test_numpy_keeps_and_frees():
    pytest.importorskip("numpy", reason="NumPy is not there")
    t = td.ones(4)
    count = sys.getrefcount(t)
    a = t.numpy()
    assert sys.getrefcount(t) == count + 1
    del a
    assert sys.getrefcount(t) == count


def test_reference_counts_of_arguments():
    x, key, size = td.ones(3), [0, 1], (2, 2)
    dtype = td.float64
    counts = [sys.getrefcount(o) for o in (x, key, size, dtype, None, True)]
    for _ in range(50):
        x[key], x + x, td.zeros(size, dtype=dtype), td.cat([x, x]), x.sum(dim=None, keepdim=True), x.to(dtype)
    now = [sys.getrefcount(o) for o in (x, key, size, dtype, None, True)]
    assert all(abs(a - b) <= 5 for a, b in zip(counts, now)), (counts, now)
