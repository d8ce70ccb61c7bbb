"""Loading data by worker processes: DataLoader, and lists and dicts that all of them read from one memory. Without torch; for torch's tensors see
tensord.torch."""

_LAZY = {
    "DataLoader": "tensord.data._loader", "SharedList": "tensord.data._shared", "SharedDict": "tensord.data._shared",
    "get_worker_info": "tensord.data._plain", "default_collate": "tensord.data._plain", "IterableDataset": "tensord.data._samplers",
    "SequentialSampler": "tensord.data._samplers", "RandomSampler": "tensord.data._samplers", "BatchSampler": "tensord.data._samplers",
}


def __getattr__(name):
    import importlib

    if name not in _LAZY:
        raise AttributeError(f"module 'tensord.data' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), "collate" if name == "default_collate" else name)
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})
