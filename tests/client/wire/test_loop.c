/* libtensord in a program with an event loop: nothing but poll() waits, every request is told once, no item is lost. */
#include "tests/client/common.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct told {
    int times, code;
    char words[256];
    td_queue_item item;
} told;

static void tell(td_request *r, void *context)
{
    told *t = context;
    t->times++;
    td_clear_error();
    t->code = td_request_result(r);
    snprintf(t->words, sizeof t->words, "%.255s", td_last_error()->message);
    td_clear_error();
    CU_ASSERT_TRUE(td_request_done(r));
}

static void tell_item(td_request *r, void *context)
{
    told *t = context;
    tell(r, context);
    if (!t->code) CU_ASSERT_EQUAL(td_request_item(r, &t->item), TD_OK);
}

/* Poll and dispatch until all are told: false when they are not within `ms`. */
static bool run_for(td_client *c, const told *t, int n, int ms)
{
    uint64_t until = test_now_ms() + (uint64_t)ms;
    for (;;) {
        int left = 0;
        for (int i = 0; i < n; i++) left += t[i].times == 0;
        uint64_t now = test_now_ms();
        if (!left) return true;
        if (now >= until) return false;
        struct pollfd p = {td_client_fd(c), POLLIN, 0};
        if (poll(&p, 1, (int)(until - now)) > 0) td_client_dispatch(c);
    }
}

static bool run(td_client *c, const told *t, int n)
{
    return run_for(c, t, n, TEST_LONG_MS);
}

/* Nothing to do: the descriptor is not readable any more, once the daemon has said all. */
static bool quiet(td_client *c)
{
    struct pollfd p = {td_client_fd(c), POLLIN, 0};
    for (int i = 0; i < 1000; i++) {
        if (poll(&p, 1, 20) == 0) return true;
        td_client_dispatch(c);
    }
    return false;
}

static int put_number(td_queue *q, int n, int timeout_ms)
{
    return td_queue_put(q, td_arrays(), &n, sizeof n, timeout_ms);
}

static int number_of(td_queue_item *item)
{
    int n = item->note_size == sizeof n ? *(int *)item->note : -1;
    td_queue_item_clear(item);
    return n;
}

static int get_number(td_queue *q, int timeout_ms)
{
    td_queue_item item;
    int code = td_queue_get(q, &item, timeout_ms);
    return code ? -code : number_of(&item);
}

/* A client that waits often has a ring, which stays: so that what is counted does not change by itself. */
static td_client *join_settled(void)
{
    td_client *c = join();
    for (int i = 0; i < 40; i++) CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    return c;
}

/* ---- each kind --------------------------------------------------------------------------------------------------- */

static void values(void)
{
    td_client *c = join();
    told t[5] = {0};
    float copy[3];
    td_array *x = td_full(c, td_dims(3), 2, TD_FLOAT32), *y = td_mul(x, 3);
    td_array *made = td_ones(c, td_dims(4), TD_FLOAT32), *ones = td_to_device(made, TD_CPU);
    td_array *rows = td_nonzero(ones); /* of a shape that only the daemon knows */
    td_request *r[] = {td_async_ready(y, -1, tell, &t[0]), td_async_read(y, copy, sizeof copy, -1, tell, &t[1]),
                       td_async_read(rows, NULL, 0, -1, tell, &t[2]), td_async_sync(c, -1, tell, &t[3]),
                       td_async_ready(rows, 20000, NULL, NULL)};
    CU_ASSERT_FALSE(td_request_done(r[0]));
    CHECK_FAILS(td_request_result(r[0]), TD_E_BUSY, "has not been answered yet");
    CHECK_FAILS(td_request_data(r[0]), TD_E_BUSY, "has not been answered yet");
    td_mul_(y, 0); /* asked later: what is there then is what was asked for */
    CU_ASSERT_TRUE(run(c, t, 4));
    for (int i = 0; i < 4; i++) CU_ASSERT_TRUE(t[i].times == 1 && t[i].code == TD_OK);
    CU_ASSERT_EQUAL(copy[0] + copy[1] + copy[2], 18);
    CU_ASSERT_TRUE(!td_request_data(r[0]) == !!test_device()); /* nobody maps what lies there */
    CU_ASSERT_EQUAL(td_numel(rows), 4);
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(((const int64_t *)td_request_data(r[2]))[i], i);
    while (!td_request_done(r[4])) td_client_dispatch(c);
    CU_ASSERT_EQUAL(td_request_data(r[4]), td_data(rows));
    td_clear_error();
    CHECK_FAILS(td_request_array(r[0]), TD_E_INVALID, "brought no tensor");
    CHECK_FAILS(td_request_table(r[0]), TD_E_INVALID, "brought no table");
    td_queue_item item;
    CHECK_FAILS(td_request_item(r[0], &item), TD_E_INVALID, "brought no item");
    for (int i = 0; i < 5; i++) td_request_free(r[i]);
    CHECK_VALUES(y, 0, 0, 0);
    CHECK_FAILS(td_async_ready(NULL, -1, NULL, NULL), TD_E_INVALID, "the array is NULL");
    td_request *wrong = td_async_read(x, copy, 5, -1, tell, &t[0]);
    CU_ASSERT_EQUAL(td_request_result(wrong), TD_E_INVALID); /* told as all are */
    td_request_free(wrong);
    td_client_dispatch(c);
    CU_ASSERT_EQUAL(t[0].times, 1); /* freed before */
    td_disconnect(c);               /* handles of an ended client are let go of */
    td_release(x), td_release(y), td_release(made), td_release(ones), td_release(rows);
}

