/* The same bits whatever the number of workers: a program over the ops that are cut into chunks, its gradients and a
 * few steps of training, on daemons with one worker, two and five. */
#include "client/tensord.h"
#include "tests/support/daemon.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { MOST = 64 };

typedef struct bytes {
    int count;
    size_t size[MOST];
    unsigned char *at[MOST];
    const char *name[MOST];
} bytes;

static void take(bytes *b, const char *name, td_array *a)
{
    int64_t n = a ? td_nbytes(a) : -1;
    int k = b->count++;
    b->name[k] = name;
    b->size[k] = n > 0 ? (size_t)n : 0;
    b->at[k] = malloc(b->size[k] + 1);
    int rc = n < 0 ? td_last_error()->code : td_read(a, b->at[k], b->size[k]);
    if (rc) printf("\n    %s: %s\n", name, td_last_error()->message);
    CU_ASSERT_EQUAL(rc, TD_OK);
}

#define TAKE(value) take(b, #value, value)

static void forward(bytes *b, td_client *c)
{
    td_array *x = td_randn(c, td_dims(700, 900), TD_FLOAT32), *y = td_randn(c, td_dims(900, 500), TD_FLOAT32);
    td_array *large = td_rand(c, td_dims(1000003), TD_FLOAT32), *at = td_to(td_mul(large, 1000), TD_INT64);
    td_array *images = td_randn(c, td_dims(8, 16, 40, 40), TD_FLOAT32),
             *filters = td_randn(c, td_dims(24, 16, 3, 3), TD_FLOAT32);
    TAKE(td_mm(x, y));
    TAKE(td_mm(td_t(y), td_t(x)));
    TAKE(td_mv(x, td_select(td_t(y), 0, 0)));
    TAKE(td_sum(large));
    TAKE(td_mean(td_exp(large)));
    TAKE(td_var(large));
    TAKE(td_prod(td_slice(large, 0, 0, 100000, 1)));
    TAKE(td_sum(x, td_dims(0)));
    TAKE(td_softmax(x, 1));
    TAKE(td_softmax(x, 0));
    TAKE(td_cumsum(large, 0));
    TAKE(td_sort(large));
    TAKE(td_index_add(td_zeros(c, td_dims(1000), TD_FLOAT32), 0, at, large));
    TAKE(td_scatter_add(td_zeros(c, td_dims(1000), TD_FLOAT32), 0, at, large));
    TAKE(td_conv2d(images, filters, NULL, td_dims(1, 1), td_dims(1, 1)));
    TAKE(td_layer_norm(x, NULL, NULL, 1));
    TAKE(td_dropout(large, 0.3));
    TAKE(td_randperm(c, 100000, TD_INT64));
    TAKE(td_bmm(td_view(images, td_dims(128, 40, 40)), td_view(images, td_dims(128, 40, 40))));
    TAKE(td_sum(td_to(td_mm(td_to(x, TD_BFLOAT16), td_to(y, TD_BFLOAT16)), TD_FLOAT32)));
}

static void training(bytes *b, td_client *c)
{
    td_array *images = td_randn(c, td_dims(32, 1, 28, 28), TD_FLOAT32),
             *filters = td_randn(c, td_dims(8, 1, 5, 5), TD_FLOAT32);
    td_array *w = td_mul(td_randn(c, td_dims(10, 8 * 12 * 12), TD_FLOAT32), 0.02),
             *bias = td_zeros(c, td_dims(10), TD_FLOAT32);
    td_array *classes = td_randint(c, 0, 10, td_dims(32), TD_INT64), *leaves[3] = {filters, w, bias};
    for (int i = 0; i < 3; i++) td_set_requires_grad(leaves[i], true);
    for (int step = 0; step < 5; step++) {
        td_array *h = td_relu(td_conv2d(images, filters, NULL, td_dims(1, 1), td_dims(0, 0)));
        h = td_dropout(td_reshape(td_max_pool2d(h, td_dims(2, 2), td_dims(2, 2)), td_dims(32, -1)), 0.2);
        td_array *loss = td_cross_entropy(td_linear(h, w, bias), classes);
        CU_ASSERT_EQUAL(td_backward(loss), TD_OK);
        TAKE(loss);
        td_set_grad_enabled(false);
        for (int i = 0; i < 3; i++) td_sub_(leaves[i], td_mul(td_grad(leaves[i]), 0.1));
        td_set_grad_enabled(true);
        td_zero_grad(td_arrays(filters, w, bias));
    }
    TAKE(filters);
    TAKE(w);
    TAKE(bias);
}

static bytes run(const char *workers)
{
    bytes b = {0};
    test_daemon d;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, (const char *[]){"--memory", "512M", "--workers", workers, NULL}));
    td_clear_error();
    td_client *c = td_connect(d.socket);
    td_scope s;
    td_scope_begin(&s);
    td_seed(c, 7);
    forward(&b, c);
    training(&b, c);
    td_scope_end(&s);
    td_disconnect(c);
    CU_ASSERT_EQUAL(test_daemon_stop(&d), 0);
    return b;
}

static void the_same_bits(void)
{
    static const char *const workers[] = {"1", "2", "5"};
    bytes all[3];
    for (int i = 0; i < 3; i++) all[i] = run(workers[i]);
    CU_ASSERT_TRUE(all[0].count > 25);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(all[i].count, all[0].count);
        for (int k = 0; k < all[i].count; k++) {
            bool same = all[i].size[k] == all[0].size[k] && !memcmp(all[i].at[k], all[0].at[k], all[0].size[k]);
            if (!same) printf("\n    %s differs with %s workers\n", all[i].name[k], workers[i]);
            CU_ASSERT_TRUE(same && all[0].size[k] > 0);
        }
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < all[i].count; k++) free(all[i].at[k]);
}

TD_CUNIT_MAIN("client_bits", {"the same bits whatever the number of workers", the_same_bits})
