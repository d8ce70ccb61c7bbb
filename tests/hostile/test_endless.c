/* Work without an end: every op of the table on tensors that have a zero beside 2^40 dimensions, and on rows of 2^40
 * elements that are all the same four bytes. Neither takes any memory, so no quota stops it.
 *
 * What has a zero must end at once. A long row may take its time, but only its client's: others are served meanwhile,
 * it ends with its client, and the daemon ends when it is told twice. */
#include "tests/hostile/requests.h"
#include "tests/support/daemon.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_SIZE (INT64_C(1) << 40)
#define SHORTER (INT64_C(1) << 34)

/* Drawing calls is most of the work where a sanitizer watches it. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { TRIES = 20000, CALLS = 60, TIMES = 2 };
#else
enum { TRIES = 100000, CALLS = 300, TIMES = 10 };
#endif
enum { MOST_IN = 12, MOST_OUT = 8, MOST_BYTES = 1 << 20 };

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
static const sizes longs[] = {{1, {H}},          {2, {1, H}},       {2, {H, 1}},       {2, {2, H}},
                              {3, {1, 1, H}},    {3, {1, H, 1}},    {3, {H, 1, 1}},    {4, {1, 1, 1, H}},
                              {4, {1, 1, H, 1}}, {4, {H, 1, 1, 1}}, {4, {1, 2, 1, H}}, {2, {H, 2}}};
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
        case TD_A_TEXT: td_attrs_text(a, "ij,jk->ik", 2 + rnd(8)); break;
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

/* Some rows are not so long: what a kernel keeps of them has room. */
static void shorten(sizes *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == HUGE_SIZE) s->at[i] = SHORTER;
}

/* Does inference take it, and are its results small? */
static bool draw(const td_op *op, const sizes *from, size_t n, bool expanded, trial *t)
{
    td_operand in[MOST_IN];
    td_desc out[MOST_OUT];
    sizes base = *one_of(from, n);
    if (expanded && rnd(2)) shorten(&base);
    t->nin = op->nparams + (op->list_param >= 0 ? (int)rnd(3) - 1 : 0);
    if (t->nin > MOST_IN || op->nouts > MOST_OUT) return false;
    for (int i = 0; i < t->nin; i++) {
        sizes room;
        const td_param *p = &op->params[td_op_param_of(op, t->nin, i)];
        t->shape[i].n = -1;
        in[i] = (td_operand){0};
        if ((p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) && rnd(2)) continue;
        t->shape[i] = *some_shape(&base, from, n, &room);
        if (td_desc_contiguous(&t->desc[i], some_dtype(op, p), t->shape[i].n, t->shape[i].at, NULL)) return false;
        if (expanded) memset(t->desc[i].stride, 0, sizeof t->desc[i].stride);
        in[i].desc = &t->desc[i];
    }
    some_attrs(op, &t->attrs, &base);
    td_inference f = {.op = op, .in = in, .nin = t->nin, .attrs = &t->attrs, .out = out, .max_out = MOST_OUT};
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

/* Up to `most` calls of this op that inference takes, different ones each `time`; how many. */
static int calls_of(const td_op *op, const sizes *from, size_t n, bool expanded, unsigned time, int most, td_words *w)
{
    static trial t;
    int made = 0;
    seed = op->id + 1000 * time;
    for (int i = 0; i < TRIES && made < most; i++) {
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
        int n = op ? calls_of(op, empties, sizeof empties / sizeof *empties, false, 0, CALLS, &w) : 0;
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

/* Is nothing run or queued any more? */
static bool quiet(void)
{
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; test_now_ms() < until; test_sleep_ms(2))
        if (raw_status(&other, "tasks_pending") == 0) return true;
    return false;
}

/* Some calls of an op, a worker for each, and nobody who waits for them. How many; -1: they never end. */
static int leave_longs(const td_op *op, unsigned time)
{
    td_words w = {0};
    raw r;
    int n = calls_of(op, longs, sizeof longs / sizeof *longs, true, time, 2, &w);
    if (!n) return 0;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, own.socket));
    CU_ASSERT_TRUE(send_all(&r, &w));
    test_sleep_ms(2); /* most are begun */
    raw_close(&r);
    bool held_up = !answers(&other);
    if (!held_up && quiet()) return n;
    again(op->name, held_up ? "another client" : "a worker");
    return -1;
}

