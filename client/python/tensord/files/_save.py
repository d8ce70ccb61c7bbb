"""save() and load(): tensors in files that run no code. What needs that, whole modules, is _objects.py's, and load() reads it only when told to.

The formats are the library's (client/files, also td_save() and td_load() in C). Here are trees of Python as the notes that it takes, and where files
may be. What is no state dict, such as lists, numbers and an optimizer's state, is a file of safetensors too: its metadata hold the tree.
"""

import contextlib
import io
import json
import os
import stat
import struct
import sys
import time
import warnings
from collections import Counter, OrderedDict
from typing import Any, NoReturn

from tensord import _C
from tensord.core import _interop, _overloads

_MAX_HEADER = 100_000_000
_CHUNK = 1 << 24
_LONG_TEXT = 256  # bytes: client/files/note.h
FIFO_SECONDS = 10.0  # how long load() waits for who writes one


# ---- trees as notes, which the library writes: what src/item.c says of queues' items, and what share/_codec.py puts together of it


class _More(Exception):
    """The format holds no such thing, and a richer one would."""


def _refuse(x, path) -> NoReturn:
    hint = "; it has a save() of its own" if hasattr(x, "_parts") else "; save its state_dict()" if hasattr(x, "state_dict") else ""
    raise _C.DTypeError(f"save() takes tensors, numbers, texts, None, and dicts, lists and tuples of them, not {_C._a_type(x)}"
                        + (f" (at '{path}')" if path else "") + hint)


class _Notes:
    def __init__(self, rich, free=False):
        self.rich = rich  # whether the format has more than JSON can hold
        self.free = free  # whether it may be another one
        self.out, self.tensors = bytearray(), {}
        self.texts = {}  # where the long ones stand, and they themselves


def _number(kind, value):
    return kind + struct.pack("=q", value)


def _bytes(kind, value):
    return _number(kind, len(value)) + value


def _text(value):
    return _bytes(b"s", value.encode("utf-8", "surrogatepass"))


def _note_long(x, to, packed):
    """A text or bytes, which the second time refers to where it stands."""
    at, _ = to.texts.get(id(x), (None, None))
    if at is not None:
        to.out += _number(b"r", len(to.out) - at)
    else:
        if len(x) >= _LONG_TEXT:
            to.texts[id(x)] = len(to.out), x
        to.out += packed(x)


def _note_int(x, to, path):
    if -1 << 63 <= x < 1 << 63:
        to.out += _number(b"i", x)
        return
    most = 2039 if to.rich else 14_000  # what torch.load() reads; what JSON's readers do
    if (x if x >= 0 else ~x).bit_length() > most:
        raise _C.Unsupported(f"save(): a number of {x.bit_length()} bits, of which a file of this format takes {most}" + (f" (at '{path}')" if path else ""))
    to.out += _bytes(b"I", str(x).encode())


def _object(name, parts=1):
    return b"m" + _number(b"t", 1 + parts) + _text(name)


def _note_tensor(x, to):
    """The same object is the same tensor there."""
    k, _ = to.tensors.setdefault(id(x), (len(to.tensors), x))
    parameter = any(nn and isinstance(x, nn.Parameter) for nn in map(sys.modules.get, ("tensord.nn", "torch.nn")))
    to.out += (_object("Parameter") if parameter else b"") + _number(b"x", k)


def _note_foreign(x, to, path):
    """What torch or NumPy made. False: it did not."""
    number, torch = _interop.plain(x), sys.modules.get("torch")
    if number is not x:
        _note(number, to, path)
    elif _interop.family(x):
        if why := _interop.why_not(x):
            raise _C.DTypeError(f"save() does not take {why}" + (f" (at '{path}')" if path else ""))
        _note_tensor(x, to)
    elif torch and to.rich and isinstance(x, torch.device):
        to.out += _object("device") + _number(b"t", 1) + _text(str(x))
    elif torch and to.rich and isinstance(x, torch.dtype) and isinstance(getattr(_C, str(x)[6:], None), _C.dtype):
        to.out += _object("dtype") + _text(str(x)[6:])
    else:
        return False
    return True


def _is_key(x, rich):
    x = _interop.plain(x)
    if isinstance(x, (bool, int, float, str)) or x is None:
        return True
    return rich and (isinstance(x, bytes) or (isinstance(x, tuple) and all(_is_key(k, True) for k in x)))


def _note_dict(x, to, path):
    to.out += _number(b"d", len(x))
    for k, v in x.items():
        if not _is_key(k, to.rich):
            if to.free:
                raise _More
            raise _C.DTypeError(f"save(): keys of dicts are texts or numbers{', or tuples of such' if to.rich else ''}; see '{path}'")
        _note(k, to, path)
        _note(v, to, f"{path}.{k}" if path else str(k))


