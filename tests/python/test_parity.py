"""Every function, method and function of layers that PyTorch has under the same name, on the same arguments: values, dtypes, shapes, and the
kind of error. Arguments are the rows of CALLS; x, y, ... are made in each dtype and layout of VARIANTS. What differs on purpose is in KNOWN, with
its reason; everything else is a failure. `python test_parity.py` prints what is reached and what differs."""
import contextlib
import inspect
import math
import re
import sys
import warnings

import common
import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")

# Dtype and layout of x and its companions: (dtype, shape, how it is laid out).
VARIANTS = {
    "float32": ("float32", (2, 3), "as it is"), "float64": ("float64", (2, 3), "as it is"), "float16": ("float16", (2, 3), "as it is"),
    "bfloat16": ("bfloat16", (2, 3), "as it is"), "int64": ("int64", (2, 3), "as it is"), "int32": ("int32", (2, 3), "as it is"),
    "int8": ("int8", (2, 3), "as it is"), "uint8": ("uint8", (2, 3), "as it is"), "bool": ("bool", (2, 3), "as it is"),
    "complex64": ("complex64", (2, 3), "as it is"), "scalar": ("float32", (), "as it is"), "int scalar": ("int64", (), "as it is"),
    "empty": ("float32", (0, 3), "as it is"), "turned": ("float32", (2, 3), "turned"), "gaps": ("float32", (2, 3), "gaps"),
    "wide": ("float32", (2, 3), "wide")}
if common.SANITIZED:  # it takes long enough
    VARIANTS = {k: VARIANTS[k] for k in ("float32", "int64", "empty", "turned")}
NUMBERS = [0.5, -1.25, 2.0, 0.0, 3.0, -0.75, 1.0, 7.0, -2.5, 4.0, 0.25, -3.0]


def _pool(lib, dtype, shape, layout, start, positive=False):
    """A tensor of these NUMBERS from `start` on."""
    n = math.prod(shape)
    data = [NUMBERS[(start + k) % len(NUMBERS)] for k in range(n)]
    if positive or dtype == "uint8":
        data = [abs(v) for v in data]
    if dtype == "complex64":
        data = [complex(v, NUMBERS[(start + 5 * k) % len(NUMBERS)]) for k, v in enumerate(data)]
    if "int" in dtype:
        data = [int(v) for v in data]
    if dtype == "bool":
        data = [v > 0 for v in data]
    kind = getattr(lib, dtype)
    t = lib.tensor(data, dtype=kind).reshape(shape)
    if layout == "turned" and t.ndim == 2:
        return lib.tensor([[t[i, j].item() for i in range(shape[0])] for j in range(shape[1])], dtype=kind).t()
    if layout == "gaps" and t.ndim == 2:
        return lib.cat([t, t, t], 1).reshape(shape[0], 3, shape[1])[:, 1]
    if layout == "wide" and t.ndim == 2:
        return t[:1].expand(shape)
    return t


def operands(lib, variant, text):
    """What a text may name: the modules, x, and those of the others that stand in it."""
    dtype, shape, layout = VARIANTS[variant]
    matrix, tensor = len(shape) == 2, lib.tensor

    def make(start, shape=shape, layout=layout, **more):
        return _pool(lib, dtype, shape, layout, start, **more)

    def plain(start, *shape):
        return make(start, shape=shape, layout="as it is")

    made = {"x": lambda: make(0), "y": lambda: make(4), "z": lambda: make(7), "p": lambda: make(1, positive=True),
            "v": lambda: plain(2, 3), "m": lambda: plain(3, 3, 4), "s": lambda: plain(5), "b3": lambda: plain(1, 2, 2, 3), "bb": lambda: plain(1, 2, 2, 2),
            "c3": lambda: plain(6, 2, 3, 2), "sq": lambda: plain(2, 3, 3), "pic": lambda: plain(0, 1, 2, 4, 4), "row": lambda: plain(0, 1, 2, 6),
            "ker": lambda: plain(3, 2, 2, 3, 3), "ker1": lambda: plain(3, 2, 2, 3), "four": lambda: plain(3, 4), "two": lambda: plain(3, 2),
            "mask": lambda: tensor([[True, False, True], [False, True, True]])[: shape[0]] if matrix else tensor(True),
            "i": lambda: tensor([[0, 1, 1], [1, 0, 0]])[: shape[0]] if matrix else tensor(0), "j": lambda: tensor([1, 0]), "n": lambda: tensor([2, 0, 1]),
            "unit": lambda: tensor([[0.25, 0.5, 0.75], [0.0, 1.0, 0.125]]), "target": lambda: tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])}
    named = {"x", *re.findall(r"\w+", text)}
    return {"lib": lib, "F": lib.nn.functional, "math": math, **{name: make() for name, make in made.items() if name in named}}


def _names(text):
    return text.split()


# What is called with which arguments, for functions and methods alike: $ is the name. A method's `self` is the first argument.
PATTERNS = {}


def rows(names, *patterns):
    for name in _names(names):
        PATTERNS.setdefault(name, []).extend(patterns)


rows("abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj cos cosh erf erfc exp exp2 expm1 fix floor "
     "imag isfinite isinf isnan log log10 log1p log2 logical_not bitwise_not nan_to_num neg negative reciprocal relu round rsqrt sigmoid sign signbit sin "
     "sinh sqrt square tan tanh trunc real clone detach ravel numel is_complex is_floating_point t trace nonzero flatten fliplr flipud", "x", "p")
