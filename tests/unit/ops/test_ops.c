/* Preparing and running ops: what may be written where, what waits and changes nothing, what a call holds. The kernels
 * here are the test's own, as plain as can be, so that the suite tests this room alone. */
#include "daemon/ops/ops.h"
#include "daemon/ops/overlap.h"
#include "daemon/tensor/device.h"
#include "proto/ops/opid.h"
#include "tests/unit/cunit_main.h"
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

/* ---- plain kernels */

static td_scalar element(const td_karg *a, const td_desc *like, int64_t i)
{
    int64_t at = 0;
    for (int d = like->ndim - 1, k = a->desc->ndim - 1; d >= 0; d--, k--) {
        int64_t x = i % like->shape[d];
        i /= like->shape[d];
        if (k >= 0 && a->desc->shape[k] != 1) at += x * a->desc->stride[k];
    }
    size_t size = td_dtype_size((td_dtype)a->desc->dtype);
    return td_scalar_load((td_dtype)a->desc->dtype, (const char *)a->data + (size_t)at * size);
}

static void put(const td_karg *a, int64_t i, td_scalar v)
{
    int64_t at = 0;
    for (int d = a->desc->ndim - 1; d >= 0; d--) {
        at += i % a->desc->shape[d] * a->desc->stride[d];
        i /= a->desc->shape[d];
    }
    td_dtype t = (td_dtype)a->desc->dtype;
    td_scalar_store(v, t, (char *)a->data + (size_t)at * td_dtype_size(t));
}

static bool fail_next;
static td_karg planned; /* the last argument of the last call, and was it a number? */
static bool planned_number;
static unsigned elsewhere; /* plans for another device than the CPU */

static void each(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    if (fail_next) {
        k->error.code = TD_E_INDEX;
        strcpy(k->error.message, "index 9 is out of bounds");
        atomic_store(&k->failed, 1);
        fail_next = false;
        return;
    }
    for (int64_t i = 0; i < td_desc_numel(k->out[0].desc); i++) {
        td_scalar x = k->nin ? element(&k->in[0], k->out[0].desc, i) : td_int(0), y = x;
        switch (k->op->id) {
        case TD_OP_ADD:
            y = element(&k->in[1], k->out[0].desc, i);
            x = x.kind <= TD_S_INT && y.kind <= TD_S_INT
                    ? td_int(x.i + y.i)
                    : td_float((x.kind <= TD_S_INT ? (double)x.i : x.re) + (y.kind <= TD_S_INT ? (double)y.i : y.re));
            break;
        case TD_OP_FULL: x = k->attrs->at[1].s; break;
        case TD_OP_RAND: x = td_float((double)k->counter); break;
        default: break;
        }
        put(&k->out[0], i, x);
    }
}

static int plan_each(td_kcall *k, td_error *e)
{
    (void)e;
    if (k->nin) planned = k->in[k->nin - 1], planned_number = td_karg_is_number(&k->in[k->nin - 1]);
    k->nphases = 1;
    k->phase[0].fn = each;
    k->phase[0].chunks = 1;
    return 0;
}

/* Writes the result early and reads late: an output that shares memory with an input would show. Contiguous output
 * only. */
static void mm(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    const td_desc *a = k->in[0].desc, *b = k->in[1].desc;
    float *o = k->out[0].data;
    const float *x = k->in[0].data, *y = k->in[1].data;
    int64_t m = a->shape[0], n = b->shape[1], q = a->shape[1];
    if (fail_next) {
        fail_next = false;
        atomic_store(&k->failed, 1);
        return;
    }
    for (int64_t i = 0; i < m * n; i++) o[i] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < q; l++)
                o[i * n + j] += x[i * a->stride[0] + l * a->stride[1]] * y[l * b->stride[0] + j * b->stride[1]];
}

static int plan_mm(td_kcall *k, td_error *e)
{
    if (!td_desc_is_contiguous(k->out[0].desc) || k->out[0].desc->dtype != TD_FLOAT32)
        return td_fail(e, TD_E_UNSUPPORTED, "plain mm");
    k->nphases = 1;
    k->phase[0].fn = mm;
    k->phase[0].chunks = 1;
    return 0;
}

static void find_nonzero(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    int64_t count = 0, n = k->in[0].desc->shape[0], *o = k->out[0].data;
    for (int64_t i = 0; i < n; i++)
        if (((const float *)k->in[0].data)[i] != 0) o[count++] = i;
    memcpy(k->state, &count, sizeof count);
}

static int plan_nonzero(td_kcall *k, td_error *e)
{
    (void)e;
    k->nphases = 1;
    k->phase[0].fn = find_nonzero;
    k->phase[0].chunks = 1;
    return 0;
}

/* A plan that is used again: the state is what the kernel goes by. */
static unsigned sub_plans;

typedef struct sub_state {
    const float *x, *y;
    float *o;
    int64_t n;
} sub_state;

static void sub(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)chunk, (void)scratch;
    const sub_state *s = (const sub_state *)k->state;
    for (int64_t i = 0; i < s->n; i++) s->o[i] = s->x[i] - s->y[k->in[1].desc->ndim ? i : 0];
}

static void sub_addresses(td_kcall *k)
{
    sub_state *s = (sub_state *)k->state;
    s->x = k->in[0].data, s->y = k->in[1].data, s->o = k->out[0].data;
}

