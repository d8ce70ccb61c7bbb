"""A communication hook of DistributedDataParallel: what DDP reads is the sum where it lies for all ranks.

    model.register_comm_hook(group, tensord.torch.ddp_hook)     # None: the default group

Without it a bucket of gradients is divided, copied to where all see it, and the sum is copied back into the bucket, from where DDP copies it to
the gradients. With it a bucket is copied once, and DDP takes the gradients from the result itself. Invariant: DDP has read a result before it
calls for the next one of the bucket, and writes none.
"""

import torch
import torch.distributed as dist

from tensord import _C
from tensord.share._group import kind_of
from tensord.torch._collectives import call_site, plain
from tensord.torch._errors import for_torch
from tensord.torch._process_group import ProcessGroup

_MEAN = 1


def _buffer(group, bucket, t):
    """The group's memory for a bucket, as tensors: what this rank gives, and the result. DDP makes its buckets anew after the first step."""
    key, wanted = bucket.index(), (t.dtype, t.numel())
    kept = group.buckets.get(key)
    if kept is None or kept[0] != wanted:
        group.buckets.pop(key, None)
        made = group._group.buffer(max(1, t.numel() * t.element_size()))
        kept = group.buckets[key] = (wanted, made, torch.frombuffer(made.input, dtype=t.dtype, count=t.numel()) if t.numel() else t,
                                     torch.frombuffer(made.result, dtype=t.dtype, count=t.numel()) if t.numel() else t)
    return kept[1:]


def ddp_hook(group, bucket):
    """For DistributedDataParallel.register_comm_hook(group, ddp_hook): means of gradients, one copy less of each and no division.

    group: a process group of tensord; None: the default one. An error comes out of backward().
    """
    group = dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(group, ProcessGroup):
        raise _C.Unsupported("ddp_hook is for a process group of tensord: init_process_group('tensord')")
    t = plain(bucket.buffer())
    try:
        made, mine, result = _buffer(group, bucket, t)
        if t.numel():
            mine.copy_(t)
            made._raw.all_reduce(0, kind_of(t).dtype(t), t.numel(), _MEAN, None, call_site())
    except _C.Error as e:
        raise for_torch(e, group) from None
    future = torch.futures.Future()
    future.set_result(result)
    return future
