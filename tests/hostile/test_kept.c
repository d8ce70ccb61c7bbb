/* Memory that processes keep mapped: it is bounded and comes back, whether they say so or not.
 *
 * A segment that a process may write to goes to nobody else while it lives and has not said that it unmapped it. So who
 * connects again and again must get the same memory again, and what lies empty must come back on request. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* prlimit */
#endif
#include "client/tensord.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static int start(void) /* each test has a daemon of its own */
{
    return 0;
}

static bool begin(const char *memory, const char *user)
{
    const char *args[] = {"--workers", "1", "--memory", memory, user ? "--user-memory" : NULL, user, NULL};
    return test_daemon_start(&d, args);
}

static void end(void)
{
    CU_ASSERT_EQUAL(test_daemon_stop(&d), 0);
}

static int64_t status(const char *key)
{
    raw r;
    int64_t v = raw_open(&r, d.socket) ? raw_status(&r, key) : -1;
    raw_close(&r);
    return v;
}

static void send_lease(raw *r, uint64_t bytes)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Lease l = TD__WIRE__LEASE__INIT;
    l.bytes = bytes;
    c.lease = &l;
    raw_call(r, &c);
}

static uint32_t lease_reply(raw *r, uint32_t *id)
{
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    *id = x ? x->lease : 0;
    return !x ? TD_E_LOST : x->error ? x->error->code : TD_OK;
}

static uint32_t drop(raw *r, uint32_t id)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__LeaseDrop l = TD__WIRE__LEASE_DROP__INIT;
    l.lease = id;
    c.lease_drop = &l;
    return ask(r, &c);
}

/* Lease and let go: the memory is empty, and this process could still write to it. */
static uint32_t lease_and_drop(raw *r, uint64_t bytes)
{
    uint32_t id, code;
    send_lease(r, bytes);
    code = lease_reply(r, &id);
    return code ? code : drop(r, id);
}

static uint32_t unmapped(raw *r, uint32_t segment)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Unmapped u = TD__WIRE__UNMAPPED__INIT;
    u.segment = segment;
    u.generation = 1;
    c.unmapped = &u;
    return ask(r, &c);
}

/* Wait to be asked to unmap a segment; its number, or 0, also when a call is answered first. */
static uint32_t asked(raw *r)
{
    uint64_t until = test_now_ms() + TEST_LONG_MS;
    td_frame f;
    td_error e = {0};
    while (test_now_ms() < until) {
        if (td_reader_next(&r->reader, &f, &e) > 0) {
            if (f.kind == TD_FRAME_REPLY) return 0;
            if (f.kind != TD_FRAME_EVENT) continue;
            td_arena_reset(&r->arena);
            Td__Wire__Event *v = td__wire__event__unpack(&r->arena.allocator, f.bytes, f.payload);
            if (v && v->unmap_segment) return v->unmap_segment;
            continue;
        }
        struct pollfd p = {r->fd, POLLIN, 0};
        if (poll(&p, 1, 100) > 0 && td_reader_fill(&r->reader, r->fd, true, &e) <= 0) return 0;
    }
    return 0;
}

/* The same when it has been asked by now: what was said before stands before the answer. */
static uint32_t was_asked(raw *r)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Status q = TD__WIRE__STATUS__INIT;
    q.what = (char *)"status";
    c.status = &q;
    return raw_call(r, &c) ? asked(r) : 0;
}

/* Neither does it use up the memory to connect, lease and close again and again ... */
static void coming_again(void)
{
    CU_ASSERT_TRUE_FATAL(begin("600M", NULL));
    for (int i = 0; i < 64; i++) {
        raw r;
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        CU_ASSERT_EQUAL(lease_and_drop(&r, 8 * MIB), TD_OK);
        raw_close(&r);
    }
    CU_ASSERT_TRUE(status("bytes_committed") <= 4 * 8 * MIB); /* the end of one may be seen after the next began */
    end();
}

