"""The quickstart: a Module subclass around nn.Sequential, train and test loops, label smoothing, and weights saved and loaded."""
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.accelerator.current_accelerator().type if hasattr(torch, "accelerator") and torch.accelerator.is_available() else "cpu"
print(f"Using {device} device")

rng = np.random.default_rng(1)
labels = np.arange(120) % 10
images = rng.standard_normal((120, 1, 8, 8)).astype(np.float32) * 0.3
for k in range(120):
    images[k, 0, labels[k] % 8, labels[k] // 2] += 3
data, targets = torch.tensor(images), torch.tensor(labels)


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(nn.Linear(8 * 8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        x = self.flatten(x)
        logits = self.linear_relu_stack(x)
        return logits


model = NeuralNetwork().to(device)
print(model)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
losses = []


def train_loop():
    model.train()
    for i in range(0, 120, 30):
        X, y = data[i : i + 30].to(device), targets[i : i + 30].to(device)
        pred = model(X)
        loss = loss_fn(pred, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item())


def test_loop():
    model.eval()
    correct = 0
    with torch.no_grad():
        pred = model(data)
        test_loss = F.cross_entropy(pred, targets).item()
        correct += (pred.argmax(1) == targets).type(torch.float).sum().item()
    losses.append(test_loss)
    return correct / len(targets)


for epoch in range(6):
    train_loop()
    accuracy = test_loop()
    scheduler.step()
losses.append(accuracy)

with tempfile.TemporaryDirectory() as place:
    path = os.path.join(place, "checkpoint.pth")
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "shape": (8, 8)}, path)
    checkpoint = torch.load(path, weights_only=True)
    again = NeuralNetwork()
    again.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    assert checkpoint["epoch"] == 5 and checkpoint["shape"] == (8, 8)
again.eval()
with torch.inference_mode():
    assert torch.equal(again(data), model(data))
    probabilities, classes = torch.topk(F.softmax(again(data[0:1]), dim=1), 3)
losses += probabilities[0].tolist()
total_params = sum(p.numel() for p in model.parameters() if p.requires_grad)
losses.append(total_params)
