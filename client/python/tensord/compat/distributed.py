"""What programs ask of torch.distributed before they use it: there are no process groups here. Processes of one machine share a model by module.share_memory(),
and tensors by their names and by tensord.Queue."""

import typing as _typing

from tensord import _C
from tensord.core import _absent

__all__ = ["is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched"]


def is_available() -> bool:
    """False."""
    return False


is_gloo_available = is_initialized = is_mpi_available = is_nccl_available = is_torchelastic_launched = is_available


class ProcessGroup:
    """What functions of torch.distributed take as group, for annotations and isinstance(): nothing is one."""


class ReduceOp:
    """How values of several processes become one, as arguments name it."""

    SUM, PRODUCT, MIN, MAX, AVG, BAND, BOR, BXOR = "SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR"


class group:
    """The group of all processes: there is none."""

    WORLD = None


def _refusing(name: str) -> "_typing.Any":
    def refuse(*args: "_typing.Any", **kwargs: "_typing.Any") -> "_typing.NoReturn":
        raise _C.Unsupported(f"distributed.{name}(): there are no process groups here, as is_available() says; " + _absent._SHARE)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


# Programs import these before they ask is_initialized(): only a call is refused.
all_gather = _refusing("all_gather")
all_gather_into_tensor = _refusing("all_gather_into_tensor")
all_gather_object = _refusing("all_gather_object")
all_reduce = _refusing("all_reduce")
all_to_all = _refusing("all_to_all")
barrier = _refusing("barrier")
broadcast = _refusing("broadcast")
broadcast_object_list = _refusing("broadcast_object_list")
destroy_process_group = _refusing("destroy_process_group")
gather = _refusing("gather")
get_backend = _refusing("get_backend")
get_rank = _refusing("get_rank")
get_world_size = _refusing("get_world_size")
init_process_group = _refusing("init_process_group")
irecv = _refusing("irecv")
isend = _refusing("isend")
new_group = _refusing("new_group")
recv = _refusing("recv")
reduce = _refusing("reduce")
reduce_scatter = _refusing("reduce_scatter")
scatter = _refusing("scatter")
send = _refusing("send")

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