/* ... nor to have many connections, each of which leases, lets go and says nothing: a user's sessions share a bound. */
static void many_at_once(void)
{
    enum { N = 32 };
    static raw r[N];
    CU_ASSERT_TRUE_FATAL(begin("600M", "32M"));
    for (int i = 0; i < N; i++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
        CU_ASSERT_EQUAL(lease_and_drop(&r[i], 8 * MIB), TD_OK); /* what others of it keep is taken from them */
    }
    CU_ASSERT_TRUE(status("bytes_committed") <= 2 * 32 * MIB + MIB);
    for (int i = 0; i < N; i++) raw_close(&r[i]);
    raw last;
    CU_ASSERT_TRUE_FATAL(raw_open(&last, d.socket)); /* the process itself gets all of it again */
    uint32_t ids[3], code = TD_E_QUOTA;
    for (int i = 0; i < 3; i++) {
        for (int tries = 0; code != TD_OK && tries < 100; tries++) { /* ends are noticed in their own time */
            send_lease(&last, 8 * MIB);
            if ((code = lease_reply(&last, &ids[i]))) test_sleep_ms(20);
        }
        CU_ASSERT_EQUAL(code, TD_OK);
        code = TD_E_QUOTA;
    }
    raw_close(&last);
    end();
}

/* Memory is short: who has some mapped that is empty is asked for it, and its word is taken. */
static void asked_for(void)
{
    raw a, b;
    uint32_t id;
    CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
    CU_ASSERT_EQUAL(lease_and_drop(&a, 40 * MIB), TD_OK);
    send_lease(&b, 40 * MIB);
    uint32_t segment = asked(&a);
    CU_ASSERT_NOT_EQUAL(segment, 0);
    CU_ASSERT_EQUAL(unmapped(&a, segment), TD_OK);
    bool had = lease_reply(&b, &id) == TD_OK;
    if (!had) { /* it waits a moment only: this process may not have run in time */
        send_lease(&b, 40 * MIB);
        had = lease_reply(&b, &id) == TD_OK;
    }
    CU_ASSERT_TRUE(had);
    raw_close(&a);
    raw_close(&b);
    end();
}

/* By how many a large segment is mapped; -1: there is none. */
static int64_t mapped_by(raw *r)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__Status q = TD__WIRE__STATUS__INIT;
    q.what = "segments";
    c.status = &q;
    const Td__Wire__Reply *x = raw_ask(r, &c);
    for (size_t i = 0; x && x->table && i < x->table->n_rows; i++) {
        Td__Wire__Cell **cell = x->table->rows[i]->cells;
        if (cell[2]->integer >= 40 * MIB) return cell[5]->integer;
    }
    return -1;
}

/* Who is asked and says nothing loses it after a moment, pages and all: they are not kept by its mapping, and nobody
 * else finds there what it may write after all. When it uses memory again, it is sent a descriptor again. */
static void asked_and_silent(void)
{
    raw a, b, other;
    uint32_t id;
    struct stat before, after;
    CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    for (int i = 0; i < 3; i++) {
        send_lease(&a, 40 * MIB);
        CU_ASSERT_EQUAL(lease_reply(&a, &id), TD_OK);
        int fd = dup(raw_fd);
        CU_ASSERT_EQUAL(drop(&a, id), TD_OK);
        CU_ASSERT_EQUAL(mapped_by(&other), 1);
        CU_ASSERT_EQUAL(fstat(fd, &before), 0);
        send_lease(&b, 40 * MIB);
        CU_ASSERT_EQUAL(lease_reply(&b, &id), TD_OK);
        for (int k = 0; k < TEST_LONG_MS / 10; k++) { /* a helper does it */
            CU_ASSERT_EQUAL(fstat(fd, &after), 0);
            if (after.st_blocks == 0) break;
            test_sleep_ms(10);
        }
        CU_ASSERT_TRUE(before.st_blocks >= 40 * MIB / 512 && after.st_blocks == 0);
        close(fd);
        CU_ASSERT_EQUAL(drop(&b, id), TD_OK);
        CU_ASSERT_EQUAL(unmapped(&b, 0), TD_OK);
        raw_close(&b);
        CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
        uint32_t segment = asked(&a); /* it says so too late: that hurts nobody */
        CU_ASSERT_EQUAL(unmapped(&a, segment), TD_OK);
    }
    raw_close(&a);
    raw_close(&b);
    raw_close(&other);
    end();
}