static void walk_longs(void)
{
    int ops = 0, all = 0;
    begin();
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        bool computes = op && !(op->flags & TD_OF_VIEW);
        int n = 1, before = all;
        for (unsigned time = 0; computes && n > 0 && time < TIMES; time++)
            if ((n = leave_longs(op, time)) > 0) all += n;
        ops += all > before;
    }
    end();
    printf("%d calls of %d ops, ", all, ops);
    CU_ASSERT_TRUE(ops > 100);
}

/* topk of one long row: nothing of it is ever written before the end. */
static void longest(td_words *w, uint32_t x, uint32_t id)
{
    int64_t size = HUGE_SIZE, stride = 0;
    td_attrs view, a;
    td_attrs_init(&view);
    td_attrs_ints(&view, 1, &size);
    td_attrs_ints(&view, 1, &stride);
    td_attrs_int(&view, 0);
    td_attrs_init(&a);
    td_attrs_int(&a, 1);
    td_attrs_int(&a, 0);
    td_attrs_bool(&a, true), td_attrs_bool(&a, true);
    op_with(w, TD_OP_AS_STRIDED, 0, &view, 1, &x, 1, &id);
    op_with(w, TD_OP_TOPK, 0, &a, 1, &id, 2, (uint32_t[]){id + 1, id + 2});
}

static void both_workers(raw *r)
{
    td_words w = {0};
    CU_ASSERT_TRUE_FATAL(raw_open(r, own.socket));
    make_zeros(&w);
    longest(&w, 1, 10);
    longest(&w, 1, 20);
    CU_ASSERT_TRUE(send_all(r, &w));
    for (int i = 0; i < TEST_LONG_MS && raw_status(&other, "tasks_pending") < 2; i++) test_sleep_ms(1);
}

static void give_way(void)
{
    raw r;
    begin();
    both_workers(&r);
    td_words w = {0};
    full(&w, 1, 4 << 20, 0); /* too much for the loop */
    op2(&w, TD_OP_MUL, 1, 1, 2);
    CU_ASSERT_EQUAL(code_of(&other, &w), TD_OK);
    CU_ASSERT_EQUAL(raw_status(&other, "tasks_pending"), 2);
    raw_close(&r);
    CU_ASSERT_TRUE(quiet());
    end();
}

static void told_twice(void)
{
    raw r;
    begin();
    both_workers(&r);
    kill(own.pid, SIGTERM);
    CU_ASSERT_TRUE(test_daemon_told(&own));
    CU_ASSERT_EQUAL(test_daemon_stop(&own), 0);
    raw_close(&r);
    raw_close(&other);
}

/* A chain of sums, each of a row that repeats the last one's result, and a read of the last. The first never ends;
 * those behind it take milliseconds each, and little work memory, which is charged for all that are pending. */
static void left_in_the_queue(void)
{
    enum { LINKS = 8000 };
    raw r;
    td_words w = {0};
    td_attrs view[2];
    int64_t size[2] = {HUGE_SIZE, 1 << 24}, stride = 0;
    uint32_t serial[2] = {9, 0};
    begin();
    CU_ASSERT_TRUE_FATAL(raw_open(&r, own.socket));
    make_zeros(&w);
    for (int i = 0; i < 2; i++) {
        td_attrs_init(&view[i]);
        td_attrs_ints(&view[i], 1, &size[i]);
        td_attrs_ints(&view[i], 1, &stride);
        td_attrs_int(&view[i], 0);
    }
    td_attrs all;
    td_attrs_init(&all);
    td_attrs_none(&all), td_attrs_bool(&all, false), td_attrs_none(&all);
    for (uint32_t i = 0; i < LINKS; i++) {
        uint32_t from = i ? 10 + i % 2 : 1, to = 11 - i % 2;
        op_with(&w, TD_OP_AS_STRIDED, 0, &view[i > 0], 1, &from, 1, (uint32_t[]){5});
        if (i) release(&w, from);
        op_with(&w, TD_OP_SUM, 0, &all, 1, (uint32_t[]){5}, 1, &to);
        release(&w, 5);
    }
    control(&w, TD_REC_READ, 0, 1, (uint32_t[]){10}, 0, NULL, 2, serial);
    CU_ASSERT_TRUE(send_all(&r, &w));
    for (int i = 0; i < TEST_LONG_MS && raw_status(&other, "tasks_pending") < LINKS; i++) test_sleep_ms(1);
    CU_ASSERT_TRUE(raw_status(&other, "tasks_pending") >= LINKS);
    raw_close(&r);
    CU_ASSERT_TRUE(quiet());
    end();
}

