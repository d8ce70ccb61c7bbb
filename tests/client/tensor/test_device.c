/* Tensors on a second device, through a daemon that has one (tests/support/fake_device.h): values, gradients, names,
 * queues, errors, and clients that are killed while its streams are full. */
#include "tests/client/common.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static td_client *c;
static td_scope scope;

static void begin(void)
{
    c = join();
    td_scope_begin(&scope);
    CU_ASSERT_EQUAL_FATAL(td_check_device(c, TD_FAKE), TD_OK);
}

static void end(void)
{
    td_set_device(TD_CPU);
    td_scope_end(&scope);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    for (int i = 0; i < 500 && status_of(c, "tensors"); i++)
        test_sleep_ms(10); /* others' sessions end when they come to it */
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    CU_ASSERT_TRUE(comes_to(c, "nodes", 0));
    CU_ASSERT_TRUE(comes_to(c, "bytes_used_on_fake:0", 0));
    td_disconnect(c);
}

static void values(void)
{
    begin();
    td_set_device(TD_FAKE);
    td_array *x = td_arange(c, 0, 6, 1, TD_FLOAT32), *m = td_view(x, td_dims(2, 3));
    CU_ASSERT(td_device_of(x) == TD_FAKE && td_device_of(m) == TD_FAKE && td_device_of(td_full_like(m, 1)) == TD_FAKE);
    CHECK_VALUES(m, 0, 1, 2, 3, 4, 5);
    CHECK_VALUES(td_mm(m, td_t(m)), 5, 14, 14, 50);
    CHECK_VALUES(td_add(td_t(m), 0.5), 0.5, 3.5, 1.5, 4.5, 2.5, 5.5);
    CHECK_VALUES(td_sum(m, td_dims(1)), 3, 12);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(x)), 15);
    td_array *few = td_nonzero(td_gt(x, 3)); /* its shape is known late */
    CU_ASSERT(td_size(few, 0) == 2 && td_device_of(few) == TD_FAKE);
    CHECK_VALUES(few, 4, 5);
    int64_t at[2];
    CU_ASSERT_EQUAL(td_read(td_nonzero(td_gt(x, 3)), at, sizeof at), TD_OK);
    CU_ASSERT(at[0] == 4 && at[1] == 5);
    td_array *here = td_to_device(td_slice(x, 0, 1, 4, 1), TD_CPU), *large = td_full(c, td_dims(300000), 7, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_device_of(here), TD_CPU);
    CU_ASSERT_EQUAL(((const float *)td_data(here))[2], 3); /* one that was brought is mapped as any */
    float *copy = malloc(1200000);
    CU_ASSERT_EQUAL(td_read(large, copy, 1200000), TD_OK);
    CU_ASSERT(copy[0] == 7 && copy[299999] == 7);
    free(copy);
    CU_ASSERT_EQUAL(td_add_(x, 1), TD_OK);
    CU_ASSERT_EQUAL(td_fill_(td_slice(x, 0, 0, 2, 1), 9), TD_OK);
    CHECK_VALUES(x, 9, 9, 3, 4, 5, 6);
    td_set_device(TD_CPU);
    td_array *w = td_full(c, td_dims(), 2, TD_FLOAT32);
    td_set_requires_grad(w, true);
    td_set_device(TD_FAKE);
    td_array *brought = td_zeros(c, td_dims(3), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_copy_(brought, w), TD_OK); /* from there, with its graph */
    CHECK_VALUES(brought, 2, 2, 2);
    CU_ASSERT_EQUAL(td_backward(td_sum(brought)), TD_OK);
    CU_ASSERT_EQUAL(td_device_of(td_grad(w)), TD_CPU);
    CHECK_VALUES(td_grad(w), 3);
    CHECK_VALUES(td_mul(x, td_full(c, td_dims(), 2, TD_FLOAT32)), 18, 18, 6, 8, 10, 12);
    end();
}

