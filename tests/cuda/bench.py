#!/usr/bin/env python3
"""Times on a GPU, each beside what the same work costs otherwise: a copy on the device of as many bytes, PyTorch where it is importable and has the device, or the
same thing without the GPU's process being new. A line each: name, ours, what it is held against, ratio, goal.

bench.py [--once]; --once takes each line a single time at a small size and prints no times: that it works. The daemon is $TENSORD_DAEMON, started here and ended;
the device is $TENSORD_DEVICE, or cuda:0. Of a fake device or driver nothing is timed: exit status 1."""
import os
import signal
import statistics
import subprocess
import sys
import time

from smoke import DEVICE, Skip, daemon_of, processes_of

ONCE = "--once" in sys.argv[1:]
LARGE = (1 << 28) if not ONCE else 1 << 12  # elements: 1 GiB of float32, which no cache holds
LEAST_S = 0.3  # that rounds of one line take


def best(work, wait, calls=1):
    """The least of the medians of three rounds, in seconds a call: `work` is done `calls` times before `wait`."""
    if ONCE:
        work(), wait()
        return 1.0
    work(), wait()
    medians = []
    for _ in range(3):
        times, until = [], time.perf_counter() + LEAST_S / 3
        while len(times) < 3 or time.perf_counter() < until:
            start = time.perf_counter()
            for _ in range(calls):
                work()
            wait()
            times.append((time.perf_counter() - start) / calls)
        medians.append(statistics.median(times))
    return min(medians)


def torch_on_it():
    if not DEVICE.startswith("cuda"):
        return None
    try:
        import torch

        return torch if torch.cuda.is_available() else None
    except ImportError:
        return None


class Bench:
    def __init__(self, td, daemon):
        self.td, self.daemon, self.torch = td, daemon, torch_on_it()

    def wait(self):
        self.td.cuda.synchronize() if DEVICE.startswith("cuda") else self.td.zeros(1, device=DEVICE).item()

    def line(self, name, ours, theirs, what, goal):
        ratio = f"{ours / theirs:7.2f}" if theirs else "      -"
        times = "once" if ONCE else f"{ours * 1e6:12.1f} us"
        print(f"{name:20} {times} {ratio if not ONCE else ''} {f'goal {goal}' if goal else 'told':10} {what}", flush=True)

    def beside_torch(self, name, make, goal, calls=1):
        """make(module, device): what is done. Without torch it is told."""
        ours = best(make(self.td, DEVICE), self.wait, calls)
        theirs = self.torch and best(make(self.torch, "cuda"), self.torch.cuda.synchronize, calls)
        self.line(name, ours, theirs, f"torch {self.torch.__version__}" if theirs else "no torch with this device", goal)


def issue(b):
    def adds(m, device):
        x, y = m.ones(8, device=device), m.ones(8, device=device)
        return lambda: x + y
    b.beside_torch("cuda.issue", adds, 2, calls=1000)


def beside_a_copy(b):
    td = b.td
    side = int(LARGE ** 0.5)
    x, y = td.rand(side, side, device=DEVICE), td.rand(side, side, device=DEVICE)
    copies = best(lambda: x.clone(), b.wait)  # reads and writes one
    for name, work, passes, goal in (("add", lambda: x + y, 1.5, 1.1), ("exp", lambda: td.exp(x), 1, 1.1), ("x.T + y", lambda: x.t() + y, 1.5, 1.3),
                                     ("sum", lambda: x.sum(), 0.5, 1.1), ("softmax", lambda: td.softmax(x, 1), 1, 1.1), ("cumsum", lambda: td.cumsum(x, 1), 1, 1.1)):
        try:
            b.line(f"cuda.{name}", best(work, b.wait), copies * passes, f"a copy of as many bytes: {2 * x.nbytes / copies / 1e9:.0f} GB/s", goal)
        except td.Unsupported as e:
            print(f"{f'cuda.{name}':20} skip {str(e).split(';')[0]}", flush=True)


def fused(b):
    td, n = b.td, LARGE
    x, y = td.rand(n, device=DEVICE), td.rand(n, device=DEVICE)
    f = td.compile(lambda x, y: td.sigmoid(x * y + x) * y)
    f(x, y)
    b.line("cuda.fused", best(lambda: f(x, y), b.wait), 1.5 * best(lambda: x.clone(), b.wait), "a copy of as many bytes", 1.3)


def products(b):
    rows = b.td.status("devices")
    library = next((row.get("library") for row in rows if row["device"] == DEVICE), None) or "own kernels"
    print(f"{'products':20} {library}", flush=True)
    sizes = [(1024,) * 3, (4096,) * 3, (8192,) * 3, (64, 784, 128), (64 * 197, 768, 3072)] if not ONCE else [(32,) * 3, (128, 256, 128)]
    for name in ("float32", "bfloat16"):
        for m_, k, n in sizes:
            def make(m, device, shape=(m_, k, n), name=name):
                x, y = (m.rand(*s, device=device).to(getattr(m, name)) for s in (shape[:2], shape[1:]))
                return lambda: x @ y
            b.beside_torch(f"cuda.mm.{m_}x{k}x{n} {name}", make, 1.03 if "cublasLt" in library else None)

    def heads(m, device):
        n, s, d = (64, 1024, 64) if not ONCE else (8, 64, 64)
        x, y = m.rand(n, s, d, device=device), m.rand(n, s, d, device=device)
        return lambda: m.bmm(x, y.transpose(1, 2))
    b.beside_torch("cuda.bmm.64 heads", heads, 1.1 if "cublasLt" in library else None)

    def conv(m, device):
        n, c, s = (32, 64, 56) if not ONCE else (1, 2, 6)
        x, w = m.rand(n, c, s, s, device=device), m.rand(c, c, 3, 3, device=device)
        return lambda: m.nn.functional.conv2d(x, w, padding=1)
    b.beside_torch("cuda.conv", conv, 1.5)


