/* Large frames from many at once: small ones that become much. What helpers make of them is bounded, who comes later
 * waits, others are answered meanwhile, and nothing is left of who does not wait. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <signal.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__) /* races need no more */
enum { MANY = 12 };
#else
enum { MANY = 40 };
#endif
enum { SITES = 300000, SITE_BYTES = 4, MOST_KB = 400 << 10 };

static uint8_t frame[SITES * SITE_BYTES];

/* A batch of call sites without a text: 1.2 MB, of which some 30 MB become. */
static int start(void)
{
    static const uint8_t site[SITE_BYTES] = {3 << 3 | 2, 2, 1 << 3, 1};
    for (int i = 0; i < SITES; i++) memcpy(frame + (size_t)i * SITE_BYTES, site, SITE_BYTES);
    return counted_start("64M", "1");
}

static void send_from(raw *r, int n)
{
    for (int i = 0; i < n; i++) CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
    for (int i = 0; i < n; i++) CU_ASSERT_TRUE(raw_frame(&r[i], TD_FRAME_BATCH, frame, sizeof frame));
}

/* What is freed stays with a sanitizer for a while. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { GIVES_BACK = 0 };
#else
enum { GIVES_BACK = 1 };
#endif

/* Does the daemon come down to that, though somebody is at work all the time? */
static bool returns(raw *busy, long kb)
{
    uint32_t code;
    uint64_t until = test_now_ms() + TEST_LONG_MS;
    while (resident_kb("VmRSS") > kb && test_now_ms() < until && raw_sync(busy, &code)) test_sleep_ms(50);
    return resident_kb("VmRSS") <= kb;
}

/* Each is answered, and so is somebody who sends little, whom none of them holds up for long. */
static void wait_for_their_turn(void)
{
    raw r[MANY], other;
    uint32_t code = 1;
    long before = resident_kb("VmRSS");
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    send_from(r, MANY);
    uint64_t from = test_now_ms();
    CU_ASSERT_TRUE(raw_sync(&other, &code));
    uint64_t took = test_now_ms() - from;
    for (int i = 0; i < MANY; i++) {
        CU_ASSERT_TRUE_FATAL(raw_sync(&r[i], &code));
        CU_ASSERT_EQUAL(code, TD_OK);
    }
    long most = resident_kb("VmHWM") - before;
    printf("\n    a sync beside took %d ms, all %d ms; %ld MB at most", (int)took, (int)(test_now_ms() - from),
           most >> 10);
    if (GIVES_BACK) {
        CU_ASSERT_TRUE(most < MOST_KB);
        CU_ASSERT_TRUE(returns(&other, before + most / 4));
    }
    for (int i = 0; i < MANY; i++) raw_close(&r[i]);
    raw_close(&other);
    back_to_normal();
}

/* Gone while they wait, in the hands of a helper, or half worked off. */
static void gone_meanwhile(void)
{
    for (int round = 0; round < 3; round++) {
        raw r[MANY];
        uint32_t code = 1;
        send_from(r, MANY);
        for (int i = 0; i < MANY; i += 2) raw_close(&r[i]);
        CU_ASSERT_TRUE(raw_sync(&r[MANY - 1], &code));
        CU_ASSERT_EQUAL(code, TD_OK);
        for (int i = 1; i < MANY; i += 2) raw_close(&r[i]);
        back_to_normal();
    }
}

/* A large frame at whose end an op waits for the write lease of another. */
static void send_with_op(raw *r)
{
    enum { OP = 64 };
    static uint8_t with_op[sizeof frame + OP];
    td_words w = {0};
    op2(&w, TD_OP_ADD, 1, 1, 2);
    uint8_t *end = with_op + sizeof frame, n = (uint8_t)(4 * w.count);
    memcpy(with_op, frame, sizeof frame);
    *end++ = 1 << 3 | 2, *end++ = n;
    memcpy(end, w.at, n);
    CU_ASSERT_TRUE(raw_frame(r, TD_FRAME_BATCH, with_op, sizeof frame + 2 + n));
    td_words_deinit(&w);
}

/* Those that keep what was unpacked while they wait for another hold up nobody. */
static void wait_for_others(void)
{
    enum { WAITING = 8 };
    raw r[WAITING], writer, other;
    uint32_t code = 1;
    CU_ASSERT_TRUE_FATAL(raw_open(&writer, d.socket) && raw_zeros(&writer, 1, 4));
    CU_ASSERT_EQUAL(queue_open(&writer, "frames", 1, WAITING), TD_OK);
    for (int i = 0; i < WAITING; i++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
        CU_ASSERT_EQUAL(queue_open(&r[i], "frames", 1, WAITING), TD_OK);
        CU_ASSERT_EQUAL(queue_put(&writer, 1, 1, (uint32_t[]){1}), TD_OK);
        CU_ASSERT_EQUAL_FATAL(queue_get(&r[i], 1, 1, (uint32_t[]){1}), TD_OK);
    }
    CU_ASSERT_EQUAL_FATAL(write_begin(&writer, 1), TD_OK);
    for (int i = 0; i < WAITING; i++) send_with_op(&r[i]);
    send_from(&other, 1);
    CU_ASSERT_TRUE(raw_sync(&other, &code));
    CU_ASSERT_EQUAL(code, TD_OK);
    td_words w = {0};
    control(&w, TD_REC_WRITE_END, 0, 1, (uint32_t[]){1}, 0, NULL, 0, NULL);
    CU_ASSERT_EQUAL(code_of(&writer, &w), TD_OK);
    for (int i = 0; i < WAITING; i++) {
        CU_ASSERT_TRUE(raw_sync(&r[i], &code));
        CU_ASSERT_EQUAL(code, TD_OK);
        raw_close(&r[i]);
    }
    raw_close(&other);
    raw_close(&writer);
    back_to_normal();
}

static const td_test tests[] = {{"wait for their turn", wait_for_their_turn},
                                {"gone meanwhile", gone_meanwhile},
                                {"wait for others", wait_for_others}};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("frames", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
