"""Functions of PyTorch that are put together from ops of the table; imported when one of them is first used.

Gradients pass through the ops they are made from, so nothing here knows of autograd. What the extension calls (client/python/surface.toml,
`py`) gets the arguments as they came.
"""

import builtins
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops
from tensord.core._layouts import _taking
from tensord.core._storage import _LEGACY, _Storage, storage as storage, untyped_storage as untyped_storage

_is = _C.is_tensor


def _wrap(dim, ndim):
    if not hasattr(dim, "__index__") or isinstance(dim, bool):
        raise _C.DTypeError(f"argument 'dim' must be int, not {builtins.type(dim).__name__}")
    if not -builtins.max(ndim, 1) <= dim < builtins.max(ndim, 1):
        raise _C.OutOfRange(f"Dimension out of range (expected to be in range of [{-builtins.max(ndim, 1)}, {builtins.max(ndim, 1) - 1}], but got {dim})")
    return dim % builtins.max(ndim, 1)


def _flat(input, dim):
    """(input, dim), with all dimensions as one when none is named."""
    return (input.reshape(-1), 0) if dim is None or not input.ndim and _wrap(dim, 0) == 0 else (input, _wrap(dim, input.ndim))


# ---- creation


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The tensor itself when it has that dtype, else a new one with its values."""
    return _C.asarray(data, dtype, device=device)


def _of_data_or_shape(dtype, data):
    shape = data[0] if len(data) == 1 and isinstance(data[0], _C.Size) else data
    if len(shape) == 1 and (_C.is_tensor(shape[0]) or not hasattr(shape[0], "__index__") or getattr(shape[0], "ndim", 0)):
        return _C.tensor(data[0], dtype=dtype)
    return ops.empty(tuple(shape) if data else (0,), dtype)


class _TensorType(type):
    """PyTorch's tensor types: called, they make tensors of their dtype; isinstance(x, FloatTensor) asks for it, and annotations say `FloatTensor | None`."""

    dtype: Any

    def __call__(cls, *data: Any) -> Tensor:
        return _of_data_or_shape(cls.dtype, data)

    def __instancecheck__(cls, x: Any) -> bool:
        return _C.is_tensor(x) and x.dtype is cls.dtype


def _legacy(dtype) -> Any:
    doc = "A tensor of this dtype from nested data; of integers or a Size, one of that shape with whatever its memory holds."
    return _TensorType(_LEGACY[dtype] + "Tensor", (), {"dtype": dtype, "__doc__": doc, "__module__": "tensord"})


FloatTensor, DoubleTensor, LongTensor, IntTensor = _legacy(_C.float32), _legacy(_C.float64), _legacy(_C.int64), _legacy(_C.int32)
ByteTensor, BoolTensor, CharTensor, ShortTensor = _legacy(_C.uint8), _legacy(_C.bool), _legacy(_C.int8), _legacy(_C.int16)
HalfTensor, BFloat16Tensor = _legacy(_C.float16), _legacy(_C.bfloat16)


def type_(self, dtype=None, non_blocking=False):
    if dtype is None:
        return f"tensord.{_LEGACY[self.dtype]}Tensor"
    if isinstance(dtype, str):
        found = [d for d, name in _LEGACY.items() if dtype.split(".", 1)[-1] == name + "Tensor"]
        if not found:
            raise _C.InvalidError(f"invalid type: '{dtype}'; a dtype says it as well: tensord.float32")
        dtype = found[0]
    return self.to(dtype.dtype if isinstance(dtype, _TensorType) else dtype)


def _new(make) -> Any:
    @_taking
    def new(self, *sizes, size=None, dtype=None, device=None, requires_grad=False):
        return _overloads._made(device or self.device, requires_grad, make, _overloads._sizes(sizes, size), dtype or self.dtype)

    return new


new_zeros, new_ones = _new(lambda size, dtype: ops.make_full(size, 0, dtype)), _new(lambda size, dtype: ops.make_full(size, 1, dtype))
new_empty = _new(ops.empty)


