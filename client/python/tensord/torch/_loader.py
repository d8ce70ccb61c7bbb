"""torch.utils.data.DataLoader, with tensord's workers: the same arguments, batches and order, and more."""

import contextlib
import inspect
import random
from multiprocessing import get_context
from typing import Any

import torch
import torch.utils.data
import torch.utils.data._utils.worker as stock_worker
from tensord import _C
from tensord.core import _overlapping
from tensord.core._generators import manual_seed
from tensord.data import _engine
from tensord.data._worker import Setup
from tensord.torch import _sharing

_STOCK = inspect.signature(torch.utils.data.DataLoader.__init__).parameters


class DataLoader(_engine.Stateful, torch.utils.data.DataLoader):
    """torch's DataLoader (see there), whose batches come through shared memory without a copy, and

    on_worker_death: "raise" says which worker died of what and where; "respawn" puts up another, which goes on behind the last batch of the one
    that died, so no sample is lost or comes twice.
    pool: a name; all loaders of the host with that name (the ranks of a training) share one set of workers, and each has the batches that it
    would have without.
    state_dict(), load_state_dict(): exact in the middle of an epoch. stats(): where the time went.
    """

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, pin_memory=False,
                 drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *, prefetch_factor=None,
                 persistent_workers=False, pin_memory_device="", in_order=True, on_worker_death="raise", pool=None):
        _engine.check(on_worker_death, pool, num_workers)
        more = {"prefetch_factor": prefetch_factor, "in_order": in_order}
        if prefetch_factor is None and num_workers == 0 or "in_order" not in _STOCK:
            more = {k: v for k, v in more.items() if k in _STOCK and v is not None and (k != "in_order")}
        if shuffle is None and _STOCK["shuffle"].default is False:
            shuffle = False
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
                         worker_init_fn, multiprocessing_context, generator, persistent_workers=persistent_workers,
                         pin_memory_device=pin_memory_device, **more)
        self.in_order, self.on_worker_death, self.pool = in_order, on_worker_death, pool

    def _plan(self):
        iterable = isinstance(self.dataset, torch.utils.data.IterableDataset)
        size = None
        if self._auto_collation:
            size = self.batch_size if self.batch_size is not None else 1
        return Setup(__name__, self.dataset, iterable, size, self.collate_fn, self.drop_last, self.worker_init_fn, self.num_workers, 0, "", {})

    def __iter__(self) -> Any:
        if isinstance(self.dataset, (torch.utils.data.IterDataPipe, torch.utils.data.MapDataPipe)):
            return super().__iter__()  # pipelines that torch shuffles and seeds in a way of its own
        if self.num_workers == 0 and self.timeout:
            raise ValueError("timeout needs num_workers > 0")
        return self._new_pass()


# ---- what the engine asks of a flavour ------------------------------------------------------------------------------


def context(given):
    return get_context(given) if given is None or isinstance(given, str) else given


def generator_state(generator):
    return generator.get_state() if generator is not None else torch.get_rng_state()


def draw_seed(generator):
    return torch.empty((), dtype=torch.int64).random_(generator=generator).item()


@contextlib.contextmanager
def generator_as_it_was(generator, state):
    """A loader's own generator goes on from there; everybody's is put back afterwards."""
    if generator is not None:
        generator.set_state(state)
        yield
        return
    now = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(now)


def set_up_worker(k, setup):
    from tensord.core import _pickling

    torch.set_num_threads(1)
    _pickling._connect(setup.path)
    _sharing.in_worker = True
    _sharing.install()
    seed = setup.base_seed + k
    random.seed(seed)
    torch.manual_seed(seed)
    manual_seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(stock_worker._generate_state(setup.base_seed, k))
        _sharing.ForkingPickler.register(numpy.ndarray, _overlapping.reduce)
    stock_worker._worker_info = stock_worker.WorkerInfo(id=k, num_workers=setup.num_workers, seed=seed, dataset=setup.dataset)


def worker_info():
    return stock_worker._worker_info


def set_worker_info(info):
    stock_worker._worker_info = info


def get_rng():
    state = [torch.get_rng_state().numpy().tobytes() if _NUMPY else bytes(torch.get_rng_state().tolist()), random.getstate(), _C._random_state()]
    if _NUMPY:
        drawn: Any = _NUMPY.random.get_state()
        name, keys, *rest = drawn
        state.append((name, keys.tobytes(), *rest))
    return state


def set_rng(state):
    torch.set_rng_state(torch.frombuffer(bytearray(state[0]), dtype=torch.uint8))
    random.setstate(state[1])
    if state[2]:
        _C._set_random_state(*state[2])
    if _NUMPY and len(state) > 3:
        name, keys, *rest = state[3]
        _NUMPY.random.set_state((name, _NUMPY.frombuffer(keys, dtype=_NUMPY.uint32), *rest))


try:
    import numpy as _NUMPY
except ImportError:
    _NUMPY = None


def dumps(data):
    return bytes(_sharing.ForkingPickler.dumps(data))


def loads(body, options):
    return _sharing.loads(body)


def finish(batch, options):
    return batch


def pin(batch):
    if not torch.cuda.is_available():
        return batch
    from torch.utils.data._utils.pin_memory import pin_memory

    return pin_memory(batch)
