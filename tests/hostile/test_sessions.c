/* Sessions at their edges: op tables of another version, clones that are not one's own, tens of thousands one after the
 * other, clients that are stopped in the middle of a queue or never take what they asked for, a last word before the
 * end.
 *
 * After each test the daemon must be alive and hold exactly what it held before. */
#include "tests/hostile/counted.h"
#include "tests/hostile/requests.h"
#include "tests/unit/cunit_main.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(void)
{
    return counted_start("256M", "2");
}

static Td__Wire__Hello hello_of(uint32_t protocol, uint64_t table)
{
    Td__Wire__Hello h;
    td__wire__hello__init(&h);
    h.protocol = protocol;
    h.table_hash = table;
    h.program = (char *)"raw";
    return h;
}

/* ---- versions */

/* Told every row of the daemon's table, so that it can find out which differ; shared ops go on working. */
static void another_table(void)
{
    raw r;
    Td__Wire__Hello h = hello_of(TD_PROTOCOL, td_ops_hash + 1);
    CU_ASSERT_TRUE(raw_connect(&r, d.socket));
    Td__Wire__Welcome *w = raw_hello_with(&r, &h);
    CU_ASSERT_PTR_NOT_NULL_FATAL(w);
    CU_ASSERT_EQUAL(w->table_hash, td_ops_hash);
    CU_ASSERT_EQUAL_FATAL(w->n_op_ids, w->n_op_hashes);
    unsigned known = 0, same = 0;
    for (unsigned id = 0; id < td_op_count; id++) known += td_op_by_id(id) != NULL;
    CU_ASSERT_EQUAL(w->n_op_ids, known);
    for (size_t i = 0; i < w->n_op_ids; i++) {
        const td_op *op = td_op_by_id(w->op_ids[i]);
        same += op && op->hash == w->op_hashes[i];
    }
    CU_ASSERT_EQUAL(same, known);
    raw_zeros(&r, 1, 8);
    td_words words = {0};
    op2(&words, TD_OP_ADD, 1, 1, 2);
    CU_ASSERT_EQUAL(code_of(&r, &words), TD_OK);
    uint32_t newer[6] = {4000, 2 | 1 << 12, 6, 1, 1, 3}; /* an op that this daemon has never heard of */
    raw_words(&r, newer, 6, NULL, 0);
    uint32_t code;
    raw_sync(&r, &code);
    CU_ASSERT_TRUE(code != TD_OK && code != TD_E_LOST);
    words = (td_words){0};
    op2(&words, TD_OP_MUL, 2, 2, 4);
    CU_ASSERT_EQUAL(code_of(&r, &words), TD_OK);
    raw_close(&r);
    CU_ASSERT_TRUE(raw_open(&r, d.socket)); /* the same table is not listed */
    raw_close(&r);
    back_to_normal();
}

static void another_protocol(void)
{
    for (uint32_t protocol = 0; protocol < 100; protocol += 33) {
        raw r;
        Td__Wire__Hello h = hello_of(TD_PROTOCOL + 1 + protocol, td_ops_hash);
        CU_ASSERT_TRUE(raw_connect(&r, d.socket));
        CU_ASSERT_PTR_NULL(raw_hello_with(&r, &h));
        CU_ASSERT_PTR_NOT_NULL(strstr(r.gone, "use a client of the same release"));
        raw_close(&r);
    }
    back_to_normal();
}

/* ---- ids */

/* The page of ids that was left empty first is the one that the lowest ids then use. */
static void high_ids_first(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    for (uint32_t page = 1; page < 4; page++) {
        td_words w = {0};
        raw_zeros(&r, page * 1024, 8);
        release(&w, page * 1024);
        CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    }
    raw_zeros(&r, 1, 8);
    CU_ASSERT_TRUE(raw_sync(&r, &(uint32_t){0}));
    raw_close(&r);
    back_to_normal();
}

/* ---- clones */

static bool clones(raw *r, uint32_t session, uint64_t token)
{
    Td__Wire__Hello h = hello_of(TD_PROTOCOL, td_ops_hash);
    h.clone_session = session;
    h.clone_token = token;
    return raw_connect(r, d.socket) && raw_hello_with(r, &h);
}