@_taking
def new_empty_strided(self, size, stride, dtype=None, device=None, requires_grad=False):
    return _overloads._made(device or self.device, requires_grad, ops.empty_strided, tuple(size), tuple(stride), dtype or self.dtype)


@_taking
def new_full(self, size, fill_value, dtype=None, device=None, requires_grad=False):
    return _overloads._made(device or self.device, requires_grad, ops.make_full, tuple(size), fill_value, dtype or self.dtype)


@_taking
def new_tensor(self, data, dtype=None, device=None, requires_grad=False):
    return _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def new(self, *data, device=None):
    return _overloads._made(device or self.device, False, _of_data_or_shape, self.dtype, data)


# ---- in place


def rdiv(self, other):
    return ops.div(other, self)


def div_(self, other, rounding_mode=None):
    return _overloads._store(self, _overloads.div(self, other, rounding_mode), "div_") if rounding_mode is not None else self.__itruediv__(other)


def clamp_(self, min=None, max=None):
    return _overloads._store(self, _overloads.clamp(_overloads._before(self), min, max), "clamp_")


def clamp_min(input, min):
    return _overloads.clamp(input, min)


def clamp_max(input, max):
    return _overloads.clamp(input, None, max)


def fill_diagonal_(self, fill_value, wrap=False):
    """wrap: the diagonal of a tall matrix begins anew, a row below its last place."""
    if self.ndim < 2:
        raise _C.ShapeError("dimensions must larger than 1")
    if wrap and self.ndim == 2 and self.shape[0] > self.shape[1] + 1:
        rows, columns = self.shape
        for first in range(0, rows, columns + 1):
            _C.diagonal(self[first:first + columns]).fill_(fill_value)
        return self
    if self.ndim == 2:
        _C.diagonal(self).fill_(fill_value)
    elif _overloads._follows(self.shape[0]):  # strides are nothing that a trace follows
        self[(_C.arange(self.shape[0]),) * self.ndim] = fill_value
    else:
        as_strided(self, (self.shape[0],), (builtins.sum(self.stride()),), self.storage_offset()).fill_(fill_value)
    return self


def unsqueeze_(self, dim):
    return self._become(self.unsqueeze(dim))


def squeeze_(self, dim=None):
    return self._become(self.squeeze(dim))


def transpose_(self, dim0, dim1):
    return self._become(self.transpose(dim0, dim1))


def t_(self):
    return self._become(self.t())


def detach_(self):
    if self._is_view():
        raise _C.AutogradError("a view cannot be detached in place, as its history is its base's; use detach() instead")
    with _overloads.no_grad():
        self._become(self.detach())
    return self.requires_grad_(False)


# ---- shapes


def roll(input, shifts, dims=None):
    if not input.ndim and dims not in (None, (), []):
        raise _C.OutOfRange(f"roll(): the dimension {dims} of a tensor that has no dimensions")
    return ops.roll(input, shifts, () if dims is None else dims)


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    made = ops.diag_embed(input, offset)
    if (dim1, dim2) == (-2, -1):
        return made
    dim1, dim2 = _wrap(dim1, made.ndim), _wrap(dim2, made.ndim)
    if dim1 == dim2:
        raise _C.InvalidError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return movedim(made, (-2, -1), (dim1, dim2))


def movedim(input, source, destination):
    if isinstance(source, (tuple, list)) != isinstance(destination, (tuple, list)):
        raise _C.DTypeError("movedim(): source and destination are both ints or both tuples of ints")
    if not isinstance(source, (tuple, list)):
        return ops.movedim(input, source, destination)
    source, destination = ([_wrap(d, input.ndim) for d in dims] for dims in (source, destination))
    if len(source) != len(destination) or len(set(source)) < len(source) or len(set(destination)) < len(destination):
        raise _C.InvalidError(f"movedim(): as many dimensions to move as places for them, each named once, not {source} and {destination}")
    rest = iter(d for d in range(input.ndim) if d not in source)
    places = dict(zip(destination, source))
    return input.permute([places[k] if k in places else next(rest) for k in range(input.ndim)])


def as_strided(input, size, stride, storage_offset=None):
    return ops.as_strided(input, size, stride, input.storage_offset() if storage_offset is None else storage_offset)


