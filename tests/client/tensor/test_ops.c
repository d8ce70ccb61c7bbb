/* libtensord against a real daemon: values, memory, errors, autograd. */
#include "tests/client/common.h"

#include <math.h>
#include <stdlib.h>

static td_client *c;
static td_scope scope;

static void begin(void)
{
    c = join();
    td_scope_begin(&scope);
}

/* Nothing may be left in the daemon, and no error untold. */
static void end(void)
{
    td_scope_end(&scope);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    CU_ASSERT_TRUE(comes_to(c, "nodes", 0));
    td_disconnect(c);
}

static td_array *floats(td_ints shape, const float *v)
{
    return td_from_data(c, TD_FLOAT32, shape, v);
}
#define FLOATS(shape, ...) floats(shape, (float[]){__VA_ARGS__})

static void arithmetic(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 1, 2, 3, 4, 5, 6), *row = FLOATS(td_dims(3), 10, 20, 30);
    CHECK_VALUES(td_add(x, row), 11, 22, 33, 14, 25, 36);
    CHECK_VALUES(td_sub(10, x, 2), 8, 6, 4, 2, 0, -2);
    CHECK_VALUES(td_mul(x, td_add(x, 1.5)), 2.5, 7, 13.5, 22, 32.5, 45);
    CHECK_VALUES(td_div(x, 4), 0.25, 0.5, 0.75, 1, 1.25, 1.5);
    CHECK_VALUES(td_neg(td_transpose(x, 0, 1)), -1, -4, -2, -5, -3, -6);
    CHECK_VALUES(td_where(td_gt(x, 3), x, 0), 0, 0, 0, 4, 5, 6);
    CHECK_VALUES(td_clamp(x, 2, 5), 2, 2, 3, 4, 5, 5);
    CHECK_VALUES(td_clamp(x, td_none(), 5), 1, 2, 3, 4, 5, 5);
    CU_ASSERT_EQUAL(td_dtype_of(td_add(td_to(x, TD_INT32), 5)), TD_INT32);
    CU_ASSERT_EQUAL(td_dtype_of(td_add(td_to(x, TD_INT64), 1.0)), TD_FLOAT32);
    CHECK_VALUES(td_mm(x, td_t(x)), 14, 32, 32, 77);
    CHECK_VALUES(td_matmul(x, row), 140, 320);
    CHECK_VALUES(td_cat(td_arrays(row, row)), 10, 20, 30, 10, 20, 30);
    CHECK_VALUES(td_arange(c, 0, 3, 1, TD_INT64), 0, 1, 2);
    end();
}

/* More tensors than one record holds, with gradients and without. */
static void joins_of_any_length(void)
{
    enum { N = 3000 };
    td_array *list[N], *y[3];
    float v[2 * N];
    begin();
    for (int i = 0; i < N; i++) list[i] = td_full(c, td_dims(2), (double)i, i % 1000 ? TD_FLOAT32 : TD_INT64);
    for (int grad = 0; grad < 2; grad++) {
        td_set_grad_enabled(grad);
        y[0] = td_stack(td_arrays_of(N, list));
        y[1] = td_cat(td_arrays_of(N, list));
        y[2] = td_zeros(c, td_dims(2, N), TD_FLOAT32);
        CU_ASSERT_EQUAL(td_stack_out(y[2], td_arrays_of(N, list), 1), TD_OK);
        for (int k = 0; k < 3; k++) {
            CU_ASSERT_EQUAL_FATAL(td_read(y[k], v, sizeof v), TD_OK);
            for (int i = 0; i < N; i++) CU_ASSERT_EQUAL(v[k < 2 ? 2 * i + 1 : N + i], (float)i);
        }
    }
    CU_ASSERT_EQUAL(td_shape(y[0])[0], N);
    list[2500] = td_ones(c, td_dims(3), TD_FLOAT32);
    CHECK_FAILS(td_stack(td_arrays_of(N, list)), TD_E_SHAPE, "at entry 2500 of");
    list[2500] = NULL;
    CHECK_FAILS(td_cat(td_arrays_of(N, list)), TD_E_INVALID, "xs is NULL");
    CHECK_FAILS(td_cat(td_arrays_of(-1, list)), TD_E_INVALID, "");
    end();
}

/* Pieces of a long list that are [0] alone join with anything, along any dimension. */
static void joins_of_nothing(void)
{
    enum { N = 3000 };
    td_array *list[N];
    float v[4];
    begin();
    td_array *none = td_zeros(c, td_dims(0), TD_FLOAT32), *two = FLOATS(td_dims(2, 1), 1, 2);
    for (int i = 0; i < N; i++) list[i] = i == 1500 || i == N - 1 ? two : none;
    for (int grad = 0; grad < 2; grad++) {
        td_set_grad_enabled(grad);
        td_array *wide = td_cat(td_arrays_of(N, list), 1), *high = td_cat(td_arrays_of(N, list));
        CU_ASSERT_EQUAL_FATAL(td_read(wide, v, sizeof v), TD_OK);
        CU_ASSERT(td_shape(wide)[1] == 2 && v[0] == 1 && v[1] == 1 && v[2] == 2 && v[3] == 2);
        CU_ASSERT_EQUAL_FATAL(td_read(high, v, sizeof v), TD_OK);
        CU_ASSERT(td_shape(high)[0] == 4 && v[0] == 1 && v[1] == 2 && v[2] == 1 && v[3] == 2);
    }
    for (int i = 0; i < N; i++) list[i] = none;
    td_array *stacked = td_stack(td_arrays_of(N, list)), *flat = td_cat(td_arrays_of(N, list));
    CU_ASSERT(td_ndim(stacked) == 2 && td_shape(stacked)[0] == N && td_shape(stacked)[1] == 0);
    CU_ASSERT(td_ndim(flat) == 1 && td_shape(flat)[0] == 0);
    end();
}

