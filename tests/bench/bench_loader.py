#!/usr/bin/env python3
"""Batches of 64 images of 3x224x224 float32 from two workers, on a data set that costs nothing and on one that unpacks PNG files, the latter also
beside a program that keeps a processor busy: torch's DataLoader as it is, with the one line of tensord.torch, and tensord.torch.DataLoader.
Then the memory of four ranks that read the PNG files: torch's loader has two workers for each rank, tensord's pool two for all.

Prints the lines that table.py reads: ms a batch, with the descriptors and the memory (PSS of trainer and workers) beside it as comments.
One float of every page of a batch is read, so that its page faults are paid for; reading all of it would add the same time to each kind.
The kinds take turns in one run, the median of each counts."""
import contextlib
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from bench_python import beside_torch

BATCHES, ROUNDS, RANKS = 24, 3, 4


torch, tdt = beside_torch(["py.loader.one_line", "py.loader.own", "py.loader.png.one_line", "py.loader.png.own",
                           "py.loader.busy.one_line", "py.loader.busy.own", "py.loader.ranks.pool"], "tensord.torch")
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

    def __init__(self, file=None):
        self.file = file or png()

    def __getitem__(self, i):
        size = struct.unpack(">I", self.file[33:37])[0]
        rows = torch.frombuffer(bytearray(zlib.decompress(self.file[41 : 41 + size])), dtype=torch.uint8).view(224, 1 + 3 * 224)
        return rows[:, 1:].reshape(224, 224, 3).permute(2, 0, 1).float().div_(255)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(p) for p in f.read().split()]


def marked(mark):
    """All processes of this mark: what the ranks started has it too, whoever its parent is now."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{p}/environ", "rb") as f:
            if f"BENCH_LOADER={mark}".encode() in f.read().split(b"\0"):
                found.append(int(p))
    return found


def memory_of(processes, kinds=("Pss:",)):
    """MB of these kinds in the tables of the processes, what is shared counted once."""
    total = 0
    for p in processes:
        with contextlib.suppress(OSError), open(f"/proc/{p}/smaps_rollup") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith(kinds))
    return total / 1024


def shared_memory():
    """MB of shared memory of the whole machine, mapped by a process or not."""
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Shmem:")) / 1024


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
    memory = memory_of([os.getpid(), *children(os.getpid())])
    del it, batch
    return took, descriptors, memory


def rank(kind, number, path):
    """One of the ranks, over the PNG file at `path`: when it has its fourth batch it says which daemon it has (0: none), and it ends when it is told to."""
    import tensord

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dataset = Png(pathlib.Path(path).read_bytes())
    part = torch.utils.data.DistributedSampler(dataset, RANKS, number, shuffle=False)
    more = {} if kind == "stock" else {"pool": "images"}
    it = iter((DataLoader if kind == "stock" else tdt.DataLoader)(dataset, batch_size=64, num_workers=2, sampler=part, **more))
    for _ in range(4):
        batch = next(it)
    print((tensord.connection() or {}).get("pid", 0), flush=True)
    sys.stdin.read()
    del it, batch


def measure_ranks(kind, path):
    """MB that four ranks, their workers and the daemon take: their own, and the shared memory that has come with them."""
    before = shared_memory()
    mark = f"{os.getpid()}-{kind}"
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", kind, str(k), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "BENCH_LOADER": mark}) for k in range(RANKS)]
    daemons = {int(r.stdout.readline()) for r in ranks} - {0}
    now = -1
    while now < (now := shared_memory()):
        time.sleep(1)  # workers fill what is asked for ahead
    found = set(marked(mark)) - daemons
    took = memory_of(found | daemons, ("Pss_Anon:", "Pss_File:")) + shared_memory() - before
    for r in ranks:
        r.stdin.close()
    for r in ranks:
        r.wait()
    return took, len(found) - RANKS


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compare("py.loader", Free(), {"one_line": 1 / 4, "own": 1 / 5})
    compare("py.loader.png", Png(), {"one_line": 1, "own": 1})
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as beside:
        try:
            compare("py.loader.busy", Png(), {"one_line": 1, "own": 1})
        finally:
            beside.kill()
    with tempfile.NamedTemporaryFile(suffix=".png") as f:
        f.write(png())
        f.flush()
        (stock, theirs), (ours, workers) = measure_ranks("stock", f.name), measure_ranks("pool", f.name)  # the daemon keeps memory for what comes next
    print(f"# py.loader.ranks: {RANKS} ranks, {workers} processes of the pool, {theirs} workers of torch's loaders")
    print(f"ours py.loader.ranks.pool {ours:.0f} MB 1")
    print(f"reference py.loader.ranks.pool {stock:.0f} stock DataLoader of torch {torch.__version__}")


def compare(name, dataset, goals):
    found = {}
    for _ in range(ROUNDS):
        for kind in ("stock", "one_line", "own"):
            found.setdefault(kind, []).append(measure(kind, dataset))
    median = {kind: sorted(all)[len(all) // 2] for kind, all in found.items()}
    for kind, (took, descriptors, memory) in median.items():
        print(f"# {name} {kind}: {took * 1e3:.2f} ms a batch, {descriptors} descriptors, {memory:.0f} MB PSS")
    for kind, goal in goals.items():
        print(f"ours {name}.{kind} {median[kind][0] * 1e3:.3f} ms {goal:.3f}")
        print(f"reference {name}.{kind} {median['stock'][0] * 1e3:.3f} stock DataLoader of torch {torch.__version__}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main()