rows("add sub mul subtract multiply", "x, y", "x, 2", "x, 2.5", "x, True", "x, s", "x, v", "x, 1j", "s, 2.5", "x, y.to(lib.float64)", "x, lib.tensor(2.5)")
rows("add sub", "x, y, alpha=2", "x, y, alpha=0.5", "x, 3, alpha=2")
rows("div divide true_divide", "x, p", "x, 2", "x, 2.5", "x, 0", "x, s", "x, y.to(lib.float64)")
rows("div", "x, y, rounding_mode='floor'", "x, 2, rounding_mode='trunc'", "x, 0.3, rounding_mode='floor'", "x, 2, rounding_mode=None", "x, 2, rounding_mode='up'")
rows("floor_divide remainder fmod", "x, p + 1", "x, 2", "x, 2.5", "x, -3", "x, s")
rows("pow", "x, 2", "x, 3", "p, 0.5", "x, y.abs() if not y.is_complex() else y", "x, 0", "x, -1", "p, -2", "x, 2.0", "p, s")
rows("atan2 arctan2 hypot copysign nextafter logaddexp", "x, y", "x, s")
rows("copysign", "x, -1")
rows("maximum minimum", "x, y", "x, s", "x, y.to(lib.float64)")
rows("eq ne lt le gt ge greater greater_equal less less_equal not_equal", "x, y", "x, 0", "x, 0.5", "x, s", "x, True")
rows("logical_and logical_or logical_xor", "x, y", "x, s")
rows("bitwise_and bitwise_or bitwise_xor", "x, y", "x, 3", "x, True")
rows("bitwise_left_shift bitwise_right_shift", "x, p", "x, 2")
rows("isclose allclose equal", "x, x", "x, y")
rows("isclose allclose", "x, y, 0.5, 1.0", "x, x + 1, rtol=1.0, equal_nan=True")
rows("lerp", "x, y, 0.5", "x, y, z", "x, y, 2")
rows("addcmul", "x, y, z", "x, y, z, value=2", "x, y, z, value=0.5")
rows("addcdiv", "x, y, p + 1", "x, y, p + 1, value=2")
rows("clamp clip", "x, 0", "x, -1, 1", "x, min=0.5", "x, max=0.5", "x, y", "x, max=s", "x, y, y + 1", "x, None, None", "x, 0, 0.5", "x, 2, 1")
rows("clamp_min clamp_max", "x, 0.5", "x, y", "x, 1")
rows("where", "mask, x, y", "mask, x, 2", "mask, 2.5, x", "mask, x, y.to(lib.float64)", "mask, 1, 2", "mask", "x, x, y")
rows("sum mean prod amax amin all any", "x", "x, 0", "x, 1, True", "x, -1, keepdim=True", "x, dim=1")
rows("sum mean amax amin all any", "x, (0, 1)", "x, ()", "x, (0, 0)", "x, 2")
rows("sum mean prod cumsum cumprod", "x, dim=0, dtype=lib.float64", "x, 0, dtype=lib.int64", "x, 0, dtype=float")
rows("sum mean nansum", "x, None", "x, axis=1", "x, [0]", "x, dim=None, keepdim=True")
rows("nansum nanmean", "x", "x, 0", "x, 1, True")
rows("max min", "x", "x, 0", "x, 1, True", "x, dim=-1", "x, y", "x, 2")
rows("argmax argmin", "x", "x, 0", "x, 1, True", "x, dim=1, keepdim=True", "x, 2", "x, None, True")
rows("median", "x", "x, 0", "x, 1, True", "x, dim=-1, keepdim=True")
rows("var std", "x", "x, 0", "x, 1, False", "x, (0, 1)", "x, False", "x, 0, True, True", "x, dim=1, correction=0", "x, dim=1, keepdim=True", "x, unbiased=False", "x, 2")
rows("var_mean std_mean", "x", "x, False", "x, 0", "x, 1, False, True", "x, dim=1, correction=0", "x, (0, 1)")
rows("norm", "x", "x, 1", "x, 2, 0", "x, math.inf", "x, 0", "x, 2, 1, True", "x, 'fro'", "x, p=3, dim=(0, 1)", "x, -math.inf, 1", "x, dtype=lib.float64", "x, 0.5, 1")
rows("logsumexp", "x, 0", "x, (0, 1)", "x, 1, True", "x, 2")
rows("softmax log_softmax", "x, 0", "x, 1", "x, dim=-1, dtype=lib.float64", "x, 2", "x, 0, dtype=float")
rows("cumsum cumprod", "x, 0", "x, dim=1", "x, -1", "x, 2")
rows("nonzero", "x", "p > 1, as_tuple=True", "x, as_tuple=False", "x[:0], as_tuple=True")
rows("nonzero_static", "x, size=4", "x, size=0", "x, size=9, fill_value=-2", "s, size=1", "x, size=-1")
rows("vmap", "lambda a: a * 2)(x", "lambda a: a.sum(-1), in_dims=1)(x", "lambda a, b: a + b, in_dims=(0, None))(x, s", "lambda a: a, out_dims=1)(m", "lambda a: a, in_dims=5)(x")
rows("F.linear_cross_entropy", "m, m, i[:, 0].new_ones(3)", "m, m, n, reduction='none'", "m, m, n, linear_bias=v", "m, m, n, weight=v.abs()", "m[0], m, n[0]", "v, m, n")
rows("count_nonzero", "x", "x, 0", "x, (0, 1)")
rows("aminmax", "x", "x, dim=0", "x, dim=1, keepdim=True")
rows("quantile", "x, 0.5", "x, 0.3, dim=1", "x, 0.5, 0, True", "x, lib.tensor([0.25, 0.5])", "x, 2.0")
rows("diff", "x", "x, 1, 0", "x, n=2", "x, dim=0", "x, prepend=x[:, :1]", "x, 1, -1, x[:, :1], x")
rows("argsort sort", "v", "x", "x, 0", "x, dim=1, descending=True", "x, 1, True", "x, 2")
rows("topk", "v, 2", "x, 1", "x, 1, 0", "x, 2, largest=False", "x, 2, -1, True, True", "x, 9", "x, -1")
rows("unique", "x", "x, return_inverse=True", "x, return_counts=True", "x, True, True, True", "x, sorted=True")
rows("bincount", "p.flatten()", "p.flatten(), minlength=9", "i.flatten(), p.flatten()", "x")
rows("isin", "x, y", "x, 2.0", "x, y, invert=True")
rows("searchsorted", "v.sort()[0], x", "v.sort()[0], x, right=True", "v.sort()[0], 1")
rows("bucketize", "x, v.sort()[0]", "x, v.sort()[0], right=True", "2, v.sort()[0]")
rows("reshape view", "x, -1", "x, (3, 2)", "x, (6,)", "x, (-1, 3)", "x, (4, 2)", "x, 3, 2", "x, ()", "x, (-1, -1)")
rows("view", "x, lib.int32", "x, lib.int16", "x, dtype=lib.uint8")
rows("permute", "x, (1, 0)", "x, (0, 0)", "x, 1, 0", "x, (-1, 0)", "x, (0,)")
rows("transpose swapaxes swapdims", "x, 0, 1", "x, -1, -2", "x, 0, 2")
rows("movedim moveaxis", "x, 0, 1", "b3, (0, 1), (2, 0)", "x, 0, 5")
rows("squeeze", "x", "x, 0", "x[:1], 0", "x[:1]", "x[:1], (0,)", "x, 2")
rows("unsqueeze", "x, 0", "x, -1", "x, 2", "x, 5")
rows("expand broadcast_to", "x, (2, 2, 3)", "s, (2, 3)", "x, (2, 4)", "x, (-1, 3)", "v, (2, -1)")
rows("expand", "v, 2, 3")
rows("flatten", "b3, 1", "b3, 0, 1", "x, start_dim=0, end_dim=-1", "x, 1, 0", "x, 5")
rows("unflatten", "x, 1, (3, 1)", "x, 0, (-1, 1)", "x, 1, (2, 2)", "x, dim=1, sizes=(1, 3)")
rows("narrow", "x, 1, 1, 2", "x, 0, 0, 1", "x, 1, 2, 2", "x, 1, -2, 1", "x, dim=1, start=0, length=0")
rows("select", "x, 0, 1", "x, 1, -1", "x, 1, 3", "x, dim=1, index=0")
rows("split", "x, 1", "x, 2, 1", "x, (1, 2), 1", "x, [1, 1], 1", "x, 0", "x, 5")
rows("chunk tensor_split", "x, 2", "x, 2, 1", "x, 4, dim=1", "x, 0")
rows("tensor_split", "x, (1, 2), 1", "x, [1], dim=0")
rows("unbind", "x", "x, 1", "x, dim=-1", "x, 2")
rows("diagonal", "x", "x, 1", "b3, 0, 1, 2", "x, offset=-1")
rows("diag", "x", "v", "v, 1", "x, -1")
rows("diag_embed", "v", "x", "v, 1", "v, -1")
rows("tril triu", "x", "x, 1", "x, diagonal=-1", "b3")
rows("flip", "x, (0,)", "x, (0, 1)", "x, [1]", "x, (0, 0)", "x, 2")
rows("roll", "x, 1", "x, 1, 0", "x, (1, 2), (0, 1)", "x, shifts=-1, dims=1")
rows("repeat", "x, 2, 1", "x, (2, 1, 1)", "x, (2,)")
rows("tile", "x, (2,)", "x, (2, 1, 1)", "x, (1, 2)")
rows("repeat_interleave", "x, 2", "x, 2, 1", "x, j + 1, 0", "v, n", "x, 2, dim=5")
rows("cat concat concatenate", "(x, y)", "(x, y), 1", "[x, y.to(lib.float64)], dim=1", "(x, v)", "()", "(x,), 5", "(x, y, x), -1")
rows("stack", "(x, y)", "(x, y), 1", "(x, y), dim=-1", "(x, v)", "[]", "(x, y.to(lib.float64))")
rows("hstack vstack column_stack", "(x, y)", "(v, v)", "(s, s)")
rows("atleast_1d atleast_2d", "x", "s", "v", "s, x")
rows("meshgrid", "v, v", "v, j, indexing='xy'", "v, v, indexing='ij'")
rows("broadcast_tensors", "x, v", "x, s", "x, m")
rows("broadcast_shapes", "(2, 3), (3,)", "(2, 1), (1, 3)", "(2,), (3,)")
rows("matmul", "x, m", "b3, c3", "v, m", "x, v", "v, v", "b3, m", "x, x", "s, x")
rows("mm", "x, m", "x, x", "b3, m")
rows("bmm", "b3, c3", "b3, b3", "x, m")
rows("mv", "x, v", "x, x")
rows("dot inner", "v, v", "v, m[:, 0]", "v, x")
rows("inner", "x, y", "x, s")
rows("outer", "v, v", "v, four", "x, v")
rows("addmm", "lib.mm(x, m) if x.dtype != lib.bool else x, x, m", "four, x, m", "four, x, m, beta=2, alpha=3", "four, x, m, beta=0.5")
rows("addmv", "two, x, v", "two, x, v, beta=2, alpha=3")
rows("baddbmm", "bb, b3, c3", "bb, b3, c3, beta=2, alpha=3")
rows("cross", "v, v.flip(0)", "x, y", "x, y, dim=1")
rows("tensordot", "x, m, 1", "b3, b3, ([1, 2], [1, 2])", "x, y, dims=2")
rows("einsum", "'ij,jk->ik', x, m", "'ij->ji', x", "'ii', sq", "'bij,bjk', b3, c3", "'i,j->ij', v, four", "'ij,ij->', x, y", "'...i->...', b3")
rows("trace", "sq")
rows("gather", "x, 1, i", "x, 0, i", "x, 1, i.int()", "x, 5, i", "x, 1, i + 7")
rows("scatter", "x, 1, i, y", "x, 0, i, 7", "x, 1, i, 2.5", "x, 1, i + 7, y")
rows("scatter_add", "x, 1, i, y", "x, 0, i, y")
rows("index_select", "x, 1, j", "x, 0, j.int()", "x, 1, lib.tensor([5])", "x, 1, j.float()")
rows("index_add", "x, 0, j, y", "x, 1, n, y", "x, 0, j, y, alpha=2")
rows("masked_fill", "x, mask, 2", "x, mask, 2.5", "x, mask, s", "x, i, 2", "x, mask, True")
rows("masked_select", "x, mask", "x, x > 0", "x, i")
rows("take_along_dim", "x, i, 1", "x, i", "x, i, dim=0")
rows("select_scatter", "x, v, 0, 1", "x, two, 1, -1")
rows("slice_scatter", "x, y[:1], 0, 1, 2", "x, y[:, :2], 1, 0, 2")
rows("as_strided", "x, (2, 2), (1, 1)", "x, (3,), (2,), 1", "x, (9, 9), (9, 1)")
rows("unfold", "x, 1, 2, 1", "v, 0, 2, 1", "x, 1, 4, 1")
rows("result_type", "x, 2.5", "x, 2", "x, y.to(lib.float64)", "x, s", "s, 2.5", "x, True", "x, 1j", "2, 2.5")
rows("promote_types", "x.dtype, lib.float16", "x.dtype, lib.int32", "x.dtype, lib.complex64", "x.dtype, lib.uint8")
rows("zeros ones empty", "2, 3", "(2, 3)", "(2, 3), dtype=x.dtype", "()", "-1", "2.5", "size=(2,)", "2, dtype=float", "[2, 0]")
rows("full", "(2, 3), 2", "(2,), 2.5", "(2,), True", "(2,), 1j", "(2,), 2, dtype=x.dtype", "(2,), 300, dtype=lib.uint8", "2, 3", "(2,), fill_value=1.5")
rows("zeros_like ones_like empty_like rand_like randn_like", "x", "x, dtype=lib.float64")
rows("full_like", "x, 2", "x, 2.5", "x, 1, dtype=float")
rows("arange", "5", "1, 5", "1, 5, 2", "0.5, 3", "5.0", "3, 0, -1", "5, dtype=x.dtype", "0, 1, 0.3", "1, 0", "0, 5, 0", "end=4", "start=1, end=3", "2, 5, step=2")
rows("linspace", "0, 1, 5", "0, 1, 1", "0, 10, steps=3", "1, 0, 4, dtype=lib.float64", "0, 1, 0", "0, 1, -1")
rows("eye", "3", "2, 3", "2, dtype=x.dtype", "0", "-1", "3, 2")
rows("tensor as_tensor asarray", "[1, 2]", "[1.5, 2]", "[True, False]", "[[1, 2], [3, 4.5]]", "2.5", "[1j, 2]", "[]", "[1, 2], dtype=x.dtype", "[[1], [2, 3]]", "'a'", "[1, 'a']",
     "None", "[1.5], dtype=int", "[2], dtype=float")
