"""Functions with a backward of one's own."""

import functools
from typing import Any

import tensord as td
from tensord import _C
from tensord.autograd import _hooks

_APART, _WRITTEN = 1, 2


class FunctionCtx:
    """What forward() leaves for backward(): by save_for_backward(), and as attributes."""

    needs_input_grad: "tuple[bool, ...]" = ()

    def __init__(self):
        self._saved: Any = ()
        self._dirty: Any = ()
        self._apart: Any = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors):
        """Keep tensors, or None, with the graph: backward() finds them as ctx.saved_tensors, and an error if they were written since."""
        for t in tensors:
            if t is not None and not _C.is_tensor(t):
                raise _C.DTypeError(f"save_for_backward can only save variables, but argument is of type {type(t).__name__}")
        self._saved = tensors

    def save_for_forward(self, *tensors):
        """For derivatives forwards, which are not there."""

    def mark_dirty(self, *tensors):
        """These inputs were written in place, and are returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """These results have no gradient."""
        self._apart = tensors

    def set_materialize_grads(self, value):
        """False: an undefined gradient comes as None instead of zeros."""
        self.materialize_grads = value

    @property
    def saved_tensors(self):
        if self._saved is None:
            raise _C.AutogradError("saved_tensors are there in forward() and in backward(); keep other things as attributes of ctx")
        return self._saved


def _is_in(t, tensors):
    return any(t is x for x in tensors)


class _Slot:
    """What runs a function's backward."""

    def __init__(self, function, ctx, inputs, places, outputs):
        self.function, self.ctx, self.inputs, self.places, self.outputs = function, ctx, inputs, places, outputs

    def gradients(self, given):
        """One for each result of forward(), zeros where there is none."""
        grads: "list[Any]" = [None] * len(self.outputs)
        for at, g in zip(self.places, given):
            if g is None and self.ctx.materialize_grads:
                shape, dtype, device = self.outputs[at]
                g = td.zeros(shape, dtype=dtype, device=device)
            grads[at] = g
        return grads

    def __call__(self, given, first):
        ctx, name = self.ctx, self.function.__name__ + "Backward"
        ctx._saved = given[first:]
        try:
            if self.function.backward is not Function.backward and self.function.vjp is not Function.vjp:
                raise _C.AutogradError(f"{self.function.__name__} has both 'backward' and 'vjp': only one of them may be there")
            backward = self.function.vjp if self.function.backward is Function.backward else self.function.backward
            result = backward(ctx, *self.gradients(given[:first]))
        finally:
            ctx._saved = None
        result = result if isinstance(result, tuple) else (result,)
        n = len(self.inputs)
        if len(result) > n and all(g is None for g in result[n:]):
            result = result[:n]
        if len(result) != n:
            raise _C.AutogradError(f"function {name} returned an incorrect number of gradients (expected {n}, got {len(result)})")
        for k, (g, is_tensor) in enumerate(zip(result, self.inputs)):
            if g is None:
                continue
            if not _C.is_tensor(g):
                raise _C.DTypeError(f"expected Variable or None (got {type(g).__name__})")
            if not is_tensor:
                raise _C.AutogradError(f"function {name} returned a gradient different from None at position {k + 1}, but the corresponding "
                                       "forward input was not a Variable")
        return result


class Function:
    """A function with a backward of its own: subclasses have forward(ctx, *args) and backward(ctx, *grads), and are called by apply().

    forward() may leave ctx away when there is a setup_context(ctx, inputs, output).
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: "tuple[Any, ...]", output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use it with "
                                  "backward mode AD.")

    vjp = backward

    def __call__(self, *args, **kwargs):
        raise _C.AutogradError("Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function "
                               "with static forward method.")

    @classmethod
    def _computed(cls, ctx, args):
        """forward() outside of every graph."""
        before = _C._set_grad(False)
        try:
            if cls.setup_context is Function.setup_context:
                return cls.forward(ctx, *args)
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
            return output
        finally:
            _C._set_grad(before)

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = FunctionCtx()
        recorded = _C.is_grad_enabled()
        needs = tuple(_C.is_tensor(x) and x.requires_grad for x in args)
        ctx.needs_input_grad = needs
        output = cls._computed(ctx, args)
        if not (recorded and any(needs)):
            ctx._saved = None
            return output
        single = not isinstance(output, tuple)
        outputs = cls._recorded(ctx, args, (output,) if single else output)
        return outputs[0] if single else outputs

    @classmethod
    def _recorded(cls, ctx, args, outputs):
        """The results as those of a node."""
        flags, results = [], list(outputs)
        for k, t in enumerate(results):
            if not _C.is_tensor(t):
                continue
            apart, written = _is_in(t, ctx._apart), _is_in(t, ctx._dirty)
            if _is_in(t, args) and not written or _is_in(t, results[:k]):
                with td.no_grad():
                    results[k] = t.view(t.shape)  # the input itself stays what it is
            if written and t.requires_grad and t.is_leaf:
                raise _C.AutogradError("a leaf Variable that requires grad is being used in an in-place operation. Do it under no_grad, or out of "
                                       "place")
            if written and t._is_view() and not apart:
                raise _C.Unsupported(f"{cls.__name__} writes a view in place; only what is no view can be marked as dirty")
            flags.append((_APART if apart else 0) | (_WRITTEN if written and not apart else 0))
        for t in ctx._dirty:
            if not _is_in(t, results):
                raise _C.AutogradError("Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
                                       "modified inplace must all be outputs of the Function.")
        places = [k for k, t in enumerate(results) if _C.is_tensor(t)]
        made = [(t.shape, t.dtype, t.device) if _C.is_tensor(t) else None for t in results]
        slot = _Slot(cls, ctx, tuple(map(_C.is_tensor, args)), places, made)
        saved, ctx._saved = tuple(ctx._saved), None
        if places:
            _hooks.keep(_C._function(cls.__name__ + "Backward", args, tuple(results[k] for k in places), tuple(flags), saved), slot)
            _hooks.made_by([results[k] for k in places], slot)
        ctx._dirty = ctx._apart = ()
        return tuple(results)


class _Once(Function):
    """Results of a backward that has no backward itself."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(t.view(t.shape) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        raise _C.AutogradError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward):
    """A backward whose ops are not recorded: to differentiate it is an error."""

    @functools.wraps(backward)
    def run(ctx, *grads):
        before = _C._set_grad(False)
        try:
            results = backward(ctx, *grads)
        finally:
            _C._set_grad(before)
        if not before or not any(g is not None and g.requires_grad for g in grads):
            return results
        single = not isinstance(results, tuple)
        results = [results] if single else list(results)
        at = [k for k, r in enumerate(results) if r is not None]
        sources = tuple(results[k].detach().requires_grad_() for k in at)
        for k, wrapped in zip(at, _Once.apply(*sources) if at else ()):
            results[k] = wrapped
        return results[0] if single else tuple(results)

    return run


NestedIOFunction = InplaceFunction = Function
