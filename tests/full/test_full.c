/* Everything can be full: the daemon's memory, a session's share, a user's share. Each is an error that says so; the
 * others' work goes on, and when something is freed there is room again. */
#include "proto/ops/opid.h"
#include "tests/support/daemon.h"
#include "tests/support/raw.h"
#include "tests/unit/cunit_main.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t last_code;
static char last_message[512];

/* full([n], 1.0, float32) under `id`; then sync. */
static uint32_t make(raw *r, uint32_t id, int64_t n, unsigned mode)
{
    td_words w = {0};
    td_attrs a;
    uint32_t rest[2];
    td_attrs_init(&a);
    td_attrs_ints(&a, 1, &n);
    td_attrs_scalar(&a, td_float(1));
    td_attrs_dtype(&a, TD_FLOAT32);
    td_words_op(&w, td_op_by_id(TD_OP_FULL), mode, 0, 0, 0, NULL, 1, &id, NULL, &a, NULL);
    uint64_t serial = ++r->serial;
    td_words_put_u64(rest, serial);
    td_words_control(&w, TD_REC_SYNC, 0, 0, 0, NULL, 0, NULL, 2, rest, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
    last_code = TD_E_LOST;
    for (Td__Wire__Reply *x; (x = raw_reply(r, TEST_LONG_MS));) {
        if (x->serial != serial) continue;
        last_code = x->error ? x->error->code : 0;
        snprintf(last_message, sizeof last_message, "%s", x->error ? x->error->message : "");
        break;
    }
    return last_code;
}

static void release(raw *r, uint32_t first, uint32_t last)
{
    td_words w = {0};
    for (uint32_t id = first; id <= last; id++)
        td_words_control(&w, TD_REC_RELEASE, 0, 0, 1, &id, 0, NULL, 0, NULL, NULL);
    raw_words(r, w.at, w.count, NULL, 0);
    td_words_deinit(&w);
}

static uint32_t lease_code(raw *r, uint64_t bytes)
{
    Td__Wire__Call c;
    Td__Wire__Lease l;
    td__wire__call__init(&c);
    td__wire__lease__init(&l);
    l.bytes = bytes;
    c.lease = &l;
    Td__Wire__Reply *x = raw_ask(r, &c);
    return !x ? TD_E_LOST : x->error ? x->error->code : 0;
}

/* Tensors of n floats until it is full; how many went in. */
static uint32_t fill(raw *r, int64_t n, unsigned mode)
{
    uint32_t id = 1;
    while (id < 4000 && make(r, id, n, mode) == TD_OK) id++;
    return id - 1;
}

static void with_daemon(const char *const *args, void (*run)(test_daemon *d))
{
    test_daemon d;
    int64_t before[RAW_COUNTED];
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&d, args));
    CU_ASSERT_TRUE_FATAL(raw_count(d.socket, before));
    run(&d);
    CU_ASSERT_TRUE(raw_count_again(d.socket, before));
    CU_ASSERT_EQUAL(test_daemon_stop(&d), 0);
}

static void fill_memory(test_daemon *d)
{
    raw greedy, other;
    CU_ASSERT_TRUE(raw_open(&greedy, d->socket));
    CU_ASSERT_TRUE(raw_open(&other, d->socket));
    CU_ASSERT_EQUAL(make(&other, 1, 1000, 0), TD_OK);
    uint32_t n = fill(&greedy, 1 << 18, 0); /* 1 MiB each */
    CU_ASSERT_TRUE(n >= 16 && n <= 32);
    CU_ASSERT_EQUAL(last_code, TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "biggest holders: raw (pid"));
    CU_ASSERT_EQUAL(make(&other, 2, 1000, 0), TD_OK); /* it has room of its own */
    CU_ASSERT_EQUAL(lease_code(&greedy, 8 << 20), TD_E_MEMORY);
    CU_ASSERT_EQUAL(make(&greedy, 2000, 1 << 22, TD_RM_SERVICE), TD_E_MEMORY);
    release(&greedy, 1, 4);
    CU_ASSERT_EQUAL(make(&greedy, 1, 1 << 18, 0), TD_OK);
    raw_close(&greedy); /* and when it has gone, the other may have it all */
    uint32_t code = TD_E_MEMORY;
    for (int i = 0; i < TEST_LONG_MS / 20 && code; i++) {
        if (i) test_sleep_ms(20);
        code = make(&other, 100 + (uint32_t)i, 4 << 18, 0);
    }
    CU_ASSERT_EQUAL(code, TD_OK);
    raw_close(&other);
}

