/* Clients without manners: broken frames, foreign ids, odd descriptors, memory rewritten under a kernel, peers that
 * never read.
 *
 * After each test the daemon must be alive, serve a new client, and hold exactly what it held before: sessions,
 * objects, bytes, descriptors, tasks. */
#include "proto/ops/opid.h"
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(void)
{
    return counted_start("64M", "2");
}

/* ---- frames */

static void truncated(void)
{
    Td__Wire__Hello h;
    td__wire__hello__init(&h);
    h.protocol = TD_PROTOCOL;
    h.program = (char *)"cut";
    uint8_t b[128];
    size_t n = td__wire__hello__pack(&h, b + TD_FRAME_HEADER) + TD_FRAME_HEADER;
    td_frame_put_header(b, (uint32_t)(n - TD_FRAME_HEADER), TD_FRAME_HELLO, 0);
    for (size_t cut = 0; cut < n; cut++) {
        raw r;
        CU_ASSERT_TRUE(raw_connect(&r, d.socket));
        raw_bytes(&r, b, cut);
        raw_close(&r);
    }
    back_to_normal();
}

static void broken_headers(void)
{
    static const struct {
        uint8_t h[8];
        const char *what;
    } cases[] = {{{0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0}, "4 GiB"},
                 {{1, 0, 0, 1, 2, 0, 0, 0}, "just too long"},
                 {{0, 0, 0, 0, 2, 0, 2, 0}, "two descriptors"},
                 {{0, 0, 0, 0, 2, 0, 1, 0}, "a descriptor that is not there"},
                 {{0, 0, 0, 0, 2, 0, 0, 7}, "reserved byte"},
                 {{0, 0, 0, 0, 99, 0, 0, 0}, "unknown kind"},
                 {{0, 0, 0, 0, 17, 0, 0, 0}, "the daemon's own kind"},
                 {{0, 0, 0, 0, 1, 0, 0, 0}, "a second hello"},
                 {{3, 0, 0, 0, 2, 0, 0, 0}, "three bytes of nonsense"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        raw r;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        raw_bytes(&r, cases[i].h, 8);
        raw_bytes(&r, "\xff\xff\xff", 3);
        if (!raw_ended(&r, TEST_LONG_MS)) printf("\n    not refused: %s\n", cases[i].what);
        CU_ASSERT_TRUE(strstr(r.gone, "end of file") != r.gone); /* it said why */
        raw_close(&r);
    }
    back_to_normal();
}

static void before_hello(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_connect(&r, d.socket));
    uint32_t nop[3] = {TD_REC_RELEASE, 0, 3};
    raw_words(&r, nop, 3, NULL, 0);
    CU_ASSERT_TRUE(raw_ended(&r, TEST_LONG_MS));
    raw_close(&r);
    back_to_normal();
}

static void random_bytes(void)
{
    unsigned seed = 12345;
    for (int i = 0; i < 200; i++) {
        raw r;
        uint8_t b[512];
        for (size_t k = 0; k < sizeof b; k++) b[k] = (uint8_t)rand_r(&seed);
        CU_ASSERT_TRUE(i % 2 ? raw_open(&r, d.socket) : raw_connect(&r, d.socket));
        if (i % 4 == 1) td_frame_put_header(b, sizeof b - 8, TD_FRAME_BATCH, 0);
        if (i % 4 == 3) td_frame_put_header(b, sizeof b - 8, TD_FRAME_CALL, 0);
        raw_bytes(&r, b, sizeof b);
        raw_close(&r);
    }
    back_to_normal();
}

/* A frame of empty submessages must not become many times its size. */
static void empty_submessages(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    size_t n = 1 << 20;
    uint8_t *b = malloc(n);
    for (size_t i = 0; i < n; i += 2) b[i] = 3 << 3 | 2, b[i + 1] = 0; /* sites: {} */
    raw_frame(&r, TD_FRAME_BATCH, b, n);
    raw_ended(&r, TEST_LONG_MS);
    raw_close(&r);
    free(b);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_status(&r, "peak_rss_bytes") < (INT64_C(220) << 20));
    raw_close(&r);
    back_to_normal();
}

