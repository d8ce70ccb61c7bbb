/* A daemon that is told to end in the middle of everything: with tasks queued, graphs that hold what they saved, a
 * backward under way, items in queues, names, leases and sessions that wait.
 *
 * Told once, it ends when its clients have gone; told twice, at once, whatever is queued. Its exit status must be 0: no
 * assertion, nothing that a sanitizer has to say, and no need to kill it. */
#include "tests/hostile/requests.h"
#include "tests/support/daemon.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 3 };

static test_daemon own;
static raw r[CLIENTS];

static void begin(void)
{
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&own, (const char *[]){"--memory", "512M", "--workers", "2", NULL}));
    for (int i = 0; i < CLIENTS; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], own.socket));
}

/* The daemon is sent SIGTERM, its clients stay or go, and it is sent another if they stay. */
static void end(bool twice)
{
    CU_ASSERT_TRUE(test_daemon_alive(&own));
    if (twice) {
        kill(own.pid, SIGTERM);
        CU_ASSERT_TRUE(test_daemon_told(&own));
        CU_ASSERT_TRUE(test_daemon_alive(&own));
    } else {
        for (int i = 0; i < CLIENTS; i++) raw_close(&r[i]);
    }
    CU_ASSERT_EQUAL(test_daemon_stop(&own), 0);
    for (int i = 0; i < CLIENTS && twice; i++) {
        CU_ASSERT_TRUE(raw_ended(&r[i], TEST_LONG_MS));
        raw_close(&r[i]);
    }
}

/* Readers of a slice of what is still being written, more than the books of a storage have places. */
static void queued(int writes)
{
    td_words w = {0};
    td_attrs a;
    uint32_t serial[2] = {9, 0};
    td_attrs_init(&a);
    td_attrs_int(&a, 0), td_attrs_int(&a, 0), td_attrs_int(&a, 16000), td_attrs_int(&a, 1);
    full(&w, 1, 4 << 20, 0);
    for (int i = 0; i < writes; i++) op_with(&w, TD_OP_EXP, TD_RF_OUT, NULL, 1, (uint32_t[]){1}, 1, (uint32_t[]){1});
    op_with(&w, TD_OP_SLICE, 0, &a, 1, (uint32_t[]){1}, 1, (uint32_t[]){2});
    for (int i = 0; i < 100; i++) control(&w, TD_REC_READ, 0, 1, (uint32_t[]){2}, 0, NULL, 2, serial);
    for (uint32_t i = 0; i < 30; i++) op2(&w, TD_OP_MUL, 1, 2 - i % 2, 10 + i); /* of which every other fails */
    for (int i = 0; i < 10; i++) control(&w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 2, serial);
    release(&w, 1);
    release(&w, 2);
    CU_ASSERT_TRUE(send_all(&r[0], &w));
    map_without_waiting(&r[0], 10);
}

static void tasks(bool twice)
{
    begin();
    queued(twice ? 3000 : 20); /* twice: more than a minute of work */
    test_sleep_ms(20);
    end(twice);
}

/* A graph of the length n in r[i]: id 3, made of 1 and 2. */
static void graph(int i, int n)
{
    td_words w = {0};
    raw_zeros(&r[i], 1, 100);
    raw_zeros(&r[i], 2, 100);
    chain(&w, n);
    CU_ASSERT_EQUAL(code_of(&r[i], &w), TD_OK);
}

static void graphs(bool twice)
{
    enum { N = 20000 }; /* more than is let go of in one turn */
    begin();
    graph(0, N);
    CU_ASSERT_EQUAL(publish(&r[0], "root", 3), TD_OK); /* outlives its session */
    graph(1, N);
    td_words w = {0};
    td_attrs none;
    td_attrs_init(&none);
    td_attrs_none(&none);
    op_with(&w, TD_OP_SUM, 0, NULL, 1, (uint32_t[]){3}, 1, (uint32_t[]){5});
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){5, 0}, 0, NULL, 3, (uint32_t[]){2 | 8, 1, 0});
    CU_ASSERT_TRUE(send_all(&r[1], &w));
    end(twice);
}

