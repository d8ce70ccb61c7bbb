"""Parametrizations that are often wanted: direction and length apart, a largest singular value of 1, orthogonal matrices."""

import functools
from typing import Any

import tensord as td
from tensord import _C
from tensord.nn import functional as F
from tensord.nn.module import Module
from tensord.nn.utils import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(q):
    eye = td.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    return td.allclose(q.mH @ q, eye, rtol=10 * td.finfo(q.dtype).eps, atol=10 * td.finfo(q.dtype).eps * q.shape[-2])


def _orthogonalised(a):
    """The nearest that QR gives, with R's diagonal not negative, so that what is orthogonal stays as it is."""
    q, r = td.linalg.qr(a)
    return q * td.sgn(r.diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight, orthogonal_map, use_trivialization):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise _C.InvalidError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map, self.use_trivialization = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        n, k = X.shape[-2:]
        wide = n < k
        if wide:
            X, n, k = X.mT, k, n
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            Q = td.linalg.householder_product(below, tau) * X.detach().diagonal(dim1=-2, dim2=-1).trunc().unsqueeze(-2)
        else:
            A = X.tril()
            if n != k:
                A = td.cat([A, td.zeros(*A.shape[:-1], n - k, dtype=A.dtype, device=A.device)], -1)
            A = A - A.mH  # skew
            if self.orthogonal_map == "matrix_exp":
                Q = td.matrix_exp(A)
            else:
                eye = td.eye(n, dtype=A.dtype, device=A.device)
                Q = td.linalg.solve(eye - 0.5 * A, eye + 0.5 * A)
            Q = Q[..., :k]
        if self.use_trivialization and self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise _C.InvalidError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        given = Q
        wide = Q.shape[-2] < Q.shape[-1]
        if wide:
            Q = Q.mT
        n, k = Q.shape[-2:]
        if not self.use_trivialization:
            if self.orthogonal_map != "householder":
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations when use_trivialization=False.")
            A, tau = td.geqrf(Q)
            # LAPACK's reflections begin with a 1 that is not stored: in its place stand the signs that make the diagonal of R positive.
            diagonal = A.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(td.where(tau == 0, -diagonal.sign(), diagonal.sign()))
            return A.mT if wide else A
        if n == k:
            Q = Q.clone() if _is_orthogonal(Q) else _orthogonalised(Q)
        else:
            Q = _orthogonalised(td.cat([Q, td.randn(*Q.shape[:-1], n - k, dtype=Q.dtype, device=Q.device)], -1))
        self.base = Q
        minus = td.zeros_like(given)
        minus.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return minus


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """The matrix, or each of a batch, is orthogonal: (n, k) has orthonormal columns for n >= k, else rows; unitary where it is complex.

    orthogonal_map: "matrix_exp" or "cayley" (of a skew matrix), or "householder" (reflections); None: the first for square and complex ones, else
    reflections. With use_trivialization what is made is turned by a fixed `base`, so that it begins, and goes on after an assignment, where it is.
    Raises InvalidError for a tensor of less than 2 dimensions, and another map.
    """
    weight = getattr(module, name, None)
    if not td.is_tensor(weight):
        raise _C.InvalidError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise _C.InvalidError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise _C.InvalidError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    return parametrize.register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def _length(self, v):
        if self.dim is None or self.dim == -1:  # -1 has meant all dimensions from the beginning
            return v.norm()
        return v.norm(2, [d for d in range(v.ndim) if d != self.dim % v.ndim], True)

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / self._length(weight_v))

    def right_inverse(self, weight):
        return self._length(weight), weight


def _older_names(name, module, state, prefix, *_):
    g, v = f"{prefix}{name}_g", f"{prefix}{name}_v"
    if g in state and v in state:
        state[f"{prefix}parametrizations.{name}.original0"], state[f"{prefix}parametrizations.{name}.original1"] = state.pop(g), state.pop(v)


def weight_norm(module, name="weight", dim=0):
    """The weight is original0, its length along a dimension (None: of all), times the direction of original1. Returns the module.

    A state of nn.utils.weight_norm(), with NAME_g and NAME_v, can be loaded.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(functools.partial(_older_names, name))
    return module


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise _C.OutOfRange(f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise _C.InvalidError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.n_power_iterations, self.eps = dim % weight.ndim, n_power_iterations, eps
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            for name, n in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                self.register_buffer(name, F.normalize(td.randn(n, dtype=weight.dtype, device=weight.device), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    @td.no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next look changes them before this one's backward
        return weight / td.vdot(u, matrix.mv(v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The weight over its largest singular value, seen as a matrix whose rows lie along `dim`; what that is comes nearer with each look in training.

    Returns the module. Raises InvalidError without such a tensor, or with no iterations.
    """
    weight = getattr(module, name, None)
    if not td.is_tensor(weight):
        raise _C.InvalidError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        turned = parametrize.type_before_parametrizations(module).__name__.startswith("ConvTranspose")
        dim = 1 if turned else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
