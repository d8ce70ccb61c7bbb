"""Trees of tensors, as traced programs take and give them: lists, tuples (also named ones) and dicts.

A tree has a *shape*: LEAF for a tensor, (type, [shape...]) of a list or a tuple, (type, [(key, shape)...]) of a dict. In a file it is JSON: 0 for a
tensor, ["t", ...], ["l", ...], ["d", [key, shape], ...].
"""
from tensord import _C


class _Leaf:
    """One place of a tensor; there is one such thing, also in copies."""

    def __reduce__(self):
        return "LEAF"


LEAF = _Leaf()


def flatten(value, leaves, what, path, names=None):
    """The shape of a tree, whose tensors come to `leaves`, with a name for each to `names`."""
    if isinstance(value, _C.Tensor):
        leaves.append(value)
        if names is not None:
            names.append(path)
        return LEAF
    if isinstance(value, (tuple, list)):
        return type(value), [flatten(item, leaves, what, f"{path}_{k}", names) for k, item in enumerate(value)]
    if isinstance(value, dict):
        return type(value), [(key, flatten(item, leaves, what, f"{path}_{key}", names)) for key, item in value.items()]
    raise TypeError(f"{what} of a trace are Tensors, and lists, tuples and dicts of such, not {type(value).__name__}; "
                    "give a number by a function around it (lambda x: f(x, 3)), or script the function")


def rebuild(shape, leaves):
    """The tree of this shape; `leaves` is an iterator."""
    if shape is LEAF:
        return next(leaves)
    kind, items = shape
    if issubclass(kind, dict):
        return kind((key, rebuild(item, leaves)) for key, item in items)
    items = [rebuild(item, leaves) for item in items]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _kinds(shape):
    """The shape with the kinds that a file knows: a named tuple is a tuple."""
    if shape is LEAF:
        return shape
    kind, items = shape
    if issubclass(kind, dict):
        return dict, [(key, _kinds(item)) for key, item in items]
    return tuple if issubclass(kind, tuple) else list, [_kinds(item) for item in items]


def with_trees(args, takes, gives):
    """The tensors of a tree of this shape, and what makes the other tree of what a program returns for them."""
    leaves: "list[_C.Tensor]" = []
    shape = flatten(args, leaves, "arguments", "x")
    if shape != takes and _kinds(shape) != _kinds(takes):
        raise TypeError(f"the program was traced with {_words(takes)}, and is given {_words(shape)}")
    if gives is LEAF:
        return tuple(leaves), None
    return tuple(leaves), lambda made: rebuild(gives, iter(made if isinstance(made, tuple) else (made,)))


def _words(shape):
    """A tree's shape, for messages."""
    if shape is LEAF:
        return "a Tensor"
    kind, items = shape
    if issubclass(kind, dict):
        return "{" + ", ".join(f"{key!r}: {_words(item)}" for key, item in items) + "}"
    left, right = ("(", ")") if issubclass(kind, tuple) else ("[", "]")
    return left + ", ".join(map(_words, items)) + right


# ---- in files


def to_json(shape):
    """A tree's shape as JSON; named tuples become tuples."""
    if shape is LEAF:
        return 0
    kind, items = shape
    if issubclass(kind, dict):
        if not all(isinstance(key, (str, int)) for key, _ in items):
            raise _C.Unsupported("save(): the keys of a traced dict are texts or numbers in a file")
        return ["d", *([key, to_json(item)] for key, item in items)]
    return ["t" if issubclass(kind, tuple) else "l", *map(to_json, items)]


def of_json(words):
    """The shape that to_json() made this of."""
    if words == 0:
        return LEAF
    try:
        kind, *items = words
        if kind == "d":
            return dict, [(key, of_json(item)) for key, item in items]
        return {"t": tuple, "l": list}[kind], [of_json(item) for item in items]
    except (TypeError, ValueError, KeyError, RecursionError) as e:
        raise _C.InvalidError("load(): how the program is called makes no sense") from e
