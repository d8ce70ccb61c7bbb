"""compositions.c: for each op that is made of others the function that makes it, over the builder of proto/ops/formula.h, and the one that knows when it is just another op."""

import formula
from cdata import CALLS, HEAD
from emit_formulas import emit_composition, emit_direct


def directs(table):
    """{name: C function} of the ops that are made of others, and sometimes are just another."""
    ops = formula.from_table(table)
    code = {op.name: emit_direct(ops, op) for op in ops.values() if "decompose" in op.row.raw}
    return {name: text for name, text in code.items() if text}


def declarations(table):
    direct = directs(table)
    makes = "".join(f"void td_compose_{op.name}(struct td_fx *f);\n" for op in table.ops if op.composed)
    return makes + "".join(f"const td_op *td_direct_{name}(struct td_fx *f, td_attrs *to);\n" for name in direct)


def emit(table, out):
    ops, direct = formula.from_table(table), directs(table)
    out.write(HEAD + '#include "proto/ops/formula.h"\n#include "proto/ops/opid.h"\n\n#include <math.h>\n\n' + CALLS)
    out.write(declarations(table) + "\n")
    for op in ops.values():
        if "decompose" in op.row.raw:
            out.write(f"/* {op.row.where('decompose')} */\n" + emit_composition(ops, op) + direct.get(op.name, ""))
