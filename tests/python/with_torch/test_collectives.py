"""All collectives of torch.distributed by tensord, beside gloo's: equal results, and refused what gloo refuses."""
import json
import os
import subprocess
import sys
import textwrap

import pytest
from common import SLOW

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

NEW = int(torch.__version__.split(".")[0]) >= 2

BEGIN = """
import datetime, json, os, sys
import torch, torch.distributed as dist
import tensord as td
import tensord.torch

torch.set_num_threads(1)
backend, rank, size, name = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
NEW = int(torch.__version__.split(".")[0]) >= 2

def say(what):
    print(json.dumps(what), flush=True)

def listed(x):
    return [str(x.dtype), list(x.shape), (x if x.dtype in (torch.int64, torch.bool) else x.double()).tolist()]

def begin():
    dist.init_process_group(backend, init_method=f"tensord://{name}-{backend}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=600))
    torch.manual_seed(rank)
"""


def run(text, size, name, backend="tensord"):
    """What each rank says, line by line."""
    program = BEGIN + textwrap.dedent(text)
    ranks = [subprocess.Popen([sys.executable, "-c", program, backend, str(r), str(size), name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for r in range(size)]
    said = [p.communicate(timeout=240 * SLOW) for p in ranks]
    assert all(p.returncode == 0 for p in ranks), "\n".join(o + e for o, e in said)
    return [[json.loads(line) for line in out.splitlines()] for out, _ in said]


@pytest.fixture
def name(request):
    return f"{request.node.originalname}-{os.getpid()}"


def beside_gloo(text, size, name):
    ours, theirs = run(text, size, name), run(text, size, name, "gloo")
    for mine, gloos in zip(ours, theirs):
        for a, b in zip(mine, gloos):
            assert a == b, (a, b)
        assert len(mine) == len(gloos)
    return ours


# Numbers whose sums are exact in any order: gloo has one of its own.
ALL = """
    begin()
    def numbers(*shape, dtype=torch.float32):
        return torch.randint(0 if dtype == torch.uint8 else -9, 9, shape).to(dtype)

    dtypes = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8)
    for dtype in dtypes:
        for shape in ((1,), (5, 3), (70000,), (0,)):
            for root in (0, size - 1):
                for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
                    x = numbers(*shape, dtype=dtype)
                    dist.reduce(x, root, op=op)
                    if rank == root:
                        say(["reduce", x.double().sum().item(), x.flatten()[-3:].tolist()])
                x = numbers(*shape, dtype=dtype)
                into = [torch.empty_like(x) for _ in range(size)] if rank == root else None
                dist.gather(x, into, dst=root)
                if rank == root:
                    say(["gather", [[t.double().sum().item(), t.flatten()[-3:].tolist()] for t in into]])
                rows = [numbers(*shape, dtype=dtype) for _ in range(size)] if rank == root else None
                dist.scatter(x, rows, src=root)
                say(["scatter", x.double().sum().item(), x.flatten()[-3:].tolist()])

    # What has gaps, and lists of tensors whose shapes differ in how they lie.
    x = numbers(4, 3).t()
    dist.reduce(x, 0)
    say(listed(x) if rank == 0 else 0)
    into = [torch.zeros(4, 3).t() for _ in range(size)]
    dist.gather(numbers(3, 4), into if rank == 1 else None, dst=1)
    say([listed(t) for t in into] if rank == 1 else 0)
    x = torch.zeros(4, 3).t()
    dist.scatter(x, [numbers(4, 3).t() for _ in range(size)] if rank == 0 else None, src=0)
    say(listed(x))

    if NEW:
        into = torch.empty(size * 2, 3)
        dist.all_gather_into_tensor(into, numbers(2, 3))
        say(listed(into))
    objects = [None] * size if rank == 0 else None
    dist.gather_object({"rank": rank}, objects, dst=0)
    say(objects)
    mine = [None]
    dist.scatter_object_list(mine, [{"for": r, "x": "y" * r} for r in range(size)] if rank == 0 else [None] * size, src=0)
    say(mine)
    for async_op in (False, True):
        work = dist.reduce(torch.ones(3), 0, async_op=async_op)
        say([work is None, bool(work and work.wait()), bool(work and work.is_completed())])
    if NEW:
        for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
            x = torch.tensor([5, 6, 7]) << rank
            dist.all_reduce(x, op=op)
            say(["bits", x.tolist()])
        x = torch.tensor([5, 6, 7]) << rank
        dist.reduce(x, 0, op=dist.ReduceOp.BOR)
        say(x.tolist() if rank == 0 else 0)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("size", [2, 3])
def test_rooted_collectives_are_gloos(name, size):
    assert len(beside_gloo(ALL, size, name)[0]) > 140


ALL_TO_ALL = """
    begin()
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64):
        rows = [torch.arange(4).add(10 * rank + s).to(dtype) for s in range(size)]
        into = [torch.empty(4, dtype=dtype) for _ in range(size)]
        dist.all_to_all(into, rows)
        say([[x.real.double().tolist() for x in into]])
        x, out = torch.arange(6 * size).view(2 * size, 3).add(100 * rank).to(dtype), torch.empty(2 * size, 3, dtype=dtype)
        dist.all_to_all_single(out, x)
        say(out.real.double().tolist())
        gives = [(rank + s) % 3 for s in range(size)]
        x, out = torch.arange(3 * sum(gives)).view(-1, 3).add(100 * rank).to(dtype), torch.empty(sum(gives), 3, dtype=dtype)
        dist.all_to_all_single(out, x, gives, gives)
        say(out.real.double().tolist())
    into = [torch.zeros(4, 3).t() for _ in range(size)]
    dist.all_to_all(into, [torch.arange(12.0).view(4, 3).t() + s for s in range(size)])
    say([listed(t) for t in into])
    for shape in ((size,), (2 * size, 3), (size * 40000,)):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            x = torch.randint(-4, 4, shape).float()
            out = torch.empty(shape[0] // size, *shape[1:])
            dist.reduce_scatter_tensor(out, x, op=op)
            say(["single", out.double().sum().item(), out.flatten()[-2:].tolist()])
            dist.reduce_scatter(out, list(torch.randint(-4, 4, shape).float().chunk(size)), op=op)
            say(["lists", out.double().sum().item(), out.flatten()[-2:].tolist()])
    x = torch.randint(99, (size, 2))
    out = torch.empty(2, dtype=torch.int64)
    dist.reduce_scatter(out, list(x), op=dist.ReduceOp.BXOR)
    say(out.tolist())
    dist.destroy_process_group()
"""


@pytest.mark.skipif(not NEW, reason="gloo of PyTorch 1.13 has neither")
def test_all_to_all_and_reduce_scatter_are_gloos(name):
    assert len(beside_gloo(ALL_TO_ALL, 3, name)[0]) > 30


def test_all_to_all_and_reduce_scatter(name):
    """Without gloo to look at, which has lists of tensors of one size only: sums by all_reduce."""
    said = run("""
        begin()
        gives = [(rank + s) % 3 for s in range(size)]
        x, out = torch.full((sum(gives), 2), float(rank)), torch.empty(sum(gives), 2)
        dist.all_to_all_single(out, x, gives, gives)
        say(out[:, 0].tolist() == [float(s) for s in range(size) for _ in range(gives[s])])
        into = [torch.empty(rank + s) for s in range(size)]
        dist.all_to_all(into, [torch.full((rank + s,), 10.0 * rank + s) for s in range(size)])
        say([t.tolist() for t in into] == [[10.0 * s + rank] * (rank + s) for s in range(size)])
        x = torch.randn(size, 5)
        sums, one, two = x.clone(), torch.empty(5), torch.empty(5)
        dist.all_reduce(sums)
        dist.reduce_scatter(one, list(x))
        dist._reduce_scatter_base(two, x)
        say(torch.equal(one, sums[rank]) and torch.equal(two, sums[rank]))
        dist.destroy_process_group()
    """, 3, name)
    assert said == [[True] * 3] * 3


REFUSALS = """
    begin()
    def refused(call):
        try:
            call()
            return False
        except (RuntimeError, ValueError, TypeError):
            return True
    calls = [lambda: dist.all_reduce(torch.ones(2).to_sparse(), op=dist.ReduceOp.MAX),
             lambda: dist.all_gather([torch.ones(2)] * (size - 1), torch.ones(2)),
             lambda: dist.all_gather([torch.ones(2)] * size, torch.ones(3)),
             lambda: dist.all_gather([torch.ones(2, dtype=torch.int64)] * size, torch.ones(2)),
             lambda: dist.scatter(torch.ones(2), [torch.ones(2)] * (size - 1) if rank == 0 else None, src=0),
             lambda: dist.scatter(torch.ones(2), [torch.ones(3)] * size if rank == 0 else None, src=0) if rank == 0 else 1 / 0,
             lambda: dist.gather(torch.ones(2), [torch.ones(2)] * (size + 1), dst=0) if rank == 0 else 1 / 0,
             lambda: dist.gather(torch.ones(2), [torch.ones(2)] * size, dst=1 - rank),
             lambda: dist.reduce(torch.ones(2), size),
             lambda: dist.broadcast(torch.ones(2), size)]
    if NEW:
        calls += [lambda: dist.all_to_all([torch.ones(2)] * (size - 1), [torch.ones(2)] * size),
                  lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size, dtype=torch.int64)),
                  lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size + 1)),
                  lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size), [1] * size, [2] * size),
                  lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(2 * size + 1)),
                  lambda: dist.all_gather_into_tensor(torch.ones(2 * size + 1), torch.ones(2)),
                  lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND)]
    for k, call in enumerate(calls):
        try:
            say([k, refused(call)])
        except ZeroDivisionError:
            say(k)
    os._exit(0)
"""


def test_refused_is_what_gloo_refuses(name):
    ours = beside_gloo(REFUSALS, 2, name)
    assert sum(each != [k, False] for k, each in enumerate(ours[0])) == len(ours[0])
