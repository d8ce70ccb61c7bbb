/* Running one kernel in a test: tensors of any dtype and layout, and a plan whose chunks run in order, shuffled, or on
 * two threads.
 *
 * What the harness itself checks at every call: the plan leaves its work and scratch sizes as promised (guard bytes
 * stay), the bytes around each tensor stay, and the results of the three ways of running are the same bits. */
#ifndef TENSORD_TESTS_KERNEL_HARNESS_H
#define TENSORD_TESTS_KERNEL_HARNESS_H

#include "cunit_main.h"
#include "daemon/kernels/cpu/plans.h"
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define GUARD 64
#define MAX_ARGS 12
#define MAYBE __attribute__((unused)) static

static uint64_t rng_state = 88172645463325252ull;
MAYBE uint64_t rnd(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    return rng_state ^= rng_state << 17;
}
MAYBE int64_t rnd_below(int64_t n)
{
    return n > 0 ? (int64_t)(rnd() % (uint64_t)n) : 0;
}

typedef struct tt {
    td_desc d;
    unsigned char *buf;
    size_t bytes; /* between the guards */
    void *data;
} tt;

enum { PLAIN, TURNED, STEPPED, SHUFFLED, LAYOUTS };

/* A tensor of zeros; layouts: row-major, column-major, every second element, some permutation. */
MAYBE tt tt_layout(td_dtype dtype, int nd, const int64_t *shape, int layout)
{
    tt t = {0};
    int order[TD_MAX_DIMS];
    t.d.dtype = (uint8_t)dtype;
    t.d.ndim = (uint8_t)nd;
    for (int i = 0; i < nd; i++) order[i] = layout == TURNED ? i : nd - 1 - i;
    if (layout == SHUFFLED)
        for (int i = nd - 1; i > 0; i--) {
            int j = (int)rnd_below(i + 1), keep = order[i];
            order[i] = order[j];
            order[j] = keep;
        }
    int64_t width = layout == STEPPED ? 2 : 1;
    for (int i = 0; i < nd; i++) {
        t.d.shape[order[i]] = shape[order[i]];
        t.d.stride[order[i]] = width;
        width *= shape[order[i]] > 0 ? shape[order[i]] : 1;
        if (layout == STEPPED && i == 0) width += 3;
    }
    t.bytes = (size_t)width * td_dtype_size(dtype);
    t.buf = malloc(t.bytes + 2 * GUARD);
    memset(t.buf, 0xA5, t.bytes + 2 * GUARD);
    memset(t.buf + GUARD, 0, t.bytes);
    t.data = t.buf + GUARD;
    return t;
}
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

MAYBE void tt_free(tt *t)
{
    free(t->buf);
    t->buf = NULL;
}
MAYBE bool tt_guarded(const tt *t)
{
    for (int i = 0; i < GUARD; i++)
        if (t->buf[i] != 0xA5 || t->buf[GUARD + t->bytes + (size_t)i] != 0xA5) return false;
    return true;
}
MAYBE int64_t tt_numel(const tt *t)
{
    return td_desc_numel(&t->d);
}
/* Address of element i in row-major order. */
MAYBE void *tt_at(const tt *t, int64_t i)
{
    int64_t at = 0;
    for (int d = t->d.ndim - 1; d >= 0; d--) {
        at += i % t->d.shape[d] * t->d.stride[d];
        i /= t->d.shape[d];
    }
    return (char *)t->data + at * (int64_t)td_dtype_size(t->d.dtype);
}
MAYBE td_scalar tt_scalar_at(const tt *t, int64_t i)
{
    return td_scalar_load(t->d.dtype, tt_at(t, i));
}
MAYBE double tt_get(const tt *t, int64_t i)
{
    td_scalar s = tt_scalar_at(t, i);
    return s.kind == TD_S_INT || s.kind == TD_S_BOOL ? (double)s.i : s.re;
}
MAYBE void tt_set(tt *t, int64_t i, double v)
{
    td_scalar_store(td_float(v), t->d.dtype, tt_at(t, i));
}
/* Numbers that every dtype holds exactly: small integers, and eighths where fractions exist. */
MAYBE void tt_random(tt *t)
{
    for (int64_t i = 0; i < tt_numel(t); i++) {
        double v = (double)(rnd_below(33) - 16), w = (double)(rnd_below(33) - 16);
        if (td_dtype_is_inexact(t->d.dtype)) v /= 8, w /= 8;
        if (t->d.dtype == TD_UINT8) v = fabs(v);
        if (t->d.dtype == TD_BOOL) v = v > 0;
        td_scalar_store(td_dtype_is_complex(t->d.dtype) ? td_complex(v, w) : td_float(v), t->d.dtype, tt_at(t, i));
    }
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

typedef struct trun {
    td_kcall *k;
    int phase;
    int64_t *order;
    _Atomic int64_t next;
    _Atomic int overrun;
} trun;

static void *run_phase(void *arg)
{
    trun *r = arg;
    size_t bytes = r->k->scratch_bytes;
    unsigned char *scratch = aligned_alloc(64, (bytes + GUARD) / 64 * 64 + 128);
    td_cpu_thread_init();
    memset(scratch, 0xA5, bytes + GUARD);
    for (;;) {
        int64_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->k->phase[r->phase].chunks) break;
        r->k->phase[r->phase].fn(r->k, r->order[i], scratch);
    }
    for (size_t i = 0; i < GUARD; i++)
        if (scratch[bytes + i] != 0xA5) atomic_store(&r->overrun, 1);
    free(scratch);
    return NULL;
}

