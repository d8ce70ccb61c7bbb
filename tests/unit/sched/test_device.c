/* Devices behind ops and scheduler: the worked examples of the op table, random programs, failures and ends, on the CPU
 * and on a device that runs everything later, whose memory nobody but its kernels may touch. Nothing is waited for but
 * at the end of each example: what goes there, what is worked out and what comes back follow each other by their order
 * alone. */
#include "conformance.h"
#include "cunit_main.h"
#include "daemon/tensor/device.h"
#include "proto/ops/opid.h"
#include "tests/support/fake_device.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 16, FLOWS = 4 };

static td_budget budget;
static td_issuer who[FLOWS];
static td_sched *s;
static td_executor *x;
static uint64_t lot = 1;

static unsigned draw(unsigned n)
{
    lot = lot * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(lot >> 33) % n;
}

static void submit(td_issuer *w, td_call *c)
{
    td_sched_submit(w->scheduler, c);
}

static void start(void)
{
    td_device_entry fake;
    CU_ASSERT_EQUAL_FATAL(fake_device_start(&fake, TD_FAKE, NULL), 0);
    td_budget_init(&budget, UINT64_C(256) << 20, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &budget, .plans = td_cpu_plans});
    td_device_add(&fake);
    x = fake.executor;
    td_sched_options o = {.workers = 2, .inline_ns = 1000};
    CU_ASSERT_EQUAL_FATAL(td_sched_new(&s, &o, NULL), 0);
    td_heap *heap = NULL;
    CU_ASSERT_EQUAL_FATAL(td_heap_new(&heap, &budget, TD_SEGMENT_SESSION, 1, NULL), 0);
    for (int i = 0; i < FLOWS; i++) {
        who[i] = (td_issuer){
            .session = 5, .pid = 77, .seed = 1, .threads = 2, .scheduler = s, .submit = submit, .heap = heap};
        CU_ASSERT_EQUAL_FATAL(td_flow_new((td_flow **)&who[i].flow, s, NULL), 0);
        who[i].account = td_account_new(NULL);
    }
}

static void finish(void)
{
    for (int i = 0; i < FLOWS; i++) td_flow_free(who[i].flow);
    td_sched_free(s);
    for (int i = 0; i < FLOWS; i++) td_account_unref(who[i].account);
    td_heap_free(who[0].heap);
    td_devices_end();
    td_budget_deinit(&budget);
    td_live l = td_live_counts();
    CU_ASSERT(!l.tensors && !l.storages && !l.causes && !l.bytes);
}

/* ---- what is run */

static td_error error;
static td_need need; /* of the last op, for a caller that can wait */

static td_tensor *op(td_issuer *w, unsigned id, int nin, const td_input *in, const td_attrs *a, uint32_t flags,
                     td_tensor *into)
{
    td_tensor *out = into;
    error = (td_error){0};
    if (into) flags |= TD_CF_OUT;
    td_need_drop(&need);
    int rc = td_ops_try(w, id, nin, in, a, flags, 1, &out, &need, &error);
    if (rc == TD_WAIT_GROW) rc = td_ops_run(w, id, nin, in, a, flags, 1, &out, &error);
    return rc ? NULL : out;
}

static td_tensor *to(td_issuer *w, td_tensor *t, unsigned device)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, device);
    return op(w, TD_OP_TO_DEVICE, 1, (td_input[]){td_in(t)}, &a, 0, NULL);
}

static td_tensor *empty(td_issuer *w, td_dtype t, int64_t n, unsigned device)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n);
    td_attrs_dtype(&a, t);
    return op(w, TD_OP_EMPTY, 0, NULL, &a, td_call_on(device), NULL);
}

static td_tensor *full(td_issuer *w, int64_t n, double v, unsigned device)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n);
    td_attrs_scalar(&a, td_float(v));
    td_attrs_dtype(&a, TD_FLOAT32);
    return op(w, TD_OP_FULL, 0, NULL, &a, td_call_on(device), NULL);
}

/* Its floats, once all is done. */
static const float *floats(td_issuer *w, td_tensor *t, td_tensor **copy)
{
    *copy = to(w, t, TD_CPU);
    td_sched_drain(s);
    return *copy && !(*copy)->storage->poison ? td_tensor_data(*copy) : NULL;
}

/* ---- the examples of the op table */

typedef enum layout { PACKED, REVERSED, GAPS } layout;

static int64_t place(const td_desc *d, int64_t n)
{
    int64_t at = 0;
    for (int i = d->ndim - 1; i >= 0; i--) {
        at += n % d->shape[i] * d->stride[i];
        n /= d->shape[i];
    }
    return at;
}

/* A view of all of a flat tensor. Takes it over. */
static td_tensor *seen_as(td_issuer *w, td_tensor *flat, const td_desc *d)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, d->ndim, d->shape);
    td_attrs_ints(&a, d->ndim, d->stride);
    td_attrs_int(&a, 0);
    td_tensor *view = op(w, TD_OP_AS_STRIDED, 1, (td_input[]){td_in(flat)}, &a, 0, NULL);
    td_tensor_unref(flat);
    return view;
}

