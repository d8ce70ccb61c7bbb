"""A norm that is no longer trained, put into the weights of the layer before it."""

import copy

import tensord as td
from tensord.nn.module import Parameter


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of a convolution that does what it and the norm after it did."""
    bias = td.zeros_like(bn_rm) if conv_b is None else conv_b
    w, b = td.ones_like(bn_rm) if bn_w is None else bn_w, td.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = w * td.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    made, beside = (conv_w * scale.reshape(shape)).to(conv_w.dtype), ((bias - bn_rm) * scale + b).to(bias.dtype)
    return Parameter(made, conv_w.requires_grad), Parameter(beside, bias.requires_grad)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of a linear layer that does what it and the norm after it did."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer, bn, transpose):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made = copy.deepcopy(layer)
    made.weight, made.bias = fuse_conv_bn_weights(made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose)
    return made


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """One convolution in place of it and the norm after it, both in evaluation."""
    return _fused(conv, bn, transpose)


def fuse_linear_bn_eval(linear, bn):
    """One linear layer in place of it and the norm after it, both in evaluation."""
    return _fused(linear, bn, False)
