#!/usr/bin/env python3
"""Writes the archives scripted_*.pt beside this one, and what they compute, with PyTorch (those that are kept came from 2.13): make_scripted.py DIRECTORY

../test_torchscript.py calls them with what scripted.pt holds, and compares."""
import io
import sys
import zipfile
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.LeakyReLU(0.1),
                                    nn.AdaptiveAvgPool2d(1), nn.Dropout(0.2), nn.Flatten())
        self.heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3, bias=False)])
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        y = self.layers(x)
        return F.softmax(self.norm(torch.cat([head(y) for head in self.heads], 1)), dim=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.lstm = nn.LSTM(4, 3, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(6, 2)

    def forward(self, x):
        y, _ = self.lstm(self.embedding(x))
        return y, self.cell(y[:, 0])


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = 1

    def forward(self) -> int:
        return self.value

    @torch.jit.export
    def step(self, n: int):
        self.value += n


class State(nn.Module):
    """Control flow, attributes of all kinds, and such that methods assign."""
    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.counter = Counter()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0]))
        self.register_buffer("calls", torch.zeros(1))
        self.seen = torch.zeros(0)
        self.last = None
        self.sizes = [2, 3]
        self.name = "state"
        self.table = torch.arange(4.0)

    def forward(self, x: Tensor, n: int = 2, w: Optional[Tensor] = None) -> Tuple[Tensor, int, Tensor]:
        if x.dim() != 1:
            raise ValueError(f"{self.name} takes 1 dimension, not {x.dim()}")
        y = x * self.scale
        for i in range(n):
            y = y + i
            if float(y.sum()) > 100:
                break
        while float(y.max()) > 10:
            y = y / 2
        if w is not None:
            y = y + w
        last = self.last
        if last is not None:
            y = y + last
        self.last = y
        self.calls += 1
        self.counter.step(self.sizes[0])
        self.seen = torch.cat([self.seen, y])
        parts: List[Tensor] = []
        for row in self.seen.view(-1, 2):
            parts.append(row + self.table[:2])
        return torch.stack(parts), self.counter(), self.calls.clone()

    @torch.jit.export
    def reset(self):
        self.seen = torch.zeros(0)
        self.last = None

    @torch.jit.export
    def count(self, start: int = 0, by: Tuple[int, float] = (1, 0.5)) -> float:
        return start + self.counter.value * by[0] + by[1]

    @torch.jit.export
    def unread(self, x: Tensor) -> Dict[str, Tensor]:
        return {"x": x}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)

    def forward(self, x):
        return self.layer(x)


def save(where, name, module, calls):
    """Saves it without the names of whose files it came from, and returns what its calls give."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    with zipfile.ZipFile(file) as all, zipfile.ZipFile(f"{where}/scripted_{name}.pt", "w") as kept:
        for info in all.infolist():
            if not info.filename.endswith(".debug_pkl"):
                kept.writestr(zipfile.ZipInfo(info.filename), all.read(info), info.compress_type)
    return [(method, args, getattr(module, method)(*args)) for method, args in calls]


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    x, ids, v = torch.randn(2, 1, 8, 8), torch.randint(0, 7, (2, 3)), torch.randn(2)
    straight, recurrent, attention = Straight().eval(), Recurrent().eval(), Attention().eval()
    steps = [("forward", (v,)), ("forward", (v, 3)), ("forward", (v, 30, v)), ("reset", ()), ("forward", (v,)), ("count", ()), ("count", (5, (2, 0.25)))]
    torch.save({
        "straight": save(where, "straight", torch.jit.script(straight), [("forward", (x,))]),
        "traced": save(where, "traced", torch.jit.trace(straight, x), [("forward", (x,))]),
        "recurrent": save(where, "recurrent", torch.jit.trace(recurrent, ids), [("forward", (ids,))]),
        "state": save(where, "state", torch.jit.script(State()), steps),
        "attention": save(where, "attention", torch.jit.trace(attention, torch.randn(2, 3, 4), check_trace=False), [("forward", (torch.randn(2, 3, 4),))]),
    }, where + "/scripted.pt")
