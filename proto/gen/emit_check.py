"""A stamp: the table was read and every rule held. What was counted, for the build's log."""


def emit(table, out):
    counts = {"ops": len(table.ops), "views": sum("view" in o.flags for o in table.ops),
              "expressions": sum(o.expr is not None for o in table.ops), "kernels": sum(bool(o.kernel) for o in table.ops),
              "with gradients": sum(bool(o.grad) for o in table.ops), "examples": sum(len(o.examples) for o in table.ops)}
    out.write(", ".join(f"{n} {what}" for what, n in counts.items()) + "\n")
