"""Parameters and buffers, and those that have no shape yet: lazy modules make them before they have seen an input."""

import tensord as td
from tensord import _C
from tensord.nn.module import Buffer as Buffer, Parameter as Parameter

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "factory_kwargs", "is_lazy"]


def factory_kwargs(kwargs):
    """What a layer's constructor hands on to those of its parameters: `device`, `dtype` and `memory_format`, from kwargs or the dict kwargs["factory_kwargs"].

    Raises TypeError for other names, and for one that stands in both.
    """
    given = dict(kwargs or {})
    inner = given.pop("factory_kwargs", {})
    if strange := given.keys() - {"device", "dtype", "memory_format"}:
        raise TypeError(f"unexpected kwargs {strange}")
    if twice := given.keys() & inner.keys():
        raise TypeError(f"{', '.join(sorted(twice))} specified twice, in **kwargs and in factory_kwargs")
    return {**inner, **given}


def is_lazy(tensor):
    """Whether it has no shape yet."""
    return isinstance(tensor, _Uninitialized)


def _refused(name):
    """What stands in the place of a method or attribute of tensors."""

    def refuse(self, *args, **kwargs):
        if name in ("shape", "size"):
            raise _C.Error("Can't access the shape of an uninitialized parameter or buffer. An input makes it, the first that forward() sees; so does a state "
                           "that load_state_dict() is given.")
        raise _C.InvalidError(f"Attempted to use an uninitialized parameter in {name}(): it has no values before its lazy module's forward() has seen an input")

    return refuse if name in _OPERATORS or callable(getattr(_C.Tensor, name)) else property(refuse)


_ALLOWED = {"data", "device", "dtype", "grad", "grad_fn", "is_complex", "is_floating_point", "is_leaf", "requires_grad", "requires_grad_"}
_OPERATORS = {f"__{n}__" for n in """add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv mod rmod pow rpow ipow matmul rmatmul
    and rand or ror xor rxor lshift rshift neg pos abs invert lt le eq ne gt ge getitem setitem len iter bool float int complex index contains array
    dlpack array_namespace round""".split()} & set(dir(_C.Tensor))


class _Uninitialized:
    """The object that it is stays, when materialize() gives it a shape; so an optimizer may have it already."""

    _becomes: type
    _lazy = True

    def materialize(self, shape, device=None, dtype=None):
        """Memory for values, not set yet, of this shape; device and dtype are what they were, when none are said."""
        data, requires_grad = self.data, self.requires_grad  # type: ignore[attr-defined]
        made = td.empty(shape, dtype=dtype or data.dtype, device=device or data.device)
        self.__class__ = self._becomes  # type: ignore[assignment]
        with td.no_grad():
            self._become(made.requires_grad_(requires_grad))  # type: ignore[attr-defined]

    def __repr__(self):
        return f"<{type(self).__name__}>"

    __str__ = __repr__
    __hash__ = object.__hash__

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            kind, arguments = self.__reduce_ex__(2)
            memo[id(self)] = kind(*arguments)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        data = self.data  # type: ignore[attr-defined]
        return type(self), (self.requires_grad, str(data.device), data.dtype)  # type: ignore[attr-defined]


_HIDDEN = {name: _refused(name) for name in [*_OPERATORS, *(n for n in dir(_C.Tensor) if not n.startswith("_") and n not in _ALLOWED)]}


class UninitializedParameter(type("_", (_Uninitialized, Parameter), _HIDDEN)):  # type: ignore[misc]
    """A parameter without a shape: materialize(shape) makes it a Parameter. Its methods and operators raise InvalidError before that, its shape Error."""

    _becomes = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return super().__new__(cls, td.empty(0, dtype=dtype, device=device), requires_grad)


class UninitializedBuffer(type("_", (_Uninitialized, Buffer), _HIDDEN)):  # type: ignore[misc]
    """A buffer without a shape, see UninitializedParameter; it becomes a Buffer."""

    _becomes = Buffer

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        return super().__new__(cls, td.empty(0, dtype=dtype, device=device), persistent=persistent)