/* The example's operand, written here and taken to the device; what it is seen through is laid out there. */
static td_tensor *given(td_issuer *w, const example_operand *from, layout how, unsigned device)
{
    td_desc d;
    td_dtype t = (td_dtype)from->dtype;
    if (td_desc_contiguous(&d, t, from->ndim, from->shape, &error)) abort();
    int64_t run = 1;
    for (int i = 0; how == REVERSED && i < d.ndim; i++) {
        d.stride[i] = run;
        run *= d.shape[i] > 1 ? d.shape[i] : 1;
    }
    for (int i = 0; how == GAPS && i < d.ndim; i++) d.stride[i] *= 2;
    uint64_t lo, hi;
    td_desc_extent(&d, &lo, &hi);
    td_tensor *here = empty(w, t, (int64_t)(hi / td_dtype_size(t)), TD_CPU);
    memset(here->storage->data, 0, here->storage->nbytes);
    for (int64_t k = 0, n = td_desc_numel(&d); k < n; k++)
        td_scalar_store(from->values[k], t, here->storage->data + (size_t)place(&d, k) * td_dtype_size(t));
    td_tensor *there = device == TD_CPU ? td_tensor_ref(here) : to(w, here, device);
    td_tensor_unref(here);
    return seen_as(w, there, &d);
}

static bool near(td_scalar got, td_scalar want, td_dtype t)
{
    double re = want.kind <= TD_S_INT ? (double)want.i : want.re, im = want.kind == TD_S_COMPLEX ? want.im : 0;
    double tolerance = t == TD_FLOAT16 || t == TD_BFLOAT16 ? 1e-2 : 2e-6;
    if (td_dtype_is_integral(t)) return want.kind <= TD_S_INT && got.i == want.i;
    bool same = isnan(re) ? isnan(got.re) : got.re == re || fabs(got.re - re) <= tolerance * (1 + fabs(re));
    return same && (got.kind != TD_S_COMPLEX || fabs(got.im - im) <= tolerance * (1 + fabs(im)));
}

static bool as_written(const td_tensor *got, const example_operand *want)
{
    const td_desc *d = &got->desc;
    if (d->dtype != want->dtype || d->ndim != want->ndim ||
        memcmp(d->shape, want->shape, want->ndim * sizeof want->shape[0]) != 0)
        return false;
    for (int64_t n = 0; n < td_desc_numel(d); n++) {
        const char *at = (const char *)td_tensor_data(got) + (size_t)place(d, n) * td_dtype_size((td_dtype)d->dtype);
        if (!near(td_scalar_load((td_dtype)d->dtype, at), want->values[n], (td_dtype)d->dtype)) return false;
    }
    return true;
}

static void cut(td_call *c)
{
    if (!c->cause && c->op->flags & TD_OF_DATA_SHAPE) td_ops_cut_to_count(c);
}

/* Issue the example's call; out[] get references. */
static int call(td_issuer *w, const example_row *row, td_tensor **in, int max_out, td_tensor **out, int *nout)
{
    const td_op *row_op = td_op_by_id(row->op);
    td_call *c = td_call_new(row_op, w, row->nin, max_out, &error);
    if (!c) return error.code;
    td_attrs_init(&c->attrs);
    c->attrs.count = row->nattrs, c->attrs.nints = row->nints;
    if (row->nattrs) memcpy(c->attrs.at, row->attrs, row->nattrs * sizeof *row->attrs);
    if (row->nints) memcpy(c->attrs.ints, row->ints, row->nints * sizeof *row->ints);
    bool moves = row->op == TD_OP_TO_DEVICE;
    if (!moves && row_op->flags & TD_OF_CREATION) c->flags |= td_call_on(in ? TD_CPU : TD_FAKE);
    for (int i = 0; i < row->nin; i++)
        c->in[i] = row->in[i].kind == EXAMPLE_NUMBER ? td_in_number(row->in[i].values[0]) : td_in(in[i]);
    c->finished = cut;
    int rc = td_ops_prepare(c, NULL, &error);
    *nout = rc ? 0 : c->nout;
    for (int o = 0; o < *nout; o++) out[o] = c->out[o];
    if (rc || c->flags & TD_CF_VIEW) td_call_free(c);
    else td_sched_submit(s, c);
    return rc;
}

static void check(const example_row *row, layout how, unsigned device)
{
    td_issuer *w = &who[draw(FLOWS)];
    td_tensor *in[MOST] = {0}, *out[MOST] = {0}, *back[MOST] = {0};
    const td_op *row_op = td_op_by_id(row->op);
    int nout = 0;
    error = (td_error){0};
    for (int i = 0; i < row->nin; i++)
        if (row->in[i].kind == EXAMPLE_TENSOR) in[i] = given(w, &row->in[i], how, device);
    int rc = call(w, row, row_op->flags & TD_OF_CREATION && device != TD_CPU ? NULL : in, MOST, out, &nout);
    bool good = !rc && nout == row->nout;
    if (row_op->flags & TD_OF_DATA_SHAPE) td_sched_drain(s); /* its result has no shape before */
    for (int o = 0; o < nout; o++) {
        good &= row->op == TD_OP_TO_DEVICE || out[o]->desc.device == device;
        back[o] = to(w, out[o], TD_CPU);
        td_tensor_unref(out[o]);
    }
    for (int i = 0; i < row->nin; i++) td_tensor_unref(in[i]); /* while it is all still to be run */
    td_sched_drain(s);
    for (int o = 0; o < nout && good; o++)
        good = back[o] && !back[o]->storage->poison &&
               (row->out[o].kind == EXAMPLE_NONE || as_written(back[o], &row->out[o]));
    if (!good)
        printf("\n  %s (layout %d, device %u): %s\n", row->text, how, device, rc ? error.message : "another result");
    CU_ASSERT_TRUE(good);
    for (int o = 0; o < nout; o++) td_tensor_unref(back[o]);
}

