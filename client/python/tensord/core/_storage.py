"""What programs ask of the memory behind a tensor: whether two share it, where it begins, how large it is. x.untyped_storage() sees it as bytes,
x.storage() as numbers of the tensor's dtype. One that is held keeps the memory.

It is the daemon's: it is not resized, nor made by itself; what is read and written goes by a tensor over all of it.
"""

from typing import Any

from tensord import _C

# What classes of tensors and storages were called by.
_LEGACY = {_C.float32: "Float", _C.float64: "Double", _C.float16: "Half", _C.bfloat16: "BFloat16", _C.int64: "Long", _C.int32: "Int", _C.int16: "Short",
           _C.int8: "Char", _C.uint8: "Byte", _C.bool: "Bool", _C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble",
           _C.uint16: "UInt16", _C.uint32: "UInt32", _C.uint64: "UInt64"}


class _Storage:
    """Memory of the daemon that tensors lie in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _C.DTypeError("a storage is not made by itself: x.untyped_storage() and x.storage() are those of tensors, and td.empty(n, dtype=td.uint8) is memory")

    _whole: _C.Tensor  # all that lies there, one behind the other
    _number: int

    def data_ptr(self) -> int:
        """Where it begins in this process."""
        return self._whole.data_ptr()

    def nbytes(self) -> int:
        return self._whole.nbytes

    def size(self) -> int:
        return self._whole.numel()

    __len__ = size

    def element_size(self) -> int:
        return self._whole.element_size()

    @property
    def device(self) -> _C.device:
        return self._whole.device

    is_cuda = is_sparse = False

    def get_device(self) -> int:
        return self._whole.get_device()

    def cpu(self) -> Any:
        return self if self.device.type == "cpu" else _of(type(self), self._whole.cpu())

    def share_memory_(self) -> Any:
        return self

    def is_shared(self) -> bool:
        """True: all memory here is."""
        return True

    def is_pinned(self) -> bool:
        return self._whole.is_pinned()

    def tolist(self) -> "list[Any]":
        return self._whole.tolist()

    def clone(self) -> Any:
        """Other memory with the same in it."""
        return _of(type(self), self._whole.clone())

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        self._whole.copy_(source._whole if isinstance(source, _Storage) else source)
        return self

    def fill_(self, value: Any) -> Any:
        self._whole.fill_(value)
        return self

    def resize_(self, size: int) -> Any:
        raise _C.Unsupported("resize_(): memory is the daemon's, and freed with the last tensor in it; x.data = td.empty(0) or x.set_() lets go of a tensor's")

    def __getitem__(self, at: Any) -> Any:
        return _of(type(self), self._whole[at]) if isinstance(at, slice) else self._whole[at].item()

    def __setitem__(self, at: Any, value: Any) -> None:
        self._whole[at] = value

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and (self._number, self._whole.dtype) == (other._number, other._whole.dtype)

    def __hash__(self) -> int:
        return hash(self._number)

    @property
    def _cdata(self) -> int:
        return self._number

    def __reduce__(self) -> Any:
        """What comes back is known by its own memory's number."""
        return _again, (type(self), self._whole)

    def _says(self, dtype: str) -> str:
        try:
            rows = "".join(f" {value}\n" for value in self._whole[:1000].tolist()) + (" ...\n" if self.size() > 1000 else "")
        except _C.Error as e:
            from tensord.core import _repr

            return _repr.without(type(self).__name__, "a value", e)
        return f"{rows}[tensord.storage.{type(self).__name__}({dtype}device={self.device}) of size {self.size()}]"

    def __repr__(self) -> str:
        return self._says("")


class UntypedStorage(_Storage):
    """Bytes."""

    __module__ = "tensord.storage"

    def untyped(self) -> "UntypedStorage":
        return self

    def type(self) -> str:
        return "tensord.storage.UntypedStorage"


class TypedStorage(_Storage):
    """Numbers of one dtype."""

    __module__ = "tensord.storage"

    @property
    def dtype(self) -> _C.dtype:
        return self._whole.dtype

    def untyped(self) -> UntypedStorage:
        return untyped_storage(self._whole)

    _untyped_storage = property(untyped)

    def pickle_storage_type(self) -> str:
        return _LEGACY[self.dtype] + "Storage"

    def type(self) -> str:
        return "tensord." + self.pickle_storage_type()

    def __repr__(self) -> str:
        return self._says(f"dtype={self.dtype}, ")


def _as(dtype: _C.dtype) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        """Other memory with the same numbers in this dtype."""
        return _of(TypedStorage, self._whole.to(dtype, copy=True))

    return convert


for _dtype, _name in _LEGACY.items():
    if not _name.startswith("UInt"):  # PyTorch has none of these
        setattr(TypedStorage, _name.replace("Complex", "complex_").lower(), _as(_dtype))


def _of(kind: Any, whole: _C.Tensor) -> Any:
    made = object.__new__(kind)
    made._whole, made._number = whole, whole._storage_number()
    return made


def _again(kind: Any, whole: _C.Tensor) -> Any:
    """Unpickled: what came without its memory says so when it is used."""
    try:
        return _of(kind, whole)
    except _C.Error:
        made = object.__new__(kind)
        made._whole, made._number = whole, id(whole)
        return made


def _over(self: _C.Tensor, dtype: Any) -> _C.Tensor:
    """All of the storage, outside of every graph."""
    from tensord.core import _overloads

    with _overloads._apart():
        x = self.detach()
        n = x._storage_nbytes() // x.element_size()
        whole = x.as_strided((n,), (1,), 0)
        return whole if dtype is None else whole.view(dtype)


def untyped_storage(self: _C.Tensor) -> UntypedStorage:
    return _of(UntypedStorage, _over(self, _C.uint8))


def storage(self: _C.Tensor) -> TypedStorage:
    return _of(TypedStorage, _over(self, None))
