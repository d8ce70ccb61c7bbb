"""save() and load(): tensors in files that never run code.

The layout is that of safetensors: eight bytes with the length of a header, the header (JSON: name, dtype, shape, place of each tensor), the
bytes. A flat dict of names and tensors, such as a state_dict(), is therefore a file that other programs read, and theirs is read here. For
anything else (lists, numbers, dicts in dicts, an optimizer's state) the header's metadata hold the tree, in which tensors stand by name.
What a file says is checked before memory is taken: a damaged or hostile one is an error, at worst wrong numbers.
"""

import json
import math
import os
import stat
import struct
from typing import Any, NoReturn

from tensord import _C

_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
          "U8": "uint8", "BOOL": "bool"}
_CODES = {name: code for code, name in _NAMES.items()}
_TREE = "tensord.tree"
_MAX_HEADER = 100 << 20
_MAX_DIMS, _MAX_BYTES = 8, 1 << 63
_REAL = {"complex64": "float32", "complex128": "float64"}  # the layout has no complex numbers: pairs of floats
_CHUNK = 1 << 24


# ---- trees: JSON cannot tell a tuple from a list, or 1 from "1" as a key, so what is no list, text, number or None is {kind: ...}


def _pack(x, tensors, path):
    if _C.is_tensor(x):
        name = path or "tensor"
        while name in tensors:
            name += "_"
        tensors[name] = x
        return {"tensor": name, "dtype": x.dtype.name}
    if x is None or isinstance(x, (bool, int, str)):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": str(x)}
    if isinstance(x, dict):
        if not all(isinstance(k, (str, int, float, bool)) or k is None for k in x):
            raise _C.DTypeError(f"save(): keys of dicts are texts or numbers; see '{path}'")
        return {"dict": [[_pack(k, tensors, ""), _pack(v, tensors, f"{path}.{k}" if path else str(k))] for k, v in x.items()]}
    if isinstance(x, (list, tuple)):
        items = [_pack(v, tensors, f"{path}.{i}" if path else str(i)) for i, v in enumerate(x)]
        return items if isinstance(x, list) else {"tuple": items}
    hint = "; save its state_dict()" if hasattr(x, "state_dict") else ""
    raise _C.DTypeError(f"save() takes tensors, numbers, texts, None, and dicts, lists and tuples of them, not a {type(x).__name__}"
                        + (f" (at '{path}')" if path else "") + hint)


def _unpack(x, tensors):
    if isinstance(x, list):
        return [_unpack(v, tensors) for v in x]
    if not isinstance(x, dict):
        return x
    kind, value = next(iter(x.items()))
    if kind == "tensor":
        t = tensors[value]
        return _C.ops.view_dtype(t, getattr(_C, x["dtype"])).squeeze(-1) if x["dtype"] in _REAL else t
    if kind == "float":
        return float(value)
    if kind == "tuple":
        return tuple([_unpack(v, tensors) for v in value])
    return {_unpack(k, tensors): _unpack(v, tensors) for k, v in value}


# ---- files


def _real(x):
    """Contiguous, outside of graphs, and without complex numbers."""
    x = x.detach().contiguous()
    real = _REAL.get(x.dtype.name)
    return _C.ops.view_dtype(x.unsqueeze(-1), getattr(_C, real)) if real else x


