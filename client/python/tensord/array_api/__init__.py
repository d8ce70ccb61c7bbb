"""tensord by the array API standard, versions 2024.12 and 2025.12.

    import tensord as td
    xp = td.ones(3).__array_namespace__()     # this module
    xp.sum(xp.ones((2, 3)), axis=1)

Names, signatures, promotion and errors are the standard's where PyTorch's, which the rest of tensord has, differ; tensors are the same
objects.
"""

from tensord import e, inf, nan, newaxis, pi
from tensord._C import bool, complex64, complex128, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64  # noqa: A004
from tensord.array_api import _elementwise, fft, linalg
from tensord.array_api._creation import (arange, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, meshgrid, ones,
                                         ones_like, tril, triu, zeros, zeros_like)
from tensord.array_api._dtypes import astype, can_cast, finfo, iinfo, isdtype, result_type
from tensord.array_api._elementwise import *  # noqa: F403
from tensord.array_api._info import Info as _Info
from tensord.array_api._linear import matmul, matrix_transpose, tensordot, vecdot
from tensord.array_api._search import (argmax, argmin, argsort, isin, nonzero, searchsorted, sort, take, take_along_axis, unique_all,
                                       unique_counts, unique_inverse, unique_values, where)
from tensord.array_api._shapes import (broadcast_arrays, broadcast_shapes, broadcast_to, concat, expand_dims, flip, moveaxis, permute_dims,
                                       repeat, reshape, roll, squeeze, stack, tile, unstack)
from tensord.array_api._statistics import (all, any, count_nonzero, cumulative_prod, cumulative_sum, diff, max, mean, min,  # noqa: A004
                                           prod, std, sum, var)

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # the functions of elements are made from lists of names

__array_api_version__ = "2025.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

__all__ = [
    "e", "inf", "nan", "newaxis", "pi",
    "bool", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like",
    "tril", "triu", "zeros", "zeros_like",
    "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
    "matmul", "matrix_transpose", "tensordot", "vecdot",
    "argmax", "argmin", "argsort", "isin", "nonzero", "searchsorted", "sort", "take", "take_along_axis", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "where",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat",
    "reshape", "roll", "squeeze", "stack", "tile", "unstack",
    "fft", "linalg",
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var",
    *_elementwise.__all__,
]


def __array_namespace_info__():
    """What this namespace can do: devices, dtypes, capabilities."""
    return _Info()


def _namespace(*, api_version=None):
    """What Tensor.__array_namespace__ gives."""
    import sys

    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"there is no namespace for version {api_version!r} of the array API; there are {', '.join(_VERSIONS)}")
    return sys.modules[__name__]
