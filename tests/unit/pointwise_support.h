/* Calling one kernel by the op's name on small tensors of any layout: what the kernel suites of pointwise ops,
 * reductions and random numbers share. */
#ifndef TENSORD_TESTS_POINTWISE_SUPPORT_H
#define TENSORD_TESTS_POINTWISE_SUPPORT_H

#include "cunit_main.h"
#include "daemon/kernels/cpu/isa.h"
#include "daemon/kernels/kernel.h"
#include <math.h>
#include <stdlib.h>

#define HELPER __attribute__((unused)) static

static uint64_t random_state = 0x9e3779b97f4a7c15ull;
HELPER uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}
HELPER int64_t random_below(int64_t n)
{
    return (int64_t)(random_bits() % (uint64_t)n);
}
HELPER double random_unit(void)
{
    return (double)(random_bits() >> 11) * 0x1p-53;
}

typedef struct box { /* a tensor that owns its bytes */
    td_desc d;
    unsigned char *bytes;
    void *data;
} box;

/* GAPPED: rows are runs, and more room than they take lies between them. */
enum { ROW_MAJOR, PERMUTED, STEPPED, EXPANDED, GAPPED, BOX_LAYOUTS };

HELPER box box_new(td_dtype dtype, int nd, const int64_t *shape, int layout)
{
    box b = {.d = {.dtype = (uint8_t)dtype, .ndim = (uint8_t)nd}};
    int order[TD_MAX_DIMS] = {0}; /* outermost first */
    for (int i = 0; i < nd; i++) order[i] = i;
    if (layout == PERMUTED)
        for (int i = nd - 1; i > 0; i--) {
            unsigned j = (unsigned)(random_bits() % (unsigned)(i + 1));
            int o = order[i];
            order[i] = order[j];
            order[j] = o;
        }
    int64_t width = layout == STEPPED ? 2 : 1;
    int flat = layout == EXPANDED && nd ? (int)random_below(nd) : -1;
    for (int i = nd - 1; i >= 0; i--) {
        unsigned k = (unsigned)order[i] % TD_MAX_DIMS;
        b.d.shape[k] = shape[k];
        b.d.stride[k] = (int)k == flat ? 0 : width;
        if ((int)k != flat) width *= shape[k] > 0 ? shape[k] : 1;
        if ((layout == STEPPED || layout == GAPPED) && i == nd - 1) width += 3;
    }
    size_t bytes = (size_t)(width + 1) * td_dtype_size(dtype);
    b.bytes = calloc(1, bytes + 64);
    b.data = b.bytes + (layout == STEPPED ? td_dtype_size(dtype) : 0);
    return b;
}
HELPER void box_free(box *b)
{
    free(b->bytes);
    b->bytes = NULL;
}
HELPER int64_t box_numel(const box *b)
{
    int64_t n = 1;
    for (int i = 0; i < b->d.ndim; i++) n *= b->d.shape[i];
    return n;
}
/* Element i in row-major order. */
HELPER void *box_at(const box *b, int64_t i)
{
    int64_t at = 0;
    for (int d = b->d.ndim - 1; d >= 0; d--) {
        at += i % b->d.shape[d] * b->d.stride[d];
        i /= b->d.shape[d];
    }
    return (char *)b->data + at * (int64_t)td_dtype_size(b->d.dtype);
}
HELPER td_scalar box_get(const box *b, int64_t i)
{
    return td_scalar_load(b->d.dtype, box_at(b, i));
}
HELPER double box_real(const box *b, int64_t i)
{
    td_scalar s = box_get(b, i);
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}
HELPER void box_set(box *b, int64_t i, double v)
{
    td_scalar_store(td_float(v), b->d.dtype, box_at(b, i));
}
/* Small numbers that every dtype holds exactly. */
HELPER void box_fill(box *b)
{
    for (int64_t i = 0; i < box_numel(b); i++) {
        double v = (double)(random_below(25) - 12), w = (double)(random_below(25) - 12);
        if (td_dtype_is_inexact(b->d.dtype)) v /= 4, w /= 4;
        if (b->d.dtype == TD_UINT8) v = fabs(v);
        td_scalar s = td_dtype_is_complex(b->d.dtype) ? td_complex(v, w) : td_float(v);
        if (b->d.dtype == TD_BOOL) s = td_bool(v > 0);
        td_scalar_store(s, b->d.dtype, box_at(b, i));
    }
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

HELPER int call_run(call *c)
{
    return td_kernel_run(td_cpu_plans[c->k.op->id], &c->k, &c->e);
}
/* The same with chunks of each phase in reverse and with poisoned work memory. */
HELPER int call_run_backwards(call *c)
{
    c->k.nphases = 0;
    c->k.scratch_bytes = c->k.work_bytes = 0;
    atomic_store(&c->k.failed, 0);
    memset(c->k.state, 0xA5, sizeof c->k.state);
    int code = td_cpu_plans[c->k.op->id](&c->k, &c->e);
    if (code) return code;
    size_t work = (c->k.work_bytes + 127) / 64 * 64, room = (c->k.scratch_bytes + 127) / 64 * 64;
    unsigned char *scratch = aligned_alloc(64, room);
    c->k.work = aligned_alloc(64, work);
    memset(c->k.work, 0xA5, work);
    for (int p = 0; p < c->k.nphases; p++)
        for (int64_t i = c->k.phase[p].chunks - 1; i >= 0; i--) {
            memset(scratch, 0xA5, room);
            c->k.phase[p].fn(&c->k, i, scratch);
        }
    bool intact = true; /* nothing beyond what the plan asked for was written */
    for (size_t i = c->k.scratch_bytes; i < room && c->k.nphases; i++) intact = intact && scratch[i] == 0xA5;
    for (size_t i = c->k.work_bytes; i < work; i++) intact = intact && ((unsigned char *)c->k.work)[i] == 0xA5;
    CU_ASSERT(intact);
    free(scratch);
    free(c->k.work);
    return atomic_load(&c->k.failed);
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
