"""Without torch: what the engine asks of a flavour, collation, and arrays on their way from a worker.

NumPy's arrays are stacked in shared memory, and go as handles; the loader's process sees the same bytes, as arrays or as tensors.
"""

import contextlib
import io
import pickle
import random
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensord import _C
from tensord.core import _overlapping, _pickling
from tensord.share import _loans
from tensord.core._generators import manual_seed

SMALL = 4096  # bytes; so little goes in the message itself, which is quicker than a handle
_DTYPES = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")
_info = None


@dataclass(frozen=True)
class WorkerInfo:
    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info():
    """In a worker of a loader: its id, num_workers, seed and dataset; elsewhere None."""
    return _info


def _numpy():
    import sys

    return sys.modules.get("numpy")


# ---- collation ------------------------------------------------------------------------------------------------------


def _new_array(np, shape, dtype):
    """An array in shared memory, and its tensor."""
    t = _C.empty(shape, dtype=getattr(_C, dtype.name), device="cpu")
    return np.asarray(t), t


def _stack(batch, out):
    from tensord.core._overloads import _numpy

    np = _numpy()
    arrays = [np.asarray(x) for x in batch]
    shape = (len(arrays), *arrays[0].shape)
    if any(a.shape != shape[1:] for a in arrays):
        raise ValueError("the arrays of a batch must have one shape, but there are " + ", ".join(sorted({str(a.shape) for a in arrays})) +
                         "; give a collate_fn that brings them to one")
    dtype = np.result_type(*{a.dtype for a in arrays})
    if dtype.name not in _DTYPES or not (_info or out == "tensord"):
        return np.stack(arrays)
    array, t = _new_array(np, shape, dtype)
    np.stack(arrays, out=array)
    return t if out == "tensord" else array


def collate(batch, out="numpy"):
    """A batch of samples as a sample of batches: arrays and numbers are stacked, dicts, lists and tuples gone into, texts left."""
    first = batch[0]
    kind = type(first)
    if _C.is_tensor(first):
        t = _C.stack(list(batch))
        return t if out == "tensord" else t.numpy()
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, (bool, int, float, complex)) or kind.__module__ == "numpy" or hasattr(first, "__array__"):
        return _stack(batch, out)
    if isinstance(first, dict):
        return {key: collate([d[key] for d in batch], out) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(x) != len(first) for x in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(c, out) for c in zip(*batch)]
        return kind(*columns) if hasattr(first, "_fields") else columns
    raise TypeError("default collate: a batch holds arrays, tensors, numbers, texts, dicts, lists or tuples, not "
                    f"{kind.__module__}.{kind.__qualname__}; give a collate_fn")


def leave(sample):
    """Without batches: as it is."""
    return sample


def finish(batch, options):
    """Arrays as tensors where these were asked for."""
    if options.get("out") != "tensord":
        return batch
    np = _numpy()
    if isinstance(batch, dict):
        return {k: finish(v, options) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [finish(x, options) for x in batch]
        return items if isinstance(batch, list) else type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)
    return _C.asarray(batch, device="cpu") if np and isinstance(batch, (np.ndarray, np.generic)) and batch.dtype.name in _DTYPES else batch


# ---- on the way -----------------------------------------------------------------------------------------------------


def _owner(a):
    """The tensor that is this very array's memory, or None."""
    base: Any = a
    while type(base) is type(a):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    whole = _C.is_tensor(base) and base.data_ptr() == a.ctypes.data and tuple(base.shape) == a.shape and a.flags.c_contiguous
    return base if whole and base.numpy().dtype == a.dtype else None


def rebuild_array(handle, path):
    return _loans.take(handle, path).numpy()


def _reduce_array(a):
    if a.nbytes > SMALL and (lies := _overlapping.reduced(a)):
        return lies
    if a.nbytes <= SMALL or a.dtype.name not in _DTYPES:
        return a.__reduce_ex__(4)
    t = _owner(a)
    if t is None:
        array, t = _new_array(_numpy(), a.shape, a.dtype)
        array[...] = a
    return rebuild_array, _loans.lend(t)


def _reduce_tensor(t):
    return _loans.take, _loans.lend(t)


class _Pickler(ForkingPickler):
    def __init__(self, file):
        super().__init__(file, 5)
        mine: dict[Any, Any] = {_C.Tensor: _reduce_tensor}
        if np := _numpy():
            mine[np.ndarray] = _reduce_array
        self.dispatch_table = {**self.dispatch_table, **mine}


def dumps(data):
    file = io.BytesIO()
    _Pickler(file).dump(data)
    return file.getvalue()


def loads(body, options):
    return finish(pickle.loads(body), options)


def pin(batch):
    return batch


# ---- processes and random numbers -----------------------------------------------------------------------------------


def context(given):
    return get_context(given) if given is None or isinstance(given, str) else given


def generator_state(generator):
    return (generator or random).getstate()


def draw_seed(generator):
    return (generator or random).getrandbits(62)


@contextlib.contextmanager
def generator_as_it_was(generator, state):
    """A loader's own generator goes on from there; everybody's is put back afterwards."""
    source = generator or random
    now = source.getstate()
    source.setstate(state)
    try:
        yield
    finally:
        if generator is None:
            source.setstate(now)


def set_up_worker(k, setup):
    global _info
    _pickling._connect(setup.path)
    seed = setup.base_seed + k
    random.seed(seed)
    manual_seed(seed)
    if np := _numpy():
        np.random.seed([setup.base_seed & 0xFFFFFFFF, setup.base_seed >> 32, k])
    _info = WorkerInfo(k, setup.num_workers, seed, setup.dataset)


def worker_info():
    return _info


def set_worker_info(info):
    global _info
    _info = info


def get_rng():
    state = [random.getstate(), _C._random_state()]
    if np := _numpy():
        name, keys, *rest = np.random.get_state()
        state.append((name, keys.tobytes(), *rest))
    return state


def set_rng(state):
    random.setstate(state[0])
    if state[1]:
        _C._set_random_state(*state[1])
    if len(state) > 2:
        import numpy as np

        name, keys, *rest = state[2]
        np.random.set_state((name, np.frombuffer(keys, dtype=np.uint32), *rest))
