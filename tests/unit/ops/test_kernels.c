/* Ops on tensors with the daemon's own kernels: that preparing and kernels agree about layouts, dtypes, numbers and
 * destinations. */
#include "daemon/ops/ops.h"
#include "daemon/tensor/device.h"
#include "proto/ops/opid.h"
#include "tests/unit/cunit_main.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static td_budget budget;
static td_issuer who;

static void run(td_issuer *w, td_call *c)
{
    (void)w;
    void *scratch = aligned_alloc(64, (c->k.scratch_bytes + 127) & ~(size_t)63);
    c->k.work = aligned_alloc(64, (c->k.work_bytes + 127) & ~(size_t)63);
    for (int p = 0; p < c->k.nphases; p++)
        for (int64_t i = 0; i < c->k.phase[p].chunks; i++) c->k.phase[p].fn(&c->k, i, scratch);
    if (atomic_load(&c->k.failed)) printf("%s: %s\n", c->op->name, c->k.error.message);
    CU_ASSERT_EQUAL(c->k.failed, 0);
    free(c->k.work);
    free(scratch);
    if (c->finished) c->finished(c);
    td_call_free(c);
}

static int setup(void)
{
    td_cpu_init();
    td_cpu_thread_init();
    td_budget_init(&budget, UINT64_C(1) << 28, TD_SHM_MEMFD);
    td_device_add(
        &(td_device_entry){.number = TD_CPU, .memory = &td_cpu_memory, .budget = &budget, .plans = td_cpu_plans});
    who.account = td_account_new(NULL);
    who.submit = run;
    who.seed = 1;
    return td_heap_new(&who.heap, &budget, TD_SEGMENT_SESSION, 1, NULL);
}

static int teardown(void)
{
    td_account_unref(who.account);
    td_heap_free(who.heap);
    td_budget_deinit(&budget);
    td_live l = td_live_counts();
    return l.tensors || l.storages || l.causes || l.accounts || l.bytes;
}

/* Run one op with one output; `into` is given or NULL. */
static td_tensor *op(unsigned id, int nin, const td_input *in, const td_attrs *a, td_tensor *into)
{
    td_error e = {0};
    td_tensor *out = into;
    int err = td_ops_run(&who, id, nin, in, a, into ? TD_CF_OUT : 0, 1, &out, &e);
    if (err) printf("%s: %s\n", e.op, e.message);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return out;
}

static td_tensor *full(td_dtype t, int64_t rows, int64_t cols, td_scalar v, td_tensor *into)
{
    td_attrs a;
    int64_t shape[2] = {rows, cols};
    td_attrs_init(&a);
    td_attrs_ints(&a, 2, shape);
    td_attrs_scalar(&a, v);
    td_attrs_dtype(&a, t);
    return op(TD_OP_FULL, 0, NULL, &a, into);
}

static td_tensor *counting(int64_t rows, int64_t cols)
{
    td_tensor *t = full(TD_FLOAT32, rows, cols, td_float(0), NULL);
    for (int64_t i = 0; i < rows * cols; i++) ((float *)td_tensor_data(t))[i] = (float)i;
    return t;
}

static td_tensor *turned(td_tensor *of)
{
    td_attrs a;
    td_input in = td_in(of);
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    td_attrs_int(&a, 1);
    return op(TD_OP_TRANSPOSE, 1, &in, &a, NULL);
}

static double value(const td_tensor *t, int64_t i, int64_t j)
{
    size_t size = td_dtype_size((td_dtype)t->desc.dtype);
    td_scalar s =
        td_scalar_load((td_dtype)t->desc.dtype,
                       (char *)td_tensor_data(t) + (size_t)(i * t->desc.stride[0] + j * t->desc.stride[1]) * size);
    return s.kind <= TD_S_INT ? (double)s.i : s.re;
}

static void drop(int n, td_tensor **t)
{
    for (int i = 0; i < n; i++) td_tensor_unref(t[i]);
}

static void pointwise(void)
{
    td_tensor *x = counting(3, 4), *row = counting(1, 4), *t = turned(x), *sum, *back;
    sum = op(TD_OP_ADD, 2, (td_input[]){td_in(x), td_in(row)}, NULL, NULL);
    CU_ASSERT(value(sum, 2, 3) == 14 && value(sum, 1, 0) == 4);
    op(TD_OP_MUL, 2, (td_input[]){td_in(t), td_in_number(td_int(2))}, NULL, t); /* through a turned view, in place */
    CU_ASSERT(value(x, 2, 3) == 22 && value(x, 0, 1) == 2);
    op(TD_OP_ADD, 2, (td_input[]){td_in(x), td_in(row)}, NULL, x);
    CU_ASSERT(value(x, 1, 2) == 14 && x->version->value == 2);
    back = op(TD_OP_COPY, 1, (td_input[]){td_in(t)}, NULL, NULL);
    CU_ASSERT(back->desc.shape[0] == 4 && value(back, 3, 2) == value(x, 2, 3));
    drop(5, (td_tensor *[]){x, row, t, sum, back});
}

