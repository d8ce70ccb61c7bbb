"""Factorizations, what is solved with them, and what is made of both. Where vectors have no sign of their own (svd, eigh, eig), values are
compared here, and what they were made of in tests/python/core/test_linalg.py."""

import math

import torch
from cases import COMPLEX, INTS, NO_COUNTERPART, UNREPEATED, op

# Sizes of matrices: small ones, and those around LAPACK's blocks.
SIDE = (0, 6, 1, 31, 33, 63, 65, 70)
BATCH = ([], [], [2], [2, 1], [0])


def lead(r):
    return list(r.pick(*BATCH))


def well(r, *shape):
    """Matrices that are far from singular, also in float32."""
    x = r.t(list(shape), -1.0, 1.0)
    return x + torch.eye(shape[-2], shape[-1], dtype=x.dtype) * (2 + min(shape[-2:]) ** 0.5 * 2)


def square(r, n=None):
    n = r.size(*SIDE) if n is None else n
    return well(r, *lead(r), n, n)


def definite(r, n=None):
    x = square(r, n) * 0.5
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


def info(x):
    return torch.zeros(x.shape[:-2], dtype=torch.int32)


for _name in ("linalg_cholesky", "linalg_cholesky_ex"):
    @op(_name, COMPLEX)
    def _(r, ex=_name.endswith("ex")):
        x, upper = definite(r), bool(r.int(0, 1))

        def run(x):  # torch's gradient is not Hermitian
            f = torch.linalg.cholesky((x + x.mH) / 2, upper=upper)
            return (f, info(x)) if ex else f
        return [x], [upper], run


def tall(r):
    m, n = r.size(*SIDE), r.size(*SIDE)
    return well(r, *lead(r), m, n)


@op("linalg_lu_factor_ex", COMPLEX)
def _(r):
    return [tall(r)], [], lambda x: tuple(torch.linalg.lu_factor_ex(x))


@op("linalg_lu_factor", COMPLEX)
def _(r):
    return [tall(r)], [], lambda x: tuple(torch.linalg.lu_factor(x))


@op("linalg_lu", COMPLEX)
def _(r):
    return [tall(r)], [], lambda x: tuple(torch.linalg.lu(x))


@op("lu_unpack", COMPLEX)
def _(r):
    f, p = torch.linalg.lu_factor(tall(r))
    return [f, p], [], lambda f, p: tuple(torch.lu_unpack(f, p))


@op("linalg_lu_solve", COMPLEX)
def _(r):
    f, p = torch.linalg.lu_factor(square(r))
    left, adjoint, n, k = bool(r.int(0, 1)), bool(r.int(0, 1)), f.shape[-1], r.int(0, 4)
    return ([f, p, r.t([*f.shape[:-2], *([n, k] if left else [k, n])])], [left, adjoint],
            lambda f, p, y: torch.linalg.lu_solve(f, p, y, left=left, adjoint=adjoint))


@op("linalg_solve_triangular", COMPLEX)
def _(r):
    n, k, upper, left, unit = r.size(*SIDE), r.size(0, 4, 1, 40), *(bool(r.int(0, 1)) for _ in range(3))
    x = well(r, *lead(r), n, n)
    x = x / x.abs().sum(-1, True).clamp(1) * 2 + torch.eye(n, dtype=x.dtype)
    y = r.t([*r.pick([], list(x.shape[:-2])), *([n, k] if left else [k, n])])
    return [x, y], [upper, left, unit], lambda x, y: torch.linalg.solve_triangular(x, y, upper=upper, left=left, unitriangular=unit)


@op("linalg_inv", COMPLEX)
def _(r):
    return [square(r)], [], torch.linalg.inv


@op("linalg_inv_ex", COMPLEX)
def _(r):
    return [square(r)], [], lambda x: tuple(torch.linalg.inv_ex(x))


