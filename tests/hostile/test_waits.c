/* Waiting: for deadlines that follow each other, and for the time of handles that have become names.
 *
 * As in test_hostile.c, after each test the daemon must hold exactly what it held before. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

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

static uint64_t cancel_later(raw *r, uint64_t waiting)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Cancel q = TD__WIRE__CANCEL__INIT;
    q.waiting = waiting;
    c.cancel = &q;
    return raw_call(r, &c);
}

/* The call works whatever became of the one that waited; that one is answered, or was before. */
static void cancelled(raw *r, uint64_t waiting, bool in_time)
{
    uint64_t serial = cancel_later(r, waiting);
    answered(r, serial, TD_OK);
    if (in_time) answered(r, waiting, TD_E_CANCELLED);
    else CU_ASSERT_PTR_NULL(raw_reply(r, 20));
}

/* A request that is given up takes nothing from its queue, puts nothing into it, and makes room for others. */
static void given_up(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 4);
    CU_ASSERT_EQUAL(queue_open(&r, "given-up", 1, 1), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "given-up", 2, 1), TD_OK);
    uint64_t one = get_later(&r, 2, 10), two = get_later(&r, 2, 11);
    cancelled(&r, one, true);
    cancelled(&r, one, false);
    cancelled(&r, 0, false);
    cancelled(&r, UINT64_MAX, false);
    uint64_t first = put_later(&r, 1, 1); /* for who still waits */
    answered(&r, first, TD_OK);
    answered(&r, two, TD_OK);
    uint32_t id = 1;
    CU_ASSERT_EQUAL(queue_put(&r, 1, 1, &id), TD_OK);
    uint64_t second = put_later(&r, 1, 1), third = put_later(&r, 1, 1), close = close_later(&r, 1);
    cancelled(&r, second, true);
    uint64_t get = get_later(&r, 2, 12);
    answered(&r, get, TD_OK);
    answered(&r, third, TD_OK);
    answered(&r, close, TD_OK);
    cancelled(&r, third, false);
    get = get_later(&r, 2, 13);
    answered(&r, get, TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "given-up", 1, 1), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&r, 1, 1, &id), TD_OK);
    second = put_later(&r, 1, 1), close = close_later(&r, 1); /* the close waits for nothing but that */
    uint64_t cancel = cancel_later(&r, second);
    answered(&r, cancel, TD_OK);
    answered(&r, second, TD_E_CANCELLED);
    answered(&r, close, TD_OK);
    td_words w = {0};
    release(&w, 1);
    send_all(&r, &w);
    open_without_waiting(&r, "never", UINT32_MAX);
    cancelled(&r, cancel + 1, true);
    raw_close(&r);
    back_to_normal();
}

static uint32_t give_back(raw *r, const char *name, uint32_t n, uint32_t id, uint64_t place)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueueReturn q = TD__WIRE__QUEUE_RETURN__INIT;
    uint32_t *ids = calloc(n + 1, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = id;
    q.name = (char *)name, q.n_ids = n, q.ids = ids, q.place = place;
    c.queue_return = &q;
    uint32_t code = ask(r, &c);
    free(ids);
    return code;
}

/* The place of the next item, or UINT64_MAX. */
static uint64_t next_place(raw *r, uint32_t queue, uint32_t id)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueueGet q = TD__WIRE__QUEUE_GET__INIT;
    q.queue = queue, q.n_ids = 1, q.ids = &id;
    c.queue_get = &q;
    Td__Wire__Reply *x = raw_ask(r, &c);
    return x && x->item ? x->item->place : UINT64_MAX;
}

/* What is returned lies where it lay, in whatever order it comes, also in a queue that is full, or that has ended; by
 * who got it, and once. */