def reshape_as(self, other):
    return self.reshape(other.shape)


def _part(name, input):
    if not _C.is_tensor(input):
        raise _C.DTypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    return getattr(input, name)


def real(input):
    return _part("real", input)


def imag(input):
    return _part("imag", input)


def view_as(self, other):
    return self.view(other.shape)


def expand_as(self, other):
    return self.expand(other.shape)


@_overloads._beside
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    if repeats is None:  # how often each of 0, 1, ...
        input, repeats = _C.arange(input.shape[0]), input
    if not _is(repeats) or repeats.numel() == 1:
        return _sized(ops.repeat_interleave(input, int(repeats) if _is(repeats) and repeats.ndim else repeats, dim), dim or 0, output_size)
    input, dim = _flat(input, dim)
    if repeats.ndim != 1 or repeats.shape[0] != input.shape[dim]:
        raise _C.ShapeError("repeat_interleave(): repeats must have the same size as input along dim, but got the shape "
                            f"{list(repeats.shape)} and {input.shape[dim]} along {dim}")
    ends = repeats.cumsum(0)
    count, least = _C.stack([ends[-1], repeats.min().to(ends.dtype)]).tolist() if ends.shape[0] else (0, 0)
    if least < 0:
        raise _C.InvalidError(f"repeat_interleave(): repeats can not be negative, but one is {least}")
    places = _C.arange(int(count))
    return _sized(ops.index_select(input, dim, ops.searchsorted(ends, places, True)), dim, output_size)


def _sized(made, dim, output_size):
    if output_size is not None and made.shape[dim] != output_size:
        raise _C.InvalidError(f"repeat_interleave(): output_size is {output_size}, but the repeats make {made.shape[dim]}")
    return made


def atleast_1d(*tensors: Any) -> Any:
    """With at least one dimension."""
    out = tuple(t.reshape(1) if t.ndim == 0 else t for t in _overloads._together(tensors))
    return out[0] if len(out) == 1 else out


def atleast_2d(*tensors: Any) -> Any:
    """With at least two dimensions."""
    out = tuple(t.reshape(1, -1) if t.ndim < 2 else t for t in _overloads._together(tensors))
    return out[0] if len(out) == 1 else out


@_overloads._also(indices="indices_or_sections", sections="indices_or_sections", tensor_indices_or_sections="indices_or_sections")
def tensor_split(input, indices_or_sections, dim=0):
    cuts = indices_or_sections.tolist() if _is(indices_or_sections) else indices_or_sections
    return ops.tensor_split(input, cuts, dim) if isinstance(cuts, (tuple, list)) else ops.tensor_split_sections(input, cuts, dim)


# ---- products


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products by Einstein's convention: 'ij,jk->ik'. With '...', repeated labels, and any number of operands, from left to right.
    Or each operand before the list of its dimensions' labels: einsum(x, [0, 1], y, [1, 2], [0, 2])."""
    if _is(equation):
        equation, operands = _of_sublists((equation, *operands))
    return ops.einsum(equation, _overloads._together(operands))


def _of_sublists(parts):
    """(equation, operands) of einsum(x, [0, 1], y, [1, 2], [0, 2])."""

    def said(labels):
        if not all(k is ... or isinstance(k, int) and 0 <= k < 52 for k in labels):
            raise _C.InvalidError(f"einsum(): labels of dimensions are numbers from 0 to 51 or ..., not {list(labels)}")
        return "".join("..." if k is ... else chr(ord("A") + k if k < 26 else ord("a") + k - 26) for k in labels)

    n = len(parts) // 2 * 2
    return ",".join(map(said, parts[1:n:2])) + ("->" + said(parts[n]) if len(parts) > n else ""), parts[:n:2]


