"""Random tensors: functions that take a generator, and those of distributions."""

from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops
from tensord.core._layouts import _laid_as, _taking
from tensord.core._generators import drawn

_is = _C.is_tensor


def _size(size):
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _floating(make, size, kw):
    generator, dtype = kw.pop("generator", None), kw.pop("dtype", None) or _C.get_default_dtype()
    device, requires_grad = kw.pop("device", None), kw.pop("requires_grad", False)
    if "size" in kw:
        size = (kw.pop("size"),)
    for name in kw:
        raise _C.DTypeError(f"got an unexpected keyword argument '{name}'")
    return drawn(generator, _overloads._made, device, requires_grad, _complex(make) if dtype.is_complex else make, _size(size), dtype)


def _complex(make):
    """Both parts are drawn; where their squares have a mean of one, half of it is each part's."""

    def both(shape, dtype):
        parts = make((*_overloads._shape(shape), 2), dtype.to_real())
        return ops.view_as_complex(parts * 0.5**0.5 if make is ops.randn else parts)

    return both


def _like(make):
    def like(input, dtype=None, *, generator=None, device=None, requires_grad=False):
        dtype = dtype or input.dtype
        made = drawn(generator, _overloads._made, device or input.device, False, _complex(make) if dtype.is_complex else make, input.shape, dtype)
        return _overloads._leaf(_laid_as(input, made), requires_grad)

    return like


rand_like, randn_like = _like(ops.rand), _like(ops.randn)


def rand(*size, **kw):
    return _floating(ops.rand, size, kw)


def randn(*size, **kw):
    return _floating(ops.randn, size, kw)


def _ints(make, low, high, size, dtype, generator, device, requires_grad):
    made = drawn(generator, _overloads._made, device, requires_grad, make, low, high, size, _C.uint8 if dtype is _C.bool else dtype)
    return made.to(_C.bool) if dtype is _C.bool else made


def randint(low=None, high=None, size=None, dtype=None, *, generator=None, device=None, requires_grad=False):
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    if size is None:
        raise _C.DTypeError("randint() needs the size: randint(high, (2, 3)) or randint(low, high, (2, 3))")
    if high is None or low is None:
        low, high = 0, low if high is None else high
    return _ints(ops.randint, low, high, _overloads._shape(size), dtype or _C.int64, generator, device, requires_grad)