static void errors(void)
{
    td_client *c = join();
    told t[3] = {0};
    td_array *x = td_full(c, td_dims(3), 2, TD_FLOAT32);
    td_array *far = td_from_data(c, TD_INT64, td_dims(1), &(int64_t){9});
    td_array *bad = td_index_select(x, 0, far);
    float one;
    td_request *r[] = {td_async_ready(bad, -1, tell, &t[0]), td_async_read(bad, &one, sizeof one, -1, tell, &t[1]),
                       td_async_status(c, "nothing", -1, tell, &t[2])};
    CU_ASSERT_TRUE(run(c, t, 3));
    CU_ASSERT_TRUE(t[0].code == TD_E_INDEX && t[1].code == TD_E_INDEX);
    CU_ASSERT_TRUE(t[2].code != TD_OK);
    for (int i = 0; i < 3; i++) td_request_free(r[i]);
    td_clear_error();
    td_sync(c);
    td_clear_error();
    td_release(bad), td_release(far), td_release(x);
    CU_ASSERT_TRUE(quiet(c));
    td_disconnect(c);
}

static void names_and_tables(void)
{
    td_client *c = join(), *other = join();
    told t[4] = {0};
    td_request *early = td_async_open(c, "loop/x", 0, -1, tell, &t[0]),
               *none = td_async_open(c, "no", 0, 0, tell, &t[1]);
    CU_ASSERT_TRUE(run(c, &t[1], 1));
    CU_ASSERT_EQUAL(t[1].code, TD_E_NOT_FOUND);
    td_array *x = td_full(other, td_dims(2), 7, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_publish(x, "loop/x", 0), TD_OK);
    CU_ASSERT_TRUE(run(c, t, 1));
    uint64_t version = td_request_version(early);
    td_array *opened = td_request_array(early);
    CHECK_VALUES(opened, 7, 7);
    CHECK_FAILS(td_request_array(early), TD_E_INVALID, "taken before");
    td_request *newer = td_async_open(c, "loop/x", version, 20000, tell, &t[2]);
    td_array *two[] = {x, x};
    CU_ASSERT_EQUAL(td_publish_tree(other, "loop/x", td_arrays_of(2, two), "note", 4, TD_REPLACE, &version), TD_OK);
    CU_ASSERT_TRUE(run(c, &t[2], 1));
    CU_ASSERT_EQUAL(td_request_version(newer), version);
    td_queue_item item;
    CU_ASSERT_EQUAL(td_request_item(newer, &item), TD_OK);
    CU_ASSERT_TRUE(item.n == 2 && item.note_size == 4 && memcmp(item.note, "note", 4) == 0);
    CHECK_VALUES(item.at[1], 7, 7);
    td_queue_item_clear(&item);
    td_request *table = td_async_status(c, "names", -1, tell, &t[3]);
    CU_ASSERT_TRUE(run(c, &t[3], 1));
    td_table *names = td_request_table(table);
    CU_ASSERT_TRUE(names && names->rows == 1);
    td_table_free(names);
    td_request_free(early), td_request_free(none), td_request_free(newer), td_request_free(table);
    td_drop(c, "loop/x");
    td_release(opened), td_release(x);
    td_disconnect(c), td_disconnect(other);
}