def _is_size(x):
    torch = sys.modules.get("torch")
    return isinstance(x, _C.Size) or torch is not None and isinstance(x, torch.Size)


def _note_items(kind, x, to, path):
    to.out += _number(kind, len(x))
    for i, v in enumerate(x):
        _note(v, to, f"{path}.{i}" if path else str(i))


def _note(x, to, path):
    if _C.is_tensor(x):
        _note_tensor(x, to)
    elif x is None or isinstance(x, bool):
        to.out += b"N" if x is None else b"T" if x else b"F"
    elif isinstance(x, int):
        _note_int(x, to, path)
    elif isinstance(x, float):
        to.out += struct.pack("=cd", b"f", x)
    elif isinstance(x, str):
        _note_long(x, to, _text)
    elif isinstance(x, OrderedDict) and to.rich:
        to.out += _object("OrderedDict", 2)
        _note_dict(x, to, path)
        _note_dict({k: v for k, v in vars(x).items() if k == "_metadata"}, to, path)
    elif isinstance(x, dict):
        to.out += _object("Counter") if isinstance(x, Counter) and to.rich else b""
        _note_dict(x, to, path)
    elif isinstance(x, (list, tuple)):
        to.out += _object("Size") if to.rich and _is_size(x) else b""
        _note_items(b"t" if isinstance(x, tuple) else b"l", x, to, path)
    elif _note_foreign(x, to, path):
        pass
    elif to.rich:
        _note_rich(x, to, path)
    else:
        _other(x, to, path)


def _other(x, to, path):
    made_there = type(x).__module__.partition(".")[0] == "torch" or type(x).__module__ == "numpy" and hasattr(x, "tobytes")
    if to.free and not hasattr(x, "_parts") and not made_there:
        raise _More
    _refuse(x, path)


def _note_rich(x, to, path):
    if isinstance(x, complex):
        to.out += struct.pack("=cdd", b"c", x.real, x.imag)
    elif isinstance(x, bytes):
        _note_long(x, to, lambda x: _bytes(b"b", x))
    elif isinstance(x, set):
        to.out += _object("set")
        _note_items(b"l", x, to, path)
    elif isinstance(x, bytearray):
        to.out += _object("bytearray") + _bytes(b"b", bytes(x))
    elif isinstance(x, _C.dtype):
        to.out += _object("dtype") + _text(x.name)
    elif isinstance(x, _C.device):
        to.out += _object("device") + _number(b"t", 1) + _text(str(x))
    else:
        _other(x, to, path)


def _noted(obj, name, free=False):
    to = _Notes(name.endswith((".pt", ".td")), free)
    _note(obj, to, "")
    return to


def _as_held(obj, name, free):
    """(notes, the name of a file that holds them): by pickle what nothing else does, if it may be so."""
    richest = os.path.splitext(name)[0] + ".pt"
    for held in dict.fromkeys((name, richest)):
        try:
            return _noted(obj, held, free), held
        except _More:
            continue
    from tensord.files import _objects

    return _noted(_objects.packed(obj), richest), richest


# ---- files


def _write(obj, file, name, whole, programs=(), extra=(), free=False):
    """To where the library can write; to anything else what it wrote in memory."""
    to, name = _as_held(obj, name, free)
    what = (name, bytes(to.out), _interop.ours([x for _, x in to.tensors.values()]), whole, programs, extra)
    descriptor = _descriptor(file)
    if descriptor is None:
        with open(os.memfd_create("save"), "w+b", buffering=0) as copy:
            said = _C._save_file(copy.fileno(), *what)
            copy.seek(0)
            while part := copy.read(_CHUNK):
                file.write(part)
    else:
        file.flush()
        said = _C._save_file(descriptor, *what)
    if said is not None:
        warnings.warn(f"save(): torch.jit.load() cannot open '{name}', but tensord.jit.load() can, and torch.load() its tensors: {said}", stacklevel=2)


_FORMATS = {"pt": ".pt", "safetensors": ".safetensors", "npy": ".npy", "npz": ".npz"}
_ENDINGS = {".pt": ".pt", ".pth": ".pt", ".npy": ".npy", ".npz": ".npz"}


def _name(path, format):
    """What the library is told that the file is called: its ending says the format."""
    if format is not None and format not in _FORMATS:
        raise _C.InvalidError(f"save(): the format is 'pt', 'safetensors', 'npy' or 'npz', not {format!r}")
    stem, ending = os.path.splitext(os.path.basename(path))
    return (stem.encode("ascii", "replace").decode() or "archive") + (_FORMATS[format] if format else _ENDINGS.get(ending, ".safetensors"))


