"""A convolutional network: pooling, batch norm, F.log_softmax and nll_loss, Adam, ReduceLROnPlateau, accuracy by argmax, hooks of forward."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.default_rng(2)
labels = torch.from_numpy(rng.integers(0, 4, 48))
images = torch.from_numpy(rng.standard_normal((48, 1, 12, 12)).astype("float32") * 0.5)
for k, label in enumerate(labels):
    images[k, 0, 2 * int(label) : 2 * int(label) + 3, :] += 1.5


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(8 * 2 * 2, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = F.max_pool2d(F.leaky_relu(self.conv2(x), 0.1), 2)
        x = x.view(-1, self.num_flat_features(x))
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)

    def num_flat_features(self, x):
        n = 1
        for s in x.size()[1:]:
            n *= s
        return n


def init_weights(m):
    if isinstance(m, nn.Linear):
        torch.nn.init.xavier_uniform_(m.weight)
        m.bias.data.fill_(0.01)


net = Net().to(device)
net.apply(init_weights)
seen = []
handle = net.conv1.register_forward_hook(lambda module, args, output: seen.append(tuple(output.shape)))
optimizer = optim.Adam([{"params": net.fc2.parameters(), "lr": 3e-3}, {"params": [p for n, p in net.named_parameters() if "fc2" not in n]}], lr=1e-2)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", factor=0.5, patience=0, threshold=0.5)
losses = []
for epoch in range(5):
    net.train()
    running_loss = 0.0
    for i in range(0, 48, 16):
        inputs, target = images[i : i + 16].to(device), labels[i : i + 16].to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(net(inputs), target)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    scheduler.step(running_loss)
    losses += [running_loss, optimizer.param_groups[0]["lr"]]
handle.remove()
net.eval()
correct = total = 0
with torch.no_grad():
    for i in range(0, 48, 16):
        outputs = net(images[i : i + 16])
        _, predicted = torch.max(outputs.data, 1)
        total += labels[i : i + 16].size(0)
        correct += (predicted == labels[i : i + 16]).sum().item()
        losses.append(F.nll_loss(outputs, labels[i : i + 16], reduction="sum").item())
assert seen == [(16, 8, 12, 12)] * 15
losses.append(100 * correct / total)