/* Calls that differ in one thing only, in turn: none may be taken for the one before. */
static void similar_calls_differ(void)
{
    begin();
    td_array *f = FLOATS(td_dims(2, 2), 1, 2, 3, 4), *i = td_to(f, TD_INT32), *row = FLOATS(td_dims(2), 10, 20);
    td_array *d = td_to(f, TD_FLOAT64), *none = td_zeros(c, td_dims(0, 2), TD_FLOAT32);
    for (int round = 0; round < 3; round++) {
        CHECK_VALUES(td_add(f, f), 2, 4, 6, 8);
        CHECK_VALUES(td_add(f, f, 2), 3, 6, 9, 12);
        CHECK_VALUES(td_add(f, row), 11, 22, 13, 24);
        CHECK_VALUES(td_add(row, f), 11, 22, 13, 24);
        CHECK_VALUES(td_add(f, td_transpose(f, 0, 1)), 2, 5, 5, 8);
        CHECK_VALUES(td_add(row, row), 20, 40);
        CHECK_VALUES(td_add(f, 1), 2, 3, 4, 5);
        CHECK_VALUES(td_add(f, 1.5), 2.5, 3.5, 4.5, 5.5);
        CHECK_VALUES(td_add(f, 1.5L), 2.5, 3.5, 4.5, 5.5);
        CHECK_VALUES(td_add(1, f, 3), 4, 7, 10, 13);
        CU_ASSERT_EQUAL(td_dtype_of(td_add(i, 1)), TD_INT32);
        CU_ASSERT_EQUAL(td_dtype_of(td_add(i, 1.0)), TD_FLOAT32);
        CU_ASSERT_EQUAL(td_dtype_of(td_add(i, f)), TD_FLOAT32);
        CU_ASSERT_EQUAL(td_dtype_of(td_add(f, d)), TD_FLOAT64);
        CU_ASSERT_EQUAL(td_dtype_of(td_add(f, f)), TD_FLOAT32);
        CU_ASSERT_EQUAL(td_ndim(td_add(td_select(row, 0, 0), 1)), 0);
        CU_ASSERT_EQUAL(td_numel(td_add(none, none)), 0);
        CU_ASSERT_PTR_NULL(td_add(f, none));
        td_clear_error();
        CHECK_VALUES(td_pow(i, 2), 1, 4, 9, 16);
        CU_ASSERT_PTR_NULL(td_pow(i, -1));
        td_clear_error();
        CHECK_VALUES(td_pow(i, 3), 1, 8, 27, 64);
        CHECK_VALUES(td_sum(f), 10);
        CHECK_VALUES(td_sum(f, td_dims(0)), 4, 6);
        CHECK_VALUES(td_sum(f, td_dims(1)), 3, 7);
        CHECK_VALUES(td_sum(td_transpose(f, 0, 1), td_dims(1)), 4, 6);
        CHECK_VALUES(td_full(c, td_dims(2), round, TD_FLOAT32), round, round);
        CHECK_VALUES(td_clamp(f, 2, 3), 2, 2, 3, 3);
        CHECK_VALUES(td_clamp(f, td_none(), 3), 1, 2, 3, 3);
        CHECK_VALUES(td_clamp(f, 2, td_none()), 2, 2, 3, 4);
        CHECK_VALUES(td_clamp(f, 2.5, td_none()), 2.5, 2.5, 3, 4);
        CU_ASSERT_EQUAL(td_add_(row, row), TD_OK);
        CU_ASSERT_EQUAL(td_mul_(row, 0.5), TD_OK);
    }
    end();
}

static void in_place(void)
{
    begin();
    td_array *x = td_zeros(c, td_dims(2, 3), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_add_(x, 2), TD_OK);
    CU_ASSERT_EQUAL(td_mul_(td_select(x, 0, 1), 3), TD_OK);
    CHECK_VALUES(x, 2, 2, 2, 6, 6, 6);
    CU_ASSERT_EQUAL(td_fill_(td_slice(x, 1, 0, 1), 9), TD_OK);
    CHECK_VALUES(x, 9, 2, 2, 9, 6, 6);
    td_array *out = td_empty(c, td_dims(2, 3), TD_FLOAT64);
    CU_ASSERT_EQUAL(td_exp_out(out, td_zeros_like(x)), TD_OK);
    CHECK_VALUES(out, 1, 1, 1, 1, 1, 1);
    CU_ASSERT_EQUAL(td_copy_(x, FLOATS(td_dims(3), 1, 2, 3)), TD_OK);
    CHECK_VALUES(x, 1, 2, 3, 1, 2, 3);
    CU_ASSERT_EQUAL(td_zero_(x), TD_OK);
    CHECK_VALUES(x, 0, 0, 0, 0, 0, 0);
    CHECK_FAILS(td_add_(td_expand(td_zeros(c, td_dims(1), TD_FLOAT32), td_dims(4)), 1), TD_E_INVALID,
                "single memory location");
    end();
}

static void memory(void)
{
    if (is_away()) return;
    begin();
    int n = 300000;
    td_lease *l = td_lease_new(c, (size_t)n * 4 + 80);
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    float *p = td_lease_data(l);
    for (int i = 0; i < n; i++) p[i] = (float)i;
    int64_t *labels = (int64_t *)(void *)(p + n);
    for (int i = 0; i < 10; i++) labels[i] = i * i;
    td_array *a = td_put(l, 0, TD_FLOAT32, td_dims(300, 1000)), *b = td_put(l, (size_t)n * 4, TD_INT64, td_dims(10));
    td_lease_free(l);
    CHECK_VALUES(b, 0, 1, 4, 9, 16, 25, 36, 49, 64, 81);
    CHECK_VALUES(td_slice(td_select(td_add(a, 1), 0, 299), 0, 997), 299998, 299999, 300000);
    const float *q = td_data(td_mul(a, 2));
    CU_ASSERT_PTR_NOT_NULL_FATAL(q);
    CU_ASSERT_EQUAL(q[299999], 599998);
    float *copy = malloc((size_t)n * 4);
    CU_ASSERT_EQUAL(td_read(td_transpose(a, 0, 1), copy, (size_t)n * 4), TD_OK);
    CU_ASSERT_EQUAL(copy[1], 1000);
    CU_ASSERT_EQUAL(copy[n - 2], 298999);
    free(copy);
    td_array *w = td_ones(c, td_dims(4), TD_FLOAT32);
    float *at = td_write_begin(w, -1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at[3] = 5;
    CU_ASSERT_EQUAL(td_write_end(w), TD_OK);
    CHECK_VALUES(td_add(w, 1), 2, 2, 2, 6);
    CU_ASSERT_EQUAL(td_numel(td_zeros(c, td_dims(0, 3), TD_FLOAT32)), 0);
    CU_ASSERT_EQUAL(td_read(td_zeros(c, td_dims(0, 3), TD_FLOAT32), NULL, 0), TD_OK);
    end();
}

/* Refused for want of time? If not, it is had, and ended. */
static bool is_refused(td_array *x, int ms)
{
    td_clear_error();
    if (td_write_begin(x, ms)) return td_write_end(x), false;
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_TIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "pending tasks"));
    td_clear_error();
    return true;
}

