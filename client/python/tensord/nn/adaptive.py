"""A softmax over many classes, of which frequent ones are cheap (Grave et al., Efficient softmax approximation for GPUs, 2017)."""

from collections import namedtuple

import tensord as td
from tensord.nn import functional as F
from tensord.nn.layers import Linear
from tensord.nn.module import Module, ModuleList, Sequential

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", "output loss")


class AdaptiveLogSoftmaxWithLoss(Module):
    """The head scores the most frequent classes, and clusters of the others; a cluster scores its classes through fewer features."""

    _programs = ("log_prob", "predict")  # what may be called in programs, beside forward()

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width, size = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, width, False, device=device, dtype=dtype), Linear(width, size, False, device=device, dtype=dtype)))

    def forward(self, input, target):
        alone = target.ndim == 0
        if input.ndim != target.ndim + 1 or target.ndim > 1 or (target.ndim and input.shape[0] != target.shape[0]):
            raise td.ShapeError("Input and target should have the same size in the batch dimension.")
        input, target = (input.unsqueeze(0), target.unsqueeze(0)) if alone else (input, target)
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise td.InvalidError(f"Target values should be in [0, {self.n_classes - 1}]")
        output = self.log_prob(input).gather(1, target.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.squeeze(0) if alone else output, -output.mean())

    def log_prob(self, input):
        """The logarithms of the probabilities of all classes."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return td.cat(parts, 1)

    def predict(self, input):
        """The most likely class of each row."""
        return self.log_prob(input).argmax(1)

    def reset_parameters(self):
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()
