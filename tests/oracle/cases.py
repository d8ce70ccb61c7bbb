"""What each op is called in torch, and how to make random calls of it.

An entry is a function of a Rand: it draws inputs (tensors of r.dtype by r.t, indices by r.idx, None for an absent one, numbers as they
are) and attributes in the order of the op's signature (those left out take their defaults), and gives the torch function of the inputs.
"""

import torch
import torch.nn.functional as F


class Rand:
    """Draws shapes and values; the same seed draws the same case."""

    def __init__(self, generator, dtype):
        self.g, self.dtype = generator, dtype

    def int(self, lo, hi):
        return int(torch.randint(lo, hi + 1, (1,), generator=self.g))

    def pick(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    def shape(self, lo=0, hi=4, most=6, least=1):
        """Now and then with a dimension of size 0."""
        sizes = [self.int(least, most) for _ in range(self.int(lo, hi))]
        if sizes and self.int(0, 9) == 0:
            sizes[self.int(0, len(sizes) - 1)] = 0
        return sizes

    def t(self, shape, lo=-2.0, hi=2.0):
        if self.dtype == torch.bool:
            return self.b(shape)
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            unsigned = self.dtype == torch.uint8
            return torch.randint(0 if unsigned or lo >= 0 else -9, 10, shape, generator=self.g).to(self.dtype) + (1 if lo > 0 else 0)
        x = torch.rand(shape, generator=self.g, dtype=torch.float64) * (hi - lo) + lo
        if self.dtype.is_complex:
            x = x + 1j * torch.rand(shape, generator=self.g, dtype=torch.float64)
        return x.to(self.dtype)

    def distinct(self, shape):
        """No ties, so that an index is unambiguous."""
        n = 1
        for s in shape:
            n *= s
        return ((torch.randperm(n, generator=self.g) - n // 2).reshape(shape) * 0.25).to(self.dtype)

    def b(self, shape):
        return torch.rand(shape, generator=self.g) < 0.5

    def idx(self, shape, below):
        return torch.randint(0, max(below, 1), shape, generator=self.g)

    def broadcast(self, n=2):
        """n shapes that broadcast together."""
        full = self.shape(0, 4, 5)
        shapes = []
        for _ in range(n):
            s = [1 if self.int(0, 3) == 0 else d for d in full]
            shapes.append(s[self.int(0, len(s)) if self.int(0, 2) == 0 else 0:])
        return shapes

    def dim(self, shape):
        n = max(len(shape), 1)
        return self.int(-n, n - 1)

    def dims(self, shape):
        """Some dimensions, or None."""
        n = len(shape)
        if n == 0 or self.int(0, 3) == 0:
            return None
        chosen = [d for d in range(n) if self.int(0, 1)] or [0]
        return [d - n if self.int(0, 2) == 0 else d for d in chosen]


OPS = {}
DTYPES = {}  # op -> dtypes besides float32 and float64

HALF = [torch.float16, torch.bfloat16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]


def op(name, also=()):
    def add(f):
        OPS[name] = f
        DTYPES[name] = list(also)
        return f
    return add


def unary(name, f, lo=-2.0, hi=2.0, also=HALF, attrs=None):
    def case(r):
        a = attrs(r) if attrs else []
        return [r.t(r.shape(), lo, hi)], a, lambda x: f(x, *a)
    op(name, also)(case)


def binary(name, f, lo=-2.0, hi=2.0, also=HALF):
    def case(r):
        a, b = r.broadcast()
        x, y = r.t(a, lo, hi), r.t(b, lo, hi)
        if r.int(0, 4) == 0:
            y = 3 if not r.dtype.is_floating_point else 1.5
        return [x, y], [], f
    op(name, also)(case)


# ---- pointwise

for _name in "neg square".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS + COMPLEX)
for _name in "sin cos tanh sigmoid exp".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS + COMPLEX)
for _name in "exp2 expm1 atan sinh cosh asinh erf erfc".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS)
for _name in "floor ceil round trunc".split():
    unary(_name, getattr(torch, _name), also=HALF)
unary("abs", torch.abs, also=HALF + [torch.int32, torch.int64] + COMPLEX)
unary("sign", torch.sign, also=HALF + INTS)
for _name in "log log2 log10 sqrt rsqrt reciprocal".split():
    unary(_name, getattr(torch, _name), 0.3, 3, also=HALF + COMPLEX)
