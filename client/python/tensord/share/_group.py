"""Groups: processes that make the same collectives in the same order.

What a rank gives is copied into memory that all ranks have mapped; they add it up themselves, each the part that it comes to first, and every
rank copies the result out. The daemon says who is in the group and who has died.
"""

import sys

from tensord import _C

_OPS = {"sum": 0, "mean": 1, "avg": 1, "min": 2, "max": 3, "prod": 4, "product": 4}


def _op(op):
    try:
        return _OPS[op]
    except (KeyError, TypeError):
        raise _C.InvalidError(f"op is one of 'sum', 'mean', 'min', 'max' and 'prod', not {op!r}") from None


class _OfTensord:
    """Tensors of tensord: read where they lie, written under a lease."""

    @staticmethod
    def plain(x):
        x = x.detach() if x.requires_grad else x
        return x if x.is_contiguous() else x.contiguous()

    @staticmethod
    def like(x, shape):
        import tensord
        return tensord.empty(shape, dtype=x.dtype)

    @staticmethod
    def dtype(x):
        return x.dtype

    @staticmethod
    def count(x):
        return x.numel()

    @staticmethod
    def read(x, use):
        return use(x.data_ptr() if x.numel() else 0)

    @staticmethod
    def write(x, use):
        if not x.numel():
            return use(0)
        import tensord
        with x.detach().view(-1).view(tensord.uint8).writing():  # also of dtypes that memoryview does not know
            return use(x.data_ptr())

    @staticmethod
    def copy(x, to):
        to.copy_(x)


class _OfNumpy:
    """NumPy's arrays."""

    @staticmethod
    def plain(x):
        import numpy
        return numpy.ascontiguousarray(x).reshape(x.shape)

    @staticmethod
    def like(x, shape):
        import numpy
        return numpy.empty(shape, x.dtype)

    @staticmethod
    def dtype(x):
        import tensord
        found = getattr(tensord, x.dtype.name, None) if x.dtype.isnative else None
        if not isinstance(found, tensord.dtype):
            raise _C.DTypeError(f"a group takes no arrays of {x.dtype}")
        return found

    @staticmethod
    def count(x):
        return x.size

    @staticmethod
    def read(x, use):
        return use(x.ctypes.data if x.size else 0)

    @staticmethod
    def write(x, use):
        if not x.flags.writeable:
            raise _C.PermissionDenied("the array is read-only")
        return use(x.ctypes.data if x.size else 0)

    @staticmethod
    def copy(x, to):
        to[...] = x


def _as_it_lies(x):
    """Are a tensor's numbers those in its memory? conj() leaves that to be negated by who reads it."""
    return not (x.is_conj() or x.is_neg())


class _OfTorch:
    """PyTorch's tensors, on the CPU."""

    @staticmethod
    def plain(x):
        if x.device.type != "cpu":
            raise _C.Unsupported(f"a group takes tensors on the CPU, not on {x.device}")
        x = x.detach()
        return (x if _as_it_lies(x) else x.resolve_conj().resolve_neg()).contiguous()

    @staticmethod
    def like(x, shape):
        return x.new_empty(shape)

    @staticmethod
    def dtype(x):
        import tensord
        found = getattr(tensord, str(x.dtype).partition(".")[2], None)
        if not isinstance(found, tensord.dtype):
            raise _C.DTypeError(f"a group takes no tensors of {x.dtype}")
        return found

    @staticmethod
    def count(x):
        return x.numel()

    @staticmethod
    def read(x, use):
        return use(x.data_ptr())

    write = read

    @staticmethod
    def copy(x, to):
        to.detach().copy_(x)


def kind_of(x):
    """How the memory of this is had."""
    if isinstance(x, _C.Tensor):
        return _OfTensord
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy and isinstance(x, numpy.ndarray):
        return _OfNumpy
    if torch and isinstance(x, torch.Tensor):
        return _OfTorch
    return None


def _given(x):
    import tensord
    kind = kind_of(x)
    if kind is None:
        x, kind = tensord.tensor(x), _OfTensord
    return kind, kind.plain(x)


def lies_plainly(out):
    kind = kind_of(out)
    if kind is _OfNumpy:
        return out.flags.c_contiguous
    return out.is_contiguous() and (kind is not _OfTorch or _as_it_lies(out))


