#!/usr/bin/env python3
"""DistributedDataParallel by one word: ranks train one CNN on the digits, by gloo and by tensord in turns.

The program of a rank is PyTorch's own, and its backend's name is all that differs: init_process_group("gloo") or
init_process_group("tensord"). Printed are the losses of both side by side and the milliseconds a step.

With --kill R rank R is killed (SIGKILL) in the middle of the run: what each survivor is told, and how soon.
"""

import json
import os
import signal
import statistics
import sys
import tempfile
import time

import _common
from _common import Failed

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    sys.exit(f"{_common.PROGRAM}: PyTorch is not there for {sys.executable}: install python3-torch (Debian), or pip install torch")

import tensord.torch  # init_process_group("tensord")

nn, F = torch.nn, torch.nn.functional

# ---- a rank


def make_model(side):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * (side // 2) ** 2, 128), nn.ReLU(), nn.Linear(128, 10))


def write(o, what):
    with open(f"{o.run}/{o.backend}-{o.rank}", "w") as f:
        json.dump(what, f)


def work(o):
    torch.set_num_threads(1)
    images, labels, split, _ = _common.load_digits(o.mnist)
    images, labels = torch.from_numpy(images.numpy()).unsqueeze(1), torch.from_numpy(labels.numpy())
    dist.init_process_group(o.backend, init_method=f"file://{o.run}/meet-{o.backend}", rank=o.rank, world_size=o.ranks)
    model = DistributedDataParallel(make_model(images.shape[-1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order, losses, took = torch.Generator().manual_seed(o.seed), [], []
    for step in range(o.steps):
        # All ranks draw the same batch, and each takes its part of it.
        at = torch.randint(split, (o.ranks, o.batch), generator=order)[o.rank]
        began = time.perf_counter()
        loss = F.cross_entropy(model(images[at]), labels[at])
        optimizer.zero_grad()
        if o.kill == o.rank and step == o.steps // 2:
            write(o, {"died": time.monotonic()})
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss.backward()
        except RuntimeError as e:
            if o.kill is None:
                raise
            write(o, {"told": time.monotonic(), "error": f"{type(e).__name__}: {e}"})
            os._exit(3)  # destroy_process_group() of gloo would wait for the dead
        optimizer.step()
        took.append(time.perf_counter() - began)
        losses.append(loss.item())
    write(o, {"losses": losses, "ms": statistics.median(took) * 1000})
    dist.destroy_process_group()


# ---- the driver


def run(o, crew, backend, folder, kill):
    """What each rank says of a run of all; None of one that said nothing."""
    crew.run = folder
    for rank in range(o.ranks):
        crew.start("rank", "--rank", str(rank), "--backend", backend, *(["--kill", str(kill)] if kill is not None else []))
    while (ended := crew.wait()) is not None:
        _, pid, status = ended
        if status not in ((0,) if kill is None else (0, 3, -signal.SIGKILL)):
            raise Failed(f"a rank ({backend}, pid {pid}) ended with status {status}")
    said = []
    for rank in range(o.ranks):
        path = f"{folder}/{backend}-{rank}"
        said.append(json.load(open(path)) if os.path.exists(path) else None)
    os.path.exists(f"{folder}/meet-{backend}") and os.unlink(f"{folder}/meet-{backend}")
    return said


def show_kill(o, crew, folder):
    for backend in ("gloo", "tensord"):
        said = run(o, crew, backend, folder, o.kill)
        died = said[o.kill]["died"]
        print(f"{backend}: rank {o.kill} was killed at step {o.steps // 2 + 1}")
        for rank, each in enumerate(said):
            if rank == o.kill:
                continue
            if not each or "error" not in each:
                raise Failed(f"rank {rank} ({backend}) was told nothing")
            print(f"  rank {rank}, after {(each['told'] - died) * 1000:.0f} ms: {each['error']}")


def show_losses(o, crew, folder):
    took, losses = {"gloo": [], "tensord": []}, {}
    for _ in range(o.turns):
        for backend in took:
            said = run(o, crew, backend, folder, None)
            took[backend].append(statistics.median(each["ms"] for each in said))
            losses[backend] = [x for each in said for x in each["losses"]]
    same = sum(a == b for a, b in zip(losses["gloo"], losses["tensord"]))
    most = max(abs(a - b) for a, b in zip(losses["gloo"], losses["tensord"]))
    print("step   " + "".join(f"{'rank ' + str(r):>24}" for r in range(o.ranks)))
    print("       " + "     gloo    tensord    " * o.ranks)
    for step in range(0, o.steps, max(1, o.steps // 8)):
        rows = [(losses["gloo"][r * o.steps + step], losses["tensord"][r * o.steps + step]) for r in range(o.ranks)]
        print(f"{step + 1:4}   " + "".join(f"{a:10.6f} {b:10.6f}   " for a, b in rows))
    print(f"losses: {same} of {len(losses['gloo'])} equal to the bit; largest difference {most:.1e}")
    ms = {b: statistics.median(t) for b, t in took.items()}
    print(f"a step: gloo {ms['gloo']:.2f} ms, tensord {ms['tensord']:.2f} ms: {ms['tensord'] / ms['gloo']:.2f} of it "
          f"(medians of {o.turns} turns, {o.ranks} ranks, {o.batch} images each)")
    if most > 1e-4:
        raise Failed("the losses differ")


def drive(o, crew):
    with tempfile.TemporaryDirectory(prefix="ddp_digits-") as folder:
        if o.kill is not None:
            show_kill(o, crew, folder)
        else:
            show_losses(o, crew, folder)


if __name__ == "__main__":
    p = _common.parser(__doc__)
    p.add_argument("--ranks", type=_common.number_from(1), default=2, metavar="N", help="processes (default 2)")
    p.add_argument("--steps", type=_common.number_from(1), default=28, metavar="N", help="steps of each run (default 28)")
    p.add_argument("--batch", type=_common.number_from(1), default=64, metavar="N", help="images of a rank's batch (default 64)")
    p.add_argument("--turns", type=_common.number_from(1), default=3, metavar="N", help="runs of each backend (default 3)")
    p.add_argument("--kill", type=_common.number_from(0), metavar="R", help="kill this rank half way")
    p.add_argument("--backend", choices=("gloo", "tensord"), help=_common.argparse.SUPPRESS)
    p.add_argument("--rank", type=int, help=_common.argparse.SUPPRESS)
    arguments = p.parse_args()
    if arguments.kill is not None and arguments.kill >= arguments.ranks:
        p.error(f"there is no rank {arguments.kill} of {arguments.ranks}")
    sys.exit(_common.main(arguments, drive, {"rank": work}))