static int plan_sub(td_kcall *k, td_error *e)
{
    sub_plans++;
    sub_addresses(k);
    ((sub_state *)k->state)->n = td_desc_numel(k->out[0].desc);
    k->replan = sub_addresses;
    k->state_bytes = sizeof(sub_state);
    plan_each(k, e);
    k->phase[0].fn = sub;
    return 0;
}

static int plan_nothing(td_kcall *k, td_error *e)
{
    (void)k, (void)e;
    return 0;
}

const td_plan_fn td_cpu_plans[TD_OP_COUNT] = {
    [TD_OP_ADD] = plan_each,          [TD_OP_SUB] = plan_sub,         [TD_OP_COPY] = plan_each,
    [TD_OP_FULL] = plan_each,         [TD_OP_RAND] = plan_each,       [TD_OP_MM] = plan_mm,
    [TD_OP_CAT] = plan_nothing,       [TD_OP_NONZERO] = plan_nonzero, [TD_OP_SGD_STEP] = plan_nothing,
    [TD_OP_BATCH_NORM] = plan_nothing};

/* A device beside the CPU, over the same heap, with one op. */
static int plan_elsewhere(td_kcall *k, td_error *e)
{
    elsewhere++;
    return plan_each(k, e);
}

static const td_plan_fn elsewhere_plans[TD_OP_COUNT] = {[TD_OP_ADD] = plan_elsewhere};

/* ---- the world */

static td_budget budget;
static td_issuer who;
static unsigned submitted;

static void run(td_issuer *w, td_call *c)
{
    (void)w;
    submitted++;
    void *scratch = malloc(c->k.scratch_bytes + 1);
    c->k.work = malloc(c->k.work_bytes + 1);
    for (int p = 0; p < c->k.nphases; p++)
        for (int64_t i = 0; i < c->k.phase[p].chunks; i++) c->k.phase[p].fn(&c->k, i, scratch);
    free(c->k.work);
    free(scratch);
    if (c->finished) c->finished(c);
    td_call_free(c);
}

static int setup(void)
{
    td_budget_init(&budget, 512 * MIB, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &budget, .plans = td_cpu_plans});
    td_device_add(
        &(td_device_entry){.number = TD_FAKE, .memory = &td_cpu_memory, .budget = &budget, .plans = elsewhere_plans});
    if (td_heap_new(&who.heap, &budget, TD_SEGMENT_SESSION, 1, NULL)) return 1;
    if (td_heap_new(&who.service_heap, &budget, TD_SEGMENT_SERVICE, 1, NULL)) return 1;
    who.account = td_account_new(NULL);
    who.service_account = td_account_new(NULL);
    who.session = 5;
    who.pid = 77;
    who.submit = run;
    strcpy(who.where, "train.c:41");
    return 0;
}

static int teardown(void)
{
    td_account_unref(who.account);
    td_account_unref(who.service_account);
    td_heap_free(who.heap);
    td_heap_free(who.service_heap);
    td_budget_deinit(&budget);
    td_live l = td_live_counts();
    return l.tensors || l.storages || l.causes || l.accounts || l.bytes;
}

static td_tensor *full(td_dtype t, int ndim, const int64_t *shape, td_scalar value)
{
    td_attrs a;
    td_tensor *out = NULL;
    td_error e = {0};
    td_attrs_init(&a);
    td_attrs_ints(&a, ndim, shape);
    td_attrs_scalar(&a, value);
    td_attrs_dtype(&a, t);
    int err = td_ops_run(&who, TD_OP_FULL, 0, NULL, &a, 0, 1, &out, &e);
    if (err) printf("full: %s\n", e.message);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return out;
}

static td_tensor *vec(td_dtype t, int64_t n, double v)
{
    return full(t, 1, &n, t <= TD_INT64 ? td_int((int64_t)v) : td_float(v));
}

/* float32 values 0, 1, 2, ... */
static td_tensor *counting(int64_t rows, int64_t cols)
{
    int64_t shape[2] = {rows, cols};
    td_tensor *t = full(TD_FLOAT32, 2, shape, td_float(0));
    for (int64_t i = 0; i < rows * cols; i++) ((float *)td_tensor_data(t))[i] = (float)i;
    return t;
}

static td_tensor *view(td_tensor *of, int ndim, const int64_t *shape, const int64_t *stride, int64_t offset)
{
    td_attrs a;
    td_tensor *out = NULL;
    td_input in = td_in(of);
    td_attrs_init(&a);
    td_attrs_ints(&a, ndim, shape);
    td_attrs_ints(&a, ndim, stride);
    td_attrs_int(&a, offset);
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_AS_STRIDED, 1, &in, &a, 0, 1, &out, NULL), 0);
    return out;
}

static float at(const td_tensor *t, int64_t i)
{
    return ((const float *)td_tensor_data(t))[i];
}

static int add(td_tensor *x, td_input y, td_tensor *into, td_tensor **out, td_error *e)
{
    td_input in[2] = {td_in(x), y};
    td_tensor *o = into;
    *e = (td_error){0};
    int err = td_ops_run(&who, TD_OP_ADD, 2, in, NULL, into ? TD_CF_OUT : 0, 1, &o, e);
    if (out) *out = o;
    return err;
}

static void drop(int n, td_tensor **t)
{
    for (int i = 0; i < n; i++) td_tensor_unref(t[i]);
}

/* ---- tests */

