"""What ops save for a backward, in the program's own keeping: packed when it is saved, unpacked when a backward wants it.

The daemon tells of each value that an op of this thread saved, and lets go of it when it has been packed; what stands for it lies in a hook's slot here,
until the graph lets go of the node, or of what it saved.
"""

import contextlib
import threading

from tensord import _C
from tensord.autograd import _hooks

_of_thread = threading.local()


def _stack():
    if not hasattr(_of_thread, "hooks"):
        _of_thread.hooks, _of_thread.refused = [], None
    return _of_thread.hooks


def _enter():
    stack = _stack()
    if not stack:
        _C._on_saved(None)
        return
    pack, unpack = stack[-1]
    _C._on_saved(lambda tensor, number, output: _hooks.keep_packed(tensor, number, output, pack, unpack))


class saved_tensors_hooks:
    """In this context pack_hook(tensor) gives what is kept of each tensor that an op saves for its gradients, and a backward has it from unpack_hook(that).

        with td.autograd.graph.saved_tensors_hooks(lambda t: t.to(td.bfloat16), lambda t: t.to(td.float32)):
            loss = model(x).sum()               # what is saved takes half of the memory
        loss.backward()

    What comes back has the shape and the dtype of what was packed. Of contexts in each other the innermost counts. Both functions run outside of every graph, but under create_graph,
    and may not write what they are given. In a checkpoint only what it begins with is saved; programs (jit) and a backward with create_graph keep what they save.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = _hooks._function(pack_hook), _hooks._function(unpack_hook)

    def __enter__(self):
        stack = _stack()
        if _of_thread.refused is not None:
            raise _C.AutogradError(_of_thread.refused)
        stack.append((self.pack_hook, self.unpack_hook))
        _enter()

    def __exit__(self, *error):
        _stack().pop()
        _enter()


class save_on_cpu(saved_tensors_hooks):
    """In this context what ops save lies on the CPU, and goes back to its device for a backward."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda t: (t.device, t.detach() if t.device.type == "cpu" else t.to("cpu")), lambda packed: packed[1].to(packed[0]))


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """In this context what ops save is copied, so that what was saved may be written to."""

    def __init__(self):
        super().__init__(lambda t: t.detach().clone(), lambda packed: packed)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """In this context saved_tensors_hooks raises an error of these words."""
    if _stack():
        raise _C.AutogradError(error_message)
    before, _of_thread.refused = _of_thread.refused, error_message
    try:
        yield
    finally:
        _of_thread.refused = before
