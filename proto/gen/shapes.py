"""The language of `shape_of`: what shape an argument has beside others.

    x            the shape of x
    x[1]         one dimension, of this size of x
    x[:-ndims]   the shape of x without the last dimensions, as many as the attribute says
    x[-ndims:]   these last dimensions
    [2], []      one dimension of this size; none

Invariant: the rule of an op has seen that x has such dimensions before anybody compares.
"""

import re


def one_of(args, name, what):
    found = next((a for a in args if a.name == name), None)
    if found is None:
        raise ValueError(f"'{name}' is no {what}")
    return found


def parse(text, op):
    """(TD_SHAPE_..., of, at) as proto/ops/op.h declares them."""
    given = re.fullmatch(r"\[(\d*)\]", text)
    if given:
        return "GIVEN", int(given[1] != ""), small(given[1] or "0")
    m = re.fullmatch(r"(\w+)(?:\[(?:(\d+)|:-(\w+)|-(\w+):)\])?", text)
    if not m:
        raise ValueError(f"'{text}' is none of x, x[1], x[:-n], x[-n:], [2] and []")
    of = one_of(op.params, m[1], "tensor argument")
    if of.kind != "TENSOR":
        raise ValueError(f"'{m[1]}' may be absent, or a number")
    if m[2]:
        return "SIZE", of.index, small(m[2], 7)
    if not (m[3] or m[4]):
        return "OF", of.index, 0
    n = one_of(op.attrs, m[3] or m[4], "attribute")
    if n.kind != "INT" or n.optional:
        raise ValueError(f"'{n.name}' is no integer that is always given")
    return "HEAD" if m[3] else "TAIL", of.index, n.index


def small(text, most=127):
    if int(text) > most:
        raise ValueError(f"{text} is more than {most}")
    return int(text)
