/* Programs under names: many processes call one, which outlives its publisher; one copy of what it captures; kinds of
 * names; gradients from elsewhere; and that all of it goes with the name. */
#include "tests/client/common.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char mlp[] = "captured %w1 : Tensor = \"w1\"\n"
                          "captured %w2 : Tensor = \"w2\"\n"
                          "graph(%x : Tensor):\n"
                          "  %a : Tensor = td::mm(%x, %w1)\n"
                          "  %h : Tensor = td::relu(%a)\n"
                          "  %y : Tensor = td::mm(%h, %w2)\n"
                          "  return (%y)\n";
enum { IN = 256, HIDDEN = 1024, BYTES = (IN * HIDDEN + HIDDEN) * 4, RING = 600000 /* of the one who looks */ };

static td_program *read_mlp(td_client *c, td_array *w1, td_array *w2)
{
    return td_program_read(c, mlp, td_arrays(w1, w2));
}

/* A process that publishes it, says so, and waits for its end. */
static pid_t publisher(const char *name)
{
    int ready[2];
    char byte;
    CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        td_client *c = td_connect(server.socket);
        td_program *p = read_mlp(c, td_full(c, td_dims(IN, HIDDEN), 0.5, TD_FLOAT32),
                                 td_full(c, td_dims(HIDDEN, 1), 1.0, TD_FLOAT32));
        if (!p || td_program_publish(p, name, 0) || write(ready[1], "", 1) != 1) _exit(1);
        pause();
    }
    close(ready[1]);
    CU_ASSERT_EQUAL_FATAL(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* What one caller does: the exit status of its process. */
static int call_it(const char *name, int times)
{
    td_client *c = td_connect(server.socket);
    td_program *p = td_program_open(c, name, TEST_LONG_MS);
    td_array *x = td_full(c, td_dims(2, IN), 1.0, TD_FLOAT32);
    int good = p != NULL;
    for (int k = 0; k < times && good; k++) {
        td_value out, in[] = {td_value_array(x)};
        float y[2] = {0};
        good = !td_program_call(p, 1, in, &out) && !td_read(out.array, y, sizeof y) && y[0] == IN * HIDDEN / 2.0f;
        td_value_free(&out);
    }
    if (!good) fprintf(stderr, "%s\n", td_last_error()->message);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
    return good ? 0 : 1;
}

static int64_t used_before;
static bool is_used(td_client *c, int64_t most, int64_t least)
{
    for (uint64_t until = test_now_ms() + TEST_LONG_MS;; test_sleep_ms(1)) {
        int64_t now = status_of(c, "bytes_used") - used_before;
        if (now <= most && now >= least) return true;
        if (test_now_ms() > until) return fprintf(stderr, "%lld bytes are used\n", (long long)now), false;
    }
}

static void test_many_callers(void)
{
    enum { CALLERS = 4 };
    td_client *c = join();
    pid_t pids[CALLERS];
    int64_t tensors = status_at_rest(c, "tensors");
    used_before = status_of(c, "bytes_used");
    pid_t pid = publisher("mlp");
    CU_ASSERT_EQUAL(call_it("mlp", 1), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CU_ASSERT_TRUE(is_used(c, BYTES + RING, BYTES)); /* one copy */
    for (int k = 0; k < CALLERS; k++)
        if ((pids[k] = fork()) == 0) _exit(call_it("mlp", 50));
    for (int k = 0; k < CALLERS; k++) {
        int status = -1;
        waitpid(pids[k], &status, 0);
        CU_ASSERT_EQUAL(status, 0);
    }
    CU_ASSERT_TRUE(is_used(c, BYTES + RING, BYTES)); /* and still one */
    td_program *kept = td_program_open(c, "mlp", 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
    CU_ASSERT_EQUAL(td_drop(c, "mlp"), TD_OK);
    td_array *x = td_full(c, td_dims(1, IN), 2.0, TD_FLOAT32);
    td_value out, in[] = {td_value_array(x)};
    CU_ASSERT_EQUAL_FATAL(td_program_call(kept, 1, in, &out), TD_OK); /* whoever has it open keeps it */
    CHECK_VALUES(out.array, IN * HIDDEN);
    td_value_free(&out);
    td_release(x);
    td_program_free(kept);
    td_sync(c);
    CU_ASSERT_TRUE(comes_to(c, "tensors", tensors));
    CU_ASSERT_TRUE(is_used(c, RING, -RING));
    td_disconnect(c);
}

/* ---- kinds */

static td_program *plus(td_client *c, td_array *w)
{
    return td_program_read(c,
                           "captured %w : Tensor = \"w\"\n"
                           "graph(%x : Tensor):\n"
                           "  %one : int = prim::Constant[value=1]()\n"
                           "  %y : Tensor = td::add(%x, %w, %one)\n"
                           "  return (%y)\n",
                           td_arrays(w));
}

static double result(td_program *p, td_array *x)
{
    td_value out, in[] = {td_value_array(x)};
    double y = -1;
    if (td_program_call(p, 1, in, &out) == TD_OK) y = td_item_f64(out.array);
    td_value_free(&out);
    return y;
}

static char kind_of(td_client *c, const char *name)
{
    td_table *t = td_status(c, "names");
    char kind = '?';
    for (int r = 0; t && r < t->rows; r++)
        if (strcmp(t->cells[r * t->columns].text, name) == 0) kind = t->cells[r * t->columns + t->columns - 1].text[0];
    td_table_free(t);
    return kind;
}

static void test_kinds(void)
{
    td_client *c = join();
    td_array *w = td_full(c, td_dims(1), 3.0, TD_FLOAT64), *x = td_full(c, td_dims(1), 1.0, TD_FLOAT64);
    td_array *w2 = td_full(c, td_dims(1), 30.0, TD_FLOAT64);
    td_program *p = plus(c, w), *p2 = plus(c, w2);
    CU_ASSERT_EQUAL(td_program_publish(p, "it", 0), TD_OK);
    CU_ASSERT_EQUAL(kind_of(c, "it"), 'p');
    CHECK_FAILS(td_open(c, "it", 0), TD_E_TYPE, "'it' is a program, not a tensor: td_program_open()");
    CHECK_FAILS(td_program_publish(p2, "it", 0), TD_E_EXISTS, "is taken");
    CHECK_FAILS(td_program_publish(p2, "it", TD_LENT), TD_E_INVALID, "only tensors can be lent");
    CHECK_FAILS(td_program_publish(p2, "", 0), TD_E_INVALID, "empty");
    CHECK_FAILS(td_program_open(c, "nobody", 1), TD_E_TIMEOUT, "nobody published 'nobody' in time");
    CHECK_FAILS(td_program_open(c, "nobody", 0), TD_E_NOT_FOUND, "nothing is published as 'nobody'");

    td_program *old = td_program_open(c, "it", 0);
    CU_ASSERT_EQUAL(td_program_publish(p2, "it", TD_REPLACE), TD_OK);
    td_program *fresh = td_program_open(c, "it", -1);
    CU_ASSERT_TRUE(old && fresh && result(old, x) == 4 && result(fresh, x) == 31);
    td_add_(w2, 100); /* what was published is apart from it */
    CU_ASSERT_TRUE(result(fresh, x) == 31 && result(p2, x) == 131);

    CU_ASSERT_EQUAL(td_publish(w, "it", TD_REPLACE), TD_OK);
    CU_ASSERT_EQUAL(kind_of(c, "it"), 't');
    CHECK_FAILS(td_program_open(c, "it", 0), TD_E_TYPE, "'it' is a tensor, not a program: td_open()");
    CU_ASSERT_EQUAL(result(fresh, x), 31);
    CU_ASSERT_EQUAL(td_drop(c, "it"), TD_OK);
    td_release(w), td_release(w2), td_release(x);
    td_program_free(p), td_program_free(p2), td_program_free(old), td_program_free(fresh);
    td_disconnect(c);
}

/* Whoever waits is told as whoever comes late. */
static void test_waits(void)
{
    td_client *c = join();
    pid_t pids[2];
    for (int k = 0; k < 2; k++) {
        if ((pids[k] = fork())) continue;
        td_client *d = td_connect(server.socket);
        if (k == 0) _exit(call_it("later", 1));
        _exit(!td_open(d, "later", TEST_LONG_MS) && td_last_error()->code == TD_E_TYPE ? 0 : 1);
    }
    pid_t pid = publisher("later");
    for (int k = 0; k < 2; k++) {
        int status = -1;
        waitpid(pids[k], &status, 0);
        CU_ASSERT_EQUAL(status, 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CU_ASSERT_EQUAL(td_drop(c, "later"), TD_OK);
    td_disconnect(c);
}

/* ---- what is captured */

/* Two that look at one storage do so in the copies; what a call writes all who call it see, and not the publisher. */
static void test_state(void)
{
    td_client *c = join();
    td_array *all = td_full(c, td_dims(4), 1.0, TD_FLOAT64), *last = td_select(all, 0, 3);
    td_array *x = td_full(c, td_dims(), 5.0, TD_FLOAT64);
    td_program *p = td_program_read(c,
                                    "captured %all : Tensor = \"all\"\n"
                                    "captured %last : Tensor = \"last\"\n"
                                    "graph(%x : Tensor):\n"
                                    "  %one : int = prim::Constant[value=1]()\n"
                                    "  %n : Tensor = td::add_(%last, %x, %one)\n"
                                    "  %y : Tensor = td::mul(%all, %one)\n"
                                    "  return (%y)\n",
                                    td_arrays(all, last));
    if (!p) fprintf(stderr, "%s\n", td_last_error()->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL_FATAL(td_program_publish(p, "state", 0), TD_OK);
    td_program *a = td_program_open(c, "state", 0), *b = td_program_open(c, "state", 0);
    td_value out, in[] = {td_value_array(x)};
    for (int k = 0; k < 3; k++) {
        CU_ASSERT_EQUAL_FATAL(td_program_call(k % 2 ? a : b, 1, in, &out), TD_OK);
        CHECK_VALUES(out.array, 1, 1, 1, 6 + 5 * k);
        td_value_free(&out);
    }
    CHECK_VALUES(all, 1, 1, 1, 1);
    CU_ASSERT_EQUAL(td_drop(c, "state"), TD_OK);
    td_release(all), td_release(last), td_release(x);
    td_program_free(p), td_program_free(a), td_program_free(b);
    td_disconnect(c);
}

/* A leaf in service memory is captured itself: gradients of calls elsewhere add up in it. */
static void test_gradients(void)
{
    td_client *c = join();
    bool was = td_set_service(true);
    td_array *w1 = td_full(c, td_dims(1, 2), 2.0, TD_FLOAT64), *w2 = td_full(c, td_dims(2, 1), 1.0, TD_FLOAT64);
    td_set_service(was);
    td_set_requires_grad(w1, true);
    td_program *p = read_mlp(c, w1, w2);
    CU_ASSERT_EQUAL_FATAL(td_program_publish(p, "leaf", 0), TD_OK);
    for (int k = 0; k < 2; k++) {
        pid_t pid = fork();
        if (pid == 0) {
            td_client *d = td_connect(server.socket);
            td_program *q = td_program_open(d, "leaf", 0);
            td_array *x = td_full(d, td_dims(1, 1), 3.0, TD_FLOAT64);
            td_set_requires_grad(x, true);
            td_value out, in[] = {td_value_array(x)};
            bool good =
                q && !td_program_call(q, 1, in, &out) && !td_backward(out.array) && td_item_f64(td_grad(x)) == 4;
            if (!good) fprintf(stderr, "%s\n", td_last_error()->message);
            _exit(good && !td_sync(d) ? 0 : 1);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        CU_ASSERT_EQUAL(status, 0);
    }
    td_array *g = td_grad(w1);
    CHECK_VALUES(g, 6, 6);
    CU_ASSERT_EQUAL(td_drop(c, "leaf"), TD_OK);
    td_release(g), td_release(w1), td_release(w2);
    td_program_free(p);
    td_disconnect(c);
}

/* Of very many captured tensors each step copies some; whoever is killed meanwhile leaves nothing. */
static void test_kills(void)
{
    enum { MANY = 3000 };
    td_client *c = join();
    int64_t tensors = status_at_rest(c, "tensors");
    for (int k = 0; k < 8; k++) {
        pid_t pid = fork();
        if (pid == 0) {
            td_client *d = td_connect(server.socket);
            char *text = malloc(MANY * 40 + 200), *at = text;
            static td_array *w[MANY];
            for (int i = 0; i < MANY; i++) {
                at += sprintf(at, "captured %%w%d : Tensor = \"w%d\"\n", i, i);
                w[i] = td_full(d, td_dims(1), i, TD_FLOAT32);
            }
            sprintf(at, "graph(%%x : Tensor):\n  return (%%x)\n");
            td_program *p = td_program_read(d, text, td_arrays_of(MANY, w));
            test_sleep_ms(1);
            if (p && k % 2) {
                ualarm((unsigned)(k * 300), 0);
                td_program_publish(p, "many", TD_REPLACE);
            }
            raise(SIGKILL);
        }
        waitpid(pid, NULL, 0);
    }
    /* One may have come to its end after its client. */
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; status_of(c, "tensors") > tensors; test_sleep_ms(1)) {
        if (test_now_ms() >= until)
            printf("%lld tensors are left, and %lld were there before\n", (long long)status_of(c, "tensors"),
                   (long long)tensors);
        CU_ASSERT_TRUE_FATAL(test_now_ms() < until);
        td_drop(c, "many");
    }
    td_clear_error();
    td_disconnect(c);
}

/* ---- frozen */

/* Its constants are its own, but for what is named; it is published as any. */
static void test_frozen(void)
{
    td_client *c = td_connect(server.socket);
    td_array *w1 = td_full(c, td_dims(2, 2), 1.0, TD_FLOAT32), *w2 = td_full(c, td_dims(2, 1), 2.0, TD_FLOAT32);
    td_array *x = td_full(c, td_dims(1, 2), 1.0, TD_FLOAT32);
    td_program *p = read_mlp(c, w1, w2), *frozen = td_program_freeze(p, 1, (const char *[]){"w2"}, 0), *open;
    CU_ASSERT_PTR_NOT_NULL_FATAL(frozen);
    td_program_free(p);
    td_mul_(w1, 0.0), td_mul_(w2, 2.0);
    td_value out, in[] = {td_value_array(x)};
    float y = 0;
    CU_ASSERT_EQUAL(td_program_call(frozen, 1, in, &out), TD_OK);
    CU_ASSERT_TRUE(!td_read(out.array, &y, sizeof y) && y == 16.0f);
    td_value_free(&out);
    CU_ASSERT_EQUAL(td_program_publish(frozen, "frozen", 0), TD_OK);
    open = td_program_open(c, "frozen", 0);
    td_program *again = td_program_freeze(open, 0, NULL, TD_FREEZE_EXACTLY);
    CU_ASSERT_EQUAL(td_program_call(again, 1, in, &out), TD_OK);
    CU_ASSERT_TRUE(!td_read(out.array, &y, sizeof y) && y == 16.0f);
    td_value_free(&out);
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_program_freeze(frozen, 1, (const char *[]){"w3"}, 0));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(td_last_error()->message, "captures no 'w3'"));
    td_clear_error();
    CU_ASSERT_PTR_NULL(td_program_freeze(NULL, 0, NULL, 0));
    td_clear_error();
    td_program_free(frozen), td_program_free(open), td_program_free(again);
    td_drop(c, "frozen");
    td_release(w1), td_release(w2), td_release(x);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_program_names", start_server, stop_server, {"many callers", test_many_callers},
                   {"kinds", test_kinds}, {"waits", test_waits}, {"state", test_state}, {"gradients", test_gradients},
                   {"frozen", test_frozen}, {"kills", test_kills})
