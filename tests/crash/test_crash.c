/* Clients killed with SIGKILL at random moments: in a frame, between frames, holding a lease, waiting for a queue, with a graph, while forked children live.
 *
 * After all of them the daemon must hold exactly what it held before, and have gone on serving others. TENSORD_CRASHES sets how
 * many (default 1000). A second test kills the daemon under waiting clients. */
#include "proto/opid.h"
#include "tests/support/daemon.h"
#include "tests/support/raw.h"
#include "tests/unit/cunit_main.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static test_daemon d;

/* ---- what a victim does until it is killed */

static void op2(td_words *w, unsigned op, unsigned mode, uint32_t x, uint32_t y, uint32_t out)
{
    uint32_t in[2] = {x, y};
    td_attrs a;
    td_attrs_init(&a);
    td_words_op(w, td_op_by_id(op), mode, 0, 0, y ? 2 : 1, in, 1, &out, NULL, &a, NULL);
}

static void control(td_words *w, unsigned rec, uint32_t id, int nrest, const uint32_t *rest)
{
    td_words_control(w, rec, 0, 0, id ? 1 : 0, &id, 0, NULL, nrest, rest, NULL);
}

/* A graph of some nodes, its backward, and everything released but a few. */
static void graph(raw *r, unsigned *seed)
{
    td_words w = {0};
    uint32_t one = 1, backward[3] = {8, 1, 0}, roots[2] = {9, 0};
    control(&w, TD_REC_REQUIRES_GRAD, 1, 1, &one);
    op2(&w, TD_OP_MUL, 0, 1, 2, 4);
    op2(&w, TD_OP_ADD, 0, 4, 1, 5);
    op2(&w, TD_OP_TANH, 0, 5, 0, 6);
    op2(&w, TD_OP_MUL, 0, 6, 5, 7);
    op2(&w, TD_OP_SUM, 0, 7, 0, 9);
    td_words_control(&w, TD_REC_BACKWARD, 0, 0, 2, roots, 0, NULL, 3, backward, NULL);
    for (uint32_t id = 4; id < 10; id++)
        if (id != 8 && rand_r(seed) % 4) control(&w, TD_REC_RELEASE, id, 0, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
}

static void half_a_frame(raw *r, unsigned *seed)
{
    uint8_t b[64] = {0};
    td_frame_put_header(b, 4096, TD_FRAME_BATCH, 0);
    raw_bytes(r, b, (size_t)(rand_r(seed) % 40) + 1);
    pause();
}

static void take_lease(raw *r)
{
    Td__Wire__Call c;
    Td__Wire__Lease l;
    td__wire__call__init(&c);
    td__wire__lease__init(&l);
    l.bytes = 100000;
    c.lease = &l;
    Td__Wire__Reply *x = raw_ask(r, &c);
    if (!x || x->error || raw_fd < 0) return;
    char *segment = mmap(NULL, x->address->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, raw_fd, 0);
    if (segment != MAP_FAILED) memset(segment + x->address->offset, 1, 1000);
}

static void join(raw *r, uint32_t handle, uint32_t role)
{
    Td__Wire__Call c;
    Td__Wire__QueueOpen q;
    td__wire__call__init(&c);
    td__wire__queue_open__init(&q);
    q.name = (char *)"crash";
    q.queue = handle;
    q.capacity = 2;
    q.role = role;
    c.queue_open = &q;
    raw_ask(r, &c);
}

static void put_forever(raw *r)
{
    join(r, 1, 1);
    for (int i = 0; i < 50; i++) {
        Td__Wire__Call c;
        Td__Wire__QueuePut q;
        uint32_t ids[2] = {1, 2};
        td__wire__call__init(&c);
        td__wire__queue_put__init(&q);
        q.queue = 1;
        q.ids = ids;
        q.n_ids = 2;
        q.timeout_ms = UINT32_MAX;
        c.queue_put = &q;
        if (!raw_ask(r, &c)) return;
    }
}

static void get_forever(raw *r)
{
    join(r, 1, 2);
    for (uint32_t i = 0; i < 50; i++) {
        Td__Wire__Call c;
        Td__Wire__QueueGet q;
        uint32_t ids[2] = {20 + 2 * i, 21 + 2 * i};
        td__wire__call__init(&c);
        td__wire__queue_get__init(&q);
        q.queue = 1;
        q.ids = ids;
        q.n_ids = 2;
        q.timeout_ms = UINT32_MAX;
        c.queue_get = &q;
        if (!raw_ask(r, &c)) return;
    }
}

/* A child that lives on with the socket, and one that clones the session's references. It ends when `alive` is closed. */
static void fork_some(raw *r, int alive)
{
    if (fork() == 0) {
        raw child = {0};
        if (raw_connect(&child, d.socket)) {
            Td__Wire__Hello h;
            td__wire__hello__init(&h);
            h.protocol = TD_PROTOCOL;
            h.clone_session = r->session;
            h.clone_token = r->token;
            uint8_t b[64];
            raw_frame(&child, TD_FRAME_HELLO, b, td__wire__hello__pack(&h, b));
        }
        struct pollfd p = {alive, 0, 0};
        poll(&p, 1, 10000);
        _exit(0);
    }
}

static void victim(unsigned seed, int alive)
{
    raw r;
    if (!raw_open(&r, d.socket)) _exit(1);
    raw_zeros(&r, 1, 1000);
    raw_zeros(&r, 2, 1000);
    for (;;) {
        uint32_t code;
        switch (rand_r(&seed) % 8) {
        case 0: half_a_frame(&r, &seed); break;
        case 1: take_lease(&r); break;
        case 2: put_forever(&r); break;
        case 3: get_forever(&r); break;
        case 4: fork_some(&r, alive); break;
        case 5: raw_sync(&r, &code); break;
        default: graph(&r, &seed);
        }
    }
}

static void killed_at_random(void)
{
    const char *text = getenv("TENSORD_CRASHES");
    int total = text ? atoi(text) : 1000, alive[2];
    unsigned seed = (unsigned)getpid();
    int64_t before[RAW_COUNTED];
    CU_ASSERT_TRUE_FATAL(raw_count(d.socket, before));
    CU_ASSERT_EQUAL_FATAL(pipe(alive), 0);
    printf("\n    seed %u, %d clients ", seed, total);
    enum { AT_ONCE = 10 };
    for (int done = 0; done < total; done += AT_ONCE) {
        pid_t pids[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                close(alive[1]);
                victim(seed + (unsigned)(done + i) * 7919, alive[0]);
            }
        }
        for (int i = 0; i < AT_ONCE; i++) {
            usleep((useconds_t)(rand_r(&seed) % 4000));
            kill(pids[i], SIGKILL);
        }
        for (int i = 0; i < AT_ONCE; i++) waitpid(pids[i], NULL, 0);
        CU_ASSERT_TRUE_FATAL(test_daemon_alive(&d));
    }
    close(alive[1]); /* now the grandchildren end too */
    close(alive[0]);
    CU_ASSERT_TRUE(raw_count_again(d.socket, before, 10000));
}

