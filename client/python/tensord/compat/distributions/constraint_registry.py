"""Ways from any real numbers to what a constraint asks: transform_to and biject_to, with the names of torch.distributions.constraint_registry.

    scale = td.distributions.transform_to(constraints.positive)(x)     # x may be any number: what an optimizer steps on

transform_to: any smooth way. biject_to: one that has an inverse and a log_abs_det_jacobian, for changes of variables.
"""

from typing import Any

from tensord import _C
from tensord.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """From classes of constraints to functions that make a transform of a constraint. Called with a constraint, it gives its transform.

    NotImplementedError of a constraint whose very class nobody registered.
    """

    def __init__(self):
        self._registry: Any = {}

    def register(self, constraint, factory=None):
        """factory(constraint) makes the transform for this class (or this constraint's class); without a factory, a decorator."""
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise _C.DTypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint!r}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint) -> Any:
        try:
            make = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints: register() says how") from None
        return make(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(*kinds):
    def register(make):
        for kind in kinds:
            biject_to.register(kind, make), transform_to.register(kind, make)
        return make

    return register


@_both(constraints.real)
def _to_real(constraint):
    return transforms.identity_transform


@_both(constraints.positive, constraints.nonnegative)
def _to_greater(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])


@_both(constraints.less_than)
def _to_less(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if not _C.is_tensor(low) and not _C.is_tensor(high) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@_both(constraints.corr_cholesky)
def _to_correlations(constraint):
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.simplex)
def _biject_to_simplex(constraint):
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_to_simplex(constraint):
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _to_root(constraint):
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _to_covariance(constraint):
    return transforms.PositiveDefiniteTransform()


for _way in (biject_to, transform_to):  # parts go the same way as the whole

    @_way.register(constraints.independent)
    def _of_independent(constraint, way=_way):
        return transforms.IndependentTransform(way(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @_way.register(constraints.cat)
    def _of_cat(constraint, way=_way):
        return transforms.CatTransform([way(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @_way.register(constraints.stack)
    def _of_stack(constraint, way=_way):
        return transforms.StackTransform([way(c) for c in constraint.cseq], constraint.dim)
