/* Clients that take what they can get: everything of it must be charged, bounded, given back, and must not hold up
 * others.
 *
 * As in test_hostile.c, after each test the daemon must hold exactly what it held before. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(void)
{
    return counted_start("256M", "2");
}

/* The longest that this small request of another client takes within `ms`, in milliseconds. */
static uint64_t slowest_answer(raw *other, uint64_t ms)
{
    uint64_t slowest = 0;
    for (uint64_t until = test_now_ms() + ms; test_now_ms() < until;) {
        uint64_t before = test_now_ms();
        uint32_t code;
        raw_sync(other, &code);
        uint64_t took = test_now_ms() - before;
        if (took > slowest) slowest = took;
    }
    return slowest;
}

/* ---- ids and counts */

/* Every op with every number of inputs and outputs, given or new: a wrong number is refused, and nothing is read that
 * is not there. */
static void every_count(void)
{
    raw r;
    uint32_t in[40], out[4] = {1, 1, 1, 1}, code;
    for (int i = 0; i < 40; i++) in[i] = 1 + (uint32_t)i % 3;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    for (uint32_t id = 1; id <= 3; id++) raw_zeros(&r, id, 4);
    uint32_t fresh = 10;
    for (unsigned op = 0; op < td_op_count; op++) {
        if (!td_op_by_id(op)) continue;
        td_words w = {0};
        for (int nin = 0; nin < 40; nin += nin < 14 ? 1 : 5)
            for (int nout = 0; nout < 4; nout++)
                for (unsigned given = 0; given < 2; given++) {
                    for (int o = 0; o < nout; o++) out[o] = given ? 1 + (uint32_t)o % 3 : fresh++;
                    op_with(&w, op, given ? TD_RF_OUT : 0, NULL, nin, in, nout, out);
                    for (int o = 0; o < nout && !given; o++) release(&w, out[o]);
                    if (fresh > 1000) fresh = 10;
                }
        code = code_of(&r, &w);
        if (code == TD_E_LOST) printf("\n    the connection was lost at op %s", td_op_by_id(op)->name);
        CU_ASSERT_NOT_EQUAL(code, TD_E_LOST);
    }
    raw_close(&r);
    back_to_normal();
}

static void the_same_id_twice(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 4);
    td_words w = {0};
    op_with(&w, TD_OP_SORT, 0, NULL, 1, (uint32_t[]){1}, 2, (uint32_t[]){5, 5});
    (void)code_of(&r, &w);
    raw_close(&r);

    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 1);
    w = (td_words){0};
    requires_grad(&w, 1, 1);
    op2(&w, TD_OP_MUL, 1, 1, 2);
    control(&w, TD_REC_BACKWARD, 0, 4, (uint32_t[]){2, 0, 1, 1}, 2, (uint32_t[]){7, 7}, 3, (uint32_t[]){0, 1, 0});
    (void)code_of(&r, &w);
    w = (td_words){0};
    control(&w, TD_REC_RELEASE, 0, 4, (uint32_t[]){7, 7, 7, 99}, 0, NULL, 0,
            NULL); /* of which three are nothing any more */
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "twice", 1, 4), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&r, 1, 2, (uint32_t[]){1, 2}), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&r, 1, 2, (uint32_t[]){20, 20}), TD_E_EXISTS);
    CU_ASSERT_EQUAL(queue_get(&r, 1, 1, (uint32_t[]){20}), TD_OK);     /* too few: told how many, ... */
    CU_ASSERT_EQUAL(queue_get(&r, 1, 2, (uint32_t[]){20, 21}), TD_OK); /* and it was not lost */
    raw_close(&r);
    back_to_normal();
}

/* ---- the end in the middle of something */

/* A tensor in service memory with much work pending on it, from the session `busy`; `r` has it as id 1. */
static void share_busy(raw *busy, raw *r, int writes)
{
    td_words w = {0};
    CU_ASSERT_TRUE(raw_open(busy, d.socket));
    CU_ASSERT_TRUE(raw_open(r, d.socket));
    full(&w, 1, 1 << 20, TD_RM_SERVICE);
    CU_ASSERT_EQUAL(code_of(busy, &w), TD_OK);
    CU_ASSERT_EQUAL(publish(busy, "busy", 1), TD_OK);
    CU_ASSERT_EQUAL(open_name(r, "busy", 1), TD_OK);
    CU_ASSERT_EQUAL(drop_name(busy, "busy"), TD_OK);
    w = (td_words){0};
    for (int i = 0; i < writes; i++) op_with(&w, TD_OP_EXP, TD_RF_OUT, NULL, 1, (uint32_t[]){1}, 1, (uint32_t[]){1});
    CU_ASSERT_TRUE(send_all(busy, &w));
}

