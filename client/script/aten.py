"""What ATen calls its ops, for the code of TorchScript archives: each function takes what ATen's op of that name takes, in
its order and with its defaults, for tensors, numbers, texts and lists alike; prim_NAME is ops.prim.NAME. Rows of the op
table that take the same are not here. It is part of libtensord, as prelude.py is.

`ops` are the rows alone, `td` is all of tensord. Inside, "len" and its like are Python's. _dtype(x) is the dtype that a
number means, or x; _count(list) is len(list), often known before it runs. Layouts, devices and memory formats are taken and not looked at."""


# ---- numbers, or tensors


def add(self, other, alpha=None):
    return self + other if alpha is None else ops.add(self, other, alpha)


def add_(self, other, alpha=None):
    if alpha is None:
        self += other
        return self
    self += other * alpha
    return self


def sub(self, other, alpha=None):
    return self - other if alpha is None else ops.sub(self, other, alpha)


def sub_(self, other, alpha=None):
    if alpha is None:
        self -= other
        return self
    self -= other * alpha
    return self


def rsub(self, other, alpha=None):
    return other - self if alpha is None else other - self * alpha


def mul(self, other):
    return self * other


def div(self, other, rounding_mode=None):
    if rounding_mode is None:
        return self / other
    return ops.floor_divide(self, other) if rounding_mode == "floor" else ops.trunc_divide(self, other)


def true_divide(self, other):
    return self / other


def floordiv(self, other):
    return self // other


def floor_divide(self, other):
    return self // other


def remainder(self, other):
    return self % other


def pow(self, exponent):
    if isinstance(self, int) and isinstance(exponent, int):
        return float(self) ** float(exponent)
    return self ** exponent


def neg(self):
    return -self


def eq(self, other):
    return self == _dtype(other) if isinstance(self, dtype) else self == other


def ne(self, other):
    return self != _dtype(other) if isinstance(self, dtype) else self != other


def lt(self, other):
    return self < other


def le(self, other):
    return self <= other


def gt(self, other):
    return self > other


def ge(self, other):
    return self >= other


def abs(self):
    return ops.abs(self) if isinstance(self, Tensor) else abs(self)


def __and__(self, other):
    return self & other


def __or__(self, other):
    return self | other


def __xor__(self, other):
    return self ^ other


def __lshift__(self, other):
    return self << other


def __rshift__(self, other):
    return self >> other


def __not__(self):
    return not self


def __is__(self, obj):
    """Of None C knows. Two tensors are never called the same: who asks wants to know of a faster way."""
    if isinstance(self, Tensor):
        return False
    return False if self is None else self == obj


def __isnot__(self, obj):
    if isinstance(self, Tensor):
        return True
    return True if self is None else self != obj


def sqrt(self):
    return ops.sqrt(self) if isinstance(self, Tensor) else math.sqrt(self)


def exp(self):
    return ops.exp(self) if isinstance(self, Tensor) else math.exp(self)


def log(self):
    return ops.log(self) if isinstance(self, Tensor) else math.log(self)


def sin(self):
    return ops.sin(self) if isinstance(self, Tensor) else math.sin(self)


def cos(self):
    return ops.cos(self) if isinstance(self, Tensor) else math.cos(self)


def tanh(self):
    return ops.tanh(self) if isinstance(self, Tensor) else math.tanh(self)


def floor(self):
    return ops.floor(self) if isinstance(self, Tensor) else math.floor(self)


def ceil(self):
    return ops.ceil(self) if isinstance(self, Tensor) else math.ceil(self)


def round(self, decimals=0):
    if not isinstance(self, Tensor):
        return float(round(self))
    return ops.round(self) if decimals == 0 else ops.round_decimals(self, decimals)


def Int(a):
    return int(a)


def Float(a):
    return float(a)


def Bool(a):
    return bool(a)


# ---- lists, dicts and texts


def len(a):
    return len(a)


def append(self, el):
    self.append(el)
    return self


def extend(self, other):
    self.extend(other)


def insert(self, idx, el):
    self.insert(idx, el)


def pop(self, idx=-1):
    return self.pop(idx)


def clear(self):
    self.clear()


def reverse(self):
    self.reverse()


def list(l):
    return list(l)


def keys(self):
    return self.keys()


def values(self):
    return self.values()


def items(self):
    return self.items()


def get(self, key, default_value=None):
    return self.get(key) if default_value is None else self.get(key, default_value)


def update(self, to_add):
    self.update(to_add)


def copy(self):
    return self.copy()



def count(self, el):
    return self.count(el)


def _set_item(l, idx, el):
    l[idx] = el


def __getitem__(self, idx):
    return self[idx]


def __contains__(l, item):
    return item in l


def __range_length(lo, hi, step):
    if step > 0:
        return 0 if lo >= hi else 1 + (hi - 1 - lo) // step
    return 0 if lo <= hi else 1 + (lo - 1 - hi) // (0 - step)


def __derive_index(index, start, step):
    return start + index * step


def join(self, values):
    return self.join(values)


def lower(self):
    return self.lower()


def upper(self):
    return self.upper()


def startswith(self, prefix):
    return self.startswith(prefix)


def endswith(self, suffix):
    return self.endswith(suffix)


def str(elem):
    return str(elem)


def prim_rangelist(n):
    return [i for i in range(n)]


def prim_min(a, b=None):
    return min(a) if b is None else min(a, b)


def prim_max(a, b=None):
    return max(a) if b is None else max(a, b)


def prim_abs(a):
    return abs(a)


def prim_unchecked_unwrap_optional(optional):
    assert optional is not None, "this is None"
    return optional


def _unwrap_optional(optional):
    assert optional is not None, "this is None"
    return optional


# ---- what is known of a tensor


def dim(self):
    return self.ndim


def size(self, dim=None):
    return self.shape if dim is None else self.size(dim)


def numel(self):
    return self.numel()


def equal(self, other):
    if self.shape != other.shape:
        return False
    return bool(ops.all(ops.eq(self, other)))


def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return ops.isclose(self, other, rtol, atol, equal_nan)


def allclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return bool(ops.all(ops.isclose(self, other, rtol, atol, equal_nan)))


def warn(message, stacklevel=2):
    return None


def item(self):
    return self.item()


def is_floating_point(self):
    return self.dtype.is_floating_point


def is_complex(self):
    return self.dtype.is_complex


def is_grad_enabled():
    return True


def is_autocast_enabled(device_type=None):
    return False


def is_autocast_cpu_enabled():
    return False


def prim_dtype(a):
    return a.dtype


def prim_device(a):
    return a.device


def prim_requires_grad(a):
    return a.requires_grad


def prim_type(a):
    """Of a device: what code does for other kinds of them is not wanted here."""
    return "cpu"


