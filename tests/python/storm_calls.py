"""Every function of the package, called with whatever comes: storm_calls.py SEED SECONDS NOTE.

Each call may succeed or raise an exception that says what was wrong. What else can happen (a crash, a call without an end, an internal
error, a daemon that goes away) is a fault; the last call stands in the file NOTE, so that whoever started this can tell which it was.
A seed gives the same calls.
"""
import faulthandler
import inspect
import mmap
import os
import random
import resource
import sys
import time
import traceback
import types

import tensord as td
from tensord import _C


class Mine(Exception):
    """What the hostile objects raise: it comes through unchanged."""


class Raises:
    """Refuses whatever is asked of it."""

    def refuse(self, *arguments):
        raise Mine("refused")

    __index__ = __int__ = __float__ = __complex__ = __bool__ = __len__ = __iter__ = __getitem__ = __str__ = __repr__ = __hash__ = __eq__ = refuse
    __buffer__ = __array__ = __dlpack__ = __dlpack_device__ = __call__ = __enter__ = __next__ = __reduce_ex__ = refuse


class Lies:
    """Answers with what nobody asked for."""

    __index__ = __float__ = __complex__ = __bool__ = lambda self: "no"
    __len__ = lambda self: 2**62
    __iter__ = lambda self: iter(["no"] * 300)
    __array__ = __dlpack__ = lambda self, *a, **k: 5
    __dlpack_device__ = lambda self: (1, 2, 3)


class Grows(list):
    """A list that changes while it is read."""

    def __len__(self):
        super().append(None)
        return super().__len__()


class Sub(td.Tensor):
    """A subclass with room of its own."""


def hostile_values(rng):
    """What is handed in: a list of functions, so that each call gets fresh ones."""
    loop = []
    loop.append(loop)
    deep = 1
    for _ in range(200):
        deep = [deep]
    tensors = [
        lambda: td.ones(2, 3), lambda: td.ones(()), lambda: td.ones(0), lambda: td.zeros(0, 3), lambda: td.arange(6).reshape(2, 3),
        lambda: td.ones(3, dtype=td.bool), lambda: td.ones(2, 2, dtype=td.complex64), lambda: td.ones(2, 3, dtype=td.bfloat16),
        lambda: td.ones(1).expand(2**14), lambda: td.ones(4, 4).T[1:, ::2], lambda: td.ones(1, 1, 1, 1, 1, 1, 1, 1),
        lambda: td.ones(3, requires_grad=True), lambda: (td.ones(3, requires_grad=True) * 2)[1:], lambda: td.tensor([2**62, -(2**63), 7]),
        lambda: td.tensor([float("nan"), float("inf"), -0.0]), lambda: td.ones(3)[td.tensor([9])],  # a value that never comes
        lambda: Sub(td.ones(2)), lambda: td.ones(64, 64), lambda: td.full((3,), 255, dtype=td.uint8), lambda: td.randint(0, 3, (2, 3)),
        lambda: td.ones(2, 3)[td.ones(2, 3) > 0]]  # a shape that is not known yet
    numbers = [0, 1, -1, 2, 3, 5, 63, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40, True, False,
               0.0, -0.0, 0.5, -1.5, 1e-320, 1e300, float("nan"), float("inf"), -float("inf"), 1j, complex("nan+infj")]
    texts = ["", "x", "mean", "sum", "none", "ij", "fro", "cpu", "cpu:0", "cuda", "float32", "a/b", "x" * 5000, "nul\0nul", "\ud800", "é\U0001f600", "%s%n%999d", "../../etc"]
    others = [None, ..., NotImplemented, loop, deep, {}, {"a": 1}, {1, 2}, range(3), range(3000), slice(None), slice(None, None, 2), slice(2, 1, -1),
              slice(2**70, -(2**70)), slice("a", "b"), b"", b"bytes" * 9, bytearray(b"x"), memoryview(b"abcd"), memoryview(b"abcd")[::2], int, float, complex,
              bool, str, object, object(), type, len, lambda *a, **k: 1, types.SimpleNamespace(shape=(2,), dtype=td.float32), sys, td, Raises(), Lies(),
              iter([1, 2]), (k for k in ()), Grows([1, 2]), td.no_grad(), td.device("cpu"), Mine("x"), Mine]
    dtypes = [getattr(td, n) for n in ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")]
    lists = [
        lambda: [v() for v in rng.choices(tensors, k=rng.randrange(4))], lambda: tuple(rng.choices(numbers, k=rng.randrange(5))),
        lambda: rng.choices(numbers + others, k=rng.randrange(4)), lambda: (2, 3), lambda: [0, 1], lambda: [1] * rng.choice([9, 65, 1000]),
        lambda: [td.ones(2)] * rng.choice([2, 65, 300]), lambda: [[1, 2], [3]], lambda: [[True, 2.5], [1j, 3]], lambda: (slice(None), None, ..., [0]),
        lambda: (td.ones(3) > 0, 1), lambda: (None,) * 12]
    simple = [lambda v=v: v for kind in (numbers, texts, others, dtypes) for v in rng.sample(kind, len(kind))]
    made = tensors + lists
    try:
        import numpy as np
        arrays = [np.ones(3), np.ones((2, 0)), np.array("text"), np.array([object()], dtype=object), np.float32(2), np.int64(-3), np.ones(3, ">f4"), np.ones(4)[::-2],
                  np.datetime64("2020-01-01"), np.broadcast_to(np.ones(1), (3, 3)), np.zeros(2, [("a", "i4")]), np.ones((1,) * 12), np.bool_(True), np.ones(2, "g")]
        simple += [lambda v=v: v for v in arrays]
    except ImportError:
        pass
    return made, simple


# These end the process's connection, wait for ever when they are told to, open files, or (_numpy_*) are our own way to raw addresses.
APART = {"save", "load", "_numpy_handler", "_numpy_bytes", "connect", "disconnect", "_goodbye", "_set_package", "_take", "_RawQueue", "_RawGroup", "Group", "open", "status", "_write_begin", "_lend",
         "_on_saved"}
NO_CALL_TAKES = 40  # seconds, on the slowest machine
LEAST = 200  # calls, where the time is too short for more
# What a function may raise for what it was given. SystemError, and those that follow from a lost connection, are faults.
GOOD = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError, BufferError, MemoryError, NotImplementedError,
        StopIteration, ImportError, Mine)