static void makes_outputs(void)
{
    td_error e = {0};
    td_tensor *x = counting(2, 3), *y = vec(TD_FLOAT32, 3, 10), *z = NULL;
    CU_ASSERT_EQUAL_FATAL(add(x, td_in(y), NULL, &z, &e), 0);
    CU_ASSERT(z->refs == 1 && z->storage->refs == 1 && z->desc.ndim == 2);
    CU_ASSERT(at(z, 0) == 10 && at(z, 5) == 15);
    CU_ASSERT_EQUAL(z->version->value, 0);
    CU_ASSERT_PTR_EQUAL(z->account, who.account);
    CU_ASSERT_PTR_EQUAL(td_extent_heap(&z->storage->extent), who.heap);
    drop(3, (td_tensor *[]){x, y, z});
}

/* x - y of some shape, in a dtype of numbers' own choice: the values, and how many plans it took. */
static float minus(td_tensor *x, td_input y, int64_t i, unsigned plans)
{
    td_input in[2] = {td_in(x), y};
    td_tensor *z = NULL;
    unsigned before = sub_plans;
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_SUB, 2, in, NULL, 0, 1, &z, NULL), 0);
    CU_ASSERT_EQUAL(sub_plans - before, plans);
    CU_ASSERT(z->refs == 1 && z->storage->refs == 1 && z->version->value == 0 &&
              td_desc_same_shape(&z->desc, &x->desc));
    float v = at(z, i);
    td_tensor_unref(z);
    return v;
}

/* What was inferred and planned for one call serves the next that looks the same, and no other. */
static void the_same_again(void)
{
    td_tensor *x = counting(2, 3), *y = counting(2, 3), *row = counting(1, 3), *z = NULL;
    CU_ASSERT_EQUAL(minus(x, td_in(y), 5, 1), 0);
    CU_ASSERT_EQUAL(add(y, td_in_number(td_float(7)), y, NULL, &(td_error){0}), 0);
    CU_ASSERT_EQUAL(minus(x, td_in(y), 5, 0), -7);
    CU_ASSERT_EQUAL(minus(y, td_in(x), 5, 0), 7);
    CU_ASSERT_EQUAL(minus(y, td_in(y), 5, 0), 0);
    for (int round = 0; round < 2; round++) {
        CU_ASSERT_EQUAL(minus(y, td_in_number(td_float(2)), 5, !round), 10);
        CU_ASSERT_EQUAL(minus(y, td_in_number(td_float(3)), 5, !round), 9);
    }
    CU_ASSERT_EQUAL(minus(row, td_in(row), 2, 1), 0);
    td_error e = {0};
    td_input in[2] = {td_in(x), td_in(y)};
    td_attrs twice = {.count = 1, .at = {{.kind = TD_A_SCALAR, .s = {.kind = TD_S_INT, .i = 2}}}};
    unsigned before = sub_plans;
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_SUB, 2, in, &twice, 0, 1, &z, &e), 0);
    CU_ASSERT_EQUAL(sub_plans, before + 1);
    td_tensor_unref(z);
    who.account->limit_bytes = who.account->bytes; /* refused as any other */
    uint64_t objects = who.account->objects;
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_SUB, 2, in, NULL, 0, 1, &z, &e), TD_E_QUOTA);
    CU_ASSERT_STRING_EQUAL(e.op, "sub");
    CU_ASSERT_STRING_EQUAL(e.where, "train.c:41");
    CU_ASSERT(!z && who.account->objects == objects && who.account->bytes == who.account->limit_bytes);
    who.account->limit_bytes = 0;
    drop(3, (td_tensor *[]){x, y, row});
}

/* Calls in turns, in another order each time: each finds its own, whatever was bound before it. */
static void others_between(void)
{
    td_tensor *x = counting(3, 2);
    td_input y[4] = {td_in(x), td_in_number(td_int(2)), td_in_number(td_float(2)), td_in_number(td_float(3))};
    const float last[4] = {0, 3, 3, 2};
    for (int i = 0; i < 4; i++) minus(x, y[i], 5, 1);
    for (unsigned round = 0; round < 24; round++) {
        int order[4] = {0, 1, 2, 3};
        for (unsigned i = 4, r = round; i > 1; r /= i--) {
            int t = order[r % i];
            order[r % i] = order[i - 1];
            order[i - 1] = t;
        }
        for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(minus(x, y[order[i]], 5, 0), last[order[i]]);
    }
    drop(1, &x);
}

/* Calls that differ in an attribute alone do not push each other out. */
static void attributes_between(void)
{
    td_tensor *x = counting(4, 2), *z;
    td_input in[2] = {td_in(x), td_in(x)};
    unsigned before = sub_plans;
    for (int round = 0; round < 3; round++)
        for (int i = 2; i < 10; i++) {
            td_attrs alpha = {.count = 1, .at = {{.kind = TD_A_SCALAR, .s = td_int(i)}}};
            CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_SUB, 2, in, &alpha, 0, 1, &z, NULL), 0);
            td_tensor_unref(z);
        }
    CU_ASSERT_EQUAL(sub_plans - before, 8);
    drop(1, &x);
}

static int sub_into(td_tensor *x, td_tensor *y, td_tensor *out, td_error *e)
{
    td_input in[2] = {td_in(x), td_in(y)};
    return td_ops_run(&who, TD_OP_SUB, 2, in, NULL, TD_CF_OUT, 1, &out, e);
}

