"""Pictures of graphs: as text for graphviz, or as SVG."""

from html import escape

from tensord import _C


class _Found:
    """The nodes that a tensor comes from, each with the nodes that its inputs come from."""

    def __init__(self, root, known, most):
        self.nodes, self.next, self.known = {}, {}, known
        todo = [] if root is None else [root]
        while todo and len(self.nodes) < most:
            node = todo.pop()
            if node._key in self.nodes:
                continue
            self.nodes[node._key] = node
            self.next[node._key] = found = [to for to, _ in node.next_functions if to is not None]
            todo += found

    def edges(self):
        return [(to._key, key) for key, found in self.next.items() for to in found if to._key in self.nodes]

    def lines(self, node):
        name, t = self.known.get(node._key, (None, None))
        return [type(node).__name__, *([f"{name} {tuple(t.shape)}"] if name else []), *([node._where] if node._where else [])]

    def depths(self):
        """How far each lies from the end: one more than the farthest that it leads to. Without recursion, for graphs are deep."""
        depth = {}
        for start in self.nodes:
            stack = [start]
            while stack:
                key = stack[-1]
                behind = [to._key for to in self.next[key] if to._key in self.nodes]
                missing = [k for k in behind if k not in depth]
                if missing:
                    stack += missing
                else:
                    depth[stack.pop()] = 1 + max((depth[k] for k in behind), default=-1)
        return depth


def _quoted(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _dot(found):
    number = {key: n for n, key in enumerate(found.nodes)}
    lines = ["digraph graph_of_a_tensor {", "  rankdir=TB; node [shape=box, fontname=sans];"]
    for key, node in found.nodes.items():
        text = "\\n".join(map(_quoted, found.lines(node)))
        lines.append(f'  n{number[key]} [label="{text}"{", style=filled, fillcolor=lightblue" if node._kind == 1 else ""}];')
    lines += [f"  n{number[a]} -> n{number[b]};" for a, b in found.edges()]
    return "\n".join([*lines, "}", ""])


def _svg(found):
    """Rows of boxes, leaves above, what they lead to below."""
    width, height, gap = 220, 52, 40
    rows, at = {}, {}
    for key, depth in found.depths().items():
        row = rows.setdefault(depth, [])
        at[key] = (gap + len(row) * (width + gap), gap + depth * (height + gap))
        row.append(key)
    w = gap + max(map(len, rows.values()), default=0) * (width + gap)
    h = gap + len(rows) * (height + gap)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" font-family="sans-serif" font-size="12" text-anchor="middle">']
    for a, b in found.edges():
        (x, y), (u, v) = at[a], at[b]
        lines.append(f'<line x1="{x + width / 2}" y1="{y + height}" x2="{u + width / 2}" y2="{v}" stroke="#888"/>')
    for key, node in found.nodes.items():
        (x, y), texts = at[key], found.lines(node)
        lines.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" stroke="#444" fill="{"#cde" if node._kind == 1 else "#fff"}"/>')
        lines += [f'<text x="{x + width / 2}" y="{y + 16 + 15 * k}">{escape(text)}</text>' for k, text in enumerate(texts)]
    return "\n".join([*lines, "</svg>", ""])


def graph(tensor, names=None, kind="dot", most=4096):
    """A picture of what made a tensor, as a text: for graphviz ("dot"), or as "svg". names: {name: tensor}, as of module.named_parameters()."""
    from tensord.autograd import _hooks

    if not _C.is_tensor(tensor):
        raise _C.DTypeError(f"graph() takes a Tensor, not {_C._a_type(tensor)}")
    if kind not in ("dot", "svg"):
        raise _C.InvalidError(f"graph(): kind must be 'dot' or 'svg', not {kind!r}")
    known = {}
    for name, t in dict(names or {}).items():
        if t.requires_grad:
            node = _hooks.gradient_edge(t)[0]
            known[node._key] = (name, t, node)
    root = _hooks.gradient_edge(tensor)[0] if tensor.requires_grad else None
    found = _Found(root, {key: (name, t) for key, (name, t, _) in known.items()}, most)
    return _dot(found) if kind == "dot" else _svg(found)