rows("rand randn", "2, 3", "(2,), dtype=lib.float64", "()", "-1")
rows("randint", "5, (2, 3)", "1, 5, (2,)", "3, 3, (2,)", "0, 5, size=(2,), dtype=lib.int32", "5")
rows("randperm", "5", "0", "5, dtype=lib.int32", "-1")
rows("bernoulli", "unit", "x")
rows("multinomial", "unit, 1", "unit, 2, True", "p.flatten(), 3, replacement=True", "x, 1", "unit, 0", "unit, 4")
rows("normal", "x, p", "0.0, 1.0, (2, 3)", "x", "0.0, p")
rows("is_nonzero is_tensor", "s", "x", "p[:1, :1]")
rows("is_tensor", "2")

# Special functions, places, scans, shapes.
rows("lgamma digamma erfinv sgn sinc i0 frac deg2rad rad2deg angle isneginf isposinf isreal positive logit conj_physical frexp signbit resolve_conj resolve_neg is_conj is_neg is_signed", "x", "p")
rows("logit", "x, 0.25", "p, eps=0.1")
rows("polygamma", "1, p", "2, p + 1", "0, p", "-1, x")
rows("mvlgamma", "p + 3, 2", "p + 3, p=1", "x, 0")
rows("fmax fmin xlogy logaddexp2 heaviside igamma igammac", "p, y.abs() if y.dtype != lib.bool else y", "p, v.abs() if v.dtype != lib.bool else v")
rows("xlogy", "x, 2.5", "2.5, p")
rows("gcd lcm", "x, y", "x, v")
rows("ldexp", "x, i", "x, j[0]")
rows("float_power", "p, 2", "p, y", "2, x", "p, 0.5")
rows("rsub", "x, y", "x, 2", "x, y, alpha=2", "x, 2.5")
rows("round", "x, decimals=1", "x * 10, decimals=-1")
rows("scatter_reduce", "x, 1, i, y, 'sum'", "x, 0, i, y, reduce='amax'", "x, 1, i, y, 'amin', include_self=False", "x, 1, i, y, 'prod'", "x, 1, i, y, 'x'", "x, 1, i + 7, y, 'sum'")
rows("scatter", "x, 1, i, y, reduce='add'", "x, 0, i, 2, reduce='multiply'", "x, 1, i, y, reduce='x'", "x, 1, i, value=2")
rows("index_reduce", "x, 0, j, y, 'prod'", "x, 0, j, y, 'amax'", "x, 1, n, y, 'amin', include_self=False", "x, 0, j, y, 'sum'")
rows("index_copy", "x, 0, j, y", "x, 1, n, y", "x, 0, j, x[:1]")
rows("index_fill", "x, 1, j, 2", "x, 0, j, 0.5", "x, 1, lib.tensor([7]), 2")
rows("index_put", "x, (j, j), v[:2]", "x, (j,), y, True", "x, (mask,), s", "x, (lib.tensor([7]),), y")
rows("take", "x, j", "x, i", "x, lib.tensor([-1])", "x, lib.tensor([9])")
rows("put", "x, j, v[:2]", "x, j, v[:2], True", "x, j, v")
rows("masked_scatter", "x, mask, y", "x, mask, v.repeat(3)")
rows("kthvalue", "v, 2", "x, 1, 0", "x, 1, 1, True", "x, 9", "x, 0")
rows("mode", "x.sort(-1)[0]", "v")
rows("argwhere", "x", "mask")
rows("diagonal_scatter", "sq, v", "x, two", "sq, two, 1")
rows("as_strided_scatter", "x, two, (2,), (1,)", "x, two, (2,), (2,), 1")
rows("unique_consecutive", "x", "x, return_inverse=True", "x, True, True", "x, dim=0")
rows("unique", "x, dim=0", "x, dim=1, return_counts=True")
rows("unravel_index", "j, (2, 3)", "i, (6,)")
rows("msort", "x", "v")
rows("cummax cummin", "x, 0", "x, dim=1", "x, 5")
rows("logcumsumexp", "x, 0", "x, dim=-1", "x, 5")
rows("nanmedian", "x", "x, 0", "x, 1, True")
rows("nanquantile quantile", "x, 0.5", "x, 0.3, dim=1, interpolation='lower'", "x, 0.3, interpolation='nearest'", "x, 0.5, interpolation='x'")
rows("histc", "x", "x, 4", "x, bins=3, min=-1, max=2", "x, 0")
rows("histogram", "x, 4", "x, 3, range=(-1.0, 2.0)", "x, v.sort()[0]", "x, 4, density=True")
rows("dist", "x, y", "x, y, 1", "x, v, p=3")
rows("renorm", "x, 2, 0, 1.0", "x, 1, 1, maxnorm=2.0", "v, 2, 0, 1.0", "x, -1, 0, 1.0")
rows("trapezoid trapz cumulative_trapezoid", "x", "x, v.sort()[0]", "x, dx=2", "x, dim=0")
rows("gradient", "x", "x, dim=1", "x, spacing=2.0", "m, dim=1, edge_order=2")
rows("block_diag", "x, y", "x, v", "x, s")
rows("constant_pad_nd", "x, (1, 2), 1", "x, (0, -1)")
rows("cartesian_prod", "v, two", "v")
rows("combinations", "v", "v, 1", "v, with_replacement=True", "x")
rows("diagflat", "v", "x", "v, 1")
rows("rot90", "x", "x, 2", "x, -1, (1, 0)", "x, 1, (0, 0)", "v")
rows("atleast_3d", "x", "s", "v", "s, x")
rows("dstack row_stack", "(x, y)", "(v, v)", "(s, s)")
rows("hsplit", "m, 2", "m, (1, 3)", "x, 2", "v, 3")
rows("vsplit", "x, 2", "x, (1,)", "v, 2")
rows("dsplit", "b3, 3", "b3, (1,)", "x, 2")
rows("adjoint", "x", "b3", "v")
rows("split_with_sizes unsafe_split_with_sizes", "x, (1, 2), 1", "x, (1, 1)", "x, (1,)")
rows("unsafe_split", "x, 1", "x, 2, 1")
rows("unsafe_chunk", "x, 2", "x, 2, 1")
rows("narrow_copy", "x, 1, 1, 2", "x, 0, 0, 1")
rows("sum_to_size", "x, 1, 3", "x, (3,)", "x, (2, 2)")
rows("is_same_size", "x, y", "x, v")
rows("get_device ndimension cfloat cdouble", "x")
rows("fill", "x, 2", "x, 2.5")
rows("alias_copy detach_copy t_copy squeeze_copy unbind_copy", "x")
rows("as_strided_copy", "x, (2,), (1,)")
rows("diagonal_copy", "x", "x, 1")
rows("expand_copy", "x, (2, 2, 3)")
rows("permute_copy", "x, (1, 0)")
rows("select_copy", "x, 0, 1")
rows("slice_copy", "x, 1, 0, 2")
rows("split_copy", "x, 1", "x, 2, 1")
rows("split_with_sizes_copy", "x, (1, 2), 1")
rows("transpose_copy", "x, 0, 1")
rows("unfold_copy", "x, 1, 2, 1")
rows("unsqueeze_copy", "x, 0")
rows("view_copy", "x, (6,)")
rows("swapaxes_ swapdims_", "x, 0, 1")
rows("as_strided_", "x, (2,), (1,)")
rows("resize_", "x, 2, 2", "x, (3,)")
rows("resize_as_", "x, v")
rows("abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ ceil_ cos_ cosh_ deg2rad_ erf_ erfc_ exp2_ exp_ expm1_ fix_ floor_ frac_ i0_ log10_ "
     "log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ conj_physical_", "x", "p")
rows("clamp_ clip_", "x, 0, 1", "x, min=0.5", "x, y")
rows("clamp_min_ clamp_max_", "x, 0.5", "x, y")
rows("gcd_ lcm_ xlogy_", "x, y", "p, y.abs() if y.dtype != lib.bool else y")
rows("index_put_", "x, (j,), y, True", "x, (mask,), s")
rows("ldexp_", "x, j[0]")

