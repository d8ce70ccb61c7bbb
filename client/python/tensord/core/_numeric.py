"""Functions of PyTorch over the ops of proto/ops/places.toml, scans.toml, shapes.toml and special.toml whose arguments have several forms, and
their forms in place. Imported when one of them is first used; what the extension calls (client/python/surface.toml, `py`) gets the
arguments as they came.
"""

import builtins
import itertools
from typing import Any

from tensord import _C
from tensord.core import _composed, _creation, _overloads, _storage
from tensord._C import Tensor, ops

_is = _C.is_tensor
_wrap = _composed._wrap
_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _word(function, name, value, words):
    """The number of a word among those that are known."""
    if value not in words:
        raise _C.InvalidError(f"{function}(): {name} must be one of {', '.join(words)}, not {value!r}")
    return words.index(value)


# ---- pointwise


@_overloads._written
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    if n < 0:
        raise _C.InvalidError("polygamma(n, x) does not support negative n.")
    return ops.polygamma(n, input)


def polygamma_of(self, n):
    return polygamma(n, self)


def round(input, *, decimals=0):
    return input._round() if decimals == 0 else ops.round_decimals(input, decimals)


def positive(input):
    if input.dtype is _C.bool:
        raise _C.DTypeError("The `+` operator, on a bool tensor is not supported.")
    return input


def resolve(input):
    return input


def where_of(self, condition, other):
    return _C.where(condition, self, other)


# ---- places


def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    src = value if src is None else src
    if reduce is None:
        return input._scatter(dim, index, src)
    how = _word("scatter", "reduce", reduce, ("add", "multiply"))
    if not _is(src):
        src = ops.make_full(index.shape, src, input.dtype)
    return ops.scatter_add(input, dim, index, src) if how == 0 else ops.scatter_fold(input, dim, index, src, 0)


def scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    if reduce is None:
        return self._scatter_(dim, index, value if src is None else src)
    return _overloads._store(self, scatter(self, dim, index, src, value=value, reduce=reduce), "scatter_")


def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    return ops.scatter_reduce(input, dim, index, src, _word("scatter_reduce", "reduce", reduce, _REDUCTIONS), include_self)


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    how = _word("index_reduce", "reduce", reduce, _REDUCTIONS[1:]) + 1
    if not input.ndim:
        return ops.index_reduce(input.reshape(1), dim, index, source.reshape(-1), how, include_self).reshape(())
    return ops.index_reduce(input, dim, index, source, how, include_self)


def _places(indices):
    """Index tensors as x[...] takes them: a mask, of bool or uint8, stands for the places that are true, and small whole numbers are indices too."""
    found: list = []
    for i in indices:
        if i is not None and i.dtype in (_C.bool, _C.uint8):
            found += i.nonzero(as_tuple=True)
        else:
            found.append(i.to(_C.int64) if i is not None and i.dtype in (_C.int8, _C.int16) else i)
    return found


def index_put(input, indices, values, accumulate=False):
    return ops.index_put(input, _places(indices), values if values.dtype is input.dtype or values.ndim else values.to(input.dtype), accumulate)


def index_put_(self, indices, values, accumulate=False):
    return self._index_put_(_places(indices), values if values.dtype is self.dtype or values.ndim else values.to(self.dtype), accumulate)


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    return ops.as_strided_scatter(input, src, tuple(size), tuple(stride), storage_offset or 0)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        return _composed.unique_elements(input, return_inverse, return_counts)
    _, first, inverse, counts = ops.unique_all(ops.slice_ranks(input, dim))
    return _some(ops.index_select(input, dim, first), inverse, counts, return_inverse, return_counts)