static void dtypes(void)
{
    td_tensor *i = full(TD_INT64, 2, 2, td_int((INT64_C(1) << 62) + 1), NULL),
              *d = full(TD_FLOAT64, 2, 2, td_float(0), NULL), *small = full(TD_INT8, 2, 2, td_int(100), NULL),
              *half = full(TD_FLOAT16, 2, 2, td_float(1.5), NULL), *next, *less;
    next = op(TD_OP_ADD, 2, (td_input[]){td_in(i), td_in_number(td_int(2))}, NULL, NULL);
    CU_ASSERT_EQUAL(((int64_t *)td_tensor_data(next))[3], (INT64_C(1) << 62) + 3);
    op(TD_OP_ADD, 2, (td_input[]){td_in(small), td_in_number(td_int(100))}, NULL, small); /* wraps */
    CU_ASSERT_EQUAL(value(small, 1, 1), -56);
    op(TD_OP_ADD, 2, (td_input[]){td_in(half), td_in_number(td_float(0.25))}, NULL, d); /* out= of a wider dtype */
    CU_ASSERT_EQUAL(value(d, 0, 0), 1.75);
    less = op(TD_OP_LT, 2, (td_input[]){td_in(small), td_in_number(td_int(0))}, NULL, NULL);
    CU_ASSERT(less->desc.dtype == TD_BOOL && value(less, 1, 0) == 1);
    drop(6, (td_tensor *[]){i, d, small, half, next, less});
}

static void destinations(void)
{
    td_tensor *x = counting(2, 2), *wide = full(TD_FLOAT64, 2, 2, td_float(0), NULL), *t = turned(wide),
              *same = counting(2, 2);
    td_input in[2] = {td_in(x), td_in(same)};
    op(TD_OP_MM, 2, in, NULL, t); /* another dtype and layout: through a temporary */
    CU_ASSERT(value(wide, 0, 1) == 6 && value(wide, 1, 0) == 3 && value(wide, 1, 1) == 11);
    op(TD_OP_MM, 2, in, NULL, x); /* onto an input */
    CU_ASSERT(value(x, 0, 0) == 2 && value(x, 0, 1) == 3 && value(x, 1, 0) == 6 && value(x, 1, 1) == 11);
    in[0] = td_in(wide);
    op(TD_OP_COPY, 1, in, NULL, x);
    CU_ASSERT(value(x, 0, 1) == 6);
    td_tensor *view = turned(x);
    full(TD_FLOAT32, 2, 2, td_int(7), view); /* fill_ */
    CU_ASSERT(value(x, 0, 0) == 7 && value(x, 1, 1) == 7);
    drop(5, (td_tensor *[]){x, wide, t, same, view});
}

static void random_numbers(void)
{
    if (!td_cpu_plans[TD_OP_RAND]) {
        td_test_skip("rand has no CPU kernel");
        return;
    }
    td_attrs a;
    int64_t shape[2] = {100, 10};
    td_attrs_init(&a);
    td_attrs_ints(&a, 2, shape);
    td_attrs_dtype(&a, TD_FLOAT32);
    td_tensor *x = op(TD_OP_RAND, 0, NULL, &a, NULL), *y = op(TD_OP_RAND, 0, NULL, &a, NULL),
              *z = full(TD_FLOAT32, 100, 10, td_int(0), NULL);
    CU_ASSERT_EQUAL(who.counter, 2);
    CU_ASSERT(memcmp(td_tensor_data(x), td_tensor_data(y), 4000) != 0);
    who.counter = 1;
    op(TD_OP_RAND, 0, NULL, &a, z); /* uniform_: the same number of the same stream */
    CU_ASSERT(!memcmp(td_tensor_data(z), td_tensor_data(y), 4000));
    double sum = 0;
    for (int i = 0; i < 1000; i++) sum += value(x, i / 10, i % 10);
    CU_ASSERT(fabs(sum / 1000 - 0.5) < 0.05);
    drop(3, (td_tensor *[]){x, y, z});
}

static void cut(td_call *c)
{
    td_ops_cut_to_count(c);
}