unary("log1p", torch.log1p, -0.5, 3)
for _name in "asin acos atanh".split():
    unary(_name, getattr(torch, _name), -0.9, 0.9)
unary("tan", torch.tan, -1, 1)
unary("acosh", torch.acosh, 1.2, 3)
unary("conj", lambda x: torch.conj(x).resolve_conj(), also=HALF + COMPLEX)
unary("real", lambda x: torch.real(x) if x.is_complex() else x * 1, also=COMPLEX)
for _name in "isnan isinf isfinite logical_not".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS)
unary("bitwise_not", torch.bitwise_not, also=INTS + [torch.bool])
unary("relu", F.relu)
unary("silu", F.silu)
unary("mish", F.mish)
unary("leaky_relu", F.leaky_relu, attrs=lambda r: [0.1])
unary("elu", F.elu, attrs=lambda r: [1.3])
op("gelu", HALF)(lambda r: (lambda tanh: ([r.t(r.shape())], [tanh], lambda x: F.gelu(x, approximate="tanh" if tanh else "none")))(
    bool(r.int(0, 1))))
unary("softplus", F.softplus, attrs=lambda r: [1.5, 20.0 if r.dtype in HALF else 2.0])
unary("hardtanh", F.hardtanh, attrs=lambda r: [-0.75, 0.75])
unary("nan_to_num", lambda x, a: torch.nan_to_num(x, a), attrs=lambda r: [0.5])

binary("mul", torch.mul, also=HALF + INTS + COMPLEX)
binary("div", torch.div, 0.5, 2.5, also=HALF + INTS + COMPLEX)
binary("floor_divide", lambda x, y: torch.div(x, y, rounding_mode="floor"), 0.5, 2.5, also=INTS)
binary("trunc_divide", lambda x, y: torch.div(x, y, rounding_mode="trunc"), 0.5, 2.5, also=INTS)
binary("remainder", torch.remainder, 0.5, 2.5, also=INTS)
binary("fmod", torch.fmod, 0.5, 2.5, also=INTS)
binary("pow", torch.pow, 0.3, 2.0)
for _name in "eq ne lt le gt ge".split():
    binary(_name, getattr(torch, _name), also=HALF + INTS)


def tensors(name, f, n, lo=-2.0, hi=2.0, also=HALF, attrs=None):
    """n broadcasting tensors, no numbers."""
    def case(r):
        a = attrs(r) if attrs else []
        return [r.t(s, lo, hi) for s in r.broadcast(n)], a, lambda *x: f(*x, *a)
    op(name, also)(case)


tensors("atan2", torch.atan2, 2)
tensors("maximum", torch.maximum, 2, also=HALF + INTS)
tensors("minimum", torch.minimum, 2, also=HALF + INTS)
for _name in "logical_and logical_or logical_xor".split():
    tensors(_name, getattr(torch, _name), 2, also=INTS + [torch.bool])
for _name in "bitwise_and bitwise_or bitwise_xor".split():
    tensors(_name, getattr(torch, _name), 2, also=INTS + [torch.bool])
for _name in "bitwise_left_shift bitwise_right_shift".split():
    op(_name, INTS)(lambda r, f=getattr(torch, _name): ([r.t([4], 0), torch.tensor(2, dtype=r.dtype)], [], f))
tensors("add", lambda x, y, a: torch.add(x, y, alpha=a), 2, also=HALF + INTS + COMPLEX, attrs=lambda r: [r.pick(1, 2, -3)])
tensors("sub", lambda x, y, a: torch.sub(x, y, alpha=a), 2, also=HALF + INTS + COMPLEX, attrs=lambda r: [r.pick(1, 2)])
tensors("lerp", torch.lerp, 3, also=[])
tensors("addcmul", lambda x, y, z, v: torch.addcmul(x, y, z, value=v), 3, attrs=lambda r: [1.5])
tensors("addcdiv", lambda x, y, z, v: torch.addcdiv(x, y, z, value=v), 3, 0.5, 2, attrs=lambda r: [1.5])


@op("where", HALF + INTS)
def _(r):
    c, x, y = r.broadcast(3)
    return [r.b(c), r.t(x), r.t(y)], [], torch.where


