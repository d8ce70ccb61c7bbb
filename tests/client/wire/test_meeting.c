/* Private daemons: which processes meet in one, where it lies, how long it lives.
 *
 * Each test runs a program of its own: a process that TENSORD_BELOW cuts off from this one, so that it is a root, with
 * a fresh runtime directory. Invariant: when it has ended, well or killed, its daemon ends and nothing lies there. */
#include "client/wire/lineage.h"
#include "tests/client/common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the processes of a test tell each other. */
static struct told {
    _Atomic int step, ready;
    _Atomic int daemon[4];
    char path[4][108];
} * told;

static char runtime[64], place[80];

/* In a process that is not the suite's own, instead of an assertion. */
#define NEED(x)                                                                                                        \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #x, td_last_error()->message);             \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)

#define NEED_FAILS(call, code_, text)                                                                                  \
    do {                                                                                                               \
        td_clear_error();                                                                                              \
        (void)(call);                                                                                                  \
        NEED(td_last_error()->code == (code_) && strstr(td_last_error()->message, text));                              \
        td_clear_error();                                                                                              \
    } while (0)

static int prepare(void)
{
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsetenv("TENSORD_SOCKET");
    if (!getenv("TENSORD_DAEMON")) fprintf(stderr, "set TENSORD_DAEMON to the tensord to test (meson test does)\n");
    return told == MAP_FAILED || !getenv("TENSORD_DAEMON");
}

static bool reaches(int step)
{
    for (int i = 0; i < TEST_LONG_MS && told->step < step; i++) test_sleep_ms(1);
    return told->step >= step;
}

static bool gone(pid_t pid)
{
    for (int i = 0; i < TEST_LONG_MS / 10 && kill(pid, 0) == 0; i++) test_sleep_ms(10);
    return kill(pid, 0) != 0;
}

/* Connects, and says to which daemon. */
static td_client *meet(int k)
{
    td_client *c = td_connect(NULL);
    if (!c) return NULL;
    snprintf(told->path[k], sizeof told->path[k], "%s", td_socket_path(c));
    told->daemon[k] = (int)td_daemon_pid(c);
    return c;
}

static bool meet_and_go(int k)
{
    td_client *c = meet(k);
    NEED(c);
    td_disconnect(c);
    return true;
}

static pid_t start(bool (*run)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(run() ? 0 : 1);
    return pid;
}

/* ---- a program and what it leaves -------------------------------------------------------------------------------- */

static void begin(void)
{
    snprintf(runtime, sizeof runtime, "/tmp/tensord-runtime-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(runtime));
    snprintf(place, sizeof place, "%s/tensord", runtime);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    memset(told, 0, sizeof *told);
}

static bool (*program)(void);

static bool as_a_program(void)
{
    char parent[16];
    snprintf(parent, sizeof parent, "%d", (int)getppid());
    setenv("TENSORD_BELOW", parent, 1);
    return program();
}

static pid_t start_program(bool (*run)(void))
{
    program = run;
    return start(as_a_program);
}

/* As soon as it is empty. */
static bool is_removed(const char *directory)
{
    int rc = -1;
    for (int i = 0; i < TEST_LONG_MS / 10 && (rc = rmdir(directory)) && errno == ENOTEMPTY; i++) test_sleep_ms(10);
    return rc == 0;
}

/* All daemons have ended, and removed what they listened in. */
static void end(void)
{
    CU_ASSERT_TRUE(is_removed(runtime));
    for (int k = 0; k < 4; k++)
        if (told->daemon[k]) CU_ASSERT_TRUE(gone(told->daemon[k]));
    unsetenv("XDG_RUNTIME_DIR");
}

static void runs_well(bool (*run)(void))
{
    begin();
    CU_ASSERT_TRUE(ended_well(start_program(run)));
    end();
}

/* ---- one process ------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t children;

static void count_child(int s)
{
    (void)s;
    children++;
}

static bool has_a_daemon(void)
{
    struct sigaction counting = {.sa_handler = count_child};
    sigaction(SIGCHLD, &counting, NULL);
    int ends[2]; /* of a pipe that the program forgot to mark close-on-exec */
    NEED(pipe(ends) == 0);
    td_client *c = meet(0);
    NEED(c);
    NEED(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    NEED(getsid(told->daemon[0]) != getsid(0));
    close(ends[1]);
    NEED(poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, TEST_LONG_MS) == 1); /* its end: the daemon does not hold it */
    td_array *x = td_ones(c, td_dims(3), TD_FLOAT32);
    NEED(equals(x, 3, (double[]){1, 1, 1}));
    td_client *second = td_connect(td_socket_path(c));
    NEED(td_daemon_pid(second) == (uint32_t)told->daemon[0]);
    td_release(x);
    td_disconnect(c);
    NEED(td_sync(second) == TD_OK);
    td_disconnect(second);
    NEED(meet_and_go(1) && told->daemon[1] == told->daemon[0]); /* it is there as long as this process is */
    NEED(children == 0);
    return true;
}

