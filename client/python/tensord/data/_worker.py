"""What runs in a worker: fetch batches, one after the other as asked, and send them.

A message to a worker is ("fetch", epoch, number, indices, unpacked) or ("epoch", Start); one from it (kind, epoch, number, body, Meta), kind being
"data", "failed", "unread" (the indices) or "end" (of its part of an iterable data set). `epoch` is the pass that asked. `unpacked` says how many of
its batches the loader has taken out of their messages. Indices and a Start, which may hold objects of the program's, lie in their message pickled once more: what they raise when they
are unpickled is a failure of their batch, as what the data set raises is.
"""

import copy
import faulthandler
import importlib
import pickle
import time
import traceback
from collections import deque
from dataclasses import dataclass
from typing import Any

from tensord.share import _loans
from tensord.data import _link


@dataclass
class Setup:
    """What a worker has to know; travels to it pickled where it is not forked."""

    flavour: str  # the name of a module: what differs with and without torch
    dataset: Any
    iterable: bool
    batch_size: Any  # None: no batches are made
    collate_fn: Any
    drop_last: bool
    init_fn: Any
    num_workers: int
    base_seed: int
    path: str
    options: dict


@dataclass
class Start:
    """Where a worker begins: at the beginning, or behind batches that are done."""

    fetched: int = 0
    rng: Any = None
    state: Any = None


@dataclass
class Meta:
    """Beside each batch: seconds it took, and what a later Start needs. rng None: as before."""

    idle: float = 0
    fetch: float = 0
    collate: float = 0
    send: float = 0  # of the batch before
    others: float = 0  # spent on other loaders, in a pool
    rng: Any = None
    state: Any = None


class Failure:
    """An exception of a worker, with its traceback as text."""

    def __init__(self, e, where):
        self.kind, self.where = type(e), where
        self.text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        try:
            pickle.loads(pickle.dumps(self.kind))
        except Exception:
            self.kind = RuntimeError

    def throw(self):
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:  # whose text would be shown with its line ends escaped
            raise KeyError(_Text(message))
        try:
            e = RuntimeError(message) if issubclass(self.kind, StopIteration) else self.kind(message)  # which would end the epoch unseen
        except Exception:
            e = RuntimeError(message)
        raise e from None


class _Text(str):
    def __repr__(self):
        return str(self)


class Fetcher:
    """Makes batches of a data set."""

    def __init__(self, setup, start):
        self.setup, self.ended, self.collating = setup, False, 0.0
        dataset = setup.dataset
        stateful = setup.iterable and hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")
        if stateful and start.state is not None:
            dataset.load_state_dict(start.state)
        self.iterator: Any = iter(dataset) if setup.iterable else None
        self.state = dataset.state_dict if stateful else lambda: None
        if setup.iterable and not (stateful and start.state is not None):
            for n in range(start.fetched):
                try:
                    self._take(range(setup.batch_size or 0))
                except StopIteration:
                    raise ValueError(f"the data set ends after {n} batches, but the pass to go on with had {start.fetched} of it: it is another data set, or "
                                     "gives another number of samples each time") from None

    def _take(self, indices):
        if self.ended:
            raise StopIteration
        if self.setup.batch_size is None:
            try:
                return next(self.iterator)
            except StopIteration:
                self.ended = True  # it is not asked again, as it might draw random numbers
                raise
        data = []
        for _ in indices:
            try:
                data.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.setup.drop_last and len(data) < len(indices)):
            raise StopIteration
        return data

    def _look_up(self, indices):
        dataset = self.setup.dataset
        if self.setup.batch_size is None:
            return dataset[indices]
        many = getattr(dataset, "__getitems__", None)
        return many(indices) if many else [dataset[i] for i in indices]

    def fetch(self, indices):
        data = self._take(indices) if self.setup.iterable else self._look_up(indices)
        begin = time.perf_counter()
        try:
            return self.setup.collate_fn(data)
        finally:
            self.collating = time.perf_counter() - begin


