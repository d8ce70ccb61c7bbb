"""optable.c: the rows that proto/ops/op.h declares."""

import emit_compositions
import shapes
import signature
from cdata import HEAD, boolean, double, dtype, flags, fnv, integer, scalar, string
from table import DTYPES


def agreed(op):
    """The text of everything that both sides must agree on. (What is made of other ops never goes from one to the other.)"""
    return "|".join([op.name, op.sig.text, " ".join(sorted(op.flags)), op.infer, op.promote, " ".join(op.dtypes)])


def params(op, out):
    if not op.params:
        return "NULL"
    out.write(f"static const td_param {op.name}_params[] = {{\n")
    for p in op.params:
        marks = [m for m, on in (("MUTATED", p.mutated), ("CHECKED", p.name in op.raw.get("checked", [])),
                                 ("LINEAR", p.name in op.raw.get("linear", [])), ("ALIKE", p.name in op.raw.get("alike", []))) if on]
        only_if = next((1 + a.index for a in op.attrs if a.name == p.mutated_if), 0)
        shape = shapes.parse(op.raw["shape_of"][p.name], op) if p.name in op.raw.get("shape_of", {}) else ("ANY", 0, 0)
        out.write(f"    {{{string(p.name)}, TD_P_{p.kind}, {flags('TD_PF_', marks)}, {only_if}, TD_SHAPE_{shape[0]}, {shape[1]}, {shape[2]}}},\n")
    out.write("};\n")
    return f"{op.name}_params"


def default(attr):
    """The td_attr of a default."""
    v = attr.default
    if v is None:
        return "{.kind = TD_A_NONE}"
    if attr.kind == "FLOAT":
        return f"{{.kind = TD_A_FLOAT, .f = {double(v)}}}"
    if attr.kind == "SCALAR":
        return f"{{.kind = TD_A_SCALAR, .s = {scalar(v)}}}"
    if attr.kind == "INTS":
        return f"{{.kind = TD_A_INTS, .count = {len(v)}}}"
    return f"{{.kind = TD_A_{attr.kind}, .i = {integer(int(v))}}}"


def attrs(op, out):
    if not op.attrs:
        return "NULL"
    for a in op.attrs:
        if a.kind == "INTS" and a.default:
            out.write(f"static const int64_t {op.name}_{a.name}[] = {{{', '.join(map(integer, a.default))}}};\n")
    out.write(f"static const td_attr_def {op.name}_attrs[] = {{\n")
    for a in op.attrs:
        value = f", .value = {default(a)}" if a.has_default else ""
        ints = f", .ints = {op.name}_{a.name}" if a.kind == "INTS" and a.default else ""
        out.write(f"    {{.name = {string(a.name)}, .kind = TD_A_{a.kind}, .optional = {boolean(a.optional)}, "
                  f".has_default = {boolean(a.has_default)}{value}{ints}}},\n")
    out.write("};\n")
    return f"{op.name}_attrs"


def outs(op, out):
    if not op.outs:
        return "NULL"
    out.write(f"static const td_output_def {op.name}_outs[] = {{\n")
    for o in op.outs:
        out.write(f"    {{{string(o.name)}, {boolean(o.name in op.nondiff_outputs)}, {boolean(o.is_list)}}},\n")
    out.write("};\n")
    return f"{op.name}_outs"


def saved(op, masks, out):
    if not masks:
        return "NULL"
    out.write(f"static const td_saves {op.name}_saves[] = {{\n")
    for exists, *kept in masks:
        out.write(f"    {{{boolean(exists)}, {', '.join(f'{mask:#x}' for mask in kept)}}},\n")
    out.write("};\n")
    return f"{op.name}_saves"


def row(op, names, direct):
    """One element of td_ops; `names` are the arrays written before; `direct`: it is made of others, and sometimes just another."""
    listed = next((p.index for p in op.params if p.is_list), -1)
    attrs_at = sum(1 << k for k, a in enumerate(op.sig.args) if isinstance(a, signature.Attr))
    mask = sum(1 << DTYPES.index(d) for d in op.dtypes)
    example = string(op.examples[0]) if op.examples else "NULL"
    compose = f"\n        .compose = td_compose_{op.name}," if op.composed else ""
    compose += f" .direct = td_direct_{op.name}," if direct else ""
    return f"""    [{op.id}] = {{
        .id = {op.id},
        .flags = {flags('TD_OF_', op.flags)},
        .name = {string(op.name)},
        .doc = {string(op.doc)},
        .signature = {string(op.sig.text)},
        .hash = {fnv(agreed(op), 32):#x}u,
        .nparams = {len(op.params)}, .nattrs = {len(op.attrs)}, .nouts = {len(op.outs)}, .list_param = {listed}, .attrs_at = {attrs_at:#x},
        .params = {names[0]}, .attrs = {names[1]}, .outs = {names[2]},
        .dtypes = {mask:#x},
        .infer = td_infer_{op.infer},{compose}
        .saves = {names[3]},
        .example = {example}, .aten = {string(op.raw["aten"]) if "aten" in op.raw else "NULL"},
        .promote = TD_PROMOTE_{op.promote.upper()}, .mutates = {boolean(any(p.mutated for p in op.params))}, .alike = {boolean("alike" in op.raw)}, .shaped = {boolean("shape_of" in op.raw)},
    }},
"""


def emit(table, out):
    out.write(HEAD + '#include "proto/infer/infer.h"\n\n#include <math.h>\n\n')
    out.write(emit_compositions.declarations(table))
    direct = emit_compositions.directs(table)
    rows = []
    for op in table.ops:
        names = params(op, out), attrs(op, out), outs(op, out), saved(op, op.saves, out)
        rows.append(row(op, names, op.name in direct))
    count = table.ops[-1].id + 1 if table.ops else 0
    out.write(f"\nconst td_op td_ops[] = {{\n{''.join(rows)}}};\n")
    out.write(f"const unsigned td_op_count = {count};\n")
    whole = "\n".join(f"{op.id} {agreed(op)}" for op in table.ops if not op.composed)
    out.write(f"const uint64_t td_ops_hash = {fnv(whole, 64):#x}u;\n\n")
    by_name = ", ".join(str(op.id) for op in sorted(table.ops, key=lambda o: o.name.encode()))
    out.write(f"const uint16_t td_ops_by_name[] = {{{by_name}}};\nconst unsigned td_ops_named = {len(table.ops)};\n")