static void a_private_daemon_comes_and_goes(void)
{
    runs_well(has_a_daemon);
}

static unsigned long long began(pid_t pid)
{
    char line[512] = {0}, path[40];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    const char *at = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    for (int i = 0; at && i < 20; i++) at = strchr(at + 1, ' ');
    if (f) fclose(f);
    return at ? strtoull(at, NULL, 10) : 0;
}

/* A socket that never takes who comes, where a process's private daemon would listen. */
static int stopped_daemon(pid_t pid, unsigned long long since, char directory[100])
{
    snprintf(directory, 100, "%s/%d-%llu", place, (int)pid, since);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.90s/socket", directory);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mkdir(place, 0700);
    return !mkdir(directory, 0700) && !bind(s, (struct sockaddr *)&at, sizeof at) && !listen(s, 8) ? s : -1;
}

static bool remove_daemon(int s, const char *directory)
{
    char path[120];
    snprintf(path, sizeof path, "%s/socket", directory);
    close(s);
    return (unlink(path) | rmdir(directory)) == 0;
}

/* It looks about once a second, also when a daemon there is stopped and has no room for connections any more. */
static bool asks_in_a_loop(void)
{
    char directory[100];
    const char *names[] = {"no/such", "nor/such"};
    td_client *c = meet(0);
    NEED(c);
    int elsewhere = stopped_daemon(getppid(), began(getppid()), directory), came = 0;
    NEED(elsewhere >= 0);
    uint64_t from = test_now_ms();
    for (int i = 0; i < 40; i++) {
        NEED(!td_open(c, names[i % 2], 0) && td_last_error()->code == TD_E_NOT_FOUND);
        NEED(strstr(td_last_error()->message, "start tensord before"));
        NEED(i || strstr(td_last_error()->message, "1 other daemon of yours did not answer"));
        td_clear_error();
    }
    for (int s; (s = accept(elsewhere, NULL, NULL)) >= 0; came++) close(s);
    NEED(came > 0 && (uint64_t)came <= 2 + (test_now_ms() - from) / 500);
    NEED(remove_daemon(elsewhere, directory));
    td_disconnect(c);
    return true;
}

static void a_name_is_looked_for_elsewhere_but_seldom(void)
{
    runs_well(asks_in_a_loop);
}