class Work:
    """A loader's work in a worker."""

    def __init__(self, k, link, setup, start, own_copy=False):
        self.k, self.link, self.setup, self.flavour = k, link, setup, importlib.import_module(setup.flavour)
        self.where = f"in DataLoader worker process {k}"
        self.failure = self.fetcher = None
        self.last_rng, self.sent = None, 0.0
        self.lent, self.unpacked = deque(), 0  # handles, a list for each batch; how many of these lists are done with
        try:
            if own_copy:
                setup.dataset = copy.deepcopy(setup.dataset)
            self.flavour.set_up_worker(k, setup)
            if setup.init_fn is not None:
                setup.init_fn(k)
            self.begin(start if isinstance(start, Start) else pickle.loads(start))
        except Exception as e:
            self.failure = Failure(e, self.where)

    def begin(self, start):
        self.fetcher = Fetcher(self.setup, start)
        if start.rng is not None:
            self.flavour.set_rng(start.rng)

    def epoch(self, start):
        try:
            self.begin(pickle.loads(start))
        except Exception as e:
            self.failure = Failure(e, self.where)

    def _rng(self):
        now = self.flavour.get_rng()
        if now == self.last_rng:
            return None
        self.last_rng = now
        return now

    def _batch(self, indices):
        """("data", bytes), ("end", None), ("unread", Failure) or ("failed", Failure)."""
        if self.failure:
            failure, self.failure = self.failure, None
            return "failed", failure
        if self.fetcher is None:
            return "failed", Failure(RuntimeError("the worker could not be set up; see its first failure"), self.where)
        try:
            indices = pickle.loads(indices)
        except Exception as e:
            return "unread", Failure(e, self.where)
        try:
            data = self.fetcher.fetch(indices)
        except StopIteration as e:
            return ("end", None) if self.setup.iterable else ("failed", Failure(e, self.where))
        except Exception as e:
            return "failed", Failure(e, self.where)
        try:
            return "data", self.flavour.dumps(data)
        except Exception as e:
            return "failed", Failure(e, f"when a batch was to be sent, {self.where}: it cannot be pickled, or memory is full")

    def answer(self, epoch, number, indices, unpacked, idle, others=0.0):
        """Make a batch and send it."""
        while self.unpacked < unpacked and self.lent:
            self.lent.popleft()
            self.unpacked += 1
        self.lent.append([])
        _loans.journal = self.lent[-1]
        begin = time.perf_counter()
        if self.fetcher:
            self.fetcher.collating = 0.0
        kind, body = self._batch(indices)
        end = time.perf_counter()
        collate = self.fetcher.collating if self.fetcher else 0.0
        if kind == "end":
            self.lent.pop()  # the loader does not count it
        meta = Meta(idle, end - begin - collate, collate, self.sent, others, self._rng())
        try:
            meta.state = self.fetcher.state() if self.fetcher else None
            self.link.send((kind, epoch, number, body, meta))
        except _link.Gone:
            raise
        except Exception as e:
            meta.state = None
            self.link.send(("failed", epoch, number, Failure(e, f"when the data set's state_dict() was to be sent with a batch, {self.where}"), meta))
        self.sent = time.perf_counter() - end

    def take_back(self):
        """The loader has ended: what it did not take is free at once, and not only some time after this process."""
        _loans.journal = None
        for handles in self.lent:
            _loans.take_back(handles)

    def serve(self):
        while True:
            waited = time.perf_counter()
            kind, *rest = self.link.receive()
            if kind == "epoch":
                self.epoch(*rest)
            else:
                rest.append(time.perf_counter() - waited)
                self.answer(*rest)


def run(k, sock, loader_pid, setup, start, crash):
    """A worker's whole life."""
    faulthandler.enable(crash)
    work = None
    try:
        work = Work(k, _link.WorkerSide(sock, loader_pid), setup, start)
        work.serve()
    except (KeyboardInterrupt, _link.Gone):  # the loader's process has been interrupted too, or has ended
        if work:
            work.take_back()