/* While what many sums are made of is read, it cannot be had for writing; whoever gives up changes nothing. A test that
 * stands still for so long that they end meanwhile tries again. */
static void writing_in_time(void)
{
    if (is_away()) return;
    begin();
    td_array *x = td_ones(c, td_dims(2048, 2048), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_PTR_NOT_NULL(td_write_begin(x, 0)); /* nothing to wait for */
    CU_ASSERT_EQUAL(td_write_end(x), TD_OK);
    td_info before = {0}, after = {0};
    bool refused = false;
    for (int tries = 0; tries < 20 && !refused; tries++) {
        CU_ASSERT_EQUAL(td_get_info(x, &before), TD_OK);
        for (int i = 0; i < 1000; i++) td_release(td_keep(td_sum(x)));
        refused = is_refused(x, 5) && is_refused(x, 0); /* so it did not wait for all of them */
    }
    CU_ASSERT_TRUE(refused);
    CU_ASSERT_EQUAL(td_get_info(x, &after), TD_OK);
    CU_ASSERT_EQUAL(after.version, before.version);
    float *p = td_write_begin(x, -1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    p[0] = 7;
    CU_ASSERT_EQUAL(td_write_end(x), TD_OK);
    CU_ASSERT_EQUAL(td_item_f64(td_amax(x)), 7);
    CU_ASSERT_EQUAL(td_get_info(x, &after), TD_OK);
    CU_ASSERT_EQUAL(after.version, before.version + 1);
    end();
}

static void steady_puts_wait_for_nobody(void)
{
    begin();
    for (int i = 0; i < 50; i++) {
        td_scope round;
        td_scope_begin(&round);
        td_lease *l = td_lease_new(c, 1 << 20);
        CU_ASSERT_PTR_NOT_NULL_FATAL(l);
        ((float *)td_lease_data(l))[77] = (float)i;
        td_array *x = td_put(l, 0, TD_FLOAT32, td_dims(1 << 18));
        td_lease_free(l);
        CU_ASSERT_EQUAL(((const float *)td_data(x))[77], (float)i);
        CU_ASSERT_EQUAL(td_item_f64(td_select(x, 0, 77)), i);
        td_scope_end(&round);
    }
    CU_ASSERT_TRUE(status_of(c, "bytes_used") < 6 << 20);
    CU_ASSERT_TRUE(status_of(c, "bytes_committed") < 24 << 20); /* of 50 MB that were put; segments double */
    end();
}

/* Ids go with a get for as many tensors as the last item had; more is no failure. */
static void items_of_all_sizes(void)
{
    static const int sizes[] = {1, 1, 5, 0, 3, 3, 64, 2};
    begin();
    td_queue *q = td_queue_open(c, "sizes", 8, TD_PRODUCER | TD_CONSUMER);
    CU_ASSERT_PTR_NOT_NULL_FATAL(q);
    td_array *at[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int k = 0; k < sizes[i]; k++) at[k] = td_full(c, td_dims(1), (double)(100 * (int)i + k), TD_FLOAT32);
        td_list l = {sizes[i], at};
        CU_ASSERT_EQUAL(td_queue_put(q, l, "note", 5, TEST_LONG_MS), TD_OK);
        for (int k = 0; k < sizes[i]; k++) td_release(at[k]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        td_queue_item item;
        CU_ASSERT_EQUAL_FATAL(td_queue_get(q, &item, TEST_LONG_MS), TD_OK);
        CU_ASSERT_EQUAL_FATAL(item.n, sizes[i]);
        CU_ASSERT_STRING_EQUAL(item.note, "note");
        for (int k = 0; k < item.n; k++) CU_ASSERT_EQUAL(td_item_f64(item.at[k]), 100 * (int)i + k);
        td_queue_item_clear(&item);
    }
    td_queue_close(q, true);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    end();
}

/* What is let go of after the client was disconnected, in any order; the sanitizer watches. */
static void handles_outlive_their_client(void)
{
    for (int order = 0; order < 6; order++) {
        td_client *mine = join();
        td_lease *l = td_lease_new(mine, 4096);
        td_array *x = td_put(l, 64, TD_FLOAT32, td_dims(4));
        td_queue *q = td_queue_open(mine, "outlives", 2, TD_PRODUCER);
        CU_ASSERT_TRUE_FATAL(l && x && q);
        td_disconnect(mine);
        for (int k = 0; k < 3; k++) {
            int what = order < 3 ? (order + k) % 3 : (order - k) % 3;
            if (what == 0) td_lease_free(l);
            else if (what == 1) td_release(x);
            else CU_ASSERT_EQUAL(td_queue_close(q, false), TD_E_LOST);
        }
    }
}

static void errors_late_and_early(void)
{
    begin();
    td_array *x = FLOATS(td_dims(3), 1, 2, 3);
    int64_t bad[2] = {0, 7};
    td_array *i = td_from_data(c, TD_INT64, td_dims(2), bad);
    td_array *y = td_index_select(x, 0, i);
    int line = __LINE__ - 1;
    td_array *z = td_add(y, 1);
    float v[2];
    CU_ASSERT_EQUAL(td_read(z, v, sizeof v), TD_E_INDEX);
    char expected[40];
    snprintf(expected, sizeof expected, "test_ops.c:%d", line);
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "index_select");
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->where, expected));
    CHECK_FAILS(td_matmul(x, td_zeros(c, td_dims(4, 2), TD_FLOAT32)), TD_E_SHAPE, "");
    CHECK_FAILS(td_select(x, 0, 3), TD_E_INDEX, "");
    CHECK_FAILS(td_bitwise_not(x), TD_E_TYPE, "float32");
    CHECK_FAILS(td_open(c, "no such name", 0), TD_E_NOT_FOUND, "no such name");
    CHECK_FAILS(td_open(c, "no such name", 30), TD_E_TIMEOUT, "");
    td_sync(c);
    td_clear_error();
    end();
}