def prim_data(a):
    return a.detach()


def prim_layout(a):
    return 0


def prim_is_cuda(a):
    return False


def prim_is_cpu(a):
    return True


def prim_is_mkldnn(a):
    return False


def prim_is_sparse(a):
    return False


def prim_is_quantized(a):
    return False


def prim_is_nested(a):
    return False


def prim_NumToTensor(a):
    return td.tensor(a)


# ---- tensors of numbers


def _kind(dtype):
    return td.float32 if dtype is None else _dtype(dtype)


def zeros(size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.full(size, 0, _kind(dtype))


def ones(size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.full(size, 1, _kind(dtype))


def empty(size: list[int], dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.full(size, 0, _kind(dtype))


def full(size: list[int], fill_value, dtype=None, layout=None, device=None, pin_memory=None):
    if dtype is None:
        return td.full(size, fill_value)
    return ops.full(size, fill_value, _dtype(dtype))


def zeros_like(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.full(self.shape, 0, self.dtype if dtype is None else _dtype(dtype))


def ones_like(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.full(self.shape, 1, self.dtype if dtype is None else _dtype(dtype))


def empty_like(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.full(self.shape, 0, self.dtype if dtype is None else _dtype(dtype))


def full_like(self, fill_value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.full(self.shape, fill_value, self.dtype if dtype is None else _dtype(dtype))


def new_empty(self, size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.full(size, 0, self.dtype if dtype is None else _dtype(dtype))


def new_zeros(self, size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.full(size, 0, self.dtype if dtype is None else _dtype(dtype))


def new_ones(self, size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.full(size, 1, self.dtype if dtype is None else _dtype(dtype))


def new_full(self, size: list[int], fill_value, dtype=None, layout=None, device=None, pin_memory=None):
    return ops.full(size, fill_value, self.dtype if dtype is None else _dtype(dtype))


def rand(size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.rand(size, _kind(dtype))


def randn(size: list[int], dtype=None, layout=None, device=None, pin_memory=None):
    return ops.randn(size, _kind(dtype))


def rand_like(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.rand(self.shape, self.dtype if dtype is None else _dtype(dtype))


def randn_like(self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return ops.randn(self.shape, self.dtype if dtype is None else _dtype(dtype))


def randint(low: int, high=None, size=None, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return td.randint(low, high, size, None if dtype is None else _dtype(dtype))


def randperm(n: int, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return td.randperm(n, None if dtype is None else _dtype(dtype))


def arange(start, end=None, step=None, dtype=None, layout=None, device=None, pin_memory=None):
    first, last = 0 if end is None else start, start if end is None else end
    by = 1 if step is None else step
    if dtype is None:
        return td.arange(first, last, by)
    return td.arange(first, last, by, dtype=_dtype(dtype))


def eye(n: int, m=None, dtype=None, layout=None, device=None, pin_memory=None):
    return ops.eye(n, n if m is None else m, _kind(dtype))


def linspace(start, end, steps: int, dtype=None, layout=None, device=None, pin_memory=None):
    return ops.linspace(start, end, steps, _kind(dtype))


def fill(self, value):
    return self.clone().fill_(value)


# ---- windows: sums of cosines, computed in float64 as outside


def _window(n: int, made, dtype):
    """Of one place it is 1."""
    assert n >= 0, f"a window requires a non-negative length, got {n}"
    return (made if n > 1 else ops.full([n], 1, td.float64)).to(_kind(dtype))


def _across(n: int, periodic: bool, size: float):
    """The places of a window, the last of which, or the one behind it, is at `size`."""
    return ops.arange(0, n, 1, td.float64) * (size / max(n if periodic else n - 1, 1))


def _cosines(n: int, periodic: bool, a: list[float], dtype):
    total = ops.full([n], a[0], td.float64)
    sign = -1.0
    for i in range(1, len(a)):
        total = total + ops.cos(_across(n, periodic, 2 * math.pi * i)) * (a[i] * sign)
        sign = -sign
    return _window(n, total, dtype)


def hann_window(window_length: int, periodic: bool = True, dtype=None, layout=None, device=None, pin_memory=None):
    return _cosines(window_length, periodic, [0.5, 0.5], dtype)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype=None, layout=None, device=None, pin_memory=None):
    return _cosines(window_length, periodic, [alpha, beta], dtype)


def blackman_window(window_length: int, periodic: bool = True, dtype=None, layout=None, device=None, pin_memory=None):
    return _cosines(window_length, periodic, [0.42, 0.5, 0.08], dtype)


def bartlett_window(window_length: int, periodic: bool = True, dtype=None, layout=None, device=None, pin_memory=None):
    return _window(window_length, 1 - ops.abs(_across(window_length, periodic, 2.0) - 1), dtype)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, dtype=None, layout=None, device=None, pin_memory=None):
    """I0(beta sqrt(1 - x x)) / I0(beta) by the logarithms of the terms (beta / 2)^2k / k!^2, which are summed by the largest."""
    assert beta >= 0, f"beta must be non-negative, got: {beta} instead."
    logs: list[float] = []
    for k in range(int(1.5 * beta) + 40):
        logs.append(2 * (float(k) * math.log(beta / 2) if k > 0 and beta > 0 else 0.0) - 2 * math.lgamma(k + 1.0) if beta > 0 or k == 0 else -math.inf)
    top, total = max(logs), 0.0
    for v in logs:
        total += math.exp(v - top)
    whole = top + math.log(total)
    place = _across(window_length, periodic, 2.0) - 1
    inside = ops.clamp(1 - ops.square(place), 1e-300, None)
    powers = ops.unsqueeze(ops.log(inside), 1) * ops.arange(0, len(logs), 1, td.float64)
    return _window(window_length, ops.sum(ops.exp(powers + ops.stack([ops.full([], v - whole, td.float64) for v in logs], 0)), [1]), dtype)


def logspace(start: float, end: float, steps: int, base: float = 10.0, dtype=None, layout=None, device=None, pin_memory=None):
    return ops.pow(base, ops.linspace(start, end, steps, td.float64)).to(_kind(dtype))


def grid_sampler_2d(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    return ops.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    return ops.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def conv_tbc(input, weight, bias, pad: int = 0):
    return ops.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad).permute(2, 0, 1)


def norm_except_dim(v, pow: int = 2, dim: int = 0):
    if dim == -1:
        return ops.norm(v, float(pow))
    return ops.norm(v, float(pow), [d for d in range(v.ndim) if d != dim], True)


def unbind_copy(self, dim: int = 0):
    return [part.clone() for part in ops.unbind(self, dim)]


def split_copy(self, split_size, dim: int = 0):
    return [part.clone() for part in td.split(self, split_size, dim)]


def split_with_sizes_copy(self, split_sizes: list[int], dim: int = 0):
    return [part.clone() for part in ops.split(self, split_sizes, dim)]


def unsafe_split(self, split_size, dim: int = 0):
    return td.split(self, split_size, dim)


def unsafe_split_with_sizes(self, split_sizes: list[int], dim: int = 0):
    return ops.split(self, split_sizes, dim)


def fft_fftfreq(n: int, d=1.0, dtype=None, layout=None, device=None, pin_memory=None):
    return ops.cat([ops.arange(0, (n + 1) // 2, 1, _kind(dtype)), ops.arange(-(n // 2), 0, 1, _kind(dtype))], 0) * (1.0 / (n * d))


def fft_rfftfreq(n: int, d=1.0, dtype=None, layout=None, device=None, pin_memory=None):
    return ops.arange(0, n // 2 + 1, 1, _kind(dtype)) * (1.0 / (n * d))


def _number(x):
    return td.tensor(x)


def _row(x):
    return ops.stack([_number(y) for y in x], 0) if isinstance(x, list) else _number(x)


def _rows(x):
    return ops.stack([_row(y) for y in x], 0) if isinstance(x, list) else _number(x)


def tensor(data, dtype=None, device=None, requires_grad=False):
    if isinstance(data, Tensor):
        made = data.clone()
    else:
        made = ops.stack([_rows(x) for x in data], 0) if isinstance(data, list) else _number(data)
    return made if dtype is None else made.to(_dtype(dtype))


def scalar_tensor(s, dtype=None, layout=None, device=None, pin_memory=None):
    return td.tensor(s).to(_kind(dtype))


def device(a):
    return a


# ---- copies


def _to(self, a, b, c, d, dtype, copy):
    if dtype is not None:
        x = self.to(_dtype(dtype))
        return x.clone() if copy is not None and copy else x
    if isinstance(a, Tensor):
        return self.to(a.dtype)
    if isinstance(a, int) or isinstance(a, dtype):
        x = self.to(_dtype(a))
        if isinstance(c, bool):
            return x.clone() if c else x
        return x
    if isinstance(b, int) or isinstance(b, dtype):
        x = self.to(self.dtype) if isinstance(b, bool) else self.to(_dtype(b))
        if isinstance(d, bool):
            return x.clone() if d else x
        return x
    return self


def to(self, a=None, b=None, c=None, d=None, e=None, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=None, copy=None, memory_format=None):
    made = _to(self, a, b, c, d, dtype, copy)
    return made if memory_format is None else made.to(memory_format=memory_format)


def type_as(self, other):
    return self.to(other.dtype)


def cpu(self):
    return self


def float(self):
    return self.float()


def double(self):
    return self.double()


def half(self):
    return self.half()


def long(self):
    return self.long()


def int(self):
    return self.int()


def bool(self):
    return self.bool()


def clone(self, memory_format=None):
    return self.clone() if memory_format is None else self.clone(memory_format=memory_format)


def detach(self):
    return self.detach()


def detach_(self):
    return self.detach()


def alias(self):
    return self


def contiguous(self, memory_format=None):
    return td.contiguous(self) if memory_format is None else td.contiguous(self, memory_format)


def copy_(self, src, non_blocking=False):
    self[...] = src
    return self


def fill_(self, value):
    self[...] = value
    return self


def zero_(self):
    self[...] = 0
    return self


def requires_grad_(self, requires_grad=True):
    return self


# ---- shapes and views


def view(self, size: list[int]):
    return ops.view(self, size)


def reshape(self, shape: list[int]):
    return td.reshape(self, shape)


def view_as(self, other):
    return ops.view(self, other.shape)


def reshape_as(self, other):
    return td.reshape(self, other.shape)


def flatten(self, start_dim=0, end_dim=-1):
    return ops.flatten(self, start_dim, end_dim)


def unflatten(self, dim: int, sizes: list[int]):
    return td.unflatten(self, dim, sizes)


# ---- complex numbers and their parts


def _joined(real, imag):
    return ops.view_as_complex(ops.stack(ops.broadcast_tensors([real, imag]), -1))


def complex(real, imag):
    assert real.dtype == imag.dtype, "complex() takes two tensors of one dtype"
    return _joined(real, imag)


def polar(abs, angle):
    assert abs.dtype == angle.dtype, "polar() takes two tensors of one dtype"
    return _joined(abs * ops.cos(angle), abs * ops.sin(angle))


def is_conj(self):
    return False


def is_neg(self):
    return False


def resolve_conj(self):
    return self


def resolve_neg(self):
    return self


def is_same_size(self, other):
    return self.shape == other.shape


# ---- views as copies


def alias_copy(self):
    return self.clone()


def detach_copy(self):
    return self.detach().clone()


def diagonal_copy(self, offset: int = 0, dim1: int = 0, dim2: int = 1):
    return ops.diagonal(self, offset, dim1, dim2).clone()


def expand_copy(self, size: list[int], implicit=False):
    return ops.expand(self, size).clone()


def narrow_copy(self, dim: int, start: int, length: int):
    return ops.narrow(self, dim, start, length).clone()


def permute_copy(self, dims: list[int]):
    return ops.permute(self, dims).clone()


def select_copy(self, dim: int, index: int):
    return ops.select(self, dim, index).clone()


def slice_copy(self, dim: int = 0, start=None, end=None, step: int = 1):
    return ops.slice(self, dim, start, end, step).clone()


def squeeze_copy(self, dim=None):
    return (ops.squeeze(self) if dim is None else ops.squeeze(self, dim)).clone()


def t_copy(self):
    return self.t().clone()


def transpose_copy(self, dim0: int, dim1: int):
    return ops.transpose(self, dim0, dim1).clone()


def unfold_copy(self, dimension: int, size: int, step: int):
    return ops.unfold(self, dimension, size, step).clone()


def unsqueeze_copy(self, dim: int):
    return ops.unsqueeze(self, dim).clone()


def view_copy(self, size: list[int]):
    return ops.view(self, size).clone()


def view_as_complex_copy(self):
    return ops.view_as_complex(self).clone()


def view_as_real_copy(self):
    return ops.view_as_real(self).clone()


def transpose(self, dim0: int, dim1: int):
    return ops.transpose(self, dim0, dim1)


def permute(self, dims: list[int]):
    return ops.permute(self, dims)


def movedim(self, source: int, destination: int):
    return ops.movedim(self, source, destination)


def numpy_T(self):
    return self.T


def mT(self):
    return ops.transpose(self, -2, -1)


def mH(self):
    return ops.adjoint(self)


def expand(self, size: list[int], implicit=False):
    return ops.expand(self, size)


def expand_as(self, other):
    return ops.expand(self, other.shape)


def _common(a: list[int], b: list[int]):
    """The shape that two broadcast to."""
    n, shape = max(len(a), len(b)), [0 for k in range(0)]
    for k in range(n):
        i, j = k - n + len(a), k - n + len(b)
        x, y = 1, 1
        if i >= 0:
            x = a[i]
        if j >= 0:
            y = b[j]
        shape.append(y if x == 1 else x)
    return shape


def broadcast_tensors(tensors):
    shape = tensors[0].shape
    for t in tensors:
        shape = _common(shape, t.shape)
    return [ops.expand(t, shape) for t in tensors]


def searchsorted(sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    assert not out_int32 and sorter is None, "searchsorted() knows neither out_int32 nor sorter here"
    if side is None:
        return ops.searchsorted(sorted_sequence, self, right)
    return ops.searchsorted(sorted_sequence, self, side == "right")


def isin(elements, test_elements, assume_unique=False, invert=False):
    return ops.isin(elements, test_elements, invert)


def meshgrid(tensors, indexing="ij"):
    return ops.meshgrid(tensors, indexing == "xy")


def broadcast_to(self, size: list[int]):
    return ops.expand(self, size)


def tile(self, dims: list[int]):
    return ops.tile(self, dims)


def repeat(self, repeats: list[int]):
    return ops.repeat(self, repeats)


def squeeze(self, dim=None):
    if dim is None:
        return ops.squeeze(self)
    return ops.squeeze(self, dim)


def unsqueeze(self, dim: int):
    return ops.unsqueeze(self, dim)


def select(self, dim: int, index: int):
    return ops.select(self, dim, index)


def slice(self, dim=0, start=None, end=None, step=1):
    if isinstance(self, Tensor):
        return ops.slice(self, dim, start, end, step)
    return self[dim:start] if end is None else self[dim:start:end]


def narrow(self, dim: int, start: int, length: int):
    return ops.narrow(self, dim, start, length)


def diagonal(self, offset=0, dim1=0, dim2=1):
    return ops.diagonal(self, offset, dim1, dim2)


def unfold(self, dimension: int, size: int, step: int):
    return ops.unfold(self, dimension, size, step)


def unbind(self, dim=0):
    return ops.unbind(self, dim)


def tensor_split(self, indices_or_sections, dim: int = 0):
    return td.tensor_split(self, indices_or_sections, dim)


def chunk(self, chunks: int, dim=0):
    return ops.chunk(self, chunks, dim)


def unsafe_chunk(self, chunks: int, dim=0):
    return ops.chunk(self, chunks, dim)


def split(self, split_size, dim=0):
    return td.split(self, split_size, dim)


def split_with_sizes(self, split_sizes: list[int], dim=0):
    return ops.split(self, split_sizes, dim)


def diag(self, diagonal=0):
    return ops.diag(self, diagonal)


def flip(self, dims: list[int]):
    return ops.flip(self, dims)


def roll(self, shifts: list[int], dims: list[int]):
    return ops.roll(self, shifts, dims)


def cat(tensors, dim=0):
    """In parts, when there are more than one op takes."""
    if _count(tensors) <= 1000:
        return ops.cat(tensors, dim)
    return ops.cat([ops.cat(tensors[k:k + 1000], dim) for k in range(0, len(tensors), 1000)], dim)


def concat(tensors, dim=0):
    return cat(tensors, dim)


def stack(tensors, dim=0):
    if _count(tensors) <= 1000:
        return ops.stack(tensors, dim)
    return ops.cat([ops.stack(tensors[k:k + 1000], dim) for k in range(0, len(tensors), 1000)], dim)


def hstack(tensors):
    return td.hstack(tensors)


def vstack(tensors):
    return td.vstack(tensors)


def pad(self, pad: list[int], mode="constant", value=None):
    if mode == "reflect":
        return ops.reflection_pad(self, pad)
    if mode == "replicate":
        return ops.replication_pad(self, pad)
    if mode == "circular":
        return ops.circular_pad(self, pad)
    return ops.constant_pad(self, pad, _fill(value))


def constant_pad_nd(self, pad: list[int], value=0):
    return ops.constant_pad(self, pad, value)


def reflection_pad1d(self, padding: list[int]):
    return ops.reflection_pad(self, padding)


def reflection_pad2d(self, padding: list[int]):
    return ops.reflection_pad(self, padding)


def reflection_pad3d(self, padding: list[int]):
    return ops.reflection_pad(self, padding)


def replication_pad1d(self, padding: list[int]):
    return ops.replication_pad(self, padding)


def replication_pad2d(self, padding: list[int]):
    return ops.replication_pad(self, padding)


def replication_pad3d(self, padding: list[int]):
    return ops.replication_pad(self, padding)


def _fill(value):
    if value is None:
        return 0.0
    return value


# ---- reductions


def sum(self, dim=None, keepdim=False, dtype=None):
    if isinstance(self, list):
        return sum(self)
    if dim is None:
        return ops.sum(self if dtype is None else self.to(_dtype(dtype)), None, keepdim)
    if isinstance(dim, list):
        return ops.sum(self if dtype is None else self.to(_dtype(dtype)), dim, keepdim)
    return ops.sum(self.to(_dtype(dim)))


def mean(self, dim=None, keepdim=False, dtype=None):
    if dim is None:
        return ops.mean(self if dtype is None else self.to(_dtype(dtype)), None, keepdim)
    if isinstance(dim, list):
        return ops.mean(self if dtype is None else self.to(_dtype(dtype)), dim, keepdim)
    return ops.mean(self.to(_dtype(dim)))


def amax(self, dim: list[int], keepdim=False):
    return ops.amax(self, dim, keepdim)


def amin(self, dim: list[int], keepdim=False):
    return ops.amin(self, dim, keepdim)


def max(self, dim=None, keepdim=False):
    if dim is None:
        return ops.amax(self)
    if isinstance(dim, Tensor):
        return ops.maximum(self, dim)
    return ops.max_dim(self, dim, keepdim)


def min(self, dim=None, keepdim=False):
    if dim is None:
        return ops.amin(self)
    if isinstance(dim, Tensor):
        return ops.minimum(self, dim)
    return ops.min_dim(self, dim, keepdim)


def argmax(self, dim=None, keepdim=False):
    return ops.argmax(self, dim, keepdim)


def argmin(self, dim=None, keepdim=False):
    return ops.argmin(self, dim, keepdim)


def _correction(unbiased, correction):
    if correction is None:
        return 1.0 if unbiased else 0.0
    return float(correction)


def var(self, dim=None, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):
        return ops.var(self, None, 1.0 if dim else 0.0)
    return ops.var(self, dim, _correction(unbiased, correction), keepdim)


def std(self, dim=None, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):
        return ops.std(self, None, 1.0 if dim else 0.0)
    return ops.std(self, dim, _correction(unbiased, correction), keepdim)


def prod(self, dim=None, keepdim=False, dtype=None):
    return ops.prod(self if dtype is None else self.to(_dtype(dtype)), dim, keepdim)


def _holds(l, wanted):
    for x in l:
        if bool(x) == wanted:
            return True
    return False


def any(self, dim=None, keepdim=False):
    if isinstance(self, list):
        return _holds(self, True)
    return ops.any(self) if dim is None else ops.any(self, dim, keepdim)


def all(self, dim=None, keepdim=False):
    if isinstance(self, list):
        return not _holds(self, False)
    return ops.all(self) if dim is None else ops.all(self, dim, keepdim)


def norm(self, p=2, dim=None, keepdim=False, dtype=None):
    x = self if dtype is None else self.to(_dtype(dtype))
    if dim is None:
        return ops.norm(x, float(2 if p is None else p))
    return ops.norm(x, float(2 if p is None else p), dim, keepdim)


def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, dtype=None):
    return ops.norm(self if dtype is None else self.to(_dtype(dtype)), float(ord), dim, keepdim)


def logsumexp(self, dim: list[int], keepdim=False):
    return ops.logsumexp(self, dim, keepdim)


def count_nonzero(self, dim=None):
    return ops.count_nonzero(self, dim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    return ops.cosine_similarity(x1, x2, dim, eps)


def cumsum(self, dim: int, dtype=None):
    return ops.cumsum(self if dtype is None else self.to(_dtype(dtype)), dim)


def cumprod(self, dim: int, dtype=None):
    return ops.cumprod(self if dtype is None else self.to(_dtype(dtype)), dim)


def softmax(self, dim: int, dtype=None):
    return ops.softmax(self if dtype is None else self.to(_dtype(dtype)), dim)


def log_softmax(self, dim: int, dtype=None):
    return ops.log_softmax(self if dtype is None else self.to(_dtype(dtype)), dim)


def sort(self, dim=-1, descending=False):
    if isinstance(self, list):
        self.sort()
        if isinstance(dim, bool):
            if dim:
                self.reverse()
        return None
    return ops.sort(self, dim, descending)


def argsort(self, dim=-1, descending=False):
    return ops.argsort(self, dim, descending)


def topk(self, k: int, dim=-1, largest=True, sorted=True):
    return ops.topk(self, k, dim, largest, sorted)


# ---- index


def _numbers(self, indices):
    """Masks as the places where they hold; for one without dimensions the tensor has one more."""
    found: list[Optional[Tensor]] = []
    for i in range(len(indices)):
        k = indices[i]
        if k is None:
            found.append(None)
        elif k.dtype == td.bool:
            mask = k
            if mask.ndim == 0:
                mask = ops.unsqueeze(mask, 0)
                self = ops.unsqueeze(self, len(found))
            at = len(found)
            assert mask.shape == self.shape[at:at + mask.ndim], f"the mask has the shape {mask.shape}, and the tensor {self.shape}"
            for each in ops.unbind(ops.nonzero(mask), 1):
                found.append(each)
        else:
            found.append(k)
    return self, found


def index(self, indices):
    if isinstance(self, Tensor):
        part, places = _numbers(self, indices)
        return ops.index(part, places)
    return self.index(indices)


def index_put_(self, indices, values, accumulate=False):
    part, places = _numbers(self, indices)
    part.index_put_(places, values.to(self.dtype), accumulate)
    return self


def index_select(self, dim: int, index):
    return ops.index_select(self, dim, index)


def gather(self, dim: int, index, sparse_grad=False):
    return ops.gather(self, dim, index)


def scatter(self, dim: int, index, src):
    return ops.scatter(self, dim, index, src)


def scatter_(self, dim: int, index, src):
    return self.scatter_(dim, index, src)


def scatter_add(self, dim: int, index, src):
    return ops.scatter_add(self, dim, index, src)


def scatter_add_(self, dim: int, index, src):
    return self.scatter_add_(dim, index, src)


def index_add(self, dim: int, index, source, alpha=1):
    return ops.index_add(self, dim, index, source, alpha)


def index_add_(self, dim: int, index, source, alpha=1):
    return self.index_add_(dim, index, source, alpha)


def where(condition, self=None, other=None):
    if self is None:
        return [x for x in ops.unbind(ops.nonzero(condition), 1)]
    return ops.where(condition, self, other)


def masked_fill(self, mask, value):
    return ops.masked_fill(self, mask, value)


def masked_fill_(self, mask, value):
    return self.masked_fill_(mask, value)


def repeat_interleave(self, repeats: int, dim=None, output_size=None):
    return ops.repeat_interleave(self, repeats, dim)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return ops.embedding(weight, indices)


def one_hot(self, num_classes: int = -1):
    return td.one_hot(self, int(ops.amax(self)) + 1 if num_classes < 0 else num_classes)


# ---- products


def linear(input, weight, bias=None):
    return ops.linear(input, weight, bias)


def addmm(self, mat1, mat2, beta=1, alpha=1):
    return ops.addmm(self, mat1, mat2, beta, alpha)


def baddbmm(self, batch1, batch2, beta=1, alpha=1):
    return ops.baddbmm(self, batch1, batch2, beta, alpha)


def einsum(equation: str, tensors, path=None):
    return ops.einsum(equation, tensors)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return ops.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


# ---- activations


def relu6(self):
    return ops.relu6(self)


def relu6_(self):
    return td.relu6(self, True)


def leaky_relu(self, negative_slope=0.01):
    return ops.leaky_relu(self, negative_slope)


def leaky_relu_(self, negative_slope=0.01):
    return td.leaky_relu(self, negative_slope, True)


def elu(self, alpha=1.0, scale=1.0, input_scale=1.0):
    assert scale == 1 and input_scale == 1, "elu() knows neither scale nor input_scale here"
    return ops.elu(self, alpha)


def elu_(self, alpha=1.0, scale=1.0, input_scale=1.0):
    assert scale == 1 and input_scale == 1, "elu_() knows neither scale nor input_scale here"
    return td.elu(self, alpha, True)


def selu_(self):
    return td.selu(self, True)


def celu(self, alpha=1.0):
    return ops.celu(self, alpha)


def celu_(self, alpha=1.0):
    return td.celu(self, alpha, True)


def gelu(self, approximate="none"):
    return ops.gelu(self, approximate == "tanh")


def silu_(self):
    return td.silu(self, True)


def mish_(self):
    return td.mish(self, True)


def hardtanh(self, min_val=-1.0, max_val=1.0):
    return ops.hardtanh(self, min_val, max_val)


def hardtanh_(self, min_val=-1.0, max_val=1.0):
    return td.hardtanh(self, min_val, max_val, True)


def hardsigmoid_(self):
    return td.hardsigmoid(self, True)


def hardswish_(self):
    return td.hardswish(self, True)


def gelu_backward(grad_output, self, approximate="none"):
    return ops.gelu_backward(grad_output, self, approximate == "tanh")


def threshold_backward(grad_output, self, threshold):
    return ops.threshold_backward(grad_output, self - threshold)


def softplus(self, beta=1.0, threshold=20.0):
    return ops.softplus(self, beta, threshold)


def softshrink(self, lambd=0.5):
    return ops.softshrink(self, lambd)


def hardshrink(self, lambd=0.5):
    return ops.hardshrink(self, lambd)


def log_sigmoid(self):
    return ops.logsigmoid(self)


def glu(self, dim=-1):
    return ops.glu(self, dim)


def clamp(self, min=None, max=None):
    return ops.clamp(self, min, max)


def clamp_(self, min=None, max=None):
    return self.clamp_(min, max)


def clamp_min(self, min):
    return ops.clamp(self, min, None)


def clamp_max(self, max):
    return ops.clamp(self, None, max)


def clamp_min_(self, min):
    return self.clamp_(min, None)


def clamp_max_(self, max):
    return self.clamp_(None, max)


def nan_to_num(self, nan=None, posinf=None, neginf=None):
    return ops.nan_to_num(self, _fill(nan), posinf, neginf)


def dropout(input, p: float, train):
    return td.dropout(input, p, train)


def dropout_(self, p: float, train):
    return td.dropout(self, p, train, True)


def feature_dropout(input, p: float, train):
    assert not train, "feature_dropout() in training is not known here"
    return input


# ---- layers


def _pair(v: list[int]):
    return [v[0], v[0]] if _count(v) == 1 else v


def conv1d(input, weight, bias=None, stride: list[int] = [1], padding=[0], dilation: list[int] = [1], groups: int = 1):
    return td.conv1d(input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride: list[int] = [1, 1], padding=[0, 0], dilation: list[int] = [1, 1], groups: int = 1):
    return td.conv2d(input, weight, bias, _pair(stride), padding if isinstance(padding, str) else _pair(padding), _pair(dilation), groups)


def conv_transpose2d(input, weight, bias=None, stride: list[int] = [1, 1], padding: list[int] = [0, 0], output_padding: list[int] = [0, 0], groups: int = 1, dilation: list[int] = [1, 1]):
    return ops.conv_transpose2d(input, weight, bias, _pair(stride), _pair(padding), _pair(output_padding), groups, _pair(dilation))


def conv_transpose1d(input, weight, bias=None, stride: list[int] = [1], padding: list[int] = [0], output_padding: list[int] = [0], groups: int = 1, dilation: list[int] = [1]):
    return ops.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolution(input, weight, bias, stride: list[int], padding: list[int], dilation: list[int], transposed, output_padding: list[int], groups: int, benchmark=False, deterministic=False, cudnn_enabled=True, allow_tf32=True):
    n = _count(stride)
    if transposed:
        if n == 3:
            return ops.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation)
        if n == 1:
            return conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation)
        return conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    if n == 3:
        return ops.conv3d(input, weight, bias, stride, padding, dilation, groups)
    if n == 1:
        return conv1d(input, weight, bias, stride, padding, dilation, groups)
    return conv2d(input, weight, bias, stride, padding, dilation, groups)


def _convolution_mode(input, weight, bias, stride: list[int], padding: str, dilation: list[int], groups: int):
    if _count(stride) == 1:
        return td.conv1d(input, weight, bias, stride, padding, dilation, groups)
    return td.conv2d(input, weight, bias, stride, padding, dilation, groups)


def _steps(stride: list[int], kernel: list[int]):
    return kernel if _count(stride) == 0 else stride


def max_pool1d(self, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0], dilation: list[int] = [1], ceil_mode=False):
    return td.max_pool1d(self, kernel_size, _steps(stride, kernel_size), padding, dilation, ceil_mode)


def max_pool2d(self, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0, 0], dilation: list[int] = [1, 1], ceil_mode=False):
    return td.max_pool2d(self, _pair(kernel_size), _pair(_steps(stride, kernel_size)), _pair(padding), _pair(dilation), ceil_mode)


def avg_pool1d(self, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0], ceil_mode=False, count_include_pad=True):
    return td.avg_pool1d(self, kernel_size, _steps(stride, kernel_size), padding, ceil_mode, count_include_pad)


def avg_pool2d(self, kernel_size: list[int], stride: list[int] = [], padding: list[int] = [0, 0], ceil_mode=False, count_include_pad=True, divisor_override=None):
    return td.avg_pool2d(self, _pair(kernel_size), _pair(_steps(stride, kernel_size)), _pair(padding), ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool1d(self, output_size: list[int]):
    return td.adaptive_avg_pool1d(self, output_size)


def adaptive_avg_pool2d(self, output_size: list[int]):
    return td.adaptive_avg_pool2d(self, output_size)


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum: float, eps: float, cudnn_enabled=True):
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def layer_norm(input, normalized_shape: list[int], weight=None, bias=None, eps: float = 1e-5, cudnn_enable=True):
    return ops.layer_norm(input, weight, bias, len(normalized_shape), eps)


def rms_norm(input, normalized_shape: list[int], weight=None, eps=None):
    return ops.rms_norm(input, normalized_shape, weight, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum: float, eps: float, cudnn_enabled=True):
    if not use_input_stats:
        assert running_mean is not None and running_var is not None, "Expected running_mean and running_var to be defined when use_input_stats is false"
        return ops.batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    assert use_input_stats and running_mean is None, "instance_norm() knows the input's own statistics here, and keeps none"
    return ops.group_norm(input, input.shape[1], weight, bias, eps)


def group_norm(input, num_groups: int, weight=None, bias=None, eps: float = 1e-5, cudnn_enabled=True):
    return ops.group_norm(input, num_groups, weight, bias, eps)


def pixel_shuffle(self, upscale_factor: int):
    return ops.pixel_shuffle(self, upscale_factor)


def _resized(x, sizes, factors, k: int):
    """How long a dimension becomes."""
    return sizes[k] if sizes is not None else int(math.floor(float(x.shape[2 + k]) * factors[k]))


def _nearest(x, sizes, factors, n: int):
    for k in range(n):
        if isinstance(factors, list):
            x = ops.resample_nearest(x, 2 + k, _resized(x, sizes, factors, k), factors[k])
        else:
            x = ops.resample_nearest(x, 2 + k, sizes[k])
    return x


def _linear(x, sizes, align_corners, factors, n: int):
    for k in range(n):
        if isinstance(factors, list):
            x = ops.resample_linear(x, 2 + k, _resized(x, sizes, factors, k), factors[k], align_corners)
        else:
            x = ops.resample_linear(x, 2 + k, sizes[k], None, align_corners)
    return x


def upsample_nearest1d(input, output_size, scale_factors=None):
    return _nearest(input, output_size, scale_factors, 1)


def upsample_nearest2d(input, output_size, scale_factors=None, scales_w=None):
    return _nearest(input, output_size, scale_factors, 2)


def upsample_linear1d(input, output_size, align_corners, scale_factors=None):
    return _linear(input, output_size, align_corners, scale_factors, 1)


def upsample_bilinear2d(input, output_size, align_corners, scale_factors=None, scales_w=None):
    return _linear(input, output_size, align_corners, scale_factors, 2)


# ---- recurrent layers


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return ops.lstm_cell(input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return ops.rnn_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return ops.rnn_cell(input, hx, w_ih, w_hh, b_ih, b_hh, True)


def lstm(input, hx, params, has_biases, num_layers: int, dropout: float, train, bidirectional, batch_first=False):
    assert not isinstance(hx, Tensor), "packed sequences are not known here"
    x = input.transpose(0, 1) if batch_first else input
    ways, each, hs, cs = 2 if bidirectional else 1, 4 if has_biases else 2, [], []
    assert len(params) == each * ways * num_layers, "lstm() with projections is not known here"
    for k in range(num_layers):
        outs = []
        for way in range(ways):
            at = k * ways + way
            h0, c0, w_ih, w_hh = hx[0][at:at + 1], hx[1][at:at + 1], params[each * at], params[each * at + 1]
            if has_biases:
                y, h, c, gates, cells = ops.lstm_layer(x.flip([0]) if way == 1 else x, h0, c0, w_ih, w_hh, params[each * at + 2], params[each * at + 3])
            else:
                y, h, c, gates, cells = ops.lstm_layer(x.flip([0]) if way == 1 else x, h0, c0, w_ih, w_hh, None, None)
            outs.append(y.flip([0]) if way == 1 else y)
            hs.append(h)
            cs.append(c)
        x = ops.cat(outs, -1)
        if k + 1 < num_layers:
            x = td.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, ops.cat(hs, 0), ops.cat(cs, 0)


def gru(input, hx, params, has_biases, num_layers: int, dropout: float, train, bidirectional, batch_first=False):
    x = input.transpose(0, 1) if batch_first else input
    ways, each, hs = 2 if bidirectional else 1, 4 if has_biases else 2, []
    for k in range(num_layers):
        outs = []
        for way in range(ways):
            at = k * ways + way
            h0, w_ih, w_hh = hx[at:at + 1], params[each * at], params[each * at + 1]
            if has_biases:
                y, h, gates, hidden = ops.gru_layer(x.flip([0]) if way == 1 else x, h0, w_ih, w_hh, params[each * at + 2], params[each * at + 3])
            else:
                y, h, gates, hidden = ops.gru_layer(x.flip([0]) if way == 1 else x, h0, w_ih, w_hh, None, None)
            outs.append(y.flip([0]) if way == 1 else y)
            hs.append(h)
        x = ops.cat(outs, -1)
        if k + 1 < num_layers:
            x = td.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, ops.cat(hs, 0)


def _rnn(input, hx, params, has_biases, num_layers: int, dropout: float, train, bidirectional, batch_first, relu):
    x = input.transpose(0, 1) if batch_first else input
    ways, each, hs = 2 if bidirectional else 1, 4 if has_biases else 2, []
    for k in range(num_layers):
        outs = []
        for way in range(ways):
            at = k * ways + way
            h0, w_ih, w_hh = hx[at:at + 1], params[each * at], params[each * at + 1]
            if has_biases:
                y, h = ops.rnn_layer(x.flip([0]) if way == 1 else x, h0, w_ih, w_hh, params[each * at + 2], params[each * at + 3], relu)
            else:
                y, h = ops.rnn_layer(x.flip([0]) if way == 1 else x, h0, w_ih, w_hh, None, None, relu)
            outs.append(y.flip([0]) if way == 1 else y)
            hs.append(h)
        x = ops.cat(outs, -1)
        if k + 1 < num_layers:
            x = td.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, ops.cat(hs, 0)


def rnn_tanh(input, hx, params, has_biases, num_layers: int, dropout: float, train, bidirectional, batch_first=False):
    return _rnn(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, False)


def rnn_relu(input, hx, params, has_biases, num_layers: int, dropout: float, train, bidirectional, batch_first=False):
    return _rnn(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, True)


# ---- attention


def _heads(x, num_head: int):
    return ops.transpose(ops.view(x, [x.shape[0], x.shape[1], num_head, x.shape[2] // num_head]), 1, 2)


def _native_multi_head_attention(query, key, value, embed_dim: int, num_head: int, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True, average_attn_weights=True, mask_type=None):
    assert mask is None, "masks of _native_multi_head_attention() are not known here"
    w, b = ops.chunk(qkv_weight, 3), ops.chunk(qkv_bias, 3)
    q, k = _heads(ops.linear(query, w[0], b[0]), num_head), _heads(ops.linear(key, w[1], b[1]), num_head)
    weights = ops.attention_weights(q, k, None)
    out = ops.matmul(weights, _heads(ops.linear(value, w[2], b[2]), num_head))
    made = ops.linear(ops.flatten(ops.transpose(out, 1, 2), 2), proj_weight, proj_bias)
    return made, ops.mean(weights, [1]) if average_attn_weights else weights


def _transformer_encoder_layer_fwd(src, embed_dim: int, num_heads: int, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps: float, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):
    x = ops.layer_norm(src, norm_weight_1, norm_bias_1, 1, eps) if norm_first else src
    x = src + _native_multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask)[0]
    if not norm_first:
        x = ops.layer_norm(x, norm_weight_1, norm_bias_1, 1, eps)
    y = ops.layer_norm(x, norm_weight_2, norm_bias_2, 1, eps) if norm_first else x
    y = ops.linear(y, ffn_weight_1, ffn_bias_1)
    x = x + ops.linear(ops.gelu(y) if use_gelu else ops.relu(y), ffn_weight_2, ffn_bias_2)
    return x if norm_first else ops.layer_norm(x, norm_weight_2, norm_bias_2, 1, eps)


# ---- losses, whose reductions are numbers: none, mean, sum


def mse_loss(self, target, reduction=1):
    return ops.mse_loss(self, target, reduction)


def kl_div(self, target, reduction=1, log_target=False):
    return ops.kl_div(self, target, reduction, log_target)


def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    return ops.smooth_l1_loss(self, target, reduction, beta)


def huber_loss(self, target, reduction=1, delta=1.0):
    return ops.huber_loss(self, target, reduction, delta)


def binary_cross_entropy(self, target, weight=None, reduction=1):
    return ops.binary_cross_entropy(self, target, weight, reduction)


def l1_loss(self, target, reduction=1):
    return ops.l1_loss(self, target, reduction)


def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    return ops.smoothed_cross_entropy(self, target, weight, reduction, ignore_index, label_smoothing)


def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    return ops.nll_loss(self, target, weight, reduction, ignore_index)


def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    return ops.bce_with_logits(self, target, weight, pos_weight, reduction)


# ---- transforms


def _scaled(norm):
    if norm is None or norm == "backward":
        return 0
    if norm == "ortho":
        return 1
    assert norm == "forward", 'norm must be one of "backward", "ortho" and "forward"'
    return 2


def frobenius_norm(self, dim, keepdim=False):
    return td.linalg.vector_norm(self, 2, dim, keepdim)


def nuclear_norm(self, dim=None, keepdim: bool = False):
    return td.linalg.matrix_norm(self, "nuc", keepdim=keepdim) if dim is None else td.linalg.matrix_norm(self, "nuc", dim, keepdim)


def fft_fft(self, n=None, dim=-1, norm=None):
    return ops.fft(self, n, dim, _scaled(norm))


def fft_ifft(self, n=None, dim=-1, norm=None):
    return ops.ifft(self, n, dim, _scaled(norm))


def fft_rfft(self, n=None, dim=-1, norm=None):
    return ops.rfft(self, n, dim, _scaled(norm))


def fft_irfft(self, n=None, dim=-1, norm=None):
    return ops.irfft(self, n, dim, _scaled(norm))


def fft_hfft(self, n=None, dim=-1, norm=None):
    return ops.hfft(self, n, dim, _scaled(norm))


def fft_ihfft(self, n=None, dim=-1, norm=None):
    return ops.ihfft(self, n, dim, _scaled(norm))


def fft_fftn(self, s=None, dim=None, norm=None):
    return ops.fftn(self, s, dim, _scaled(norm))


def fft_ifftn(self, s=None, dim=None, norm=None):
    return ops.ifftn(self, s, dim, _scaled(norm))


def fft_rfftn(self, s=None, dim=None, norm=None):
    return ops.rfftn(self, s, dim, _scaled(norm))


def fft_irfftn(self, s=None, dim=None, norm=None):
    return ops.irfftn(self, s, dim, _scaled(norm))


def fft_hfftn(self, s=None, dim=None, norm=None):
    return ops.hfftn(self, s, dim, _scaled(norm))


def fft_ihfftn(self, s=None, dim=None, norm=None):
    return ops.ihfftn(self, s, dim, _scaled(norm))


def fft_fft2(self, s=None, dim=[-2, -1], norm=None):
    return ops.fft2(self, s, dim, _scaled(norm))


def fft_ifft2(self, s=None, dim=[-2, -1], norm=None):
    return ops.ifft2(self, s, dim, _scaled(norm))


def fft_rfft2(self, s=None, dim=[-2, -1], norm=None):
    return ops.rfft2(self, s, dim, _scaled(norm))


def fft_irfft2(self, s=None, dim=[-2, -1], norm=None):
    return ops.irfft2(self, s, dim, _scaled(norm))


def fft_hfft2(self, s=None, dim=[-2, -1], norm=None):
    return ops.hfft2(self, s, dim, _scaled(norm))


def fft_ihfft2(self, s=None, dim=[-2, -1], norm=None):
    return ops.ihfft2(self, s, dim, _scaled(norm))


# ---- what ATen says by texts


def linalg_qr(A, mode="reduced"):
    return td.linalg.qr(A, mode)


def linalg_eigh(self, UPLO="L"):
    return td.linalg.eigh(self, UPLO)


def linalg_eigvalsh(self, UPLO="L"):
    return td.linalg.eigvalsh(self, UPLO)


def _reduction(name):
    if name == "sum":
        return 0
    if name == "prod":
        return 1
    if name == "mean":
        return 2
    if name == "amax":
        return 3
    assert name == "amin", 'reduce must be one of "sum", "prod", "mean", "amax" and "amin"'
    return 4


def scatter_reduce(self, dim, index, src, reduce, include_self=True):
    return ops.scatter_reduce(self, dim, index, src, _reduction(reduce), include_self)


def index_reduce(self, dim, index, source, reduce, include_self=True):
    return ops.index_reduce(self, dim, index, source, _reduction(reduce), include_self)


def trapezoid(y, x=None, dx=1, dim=-1):
    return ops.trapezoid(y, x, dx, dim)


def cumulative_trapezoid(y, x=None, dx=1, dim=-1):
    return ops.cumulative_trapezoid(y, x, dx, dim)


def adaptive_max_pool1d(self, output_size: list[int]):
    return ops.adaptive_max_pool1d(self, output_size[0])


# ---- signals and lists of tensors, as PyTorch's functions take them


def stft(self, n_fft: int, hop_length=None, win_length=None, window=None, center=True, pad_mode: str = "reflect", normalized=False, onesided=None, return_complex=None):
    modes = ["reflect", "constant", "replicate", "circular"]
    assert pad_mode in modes, f"stft(): pad_mode must be one of {modes}, not {pad_mode}"
    half = not self.dtype.is_complex if onesided is None else onesided
    y = ops.stft(self, n_fft, hop_length, win_length, window, center, modes.index(pad_mode), normalized, half)
    if return_complex is None:
        assert self.dtype.is_complex, "stft requires the return_complex parameter be given for real inputs"
        return y
    return y if return_complex else ops.stack([ops.real(y), ops.imag(y)], -1)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side: str = "right"):
    assert padding_side == "left" or padding_side == "right", f"Expected padding_side to be one of left or right, but got {padding_side}."
    most, even = 0, [x for x in sequences]
    for x in even:
        most = max(most, x.shape[0])
    for k in range(len(even)):
        x = even[k]
        last = [0, most - x.shape[0]] if padding_side == "right" else [most - x.shape[0], 0]
        even[k] = ops.constant_pad(x, [0 for _ in range(2 * x.ndim - 2)] + last, padding_value)
    return ops.stack(even, 0 if batch_first else 1)


def bernoulli_(self, p: float = 0.5, generator=None):
    self[...] = ops.bernoulli(td.full(self.shape, p, dtype=self.dtype))
    return self


def element_size(self):
    kind = self.dtype
    if kind == td.float64 or kind == td.int64 or kind == td.uint64 or kind == td.complex64:
        return 8
    if kind == td.float32 or kind == td.int32 or kind == td.uint32:
        return 4
    if kind == td.float16 or kind == td.bfloat16 or kind == td.int16 or kind == td.uint16:
        return 2
    return 16 if kind == td.complex128 else 1
