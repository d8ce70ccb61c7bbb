#!/usr/bin/env python3
"""Training steps as a PyTorch user writes them (nn, optim), through the daemon and in torch, in turns within one run.

train.mlp   784-128-10, batch 64, SGD             train.cnn   1-32-64 channels of 28x28, batch 64, Adam
train.lstm  16 sequences of 64, 64 -> 128, Adam   train.gpt   4 layers of 128, 16 sequences of 128, AdamW

train.*.peak is the most memory that a step holds at once, beside torch's as its profiler counts it: parameters, optimizer's state, batch, and what comes and goes.

train.mlp_program and train.cnn_program are the first two again, with the step as one program (td.jit.script); eager ones of ours are timed beside them.

A step is forward, loss, backward and the optimizer's; a round is some steps and ends when the last loss is known. The rounds of both take turns, so that what
else the machine does falls on both; the value of each is the median round. Both begin with the same numbers, and their losses must agree at the end.
Extra arguments name the lines to run."""
import itertools
import statistics
import sys
import time

from bench_python import beside_torch

PEAK = 1.1
GOALS = {"mlp": 0.35, "cnn": 0.7, "lstm": 0.7, "gpt": 0.45, "mlp_program": 0.35, "cnn_program": 0.7}
ROUNDS, SECONDS = 9, 0.15  # rounds of each; about how long one takes


torch, td = beside_torch([f"py.train.{name}{what}" for name in GOALS for what in ("", ".peak")])


def mlp(t):
    nn = t.nn
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def loss(x, y):
        return nn.functional.cross_entropy(net(x), y)

    return net, lambda p: t.optim.SGD(p, lr=0.1), loss


def cnn(t):
    nn = t.nn
    net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(1600, 10))

    def loss(x, y):
        return nn.functional.cross_entropy(net(x), y)

    return net, lambda p: t.optim.Adam(p, lr=1e-3), loss


def lstm(t):
    nn = t.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.out = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.out(self.lstm(x)[0][:, -1])

    net = Net()
    return net, lambda p: t.optim.Adam(p, lr=1e-3), lambda x, y: nn.functional.cross_entropy(net(x), y)


def gpt(t):
    nn, F = t.nn, t.nn.functional
    layers, width, heads, length, letters = 4, 128, 4, 128, 65

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = (p.reshape(b, n, heads, c // heads).transpose(1, 2) for p in self.qkv(self.one(x)).split(c, 2))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c)
            x = x + self.out(seen)
            return x + self.down(F.gelu(self.up(self.two(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
            self.blocks, self.norm, self.head = nn.ModuleList([Block() for _ in range(layers)]), nn.LayerNorm(width), nn.Linear(width, letters)

        def forward(self, x):
            x = self.token(x) + self.place(t.arange(length))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    net = Gpt()
    return net, lambda p: t.optim.AdamW(p, lr=3e-4), lambda x, y: F.cross_entropy(net(x).reshape(-1, letters), y.reshape(-1))


def batch(name):
    if name == "gpt":
        return torch.randint(0, 65, (16, 128)), torch.randint(0, 65, (16, 128))
    shape = {"mlp": (64, 784), "cnn": (64, 1, 28, 28), "lstm": (16, 64, 64)}[name]
    return torch.rand(shape), torch.randint(0, 10, shape[:1])


def trainer(make, t, weights, x, y, program=False):
    """A function that takes n steps and gives the last loss."""
    net, optimizer, loss_of = make(t)
    with t.no_grad():
        for p, w in zip(net.parameters(), weights, strict=True):
            p.copy_(t.tensor(w))
    opt = optimizer(net.parameters())

    def step(x, y):
        opt.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        opt.step()
        return loss

    one = t.jit.script(step) if program else step

    def run(n):
        for _ in range(n):
            loss = one(x, y)
        return loss.item()

    def held():
        """Bytes of what outlives a step."""
        kept = [x, y, *(v for p in net.parameters() for v in (p, p.grad, *opt.state[p].values()) if isinstance(v, t.Tensor))]
        return sum(v.numel() * v.element_size() for v in kept)

    return run, held


def peak_of_ours(run):
    td.accelerator.reset_peak_memory_stats()
    run(3)
    return td.accelerator.max_memory_allocated()


def peak_of_torch(run, held):
    """What is held before, and the highest sum of what its allocator was asked for and given back since."""
    before = held()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run(3)
    asked = sorted((e.start_ns(), e.nbytes()) for e in profile.profiler.kineto_results.events() if e.name() == "[memory]")
    return before + max(itertools.accumulate(n for _, n in asked))


def measure(name, make):
    torch.manual_seed(0)
    kind, _, program = name.partition("_")
    x, y = batch(kind)
    weights = [p.detach().tolist() for p in make(torch)[0].parameters()]
    given = td.tensor(x.tolist(), dtype=td.int64 if kind == "gpt" else td.float32), td.tensor(y.tolist())
    sides = {"ours": trainer(make, td, weights, *given, bool(program)), "reference": trainer(make, torch, weights, x, y)}
    if program:
        sides["eager"] = trainer(make, td, weights, *given)
    began = time.perf_counter()
    losses = [run(3) for run, _ in sides.values()]
    n = max(5, int(SECONDS / ((time.perf_counter() - began) / (3 * len(sides)))))
    took = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, (run, _) in sides.items():
            began = time.perf_counter()
            run(n)
            took[side].append((time.perf_counter() - began) / n)
    if abs(losses[0] - losses[1]) > 2e-3 * abs(losses[1]):
        raise SystemExit(f"{name}: the loss is {losses[0]}, and {losses[1]} in torch")
    for side, values in took.items():
        print(f"# train.{name} {side}: {min(values) * 1e3:.3f} to {max(values) * 1e3:.3f} ms a step, {n} steps a round")
    print(f"ours py.train.{name} {statistics.median(took['ours']) * 1e3:.4f} ms {GOALS[name]}")
    print(f"reference py.train.{name} {statistics.median(took['reference']) * 1e3:.4f} torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    print(f"ours py.train.{name}.peak {peak_of_ours(sides['ours'][0]) / 1e6:.4f} MB {PEAK}")
    print(f"reference py.train.{name}.peak {peak_of_torch(*sides['reference']) / 1e6:.4f} torch {torch.__version__}, held at once", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or GOALS:
        measure(name, globals()[name.partition("_")[0]])
