"""torch.linalg's functions: names, argument orders and results are PyTorch's. The last two dimensions are a matrix, those before count matrices.

    import tensord as td
    td.linalg.solve(a, b)
    q, r = td.linalg.qr(a)

A matrix without the factors that are asked for is a tensord.linalg.LinAlgError at the call, as in PyTorch: what may fail so waits for its result
(some 12 us more for a small one). What ends with _ex tells it in `info` instead, and waits for nothing; nor does what a program (tensord.jit) holds,
whose errors come when its results are looked at. Several results have names, as in PyTorch.
"""

import math as _math
from typing import Any, NamedTuple

from tensord import _C
from tensord.core import _overloads
from tensord._C import LinAlgError as LinAlgError, Tensor
from tensord._C import ops as _ops

__all__ = ["LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex",
           "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm",
           "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
           "tensorsolve", "vander", "vecdot", "vector_norm"]

_is, _written, _exactly, _also = _C.is_tensor, _overloads._written, _overloads._exactly, _overloads._also


def _float(x, name):
    """Whole numbers have no norms here."""
    if not x.is_floating_point() and not x.is_complex():
        raise _C.DTypeError(f"linalg.{name}(): Expected a floating point or complex tensor as input. Got {x.dtype}")
    return x


def _upper(UPLO):
    if UPLO not in ("L", "U", "l", "u"):
        raise _C.InvalidError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO in "Uu"


def adjoint(x: Tensor) -> Tensor:
    """Matrices with rows and columns exchanged, and conjugated."""
    return x.mT.conj() if x.is_complex() else x.mT


# ---- factors


@_exactly
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L (or the upper one) of A = L @ L.mH, for Hermitian positive-definite matrices."""
    return _ops.linalg_cholesky(A, upper)


@_exactly
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): as cholesky(); info is 0, or the order of the leading minor that is not positive-definite."""
    return _ops.linalg_cholesky_ex(A, upper, check_errors)


@_exactly
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(LU, pivots): L and U of A = P @ L @ U in one matrix, for lu_solve()."""
    return _ops.linalg_lu_factor(A, pivot)


@_exactly
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): as lu_factor(); info is 0, or where the first zero of U's diagonal stands."""
    return _ops.linalg_lu_factor_ex(A, pivot, check_errors)


@_exactly
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) of A = P @ L @ U."""
    return _ops.linalg_lu(A, pivot)


@_exactly
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """(LD, pivots) of A = L @ D @ L.mT (L.mH with hermitian), for ldl_solve()."""
    return LDL(*tuple(_ops.linalg_ldl_factor_ex(A, hermitian, True))[:2])


@_exactly
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """(LD, pivots, info): as ldl_factor(); info is 0, or where the first zero block of D stands."""
    return _ops.linalg_ldl_factor_ex(A, hermitian, check_errors)


class LDL(NamedTuple):
    LD: Tensor
    pivots: Tensor


@_exactly
def qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) of A = Q @ R; mode is 'reduced', 'complete' or 'r' (no Q)."""
    modes = {"reduced": 0, "complete": 1, "r": 2}
    if mode not in modes:
        raise _C.InvalidError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    return _ops.linalg_qr(A, modes[mode])


@_written
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflectors that geqrf() leaves."""
    return _ops.linalg_householder_product(A, tau)


def _driver(driver):
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise _C.InvalidError(f"linalg.svd: unknown svd driver {driver}; it is for CUDA alone")
    if driver is not None:
        raise _C.InvalidError("linalg.svd: keyword argument `driver=` is only supported on CUDA inputs")


@_exactly
def svd(A: Tensor, full_matrices: bool = True, *, driver: "str | None" = None) -> Any:
    """(U, S, Vh) of A = U @ diag(S) @ Vh."""
    _driver(driver)
    return _ops.linalg_svd(A, full_matrices)


@_exactly
def svdvals(A: Tensor, *, driver: "str | None" = None) -> Tensor:
    """The singular values, from the largest."""
    _driver(driver)
    return _ops.linalg_svdvals(A)


@_exactly
def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices, from the smallest; UPLO says which triangle is looked at."""
    return _ops.linalg_eigh(A, _upper(UPLO))


