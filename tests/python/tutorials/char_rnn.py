"""A character RNN with a cell written by hand, one-hot letters, and sampling; then the same by nn.GRU."""
import torch
import torch.nn as nn

names = ["anna", "otto", "hannah", "ada", "bob"]
letters = sorted(set("".join(names)) | {"."})
n_letters = len(letters)


def to_tensor(line):
    tensor = torch.zeros(len(line), 1, n_letters)
    for i, letter in enumerate(line):
        tensor[i][0][letters.index(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        return self.softmax(self.h2o(hidden)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


rnn = RNN(n_letters, 12, n_letters)
criterion = nn.NLLLoss()
learning_rate = 0.05
losses = []


def train(word):
    hidden = rnn.initHidden()
    rnn.zero_grad()
    loss = 0
    line, target = to_tensor(word), torch.LongTensor([letters.index(c) for c in word[1:] + "."])
    target.unsqueeze_(-1)
    for i in range(line.size(0)):
        output, hidden = rnn(line[i], hidden)
        loss += criterion(output, target[i])
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return loss.item() / line.size(0)


for epoch in range(4):
    for word in names:
        losses.append(train(word))

with torch.no_grad():
    hidden, letter, spoken = rnn.initHidden(), "a", "a"
    for i in range(6):
        output, hidden = rnn(to_tensor(letter)[0], hidden)
        topv, topi = output.topk(1)
        letter = letters[topi[0][0].item()]
        if letter == ".":
            break
        spoken += letter
print(spoken)


class CharGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(n_letters, 10)
        self.out = nn.Linear(10, n_letters)

    def forward(self, x, h=None):
        y, h = self.gru(x, h)
        return self.out(y), h


net = CharGRU()
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for word in names:
    y, h = net(to_tensor(word))
    loss = nn.functional.cross_entropy(y[:, 0], torch.tensor([letters.index(c) for c in word[1:] + "."]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += [loss.item(), h.detach().norm().item()]
