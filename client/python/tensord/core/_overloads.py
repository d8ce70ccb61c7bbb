"""Functions with several forms (max, arange, split, ...), modes of autograd, and the way to NumPy and back. Imported at first use.

Functions named in client/python/surface.toml as `py` are called by the extension with the arguments as they came.
"""

import builtins
import functools
import math
from typing import Any, Callable, TypeVar, cast, overload

from tensord import _C
from tensord._C import Tensor, ops

_tensor = _C.is_tensor
_F = TypeVar("_F", bound=Callable[..., Any])


def _shape(size):
    return tuple(size) if isinstance(size, (tuple, list)) else (size,)


def _flag(value, function, name, kind: Any = bool):
    """A flag is True or False: "no" would count as true."""
    if not isinstance(value, kind):
        raise _C.DTypeError(f"{function}(): argument '{name}' must be bool, not {type(value).__name__}")
    return value


_CPU = _C.device("cpu")


def _made(device, requires_grad, make, *args):
    """make(*args) on a device; None: where this thread makes things."""
    before = -1 if device is None else _C._make_on(device)
    try:
        t = make(*args)
    finally:
        if before >= 0:
            _C._make_on(before)
    return _leaf(t, requires_grad)


def _leaf(t, requires_grad):
    return t if requires_grad is None or requires_grad is False else t.requires_grad_(requires_grad)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _beside(function: _Function) -> _Function:
    """What it makes from nothing lies where its first tensor does."""

    @functools.wraps(function)
    def there(*args, **kw):
        first = next(filter(_tensor, (*args, *kw.values())), None)
        return _made(None if first is None else first.device, None, functools.partial(function, *args, **kw))

    return cast(_Function, there)


def _also(**names: str) -> Any:
    """Arguments by other names: the key is the other name, the value the function's own."""

    def of(function: _Function) -> _Function:
        @functools.wraps(function)
        def called(*args, **kw):
            for name in names.keys() & kw.keys():
                if names[name] in kw:
                    raise _C.DTypeError(f"{function.__name__}() got multiple values for argument '{name}'")
                kw[names[name]] = kw.pop(name)
            return function(*args, **kw)

        return cast(_Function, called)

    return of


def _sizes(sizes, size):
    """Sizes one by one, as one, or by the name `size`."""
    if size is not None:
        sizes = (size,)
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else tuple(sizes)


_INTS, _REALS = {builtins.int}, {builtins.int, builtins.float}


def _numbers(*values):
    """Of tensors their one element."""
    return values if _REALS.issuperset(map(type, values)) else tuple([v.item() if _tensor(v) else v for v in values])


def _number_dtype(*values):
    """The dtype that numbers make together: NumPy's as Python's of their kind."""
    kinds = {*map(type, values)}
    if kinds <= _REALS:
        return _C.int64 if kinds == _INTS else _C.get_default_dtype()
    values = [v.item() if type(v).__module__ == "numpy" and hasattr(v, "item") else v for v in values]
    if any(isinstance(v, complex) for v in values):
        return _C.get_default_dtype().to_complex()
    if all(isinstance(v, bool) for v in values):
        return _C.bool
    if any(isinstance(v, builtins.float) for v in values):  # also a size of a trace that became one
        return _C.get_default_dtype()
    return _C.int64 if all(hasattr(v, "__index__") for v in values) else _C.get_default_dtype()


# ---- creation


def there(device):
    """A device that is there; any other is an error."""
    made = _C.device(str(device))
    if made is not _CPU and made not in _C._devices():
        raise _C.Unsupported(f"there is no device '{made}' here; only {', '.join(repr(str(d)) for d in _C._devices())}")
    return made


def full(size, fill_value, dtype=None, *, device=None, requires_grad=False):
    if _tensor(fill_value):
        dtype, fill_value = dtype or fill_value.dtype, fill_value.item()
    return _made(device, requires_grad, ops.make_full, _shape(size), fill_value, dtype or _number_dtype(fill_value))