def _records(metadata, name):
    """The metadata of a file of safetensors, as the library takes them."""
    if metadata is None:
        return ()
    if not name.endswith(".safetensors"):
        raise _C.Unsupported(f"save(): only files of safetensors hold metadata, not '{name}'; put them into what is saved")
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for pair in metadata.items() for x in pair):
        raise _C.DTypeError("save(): metadata is a dict of texts by texts, as files of safetensors hold them")
    for k in metadata:
        if k == "tensord.tree" or "\0" in k:
            raise _C.InvalidError(f"save(): no metadata are called {k!r}: " + ("the tree of the file is" if "\0" not in k else "it holds a zero byte"))
    return tuple((k, v.encode("utf-8", "surrogatepass")) for k, v in metadata.items())


def save(obj, f, *, format=None, whole=False, metadata=None) -> None:
    """Write tensors, numbers, texts, None, and dicts, lists and tuples of them to a file (a path, or an object with write()). Tensors of torch and
    arrays of NumPy are tensors there, NumPy's numbers numbers.

    A path that ends with .pt or .pth becomes a file as torch.save() writes it, which torch.load() reads: tensors that look at one storage do so
    there, and OrderedDicts, sets, bytes, complex numbers, dtypes and parameters stay what they are. Of a storage of which tensors reach less
    than half only that part is written, unless whole=True. One that ends with .npy (one tensor) or .npz (a dict or a list of tensors) becomes
    NumPy's, everything else safetensors. format="pt", "safetensors", "npy" or "npz" says which, whatever the name is.

    metadata: a dict of texts for the header of a file of safetensors, as {"format": "pt"}; load(f, metadata=d) tells them.

    Whatever else pickle takes, as a whole module, is written as torch.save() does, where neither the name nor format= says otherwise; only
    load(f, weights_only=False) reads it, and needs the classes, so better save the state_dict().

    A regular file appears whole or not at all, and keeps its mode; what a symbolic link leads to is written, and not the link. A device or
    a FIFO is opened and written.
    """
    path = os.fsdecode(f) if isinstance(f, (str, bytes, os.PathLike)) else ""
    name = _name(path, format)
    free = format in (None, "pt") and not path.endswith((".safetensors", ".npy", ".npz")) and metadata is None
    extra = _records(metadata, name)
    if not isinstance(f, (str, bytes, os.PathLike)):
        return _write(obj, f, name, whole, (), extra, free)
    _put(path, lambda file: _write(obj, file, name, whole, (), extra, free))


def save_programs(state, programs, f, whole, extra) -> None:
    """A dict of tensors, with programs and other records beside it: what program/_archive.py writes, as save() writes files."""
    if not isinstance(f, (str, bytes, os.PathLike)):
        return _write(state, f, "archive.td", whole, programs, extra)
    path = os.fsdecode(f)
    stem, ending = os.path.splitext(os.path.basename(path))
    if ending not in (".td", ".pt", ".pth"):
        raise _C.Unsupported(f"save(): a program is saved to a file whose name ends with .td, or .pt, not to '{path}'")
    name = (stem.encode("ascii", "replace").decode() or "archive") + ending
    _put(path, lambda file: _write(state, file, name, whole, programs, extra))


def _put(path, write):
    """A file there, whole or not at all; write() fills it."""
    mode = _mode(path)
    if mode is not None and (not stat.S_ISREG(mode) or path.startswith(("/dev/", "/proc/"))):  # also /dev/stdout, whatever it is
        with open(path, "wb") as file:
            return write(file)
    target = os.path.realpath(path)
    place = os.path.join(os.path.dirname(target), f".{os.urandom(8).hex()}.part")
    try:
        file = open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb")  # new: nobody else's, no link to elsewhere
    except OSError as e:
        raise OSError(e.errno, e.strerror, path) from None  # the file that was asked for
    try:
        with file:
            write(file)
        if mode is not None:
            os.chmod(place, stat.S_IMODE(mode))
        os.replace(place, target)
    except BaseException as e:
        if os.path.exists(place):
            os.unlink(place)
        if isinstance(e, OSError) and e.filename == place:
            raise OSError(e.errno, e.strerror, path) from None
        raise