/* Another connection has nothing of what is gone: that says whose daemon it was, whatever it stands beside. */
static bool loses_its_daemon(void)
{
    char whose[40];
    td_client *c = meet(0), *again = NULL;
    td_array *old = td_ones(c, td_dims(3), TD_FLOAT32), *new = NULL;
    td_queue *q = td_queue_open(c, "jobs", 4, TD_PRODUCER | TD_CONSUMER);
    uint64_t version = 0;
    NEED(td_publish_tree(c, "w", td_arrays(old), NULL, 0, 0, &version) == TD_OK);
    kill(told->daemon[0], SIGKILL);
    NEED(gone(told->daemon[0]));
    snprintf(whose, sizeof whose, "(pid %d)", (int)getpid());
    NEED_FAILS(td_item_f64(td_sum(old)), TD_E_LOST, whose);
    NEED((again = meet(1)) && told->daemon[1] != told->daemon[0]);
    new = td_ones(again, td_dims(3), TD_FLOAT32);
    NEED_FAILS(td_add(old, new), TD_E_LOST, "td_connect()");
    NEED_FAILS(td_add(new, old), TD_E_LOST, "td_connect()");
    NEED_FAILS(td_queue_put(q, td_arrays(new), NULL, 0, -1), TD_E_LOST, "td_connect()");
    NEED(equals(new, 3, (double[]){1, 1, 1}));
    td_queue_item item;
    NEED_FAILS(td_open_tree(again, "w", version, -1, &item, NULL), TD_E_CLOSED, "began anew");
    NEED_FAILS(td_open_tree(again, "w", 0, 0, &item, NULL), TD_E_NOT_FOUND, "'w'");
    td_queue_close(q, false);
    td_release(old), td_release(new);
    td_disconnect(c), td_disconnect(again);
    return true;
}

static void after_a_killed_daemon_there_is_another(void)
{
    runs_well(loses_its_daemon);
}

static void a_daemon_that_does_not_start_is_told(void)
{
    begin();
    char *daemon = strdup(getenv("TENSORD_DAEMON"));
    setenv("TENSORD_DAEMON", "/bin/false", 1);
    CHECK_FAILS(td_connect(NULL), TD_E_LOST, "handshake");
    setenv("TENSORD_DAEMON", "/nonexistent/tensord", 1);
    CHECK_FAILS(td_connect(NULL), TD_E_NOT_FOUND, "/nonexistent/tensord");
    setenv("TENSORD_DAEMON", "none", 1);
    CHECK_FAILS(td_connect(NULL), TD_E_NOT_FOUND, "start tensord");
    setenv("TENSORD_DAEMON", daemon, 1);
    free(daemon);
    end();
}

static void heard(int signal)
{
    (void)signal;
}

static bool meets_between_signals(void)
{
    struct sigaction a = {.sa_handler = heard}; /* calls do not go on by themselves */
    NEED(sigaction(SIGALRM, &a, NULL) == 0 && reaches(1));
    told->ready = 1;
    return meet_and_go(0);
}

/* While another process makes or removes a socket there, whatever signals come. */
static void a_lock_is_waited_for_through_signals(void)
{
    enum { SIGNALS = 200 };
    begin();
    pid_t pid = start_program(meets_between_signals);
    td_relative root;
    char directory[120];
    CU_ASSERT_TRUE_FATAL(td_relative_look(pid, &root));
    snprintf(directory, sizeof directory, "%s/%d-%llu", place, (int)pid, root.began);
    CU_ASSERT_TRUE(mkdir(place, 0700) == 0 && mkdir(directory, 0700) == 0);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX), 0);
    told->step = 1;
    for (int i = 0; i < TEST_LONG_MS && !told->ready; i++) test_sleep_ms(1);
    CU_ASSERT_TRUE(told->ready);
    for (int i = 0; i < SIGNALS; i++) {
        CU_ASSERT_EQUAL(kill(pid, SIGALRM), 0);
        test_sleep_ms(1);
    }
    CU_ASSERT_EQUAL(told->path[0][0], 0);
    close(fd);
    CU_ASSERT_TRUE(ended_well(pid));
    CU_ASSERT_NOT_EQUAL(told->path[0][0], 0);
    end();
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Others may look into it, so it may be somebody else's doing: the next place is taken. */
static bool finds_its_place_open(void)
{
    NEED(mkdir(place, 0755) == 0);
    NEED(meet_and_go(0) && !strstr(told->path[0], runtime));
    NEED(meet_and_go(1) && strcmp(told->path[0], told->path[1]) == 0);
    NEED(rmdir(place) == 0);
    return true;
}

static void a_place_that_is_open_is_left_alone(void)
{
    runs_well(finds_its_place_open);
}

