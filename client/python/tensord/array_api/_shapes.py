"""The same elements in other shapes and orders."""

import operator

from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.array_api import _dtypes

_MOST = 1000  # about as many tensors as one op makes


def _axes(axis):
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def wrap_axis(axis, ndim):
    """An axis counted from the first one. An error when there is none."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise _C.OutOfRange(f"axis {axis} is out of bounds for {ndim} dimensions")
    return axis % ndim


def broadcast_shapes(*shapes):
    """The shape that all of these broadcast to."""
    n = max((len(s) for s in shapes), default=0)
    if n > 64:
        raise ValueError(f"a shape of {n} dimensions; a tensor has at most 8")
    result = []
    for at in range(-n, 0):
        sizes = {s[at] for s in shapes if len(s) >= -at}
        if len(sizes - {1}) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast together")
        result.append(next(iter(sizes - {1}), 1))
    return tuple(result)


def broadcast_arrays(*arrays):
    """All tensors seen in their common shape."""
    return ops.broadcast_tensors(arrays) if arrays else ()


def broadcast_to(x, /, shape):
    """A tensor seen in a larger shape."""
    return ops.expand(x, tuple(shape))


def concat(arrays, /, *, axis=0):
    """Tensors one after the other along a dimension; axis=None: all of them flat."""
    arrays = _dtypes.together(*arrays)
    if axis is None:
        arrays, axis = [x.reshape(-1) for x in arrays], 0
    axis = wrap_axis(axis, arrays[0].ndim)
    return ops.cat(arrays, axis)


def stack(arrays, /, *, axis=0):
    """Tensors of one shape side by side along a new dimension."""
    return ops.stack(_dtypes.together(*arrays), axis)


def unstack(x, /, *, axis=0):
    """The parts along a dimension, each without it."""
    axis = wrap_axis(axis, x.ndim)
    if 0 < x.shape[axis] <= _MOST:
        return tuple(ops.unbind(x, axis))
    return tuple([ops.select(x, axis, i) for i in range(x.shape[axis])])


def expand_dims(x, /, axis):
    """A view with a new dimension of size 1, or several, at these places of the result."""
    axes = _axes(axis)
    n = x.ndim + len(axes)
    places = sorted(wrap_axis(a, n) for a in axes)
    if len(set(places)) < len(places):
        raise ValueError(f"expand_dims(): an axis is named twice: {axis}")
    for at in places:
        x = ops.unsqueeze(x, at)
    return x


def squeeze(x, /, axis):
    """A view without these dimensions, which must have size 1."""
    places = sorted({wrap_axis(a, x.ndim) for a in _axes(axis)}, reverse=True)
    for at in places:
        if x.shape[at] != 1:
            raise ValueError(f"squeeze(): dimension {at} has size {x.shape[at]}, not 1")
    for at in places:
        x = ops.select(x, at, 0)
    return x


def flip(x, /, *, axis=None):
    """The order along some dimensions (none: all) reversed."""
    places = range(x.ndim) if axis is None else (wrap_axis(a, x.ndim) for a in _axes(axis))
    return ops.flip(x, tuple(places))


def moveaxis(x, source, destination, /):
    """A view with some dimensions at other places, the rest in order."""
    source = [wrap_axis(a, x.ndim) for a in _axes(source)]
    destination = [wrap_axis(a, x.ndim) for a in _axes(destination)]
    if len(source) != len(destination) or len(set(source)) < len(source) or len(set(destination)) < len(destination):
        raise ValueError(f"moveaxis(): {source} cannot go to {destination}")
    order = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source)):
        order.insert(to, a)
    return ops.permute(x, tuple(order))


def permute_dims(x, /, axes):
    """A view with the dimensions in another order."""
    return ops.permute(x, tuple(axes))


def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape: a view where strides allow it, unless copy=True; an error else with copy=False."""
    shape = _axes(shape)
    if copy:
        return _C.reshape(x.clone(), shape)
    return ops.view(x, shape) if copy is False else _C.reshape(x, shape)


def roll(x, /, shift, *, axis=None):
    """Elements shifted along dimensions, what leaves at one end coming in at the other; without axis as if flat."""
    if axis is None:
        return ops.roll(x, _axes(shift), ())
    axes = tuple(wrap_axis(a, x.ndim) for a in _axes(axis))
    shifts = _axes(shift) * (1 if isinstance(shift, (tuple, list)) else len(axes))
    return ops.roll(x, shifts, axes)


def tile(x, repetitions, /):
    """A tensor laid out several times along each dimension."""
    repetitions = tuple(repetitions)
    return ops.repeat(x, (1,) * (x.ndim - len(repetitions)) + repetitions)


@_overloads._beside
def repeat(x, repeats, /, *, axis=None):
    """Each part along a dimension (none: each element) several times over; a tensor says how often for each."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = wrap_axis(axis, x.ndim)
    if isinstance(repeats, _C.Tensor) and repeats.numel() == 1:
        repeats = repeats.item()
    if isinstance(repeats, _C.Tensor):
        ends = ops.cumsum(repeats.to(_C.int64), 0)
        n, later = ends[-1].item() if ends.shape[0] else 0, ends[:-1]
        begun = ops.make_full((n + 1,), 0, _C.int64).index_add(0, later, ops.make_full(later.shape, 1, _C.int64))
        return ops.index_select(x, axis, ops.cumsum(begun, 0)[:n])
    return ops.repeat_interleave(x, repeats, axis)