static void clones_with_wrong_tokens(void)
{
    raw parent, r, ended;
    CU_ASSERT_TRUE(raw_open(&parent, d.socket));
    CU_ASSERT_TRUE(raw_open(&ended, d.socket));
    uint32_t gone = ended.session;
    uint64_t gone_token = ended.token;
    CU_ASSERT_NOT_EQUAL(parent.token, ended.token);
    raw_close(&ended);
    raw_zeros(&parent, 7, 8);
    uint32_t code;
    raw_sync(&parent, &code);
    const struct {
        uint32_t session;
        uint64_t token;
    } wrong[] = {{parent.session, 0},
                 {parent.session, parent.token + 1},
                 {parent.session, ~parent.token},
                 {parent.session, gone_token},
                 {parent.session + 1000, parent.token},
                 {UINT32_MAX, UINT64_MAX},
                 {gone, gone_token}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (wrong[i].session == gone) /* it may take a moment to end */
            for (int k = 0; k < TEST_LONG_MS / 5 && raw_status(&parent, "sessions") > base[0]; k++) test_sleep_ms(5);
        CU_ASSERT_FALSE(clones(&r, wrong[i].session, wrong[i].token));
        CU_ASSERT_PTR_NOT_NULL(strstr(r.gone, "clone"));
        raw_close(&r);
    }
    CU_ASSERT_TRUE(clones(&r, parent.session, parent.token));
    raw_close(&parent);
    td_words w = {0};
    op2(&w, TD_OP_ADD, 7, 7, 8); /* it holds what the parent held */
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    raw_close(&r);
    back_to_normal();
}

/* Another session's view that is declared racy says nothing of whose bytes it shows: what a backward needs and finds
 * overwritten is an error as ever. What was made racy may be stepped on. */
static void a_racy_view(void)
{
    for (int made_racy = 0; made_racy < 2; made_racy++) {
        raw a, b;
        td_words w = {0};
        td_attrs flat;
        int64_t n = 8;
        CU_ASSERT_TRUE_FATAL(raw_open(&a, d.socket));
        raw_zeros(&a, 1, 8);
        full(&w, 2, 8, made_racy ? TD_RM_RACY : 0);
        requires_grad(&w, 1, 1);
        op2(&w, TD_OP_MUL, 1, 2, 3);
        op_with(&w, TD_OP_SUM, 0, NULL, 1, (uint32_t[]){3}, 1, (uint32_t[]){4});
        CU_ASSERT_EQUAL(code_of(&a, &w), TD_OK);

        CU_ASSERT_TRUE_FATAL(clones(&b, a.session, a.token));
        td_attrs_init(&flat);
        td_attrs_ints(&flat, 1, &n);
        td_words_op(&w, td_op_by_id(TD_OP_VIEW), TD_RM_RACY, 0, 0, 1, (uint32_t[]){2}, 1, (uint32_t[]){9}, NULL, &flat,
                    NULL);
        op_with(&w, TD_OP_ADD, TD_RF_OUT, NULL, 2, (uint32_t[]){9, 9}, 1, (uint32_t[]){9});
        CU_ASSERT_EQUAL(code_of(&b, &w), TD_OK);

        control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){4, 0}, 0, NULL, 3, (uint32_t[]){2 | 8, 1, 0});
        CU_ASSERT_EQUAL(code_of(&a, &w), made_racy ? TD_OK : TD_E_VERSION);
        raw_close(&a);
        raw_close(&b);
        back_to_normal();
    }
}

/* ---- many, one after the other */

static void one_after_the_other(void)
{
    enum { LEAST = 1000 };
    const char *text = getenv("TENSORD_SESSIONS");
    int want = text ? atoi(text) : 60000, done = 0;
    uint64_t until = test_now_ms() + (text ? 600000 : 30000); /* a sanitizer's daemon does not get through all */
    raw r;
    uint32_t first = 0;
    for (; done < want && (done <= LEAST || test_now_ms() < until); done++) {
        CU_ASSERT_TRUE_FATAL(raw_open(&r, d.socket));
        if (!first) first = r.session;
        CU_ASSERT_TRUE(r.session != 0 && r.session != UINT32_MAX);
        if (done % 100 == 0) {
            CU_ASSERT_TRUE(raw_zeros(&r, 1, 100));
            CU_ASSERT_TRUE(raw_status(&r, "sessions") < 100);
        }
        raw_close(&r);
    }
    printf("\n    %d sessions\n", done);
    CU_ASSERT_TRUE(done == want || done > LEAST);
    back_to_normal();
}

