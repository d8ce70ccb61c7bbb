/* A client whose memory is out: each call is tried with its first allocation failing, then with its second, and so on
 * until none fails. What fails says so, the connection goes on, and nothing is held that nobody has a handle of. */
#include "client/tensor/array.h"
#include "tests/client/common.h"
#include "tests/hostile/starve.h"
#include "tests/onnx/build.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTHING td_arrays_of(0, NULL)

static td_client *c;
static td_array *x, *w; /* leaves of two numbers */

/* This thread's error, where something gave NULL or 0. */
static int told(void)
{
    return td_last_error()->code ? td_last_error()->code : -1;
}

/* What the daemon holds for this client, and which handles it has. */
typedef struct held {
    int64_t tensors, nodes;
    uint64_t handles;
} held;

/* With the so-many-th allocation failing. True: there were fewer, or the connection is lost. */
static bool fails_at(const char *what, int (*run)(void), int n, const held *h)
{
    td_clear_error();
    until_failure = n;
    int rc = run(), left = until_failure;
    until_failure = 0;
    td_error e = *td_last_error();
    bool good = rc == TD_OK || (!left && rc == TD_E_SYSTEM && strstr(e.message, "memory"));
    td_clear_error();
    int synced = td_sync(c);
    good = good && !c->lost && (synced == TD_OK || synced == TD_E_SYSTEM);
    good = good && c->handles == h->handles && comes_to(c, "tensors", h->tensors) && comes_to(c, "nodes", h->nodes);
    if (!good)
        fprintf(stderr, "%s, allocation %d: %d, then %d: '%s' (%s); handles %lld, tensors %lld\n", what, n, rc, synced,
                e.message, e.op, (long long)(c->handles - h->handles),
                (long long)(status_of(c, "tensors") - h->tensors));
    CU_ASSERT_TRUE(good);
    return left || c->lost;
}

/* As often as it takes until nothing fails; `run` lets go of what it made, and gives the code of what failed. */
static void starve(const char *what, int (*run)(void))
{
    enum { MOST = 1000 };
    CU_ASSERT_EQUAL(run(), TD_OK); /* what is made once is there then */
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    const held h = {status_of(c, "tensors"), status_of(c, "nodes"), c->handles};
    bool over = false;
    for (int n = 1; n < MOST && !over; n++) {
        settling s = {0};
        while (!c->lost && unsettled(&s)) over = fails_at(what, run, n, &h);
        if (live != s.before)
            fprintf(stderr, "%s, allocation %d: %lld blocks are left\n", what, n, (long long)(live - s.before));
        CU_ASSERT_EQUAL(live, s.before);
    }
    CU_ASSERT_TRUE(over);
}

static void begin(void)
{
    c = join();
    x = td_from_data(c, TD_FLOAT32, td_dims(2), (float[]){1, 2}),
    w = td_from_data(c, TD_FLOAT32, td_dims(2), (float[]){3, 4});
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true), TD_OK);
    CU_ASSERT_EQUAL(td_set_requires_grad(w, true), TD_OK);
}

static void end(void)
{
    td_release(x), td_release(w);
    td_disconnect(c);
}

/* ---- gradients */

static int answers_hooks(td_client *client, const td_hook_call *call, void *context)
{
    (void)client, (void)context;
    if (call->kind != TD_ON_TENSOR) return 0;
    call->answer[0] = td_mul(call->given[0], 2);
    return call->answer[0] ? 1 : -1;
}

/* Both gradients of the sum of 3 x w, through a hook that doubles what comes. */
static int gradients(void)
{
    float v[2] = {0};
    td_array *g[2] = {NULL, NULL}, *y = td_mul(x, w), *z = y ? td_mul(y, 3) : NULL, *loss = z ? td_sum(z) : NULL;
    int rc = loss && td_hook(y, TD_ON_TENSOR) ? TD_OK : told();
    if (!rc) rc = td_autograd_grad(td_arrays(loss), NOTHING, td_arrays(x, w), 0, g);
    CU_ASSERT_TRUE(rc == TD_OK ? g[0] && g[1] : !g[0] && !g[1]);
    if (!rc) rc = td_read(g[1], v, sizeof v);
    CU_ASSERT_TRUE(rc || (v[0] == 6 && v[1] == 12));
    td_release(y), td_release(z), td_release(loss), td_release(g[0]), td_release(g[1]);
    return rc;
}