def system(r):
    x, k, left = square(r), r.size(0, 4, 1, 40), r.int(0, 2) > 0
    n, batch = x.shape[-1], list(x.shape[:-2])
    if r.int(0, 2) == 0:
        return x, r.t(batch + [n]), True
    return x, r.t(r.pick([], batch) + ([n, k] if left else [k, n])), left


@op("linalg_solve", COMPLEX)
def _(r):
    x, y, left = system(r)
    return [x, y], [left], lambda x, y: torch.linalg.solve(x, y, left=left)


@op("linalg_solve_ex", COMPLEX)
def _(r):
    x, y, left = system(r)
    return [x, y], [left], lambda x, y: (torch.linalg.solve(x, y, left=left), info(x))


def small(r):
    """Determinants stay in range."""
    x = square(r)
    return x / (2 + x.shape[-1] ** 0.5 * 2)


op("linalg_det", COMPLEX)(lambda r: ([small(r)], [], torch.linalg.det))
op("linalg_slogdet", COMPLEX)(lambda r: ([square(r)], [], lambda x: tuple(torch.linalg.slogdet(x))))


@op("linalg_det_lu", COMPLEX)
def _(r):
    return [small(r)], [], lambda x: (torch.linalg.det(x), *(t.detach() for t in torch.linalg.lu_factor(x)))


@op("linalg_slogdet_lu", COMPLEX)
def _(r):
    return [square(r)], [], lambda x: (*torch.linalg.slogdet(x), *(t.detach() for t in torch.linalg.lu_factor(x)))


@op("logdet")
def _(r):
    return [definite(r)], [], torch.logdet


@op("linalg_qr", COMPLEX)
def _(r):
    x, mode = tall(r), r.int(0, 2)
    words = ["reduced", "complete", "r"][mode]
    if mode == 2 or mode == 1 and x.shape[-2] > x.shape[-1]:
        return [x], [mode], lambda x: tuple(torch.linalg.qr(x.detach(), words))
    return [x], [mode], lambda x: tuple(torch.linalg.qr(x, words))


@op("geqrf", COMPLEX)
def _(r):
    return [tall(r)], [], lambda x: tuple(torch.geqrf(x.detach()))


def reflectors(r):
    n = r.size(*SIDE)
    return torch.geqrf(well(r, *lead(r), n + r.int(0, 5), n))


@op("linalg_householder_product", COMPLEX)
def _(r):
    return list(reflectors(r)), [], lambda x, tau: torch.linalg.householder_product(x.detach(), tau.detach())


@op("ormqr", COMPLEX)
def _(r):
    x, tau = reflectors(r)
    left, turned, k = bool(r.int(0, 1)), bool(r.int(0, 1)), r.int(0, 4)
    y = r.t([*x.shape[:-2], *([x.shape[-2], k] if left else [k, x.shape[-2]])])
    return [x, tau, y], [left, turned], lambda x, tau, y: torch.ormqr(x.detach(), tau.detach(), y.detach(), left, turned)


def spread(r, m=None, n=None):
    """Singular values (eigenvalues, where it is Hermitian) apart from each other: their slopes are not far from those of others."""
    m, n = (r.size(0, 6, 1, 20, 40) if k is None else k for k in (m, n))
    b, k = lead(r), min(m, n)
    u, v = (torch.linalg.qr(r.t([*b, s, s], -1.0, 1.0) + torch.eye(s, dtype=r.dtype))[0] for s in (m, n))
    return (u[..., :k] * torch.linspace(1, 1 + k / 2, k, dtype=u.real.dtype)) @ v[..., :k].mH


op("linalg_svdvals", COMPLEX)(lambda r: ([spread(r)], [], torch.linalg.svdvals))


def hermitian(r):
    x = spread(r, n := r.size(0, 6, 1, 20, 40), n)
    q = torch.linalg.qr(x)[0] if n else x
    signs = 1 - 2 * (torch.arange(n) % 2)
    return (q * torch.linspace(1, 1 + n / 2, n, dtype=q.real.dtype) * signs) @ q.mH


