"""Whole objects in files: what save() writes of modules and whatever else Python pickles, and what load(f, weights_only=False) makes of it again.

Reading one runs what it says, as with any pickle, so load() does it only when told to. The file is one as torch.save() writes it: a dict of the
pickle, as bytes, and of the tensors in it, which the library writes and reads. Objects in files of PyTorch come as this package's, by the same
names: where a name is not known here the error says which.
"""

import inspect
import io
import pickle
import zipfile
from typing import Any

from tensord import _C, _functions

_OBJECT, _TENSORS = "tensord.object", "tensord.tensors"


class _Writer(pickle.Pickler):
    def __init__(self, to):
        super().__init__(to, protocol=4)
        self.tensors, self.places = [], {}

    def persistent_id(self, obj):
        if not _C.is_tensor(obj):
            return None
        if id(obj) not in self.places:
            self.places[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
        return self.places[id(obj)]


def packed(obj) -> dict:
    """A tree as save() takes them, of any object."""
    to = io.BytesIO()
    writer = _Writer(to)
    try:
        writer.dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        raise _C.DTypeError(f"save() takes tensors, plain data, and what pickle takes: {e}") from e
    asks = [t.requires_grad for t in writer.tensors]
    return {_OBJECT: to.getvalue(), _TENSORS: writer.tensors, "requires_grad": asks}


def is_packed(made) -> bool:
    return type(made) is dict and isinstance(made.get(_OBJECT), bytes)


class _Unpickler(pickle.Unpickler):
    """`safe`: the objects that may be asked for beside plain containers; None: any."""

    def __init__(self, file, safe):
        super().__init__(file)
        self.safe = safe

    def find_class(self, module, name):
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)  # as old pickles have them
        plain = (module, name) in _PLAIN or module.startswith("tensord") and isinstance(getattr(_C, name, None), _C.dtype)
        if self.safe is not None and not plain and (module, name) not in {(x.__module__, x.__qualname__) for x in self.safe}:
            raise _C.Unsupported(f"load(): the file wants {module}.{name}, which is not among the safe globals that tensord.serialization was told")
        return super().find_class(module, name)


_PLAIN = {("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("builtins", "complex"),
          ("builtins", "range"), ("builtins", "slice")}


def unpacked(made, safe) -> Any:
    tensors = [t.requires_grad_(asks) for t, asks in zip(made[_TENSORS], made["requires_grad"])]
    reader = _Unpickler(io.BytesIO(made[_OBJECT]), safe)
    reader.persistent_load = tensors.__getitem__
    return reader.load()


# ---- files of PyTorch


_STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
             "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
             "ComplexFloatStorage": "complex64", "UntypedStorage": "uint8"}


def _tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    return storage.as_strided(size, stride, offset).requires_grad_(requires_grad)


def _tensor_of(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    return _tensor(storage.view(dtype), offset, size, stride, requires_grad)


def _parameter(data, requires_grad, hooks, state=None):
    from tensord import nn

    made = nn.Parameter(data, requires_grad)
    made.__dict__.update(state or {})
    return made


_REBUILD = {"_rebuild_tensor": _tensor, "_rebuild_tensor_v2": _tensor, "_rebuild_tensor_v3": _tensor_of, "_rebuild_parameter": _parameter,
            "_rebuild_parameter_with_state": _parameter}


_THEIRS = ("_non_persistent_buffers_set", "_is_full_backward_hook", "call_super_init")


class _Reader(_Unpickler):
    """Of the pickle in a zip archive as torch.save() writes them."""

    def __init__(self, archive, where, safe):
        self.archive, self.where, self.storages = archive, where, {}
        self.root = next((n[:-8] for n in archive.namelist() if n.endswith("/data.pkl")), None)
        if self.root is None:
            raise _C.InvalidError("load(): the archive holds no data.pkl: torch.save() did not write it")
        super().__init__(io.BytesIO(archive.read(f"{self.root}data.pkl")), safe)

    def find_class(self, module, name):
        if module == "torch._utils" and name in _REBUILD:
            return _REBUILD[name]
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return getattr(_C, _STORAGES[name])
        if module != "torch" and not module.startswith("torch."):
            return super().find_class(module, name)
        try:
            found = pickle.Unpickler.find_class(self, "tensord" + module[5:], name)
        except (ImportError, AttributeError):
            raise _C.Unsupported(f"load(): the file wants {module}.{name}, which has no counterpart here; save the state_dict() there, which needs no code") from None
        return found if isinstance(found, _C.dtype) or found in (_C.Size, _C.device) else super().find_class(found.__module__, found.__qualname__)

    def persistent_load(self, pid):
        kind, dtype, key, location, _ = pid
        if kind != "storage":
            raise _C.InvalidError(f"load(): {kind!r} is no storage")
        if key not in self.storages:
            bytes_ = bytearray(self.archive.read(f"{self.root}data/{key}"))
            made = _functions.frombuffer(bytes_, dtype=dtype) if bytes_ else _C.empty(0, dtype=dtype)
            device = (self.where(location) or location) if self.where else location
            self.storages[key] = made.to(device)
        return self.storages[key]


def adopt(module, state) -> None:
    """A module as PyTorch pickles it. Layers of this package have attributes that are not in there: their constructors make them, told what attributes of their
    parameters' names say. One that lacks some of those has no more than PyTorch's."""
    from tensord import nn

    kind = next(c for c in type(module).__mro__ if c.__module__.startswith("tensord."))
    held = {**{name: p is not None for name, p in state["_parameters"].items()}, **state}
    wanted = getattr(kind, "_defaults", None) or {
        name: ... if p.default is p.empty else p.default for name, p in inspect.signature(kind.__init__).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and name != "self"}
    if all(name in held or default is not ... for name, default in wanted.items()):
        kind.__init__(module, **{name: held[name] for name in wanted if name in held})
    else:
        nn.Module.__init__(module)
    own = set(vars(module))
    for home in ("_parameters", "_buffers", "_modules"):
        vars(module)[home].clear()
        vars(module)[home].update(state[home])
    module._transient.update(state.get("_non_persistent_buffers_set", ()))
    module.training = state["training"]
    vars(module).update({name: value for name, value in state.items() if name not in own and "_hooks" not in name and name not in _THEIRS})


def from_pytorch(file, where, safe) -> Any:
    """Of an open file that is such an archive; `where` as load() has it."""
    if not zipfile.is_zipfile(file):
        raise _C.Unsupported("load(): a whole object is read from files as torch.save() writes them since PyTorch 1.6, and this is none; save it anew there")
    with zipfile.ZipFile(file) as archive:
        return _Reader(archive, where, safe).load()


def refused() -> Any:
    raise _C.Unsupported("load(): the file holds a whole object, as a module: load(f, weights_only=False) makes it, which runs what the file says, "
                         "so do it with files that you trust; a state_dict() needs no code")
