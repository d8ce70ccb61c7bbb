"""What values a parameter may have, or a distribution draws: objects whose check(value) tells of each, True where it is so."""

from typing import Any

from tensord import _C
from tensord._C import ops


class Constraint:
    """check(value) has the value's shape without its last `event_dim` dimensions."""

    is_discrete: bool = False
    event_dim: int = 0

    def __init__(self, name, check, event_dim=0, is_discrete=False, **bounds):
        self._name, self._check, self.event_dim, self.is_discrete = name, check, event_dim, is_discrete
        self.__dict__.update(bounds)

    def check(self, value):
        """Where the value is as it has to be: a tensor of bools."""
        return self._check(value)

    def __repr__(self):
        return self._name


def _both(x, y):
    return ops.logical_and(x, y)


def _whole(v):
    return v == ops.floor(v) if v.is_floating_point() else v == v


def greater_than(lower_bound):
    return Constraint(f"greater_than({lower_bound})", lambda v: v > lower_bound, lower_bound=lower_bound)


def greater_than_eq(lower_bound):
    return Constraint(f"greater_than_eq({lower_bound})", lambda v: v >= lower_bound, lower_bound=lower_bound)


def less_than(upper_bound):
    return Constraint(f"less_than({upper_bound})", lambda v: v < upper_bound, upper_bound=upper_bound)


def _between(kind, lower, upper, check, discrete=False):
    return Constraint(f"{kind}({lower}, {upper})", check, 0, discrete, lower_bound=lower, upper_bound=upper)


def interval(lower_bound, upper_bound):
    """With both bounds."""
    return _between("interval", lower_bound, upper_bound, lambda v: _both(v >= lower_bound, v <= upper_bound))


def half_open_interval(lower_bound, upper_bound):
    """Without the upper bound."""
    return _between("half_open_interval", lower_bound, upper_bound, lambda v: _both(v >= lower_bound, v < upper_bound))


def integer_interval(lower_bound, upper_bound):
    """Whole numbers, with both bounds."""
    return _between("integer_interval", lower_bound, upper_bound, lambda v: _both(_whole(v), _both(v >= lower_bound, v <= upper_bound)), True)


def multinomial(upper_bound):
    """Counts along the last dimension that add up to the bound."""
    return Constraint(f"multinomial({upper_bound})", lambda v: _both(_C.all(v >= 0, -1), _C.sum(v, -1) == upper_bound), 1, True, upper_bound=upper_bound)


def independent(base_constraint, reinterpreted_batch_ndims):
    """True where the base's is in all of the last dimensions."""

    def check(value):
        said = base_constraint.check(value)
        return _C.all(said.flatten(said.ndim - reinterpreted_batch_ndims), -1) if reinterpreted_batch_ndims else said

    return Constraint(f"independent({base_constraint}, {reinterpreted_batch_ndims})", check, base_constraint.event_dim + reinterpreted_batch_ndims,
                      base_constraint.is_discrete, base_constraint=base_constraint, reinterpreted_batch_ndims=reinterpreted_batch_ndims)


def _triangular(v):
    return _C.all((ops.tril(v) == v).flatten(v.ndim - 2), -1)


def _symmetric(v):
    return _C.all(_C.isclose(v, v.transpose(-1, -2), atol=1e-6).flatten(v.ndim - 2), -1)


boolean = Constraint("boolean", lambda v: ops.logical_or(v == 0, v == 1), 0, True)
nonnegative_integer = Constraint("nonnegative_integer", lambda v: _both(_whole(v), v >= 0), 0, True, lower_bound=0)
positive_integer = Constraint("positive_integer", lambda v: _both(_whole(v), v >= 1), 0, True, lower_bound=1)
real = Constraint("real", lambda v: v == v)
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
real_vector = independent(real, 1)
simplex = Constraint("simplex", lambda v: _both(_C.all(v >= 0, -1), ops.abs(_C.sum(v, -1) - 1) < 1e-6), 1)
one_hot = Constraint("one_hot", lambda v: _both(_C.all(boolean.check(v), -1), _C.sum(v, -1) == 1), 1, True)
lower_cholesky = Constraint("lower_cholesky", lambda v: _both(_triangular(v), _C.all(_C.diagonal(v, 0, -2, -1) > 0, -1)), 2)
positive_definite = Constraint("positive_definite", lambda v: _both(_symmetric(v), ops.linalg_cholesky_ex(v)[1] == 0), 2)


def dependent_property(function) -> Any:
    """A constraint that depends on a distribution's parameters: a property of it; of the class it is None."""

    class Dependent:
        __doc__ = function.__doc__

        def __get__(self, distribution, owner=None):
            return None if distribution is None else function(distribution)

    return Dependent()
