"""Which version this is, by the names of torch.version."""

from tensord._C import __version__ as __version__

debug = False
git_version = "Unknown"  # as where PyTorch was not built from a checkout
cuda = hip = rocm = xpu = None