@_taking
def randint_like(input: Tensor, low: int, high: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Random whole numbers from low (0 when left out) to high - 1, in the same shape and dtype."""
    low, high = (0, low) if high is None else (low, high)
    return _overloads._leaf(_laid_as(input, _ints(ops.randint, low, high, input.shape, dtype or input.dtype, generator, device or input.device, False)), requires_grad)


def randperm(n, dtype=None, *, generator=None, device=None, requires_grad=False):
    return drawn(generator, _overloads._made, device, requires_grad, ops.randperm, n, dtype or _C.int64)


@_overloads._written
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Random normal numbers of this mean and standard deviation; without a size, one for each of theirs."""
    if size is None:
        size = (mean + std).shape if _is(mean) or _is(std) else None
        if size is None:
            raise _C.DTypeError("normal() of two numbers needs the size: normal(0.0, 1.0, (2, 3))")
    if not _is(std) and not std >= 0:
        raise _C.InvalidError(f"normal expects std >= 0.0, but found std {std}")
    kinds = [x.dtype for x in (mean, std) if _is(x) and x.is_floating_point()]
    there: Any = device or next((x.device for x in (mean, std) if _is(x)), None)
    made = drawn(generator, _overloads._made, there, False, ops.randn, tuple(size), dtype or (kinds[0] if kinds else _C.get_default_dtype())) * std + mean
    return made.requires_grad_() if requires_grad else made


@_overloads._beside
def _filled(self, generator, make, *args):
    """self with what make(shape, *args, dtype) draws; dtypes that no distribution has are converted."""
    if not self.is_floating_point():
        raise _C.DTypeError(f"random numbers of this distribution do not fit {self.dtype}")
    return self.copy_(drawn(generator, make, self.shape, *args, self.dtype))


def _real(name, self):
    if self.dtype.is_complex:
        raise _C.Unsupported(f"{name}: is for real tensors, not for {self.dtype}; x.real and x.imag are such")


def _holds(self, a, b):
    most = _overloads.finfo(self.dtype).max
    for name, bound in (("from", a), ("to", b)):
        if not -most <= bound <= most:
            raise _C.InvalidError(f"uniform_: {name} is out of bounds for {self.dtype}")
    if b - a > most:
        raise _C.InvalidError(f"uniform_ expects to-from <= {most}, the largest {self.dtype}, but found to={b} and from={a}")


@_overloads._also(**{"from": "a", "to": "b"})
def uniform_(self, a=0.0, b=1.0, *, generator=None):
    if a > b:
        raise _C.InvalidError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    if not (-3e4 <= a and b <= 3e4):  # what any dtype holds needs no look
        _holds(self, a, b)
    return self.copy_(drawn(generator, _C.rand_like, self) * (b - a) + a)


def normal_(self, mean=0.0, std=1.0, *, generator=None):
    if std < 0:
        raise _C.InvalidError(f"normal_ expects std >= 0.0, but found std {std}")
    return self.copy_(drawn(generator, _C.randn_like, self) * std + mean)


def exponential_(self, lambd=1.0, *, generator=None):
    return _filled(self, generator, ops.exponential, float(lambd))


def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    return _filled(self, generator, ops.cauchy, float(median), float(sigma))


def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    return _filled(self, generator, ops.log_normal, float(mean), float(std))


@_overloads._beside
def geometric_(self, p, *, generator=None):
    return self.copy_(drawn(generator, ops.geometric, self.shape, float(p), self.dtype))


def poisson(input, generator=None):
    return drawn(generator, ops.poisson, input)


def bernoulli(input, p=None, *, generator=None):
    if p is None:
        return drawn(generator, ops.bernoulli, input)
    chance = _overloads._made(input.device, False, ops.make_full, input.shape, float(p), input.dtype if input.is_floating_point() else _C.float32)
    return drawn(generator, ops.bernoulli, chance).to(input.dtype)


@_overloads._beside
def bernoulli_(self, p=0.5, *, generator=None):
    _real("bernoulli_", self)
    if not _is(p) and not 0 <= p <= 1:
        raise _C.InvalidError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    chance: Any = p if _is(p) else ops.make_full(self.shape, p, self.dtype if self.is_floating_point() else _C.float32)
    return self.copy_(drawn(generator, ops.bernoulli, chance.expand(self.shape)))


# How far random_() goes when it is not told: the largest whole numbers that a dtype has all of.
_MOST = {_C.bool: 2, _C.uint8: 256, _C.int8: 128, _C.int16: 1 << 15, _C.int32: 1 << 31, _C.int64: (1 << 63) - 1, _C.uint16: 1 << 16, _C.uint32: 1 << 32, _C.uint64: (1 << 63) - 1, _C.float16: (1 << 11) + 1,
         _C.bfloat16: (1 << 8) + 1, _C.float32: (1 << 24) + 1, _C.float64: (1 << 53) + 1}


@_overloads._beside
@_overloads._also(**{"from": "low", "to": "high"})
def random_(self, low=..., high=..., *, generator=None):
    _real("random_", self)
    if high is ...:
        low, high = 0, None if low is ... else low
    low, high = 0 if low is ... else low, _MOST[self.dtype] if high is None else high
    if low >= high:
        raise _C.InvalidError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if not 0 <= low < high <= 2:  # what any dtype holds needs no look
        _holds_whole(self.dtype, low, high - 1)
    return self.copy_(drawn(generator, ops.randint, low, high, self.shape, _C.int64))


def _holds_whole(dtype, first, last):
    if dtype is _C.bool:
        least, most = 0, 1
    else:
        held = (_overloads.finfo if dtype.is_floating_point else _overloads.iinfo)(dtype)
        least, most = held.min, held.max
    for name, bound in (("from", first), ("to - 1", last)):
        if not least <= bound <= most:
            raise _C.InvalidError(f"random_: {name} is out of bounds for {dtype}")


def multinomial(input, num_samples, replacement=False, *, generator=None):
    return drawn(generator, ops.multinomial, input, num_samples, replacement)
