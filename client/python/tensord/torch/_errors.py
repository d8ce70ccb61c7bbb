"""What tensord raises in programs of torch.distributed: of its own kinds, and of PyTorch's."""

import torch.distributed as dist

from tensord import _C


class MemberLost(_C.MemberLost, getattr(dist, "DistBackendError", RuntimeError)):
    """A rank has gone before a call that needs it: `rank`, `pid`, `epoch` and `round` say which and when. A DistBackendError, too."""


class StoreTimeout(_C.Timeout, getattr(dist, "DistStoreError", RuntimeError)):
    """What was waited for in a store has not come in time. A DistStoreError, too."""


MemberLost.__module__ = StoreTimeout.__module__ = "tensord.torch"