static int64_t *chunk_order(int64_t n, bool shuffle)
{
    int64_t *order = malloc(sizeof(int64_t) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; shuffle && i > 0; i--) {
        int64_t j = rnd_below(i + 1), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    return order;
}

enum { IN_ORDER, SHUFFLE, TWO_THREADS };

static int failed_phase; /* of the last call: the first phase that failed, or -1 */

static void run_phases(td_kcall *k, int how)
{
    failed_phase = -1;
    for (int p = 0; p < k->nphases; p++) {
        trun r = {.k = k, .phase = p, .order = chunk_order(k->phase[p].chunks, how != IN_ORDER)};
        pthread_t other;
        if (how == TWO_THREADS) pthread_create(&other, NULL, run_phase, &r);
        run_phase(&r);
        if (how == TWO_THREADS) pthread_join(other, NULL);
        free(r.order);
        CU_ASSERT_EQUAL(atomic_load(&r.overrun), 0);
        if (failed_phase < 0 && atomic_load(&k->failed)) failed_phase = p;
    }
}

/* Plan and run once; the code of the failure, or 0. */
MAYBE int tcall_once(tcall *c, td_plan_fn plan, int how)
{
    td_karg in[MAX_ARGS], out[MAX_ARGS];
    for (int i = 0; i < c->nin; i++) in[i] = c->in[i] ? (td_karg){c->in[i]->data, &c->in[i]->d} : (td_karg){NULL, NULL};
    for (int i = 0; i < c->nout; i++) out[i] = (td_karg){c->out[i]->data, &c->out[i]->d};
    memset(&c->k, 0, sizeof c->k);
    memset(c->k.state, 0xA5, sizeof c->k.state);
    memset(&c->error, 0, sizeof c->error);
    c->k.attrs = &c->attrs;
    c->k.in = in;
    c->k.out = out;
    c->k.nin = (uint16_t)c->nin;
    c->k.nout = (uint16_t)c->nout;
    c->k.compute = c->nin && c->in[0] ? c->in[0]->d.dtype : TD_FLOAT32;
    int code = plan(&c->k, &c->error);
    if (code) return code;
    size_t bytes = c->k.work_bytes;
    unsigned char *work = aligned_alloc(64, (bytes + GUARD) / 64 * 64 + 128);
    memset(work, 0xA5, bytes + GUARD);
    c->k.work = work;
    run_phases(&c->k, how);
    bool intact = true;
    for (size_t i = 0; i < GUARD; i++) intact = intact && work[bytes + i] == 0xA5;
    CU_ASSERT(intact);
    free(work);
    c->k.work = NULL;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) CU_ASSERT(tt_guarded(c->in[i]));
    for (int i = 0; i < c->nout; i++) CU_ASSERT(tt_guarded(c->out[i]));
    if (atomic_load(&c->k.failed)) c->error = c->k.error;
    return atomic_load(&c->k.failed) ? c->k.error.code : 0;
}

typedef struct snapshot {
    unsigned char *in[MAX_ARGS], *out[MAX_ARGS];
} snapshot;

static unsigned char *copy_of(const tt *t)
{
    unsigned char *bytes = t ? malloc(t->bytes + 1) : NULL;
    if (t) memcpy(bytes, t->data, t->bytes);
    return bytes;
}
static void snapshot_take(snapshot *s, const tcall *c)
{
    for (int i = 0; i < c->nin; i++) s->in[i] = copy_of(c->in[i]);
    for (int i = 0; i < c->nout; i++) s->out[i] = copy_of(c->out[i]);
}
static void snapshot_restore(const snapshot *s, tcall *c)
{
    for (int i = 0; i < c->nout; i++) memcpy(c->out[i]->data, s->out[i], c->out[i]->bytes);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i]) memcpy(c->in[i]->data, s->in[i], c->in[i]->bytes);
}
static bool snapshot_same(const snapshot *s, const tcall *c)
{
    bool same = true;
    for (int i = 0; i < c->nin; i++) same = same && (!c->in[i] || !memcmp(s->in[i], c->in[i]->data, c->in[i]->bytes));
    for (int i = 0; i < c->nout; i++) same = same && !memcmp(s->out[i], c->out[i]->data, c->out[i]->bytes);
    return same;
}
static void snapshot_free(snapshot *s, const tcall *c)
{
    for (int i = 0; i < c->nin; i++) free(s->in[i]);
    for (int i = 0; i < c->nout; i++) free(s->out[i]);
}

/* All three ways, from the same bytes; they must agree to the bit. The result of the last is left. */
MAYBE int tcall_run(tcall *c, td_plan_fn plan)
{
    snapshot before, first;
    snapshot_take(&before, c);
    int code = tcall_once(c, plan, IN_ORDER);
    snapshot_take(&first, c);
    for (int how = SHUFFLE; how <= TWO_THREADS; how++) {
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
    for (int how = IN_ORDER; how <= TWO_THREADS; how++) {
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
