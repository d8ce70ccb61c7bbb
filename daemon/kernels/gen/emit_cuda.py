"""cuda_pointwise.inc: the kernels of the pointwise ops for CUDA, as functors of one element, by shards (TD_SHARD); cuda_pointwise.h: their list.

The text of an element is that of the CPU's loops (emit_pointwise.Row). Complex bodies are left out: device code has no _Complex. Where the CPU takes a
faster way that gives the same bits for blocks, there is one way here; elements that it guards against are chosen one by one.
"""

from cdata import HEAD
from emit_pointwise import BODIES, CATEGORY, SHARDS, Row, calls, guarded, spell

REAL = [b for b in BODIES if CATEGORY[b] != "complex"]


def rows_of(table):
    return [Row(op) for op in table.ops if op.expr and op.expr != "TODO" and op.name not in ("copy", "copy_kept")]


def bodies(row):
    return [b for b in REAL if row.text(b)]


def value(row, body):
    """The expression of one element."""
    text = row.text(body)
    if "orders" in row.expr:
        x, order = (p.name for p in row.op.params)
        of = f"td_{row.expr['orders']}_f64((double){x}, (double){order})"
        return of if body == "f64" else f"(float){of}"
    whole = spell(text, body)
    guard, slow = guarded(row, body)
    if guard:
        whole = f"({spell(guard, body)}) ? {spell(slow, body)} : {whole}"
    if "numbers" in row.expr and CATEGORY[body] == "float":
        y = row.expr["number"]
        whole = "".join(f"{y} == (T){v} ? (T)({spell(e, body)}) : " for v, e in row.expr["numbers"].items()) + f"(T)({whole})"
    if "switch" in row.expr:
        k = [a.name for a in row.op.attrs].index(row.expr["switch"])
        whole = f"at[{k}].i ? (T)({spell(row.expr['on'], body)}) : (T)({whole})"
    return whole


def functor(row, body, out):
    name = f"{row.name}_{body}"
    names = [p.name for p in row.op.params]
    truths = [n for n in names if n in row.bool_in]
    mask = sum(1 << names.index(n) for n in truths)
    result = "unsigned char" if row.bool_out else BODIES[body]
    out.write(f"/* {row.op.where('expr')} */\nstruct td_f_{name} {{\n    typedef {BODIES[body]} T;\n    typedef {result} R;\n"
              f"    enum {{ NIN = {len(names)}, BOOLS = {mask}, TRUTH = {int(row.bool_out)} }};\n"
              f"    TD_FN R of(T in0, T in1, T in2, unsigned char truth, const td_pw_attr *at, int &found)\n    {{\n"
              f"        int err = 0;\n        (void)in0, (void)in1, (void)in2, (void)truth, (void)at;\n")
    for k, n in enumerate(names):
        out.write(f"        const {'unsigned char' if n in row.bool_in else 'T'} {n} TD_UNUSED = {'truth' if n in row.bool_in else f'in{k}'};\n")
    for k, a in enumerate(row.op.attrs):
        if a.name != row.expr.get("switch"):
            out.write(f"        const T {a.name} TD_UNUSED = td_attr_{body}(at[{k}]);\n")
    out.write(f"        const R r = (R)({value(row, body)});\n        found |= err;\n        return r;\n    }}\n}};\nTD_POINTWISE({name})\n")


def shards(rows):
    """Deal functors to shards, the dearest first, each to the shard that has least."""
    jobs = [(r, b) for r in rows for b in bodies(r)]
    weight = {(r.name, b): 2 + len(calls(r.text(b))) for r, b in jobs}
    parts, load = [[] for _ in range(SHARDS)], [0] * SHARDS
    for job in sorted(jobs, key=lambda j: (-weight[j[0].name, j[1]], j[0].op.id)):
        k = load.index(min(load))
        parts[k].append(job)
        load[k] += weight[job[0].name, job[1]]
    return parts


def emit(table, out):
    out.write(HEAD + '#include "daemon/kernels/cuda/device/pointwise.cuh"\n\n')
    for k, part in enumerate(shards(rows_of(table))):
        out.write(f"#if TD_SHARD == {k}\n")
        for row, body in part:
            functor(row, body, out)
        out.write("#endif\n")