@op("clamp", HALF + INTS[1:])  # torch makes 255 of a bound of -1 for uint8
def _(r):
    lo, hi = r.pick((-1, 1), (None, 1), (-1, None))
    return [r.t(r.shape())], [lo, hi], lambda x: torch.clamp(x, lo, hi)


@op("masked_fill", HALF)
def _(r):
    s = r.shape(1)
    return [r.t(s), r.b(s), r.t([])], [], torch.masked_fill


def gelu_backward(g, x):
    """By hand: torch 1.13's own reads what is not there when strides are not plain."""
    return g * (0.5 * (1 + torch.erf(x * 0.5 ** 0.5)) + x * torch.exp(-0.5 * x * x) * (0.5 / torch.pi) ** 0.5)


tensors("sigmoid_backward", lambda g, y: g * (1 - y) * y, 2, also=[])
tensors("tanh_backward", lambda g, y: g * (1 - y * y), 2, also=[])
tensors("threshold_backward", lambda g, x: torch.where(x > 0, g, torch.zeros((), dtype=g.dtype)), 2, also=[])
op("gelu_backward")(lambda r: (lambda s: ([r.t(s), r.t(s)], [False], gelu_backward))(r.shape()))

# ---- copies, views

op("copy", HALF + INTS)(lambda r: ([r.t(r.shape())], [], lambda x: x.clone()))
op("detach")(lambda r: ([r.t(r.shape())], [], lambda x: x.detach()))


@op("view", HALF + INTS)
def _(r):
    s = r.shape(1, 3)
    return [r.t(s).contiguous()], [[-1, s[-1]]], lambda x: x.reshape(-1, s[-1])


@op("as_strided")
def _(r):
    s, st = r.pick(([2, 3], [3, 1]), ([3, 3], [1, 1]), ([2, 2], [0, 1]))
    o = r.int(0, 2)
    return [r.t([9])], [s, st, o], lambda x: torch.as_strided(x, s, st, o)


@op("expand", HALF + INTS)
def _(r):
    s = r.shape(0, 3)
    base = [1 if r.int(0, 1) else d for d in s]
    return [r.t(base)], [[2] + s], lambda x: x.expand([2] + s)


@op("permute", HALF)
def _(r):
    s = r.shape(1, 4)
    p = torch.randperm(len(s), generator=r.g).tolist()
    return [r.t(s)], [p], lambda x: x.permute(p)


@op("transpose")
def _(r):
    s = r.shape(2, 4)
    a, b = r.dim(s), r.dim(s)
    return [r.t(s)], [a, b], lambda x: x.transpose(a, b)


@op("squeeze")
def _(r):
    s = r.shape(1, 4, 2)
    return [r.t(s)], [], lambda x: x.squeeze()


@op("unsqueeze")
def _(r):
    s = r.shape(0, 3)
    d = r.int(-len(s) - 1, len(s))
    return [r.t(s)], [d], lambda x: x.unsqueeze(d)


@op("select")
def _(r):
    s = r.shape(1, 4)
    d = r.dim(s)
    k = r.int(-s[d], s[d] - 1)
    return [r.t(s)], [d, k], lambda x: x.select(d, k)


@op("slice", INTS)
def _(r):
    s = r.shape(1, 3, 8)
    d, a, b, st = r.dim(s), r.int(-3, 3), r.int(-2, 9), r.int(1, 3)

    def run(x):
        n = x.shape[d]
        lo = min(max(a + n if a < 0 else a, 0), n)
        hi = min(max(b + n if b < 0 else b, lo), n)
        return x.index_select(d, torch.arange(lo, hi, st))
    return [r.t(s)], [d, a, b, st], run


@op("diagonal")
def _(r):
    s = r.shape(2, 3)
    o = r.int(-1, 1)
    return [r.t(s)], [o, -2, -1], lambda x: torch.diagonal(x, o, -2, -1)


@op("unfold")
def _(r):
    s = r.shape(1, 3, 7, 3)
    d, size, step = r.dim(s), r.int(1, 3), r.int(1, 3)
    return [r.t(s)], [d, size, step], lambda x: x.unfold(d, size, step)


@op("unbind")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s)], [d], lambda x: x.unbind(d)


