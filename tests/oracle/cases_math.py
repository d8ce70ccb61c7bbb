"""Special functions, places, scans and shapes: what they are called in torch, and random calls. See cases.py."""

import math

import cases
import torch
from cases import COMPLEX, HALF, INTS, MORE, Skip, along, op, points, tensors, total, unary

BF = [torch.bfloat16]
cases.DIFFERENTIABLE["quantile_by"] = 1
cases.UNREPEATED |= {"kth", "kthvalue", "cummax", "cummin", "nanmedian_dim", "nanmedian", "nanquantile"}  # of equal elements any may be the one
NEW = torch.__version__ >= "2"

# ---- special functions, where torch is accurate itself: in float64, and what its kernels take

unary("lgamma", torch.lgamma, 0.2, 5, also=BF + INTS)
unary("digamma", torch.digamma, 0.3, 6, also=BF + INTS)
op("polygamma", BF)(lambda r: (lambda n: ([r.t(r.shape(), 0.5, 5)], [n], lambda x: torch.polygamma(n, x)))(r.int(1, 3)))
unary("erfinv", torch.erfinv, -0.95, 0.95, also=BF)
unary("sgn", lambda x: torch.sgn(x if x.is_complex() else x.detach()), also=HALF + INTS + COMPLEX)
unary("sinc", torch.sinc, 0.7, 2.7, also=BF)
unary("i0", torch.i0, also=BF + INTS)
unary("i0e", torch.special.i0e, 0.2, 12, also=BF + INTS)
unary("i1", torch.special.i1, also=INTS)
unary("i1e", torch.special.i1e, 0.2, 12, also=INTS)
unary("entr", torch.special.entr, 0.1, 3, also=HALF + INTS)
def ndtr(x):
    """In double where x is whole: torch loses digits of small results in float."""
    return torch.special.ndtr(x) if x.is_floating_point() else torch.special.ndtr(x.double()).float()


unary("ndtr", ndtr, also=INTS)
unary("ndtri", torch.special.ndtri, 0.02, 0.98, also=[])
unary("erfcx", torch.special.erfcx, -2, 5, also=INTS)
unary("log_ndtr", torch.special.log_ndtr, -4, 3, also=INTS)
unary("frac", torch.frac, 0.1, 0.9, also=HALF)
unary("deg2rad", torch.deg2rad, also=HALF + INTS)
unary("rad2deg", torch.rad2deg, also=HALF + INTS)
unary("angle", torch.angle, also=INTS + COMPLEX)
for _name in "isneginf isposinf".split():
    unary(_name, getattr(torch, _name), also=HALF + INTS + [torch.bool])
unary("isreal", torch.isreal, also=HALF + INTS + COMPLEX)
# torch's own are off by 1e-7 and more, so they are compared in float32; tests/python/core/test_math.py knows values of float64.
for _name, _lo, _hi in (("bessel_j0", -8, 8), ("bessel_j1", -8, 8), ("airy_ai", -2, 8), ("bessel_y0", 0.1, 8), ("bessel_y1", 0.1, 8)):
    MORE.append((_name, lambda r, f=getattr(torch.special, _name), lo=_lo, hi=_hi: ([r.t(r.shape(), lo, hi)], [], lambda x: f(x.detach())), [torch.float32]))
for _name in "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0".split():
    unary(_name, lambda x, f=getattr(torch.special, _name): f(x.detach()), 0.1, 9, also=[])
op("logit", HALF)(lambda r: (lambda eps: ([r.t(r.shape(), 0.05, 0.95)], [eps], lambda x: torch.logit(x, eps)))(r.pick(None, 0.25)))
op("mvlgamma", [])(lambda r: (lambda p: ([r.t(r.shape(), 2.1, 6)], [p], lambda x: torch.mvlgamma(x, p)))(r.int(1, 4)))
op("frexp", HALF)(lambda r: ([r.t(r.shape())], [], lambda x: tuple(torch.frexp(x))))
unary("frexp_mantissa", lambda x: torch.frexp(x)[0], also=HALF)
unary("frexp_exponent", lambda x: torch.frexp(x.detach())[1].to(x.dtype), also=HALF)


def two(name, f, lo, hi, lo2=None, hi2=None, also=()):
    """Of two tensors of one shape, with ranges of their own."""
    def case(r):
        s = r.shape()
        return [r.t(s, lo, hi), r.t(s, lo if lo2 is None else lo2, hi if hi2 is None else hi2)], [], f
    op(name, also)(case)


