/* The same bits whatever the number of workers: a program over the ops that are cut into chunks, its gradients and a
 * few steps of training, on daemons with one worker, two and seven, and with two beside busy processes. */
#include "tests/client/common.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 96 };

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
    int64_t m = on_gpu() ? 70 : 700, n = on_gpu() ? 30003 : 1000003, side = on_gpu() ? 12 : 40;
    td_array *x = td_randn(c, td_dims(m, m + 200), TD_FLOAT32), *y = td_randn(c, td_dims(m + 200, 500), TD_FLOAT32);
    td_array *large = td_rand(c, td_dims(n), TD_FLOAT32), *at = td_to(td_mul(large, 1000), TD_INT64);
    td_array *images = td_randn(c, td_dims(8, 16, side, side), TD_FLOAT32),
             *filters = td_randn(c, td_dims(24, 16, 3, 3), TD_FLOAT32);
    TAKE(td_mm(x, y));
    TAKE(td_mm(td_t(y), td_t(x)));
    TAKE(td_mv(x, td_select(td_t(y), 0, 0)));
    TAKE(td_sum(large));
    TAKE(td_mean(td_exp(large)));
    TAKE(td_var(large));
    TAKE(td_prod(td_slice(large, 0, 0, n / 10, 1)));
    TAKE(td_sum(x, td_dims(0)));
    TAKE(td_softmax(x, 1));
    TAKE(td_softmax(x, 0));
    TAKE(td_cumsum(large, 0));
    TAKE(td_index_add(td_zeros(c, td_dims(1000), TD_FLOAT32), 0, at, large));
    TAKE(td_scatter_add(td_zeros(c, td_dims(1000), TD_FLOAT32), 0, at, large));
    TAKE(td_conv2d(images, filters, NULL, td_dims(1, 1), td_dims(1, 1)));
    TAKE(td_layer_norm(x, NULL, NULL, 1));
    TAKE(td_dropout(large, 0.3));
    TAKE(td_randperm(c, n / 10, TD_INT64));
    TAKE(td_bmm(td_view(images, td_dims(128, side, side)), td_view(images, td_dims(128, side, side))));
    TAKE(td_sum(td_to(td_mm(td_to(x, TD_BFLOAT16), td_to(y, TD_BFLOAT16)), TD_FLOAT32)));
}