static void queues(void)
{
    td_client *c = join();
    told t[6] = {0};
    td_queue *q = td_queue_open(c, "loop", 1, TD_PRODUCER | TD_CONSUMER);
    td_request *get = td_async_get(q, -1, tell_item, &t[0]);
    td_array *many[9];
    for (int i = 0; i < 9; i++) many[i] = td_full(c, td_dims(), i, TD_FLOAT64);
    td_request *put =
        td_async_put(q, td_arrays_of(9, many), "nine", 5, -1, tell, &t[1]); /* more than ids were brought */
    for (int i = 0; i < 9; i++) td_release(many[i]);
    CU_ASSERT_TRUE(run(c, t, 2));
    CU_ASSERT_TRUE(t[0].code == TD_OK && t[1].code == TD_OK && t[0].item.n == 9);
    for (int i = 0; i < t[0].item.n; i++) CU_ASSERT_EQUAL(td_item_f64(t[0].item.at[i]), i);
    CU_ASSERT_STRING_EQUAL(t[0].item.note, "nine");
    td_queue_item_clear(&t[0].item);
    td_request_free(get), td_request_free(put);
    int n = 1;
    td_request *in = td_async_put(q, td_arrays(), &n, sizeof n, 0, tell, &t[2]);
    td_request *full = td_async_put(q, td_arrays(), &n, sizeof n, 0, tell, &t[3]);
    CU_ASSERT_TRUE(run(c, &t[2], 2));
    CU_ASSERT_TRUE(t[2].code == TD_OK && t[3].code == TD_E_TIMEOUT);
    td_request_free(in), td_request_free(full);
    CU_ASSERT_EQUAL(get_number(q, 0), 1);
    get = td_async_get(q, -1, tell_item, &t[4]);
    CU_ASSERT_EQUAL(td_queue_close(q, false), TD_OK); /* its handle lives until then */
    CU_ASSERT_TRUE(run(c, &t[4], 1));
    CU_ASSERT_EQUAL(t[4].code, TD_E_CLOSED);
    td_request_free(get);
    CHECK_FAILS(td_async_get(NULL, 0, NULL, NULL), TD_E_INVALID, "the queue is NULL");
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    CU_ASSERT_EQUAL(status_of(c, "queues"), 0);
    td_disconnect(c);
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static const char mixture[] = "graph(%x : Tensor, %n : int):\n"
                              "  %t : str = prim::Constant[value=\"seven\"]()\n"
                              "  %f : float = prim::item.float(%x)\n"
                              "  %y : Tensor = td::neg(%x)\n"
                              "  %l : int[] = prim::ListConstruct(%n, %n)\n"
                              "  return (%f, %y, %l, %t)\n";
static const char endless[] = "graph(%x : Tensor):\n"
                              "  %yes : bool = prim::Constant[value=1]()\n"
                              "  %zero : int = prim::Constant[value=0]()\n"
                              "  %one : int = prim::Constant[value=1]()\n"
                              "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                              "  %k : int = prim::Loop(%ever, %yes, %zero)\n"
                              "    block0(%i : int, %j : int):\n"
                              "      %j2 : int = prim::add.int(%j, %one)\n"
                              "      -> (%yes, %j2)\n"
                              "  return (%k, %x)\n";

static td_program *program(td_client *c, const char *text)
{
    td_program *p = td_program_read(c, text, td_arrays_of(0, NULL));
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static bool is_mixture(td_request *r, double x, int n)
{
    td_value v;
    if (td_request_value(r, &v)) return false;
    bool good = v.kind == TD_VALUE_TUPLE && v.n == 4 && v.items[0].re == x && td_item_f64(v.items[1].array) == -x &&
                v.items[2].n == 2 && v.items[2].items[1].i == n && strcmp(v.items[3].text, "seven") == 0;
    td_value_free(&v);
    return good;
}

static void calls(void)
{
    enum { MANY = 100 };
    static told t[MANY];
    static td_request *r[MANY];
    memset(t, 0, sizeof t);
    td_client *c = join();
    td_program *p = program(c, mixture);
    for (int k = 0; k < MANY; k++) {
        td_array *x = td_full(c, td_dims(), k, TD_FLOAT64);
        r[k] = td_async_call(p, 2, ((td_value[]){td_value_array(x), td_value_int(k)}), -1, tell, &t[k]);
        td_mul_(x, 0); /* asked later */
        td_release(x);
    }
    td_program_free(p); /* what was asked goes on */
    td_value v;
    CHECK_FAILS(td_request_value(r[0], &v), TD_E_BUSY, "has not been answered yet");
    CU_ASSERT_TRUE(run(c, t, MANY));
    for (int k = 0; k < MANY - 1; k++) CU_ASSERT_TRUE(t[k].times == 1 && is_mixture(r[k], k, k));
    CHECK_FAILS(td_request_value(r[0], &v), TD_E_INVALID, "taken before");
    for (int k = 0; k < MANY; k++) td_request_free(r[k]); /* the last with what it brought */
    CU_ASSERT_TRUE(quiet(c));
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_request *sync = td_async_sync(c, -1, tell, &t[0]);
    t[0].times = 0;
    CU_ASSERT_TRUE(run(c, t, 1));
    CHECK_FAILS(td_request_value(sync, &v), TD_E_INVALID, "brought no value");
    td_request_free(sync);
    td_disconnect(c);
}

/* They come to their end, and nobody wants what they bring. */
static void calls_given_up(void)
{
    enum { MANY = 20 };
    told t[MANY] = {0};
    td_request *r[MANY];
    td_client *c = join_settled();
    td_program *p = program(c, mixture);
    td_array *x = td_full(c, td_dims(), 3, TD_FLOAT64);
    td_value in[] = {td_value_array(x), td_value_int(4)};
    for (int k = 0; k < MANY; k++) r[k] = td_async_call(p, 2, in, -1, tell, &t[k]);
    struct pollfd daemon_said = {td_client_fd(c), POLLIN, 0};
    poll(&daemon_said, 1, 1000);
    test_sleep_ms(20);
    for (int k = 0; k < MANY; k++) td_request_free(r[k]);
    CU_ASSERT_TRUE(quiet(c));
    for (int k = 0; k < MANY; k++) CU_ASSERT_EQUAL(t[k].times, 0);
    td_release(x);
    td_program_free(p);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

static void calls_that_fail(void)
{
    td_client *c = join();
    told t = {0};
    td_program *p = program(c, mixture);
    td_array *two = td_ones(c, td_dims(2), TD_FLOAT64);
    td_value in[] = {td_value_array(two), td_value_int(1)}, v;
    CHECK_FAILS(td_async_call(NULL, 2, in, -1, tell, &t), TD_E_INVALID, "the program is NULL");
    CHECK_FAILS(td_async_call(p, 1, in, -1, tell, &t), TD_E_INVALID, "takes 2 arguments, and 1 are given");
    CHECK_FAILS(td_async_call(p, 2, ((td_value[]){in[1], in[1]}), -1, tell, &t), TD_E_TYPE, "and int is given");
    CHECK_FAILS(td_async_call(p, -1, in, -1, tell, &t), TD_E_INVALID, "-1 arguments");
    td_request *r = td_async_call(p, 2, in, -1, tell, &t);
    CU_ASSERT_TRUE(run(c, &t, 1));
    CU_ASSERT_EQUAL(t.code, TD_E_INVALID);
    CU_ASSERT_TRUE(td_request_value(r, &v) == TD_E_INVALID && v.kind == TD_VALUE_NONE);
    td_clear_error();
    td_request_free(r);
    td_release(two);
    td_program_free(p);
    CU_ASSERT_TRUE(quiet(c));
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

/* What it writes, and what others look at, is written when the call is over; it prints before that is told. */
static const char writer[] = "graph(%x : Tensor):\n"
                             "  %one : int = prim::Constant[value=1]()\n"
                             "  %yes : bool = prim::Constant[value=1]()\n"
                             "  %ten : int = prim::Constant[value=10]()\n"
                             "  %t : str = prim::Constant[value=\"said\"]()\n"
                             "  prim::Loop(%ten, %yes)\n"
                             "    block0(%i : int):\n"
                             "      %y : Tensor = td::add_(%x, %one, %one)\n"
                             "      -> (%yes)\n"
                             "  prim::Print(%t)\n"
                             "  return (%one)\n";

static char printed[64];

static void keep_printed(void *context, const char *text, size_t n)
{
    (void)context;
    snprintf(printed, sizeof printed, "%.*s", (int)n, text);
}

/* Programs that go on for ever are ended: by a deadline, by a cancel, by the end of the handle; also those that have
 * not begun, and more of them than a daemon remembers. What is asked behind them is done. */
static void calls_without_an_end(void)
{
    enum { MANY = 30 };
    told t[MANY] = {0}, after = {0};
    td_request *r[MANY];
    td_client *c = join_settled();
    CU_ASSERT_TRUE(quiet(c));
    int before = test_descriptors(getpid());
    td_program *p = program(c, endless);
    td_array *x = td_full(c, td_dims(2), 5, TD_FLOAT32);
    td_value in = td_value_array(x);
    uint64_t began = test_now_ms();
    r[0] = td_async_call(p, 1, &in, 50, tell, &t[0]);
    r[1] = td_async_call(p, 1, &in, 100, tell, &t[1]); /* it has to wait for the first, within its time */
    CU_ASSERT_TRUE(run(c, t, 2));
    CU_ASSERT_TRUE(test_now_ms() - began >= 100);
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_TRUE(t[k].times == 1 && t[k].code == TD_E_TIMEOUT && strstr(t[k].words, "the program was stopped"));
        td_request_free(r[k]);
    }
    CHECK_VALUES(x, 5, 5);
    memset(t, 0, sizeof t);
    for (int k = 0; k < MANY; k++) r[k] = td_async_call(p, 1, &in, -1, tell, &t[k]);
    td_array *y = td_neg(x);
    td_request *ready = td_async_ready(y, -1, tell, &after);
    for (int k = 0; k < MANY; k += 2) td_request_cancel(r[k]);
    for (int k = 1; k < MANY; k += 2) td_request_free(r[k]);
    CU_ASSERT_TRUE(run(c, &after, 1));
    CU_ASSERT_EQUAL(after.code, TD_OK);
    for (int k = 0; k < MANY; k += 2) {
        CU_ASSERT_TRUE(t[k].times == 1 && t[k].code == TD_E_CANCELLED && t[k + 1].times == 0);
        td_request_free(r[k]);
    }
    CHECK_VALUES(y, -5, -5);
    td_request_free(ready);
    td_program_free(p);
    td_release(x), td_release(y);
    CU_ASSERT_TRUE(quiet(c));
    CU_ASSERT_EQUAL(test_descriptors(getpid()), before + 1); /* the stopper */
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

static void calls_that_write(void)
{
    enum { LONG = 1 << 22 }; /* a while for a worker */
    td_client *c = join();
    told t = {0};
    td_program *p = program(c, writer);
    td_array *x = td_zeros(c, td_dims(LONG), TD_FLOAT64);
    const double *seen = td_data(x);
    td_value in = td_value_array(x), v;
    td_set_program_print(keep_printed, NULL);
    printed[0] = 0;
    td_request *r = td_async_call(p, 1, &in, -1, tell, &t);
    CU_ASSERT_TRUE(run(c, &t, 1));
    CU_ASSERT_TRUE(t.code == TD_OK && (!seen || (seen[0] == 10 && seen[LONG - 1] == 10)));
    CU_ASSERT_STRING_EQUAL(printed, "said\n");
    CU_ASSERT_TRUE(td_request_value(r, &v) == TD_OK && v.kind == TD_VALUE_INT && v.i == 1);
    td_request_free(r);
    printed[0] = 0;
    r = td_async_call(p, 1, &in, -1, NULL, NULL); /* nobody is called */
    while (!td_request_done(r) || !printed[0]) td_client_dispatch(c);
    CU_ASSERT_STRING_EQUAL(printed, "said\n");
    td_request_free(r);
    td_trace *trace = td_trace_begin(c, td_arrays(x));
    r = td_async_call(p, 1, &in, -1, NULL, NULL);
    CHECK_FAILS(td_trace_end(trace, td_arrays(x)), TD_E_UNSUPPORTED, "a call that an event loop waits for");
    while (!td_request_done(r)) td_client_dispatch(c);
    td_request_free(r);
    td_set_program_print(NULL, NULL);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* A child's end of a request stops nothing of its parent's. */
static void calls_and_forks(void)
{
    td_client *c = join();
    told t[2] = {0};
    td_program *p = program(c, mixture);
    td_array *x = td_full(c, td_dims(), 3, TD_FLOAT64);
    td_value in[] = {td_value_array(x), td_value_int(4)};
    td_request *r = td_async_call(p, 2, in, -1, tell, &t[0]);
    pid_t pid = fork();
    if (pid == 0) {
        bool good = run(c, t, 1) && t[0].code == TD_E_CANCELLED;
        td_request_cancel(r), td_request_free(r);
        r = td_async_call(p, 2, in, -1, tell, &t[1]);
        _exit(good && run(c, &t[1], 1) && is_mixture(r, 3, 4) ? 0 : 1);
    }
    CU_ASSERT_TRUE(ended_well(pid));
    CU_ASSERT_TRUE(run(c, t, 1));
    CU_ASSERT_TRUE(is_mixture(r, 3, 4));
    td_request_free(r);
    td_release(x);
    td_program_free(p);
    td_disconnect(c);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void deadlines(void)
{
    td_client *c = join();
    told t[3] = {0};
    td_queue *q = td_queue_open(c, "late", 1, TD_PRODUCER | TD_CONSUMER);
    td_request *get = td_async_get(q, 30, tell_item, &t[0]), *open = td_async_open(c, "never", 0, 30, tell, &t[1]);
    CU_ASSERT_TRUE(run(c, t, 2));
    CU_ASSERT_TRUE(t[0].code == TD_E_TIMEOUT && t[1].code == TD_E_TIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(t[0].words, "queue 'late' stayed empty")); /* the daemon's words */
    td_request_free(get), td_request_free(open);
    memset(t, 0, sizeof t);
    test_stop(server.pid); /* a daemon that says nothing */
    td_array *x = td_full(c, td_dims(2), 5, TD_FLOAT32);
    float copy[2] = {1, 1};
    uint64_t began = test_now_ms();
    td_request *r[] = {td_async_read(x, copy, sizeof copy, 50, tell, &t[0]), td_async_get(q, 50, tell_item, &t[1]),
                       td_async_put(q, td_arrays(), "", 0, 50, tell, &t[2])};
    CU_ASSERT_TRUE(run(c, t, 3));
    CU_ASSERT_TRUE(test_now_ms() - began >= 50);
    kill(server.pid, SIGCONT);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(t[i].code, TD_E_TIMEOUT);
        CU_ASSERT_PTR_NOT_NULL(strstr(t[i].words, "has not answered in time"));
        td_request_free(r[i]);
    }
    CHECK_VALUES(x, 5, 5);
    CU_ASSERT_EQUAL(copy[0], 1); /* nothing is written when the request is over */
    td_release(x);
    CU_ASSERT_TRUE(quiet(c));
    while (get_number(q, 0) >= -1) { /* the put may have come before it was withdrawn */
    }
    CU_ASSERT_EQUAL(put_number(q, 8, 0), TD_OK);
    CU_ASSERT_EQUAL(get_number(q, 20000), 8);
    td_queue_close(q, false);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(comes_to(c, "tensors", 0));
    td_disconnect(c);
}

static void cancelled_gets(void)
{
    td_client *c = join();
    told t[4] = {0};
    td_queue *q = td_queue_open(c, "give-up", 8, TD_PRODUCER | TD_CONSUMER);
    td_request *one = td_async_get(q, -1, tell_item, &t[0]), *two = td_async_get(q, -1, tell_item, &t[1]);
    td_request *three = td_async_get(q, -1, tell_item, &t[2]);
    td_request_cancel(one);
    td_request_cancel(one);
    td_request_free(three);
    CU_ASSERT_EQUAL(t[0].times, 0); /* not from within */
    CU_ASSERT_EQUAL(put_number(q, 1, 0), TD_OK);
    CU_ASSERT_EQUAL(put_number(q, 2, 0), TD_OK);
    CU_ASSERT_TRUE(run(c, t, 2));
    CU_ASSERT_TRUE(t[0].times == 1 && t[0].code == TD_E_CANCELLED);
    CU_ASSERT_TRUE(t[1].code == TD_OK && number_of(&t[1].item) == 1);
    CU_ASSERT_EQUAL(get_number(q, 20000), 2);
    CU_ASSERT_EQUAL(t[2].times, 0);
    td_queue_item item;
    CU_ASSERT_EQUAL(put_number(q, 3, 0), TD_OK);
    CU_ASSERT_EQUAL(put_number(q, 4, 0), TD_OK);
    td_request *untaken = td_async_get(q, -1, tell, &t[3]);
    CU_ASSERT_TRUE(run(c, &t[3], 1));
    td_request_free(untaken); /* it came, and goes back to where it was */
    CU_ASSERT_EQUAL(get_number(q, 0), 3);
    CU_ASSERT_EQUAL(get_number(q, 0), 4);
    CHECK_FAILS(td_request_item(one, &item), TD_E_CANCELLED, "was cancelled");
    td_request_cancel(two); /* over: nothing */
    CU_ASSERT_EQUAL(td_request_result(two), TD_OK);
    td_request_cancel(NULL);
    td_request_free(NULL);
    td_request_free(one), td_request_free(two);
    td_queue_close(q, false);
    td_disconnect(c);
}

enum { CROSSED = 400 };

static void *puts_numbers(void *socket)
{
    td_client *c = td_connect(socket);
    td_queue *q = td_queue_open(c, "cross", 4, TD_PRODUCER);
    int wrong = !q;
    for (int i = 0; i < CROSSED && !wrong; i++) {
        td_array *x = td_full(c, td_dims(64), i, TD_FLOAT64);
        wrong = td_queue_put(q, td_arrays(x), &i, sizeof i, TEST_LONG_MS);
        td_release(x);
    }
    wrong |= td_queue_close(q, false);
    td_disconnect(c);
    return wrong ? NULL : socket;
}

/* Requests are given up while their items are on the way: each item comes once, in order. */
static void cancel_races_completion(void)
{
    td_client *c = join();
    td_queue *q = td_queue_open(c, "cross", 4, TD_CONSUMER);
    pthread_t putter;
    pthread_create(&putter, NULL, puts_numbers, server.socket);
    unsigned random = 1, cancelled = 0;
    int next = 0, code = TD_OK;
    while (code != TD_E_CLOSED && next <= CROSSED) {
        told t = {0};
        td_request *r = td_async_get(q, TEST_LONG_MS, tell_item, &t);
        random = random * 1103515245 + 12345;
        unsigned how = random >> 16 & 3;
        if (how) run_for(c, &t, 1, (int)how - 1);
        if (!t.times && how < 3) {
            td_request_cancel(r);
            CU_ASSERT_TRUE(run(c, &t, 1));
            CU_ASSERT_TRUE(t.code == TD_E_CANCELLED || t.code == TD_E_CLOSED);
            cancelled++;
        } else if (!t.times) {
            CU_ASSERT_TRUE(run(c, &t, 1));
        }
        code = t.code;
        if (!code) {
            td_array *sum = td_sum(t.item.at[0]);
            CU_ASSERT_EQUAL(td_item_f64(sum), 64.0 * next);
            td_release(sum);
            CU_ASSERT_EQUAL(number_of(&t.item), next);
            next++;
        }
        td_request_free(r);
    }
    void *good;
    pthread_join(putter, &good);
    CU_ASSERT_PTR_NOT_NULL(good);
    CU_ASSERT_EQUAL(next, CROSSED);
    CU_ASSERT_TRUE(cancelled > 0);
    td_queue_close(q, false);
    td_disconnect(c);
}

static void cancelled_puts(void)
{
    td_client *c = join();
    td_queue *q = td_queue_open(c, "withdraw", 1, TD_PRODUCER | TD_CONSUMER);
    for (int i = 0; i < 60; i++) {
        told t[2] = {0};
        int n[2] = {2 * i, 2 * i + 1}, gone = i % 2;
        td_request *r[2];
        for (int k = 0; k < 2; k++) r[k] = td_async_put(q, td_arrays(), &n[k], sizeof n[k], -1, tell, &t[k]);
        if (i % 3) td_client_dispatch(c);
        td_request_cancel(r[!gone]);
        CU_ASSERT_TRUE(run(c, &t[!gone], 1));
        CU_ASSERT_TRUE(t[!gone].code == TD_OK || t[!gone].code == TD_E_CANCELLED);
        if (!gone) CU_ASSERT_EQUAL(t[1].code, TD_E_CANCELLED); /* there was no room for it */
        for (int k = 0; k < 2; k++) {
            CU_ASSERT_TRUE(run(c, &t[k], 1));
            if (t[k].code == TD_OK) CU_ASSERT_EQUAL(get_number(q, 20000), n[k]);
        }
        CU_ASSERT_EQUAL(get_number(q, 0), -TD_E_TIMEOUT);
        for (int k = 0; k < 2; k++) td_request_free(r[k]);
    }
    td_queue_close(q, false);
    td_disconnect(c);
}

/* ---- callbacks that do more -------------------------------------------------------------------------------------- */

typedef struct chain {
    td_client *client;
    td_queue *queue;
    int left, sum, nested;
} chain;

static void go_on(td_request *r, void *context)
{
    chain *k = context;
    td_queue_item item;
    CU_ASSERT_EQUAL(td_request_item(r, &item), TD_OK);
    k->sum += number_of(&item);
    td_request_free(r); /* its own */
    if (k->nested++ < 3) td_client_dispatch(k->client);
    CU_ASSERT_EQUAL(td_sync(k->client), TD_OK); /* a call that waits */
    td_array *x = td_full(k->client, td_dims(4), k->left, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_item_f64(td_sum(x)), 4 * k->left);
    td_release(x);
    CU_ASSERT_EQUAL(put_number(k->queue, k->left, 20000), TD_OK);
    if (--k->left > 0) CU_ASSERT_PTR_NOT_NULL(td_async_get(k->queue, -1, go_on, k));
}

static void callbacks_call(void)
{
    td_client *c = join();
    td_scope scope;
    td_scope_begin(&scope);
    chain k = {c, td_queue_open(c, "chain", 4, TD_PRODUCER | TD_CONSUMER), 20, 0, 0};
    CU_ASSERT_EQUAL(put_number(k.queue, 100, 0), TD_OK);
    td_async_get(k.queue, -1, go_on, &k);
    struct pollfd p = {td_client_fd(c), POLLIN, 0};
    while (k.left > 0 && poll(&p, 1, TEST_LONG_MS) > 0) td_client_dispatch(c);
    CU_ASSERT_EQUAL(k.left, 0);
    CU_ASSERT_EQUAL(k.sum, 100 + 20 * 21 / 2 - 1);
    td_queue_close(k.queue, false);
    td_scope_end(&scope);
    td_disconnect(c);
}

typedef struct leaver {
    td_client *client;
    td_request *others[3];
    told told[3];
} leaver;

static void leave(td_request *r, void *context)
{
    leaver *l = context;
    td_request_free(l->others[0]); /* which may be over as well */
    td_disconnect(l->client);      /* tells the others */
    CU_ASSERT_TRUE(l->told[1].times == 1 && l->told[1].code == TD_E_LOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(l->told[1].words, "was disconnected"));
    td_request_free(r);
}

static void a_callback_disconnects(void)
{
    leaver l = {.client = join()};
    td_request *r = td_async_sync(l.client, -1, leave, &l);
    for (int i = 0; i < 3; i++)
        l.others[i] = i ? td_async_open(l.client, "never", 0, -1, tell, &l.told[i])
                        : td_async_sync(l.client, -1, tell, &l.told[i]);
    (void)r;
    struct pollfd p = {td_client_fd(l.client), POLLIN, 0};
    while (!l.told[1].times && poll(&p, 1, TEST_LONG_MS) > 0) td_client_dispatch(l.client);
    CU_ASSERT_TRUE(l.told[2].times == 1 && l.told[2].code == TD_E_LOST);
    td_request_free(l.others[1]), td_request_free(l.others[2]); /* the last one takes the client along */
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *waits_for_ever(void *queue)
{
    return get_number(queue, -1) == 77 ? queue : NULL;
}

/* A thread that waits in a call has the socket: what it reads for the loop, the loop is told. */
static void beside_a_thread_that_waits(void)
{
    td_client *c = join(), *other = join();
    td_queue *slow = td_queue_open(c, "slow", 1, TD_CONSUMER), *q = td_queue_open(c, "quick", 1, TD_CONSUMER);
    td_queue *to_slow = td_queue_open(other, "slow", 1, TD_PRODUCER),
             *to_q = td_queue_open(other, "quick", 1, TD_PRODUCER);
    pthread_t thread;
    pthread_create(&thread, NULL, waits_for_ever, slow);
    test_sleep_ms(20);
    for (int i = 0; i < 200; i++) {
        told t = {0};
        td_request *r = td_async_get(q, TEST_LONG_MS, tell_item, &t);
        CU_ASSERT_EQUAL(put_number(to_q, i, 20000), TD_OK);
        CU_ASSERT_TRUE(run(c, &t, 1));
        CU_ASSERT_EQUAL(t.code ? -1 : number_of(&t.item), i);
        td_request_free(r);
    }
    CU_ASSERT_EQUAL(put_number(to_slow, 77, 20000), TD_OK);
    void *good;
    pthread_join(thread, &good);
    CU_ASSERT_PTR_NOT_NULL(good);
    CU_ASSERT_TRUE(quiet(c));
    td_queue_close(slow, false), td_queue_close(q, false), td_queue_close(to_slow, false), td_queue_close(to_q, false);
    td_disconnect(c), td_disconnect(other);
}

enum { LOOPS = 3, ROUNDS = 100 };

typedef struct crowd {
    td_client *client;
    td_queue *queue;
    _Atomic int got, sum;
} crowd;

static void count(td_request *r, void *context)
{
    crowd *w = context;
    td_queue_item item;
    if (td_request_item(r, &item) == TD_OK) {
        w->sum += number_of(&item);
        w->got++;
    }
    td_request_free(r);
}

/* Each makes requests, gives some up, and dispatches whatever has come, also for the others. */
static void *loops(void *context)
{
    crowd *w = context;
    for (int i = 1; i <= ROUNDS; i++) {
        int n = i;
        td_async_get(w->queue, -1, count, w);
        told idle = {0};
        td_request *given_up = td_async_open(w->client, "never", 0, -1, tell, &idle);
        td_request *put = td_async_put(w->queue, td_arrays(), &n, sizeof n, -1, NULL, NULL);
        struct pollfd p = {td_client_fd(w->client), POLLIN, 0};
        while (!td_request_done(put))
            if (poll(&p, 1, 5) > 0) td_client_dispatch(w->client);
        td_request_free(given_up);
        td_request_free(put);
    }
    return context;
}

static void loops_in_threads(void)
{
    crowd w = {.client = join()};
    w.queue = td_queue_open(w.client, "threads", 4, TD_PRODUCER | TD_CONSUMER);
    pthread_t thread[LOOPS];
    for (int i = 0; i < LOOPS; i++) pthread_create(&thread[i], NULL, loops, &w);
    for (int i = 0; i < LOOPS; i++) pthread_join(thread[i], NULL);
    struct pollfd p = {td_client_fd(w.client), POLLIN, 0};
    while (w.got < LOOPS * ROUNDS && poll(&p, 1, TEST_LONG_MS) > 0) td_client_dispatch(w.client);
    CU_ASSERT_EQUAL(w.got, LOOPS * ROUNDS);
    CU_ASSERT_EQUAL(w.sum, LOOPS * ROUNDS * (ROUNDS + 1) / 2);
    td_queue_close(w.queue, false);
    td_disconnect(w.client);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

enum { MANY = 1200 }; /* more than the daemon holds for one session */

static void many_at_once(void)
{
    static told t[MANY];
    static td_request *r[MANY];
    int before = test_descriptors(getpid()), there = test_descriptors(server.pid);
    td_client *c = join_settled(), *other = join_settled();
    int mine = test_descriptors(getpid());
    td_queue *q = td_queue_open(c, "many", MANY, TD_CONSUMER), *to = td_queue_open(other, "many", MANY, TD_PRODUCER);
    for (int round = 0; round < 2; round++) {
        memset(t, 0, sizeof t);
        for (int i = 0; i < MANY; i++) r[i] = td_async_get(q, -1, tell_item, &t[i]);
        td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
        CHECK_VALUES(x, 1, 1, 1); /* they hold up nobody */
        td_release(x);
        for (int i = 0; round && i < MANY; i += 3) td_request_cancel(r[i]);
        td_sync(c); /* an item that comes before a cancel goes back, and others may have overtaken it */
        int sent = 0;
        for (int i = 0; i < MANY; i++) sent += !(round && i % 3 == 0) && put_number(to, i, -1) == TD_OK;
        CU_ASSERT_TRUE(run(c, t, MANY));
        int good = 0, cancelled = 0;
        for (int i = 0; i < MANY; i++) {
            CU_ASSERT_EQUAL(t[i].times, 1);
            good += t[i].code == TD_OK && number_of(&t[i].item) == i;
            cancelled += t[i].code == TD_E_CANCELLED;
            td_request_free(r[i]);
        }
        CU_ASSERT_EQUAL(good, sent);
        CU_ASSERT_EQUAL(cancelled, MANY - sent);
    }
    CU_ASSERT_TRUE(quiet(c));
    CU_ASSERT_EQUAL(test_descriptors(getpid()), mine + 2); /* the loop's two */
    td_queue_close(q, false), td_queue_close(to, false);
    td_disconnect(c), td_disconnect(other);
    CU_ASSERT_EQUAL(test_descriptors(getpid()), before);
    for (int i = 0; i < TEST_LONG_MS / 10 && test_descriptors(server.pid) > there; i++) test_sleep_ms(10);
    CU_ASSERT_TRUE(test_descriptors(server.pid) <= there + 4); /* segments that are kept warm */
}

/* Seconds of processor time of this thread to have `n` items answered, of the next that wait. */
static double answering(td_client *c, td_queue *to, told *t, int n)
{
    struct timespec began, ended;
    for (int i = 0; i < n; i++) CU_ASSERT_EQUAL(put_number(to, i, -1), TD_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
    CU_ASSERT_TRUE(run(c, t, n));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    for (int i = 0; i < n; i++) CU_ASSERT_EQUAL(number_of(&t[i].item), i);
    return (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
}

/* What an answer costs does not grow with how many wait: also when all are given up then, each is told once. */
static void very_many(void)
{
    enum { ALL = 100000, SOME = 1000, TIMES = 5 };
    td_client *c = join_settled(), *other = join_settled();
    td_queue *q = td_queue_open(c, "very-many", ALL, TD_CONSUMER),
             *to = td_queue_open(other, "very-many", ALL, TD_PRODUCER);
    told *t = calloc(ALL, sizeof *t);
    td_request **r = calloc(ALL, sizeof *r);
    CU_ASSERT_TRUE_FATAL(q && to && t && r);
    double few = 1e9, many = 1e9; /* the least of some times: others disturb this thread */
    for (int k = 0; k < TIMES; k++) {
        for (int i = 0; i < SOME; i++) r[i] = td_async_get(q, -1, tell_item, &t[i]);
        few = fmin(few, answering(c, to, t, SOME));
        for (int i = 0; i < SOME; i++) td_request_free(r[i]);
        memset(t, 0, SOME * sizeof *t);
    }
    for (int i = 0; i < ALL; i++) r[i] = td_async_get(q, -1, tell_item, &t[i]);
    for (int k = 0; k < TIMES; k++) many = fmin(many, answering(c, to, t + k * SOME, SOME));
    CU_ASSERT_TRUE(many < 8 * few + 0.1); /* it was 50 times as much */
    for (int i = TIMES * SOME; i < ALL; i++) td_request_cancel(r[i]);
    CU_ASSERT_TRUE(run(c, t, ALL));
    for (int i = 0; i < ALL; i++) {
        CU_ASSERT_EQUAL(t[i].times, 1);
        CU_ASSERT_EQUAL(t[i].code, i < TIMES * SOME ? TD_OK : TD_E_CANCELLED);
        td_request_free(r[i]);
    }
    CU_ASSERT_TRUE(quiet(c));
    CU_ASSERT_EQUAL(put_number(to, 7, -1), TD_OK); /* none of them takes anything */
    CU_ASSERT_EQUAL(get_number(q, TEST_LONG_MS), 7);
    td_queue_close(q, false), td_queue_close(to, false);
    td_disconnect(c), td_disconnect(other);
    free(t), free(r);
}

/* ---- fork, and a daemon that dies -------------------------------------------------------------------------------- */

static bool child_goes_on(td_client *c, td_queue *q, told *t, int fd)
{
    if (td_client_fd(c) != fd || !run(c, t, 2)) return false;
    bool good = t[0].code == TD_E_CANCELLED && t[1].code == TD_E_CANCELLED && strstr(t[0].words, "parent process");
    told own[2] = {0};
    td_request *r[] = {td_async_sync(c, -1, tell, &own[0]), td_async_get(q, 20, tell_item, &own[1])};
    good = good && r[0] && r[1] && run(c, own, 2) && own[0].code == TD_OK && own[1].code == TD_E_TIMEOUT && quiet(c);
    return good;
}

static void forked(void)
{
    td_client *c = join();
    td_queue *q = td_queue_open(c, "fork", 2, TD_PRODUCER | TD_CONSUMER);
    told t[2] = {0};
    int fd = td_client_fd(c);
    td_request *r[] = {td_async_get(q, -1, tell_item, &t[0]), td_async_get(q, -1, tell_item, &t[1])};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(child_goes_on(c, q, t, fd) ? 0 : 1);
    CU_ASSERT_TRUE(ended_well(pid));
    CU_ASSERT_TRUE(t[0].times == 0 && quiet(c));
    CU_ASSERT_EQUAL(put_number(q, 1, 0), TD_OK);
    CU_ASSERT_EQUAL(put_number(q, 2, 0), TD_OK);
    CU_ASSERT_TRUE(run(c, t, 2));
    CU_ASSERT_EQUAL(number_of(&t[0].item), 1);
    CU_ASSERT_EQUAL(number_of(&t[1].item), 2);
    td_request_free(r[0]), td_request_free(r[1]);
    td_queue_close(q, false);
    td_disconnect(c);
}

static void a_daemon_that_dies(void)
{
    enum { OUT = 1000 };
    static told t[OUT];
    static td_request *r[OUT];
    memset(t, 0, sizeof t);
    test_daemon mortal;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&mortal, NULL));
    int before = test_descriptors(getpid());
    td_client *c = td_connect(mortal.socket);
    td_queue *q = td_queue_open(c, "dies", 1, TD_PRODUCER | TD_CONSUMER);
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
    CU_ASSERT_TRUE(quiet(c));
    int fd = td_client_fd(c);
    for (int i = 0; i < OUT; i++)
        r[i] = i % 2 ? td_async_get(q, -1, tell_item, &t[i]) : td_async_open(c, "no", 0, -1, tell, &t[i]);
    CU_ASSERT_TRUE(quiet(c));
    told called[2] = {0};
    td_program *ever = program(c, endless);
    td_value in = td_value_array(x);
    td_request *stopped = td_async_call(ever, 1, &in, -1, tell, &called[0]),
               *runs = td_async_call(ever, 1, &in, -1, tell, &called[1]);
    td_request_cancel(stopped);
    kill(mortal.pid, SIGKILL);
    CU_ASSERT_TRUE(run(c, t, OUT));
    int lost = 0;
    for (int i = 0; i < OUT; i++)
        lost += t[i].times == 1 && t[i].code == TD_E_LOST && strstr(t[i].words, "it ended or was killed");
    CU_ASSERT_EQUAL(lost, OUT);
    CU_ASSERT_TRUE(run(c, called, 2));
    CU_ASSERT_TRUE(called[0].code == TD_E_CANCELLED && called[1].code == TD_E_LOST);
    td_request_cancel(runs), td_request_free(runs), td_request_free(stopped);
    td_program_free(ever);
    CU_ASSERT_EQUAL(td_client_dispatch(c), TD_E_LOST);
    struct pollfd p = {-1, POLLIN, 0};
    CHECK_FAILS(p.fd = td_client_fd(c), TD_E_LOST, "it ended or was killed");
    CHECK_FAILS(td_async_ready(x, -1, NULL, NULL), TD_E_LOST, "it ended or was killed");
    CHECK_FAILS(td_async_get(q, -1, NULL, NULL), TD_E_LOST, "it ended or was killed");
    for (int i = 0; i < OUT; i++) td_request_free(r[i]);
    td_queue_close(q, false);
    td_release(x);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) { /* a child has one of its own under this number, which goes with the connection */
        bool open = fcntl(fd, F_GETFD) >= 0;
        td_disconnect(c);
        _exit(open && fcntl(fd, F_GETFD) < 0 ? 0 : 1);
    }
    CU_ASSERT_TRUE(ended_well(pid));
    td_disconnect(c);
    td_clear_error();
    CU_ASSERT_EQUAL(test_descriptors(getpid()), before);
    test_daemon_stop(&mortal);
}

TD_CUNIT_MAIN_WITH("client_loop", start_server, stop_server, {"values", values}, {"errors", errors},
                   {"names and tables", names_and_tables}, {"queues", queues}, {"calls", calls},
                   {"calls given up", calls_given_up}, {"calls that fail", calls_that_fail},
                   {"calls without an end", calls_without_an_end}, {"calls that write", calls_that_write},
                   {"calls and forks", calls_and_forks}, {"deadlines", deadlines}, {"cancelled gets", cancelled_gets},
                   {"cancel races completion", cancel_races_completion}, {"cancelled puts", cancelled_puts},
                   {"callbacks call", callbacks_call}, {"a callback disconnects", a_callback_disconnects},
                   {"beside a thread that waits", beside_a_thread_that_waits}, {"loops in threads", loops_in_threads},
                   {"many at once", many_at_once}, {"very many", very_many}, {"forked", forked},
                   {"a daemon that dies", a_daemon_that_dies})