/* Given tensors are planned once, too, as long as they meet the inputs in the same way; and all else is as it was. */
static void given_again(void)
{
    td_error e = {0};
    td_tensor *x = counting(2, 3), *y = counting(2, 3), *z = counting(2, 3), *part;
    uint32_t version = x->version->value;
    CU_ASSERT_EQUAL(sub_into(x, y, x, &e), 0);
    CU_ASSERT_EQUAL(at(x, 5), 0);
    unsigned before = sub_plans;
    CU_ASSERT_EQUAL(sub_into(x, y, x, &e), 0);
    CU_ASSERT_EQUAL(at(x, 5), -5);
    CU_ASSERT_EQUAL(x->version->value, version + 2);
    CU_ASSERT_EQUAL(sub_plans, before);
    CU_ASSERT_EQUAL(sub_into(y, x, z, &e), 0); /* apart from both */
    CU_ASSERT_EQUAL(at(z, 5), 10);
    CU_ASSERT_EQUAL(sub_plans, before + 1);
    CU_ASSERT_EQUAL(sub_into(z, y, z, &e), 0);
    CU_ASSERT_EQUAL(at(z, 5), 5);
    CU_ASSERT_EQUAL(sub_plans, before + 1);
    CU_ASSERT_EQUAL(sub_into(y, z, y, &e), 0);
    CU_ASSERT_EQUAL(sub_plans, before + 1);
    z->storage->flags |= TD_SF_READONLY;
    CU_ASSERT_EQUAL(sub_into(z, y, z, &e), TD_E_PERMISSION);
    z->storage->flags &= ~(uint32_t)TD_SF_READONLY;
    td_desc d = x->desc;
    d.shape[0] = 1;
    CU_ASSERT_EQUAL_FATAL(td_tensor_view(&part, x, &d, NULL, &e), 0);
    td_error_clear(&e);
    CU_ASSERT_EQUAL(sub_into(x, part, x, &e), TD_E_INVALID); /* overlaps in part */
    drop(4, (td_tensor *[]){x, y, z, part});
}

static td_tensor *window(td_tensor *x, int64_t n, int64_t from)
{
    td_error e = {0};
    td_input in = td_in(x);
    td_tensor *v = NULL;
    int64_t one = 1;
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n), td_attrs_ints(&a, 1, &one), td_attrs_int(&a, from);
    td_ops_run(&who, TD_OP_AS_STRIDED, 1, &in, &a, 0, 1, &v, &e);
    return v;
}

/* Views are inferred once for tensors that lie alike, and looked at each time: a storage may be smaller. */
static void views_again(void)
{
    td_tensor *x = vec(TD_FLOAT32, 6, 0), *y = vec(TD_FLOAT32, 6, 0), *wide = vec(TD_FLOAT32, 8, 0), *v[4];
    td_tensor *few = window(wide, 6, 0);
    v[0] = window(x, 2, 1), v[1] = window(y, 2, 1), v[2] = window(y, 2, 2), v[3] = window(few, 2, 6);
    CU_ASSERT_EQUAL(v[0]->desc.offset, 1);
    CU_ASSERT(v[1]->desc.offset == 1 && v[1]->storage == y->storage);
    CU_ASSERT_EQUAL(v[2]->desc.offset, 2);
    CU_ASSERT_EQUAL(v[3]->desc.offset, 6);
    CU_ASSERT_PTR_NULL(window(x, 2, 6)); /* looks as `few` does */
    CU_ASSERT_PTR_NULL(window(v[1], 6, 6));
    drop(8, (td_tensor *[]){x, y, wide, few, v[0], v[1], v[2], v[3]});
}

static void numbers_stay_exact(void)
{
    td_error e = {0};
    const int64_t big = (INT64_C(1) << 62) + 1;
    td_tensor *x = vec(TD_INT64, 2, 0), *f = vec(TD_FLOAT32, 1, 0.5), *z, *w;
    CU_ASSERT_EQUAL_FATAL(add(x, td_in_number(td_int(big)), NULL, &z, &e), 0);
    CU_ASSERT_EQUAL(((int64_t *)td_tensor_data(z))[1], big); /* no way through a double */
    CU_ASSERT_EQUAL(z->desc.dtype, TD_INT64);
    CU_ASSERT_EQUAL_FATAL(add(f, td_in_number(td_int(2)), NULL, &w, &e), 0);
    CU_ASSERT(w->desc.dtype == TD_FLOAT32 && at(w, 0) == 2.5f);
    drop(4, (td_tensor *[]){x, f, z, w});
}

/* A plan finds a number in its argument: what it takes from there needs no memory of this process. */
static void numbers_by_value(void)
{
    td_error e = {0};
    float value;
    td_tensor *f = vec(TD_FLOAT32, 2, 0.5), *z, *w;
    CU_ASSERT_EQUAL_FATAL(add(f, td_in_number(td_float(2.25)), NULL, &z, &e), 0);
    memcpy(&value, planned.number, sizeof value);
    CU_ASSERT(planned_number && value == 2.25f && planned.desc->dtype == TD_FLOAT32 && planned.desc->ndim == 0);
    CU_ASSERT_EQUAL_FATAL(add(z, td_in(f), NULL, &w, &e), 0);
    CU_ASSERT(!planned_number && planned.data == td_tensor_data(f) && at(w, 1) == 3.25f);
    drop(3, (td_tensor *[]){f, z, w});
}

