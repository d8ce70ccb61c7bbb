"""A text classifier: a vocabulary, EmbeddingBag with offsets, an Embedding with padding and an LSTM; gradient clipping and ExponentialLR."""
import torch
from torch import nn

texts = [("the match was won by the team", 0), ("shares fell as the market closed", 1), ("the team lost the cup", 0), ("bank shares and the market", 1),
         ("a cup for the team", 0), ("the bank closed", 1)]
vocab = {word: k + 1 for k, word in enumerate(sorted({w for text, _ in texts for w in text.split()}))}
vocab_size = len(vocab) + 1


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for text, label in batch:
        label_list.append(label)
        processed = torch.tensor([vocab[w] for w in text.split()], dtype=torch.int64)
        text_list.append(processed)
        offsets.append(processed.size(0))
    return torch.tensor(label_list, dtype=torch.int64), torch.cat(text_list), torch.tensor(offsets[:-1]).cumsum(dim=0)


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.fc = nn.Linear(embed_dim, num_class)
        self.init_weights()

    def init_weights(self):
        initrange = 0.5
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.fc.weight.data.uniform_(-initrange, initrange)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


losses = []
model = TextClassificationModel(vocab_size, 8, 2)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
for epoch in range(8):
    label, text, offsets = collate_batch(texts)
    optimizer.zero_grad()
    predicted_label = model(text, offsets)
    loss = criterion(predicted_label, label)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
losses.append((predicted_label.argmax(1) == label).sum().item())


class LSTMClassifier(nn.Module):
    def __init__(self, vocab_size, embed_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim, padding_idx=0)
        self.lstm = nn.LSTM(embed_dim, hidden_dim, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden_dim, 1)

    def forward(self, x):
        output, (hidden, cell) = self.lstm(self.embedding(x))
        return self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)).squeeze(1)


longest = max(len(text.split()) for text, _ in texts)
padded = torch.zeros(len(texts), longest, dtype=torch.long)
for k, (text, _) in enumerate(texts):
    words = [vocab[w] for w in text.split()]
    padded[k, : len(words)] = torch.tensor(words)
target = torch.tensor([float(label) for _, label in texts])
model = LSTMClassifier(vocab_size, 6, 5)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
for epoch in range(5):
    optimizer.zero_grad()
    loss = nn.BCEWithLogitsLoss()(model(padded), target)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    losses.append(loss.item())
losses.append(model.embedding.weight.grad[0].abs().sum().item())