/* What a thread makes lies where it says, or, before it says anything, where the environment does. */
static void data_and_defaults(void)
{
    begin();
    static float many[70000];
    for (int i = 0; i < 70000; i++) many[i] = (float)i;
    CU_ASSERT_EQUAL(td_get_device(), TD_CPU);
    CU_ASSERT_EQUAL(td_set_device(TD_FAKE), TD_CPU);
    td_array *few = td_from_data(c, TD_FLOAT32, td_dims(3), (float[]){1, 2, 3}),
             *lots = td_from_data(c, TD_FLOAT32, td_dims(70000), many);
    CU_ASSERT(td_device_of(few) == TD_FAKE && td_device_of(lots) == TD_FAKE && td_get_device() == TD_FAKE);
    CHECK_VALUES(few, 1, 2, 3);
    CHECK_VALUES(td_slice(lots, 0, 69998, 70000, 1), 69998, 69999);
    CU_ASSERT_EQUAL(td_set_device(TD_CUDA), TD_FAKE);
    CU_ASSERT_PTR_NULL(td_from_data(c, TD_FLOAT32, td_dims(3), (float[]){1, 2, 3}));
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "there is no device 'cuda:0' here; only 'cpu', 'fake:0'");
    td_clear_error();
    CU_ASSERT(td_set_device(-1) == TD_CUDA && td_get_device() == TD_CPU);
    setenv("TENSORD_DEVICE", "fake", 1);
    td_client *other = join();
    CU_ASSERT_EQUAL(td_get_device(), TD_FAKE);
    CU_ASSERT_EQUAL(td_device_of(td_full(c, td_dims(2), 1, TD_FLOAT32)), TD_FAKE);
    td_set_device(TD_CPU);
    CU_ASSERT_EQUAL(td_device_of(td_full(c, td_dims(2), 1, TD_FLOAT32)), TD_CPU);
    setenv("TENSORD_DEVICE", "gpu", 1);
    CU_ASSERT_PTR_NULL(td_connect(server.socket));
    CU_ASSERT(td_last_error()->code == TD_E_INVALID && strstr(td_last_error()->message, "TENSORD_DEVICE is 'gpu'"));
    td_clear_error();
    setenv("TENSORD_DEVICE", "", 1);
    td_disconnect(other);
    td_disconnect(join()); /* looks once more */
    end();
}

/* Many tensors in one: a copy for all, on the CPU, whatever they lay on. */
static void trees(void)
{
    begin();
    td_array *x = td_to_device(td_full(c, td_dims(4), 2, TD_FLOAT32), TD_FAKE),
             *all[2] = {x, td_full(c, td_dims(2), 3, TD_INT64)};
    uint64_t version;
    CU_ASSERT_EQUAL(td_publish_tree(c, "device/tree", td_arrays_of(2, all), NULL, 0, 0, &version), TD_OK);
    td_queue_item tree;
    CU_ASSERT_EQUAL_FATAL(td_open_tree(c, "device/tree", 0, 1000, &tree, &version), TD_OK);
    CU_ASSERT(tree.n == 2 && td_device_of(tree.at[0]) == TD_CPU);
    CHECK_VALUES(tree.at[0], 2, 2, 2, 2);
    td_queue_item_clear(&tree);
    CU_ASSERT_EQUAL(td_drop(c, "device/tree"), TD_OK);
    end();
}

static void refusals(void)
{
    begin();
    td_array *x = td_full(c, td_dims(3), 2, TD_FLOAT32), *y = td_to_device(x, TD_FAKE);
    CU_ASSERT_PTR_NULL(td_add(x, y));
    CU_ASSERT_STRING_EQUAL(
        td_last_error()->message,
        "Expected all tensors to be on the same device, but found at least two devices, cpu and fake:0: "
        "'x' is on cpu, 'y' on fake:0");
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_data(y));
    CU_ASSERT(td_last_error()->code == TD_E_UNSUPPORTED && strstr(td_last_error()->message, "lies on fake:0"));
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_write_begin(y, 1000));
    CU_ASSERT(td_last_error()->code == TD_E_UNSUPPORTED && strstr(td_last_error()->message, "lies on fake:0"));
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_to_device(x, TD_CUDA));
    CU_ASSERT_STRING_EQUAL(td_last_error()->message, "there is no device 'cuda:0' here; only 'cpu', 'fake:0'");
    td_clear_error();
    /* A failure over there is told as any. */
    td_array *at = td_to_device(td_from_data(c, TD_INT64, td_dims(2), (int64_t[]){0, 9}), TD_FAKE);
    td_array *bad = td_to_device(td_neg(td_index_select(y, 0, at)), TD_CPU);
    float v[2];
    CU_ASSERT_EQUAL(td_read(bad, v, sizeof v), TD_E_INDEX);
    CU_ASSERT_STRING_EQUAL(td_last_error()->op, "index_select");
    CHECK_VALUES(y, 2, 2, 2);
    td_clear_error();
    end();
}

