#!/usr/bin/env python3
"""Hogwild: workers train one model at once, without locks, and one of them is killed.

The weights and Adam's state live in the daemon, once. Each worker computes the gradients of its own batch and steps on whatever the weights
are by then: others may have stepped since its forward. Half way one worker is killed (SIGKILL); the others take over its batches, and what
the daemon held for it comes back.

At the end a table of the workers, what is left of them in the daemon (nothing), and memory: one model for all against a model for each, both
measured.
"""

import itertools
import os
import pickle
import random
import signal
import sys
import time

import _common
from _common import Failed, td

nn, F = td.nn, td.nn.functional

# ---- the model


def make_model(o, area, shared=True):
    td.manual_seed(o.seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(area, o.hidden), nn.ReLU(), nn.Linear(o.hidden, o.hidden), nn.ReLU(), nn.Linear(o.hidden, 10))
    if shared:
        net.share_memory()
    optimizer = td.optim.Adam(net.parameters(), lr=o.lr)
    return net, optimizer.share_memory() if shared else optimizer


def train(net, optimizer, images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def tensors_of(net, optimizer):
    return [*net.parameters(), *(v for state in optimizer.state.values() for v in state.values())]


# ---- a worker


def work(o):
    """Trains on the batches it gets. What it needs came as a pickle through a pipe: some handles, no weights."""
    model, images, labels = pickle.load(sys.stdin.buffer)
    net, optimizer = model or make_model(o, images[0].numel(), shared=False)
    done = td.Queue(f"{o.run}/done", role="producer")
    batches = td.Queue(f"{o.run}/batches", role="consumer")
    for _ in range(2):  # so that whoever measures now finds all there is
        train(net, optimizer, images[: o.batch], labels[: o.batch])
        td.sync()
    done.put({"here": os.getpid()})
    for rows in batches:
        done.put({"pid": os.getpid(), "samples": len(rows), "loss": train(net, optimizer, images[rows], labels[rows])})


# ---- the driver


class Workers:
    """Some workers on one model, and what the driver knows of each."""

    def __init__(self, o, crew, *given):
        self.crew, self.of, self.killed = crew, {}, None
        self.done = td.Queue(f"{crew.run}/done", 4 * o.workers, role="consumer", on_death=self.told)
        self.batches = td.Queue(f"{crew.run}/batches", 2 * o.workers, role="producer")
        handles = b""
        for k in range(o.workers):
            handles = pickle.dumps(given)  # each is for one receiver
            pid = crew.start("worker", given=handles)
            self.of[pid] = {"number": k + 1, "steps": 2, "samples": 2 * o.batch, "end": ""}
        self.given_bytes, self.awaited = len(handles), set(self.of)
        while self.awaited:
            item = self.next()
            if item is None:
                raise Failed("no worker came to work")
            self.awaited.remove(item["here"])

    def next(self):
        """What a worker has to say; None when all have ended."""
        while True:
            self.look()
            try:
                return self.done.get(timeout=0.2)
            except td.Timeout:
                pass
            except td.Closed:
                self.look(block=True)
                return None

    def look(self, block=False):
        """Who has ended? Who is killed at work is not missed; any other bad end is the end of the run."""
        while ended := self.crew.wait(block):
            _, pid, status = ended
            worker = self.of[pid]
            if status == -signal.SIGKILL and pid not in self.awaited:
                worker["end"] = worker["end"] or "killed (SIGKILL) by somebody"
            elif status:
                raise Failed(f"worker {worker['number']} (process {pid}) " + (f"was ended by signal {-status}" if status < 0 else "failed")
                             + "; the others were ended too")

    def kill(self, number, when):
        pid, worker = next((pid, w) for pid, w in self.of.items() if w["number"] == number)
        self.killed = next((row for row in td.status("sessions") if row["pid"] == pid), None)
        if self.killed is None:  # somebody was faster
            return
        self.killed["segments"] = [row for row in td.status("segments") if row["session"] == self.killed["session"]]
        os.kill(pid, signal.SIGKILL)
        worker["end"] = f"killed (SIGKILL) at batch {when}"
        print(f"hogwild: worker {number} (process {pid}) is killed", flush=True)

    def told(self, line):
        """By the daemon, of a death: what did it hold for it, and what is left of that?"""
        if self.killed and f"(pid {self.killed['pid']})" in line:
            rows = [row for what in ("sessions", "segments", "tensors") for row in td.status(what) if row["session"] == self.killed["session"]]
            left = sum(row.get("bytes_used") != 0 for row in rows)  # some of the daemon's own memory may go a moment later
            line += (f"; of its {self.killed['objects']} tensors, {_common.megabytes(self.killed['bytes'])} in {len(self.killed['segments'])} "
                     f"segments, {left or 'nothing'} is left")
        print(f"daemon: {line}", flush=True)

    def give_up(self):
        """Take back the batches that nobody takes any more."""
        with td.Queue(self.batches.name, role="consumer") as rest:
            while not rest.empty():
                rest.get()

    def end(self):
        """No more batches, and wait for the last word of all. Fine when that was done before."""
        self.batches.close(end=True)
        while self.next():
            pass
        self.done.close()


def memory(crew):
    """While the workers wait, in bytes: all tensors in the daemon; the shared memory that daemon and workers take of the machine; and all that they
    take, with the rooms in which the daemon computes. Without what the daemon has in stock for the next tensors, which is more or less by chance."""
    td.sync()
    count = {row["key"]: row["value"] for row in td.status()}
    stock = count["bytes_committed"] - count["bytes_used"]
    pids = [td.connection()["pid"], *crew.processes]
    return count["bytes_used"], _common.pss(pids, shared=True) - stock, _common.pss(pids) - stock


def held():
    """What the daemon holds for others than this process."""
    me = td.connection()["session"]
    sessions, segments = td.status("sessions"), td.status("segments")
    total = {row["key"]: row["value"] for row in td.status()}
    mine = next(row for row in sessions if row["session"] == me)
    return {"sessions": len(sessions), "tensors": total["tensors"] - mine["objects"], "bytes": total["bytes_used"] - mine["bytes"],
            "segments": sum(row["session"] not in (0, me) for row in segments), "nodes of graphs": total["nodes"],
            # Two of each segment, also of those that wait warm for whoever comes next.
            "other descriptors": total["descriptors"] - 2 * total["segments"]}


def held_at_rest():
    """The same once two looks agree: what ended a moment ago may not be put away yet."""
    seen, before = held(), None
    while seen != before:
        time.sleep(0.05)
        seen, before = held(), seen
    return seen


def settled(before):
    """The same once the daemon has noticed that all workers have ended, and has put away what was theirs: the difference."""
    for _ in range(200):
        left = {key: value - before[key] for key, value in held().items()}
        if not any(left.values()):
            break
        time.sleep(0.05)
    return left


def accuracy(net, images, labels):
    with td.no_grad():
        return (net(images).argmax(1) == labels).float().mean().item()


def each_batch(o, rows):
    mixed, order = random.Random(o.seed), list(range(rows))
    for _ in range(o.epochs):
        mixed.shuffle(order)
        for k in range(0, rows, o.batch):
            yield td.tensor(order[k : k + o.batch])


class Progress:
    """A line for each epoch: the mean loss of its batches, and the accuracy of the weights as they are right now."""

    def __init__(self, o, workers, net, images, labels):
        self.epochs, self.workers, self.net, self.images, self.labels = o.epochs, workers, net, images, labels
        self.epoch, self.sum, self.count = 0, 0, 0

    def add(self, loss):
        self.sum, self.count = self.sum + loss, self.count + 1

    def line(self):
        self.epoch += 1
        steps = " ".join(f"{w['steps']}{'+' * bool(w['end'])}" for w in self.workers.of.values())
        print(f"epoch {self.epoch:2}/{self.epochs}  loss {float(self.sum) / self.count:.4f}  "
              f"accuracy {accuracy(self.net, self.images, self.labels):.3f}  steps {steps}", flush=True)
        self.sum = self.count = 0


def hand_out(o, workers, progress, split):
    """Every batch to whichever worker is free, and a kill in the middle. Returns how many batches died with a worker."""
    per_epoch = -(-split // o.batch)
    total, finished, ended, batches = per_epoch * o.epochs, 0, False, each_batch(o, split)
    for rows in itertools.islice(batches, 2 * o.workers):
        workers.batches.put(rows)
    while item := workers.next():
        worker = workers.of[item["pid"]]
        worker.update(steps=worker["steps"] + 1, samples=worker["samples"] + item["samples"], loss=item["loss"])
        progress.add(item["loss"])
        finished += 1
        if (rows := next(batches, None)) is not None:
            workers.batches.put(rows)
        elif not ended:
            workers.batches.close(end=True)
            ended = True
        if finished == total // 2 and o.kill:
            workers.kill(o.kill, finished)
        if finished % per_epoch == 0:
            progress.line()
    if progress.count:
        progress.line()
    if all(w["end"] for w in workers.of.values()):
        workers.give_up()
        raise Failed("no worker is left; the model has what they did, but nobody goes on")
    return total - finished


def print_workers(workers):
    print(f"\n{'worker':<8}{'pid':<9}{'steps':>6}{'samples':>9}{'last loss':>11}  what happened")
    for pid, w in workers.of.items():
        loss = f"{w['loss'].item():.4f}" if "loss" in w else "-"
        print(f"{w['number']:<8}{pid:<9}{w['steps']:>6}{w['samples']:>9}{loss:>11}  {w['end'] or 'worked to the end'}")


def apart(o, crew):
    """The memory when each worker has a model of its own, in a fresh daemon."""
    crew.connect_anew()
    images, labels, *_ = _common.load_digits(o.mnist)
    workers = Workers(o, crew, None, images, labels)
    used = memory(crew)
    workers.end()
    return used


def drive(o, crew):
    images, labels, split, pixels = _common.load_digits(o.mnist)
    side = images.shape[1]
    net, optimizer = make_model(o, side * side)
    size = sum(t.nbytes for t in tensors_of(net, optimizer))
    td.sync()
    before = held_at_rest()
    workers = Workers(o, crew, (net, optimizer), images, labels)
    together = memory(crew)
    print(f"hogwild: {o.workers} workers on one model of {sum(p.numel() for p in net.parameters()):,} weights; with Adam's state "
          f"{_common.megabytes(size)}, which each was handed as {workers.given_bytes} bytes\n", flush=True)
    lost = hand_out(o, workers, Progress(o, workers, net, images[split:], labels[split:]), split)
    workers.end()
    print_workers(workers)
    workers.of.clear()  # it has losses that they made
    after = settled(before)

    with td.no_grad():
        guess, truth = net(images[split:]).argmax(1).tolist(), labels[split:].tolist()
    right = sum(g == t for g, t in zip(guess, truth))
    shown = [len(guess) * k // 4 for k in range(4)]
    print("\n" + _common.picture(pixels, side, [split + r for r in shown],
                                 [f"{guess[r]}" if guess[r] == truth[r] else f"{guess[r]} (it is a {truth[r]})" for r in shown]))
    print(f"\naccuracy {right / len(guess):.3f} on {len(guess)} digits that were not trained on; "
          f"{lost} of {o.epochs * -(-split // o.batch)} batches died with a worker")
    print("left in the daemon by the workers: " + ", ".join(f"{n} {what}" for what, n in after.items()))
    del net, optimizer, images, labels
    copies = apart(o, crew)
    print(f"\n{'memory':<20}{'tensors':>10}{'shared memory (PSS)':>22}{'daemon and workers (PSS)':>27}")
    for what, (tensors, shared, whole) in (("one model for all", together), ("a model for each", copies)):
        print(f"{what:<20}{_common.megabytes(tensors):>10}{_common.megabytes(shared):>22}{_common.megabytes(whole):>27}")


def arguments():
    p = _common.parser(__doc__)
    p.add_argument("--workers", type=_common.number_from(1), default=4, metavar="N", help="how many (default 4)")
    p.add_argument("--epochs", type=_common.number_from(1), metavar="N", help="how often every digit is seen (default 6, of MNIST 2)")
    p.add_argument("--hidden", type=_common.number_from(1), default=2048, metavar="N", help="width of the two hidden layers (default 2048)")
    p.add_argument("--batch", type=_common.number_from(1), default=50, metavar="N", help="digits in a batch (default 50)")
    p.add_argument("--lr", type=float, default=3e-4, metavar="X", help="learning rate of Adam (default 0.0003)")
    p.add_argument("--kill", type=_common.number_from(0), default=3, metavar="N", help="the worker to kill half way; 0: none (default 3)")
    o = p.parse_args()
    o.epochs = o.epochs or (2 if o.mnist else 6)
    if o.kill > o.workers or (o.kill and o.workers == 1):
        p.error(f"--kill {o.kill}: of {o.workers} worker{'s' * (o.workers > 1)} one must be there to kill and one to go on; --kill 0 kills none")
    return o


if __name__ == "__main__":
    sys.exit(_common.main(arguments(), drive, {"worker": work}))