@_exactly
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, from the smallest."""
    return _ops.linalg_eigvalsh(A, _upper(UPLO))


@_exactly
def eig(A: Tensor) -> Any:
    """(eigenvalues, eigenvectors) of square matrices; complex."""
    return _ops.linalg_eig(A)


@_exactly
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices; complex."""
    return _ops.linalg_eigvals(A)


# ---- equations, inverses


@_exactly
def inv(A: Tensor) -> Tensor:
    """The inverses of square matrices."""
    return _ops.linalg_inv(A)


@_exactly
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): as inv(); info is 0, or where a zero pivot stands."""
    return _ops.linalg_inv_ex(A, check_errors)


@_exactly
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A @ X = B (X @ A = B with left=False); B may hold vectors."""
    return _ops.linalg_solve(A, B, left)


@_exactly
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info): as solve(); info is 0, or where a zero pivot stands."""
    return _ops.linalg_solve_ex(A, B, left, check_errors)


@_exactly
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X of A @ X = B (X @ A = B with left=False) for triangular A."""
    return _ops.linalg_solve_triangular(A, B, upper, left, unitriangular)


@_exactly
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A @ X = B, by what lu_factor() made of A."""
    return _ops.linalg_lu_solve(LU, pivots, B, left, adjoint)


@_exactly
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X of A @ X = B, by what ldl_factor() made of A."""
    return _ops.linalg_ldl_solve(LD, pivots, B, hermitian)


@_written
def lstsq(A: Tensor, B: Tensor, rcond: "float | None" = None, *, driver: "str | None" = None) -> Any:
    """(solution, residuals, rank, singular_values): X with the smallest norm of A @ X - B. driver: 'gelsy' (the default), 'gelsd', 'gelss', or 'gels', which takes A to have full rank and tells none."""
    drivers = {None: 0, "gelsy": 0, "gelsd": 1, "gelss": 2, "gels": 3}
    if driver not in drivers:
        raise _C.InvalidError(f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), not {driver!r}")
    made = _ops.linalg_lstsq(A, B, rcond, drivers[driver])
    return type(made)((*made[:2], made[2].new_empty(0), made[3])) if driver == "gels" else made


@_written
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor of which the first `ind` dimensions are rows, the others columns."""
    return _ops.linalg_tensorinv(A, ind)


@_written
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B; the dimensions of A in `dims` are moved to its end first."""
    return _ops.linalg_tensorsolve(A, B, dims)


def _tolerances(values, atol, rtol, m, n):
    """What counts as zero, where a tensor says it: atol, rtol or both."""
    if rtol is None:
        eps = 2.0**-52 if values.dtype is _C.float64 else 2.0**-23
        rtol = _C.where(atol > 0, 0.0, eps * max(m, n))
    most = values.abs().amax(-1, True) * (rtol.unsqueeze(-1) if _is(rtol) else rtol)
    if atol is None:
        return most
    return _C.maximum(most, atol.unsqueeze(-1) if _is(atol) else _C.full_like(most, atol))


@_written
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudoinverse. Singular values up to max(atol, rtol * the largest) count as zero; both may be tensors, one number for each matrix."""
    rtol = rcond if rtol is None else rtol
    if not _is(atol) and not _is(rtol) or A.numel() == 0:
        return _ops.linalg_pinv(A, None if _is(atol) else atol, None if _is(rtol) else rtol, hermitian)
    m, n = A.shape[-2:]
    if hermitian:
        values, q = eigh(A)
        least = _tolerances(values, atol, rtol, m, n)
        return (q * _C.where(values.abs() > least, 1 / values, 0.0).unsqueeze(-2)) @ adjoint(q)
    u, s, vh = svd(A, False)
    least = _tolerances(s, atol, rtol, m, n)
    return (adjoint(vh) * _C.where(s > least, 1 / s, 0.0).unsqueeze(-2)) @ adjoint(u)


@_written
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """How many singular values are above max(atol, rtol * the largest); both may be tensors, one number for each matrix."""
    if tol is not None:
        atol, rtol = tol, 0.0
    if not _is(atol) and not _is(rtol):
        return _ops.linalg_matrix_rank(A, atol, rtol, hermitian)
    s = eigvalsh(A).abs() if hermitian else svdvals(A)
    if s.shape[-1] == 0:
        return s.sum(-1).to(_C.int64)
    return (s > _tolerances(s, atol, rtol, *A.shape[-2:])).sum(-1)


# ---- numbers of matrices


@_exactly
def det(A: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return _ops.linalg_det(A)


@_exactly
def slogdet(A: Tensor) -> Any:
    """(sign, logabsdet) of the determinants of square matrices."""
    return _ops.linalg_slogdet(A)


@_exactly
@_also(axis="dim", keepdims="keepdim")
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of vectors along dimensions; of all elements without them."""
    x = _float(x, "vector_norm")
    if isinstance(ord, str):
        raise _C.DTypeError(f"linalg.vector_norm(): argument 'ord' must be a number, not {ord!r}")
    return _ops.norm(x if dtype is None else x.to(dtype), float(ord), [dim] if isinstance(dim, int) else dim, keepdim)


