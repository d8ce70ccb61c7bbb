"""What libraries ask of torch.overrides before they treat an argument as a tensor: functions of tensord are overridden by no argument's __torch_function__."""

from typing import Any

from tensord import _C

__all__ = ["get_ignored_functions", "get_overridable_functions", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
           "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function"]


def has_torch_function(relevant_args: Any) -> bool:
    """False."""
    return False


def has_torch_function_unary(arg: Any) -> bool:
    """False."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """False."""
    return False


def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """TypeError, as has_torch_function() never says that there is something to handle."""
    raise TypeError(f"no implementation found for '{resolve_name(public_api)}' on types that implement __torch_function__: {[type(a) for a in relevant_args]}")


def wrap_torch_function(dispatcher: Any) -> Any:
    """A decorator that leaves the function as it is."""
    return lambda function: function


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or says that it is treated like one."""
    return _C.is_tensor(inp) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is one of Tensor's own."""
    return any(func is value or func is getattr(value, "__get__", None) for value in vars(_C.Tensor).values())


def resolve_name(f: Any) -> Any:
    """The name that it is known by: "tensord.add", "tensord.Tensor.add"."""
    if is_tensor_method_or_property(f):
        return f"tensord.Tensor.{getattr(f, '__name__', f)}"
    name = getattr(f, "__name__", None)
    home = getattr(f, "__module__", None) or "tensord"
    return name if name is None else f"{'tensord' if home == 'tensord._C' else home}.{name}"


def get_ignored_functions() -> "set[Any]":
    """Empty."""
    return set()


def get_overridable_functions() -> "dict[Any, list[Any]]":
    """Empty."""
    return {}