# Matrices.
rows("det slogdet inverse matrix_exp", "sq", "bb", "x")
rows("logdet", "sq")
rows("pinverse", "sq", "bb", "x", "x, 0.1", "x, rcond=0.5")
rows("cholesky", "lib.eye(3).to(x.dtype)", "lib.eye(2).to(x.dtype) * 4, True", "m", "sq - 9 * lib.eye(3).to(x.dtype)")
rows("cholesky_inverse", "sq", "lib.eye(3).to(x.dtype) * 2", "lib.eye(3).to(x.dtype) * 2, upper=True")
rows("cholesky_solve", "m, lib.eye(3).to(x.dtype) * 2", "m, sq + 9 * lib.eye(3).to(x.dtype), True")
rows("matrix_power", "sq, 2", "sq, 3", "sq, 0", "bb, 5", "x, 2", "sq, n=1")
rows("chain_matmul", "x, sq, m", "x, m")
rows("kron", "x, v", "x, m", "s, x", "x, y.to(lib.float64)")
rows("ger", "v, two", "x, v")
rows("vdot", "p.flatten(), p.flatten()", "x, v")
rows("addbmm", "bb[0], b3, c3", "bb[0], b3, c3, beta=2, alpha=3", "two, b3, c3", "x, b3, c3")
rows("addr", "x, two, v", "x, two, v, beta=2, alpha=3", "v, two, v", "x, v, v")
rows("cov corrcoef", "x.double()", "v.double()", "b3")
rows("cov", "x.double(), correction=0", "x.double(), fweights=lib.tensor([1, 2, 3])", "x.double(), aweights=p[0].double()")
rows("cdist", "x, sq", "x, sq, 1.0", "x, sq, p=math.inf", "x, m")
rows("qr", "sq", "x", "x, some=False", "v")
rows("svd", "x, compute_uv=False", "v")
rows("geqrf", "sq", "x", "v")
rows("orgqr", "sq, v", "x, v")
rows("ormqr", "sq, v, m", "sq, v, m, True, True", "sq, v, x, left=False", "sq, v, x")
rows("lu", "sq", "bb", "x")
rows("lu_unpack", "sq, lib.tensor([2, 3, 3], dtype=lib.int32)", "sq, lib.tensor([2, 3, 3], dtype=lib.int32), unpack_pivots=False")
rows("lu_solve", "m, sq, lib.tensor([2, 3, 3], dtype=lib.int32)")
rows("triangular_solve", "m, sq", "m, sq, False", "m, sq, upper=True, transpose=True", "m, sq, unitriangular=True", "x, sq")
rows("vander", "v", "v, 2", "v, N=4, increasing=True", "x")
rows("pca_lowrank svd_lowrank", "v")

# Methods alone.
rows("bfloat16 bool byte char double float half int long short cpu contiguous dim element_size is_contiguous item nelement numpy requires_grad_ size stride "
     "storage_offset tolist type_as", "x")
rows("type_as", "x, y.to(lib.float64)")
rows("size stride", "x, 0", "x, -1", "x, 5")
rows("to", "x, lib.float64", "x, lib.int32", "x, y.to(lib.float16)", "x, 'cpu'", "x, dtype=lib.float64", "x, lib.float64, copy=True", "x, 'cpu', lib.int64", "x, lib.bool")
rows("expand_as view_as reshape_as", "v, x", "x, y", "x, v")
rows("new_zeros new_ones new_empty", "x, 2, 3", "x, (2,)", "x, (2,), dtype=lib.float64")
rows("new_full", "x, (2,), 3", "x, (2,), 2.5")
rows("new_tensor", "x, [1, 2]", "x, [1.5]")
rows("fill_", "x, 2", "x, 2.5", "x, True", "x, s")
rows("fill_diagonal_", "x, 2", "sq, 1.5")
rows("zero_ t_ detach_ squeeze_ uniform_ normal_", "x")
rows("copy_", "x, y", "x, v", "x, s", "x, y.to(lib.float64)", "x, m")
rows("unsqueeze_", "x, 0", "x, 7")
rows("transpose_", "x, 0, 1")
rows("random_", "x, 5", "x, 1, 5")
rows("bernoulli_", "x, 0.5", "x, unit")

# Functions of layers.
rows("F.relu F.relu6 F.elu F.selu F.celu F.gelu F.silu F.mish F.softplus F.hardtanh F.hardsigmoid F.hardswish F.logsigmoid F.softsign F.tanhshrink F.softshrink "
     "F.hardshrink F.leaky_relu F.sigmoid F.tanh", "x")
rows("F.relu F.relu6 F.elu F.selu F.celu F.silu F.mish F.hardtanh F.hardsigmoid F.hardswish F.leaky_relu", "x * 1, inplace=True")
rows("F.elu F.celu", "x, 0.5", "x, alpha=2.0")
rows("F.leaky_relu", "x, 0.2", "x, negative_slope=0.5")
rows("F.softshrink F.hardshrink", "x, 1.0", "x, lambd=0.25")
rows("F.softplus", "x, 2", "x, beta=0.5, threshold=1")
rows("F.hardtanh", "x, -0.5, 2.0")
rows("F.gelu", "x, approximate='tanh'", "x, approximate='x'")
rows("F.threshold", "x, 0.1, 20.0", "x, 0, 5", "x * 1, 0.1, 20.0, True")
rows("F.prelu", "x, v", "x, v[:1]", "x, two")
rows("F.glu", "m", "m, 1", "x, 0", "x, 1")
rows("F.softmax F.log_softmax F.softmin", "x, 0", "x, dim=1", "x, dim=-1, dtype=lib.float64")
rows("F.linear", "x, sq", "x, sq, v", "b3, sq", "v, sq", "x, m")
rows("F.conv1d", "row, ker1", "row, ker1, two", "row, ker1, None, 2, 1", "row, ker1, padding='same'", "row[0], ker1", "row, ker1, dilation=2", "row, ker1[:, :1], groups=2")
rows("F.conv2d", "pic, ker", "pic, ker, two, 1, 1", "pic, ker, stride=2, padding=1", "pic, ker, padding='same'", "pic[0], ker", "pic, ker[:, :1], groups=2", "pic, ker[:, :1]")
rows("F.conv_transpose2d", "pic, ker", "pic, ker, two, 2, 1", "pic, ker, stride=2, output_padding=1", "pic, ker[:, :1], groups=2",
     "pic, ker, None, (2, 1), 1, (1, 0)", "pic, ker, dilation=2, output_padding=1", "pic, ker, output_padding=1", "pic[0], ker")
rows("F.max_pool2d F.avg_pool2d", "pic, 2", "pic, 3, 1, 1", "pic, (2, 1)", "pic, 3, 2, ceil_mode=True", "pic[0], 2", "pic, kernel_size=2, stride=1", "pic, 9")
rows("F.max_pool1d F.avg_pool1d", "row, 2", "row, 3, 1, 1", "row, 4, ceil_mode=True")
rows("F.adaptive_avg_pool2d F.adaptive_max_pool2d", "pic, 1", "pic, (2, 4)", "pic, (None, 2)", "pic, (3, 5)")
rows("F.adaptive_max_pool2d", "pic, 2, True", "pic, 3, return_indices=True")
rows("F.adaptive_avg_pool1d", "row, 3", "row, 1")
rows("F.interpolate", "pic, 3", "pic, scale_factor=1.5", "pic, (2, 3)", "row, scale_factor=0.7", "pic, scale_factor=(1.3, 2)", "pic, scale_factor=1.7, recompute_scale_factor=True",
     "pic, 3, mode='nearest-exact'", "pic", "pic, 3, 2.0", "pic, 3, mode='bilinear'", "pic, scale_factor=1.5, mode='bilinear'", "row, 3, mode='linear', align_corners=True",
     "pic, (5, 7), mode='bilinear', align_corners=True", "pic, scale_factor=0.7, mode='bilinear', recompute_scale_factor=True", "row, 3, mode='bilinear'", "pic, 3, align_corners=True")
rows("F.pixel_shuffle", "lib.cat([pic, pic], 1), 2", "pic, 3")
rows("F.pad", "x, (1, 2)", "x, (1, 0, 2, 1)", "x, (1, 1), value=3", "x, (-1, 1)", "x, [1, 1], 'constant', 2.5")
rows("F.layer_norm", "x, (3,)", "x, (3,), v, v", "x, (2, 3)", "x, (2,)", "x, [3], eps=0.1")
rows("F.batch_norm", "x, v, p[0].abs() + 1", "x, None, None, training=True", "x, v, v.abs() + 1, v, v, True, 0.2", "pic, None, None, two, two, True")
rows("F.group_norm", "pic, 1", "pic, 2, two, two", "pic, 2, eps=0.1", "pic, 3")
rows("F.instance_norm", "pic", "pic, None, None, two, two")
rows("F.rms_norm", "x, (3,)", "x, (3,), v", "x, (3,), eps=0.1")
rows("F.normalize", "x", "x, 1.0, 0", "x, p=2, dim=-1, eps=1.0")
rows("F.embedding", "i, m", "i, m, 1", "lib.tensor([9]), m")
rows("F.embedding_bag", "i, m", "i, m, mode='sum'", "i.flatten(), m, lib.tensor([0, 2])")
rows("F.one_hot", "i", "i, 5", "x", "lib.tensor([3]), 2")
rows("F.dropout F.dropout1d F.dropout2d", "b3, 0.5, False", "b3, 0.0", "b3, 2.0")
rows("F.mse_loss F.l1_loss F.smooth_l1_loss F.huber_loss", "x, y", "x, y, reduction='sum'", "x, y, reduction='none'", "x, y, reduction='x'", "x, v")
rows("F.smooth_l1_loss", "x, y, beta=0.5", "x, y, beta=0.0")
rows("F.huber_loss", "x, y, delta=0.5")
rows("F.cross_entropy", "x, j", "x, j, reduction='none'", "x, j, v.abs()", "x, j, ignore_index=1", "x, j, label_smoothing=0.1", "x, target", "v, j[0]", "x, lib.tensor([5, 0])")
rows("F.nll_loss", "x, j", "x, j, reduction='sum'", "x, j, v.abs()", "x, j, ignore_index=0", "pic, lib.zeros((1, 4, 4), dtype=lib.int64)")
rows("F.binary_cross_entropy", "unit, target", "unit, target, reduction='sum'", "unit, target, v.abs()", "x, target")
rows("F.binary_cross_entropy_with_logits", "x, target", "x, target, reduction='none'", "x, target, pos_weight=v.abs()", "x, target, v.abs()")
rows("F.kl_div", "x, unit", "x, unit, reduction='batchmean'", "x, y, log_target=True, reduction='sum'")
rows("F.gaussian_nll_loss", "x, y, p + 1", "x, y, p + 1, full=True")
rows("F.poisson_nll_loss", "x, p", "p, p, log_input=False", "x, p, reduction='sum'", "x, p, full=True")
rows("F.cosine_similarity", "x, y", "x, y, 0", "x, v, dim=-1", "x, y[:1]", "x, y, eps=10.0")
rows("F.pairwise_distance", "x, y", "x, y, 1.0", "x, y, keepdim=True")
rows("F.cosine_embedding_loss", "x, y, lib.tensor([1, -1])", "x, y, lib.tensor([1, -1]), 0.5")
rows("F.margin_ranking_loss", "v, v.flip(0), v.sign()", "v, v.flip(0), v.sign(), 0.5")
rows("F.triplet_margin_loss", "x, y, z", "x, y, z, margin=2.0, p=1")
rows("F.scaled_dot_product_attention", "b3, b3, b3", "b3, b3, b3, is_causal=True", "b3, b3, b3, lib.ones(2, 2, dtype=lib.bool).tril()", "b3, b3, b3, scale=0.5")