@op("split")
def _(r):
    a, b = r.int(0, 3), r.int(1, 3)
    return [r.t([2, a + b])], [[a, b], 1], lambda x: x.split([a, b], 1)


@op("view_dtype")
def _(r):
    to = {torch.float32: torch.int32, torch.float64: torch.int64}[r.dtype]
    return [r.t([3, 2])], [to], lambda x: x.detach().view(to)


# ---- assembly

@op("cat", HALF + INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    parts = []
    for _k in range(r.int(1, 4)):
        p = list(s)
        p[d] = r.int(0, 3)
        parts.append(r.t(p))
    return parts, [d], lambda *xs: torch.cat(xs, d)


@op("stack", HALF)
def _(r):
    s = r.shape(0, 3)
    d = r.int(-len(s) - 1, len(s))
    return [r.t(s) for _k in range(r.int(1, 3))], [d], lambda *xs: torch.stack(xs, d)


@op("repeat")
def _(r):
    s = r.shape(0, 3, 4)
    rep = [r.int(1, 3) for _k in range(len(s) + r.int(0, 1))]
    return [r.t(s)], [rep], lambda x: x.repeat(rep)


@op("flip", INTS)
def _(r):
    s = r.shape(1, 4)
    d = r.dims(s) or [0]
    return [r.t(s)], [d], lambda x: x.flip(d)


@op("roll")
def _(r):
    s = r.shape(1, 3)
    d = [k % len(s) for k in (r.dims(s) or [0])]
    sh = [r.int(-4, 4) for _k in d]
    return [r.t(s)], [sh, d], lambda x: x.roll(sh, d)


@op("constant_pad", INTS)
def _(r):
    s = r.shape(1, 3, 5, 3)
    pad = [r.int(-1, 2) for _k in range(2 * r.int(1, len(s)))]
    return [r.t(s)], [pad, 2], lambda x: F.pad(x, pad, value=2)


for _name in "tril triu".split():
    op(_name, INTS)(lambda r, f=getattr(torch, _name): (lambda k: ([r.t(r.shape(2, 3))], [k], lambda x: f(x, k)))(r.int(-2, 2)))

# ---- reductions


def reduction(name, f, also=HALF):
    def case(r):
        s = r.shape(0, 4)
        d, keep = r.dims(s), bool(r.int(0, 1))
        return [r.t(s)], [d, keep], lambda x: f(x, list(range(x.dim())) if d is None else d, keep)
    op(name, also)(case)


reduction("sum", lambda x, d, k: x.sum(d, k) if d else x.sum(), HALF + INTS + COMPLEX)
reduction("mean", lambda x, d, k: x.mean(d, k) if d else x.mean())
reduction("amax", lambda x, d, k: torch.amax(x, d, k), HALF + INTS)
reduction("amin", lambda x, d, k: torch.amin(x, d, k), HALF + INTS)


@op("prod", INTS)
def _(r):
    s = r.shape(1, 3, 4)
    x = r.t(s)
    if r.int(0, 1) and x.numel():
        x.view(-1)[r.int(0, x.numel() - 1)] = 0
    d, keep = r.pick(None, r.dim(s)), bool(r.int(0, 1))
    if d is None:
        return [x], [None, False], lambda v: v.prod()
    return [x], [d, keep], lambda v: v.prod(d, keep)


for _name in "any all".split():
    def _case(r, name=_name):
        s = r.shape(1, 3)
        d, keep = r.dim(s), bool(r.int(0, 1))
        return [r.t(s)], [[d], keep], lambda x: getattr(x, name)(d, keep)
    op(_name, INTS + [torch.bool])(_case)

for _name in "max min".split():
    def _case(r, name=_name):
        s = r.shape(1, 3)
        d, keep = r.dim(s), bool(r.int(0, 1))
        return [r.distinct(s)], [d, keep], lambda x: getattr(x, name)(d, keep)
    op(_name + "_dim", HALF)(_case)

for _name in "argmax argmin".split():
    def _case(r, name=_name):
        s = r.shape(1, 3)
        d, keep = r.dim(s), bool(r.int(0, 1))
        return [r.distinct(s)], [d, keep], lambda x: getattr(x, name)(d, keep)
    op(_name)(_case)


@op("var")
def _(r):
    s = r.shape(1, 3, 5, 2)
    d, keep, c = [r.dim(s)], bool(r.int(0, 1)), r.int(0, 1)
    return [r.t(s)], [d, float(c), keep], lambda x: x.var(d, unbiased=bool(c), keepdim=keep)


@op("logsumexp")
def _(r):
    s = r.shape(1, 3)
    d, keep = [r.dim(s)], bool(r.int(0, 1))
    return [r.t(s)], [d, keep], lambda x: x.logsumexp(d, keep)


op("cumsum", INTS)(lambda r: (lambda s: (lambda d: ([r.t(s)], [d], lambda x: x.cumsum(d)))(r.dim(s)))(r.shape(1, 3)))
for _name in "softmax log_softmax".split():
    op(_name)(lambda r, f=getattr(F, _name): (lambda s: (lambda d: ([r.t(s)], [d], lambda x: f(x, d)))(r.dim(s)))(r.shape(1, 3)))


@op("softmax_backward")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s), r.t(s)], [d], lambda g, y: y * (g - (g * y).sum(d, True))


