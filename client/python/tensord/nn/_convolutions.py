"""Convolutions as layers: the parameters, names and initialisation of PyTorch's."""

import math
from typing import Any

import tensord as td
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn.layers import _parameter
from tensord.nn.module import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Convolution(Module):
    _dims = 2
    _function: Any = None
    _turned = False  # weights are (in, out / groups, ...), as of what is convolved backwards

    def _set_up(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype):
        if groups <= 0:
            raise td.InvalidError("groups must be a positive integer")
        if in_channels % groups or out_channels % groups:
            raise td.InvalidError(f"in_channels ({in_channels}) and out_channels ({out_channels}) must be divisible by groups ({groups})")
        n = self._dims
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, F._spread(kernel_size, n)
        self.stride, self.dilation, self.groups = F._spread(stride, n), F._spread(dilation, n), groups
        self.padding, self.padding_mode = padding if isinstance(padding, str) else F._spread(padding, n), padding_mode
        ends = (in_channels, out_channels // groups) if self._turned else (out_channels, in_channels // groups)
        self.weight = _parameter(*ends, *self.kernel_size, dtype=dtype, device=device)
        self.register_parameter("bias", _parameter(out_channels, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None and (fan := math.prod(self.weight.shape[1:])):
            init.uniform_(self.bias, -1 / math.sqrt(fan), 1 / math.sqrt(fan))

    def extra_repr(self) -> str:
        n = self._dims
        usual: dict = dict(padding=(0,) * n, dilation=(1,) * n, output_padding=(0,) * n, groups=1)
        more = [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k, v) != v] + ["bias=False"] * (self.bias is None)
        more += [f"padding_mode={self.padding_mode}"] * (self.padding_mode != "zeros")
        return ", ".join([f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}", *more])


class _Padded:
    """A convolution of what has other edges than zeros."""

    def __init__(self, function, edges, mode):
        self.function, self.edges, self.mode = function, edges, mode

    def __call__(self, input, weight, bias, stride, padding, dilation, groups):
        return self.function(F.pad(input, self.edges, self.mode), weight, bias, stride, 0, dilation, groups)


class _Straight(_Convolution):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None,
                 dtype=None):
        super().__init__()
        modes = ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise td.InvalidError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise td.InvalidError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
            if padding == "same" and any(s != 1 for s in F._spread(stride, self._dims)):
                raise td.InvalidError("padding='same' is not supported for strided convolutions")
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        if padding_mode != "zeros":
            self._function = _Padded(type(self)._function, self._edges(), padding_mode)

    def _edges(self):
        """As pad() has them: of the last dimension first."""
        if self.padding == "valid":
            return [0] * (2 * self._dims)
        if self.padding == "same":
            spans = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return [p for s in reversed(spans) for p in (s // 2, s - s // 2)]
        return [p for p in reversed(self.padding) for _ in range(2)]

    def forward(self, input):
        return self._function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Straight):
    """Each place of the output sees a stretch of the input."""

    _dims, _function = 1, staticmethod(F.conv1d)


class Conv2d(_Straight):
    """Each place of the output sees a window of the input."""

    _function = staticmethod(F.conv2d)


class Conv3d(_Straight):
    """Each place of the output sees a window of the input, a volume."""

    _dims, _function = 3, staticmethod(F.conv3d)


class _Transposed(_Convolution):
    _turned = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        if padding_mode != "zeros":
            raise td.InvalidError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        self.output_padding = F._spread(output_padding, self._dims)

    def _output_padding(self, input, output_size):
        """What makes the output that large."""
        sizes = tuple(output_size)[-self._dims :]
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in zip(
            input.shape[-self._dims :], self.stride, self.padding, self.dilation, self.kernel_size)]
        more = [o - n for o, n in zip(sizes, least)]
        if len(output_size) not in (self._dims, self._dims + 1, self._dims + 2) or any(not 0 <= m < s for m, s in zip(more, self.stride)):
            raise td.InvalidError(f"requested an output size of {sizes}, but valid sizes range from {least} to {[n + s - 1 for n, s in zip(least, self.stride)]}")
        return more

    def forward(self, input, output_size=None):
        if output_size is not None:
            more = self._output_padding(input, output_size)
            return self._function(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)
        return self._function(input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)


class ConvTranspose1d(_Transposed):
    """Each place of the input reaches a stretch of the output."""

    _dims, _function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """Each place of the input reaches a window of the output."""

    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """Each place of the input reaches a window of the output, a volume."""

    _dims, _function = 3, staticmethod(F.conv_transpose3d)
