"""What PyTorch keeps under torch.utils, as far as it is here."""

from tensord.autograd import _hooks
from tensord.core import _aliases, _foreach
from tensord.utils import _pytree as _pytree, checkpoint as checkpoint, data as data, dlpack as dlpack

_aliases.put(__name__, _hooks, {"hooks": "RemovableHandle"})
_aliases.put(__name__, _foreach, {"_foreach_utils": "_group_tensors_by_device_and_dtype"})