/* ---- clients that are stopped */

/* A process that joins a queue and gets for ever; the item of one that is stopped is its own. */
static pid_t getter(const char *queue, int ready)
{
    pid_t pid = fork();
    if (pid) return pid;
    raw r;
    if (!raw_open(&r, d.socket) || queue_open(&r, queue, 1, 2) != TD_OK || write(ready, "x", 1) != 1) _exit(1);
    for (uint32_t id = 10;; id++) {
        Td__Wire__Call c;
        Td__Wire__QueueGet q;
        td__wire__call__init(&c);
        td__wire__queue_get__init(&q);
        q.queue = 1, q.n_ids = 1, q.ids = &id, q.timeout_ms = UINT32_MAX;
        c.queue_get = &q;
        Td__Wire__Reply *x = raw_ask(&r, &c);
        if (!x || x->error) _exit(0);
        if (write(ready, "i", 1) != 1) _exit(1);
    }
}

static uint32_t put_in_time(raw *r, uint32_t id, uint32_t timeout_ms)
{
    Td__Wire__Call c;
    Td__Wire__QueuePut q;
    td__wire__call__init(&c);
    td__wire__queue_put__init(&q);
    q.queue = 1, q.n_ids = 1, q.ids = &id, q.timeout_ms = timeout_ms;
    c.queue_put = &q;
    return ask(r, &c);
}

