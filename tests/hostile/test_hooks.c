/* Hooks: clients that never answer one, answer twice or with what is no answer, name hooks and nodes that are not
 * there, end while theirs is to be run, or hang them where others call backward.
 *
 * As in test_hostile.c, after each test the daemon must hold exactly what it held before. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { TENSOR = 1, LEAF = 2, BEFORE = 3, AFTER = 4, FUNCTION = 5, ACCUMULATE = 8, RETAIN = 1 };
enum { FIRST = 1000 /* of the serials */ };

static int start(void)
{
    return counted_start("64M", "1");
}

/* 1: a leaf, 3: its square, 5: a sum; hook `number` of this kind on the tensor `on`. */
static void build(td_words *w)
{
    td_attrs a;
    full(w, 1, 4, 0);
    requires_grad(w, 1, 1);
    op2(w, TD_OP_MUL, 1, 1, 3);
    td_attrs_init(&a);
    td_attrs_none(&a);
    td_attrs_bool(&a, false);
    td_attrs_none(&a);
    op_with(w, TD_OP_SUM, 0, &a, 1, (uint32_t[]){3}, 1, (uint32_t[]){5});
}

static void hook(td_words *w, uint32_t on, uint32_t number, uint32_t kind)
{
    control(w, TD_REC_HOOK, 0, on != 0, &on, 0, NULL, 3, (uint32_t[]){number, kind, 0});
}

static void backward(td_words *w, uint32_t root, uint64_t serial, int npool, const uint32_t *pool)
{
    uint32_t rest[5] = {ACCUMULATE | RETAIN, 1, 0};
    td_words_put_u64(rest + 3, serial);
    control(w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){root, 0}, npool, pool, serial ? 5 : 3, rest);
}

static void go(td_words *w, uint64_t name, uint64_t serial, uint32_t how, int n, const uint32_t *given, int npool,
               const uint32_t *pool)
{
    uint32_t rest[5];
    td_words_put_u64(rest, name);
    td_words_put_u64(rest + 2, serial);
    rest[4] = how;
    control(w, TD_REC_BACKWARD_GO, 0, n, given, npool, pool, 5, rest);
}

static const uint32_t pool[] = {100, 101, 102, 103};

/* What comes for a serial: the code, and whether a hook is asked (its number; 0: none). */
static uint32_t answered(raw *r, uint64_t serial, uint32_t *asked)
{
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_EQUAL(x->serial, serial);
    *asked = x->asked ? x->asked->hook : 0;
    return x->error ? x->error->code : TD_OK;
}

static void opened(raw *r)
{
    CU_ASSERT_TRUE_FATAL(raw_open(r, d.socket));
}

/* A backward that is stopped at hook 7 of y, with the first of the pool bound. */
static void stopped(raw *r, uint64_t serial)
{
    td_words w = {0};
    uint32_t asked;
    build(&w);
    hook(&w, 3, 7, TENSOR);
    backward(&w, 5, serial, 4, pool);
    CU_ASSERT_TRUE_FATAL(send_all(r, &w));
    CU_ASSERT_EQUAL(answered(r, serial, &asked), TD_OK);
    CU_ASSERT_EQUAL(asked, 7);
}

static uint32_t said(raw *r, td_words *w, uint64_t serial)
{
    uint32_t asked;
    CU_ASSERT_TRUE_FATAL(send_all(r, w));
    uint32_t code = answered(r, serial, &asked);
    CU_ASSERT_EQUAL(asked, 0);
    return code;
}

static void never_answers(void)
{
    raw r, other;
    opened(&r), opened(&other);
    stopped(&r, FIRST);
    td_words w = {0};
    build(&w); /* others go on, and this one's stream, too */
    backward(&w, 5, 0, 0, NULL);
    CU_ASSERT_EQUAL(code_of(&other, &w), TD_OK);
    op2(&w, TD_OP_ADD, 1, 1, 20);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    raw_close(&r); /* and is gone with all of it */
    raw_close(&other);
    back_to_normal();
}

