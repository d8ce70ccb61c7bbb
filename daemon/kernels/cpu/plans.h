/* Plan functions of the kernels that are named in the op table but not made from expressions (td_plan_fn each). */
#ifndef TENSORD_KERNELS_CPU_PLANS_H
#define TENSORD_KERNELS_CPU_PLANS_H

#include "daemon/kernels/kernel.h"

#define TD_CPU_PLAN(name) int td_cpu_plan_##name(td_kcall *k, td_error *e)

/* matrix products: matmul.c, matvec.c */
TD_CPU_PLAN(mm);
TD_CPU_PLAN(bmm);
TD_CPU_PLAN(addmm);
TD_CPU_PLAN(linear);
TD_CPU_PLAN(dot);
TD_CPU_PLAN(mv);
/* reading through indices: index_read.c; writing through them: scatter.c, index_put.c; by mask: mask.c */
TD_CPU_PLAN(index_select);
TD_CPU_PLAN(embedding);
TD_CPU_PLAN(gather);
TD_CPU_PLAN(index);
TD_CPU_PLAN(scatter);
TD_CPU_PLAN(scatter_add);
TD_CPU_PLAN(index_put);
TD_CPU_PLAN(index_add);
TD_CPU_PLAN(masked_select);
TD_CPU_PLAN(nonzero);
TD_CPU_PLAN(masked_scatter);
TD_CPU_PLAN(select_scatter);
TD_CPU_PLAN(slice_scatter);
/* sort.c, topk.c */
TD_CPU_PLAN(sort);
TD_CPU_PLAN(topk);
/* convolution and pooling */
TD_CPU_PLAN(conv2d);
TD_CPU_PLAN(conv2d_backward);
TD_CPU_PLAN(max_pool2d);
TD_CPU_PLAN(max_pool2d_backward);
TD_CPU_PLAN(avg_pool2d);
TD_CPU_PLAN(avg_pool2d_backward);
/* normalisation, loss, optimizers */
TD_CPU_PLAN(layer_norm);
TD_CPU_PLAN(layer_norm_backward);
TD_CPU_PLAN(batch_norm);
TD_CPU_PLAN(batch_norm_backward);
TD_CPU_PLAN(nll_loss);
TD_CPU_PLAN(nll_loss_backward);
TD_CPU_PLAN(sgd_step);
TD_CPU_PLAN(adam_step);

#endif
