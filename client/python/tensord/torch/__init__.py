"""For PyTorch programs: batches and tensors go from process to process without a copy.

    import tensord.torch
    tensord.torch.set_sharing_strategy()                   # DataLoader, torch.multiprocessing: as they are, through tensord
    loader = tensord.torch.DataLoader(data, batch_size=64, num_workers=4)    # or PyTorch's with more to it
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as e:
    from tensord.core._interop import missing

    raise missing(e, "torch", "tensord.torch is for programs that use", "; loaders without it are in tensord.data") from None
from tensord.torch._sharing import set_sharing_strategy  # noqa: F401

if _torch.distributed.is_available():
    from tensord.torch._process_group import register as _register

    _register()

_LAZY = {"MemberLost": "tensord.torch._errors", "Store": "tensord.torch._store", "ddp_hook": "tensord.torch._hooks",
         "DataLoader": "tensord.torch._loader", "SharedList": "tensord.data._shared", "SharedDict": "tensord.data._shared"}


def __getattr__(name):
    import importlib

    if name not in _LAZY:
        raise AttributeError(f"module 'tensord.torch' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})