def _begins(differs, n):
    """Which of n elements begin a run, where each of the others differs from the one before."""
    return _C.cat([_C.ones(builtins.min(1, n), dtype=_C.bool), differs])


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        if return_inverse or return_counts:
            return _some(*ops.unique_runs(input), return_inverse, return_counts)
        flat = input.reshape(-1)
        return ops.masked_select(flat, _begins(flat[1:] != flat[:-1], flat.shape[0]))
    dim = _wrap(dim, input.ndim)
    rows = input.movedim(dim, 0).reshape(input.shape[dim], input.numel() // builtins.max(input.shape[dim], 1))
    new = _begins((rows[1:] != rows[:-1]).any(1), rows.shape[0])
    _, inverse, counts = ops.unique_runs(new.cumsum(0))
    return _some(ops.index_select(input, dim, new.nonzero().reshape(-1)), inverse, counts, return_inverse, return_counts)


def _some(values, inverse, counts, with_inverse, with_counts):
    found = (values, *((inverse,) if with_inverse else ()), *((counts,) if with_counts else ()))
    return found if len(found) > 1 else values


@_overloads._exactly
@_overloads._beside
def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None) -> Tensor:
    """Where in each sorted row every element would be put: before those equal to it, or (right) behind them."""
    if side not in (None, "left", "right"):
        raise _C.InvalidError(f"searchsorted(): side must be 'left' or 'right', not {side!r}")
    if side == "left" and right:
        raise _C.InvalidError("searchsorted(): side and right can't be set to opposites, got side of left while right was True")
    if sorter is not None:
        sorted_sequence = ops.gather(sorted_sequence, -1, sorter)
    x: Any = input if _is(input) else _C.asarray(input, sorted_sequence.dtype, device=sorted_sequence.device)
    found = ops.searchsorted(sorted_sequence, x, right or side == "right")
    return found.to(_C.int32) if out_int32 else found


@_overloads._exactly
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Between which two boundaries each element lies."""
    if boundaries.ndim != 1:
        raise _C.ShapeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# ---- orders, statistics


def nanmedian(input, dim=None, keepdim=False):
    return ops.nanmedian(input) if dim is None else ops.nanmedian_dim(input, dim, keepdim)


_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name, op):
    @_overloads._beside
    def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
        how = _word(name, "interpolation", interpolation, _BETWEEN)
        if not _is(q) and not all(0 <= each <= 1 for each in (q if isinstance(q, (tuple, list)) else (q,))):
            raise _C.InvalidError(f"{name}() q must be in the range [0, 1] but got {q}")
        return op(input, _C.asarray(q, input.dtype), dim, keepdim, how)

    quantile.__name__ = quantile.__qualname__ = name
    return quantile


quantile, nanquantile = _quantile("quantile", ops.quantile_by), _quantile("nanquantile", ops.nanquantile)


def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under y along a dimension, over the places x or with dx between them."""
    return ops.trapezoid(y, x, 1.0 if dx is None else float(dx), dim)


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under y up to each place but the first along a dimension."""
    return ops.cumulative_trapezoid(y, x, 1.0 if dx is None else float(dx), dim)


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple:
    """The slopes along each dimension; spacing is a number for all, or a number or the places of each."""
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    places = [_wrap(d, input.ndim) for d in dims]
    for k, d in enumerate(places):
        if d in places[:k]:
            raise _C.InvalidError(f"gradient(): dim {d} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    given: Any = [spacing] * len(dims) if not isinstance(spacing, (tuple, list)) else list(spacing)
    if len(given) != len(dims):
        raise _C.InvalidError("gradient(): expected spacing to be unspecified, a scalar, or one for each dimension, but got a spacing argument "
                              f"of length {len(given)} and a dim argument of length {len(dims)}")
    if edge_order not in (1, 2):
        raise _C.InvalidError(f"gradient() only supports edge_order=1 and edge_order=2, not {edge_order}")
    if not input.is_floating_point() and not input.is_complex():
        input = input.to(_C.get_default_dtype())
    return tuple(ops.gradient_along(input, s if _is(s) else None, d, 1.0 if _is(s) else float(s), edge_order) for s, d in zip(given, dims))


def _edges(flat, bins, low, high):
    """The edges of so many equal bins."""
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return _C.linspace(low, high, bins + 1, dtype=flat.dtype)


def _bins(flat, edges):
    """(Between which two edges each element lies, whether it lies between any); the last edge belongs to the last bin."""
    at = _C.where(flat == edges[-1], edges.shape[0] - 2, searchsorted(edges, flat, right=True) - 1)
    return at, _C.logical_and(flat >= edges[0], flat <= edges[-1])


def _counted(flat, at, inside, n, weight):
    each = _C.ones(flat.shape[:1], dtype=flat.dtype) if weight is None else weight.reshape(-1)
    return ops.scatter_add(_C.zeros(n, dtype=flat.dtype), 0, _C.where(inside, at, 0), _C.where(inside, each, 0))


@_overloads._exactly
@_overloads._beside
def histogram(input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(How many elements, or the sum of their weights, lie between each two edges; the edges.) `bins` are so many equal ones, or the edges."""
    flat = input.reshape(-1)
    edges = bins if _is(bins) else _edges(flat, bins, *(range or ((float(flat.min()), float(flat.max())) if flat.shape[0] else (0.0, 1.0))))
    hist = _counted(flat, *_bins(flat, edges), edges.shape[0] - 1, weight)
    if density:
        hist = hist / hist.sum() / (edges[1:] - edges[:-1])
    return _Histogram((hist, edges))