def _mode(path):
    """Of what lies there, through links; None: nothing does."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


class _Storage:
    """What a function is given for the storage that it places; as in PyTorch, to give it back means that it stays on the CPU."""


def _where(map_location):
    """A function: the device for what was at a location, None for where it was."""
    if map_location is None:
        return None
    if isinstance(map_location, dict):
        return lambda location: map_location.get(location)
    if callable(map_location):
        def where(location):
            said = map_location(storage := _Storage(), location)
            return "cpu" if said is storage else said

        return where
    if not isinstance(map_location, (str, _C.device)):
        raise _C.Unsupported(f"load(): map_location is a device or its name, a dict or a function of such here, not a {type(map_location).__name__}")
    device = _overloads.there(map_location)
    return lambda location: device


def _is_whole(start):
    """Zip archives, pickles and arrays of NumPy end where what they are in ends."""
    return start[:2] == b"PK" or start[:6] == b"\x93NUMPY" or (start[8:] != b"{" and start[:1] == b"\x80")


def _length(text):
    """How many bytes follow this header of safetensors; one that cannot be read is left to the library."""
    try:
        return max((end for name, entry in json.loads(text).items() if name != "__metadata__" for end in [int(entry["data_offsets"][1])]), default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return 0


def _copied(file, to, size=None):
    """So many bytes, or all that come."""
    while size is None or size > 0:
        part = file.read(_CHUNK if size is None else min(_CHUNK, size))
        if not part:
            break
        to.write(part)
        size = None if size is None else size - len(part)


def _load_copy(file, start, *options):
    """Of what cannot be read at any place a copy in memory can, of as much as belongs to the file."""
    with open(os.memfd_create("load"), "w+b") as copy:
        copy.write(start)
        if _is_whole(start):
            _copied(file, copy)
        elif start[8:] == b"{" and (n := int.from_bytes(start[:8], "little")) <= _MAX_HEADER:
            text = start[8:] + file.read(n - 1)
            copy.write(text[1:])
            _copied(file, copy, _length(text) if len(text) == n else 0)
        else:
            copy.write((getattr(file, "read1", None) or file.read)(55))  # it may be known what this is
        copy.flush()
        return _C._load_file(copy.fileno(), *options)


def _descriptor(file):
    """Of a file that is what its descriptor is; None: something else, which may have a descriptor all the same, as gzip's have."""
    file = getattr(file, "file", file)  # tempfile's
    raw = getattr(file, "raw", file)
    return raw.fileno() if isinstance(raw, io.FileIO) else None


def _load_file(file, *options):
    start = file.read(9)
    descriptor = _descriptor(file)
    if descriptor is not None and not (file.seekable() and file.tell() == len(start)):
        descriptor = None
    if descriptor is None or not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _is_whole(start):
        return _load_copy(file, start, *options)
    return _C._load_file(descriptor, *options)


def _read_metadata(file):
    """What a file of safetensors that begins here says beside its tensors; of another file nothing."""
    at = file.tell()
    try:
        n = int.from_bytes(file.read(8), "little")
        text = file.read(n) if n <= _MAX_HEADER else b""
        header = json.loads(text) if text[:1] == b"{" else {}
    except (ValueError, RecursionError):
        return {}  # the library says what is wrong
    finally:
        file.seek(at)
    found = header.get("__metadata__", {})
    return {k: v for k, v in found.items() if k != "tensord.tree" and isinstance(v, str)} if isinstance(found, dict) else {}


def load(f, map_location=None, *, weights_only=True, skip=False, metadata=None) -> Any:
    """What save() wrote, and other files of safetensors ({name: tensor}), of torch.save() (state dicts and other trees of tensors, plain data,
    OrderedDict, set, dtypes and sizes), and of NumPy (.npy: a tensor; .npz: {name: tensor}). From a path, or an object with read().

    The tensors are new ones, in shared memory; those of one storage in a file of PyTorch share one. Nothing in the file is ever run: what would
    need that, as a whole module that was saved, is Unsupported, and the error says what it is. With weights_only=False it is made, as pickle
    makes objects, which may run anything: do so with files that you trust. What tensord.serialization.add_safe_globals() was told is made
    without that word. Tensors come to the CPU; those that were on another
    device only with a map_location: a device that all come to, a dict {"cuda:0": "cpu"}, or a function of a storage and its location, as PyTorch
    takes them. skip=True leaves out tensors of dtypes that are not known here: out of dicts with their key, anywhere else None stands for them.
    Floats of a byte, which safetensors have, come as float16 or float32 with the same values. metadata: a dict, to which the texts in the header of
    a file of safetensors are added.
    InvalidError: the file is damaged or is none; it says what the file is where that is known.
    """
    with _named(f):
        return _load(f, (_where(map_location), bool(skip)), weights_only, metadata)