/* A long sum over memory that is released behind it, so that this much is held for a while. */
static void hold_for_a_while(raw *r, int64_t bytes)
{
    td_words w = {0};
    td_attrs view, all;
    int64_t size = 1 << 28, stride = 0;
    full(&w, 1, bytes / 4, 0);
    td_attrs_init(&view);
    td_attrs_ints(&view, 1, &size), td_attrs_ints(&view, 1, &stride), td_attrs_int(&view, 0);
    op_with(&w, TD_OP_AS_STRIDED, 0, &view, 1, (uint32_t[]){1}, 1, (uint32_t[]){2});
    release(&w, 1);
    td_attrs_init(&all);
    td_attrs_none(&all), td_attrs_bool(&all, false), td_attrs_none(&all);
    op_with(&w, TD_OP_SUM, 0, &all, 1, (uint32_t[]){2}, 1, (uint32_t[]){3});
    release(&w, 2);
    CU_ASSERT_TRUE(send_all(r, &w));
}

/* The same for one that had to wait for its own quota first. */
static void asked_for_after_the_quota(void)
{
    const char *args[] = {"--workers", "1", "--memory", "64M", "--session-memory", "48M", NULL};
    raw a, b;
    uint32_t id;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, args));
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
    CU_ASSERT_EQUAL(lease_and_drop(&a, 30 * MIB), TD_OK);
    hold_for_a_while(&b, 20 * MIB);
    send_lease(&b, 40 * MIB);
    CU_ASSERT_EQUAL(lease_reply(&b, &id), TD_OK); /* nobody has unmapped it, ... */
    CU_ASSERT_NOT_EQUAL(was_asked(&a), 0);        /* ... but was asked; an idle daemon asks after seconds only */
    raw_close(&a);
    raw_close(&b);
    end();
}

/* Memory is short because some is being made for who uses it for a moment only. (On a slow machine that is too long.)
 */
static bool refused_for_nothing(raw *r, uint32_t *id)
{
    Td__Wire__Reply *x = raw_reply(r, TEST_LONG_MS);
    *id = x ? x->lease : 0;
    return !x || (x->error && strstr(x->error->message, " 0.0 MB in use"));
}

static void made_for_another(void)
{
    raw a, b;
    uint32_t id;
    CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
        CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
        td_words w = {0};
        full(&w, 1, 40 * MIB / 4, 0), release(&w, 1);
        test_stop(d.pid); /* so that it finds both requests */
        CU_ASSERT_TRUE(send_all(&a, &w));
        send_lease(&b, 40 * MIB);
        kill(d.pid, SIGCONT);
        CU_ASSERT_FALSE(refused_for_nothing(&b, &id));
        if (id) CU_ASSERT_EQUAL(drop(&b, id), TD_OK);
        CU_ASSERT_EQUAL(unmapped(&b, 0), TD_OK);
        raw_close(&a);
        raw_close(&b);
    }
    end();
}

/* A client of the library that had much, has let go of it and stands still; later it goes on, and its values are right.
 */
static int stands_still(void)
{
    enum { N = 10 * MIB };
    td_client *c = td_connect(d.socket);
    for (int i = 0; i < 2; i++) {
        td_array *x = td_full(c, td_dims(N), 1.0 + i, TD_FLOAT32);
        float *at = x ? td_write_begin(x, -1) : NULL;
        if (!at || at[0] != (float)(1 + i) || at[N - 1] != (float)(1 + i)) return 1;
        at[1] = 5;
        if (td_write_end(x)) return 4;
        double sum = td_item_f64(td_sum(x));
        if (sum < N * (1.0 + i) + 2 || sum > N * (1.0 + i) + 5) return 2;
        td_release(x);
        if (td_sync(c)) return 3;
        if (i == 0) raise(SIGSTOP);
    }
    td_disconnect(c);
    return 0;
}

static void stopped_with_much(void)
{
    raw b;
    uint32_t id;
    int status;
    CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
    pid_t pid = fork();
    if (pid == 0) _exit(stands_still());
    CU_ASSERT_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    CU_ASSERT_TRUE(WIFSTOPPED(status));
    CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
    send_lease(&b, 40 * MIB);
    CU_ASSERT_EQUAL(lease_reply(&b, &id), TD_OK);
    CU_ASSERT_EQUAL(unmapped(&b, 0), TD_OK);
    raw_close(&b);
    kill(pid, SIGCONT);
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    end();
}

/* Another process gets so much. */
static void another_gets(uint64_t bytes)
{
    pid_t pid = fork(); /* another process */
    if (pid == 0) {
        raw b;
        uint32_t id;
        bool ok = raw_open(&b, d.socket);
        send_lease(&b, bytes);
        _exit(ok && lease_reply(&b, &id) == TD_OK ? 0 : 1);
    }
    int rc = -1;
    CU_ASSERT_EQUAL(waitpid(pid, &rc, 0), pid);
    CU_ASSERT_EQUAL(rc, 0);
}

