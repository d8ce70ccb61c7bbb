"""tensord.data.DataLoader: torch's loader without torch."""

import functools
from typing import Any

from tensord.data import _engine, _plain
from tensord.data._samplers import BatchSampler, Forever, IterableDataset, RandomSampler, SequentialSampler
from tensord.data._worker import Setup


def _check(bad, text):
    if bad:
        raise ValueError(text)


class DataLoader(_engine.Stateful):
    """Batches of a data set, made by worker processes in shared memory. Arguments, results and order are those of torch.utils.data.DataLoader, and

    out: "numpy" (arrays) or "tensord" (tensors). generator: a random.Random.
    on_worker_death: "raise" says which worker died of what and where; "respawn" puts up another, which goes on behind the last batch of the one
    that died, so no sample is lost or comes twice.
    pool: a name; all loaders of the host with that name (the ranks of a training) share one set of workers, and each has the batches that it
    would have without.
    state_dict(), load_state_dict(): exact in the middle of an epoch. stats(): where the time went.
    """

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, pin_memory=False,
                 drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *, prefetch_factor=None,
                 persistent_workers=False, in_order=True, on_worker_death="raise", out="numpy", pool=None):
        _check(out not in ("numpy", "tensord"), f"out is 'numpy' or 'tensord', not {out!r}")
        _check(num_workers < 0, "num_workers is 0 (this process fetches) or more")
        _engine.check(on_worker_death, pool, num_workers)
        _check(timeout < 0, "timeout is not negative; 0: none")
        _check(not num_workers and (prefetch_factor is not None or persistent_workers or timeout),
               "prefetch_factor, persistent_workers and timeout need num_workers > 0")
        _check(prefetch_factor is not None and prefetch_factor < 1, "prefetch_factor is at least 1")
        self.iterable = isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__")
        _check(self.iterable and (shuffle or sampler is not None or batch_sampler is not None),
               "an iterable data set has an order of its own: no shuffle, sampler or batch_sampler")
        _check(sampler is not None and shuffle, "sampler and shuffle exclude each other")
        _check(batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last),
               "batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        _check(batch_size is None and drop_last, "batch_size=None makes no batches, so there is none to drop")
        if sampler is None:
            sampler = Forever() if self.iterable else RandomSampler(dataset, generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        elif batch_sampler is not None:
            batch_size = None
        self.dataset: Any = dataset
        self.batch_size, self.sampler, self.batch_sampler, self.drop_last = batch_size, sampler, batch_sampler, drop_last
        self.num_workers, self.timeout, self.worker_init_fn, self.generator = num_workers, timeout, worker_init_fn, generator
        self.multiprocessing_context, self.pin_memory, self.persistent_workers = multiprocessing_context, pin_memory, persistent_workers
        self.prefetch_factor, self.in_order, self.on_worker_death, self.out = prefetch_factor or 2, in_order, on_worker_death, out
        self.pool = pool
        self.collate_fn = collate_fn or (functools.partial(_plain.collate, out=out) if batch_sampler is not None else _plain.leave)

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self.batch_sampler is not None else self.sampler

    def _plan(self):
        size = None if self.batch_sampler is None else self.batch_size or 1
        return Setup("tensord.data._plain", self.dataset, self.iterable, size, self.collate_fn, self.drop_last, self.worker_init_fn,
                     self.num_workers, 0, "", {"out": self.out})

    def __iter__(self):
        return self._new_pass()

    def __len__(self):
        if not self.iterable:
            return len(self._index_sampler)
        n = len(self.dataset)
        return n if self.batch_size is None else n // self.batch_size if self.drop_last else -(-n // self.batch_size)