two("xlogy", torch.xlogy, 0.2, 3, also=HALF + INTS)
two("xlog1py", torch.special.xlog1py, 0.2, 3, also=INTS)
tensors("fmax", torch.fmax, 2, also=HALF + INTS)
tensors("fmin", torch.fmin, 2, also=HALF + INTS)
tensors("heaviside", lambda x, y: torch.heaviside(x.detach(), y.detach()), 2, also=HALF + INTS)
tensors("logaddexp2", torch.logaddexp2, 2, also=BF)
for _name in "gcd lcm".split():
    op(_name, [])(lambda r: (_ for _ in ()).throw(Skip()))
    MORE.append((_name, lambda r, f=getattr(torch, _name): (lambda s: ([r.t(s), r.t(s)], [], f))(r.shape()), INTS))
unary("angle_real", torch.angle, also=INTS)
op("ldexp_whole", [])(lambda r: (lambda s: ([r.t(s), r.idx(s, 7)], [], torch.ldexp))(r.shape()))
op("ldexp", [])(lambda r: (lambda s: ([r.t(s), r.idx(s, 7)], [], torch.ldexp))(r.shape()))
MORE.append(("float_power", lambda r: ([r.t(r.shape(), 0.5, 3), r.pick(2, 1.5)], [], torch.float_power), [torch.float64] + INTS))
op("rsub", INTS)(lambda r: (lambda s, a: ([r.t(s), r.t(s)], [a], lambda x, y: torch.rsub(x, y, alpha=a)))(r.shape(), r.pick(1, 2)))
for _name, _hi in (("chebyshev_polynomial_t", 2), ("chebyshev_polynomial_u", 2), ("hermite_polynomial_h", 2), ("hermite_polynomial_he", 2)):
    op(_name)(lambda r, f=getattr(torch.special, _name), hi=_hi: (lambda n: ([r.t(r.shape(), -0.9, hi), float(n)], [], lambda x, n: f(x.detach(), n)))(r.int(0, 6)))
for _name in "laguerre_polynomial_l legendre_polynomial_p".split():
    op(_name)(lambda r, f=getattr(torch.special, _name): (lambda n: ([r.t(r.shape(), -0.9, 0.9), float(n)], [], lambda x, n: f(x.detach(), n)))(r.int(0, 5)))


def once(name, f, lo, hi, lo2, hi2):
    """The order has no derivative: only the second is differentiated."""
    def case(r):
        a = torch.rand([], generator=r.g, dtype=torch.float64).item() * (hi - lo) + lo
        return [a, r.t(r.shape(), lo2, hi2)], [], lambda a, x: f(torch.tensor(a, dtype=x.dtype), x)
    op(name)(case)


once("igamma", torch.igamma, 0.5, 6, 0.2, 8)
once("igammac", torch.igammac, 0.5, 6, 0.2, 8)
once("zeta", torch.special.zeta, 1.5, 6, 0.5, 8)

# Where they have no value, no slope, or their limits.
SPECIAL = [0.0, -0.0, 1.0, -1.0, -2.0, 0.5, math.inf, -math.inf, math.nan, 1e-40, 1e-300, 40.0, -40.0, 1e30]
for _name, _f in {"lgamma": torch.lgamma, "digamma": torch.digamma, "erfinv": torch.erfinv, "i0": torch.i0, "i0e": torch.special.i0e, "i1": torch.special.i1, "i1e": torch.special.i1e,
                  "entr": torch.special.entr, "ndtr": torch.special.ndtr, "ndtri": torch.special.ndtri, "erfcx": torch.special.erfcx, "logit": torch.logit,
                  "frac": torch.frac, "deg2rad": torch.deg2rad, "angle": torch.angle}.items():
    _at = [v for v in SPECIAL if abs(v) < 100 or v != v] if _name in ("i0", "i1") else SPECIAL  # infinite there is NaN in torch
    MORE.append((_name, lambda r, f=_f, at=_at: ([points(r, *at)], [], lambda x: f(x.detach())), [torch.float32, torch.float64]))
for _name, _f in {"xlogy": torch.xlogy, "xlog1py": torch.special.xlog1py, "fmax": torch.fmax, "fmin": torch.fmin, "heaviside": torch.heaviside,
                  "logaddexp2": torch.logaddexp2}.items():
    def _case(r, f=_f):
        x = points(r, *SPECIAL[:9])
        return [x, x[torch.randperm(len(x), generator=r.g)]], [], lambda x, y: f(x.detach(), y.detach())
    MORE.append((_name, _case, [torch.float32, torch.float64]))