def _header(obj):
    tensors = {}
    flat = isinstance(obj, dict) and all(isinstance(k, str) and k != "__metadata__" and _C.is_tensor(v) and v.dtype.name in _CODES for k, v in obj.items())
    tree = None if flat else _pack(obj, tensors, "")
    tensors = {k: _real(v) for k, v in (obj if flat else tensors).items()}
    header, at = {}, 0
    if tree is not None:
        header["__metadata__"] = {_TREE: json.dumps(tree)}
    for name, t in tensors.items():
        header[name] = {"dtype": _CODES[t.dtype.name], "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8), tensors


def _write(obj, file):
    header, tensors = _header(obj)
    file.write(struct.pack("<Q", len(header)) + header)
    for t in tensors.values():
        if t.numel():
            view = memoryview(_C.ops.view_dtype(t.reshape(-1), _C.uint8))
            for k in range(0, len(view), _CHUNK):
                file.write(view[k : k + _CHUNK])


def save(obj, f) -> None:
    """Write tensors, numbers, texts, None, and dicts, lists and tuples of them to a file (a path, or an object with write()).

    A regular file appears whole or not at all, and keeps its mode; what a symbolic link leads to is written, and not the link. A device or
    a FIFO is opened and written. Modules are not taken: save their state_dict().
    """
    if not isinstance(f, (str, bytes, os.PathLike)):
        return _write(obj, f)
    path = os.fsdecode(f)
    mode = _mode(path)
    if mode is not None and (not stat.S_ISREG(mode) or path.startswith(("/dev/", "/proc/"))):  # also /dev/stdout, whatever it is
        with open(path, "wb") as file:
            return _write(obj, file)
    target = os.path.realpath(path)
    place = f"{target}.{os.getpid()}.part"
    try:
        with open(place, "wb") as file:
            _write(obj, file)
        if mode is not None:
            os.chmod(place, stat.S_IMODE(mode))
        os.replace(place, target)
    except BaseException as e:
        if os.path.exists(place):
            os.unlink(place)
        if isinstance(e, OSError) and e.filename == place:
            raise OSError(e.errno, e.strerror, path) from None  # the file that was asked for
        raise


def _mode(path):
    """Of what lies there, through links; None: nothing does."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _bad(why) -> NoReturn:
    raise _C.InvalidError(f"load(): {why}")


def _entry(name, entry, at):
    """(dtype, shape, bytes) of a tensor that must begin at `at`."""
    try:
        dtype, shape, (begin, end) = getattr(_C, _NAMES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
        good = len(shape) <= _MAX_DIMS and all(type(n) is int and 0 <= n < _MAX_BYTES for n in (*shape, begin, end))
        good = good and math.prod(n or 1 for n in shape) * dtype.itemsize < _MAX_BYTES
    except (KeyError, TypeError, ValueError, AttributeError):
        _bad(f"the header's entry for '{name}' has no dtype, shape and data_offsets that are known here: {str(entry)[:80]}")
    if not good or begin != at or end - begin != math.prod(shape) * dtype.itemsize:
        _bad(f"the bytes of '{name}' are not where they should be, or not as many as its shape and dtype say")
    return dtype, shape, end - begin


def _fill(dtype, shape, size, file):
    t = _C.ops.empty(shape, dtype)
    if not size:
        return t
    with _C.ops.view_dtype(t.reshape(-1), _C.uint8).writing() as a:
        view, at = memoryview(a), 0
        while at < size:
            part = file.read(min(_CHUNK, size - at))
            if not part:
                _bad("the file ends too early")
            view[at : at + len(part)] = part
            at += len(part)
    return t


def _read(file):
    start = file.read(8)
    if start[:4] == b"PK\x03\x04" or start[:1] == b"\x80":
        _bad("this is a file of torch.save(), a pickle, which may run code; load it there and write it with safetensors.torch.save_file()")
    n = struct.unpack("<Q", start)[0] if len(start) == 8 else _MAX_HEADER + 1
    text = file.read(n) if n <= _MAX_HEADER else b""
    if len(text) != n:
        _bad("the file does not begin with a header of tensors (safetensors)")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        _bad("the file's header cannot be read")
    return header


def _checked(header):
    """[(name, dtype, shape, bytes)] in the order of the file."""
    try:
        rows = sorted(header.items(), key=lambda row: row[1]["data_offsets"])
    except (KeyError, TypeError):
        rows = list(header.items())
    out, at = [], 0
    for name, entry in rows:
        out.append((name, *_entry(name, entry, at)))
        at += out[-1][-1]
    return out, at


def load(f, map_location=None, *, weights_only=True) -> Any:
    """What save() wrote, or any file of safetensors: {name: tensor}. The tensors are new ones, and nothing in the file is ever run.

    Raises InvalidError for a file that is damaged or is none.
    """
    if map_location is not None and str(map_location) not in ("cpu", "cpu:0"):
        raise _C.Unsupported(f"load(): there is no device {map_location!r} here; only 'cpu'")
    if not weights_only:
        raise _C.Unsupported("load() never runs code from a file: leave out weights_only=False")
    if isinstance(f, (str, bytes, os.PathLike)):
        with open(f, "rb") as file:
            return load(file)
    header = _read(f)
    meta = header.pop("__metadata__", None)
    rows, size = _checked(header)
    if f.seekable():
        here = f.tell()
        if f.seek(0, os.SEEK_END) - here < size:
            _bad("the file ends too early")
        f.seek(here)
    tensors = {name: _fill(dtype, shape, n, f) for name, dtype, shape, n in rows}
    if not isinstance(meta, dict) or _TREE not in meta:
        return {name: tensors[name] for name in header}
    try:
        return _unpack(json.loads(meta[_TREE]), tensors)
    except (ValueError, KeyError, TypeError, OverflowError, StopIteration, RecursionError):
        _bad("the file's tree cannot be read")
