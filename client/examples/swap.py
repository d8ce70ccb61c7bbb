#!/usr/bin/env python3
"""A PyTorch script with its DataLoader as it is, and with one line more: the same losses, side by side.

It trains a small CNN on digits that its data set enlarges, shifts and dims at random, in worker processes, as PyTorch programs do. That
is done three times, each in a process of its own:

    stock       torch.utils.data.DataLoader: a batch is copied into a file of its own, whose descriptor is sent
    one line    the same loader after tensord.torch.set_sharing_strategy(): batches are stacked where the trainer reads them
    own loader  tensord.torch.DataLoader, which takes the same arguments

The table at the end says what each needed: processor time and memory of trainer, workers and daemon (of stock's batches on their way no process's
memory tells, so they have a column), and the trainer's descriptors. The losses of all batches are compared bit by bit.
"""

import importlib.util
import os
import struct
import sys
import time

import _common
from _common import Failed, megabytes, td

KINDS = {"stock": "stock", "one-line": "one line", "own-loader": "own loader"}  # role -> what it is called

# ---- the script, as anybody has it


def network(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 8, 8, stride=8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(5), nn.Flatten(),
                         nn.Linear(400, 10))


def data_set(torch, arguments):
    scaled, labels, n, pixels = _common.load_digits(arguments.mnist)
    labels = labels[:n].tolist()
    images = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(scaled.shape)[:n].float()
    images /= images.max()
    at = torch.arange(arguments.side) * images.shape[1] // arguments.side  # which pixel of a digit lies there

    class Digits(torch.utils.data.Dataset):
        def __len__(self):
            return n

        def __getitem__(self, i):
            down, right = (torch.randint(-8, 9, (2,)) * arguments.side // 224).tolist()
            image = images[i][at.roll(down)][:, at.roll(right)]
            return image.mul_(1 - 0.3 * torch.rand(1)).expand(3, -1, -1), labels[i]

    return Digits()


def train(role, arguments):
    import torch

    torch.set_num_threads(1)
    data = data_set(torch, arguments)
    DataLoader = torch.utils.data.DataLoader
    if role == "one-line":
        import tensord.torch
        tensord.torch.set_sharing_strategy()  # the one line
    elif role == "own-loader":
        from tensord.torch import DataLoader
    torch.manual_seed(arguments.seed)
    model = network(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    meter = Meter(role, arguments)
    loader = DataLoader(data, batch_size=arguments.batch, shuffle=True, num_workers=arguments.workers, persistent_workers=True)
    for _ in range(arguments.epochs):
        meter.begin()
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step(loss.item(), len(images))
        meter.end()
    return meter


# ---- what it needed


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as f:
        return [int(p) for p in f.read().split()]


def processor_time():
    """Seconds that this process, its workers and the daemon have computed."""
    total = 0
    for pid in (os.getpid(), *children(), td.connection()["pid"]):
        with open(f"/proc/{pid}/stat") as f:
            total += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def files():
    """Bytes in /dev/shm, where PyTorch's way keeps batches."""
    s = os.statvfs("/dev/shm")
    return (s.f_blocks - s.f_bfree) * s.f_frsize


def mapped_files(pids):
    total = 0
    for pid in pids:
        ours = False
        with open(f"/proc/{pid}/smaps") as f:
            for line in f:
                if not line.split()[0].endswith(":"):
                    ours = " /dev/shm/" in line
                elif ours and line.startswith("Pss:"):
                    total += 1024 * int(line.split()[1])
    return total


class Meter:
    """Losses, speed, memory and descriptors of a training; tells each epoch."""

    def __init__(self, role, arguments):
        self.role, self.epochs, self.losses, self.rates, self.epoch = role, arguments.epochs, [], [], 0
        self.files, self.memory, self.under_way, self.descriptors, self.work = files(), 0, 0, 0, [0.0, 0]

    def begin(self):
        self.epoch, self.samples, self.start, self.sum, self.steps = self.epoch + 1, 0, time.perf_counter(), 0.0, 0
        self.processors = processor_time()

    def step(self, loss, n):
        self.losses.append(loss)
        self.samples, self.sum, self.steps = self.samples + n, self.sum + loss, self.steps + 1
        if self.epoch == self.epochs and self.steps == 5:
            self.look()

    def look(self):
        """In the middle of the last epoch, which is not timed for it."""
        begin = time.perf_counter()
        pids = [os.getpid(), *children()]
        self.under_way = max(0, files() - self.files - mapped_files(pids)) if self.role == "stock" else 0
        if self.role != "stock":
            pids.append(td.connection()["pid"])
        self.memory, self.descriptors = _common.pss(pids), len(os.listdir("/proc/self/fd"))
        self.start += time.perf_counter() - begin

    def end(self):
        self.rates.append(self.samples / (time.perf_counter() - self.start))
        if self.epoch > 1 or self.epochs == 1:
            self.work = [self.work[0] + processor_time() - self.processors, self.work[1] + self.samples]
        print(f"{KINDS[self.role]:<10}  epoch {self.epoch}/{self.epochs}  loss {self.sum / self.steps:.4f}  {self.rates[-1]:,.0f} samples/s", flush=True)

    def result(self):
        return {"rate": max(self.rates[1:] or self.rates), "memory": self.memory, "under way": self.under_way, "descriptors": self.descriptors, "work": self.work[0] / self.work[1],
                "losses": self.losses}


def role(arguments):
    td.Queue(arguments.run + "/results").put(train(arguments.role, arguments).result())


# ---- the driver


def same(one, two):
    """How many of two lists of losses are the same number, bit by bit."""
    return sum(struct.pack("<d", a) == struct.pack("<d", b) for a, b in zip(one, two))


def table(results):
    stock, lines = results["stock"], []
    for kind, r in results.items():
        equal = f"{same(r['losses'], stock['losses'])} of {len(stock['losses'])}"
        lines.append((KINDS[kind], f"{r['rate']:,.0f}", f"{r['work'] * 1e3:.2f} ms", megabytes(r["memory"]), megabytes(r["under way"]),
                      str(r["descriptors"]), equal))
    head = ("", "samples/s", "CPU a sample", "memory (PSS)", "mapped by nobody", "descriptors", "losses as stock's")
    widths = [max(map(len, column)) for column in zip(head, *lines)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(row[1:], widths[1:]))]) for row in (head, *lines))


