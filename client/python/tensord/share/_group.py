"""Groups: processes that make the same collectives in the same order.

What a rank gives is copied into memory that all ranks have mapped; they add it up themselves, each the part that it comes to first, and every
rank copies the result out. The daemon says who is in the group and who has died.
"""

import collections
import hashlib
import json
import sys

from tensord import _C

_NUMBERS = {"barrier": 1, "all_reduce": 2, "broadcast": 3, "all_gather": 4, "reduce": 5, "reduce_scatter": 6, "gather": 7, "scatter": 8, "all_to_all": 9}

Lost = collections.namedtuple("Lost", "rank pid program how")
Lost.__doc__ = """A member that is not in the epoch that followed: its rank in the one before; how: "left", "died" or "expelled"."""
_HOW = {2: "left", 3: "died", 4: "expelled"}
_ON_DEATH = {"fail": 0, "shrink": 1}


def _sizes(size):
    """(least, most) of a number, or of a pair of them."""
    if isinstance(size, tuple):
        least, most = size
        return least, most
    return size, size


def _policy(on_death):
    try:
        return _ON_DEATH[on_death]
    except (KeyError, TypeError):
        raise _C.InvalidError(f"on_death is one of {', '.join(map(repr, _ON_DEATH))}, not {on_death!r}") from None

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


def _leaves_of(roots):
    """The leaves that a backward from these comes to, in an order that is the graph's alone."""
    found, seen, waiting = {}, set(), []
    for root in roots:
        if root.grad_fn is not None:
            waiting.append(root.grad_fn)
        elif root.requires_grad:
            found[id(root)] = root
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name().endswith("AccumulateGrad"):
            found[id(node.variable)] = node.variable
        waiting += [to for to, _ in node.next_functions if to is not None]
    return list(found.values())


class _Given:
    """What a rank gives to a call: x, or nothing; and of which library, dtype and length results are."""

    def __init__(self, x):
        self.kind, self.x = _given(x)
        self.dtype, self.count, self.shape = self.kind.dtype(self.x), self.kind.count(self.x), tuple(self.x.shape)

    def read(self, use):
        return self.kind.read(self.x, use)

    def like(self, shape):
        return self.kind.like(self.x, shape)


class _Call:
    """A collective of what is given: `self(at, to)` makes it with memory at these addresses, begin() begins it."""

    def __init__(self, group, name, given, count, op=0, root=0, timeout=None):
        self._raw, self._name, self._given, self._count = group._raw, name, given, count
        self._op, self._root, self._timeout = op, root, timeout

    def __call__(self, at, to):
        numbers = {"all_reduce": (self._op,), "reduce_scatter": (self._op,), "reduce": (self._op, self._root), "gather": (self._root,),
                   "scatter": (self._root,)}.get(self._name, ())
        getattr(self._raw, self._name)(at, to, self._given.dtype, self._count, *numbers, self._timeout)

    def begin(self, at, to):
        return self._raw.begin(_NUMBERS[self._name], at, to, self._given and self._given.dtype, self._count, self._op, self._root)


class _Broadcast(_Call):
    """Its bytes lie where the result is to be."""

    def __init__(self, group, given, root, timeout):
        super().__init__(group, "broadcast", given, given.count, root=root, timeout=timeout)
        self._mine = group.rank == root

    def _lay(self, at, to):
        if self._mine and to and at != to:
            import ctypes
            ctypes.memmove(to, at, self._count * self._given.dtype.itemsize)

    def __call__(self, at, to):
        self._lay(at, to)
        self._raw.broadcast(to, self._given.dtype, self._count, self._root, self._timeout)

    def begin(self, at, to):
        self._lay(at, to)
        return super().begin(to, to)