/* The same once it is there. */
static void others_get(uint64_t bytes)
{
    for (int i = 0; i < 500 && status("bytes_warm") < 40 * MIB && status("bytes_committed") > 2 * MIB; i++)
        test_sleep_ms(10);
    another_gets(bytes);
}

/* A connection is gone, and its process lives: what it looks at stays as it was, however short memory is, and when the
 * daemon has ended. */
static void gone_with_much(void)
{
    uint32_t id;
    struct stat before, after;
    CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
    raw a;
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    send_lease(&a, 40 * MIB);
    CU_ASSERT_EQUAL(lease_reply(&a, &id), TD_OK);
    int fd = dup(raw_fd);
    CU_ASSERT_EQUAL(pwrite(fd, "here", 4, 0), 4);
    CU_ASSERT_EQUAL(fstat(fd, &before), 0);
    raw_close(&a);
    for (int i = 0; i < TEST_LONG_MS / 10 && status("sessions") != 1; i++) test_sleep_ms(10);
    CU_ASSERT_TRUE(status("bytes_committed") >= 40 * MIB);
    raw b;
    CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
    send_lease(&b, 60 * MIB); /* more than its own, which goes on where the other left */
    CU_ASSERT_EQUAL(lease_reply(&b, &id), TD_E_MEMORY);
    raw_close(&b);
    end();
    char text[5] = "";
    CU_ASSERT_EQUAL(pread(fd, text, 4, 0), 4);
    CU_ASSERT_STRING_EQUAL(text, "here");
    CU_ASSERT_EQUAL(fstat(fd, &after), 0);
    CU_ASSERT_EQUAL(after.st_blocks, before.st_blocks);
    close(fd);
}

/* Whoever says before it goes that nothing is mapped any more leaves its memory to all ... */
static void said_at_the_end(void)
{
    raw a;
    CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    CU_ASSERT_EQUAL(lease_and_drop(&a, 40 * MIB), TD_OK);
    CU_ASSERT_EQUAL(unmapped(&a, 0), TD_OK);
    raw_close(&a);
    others_get(40 * MIB);
    end();
}

/* ... as the library does, by socket or ring, when no handle is left. */
static void the_library_says_so(void)
{
    for (int ring = 0; ring < 2; ring++) {
        CU_ASSERT_TRUE_FATAL(begin("64M", NULL));
        td_client *c = td_connect(d.socket);
        td_lease *l = td_lease_new(c, 40 * MIB);
        unsigned char *at = td_lease_data(l);
        CU_ASSERT_PTR_NOT_NULL(at);
        if (at) *at = 1;
        for (int i = 0; ring && i < 1000; i++) td_sync(c); /* waits bring the ring */
        td_lease_free(l);
        td_disconnect(c);
        others_get(40 * MIB);
        end();
    }
}

/* Nothing happens for a while: what is empty goes back to the system. */
static void idle(void)
{
    raw a;
    CU_ASSERT_TRUE_FATAL(begin("256M", NULL));
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    CU_ASSERT_EQUAL(lease_and_drop(&a, 40 * MIB), TD_OK);
    CU_ASSERT_TRUE(status("bytes_committed") >= 40 * MIB);
    uint32_t segment = asked(&a);
    CU_ASSERT_NOT_EQUAL(segment, 0);
    CU_ASSERT_EQUAL(unmapped(&a, segment), TD_OK);
    int64_t left = INT64_MAX;
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; left > MIB && test_now_ms() < until; test_sleep_ms(200))
        left = status("bytes_committed");
    CU_ASSERT_TRUE(left <= MIB);
    CU_ASSERT_EQUAL(lease_and_drop(&a, 40 * MIB), TD_OK); /* and comes with its descriptor when it is wanted again */
    raw_close(&a);
    end();
}

static uint32_t put_note(raw *r, uint32_t queue, void *note, size_t bytes)
{
    Td__Wire__Call c = TD__WIRE__CALL__INIT;
    Td__Wire__QueuePut q = TD__WIRE__QUEUE_PUT__INIT;
    q.queue = queue, q.note.data = note, q.note.len = bytes;
    c.queue_put = &q;
    return ask(r, &c);
}

