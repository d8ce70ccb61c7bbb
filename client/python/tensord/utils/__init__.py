"""What PyTorch keeps under torch.utils, as far as it is here."""

from tensord.utils import _pytree as _pytree, checkpoint as checkpoint, data as data, dlpack as dlpack