BAD = (td.InternalError, td.ConnectionLost, td.Cancelled, SystemError)


def functions():
    """(name, callable, takes a tensor first) of all there is."""
    found = {}
    for name in dir(_C):
        if name not in APART and callable(getattr(_C, name)) and not isinstance(getattr(_C, name), type):
            found["_C." + name] = getattr(_C, name)
    for name in dir(td):
        thing = getattr(td, name)
        if not name.startswith("_") and callable(thing) and name not in APART | set(dir(_C)) and name != "Queue":
            found["td." + name] = thing
    for place in ("ops", "array_api", "nn", "optim", "autograd", "nn.functional", "array_api.fft"):
        module = td
        for part in place.split("."):
            module = getattr(module, part, None)
        for name in dir(module) if module else ():
            if not name.startswith("_") and callable(getattr(module, name)):
                found[f"{place}.{name}"] = getattr(module, name)
    methods = {}
    for name in dir(td.Tensor):
        thing = getattr(td.Tensor, name)
        if name in APART or name in ("__class__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__setattr__", "__delattr__"):
            continue
        if callable(thing):
            methods["Tensor." + name] = thing
    return found, methods


def parameters(f):
    try:
        return list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return None


class Storm:
    def __init__(self, seed, note):
        self.rng = random.Random(seed)
        self.made, self.simple = hostile_values(self.rng)
        self.found, self.methods = functions()
        self.names = [*self.found, *self.methods]
        self.parameters = {n: parameters(f) for n, f in {**self.found, **self.methods}.items()}
        self.keywords = ["dim", "axis", "keepdim", "out", "dtype", "device", "requires_grad", "size", "shape", "other", "input", "dims", "copy", "no_such_thing", "x", "\ud800"]
        self.faults, self.calls, self.raised = [], 0, 0
        with open(note, "r+b") as f:
            self.note = mmap.mmap(f.fileno(), 4096)

    def value(self):
        if self.rng.random() < 0.5:
            return self.rng.choice(self.made)()
        return self.rng.choice(self.simple)()

    def likely(self):
        """A value that gets further: most calls should not fail at the first argument."""
        return self.rng.choice(self.made[:6])()

    def say(self, text):
        data = text.encode("utf-8", "backslashreplace")[:4000]
        self.note[: len(data) + 1] = data + b"\n"

    def by_name(self, name):
        """What an argument of this name is likely to be."""
        one = lambda *values: self.rng.choice(values)  # noqa: E731
        if name in ("dim", "axis", "dim0", "dim1", "start", "k", "i", "n", "diagonal", "correction", "steps"):
            return one(0, 1, -1, 2)
        if name in ("size", "shape", "dims", "axes", "repeats", "sizes", "kernel_size", "stride", "padding", "s"):
            return one((2, 3), (1, 1), 2, (0, 1), (6,))
        if name in ("dtype",):
            return one(None, td.float32, td.int64, td.bool, td.float64)
        if name in ("tensors", "arrays", "params", "parameters"):
            return [self.likely(), self.likely()]
        if name in ("keepdim", "keepdims", "descending", "copy", "inplace", "bias", "largest", "retain_graph"):
            return one(True, False)
        if name in ("index", "target", "indices"):
            return one(td.zeros(2, 3, dtype=td.int64), td.tensor([0, 1]), td.tensor([7]))
        if name in ("device",):
            return None
        if name in ("lr", "eps", "p", "value", "alpha", "fill_value", "other", "y", "x2") and self.rng.random() < 0.5:
            return one(0.5, 1, 2.0)
        return self.likely()

    def near(self, parameters):
        """Arguments that fit, but for one or two."""
        wrong = self.rng.choices(range(len(parameters)), k=self.rng.choice([0, 1, 1, 2])) if parameters else []
        arguments, keywords = [], {}
        for k, p in enumerate(parameters):
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.default is not p.empty and k not in wrong and self.rng.random() < 0.6:
                if not keywords and p.kind is not p.KEYWORD_ONLY:
                    break
                continue
            value = self.value() if k in wrong else self.by_name(p.name)
            if p.kind is p.KEYWORD_ONLY or keywords:
                keywords[p.name] = value
            else:
                arguments.append(value)
        return arguments, keywords

    def arguments(self, name):
        parameters = self.parameters.get(name)
        if parameters is not None and self.rng.random() < 0.7:
            return self.near(parameters)
        n = self.rng.choice([0, 1, 1, 2, 2, 3, 4, 7])
        arguments = [self.value() if self.rng.random() < 0.7 else self.likely() for _ in range(n)]
        if name in self.methods and self.rng.random() < 0.95:
            arguments.insert(0, self.value() if self.rng.random() < 0.3 else self.likely())
        keywords = {self.rng.choice(self.keywords): self.value() for _ in range(self.rng.choice([0, 0, 0, 1, 2]))}
        return arguments, keywords

    def one(self, name):
        f = self.found.get(name) or self.methods[name]
        self.say(f"{self.calls} {name} (making its arguments)")
        try:
            arguments, keywords = self.arguments(name)
        except td.Error:
            return
        self.say(f"{self.calls} {name} {safe(arguments)} {safe(keywords)}")
        self.calls += 1
        self.judge(lambda: self.use(f(*arguments, **keywords)))

    def use(self, result):
        """A result is looked at, too; a module of nn or an iterator is used."""
        if _C.is_tensor(result) and self.rng.random() < 0.3:
            result.shape, repr(result) if result.numel() < 1000 else None
        elif isinstance(result, td.nn.Module):
            result(self.likely())

    def attribute(self):
        name = self.rng.choice([n for n in dir(td.Tensor) if not callable(getattr(td.Tensor, n))] + ["grad", "requires_grad", "data", "new", "shape"])
        value = self.value()
        self.say(f"{self.calls} Tensor.{name} = {safe(value)}")
        self.calls += 1
        t = self.likely()
        self.judge(lambda: setattr(t, name, value) if self.rng.random() < 0.9 else delattr(t, name))

    def judge(self, f):
        try:
            f()
        except (*BAD, RuntimeError, OSError, EOFError, *GOOD) as e:
            self.raised += 1
            expected = isinstance(e, (td.Error, *GOOD)) and not isinstance(e, BAD)
            if not expected:
                self.fault(e)
            elif isinstance(e, td.Error) and not str(e).strip():
                self.fault(e)
        except Exception as e:  # noqa: BLE001
            self.fault(e)
        finally:
            td.set_eager_errors(False)  # or making the next call's values raises what is meant for the call

    def fault(self, e):
        text = "".join(traceback.format_exception(e)[-3:])
        self.faults.append(bytes(self.note[:]).split(b"\n")[0].decode("utf-8", "replace") + "\n" + text)

    def restore(self):
        """Modes and settings that a call has changed."""
        _C._set_grad(True), _C._set_inference(False), _C._set_service(False), _C._set_racy(False)
        td.set_default_dtype(td.float32)
        td.set_printoptions(profile="default")


