"""PyTorch's functions of layers by their names at the top of the package, with the arguments that they have there.

Most are those of tensord.nn.functional. Where arguments differ they are those of PyTorch's kernels: a reduction is a number (0: none, which
it is when it is not told, 1: mean, 2: sum), a mode of interpolation too, `train` is told instead of `training`, and cudnn's flags mean nothing.
"""

import builtins
import warnings
from typing import Any

import tensord as td
from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor
from tensord.nn import functional as F
from tensord.nn.functional import (adaptive_avg_pool1d as adaptive_avg_pool1d, avg_pool1d as avg_pool1d, bilinear as bilinear, celu as _celu, celu_ as celu_,
                                   channel_shuffle as channel_shuffle, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d, conv_tbc as conv_tbc,
                                   conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d,
                                   cosine_similarity as cosine_similarity, hardshrink as hardshrink,
                                   native_channel_shuffle as native_channel_shuffle, pairwise_distance as pairwise_distance, pdist as pdist,
                                   pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, prelu as prelu, rms_norm as rms_norm,
                                   selu_ as selu_, threshold_ as threshold_)
from tensord.nn.recurrent import _along


def _reduction(number):
    if isinstance(number, bool) or not isinstance(number, int):
        raise _C.DTypeError(f"argument 'reduction' must be int, not {type(number).__name__}: 0 (none), 1 (mean) or 2 (sum)")
    if number not in (0, 1, 2):
        raise _C.InvalidError(f"{number} is not a valid value for reduction: 0 (none), 1 (mean) or 2 (sum)")
    return ("none", "mean", "sum")[number]


# ---- activations


def selu(input: Tensor) -> Tensor:
    """F.selu()"""
    return F.selu(input)


def celu(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """F.celu()"""
    return _celu(input, alpha)


def threshold(input: Tensor, threshold: Any, value: Any) -> Tensor:
    """F.threshold()"""
    return F.threshold(input, threshold, value)


def rrelu(input: Tensor, lower=1 / 8, upper=1 / 3, training=False) -> Tensor:
    """F.rrelu()"""
    return F.rrelu(input, lower, upper, training)


def rrelu_(input: Tensor, lower=1 / 8, upper=1 / 3, training=False) -> Tensor:
    """F.rrelu() in the memory of its argument."""
    return F.rrelu(input, lower, upper, training, inplace=True)


# ---- dropout


def dropout(input: Tensor, p, train) -> Tensor:
    """F.dropout()"""
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p, train) -> Tensor:
    """F.dropout() in the memory of its argument."""
    return F.dropout(input, p, train, inplace=True)


def native_dropout(input: Tensor, p, train) -> Any:
    """(F.dropout(), which elements were kept)"""
    if train is False or p == 0:
        return input.clone(), td.ones_like(input, dtype=_C.bool)
    kept = F.dropout(td.ones_like(input), p, True)
    return input * kept, kept != 0


def feature_dropout(input: Tensor, p, train) -> Tensor:
    """Whole channels of (N, C, ...) set to 0 in training."""
    return F.dropout2d(input, p, train)


def feature_dropout_(input: Tensor, p, train) -> Tensor:
    """feature_dropout() in the memory of its argument."""
    return F.dropout2d(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p, train) -> Tensor:
    """F.alpha_dropout()"""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p, train) -> Tensor:
    """F.alpha_dropout() in the memory of its argument."""
    return F.alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout(input: Tensor, p, train) -> Tensor:
    """F.feature_alpha_dropout()"""
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p, train) -> Tensor:
    """F.feature_alpha_dropout() in the memory of its argument."""
    return F.feature_alpha_dropout(input, p, train, inplace=True)


# ---- norms


def batch_norm(input: Tensor, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False) -> Tensor:
    """F.batch_norm(), whose weight and bias stand first here."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input: Tensor, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=False) -> Tensor:
    """F.instance_norm(), whose weight and bias stand first here."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(input: Tensor, normalized_shape, weight: "Tensor | None" = None, bias: "Tensor | None" = None, eps=1e-5, cudnn_enable=True) -> Tensor:
    """F.layer_norm()"""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(input: Tensor, num_groups, weight: "Tensor | None" = None, bias: "Tensor | None" = None, eps=1e-5, cudnn_enabled=True) -> Tensor:
    """F.group_norm()"""
    return F.group_norm(input, num_groups, weight, bias, eps)


def norm_except_dim(v: Tensor, pow: Any = 2, dim=0) -> Tensor:
    """The norm over all dimensions but one, which keep size 1; dim=-1: over all."""
    if dim == -1:
        return v.norm(pow)
    if not 0 <= dim < v.ndim:
        raise _C.OutOfRange(f"Dimension out of range (expected to be in range of [-1, {v.ndim - 1}], but got {dim})")
    return v.norm(pow, [d for d in builtins.range(v.ndim) if d != dim], True)