@_overloads._exactly
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over `dims` pairs of dimensions, or over the named ones of each."""
    if isinstance(dims, int):
        if not 0 <= dims <= builtins.min(a.ndim, b.ndim):
            raise _C.InvalidError(f"tensordot(): dims is {dims}, for tensors of {a.ndim} and {b.ndim} dimensions")
        dims = range(a.ndim - dims, a.ndim), range(dims)
    of_a, of_b = ([_wrap(d, x.ndim) for d in ((d,) if isinstance(d, int) else d)] for x, d in zip((a, b), dims.tolist() if _is(dims) else dims))
    # one place beside several is broadcast: the several are summed first
    for i, j in zip(of_a, of_b):
        if _overloads._follows(a.shape[i]) or _overloads._follows(b.shape[j]):
            a, b = _overloads._program("evened")(a, b, i, j)
            continue
        a, b = (a.sum(i, True, dtype=a.dtype) if b.shape[j] == 1 < a.shape[i] else a), (b.sum(j, True, dtype=b.dtype) if a.shape[i] == 1 < b.shape[j] else b)
    return ops.tensordot(a, b, of_a, of_b)


# ---- layers as PyTorch's engine knows them


def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple:
    """layer_norm() of tensord.nn.functional, with the means and 1 / sqrt(variance + eps)."""
    n = len(normalized_shape)
    if tuple(input.shape[input.ndim - n :]) != tuple(normalized_shape):
        raise _C.ShapeError(f"native_layer_norm(): Given normalized_shape={list(normalized_shape)}, expected input with shape [*, {', '.join(map(str, normalized_shape))}], but got input of size{list(input.shape)}")
    made, *statistics = ops.layer_norm(input, weight, bias, n, eps)
    return made, *(s.reshape((*input.shape[: input.ndim - n], *(1,) * n)).to(input.dtype) for s in statistics)


def native_group_norm(input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> tuple:
    """group_norm() of tensord.nn.functional, with the means of the groups and 1 / sqrt(variance + eps)."""
    groups = input.reshape(N, group, C // group * HxW)
    return ops.group_norm(input, group, weight, bias, eps), groups.mean(-1), ops.rsqrt(ops.var(groups, [-1], 0.0) + eps)


@_overloads._exactly
def native_batch_norm(input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float) -> tuple:
    """batch_norm() of tensord.nn.functional, with the means and 1 / sqrt(variance + eps) of the batch (in training, else empty)."""
    made, *statistics = ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return made, *(s.to(input.dtype) if training else made.new_empty(0) for s in statistics)


@_overloads._written
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """A value around the tensor: pairs (before, after) of the last dimension, then the one before it, ..."""
    return ops.constant_pad(input, tuple(pad), value)


# ---- orders, sets


def nansum(input, dim=None, keepdim=False, *, dtype=None):
    return ops.nansum(input if dtype is None else input.to(dtype), dim, keepdim)


def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    return ops.nanmean(input if dtype is None else input.to(dtype), dim, keepdim)


def sort(input, dim=-1, descending=False, stable=None):
    if stable is not None:
        _overloads._flag(stable, "sort", "stable")
    return ops.sort(input, dim, descending)


def argsort(input, dim=-1, descending=False, stable=None):
    return sort(input, dim, descending, stable)[1]


def cov(input, *, correction=1, fweights=None, aweights=None):
    for weights, name, whole in (fweights, "fweights", True), (aweights, "aweights", False):
        if weights is None:
            continue
        if weights.ndim > 1:
            raise _C.ShapeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim}")
        if whole and (weights.is_floating_point() or weights.is_complex()):
            raise _C.DTypeError(f"cov(): expected {name} to have integral dtype but got {name} with {weights.dtype}")
        if not whole and not weights.is_floating_point():
            raise _C.DTypeError(f"cov(): expected {name} to have floating point dtype but got {name} with {weights.dtype}")
        if weights.numel() != (input.shape[-1] if input.ndim else 1):
            raise _C.ShapeError(f"cov(): expected {name} to have the same numel as there are observations in the input but got {weights.numel()}")
        if (weights < 0).any():
            raise _C.InvalidError(f"cov(): {name} cannot be negative")
    return ops.cov(input, correction, fweights, aweights)


def median(input, dim=None, keepdim=False):
    return ops.median(input) if dim is None else ops.median_dim(input, dim, keepdim)


def unique_elements(input, return_inverse=False, return_counts=False):
    wanted = _overloads._flag(return_inverse, "unique", "return_inverse"), _overloads._flag(return_counts, "unique", "return_counts")
    if all(wanted):
        values, _, inverse, counts = ops.unique_all(input)
        return values, inverse, counts
    return ops.unique_inverse(input) if wanted[0] else ops.unique_counts(input) if wanted[1] else ops.unique(input)


def bincount(input, weights=None, minlength=0):
    if minlength < 0:
        raise _C.InvalidError(f"bincount(): minlength must not be negative, but it is {minlength}")
    most = int(input.max().long()) if input.numel() else -1
    return ops.bincount(input, weights, builtins.max(most + 1, minlength))


@_overloads._exactly
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Is each element among the test elements?"""
    first = elements if _is(elements) else test_elements
    elements, test_elements = (x if _is(x) else _C.asarray(x, device=first.device) for x in (elements, test_elements))
    return ops.isin(elements, test_elements, invert)


