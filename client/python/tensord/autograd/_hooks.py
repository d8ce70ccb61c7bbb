"""Hooks of gradients, and the nodes of a graph: what numbers in the daemon stand for.

The daemon keeps a number where a hook hangs, and asks for it when a backward comes there; the function is here, until the number is nowhere
any more (which replies tell of). Functions run in the thread that called backward(), and may ask for anything.
"""

import re
import weakref
from typing import Any

from tensord import _C

_TENSOR, _LEAF, _BEFORE, _AFTER, FUNCTION = 1, 2, 3, 4, 5
_slots: "dict[int, Any]" = {}
_makers: "dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]]" = {}  # by id: a function's result, and its slot, which may hold that


def sweep():
    """Let go of what hooks that are nowhere any more stood for."""
    for number in _C._gone_hooks():
        _slots.pop(number, None)


def _run(number, kind, create_graph, given, first):
    slot = _slots.get(number)
    if slot is None:  # removed meanwhile
        return None
    before = _C._set_grad(create_graph)
    try:
        return slot(given, first)
    finally:
        _C._set_grad(before)


_C._set_hook_runner(_run)


def keep(number, slot):
    _slots[number] = slot
    sweep()  # behind it: what was told of this number in between is not told again
    return number


class RemovableHandle:
    """Takes a hook away: by remove(), or at the end of a `with`."""

    def __init__(self, number):
        self.id = number

    def remove(self):
        if _slots.pop(self.id, None) is not None:
            _C._unhook(self.id)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def _name(function):
    return getattr(function, "__name__", type(function).__name__)


def _checked(was, new, function):
    """A hook's answer in place of a gradient, as PyTorch takes it."""
    if new is None:
        return None
    if not _C.is_tensor(new):
        raise _C.DTypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if was is None:
        raise _C.AutogradError("can't replace a None gradient with a non-None value")
    if new.dtype != was.dtype:
        raise _C.DTypeError(f"hook '{_name(function)}' has changed the type of value (was {was.dtype} got {new.dtype})")
    if new.shape != was.shape:
        raise _C.ShapeError(f"hook '{_name(function)}' has changed the size of value")
    return new


def _all_checked(was, new, function):
    if new is None:
        return None
    if not isinstance(new, tuple):
        raise _C.DTypeError(f"expected tuple, but hook returned '{type(new).__name__}'")
    if len(new) != len(was):
        raise _C.InvalidError(f"hook '{_name(function)}' has returned an incorrect number of values (got {len(new)}, but expected {len(was)})")
    return tuple(_checked(w, n, function) for w, n in zip(was, new))


def _function(hook):
    if not callable(hook):
        raise _C.DTypeError(f"a hook is a function, not {_C._a_type(hook)}")
    return hook


def register_hook(self, hook):
    function = _function(hook)
    if not self.requires_grad:
        raise _C.AutogradError("cannot register a hook on a tensor that doesn't require gradient")

    def run(given, first):
        new = function(given[0])
        return None if new is None else (_checked(given[0], new, function),)

    return RemovableHandle(keep(_C._hook(self, _TENSOR), run))


def register_post_accumulate_grad_hook(self, hook):
    function = _function(hook)
    if not self.requires_grad:
        raise _C.AutogradError("cannot register a hook on a tensor that doesn't require gradient")
    if not self.is_leaf:
        raise _C.AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    same = weakref.ref(self)  # the hook would keep the leaf, and the leaf the hook

    def run(given, first):
        leaf = same()
        if function(given[0] if leaf is None else leaf) is not None:
            raise _C.AutogradError("Tensor post accumulate grad hooks should return None.")

    return RemovableHandle(keep(_C._hook(self, _LEAF), run))


# ---- what a node saved


def keep_packed(tensor, number, output, pack, unpack):
    """True: what pack makes of a saved value is kept here, as a hook of this number."""
    packed = pack(tensor)
    if packed is tensor and output:  # it would keep the node that keeps it
        packed = tensor.detach()

    def run(given, first):
        value = unpack(packed)
        if not _C.is_tensor(value):
            raise _C.DTypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value)}")
        return (value,)

    run.value = lambda: run((), 0)[0]
    keep(number, run)
    return True