@_overloads._beside
def histogramdd(input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(How many points, or the sum of their weights, lie in each cell of a grid; its edges.) The last dimension holds a point; `bins` are one number,
    one for each of its coordinates, or the edges of each; `range` the lowest and the highest edge of each."""
    points = input.reshape(-1, input.shape[-1])
    d = points.shape[1]
    bins = [bins] * d if isinstance(bins, int) else list(bins)
    if len(bins) != d or range is not None and len(range) != 2 * d:
        raise _C.InvalidError(f"histogramdd(): points of {d} coordinates need as many bins, and two numbers of range for each, not {len(bins)} and {len(range or ())}")
    edges, place, inside = [], 0, _C.ones(points.shape[0], dtype=_C.bool)
    for k, column in enumerate(points.unbind(1)):
        span = range[2 * k : 2 * k + 2] if range is not None else (float(column.min()), float(column.max())) if column.shape[0] else (0.0, 1.0)
        edges.append(bins[k] if _is(bins[k]) else _edges(column, bins[k], *span))
        at, between = _bins(column, edges[-1])
        place, inside = place * (edges[-1].shape[0] - 1) + at, _C.logical_and(inside, between)
    sizes = [e.shape[0] - 1 for e in edges]
    hist = _counted(points, place, inside, _count(sizes), weight).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for k, e in enumerate(edges):
            hist = hist / (e[1:] - e[:-1]).reshape([-1 if j == k else 1 for j in builtins.range(d)])
    return _Histogram((hist, tuple(edges)))


class _Histogram(tuple):
    """(hist, bin_edges)"""

    hist, bin_edges = property(lambda self: self[0]), property(lambda self: self[1])


# ---- shapes


def block_diag(*tensors: Any) -> Tensor:
    """Matrices one after the other down a diagonal; a vector is a row, a number a matrix of one."""
    return ops.block_diag(_composed.atleast_2d(*tensors, tensors[0])[:-1]) if tensors else _C.empty(1, 0)


@_overloads._written
def row_stack(tensors: Any) -> Tensor:
    """Matrices below each other; a vector is a row."""
    return _C.vstack(tensors)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All ways to take one element of each vector, one row each."""
    return ops.cartesian_prod(tensors)


@_overloads._beside
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take r elements of a vector, one row each."""
    if input.ndim != 1:
        raise _C.ShapeError("Expect a 1D vector, but got shape " + str(tuple(input.shape)))
    make = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(make(range(input.shape[0]), r))
    at = _C.tensor(rows, dtype=_C.int64).reshape(len(rows), r)
    return ops.index_select(input, 0, at.reshape(-1)).reshape(len(rows), r)


def atleast_3d(*tensors: Any) -> Any:
    """With at least three dimensions: a vector is a row in the middle one."""
    tensors = _overloads._together(tensors)
    out = tuple(t if t.ndim > 2 else t.unsqueeze(2) if t.ndim == 2 else t.reshape(1, -1, 1) for t in tensors)
    return out[0] if len(out) == 1 else out


def _cut(name, least, dim_of):
    @_overloads._also(indices="indices_or_sections", sections="indices_or_sections")
    def cut(input, indices_or_sections):
        if input.ndim < least:
            raise _C.ShapeError(f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} dimensions!")
        dim = dim_of(input)
        if isinstance(indices_or_sections, int) and input.shape[dim] % builtins.max(indices_or_sections, 1):
            raise _C.InvalidError(f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is not divisible by the split_size {indices_or_sections}!")
        return _composed.tensor_split(input, indices_or_sections, dim)

    cut.__name__ = name
    return cut


hsplit, vsplit, dsplit = _cut("hsplit", 1, lambda x: 0 if x.ndim == 1 else 1), _cut("vsplit", 2, lambda x: 0), _cut("dsplit", 3, lambda x: 2)


@_overloads._also(axis0="dim0", axis1="dim1")
def swapaxes_(self, dim0, dim1):
    return self._become(self.transpose(dim0, dim1))


def as_strided_(self, size, stride, storage_offset=None):
    return self._become(_composed.as_strided(self, size, stride, storage_offset))


def resize_(self, *sizes, size=None, memory_format=None):
    """More elements than there were are what memory holds; then it is other memory, which views of the old do not see."""
    from tensord.core import _layouts

    size = _overloads._sizes(sizes, size)
    if any(n < 0 for n in size):
        raise _C.ShapeError(f"resize_(): sizes must not be negative, but are {tuple(size)}")
    if memory_format is _layouts.preserve_format:
        raise _C.Unsupported("resize_(): Unsupported memory format Preserve")
    order = None if memory_format is None else _layouts._order(memory_format, "resize_")
    if order is not None and len(order) != len(size):
        raise _C.ShapeError(f"resize_(): required rank {len(order)} tensor to use {memory_format!r} format")
    if self.requires_grad:
        raise _C.AutogradError("cannot resize variables that require grad")
    if memory_format is not None:
        resize_(self, size=(_count(size),))
        return self._become(self.as_strided(size, _row_major(size) if order is None else _creation._strides_in(size, order)))
    if tuple(size) == tuple(self.shape):
        return self  # its strides, too
    want, have = _count(size), self.numel()
    with _overloads.no_grad():
        if want > have:
            larger = _C.empty(want, dtype=self.dtype, device=self.device)
            larger[:have].copy_(self.reshape(-1))
            return self._become(larger.view(size))
        return self._become(self.view(-1)[:want].view(size) if self.is_contiguous() else self.as_strided(size, _row_major(size)))


def _count(size):
    n = 1
    for s in size:
        n *= s
    return n


def _row_major(size):
    return tuple(_count(size[k + 1:]) for k in range(len(size)))


def resize_as_(self, the_template, *, memory_format=None):
    from tensord.core import _layouts

    if memory_format is _layouts.preserve_format:
        laid = (f for f in (_layouts.channels_last, _layouts.channels_last_3d) if _layouts._is_laid(the_template, f))
        memory_format = _layouts.contiguous_format if the_template.is_contiguous() else next(laid, _layouts.contiguous_format)
    return resize_(self, size=tuple(the_template.shape), memory_format=memory_format)


def sum_to_size(self, *sizes, size=None):
    size = _overloads._sizes(sizes, size)
    if not any(map(_overloads._follows, (*self.shape, *size))) and tuple(self.shape) == size:
        return self
    whole = not self.is_floating_point() and not self.is_complex()
    return ops.sum_to(self.to(_C.int64) if whole else self, size)


def nextafter(input, other):
    halves = (_C.float16, _C.bfloat16)
    if not (_C.is_tensor(input) and _C.is_tensor(other) and input.dtype is other.dtype and input.dtype in halves):
        return ops.nextafter(input, other)
    # Halves are computed as floats, whose next number is theirs again: here as integers, which follow each other as numbers of one sign do.
    x, y = _overloads.broadcast_tensors(input.detach(), other.detach())
    step = ((x < y) == (x > 0)).to(_C.int16) * 2 - 1
    least = ops.copysign(ops.make_full((), 1, _C.int16).view(x.dtype), y)
    at = ops.where(x == 0, least, (x.view(_C.int16) + step).view(x.dtype))
    at = ops.where(x == y, y, ops.where(x.isnan() | y.isnan(), x + y, at))
    step = at - x
    return at if not input.requires_grad else ops.where((x == y) | ~step.isfinite(), at, input + step)


def narrow_copy(input, dim, start, length):
    return input.narrow(dim, start, length).clone()


# ---- copies of views


def _copied(name, view):
    def copy(input: Tensor, *args: Any, **kw: Any) -> Any:
        made = view(input, *args, **kw)
        return tuple(part.clone() for part in made) if isinstance(made, tuple) else made.clone()

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"{name[:-5]}(), copied."
    return _overloads._exactly(copy)


_VIEWS: Any = {"alias": lambda x: x, "as_strided": _composed.as_strided, "detach": Tensor.detach, "diagonal": Tensor.diagonal, "expand": Tensor.expand, "permute": Tensor.permute,
               "select": Tensor.select, "slice": ops.slice, "split": Tensor.split, "split_with_sizes": Tensor.split, "squeeze": Tensor.squeeze, "t": Tensor.t, "transpose": Tensor.transpose,
               "unbind": Tensor.unbind, "unfold": Tensor.unfold, "unsqueeze": Tensor.unsqueeze, "view": Tensor.reshape}
for _name, _view in _VIEWS.items():
    globals()[_name + "_copy"] = _copied(_name + "_copy", _view)


# ---- in place: what is made takes the place of what was there


def _placed(name):
    def in_place(self, *args, **kw):
        made = getattr(_overloads._before(self), name)(*args, **kw)
        if kw.get("dtype") is not None and made.dtype is not self.dtype:
            raise _C.DTypeError(f"Bad in-place call: input tensor dtype {self.dtype} and output tensor dtype {made.dtype} should match")
        return _overloads._store(self, made, name + "_")

    in_place.__name__ = in_place.__qualname__ = name + "_"
    return in_place


for _name in ("cumsum", "cumprod", "float_power", "index_copy", "index_fill", "index_reduce", "ldexp", "masked_scatter", "mvlgamma", "nextafter", "polygamma", "put", "renorm", "round", "scatter_reduce",
              "tril", "triu"):
    globals()[_name + "_"] = _placed(_name)


def clip_(self, min=None, max=None):
    return _composed.clamp_(self, min, max)


def clamp_min_(self, min):
    return _composed.clamp_(self, min)


def clamp_max_(self, max):
    return _composed.clamp_(self, None, max)


# Methods that write in place are functions too.
_IN_PLACE = tuple("""abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_
cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_
rad2deg_ reciprocal_ relu_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_ conj_physical_""".split())


def _function(name):
    method = getattr(Tensor, name)

    def function(input: Tensor, *args: Any, **kw: Any) -> Tensor:
        return method(input, *args, **kw)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"input.{name}()."
    return function


def __getattr__(name):
    if name in _IN_PLACE:
        return _function(name)
    raise AttributeError(name)


def fill(input: Tensor, value: Any) -> Tensor:
    """The value in the shape of input."""
    return ops.masked_fill(input, _C.ones((), dtype=_C.bool, device=input.device), value) if not _is(value) else value.to(input.dtype).expand(input.shape).clone()


# ---- what a tensor is


def cfloat(self, *, memory_format=None):
    return self.to(_C.complex64, memory_format=memory_format)


def chalf(self, *, memory_format=None):
    raise _C.DTypeError("chalf(): there is no complex32; cfloat() makes complex64")


def cdouble(self, *, memory_format=None):
    return self.to(_C.complex128, memory_format=memory_format)


def ndimension(self):
    return self.ndim


def is_signed(input):
    return input.dtype is not _C.bool and input.dtype is not _C.uint8


def is_same_size(input, other):
    return input.shape == other.shape


def no(input):
    return False


def get_device(input):
    return -1 if input.device.type == "cpu" else input.device.index or 0


# ---- methods alone


def hardshrink_of(self, lambd=0.5):
    return _C._nn.hardshrink(self, lambd)


def prelu_of(self, weight):
    return _C._nn.prelu(self, weight)


def is_set_to(self, tensor):
    if not _is(tensor):
        raise _C.DTypeError(f"is_set_to(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    return self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape and self.stride() == tensor.stride() and self.dtype is tensor.dtype


def to_sparse(self, *args, **kwargs):
    raise _C.Unsupported("to_sparse(): tensors are dense here; x.nonzero() has the places of what is not zero, and x[x != 0] the values")


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    if isinstance(source, _storage._Storage):
        source = source._whole.view(self.dtype) if isinstance(source, _storage.UntypedStorage) else source._whole
    if source is None:
        source = _C.empty(0, dtype=self.dtype, device=self.device)
    if not _is(source):
        raise _C.DTypeError(f"set_(): argument 'source' must be Tensor or Storage, not {type(source).__name__}")
    if source.dtype is not self.dtype:
        raise _C.DTypeError(f"set_(): source is {source.dtype}, and the tensor {self.dtype}")
    if size is not None:
        size = _overloads._sizes((size,), None)
        stride, first = _row_major(size) if stride is None else tuple(stride), source.storage_offset() + storage_offset
        need = 0 if 0 in size else (1 + first + sum((n - 1) * step for n, step in zip(size, stride))) * self.element_size()
        if min((first, *size, *stride)) < 0 or len(size) != len(stride) or need > source._storage_nbytes():
            raise _C.ShapeError(f"set_(): sizes {size} and strides {stride} from {first} on need a storage of {need} bytes, but it has {source._storage_nbytes()}")
        source = source.detach().as_strided(size, stride, first)
    trained = self.requires_grad and self.is_leaf
    self._become(source.detach().view(source.shape) if source.is_contiguous() else source.detach())
    return self.requires_grad_() if trained else self


def _as_part(self, value):
    kind = self.dtype.to_real()
    return (value.to(kind) if _is(value) else ops.make_full((), value, kind)).expand(self.shape)


# All of it is written, with the other part as it was: so gradients go on through both.
def set_real(self, value):
    if self.is_complex():
        self.copy_(_creation.complex(_as_part(self, value), self.imag))
    else:
        self.copy_(value) if _is(value) else self.fill_(value)


def set_imag(self, value):
    if not self.is_complex():
        raise _C.DTypeError(f"imag is for complex numbers, not for a tensor of {self.dtype}")
    self.copy_(_creation.complex(self.real, _as_part(self, value)))


def to_dense(self, dtype=None):
    return self if dtype is None else self.to(dtype)


def _one_by_one(name, self, others, function):
    if not callable(function):
        raise _C.DTypeError(f"{name}(): argument 'callable' is no function, but {type(function).__name__}")
    if self.requires_grad:
        raise _C.AutogradError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    made = _C.tensor([function(*row) for row in zip(*columns)], dtype=self.dtype, device=self.device) if self.numel() else self
    return self.copy_(made.reshape(self.shape))


def apply_(self, callable):
    return _one_by_one("apply_", self, (), callable)


def map_(self, tensor, callable):
    return _one_by_one("map_", self, (tensor,), callable)


def map2_(self, x, y, callable):
    return _one_by_one("map2_", self, (x, y), callable)
