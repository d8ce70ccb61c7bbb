/* Running one plan in a test, three ways from the same bytes: in order, shuffled, and on two threads.
 *
 * What the harness itself checks at every call: nothing outside of tensors, work memory and scratch is touched
 * (kernel_box.h), and the results of the three ways are the same bits. */
#ifndef TENSORD_TESTS_UNIT_KERNEL_HARNESS_H
#define TENSORD_TESTS_UNIT_KERNEL_HARNESS_H

#include "daemon/kernels/plans.h"
#include "kernel_box.h"
#include <assert.h>

#define MAX_ARGS 12
#define MAYBE HELPER
#define PLAIN ROW_MAJOR
#define SHUFFLED PERMUTED

typedef box tt;

#define rnd random_bits
#define rnd_below random_below
#define tt_layout box_new
#define tt_free box_free
#define tt_numel box_numel
#define tt_at box_at
#define tt_scalar_at box_get
#define tt_get box_real
#define tt_set box_set

MAYBE tt tt_new(td_dtype dtype, int nd, const int64_t *shape)
{
    return tt_layout(dtype, nd, shape, PLAIN);
}
#define TT(dtype, ...)                                                                                                 \
    tt_new(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define TTL(dtype, layout, ...)                                                                                        \
    tt_layout(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, layout)
MAYBE tt tt_scalar(td_dtype dtype)
{
    return tt_new(dtype, 0, NULL);
}
/* A tensor of t's shape. */
MAYBE tt tt_like(const tt *t, td_dtype dtype)
{
    return tt_new(dtype, t->d.ndim, t->d.shape);
}
MAYBE void tt_random(tt *t)
{
    box_numbers(t, 16, 8);
}
/* Many different floats. */
MAYBE void tt_normal(tt *t, double mean, double spread)
{
    for (int64_t i = 0; i < tt_numel(t); i++) {
        double s = 0;
        for (int j = 0; j < 4; j++) s += (double)(rnd() >> 11) * 0x1p-53 - 0.5;
        tt_set(t, i, mean + spread * s * 1.7);
    }
}
MAYBE void tt_indices(tt *t, int64_t low, int64_t high)
{
    for (int64_t i = 0; i < tt_numel(t); i++) tt_set(t, i, (double)(low + rnd_below(high - low)));
}

__attribute__((constructor)) static void libraries(void)
{
    td_cpu_init();
}

/* ---- a call ---- */

typedef struct tcall {
    td_attrs attrs;
    int nin, nout;
    tt *in[MAX_ARGS], *out[MAX_ARGS]; /* NULL: absent */
    td_kcall k;
    td_error error;
} tcall;

/* Plan and run once; the code of the failure, or 0. */
MAYBE int tcall_once(tcall *c, td_plan_fn plan, int how)
{
    td_karg in[MAX_ARGS], out[MAX_ARGS];
    for (int i = 0; i < c->nin; i++) in[i] = c->in[i] ? (td_karg){c->in[i]->data, &c->in[i]->d} : (td_karg){NULL, NULL};
    for (int i = 0; i < c->nout; i++) out[i] = (td_karg){c->out[i]->data, &c->out[i]->d};
    memset(&c->k, 0, sizeof c->k);
    memset(&c->error, 0, sizeof c->error);
    c->k.attrs = &c->attrs;
    c->k.in = in;
    c->k.out = out;
    c->k.nin = (uint16_t)c->nin;
    c->k.nout = (uint16_t)c->nout;
    c->k.compute = c->nin && c->in[0] ? c->in[0]->d.dtype : TD_FLOAT32;
    int code = run_guarded(plan, &c->k, how, &c->error);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) CU_ASSERT(guarded_intact(&c->in[i]->memory));
    for (int i = 0; i < c->nout; i++) CU_ASSERT(guarded_intact(&c->out[i]->memory));
    return code;
}

typedef struct snapshot {
    unsigned char *in[MAX_ARGS], *out[MAX_ARGS];
} snapshot;

