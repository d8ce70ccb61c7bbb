"""torch.utils.data's names over tensord.data: loaders that give tensors of tensord."""

import itertools
import math
import os
import random
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tensord import _C
from tensord.core import _absent, _aliases
from tensord.core._generators import default_generator as _dice
from tensord.data._loader import DataLoader as _DataLoader
from tensord.data._plain import collate, finish, get_worker_info as get_worker_info
from tensord.data._samplers import (BatchSampler as BatchSampler, ChainDataset as ChainDataset, ConcatDataset as ConcatDataset, Dataset as Dataset, IterableDataset as IterableDataset,
                                   Sampler as Sampler, SequentialSampler as SequentialSampler, _Source)


def default_collate(batch):
    """A batch of samples as a sample of batches, in tensors."""
    return collate(batch, "tensord")


def default_convert(data):
    """A sample that stands for itself, in tensors: arrays are, in dicts, lists and tuples too, of which the last become lists as in PyTorch."""
    if isinstance(data, dict):
        return {k: default_convert(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        items = [default_convert(x) for x in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    return finish(data, {"out": "tensord"})


_Sample = TypeVar("_Sample", covariant=True)


class DataLoader(_DataLoader, Generic[_Sample]):
    """tensord.data.DataLoader with out="tensord", whose order tensord.manual_seed() begins anew where it is given no generator."""

    def __init__(self, dataset, batch_size: Any = 1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, pin_memory=False,
                 drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *, out="tensord", **options):
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout, worker_init_fn,
                         multiprocessing_context, generator or _dice, out=out, **options)


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


class StackDataset(Dataset[_Sample]):
    """Data sets of one length beside each other: a sample is a tuple of theirs, or, where they were given by names, a dict.

    Raises InvalidError for different lengths, and for none or both kinds of arguments.
    """

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise _C.InvalidError("Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both types are given.")
        if not args and not kwargs:
            raise _C.InvalidError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        sizes = {len(d) for d in self._all()}
        if len(sizes) > 1:
            raise _C.InvalidError("Size mismatch between datasets")
        self._length = sizes.pop()

    def _all(self):
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _put_together(self, parts):
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index):
        return self._put_together([d[index] for d in self._all()])

    def __getitems__(self, indices):
        """A batch, for which each data set is asked once, if it answers such."""
        columns = []
        for d in self._all():
            many = getattr(d, "__getitems__", None)
            columns.append(many(indices) if callable(many) else [d[k] for k in indices])
            if len(columns[-1]) != len(indices):
                raise _C.InvalidError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(columns[-1])}")
        return [self._put_together(row) for row in zip(*columns)]

    def __len__(self):
        return self._length


class Subset(Dataset[_Sample]):
    """Some samples of a data set."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class RandomSampler(_Source):
    """All of them in random order, or num_samples of them, each with equal chances every time when replacement is True."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise _C.DTypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise _C.InvalidError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        self.replacement, self.num_samples, self.generator = replacement, num_samples, generator or _dice

    def __iter__(self):
        n, wanted = len(self.data_source), len(self)
        if self.replacement:
            return iter(self.generator.choices(range(n), k=wanted))
        return iter([k for _ in range(-(-wanted // n) if n else 0) for k in self.generator.sample(range(n), n)][:wanted])

    def __len__(self):
        return len(self.data_source) if self.num_samples is None else self.num_samples


class SubsetRandomSampler(_Source):
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


def _told(name, given, of):
    """A number that was given, or is in the environment, where torchrun and others put it."""
    if given is None and name not in os.environ:
        raise _C.Error(f"DistributedSampler: {of} is not given, and there is no {name} in the environment; there are no process groups here")
    return int(os.environ[name]) if given is None else given


class DistributedSampler(Sampler):
    """This rank's places, every num_replicas-th, in an order that is the same in all ranks: with shuffle another for each set_epoch().

    All ranks have as many: the first places come twice, or, with drop_last, the last ones not at all. num_replicas and rank may come from the
    environment's WORLD_SIZE and RANK. Raises InvalidError for a rank that is none of them, Error where nothing tells them.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        self.num_replicas, self.rank = _told("WORLD_SIZE", num_replicas, "num_replicas"), _told("RANK", rank, "rank")
        if not 0 <= self.rank < self.num_replicas:
            raise _C.InvalidError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        n = len(dataset)
        self.num_samples = n // self.num_replicas if drop_last else -(-n // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        return itertools.islice(itertools.cycle(order), self.rank, self.total_size, self.num_replicas)

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """The next iteration has this epoch's order."""
        self.epoch = epoch


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


_aliases.put(__name__, sys.modules[__name__], {
    "dataset": "ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset TensorDataset random_split",
    "sampler": "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler WeightedRandomSampler",
    "dataloader": "DataLoader default_collate default_convert get_worker_info",
    "distributed": "DistributedSampler",
    "_utils": "",
})
_aliases.put(__name__ + "._utils", sys.modules[__name__], {"collate": "default_collate default_convert", "worker": "get_worker_info"})

if not TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