static bool has_a_place(void)
{
    return meet_and_go(0);
}

/* A socket's path has 107 bytes at most. In a place that is too long for one nothing is made: the next is taken. */
static void a_place_that_is_too_long_is_left_alone(void)
{
    begin();
    char directory[120];
    int there = 0, elsewhere = 0;
    for (int n = 60; n < 110; n += 3) { /* bytes of the place; the rest names the process */
        snprintf(directory, sizeof directory, "%s/", runtime);
        memset(directory + strlen(directory), 'x', sizeof directory - strlen(directory));
        directory[n - (int)strlen("/tensord")] = 0;
        CU_ASSERT_EQUAL_FATAL(mkdir(directory, 0700), 0);
        setenv("XDG_RUNTIME_DIR", directory, 1);
        CU_ASSERT_TRUE(ended_well(start_program(has_a_place)));
        *(strstr(told->path[0], directory) ? &there : &elsewhere) += 1;
        CU_ASSERT_TRUE(is_removed(directory));
    }
    CU_ASSERT_TRUE(there > 0 && elsewhere > 0);
    end();
}

/* Another process had this one's number before, and left a socket. */
static bool has_a_number_again(void)
{
    char directory[100];
    int s = stopped_daemon(getpid(), began(getpid()) - 1, directory);
    NEED(s >= 0);
    NEED(meet_and_go(0) && !strstr(told->path[0], directory));
    NEED(accept(s, NULL, NULL) < 0);
    NEED(remove_daemon(s, directory));
    return true;
}

static void a_number_that_comes_again_is_another_process(void)
{
    runs_well(has_a_number_again);
}

/* An empty /tmp, but for the tree in which the daemon's program may lie. */
static bool empties_tmp(void)
{
    char kept[108], tree[40];
    const char *daemon = getenv("TENSORD_DAEMON");
    bool there = strncmp(daemon, "/tmp/", 5) == 0;
    snprintf(kept, sizeof kept, "%.*s", there ? 5 + (int)strcspn(daemon + 5, "/") : 0, daemon);
    int fd = there ? open(kept, O_PATH) : -1;
    NEED(mount("tmp", "/tmp", "tmpfs", 0, NULL) == 0);
    snprintf(tree, sizeof tree, "/proc/self/fd/%d", fd);
    NEED(!there || (mkdir(kept, 0755) == 0 && mount(tree, kept, NULL, MS_BIND | MS_REC, NULL) == 0));
    return true;
}

/* In a view of the file system where no place can be had: another user has the one in /tmp, a file stands at the one at
 * home. */
static bool has_no_place(void)
{
    static char home[80];
    NEED(empties_tmp());
    NEED(access("/run/user", F_OK) || mount("run", "/run/user", "tmpfs", 0, NULL) == 0);
    char taken[40];
    snprintf(taken, sizeof taken, "/tmp/tensord-%u", (unsigned)geteuid());
    NEED(mkdir(taken, 0700) == 0 && chown(taken, 12345, 12345) == 0);
    snprintf(home, sizeof home, "%s/.tensord", getenv("HOME"));
    NEED(mount("home", getenv("HOME"), "tmpfs", 0, NULL) == 0);
    int file = open(home, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    NEED(file >= 0);
    close(file);
    unsetenv("XDG_RUNTIME_DIR");
    td_client *c = meet(0);
    NEED(c);
    NEED(!td_open(c, "no/such", 0) && strstr(td_last_error()->message, "not even those that it starts find it"));
    NEED(strstr(td_last_error()->message, td_socket_path(c)));
    td_disconnect(c);
    return true;
}

/* A program in a view of the file system that is its own. */
static pid_t start_where_it_may_mount(bool (*run)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        program = run;
        bool can =
            geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
        _exit(can && as_a_program() ? 0 : 1);
    }
    return pid;
}

static bool does_nothing(void)
{
    return true;
}

