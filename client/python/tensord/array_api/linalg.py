"""The extension `linalg` of the array API standard, over the same ops as tensord.linalg."""

from typing import NamedTuple

from tensord import linalg as _linalg
from tensord._C import Tensor, ops
from tensord.array_api import _dtypes
from tensord.array_api._linear import matmul, matrix_transpose, tensordot, vecdot

__all__ = ["cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer",
           "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]


class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x, /, *, upper=False):
    """The lower triangular factor, or the upper one, of positive-definite matrices."""
    return ops.linalg_cholesky(x, upper)


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of three elements."""
    x1, x2 = _dtypes.together(x1, x2)
    if axis >= 0 or -axis > min(x1.ndim, x2.ndim):
        raise ValueError(f"cross(): axis {axis} counts from the last dimension of {x1.shape} and {x2.shape}")
    return ops.cross(x1, x2, axis)


def det(x, /):
    """The determinants of square matrices."""
    return ops.linalg_det(x)


def diagonal(x, /, *, offset=0):
    """The diagonals of matrices."""
    return ops.diagonal(x, offset, -2, -1)


def eig(x, /):
    """Eigenvalues and eigenvectors of square matrices; complex."""
    return EigResult(*ops.linalg_eig(x))


def eigh(x, /):
    """Eigenvalues, from the smallest, and eigenvectors of Hermitian matrices."""
    return EighResult(*ops.linalg_eigh(x))


def eigvals(x, /):
    """Eigenvalues of square matrices; complex."""
    return ops.linalg_eigvals(x)


def eigvalsh(x, /):
    """Eigenvalues, from the smallest, of Hermitian matrices."""
    return ops.linalg_eigvalsh(x)


def inv(x, /):
    """The inverses of square matrices."""
    return ops.linalg_inv(x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of matrices: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2."""
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x, n, /):
    """Square matrices to a whole power."""
    return ops.linalg_matrix_power(x, n)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are above rtol times the largest."""
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1, x2, /):
    """The product of each element of one vector with each of another."""
    return ops.outer(*_dtypes.together(x1, x2))


def pinv(x, /, *, rtol=None):
    """The pseudoinverse."""
    return _linalg.pinv(x, rtol=rtol)


def qr(x, /, *, mode="reduced"):
    """x = Q @ R; mode is 'reduced' or 'complete'."""
    return QRResult(*_linalg.qr(x, mode))


def slogdet(x, /):
    """The signs and the logarithms of the sizes of determinants."""
    return SlogdetResult(*ops.linalg_slogdet(x))


def solve(x1, x2, /):
    """s of x1 @ s = x2, which is a vector where it has one dimension, else matrices."""
    x1, x2 = _dtypes.together(x1, x2)
    vectors = x2.ndim > 1 and x2.ndim == x1.ndim - 1  # PyTorch may take them for such
    return ops.linalg_solve(x1, x2.unsqueeze(0) if vectors else x2)


def svd(x, /, *, full_matrices=True):
    """x = U @ diag(S) @ Vh."""
    return SVDResult(*ops.linalg_svd(x, full_matrices))


def svdvals(x, /):
    """The singular values, from the largest."""
    return ops.linalg_svdvals(x)


def trace(x, /, *, offset=0, dtype=None):
    """The sums of the diagonals of matrices."""
    from tensord.array_api._statistics import sum

    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norm of vectors along dimensions; of all elements without them."""
    return ops.norm(x, float(ord), [axis] if isinstance(axis, int) else axis, keepdims)