@contextlib.contextmanager
def _named(f):
    """Errors of what is read there say which file it is."""
    name = f if isinstance(f, (str, bytes, os.PathLike)) else getattr(f, "name", None)
    try:
        yield
    except _C.Error as e:
        begin, colon, text = str(e).partition(": ")
        if isinstance(name, (str, bytes, os.PathLike)) and begin in ("load()", "load") and (path := f"'{os.fsdecode(name)}'") not in text:
            e.args = (f"load(): {path}: {text}",)
        raise


def _load(f, options, weights_only, metadata):
    if metadata is not None:
        with contextlib.nullcontext(f) if not isinstance(f, (str, bytes, os.PathLike)) else _opened(f) as file:
            if not file.seekable():
                raise _C.Unsupported("load(): metadata are read of a path, or of a file that can be sought in")
            metadata.update(_read_metadata(file))
    if not isinstance(f, (str, bytes, os.PathLike)):
        return _made(lambda: _load_file(f, *options), f, weights_only, options[0])
    with _opened(f) as file:
        if isinstance(file, io.FileIO):
            return _made(lambda: _C._load_file(file.fileno(), *options), file, weights_only, options[0])
        return _made(lambda: _load_file(file, *options), file, weights_only, options[0])


def _is_pickled(file, start):
    """Whether a file of PyTorch begins there, which is where it stands then."""
    file.seek(start)
    begin = file.read(2)
    file.seek(start)
    return begin == b"PK" or begin[:1] == b"\x80" and begin[1:] in (b"\2", b"\3", b"\4", b"\5")


def _made(read, file, weights_only, where):
    """What the library reads; or, where that needs code and the program says that it may run, what pickle does."""
    serialization: Any = sys.modules.get("tensord.serialization")
    safe = None if not weights_only else serialization.get_safe_globals() if serialization else []
    may = safe is None or bool(safe)
    start = file.tell() if may and getattr(file, "seekable", bool)() else None
    try:
        made = read()
    except _C.Unsupported as e:
        if start is None or not _is_pickled(file, start):
            raise
        from tensord.files import _objects

        return _objects.from_pytorch(file, where, safe, e)
    if not (isinstance(made, dict) and "tensord.object" in made):
        return made
    from tensord.files import _objects

    return made if not _objects.is_packed(made) else _objects.unpacked(made, safe) if may else _objects.refused()


class _Begun(io.RawIOBase):
    """A stream of which something was read before."""

    def __init__(self, start, raw):
        self.start, self.raw = start, raw

    def readable(self):
        return True

    def readinto(self, to):
        if not self.start:
            return self.raw.readinto(to)
        n = min(len(to), len(self.start))
        to[:n], self.start = self.start[:n], self.start[n:]
        return n

    def close(self):
        self.raw.close()
        super().close()


def _opened(path):
    """For reading, at any place if that is possible. A FIFO that nobody writes is not waited for without end."""
    file: Any = open(path, "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
    try:
        mode, start = os.fstat(file.fileno()).st_mode, b""
        if stat.S_ISFIFO(mode):
            start = _wait_for_a_writer(file.fileno(), os.fsdecode(path))
        os.set_blocking(file.fileno(), True)
        return file if stat.S_ISREG(mode) else io.BufferedReader(_Begun(start, file))
    except BaseException:
        file.close()
        raise


def _wait_for_a_writer(descriptor, path):
    """The first byte of a FIFO; b"" when it has a writer, who wrote none yet."""
    end = time.monotonic() + FIFO_SECONDS
    while True:
        try:
            if start := os.read(descriptor, 1):
                return start
        except BlockingIOError:
            return b""
        if time.monotonic() > end:
            raise _C.Timeout(f"load(): '{path}' is a FIFO, which no process has opened for writing for {FIFO_SECONDS:g} s; begin the one that writes it "
                             "first, or give load() a file that is open")
        time.sleep(0.01)


def load_programs(f, map_location=None):
    """(the dict of tensors, [(name, text of the IR, names of what it captures, how Python calls it or None)]) of a file with programs."""
    options = _where(map_location), False
    with _named(f):
        if isinstance(f, (str, bytes, os.PathLike)):
            with _opened(f) as file:
                return _programs_of(file, options)
        return _programs_of(f, options)


def _programs_of(file, options):
    descriptor = _descriptor(file)
    if descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode) and file.tell() == 0:
        programs = _C._file_programs(descriptor)
        return _C._load_file(descriptor, *options, True), programs
    with open(os.memfd_create("load"), "w+b") as copy:
        _copied(file, copy)
        copy.flush()
        programs = _C._file_programs(copy.fileno())
        return _C._load_file(copy.fileno(), *options, True), programs
