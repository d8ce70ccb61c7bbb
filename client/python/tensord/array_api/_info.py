"""What this namespace can do, as the standard asks it."""

from tensord import _C
from tensord.core import _overloads
from tensord.array_api import _dtypes


class Info:
    """See __array_namespace_info__()."""

    def capabilities(self):
        """Masks may be indices, shapes may depend on values; how many dimensions a tensor may have."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        """Where tensors lie when nobody says where."""
        return _C.get_default_device()

    def default_dtypes(self, *, device=None):
        """The dtypes that numbers of Python and indices become."""
        _overloads.there("cpu" if device is None else device)
        floats = _C.get_default_dtype()
        return {"real floating": floats, "complex floating": floats.to_complex(), "integral": _C.int64, "indexing": _C.int64}

    def devices(self):
        """All places for tensors."""
        return _C._devices()

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes by name: all, or those of a kind or of several."""
        _overloads.there("cpu" if device is None else device)
        return _dtypes.dtypes_of_kind(kind)
