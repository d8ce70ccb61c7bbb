#!/usr/bin/env python3
"""Mixing tracing and scripting: a scripted loop with a choice in it, by itself and called by a traced function; both are saved, loaded and
asked again. With `import torch` in the first lines it is a program of PyTorch's, and prints the same."""
import os
import tempfile

import tensord as torch
from tensord import nn


class Choice(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Cell(nn.Module):
    def __init__(self, choice):
        super().__init__()
        self.choice = choice
        self.linear = nn.Linear(4, 4)
        with torch.no_grad():
            self.linear.weight.copy_(torch.sin(torch.arange(16.0)).reshape(4, 4))
            self.linear.bias.copy_(torch.cos(torch.arange(4.0)))

    def forward(self, x, h):
        h = torch.tanh(self.choice(self.linear(x)) + h)
        return h, h


class Loop(nn.Module):
    """Written for script(): how often it goes around is the input's affair."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, xs):
        h = torch.zeros(3, 4)
        y = torch.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class Wrapped(nn.Module):
    """Written for trace(): what is scripted inside keeps its loop and its branch."""

    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def forward(self, xs):
        y, _ = self.loop(xs)
        return torch.relu(y)


def inputs(n):
    return torch.cos(torch.arange(12.0 * n)).reshape(n, 3, 4)


def main():
    scripted = torch.jit.script(Loop(Cell(Choice())))
    traced = torch.jit.trace(Wrapped(scripted), inputs(2))  # a script in a trace
    with tempfile.TemporaryDirectory() as place:
        for name, program in (("scripted", scripted), ("traced", traced)):
            path = os.path.join(place, name + ".pt")
            program.save(path)
            again = torch.jit.load(path)
            for n in (2, 5):
                before, after = program(inputs(n)), again(inputs(n))
                if name == "scripted":
                    before, after = before[0], after[0]
                print(name, n, round(float(after.sum()), 4), bool(torch.allclose(before, after)))


if __name__ == "__main__":
    main()