def driver(arguments, crew):
    if importlib.util.find_spec("torch") is None:
        raise Failed(f"there is no PyTorch for {sys.executable}: install python3-torch (Debian), or pip install torch "
                     "--index-url https://download.pytorch.org/whl/cpu, and try again")
    results = {}
    for kind in KINDS:
        crew.connect_anew()  # each with a daemon of its own, which has nothing left of the one before
        with td.Queue(crew.run + "/results", role="consumer") as queue:
            crew.start(kind)
            what, pid, status = crew.wait()
            if status:
                raise Failed(f"{KINDS[what]} (process {pid}) ended with status {status}: see above")
            results[kind] = queue.get(timeout=60)
    print("\n" + table(results))
    different = [KINDS[k] for k, r in results.items() if same(r["losses"], results["stock"]["losses"]) != len(r["losses"])]
    if different:
        print(f"\nthe losses of {' and '.join(different)} are others than stock's")
        return 1
    print(f"\nthe same losses, to the last bit; the last is {results['stock']['losses'][-1]:.4f}")
    return 0


def arguments():
    p = _common.parser(__doc__)
    at_least_one = _common.number_from(1)
    p.add_argument("--epochs", type=at_least_one, default=4, metavar="N", help="times through the digits (default 4); the first is not timed")
    p.add_argument("--batch", type=at_least_one, default=64, metavar="N", help="samples a batch (default 64)")
    p.add_argument("--workers", type=at_least_one, default=2, metavar="N", help="worker processes (default 2)")
    p.add_argument("--side", type=_common.number_from(56), default=224, metavar="N", help="pixels of an enlarged image's side (default 224)")
    return p.parse_args()


if __name__ == "__main__":
    sys.exit(_common.main(arguments(), driver, dict.fromkeys(KINDS, role)))