static bool has_kernel(const td_op *o)
{
    return o->flags & TD_OF_VIEW || td_cpu_plans[o->id];
}

static void examples_on(unsigned device)
{
    unsigned ran = 0;
    start();
    for (unsigned r = 0; r < example_count; r++) {
        const td_op *o = td_op_by_id(example_rows[r].op);
        if (!has_kernel(o)) continue;
        check(&example_rows[r], PACKED, device);
        ran++;
        if (o->flags & TD_OF_VIEW) continue; /* what a view shows is a matter of its strides */
        check(&example_rows[r], REVERSED, device);
        check(&example_rows[r], GAPS, device);
    }
    CU_ASSERT_TRUE(ran > 165);
    finish();
}

static void examples_on_the_cpu(void)
{
    examples_on(TD_CPU);
}

static void examples_on_another(void)
{
    examples_on(TD_FAKE);
}

/* ---- memory */

/* Who touches it beside its kernels ends. */
static void memory_is_shut(void)
{
    start();
    td_tensor *t = full(&who[0], 10, 1, TD_FAKE);
    td_sched_drain(s);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile char *)td_tensor_data(t));
    }
    int status = 0;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    td_tensor_unref(t);
    finish();
}

/* ---- order */

/* Two devices and several flows work on the same few tensors; the same program is run here, a step after the other. */
static void any_program(void)
{
    enum { TENSORS = 10, STEPS = 400, ROUNDS = 12, N = 300 };
    start();
    for (int round = 0; round < ROUNDS; round++) {
        td_tensor *t[TENSORS];
        float plain[TENSORS];
        for (int i = 0; i < TENSORS; i++) {
            t[i] = full(&who[i % FLOWS], N, i, i % 2 ? TD_FAKE : TD_CPU);
            plain[i] = (float)i;
        }
        for (int step = 0; step < STEPS; step++) {
            td_issuer *w = &who[draw(FLOWS)];
            int a = (int)draw(TENSORS), b = (int)draw(TENSORS);
            td_tensor *y =
                          t[b]->desc.device == t[a]->desc.device ? td_tensor_ref(t[b]) : to(w, t[b], t[a]->desc.device),
                      *z = NULL;
            td_input in[2] = {td_in(t[a]), td_in(y)};
            switch (draw(4)) {
            case 0: /* in place */
                op(w, TD_OP_SUB, 2, in, NULL, 0, t[a]);
                plain[a] -= plain[b];
                break;
            case 1: /* a new one in its place, the old one forgotten while it is still read */
                z = op(w, TD_OP_SUB, 2, in, NULL, 0, NULL);
                plain[a] -= plain[b];
                break;
            case 2: /* changes sides */ z = to(w, t[a], t[a]->desc.device ? TD_CPU : TD_FAKE); break;
            default: /* a number goes along */
                op(w, TD_OP_ADD, 2, (td_input[]){td_in(t[a]), td_in_number(td_int(step % 7))}, NULL, 0, t[a]);
                plain[a] += (float)(step % 7);
            }
            plain[a] = fmodf(plain[a], 4096);
            op(w, TD_OP_FMOD, 2, (td_input[]){td_in(z ? z : t[a]), td_in_number(td_int(4096))}, NULL, 0, z ? z : t[a]);
            if (z) td_tensor_unref(t[a]), t[a] = z;
            td_tensor_unref(y);
            if (draw(16) == 0) td_sched_collect(s, 1 + (int)draw(20));
        }
        for (int i = 0; i < TENSORS; i++) {
            td_tensor *copy;
            const float *v = floats(&who[0], t[i], &copy);
            CU_ASSERT(v && v[0] == plain[i] && v[N - 1] == plain[i]);
            td_tensor_unref(copy);
            td_tensor_unref(t[i]);
        }
    }
    finish();
}

/* In a stream nothing waits for an end: all that depends on each other may go before the first of it has begun. */
static void a_stream_does_not_drain(void)
{
    enum { LENGTH = 50 };
    start();
    fake_executor_gate(x, true);
    td_tensor *t = full(&who[0], 10, 1, TD_FAKE), *next;
    for (int i = 0; i < LENGTH; i++, t = next) {
        next = op(&who[0], TD_OP_ADD, 2, (td_input[]){td_in(t), td_in(t)}, NULL, 0, NULL);
        op(&who[0], TD_OP_MUL, 2, (td_input[]){td_in(next), td_in_number(td_float(0.5))}, NULL, 0, next);
        td_tensor_unref(t);
    }
    CU_ASSERT_EQUAL(fake_executor_issued(x), 1 + 2 * LENGTH);
    CU_ASSERT_EQUAL(fake_executor_free_to_go(x), 1 + 2 * LENGTH);
    /* Another flow's stream waits for this one by an event: nothing comes back here in between. */
    td_tensor *other = op(&who[1], TD_OP_NEG, 1, (td_input[]){td_in(t)}, NULL, 0, NULL), *copy;
    CU_ASSERT_EQUAL(fake_executor_issued(x), 2 + 2 * LENGTH);
    CU_ASSERT_EQUAL(fake_executor_free_to_go(x), 2 + 2 * LENGTH);
    fake_executor_gate(x, false);
    const float *v = floats(&who[1], other, &copy);
    CU_ASSERT(v && v[0] == -1 && v[9] == -1);
    td_tensor_unref(copy);
    td_tensor_unref(other);
    td_tensor_unref(t);
    finish();
}

