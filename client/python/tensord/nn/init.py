"""Where the numbers of a new layer come from. All write into their tensor, without a gradient, and return it; `generator`: another than the session's."""

import functools
import math
import warnings

from tensord import _C
from tensord.core._overloads import eye as _identity, no_grad
from tensord.linalg import qr


def _fans(tensor):
    if tensor.ndim < 2:
        raise _C.ShapeError("fan in and fan out are of tensors with 2 or more dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # PyTorch's name, which programs use

_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid")


def calculate_gain(nonlinearity, param=None):
    """What keeps the variance through this function; `param`: the slope of leaky_relu. Raises InvalidError for another function or slope."""
    gains = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75, **dict.fromkeys(_LINEAR, 1)}
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise _C.InvalidError(f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        raise _C.InvalidError(f"Unsupported nonlinearity {nonlinearity}")
    return gains[nonlinearity]


@no_grad()
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def constant_(tensor, val):
    return tensor.fill_(val)


def zeros_(tensor):
    return constant_(tensor, 0)


def ones_(tensor):
    return constant_(tensor, 1)


def _bound(tensor, a, mode, nonlinearity):
    if mode.lower() not in ("fan_in", "fan_out"):
        raise _C.InvalidError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = _fans(tensor)[0 if mode.lower() == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    bound = math.sqrt(3) * _bound(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    return normal_(tensor, 0.0, _bound(tensor, a, mode, nonlinearity), generator)


def xavier_uniform_(tensor, gain=1.0, generator=None):
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


@no_grad()
def eye_(tensor):
    if tensor.ndim != 2:
        raise _C.ShapeError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_identity(*tensor.shape))


@no_grad()
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal numbers of which those outside of [a, b] do not occur: by the inverse of the distribution, found by bisection."""
    low, high = (math.erf((end - mean) / (std * math.sqrt(2))) for end in (a, b))
    want = tensor.detach().clone().uniform_(low, high, generator=generator)
    left, right = _C.full_like(want, a), _C.full_like(want, b)
    for _ in range(40):
        middle = (left + right) / 2
        under = ((middle - mean) / (std * math.sqrt(2))).erf() < want
        left, right = _C.where(under, middle, left), _C.where(under, right, middle)
    return tensor.copy_(((left + right) / 2).clamp(min=a, max=b))


@no_grad()
def orthogonal_(tensor, gain=1.0, generator=None):
    """Rows, or columns where there are fewer, that are orthogonal and `gain` long; of more than 2 dimensions those behind the first are one."""
    if tensor.ndim < 2:
        raise _C.ShapeError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    drawn = _C.empty(max(rows, columns), min(rows, columns), dtype=tensor.dtype, device=tensor.device).normal_(0, 1, generator=generator)
    q, r = qr(drawn)
    q = q * r.diagonal().sign()  # all orthogonal ones with the same chance (Mezzadri 2006)
    return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape) * gain)


@no_grad()
def dirac_(tensor, groups=1):
    """A kernel of a convolution, 3 to 5 dimensions, by which as many channels as there can be come out as they are, in each group."""
    if tensor.ndim not in (3, 4, 5):
        raise _C.ShapeError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise _C.InvalidError("dim 0 must be divisible by groups")
    each, middle = tensor.shape[0] // groups, tuple(n // 2 for n in tensor.shape[2:])
    kept = [(g * each + k, k) for g in range(groups) for k in range(min(each, tensor.shape[1]))]
    tensor.zero_()
    if kept and tensor.numel():
        outs, ins = (_C.tensor(list(at), device=tensor.device) for at in zip(*kept))
        tensor[(outs, ins, *middle)] = 1
    return tensor


@no_grad()
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal numbers, of which in each column of the matrix a share of `sparsity`, rounded up, is 0."""
    if tensor.ndim != 2:
        raise _C.ShapeError("Only tensors with 2 dimensions are supported")
    tensor.normal_(0, std, generator=generator)
    order = _C.rand(*tensor.shape, device=tensor.device, generator=generator).argsort(0)
    return tensor.scatter_(0, order[: math.ceil(sparsity * tensor.shape[0])], 0)


def _older(function):
    name = function.__name__[:-1]

    @functools.wraps(function)
    def renamed(*args, **kwargs):
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = name
    renamed.__doc__ = f"{name}_() under its old name."
    return renamed


constant, dirac, eye, kaiming_normal, kaiming_uniform = _older(constant_), _older(dirac_), _older(eye_), _older(kaiming_normal_), _older(kaiming_uniform_)
normal, orthogonal, sparse, uniform = _older(normal_), _older(orthogonal_), _older(sparse_), _older(uniform_)
xavier_normal, xavier_uniform = _older(xavier_normal_), _older(xavier_uniform_)