static void random_records(void)
{
    unsigned seed = 99;
    for (int i = 0; i < 300; i++) {
        raw r;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        raw_zeros(&r, 1, 16);
        raw_zeros(&r, 2, 16);
        for (int k = 0; k < 20; k++) {
            uint32_t w[24];
            unsigned n = 3 + (unsigned)rand_r(&seed) % 20;
            for (unsigned j = 0; j < n; j++) w[j] = (uint32_t)rand_r(&seed) % 64;
            unsigned nin = (unsigned)rand_r(&seed) % 4, nout = (unsigned)rand_r(&seed) % 3;
            w[0] = (uint32_t)(rand_r(&seed) % 3 ? rand_r(&seed) % 470 : TD_REC_FIRST + rand_r(&seed) % 20) |
                   (uint32_t)(rand_r(&seed) % 16) << 16;
            w[1] = nin | nout << 12;
            w[2] = n;
            raw_words(&r, w, n, "abcdefgh", 8);
        }
        raw_close(&r);
    }
    back_to_normal();
}

/* ---- ids */

static uint32_t add_record(uint32_t *w, uint32_t x, uint32_t y, uint32_t out)
{
    w[0] = TD_OP_ADD;
    w[1] = 2 | 1 << 12;
    w[2] = 6;
    w[3] = x;
    w[4] = y;
    w[5] = out;
    return 6;
}

/* Send one add, sync; the code the sync tells. */
static uint32_t add_code(raw *r, uint32_t x, uint32_t y, uint32_t out)
{
    uint32_t w[6], code;
    add_record(w, x, y, out);
    raw_words(r, w, 6, NULL, 0);
    raw_sync(r, &code);
    return code;
}

static void strange_ids(void)
{
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    raw_zeros(&r, 1, 8);
    raw_zeros(&other, 77, 8);
    CU_ASSERT_EQUAL(add_code(&r, 1, 1, 2), TD_OK);
    CU_ASSERT_EQUAL(add_code(&r, 1, 99, 3), TD_E_NOT_FOUND);    /* never was */
    CU_ASSERT_EQUAL(add_code(&r, 1, 77, 4), TD_E_NOT_FOUND);    /* another session's */
    CU_ASSERT_EQUAL(add_code(&r, 3, 1, 5), TD_E_NOT_FOUND);     /* the first cause, not a new one */
    CU_ASSERT_EQUAL(add_code(&r, 1, 1, 2), TD_E_EXISTS);        /* output in use */
    CU_ASSERT_EQUAL(add_code(&r, 1, 1, TD_MAX_ID), TD_E_QUOTA); /* far too sparse */
    CU_ASSERT_EQUAL(add_code(&r, 1, 1, 6), TD_OK);              /* and still works */
    raw_close(&other);
    uint32_t w[6];
    add_record(w, 1, 1, TD_MAX_ID + 1);
    raw_words(&r, w, 6, NULL, 0);
    CU_ASSERT_TRUE(raw_ended(&r, TEST_LONG_MS)); /* out of range: the protocol is broken */
    raw_close(&r);
    back_to_normal();
}

/* Clients send what it is made of. */
static void made_of_ops(void)
{
    raw r;
    uint32_t w[6], code;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 8);
    add_record(w, 1, 1, 2);
    w[0] = TD_OP_MATMUL;
    raw_words(&r, w, 6, NULL, 0);
    CU_ASSERT_FALSE(raw_sync(&r, &code));
    CU_ASSERT_EQUAL(code, TD_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(add_code(&r, 2, 1, 3), TD_E_UNSUPPORTED); /* its result has that cause */
    CU_ASSERT_EQUAL(add_code(&r, 1, 1, 4), TD_OK);
    raw_close(&r);
    back_to_normal();
}

static void wrong_counts(void)
{
    for (uint32_t bad = 0; bad < 6; bad++) {
        raw r;
        uint32_t w[6];
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        raw_zeros(&r, 1, 8);
        add_record(w, 1, 1, 2);
        if (bad == 0) w[2] = 5;
        if (bad == 1) w[2] = 7;
        if (bad == 2) w[2] = UINT32_MAX;
        if (bad == 3) w[1] = 0xffffffff;
        if (bad == 4) w[2] = 0;
        if (bad == 5) w[0] = TD_REC_FIRST + 0xfff - 0xf00;
        raw_words(&r, w, 6, NULL, 0);
        CU_ASSERT_TRUE(raw_ended(&r, TEST_LONG_MS));
        raw_close(&r);
    }
    back_to_normal();
}

