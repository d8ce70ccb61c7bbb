"""What PyTorch keeps under torch.utils, as far as it is here."""

from tensord import _hooks, _paths
from tensord.utils import _pytree as _pytree, checkpoint as checkpoint, data as data, dlpack as dlpack

_paths.put(__name__, _hooks, {"hooks": "RemovableHandle"})