static int backward(void)
{
    td_array *y = td_mul(x, w), *loss = y ? td_sum(y) : NULL, *g[2] = {NULL, NULL};
    int rc = loss ? td_backward(loss) : told();
    if (!rc) rc = td_grads(td_arrays(x, w), g);
    CU_ASSERT_TRUE(rc == TD_OK ? g[0] && g[1] : !g[0] && !g[1]);
    int failed = until_failure;
    until_failure = 0;
    CU_ASSERT_EQUAL(td_zero_grad(td_arrays(x, w)), TD_OK);
    until_failure = failed;
    td_release(y), td_release(loss), td_release(g[0]), td_release(g[1]);
    return rc;
}

/* What an op has kept for its gradients; and of a slot that it has not, that there is nothing. */
static int kept(void)
{
    td_graph_node node = {0};
    td_saved_value v = {0}, none = {0};
    td_array *y = td_mul(x, w);
    int rc = y ? td_graph_of(y, &node) : told();
    if (!rc) rc = td_graph_saved(c, node.number, 0, &v);
    if (!rc) rc = td_graph_saved(c, node.number, 7, &none);
    CU_ASSERT_TRUE(rc || (v.value && v.name[0] && !none.value && !none.name[0]));
    int failed = until_failure;
    until_failure = 0;
    if (node.number) CU_ASSERT_EQUAL(td_graph_release(c, node.number), TD_OK);
    until_failure = failed;
    td_release(y), td_release(v.value);
    return rc;
}

static void no_memory_for_gradients(void)
{
    begin();
    starve("backward", backward);
    starve("what is kept", kept);
    td_set_on_hook(c, answers_hooks, NULL);
    starve("gradients", gradients);
    end();
}

/* ---- many handles */

enum { MANY = 5000 };
static td_array *many[MANY];

static void make_many(void)
{
    for (int k = 0; k < MANY; k++) many[k] = td_full(c, td_dims(1), k, TD_FLOAT32);
}

static void release_many(void)
{
    for (int k = 0; k < MANY; k++) td_release(many[k]);
}

/* Memory is needed to tell the daemon of them: what was not told is told later. */
static int releases(void)
{
    int failed = until_failure;
    until_failure = 0;
    make_many();
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_lock(c);
    CU_ASSERT_EQUAL(c->out.words.count, 0);
    td_words_deinit(&c->out.words); /* so there is no room of before */
    td_unlock(c);
    until_failure = failed;
    release_many();
    return TD_OK;
}

static int joins(void)
{
    float v[2];
    td_array *y = td_cat(td_arrays_of(MANY, many)), *end = y ? td_slice(y, 0, MANY - 2, MANY, 1) : NULL;
    int rc = end ? td_read(end, v, sizeof v) : told();
    CU_ASSERT_TRUE(rc || (v[0] == MANY - 2 && v[1] == MANY - 1));
    td_release(y), td_release(end);
    return rc;
}

static void no_memory_for_many(void)
{
    begin();
    starve("releases", releases);
    make_many();
    starve("joins", joins);
    bool was = td_set_grad_enabled(false);
    starve("joins into one", joins);
    td_set_grad_enabled(was);
    release_many();
    end();
}

/* ---- programs and models */

static const char twice[] = "graph(%x : Tensor):\n"
                            "  %two : int = prim::Constant[value=2]()\n"
                            "  %y : Tensor = td::mul(%x, %two)\n"
                            "  return (%y, %two)\n";

