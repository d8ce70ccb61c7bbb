/* Scheduler and ops together: real calls on real tensors, whose owner lets go of everything as soon as it has issued.
 * What is pending must live, what has ended must go, and values must be those of running one op after the other.
 * Kernels are the test's own; their cost is drawn by lot, so that some run here and some in the pool. */
#include "daemon/sched/sched.h"
#include "daemon/tensor/device.h"
#include "proto/ops/opid.h"
#include "tests/unit/cunit_main.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static td_budget budget;
static td_issuer who;
static td_sched *s;
static uint64_t lot = 1;

static double any_cost(void)
{
    lot = lot * 6364136223846793005u + 1442695040888963407u;
    return lot >> 62 ? 20000 : 10;
}

enum { QUICK, SLOW, GATED };
static bool gated, always_big; /* the next calls: they wait for the gate; none of them runs here */
static _Atomic int gate;

/* out[i] = x[i or 0] + y[i or 0], float32, 1-d with any stride; "index error" where y is negative. */
static void add_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)scratch;
    const td_desc *x = k->in[0].desc, *y = k->in[1].desc, *o = k->out[0].desc;
    int64_t n = o->shape[0], half = (n + 1) / 2, to = chunk ? n : half;
    while (k->state[0] == GATED && !atomic_load(&gate)) usleep(50);
    if (k->state[0] == SLOW) usleep(10);
    for (int64_t i = chunk ? half : 0; i < to; i++) {
        float b = ((const float *)k->in[1].data)[y->ndim && y->shape[0] > 1 ? i * y->stride[0] : 0];
        if (b < 0) td_kernel_fail(k, TD_E_INDEX, "index %d is out of bounds", (int)b);
        else ((float *)k->out[0].data)[i * o->stride[0]] = ((const float *)k->in[0].data)[i * x->stride[0]] + b;
    }
}

static int plan_add(td_kcall *k, td_error *e)
{
    (void)e;
    k->nphases = 1;
    k->state[0] = gated ? GATED : lot >> 32 & 15 ? QUICK : SLOW;
    k->phase[0].fn = add_chunk;
    k->phase[0].chunks = 2;
    k->cost_ns = always_big ? 20000 : any_cost();
    return 0;
}

static void full_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    for (int64_t i = 0; i < k->out[0].desc->shape[0]; i++)
        ((float *)k->out[0].data)[i * k->out[0].desc->stride[0]] = (float)k->attrs->at[1].s.re;
}

static int plan_full(td_kcall *k, td_error *e)
{
    (void)e;
    k->nphases = 1;
    k->phase[0].fn = full_chunk;
    k->phase[0].chunks = 1;
    k->cost_ns = any_cost();
    return 0;
}

const td_plan_fn td_cpu_plans[TD_OP_COUNT] = {[TD_OP_ADD] = plan_add, [TD_OP_FULL] = plan_full};

void td_cpu_thread_init(void)
{
}

void td_kernel_fail(td_kcall *k, td_code code, const char *format, ...)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&k->failed, &none, -1)) return;
    va_list ap;
    va_start(ap, format);
    k->error.code = code;
    vsnprintf(k->error.message, sizeof k->error.message, format, ap);
    va_end(ap);
    atomic_store(&k->failed, code);
}

static void submit(td_issuer *w, td_call *c)
{
    td_sched_submit(w->scheduler, c);
}

static void start(int workers)
{
    td_sched_options o = {.workers = workers, .inline_ns = 1000};
    CU_ASSERT_EQUAL_FATAL(td_sched_new(&s, &o, NULL), 0);
    td_budget_init(&budget, UINT64_C(64) << 20, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &budget, .plans = td_cpu_plans});
    who = (td_issuer){.session = 5, .pid = 77, .scheduler = s, .submit = submit, .where = "train.c:1"};
    CU_ASSERT_EQUAL_FATAL(td_heap_new(&who.heap, &budget, TD_SEGMENT_SESSION, 1, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(td_flow_new((td_flow **)&who.flow, s, NULL), 0);
    who.account = td_account_new(NULL);
}

static void finish(void)
{
    td_flow_free(who.flow);
    td_sched_free(s);
    td_account_unref(who.account);
    td_heap_free(who.heap);
    td_budget_deinit(&budget);
    td_live l = td_live_counts();
    CU_ASSERT_EQUAL(l.tensors, 0);
    CU_ASSERT_EQUAL(l.storages, 0);
    CU_ASSERT_EQUAL(l.causes, 0);
    CU_ASSERT_EQUAL(l.bytes, 0);
}

#define N 1000

static td_tensor *full(float v)
{
    td_attrs a;
    td_tensor *out = NULL;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, (int64_t[]){N});
    td_attrs_scalar(&a, td_float(v));
    td_attrs_dtype(&a, TD_FLOAT32);
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_FULL, 0, NULL, &a, 0, 1, &out, NULL), 0);
    return out;
}

static td_tensor *add(td_tensor *x, td_tensor *y, td_tensor *into)
{
    td_input in[] = {td_in(x), td_in(y)};
    td_tensor *out = into;
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_ADD, 2, in, NULL, into ? TD_CF_OUT : 0, 1, &out, NULL), 0);
    return out;
}

/* Elements first, first + step, ... */
static td_tensor *slice(td_tensor *of, int64_t first, int64_t step, int64_t count)
{
    td_attrs a;
    td_tensor *out = NULL;
    td_input in = td_in(of);
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, (int64_t[]){count});
    td_attrs_ints(&a, 1, (int64_t[]){step});
    td_attrs_int(&a, first);
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_AS_STRIDED, 1, &in, &a, 0, 1, &out, NULL), 0);
    return out;
}

