"""Samplers and data sets without torch, under torch's names. Random numbers are Python's: `generator` is a random.Random."""

import bisect
import itertools
import random
from typing import Any, Generic, TypeVar

from tensord import _C

_Sample = TypeVar("_Sample", covariant=True)


class Dataset(Generic[_Sample]):
    """Samples by their places: write __getitem__ and __len__. a + b has those of b behind those of a."""

    def __getitem__(self, index) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_Sample]):
    """A data set that is iterated instead of looked up: each worker iterates its own copy; get_worker_info() tells which it is. a + b: first a, then b."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


class ChainDataset(IterableDataset[_Sample]):
    """Iterable data sets, one behind the other, each begun when it is come to."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from d

    def __len__(self):
        return sum(map(len, self.datasets))


class ConcatDataset(Dataset[_Sample]):
    """Several data sets, one behind the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise _C.InvalidError("ConcatDataset() takes at least one data set")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise _C.OutOfRange(f"there is no sample {index} among {len(self)}")
        index %= len(self)
        k = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[k][index - (self.cumulative_sizes[k - 1] if k else 0)]

    def __len__(self):
        return self.cumulative_sizes[-1]


class Sampler(Generic[_Sample]):
    """Places of samples in some order: write __iter__ and, where it is known, __len__."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class _Source(Sampler[int]):
    def __init__(self, data_source):
        self.data_source = data_source

    def __len__(self):
        return len(self.data_source)


class SequentialSampler(_Source):
    def __iter__(self):
        return iter(range(len(self.data_source)))


class RandomSampler(_Source):
    """All of them in random order."""

    def __init__(self, data_source, generator=None):
        super().__init__(data_source)
        self.generator = generator

    def __iter__(self):
        order = list(range(len(self.data_source)))
        random.Random((self.generator or random).getrandbits(64)).shuffle(order)
        return iter(order)


class BatchSampler(Sampler[list[int]]):
    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class Forever:
    """For iterable data sets, which end by themselves."""

    def __iter__(self):
        while True:
            yield None