static void runs_well_where_it_may_mount(bool (*run)(void), int times)
{
    if (!ended_well(start_where_it_may_mount(does_nothing))) {
        td_test_skip("it needs a mount namespace");
        return;
    }
    for (int i = 0; i < times; i++) {
        begin();
        CU_ASSERT_TRUE(ended_well(start_where_it_may_mount(run)));
        end();
    }
}

static void a_daemon_without_a_place_says_so(void)
{
    runs_well_where_it_may_mount(has_no_place, 1);
}

/* ---- children before the parent ---------------------------------------------------------------------------------- */

enum { ITEMS = 15 };

/* From a session of its own, with an environment that names no runtime directory. */
static bool puts_items(void)
{
    setsid();
    unsetenv("XDG_RUNTIME_DIR");
    td_client *c = meet(1);
    NEED(c);
    td_queue *q = td_queue_open(c, "early", 20, TD_PRODUCER);
    for (int i = 0; i < ITEMS; i++) NEED(td_queue_put(q, td_arrays(), &i, sizeof i, TEST_LONG_MS) == TD_OK);
    td_queue_close(q, false);
    td_disconnect(c);
    return true;
}

static bool publishes(void)
{
    td_client *c = meet(2);
    NEED(c);
    td_array *x = td_full(c, td_dims(2), 7, TD_FLOAT32);
    NEED(td_publish(x, "early", 0) == TD_OK && td_sync(c) == TD_OK);
    td_release(x);
    td_disconnect(c);
    return true;
}

/* The parent's first call comes when its children have ended: nothing of theirs is lost. */
static bool comes_last(void)
{
    NEED(ended_well(start(puts_items)));
    NEED(ended_well(start(publishes)));
    td_client *c = meet(0);
    NEED(c && told->daemon[1] == told->daemon[0] && told->daemon[2] == told->daemon[0]);
    td_queue *q = td_queue_open(c, "early", 20, TD_CONSUMER);
    for (int i = 0; i < ITEMS; i++) {
        td_queue_item item;
        NEED(td_queue_get(q, &item, TEST_LONG_MS) == TD_OK && *(int *)item.note == i);
        td_queue_item_clear(&item);
    }
    td_array *x = td_open(c, "early", 0);
    NEED(equals(x, 2, (double[]){7, 7}));
    td_release(x);
    td_queue_close(q, false);
    td_disconnect(c);
    return true;
}

static void children_may_come_first(void)
{
    runs_well(comes_last);
}

static bool gets_an_item(void)
{
    td_client *c = meet(0);
    NEED(c);
    td_queue *q = td_queue_open(c, "siblings", 4, TD_CONSUMER);
    td_queue_item item;
    NEED(td_queue_get(q, &item, TEST_LONG_MS) == TD_OK && *(int *)item.note == 5);
    td_queue_item_clear(&item);
    td_queue_close(q, false);
    td_disconnect(c);
    return true;
}

static bool puts_an_item(void)
{
    td_client *c = meet(1);
    NEED(c);
    td_queue *q = td_queue_open(c, "siblings", 4, TD_PRODUCER);
    int five = 5;
    NEED(td_queue_put(q, td_arrays(), &five, sizeof five, TEST_LONG_MS) == TD_OK);
    td_queue_close(q, false);
    td_disconnect(c);
    return true;
}

/* The parent has nothing to do with it. */
static bool has_two_children(void)
{
    pid_t one = start(gets_an_item), other = start(puts_an_item);
    bool well = ended_well(one);
    NEED(ended_well(other) && well && told->daemon[0] == told->daemon[1]);
    return true;
}

static void siblings_meet(void)
{
    for (int i = 0; i < 10; i++) runs_well(has_two_children);
}

static bool first_of_all(void)
{
    NEED(reaches(1));
    return meet_and_go(0);
}

static bool first_too(void)
{
    NEED(reaches(1));
    return meet_and_go(1);
}

static bool all_at_once(void)
{
    pid_t one = start(first_of_all), other = start(first_too);
    told->step = 1;
    bool well = ended_well(one);
    NEED(ended_well(other) && well && meet_and_go(2));
    NEED(told->daemon[0] == told->daemon[1] && told->daemon[0] == told->daemon[2]);
    return true;
}