/* Indices are checked before anything is written: a tensor that was to be changed in place is as it was, and works. */
static void refused_indices_change_nothing(void)
{
    if (lacks("scatter") || lacks("index_put")) return;
    begin();
    enum { N = 200000 }; /* small ones run in the loop, large ones on workers */
    for (int64_t n = 4; n <= N; n += N - 4) {
        td_array *x = td_add(td_zeros(c, td_dims(n), TD_FLOAT32), 3), *v = td_ones_like(x);
        td_array *i = td_arange(c, 0, n, 1, TD_INT64);
        td_fill_(td_slice(i, 0, 2, 3), n);
        char message[100];
        snprintf(message, sizeof message, "index %d is out of bounds for dimension 0 with size %d (element 2", (int)n,
                 (int)n);
        for (int op = 0; op < 4; op++) {
            static const char *const names[] = {"scatter", "scatter_add", "index_add", "index_put"};
            int rc = op == 0   ? td_scatter_(x, 0, i, v)
                     : op == 1 ? td_scatter_add_(x, 0, i, v)
                     : op == 2 ? td_index_add_(x, 0, i, v)
                               : td_index_put_(x, td_arrays(i), v);
            CU_ASSERT_EQUAL(rc, TD_OK);
            CU_ASSERT_EQUAL(td_sync(c), TD_E_INDEX);
            CU_ASSERT_STRING_EQUAL(td_last_error()->op, names[op]);
            CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, message));
            td_clear_error();
            CU_ASSERT_EQUAL(td_item_f64(td_amin(x)), 3);
            CU_ASSERT_EQUAL(td_item_f64(td_amax(x)), 3);
        }
        td_fill_(td_slice(i, 0, 2, 3), 2);
        CU_ASSERT_EQUAL(td_index_add_(x, 0, i, v), TD_OK);
        CU_ASSERT_EQUAL(td_item_f64(td_amin(x)), 4);
    }
    end();
}

static void backward_and_grad(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 1, 2, 3, 4, 5, 6), *w = FLOATS(td_dims(3), 1, 0, -1), *g[2];
    td_set_requires_grad(w, true);
    td_array *loss = td_sum(td_square(td_matmul(x, w)));
    CU_ASSERT_EQUAL(td_item_f64(loss), 8);
    CU_ASSERT_EQUAL(td_backward(loss), TD_OK);
    CHECK_VALUES(td_grad(w), -20, -28, -36);
    CU_ASSERT_EQUAL(td_backward(td_sum(td_mul(w, w))), TD_OK);
    CHECK_VALUES(td_grad(w), -18, -28, -38);
    CU_ASSERT_EQUAL(td_grads(td_arrays(w, x), g), TD_OK);
    CU_ASSERT_PTR_NOT_NULL(g[0]);
    CU_ASSERT_PTR_NULL(g[1]);
    CHECK_FAILS(td_grad(x), TD_E_NOT_FOUND, "no gradient");
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* asking for a gradient that is not there is no error of the stream */
    CU_ASSERT_EQUAL(td_zero_grad(td_arrays(w)), TD_OK);
    CHECK_FAILS(td_grad(w), TD_E_NOT_FOUND, "no gradient");
    CHECK_FAILS(td_sync((td_backward(loss), c)), TD_E_AUTOGRAD, "second time");
    end();
}

static void higher_derivatives_and_modes(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2), 2, 3), *g, *h, *unused[2];
    td_set_requires_grad(x, true);
    td_array *y = td_sum(td_mul(x, td_mul(x, x)));
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(y), td_arrays_of(0, NULL), td_arrays(x), TD_CREATE_GRAPH, &g), TD_OK);
    CHECK_VALUES(g, 12, 27);
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(td_sum(g)), td_arrays_of(0, NULL), td_arrays(x), 0, &h), TD_OK);
    CHECK_VALUES(h, 12, 18);
    td_array *other = FLOATS(td_dims(1), 1);
    td_set_requires_grad(other, true);
    y = td_sum(td_square(x));
    CU_ASSERT_EQUAL(td_autograd_grad(td_arrays(y), td_arrays_of(0, NULL), td_arrays(x, other), TD_ALLOW_UNUSED, unused),
                    TD_OK);
    CHECK_VALUES(unused[0], 4, 6);
    CU_ASSERT_PTR_NULL(unused[1]);
    bool was = td_set_grad_enabled(false);
    CU_ASSERT_TRUE(was);
    CU_ASSERT_FALSE(td_grad_enabled());
    td_info info;
    CU_ASSERT_EQUAL(td_get_info(td_mul(x, 2), &info), TD_OK);
    CU_ASSERT_FALSE(info.requires_grad);
    td_set_grad_enabled(was);
    CU_ASSERT_EQUAL(td_get_info(td_mul(x, 2), &info), TD_OK);
    CU_ASSERT_TRUE(info.requires_grad);
    CU_ASSERT_STRING_EQUAL(info.grad_fn, "mul");
    CU_ASSERT_FALSE(info.leaf);
    CU_ASSERT_EQUAL(td_get_info(x, &info), TD_OK);
    CU_ASSERT_TRUE(info.leaf);
    CU_ASSERT_EQUAL(td_get_info(td_detach(td_mul(x, 2)), &info), TD_OK);
    CU_ASSERT_FALSE(info.requires_grad);
    CHECK_FAILS(td_set_requires_grad(td_zeros(c, td_dims(2), TD_INT64), true), TD_E_TYPE, "int64");
    end();
}