/* It asks for what another session is still computing, and is gone before the answer. */
static void gone_before_the_answer(void)
{
    raw busy, r;
    share_busy(&busy, &r, 60);
    map_without_waiting(&r, 1);
    map_without_waiting(&r, 1);
    td_words w = {0};
    uint32_t serial[2] = {9, 0};
    for (int i = 0; i < 100; i++) control(&w, TD_REC_READ, 0, 1, (uint32_t[]){1}, 0, NULL, 2, serial);
    send_all(&r, &w);
    test_sleep_ms(10);
    raw_close(&r);
    uint32_t code;
    raw_sync(&busy, &code);
    CU_ASSERT_EQUAL(code, TD_OK);
    raw_close(&busy);
    back_to_normal();
}

/* The same with an item of a queue. Whoever connects afterwards hears nothing of it. */
static void gone_before_the_item(void)
{
    raw busy, r, later[8];
    share_busy(&busy, &r, 60);
    CU_ASSERT_EQUAL(queue_open(&busy, "gone", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "gone", 1, 2), TD_OK);
    td_words w = {0};
    for (int i = 0; i < 60; i++) op_with(&w, TD_OP_EXP, TD_RF_OUT, NULL, 1, (uint32_t[]){1}, 1, (uint32_t[]){1});
    CU_ASSERT_TRUE(send_all(&busy, &w));
    CU_ASSERT_EQUAL(queue_put(&busy, 1, 1, (uint32_t[]){1}), TD_OK);
    queue_get_without_waiting(&r, 1, 1, (uint32_t[]){2});
    test_sleep_ms(5);
    raw_close(&r);
    for (int i = 0; i < 8; i++) CU_ASSERT_TRUE(raw_open(&later[i], d.socket));
    uint32_t code;
    raw_sync(&busy, &code);
    CU_ASSERT_EQUAL(code, TD_OK);
    for (int i = 0; i < 8; i++) {
        CU_ASSERT_PTR_NULL(raw_reply(&later[i], 10));
        raw_close(&later[i]);
    }
    raw_close(&busy);
    back_to_normal();
}

static void gone_with_a_write_lease(void)
{
    raw holder, r;
    CU_ASSERT_TRUE(raw_open(&holder, d.socket));
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&holder, 1, 8);
    CU_ASSERT_EQUAL(queue_open(&holder, "lease", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&r, "lease", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&holder, 1, 1, (uint32_t[]){1}), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&r, 1, 1, (uint32_t[]){1}), TD_OK);
    CU_ASSERT_EQUAL(write_begin(&holder, 1), TD_OK);
    CU_ASSERT_EQUAL(write_begin(&holder, 1), TD_E_BUSY);
    td_words w = {0};
    release(&w, 1); /* its only id */
    CU_ASSERT_EQUAL(code_of(&holder, &w), TD_OK);
    w = (td_words){0};
    op2(&w, TD_OP_ADD, 1, 1, 2);
    control(&w, TD_REC_WRITE_END, 0, 1, (uint32_t[]){1}, 0, NULL, 0, NULL); /* of another's lease: refused */
    send_all(&r, &w);
    raw_close(&holder);
    uint32_t code;
    raw_sync(&r, &code);
    CU_ASSERT_EQUAL(code, TD_E_INVALID);
    raw_sync(&r, &code);
    CU_ASSERT_EQUAL(code, TD_OK);
    raw_close(&r);
    back_to_normal();
}

static void gone_during_backward(void)
{
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    raw_zeros(&r, 1, 1);
    raw_zeros(&r, 2, 1);
    CU_ASSERT_EQUAL(queue_open(&r, "saved", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&other, "saved", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_put(&r, 1, 1, (uint32_t[]){2}), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&other, 1, 1, (uint32_t[]){2}), TD_OK);
    td_words w = {0};
    chain(&w, 40000);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    w = (td_words){0};
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){3, 0}, 0, NULL, 3, (uint32_t[]){8, 1, 0});
    send_all(&r, &w);
    for (int i = 0; i < 10; i++) op_with(&w, TD_OP_EXP, TD_RF_OUT, NULL, 1, (uint32_t[]){2}, 1, (uint32_t[]){2});
    send_all(&other, &w); /* waits for the backward, which has to read it */
    raw_close(&r);
    uint32_t code;
    raw_sync(&other, &code);
    CU_ASSERT_EQUAL(code, TD_OK);
    raw_close(&other);
    back_to_normal();
}

