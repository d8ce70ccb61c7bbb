"""Modules as PyTorch pickles them: its attributes, in the layers of this package."""
import inspect

_THEIRS = ("_non_persistent_buffers_set", "_is_full_backward_hook", "call_super_init")


def adopt(base, module, state) -> None:
    """`module`, of a class made from `base` (Module), becomes what PyTorch's pickle says. Layers of this package have attributes that are not in there: their
    constructors make them, told what attributes of their parameters' names say. One that lacks some of those has no more than PyTorch's."""
    kind = next(c for c in type(module).__mro__ if c.__module__.startswith("tensord."))
    held = {**{name: p is not None for name, p in state["_parameters"].items()}, **state}
    wanted = getattr(kind, "_defaults", None) or {
        name: ... if p.default is p.empty else p.default for name, p in inspect.signature(kind.__init__).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and name != "self"}
    if all(name in held or default is not ... for name, default in wanted.items()):
        kind.__init__(module, **{name: held[name] for name in wanted if name in held})
    else:
        base.__init__(module)
    own = set(vars(module))
    for home in ("_parameters", "_buffers", "_modules"):
        vars(module)[home].clear()
        vars(module)[home].update(state[home])
    module._transient.update(state.get("_non_persistent_buffers_set", ()))
    module.training = state["training"]
    vars(module).update({name: value for name, value in state.items() if name not in own and "_hooks" not in name and name not in _THEIRS})
