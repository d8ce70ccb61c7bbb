/* Models: published, opened and asked by other processes; batches, versions, deadlines, ends; memory that comes back.
 */
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDE = 16, OUT = 4, LONG_MS = TEST_LONG_MS };

static const char card[] = "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [\"n\", 16]}],"
                           " \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [\"n\", 4]}]}";

static td_program *script(td_client *c, const char *source, int n, const td_binding *names)
{
    td_program *p = td_program_script(c, source, "model.py", 1, NULL, n, names);
    if (!p) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

/* y = relu(x @ w) + k, where all of w is `weight` and so is k. */
static td_model *layer(td_client *c, double weight)
{
    td_array *w = td_full(c, td_dims(WIDE, OUT), weight, TD_FLOAT32);
    td_binding names[] = {{"w", td_value_array(w), NULL}, {"td", {0}, "tensord"}};
    char source[160];
    snprintf(source, sizeof source, "def f(x):\n    return td.relu(x @ w) + %g\n", weight);
    td_program *p = script(c, source, 2, names);
    td_program *frozen = td_program_freeze(p, 0, NULL, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(frozen);
    td_program_free(p);
    td_release(w);
    td_model *m = td_model_of(frozen, card);
    if (!m) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    return m;
}

static void publish(td_model *m, const char *name, const td_model_options *o)
{
    int rc = td_model_publish(m, name, o);
    if (rc) fprintf(stderr, "%s: %s: %s\n", td_last_error()->op, td_last_error()->where, td_last_error()->message);
    CU_ASSERT_EQUAL_FATAL(rc, TD_OK);
}

static td_model *open_model(td_client *c, const char *name, int version)
{
    td_model *m = td_model_open(c, name, version, LONG_MS);
    if (!m) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    return m;
}

/* Is what it gives for rows of this number what a layer of that weight gives? 0: no; else how many rows. */
static bool answers(td_model *m, td_client *c, int rows, double x, double weight)
{
    td_array *in = td_full(c, td_dims(rows, WIDE), x, TD_FLOAT32), *y = NULL;
    int rc = td_infer(m, td_arrays(in), 1, &y, LONG_MS);
    const float *at = rc ? NULL : td_data(y);
    double want = (x * weight > 0 ? x * weight * WIDE : 0) + weight;
    bool good = at && td_size(y, 0) == rows && td_size(y, 1) == OUT;
    for (int k = 0; good && k < rows * OUT; k++) good = fabs(at[k] - want) < 1e-3;
    if (rc) fprintf(stderr, "%s: %s\n", td_last_error()->op, td_last_error()->message);
    if (at && !good) fprintf(stderr, "%g, expected %g\n", at[0], want);
    td_release(y);
    td_release(in);
    return good;
}

static void a_model_answers_in_every_process(void)
{
    td_client *c = join();
    td_model *m = layer(c, 0.5);
    CU_ASSERT_TRUE(answers(m, c, 3, 2, 0.5));
    CU_ASSERT_EQUAL(td_model_version(m), 0);
    publish(m, "layer", NULL);
    CU_ASSERT_EQUAL(td_model_version(m), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_model_card(m), "\"batch\": {\"inputs\": [0], \"outputs\": [0]"));
    CU_ASSERT_TRUE(answers(m, c, 3, 2, 0.5));
    pid_t child[4];
    for (int k = 0; k < 4; k++) {
        if ((child[k] = fork())) continue;
        td_client *own = td_connect(server.socket);
        td_model *d = own ? td_model_open(own, "layer", 0, LONG_MS) : NULL;
        bool good = d && answers(m, c, 1, 3, 0.5); /* what it has of its parent is opened again */
        for (int i = 0; good && i < 50; i++) good = answers(d, own, 1 + i % 5, i - 25 + k, 0.5);
        _exit(good ? 0 : 1);
    }
    for (int k = 0; k < 4; k++) {
        int status = -1;
        waitpid(child[k], &status, 0);
        CU_ASSERT_EQUAL(status, 0);
    }
    td_model_free(m);
    td_disconnect(c);
    c = join(); /* it outlives whoever loaded it */
    td_model *d = open_model(c, "layer", 0);
    CU_ASSERT_TRUE(answers(d, c, 2, 1, 0.5));
    CU_ASSERT_EQUAL(td_model_retire(c, "layer", 0), TD_OK);
    td_array *x = td_zeros(c, td_dims(1, WIDE), TD_FLOAT32), *y;
    CHECK_FAILS(td_infer(d, td_arrays(x), 1, &y, LONG_MS), TD_E_NOT_FOUND, "'layer'");
    CHECK_FAILS(td_model_open(c, "layer", 0, 0), TD_E_NOT_FOUND, "'layer'");
    td_release(x);
    td_model_free(d);
    td_disconnect(c);
}

/* The card of so many inputs x0, x1, ... of so many sizes each, and of one output. */
static td_model *model_with(td_client *c, int inputs, int sizes)
{
    static char source[8192], text[65536];
    size_t at = 0, said = 0;
    for (int k = 0; k < inputs; k++) {
        at += (size_t)snprintf(source + at, sizeof source - at, "%sx%d", k ? ", " : "def f(", k);
        said +=
            (size_t)snprintf(text + said, sizeof text - said, "%s{\"name\": \"x%d\", \"dtype\": \"int8\", \"shape\": [",
                             k ? "," : "{\"inputs\": [", k);
        for (int i = 0; i < sizes; i++) said += (size_t)snprintf(text + said, sizeof text - said, "%s1", i ? "," : "");
        said += (size_t)snprintf(text + said, sizeof text - said, "]}");
    }
    snprintf(source + at, sizeof source - at, "):\n    return x0\n");
    snprintf(text + said, sizeof text - said,
             "], \"outputs\": [{\"name\": \"y\", \"dtype\": \"int8\", \"shape\": null}]}");
    return td_model_of(script(c, source, 0, NULL), text);
}

static void a_card_has_its_bounds(void)
{
    td_client *c = join();
    td_model *most = model_with(c, 256, 1), *deep = model_with(c, 1, 8);
    CU_ASSERT_PTR_NOT_NULL(most);
    CU_ASSERT_PTR_NOT_NULL(deep);
    CHECK_FAILS(model_with(c, 257, 1), TD_E_INVALID, "has a list \"inputs\", of at most 256");
    CHECK_FAILS(model_with(c, 1, 9), TD_E_INVALID, "has too many dimensions");
    td_model_free(most), td_model_free(deep);
    static const char *const wrong[][2] = {
        {"7", "has no name"},
        {"{\"name\": 7}", "has no name"},
        {"{\"name\": \"x\"}", "has no dtype that is known"},
        {"{\"name\": \"x\", \"dtype\": \"int7\"}", "has no dtype that is known"},
        {"{\"name\": \"x\", \"dtype\": \"int8\"}", "has no shape"},
        {"{\"name\": \"x\", \"dtype\": \"int8\", \"shape\": 7}", "has no shape"},
        {"{\"name\": \"x\", \"dtype\": \"int8\", \"shape\": [1, 0.5]}", "neither a number, a text nor null"},
        {"{\"name\": \"x\", \"dtype\": \"int8\", \"shape\": [-1]}", "neither a number, a text nor null"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        char text[256];
        snprintf(text, sizeof text, "{\"inputs\": [%s], \"outputs\": []}", wrong[k][0]);
        CHECK_FAILS(td_model_of(script(c, "def f(x):\n    return x\n", 0, NULL), text), TD_E_INVALID, wrong[k][1]);
    }
    td_disconnect(c);
}

static void one_without_outputs(void)
{
    td_client *c = join();
    td_model *m =
        td_model_of(script(c, "def f(x):\n    return ()\n", 0, NULL),
                    "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2]}], \"outputs\": []}");
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    td_array *x = td_ones(c, td_dims(2), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_infer(m, td_arrays(x), 0, NULL, LONG_MS), TD_OK); /* here */
    publish(m, "mute", NULL);
    CU_ASSERT_EQUAL(td_infer(m, td_arrays(x), 0, NULL, LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(td_model_retire(c, "mute", 0), TD_OK);
    td_model_free(m);
    td_release(x);
    td_disconnect(c);
}

static void an_input_that_does_not_fit_is_named(void)
{
    td_client *c = join();
    td_model *m = layer(c, 1);
    td_array *y, *flat = td_zeros(c, td_dims(WIDE), TD_FLOAT32), *narrow = td_zeros(c, td_dims(2, 8), TD_FLOAT32),
                 *whole = td_zeros(c, td_dims(2, WIDE), TD_INT64), *good = td_zeros(c, td_dims(2, WIDE), TD_FLOAT32);
    for (int k = 0; k < 2; k++) {
        CHECK_FAILS(td_infer(m, td_arrays(flat), 1, &y, LONG_MS), TD_E_SHAPE, "input 0, 'x', is float32 [n, 16], but");
        CHECK_FAILS(td_infer(m, td_arrays(narrow), 1, &y, LONG_MS), TD_E_SHAPE, "'x', is float32 [n, 16], but");
        CHECK_FAILS(td_infer(m, td_arrays(whole), 1, &y, LONG_MS), TD_E_TYPE, "int64");
        CHECK_FAILS(td_infer(m, td_arrays(good, good), 1, &y, LONG_MS), TD_E_INVALID, "takes 1 input, and 2 are given");
        td_array *two[2];
        CHECK_FAILS(td_infer(m, td_arrays(good), 2, two, LONG_MS), TD_E_INVALID,
                    "has 1 output, and there is room for 2");
        if (!k) publish(m, "named", NULL);
    }
    td_release(flat), td_release(narrow), td_release(whole), td_release(good);
    CU_ASSERT_EQUAL(td_model_retire(c, "named", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

/* ---- versions */

static void a_reload_is_a_switch(void)
{
    td_client *c = join();
    td_model *a = layer(c, 1), *b = layer(c, 2);
    publish(a, "switched", NULL);
    td_model *d = open_model(c, "switched", 0);
    CU_ASSERT_TRUE(answers(d, c, 1, 1, 1));
    publish(b, "switched", &(td_model_options){.size = sizeof(td_model_options), .flags = TD_MODEL_KEEP_OLD});
    CU_ASSERT_EQUAL(td_model_version(b), 2);
    CU_ASSERT_TRUE(answers(d, c, 1, 1, 2));
    CU_ASSERT_TRUE(answers(a, c, 1, 1, 2)); /* a handle is one of the name */
    td_model *old = open_model(c, "switched", 1);
    CU_ASSERT_TRUE(answers(old, c, 1, 1, 1));
    CU_ASSERT_EQUAL(td_model_serve(c, "switched", 1), TD_OK); /* back */
    CU_ASSERT_TRUE(answers(d, c, 1, 1, 1));
    CHECK_FAILS(td_model_serve(c, "switched", 9), TD_E_NOT_FOUND, "has no version 9; it has 2, 1");
    CU_ASSERT_EQUAL(td_model_retire(c, "switched", 1), TD_OK);
    CU_ASSERT_TRUE(answers(d, c, 1, 1, 2));
    td_array *x = td_zeros(c, td_dims(1, WIDE), TD_FLOAT32), *y;
    CHECK_FAILS(td_infer(old, td_arrays(x), 1, &y, LONG_MS), TD_E_CLOSED,
                "version 1 of the model 'switched' was retired");
    td_release(x);
    CU_ASSERT_EQUAL(td_drop(c, "switched"), TD_OK);
    td_model_free(a), td_model_free(b), td_model_free(d), td_model_free(old);
    td_disconnect(c);
}

/* ---- what the daemon says of them */

/* A number of a version's row; -1: there is no such row. */
static int64_t of_model(td_client *c, const char *name, int64_t version, const char *column)
{
    td_table *t = td_status(c, "models");
    int64_t found = -1;
    for (int r = 0; t && r < t->rows; r++) {
        const td_cell *row = &t->cells[r * t->columns];
        if (strcmp(row[0].text, name) != 0 || row[1].integer != version) continue;
        for (int k = 0; k < t->columns; k++)
            if (strcmp(t->names[k], column) == 0) found = row[k].integer;
    }
    td_table_free(t);
    return found;
}

static bool comes_to_be(td_client *c, const char *name, int64_t version, const char *column, int64_t value)
{
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; of_model(c, name, version, column) != value; test_sleep_ms(1))
        if (test_now_ms() > until) return false;
    return true;
}

static int models_of(td_client *c)
{
    td_table *t = td_status(c, "models");
    int n = t ? t->rows : -1;
    td_table_free(t);
    return n;
}

/* ---- batches */

enum { MANY = 8 };
/* A run begins when so many wait, however they come. */
static const td_model_options all_together = {
    .size = sizeof all_together, .max_batch = MANY, .delay_us = 1000 * LONG_MS};

/* Waits until all are answered. */
static void wait_for(td_client *c, int n, td_request **r)
{
    for (int k = 0; k < n; k++)
        while (!td_request_done(r[k])) {
            td_client_dispatch(c);
            test_sleep_ms(1);
        }
}

static void requests_are_joined(void)
{
    td_client *c = join();
    td_model *m = layer(c, 2);
    publish(m, "joined", &all_together);
    int64_t before = of_model(c, "joined", 1, "runs"), answered = of_model(c, "joined", 1, "requests");
    td_request *r[MANY];
    td_array *x[MANY], *y;
    td_client_fd(c);
    for (int k = 0; k < MANY; k++) x[k] = td_full(c, td_dims(1, WIDE), k, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    for (int k = 0; k < MANY; k++)
        CU_ASSERT_PTR_NOT_NULL_FATAL(r[k] = td_async_infer(m, td_arrays(x[k]), NULL, NULL, NULL));
    wait_for(c, MANY, r);
    for (int k = 0; k < MANY; k++) {
        CU_ASSERT_EQUAL(td_request_arrays(r[k], 1, &y), TD_OK);
        CHECK_VALUES(y, 32 * k + 2, 32 * k + 2, 32 * k + 2, 32 * k + 2);
        td_release(y);
        CHECK_FAILS(td_request_arrays(r[k], 1, &y), TD_E_INVALID, "no outputs");
        td_request_free(r[k]);
        td_release(x[k]);
    }
    CU_ASSERT_EQUAL(of_model(c, "joined", 1, "requests") - answered, MANY);
    CU_ASSERT_EQUAL(of_model(c, "joined", 1, "runs") - before, 1);
    CU_ASSERT_EQUAL(of_model(c, "joined", 1, "again"), 0);
    CU_ASSERT_EQUAL(td_model_retire(c, "joined", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

/* Rows of a table, by numbers that the kernel checks. */
static td_model *table(td_client *c)
{
    static const char picks[] = "{\"inputs\": [{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [null]}],"
                                " \"outputs\": [{\"name\": \"rows\", \"dtype\": \"float32\", \"shape\": [null, 4]}]}";
    td_array *w = td_full(c, td_dims(2, OUT), 7, TD_FLOAT32);
    td_binding names[] = {{"w", td_value_array(w), NULL}, {"td", {0}, "tensord"}};
    td_program *p = script(c, "def f(ids):\n    return td.index_select(w, 0, ids)\n", 2, names);
    td_release(w);
    td_model *m = td_model_of(p, picks);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    return m;
}

static void one_row_that_fails_is_alone(void)
{
    td_client *c = join();
    td_model *m = table(c);
    publish(m, "table", &all_together);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_model_card(m), "\"most\": 8"));
    td_request *r[MANY];
    td_array *x[MANY], *y;
    td_client_fd(c);
    for (int k = 0; k < MANY; k++) x[k] = td_full(c, td_dims(1), k == 3 ? 99 : k % 2, TD_INT64);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    for (int k = 0; k < MANY; k++)
        CU_ASSERT_PTR_NOT_NULL_FATAL(r[k] = td_async_infer(m, td_arrays(x[k]), NULL, NULL, NULL));
    wait_for(c, MANY, r);
    for (int k = 0; k < MANY; k++) {
        if (k == 3) {
            CHECK_FAILS(td_request_arrays(r[k], 1, &y), TD_E_INDEX, "99");
        } else {
            CU_ASSERT_EQUAL(td_request_arrays(r[k], 1, &y), TD_OK);
            CHECK_VALUES(y, 7, 7, 7, 7);
            td_release(y);
        }
        td_request_free(r[k]);
        td_release(x[k]);
    }
    CU_ASSERT_EQUAL(of_model(c, "table", 1, "failed"), 1);
    CU_ASSERT_EQUAL(of_model(c, "table", 1, "again"), MANY);
    CU_ASSERT_EQUAL(td_model_retire(c, "table", 0), TD_OK);
    td_model_free(m);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK); /* it was told */
    td_disconnect(c);
}

static void inputs_are_what_they_were(void)
{
    td_client *c = join();
    td_model *m = layer(c, 1);
    publish(m, "kept", &(td_model_options){.size = sizeof(td_model_options), .max_batch = MANY});
    td_client_fd(c);
    for (int round = 0; round < 20; round++) {
        td_array *x = td_full(c, td_dims(1, WIDE), 1, TD_FLOAT32), *y[2];
        td_request *r[2];
        for (int k = 0; k < 2; k++) {
            r[k] = td_async_infer(m, td_arrays(x), NULL, NULL, NULL);
            td_mul_(x, 10); /* what is written after it was asked */
        }
        wait_for(c, 2, r);
        for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL_FATAL(td_request_arrays(r[k], 1, &y[k]), TD_OK);
        CHECK_VALUES(y[0], 17, 17, 17, 17);
        CHECK_VALUES(y[1], 161, 161, 161, 161);
        td_fill_(y[0], 5); /* an output is its own */
        CHECK_VALUES(y[1], 161, 161, 161, 161);
        for (int k = 0; k < 2; k++) td_request_free(r[k]), td_release(y[k]);
        td_release(x);
    }
    CU_ASSERT_EQUAL(td_model_retire(c, "kept", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

/* ---- limits */

/* It goes on for as long as x says: x steps, each of which waits for a value. */
static td_model *patience(td_client *c)
{
    static const char counts[] = "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"int64\", \"shape\": []}],"
                                 " \"outputs\": [{\"name\": \"y\", \"dtype\": \"int64\", \"shape\": []}]}";
    td_binding names[] = {{"td", {0}, "tensord"}};
    td_program *p = script(c,
                           "def f(x):\n"
                           "    n = int(x.item())\n"
                           "    y = x\n"
                           "    for i in range(n):\n"
                           "        y = y + 1\n"
                           "    return y\n",
                           1, names);
    td_model *m = td_model_of(p, counts);
    if (!m) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    return m;
}

static td_array *steps(td_client *c, int64_t n)
{
    return td_from_data(c, TD_INT64, (td_ints){0, NULL}, &n);
}

static void a_full_queue_says_so(void)
{
    td_client *c = join();
    td_model *m = patience(c);
    publish(m, "short", &(td_model_options){.size = sizeof(td_model_options), .queue = 2});
    td_request *r[6];
    td_array *x = steps(c, 20), *y;
    td_client_fd(c);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_array *endless = steps(c, INT64_C(1) << 60);
    td_request *first = td_async_infer(m, td_arrays(endless), NULL, NULL, NULL);
    CU_ASSERT_TRUE(comes_to_be(c, "short", 1, "running", 1));
    CU_ASSERT_TRUE(comes_to_be(c, "short", 1, "waiting", 0));
    for (int k = 0; k < 6; k++) r[k] = td_async_infer(m, td_arrays(x), NULL, NULL, NULL);
    wait_for(c, 4, r + 2);
    for (int k = 2; k < 6; k++) CHECK_FAILS(td_request_result(r[k]), TD_E_BUSY, "wait for the model 'short'");
    CU_ASSERT_EQUAL(of_model(c, "short", 1, "refused"), 4);
    td_request_cancel(first); /* it stops, as nobody wants it */
    wait_for(c, 2, r);
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_EQUAL(td_request_arrays(r[k], 1, &y), TD_OK);
        CU_ASSERT_EQUAL(td_item_i64(y), 40);
        td_release(y);
    }
    CHECK_FAILS(td_request_result(first), TD_E_CANCELLED, "cancelled");
    CU_ASSERT_EQUAL(of_model(c, "short", 1, "cancelled"), 1);
    for (int k = 0; k < 6; k++) td_request_free(r[k]);
    td_request_free(first);
    td_release(endless), td_release(x);
    CU_ASSERT_EQUAL(td_model_retire(c, "short", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

static void late_requests_cost_nothing(void)
{
    td_client *c = join();
    td_model *m = patience(c);
    publish(m, "late", NULL);
    td_array *x = steps(c, 5), *endless = steps(c, INT64_C(1) << 60), *y;
    int64_t runs = of_model(c, "late", 1, "runs");
    td_client_fd(c);
    td_infer_options soon = {sizeof soon, 20000, 0};
    td_request *first = td_async_infer(m, td_arrays(endless), NULL, NULL, NULL);
    CU_ASSERT_TRUE(comes_to_be(c, "late", 1, "running", 1));
    td_request *r = td_async_infer(m, td_arrays(x), &soon, NULL, NULL);
    wait_for(c, 1, &r);
    CHECK_FAILS(td_request_result(r), TD_E_TIMEOUT, "'late' did not answer in time: others were still before it");
    td_request_free(r);
    CHECK_FAILS(td_infer(m, td_arrays(x), 1, &y, 10), TD_E_TIMEOUT, "did not answer in time");
    CHECK_FAILS(td_infer(m, td_arrays(x), 1, &y, 0), TD_E_TIMEOUT, "no time left");
    CU_ASSERT_EQUAL(of_model(c, "late", 1, "expired"), 2);
    td_request_free(first);
    CU_ASSERT_EQUAL(td_infer(m, td_arrays(x), 1, &y, LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(td_item_i64(y), 10);
    td_release(y);
    CHECK_FAILS(td_infer(m, td_arrays(endless), 1, &y, 30), TD_E_TIMEOUT, "it was still running");
    CU_ASSERT_TRUE(comes_to_be(c, "late", 1, "running", 0));
    CU_ASSERT_EQUAL(of_model(c, "late", 1, "runs"), runs + 1); /* the others were not run to their ends, or at all */
    td_release(x), td_release(endless);
    CU_ASSERT_EQUAL(td_model_retire(c, "late", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

/* Inference is no part of a graph, in either way and wherever the model runs. */
static void outputs_are_in_no_graph(void)
{
    td_client *c = join();
    td_model *ways[] = {layer(c, 2), layer(c, 2)};
    publish(ways[1], "apart", NULL);
    td_array *x = td_full(c, td_dims(1, WIDE), 1, TD_FLOAT32), *y[2];
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true), TD_OK);
    td_client_fd(c);
    for (int k = 0; k < 2; k++) {
        td_request *r = td_async_infer(ways[k], td_arrays(x), NULL, NULL, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(r);
        wait_for(c, 1, &r);
        CU_ASSERT_EQUAL_FATAL(td_request_arrays(r, 1, &y[0]), TD_OK);
        CU_ASSERT_EQUAL_FATAL(td_infer(ways[k], td_arrays(x), 1, &y[1], LONG_MS), TD_OK);
        for (int i = 0; i < 2; i++) {
            td_info of;
            CU_ASSERT_EQUAL(td_get_info(y[i], &of), TD_OK);
            CU_ASSERT_FALSE(of.requires_grad);
            td_release(y[i]);
        }
        td_request_free(r);
    }
    td_release(x);
    CU_ASSERT_EQUAL(td_model_retire(c, "apart", 0), TD_OK);
    td_model_free(ways[0]), td_model_free(ways[1]);
    td_disconnect(c);
}

/* ---- life */

/* Bytes of segments, but for those that are kept for whoever needs one next. */
static int64_t committed_of(td_client *c)
{
    return status_of(c, "bytes_committed") - status_of(c, "bytes_warm");
}

static void unloading_gives_every_byte_back(void)
{
    enum { ROUNDS = 10, LARGE = 1 << 20 };
    td_client *c = join();
    static const char wide[] = "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [null, 1024]}],"
                               " \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [null, 1024]}]}";
    int64_t committed[ROUNDS], bytes[ROUNDS], segments[ROUNDS], maps = 0, descriptors = 0;
    td_array *w = td_full(c, td_dims(1024, 1024), 0.001, TD_FLOAT32);
    td_binding names[] = {{"w", td_value_array(w), NULL}, {"td", {0}, "tensord"}};
    td_program *first = script(c, "def f(x):\n    return td.relu(x @ w)\n", 2, names);
    td_program_free(first);
    for (int k = 0; k < ROUNDS; k++) {
        int64_t before = committed_of(c);
        if (k == 1) {
            maps = status_at_rest(c, "maps") - status_of(c, "segments_warm"); /* a helper unmaps what is large */
            descriptors = test_descriptors(server.pid) - 2 * status_of(c, "segments_warm");
        }
        td_model *m = td_model_of(script(c, "def f(x):\n    return td.relu(x @ w)\n", 2, names), wide);
        publish(m, "round", NULL);
        CU_ASSERT_TRUE(committed_of(c) - before >= 4 * LARGE);
        td_array *x = td_full(c, td_dims(1, 1024), k, TD_FLOAT32), *y;
        CU_ASSERT_EQUAL(td_infer(m, td_arrays(x), 1, &y, LONG_MS), TD_OK);
        td_release(x), td_release(y);
        CU_ASSERT_EQUAL(td_sync(c), TD_OK);
        CU_ASSERT_EQUAL(td_model_retire(c, "round", 0), TD_OK);
        td_model_free(m);
        CU_ASSERT_TRUE(comes_to(c, "tasks_pending", 0));
        int64_t warm =
            status_of(c, "segments_warm"); /* of no model: for whoever needs one next, two descriptors each */
        committed[k] = committed_of(c);
        bytes[k] = status_of(c, "bytes_used");
        segments[k] = status_of(c, "segments") - warm;
    }
    for (int k = 2; k < ROUNDS; k++) {
        CU_ASSERT_EQUAL(committed[k], committed[1]);
        CU_ASSERT_EQUAL(bytes[k], bytes[1]);
        CU_ASSERT_EQUAL(segments[k], segments[1]);
    }
    uint64_t until = test_now_ms() + TEST_LONG_MS; /* a helper unmaps what is large */
    while (test_descriptors(server.pid) - 2 * status_of(c, "segments_warm") != descriptors && test_now_ms() < until)
        test_sleep_ms(1);
    CU_ASSERT_EQUAL(test_descriptors(server.pid) - 2 * status_of(c, "segments_warm"), descriptors);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* which map memory of their own */
    int64_t most = maps + ROUNDS - 2; /* malloc may have mapped some, too: fewer than a round would leave */
    while (status_of(c, "maps") - status_of(c, "segments_warm") >= most && test_now_ms() < until) test_sleep_ms(1);
    CU_ASSERT_TRUE(status_of(c, "maps") - status_of(c, "segments_warm") < most);
#else
    (void)maps;
#endif
    CU_ASSERT_EQUAL(models_of(c), 0);
    td_release(w);
    td_disconnect(c);
}

/* Asks until it is told to end; the exit status says how often another answer than one of these weights came. */
static void ask_until(int end, double low, double high)
{
    td_client *c = td_connect(server.socket);
    td_model *m = c ? td_model_open(c, "reloaded", 0, LONG_MS) : NULL;
    char byte;
    int bad = m ? 0 : 100, rounds = 0;
    td_array *x = c ? td_full(c, td_dims(1, WIDE), 1, TD_FLOAT32) : NULL, *y = NULL;
    while (!bad && recv(end, &byte, 1, MSG_DONTWAIT) < 0) {
        if (td_infer(m, td_arrays(x), 1, &y, LONG_MS)) {
            fprintf(stderr, "%s\n", td_last_error()->message);
            bad++;
            break;
        }
        double v = ((const float *)td_data(y))[0] / (WIDE + 1);
        bad += v < low - 1e-3 || v > high + 1e-3;
        td_release(y);
        rounds++;
    }
    _exit(bad ? bad : rounds ? 0 : 101);
}

static void a_reload_fails_nobody(void)
{
    enum { ASKERS = 2, RELOADS = 12 };
    td_client *c = join();
    td_model *m = layer(c, 1);
    publish(m, "reloaded", &(td_model_options){.size = sizeof(td_model_options), .max_batch = 4});
    int ends[ASKERS][2];
    pid_t child[ASKERS];
    for (int k = 0; k < ASKERS; k++) {
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[k]), 0);
        if ((child[k] = fork()) == 0) ask_until(ends[k][1], 1, 1 + RELOADS);
    }
    for (int k = 0; k < RELOADS; k++) {
        td_model *next = layer(c, 2 + k);
        publish(next, "reloaded", NULL);
        CU_ASSERT_TRUE(answers(m, c, 1, 1, 2 + k)); /* one who asks after the switch has the new one */
        td_model_free(next);
    }
    for (int k = 0; k < ASKERS; k++) {
        int status = -1;
        CU_ASSERT_EQUAL(send(ends[k][0], "", 1, 0), 1);
        waitpid(child[k], &status, 0);
        CU_ASSERT_EQUAL(status, 0);
        close(ends[k][0]), close(ends[k][1]);
    }
    CU_ASSERT_EQUAL(models_of(c), 1);
    CU_ASSERT_EQUAL(td_model_retire(c, "reloaded", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

static void a_load_that_fails_leaves_the_old_one(void)
{
    td_client *c = join();
    static const char fixed[] = "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2, 16]}],"
                                " \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2, 4]}]}";
    td_model *m = layer(c, 3);
    publish(m, "stays", NULL);
    td_binding names[] = {{"td", {0}, "tensord"}};
    td_model *bad = td_model_of(script(c, "def f(x):\n    return x.reshape(5, 5)\n", 1, names), fixed);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bad);
    CHECK_FAILS(td_model_publish(bad, "stays", NULL), TD_E_SHAPE, "");
    CU_ASSERT_TRUE(answers(m, c, 1, 1, 3));
    CU_ASSERT_TRUE(comes_to_be(c, "stays", 2, "version", -1));
    CHECK_FAILS(
        td_model_publish(bad, "stays", &(td_model_options){.size = sizeof(td_model_options), .flags = TD_MODEL_NEW}),
        TD_E_EXISTS, "'stays' is taken by a model");
    td_array *x = td_ones(c, td_dims(2), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_publish(x, "a tensor", 0), TD_OK);
    CHECK_FAILS(td_model_publish(bad, "a tensor", NULL), TD_E_EXISTS, "is taken by a tensor");
    CHECK_FAILS(td_model_open(c, "a tensor", 0, 0), TD_E_TYPE, "'a tensor' is a tensor, not a model");
    CHECK_FAILS(td_open(c, "stays", 0), TD_E_TYPE, "'stays' is a model, not a tensor");
    CU_ASSERT_EQUAL(td_drop(c, "a tensor"), TD_OK);
    CU_ASSERT_EQUAL(td_drop(c, "stays"), TD_OK);
    td_release(x);
    td_model_free(m), td_model_free(bad);
    CU_ASSERT_EQUAL(models_of(c), 0);
    td_disconnect(c);
}

static void one_that_nobody_has_open_goes(void)
{
    td_client *c = join(), *other = join();
    td_model *m = layer(c, 1);
    publish(m, "lent", &(td_model_options){.size = sizeof(td_model_options), .flags = TD_MODEL_WHILE_OPEN});
    td_model *d = open_model(other, "lent", 0);
    td_model_free(m);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(answers(d, other, 1, 1, 1));
    CU_ASSERT_EQUAL(models_of(c), 1);
    td_disconnect(other);
    td_model_free(d);
    CU_ASSERT_TRUE(comes_to(c, "names", 0));
    CU_ASSERT_EQUAL(models_of(c), 0);
    td_disconnect(c);
}

/* Callers and loaders that are killed whenever it is leave nothing, and the others go on. */
static void the_killed_leave_nothing(void)
{
    enum { ROUNDS = 40 };
    td_client *c = join();
    td_model *m = layer(c, 1);
    publish(m, "stable", &(td_model_options){.size = sizeof(td_model_options), .max_batch = 4});
    for (int k = 0; k < ROUNDS; k++)
        CU_ASSERT_TRUE(answers(m, c, 1, 1, 1)); /* what it gets for asking often is there */
    CU_ASSERT_TRUE(comes_to(c, "tasks_pending", 0));
    int64_t storages = status_of(c, "storages"), used = status_of(c, "bytes_used");
    for (int k = 0; k < ROUNDS; k++) {
        pid_t asks = fork();
        if (!asks) {
            td_client *own = td_connect(server.socket);
            td_model *d = own ? td_model_open(own, "stable", 0, LONG_MS) : NULL;
            while (d && answers(d, own, 1 + k % 3, 2, 1)) continue;
            _exit(1);
        }
        pid_t loads = fork();
        if (!loads) {
            td_client *own = td_connect(server.socket);
            char name[32];
            snprintf(name, sizeof name, "%s%d", k % 2 ? "stable" : "mine", k % 2 ? 0 : k);
            if (k % 2) name[6] = 0;
            for (;;)
                td_model_publish(
                    layer(own, 1), name,
                    &(td_model_options){.size = sizeof(td_model_options), .flags = k % 2 ? 0 : TD_MODEL_WHILE_OPEN});
        }
        test_sleep_ms(k % 10);
        kill(asks, SIGKILL), kill(loads, SIGKILL);
        waitpid(asks, NULL, 0), waitpid(loads, NULL, 0);
        CU_ASSERT_TRUE(answers(m, c, 2, 3, 1));
        CU_ASSERT_TRUE(comes_to(c, "sessions", 1));
        for (uint64_t until = test_now_ms() + TEST_LONG_MS; models_of(c) != 1 && test_now_ms() < until;)
            test_sleep_ms(1);
        CU_ASSERT_EQUAL(models_of(c), 1);
    }
    CU_ASSERT_TRUE(comes_to(c, "tasks_pending", 0));
    CU_ASSERT_TRUE(comes_to(c, "storages", storages));
    CU_ASSERT_TRUE(comes_to(c, "bytes_used", used));
    CU_ASSERT_EQUAL(td_model_retire(c, "stable", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

static const td_cell *cell(const td_table *t, int row, const char *column)
{
    for (int k = 0; k < t->columns; k++)
        if (strcmp(t->names[k], column) == 0) return &t->cells[row * t->columns + k];
    CU_FAIL_FATAL("there is no such column");
    return NULL;
}

static void tables_tell_of_models(void)
{
    td_client *c = join();
    td_model *m = layer(c, 1);
    publish(m, "told", NULL);
    for (int k = 0; k < 3; k++) CU_ASSERT_TRUE(answers(m, c, 2, 1, 1));
    td_table *t = td_status(c, "models");
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_EQUAL_FATAL(t->rows, 1);
    CU_ASSERT_STRING_EQUAL(cell(t, 0, "name")->text, "told");
    CU_ASSERT_STRING_EQUAL(cell(t, 0, "state")->text, "ready");
    CU_ASSERT_TRUE(cell(t, 0, "serves")->yes);
    CU_ASSERT_TRUE(cell(t, 0, "requests")->integer >= 3); /* and what made it warm */
    CU_ASSERT_TRUE(cell(t, 0, "rows")->integer >= 6);
    CU_ASSERT_TRUE(cell(t, 0, "bytes")->integer > 0);
    CU_ASSERT_PTR_NOT_NULL(strchr(cell(t, 0, "batches")->text, ':'));
    td_table_free(t);
    t = td_status(c, "names");
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    CU_ASSERT_STRING_EQUAL(cell(t, 0, "kind")->text, "model");
    CU_ASSERT_STRING_EQUAL(cell(t, 0, "tensor")->text, "model, version 1");
    td_table_free(t);
    t = td_status(c, "tensors");
    CU_ASSERT_PTR_NOT_NULL(t);
    td_table_free(t);
    CU_ASSERT_EQUAL(td_model_retire(c, "told", 0), TD_OK);
    td_model_free(m);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_models", start_server, stop_server,
                   {"a model answers in every process", a_model_answers_in_every_process},
                   {"outputs are in no graph", outputs_are_in_no_graph},
                   {"a card has its bounds", a_card_has_its_bounds}, {"one without outputs", one_without_outputs},
                   {"an input that does not fit is named", an_input_that_does_not_fit_is_named},
                   {"a reload is a switch", a_reload_is_a_switch}, {"requests are joined", requests_are_joined},
                   {"one row that fails is alone", one_row_that_fails_is_alone},
                   {"inputs are what they were", inputs_are_what_they_were},
                   {"a full queue says so", a_full_queue_says_so},
                   {"late requests cost nothing", late_requests_cost_nothing},
                   {"unloading gives every byte back", unloading_gives_every_byte_back},
                   {"a reload fails nobody", a_reload_fails_nobody},
                   {"a load that fails leaves the old one", a_load_that_fails_leaves_the_old_one},
                   {"one that nobody has open goes", one_that_nobody_has_open_goes},
                   {"the killed leave nothing", the_killed_leave_nothing},
                   {"tables tell of models", tables_tell_of_models})
