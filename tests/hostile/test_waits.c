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

static void back_to_normal(void)
{
    counted_again(10000);
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
            Td__Wire__Reply *x = raw_reply(&r[i], 2000);
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

TD_CUNIT_MAIN_WITH("waits", start, stop, {"a deadline after another", a_deadline_after_another},
                   {"a handle that is replaced", a_handle_that_is_replaced})
