/* Clients killed with SIGKILL at random moments: in a frame, between frames, holding a lease or the right to write,
 * waiting for a queue, with a graph, with writes in place to come, in a backward, while importing memory, while tensors
 * go to a device and come from it, while forked children live.
 *
 * After all of them the daemon must hold exactly what it held before (and, but for the allocator's own, as many maps),
 * and have gone on serving others. Each victim notes what it is about to do, so that the test knows where they died:
 * every place must have had some. TENSORD_CRASHES sets how many (default 1000). A second test kills the daemon
 * under waiting clients. */
#include "client/tensord.h"
#include "proto/ops/opid.h"
#include "tests/support/daemon.h"
#include "tests/support/raw.h"
#include "tests/unit/cunit_main.h"

#include <fcntl.h>
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

static void to_device(td_words *w, uint32_t x, unsigned device, uint32_t out)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, device);
    td_words_op(w, td_op_by_id(TD_OP_TO_DEVICE), 0, 0, 0, 1, &x, 1, &out, NULL, &a, NULL);
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

static void hold_write_lease(raw *r)
{
    Td__Wire__Call c;
    Td__Wire__WriteBegin b;
    td__wire__call__init(&c);
    td__wire__write_begin__init(&b);
    b.id = 2;
    b.timeout_ms = 1000;
    c.write_begin = &b;
    if (!raw_ask(r, &c)) return;
    usleep(500);
    td_words w = {0};
    control(&w, TD_REC_WRITE_END, 2, 0, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
}

/* x = x*y, thousands of times, and its backward: worked off in many turns. */
static void long_backward(raw *r)
{
    td_words w = {0};
    uint32_t one = 1, backward[3] = {8, 1, 0}, roots[2] = {4, 0};
    control(&w, TD_REC_REQUIRES_GRAD, 1, 1, &one);
    op2(&w, TD_OP_MUL, 0, 1, 2, 3);
    for (uint32_t i = 0; i < 3000; i++) {
        op2(&w, TD_OP_MUL, 0, 3 + 2 * (i % 2), 2, 5 - 2 * (i % 2));
        control(&w, TD_REC_RELEASE, 3 + 2 * (i % 2), 0, NULL);
    }
    op2(&w, TD_OP_SUM, 0, 3, 0, 4);
    td_words_control(&w, TD_REC_BACKWARD, 0, 0, 2, roots, 0, NULL, 3, backward, NULL);
    control(&w, TD_REC_RELEASE, 3, 0, NULL);
    control(&w, TD_REC_RELEASE, 4, 0, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
}

/* What was made of a leaf that requires grad is written in place, behind sums of a large tensor that the writes read;
 * nobody else has what they write. So they are dropped when their writer dies, and the graph has to be told. */
static void queue_writes(raw *r)
{
    enum { ONES = 50, LARGE, WRITTEN, SUM };
    td_words w = {0};
    uint32_t one = 1, ones = ONES, written = WRITTEN, in[2] = {WRITTEN, SUM};
    int64_t shape = 300000;
    td_attrs none, full;
    td_attrs_init(&none);
    td_attrs_init(&full);
    td_attrs_ints(&full, 1, &shape);
    td_attrs_scalar(&full, td_int(1));
    td_attrs_dtype(&full, TD_FLOAT32);
    td_words_op(&w, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, &ones, NULL, &full, NULL);
    to_device(&w, ONES, raw_device(), LARGE);
    control(&w, TD_REC_REQUIRES_GRAD, 1, 1, &one);
    for (int i = 0; i < 40; i++) {
        op2(&w, TD_OP_MUL, 0, 1, 2, WRITTEN);
        op2(&w, TD_OP_SUM, 0, LARGE, 0, SUM);
        td_words_op(&w, td_op_by_id(TD_OP_ADD), 0, TD_RF_OUT, 0, 2, in, 1, &written, NULL, &none, NULL);
        for (uint32_t id = WRITTEN; id <= SUM; id++) control(&w, TD_REC_RELEASE, id, 0, NULL);
    }
    for (uint32_t id = ONES; id <= LARGE; id++) control(&w, TD_REC_RELEASE, id, 0, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
}

/* To the CPU and back to where it lay, which is another place in `crash_fake`, and the sum of both ways; again and
 * again, until a reply says that the first of it has ended. */
static void move_about(raw *r, unsigned *seed)
{
    td_words w = {0};
    uint32_t code;
    for (int i = 0, most = 20 + (int)(rand_r(seed) % 200); i < most; i++) {
        to_device(&w, 1, TD_CPU, 30);
        to_device(&w, 30, raw_device(), 31);
        op2(&w, TD_OP_ADD, 0, 31, 1, 32);
        for (uint32_t id = 30; id < 33; id++) control(&w, TD_REC_RELEASE, id, 0, NULL);
    }
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
    raw_sync(r, &code);
}

static uint32_t ask_import(raw *r, bool announce, int fd)
{
    Td__Wire__Call c;
    Td__Wire__Import i;
    Td__Wire__Desc desc;
    int64_t n = 1024;
    td__wire__call__init(&c);
    td__wire__import__init(&i);
    td__wire__desc__init(&desc);
    desc.dtype = TD_FLOAT32;
    desc.n_shape = 1;
    desc.shape = &n;
    i.announce = announce;
    i.id = announce ? 0 : 10;
    i.desc = announce ? NULL : &desc;
    c.import = &i;
    c.serial = ++r->serial;
    uint8_t b[128];
    size_t size = td__wire__call__pack(&c, b + TD_FRAME_HEADER);
    td_frame_put_header(b, (uint32_t)size, TD_FRAME_CALL, fd >= 0);
    if (!raw_bytes_fds(r, b, size + TD_FRAME_HEADER, &fd, fd >= 0)) return TD_E_LOST;
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

static void import(raw *r)
{
    int fd = memfd_create("crash", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, 4096) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)) _exit(1);
    if (ask_import(r, true, -1) == TD_OK) ask_import(r, false, fd);
    close(fd);
    td_words w = {0};
    control(&w, TD_REC_RELEASE, 10, 0, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
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
    q.keep_ms = UINT32_MAX; /* else items of which nobody took one stay for a minute, and the test waits for that */
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

/* A child that lives on with the socket, and one that clones the session's references. It ends when `alive` is closed.
 */
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
        poll(&p, 1, TEST_LONG_MS);
        _exit(0);
    }
}

enum { BEGINNING, FRAME, LEASE, PUT, GET, FORK, SYNC, WRITING, BACKWARD, IMPORT, MOVING, QUEUED, GRAPH, PLACES };
static const char *const places[PLACES] = {
    "saying hello", "in a frame", "holding a lease",    "putting",         "getting",        "with children",
    "in a sync",    "writing",    "in a long backward", "while importing", "moving tensors", "with writes queued",
    "with a graph"};

static void victim(unsigned seed, int alive, volatile int *place)
{
    raw r;
    if (!raw_open(&r, d.socket)) _exit(1);
    raw_zeros(&r, 1, 1000);
    raw_zeros(&r, 2, 1000);
    int favourite = 1 + rand_r(&seed) % (PLACES - 1); /* else all would end where one waits for ever */
    bool forked = false;
    for (;;) {
        uint32_t code;
        int other = rand_r(&seed) % 2 ? GRAPH : LEASE, now = rand_r(&seed) % 4 ? favourite : other;
        *place = forked ? FORK : now;
        if (forked && now == FORK) now = SYNC; /* one child each: they stay until all is over */
        forked = forked || now == FORK;
        switch (now) {
        case FRAME: half_a_frame(&r, &seed); break;
        case LEASE: take_lease(&r); break;
        case PUT: put_forever(&r); break;
        case GET: get_forever(&r); break;
        case FORK: fork_some(&r, alive); break;
        case SYNC: raw_sync(&r, &code); break;
        case WRITING: hold_write_lease(&r); break;
        case BACKWARD: long_backward(&r); break;
        case IMPORT: import(&r); break;
        case MOVING: move_about(&r, &seed); break;
        case QUEUED: queue_writes(&r), raw_sync(&r, &code); break;
        default: graph(&r, &seed); raw_sync(&r, &code);
        }
    }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { MAPS = 100000 }; /* a sanitizer's shadow is cut into many */
#else
enum { MAPS = 100 }; /* the allocator's arenas, one a thread */
#endif

static int64_t count_maps(void)
{
    raw r;
    int64_t n = raw_open(&r, d.socket) ? raw_status(&r, "maps") - raw_status(&r, "segments") : -1;
    raw_close(&r);
    return n;
}

static bool everywhere(const int *died)
{
    for (int i = 0; i < PLACES; i++)
        if (!died[i]) return false;
    return true;
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
    int died[PLACES] = {0}, *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_NOT_EQUAL_FATAL(place, MAP_FAILED);
    int64_t maps = count_maps();
    /* How far they come in a time depends on the machine: more of them, with more time, until some died at each place.
     */
    bool all = total >= 1000;
    for (int done = 0; done < total || (all && !everywhere(died) && done < 20 * total); done += AT_ONCE) {
        pid_t pids[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            place[i] = BEGINNING;
            pids[i] = fork();
            if (pids[i] == 0) {
                close(alive[1]);
                victim(seed + (unsigned)(done + i) * 7919, alive[0], &place[i]);
            }
            if (i == 0 && done % (10 * AT_ONCE) == 0) kill(pids[i], SIGKILL); /* before it can have said hello */
        }
        for (int i = 0; i < AT_ONCE; i++) {
            usleep((useconds_t)(rand_r(&seed) % 4000 * (1 + done / total)));
            kill(pids[i], SIGKILL);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            int status = 0;
            waitpid(pids[i], &status, 0);
            CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            died[place[i]]++;
        }
        CU_ASSERT_TRUE_FATAL(test_daemon_alive(&d));
    }
    close(alive[1]); /* now the grandchildren end too */
    close(alive[0]);
    CU_ASSERT_TRUE(raw_count_again(d.socket, before));
    CU_ASSERT_TRUE(maps > 0 && count_maps() < maps + MAPS);
    for (int i = 0; i < PLACES; i++) {
        printf("%s%d %s", i ? ", " : "\n    died: ", died[i], places[i]);
        CU_ASSERT_TRUE(died[i] > 0 || !all);
    }
    munmap(place, 4096);
}

/* ---- with the library: rings, spare leases, mapped values, connections for forked children */

static void library_victim(unsigned seed, int alive, volatile int *rounds)
{
    td_client *c = td_connect(d.socket);
    td_queue *q = td_queue_open(c, "library", 2, TD_PRODUCER | TD_CONSUMER);
    if (!q) _exit(1);
    for (*rounds = 0;; ++*rounds) {
        td_scope s;
        td_scope_begin(&s);
        td_lease *l = td_lease_new(c, 40000);
        float *p = td_lease_data(l);
        for (int i = 0; p && i < 10000; i++) p[i] = (float)i;
        if (rand_r(&seed) % 3 == 0) /* memory that has to be made, by a helper */
            td_release(td_full(c, td_dims(4 + rand_r(&seed) % 8, 1 << 20), 1.0, TD_FLOAT32));
        td_array *x = td_to_device(td_put(l, 0, TD_FLOAT32, td_dims(100, 100)), td_get_device()),
                 *w = td_ones(c, td_dims(100), TD_FLOAT32);
        td_set_requires_grad(w, true);
        td_backward(td_sum(td_tanh(td_mv(x, w))));
        float g[100];
        if (td_get_device() == TD_CPU ? !td_data(td_grad(w)) : td_read(td_grad(w), g, sizeof g)) _exit(2);
        float *mine = td_write_begin(w, 100);
        if (mine) mine[0] = 2;
        td_write_end(w);
        if (rand_r(&seed) % 2) td_queue_put(q, td_arrays(x), NULL, 0, 5);
        td_queue_item item = {0};
        if (td_queue_get(q, &item, 2) == TD_OK) td_queue_item_clear(&item);
        for (int i = 0; i < 20; i++) td_sync(c); /* a busy connection moves to a ring */
        td_lease_free(l);
        td_scope_end(&s);
        if (*rounds == 3 && rand_r(&seed) % 4 == 0 && fork() == 0) {
            struct pollfd until = {alive, 0, 0};
            poll(&until, 1, TEST_LONG_MS);
            _exit(0);
        }
    }
}

/* While a client stands still, with whatever it holds, others are served. */
static bool others_are_served(void)
{
    raw r;
    uint32_t code;
    bool good = raw_open(&r, d.socket) && raw_zeros(&r, 1, 1 << 16) && raw_sync(&r, &code);
    raw_close(&r);
    return good;
}

static void library_killed_at_random(void)
{
    const char *text = getenv("TENSORD_CRASHES");
    int total = (text ? atoi(text) : 1000) / 5, alive[2], most = 0; /* rounds that one did before it died */
    int stopped = 0;
    unsigned seed = (unsigned)getpid();
    int64_t before[RAW_COUNTED];
    CU_ASSERT_TRUE_FATAL(raw_count(d.socket, before));
    CU_ASSERT_EQUAL_FATAL(pipe(alive), 0);
    int64_t maps = count_maps();
    enum { AT_ONCE = 5 };
    int *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_NOT_EQUAL_FATAL(rounds, MAP_FAILED);
    for (int done = 0; done < total || (total >= 100 && most <= 3 && done < 20 * total); done += AT_ONCE) {
        pid_t pids[AT_ONCE];
        fflush(NULL);
        for (int i = 0; i < AT_ONCE; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                close(alive[1]);
                library_victim(seed + (unsigned)(done + i) * 7919, alive[0], &rounds[i]);
            }
        }
        for (int i = 0; i < AT_ONCE; i++) {
            usleep((useconds_t)(rand_r(&seed) % 20000 * (1 + done / total)));
            int status = 0;
            if (rand_r(&seed) % 2) { /* in the middle of a frame, or of a lease, or of whatever it does */
                kill(pids[i], SIGSTOP);
                CU_ASSERT_TRUE(waitpid(pids[i], &status, WUNTRACED) == pids[i] && WIFSTOPPED(status));
                CU_ASSERT_TRUE(others_are_served());
                stopped++;
            }
            kill(pids[i], SIGKILL);
            waitpid(pids[i], &status, 0);
            CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            if (rounds[i] > most) most = rounds[i];
        }
        CU_ASSERT_TRUE_FATAL(test_daemon_alive(&d));
    }
    close(alive[1]);
    close(alive[0]);
    printf("\n    %d clients, %d stopped before, up to %d rounds ", total, stopped, most);
    CU_ASSERT_TRUE(most > 3 || total < 100);
    CU_ASSERT_TRUE(raw_count_again(d.socket, before));
    CU_ASSERT_TRUE(maps > 0 && count_maps() < maps + MAPS);
    munmap(rounds, 4096);
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
    CU_ASSERT_TRUE(raw_ended(&waiting, TEST_LONG_MS));
    CU_ASSERT_TRUE(raw_ended(&reading, TEST_LONG_MS));
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
                   {"clients of the library, on rings, leave nothing either", library_killed_at_random},
                   {"a killed daemon is noticed", daemon_killed})