/* ---- shapes and places */

static uint32_t control_code(raw *r, unsigned rec, uint32_t out, int nrest, const uint32_t *rest, const void *data,
                             size_t ndata)
{
    td_words w = {0};
    uint32_t code;
    td_words_control(&w, rec, 0, 0, 0, NULL, out ? 1 : 0, &out, nrest, rest, NULL);
    raw_words(r, w.at, w.count, data, ndata);
    td_words_deinit(&w);
    raw_sync(r, &code);
    return code;
}

static void shapes_that_overflow(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    static const int64_t sizes[] = {-1, INT64_MAX, INT64_MIN, INT64_C(1) << 62, INT64_C(1) << 32, INT64_C(1) << 40};
    uint32_t id = 10;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t rest[6] = {TD_FLOAT32 | 2 << 8};
        td_words_put_u64(rest + 1, (uint64_t)sizes[i]);
        td_words_put_u64(rest + 3, (uint64_t)sizes[i]);
        CU_ASSERT_NOT_EQUAL(control_code(&r, TD_REC_DATA, id++, 6, rest, "abcd", 4), TD_OK);
        int64_t shape[2] = {sizes[i], sizes[i]};
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_ints(&a, 2, shape);
        td_attrs_scalar(&a, td_float(1));
        td_attrs_dtype(&a, TD_FLOAT64);
        td_words w = {0};
        uint32_t code;
        td_words_op(&w, td_op_by_id(TD_OP_FULL), 0, 0, 0, 0, NULL, 1, &id, NULL, &a, NULL);
        raw_words(&r, w.at, w.count, NULL, 0);
        td_words_deinit(&w);
        id++;
        raw_sync(&r, &code);
        CU_ASSERT_NOT_EQUAL(code, TD_OK);
        CU_ASSERT_NOT_EQUAL(code, TD_E_LOST);
    }
    uint32_t rest[3] = {77 | 0 << 8, 0, 0}; /* no such dtype */
    CU_ASSERT_EQUAL(control_code(&r, TD_REC_DATA, id++, 2, rest, "abcd", 4), TD_E_TYPE);
    enum { LARGE = 8 << 20 };
    char *large = calloc(LARGE, 1); /* to be copied here and now */
    uint32_t whole[4] = {TD_FLOAT32 | 1 << 8, LARGE / 4, 0, 0};
    CU_ASSERT_EQUAL(control_code(&r, TD_REC_DATA, id++, 4, whole, large, LARGE), TD_E_INVALID);
    free(large);
    uint32_t many[2] = {TD_FLOAT32 | 200 << 8, 0}; /* 200 dimensions */
    CU_ASSERT_EQUAL(control_code(&r, TD_REC_DATA, id++, 2, many, "abcd", 4), TD_E_PROTOCOL);
    raw_close(&r);
    back_to_normal();
}

static uint32_t lease(raw *r, uint64_t bytes)
{
    Td__Wire__Call c;
    Td__Wire__Lease l;
    td__wire__call__init(&c);
    td__wire__lease__init(&l);
    l.bytes = bytes;
    c.lease = &l;
    Td__Wire__Reply *x = raw_ask(r, &c);
    return x && !x->error ? x->lease : 0;
}

static uint32_t put_code(raw *r, uint32_t lease_id, uint64_t offset, int64_t n, uint32_t out)
{
    uint32_t rest[6] = {lease_id};
    td_words_put_u64(rest + 1, offset);
    rest[3] = TD_FLOAT32 | 1 << 8;
    td_words_put_u64(rest + 4, (uint64_t)n);
    return control_code(r, TD_REC_PUT, out, 6, rest, NULL, 0);
}