@op("linalg_eigvalsh", COMPLEX)
def _(r):
    upper = bool(r.int(0, 1))
    return [hermitian(r)], [upper], lambda x: torch.linalg.eigvalsh(x, "U" if upper else "L")


@op("linalg_pinv", COMPLEX)
def _(r):
    if r.int(0, 3) == 0:
        return [hermitian(r)], [None, None, True], lambda x: torch.linalg.pinv(x, hermitian=True)
    a, t = r.pick((None, None), (None, 1e-3), (1e-3, None), (1e-2, 1e-3))
    return [spread(r)], [a, t], lambda x: torch.linalg.pinv(x, **({} if a is None else {"atol": a}), **({} if t is None else {"rtol": t}))


@op("linalg_lstsq_ex", COMPLEX)
def _(r):
    x = spread(r, r.int(1, 6), r.int(1, 6))
    y = r.t([*x.shape[:-1], r.int(1, 4)])
    driver = r.int(0, 1)

    def run(x, y):
        f = torch.linalg.lstsq(x, y, driver=["gelsy", "gelsd"][driver])
        return f.solution, f.rank.long(), f.singular_values
    return [x, y], [None, driver], run


@op("linalg_lstsq", COMPLEX)
def _(r):
    x = spread(r, r.int(1, 6), r.int(1, 6))
    y = r.t([*x.shape[:-1], r.int(1, 4)])

    def run(x, y):
        f = torch.linalg.lstsq(x, y, driver="gelsd")
        more = x.shape[-2] > x.shape[-1]
        return f.solution, (x @ f.solution - y).abs().square().sum(-2) if more else torch.zeros(0, dtype=x.real.dtype), f.rank.long(), f.singular_values
    return [x, y], [None, 1], run


@op("linalg_ldl_factor_ex", COMPLEX)
def _(r):
    h = bool(r.int(0, 1))
    x = hermitian(r)
    x = x if h or not r.dtype.is_complex else x + x.mT
    return [x], [h], lambda x: tuple(torch.linalg.ldl_factor_ex(x.detach(), hermitian=h))


@op("linalg_ldl_solve", COMPLEX)
def _(r):
    x = hermitian(r)
    f, p = torch.linalg.ldl_factor(x, hermitian=True)
    return [f, p, r.t([*x.shape[:-1], r.int(0, 4)])], [True], lambda f, p, y: torch.linalg.ldl_solve(f.detach(), p, y.detach(), hermitian=True)


@op("linalg_matrix_exp", COMPLEX)
def _(r):
    n = r.size(0, 6, 1, 17, 33, 65)
    x = r.t([*lead(r), n, n], -1.0, 1.0) * r.pick(1e-3, 0.05, 0.3, 1.0) * r.pick(1.0, 2.0) / max(n, 1) ** 0.5
    return [x], [], torch.linalg.matrix_exp


@op("linalg_tensorinv", COMPLEX)
def _(r):
    return [well(r, 6, 6).reshape(r.pick([2, 3, 6], [2, 3, 3, 2], [3, 2, 6]))], [2], torch.linalg.tensorinv


@op("linalg_tensorsolve", COMPLEX)
def _(r):
    d, x = r.pick(None, [1]), well(r, 6, 6)
    if d is None:
        return [x.reshape(2, 3, 2, 3), r.t([2, 3])], [None], torch.linalg.tensorsolve
    return [x.reshape(2, 3, 6).movedim(-1, 1).contiguous(), r.t([2, 3])], [d], lambda x, y: torch.linalg.tensorsolve(x, y, d)


@op("linalg_multi_dot", COMPLEX)
def _(r):
    n = r.int(2, 5)
    sizes = [r.int(1, 6) for _ in range(n + 1)]
    shapes = [[sizes[i], sizes[i + 1]] for i in range(n)]
    if r.int(0, 2) == 0:
        shapes[0] = shapes[0][1:]
    if r.int(0, 2) == 0:
        shapes[-1] = shapes[-1][:1]
    return [r.t(s) for s in shapes], [], lambda *xs: torch.linalg.multi_dot(xs)


