/* Two clients that share a graph and ask at random: hooks, functions, nodes by number, what nodes saved, packed or not,
 * backwards that stop at a hook, answers to these and to others, writes in between, and an end in the middle. Most of
 * it is refused; nothing of it may stop the daemon, and in the end nothing may be left. The seed is TENSORD_SEED's,
 * or 1. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { IDS = 24, NODES = 12, HOOKS = 16, ROUNDS = 60, STEPS = 60, RETAIN = 1, ACCUMULATE = 8 };

static const uint64_t FIRST = UINT64_C(1) << 40; /* of the serials of backwards */
static uint64_t state;
static uint32_t worked; /* steps that were not refused */

static int start(void)
{
    const char *said = getenv("TENSORD_SEED");
    state = said ? strtoull(said, NULL, 10) : 1;
    return counted_start("64M", "2");
}

static uint32_t rnd(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static uint32_t id(void)
{
    return rnd(40) ? 1 + rnd(IDS) : rnd(2) * TD_MAX_ID;
}

/* Of what is made: 0 would be the end. */
static uint32_t to(void)
{
    return rnd(40) ? 1 + rnd(IDS) : TD_MAX_ID;
}

static uint32_t hook(void)
{
    return rnd(30) ? 1 + rnd(HOOKS) : rnd(2) * UINT32_MAX;
}

static void put_op(td_words *w)
{
    static const unsigned ops[] = {TD_OP_MUL, TD_OP_ADD, TD_OP_SUB, TD_OP_DIV};
    size_t at = w->count;
    bool out = !rnd(5);
    uint32_t made = to();
    op_with(w, ops[rnd(4)], out ? TD_RF_OUT : 0, NULL, 2, (uint32_t[]){id(), id()}, 1, &made);
    if (rnd(2)) w->at[at] |= (uint32_t)TD_RF_SAVES << 24;
}

static void put_hook(td_words *w)
{
    uint32_t on = id(), rest[3] = {hook(), rnd(8), 1 + rnd(NODES)};
    control(w, TD_REC_HOOK, 0, rnd(2) ? 1 : 0, &on, 0, NULL, 3, rest);
}

static void put_ends(td_words *w)
{
    uint32_t rest[3] = {hook(), hook(), hook()};
    control(w, rnd(2) ? TD_REC_HOOK_END : TD_REC_NODE_END, 0, 0, NULL, 0, NULL, 3, rest);
}

static void put_function(td_words *w)
{
    uint32_t nin = rnd(3), nout = 1 + rnd(2), nsaved = rnd(3), rest[8] = {hook(), nin, nout, nsaved}, all[8];
    if (rnd(2)) rest[3] |= TD_SAVES_BIT;
    for (uint32_t k = 0; k < nout; k++) rest[4 + k] = rnd(4);
    rest[4 + nout] = 4, rest[5 + nout] = 0x6f6f6f66;
    for (uint32_t k = 0; k < nin + nout + nsaved; k++) all[k] = id();
    control(w, TD_REC_FUNCTION, 0, (int)(nin + nout + nsaved), all, 0, NULL, (int)(6 + nout), rest);
}

static void put_backward(td_words *w, uint64_t serial)
{
    uint32_t rest[5] = {ACCUMULATE | rnd(2) * RETAIN, 1, 0}, at[] = {100 + rnd(60), 100 + rnd(60)};
    td_words_put_u64(rest + 3, serial);
    control(w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){id(), 0}, rnd(3) ? 2 : 0, at, rnd(8) ? 5 : 3, rest);
}

static void put_go(td_words *w, uint64_t last)
{
    uint32_t rest[5], given[] = {rnd(2) ? id() : 100 + rnd(60), id()}, at[] = {100 + rnd(60)};
    td_words_put_u64(rest, FIRST + 1 + rnd((uint32_t)(last - FIRST) + 1));
    td_words_put_u64(rest + 2, last);
    rest[4] = rnd(6);
    control(w, TD_REC_BACKWARD_GO, 0, (int)rnd(3), given, (int)rnd(2), at, 5, rest);
}