static void training(bytes *b, td_client *c)
{
    int64_t n = on_gpu() ? 8 : 32;
    td_array *images = td_randn(c, td_dims(n, 1, 28, 28), TD_FLOAT32),
             *filters = td_randn(c, td_dims(8, 1, 5, 5), TD_FLOAT32);
    td_array *w = td_mul(td_randn(c, td_dims(10, 8 * 12 * 12), TD_FLOAT32), 0.02),
             *bias = td_zeros(c, td_dims(10), TD_FLOAT32);
    td_array *classes = td_randint(c, 0, 10, td_dims(n), TD_INT64), *leaves[3] = {filters, w, bias};
    for (int i = 0; i < 3; i++) td_set_requires_grad(leaves[i], true);
    for (int step = 0; step < 5; step++) {
        td_array *h = td_relu(td_conv2d(images, filters, NULL, td_dims(1, 1), td_dims(0, 0)));
        h = td_dropout(td_reshape(td_max_pool2d(h, td_dims(2, 2), td_dims(2, 2)), td_dims(n, -1)), 0.2);
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

/* What scans, transforms, factors and samples. */
static void families(bytes *b, td_client *c)
{
    td_array *row = td_randn(c, td_dims(200003), TD_FLOAT32), *near = td_add(td_mul(row, 1e-4), 1);
    td_array *squares = td_randn(c, td_dims(12, 50, 50), TD_FLOAT64), *rest = NULL, *out, *at;
    td_array *images = td_randn(c, td_dims(6, 5, 33, 31), TD_FLOAT32);
    td_array *grid = td_clamp(td_mul(td_randn(c, td_dims(6, 40, 41, 2), TD_FLOAT32), 0.7), -1, 1);
    at = td_randint(c, 0, 1000, td_dims(200003), TD_INT64);
    TAKE(td_cumprod(near, 0));
    TAKE(td_logcumsumexp(row, 0));
    TAKE(td_linear_scan(near, row, 0));
    TAKE(td_sum_squares(row));
    TAKE(td_fft(row));
    TAKE(td_fft(td_slice(row, 0, 0, 1 << 17, 1)));
    TAKE(td_lgamma(row));
    TAKE(td_histc(row, 100));
    TAKE(td_median(row));
    TAKE(td_unique(at));
    TAKE(td_sort(row));
    TAKE(td_topk(row, 1000));
    TAKE(td_searchsorted(td_sort(row), near));
    for (int64_t how = 0; how < 3; how++)
        TAKE(td_scatter_reduce(td_zeros(c, td_dims(1000), TD_FLOAT32), 0, at, row, how));
    TAKE(td_linalg_inv(squares));
    TAKE(td_linalg_qr(squares));
    TAKE(td_linalg_eigh(td_bmm(squares, td_transpose(squares, 1, 2)), &rest));
    TAKE(rest);
    TAKE(td_group_norm(images, 5));
    td_set_requires_grad(images, true);
    for (int64_t mode = 0; mode < 3; mode++) {
        out = td_grid_sampler(images, grid, mode);
        TAKE(out);
        td_backward(td_sum(td_mul(out, out)));
        TAKE(td_grad(images));
        out = td_resample(images, td_dims(50, 47), mode);
        td_backward(td_sum(td_mul(out, out)));
        TAKE(td_grad(images));
    }
}

/* A layer over a sequence, and attention. */
static void sequences(bytes *b, td_client *c)
{
    td_array *x = td_randn(c, td_dims(20, 24, 40), TD_FLOAT32), *h = td_zeros(c, td_dims(24, 48), TD_FLOAT32);
    td_array *w = td_mul(td_randn(c, td_dims(192, 40), TD_FLOAT32), 0.1);
    td_array *v = td_mul(td_randn(c, td_dims(192, 48), TD_FLOAT32), 0.1);
    td_array *query = td_randn(c, td_dims(2, 4, 150, 32), TD_FLOAT32);
    td_array *leaves[4] = {x, w, v, query};
    for (int i = 0; i < 4; i++) td_set_requires_grad(leaves[i], true);
    td_array *y = td_lstm_layer(x, h, h, w, v);
    TAKE(y);
    td_backward(td_sum(td_mul(y, y)));
    y = td_scaled_dot_product_attention(query, td_mul(query, 0.5), td_add(query, 1), NULL, 0.1, true);
    TAKE(y);
    td_backward(td_sum(td_mul(y, y)));
    for (int i = 0; i < 4; i++) TAKE(td_grad(leaves[i]));
}

static void usual(bytes *b, td_client *c)
{
    forward(b, c);
    training(b, c);
}

static void wider(bytes *b, td_client *c)
{
    families(b, c);
    sequences(b, c);
}

static bytes run(const char *workers, void (*program)(bytes *, td_client *))
{
    bytes b = {0};
    test_daemon d;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, (const char *[]){"--memory", "512M", "--workers", workers, NULL}));
    td_clear_error();
    td_client *c = td_connect(d.socket);
    td_scope s;
    td_scope_begin(&s);
    td_seed(c, 7);
    program(&b, c);
    td_scope_end(&s);
    td_disconnect(c);
    CU_ASSERT_EQUAL(test_daemon_stop(&d), 0);
    return b;
}

/* Processes that take all the processors they get; a sanitizer makes enough work of its own. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { BUSY = 0, RUNS = 3 };
#else
enum { BUSY = 3, RUNS = 4 };
#endif
static void be_busy(pid_t *p)
{
    for (int i = 0; i < BUSY; i++)
        if (!(p[i] = fork()))
            for (alarm(300);;) continue;
}
static void rest_again(const pid_t *p)
{
    for (int i = 0; i < BUSY; i++) kill(p[i], SIGKILL), waitpid(p[i], NULL, 0);
}

static void the_same_bits_of(void (*program)(bytes *, td_client *))
{
    static const char *const workers[] = {"1", "2", "7", "2"};
    bytes all[RUNS];
    pid_t busy[BUSY + 1];
    for (int i = 0; i < RUNS; i++) {
        if (i == 3) be_busy(busy);
        all[i] = run(workers[i], program);
        if (i == 3) rest_again(busy);
    }
    CU_ASSERT_TRUE(all[0].count > 25);
    for (int i = 0; i < RUNS; i++) {
        CU_ASSERT_EQUAL_FATAL(all[i].count, all[0].count);
        for (int k = 0; k < all[i].count; k++) {
            bool same = all[i].size[k] == all[0].size[k] && !memcmp(all[i].at[k], all[0].at[k], all[0].size[k]);
            if (!same) printf("\n    %s differs with %s workers (run %d)\n", all[i].name[k], workers[i], i);
            CU_ASSERT_TRUE(same && all[0].size[k] > 0);
        }
    }
    for (int i = 0; i < RUNS; i++)
        for (int k = 0; k < all[i].count; k++) free(all[i].at[k]);
}

static void the_same_bits(void)
{
    the_same_bits_of(usual);
}

static void the_same_bits_of_families(void)
{
    if (!lacks("fft_r2c") && !lacks("sort") && !lacks("lstm_layer")) the_same_bits_of(wider);
}

TD_CUNIT_MAIN("client_bits", {"the same bits whatever the number of workers", the_same_bits},
              {"scans, transforms, factors, sequences", the_same_bits_of_families})