@op("log_softmax_backward")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s), r.t(s)], [d], lambda g, y: g - y.exp() * g.sum(d, True)


@op("sum_to", INTS)
def _(r):
    s = r.shape(1, 4)
    to = [1 if r.int(0, 1) else d for d in s][r.int(0, len(s)):]
    return [r.t(s)], [to], lambda x: x.sum_to_size(to) if x.dtype.is_floating_point else x.sum_to_size(to).to(x.dtype)


# ---- linear algebra

op("mm", COMPLEX)(lambda r: (lambda m, k, n: ([r.t([m, k]), r.t([k, n])], [], torch.mm))(r.int(1, 9), r.int(0, 9), r.int(1, 9)))
op("bmm")(lambda r: (lambda b, m, k, n: ([r.t([b, m, k]), r.t([b, k, n])], [], torch.bmm))(r.int(1, 3), r.int(1, 6), r.int(1, 6), r.int(1, 6)))
op("dot")(lambda r: (lambda n: ([r.t([n]), r.t([n])], [], torch.dot))(r.int(1, 20)))
op("mv")(lambda r: (lambda m, n: ([r.t([m, n]), r.t([n])], [], torch.mv))(r.int(1, 9), r.int(1, 9)))


@op("addmm")
def _(r):
    m, k, n, b, a = r.int(1, 6), r.int(1, 6), r.int(1, 6), r.pick(1, 0.5), r.pick(1, 2)
    c = r.pick([m, n], [n], [1, n])
    return [r.t(c), r.t([m, k]), r.t([k, n])], [b, a], lambda c, x, y: torch.addmm(c, x, y, beta=b, alpha=a)


@op("linear")
def _(r):
    lead, k, n = r.shape(0, 2), r.int(1, 6), r.int(1, 6)
    bias = r.int(0, 1)
    return [r.t(lead + [k]), r.t([n, k]), r.t([n]) if bias else None], [], lambda x, w, b=None: F.linear(x, w, b)


# ---- indexing

@op("index_select", INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s), r.idx([r.int(0, 5)], s[d])], [d], lambda x, i: x.index_select(d, i)


def along(r):
    """x's shape, a dimension, and an index no larger than x elsewhere."""
    s = r.shape(1, 3)
    d = r.dim(s)
    si = [r.int(1, n) for n in s]
    return s, d, si


@op("gather", INTS)
def _(r):
    s, d, si = along(r)
    return [r.t(s), r.idx(si, s[d])], [d], lambda x, i: x.gather(d, i)


@op("scatter")
def _(r):
    s, d, si = along(r)
    si[d] = 1  # one writer a place
    if r.int(0, 1):
        return [r.t(s), r.idx(si, s[d]), 2.5], [d], lambda x, i, v: x.scatter(d, i, v)
    return [r.t(s), r.idx(si, s[d]), r.t(si)], [d], lambda x, i, v: x.scatter(d, i, v)


@op("scatter_add")
def _(r):
    s, d, si = along(r)
    return [r.t(s), r.idx(si, s[d]), r.t(si)], [d], lambda x, i, v: x.scatter_add(d, i, v)


@op("index")
def _(r):
    if r.int(0, 1):
        return [r.t([4, 5]), r.idx([3], 4), r.idx([2, 1], 5)], [], lambda x, i, j: x[i, j]
    return [r.t([3, 4, 2]), None, r.idx([5], 4)], [], lambda x, i=None, j=None: x[:, j if j is not None else i]


