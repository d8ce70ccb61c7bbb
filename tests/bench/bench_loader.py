#!/usr/bin/env python3
"""Batches of 64 images of 3x224x224 float32 from two workers, on a data set that costs nothing: torch's DataLoader as it is, with the one
line of tensord.torch, and tensord.torch.DataLoader.

Prints the lines that table.py reads: ms a batch, with the descriptors and the memory (PSS of trainer and workers) beside it as comments.
Every batch is read (its sum), so that its bytes are paid for. The kinds take turns in one run, the best of each counts."""
import os
import sys
import time

BATCHES, ROUNDS = 24, 3


def skip(why):
    for name in ("py.loader.one_line", "py.loader.own"):
        print(f"skip {name} {why}")
    return 0


try:
    import torch
    from torch.utils.data import DataLoader, Dataset
except ImportError:
    sys.exit(skip("torch is not importable"))
try:
    import tensord.torch as tdt
except ImportError:
    sys.exit(skip("the package tensord is not on PYTHONPATH"))


class Free(Dataset):
    """A data set that costs nothing: the batches are all there is."""

    def __init__(self):
        self.image = torch.rand(3, 224, 224)

    def __len__(self):
        return 64 * BATCHES

    def __getitem__(self, i):
        return self.image


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as f:
        return [int(p) for p in f.read().split()]


def pss():
    total = 0
    for p in [os.getpid(), *children()]:
        try:
            with open(f"/proc/{p}/smaps_rollup") as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def measure(kind):
    """Seconds a batch after the first four, descriptors, PSS in MB."""
    tdt.set_sharing_strategy("torch" if kind == "stock" else "tensord")
    make = tdt.DataLoader if kind == "own" else DataLoader
    start = n = descriptors = memory = 0
    for n, batch in enumerate(make(Free(), batch_size=64, num_workers=2)):
        batch.view(-1)[::1024].sum()
        if n == 3:
            start = time.perf_counter()
        if n == BATCHES // 2:
            descriptors = len(os.listdir("/proc/self/fd"))
    took = (time.perf_counter() - start) / (n - 3)
    it = iter(make(Free(), batch_size=64, num_workers=2))
    for n in range(6):
        batch = next(it)
    memory = pss()
    del it, batch
    return took, descriptors, memory


def main():
    torch.set_num_threads(1)
    best = {}
    for _ in range(ROUNDS):
        for kind in ("stock", "one_line", "own"):
            took = measure(kind)
            best[kind] = min(best.get(kind, took), took)
    for kind, (took, descriptors, memory) in best.items():
        print(f"# {kind}: {took * 1e3:.2f} ms a batch, {descriptors} descriptors, {memory:.0f} MB PSS")
    for kind, times in (("one_line", 4), ("own", 5)):
        print(f"ours py.loader.{kind} {best[kind][0] * 1e3:.3f} ms {1 / times:.3f}")
        print(f"reference py.loader.{kind} {best['stock'][0] * 1e3:.3f} stock DataLoader of torch {torch.__version__}")


if __name__ == "__main__":
    main()
