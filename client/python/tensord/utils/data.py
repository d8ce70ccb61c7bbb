"""torch.utils.data's names over tensord.data: loaders that give tensors of tensord."""

import bisect
import itertools
import math
from typing import Any

from tensord import _C
from tensord._random import default_generator as _dice
from tensord.data._loader import DataLoader as _DataLoader
from tensord.data._plain import collate, get_worker_info as get_worker_info
from tensord.data._samplers import BatchSampler as BatchSampler, IterableDataset as IterableDataset, SequentialSampler as SequentialSampler


def default_collate(batch):
    """A batch of samples as a sample of batches, in tensors."""
    return collate(batch, "tensord")


class DataLoader(_DataLoader):
    """tensord.data.DataLoader with out="tensord", whose order tensord.manual_seed() begins anew where it is given no generator."""

    def __init__(self, dataset, batch_size: Any = 1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, pin_memory=False,
                 drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *, out="tensord", **options):
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout, worker_init_fn,
                         multiprocessing_context, generator or _dice, out=out, **options)


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


class ConcatDataset(Dataset):
    """Several data sets, one behind the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise _C.InvalidError("ConcatDataset() takes at least one data set")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise _C.OutOfRange(f"there is no sample {index} among {len(self)}")
        index %= len(self)
        k = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[k][index - (self.cumulative_sizes[k - 1] if k else 0)]

    def __len__(self):
        return self.cumulative_sizes[-1]


class Sampler:
    """Places of samples in some order: write __iter__ and, where it is known, __len__."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class RandomSampler(SequentialSampler):
    """All of them in random order, or num_samples of them, each with equal chances every time when replacement is True."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        super().__init__(data_source)
        self.replacement, self.num_samples, self.generator = replacement, num_samples, generator or _dice

    def __iter__(self):
        n, wanted = len(self.data_source), len(self)
        if self.replacement:
            return iter(self.generator.choices(range(n), k=wanted))
        return iter([k for _ in range(-(-wanted // n) if n else 0) for k in self.generator.sample(range(n), n)][:wanted])

    def __len__(self):
        return len(self.data_source) if self.num_samples is None else self.num_samples


class SubsetRandomSampler(SequentialSampler):
    """These places in random order."""

    def __init__(self, indices, generator=None):
        super().__init__(indices)
        self.generator = generator or _dice

    def __iter__(self):
        return (self.data_source[k] for k in self.generator.sample(range(len(self)), len(self)))


class WeightedRandomSampler(Sampler):
    """num_samples places, each drawn with its weight; without replacement no place comes twice."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        self.weights = [float(w) for w in (weights.tolist() if hasattr(weights, "tolist") else weights)]
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator or _dice
        if min(self.weights, default=0) < 0 or not replacement and num_samples > sum(w > 0 for w in self.weights):
            raise _C.InvalidError("weights are not negative, and without replacement at least num_samples of them are not zero")

    def __iter__(self):
        if self.replacement:
            return iter(self.generator.choices(range(len(self.weights)), self.weights, k=self.num_samples))
        arrives = {k: -math.log(1 - self.generator.random()) / w for k, w in enumerate(self.weights) if w}  # the first of exponential clocks
        return iter(sorted(arrives, key=arrives.__getitem__)[: self.num_samples])

    def __len__(self):
        return self.num_samples


def random_split(dataset, lengths, generator=None):
    """The samples in random order, cut into parts of these lengths, or of these shares of the whole."""
    n = len(dataset)
    if all(0 <= k <= 1 for k in lengths) and abs(sum(lengths) - 1) < 1e-9:
        lengths = [int(n * k) for k in lengths]
        for k in range(n - sum(lengths)):
            lengths[k % len(lengths)] += 1
    if sum(lengths) != n:
        raise _C.InvalidError(f"Sum of input lengths does not equal the length of the input dataset: {sum(lengths)} and {n}")
    order, parts, at = (generator or _dice).sample(range(n), n), [], 0
    for k in lengths:
        parts.append(Subset(dataset, order[at : at + k]))
        at += k
    return parts
