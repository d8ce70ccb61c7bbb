/* libtensord against a fake daemon: what goes over the wire, and how it fails. */
#include "client/tensord.h"
#include "client/wire/client.h"
#include "tests/unit/cunit_main.h"
#include "tests/unit/fake_daemon.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static fake_daemon *fake;
static td_client *client;
static td_scope scope; /* of a test: what it does not release itself */

/* The program is linked with -Wl,--wrap=malloc,--wrap=calloc: pieces of this size are not to be had by this thread; 0:
 * all are. */
static _Thread_local size_t refused_bytes;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    return n && n == refused_bytes ? NULL : __real_malloc(n);
}
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    return n && n * each == refused_bytes ? NULL : __real_calloc(n, each);
}

static void start(const fake_options *options)
{
    td_clear_error();
    fake = fake_start(options);
    client = td_connect(fake_path(fake));
    CU_ASSERT_PTR_NOT_NULL_FATAL(client);
    td_scope_begin(&scope);
}

/* Everything released, nothing out of order. */
static void stop(void)
{
    td_scope_end(&scope);
    td_sync(client);
    for (int i = 0; i < 60000 && fake_live(fake); i++)
        usleep(1000); /* another connection of the test may just be ending */
    CU_ASSERT_EQUAL(fake_live(fake), 0);
    CU_ASSERT_EQUAL(fake_seen(fake)->protocol_errors, 0);
    td_disconnect(client);
    fake_stop(fake);
}

#define CHECK_ERROR(code_, text)                                                                                       \
    do {                                                                                                               \
        CU_ASSERT_EQUAL(td_last_error()->code, code_);                                                                 \
        if (!strstr(td_last_error()->message, text)) fprintf(stderr, "%d: %s\n", __LINE__, td_last_error()->message);  \
        CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, text));                                                \
        td_clear_error();                                                                                              \
    } while (0)

static void computes(void)
{
    start(NULL);
    td_array *x = td_full(client, td_dims(2, 3), 1.5, TD_FLOAT32);
    td_array *y = td_add(x, x), *z = td_add(y, 2), *w = td_add(2.5, z, td_int(1));
    CU_ASSERT_EQUAL(td_ndim(z), 2);
    CU_ASSERT_EQUAL(td_size(z, 0), 2);
    CU_ASSERT_EQUAL(td_size(z, -1), 3);
    CU_ASSERT_EQUAL(td_numel(z), 6);
    CU_ASSERT_EQUAL(td_nbytes(z), 24);
    CU_ASSERT_EQUAL(td_dtype_of(z), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_strides(z)[0], 3);
    CU_ASSERT_EQUAL(fake_seen(fake)->ops, 0); /* still batched */
    float v[6];
    CU_ASSERT_EQUAL(td_read(z, v, sizeof v), TD_OK);
    CU_ASSERT_EQUAL(v[0], 5);
    CU_ASSERT_EQUAL(v[5], 5);
    CU_ASSERT_EQUAL(fake_seen(fake)->ops, 4);
    CU_ASSERT_PTR_NOT_NULL(w);
    td_release(x), td_release(y), td_release(z), td_release(w);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_live(fake), 0);
    stop();
}

static void fails_at_the_call(void)
{
    start(NULL);
    td_array *a = td_zeros(client, td_dims(2, 3), TD_FLOAT32), *b = td_zeros(client, td_dims(4), TD_FLOAT32);
    td_array *c = td_zeros(client, td_dims(2, 3), TD_INT32);
    uint64_t before = fake_seen(fake)->reads;
    CU_ASSERT_PTR_NULL(td_add(a, b));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_SHAPE);
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "add");
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->where, "test_client.c:"));
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_mm(a, b));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_SHAPE);
    td_clear_error();
    CU_ASSERT_EQUAL(td_add_(c, 1.5), TD_E_TYPE);
    CHECK_ERROR(TD_E_TYPE, "can't be cast");
    CU_ASSERT_EQUAL(td_add_(b, td_zeros(client, td_dims(2, 4), TD_FLOAT32)), TD_E_SHAPE);
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_add(1, 2));
    CHECK_ERROR(TD_E_INVALID, "must be an array");
    CU_ASSERT_PTR_NULL(td_full(client, td_dims(-1), 0, TD_FLOAT32));
    td_clear_error();
    td_array *sum = td_sum(td_mul(td_add(a, b), 3)); /* the first error goes through the whole expression */
    CU_ASSERT_PTR_NULL(sum);
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "add");
    td_clear_error();
    CU_ASSERT_TRUE(isnan(td_item_f64(a)));
    CHECK_ERROR(TD_E_SHAPE, "6 elements");
    char small[4];
    CU_ASSERT_EQUAL(td_read(a, small, sizeof small), TD_E_INVALID);
    CHECK_ERROR(TD_E_INVALID, "24");
    CU_ASSERT_EQUAL(fake_seen(fake)->reads, before);
    td_release(a), td_release(b), td_release(c);
    stop();
}