static void memory(void)
{
    with_daemon((const char *[]){"--memory", "32M", "--workers", "1", NULL}, fill_memory);
}

static void posix_memory(void)
{
    with_daemon((const char *[]){"--memory", "32M", "--workers", "1", "--shm", "posix", NULL}, fill_memory);
}

static void fill_share(test_daemon *d)
{
    raw greedy, other;
    CU_ASSERT_TRUE(raw_open(&greedy, d->socket));
    CU_ASSERT_TRUE(raw_open(&other, d->socket));
    uint32_t n = fill(&greedy, 1 << 18, 0);
    CU_ASSERT_TRUE(n == 7 || n == 8);
    CU_ASSERT_EQUAL(last_code, TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "raw"));
    CU_ASSERT_EQUAL(lease_code(&greedy, 4 << 20), TD_E_QUOTA);
    uint32_t m = fill(&other, 1 << 18, 0);
    CU_ASSERT_TRUE(m == 3 || m == 4); /* the user's share is 12 MiB */
    CU_ASSERT_EQUAL(last_code, TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "uid"));
    release(&greedy, 1, n);
    CU_ASSERT_TRUE(raw_sync(&greedy, &last_code));
    CU_ASSERT_EQUAL(make(&other, 500, 1 << 18, 0), TD_OK);
    raw_close(&greedy);
    raw_close(&other);
}

static void shares(void)
{
    with_daemon((const char *[]){"--memory", "64M", "--session-memory", "8M", "--user-memory", "12M", NULL},
                fill_share);
}

/* Tensors of one element: objects are counted, whatever their bytes. */
static void fill_count(test_daemon *d)
{
    raw greedy, other;
    CU_ASSERT_TRUE(raw_open(&greedy, d->socket));
    CU_ASSERT_TRUE(raw_open(&other, d->socket));
    uint32_t n = fill(&greedy, 1, 0), m;
    CU_ASSERT_TRUE(n > 1000 && n <= 1500);
    CU_ASSERT_EQUAL(last_code, TD_E_QUOTA);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "objects of its 1500"));
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "raw"));
    m = fill(&other, 1, 0);
    CU_ASSERT_TRUE(m > 100 && n + m <= 2000);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "objects of its 2000"));
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "uid"));
    release(&greedy, 1, n);
    CU_ASSERT_TRUE(raw_sync(&greedy, &last_code));
    CU_ASSERT_EQUAL(make(&other, 5000, 1, 0), TD_OK);
    raw_close(&greedy);
    raw_close(&other);
}

static void counts(void)
{
    with_daemon((const char *[]){"--session-objects", "1500", "--user-objects", "2000", NULL}, fill_count);
}

static uint32_t publish(raw *r, const char *name, uint32_t id)
{
    Td__Wire__Call c;
    Td__Wire__Publish p;
    td__wire__call__init(&c);
    td__wire__publish__init(&p);
    p.name = (char *)name;
    p.id = id;
    c.publish = &p;
    Td__Wire__Reply *x = raw_ask(r, &c);
    return x ? x->error ? x->error->code : TD_OK : TD_E_LOST;
}

static uint32_t drop(raw *r, const char *name)
{
    Td__Wire__Call c;
    Td__Wire__Drop d;
    td__wire__call__init(&c);
    td__wire__drop__init(&d);
    d.name = (char *)name;
    c.drop = &d;
    Td__Wire__Reply *x = raw_ask(r, &c);
    return x ? x->error ? x->error->code : TD_OK : TD_E_LOST;
}