/* What was published is computed, although its session has ended; and let go of when the name is. */
static void wanted_by_others(void)
{
    raw r;
    td_words w = {0};
    begin();
    CU_ASSERT_TRUE_FATAL(raw_open(&r, own.socket));
    full(&w, 1, 4 << 20, 0);
    for (int i = 0; i < 20; i++) op_with(&w, TD_OP_EXP, TD_RF_OUT, NULL, 1, (uint32_t[]){1}, 1, (uint32_t[]){1});
    CU_ASSERT_TRUE(send_all(&r, &w));
    CU_ASSERT_EQUAL(publish(&r, "kept", 1), TD_OK);
    raw_close(&r);
    CU_ASSERT_TRUE(quiet());
    CU_ASSERT_EQUAL(open_name(&other, "kept", 50), TD_OK);
    op2(&w, TD_OP_ADD, 50, 50, 51);
    CU_ASSERT_EQUAL(code_of(&other, &w), TD_OK);

    CU_ASSERT_TRUE_FATAL(raw_open(&r, own.socket));
    make_zeros(&w);
    longest(&w, 1, 10);
    CU_ASSERT_TRUE(send_all(&r, &w));
    CU_ASSERT_EQUAL(publish(&r, "endless", 11), TD_OK);
    raw_close(&r);
    test_sleep_ms(50);
    CU_ASSERT_TRUE(raw_status(&other, "tasks_pending") > 0);
    CU_ASSERT_EQUAL(drop_name(&other, "endless"), TD_OK);
    CU_ASSERT_TRUE(quiet());
    end();
}

/* Many sessions leave what is wanted by a name only; one after the other nobody wants it any more. */
static void left_by_many(void)
{
    enum { MANY = 24 };
    raw r;
    char name[32];
    begin();
    for (int i = 0; i < MANY; i++) {
        td_words w = {0};
        CU_ASSERT_TRUE_FATAL(raw_open(&r, own.socket));
        make_zeros(&w);
        longest(&w, 1, 10);
        for (int k = 0; k < 300; k++) op2(&w, TD_OP_ADD, 11, 11, 100 + (uint32_t)k); /* one look does not see all */
        CU_ASSERT_TRUE(send_all(&r, &w));
        snprintf(name, sizeof name, "endless %d", i);
        CU_ASSERT_EQUAL(publish(&r, name, 11), TD_OK);
        raw_close(&r);
    }
    test_sleep_ms(150); /* they have been looked at */
    CU_ASSERT_TRUE(raw_status(&other, "tasks_pending") >= MANY);
    for (int i = 0; i < MANY; i++) { /* in the middle, at both ends, ... */
        snprintf(name, sizeof name, "endless %d", (i * 7 + 11) % MANY);
        CU_ASSERT_EQUAL(drop_name(&other, name), TD_OK);
        if (i % 6 == 0) test_sleep_ms(60);
    }
    CU_ASSERT_TRUE(quiet());
    end();
}

static const td_test tests[] = {
    {"every op with a zero beside huge dimensions", walk_empties},
    {"endless rows of every op end with their client", walk_longs},
    {"an endless row gives way", give_way},
    {"an endless row and two signals", told_twice},
    {"a chain of endless rows", left_in_the_queue},
    {"what others want is computed", wanted_by_others},
    {"what many left", left_by_many},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("endless", NULL, NULL, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