def eye(n, m=None, dtype=None, *, device=None, requires_grad=False):
    return _made(device, requires_grad, ops.eye, n, n if m is None else m, dtype or _C.get_default_dtype())


def arange(start=None, end=None, step=1, dtype=None, *, device=None, requires_grad=False):
    if start is None and end is None:
        raise _C.DTypeError("arange() needs its end: arange(5), or arange(start, end, step)")
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    start, end, step = _numbers(start, end, step)
    dtype = dtype or _number_dtype(start, end, step)
    # as PyTorch: as many as the numbers say (of int64, as their whole parts say), in whole steps
    if isinstance(step, builtins.float) and not (dtype.is_floating_point or dtype.is_complex or dtype is _C.int64) and builtins.int(step):
        if not math.isfinite((end - start) / step):
            raise _C.InvalidError(f"arange(): from {start} to {end} by {step} is no number of elements")
        many = math.ceil((end - start) / step)
        start, step = builtins.int(start), builtins.int(step)
        end = start + step * builtins.max(many, -1)
    return _made(device, requires_grad, ops.arange, start, end, step, dtype)


def _ends(function, start, end):
    """The numbers from one of which to the other a row goes, as numbers of Python."""
    given = () if _REALS.issuperset((type(start), type(end))) else [v.ndim if _tensor(v) else 0 for v in (start, end)]
    if builtins.any(given):
        raise _C.ShapeError(f"{function} only supports 0-dimensional start and end tensors, but got start with {given[0]} dimension(s) and end with {given[1]} dimension(s)")
    return _numbers(start, end)


def linspace(start, end, steps, dtype=None, *, device=None, requires_grad=False):
    start, end = _ends("linspace", start, end)
    dtype = dtype or _number_dtype(1.0, start, end)
    if not (dtype.is_floating_point or dtype.is_complex):
        start, end = builtins.int(start), builtins.int(end)  # as PyTorch: whole numbers from one to the other
    if dtype.is_complex:
        import tensord

        parts = [(complex(start).real, complex(end).real), (complex(start).imag, complex(end).imag)]
        return _made(device, requires_grad, lambda: tensord.complex(*(ops.linspace(*p, steps, dtype.to_real()) for p in parts)))
    return _made(device, requires_grad, ops.linspace, float(start), float(end), steps, dtype)


def from_numpy(array):
    """The same memory as a tensor, when the array was allocated inside numpy_memory(), or is one of a tensor, and may be written; else a copy."""
    return _C.asarray(array, device=_CPU)


# ---- shapes


def _follows(size):
    """Is it a number that the program of a trace follows?"""
    return type(size) is _C._Followed


def _program(name):
    """A function of program/_loops.py, which stands above this room."""
    return _C._python("loop_" + name)


@_also(split_size="split_size_or_sections", split_sizes="split_size_or_sections")
def split(input, split_size_or_sections, dim=0):
    size = input.shape[dim]
    if isinstance(split_size_or_sections, bool):
        raise _C.DTypeError("split(): argument 'split_size_or_sections' must be an int or a tuple of ints, not bool")
    if isinstance(split_size_or_sections, int):
        each = split_size_or_sections
        if each < 0 or (each == 0 and size):
            raise _C.InvalidError(f"split() needs a size of at least 1, not {each}")
        if _follows(size) or _follows(each):
            return tuple(_program("split")(input, each, dim))
        split_size_or_sections = [builtins.min(each, size - i) for i in range(0, size, each or 1)] or [0]
    return ops.split(input, tuple(split_size_or_sections), dim)


