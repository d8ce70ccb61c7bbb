/* tensorctl bench: a second or two of measurement, to see that a machine is not far off. Medians, in microseconds. */
#include "client/tensorctl/tensorctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What is measured: one round; false when it failed. */
typedef bool (*round_fn)(td_client *c, void *context);

static void measure(td_table *t, const char *name, td_client *c, round_fn round, void *context, int rounds)
{
    double *us = calloc((size_t)rounds, sizeof *us);
    int n = 0;
    bool ok = us && round(c, context); /* once for warmth */
    for (; ok && n < rounds; n++) {
        double from = now_us();
        ok = round(c, context);
        us[n] = now_us() - from;
    }
    if (n) qsort(us, (size_t)n, sizeof *us, by_value);
    ctl_row_text(t, 0, name);
    if (ok) ctl_row_real(t, 1, us[n / 2]), ctl_row_real(t, 2, us[n * 99 / 100]);
    else ctl_row_text(t, 3, td_last_error()->message);
    free(us);
}

static bool sync_round(td_client *c, void *context)
{
    (void)context;
    return td_sync(c) == TD_OK;
}

static bool item_round(td_client *c, void *x)
{
    (void)c;
    td_array *s = td_sum(x);
    td_scalar v;
    bool ok = td_item(s, &v) == TD_OK;
    td_release(s);
    return ok;
}

enum { PIPELINED = 10000 };

static bool pipelined_round(td_client *c, void *x)
{
    for (int i = 0; i < PIPELINED; i++) td_release(td_add(x, x));
    return td_sync(c) == TD_OK;
}

/* Lease, announce, look at it, give it back: the bytes are not touched. */
static bool hand_off_round(td_client *c, void *bytes)
{
    td_lease *l = td_lease_new(c, *(size_t *)bytes);
    td_array *x = td_put(l, 0, TD_UINT8, td_dims((int64_t)td_lease_size(l)));
    td_lease_free(l);
    bool ok = td_data(x) && td_flush(c) == TD_OK;
    td_release(x);
    return ok;
}

static bool backward_round(td_client *c, void *x)
{
    (void)c;
    td_scope s;
    td_scope_begin(&s);
    bool ok = td_backward(td_sum(td_add(x, 1))) == TD_OK && td_grad(x) && td_zero_grad(td_arrays(x)) == TD_OK;
    td_scope_end(&s);
    return ok;
}

int ctl_bench(const ctl_options *o)
{
    static const char *const columns[] = {"measured", "median_us", "p99_us", "error"};
    td_client *c = ctl_connect(o);
    if (!c) return 1;
    td_table *t = ctl_table_new(4, columns);
    td_array *x = td_ones(c, td_dims(8), TD_FLOAT32), *w = td_ones(c, td_dims(8), TD_FLOAT32);
    td_set_requires_grad(w, true);
    size_t bytes = 38535168; /* a batch of 64 images of 224 x 224, float32 */
    measure(t, "round trip", c, sync_round, NULL, 2000);
    measure(t, "sum of 8 floats, read back", c, item_round, x, 2000);
    measure(t, "add of 8 floats, 10000 pipelined", c, pipelined_round, x, 20);
    measure(t, "add + sum + backward + read of .grad", c, backward_round, w, 1000);
    measure(t, "hand-off of 38.5 MB", c, hand_off_round, &bytes, 200);
    ctl_print(t, o->json);
    td_table_free(t);
    td_release(x);
    td_release(w);
    td_disconnect(c);
    return 0;
}