static void wait_for_name(raw *c, const char *name)
{
    Td__Wire__Call call;
    Td__Wire__Open o;
    td__wire__call__init(&call);
    td__wire__open__init(&o);
    o.name = (char *)name, o.id = 90, o.timeout_ms = UINT32_MAX;
    call.open = &o;
    raw_call(c, &call);
}

static void put_without_waiting(raw *c, uint32_t queue, uint32_t id)
{
    Td__Wire__Call call;
    Td__Wire__QueuePut q;
    td__wire__call__init(&call);
    td__wire__queue_put__init(&q);
    q.queue = queue, q.n_ids = 1, q.ids = &id, q.timeout_ms = UINT32_MAX;
    call.queue_put = &q;
    raw_call(c, &call);
}

static uint32_t lease(raw *c, uint64_t bytes)
{
    Td__Wire__Call call;
    Td__Wire__Lease l;
    td__wire__call__init(&call);
    td__wire__lease__init(&l);
    l.bytes = bytes;
    call.lease = &l;
    return ask(c, &call);
}

static void everything(bool twice)
{
    begin();
    queued(5);
    graph(1, 100);
    CU_ASSERT_EQUAL(queue_open(&r[1], "q", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r[2], "q", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&r[1], 1, 3, (uint32_t[]){3, 1, 3}), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&r[1], 1, 1, (uint32_t[]){2}), TD_OK);
    CU_ASSERT_EQUAL(publish(&r[1], "leaf", 1), TD_OK);
    td_words w = {0};
    full(&w, 7, 3 << 20, TD_RM_SERVICE); /* large enough to be given back by a helper thread */
    CU_ASSERT_EQUAL(code_of(&r[1], &w), TD_OK);
    CU_ASSERT_EQUAL(publish(&r[1], "large", 7), TD_OK);
    CU_ASSERT_EQUAL(lease(&r[1], 1 << 20), TD_OK);
    CU_ASSERT_EQUAL(lease(&r[2], 1000), TD_OK);
    CU_ASSERT_EQUAL(write_begin(&r[1], 2), TD_OK);
    w = (td_words){0};
    op2(&w, TD_OP_ADD, 2, 2, 50); /* its own lease is open: refused */
    CU_ASSERT_EQUAL(code_of(&r[1], &w), TD_E_BUSY);
    wait_for_name(&r[2], "never");
    put_without_waiting(&r[1], 1, 1); /* the queue is full */
    test_sleep_ms(20);
    end(twice);
}

/* Who is impatient goes on telling it: it ends with 0 all the same. */
static void again_and_again(void)
{
    for (int i = 0; i < 12; i++) {
        CU_ASSERT_TRUE_FATAL(test_daemon_start(&own, (const char *[]){"--memory", "64M", "--workers", "2", NULL}));
        for (int n = 0; n < 20000 && test_daemon_alive(&own); n++) {
            kill(own.pid, SIGTERM);
            usleep(100);
        }
        CU_ASSERT_EQUAL(test_daemon_stop(&own), 0);
    }
}

static void tasks_once(void)
{
    tasks(false);
}
static void tasks_twice(void)
{
    tasks(true);
}
static void graphs_once(void)
{
    graphs(false);
}
static void graphs_twice(void)
{
    graphs(true);
}
static void everything_once(void)
{
    everything(false);
}
static void everything_twice(void)
{
    everything(true);
}

static const td_test tests[] = {
    {"tasks are queued, the clients go", tasks_once},
    {"tasks are queued, told twice", tasks_twice},
    {"graphs and a backward, the clients go", graphs_once},
    {"graphs and a backward, told twice", graphs_twice},
    {"a bit of everything, the clients go", everything_once},
    {"a bit of everything, told twice", everything_twice},
    {"told again and again", again_and_again},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("ending", NULL, NULL, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