/* ---- the other way round */

static void daemon_killed(void)
{
    test_daemon own;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&own, NULL));
    raw waiting, reading;
    CU_ASSERT_TRUE(raw_open(&waiting, own.socket));
    CU_ASSERT_TRUE(raw_open(&reading, own.socket));
    Td__Wire__Call c;
    Td__Wire__Open q;
    td__wire__call__init(&c);
    td__wire__open__init(&q);
    q.name = (char *)"never";
    q.id = 1;
    q.timeout_ms = UINT32_MAX;
    c.open = &q;
    raw_call(&waiting, &c);
    test_sleep_ms(50);
    kill(own.pid, SIGKILL);
    uint64_t before = test_now_ms();
    CU_ASSERT_TRUE(raw_ended(&waiting, 5000));
    CU_ASSERT_TRUE(raw_ended(&reading, 5000));
    CU_ASSERT_TRUE(test_now_ms() - before < 1000);
    raw_close(&waiting);
    raw_close(&reading);
    test_daemon_stop(&own);
}

static int start(void)
{
    return test_daemon_start(&d, (const char *[]){"--memory", "256M", "--workers", "2", NULL}) ? 0 : 1;
}

static int stop(void)
{
    return test_daemon_stop(&d);
}

TD_CUNIT_MAIN_WITH("crash", start, stop, {"clients killed at random moments leave nothing", killed_at_random},
                   {"a killed daemon is noticed within a second", daemon_killed})