static void names_the_line_of_a_late_error(void)
{
    start(NULL);
    td_array *x = td_ones(client, td_dims(3), TD_FLOAT32);
    td_array *y = td_log(x);
    int line = __LINE__ - 1;
    td_array *z = td_add(y, 1);
    float v[3];
    CU_ASSERT_EQUAL(td_read(z, v, sizeof v), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "log");
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "fake failure");
    CU_ASSERT_EQUAL(td_read(y, v, sizeof v), TD_E_INVALID);
    char expected[32];
    snprintf(expected, sizeof expected, "test_client.c:%d", line);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->where, expected));
    td_release(x), td_release(y), td_release(z);
    stop();
}

/* A place of the table of lines, as client/wire/site.c finds it. */
static unsigned site_of(const char *where)
{
    return (unsigned)((uintptr_t)where * UINT64_C(0x9E3779B97F4A7C15) >> 40) % TD_SITES;
}

/* Nine lines of one batch want the same eight places: what goes with the batch is not overwritten, and the ninth has no
 * place. In the next batch it takes that of another line. */
static void lines_that_want_one_place(void)
{
    enum { PLACES = 8, STEP = 16 };
    static char texts[TD_SITES * STEP * 4 * (PLACES + 1)];
    start(NULL);
    td_array *x = td_ones(client, td_dims(3), TD_FLOAT32), *y[PLACES + 2];
    char *at = texts;
    for (int k = 0; k <= PLACES; k++, at += STEP) {
        while (site_of(at) != site_of(texts) && at < texts + sizeof texts - STEP) at += STEP;
        CU_ASSERT_EQUAL_FATAL(site_of(at), site_of(texts));
        snprintf(at, STEP, "same.c:%d", k);
        y[k] = td_at_log(at, x);
    }
    at -= STEP;
    float v[3];
    for (int k = 0; k <= PLACES; k++) {
        char expected[STEP] = "";
        if (k < PLACES) snprintf(expected, sizeof expected, "same.c:%d", k);
        CU_ASSERT_EQUAL(td_read(y[k], v, sizeof v), TD_E_INVALID);
        CU_ASSERT_STRING_EQUAL(td_last_error()->where, expected);
    }
    y[PLACES + 1] = td_at_log(at, x);
    CU_ASSERT_EQUAL(td_read(y[PLACES + 1], v, sizeof v), TD_E_INVALID);
    CU_ASSERT_STRING_EQUAL(td_last_error()->where, "same.c:8");
    stop();
}

static void releases_in_order(void)
{
    start(NULL);
    td_array *x = td_ones(client, td_dims(8), TD_FLOAT32);
    for (int i = 0; i < 20000; i++) td_release(td_add(x, x));
    td_array *y = td_add(x, x);
    float v[8];
    CU_ASSERT_EQUAL(td_read(y, v, sizeof v), TD_OK);
    CU_ASSERT_EQUAL(v[7], 2);
    CU_ASSERT_EQUAL(fake_seen(fake)->ops, 20002);
    CU_ASSERT_TRUE(fake_live(fake) < 600);
    td_release(x), td_release(y);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_live(fake), 0);
    CU_ASSERT_EQUAL(fake_seen(fake)->released_ids, 20002);
    stop();
}

static void scopes_release(void)
{
    start(NULL);
    td_scope outer, inner;
    td_scope_begin(&outer);
    td_array *x = td_ones(client, td_dims(2), TD_FLOAT32);
    td_scope_begin(&inner);
    td_array *kept = td_keep(td_add(td_mul(x, 2), 1)), *also = td_retain(td_add(x, x));
    td_release(td_add(x, 3));
    td_scope_end(&inner);
    CU_ASSERT_EQUAL(td_numel(kept), 2);
    CU_ASSERT_EQUAL(td_numel(also), 2);
    td_scope_end(&outer);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_live(fake), 2);
    td_release(kept), td_release(also);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_live(fake), 0);
    stop();
}

