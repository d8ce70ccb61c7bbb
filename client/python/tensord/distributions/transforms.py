"""Invertible functions of one number each, for TransformedDistribution."""

import math
from typing import Any

from tensord import _C, _more
from tensord._C import ops
from tensord.distributions import constraints


class Transform:
    """y = t(x); t.inv(y) is x. log_abs_det_jacobian(x, y): log |dy/dx|, of their shape. sign: whether y grows with x (1) or falls (-1)."""

    domain: Any = constraints.real
    codomain: Any = constraints.real
    sign: Any = 1

    def __call__(self, x):
        return self._call(x)

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} has no _call: write what y is of x")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} has no _inverse: write what x is of y")

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian: write log |dy/dx|")

    @property
    def inv(self) -> Any:
        """The inverse, itself a transform."""
        return _Inverse(self)

    def __eq__(self, other):
        return type(self) is type(other) and all(_same(v, other.__dict__.get(k)) for k, v in self.__dict__.items())

    def __repr__(self):
        return f"{type(self).__name__}()"


def _same(x, y):
    return x is y or (_C.equal(x, y) if _C.is_tensor(x) and _C.is_tensor(y) else not _C.is_tensor(x) and not _C.is_tensor(y) and x == y)


class _Inverse(Transform):
    def __init__(self, forth):
        self._forth = forth
        self.domain, self.codomain, self.sign = forth.codomain, forth.domain, forth.sign

    def _call(self, x):
        return self._forth._inverse(x)

    def _inverse(self, y):
        return self._forth(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._forth.log_abs_det_jacobian(y, x)

    @property
    def inv(self):
        return self._forth

    def __repr__(self):
        return f"{self._forth!r}.inv"


class ExpTransform(Transform):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x):
        return ops.exp(x)

    def _inverse(self, y):
        return ops.log(y)

    def log_abs_det_jacobian(self, x, y):
        return x


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc, scale):
        self.loc, self.scale = loc, scale

    @property
    def sign(self):
        return ops.sign(self.scale) if _C.is_tensor(self.scale) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        return x * 0 + (ops.log(ops.abs(self.scale)) if _C.is_tensor(self.scale) else math.log(abs(self.scale)))


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)), never 0 or 1 itself."""

    codomain = constraints.unit_interval

    def _call(self, x):
        limits = _more.finfo(x.dtype)
        return ops.clamp(ops.sigmoid(x), limits.tiny, 1 - limits.eps)

    def _inverse(self, y):
        limits = _more.finfo(y.dtype)
        y = ops.clamp(y, limits.tiny, 1 - limits.eps)
        return ops.log(y) - ops.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -ops.softplus(-x) - ops.softplus(x)


class TanhTransform(Transform):
    """tanh(x). Its inverse of -1 and 1 is infinite."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return ops.tanh(x)

    def _inverse(self, y):
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        """log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), which loses nothing at a great x."""
        return 2 * (math.log(2) - x - ops.softplus(-2 * x))