static void answers_twice(void)
{
    raw r;
    opened(&r);
    stopped(&r, FIRST);
    td_words w = {0};
    go(&w, FIRST, FIRST + 1, TD_GO_SAME, 0, NULL, 0, NULL);
    CU_ASSERT_EQUAL(said(&r, &w, FIRST + 1), TD_OK);
    go(&w, FIRST, FIRST + 2, TD_GO_SAME, 0, NULL, 0, NULL);
    CU_ASSERT_EQUAL(said(&r, &w, FIRST + 2), TD_E_NOT_FOUND);
    go(&w, FIRST, 0, TD_GO_NOT, 0, NULL, 0, NULL); /* nothing happens */
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    raw_close(&r);
    back_to_normal();
}

/* Each is the end of its backward, by an error. */
static void answers_that_are_none(void)
{
    static const struct {
        uint32_t how, n, given[2];
        uint32_t code;
    } all[] = {{TD_GO_GIVEN, 1, {99}, TD_E_NOT_FOUND},
               {TD_GO_GIVEN, 2, {100, 100}, TD_E_INVALID},
               {TD_GO_GIVEN, 0, {0}, TD_E_INVALID},
               {TD_GO_GIVEN, 1, {50}, TD_E_SHAPE},
               {TD_GO_GIVEN, 1, {51}, TD_E_TYPE},
               {77, 0, {0}, TD_E_PROTOCOL},
               {TD_GO_GIVEN, 1, {TD_MAX_ID}, TD_E_NOT_FOUND}};
    raw r;
    opened(&r);
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        uint64_t name = FIRST + 10 * k;
        td_words w = {0};
        td_attrs a;
        stopped(&r, name);
        full(&w, 50, 3, 0);
        td_attrs_init(&a);
        td_attrs_ints(&a, 1, (int64_t[]){4});
        td_attrs_scalar(&a, td_float(0));
        td_attrs_dtype(&a, TD_FLOAT64);
        op_with(&w, TD_OP_FULL, 0, &a, 0, NULL, 1, (uint32_t[]){51});
        go(&w, name, name + 1, all[k].how, (int)all[k].n, all[k].given, 0, NULL);
        CU_ASSERT_EQUAL(said(&r, &w, name + 1), all[k].code);
        for (uint32_t id = 1; id < 110; id++) release(&w, id);
        CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    }
    raw_close(&r);
    back_to_normal();
}

/* Too few ids, ids that are taken, ids that are named twice. */
static void ids_that_do_not_fit(void)
{
    raw r;
    opened(&r);
    td_words w = {0};
    uint32_t asked;
    build(&w);
    hook(&w, 3, 7, TENSOR);
    backward(&w, 5, FIRST, 0, NULL);
    CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
    Td__Wire__Reply *x = raw_reply(&r, TEST_LONG_MS);
    CU_ASSERT_TRUE_FATAL(x && x->asked && x->asked->needs == 1);
    go(&w, FIRST, FIRST + 1, TD_GO_MORE, 0, NULL, 2, (uint32_t[]){100, 100});
    CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
    CU_ASSERT_EQUAL(answered(&r, FIRST + 1, &asked), TD_OK);
    CU_ASSERT_EQUAL(asked, 7);
    go(&w, FIRST, FIRST + 2, TD_GO_SAME, 0, NULL, 0, NULL);
    CU_ASSERT_EQUAL(said(&r, &w, FIRST + 2), TD_OK);
    backward(&w, 5, FIRST + 3, 1, (uint32_t[]){1}); /* which is taken */
    CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
    CU_ASSERT_EQUAL(answered(&r, FIRST + 3, &asked), TD_E_EXISTS);
    raw_close(&r);
    back_to_normal();
}

static void many_at_once(void)
{
    raw r;
    opened(&r);
    stopped(&r, FIRST);
    uint32_t asked = 0, code = TD_OK, n = 1;
    for (; code == TD_OK && n < 200; n++) {
        td_words w = {0};
        backward(&w, 5, FIRST + n, 1, (uint32_t[]){200 + n});
        CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
        code = answered(&r, FIRST + n, &asked);
    }
    CU_ASSERT_EQUAL(code, TD_E_INVALID);
    CU_ASSERT_EQUAL(n, 65);
    for (uint32_t k = 0; k < 64; k += 2) { /* in any order: some answered, some given up, some left */
        td_words w = {0};
        go(&w, FIRST + k, k % 4 ? 0 : FIRST + 500 + k, k % 4 ? TD_GO_NOT : TD_GO_SAME, 0, NULL, 0, NULL);
        CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
        if (k % 4 == 0) CU_ASSERT_EQUAL(answered(&r, FIRST + 500 + k, &asked), TD_OK);
    }
    raw_close(&r);
    back_to_normal();
}

