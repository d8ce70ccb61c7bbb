"""Trees of Python's containers with anything as leaves, by the names that libraries look for in PyTorch: tree_map(), tree_flatten(), TreeSpec.

    leaves, spec = tree_flatten({"x": td.ones(2), "y": [1, None]})     # [tensor, 1, None]
    tree_unflatten([2 * leaf if leaf is not None else None for leaf in leaves], spec)

Lists, tuples, named tuples, dicts, OrderedDicts, defaultdicts and deques are nodes, and what register_pytree_node() says; all else is a leaf, None and a Size too.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["LeafSpec", "PyTree", "TreeSpec", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_is_leaf", "tree_iter",
           "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten"]

PyTree = Any
_Apart = Callable[[Any], "tuple[list[Any], Any]"]
_Together = Callable[[Any, Any], Any]


def _of_dict(d: Any) -> "tuple[list[Any], Any]":
    return list(d.values()), list(d)


def _dict_flatten(d: Any) -> "tuple[list[Any], Any]":
    """What libraries hand on to register_pytree_node() for their kinds of dicts: values, and keys."""
    return _of_dict(d)


def _dict_unflatten(values: Any, context: Any) -> "dict[Any, Any]":
    return dict(zip(context, values))


class MappingKey(NamedTuple):
    """A step of a path through a tree: into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


def _dict_flatten_with_keys(d: Any) -> "tuple[list[tuple[MappingKey, Any]], Any]":
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


# Of each type of node how it is taken apart, and put together.
_NODES: "dict[type, tuple[_Apart, _Together]]" = {
    list: (lambda x: (x, None), lambda parts, _: list(parts)),
    tuple: (lambda x: (list(x), None), lambda parts, _: tuple(parts)),
    dict: (_of_dict, lambda parts, keys: dict(zip(keys, parts))),
    OrderedDict: (_of_dict, lambda parts, keys: OrderedDict(zip(keys, parts))),
    defaultdict: (lambda d: (list(d.values()), (d.default_factory, list(d))), lambda parts, c: defaultdict(c[0], zip(c[1], parts))),
    deque: (lambda d: (list(d), d.maxlen), lambda parts, most: deque(parts, most)),
}
_NAMED = (lambda x: (list(x), type(x)), lambda parts, kind: kind(*parts))


def _node(x: Any, is_leaf: "Callable[[Any], bool] | None" = None) -> "tuple[_Apart, _Together] | None":
    """How it is taken apart and put together; None: it is a leaf."""
    if is_leaf is not None and is_leaf(x):
        return None
    kind = type(x)
    return _NODES.get(kind) or (_NAMED if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple) else None)


class TreeSpec:
    """What a tree is without its leaves: `type`, `context` (keys and the like), children()."""

    def __init__(self, type: Any, context: Any, children_specs: "list[TreeSpec]") -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_nodes = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves = sum(child.num_leaves for child in children_specs)
        self.num_children = len(children_specs)

    def children(self) -> "list[TreeSpec]":
        return list(self.children_specs)

    def child(self, index: int) -> "TreeSpec":
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Any) -> PyTree:
        """tree_unflatten()"""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: PyTree) -> "list[Any]":
        """The parts of another tree that begins like this one, one for each leaf of this. Raises ValueError where it differs."""
        if self.is_leaf():
            return [tree]
        node = _node(tree)
        if node is None or (type(tree) is not self.type and not _are_dicts(self.type, type(tree))):
            raise ValueError(f"a {self.type.__name__} is there, and a {type(tree).__name__} in the other tree")
        parts, context = node[0](tree)
        if _are_dicts(self.type, type(tree)):
            keys, theirs = _keys(self), set(tree)
            if set(keys) != theirs:
                raise ValueError(f"the keys are {keys}, and {list(tree)} in the other tree")
            parts = [tree[key] for key in keys]
        elif len(parts) != self.num_children or (context != self.context and self.type is not deque):
            raise ValueError(f"a {self.type.__name__} of {self.num_children} is there, and one of {len(parts)} in the other tree")
        return [leaf for child, part in zip(self.children_specs, parts) for leaf in child.flatten_up_to(part)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (other.type, other.context, other.children_specs)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        return "*" if self.is_leaf() else f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """That of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1


def _are_dicts(a: Any, b: Any) -> bool:
    return a in (dict, OrderedDict, defaultdict) and b in (dict, OrderedDict, defaultdict)


def _keys(spec: TreeSpec) -> "list[Any]":
    return spec.context[1] if spec.type is defaultdict else spec.context


def register_pytree_node(cls: type, flatten_fn: _Apart, unflatten_fn: _Together, **names: Any) -> None:
    """Makes objects of `cls` nodes: flatten_fn(x) gives (children, context), unflatten_fn(children, context) such an object. Raises ValueError for what is one."""
    if cls in _NODES:
        raise ValueError(f"{cls.__name__} is a node already")
    _NODES[cls] = flatten_fn, unflatten_fn


def tree_is_leaf(tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> bool:
    """Whether it is a leaf itself."""
    return _node(tree, is_leaf) is None


def tree_iter(tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> "Iterator[Any]":
    """Its leaves, one after the other."""
    node = _node(tree, is_leaf)
    if node is None:
        yield tree
    else:
        for part in node[0](tree)[0]:
            yield from tree_iter(part, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> "list[Any]":
    """Its leaves."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> TreeSpec:
    """What is left without the leaves."""
    node = _node(tree, is_leaf)
    if node is None:
        return LeafSpec()
    parts, context = node[0](tree)
    return TreeSpec(type(tree), context, [tree_structure(part, is_leaf) for part in parts])


def tree_flatten(tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> "tuple[list[Any], TreeSpec]":
    """Both."""
    return tree_leaves(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> PyTree:
    """The tree with these leaves. Raises ValueError when they are too many or too few."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten() wants a TreeSpec, not a {type(treespec).__name__}")
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten() was given {len(leaves)} leaves for a tree of {treespec.num_leaves}")
    return _put_together(iter(leaves), treespec)


def _put_together(leaves: "Iterator[Any]", spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    together = (_NODES.get(spec.type) or _NAMED)[1]
    return together([_put_together(leaves, child) for child in spec.children_specs], spec.context)


def tree_map(func: "Callable[..., Any]", tree: PyTree, *rests: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> PyTree:
    """The tree with func(leaf, ...) for each leaf; of further trees, which begin alike, what stands there."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten([func(*each) for each in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests))], spec)


def tree_map_(func: "Callable[..., Any]", tree: PyTree, *rests: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> PyTree:
    """The same for what func() does. Returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(type_or_pred: Any) -> "Callable[[Any], bool]":
    return (lambda x: isinstance(x, type_or_pred)) if isinstance(type_or_pred, (type, tuple)) else type_or_pred


def tree_map_only(type_or_types_or_pred: Any, func: "Callable[[Any], Any] | None" = None, tree: PyTree = None, is_leaf: "Callable[[Any], bool] | None" = None) -> Any:
    """tree_map() of the leaves that are of a type, or of one of several, or of which a function says so; the others stay."""
    wanted = _only(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if wanted(leaf) else leaf, tree, is_leaf=is_leaf)  # type: ignore[misc]


def tree_all(pred: "Callable[[Any], bool]", tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> bool:
    """Whether it holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: "Callable[[Any], bool]", tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> bool:
    """Whether it holds for one."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, pred: "Callable[[Any], bool]", tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> bool:
    """Whether it holds for all leaves of a type."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, pred: "Callable[[Any], bool]", tree: PyTree, is_leaf: "Callable[[Any], bool] | None" = None) -> bool:
    """Whether it holds for one of a type."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))