def safe(x):
    """A text for any value, that asks nothing of it."""
    if _C.is_tensor(x):
        return "<tensor>"
    if isinstance(x, (list, tuple)) and not isinstance(x, Grows):
        return "[" + ", ".join(safe(v) if not isinstance(v, (list, tuple)) else "[..]" for v in x[:8]) + (", .." if len(x) > 8 else "") + "]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {safe(v)}" for k, v in list(x.items())[:4]) + "}"
    if type(x) in (int, float, complex, bool, str, bytes, type(None), slice, td.dtype):
        return repr(x)[:60]
    return f"<{type(x).__module__}.{type(x).__name__}>"


def main(seed, seconds, note):
    sys.setrecursionlimit(400)
    if "LD_PRELOAD" not in os.environ:  # the address sanitizer needs room
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # what Python itself is made to fill: a MemoryError, and not the machine's
    storm = Storm(seed, note)
    end = time.monotonic() + seconds
    order = []
    while (time.monotonic() < end or storm.calls < LEAST) and len(storm.faults) < 20:
        if not order:
            order = storm.rng.sample(storm.names, len(storm.names))
        name = order.pop()
        faulthandler.dump_traceback_later(NO_CALL_TAKES, exit=True)
        storm.one(name)
        if storm.calls % 9 == 0:
            storm.attribute()
        if storm.calls % 25 == 0:
            storm.say(f"{storm.calls} sync after {name}")
            storm.restore()
            storm.judge(td.sync)
    storm.judge(td.sync)
    storm.restore()
    storm.judge(td.sync)
    alive = td.ones(3).sum().item() == 3
    for text in storm.faults:
        print("FAULT", text)
    print(f"{storm.calls} calls of {len(storm.names)} functions, {storm.raised} raised, alive: {alive}")
    return 1 if storm.faults or not alive else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
