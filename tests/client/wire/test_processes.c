/* libtensord with more than one process: sharing, fork, a daemon that dies. */
#include "client/tensord_bind.h"
#include "tests/client/common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run `child` in a forked process: its exit status. */
static int in_child(bool (*child)(void *), void *context)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(child(context) ? 0 : 1);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* 0 or 1, 2, ... as float32. */
static td_array *counting(td_client *c, int from, int n)
{
    float *v = malloc((size_t)n * sizeof *v);
    for (int i = 0; v && i < n; i++) v[i] = (float)(from + i);
    td_array *a = td_from_data(c, TD_FLOAT32, td_dims(n), v);
    free(v);
    return a;
}

static bool settled_to(td_client *c, const char *key, int64_t want)
{
    for (int i = 0; i < TEST_LONG_MS / 10; i++) {
        if (status_of(c, key) == want) return true;
        test_sleep_ms(10);
    }
    fprintf(stderr, "%s stays at %lld\n", key, (long long)status_of(c, key));
    return false;
}

/* ---- sharing ----------------------------------------------------------------------------------------------------- */

static bool steps_on_shared(void *unused)
{
    (void)unused;
    td_client *c = td_connect(server.socket);
    td_array *w = td_open(c, "w", TEST_LONG_MS);
    bool ok = w && td_add_(w, 1) == TD_OK && td_sync(c) == TD_OK;
    td_release(w);
    td_disconnect(c);
    return ok;
}

static void processes_share_a_tensor(void)
{
    td_client *c = join();
    td_set_service(true);
    td_array *w = td_zeros(c, td_dims(4), TD_FLOAT32);
    td_set_service(false);
    CU_ASSERT_EQUAL(td_publish(w, "w", 0), TD_OK);
    CHECK_FAILS(td_publish(w, "w", 0), TD_E_EXISTS, "w");
    CU_ASSERT_EQUAL(td_publish(w, "w", TD_REPLACE), TD_OK);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(in_child(steps_on_shared, NULL), 0);
    CHECK_VALUES(w, 3, 3, 3, 3);
    CHECK_FAILS(td_write_begin(w, 100), TD_E_PERMISSION, "not this session's");
    td_release(w);
    w = td_open(c, "w", 0);
    CHECK_VALUES(w, 3, 3, 3, 3);
    CU_ASSERT_EQUAL(td_drop(c, "w"), TD_OK);
    td_release(w);
    td_array *mine = td_ones(c, td_dims(4), TD_FLOAT32), *all = td_published(mine, "w", 0);
    CU_ASSERT_PTR_NULL(td_published(mine, "w", 0));
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_EXISTS);
    CU_ASSERT_PTR_NULL(td_published(mine, "lent", TD_LENT));
    td_clear_error();
    CU_ASSERT_EQUAL(in_child(steps_on_shared, NULL), 0);
    CHECK_VALUES(all, 2, 2, 2, 2);
    CHECK_VALUES(mine, 1, 1, 1, 1);
    CU_ASSERT_EQUAL(td_drop(c, "w"), TD_OK);
    td_release(mine);
    td_release(all);
    CU_ASSERT_TRUE(settled_to(c, "tensors", 0));
    td_disconnect(c);
}

static int mapped_segments(void)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "memfd:tensord") != NULL;
    if (f) fclose(f);
    return n;
}

