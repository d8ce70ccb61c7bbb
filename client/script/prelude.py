"""What programs know beside the rows of the op table: functions and methods in PyTorch's forms, and layers that are no
source in the subset. It is part of libtensord, and each function is lowered where it is called, for the types that it is
given there: a parameter without an annotation takes any, and isinstance() and constants decide while it is lowered.

`ops` are the rows alone, `td` is all of tensord. A parameter `list[int]` takes all numbers that are left. layer_NAME is
the forward() of tensord.nn.NAME, functional_NAME is nn.functional.NAME where td.NAME is another, attribute_NAME what stands for .NAME of a tensor."""


# ---- places and their numbers


def nonzero(input, as_tuple: bool = False):
    return ops.unbind(ops.nonzero(input), 1) if as_tuple else ops.nonzero(input)


def one_hot(input, num_classes: int = -1):
    return ops.one_hot(input, int(ops.amax(input)) + 1 if num_classes == -1 else num_classes)


def scatter_reduce(input, dim: int, index, src, reduce, include_self: bool = True):
    if isinstance(reduce, int):
        return ops.scatter_reduce(input, dim, index, src, reduce, include_self)
    kinds = ["sum", "prod", "mean", "amax", "amin"]
    assert reduce in kinds, f"scatter_reduce(): reduce is one of {kinds}, not {reduce}"
    return ops.scatter_reduce(input, dim, index, src, kinds.index(reduce), include_self)


# ---- what programs say


def _assert(condition, message: str = ""):
    assert condition, message


def warn(message, category: str = "UserWarning", stacklevel: int = 1):
    print(f"{category}: {message}")


def wait(future):
    return future  # fork() has called when it returns


# ---- shapes


def reshape(input, shape: list[int]):
    return ops.reshaped(input, shape)


def laid_order(input, format: int):
    """The dimensions from the outermost in, of channels_last (2) and channels_last_3d (3); contiguous_format is 0, preserve_format 1."""
    order = [0, 2, 3, 1] if format == 2 else [0, 2, 3, 4, 1]
    assert input.ndim == len(order), f"required rank {len(order)} tensor to use channels last, but 'x' has {input.ndim} dimensions"
    return order


def laid_out(input, format):
    """As it is, where it lies so."""
    if format is None or format == 1:
        return input
    if format == 0:
        return ops.packed(input)
    return input if lies_in_rows(ops.permute(input, laid_order(input, format))) else ops.copy_last(input)


def clone_as(input, format):
    if format is None or format == 1:
        return ops.copy_kept(input)
    return ops.copy(input) if format == 0 else ops.copy_last(input)


def contiguous(input, memory_format=None):
    return ops.packed(input) if memory_format is None else laid_out(input, memory_format)


def flatten(input, start_dim: int = 0, end_dim: int = -1):
    return ops.flatten(input, start_dim, end_dim)


def unflatten(input, dim: int, sizes: list[int]):
    at = dim + input.ndim if dim < 0 else dim
    n, known = input.shape[at], 1
    for size in sizes:
        known = known * size if size != -1 else known
    if -1 in sizes and known > 0:  # of this dimension alone: others may have no places
        assert n % known == 0, f"unflatten: {sizes} do not multiply up to the size {n} of dimension {dim}"
        sizes = [n // known if size == -1 else size for size in sizes]
    return ops.view(input, input.shape[:at] + sizes + input.shape[at + 1:])


def view_as(input, other):
    return ops.view(input, other.shape)


def reshape_as(input, other):
    return reshape(input, other.shape)


def expand_as(input, other):
    return ops.expand(input, other.shape)


def broadcast_to(input, size: list[int]):
    return ops.expand(input, size)


def attribute_T(input):
    return ops.t(input) if input.ndim <= 2 else ops.permute(input, [d for d in range(input.ndim - 1, -1, -1)])


def attribute_H(input):
    return td.conj(attribute_T(input))


def attribute_itemsize(input):
    return td.element_size(input)


def attribute_nbytes(input):
    return td.element_size(input) * input.numel()


def attribute_is_cuda(input):
    return input.device.type == "cuda"


def attribute_is_cpu(input):
    return input.device.type == "cpu"


def attribute_is_sparse(input):
    return False


def attribute_is_quantized(input):
    return False


def attribute_is_meta(input):
    return False


def attribute_is_mkldnn(input):
    return False


# Views, which can be written to.
def attribute_real(input):
    return ops.view_part(input, 0) if input.dtype.is_complex else input


def attribute_imag(input):
    return ops.view_part(input, 1) if input.dtype.is_complex else ops.imag(input)


def real(input):
    return attribute_real(input)


def imag(input):
    return attribute_imag(input)


def swapaxes(input, axis0: int, axis1: int):
    return ops.transpose(input, axis0, axis1)


def split(input, split_size_or_sections, dim: int = 0):
    if isinstance(split_size_or_sections, int):
        n, each = input.shape[dim], split_size_or_sections
        assert each > 0, "split_size must be above 0"
        sizes = [min(each, n - k) for k in range(0, n, each)]
        if n == 0:
            sizes.append(0)
        return ops.split(input, sizes, dim)
    return ops.split(input, split_size_or_sections, dim)


def tensor_split(input, indices_or_sections, dim: int = 0):
    if isinstance(indices_or_sections, int):
        return ops.tensor_split_sections(input, indices_or_sections, dim)
    return ops.tensor_split(input, indices_or_sections, dim)


def concat(tensors, dim: int = 0):
    return ops.cat(tensors, dim)


def hstack(tensors):
    return ops.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def vstack(tensors):
    return ops.cat([t.unsqueeze(0) if t.ndim == 1 else t for t in tensors], 0)


def pad(input, pad, mode: str = "constant", value=None):
    if mode == "constant":
        return ops.constant_pad(input, pad, 0 if value is None else value)
    assert value is None, f'Padding mode "{mode}" doesn\'t take in value argument'
    if mode == "reflect":
        return ops.reflection_pad(input, pad)
    if mode == "replicate":
        return ops.replication_pad(input, pad)
    assert mode == "circular", f"Unrecognised padding mode {mode}"
    return ops.circular_pad(input, pad)


# ---- masks


def _masked(input, mask):
    """What has a place for each of a mask: where that has no dimension, there is one more."""
    return ops.unsqueeze(input, 0) if mask.ndim == 0 else input


def _holds(input, mask):
    at = ops.unsqueeze(mask, 0) if mask.ndim == 0 else mask
    assert at.shape == input.shape[:at.ndim], f"the mask has the shape {at.shape}, and the tensor {input.shape}"
    return ops.unbind(ops.nonzero(at), 1)


def _mask_parts(input, mask):
    """What is indexed, and the indices."""
    x = _masked(input, mask)
    return x, _holds(x, mask)


def _index_parts(input, index):
    """The same; what is no mask is an index as it is."""
    if index.dtype == td.bool:
        return _mask_parts(input, index)
    return input, [index]


def _is_place(index):
    """Is it a whole number without dimensions? By one a view is meant, as by an int."""
    return index.ndim == 0 and index.dtype != td.bool and index.dtype != td.uint8 and not index.is_floating_point()


def _index_alone(input, index):
    """By one without dimensions, a place or a mask."""
    if index.dtype == td.bool or index.dtype == td.uint8:
        return ops.index(ops.unsqueeze(input, 0), [ops.select(ops.nonzero(ops.unsqueeze(index, 0)), 1, 0)])
    assert not index.is_floating_point(), f"tensors used as indices must be int64, int32 or bool, not {index.dtype}"
    return ops.select(input, 0, int(index))


def _index_some(input, indices: list[Tensor | None]):
    """By several, of which some have no dimensions."""
    view, more = input, False
    rest: list[Tensor | None] = []
    for index in indices:
        if index is None:
            rest.append(None)
        elif _is_place(index):
            view = ops.select(view, len(rest), int(index))
        else:
            rest.append(index)
            more = True
    return ops.index(view, rest) if more else view


def device_type(device):
    return str(device).split(":")[0]


def is_contiguous(input, memory_format=None):
    return lies_in_rows(input) if memory_format is None else lies_as(input, memory_format)


def lies_as(input, format: int):
    if format < 2:
        return lies_in_rows(input)
    return input.ndim == format + 2 and lies_in_rows(ops.permute(input, laid_order(input, format)))


def lies_in_rows(input):
    strides, step = prim_stride(input), 1
    for d in range(input.ndim - 1, -1, -1):
        if input.shape[d] != 1:
            if strides[d] != step:
                return input.numel() == 0
            step = step * input.shape[d]
    return True


def stride(input, dim: int | None = None):
    return prim_stride(input) if dim is None else prim_stride(input)[dim]


def meshgrid(tensors: list[Tensor], indexing: str = "ij"):
    assert indexing == "ij" or indexing == "xy", f"meshgrid(): indexing must be 'ij' or 'xy', not {indexing!r}"
    return ops.meshgrid(tensors, indexing == "xy")


def chain_matmul(matrices: list[Tensor]):
    return ops.linalg_multi_dot(matrices) if len(matrices) > 1 else matrices[0]


# ---- values


def new_tensor(input, data, dtype=None, device=None, requires_grad: bool = False):
    return as_tensor(data, input.dtype if dtype is None else dtype).clone()


def type_as(input, other):
    return input.to(other.dtype)


def out_is(input, src):
    """out=: of the shape of what is written there, as a program gives no tensor another one."""
    assert input.shape == src.shape, f"out= of a program is of the shape of the result, {src.shape}, not {input.shape}"
    return copy_(input, src)


def copy_(input, src):
    input[...] = src
    return input


def resize_as_(input, other):
    assert input.shape == other.shape, f"resize_as_() of a program goes to the shape that is there, {input.shape}, not {other.shape}"
    return input


def fill_(input, value):
    input[...] = value
    return input


def zero_(input):
    input[...] = 0
    return input


def new_zeros(input, size: list[int]):
    return ops.full(size, 0, input.dtype)


def new_ones(input, size: list[int]):
    return ops.full(size, 1, input.dtype)


def empty(size: list[int], dtype=None, layout=None, device=None, pin_memory=None, memory_format=None, requires_grad: bool = False):
    return ops.empty(size, td.float32 if dtype is None else dtype)


def normal_(input, mean: float = 0.0, std: float = 1.0, generator=None):
    assert std >= 0, f"normal_ expects std >= 0.0, but found std {std}"
    return copy_(input, ops.randn(input.shape, input.dtype) * std + mean)


def uniform_(input, a: float = 0.0, b: float = 1.0, generator=None):
    assert a <= b, f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}"
    return copy_(input, ops.rand(input.shape, input.dtype) * (b - a) + a)


