"""Other sizes and other places as functions: what stands around a tensor, pictures in another size, pictures at the places of a grid."""

import math
import warnings
from typing import Any

from tensord import _C
from tensord.core import _overloads
from tensord._C import Tensor, ops

__all__ = ["pad", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear", "grid_sample"]


def pad(input: Tensor, pad, mode="constant", value=None) -> Tensor:
    """A value around the tensor, or (mode 'reflect', 'replicate' or 'circular') its own elements: pairs (before, after) of the last dimension, then the
    one before it, ...

    >>> F.pad(td.tensor([1.0, 2.0]), (1, 2), value=9.0)
    tensor([9., 1., 2., 9., 9.])
    """
    pad = tuple(pad)
    if mode == "constant":
        return ops.constant_pad(input, pad, value or 0)
    if mode not in ("reflect", "replicate", "circular"):
        raise _C.InvalidError(f"Unrecognised padding mode {mode}")
    if value:
        raise _C.InvalidError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if len(pad) not in (2, 4, 6) or input.ndim - len(pad) // 2 not in (1, 2):
        raise _C.Unsupported("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    return (ops.reflection_pad if mode == "reflect" else ops.replication_pad if mode == "replicate" else ops.circular_pad)(input, pad)


def _scaled_sizes(sizes, size, scale_factor, recompute):
    """(sizes of the result, scales): scales are those that were given, or None where the sizes alone say them."""
    if (size is None) == (scale_factor is None):
        raise _C.InvalidError(f"interpolate(): {'either' if size is None else 'only one of'} size or scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    given = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(sizes)
    if len(given) != len(sizes):
        raise _C.ShapeError(f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {list(sizes)} and "
                            f"{'output size' if scale_factor is None else 'scale_factor'} of {given}")
    if scale_factor is None:
        if recompute:
            raise _C.InvalidError("recompute_scale_factor is not meaningful with an explicit size.")
        return given, [None] * len(sizes)
    return [math.floor(n * s) for n, s in zip(sizes, given)], [None if recompute else float(s) for s in given]


# (number of the op's mode, dimensions of the input)
_MODES: dict = {"nearest": (0, (3, 4, 5)), "nearest-exact": (1, (3, 4, 5)), "linear": (2, (3,)), "bilinear": (2, (4,)), "trilinear": (2, (5,)),
                "bicubic": (3, (4,)), "area": (4, (3, 4, 5))}


def _nearest_whole(input, sizes, scales, exact):
    """Of whole numbers, one dimension after the other."""
    for dim, (to, scale) in enumerate(zip(sizes, scales), 2):
        if scale is not None or _overloads._follows(input.shape[dim]) or input.shape[dim] != to:
            input = ops.resample_nearest(input, dim, to, scale, exact)
    return input


def _bytes(input, sizes, scales, number, align_corners, antialias):
    """Of bytes lines are made first, then columns of what they have become, rounded to bytes."""
    for place in (1, 0):
        follows = _overloads._follows(input.shape[2 + place]) and scales[place] is None  # where sizes are the same, what is made is, too
        if follows or input.shape[2 + place] != sizes[place]:
            size, scale = list(input.shape[2:]), [None, None]
            size[place], scale[place] = sizes[place], scales[place]
            made = ops.resample(input.to(_C.float32), size, number, align_corners, antialias, None, *scale)
            input = (made + 0.5).floor().clamp(0, 255).to(_C.uint8)
    return input


def interpolate(input: Tensor, size=None, scale_factor=None, mode="nearest", align_corners: Any = None, recompute_scale_factor=None, antialias=False) -> Tensor:
    """Pictures (N, C, W), (N, C, H, W) or (N, C, D, H, W) in another size, each place from the nearest one ('nearest', 'nearest-exact'), from those around
    it ('linear', 'bilinear', 'trilinear', 'bicubic'), or the mean of those that it covers ('area'). A scale_factor says where the places are looked for, also
    when size * scale_factor is no whole number; with recompute_scale_factor the sizes say it.

    >>> F.interpolate(td.tensor([[[1.0, 2.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2., 3., 3.]]])
    """
    if mode not in _MODES or input.ndim not in _MODES[mode][1]:
        raise _C.Unsupported(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | "
                             f"trilinear | area | nearest-exact (got {mode})")
    number, weighs = _MODES[mode][0], mode.endswith(("linear", "cubic"))
    if align_corners is not None and not weighs:
        raise _C.InvalidError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise _C.InvalidError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    sizes, scales = _scaled_sizes(input.shape[2:], size, scale_factor, recompute_scale_factor)
    if weighs and input.dtype is _C.uint8 and input.ndim == 4:
        return _bytes(input, sizes, scales, number, bool(align_corners), bool(antialias))
    if mode == "area":
        scales = [None] * len(scales)
        if any(n < 1 for n in (*sizes, *input.shape[2:])):  # what it says of such sizes is that of the pools
            return (ops.adaptive_avg_pool1d(input, sizes[0]) if len(sizes) == 1 else ops.adaptive_avg_pool2d(input, sizes) if len(sizes) == 2 else
                    ops.adaptive_avg_pool3d(input, sizes))
    if number < 2 and not input.is_floating_point():
        return _nearest_whole(input, sizes, scales, number == 1)
    return ops.resample(input, sizes, number, bool(align_corners), bool(antialias), *[None] * (3 - len(sizes)), *scales)


def upsample(input: Tensor, size=None, scale_factor=None, mode="nearest", align_corners: Any = None) -> Tensor:
    """interpolate() under its old name.

    >>> F.upsample(td.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size=None, scale_factor=None) -> Tensor:
    """interpolate() of the nearest under its old name.

    >>> F.upsample_nearest(td.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size=None, scale_factor=None) -> Tensor:
    """interpolate(mode="bilinear", align_corners=True) under its old name.

    >>> F.upsample_bilinear(td.tensor([[[[1.0, 3.0]]]]), (1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def grid_sample(input: Tensor, grid, mode="bilinear", padding_mode="zeros", align_corners: Any = None) -> Tensor:
    """Pictures (N, C, H, W) at places (x, y) of a grid (N, H', W', 2), or volumes (N, C, D, H, W) at places (x, y, z) of one (N, D', H', W', 3): -1 and 1 are
    the edges.

    >>> F.grid_sample(td.tensor([[[[1.0, 3.0]]]]), td.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.]]]])
    """
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes:
        raise _C.InvalidError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in paddings:
        raise _C.InvalidError(f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'")
    if align_corners is None:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0.", stacklevel=2)
    return ops.grid_sampler(input, grid, modes.index(mode), paddings.index(padding_mode), bool(align_corners))
