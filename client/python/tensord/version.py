"""Which version this is, by the names of torch.version."""

from tensord._C import __version__ as __version__

debug = False
cuda = hip = rocm = xpu = None