def exponential_(input, lambd: float = 1.0, generator=None):
    return copy_(input, ops.exponential(input.shape, lambd, input.dtype))


def random_(input, low: int, high: int | None = None, generator=None):
    first, last = (0 if high is None else low), (low if high is None else high)
    assert first < last, f"random_ expects 'from' to be less than 'to', but got from={first} >= to={last}"
    return copy_(input, ops.randint(first, last, input.shape, td.int64))


def full_like(input, fill_value):
    return ops.full(input.shape, fill_value, input.dtype)


def rand_like(input):
    return ops.rand(input.shape, input.dtype)


def randn_like(input):
    return ops.randn(input.shape, input.dtype)


def rand(size: list[int], dtype: dtype = td.float32):
    return ops.rand(size, dtype)


def randn(size: list[int], dtype: dtype = td.float32):
    return ops.randn(size, dtype)


def eye(n: int, m: int | None = None):
    return ops.eye(n, n if m is None else m, td.float32)


def addmm(input, mat1, mat2, beta=1, alpha=1):
    return ops.addmm(input, mat1, mat2, beta, alpha)


# ---- activations


def _placed(input, out, inplace: bool):
    if inplace:
        input[...] = out
        return input
    return out


def relu(input, inplace: bool = False):
    if inplace:
        return input.relu_()
    return ops.relu(input)


def relu6(input, inplace: bool = False):
    return _placed(input, ops.relu6(input.clone() if inplace else input), inplace)


def leaky_relu(input, negative_slope: float = 0.01, inplace: bool = False):
    return _placed(input, ops.leaky_relu(input.clone() if inplace else input, negative_slope), inplace)


def elu(input, alpha: float = 1.0, inplace: bool = False):
    return _placed(input, ops.elu(input.clone() if inplace else input, alpha), inplace)


def selu(input, inplace: bool = False):
    return _placed(input, ops.selu(input.clone() if inplace else input), inplace)


def celu(input, alpha: float = 1.0, inplace: bool = False):
    return _placed(input, ops.celu(input.clone() if inplace else input, alpha), inplace)


def silu(input, inplace: bool = False):
    return _placed(input, ops.silu(input.clone() if inplace else input), inplace)


def mish(input, inplace: bool = False):
    return _placed(input, ops.mish(input.clone() if inplace else input), inplace)


def hardtanh(input, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
    return _placed(input, ops.hardtanh(input.clone() if inplace else input, min_val, max_val), inplace)


def hardsigmoid(input, inplace: bool = False):
    return _placed(input, ops.hardsigmoid(input.clone() if inplace else input), inplace)


def hardswish(input, inplace: bool = False):
    return _placed(input, ops.hardswish(input.clone() if inplace else input), inplace)


def gelu(input, approximate: str = "none"):
    return ops.gelu(input, approximate == "tanh")


# ---- layers as functions


def _two(v):
    if isinstance(v, int):
        return [v, v]
    return v


def _one(v):
    if isinstance(v, int):
        return v
    return v[0]


def _padding(padding, dilation, weight):
    if isinstance(padding, str):
        d = _two(dilation)
        same = 1 if padding == "same" else 0
        odd = d[0] * (weight.shape[2] - 1) % 2 + d[1] * (weight.shape[3] - 1) % 2
        assert same == 0 or odd == 0, "padding='same' wants kernels whose reach is even, so that both sides get as much"
        return [same * d[0] * (weight.shape[2] - 1) // 2, same * d[1] * (weight.shape[3] - 1) // 2]
    return _two(padding)


def linear(input, weight, bias=None):
    return ops.linear(input, weight, bias)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups: int = 1):
    single = input.ndim == 3
    x = input.unsqueeze(0) if single else input
    out = ops.conv2d(x, weight, bias, _two(stride), _padding(padding, dilation, weight), _two(dilation), groups)
    return out.squeeze(0) if single else out


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups: int = 1):
    beside = _padding(padding, [1, _one(dilation)], weight.unsqueeze(-2))[1] if isinstance(padding, str) else _one(padding)
    return ops.conv1d(input, weight, bias, _one(stride), beside, _one(dilation), groups)


def _found(values, places, single: bool, return_indices: bool):
    """What a pool took, of one picture without its batch, and where."""
    out = values.squeeze(0) if single else values
    return (out, places.squeeze(0) if single else places) if return_indices else out


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    single = input.ndim == 3
    x = input.unsqueeze(0) if single else input
    kernel = _two(kernel_size)
    step = kernel if stride is None else _two(stride)
    if return_indices:
        values, places = td.max_pool2d_with_indices(x, kernel, step, _two(padding), _two(dilation), ceil_mode)
        return _found(values, places, single, True)
    out = ops.max_pool2d(x, kernel, step, _two(padding), _two(dilation), ceil_mode)
    return out.squeeze(0) if single else out


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    kernel = _one(kernel_size)
    step = kernel if stride is None else _one(stride)
    if return_indices:
        values, places = ops.max_pool1d_with_indices(input, [kernel], [step], [_one(padding)], [_one(dilation)], ceil_mode)
        return values, places
    return max_pool2d(input.unsqueeze(-2), [1, kernel], [1, step], [0, _one(padding)], [1, _one(dilation)], ceil_mode).squeeze(-2)


def _places_of_two(input, output_size):
    size = _two(output_size)
    rows, columns = size[0], size[1]
    h = input.shape[-2] if rows is None else rows
    w = input.shape[-1] if columns is None else columns
    return [h, w]


def adaptive_max_pool1d(input, output_size, return_indices: bool = False):
    values, indices = ops.adaptive_max_pool1d(input, _one(output_size))
    return (values, indices) if return_indices else values


def adaptive_max_pool2d(input, output_size, return_indices: bool = False):
    if return_indices:
        values, places = ops.adaptive_max_pool3d(input.unsqueeze(-3), [1] + _places_of_two(input, output_size))
        return values.squeeze(-3), places.squeeze(-3)
    return ops.adaptive_max_pool2d(input, _places_of_two(input, output_size))


def adaptive_max_pool3d(input, output_size, return_indices: bool = False):
    values, indices = ops.adaptive_max_pool3d(input, [output_size, output_size, output_size] if isinstance(output_size, int) else [int(s) for s in output_size])
    return (values, indices) if return_indices else values


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    if return_indices:
        values, places = ops.max_pool3d_with_indices(input, _some(kernel_size), [] if stride is None else _some(stride), _some(padding), _some(dilation), ceil_mode)
        return values, places
    return ops.max_pool3d(input, _some(kernel_size), [] if stride is None else _some(stride), _some(padding), _some(dilation), ceil_mode)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override=None):
    return ops.avg_pool3d(input, _some(kernel_size), [] if stride is None else _some(stride), _some(padding), ceil_mode, count_include_pad, divisor_override)


def _some(v):
    return [v] if isinstance(v, int) else [int(n) for n in v]


def functional_max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = True):
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def functional_max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = True):
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def functional_max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = True):
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def functional_adaptive_max_pool1d_with_indices(input, output_size, return_indices: bool = True):
    return adaptive_max_pool1d(input, output_size, True)


def functional_adaptive_max_pool2d_with_indices(input, output_size, return_indices: bool = True):
    return adaptive_max_pool2d(input, output_size, True)


def functional_adaptive_max_pool3d_with_indices(input, output_size, return_indices: bool = True):
    return adaptive_max_pool3d(input, output_size, True)


def _spread(v, n: int):
    return [v for k in range(n)] if isinstance(v, int) else [int(each) for each in v]


def _unpool(n: int, input, indices, kernel_size, stride, padding, output_size):
    kernel, edges = _spread(kernel_size, n), _spread(padding, n)
    steps = kernel if stride is None else _spread(stride, n)
    usual = [(input.shape[k - n] - 1) * steps[k] - 2 * edges[k] + kernel[k] for k in range(n)]
    if output_size is None:
        return ops.max_unpool(input, indices, usual)
    given = [int(each) for each in output_size]
    assert len(given) >= n and len(given) <= n + 2, f"invalid output_size {given}: it has {n} to {n + 2} numbers"
    sizes = given[len(given) - n:]
    for k in range(n):
        assert usual[k] - steps[k] < sizes[k] and sizes[k] < usual[k] + steps[k], f"invalid output_size {given}: within a stride of {usual} are possible"
    return ops.max_unpool(input, indices, sizes)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _fractional_size(n: int, input, output_size, output_ratio):
    if output_size is not None:
        assert output_ratio is None, f"fractional_max_pool{n}d requires specifying either an output_size or an output_ratio"
        return _spread(output_size, n)
    assert output_ratio is not None, f"fractional_max_pool{n}d requires specifying either an output_size or an output_ratio"
    ratios = [float(output_ratio) for k in range(n)] if isinstance(output_ratio, (int, float)) else [float(each) for each in output_ratio]
    return [int(float(input.shape[k - n]) * ratios[k]) for k in range(n)]


def _fractional_draws(n: int, x, samples):
    return td.rand([x.shape[0], x.shape[1], n], dtype=x.dtype) if samples is None else samples


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None):
    size = _fractional_size(2, input, output_size, output_ratio)
    x = input.unsqueeze(0) if input.ndim == 3 else input
    values, places = ops.fractional_max_pool2d(x, _fractional_draws(2, x, _random_samples), _spread(kernel_size, 2), size)
    return _found(values, places, input.ndim == 3, return_indices)


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None):
    size = _fractional_size(3, input, output_size, output_ratio)
    x = input.unsqueeze(0) if input.ndim == 4 else input
    values, places = ops.fractional_max_pool3d(x, _fractional_draws(3, x, _random_samples), _spread(kernel_size, 3), size)
    return _found(values, places, input.ndim == 4, return_indices)


