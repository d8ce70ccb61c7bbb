"""Layers that are told what comes out and learn from their first input what goes in; from then on they are the layers that they are named after."""

import tensord as td
from tensord import _C
from tensord.nn import _convolutions, _norms, layers
from tensord.nn.module import Module
from tensord.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
           "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear"]


class LazyModuleMixin(Module):
    """Stands before the layer among a class's bases. Write initialize_parameters(), which is called with forward()'s arguments, before it, and materializes
    what has no shape; cls_to_become is what the module is afterwards (None: what it was)."""

    cls_to_become: "type | None" = None

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def _without_shape(self):
        return [name for home in (self._parameters, self._buffers) for name, x in home.items() if is_lazy(x)]

    def has_uninitialized_params(self):
        """Whether parameters or buffers of its own have no shape yet."""
        return bool(self._without_shape())

    def __call__(self, *args, **kwargs):
        if self.__dict__.get("_initialized"):
            return super().__call__(*args, **kwargs)
        with td.no_grad():
            self.initialize_parameters(*args, **kwargs)
        if left := self._without_shape():
            raise _C.Error(f"module {type(self).__name__} has not been fully initialized: {', '.join(left)}")
        if self.cls_to_become is None:
            object.__setattr__(self, "_initialized", True)
            return super().__call__(*args, **kwargs)
        self.__class__ = self.cls_to_become
        return self(*args, **kwargs)


def _fits(layer, what, have, expected):
    """A state that was loaded has a shape already, which the input must fit."""
    if have != expected:
        raise _C.ShapeError(f"{type(layer).__name__}: the input has {have} {what}, the state that was loaded {expected}")


class LazyLinear(LazyModuleMixin, layers.Linear):
    """Linear, whose in_features are the last dimension of its first input."""

    cls_to_become = layers.Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False, device, dtype)  # type: ignore[call-arg]
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.register_parameter("bias", UninitializedParameter(device=device, dtype=dtype) if bias else None)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input):
        self.in_features, found = input.shape[-1], self.has_uninitialized_params()
        for x, shape in ((self.weight, (self.out_features, self.in_features)), (self.bias, (self.out_features,))):
            if is_lazy(x):
                x.materialize(shape)
        _fits(self, "features", self.in_features, self.weight.shape[1])
        if found:
            self.reset_parameters()


class _LazyConvolution(LazyModuleMixin):
    def _set_up(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype):
        super()._set_up(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)  # type: ignore[misc]
        if out_channels % groups:
            raise td.InvalidError(f"out_channels ({out_channels}) must be divisible by groups ({groups})")
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.register_parameter("bias", UninitializedParameter(device=device, dtype=dtype) if bias else None)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input, *args, **kwargs):
        n, found = self._dims, self.has_uninitialized_params()  # type: ignore[attr-defined]
        if input.ndim not in (n + 1, n + 2):
            raise _C.ShapeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of size: {input.shape}")
        channels = input.shape[-n - 1]
        if channels % self.groups:
            raise _C.InvalidError("in_channels must be divisible by groups")
        self.in_channels = channels
        ends = (channels, self.out_channels // self.groups) if self._turned else (self.out_channels, channels // self.groups)  # type: ignore[attr-defined]
        for x, shape in ((self.weight, (*ends, *self.kernel_size)), (self.bias, (self.out_channels,))):
            if is_lazy(x):
                x.materialize(shape)
        _fits(self, "channels", channels, self.weight.shape[0] if self._turned else self.weight.shape[1] * self.groups)  # type: ignore[attr-defined]
        if found:
            self.reset_parameters()


class _LazyNorm(LazyModuleMixin):
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *, bias=True):
        super().__init__(0, eps, momentum, False, False, device, dtype)  # type: ignore[call-arg]
        self.affine, self.track_running_stats = affine, track_running_stats
        for name in ("weight", "bias"):
            self.register_parameter(name, UninitializedParameter(device=device, dtype=dtype) if affine and (bias or name == "weight") else None)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, UninitializedBuffer(device=device, dtype=dtype) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", td.tensor(0, device=device) if track_running_stats else None)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input):
        dims = self._dims  # type: ignore[attr-defined]
        if input.ndim not in dims:
            raise _C.ShapeError(f"expected {' or '.join(f'{d}D' for d in dims)} input (got {input.ndim}D input)")
        alone = isinstance(self, _norms._InstanceNorm) and input.ndim == dims[0]
        self.num_features, found = input.shape[0 if alone else 1], self.has_uninitialized_params()
        for x in (self.weight, self.bias, self.running_mean, self.running_var):
            if is_lazy(x):
                x.materialize((self.num_features,))
            elif x is not None:
                _fits(self, "channels", self.num_features, x.shape[0])
        if found:
            self.reset_parameters()


class _LazyConv(_LazyConvolution):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)  # type: ignore[call-arg]


class _LazyConvTranspose(_LazyConvolution):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros", device=None,
                 dtype=None):
        super().__init__(0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device, dtype)  # type: ignore[call-arg]


class LazyConv1d(_LazyConv, _convolutions.Conv1d):
    """Conv1d, whose in_channels are those of its first input."""

    cls_to_become = _convolutions.Conv1d


class LazyConv2d(_LazyConv, _convolutions.Conv2d):
    """Conv2d, whose in_channels are those of its first input."""

    cls_to_become = _convolutions.Conv2d


class LazyConv3d(_LazyConv, _convolutions.Conv3d):
    """Conv3d, whose in_channels are those of its first input."""

    cls_to_become = _convolutions.Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, _convolutions.ConvTranspose1d):
    """ConvTranspose1d, whose in_channels are those of its first input."""

    cls_to_become = _convolutions.ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, _convolutions.ConvTranspose2d):
    """ConvTranspose2d, whose in_channels are those of its first input."""

    cls_to_become = _convolutions.ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, _convolutions.ConvTranspose3d):
    """ConvTranspose3d, whose in_channels are those of its first input."""

    cls_to_become = _convolutions.ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, _norms.BatchNorm1d):
    """BatchNorm1d, whose num_features are the channels of its first input."""

    cls_to_become = _norms.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, _norms.BatchNorm2d):
    """BatchNorm2d, whose num_features are the channels of its first input."""

    cls_to_become = _norms.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, _norms.BatchNorm3d):
    """BatchNorm3d, whose num_features are the channels of its first input."""

    cls_to_become = _norms.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, _norms.InstanceNorm1d):
    """InstanceNorm1d, whose num_features are the channels of its first input. As in PyTorch it is affine and tracks, unless told otherwise."""

    cls_to_become = _norms.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, _norms.InstanceNorm2d):
    """InstanceNorm2d, whose num_features are the channels of its first input. As in PyTorch it is affine and tracks, unless told otherwise."""

    cls_to_become = _norms.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, _norms.InstanceNorm3d):
    """InstanceNorm3d, whose num_features are the channels of its first input. As in PyTorch it is affine and tracks, unless told otherwise."""

    cls_to_become = _norms.InstanceNorm3d