def chunk(input, chunks, dim=0):
    if not isinstance(chunks, int) or isinstance(chunks, bool):
        raise _C.DTypeError(f"chunk(): argument 'chunks' must be int, not {type(chunks).__name__}")
    if chunks < 1:
        raise _C.InvalidError(f"chunk() needs at least 1 chunk, not {chunks}")
    if _follows(input.shape[dim]):
        return tuple(_program("chunk")(input, chunks, dim))
    if not input.shape[dim]:
        return ops.split(input, (0,) * chunks, dim)
    return split(input, builtins.max(1, -(-input.shape[dim] // chunks)), dim)


def broadcast_shapes(*shapes: Any) -> "_C.Size":
    """The common shape that these shapes broadcast to."""
    shapes = tuple((s,) if isinstance(s, int) else tuple(s) for s in shapes)
    common = [1] * builtins.max([len(s) for s in shapes], default=0)
    for shape in shapes:
        for i in range(-len(shape), 0):
            if shape[i] < 0:
                raise _C.ShapeError(f"broadcast_shapes(): a size is not negative: {shape}")
            if shape[i] not in (1, common[i]) and common[i] != 1:
                raise _C.ShapeError(f"shapes do not broadcast together: {', '.join(map(str, shapes))}: {common[i]} and {shape[i]} at dimension {i}")
            common[i] = common[i] if shape[i] == 1 else shape[i]
    return _C.Size(common)


def _together(tensors):
    """Tensors that were given one by one, or as one tuple or list."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


def broadcast_tensors(*tensors: Any) -> tuple:
    """All tensors seen in their common shape, as views."""
    return ops.broadcast_tensors(_together(tensors))


def meshgrid(*tensors, indexing="ij"):
    """Coordinates of a grid from those of its sides."""
    if indexing not in ("ij", "xy"):
        raise _C.InvalidError(f"meshgrid(): indexing must be 'ij' or 'xy', not {indexing!r}")
    sides = _together(tensors)
    if len({x.dtype for x in sides}) > 1:
        raise _C.DTypeError(f"meshgrid expects all tensors to have the same dtype, not {', '.join(x.dtype.name for x in sides)}")
    return ops.meshgrid(sides, indexing == "xy")


# ---- arithmetic


def div(input, other, rounding_mode=None):
    makers = {None: ops.div, "floor": ops.floor_divide, "trunc": ops.trunc_divide}
    if rounding_mode not in makers:
        raise _C.InvalidError(f"div(): rounding_mode must be None, 'floor' or 'trunc', not {rounding_mode!r}")
    if not _tensor(input) and not _tensor(other):  # two numbers make a tensor, too
        input = _C.tensor(input)
    return makers[rounding_mode](input, other)


def clamp(input, min: Any = None, max: Any = None):
    if min is None and max is None:
        raise _C.InvalidError("clamp(): at least one of 'min' or 'max' must not be None")
    if _tensor(min):
        input, min = _C.maximum(input, min), None
    if _tensor(max):
        input, max = _C.minimum(input if min is None else ops.clamp(input, min, None), max), None
        return input
    return input if min is None and max is None else ops.clamp(input, min, max)


def where(condition, input: Any = None, other: Any = None) -> Any:
    return nonzero(condition, as_tuple=True) if input is None and other is None else ops.where(condition, input, other)


def nonzero(input, *, as_tuple=False) -> Any:
    if not _flag(as_tuple, "nonzero", "as_tuple"):
        return ops.nonzero(input)
    return ops.nonzero(input).unbind(1) if input.ndim else (ops.nonzero(input.reshape(1))[:, 0],)


def _store(self, made, function):
    """`made` in place of self's values; what would lose its kind is refused, as by ops that write in place."""
    def kind(dtype):
        return 0 if dtype is _C.bool else 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1

    if kind(made.dtype) > kind(self.dtype):
        raise _C.DTypeError(f"{function}(): result type {made.dtype} can't be cast to {self.dtype}")
    return self.copy_(made)


def _before(self):
    """self as it is before it is written in place: a copy where a gradient may need its values."""
    return self.clone() if self.requires_grad and _C.is_grad_enabled() else self


# ---- out=


def _into(made, out, function, own_dtype=False):
    """What was made is written to out, a tensor or one for each result, which takes its shape; own_dtype: and has its dtype."""
    if _tensor(made):
        return _put_out(made, out, function, own_dtype)
    if not isinstance(out, (tuple, list)) or len(out) != len(made):
        raise _C.InvalidError(f"{function}(): out is {len(made)} tensors, one for each result, not {len(out) if isinstance(out, (tuple, list)) else _C._a_type(out)}")
    exact = own_dtype or function in ("max", "min")  # which of one tensor, or of two, take wider ones
    filled = [_put_out(value, to, function, exact) for value, to in zip(made, out)]
    return made._make(filled) if hasattr(made, "_make") else type(made)(filled)


def _put_out(made, out, function, own_dtype):
    if not _tensor(out):
        raise _C.DTypeError(f"{function}(): out must be a Tensor, not {_C._a_type(out)}")
    if _C.is_grad_enabled() and (made.requires_grad or out.requires_grad):
        raise _C.AutogradError(f"{function}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad. "
                               "Write into a detach()ed tensor, or leave out= away")
    if builtins.any(not step and n > 1 for step, n in zip(out.stride(), out.shape)):
        raise _C.InvalidError(f"{function}(): unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                              "Please clone() the tensor before performing the operation.")
    if own_dtype and made.dtype is not out.dtype:
        raise _C.DTypeError(f"{function}(): dtype {made.dtype} does not match dtype of out parameter ({out.dtype}): expected out to have dtype {made.dtype}")
    if function in ("arange", "linspace", "logspace") and made.numel() == out.numel():
        made = made.view(out.shape)  # as PyTorch: where there is room, there it stays
    if made.shape != out.shape:
        if out.numel():
            import warnings

            warnings.warn(f"{function}(): out had the shape {tuple(out.shape)} and elements, and has now the shape of the result, {tuple(made.shape)}", stacklevel=3)
        out.resize_as_(made)
    return _store(out, made, function)


def _written(function: Any, exact: bool = False) -> Any:
    """It takes out=: a tensor, or as many as there are results, to which they are written; exact: of the very dtypes that these have."""

    @functools.wraps(function)
    def writes(*args, out: Any = None, **kw):
        made = _C._as(function.__name__, function, *args, **kw)
        return made if out is None else _into(made, out, function.__name__, exact)

    return writes


def _exactly(function: Any) -> Any:
    return _written(function, True)


def gather(input, dim, index, *, sparse_grad=False):
    if _flag(sparse_grad, "gather", "sparse_grad"):
        raise _C.Unsupported("gather(): argument 'sparse_grad' must be False: tensors are dense here, and so are their gradients")
    return ops.gather(input, dim, index)


# ---- reductions


def _extreme(along, over_all, of_two, name):
    def extreme(input, dim: Any = None, keepdim=False, *, other=None) -> Any:
        second = other if other is not None else dim if _tensor(dim) else None
        if second is not None:
            return of_two(input, second)
        return over_all(input) if dim is None else along(input, dim, keepdim)

    extreme.__name__ = name
    return extreme


max = _extreme(ops.max_dim, ops.amax, _C.maximum, "max")
min = _extreme(ops.min_dim, ops.amin, _C.minimum, "min")


def _spread_of(name, dim, correction, keepdim, unbiased):
    """(dim, correction, keepdim) of the forms (unbiased), (dim, unbiased, keepdim) and (dim, *, correction, keepdim)."""
    if isinstance(dim, bool) and unbiased is None:
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = _flag(unbiased, name, "unbiased")
    return dim, 1.0 if correction is None else float(correction), keepdim


def _spread(op, name):
    def spread(input, dim=None, correction=1.0, keepdim=False, *, unbiased=None):
        return op(input, *_spread_of(name, dim, correction, keepdim, unbiased))

    spread.__name__ = spread.__qualname__ = name
    return spread


var = _spread(ops.var, "var")
std = _spread(ops.std, "std")


def _with_mean(op, name):
    def both(input: Tensor, dim: Any = None, correction: Any = 1.0, keepdim: bool = False, *, unbiased: Any = None) -> tuple[Tensor, Tensor]:
        dim, correction, keepdim = _spread_of(name, dim, correction, keepdim, unbiased)
        return op(input, dim, correction, keepdim), _C.mean(input, dim, keepdim)

    both.__name__ = both.__qualname__ = name
    both.__doc__ = f"({'Variance' if name == 'var_mean' else 'Standard deviation'}, mean)."
    return both


var_mean = _with_mean(ops.var, "var_mean")
std_mean = _with_mean(ops.std, "std_mean")


def norm(input, p: Any = 2.0, dim=None, keepdim=False, *, ord=None, dtype=None):
    p = p if ord is None else ord
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise _C.Unsupported(f"norm() knows p='fro', 'nuc' and numbers, not {p!r}")
    if dtype is not None:
        input = input.to(dtype)
    if p == "nuc":
        import tensord

        return tensord.linalg.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if not input.is_floating_point() and not input.is_complex():
        raise _C.DTypeError(f"norm() is for floating point and complex tensors, not for {input.dtype}; give dtype=tensord.float32")
    return ops.norm(input, 2.0 if p is None or p == "fro" else float(p), dim, keepdim)


def softmax(input, dim, dtype=None):
    return ops.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input, dim, dtype=None):
    return ops.log_softmax(input if dtype is None else input.to(dtype), dim)


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(ops.isclose(input, other, rtol, atol, equal_nan).all())


def equal(input, other):
    return input.shape == other.shape and bool((input == other).all())


def numel(input):
    """The number of elements."""
    return input.numel()


def is_floating_point(input):
    """Is its dtype a float?"""
    return input.is_floating_point()


def is_complex(input):
    """Is its dtype complex?"""
    return input.is_complex()


# ---- dtypes


def _kind(x):
    """The dtype of a tensor, or one itself; Python's float, int, bool and complex stand for theirs."""
    return x.dtype if _tensor(x) else ops.empty((0,), x).dtype


class _Limits:
    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class finfo(_Limits):
    """What a float dtype can hold."""

    _rows = {"float16": (16, 2.0**-10, 65504.0, 2.0**-14), "bfloat16": (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
             "float32": (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
             "float64": (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022)}

    def __init__(self, type: Any = None):
        dtype = _kind(type) if type is not None else _C.get_default_dtype()
        real = dtype.to_real()
        if real.name not in self._rows:
            raise _C.DTypeError(f"finfo is for float and complex dtypes, not for {dtype}; see iinfo")
        self.bits, self.eps, self.max, self.smallest_normal = self._rows[real.name]
        self.min, self.tiny, self.dtype = -self.max, self.smallest_normal, real


class iinfo(_Limits):
    """What a whole-number dtype can hold."""

    def __init__(self, type):
        dtype = _kind(type)
        if dtype.is_floating_point or dtype.is_complex or dtype is _C.bool:
            raise _C.DTypeError(f"iinfo is for whole-number dtypes, not for {dtype}; see finfo")
        self.bits = 8 * dtype.itemsize
        self.max = 2 ** (self.bits - dtype.is_signed) - 1
        self.min = -self.max - 1 if dtype.is_signed else 0
        self.dtype = dtype


def result_type(*operands):
    """The dtype that arithmetic over tensors, dtypes and numbers gives."""
    def one(x):
        return x if _tensor(x) else ops.make_full((1,), 0, x) if isinstance(x, _C.dtype) else x

    operands = [one(x) for x in operands]
    tensors = [x for x in operands if _tensor(x)] or [_C.tensor(operands[0])]
    zero = functools.reduce(lambda a, b: _C.mul(a, b), [x.reshape(-1)[:0] if x.ndim else x for x in tensors])
    for x in operands:
        zero = zero if _tensor(x) else _C.mul(zero, x)
    return zero.dtype


# ---- modes


class _Mode:
    """A switch of this thread: a context manager, and a decorator of functions and generators."""

    def __init__(self, set_mode, on):
        self._set, self._on, self._before = set_mode, on, []

    def __enter__(self):
        self._before.append(self._set(self._on))
        return self

    def __exit__(self, *exc):
        self._set(self._before.pop())

    def __call__(self, function: _F) -> _F:
        set_mode, on = self._set, self._on

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with _Mode(set_mode, on):
                return function(*args, **kwargs)

        @functools.wraps(function)
        def turns(*args, **kwargs):
            return _in_turns(set_mode, on, function(*args, **kwargs))

        code = getattr(function, "__code__", None)
        done: Any = turns if code and code.co_flags & _GENERATOR else wrapped
        return done


_GENERATOR = 0x20  # inspect.CO_GENERATOR


def _in_turns(set_mode, on, generator):
    """A generator whose body runs in a mode, and who iterates it does not."""
    step, value = generator.send, None
    while True:
        try:
            with _Mode(set_mode, on):
                given = step(value)
        except StopIteration as end:
            return end.value
        try:
            step, value = generator.send, (yield given)
        except GeneratorExit:
            with _Mode(set_mode, on):
                generator.close()
            raise
        except BaseException as e:
            step, value = generator.throw, e


class no_grad(_Mode):
    """Nothing is recorded in here."""

    def __init__(self, function: Any = None):
        super().__init__(_C._set_grad, False)

    @overload
    def __new__(cls, function: None = None) -> "no_grad": ...

    @overload
    def __new__(cls, function: _F) -> _F: ...

    def __new__(cls, function=None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()
        return self(function)


class enable_grad(_Mode):
    """Ops are recorded again, inside of no_grad()."""

    def __init__(self):
        super().__init__(_C._set_grad, True)


class set_grad_enabled(_Mode):
    """Record or not: at once, and until the end when used with `with`."""

    def __init__(self, mode):
        super().__init__(_C._set_grad, _flag(mode, "set_grad_enabled", "mode"))
        self._before.append(_C._set_grad(mode))

    def __enter__(self):
        return self

    def __call__(self, function: _F) -> _F:
        self.__exit__()  # as a decorator it is for the function alone
        return super().__call__(function)


class inference_mode(_Mode):
    """Nothing is recorded, and what is made in here can never be saved for backward."""

    def __init__(self, mode: Any = True):
        super().__init__(_C._set_inference, _flag(mode, "inference_mode", "mode"))

    @overload
    def __new__(cls, mode: bool = True) -> "inference_mode": ...

    @overload
    def __new__(cls, mode: _F) -> _F: ...

    def __new__(cls, mode: Any = True) -> Any:
        return cls(True)(mode) if callable(mode) else super().__new__(cls)


class service_memory(_Mode):
    """What is made in here lies in memory that only the daemon writes."""

    def __init__(self):
        super().__init__(_C._set_service, True)


class numpy_memory(_Mode):
    """NumPy's own allocations in here land in shared memory: tensord.asarray() of such an array, and sending it, copy nothing.

    What is smaller than 32 KiB, what an array grows into, and what the daemon has no room for is ordinary memory. Arrays may outlive the
    block. As NumPy has it, the choice is the context's (contextvars): what a task or asyncio.to_thread() starts inherits it, a new thread
    does not. The memory is shared as a tensor's is: a forked child sees what its parent writes, and the other way round.
    """

    def __init__(self):
        super().__init__(_C._numpy_handler, None)


class racy(_Mode):
    """What is computed in here may be stepped on by several processes at once (Hogwild); views are what they show."""

    def __init__(self):
        super().__init__(_C._set_racy, True)


class _apart(_Mode):
    """What is made in here is for later: normal tensors outside of every graph, and no part of a trace."""

    _sets = ((_C._set_grad, False), (_C._set_inference, False), (_C._pause_trace, True))

    def __init__(self):
        super().__init__(self._set_all, tuple(on for _, on in self._sets))

    def _set_all(self, on):
        return tuple(set_mode(each) for (set_mode, _), each in zip(self._sets, on))


def _kept(retain_graph, create_graph, function):
    """Whether the graph is to stay: as asked, or as a graph of the gradients wants. PyTorch takes 0 and 1 here."""
    _flag(create_graph, function, "create_graph", int)
    return create_graph if retain_graph is None else _flag(retain_graph, function, "retain_graph", int)


def _tensors(x):
    """A tensor or edge (autograd.graph.GradientEdge), or several: tensors."""
    several = (x,) if _tensor(x) or hasattr(x, "_tensor") else tuple(x)
    return tuple(each._tensor() if hasattr(each, "_tensor") else each for each in several)


def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None, group=None):
    leaves = None if group is None else group._leaves((self,), inputs)
    _backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs)
    if leaves is not None:
        group._average_gradients(leaves)


def _backward(roots, gradients, retain_graph, create_graph, inputs):
    retain = _kept(retain_graph, create_graph, "backward")
    if inputs is None:
        return _C._backward(roots, gradients, retain, create_graph)
    inputs = tuple({id(x): x for x in _tensors(inputs)}.values())  # each once
    if not inputs:
        raise _C.InvalidError("the inputs of backward() cannot be empty")
    _C._backward(roots, gradients, retain, create_graph, inputs)


# ---- NumPy


def _numpy():
    try:
        import numpy
    except ModuleNotFoundError as e:
        from tensord.core import _interop

        raise _interop.missing(e, "numpy", "this wants") from None
    return numpy


def numpy(self, *, force=False):
    np = _numpy()
    if force:
        self = self.detach().cpu()
        return np.array(self.float() if self.dtype is _C.bfloat16 else self)
    return np.asarray(_bytes_of(self))


def _bytes_of(t):
    """Its memory. One wait brings all that there is to know; only what is refused is asked about again."""
    try:
        return memoryview(t)
    except BufferError:
        if _C.is_grad_enabled() and t.requires_grad:
            raise _C.AutogradError("numpy() of a tensor that requires grad; use tensor.detach().numpy()") from None
        if t.dtype is _C.bfloat16:
            raise _C.DTypeError("NumPy has no bfloat16; use tensor.float().numpy()") from None
        raise


def __array__(self, dtype=None, copy=None):
    import numpy as np

    a = np.asarray(_bytes_of(self))
    if dtype is not None and a.dtype != dtype:
        return a.astype(dtype)
    return a.copy() if copy else a


class writing:
    """See Tensor.writing."""

    def __init__(self, tensor, timeout=None):
        self._tensor, self._timeout = tensor, -1 if timeout is None else int(timeout * 1000)

    def __enter__(self):
        self._tensor._write_begin(self._timeout)
        try:
            with no_grad():
                view = memoryview(self._tensor)
            try:
                import numpy as np
            except ImportError:
                return view
            return np.asarray(view)
        except BaseException:
            self._tensor._write_end()
            raise

    def __exit__(self, *exc):
        self._tensor._write_end()


# ---- printing


def set_printoptions(**options):
    """precision, threshold, edgeitems, linewidth, sci_mode, profile ('default', 'short', 'full'): how tensors are shown."""
    from tensord.core import _repr

    _repr.set_options(**options)


def publish(name: str, what: Any, replace: bool = True) -> int:
    """Give tensors a name together: a state dict, the state of a module, or whatever a queue carries; returns the version.

    tensord.open(name) gives all of them as they are at this moment, never some old and some new: a copy of all takes the place of what had the name
    at once. Who opens shares its memory, and keeps it while the next version comes: `what, version = tensord.open(name, newer_than=version,
    timeout=None)` waits for that."""
    if isinstance(what, (dict, list, tuple, _C.Tensor)):
        return _C._publish_tree(name, what, replace)
    return _C._publish_tree(name, what.state_dict() if hasattr(what, "state_dict") else what, replace)