/* Hooks and nodes that are not there; kinds that are none; the same number twice; functions that make no sense. */
static void nonsense(void)
{
    raw r;
    opened(&r);
    td_words w = {0};
    build(&w);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    for (uint32_t kind = 0; kind < 8; kind++) {
        hook(&w, 99, 7, kind);
        CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_NOT_FOUND);
        hook(&w, 0, 7, kind); /* node 0 */
        CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_NOT_FOUND);
        if (kind == TENSOR) continue;
        hook(&w, 3, 7, kind);
        CU_ASSERT_EQUAL(code_of(&r, &w), kind == LEAF ? TD_E_AUTOGRAD : TD_E_INVALID);
    }
    hook(&w, 3, 7, TENSOR);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    hook(&w, 1, 7, TENSOR);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_EXISTS);
    control(&w, TD_REC_HOOK_END, 0, 0, NULL, 0, NULL, 3, (uint32_t[]){7, 8, UINT32_MAX});
    control(&w, TD_REC_NODE_END, 0, 0, NULL, 0, NULL, 2, (uint32_t[]){0, 5});
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    static const uint32_t in[] = {1, 3, 3};
    static const struct {
        uint32_t n, rest[8], nrest, code;
    } all[] = {{3, {9, 1, 1, 1, 0, 4, 0x6f6f6f66}, 7, TD_E_AUTOGRAD}, /* an output that is in a graph already */
               {3, {10, 1, 1, 2, 0, 4, 0x6f6f6f66}, 7, TD_E_PROTOCOL},
               {3, {10, 1, UINT32_MAX, 1, 0, 4, 0x6f6f6f66}, 7, TD_E_PROTOCOL},
               {3, {10, 1, 1, 1, 0, 400, 0x6f6f6f66}, 7, TD_E_PROTOCOL},
               {3, {10, 1, 1, 1, 0, 0}, 6, TD_E_PROTOCOL},
               {3, {10, 1, 1, 1}, 4, TD_E_PROTOCOL},
               {3, {10, 0, 2, 1, 0, 0, 4, 0x6f6f6f66}, 8, TD_E_AUTOGRAD}, /* one tensor twice */
               {3, {10, 2, 1, 0, 2, 4, 0x6f6f6f66}, 7, TD_OK},            /* an input that was written */
               {2, {11, 2, 0, 0, 4, 0x6f6f6f66}, 6, TD_OK}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        control(&w, TD_REC_FUNCTION, 0, (int)all[k].n, k == 6 ? (uint32_t[]){3, 3, 1} : in, 0, NULL, (int)all[k].nrest,
                all[k].rest);
        CU_ASSERT_EQUAL(code_of(&r, &w), all[k].code);
    }
    raw_close(&r);
    back_to_normal();
}

/* The most tensors that a function may have, in and out and saved; and one more. */
static void wide_functions(void)
{
    enum { EACH = TD_MAX_INPUTS / 3, ALL = 3 * EACH, NAME = 4 };
    raw r;
    opened(&r);
    td_words w = {0};
    uint32_t ids[TD_MAX_INPUTS + 1], rest[4 + EACH + 2] = {9, EACH, EACH, EACH};
    rest[4 + EACH] = NAME, rest[5 + EACH] = 0x6f6f6f66;
    for (uint32_t k = 0; k < EACH; k++) {
        full(&w, ids[k] = 100 + k, 4, 0);
        requires_grad(&w, ids[k], 1);
        full(&w, ids[EACH + k] = 1100 + k, 4, 0);
        ids[2 * EACH + k] = k % 2 ? 100 + k : 1100 + k;
    }
    ids[2 * EACH - 1] = ids[EACH]; /* the first of the outputs, once more */
    control(&w, TD_REC_FUNCTION, 0, ALL, ids, 0, NULL, 6 + EACH, rest);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_AUTOGRAD);
    ids[2 * EACH - 1] = ids[EACH - 1]; /* an input that is not marked as written */
    control(&w, TD_REC_FUNCTION, 0, ALL, ids, 0, NULL, 6 + EACH, rest);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_AUTOGRAD);
    ids[2 * EACH - 1] = 1100 + EACH - 1;
    rest[1] = TD_MAX_INPUTS + 1 - 2 * EACH;
    for (uint32_t k = ALL; k <= TD_MAX_INPUTS; k++) ids[k] = 100;
    control(&w, TD_REC_FUNCTION, 0, TD_MAX_INPUTS + 1, ids, 0, NULL, 6 + EACH, rest);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_INVALID);
    rest[1] = EACH;
    control(&w, TD_REC_FUNCTION, 0, ALL, ids, 0, NULL, 6 + EACH, rest);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    raw_close(&r);
    back_to_normal();
}

