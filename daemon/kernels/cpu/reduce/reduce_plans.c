/* The reductions of the op table in terms of folds. `dim` comes as one, as a list, or not at all; nothing and an empty
 * list mean all dimensions. Inference has checked it. */
#include "daemon/kernels/cpu/reduce/reduce.h"
#include "daemon/kernels/plans.h"

static unsigned reduced_bits(const td_kcall *k, int attr)
{
    int ndim = k->in[0].desc->ndim, n = 1;
    const td_attr *a = &k->attrs->at[attr];
    const int64_t *dims = &a->i;
    if (a->kind == TD_A_NONE || (a->kind == TD_A_INTS && a->count == 0)) return ~0u;
    if (a->kind == TD_A_INTS) dims = td_attr_ints(k->attrs, attr, &n);
    unsigned bits = 0;
    for (int i = 0; i < n; i++) bits |= 1u << (dims[i] < 0 ? dims[i] + (ndim ? ndim : 1) : dims[i]);
    return bits;
}

#define REDUCE(NAME, FOLD, FINISH)                                                                                     \
    int td_cpu_plan_##NAME(td_kcall *k, td_error *e)                                                                   \
    {                                                                                                                  \
        return td_reduce_plan(k, reduced_bits(k, 0), FOLD, FINISH, 0, e);                                              \
    }
REDUCE(sum, TD_FOLD_SUM, TD_FINISH_A)
REDUCE(mean, TD_FOLD_SUM, TD_FINISH_MEAN)
REDUCE(sum_squares, TD_FOLD_SQUARES, TD_FINISH_A)
REDUCE(prod, TD_FOLD_PROD, TD_FINISH_A)
REDUCE(amax, TD_FOLD_MAX, TD_FINISH_A)
REDUCE(amin, TD_FOLD_MIN, TD_FINISH_A)
REDUCE(max_dim, TD_FOLD_ARGMAX, TD_FINISH_BOTH)
REDUCE(min_dim, TD_FOLD_ARGMIN, TD_FINISH_BOTH)
REDUCE(argmax, TD_FOLD_ARGMAX, TD_FINISH_INDEX)
REDUCE(argmin, TD_FOLD_ARGMIN, TD_FINISH_INDEX)
REDUCE(any, TD_FOLD_ANY, TD_FINISH_A)
REDUCE(all, TD_FOLD_ALL, TD_FINISH_A)
REDUCE(logsumexp, TD_FOLD_LSE, TD_FINISH_LSE)

int td_cpu_plan_var(td_kcall *k, td_error *e)
{
    return td_reduce_plan(k, reduced_bits(k, 0), TD_FOLD_VAR, TD_FINISH_VAR, td_attr_float(k->attrs, 1), e);
}

/* The root is taken of a double: the square of what a float holds may be beyond its range. */
int td_cpu_plan_std(td_kcall *k, td_error *e)
{
    return td_reduce_plan(k, reduced_bits(k, 0), TD_FOLD_VAR, TD_FINISH_STD, td_attr_float(k->attrs, 1), e);
}

/* The dimensions that `shape` lacks or has as 1. */
int td_cpu_plan_sum_to(td_kcall *k, td_error *e)
{
    int n;
    const td_desc *x = k->in[0].desc;
    const int64_t *shape = td_attr_ints(k->attrs, 0, &n);
    unsigned bits = 0;
    for (int i = 0; i < x->ndim; i++) {
        int j = i - (x->ndim - n);
        if (j < 0 || (shape[j] == 1 && x->shape[i] != 1)) bits |= 1u << i;
    }
    return td_reduce_plan(k, bits, TD_FOLD_SUM, TD_FINISH_A, 0, e);
}