/* What is not zero in `x`: one row each. */
static td_tensor *places(td_tensor *x)
{
    td_error e = {0};
    td_call *c = td_call_new(td_op_by_id(TD_OP_NONZERO), &who, 1, 1, &e);
    c->in[0] = td_in(x);
    c->finished = cut;
    CU_ASSERT_EQUAL_FATAL(td_ops_prepare(c, NULL, &e), 0);
    td_tensor *found = c->out[0];
    run(&who, c);
    return found;
}

/* A number that is not zero has one place, which has no coordinates. */
static void places_of_a_number(void)
{
    for (int v = 0; v < 2; v++) {
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_ints(&a, 0, NULL);
        td_attrs_scalar(&a, td_float(v));
        td_attrs_dtype(&a, TD_FLOAT32);
        td_tensor *x = op(TD_OP_FULL, 0, NULL, &a, NULL), *t = places(x);
        CU_ASSERT(t->desc.ndim == 2 && t->desc.shape[0] == v && t->desc.shape[1] == 0);
        drop(2, (td_tensor *[]){x, t});
    }
}

static void data_shaped(void)
{
    td_tensor *x = full(TD_FLOAT32, 300, 300, td_float(0), NULL);
    ((float *)td_tensor_data(x))[5] = ((float *)td_tensor_data(x))[601] = 1;
    td_tensor *t = places(x);
    const int64_t *p = td_tensor_data(t);
    CU_ASSERT(t->desc.shape[0] == 2 && t->desc.shape[1] == 2 && t->storage->nbytes == 32);
    CU_ASSERT(p[0] == 0 && p[1] == 5 && p[2] == 2 && p[3] == 1);
    drop(2, (td_tensor *[]){x, t});
}

/* A dimension of one element may have any stride, and no kernel computes an address from it: each op on [2, 1, 3] with
 * odd strides there gives the bytes of the one on a plain tensor. */
static void strides_of_one(void)
{
    static const unsigned ops[] = {TD_OP_ADD,     TD_OP_SUM,    TD_OP_VAR,         TD_OP_CUMSUM, TD_OP_SORT,
                                   TD_OP_SOFTMAX, TD_OP_ARGMAX, TD_OP_LOG_SOFTMAX, TD_OP_REPEAT, TD_OP_ABS};
    static const int64_t shape[] = {2, 1, 3}, plain[] = {3, 3, 1}, odd[] = {3, INT64_MAX, 1}, twice[] = {1, 2, 1};
    td_tensor *x = counting(3, 4);
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (int dim = 1; dim < 3; dim++) {
            td_tensor *out[2][2] = {{NULL}}, *view[2];
            const td_op *def = td_op_by_id(ops[k]);
            int nout = ops[k] == TD_OP_SORT ? 2 : 1;
            for (int i = 0; i < 2; i++) {
                td_attrs a;
                td_error e = {0};
                td_attrs_init(&a);
                td_attrs_ints(&a, 3, shape);
                td_attrs_ints(&a, 3, i ? odd : plain);
                td_attrs_int(&a, 2);
                view[i] = op(TD_OP_AS_STRIDED, 1, (td_input[]){td_in(x)}, &a, NULL);
                td_attrs_init(&a);
                if (ops[k] == TD_OP_REPEAT) td_attrs_ints(&a, 3, twice);
                else if (def->nattrs && def->attrs[0].kind == TD_A_INTS) td_attrs_ints(&a, 1, (int64_t[]){dim});
                else if (def->nattrs && def->attrs[0].kind == TD_A_INT) td_attrs_int(&a, dim);
                for (int j = a.count; j < def->nattrs; j++) a.at[a.count++] = def->attrs[j].value;
                int nin = ops[k] == TD_OP_ADD ? 2 : 1;
                CU_ASSERT_EQUAL_FATAL(td_ops_run(&who, ops[k], nin, (td_input[]){td_in(view[i]), td_in(view[i])}, &a, 0,
                                                 nout, out[i], &e),
                                      0);
            }
            for (int o = 0; o < nout; o++)
                CU_ASSERT(
                    !memcmp(td_tensor_data(out[0][o]), td_tensor_data(out[1][o]), td_desc_nbytes(&out[0][o]->desc)));
            drop(2, view);
            for (int i = 0; i < 2; i++) drop(nout, out[i]);
        }
    drop(1, &x);
}

static void steps(void)
{
    td_error e = {0};
    td_tensor *p = counting(4, 8), *g = full(TD_FLOAT32, 4, 8, td_float(2), NULL);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_float(&a, 0.5);
    for (int i = 0; i < 3; i++) td_attrs_float(&a, 0);
    td_attrs_bool(&a, false);
    td_input in[3] = {td_in(p), td_in(g), td_in(NULL)};
    CU_ASSERT_EQUAL(td_ops_run(&who, TD_OP_SGD_STEP, 3, in, &a, 0, 0, NULL, &e), 0);
    CU_ASSERT(value(p, 0, 5) == 4 && p->version->value == 1);
    drop(2, (td_tensor *[]){p, g});
}

