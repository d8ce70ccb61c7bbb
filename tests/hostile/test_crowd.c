/* One process with very many connections beside another with one: what the other waits for is counted in turns of the
 * daemon's loop, not in time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* FEW: turns that may pass while the asker itself waits for a processor, still far from one for each connection. */
#if defined(__SANITIZE_THREAD__) /* races need no more */
enum { CROWD = 60, FEWER = 16, FEW = 20 };
#else
enum { CROWD = 300, FEWER = 40, FEW = 30 };
#endif
enum { SYNCS = 20, SUMS = 500, TRIES = 8 };

/* What each of them asks for again and again: an op on a tensor (id 1) of so many elements. */
typedef struct load {
    int connections, records;
    uint32_t elements;
    bool pool; /* for the workers, else small enough for the loop */
} load;

static const load small_ops = {CROWD, 2000, 1000, false}, sums = {FEWER, 100, 400000, true};

static int start(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    return counted_start("1G", "1");
}

static void one_op(td_words *w, const load *l)
{
    td_attrs all;
    td_attrs_init(&all);
    td_attrs_none(&all), td_attrs_bool(&all, false), td_attrs_none(&all);
    if (l->pool) op_with(w, TD_OP_SUM, 0, &all, 1, (uint32_t[]){1}, 1, (uint32_t[]){2});
    else op2(w, TD_OP_ADD, 1, 1, 2);
    release(w, 2);
}

static bool begin(raw *r, const load *l)
{
    td_words w = {0};
    full(&w, 1, l->elements, 0);
    return raw_open(r, d.socket) && send_all(r, &w);
}

/* A frame of it, as it goes over a socket: more than a turn's worth. */
static uint8_t *long_frame(const load *l, size_t *bytes)
{
    td_words w = {0};
    Td__Wire__Batch b = TD__WIRE__BATCH__INIT;
    for (int i = 0; i < l->records; i++) one_op(&w, l);
    b.words = w.at;
    b.n_words = w.count;
    size_t n = td__wire__batch__get_packed_size(&b);
    uint8_t *frame = malloc(TD_FRAME_HEADER + n);
    td_frame_put_header(frame, (uint32_t)n, TD_FRAME_BATCH, 0);
    td__wire__batch__pack(&b, frame + TD_FRAME_HEADER);
    td_words_deinit(&w);
    *bytes = TD_FRAME_HEADER + n;
    return frame;
}

/* Connections that all have more to do than the daemon can, until this process is killed. */
static void crowd(const load *l, int tell)
{
    static raw r[CROWD];
    static struct pollfd p[CROWD];
    static size_t sent[CROWD];
    size_t n;
    uint8_t *frame = long_frame(l, &n);
    for (int i = 0; i < l->connections; i++) {
        if (!begin(&r[i], l)) _exit(1);
        p[i] = (struct pollfd){r[i].fd, POLLOUT, 0};
    }
    for (bool told = false;; told = true) {
        for (int i = 0; i < l->connections; i++) {
            ssize_t m = send(r[i].fd, frame + sent[i], n - sent[i], MSG_DONTWAIT | MSG_NOSIGNAL);
            if (m > 0) sent[i] = (sent[i] + (size_t)m) % n;
        }
        if (!told && write(tell, "", 1) != 1) _exit(1);
        poll(p, (nfds_t)l->connections, -1);
    }
}

static pid_t start_crowd(const load *l)
{
    int ends[2];
    char byte;
    if (pipe(ends)) return -1;
    pid_t child = fork();
    if (child == 0) crowd(l, ends[1]);
    close(ends[1]);
    bool there = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    CU_ASSERT_TRUE(there);
    return child;
}

static void end_crowd(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    back_to_normal();
}

/* Turns of all for each answer that this one gets, at best; until they are few enough. */
static int64_t turns_each(raw *r, int64_t most)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES && least > most; i++) {
        uint32_t code;
        int64_t before = raw_status(r, "turns");
        for (int k = 0; k < SYNCS; k++) CU_ASSERT_TRUE(raw_sync(r, &code));
        int64_t each = (raw_status(r, "turns") - before) / SYNCS;
        CU_ASSERT_TRUE(before > 0);
        if (each < least) least = each;
    }
    return least;
}

/* Whoever asks has its turn after one of each process, not after one of each connection. */
static void beside_many_connections(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
    int64_t alone = turns_each(&r, 2);
    pid_t child = start_crowd(&small_ops);
    int64_t beside = turns_each(&r, FEW);
    printf("turns for an answer: %ld alone, %ld beside %d connections of another\n", (long)alone, (long)beside, CROWD);
    CU_ASSERT_TRUE(alone <= 2);
    CU_ASSERT_TRUE(beside <= FEW);
    raw_close(&r);
    end_crowd(child);
}

/* The same of tasks that the workers ran, for each that it asked for. */
static int64_t tasks_each(raw *r, int64_t most)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES && least > most; i++) {
        uint32_t code;
        td_words w = {0};
        for (int k = 0; k < SUMS; k++) one_op(&w, &sums);
        int64_t before = raw_status(r, "run_pool");
        CU_ASSERT_TRUE(send_all(r, &w) && raw_sync(r, &code));
        int64_t each = (raw_status(r, "run_pool") - before) / SUMS;
        if (each < least) least = each;
    }
    return least;
}

/* And workers are given to processes: half of them here, not one part in FEWER. */
static void beside_many_connections_with_tasks(void)
{
    raw r;
    CU_ASSERT_TRUE_FATAL(begin(&r, &sums));
    int64_t alone = tasks_each(&r, 1);
    pid_t child = start_crowd(&sums);
    int64_t beside = tasks_each(&r, FEWER / 4);
    printf("tasks for each: %ld alone, %ld beside %d connections of another\n", (long)alone, (long)beside, FEWER);
    CU_ASSERT_EQUAL(alone, 1);
    CU_ASSERT_TRUE(beside <= FEWER / 4);
    raw_close(&r);
    end_crowd(child);
}

static const td_test tests[] = {
    {"who has one connection beside one who has hundreds", beside_many_connections},
    {"the same, with tasks for the workers", beside_many_connections_with_tasks},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("crowd", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