def is_nonzero(input: Tensor) -> bool:
    """The truth of the only element."""
    return builtins.bool(input)


# ---- whose memory it is


def share_memory_(self):
    return self


def is_shared(self):
    return True


def pin_memory(self, device=None):
    if self.device.type != "cpu":
        raise _C.Unsupported(f"cannot pin a tensor on {self.device}; only those on the cpu can be pinned")
    return self


def is_pinned(self, device=None):
    return False


def cuda(self, device=None, non_blocking=False):
    return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)


# ---- transforms of pieces


def stft(*args, **kw):
    from tensord import fft

    return fft._stft(*args, **kw)


def istft(*args, **kw):
    from tensord import fft

    return fft._istft(*args, **kw)


def cond(pred, true_fn, false_fn, operands=()) -> Any:
    """true_fn(*operands) where pred is true, else false_fn(*operands): one of them is called, when pred is known. A program has `if` for it."""
    if not isinstance(operands, (tuple, list)):
        raise _C.DTypeError(f"cond(): operands are a tuple, not {type(operands).__name__}")
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs) -> Any:
    """carried_inputs = body_fn(*carried_inputs) as long as cond_fn(*carried_inputs) is true, which is waited for; the last of them. A program has `while`."""
    if not isinstance(carried_inputs, (tuple, list)):
        raise _C.DTypeError(f"while_loop(): carried_inputs are a tuple, not {type(carried_inputs).__name__}")
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        made = body_fn(*carried)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(made) != len(carried):
            raise _C.InvalidError(f"while_loop(): body_fn gives {len(made)} values, and was given {len(carried)}")
        carried = made
    return carried


def _assert(condition, message) -> None:
    """assert condition, message"""
    assert condition, message


def _assert_async(input, assert_msg=None) -> None:
    """Raises RuntimeError when the one element of a tensor is zero; it waits for it."""
    if not bool(input):
        raise _C.Error(assert_msg or "what was to hold does not: the tensor is zero")


def is_storage(obj) -> bool:
    """Is it what storage() or untyped_storage() of a tensor gave?"""
    return isinstance(obj, _Storage)


def sym_int(a):
    """The whole number towards zero: sizes are known here, and plain numbers."""
    return int(a)


def sym_float(a):
    """float(a): sizes are known here, and plain numbers."""
    return float(a)


def sym_not(a):
    """not a"""
    return not a


def sym_max(a, b):
    """The larger number; a float where one of them is."""
    return type(a + b)(max(a, b))


def sym_min(a, b):
    """The smaller number; a float where one of them is."""
    return type(a + b)(min(a, b))


def sym_sum(args):
    """sum(args)"""
    return sum(args)


def sym_ite(b, t, f):
    """t if b else f"""
    return t if b else f


def is_anomaly_enabled() -> bool:
    """Whether gradients are looked through for NaN (autograd.set_detect_anomaly())."""
    before = _C._set_anomaly(False)
    _C._set_anomaly(before)
    return bool(before)


is_anomaly_check_nan_enabled = is_anomaly_enabled


def set_anomaly_enabled(mode, check_nan=True) -> None:
    """autograd.set_detect_anomaly() as a function."""
    _C._set_anomaly(bool(mode) and bool(check_nan))