/* A reader's mapping of memory that goes: it is asked to let go, or the memory would stay for it alone. */
static void mappings_go_with_their_memory(void)
{
    td_client *c = join(), *reader = join();
    for (int i = 0; i < 20; i++) td_sync(c), td_sync(reader); /* who waits often maps a ring */
    int before = mapped_segments();
    td_queue *put = td_queue_open(c, "large", 2, TD_PRODUCER), *get = td_queue_open(reader, "large", 2, TD_CONSUMER);
    td_array *x = td_ones(c, td_dims(10 << 20), TD_FLOAT32);
    CU_ASSERT_EQUAL(td_queue_put(put, td_arrays(x), NULL, 0, TEST_LONG_MS), TD_OK);
    td_queue_item item;
    CU_ASSERT_EQUAL_FATAL(td_queue_get(get, &item, TEST_LONG_MS), TD_OK);
    const float *p = td_data(item.at[0]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(p[(10 << 20) - 1], 1);
    CU_ASSERT_EQUAL(mapped_segments(), before + 1);
    td_release(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(p[(10 << 20) - 1], 1); /* the reader still holds it */
    td_queue_item_clear(&item);
    for (int i = 0; i < TEST_LONG_MS / 10 && mapped_segments() > before; i++) {
        td_sync(reader);
        test_sleep_ms(10);
    }
    CU_ASSERT_EQUAL(mapped_segments(), before);
    td_queue_close(put, false);
    td_queue_close(get, false);
    td_disconnect(reader);
    td_disconnect(c);
}

enum { ITEMS = 40 };

static bool produces(void *unused)
{
    (void)unused;
    td_client *c = td_connect(server.socket);
    td_queue *q = td_queue_open(c, "batches", 4, TD_PRODUCER);
    bool ok = q;
    for (int i = 0; i < ITEMS && ok; i++) {
        td_lease *l = td_lease_new(c, 400000);
        float *p = td_lease_data(l);
        if (!p) return false;
        for (int k = 0; k < 100000; k++) p[k] = (float)(i + k % 7);
        td_array *x = td_put(l, 0, TD_FLOAT32, td_dims(100, 1000)), *y = td_full(c, td_dims(), i, TD_INT64);
        ok = td_queue_put(q, td_arrays(x, y), &i, sizeof i, TEST_LONG_MS) == TD_OK;
        td_lease_free(l);
        td_release(x), td_release(y);
    }
    if (!ok) fprintf(stderr, "producer: %s\n", td_last_error()->message);
    ok = td_queue_close(q, true) == TD_OK && ok;
    td_disconnect(c);
    return ok;
}

static void queues_hand_over(void)
{
    td_client *c = join();
    td_queue *q = td_queue_open(c, "batches", 4, TD_CONSUMER);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(produces(NULL) ? 0 : 1);
    int got = 0, wrong = 0;
    td_queue_item item;
    for (; td_queue_get(q, &item, TEST_LONG_MS) == TD_OK; got++) {
        const float *p = item.n == 2 ? td_data(item.at[0]) : NULL;
        wrong +=
            !p || p[99999] != (float)(got + 99999 % 7) || td_item_i64(item.at[1]) != got || *(int *)item.note != got;
        td_queue_item_clear(&item);
    }
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_CLOSED);
    CU_ASSERT_EQUAL(got, ITEMS);
    CU_ASSERT_EQUAL(wrong, 0);
    int status = -1;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    td_queue_close(q, false);
    CU_ASSERT_TRUE(settled_to(c, "tensors", 0));
    td_disconnect(c);
}

static int put_number(td_queue *q, int n, int timeout_ms)
{
    return td_queue_put(q, td_arrays(), &n, sizeof n, timeout_ms);
}

/* The number of the next item, or minus the code. */
static int get_number(td_queue *q)
{
    td_queue_item item;
    int code = td_queue_get(q, &item, TEST_LONG_MS);
    if (code) return -code;
    int n = *(int *)item.note;
    td_queue_item_clear(&item);
    return n;
}

/* Puts two where there is room for one, and leaves. */
static bool puts_and_leaves(void *unused)
{
    (void)unused;
    td_client *c = td_connect(server.socket);
    td_queue *q = td_queue_open(c, "last", 1, TD_PRODUCER);
    bool ok = q && put_number(q, 1, -1) == TD_OK && put_number(q, 2, -1) == TD_OK;
    td_disconnect(c);
    return ok;
}

static void puts_are_on_their_way(void)
{
    td_client *c = join(), *d = join();
    td_queue *put = td_queue_open(c, "way", 1, TD_PRODUCER), *get = td_queue_open(d, "way", 1, TD_CONSUMER);
    CU_ASSERT_EQUAL(put_number(put, 1, -1), TD_OK);
    CU_ASSERT_EQUAL(put_number(put, 2, 0), TD_E_TIMEOUT); /* not there: it said how long it waits */
    CU_ASSERT_EQUAL(get_number(get), 1);
    CU_ASSERT_EQUAL(put_number(put, 3, -1), TD_OK);
    CU_ASSERT_EQUAL(get_number(get), 3);
    td_queue_close(get, true);
    int code = TD_OK, puts = 0;
    while (!code && puts < 3) code = put_number(put, 4, -1), puts++;
    CU_ASSERT_TRUE(puts <= 2); /* the end is told by the next put at the latest */
    CU_ASSERT_EQUAL(code, TD_E_CLOSED);
    td_queue_close(put, false);

    get = td_queue_open(d, "last", 1, TD_CONSUMER);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(puts_and_leaves(NULL) ? 0 : 1);
    usleep(50000); /* it waits for room by now, or soon */
    CU_ASSERT_EQUAL(get_number(get), 1);
    CU_ASSERT_EQUAL(get_number(get), 2);
    int status = -1;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    td_queue_close(get, false);
    td_disconnect(d);
    td_disconnect(c);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

typedef struct inherited {
    td_client *c;
    td_array *x, *large;
    const float *mapped;
    td_lease *lease;
} inherited;

static bool dials_anew(void *context)
{
    inherited *h = context;
    return equals(td_add(h->x, 1), 3, (double[]){1, 2, 3});
}

/* A relative path is that of where the process was when it connected. */
static void a_child_finds_a_relative_socket(void)
{
    char here[4096], folder[108];
    CU_ASSERT_PTR_NOT_NULL_FATAL(getcwd(here, sizeof here));
    snprintf(folder, sizeof folder, "%s", server.socket);
    char *name = strrchr(folder, '/');
    *name++ = 0;
    CU_ASSERT_EQUAL_FATAL(chdir(folder), 0);
    setenv("TENSORD_SOCKET", name, 1);
    inherited h = {.c = td_connect(NULL)};
    unsetenv("TENSORD_SOCKET");
    CU_ASSERT_EQUAL_FATAL(chdir("/"), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(h.c);
    CU_ASSERT_STRING_EQUAL(td_socket_path(h.c), server.socket);
    h.x = counting(h.c, 0, 3);
    CU_ASSERT_EQUAL(td_sync(h.c), TD_OK);
    CU_ASSERT_EQUAL(in_child(dials_anew, &h), 0);
    CU_ASSERT_EQUAL(chdir(here), 0);
    td_release(h.x);
    td_disconnect(h.c);
}

/* A daemon that stands still from the moment at which the library has prepared for a fork: what was registered before
 * it is called after it. */
static pid_t stops_at_fork;

static void stop_at_fork(void)
{
    if (stops_at_fork) test_stop(stops_at_fork);
}

__attribute__((constructor)) static void register_first(void)
{
    pthread_atfork(stop_at_fork, NULL, NULL);
}

/* A process that lets it go on when it has stood still for a while. */
static pid_t let_it_go_on(pid_t daemon)
{
    pid_t pid = fork();
    if (pid) return pid;
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)daemon);
    for (int i = 0; i < TEST_LONG_MS && state != 'T'; i++, test_sleep_ms(1)) {
        FILE *f = fopen(path, "re");
        if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 0;
        if (f) fclose(f);
    }
    test_sleep_ms(500); /* the library asks several times whether to go on waiting */
    kill(daemon, SIGCONT);
    _exit(0);
}

static int put_down; /* what the interpreter's lock would be, in times */

static void *put_it_down(void)
{
    put_down++;
    return NULL;
}

static void take_it_up(void *state)
{
    (void)state;
    put_down--;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static bool holds_what_it_held(void *context)
{
    (void)context;
    return put_down == 0;
}

/* fork() returns with the interpreter's lock, in the child too, however long its connection takes. */
static void a_fork_never_steps_aside(void)
{
    pid_t pid = (pid_t)server.pid, waker = let_it_go_on(pid);
    td_client *c = td_connect_until(server.socket, never, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    td_set_wait_hooks(put_it_down, take_it_up);
    stops_at_fork = pid;
    CU_ASSERT_EQUAL(in_child(holds_what_it_held, NULL), 0);
    stops_at_fork = 0;
    CU_ASSERT_EQUAL(put_down, 0);
    td_set_wait_hooks(NULL, NULL);
    waitpid(waker, NULL, 0);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    td_disconnect(c);
}

static bool uses_what_it_inherited(void *context)
{
    inherited *h = context;
    double expected[3] = {2, 3, 4};
    td_array *y = td_add(h->x, 1);
    bool ok =
        equals(y, 3, expected) && h->mapped[99999] == 99999 && td_item_f64(td_select(h->large, 0, 99999)) == 99999;
    if (td_put(h->lease, 0, TD_FLOAT32, td_dims(4)) || td_last_error()->code != TD_E_PERMISSION) ok = false;
    td_lease *own = td_lease_new(h->c, 64);
    ok = ok && own && td_lease_data(own) != td_lease_data(h->lease);
    td_release(y);
    td_release(h->x);
    return ok; /* ends without saying goodbye */
}

static void forked_children_work(void)
{
    td_client *c = join();
    inherited h = {.c = c, .x = counting(c, 1, 3), .large = counting(c, 0, 100000), .lease = td_lease_new(c, 64)};
    h.mapped = td_data(h.large);
    CU_ASSERT_PTR_NOT_NULL_FATAL(h.mapped);
    for (int i = 0; i < 10; i++) {
        td_release(td_add(h.x, i)); /* something unsent at each fork */
        CU_ASSERT_EQUAL(in_child(uses_what_it_inherited, &h), 0);
    }
    CHECK_VALUES(h.x, 1, 2, 3);
    td_array *y = td_put(h.lease, 0, TD_FLOAT32, td_dims(16));
    CU_ASSERT_EQUAL(td_numel(y), 16);
    CU_ASSERT_TRUE(settled_to(c, "sessions", 1));
    td_lease_free(h.lease);
    td_release(h.x), td_release(h.large), td_release(y);
    CU_ASSERT_TRUE(settled_to(c, "tensors", 0));
    td_disconnect(c);
}

/* Each on a line of its own; what they give is an error when it is looked at. */
static td_array *looks_too_far(td_array *x, td_array *far, int *line)
{
    *line = __LINE__ + 1;
    return td_index_select(x, 0, far);
}

static bool names_line(td_array *failed, int line)
{
    float v[3];
    char where[64];
    snprintf(where, sizeof where, "test_processes.c:%d", line);
    td_clear_error();
    bool named = td_read(failed, v, sizeof v) && strstr(td_last_error()->where, where);
    if (!named) fprintf(stderr, "at %s: %s, not %s\n", td_last_error()->where, td_last_error()->message, where);
    td_clear_error();
    td_release(failed);
    return named;
}

/* The parent's session knows the text of the first line already, this process's knows none. */
static bool names_its_own_lines(void *context)
{
    const inherited *h = context;
    int line;
    td_array *failed = looks_too_far(h->x, h->large, &line);
    bool good = names_line(failed, line);
    line = __LINE__ + 1;
    failed = td_index_select(h->x, 0, h->large);
    return names_line(failed, line) && good;
}

static void a_childs_error_names_its_own_line(void)
{
    td_client *c = join();
    inherited h = {.c = c, .x = counting(c, 1, 3), .large = td_full(c, td_dims(3), 7, TD_INT64)};
    int line;
    for (int i = 0; i < 3; i++) {
        td_array *failed = looks_too_far(h.x, h.large, &line);
        CU_ASSERT_TRUE(names_line(failed, line));
        CU_ASSERT_EQUAL(in_child(names_its_own_lines, &h), 0);
    }
    td_release(h.x), td_release(h.large);
    td_disconnect(c);
}

/* Its own lease may have the number that the parent's has. */
static bool frees_its_copy(void *context)
{
    const inherited *h = context;
    double expected[3] = {5, 6, 7};
    td_lease *own = td_lease_new(h->c, 64);
    td_lease_free(h->lease);
    if (!own || td_sync(h->c)) return false;
    for (int i = 0; i < 3; i++) ((float *)td_lease_data(own))[i] = (float)(5 + i);
    td_array *y = td_put(own, 0, TD_FLOAT32, td_dims(3));
    bool good = y && td_sync(h->c) == TD_OK && equals(y, 3, expected);
    td_release(y);
    td_lease_free(own);
    return good && td_sync(h->c) == TD_OK;
}

static void a_lease_outlives_a_childs_copy(void)
{
    td_client *c = join();
    inherited h = {.c = c, .lease = td_lease_new(c, 64)};
    CU_ASSERT_PTR_NOT_NULL_FATAL(td_lease_data(h.lease));
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(in_child(frees_its_copy, &h), 0);
    CU_ASSERT_TRUE(settled_to(c, "sessions", 1));
    for (int i = 0; i < 16; i++) ((float *)td_lease_data(h.lease))[i] = (float)i;
    td_array *y = td_put(h.lease, 0, TD_FLOAT32, td_dims(3));
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CHECK_VALUES(y, 0, 1, 2);
    td_release(y);
    td_lease_free(h.lease);
    CU_ASSERT_TRUE(settled_to(c, "tensors", 0));
    td_disconnect(c);
}

/* The child forks and ends at once; the grandchild goes on with what both inherited. */
static bool outlives_its_parent(void *context)
{
    inherited *h = context;
    int done[2];
    if (pipe(done)) return false;
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            test_sleep_ms(100);
            double expected[3] = {2, 4, 6};
            char ok = equals(td_add(h->x, h->x), 3, expected) ? 'y' : 'n';
            if (write(done[1], &ok, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    char ok = 0;
    close(done[1]);
    bool said = read(done[0], &ok, 1) == 1;
    close(done[0]);
    return said && ok == 'y';
}

static void orphans_keep_their_session(void)
{
    td_client *c = join();
    inherited h = {.c = c, .x = counting(c, 1, 3)};
    CU_ASSERT_TRUE(outlives_its_parent(&h));
    td_release(h.x);
    CU_ASSERT_TRUE(settled_to(c, "tensors", 0));
    td_disconnect(c);
}

static void raw_clones_are_told(void)
{
    td_client *c = join();
    td_array *x = td_ones(c, td_dims(2), TD_FLOAT32);
    td_flush(c);
    pid_t pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0) {
        bool told = !td_add(x, x) && td_last_error()->code == TD_E_LOST;
        td_release(x);
        td_disconnect(c); /* must not end the parent's connection */
        _exit(told ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CU_ASSERT_EQUAL(status, 0);
    td_array *y = td_add(x, 1);
    CHECK_VALUES(y, 2, 2);
    td_release(y);
    td_release(x);
    td_disconnect(c);
}

typedef struct spinner {
    td_client *c;
    pthread_t thread;
    _Atomic bool stop;
    _Atomic int rounds;
    int wrong;
} spinner;

static void *spin(void *context)
{
    spinner *s = context;
    for (; !s->stop; s->rounds++) {
        td_array *x = td_full(s->c, td_dims(2), s->rounds, TD_FLOAT32);
        float v[2];
        s->wrong += td_read(x, v, sizeof v) != TD_OK || v[1] != (float)s->rounds;
        td_release(x);
    }
    return NULL;
}

static void forks_beside_threads(void)
{
    td_client *c = join();
    inherited h = {.c = c, .x = counting(c, 1, 3), .large = counting(c, 0, 100000), .lease = td_lease_new(c, 64)};
    h.mapped = td_data(h.large);
    spinner s[3] = {{.c = c}, {.c = c}, {.c = c}};
    for (int i = 0; i < 3; i++) pthread_create(&s[i].thread, NULL, spin, &s[i]);
    for (int i = 0; i < 3; i++)
        while (!s[i].rounds) test_sleep_ms(1);
    for (int i = 0; i < 100; i++) CU_ASSERT_EQUAL(in_child(uses_what_it_inherited, &h), 0);
    for (int i = 0; i < 3; i++) {
        s[i].stop = true;
        pthread_join(s[i].thread, NULL);
        CU_ASSERT_EQUAL(s[i].wrong, 0);
    }
    td_lease_free(h.lease);
    td_release(h.x), td_release(h.large);
    td_disconnect(c);
}

/* ---- beside a program that runs */

typedef struct caller {
    pthread_t thread;
    td_program *program;
    td_value result;
    int rc;
} caller;

static void *call_for_long(void *context)
{
    caller *k = context;
    k->rc = td_program_call(k->program, 1, (td_value[]){td_value_int(1)}, &k->result);
    return NULL;
}

/* It begins by a write. */
static const char for_ever[] = "captured %w : Tensor = \"w\"\n"
                               "graph(%n : int):\n"
                               "  %z : Tensor = td::neg_(%w)\n"
                               "  %yes : bool = prim::Constant[value=1]()\n"
                               "  %ever : int = prim::Constant[value=9223372036854775807]()\n"
                               "  %m : int = prim::Loop(%ever, %yes, %n)\n"
                               "    block0(%i : int, %a : int):\n"
                               "      %b : int = prim::xor.int(%a, %i)\n"
                               "      -> (%yes, %b)\n"
                               "  return (%m)\n";

static bool lacks_what_stood_behind(void *context)
{
    float v[3];
    return td_read(context, v, sizeof v) == TD_E_NOT_FOUND &&
           strstr(td_last_error()->message, "when the process forked");
}

static bool stop_now(void *context)
{
    return *(_Atomic bool *)context;
}

/* What another thread's program has not given yet is nothing that the child could have: it has all else, and at once.
 * What was asked for behind that program it lacks, and is told so. */
static void forks_beside_a_program(void)
{
    static _Atomic bool stop;
    td_client *c = join();
    inherited h = {.c = c, .x = counting(c, 1, 3), .large = counting(c, 0, 100000), .lease = td_lease_new(c, 64)};
    h.mapped = td_data(h.large);
    td_client *looker = join();
    td_array *w = td_full(c, td_dims(1), 1.0, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_publish(w, "written when it runs", 0), 0);
    td_array *shared = td_open(c, "written when it runs", 0), *seen = td_open(looker, "written when it runs", 0);
    caller k = {.program = td_program_read(c, for_ever, td_arrays(shared))};
    CU_ASSERT_PTR_NOT_NULL_FATAL(k.program);
    CU_ASSERT_EQUAL(td_sync(c), 0);
    stop = false;
    td_set_interrupt(c, stop_now, (void *)&stop);
    pthread_create(&k.thread, NULL, call_for_long, &k);
    while (td_item_f64(seen) != -1) test_sleep_ms(1);
    for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(in_child(uses_what_it_inherited, &h), 0);
    td_array *behind = td_add(h.x, 1);
    CU_ASSERT_EQUAL(td_flush(c), 0);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(in_child(uses_what_it_inherited, &h), 0);
        CU_ASSERT_EQUAL(in_child(lacks_what_stood_behind, behind), 0);
    }
    stop = true;
    pthread_join(k.thread, NULL);
    CU_ASSERT_EQUAL(k.rc, TD_E_CANCELLED);
    td_set_interrupt(c, NULL, NULL);
    CHECK_VALUES(behind, 2, 3, 4);
    CU_ASSERT_EQUAL(td_drop(looker, "written when it runs"), 0);
    td_release(behind), td_release(w), td_release(shared), td_release(seen);
    td_disconnect(looker);
    td_program_free(k.program);
    td_lease_free(h.lease);
    td_release(h.x), td_release(h.large);
    CU_ASSERT_TRUE(settled_to(c, "sessions", 1));
    td_disconnect(c);
}

/* ---- a daemon that dies ------------------------------------------------------------------------------------------ */

typedef struct killer {
    pid_t victim;
    td_client *looker; /* its own connection to the victim */
    bool (*now)(td_client *looker);
} killer;

static void *kill_then(void *context)
{
    const killer *k = context;
    while (!k->now(k->looker)) test_sleep_ms(1);
    kill(k->victim, SIGKILL);
    return NULL;
}

/* Killed while the client is in `wait`, where the daemon says it is: told, though nobody answers any more. */
static void dies_while(void (*wait)(td_client *c), bool (*now)(td_client *looker))
{
    test_daemon victim;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&victim, NULL));
    td_client *c = td_connect(victim.socket), *looker = td_connect(victim.socket);
    td_array *x = td_ones(c, td_dims(8), TD_FLOAT32);
    killer k = {victim.pid, looker, now};
    pthread_t thread;
    pthread_create(&thread, NULL, kill_then, &k);
    wait(c);
    CU_ASSERT_EQUAL(td_last_error()->code, TD_E_LOST);
    CHECK_FAILS(td_add(x, x), TD_E_LOST, "connection");
    pthread_join(thread, NULL);
    td_disconnect(looker);
    td_release(x);
    td_disconnect(c);
    test_daemon_stop(&victim);
}

/* Does a row of this table have this number or text in this column (from its end, when negative)? */
static bool says(td_client *looker, const char *table, int column, const char *value)
{
    td_table *t = td_status(looker, table);
    bool found = false;
    for (int r = 0; t && r < t->rows; r++) {
        const td_cell *cell = &t->cells[r * t->columns + (column < 0 ? column + t->columns : column)];
        found |= cell->kind == TD_CELL_TEXT ? strcmp(cell->text, value) == 0 : cell->integer == atoi(value);
    }
    td_table_free(t);
    return found;
}

static bool in_get(td_client *looker)
{
    return says(looker, "queues", 6, "1"); /* waiting_get */
}

static bool in_open(td_client *looker)
{
    return says(looker, "sessions", -1, "a name 'never'"); /* waits_for */
}

static bool busy(td_client *looker)
{
    return status_of(looker, "frames_in") > 1000 || status_of(looker, "ops_run") > 1000;
}

static void wait_in_get(td_client *c)
{
    td_queue *q = td_queue_open(c, "never", 1, TD_CONSUMER);
    td_queue_item item;
    td_queue_get(q, &item, -1);
    td_error e = *td_last_error();
    td_queue_close(q, false);
    CU_ASSERT_EQUAL(e.code, TD_E_LOST);
}

static void wait_in_open(td_client *c)
{
    td_release(td_open(c, "never", -1));
}

static void wait_in_ops(td_client *c)
{
    td_clear_error();
    uint64_t from = test_now_ms();
    td_array *x = td_ones(c, td_dims(8), TD_FLOAT32);
    while (!td_last_error()->code && test_now_ms() - from < TEST_LONG_MS) td_release(td_add(x, x));
    td_release(x);
}

static void wait_in_syncs(td_client *c)
{
    while (td_sync(c) == TD_OK) {
    }
}

static void a_killed_daemon_is_told(void)
{
    dies_while(wait_in_get, in_get);
    dies_while(wait_in_open, in_open);
    dies_while(wait_in_ops, busy);
    dies_while(wait_in_syncs, busy);
}

/* Puts one item, and is killed. */
static void put_and_die(const test_daemon *d)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        td_client *c = td_connect(d->socket);
        td_queue *q = td_queue_open(c, "jobs", 4, TD_PRODUCER);
        if (td_queue_put(q, td_arrays_of(0, NULL), "x", 1, 0)) _exit(1);
        raise(SIGKILL);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    CU_ASSERT_TRUE(WIFSIGNALED(status));
}

/* A consumer's loop as the header tells it: that of a producer it survives, that of the daemon ends it. */
static void deaths_are_told_apart(void)
{
    enum { PRODUCERS = 3, ROUNDS = 100 };
    test_daemon victim;
    CU_ASSERT_TRUE_FATAL(test_daemon_start(&victim, NULL));
    td_client *c = td_connect(victim.socket);
    td_queue *q = td_queue_open(c, "jobs", 4, TD_CONSUMER | TD_WATCH),
             *stays = td_queue_open(c, "jobs", 4, TD_PRODUCER);
    for (int i = 0; i < PRODUCERS; i++) put_and_die(&victim);
    int rc = TD_OK, rounds = 0, items = 0, died = 0;
    for (; rounds < ROUNDS; rounds++) {
        td_queue_item item;
        rc = td_queue_get(q, &item, -1);
        if (rc == TD_OK) items++, td_queue_item_clear(&item);
        else if (rc != TD_E_DIED) break;
        else if (++died == PRODUCERS) kill(victim.pid, SIGKILL);
    }
    CU_ASSERT_TRUE(rounds == 2 * PRODUCERS && items == PRODUCERS && died == PRODUCERS);
    CU_ASSERT_EQUAL(rc, TD_E_LOST);
    CHECK_FAILS(td_sync(c), TD_E_LOST, "connection");
    td_queue_close(q, false);
    td_queue_close(stays, false);
    td_disconnect(c);
    test_daemon_stop(&victim);
}

TD_CUNIT_MAIN_WITH(
    "client_processes", start_server, stop_server, {"processes share a tensor", processes_share_a_tensor},
    {"mappings go with their memory", mappings_go_with_their_memory}, {"queues hand over", queues_hand_over},
    {"puts are on their way", puts_are_on_their_way}, {"forked children work", forked_children_work},
    {"a child's error names its own line", a_childs_error_names_its_own_line},
    {"a lease outlives a child's copy", a_lease_outlives_a_childs_copy},
    {"a fork never steps aside", a_fork_never_steps_aside},
    {"a child finds a relative socket", a_child_finds_a_relative_socket},
    {"orphans keep their session", orphans_keep_their_session}, {"raw clones are told", raw_clones_are_told},
    {"forks beside threads", forks_beside_threads}, {"forks beside a program", forks_beside_a_program},
    {"a killed daemon is told", a_killed_daemon_is_told}, {"deaths are told apart", deaths_are_told_apart})