def functional_fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = True, _random_samples=None):
    return fractional_max_pool2d(input, kernel_size, output_size, output_ratio, True, _random_samples)


def functional_fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = True, _random_samples=None):
    return fractional_max_pool3d(input, kernel_size, output_size, output_ratio, True, _random_samples)


def lp_pool1d(input, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False):
    return ops.lp_pool1d(input, norm_type, _some(kernel_size), [] if stride is None else _some(stride), ceil_mode)


def lp_pool2d(input, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False):
    return ops.lp_pool2d(input, norm_type, _some(kernel_size), [] if stride is None else _some(stride), ceil_mode)


def lp_pool3d(input, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False):
    return ops.lp_pool3d(input, norm_type, _some(kernel_size), [] if stride is None else _some(stride), ceil_mode)


def functional_unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    return ops.im2col(input, _some(kernel_size), _some(dilation), _some(padding), _some(stride))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    return ops.col2im(input, _two(output_size), _some(kernel_size), _some(dilation), _some(padding), _some(stride))


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override=None):
    single = input.ndim == 3
    x = input.unsqueeze(0) if single else input
    kernel = _two(kernel_size)
    step = kernel if stride is None else _two(stride)
    if divisor_override is None:
        out = ops.avg_pool2d(x, kernel, step, _two(padding), ceil_mode, count_include_pad)
    else:
        out = ops.avg_pool3d(x.unsqueeze(-3), [1, kernel[0], kernel[1]], [1, step[0], step[1]], [0, _two(padding)[0], _two(padding)[1]], ceil_mode, count_include_pad, divisor_override).squeeze(-3)
    return out.squeeze(0) if single else out


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True):
    kernel = _one(kernel_size)
    step = kernel if stride is None else _one(stride)
    return avg_pool2d(input.unsqueeze(-2), [1, kernel], [1, step], [0, _one(padding)], ceil_mode, count_include_pad).squeeze(-2)


def adaptive_avg_pool2d(input, output_size):
    return ops.adaptive_avg_pool2d(input, _places_of_two(input, output_size))


def adaptive_avg_pool1d(input, output_size):
    return ops.adaptive_avg_pool1d(input, _one(output_size))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps: float = 1e-5):
    return ops.layer_norm(input, weight, bias, 1 if isinstance(normalized_shape, int) else len(normalized_shape), eps)


def group_norm(input, num_groups: int, weight=None, bias=None, eps: float = 1e-5):
    return ops.group_norm(input, num_groups, weight, bias, eps)


def functional_batch_norm(input, running_mean, running_var, weight=None, bias=None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5):
    if training:
        assert input.numel() != input.shape[1], "Expected more than 1 value per channel when training"
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def functional_instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats: bool = True, momentum: float = 0.1,
                             eps: float = 1e-5):
    if not use_input_stats:
        assert running_mean is not None and running_var is not None, "Expected running_mean and running_var to be defined when use_input_stats is false"
        return ops.batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    if running_mean is None and running_var is None:
        return ops.group_norm(input, input.shape[1], weight, bias, eps)
    n, c = input.shape[0], input.shape[1]
    mean, var = _of_each(running_mean, n), _of_each(running_var, n)
    out = ops.batch_norm(reshape(input, [1, n * c] + input.shape[2:]), _each(weight, n), _each(bias, n), mean, var, True, momentum, eps)
    with td.no_grad():
        _keep_mean(running_mean, mean, n, c)
        _keep_mean(running_var, var, n, c)
    return reshape(out, input.shape)


def _each(x, n: int):
    return None if x is None else x.repeat([n])


def _of_each(x, n: int):
    return None if x is None else x.detach().repeat([n])


def _keep_mean(running, each, n: int, c: int):
    if running is not None:
        running[...] = ops.mean(reshape(each, [n, c]), [0])


def functional_embedding(input, weight, padding_idx=None, max_norm=None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False):
    assert not sparse, "embedding of a program has no sparse gradients"
    if max_norm is not None:
        _hold_rows(weight, input, max_norm, norm_type)
    out = ops.embedding(_often(weight, input) if scale_grad_by_freq else weight, input)
    if padding_idx is None:
        return out
    assert -weight.shape[0] <= padding_idx and padding_idx < weight.shape[0], "Padding_idx must be within num_embeddings"
    return ops.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), out.detach(), out)


def _hold_rows(weight, input, max_norm, norm_type: float):
    """Rows that are used and longer than max_norm are made that long."""
    with td.no_grad():
        rows, held = ops.unique(ops.flatten(input)), weight.detach()
        found = ops.index_select(held, 0, rows)
        norm = ops.norm(found, norm_type, [1], True)
        held[rows] = ops.where(norm > max_norm, found * (max_norm / (norm + 1e-7)), found)


def embedding_renorm_(input, indices, max_norm: float, norm_type: float):
    _hold_rows(input, indices, max_norm, norm_type)
    return input


def _often(weight, input):
    """weight whose gradient is divided by how often each row is used."""
    flat, none = ops.flatten(input), td.zeros([weight.shape[0]], dtype=weight.dtype)
    uses = ops.index_add(none, 0, flat, td.ones(flat.shape, dtype=weight.dtype))
    return weight.detach() + (weight - weight.detach()) / ops.where(uses == 0, 1.0, uses).unsqueeze(1)


def _bags(input, offsets, last: bool):
    """The indices of all bags, the bag of each, how many there are."""
    if offsets is None:
        assert input.ndim == 2, "input has to be 2D, or 1D with offsets that are a 1D Tensor"
        return reshape(input, [-1]), ops.repeat_interleave(ops.arange(0, input.shape[0], 1, td.int64), input.shape[1]), input.shape[0]
    assert input.ndim == 1 and offsets.ndim == 1, "input has to be 2D, or 1D with offsets that are a 1D Tensor"
    n = offsets.shape[0] - int(last)
    return input, ops.searchsorted(offsets[:n], ops.arange(0, input.shape[0], 1, offsets.dtype), True) - 1, n


def _best_rows(input, weight, offsets, last: bool, padding_idx):
    """The largest of each bag, 0 where it is empty. Where bags begin is waited for."""
    found = ops.embedding(weight, input)
    if padding_idx is not None:
        found = ops.masked_fill(found, (input == padding_idx % weight.shape[0]).unsqueeze(-1), -math.inf)
    if offsets is None:
        best = ops.amax(found, [1]) if found.shape[1] > 0 else ops.sum(found, [1])
    else:
        ends = [int(at) for at in offsets]
        if not last:
            ends.append(input.shape[0])
        rows: list[Tensor] = []
        for k in range(len(ends) - 1):
            bag = found[ends[k]:ends[k + 1]]
            rows.append(td.max(bag, 0)[0] if bag.shape[0] > 0 else ops.sum(bag, [0]))
        best = ops.stack(rows, 0) if len(rows) > 0 else found[:0]
    return best if padding_idx is None else ops.masked_fill(best, best == -math.inf, 0.0)


def functional_embedding_bag(input, weight, offsets=None, max_norm=None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                             per_sample_weights=None, include_last_offset: bool = False, padding_idx=None):
    assert not sparse, "embedding_bag of a program has no sparse gradients"
    assert mode == "sum" or mode == "mean" or mode == "max", "mode has to be one of sum, mean or max"
    assert per_sample_weights is None or mode == "sum", "embedding_bag: per_sample_weights is only supported for mode='sum'"
    if max_norm is not None:
        _hold_rows(weight, input, max_norm, norm_type)
    rows = _often(weight, input) if scale_grad_by_freq else weight
    if mode == "max":
        return _best_rows(input, rows, offsets, include_last_offset, padding_idx)
    if padding_idx is None and not include_last_offset:
        return ops.embedding_bag(rows, input, offsets, per_sample_weights, mode == "mean")
    flat, bag, n = _bags(input, offsets, include_last_offset)
    counts = td.ones(flat.shape, dtype=rows.dtype) if padding_idx is None else (flat != padding_idx % rows.shape[0]).to(rows.dtype)
    scale = counts if per_sample_weights is None else counts * ops.flatten(per_sample_weights)
    sums = ops.index_add(td.zeros([n, rows.shape[1]], dtype=rows.dtype), 0, bag, ops.embedding(rows, flat) * scale.unsqueeze(1))
    if mode == "sum":
        return sums
    return sums / ops.clamp(ops.index_add(td.zeros([n], dtype=rows.dtype), 0, bag, counts), 1, None).unsqueeze(1)


