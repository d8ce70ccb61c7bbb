"""What PyTorch keeps under torch.utils, as far as it is here."""

from tensord.utils import checkpoint as checkpoint, data as data, dlpack as dlpack
