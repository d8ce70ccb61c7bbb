#!/usr/bin/env python3
"""The reference of the Python package as one HTML page: reference.py PACKAGE_DIRECTORY TABLE LOCK OUT.

Names, signatures and docstrings come from the package itself (importing it starts nothing), dtypes, gradients and worked examples from the op table, so
nothing is written twice. Modules that cannot be imported here (tensord.torch where PyTorch is not installed) are read from their source instead.
The page needs nothing beside itself: its search is a few lines of script, and without script everything is still there.
"""

import ast
import dataclasses
import html
import importlib
import inspect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTERS = {"tensord": "Functions and classes", "tensord.Tensor": "Methods and attributes of tensors", "tensord.nn": "Layers and losses",
            "tensord.nn.functional": "Layers as functions", "tensord.nn.init": "Initial weights", "tensord.nn.utils": "For training loops",
            "tensord.nn.utils.parametrize": "Weights worked out of others", "tensord.nn.utils.parametrizations": "Weights with a norm, or orthogonal",
            "tensord.optim": "Optimizers", "tensord.optim.lr_scheduler": "Schedules of learning rates", "tensord.optim.swa_utils": "Means of weights", "tensord.autograd": "Gradients", "tensord.func": "Functions of functions",
            "tensord.fft": "Fourier transforms", "tensord.signal.windows": "Windows", "tensord.masked": "Reductions under masks",
            "tensord.data": "Loading by worker processes", "tensord.torch": "For programs that use PyTorch"}


@dataclasses.dataclass
class Entry:
    name: str
    kind: str  # function, class, attribute
    signature: str
    doc: str


def introspected(owner):
    """What a module or class shows, read from the living objects."""
    for name in dir(owner):
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(owner, name) if inspect.isclass(owner) else getattr(owner, name, None)
        home = getattr(value, "__module__", None) or "tensord"
        if value is None or inspect.ismodule(value) or not home.startswith("tensord"):
            continue
        is_function = callable(value) and not inspect.isclass(value)
        kind = "class" if inspect.isclass(value) else "function" if is_function else "attribute"
        if kind == "attribute" and not inspect.isdatadescriptor(value):
            continue  # dtypes and constants
        yield Entry(name, kind, signature_of(value) if kind != "attribute" else "", inspect.getdoc(value) or "")


