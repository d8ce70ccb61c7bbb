"""The collectives of a process group, and what goes from rank to rank, by the names and arguments that PyTorch calls them by.

Each is complete when it returns. Tensors may lie as they like: what has gaps, or is seen through conj(), is copied to where it has none and back.
Invariant: what is refused is refused before the group's call is made, from what this rank alone can see; what other ranks must see, too, is compared there.
"""

import functools
import os
import sys

import torch
import torch.distributed as dist

from tensord import _C
from tensord.share._group import kind_of, lies_plainly
from tensord.torch._errors import for_torch
from tensord.torch._works import Done, Received, Sent

_OPS = [(getattr(dist.ReduceOp, name), number) for name, number in (("SUM", 0), ("AVG", 1), ("MIN", 2), ("MAX", 3), ("PRODUCT", 4))
        if hasattr(dist.ReduceOp, name)]
_BITS = [(getattr(dist.ReduceOp, name), by) for name, by in (("BAND", torch.bitwise_and), ("BOR", torch.bitwise_or), ("BXOR", torch.bitwise_xor))
         if hasattr(dist.ReduceOp, name)]


def _seconds(opts):
    """The deadline that a call names; None: the group's."""
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if timeout is not None else -1
    return seconds if seconds > 0 else None


def _known(op, table):
    return next((by for known, by in table if op == known), None)


def _name(op):
    names = ("SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
    return next((name for name in names if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name)), str(op))


def _reduction(opts, of):
    """The number of a sum, mean, ...; or a function of two tensors, by which a rank puts together what all give. of: tensors."""
    op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
    number = _known(op, _OPS)
    by = _known(op, _BITS) if number is None else None
    if number is None and by is None:
        raise _C.Unsupported(f"tensord's process group has no reduction by {_name(op)}; there are SUM, AVG, MIN, MAX, PRODUCT, BAND, BOR and BXOR")
    for t in of if by is not None else ():
        if t.is_floating_point() or t.is_complex():
            raise _C.DTypeError(f"{_name(op)} is of integers and bools, not of {t.dtype}")
    return number if by is None else by


# ---- where a call was made

_BETWEEN = tuple(os.path.dirname(os.path.dirname(os.path.abspath(f))) + os.sep for f in (dist.__file__, __file__))
_SITES_MOST = 4096
_sites: "dict[tuple[object, int], bytes]" = {}  # texts that the library keeps by their address


def call_site():
    """The innermost line that is neither PyTorch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    if frame is None:
        return None
    at = (frame.f_code, frame.f_lineno)
    if at not in _sites and len(_sites) < _SITES_MOST:
        _sites[at] = f"{at[0].co_filename}:{at[1]}".encode(errors="replace")[-88:]
    return _sites.get(at)


# ---- tensors' memory


def plain(t):
    """A tensor's elements one after the other: itself, or a copy."""
    if t.device.type != "cpu" or t.layout != torch.strided:
        raise _C.Unsupported(f"tensord's process group takes dense tensors on the CPU, not one on {t.device} ({t.layout})")
    return kind_of(t).plain(t)


def moved(t):
    """A tensor without gaps as it is moved: of a dtype that tensord does not know the bytes."""
    try:
        return t, kind_of(t).dtype(t), t.numel()
    except _C.DTypeError:
        return t, _C.uint8, t.numel() * t.element_size()


def into(out, fill):
    """Fills a tensor that may lie as it likes: fill(t) of one without gaps."""
    t = plain(out)
    fill(t)
    if not lies_plainly(out):
        out.detach().copy_(t)


def _flat(tensors):
    """One after the other, in one."""
    parts = [plain(t).view(-1) for t in tensors]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _apart(flat, tensors):
    """The other way round."""
    at = 0
    for t in tensors:
        t.detach().copy_(flat[at : at + t.numel()].view(t.shape))
        at += t.numel()


def _check_like(tensors, given, what):
    for t in tensors:
        if t.numel() != given.numel() or t.dtype != given.dtype:
            raise _C.ShapeError(f"{what} of a tensor of {tuple(given.shape)} ({given.dtype}) and one of {tuple(t.shape)} ({t.dtype}): all are to be alike")


def _one(tensors, what):
    if len(tensors) != 1:
        raise _C.InvalidError(f"{what} of {len(tensors)} tensors; a rank has one")
    return tensors[0]