/* A value goes round the streams, is written in place by one while others still read it, and its memory is used again.
 * Everything may go before the first of it has begun, so order is in events alone. Returns the last value. */
static float around(int rounds)
{
    td_tensor *t = full(&who[0], 500, 1, TD_FAKE), *copy;
    for (int i = 0; i < rounds; i++) {
        td_issuer *here = &who[i % FLOWS], *there = &who[(i + 1) % FLOWS];
        td_tensor *seen = op(there, TD_OP_NEG, 1, (td_input[]){td_in(t)}, NULL, 0, NULL);
        op(here, TD_OP_ADD, 2, (td_input[]){td_in(t), td_in_number(td_int(1))}, NULL, 0, t); /* after it was read */
        op(here, TD_OP_SUB, 2, (td_input[]){td_in(t), td_in(seen)}, NULL, 0, t);             /* t + 1 + t */
        op(there, TD_OP_MUL, 2, (td_input[]){td_in(t), td_in_number(td_float(0.5))}, NULL, 0, t); /* t + 1/2 */
        td_tensor_unref(seen);
    }
    CU_ASSERT_EQUAL(fake_executor_free_to_go(x), fake_executor_issued(x));
    fake_executor_gate(x, false);
    const float *v = floats(&who[0], t, &copy);
    float last = v ? v[499] : 0;
    td_tensor_unref(copy);
    td_tensor_unref(t);
    return last;
}

static void events(void)
{
    start();
    fake_executor_gate(x, true);
    CU_ASSERT_EQUAL(around(200), 101);
    CU_ASSERT_EQUAL(fake_executor_unordered(x), 0);
    finish();
}

/* Without them the device says so, whatever the values are. */
static void lost_events(void)
{
#ifdef __SANITIZE_THREAD__
    td_test_skip("what it does is a race, and the sanitizer says so");
    return;
#endif
    start();
    fake_executor_lose_events(x);
    fake_executor_gate(x, true);
    around(20);
    CU_ASSERT(fake_executor_unordered(x) > 0);
    finish();
}

/* ---- failures and ends */

/* What was issued behind a failure is not run, across streams and devices; the rest is as it was. */
static void failures_travel(void)
{
    start();
    for (int round = 0; round < 20; round++) {
        int64_t three = 3;
        td_tensor *values = full(&who[0], 8, 2, TD_FAKE), *apart = full(&who[0], 8, 5, TD_FAKE), *copy;
        td_tensor *here = empty(&who[0], TD_INT64, three, TD_CPU);
        memcpy(here->storage->data, (int64_t[]){1, 99, 2}, 24);
        td_tensor *at = to(&who[0], here, TD_FAKE);
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_int(&a, 0);
        td_tensor *bad = op(&who[0], TD_OP_INDEX_SELECT, 2, (td_input[]){td_in(values), td_in(at)}, &a, 0, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bad);
        td_tensor *same = op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(bad)}, NULL, 0, NULL);
        td_tensor *far = op(&who[1 + round % 3], TD_OP_NEG, 1, (td_input[]){td_in(same)}, NULL, 0, NULL);
        td_tensor *cpu = to(&who[2], far, TD_CPU);
        op(&who[0], TD_OP_ADD, 2, (td_input[]){td_in(apart), td_in_number(td_int(1))}, NULL, 0, apart);
        td_sched_drain(s);
        td_tensor *lost[] = {bad, same, far, cpu};
        for (int i = 0; i < 4; i++) {
            CU_ASSERT_PTR_NOT_NULL_FATAL(lost[i]->storage->poison);
            CU_ASSERT_STRING_EQUAL(lost[i]->storage->poison->error.op, "index_select");
            td_tensor_unref(lost[i]);
        }
        const float *v = floats(&who[3], apart, &copy);
        CU_ASSERT(v && v[7] == 6);
        td_tensor_unref(copy);
        v = floats(&who[0], values, &copy);
        CU_ASSERT(v && v[0] == 2);
        td_tensor *rest[] = {copy, values, apart, here, at};
        for (int i = 0; i < 5; i++) td_tensor_unref(rest[i]);
    }
    finish();
}

static td_tensor *indices(td_issuer *w, int64_t first)
{
    td_tensor *here = empty(w, TD_INT64, 3, TD_CPU);
    memcpy(here->storage->data, (int64_t[]){first, 1, 2}, 24);
    td_tensor *there = to(w, here, TD_FAKE);
    td_tensor_unref(here);
    return there;
}

static bool lost_by(const td_tensor *t, const char *op_name)
{
    const td_cause *c = t->storage->poison;
    return c && strcmp(c->error.op, op_name) == 0;
}