def one_triangle(f, upper):
    """torch has a gradient for the other one, too."""
    return f.triu() if upper else f.tril()


@op("cholesky_solve", COMPLEX)
def _(r):
    f, upper = torch.linalg.cholesky(definite(r)), bool(r.int(0, 1))
    return [r.t([*f.shape[:-1], r.int(0, 4)]), f.mH.contiguous() if upper else f], [upper], lambda x, f: torch.cholesky_solve(x, one_triangle(f, upper), upper)


@op("cholesky_inverse", COMPLEX)
def _(r):
    f, upper = torch.linalg.cholesky(definite(r)), bool(r.int(0, 1))
    return [f.mH.contiguous() if upper else f], [upper], lambda f: torch.cholesky_inverse(one_triangle(f, upper), upper)


@op("linalg_matrix_norm", COMPLEX)
def _(r):
    p, keep = r.pick(1.0, -1.0, 2.0, -2.0, math.inf, -math.inf), bool(r.int(0, 1))
    if abs(p) == 2:
        return [spread(r, r.int(1, 5), r.int(1, 5))], [p, [-2, -1], keep], lambda x: torch.linalg.matrix_norm(x, p, (-2, -1), keep)
    d = r.pick([-2, -1], [0, 2], [2, 1])
    return [r.t([r.int(1, 5), r.int(1, 5), r.int(1, 5)], 0.5, 3)], [p, d, keep], lambda x: torch.linalg.matrix_norm(x, p, d, keep)


@op("linalg_matrix_rank", COMPLEX)
def _(r):
    x = spread(r, r.int(1, 5), r.int(1, 5))
    if r.int(0, 1):
        return [x @ (x.mH @ x)], [], torch.linalg.matrix_rank
    # What the product rounds may be more than the default tolerance of one.
    return [x[..., :1] @ x[..., :1, :]], [None, 1e-4], lambda x: torch.linalg.matrix_rank(x, rtol=1e-4)


@op("linalg_cond", COMPLEX)
def _(r):
    p = r.pick(1.0, -1.0, 2.0, -2.0, math.inf)
    return [well(r, *r.pick([], [2]), *[r.int(1, 5)] * 2)], [p], lambda x: torch.linalg.cond(x, p)


@op("linalg_matrix_power", COMPLEX)
def _(r):
    x, n = square(r, r.int(1, 4)), r.int(-4, 6)
    return [x / 3], [n], lambda x: torch.linalg.matrix_power(x if n else x.detach(), n)


@op("linalg_vander", COMPLEX)
def _(r):
    n = r.pick(None, 1, 2, 5)
    return [r.t([r.int(2, 6) for _ in range(r.int(1, 3))], 0.5, 1.5)], [n], lambda x: torch.linalg.vander(x, N=n) if n != 1 else torch.ones_like(x).unsqueeze(-1)


@op("linalg_vecdot", COMPLEX)
def _(r):
    s = [r.int(1, 6) for _ in range(r.int(1, 3))]
    d = r.dim(s)
    return [r.t(s), r.t(s)], [d], lambda x, y: (x.conj() * y).sum(d)


@op("vdot", COMPLEX)
def _(r):
    n = r.size(0, 9, 255, 300)
    return [r.t([n]), r.t([n])], [], lambda x, y: (x.conj() * y).sum()  # torch 1.13 makes 0 of complex ones


@op("kron", INTS + COMPLEX)
def _(r):
    return [r.t([r.int(0 if r.int(0, 9) == 0 else 1, 4) for _ in range(r.int(0, 3))]) for _ in range(2)], [], torch.kron


