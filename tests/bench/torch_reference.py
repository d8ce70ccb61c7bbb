#!/usr/bin/env python3
"""The same work as the C benchmarks by torch, in process, with as many threads as there are processors.

Prints `reference NAME VALUE WHAT` lines for tests/bench/run; the units are those of the C programs."""
import os
import statistics
import time

import torch
import torch.nn.functional as F

WHAT = f"torch {torch.__version__} in process"


def median(run, times=9):
    run()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def reference(name, value, how=""):
    print(f"reference {name} {value:.6g} {WHAT}{how}", flush=True)


def adds(x, count=20000):
    for _ in range(count):
        x + x


def backwards(x, count=2000):
    for _ in range(count):
        (x + 1.0).sum().backward()
        x.grad = None


def train(parts, count=100):
    x, y, p = parts
    for _ in range(count):
        h = F.relu(F.linear(x, p[0], p[1]))
        F.cross_entropy(F.linear(h, p[2], p[3]), y).backward()
        with torch.no_grad():
            for q in p:
                q -= 0.01 * q.grad
                q.grad = None


def convolve(x, w):
    F.conv2d(x, w, padding=1).sum().backward()
    x.grad = w.grad = None


def pointwise():
    """Into a tensor that is there, and into a new one: then most of the time is the system's, for fresh pages."""
    a, b, out = torch.randn(1 << 24), torch.randn(1 << 24), torch.zeros(1 << 24)
    reference("pointwise.add.out", median(lambda: torch.add(a, b, out=out)) * 1e3, ", out=")
    reference("pointwise.add.new", median(lambda: a + b) * 1e3, ", a new result")
    reference("pointwise.exp.out", median(lambda: torch.exp(a, out=out)) * 1e3, ", out=")
    reference("pointwise.exp.new", median(a.exp) * 1e3, ", a new result")
    x, y, out = (t.view(4096, 4096) for t in (a, b, out))
    reference("pointwise.transposed.out", median(lambda: torch.add(x.t(), y, out=out)) * 1e3, ", out=")


def softmax():
    x, out = torch.randn(4096, 4096), torch.zeros(4096, 4096)
    reference("softmax.inner.out", median(lambda: torch.softmax(x, 1, out=out)) * 1e3, ", out=")
    reference("softmax.outer.out", median(lambda: torch.softmax(x, 0, out=out)) * 1e3, ", out=")


def norms():
    back = torch.ops.aten
    x, g, w, b = torch.randn(4096, 1024), torch.randn(4096, 1024), torch.ones(1024), torch.zeros(1024)
    y, mean, rstd = torch.native_layer_norm(x, [1024], w, b, 1e-5)
    run = back.native_layer_norm_backward
    reference("layer_norm.backward", median(lambda: run(g, x, [1024], mean, rstd, w, b, [True] * 3)) * 1e3)
    x, g, w, b = torch.randn(32, 64, 56, 56), torch.randn(32, 64, 56, 56), torch.ones(64), torch.zeros(64)
    y, mean, rstd = torch.native_batch_norm(x, w, b, b, w, True, 0.1, 1e-5)
    run = back.native_batch_norm_backward
    reference("batch_norm.backward", median(lambda: run(g, x, w, b, w, mean, rstd, True, 1e-5, [True] * 3)) * 1e3)


def depthwise():
    x, g, w = torch.randn(1, 96, 40, 40), torch.randn(1, 96, 40, 40), torch.randn(96, 1, 3, 3)
    back = torch.ops.aten.convolution_backward
    for name, mask in ("data", [True, False, False]), ("weights", [False, True, False]):
        run = lambda: back(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 96, mask)
        reference(f"depthwise.{name}", median(run, 99) * 1e3)
    reference("depthwise.forward", median(lambda: F.conv2d(x, w, padding=1, groups=96), 99) * 1e3)


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    eight = torch.ones(8)
    reference("ops.pipelined", median(lambda: adds(eight)) / 20000 * 1e9)
    leaf = torch.ones(8, requires_grad=True)
    reference("ops.backward", median(lambda: backwards(leaf)) / 2000 * 1e6)
    sizes = (128, 784), (128,), (10, 128), (10,)
    p = [(torch.randn(s) / s[-1] ** 0.5).requires_grad_() for s in sizes]
    parts = torch.randn(64, 784), torch.full((64,), 3), p
    reference("train.mlp", median(lambda: train(parts)) / 100 * 1e3)
    pointwise()
    softmax()
    norms()
    depthwise()
    x, w = torch.randn(32, 64, 56, 56), torch.randn(64, 64, 3, 3)
    reference("conv.forward", median(lambda: F.conv2d(x, w, padding=1)) * 1e3)
    x.requires_grad_()
    w.requires_grad_()
    reference("conv.forward_backward", median(lambda: convolve(x, w)) * 1e3)


if __name__ == "__main__":
    main()
