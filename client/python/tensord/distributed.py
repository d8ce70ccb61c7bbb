"""What programs ask of torch.distributed before they use it: there are no process groups here. Processes of one machine share a model by module.share_memory(),
and tensors by their names and by tensord.Queue."""

import typing as _typing

from tensord import _C, _absent

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
for _name in """all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all barrier broadcast broadcast_object_list destroy_process_group gather
get_backend get_rank get_world_size init_process_group irecv isend new_group recv reduce reduce_scatter scatter send""".split():
    globals()[_name] = _refusing(_name)

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