/* Plans are those of the device that the result lies on. */
static void plans_by_device(void)
{
    td_error e = {0};
    int64_t two = 2;
    td_desc d;
    td_storage *s;
    td_tensor *x, *z, *here = vec(TD_FLOAT32, 2, 0.5), *none;
    td_place place = {.heap = who.heap, .account = who.account, .device = TD_FAKE};
    td_desc_contiguous(&d, TD_FLOAT32, 1, &two, NULL);
    d.device = TD_FAKE;
    CU_ASSERT_EQUAL_FATAL(td_storage_new(&s, &place, 8, NULL, NULL), 0);
    memcpy(s->data, (float[]){1, 2}, 8);
    CU_ASSERT_EQUAL_FATAL(td_tensor_new(&x, s, &d, who.account, NULL), 0);
    td_storage_unref(s);
    unsigned before = elsewhere;
    CU_ASSERT_EQUAL_FATAL(add(x, td_in(x), NULL, &z, &e), 0);
    CU_ASSERT(elsewhere == before + 1 && z->desc.device == TD_FAKE && z->storage->device == TD_FAKE && at(z, 1) == 4);
    CU_ASSERT_EQUAL(add(x, td_in(here), NULL, &none, &e), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(e.message, "Expected all tensors to be on the same device, but found at least two devices, "
                                      "fake:0 and cpu: 'x' is on fake:0, 'y' on cpu");
    td_input in[2] = {td_in(x), td_in(x)};
    e = (td_error){0};
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_SUB, 2, in, NULL, 0, 1, &none, &e), TD_E_UNSUPPORTED);
    CU_ASSERT(!strcmp(e.op, "sub") && strstr(e.message, "sub has no kernel for fake:0; copy"));
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &two);
    td_attrs_dtype(&a, TD_FLOAT32);
    td_tensor *made = NULL;
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_EMPTY, 0, NULL, &a, td_call_on(TD_FAKE), 1, &made, &e), 0);
    CU_ASSERT(made && made->desc.device == TD_FAKE && made->storage->device == TD_FAKE);
    td_tensor_unref(made);
    e = (td_error){0};
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_EMPTY, 0, NULL, &a, td_call_on(TD_CUDA), 1, &made, &e), TD_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(e.message, "there is no device 'cuda:0' here; only 'cpu', 'fake:0'");
    place.device = TD_CUDA + 1;
    CU_ASSERT_EQUAL(td_storage_new(&s, &place, 8, NULL, &e), TD_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(e.message, "there is no device 'cuda:1' here; only 'cpu', 'fake:0'");
    drop(3, (td_tensor *[]){x, z, here});
}

static void in_place(void)
{
    td_error e = {0};
    td_tensor *x = counting(2, 3), *v;
    int64_t shape[] = {6}, stride[] = {1};
    v = view(x, 1, shape, stride, 0);
    CU_ASSERT_EQUAL(x->version->value, 0);
    CU_ASSERT_EQUAL(add(x, td_in(x), x, NULL, &e), 0); /* the very same elements are fine */
    CU_ASSERT_EQUAL(at(x, 5), 10);
    CU_ASSERT(v->version->value == 1 && v->version->op == TD_OP_ADD && v->version->session == 5 &&
              v->version->pid == 77);
    CU_ASSERT_EQUAL(add(x, td_in_number(td_float(1)), x, NULL, &e), 0);
    CU_ASSERT(v->version->value == 2 && at(v, 5) == 11);
    drop(2, (td_tensor *[]){x, v});
}

static void refuse(td_tensor *x, td_input y, td_tensor *into, td_code code, const char *text)
{
    td_error e = {0};
    uint32_t version = into->version->value;
    CU_ASSERT_EQUAL(add(x, y, into, NULL, &e), code);
    if (!strstr(e.message, text)) printf("message: %s\n", e.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, text));
    CU_ASSERT_STRING_EQUAL(e.op, "add");
    CU_ASSERT_STRING_EQUAL(e.where, "train.c:41");
    CU_ASSERT_EQUAL(into->version->value, version);
}

static void what_cannot_be_written(void)
{
    td_tensor *x = counting(2, 3), *row = vec(TD_FLOAT32, 3, 1), *whole = vec(TD_INT32, 3, 1), *wide, *left, *right,
              *flipped, *sq = counting(3, 3);
    int64_t shape[] = {4, 3}, none[] = {0, 1}, half[] = {3}, one[] = {1}, square[] = {3, 3}, turned[] = {1, 3};
    wide = view(row, 2, shape, none, 0);
    left = view(x, 1, half, one, 0);
    right = view(x, 1, half, one, 2);
    flipped = view(sq, 2, square, turned, 0);
    refuse(row, td_in(x), row, TD_E_SHAPE, "output with shape [3] doesn't match the broadcast shape [2, 3]");
    refuse(whole, td_in_number(td_float(1.5)), whole, TD_E_TYPE, "result type Float can't be cast to Int");
    refuse(wide, td_in(wide), wide, TD_E_INVALID,
           "more than one element of the written-to tensor refers to a single memory location");
    refuse(left, td_in(right), left, TD_E_INVALID,
           "some elements of the input tensor and the written-to tensor refer to a single memory location");
    refuse(sq, td_in(flipped), sq, TD_E_INVALID, "some elements of the input tensor");
    td_error e = {0};
    td_tensor *o = row;
    td_input in[2] = {td_in(x), td_in(x)};
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_ADD, 2, in, NULL, TD_CF_OUT, 0, &o, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_ops_run(&who, 60000, 2, in, NULL, 0, 1, &o, &e), TD_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_MUL, 2, in, NULL, 0, 1, &o, &e), TD_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "mul has no kernel for cpu"));
    drop(8, (td_tensor *[]){x, row, whole, wide, left, right, flipped, sq});
}