# Windows, edges, other sizes, and more losses.
rows("F.conv3d", "pic[:, :, None], ker[:, :, None]", "pic[:, :, None], ker[:, :, None], two, 1, 1", "pic[:, :, None], ker[:, :, None], padding='same'", "pic, ker[:, :1, None], groups=2")
rows("F.conv1d", "row, ker1[..., :2], padding='same'")
rows("F.conv_transpose1d", "row, ker1", "row, ker1, two, 2, 1", "row, ker1, None, 3, 0, 2", "row[0], ker1")
rows("F.conv_transpose3d", "pic[:, :, None], ker[:, :, None]", "pic[:, :, None], ker[:, :, None], two, 2, 1, 1", "pic[:, :, None], ker[:, :, None], stride=(1, 2, 2), output_padding=(0, 1, 0)")
rows("F.max_pool1d_with_indices", "row, 2", "row, 3, 1, 1", "row[0], 2")
rows("F.max_pool2d_with_indices", "pic, 2", "pic[0], 3, 1, 1")
rows("F.max_pool3d F.max_pool3d_with_indices", "pic[:, :, None], (1, 2, 2)", "pic, 2", "pic[:, :, None], 1, 2", "pic, 2, 1, 1, ceil_mode=True", "pic, 9")
rows("F.avg_pool2d", "pic, 2, divisor_override=3", "pic, 3, 2, 1, True, False")
rows("F.avg_pool3d", "pic, (2, 2, 2)", "pic, 2, 1, 1", "pic, 2, divisor_override=3")
rows("F.lp_pool1d", "row.abs(), 2, 2", "row.abs(), 3.0, 2, 1")
rows("F.lp_pool2d F.lp_pool3d", "pic.abs(), 2, 2", "pic.abs(), 3.0, 2, 1")
rows("F.adaptive_avg_pool3d F.adaptive_max_pool3d F.adaptive_max_pool3d_with_indices", "pic, 1", "pic, (2, 3, None)")
rows("F.adaptive_max_pool1d F.adaptive_max_pool1d_with_indices", "row, 4", "row, 3")
rows("F.adaptive_max_pool2d_with_indices", "pic, 3")
rows("F.max_unpool1d", "row[..., :2], lib.tensor([[[0, 2], [1, 3]]]), 2", "row[..., :2], lib.tensor([[[0, 9], [1, 3]]]), 2", "row[..., :2], lib.tensor([[[0, 2], [1, 3]]]), 2, output_size=(5,)")
rows("F.max_unpool2d", "pic[..., :1, :1], lib.tensor([[[[3]], [[0]]]]), 2")
rows("F.max_unpool3d", "pic[:, :, None, :1, :1], lib.tensor([[[[[3]]], [[[0]]]]]), 2")
rows("F.fractional_max_pool2d F.fractional_max_pool2d_with_indices", "pic, 2, 3, _random_samples=lib.ones(1, 2, 2, dtype=pic.dtype) / 2")
rows("F.fractional_max_pool3d F.fractional_max_pool3d_with_indices", "lib.stack([pic, pic, pic, pic], 2), 2, 2, _random_samples=lib.ones(1, 2, 3, dtype=pic.dtype) / 2")
rows("F.pad", "row, (1, 2), 'reflect'", "pic, (1, 2, 0, 1), 'replicate'", "pic, (1, 2, 3, 1), mode='circular'", "row, (6, 0), 'reflect'", "row, (7, 0), 'circular'", "row, (1, -2), 'circular'", "pic, (1, 0), 'reflect'")
rows("F.interpolate", "pic, 3, mode='bicubic'", "pic, scale_factor=1.5, mode='bicubic', align_corners=True", "pic, 3, mode='area'", "pic, (3, 2), mode='bilinear', antialias=True", "pic, 2, mode='bicubic', antialias=True",
     "pic, 3, mode='x'")
rows("F.upsample F.upsample_nearest", "pic, 3", "pic, scale_factor=2")
rows("F.upsample_bilinear", "pic, 3", "pic, scale_factor=2")
rows("F.grid_sample", "pic, pic[:, 0, :, :2].reshape(1, 2, 2, 2) / 4, align_corners=False", "pic, pic[:, 0, :, :2].reshape(1, 2, 2, 2), 'nearest', 'border', True", "pic, pic[:, 0, :, :2].reshape(1, 2, 2, 2), 'bicubic', 'reflection', False",
     "pic, pic[:, 0, :, :2].reshape(1, 2, 2, 2), 'x'")
rows("F.affine_grid", "m[:2, :3].reshape(1, 2, 3), (1, 1, 2, 3), True", "m[:2, :3].reshape(1, 2, 3), (1, 1, 2, 3), align_corners=False", "m[:2, :3].reshape(1, 2, 3), (2, 1, 2, 3), False")
rows("F.pixel_unshuffle", "pic, 2", "pic, 3")
rows("F.channel_shuffle", "lib.cat([pic, pic], 1), 2", "pic, 3")
rows("F.unfold", "pic, 2", "pic, (2, 3), 1, 1, 2", "pic[0], 2", "pic, 9")
rows("F.fold", "lib.cat([pic, pic], 1).reshape(1, 4, 8)[..., :4], 3, 2", "lib.cat([pic, pic], 1).reshape(1, 4, 8), 3, 2")
rows("F.bilinear", "v.reshape(1, 3), two.reshape(1, 2), b3.transpose(1, 2)", "v.reshape(1, 3), two.reshape(1, 2), b3.transpose(1, 2), two")
rows("F.local_response_norm", "pic, 2", "row, 3, 0.5, 0.5, 2.0")
rows("F.pdist", "x", "x, 1.0", "m.t(), 3.0", "v")
rows("F.hinge_embedding_loss F.soft_margin_loss", "x, x.sign()", "x, x.sign(), reduction='sum'")
rows("F.multi_margin_loss", "x, j", "x, j, 2, 0.5, reduction='none'", "x, j, weight=v.abs()", "v, j[0]")
rows("F.multilabel_margin_loss", "x, lib.tensor([[2, -1, 0], [0, 1, -1]])", "v, lib.tensor([2, -1, 0])", "x, j")
rows("F.multilabel_soft_margin_loss", "x, target", "x, target, v.abs(), reduction='none'")
rows("F.ctc_loss", "c3.log_softmax(2), lib.tensor([[1], [1], [1]]), lib.tensor([2, 1, 2]), lib.tensor([1, 1, 0])", "c3.log_softmax(2), lib.tensor([1, 1]), (2, 1, 2), (1, 1, 0), reduction='none'",
     "c3.log_softmax(2), lib.tensor([[1], [1], [1]]), (2, 1, 3), (1, 1, 0)")
rows("F.triplet_margin_with_distance_loss", "x, y, z", "x, y, z, margin=2.0, swap=True", "x, y, z, distance_function=lambda a, b: (a - b).abs().sum(-1)")
rows("F.gumbel_softmax", "x", "x, 0.5, True")
rows("F.rrelu", "x", "x, 0.25, 0.5", "x, 0.25, 0.25, True", "x * 1, 0.25, 0.5, False, True")
rows("F.rrelu_ F.relu_ F.elu_ F.selu_ F.celu_ F.leaky_relu_ F.hardtanh_", "x * 1")
rows("F.threshold_", "x * 1, 0.1, 20.0")
rows("F.alpha_dropout F.feature_alpha_dropout", "b3, 0.5, False", "b3, 0.0", "b3, 2.0")
rows("F.dropout3d", "b3, 0.5, False", "b3, 0.0", "b3, 2.0")
rows("F.instance_norm", "row, two, two.abs(), None, None, False", "row, two * 1, two.abs(), two, two, True, 0.2")
rows("F.embedding", "i, m * 1, None, 1.0", "i, m, 1, scale_grad_by_freq=True")
rows("F.embedding_bag", "i, m, mode='max'", "i, m, padding_idx=1", "i.flatten(), m, lib.tensor([0, 2, 6]), include_last_offset=True", "i, m, mode='sum', per_sample_weights=x", "i, m * 1, max_norm=1.0")
rows("F.multi_head_attention_forward", "b3[..., :2], bb, bb, 2, 1, lib.cat([bb[0], bb[0], bb[1]]), None, None, None, False, 0.0, bb[0], two",
     "bb, bb, bb, 2, 2, lib.cat([bb[0], bb[0], bb[1]]), lib.cat([two, two, two]), bb[:1, :1], bb[:1, 1:], True, 0.0, bb[0], two, average_attn_weights=False")

