"""The von Mises distribution of angles."""

import math

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints
from tensord.distributions._base import Distribution, broadcast, drawn, open_uniform

_TRIES = 4  # candidates at a time: a third is refused at worst


class VonMises(Distribution):
    """VonMises(loc, concentration): angles in radians, around loc, drawn from -pi up to pi; nearly normal where they are concentrated.

    log_prob takes any angle. Mardia and Jupp, Directional Statistics (2000).
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    def sample(self, sample_shape=()):
        """Best and Fisher, Efficient Simulation of the von Mises Distribution (1979), in float64. Each round waits for whether all are accepted."""
        with _overloads.no_grad():
            shape, k = self._extended_shape(sample_shape), self.concentration.to(_C.float64)
            tau = 1 + ops.sqrt(1 + 4 * ops.square(k))
            # (tau - sqrt(2 tau)) / (2 k), written so that a small k loses nothing of it.
            rho = ops.where(k > 1e-5, (tau - ops.sqrt(2 * tau)) / (2 * k), k / 2)
            r = ops.where(k > 1e-5, (1 + ops.square(rho)) / (2 * rho), 1 / k + k)
            possible = ops.logical_and(k > 0, ops.isfinite(k))
            found, done = ops.where(possible, k * 0, math.nan).expand(shape), ops.logical_not(possible).expand(shape)
            while math.prod(shape):
                z = ops.cos(math.pi * drawn(ops.rand, (_TRIES, *shape), k))
                f = ops.clamp((1 + r * z) / (r + z), -1.0, 1.0)
                c = k * (r - f)
                u = open_uniform((_TRIES, *shape), k)
                good = ops.logical_or(c * (2 - c) - u > 0, ops.log(c / u) + 1 - c >= 0)
                for i in range(_TRIES):
                    found = ops.where(done, found, f[i])
                    done = ops.logical_or(done, good[i])
                if _C.all(done).item():
                    break
            side = ops.sign(drawn(ops.rand, shape, k) - 0.5)
            angle = side * ops.acos(found) + self.loc
            return (ops.remainder(angle + math.pi, 2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        k = self.concentration
        return k * (ops.cos(value - self.loc) - 1) - math.log(2 * math.pi) - ops.log(ops.i0e(k))

    @property
    def mean(self):
        """That of the circle."""
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        """That of the circle: 1 less the length of the mean of (cos, sin)."""
        return 1 - ops.i1e(self.concentration) / ops.i0e(self.concentration)
