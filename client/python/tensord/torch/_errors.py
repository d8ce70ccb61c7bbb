"""What tensord raises in programs of torch.distributed: of its own kinds, and of PyTorch's."""

import re

import torch.distributed as dist

from tensord import _C


class MemberLost(_C.MemberLost, getattr(dist, "DistBackendError", RuntimeError)):
    """A rank has gone before a call that needs it: `rank`, `pid`, `epoch` and `round` say which and when. A DistBackendError, too."""


class StoreTimeout(_C.Timeout, getattr(dist, "DistStoreError", RuntimeError)):
    """What was waited for in a store has not come in time. A DistStoreError, too."""


MemberLost.__module__ = StoreTimeout.__module__ = "tensord.torch"


_BEGIN_ANEW = "destroy_process_group() and init_process_group() begin anew"


def for_torch(e, group):
    """An error of a group as users of torch.distributed are to have it: they never said the group's name, and know no td.Group."""
    text = re.sub(r"\bgroup_open\(\)", f"{group.made_by}()", str(e))
    text = text.replace("receive(): ", "recv(): ", 1)
    text = re.sub(rf"group '{group.drawn}' cannot go on[^;]*", f"the process group cannot go on ({_BEGIN_ANEW})", text)
    text = text.replace(f"group '{group.drawn}'", "the process group")
    if isinstance(e, _C.AlreadyExists) and group.made_by == "init_process_group":
        text += "; another job that runs at the same time takes a MASTER_PORT or init_method of its own"
    error = (MemberLost if isinstance(e, _C.MemberLost) else type(e))(text + group.say_ranks(text))
    error.__dict__.update(e.__dict__)
    if error.__dict__.get("op") == "group_open":
        error.__dict__["op"] = group.made_by
    return error