/* A function says that it has written what it has not, and saves what was made of that: no circle comes of it, and who
 * saved it before is told. */
static void written_in_words_only(void)
{
    static const uint32_t in[] = {3, 3, 5}, rest[] = {9, 1, 1, 1, 2, 4, 0x6f6f6f66};
    raw r;
    opened(&r);
    td_words w = {0};
    full(&w, 1, 4, 0);
    requires_grad(&w, 1, 1);
    op2(&w, TD_OP_MUL, 1, 1, 3);
    op2(&w, TD_OP_MUL, 3, 3, 5);
    full(&w, 6, 4, 0);
    control(&w, TD_REC_FUNCTION, 0, 3, in, 0, NULL, 7, rest);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){5, 6}, 0, NULL, 3, (uint32_t[]){ACCUMULATE, 1, 0});
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_VERSION);
    raw_close(&r);
    back_to_normal();
}

/* One session's hook, another's backward: refused before anything is computed; whatever became of the first. */
static void two_sessions(void)
{
    raw a, b;
    opened(&a), opened(&b);
    td_words w = {0};
    build(&w);
    hook(&w, 3, 7, TENSOR);
    CU_ASSERT_EQUAL(code_of(&a, &w), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&a, "graph", 1, 4), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&b, "graph", 1, 4), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&a, 1, 2, (uint32_t[]){5, 1}), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&b, 1, 2, (uint32_t[]){5, 1}), TD_OK);
    backward(&w, 5, 0, 0, NULL);
    CU_ASSERT_EQUAL(code_of(&b, &w), TD_E_AUTOGRAD);
    backward(&w, 5, FIRST, 4, pool);
    CU_ASSERT_EQUAL(said(&b, &w, FIRST), TD_E_AUTOGRAD);
    backward(&w, 5, 0, 0, NULL); /* its own, but without an answer to be had */
    CU_ASSERT_EQUAL(code_of(&a, &w), TD_E_AUTOGRAD);
    go(&w, FIRST, FIRST + 1, TD_GO_SAME, 0, NULL, 0, NULL);
    CU_ASSERT_EQUAL(said(&b, &w, FIRST + 1), TD_E_NOT_FOUND);
    raw_close(&a);
    test_sleep_ms(50);
    backward(&w, 5, FIRST + 2, 4, pool);
    CU_ASSERT_EQUAL(said(&b, &w, FIRST + 2), TD_E_AUTOGRAD);
    raw_close(&b);
    back_to_normal();
}

/* Killed in the midst, with a batch that goes on behind the question; and with the answer on its way. */
static void ends_in_between(void)
{
    for (int k = 0; k < 6; k++) {
        raw r;
        opened(&r);
        if (k % 2) stopped(&r, FIRST);
        td_words w = {0};
        if (k % 2 == 0) {
            build(&w);
            hook(&w, 3, 7, TENSOR);
            hook(&w, 1, 8, LEAF);
            backward(&w, 5, FIRST, 4, pool);
        }
        for (int i = 0; i < 50; i++) op2(&w, TD_OP_ADD, 1, 1, 200 + (uint32_t)i);
        if (k > 2) go(&w, FIRST, FIRST + 1, k == 3 ? TD_GO_NOT : TD_GO_SAME, 0, NULL, 0, NULL);
        CU_ASSERT_TRUE(send_all(&r, &w));
        raw_close(&r);
        back_to_normal();
    }
}

