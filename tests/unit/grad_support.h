/* What the tests of gradients share: an issuer that runs everything at once on this thread, calls of ops in one line,
 * and values.
 *
 *     td_tensor *y = t_op("mul", 2, (td_tensor *[]){x, x}, NULL);
 *
 * Every failure that a test does not expect prints the error and fails the test. */
#ifndef TENSORD_TESTS_UNIT_GRAD_SUPPORT_H
#define TENSORD_TESTS_UNIT_GRAD_SUPPORT_H

#include "daemon/autograd/autograd.h"
#include "daemon/tensor/device.h"
#include "proto/ops/opid.h"
#include "tests/unit/cunit_main.h"
#include <math.h>
#include <stdlib.h>

/* Where everything lies. On the fake device calls run here all the same, so bytes may be looked at, through the mapping
 * that its kernels have. */
#ifdef TD_TESTS_ON_FAKE
#include "tests/support/fake_device.h"
#define T_DEVICE TD_FAKE
#else
#define T_DEVICE TD_CPU
#endif

static void *t_bytes(const td_tensor *t)
{
#ifdef TD_TESTS_ON_FAKE
    if (t->desc.device == TD_FAKE) return fake_device_bytes(td_tensor_data(t));
#endif
    return td_tensor_data(t);
}

static td_budget t_budget;
static td_issuer t_who;
static unsigned long t_ops; /* kernels run */

static void t_done(td_call *c)
{
    if (atomic_load(&c->k.failed)) printf("%s: %s\n", c->op->name, c->k.error.message);
    CU_ASSERT_EQUAL(c->k.failed, 0);
    if (!c->k.failed && (c->op->flags & TD_OF_DATA_SHAPE)) td_ops_cut_to_count(c);
    if (c->finished) c->finished(c);
    td_call_free(c);
    t_ops++;
}

static void t_submit(td_issuer *w, td_call *c)
{
    (void)w;
    void *scratch = c->k.scratch_bytes ? aligned_alloc(64, (c->k.scratch_bytes + 63) & ~(size_t)63) : NULL;
    c->k.work = c->k.work_bytes ? aligned_alloc(64, (c->k.work_bytes + 63) & ~(size_t)63) : NULL;
    for (int p = 0; p < c->k.nphases; p++)
        for (int64_t i = 0; i < c->k.phase[p].chunks; i++) c->k.phase[p].fn(&c->k, i, scratch);
    free(c->k.work);
    free(scratch);
    t_done(c);
}

static int t_setup(void)
{
    td_cpu_init();
    td_cpu_thread_init();
    td_budget_init(&t_budget, UINT64_C(1) << 30, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &t_budget, .plans = td_cpu_plans});
#ifdef TD_TESTS_ON_FAKE
    td_device_entry fake;
    if (fake_device_start(&fake, TD_FAKE, NULL)) return 1;
    td_device_add(&fake);
#endif
    t_who.account = td_account_new(NULL);
    t_who.submit = t_submit;
    t_who.seed = 1;
    t_who.session = 3;
    t_who.pid = 77;
    return td_heap_new(&t_who.heap, &t_budget, TD_SEGMENT_SESSION, 1, NULL);
}

/* Nothing may be left: no tensor, no storage, no node. */
static int t_teardown(void)
{
    td_live l = td_live_counts();
    bool left = l.tensors || l.storages || td_autograd_nodes() || t_who.account->objects;
    if (left)
        printf("left: %llu tensors, %llu storages, %llu nodes\n", (unsigned long long)l.tensors,
               (unsigned long long)l.storages, (unsigned long long)td_autograd_nodes());
    td_account_unref(t_who.account);
    td_heap_free(t_who.heap);
    td_devices_end();
    td_budget_deinit(&t_budget);
    return left;
}

/* Run an op; returns the error's code. out: room for 64. */
static int t_try(const td_op *op, int nin, const td_input *in, const td_attrs *a, td_grad_mode mode, td_tensor *into,
                 td_tensor **out, int *nout, td_error *e)
{
    td_call *c = td_call_new(op, &t_who, nin, into || !op->nouts ? op->nouts : op->outs[0].list ? 64 : op->nouts, e);
    if (!c) return e->code;
    for (int i = 0; i < nin; i++) c->in[i] = in[i];
    if (into) c->flags = TD_CF_OUT, c->out[0] = into;
    else if (op->flags & TD_OF_CREATION) c->flags |= td_call_on(T_DEVICE);
    int err = 0;
    if (a) td_attrs_copy(&c->attrs, a);
    else err = td_attrs_decode(op, NULL, 0, &c->attrs, e);
    if (!err) err = td_autograd_run(c, mode, out, 64, nout, NULL, e);
    if (err) td_call_free(c);
    return err;
}