/* The same few steps of training, on one device, on the other, and on both. */
static void train(td_array **w, int where, int head, double *loss)
{
    td_seed(c, 5);
    td_array *x = td_to_device(td_randn(c, td_dims(16, 8), TD_FLOAT32), where),
             *t = td_to_device(td_randn(c, td_dims(16, 2), TD_FLOAT32), head);
    w[0] = td_to_device(td_randn(c, td_dims(8, 6), TD_FLOAT32), where);
    w[1] = td_to_device(td_randn(c, td_dims(6, 2), TD_FLOAT32), head);
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(td_set_requires_grad(w[i], true), TD_OK);
    for (int step = 0; step < 20; step++) {
        td_array *hidden = td_to_device(td_tanh(td_mm(x, w[0])), head);
        td_array *l = td_mean(td_square(td_sub(td_mm(hidden, w[1]), t)));
        CU_ASSERT_EQUAL(td_backward(l), TD_OK);
        loss[step] = td_item_f64(l);
        td_set_grad_enabled(false);
        for (int i = 0; i < 2; i++) {
            td_array *g = td_grad(w[i]);
            CU_ASSERT_EQUAL(td_device_of(g), td_device_of(w[i]));
            CU_ASSERT_EQUAL(td_sub_(w[i], td_mul(g, 0.1)), TD_OK);
            td_set_grad(w[i], NULL);
        }
        td_set_grad_enabled(true);
    }
}

static void gradients(void)
{
    begin();
    static const int places[3][2] = {{TD_CPU, TD_CPU}, {TD_FAKE, TD_FAKE}, {TD_FAKE, TD_CPU}};
    double loss[3][20];
    float v[3][48];
    for (int k = 0; k < 3; k++) {
        td_array *w[2];
        train(w, places[k][0], places[k][1], loss[k]);
        CU_ASSERT_EQUAL(td_read(w[0], v[k], sizeof v[k]), TD_OK);
    }
    CU_ASSERT(loss[0][19] < loss[0][0]);
    for (int k = 1; k < 3; k++) {
        CU_ASSERT(!memcmp(loss[k], loss[0], sizeof loss[0]));
        CU_ASSERT(!memcmp(v[k], v[0], sizeof v[0]));
    }
    /* A number beside it, whose gradient comes back to the CPU; and anomalies, which are looked for over there. */
    td_array *a = td_full(c, td_dims(), 3, TD_FLOAT32),
             *x = td_to_device(td_full(c, td_dims(4), 2, TD_FLOAT32), TD_FAKE);
    td_set_requires_grad(a, true);
    CU_ASSERT_EQUAL(td_backward(td_sum(td_mul(x, a))), TD_OK);
    CU_ASSERT_EQUAL(td_device_of(td_grad(a)), TD_CPU);
    CHECK_VALUES(td_grad(a), 8);
    td_set_requires_grad(x, true);
    td_array *nan = td_sum(td_mul(td_sqrt(td_sub(x, 2)), 0));
    CU_ASSERT_EQUAL(td_at_backward("here", td_arrays(nan), td_arrays_of(0, NULL), TD_ANOMALY), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_E_AUTOGRAD);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "nan"));
    td_clear_error();
    end();
}

static void between_clients(void)
{
    begin();
    td_client *other = join();
    td_array *x = td_to_device(td_full(c, td_dims(1000), 4, TD_FLOAT32), TD_FAKE);
    CU_ASSERT_EQUAL(td_publish(x, "device/x", 0), TD_OK);
    td_queue *in = td_queue_open(c, "device/queue", 4, TD_PRODUCER),
             *out = td_queue_open(other, "device/queue", 4, TD_CONSUMER);
    td_array *many[2] = {td_neg(x), td_full(c, td_dims(3), 1, TD_FLOAT32)};
    CU_ASSERT_EQUAL(td_queue_put(in, td_arrays_of(2, many), NULL, 0, TEST_LONG_MS), TD_OK);
    td_array *seen = td_open(other, "device/x", TEST_LONG_MS);
    CU_ASSERT_EQUAL(td_device_of(seen), TD_FAKE);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(seen)), 4000);
    td_queue_item item = {0};
    CU_ASSERT_EQUAL_FATAL(td_queue_get(out, &item, TEST_LONG_MS), TD_OK);
    CU_ASSERT(item.n == 2 && td_device_of(item.at[0]) == TD_FAKE && td_device_of(item.at[1]) == TD_CPU);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(item.at[0])), -4000);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(item.at[1])), 3);
    td_queue_item_clear(&item);
    td_queue_close(in, false);
    td_queue_close(out, false);
    td_release(seen);
    CU_ASSERT_EQUAL(td_drop(c, "device/x"), TD_OK);
    td_sync(other);
    td_disconnect(other);
    end();
}

