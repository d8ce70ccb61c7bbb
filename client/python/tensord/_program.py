"""How programs are shown: those of script() and of trace()."""
from . import _C


class Program:
    """What all programs have."""

    graph: str

    @property
    def code(self) -> str:
        """The program as a source in the subset of Python that script() takes; what it captures stands in comments at the head."""
        return _C._show(self.graph, 1)

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
