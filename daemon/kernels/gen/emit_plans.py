"""plans.c: the CPU's plan function of each op, by id (plans.h declares them: emit_plans_h.py). A kernel that the table names and nobody wrote is a link error."""

from cdata import HEAD


def plan(op):
    """Name of the plan function, or None for a view or an op that computes nothing."""
    if op.name in ("copy", "copy_kept"):
        return "td_cpu_plan_copy"
    if op.expr and op.expr != "TODO":
        return "td_cpu_plan_pointwise"
    return f"td_cpu_plan_{op.kernel}" if op.kernel else None


def emit(table, out):
    plans = {op.id: plan(op) for op in table.ops if plan(op)}
    out.write(HEAD + '#include "daemon/kernels/plans.h"\n\n')
    out.write("const td_plan_fn td_cpu_plans[] = {\n")
    for id_, name in sorted(plans.items()):
        out.write(f"    [{id_}] = {name},\n")
    out.write(f"    [{max(op.id for op in table.ops)}] = {plans.get(max(op.id for op in table.ops)) or 'NULL'},\n}};\n"
              if max(op.id for op in table.ops) not in plans else "};\n")
