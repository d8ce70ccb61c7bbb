"""torch.utils.data's names over tensord.data: loaders that give tensors of tensord."""

from typing import Any

from tensord import _C, _more
from tensord.data._loader import DataLoader as _DataLoader
from tensord.data._plain import collate, get_worker_info as get_worker_info
from tensord.data._samplers import (BatchSampler as BatchSampler, IterableDataset as IterableDataset, RandomSampler as RandomSampler,
                                    SequentialSampler as SequentialSampler)


def default_collate(batch):
    """A batch of samples as a sample of batches, in tensors."""
    return collate(batch, "tensord")


class DataLoader(_DataLoader):
    """tensord.data.DataLoader with out="tensord"."""

    def __init__(self, dataset, batch_size: Any = 1, *args, out="tensord", **options):
        super().__init__(dataset, batch_size, *args, out=out, **options)


class Dataset:
    """Samples by their places: write __getitem__ and __len__."""

    def __getitem__(self, index) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")


class TensorDataset(Dataset):
    """The rows of tensors that have the same first size."""

    def __init__(self, *tensors):
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise _C.ShapeError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """Some samples of a data set."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths):
    """The samples in random order, cut into parts of these lengths, or of these shares of the whole."""
    n = len(dataset)
    if all(0 <= k <= 1 for k in lengths) and abs(sum(lengths) - 1) < 1e-9:
        lengths = [int(n * k) for k in lengths]
        for k in range(n - sum(lengths)):
            lengths[k % len(lengths)] += 1
    if sum(lengths) != n:
        raise _C.InvalidError(f"Sum of input lengths does not equal the length of the input dataset: {sum(lengths)} and {n}")
    order, parts, at = _more.randperm(n).tolist(), [], 0
    for k in lengths:
        parts.append(Subset(dataset, order[at : at + k]))
        at += k
    return parts
