/* The plan functions of this room (td_plan_fn each): one for each kernel that the op table names, and two for all that
 * is made from expressions. */
#ifndef TENSORD_KERNELS_CPU_PLANS_H
#define TENSORD_KERNELS_CPU_PLANS_H

#include "daemon/kernels/kernel.h"

#define TD_CPU_PLAN(name) int td_cpu_plan_##name(td_kcall *k, td_error *e)

/* everything that is made from an expression, and copy: pointwise.c */
TD_CPU_PLAN(pointwise);
TD_CPU_PLAN(copy);
/* creation: create.c */
TD_CPU_PLAN(full);
TD_CPU_PLAN(arange);
TD_CPU_PLAN(linspace);
TD_CPU_PLAN(eye);
/* assembly: assemble.c, rearrange.c, triangle.c */
TD_CPU_PLAN(cat);
TD_CPU_PLAN(stack);
TD_CPU_PLAN(repeat);
TD_CPU_PLAN(flip);
TD_CPU_PLAN(roll);
TD_CPU_PLAN(constant_pad);
TD_CPU_PLAN(tril);
TD_CPU_PLAN(triu);
/* reductions: reduce_plans.c */
TD_CPU_PLAN(sum);
TD_CPU_PLAN(mean);
TD_CPU_PLAN(prod);
TD_CPU_PLAN(amax);
TD_CPU_PLAN(amin);
TD_CPU_PLAN(max_dim);
TD_CPU_PLAN(min_dim);
TD_CPU_PLAN(argmax);
TD_CPU_PLAN(argmin);
TD_CPU_PLAN(var);
TD_CPU_PLAN(any);
TD_CPU_PLAN(all);
TD_CPU_PLAN(logsumexp);
TD_CPU_PLAN(sum_to);
/* along one dimension: scan.c, softmax.c */
TD_CPU_PLAN(cumsum);
TD_CPU_PLAN(softmax);
TD_CPU_PLAN(log_softmax);
TD_CPU_PLAN(softmax_backward);
TD_CPU_PLAN(log_softmax_backward);
/* random numbers: random.c, dropout.c */
TD_CPU_PLAN(rand);
TD_CPU_PLAN(randn);
TD_CPU_PLAN(randint);
TD_CPU_PLAN(randperm);
TD_CPU_PLAN(bernoulli);
TD_CPU_PLAN(dropout);
TD_CPU_PLAN(dropout_backward);
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
