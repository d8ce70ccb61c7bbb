/* Models: published, opened and asked by other processes; batches, versions, deadlines, ends; memory that comes back.
 */
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
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
                   {"an input that does not fit is named", an_input_that_does_not_fit_is_named},
                   {"a reload is a switch", a_reload_is_a_switch}, {"tables tell of models", tables_tell_of_models})