/* Does some session of a process say that of the devices on which it holds something? */
static bool says_held(td_client *of, uint32_t pid, const char *what)
{
    td_table *t = td_status(of, "sessions");
    bool said = false;
    int pids = 0, on = 0;
    for (int k = 0; t && k < t->columns; k++) {
        if (!strcmp(t->names[k], "pid")) pids = k;
        if (!strcmp(t->names[k], "on_devices")) on = k;
    }
    for (int r = 0; t && r < t->rows; r++)
        said |= t->cells[r * t->columns + pids].integer == pid && !strcmp(t->cells[r * t->columns + on].text, what);
    td_table_free(t);
    return said;
}

/* What lies there is counted there, for who made it, and comes back when that one is killed. */
static void counts(void)
{
    begin();
    CU_ASSERT_EQUAL(status_of(c, "bytes_used_on_fake:0"), 0);
    int told[2];
    CU_ASSERT_EQUAL_FATAL(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        td_client *mine = td_connect(server.socket);
        td_array *x = td_to_device(td_zeros(mine, td_dims(1 << 20), TD_FLOAT32), TD_FAKE);
        td_publish(x, "device/counted", 0); /* one more, for all */
        td_item_f64(td_select(td_neg(x), 0, 0));
        if (write(told[1], "!", 1) == 1) pause();
        _exit(0);
    }
    char byte;
    CU_ASSERT_EQUAL(read(told[0], &byte, 1), 1);
    CU_ASSERT_EQUAL(status_of(c, "bytes_used_on_fake:0"), 12 << 20);
    CU_ASSERT_TRUE(says_held(c, (uint32_t)child, "fake:0 12.6 MB"));
    CU_ASSERT_TRUE(says_held(c, (uint32_t)getpid(), ""));
    td_table *t = td_status(c, "devices");
    CU_ASSERT_FATAL(t && t->rows == 2);
    CU_ASSERT_STRING_EQUAL(t->cells[0].text, "cpu");
    CU_ASSERT_STRING_EQUAL(t->cells[t->columns].text, "fake:0");
    const td_cell *row = t->cells + t->columns;
    CU_ASSERT(row[1].integer == 12 << 20 && row[2].integer >= 12 << 20 && row[3].integer == 1 << 30);
    td_table_free(t);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used_on_fake:0", 4 << 20)); /* it lives on by its name */
    CU_ASSERT_EQUAL(td_drop(c, "device/counted"), TD_OK);
    CU_ASSERT_TRUE(comes_to(c, "bytes_used_on_fake:0", 0));
    close(told[0]), close(told[1]);
    end();
}

static td_array *unset(td_client *of, int64_t n)
{
    int before = td_set_device(TD_FAKE);
    td_array *a = td_empty(of, td_dims(n), TD_FLOAT32);
    td_set_device(before);
    return a;
}

/* Limits of a device's memory are its own, and who lacks some is told who has it. */
static void limits(void)
{
    test_daemon own;
    setenv("FAKE_DEVICE_MEGABYTES", "24", 1);
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&own, (const char *[]){"--session-device-memory", "16M", NULL}));
    td_client *a = td_connect(own.socket), *b = td_connect(own.socket);
    td_array *far = unset(a, 3 << 20);
    CU_ASSERT_EQUAL(td_sync(a), TD_OK);
    td_array *more = unset(a, 2 << 20);
    CU_ASSERT_EQUAL(td_sync(a), TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "holds 12582912 bytes on fake:0 of its 16777216"));
    td_clear_error();
    td_array *here = td_zeros(a, td_dims(8 << 20), TD_FLOAT32); /* that is no limit of the CPU's memory */
    CU_ASSERT_EQUAL(td_sync(a), TD_OK);
    td_array *others = unset(b, 15 << 18); /* more than is left */
    CU_ASSERT_EQUAL(td_sync(b), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "fake:0 has no 15.7 MB to give; biggest holders: "));
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, ") 12.6 MB"));
    td_clear_error();
    td_release(far);
    td_sync(a);
    td_release(others);
    others = unset(b, 15 << 18);
    CU_ASSERT_EQUAL(td_sync(b), TD_OK);
    td_array *rest[] = {more, here, others};
    for (int i = 0; i < 3; i++) td_release(rest[i]);
    td_disconnect(a);
    td_disconnect(b);
    CU_ASSERT_EQUAL(test_daemon_stop(&own), 0);
    unsetenv("FAKE_DEVICE_MEGABYTES");
}