class Collectives:
    """Of a process group, which has _group, _mail, _rank, _size and _timeout, and _keep(work)."""

    def _done(self, results):
        return self._keep(Done(results))

    def _run(self, call, *args):
        try:
            call(*args, call_site())
        except _C.Error as e:
            raise for_torch(e, self) from None

    def _check_lists(self, lists, what):
        tensors = _one(lists, what)
        if len(tensors) != self._size:
            raise _C.InvalidError(f"{what} of {len(tensors)} tensors, in a group of {self._size} ranks: it takes one for each")
        return tensors

    # ---- reductions

    def _all_reduced(self, t, op, seconds):
        raw = self._group._raw
        if callable(op):
            return t.copy_(functools.reduce(op, self._gathered(t, seconds)))
        self._run(raw.all_reduce, t.data_ptr(), t.data_ptr(), kind_of(t).dtype(t), t.numel(), op, seconds)

    def allreduce(self, tensors, opts=None):
        op, seconds = _reduction(opts, tensors), _seconds(opts)
        for t in tensors:
            into(t, lambda p: self._all_reduced(p, op, seconds))
        return self._done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors, opts):
        op, seconds, root = _reduction(opts, tensors), _seconds(opts), opts.rootRank
        for t in tensors:
            p = plain(t)
            if callable(op):
                of_all = self._gathered(p, seconds)
                if root == self._rank:
                    p.copy_(functools.reduce(op, of_all))
            else:
                self._run(self._group._raw.reduce, p.data_ptr(), p.data_ptr(), kind_of(p).dtype(p), p.numel(), op, root, seconds)
            if root == self._rank and not lies_plainly(t):
                t.detach().copy_(p)
        return self._done(tensors)

    def _reduce_scattered(self, given, t, op, seconds):
        if callable(op):
            rows = torch.empty_like(given).view(self._size, -1)
            self._run(self._group._raw.all_to_all, given.data_ptr(), rows.data_ptr(), kind_of(given).dtype(given), t.numel(), seconds)
            return t.copy_(functools.reduce(op, rows).view(t.shape))
        self._run(self._group._raw.reduce_scatter, given.data_ptr(), t.data_ptr(), kind_of(given).dtype(given), t.numel(), op, seconds)

    def reduce_scatter(self, outputs, inputs, opts=None):
        op, seconds = _reduction(opts, outputs), _seconds(opts)
        out, given = _one(outputs, "reduce_scatter"), self._check_lists(inputs, "reduce_scatter")
        _check_like(given, out, "reduce_scatter")
        flat = _flat(given)
        into(out, lambda t: self._reduce_scattered(flat, t, op, seconds))
        return self._done(outputs)

    def _reduce_scatter_base(self, output, given, opts=None):
        if given.numel() != output.numel() * self._size or output.dtype != given.dtype:
            raise _C.ShapeError(f"reduce_scatter of one tensor of {tuple(given.shape)} ({given.dtype}) into {self._size} of {tuple(output.shape)} ({output.dtype})")
        op, seconds, p = _reduction(opts, [output]), _seconds(opts), plain(given)
        into(output, lambda t: self._reduce_scattered(p, t, op, seconds))
        return self._done([output])

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        for output, given in zip(outputs, inputs):
            self._reduce_scatter_base(output, given, opts)
        return self._done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # ---- from one rank

    def broadcast(self, tensors, opts):
        seconds, root = _seconds(opts), opts.rootRank

        def fill(t):
            t, dtype, count = moved(t)
            self._run(self._group._raw.broadcast, t.data_ptr(), dtype, count, root, seconds)

        for t in tensors:
            into(t, fill)
        return self._done(tensors)

    def scatter(self, outputs, inputs, opts):
        out, seconds, root, given = _one(outputs, "scatter"), _seconds(opts), opts.rootRank, None
        if root == self._rank:
            tensors = self._check_lists(inputs, "scatter")
            _check_like(tensors, out, "scatter")
            given = _flat(tensors)

        def fill(t):
            t, dtype, count = moved(t)
            self._run(self._group._raw.scatter, 0 if given is None else given.data_ptr(), t.data_ptr(), dtype, count, root, seconds)

        into(out, fill)
        return self._done(outputs)

    # ---- from all

    def _gathered(self, given, seconds):
        """What all give, in a row each."""
        p, dtype, count = moved(plain(given))
        rows = torch.empty((self._size, *p.shape), dtype=p.dtype)
        self._run(self._group._raw.all_gather, p.data_ptr(), rows.data_ptr(), dtype, count, seconds)
        return rows

    def allgather(self, outputs, inputs, opts=None):
        for lists, given in zip(outputs, inputs):
            self._check_lists([lists], "all_gather")
            _check_like(lists, given, "all_gather")
            for t, row in zip(lists, self._gathered(given, _seconds(opts))):
                t.detach().copy_(row.reshape(t.shape))
        return self._done(outputs)

    def allgather_coalesced(self, lists, inputs, opts=None):
        if len(lists) != self._size or any(len(each) != len(inputs) for each in lists):
            raise _C.InvalidError(f"all_gather of {len(inputs)} tensors each of {self._size} ranks takes a list for each rank, with as many")
        for k, given in enumerate(inputs):
            self.allgather([[each[k] for each in lists]], [given], opts)
        return self._done(lists)

    def _allgather_base(self, output, given, opts=None):
        if output.numel() != given.numel() * self._size or output.dtype != given.dtype:
            raise _C.ShapeError(f"all_gather of {self._size} tensors of {tuple(given.shape)} ({given.dtype}) into one of {tuple(output.shape)} "
                                f"({output.dtype})")
        p, dtype, count = moved(plain(given))
        into(output, lambda t: self._run(self._group._raw.all_gather, p.data_ptr(), t.data_ptr(), dtype, count, _seconds(opts)))
        return self._done([output])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        for output, given in zip(outputs, inputs):
            self._allgather_base(output, given, opts)
        return self._done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs, inputs, opts):
        given, seconds, root = _one(inputs, "gather"), _seconds(opts), opts.rootRank
        p, dtype, count = moved(plain(given))
        if root != self._rank:
            self._run(self._group._raw.gather, p.data_ptr(), 0, dtype, count, root, seconds)
            return self._done(outputs)
        lists = self._check_lists(outputs, "gather")
        _check_like(lists, given, "gather")
        rows = torch.empty((self._size, *p.shape), dtype=p.dtype)
        self._run(self._group._raw.gather, p.data_ptr(), rows.data_ptr(), dtype, count, root, seconds)
        for t, row in zip(lists, rows):
            t.detach().copy_(row.reshape(t.shape))
        return self._done(outputs)

    # ---- from all to all

    def _to_all(self, given, gives, t, gets, seconds):
        """As many elements of `given` as `gives` says for each rank; as many of each as `gets` says, into t."""
        p, dtype, count = moved(given)
        bytes_each = count // p.numel() if p.numel() else 1
        self._run(self._group._raw.all_to_all_of, p.data_ptr(), [n * bytes_each for n in gives], t.data_ptr(), [n * bytes_each for n in gets], dtype, seconds)

    def alltoall(self, outputs, inputs, opts=None):
        self._check_lists([outputs], "all_to_all")
        self._check_lists([inputs], "all_to_all")
        for t in (*outputs, *inputs):
            if t.dtype != inputs[0].dtype:
                raise _C.ShapeError(f"all_to_all of tensors of {inputs[0].dtype} and {t.dtype}: all are to be alike")
        flat = torch.empty(sum(t.numel() for t in outputs), dtype=inputs[0].dtype)
        self._to_all(_flat(inputs), [t.numel() for t in inputs], flat, [t.numel() for t in outputs], _seconds(opts))
        _apart(flat, outputs)
        return self._done(outputs)

    def _splits(self, t, rows, what):
        """Elements for each rank, of rows for each."""
        length = t.shape[0] if t.dim() else 0
        if not rows:
            if length % self._size:
                raise _C.ShapeError(f"all_to_all of {length} {what} rows: without splits they are to be the same for each of {self._size} ranks")
            rows = [length // self._size] * self._size
        elif len(rows) != self._size or sum(rows) != length or min(rows) < 0:
            raise _C.ShapeError(f"all_to_all with {what} splits {list(rows)}, for {self._size} ranks and {length} rows")
        each = t.numel() // length if length else 0
        return [n * each for n in rows]

    def alltoall_base(self, output, given, output_rows=None, given_rows=None, opts=None):
        if output.dtype != given.dtype:
            raise _C.ShapeError(f"all_to_all of {given.dtype} into {output.dtype}")
        gives, gets, p = self._splits(given, given_rows, "input"), self._splits(output, output_rows, "output"), plain(given)
        if output.data_ptr() == p.data_ptr():
            p = p.clone()
        into(output, lambda t: self._to_all(p, gives, t, gets, _seconds(opts)))
        return self._done([output])

    all_to_all_single = alltoall_base

    def barrier(self, opts=None):
        self._run(self._group._raw.barrier, _seconds(opts))
        return self._done([])

    # ---- from rank to rank

    def _told(self, call, *args):
        try:
            return call(*args)
        except _C.Error as e:
            raise for_torch(e, self) from None

    def _patience(self, timeout):
        seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else -1
        return seconds if seconds > 0 else self._timeout

    def _check_peer(self, rank, what):
        if not 0 <= rank < self._size or rank == self._rank:
            raise _C.InvalidError(f"{what} rank {rank}, by rank {self._rank} of {self._size}")

    def send(self, tensors, to, tag=0):
        given = _one(tensors, "send")
        self._check_peer(to, "send to")
        letter = self._told(self._mail.post, to, tag, moved(plain(given)), call_site())
        return self._keep(Sent(self, letter, tensors))

    def sent(self, letter, timeout):
        self._told(self._mail.sent, letter, self._patience(timeout))

    def _receive(self, tensors, sender, tag):
        out = _one(tensors, "recv")
        t = plain(out)
        asked = self._mail.ask(sender, tag, moved(t), call_site())
        return self._keep(Received(self, asked, out, None if lies_plainly(out) else t, tensors))

    def recv(self, tensors, sender, tag=0):
        self._check_peer(sender, "recv from")
        return self._receive(tensors, sender, tag)

    def recv_anysource(self, tensors, tag=0):
        return self._receive(tensors, None, tag)

    def received(self, asked, timeout):
        self._told(self._mail.received, asked, self._patience(timeout))

    def has_come(self, asked):
        return self._mail.look(asked)

    # ---- several calls as one

    def _start_coalescing(self, device=None):
        pass

    def _end_coalescing(self, device=None):
        return self._done([])