_ALIASES = ({"self", "input", "mat1", "tensor1"}, {"other", "weight", "mat2", "tensor2", "exponent"})
_RAW, _PLAIN = "_raw_saved_", "_saved_"


class SavedTensor:
    """A slot of a node."""

    def __init__(self, node, slot):
        self._node, self._slot = node, slot

    def register_hooks(self, pack_hook, unpack_hook):
        """Pack what was saved now; a backward has it from unpack_hook."""
        pack, unpack = _function(pack_hook), _function(unpack_hook)
        found = _C._graph_saved(self._node._number, self._slot)
        _not_freed(found)
        if found[2]:
            raise _C.AutogradError("Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is allowed at a time.")
        if found[1] is None:
            raise _C.AutogradError("Calling register_hooks on a saved tensor with value None is forbidden")
        number = _C._hook_number()
        before = _C._set_grad(False)
        try:
            keep_packed(found[1], number, found[3], pack, unpack)
            _C._graph_pack(self._node._number, self._slot, number)
        finally:
            _C._set_grad(before)


def _saved_by(node):
    k = 0
    while (found := _C._graph_saved(node._number, k)) is not None:
        yield k, found
        k += 1


def _not_freed(found):
    if found[5]:
        raise _C.AutogradError("Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values "
                               "of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
                               "if you need to access saved tensors after calling backward.")


def _saved_value(found):
    _not_freed(found)
    if not found[2]:
        return found[1]
    slot = _slots.get(found[2])
    if slot is None:
        raise _C.AutogradError("what this node saved is packed by another process")
    return slot.value()


def _is_called(name, found, outputs):
    own, _, _, output, index, _ = found
    if output:
        return name in ((own, "result") if outputs == 1 else (own, f"result{index}"))
    return name == own or (index < 2 and name in _ALIASES[index])


def _saved_attribute(node, name):
    """_saved_x and _raw_saved_x of a node; of a function's also saved_tensors, of a leaf's the leaf, as another object for the same tensor."""
    if node._kind == 1 and name == "variable":
        return next((f[1] for _, f in _saved_by(node)), None)
    if node._kind == 3 and name in ("saved_tensors", _RAW + "tensors"):
        return tuple(_saved_value(f) if name == "saved_tensors" else SavedTensor(node, k) for k, f in _saved_by(node))
    for prefix in (_RAW, _PLAIN):
        if not name.startswith(prefix):
            continue
        all_of_them = list(_saved_by(node))
        outputs = sum(f[3] for _, f in all_of_them)
        for k, found in all_of_them:
            if _is_called(name[len(prefix):], found, outputs):
                return SavedTensor(node, k) if prefix == _RAW else _saved_value(found)
        break
    slot = node._maker and node._maker()
    if slot is not None and not name.startswith("_") and hasattr(slot.ctx, name):
        return getattr(slot.ctx, name)
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def made_by(results, slot):
    """Their grad_fn has the attributes of the function's ctx, as in PyTorch, where it is the ctx."""
    for t in results:
        _makers[id(t)] = weakref.ref(t), weakref.ref(slot, lambda _, key=id(t): _makers.pop(key, None))


# ---- nodes


# ATen's name of an op is not always the name of what it records.
_NAMES = {
    "copy": "CloneBackward0", "square": "PowBackward0", "clamp": "ClampBackward1", "copy_": "CopyBackwards", "conv1d": "ConvolutionBackward0", "conv2d": "ConvolutionBackward0", "conv3d": "ConvolutionBackward0",
    "conv_transpose2d": "ConvolutionBackward0", "reshape": "ViewBackward0", "to": "ToCopyBackward0", "layer_norm": "NativeLayerNormBackward0",
    "batch_norm": "NativeBatchNormBackward0", "linear": "AddmmBackward0", "_softmax": "SoftmaxBackward0", "swapaxes": "TransposeBackward0", "view_part": "SelectBackward0",
}