/* What is published stays when its session ends, and who wants room is told of it. */
static void fill_names(test_daemon *d)
{
    raw gone, r;
    CU_ASSERT_TRUE(raw_open(&gone, d->socket));
    CU_ASSERT_EQUAL(make(&gone, 1, 4 << 20, 0), TD_OK);
    CU_ASSERT_EQUAL(publish(&gone, "left/behind", 1), TD_OK);
    CU_ASSERT_EQUAL(publish(&gone, "left/again", 1), TD_OK);
    raw_close(&gone);
    CU_ASSERT_TRUE(raw_open(&r, d->socket));
    fill(&r, 1 << 20, 0);
    CU_ASSERT_EQUAL(last_code, TD_E_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "'left/behind' (published by raw, pid "));
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "which has ended) 16.8 MB"));
    CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "raw (pid "));
    CU_ASSERT_EQUAL(drop(&r, "left/behind"), TD_OK);
    CU_ASSERT_EQUAL(drop(&r, "left/again"), TD_OK);
    CU_ASSERT_EQUAL(make(&r, 5000, 1 << 20, 0), TD_OK);
    raw_close(&r);
}

static void names(void)
{
    with_daemon((const char *[]){"--memory", "64M", NULL}, fill_names);
}

static void too_large_for_anybody(test_daemon *d)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d->socket));
    CU_ASSERT_EQUAL(make(&r, 1, INT64_C(1) << 40, 0), TD_E_MEMORY);
    CU_ASSERT_EQUAL(make(&r, 2, 100, 0), TD_OK);
    raw_close(&r);
}

static void too_large(void)
{
    with_daemon((const char *[]){"--memory", "32M", NULL}, too_large_for_anybody);
}

/* A /dev/shm of 4 MB, as small containers have it, in a mount namespace of its own. */
static int in_a_small_shm(void)
{
    test_daemon d;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tensord-test", "/dev/shm", "tmpfs", 0, "size=4m"))
        return 98;
    if (!test_daemon_start(&d, (const char *[]){"--memory", "32M", "--workers", "1", "--shm", "posix", NULL}))
        return 97;
    raw greedy, other;
    bool ok = raw_open(&greedy, d.socket) && raw_open(&other, d.socket) && make(&other, 1, 1000, 0) == TD_OK;
    uint32_t n = fill(&greedy, 1 << 16, 0); /* 256 kB each */
    ok = ok && n >= 4 && n <= 16 && last_code == TD_E_MEMORY && strstr(last_message, "shared memory");
    ok = ok && make(&other, 2, 1000, 0) == TD_OK; /* it has room of its own */
    release(&greedy, 1, 2);
    ok = ok && make(&greedy, 100, 1 << 16, 0) == TD_OK;
    if (!ok) printf("\n    %u fitted, then %u %s\n", n, last_code, last_message);
    raw_close(&greedy);
    raw_close(&other);
    int stopped = test_daemon_stop(&d);
    umount2("/dev/shm", MNT_DETACH);
    return stopped == 0 && ok ? 0 : 1;
}

static void small_shm(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(in_a_small_shm());
    int status = -1;
    waitpid(pid, &status, 0);
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (rc == 98) td_test_skip("only root may mount a small /dev/shm");
    else CU_ASSERT_EQUAL(rc, 0);
}

/* A limit for the size of files (ulimit -f), as batch systems set it: segments are files, and the kernel says so by a
 * signal. */
static void fill_small_files(test_daemon *d)
{
    raw greedy, other;
    CU_ASSERT_TRUE_FATAL(raw_open(&greedy, d->socket) && raw_open(&other, d->socket));
    CU_ASSERT_EQUAL(make(&greedy, 1, 1 << 22, 0), TD_E_MEMORY); /* in one piece: more than a file may have */
    CU_ASSERT_EQUAL(make(&greedy, 2, 1 << 16, 0), TD_OK);
    CU_ASSERT_EQUAL(make(&other, 1, 1000, 0), TD_OK);
    raw_close(&greedy);
    raw_close(&other);
}

static void small_files(void)
{
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){4 << 20, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small); /* the daemon has it, too */
    with_daemon((const char *[]){"--memory", "64M", "--workers", "1", NULL}, fill_small_files);
    setrlimit(RLIMIT_FSIZE, &before);
}

TD_CUNIT_MAIN("full", {"the daemon's memory", memory}, {"the daemon's memory, POSIX segments", posix_memory},
              {"a session's and a user's share", shares}, {"a session's and a user's objects", counts},
              {"what ended sessions published", names}, {"a tensor larger than everything", too_large},
              {"a small /dev/shm", small_shm}, {"small files only", small_files})
