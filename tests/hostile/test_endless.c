/* Work without an end: every op of the table on tensors that have a zero beside 2^40 dimensions. They take no memory,
 * so no quota stops them. They must end at once. */
#include "tests/hostile/requests.h"
#include "tests/support/daemon.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_SIZE (INT64_C(1) << 40)

enum { TRIES = 100000, CALLS = 300, MOST_IN = 12, MOST_OUT = 8, MOST_BYTES = 1 << 20 };

static test_daemon own;
static raw other; /* who must not be held up */

static unsigned seed;
static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

typedef struct sizes {
    int n;
    int64_t at[5];
} sizes;

#define H HUGE_SIZE
static const sizes empties[] = {{1, {0}},          {2, {H, 0}},       {2, {0, H}},          {3, {H, 1, 0}},
                                {3, {1, 0, H}},    {3, {0, H, 2}},    {3, {1, H, 0}},       {4, {H, 2, 1, 0}},
                                {4, {H, 1, 0, 3}}, {4, {1, 2, H, 0}}, {4, {1, 2, 0, H}},    {4, {2, H, 0, 1}},
                                {4, {0, 1, 2, H}}, {4, {0, H, 1, 1}}, {5, {2, 1, 0, H, 1}}, {2, {2, 0}}};
static const sizes usual[] = {{0, {0}},    {1, {1}},          {1, {2}},          {1, {3}},
                              {2, {1, 1}}, {2, {2, 3}},       {2, {3, 2}},       {3, {1, 2, 3}},
                              {1, {0}},    {4, {1, 1, 1, 1}}, {4, {2, 1, 1, 1}}, {4, {1, 2, 2, 2}}};
#undef H

/* One call: what it is given, all of it made by hand. */
typedef struct trial {
    int nin, nout;
    sizes shape[MOST_IN];
    td_desc desc[MOST_IN];
    td_attrs attrs;
} trial;

static const sizes *one_of(const sizes *from, size_t n)
{
    return &from[rnd((unsigned)n)];
}

static void some_attrs(const td_op *op, td_attrs *a, const sizes *base)
{
    td_attrs_init(a);
    for (int k = 0; k < op->nattrs; k++) {
        const td_attr_def *def = &op->attrs[k];
        int64_t small[4];
        int n = 1 + (int)rnd(4);
        for (int i = 0; i < 4; i++) small[i] = (int64_t)rnd(3);
        if (def->optional && rnd(2)) {
            td_attrs_none(a);
            continue;
        }
        switch (def->kind) {
        case TD_A_INT: td_attrs_int(a, (int64_t)rnd(9) - 1); break;
        case TD_A_FLOAT: td_attrs_float(a, 0.5); break;
        case TD_A_BOOL: td_attrs_bool(a, rnd(2)); break;
        case TD_A_SCALAR: td_attrs_scalar(a, td_float(1)); break;
        case TD_A_DTYPE: td_attrs_dtype(a, rnd(3) ? TD_FLOAT32 : TD_INT64); break;
        case TD_A_INTS:
            if (rnd(2)) td_attrs_ints(a, n, small);
            else td_attrs_ints(a, base->n, base->at);
            break;
        default: td_attrs_none(a);
        }
    }
}

/* Inputs like `base`, or one dimension of it, or whatever. */
static const sizes *some_shape(const sizes *base, const sizes *from, size_t n, sizes *room)
{
    unsigned what = rnd(10);
    if (what < 6) return base;
    if (what < 8 && base->n) {
        *room = (sizes){1, {base->at[rnd((unsigned)base->n)]}};
        return room;
    }
    return what < 9 ? one_of(usual, sizeof usual / sizeof *usual) : one_of(from, n);
}

static td_dtype some_dtype(const td_op *op, const td_param *p)
{
    if (p->flags & TD_PF_CHECKED) return TD_INT64;
    if (!(op->dtypes >> TD_FLOAT32 & 1)) return TD_BOOL;
    return rnd(12) ? TD_FLOAT32 : rnd(2) ? TD_INT64 : TD_BOOL;
}