/* A stream that was begun ahead runs what is behind a failure: what that wrote is lost, also in tensors that were
 * given. A stream that waits for each end leaves these as they were. What others read before is nobody's loss. */
static void given_behind_a_failure(void)
{
    bool ahead = getenv("FAKE_DEVICE_AHEAD");
    start();
    fake_executor_gate(x, true);
    td_tensor *values = full(&who[0], 8, 2, TD_FAKE), *weight = full(&who[0], 3, 5, TD_FAKE), *copy;
    td_tensor *before = op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(weight)}, NULL, 0, NULL);
    td_tensor *at = indices(&who[0], 99);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    td_tensor *bad = op(&who[0], TD_OP_INDEX_SELECT, 2, (td_input[]){td_in(values), td_in(at)}, &a, 0, NULL);
    op(&who[0], TD_OP_ADD, 2, (td_input[]){td_in(weight), td_in(bad)}, NULL, 0, weight);
    td_tensor *whole = full(&who[0], 3, 1, TD_FAKE); /* lost, and then written as a whole */
    op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(bad)}, NULL, 0, whole);
    op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(before)}, NULL, 0, whole);
    fake_executor_gate(x, false);
    td_sched_drain(s);
    CU_ASSERT(lost_by(bad, "index_select"));
    CU_ASSERT(ahead ? lost_by(weight, "index_select") : !weight->storage->poison);
    const float *v = ahead ? NULL : floats(&who[1], weight, &copy);
    CU_ASSERT(ahead || (v && v[0] == 5));
    if (!ahead) td_tensor_unref(copy);
    v = floats(&who[1], whole, &copy);
    CU_ASSERT(v && v[0] == 5 && v[2] == 5);
    td_tensor *rest[] = {values, weight, before, at, bad, whole, copy};
    for (int i = 0; i < 7; i++) td_tensor_unref(rest[i]);
    finish();
}

/* An index that is garbage, as what it was made of was lost, is refused by its kernel: the cause is the loss. */
static void garbage_is_no_cause(void)
{
    start();
    fake_executor_gate(x, true);
    td_tensor *values = full(&who[0], 8, 2, TD_FAKE), *table = full(&who[0], 3, 5, TD_FAKE), *copy;
    td_tensor *source = full(&who[0], 3, 7, TD_FAKE), *at = indices(&who[0], 99);
    td_attrs a, with_alpha;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    td_attrs_init(&with_alpha);
    td_attrs_int(&with_alpha, 0);
    td_tensor *bad = op(&who[0], TD_OP_INDEX_SELECT, 2, (td_input[]){td_in(at), td_in(at)}, &a, 0, NULL);
    td_tensor *far = op(&who[0], TD_OP_ADD, 2, (td_input[]){td_in(bad), td_in_number(td_int(1000))}, NULL, 0, NULL);
    td_tensor *next = op(&who[0], TD_OP_INDEX_SELECT, 2, (td_input[]){td_in(values), td_in(far)}, &a, 0, NULL);
    /* Its kernel looks at the indices before it writes: what it was given is as it was, and its flow is told. */
    td_attrs_scalar(&with_alpha, td_int(1));
    CU_ASSERT_PTR_NOT_NULL(
        op(&who[0], TD_OP_INDEX_ADD, 3, (td_input[]){td_in(table), td_in(far), td_in(source)}, &with_alpha, 0, table));
    fake_executor_gate(x, false);
    td_sched_drain(s);
    CU_ASSERT(lost_by(bad, "index_select") && lost_by(far, "index_select") && lost_by(next, "index_select"));
    CU_ASSERT(bad->storage->poison == next->storage->poison);
    CU_ASSERT_PTR_NULL(table->storage->poison);
    const float *v = floats(&who[1], table, &copy);
    CU_ASSERT(v && v[0] == 5);
    td_tensor *rest[] = {values, table, source, at, bad, far, next, copy};
    for (int i = 0; i < 8; i++) td_tensor_unref(rest[i]);
    finish();
}

/* The device fails: what was to be written is lost, also what was there before, with all that is made of it; the rest
 * is as it was, and the device goes on. */
static void the_device_fails(void)
{
    start();
    td_tensor *t = full(&who[0], 8, 2, TD_FAKE), *apart = full(&who[0], 8, 5, TD_FAKE), *copy;
    td_sched_drain(s);
    fake_executor_break(x);
    op(&who[0], TD_OP_ADD, 2, (td_input[]){td_in(t), td_in_number(td_int(1))}, NULL, 0, t);
    td_tensor *far = op(&who[1], TD_OP_NEG, 1, (td_input[]){td_in(t)}, NULL, 0, NULL), *here = to(&who[2], far, TD_CPU);
    td_sched_drain(s);
    td_tensor *lost[] = {t, far, here};
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(lost[i]->storage->poison);
        CU_ASSERT(lost[i]->storage->poison->error.code == TD_E_DEVICE &&
                  strstr(lost[i]->storage->poison->error.message, "fake:0"));
        CU_ASSERT_STRING_EQUAL(lost[i]->storage->poison->error.op, "add");
    }
    op(&who[0], TD_OP_MUL, 2, (td_input[]){td_in(apart), td_in_number(td_int(2))}, NULL, 0, apart);
    const float *v = floats(&who[1], apart, &copy);
    CU_ASSERT(v && v[7] == 10);
    td_tensor *rest[] = {t, far, here, apart, copy};
    for (int i = 0; i < 5; i++) td_tensor_unref(rest[i]);
    finish();
}

