"""tensord._foreach_NAME: a function of a tensor, of each tensor of a list. What trains means of weights or clips gradients calls these.

The ops are batched anyway, so a list costs what its calls cost; each is the tensor's own function, whose errors and gradients it has.
Imported when one of them is asked for.
"""

import functools

from tensord import _C
from tensord.core import _overloads

_SAME = """abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh
sqrt tan tanh trunc""".split()
# Beside a list, a number or a tensor without dimensions: one for all; beside others: one for each.
_BESIDE = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "clamp_min", "minimum": "clamp_max", "clamp_min": "clamp_min", "clamp_max": "clamp_max", "pow": "pow"}


def _tensors(tensors, name):
    if _C.is_tensor(tensors) or not isinstance(tensors, (list, tuple)):
        raise _C.DTypeError(f"{name}(): the tensors come in a list or tuple, not as {_C._a_type(tensors)}")
    if not tensors:
        raise _C.Error("Tensor list must have at least one tensor.")
    return tensors


def _each(tensors, others):
    """One of `others` for each of the tensors: they are such a list, or the same for all."""
    if not isinstance(others, (list, tuple)):
        if _C.is_tensor(others) and others.ndim:
            raise _C.Error(f"scalar tensor expected to be 0 dim but it has {others.ndim} dimensions and {others.numel()} elements.")
        return [others] * len(tensors)
    if len(others) != len(tensors):
        if others and _C.is_tensor(others[0]):
            raise _C.Error(f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(others)}")
        raise _C.Error("Tensor list must have same number of elements as scalar list.")
    return others


def _mapped(function, name, *columns):
    """What the function makes of each row; of one that writes in place nobody wants it."""
    made = tuple(_C._as(name, function, *row) for row in zip(*columns))
    return columns[0] if name.endswith("_") else made


def _alone(method, name):
    function = getattr(_C.Tensor, method)
    return lambda self: _mapped(function, name, _tensors(self, name))


def _beside(method, name):
    function = getattr(_C.Tensor, method)

    @_overloads._also(scalar="other", scalars="other", tensor="other", exponent="other")
    def beside(self, other, *, alpha=None):
        own = _tensors(self, name)
        call = function if alpha is None else functools.partial(function, alpha=alpha)
        return _mapped(call, name, own, _each(own, other))

    return beside


def _pow(name):
    beside = _beside(name[len("_foreach_"):], name)

    def pow(self, exponent):
        if not isinstance(self, (list, tuple)) and isinstance(exponent, (list, tuple)):
            return _mapped(_C.pow, name, [self] * len(exponent), _tensors(exponent, name))
        return beside(self, exponent)

    return pow


def _weighed(method, name):
    function = getattr(_C.Tensor, method)

    @_overloads._also(scalars="value")
    def weighed(self, tensor1, tensor2, value=1):
        own = _tensors(self, name)
        if _C.is_tensor(value) and value.ndim == 1:
            value = value.tolist()
        return _mapped(lambda x, y, z, v: function(x, y, z, value=v), name, own, _each(own, tensor1), _each(own, tensor2), _each(own, value))

    return weighed


def _lerp(name):
    function = getattr(_C.Tensor, name[len("_foreach_"):])

    @_overloads._also(scalars="weight", weights="weight")
    def lerp(self, tensors1, weight):
        own = _tensors(self, name)
        return _mapped(function, name, own, _each(own, tensors1), _each(own, weight))

    return lerp


def _norm(self, ord=2, dtype=None):
    return _mapped(lambda x: _C.norm(x, ord, dtype=dtype), "_foreach_norm", _tensors(self, "_foreach_norm"))


def _powsum(self, ord=2, dtype=None):
    return _mapped(lambda x: x.abs().pow(ord).sum(dtype=dtype), "_foreach_powsum", _tensors(self, "_foreach_powsum"))


def _copy_(self, src, non_blocking=False):
    own = _tensors(self, "_foreach_copy_")
    return _mapped(_C.Tensor.copy_, "_foreach_copy_", own, _each(own, src))


def _mm(self, mat2):
    own = _tensors(self, "_foreach_mm")
    return _mapped(_C.mm, "_foreach_mm", own, _each(own, mat2))


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype): (lists, indices)}: the rows of several lists by where the first tensor of each lies and what it holds."""
    groups = {}
    for i, row in enumerate(zip(*tensorlistlist)):
        first = next(x for x in row if x is not None)
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for into, x in zip(lists, row):
            into.append(x)
        if with_indices:
            indices.append(i)
    return groups


_OWN = {"norm": _norm, "powsum": _powsum, "copy_": _copy_, "mm": _mm, "max": _alone("max", "_foreach_max"), "zero_": _alone("zero_", "_foreach_zero_")}


def _made(name):
    of = name[len("_foreach_"):]
    plain, tail = (of[:-1], "_") if of.endswith("_") else (of, "")
    if of in _OWN:
        return _OWN[of]
    if plain in _SAME:
        return _alone(of, name)
    if plain == "pow":
        return _pow(name)
    if plain in _BESIDE:
        return _beside(_BESIDE[plain] + tail, name)
    if plain in ("addcmul", "addcdiv"):
        return _weighed(of, name)
    return _lerp(name) if plain == "lerp" else None


def __getattr__(name):
    function = _made(name) if name.startswith("_foreach_") else None
    if function is None:
        raise AttributeError(f"module 'tensord' has no attribute '{name}'", name=name)
    function.__name__ = function.__qualname__ = name
    globals()[name] = function
    return function
