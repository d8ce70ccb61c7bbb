"""What tests of programs need: whether values are close, and tensors to try functions on; with the names and arguments of torch.testing.

    td.testing.assert_close({"loss": loss, "shape": x.shape}, {"loss": 0.25, "shape": (3, 4)})
    x = td.testing.make_tensor(3, 4, dtype=td.float64, low=0.1, high=2, requires_grad=True)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["assert_close", "make_tensor"]

# (rtol, atol): what a few roundings make of a number. Whole numbers are equal or not.
_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7), _C.complex64: (1.3e-6, 1e-5),
               _C.complex128: (1e-7, 1e-7)}
_NUMBERS = (bool, int, float, complex)


def assert_close(actual: Any, expected: Any, *, rtol: Any = None, atol: Any = None, equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True,
                 check_stride: bool = False, msg: Any = None) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| in every element.

    Both are tensors (or NumPy arrays) of one shape, numbers, or sequences or mappings of such, of the same lengths and keys; the message says where. rtol
    and atol are given together or not at all: then they are those of the two dtypes, the looser of each (a Python float counts as float64). Unless
    equal_nan, a nan is close to nothing. msg: what the error says instead, or a function that makes it of the message.
    ValueError when one tolerance is given alone; TypeError for what cannot be compared.
    """
    if (rtol is None) != (atol is None):
        raise _C.InvalidError("give both rtol and atol, or neither")
    try:
        _compare(actual, expected, "", rtol, atol, equal_nan, check_device, check_dtype, check_stride)
    except AssertionError as e:
        if msg is None:
            raise
        raise AssertionError(msg(str(e)) if callable(msg) else msg) from None


def _array(x):
    return _C.is_tensor(x) or type(x).__module__ == "numpy" and hasattr(x, "dtype")


def _compare(a, b, where, *how):
    at = f"\nThe failure is at {where}" if where else ""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            raise AssertionError(f"The keys differ: only actual has {sorted(map(repr, a.keys() - b.keys()))}, only expected {sorted(map(repr, b.keys() - a.keys()))}{at}")
        for key in a:
            _compare(a[key], b[key], f"{where}[{key!r}]", *how)
    elif all(isinstance(x, Sequence) and not isinstance(x, (str, bytes)) for x in (a, b)):
        if len(a) != len(b):
            raise AssertionError(f"The lengths differ: {len(a)} != {len(b)}{at}")
        for i, (x, y) in enumerate(zip(a, b)):
            _compare(x, y, f"{where}[{i}]", *how)
    elif a is None or b is None:
        if a is not b:
            raise AssertionError(f"{a!r} is not {b!r}{at}")
    elif all(isinstance(x, _NUMBERS) or _array(x) for x in (a, b)):
        _close(a, b, at, *how)
    elif all(isinstance(x, (str, bytes)) for x in (a, b)):
        if a != b:
            raise AssertionError(f"{a!r} != {b!r}{at}")
    else:
        raise _C.DTypeError(f"cannot compare {type(a).__name__} with {type(b).__name__}{at}: give tensors, numbers, or sequences or mappings of them")


def _tensor(x, beside):
    if _C.is_tensor(x):
        return x.detach()
    if not isinstance(x, _NUMBERS):
        return _C.tensor(x)
    kind = _C.bool if isinstance(x, bool) else _C.int64 if isinstance(x, int) else _C.float64 if isinstance(x, float) else _C.complex128
    return _overloads._made(beside.device if _C.is_tensor(beside) else None, False, ops.make_full, (), x, kind)