static void interleaved_is_apart(void)
{
    td_error e = {0};
    td_tensor *x = counting(4, 2), *even, *odd;
    int64_t four[] = {4}, two[] = {2};
    even = view(x, 1, four, two, 0);
    odd = view(x, 1, four, two, 1);
    CU_ASSERT_EQUAL(add(even, td_in(odd), even, NULL, &e), 0);
    CU_ASSERT(at(x, 0) == 1 && at(x, 1) == 1 && at(x, 6) == 13 && at(x, 7) == 7);
    drop(3, (td_tensor *[]){x, even, odd});
}

static td_desc strided(int n, const int64_t *shape, const int64_t *stride, int64_t offset)
{
    td_desc d = {.ndim = (uint8_t)n, .dtype = TD_FLOAT32, .offset = offset};
    for (int i = 0; i < n; i++) d.shape[i] = shape[i], d.stride[i] = stride[i];
    return d;
}

/* The search against marking every element. */
static void overlap_is_exact(void)
{
    uint32_t seed = 12345;
    int wrong = 0, met = 0, apart = 0;
    for (int round = 0; round < 20000; round++) {
        static unsigned char hit[4096];
        td_desc d[2];
        for (int s = 0; s < 2; s++) {
            int64_t shape[3], stride[3];
            for (int k = 0; k < 3; k++) {
                seed = seed * 1664525u + 1013904223u;
                shape[k] = 1 + (seed >> 16) % 5;
                stride[k] = (seed >> 20) % 40;
            }
            d[s] = strided(3, shape, stride, (seed >> 8) % 60);
        }
        memset(hit, 0, sizeof hit);
        bool common = false;
        for (int s = 0; s < 2; s++)
            for (int64_t i = 0; i < d[s].shape[0]; i++)
                for (int64_t j = 0; j < d[s].shape[1]; j++)
                    for (int64_t l = 0; l < d[s].shape[2]; l++) {
                        int64_t p = d[s].offset + i * d[s].stride[0] + j * d[s].stride[1] + l * d[s].stride[2];
                        if (s && hit[p]) common = true;
                        if (!s) hit[p] = 1;
                    }
        td_overlap o = td_desc_overlap(&d[0], &d[1]);
        wrong += o == TD_UNDECIDED || (o != TD_APART) != common;
        met += common;
        apart += !common;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(met > 1000 && apart > 1000);
}

static void through_a_temporary(void)
{
    td_error e = {0};
    td_tensor *x = counting(2, 2), *y = counting(2, 2), *wide = counting(2, 4), *doubles;
    int64_t sq[] = {2, 2}, st[] = {1, 2};
    td_tensor *turned = view(wide, 2, sq, st, 1), *o;
    doubles = full(TD_FLOAT64, 2, sq, td_float(0));
    td_input in[2] = {td_in(x), td_in(y)};
    uint64_t storages = td_live_counts().storages;
    o = turned; /* a layout that the kernel does not write: elements 1, 3, 2, 4 of `wide` */
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_MM, 2, in, NULL, TD_CF_OUT, 1, &o, &e), 0);
    CU_ASSERT(at(wide, 1) == 2 && at(wide, 3) == 3 && at(wide, 2) == 6 && at(wide, 4) == 11 && at(wide, 0) == 0 &&
              at(wide, 5) == 5);
    o = doubles; /* a dtype it does not write */
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_MM, 2, in, NULL, TD_CF_OUT, 1, &o, &e), 0);
    CU_ASSERT_EQUAL(((double *)td_tensor_data(doubles))[3], 11);
    o = x; /* an input that it still reads; a failure leaves it as it was */
    fail_next = true;
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_MM, 2, in, NULL, TD_CF_OUT, 1, &o, &e), 0);
    CU_ASSERT(at(x, 0) == 0 && at(x, 3) == 3);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_MM, 2, in, NULL, TD_CF_OUT, 1, &o, &e), 0);
    CU_ASSERT(at(x, 0) == 2 && at(x, 1) == 3 && at(x, 2) == 6 && at(x, 3) == 11);
    CU_ASSERT_EQUAL(td_live_counts().storages, storages); /* temporaries have gone */
    drop(5, (td_tensor *[]){x, y, wide, turned, doubles});
}

static void copy_and_fill(void)
{
    td_error e = {0};
    td_tensor *x = counting(2, 3), *row = vec(TD_FLOAT64, 3, 2.75), *whole = vec(TD_INT32, 3, 0),
              *bytes = vec(TD_INT8, 4, 1), *o = x;
    td_input in = td_in(row);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_COPY, 1, &in, NULL, TD_CF_OUT, 1, &o, &e), 0); /* the source broadcasts */
    CU_ASSERT(at(x, 0) == 2.75f && at(x, 5) == 2.75f && x->version->value == 1);
    o = whole;
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_COPY, 1, &in, NULL, TD_CF_OUT, 1, &o, &e), 0); /* and truncates */
    CU_ASSERT_EQUAL(((int32_t *)td_tensor_data(whole))[2], 2);
    in = td_in(x);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_COPY, 1, &in, NULL, TD_CF_OUT, 1, &o, &e),
                    TD_E_SHAPE); /* never the destination */
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "output with shape [3] doesn't match the broadcast shape [2, 3]"));
    td_attrs a;
    int64_t four = 4;
    for (int big = 0; big < 2; big++) {
        td_attrs_init(&a);
        td_attrs_ints(&a, 1, &four);
        td_attrs_scalar(&a, td_int(big ? 300 : 100));
        td_attrs_dtype(&a, TD_INT8);
        o = bytes;
        e = (td_error){0};
        CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_FULL, 0, NULL, &a, TD_CF_OUT, 1, &o, &e), big ? TD_E_INVALID : 0);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "overflow"));
    CU_ASSERT(((int8_t *)td_tensor_data(bytes))[3] == 100 && bytes->version->value == 1);
    drop(4, (td_tensor *[]){x, row, whole, bytes});
}