static void leases_at_their_edges(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    uint32_t l = lease(&r, 4096);
    CU_ASSERT_NOT_EQUAL_FATAL(l, 0);
    CU_ASSERT_EQUAL(put_code(&r, l + 1, 0, 4, 1), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(put_code(&r, l, 0, 1025, 2), TD_E_INVALID);
    CU_ASSERT_EQUAL(put_code(&r, l, 4, 1024, 3), TD_E_INVALID);
    CU_ASSERT_EQUAL(put_code(&r, l, 2, 8, 4), TD_E_INVALID); /* not a multiple of the element */
    CU_ASSERT_EQUAL(put_code(&r, l, 4100, 0, 5), TD_E_INVALID);
    CU_ASSERT_EQUAL(put_code(&r, l, UINT64_MAX - 3, 4, 6), TD_E_INVALID);
    CU_ASSERT_EQUAL(put_code(&r, l, 0, INT64_MAX / 4, 7), TD_E_SHAPE);
    CU_ASSERT_EQUAL(put_code(&r, l, 0, TD_DESC_BYTES / 4, 17), TD_E_INVALID);
    CU_ASSERT_EQUAL(put_code(&r, l, 4092, 1, 8), TD_OK);       /* the very last element */
    CU_ASSERT_EQUAL(put_code(&r, l, 0, 1, 9), TD_E_NOT_FOUND); /* announced already */
    CU_ASSERT_EQUAL(lease(&r, UINT64_C(1) << 60), 0);
    CU_ASSERT_NOT_EQUAL(lease(&r, 0), 0);
    raw_close(&r);
    back_to_normal();
}

/* ---- descriptors */

static int odd_descriptor(int kind)
{
    int p[2];
    switch (kind) {
    case 0: return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1: return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case 2: return memfd_create("unsealed", MFD_CLOEXEC);
    case 3:
        if (pipe2(p, O_CLOEXEC)) return -1;
        close(p[1]);
        return p[0];
    case 4:
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p)) return -1;
        close(p[1]);
        return p[0];
    default: return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
}

static void unwelcome_descriptors(void)
{
    for (int kind = 0; kind < 6; kind++)
        for (int n = 1; n <= 32; n *= 4) {
            raw r;
            int fds[32];
            CU_ASSERT_TRUE(raw_open(&r, d.socket));
            for (int i = 0; i < n; i++) fds[i] = odd_descriptor(kind);
            uint8_t h[8];
            td_frame_put_header(h, 0, TD_FRAME_BATCH, 1);
            bool sent = raw_bytes_fds(&r, h, 8, fds, n);
            for (int i = 0; i < n; i++) close(fds[i]);
            if (sent)
                CU_ASSERT_TRUE(raw_ended(&r, TEST_LONG_MS)); /* otherwise the kernel refused them for the daemon */
            raw_close(&r);
        }
    back_to_normal();
}

/* A socket that lingers blocks whoever closes it last: that must not be the loop. */
static void lingering_socket(void)
{
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    CU_ASSERT_EQUAL_FATAL(bind(server, (struct sockaddr *)&a, n), 0);
    listen(server, 1);
    getsockname(server, (struct sockaddr *)&a, &n);
    CU_ASSERT_EQUAL_FATAL(connect(client, (struct sockaddr *)&a, n), 0);
    struct linger linger = {1, 2 * TEST_LONG_MS / 1000};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    fcntl(client, F_SETFL, O_NONBLOCK);
    char junk[65536] = {0};
    while (send(client, junk, sizeof junk, MSG_NOSIGNAL) > 0) {
    } /* nobody reads: closing it waits */
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    uint8_t h[8];
    td_frame_put_header(h, 0, TD_FRAME_BATCH, 1);
    raw_bytes_fds(&r, h, 8, &client, 1);
    int forked = fork(); /* close our copy where waiting hurts nobody */
    if (forked == 0) {
        close(client);
        _exit(0);
    }
    fcntl(client, F_SETFL, 0);
    linger.l_onoff = 0;
    uint64_t before = test_now_ms();
    raw other;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    CU_ASSERT_TRUE(raw_status(&other, "pid") > 0);
    CU_ASSERT_TRUE(test_now_ms() - before < TEST_LONG_MS);
    raw_close(&other);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(client);
    close(server);
    waitpid(forked, NULL, 0);
    raw_close(&r);
    back_to_normal();
}

/* ---- memory that is rewritten under a kernel */

static void *rewrite(void *arg)
{
    volatile int64_t *index = ((void **)arg)[0];
    atomic_bool *over = ((void **)arg)[1];
    unsigned seed = 5;
    while (!atomic_load(over))
        for (int i = 0; i < 1024; i++) index[i] = rand_r(&seed) % 3 ? i % 8 : (int64_t)rand_r(&seed) * 1000003;
    return NULL;
}