def _named(op, aten, kind):
    if kind == 1:
        return "AccumulateGrad"
    if kind == 2:
        return "CopySlices"
    if kind == 3:
        return op
    if op in _NAMES:
        return _NAMES[op]
    name = re.sub(r"^(\[[^]]*\] *)+", "", aten).partition("(")[0].partition(";")[0].strip().rpartition(".")[2] or op
    return _NAMES.get(name) or "".join(w[:1].upper() + w[1:] for w in name.split("_") if w) + "Backward0"


class Node:
    """A node of the graph: what made a tensor, and leads to what made its inputs."""

    __slots__ = ("_number", "_key", "_inputs", "_kind", "_op", "_where", "_from", "_maker", "metadata", "__weakref__")
    _number: int
    _key: int
    _inputs: int
    _kind: int
    _op: str
    _where: str
    _from: "tuple[int, int]"
    _maker: "weakref.ref[Any] | None"
    metadata: "dict[str, Any]"

    def __init__(self, *args):
        raise _C.DTypeError("nodes come from tensor.grad_fn")

    def name(self):
        """The op's name as PyTorch has it, 'MulBackward0'."""
        kind = type(self).__name__
        return "torch::autograd::" + kind if self._kind in (1, 2) else kind

    @property
    def next_functions(self):
        """For each input the node that made it and which of its outputs that is; (None, 0) where no gradient flows."""
        return tuple((None, 0) if each is None else (_node(each), each[1]) for each in _C._graph_next(self._number, self._inputs))

    def register_hook(self, hook):
        """hook(grad_inputs, grad_outputs) runs after the node, and may return other grad_inputs."""
        function = _function(hook)

        def run(given, first):
            return _all_checked(given[:first], function(given[:first], given[first:]), function)

        return RemovableHandle(keep(_C._hook_node(self._number, _AFTER), run))

    def register_prehook(self, hook):
        """hook(grad_outputs) runs before the node, and may return others."""
        function = _function(hook)

        def run(given, first):
            return _all_checked(given, function(given), function)

        return RemovableHandle(keep(_C._hook_node(self._number, _BEFORE), run))

    def __getattr__(self, name):
        return _saved_attribute(self, name)

    def __repr__(self):
        return f"<{type(self).__name__} object at {self._key << 4:#x}>"

    def __del__(self):
        try:
            _C._graph_release(self._number)
        except Exception:  # the daemon has gone, and the node with it
            pass


_known: "weakref.WeakValueDictionary[int, Node]" = weakref.WeakValueDictionary()
_types: "dict[str, type[Node]]" = {}


def _node(facts):
    number, _, key, op, aten, where, session, pid, inputs, kind = facts
    node = _known.get(key)
    if node is not None:
        _C._graph_release(number)
        return node
    name = _named(op, aten, kind)
    if name not in _types:
        _types[name] = type(name, (Node,), {"__slots__": (), "__doc__": Node.__doc__})
    node = object.__new__(_types[name])
    node._number, node._key, node._inputs, node._kind, node._op, node._where, node._from = number, key, inputs, kind, op, where, (session, pid)
    node.metadata, node._maker = {}, None
    _known[key] = node
    return node


def grad_fn(self):
    facts = _C._graph_of(self)
    if facts is None:
        return None
    node = _node(facts)
    if node._kind == 3 and (entry := _makers.get(id(self))) and entry[0]() is self:
        slot = entry[1]()
        if slot is not None and node._op == slot.function.__name__ + "Backward":
            node._maker = entry[1]
    return node


def gradient_edge(self):
    """(node, nr) that the gradient of a tensor flows to; of a leaf its AccumulateGrad."""
    facts = _C._graph_of(self)
    if facts is not None:
        return _node(facts), facts[1]
    if not self.requires_grad:
        raise _C.AutogradError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    before = _C._set_grad(True)
    try:
        return self.view(self.shape).grad_fn.next_functions[0]
    finally:
        _C._set_grad(before)