def frobenius_norm(input: Tensor, dim: Any, keepdim=False) -> Tensor:
    """The root of the sum of squares over one dimension or two; over no dimension, [], over all."""
    return td.linalg.vector_norm(input, 2, dim if isinstance(dim, int) else list(dim) or None, keepdim)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim=False) -> Tensor:
    """The sum of the singular values of the matrices that two dimensions are."""
    if isinstance(dim, bool):  # nuclear_norm(x, True)
        dim, keepdim = (-2, -1), dim
    return td.linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


# ---- convolutions, windows, grids


def convolution(input: Tensor, weight, bias, stride, padding, dilation, transposed, output_padding, groups) -> Tensor:
    """conv1d() to conv3d() or, transposed, conv_transpose1d() to conv_transpose3d(), by the dimensions of weight."""
    n = weight.ndim - 2
    if n not in (1, 2, 3):
        raise _C.ShapeError(f"convolution(): weight has 3, 4 or 5 dimensions, not {weight.ndim}")
    if transposed:
        return (conv_transpose1d, conv_transpose2d, conv_transpose3d)[n - 1](input, weight, bias, stride, padding, output_padding, groups, dilation)
    return (conv1d, conv2d, conv3d)[n - 1](input, weight, bias, stride, padding, dilation, groups)


def max_pool1d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False) -> Tensor:
    """F.max_pool1d()"""
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False) -> Any:
    """F.max_pool1d(), and where the largest were."""
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False) -> Tensor:
    """F.max_pool2d()"""
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode=False) -> Tensor:
    """F.max_pool3d()"""
    return F.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def adaptive_max_pool1d(input: Tensor, output_size) -> Any:
    """F.adaptive_max_pool1d(), and where the largest were."""
    return F.adaptive_max_pool1d(input, output_size, True)


def affine_grid_generator(theta: Tensor, size, align_corners) -> Tensor:
    """F.affine_grid()"""
    return F.affine_grid(theta, size, align_corners)


def _chosen(names, number, what):
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise _C.InvalidError(f"{what} is a number: {', '.join(f'{k} ({n})' for k, n in enumerate(names))}; not {number!r}")
    return names[number]


def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode, padding_mode, align_corners) -> Tensor:
    """F.grid_sample(); interpolation_mode: 0 (bilinear), 1 (nearest) or 2 (bicubic), padding_mode: 0 (zeros), 1 (border) or 2 (reflection)."""
    modes = _chosen(("bilinear", "nearest", "bicubic"), interpolation_mode, "interpolation_mode"), _chosen(("zeros", "border", "reflection"), padding_mode, "padding_mode")
    return F.grid_sample(input, grid, *modes, align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


# ---- embeddings


def embedding(weight: Tensor, indices: Tensor, padding_idx=-1, scale_grad_by_freq=False, sparse=False) -> Tensor:
    """F.embedding(), whose weight stands first here; padding_idx=-1: there is none."""
    return F.embedding(indices, weight, None if padding_idx == -1 else padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm, norm_type) -> Tensor:
    """Rows that indices name and that are longer than max_norm are made that long, in place."""
    F._held_rows(input, indices, max_norm, norm_type)
    return input


# ---- losses


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: "Tensor | None" = None, pos_weight: "Tensor | None" = None, reduction=0) -> Tensor:
    """F.binary_cross_entropy_with_logits()"""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin=0.0, reduction=0) -> Tensor:
    """F.cosine_embedding_loss()"""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank=0, reduction=0, zero_infinity=False) -> Tensor:
    """F.ctc_loss()"""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin=1.0, reduction=0) -> Tensor:
    """F.hinge_embedding_loss()"""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(input: Tensor, target: Tensor, reduction=0, *, log_target=False) -> Tensor:
    """F.kl_div()"""
    return F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin=0.0, reduction=0) -> Tensor:
    """F.margin_ranking_loss()"""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input, full, eps, reduction) -> Tensor:
    """F.poisson_nll_loss()"""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=0) -> Tensor:
    """F.triplet_margin_loss()"""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap=swap, reduction=_reduction(reduction))


# ---- recurrent layers


def _gates(input, hx, w_ih, w_hh, b_ih, b_hh):
    return F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh)


def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih, w_hh, b_ih: "Tensor | None" = None, b_hh: "Tensor | None" = None) -> Tensor:
    """One step of RNNCell."""
    return td.add(*_gates(input, hx, w_ih, w_hh, b_ih, b_hh)).tanh()


def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih, w_hh, b_ih: "Tensor | None" = None, b_hh: "Tensor | None" = None) -> Tensor:
    """One step of RNNCell with relu()."""
    return td.add(*_gates(input, hx, w_ih, w_hh, b_ih, b_hh)).relu()