static void stopped_in_a_queue(void)
{
    int ready[2];
    char x;
    raw r, other;
    CU_ASSERT_EQUAL_FATAL(pipe2(ready, O_CLOEXEC), 0);
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    raw_zeros(&r, 1, 100);
    CU_ASSERT_EQUAL(queue_open(&r, "stopped", 1, 2), TD_OK);
    pid_t pid = getter("stopped", ready[1]);
    CU_ASSERT_EQUAL(read(ready[0], &x, 1), 1);
    CU_ASSERT_TRUE(raw_getters_wait(&r, "stopped", 1));
    test_stop(pid);
    CU_ASSERT_EQUAL(put_in_time(&r, 1, TEST_LONG_MS), TD_OK); /* this one is the stopped one's */
    CU_ASSERT_EQUAL(put_in_time(&r, 1, TEST_LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(put_in_time(&r, 1, TEST_LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(put_in_time(&r, 1, 100), TD_E_TIMEOUT); /* full: it waits for nobody longer than it said */
    CU_ASSERT_EQUAL(queue_open(&other, "stopped", 1, 2), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&other, 1, 1, (uint32_t[]){1}), TD_OK); /* another consumer goes on */
    CU_ASSERT_EQUAL(put_in_time(&r, 1, TEST_LONG_MS), TD_OK);
    kill(pid, SIGCONT);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(read(ready[0], &x, 1), 1); /* it has lost nothing */
    CU_ASSERT_TRUE(raw_getters_wait(&r, "stopped", 1));
    test_stop(pid);
    kill(pid, SIGKILL); /* and dies stopped */
    waitpid(pid, NULL, 0);
    CU_ASSERT_TRUE(raw_getters_wait(&r, "stopped", 0));
    CU_ASSERT_EQUAL(put_in_time(&r, 1, TEST_LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(queue_get(&other, 1, 1, (uint32_t[]){2}), TD_OK);
    raw_close(&r);
    raw_close(&other);
    close(ready[0]);
    close(ready[1]);
    back_to_normal();
}

/* Stopped with a thousand values of 40 kB on their way to it. */
static void stopped_with_replies(void)
{
    int ready[2];
    char x;
    CU_ASSERT_EQUAL_FATAL(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        raw r;
        td_words w = {0};
        uint32_t in = 1, rest[2] = {7, 0};
        if (!raw_open(&r, d.socket)) _exit(1);
        raw_zeros(&r, 1, 10000);
        for (int i = 0; i < 1000; i++) control(&w, TD_REC_READ, 0, 1, &in, 0, NULL, 2, rest);
        raw_words(&r, w.at, w.count, NULL, 0);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        raise(SIGSTOP);
        for (int i = 0; i < 1000; i++)
            if (!raw_reply(&r, TEST_LONG_MS)) _exit(2);
        _exit(0);
    }
    CU_ASSERT_EQUAL(read(ready[0], &x, 1), 1);
    raw other;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    uint64_t before = test_now_ms();
    for (int i = 0; i < 100; i++) CU_ASSERT_TRUE(raw_status(&other, "pid") > 0);
    CU_ASSERT_TRUE(test_now_ms() - before < TEST_LONG_MS);
    CU_ASSERT_TRUE(raw_status(&other, "peak_rss_bytes") < (INT64_C(256) << 20));
    int status = -1;
    kill(pid, SIGCONT);
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0); /* every one of them came */
    raw_close(&other);
    close(ready[0]);
    close(ready[1]);
    back_to_normal();
}

/* ---- descriptors on their way */

static uint64_t ask_for_lease(raw *r, uint64_t bytes)
{
    Td__Wire__Call c;
    Td__Wire__Lease l;
    td__wire__call__init(&c);
    td__wire__lease__init(&l);
    l.bytes = bytes;
    c.lease = &l;
    return raw_call(r, &c);
}

/* Segments' descriptors that nobody takes count against everybody: one at a time, and the others get theirs. */
static void never_takes_its_descriptors(void)
{
    enum { N = 12 };
    raw r, other;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    for (int i = 0; i < N; i++) CU_ASSERT_TRUE(ask_for_lease(&r, (uint64_t)1 << (16 + i % 4)) != 0);
    test_sleep_ms(100);
    for (int i = 0; i < N; i++) CU_ASSERT_TRUE(ask_for_lease(&other, (uint64_t)1 << (16 + i % 4)) != 0);
    int got[2] = {0, 0}, descriptors[2] = {0, 0};
    raw *of[2] = {&other, &r};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N; i++) {
            Td__Wire__Reply *x = raw_reply(of[k], TEST_LONG_MS);
            if (!x || x->error || !x->address) continue;
            got[k]++;
            descriptors[k] += raw_fd >= 0;
            CU_ASSERT_EQUAL(raw_fd >= 0, x->address->descriptor);
        }
    CU_ASSERT_EQUAL(got[0], N);
    CU_ASSERT_EQUAL(got[1], N);
    CU_ASSERT_TRUE(descriptors[0] >= 2 && descriptors[1] >= 2);
    raw_close(&r);
    raw_close(&other);
    back_to_normal();
}

/* ---- the end of a connection */

static void last_words(void)
{
    raw other;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    for (int i = 0; i < 100; i++) {
        raw r;
        Td__Wire__Call c;
        Td__Wire__Publish p;
        CU_ASSERT_TRUE(raw_open(&r, d.socket));
        raw_zeros(&r, 1, 10);
        td__wire__call__init(&c);
        td__wire__publish__init(&p);
        p.name = (char *)"last", p.id = 1;
        c.publish = &p;
        raw_call(&r, &c);
        raw_close(&r); /* at once: what was sent still counts */
        uint32_t code = TD_E_NOT_FOUND;
        for (int k = 0; k < TEST_LONG_MS / 2 && code == TD_E_NOT_FOUND; k++) {
            if (k) test_sleep_ms(2);
            code = open_name(&other, "last", 5);
        }
        CU_ASSERT_EQUAL(code, TD_OK);
        CU_ASSERT_EQUAL(drop_name(&other, "last"), TD_OK);
        td_words w = {0};
        release(&w, 5);
        CU_ASSERT_EQUAL(code_of(&other, &w), TD_OK);
    }
    raw_close(&other);
    back_to_normal();
}

/* The same behind an answer that nobody reads any more, and more than the daemon takes in at once. */
static void last_words_behind_an_answer(void)
{
    enum { RECORDS = 2500 };
    raw r, other;
    Td__Wire__Call c;
    Td__Wire__Info info;
    Td__Wire__Publish p;
    CU_ASSERT_TRUE(raw_open(&other, d.socket));
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    test_stop(d.pid);
    td__wire__call__init(&c);
    td__wire__info__init(&info);
    info.id = 1;
    c.info = &info;
    CU_ASSERT_NOT_EQUAL(raw_call(&r, &c), 0);
    td_words w = {0};
    for (int i = 0; i < RECORDS; i++) full(&w, 1, 1, 0), release(&w, 1);
    CU_ASSERT_TRUE(w.count * sizeof *w.at > 100000);
    CU_ASSERT_TRUE(send_all(&r, &w));
    raw_zeros(&r, 1, 10);
    td__wire__call__init(&c);
    td__wire__publish__init(&p);
    p.name = (char *)"behind", p.id = 1;
    c.publish = &p;
    CU_ASSERT_NOT_EQUAL(raw_call(&r, &c), 0);
    raw_close(&r);
    kill(d.pid, SIGCONT);
    uint32_t code = TD_E_NOT_FOUND;
    for (int k = 0; k < TEST_LONG_MS / 2 && code == TD_E_NOT_FOUND; k++, test_sleep_ms(2))
        code = open_name(&other, "behind", 5);
    CU_ASSERT_EQUAL(code, TD_OK);
    CU_ASSERT_EQUAL(drop_name(&other, "behind"), TD_OK);
    raw_close(&other);
    back_to_normal();
}

/* ---- other users, and processes of the same one */

/* In a child of another uid; its answer is the exit status. */
static int as_nobody(int (*child)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534)) _exit(99);
        _exit(child());
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static test_daemon open_to_all; /* where other users can get */

static int is_refused(void)
{
    raw r;
    if (!raw_connect(&r, open_to_all.socket)) return 1;
    if (raw_hello(&r)) return 2;
    return strstr(r.gone, "another user") ? 0 : 3;
}

static int cannot_connect(void)
{
    raw r;
    return raw_connect(&r, open_to_all.socket) || errno != EACCES;
}

static void other_users(void)
{
    if (geteuid() != 0) {
        td_test_skip("only root can be somebody else");
        return;
    }
    const char *tmp = getenv("TMPDIR");
    char *before = tmp ? strdup(tmp) : NULL;
    unsetenv("TMPDIR"); /* it may lie where nobody else can look */
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&open_to_all, (const char *[]){"--memory", "16M", NULL}));
    if (before) setenv("TMPDIR", before, 1);
    free(before);
    CU_ASSERT_EQUAL(as_nobody(cannot_connect), 0);
    CU_ASSERT_EQUAL(chmod(open_to_all.directory, 0755), 0); /* somebody opened all doors */
    CU_ASSERT_EQUAL(chmod(open_to_all.socket, 0666), 0);
    CU_ASSERT_EQUAL(as_nobody(is_refused), 0);
    CU_ASSERT_EQUAL(test_daemon_stop(&open_to_all), 0);
}