/* What lay in a part of the memory has gone, for good; what lies elsewhere goes on. What was queued there is not run.
 */
static void memory_is_lost(void)
{
    start();
    td_tensor *t = full(&who[0], 8, 2, TD_FAKE), *apart = full(&who[0], 4 << 20, 5, TD_FAKE), *copy;
    td_sched_drain(s);
    CU_ASSERT_FATAL(t->storage->extent.segment != apart->storage->extent.segment);
    fake_executor_gate(x, true);
    td_tensor *queued = op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(t)}, NULL, 0, NULL);
    td_tensor *behind = op(&who[1], TD_OP_NEG, 1, (td_input[]){td_in(queued)}, NULL, 0, NULL);
    td_tensor *fine = op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(apart)}, NULL, 0, NULL);
    td_cause *why = td_cause_new(&(td_error){.code = TD_E_DEVICE, .message = "fake:0 burnt down"});
    td_device_lose(TD_FAKE, t->storage->extent.segment, why);
    CU_ASSERT(t->storage->poison == why && !apart->storage->poison);
    fake_executor_gate(x, false);
    td_sched_drain(s);
    const td_cause *c = behind->storage->poison;
    CU_ASSERT(c && c->error.code == TD_E_DEVICE && strstr(c->error.message, "fake:0"));
    CU_ASSERT_PTR_NOT_NULL(queued->storage->poison);
    float v = 0;
    CU_ASSERT_EQUAL(td_storage_read(t->storage, 0, &v, sizeof v, &error), TD_E_DEVICE);
    CU_ASSERT_STRING_EQUAL(error.message, "fake:0 burnt down");
    CU_ASSERT_EQUAL(td_storage_write(t->storage, 0, &v, sizeof v, &error), TD_E_DEVICE);
    td_tensor *other = full(&who[0], 8, 3, TD_FAKE); /* all of it is written anew: into nothing */
    op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(other)}, NULL, 0, t);
    td_tensor *made = op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(t)}, NULL, 0, NULL);
    td_sched_drain(s);
    CU_ASSERT(t->storage->poison == why && made->storage->poison == why && !other->storage->poison);
    const float *seen = floats(&who[1], fine, &copy);
    CU_ASSERT(seen && seen[0] == -5);
    td_tensor *rest[] = {t, apart, queued, behind, fine, other, made, copy};
    for (int i = 0; i < 8; i++) td_tensor_unref(rest[i]);
    td_cause_unref(why);
    CU_ASSERT_PTR_NULL(td_device_get(TD_FAKE)->storages);
    finish();
}

/* The end comes while streams are full: who waited is told, and nothing is left. */
static void an_end_in_the_middle(void)
{
    for (int round = 0; round < 10; round++) {
        start();
        fake_executor_gate(x, round % 2);
        td_tensor *t = full(&who[0], 5000, 1, TD_FAKE), *u = full(&who[1], 5000, 1, TD_CPU);
        for (int i = 0; i < 60; i++) {
            td_issuer *w = &who[draw(FLOWS)];
            td_tensor *there = to(w, u, TD_FAKE);
            op(w, TD_OP_ADD, 2, (td_input[]){td_in(t), td_in(there)}, NULL, 0, t);
            td_tensor *back = to(w, t, TD_CPU);
            op(w, TD_OP_ADD, 2, (td_input[]){td_in(u), td_in(back)}, NULL, 0, u);
            td_tensor_unref(there);
            td_tensor_unref(back);
        }
        td_tensor_unref(t);
        td_tensor_unref(u);
        CU_ASSERT_TRUE(td_sched_stop(s));
        finish();
    }
}

/* Two of a kind: each has its memory, its streams and its failures; what goes from one to the other waits for an end.
 */
static void two_of_a_kind(void)
{
    start();
    td_device_entry second = {0};
    CU_ASSERT_EQUAL_FATAL(fake_device_start(&second, TD_CUDA + 1, NULL), 0);
    second.executor->s = s;
    td_device_add(&second);
    td_tensor *a = full(&who[0], 500, 2, TD_FAKE), *b = full(&who[0], 500, 3, TD_CUDA + 1), *copy;
    for (int i = 0; i < 20; i++) {
        td_tensor *there = to(&who[i % FLOWS], a, TD_CUDA + 1), *here = to(&who[(i + 1) % FLOWS], b, TD_FAKE);
        op(&who[i % FLOWS], TD_OP_SUB, 2, (td_input[]){td_in(b), td_in(there)}, NULL, 0, b);
        op(&who[i % FLOWS], TD_OP_ADD, 2, (td_input[]){td_in(a), td_in(here)}, NULL, 0, a);
        td_tensor_unref(there);
        td_tensor_unref(here);
    }
    CU_ASSERT(td_device_get(TD_FAKE)->storages && td_device_get(TD_CUDA + 1)->storages);
    CU_ASSERT(td_devices_here() == (1u << TD_CPU | 1u << TD_FAKE | 1u << (TD_CUDA + 1)));
    float here = 2, there = 3;
    for (int i = 0; i < 20; i++) {
        float was = here;
        here += there;
        there -= was;
    }
    const float *v = floats(&who[1], a, &copy);
    CU_ASSERT(v && v[0] == here && v[499] == here);
    td_tensor_unref(copy);
    v = floats(&who[1], b, &copy);
    CU_ASSERT(v && v[0] == there && v[499] == there);
    td_cause *why = td_cause_new(&(td_error){.code = TD_E_DEVICE, .message = "cuda:1 burnt down"});
    td_device_lose(TD_CUDA + 1, NULL, why);
    CU_ASSERT(b->storage->poison == why && !a->storage->poison);
    td_cause_unref(why);
    td_tensor *rest[] = {a, b, copy};
    for (int i = 0; i < 3; i++) td_tensor_unref(rest[i]);
    finish();
}

