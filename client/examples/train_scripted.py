#!/usr/bin/env python3
"""A scripted network and its scripted loss are trained by an optimizer, saved, loaded, and trained on from there. With `import torch` in the first lines
it is a program of PyTorch's, and prints the same."""
import os
import tempfile

import tensord as torch
import tensord.nn.functional as F
from tensord import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 16), nn.Linear(16, 1)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.sin(torch.arange(float(p.numel()))).reshape(p.shape) * 0.5)

    def forward(self, x, steps: int = 2):
        h = torch.tanh(self.first(x))
        for _ in range(steps):
            h = h + 0.1 * torch.relu(h)
        return self.second(h)


@torch.jit.script
def loss_of(y, wanted, weight: float):
    loss = F.mse_loss(y, wanted)
    if weight > 0:
        loss = loss + weight * (y * y).mean()
    return loss


def train(net, x, y, times):
    step = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for k in range(times):
        step.zero_grad()
        loss = loss_of(net(x), y, 0.001)
        loss.backward()
        step.step()
        if k % 20 == 0:
            print(f"{k:3d} {float(loss):.4f}")


def main():
    x = torch.cos(torch.arange(128.0)).reshape(64, 2)
    y = x[:, :1] * x[:, 1:]
    net = torch.jit.script(Net())
    train(net, x, y, 60)
    with tempfile.TemporaryDirectory() as place:
        net.save(os.path.join(place, "net.pt"))
        again = torch.jit.load(os.path.join(place, "net.pt"))
    print(bool(torch.allclose(net(x), again(x))))
    train(again, x, y, 60)


if __name__ == "__main__":
    main()
