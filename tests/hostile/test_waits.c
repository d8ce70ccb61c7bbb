/* Waiting: for deadlines that follow each other, and for the time of handles that have become names.
 *
 * As in test_hostile.c, after each test the daemon must hold exactly what it held before. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

static int start(void)
{
    return counted_start("64M", "1");
}

static void open_without_waiting(raw *r, const char *name, uint32_t timeout_ms)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Open o = TD__WIRE__OPEN__INIT;
    o.name = (char *)name, o.id = 1, o.timeout_ms = timeout_ms;
    c.open = &o;
    raw_call(r, &c);
}

/* Two deadlines, the second as long after the first as that was from the beginning, in a daemon with nothing else to
 * do: both are told. */
static void a_deadline_after_another(void)
{
    enum { FIRST = 40 };
    raw r[2];
    for (int i = 0; i < 2; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
    for (uint32_t k = 0; k < 24; k++) {
        open_without_waiting(&r[0], "never-1", FIRST);
        open_without_waiting(&r[1], "never-2", 2 * FIRST + k / 4);
        for (int i = 0; i < 2; i++) {
            Td__Wire__Reply *x = raw_reply(&r[i], TEST_LONG_MS);
            CU_ASSERT_PTR_NOT_NULL_FATAL(x);
            CU_ASSERT_TRUE(x->error && x->error->code == TD_E_TIMEOUT);
        }
    }
    for (int i = 0; i < 2; i++) raw_close(&r[i]);
    back_to_normal();
}

static uint32_t publish_for(raw *r, const char *name, uint32_t id, uint32_t lasts_ms, bool replace)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Publish p = TD__WIRE__PUBLISH__INIT;
    p.name = (char *)name, p.id = id, p.lasts_ms = lasts_ms, p.replace = replace;
    c.publish = &p;
    return ask(r, &c);
}

/* A name that replaces a handle is a name: it is not gone when somebody opened it, nor when the handle's time is over.
 */
static void a_handle_that_is_replaced(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 4);
    for (uint32_t round = 0; round < 2; round++) {
        CU_ASSERT_EQUAL(publish_for(&r, "h", 1, 50, false), TD_OK);
        CU_ASSERT_EQUAL(publish_for(&r, "h", 1, 0, true), TD_OK);
        if (round) test_sleep_ms(100);
        CU_ASSERT_EQUAL(open_name(&r, "h", 2 + 2 * round), TD_OK);
        CU_ASSERT_EQUAL(open_name(&r, "h", 3 + 2 * round), TD_OK);
        CU_ASSERT_EQUAL(drop_name(&r, "h"), TD_OK);
    }
    raw_close(&r);
    back_to_normal();
}

static uint64_t put_later(raw *r, uint32_t queue, uint32_t id)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueuePut q = TD__WIRE__QUEUE_PUT__INIT;
    q.queue = queue, q.n_ids = 1, q.ids = &id, q.timeout_ms = UINT32_MAX, q.later = true;
    c.queue_put = &q;
    return raw_call(r, &c);
}

static uint64_t get_later(raw *r, uint32_t queue, uint32_t id)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueueGet q = TD__WIRE__QUEUE_GET__INIT;
    q.queue = queue, q.n_ids = 1, q.ids = &id, q.timeout_ms = UINT32_MAX;
    c.queue_get = &q;
    return raw_call(r, &c);
}

static uint64_t close_later(raw *r, uint32_t queue)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueueClose q = TD__WIRE__QUEUE_CLOSE__INIT;
    q.queue = queue;
    c.queue_close = &q;
    return raw_call(r, &c);
}

static void answered(raw *r, uint64_t serial, uint32_t code)
{
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_EQUAL(x->serial, serial);
    CU_ASSERT_EQUAL(x->error ? x->error->code : TD_OK, code);
}

/* Requests that wait for others are answered when that has come, in the order in which it came; what was asked after
 * them is not held up. */
static void beside_the_stream(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 4);
    CU_ASSERT_EQUAL(queue_open(&r, "beside", 1, 1), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "beside", 2, 1), TD_OK);
    uint64_t first = put_later(&r, 1, 1), second = put_later(&r, 1, 1), third = put_later(&r, 1, 1);
    uint64_t close = close_later(&r, 1); /* once they are in */
    uint64_t late = put_later(&r, 1, 1);
    answered(&r, first, TD_OK);
    answered(&r, late, TD_E_CLOSED);
    uint64_t get = get_later(&r, 2, 10); /* makes room for the second */
    answered(&r, get, TD_OK);
    answered(&r, second, TD_OK);
    get = get_later(&r, 2, 11);
    answered(&r, get, TD_OK);
    answered(&r, third, TD_OK);
    answered(&r, close, TD_OK);
    get = get_later(&r, 2, 12);
    answered(&r, get, TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "beside", 1, 1), TD_OK);          /* or the queue has no producer but the getter */
    uint64_t one = get_later(&r, 2, 13), two = get_later(&r, 2, 13); /* the same id: only one can have it */
    first = put_later(&r, 1, 1), second = put_later(&r, 1, 1);
    answered(&r, first, TD_OK);
    answered(&r, one, TD_OK);
    answered(&r, second, TD_OK);
    answered(&r, two, TD_E_EXISTS);
    get = get_later(&r, 2, 14); /* and the item is still there */
    answered(&r, get, TD_OK);
    get = get_later(&r, 2, 15);
    close = close_later(&r, 2);
    answered(&r, get, TD_E_CLOSED);
    answered(&r, close, TD_OK);
    raw_close(&r);
    back_to_normal();
}

enum { MOST = 1024 };

/* A client that lets more requests wait than it may waits itself; they go with it. */
static void more_than_may_wait(void)
{
    raw r, other;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket) && raw_open(&other, d.socket));
    raw_zeros(&other, 1, 4);
    CU_ASSERT_EQUAL(queue_open(&r, "most", 1, 8), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&other, "most", 1, 8), TD_OK);
    for (uint32_t i = 0; i < MOST; i++) get_later(&r, 1, 2 + i);
    uint32_t code;
    CU_ASSERT_TRUE(raw_sync(&r, &code)); /* they hold up nobody */
    uint64_t more = get_later(&r, 1, 2 + MOST);
    open_without_waiting(&r, "most", 0); /* behind the one too many */
    CU_ASSERT_PTR_NULL(raw_reply(&r, 100));
    uint32_t id = 1;
    CU_ASSERT_EQUAL(queue_put(&other, 1, 1, &id), TD_OK);
    answered(&r, more - MOST - 1, TD_OK);
    answered(&r, more + 1, TD_E_NOT_FOUND); /* one has gone, and the stream goes on */
    more = put_later(&r, 1, 1);
    CU_ASSERT_PTR_NULL(raw_reply(&r, 100)); /* too many again */
    int64_t sessions = raw_status(&other, "sessions");
    raw_close(&r);
    while (raw_status(&other, "sessions") == sessions) test_sleep_ms(1);
    CU_ASSERT_EQUAL(queue_put(&other, 1, 1, &id), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&other, 1, 1, (uint32_t[]){10}), TD_OK); /* nobody else waits for it */
    raw_close(&other);
    back_to_normal();
}

TD_CUNIT_MAIN_WITH("waits", start, stop, {"a deadline after another", a_deadline_after_another},
                   {"a handle that is replaced", a_handle_that_is_replaced}, {"beside the stream", beside_the_stream},
                   {"more than may wait", more_than_may_wait})