class Group:
    """A seat in the group of this name: `size` processes that make the same collectives in the same order.

    Waits until all have come (timeout in seconds; None: for ever), in the daemon that this process uses, or the one that listens at `socket`.
    rank: a number from 0 to size - 1; None: the lowest that is free. A timeout is tensord.Timeout and says who came and who did not; a rank
    that is taken is tensord.AlreadyExists and says by whom. The group's timeout is that of each call, too.

    Calls take tensors of tensord, arrays of NumPy and CPU tensors of PyTorch, and return such; numbers and lists become tensors of tensord.
    All ranks give the same shape and dtype. Results are the same in all ranks, to the bit, and in each run: sums are taken in the order of
    ranks. Each call returns when what was given may be overwritten.

        g = td.Group("train", size=4)
        mean = g.all_reduce(gradient, op="mean")

    When a rank has gone before it came to a call, that call and all later ones raise tensord.MemberLost in the others, at once: its `rank`,
    `pid`, `epoch` and `round` say which and when. Ranks whose calls differ get tensord.Mismatch with both. A rank that does not come in time is
    tensord.Timeout in all of them; one that uses a processor meanwhile is waited for ten times as long, and a line on stderr names it. After any
    of these the group is over (tensord.EpochOver): leave it, and open another. Of a process that is forked the group is not.
    """

    def __init__(self, name, size, *, rank=None, timeout=300.0, socket=None):
        if not isinstance(name, str):
            raise _C.DTypeError(f"the name of a Group is a text, not {_C._a_type(name)}")
        self._raw = _C._RawGroup(socket, name, size, -1 if rank is None else rank, timeout)
        self.name = name
        self.rank, self.size, self.epoch, self._socket = self._raw.facts()

    def __repr__(self):
        return f"Group({self.name!r}, rank {self.rank} of {self.size}, epoch {self.epoch})"

    def _into(self, out, like, shape, fill):
        """The result: a new one, or `out`, which may lie as it likes."""
        kind = kind_of(like)
        if out is None:
            out = kind.like(like, shape)
        elif kind_of(out) is not kind or tuple(out.shape) != tuple(shape) or kind.dtype(out) != kind.dtype(like):
            raise _C.ShapeError(f"out is to be of the shape {tuple(shape)}, and of the dtype and library of what is given")
        if lies_plainly(out):
            kind.write(out, fill)
        else:
            made = kind.like(like, shape)
            kind.write(made, fill)
            kind.copy(made, out)
        return out

    def all_reduce(self, x, op="sum", *, out=None, timeout=None):
        """The sum, mean, min, max or prod of what all ranks give. out=x: in place.

        Integers wrap, of bools a sum is "or"; float16 and bfloat16 are summed in float32 and rounded once. A mean is of floating and complex
        numbers, min and max of all but complex ones.
        """
        number = _op(op)
        kind, given = _given(x)
        dtype, count = kind.dtype(given), kind.count(given)
        return self._into(out, given, given.shape, lambda to: kind.read(given, lambda at: self._raw.all_reduce(at, to, dtype, count, number, timeout)))

    def broadcast(self, x, root=0, *, out=None, timeout=None):
        """What the rank `root` gives, in all ranks. out=x: in place."""
        kind, given = _given(x)
        dtype, count = kind.dtype(given), kind.count(given)

        def fill(to):
            if to and self.rank == root:
                import ctypes
                kind.read(given, lambda at: at == to or ctypes.memmove(to, at, count * dtype.itemsize))
            self._raw.broadcast(to, dtype, count, root, timeout)

        return self._into(out, given, given.shape, fill)

    def all_gather(self, x, *, out=None, timeout=None):
        """What all ranks give, one after the other along a new first dimension."""
        kind, given = _given(x)
        dtype, count = kind.dtype(given), kind.count(given)
        shape = (self.size, *given.shape)
        return self._into(out, given, shape, lambda to: kind.read(given, lambda at: self._raw.all_gather(at, to, dtype, count, timeout)))

    def barrier(self, *, timeout=None):
        """Returns when all ranks have come to it."""
        self._raw.barrier(timeout)

    def leave(self):
        """Gives the seat up. Calls of other ranks that this one has not come to raise tensord.MemberLost."""
        self._raw.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.leave()

    def __reduce__(self):
        raise _C.DTypeError("a Group is of one process: give others its name, and let them open it")
