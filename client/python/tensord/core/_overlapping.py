"""Arrays of NumPy whose elements lie on top of each other, as those of broadcast_to() and sliding windows: they go as what is in memory, and how
they look at it. Written out, one number could be a gigabyte.
"""

import sys
from typing import Any


def span(a):
    """(The memory from the first element to the last as an array of one dimension, where in it `a` begins, steps in elements); None: `a` has no more
    elements than that, or they are Python's objects."""
    if not a.nbytes or a.dtype.hasobject or any(s % a.itemsize for s in a.strides):
        return None
    steps = [s // a.itemsize for s in a.strides]
    ends = [s * (n - 1) for s, n in zip(steps, a.shape)]
    low, high = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)
    if high - low + 1 >= a.size:
        return None
    lowest = a[tuple(slice(None, None, -1 if s < 0 else None) for s in steps)]
    return _tricks().as_strided(lowest, (high - low + 1,), (a.itemsize,)), -low, steps


def reduced(a):
    """As __reduce__() says it; None: `a` is no such array."""
    found = span(a)
    return found and (spread, (found[0], found[1], a.shape, found[2], a.flags.writeable))


def reduce(a):
    return reduced(a) or a.__reduce_ex__(4)


def spread(whole, begin, shape, steps, writeable):
    """The array again, over its memory."""
    return _tricks().as_strided(whole[begin:], shape, [s * whole.itemsize for s in steps], writeable=writeable)


def _tricks():
    np: Any = sys.modules.get("numpy")
    if np is None:
        import numpy as np
    return np.lib.stride_tricks
