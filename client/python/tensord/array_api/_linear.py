"""Products of matrices and vectors; linalg.py has them too, and the rest of linear algebra."""

import operator

from tensord import _C
from tensord._C import ops
from tensord.array_api import _dtypes


def matmul(x1, x2, /):
    """The product of matrices, vectors, or batches of matrices."""
    return _C.matmul(*_dtypes.together(x1, x2))


def matrix_transpose(x, /):
    """A view with the last two dimensions exchanged."""
    return x.mT


def _pairs(x1, x2, axes):
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ValueError(f"tensordot(): axes is {axes}, for tensors of {x1.ndim} and {x2.ndim} dimensions")
        return list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    return tuple([operator.index(i) % max(x.ndim, 1) for i in side] for x, side in zip((x1, x2), axes))


def tensordot(x1, x2, /, *, axes=2):
    """The sum of products over `axes` pairs of dimensions, or over the named ones of each."""
    x1, x2 = _dtypes.together(x1, x2)
    one, two = _pairs(x1, x2, axes)
    if len(one) != len(two) or any(x1.shape[i] != x2.shape[j] for i, j in zip(one, two)):
        raise ValueError(f"tensordot(): the dimensions {one} of {x1.shape} and {two} of {x2.shape} do not go together")
    return ops.tensordot(x1, x2, one, two)


def vecdot(x1, x2, /, *, axis=-1):
    """The sum of conj(x1) * x2 along a dimension counted from the last one."""
    if axis >= 0:
        raise ValueError(f"vecdot(): axis counts from the last dimension, -1, not {axis}")
    if axis < -min(x1.ndim, x2.ndim) or x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): shapes {x1.shape} and {x2.shape} do not have the same size at {axis}")
    x1, x2 = _dtypes.together(x1, x2)
    return _C.sum(_C.conj(x1) * x2, axis, False, x1.dtype)