/* The parent is killed, a child that it forked keeps the socket: the session ends all the same. */
static void a_child_keeps_the_socket(void)
{
    int ready[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
    pid_t parent = fork();
    if (parent == 0) {
        raw r, second;
        if (!raw_open(&r, d.socket) || !raw_open(&second, d.socket)) _exit(1);
        raw_zeros(&r, 1, 8);
        raw_close(&second); /* another connection of this process ends: this one goes on */
        uint32_t code;
        if (!raw_sync(&r, &code)) _exit(1);
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        if (write(ready[1], &child, sizeof child) != sizeof child) _exit(1);
        pause();
    }
    pid_t child = 0;
    CU_ASSERT_EQUAL(read(ready[0], &child, sizeof child), (ssize_t)sizeof child);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    back_to_normal(); /* while the child lives */
    if (child > 0) kill(child, SIGKILL);
    close(ready[0]);
    close(ready[1]);
}

/* Told to end twice while clients are there, one of them twice, one suspended. */
static void ended_with_clients(void)
{
    test_daemon own;
    raw r[3];
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&own, NULL));
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_TRUE(raw_open(&r[i], own.socket));
        raw_zeros(&r[i], 1, 8);
    }
    Td__Wire__Call c;
    Td__Wire__Open o;
    td__wire__call__init(&c);
    td__wire__open__init(&o);
    o.name = (char *)"never", o.id = 9, o.timeout_ms = UINT32_MAX;
    c.open = &o;
    raw_call(&r[0], &c);
    uint32_t code;
    raw_sync(&r[1], &code);
    CU_ASSERT_EQUAL(code, TD_OK);
    kill(own.pid, SIGTERM);
    CU_ASSERT_TRUE(test_daemon_told(&own));
    CU_ASSERT_EQUAL(test_daemon_stop(&own), 0); /* the second */
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_TRUE(raw_ended(&r[i], TEST_LONG_MS));
        raw_close(&r[i]);
    }
}

/* ---- graphs that hold themselves */

static void set_grad(td_words *w, uint32_t id, uint32_t grad, uint32_t scope)
{
    control(w, TD_REC_SET_GRAD, 0, 2, (uint32_t[]){id, grad}, 0, NULL, 1, &scope);
}

static void view(td_words *w, uint32_t of, uint32_t out)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, (int64_t[]){-1});
    op_with(w, TD_OP_VIEW, 0, &a, 1, &of, 1, &out);
}

/* Circles of gradients that were put there by hand, all named no more: 1.grad leads back to 1. */
static void gradients_in_circles(td_words *w, int kind, uint32_t session)
{
    requires_grad(w, 1, 0);
    if (kind == 4) { /* two plain tensors, in the session's own scope and in others */
        op2(w, TD_OP_ADD, 1, 1, 3);
        for (uint32_t scope = 0; scope < 3; scope++) {
            set_grad(w, 1, 3, scope == 2 ? session : scope);
            set_grad(w, 3, 1, scope == 2 ? session : scope);
        }
    } else if (kind == 5) { /* a view of itself */
        view(w, 1, 3);
        set_grad(w, 1, 3, 0);
    } else { /* a gradient that gets its history when its tensor has no name any more */
        requires_grad(w, 1, 1);
        op2(w, TD_OP_MUL, 1, 1, 3);
        requires_grad(w, 1, 0);
        op2(w, TD_OP_ADD, 1, 1, 4);
        set_grad(w, 1, 4, 0);
        release(w, 1);
        op_with(w, TD_OP_ADD, TD_RF_OUT, NULL, 2, (uint32_t[]){4, 3}, 1, (uint32_t[]){4});
    }
    for (uint32_t id = 1; id < 5; id++) release(w, id);
}

