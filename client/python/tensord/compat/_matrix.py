"""Functions of matrices that PyTorch has beside torch.linalg, in their older forms; what the extension calls (client/python/surface.toml, `py`)."""

import warnings
from typing import Any, NamedTuple

from tensord import _C, linalg
from tensord.core import _overloads
from tensord._C import Tensor, ops


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


class Triangular(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


def cross(input, other, dim=None):
    if dim is None:
        shape = _overloads.broadcast_shapes(input.shape, other.shape) if input.shape != other.shape else input.shape
        dim = next((k for k, n in enumerate(shape) if n == 3), None)
        if dim is None:
            raise _C.ShapeError(f"no dimension of size 3 in input: the shapes are {list(input.shape)} and {list(other.shape)}")
        if dim != len(shape) - 1:
            warnings.warn("cross() without dim takes the first dimension of size 3, which is deprecated as it is not the last; name it", UserWarning, stacklevel=2)
    return ops.cross(input, other, dim)


def matrix_svd(input, some=True, compute_uv=True):
    if not compute_uv:
        m, n = input.shape[-2:]
        like = {"dtype": input.dtype, "device": input.device}
        return SVD(_C.zeros(*input.shape[:-1], m, **like), ops.linalg_svdvals(input), _C.zeros(*input.shape[:-2], n, n, **like))
    u, s, vh = ops.linalg_svd(input, not some)
    return SVD(u, s, linalg.adjoint(vh))


def matrix_exp(input):
    return linalg.matrix_exp(input)


def matrix_qr(input, some=True):
    return ops.linalg_qr(input, 0 if some else 1)


@_overloads._written
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of matrices, in the order that takes the fewest multiplications."""
    matrices = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)) else matrices
    return matrices[0] if len(matrices) == 1 else ops.linalg_multi_dot(tuple(matrices))


def matrix_lu(A, pivot=True, get_infos=False):
    made = tuple(ops.linalg_lu_factor_ex(A, pivot))
    return made if get_infos else made[:2]


def matrix_lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    p, l, u = ops.lu_unpack(LU_data, LU_pivots)
    none = _C.zeros(0, dtype=LU_data.dtype, device=LU_data.device)
    return (p if unpack_pivots else none), *((l, u) if unpack_data else (none, none))


def matrix_lu_solve(input, LU_data, LU_pivots):
    return ops.linalg_lu_solve(LU_data, LU_pivots, input)


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    a = A.mT if transpose else A
    return Triangular(ops.linalg_solve_triangular(a, input, upper != transpose, True, unitriangular), A.clone())


def matrix_pinverse(input, rcond=1e-15):
    return ops.linalg_pinv(input, 0.0, rcond, False)


def matrix_cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    if compute_mode not in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        raise _C.InvalidError(f"{compute_mode} is not a valid value for compute_mode")
    return ops.cdist(x1, x2, float(p))


def matrix_vander(x, N=None, increasing=False):
    if x.ndim != 1:
        raise _C.ShapeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise _C.InvalidError("N must be non-negative.")
    if n == 0:
        return _C.zeros(x.shape[0], 0, dtype=x.dtype, device=x.device)
    made = ops.linalg_vander(x, n)
    return made if increasing else made.flip(-1)


def _added(function):
    """A product added in place: also in the older form that names the numbers first, which the function knows."""
    return lambda self, *args, **numbers: self.copy_(function(self, *args, **numbers))


addmm_, addmv_, addr_, addbmm_, baddbmm_ = map(_added, (_C.addmm, ops.addmv, ops.addr, ops.addbmm, ops.baddbmm))


# ---- of low rank (N. Halko, P. Martinsson, J. Tropp, "Finding structure with randomness", 2009)


def _range(A, q, niter):
    """Orthonormal columns that nearly span A's."""
    found = linalg.qr(A @ _C.randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype))[0]
    for _ in range(niter):
        found = linalg.qr(linalg.adjoint(A) @ found)[0]
        found = linalg.qr(A @ found)[0]
    return found


def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Any = None) -> Any:
    """(U, S, V) of a matrix that has nearly rank q, or of A - M; by random projections."""
    A = A if M is None else A - M
    if not 0 <= q <= min(A.shape[-2:]):
        raise _C.InvalidError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}")
    if A.shape[-2] < A.shape[-1]:
        v, s, u = svd_lowrank(linalg.adjoint(A), q, niter)
        return SVD(u, s, v)
    basis = _range(A, q, niter)
    u, s, vh = linalg.svd(linalg.adjoint(basis) @ A, False)
    return SVD(basis @ u, s, linalg.adjoint(vh))


def pca_lowrank(A: Tensor, q: "int | None" = None, center: bool = True, niter: int = 2) -> Any:
    """(U, S, V): the principal directions (columns of V) of rows, which are centred first."""
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)
