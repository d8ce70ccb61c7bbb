#!/usr/bin/env python3
"""A residual network of the ResNet-18 kind (11 million weights), frozen, in the daemon and in torch, in turns within one run.

py.infer.cnn.1   one picture of 3x112x112       py.infer.cnn.8   eight of them

Both sides are scripted and frozen, begin with the same numbers, and must agree at the end; the value of each is the median round. Arguments and results are
tensors of either side. For few pictures the weights are most of what is read: the daemon keeps them as its kernels want them."""
import statistics
import sys
import time

ROUNDS, SECONDS, GOALS = 9, 0.3, {"cnn.1": 1.0, "cnn.8": 1.0}


def skip(why):
    for name in GOALS:
        print(f"skip py.infer.{name} {why}")
    return 0


try:
    import torch
except ImportError:
    sys.exit(skip("torch is not importable"))
try:
    import tensord as td
except ImportError:
    sys.exit(skip("the package tensord is not on PYTHONPATH"))


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


def measure(name, ours, theirs):
    given = torch.randn(int(name.split(".")[1]), 3, 112, 112)
    x = td.from_numpy(given.numpy())
    sides = {"ours": lambda: ours(x).numpy(), "reference": lambda: theirs(given).numpy()}
    for _ in range(4):
        results = [f() for f in sides.values()]
    if abs(results[0] - results[1]).max() > 1e-3 * abs(results[1]).max():
        raise SystemExit(f"infer.{name}: the results differ")
    took = {side: [] for side in sides}
    began = time.perf_counter()
    sides["reference"]()
    n = max(3, int(SECONDS / (time.perf_counter() - began)))
    for _ in range(ROUNDS):
        for side, f in sides.items():
            began = time.perf_counter()
            for _ in range(n):
                f()
            took[side].append((time.perf_counter() - began) / n)
    print(f"ours py.infer.{name} {statistics.median(took['ours']) * 1e3:.4f} ms {GOALS[name]}")
    print(f"reference py.infer.{name} {statistics.median(took['reference']) * 1e3:.4f} torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)


def main():
    torch.manual_seed(0)
    theirs, ours = network(torch), network(td)
    ours.load_state_dict({k: td.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    td.set_grad_enabled(False)
    with torch.no_grad():
        frozen = td.jit.freeze(td.jit.script(ours)), torch.jit.freeze(torch.jit.script(theirs))
        for name in sys.argv[1:] or GOALS:
            measure(name, *frozen)


if __name__ == "__main__":
    main()
