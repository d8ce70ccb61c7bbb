"""dtypes as the array API standard has them: its kinds, its promotion, its conversions.

The standard promotes within a kind only (and integers of both signs); what it leaves open is as in the rest of tensord, so that functions
and operators agree. Nothing here asks the daemon.
"""

from tensord import _C

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_EVERY = _KINDS["bool"] + _KINDS["numeric"]
_OWN_FLOATS = (_C.float16, _C.bfloat16)  # the standard knows neither; both are real floating


def default_float():
    return _C.get_default_dtype()


def category(dtype):
    """0 bool, 1 whole numbers, 2 floats, 3 complex."""
    if dtype is _C.bool:
        return 0
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


def of_number(value):
    """The category of a number of Python."""
    for kind, at in ((bool, 0), (int, 1), (float, 2), (complex, 3)):
        if isinstance(value, kind):
            return at
    raise TypeError(f"a {type(value).__name__} is neither a tensor nor a number")


def _two(a, b):
    """The dtype that holds the values of both."""
    low, high = sorted((a, b), key=category)
    if category(low) != category(high):
        return _two(low.to_complex(), high) if category(low) == 2 else high
    if category(a) == 1 and a.is_signed != b.is_signed:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        if unsigned is _C.uint64:
            raise TypeError(f"no dtype holds both {a} and {b}")
        return signed if signed.itemsize > unsigned.itemsize else {1: _C.int16, 2: _C.int32, 4: _C.int64}[unsigned.itemsize]
    if {a, b} == set(_OWN_FLOATS):
        return _C.float32
    return max(a, b, key=lambda dtype: dtype.itemsize)


def promote(dtypes):
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = _two(result, dtype)
    return result


def with_number(dtype, at):
    """The dtype of a tensor beside a number of category `at`."""
    if at <= category(dtype):
        return dtype
    if at == 3:
        return dtype.to_complex() if category(dtype) == 2 else default_float().to_complex()
    return default_float() if at == 2 else _C.int64


def summed(dtype):
    """What sums and products are of when nobody says: whole numbers are wide then, and without a sign if they have none."""
    if category(dtype) > 1:
        return dtype
    return _C.int64 if dtype is _C.bool or dtype.is_signed else _C.uint64


def result_type(*arrays_and_dtypes):
    """The dtype that arithmetic over these tensors, dtypes and numbers gives."""
    if not arrays_and_dtypes:
        raise ValueError("result_type() needs at least one tensor, dtype or number")
    dtypes = [x if isinstance(x, _C.dtype) else x.dtype for x in arrays_and_dtypes if isinstance(x, (_C.dtype, _C.Tensor))]
    numbers = [of_number(x) for x in arrays_and_dtypes if not isinstance(x, (_C.dtype, _C.Tensor))]
    if not dtypes:
        raise ValueError("result_type() needs at least one tensor or dtype among the numbers")
    return with_number(promote(dtypes), max(numbers, default=0))


def together(*tensors):
    """The tensors, all in the dtype they promote to."""
    dtype = promote([t.dtype for t in tensors])
    return [t.to(dtype) for t in tensors]


def can_cast(from_, to, /):
    """Does promotion lead from one dtype, or a tensor's, to another?"""
    dtype = from_.dtype if isinstance(from_, _C.Tensor) else from_
    try:
        return _two(dtype, to) is to
    except TypeError:  # uint64 and signed ones lead nowhere
        return False


def _is_kind(dtype, kind):
    if isinstance(kind, _C.dtype):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype(): there is no kind of dtypes {kind!r}; known are {', '.join(map(repr, _KINDS))}")
    return dtype.name in _KINDS[kind] or dtype in _OWN_FLOATS and kind in ("real floating", "numeric")


def isdtype(dtype, kind):
    """Is a dtype of a kind, or of one of several? Kinds are dtypes and names such as 'integral'."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any([_is_kind(dtype, k) for k in kinds])


def astype(x, dtype, /, *, copy=True, device=None):
    """The values in another dtype: a copy, or with copy=False the tensor itself when it has it."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError(f"astype(): {x.dtype} cannot become {dtype}, as the imaginary part would be lost; use real() or imag()")
    return x.to(dtype, device=device, copy=copy)


def finfo(type, /):
    """What a float dtype can hold."""
    from tensord.core import _overloads

    return _overloads.finfo(type)


def iinfo(type, /):
    """What a whole-number dtype can hold."""
    from tensord.core import _overloads

    return _overloads.iinfo(type)


def dtypes_of_kind(kind=None):
    """The standard's dtypes by name, all or those of a kind or of several."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = [n for n in _EVERY if any(k is None or _is_kind(getattr(_C, n), k) for k in kinds)]
    return {n: getattr(_C, n) for n in names}
