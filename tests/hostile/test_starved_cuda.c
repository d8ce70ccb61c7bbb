/* Memory that is out while a GPU (of the fake driver) is at work: with the first allocation of any thread failing, then
 * with the second, and so on. Right values come, or a failure that says what there was no memory for; the next call
 * works; nothing is left. */
#include "daemon/cuda/cuda.h"
#include "daemon/ops/ops.h"
#include "daemon/sched/sched.h"
#include "proto/ops/opid.h"
#include "tests/hostile/starve.h"
#include "tests/unit/cunit_main.h"
#include <string.h>

enum { COUNT = 3000, MOST = 2000 };

static td_budget budget;
static td_issuer who;
static td_sched *s;

static void submit(td_issuer *w, td_call *c)
{
    td_sched_submit(w->scheduler, c);
}

static int start(void)
{
    td_device_entry gpu = {0};
    int rc = td_cuda_kind.start(&gpu, TD_CUDA, NULL);
    td_budget_init(&budget, UINT64_C(64) << 20, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &budget, .plans = td_cpu_plans});
    td_device_add(&gpu);
    const td_sched_options o = {.workers = 1, .inline_ns = 1000};
    if (!rc) rc = td_sched_new(&s, &o, NULL);
    td_heap *heap = NULL;
    if (!rc) rc = td_heap_new(&heap, &budget, TD_SEGMENT_SESSION, 1, NULL);
    who = (td_issuer){.session = 5, .pid = 77, .threads = 1, .scheduler = s, .submit = submit, .heap = heap};
    if (!rc) rc = td_flow_new((td_flow **)&who.flow, s, NULL);
    who.account = td_account_new(NULL);
    return rc;
}

static int stop(void)
{
    td_flow_free(who.flow);
    td_sched_free(s);
    td_account_unref(who.account);
    td_heap_free(who.heap);
    td_devices_end();
    td_budget_deinit(&budget);
    td_live l = td_live_counts();
    return l.tensors || l.storages || l.bytes;
}

static td_tensor *op(unsigned id, int nin, const td_input *in, const td_attrs *a, uint32_t flags, td_error *e)
{
    td_tensor *out = NULL;
    return td_ops_run(&who, id, nin, in, a, flags, 1, &out, e) ? NULL : out;
}

static td_tensor *to(td_tensor *t, unsigned device, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, device);
    return op(TD_OP_TO_DEVICE, 1, (td_input[]){td_in(t)}, &a, 0, e);
}

static td_tensor *twos(td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, (int64_t[]){COUNT});
    td_attrs_scalar(&a, td_float(2));
    td_attrs_dtype(&a, TD_FLOAT32);
    return op(TD_OP_FULL, 0, NULL, &a, 0, e);
}

/* 2 * 2 on the GPU. 0, or what failed; -1: a wrong value that nobody told. */
static int work(int failing, bool *failed)
{
    td_tensor *t[4] = {twos(NULL)};
    td_error e = {0};
    until_failure = failing;
    if (t[0]) t[1] = to(t[0], TD_CUDA, &e);
    if (t[1]) t[2] = op(TD_OP_MUL, 2, (td_input[]){td_in(t[1]), td_in(t[1])}, NULL, 0, &e);
    if (t[2]) t[3] = to(t[2], TD_CPU, &e);
    td_sched_drain(s);
    *failed = !until_failure;
    until_failure = 0;
    int code = t[3] ? 0 : e.code;
    if (t[3] && t[3]->storage->poison) code = t[3]->storage->poison->error.code;
    if (!code) {
        const float *v = td_tensor_data(t[3]);
        for (int i = 0; i < COUNT; i++) code |= v[i] == 4 ? 0 : -1;
    }
    for (int i = 0; i < 4; i++) td_tensor_unref(t[i]);
    return code;
}

/* Each allocation in turn; `anew`: each time from before tensord-cuda is started. */
static void in_vain(bool anew)
{
    bool failed = true, none;
    int k = 0, refused = 0;
    for (; failed && ++k < MOST;) {
        if (anew) CU_ASSERT_EQUAL_FATAL(stop() || start(), 0);
        int code = work(k, &failed);
        CU_ASSERT_NOT_EQUAL(code, -1);
        CU_ASSERT(!code || failed);
        refused += code != 0;
        if (!anew) CU_ASSERT_EQUAL(work(0, &none), 0);
    }
    printf("%d allocations were made to fail, %d calls were refused\n", k - 1, refused);
    CU_ASSERT(k > 5 && k < MOST && refused > 0);
}

static void at_work(void)
{
    in_vain(false);
}

static void from_the_start(void)
{
    in_vain(true);
}

/* Of a tensor with gaps each element is a command: more than a message holds. */
static void in_pieces(void)
{
    td_error e = {0};
    bool failed = true;
    for (int k = 1; failed && k < MOST; k++) {
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_ints(&a, 1, (int64_t[]){COUNT / 2});
        td_attrs_ints(&a, 1, (int64_t[]){2});
        td_attrs_int(&a, 0);
        td_tensor *near = twos(&e), *far = to(near, TD_CUDA, &e), *back = NULL;
        td_tensor *even = op(TD_OP_AS_STRIDED, 1, (td_input[]){td_in(far)}, &a, 0, &e);
        td_sched_drain(s);
        until_failure = k;
        back = to(even, TD_CPU, &e);
        td_sched_drain(s);
        failed = !until_failure;
        until_failure = 0;
        CU_ASSERT(back || failed);
        bool lost = back && back->storage->poison;
        for (int i = 0; back && !lost && i < COUNT / 2; i++)
            CU_ASSERT_EQUAL(((const float *)td_tensor_data(back))[i], 2);
        td_tensor *all[] = {near, far, even, back};
        for (int i = 0; i < 4; i++) td_tensor_unref(all[i]);
    }
    CU_ASSERT_FALSE(failed);
}

int main(int argc, char **argv)
{
    static const td_test tests[] = {{"at work", at_work}, {"from the start", from_the_start}, {"in pieces", in_pieces}};
    return td_tests_run("fake_cuda_starved", start, stop, sizeof tests / sizeof *tests, tests,
                        argc > 1 ? argv[1] : NULL);
}