/* What items carry beside tensors is the daemon's own memory: who put it pays until it is taken. */
static void notes(void)
{
    enum { NOTE = 512 << 10, MOST = 64 };
    static unsigned char note[NOTE];
    raw a, b;
    CU_ASSERT_TRUE_FATAL(begin("256M", "8M"));
    CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
    CU_ASSERT_TRUE_FATAL(raw_open(&b, d.socket));
    CU_ASSERT_EQUAL(queue_open(&a, "notes", 1, MOST), TD_OK);
    CU_ASSERT_EQUAL(queue_open(&b, "notes", 1, MOST), TD_OK);
    for (int round = 0; round < 3; round++) {
        int in = 0;
        uint32_t code;
        while ((code = put_note(&a, 1, note, NOTE)) == TD_OK && in < MOST) in++;
        CU_ASSERT_EQUAL(code, TD_E_QUOTA);
        CU_ASSERT_TRUE(in >= 12 && in <= (8 << 20) / NOTE);
        while (in--) CU_ASSERT_EQUAL(queue_get(&b, 1, 0, NULL), TD_OK);
    }
    raw_close(&a);
    raw_close(&b);
    end();
}

/* What waits warm for the next who needs memory gives way to connections; and who gets none is told why. */
static void few_descriptors(void)
{
    enum { LIMIT = 200, N = LIMIT + 20, BURST = 40 };
    static raw r[N];
    CU_ASSERT_TRUE_FATAL(begin("256M", NULL));
    struct rlimit few = {LIMIT, LIMIT};
    CU_ASSERT_EQUAL_FATAL(prlimit(d.pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (int i = 0; i < BURST; i++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&r[i], d.socket));
        CU_ASSERT_EQUAL(lease_and_drop(&r[i], MIB), TD_OK);
    }
    for (int i = 0; i < BURST; i++) CU_ASSERT_EQUAL(unmapped(&r[i], 0), TD_OK);
    for (int i = 0; i < BURST; i++) raw_close(&r[i]);
    while (status("sessions") > 1) test_sleep_ms(10);
    CU_ASSERT_TRUE(status("segments_warm") >= BURST / 2);
    int64_t others = status("descriptors") - 2 * status("segments") - 1;
    int served = 0, told = 0;
    for (int i = 0; i < N; i++) {
        bool ok = raw_open(&r[i], d.socket);
        served += ok;
        told += !ok && strstr(r[i].gone, "descriptors") != NULL;
    }
    CU_ASSERT_EQUAL(served + told, N);
    CU_ASSERT_TRUE(served >= LIMIT - others - 1);
    CU_ASSERT_EQUAL(raw_status(&r[0], "descriptors_limit"), LIMIT);
    send_lease(&r[0], MIB);
    Td__Wire__Reply *x = raw_reply(&r[0], TEST_LONG_MS);
    CU_ASSERT_TRUE(x && x->error && x->error->code == TD_E_BUSY && strstr(x->error->message, "descriptors"));
    for (int i = 0; i < N; i++) raw_close(&r[i]);
    end();
}

/* The limit that a shell sets is for who calls select(): the daemon takes what it may have. */
static void a_raised_limit(void)
{
    struct rlimit before, low;
    getrlimit(RLIMIT_NOFILE, &before);
    low = before;
    low.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &low);
    bool ok = begin("64M", NULL);
    setrlimit(RLIMIT_NOFILE, &before);
    CU_ASSERT_TRUE_FATAL(ok);
    int64_t most = before.rlim_max < (1 << 20) ? (int64_t)before.rlim_max : 1 << 20;
    CU_ASSERT_EQUAL(status("descriptors_limit"), most);
    end();
}