# On both sides of where one way of working it out gives way to another.
for _name, _lo, _hi in (("lgamma", -9, 60), ("digamma", -9, 60), ("i0", -60, 60), ("i1", -60, 60), ("erfcx", -6, 300), ("log_ndtr", -30, 9), ("erfinv", -1, 1), ("ndtri", 0, 1)):
    def _case(r, f=getattr(torch, _name, None) or getattr(torch.special, _name), lo=_lo, hi=_hi):
        return [r.t([40], lo, hi)], [], lambda x: f(x.detach())
    MORE.append((_name, _case, [torch.float64]))
for _name in "igamma igammac".split():
    def _case(r, f=getattr(torch, _name)):
        a = 10 ** r.t([30], -1.5, 2.5)
        a = torch.where((a > 20) & (a < 40), a / 2, a)  # where torch's series begins it is 3e-10 off; ours is not (by mpmath, 1e-16)
        return [a, a * r.t([30], 0.3, 2)], [], lambda a, x: f(a.detach(), x.detach())
    MORE.append((_name, _case, [torch.float64]))

# ---- places


def scattered(r):
    s, d, si = along(r)
    return s, d, si, r.idx(si, s[d])


@op("scatter_fold", HALF + INTS)
def _(r):
    s, d, si, i = scattered(r)
    how = r.int(0, 2)
    word = ("prod", "amax", "amin")[how]
    x, v = r.t(s, 0.5, 1.5), r.t(si, 0.5, 1.5)
    if not r.wide and r.dtype.is_floating_point and how == 0 and v.numel():
        v.reshape(-1)[0] = 0
    if how == 0 and r.wide:
        raise Skip
    return [x, i, v], [d, how], lambda x, i, v: x.scatter_reduce(d, i, v, word)


@op("scatter_reduce", INTS)
def _(r):
    s, d, si, i = scattered(r)
    how, own = r.int(0, 4), bool(r.int(0, 1))
    if r.wide and how == 1 or (how == 2 and not r.dtype.is_floating_point):
        how = 0
    word = ("sum", "prod", "mean", "amax", "amin")[how]
    return [r.t(s, 0.5, 1.5), i, r.t(si, 0.5, 1.5)], [d, how, own], lambda x, i, v: x.scatter_reduce(d, i, v, word, include_self=own)


@op("index_reduce", INTS)
def _(r):
    how, own = r.int(1, 4), bool(r.int(0, 1))
    if how == 2 and not r.dtype.is_floating_point:
        how = 3
    word = ("sum", "prod", "mean", "amax", "amin")[how]
    return [r.t([4, 3], 0.5, 1.5), r.idx([5], 4), r.t([5, 3], 0.5, 1.5)], [0, how, own], lambda x, i, v: x.index_reduce(0, i, v, word, include_self=own)


@op("index_copy", HALF + INTS)
def _(r):
    n, w = r.int(2, 6), r.int(1, 4)
    i = torch.randperm(n, generator=r.g)[:r.int(0, n)]
    return [r.t([w, n, 2]), i, r.t([w, len(i), 2])], [1], lambda x, i, v: x.index_copy(1, i, v)


@op("index_fill", HALF + INTS)
def _(r):
    n = r.int(1, 6)
    return [r.t([3, n]), r.idx([r.int(0, 4)], n), 2], [-1], lambda x, i, v: x.index_fill(-1, i, v)


@op("take_flat", HALF + INTS)
def _(r):
    s = r.shape(1, 3)
    if not total(s) or r.wide and r.dtype in HALF:
        raise Skip
    return [r.t(s), r.idx(r.shape(0, 2), total(s))], [], torch.take


@op("put_flat", INTS)
def _(r):
    s, add = r.shape(1, 3), bool(r.int(0, 1))
    n = total(s)
    if not n or r.wide:
        raise Skip
    i = r.idx([r.int(0, 5)], n) if add else torch.randperm(n, generator=r.g)[:r.int(0, n)]
    return [r.t(s), i, r.t([len(i)])], [add], lambda x, i, v: x.put(i, v, add)


@op("kth", HALF)
def _(r):
    s = r.shape(1, 3)
    d = r.dim(s)
    if not s[d]:
        raise Skip
    k = r.int(1, s[d])
    return [r.distinct(s)], [d, k], lambda x: tuple(x.kthvalue(k, d))