class Pending:
    """A call of a group that was begun with wait=False, and goes on while this rank does something else.

    No thread works on it: it goes on in done(), in wait(), in `await` and in each later call of the group, in all ranks. What was given to it,
    and `out`, stay as they are until it is done.
    """

    def __init__(self, group, call, given, shape, out):
        self._given, self._shape, self._out = given, shape, out
        self._result, self._taken, self._to = None, shape is None, None
        to = 0 if shape is None else self._room()
        self._raw = call.begin(given.read(lambda at: at) if given else 0, to)
        group._begun = [p for p in group._begun if not p.done()] + [self]

    def _room(self):
        """Where the result goes: into its own memory, or, where that is written under a lease, elsewhere until it is complete."""
        given = self._given
        if given.kind is not _OfTensord and self._out is not None and lies_plainly(self._out):
            self._result = self._out
        elif given.kind is not _OfTensord:
            self._result = given.like(self._shape)
        else:
            import ctypes
            import math
            self._to = ctypes.create_string_buffer(max(1, math.prod(self._shape) * given.dtype.itemsize))
            return ctypes.addressof(self._to)
        return given.kind.write(self._result, lambda to: to)

    def _take(self):
        if not self._taken:
            given, out = self._given, self._out
            if self._to is not None:
                import ctypes
                self._result = given.like(self._shape)
                given.kind.write(self._result, lambda to: to and ctypes.memmove(to, self._to, len(self._to)))
            if out is not None and self._result is not out:
                given.kind.copy(self._result, out)
                self._result = out
            self._taken, self._to, self._given = True, None, None
        return self._result

    def done(self):
        """Is it done, or has it failed? Never waits."""
        return self._raw.done()

    def wait(self, timeout=None):
        """The result. For up to `timeout` seconds from now on; None: the group's. Raises what the call would raise."""
        self._raw.wait(timeout)
        return self._take()

    def __await__(self):
        import asyncio
        return asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()

    def __repr__(self):
        return f"<call of a group, {'done' if self.done() else 'not done'}>"


class Buffer:
    """Memory that all ranks of a group have mapped: Group.buffer(). Sums of what lies there copy nothing.

    `input` is this rank's, and `result` that of all: bytes, for numpy.frombuffer(), torch.frombuffer() or memoryview(). A result is good until
    this rank's next all_reduce() of these bytes. Whatever was made of them keeps the memory, also when the group has ended.
    """

    def __init__(self, group, nbytes):
        import ctypes
        self._raw = group._raw.buffer(nbytes)
        self.nbytes = nbytes
        kind = type("Bytes", (ctypes.c_uint8 * nbytes,), {})
        self.input, self.result = (kind.from_address(at) for at in self._raw.facts())
        self.input.of = self.result.of = self._raw  # whatever looks at the bytes keeps them

    def all_reduce(self, dtype, op="sum", *, offset=0, count=None, timeout=None):
        """The sum, mean, min, max or prod of all ranks' `count` elements from byte `offset` on, in the result from there on; None: all behind it."""
        if count is None:
            count = (self.nbytes - offset) // dtype.itemsize
        self._raw.all_reduce(offset, dtype, count, _op(op), timeout)

    def __repr__(self):
        return f"<buffer of {self.nbytes} bytes for each rank of a group>"


