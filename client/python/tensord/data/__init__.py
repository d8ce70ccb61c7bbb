"""Loading data by worker processes: DataLoader, and lists and dicts that all of them read from one memory. Without torch; for torch's tensors see
tensord.torch."""

_LAZY = {}


def __getattr__(name):
    import importlib

    if name not in _LAZY:
        raise AttributeError(f"module 'tensord.data' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__():
    return sorted({*globals(), *_LAZY})
