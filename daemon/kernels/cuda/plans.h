/* The plan functions for CUDA. Each leaves a list of launches (launch.h), or refuses a dtype or layout by name. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_PLANS_H
#define TENSORD_DAEMON_KERNELS_CUDA_PLANS_H

#include "daemon/kernels/kernel.h"

enum { TD_CUDA_MOST_BLOCKS = 1 << 15 }; /* of a kernel that walks on by the grid */

#define TD_CUDA_PLANS(X)                                                                                               \
    X(pointwise)                                                                                                       \
    X(copy)                                                                                                            \
    X(full)                                                                                                            \
    X(arange)                                                                                                          \
    X(linspace) X(eye) X(sum) X(mean) X(prod) X(amax) X(amin) X(max_dim) X(min_dim) X(argmax) X(argmin) X(var) X(std)  \
        X(any) X(all) X(logsumexp) X(sum_to) X(sum_squares) X(mm) X(bmm) X(addmm) X(linear) X(dot) X(mv) X(softmax)    \
            X(log_softmax) X(softmax_backward) X(log_softmax_backward) X(nll_loss) X(nll_loss_backward) X(sgd_step)    \
                X(adam_step) X(layer_norm) X(layer_norm_backward) X(batch_norm) X(batch_norm_backward) X(index_select) \
                    X(embedding) X(gather) X(index_add) X(scatter_add) X(cat) X(stack) X(select_scatter)               \
                        X(slice_scatter) X(rand) X(randn) X(dropout) X(dropout_backward) X(conv2d) X(conv2d_backward)  \
                            X(max_pool2d) X(max_pool2d_backward) X(avg_pool2d) X(avg_pool2d_backward) X(repeat)        \
                                X(flip) X(roll) X(constant_pad) X(tril) X(triu) X(cumsum) X(cumprod) X(randint)        \
                                    X(randperm) X(bernoulli) X(scatter) X(index) X(index_put) X(tiled_attention)       \
                                        X(tiled_attention_backward)
/* cat and stack of contiguous tensors of one dtype, few enough for the arguments of one launch. */
bool td_cuda_are_plain(const td_kcall *k);
int td_cuda_plan_parts(td_kcall *k, int dim, bool stacks, td_error *e);
#define TD_CUDA_PLAN(NAME) int td_cuda_plan_##NAME(td_kcall *k, td_error *e);
TD_CUDA_PLANS(TD_CUDA_PLAN)
#undef TD_CUDA_PLAN

#endif