static void data_in_and_out(void)
{
    start(NULL);
    float small[4] = {1, 2, 3, 4}, back[4] = {0};
    td_array *a = td_from_data(client, TD_FLOAT32, td_dims(2, 2), small);
    CU_ASSERT_EQUAL(td_read(a, back, sizeof back), TD_OK);
    CU_ASSERT_EQUAL(memcmp(small, back, sizeof small), 0);
    CU_ASSERT_EQUAL(fake_seen(fake)->leases, 0);
    td_array *t = td_transpose(a, 0, 1), *one = td_select(td_select(a, 0, 1), 0, 0);
    CU_ASSERT_EQUAL(td_read(t, back, sizeof back), TD_OK);
    CU_ASSERT_EQUAL(back[1], 3);
    CU_ASSERT_EQUAL(td_item_f64(one), 3);
    CU_ASSERT_EQUAL(td_item_i64(one), 3);
    size_t n = 100000;
    float *large = malloc(n * sizeof *large), *copy = malloc(n * sizeof *copy);
    for (size_t i = 0; i < n; i++) large[i] = (float)i;
    td_array *b = td_from_data(client, TD_FLOAT32, td_dims((int64_t)n), large);
    CU_ASSERT_EQUAL(td_read(b, copy, n * sizeof *copy), TD_OK);
    CU_ASSERT_EQUAL(memcmp(large, copy, n * sizeof *copy), 0);
    const float *p = td_data(b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(p[n - 1], (float)(n - 1));
    td_array *sum = td_add(b, b);
    const float *q = td_data(sum);
    CU_ASSERT_PTR_NOT_NULL_FATAL(q);
    CU_ASSERT_EQUAL(q[n - 1], 2 * (float)(n - 1));
    CU_ASSERT_EQUAL(fake_seen(fake)->descriptors_sent, 1); /* one segment, one descriptor, one mapping */
    free(large), free(copy);
    td_release(a), td_release(b), td_release(t), td_release(sum), td_release(one);
    stop();
}

/* An address of a kind that this library does not know is refused, and maps nothing; values come as before. */
static void unknown_handles_are_refused(void)
{
    for (uint32_t kind = 1; kind <= 3; kind++) {
        start(&(fake_options){.handle_kind = kind});
        td_array *a = td_full(client, td_dims(2), 1.5, TD_FLOAT32), *b = td_add(a, a);
        CU_ASSERT_PTR_NULL(td_data(a));
        CHECK_ERROR(TD_E_UNSUPPORTED, "copy it to the cpu first");
        CU_ASSERT_EQUAL(td_item_f64(td_select(b, 0, 0)), 3);
        td_release(a), td_release(b);
        stop();
    }
}

/* An address that ends with its memory is good; one that reaches a byte beyond is refused. */
static void addresses_end_with_their_memory(void)
{
    enum { BYTES = 40000 };
    for (int beyond = 0; beyond < 2; beyond++) {
        start(&(fake_options){.at_end = BYTES - beyond});
        td_array *x = td_full(client, td_dims(BYTES / 4), 1.5, TD_FLOAT32);
        CU_ASSERT_EQUAL(td_data(x) == NULL, beyond);
        if (beyond) CHECK_ERROR(TD_E_PROTOCOL, "an address reaches beyond its segment");
        td_lease *l = td_lease_new(client, BYTES);
        CU_ASSERT_EQUAL(l == NULL, beyond);
        if (beyond) CHECK_ERROR(TD_E_PROTOCOL, "an address reaches beyond its segment");
        td_lease_free(l);
        td_release(x);
        stop();
    }
}

static void leases_are_what_was_asked_for(void)
{
    start(&(fake_options){.lease_lacks = 1});
    CU_ASSERT_PTR_NULL(td_lease_new(client, 4096));
    CHECK_ERROR(TD_E_PROTOCOL, "the lease is smaller than what was asked for");
    stop();
    start(&(fake_options){.reads_only = true});
    CU_ASSERT_PTR_NULL(td_lease_new(client, 4096));
    CHECK_ERROR(TD_E_PROTOCOL, "the lease is read-only");
    stop();
}

/* Of the sizes that were asked for twice the last few have one ahead; that of the size before them goes back. */
static void leases_ahead_are_few(void)
{
    enum { SIZES = 20, SPARES = 2 };
    start(NULL);
    for (int size = 1; size <= SIZES; size++)
        for (int i = 0; i < 2; i++) td_lease_free(td_lease_new(client, (size_t)size * 4096));
    td_sync(client);
    uint64_t asked = fake_seen(fake)->leases, back = fake_seen(fake)->lease_drops;
    CU_ASSERT_EQUAL(asked, 3 * SIZES);
    CU_ASSERT_EQUAL(asked - back, SPARES); /* these wait */
    stop();
}

static void leases_are_fetched_ahead(void)
{
    start(NULL);
    for (int i = 0; i < 10; i++) {
        td_lease *l = td_lease_new(client, 40000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(l);
        float *p = td_lease_data(l);
        for (int k = 0; k < 10000; k++) p[k] = (float)(i + k);
        td_array *a = td_put(l, 0, TD_FLOAT32, td_dims(5000)), *b = td_put(l, 20000, TD_FLOAT32, td_dims(50, 100));
        CU_ASSERT_PTR_NULL(td_put(l, 39999, TD_UINT8, td_dims(2)));
        CU_ASSERT_PTR_NULL(td_put(l, 2, TD_FLOAT32, td_dims(2)));
        td_lease_free(l);
        float v;
        td_array *one = td_select(b, 0, 49), *last = td_select(one, 0, 99);
        CU_ASSERT_EQUAL(td_read(last, &v, sizeof v), TD_OK);
        CU_ASSERT_EQUAL(v, (float)(i + 9999));
        td_release(a), td_release(b), td_release(one), td_release(last);
    }
    td_lease_free(td_lease_new(client, 40000));
    td_lease *whole = td_lease_new(client, 64);
    memset(td_lease_data(whole), 0, 64);
    td_array *all = td_put(whole, 0, TD_INT64, td_dims(2, 4));
    CU_ASSERT_EQUAL(td_size(all, 1), 4);
    CU_ASSERT_PTR_NULL(td_put(whole, 0, TD_INT64, td_dims(1)));
    CHECK_ERROR(TD_E_INVALID, "put already");
    td_lease_free(whole);
    CU_ASSERT_EQUAL(td_sync(client), TD_OK);
    CU_ASSERT_EQUAL(fake_seen(fake)->leases, 13); /* one is ready ahead */
    CU_ASSERT_EQUAL(fake_seen(fake)->lease_drops, 1);
    stop();
}

static void writes_in_place(void)
{
    start(NULL);
    td_array *a = td_ones(client, td_dims(4), TD_FLOAT32);
    float *p = td_write_begin(a, 1000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    p[2] = 7;
    CU_ASSERT_EQUAL(td_write_end(a), TD_OK);
    CU_ASSERT_EQUAL(td_write_end(a), TD_E_INVALID);
    float v[4];
    CU_ASSERT_EQUAL(td_read(a, v, sizeof v), TD_OK);
    CU_ASSERT_EQUAL(v[2], 7);
    td_release(a);
    stop();
}

static void unknown_shapes_are_asked(void)
{
    start(NULL);
    td_array *x = td_ones(client, td_dims(5), TD_FLOAT32), *i = td_nonzero(x);
    uint64_t frames = fake_seen(fake)->frames;
    CU_ASSERT_EQUAL(td_size(i, 0), 2);
    CU_ASSERT_EQUAL(fake_seen(fake)->frames, frames + 1);
    CU_ASSERT_EQUAL(td_size(i, 1), 1);
    td_array *column = td_select(td_nonzero(x), 1, 0);
    CU_ASSERT_EQUAL(td_size(column, 0), 2);
    td_array *none = td_grad(x);
    CU_ASSERT_PTR_NULL(none);
    CHECK_ERROR(TD_E_NOT_FOUND, "no gradient");
    td_array *grads[2];
    CU_ASSERT_EQUAL(
        td_autograd_grad(td_arrays(td_sum(x)), td_arrays_of(0, NULL), td_arrays(x, x), TD_ALLOW_UNUSED, grads), TD_OK);
    CU_ASSERT_EQUAL(td_numel(grads[0]), 5);
    td_release(x), td_release(i);
    stop();
}

typedef struct worker {
    pthread_t thread;
    int wrong, base;
} worker;

static void *work(void *context)
{
    worker *w = context;
    for (int i = 0; i < 500; i++) {
        td_array *x = td_full(client, td_dims(16), w->base + i, TD_FLOAT32), *y = td_add(x, 1);
        float v[16] = {0};
        if (td_read(y, v, sizeof v) || v[15] != (float)(w->base + i + 1)) w->wrong++;
        td_release(x), td_release(y);
    }
    return NULL;
}

/* Two threads that ask in step: each pair of replies comes in the opposite order. */
static void replies_out_of_order(void)
{
    start(&(fake_options){.reverse_replies = true});
    worker w[2] = {{.base = 1000}, {.base = 5000}};
    for (int i = 0; i < 2; i++) pthread_create(&w[i].thread, NULL, work, &w[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(w[i].thread, NULL);
        CU_ASSERT_EQUAL(w[i].wrong, 0);
    }
    CU_ASSERT_EQUAL(fake_seen(fake)->reads, 1000);
    CU_ASSERT_EQUAL(fake_seen(fake)->protocol_errors, 0);
    td_scope_end(&scope);
    td_disconnect(client);
    fake_stop(fake);
}

static void threads_share_a_client(void)
{
    start(NULL);
    worker w[6] = {0};
    for (int i = 0; i < 6; i++) pthread_create(&w[i].thread, NULL, work, &w[i]);
    for (int i = 0; i < 6; i++) {
        pthread_join(w[i].thread, NULL);
        CU_ASSERT_EQUAL(w[i].wrong, 0);
    }
    stop();
}

static void a_slow_daemon_is_no_deadlock(void)
{
    start(&(fake_options){.slow_reader = true});
    td_array *x = td_ones(client, td_dims(8), TD_FLOAT32);
    for (int i = 0; i < 60000; i++) td_release(td_add(x, x));
    CU_ASSERT_EQUAL(td_sync(client), TD_OK);
    CU_ASSERT_EQUAL(fake_seen(fake)->ops, 60001);
    td_release(x);
    stop();
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void a_lost_daemon_is_told(void)
{
    start(&(fake_options){.die_at = 500});
    td_array *x = td_ones(client, td_dims(8), TD_FLOAT32), *y = x;
    double t = seconds();
    while (y) {
        td_array *z = td_add(x, x);
        if (y != x) td_release(y);
        y = z;
        if (seconds() - t > 60) break;
    }
    CU_ASSERT_PTR_NULL(y);
    CHECK_ERROR(TD_E_LOST, "closed");
    float v[8];
    CU_ASSERT_EQUAL(td_read(x, v, sizeof v), TD_E_LOST);
    CU_ASSERT_EQUAL(td_sync(client), TD_E_LOST);
    CU_ASSERT_EQUAL(td_seed(client, 7), TD_E_LOST);
    CU_ASSERT_EQUAL(td_drawn(client), 0);
    CU_ASSERT_PTR_NULL(td_open(client, "x", 1000));
    CU_ASSERT_PTR_NULL(td_lease_new(client, 1));
    CU_ASSERT_PTR_NULL(td_zeros(client, td_dims(1), TD_FLOAT32));
    td_disconnect(client);
    td_scope_end(&scope); /* after the client: the handles outlive it */
    fake_stop(fake);
}

static void connections_are_checked(void)
{
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_connect("/nonexistent/socket"));
    CHECK_ERROR(TD_E_NOT_FOUND, "/nonexistent/socket");
    fake = fake_start(&(fake_options){.refuse = true});
    CU_ASSERT_PTR_NULL(td_connect(fake_path(fake)));
    CHECK_ERROR(TD_E_QUOTA, "too many clients");
    fake_stop(fake);
    fake = fake_start(&(fake_options){.protocol = 99});
    CU_ASSERT_PTR_NULL(td_connect(fake_path(fake)));
    CHECK_ERROR(TD_E_UNSUPPORTED, "99");
    fake_stop(fake);
    CU_ASSERT_PTR_NULL(td_zeros(NULL, td_dims(1), TD_FLOAT32));
    CHECK_ERROR(TD_E_INVALID, "client is NULL");
}

static void other_tables_refuse_only_what_differs(void)
{
    start(&(fake_options){.other_op = 182}); /* mul */
    td_array *x = td_ones(client, td_dims(2), TD_FLOAT32), *y = td_add(x, x);
    CU_ASSERT_PTR_NOT_NULL(y);
    CU_ASSERT_PTR_NULL(td_mul(x, x));
    CHECK_ERROR(TD_E_UNSUPPORTED, "fake");
    td_release(x), td_release(y);
    stop();
}

static void forked_children_have_their_own_connection(void)
{
    start(NULL);
    td_array *x = td_full(client, td_dims(4), 3, TD_FLOAT32), *gone = td_add(x, 1);
    td_release(gone); /* in the batch that only the parent has */
    uint32_t parent_session = td_session(client);
    pid_t child = fork();
    if (child == 0) {
        float v[4] = {0};
        td_array *y = td_add(x, 1);
        bool ok = td_session(client) != parent_session && td_read(y, v, sizeof v) == TD_OK && v[3] == 4;
        td_release(x), td_release(y);
        td_disconnect(client);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    float v[4];
    CU_ASSERT_EQUAL(td_read(x, v, sizeof v), TD_OK);
    CU_ASSERT_EQUAL(v[0], 3);
    CU_ASSERT_EQUAL(td_session(client), parent_session);
    td_release(x);
    stop();
}

static void names_and_queues(void)
{
    start(NULL);
    td_array *x = td_full(client, td_dims(3), 2, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_publish(x, "w", TD_REPLACE), TD_OK);
    td_client *other = td_connect(fake_path(fake));
    td_array *w = td_open(other, "w", 0);
    CU_ASSERT_EQUAL(td_numel(w), 3);
    CU_ASSERT_PTR_NULL(td_open(other, "nothing", 0));
    CHECK_ERROR(TD_E_NOT_FOUND, "no such name");
    CU_ASSERT_PTR_NULL(td_add(x, w));
    CHECK_ERROR(TD_E_INVALID, "two clients");
    td_queue *put = td_queue_open(client, "q", 4, TD_PRODUCER), *get = td_queue_open(other, "q", 0, TD_CONSUMER);
    CU_ASSERT_EQUAL(td_queue_put(put, td_arrays(x, x), "note", 4, 1000), TD_OK);
    td_queue_item item;
    CU_ASSERT_EQUAL(td_queue_get(get, &item, 1000), TD_OK);
    CU_ASSERT_EQUAL(item.n, 2);
    CU_ASSERT_STRING_EQUAL(item.note, "note");
    uint64_t maps = fake_seen(fake)->maps;
    const float *p = td_data(item.at[1]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(p[2], 2);
    CU_ASSERT_EQUAL(fake_seen(fake)->maps, maps); /* the address came with the item */
    td_queue_item_clear(&item);
    CU_ASSERT_EQUAL(td_queue_get(get, &item, 0), TD_E_TIMEOUT);
    td_queue_close(put, true), td_queue_close(get, false);
    td_release(x), td_release(w);
    td_disconnect(other);
    stop();
}

static unsigned asked_to_stop;

/* The program wants to stop as soon as it is asked. */
static bool at_once(void *context)
{
    (void)context;
    asked_to_stop++;
    return true;
}

/* A wait that may be stopped is one for a slice of time after the other. Each is answered here before anybody could ask
 * whether the program wants to stop: so it is asked between two of them. */
static void stopped_between_slices(void)
{
    static const int limits[] = {60000, -1};
    start(NULL);
    td_queue *q = td_queue_open(client, "q", 4, TD_PRODUCER | TD_CONSUMER);
    td_queue_item item;
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        CU_ASSERT_EQUAL(td_sync(client), TD_OK);
        td_set_interrupt(client, at_once, NULL);
        uint64_t frames = fake_seen(fake)->frames;
        asked_to_stop = 0;
        CU_ASSERT_EQUAL_FATAL(td_queue_get(q, &item, limits[i]), TD_E_CANCELLED);
        CHECK_ERROR(TD_E_CANCELLED, "stopped while waiting for others");
        CU_ASSERT_EQUAL(fake_seen(fake)->frames, frames + 1);
        CU_ASSERT_EQUAL(asked_to_stop, 1);
        td_set_interrupt(client, NULL, NULL);
    }
    CU_ASSERT_EQUAL(td_queue_get(q, &item, 0), TD_E_TIMEOUT);
    td_clear_error();
    td_queue_close(q, false);
    stop();
}

/* What has been put: `n` tensors and a note of so many bytes, into the queue that is returned. */
static td_queue *with_item(int n, size_t note)
{
    td_array *x = td_full(client, td_dims(3), 2, TD_FLOAT32), *at[64];
    for (int i = 0; i < n; i++) at[i] = x;
    char text[64] = "a note";
    td_queue *q = td_queue_open(client, "q", 4, TD_PRODUCER | TD_CONSUMER);
    CU_ASSERT_PTR_NOT_NULL_FATAL(q);
    CU_ASSERT_EQUAL(td_queue_put(q, td_arrays_of(n, at), text, note, 1000), TD_OK);
    return q;
}

/* An answer says how many ids the item wants, or brings it; one that does both is no answer, and leaves nothing. */
static void mixed_answers(void)
{
    for (int mixes = 0; mixes < 2; mixes++) {
        start(&(fake_options){.mixes_items = mixes});
        td_queue *q = with_item(29, 40);
        td_queue_item item;
        int rc = td_queue_get(q, &item, 1000);
        CU_ASSERT_EQUAL(rc, mixes ? TD_E_PROTOCOL : TD_OK);
        if (rc) CHECK_ERROR(TD_E_PROTOCOL, "no item came");
        else CU_ASSERT_EQUAL(item.n, 29);
        if (!rc) td_queue_item_clear(&item);
        td_queue_close(q, false);
        stop();
    }
}

/* Where there is no memory for an item that came, it goes back to its place, and its ids are released. */
static void no_memory_for_an_item(void)
{
    enum { N = 37, NOTE = 41 };
    const size_t sizes[] = {(N + 1) * sizeof(td_array *), NOTE + 1};
    for (int i = 0; i < 2; i++) {
        start(NULL);
        td_queue *q = with_item(N, NOTE);
        td_queue_item item;
        refused_bytes = sizes[i];
        int rc = td_queue_get(q, &item, 1000);
        refused_bytes = 0;
        CU_ASSERT_EQUAL(rc, TD_E_SYSTEM);
        CHECK_ERROR(TD_E_SYSTEM, "37 tensors and a note of 41 bytes");
        CU_ASSERT_EQUAL(td_queue_get(q, &item, 1000), TD_OK);
        CU_ASSERT_EQUAL(fake_seen(fake)->returns, 1);
        CU_ASSERT_EQUAL(item.n, N);
        CU_ASSERT_EQUAL(item.note_size, NOTE);
        CU_ASSERT_STRING_EQUAL(item.note, "a note");
        td_queue_item_clear(&item);
        td_queue_close(q, false);
        stop();
    }
}

static int same(td_client *c, const td_hook_call *call, void *context)
{
    (void)c, (void)call;
    ++*(int *)context;
    return 0; /* they stay as they were */
}

/* What a hook is given is given once, and what the daemon has bound is released, also where the rest of its answer fits
 * nothing, or there is no memory for it. */
static void what_hooks_are_given(void)
{
    enum { FITS, MISFITS, NO_MEMORY };
    for (int how = FITS; how <= NO_MEMORY; how++) {
        int ran = 0;
        start(&(fake_options){.misgives = how == MISFITS});
        td_set_on_hook(client, same, &ran);
        td_array *x = td_full(client, td_dims(3), 2, TD_FLOAT32);
        td_set_requires_grad(x, true);
        CU_ASSERT(td_hook(x, TD_ON_TENSOR) != 0);
        refused_bytes = how == NO_MEMORY ? 2 * sizeof(td_array *) : 0;
        int rc = td_backward(td_sum(x));
        refused_bytes = 0;
        CU_ASSERT_EQUAL(rc, how == FITS ? TD_OK : how == MISFITS ? TD_E_PROTOCOL : TD_E_SYSTEM);
        if (how == MISFITS) CHECK_ERROR(TD_E_PROTOCOL, "does not fit the ids");
        if (how == NO_MEMORY) CHECK_ERROR(TD_E_SYSTEM, "for a hook");
        CU_ASSERT_EQUAL(fake_seen(fake)->asks, 1);
        CU_ASSERT_EQUAL(ran, how == FITS);
        stop();
    }
}

/* What an answer has bound that could not be taken is released: its id is not used again before. */
static void untaken(void)
{
    for (int misgives = 0; misgives < 2; misgives++) {
        start(&(fake_options){.misgives = misgives});
        td_array *x = td_full(client, td_dims(3), 2, TD_FLOAT32), *y = td_published(x, "w", TD_REPLACE);
        CU_ASSERT_EQUAL(y == NULL, misgives);
        if (misgives) CHECK_ERROR(TD_E_PROTOCOL, "no descriptor came");
        td_add(x, 1);
        CU_ASSERT_EQUAL(td_sync(client), TD_OK);
        stop();
    }
}

static void unmaps_when_asked(void)
{
    start(NULL);
    td_array *x = td_ones(client, td_dims(4000), TD_FLOAT32);
    CU_ASSERT_PTR_NOT_NULL(td_data(x));
    fake_unmap(fake);
    for (int i = 0; i < 50; i++) td_sync(client), usleep(1000);
    CU_ASSERT_EQUAL(fake_seen(fake)->unmapped, 0); /* a handle points into it */
    td_release(x);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_seen(fake)->unmapped, 1);
    x = td_ones(client, td_dims(4000), TD_FLOAT32);
    const float *p = td_data(x);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(p[3999], 1);
    td_release(x);
    stop();
}

static void what_is_given_anew_stays(void)
{
    start(NULL);
    td_array *x = td_ones(client, td_dims(4000), TD_FLOAT32), *y = td_ones(client, td_dims(4000), TD_FLOAT32);
    CU_ASSERT_PTR_NOT_NULL(td_data(x));
    fake_unmap(fake);
    for (int i = 0; i < 50; i++) td_sync(client), usleep(1000);
    CU_ASSERT_PTR_NOT_NULL(td_data(y));
    CU_ASSERT_EQUAL(fake_seen(fake)->descriptors_sent, 2);
    td_release(x), td_release(y);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_seen(fake)->unmapped, 0);
    stop();
}

static void tables(void)
{
    start(NULL);
    td_table *t = td_status(client, "status");
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL(t->columns, 2);
    CU_ASSERT_EQUAL(t->rows, 2);
    CU_ASSERT_STRING_EQUAL(t->names[1], "value");
    CU_ASSERT_EQUAL(t->cells[1].integer, 42);
    CU_ASSERT_STRING_EQUAL(t->cells[3].text, "fake");
    td_table_free(t);
    stop();
}

static void composites(void)
{
    start(NULL);
    td_scope s;
    td_scope_begin(&s);
    td_array *x = td_zeros(client, td_dims(2, 3, 4), TD_FLOAT32), *m = td_zeros(client, td_dims(4, 5), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_ndim(td_flatten(x)), 1);
    CU_ASSERT_EQUAL(td_size(td_flatten(x, 1), 1), 12);
    CU_ASSERT_EQUAL(td_size(td_reshape(td_transpose(x, 0, 2), td_dims(-1, 2)), 0), 12);
    CU_ASSERT_EQUAL(td_size(td_unflatten(x, 2, td_dims(2, 2)), 3), 2);
    CU_ASSERT_EQUAL(td_size(td_movedim(x, 0, -1), 2), 2);
    CU_ASSERT_EQUAL(td_size(td_narrow(x, 2, 1, 2), 2), 2);
    CU_ASSERT_PTR_NULL(td_narrow(x, 2, 3, 2));
    td_clear_error();
    td_array *parts[8];
    CU_ASSERT_EQUAL(td_chunk(x, 3, 8, parts, 2), 2);
    CU_ASSERT_EQUAL(td_unbind(x, 8, parts, 1), 3);
    CU_ASSERT_EQUAL(td_unbind(x, 2, parts, 1), -1);
    td_clear_error();
    td_array *p = td_matmul(x, m);
    CU_ASSERT_EQUAL(td_ndim(p), 3);
    CU_ASSERT_EQUAL(td_size(p, 2), 5);
    td_array *v = td_zeros(client, td_dims(4), TD_FLOAT32), *b = td_zeros(client, td_dims(7, 1, 4, 6), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_ndim(td_matmul(v, v)), 0);
    CU_ASSERT_EQUAL(td_ndim(td_matmul(x, v)), 2);
    CU_ASSERT_EQUAL(td_size(td_matmul(v, m), 0), 5);
    td_array *q = td_matmul(x, b);
    CU_ASSERT_EQUAL(td_ndim(q), 4);
    CU_ASSERT_EQUAL(td_size(q, 0), 7);
    CU_ASSERT_EQUAL(td_size(q, 1), 2);
    CU_ASSERT_EQUAL(td_ndim(td_matmul(v, b)), 3);
    CU_ASSERT_EQUAL(td_size(td_outer(v, v), 1), 4);
    CU_ASSERT_EQUAL(td_ndim(td_std(x, td_no_dims(), 1, false)), 0);
    CU_ASSERT_EQUAL(td_size(td_norm(x, 2, td_dims(1), true), 1), 1);
    CU_ASSERT_EQUAL(td_ndim(td_mse_loss(x, x)), 0);
    CU_ASSERT_EQUAL(td_dtype_of(td_to(x, TD_INT64)), TD_INT64);
    CU_ASSERT_EQUAL(td_zero_(x), TD_OK);
    CU_ASSERT_EQUAL(td_copy_(x, v), TD_OK);
    td_array *mask = td_gt(m, 0), *classes = td_zeros(client, td_dims(4), TD_INT64);
    CU_ASSERT_EQUAL(td_size(td_getitem(m, td_arrays(mask)), 0), 2);
    CU_ASSERT_EQUAL(td_setitem(m, td_arrays(mask), td_ones(client, td_dims(), TD_FLOAT32)), TD_OK);
    CU_ASSERT_EQUAL(td_ndim(td_cross_entropy(m, classes)), 0);
    CU_ASSERT_EQUAL(td_size(td_cat(td_arrays(v, v, v)), 0), 12);
    CU_ASSERT_EQUAL(td_size(td_argsort(m, 1, false), 1), 5);
    CU_ASSERT_EQUAL(td_last_error()->code, 0);
    td_scope_end(&s);
    td_sync(client);
    CU_ASSERT_EQUAL(fake_live(fake), 0);
    stop();
}

TD_CUNIT_MAIN("client", {"computes", computes}, {"fails at the call", fails_at_the_call},
              {"names the line of a late error", names_the_line_of_a_late_error},
              {"lines that want one place", lines_that_want_one_place}, {"releases in order", releases_in_order},
              {"scopes release", scopes_release}, {"data in and out", data_in_and_out},
              {"unknown handles are refused", unknown_handles_are_refused},
              {"leases are fetched ahead", leases_are_fetched_ahead}, {"leases ahead are few", leases_ahead_are_few},
              {"leases are what was asked for", leases_are_what_was_asked_for},
              {"addresses end with their memory", addresses_end_with_their_memory},
              {"writes in place", writes_in_place}, {"unknown shapes are asked", unknown_shapes_are_asked},
              {"replies out of order", replies_out_of_order}, {"threads share a client", threads_share_a_client},
              {"a slow daemon is no deadlock", a_slow_daemon_is_no_deadlock},
              {"a lost daemon is told", a_lost_daemon_is_told}, {"connections are checked", connections_are_checked},
              {"other tables refuse only what differs", other_tables_refuse_only_what_differs},
              {"forked children have their own connection", forked_children_have_their_own_connection},
              {"names and queues", names_and_queues}, {"stopped between slices", stopped_between_slices},
              {"mixed answers", mixed_answers}, {"no memory for an item", no_memory_for_an_item},
              {"what hooks are given", what_hooks_are_given}, {"untaken", untaken},
              {"unmaps when asked", unmaps_when_asked}, {"what is given anew stays", what_is_given_anew_stays},
              {"tables", tables}, {"composites", composites})
