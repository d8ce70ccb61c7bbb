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


def reference(name, value):
    print(f"reference {name} {value:.6g} {WHAT}", flush=True)


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
    a, b = torch.randn(1 << 24), torch.randn(1 << 24)
    reference("pointwise.add", median(lambda: a + b) * 1e3)
    reference("pointwise.exp", median(a.exp) * 1e3)
    x, w = torch.randn(32, 64, 56, 56), torch.randn(64, 64, 3, 3)
    reference("conv.forward", median(lambda: F.conv2d(x, w, padding=1)) * 1e3)
    x.requires_grad_()
    w.requires_grad_()
    reference("conv.forward_backward", median(lambda: convolve(x, w)) * 1e3)


if __name__ == "__main__":
    main()