# Transforms, windows, what is made from parts.
rows("complex polar", "x, y", "x, y.to(lib.float64)")
rows("view_as_real", "x")
rows("view_as_complex", "lib.stack([x, y], -1)", "x")
rows("logspace", "0, 3, 4", "1, 2, 5, base=2.0", "0, 1, 0", "0, 2, 3, dtype=lib.float64")
rows("scalar_tensor", "3", "2.5, dtype=lib.float64", "True")
rows("tril_indices triu_indices", "3, 4", "2, 3, -1", "0, 2", "3, 3, offset=1", "-1, 2")
rows("hann_window hamming_window blackman_window bartlett_window kaiser_window", "5", "6, False", "0", "1", "7, dtype=lib.float64", "4, dtype=lib.int64", "-1")
rows("hamming_window", "5, True, 0.6, 0.4")
rows("kaiser_window", "5, True, 3.0")
rows("stft", "m[0], 4, 2, return_complex=True", "lib.cat([x, x, x, x], 1), 4, 1, 3, v, return_complex=True", "x, 64, return_complex=True")
rows("istft", "lib.ones(3, 4, dtype=lib.complex64), 4")

# Functions of layers at the top, where those of F take more.
for name in _names("conv1d conv2d conv_transpose2d avg_pool1d adaptive_avg_pool1d group_norm layer_norm rms_norm celu selu prelu hardshrink pixel_shuffle"):
    rows(name, *(a for a in PATTERNS["F." + name] if "inplace" not in a))
rows("selu_ celu_", "x * 1")
rows("threshold_ rrelu_", "x * 1, 0.1, 20.0")
rows("addmv_", "v, m, four", "v, m, four, beta=2, alpha=3", "v, m.t(), v")
rows("threshold", "x, 0.1, 20.0", "x, 0, 5")
rows("rrelu", "x", "x, 0.1, 0.2", "x, 0.1, 0.2, False")
rows("max_pool2d", *PATTERNS["F.max_pool2d"])
rows("max_pool1d max_pool1d_with_indices", "row, 2", "row, 3, 1, 1", "row, 4, ceil_mode=True")
rows("max_pool3d", "pic, 2", "pic.unsqueeze(0), 2, 1")
rows("adaptive_max_pool1d", "row, 3", "row, 1")
rows("conv3d conv_transpose3d", "pic.unsqueeze(0), ker.unsqueeze(0)")
rows("conv_transpose1d", "row, ker1", "row, ker1, two, 2, 1")
rows("convolution", "pic, ker, None, (1, 1), (1, 0), (1, 1), False, (0, 0), 1", "pic, ker, two, (2, 2), (1, 0), (1, 1), True, (1, 1), 1")
rows("conv_tbc", "row.permute(2, 0, 1), ker1.permute(2, 1, 0), two", "row.permute(2, 0, 1), ker1.permute(2, 1, 0), two, 1", "x, ker1, two")
rows("affine_grid_generator", "x[None], (1, 2, 2, 3), False", "x[None], (1, 2, 2, 3), True")
rows("grid_sampler grid_sampler_2d", "pic, lib.stack([x, y], -1)[None] / 4, 0, 0, False", "pic, lib.stack([x, y], -1)[None] / 4, 1, 1, True", "pic, lib.stack([x, y], -1)[None] / 4, 0, 2, True")
rows("grid_sampler_3d", "pic.unsqueeze(0), lib.stack([x, y, x], -1)[None, None] / 4, 0, 0, False")
rows("native_channel_shuffle channel_shuffle", "lib.cat([pic, pic], 1), 2", "pic, 2")
rows("pixel_unshuffle", "pic, 2", "pic, 3")
rows("bilinear", "x, y, lib.stack([sq, sq + 1])", "x, y, lib.stack([sq, sq + 1]), two")
rows("pairwise_distance", "x, y", "x, y, 1.0", "x, y, 2.0, 1e-6, True")
rows("cosine_similarity", "x, y", "x, y, 0", "x, y, dim=-1, eps=1.0")
rows("pdist", "m", "m, 1.0")
rows("batch_norm", "x, None, None, v, p[0].abs() + 1, False, 0.1, 1e-5, False", "x, v, v, None, None, True, 0.1, 1e-5, False", "pic, two, two, None, None, True, 0.2, 0.1, True")
rows("instance_norm", "pic, None, None, None, None, True, 0.1, 1e-5, False", "pic, two, two, None, None, True, 0.1, 0.1, True")
rows("dropout dropout_ alpha_dropout alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout feature_alpha_dropout_", "b3 * 1, 0.5, False", "b3 * 1, 0.0, True", "b3 * 1, 2.0, True")
rows("native_dropout", "b3, 0.5, False", "b3, 0.0, True")
rows("embedding", "m, i", "m, i, 1", "m, lib.tensor([9])", "m, i, -1, True")
rows("embedding_renorm_", "m * 1, lib.tensor([0, 1]), 1.0, 2.0")
rows("binary_cross_entropy_with_logits", "x, target", "x, target, None, v, 0", "x, target, reduction=2", "x, target, reduction=5")
rows("cosine_embedding_loss", "x, y, lib.tensor([1, -1])", "x, y, lib.tensor([1, -1]), 0.5, 2")
rows("hinge_embedding_loss", "x, x.sign()", "x, x.sign(), 0.5, 0")
rows("kl_div", "x, unit", "x, unit, 0", "x, unit, reduction=2, log_target=True")
rows("margin_ranking_loss", "x, y, x.sign()", "x, y, x.sign(), 0.5, 2")
rows("poisson_nll_loss", "x, p, True, False, 1e-8, 1", "p, p, False, True, 1e-8, 0")
rows("triplet_margin_loss", "x, y, z", "x, y, z, 0.5, 1.0, 1e-6, True, 0")
rows("ctc_loss", "lib.log_softmax(lib.stack([m, m, m]).to(lib.float32), 2), lib.tensor([1, 2, 3]), (3, 3, 2), (1, 1, 1)", "lib.log_softmax(lib.stack([m, m, m]).to(lib.float32), 2), lib.tensor([1, 2, 3]), (3, 3, 3), (1, 1, 1), 0, 2, True")
rows("norm_except_dim", "x", "x, 2, 1", "b3, 2, -1", "b3, 1, 0")
rows("frobenius_norm", "x, 1", "x, [0, 1], True", "b3, (1, 2)")
rows("nuclear_norm", "x", "b3, (1, 2)", "b3, (0, 2), True")
rows("rnn_tanh_cell rnn_relu_cell", "x, y, sq, sq", "x, y, sq, sq, v, v")
rows("gru_cell", "x, y, lib.cat([sq, sq, sq]), lib.cat([sq, sq, sq])", "x, y, lib.cat([sq, sq, sq]), lib.cat([sq, sq, sq]), lib.cat([v, v, v]), lib.cat([v, v, v])")
rows("lstm_cell", "x, (y, z), lib.cat([sq, sq, sq, sq]), lib.cat([sq, sq, sq, sq])", "x, [y, z], lib.cat([sq, sq, sq, sq]), lib.cat([sq, sq, sq, sq]), lib.cat([v, v, v, v]), lib.cat([v, v, v, v])")
rows("rnn_tanh rnn_relu", "lib.stack([x, y]), z[None], [sq, sq], False, 1, 0.0, False, False, False", "lib.stack([x, y]), lib.stack([z] * 4), [sq, sq, v, v] * 2 + [lib.cat([sq, sq], 1), sq, v, v] * 2, True, 2, 0.0, False, True, True")
rows("gru", "lib.stack([x, y]), z[None], [lib.cat([sq, sq, sq]), lib.cat([sq, sq, sq])], False, 1, 0.0, False, False, True", "lib.stack([x, y]), z[None], [sq], False, 1, 0.0, False, False, True")
rows("lstm", "lib.stack([x, y]), (z[None], y[None]), [lib.cat([sq, sq, sq, sq])] * 2 + [lib.cat([v, v, v, v])] * 2, True, 1, 0.0, False, False, False")
rows("range", "1, 4", "0, 1, 0.25", "5, 1, -2, dtype=lib.int64", "0, 3, 0", "0, 3, -1")
rows("frombuffer", "b'abcdefgh', dtype=lib.int16", "b'abcdefgh', dtype=lib.int32, count=1, offset=4", "b'abc', dtype=lib.int16", "b'', dtype=lib.uint8", "b'abcd', dtype=lib.int16, count=3",
     "b'abcd', dtype=lib.uint8, offset=4")
rows("view_as_complex_copy", "lib.stack([x, y], -1)")
rows("view_as_real_copy", "x")
rows("can_cast", *(f"lib.{a}, lib.{b}" for a in ("bool", "int32", "float64", "complex64") for b in ("bool", "uint8", "float32", "complex64")))
rows("binomial", "p.abs().floor(), lib.ones(2, 3) / 2", "p.abs().floor(), lib.ones(3)")

