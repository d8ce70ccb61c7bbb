"""A communication hook of DistributedDataParallel: what DDP reads is the sum where it lies for all ranks.

    model.register_comm_hook(group, tensord.torch.ddp_hook)     # None: the default group

Without it a bucket of gradients is divided, copied to where all see it, and the sum is copied back into the bucket, from where DDP copies it to
the gradients. With it a bucket is copied once, and DDP takes the gradients from the result itself. (With
gradient_as_bucket_view=True DDP copies the result into the bucket, so nothing is saved.)
"""

import torch
import torch.distributed as dist

from tensord import _C
from tensord.share._group import kind_of
from tensord.torch._collectives import call_site, plain
from tensord.torch._errors import for_torch
from tensord.torch._process_group import ProcessGroup

_MEAN = 1
_BUFFERS_MOST = 60  # of a group; a bucket beyond that is added up in its own memory


class Buckets:
    """The buffers of a process group, which buckets have in turn, of whichever models. A result is good until DDP has taken the gradients from it,
    at the end of a backward.

    Invariant: all ranks ask for the same sizes in the same order, so that each buffer is made by all.
    """

    def __init__(self, group):
        self._group = group
        self.made, self.free, self.taken = 0, [], []
        self.open = 0  # models whose backward has begun, and who have not taken their gradients

    def _buffer(self, nbytes):
        fits = [b for b in self.free if b.nbytes >= nbytes]
        if fits:
            buffer = min(fits, key=lambda b: b.nbytes)
            self.free.remove(buffer)
        elif self.made == _BUFFERS_MOST:
            return None
        else:
            buffer = self._group.buffer(nbytes)
            self.made += 1
        self.taken.append(buffer)
        return buffer

    def _later(self):
        """DDP takes the gradients in a callback, too, which it queues after its last hook: what is queued here comes after that one."""
        torch.autograd.Variable._execution_engine.queue_callback(self._over)

    def _over(self):
        self.open -= 1
        if not self.open:
            self.free, self.taken = self.free + self.taken, []

    def mean(self, bucket, t):
        """`t`: the bucket's gradients, without gaps."""
        if bucket.index() == 0:
            self.open += 1
        if bucket.is_last():
            torch.autograd.Variable._execution_engine.queue_callback(self._later)
        if not t.numel():
            return t
        buffer, dtype = self._buffer(t.numel() * t.element_size()), kind_of(t).dtype(t)
        if buffer is None:
            self._group._raw.all_reduce(t.data_ptr(), t.data_ptr(), dtype, t.numel(), _MEAN, None, call_site())
            return t
        torch.frombuffer(buffer.input, dtype=t.dtype, count=t.numel()).copy_(t)
        buffer._raw.all_reduce(0, dtype, t.numel(), _MEAN, None, call_site())
        return torch.frombuffer(buffer.result, dtype=t.dtype, count=t.numel())


def ddp_hook(group, bucket):
    """For DistributedDataParallel.register_comm_hook(group, ddp_hook): means of gradients, one copy less of each and no division. It saves nothing
    with gradient_as_bucket_view=True.

    group: a process group of tensord; None: the default one. An error comes out of backward().
    """
    group = dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(group, ProcessGroup):
        raise _C.Unsupported("ddp_hook is for a process group of tensord: init_process_group('tensord')")
    if group.buckets is None:
        group.buckets = Buckets(group._group)
    try:
        result = group.buckets.mean(bucket, plain(bucket.buffer()))
    except _C.Error as e:
        raise for_torch(e, group) from None
    future = torch.futures.Future()
    future.set_result(result)
    return future
