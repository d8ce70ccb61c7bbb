"""The graph itself: its nodes, the hooks that hang on several at once, what is saved."""

import typing

import tensord as td
from tensord import _C
from tensord.core import _forking
from tensord.autograd._hooks import Node, RemovableHandle, gradient_edge  # noqa: F401
from tensord.autograd._picture import graph as draw  # noqa: F401
from tensord.autograd._saved_tensors import allow_mutation_on_saved_tensors, disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


def increment_version(tensor):
    """Count one write more, by whatever the daemon does not know of."""
    for t in (tensor,) if _C.is_tensor(tensor) else tensor:
        with t.writing():
            pass


class _Multi(RemovableHandle):
    def __init__(self, handles):
        self._handles = handles

    def remove(self):
        for h in self._handles:
            h.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """fn(gradients of all tensors, None where there is none) when the last of a backward's has come; mode 'any': fn(gradient) with the first.

    Which gradients a backward will bring is not known beforehand: with 'all' it runs when as many came as the tensors have.
    """
    if mode not in ("all", "any"):
        raise _C.InvalidError(f"Expects mode to be one of ['all', 'any'] but got {mode}")
    lock, came, n = _forking.lock(), {}, len(tensors)

    def hook_of(k):
        def hook(g):
            with lock:
                if k in came:  # a tensor comes once in a backward: this is another one
                    came.clear()
                first = not came
                came[k] = g
                full = len(came) == n
                all_of_them = [came.get(i) for i in range(n)]
                if full:
                    came.clear()
            if mode == "any" and (first or n == 1):
                fn(g)
            elif mode == "all" and full:
                fn(all_of_them)

        return hook

    return _Multi([t.register_hook(hook_of(k)) for k, t in enumerate(tensors)])


class GradientEdge(typing.NamedTuple):
    """Where a gradient flows: to a node, as that of its output `output_nr`. grad() and backward() take it in a tensor's place, also when the program has none.

    get_gradient_edge() keeps the tensor in it, by which it is found again: one that is put together by hand leads to leaves only.
    """

    node: Node
    output_nr: int
    ownership_token: typing.Any = None

    def _tensor(self):
        """What grad() and backward() work with."""
        tensor = self.ownership_token
        if tensor is None and self.node.name() == "torch::autograd::AccumulateGrad":
            tensor = self.node.variable
        if tensor is None:
            raise _C.AutogradError(f"which tensor {self.node.name()} made is not known here: take edges from autograd.graph.get_gradient_edge(tensor)")
        if gradient_edge(tensor) != (self.node, self.output_nr):
            raise _C.AutogradError(f"the tensor of this edge has been written in place since: its gradient does not come to {self.node.name()} any more")
        return tensor


def get_gradient_edge(tensor):
    """The GradientEdge of a tensor that is in a graph or requires grad."""
    return GradientEdge(*gradient_edge(tensor), tensor)


__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "draw", "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks", "td"]
