#!/usr/bin/env python3
"""An LSTM of one's own: cells in script, a layer that loops over time, layers upon each other in both directions, and gradients through all of it. With
`import torch` in the first lines it is a program of PyTorch's, and prints the same."""
from typing import List, Tuple

import tensord as torch
from tensord import Tensor, nn


def filled(rows, columns):
    return torch.sin(torch.arange(float(rows * columns))).reshape(rows, columns) * 0.5


class Cell(nn.Module):
    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.weight_ih = nn.Parameter(filled(4 * hidden, inputs))
        self.weight_hh = nn.Parameter(filled(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        h, c = state
        gates = torch.mm(x, self.weight_ih.t()) + torch.mm(h, self.weight_hh.t()) + self.bias
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class Layer(nn.Module):
    def __init__(self, inputs: int, hidden: int, backward: bool):
        super().__init__()
        self.cell, self.backward_in_time = Cell(inputs, hidden), backward

    def forward(self, xs: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        outputs: List[Tensor] = []
        for k in range(xs.size(0)):
            i = xs.size(0) - 1 - k if self.backward_in_time else k
            out, state = self.cell(xs[i], state)
            outputs.append(out)
        made = torch.stack(outputs)
        if self.backward_in_time:
            made = made.flip([0])
        return made, state


class LSTM(nn.Module):
    def __init__(self, inputs: int, hidden: int, layers: int):
        super().__init__()
        sizes = [inputs] + [2 * hidden] * (layers - 1)
        self.forwards = nn.ModuleList([Layer(n, hidden, False) for n in sizes])
        self.backwards = nn.ModuleList([Layer(n, hidden, True) for n in sizes])

    def forward(self, xs: Tensor, states: List[Tuple[Tensor, Tensor]]) -> Tuple[Tensor, List[Tuple[Tensor, Tensor]]]:
        ends: List[Tuple[Tensor, Tensor]] = []
        k = 0
        for one, other in zip(self.forwards, self.backwards):
            ahead, end = one(xs, states[k])
            ends.append(end)
            back, end = other(xs, states[k + 1])
            ends.append(end)
            xs = torch.cat([ahead, back], 2)
            k += 2
        return xs, ends


def main():
    lstm = torch.jit.script(LSTM(3, 4, 2))
    for time, batch in ((5, 2), (9, 1)):
        xs = torch.cos(torch.arange(3.0 * time * batch)).reshape(time, batch, 3)
        states = [(torch.zeros(batch, 4), torch.zeros(batch, 4)) for _ in range(4)]
        out, ends = lstm(xs, states)
        loss = (out * out).sum() + ends[3][1].sum()
        loss.backward()
        print(tuple(out.shape), round(float(loss), 4))
    for name, p in lstm.named_parameters():
        print(name, round(float(p.grad.abs().sum()), 3))


if __name__ == "__main__":
    main()