static void views_run_nothing(void)
{
    td_error e = {0};
    td_tensor *x = counting(2, 3), *t = NULL, *many[40], *o = x;
    td_attrs a;
    td_input in = td_in(x);
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    td_attrs_int(&a, 1);
    unsigned before = submitted;
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_TRANSPOSE, 1, &in, &a, 0, 1, &t, &e), 0);
    CU_ASSERT(t->storage == x->storage && t->version == x->version && t->desc.shape[0] == 3 && t->desc.stride[0] == 1);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_TRANSPOSE, 1, &in, &a, TD_CF_OUT, 1, &o, &e), TD_E_INVALID);
    td_tensor *tall = counting(30, 2);
    in = td_in(tall);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_UNBIND, 1, &in, NULL, 0, 20, many, &e), TD_E_INVALID); /* no room for 30 */
    CU_ASSERT_PTR_NULL(many[0]);
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_UNBIND, 1, &in, NULL, 0, 40, many, &e), 0);
    CU_ASSERT(many[29] && at(many[29], 1) == 59 && !many[30]);
    CU_ASSERT_EQUAL(submitted, before + 1); /* the one that filled `tall` */
    drop(30, many);
    drop(3, (td_tensor *[]){x, t, tall});
}

static void waits_and_changes_nothing(void)
{
    td_issuer small = who;
    td_error e = {0};
    td_call *c;
    td_need need = {0};
    uint64_t objects = who.account->objects, bytes = who.account->bytes;
    int64_t n = MIB;
    CU_ASSERT_EQUAL(td_heap_new(&small.heap, &budget, TD_SEGMENT_SESSION, 1, NULL), 0);
    small.counter = 40;
    c = td_call_new(td_op_by_id(TD_OP_RAND), &small, 0, 1, &e);
    td_attrs_ints(&c->attrs, 1, &n);
    td_attrs_dtype(&c->attrs, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_ops_prepare(c, &need, &e), TD_WAIT_GROW);
    CU_ASSERT(need.heap == small.heap && need.bytes >= 4 * MIB && c->out[0] == NULL && c->nout == 1 &&
              small.counter == 40);
    CU_ASSERT(who.account->objects == objects && who.account->bytes == bytes);
    td_segment *s;
    CU_ASSERT_EQUAL(td_heap_reserve(need.heap, need.bytes, &e), 0);
    CU_ASSERT_EQUAL(td_segment_create(&s, TD_SHM_MEMFD, TD_SEGMENT_SESSION, need.bytes, &e), 0);
    td_heap_adopt(need.heap, s);
    CU_ASSERT_EQUAL_FATAL(td_ops_prepare(c, &need, &e), 0);
    CU_ASSERT(small.counter == 41 && c->k.counter == 40);
    td_tensor *t = c->out[0];
    td_call_hold(c);
    CU_ASSERT_EQUAL(t->refs, 2);
    run(&small, c);
    CU_ASSERT(t->refs == 1 && at(t, MIB - 1) == 40);
    td_tensor_unref(t);
    td_heap_free(small.heap);
}

static void quota_and_full(void)
{
    td_error e = {0};
    td_tensor *x = counting(1, 100), *z;
    who.account->limit_bytes = who.account->bytes + 100;
    CU_ASSERT_EQUAL(add(x, td_in(x), NULL, &z, &e), TD_E_QUOTA);
    CU_ASSERT_PTR_NULL(z);
    CU_ASSERT_STRING_EQUAL(e.op, "add");
    who.account->limit_bytes = 0;
    int64_t huge[] = {INT64_C(1) << 36};
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, huge);
    td_attrs_scalar(&a, td_float(0));
    td_attrs_dtype(&a, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_FULL, 0, NULL, &a, 0, 1, &z, &e), TD_E_MEMORY);
    td_tensor_unref(x);
}

static void service_memory(void)
{
    td_attrs a;
    int64_t n = 8;
    td_tensor *t;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n);
    td_attrs_scalar(&a, td_float(3));
    td_attrs_dtype(&a, TD_FLOAT32);
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_FULL, 0, NULL, &a, TD_CF_SERVICE, 1, &t, NULL), 0);
    CU_ASSERT_PTR_EQUAL(td_extent_heap(&t->storage->extent), who.service_heap);
    CU_ASSERT(t->storage->flags & TD_SF_SERVICE);
    CU_ASSERT(t->account == who.service_account && who.service_account->bytes == 64 && at(t, 7) == 3);
    td_tensor_unref(t);
}

static void written_inputs(void)
{
    td_error e = {0};
    td_tensor *p = counting(1, 4), *g = counting(1, 4);
    td_attrs a;
    td_input in[3] = {td_in(p), td_in(g), td_in(NULL)};
    td_attrs_init(&a);
    td_attrs_float(&a, 0.1);
    for (int i = 0; i < 3; i++) td_attrs_float(&a, 0);
    td_attrs_bool(&a, false);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_SGD_STEP, 3, in, &a, 0, 0, NULL, &e), 0);
    CU_ASSERT(p->version->value == 1 && g->version->value == 0);
    int64_t shape[] = {1, 2}, stride[] = {4, 1};
    td_tensor *left = view(p, 2, shape, stride, 0), *over = view(p, 2, shape, stride, 1);
    in[0] = td_in(left);
    in[1] = td_in(over);
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_SGD_STEP, 3, in, &a, 0, 0, NULL, &e), TD_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "'p', which is written, shares memory"));
    CU_ASSERT_EQUAL(p->version->value, 1);
    drop(4, (td_tensor *[]){p, g, left, over});
}

