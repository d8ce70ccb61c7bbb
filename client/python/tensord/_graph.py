"""Pictures of graphs: as text for graphviz."""

from tensord import _C


def _label(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def graph(tensor, names=None, most=4096):
    """What made a tensor, as a text in the language of graphviz (dot). names: {name: tensor}, as of module.named_parameters()."""
    from tensord import _hooks

    if not _C.is_tensor(tensor):
        raise _C.DTypeError(f"graph() takes a Tensor, not {_C._a_type(tensor)}")
    known = {}
    for name, t in dict(names or {}).items():
        edge = _hooks.gradient_edge(t) if t.requires_grad else None
        if edge:
            known[edge[0]._key] = (name, t)
    root = tensor.grad_fn or (_hooks.gradient_edge(tensor)[0] if tensor.requires_grad else None)
    lines, numbers, todo = ["digraph graph_of_a_tensor {", "  rankdir=TB; node [shape=box, fontname=sans];"], {}, []

    def enter(node):
        if node._key in numbers:
            return numbers[node._key]
        numbers[node._key] = n = len(numbers)
        name, t = known.get(node._key, (None, None))
        text = type(node).__name__ + (f"\\n{_label(name)} {tuple(t.shape)}" if name else "") + (f"\\n{_label(node._where)}" if node._where else "")
        lines.append(f'  n{n} [label="{text}"{", style=filled, fillcolor=lightblue" if node._kind == 1 else ""}];')
        if len(numbers) < most:
            todo.append(node)
        return n

    if root is not None:
        enter(root)
    while todo:
        node = todo.pop()
        for to, _ in node.next_functions:
            if to is not None:
                lines.append(f"  n{enter(to)} -> n{numbers[node._key]};")
    return "\n".join([*lines, "}", ""])