@op("kthvalue", HALF)
def _(r):
    s = r.shape(1, 3)
    d, keep = r.dim(s), bool(r.int(0, 1))
    if not s[d]:
        raise Skip
    k = r.int(1, s[d])
    return [r.distinct(s)], [k, d, keep], lambda x: tuple(x.kthvalue(k, d, keep))


@op("mode_dim", INTS)
def _(r):
    s = r.shape(1, 3)
    d, keep = r.dim(s), bool(r.int(0, 1))
    if not total(s) or r.wide:
        raise Skip
    return [r.idx(s, 3).to(r.dtype)], [d, keep], lambda x: tuple(x.mode(d, keep))


if NEW:
    op("nonzero_static", INTS)(lambda r: (lambda n: ([r.b(r.shape(1, 3)).to(r.dtype)], [n, -1], lambda x: torch.nonzero_static(x.detach(), size=n)))(r.int(0, 9)))
op("unravel_index")(lambda r: ([r.idx([r.int(0, 5)], 24)], [[2, 3, 4]], lambda x: (x // 12, x // 4 % 3, x % 4)))


@op("diagonal_scatter", INTS)
def _(r):
    s, o = r.shape(2, 3, 5, 2), r.int(-1, 1)
    return [r.t(s), r.t(list(torch.diagonal(torch.empty(s), o, -2, -1).shape))], [o, -2, -1], lambda x, v: torch.diagonal_scatter(x, v, o, -2, -1)


op("as_strided_scatter")(lambda r: ([r.t([3, 4]), r.t([2, 2])], [[2, 2], [4, 2], 1], lambda x, v: torch.as_strided_scatter(x.detach().contiguous(), v, [2, 2], [4, 2], 1)))
op("unique_runs", INTS)(lambda r: ([r.idx(r.shape(1, 2), 2).to(r.dtype)], [], lambda x: torch.unique_consecutive(x.detach(), return_inverse=True, return_counts=True)))
op("slice_ranks", INTS)(lambda r: (lambda s, d: ([r.idx(s, 2).to(r.dtype)], [d], lambda x: torch.unique(x.detach().movedim(d, 0), dim=0, return_inverse=True)[1]))([r.int(1, 5), r.int(1, 4), r.int(1, 4)], r.int(0, 2)))
op("msort", INTS)(lambda r: ([r.t(r.shape(1, 3))] if not r.dtype.is_floating_point else [r.distinct(r.shape(1, 3))], [], torch.msort))
op("round_decimals")(lambda r: (lambda n: ([r.t(r.shape(), -50, 50)], [n], lambda x: torch.round(x, decimals=n)))(r.int(-1, 3)))

MORE.append(("searchsorted", lambda r: (lambda s, n, right: ([torch.sort(r.t(s + [n])).values, r.t(s + [3])], [right], lambda v, x: torch.searchsorted(v, x, right=right)))(
    [r.int(1, 3)], r.int(1, 9), bool(r.int(0, 1))), [torch.float32, torch.int64]))

# ---- scans, statistics

for _name in "cummax cummin".split():
    def _case(r, name=_name):
        s = r.shape(1, 3)
        d = r.dim(s)
        return [r.distinct(s)], [d], lambda x: tuple(getattr(x, name)(d))
    op(_name, HALF + INTS)(_case)

    def _case(r, name=_name):
        x = points(r, 1.0, 2.0, 2.0, math.nan, -math.inf, math.inf, 0.0)
        return [x], [0], lambda x: tuple(getattr(x.detach(), name)(0))
    MORE.append((_name, _case, [torch.float32, torch.float64]))
op("logcumsumexp", BF)(lambda r: (lambda s: (lambda d: ([r.t(s)], [d], lambda x: x.logcumsumexp(d)))(r.dim(s)))(r.shape(1, 3)))
MORE.append(("logcumsumexp", lambda r: ([points(r, 1.0, -math.inf, 800.0, math.inf, 0.0)], [0], lambda x: x.detach().logcumsumexp(0)), [torch.float32, torch.float64]))


def holes(r, s):
    x = r.distinct(s)
    x[r.b(s)] = math.nan
    return x


@op("nanmedian_dim")
def _(r):
    s = r.shape(1, 3)
    d, keep = r.dim(s), bool(r.int(0, 1))
    if not total(s):
        raise Skip
    return [holes(r, s).detach()], [d, keep], lambda x: (x.detach().nanmedian(d, keep)[0], torch.where(x.detach().isnan().all(d, keep), 0, x.detach().nanmedian(d, keep)[1]))


op("nanmedian")(lambda r: ([holes(r, r.shape(1, 3))], [], lambda x: x.detach().nanmedian()))
for _name in "quantile_by nanquantile".split():
    def _case(r, name=_name.removesuffix("_by")):
        s, how = r.shape(1, 3), r.int(0, 4)
        d, keep = r.pick(None, r.dim(s)), bool(r.int(0, 1))
        if not total(s) or r.wide:
            raise Skip
        word = ("linear", "lower", "higher", "midpoint", "nearest")[how]
        x = r.distinct(s) if name == "quantile" else holes(r, s)
        q = torch.rand(r.pick([], [3]), generator=r.g, dtype=torch.float64).to(r.dtype)
        if r.dtype.is_floating_point and name == "nanquantile":
            return [x, q], [d, keep, how], lambda x, q: getattr(torch, name)(x.detach(), q.detach(), d, keep, interpolation=word)
        return [x, q.detach()], [d, keep, how], lambda x, q: getattr(torch, name)(x, q.detach(), d, keep, interpolation=word)
    MORE.append((_name, _case, [torch.float32, torch.float64]))


@op("trapezoid")
def _(r):
    s = r.shape(1, 3, 5, 1)
    d = r.dim(s)
    if r.int(0, 1):
        return [r.t(s), r.t([s[d]])], [1.0, d], lambda y, x: torch.trapezoid(y, x, dim=d)
    return [r.t(s), None], [0.5, d], lambda y, x=None: torch.trapezoid(y, dx=0.5, dim=d)


@op("cumulative_trapezoid")
def _(r):
    s = r.shape(1, 3, 5, 2)
    d = r.dim(s)
    return [r.t(s), None], [0.5, d], lambda y, x=None: torch.cumulative_trapezoid(y, dx=0.5, dim=d)


op("histc")(lambda r: (lambda lo, hi: ([r.t(r.shape(1, 2))], [7, lo, hi], lambda x: torch.histc(x.detach(), 7, lo, hi)))(*r.pick((0.0, 0.0), (-1.0, 1.5))))
op("dist")(lambda r: (lambda s, p: ([r.t(s, 0.2, 2), r.t(s, 2.2, 3)], [p], lambda x, y: torch.dist(x, y, p)))(r.shape(1, 3), r.pick(2.0, 1.0, 3.0)))
op("renorm")(lambda r: (lambda s, p: ([r.t(s, 0.2, 2)], [p, 0, 1.5], lambda x: torch.renorm(x, p, 0, 1.5)))(r.shape(2, 3, 4, 1), r.pick(2.0, 1.0)))


@op("gradient_along")
def _(r):
    edge = r.int(1, 2)
    s = [r.int(1, 3), r.int(edge + 1, 7), r.int(1, 3)]
    if r.int(0, 1):
        at = torch.sort(r.t([s[1]])).values.detach() + torch.arange(s[1]).to(r.dtype)
        return [r.t(s), at], [1, 1.0, edge], lambda x, at: torch.gradient(x, spacing=(at.detach(),), dim=1, edge_order=edge)[0]
    return [r.t(s), None], [1, 0.5, edge], lambda x, at=None: torch.gradient(x, spacing=0.5, dim=1, edge_order=edge)[0]


# ---- shapes

op("block_diag", INTS)(lambda r: ([r.t([r.int(0, 3), r.int(0, 3)]) for _ in range(r.int(1, 3))], [], lambda *xs: torch.block_diag(*xs)))
op("diagflat", INTS)(lambda r: (lambda k: ([r.t([r.int(1, 3), 2])], [k], lambda x: torch.diagflat(x, k)))(r.int(-2, 2)))
op("rot90", INTS)(lambda r: (lambda s, k: ([r.t(s)], [k, [0, 1]], lambda x: torch.rot90(x, k, [0, 1])))(r.shape(2, 3), r.int(-5, 5)))
op("dstack")(lambda r: (lambda s: ([r.t(s) for _ in range(r.int(1, 3))], [], lambda *xs: torch.dstack(xs)))(r.shape(0, 3)))
op("cartesian_prod")(lambda r: ([r.t([r.int(1, 3)]) for _ in range(r.int(1, 3))], [], lambda *xs: torch.cartesian_prod(*xs)))
op("adjoint", COMPLEX)(lambda r: ([r.t(r.shape(2, 3))], [], lambda x: torch.adjoint(x).resolve_conj()))
