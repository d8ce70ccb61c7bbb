"""Whole objects in files: what save() writes of modules and whatever else Python pickles, and what load(f, weights_only=False) makes of it again.

Reading one runs what it says, as with any pickle, so load() does it only when told to. The file is one as torch.save() writes it: a dict of the
pickle, as bytes, and of the tensors in it, which the library writes and reads. Objects in files of PyTorch come as this package's, by the same
names: where a name is not known here the error says which.
"""

import collections
import io
import pickle
import zipfile
from typing import Any

from tensord import _C
from tensord.core import _creation, _interop

_OBJECT, _TENSORS = "tensord.object", "tensord.tensors"
_SMALL = 4096  # bytes; so small an array stays in the pickle


class _Writer(pickle.Pickler):
    def __init__(self, to):
        super().__init__(to, protocol=4)
        self.tensors, self.places = [], {}

    def persistent_id(self, obj):
        theirs = None if _C.is_tensor(obj) else _kept(obj)
        if not _C.is_tensor(obj) and theirs is None:
            return None
        if id(obj) not in self.places:
            self.places[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
        k = self.places[id(obj)]
        return k if theirs is None else (theirs, k)


def _kept(obj):
    """Whose tensor or array it is that the file has as a tensor; None: pickle takes it, or it is neither."""
    family = _interop.family(obj)
    if family is None or type(obj).__name__ not in ("Tensor", "ndarray") or getattr(obj, "__dict__", None) or _interop.why_not(obj):
        return None
    return family if family == "torch" or obj.nbytes > _SMALL else None


def packed(obj) -> dict:
    """A tree as save() takes them, of any object."""
    to = io.BytesIO()
    writer = _Writer(to)
    try:
        writer.dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        raise _C.DTypeError(f"save() takes tensors, plain data, and what pickle takes: {e}") from e
    asks = [getattr(t, "requires_grad", False) for t in writer.tensors]
    return {_OBJECT: to.getvalue(), _TENSORS: writer.tensors, "requires_grad": asks}


def is_packed(made) -> bool:
    return type(made) is dict and isinstance(made.get(_OBJECT), bytes)


_CONTAINERS = {collections.OrderedDict, collections.Counter, set, frozenset, bytearray}  # made of what the file holds, not of a number: that is as long as it likes
_PLAIN = {("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("builtins", "complex"),
          ("builtins", "range"), ("builtins", "slice")}


class _Careful(pickle._Unpickler):
    """Calls only what find_class() gave, and sets the state of nothing but what safe classes made: never that of a class or a function, which all of the program has."""

    dispatch = dict(pickle._Unpickler.dispatch)
    safe: Any

    def __init__(self, file):
        super().__init__(file)
        self.given: list[Any] = []
        find = self.find_class

        def noted(module, name):
            self.given.append(find(module, name))
            return self.given[-1]

        self.find_class: Any = noted

    def _instantiate(self, klass, args):
        super()._instantiate(self._may_call(klass, args), args)

    def _may_call(self, what, args):
        if not any(what is x for x in self.given):
            raise _C.Unsupported(f"load(): the file calls {_C._a_type(what)}, and may call only what tensord.serialization was told")
        plain = (list, tuple, dict, set, frozenset, bytes, str)
        if any(what is x for x in _CONTAINERS) and not all(isinstance(x, plain) for x in args):
            raise _C.InvalidError(f"load(): the file makes {what.__name__} of {_C._a_type(args[0])}")
        return what

    def _reduce(self):
        self._may_call(self.stack[-2], self.stack[-1])
        self.load_reduce()

    def _newobj(self):
        self._may_call(self.stack[-2], self.stack[-1])
        self.load_newobj()

    def _newobj_ex(self):
        self._may_call(self.stack[-3], (*self.stack[-2], *self.stack[-1].values()))
        self.load_newobj_ex()

    def _build(self):
        kind = type(self.stack[-2])
        if kind is not collections.OrderedDict and not any(kind is x for x in self.safe):
            raise _C.Unsupported(f"load(): the file sets the state of {_C._a_type(self.stack[-2])}, which is not among the safe globals that tensord.serialization was told")
        self.load_build()

    dispatch.update({pickle.REDUCE[0]: _reduce, pickle.NEWOBJ[0]: _newobj, pickle.NEWOBJ_EX[0]: _newobj_ex, pickle.BUILD[0]: _build})


def _latin1(text, encoding):
    """Bytes, as old pickles write them; numbers of NumPy hold some."""
    if not isinstance(text, str) or encoding != "latin1":
        raise _C.InvalidError("load(): the file is damaged: bytes of a text are in latin1")
    return text.encode("latin1")


class _Finder:
    """What stands behind names. `safe`: the objects that may be asked for beside plain containers; None: any. `named`: the same by their names in files."""

    safe: Any = None
    named: "dict[str, Any]" = {}

    def find_class(self, module, name):
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)  # as old pickles have them
        if f"{module}.{name}" in self.named:
            return self.named[f"{module}.{name}"]
        if self.safe is not None and (module, name) == ("_codecs", "encode"):
            return _latin1
        plain = (module, name) in _PLAIN or module in ("tensord", "tensord._C") and isinstance(getattr(_C, name, None), _C.dtype)
        if self.safe is not None and not plain:
            raise _C.Unsupported(f"load(): the file wants {module}.{name}, which is not among the safe globals that tensord.serialization was told")
        finder: Any = super()
        return finder.find_class(module, name)


def _read(text, finder, safe, load_tensor) -> Any:
    """The object of a pickle."""
    # As torch.serialization takes them: an object, or (object, "module.name") of one that has another name in files.
    named = dict((x[1], x[0]) if type(x) is tuple else (f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', '')}", x) for x in safe or ())
    safe = None if safe is None else list(named.values())
    machine = type("_Reader", (finder, pickle.Unpickler if safe is None else _Careful), {"safe": safe, "named": named})
    reader = machine(io.BytesIO(text))
    reader.persistent_load = load_tensor
    try:
        return reader.load()
    except _C.Error:
        raise
    except (pickle.UnpicklingError, EOFError) as e:
        raise _C.InvalidError(f"load(): the file is damaged: {e}") from e
    except Exception as e:
        if safe is None:
            raise  # it may be that of a class that the file makes
        raise _C.InvalidError(f"load(): the file is damaged: {type(e).__name__}: {e}") from e


def unpacked(made, safe) -> Any:
    tensors, asks = made.get(_TENSORS), made.get("requires_grad")
    if not isinstance(tensors, list) or not isinstance(asks, list) or len(tensors) != len(asks) or not all(map(_C.is_tensor, tensors)):
        raise _C.InvalidError("load(): the file is damaged: the tensors of its object are not there")
    for t, grad in zip(tensors, asks):
        t.requires_grad_(bool(grad))

    given: dict[Any, Any] = {}

    def load_tensor(pid):
        family, k = pid if isinstance(pid, tuple) and len(pid) == 2 else (None, pid)
        if not isinstance(k, int) or not 0 <= k < len(tensors) or family not in (None, "torch", "numpy"):
            raise _C.InvalidError(f"load(): the file is damaged: it has no tensor {pid!r}")
        if pid not in given:
            t = tensors[k]
            given[pid] = t if family is None else t.detach().numpy() if family == "numpy" else _interop.to_torch(t.detach()).requires_grad_(bool(asks[k]))
        return given[pid]

    return _read(made[_OBJECT], _Finder, safe, load_tensor)


# ---- files of PyTorch


_STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
             "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
             "ComplexFloatStorage": "complex64", "UntypedStorage": "uint8"}


def _tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if not _C.is_tensor(storage) or min((offset, *size, *stride)) < 0 or (0 not in size and last >= storage.numel()):
        raise _C.InvalidError(f"load(): the file is damaged: no tensor of sizes {tuple(size)} lies in its storage")
    return storage.as_strided(size, stride, offset).requires_grad_(requires_grad)


def _tensor_of(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    return _tensor(storage.view(dtype) if _C.is_tensor(storage) else None, offset, size, stride, requires_grad)


def _parameter(data, requires_grad, hooks, state=None):
    from tensord import nn

    made = nn.Parameter(data, requires_grad)
    made.__dict__.update(state or {})
    return made


_REBUILD = {"_rebuild_tensor": _tensor, "_rebuild_tensor_v2": _tensor, "_rebuild_tensor_v3": _tensor_of, "_rebuild_parameter": _parameter,
            "_rebuild_parameter_with_state": _parameter}


class _TheirFinder(_Finder):
    def find_class(self, module, name):
        if f"{module}.{name}" in self.named:
            return self.named[f"{module}.{name}"]
        if module == "torch._utils" and name in _REBUILD:
            return _REBUILD[name]
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return getattr(_C, _STORAGES[name])
        if module != "torch" and not module.startswith("torch."):
            return super().find_class(module, name)
        try:
            finder: Any = super(_Finder, self)
            found = finder.find_class("tensord" + module[5:], name)
            if isinstance(found, _C.dtype) or any(found is x for x in (_C.Size, _C.device)):
                return found
            place = found.__module__, found.__qualname__
        except (ImportError, AttributeError):
            raise _C.Unsupported(f"load(): the file wants {module}.{name}, which has no counterpart here; save the state_dict() there, which needs no code") from None
        return super().find_class(*place)


class _Archive:
    """A zip archive as torch.save() writes them: a pickle, and the storages that it names."""

    def __init__(self, archive, root, where):
        self.archive, self.root, self.where, self.storages = archive, root, where, {}

    def read(self, name) -> bytes:
        try:
            entry = self.archive.getinfo(self.root + name)
            if entry.compress_type != zipfile.ZIP_STORED:  # a small file could be as large as it likes
                raise _C.InvalidError(f"load(): {name} is compressed: torch.save() did not write it")
            return self.archive.read(entry)
        except (KeyError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as e:
            raise e if isinstance(e, _C.Error) else _C.InvalidError(f"load(): the file is damaged: {e}") from None

    def storage(self, pid):
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], _C.dtype) or not all(isinstance(x, str) for x in pid[2:4]):
            raise _C.InvalidError(f"load(): the file is damaged: {_C._a_type(pid)} is no storage")
        _, dtype, key, location, _ = pid
        if key not in self.storages:
            bytes_ = bytearray(self.read(f"data/{key}"))
            made = _creation.frombuffer(bytes_, dtype=dtype) if bytes_ else _C.empty(0, dtype=dtype)
            device = (self.where(location) or location) if self.where else location
            self.storages[key] = made.to(device)
        return self.storages[key]


def from_pytorch(file, where, safe, why) -> Any:
    """Of an open file that is such an archive; `where` as load() has it. `why` is what the library says of the file: raised where it is another archive, as NumPy's, or a program."""
    if not zipfile.is_zipfile(file):
        raise _C.Unsupported("load(): a whole object is read from files as torch.save() writes them since PyTorch 1.6, and this is none; save it anew there")
    with zipfile.ZipFile(file) as archive:
        root = next((n[:-8] for n in archive.namelist() if n.endswith("/data.pkl")), None)
        if root is None or f"{root}constants.pkl" in archive.namelist():
            raise why
        held = _Archive(archive, root, where)
        return _read(held.read("data.pkl"), _TheirFinder, safe, held.storage)


def refused() -> Any:
    raise _C.Unsupported("load(): the file holds a whole object, as a module: load(f, weights_only=False) makes it, which runs what the file says, "
                         "so do it with files that you trust; a state_dict() needs no code")
