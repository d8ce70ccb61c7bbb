"""Where the numbers of a new layer come from."""

import math

from tensord import _C
from tensord._more import eye, no_grad


def _fans(tensor):
    if tensor.ndim < 2:
        raise _C.ShapeError("fan in and fan out are of tensors with 2 or more dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def calculate_gain(nonlinearity, param=None):
    gains = {"tanh": 5 / 3, "relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2)), "selu": 0.75}
    return gains.get(nonlinearity, 1.0)


@no_grad()
def uniform_(tensor, a=0.0, b=1.0):
    return tensor.uniform_(a, b)


@no_grad()
def normal_(tensor, mean=0.0, std=1.0):
    return tensor.normal_(mean, std)


@no_grad()
def constant_(tensor, val):
    return tensor.fill_(val)


def zeros_(tensor):
    return constant_(tensor, 0)


def ones_(tensor):
    return constant_(tensor, 1)


def _bound(tensor, a, mode, nonlinearity):
    fan = _fans(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    bound = math.sqrt(3) * _bound(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    return normal_(tensor, 0.0, _bound(tensor, a, mode, nonlinearity))


def xavier_uniform_(tensor, gain=1.0):
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


@no_grad()
def eye_(tensor):
    if tensor.ndim != 2:
        raise _C.ShapeError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(eye(*tensor.shape))


@no_grad()
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0):
    """Normal numbers of which those outside of [a, b] do not occur: by the inverse of the distribution, found by bisection."""
    low, high = (math.erf((end - mean) / (std * math.sqrt(2))) for end in (a, b))
    want = tensor.detach().clone().uniform_(low, high)
    left, right = _C.full_like(want, a), _C.full_like(want, b)
    for _ in range(40):
        middle = (left + right) / 2
        under = ((middle - mean) / (std * math.sqrt(2))).erf() < want
        left, right = _C.where(under, middle, left), _C.where(under, right, middle)
    return tensor.copy_(((left + right) / 2).clamp(min=a, max=b))
