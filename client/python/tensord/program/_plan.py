"""How programs and their plans are shown: those of script() and of trace()."""
from tensord import _C

_COLOURS = {"row": "#3b6fb6", "sweep": "#2f8f5b", "one": "#999999"}  # of what runs as one call, by tiles, and one by one


class Plan(str):
    """The text of a plan. Prompts show its lines; notebooks, each part in a frame of its colour."""

    def __repr__(self) -> str:
        return str(self).rstrip("\n")

    def _repr_html_(self) -> str:
        from html import escape

        head, parts = "", []
        for line in self.splitlines():
            if line[:1] == " " and parts:
                parts[-1][1].append(line)
            elif line.startswith(("from node ", "one by one")):
                kind = "one" if line.startswith("one") else line.split(": ", 1)[1].split(" ", 1)[0]
                parts.append((_COLOURS.get(kind, _COLOURS["one"]), [line]))
            else:
                head += line
        frames = "".join(f'<pre style="margin:4px 0;padding:2px 8px;border-left:4px solid {colour}"><b>{escape(lines[0])}</b>\n{escape(chr(10).join(lines[1:]))}</pre>'
                         for colour, lines in parts)
        return f"<div><b>{escape(head)}</b>{frames}</div>"


class Program:
    """What all programs have."""

    graph: str

    @property
    def code(self) -> str:
        """The program as a source in the subset of Python that script() takes; what it captures stands in comments at the head."""
        return _C._show(self.graph, 1)

    @property
    def inlined_graph(self) -> str:
        """The graph: what a program calls is part of it already."""
        return self.graph

    @property
    def code_with_constants(self) -> "tuple[str, dict[str, object]]":
        """The source, and no constants beside it: it has all of them."""
        return self.code, {}

    def dot(self) -> str:
        """A picture of the graph for graphviz. At most 4096 nodes are shown."""
        return _C._show(self.graph, 2)

    def svg(self, path=None) -> str:
        """The same drawn, as SVG, also written to a file. Notebooks show it by themselves."""
        text = _C._show(self.graph, 3)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def _repr_svg_(self):
        return self.svg()