/* Does inference take it, and are its results small? */
static bool draw(const td_op *op, const sizes *from, size_t n, bool expanded, trial *t)
{
    td_operand in[MOST_IN];
    td_desc out[MOST_OUT];
    const sizes *base = one_of(from, n);
    t->nin = op->nparams + (op->list_param >= 0 ? (int)rnd(3) - 1 : 0);
    if (t->nin > MOST_IN || op->nouts > MOST_OUT) return false;
    for (int i = 0; i < t->nin; i++) {
        sizes room;
        const td_param *p = &op->params[td_op_param_of(op, t->nin, i)];
        t->shape[i].n = -1;
        in[i] = (td_operand){0};
        if ((p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) && rnd(2)) continue;
        t->shape[i] = *some_shape(base, from, n, &room);
        if (td_desc_contiguous(&t->desc[i], some_dtype(op, p), t->shape[i].n, t->shape[i].at, NULL)) return false;
        if (expanded) memset(t->desc[i].stride, 0, sizeof t->desc[i].stride);
        in[i].desc = &t->desc[i];
    }
    some_attrs(op, &t->attrs, base);
    td_infer f = {.op = op, .in = in, .nin = t->nin, .attrs = &t->attrs, .out = out, .max_out = MOST_OUT};
    if (td_op_infer(&f, NULL)) return false;
    uint64_t bytes = 0;
    for (int o = 0; o < f.nout; o++) bytes += td_desc_nbytes(&out[o]);
    t->nout = f.nout;
    return bytes <= MOST_BYTES;
}

/* Its inputs as views of a few zeros, under ids from `id` on; then the call. */
static void send_trial(td_words *w, const td_op *op, const trial *t, uint32_t id)
{
    uint32_t in[MOST_IN], out[MOST_OUT], zeros[TD_DTYPE_COUNT] = {[TD_FLOAT32] = 1, [TD_INT64] = 2, [TD_BOOL] = 3};
    for (int i = 0; i < t->nin; i++) {
        in[i] = 0;
        if (t->shape[i].n < 0) continue;
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_ints(&a, t->desc[i].ndim, t->desc[i].shape);
        td_attrs_ints(&a, t->desc[i].ndim, t->desc[i].stride);
        td_attrs_int(&a, 0);
        in[i] = id + (uint32_t)i;
        op_with(w, TD_OP_AS_STRIDED, 0, &a, 1, &zeros[t->desc[i].dtype], 1, &in[i]);
    }
    for (int o = 0; o < t->nout; o++) out[o] = id + MOST_IN + (uint32_t)o;
    op_with(w, op->id, 0, &t->attrs, t->nin, in, t->nout, out);
    for (int i = 0; i < t->nin; i++)
        if (in[i]) release(w, in[i]);
    for (int o = 0; o < t->nout; o++) release(w, out[o]);
}

/* A few elements of each dtype that the calls see many times. */
static void make_zeros(td_words *w)
{
    static const td_dtype dtypes[] = {TD_FLOAT32, TD_INT64, TD_BOOL};
    int64_t n = 64;
    for (uint32_t i = 0; i < 3; i++) {
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_ints(&a, 1, &n);
        td_attrs_scalar(&a, td_int(0));
        td_attrs_dtype(&a, dtypes[i]);
        td_words_op(w, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, (uint32_t[]){1 + i}, NULL, &a, NULL);
    }
}

/* Calls of this op that inference takes; how many. */
static int calls_of(const td_op *op, const sizes *from, size_t n, bool expanded, td_words *w)
{
    static trial t;
    int made = 0;
    seed = op->id;
    for (int i = 0; i < TRIES && made < CALLS; i++) {
        if (!draw(op, from, n, expanded, &t)) continue;
        if (!made) make_zeros(w);
        send_trial(w, op, &t, 10);
        made++;
    }
    return made;
}

static void begin(void)
{
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&own, (const char *[]){"--memory", "512M", "--workers", "2", NULL}));
    CU_ASSERT_TRUE_FATAL(raw_open(&other, own.socket));
}

static void end(void)
{
    raw_close(&other);
    CU_ASSERT_EQUAL(test_daemon_stop(&own), 0);
}

/* It hangs: say of what, and go on with a new one, so that all are named. */
static void again(const char *op, const char *who)
{
    fprintf(stderr, "%s: %s waits for ever\n", op, who);
    CU_FAIL("an op never ends");
    kill(own.pid, SIGKILL);
    raw_close(&other);
    test_daemon_stop(&own);
    begin();
}

static bool answers(raw *r)
{
    uint32_t code;
    raw_sync(r, &code);
    return code != TD_E_LOST; /* that some calls are refused is no wonder */
}

static void walk_empties(void)
{
    int ops = 0, all = 0;
    begin();
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        td_words w = {0};
        raw r;
        int n = op ? calls_of(op, empties, sizeof empties / sizeof *empties, false, &w) : 0;
        if (!n) continue;
        ops++, all += n;
        CU_ASSERT_TRUE_FATAL(raw_open(&r, own.socket));
        CU_ASSERT_TRUE(send_all(&r, &w));
        if (!answers(&other)) again(op->name, "another client");
        else if (!answers(&r)) again(op->name, "its client");
        raw_close(&r);
    }
    end();
    printf("%d calls of %d ops, ", all, ops);
    CU_ASSERT_TRUE(ops > 100);
}

static const td_test tests[] = {
    {"every op with a zero beside huge dimensions", walk_empties},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("endless", NULL, NULL, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