static void indices_rewritten(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 8);
    uint32_t rest[4] = {TD_INT64 | 1 << 8, 1024, 0, 0};
    int64_t *zeros = calloc(1024, 8);
    CU_ASSERT_EQUAL(control_code(&r, TD_REC_DATA, 2, 4, rest, zeros, 8192), TD_OK);
    free(zeros);
    Td__Wire__Call c;
    Td__Wire__Map map;
    td__wire__call__init(&c);
    td__wire__map__init(&map);
    map.id = 2;
    c.map = &map;
    Td__Wire__Reply *x = raw_ask(&r, &c);
    CU_ASSERT_TRUE_FATAL(x && x->address && x->address->descriptor && raw_fd >= 0);
    char *segment = mmap(NULL, x->address->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, raw_fd, 0);
    CU_ASSERT_NOT_EQUAL_FATAL(segment, MAP_FAILED);
    size_t size = x->address->segment_size;
    atomic_bool over = false;
    void *arg[2] = {segment + x->address->offset, &over};
    pthread_t t;
    pthread_create(&t, NULL, rewrite, arg);
    int failed = 0, worked = 0;
    for (int i = 0; i < 400; i++) {
        td_words w = {0};
        uint32_t in[3] = {1, 2, 1}, out = 3, code;
        td_attrs a;
        td_attrs_init(&a);
        td_attrs_int(&a, 0);
        td_words_op(&w, td_op_by_id(i % 2 ? TD_OP_INDEX_SELECT : TD_OP_GATHER), 0, 0, 0, 2, in, 1, &out, NULL, &a,
                    NULL);
        td_words_control(&w, TD_REC_RELEASE, 0, 0, 1, &out, 0, NULL, 0, NULL, NULL);
        raw_words(&r, w.at, w.count, NULL, 0);
        td_words_deinit(&w);
        raw_sync(&r, &code);
        if (code == TD_OK) worked++;
        else if (code == TD_E_INDEX) failed++;
        else CU_FAIL("an index that changes may only be out of range");
    }
    atomic_store(&over, true);
    pthread_join(t, NULL);
    CU_ASSERT_EQUAL(worked + failed, 400);
    munmap(segment, size);
    raw_close(&r);
    back_to_normal();
}

/* ---- peers that do not read */

static void never_reads(void)
{
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    raw_zeros(&r, 1, 12000);
    fcntl(r.fd, F_SETFL, O_NONBLOCK);
    td_words w = {0};
    uint32_t in = 1, rest[2] = {7, 0};
    for (int i = 0; i < 200; i++) td_words_control(&w, TD_REC_READ, 0, 0, 1, &in, 0, NULL, 2, rest, NULL);
    for (int i = 0; i < 100; i++)
        if (!raw_words(&r, w.at, w.count, NULL, 0)) break; /* 48 kB come back for each of 20,000 */
    td_words_deinit(&w);
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    uint64_t before = test_now_ms();
    for (int i = 0; i < 50; i++) CU_ASSERT_TRUE(raw_status(&other, "pid") > 0);
    CU_ASSERT_TRUE(test_now_ms() - before < TEST_LONG_MS);
    CU_ASSERT_TRUE(raw_status(&other, "peak_rss_bytes") <
                   (INT64_C(256) << 20)); /* it does not hold a gigabyte of replies */
    raw_close(&other);
    raw_close(&r);
    back_to_normal();
}

static void stopped(void)
{
    int ready[2];
    CU_ASSERT_EQUAL_FATAL(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        raw r;
        if (!raw_open(&r, d.socket)) _exit(1);
        raw_zeros(&r, 1, 1000);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) {
            uint32_t code;
            raw_sync(&r, &code);
        }
    }
    char x;
    CU_ASSERT_EQUAL(read(ready[0], &x, 1), 1);
    test_stop(child);
    raw other;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    for (int i = 0; i < 50; i++) CU_ASSERT_TRUE(raw_status(&other, "pid") > 0);
    raw_close(&other);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    back_to_normal();
}

/* ---- very many */

