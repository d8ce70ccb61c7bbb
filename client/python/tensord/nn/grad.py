"""Gradients of convolutions by themselves, as torch.nn.grad names them: for who writes the backward of a layer of his own."""

from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor
from tensord.nn import functional as _F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(conv, n, input, weight, which, grad_output, settings):
    """That of one of the two, of which only the shape counts."""
    from tensord import autograd

    shape, other = (input, weight) if which == 0 else (weight, input)
    if len(shape) not in (n + 1, n + 2):
        raise _C.ShapeError(f"grad.conv{n}d_{('input', 'weight')[which]}(): a size of {n + 2} numbers is expected, not {tuple(shape)}")
    again = _C.is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    with _overloads.enable_grad():
        wanted = _C.empty(tuple(shape), dtype=other.dtype, device=other.device).requires_grad_()
        given = (wanted, other) if which == 0 else (other, wanted)
        return autograd.grad(conv(*given, None, *settings), wanted, grad_output, create_graph=again)[0]


def conv1d_input(input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv1d() by its input, which has this size."""
    return _gradient(_F.conv1d, 1, input_size, weight, 0, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv1d() by its weight, which has this size."""
    return _gradient(_F.conv1d, 1, input, weight_size, 1, grad_output, (stride, padding, dilation, groups))


def conv2d_input(input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv2d() by its input, which has this size."""
    return _gradient(_F.conv2d, 2, input_size, weight, 0, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv2d() by its weight, which has this size."""
    return _gradient(_F.conv2d, 2, input, weight_size, 1, grad_output, (stride, padding, dilation, groups))


def conv3d_input(input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv3d() by its input, which has this size."""
    return _gradient(_F.conv3d, 3, input_size, weight, 0, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv3d() by its weight, which has this size."""
    return _gradient(_F.conv3d, 3, input, weight_size, 1, grad_output, (stride, padding, dilation, groups))
