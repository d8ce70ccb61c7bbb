"""What a module with hooks of backward puts around its forward(): two functions that are nothing but a place for gradients to pass.

The outer one comes first in a backward: it runs the hooks before the module and keeps what went in. The inner one has the gradients of the
module's inputs, and runs the others.
"""

import tensord as td
from tensord.autograd.function import Function


class BackwardHookFunction(Function):
    """The same tensors; their gradients go through `passes`."""

    @staticmethod
    def forward(ctx, passes, *tensors):
        ctx.passes = passes
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        ctx.set_materialize_grads(False)
        return tuple(t.view(t.shape) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.passes(grads))


def _through(passes, values):
    """`values` with its tensors behind a gate, when one of them requires grad; and which those are."""
    at = [k for k, v in enumerate(values) if td.is_tensor(v)]
    if not td.is_grad_enabled() or not any(values[k].requires_grad for k in at):
        return values, None
    values = list(values)
    for k, t in zip(at, BackwardHookFunction.apply(passes, *[values[k] for k in at])):
        values[k] = t
    return tuple(values), at


def _full(at, grads, n):
    made = [None] * n
    for k, g in zip(at, grads):
        made[k] = g
    return tuple(made)


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _answer(was, new, at):
    """What a hook returns in place of gradients: as many as there were tensors."""
    new = _tuple(new)
    if len(new) != len(at):
        raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(new)}, but expected {len(at)}")
    for k, g in zip(at, new):
        was[k] = g
    return was


class Gate:
    """Of one call of a module."""

    def __init__(self, module, after, before):
        self.module, self.after, self.before = module, tuple(after.values()), tuple(before.values())
        self.grad_output, self.inputs_at = None, None

    def inputs(self, args):
        self.n_inputs = len(args)
        if self.after:
            args, self.inputs_at = _through(self._leaving, args)
        return args

    def outputs(self, out):
        single = not isinstance(out, tuple)
        values = (out,) if single else out
        if not all(td.is_tensor(v) for v in values):
            return out
        self.n_outputs = len(values)
        values, self.outputs_at = _through(self._coming, values)
        return values[0] if single else values

    def _coming(self, grads):
        whole = _full(self.outputs_at, grads, self.n_outputs)
        for hook in self.before:
            new = hook(self.module, whole)
            if new is not None:
                whole = _full(self.outputs_at, _answer(list(whole), new, range(self.n_outputs)), self.n_outputs)
        self.grad_output = whole
        if self.inputs_at is None:  # no input requires grad: there is nothing to wait for
            for hook in self.after:
                new = hook(self.module, (None,) * self.n_inputs, whole)
                if new is not None and not all(g is None for g in _tuple(new)):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None or None for all gradients.")
            self.grad_output = None
        return tuple(whole[k] for k in self.outputs_at)

    def _leaving(self, grads):
        if self.grad_output is None:
            return grads  # the outputs took no part
        whole = _full(self.inputs_at, grads, self.n_inputs)
        for hook in self.after:
            new = hook(self.module, whole, self.grad_output)
            if new is not None:
                new = _tuple(new)
                if len(new) != self.n_inputs:
                    raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(new)}, but expected {self.n_inputs}")
                whole = new
        self.grad_output = None
        return tuple(whole[k] for k in self.inputs_at)