/* ---- what ops save */

static void noted_op(td_words *w, uint32_t x, uint32_t y, uint32_t out)
{
    size_t at = w->count;
    op2(w, TD_OP_MUL, x, y, out);
    w->at[at] |= (uint32_t)TD_RF_SAVES << 24;
}

/* Ask what was saved; `told`: there is a value. */
static uint32_t saved(raw *r, uint32_t id, uint32_t of, uint32_t slot, uint32_t pack, bool *told)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Saved q = TD__WIRE__SAVED__INIT;
    q.id = id, q.of = of, q.slot = slot, q.pack = pack;
    c.saved = &q;
    raw_call(r, &c);
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    *told = x->saved && x->saved->desc;
    return x->error ? x->error->code : TD_OK;
}

/* More is noted than anybody asks for; numbers of hooks, ids and nodes that are not what they should be. */
static void saved_and_not_asked_for(void)
{
    raw r;
    bool told;
    opened(&r);
    td_words w = {0};
    build(&w);
    for (uint32_t k = 0; k < 6000; k++) noted_op(&w, 1, 1, 200 + k);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(saved(&r, 0, 0, 0, 7, &told), TD_E_INVALID);   /* nothing was told */
    CU_ASSERT_EQUAL(saved(&r, 1, 0, 0, 0, &told), TD_E_EXISTS);    /* an id that is in use */
    CU_ASSERT_EQUAL(saved(&r, 0, 9, 0, 0, &told), TD_E_NOT_FOUND); /* a node that is not there */
    CU_ASSERT_NOT_EQUAL(saved(&r, TD_MAX_ID + 1, 0, 0, 0, &told), TD_OK);
    CU_ASSERT_EQUAL(saved(&r, 50, 0, 0, 0, &told), TD_OK);
    CU_ASSERT_TRUE(told);
    CU_ASSERT_EQUAL(saved(&r, 1, 0, 0, 7, &told), TD_E_EXISTS); /* then nothing is packed */
    CU_ASSERT_EQUAL(saved(&r, 51, 0, 0, 7, &told), TD_OK);
    CU_ASSERT_TRUE(told);
    CU_ASSERT_EQUAL(saved(&r, 52, 0, 0, 7, &told), TD_E_EXISTS); /* a number twice */
    CU_ASSERT_EQUAL(saved(&r, 0, 0, 0, 8, &told), TD_OK);
    for (uint32_t k = 0; k < 6000; k += 2) release(&w, 200 + k); /* noted nodes whose tensors have gone */
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    for (uint32_t k = 0; k < 100; k++) CU_ASSERT_EQUAL(saved(&r, 0, 0, 0, 100 + k, &told), TD_OK);
    raw_close(&r);
    back_to_normal();
}

/* A backward that asks for a packed value is answered with what is none, or never. */
static void unpacked_to_nonsense(void)
{
    static const struct {
        uint32_t how, n, given, code;
    } all[] = {{TD_GO_SAME, 0, 0, TD_E_AUTOGRAD},    {TD_GO_GIVEN, 1, 0, TD_E_AUTOGRAD},
               {TD_GO_GIVEN, 1, 60, TD_E_SHAPE},     {TD_GO_GIVEN, 0, 0, TD_E_INVALID},
               {TD_GO_GIVEN, 1, 99, TD_E_NOT_FOUND}, {TD_GO_MORE, 0, 0, TD_OK}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        raw r;
        bool told;
        uint32_t asked;
        opened(&r);
        td_words w = {0};
        full(&w, 1, 4, 0);
        full(&w, 60, 3, 0);
        requires_grad(&w, 1, 1);
        noted_op(&w, 1, 1, 3);
        full(&w, 4, 4, 0);
        CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
        CU_ASSERT_EQUAL(saved(&r, 50, 0, 0, 0, &told), TD_OK);
        CU_ASSERT_EQUAL(saved(&r, 51, 0, 0, 7, &told), TD_OK);
        CU_ASSERT_EQUAL(saved(&r, 0, 0, 0, 8, &told), TD_OK);
        uint32_t rest[5] = {ACCUMULATE | RETAIN, 1, 0};
        td_words_put_u64(rest + 3, FIRST);
        control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){3, 4}, 0, NULL, 5, rest);
        CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
        CU_ASSERT_EQUAL(answered(&r, FIRST, &asked), TD_OK);
        CU_ASSERT_EQUAL(asked, 7);
        go(&w, FIRST, FIRST + 1, all[k].how, (int)all[k].n, &all[k].given, 0, NULL);
        CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
        CU_ASSERT_EQUAL(answered(&r, FIRST + 1, &asked), all[k].code);
        raw_close(&r);
        back_to_normal();
    }
}