static void an_overwritten_value_fails_backward(void)
{
    if (is_away()) return;
    begin();
    td_array *x = FLOATS(td_dims(2), 2, 3), *m = FLOATS(td_dims(2), 1, 1);
    td_set_requires_grad(x, true);
    td_array *y = td_sum(td_mul(x, m));
    float *p = td_write_begin(m, 1000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    p[0] = 100;
    CU_ASSERT_EQUAL(td_write_end(m), TD_OK);
    td_backward(y);
    CU_ASSERT_EQUAL(td_sync(c), TD_E_VERSION);
    td_clear_error();
    end();
}

static void data_shapes(void)
{
    if (lacks("nonzero")) return;
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 1, 0, 2, 0, 3, 4), *mask = td_gt(x, 1.5);
    td_array *places = td_nonzero(x);
    CU_ASSERT_EQUAL(td_size(places, 0), 4);
    CU_ASSERT_EQUAL(td_size(places, 1), 2);
    CHECK_VALUES(td_getitem(x, td_arrays(mask)), 2, 3, 4);
    CHECK_VALUES(td_masked_select(x, mask), 2, 3, 4);
    CU_ASSERT_EQUAL(td_setitem(x, td_arrays(mask), td_full(c, td_dims(), -1, TD_FLOAT32)), TD_OK);
    CHECK_VALUES(x, 1, 0, -1, 0, -1, -1);
    int64_t rows[2] = {1, 0};
    CHECK_VALUES(td_getitem(x, td_arrays(td_from_data(c, TD_INT64, td_dims(2), rows), NULL)), 0, -1, -1, 1, 0, -1);
    end();
}

static void composites_have_values(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 1, 2, 3, 4, 5, 6), *parts[4], *order;
    CHECK_VALUES(td_reshape(td_transpose(x, 0, 1), td_dims(-1)), 1, 4, 2, 5, 3, 6);
    CHECK_VALUES(td_norm(x, 2, td_dims(1), false), 3.7416574, 8.774964);
    CHECK_VALUES(td_norm(x, INFINITY, td_no_dims(), false), 6);
    CHECK_VALUES(td_norm(x, 1, td_no_dims(), false), 21);
    CHECK_VALUES(td_norm(x, 0, td_dims(1), false), 3, 3);
    CHECK_VALUES(td_std(x, td_dims(1), 1, false), 1, 1);
    td_array *given = td_zeros(c, td_dims(2), TD_FLOAT64), *whole = td_zeros(c, td_dims(2), TD_INT64);
    CU_ASSERT_EQUAL(td_std_out(given, x, td_dims(1)), TD_OK);
    CHECK_VALUES(given, 1, 1);
    CU_ASSERT_EQUAL(td_std_out(given, x), TD_E_SHAPE);
    CU_ASSERT_EQUAL(td_std_out(whole, x, td_dims(1)), TD_E_TYPE);
    CHECK_FAILS(td_std(td_to(x, TD_INT32)), TD_E_TYPE, "\"std\" is not implemented for int32");
    CHECK_FAILS(td_outer(x, x), TD_E_SHAPE, "both arguments must be 1-d, but they are 2-d and 2-d");
    CU_ASSERT_PTR_NULL(td_matmul(x, x)); /* what mm says, of matmul */
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "matmul");
    td_clear_error();
    CHECK_FAILS(td_narrow(x, 2, 0, 1), TD_E_INDEX, "Dimension out of range");
    CHECK_FAILS(td_t(td_reshape(x, td_dims(1, 2, 3))), TD_E_SHAPE, "at most 2 dimensions, but the tensor has 3");
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CHECK_VALUES(td_mse_loss(x, td_zeros_like(x)), 91.0 / 6);
    CHECK_VALUES(td_l1_loss(x, td_zeros_like(x), TD_REDUCE_SUM), 21);
    CHECK_VALUES(td_outer(td_select(x, 0, 0), td_select(x, 0, 1)), 4, 5, 6, 8, 10, 12, 12, 15, 18);
    CU_ASSERT_EQUAL(td_chunk(x, 2, 4, parts, 1), 2);
    CHECK_VALUES(parts[1], 3, 6);
    CHECK_VALUES(td_movedim(td_reshape(x, td_dims(1, 2, 3)), 2, 0), 1, 4, 2, 5, 3, 6);
    td_array *batch = td_reshape(td_arange(c, 0, 12, 1, TD_FLOAT32), td_dims(2, 2, 3));
    CHECK_VALUES(td_matmul(batch, td_select(x, 0, 0)), 8, 26, 44, 62);
    CHECK_VALUES(td_matmul(batch, td_t(x)), 8, 17, 26, 62, 44, 107, 62, 152);
    CHECK_VALUES(td_matmul(batch, td_transpose(batch, 1, 2)), 5, 14, 14, 50, 149, 212, 212, 302);
    int64_t classes[2] = {2, 0};
    CHECK_VALUES(td_cross_entropy(x, td_from_data(c, TD_INT64, td_dims(2), classes)), (0.4076059 + 2.4076059) / 2);
    if (!lacks("sort")) {
        order = td_argsort(td_neg(x), 1, false);
        CHECK_VALUES(order, 2, 1, 0, 2, 1, 0);
    }
    end();
}