static void many_connects(void)
{
    enum { N = 2000 };
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < N + 64) {
        td_test_skip("this machine grants %lu descriptors, %d are needed", (unsigned long)limit.rlim_cur, N + 64);
        return;
    }
    raw *r = calloc(N, sizeof *r);
    int open = 0, refused = 0;
    for (int i = 0; i < N; i++) CU_ASSERT_TRUE(raw_connect(&r[i], d.socket));
    for (int i = 0; i < N; i++) {
        if (raw_hello(&r[i])) open++;
        else if (r[i].gone[0] && strcmp(r[i].gone, "end of file") != 0) refused++;
    }
    CU_ASSERT_EQUAL(open + refused, N); /* nobody is left without an answer */
    CU_ASSERT_TRUE(open >= 900);
    int served = 0;
    uint32_t code;
    for (int i = 0; i < N; i++) served += r[i].session && raw_sync(&r[i], &code);
    CU_ASSERT_EQUAL(served, open);
    for (int i = 0; i < N; i++) raw_close(&r[i]);
    free(r);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    back_to_normal();
}

static void few_descriptors(void)
{
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = few.rlim_max = 64;
    pid_t child = fork(); /* the limit cannot be raised again */
    if (child == 0) {
        setrlimit(RLIMIT_NOFILE, &few);
        test_daemon small;
        if (!test_daemon_start(&small, NULL)) _exit(10);
        int served = 0, told = 0;
        raw r[40];
        for (int i = 0; i < 40; i++) {
            bool ok = raw_open(&r[i], small.socket);
            served += ok;
            told += !ok && strstr(r[i].gone, "descriptors") != NULL;
        }
        bool ok = served >= 8 && served + told == 40 && raw_status(&r[0], "pid") > 0;
        for (int i = 0; i < 40; i++) raw_close(&r[i]);
        bool again = false; /* there is room when they are noticed to have gone */
        for (int i = 0; i < TEST_LONG_MS / 10 && !again; i++) {
            if (i) test_sleep_ms(10);
            again = raw_open(&r[0], small.socket);
            raw_close(&r[0]);
        }
        ok = ok && again;
        ok = test_daemon_stop(&small) == 0 && ok;
        if (!ok) fprintf(stderr, "served %d, told %d of 40\n", served, told);
        _exit(ok ? 0 : 11);
    }
    int status;
    waitpid(child, &status, 0);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* One element, seen as a plane whose size times four is 0 in 64 bits: what a kernel would take as scratch. */
static void planes_without_end(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    int64_t one[4] = {1, 1, 1, 1}, plane[4] = {1, 1, INT64_C(2147483647), INT64_C(2147483649)};
    const uint32_t ids[] = {1, 2, 3};
    td_words w = {0};
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, 4, one);
    td_attrs_scalar(&a, td_float(1));
    td_attrs_dtype(&a, TD_FLOAT16);
    op_with(&w, TD_OP_FULL, 0, &a, 0, NULL, 1, &ids[0]);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    w = (td_words){0};
    td_attrs_init(&a);
    td_attrs_ints(&a, 4, plane);
    op_with(&w, TD_OP_EXPAND, 0, &a, 1, &ids[0], 1, &ids[1]);
    td_attrs_init(&a);
    td_attrs_ints(&a, 2, plane + 2);
    td_attrs_ints(&a, 2, one);
    td_attrs_ints(&a, 2, (int64_t[]){0, 0});
    td_attrs_bool(&a, false);
    td_attrs_bool(&a, true);
    op_with(&w, TD_OP_AVG_POOL2D, 0, &a, 1, &ids[1], 1, &ids[2]);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_E_SHAPE);
    raw_close(&r);
    back_to_normal();
}

static const td_test tests[] = {
    {"frames cut at every byte", truncated},
    {"broken headers are refused with a reason", broken_headers},
    {"a batch before the hello", before_hello},
    {"random bytes", random_bytes},
    {"a frame of empty submessages stays small", empty_submessages},
    {"random records", random_records},
    {"ids that are not, are foreign, are in use, are sparse", strange_ids},
    {"an op that is made of others", made_of_ops},
    {"records with wrong counts", wrong_counts},
    {"shapes that overflow", shapes_that_overflow},
    {"planes without end", planes_without_end},
    {"leases at their edges", leases_at_their_edges},
    {"descriptors nobody asked for", unwelcome_descriptors},
    {"a lingering socket as a descriptor", lingering_socket},
    {"indices rewritten while a kernel reads them", indices_rewritten},
    {"a client that never reads", never_reads},
    {"a client that is stopped", stopped},
    {"two thousand connects at once", many_connects},
    {"a daemon with 64 descriptors", few_descriptors},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("hostile", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
