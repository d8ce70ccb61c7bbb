"""conformance.c: every worked example of the table as data (tests/unit/conformance.h), for a test to run through kernels."""

import struct

from cdata import HEAD, double, dtype, integer, scalar
from example import Tensor, parse


def shape(t):
    return "{" + ", ".join(map(str, t.shape or (0,))) + "}"


def tensors(name, values, out):
    """An array of operands: Tensor, a number, or None. Returns its name, or NULL."""
    for i, v in enumerate(values):
        flat = v.values if isinstance(v, Tensor) else () if v is None else (v,)
        if flat:
            out.write(f"static const td_scalar {name}_{i}[] = {{{', '.join(map(scalar, flat))}}};\n")
    if not values:
        return "NULL"
    out.write(f"static const example_operand {name}[] = {{\n")
    for i, v in enumerate(values):
        if isinstance(v, Tensor):
            at = f"{name}_{i}" if v.values else "NULL"
            out.write(f"    {{EXAMPLE_TENSOR, {dtype(v.dtype)}, {len(v.shape)}, {shape(v)}, {at}}},\n")
        else:
            out.write("    {.kind = EXAMPLE_NONE},\n" if v is None else f"    {{.kind = EXAMPLE_NUMBER, .values = {name}_{i}}},\n")
    out.write("};\n")
    return name


def attributes(name, op, values, out):
    """The attributes and the pool of their lists. Returns both names, or NULL."""
    pool, rows = [], []
    for attr, v in zip(op.attrs, values):
        if v is None:
            rows.append("{.kind = TD_A_NONE}")
        elif attr.kind == "INTS":
            rows.append(f"{{.kind = TD_A_INTS, .count = {len(v)}, .first = {len(pool)}}}")
            pool.extend(v)
        elif attr.kind == "TEXT":
            b = v.encode()
            rows.append(f"{{.kind = TD_A_TEXT, .count = {len(b)}, .first = {len(pool)}}}")
            pool.extend(struct.unpack(f"<{len(b) // 8 + 1}q", b.ljust(len(b) // 8 * 8 + 8, b"\0")))
        elif attr.kind == "FLOAT":
            rows.append(f"{{.kind = TD_A_FLOAT, .f = {double(v)}}}")
        elif attr.kind == "SCALAR":
            rows.append(f"{{.kind = TD_A_SCALAR, .s = {scalar(v)}}}")
        else:
            rows.append(f"{{.kind = TD_A_{attr.kind}, .i = {dtype(v) if attr.kind == 'DTYPE' else integer(int(v))}}}")
    if pool:
        out.write(f"static const int64_t {name}_ints[] = {{{', '.join(map(integer, pool))}}};\n")
    if rows:
        out.write(f"static const td_attr {name}_attrs[] = {{{', '.join(rows)}}};\n")
    return f"{name}_attrs" if rows else "NULL", f"{name}_ints" if pool else "NULL", len(pool)


def emit(table, out):
    out.write(HEAD + '#include "tests/unit/conformance.h"\n\n#include <math.h>\n\n')
    rows = []
    for op in table.ops:
        for n, text in enumerate(op.examples):
            e, name = parse(text, op), f"{op.name}_{n}"
            ins, outs = tensors(f"{name}_in", e.inputs, out), tensors(f"{name}_out", e.expected, out)
            attrs, ints, count = attributes(name, op, e.attrs, out)
            quoted = text.replace('"', '\\"')
            rows.append(f'    {{"{quoted}", {op.id}, {len(e.inputs)}, {len(e.expected)}, {len(e.attrs)}, {count}, {ins}, {outs}, '
                        f"{attrs}, {ints}}},\n")
    out.write(f"\nconst example_row example_rows[] = {{\n{''.join(rows)}}};\nconst unsigned example_count = {len(rows)};\n")