/* What Python alone had once. */
static void more_composites(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 3, 1, 2, 9, 4, 6), *v = FLOATS(td_dims(3), 1, 2, 4), *max = NULL, *at = NULL;
    CHECK_VALUES(td_inner(x, v), 13, 41);
    CHECK_VALUES(td_tensordot(x, x, td_dims(1), td_dims(-1)), 14, 43, 43, 133);
    CHECK_FAILS(td_tensordot(x, x, td_dims(0), td_dims(1)), TD_E_SHAPE, "contracted dimensions need to match");
    CHECK_VALUES(td_diag(v, -1), 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 4, 0);
    CHECK_VALUES(td_isclose(v, FLOATS(td_dims(3), 1, 2.5, 4)), 1, 0, 1);
    CHECK_VALUES(td_aminmax(x, &max, 1), 1, 4);
    CHECK_VALUES(max, 3, 9);
    CHECK_VALUES(td_diff(v), 1, 2);
    CHECK_VALUES(td_diff(v, 2, 0, v, NULL), 1, -5, 4, 1);
    CHECK_FAILS(td_diff(v, -1), TD_E_INVALID, "order must be non-negative but got -1");
    CHECK_VALUES(td_cumprod(v, 0), 1, 2, 8);
    CHECK_VALUES(td_searchsorted(v, FLOATS(td_dims(4), 0, 2, 3, 9)), 0, 1, 2, 3);
    CHECK_VALUES(td_repeat_interleave(v, 2), 1, 1, 2, 2, 4, 4);
    CHECK_VALUES(td_vstack(td_arrays(v, x)), 1, 2, 4, 3, 1, 2, 9, 4, 6);
    td_array *row = td_reshape(v, td_dims(1, 1, 3)), *twice = FLOATS(td_dims(1, 1, 1), 2);
    CHECK_VALUES(td_conv1d(row, twice), 2, 4, 8);
    td_array *picture = td_reshape(v, td_dims(1, 1, 1, 3)), *pair = FLOATS(td_dims(1, 1, 1, 2), 1, 10);
    CHECK_VALUES(td_conv_transpose2d(picture, pair), 1, 12, 24, 40);
    CHECK_FAILS(td_conv_transpose2d(picture, pair, NULL, td_dims(1), td_dims(0), td_dims(1)), TD_E_INVALID,
                "output padding must be smaller");
    CHECK_VALUES(td_resample_linear(v, 0, 5, td_none(), true), 1, 1.5, 2, 3, 4);
    CHECK_VALUES(td_resample_nearest(v, 0, 6), 1, 1, 2, 2, 4, 4);
    if (!lacks("sort")) {
        CHECK_VALUES(td_median(x), 3);
        CHECK_VALUES(td_median_dim(x, 1, &at), 2, 6);
        CHECK_VALUES(at, 2, 2);
        CHECK_VALUES(td_quantile(v, FLOATS(td_dims(2), 0.25, 1)), 1.5, 4);
        CHECK_VALUES(td_isin(x, v), 0, 1, 1, 0, 1, 0);
    }
    end();
}

static void grids_sets_and_sums(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 3, 1, 2, 3, 4, 1), *v = FLOATS(td_dims(3), 1, 2, 4), *parts[3], *counts = NULL;
    CU_ASSERT_EQUAL(td_tensor_split(x, td_dims(1, -1), 3, parts, 1), 3);
    CHECK_VALUES(parts[1], 1, 4);
    CU_ASSERT_EQUAL(td_tensor_split_sections(v, 2, 3, parts), 2);
    CHECK_VALUES(parts[1], 4);
    CU_ASSERT_EQUAL(td_meshgrid(td_arrays(v, parts[0]), 3, parts, true), 2);
    CHECK_VALUES(parts[0], 1, 2, 4, 1, 2, 4);
    CU_ASSERT_EQUAL(td_broadcast_tensors(td_arrays(x, v), 1, parts), -1);
    CU_ASSERT_EQUAL(td_broadcast_tensors(td_arrays(x, v), 3, parts), 2);
    CHECK_VALUES(parts[1], 1, 2, 4, 1, 2, 4);
    td_array *classes = td_to(v, TD_INT64), *picture = td_reshape(x, td_dims(1, 2, 3));
    CHECK_VALUES(td_bincount(classes, v, 5), 0, 1, 2, 0, 4);
    CHECK_VALUES(td_einsum("ij,kj->ik", td_arrays(x, x)), 14, 15, 15, 26);
    CHECK_VALUES(td_einsum("...i, i -> ...", td_arrays(x, v)), 13, 15);
    CHECK_FAILS(td_einsum("ij,ji", td_arrays(x, x)), TD_E_SHAPE, "subscript 'j' has size 2 for operand 1, but size 3");
    CHECK_FAILS(td_einsum("i,i->k", td_arrays(v, v)), TD_E_INVALID, "subscript 'k' of the result is in no operand");
    CHECK_VALUES(td_einsum("AZ,BZ->Z", td_arrays(x, x)), 36, 25, 9);
    CHECK_VALUES(td_einsum("az,az->z", td_arrays(x, x)), 18, 17, 5);
    CHECK_FAILS(td_einsum("i~", td_arrays(v)), TD_E_INVALID, "'~' in the equation: subscripts are letters");
    CHECK_FAILS(td_einsum("i\nj", td_arrays(v)), TD_E_INVALID, "'?' in the equation");
    CHECK_FAILS(td_einsum("i\x7f", td_arrays(v)), TD_E_INVALID, "'?' in the equation");
    CHECK_FAILS(td_einsum("i\x01", td_arrays(v)), TD_E_INVALID, "'?' in the equation");
    CHECK_FAILS(td_einsum("\xc3\xa4", td_arrays(v)), TD_E_INVALID, "'?' in the equation");
    CHECK_FAILS(td_einsum(NULL, td_arrays(v)), TD_E_TYPE, "argument 'equation' must be a text");
    if (!lacks("scatter") && !lacks("sort") && !lacks("resample") && !lacks("multinomial")) {
        CHECK_VALUES(td_one_hot(classes, 5), 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1);
        CHECK_VALUES(td_unique_counts(x, &counts), 1, 2, 3, 4);
        CHECK_VALUES(counts, 2, 1, 2, 1);
        CHECK_VALUES(td_adaptive_avg_pool2d(picture, td_dims(1, 2)), 2.75, 2);
        CHECK_VALUES(td_multinomial(FLOATS(td_dims(2), 0, 3), 2, true), 1, 1);
    }
    end();
}

static td_array *doubled(td_array *w)
{
    return td_sum(td_mul(w, 2));
}