/* A storage's bytes count where they lie, for who asked for it and for all above; and so do limits. */
static void bytes_count_where_they_lie(void)
{
    start();
    td_account *user = td_account_new(NULL), *own = who[0].account;
    who[0].account = td_account_new(user);
    td_account *session = who[0].account;
    session->session = 7;
    session->limit_away = 4096 + 64;
    session->limit_bytes = 64;
    td_tensor *t = full(&who[0], 1024, 1, TD_FAKE);
    CU_ASSERT(t && session->away[TD_FAKE] == 4096 && user->away[TD_FAKE] == 4096 && !session->bytes);
    CU_ASSERT_EQUAL(td_account_bytes(session, TD_FAKE), 4096);
    const td_budget *there = td_device_get(TD_FAKE)->budget;
    CU_ASSERT(there->used >= 4096 && there->committed >= there->used && there->limit == UINT64_C(1) << 30);
    CU_ASSERT_PTR_NULL(full(&who[0], 17, 1, TD_FAKE));
    CU_ASSERT(error.code == TD_E_QUOTA && strstr(error.message, "4096 bytes on fake:0 of its 4160"));
    CU_ASSERT_EQUAL(need.device, TD_FAKE);
    CU_ASSERT_PTR_NULL(full(&who[0], 17, 1, TD_CPU)); /* which has a limit of its own */
    CU_ASSERT(error.code == TD_E_QUOTA && !strstr(error.message, "fake:0") && need.device == TD_CPU);
    CU_ASSERT(session->away[TD_FAKE] == 4096 && !session->bytes);
    td_tensor *more = full(&who[0], 16, 1, TD_FAKE);
    CU_ASSERT(more && session->away[TD_FAKE] == 4160);
    session->limit_away = 0;
    CU_ASSERT_PTR_NULL(full(&who[0], INT64_C(1) << 29, 1, TD_FAKE));
    CU_ASSERT_EQUAL(error.code, TD_E_MEMORY);
    CU_ASSERT_STRING_EQUAL(error.message, "fake:0 has no 2147.5 MB to give");
    td_sched_drain(s);
    float v[2] = {3, 4};
    CU_ASSERT_EQUAL(td_storage_write(t->storage, 8, v, sizeof v, &error), 0);
    CU_ASSERT_EQUAL(td_storage_read(t->storage, 4, v, sizeof v, &error), 0);
    CU_ASSERT(v[0] == 1 && v[1] == 3);
    td_tensor_unref(t);
    td_tensor_unref(more);
    CU_ASSERT(!session->away[TD_FAKE] && !user->away[TD_FAKE]);
    td_account_unref(session);
    td_account_unref(user);
    who[0].account = own;
    finish();
}

/* Who can wait makes a device's segment aside, for the heap of that device; it grows there as on the CPU. */
static void it_grows_for_who_can_wait(void)
{
    start();
    td_place there = {.heap = who[0].heap, .account = who[0].account, .device = TD_FAKE};
    td_storage *t;
    td_need lacks = {0};
    CU_ASSERT_EQUAL(td_storage_new(&t, &there, 4096, &lacks, &error), TD_WAIT_GROW);
    CU_ASSERT(lacks.heap && lacks.heap != who[0].heap && lacks.bytes >= 4096 && lacks.device == TD_FAKE);
    CU_ASSERT_PTR_EQUAL(td_heap_budget(lacks.heap), td_device_get(TD_FAKE)->budget);
    CU_ASSERT(!who[0].account->away[TD_FAKE] && !td_device_get(TD_FAKE)->budget->committed);
    td_segment *made;
    CU_ASSERT_EQUAL(td_heap_reserve(lacks.heap, lacks.bytes, &error), 0);
    CU_ASSERT_EQUAL_FATAL(td_budget_make(td_heap_budget(lacks.heap), &made, TD_SEGMENT_SESSION, lacks.bytes, &error),
                          0);
    td_heap_adopt(lacks.heap, made);
    CU_ASSERT_EQUAL(td_storage_new(&t, &there, 4096, &lacks, &error), 0);
    td_storage_unref(t);
    CU_ASSERT_EQUAL(td_storage_new(&t, &there, 1 << 20, NULL, &error), 0); /* who cannot wait makes it by himself */
    td_storage_unref(t);
    finish();
}