def signature_of(value):
    try:
        return re.sub(r"tensord\.(Tensor)\b", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"


def from_source(module):
    """The same from the source of a package whose import fails: public definitions in its files."""
    folder = pathlib.Path(importlib.util.find_spec(module).origin).parent
    wanted = set(re.findall(r'"(\w+)": "|import (\w+)\b', (folder / "__init__.py").read_text()))
    wanted = {name for pair in wanted for name in pair if name}
    for file in sorted(folder.glob("_[!_]*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in wanted:
                function = node if isinstance(node, ast.FunctionDef) else next(
                    (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
                given = f"({ast.unparse(function.args)})".replace("(self, ", "(") if function else "(...)"
                yield Entry(node.name, "class" if isinstance(node, ast.ClassDef) else "function", given, ast.get_docstring(node) or "")


def chapter(name):
    """Entries of one chapter, and the docstring of what they belong to."""
    try:
        if name == "tensord.Tensor":
            owner = importlib.import_module("tensord").Tensor
        else:
            owner = importlib.import_module(name)
    except ImportError:
        return list(from_source(name)), ""
    return sorted(introspected(owner), key=place), inspect.getdoc(owner) or ""


def place(e):
    """Functions and classes by name, exceptions behind them."""
    raised = e.kind == "class" and issubclass(getattr(importlib.import_module("tensord"), e.name, object), BaseException)
    return raised, e.name.lower(), e.name


def op_facts(op):
    """What the table says of an op beside its doc, as (label, text)."""
    yield "dtypes", op.raw.get("dtypes", "all")
    if op.composed:
        yield "made of", " ".join(op.recipe.split())
    elif not op.grad and "nondiff" not in op.flags and "view" not in op.flags:
        yield "gradient", "none"
    for names, text in op.grad.items():
        yield f"gradient of {names}", " ".join(text.split())
    known = [f"{label}: {op.raw[c]}" for c, label in (("array_api", "array API"), ("onnx", "ONNX")) if c in op.raw]
    if known:
        yield "known as", ", ".join(known)
    for text in op.examples:
        yield "example", text


def prose(doc):
    """A docstring as HTML: paragraphs, and indented blocks as they are."""
    out = []
    for block in re.split(r"\n\s*\n", doc):
        lines = block.split("\n")
        if all(line.startswith("    ") or ">>>" in line for line in lines):
            out.append(f"<pre>{html.escape(inspect.cleandoc(block))}</pre>")
        else:
            out.append(f"<p>{html.escape(block)}</p>")
    return "".join(out) if doc else ""


def entry_html(where, e, op):
    full = f"{where}.{e.name}"
    facts = "".join(f"<tr><th>{html.escape(k)}</th><td><code>{html.escape(v)}</code></td></tr>" for k, v in op_facts(op)) if op else ""
    signature = html.escape(e.signature)
    return (f'<section class="entry" id="{full}" data-name="{full.lower()}"><h3><a href="#{full}"><span class="where">{where}.</span>{e.name}</a>'
            f'<span class="signature">{signature}</span></h3>{prose(e.doc)}{f"<table>{facts}</table>" if facts else ""}</section>\n')


STYLE = """
:root { --ink: #1c2430; --dim: #5c6878; --line: #d9dee6; --paper: #fff; --code: #f4f6f9; --blue: #1f5fbf }
@media (prefers-color-scheme: dark) { :root { --ink: #dde3ec; --dim: #98a3b3; --line: #333c48; --paper: #151a21; --code: #1e252e; --blue: #7fb0ff } }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
header { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--line); padding: .6em 1.2em }
header h1 { font-size: 1.1em; display: inline; margin-right: 1em } header a { margin-right: .8em; white-space: nowrap }
main { max-width: 60em; padding: 0 1.2em 6em } a { color: var(--blue); text-decoration: none }
input { font: inherit; width: 20em; padding: .2em .5em; color: inherit; background: var(--code); border: 1px solid var(--line); border-radius: 4px }
h2 { margin: 2em 0 .2em } h3 { font: 600 15px/1.4 ui-monospace, monospace; margin: 0; overflow-wrap: anywhere }
.entry { border-top: 1px solid var(--line); padding: .7em 0; scroll-margin-top: 4.5em } .where, .signature { color: var(--dim); font-weight: 400 }
.entry p { margin: .3em 0; white-space: pre-line } pre, td code { background: var(--code); border-radius: 4px; overflow-x: auto }
pre { padding: .5em .8em } th { text-align: left; color: var(--dim); font-weight: 400; vertical-align: top; padding-right: 1em; white-space: nowrap }
table { font-size: 13px } .gone { display: none } nav { margin-top: .4em }
"""
SCRIPT = """
const box = document.getElementById("search"), entries = [...document.querySelectorAll(".entry")], count = document.getElementById("count");
const chapters = [...document.querySelectorAll("main > div")];
function search() {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const e of entries) {
    const hit = words.every(w => e.dataset.name.includes(w)) || (words.length && words.every(w => e.textContent.toLowerCase().includes(w)) && box.value.length > 3);
    e.classList.toggle("gone", !hit);
    shown += hit;
  }
  for (const c of chapters) c.classList.toggle("gone", !c.querySelector(".entry:not(.gone)"));
  count.textContent = shown + " of " + entries.length;
}
box.addEventListener("input", search);
addEventListener("keydown", e => { if (e.key == "/" && document.activeElement != box) { e.preventDefault(); box.focus(); } });
search();
"""


def page(ops, version):
    links, body = [], []
    for name, title in CHAPTERS.items():
        entries, doc = chapter(name)
        by_table = name in ("tensord", "tensord.Tensor")
        rows = "".join(entry_html(name, e, ops.get(e.name) if by_table and e.kind == "function" else None) for e in entries)
        links.append(f'<a href="#chapter-{name}">{name}</a>')
        intro = prose(doc.split("\n\n")[0]) if doc else ""
        body.append(f'<div id="chapter-{name}"><h2>{name}</h2><p class="where">{title}</p>{intro}{rows}</div>\n')
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>tensord {version}: reference</title><style>{STYLE}</style></head>\n<body><header><h1>tensord {version}</h1>"
            f'<input id="search" type="search" placeholder="search (press /)" autofocus aria-label="search"> <span id="count"></span>'
            f'<nav>{" ".join(links)}</nav></header>\n<main>{"".join(body)}</main><script>{SCRIPT}</script></body></html>\n')


def main(package, table, lock, out):
    sys.dont_write_bytecode = True
    sys.path[:0] = [package, str(ROOT / "proto/gen")]
    import table as model

    import tensord
    ops = {op.name: op for op in model.load([pathlib.Path(table)], ROOT / "proto/infer/infer.h", pathlib.Path(lock)).ops}
    pathlib.Path(out).write_text(page(ops, tensord.__version__), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