static void running_statistics(void)
{
    int64_t shape[] = {2, 3, 4};
    td_tensor *x = full(TD_FLOAT32, 3, shape, td_float(1)), *mean = vec(TD_FLOAT32, 3, 0), *var = vec(TD_FLOAT32, 3, 1),
              *out[3];
    td_input in[5] = {td_in(x), td_in(NULL), td_in(NULL), td_in(mean), td_in(var)};
    for (int training = 0; training < 2; training++) {
        td_attrs a;
        td_error e = {0};
        td_attrs_init(&a);
        td_attrs_bool(&a, training);
        td_attrs_float(&a, 0.1);
        td_attrs_float(&a, 1e-5);
        CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_BATCH_NORM, 5, in, &a, 0, 3, out, &e), 0);
        CU_ASSERT(mean->version->value == (unsigned)training && var->version->value == (unsigned)training);
        drop(3, out);
    }
    drop(3, (td_tensor *[]){x, mean, var});
}

static void cut(td_call *c)
{
    td_ops_cut_to_count(c);
}

static void data_shaped(void)
{
    td_error e = {0};
    td_tensor *x = vec(TD_FLOAT32, 6, 0);
    ((float *)td_tensor_data(x))[2] = ((float *)td_tensor_data(x))[5] = 1;
    td_call *c = td_call_new(td_op_by_id(TD_OP_NONZERO), &who, 1, 1, &e);
    c->in[0] = td_in(x);
    c->finished = cut;
    CU_ASSERT_EQUAL_FATAL(td_ops_prepare(c, NULL, &e), 0);
    td_tensor *t = c->out[0];
    CU_ASSERT_EQUAL(t->desc.shape[0], 6);
    run(&who, c);
    CU_ASSERT_EQUAL(t->storage->nbytes, 16);
    CU_ASSERT(t->desc.ndim == 2 && t->desc.shape[0] == 2 && t->desc.shape[1] == 1);
    CU_ASSERT(((int64_t *)td_tensor_data(t))[0] == 2 && ((int64_t *)td_tensor_data(t))[1] == 5);
    drop(2, (td_tensor *[]){x, t});
}

static td_error heard;
static void hear(td_call *c)
{
    heard = (td_error){0};
    td_call_error(c, &heard);
}

static void failures_are_told(void)
{
    td_error e = {0};
    td_tensor *x = counting(1, 3);
    for (int given = 0; given < 2; given++) {
        td_call *c = td_call_new(td_op_by_id(TD_OP_ADD), &who, 2, 1, &e);
        c->in[0] = c->in[1] = td_in(x);
        td_attrs_scalar(&c->attrs, td_int(1));
        c->finished = hear;
        CU_ASSERT_EQUAL_FATAL(td_ops_prepare(c, NULL, &e), 0);
        td_tensor *z = c->out[0];
        if (given) { /* a cause from before goes first */
            td_error first = {.code = TD_E_CLOSED, .op = "recv", .message = "gone"};
            c->cause = td_cause_new(&first);
        }
        fail_next = true;
        strcpy(who.where, "elsewhere");
        run(&who, c);
        strcpy(who.where, "train.c:41");
        td_tensor_unref(z);
        CU_ASSERT_EQUAL(heard.code, given ? TD_E_CLOSED : TD_E_INDEX);
        CU_ASSERT_STRING_EQUAL(heard.op, given ? "recv" : "add");
        if (!given) CU_ASSERT_STRING_EQUAL(heard.where, "train.c:41"); /* where it was called, not what is served now */
    }
    td_tensor_unref(x);
}

static void many_operands(void)
{
    enum { N = 100 };
    td_error e = {0};
    td_tensor *x = counting(1, 3), *z;
    td_input in[N];
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    for (int i = 0; i < N; i++) in[i] = td_in(x);
    CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, TD_OP_CAT, N, in, &a, 0, 1, &z, &e), 0);
    CU_ASSERT(z->desc.shape[0] == N && z->desc.shape[1] == 3);
    CU_ASSERT_PTR_NULL(td_call_new(td_op_by_id(TD_OP_CAT), &who, TD_MAX_INPUTS + 1, 1, &e));
    drop(2, (td_tensor *[]){x, z});
}

TD_CUNIT_MAIN_WITH("ops", setup, teardown, {"makes outputs", makes_outputs}, {"the same again", the_same_again},
                   {"others between", others_between}, {"attributes between", attributes_between},
                   {"given again", given_again}, {"views again", views_again},
                   {"numbers stay exact", numbers_stay_exact}, {"numbers by value", numbers_by_value},
                   {"plans by device", plans_by_device}, {"in place", in_place},
                   {"what cannot be written", what_cannot_be_written}, {"interleaved is apart", interleaved_is_apart},
                   {"overlap is exact", overlap_is_exact}, {"through a temporary", through_a_temporary},
                   {"copy and fill", copy_and_fill}, {"views run nothing", views_run_nothing},
                   {"waits and changes nothing", waits_and_changes_nothing}, {"quota and full memory", quota_and_full},
                   {"service memory", service_memory}, {"written inputs", written_inputs},
                   {"running statistics", running_statistics}, {"data-shaped", data_shaped},
                   {"failures are told", failures_are_told}, {"many operands", many_operands})
