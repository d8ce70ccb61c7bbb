"""cuda_plans.c: CUDA's plan function of each op, by id. An op that WRITTEN does not name and that has no expression has none."""

from cdata import HEAD
from emit_cuda import bodies, Row

# Kernels of the op table that daemon/kernels/cuda has plans for.
WRITTEN = {"full", "arange", "linspace", "eye", "sum", "mean", "prod", "amax", "amin", "max_dim", "min_dim", "argmax", "argmin",
           "var", "std", "any", "all", "logsumexp", "sum_to", "sum_squares", "mm", "bmm", "addmm", "linear", "dot", "mv",
           "softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "nll_loss", "nll_loss_backward", "sgd_step", "adam_step",
           "layer_norm", "layer_norm_backward", "batch_norm", "batch_norm_backward",
           "index_select", "embedding", "gather", "index_add", "scatter_add", "scatter", "index", "index_put", "tiled_attention", "tiled_attention_backward", "cat", "stack", "select_scatter", "slice_scatter",
           "repeat", "flip", "roll", "constant_pad", "tril", "triu", "cumsum", "cumprod",
           "rand", "randn", "randint", "randperm", "bernoulli", "dropout", "dropout_backward",
           "conv2d", "conv2d_backward", "max_pool2d", "max_pool2d_backward", "avg_pool2d", "avg_pool2d_backward"}


def plan(op):
    """Name of the plan function, or None."""
    if op.kernel == "copy" or op.name in ("copy", "copy_kept"):
        return "td_cuda_plan_copy"
    if op.expr and op.expr != "TODO":
        return "td_cuda_plan_pointwise" if bodies(Row(op)) else None
    return f"td_cuda_plan_{op.kernel}" if op.kernel in WRITTEN else None


def emit(table, out):
    out.write(HEAD + '#include "daemon/kernels/cuda/launch.h"\n#include "daemon/kernels/cuda/plans.h"\n\n')
    last = max(op.id for op in table.ops)
    out.write(f"const td_plan_fn td_cuda_plans[{last} + 1] = {{\n")
    for op in sorted(table.ops, key=lambda o: o.id):
        if plan(op):
            out.write(f"    [{op.id}] = {plan(op)}, /* {op.name} */\n")
    out.write("};\n")