static td_tensor *images(int64_t n, int64_t c, int64_t h, int64_t w)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 4, (int64_t[]){n, c, h, w});
    td_attrs_scalar(&a, td_float(1));
    td_attrs_dtype(&a, TD_FLOAT32);
    return op(TD_OP_FULL, 0, NULL, &a, NULL);
}

static int convolve(td_tensor *x, td_tensor *w, td_tensor **out, td_need *need)
{
    td_error e = {0};
    td_attrs a;
    td_input in[3] = {td_in(x), td_in(w), td_in(NULL)};
    td_attrs_init(&a);
    for (int i = 0; i < 3; i++) td_attrs_ints(&a, 2, (int64_t[]){i != 1, i != 1});
    td_attrs_int(&a, 1);
    return td_ops_try(&who, TD_OP_CONV2D, 3, in, &a, 0, 1, out, need, &e);
}

/* As who can wait does: what it wishes for is made until it has none left. How often that was. */
static int convolve_waiting(td_tensor *x, td_tensor *w, td_tensor **out)
{
    td_need need = {0};
    int made = 0, err;
    while ((err = convolve(x, w, out, &need)) == TD_WAIT_GROW && made < 9) {
        td_need_work work = td_need_take_work(&need);
        CU_ASSERT_PTR_NOT_NULL_FATAL(work.make);
        work.make(work.arg);
        free(work.arg);
        made++;
    }
    CU_ASSERT_EQUAL_FATAL(err, TD_OK);
    return made;
}

/* A small convolution multiplies by OpenBLAS in its chunks, which the loop may run itself: so its plan wishes for that.
 */
static void a_library_for_chunks(void)
{
    td_tensor *w = images(2, 3, 3, 3), *x = images(1, 3, 8, 8), *out;
    bool loaded = !strstr(td_cpu_describe(), "OpenBLAS not loaded");
    CU_ASSERT_EQUAL(convolve_waiting(x, w, &out) > 0, !loaded);
    CU_ASSERT_EQUAL(*(const float *)td_tensor_data(out), 27);
    CU_ASSERT_PTR_NULL(strstr(td_cpu_describe(), "OpenBLAS not loaded"));
    drop(3, (td_tensor *[]){w, x, out});
}

/* A library, the code of a convolution: who can wait gets them wished for and has them made; who cannot gets them. */
static void wishes(void)
{
    td_tensor *w = images(32, 32, 3, 3), *x[2] = {images(2, 32, 21, 19), images(2, 32, 19, 21)}, *out[3];
    int made = convolve_waiting(x[0], w, &out[0]);
    CU_ASSERT(made == 1 || made == 2); /* the library may be there from before */
    CU_ASSERT_EQUAL(convolve_waiting(x[0], w, &out[1]), 0);
    CU_ASSERT_EQUAL(convolve(x[1], w, &out[2], NULL), TD_OK);
    CU_ASSERT_FALSE(td_kernel_wishes());
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(*(const float *)td_tensor_data(out[i]), 288);
    drop(3, out);
    drop(3, (td_tensor *[]){w, x[0], x[1]});
}

/* What was wished for is given up: it is neither in the way of a caller that cannot wait, nor taken for the wish of the
 * next. */
static void wishes_given_up(void)
{
    td_tensor *w = images(32, 32, 3, 3), *out[2];
    td_tensor *x[3] = {images(2, 32, 23, 19), images(2, 32, 19, 23), images(2, 32, 23, 23)};
    td_need need = {0};
    CU_ASSERT_EQUAL(convolve(x[0], w, &out[0], &need), TD_WAIT_GROW);
    CU_ASSERT_PTR_NOT_NULL(need.work.make);
    td_need_drop(&need);
    CU_ASSERT_EQUAL_FATAL(convolve(x[1], w, &out[0], NULL), TD_OK);
    CU_ASSERT_EQUAL(convolve_waiting(x[2], w, &out[1]), 1);
    drop(2, out);
    drop(1, &w);
    drop(3, x);
}

TD_CUNIT_MAIN_WITH("ops_kernels", setup, teardown, {"a library for chunks", a_library_for_chunks},
                   {"pointwise", pointwise}, {"dtypes", dtypes}, {"destinations", destinations},
                   {"random numbers", random_numbers}, {"data-shaped", data_shaped},
                   {"places of a number", places_of_a_number}, {"strides of one", strides_of_one}, {"steps", steps},
                   {"wishes", wishes}, {"wishes given up", wishes_given_up})
