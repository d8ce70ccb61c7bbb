"""ops.md: the reference of all ops for people, from the table."""

import re

HEAD = """# The ops of tensord

Written from proto/ops. A signature lists tensors (`T`; `T?` may be absent, `TS` may be a number, `T[]` is a list; `!` is written by
the op) and attributes (`i` integer, `f` float, `b` bool, `S` number, `D` dtype, `I[]` integers, `s` text; `?` may be none) in the order of a call.
Results are contiguous, but for views, which share the storage of their input, and for images that lie channels last. Unless said otherwise an op costs one operation for each
element of its results and reads and writes each tensor once. A pointwise op lists the dtypes that it computes in.

"""
PROMOTE = {"float": "whole numbers and bools give float32", "bool": "bool", "first": "the dtype of the first tensor",
           "abs": "complex numbers give real ones", "sum": "whole numbers and bools give int64", "index": "int64"}
FLAGS = {"view": "a view", "random": "draws random numbers", "inplace": "has an in-place form",
         "data_shape": "the shape of the result depends on values", "nondiff": "no gradient", "format": "keeps channels last"}


def dtypes(op):
    """Sets where they are whole, else names."""
    names = op.raw.get("dtypes", "all")
    if op.promote == "float" and "pointwise" in op.flags and "ints" not in names:
        names += " (bool and ints as float32)"
    return names


def results(table, op):
    """One line for a single result, else one for each."""
    described = table.results(op)
    if len(described) == 1:
        return line("result", described[0][1])
    rows = []
    for name, text in described:
        mark = " (no gradient)" if name in op.raw.get("nondiff_outputs", []) else ""
        rows.append(f"  - `{name}`{mark}: {text}\n")
    return "- results:\n" + "".join(rows) if rows else line("results", "none; what is written is marked with `!`")


def line(what, text):
    return f"- {what}: {text}\n" if text else ""


def entry(table, op):
    known = [f"{label} `{op.raw[c]}`" for c, label in (("array_api", "array API"), ("onnx", "ONNX"), ("aten", "ATen")) if c in op.raw]
    out = [f"### {op.name}\n\n`{op.name}{op.sig.text}`\n\n{op.doc}\n\n"]
    out.append(line("dtypes", dtypes(op)))
    out.append(line("result dtype", PROMOTE.get(op.promote, "")))
    out.append(results(table, op))
    out.append(line("also", "; ".join(text for flag, text in FLAGS.items() if flag in op.flags)))
    out.append(line("indices checked as they are loaded", ", ".join(f"`{n}`" for n in op.raw.get("checked", []))))
    if op.composed:
        out.append("- made of:\n\n" + "".join(f"      {row}\n" for row in op.recipe.split("\n")) + "\n")
    for names, text in op.grad.items():
        out.append(line(f"gradient of `{names}`", f"`{re.sub(chr(10), ' ', text.strip())}`"))
    out.append(line("operations", f"`{op.raw['cost']['flops']}`" if "flops" in op.raw.get("cost", {}) else ""))
    out.append(line("known as", ", ".join(known)))
    for text in op.examples:
        out.append(f"\n    {text}\n")
    return "".join(out) + "\n"


def emit(table, out):
    out.write(HEAD)
    for op in table.ops:
        out.write(entry(table, op))