/* In a user namespace without a map everybody is called 65534, also who is somebody else outside. */
static int nobody_in_particular(void)
{
    test_daemon own;
    raw r;
    if (unshare(CLONE_NEWUSER) || geteuid() != 65534) return 98;
    unsetenv("TMPDIR");
    if (!test_daemon_start(&own, (const char *[]){"--memory", "16M", NULL})) return 97;
    int rc = !raw_connect(&r, own.socket) ? 1 : raw_hello(&r) ? 2 : strstr(r.gone, "another user") ? 0 : 3;
    raw_close(&r);
    return test_daemon_stop(&own) == 0 ? rc : 96;
}

static void an_ambiguous_user(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(nobody_in_particular());
    int status = -1;
    waitpid(pid, &status, 0);
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (rc == 98) td_test_skip("user namespaces are not granted here");
    else CU_ASSERT_EQUAL(rc, 0);
}

static int looks_into(pid_t pid)
{
    static const char *const files[] = {"mem", "fd", "maps", "environ"};
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
        int fd = open(path, O_RDONLY);
        char x;
        if (fd >= 0 && (i == 1 || read(fd, &x, 1) > 0)) return 10 + i;
        if (fd >= 0) close(fd);
    }
    return 0;
}

/* One that asks for a descriptor again and again, and asks for the next while it takes the last one: each comes. */
static void asks_for_descriptors(void)
{
    enum { N = 4000 };
    raw r;
    Td__Wire__Call c;
    Td__Wire__Map map;
    int came = 0;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_TRUE(raw_zeros(&r, 1, 8));
    td__wire__call__init(&c);
    td__wire__map__init(&map);
    map.id = 1;
    map.descriptor = true;
    c.map = &map;
    for (int i = 0; i < N + 2; i++) {
        if (i < N) raw_call(&r, &c);
        if (i < 2) continue; /* two are under way */
        Td__Wire__Reply *x = raw_reply(&r, TEST_LONG_MS);
        if (!x || x->error || !x->address || !x->address->descriptor || raw_fd < 0) break;
        came++;
        close(raw_fd);
        raw_fd = -1;
    }
    CU_ASSERT_EQUAL(came, N);
    raw_close(&r);
    back_to_normal();
}