/* Work on both devices, for as long as it lives. */
static void wild(int seed)
{
    td_client *mine = td_connect(server.socket);
    td_array *t[6];
    srand((unsigned)seed);
    for (int i = 0; i < 6; i++) {
        td_set_device(i % 2 ? TD_FAKE : TD_CPU);
        t[i] = td_full(mine, td_dims(2000), 1, TD_FLOAT32);
    }
    for (;;) {
        int a = rand() % 6, b = rand() % 6;
        td_array *y = td_to_device(t[b], td_device_of(t[a])),
                 *z = rand() % 3 ? td_add(t[a], y) : td_to_device(t[a], rand() % 2 ? TD_FAKE : TD_CPU);
        td_release(y);
        td_release(t[a]);
        t[a] = td_mul(z, 0.5);
        td_release(z);
        if (rand() % 50 == 0) td_item_f64(td_sum(t[b]));
    }
}

/* Someone waits there for an arena to be made; it may be, or not. */
static void open_gate(const char *gate, const char *word)
{
    int fd = open(gate, O_WRONLY);
    CU_ASSERT_EQUAL(write(fd, word, 1), 1);
    close(fd);
}

/* An arena of the device is made aside: whoever needs none goes on, there and here. What cannot be made is told. */
static void growth(void)
{
    char directory[] = "/tmp/tensord-gate-XXXXXX", gate[64];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
    snprintf(gate, sizeof gate, "%s/gate", directory);
    CU_ASSERT_EQUAL_FATAL(mkfifo(gate, 0600), 0);
    test_daemon gated;
    setenv("FAKE_DEVICE_GROWS", gate, 1);
    CU_ASSERT_FATAL(test_daemon_start(&gated, NULL));
    unsetenv("FAKE_DEVICE_GROWS");
    td_client *waits = td_connect(gated.socket), *other = td_connect(gated.socket);
    CU_ASSERT_FATAL(waits && other);
    td_scope_begin(&scope);
    td_set_device(TD_FAKE);
    td_array *large = td_full(waits, td_dims(1 << 20), 2, TD_FLOAT32), *sum = td_sum(large);
    CU_ASSERT_EQUAL(td_flush(waits), TD_OK);
    for (int i = 0; i < 20; i++) {
        td_set_device(i % 2 ? TD_FAKE : TD_CPU);
        CU_ASSERT_EQUAL(td_item_f64(td_sum(td_full(other, td_dims(100), 3, TD_FLOAT32))), 300);
    }
    open_gate(gate, "m");
    CU_ASSERT_EQUAL(td_item_f64(sum), 2 << 20);
    td_set_device(TD_FAKE);
    float v;
    td_array *never = td_full(waits, td_dims(100, 1 << 20), 2, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_flush(waits), TD_OK);
    open_gate(gate, "f");
    CU_ASSERT_EQUAL(td_read(td_sum(never), &v, sizeof v), TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "fake:0 has no"));
    td_clear_error();
    td_set_device(TD_CPU);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(large)), 2 << 20);
    td_scope_end(&scope);
    td_disconnect(waits);
    td_disconnect(other);
    CU_ASSERT_EQUAL(test_daemon_stop(&gated), 0);
    unlink(gate);
    rmdir(directory);
}

static void killed_clients(void)
{
    begin();
    td_array *kept = td_to_device(td_full(c, td_dims(100), 6, TD_FLOAT32), TD_FAKE);
    for (int round = 0; round < 12; round++) {
        pid_t child[4];
        for (int i = 0; i < 4; i++)
            if ((child[i] = fork()) == 0) wild(round * 4 + i);
        test_sleep_ms(5 + round * 7 % 40);
        for (int i = 0; i < 4; i++) kill(child[i], SIGKILL);
        for (int i = 0; i < 4; i++) waitpid(child[i], NULL, 0);
        CU_ASSERT_EQUAL(td_item_f64(td_sum(td_mul(kept, 2))), 1200);
    }
    td_sync(c);
    for (int i = 0; i < 500 && status_of(c, "sessions") > 1; i++) test_sleep_ms(10);
    CU_ASSERT_EQUAL(status_of(c, "sessions"), 1);
    end();
}

TD_CUNIT_MAIN_WITH("client_device", start_server, stop_server, {"values", values},
                   {"data and defaults", data_and_defaults}, {"trees", trees}, {"refusals", refusals},
                   {"gradients", gradients}, {"between clients", between_clients}, {"counts", counts},
                   {"limits", limits}, {"growth", growth}, {"killed clients", killed_clients})