static void the_first_of_several_starts_it(void)
{
    for (int i = 0; i < 10; i++) runs_well(all_at_once);
}

/* Both come within microseconds. */
static bool comes(int k)
{
    atomic_fetch_add(&told->ready, 1);
    for (uint64_t until = test_now_ms() + TEST_LONG_MS; atomic_load(&told->ready) < 2 && test_now_ms() < until;) {
    }
    return meet_and_go(k);
}

static bool comes_without_an_environment(void)
{
    unsetenv("XDG_RUNTIME_DIR");
    return comes(0);
}

static bool comes_with_one(void)
{
    return comes(1);
}

/* One would take the directory that its environment names, which is the system's, the other the one in /tmp. */
static bool all_at_once_but_differently(void)
{
    char directory[32];
    snprintf(directory, sizeof directory, "/run/user/%u", (unsigned)geteuid());
    mkdir("/run/user", 0755);
    NEED(mount("run", "/run/user", "tmpfs", 0, NULL) == 0 && mkdir(directory, 0700) == 0);
    NEED(empties_tmp());
    setenv("XDG_RUNTIME_DIR", directory, 1);
    pid_t one = start(comes_without_an_environment), other = start(comes_with_one);
    bool well = ended_well(one);
    NEED(ended_well(other) && well && told->daemon[0] == told->daemon[1]);
    return true;
}

static void environments_may_differ(void)
{
    runs_well_where_it_may_mount(all_at_once_but_differently, 60);
}

/* ---- how long it lives ------------------------------------------------------------------------------------------- */

static bool holds_on(void)
{
    td_client *c = meet(0);
    NEED(c);
    told->step = 1;
    NEED(reaches(2));
    td_array *x = td_ones(c, td_dims(2), TD_FLOAT32);
    NEED(equals(x, 2, (double[]){1, 1}));
    td_release(x);
    td_disconnect(c);
    told->step = 3;
    return true;
}

static bool waits_to_be_killed(void)
{
    start(holds_on);
    pause();
    return false;
}

/* The root is killed: its child goes on, and then the daemon ends. */
static void it_outlives_a_killed_root(void)
{
    begin();
    pid_t root = start_program(waits_to_be_killed);
    CU_ASSERT_TRUE(reaches(1));
    kill(root, SIGKILL);
    CU_ASSERT_FALSE(ended_well(root));
    told->step = 2;
    CU_ASSERT_TRUE(reaches(3));
    end();
}

static bool comes_when_the_root_has_gone(void)
{
    NEED(reaches(2));
    NEED(meet_and_go(1) && told->daemon[1] == told->daemon[0]);
    told->step = 3;
    return true;
}

static bool stays(void)
{
    td_client *c = meet(0);
    NEED(c);
    told->step = 1;
    NEED(reaches(3));
    td_disconnect(c);
    told->step = 4;
    return true;
}

static bool leaves_one_that_stays(void)
{
    setpgid(0, 0);
    start(stays);
    start(comes_when_the_root_has_gone);
    NEED(reaches(1));
    return true;
}

/* A process whose parents have ended finds the daemon by its process group. */
static void an_orphan_finds_it(void)
{
    begin();
    CU_ASSERT_TRUE(ended_well(start_program(leaves_one_that_stays)));
    told->step = 2;
    CU_ASSERT_TRUE(reaches(4));
    end();
}

static bool starts_one_that_leaves(void)
{
    return ended_well(start_program(leaves_one_that_stays));
}