/* What hooks hung on is told with the next reply, once. */
static void told_of_the_end(void)
{
    raw r;
    opened(&r);
    td_words w = {0};
    build(&w);
    hook(&w, 3, 7, TENSOR);
    hook(&w, 1, 8, LEAF);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    release(&w, 3);
    release(&w, 5);
    uint32_t rest[3] = {FIRST, 0, 1};
    control(&w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 3, rest);
    CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
    Td__Wire__Reply *x = raw_reply(&r, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_TRUE(x->n_gone == 1 && x->gone[0] == 7);
    release(&w, 1);
    rest[0]++;
    control(&w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 3, rest);
    CU_ASSERT_TRUE_FATAL(send_all(&r, &w));
    x = raw_reply(&r, TEST_LONG_MS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    CU_ASSERT_TRUE(x->n_gone == 1 && x->gone[0] == 8);
    raw_close(&r);
    back_to_normal();
}

static uint32_t look(raw *r, uint32_t id, uint32_t of, uint32_t number, uint32_t room, uint32_t *n)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Node q = TD__WIRE__NODE__INIT;
    q.id = id, q.of = of, q.number = number, q.room = room;
    c.node = &q;
    Td__Wire__Reply *x = raw_ask(r, &c);
    *n = x ? (uint32_t)x->n_nodes : 0;
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

static void nodes_by_number(void)
{
    raw r;
    opened(&r);
    td_words w = {0};
    uint32_t n;
    build(&w);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 5, 0, 1, 0, &n), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 5, 0, 1, 0, &n), TD_E_EXISTS);
    CU_ASSERT_EQUAL(look(&r, 5, 0, 0, 0, &n), TD_E_EXISTS);
    CU_ASSERT_EQUAL(look(&r, 99, 0, 2, 0, &n), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(look(&r, 0, 99, 2, 9, &n), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(look(&r, 0, 1, 2, 0, &n), TD_E_INVALID); /* no room */
    CU_ASSERT_EQUAL(look(&r, 0, 1, 1, 9, &n), TD_E_EXISTS);
    CU_ASSERT_EQUAL(look(&r, 0, 1, 2, 9, &n), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 0, 2, 10, 9, &n), TD_OK);
    CU_ASSERT_EQUAL(n, 2);
    CU_ASSERT_EQUAL(look(&r, 0, 10, 20, 9, &n), TD_OK); /* the leaf */
    CU_ASSERT_EQUAL(n, 0);
    for (uint32_t id = 1; id < 6; id++) release(&w, id); /* the nodes stay */
    control(&w, TD_REC_HOOK, 0, 0, NULL, 0, NULL, 3, (uint32_t[]){5, BEFORE, 2});
    control(&w, TD_REC_HOOK, 0, 0, NULL, 0, NULL, 3, (uint32_t[]){6, AFTER, 10});
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 0, 1, 30, 9, &n), TD_OK);
    raw_close(&r);
    back_to_normal();
}

/* As many nodes as a session may look at, and one more; and a node that leads to more than there are left: then none of
 * those is kept. */