/* What the daemon had for many connections goes back to the system when they have gone. */
static void many_have_gone(void)
{
    enum { N = 2000 };
    struct rlimit limit, before;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    td_test_skip("what is freed stays with the sanitizer for a while");
    return;
#endif
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < N + 64) {
        td_test_skip("this machine grants %lu descriptors, %d are needed", (unsigned long)limit.rlim_cur, N + 64);
        return;
    }
    CU_ASSERT_TRUE_FATAL(begin("256M", NULL));
    long first = resident_kb("VmRSS");
    raw *r = calloc(N, sizeof *r);
    for (int i = 0; i < N; i++) CU_ASSERT_TRUE(raw_open(&r[i], d.socket));
    for (uint32_t id = 1; id <= 50; id++)
        for (int i = 0; i < N; i++) raw_zeros(&r[i], id, 4);
    uint32_t code;
    for (int i = 0; i < N; i++) raw_sync(&r[i], &code);
    long most = resident_kb("VmRSS"), last = 0;
    for (int i = 0; i < N; i++) raw_close(&r[i]);
    free(r);
    setrlimit(RLIMIT_NOFILE, &before);
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; test_now_ms() < until; test_sleep_ms(200))
        if ((last = resident_kb("VmRSS")) < first + (most - first) / 4) break;
    printf("\n    resident: %ld kB, with %d connections %ld, afterwards %ld", first, N, most, last);
    CU_ASSERT_TRUE(last < first + (most - first) / 4);
    end();
}

/* Others are at work all the time: so it is not idleness that brings it back. */
static void a_graph_has_gone(void)
{
    enum { NODES = 400000 };
    const char *args[] = {"--workers",      "1",       "--memory", "256M", "--session-objects", "1000000",
                          "--user-objects", "2000000", NULL};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    td_test_skip("what is freed stays with the sanitizer for a while");
    return;
#endif
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, args));
    raw other;
    uint32_t code;
    CU_ASSERT_TRUE_FATAL(raw_open(&other, d.socket));
    td_client *c = td_connect(d.socket);
    td_array *x = td_ones(c, td_dims(1), TD_FLOAT32), *y;
    CU_ASSERT_EQUAL(td_set_requires_grad(x, true), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    long first = resident_kb("VmRSS");
    y = td_neg(x);
    for (int i = 1; i < NODES; i++) {
        td_array *next = td_neg(y);
        td_release(y);
        y = next;
    }
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    long most = resident_kb("VmRSS"), last = 0;
    td_release(y);
    td_release(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; test_now_ms() < until; test_sleep_ms(50)) {
        CU_ASSERT_TRUE_FATAL(raw_sync(&other, &code));
        if ((last = resident_kb("VmRSS")) < first + (most - first) / 3) break;
    }
    printf("\n    resident: %ld kB, with a graph of %d nodes %ld, afterwards %ld", first, NODES, most, last);
    CU_ASSERT_TRUE(most > first + (40 << 10) && last < first + (most - first) / 3);
    td_disconnect(c);
    raw_close(&other);
    end();
}

/* Each segment comes with a descriptor, of which one is on its way at a time. Who takes them late, and asks for nothing
 * else, gets them all soon: a timer alone has the daemon send the next, and it is not left to what else may wake it. */
static void taken_late(void)
{
    enum { N = 60, BYTES = 8 * MIB };
    raw r;
    uint32_t id;
    int came = 0, descriptors = 0;
    CU_ASSERT_TRUE_FATAL(begin("520M", NULL));
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    for (int i = 0; i < N; i++) send_lease(&r, BYTES);
    for (uint64_t until = test_now_ms() + TEST_LONG_MS;
         status("bytes_used") < N * (int64_t)BYTES && test_now_ms() < until;)
        test_sleep_ms(5);
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; came < N && test_now_ms() < until; came++) {
        CU_ASSERT_EQUAL_FATAL(lease_reply(&r, &id), TD_OK);
        descriptors += raw_fd >= 0;
    }
    CU_ASSERT_TRUE(came == N && descriptors > 8);
    raw_close(&r);
    end();
}

static const td_test tests[] = {
    {"connecting, leasing and closing again and again", coming_again},
    {"many connections that lease and let go", many_at_once},
    {"memory is short: what is mapped and empty is asked for", asked_for},
    {"asked, and says nothing", asked_and_silent},
    {"stopped with much", stopped_with_much},
    {"gone with much, while its process lives", gone_with_much},
    {"asked for after the quota", asked_for_after_the_quota},
    {"memory is short while some is made for another", made_for_another},
    {"unmapped at the end: for all", said_at_the_end},
    {"the library says so", the_library_says_so},
    {"notes of items are charged until they are taken", notes},
    {"few descriptors", few_descriptors},
    {"the daemon raises its limit of descriptors", a_raised_limit},
    {"many connections have gone", many_have_gone},
    {"a graph has gone", a_graph_has_gone},
    {"descriptors that are taken late", taken_late},
    {"an idle daemon gives back what is empty", idle},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("kept", start, NULL, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
