#!/usr/bin/env python3
"""A residual network of the ResNet-18 kind (11 million weights), frozen, in the daemon and in torch, in turns within one run.

py.infer.cnn.1   one picture of 3x112x112       py.infer.cnn.8   eight of them

Both sides are scripted and frozen, begin with the same numbers, and must agree at the end; the value of each is the median round. Arguments and results are
tensors of either side. For few pictures the weights are most of what is read: the daemon keeps them as its kernels want them."""
import sys
import time

from bench_python import beside_torch, in_turns, ours, reference

ROUNDS, SECONDS, GOALS = 9, 0.3, {"cnn.1": 1.0, "cnn.8": 1.0}


torch, td = beside_torch([f"py.infer.{name}" for name in GOALS])


def network(t):
    nn = t.nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
            self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
            other = [nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)] if stride > 1 else []
            self.relu, self.other = nn.ReLU(), nn.Sequential(*other)

        def forward(self, x):
            y = self.relu(self.norm1(self.conv1(x)))
            return self.relu(self.norm2(self.conv2(y)) + self.other(x))

    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [block for a, b, stride in widths for block in (Block(a, b, stride), Block(b, b, 1))]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()


def measure(name, frozen, other):
    given = torch.randn(int(name.split(".")[1]), 3, 112, 112)
    x = td.from_numpy(given.numpy())
    sides = [lambda: frozen(x).numpy(), lambda: other(given).numpy()]
    for _ in range(4):
        results = [f() for f in sides]
    if abs(results[0] - results[1]).max() > 1e-3 * abs(results[1]).max():
        raise SystemExit(f"infer.{name}: the results differ")
    began = time.perf_counter()
    sides[1]()
    n = max(3, int(SECONDS / (time.perf_counter() - began)))
    mine, theirs = in_turns(*[lambda f=f: [f() for _ in range(n)] for f in sides], rounds=ROUNDS)
    ours(f"py.infer.{name}", mine / n * 1e3, "ms", GOALS[name])
    reference(f"py.infer.{name}", theirs / n * 1e3, f"torch {torch.__version__}, {torch.get_num_threads()} threads")


def main():
    torch.manual_seed(0)
    theirs, mine = network(torch), network(td)
    mine.load_state_dict({k: td.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    td.set_grad_enabled(False)
    with torch.no_grad():
        frozen = td.jit.freeze(td.jit.script(mine)), torch.jit.freeze(torch.jit.script(theirs))
        for name in sys.argv[1:] or GOALS:
            measure(name, *frozen)


if __name__ == "__main__":
    main()