class Group:
    """A seat in the group of this name: `size` processes that make the same collectives in the same order.

    Waits until all have come (timeout in seconds; None: for ever), in the daemon that this process uses, or the one that listens at `socket`.
    rank: a number from 0 to size - 1; None: the lowest that is free. A timeout is tensord.Timeout and says who came and who did not; a rank
    that is taken is tensord.AlreadyExists and says by whom. The group's timeout is that of each call, too.

    Calls take tensors of tensord, arrays of NumPy and CPU tensors of PyTorch, and return such; numbers and lists become tensors of tensord.
    All ranks give the same shape and dtype. Results are the same in all ranks, to the bit, and in each run: sums are taken in the order of
    ranks. Each call returns when what was given may be overwritten; one with wait=False returns at once, and gives a Pending.

        g = td.Group("train", size=4)
        mean = g.all_reduce(gradient, op="mean")

    When a rank has gone before it came to a call, that call and all later ones raise tensord.MemberLost in the others, at once: its `rank`,
    `pid`, `epoch` and `round` say which and when. Ranks whose calls differ get tensord.Mismatch with both. A rank that does not come in time is
    tensord.Timeout in all of them; one that uses a processor meanwhile is waited for ten times as long, and a line on stderr names it. After any
    of these its calls are tensord.EpochOver, until all members have called regroup(). Of a process that is forked the group is not.

    size=(2, 8): it begins when two have come, and has eight at most; ranks are given in the order in which they come. `door` is how many came
    later, and wait until the members regroup().

    on_death="shrink": a call that a dead rank had not come to is done without it, and so are the later ones. Sums and means are of those that
    were in it (`contributors`), and where the others' part of a result would be there are zeros. What a dead root would pass on (broadcast,
    scatter) raises tensord.MemberLost, and the group goes on.
    """

    def __init__(self, name, size, *, rank=None, timeout=300.0, on_death="fail", socket=None):
        if not isinstance(name, str):
            raise _C.DTypeError(f"the name of a Group is a text, not {_C._a_type(name)}")
        self._raw = _C._RawGroup(socket, name, *_sizes(size), -1 if rank is None else rank, _policy(on_death), timeout)
        self.name = name
        self.lost = []
        self._begun = []
        self._look()

    def _look(self):
        self.rank, self.size, self.epoch, _ = self._raw.facts()

    def __repr__(self):
        return f"Group({self.name!r}, rank {self.rank} of {self.size}, epoch {self.epoch})"

    def _make(self, call, given, shape, out, wait):
        """Runs a call, or begins it; the result has this shape, or (None) this rank gets none."""
        kind = given.kind
        if shape is not None and out is not None and (kind_of(out) is not kind or tuple(out.shape) != shape or kind.dtype(out) != given.dtype):
            raise _C.ShapeError(f"out is to be of the shape {shape}, and of the dtype and library of what is given")
        if not wait:
            return Pending(self, call, given, shape, out)
        if shape is None:
            return given.read(lambda at: call(at, 0))
        # Others may know a tensor of tensord: who needs it while it is under a lease would wait for the slowest rank.
        made = out if out is not None and kind is not _OfTensord and lies_plainly(out) else given.like(shape)
        kind.write(made, lambda to: given.read(lambda at: call(at, to)))
        if out is not None and made is not out:
            kind.copy(made, out)
        return made if out is None else out

    def _is_root(self, root):
        if not isinstance(root, int) or not 0 <= root < self.size:
            raise _C.InvalidError(f"group {self.name!r} of {self.size} has ranks 0 to {self.size - 1}; there is no rank {root!r}")
        return root == self.rank

    def _row(self, given):
        """The shape of x[rank], and how many elements that has."""
        if not given.shape or given.shape[0] != self.size:
            raise _C.ShapeError(f"x[r] is for rank r: x is to have {self.size} rows in this group, and is of the shape {given.shape}")
        return given.shape[1:], given.count // self.size

    def all_reduce(self, x, op="sum", *, out=None, timeout=None, wait=True):
        """The sum, mean, min, max or prod of what all ranks give. out=x: in place.

        Integers wrap, of bools a sum is "or"; float16 and bfloat16 are summed in float32 and rounded once. A mean is of floating and complex
        numbers, min and max of all but complex ones.
        """
        given = _Given(x)
        return self._make(_Call(self, "all_reduce", given, given.count, _op(op), timeout=timeout), given, given.shape, out, wait)

    def reduce(self, x, op="sum", root=0, *, out=None, timeout=None, wait=True):
        """all_reduce() for the rank `root` alone; the others get None."""
        given, mine = _Given(x), self._is_root(root)
        return self._make(_Call(self, "reduce", given, given.count, _op(op), root, timeout), given, given.shape if mine else None, out, wait)

    def reduce_scatter(self, x, op="sum", *, out=None, timeout=None, wait=True):
        """Of the sum of all x, which have a row for each rank, this rank's row."""
        given = _Given(x)
        shape, count = self._row(given)
        return self._make(_Call(self, "reduce_scatter", given, count, _op(op), timeout=timeout), given, shape, out, wait)

    def broadcast(self, x, root=0, *, out=None, timeout=None, wait=True):
        """What the rank `root` gives, in all ranks. out=x: in place."""
        given, _ = _Given(x), self._is_root(root)
        return self._make(_Broadcast(self, given, root, timeout), given, given.shape, out, wait)

    def scatter(self, x=None, root=0, *, out=None, timeout=None, wait=True):
        """Of the x that `root` gives, which has a row for each rank, this rank's row. The others give None; or `out`, whose library counts."""
        mine = self._is_root(root)
        given = _Given(x) if mine else None
        shape, dtype = self._told(root, (self._row(given)[0], given.dtype) if mine else None, timeout)
        if not mine:
            import tensord
            given = _Given(tensord.empty(shape, dtype=dtype) if out is None else out)
            if given.shape != shape or given.dtype != dtype:  # the others are not kept waiting for it
                import ctypes
                row = _Given(tensord.empty(shape, dtype=dtype))
                room = ctypes.create_string_buffer(max(1, row.count * dtype.itemsize))
                _Call(self, "scatter", row, row.count, root=root, timeout=timeout)(0, ctypes.addressof(room))
                raise _C.ShapeError(f"rank {root} scatters rows of the shape {shape} and of {dtype}, which do not fit into out")
        count = given.count // self.size if mine else given.count
        return self._make(_Call(self, "scatter", given, count, root=root, timeout=timeout), given, shape, out, wait)

    def _told(self, root, what, timeout):
        """A shape and a dtype, which `root` knows, in all ranks."""
        import ctypes
        import tensord
        note = ctypes.create_string_buffer(256)
        if what is not None:
            shape, dtype = what
            said = json.dumps([shape, str(dtype).rpartition(".")[2]]).encode()
            if len(said) > len(note):
                raise _C.ShapeError(f"a shape of {len(shape)} dimensions is more than scatter() takes")
            note.raw = said.ljust(len(note))
        self._raw.broadcast(ctypes.addressof(note), tensord.uint8, len(note), root, timeout)
        shape, name = json.loads(note.raw)
        return tuple(shape), getattr(tensord, name)

    def gather(self, x, root=0, *, out=None, timeout=None, wait=True):
        """all_gather() for the rank `root` alone; the others get None."""
        given, mine = _Given(x), self._is_root(root)
        shape = (self.size, *given.shape) if mine else None
        return self._make(_Call(self, "gather", given, given.count, root=root, timeout=timeout), given, shape, out, wait)

    def all_gather(self, x, *, out=None, timeout=None, wait=True):
        """What all ranks give, one after the other along a new first dimension."""
        given = _Given(x)
        return self._make(_Call(self, "all_gather", given, given.count, timeout=timeout), given, (self.size, *given.shape), out, wait)

    def all_to_all(self, x, *, out=None, timeout=None, wait=True):
        """x has a row for each rank. Row s of the result is what rank s gave for this one. out=x: in place."""
        given = _Given(x)
        _, count = self._row(given)
        return self._make(_Call(self, "all_to_all", given, count, timeout=timeout), given, given.shape, out, wait)

    def _leaves(self, roots, inputs):
        """Of a backward: those that it adds to."""
        if inputs is None:
            return _leaves_of(roots)
        return list(inputs) if not isinstance(inputs, _C.Tensor) else [inputs]

    def _average_gradients(self, leaves):
        """After a backward in each rank: every .grad becomes the mean of all ranks'. One that some ranks have none of counts as zeros there."""
        import ctypes
        import tensord
        with tensord.no_grad():
            grads = [leaf.grad for leaf in leaves]
            alike = hashlib.blake2b(repr([(leaf.dtype, tuple(leaf.shape)) for leaf in leaves]).encode(), digest_size=8).digest()
            alike += bytes(255 - b for b in alike)  # the largest of all ranks' is this one's only if all have it
            has = (ctypes.c_uint8 * (len(leaves) + len(alike)))(*(grad is not None for grad in grads), *alike)
            self._raw.all_reduce(ctypes.addressof(has), ctypes.addressof(has), tensord.uint8, len(has), _OPS["max"], None)
            if bytes(has[len(leaves):]) != alike:
                raise _C.Mismatch("backward() of a group: the graphs of its ranks come to leaves of different shapes, or in another order; name them by "
                                  "backward(group=g, inputs=[...])")
            kinds = {}
            for leaf, grad, any_has in zip(leaves, grads, has):
                if any_has:
                    kinds.setdefault(leaf.dtype, []).append((leaf, tensord.zeros_like(leaf) if grad is None else grad))
            for pairs in kinds.values():
                flat = self.all_reduce(tensord.cat([grad.reshape(-1) for _, grad in pairs]), "mean")
                for (leaf, grad), mean in zip(pairs, flat.split([grad.numel() for _, grad in pairs])):
                    leaf.grad = mean.view(grad.shape)

    def send(self, x, to, *, tag=0, timeout=None):
        """Sends x to the rank `to`, beside all collectives: messages of one tag from one rank to another have an order.

        x is copied on its way out. Eight of one tag may be on their way from rank to rank; then this waits until one is taken.
        """
        self._is_root(to)
        given = _Given(x)
        given.read(lambda at: self._raw.send(at, given.dtype, given.shape, to, tag, timeout))

    def recv(self, source, *, tag=0, out=None, timeout=None):
        """The next message of the rank `source`: a tensor of tensord, or `out`, which is to be of its shape and dtype.

        When that rank has gone, what it sent before can still be received; then tensord.MemberLost. That breaks no collective.
        """
        self._is_root(source)
        return self._received(source, tag, out, timeout)[0]

    def recv_any(self, *, tag=0, out=None, timeout=None):
        """The next message of any rank, and the number of that rank."""
        return self._received(None, tag, out, timeout)

    def _received(self, source, tag, out, timeout):
        import ctypes
        import tensord
        message = self._raw.receive(source, tag, timeout)
        source, dtype, shape, at = message.facts()
        kind = _OfTensord if out is None else kind_of(out)
        if out is not None and (kind is None or tuple(out.shape) != shape or kind.dtype(out) != dtype):
            raise _C.ShapeError(f"rank {source} sent a message of the shape {shape} and of {dtype}, which does not fit into out")
        fits = out is not None and lies_plainly(out)
        made = out if fits else tensord.empty(shape, dtype=dtype) if out is None else kind.like(kind.plain(out), shape)
        kind.write(made, lambda to: to and ctypes.memmove(to, at, kind.count(made) * dtype.itemsize))
        if out is not None and not fits:
            kind.copy(made, out)
        return (made if out is None else out), source

    def buffer(self, nbytes):
        """Memory of `nbytes` bytes for each rank, which all have mapped: a Buffer. All ranks make it, with the same size. It serves for one epoch."""
        return Buffer(self, nbytes)

    def barrier(self, *, timeout=None, wait=True):
        """Returns when all ranks have come to it."""
        return self._raw.barrier(timeout) if wait else Pending(self, _Call(self, "barrier", None, 0), None, None, None)

    def regroup(self, timeout=None):
        """Begins the group's next epoch: after a failure, or to let those in that wait at the door.

        All living members call it. They keep their order, and in a group of one size their ranks; then come those from the door. `rank`, `size`
        and `epoch` are new afterwards, and `lost` has (rank, pid, program, how) of the members that are not in it any more.

        Members that have not called it after `timeout` seconds (None: the group's) are expelled, if there are enough without them; their calls
        raise tensord.EpochOver from then on. If there are not, tensord.Timeout says who came and who did not, and it may be called again.
        """
        self._raw.regroup(timeout)
        self._look()
        self.lost = [Lost(rank, pid, program, _HOW[how]) for rank, pid, program, how in self._raw.lost()]

    @property
    def contributors(self):
        """The ranks that were in the call that was done last; with on_death="shrink" those that had come to it."""
        return self._raw.contributors()

    @property
    def door(self):
        """How many wait to come in, until the members regroup(). Costs no message."""
        return self._raw.door()

    def leave(self):
        """Gives the seat up. Calls of other ranks that this one has not come to raise tensord.MemberLost."""
        self._raw.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.leave()

    def __reduce__(self):
        raise _C.DTypeError("a Group is of one process: give others its name, and let them open it")
