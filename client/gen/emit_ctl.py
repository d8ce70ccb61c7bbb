"""The gradient formulas, what ops are made of and what results look like as text, for `tensorctl ops NAME`; which have a kernel for CUDA."""

import emit_cuda_plans
from cdata import HEAD, string


def emit(table, out):
    out.write(HEAD + '#include "client/tensorctl/tensorctl.h"\n\n#include <stddef.h>\n\n')
    out.write("const char *ctl_results(unsigned id)\n{\n    switch (id) {\n")
    for op in table.ops:
        if op.outs:
            text = "\n".join(f"{name}: {words}" for name, words in table.results(op))
            out.write(f"    case {op.id}: return {string(text)};\n")
    out.write("    default: return \"\";\n    }\n}\n\n")
    out.write("const char *ctl_gradients(unsigned id)\n{\n    switch (id) {\n")
    for op in table.ops:
        if op.grad:
            text = "\n".join(f"{inputs}: {formula}" for inputs, formula in op.grad.items())
            out.write(f"    case {op.id}: return {string(text)};\n")
    out.write("    default: return NULL;\n    }\n}\n\nconst char *ctl_composition(unsigned id)\n{\n    switch (id) {\n")
    for op in table.ops:
        if op.composed:
            out.write(f"    case {op.id}: return {string(op.recipe)};\n")
    out.write("    default: return NULL;\n    }\n}\n\nbool ctl_has_cuda_kernel(unsigned id)\n{\n    switch (id) {\n")
    for op in table.ops:
        if emit_cuda_plans.plan(op):
            out.write(f"    case {op.id}:\n")
    out.write("        return true;\n    default: return false;\n    }\n}\n")