/* While somebody writes to a .grad no backward adds to it: another session's waits, one's own is refused. */
static void backward_waits_for_leases(void)
{
    if (is_away()) return;
    begin();
    td_client *other = join();
    td_set_service(true);
    td_array *w = td_ones(c, td_dims(3), TD_FLOAT32);
    td_set_service(false);
    td_set_requires_grad(w, true);
    CU_ASSERT_EQUAL_FATAL(td_publish(w, "leased", 0), TD_OK);
    CU_ASSERT_EQUAL(td_backward(doubled(w)), TD_OK);
    td_array *g = td_grad(w);
    float *p = td_write_begin(g, -1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(td_backward(doubled(w)), TD_OK);
    CHECK_FAILS(td_sync(c), TD_E_BUSY, ".grad");
    td_array *theirs = td_open(other, "leased", TEST_LONG_MS), *y = doubled(theirs);
    CU_ASSERT_EQUAL(td_backward(y), TD_OK);
    CU_ASSERT_EQUAL(td_flush(other), TD_OK);
    test_sleep_ms(50);
    CU_ASSERT(p[0] == 2 && p[2] == 2);
    p[0] = 100;
    CU_ASSERT_EQUAL(td_write_end(g), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(td_sync(other), TD_OK);
    CHECK_VALUES(g, 102, 4, 4);
    td_release(y), td_release(theirs);
    CU_ASSERT_EQUAL(td_drop(c, "leased"), TD_OK);
    td_disconnect(other);
    end();
}

/* A lent name is the tensor itself, for any number who open it, and goes with the session that lent it. */
static void lent_under_a_name(void)
{
    begin();
    td_client *lender = join();
    td_lease *lease = td_lease_new(lender, 2 * sizeof(double));
    double *at = td_lease_data(lease);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at[0] = 1, at[1] = 2;
    td_array *mine = td_put(lease, 0, TD_FLOAT64, td_dims(2));
    CU_ASSERT_EQUAL_FATAL(td_publish(mine, "counts", TD_LENT), TD_OK);
    CHECK_FAILS(td_publish(mine, "more", TD_LENT | TD_REPLACE), TD_E_INVALID, "TD_LENT");
    for (int i = 0; i < 3; i++) {
        td_array *seen = td_open(c, "counts", 0);
        at[0] = 10 + i; /* not told to anybody */
        CHECK_VALUES(seen, 10 + i, 2);
        td_release(seen);
    }
    td_release(mine);
    td_lease_free(lease);
    td_disconnect(lender);
    int left = 1;
    for (int i = 0; i < TEST_LONG_MS / 50 && left; i++) {
        td_array *seen = td_open(c, "counts", 0);
        left = seen != NULL;
        td_release(seen);
        td_clear_error();
        if (left) test_sleep_ms(50);
    }
    CU_ASSERT_EQUAL(left, 0);
    end();
}

/* What names a device that is not there fails where it is called, and says which are there. */
static void devices(void)
{
    if (test_device()) {
        td_test_skip("it is about a daemon that has the CPU alone");
        return;
    }
    begin();
    td_array *x = FLOATS(td_dims(3), 1, 2, 3), *y = td_to_device(x, TD_CPU);
    CU_ASSERT(td_device_of(x) == TD_CPU && td_device_of(y) == TD_CPU && td_device_of(NULL) == -1);
    CU_ASSERT_EQUAL(td_add_(y, 1), TD_OK); /* a copy */
    CHECK_VALUES(x, 1, 2, 3);
    td_set_requires_grad(x, true);
    CU_ASSERT_EQUAL(td_backward(td_sum(td_mul(td_to_device(x, TD_CPU), y))), TD_OK);
    CHECK_VALUES(td_grad(x), 2, 3, 4);
    td_set_grad(x, NULL);
    CU_ASSERT_STRING_EQUAL(td_device_text(TD_CUDA + 2), "cuda:2");
    CU_ASSERT(td_device_by_text("cuda") == TD_CUDA && td_device_by_text("cpu:0") == TD_CPU &&
              td_device_by_text("gpu") == -1);
    CU_ASSERT(!td_check_device(c, TD_CPU) && td_check_device(c, TD_CUDA) == TD_E_UNSUPPORTED);
    CU_ASSERT(td_set_device(99) == -1 && td_last_error()->code == TD_E_INVALID);
    CU_ASSERT_EQUAL(td_set_device(TD_CUDA + 1), TD_CPU);
    CU_ASSERT_PTR_NULL(td_full(c, td_dims(2), 1, TD_FLOAT32));
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "there is no device 'cuda:1' here; only 'cpu'");
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "full");
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->where, "test_ops.c"));
    CU_ASSERT(td_device_of(td_full_like(x, 2)) == TD_CPU && td_device_of(td_neg(x)) == TD_CPU); /* where x lies */
    CU_ASSERT_EQUAL(td_fill_(y, 5), TD_OK);
    CU_ASSERT_EQUAL(td_set_device(TD_CPU), TD_CUDA + 1);
    CHECK_VALUES(y, 5, 5, 5);
    CU_ASSERT_PTR_NULL(td_to_device(x, TD_CUDA));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_UNSUPPORTED);
    td_clear_error();
    end();
}

static void random_is_seeded(void)
{
    begin();
    double v[2][8];
    for (int i = 0; i < 2; i++) {
        td_seed(c, 42);
        CU_ASSERT_EQUAL(td_read(td_rand(c, td_dims(8), TD_FLOAT64), v[i], sizeof v[i]), TD_OK);
    }
    CU_ASSERT_EQUAL(memcmp(v[0], v[1], sizeof v[0]), 0);
    for (int k = 0; k < 8; k++) CU_ASSERT_TRUE(v[0][k] >= 0 && v[0][k] < 1);
    uint64_t drawn = td_drawn(c);
    CU_ASSERT_EQUAL(drawn, 1);
    for (int i = 0; i < 2; i++) { /* from behind those on */
        CU_ASSERT_EQUAL(td_read(td_rand(c, td_dims(8), TD_FLOAT64), v[i], sizeof v[i]), TD_OK);
        td_seed_at(c, 42, drawn);
    }
    CU_ASSERT_EQUAL(memcmp(v[0], v[1], sizeof v[0]), 0);
    CU_ASSERT_EQUAL(td_drawn(c), drawn);
    end();
}

/* The stream's random numbers go on from where a seed and a count put them. */
static void random_numbers_come_again(void)
{
    if (lacks("bernoulli")) return;
    begin();
    td_array *x = td_full(c, td_dims(64), 0.5, TD_FLOAT32), *drawn[3];
    float v[3][64];
    CU_ASSERT_EQUAL(td_seed(c, UINT64_C(7) << 40), TD_OK);
    CU_ASSERT_EQUAL(td_drawn(c), 0);
    for (int k = 0; k < 2; k++) drawn[k] = td_bernoulli(x);
    CU_ASSERT_EQUAL(td_drawn(c), 2);
    CU_ASSERT_EQUAL(td_seed_at(c, UINT64_C(7) << 40, 1), TD_OK);
    CU_ASSERT_EQUAL(td_drawn(c), 1);
    drawn[2] = td_bernoulli(x);
    CU_ASSERT_EQUAL(td_drawn(c), 2);
    for (int k = 0; k < 3; k++) CU_ASSERT_EQUAL(td_read(drawn[k], v[k], sizeof v[k]), TD_OK);
    CU_ASSERT_NOT_EQUAL(memcmp(v[0], v[1], sizeof v[0]), 0);
    CU_ASSERT_EQUAL(memcmp(v[1], v[2], sizeof v[1]), 0);
    CHECK_FAILS(td_seed(NULL, 1), TD_E_INVALID, "the client is NULL");
    CHECK_FAILS(CU_ASSERT_EQUAL(td_drawn(NULL), 0), TD_E_INVALID, "the client is NULL");
    end();
}