@op("index_put")
def _(r):
    acc = bool(r.int(0, 1))
    i = r.idx([5], 4) if acc else torch.randperm(4, generator=r.g)[:3]
    return [r.t([4, 3]), i, r.t([len(i), 3])], [acc], lambda x, i, v: x.index_put((i,), v, acc)


@op("index_add")
def _(r):
    a = r.pick(1, 2)
    return [r.t([3, 4]), r.idx([5], 3), r.t([5, 4])], [0, a], lambda x, i, v: x.index_add(0, i, v, alpha=a)


# contiguous: torch 1.13 gives the gradient of a transposed tensor in the order of its memory.
op("masked_select", INTS)(lambda r: (lambda s: ([r.t(s), r.b(s)], [], lambda x, m: x.contiguous().masked_select(m)))(r.shape(1, 3)))
op("nonzero", INTS)(lambda r: ([r.t(r.shape(1, 3))], [], torch.nonzero))
op("embedding")(lambda r: ([r.t([6, 3]), r.idx(r.shape(0, 2), 6)], [], lambda w, i: F.embedding(i, w)))


@op("select_scatter")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    k = r.int(0, s[d] - 1)
    src = list(s)
    del src[d]
    return [r.t(s), r.t(src)], [d, k], lambda x, v: torch.select_scatter(x, v, d, k)


@op("slice_scatter")
def _(r):
    return [r.t([6, 2]), r.t([2, 2])], [0, 1, 5, 2], lambda x, v: torch.slice_scatter(x, v, 0, 1, 5, 2)


@op("masked_scatter")
def _(r):
    return [r.t([2, 3]), r.b([2, 3]), r.t([6])], [], lambda x, m, v: x.masked_scatter(m, v)


# ---- sorting

@op("sort")
def _(r):
    s = r.shape(1, 3)
    d, down = r.dim(s), bool(r.int(0, 1))
    return [r.distinct(s)], [d, down], lambda x: x.sort(d, down)


@op("topk")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    k, large = r.int(1, s[d]), bool(r.int(0, 1))
    return [r.distinct(s)], [k, d, large], lambda x: x.topk(k, d, large)


# ---- convolution and pooling