/* It is adopted by a process that has a daemon, too, and cut off from neither. */
static bool adopts(void)
{
    NEED(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    NEED(meet_and_go(2));
    NEED(ended_well(start(starts_one_that_leaves)));
    told->step = 2;
    NEED(reaches(4));
    NEED(told->daemon[2] != told->daemon[0]);
    return true;
}

static void an_adopted_orphan_finds_it(void)
{
    runs_well(adopts);
}

static bool leaves_items(void)
{
    td_client *c = meet(0);
    NEED(c);
    td_queue *q = td_queue_open_keeping(c, "kept", 4, TD_PRODUCER, 1500);
    int five = 5;
    NEED(td_queue_put(q, td_arrays(), &five, sizeof five, TEST_LONG_MS) == TD_OK);
    td_queue_close(q, false);
    td_disconnect(c);
    return true;
}

/* Who knows the socket finds the item, until its time is over. */
static void it_stays_for_items_that_have_time_left(void)
{
    begin();
    CU_ASSERT_TRUE(ended_well(start_program(leaves_items)));
    td_client *c = td_connect(told->path[0]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_queue_state q;
    CU_ASSERT_EQUAL(td_queue_look(c, "kept", &q), TD_OK);
    CU_ASSERT_EQUAL(q.items, 1);
    td_disconnect(c);
    end();
}

/* ---- a root that ends while its daemon starts -------------------------------------------------------------------- */

/* A daemon that begins when the file `path` is there. */
static void write_slow_daemon(const char *script, const char *path)
{
    FILE *f = fopen(script, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fprintf(f, "#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.01; done\nexec %s \"$@\"\n", path, getenv("TENSORD_DAEMON"));
    fclose(f);
    chmod(script, 0755);
}

static bool waits_for_its_start(void)
{
    told->step = 1;
    NEED(meet_and_go(0)); /* the handshake waits */
    told->step = 2;
    return true;
}

static bool leaves_a_child(void)
{
    start(waits_for_its_start);
    NEED(reaches(1));
    return true;
}

static void a_root_that_ends_early(void)
{
    begin();
    char *daemon = strdup(getenv("TENSORD_DAEMON")), script[100], sign[100];
    snprintf(script, sizeof script, "%s/slow", runtime);
    snprintf(sign, sizeof sign, "%s/now", runtime);
    write_slow_daemon(script, sign);
    setenv("TENSORD_DAEMON", script, 1);
    CU_ASSERT_TRUE(ended_well(start_program(leaves_a_child)));
    int fd = open(sign, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE(fd >= 0);
    close(fd);
    CU_ASSERT_TRUE(reaches(2));
    setenv("TENSORD_DAEMON", daemon, 1);
    free(daemon);
    CU_ASSERT_EQUAL(unlink(script) | unlink(sign), 0);
    end();
}

/* ---- who reads a worker's stderr ----------------------------------------------------------------------------------
 */

static int pipe_of_child[2];

static bool writes_to_a_pipe(void)
{
    dup2(pipe_of_child[1], 2);
    close(pipe_of_child[0]);
    close(pipe_of_child[1]);
    return meet_and_go(0);
}

static bool reads_to_the_end(void)
{
    char byte;
    NEED(pipe(pipe_of_child) == 0);
    pid_t child = start(writes_to_a_pipe);
    close(pipe_of_child[1]);
    NEED(ended_well(child));
    NEED(poll(&(struct pollfd){pipe_of_child[0], POLLIN, 0}, 1, TEST_LONG_MS) == 1);
    NEED(read(pipe_of_child[0], &byte, 1) == 0);
    NEED(kill(told->daemon[0], 0) == 0); /* which lives, as this process does */
    return true;
}

static void it_holds_no_worker_s_stderr(void)
{
    runs_well(reads_to_the_end);
}

/* ---- two programs that nobody starts together ----------------------------------------------------------------------
 */

static bool stays_a_producer(void)
{
    td_client *c = meet(0);
    NEED(c);
    td_queue *q = td_queue_open(c, "apart", 4, TD_PRODUCER);
    NEED(q);
    told->step = 1;
    NEED(reaches(2));
    td_queue_close(q, false);
    td_disconnect(c);
    return true;
}

/* A daemon without the queue, or with one that nobody puts into any more: neither is named. */
static bool stays_with(int k, bool ended)
{
    td_client *c = meet(k);
    NEED(c);
    td_queue *from = ended ? td_queue_open(c, "apart", 4, TD_CONSUMER) : NULL;
    td_queue *to = ended ? td_queue_open(c, "apart", 4, TD_PRODUCER) : NULL;
    if (ended) NEED(to && td_queue_put(to, (td_list){0}, "x", 1, 0) == TD_OK && td_queue_close(to, true) == TD_OK);
    atomic_fetch_add(&told->ready, 1);
    NEED(reaches(2));
    td_queue_close(from, false);
    td_disconnect(c);
    return true;
}

static bool stays_without_it(void)
{
    return stays_with(2, false);
}

static bool stays_with_what_ended(void)
{
    return stays_with(3, true);
}

static bool gets_in_vain(void)
{
    int ends[2], shown = dup(2);
    char said[1024] = "", socket[140];
    NEED(pipe(ends) == 0);
    td_client *c = meet(1);
    NEED(c && strcmp(told->path[0], told->path[1]) != 0);
    td_queue *q = td_queue_open(c, "apart", 4, TD_CONSUMER);
    td_queue_item item;
    dup2(ends[1], 2);
    for (int i = 0; i < 2; i++) NEED_FAILS(td_queue_get(q, &item, 1100), TD_E_TIMEOUT, "'apart'");
    dup2(shown, 2);
    td_queue_close(q, false);
    td_disconnect(c);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    NEED(read(ends[0], said, sizeof said - 1) > 0);
    snprintf(socket, sizeof socket, "TENSORD_SOCKET=%s\n", told->path[0]);
    const char *line =
        strstr(said, "get() has waited for a second, and nobody has joined queue 'apart' as a producer. The ");
    NEED(line && strstr(line, socket) && !strchr(strchr(line, '\n') + 1, '\n')); /* once */
    return true;
}

/* Neither finds the other's daemon: the one that waits in vain is told of it. */
static void programs_are_told_of_each_other_s_queues(void)
{
    begin();
    pid_t others[] = {start_program(stays_a_producer), start_program(stays_without_it),
                      start_program(stays_with_what_ended)};
    CU_ASSERT_TRUE(reaches(1));
    for (int i = 0; i < TEST_LONG_MS && told->ready < 2; i++) test_sleep_ms(1);
    CU_ASSERT_TRUE(ended_well(start_program(gets_in_vain)));
    told->step = 2;
    for (int i = 0; i < 3; i++) CU_ASSERT_TRUE(ended_well(others[i]));
    end();
}

TD_CUNIT_MAIN_WITH("client_meeting", prepare, NULL,
                   {"a private daemon comes and goes", a_private_daemon_comes_and_goes},
                   {"a name is looked for elsewhere, but seldom", a_name_is_looked_for_elsewhere_but_seldom},
                   {"after a killed daemon there is another", after_a_killed_daemon_there_is_another},
                   {"a daemon that does not start is told", a_daemon_that_does_not_start_is_told},
                   {"a lock is waited for through signals", a_lock_is_waited_for_through_signals},
                   {"a place that is open is left alone", a_place_that_is_open_is_left_alone},
                   {"a place that is too long is left alone", a_place_that_is_too_long_is_left_alone},
                   {"a number that comes again is another process", a_number_that_comes_again_is_another_process},
                   {"a daemon without a place says so", a_daemon_without_a_place_says_so},
                   {"children may come first", children_may_come_first}, {"siblings meet", siblings_meet},
                   {"the first of several starts it", the_first_of_several_starts_it},
                   {"environments may differ", environments_may_differ},
                   {"it outlives a killed root", it_outlives_a_killed_root}, {"an orphan finds it", an_orphan_finds_it},
                   {"an adopted orphan finds it", an_adopted_orphan_finds_it},
                   {"it stays for items that have time left", it_stays_for_items_that_have_time_left},
                   {"a root that ends early", a_root_that_ends_early},
                   {"it holds no worker's stderr", it_holds_no_worker_s_stderr},
                   {"programs are told of each other's queues", programs_are_told_of_each_other_s_queues})
