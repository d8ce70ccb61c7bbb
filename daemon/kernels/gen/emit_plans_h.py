"""plans.h: the CPU's plan functions, one for each kernel that the table names, and those of all that is made from expressions."""

from cdata import HEAD
from emit_plans import plan


def emit(table, out):
    first = {}
    for op in table.ops:
        if plan(op):
            first.setdefault(plan(op), op)
    out.write(HEAD + '#pragma once\n\n#include "daemon/kernels/kernel.h"\n\n')
    for name, op in sorted(first.items()):
        out.write(f"int {name}(td_kcall *k, td_error *e); /* {op.where()} */\n")
