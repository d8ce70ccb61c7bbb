"""Linear regression: by autograd alone, by nn.Linear and an optimizer with a schedule, and in the closed form by einsum."""
import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(0)
X = torch.from_numpy(rng.standard_normal((64, 3)).astype("float32"))
true_w = torch.tensor([[2.0], [-3.4], [0.5]])
Y = X @ true_w + 4.2 + 0.01 * torch.from_numpy(rng.standard_normal((64, 1)).astype("float32"))

w = torch.normal(0, 0.01, size=(3, 1))
w.requires_grad_(True)
b = torch.zeros(1, requires_grad=True)
losses = []


def sgd(params, lr, batch_size):
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad / batch_size
            param.grad.zero_()


for epoch in range(3):
    for i in range(0, len(X), 16):
        xb, yb = X[i : i + 16], Y[i : i + 16]
        loss = (torch.matmul(xb, w) + b - yb.reshape(-1, 1)) ** 2 / 2
        loss.sum().backward()
        sgd([w, b], 0.3, len(xb))
    with torch.no_grad():
        losses.append(((X @ w + b - Y) ** 2).mean().item())

net = nn.Sequential(nn.Linear(3, 1))
net[0].weight.data.normal_(0, 0.01)
net[0].bias.data.fill_(0)
criterion = nn.MSELoss()
trainer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scheduler = optim.lr_scheduler.StepLR(trainer, step_size=2, gamma=0.5)
for epoch in range(6):
    for xb, yb in DataLoader(TensorDataset(X, Y), batch_size=16):
        loss = criterion(net(xb), yb)
        trainer.zero_grad()
        loss.backward()
        trainer.step()
    scheduler.step()
    losses += [criterion(net(X), Y).item(), scheduler.get_last_lr()[0]]
print("error of w:", (true_w.reshape(-1) - net[0].weight.data.reshape(-1)).abs().max())

gram = torch.einsum("ni,nj->ij", X, X)
step = torch.zeros(3)
for _ in range(20):
    step = step - (torch.einsum("ij,j->i", gram, step) - torch.einsum("ni,nk->i", X, Y - 4.2)) / 100
losses.append(step.sum().item())