/* A daemon of the same user's: its memory and descriptors are closed to the user's other processes. */
static int own_daemon_is_closed(void)
{
    test_daemon own;
    unsetenv("TMPDIR");
    if (access(getenv("TENSORD_DAEMON"), X_OK)) return 98;
    if (!test_daemon_start(&own, (const char *[]){"--memory", "16M", NULL})) return 97;
    int found = looks_into(own.pid);
    return test_daemon_stop(&own) == 0 ? found : 96;
}

static void not_to_be_looked_into(void)
{
    int rc = geteuid() == 0 ? as_nobody(own_daemon_is_closed) : own_daemon_is_closed();
    if (rc == 98 || rc == 99) {
        td_test_skip("another user cannot run the daemon where it was built");
        return;
    }
    CU_ASSERT_EQUAL(rc, 0);
}

/* ---- checkpoints */

static void region(td_words *w, uint32_t id, uint32_t parent)
{
    control(w, TD_REC_REGION, 0, 0, NULL, 0, NULL, 2, (uint32_t[]){id, parent});
}

static void region_end(td_words *w, uint32_t id)
{
    control(w, TD_REC_REGION_END, 0, 0, NULL, 0, NULL, 1, &id);
}

static uint32_t code_of_region(raw *r, uint32_t id, uint32_t parent)
{
    td_words w = {0};
    region(&w, id, parent);
    return code_of(r, &w);
}

static uint32_t code_of_end(raw *r, uint32_t id)
{
    td_words w = {0};
    region_end(&w, id);
    return code_of(r, &w);
}

/* Left open, in any order, more than there may be; the graph goes with the session all the same. */
static void checkpoints_in_disorder(void)
{
    raw r;
    CU_ASSERT_TRUE(raw_open(&r, d.socket));
    CU_ASSERT_EQUAL(code_of_end(&r, 7), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(code_of_region(&r, 2, 1), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(code_of_region(&r, 0, 9), TD_OK);
    for (uint32_t id = 1; id <= 256; id++) CU_ASSERT_EQUAL(code_of_region(&r, id, id - 1), TD_OK);
    CU_ASSERT_EQUAL(code_of_region(&r, 257, 0), TD_E_INVALID);
    CU_ASSERT_EQUAL(code_of_end(&r, 3), TD_OK); /* others lie in it */
    CU_ASSERT_EQUAL(code_of_end(&r, 3), TD_E_NOT_FOUND);
    CU_ASSERT_EQUAL(code_of_region(&r, 256, 0), TD_OK);
    raw_zeros(&r, 1, 8), raw_zeros(&r, 2, 8);
    td_words w = {0};
    chain(&w, 40);
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    w = (td_words){0};
    control(&w, TD_REC_BACKWARD, 0, 2, (uint32_t[]){3, 2}, 0, NULL, 3, (uint32_t[]){8, 1, 0});
    CU_ASSERT_EQUAL(code_of(&r, &w), TD_OK);
    w = (td_words){0};
    region(&w, 5, 0);
    op2(&w, TD_OP_ADD, 3, 99, 50); /* fails in it */
    op2(&w, TD_OP_MUL, 3, 2, 51);
    region_end(&w, 5);
    CU_ASSERT_NOT_EQUAL(code_of(&r, &w), TD_E_LOST);
    raw_close(&r);
    back_to_normal();
}

static const td_test tests[] = {
    {"checkpoints in disorder", checkpoints_in_disorder},
    {"an op table of another version", another_table},
    {"another protocol", another_protocol},
    {"high ids first", high_ids_first},
    {"clones with wrong tokens", clones_with_wrong_tokens},
    {"a racy view of another's tensor", a_racy_view},
    {"tens of thousands one after the other", one_after_the_other},
    {"stopped in a queue", stopped_in_a_queue},
    {"stopped with replies on their way", stopped_with_replies},
    {"never takes its descriptors", never_takes_its_descriptors},
    {"asks for descriptors again and again", asks_for_descriptors},
    {"last words", last_words},
    {"last words behind an answer", last_words_behind_an_answer},
    {"other users", other_users},
    {"an ambiguous user", an_ambiguous_user},
    {"not to be looked into", not_to_be_looked_into},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    return td_tests_run("sessions", start, stop, sizeof tests / sizeof tests[0], tests, argc > 1 ? argv[1] : NULL);
}