static void as_many_nodes_as_may_be(void)
{
    enum { MOST = 16384, WIDE = 1000, LESS = MOST - 2 - MOST / WIDE * WIDE, A = 1, B = 2, REST = 100000 };
    raw r;
    opened(&r);
    td_words w = {0};
    td_attrs a;
    uint32_t ids[WIDE], n, at = 3;
    full(&w, 1, 4, 0);
    requires_grad(&w, 1, 1);
    for (uint32_t k = 0; k < WIDE; k++) ids[k] = 1;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    op_with(&w, TD_OP_CAT, 0, &a, WIDE, ids, 1, (uint32_t[]){3});
    op_with(&w, TD_OP_CAT, 0, &a, LESS, ids, 1, (uint32_t[]){4});
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 3, 0, A, 0, &n), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 4, 0, B, 0, &n), TD_OK);
    for (int k = 0; k < MOST / WIDE; k++, at += WIDE) CU_ASSERT_EQUAL(look(&r, 0, A, at, WIDE, &n), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 0, B, at, WIDE, &n), TD_OK);
    CU_ASSERT_EQUAL(n, LESS);
    CU_ASSERT_EQUAL(look(&r, 3, 0, REST, 0, &n), TD_E_QUOTA);
    control(&w, TD_REC_NODE_END, 0, 0, NULL, 0, NULL, 2, (uint32_t[]){3, 4});
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 0, B, REST, WIDE, &n), TD_E_QUOTA);
    for (uint32_t k = 0; k < 2; k++) CU_ASSERT_EQUAL(look(&r, 3, 0, REST + k, 0, &n), TD_OK);
    CU_ASSERT_EQUAL(look(&r, 3, 0, REST + 2, 0, &n), TD_E_QUOTA);
    raw_close(&r);
    back_to_normal();
}

/* A forked child runs the hooks that were there. One that its parent adds later is none of its own: on a leaf that it
 * uses, too, it does not run, and what the parent built with it is refused. */
static void hooks_of_before_a_fork(void)
{
    enum { EARLY = 7, LATE = 8 };
    raw parent, child;
    Td__Wire__Hello h = TD__WIRE__HELLO__INIT;
    opened(&parent);
    td_words w = {0};
    uint32_t asked;
    full(&w, 1, 1, 0);
    requires_grad(&w, 1, 1);
    hook(&w, 1, EARLY, TENSOR);
    op2(&w, TD_OP_MUL, 1, 1, 3);
    CU_ASSERT_EQUAL(code_of(&parent, &w), TD_OK);
    h.protocol = TD_PROTOCOL, h.clone_session = parent.session, h.clone_token = parent.token;
    CU_ASSERT_TRUE_FATAL(raw_connect(&child, d.socket) && raw_hello_with(&child, &h));
    hook(&w, 1, LATE, TENSOR);
    CU_ASSERT_EQUAL(code_of(&parent, &w), TD_OK);
    full(&w, 2, 1, 0);
    op2(&w, TD_OP_MUL, 1, 1, 5);
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){5, 2}, 1, pool, 5, (uint32_t[]){ACCUMULATE, 1, 0, FIRST, 0});
    CU_ASSERT_TRUE_FATAL(send_all(&child, &w));
    CU_ASSERT_EQUAL(answered(&child, FIRST, &asked), TD_OK);
    CU_ASSERT_EQUAL(asked, EARLY);
    go(&w, FIRST, FIRST + 1, TD_GO_SAME, 0, NULL, 0, NULL);
    CU_ASSERT_EQUAL(said(&child, &w, FIRST + 1), TD_OK);
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){3, 2}, 1, pool + 1, 5, (uint32_t[]){ACCUMULATE, 1, 0, FIRST, 0});
    CU_ASSERT_EQUAL(said(&child, &w, FIRST), TD_E_AUTOGRAD);
    raw_close(&child);
    raw_close(&parent);
    back_to_normal();
}

TD_CUNIT_MAIN_WITH("hooks", start, stop, {"never answers", never_answers}, {"answers twice", answers_twice},
                   {"answers that are none", answers_that_are_none}, {"ids that do not fit", ids_that_do_not_fit},
                   {"many at once", many_at_once}, {"nonsense", nonsense}, {"two sessions", two_sessions},
                   {"ends in between", ends_in_between}, {"told of the end", told_of_the_end},
                   {"nodes by number", nodes_by_number}, {"as many nodes as may be", as_many_nodes_as_may_be},
                   {"hooks of before a fork", hooks_of_before_a_fork}, {"written in words only", written_in_words_only},
                   {"wide functions", wide_functions}, {"saved and not asked for", saved_and_not_asked_for},
                   {"unpacked to nonsense", unpacked_to_nonsense})
