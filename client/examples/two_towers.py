#!/usr/bin/env python3
"""Two processes build one graph, a third differentiates it, a fourth draws the loss.

    left      sees the left half of each image only, owns the weights of its tower, and builds its part of the graph
    right     the same with the right half
    trainer   joins both parts, calls backward() through all three processes' work, and steps all weights
    plotter   draws the loss while it falls: a curve on a terminal, else a line every tenth of the way

--kill left kills that process in the middle, after it has handed over its part of a step and before backward. The part is there all the
same, backward goes through it, and a new process takes the tower up where it stood. At the end one process does everything again, and
weights and gradients are compared bit by bit.
"""

import math
import os
import random
import shutil
import signal
import sys

import _common
from _common import Failed, td

BATCH, HIDDEN, PART = 50, 64, 32
SIDES = ("left", "right")

# ---- the network, in parts


def make(seed, *sizes):
    """Weights and biases of layers, in memory that outlives the process that makes them."""
    td.manual_seed(seed)
    weights = []
    with td.service_memory():
        for inputs, outputs in zip(sizes, sizes[1:]):
            weights.append((td.randn(outputs, inputs) * math.sqrt(2 / inputs)).requires_grad_())
            weights.append(td.zeros(outputs, requires_grad=True))
    return weights


def make_tower(side, area, seed):
    return make(seed * 10 + SIDES.index(side), area, HIDDEN, PART)


def make_head(seed):
    return make(seed * 10 + 5, 2 * PART, 10)


def tower(x, w):
    h = td.nn.functional.linear(x, w[0], w[1]).relu()
    return td.nn.functional.linear(h, w[2], w[3]).relu()


def join(parts, w):
    return td.nn.functional.linear(td.cat(parts, 1), *w)


def batches(rows, steps, seed):
    """The rows of each step's batch, every epoch in another order."""
    mixed, order = random.Random(seed), []
    for _ in range(steps):
        if len(order) < BATCH:
            order = list(range(rows))
            mixed.shuffle(order)
        yield td.tensor([order.pop() for _ in range(BATCH)])