static unsigned char *copy_of(const tt *t)
{
    unsigned char *bytes = t ? malloc(t->bytes + 1) : NULL;
    if (t && t->bytes) memcpy(bytes, t->data, t->bytes);
    return bytes;
}
static void snapshot_take(snapshot *s, const tcall *c)
{
    for (int i = 0; i < c->nin; i++) s->in[i] = copy_of(c->in[i]);
    for (int i = 0; i < c->nout; i++) s->out[i] = copy_of(c->out[i]);
}
static void snapshot_restore(const snapshot *s, tcall *c)
{
    for (int i = 0; i < c->nout; i++)
        if (c->out[i]->bytes) memcpy(c->out[i]->data, s->out[i], c->out[i]->bytes);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && c->in[i]->bytes) memcpy(c->in[i]->data, s->in[i], c->in[i]->bytes);
}
static bool same_bytes(const unsigned char *kept, const tt *t)
{
    return !t->bytes || !memcmp(kept, t->data, t->bytes);
}
static bool snapshot_same(const snapshot *s, const tcall *c)
{
    bool same = true;
    for (int i = 0; i < c->nin; i++) same = same && (!c->in[i] || same_bytes(s->in[i], c->in[i]));
    for (int i = 0; i < c->nout; i++) same = same && same_bytes(s->out[i], c->out[i]);
    return same;
}
static void snapshot_free(snapshot *s, const tcall *c)
{
    for (int i = 0; i < c->nin; i++) free(s->in[i]);
    for (int i = 0; i < c->nout; i++) free(s->out[i]);
}

#if defined(__SANITIZE_THREAD__) /* which sees nothing in one thread */
enum { FIRST_WAY = TWO_THREADS };
#else
enum { FIRST_WAY = IN_ORDER };
#endif

/* All three ways, from the same bytes; they must agree to the bit. The result of the last is left. */
MAYBE int tcall_run(tcall *c, td_plan_fn plan)
{
    snapshot before, first;
    snapshot_take(&before, c);
    int code = tcall_once(c, plan, FIRST_WAY);
    snapshot_take(&first, c);
    for (int how = FIRST_WAY + 1; how <= TWO_THREADS; how++) {
        snapshot_restore(&before, c);
        CU_ASSERT_EQUAL(tcall_once(c, plan, how), code);
        if (!code) CU_ASSERT(snapshot_same(&first, c));
    }
    snapshot_free(&before, c);
    snapshot_free(&first, c);
    return code;
}
/* The call must fail with `code` and leave every byte of its tensors as it was. */
MAYBE void tcall_refused(tcall *c, td_plan_fn plan, int code)
{
    snapshot before;
    snapshot_take(&before, c);
    for (int how = FIRST_WAY; how <= TWO_THREADS; how++) {
        CU_ASSERT_EQUAL(tcall_once(c, plan, how), code);
        CU_ASSERT(snapshot_same(&before, c));
        CU_ASSERT(c->error.message[0] != 0);
    }
    snapshot_free(&before, c);
}

/* The same, and the plan says so: it failed in a phase that does not touch the output. */
MAYBE void tcall_refused_cleanly(tcall *c, td_plan_fn plan, int code)
{
    tcall_refused(c, plan, code);
    CU_ASSERT(failed_phase >= 0 && failed_phase < c->k.clean_phases && c->k.clean_phases <= c->k.nphases);
}

/* Building a call. */
#define CALL(c, n_out, ...)                                                                                            \
    tcall c = {.nin = (int)(sizeof((tt *[]){__VA_ARGS__}) / sizeof(tt *)), .nout = (n_out), .in = {__VA_ARGS__}}

MAYBE void attr_int(tcall *c, int64_t v)
{
    c->attrs.at[c->attrs.count++] = (td_attr){.kind = TD_A_INT, .i = v};
}
MAYBE void attr_bool(tcall *c, bool v)
{
    c->attrs.at[c->attrs.count++] = (td_attr){.kind = TD_A_BOOL, .i = v};
}
MAYBE void attr_float(tcall *c, double v)
{
    c->attrs.at[c->attrs.count++] = (td_attr){.kind = TD_A_FLOAT, .f = v};
}
MAYBE void attr_scalar(tcall *c, td_scalar v)
{
    c->attrs.at[c->attrs.count++] = (td_attr){.kind = TD_A_SCALAR, .s = v};
}
MAYBE void attr_none(tcall *c)
{
    c->attrs.at[c->attrs.count++] = (td_attr){.kind = TD_A_NONE};
}
MAYBE void attr_ints(tcall *c, int n, const int64_t *v)
{
    td_attr a = {.kind = TD_A_INTS, .count = (uint16_t)n};
    a.first = c->attrs.nints;
    for (int i = 0; i < n; i++) c->attrs.ints[c->attrs.nints++] = v[i];
    c->attrs.at[c->attrs.count++] = a;
}

/* How far a result of dtype may be from the value in double, relative to its scale. */
MAYBE double tolerance(td_dtype dtype)
{
    switch (dtype) {
    case TD_FLOAT16: return 2e-3;
    case TD_BFLOAT16: return 1.6e-2;
    case TD_FLOAT32:
    case TD_COMPLEX64: return 4e-6;
    default: return 1e-12;
    }
}
MAYBE bool near(double a, double b, double tol, double scale)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return fabs(a - b) <= tol * (fabs(scale) + 1);
}

#endif