@_exactly
@_also(axis="dim", keepdims="keepdim")
def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of matrices: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2."""
    A, dim = _float(A, "matrix_norm"), tuple(dim)
    if A.ndim < 2:
        raise _C.ShapeError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions, but it has {A.ndim}")
    A = A if dtype is None else A.to(dtype)
    if ord == "fro":
        if len(dim) != 2 or dim[0] % A.ndim == dim[1] % A.ndim:
            raise _C.InvalidError(f"linalg.matrix_norm: dim must be a 2-tuple of different dimensions. Got {dim}")
        return _ops.norm(A, 2.0, dim, keepdim)
    if ord == "nuc":
        made = svdvals(A.movedim(dim, (-2, -1))).sum(-1)
        return made if not keepdim else made.reshape([1 if d in [k % A.ndim for k in dim] else n for d, n in enumerate(A.shape)])
    if isinstance(ord, str):
        raise _C.InvalidError(f"linalg.matrix_norm: Order {ord} not supported.")
    if abs(ord) not in (1, 2, _math.inf):
        raise _C.InvalidError(f"linalg.matrix_norm: Order {ord} not supported.")
    return _ops.linalg_matrix_norm(A, float(ord), dim, keepdim)


@_exactly
@_also(axis="dim", keepdims="keepdim")
def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of vectors or matrices: with two dimensions and an order that of matrices, else of vectors."""
    A = _float(A, "norm")
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    if ord is not None and dims is None and A.ndim not in (1, 2):
        raise _C.ShapeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got " + f"{A.ndim}D.")
    if ord is not None and (dims is not None and len(dims) == 2 or dims is None and A.ndim == 2):
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@_written
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number by a norm of matrices; infinite for singular ones."""
    if p in ("fro", "nuc"):
        made, info = _ops.linalg_inv_ex(A)
        result = matrix_norm(A, p) * matrix_norm(made, p)
        return _C.where((info == 0) & (result == result), result, _math.inf)
    if isinstance(p, str) or p is not None and abs(p) not in (1, 2, _math.inf):
        raise _C.InvalidError(f"linalg.cond got an invalid norm type: {p}")
    return _ops.linalg_cond(A, 2.0 if p is None else float(p))


# ---- products, powers


@_exactly
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements."""
    if input.ndim != other.ndim:
        raise _C.ShapeError(f"linalg.cross: inputs must have the same number of dimensions, not {input.ndim} and {other.ndim}")
    return _ops.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices."""
    return _ops.diagonal(A, offset, dim1, dim2)


@_exactly
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The product of matrices, vectors, or batches of matrices."""
    return _ops.matmul(input, other)


@_written
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices; that of half types is computed in float32."""
    if _is(A) and A.dtype in (_C.float16, _C.bfloat16):
        return _ops.linalg_matrix_exp(A.to(_C.float32)).to(A.dtype)
    return _ops.linalg_matrix_exp(A)


@_written
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Square matrices to a whole power."""
    return _ops.linalg_matrix_power(A, n)


@_exactly
def multi_dot(tensors: Any) -> Tensor:
    """The product of two or more matrices, in the order that takes the fewest multiplications."""
    return _ops.linalg_multi_dot(tuple(tensors))


@_written
def vander(x: Tensor, *, N: "int | None" = None) -> Tensor:
    """The powers 0, 1, ... of each number, side by side."""
    return _ops.linalg_vander(x, N)


@_exactly
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of conj(x) * y along a dimension."""
    return _ops.linalg_vecdot(x, y, dim)


def __dir__():
    return [*__all__]
