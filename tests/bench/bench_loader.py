#!/usr/bin/env python3
"""Batches of 64 images of 3x224x224 float32 from two workers, on a data set that costs nothing and on one that unpacks PNG files: torch's
DataLoader as it is, with the one line of tensord.torch, and tensord.torch.DataLoader.

Prints the lines that table.py reads: ms a batch, with the descriptors and the memory (PSS of trainer and workers) beside it as comments.
One float of every page of a batch is read, so that its page faults are paid for; reading all of it would add the same time to each kind.
The kinds take turns in one run, the best of each counts."""
import os
import struct
import time
import zlib

from bench_python import beside_torch

BATCHES, ROUNDS = 24, 3


torch, tdt = beside_torch(["py.loader.one_line", "py.loader.own", "py.loader.png.one_line", "py.loader.png.own"], "tensord.torch")
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Free(Dataset):
    """A data set that costs nothing: the batches are all there is."""

    def __init__(self):
        self.image = torch.rand(3, 224, 224)

    def __len__(self):
        return 64 * BATCHES

    def __getitem__(self, i):
        return self.image


def png(side=224):
    """A PNG file of noise in eight shades, which packs about as well as a photograph."""
    rows = (torch.randint(0, 8, (side, 1 + 3 * side), dtype=torch.uint8) * 32).tolist()
    data = zlib.compress(b"".join(b"\0" + bytes(r[1:]) for r in rows))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)


class Png(Free):
    """Unpacks a PNG file (of unfiltered rows) for each image."""

    def __init__(self):
        self.file = png()

    def __getitem__(self, i):
        size = struct.unpack(">I", self.file[33:37])[0]
        rows = torch.frombuffer(bytearray(zlib.decompress(self.file[41 : 41 + size])), dtype=torch.uint8).view(224, 1 + 3 * 224)
        return rows[:, 1:].reshape(224, 224, 3).permute(2, 0, 1).float().div_(255)


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


def measure(kind, dataset):
    """Seconds a batch after the first four, descriptors, PSS in MB."""
    tdt.set_sharing_strategy("torch" if kind == "stock" else "tensord")
    make = tdt.DataLoader if kind == "own" else DataLoader
    start = n = descriptors = memory = 0
    for n, batch in enumerate(make(dataset, batch_size=64, num_workers=2)):
        batch.view(-1)[::1024].sum()
        if n == 3:
            start = time.perf_counter()
        if n == BATCHES // 2:
            descriptors = len(os.listdir("/proc/self/fd"))
    took = (time.perf_counter() - start) / (n - 3)
    it = iter(make(dataset, batch_size=64, num_workers=2))
    for n in range(6):
        batch = next(it)
    memory = pss()
    del it, batch
    return took, descriptors, memory


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compare("py.loader", Free(), {"one_line": 1 / 4, "own": 1 / 5})
    compare("py.loader.png", Png(), {"one_line": 1, "own": 1})


def compare(name, dataset, goals):
    best = {}
    for _ in range(ROUNDS):
        for kind in ("stock", "one_line", "own"):
            took = measure(kind, dataset)
            best[kind] = min(best.get(kind, took), took)
    for kind, (took, descriptors, memory) in best.items():
        print(f"# {name} {kind}: {took * 1e3:.2f} ms a batch, {descriptors} descriptors, {memory:.0f} MB PSS")
    for kind, goal in goals.items():
        print(f"ours {name}.{kind} {best[kind][0] * 1e3:.3f} ms {goal:.3f}")
        print(f"reference {name}.{kind} {best['stock'][0] * 1e3:.3f} stock DataLoader of torch {torch.__version__}")


if __name__ == "__main__":
    main()