def gru_cell(input: Tensor, hx: Tensor, w_ih, w_hh, b_ih: "Tensor | None" = None, b_hh: "Tensor | None" = None) -> Tensor:
    """One step of GRUCell."""
    (a, b, c), (d, e, f) = (g.chunk(3, -1) for g in _gates(input, hx, w_ih, w_hh, b_ih, b_hh))
    new = (c + (a + d).sigmoid() * f).tanh()
    return td.lerp(new, hx, (b + e).sigmoid())


def lstm_cell(input: Tensor, hx, w_ih, w_hh, b_ih: "Tensor | None" = None, b_hh: "Tensor | None" = None) -> Any:
    """One step of LSTMCell: (h, c)."""
    h, c = hx
    i, f, g, o = td.add(*_gates(input, h, w_ih, w_hh, b_ih, b_hh)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _layers(mode, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    x, ways, last = input.transpose(0, 1) if batch_first else input, 2 if bidirectional else 1, []
    each, odd = divmod(len(params), num_layers * ways)
    if odd or each not in ((4, 5) if has_biases else (2, 3)):
        raise _C.InvalidError(f"{num_layers * ways} layers and directions, biases={has_biases}: there are {len(params)} parameters, which is not as many for each")
    for layer in builtins.range(num_layers):
        outs = []
        for way in builtins.range(ways):
            at = layer * ways + way
            w = list(params[at * each : (at + 1) * each])
            weights = (*w[:2], *(w[2:4] if has_biases else (None, None)), w[-1] if each % 2 else None)
            out, end = _along(mode, x, [h[at] for h in hx], weights, bool(way))
            outs.append(out)
            last.append(end)
        x = outs[0] if ways == 1 else td.cat(outs, -1)
        if dropout and layer < num_layers - 1:
            x = F.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, *(td.stack(list(h)) for h in zip(*last))


def rnn_tanh(input: Tensor, hx: Tensor, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) -> Any:
    """nn.RNN as a function of its parameters: (all h, the last ones). Not for packed sequences."""
    return _layers("RNN_TANH", input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def rnn_relu(input: Tensor, hx: Tensor, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) -> Any:
    """nn.RNN with relu() as a function of its parameters: (all h, the last ones). Not for packed sequences."""
    return _layers("RNN_RELU", input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def gru(input: Tensor, hx: Tensor, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) -> Any:
    """nn.GRU as a function of its parameters: (all h, the last ones). Not for packed sequences."""
    return _layers("GRU", input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def lstm(input: Tensor, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) -> Any:
    """nn.LSTM as a function of its parameters: (all h, the last h, the last c). Not for packed sequences."""
    return _layers("LSTM", input, tuple(hx), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


# ---- others


def range(start, end=None, step=1, dtype=None, *, device=None, requires_grad=False) -> Tensor:
    """arange() that has its end, too; deprecated, and floats unless told otherwise."""
    warnings.warn("torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range builtin. "
                  "Instead, use torch.arange, which produces values in [start, end).", UserWarning, stacklevel=2)
    start, end = (0, start) if end is None else (start, end)
    if step == 0 or (end - start) / step < 0:
        raise _C.InvalidError("step must be nonzero" if step == 0 else "upper bound and lower bound inconsistent with step sign")
    n = int((end - start) / step) + 1
    made = start + step * _C.arange(n, dtype=_C.float64)
    made = made.to(dtype or _C.get_default_dtype())
    return _overloads._made(device, requires_grad, lambda: made if device is None else made.to(device))


def typename(obj) -> str:
    """The name of the type of an object; of a tensor, of the tensors of its dtype."""
    if _C.is_tensor(obj):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None)
    return kind.__qualname__ if module in (None, "builtins") else f"{module}.{kind.__qualname__}"


def view_as_complex_copy(input: Tensor) -> Tensor:
    """view_as_complex() in memory of its own."""
    return td.view_as_complex(input).clone()


def view_as_real_copy(input: Tensor) -> Tensor:
    """view_as_real() in memory of its own."""
    return td.view_as_real(input).clone()


def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """addmv() in the memory of its first argument."""
    return input.addmv_(mat, vec, beta=beta, alpha=alpha)


def can_cast(from_, to) -> bool:
    """Whether numbers of a dtype may be put into memory of another: not complex ones into real memory, floats into whole, or anything but bool into bool."""
    def kind(dtype):
        return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is _C.bool else 1

    return kind(from_) <= kind(to)


def binomial(count: Tensor, prob: Tensor, generator=None) -> Tensor:
    """How many of `count` throws, each a success with probability `prob`, succeed. No gradient.

    Raises DTypeError for other dtypes than floats, and for two of them.
    """
    if not count.is_floating_point() or count.dtype is not prob.dtype:
        raise _C.DTypeError(f"binomial only supports floating-point dtypes for count, and the same for prob, got: {count.dtype} and {prob.dtype}")
    count, prob = (t.detach() for t in td.broadcast_tensors(count, prob))
    most = int(count.max()) if count.numel() else 0
    draw: Any = _C.rand
    throws = draw(*count.shape, most, dtype=_C.float64, device=count.device, generator=generator)
    taken = _C.arange(most, device=count.device) < count.unsqueeze(-1)
    return ((throws < prob.unsqueeze(-1)) & taken).sum(-1).to(count.dtype)


def embedding_bag(weight: Tensor, indices: Tensor, offsets: Any = None, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False, per_sample_weights: Any = None,
                  include_last_offset: bool = False, padding_idx: Any = None) -> tuple:
    """embedding_bag() of tensord.nn.functional, with the bag of each index, the sizes of bags, and (mode 2) the rows that gave the largest. Modes are 0: sum, 1: mean, 2: max."""
    if mode not in (0, 1, 2):
        raise _C.InvalidError(f"embedding_bag(): mode is 0 (sum), 1 (mean) or 2 (max), not {mode}")
    out = F.embedding_bag(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse, per_sample_weights, include_last_offset, padding_idx)
    with td.no_grad():
        flat, bag, n = F._bags(indices, offsets, include_last_offset)
        used = td.ones_like(flat) if padding_idx is None else (flat != padding_idx % (weight.shape[0] or 1)).to(flat.dtype)
        sizes = td.zeros(n, dtype=flat.dtype, device=flat.device).index_add(0, bag, used)
        if mode < 2:
            return out, bag, sizes, sizes
        most = td.where((weight.detach().index_select(0, flat) == out.detach().index_select(0, bag)) & (used != 0).unsqueeze(1), flat.unsqueeze(1), -1)
        rows = td.full(out.shape, -1, dtype=flat.dtype, device=flat.device).index_reduce(0, bag, most, "amax")
        return out, bag, sizes, rows.clamp(min=0)


_STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -td.inf, "min": td.inf}


def segment_reduce(data: Tensor, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0, unsafe: bool = False, initial: Any = None) -> Tensor:
    """The sum, mean, product, largest or smallest of each segment along axis; they follow each other, are so long (lengths), or begin there and end with the last (offsets)."""
    if reduce not in _STARTS:
        raise _C.InvalidError(f"segment_reduce(): reduce is one of {', '.join(_STARTS)}, not {reduce}")
    if indices is not None:
        raise _C.Unsupported("segment_reduce(): indices are not there; lengths or offsets say where segments are")
    if lengths is None and offsets is None:
        raise _C.InvalidError("segment_reduce(): Either lengths or offsets must be defined.")
    if not data.is_floating_point():
        raise _C.DTypeError(f"segment_reduce(): data is of floats, not {data.dtype}")
    lengths = offsets.diff(dim=-1) if lengths is None else lengths
    axis = axis + data.ndim if axis < 0 else axis
    if axis != lengths.ndim - 1 or tuple(lengths.shape[:-1]) != tuple(data.shape[:axis]):
        raise _C.ShapeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}, of lengths {tuple(lengths.shape)} for data {tuple(data.shape)}")
    if lengths.is_floating_point() or (not unsafe and bool((lengths < 0).any())):
        raise _C.InvalidError("lengths contains negative value!" if not lengths.is_floating_point() else f"segment_reduce(): lengths are whole numbers, not {lengths.dtype}")
    wanted = lengths.shape
    if unsafe:  # what no segment has is one more
        lengths = td.cat([lengths, data.shape[axis] - lengths.sum(-1, True, dtype=lengths.dtype)], -1)
    elif bool((lengths.sum(-1) != data.shape[axis]).any()):
        raise _C.InvalidError(f"segment_reduce(): Expected all rows of lengths along axis to sum to {data.shape[axis]}, the size of data there")
    counts, rows = lengths.reshape(-1), data.flatten(0, axis)
    place = td.arange(counts.shape[0], device=data.device).repeat_interleave(counts)
    start = _STARTS[reduce] if initial is None else initial
    out = td.full((counts.shape[0], *rows.shape[1:]), start, dtype=data.dtype, device=data.device)
    if reduce in ("sum", "mean"):
        out = out.index_add(0, place, rows)
    else:
        out = out.index_reduce(0, place, rows, {"max": "amax", "min": "amin"}.get(reduce, reduce))
    if reduce == "mean":
        many = counts.to(data.dtype).reshape(-1, *(1,) * (rows.ndim - 1))
        out = out / (many if initial is None else many.clamp(min=1))
    return out.reshape((*lengths.shape, *rows.shape[1:])).narrow(axis, 0, wanted[-1])