def dropout(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    assert p >= 0.0 and p <= 1.0, "dropout probability has to be between 0 and 1"
    if training:
        if p > 0.0:
            return _placed(input, ops.dropout(input.clone() if inplace else input, p), inplace)
        return input
    return input


def randint(low: int, high=None, size=None, dtype=None, generator=None, layout=None, device=None, requires_grad: bool = False):
    assert generator is None and not requires_grad, "randint of a program knows neither generator nor requires_grad"
    kind = td.int64 if dtype is None else dtype
    if size is None:
        return ops.randint(0, low, high, kind)
    if high is None:
        return ops.randint(0, low, size, kind)
    return ops.randint(low, high, size, kind)


def randperm(n: int, dtype=None, generator=None, layout=None, device=None, requires_grad: bool = False):
    assert generator is None and not requires_grad, "randperm of a program knows neither generator nor requires_grad"
    return ops.randperm(n, td.int64 if dtype is None else dtype)


def _alpha_dropout(input, p: float, training: bool, inplace: bool, shape: list[int]):
    assert p >= 0.0 and p <= 1.0, "dropout probability has to be between 0 and 1"
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return _placed(input, input * 0.0, inplace)
    alpha = 1.7580993408473766
    scale = 1 / ((alpha * alpha * p + 1) * (1 - p)) ** 0.5
    kept = ops.bernoulli(td.full(shape, 1 - p, dtype=input.dtype))
    return _placed(input, input * (kept * scale) + (kept - 1) * (alpha * scale) + alpha * scale * p, inplace)


def alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    return _alpha_dropout(input, p, training, inplace, input.shape)


def feature_alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    return _alpha_dropout(input, p, training, inplace, input.shape[:2] + [1 for k in range(input.ndim - 2)])


def rrelu(input, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False):
    assert lower <= upper, "Lower bound should be less than or equal to the upper bound"
    if not training:
        return _placed(input, ops.leaky_relu(input.clone() if inplace else input, (lower + upper) / 2), inplace)
    x = input.clone() if inplace else input
    slope = td.rand(x.shape, dtype=x.dtype) * (upper - lower) + lower
    return _placed(input, ops.where(x <= 0, x * slope, x), inplace)


def _of_channels(input, p: float, training: bool, ndim: int, inplace: bool):
    assert p >= 0.0 and p <= 1.0, "dropout probability has to be between 0 and 1"
    if training and p > 0.0:
        kept = ops.dropout(td.ones(input.shape[:2] + [1 for k in range(ndim - 2)], dtype=input.dtype), p)
        return input.mul_(kept) if inplace else input * kept
    return input


def dropout1d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    assert input.ndim == 2 or input.ndim == 3, f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input"
    if input.ndim == 2:
        return _of_channels(ops.unsqueeze(input, 0), p, training, 3, inplace).squeeze(0)
    return _of_channels(input, p, training, 3, inplace)


def dropout2d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    return _of_channels(input, p, training, input.ndim, inplace)


def dropout3d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    if input.ndim == 4:
        return _of_channels(ops.unsqueeze(input, 0), p, training, 5, inplace).squeeze(0)
    return _of_channels(input, p, training, 5, inplace)


# ---- pictures in other sizes


def _resample_mode(mode: str) -> int:
    if mode == "nearest":
        return 0
    if mode == "nearest-exact":
        return 1
    if mode == "linear" or mode == "bilinear" or mode == "trilinear":
        return 2
    if mode == "bicubic":
        return 3
    assert mode == "area", f"the mode is nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area, not '{mode}'"
    return 4


def interpolate(input, size=None, scale_factor=None, mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False):
    n, number, corners = input.ndim - 2, _resample_mode(mode), align_corners is not None and align_corners
    assert n >= 1 and n <= 3, f"Only 3D, 4D and 5D input Tensors are supported, not {input.ndim}D"
    if size is not None:
        assert scale_factor is None, "interpolate(): only one of size or scale_factor should be defined"
        sizes = [int(s) for s in size] if isinstance(size, (list, tuple)) else [size for k in range(n)]
        assert len(sizes) == n, f"interpolate(): {len(sizes)} numbers for {n} dimensions of pictures"
        return ops.resample(input, sizes, number, corners, antialias)
    assert scale_factor is not None, "interpolate(): either size or scale_factor should be defined"
    scales = [float(s) for s in scale_factor] if isinstance(scale_factor, (list, tuple)) else [float(scale_factor) for k in range(n)]
    assert len(scales) == n, f"interpolate(): {len(scales)} numbers for {n} dimensions of pictures"
    scaled = [int(math.floor(float(input.shape[2 + k]) * scales[k])) for k in range(n)]
    if number == 4 or (recompute_scale_factor is not None and recompute_scale_factor):
        return ops.resample(input, scaled, number, corners, antialias)
    if n == 1:
        return ops.resample(input, scaled, number, corners, antialias, None, None, scales[0])
    if n == 2:
        return ops.resample(input, scaled, number, corners, antialias, None, scales[0], scales[1])
    return ops.resample(input, scaled, number, corners, antialias, scales[0], scales[1], scales[2])


def upsample(input, size=None, scale_factor=None, mode: str = "nearest", align_corners: bool | None = None):
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input, size=None, scale_factor=None):
    return interpolate(input, size, scale_factor, "bilinear", True)


# ---- gradients


def _tensors(x):
    return [x] if isinstance(x, Tensor) else x if isinstance(x, list) else list(x)


def _given(x):
    return [] if x is None else _tensors(x)


def autograd_backward(tensors, grad_tensors=None, retain_graph: bool | None = None, create_graph: bool = False, inputs=None):
    leaves: list[Tensor] = []
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        prim_backward(_tensors(tensors), _given(grad_tensors), leaves, keep, create_graph)
    else:
        xs: list[Tensor] = _tensors(inputs)
        assert len(xs) > 0, "the inputs of backward() cannot be empty"
        grads = prim_autograd_grad_or_none(_tensors(tensors), _given(grad_tensors), xs, keep, create_graph)
        for x, g in zip(xs, grads):
            before = x.grad
            if g is not None:
                x.grad = g.clone() if before is None else before + g  # nobody else's


def backward(input, gradient=None, retain_graph: bool | None = None, create_graph: bool = False, inputs=None):
    autograd_backward(input, gradient, retain_graph, create_graph, inputs)


def grad(outputs, inputs, grad_outputs=None, retain_graph: bool | None = None, create_graph: bool = False, allow_unused: bool = False):
    keep = create_graph if retain_graph is None else retain_graph
    if allow_unused:
        return gradients_of(prim_autograd_grad_or_none(_tensors(outputs), _given(grad_outputs), _tensors(inputs), keep, create_graph), inputs)
    return gradients_of(prim_autograd_grad(_tensors(outputs), _given(grad_outputs), _tensors(inputs), keep, create_graph), inputs)


def requires_grad_(input, requires_grad: bool = True):
    prim_set_requires_grad(input, requires_grad)
    return input


def retain_grad(input):
    prim_retain_grad(input)


def clip_grad_norm_(parameters, max_norm: float, norm_type: float = 2.0):
    with td.no_grad():
        grads: list[Tensor] = []
        for p in _tensors(parameters):
            g = p.grad
            if g is not None:
                grads.append(g)
        if len(grads) == 0:
            return ops.full([], 0.0, td.float32)
        total = ops.norm(ops.stack([ops.norm(g, norm_type) for g in grads]), norm_type)
        scale = ops.clamp(max_norm / (total + 1e-6), None, 1.0)
        for g in grads:
            g.mul_(scale)
        return total


def clip_grad_value_(parameters, clip_value: float):
    with td.no_grad():
        for p in _tensors(parameters):
            g = p.grad
            if g is not None:
                g[...] = ops.clamp(g, -clip_value, clip_value)


# ---- orders


def _between(interpolation: str) -> int:
    ways = ["linear", "lower", "higher", "midpoint", "nearest"]
    assert interpolation in ways, f"interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
    return ways.index(interpolation)


def _shares(q, name: str, dtype):
    if isinstance(q, Tensor):
        return q
    if isinstance(q, (int, float)):
        assert q >= 0 and q <= 1, f"{name}() q must be in the range [0, 1] but got {q}"
        return ops.full([], q, dtype)
    for each in q:
        assert each >= 0 and each <= 1, f"{name}() q must be in the range [0, 1] but got {each}"
    return ops.stack([ops.full([], each, dtype) for each in q], 0)


