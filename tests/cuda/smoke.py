#!/usr/bin/env python3
"""What a user does first on a GPU: values, gradients, training, a tensor of two processes, a killed tensord-cuda. A line each; exit status 1 when one is not so.

The daemon is $TENSORD_DAEMON, started here and ended; the device is $TENSORD_DEVICE, or cuda:0. So it can be tried on fake:0, too."""
import contextlib
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

DEVICE = os.environ.pop("TENSORD_DEVICE", "cuda:0")


class Skip(Exception):
    pass


def processes_of(parent, name):
    """Pids of the parent's children of this name."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                pid, rest = f.read().split(" (", 1)
        except OSError:
            continue
        words = rest.rsplit(") ", 1)
        if words[0] == name[:15] and int(words[1].split()[1]) == parent:
            found.append(int(pid))
    return found


def values(td, daemon):
    x = td.arange(6., device=DEVICE)
    got = (x * 2 + 1).sum().item()
    assert got == 36, got
    assert str(x.device) == DEVICE, x.device
    assert (x.to("cpu") == td.arange(6.)).all().item()
    return f"(arange(6) * 2 + 1).sum() = {got}"


def beside_the_cpu(td, daemon):
    td.manual_seed(1)
    a, b = td.randn(70, 50), td.randn(50, 90)
    far = {}
    for name, f in {"mm": lambda x, y: x @ y, "exp": lambda x, y: td.exp(x), "softmax": lambda x, y: td.softmax(x, 1), "sum": lambda x, y: x.sum(0),
                    "transposed": lambda x, y: x.t() + y[:, :70], "tanh": lambda x, y: td.tanh(x) * 2, "mean": lambda x, y: x.mean(), "max": lambda x, y: x.amax(1)}.items():
        here, there = f(a, b), f(a.to(DEVICE), b.to(DEVICE)).to("cpu")
        far[name] = ((here - there).abs() / (1 + here.abs())).max().item()
    worst = max(far, key=far.get)
    assert far[worst] < 1e-5, far
    return f"{len(far)} ops within {far[worst]:.1e} ({worst})"


def products(td, daemon):
    """Large ones: by cuBLASLt where tensord-cuda has found it, which says so."""
    x = td.ones(4, device=DEVICE)  # its process is there after this
    library = next((row["library"] for row in td.status("devices") if row["device"] == DEVICE), "")
    far = {}
    for dtype, most in ((td.float32, 1e-5), (td.float64, 1e-12), (td.float16, 4e-3), (td.bfloat16, 2e-2)):
        td.manual_seed(2)
        a, b = td.randn(200, 300).to(dtype), td.randn(300, 170).to(dtype)
        for turned in (False, True):
            y = b.t().contiguous().t() if turned else b
            here, there = a @ y, (a.to(DEVICE) @ y.to(DEVICE)).to("cpu")
            off = ((here - there).abs().amax().to(td.float64) / here.abs().amax().to(td.float64)).item()
            assert off < most, (dtype, off)
            far[str(dtype)] = max(off, far.get(str(dtype), 0))
    del x
    return f"within {max(far.values()):.1e}; {library or 'no library was found: own kernels'}"


def train(td, device):
    td.manual_seed(3)
    shapes = [(20, 32), (32,), (32, 1), (1,)]
    w = [(td.randn(*s) * 0.3).to(device).requires_grad_() for s in shapes]
    x = td.randn(64, 20).to(device)
    y = td.randn(64, 1).to(device)
    losses = []
    for _ in range(20):
        loss = ((td.relu(x @ w[0] + w[1]) @ w[2] + w[3] - y) ** 2).mean()
        loss.backward()
        with td.no_grad():
            for p in w:
                p -= 0.05 * p.grad
                p.grad = None
        losses.append(loss.item())
    return losses


def training(td, daemon):
    here, there, again = train(td, "cpu"), train(td, DEVICE), train(td, DEVICE)
    far = max(abs(a - b) / abs(a) for a, b in zip(here, there))
    assert far < 1e-4 and here[-1] < here[0], (here[-1], there[-1])
    assert there == again, "another result the second time"
    return f"20 steps, {here[0]:.4f} to {there[-1]:.4f}, within {far:.1e} of the CPU, twice the same bits"


def torch_sees_it(td, daemon):
    try:
        import torch
    except ImportError:
        raise Skip("no torch") from None
    if not DEVICE.startswith("cuda") or not torch.cuda.is_available():
        raise Skip("its memory is none of torch's")
    t = td.zeros(1000, device=DEVICE)
    seen = torch.as_tensor(t, device="cuda")
    seen[7] = 9
    torch.cuda.synchronize()
    assert t[7].item() == 9 and t.sum().item() == 9
    return f"torch {torch.__version__} writes where it lies"


def two_processes(td, daemon):
    t = td.full((4, 5), 2., device=DEVICE).publish("smoke", replace=True)
    other = "import tensord as td; t = td.open('smoke'); t += 7; print(t.device, t.sum().item())"
    said = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr.strip().splitlines()[-1:]
    assert t[3, 4].item() == 9
    td.drop("smoke")
    return f"the other says {said.stdout.strip()}"


def killed(td, daemon):
    if not DEVICE.startswith("cuda"):
        raise Skip("it has no process of its own")
    here, there = td.arange(1000.), td.arange(1000., device=DEVICE)
    assert there.sum().item() == 499500
    whole, times, lost = 0, [], "other values"
    for _ in range(3):
        pids = processes_of(daemon.pid, "tensord-cuda")
        assert pids, "tensord-cuda does not run"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        start = time.monotonic()
        for attempt in range(20):
            try:
                assert td.ones(10, device=DEVICE).sum().item() == 10
                break
            except Exception:
                if attempt == 19:
                    raise
                time.sleep(0.1)
        times.append(time.monotonic() - start)
        assert daemon.poll() is None, "the daemon has gone"
        assert here.sum().item() == 499500
        try:
            whole += there.sum().item() == 499500
        except Exception as e:
            lost = str(e).splitlines()[0][:120]
    return f"3 times, the next result after {sorted(times)[1]:.2f} s; what lay there was whole {whole} times" + f", or: {lost}" * (whole < 3)


CHECKS = {"values": values, "beside the cpu": beside_the_cpu, "products": products, "training": training, "torch sees it": torch_sees_it, "two processes": two_processes, "killed": killed}


@contextlib.contextmanager
def daemon_of(prefix):
    """$TENSORD_DAEMON at a socket of its own, where the package finds it. It has ended behind this; one that does not is killed."""
    with tempfile.TemporaryDirectory(prefix=prefix) as scratch:
        os.environ["TENSORD_SOCKET"] = socket = os.path.join(scratch, "socket")
        daemon = subprocess.Popen([os.environ["TENSORD_DAEMON"], "--socket", socket])
        while not os.path.exists(socket) and daemon.poll() is None:
            time.sleep(0.01)
        try:
            yield daemon
        finally:
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def main():
    good = True
    with daemon_of("tensord-smoke-") as daemon:
        import tensord as td
        for name, check in CHECKS.items():
            try:
                word, said = "ok", check(td, daemon)
            except Skip as e:
                word, said = "skip", str(e)
            except Exception as e:
                word, said, good = "NO", f"{type(e).__name__}: {' '.join(str(e).split())[:220]}", False
            print(f"{name:16} {word:5} {said}", flush=True)
        td.disconnect()
    rc = daemon.returncode
    left = [p for p in processes_of(daemon.pid, "tensord-cuda") if os.path.exists(f"/proc/{p}")]
    print(f"{'end':16} {'ok' if rc == 0 and not left else 'NO':5} exit status {rc}, processes left {len(left)}")
    return int(not good or rc != 0)


if __name__ == "__main__":
    sys.exit(main())
