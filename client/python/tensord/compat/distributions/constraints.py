"""What values a parameter may have, or a distribution draws: objects whose check(value) tells of each, True where it is so.

Each kind is a class, by which transform_to and biject_to know the way there. A program's own is a subclass of Constraint with a check().
"""

import builtins
from typing import Any, Optional, Sequence

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops


class Constraint:
    """check(value) has the value's shape without its last `event_dim` dimensions."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Where the value is as it has to be: a tensor of bools."""
        raise NotImplementedError(f"{type(self).__name__} has no check: write where a value is as it has to be")

    def __repr__(self) -> str:
        bounds = ", ".join(f"{k}={v}" for k, v in self.__dict__.items() if k in ("lower_bound", "upper_bound"))
        return f"{type(self).__name__.lstrip('_')}({bounds})"


def _both(x, y):
    return ops.logical_and(x, y)


def _whole(v):
    return v == ops.floor(v) if v.is_floating_point() else v == v


class _GreaterThan(Constraint):
    def __init__(self, lower_bound):
        self.lower_bound = lower_bound

    def check(self, value):
        return value > self.lower_bound


class _GreaterThanEq(_GreaterThan):
    def check(self, value):
        return value >= self.lower_bound


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value):
        return _both(_whole(value), value >= self.lower_bound)


class _LessThan(Constraint):
    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return value < self.upper_bound


class _Interval(Constraint):
    """With both bounds."""

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value):
        return _both(value >= self.lower_bound, value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Without the upper bound."""

    def check(self, value):
        return _both(value >= self.lower_bound, value < self.upper_bound)


class _IntegerInterval(_Interval):
    """Whole numbers, with both bounds."""

    is_discrete = True

    def check(self, value):
        return _both(_whole(value), super().check(value))


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return ops.logical_or(value == 0, value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return _both(_C.all(boolean.check(value), -1), _C.sum(value, -1) == 1)


class _Multinomial(Constraint):
    """Counts along the last dimension that add up to the bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return _both(_C.all(value >= 0, -1), _C.sum(value, -1) == self.upper_bound)

    def __repr__(self):
        return "Multinomial()"


class _Real(Constraint):
    def check(self, value):
        return value == value


class _Simplex(Constraint):
    """Shares along the last dimension: none negative, one together."""

    event_dim = 1

    def check(self, value):
        return _both(_C.all(value >= 0, -1), ops.abs(_C.sum(value, -1) - 1) < 1e-6)


class _IndependentConstraint(Constraint):
    """True where the base's is in all of the last dimensions."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value):
        said, n = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if said.ndim < n:
            raise _C.ShapeError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return _C.all(said.flatten(said.ndim - n), -1) if n else said

    def __repr__(self):
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The base's, of a value that all parts of a mixture could have drawn."""

    def __init__(self, base_constraint):
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value):
        keep = value.ndim - self.event_dim
        if keep < 0:
            raise _C.ShapeError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return _C.all(self.base_constraint.check(value.unsqueeze(keep)).flatten(keep), -1)

    def __repr__(self):
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


def _everywhere(said):
    return _C.all(said.flatten(said.ndim - 2), -1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return _everywhere(ops.tril(value) == value)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular, with a positive diagonal."""

    def check(self, value):
        return _both(super().check(value), _C.all(_C.diagonal(value, 0, -2, -1) > 0, -1))


class _CorrCholesky(_LowerCholesky):
    """Roots of matrices of correlations: each row is of length 1."""

    def check(self, value):
        length = ops.sqrt(_C.sum(ops.square(value.detach()), -1))
        allowed = _overloads.finfo(value.dtype).eps * value.shape[-1] * 10
        return _both(super().check(value), _C.all(ops.abs(length - 1) <= allowed, -1))


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return _overloads._made(value.device, False, ops.make_full, tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1], _C.bool)

    def _of_squares(self, value, check):
        """check(value) of square matrices, else False."""
        squares = _Square().check(value)
        return check(value) if value.shape[-2] == value.shape[-1] else squares


class _Symmetric(_Square):
    def check(self, value):
        return self._of_squares(value, lambda v: _everywhere(_C.isclose(v, v.transpose(-1, -2), atol=1e-6)))


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return self._of_squares(value, lambda v: _both(symmetric, _C.all(ops.linalg_eigvalsh(v) >= 0, -1)))


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return self._of_squares(value, lambda v: _both(symmetric, ops.linalg_cholesky_ex(v)[1] == 0))


class _Joined(Constraint):
    """Constraints of parts of a value along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0):
        if not all(isinstance(c, Constraint) for c in cseq):
            raise _C.InvalidError(f"{type(self).__name__[1:].lower()}() expects a list of constraints, not {cseq!r}")
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete, self.event_dim = any(c.is_discrete for c in cseq), builtins.max(c.event_dim for c in cseq)

    def _place(self, value):
        if not -value.ndim <= self.dim < value.ndim:
            raise _C.OutOfRange(f"Dimension out of range: the value has {value.ndim}, and dim is {self.dim}")
        return self.dim % value.ndim


class _Cat(_Joined):
    """One after the other, each of a length (1, unless lengths says so)."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Optional[Sequence[int]] = None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise _C.InvalidError(f"cat() expects as many lengths as constraints, not {len(self.lengths)} and {len(self.cseq)}")

    def check(self, value):
        dim, start, said = self._place(value), 0, []
        for constraint, length in zip(self.cseq, self.lengths):
            said.append(constraint.check(value.narrow(dim, start, length)))
            start += length
        return _C.cat(said, self.dim)


class _Stack(_Joined):
    """One place of the dimension each."""

    def check(self, value):
        dim = self._place(value)
        if value.shape[dim] != len(self.cseq):
            raise _C.ShapeError(f"stack() of {len(self.cseq)} constraints checks as many places, not {value.shape[dim]}")
        return _C.stack([c.check(value.select(dim, i)) for i, c in enumerate(self.cseq)], self.dim)


class _Dependent(Constraint):
    """Stands for a constraint that depends on other parameters."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """One of which more is known."""
        return _Dependent(is_discrete=self.is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self.event_dim if event_dim is NotImplemented else event_dim)

    def check(self, value):
        raise _C.InvalidError("Cannot determine validity of a dependent constraint: ask that of a distribution which has its parameters")


class dependent_property(property, _Dependent):
    """A decorator of a distribution's property: a constraint that depends on its parameters. It may be told is_discrete= and event_dim=."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether it depends on parameters, so that check() cannot tell."""
    return isinstance(constraint, _Dependent)


greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
multinomial, independent, cat, stack = _Multinomial, _IndependentConstraint, _Cat, _Stack
dependent = _Dependent()
boolean, one_hot, real, simplex = _Boolean(), _OneHot(), _Real(), _Simplex()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
real_vector = independent(real, 1)
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric, positive_semidefinite, positive_definite = _Square(), _Symmetric(), _PositiveSemidefinite(), _PositiveDefinite()

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than", "greater_than_eq",
           "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial",
           "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
           "simplex", "square", "stack", "symmetric", "unit_interval"]
