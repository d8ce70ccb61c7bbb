"""What a transform is, and transforms made of others. Each is an invertible function of events of domain.event_dim dimensions, with the size of its derivative."""

import copy
import math
import weakref
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.distributions import constraints


def sum_last(x, n):
    """Summed over the last n dimensions."""
    return _C.sum(x, tuple(range(-n, 0))) if n > 0 else x


def _same(x, y):
    return x is y or (_C.equal(x, y) if _C.is_tensor(x) and _C.is_tensor(y) else not _C.is_tensor(x) and not _C.is_tensor(y) and x == y)


class Transform:
    """y = t(x); t.inv(y) is x. log_abs_det_jacobian(x, y): log |det dy/dx| of each event, of x's shape less the event's.

    domain, codomain: what x and y may be. bijective: whether inv of y is the one x. sign: whether y, a number, grows with x (1) or falls (-1).
    cache_size=1: t.inv(y) of the y that t gave last is that very x, not one computed from y. Equal are two of one class with equal parameters.
    """

    bijective: Any = False
    domain: Any = constraints.real
    codomain: Any = constraints.real
    _cache_size: int = 0
    _last: Any = (None, None)

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise _C.InvalidError(f"cache_size must be 0 or 1, not {cache_size!r}")
        self._cache_size = cache_size

    @property
    def event_dim(self) -> int:
        if self.domain.event_dim != self.codomain.event_dim:
            raise _C.InvalidError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def sign(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no sign: it neither grows nor falls with a number")

    def with_cache(self, cache_size=1):
        """This one, or one like it with this cache_size."""
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        new._last = (None, None)
        return new

    def __call__(self, x):
        if not self._cache_size:
            return self._call(x)
        if x is not self._last[0]:
            self._last = (x, self._call(x))
        return self._last[1]

    def _back(self, y):
        if not self._cache_size:
            return self._inverse(y)
        if y is not self._last[1]:
            self._last = (self._inverse(y), y)
        return self._last[0]

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} has no _call: write what y is of x")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} has no _inverse: write what x is of y")

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian: write log |dy/dx|")

    def forward_shape(self, shape):
        """The shape of y where that of x is this."""
        return tuple(shape)

    def inverse_shape(self, shape):
        """The shape of x where that of y is this."""
        return tuple(shape)

    @staticmethod
    def _inverted() -> Any:
        """The inverse, while it is there."""

    @property
    def inv(self) -> Any:
        """The inverse, itself a transform."""
        known = self._inverted()
        if known is None:
            known = _InverseTransform(self)
            self._inverted = weakref.ref(known)  # type: ignore[method-assign]
        return known

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_inverted"}

    def _parameters(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("_last", "_cache_size", "_inverted")}

    def __eq__(self, other):
        return type(self) is type(other) and all(_same(v, other.__dict__.get(k)) for k, v in self._parameters().items())

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, forth):
        super().__init__(forth._cache_size)
        self._forth = forth

    @property
    def domain(self):
        return self._forth.codomain

    @property
    def codomain(self):
        return self._forth.domain

    @property
    def bijective(self):
        return self._forth.bijective

    @property
    def sign(self):
        return self._forth.sign

    @property
    def inv(self):
        return self._forth

    def with_cache(self, cache_size=1):
        return self._forth.with_cache(cache_size).inv

    def __call__(self, x):
        return self._forth._back(x)

    def _back(self, y):
        return self._forth(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._forth.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._forth.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._forth.forward_shape(shape)

    def __repr__(self):
        return f"_InverseTransform({self._forth!r})"


class ComposeTransform(Transform):
    """ComposeTransform(parts): the first, then the second of what it gave, ...; of no parts, x itself."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) if cache_size else p for p in parts]

    @staticmethod
    def _end(sides):
        """The last of the constraints, of as many dimensions as all the (near, far) on the way make of an event."""
        if not sides:
            return constraints.real
        n, end = sides[0][0].event_dim, sides[-1][1]
        for near, far in sides:
            n = max(n + far.event_dim - near.event_dim, far.event_dim)
        return constraints.independent(end, n - end.event_dim) if n > end.event_dim else end

    @property
    def domain(self):
        return self._end([(p.codomain, p.domain) for p in reversed(self.parts)])

    @property
    def codomain(self):
        return self._end([(p.domain, p.codomain) for p in self.parts])

    @property
    def bijective(self):
        return all(p.bijective for p in self.parts)

    @property
    def sign(self):
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self):
        known = self._inverted()
        if known is None:
            known = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inverted, known._inverted = weakref.ref(known), weakref.ref(self)  # type: ignore[method-assign]
        return known

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform([p.with_cache(cache_size) for p in self.parts], cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return x * 0
        xs = [x]
        for part in self.parts[:-1]:
            xs.append(part(xs[-1]))
        xs.append(y)
        n, total = self.domain.event_dim, 0
        for part, before, after in zip(self.parts, xs, xs[1:]):
            total = total + sum_last(part.log_abs_det_jacobian(before, after), n - part.domain.event_dim)
            n += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self):
        return "ComposeTransform(\n    " + ",\n    ".join(repr(p) for p in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """IndependentTransform(base_transform, reinterpreted_batch_ndims): the base, with so many more dimensions counted as one event."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform.with_cache(cache_size), reinterpreted_batch_ndims

    @property
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _wide(self, x, kind):
        if x.ndim < kind.event_dim:
            raise _C.ShapeError("Too few dimensions on input")
        return x

    def _call(self, x):
        return self.base_transform(self._wide(x, self.domain))

    def _inverse(self, y):
        return self.base_transform.inv(self._wide(y, self.codomain))

    def log_abs_det_jacobian(self, x, y):
        return sum_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """ReshapeTransform(in_shape, out_shape): the last dimensions of x, in_shape, as out_shape. ValueError unless both hold as many numbers."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise _C.ShapeError(f"in_shape, out_shape have different numbers of elements: {self.in_shape} and {self.out_shape}")

    @property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    @staticmethod
    def _turned(shape, before, after):
        shape = tuple(shape)
        cut = len(shape) - len(before)
        if cut < 0:
            raise _C.ShapeError("Too few dimensions on input")
        if shape[cut:] != before:
            raise _C.ShapeError(f"Shape mismatch: expected {before} but got {shape[cut:]}")
        return shape[:cut] + after

    def _call(self, x):
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y):
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x, y):
        return _overloads._made(x.device, False, ops.make_full, tuple(x.shape[: x.ndim - len(self.in_shape)]), 0.0, x.dtype)

    def forward_shape(self, shape):
        return self._turned(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._turned(shape, self.out_shape, self.in_shape)


class _Joined(Transform):
    """Transforms of parts of x along a dimension."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(cache_size)
        if not all(isinstance(t, Transform) for t in tseq):
            raise _C.InvalidError(f"{type(self).__name__} expects a list of transforms, not {tseq!r}")
        self.transforms, self.dim = [t.with_cache(cache_size) if cache_size else t for t in tseq], dim

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    def _parts(self, x):
        raise NotImplementedError

    def _joined(self, parts, dim):
        raise NotImplementedError

    def _call(self, x):
        return self._joined([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y):
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._parts(y))], self.dim)