@op("conv2d")
def _(r):
    groups, bias = r.pick(1, 1, 2), r.int(0, 1)
    ci, co, kh, kw = 2 * r.int(1, 2), 2 * r.int(1, 2), r.int(1, 3), r.int(1, 3)
    st, pad, dil = [r.int(1, 2), r.int(1, 2)], [r.int(0, 2), r.int(0, 2)], [r.int(1, 2), r.int(1, 2)]
    x, w = r.t([r.int(1, 2), ci, r.int(6, 9), r.int(6, 9)]), r.t([co, ci // groups, kh, kw])
    return [x, w, r.t([co]) if bias else None], [st, pad, dil, groups], lambda x, w, b=None: F.conv2d(x, w, b, st, pad, dil, groups)


@op("conv2d_backward")
def _(r):
    x, w = r.t([2, 2, 6, 6]), r.t([3, 2, 3, 3])
    g = r.t([2, 3, 4, 4])

    def run(g, x, w):
        b = torch.zeros(3, dtype=x.dtype, requires_grad=True)
        x = x if x.requires_grad else x.requires_grad_()
        return torch.autograd.grad(F.conv2d(x, w, b), (x, w, b), g, create_graph=True)
    return [g, x, w], [[1, 1], [0, 0], [1, 1], 1, 7], run


@op("max_pool2d")
def _(r):
    k, st = [r.int(1, 3), r.int(2, 3)], [r.int(1, 3), r.int(1, 3)]
    pad, ceil = [r.int(0, k[0] // 2), r.int(0, k[1] // 2)], bool(r.int(0, 1))
    return [r.distinct([2, 2, 7, 8])], [k, st, pad, [1, 1], ceil], lambda x: F.max_pool2d(x, k, st, pad, 1, ceil, True)


@op("avg_pool2d")
def _(r):
    k, st = [r.int(1, 3), r.int(2, 3)], [r.int(1, 3), r.int(1, 3)]
    pad, ceil, inc = [r.int(0, k[0] // 2), r.int(0, k[1] // 2)], bool(r.int(0, 1)), bool(r.int(0, 1))
    return [r.t([2, 2, 7, 8])], [k, st, pad, ceil, inc], lambda x: F.avg_pool2d(x, k, st, pad, ceil, inc)


# ---- normalisation, losses

@op("layer_norm")
def _(r):
    # The gradient of a row of two or three numbers is nearly nothing but cancellation: only float64 can be held to it.
    s = r.shape(2, 3, 6, 2 if r.dtype == torch.float64 else 4)
    n = r.int(1, len(s) - 1)
    tail = s[len(s) - n:]
    affine = r.int(0, 1)
    return ([r.t(s), r.t(tail) if affine else None, r.t(tail) if affine else None], [n, 1e-5],
            lambda x, w=None, b=None: (F.layer_norm(x, tail, w, b, 1e-5),))


@op("batch_norm")
def _(r):
    c, train = r.int(1, 4), bool(r.int(0, 1))
    s = r.pick([4, c], [3, c, 5], [2, c, 3, 4])
    mean, var = r.t([c]).detach(), r.t([c], 0.5, 2).detach()
    return ([r.t(s), r.t([c]), r.t([c]), mean, var], [train, 0.1, 1e-5],
            lambda x, w, b, m, v: (F.batch_norm(x, m.detach().clone(), v.detach().clone(), w, b, train, 0.1, 1e-5),))


@op("nll_loss")
def _(r):
    n, c, red = r.int(1, 5), r.int(2, 6), r.int(0, 2)
    target = r.idx([n], c)
    if r.int(0, 1) and n > 1:
        target[0] = -100
    return ([r.t([n, c]), target, r.t([c], 0.5, 2).detach() if r.int(0, 1) else None], [red, -100],
            lambda x, t, w=None: (F.nll_loss(x, t, w.detach() if w is not None else None, reduction=["none", "mean", "sum"][red]),))


# ---- creation

op("full", INTS)(lambda r: (lambda s: ([], [s, 3, r.dtype], lambda: torch.full(s, 3, dtype=r.dtype)))(r.shape()))
op("arange", INTS)(lambda r: ([], [1, 9, 2, r.dtype], lambda: torch.arange(1, 9, 2, dtype=r.dtype)))
op("linspace")(lambda r: ([], [-1.0, 2.0, 7, r.dtype], lambda: torch.linspace(-1, 2, 7, dtype=r.dtype)))
op("eye", INTS)(lambda r: ([], [3, 4, r.dtype], lambda: torch.eye(3, 4, dtype=r.dtype)))


# ---- added later: at the end, so that the draws of the others stay what they were

unary("imag", lambda x: torch.imag(x) * 1, also=COMPLEX)  # of complex numbers only
tensors("copysign", torch.copysign, 2)
tensors("hypot", torch.hypot, 2, also=[torch.bfloat16])
tensors("logaddexp", torch.logaddexp, 2, also=[torch.bfloat16])
tensors("nextafter", torch.nextafter, 2, also=[])
unary("signbit", torch.signbit, also=HALF + INTS)

# Inputs whose values are not repeated: which of two alike is chosen is open, a variance of 0 magnifies every rounding, and
# what is written to must not overlap itself.
UNREPEATED = {"max_dim", "min_dim", "argmax", "argmin", "sort", "topk", "max_pool2d", "layer_norm", "batch_norm"}
# Inputs that must lie in memory as torch's copy of them does.
CONTIGUOUS = {"view", "as_strided", "view_dtype"}

# What has no counterpart, and why.
NO_COUNTERPART = {
    "empty": "uninitialised", "empty_strided": "uninitialised", "rand": "other numbers", "randn": "other numbers",
    "randint": "other numbers", "randperm": "other numbers", "bernoulli": "other numbers", "dropout": "other numbers",
    "dropout_backward": "other numbers", "layer_norm_backward": "reached through layer_norm",
    "batch_norm_backward": "reached through batch_norm", "nll_loss_backward": "reached through nll_loss",
    "max_pool2d_backward": "reached through max_pool2d", "avg_pool2d_backward": "reached through avg_pool2d",
    "sgd_step": "an optimizer's step", "adam_step": "an optimizer's step",
}
