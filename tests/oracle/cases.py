"""What each op is called in torch, and how to make random calls of it.

An entry is a function of a Rand: it draws inputs (tensors of r.dtype by r.t, indices by r.idx, None for an absent one, numbers as they
are) and attributes in the order of the op's signature (those left out take their defaults), and gives the torch function of the inputs.
Families of their own (FFTs, factorizations, ...) are in cases_FAMILY.py, which add to the tables of this file.
"""

import math

import torch
import torch.nn.functional as F


class Skip(Exception):
    """This draw makes no case."""


class Rand:
    """Draws shapes and values; the same seed draws the same case. Small ones: any rank, dimensions of up to 6."""

    wide = False

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

    def size(self, lo, hi, *_wide):
        """One dimension. What follows are sizes for the wide draw: those around a threshold of the op's kernel."""
        return self.int(lo, hi)

    def sizes(self, _most, *ranges):
        """Several of them, given as (lo, hi, wide...); the wide draw keeps their product below `most`."""
        return [self.size(*x) for x in ranges]

    def part(self, lo, hi, _n):
        """A number of places of a dimension of n."""
        return self.int(lo, hi)

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


def total(shape):
    n = 1
    for s in shape:
        n *= s
    return n


class Wide(Rand):
    """Draws what lies around the thresholds of the op's kernels (those of daemon/kernels/cpu/thresholds.h that name it): as many
    elements in all as one of them, one less and one more; now and then many more than all of them. Long rows of short ones, short
    ones of long, several dimensions."""

    wide, one_sign = True, False
    USUAL, MANY = 160000, 1 << 20
    SHORT = [1, 1, 2, 3, 7, 17, 40]
    WAYS = {"sum": 6, "mean": 4, "amax": 4, "amin": 2, "prod": 2, "sum_to": 4, "softmax": 3, "mm": 3, "conv2d": 20}  # times as many

    def __init__(self, generator, dtype, thresholds):
        super().__init__(generator, dtype)
        size = torch.empty(0, dtype=dtype).element_size()
        wholes = [n // (size if unit == "bytes" else 1) for n, unit in thresholds if unit in ("bytes", "elements")]
        sides = [n for n, unit in thresholds if unit in ("rows", "columns", "elements") and n <= 1024]
        wholes += [1, 3 * self.USUAL // 4] + [2 * n for n in wholes] + sides
        least = self.pick(1, 1024, 4096, 4096)
        self.near = [n for n in wholes if least <= n <= self.USUAL] if self.int(0, 24) else [self.MANY]
        self.short = self.SHORT + [n + k for n in sides if n <= 64 for k in (-1, 0, 1) if n + k > 0]

    def shape(self, lo=0, hi=4, most=6, least=1):
        rank = max(self.int(lo, hi), self.int(lo, hi), 1 if self.int(0, 11) else lo)
        if rank == 0:
            return []
        short = [self.pick(*self.short) for _ in range(rank - 1)]
        goal = self.pick(*self.near)
        while total(short) > goal:
            short[self.int(0, len(short) - 1)] = 1 if rank > 2 else max(goal // 2, 1)
        short.insert(self.int(0, rank - 1), max(goal // total(short) + self.int(-1, 1), 1))
        if self.int(0, 19) == 0:
            short[self.int(0, rank - 1)] = 0
        return [max(n, least) if n else 0 for n in short]

    def dims(self, shape):
        """All but one, every other, the last ones: what is folded, and what is kept between."""
        n = len(shape)
        if n < 2:
            return super().dims(shape)
        but = self.int(0, n - 1)
        return self.pick(None, list(range(n)), [d for d in range(n) if d != but], [d for d in range(n) if d != but],
                         list(range(n - 2, n)), list(range(self.int(0, 1), n, 2)), [but])

    def t(self, shape, lo=-2.0, hi=2.0):
        """The gradient of what is repeated is a sum, of numbers that were rounded before: in half types, where all have one sign."""
        return super().t(shape, 0.25 if self.one_sign and lo < 0 < hi else lo, hi)

    def broadcast(self, n=2):
        self.one_sign = self.dtype in HALF
        full = self.shape(0, 4)
        shapes = []
        for _ in range(n):
            s = [1 if self.int(0, 5) == 0 else d for d in full]
            shapes.append(s[self.int(0, len(s)) if self.int(0, 4) == 0 else 0:])
        return shapes

    def size(self, lo, hi, *wide):
        return self.pick(*wide) if wide else self.int(lo, hi)

    def sizes(self, most, *ranges):
        drawn = [self.size(*x) for x in ranges]
        while total(drawn) > most:
            k = drawn.index(max(drawn))
            drawn[k] = max(drawn[k] // 3, 1)
        return drawn

    def part(self, lo, hi, n):
        return self.int(min(lo, n), max(n, hi))

    def distinct(self, shape):
        if self.dtype in HALF and total(shape) > 2000:
            raise Skip
        return super().distinct(shape)


OPS = {}
DTYPES = {}  # op -> dtypes besides float32 and float64
MORE = []  # (op, case, all its dtypes)

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
for _name in "sin cos tanh sigmoid exp expm1".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS + COMPLEX)
for _name in "exp2 atan sinh cosh asinh erf erfc".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS)
for _name in "floor ceil round trunc".split():
    unary(_name, getattr(torch, _name), also=HALF)
unary("abs", torch.abs, also=HALF + [torch.int32, torch.int64] + COMPLEX)
unary("sign", torch.sign, also=HALF + INTS)
for _name in "log log2 log10 sqrt rsqrt reciprocal".split():
    unary(_name, getattr(torch, _name), 0.3, 3, also=HALF + COMPLEX)
unary("log1p", torch.log1p, -0.5, 3, also=HALF + COMPLEX)
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
    op(_name, INTS)(lambda r, f=getattr(torch, _name): ([r.t([r.size(4, 4, 4, 511, 513, 16385, 70001)], 0), torch.tensor(2, dtype=r.dtype)], [], f))
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

op("copy_last", HALF + INTS)(lambda r: ([r.t((r.int(1, 3), r.int(1, 5), *r.pick([(4, 3), (2, 7), (3, 2, 2)])))], [], lambda x: x.clone()))
op("copy_kept", HALF + INTS)(lambda r: ([r.t(r.shape())], [], lambda x: x.clone()))
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
    if not total(s) and r.wide:
        raise Skip
    k = r.int(-s[d], s[d] - 1)
    return [r.t(s)], [d, k], lambda x: x.select(d, k)


@op("slice", INTS)
def _(r):
    s = r.shape(1, 3, 8)
    d, a, b, st = r.dim(s), r.int(-3, 3), r.int(-2, 9), r.int(1, 3)
    if r.wide:
        b = s[d] - r.int(0, 3)

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
    s[d] = min(s[d], 60)  # results of one call
    return [r.t(s)], [d], lambda x: x.unbind(d)


@op("split")
def _(r):
    a, b = r.int(0, 3), r.int(1, 3)
    return [r.t([r.size(2, 2, 1, 2, 300, 20000), a + b])], [[a, b], 1], lambda x: x.split([a, b], 1)


@op("view_dtype")
def _(r):
    to = {torch.float32: torch.int32, torch.float64: torch.int64}[r.dtype]
    return [r.t([r.size(3, 3, 3, 600, 40000), 2])], [to], lambda x: x.detach().view(to)


@op("view_as_real", COMPLEX)
def _(r):
    if not r.dtype.is_complex:
        raise Skip
    return [r.t(r.shape(0, 3))], [], lambda x: torch.view_as_real(x.resolve_conj())


@op("view_part", COMPLEX)
def _(r):
    if not r.dtype.is_complex:
        raise Skip
    part = r.int(0, 1)
    return [r.t(r.shape(0, 4))], [part], lambda x: torch.view_as_real(x.resolve_conj()).select(-1, part)


@op("view_as_complex")
def _(r):
    return [r.t([*r.shape(0, 3), 2])], [], torch.view_as_complex


# ---- assembly

@op("cat", HALF + INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    parts = []
    for _k in range(r.int(1, 4)):
        p = list(s)
        p[d] = r.part(0, 3, s[d])
        parts.append(r.t(p))
    return parts, [d], lambda *xs: torch.cat(xs, d)


@op("stack", HALF)
def _(r):
    s = r.shape(0, 3)
    d = r.int(-len(s) - 1, len(s))
    return [r.t(s) for _k in range(r.int(1, 3))], [d], lambda *xs: torch.stack(xs, d)


@op("repeat")
def _(r):
    s, more = r.shape(0, 3, 4), r.int(0, 4)
    rep = [r.int(1, 2 if more > 1 else 3) for _k in range(len(s) + more)]
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
    if r.wide:  # a product of many that is neither 0 nor infinite
        x = 1 + x / 16 if r.dtype.is_floating_point else x | 1
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

# Around blocks of a packed product, tiles of vectors, and the longest run of a dot product.
SIDES = [1, 2, 16, 17, 47, 48, 49, 63, 64, 65, 128, 255, 257, 359, 361, 1000]
FLOPS = 1 << 24


op("mm", COMPLEX)(lambda r: (lambda m, k, n: ([r.t([m, k]), r.t([k, n])], [], torch.mm))(
    *r.sizes(FLOPS, (1, 9, *SIDES), (0, 9, *SIDES, 0, 5000), (1, 9, *SIDES))))
op("bmm")(lambda r: (lambda b, m, k, n: ([r.t([b, m, k]), r.t([b, k, n])], [], torch.bmm))(
    *r.sizes(FLOPS, (1, 3, 1, 2, 7, 40), (1, 6, *SIDES), (1, 6, *SIDES), (1, 6, *SIDES))))
op("dot")(lambda r: (lambda n: ([r.t([n]), r.t([n])], [], torch.dot))(r.size(1, 20, 1, 255, 257, 65535, 65536, 65537, 200000)))
op("mv")(lambda r: (lambda m, n: ([r.t([m, n]), r.t([n])], [], torch.mv))(
    *r.sizes(1 << 20, (1, 9, *SIDES, 70000), (1, 9, *SIDES, 65537))))


@op("addmm")
def _(r):
    m, k, n = r.sizes(FLOPS, (1, 6, *SIDES), (1, 6, *SIDES), (1, 6, *SIDES))
    b, a = r.pick(1, 0.5), r.pick(1, 2)
    c = r.pick([m, n], [n], [1, n])
    return [r.t(c), r.t([m, k]), r.t([k, n])], [b, a], lambda c, x, y: torch.addmm(c, x, y, beta=b, alpha=a)


@op("linear")
def _(r):
    lead = r.shape(0, 2) if not r.wide else [r.pick(*SIDES) for _k in range(r.int(0, 2))]
    lead = [min(n, 65) for n in lead] if len(lead) > 1 else lead
    k, n = r.sizes(FLOPS // max(total(lead), 1), (1, 6, *SIDES), (1, 6, *SIDES))
    bias = r.int(0, 1)
    return [r.t(lead + [k]), r.t([n, k]), r.t([n]) if bias else None], [], lambda x, w, b=None: F.linear(x, w, b)


# ---- indexing

@op("index_select", INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s), r.idx([r.part(0, 5, s[d])] if s[d] else [0], s[d])], [d], lambda x, i: x.index_select(d, i)


def along(r):
    """x's shape, a dimension, and an index no larger than x elsewhere."""
    s = r.shape(1, 3)
    d = r.dim(s)
    if not total(s):
        s = [max(n, 1) for n in s]
    si = [n - r.int(0, min(n - 1, 2)) if r.wide else r.int(1, n) for n in s]
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
    a, b = r.sizes(200000, (4, 4, 4, 300, 2000), (5, 5, 1, 17, 64, 300))
    n = r.size(3, 3, 1, 32767, 32769, 65537)
    if r.int(0, 1):
        return [r.t([a, b]), r.idx([n], a), r.idx([2, 1] if not r.wide else [n], b)], [], lambda x, i, j: x[i, j]
    c, n = r.sizes(100000, (2, 2, 1, 2, 63, 65), (5, 5, 5, 300, 1025))
    return [r.t([3, a, c]), None, r.idx([n], a)], [], lambda x, i=None, j=None: x[:, j if j is not None else i]


@op("index_put")
def _(r):
    acc = bool(r.int(0, 1))
    n, w = r.sizes(150000, (4, 4, 5, 1024, 32769, 65537), (3, 3, 1, 3, 64, 65, 1025))
    i = r.idx([n + 1], n) if acc else torch.randperm(n, generator=r.g)[:n - 1]
    return [r.t([n, w]), i, r.t([len(i), w])], [acc], lambda x, i, v: x.index_put((i,), v, acc)


@op("index_add")
def _(r):
    a = r.pick(1, 2)
    n, m, w = r.size(3, 3, 3, 500, 33000), *r.sizes(150000, (5, 5, 5, 1025, 32769, 65537), (4, 4, 1, 3, 64, 65))
    return [r.t([n, w]), r.idx([m], n), r.t([m, w])], [0, a], lambda x, i, v: x.index_add(0, i, v, alpha=a)


# contiguous: torch 1.13 gives the gradient of a transposed tensor in the order of its memory.
op("masked_select", INTS)(lambda r: (lambda s: ([r.t(s), r.b(s)], [], lambda x, m: x.contiguous().masked_select(m)))(r.shape(1, 3)))
op("nonzero", INTS)(lambda r: ([r.t(r.shape(1, 3))], [], torch.nonzero))
op("embedding")(lambda r: (lambda n, w, s: ([r.t([n, w]), r.idx(s, n)], [], lambda w, i: F.embedding(i, w)))(
    *(r.sizes(200000, (6, 6, 6, 5000), (3, 3, 1, 3, 64, 300)) if r.wide else (6, 3)),
    [r.pick(0, 1, 500, 1025)] if r.wide else r.shape(0, 2)))


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
    w = r.size(2, 2, 1, 511, 1025, 40000)
    return [r.t([6, w]), r.t([2, w])], [0, 1, 5, 2], lambda x, v: torch.slice_scatter(x, v, 0, 1, 5, 2)


@op("masked_scatter")
def _(r):
    w = r.size(3, 3, 3, 1025, 32769, 65537)
    return [r.t([2, w]), r.b([2, w]), r.t([2 * w])], [], lambda x, m, v: x.masked_scatter(m, v)


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

@op("conv2d", [torch.int64, *COMPLEX])
def _(r):
    groups, bias = r.pick(1, 1, 2), r.int(0, 1)
    ci, co, kh, kw = 2 * r.int(1, 2), 2 * r.int(1, 2), r.int(1, 3), r.int(1, 3)
    st, pad, dil = [r.int(1, 2), r.int(1, 2)], [r.int(0, 2), r.int(0, 2)], [r.int(1, 2), r.int(1, 2)]
    n, h, wide = r.int(1, 2), r.int(6, 9), r.int(6, 9)
    if r.wide:  # of few channels and many, in groups, one channel a group, 1 x 1, and places in rows around those of vectors
        ci, co = 2 * r.pick(1, 2, 8, 9, 16), 2 * r.pick(1, 2, 8, 9, 16)
        groups = r.pick(1, groups, ci)
        co = ci * r.pick(1, 2) if groups == ci else co
        kh = kw = r.pick(1, 3, 3, 5)
        st, pad, dil = r.pick([1, 1], st), r.pick([kh // 2] * 2, pad), r.pick([1, 1], [1, 1], dil)
        h, wide = r.pick(9, 14, 17, 33), r.pick(9, 15, 16, 17, 32, 33, 56)
        h, wide = (h, wide) if ci * co // groups < 300 else (min(h, 14), min(wide, 17))
    x, w = r.t([n, ci, h, wide]), r.t([co, ci // groups, kh, kw])
    return [x, w, r.t([co]) if bias else None], [st, pad, dil, groups], lambda x, w, b=None: F.conv2d(x, w, b, st, pad, dil, groups)


@op("conv2d_backward", COMPLEX)
def _(r):
    n, ci, co = r.size(2, 2, 1, 2, 5), r.size(2, 2, 2, 16, 17), r.size(3, 3, 3, 16)
    h, wide = r.size(6, 6, 6, 18), r.size(6, 6, 17, 18, 19, 34)
    x, w = r.t([n, ci, h, wide]), r.t([co, ci, 3, 3])
    g = r.t([n, co, h - 2, wide - 2])

    def run(g, x, w):
        b = torch.zeros(co, dtype=x.dtype, requires_grad=True)
        x = x if x.requires_grad else x.requires_grad_()
        x, w = x.conj(), w.conj()  # which autograd takes back: the op itself does nothing of the kind
        return torch.autograd.grad(F.conv2d(x, w, b), (x, w, b), g, create_graph=True)
    return [g, x, w], [[1, 1], [0, 0], [1, 1], 1, 7], run


@op("max_pool2d", INTS)
def _(r):
    k, st = [r.int(1, 3), r.int(2, 3)], [r.int(1, 3), r.int(1, 3)]
    pad, ceil = [r.int(0, k[0] // 2), r.int(0, k[1] // 2)], bool(r.int(0, 1))
    return [r.distinct([r.size(2, 2, 1, 2, 33), r.size(2, 2, 2, 17), r.size(7, 7, 7, 33), r.size(8, 8, 8, 31, 65)])], [k, st, pad, [1, 1], ceil], lambda x: F.max_pool2d(x, k, st, pad, 1, ceil, True)


@op("avg_pool2d", [torch.int64])
def _(r):
    k, st = [r.int(1, 3), r.int(2, 3)], [r.int(1, 3), r.int(1, 3)]
    pad, ceil, inc = [r.int(0, k[0] // 2), r.int(0, k[1] // 2)], bool(r.int(0, 1)), bool(r.int(0, 1))
    s = [r.size(2, 2, 1, 2, 33), r.size(2, 2, 2, 17), r.size(7, 7, 7, 33), r.size(8, 8, 8, 31, 65)]
    return [r.t(s)], [k, st, pad, ceil, inc], lambda x: F.avg_pool2d(x, k, st, pad, ceil, inc)


# ---- normalisation, losses

@op("layer_norm")
def _(r):
    # The gradient of a row of two or three numbers is nearly nothing but cancellation: only float64 can be held to it.
    s = r.shape(2, 3, 6, 2 if r.dtype == torch.float64 else 4)
    if r.wide:
        s = [max(n, 1) for n in s[:-1]] + [max(s[-1], 17)]  # many rows of few: one of them has nearly no variance
    n = r.int(1, len(s) - 1)
    tail = s[len(s) - n:]
    affine = r.int(0, 1)
    return ([r.t(s), r.t(tail) if affine else None, r.t(tail) if affine else None], [n, 1e-5],
            lambda x, w=None, b=None: (F.layer_norm(x, tail, w, b, 1e-5),))


@op("batch_norm")
def _(r):
    c, train = r.size(1, 4, 1, 3, 17, 64, 1025), bool(r.int(0, 1))
    s = r.pick([4, c], [3, c, 5], [2, c, 3, 4])
    if r.wide:  # segments of a plane, planes of a chunk
        s = r.pick([33, c], [1000, c], [3, c, 65], [8, c, 7, 7], [2, c, 16, 33], [1, min(c, 17), 4096], [3, min(c, 17), 64, 65])
        c = s[1]
    mean, var = r.t([c]).detach(), r.t([c], 0.5, 2).detach()
    return ([r.t(s), r.t([c]), r.t([c]), mean, var], [train, 0.1, 1e-5],
            lambda x, w, b, m, v: (F.batch_norm(x, m.detach().clone(), v.detach().clone(), w, b, train, 0.1, 1e-5),))


@op("nll_loss")
def _(r):
    n, c = r.sizes(150000, (1, 5, 1, 63, 1025, 16385, 65537), (2, 6, 2, 10, 65, 1000))
    red = r.int(0, 2)
    target = r.idx([n], c)
    if r.int(0, 1) and n > 1:
        target[0] = -100
    return ([r.t([n, c]), target, r.t([c], 0.5, 2).detach() if r.int(0, 1) else None], [red, -100],
            lambda x, t, w=None: (F.nll_loss(x, t, w.detach() if w is not None else None, reduction=["none", "mean", "sum"][red]),))


# ---- creation

op("full", INTS)(lambda r: (lambda s: ([], [s, 3, r.dtype], lambda: torch.full(s, 3, dtype=r.dtype)))(r.shape()))
op("arange", INTS)(lambda r: (lambda n: ([], [1, n, 2, r.dtype], lambda: torch.arange(1, n, 2, dtype=r.dtype)))(
    r.size(9, 9, 9, 100, *([] if r.dtype in (torch.int8, torch.uint8) else [2051, 32767]))))
op("linspace")(lambda r: (lambda n: ([], [-1.0, 2.0, n, r.dtype], lambda: torch.linspace(-1, 2, n, dtype=r.dtype)))(
    r.size(7, 7, 7, 1025, 65537)))
op("eye", INTS)(lambda r: (lambda n, m: ([], [n, m, r.dtype], lambda: torch.eye(n, m, dtype=r.dtype)))(
    r.size(3, 3, 3, 65, 300), r.size(4, 4, 4, 63, 260)))


# ---- added later: at the end, so that the draws of the others stay what they were

unary("imag", lambda x: torch.imag(x) * 1, also=COMPLEX)  # of complex numbers only
tensors("copysign", torch.copysign, 2)
tensors("hypot", torch.hypot, 2, also=[torch.bfloat16])
tensors("logaddexp", torch.logaddexp, 2, also=[torch.bfloat16])
# torch before 2 does not differentiate it
tensors("nextafter", lambda x, y: torch.nextafter(x.detach(), y.detach()) + (x - x.detach()) + 0 * y, 2, also=[])
unary("signbit", torch.signbit, also=HALF + INTS + [torch.bool])

# A second operand of another dtype: it is made the common one first, so that -5 beside uint8 is 251.
for _name in "add sub mul maximum minimum eq ne lt le gt ge remainder floor_divide bitwise_and bitwise_or bitwise_xor".split():
    def _case(r, name=_name):
        other = r.pick(*[t for t in INTS if t != r.dtype])
        n = r.pick(-5, -1, 7, 100, 300, 70000)
        y = torch.tensor(max(-128, min(n, 127)) if other in (torch.int8, torch.uint8) else n % 32768).to(other) | 1
        return [r.t(r.shape()), y], [1] if name in ("add", "sub") else [], getattr(torch, name)
    MORE.append((_name, _case, INTS))
# Numbers that are no halves.
for _name in "add sub mul div".split():
    def _case(r, name=_name):
        n = r.pick(1e5, 65536.0, 1e-5, 0.1)
        inputs = [r.t(r.shape(), 0.25, 2), n]
        return inputs if r.int(0, 1) or name == "div" else inputs[::-1], [1] if name in ("add", "sub") else [], getattr(torch, name)
    MORE.append((_name, _case, HALF))

# Where functions have no value, or no slope.
def points(r, *of):
    return torch.tensor([of[r.int(0, len(of) - 1)] for _ in range(r.int(1, 40))]).to(r.dtype)


def atan2(x, y):
    """Its gradient is 0 at the origin (torch 1.13: NaN; 2.13 as here)."""
    none = (x == 0) & (y == 0)
    return torch.where(none, x * 0, torch.atan2(x, torch.where(none, torch.ones_like(y), y)))


def _case(r):
    x = points(r, 0.0, 0.0, 1.0, -1.0)
    return [x, x[torch.randperm(len(x), generator=r.g)]], [], atan2
MORE.append(("atan2", _case, [torch.float32, torch.float64]))
for _name in "log log2 log10 sqrt square".split():
    def _case(r, name=_name):
        return [points(r, 0, 1, -1, 1j, 2 - 1j, complex(math.inf, 0))], [], lambda x: getattr(torch, name)(x.detach())
    MORE.append((_name, _case, COMPLEX))


def _case(r):
    n = r.pick(0, 1, 2, 3, 0.5)
    far = complex(math.inf, 0) if n < 2 else 2j
    return [points(r, 0, 1, -1, 1j, 2 - 1j, far), n], [], lambda x, y: torch.pow(x.detach(), y)
MORE.append(("pow", _case, COMPLEX))


# In all four quadrants, and on each side of where the branches are cut.
for _name in "tan asin acos atan sinh cosh asinh acosh atanh".split():
    def _case(r, name=_name):
        x = r.t(r.shape(), 0.25, 3)
        sign = torch.tensor([1, -1, 1, -1.0]) + 1j * torch.tensor([0.0, 0, 0, 0])
        turned = torch.where(torch.rand(x.shape, generator=r.g) < 0.5, x, x.conj().resolve_conj()) + 0.125j
        return [turned * sign[r.idx(x.shape, 4)].to(r.dtype)], [], getattr(torch, name)
    MORE.append((_name, _case, COMPLEX))


def parts(f):
    """f of each part of complex numbers by itself; PyTorch 1.13 has none of them."""
    return lambda x: torch.complex(f(x.real), f(x.imag))


def _case(r):
    a = r.pick([], [0.5], [0.5, 3.0, -4.0]) if not r.wide else [0.5, 3.0, -4.0]  # the largest number is the dtype's own
    return [points(r, 0.5, 1 - 2j, complex(math.inf, -1), complex(2, math.nan), complex(math.nan, -math.inf))], a, parts(lambda x: torch.nan_to_num(x, *a))
MORE.append(("nan_to_num", _case, COMPLEX))


def _case(r):
    s = r.shape(1, 3)
    d, keep = r.dim(s), bool(r.int(0, 1))

    def run(x):
        m = x.detach().real.amax(d, True) if x.shape[d] else torch.zeros(())
        out = (x - m).exp().sum(d, True).log() + m
        return out if keep else out.squeeze(d)
    return [r.t(s)], [[d], keep], run
MORE.append(("logsumexp", _case, COMPLEX))


def _case(r):  # numbers to powers that are complex
    return [r.pick(2.5, 3, 0.5), r.t(r.shape())], [], torch.pow
MORE.append(("pow", _case, COMPLEX))


def _case(r):  # no power of what is infinite has a slope but the first
    return [points(r, 0.0, 1.0, -2.0, math.inf), r.pick(0, 1)], [], torch.pow
MORE.append(("pow", _case, [torch.float32, torch.float64]))


def _case(r):
    n, i, a = r.int(1, 9), r.idx([r.int(1, 20)], 1), r.pick(0, 1)
    return [r.b([n]), i % n, r.b([len(i)])], [0, a], lambda x, i, v: x.index_add(0, i, v, alpha=a)
MORE.append(("index_add", _case, [torch.bool]))


# ---- ops made of ops

@op("std", COMPLEX)
def _(r):
    s = r.shape(1, 3, 5, 2)
    d, keep, c = [r.dim(s)], bool(r.int(0, 1)), r.int(0, 1)
    x = r.t(s) if r.dtype.is_complex else r.distinct(s)  # the slope between two that are all but alike is one of their rounding
    return [x], [d, float(c), keep], lambda x: x.std(d, unbiased=bool(c), keepdim=keep)


@op("norm", HALF + COMPLEX)
def _(r):
    s, keep = r.shape(1, 3), bool(r.int(0, 1))
    d = [r.dim(s)] if r.int(0, 1) else sorted({k % len(s) for k in r.dims(s) or []}) or None
    p = r.pick(2.0, 2.0, 1.0, 3.0, 0.5, 0.0, math.inf, -math.inf)
    if total(s) == 0 and p < 0 or p == math.inf and total(s) == 0:
        raise Skip
    x = r.t(s, 0.3, 2)
    return [x], [p, d, keep], lambda x: torch.linalg.vector_norm(x if p else x.detach(), p, d, keep)  # to count has no slope


@op("matmul", COMPLEX)
def _(r):
    m, k, n = r.sizes(FLOPS, (1, 6, *SIDES), (1, 6, *SIDES), (1, 6, *SIDES))
    a, b = (r.pick([k], [m, k], [2, m, k], [3, 1, m, k]), r.pick([k], [k, n], [2, k, n], [1, 2, k, n]))
    if len(a) == len(b) == 1 and r.dtype.is_complex:  # torch 1.13 makes 0 of numbers that lie in one place
        raise Skip
    return [r.t(a), r.t(b)], [], torch.matmul


op("outer", INTS + COMPLEX)(lambda r: (lambda n, m: ([r.t([n]), r.t([m])], [], torch.outer))(r.size(0, 9, 63, 257), r.size(1, 9, 65, 300)))


REDUCTIONS = ["none", "mean", "sum"]


def loss(name, f, more=None):
    """`more`: the name of a number behind the reduction."""
    def case(r):
        a, b = r.broadcast()
        red, number = r.int(0, 2), [r.pick(1.0, 0.25)] if more else []
        given = {more: n for n in number}
        return [r.t(a), r.t(b) + 0.5], [red, *number], lambda x, y: f(*torch.broadcast_tensors(x, y), reduction=REDUCTIONS[red], **given)
    op(name)(case)


loss("mse_loss", F.mse_loss)
loss("l1_loss", F.l1_loss)
loss("smooth_l1_loss", F.smooth_l1_loss, "beta")
loss("huber_loss", F.huber_loss, "delta")


@op("huber")
def _(r):
    a, b = r.broadcast()
    delta, scale = r.pick(0.5, 1.0, 1.5), r.pick(1.0, 0.7)
    return [r.t(a), r.t(b)], [delta, scale], lambda x, y: scale * F.huber_loss(*torch.broadcast_tensors(x, y), reduction="none", delta=delta)


@op("bce_each")
def _(r):
    a, b = r.broadcast()
    return [r.t(a, 0.1, 0.9), r.t(b, 0.1, 0.9)], [], lambda x, y: F.binary_cross_entropy(*torch.broadcast_tensors(x, y), reduction="none")


@op("binary_cross_entropy")
def _(r):
    s, red, weighed = r.shape(), r.int(0, 2), r.int(0, 1)
    w = [r.t(s, 0.5, 2)] if weighed else [None]
    return ([r.t(s, 0.1, 0.9), r.t(s, 0.1, 0.9).detach(), *w], [red],
            lambda x, y, w=None: F.binary_cross_entropy(x, y, w.detach() if w is not None else None, reduction=REDUCTIONS[red]))


@op("bce_with_logits")
def _(r):
    s, red, kind = r.shape(1), r.int(0, 2), r.int(0, 3)
    more = [r.t(s, 0.5, 2) if kind & 1 else None, r.t([s[-1]], 0.5, 2) if kind & 2 else None]

    def run(x, y, *given):
        given = iter(given)
        w, p = (next(given) if kind & bit else None for bit in (1, 2))
        return F.binary_cross_entropy_with_logits(x, y, w, reduction=REDUCTIONS[red], pos_weight=p)
    return [r.t(s), r.t(s, 0, 1), *more], [red], run


@op("kl_div")
def _(r):
    s, red, logs = r.shape(1), r.int(0, 3), bool(r.int(0, 1))
    if total(s) == 0 and red == 3:
        raise Skip
    return [r.t(s), r.t(s, 0.1, 1)], [red, logs], lambda x, y: F.kl_div(x, y, reduction=[*REDUCTIONS, "batchmean"][red], log_target=logs)


@op("gaussian_nll_loss")
def _(r):
    s, red, full = r.shape(1), r.int(0, 2), bool(r.int(0, 1))
    return [r.t(s), r.t(s), r.t(s, 0.25, 2)], [full, 1e-6, red], lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=full, reduction=REDUCTIONS[red])


@op("poisson_nll_loss")
def _(r):
    s, red, logs, full = r.shape(), r.int(0, 2), bool(r.int(0, 1)), bool(r.int(0, 1))
    y = r.t(s, 0.25, 4).detach()
    return [r.t(s, 0.25, 2), y + 1 if full else y], [logs, full, 1e-3, red], lambda x, y: F.poisson_nll_loss(
        x, y.detach() if full else y, log_input=logs, full=full, eps=1e-3, reduction=REDUCTIONS[red])


@op("cosine_similarity")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    a, b = r.t(s, 0.25, 2), r.t([1 if k != d % len(s) and r.int(0, 3) == 0 and n else n for k, n in enumerate(s)], 0.25, 2)
    return [a, b], [d, 1e-8], lambda x, y: ((x / x.norm(2, d, True)) * (y / y.norm(2, d, True))).sum(d)


@op("pairwise_distance")
def _(r):
    s, p, keep = r.shape(1, 3), r.pick(1.0, 2.0, 3.0), bool(r.int(0, 1))
    return [r.t(s), r.t(s) + 5], [p, 1e-6, keep], lambda x, y: torch.linalg.vector_norm(x - y + 1e-6, p, -1, keep)


@op("cosine_embedding_loss")
def _(r):
    n, k, red = r.size(1, 5), r.size(1, 6), r.int(0, 2)
    t = r.idx([n], 2) * 2 - 1
    return [r.t([n, k], 0.25, 2), r.t([n, k], 0.25, 2), t], [0.125, red], lambda x, y, t: F.cosine_embedding_loss(x, y, t, 0.125, reduction=REDUCTIONS[red])


@op("margin_ranking_loss")
def _(r):
    s, red = r.shape(), r.int(0, 2)
    return [r.t(s), r.t(s) + 0.3, r.t(s).sign().detach()], [0.5, red], lambda x, y, t: F.margin_ranking_loss(x, y, t, 0.5, reduction=REDUCTIONS[red])


@op("triplet_margin_loss")
def _(r):
    n, k, red, swap = r.size(1, 5), r.size(1, 6), r.int(0, 2), bool(r.int(0, 1))
    return ([r.t([n, k]), r.t([n, k]) + 3, r.t([n, k]) - 3], [2.0, 2.0, 1e-6, swap, red],
            lambda a, p, n: F.triplet_margin_loss(a, p, n, 2.0, 2, 1e-6, swap, reduction=REDUCTIONS[red]))


@op("cross_entropy")
def _(r):
    n, c = r.sizes(150000, (1, 5, 1, 63, 1025), (2, 6, 2, 10, 65, 1000))
    red, more = r.int(0, 2), r.pick([], [], [2], [3, 2])
    target = r.idx([n, *more], c)
    if n > 1 and r.int(0, 1):
        target[0] = -100
    weight = r.t([c], 0.5, 2).detach() if r.int(0, 1) else None
    return ([r.t([n, c, *more]), target, weight], [red, -100],
            lambda x, t, w=None: F.cross_entropy(x, t, w.detach() if w is not None else None, reduction=REDUCTIONS[red]))


@op("smoothed_cross_entropy")
def _(r):
    n, c = r.sizes(150000, (1, 5, 1, 63, 1025), (2, 6, 2, 10, 65, 1000))
    red, more, share = r.int(0, 2), r.pick([], [], [2]), r.pick(0.0, 0.25, 1.0)
    whole = bool(r.int(0, 1))
    target = r.idx([n, *more], c) if whole else r.t([n, c, *more], 0.1, 1).detach()
    weight = r.t([c], 0.5, 2).detach() if r.int(0, 1) else None
    return ([r.t([n, c, *more]), target, weight], [red, -100, share],
            lambda x, t, w=None: F.cross_entropy(x, t, w.detach() if w is not None else None, reduction=REDUCTIONS[red], label_smoothing=share))


@op("argsort")
def _(r):
    s = r.shape(1, 3)
    d, down = r.dim(s), bool(r.int(0, 1))
    return [r.distinct(s)], [d, down], lambda x: x.argsort(d, down)


@op("movedim", INTS)
def _(r):
    s = r.shape(1, 4)
    a, b = r.dim(s), r.dim(s)
    return [r.t(s)], [a, b], lambda x: x.movedim(a, b)


@op("narrow", INTS)
def _(r):
    s = r.shape(1, 4)
    d = r.dim(s)
    start = r.int(0, s[d])
    n = r.int(0, s[d] - start)
    return [r.t(s)], [d, start - s[d] if start and r.int(0, 1) else start, n], lambda x: x.narrow(d, start, n)


@op("flatten", INTS)
def _(r):
    s = r.shape(0, 4)
    a = r.int(0, max(len(s) - 1, 0))
    b = r.int(a, max(len(s) - 1, 0))
    return [r.t(s)], [a, b - max(len(s), 1)], lambda x: x.flatten(a, b)


@op("chunk", INTS)
def _(r):
    s = r.shape(1, 3, 7)
    n, d = r.int(1, 5), r.dim(s)
    return [r.t(s)], [n, d], lambda x: x.chunk(n, d)


op("t", INTS)(lambda r: (lambda s: ([r.t(s)], [], torch.t))(r.shape(0, 2)))

@op("trace", INTS)
def _(r):
    x = r.t([r.size(1, 6, 65, 300), r.size(1, 6, 63, 257)])
    return [x], [], lambda x: x.diagonal().sum()  # torch.trace has a slope beside the diagonal of tall ones


@op("count_nonzero", INTS + HALF)
def _(r):
    s = r.shape(1, 3)
    d = [r.dim(s)]
    return [r.t(s) * r.b(s).to(r.dtype)], [d], lambda x: x.count_nonzero(d)


def gaps(r, s, d):
    """Some are no numbers, but never all along a dimension."""
    none = torch.rand(s, generator=r.g) < 0.2
    none.narrow(d, 0, min(s[d], 1)).fill_(False)
    return r.t(s).masked_fill(none, math.nan)


for _name in "nansum", "nanmean":
    @op(_name)
    def _(r, name=_name):
        s, keep = r.shape(1, 3), bool(r.int(0, 1))
        d = [r.dim(s)]
        return [gaps(r, s, d[0])], [d, keep], lambda x: getattr(torch, name)(x, d, keep)

op("fliplr", INTS)(lambda r: (lambda s: ([r.t(s)], [], torch.fliplr))(r.shape(2, 4)))
op("flipud", INTS)(lambda r: (lambda s: ([r.t(s)], [], torch.flipud))(r.shape(1, 4)))
op("ravel", INTS)(lambda r: (lambda s: ([r.t(s)], [], torch.ravel))(r.shape()))
op("packed", INTS)(lambda r: (lambda s: ([r.t(s)], [], torch.Tensor.contiguous))(r.shape()))


@op("reshaped", INTS)
def _(r):
    s = r.shape(1, 4)
    to = [math.prod(s[:2]), *s[2:]] if r.int(0, 1) else [*s[:-1], 1, s[-1]]
    return [r.t(s)], [to], lambda x: x.reshape(to)


@op("addmv")
def _(r):
    m, n = r.sizes(1 << 18, (1, 9, 65, 300), (1, 9, 63, 257))
    b, a = r.pick(1, 0.5, 0), r.pick(1, 2)
    return [r.t(r.pick([m], [1])), r.t([m, n]), r.t([n])], [b, a], lambda x, y, z: torch.addmv(x, y, z, beta=b, alpha=a)


@op("baddbmm")
def _(r):
    n, m, k, p = r.sizes(FLOPS, (1, 3, 7), (1, 6, *SIDES), (1, 6, *SIDES), (1, 6, *SIDES))
    b, a = r.pick(1, 0.5, 0), r.pick(1, 2)
    return ([r.t(r.pick([n, m, p], [p], [m, 1])), r.t([n, m, k]), r.t([n, k, p])], [b, a],
            lambda x, y, z: torch.baddbmm(x, y, z, beta=b, alpha=a))


@op("tile", INTS)
def _(r):
    s, n = r.shape(1, 3), [r.int(1, 3) for _ in range(r.int(1, 3))]
    return [r.t(s)], [n], lambda x: x.tile(n)


@op("cross")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    s[d] = 3
    return [r.t(s), r.t(s)], [d], lambda x, y: torch.cross(x, y, d)


@op("tensordot")
def _(r):
    n, m = r.int(0, 2), r.int(0, 2)
    sizes = r.sizes(1 << 18, *[(1, 6, 1, 5, 33, 260)] * (n + m + r.int(0, 2)))  # all of left is beside all of right
    shared, left, right = sizes[:n], sizes[n:n + m], sizes[n + m:]
    x, y = [*left, *shared], [*shared, *right]
    d = list(range(len(left), len(x)))
    return [r.t(x), r.t(y)], [[k - len(x) if r.int(0, 1) else k for k in d], list(range(n))], lambda x, y: torch.tensordot(x, y, (d, list(range(n))))


@op("inner")
def _(r):
    m = r.int(0, 2)
    n, *sizes = r.sizes(1 << 18, *[(1, 6, 1, 5, 33, 260)] * (1 + m + r.int(0, 2)))
    x, y = [*sizes[:m], n], [*sizes[m:], n]
    if r.int(0, 4) == 0:
        y = []
    return [r.t(x), r.t(y)], [], torch.inner


@op("diag_embed", INTS + HALF)
def _(r):
    s, k = r.sizes(1 << 11, *[(1, 6, 1, 5, 33, 260)] * r.int(1, 3)), r.int(-2, 2)
    return [r.t(s)], [k], lambda x: torch.diag_embed(x, k)


@op("diag", INTS + HALF)
def _(r):
    k = r.int(-1, 1)
    return [r.t([r.int(2, 6) for _ in range(r.int(1, 2))])], [k], lambda x: torch.diag(x, k)


for _name in "vstack", "hstack", "column_stack":
    @op(_name, INTS)
    def _(r, name=_name):
        s = r.shape(0, 3)
        return [r.t(s) for _ in range(r.int(1, 3))], [], lambda *xs: getattr(torch, name)(xs)


@op("repeat_interleave", INTS)
def _(r):
    s, n = r.shape(0, 3), r.int(0, 3)
    d = r.pick(None, r.dim(s)) if s else None
    return [r.t(s)], [n, d], lambda x: x.repeat_interleave(n, d)


@op("aminmax", HALF)
def _(r):
    s = r.shape(1, 3)
    d, keep = r.dim(s), bool(r.int(0, 1))
    if s[d] == 0:
        raise Skip
    return [r.distinct(s)], [d, keep], lambda x: (x.amin(d, keep), x.amax(d, keep))


@op("median_dim", HALF)
def _(r):
    s = r.shape(0, 3)
    d, keep = r.dim(s), bool(r.int(0, 1))
    if s and s[d] == 0:
        raise Skip
    return [r.distinct(s)], [d, keep], lambda x: tuple(torch.median(x, d, keep))


@op("median", HALF)
def _(r):
    s = r.shape(0, 3)
    if total(s) == 0:
        raise Skip
    return [r.distinct(s)], [], torch.median


@op("quantile")
def _(r):
    s, keep = r.shape(0, 3), bool(r.int(0, 1))
    if total(s) == 0:
        raise Skip
    d, q = r.pick(None, r.dim(s)), r.t(r.pick([], [r.int(1, 6)]), 0.1, 0.9).detach()
    if (total(s) if d is None else s[d]) > 200:  # places between neighbours are as good as float32 has them
        raise Skip
    return [r.distinct(s), q], [d, keep], lambda x, q: torch.quantile(x, q.detach(), d, keep)


@op("diff", INTS + HALF)
def _(r):
    s, n = r.shape(1, 3), r.int(0, 3)
    d = r.dim(s)
    more = [r.pick(None, r.t([1 if k == d % len(s) else m for k, m in enumerate(s)])) for _ in range(2)]

    def run(x, *ends):
        ends = iter(ends)
        return torch.diff(x, n, d, *(None if m is None else next(ends) for m in more))
    return [r.t(s), *more], [n, d], run


@op("sum_squares", HALF)
def _(r):
    s = r.shape()
    dims, keep = r.dims(s), bool(r.int(0, 1))
    return [r.t(s)], [dims, keep], lambda x: x.square().sum(dims if dims is not None else list(range(x.ndim)), keep) if x.ndim else x.square()


@op("cumprod", INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s)], [d], lambda x: x.cumprod(d)


@op("linear_scan", COMPLEX)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    if s[d] > 400:
        raise Skip

    def recurrence(factor, x):
        steps = [torch.zeros_like(x.select(d, 0))] if s[d] else []
        for k in range(s[d]):
            steps.append(factor.select(d, k) * steps[-1] + x.select(d, k))
        return torch.stack(steps[1:], d) if s[d] else x + factor

    return [r.t(s, -1, 1), r.t(s)], [d], recurrence


@op("isclose", INTS)  # in halves torch rounds on the way
def _(r):
    a, b = r.broadcast()
    x, y = r.t(a), r.t(b)
    return [x, y], [0.5, 0.25, True], lambda x, y: torch.isclose(*torch.broadcast_tensors(x, y), 0.5, 0.25, True)


@op("take_along_dim", INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    if s[d] == 0:
        raise Skip
    at = r.idx([r.int(1, 4) if k == d % len(s) else m for k, m in enumerate(s)], s[d])
    flat = bool(r.int(0, 1)) and total(s) > 0
    return [r.t(s), at], [] if flat else [d], lambda x, i: torch.take_along_dim(x, i, None if flat else d)


@op("conv1d", [torch.int64, *COMPLEX])
def _(r):
    groups, k = r.pick(1, 1, 2), r.int(1, 3)
    ci, co = 2 * r.int(1, 2), 2 * r.int(1, 2)
    st, pad, dil = r.int(1, 2), r.int(0, 2), r.int(1, 2)
    x = r.t([*r.pick([], [2]), ci, r.int(6, 9)])
    return [x, r.t([co, ci // groups, k]), r.pick(None, r.t([co]))], [st, pad, dil, groups], lambda x, w, b=None: F.conv1d(x, w, b, st, pad, dil, groups)


@op("conv_transpose2d", [torch.int64, *COMPLEX])
def _(r):
    groups, k = r.pick(1, 1, 2), [r.int(1, 3), r.int(1, 3)]
    ci, co = 2 * r.int(1, 2), r.int(1, 3)
    st, pad, dil = [r.int(1, 3), r.int(1, 3)], [r.int(0, 1), r.int(0, 1)], [r.int(1, 2), r.int(1, 2)]
    more = [r.int(0, max(a, b) - 1) for a, b in zip(st, dil)]
    x = r.t([*r.pick([], [2]), ci, r.int(3, 5), r.int(3, 5)])
    return ([x, r.t([ci, co, *k]), r.pick(None, r.t([co * groups]))], [st, pad, more, groups, dil],
            lambda x, w, b=None: F.conv_transpose2d(x, w, b, st, pad, more, groups, dil))


@op("pixel_shuffle")
def _(r):
    n = r.int(1, 3)
    return [r.t([*r.shape(0, 2), r.int(1, 2) * n * n, r.int(1, 3), r.int(1, 3)])], [n], lambda x: F.pixel_shuffle(x, n)


@op("embedding_bag")
def _(r):
    n, d, mean = r.int(2, 6), r.int(1, 4), bool(r.int(0, 1))
    if r.int(0, 1):
        at, starts = r.idx([r.int(1, 4), r.int(1, 4)], n), None
    else:
        at, starts = r.idx([r.int(1, 8)], n), torch.tensor([0, 1, 1])
    weights = None if mean else r.pick(None, r.t(at.shape))

    def run(w, i, *rest):
        own = rest[-1] if weights is not None else None
        return F.embedding_bag(i, w, rest[0] if starts is not None else None, mode="mean" if mean else "sum", per_sample_weights=own)
    return [r.t([n, d]), at, starts, weights], [mean], run


def resampled(r, s, d, n, scale, mode, **more):
    """torch's, of a dimension moved to the end."""
    def run(x):
        x = x.movedim(d, -1)
        to = {"size": n} if scale is None else {"scale_factor": scale, "recompute_scale_factor": False}
        return F.interpolate(x.reshape(1, -1, x.shape[-1]), mode=mode, **to, **more).reshape(*x.shape[:-1], n).movedim(-1, d)
    return run


def resampling(r):
    s = [r.int(1, 5) for _ in range(r.int(1, 3))]
    d = r.dim(s)
    scale = r.pick(None, 0.5, 1.5, 2.0, 2.3)
    n = r.int(1, 9) if scale is None else math.floor(s[d] * scale)
    if n < 1 or (scale == 2.3 and n == 2 * s[d]):  # torch has it both ways, by the shape of all
        raise Skip
    return s, d, n, scale


@op("resample_nearest")
def _(r):
    s, d, n, scale = resampling(r)
    exact = bool(r.int(0, 1))
    return [r.t(s)], [d, n, scale, exact], resampled(r, s, d, n, scale, "nearest-exact" if exact else "nearest")


@op("resample_linear")
def _(r):
    s, d, n, scale = resampling(r)
    corners = bool(r.int(0, 1))
    return [r.t(s)], [d, n, scale, corners], resampled(r, s, d, n, scale, "linear", align_corners=corners)


@op("searchsorted", INTS)
def _(r):
    s, n, right = r.shape(0, 3), r.int(0, 9), bool(r.int(0, 1))
    return [r.t([n]).sort()[0], r.t(s)], [right], lambda x, y: torch.searchsorted(x, y, right=right)


@op("isin", INTS)
def _(r):
    x, y, invert = r.t(r.shape(0, 3)), r.t(r.shape(0, 2)), bool(r.int(0, 1))
    if y.numel() and x.numel():
        y.reshape(-1)[0] = x.reshape(-1)[0]
    return [x, y], [invert], lambda x, y: torch.isin(x, y, invert=invert)


# torch's own slopes of these two are those of float32, and others where the branches meet
op("hardsigmoid")(lambda r: ([r.t(r.shape(), -5, 8)], [], lambda x: F.relu6(x + 3) / 6))
op("hardswish")(lambda r: ([r.t(r.shape(), -5, 8)], [], lambda x: x * (F.relu6(x + 3) / 6)))
for _name in "relu6 logsigmoid selu softsign tanhshrink".split():
    op(_name)(lambda r, name=_name: ([r.t(r.shape(), -5, 8)], [], getattr(F, name)))
for _name in "celu", "softshrink", "hardshrink":
    op(_name)(lambda r, name=_name: (lambda a: ([r.t(r.shape(), -3, 3)], [a], lambda x: getattr(F, name)(x, a)))(r.pick(0.5, 1.0)))


@op("prelu")
def _(r):
    s = r.shape(1)
    w = r.t([r.pick(1, s[1] if len(s) > 1 else 1)], 0.1, 1)  # torch takes a vector for one channel
    if w.numel() == 0:
        raise Skip
    return [r.t(s), w], [], F.prelu


@op("scaled_below")
def _(r):
    a, b = r.broadcast()
    return [r.t(a), r.t(b, 0.1, 1)], [], lambda x, w: torch.where(x > 0, x, x * w)


@op("softmin")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    return [r.t(s)], [d], lambda x: F.softmin(x, d)


@op("glu")
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    s[d] *= 2
    return [r.t(s)], [d], lambda x: F.glu(x, d)


@op("group_norm")
def _(r):
    n, g, each, more = r.size(1, 3), r.size(1, 3), r.size(1, 3), r.pick([], [3], [2, 2])
    if each * total(more) < 2:
        raise Skip
    w, b = r.pick((None, None), (r.t([g * each], 0.5, 2), r.t([g * each])))
    return [r.distinct([n, g * each, *more]), w, b], [g, 0.125], lambda x, w=None, b=None: F.group_norm(x, g, w, b, 0.125)


@op("rms_norm")
def _(r):
    s = r.shape(1, 3)
    n = r.int(1, len(s))
    dims, w = list(range(-n, 0)), r.pick(None, r.t(s[-n:], 0.5, 2))
    return [r.t(s), w], [s[-n:], 0.125], lambda x, w=1: x * (x.square().mean(dims, True) + 0.125).rsqrt() * w


@op("normalize")
def _(r):
    s = r.shape(1, 3)
    d, p = r.dim(s), r.pick(1.0, 2.0, 3.0)
    return [r.t(s, 0.25, 2)], [p, d], lambda x: F.normalize(x, p, d)


def attention(r):
    """Query, key, value, a mask or None, and whether it is causal."""
    n, m, e, f = r.size(1, 4), r.size(1, 5), r.size(1, 4), r.size(1, 3)
    lead, kind = r.pick([], [2], [2, 3]), r.pick("none", "causal", "bool", "add")
    seen = r.b([n, m]) | (torch.arange(m) == 0)
    mask = {"bool": seen, "add": r.t([n, m])}.get(kind)
    return [r.t([*lead, n, e]), r.t([*lead, m, e]), r.t([*lead, m, f])], mask, kind == "causal"


def weights_of(q, k, mask, causal, scale):
    scores = q @ k.transpose(-2, -1) * (scale or q.shape[-1] ** -0.5)
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril() if causal else mask
    if seen is None:
        return scores.softmax(-1)
    return (scores.masked_fill(~seen, -math.inf) if seen.dtype == torch.bool else scores + seen).softmax(-1)


@op("attention_weights")
def _(r):
    (q, k, _), mask, causal = attention(r)
    scale = r.pick(None, 0.5)
    return [q, k, mask], [causal, scale], lambda q, k, m=None: weights_of(q, k, m, causal, scale)


@op("scaled_dot_product_attention")
def _(r):
    (q, k, v), mask, causal = attention(r)
    twice = q.dim() > 2 and bool(r.int(0, 1))
    q = torch.cat([q, q * 0.5], -3) if twice else q

    def run(q, k, v, m=None):
        k, v = (x.repeat_interleave(2, -3) if twice else x for x in (k, v))
        return weights_of(q, k, m, causal, None) @ v
    return [q, k, v, mask], [0.0, causal, None, twice], run

@op("tensor_split", INTS)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    at = [r.int(-7, 7) for _ in range(r.int(0, 4))]
    return [r.t(s)], [at, d], lambda x: torch.tensor_split(x, at, d)


@op("tensor_split_sections", INTS)
def _(r):
    s = r.shape(1, 3)
    d, n = r.dim(s), r.int(1, 8)
    return [r.t(s)], [n, d], lambda x: torch.tensor_split(x, n, d)


@op("broadcast_tensors", INTS)
def _(r):
    return [r.t(s) for s in r.broadcast(r.int(1, 4))], [], torch.broadcast_tensors


@op("meshgrid", INTS)
def _(r):
    xy = bool(r.int(0, 1))
    return [r.t(r.pick([], [r.int(0, 5)])) for _ in range(r.int(1, 4))], [xy], lambda *xs: torch.meshgrid(*xs, indexing="xy" if xy else "ij")


@op("one_hot")
def _(r):
    n = r.int(1, 6)
    return [r.idx(r.shape(0, 3), n).to(r.pick(torch.int64, torch.int32, torch.uint8))], [n], lambda x: F.one_hot(x.long(), n)


@op("bincount")
def _(r):
    n, m = r.size(1, 9, 1000), r.size(0, 20, 20000)
    return ([r.idx([m], n), r.pick(None, r.t([m]))], [n],
            lambda x, w=None: torch.bincount(x, minlength=n) if w is None else torch.zeros(n, dtype=w.dtype).index_add(0, x, w))


def different(wanted):
    """torch's results of these names, with gradients of the values, for the first of each."""
    def run(x):
        flat = x.flatten()
        values, inverse, counts = torch.unique(flat.detach(), return_inverse=True, return_counts=True)
        first = torch.full((len(values),), len(flat)).scatter_reduce(0, inverse, torch.arange(len(flat)), "amin")
        found = {"values": flat[first], "indices": first, "inverse": inverse.reshape(x.shape), "counts": counts}
        return [found[name] for name in wanted]
    return run


for _name, _wanted in {"unique": "values", "unique_counts": "values counts", "unique_inverse": "values inverse",
                       "unique_all": "values indices inverse counts"}.items():
    op(_name, INTS + HALF)(lambda r, f=different(_wanted.split()): ([torch.randint(0, 5, r.shape(0, 3), generator=r.g).to(r.dtype)], [], f))


def pictures(r):
    return [*r.pick([], [2]), r.int(1, 3), r.int(1, 7), r.int(1, 7)], [r.int(1, 5), r.int(1, 5)]


@op("adaptive_avg_pool2d", HALF)
def _(r):
    s, size = pictures(r)
    return [r.t(s)], [size], lambda x: F.adaptive_avg_pool2d(x, size)


@op("adaptive_avg_pool1d", HALF)
def _(r):
    s, size = pictures(r)
    return [r.t(s[:-1])], [size[0]], lambda x: F.adaptive_avg_pool1d(x, size[0])


@op("adaptive_max_pool2d", HALF)
def _(r):
    s, size = pictures(r)
    return [r.distinct(s)], [size], lambda x: F.adaptive_max_pool2d(x, size, True)


def equation(r):
    """A random equation, and shapes of its operands: labels that are shared, repeated, broadcast, left out of the result."""
    sizes = {c: r.int(1, 4) for c in "ijkAB"}
    wide = [r.int(1, 3) for _ in range(r.int(0, 2))]
    terms, shapes = [], []
    for _ in range(r.int(1, 3)):
        letters = [r.pick(*sizes) for _ in range(r.int(0, 3))]
        shape, dots = [sizes[c] for c in letters], bool(r.int(0, 2) == 0)
        shape = [1 if letters.count(c) == 1 and r.int(0, 7) == 0 else n for c, n in zip(letters, shape)]
        at = r.int(0, len(letters))
        terms.append("".join(letters[:at]) + "..." * dots + "".join(letters[at:]))
        shapes.append(shape[:at] + wide[r.int(0, len(wide)):] * dots + shape[at:])
    known = sorted({c for term in terms for c in term if c != "."})
    kept = [c for c in known if r.int(0, 1)]
    dotted = any("..." in term for term in terms) and r.int(0, 3) > 0
    result = r.pick("", " -> " + "".join(reversed(kept)) + "..." * dotted)
    return " ,".join(terms) + result, shapes


@op("einsum", COMPLEX)
def _(r):
    text, shapes = equation(r)
    return [r.t(s) for s in shapes], [text], lambda *xs: torch.einsum(text, *xs)


# Inputs whose values are not repeated: which of two alike is chosen is open, a variance of 0 magnifies every rounding, the
# powers of one number overflow, and what is written to must not overlap itself.
UNREPEATED = {"max_dim", "min_dim", "argmax", "argmin", "sort", "topk", "max_pool2d", "adaptive_max_pool2d", "layer_norm", "batch_norm",
              "argsort", "std", "norm", "aminmax", "median", "median_dim", "quantile", "cumprod"}
# Those of which more precision is another answer.
EXACT = {"nextafter", "view_dtype"}
# Inputs that must lie in memory as torch's copy of them does.
CONTIGUOUS = {"view", "as_strided", "view_dtype", "view_as_complex"}

# The last input that has a gradient.
DIFFERENTIABLE = {"batch_norm": 2, "nll_loss": 1, "cross_entropy": 1, "smoothed_cross_entropy": 1, "binary_cross_entropy": 1, "bce_with_logits": 2, "poisson_nll_loss": 1,
                  "margin_ranking_loss": 2, "quantile": 1}

# What has no counterpart, and why.
NO_COUNTERPART = {
    "empty": "uninitialised", "empty_strided": "uninitialised", "rand": "other numbers", "randn": "other numbers",
    "randint": "other numbers", "randperm": "other numbers", "bernoulli": "other numbers", "multinomial": "other numbers", "dropout": "other numbers",
    "dropout_backward": "other numbers", "layer_norm_backward": "reached through layer_norm",
    "batch_norm_backward": "reached through batch_norm", "nll_loss_backward": "reached through nll_loss",
    "max_pool2d_backward": "reached through max_pool2d", "avg_pool2d_backward": "reached through avg_pool2d",
    "sgd_step": "an optimizer's step", "adam_step": "an optimizer's step",
}