static int programs(void)
{
    float v[2];
    td_program *p = td_program_read(c, twice, NOTHING);
    td_value out = {TD_VALUE_NONE, 0, {0}, 0}, in[] = {td_value_array(x)};
    int rc = p ? td_program_call(p, 1, in, &out) : told();
    CU_ASSERT_EQUAL(out.kind, rc ? TD_VALUE_NONE : TD_VALUE_TUPLE);
    if (!rc) rc = td_read(out.items[0].array, v, sizeof v);
    CU_ASSERT_TRUE(rc || (v[0] == 2 && v[1] == 4 && out.items[1].i == 2));
    td_value_free(&out);
    td_program_free(p);
    return rc;
}

static void no_memory_for_programs(void)
{
    begin();
    starve("programs", programs);
    end();
}

static td_model *model;

static int inference(void)
{
    float v[2];
    td_array *y = NULL;
    td_request *r = td_async_infer(model, td_arrays(x), NULL, NULL, NULL);
    int rc = r ? TD_OK : told();
    while (r && !td_request_done(r)) td_client_dispatch(c);
    if (!rc) rc = td_request_arrays(r, 1, &y);
    if (!rc) rc = td_read(y, v, sizeof v);
    CU_ASSERT_TRUE(rc || (v[0] == 2 && v[1] == 4));
    td_request_free(r);
    td_release(y);
    return rc;
}

static int opened(void)
{
    td_model *m = td_model_open(c, "starved", 0, TEST_LONG_MS);
    int rc = m ? TD_OK : told();
    td_model_free(m);
    return rc;
}

static const char card[] = "{\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2]}],"
                           " \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2]}]}";

/* A model has its program, also one that was not made. */
static td_model *doubles(void)
{
    td_program *p = td_program_script(c, "def f(x):\n    return x * 2\n", "model.py", 1, NULL, 0, NULL);
    return p ? td_model_of(p, card) : NULL;
}

static int published(void)
{
    td_model *m = doubles();
    int rc = m ? td_model_publish(m, "passing", NULL) : told(), failed = until_failure;
    until_failure = 0;
    CU_ASSERT_TRUE(rc || td_model_retire(c, "passing", 0) == TD_OK);
    td_model_free(m);
    until_failure = failed;
    return rc;
}