@op("addr", COMPLEX)
def _(r):
    n, m, b, a = r.int(0, 5), r.int(0, 5), r.pick(0, 1, 2), r.pick(1, 3)
    return [r.t(r.pick([], [m], [n, m])), r.t([n]), r.t([m])], [b, a], lambda x, u, v: torch.addr(x.expand(n, m), u, v, beta=b, alpha=a)


@op("addbmm", COMPLEX)
def _(r):
    k, n, m, p, b, a = r.int(1, 3), *(r.int(1, 5) for _ in range(3)), r.pick(0, 1, 2), r.pick(1, 3)
    return [r.t(r.pick([p], [n, p])), r.t([k, n, m]), r.t([k, m, p])], [b, a], lambda x, y, z: torch.addbmm(x, y, z, beta=b, alpha=a)


@op("cov", COMPLEX)
def _(r):
    n = r.int(3, 8)
    f, w, c = r.pick(None, torch.arange(1, n + 1)), r.pick(None, torch.linspace(0.5, 2, n, dtype=r.t([1]).real.dtype)), r.int(0, 1)

    def run(x, *rest):
        rest = list(rest)
        return torch.cov(x, correction=c, fweights=rest.pop(0) if f is not None else None, aweights=rest.pop(0).detach() if w is not None else None)
    return [r.t([*r.pick([], [3]), n]), f, w], [c], run


@op("corrcoef", COMPLEX)
def _(r):
    return [r.t([3, r.int(4, 8)]) + torch.eye(3, 1, dtype=r.dtype)], [], torch.corrcoef


@op("cdist")
def _(r):
    b, p, n = lead(r), r.pick(2.0, 1.0, 3.0, math.inf, 0.0), r.int(1, 5)
    x, y = r.distinct([*b, r.int(1, 5), n]), r.distinct([*b, r.int(1, 5), n]) * 1.37 + 0.1
    return [x, y], [p], lambda x, y: torch.cdist(x, y, p) if p else torch.cdist(x.detach(), y.detach(), p)


@op("euclidean_dist")
def _(r):
    b, k = r.int(0, 3), r.size(1, 6, 1, 255, 256, 257)
    x, y = r.distinct([b, r.size(0, 5, 1, 3, 63, 64, 65), k]), r.distinct([b, r.size(0, 5, 15, 16, 17), k]) * 1.37 + 0.1
    return [x, y], [], lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


@op("lu_permutation")
def _(r):
    n = r.int(1, 6)
    pivots = torch.stack([torch.randint(i, n, (3,), generator=r.g) for i in range(n)], -1).int() + 1

    def run(p):
        order = torch.arange(n).repeat(3, 1)
        for row, ps in zip(order, p.tolist()):
            for i, k in enumerate(ps):
                row[i], row[k - 1] = row[k - 1].item(), row[i].item()
        return order
    return [pivots], [n], run


NO_COUNTERPART.update({name: "no sign of their own: tests/python/core/test_linalg.py" for name in ("linalg_svd", "linalg_eigh", "linalg_eig", "linalg_eigvals")})
UNREPEATED |= {name for name in ("linalg_cholesky", "linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_lu_factor", "linalg_lu", "lu_unpack", "linalg_lu_solve", "linalg_solve_triangular",
                                 "linalg_inv", "linalg_inv_ex", "linalg_solve", "linalg_solve_ex", "linalg_det", "linalg_slogdet", "linalg_det_lu", "linalg_slogdet_lu", "logdet",
                                 "linalg_qr", "geqrf", "linalg_householder_product", "ormqr", "linalg_svdvals", "linalg_eigvalsh", "linalg_pinv", "linalg_lstsq_ex", "linalg_lstsq",
                                 "linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_matrix_exp", "linalg_tensorinv", "linalg_tensorsolve", "cholesky_solve", "cholesky_inverse",
                                 "linalg_matrix_norm", "linalg_matrix_rank", "linalg_cond", "linalg_matrix_power", "cov", "corrcoef", "cdist", "lu_permutation")}