def step(parts, head, labels, optimizer):
    """Backward through whatever `parts` were made of, and a step of all weights; the loss."""
    loss = td.nn.functional.cross_entropy(join(parts, head), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


# ---- left and right


def build(o):
    """A tower: builds its part of the graph for the rows that the trainer asks for."""
    images = td.open(f"{o.run}/images/{o.role}")
    names = [f"{o.run}/{o.role}/{k}" for k in range(4)]
    try:
        weights = [td.open(name) for name in names]
    except td.NotFound:  # else this process takes the place of one that died
        weights = make_tower(o.role, images.shape[1], o.seed)
        for name, w in zip(names, weights):
            w.publish(name, replace=True)  # who died may have come half this way
    parts = td.Queue(f"{o.run}/{o.role}", role="producer")
    parts.put({"here": os.getpid()})
    for wanted in td.Queue(f"{o.run}/{o.role}/wanted"):
        parts.put({"step": wanted["step"], "part": tower(images[wanted["rows"]], weights), "pid": os.getpid()})


# ---- the trainer


class Gone(Exception):
    pass


def gone(line):
    raise Gone(line)


class Side:
    """A tower, as the trainer sees it: rows in, a part of the graph out, from whichever process holds the place."""

    def __init__(self, run, name):
        self.name, self.made, self.watching = name, {}, False
        self.wanted = td.Queue(f"{run}/{name}/wanted", role="producer")
        self.parts = td.Queue(f"{run}/{name}", role="consumer", on_death=lambda line: self.watching and gone(line))
        self.parts.get()  # it is here
        self.weights = [td.open(f"{run}/{name}/{k}") for k in range(4)]

    def ask(self, number, rows):
        self.number, self.rows = number, rows
        self.wanted.put({"step": number, "rows": rows})

    def part(self):
        """What was asked for. Who takes a dead process's place says so, and is asked again; what comes twice is dropped."""
        while True:
            item = self.parts.get()
            if "here" in item:
                self.ask(self.number, self.rows)
            elif item["step"] == self.number:
                self.pid = item["pid"]
                self.made[self.pid] = self.made.get(self.pid, 0) + 1
                return item["part"]

    def kill(self):
        """Returns when the daemon has noticed."""
        self.watching = True
        os.kill(self.pid, signal.SIGKILL)
        try:
            while True:
                self.parts.get()
        except Gone:
            self.watching = False


def train(o):
    labels = td.open(f"{o.run}/labels")
    sides = [Side(o.run, name) for name in SIDES]
    head = make_head(o.seed)
    for k, w in enumerate(head):
        w.publish(f"{o.run}/head/{k}")
    with td.service_memory():
        losses = td.full((o.steps,), math.nan)
    losses.publish(f"{o.run}/losses")
    events = td.Queue(f"{o.run}/events", role="producer")
    optimizer = td.optim.Adam([*sides[0].weights, *sides[1].weights, *head], lr=o.lr)
    for number, rows in enumerate(batches(o.rows, o.steps, o.seed)):
        for side in sides:
            side.ask(number, rows)
        parts = [side.part() for side in sides]
        for side in sides:
            if side.name == o.kill and number == o.steps // 2:
                side.kill()
                say(events, number + 1, f"{side.name} (process {side.pid}) was killed when it had built its part of step {number + 1}; "
                                        "backward goes through it all the same")
        losses[number] = step(parts, head, labels[rows], optimizer)  # asked for, not waited for
    td.sync()
    for side in sides:
        side.wanted.close(end=True)
    events.close(end=True)
    with td.Queue(f"{o.run}/report") as report:
        report.put({side.name: side.made for side in sides})


def say(events, number, text):
    try:
        events.put_nowait({"step": number, "text": text})
    except td.Timeout:
        pass  # nobody looks


# ---- the plotter


class Curve:
    """The losses so far as lines of Braille characters, on a logarithmic scale; a column of dots is the mean of its steps."""

    DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

    def __init__(self, steps, width, height):
        self.steps, self.width, self.height = steps, max(20, width - 10), height

    def lines(self, losses, marks):
        known = [v for v in losses if not math.isnan(v)]
        if not known:
            return ["waiting for the first step"]
        columns = {}
        for k, v in enumerate(known):
            columns.setdefault(k * 2 * self.width // self.steps, []).append(v)
        points = {x: math.log10(max(sum(v) / len(v), 1e-6)) for x, v in columns.items()}
        top, low = max(points.values()) + 0.02, min(points.values()) - 0.02
        cells = [[0x2800] * self.width for _ in range(self.height)]
        before = None
        for x, v in points.items():
            y = round((top - v) / (top - low) * (4 * self.height - 1))
            for each in range(min(y, before or y), max(y, before or y) + 1):
                cells[each // 4][x // 2] |= self.DOTS[each % 4][x % 2]
            before = y
        out = []
        for r, row in enumerate(cells):
            value = 10 ** (top - (top - low) * r / max(1, self.height - 1))
            out.append((f"{value:7.4f} ┤" if r % 3 == 0 or r == self.height - 1 else "        │") + "".join(map(chr, row)))
        axis = [" "] * self.width
        for at, letter in marks:
            axis[min(self.width - 1, at * self.width // self.steps)] = letter
        out.append("        └" + "".join("─" if c == " " else c for c in axis))
        out.append(f"         step {len(known)} of {self.steps}, loss {known[-1]:.4f}")
        return out


class Terminal:
    """Draws over what it drew before."""

    def __init__(self, steps):
        self.steps, self.drawn, self.marks = steps, 0, []

    def wipe(self):
        if self.drawn:
            sys.stdout.write(f"\x1b[{self.drawn}A\x1b[J")
            self.drawn = 0

    def frame(self, losses):
        size = shutil.get_terminal_size()
        lines = Curve(self.steps, size.columns - 1, max(4, min(14, size.lines - 8))).lines(losses, self.marks)
        self.wipe()
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self.drawn = len(lines)

    def event(self, event):
        self.wipe()
        self.marks.append((event["step"], "✝"))
        print(f"plotter: {event['text']}", flush=True)


class Lines:
    """A line every tenth of the way, for files and pipes."""

    def __init__(self, steps):
        self.marks = sorted({max(1, steps * k // 10) for k in range(11)})
        self.steps = steps

    def frame(self, losses):
        while self.marks and not math.isnan(losses[self.marks[0] - 1]):
            at = self.marks.pop(0)
            print(f"step {at:{len(str(self.steps))}}/{self.steps}  loss {losses[at - 1]:.4f}", flush=True)

    def event(self, event):
        print(f"plotter: {event['text']}", flush=True)


def plot(o):
    """Looks into the tensor of losses, which is the trainer's own memory; the trainer does not know of it."""
    events = td.Queue(f"{o.run}/events", role="consumer")
    losses = memoryview(td.open(f"{o.run}/losses", timeout=None))
    drawable = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" and os.environ.get("TERM") != "dumb"
    out = Terminal(o.steps) if drawable and not o.plain else Lines(o.steps)
    while True:
        try:
            out.event(events.get(timeout=1 / 15))
        except td.Timeout:
            pass
        except td.Closed:
            break
        out.frame(losses)
    out.frame(losses)


# ---- the driver


def alone(o, halves, labels):
    """Everything in this process: the weights and their gradients after the last step."""
    towers = [make_tower(side, halves[side].shape[1], o.seed) for side in SIDES]
    head = make_head(o.seed)
    weights = [*towers[0], *towers[1], *head]
    optimizer = td.optim.Adam(weights, lr=o.lr)
    for rows in batches(o.rows, o.steps, o.seed):
        step([tower(halves[side][rows], w) for side, w in zip(SIDES, towers)], head, labels[rows], optimizer)
    return weights


def same(a, b):
    """To the last bit."""
    return a is not None and b is not None and bytes(memoryview(a.detach())) == bytes(memoryview(b.detach()))


def watch(o, crew):
    """Until all have ended. A killed tower gets a successor; any other bad end is the end of the run."""
    pids = {role: [crew.start(role)] for role in (*SIDES, "trainer", "plotter")}
    while ended := crew.wait():
        role, pid, status = ended
        if status == -signal.SIGKILL and role in SIDES:
            pids[role].append(crew.start(role))
        elif status and role == "plotter":
            print("plotter: ended early; nobody waits for it", flush=True)
        elif status:
            raise Failed(f"{role} (process {pid}) " + (f"was ended by signal {-status}" if status < 0 else "failed") + "; the others were ended too")
    return pids


def print_processes(o, pids, made):
    print(f"\n{'process':<10}{'pid':<10}what it did")
    for role, held in pids.items():
        for pid in held:
            killed = ", was killed" if pid != held[-1] else ""
            did = {"trainer": f"{o.steps} times backward through all parts, and a step", "plotter": "drew"}.get(role)
            print(f"{role:<10}{pid:<10}{did or f'built its part of {made[role].get(pid, 0)} steps'}{killed}")


def drive(o, crew):
    images, labels, o.rows, pixels = _common.load_digits(o.mnist)
    side = images.shape[1]
    halves = {"left": images[:, :, : side // 2].reshape(len(images), -1), "right": images[:, :, side // 2 :].reshape(len(images), -1)}
    for name in SIDES:
        halves[name].publish(f"{crew.run}/images/{name}")
    labels.publish(f"{crew.run}/labels")
    sys.argv += ["--rows", str(o.rows)]
    # The queues outlive whoever is killed: their other members are the trainer and this process.
    places = [td.Queue(f"{crew.run}/{name}", role="producer") for name in SIDES] + [td.Queue(f"{crew.run}/events", role="consumer")]
    report = td.Queue(f"{crew.run}/report", role="consumer")
    look = f"{_common.tensorctl()} --socket {td.connection()['path']} top"
    print(f"two_towers: {o.rows} images, {o.steps} steps; to look inside meanwhile: {look}\n", flush=True)
    pids = watch(o, crew)
    made = report.get(timeout=10)

    weights = [td.open(f"{crew.run}/{part}/{k}") for part, n in (*((s, 4) for s in SIDES), ("head", 2)) for k in range(n)]
    with td.no_grad():
        test = slice(o.rows, None)
        guess = join([tower(halves[s][test], weights[4 * k : 4 * k + 4]) for k, s in enumerate(SIDES)], weights[8:]).argmax(1)
        accuracy = (guess == labels[test]).float().mean().item()
    guess, truth = guess.tolist(), labels[test].tolist()
    shown = [len(guess) * k // 4 for k in range(4)]
    print("\n" + _common.picture(pixels, side, [o.rows + r for r in shown],
                                 [f"{guess[r]}" if guess[r] == truth[r] else f"{guess[r]} (it is a {truth[r]})" for r in shown], side // 2))
    print_processes(o, pids, made)
    single = alone(o, halves, labels)
    equal, grads = sum(map(same, weights, single)), sum(same(a.grad, b.grad) for a, b in zip(weights, single))
    print(f"\nagainst one process that does it all: {equal} of {len(single)} weights and {grads} of {len(single)} gradients "
          "are the same to the last bit")
    print(f"accuracy {accuracy:.3f} on {len(guess)} digits that were not trained on")
    for place in places:
        place.close()
    if equal < len(single) or grads < len(single):
        raise Failed("the weights should be bit-equal; please report this with the line above")


def arguments():
    p = _common.parser(__doc__)
    p.add_argument("--steps", type=_common.number_from(2), default=600, metavar="N", help="training steps (default 600)")
    p.add_argument("--kill", choices=SIDES, help="kill this process in the middle of the way")
    p.add_argument("--lr", type=float, default=2e-3, metavar="X", help="learning rate of Adam (default 0.002)")
    p.add_argument("--plain", action="store_true", help="lines instead of a curve, on a terminal too")
    p.add_argument("--rows", type=int, help=_common.argparse.SUPPRESS)
    return p.parse_args()


if __name__ == "__main__":
    sys.exit(_common.main(arguments(), drive, {"left": build, "right": build, "trainer": train, "plotter": plot}))