static void no_memory_for_models(void)
{
    begin();
    td_model *made = doubles();
    CU_ASSERT_PTR_NOT_NULL_FATAL(made);
    CU_ASSERT_EQUAL(td_model_publish(made, "starved", NULL), TD_OK);
    starve("models", opened);
    model = td_model_open(c, "starved", 0, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    starve("inference", inference);
    CU_ASSERT_EQUAL(td_model_retire(c, "starved", 0), TD_OK);
    td_model_free(model), td_model_free(made);
    starve("publishing", published);
    end();
}

/* ---- names and queues */

static int names(void)
{
    float v[2];
    int rc = td_publish(w, "w", TD_REPLACE | TD_COPY);
    td_array *y = rc ? NULL : td_open(c, "w", TEST_LONG_MS);
    if (!rc) rc = y ? td_read(y, v, sizeof v) : told();
    CU_ASSERT_TRUE(rc || (v[0] == 3 && v[1] == 4));
    td_release(y);
    return rc;
}

static int trees(void)
{
    td_queue_item item = {0};
    int rc = td_publish_tree(c, "tree", td_arrays(x, w), "note", 4, TD_REPLACE, NULL);
    if (!rc) rc = td_open_tree(c, "tree", 0, TEST_LONG_MS, &item, NULL);
    CU_ASSERT_TRUE(rc || (item.n == 2 && item.note_size == 4));
    td_queue_item_clear(&item);
    return rc;
}

static td_queue *queue;

static int items(void)
{
    td_queue_item item = {0};
    int rc = td_queue_put(queue, td_arrays(x, w), "note", 4, TEST_LONG_MS), put = rc, failed = until_failure;
    if (!rc) rc = td_queue_get(queue, &item, TEST_LONG_MS);
    if (!put && rc) { /* it is still there */
        failed = until_failure, until_failure = 0;
        CU_ASSERT_EQUAL(td_queue_get(queue, &item, TEST_LONG_MS), TD_OK);
        until_failure = failed;
    }
    CU_ASSERT_TRUE(put || (item.n == 2 && item.note_size == 4));
    td_queue_item_clear(&item);
    return rc;
}

static void no_memory_to_share(void)
{
    begin();
    starve("names", names);
    starve("trees", trees);
    queue = td_queue_open(c, "starved", 1, TD_PRODUCER | TD_CONSUMER);
    CU_ASSERT_PTR_NOT_NULL_FATAL(queue);
    starve("items", items);
    CU_ASSERT_EQUAL(td_queue_close(queue, true), TD_OK);
    CU_ASSERT_TRUE(td_drop(c, "w") == TD_OK && td_drop(c, "tree") == TD_OK);
    end();
}

/* ---- files */

static char file[64];

static int loaded(void)
{
    float v[2];
    td_loaded *l = td_load(c, file, 0);
    int rc = l ? TD_OK : told();
    if (!rc) rc = td_read(td_loaded_get(l, "w"), v, sizeof v);
    CU_ASSERT_TRUE(rc || (td_loaded_count(l) == 2 && v[0] == 3 && v[1] == 4));
    td_loaded_free(l);
    return rc;
}

static int modelled(void)
{
    td_model *m = td_model_load(c, file, 0);
    int rc = m ? TD_OK : told();
    td_model_free(m);
    return rc;
}

/* y = relu(x + w) */
static void write_model(void)
{
    proto g = {0};
    put_value(&g, 11, "x", 1, "batch 2");
    put_weight(&g, "w", 1, 1, (int64_t[]){2}, (float[]){1, 2}, 2 * sizeof(float));
    put_node(&g, "sum", "Add", "x w", "t", NULL);
    put_node(&g, "last", "Relu", "t", "y", NULL);
    put_value(&g, 12, "y", 1, "batch 2");
    proto m = model_of(&g, 13);
    FILE *f = fopen(file, "wb");
    CU_ASSERT_TRUE(f && fwrite(m.at, m.n, 1, f) == 1 && fclose(f) == 0);
    free(m.at);
}

static int saved(void)
{
    const char *const names[] = {"x", "w"};
    int rc = td_save(file, td_arrays(x, w), names, 0), failed = until_failure;
    td_error e = *td_last_error();
    until_failure = 0;
    td_clear_error();
    CU_ASSERT_EQUAL(loaded(), TD_OK);
    until_failure = failed;
    return rc ? td_raise_error(&e, NULL, NULL) : TD_OK;
}

/* Each is whole after a save that failed, too: the one of before. */
static void no_memory_for_files(void)
{
    static const char *const kinds[] = {"pt", "safetensors", "npz"};
    char folder[] = "/tmp/client_starved-XXXXXX";
    begin();
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        snprintf(file, sizeof file, "%s/x.%s", folder, kinds[k]);
        starve(kinds[k], saved);
        starve(kinds[k], loaded);
        CU_ASSERT_EQUAL(unlink(file), 0);
    }
    snprintf(file, sizeof file, "%s/x.onnx", folder);
    write_model();
    starve("onnx", modelled);
    CU_ASSERT_EQUAL(unlink(file), 0);
    CU_ASSERT_EQUAL(rmdir(folder), 0); /* nothing lies beside them */
    end();
}

TD_CUNIT_MAIN_WITH("client_starved", start_server, stop_server, {"no memory for gradients", no_memory_for_gradients},
                   {"no memory for many", no_memory_for_many}, {"no memory for programs", no_memory_for_programs},
                   {"no memory for models", no_memory_for_models}, {"no memory to share", no_memory_to_share},
                   {"no memory for files", no_memory_for_files})
