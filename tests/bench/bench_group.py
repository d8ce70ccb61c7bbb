#!/usr/bin/env python3
"""Collectives and training steps of several processes through torch.distributed: tensord beside gloo, in the same processes and in turns.

Prints the lines that table.py reads. group.SIZE.RANKS: an all_reduce of float32, from the last rank's entry to the last rank's return, the
median of many after some that are not counted. group.ddp.RANKS: a step of DistributedDataParallel on a small CNN, 64 images a rank."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench_python import ours, reference, skip

SIZES = {"4K": 1 << 10, "64K": 1 << 14, "1M": 1 << 18, "32M": 1 << 23}  # elements
GOALS = {"4K": 0.08, "64K": 0.1, "1M": 0.4, "32M": 0.5}
DDP_GOALS = {2: 0.95, 4: 0.8}
TURNS, BEGINNING = 5, 3


def rounds(count):
    return 40 if count < 1 << 18 else 12 if count < 1 << 23 else 4


def take_turns(torch, dist, groups, meeting, x, result):
    """Entries and returns of this rank, by the machine's clock: result[backend] is a list of pairs."""
    for name, group in groups.items():
        for k in range(rounds(x.numel()) + BEGINNING):
            x.fill_(1.0)
            dist.barrier(group=meeting)
            began = time.monotonic_ns()
            dist.all_reduce(x, group=group)
            if k >= BEGINNING:
                result[name].append((began, time.monotonic_ns()))


def spans(all_ranks):
    """Of each round: from the last entry to the last return, in us."""
    return [(max(o for _, o in each) - max(i for i, _ in each)) / 1e3 for each in zip(*all_ranks)]


def time_steps(torch, group):
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
    model = nn.parallel.DistributedDataParallel(net, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y, took = torch.randn(64, 1, 8, 8), torch.randint(10, (64,)), []
    for _ in range(30):
        began = time.perf_counter()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.append((time.perf_counter() - began) * 1e3)
    return took[BEGINNING:]


def work(rank, ranks, store):
    import torch
    import torch.distributed as dist
    import tensord.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "tensord")}
    for size, count in SIZES.items():
        mine, x = {name: [] for name in groups}, torch.empty(count)
        for _ in range(TURNS):
            take_turns(torch, dist, groups, groups["tensord"], x, mine)
        said = [None] * ranks
        dist.all_gather_object(said, mine)
        for name in groups if rank == 0 else ():
            print(f"{name} group.{size}.{ranks} {statistics.median(spans([each[name] for each in said]))}", flush=True)
    if ranks in DDP_GOALS:
        took = {name: [] for name in groups}
        for _ in range(TURNS):
            for name, group in groups.items():
                took[name] += time_steps(torch, group)
        for name in groups if rank == 0 else ():
            print(f"{name} group.ddp.{ranks} {statistics.median(took[name])}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def measure(ranks):
    with tempfile.TemporaryDirectory() as folder:
        started = [subprocess.Popen([sys.executable, __file__, str(rank), str(ranks), os.path.join(folder, "store")], stdout=subprocess.PIPE, text=True)
                   for rank in range(ranks)]
        said = [p.communicate()[0] for p in started]
        assert not any(p.returncode for p in started), [p.returncode for p in started]
    for line in said[0].splitlines():
        backend, name, value = line.split()
        size = name.split(".")[1]
        if backend == "gloo":
            reference(name, float(value), "torch.distributed by gloo")
        else:
            ours(name, float(value), "ms" if size == "ddp" else "us", DDP_GOALS[ranks] if size == "ddp" else GOALS[size])


def main():
    try:
        import torch.distributed
        there = torch.distributed.is_available()
    except ImportError:
        there = False
    if not there:
        skip("group", "this python has no torch.distributed")
        return
    for ranks in (2, 4, 8):
        measure(ranks)


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]) if len(sys.argv) > 1 else main()
