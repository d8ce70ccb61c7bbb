"""Whether two processes mean the same data set: a digest for each part of a loader's plan, cheap, and the same in every process.

Objects are gone into by what they would be pickled as, functions by their code, large data by some thousand places of it. What cannot be
pickled (a file that was opened at the first access) counts as None: it is not what tells data sets apart.
"""

import ctypes
import functools
import hashlib
import types

MOST = 2000  # items of a container that are looked at, spread evenly
WHOLE = 1 << 20  # bytes up to which data is read as a whole
_OBJECTS = 200_000  # looked at in all
_DEPTH = 60
_MOST_PARTS = 200  # of a data set that are told one by one: they go in one message
_HEAP = 1 << 9  # of a class that was not made in C
_PLAIN = (bool, int, float, complex, str)


def _spread(n):
    return range(n) if n <= MOST else (i * (n - 1) // (MOST - 1) for i in range(MOST))


def _name(x):
    module = getattr(x, "__module__", None) or "builtins"
    return f"{'__main__' if module == '__mp_main__' else module}.{x.__qualname__}"  # as a spawned process calls it


def _bytes_of(x):
    """The memory of arrays and tensors as a flat view, or None."""
    kind = type(x)
    try:
        if kind.__module__.partition(".")[0] == "torch" and hasattr(x, "untyped_storage"):
            x = x.detach().cpu().contiguous()
            return memoryview((ctypes.c_char * (x.numel() * x.element_size())).from_address(x.data_ptr())).cast("B"), x
        if getattr(getattr(x, "dtype", None), "hasobject", False):
            return None
        view = memoryview(x)
        return (view if view.c_contiguous else memoryview(view.tobytes())).cast("B") if view.nbytes else b"", x
    except (TypeError, ValueError, BufferError, RuntimeError):
        return None


class _Digest:
    def __init__(self):
        self.hash, self.within, self.left = hashlib.blake2b(digest_size=12), set(), _OBJECTS

    def text(self, *texts):
        for t in texts:
            data = t.encode("utf-8", "surrogatepass") if isinstance(t, str) else t
            self.hash.update(b"%d:" % len(data))
            self.hash.update(data)

    def put(self, x, depth=0):
        """Whether x could be told; what cannot is put as None is."""
        kind = type(x)
        if x is None or kind in _PLAIN or kind is bytes and len(x) < WHOLE:
            self.text(kind.__name__, x if kind is bytes else repr(x))
            return True
        self.left -= 1
        if self.left < 0 or depth > _DEPTH or id(x) in self.within:  # twice the same object is as two alike, as pickling may make it so
            return True
        self.within.add(id(x))
        try:
            return self._inside(x, kind, depth + 1)
        finally:
            self.within.discard(id(x))

    def _inside(self, x, kind, depth):
        if kind in (list, tuple):
            self.text(f"{kind.__name__} {len(x)}")
            for i in _spread(len(x)):
                self.put(x[i], depth)
        elif kind is dict:
            keys = list(x)
            self.text(f"dict {len(keys)}")
            for i in _spread(len(keys)):
                self.put(keys[i], depth)
                self.put(x[keys[i]], depth)
        elif kind in (set, frozenset):
            self.text(f"set {len(x)}", *sorted(digest(y) or "" for y in x))
        elif isinstance(x, type) or kind is types.BuiltinFunctionType:
            self.text(_name(x))
        elif kind is types.ModuleType:
            self.text(x.__name__)
        elif kind is types.FunctionType:
            self.text(_name(x))
            self._code(x.__code__, depth)
            self.put((x.__defaults__, x.__kwdefaults__, [_cell(c) for c in x.__closure__ or ()]), depth)
        elif kind is types.MethodType:
            self.put((x.__func__, x.__self__), depth)
        elif kind is functools.partial:
            self.put((x.func, x.args, x.keywords), depth)
        else:
            return self._thing(x, kind, depth)
        return True

    def _code(self, code, depth):
        self.text(code.co_code, " ".join(code.co_names))
        for c in code.co_consts:
            if isinstance(c, types.CodeType):
                self._code(c, depth)
            else:
                self.put(c, depth)

    def _thing(self, x, kind, depth):
        found = _bytes_of(x)
        if found:
            data, _ = found
            self.text(_name(kind), f"{getattr(x, 'dtype', '')} {tuple(getattr(x, 'shape', ()))} {len(data)}")
            if len(data) <= WHOLE:
                self.hash.update(data)
            else:
                for i in _spread(len(data) // 64):
                    self.hash.update(data[64 * i : 64 * i + 64])
            return True
        if _is_plain(x):
            told = vars(x)
        else:
            try:
                told = x.__reduce_ex__(4)
                told = told if isinstance(told, str) else tuple(list(y) if i >= 3 and y is not None else y for i, y in enumerate(told[:5]))
            except Exception:  # whatever an object's own methods raise: an open file, a lock, a socket
                self.text("NoneType", "None")
                return False
        self.text(_name(kind))
        self.put(told, depth)
        return True


def _is_plain(x):
    """Whether an object is what its attributes are."""
    own = ("__getstate__", "__reduce__", "__reduce_ex__", "__slots__")
    return (isinstance(getattr(x, "__dict__", None), dict) and not isinstance(x, (list, dict, tuple, set, type))
            and not any(vars(c).get(name) or not c.__flags__ & _HEAP for c in type(x).__mro__[:-1] for name in own))


def _cell(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None


def digest(x):
    """A text that is the same for what means the same; None for None and for what cannot be told."""
    if x is None:
        return None
    if type(x) in _PLAIN and len(repr(x)) <= 40:
        return repr(x)
    d = _Digest()
    return f"{type(x).__name__} {d.hash.hexdigest()}" if d.put(x) else None


def parts(setup):
    """What makes a plan's workers what they are: name -> text."""
    dataset = setup.dataset
    out = {"num_workers": str(setup.num_workers), "the kind of loader": setup.flavour, "the data set's class": _name(type(dataset)),
           "collate_fn": digest(setup.collate_fn), "worker_init_fn": digest(setup.init_fn)}
    if _is_plain(dataset) and len(vars(dataset)) <= _MOST_PARTS:
        out.update((f"dataset.{k}", digest(v)) for k, v in vars(dataset).items())
    else:
        out["the data set"] = digest(dataset)
    return {k: v for k, v in out.items() if v is not None}


def differences(here, there):
    """Sentences about what is not alike."""
    return [f"{k} ({there.get(k, 'none')} there, {here.get(k, 'none')} here)" for k in sorted(here.keys() | there.keys()) if here.get(k) != there.get(k)]