/* What lies row by row is not copied, whatever the strides of sizes of one say; and of nothing there is nothing to
 * copy. */
static void what_lies_in_rows(void)
{
    if (is_away()) return;
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 1, 2, 3, 4, 5, 6), *row = td_slice(x, 0, 1, 2, 1),
             *column = td_slice(x, 1, 1, 2, 1);
    const struct {
        td_array *from;
        bool lies;
    } all[] = {{x, true},
               {row, true},
               {td_transpose(row, 0, 1), true},
               {td_reshape(x, td_dims(1, 2, 1, 3, 1)), true},
               {td_select(row, 1, 0), true},
               {column, false},
               {td_slice(x, 1, 0, 2, 1), false},
               {td_slice(x, 1, 0, 3, 2), false},
               {td_transpose(x, 0, 1), false},
               {td_expand(row, td_dims(2, 3)), false}};
    for (unsigned k = 0; k < sizeof all / sizeof all[0]; k++) {
        td_array *flat = td_ravel(all[k].from), *packed = td_packed(all[k].from);
        CU_ASSERT_EQUAL(td_data(flat) == td_data(all[k].from), all[k].lies);
        CU_ASSERT_EQUAL(td_data(packed) == td_data(all[k].from), all[k].lies);
        CU_ASSERT_TRUE(td_ndim(flat) == 1 && td_ndim(packed) == td_ndim(all[k].from) && td_is_contiguous(packed));
        CHECK_VALUES(td_sum(td_ne(td_ravel(all[k].from), td_ravel(td_clone(all[k].from)))), 0);
    }
    td_array *empty = td_zeros(c, td_dims(0, 3), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_set_requires_grad(empty, true), TD_OK);
    td_graph_node node, next;
    int n;
    CU_ASSERT_EQUAL(td_graph_of(td_ravel(td_transpose(empty, 0, 1)), &node), TD_OK);
    CU_ASSERT_EQUAL(td_graph_next(c, &node, &next, &n), TD_OK);
    CU_ASSERT_TRUE(n == 1 && strcmp(next.op, "transpose") == 0);
    CU_ASSERT_EQUAL(td_graph_release(c, next.number), TD_OK);
    CU_ASSERT_EQUAL(td_graph_release(c, node.number), TD_OK);
    end();
}

/* One size may be left open, and is what the others leave. */
static void shapes_with_one_open_size(void)
{
    begin();
    td_array *x = FLOATS(td_dims(2, 3), 1, 2, 3, 4, 5, 6), *empty = td_zeros(c, td_dims(0, 3), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_shape(td_reshaped(x, td_dims(3, -1)))[1], 2);
    CU_ASSERT_EQUAL(td_shape(td_reshaped(x, td_dims(-1)))[0], 6);
    CU_ASSERT_EQUAL(td_shape(td_reshaped(x, td_dims(6, 1)))[0], 6);
    CU_ASSERT_EQUAL(td_ndim(td_reshaped(td_sum(x), td_dims_of(0, NULL))), 0);
    CU_ASSERT_EQUAL(td_shape(td_reshaped(empty, td_dims(-1, 3)))[0], 0);
    CU_ASSERT_EQUAL(td_shape(td_reshaped(empty, td_dims(0, 7)))[1], 7);
    td_array *turned = td_transpose(x, 0, 1); /* which no view has in other shapes */
    CHECK_VALUES(td_reshaped(turned, td_dims(6)), 1, 4, 2, 5, 3, 6);
    CHECK_VALUES(td_reshaped(turned, td_dims(2, -1)), 1, 4, 2, 5, 3, 6);
    CHECK_FAILS(td_view(turned, td_dims(6)), TD_E_SHAPE, "view");
    CHECK_FAILS(td_reshaped(x, td_dims(7)), TD_E_SHAPE, "[7]");
    CHECK_FAILS(td_reshaped(x, td_dims(4, -1)), TD_E_SHAPE, "[4, -1]");
    CHECK_FAILS(td_reshaped(x, td_dims(-1, -1)), TD_E_SHAPE, "only one");
    CHECK_FAILS(td_reshaped(x, td_dims(-2, -3)), TD_E_SHAPE, "-2");
    CHECK_FAILS(td_reshaped(empty, td_dims(0, -1)), TD_E_SHAPE, "-1");
    td_clear_error();
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    end();
}

TD_CUNIT_MAIN_WITH(
    "client_ops", start_server, stop_server, {"arithmetic", arithmetic}, {"joins of any length", joins_of_any_length},
    {"joins of nothing", joins_of_nothing}, {"similar calls differ", similar_calls_differ}, {"in place", in_place},
    {"refused indices change nothing", refused_indices_change_nothing}, {"memory", memory},
    {"items of all sizes", items_of_all_sizes}, {"handles outlive their client", handles_outlive_their_client},
    {"steady puts wait for nobody", steady_puts_wait_for_nobody}, {"errors late and early", errors_late_and_early},
    {"backward and grad", backward_and_grad}, {"higher derivatives and modes", higher_derivatives_and_modes},
    {"an overwritten value fails backward", an_overwritten_value_fails_backward}, {"data shapes", data_shapes},
    {"composites have values", composites_have_values}, {"more composites", more_composites},
    {"grids, sets and sums", grids_sets_and_sums}, {"random is seeded", random_is_seeded}, {"devices", devices},
    {"lent under a name", lent_under_a_name}, {"backward waits for leases", backward_waits_for_leases},
    {"writing in time", writing_in_time}, {"random numbers come again", random_numbers_come_again},
    {"what lies in rows", what_lies_in_rows}, {"shapes with one open size", shapes_with_one_open_size})