/* What an ended flow has queued, and nobody wants, is dropped in its place. */
static void a_flow_withers(void)
{
    start();
    fake_executor_gate(x, true);
    td_tensor *kept = full(&who[1], 100, 3, TD_FAKE), *copy;
    for (int i = 0; i < 30; i++) td_tensor_unref(op(&who[0], TD_OP_NEG, 1, (td_input[]){td_in(kept)}, NULL, 0, NULL));
    int most = 100;
    td_flow_wither(who[0].flow, &most);
    fake_executor_gate(x, false);
    const float *v = floats(&who[1], kept, &copy);
    CU_ASSERT(v && v[99] == 3);
    CU_ASSERT_EQUAL(td_flow_pending(who[0].flow), 0);
    td_tensor_unref(copy);
    td_tensor_unref(kept);
    finish();
}

/* A device has one of it, however many workers there are: so its time counts for all of theirs. */
static void its_time_counts_for_all(void)
{
    start();
    fake_executor_gate(x, true);
    td_tensor *t = full(&who[0], 1 << 20, 2, TD_FAKE);
    td_input in[] = {td_in(t)};
    td_call *c = td_call_new(td_op_by_id(TD_OP_NEG), &who[0], 1, 1, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    memcpy(c->in, in, sizeof in);
    CU_ASSERT_EQUAL_FATAL(td_ops_prepare(c, NULL, &error), 0);
    double took = c->k.cost_ns;
    td_tensor *sum = c->out[0];
    uint64_t before = td_flow_waiting_ns(who[0].flow);
    td_sched_submit(s, c);
    uint64_t asked = td_flow_waiting_ns(who[0].flow) - before;
    CU_ASSERT(took > 1000 && fabs((double)asked - 3 * took) < 3); /* two workers, and the loop */
    fake_executor_gate(x, false);
    td_sched_drain(s);
    td_tensor_unref(t);
    td_tensor_unref(sum);
    finish();
}

static td_tensor *shuffled(td_issuer *w, int64_t n, unsigned device)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, n);
    td_attrs_dtype(&a, TD_INT64);
    return op(w, TD_OP_RANDPERM, 0, NULL, &a, td_call_on(device), NULL);
}

/* What a call works with counts where it runs until it is over, and is refused by the limit of that place. */
static void work_counts_where_it_is_done(void)
{
    enum { N = 100000, BYTES = 8 * N };
    start();
    td_account *user = td_account_new(NULL), *own = who[0].account;
    td_account *session = who[0].account = td_account_new(user);
    td_tensor *t = shuffled(&who[0], N, TD_FAKE);
    td_sched_drain(s);
    uint64_t result = session->away[TD_FAKE];
    CU_ASSERT(t && result >= BYTES && result < 2 * BYTES && !session->work);
    td_tensor_unref(t);
    fake_executor_gate(x, true);
    t = shuffled(&who[0], N, TD_FAKE);
    CU_ASSERT(t && session->work >= BYTES && user->work == session->work);
    CU_ASSERT(session->away[TD_FAKE] == result + session->work && user->away[TD_FAKE] == session->away[TD_FAKE]);
    CU_ASSERT(!session->bytes && !budget.work);
    CU_ASSERT(td_device_get(TD_FAKE)->budget->used >= result + BYTES); /* it lies there */
    fake_executor_gate(x, false);
    td_sched_drain(s);
    CU_ASSERT(session->away[TD_FAKE] == result && !session->work && !user->work && !budget.work);
    CU_ASSERT(td_device_get(TD_FAKE)->budget->used < result + BYTES); /* and has gone */
    td_tensor_unref(t);
    session->limit_away = result + BYTES - 1;
    CU_ASSERT_PTR_NULL(shuffled(&who[0], N, TD_FAKE));
    CU_ASSERT(error.code == TD_E_QUOTA && strstr(error.message, "no memory to work with (0.8 MB)"));
    CU_ASSERT(strstr(error.message, "on fake:0 of its") && need.device == TD_FAKE);
    CU_ASSERT(!session->away[TD_FAKE] && !session->work && !user->away[TD_FAKE]);
    t = shuffled(&who[0], N, TD_CPU); /* which has limits of its own */
    CU_ASSERT_PTR_NOT_NULL(t);
    td_sched_drain(s);
    CU_ASSERT(session->bytes >= BYTES && !session->work && !session->away[TD_FAKE]);
    td_tensor_unref(t);
    td_account_unref(session);
    td_account_unref(user);
    who[0].account = own;
    finish();
}

static int begin(void)
{
    td_cpu_init();
    td_cpu_thread_init();
    return 0;
}

TD_CUNIT_MAIN_WITH("device", begin, NULL, {"examples on the CPU", examples_on_the_cpu},
                   {"examples on another device", examples_on_another}, {"memory is shut", memory_is_shut},
                   {"any program", any_program}, {"a stream does not drain", a_stream_does_not_drain},
                   {"events", events}, {"lost events", lost_events}, {"failures travel", failures_travel},
                   {"given behind a failure", given_behind_a_failure}, {"garbage is no cause", garbage_is_no_cause},
                   {"the device fails", the_device_fails}, {"memory is lost", memory_is_lost},
                   {"two of a kind", two_of_a_kind}, {"an end in the middle", an_end_in_the_middle},
                   {"bytes count where they lie", bytes_count_where_they_lie},
                   {"it grows for who can wait", it_grows_for_who_can_wait},
                   {"work counts where it is done", work_counts_where_it_is_done}, {"a flow withers", a_flow_withers},
                   {"its time counts for all", its_time_counts_for_all})