static void graphs_in_circles(void)
{
    for (int kind = 0; kind < 7; kind++) {
        raw r;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        raw_zeros(&r, 1, 1);
        td_words w = {0};
        requires_grad(&w, 1, 1);
        op2(&w, TD_OP_MUL, 1, 1, 2);
        if (kind == 0) { /* .grad has a history that leads to its tensor */
            control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){2, 0}, 0, NULL, 3, (uint32_t[]){2 | 8, 1, 0});
        } else if (kind == 1) { /* the same, after the leaf was let go of */
            op2(&w, TD_OP_MUL, 2, 2, 3);
            release(&w, 1);
            control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){3, 0}, 0, NULL, 3, (uint32_t[]){2 | 8, 1, 0});
        } else if (kind == 2) { /* a leaf that becomes the result of what came of it */
            requires_grad(&w, 1, 0);
            td_attrs a;
            td_attrs_init(&a);
            td_attrs_none(&a);
            op_with(&w, TD_OP_COPY, TD_RF_OUT, &a, 1, (uint32_t[]){2}, 1, (uint32_t[]){1});
        } else if (kind == 3) { /* a gradient that was put there by hand */
            set_grad(&w, 1, 2, 0);
        } else {
            gradients_in_circles(&w, kind, r.session);
        }
        uint32_t code = code_of(&r, &w);
        if (code) printf("\n    circle %d: code %u", kind, code);
        CU_ASSERT_EQUAL(code, TD_OK);
        raw_close(&r);
        back_to_normal();
    }
}

/* ---- much at once */

static void sixteen_megabytes_of_releases(void)
{
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    static uint32_t ids[4095];
    td_words w = {0};
    for (uint32_t i = 0; i < 4095; i++) ids[i] = 1 + i;
    for (int i = 0; i < 900; i++) control(&w, TD_REC_RELEASE, 0, 4095, ids, 0, NULL, 0, NULL);
    CU_ASSERT_TRUE(send_all(&r, &w));
    CU_ASSERT_TRUE(slowest_answer(&other, 300) < TEST_LONG_MS / 4);
    raw_close(&other);
    raw_close(&r);
    back_to_normal();
}

static void a_long_backward(void)
{
    enum { N = 100000 };
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    raw_zeros(&r, 1, 1);
    raw_zeros(&r, 2, 1);
    td_words w = {0};
    chain(&w, N);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    w = (td_words){0};
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){3, 0}, 0, NULL, 3, (uint32_t[]){8, 1, 0});
    send_all(&r, &w);
    uint64_t slowest = slowest_answer(&other, 1000);
    raw_close(&r); /* and the graph is let go of */
    uint64_t end = slowest_answer(&other, 500);
    printf("\n    slowest answer during a backward over %d nodes: %llu ms, while it is freed: %llu ms", N,
           (unsigned long long)slowest, (unsigned long long)end);
    CU_ASSERT_TRUE(slowest < TEST_LONG_MS / 4 && end < TEST_LONG_MS / 4);
    raw_close(&other);
    back_to_normal();
}

/* Replies that wait for a long task are memory too. */
static void replies_to_come(void)
{
#if defined(__SANITIZE_THREAD__)
    td_test_skip("the thread sanitizer makes its pending products take minutes");
    return;
#endif
    raw busy, r, other;
    share_busy(&busy, &r, 100);
    td_words w = {0};
    uint32_t serial[2] = {9, 0};
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, 0), td_attrs_int(&a, 0), td_attrs_int(&a, 16000), td_attrs_int(&a, 1);
    op_with(&w, TD_OP_SLICE, 0, &a, 1, (uint32_t[]){1}, 1, (uint32_t[]){2});
    for (int i = 0; i < 5000; i++) control(&w, TD_REC_READ, 0, 1, (uint32_t[]){2}, 0, NULL, 2, serial);
    for (int i = 0; i < 5000; i++) control(&w, TD_REC_SYNC, 0, 0, NULL, 0, NULL, 2, serial);
    send_all(&r, &w);
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    int64_t most = 0;
    for (int i = 0; i < 50; i++, test_sleep_ms(10)) {
        int64_t used = raw_status(&other, "bytes_used");
        if (used > most) most = used;
    }
    CU_ASSERT_TRUE(most < (64 << 20)); /* not 5,000 copies of 64 kB */
    raw_close(&other);
    raw_close(&r);
    raw_close(&busy);
    back_to_normal();
}

static const td_test tests[] = {
    {"every op with every number of tensors", every_count},
    {"the same id twice", the_same_id_twice},
    {"gone before the answer about another's work", gone_before_the_answer},
    {"gone before another's item is computed", gone_before_the_item},
    {"gone with a write lease on a tensor it released", gone_with_a_write_lease},
    {"gone in the middle of a backward that others wait for", gone_during_backward},
    {"a forked child keeps the socket of a killed client", a_child_keeps_the_socket},
    {"a daemon that is told to end twice, with clients", ended_with_clients},
    {"graphs that hold themselves", graphs_in_circles},
    {"sixteen megabytes of releases", sixteen_megabytes_of_releases},
    {"a backward over many nodes, beside others", a_long_backward},
    {"thousands of replies to come", replies_to_come},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("greedy", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
