"""Classes of what x.storage() and x.untyped_storage() give, where PyTorch has them."""

from tensord.core._storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
