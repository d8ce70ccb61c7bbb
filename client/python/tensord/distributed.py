"""What programs ask of torch.distributed before they use it: there are no process groups here. Processes of one machine share a model by module.share_memory(),
and tensors by their names and by tensord.Queue."""

import typing as _typing

from tensord import _absent

__all__ = ["is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched"]


def is_available() -> bool:
    """False."""
    return False


is_gloo_available = is_initialized = is_mpi_available = is_nccl_available = is_torchelastic_launched = is_available


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of(__name__)