rows("F.conv_tbc", *PATTERNS["conv_tbc"])
rows("F.native_channel_shuffle", *PATTERNS["channel_shuffle"])
rows("is_nonzero", "s", "x", "v[:1]")
rows("is_set_to", "x, x", "x, y")
rows("set_", "x, y", "x, m")
rows("to_dense", "x")
rows("apply_", "x, lambda a: a")
rows("map_", "x, y, lambda a, b: b", "x, s, lambda a, b: a")
rows("map2_", "x, y, z, lambda a, b, c: c")

# ---- what differs on purpose: (pattern of "name(arguments) variant: what differs", reason)
MORE = ("more is taken here: PyTorch has no kernel for the dtype, or asks for another one")
KNOWN = [
    (r"matrix_(exp|power)\(.*bfloat16: raises", "half types have no factorizations"),
    (r"cholesky_inverse\(.* complex64: gives", "PyTorch takes the diagonal of a factor to be real"),
    (r"\bkron\(.*PyTorch raises RuntimeError: view size", "PyTorch 1.13 takes contiguous tensors only"),
    (r"\.addbmm_\(.*raises ShapeError", "what is written does not become larger"),
    (r"\baddr\(.* bool: gives", "numbers beside bools are numbers"),
    (r"PyTorch raises NotImplementedError", MORE),
    (r"PyTorch raises RuntimeError: .*(not implemented for|(?i:not supported|only supports?|does not support|unsupported input|non-complex|same dtype"
     r"|scalar types|expected common dtype|floating point or complex|expected a tensor of floating|Expected floating point type|must be either float|can't be cast|expected dtype|could not infer|Found dtype))", MORE),
    (r"(scalar|empty|complex64): raises \w+, PyTorch IndexError", "two things are wrong with the call: another one is told first"),
    (r"raises InvalidError, PyTorch IndexError", "no elements to choose from: InvalidError, which is a ValueError"),
    (r"float16: .*complex64.*complex32", "there is no complex32"),
    (r"\b(reshape|permute|full)\(.*PyTorch raises TypeError", "a function takes sizes one by one as its method does"),
    (r"lp_pool\w*\(.* (int64|int32|int8|uint8|int scalar|bool): raises DTypeError", "pools are for floats"),
    (r"hinge_embedding_loss\(.* (int64|int32|int8|uint8|int scalar): gives", "a margin of 1.0 beside whole numbers makes floats"),
    (r"\b(any|all)\(.*\(\)\)", "any and all over no dimensions are over all of them, as for sum"),
    (r"wide: raises InvalidError: .*more than one element", "writing to memory that several elements share is an error, with fill_ and zero_ too"),
    (r"(conv|avg_pool|max_pool)\w*\(.* (int64|int32|int8|uint8|int scalar|bool): raises DTypeError", "convolutions and pools are for floats"),
    (r"(conv|avg_pool|max_pool|mm|bmm|matmul|inner|einsum|dot|mv|tensordot)\w*\(.* (complex64|bool): raises DTypeError", "no kernel for the dtype here"),
    (r"(nextafter|signbit|square|rand_like|randn_like|uniform_|normal_|bernoulli_|cumprod|prod)\(.*raises DTypeError: .*is not implemented for",
     "no kernel for the dtype here"),
    (r"conv_transpose3d\(.* b?float16: raises ShapeError", "a result without elements is refused, as PyTorch does for float32 and float64"),
    (r"affine_grid_generator\(.* (int64|int32|int8|uint8|int scalar|bool|complex64): raises DTypeError", "grids are for floats"),
    (r"(gru|lstm|rnn_tanh|rnn_relu)\(.* (int64|int32|int8|uint8|bool|complex64|int scalar): raises DTypeError", "recurrent layers are for floats"),
    (r"rnn_relu\(.* bfloat16: gives", "halves are computed in float32"),
    (r"binary_cross_entropy_with_logits\(x, target.* (scalar|int scalar): raises ShapeError", "as in F, a target has its input's size"),
    (r"binary_cross_entropy_with_logits\(x, target, reduction=5\)", "a reduction that there is not is refused"),
    (r"norm_except_dim\(.* empty: gives", "PyTorch cannot do it without elements"),
    (r"(complex|polar|view_as_complex_copy)\(.* float16: ", "there is no complex32"),
    (r"pinverse\((x)?\) wide: gives", "of a singular matrix, with rcond=1e-15: what rounding left of a singular value is inverted"),
    (r"stft\(.* empty: ", "a batch of no signals is transformed too"),
    (r"sub(tract)?_?\(.*True\)", "a bool of Python beside numbers is one of them"),
    (r"\baddcmul_?\(.*value=0.5.* int|\baddmm\(.*beta=0.5.* int", "a scale of whole numbers is a whole number"),
    (r"(flipud|roll|prelu|rms_norm|cosine_embedding_loss|embedding_bag|kl_div|median|bincount)\w*\(.* (scalar|int scalar|empty): ", "without dimensions, or elements"),
    (r"(softmax|log_softmax|softmin)\(.*raises DTypeError, PyTorch IndexError", "two things are wrong with the call: another one is told first"),
    (r"median\(.* wide: ", "one of several equal elements"),
    (r"(take_along_dim|isin)\(.*PyTorch raises RuntimeError: view size", "PyTorch cannot do it with these strides"),
    (r"norm\(.*dtype=lib.float64.* complex64", "a real dtype of complex numbers means its complex one"),
    (r"(hardtanh_?|margin_ranking_loss)\(.* uint8: ", "whole numbers below 0 are below 0 for uint8 too"),
    (r"bincount\(.* complex64", "complex weights are added up as such"),
    (r"bucketize\(2, .* bool", "a number among bools"),
    (r"random_\(.*5\) (bool|complex64)", MORE),
    (r"one_hot\(x\) (uint8|int32|int8)|where\(x, x, y\) uint8", "whole numbers of any dtype are classes, and no mask but bool"),
    (r"cross_entropy\(x, target\) float16", "rounded at another step"),
    (r"kl_div\(x, unit.* float64|binary_cross_entropy\w*\(.* float64", "operands of two dtypes promote"),
    (r"(logaddexp|silu)_?\(.* complex64: raises DTypeError|nextafter_\(", "no kernel for the dtype here"),
    (r"bernoulli_\(unit\) empty", "the probabilities do not broadcast to it"),
    (r"(index_select|unflatten|split|tensor_split|unfold|take_along_dim|gather|scatter)\w*\(.* empty: gives", "nothing is looked at where there are no elements"),
]

KNOWN += [
    (r"(cummax|cummin)\w*\(.* (scalar|int scalar|empty): raises OutOfRange", "PyTorch does not look at the dimension where there is one element, or none"),
    (r"adjoint\(x\) (scalar|int scalar)", "an adjoint is of matrices"),
    (r"as_strided_scatter\(.* turned", "as if it were contiguous, as tensors are here"),
    (r"(histc|histogram)\(.* uint8: gives", MORE),
    (r"(index_reduce|scatter|scatter_reduce)_?\(.* complex64: raises DTypeError", "no kernel for the dtype here"),
    (r"(kthvalue|mode)\(", "one of several equal elements"),
    (r"logcumsumexp\(.*5\) bool", "two things are wrong with the call: another one is told first"),
    (r"index_fill_?\(.* empty: raises OutOfRange", "an index out of range is one also where there are no elements"),
    (r"unique(_consecutive)?\(.* empty: ", "of nothing there is nothing"),
    (r"float_power_\(.* gives", "in place the result is rounded to the dtype"),
]
if torch.__version__ >= "2":
    KNOWN.append((r"as_strided_scatter\(.* gaps", "places are those of the contiguous copy that the result is; PyTorch 2 counts them in the memory around x's elements"))
    KNOWN.append((r"matrix_exp\(.* float16: gives .*PyTorch .*\bnan\b", "halves are computed in float32; PyTorch's squares overflow on the way"))
    KNOWN.append((r"interpolate\(.* uint8: gives", "lines and then columns are rounded to bytes; PyTorch 2 has whole numbers for weights, too, which makes one more or less"))
if torch.__version__ < "2":
    KNOWN.append((r"slice_copy\(", "PyTorch 1.13 takes the end for something else"))
    KNOWN.append((r"ldexp\(x, i\) b?float16: gives", "PyTorch 1.13 made float32 of halves"))
    KNOWN.append((r"mask\.where\(x, 2\) bool", "PyTorch 2 takes a number there"))
    KNOWN.append((r"(nanmean|slice_scatter|norm|masked_fill_?|any|all|squeeze|diag|argmin|argmax)\(.*", "PyTorch 2 does as is done here, 1.13 did not"))
    KNOWN.append((r"(div|divide|true_divide|log2|log10|reciprocal|rsqrt|pow)_?\(.* complex64: gives", "PyTorch 1.13 gives NaN for complex numbers over 0"))
    KNOWN.append((r"(dot|matmul)\(.* complex64|(conv_transpose2d|binary_cross_entropy_with_logits)\(.* bfloat16", "PyTorch 1.13 was wrong, or coarse"))

# Of these only dtype and shape are compared: their values are drawn, or never written.
DRAWN = set("rand randn randint randperm rand_like randn_like empty empty_like new_empty bernoulli bernoulli_ multinomial normal normal_ uniform_ random_ binomial gumbel_softmax resize_ resize_as_".split())


