/* Calling one kernel by the op's name on small tensors of any layout: what the kernel suites of pointwise ops,
 * reductions and random numbers share. */
#ifndef TENSORD_TESTS_UNIT_POINTWISE_SUPPORT_H
#define TENSORD_TESTS_UNIT_POINTWISE_SUPPORT_H

#include "kernel_box.h"

HELPER void box_fill(box *b)
{
    box_numbers(b, 12, 4);
}
/* The element of `b` that belongs to element i of a result of this shape. */
HELPER int64_t box_broadcast(const box *b, const td_desc *to, int64_t i)
{
    int64_t at = 0, scale = 1;
    for (int d = to->ndim - 1, k = b->d.ndim - 1; d >= 0; d--, k--) {
        int64_t c = i % to->shape[d];
        i /= to->shape[d];
        if (k < 0) continue;
        if (b->d.shape[k] != 1) at += c * scale;
        scale *= b->d.shape[k];
    }
    return at;
}

typedef struct call {
    td_op op;
    td_kcall k;
    td_attrs attrs;
    td_karg in[8], out[4];
    td_error e;
} call;

/* Fill a call of the op with default attributes where it has them. */
HELPER void call_begin(call *c, const char *name, td_dtype compute)
{
    const td_op *op = td_op_by_name(name);
    memset(c, 0, sizeof *c);
    CU_ASSERT_PTR_NOT_NULL_FATAL(op);
    c->k.op = op;
    c->k.attrs = &c->attrs;
    c->k.in = c->in;
    c->k.out = c->out;
    c->k.compute = (uint8_t)compute;
    for (int i = 0; i < op->nattrs; i++) {
        td_attr a = op->attrs[i].value;
        if (a.kind == TD_A_INTS) a.first = 0;
        if (!op->attrs[i].has_default) a.kind = TD_A_NONE;
        c->attrs.at[c->attrs.count++] = a;
    }
}
HELPER void call_in(call *c, const box *b)
{
    c->in[c->k.nin++] = b ? (td_karg){b->data, &b->d} : (td_karg){NULL, NULL};
}
HELPER void call_out(call *c, const box *b)
{
    c->out[c->k.nout++] = (td_karg){b->data, &b->d};
}
HELPER void call_attr(call *c, int at, td_attr a)
{
    c->attrs.at[at] = a;
}
HELPER void call_ints(call *c, int at, int n, const int64_t *v)
{
    c->attrs.at[at] = (td_attr){.kind = TD_A_INTS, .count = (uint16_t)n, .first = c->attrs.nints};
    for (int i = 0; i < n; i++) c->attrs.ints[c->attrs.nints++] = v[i];
}
#define A_INT(v) ((td_attr){.kind = TD_A_INT, .i = (v)})
#define A_BOOL(v) ((td_attr){.kind = TD_A_BOOL, .i = (v)})
#define A_FLOAT(v) ((td_attr){.kind = TD_A_FLOAT, .f = (v)})
#define A_SCALAR(v) ((td_attr){.kind = TD_A_SCALAR, .s = (v)})
#define A_NONE ((td_attr){.kind = TD_A_NONE})

/* Between guarded pages, chunks in order, shuffled or on two threads as it comes. */
HELPER int call_run(call *c)
{
    return run_guarded(td_cpu_plans[c->k.op->id], &c->k, (int)random_below(RUNNINGS), &c->e);
}
/* On this thread, as small work is run in the daemon. */
HELPER int call_run_plainly(call *c)
{
    return td_kernel_run(td_cpu_plans[c->k.op->id], &c->k, &c->e);
}

/* Distance in units in the last place of float between a result and the true value. */
HELPER double ulps(float got, double want)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    float w = (float)want;
    if (isinf(w) || isinf(got)) return w == got ? 0 : fabs(fabs(want) - 0x1p128) < 0x1p105 ? 1 : INFINITY;
    int e;
    frexp(fmax(fabs(want), 0x1p-126), &e);
    return fabs((double)got - want) / ldexp(1, e - 24);
}

#endif