def quantile(input, q, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"):
    return ops.quantile_by(input, _shares(q, "quantile", input.dtype), dim, keepdim, _between(interpolation))


def nanquantile(input, q, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"):
    return ops.nanquantile(input, _shares(q, "nanquantile", input.dtype), dim, keepdim, _between(interpolation))


def median(input, dim: int | None = None, keepdim: bool = False):
    return ops.median(input) if dim is None else ops.median_dim(input, dim, keepdim)


def nanmedian(input, dim: int | None = None, keepdim: bool = False):
    return ops.nanmedian(input) if dim is None else ops.nanmedian_dim(input, dim, keepdim)


def mode(input, dim: int = -1, keepdim: bool = False):
    return ops.mode_dim(input, dim, keepdim)


# ---- matrices: linalg_NAME is td.linalg.NAME


def svd(input, some: bool = True, compute_uv: bool = True):
    u, s, vh = ops.linalg_svd(input, not some)
    assert compute_uv, "svd(): a program has compute_uv=True; use td.linalg.svdvals"
    return u, s, ops.adjoint(vh)


def qr(input, some: bool = True):
    q, r = ops.linalg_qr(input, 0) if some else ops.linalg_qr(input, 1)
    return q, r


def pinverse(input, rcond: float = 1e-15):
    return ops.linalg_pinv(input, 0.0, rcond, False)


def triangular_solve(input, A, upper: bool = True, transpose: bool = False, unitriangular: bool = False):
    a = ops.transpose(A, -2, -1) if transpose else A
    return ops.linalg_solve_triangular(a, input, upper != transpose, True, unitriangular), A.clone()


def linalg_matrix_norm(A, ord="fro", dim: list[int] = [-2, -1], keepdim: bool = False):
    if isinstance(ord, str):
        assert ord == "fro" or ord == "nuc", f"a matrix norm is 'fro', 'nuc' or a number, not '{ord}'"
        if ord == "nuc":
            assert dim == [-2, -1], "the nuclear norm of a program is of the last two dimensions"
            spread = ops.sum(ops.linalg_svdvals(A), [-1], keepdim)
            return ops.unsqueeze(spread, -1) if keepdim else spread
        return ops.norm(A, 2.0, dim, keepdim)
    return ops.linalg_matrix_norm(A, float(ord), dim, keepdim)


def linalg_ldl_factor(A, hermitian: bool = False):
    LD, pivots, info = ops.linalg_ldl_factor_ex(A, hermitian, True)
    return LD, pivots


def det(A):
    return ops.linalg_det(A)


def linalg_det(A):
    return ops.linalg_det(A)


def slogdet(A):
    return ops.linalg_slogdet(A)


def linalg_slogdet(A):
    return ops.linalg_slogdet(A)


def inverse(A):
    return ops.linalg_inv(A)


def linalg_inv(A):
    return ops.linalg_inv(A)


def linalg_inv_ex(A, check_errors: bool = False):
    return ops.linalg_inv_ex(A, check_errors)


def linalg_solve(A, B, left: bool = True):
    return ops.linalg_solve(A, B, left)


def linalg_solve_ex(A, B, left: bool = True, check_errors: bool = False):
    return ops.linalg_solve_ex(A, B, left, check_errors)


def linalg_lstsq(A, B, rcond: float | None = None):
    return ops.linalg_lstsq(A, B, rcond)


def linalg_cholesky(A, upper: bool = False):
    return ops.linalg_cholesky(A, upper)


def linalg_cholesky_ex(A, upper: bool = False, check_errors: bool = False):
    return ops.linalg_cholesky_ex(A, upper, check_errors)


def linalg_lu(A, pivot: bool = True):
    return ops.linalg_lu(A, pivot)


def linalg_lu_factor(A, pivot: bool = True):
    return ops.linalg_lu_factor(A, pivot)


def linalg_lu_factor_ex(A, pivot: bool = True, check_errors: bool = False):
    return ops.linalg_lu_factor_ex(A, pivot, check_errors)


def linalg_ldl_factor_ex(A, hermitian: bool = False, check_errors: bool = False):
    return ops.linalg_ldl_factor_ex(A, hermitian, check_errors)


def linalg_qr(A, mode: str = "reduced"):
    if mode == "reduced":
        return ops.linalg_qr(A, 0)
    if mode == "complete":
        return ops.linalg_qr(A, 1)
    assert mode == "r", f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
    return ops.linalg_qr(A, 2)


def linalg_svd(A, full_matrices: bool = True):
    return ops.linalg_svd(A, full_matrices)


def linalg_svdvals(A):
    return ops.linalg_svdvals(A)


def linalg_eig(A):
    return ops.linalg_eig(A)


def linalg_eigvals(A):
    return ops.linalg_eigvals(A)


def _upper(UPLO: str) -> bool:
    assert UPLO in ["L", "U", "l", "u"], f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}"
    return UPLO in ["U", "u"]


def linalg_eigh(A, UPLO: str = "L"):
    return ops.linalg_eigh(A, _upper(UPLO))


def linalg_eigvalsh(A, UPLO: str = "L"):
    return ops.linalg_eigvalsh(A, _upper(UPLO))


# ---- losses


def _reduction(name: str) -> int:
    if name == "none":
        return 0
    if name == "mean":
        return 1
    assert name == "sum", f"{name} is not a valid value for reduction"
    return 2


def functional_kl_div(input, target, reduction: str = "mean", log_target: bool = False):
    if reduction == "batchmean":
        return ops.kl_div(input, target, 3, log_target)
    return ops.kl_div(input, target, _reduction(reduction), log_target)


def functional_triplet_margin_loss(anchor, positive, negative, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"):
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, _reduction(reduction))


def functional_cosine_embedding_loss(input1, input2, target, margin: float = 0.0, reduction: str = "mean"):
    return ops.cosine_embedding_loss(input1, input2, target, margin, _reduction(reduction))


def functional_margin_ranking_loss(input1, input2, target, margin: float = 0.0, reduction: str = "mean"):
    return ops.margin_ranking_loss(input1, input2, target, margin, _reduction(reduction))


def functional_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
    return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


def functional_gaussian_nll_loss(input, target, var, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
    return ops.gaussian_nll_loss(input, target, var, full, eps, _reduction(reduction))


def functional_poisson_nll_loss(input, target, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"):
    return ops.poisson_nll_loss(input, target, log_input, full, eps, _reduction(reduction))


def functional_hinge_embedding_loss(input, target, margin: float = 1.0, reduction: str = "mean"):
    return ops.hinge_embedding_loss(input, target, margin, _reduction(reduction))


def functional_soft_margin_loss(input, target, reduction: str = "mean"):
    return ops.soft_margin_loss(input, target, _reduction(reduction))


def functional_multi_margin_loss(input, target, p: int = 1, margin: float = 1.0, weight=None, reduction: str = "mean"):
    return ops.multi_margin_loss(input, target, p, margin, weight, _reduction(reduction))


def functional_multilabel_margin_loss(input, target, reduction: str = "mean"):
    return ops.multilabel_margin_loss(input, target, _reduction(reduction))


def functional_multilabel_soft_margin_loss(input, target, weight=None, reduction: str = "mean"):
    return ops.multilabel_soft_margin_loss(input, target, weight, _reduction(reduction))


def mse_loss(input, target, reduction: str = "mean"):
    return ops.mse_loss(input, target, _reduction(reduction))


def l1_loss(input, target, reduction: str = "mean"):
    return ops.l1_loss(input, target, _reduction(reduction))


def cross_entropy(input, target, weight=None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
    if label_smoothing > 0.0:
        return ops.smoothed_cross_entropy(input, target, weight, _reduction(reduction), ignore_index, label_smoothing)
    return ops.cross_entropy(input, target, weight, _reduction(reduction), ignore_index)


def nll_loss(input, target, weight=None, ignore_index: int = -100, reduction: str = "mean"):
    return ops.nll_loss(input, target, weight, _reduction(reduction), ignore_index)


def smooth_l1_loss(input, target, reduction: str = "mean", beta: float = 1.0):
    return ops.smooth_l1_loss(input, target, _reduction(reduction), beta)


def huber_loss(input, target, reduction: str = "mean", delta: float = 1.0):
    return ops.huber_loss(input, target, _reduction(reduction), delta)


def binary_cross_entropy(input, target, weight=None, reduction: str = "mean"):
    return ops.binary_cross_entropy(input, target, weight, _reduction(reduction))


def binary_cross_entropy_with_logits(input, target, weight=None, reduction: str = "mean", pos_weight=None):
    return ops.bce_with_logits(input, target, weight, pos_weight, _reduction(reduction))


# ---- layers


def layer_Dropout(self, input):
    return dropout(input, self.p, self.training, self.inplace)


def _running_norm(input, mean, var, seen, weight, bias, training: bool, momentum, eps: float):
    if training and seen is not None:
        seen.add_(1)
    rate = (1 / int(seen) if training and seen is not None else 0.0) if momentum is None else momentum
    return functional_batch_norm(input, mean, var, weight, bias, training or mean is None, rate, eps)


def layer_RReLU(self, input):
    return rrelu(input, self.lower, self.upper, self.training, self.inplace)


def layer_Unflatten(self, input):
    return unflatten(input, self.dim, self.unflattened_size)


def layer_UpsamplingNearest2d(self, input):
    return interpolate(input, self.size, self.scale_factor)


def layer_UpsamplingBilinear2d(self, input):
    return interpolate(input, self.size, self.scale_factor, "bilinear", True)


def layer_BatchNorm1d(self, input):
    assert input.ndim == 2 or input.ndim == 3, "BatchNorm1d takes 2 or 3 dimensions"
    return _running_norm(input, self.running_mean, self.running_var, self.num_batches_tracked, self.weight, self.bias, self.training, self.momentum, self.eps)


def layer_BatchNorm2d(self, input):
    assert input.ndim == 4, "BatchNorm2d takes 4 dimensions"
    return _running_norm(input, self.running_mean, self.running_var, self.num_batches_tracked, self.weight, self.bias, self.training, self.momentum, self.eps)


def layer_BatchNorm3d(self, input):
    assert input.ndim == 5, "BatchNorm3d takes 5 dimensions"
    return _running_norm(input, self.running_mean, self.running_var, self.num_batches_tracked, self.weight, self.bias, self.training, self.momentum, self.eps)


def _each_norm(input, mean, var, weight, bias, training: bool, momentum, eps: float, least: int):
    assert input.ndim == least or input.ndim == least + 1, f"InstanceNorm{least - 1}d takes {least} or {least + 1} dimensions, got {input.ndim}"
    x = input.unsqueeze(0) if input.ndim == least else input
    out = functional_instance_norm(x, mean, var, weight, bias, training or mean is None, 0.0 if momentum is None else momentum, eps)
    return out.squeeze(0) if input.ndim == least else out


def layer_InstanceNorm1d(self, input):
    return _each_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps, 2)


def layer_InstanceNorm2d(self, input):
    return _each_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps, 3)


def layer_InstanceNorm3d(self, input):
    return _each_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps, 4)


def _heads(x, weight, bias, k: int, heads: int):
    """The k-th projection of (N, L, E) as (N, heads, L, E / heads)."""
    width = weight.shape[1]
    own = None if bias is None else bias[k * width:(k + 1) * width]
    y = ops.linear(x, weight[k * width:(k + 1) * width], own)
    return reshape(y, [x.shape[0], x.shape[1], heads, width // heads]).transpose(1, 2)


def _addend(mask, dtype):
    """A mask of bools (true: not to be seen) as numbers to add."""
    return td.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf) if mask.dtype == td.bool else mask


def _of_heads(mask, n: int, heads: int):
    return reshape(mask, [n, heads] + mask.shape[1:]) if mask.ndim == 3 else mask


def _seen(q, k, v, mask, weighs: bool, p: float, training: bool):
    if weighs:
        weights = dropout(ops.attention_weights(q, k, mask), p, training)
        return ops.matmul(weights, v), weights
    return ops.scaled_dot_product_attention(q, k, v, mask), q


def _third(x, k: int, width: int):
    return None if x is None else x[k * width:(k + 1) * width]


def _longer(mask):
    """One more key that is seen."""
    return None if mask is None else ops.constant_pad(mask, [0, 1], 0)


def _numbers(mask, dtype):
    return None if mask is None else _addend(mask, dtype)


def _apart(x, n: int, heads: int):
    return ops.view(x, [x.shape[0], n, heads, x.shape[2] // heads]).permute(1, 2, 0, 3)


def functional_multi_head_attention_forward(query, key, value, embed_dim_to_check: int, num_heads: int, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn: bool,
                                            dropout_p: float, out_proj_weight, out_proj_bias, training: bool = True, key_padding_mask=None, need_weights: bool = True,
                                            attn_mask=None, use_separate_proj_weight: bool = False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None,
                                            static_k=None, static_v=None, average_attn_weights: bool = True, is_causal: bool = False):
    alone, e = query.ndim == 2, query.shape[-1]
    a, b, c = query.unsqueeze(1) if alone else query, key.unsqueeze(1) if alone else key, value.unsqueeze(1) if alone else value
    n = a.shape[1]
    assert e == embed_dim_to_check and e % num_heads == 0, f"was expecting embedding dimension of {embed_dim_to_check} that {num_heads} heads divide, but got {e}"
    assert attn_mask is not None or not is_causal, "Need attn_mask if specifying the is_causal hint."
    if in_proj_weight is None or use_separate_proj_weight:
        of_q, of_k, of_v = q_proj_weight, k_proj_weight, v_proj_weight
    else:
        of_q, of_k, of_v = _third(in_proj_weight, 0, e), _third(in_proj_weight, 1, e), _third(in_proj_weight, 2, e)
    by_q, by_k, by_v = _third(in_proj_bias, 0, e), _third(in_proj_bias, 1, e), _third(in_proj_bias, 2, e)
    q, k, v = ops.linear(a, of_q, by_q), ops.linear(b, of_k, by_k), ops.linear(c, of_v, by_v)
    attn, hidden = _numbers(attn_mask, q.dtype), _numbers(key_padding_mask, q.dtype)
    if bias_k is not None and bias_v is not None:
        k, v = ops.cat([k, ops.expand(bias_k, [1, n, e])], 0), ops.cat([v, ops.expand(bias_v, [1, n, e])], 0)
        attn, hidden = _longer(attn), _longer(hidden)
    qs = _apart(q, n, num_heads)
    ks = _apart(k, n, num_heads) if static_k is None else reshape(static_k, [n, num_heads, -1, e // num_heads])
    vs = _apart(v, n, num_heads) if static_v is None else reshape(static_v, [n, num_heads, -1, e // num_heads])
    if add_zero_attn:
        ks, vs = ops.constant_pad(ks, [0, 0, 0, 1], 0), ops.constant_pad(vs, [0, 0, 0, 1], 0)
        attn, hidden = _longer(attn), _longer(hidden)
    mask = None if attn is None else _of_heads(attn, n, num_heads)
    if hidden is not None:
        unseen = reshape(hidden, [n, 1, 1, hidden.shape[-1]])
        mask = unseen if mask is None else mask + unseen
    shares = dropout(ops.attention_weights(qs, ks, mask), dropout_p, training)
    out = ops.linear(reshape(ops.matmul(shares, vs).permute(2, 0, 1, 3), [a.shape[0], n, e]), out_proj_weight, out_proj_bias)
    out = out.squeeze(1) if alone else out
    if not need_weights:
        return out, None
    shares = ops.mean(shares, [1]) if average_attn_weights else shares
    return out, shares.squeeze(0) if alone else shares


def layer_MultiheadAttention(self, query, key, value, key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                             is_causal: bool = False):
    assert attn_mask is not None or not is_causal, "Need attn_mask if specifying the is_causal hint."
    if not self.plain:
        turned = self.batch_first and query.ndim == 3
        other, shares = functional_multi_head_attention_forward(
            query.transpose(0, 1) if turned else query, key.transpose(0, 1) if turned else key, value.transpose(0, 1) if turned else value,
            self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask, False,
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight, None, None, average_attn_weights, is_causal)
        return other.transpose(0, 1) if turned else other, shares
    alone, first = query.ndim == 2, self.batch_first
    a = query.unsqueeze(0) if alone else query if first else query.transpose(0, 1)
    b = key.unsqueeze(0) if alone else key if first else key.transpose(0, 1)
    c = value.unsqueeze(0) if alone else value if first else value.transpose(0, 1)
    q = _heads(a, self.in_proj_weight, self.in_proj_bias, 0, self.num_heads)
    k = _heads(b, self.in_proj_weight, self.in_proj_bias, 1, self.num_heads)
    v = _heads(c, self.in_proj_weight, self.in_proj_bias, 2, self.num_heads)
    mask = None if attn_mask is None else _of_heads(_addend(attn_mask, q.dtype), a.shape[0], self.num_heads)
    if key_padding_mask is not None:
        hidden = reshape(_addend(key_padding_mask, q.dtype), [a.shape[0], 1, 1, key_padding_mask.shape[-1]])
        mask = hidden if mask is None else hidden + mask
    seen, weights = _seen(q, k, v, mask, need_weights or (self.dropout > 0.0 and self.training), self.dropout, self.training)
    out = self.out_proj(reshape(seen.transpose(1, 2), [a.shape[0], a.shape[1], self.embed_dim]))
    out = out.squeeze(0) if alone else out if first else out.transpose(0, 1)
    if not need_weights:
        return out, None
    weights = ops.mean(weights, [1]) if average_attn_weights else weights
    return out, weights.squeeze(0) if alone else weights


# ---- recurrent layers: self.cells has the weights of each layer and direction


def layer_LSTMCell(self, input, hx: tuple[Tensor, Tensor] | None = None):
    if hx is None:
        zero = ops.full(input.shape[:-1] + [self.hidden_size], 0, input.dtype)
        return ops.lstm_cell(input, zero, zero, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return ops.lstm_cell(input, hx[0], hx[1], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


def layer_GRUCell(self, input, hx: Tensor | None = None):
    h = ops.full(input.shape[:-1] + [self.hidden_size], 0, input.dtype) if hx is None else hx
    return ops.gru_cell(input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


def layer_RNNCell(self, input, hx: Tensor | None = None):
    h = ops.full(input.shape[:-1] + [self.hidden_size], 0, input.dtype) if hx is None else hx
    return ops.rnn_cell(input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, self.nonlinearity == "relu")


def layer_LSTM(self, input, hx: tuple[Tensor, Tensor] | None = None):
    alone = input.ndim == 2
    x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
    assert x.shape[2] == self.input_size, f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[2]}"
    assert self.proj_size == 0, "LSTM with proj_size is not in programs"
    if hx is None:
        h0 = ops.full([self.num_layers * self._ways, x.shape[1], self.hidden_size], 0, x.dtype)
        c0 = h0
    else:
        h0 = hx[0].unsqueeze(1) if alone else hx[0]
        c0 = hx[1].unsqueeze(1) if alone else hx[1]
    hs, cs = [], []
    for k, layer in enumerate(self.cells):
        outs = []
        for way, cell in enumerate(layer):
            at = k * self._ways + way
            y, h, c, gates, cells = ops.lstm_layer(x.flip(0) if cell.backwards else x, h0[at:at + 1], c0[at:at + 1], cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh)
            outs.append(y.flip(0) if cell.backwards else y)
            hs.append(h)
            cs.append(c)
        x = outs[0] if self._ways == 1 else ops.cat(outs, -1)
        if k + 1 < self.num_layers:
            x = dropout(x, self.dropout, self.training)
    last_h, last_c = ops.cat(hs, 0), ops.cat(cs, 0)
    if alone:
        return x.squeeze(1), (last_h.squeeze(1), last_c.squeeze(1))
    return x.transpose(0, 1) if self.batch_first else x, (last_h, last_c)


def layer_GRU(self, input, hx: Tensor | None = None):
    alone = input.ndim == 2
    x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
    assert x.shape[2] == self.input_size, f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[2]}"
    if hx is None:
        h0 = ops.full([self.num_layers * self._ways, x.shape[1], self.hidden_size], 0, x.dtype)
    else:
        h0 = hx.unsqueeze(1) if alone else hx
    hs = []
    for k, layer in enumerate(self.cells):
        outs = []
        for way, cell in enumerate(layer):
            at = k * self._ways + way
            y, h, gates, hidden = ops.gru_layer(x.flip(0) if cell.backwards else x, h0[at:at + 1], cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh)
            outs.append(y.flip(0) if cell.backwards else y)
            hs.append(h)
        x = outs[0] if self._ways == 1 else ops.cat(outs, -1)
        if k + 1 < self.num_layers:
            x = dropout(x, self.dropout, self.training)
    last = ops.cat(hs, 0)
    if alone:
        return x.squeeze(1), last.squeeze(1)
    return x.transpose(0, 1) if self.batch_first else x, last


def layer_RNN(self, input, hx: Tensor | None = None):
    alone = input.ndim == 2
    x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
    assert x.shape[2] == self.input_size, f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[2]}"
    if hx is None:
        h0 = ops.full([self.num_layers * self._ways, x.shape[1], self.hidden_size], 0, x.dtype)
    else:
        h0 = hx.unsqueeze(1) if alone else hx
    hs = []
    for k, layer in enumerate(self.cells):
        outs = []
        for way, cell in enumerate(layer):
            at = k * self._ways + way
            y, h = ops.rnn_layer(x.flip(0) if cell.backwards else x, h0[at:at + 1], cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh, self.nonlinearity == "relu")
            outs.append(y.flip(0) if cell.backwards else y)
            hs.append(h)
        x = outs[0] if self._ways == 1 else ops.cat(outs, -1)
        if k + 1 < self.num_layers:
            x = dropout(x, self.dropout, self.training)
    last = ops.cat(hs, 0)
    if alone:
        return x.squeeze(1), last.squeeze(1)
    return x.transpose(0, 1) if self.batch_first else x, last


# ---- several results, several forms


def _without(unbiased, correction):
    return float(unbiased) if correction is None else float(correction)


def var(input, dim=None, unbiased=True, keepdim: bool = False, correction=None):
    if isinstance(dim, bool):
        return ops.var(input, None, float(dim), keepdim)
    return ops.var(input, dim, _without(unbiased, correction), keepdim)


def clamp(input, min=None, max=None):
    if isinstance(min, Tensor):
        above = ops.maximum(input, min)
        if isinstance(max, Tensor):
            return ops.minimum(above, max)
        return above if max is None else ops.clamp(above, None, max)
    if isinstance(max, Tensor):
        return ops.minimum(input if min is None else ops.clamp(input, min, None), max)
    if min is None:
        return ops.clamp(input, None, None) if max is None else ops.clamp(input, None, max)
    return ops.clamp(input, min, None) if max is None else ops.clamp(input, min, max)


def std(input, dim=None, unbiased=True, keepdim: bool = False, correction=None):
    if isinstance(dim, bool):
        return ops.std(input, None, float(dim), keepdim)
    return ops.std(input, dim, _without(unbiased, correction), keepdim)


def std_mean(input, dim=None, unbiased: bool = True, keepdim: bool = False, correction: int | None = None):
    without = correction if correction is not None else int(unbiased)
    return ops.std(input, dim, without, keepdim), ops.mean(input, dim, keepdim)


def var_mean(input, dim=None, unbiased: bool = True, keepdim: bool = False, correction: int | None = None):
    without = correction if correction is not None else int(unbiased)
    return ops.var(input, dim, without, keepdim), ops.mean(input, dim, keepdim)


def threshold(input, threshold: float, value: float, inplace: bool = False):
    return _placed(input, ops.where(ops.le(input, threshold), value, input), inplace)


def round(input, decimals: int = 0):
    return ops.round(input) if decimals == 0 else ops.round_decimals(input, decimals)


def roll(input, shifts, dims=None):
    if dims is None:
        return ops.roll(input.reshape([-1]), shifts, 0).reshape(input.shape)
    return ops.roll(input, shifts, dims)


def method_where(self, condition, y):
    return ops.where(condition, self, y)


def gumbel_softmax(logits, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1):
    soft = ops.softmax((logits - ops.log(ops.exponential(logits.shape, 1.0, logits.dtype))) / tau, dim)
    if not hard:
        return soft
    index = ops.argmax(soft, dim, True)
    return ops.scatter(td.zeros_like(soft), dim, index, 1.0) - soft.detach() + soft


def hsplit(input, indices_or_sections):
    return td.tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input, indices_or_sections):
    return td.tensor_split(input, indices_or_sections, 0)


def dsplit(input, indices_or_sections):
    return td.tensor_split(input, indices_or_sections, 2)


def bucketize(input, boundaries, out_int32: bool = False, right: bool = False):
    at = ops.searchsorted(boundaries, input, right)
    return at.to(td.int32) if out_int32 else at


def grid_sample(input, grid, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None):
    assert mode == "bilinear" or mode == "nearest" or mode == "bicubic", f"the mode is bilinear, nearest or bicubic, not '{mode}'"
    assert padding_mode == "zeros" or padding_mode == "border" or padding_mode == "reflection", f"padding_mode is zeros, border or reflection, not '{padding_mode}'"
    a = 0 if mode == "bilinear" else 1 if mode == "nearest" else 2
    b = 0 if padding_mode == "zeros" else 1 if padding_mode == "border" else 2
    return ops.grid_sampler(input, grid, a, b, align_corners is not None and align_corners)


def atleast_1d(input):
    return ops.view(input, [1]) if input.ndim == 0 else input


def atleast_2d(input):
    return ops.flatten(input).unsqueeze(0) if input.ndim < 2 else input


def atleast_3d(input):
    if input.ndim == 2:
        return ops.unsqueeze(input, -1)
    return ops.flatten(input).unsqueeze(0).unsqueeze(-1) if input.ndim < 2 else input


def tril_indices(row: int, col: int, offset: int = 0):
    return ops.t(ops.nonzero(ops.tril(td.ones([row, col], dtype=td.int64), offset)))


def triu_indices(row: int, col: int, offset: int = 0):
    return ops.t(ops.nonzero(ops.triu(td.ones([row, col], dtype=td.int64), offset)))


def is_tensor(obj):
    return isinstance(obj, Tensor)


def is_nonzero(input):
    return bool(input)


def positive(input):
    return input


# ---- tensors of lists


def _dtype_of(data):
    """None: of no such numbers."""
    if isinstance(data, (list[bool], list[list[bool]], list[list[list[bool]]])):
        return td.bool
    if isinstance(data, (list[int], list[list[int]], list[list[list[int]]])):
        return td.int64
    if isinstance(data, (list[complex], list[list[complex]])):
        return td.complex64
    return td.float32


def _of_one(data, dtype):
    rows = [ops.full([], x, dtype) for x in data]
    return ops.stack(rows, 0) if len(rows) > 0 else ops.full([0], 0, dtype)


def _of_two(data, dtype):
    if isinstance(data, (list[int], list[float], list[bool], list[complex])):
        return _of_one(data, dtype)
    rows = [_of_one(x, dtype) for x in data]
    return ops.stack(rows, 0) if len(rows) > 0 else ops.full([0], 0, dtype)


def _of_three(data, dtype):
    if isinstance(data, (list[int], list[float], list[bool], list[complex])):
        return _of_one(data, dtype)
    rows = [_of_two(x, dtype) for x in data]
    return ops.stack(rows, 0) if len(rows) > 0 else ops.full([0], 0, dtype)


def tensor_of(data, dtype):
    """Of lists in lists, or of a tensor: their numbers once more."""
    if isinstance(data, Tensor):
        return data.detach().clone() if dtype is None else data.detach().clone().to(dtype)
    items = list(data)
    kind = _dtype_of(items) if dtype is None else dtype
    return _of_three(items, kind)


def as_tensor(data, dtype=None, device=None):
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, (list, tuple)):
        return tensor_of(data, dtype)
    return td.tensor(data) if dtype is None else td.tensor(data, dtype=dtype)


def asarray(obj, dtype=None, device=None, copy: bool | None = None, requires_grad: bool = False):
    assert not requires_grad, "asarray of a program has no requires_grad"
    made = as_tensor(obj, dtype)
    if isinstance(obj, Tensor) and copy is not None and copy:
        return made.clone()
    return made


# ---- what is counted, drawn and picked


def _edges(flat, bins: int, range):
    if range is None:
        low = float(ops.amin(flat, [0])) if flat.shape[0] > 0 else 0.0
        high = float(ops.amax(flat, [0])) if flat.shape[0] > 0 else 1.0
    else:
        low, high = float(range[0]), float(range[1])
    same = low == high
    return ops.linspace(low - 0.5 if same else low, high + 0.5 if same else high, bins + 1, flat.dtype)


def _cells(flat, edges):
    at = ops.where(flat == edges[-1], edges.shape[0] - 2, ops.searchsorted(edges, flat, True) - 1)
    return at, ops.logical_and(flat >= edges[0], flat <= edges[-1])


def _counted(flat, at, inside, n: int, weight):
    each = ops.full([flat.shape[0]], 1, flat.dtype) if weight is None else ops.flatten(weight)
    return ops.scatter_add(ops.full([n], 0, flat.dtype), 0, ops.where(inside, at, 0), ops.where(inside, each, 0))


def histogram(input, bins, range=None, weight=None, density: bool = False):
    flat = ops.flatten(input)
    edges = bins if isinstance(bins, Tensor) else _edges(flat, bins, range)
    at, inside = _cells(flat, edges)
    hist = _counted(flat, at, inside, edges.shape[0] - 1, weight)
    if density:
        hist = hist / ops.sum(hist) / (edges[1:] - edges[:-1])
    return hist, edges


def histogramdd(input, bins, range=None, weight=None, density: bool = False):
    points = input.reshape([-1, input.shape[-1]])
    d = points.shape[1]
    place, inside = ops.full([points.shape[0]], 0, td.int64), ops.full([points.shape[0]], True, td.bool)
    edges: list[Tensor] = []
    sizes: list[int] = []
    if not isinstance(bins, int):
        assert len(bins) == d, f"histogramdd(): points of {d} coordinates need as many bins, not {len(bins)}"
    if range is not None:
        assert len(range) == 2 * d, f"histogramdd(): points of {d} coordinates need two numbers of range for each, not {len(range)}"
    for k, column in enumerate(points.unbind(1)):
        one = bins if isinstance(bins, int) else bins[k]
        span = None if range is None else range[2 * k : 2 * k + 2]
        edge = one if isinstance(one, Tensor) else _edges(column, one, span)
        at, between = _cells(column, edge)
        place, inside = place * (edge.shape[0] - 1) + at, ops.logical_and(inside, between)
        edges.append(edge)
        sizes.append(edge.shape[0] - 1)
    n = 1
    for size in sizes:
        n = n * size
    hist = _counted(points[:, 0], place, inside, n, weight).reshape(sizes)
    if density:
        hist = hist / ops.sum(hist)
        for k, edge in enumerate(edges):
            shape = [1 for size in sizes]
            shape[k] = -1
            hist = hist / (edge[1:] - edge[:-1]).reshape(shape)
    return hist, edges


def gradient(input, spacing=1, dim=None, edge_order: int = 1):
    dims: list[int] = []
    if dim is None:
        dims = [k for k in range(input.ndim)]
    elif isinstance(dim, int):
        dims = [dim]
    else:
        dims = list(dim)
    x = input if input.is_floating_point() or input.is_complex() else input.to(td.float32)
    if isinstance(spacing, (list, tuple)):
        assert len(spacing) == len(dims), f"gradient(): spacing is a number, or one for each of {len(dims)} dimensions, not {len(spacing)}"
    out: list[Tensor] = []
    for k, d in enumerate(dims):
        for e in dims[:k]:
            assert (d - e) % input.ndim != 0, f"gradient(): a dimension appears multiple times in {dims}"
        one = 1 if spacing is None else spacing[k] if isinstance(spacing, (list, tuple)) else spacing
        if isinstance(one, Tensor):
            out.append(ops.gradient_along(x, one, d, 1.0, edge_order))
        else:
            out.append(ops.gradient_along(x, None, d, float(one), edge_order))
    return out


def combinations(input, r: int = 2, with_replacement: bool = False):
    assert input.ndim == 1, f"Expect a 1D vector, but got shape {input.shape}"
    n, rows = input.shape[0], 0
    flat: list[int] = []
    at = [0 if with_replacement else k for k in range(r)]
    going = r <= n or (with_replacement and n > 0)
    while going:
        flat.extend(at)
        rows += 1
        k = r - 1
        while k >= 0 and at[k] == (n - 1 if with_replacement else n - r + k):
            k -= 1
        going = k >= 0
        if going:
            first = at[k] + 1
            for j in range(k, r):
                at[j] = first if with_replacement else first + j - k
    return ops.index_select(input, 0, td.tensor(flat, dtype=td.int64)).reshape([rows, r])


def broadcast_shapes(a, b=None, c=None, d=None):
    """What sizes of up to four become together, by an element of each."""
    out = _shaped(a)
    if b is not None:
        out = out + _shaped(b)
    if c is not None:
        out = out + _shaped(c)
    if d is not None:
        out = out + _shaped(d)
    return out.shape


def _shaped(size):
    return ops.expand(ops.full([], 0, td.float32), [size] if isinstance(size, int) else list(size))


def _kind_of(x):
    """An empty tensor, or one without dimensions, that makes the same dtypes."""
    if isinstance(x, Tensor):
        return x.reshape([-1])[:0] if x.ndim > 0 else x
    return x


def result_type(tensor, other):
    a, b = _kind_of(tensor), _kind_of(other)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return (a * b).dtype
    return (td.tensor(a) * b).dtype


def promote_types(type1, type2):
    return (ops.full([1], 0, type1) * ops.full([1], 0, type2)).dtype


def _rank_of(kind):
    x = ops.full([1], 0, kind)
    return 3 if x.is_complex() else 2 if x.is_floating_point() else 0 if kind == td.bool else 1


def can_cast(from_, to):
    return _rank_of(from_) <= _rank_of(to)


def is_signed(input):
    return input.dtype != td.bool and input.dtype != td.uint8


def randint_like(input, low: int, high: int | None = None, dtype=None, generator=None, layout=None, device=None, requires_grad: bool = False):
    assert generator is None and not requires_grad, "randint_like of a program knows neither generator nor requires_grad"
    kind = input.dtype if dtype is None else dtype
    return ops.randint(0, low, input.shape, kind) if high is None else ops.randint(low, high, input.shape, kind)


def vander(x, N: int | None = None, increasing: bool = False):
    out = ops.linalg_vander(x, N)
    return out if increasing else out.flip([-1])


def linalg_vander(x, N: int | None = None):
    return ops.linalg_vander(x, N)


def linalg_lu_solve(LU, pivots, B, left: bool = True, adjoint: bool = False):
    return ops.linalg_lu_solve(LU, pivots, B, left, adjoint)


def lu(A, pivot: bool = True, get_infos: bool = False):
    made, pivots = ops.linalg_lu_factor(A, pivot)
    if get_infos:
        return made, pivots, ops.full(A.shape[:-2], 0, td.int32)
    return made, pivots


def lu_solve(b, LU_data, LU_pivots):
    return ops.linalg_lu_solve(LU_data, LU_pivots, b, True, False)


def as_strided_copy(input, size: list[int], stride: list[int], storage_offset: int | None = None):
    return input.as_strided(size, stride, storage_offset).clone()


def astype(x, dtype, copy: bool = True, device=None):
    return x.to(dtype, copy=copy)


def native_channel_shuffle(input, groups: int):
    return ops.channel_shuffle(input, groups)


def native_dropout(input, p: float, train: bool | None = None):
    if p == 0 or (train is not None and not train):
        return input.clone(), ops.full(input.shape, True, td.bool)
    kept = dropout(ops.full(input.shape, 1, input.dtype), p, True)
    return input * kept, kept != 0


def native_layer_norm(input, normalized_shape: list[int], weight, bias, eps: float):
    n = len(normalized_shape)
    outer = input.shape[: input.ndim - n]
    assert input.shape[input.ndim - n :] == normalized_shape, f"layer_norm over {normalized_shape} of an input of shape {input.shape}: the last dimensions must be these"
    shape = outer + [1 for k in range(n)]
    made, mean, rstd = _layer_norm_parts(input, weight, bias, n, eps)
    return made, mean.reshape(shape).to(input.dtype), rstd.reshape(shape).to(input.dtype)


def _layer_norm_parts(input, weight, bias, n: int, eps: float):
    dims = [k for k in range(-n, 0)]
    return ops.layer_norm(input, weight, bias, n, eps), ops.mean(input, dims), ops.rsqrt(ops.var(input, dims, 0.0) + eps)


def native_group_norm(input, weight, bias, N: int, C: int, HxW: int, group: int, eps: float):
    groups = input.reshape([N, group, C // group * HxW])
    return ops.group_norm(input, group, weight, bias, eps), ops.mean(groups, [-1]), ops.rsqrt(ops.var(groups, [-1], 0.0) + eps)


def convolution(input, weight, bias, stride: list[int], padding: list[int], dilation: list[int], transposed: bool, output_padding: list[int], groups: int):
    n = weight.ndim - 2
    assert 1 <= n and n <= 3, f"convolution(): weight has 3, 4 or 5 dimensions, not {weight.ndim}"
    if transposed:
        if n == 1:
            return td.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation)
        if n == 2:
            return td.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
        return td.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    if n == 1:
        return td.conv1d(input, weight, bias, stride, padding, dilation, groups)
    if n == 2:
        return td.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return td.conv3d(input, weight, bias, stride, padding, dilation, groups)


def threshold_(input, threshold: float, value: float):
    return _placed(input, ops.where(ops.le(input, threshold), value, input), True)


def rrelu_(input, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False):
    return rrelu(input, lower, upper, training, True)


def alpha_dropout_(input, p: float = 0.5, train: bool = True):
    return alpha_dropout(input, p, train, True)


def feature_alpha_dropout_(input, p: float = 0.5, train: bool = True):
    return feature_alpha_dropout(input, p, train, True)


def feature_dropout_(input, p: float = 0.5, train: bool = True):
    return dropout2d(input, p, train, True)


def addmv_(input, mat, vec, beta=1, alpha=1):
    return _placed(input, td.addmv(input, mat, vec, beta=beta, alpha=alpha), True)


def ldexp_(input, other):
    return _placed(input, td.ldexp(input, other), True)


def triplet_margin_with_distance_loss(anchor, positive, negative, distance_function: None = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"):
    assert margin > 0, "margin must be greater than 0"
    far = td.pairwise_distance(anchor, negative)
    if swap:
        far = ops.minimum(far, td.pairwise_distance(positive, negative))
    loss = ops.clamp(td.pairwise_distance(anchor, positive) - far + margin, 0)
    return loss if reduction == "none" else ops.sum(loss) if reduction == "sum" else ops.mean(loss)


def modified_bessel_i1(input):
    return td.special.i1(input)


def _shifted(input):
    return 2 * (input if input.is_floating_point() else input.to(td.float32)) - 1


def shifted_chebyshev_polynomial_t(input, n: int):
    return td.special.chebyshev_polynomial_t(_shifted(input), n)


def shifted_chebyshev_polynomial_u(input, n: int):
    return td.special.chebyshev_polynomial_u(_shifted(input), n)


def shifted_chebyshev_polynomial_v(input, n: int):
    return td.special.chebyshev_polynomial_v(_shifted(input), n)


def shifted_chebyshev_polynomial_w(input, n: int):
    return td.special.chebyshev_polynomial_w(_shifted(input), n)


def _near_range(A, q: int, niter: int):
    """Orthonormal columns that nearly span A's."""
    found = td.linalg.qr(A @ ops.randn(A.shape[:-2] + [A.shape[-1], q], A.dtype))[0]
    for k in range(niter):
        found = td.linalg.qr(td.adjoint(A) @ found)[0]
        found = td.linalg.qr(A @ found)[0]
    return found


def svd_lowrank(A, q: int = 6, niter: int = 2, M=None):
    B = A if M is None else A - M
    least = min(B.shape[-2], B.shape[-1])
    assert 0 <= q and q <= least, f"q(={q}) must be non-negative integer and not greater than min(m, n)={least}"
    wide = B.shape[-2] < B.shape[-1]
    if wide:
        B = td.adjoint(B)
    basis = _near_range(B, q, niter)
    u, s, vh = td.linalg.svd(td.adjoint(basis) @ B, False)
    left, right = basis @ u, td.adjoint(vh)
    if wide:
        return right, s, left
    return left, s, right


def pca_lowrank(A, q: int | None = None, center: bool = True, niter: int = 2):
    n = min(6, A.shape[-2], A.shape[-1]) if q is None else q
    return svd_lowrank(A - ops.mean(A, [-2], True) if center else A, n, niter)


def normal(mean=0.0, std=1.0, size=None, generator=None, dtype=None, device=None, requires_grad: bool = False):
    assert generator is None and not requires_grad, "normal of a program knows neither generator nor requires_grad"
    if not isinstance(std, Tensor):
        assert std >= 0, f"normal expects std >= 0.0, but found std {std}"
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        both = mean + std
        kind = both.dtype if dtype is None else dtype
        return ops.randn(both.shape if size is None else size, kind) * std + mean
    assert size is not None, "normal() of two numbers needs the size: normal(0.0, 1.0, (2, 3))"
    return ops.randn(size, td.float32 if dtype is None else dtype) * std + mean


def _picked(values, inverse, counts, return_inverse: bool, return_counts: bool):
    if return_inverse and return_counts:
        return values, inverse, counts
    if return_inverse:
        return values, inverse
    if return_counts:
        return values, counts
    return values


def unique(input, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None):
    if dim is None:
        if not return_inverse and not return_counts:
            return ops.unique(input)
        values, first, inverse, counts = ops.unique_all(input)
        return _picked(values, inverse, counts, return_inverse, return_counts)
    ranks, places, of, n = ops.unique_all(ops.slice_ranks(input, dim))
    return _picked(ops.index_select(input, dim, places), of, n, return_inverse, return_counts)


def unique_consecutive(input, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None):
    if dim is None:
        values, inverse, counts = ops.unique_runs(input)
        return _picked(values, inverse, counts, return_inverse, return_counts)
    at = dim + input.ndim if dim < 0 else dim
    n = input.shape[at]
    rows = reshape(ops.movedim(input, at, 0), [n, input.numel() // max(n, 1)])
    new = ops.cat([ops.full([min(1, n)], True, td.bool), ops.any(rows[1:] != rows[:-1], [1])], 0)
    runs, of, lengths = ops.unique_runs(ops.cumsum(new, 0))
    return _picked(ops.index_select(input, at, ops.flatten(ops.nonzero(new))), of, lengths, return_inverse, return_counts)