class CatTransform(_Joined):
    """CatTransform(tseq, dim=0, lengths=None): each of the next length (1 by default) places of the dimension."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise _C.InvalidError(f"CatTransform expects as many lengths as transforms, not {len(self.lengths)} and {len(self.transforms)}")

    @property
    def length(self):
        return sum(self.lengths)

    @property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @property
    def domain(self):
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self):
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _parts(self, x):
        if x.shape[self.dim] != self.length:
            raise _C.ShapeError(f"CatTransform's lengths add up to {self.length}, but dimension {self.dim} has {x.shape[self.dim]} places")
        return x.split(self.lengths, self.dim)

    def _joined(self, parts, dim):
        return _C.cat(parts, dim)

    def log_abs_det_jacobian(self, x, y):
        """Of every number where the parts' events are numbers; where they are longer, summed over events."""
        n, found = self.event_dim, []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y)):
            found.append(sum_last(t.log_abs_det_jacobian(a, b), n - t.event_dim))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        if dim + n < 0:  # the dimension is the batch's: each part keeps its places
            return _C.cat(found, dim + n)
        total = found[0]
        for more in found[1:]:
            total = total + more
        return total


class StackTransform(_Joined):
    """StackTransform(tseq, dim=0): each of one place of the dimension."""

    @property
    def domain(self):
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self):
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _parts(self, x):
        if x.shape[self.dim] != len(self.transforms):
            raise _C.ShapeError(f"StackTransform has {len(self.transforms)} transforms, but dimension {self.dim} has {x.shape[self.dim]} places")
        return x.unbind(self.dim)

    def _joined(self, parts, dim):
        return _C.stack(parts, dim)

    def log_abs_det_jacobian(self, x, y):
        return _C.stack([t.log_abs_det_jacobian(a, b) for t, a, b in zip(self.transforms, self._parts(x), self._parts(y))], self.dim)