static void put_record(td_words *w, uint64_t *serial)
{
    switch (rnd(12)) {
    case 0: full(w, to(), 4, 0); break;
    case 1: requires_grad(w, id(), 1); break;
    case 2: release(w, rnd(2) ? id() : 100 + rnd(60)); break;
    case 3: put_hook(w); break;
    case 4: put_ends(w); break;
    case 5: put_function(w); break;
    case 6: put_backward(w, ++*serial); break;
    case 7:
    case 8: put_go(w, ++*serial); break;
    default: put_op(w);
    }
}

/* A call; its own reply, or none. */
static uint32_t put_call(raw *r)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Saved s = TD__WIRE__SAVED__INIT;
    Td__Wire__Node n = TD__WIRE__NODE__INIT;
    s.id = rnd(2) ? 0 : id(), s.of = rnd(2) * (1 + rnd(NODES)), s.slot = rnd(20) ? rnd(4) : UINT32_MAX;
    s.pack = rnd(3) ? hook() : 0;
    n.id = rnd(2) ? id() : 0, n.of = 1 + rnd(NODES), n.number = 1 + rnd(NODES), n.room = rnd(20);
    if (rnd(3)) c.saved = &s;
    else c.node = &n;
    return ask(r, &c);
}

/* Both have it, and what it hangs on. */
static void share(raw *from, raw *to)
{
    uint32_t one = id();
    if (queue_put(from, 1, 1, &one) == TD_OK) queue_get(to, 1, 1, (uint32_t[]){id()});
}

static void step(raw *r, raw *other, uint64_t *serial)
{
    td_words w = {0};
    uint32_t what = rnd(10);
    if (what == 0) {
        share(r, other);
    } else if (what < 4) {
        worked += put_call(r) == TD_OK;
    } else {
        for (uint32_t n = rnd(4) ? 1 : 20; n > 0; n--) put_record(&w, serial);
        worked += code_of(r, &w) == TD_OK;
    }
}

/* Two leaves, and what was made of them. */
static void begin(raw *r)
{
    td_words w = {0};
    CU_ASSERT_TRUE_FATAL(raw_open(r, d.socket));
    for (uint32_t k = 1; k < 5; k++) full(&w, k, 4, 0);
    requires_grad(&w, 1, 1), requires_grad(&w, 2, 1);
    for (uint32_t k = 5; k < 12; k++) op2(&w, TD_OP_MUL, k - 4, k - 3, k);
    CU_ASSERT_EQUAL_FATAL(code_of(r, &w), TD_OK);
    CU_ASSERT_EQUAL_FATAL(queue_open(r, "asked", 1, 64), TD_OK);
}

static void at_random(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        raw r[2];
        uint64_t serial[2] = {FIRST, FIRST}, seed = state;
        begin(&r[0]), begin(&r[1]);
        for (int k = 0; k < STEPS; k++) {
            uint32_t who = rnd(2);
            step(&r[who], &r[!who], &serial[who]);
            if (r[who].gone[0]) printf("\n  gone: %s", r[who].gone), k = STEPS;
            if (test_daemon_alive(&d)) continue;
            printf("\n    TENSORD_SEED=%llu ends it\n", (unsigned long long)seed);
            CU_FAIL_FATAL("the daemon has ended");
        }
        td_words w = {0};
        for (uint32_t n = rnd(50); n > 0; n--) put_record(&w, &serial[0]); /* nobody waits for it */
        CU_ASSERT_TRUE(send_all(&r[0], &w));
        raw_close(&r[rnd(2)]);
        raw_close(r[0].fd < 0 ? &r[1] : &r[0]);
        back_to_normal();
    }
    printf("\n    %u steps were not refused", worked);
    CU_ASSERT_TRUE(worked > ROUNDS * STEPS / 10);
}

TD_CUNIT_MAIN_WITH("asked", start, stop, {"at random", at_random})