def to_device(b):
    td = b.td
    x = td.rand((38_535_168 if not ONCE else 4096) // 4)
    b.line("cuda.h2d", best(lambda: x.to(DEVICE), b.wait), None, f"{x.nbytes / 1e6:.1f} MB from memory", None)


def handed_over(b):
    td = b.td
    program = "import tensord as td\nback = td.Queue('bench/back', 4)\nfor t in td.Queue('bench/there', 4): back.put(t[:1])\n"
    other = subprocess.Popen([sys.executable, "-c", program])
    there, back = td.Queue("bench/there", 4), td.Queue("bench/back", 4)
    try:
        for name, n in (("38.5 MB", 38_535_168 if not ONCE else 4096), ("64 B", 64)):
            x = td.rand(n // 4, device=DEVICE)

            def work(x=x):
                there.put(x)
                back.get(timeout=60)
            b.line(f"cuda.handoff {name}", best(work, b.wait), None, "to another process, and a view of it back", None)
    finally:
        there.close(end=True), back.close()
        other.wait(60)


def training(b):
    def make(m, device):
        m.manual_seed(1)
        sizes = (784, 512, 512, 10) if not ONCE else (8, 4)
        w = [(m.randn(a, o, device=device) * 0.05).requires_grad_() for a, o in zip(sizes, sizes[1:])]
        x, y = m.randn(128, sizes[0], device=device), m.randn(128, sizes[-1], device=device)

        def step():
            h = x
            for k, p in enumerate(w):
                h = h @ p if k == 0 else m.relu(h) @ p
            loss = ((h - y) ** 2).mean()
            loss.backward()
            with m.no_grad():
                for p in w:
                    p -= 0.01 * p.grad
                    p.grad = None
        return step
    b.beside_torch("train.mlp", make, 0.6, calls=1 if ONCE else 20)


def fair(b):
    td = b.td
    side = 8192 if not ONCE else 64
    x, small = td.rand(side, side, device=DEVICE), td.rand(64, device=DEVICE)
    b.wait()

    def latencies(n):
        times = []
        for _ in range(n):
            start = time.perf_counter()
            (small + 1).sum().item()
            times.append(time.perf_counter() - start)
        return sorted(times)[int(n * 0.99)]
    program = f"import tensord as td\nx = td.rand({side}, {side}, device={DEVICE!r})\nprint(flush=True)\nwhile True: (x @ x)[0, 0].item()\n"
    alone = latencies(3 if ONCE else 500)
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        beside = latencies(3 if ONCE else 500)
    finally:
        other.kill()
        other.wait(), other.stdout.close()
    b.line("fair.cuda p99", beside, alone, f"alone; a small op beside products of {side} by another process", None)


def killed(b):
    if not DEVICE.startswith("cuda"):
        raise Skip("it has no process of its own")
    times = []
    for _ in range(1 if ONCE else 3):
        for pid in processes_of(b.daemon.pid, "tensord-cuda"):
            os.kill(pid, signal.SIGKILL)
        start = time.perf_counter()
        while True:
            try:
                b.td.ones(10, device=DEVICE).sum().item()
                break
            except b.td.DeviceFailed:
                time.sleep(0.01)
        times.append(time.perf_counter() - start)
    theirs = None
    if b.torch:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch; torch.ones(10, device='cuda').sum().item()"], check=True)
        theirs = time.perf_counter() - start
    b.line("cuda.fault", statistics.median(times), theirs, "its process killed, to the next result; torch: a process to its first", 1.0)


LINES = {"issue": issue, "copy": beside_a_copy, "fused": fused, "products": products, "h2d": to_device, "handoff": handed_over, "training": training, "fair": fair,
         "fault": killed}


def main():
    with daemon_of("tensord-bench-") as daemon:
        import tensord as td

        name = td.cuda.get_device_name(DEVICE) if DEVICE.startswith("cuda") else f"the device {DEVICE} of the tests"
        print(f"on {name}", flush=True)
        if not ONCE and ("fake" in name or not DEVICE.startswith("cuda")):
            print("this is no GPU, and nothing is timed on it", flush=True)
            return 1
        bench, good = Bench(td, daemon), True
        for line, measure in LINES.items():
            try:
                measure(bench)
            except Skip as e:
                print(f"{line:20} skip {e}", flush=True)
            except Exception as e:
                good = False
                print(f"{line:20} NO {type(e).__name__}: {' '.join(str(e).split())[:200]}", flush=True)
        td.disconnect()
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