__attribute__((unused)) static td_tensor *t_run(unsigned id, int nin, td_tensor *const *in, const td_attrs *a,
                                                td_grad_mode mode, td_tensor *into)
{
    td_input inputs[8] = {0};
    td_tensor *out[64] = {0};
    td_error e = {0};
    int n = 0;
    for (int i = 0; i < nin; i++) inputs[i] = td_in(in[i]);
    int err = t_try(td_op_by_id(id), nin, inputs, a, mode, into, out, &n, &e);
    if (err) printf("%s: %s\n", e.op, e.message);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return out[0];
}

/* A contiguous tensor; values NULL: uninitialised. */
__attribute__((unused)) static td_tensor *t_new(td_dtype t, int ndim, const int64_t *shape, const double *values)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, ndim, shape);
    td_attrs_dtype(&a, t);
    td_tensor *x = t_run(TD_OP_EMPTY, 0, NULL, &a, TD_GRAD_ON, NULL);
    CU_ASSERT_EQUAL_FATAL(x->storage->device, T_DEVICE);
    int64_t n = td_desc_numel(&x->desc);
    for (int64_t k = 0; values && k < n; k++)
        td_scalar_store(td_float(values[k]), t, (char *)t_bytes(x) + k * (int64_t)td_dtype_size(t));
    return x;
}

/* Address of flattened element k, whatever the strides. */
static void *t_at(const td_tensor *t, int64_t k)
{
    int64_t at = 0;
    for (int d = t->desc.ndim - 1; d >= 0; d--) {
        at += k % t->desc.shape[d] * t->desc.stride[d];
        k /= t->desc.shape[d];
    }
    return (char *)t_bytes(t) + at * (int64_t)td_dtype_size((td_dtype)t->desc.dtype);
}

static td_scalar t_get(const td_tensor *t, int64_t k)
{
    return td_scalar_load((td_dtype)t->desc.dtype, t_at(t, k));
}

__attribute__((unused)) static double t_real(const td_tensor *t, int64_t k)
{
    td_scalar s = t_get(t, k);
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}

/* What was lacked is there: memory, or what a kernel's plan wished for. */
static int t_grow(td_need *need, td_error *e)
{
    td_segment *s;
    td_need_work work = td_need_take_work(need);
    if (work.make) {
        work.make(work.arg);
        free(work.arg);
        return 0;
    }
    int err = td_heap_reserve(need->heap, need->bytes, e);
    if (!err) err = td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, need->bytes, e);
    if (!err) td_heap_adopt(need->heap, s);
    return err;
}

/* How many bytes may be held where everything lies. */
static uint64_t *t_limit(void)
{
    return T_DEVICE == TD_CPU ? &t_who.account->limit_bytes : &t_who.account->limit_away;
}

static uint64_t t_held(void)
{
    return td_account_bytes(t_who.account, T_DEVICE);
}

static unsigned long t_waits; /* backwards that had to wait for memory, in times */

/* To the end, with hardly any memory: each op that makes something finds none, is given up, and gets it when it is gone
 * on. So whatever a test wants of a backward holds wherever one is interrupted. */
static int t_steps(td_backward *b, td_error *e)
{
    uint64_t limit = *t_limit(), more = 0;
    td_need need = {0};
    bool done = false;
    int err = 0;
    while (!done && !err) {
        uint64_t had = t_held();
        *t_limit() = limit ? limit : had + more + 1;
        err = td_backward_step(b, 3, &done, &need, e);
        *t_limit() = limit;
        if (limit || (err != TD_E_QUOTA && err != TD_WAIT_GROW)) continue;
        if (err == TD_WAIT_GROW) {
            err = t_grow(&need, e);
        } else if (more < UINT64_C(1) << 40) {
            err = 0;
            more = t_held() > had ? 64 : more ? 2 * more : 64;
        }
        t_waits++;
    }
    return err;
}

/* backward() or, with inputs, grad(). Returns the error's code. */
__attribute__((unused)) static int t_backward(int nroots, td_tensor *const *roots, td_tensor *const *grads,
                                              int ninputs, td_tensor *const *inputs, td_tensor **results,
                                              uint32_t flags, td_error *e)
{
    td_backward *b;
    int err = td_backward_new(&b, &t_who, nroots, roots, grads, ninputs, inputs, flags, 0, e);
    if (err) return err;
    err = t_steps(b, e);
    if (!err && results) td_backward_results(b, results);
    td_backward_free(b);
    return err;
}

#endif