def plain(out):
    """What a call gave, to be compared: dtype, shape and numbers of tensors; all else as it is."""
    if isinstance(out, (td.Tensor, torch.Tensor)):
        t = out.detach()
        return ("tensor", str(t.dtype).split(".")[-1], tuple(t.shape), (t.float() if "bfloat" in str(t.dtype) else t).tolist())
    if isinstance(out, (td.dtype, torch.dtype)):
        return ("dtype", str(out).split(".")[-1])
    if isinstance(out, np.ndarray):
        return ("array", str(out.dtype), out.shape, out.tolist())
    if isinstance(out, (tuple, list)):
        return ("several", *(plain(o) for o in out))
    return out


def flat(x):
    return [v for each in x for v in flat(each)] if isinstance(x, list) else [x]


TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}


def same(a, b, drawn):
    if isinstance(a, tuple) and isinstance(b, tuple) and a[:1] == b[:1] == ("several",):
        return len(a) == len(b) and all(same(p, q, drawn) for p, q in zip(a[1:], b[1:]))
    if isinstance(a, tuple) and isinstance(b, tuple) and a[:1] == b[:1] == ("tensor",):
        if a[1:3] != b[1:3]:
            return False
        tolerance = TOLERANCE.get(a[1], 1e-9)
        with np.errstate(all="ignore"):
            return drawn or np.allclose(np.array(flat(a[3])), np.array(flat(b[3])), rtol=tolerance, atol=tolerance, equal_nan=True)
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-6 * (1 + abs(a)) or a == b or (a != a and b != b)
    return a == b


def finer(ours, text, variant):
    """Is that what PyTorch computes in float32, rounded? Where the processor has no AVX-512 it adds up in bfloat16 itself, and is off in the last digits."""
    if variant != "bfloat16" or ours[:2] != ("tensor", "bfloat16"):
        return False
    exact, _ = run(torch, text, "float32")
    return exact[:2] == ("tensor", "float32") and same(ours, ("tensor", "bfloat16", *exact[2:]), False)


def run(lib, text, variant):
    """("error", class) or what it gave, and what it did to x."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = operands(lib, variant, text)
        try:
            out = plain(eval(text, names))
            if lib is td:
                td.sync()  # what was written in place may have failed
        except Exception as e:  # noqa: BLE001
            return ("error", e), None
        return out, plain(names["x"])


KINDS = (TypeError, IndexError, NotImplementedError, AttributeError, ValueError, RuntimeError)


def difference(text, variant, drawn):
    theirs, x_theirs = run(torch, text, variant)
    if isinstance(theirs, tuple) and theirs[:1] == ("error",) and isinstance(theirs[1], (AttributeError, NameError, SyntaxError)):
        return None, True  # that is not in this PyTorch
    ours, x_ours = run(td, text, variant)
    bad_ours, bad_theirs = (isinstance(r, tuple) and r[:1] == ("error",) for r in (ours, theirs))
    if bad_ours and bad_theirs:
        kind = next((k for k in KINDS if isinstance(theirs[1], k)), Exception)
        loose = kind in (RuntimeError, NotImplementedError, ValueError) and isinstance(ours[1], (RuntimeError, ValueError, TypeError, IndexError))
        if isinstance(ours[1], kind) or loose or (kind is TypeError and isinstance(ours[1], td.Error)):
            return None, False
        return f"raises {type(ours[1]).__name__}, PyTorch {type(theirs[1]).__name__}: {str(theirs[1])[:80]}", False
    if bad_ours:
        return f"raises {type(ours[1]).__name__}: {str(ours[1])[:110]}; PyTorch gives {str(theirs)[:70]}", False
    if bad_theirs:
        return f"gives {str(ours)[:60]}; PyTorch raises {type(theirs[1]).__name__}: {str(theirs[1])[:200]}", False
    if not same(ours, theirs, drawn) and not finer(ours, text, variant):
        return f"gives {str(ours)[:110]}, PyTorch {str(theirs)[:110]}", False
    if not drawn and not same(x_ours, x_theirs, False):
        return f"leaves x as {str(x_ours)[:80]}, PyTorch {str(x_theirs)[:80]}", False
    return None, False


def _has(where, name):
    with contextlib.suppress(Exception):
        return callable(getattr(where, name)) and not inspect.isclass(getattr(where, name))
    return False


def _public(where):
    return [n for n in dir(where) if not n.startswith("_") and _has(where, n)]


def calls_of(name):
    """The texts of all calls of a name: as a function, as a method, in place."""
    place, _, bare = name.rpartition(".")
    if place == "F":
        return [f"{name}({a})" for a in PATTERNS.get(name, ())]
    if place == "lib":
        return [f"{name}({a})" for a in PATTERNS.get(bare, ())]
    given = PATTERNS.get(bare) or PATTERNS.get(bare.removesuffix("_"), ()) if bare.endswith("_") else PATTERNS.get(bare, ())
    out = []
    for a in given:
        first, _, rest = a.partition(", ")
        if re.fullmatch(r"[a-z]\w*", first) and not keyword_first(a):
            out.append(f"{first}.{bare}({rest})")
    return out


def keyword_first(a):
    return re.match(r"\w+=", a) is not None


def everything():
    names = [f"lib.{n}" for n in _public(td) if _has(torch, n)] + [f"F.{n}" for n in _public(td.nn.functional) if _has(torch.nn.functional, n)]
    return names + [f"x.{n}" for n in _public(td.Tensor) if _has(torch.Tensor, n)]


# What takes no such arguments: tested elsewhere.
ELSEWHERE = set("chalf backward register_hook register_post_accumulate_grad_hook is_inference retain_grad cuda data_ptr from_dlpack to_dlpack from_numpy get_default_dtype set_default_dtype is_grad_enabled manual_seed initial_seed set_printoptions save "
                "load type as_tensor_ share_memory_ is_shared pin_memory is_pinned apply_ map_ get_rng_state set_rng_state seed poisson randint_like istft exponential_ geometric_ cauchy_ log_normal_ new_empty_strided empty_strided polygamma polygamma_ "
                "histogramdd native_layer_norm native_group_norm native_batch_norm is_autocast_enabled typename cond while_loop is_storage storage untyped_storage to_sparse is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled embedding_bag segment_reduce "
                "are_deterministic_algorithms_enabled compile get_deterministic_debug_mode get_float32_matmul_precision get_num_interop_threads get_num_threads "
                "is_deterministic_algorithms_warn_only_enabled set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
                "set_num_interop_threads set_num_threads use_deterministic_algorithms is_inference_mode_enabled is_warn_always_enabled set_warn_always "
                "new empty_permuted get_autocast_dtype get_default_device set_default_device clear_autocast_cache get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cache_enabled is_autocast_cpu_enabled set_autocast_cache_enabled "
                "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sum".split())
ALL = everything()
# Methods that are functions too: their arguments are bound by the same code, so a few kinds of x are enough.
TWICE, FEW = {n for n in ALL if n[:2] == "x." and "lib." + n[2:].removesuffix("_") in ALL}, ("float32", "int64", "bool", "empty")
REACHED = [n for n in ALL if calls_of(n)]


def differences(name):
    out, skipped, count = [], 0, 0
    drawn = name.rpartition(".")[2] in DRAWN
    for text in calls_of(name):
        for variant in [v for v in FEW if v in VARIANTS] if name in TWICE else VARIANTS:
            if variant != "float32" and not re.search(r"\b(x|y|z|p|v|m|s|b3|bb|c3|sq|pic|row|ker|ker1|four|two)\b", text):
                continue
            what, absent = difference(text, variant, drawn)
            count += 1
            skipped += absent
            if what:
                out.append((text, variant, what))
    return out, skipped, count


def reason(text, variant, what):
    return next((why for pattern, why in KNOWN if re.search(pattern, f"{text} {variant}: {what}")), None)


@pytest.mark.parametrize("name", REACHED)
def test_as_pytorch(name):
    found, _, _ = differences(name)
    unknown = [f"{text} of {variant}: {what}" for text, variant, what in found if not reason(text, variant, what)]
    assert not unknown, f"{len(unknown)} differ:\n" + "\n".join(unknown[:20])


@pytest.mark.parametrize("mode, most", [("bilinear", 1.0), ("bicubic", 1.4)])
@pytest.mark.parametrize("size", [(3, 3), (6, 6), (9, 5)])
def test_bytes_of_another_size_are_rounded_twice(mode, most, size):
    """Half of one from lines, which the taps of columns weigh, and half from columns."""
    pic = td.tensor([64 + v * 31 % 128 for v in range(32)], dtype=td.uint8).reshape(1, 2, 4, 4)
    exact = td.nn.functional.interpolate(pic.to(td.float64), size, mode=mode)
    got = td.nn.functional.interpolate(pic, size, mode=mode)
    assert got.dtype == td.uint8 and (got.to(td.float64) - exact).abs().max().item() <= most + 1e-6


def test_nothing_is_forgotten():
    """Each name that both have is called, or said to be tested elsewhere."""
    assert [n for n in ALL if not calls_of(n) and n.rpartition(".")[2] not in ELSEWHERE] == []


def main():
    total = skips = 0
    by_reason, unknown = {}, []
    for name in REACHED:
        found, skipped, count = differences(name)
        total, skips = total + count, skips + skipped
        for text, variant, what in found:
            why = reason(text, variant, what)
            if why:
                by_reason.setdefault(why, []).append(f"{text} {variant}")
            else:
                unknown.append(f"{text} [{variant}] {what}")
    for why, which in by_reason.items():
        print(f"{len(which):5d}  {why}  ({which[0]}, ...)")
    print("\n".join(unknown))
    print(f"{len(REACHED)} of {len(ALL)} names reached, {total} calls, {skips} not in this PyTorch ({torch.__version__}), "
          f"{sum(map(len, by_reason.values()))} differ for a reason, {len(unknown)} without")


if __name__ == "__main__":
    main()