def _close(a, b, at, rtol, atol, equal_nan, check_device, check_dtype, check_stride):
    x, y = _tensor(a, b), _tensor(b, a)
    if x.shape != y.shape:
        raise AssertionError(f"The shapes differ: {tuple(x.shape)} != {tuple(y.shape)}{at}")
    if _array(a) and _array(b):  # a number has neither
        for check, what, one, other in ((check_device, "devices", x.device, y.device), (check_dtype, "dtypes", x.dtype, y.dtype),
                                        (check_stride, "strides", x.stride(), y.stride())):
            if check and one != other:
                raise AssertionError(f"The {what} differ: {one} != {other}{at}")
    if rtol is None:
        rtol, atol = map(max, zip(_TOLERANCES.get(x.dtype, (0.0, 0.0)), _TOLERANCES.get(y.dtype, (0.0, 0.0))))
    if x.device != y.device:
        y = y.to(x.device)
    # In the widest dtype of the kind, where no difference overflows.
    floats, parts = x.dtype.is_floating_point or y.dtype.is_floating_point, x.dtype.is_complex or y.dtype.is_complex
    wide = _C.complex128 if parts else _C.float64 if floats or rtol or atol else _C.int64
    x, y = x.to(wide), y.to(wide)
    wrong = ops.logical_not(_C.isclose(x, y, rtol, atol, equal_nan)) if wide is not _C.int64 else x != y
    count = int(wrong.sum().item())
    if not count:
        return
    apart = ops.where(wrong, ops.abs(x - y), 0)
    relative = ops.where(wrong, apart.to(_C.float64) / ops.abs(y).to(_C.float64), 0.0)
    if not x.ndim:
        what = f"{a!r} and {b!r}" if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS) else f"Scalars {x.item()!r} and {y.item()!r}"
        raise AssertionError(f"{what} are not close!\n\nAbsolute difference: {apart.item()} (up to {atol} allowed)\n"
                             f"Relative difference: {relative.item()} (up to {rtol} allowed){at}")
    raise AssertionError(f"Tensors are not close!\n\nMismatched elements: {count} / {x.numel()} ({100 * count / x.numel():.1f}%)\n"
                         f"{_greatest('absolute', apart, atol)}\n{_greatest('relative', relative, rtol)}{at}")


def _greatest(kind, values, allowed):
    place = place_of = int(ops.argmax(values.flatten(), 0, False).item())
    index = []
    for n in reversed(values.shape):
        place, i = divmod(place, n)
        index.insert(0, i)
    return f"Greatest {kind} difference: {values.flatten()[place_of].item()} at index {tuple(index)} (up to {allowed} allowed)"


def make_tensor(*shape: Any, dtype: Any, device: Any = None, low: Any = None, high: Any = None, requires_grad: bool = False, noncontiguous: bool = False,
                exclude_zero: bool = False) -> Tensor:
    """Random numbers, uniform from low up to (not with) high, both parts of complex ones.

    Without bounds: floats and complex from -9 to 9, signed whole numbers from -9 to 9, unsigned from 0 to 9, bools either. noncontiguous: every second
    element of a larger tensor. exclude_zero: a zero becomes the smallest positive number, or 1. ValueError when low is not below high.
    """
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    floats = dtype.is_floating_point or dtype.is_complex
    least, most = (-9, 9) if floats else (0, 2) if dtype is _C.bool else (0, 10) if dtype is _C.uint8 else (-9, 10)
    low, high = least if low is None else low, most if high is None else high
    if not low < high:
        raise _C.InvalidError(f"make_tensor expects low < high, but found low={low} and high={high}")
    if requires_grad and not floats:
        raise _C.InvalidError(f"requires_grad=True needs a floating or complex dtype, not {dtype}")
    twice = noncontiguous and size and size[-1] > 1
    drawn = (*size[:-1], size[-1] * 2) if twice else size
    if dtype.is_complex:
        kind = dtype.to_real()
        made = _overloads._made(device, False, ops.rand, (*drawn, 2), kind) * (high - low) + low
        made = ops.view_as_complex(made)
    elif floats:
        made = _overloads._made(device, False, ops.rand, drawn, dtype) * (high - low) + low
    else:
        made = _overloads._made(device, False, ops.randint, -int(-low // 1), -int(-high // 1), drawn, _C.int64).to(dtype)
    if exclude_zero:
        made = ops.where(made == 0, _overloads.finfo(dtype.to_real()).tiny if floats else 1, made).to(dtype)
    if twice:
        made = made[..., ::2]
    return made.requires_grad_() if requires_grad else made
