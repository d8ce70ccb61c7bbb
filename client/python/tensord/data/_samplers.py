"""Samplers and data sets without torch, under torch's names. Random numbers are Python's: `generator` is a random.Random."""

import random


class IterableDataset:
    """A data set that is iterated instead of looked up: each worker iterates its own copy; get_worker_info() tells which it is."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler:
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(SequentialSampler):
    """All of them in random order."""

    def __init__(self, data_source, generator=None):
        super().__init__(data_source)
        self.generator = generator

    def __iter__(self):
        order = list(range(len(self.data_source)))
        random.Random((self.generator or random).getrandbits(64)).shuffle(order)
        return iter(order)


class BatchSampler:
    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
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