static void given_back(void)
{
    raw r, other;
    uint64_t place[4], again;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    raw_zeros(&r, 1, 4);
    raw_zeros(&other, 1, 4);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 1, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(queue_open(&r, "back", 1, 4), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "back", 2, 4), TD_OK);
    uint32_t id = 1;
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(queue_put(&r, 1, 1, &id), TD_OK);
    for (uint32_t i = 0; i < 3; i++) CU_ASSERT_EQUAL((uint32_t)(place[i] = next_place(&r, 2, 10 + i)), i);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(queue_put(&r, 1, 1, &id), TD_OK);
    for (uint64_t i = 0; i < 4; i++) CU_ASSERT_EQUAL(give_back(&r, "back", 1, 1, i), TD_E_INVALID); /* made up */
    CU_ASSERT_EQUAL(give_back(&other, "back", 1, 1, place[0]), TD_E_INVALID); /* it was told to another */
    CU_ASSERT_EQUAL(give_back(&r, "bock", 1, 1, place[0]), TD_E_INVALID);
    CU_ASSERT_EQUAL(give_back(&r, "", 1, 1, place[0]), TD_E_INVALID);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 99, place[0]), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(give_back(&r, "back", TD_MAX_ITEM + 1, 1, place[0]), TD_E_INVALID);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 10, place[0]), TD_OK); /* there is no room any more */
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 12, place[2]), TD_OK);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 12, place[2]), TD_E_INVALID);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 11, place[1]), TD_OK);
    for (uint32_t i = 0; i < 7; i++) CU_ASSERT_EQUAL((uint32_t)(again = next_place(&r, 2, 20 + i)), i);
    uint64_t get = get_later(&r, 2, 28); /* who waits has it at once */
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueueReturn q = TD__WIRE__QUEUE_RETURN__INIT;
    q.name = "back", q.n_ids = 1, q.ids = &id, q.place = again;
    c.queue_return = &q;
    uint64_t back = raw_call(&r, &c);
    answered(&r, back, TD_OK);
    answered(&r, get, TD_OK);
    Td__Wire__QueueClose close = TD__WIRE__QUEUE_CLOSE__INIT;
    close.queue = 1, close.end = true;
    c = (Td__Wire__Call)TD__WIRE__CALL__INIT;
    c.queue_close = &close;
    CU_ASSERT_EQUAL(ask(&r, &c), TD_OK);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 28, again), TD_OK);
    CU_ASSERT_EQUAL(next_place(&r, 2, 29), again);
    close.queue = 2;
    CU_ASSERT_EQUAL(ask(&r, &c), TD_OK);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 29, again), TD_E_NOT_FOUND); /* with all that lay in it */
    CU_ASSERT_EQUAL(queue_open(&r, "back", 1, 4), TD_OK);
    CU_ASSERT_EQUAL(give_back(&r, "back", 1, 29, again),
                    TD_E_INVALID); /* another of that name: nothing was put there */
    raw_close(&r);
    raw_close(&other);
    back_to_normal();
}

/* out = 1024 rows of a product that takes its time; the index is wrong, which only the kernel sees. `n` rows of it. */
static void fails_late(td_words *w, uint32_t out, int64_t n)
{
    enum { SIDE = 1024 };
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 2, (int64_t[]){SIDE, SIDE});
    td_attrs_scalar(&a, td_float(0));
    td_attrs_dtype(&a, TD_FLOAT32);
    op_with(w, TD_OP_FULL, 0, &a, 0, NULL, 1, (uint32_t[]){1});
    op2(w, TD_OP_MM, 1, 1, 2);
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n);
    td_attrs_scalar(&a, td_int(SIDE));
    td_attrs_dtype(&a, TD_INT64);
    op_with(w, TD_OP_FULL, 0, &a, 0, NULL, 1, (uint32_t[]){3});
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    op_with(w, TD_OP_INDEX_SELECT, 0, &a, 2, (uint32_t[]){2, 3}, 1, &out);
}

/* Who reads what is still computed, by its bytes or by where it lies, is told why there is nothing to be read. */
static void a_value_that_never_comes(void)
{
    for (uint32_t k = 0; k < 4; k++) {
        raw r;
        td_words w = {0};
        uint32_t serial[2] = {1000, 0};
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        fails_late(&w, 4, k % 2 ? 1 : 1024);
        if (k < 2) control(&w, TD_REC_READ, 0, 1, (uint32_t[]){4}, 0, NULL, 2, serial);
        CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
        if (k >= 2) map_without_waiting(&r, 4);
        Td__Wire__Reply *x = raw_reply(&r, TEST_LONG_MS);
        CU_ASSERT_PTR_NOT_NULL_FATAL(x);
        CU_ASSERT_EQUAL(x->serial, k < 2 ? serial[0] : r.serial);
        CU_ASSERT_TRUE(x->error && x->error->code == TD_E_INDEX && strstr(x->error->message, "1024 is out of bounds"));
        raw_close(&r);
        back_to_normal();
    }
}

TD_CUNIT_MAIN_WITH("waits", start, stop, {"a deadline after another", a_deadline_after_another},
                   {"a handle that is replaced", a_handle_that_is_replaced}, {"beside the stream", beside_the_stream},
                   {"more than may wait", more_than_may_wait}, {"given up", given_up}, {"given back", given_back},
                   {"a value that never comes", a_value_that_never_comes})