static int differ(const td_tensor *t, float even, float odd)
{
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += ((const float *)td_tensor_data(t))[i] != (i % 2 ? odd : even);
    return wrong;
}

static void nobody_holds_on(void)
{
    for (int workers = 0; workers <= 2; workers++) {
        start(workers);
        td_tensor *x = full(0), *one = full(1);
        for (int i = 0; i < 2000; i++) { /* x = x + 1: each result is dropped as soon as the next is issued */
            td_tensor *next = add(x, one, NULL);
            td_tensor_unref(x);
            x = next;
            if (i % 300 == 0) td_sched_collect(s, 50);
        }
        td_sched_drain(s);
        CU_ASSERT_EQUAL(differ(x, 2000, 2000), 0);
        CU_ASSERT_EQUAL(td_live_counts().storages, 2);
        td_tensor_unref(x);
        td_tensor_unref(one);
        finish();
    }
}

static void in_place_and_views(void)
{
    for (int workers = 0; workers <= 2; workers++) {
        start(workers);
        td_tensor *x = full(0), *one = full(1);
        for (int i = 0; i < 1000; i++) {
            td_tensor *odd = slice(x, 1, 2, N / 2), *part = slice(one, i % 2, 2, N / 2);
            add(odd, part, odd); /* x[1::2] += 1 */
            td_tensor_unref(odd);
            td_tensor_unref(part);
            if (i % 2) add(x, one, x);
        }
        td_sched_drain(s);
        CU_ASSERT_EQUAL(differ(x, 500, 1500), 0);
        td_tensor_unref(x);
        td_tensor_unref(one);
        finish();
    }
}

static void failure_names_the_call(void)
{
    for (int workers = 0; workers <= 2; workers++) {
        start(workers);
        td_tensor *one = full(1), *bad = full(-7);
        strcpy(who.where, "train.c:41");
        td_tensor *lost = add(one, bad, NULL);
        strcpy(who.where, "train.c:99");
        td_tensor *after = add(lost, one, NULL), *fine = add(one, one, NULL);
        td_sched_drain(s);
        CU_ASSERT_PTR_NOT_NULL_FATAL(after->storage->poison);
        td_error *e = &after->storage->poison->error;
        CU_ASSERT_EQUAL(e->code, TD_E_INDEX);
        CU_ASSERT_STRING_EQUAL(e->op, "add");
        CU_ASSERT_STRING_EQUAL(e->where, "train.c:41");
        CU_ASSERT_STRING_EQUAL(e->message, "index -7 is out of bounds");
        CU_ASSERT_PTR_NULL(fine->storage->poison);
        CU_ASSERT_EQUAL(differ(fine, 2, 2), 0);
        td_tensor *all[] = {one, bad, lost, after, fine};
        for (int i = 0; i < 5; i++) td_tensor_unref(all[i]);
        finish();
    }
}

static void *open_gate_later(void *arg)
{
    usleep(20000);
    atomic_store(&gate, 1);
    return arg;
}

static void freed_with_work_pending(void)
{
    start(1);
    td_tensor *x = full(0), *one = full(1);
    for (int i = 0; i < 300; i++) add(x, one, x);
    td_tensor_unref(x);
    td_tensor_unref(one);
    finish();
}

/* More readers than a storage's books have places, so one task stands for the first eight. The ninth ends before them,
 * and all others have let go by then. */
static void the_last_reader_ends_first(void)
{
    for (int stop = 0; stop <= 1; stop++) {
        start(3); /* two are at the chunks of the first */
        atomic_store(&gate, 0);
        td_tensor *x = full(1), *y[9];
        td_sched_drain(s);
        always_big = gated = true;
        y[0] = add(x, x, NULL);
        for (int i = 1; i < 9; i++) {
            gated = stop; /* or, to be cancelled, all of them wait */
            y[i] = add(x, x, NULL);
        }
        always_big = gated = false;
        td_tensor_unref(x);
        if (!stop) {
            for (int i = 1; i < 9; i++)
                while (td_sched_pending(y[i]->storage, 0, N * 4, false)) td_sched_collect(s, 100);
            CU_ASSERT_TRUE(td_sched_pending(y[0]->storage, 0, N * 4, false));
        }
        CU_ASSERT_EQUAL(td_live_counts().storages, 10);
        if (stop) {
            pthread_t opener;
            CU_ASSERT_EQUAL_FATAL(pthread_create(&opener, NULL, open_gate_later, NULL), 0);
            td_sched_stop(s); /* waits for those that run */
            pthread_join(opener, NULL);
            CU_ASSERT_EQUAL(y[8]->storage->poison->error.code, TD_E_CANCELLED);
        } else {
            atomic_store(&gate, 1);
            td_sched_drain(s);
            CU_ASSERT_EQUAL(differ(y[0], 2, 2), 0);
        }
        CU_ASSERT_EQUAL(td_live_counts().storages, 9);
        for (int i = 0; i < 9; i++) td_tensor_unref(y[i]);
        finish();
    }
}

TD_CUNIT_MAIN("sched_ops", {"nobody holds on", nobody_holds_on}, {"in place and views", in_place_and_views},
              {"failure names the call", failure_names_the_call}, {"freed with work pending", freed_with_work_pending},
              {"the last reader ends first", the_last_reader_ends_first})
