/* Handles: td_send, td_lend and td_take between connections and processes, also such that are killed.
 *
 * Every story is played twice over the same two connections. The first time opens what stays open (a ring, the mapping
 * of a segment that lives on); the second must leave no more than it found: tensors, names, bytes and descriptors
 * in the daemon, mappings and descriptors in this process. */
#include "client/wire/client.h"
#include "tests/client/common.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOATS = 1 << 18, BYTES = FLOATS * sizeof(float), LONG_MS = 600000, TAKE_MS = TEST_LONG_MS, SHORT_MS = 100 };

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static const char *const counted[] = {"tensors", "names", "bytes_used", "nodes", "sessions"};
enum { COUNTED = sizeof counted / sizeof *counted };

typedef struct counts {
    int64_t in_daemon[COUNTED], other_descriptors;
    int descriptors, mappings;
} counts;

/* Segments that this process maps, with these permissions ("rw-s", "r--s"). */
static int mapped(const char *permissions)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "memfd:tensord") && strstr(line, permissions);
    if (f) fclose(f);
    return n;
}

static counts count(td_client *c)
{
    counts n = {.descriptors = test_descriptors(getpid()), .mappings = mapped("")};
    for (int i = 0; i < COUNTED; i++) n.in_daemon[i] = status_of(c, counted[i]);
    /* Each segment has two; how many of them wait warm for reuse is the heap's affair. */
    n.other_descriptors = status_of(c, "descriptors") - 2 * status_of(c, "segments");
    return n;
}

/* Less is as good: memory and descriptors go a moment after those who had them, also of what was before. */
static bool no_more(const counts *now, const counts *before)
{
    bool more = now->other_descriptors > before->other_descriptors || now->descriptors > before->descriptors ||
                now->mappings > before->mappings;
    for (int i = 0; i < COUNTED; i++) more = more || now->in_daemon[i] > before->in_daemon[i];
    return !more;
}

/* The daemon notices deaths in its own time, and a connection lets go of mappings when it is asked to. */
static bool comes_back(td_client *c, td_client *r, const counts *before)
{
    counts now = count(c);
    for (int i = 0; i < TEST_LONG_MS / 10 && !no_more(&now, before); i++) {
        test_sleep_ms(10);
        td_sync(r), td_sync(c);
        now = count(c);
    }
    if (no_more(&now, before)) return true;
    for (int i = 0; i < COUNTED; i++)
        fprintf(stderr, "%s: %lld, before %lld\n", counted[i], (long long)now.in_daemon[i],
                (long long)before->in_daemon[i]);
    fprintf(stderr, "descriptors: %lld, %d, before %lld, %d; mappings: %d, before %d\n",
            (long long)now.other_descriptors, now.descriptors, (long long)before->other_descriptors,
            before->descriptors, now.mappings, before->mappings);
    return false;
}

/* Who waits often maps a ring: before anything is counted. */
static td_client *join_and_wait(void)
{
    td_client *c = join();
    for (int i = 0; i < 20; i++) td_sync(c);
    return c;
}

static bool settles(td_client *c, const char *key, int64_t want)
{
    for (int i = 0; i < TEST_LONG_MS / 10; i++) {
        if (status_of(c, key) == want) return true;
        test_sleep_ms(10);
    }
    return false;
}

/* Nothing of a story is left: its sessions, which are not noticed at once to have ended, nor what they had. */
static bool is_over(td_client *c)
{
    return settles(c, "sessions", 2) && settles(c, "names", 0) && settles(c, "tensors", 0) && settles(c, "nodes", 0);
}

static void twice(void (*story)(td_client *c, td_client *r))
{
    td_client *c = join_and_wait(), *r = join_and_wait();
    story(c, r);
    CU_ASSERT_TRUE(td_sync(r) == TD_OK && td_sync(c) == TD_OK); /* what was released is gone */
    CU_ASSERT_TRUE_FATAL(is_over(c));
    counts before = count(c);
    story(c, r);
    CU_ASSERT_TRUE(comes_back(c, r, &before));
    td_disconnect(r);
    td_disconnect(c);
}

/* ---- a tensor whose numbers can be checked ----------------------------------------------------------------------- */

static td_array *ramp(td_client *c, int from)
{
    return td_arange(c, from, from + FLOATS, 1, TD_FLOAT32);
}

static bool is_ramp(td_array *a, int from)
{
    static float at[FLOATS];
    return a && !td_read(a, at, sizeof at) && at[0] == (float)from && at[FLOATS - 1] == (float)(from + FLOATS - 1);
}

static void check_taken(td_client *c, const char *handle, int from)
{
    td_array *y = td_take(c, handle, TAKE_MS);
    CU_ASSERT_TRUE(is_ramp(y, from));
    td_release(y);
}

/* ---- other processes --------------------------------------------------------------------------------------------- */

typedef struct other {
    pid_t pid;
    int read_end;
} other;

/* `run` in a process of its own; what it writes to `out` can be read here. */
static other start(void (*run)(int out, const char *handle), const char *handle)
{
    int pair[2];
    other o = {-1, -1};
    if (pipe(pair) != 0) return o;
    fflush(NULL);
    o.pid = fork();
    if (o.pid == 0) {
        close(pair[0]);
        td_clear_error();
        run(pair[1], handle);
        _exit(td_last_error()->code ? 1 : 0);
    }
    close(pair[1]);
    o.read_end = pair[0];
    return o;
}

static bool hears(const other *o, void *text, size_t n)
{
    return read(o->read_end, text, n) == (ssize_t)n;
}

static void say(int out, const char *text, size_t n)
{
    if (write(out, text, n) != (ssize_t)n) _exit(2);
}

static void end_killed(other *o)
{
    int status = -1;
    kill(o->pid, SIGKILL);
    while (waitpid(o->pid, &status, 0) < 0 && errno == EINTR) continue;
    CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(o->read_end);
}

/* ---- one handle, one taker --------------------------------------------------------------------------------------- */

static void the_same_tensor_story(td_client *c, td_client *r)
{
    td_array *x = ramp(c, 7);
    char handle[TD_HANDLE_TEXT];
    CU_ASSERT_EQUAL(td_send(x, handle, LONG_MS), TD_OK);
    CU_ASSERT_TRUE(strlen(handle) < TD_HANDLE_TEXT);
    td_array *y = td_take(r, handle, TAKE_MS);
    CU_ASSERT_TRUE(is_ramp(y, 7));
    CU_ASSERT_EQUAL(td_add_(x, 1), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(is_ramp(y, 8));
    CHECK_FAILS(td_take(r, handle, 0), TD_E_NOT_FOUND, handle); /* it is for one */
    CHECK_FAILS(td_take(c, handle, SHORT_MS), TD_E_TIMEOUT, handle);
    td_release(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(is_ramp(y, 8)); /* the taker has it still */
    td_release(y);
}

static void the_very_same_tensor(void)
{
    twice(the_same_tensor_story);
}

static void on_its_way_story(td_client *c, td_client *r)
{
    (void)r;
    td_client *sender = join();
    td_array *x = ramp(sender, 3);
    char handle[TD_HANDLE_TEXT];
    CU_ASSERT_EQUAL(td_send(x, handle, LONG_MS), TD_OK);
    td_release(x);
    td_disconnect(sender);
    CU_ASSERT_TRUE(settles(c, "sessions", 2));
    CU_ASSERT_TRUE(test_device() || status_of(c, "bytes_used") >= BYTES);
    check_taken(c, handle, 3);
}

static void on_its_way_it_lives(void)
{
    twice(on_its_way_story);
}

static void nobody_takes_story(td_client *c, td_client *r)
{
    td_array *x = ramp(c, 0);
    char handle[TD_HANDLE_TEXT];
    uint64_t began = test_now_ms();
    CU_ASSERT_EQUAL(td_send(x, handle, SHORT_MS), TD_OK);
    td_release(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    int64_t names = status_of(c, "names"), bytes = status_of(c, "bytes_used");
    if (test_now_ms() - began < SHORT_MS) CU_ASSERT_TRUE(names == 1 && (test_device() || bytes >= BYTES));
    CU_ASSERT_TRUE(settles(c, "names", 0));
    CU_ASSERT_TRUE(test_now_ms() - began >= SHORT_MS);
    CHECK_FAILS(td_take(r, handle, 0), TD_E_NOT_FOUND, handle);
}

static void nobody_takes_it(void)
{
    twice(nobody_takes_story);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

static void many_story(td_client *c, td_client *r)
{
    enum { N = 5000 };
    static char handles[N][TD_HANDLE_TEXT];
    static td_array *taken[N];
    td_array *x = ramp(c, 1);
    CU_ASSERT_EQUAL(td_send(x, handles[0], LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    counts one = count(c);
    for (int i = 1; i < N; i++) CU_ASSERT_EQUAL(td_send(x, handles[i], LONG_MS), TD_OK);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(status_of(c, "names"), N);
    counts all = count(c);
    one.in_daemon[1] = all.in_daemon[1]; /* names; else not a byte more, nor a descriptor */
    CU_ASSERT_TRUE(no_more(&all, &one));
    int good = 0;
    for (int i = 0; i < N; i++) good += is_ramp(taken[i] = td_take(r, handles[i], TAKE_MS), 1);
    CU_ASSERT_EQUAL(good, N);
    CU_ASSERT_EQUAL(test_descriptors(getpid()), one.descriptors);
    CU_ASSERT_TRUE(mapped("") <= one.mappings + 1); /* one segment, whoever looks into it how often */
    for (int i = 0; i < N; i++) td_release(taken[i]);
    td_release(x);
}

static void many_on_their_way(void)
{
    twice(many_story);
}

/* ---- those that are killed --------------------------------------------------------------------------------------- */

static void takes(int out, const char *handle)
{
    td_client *c = td_connect(server.socket);
    td_array *y = td_take(c, handle, TAKE_MS);
    if (!is_ramp(y, 5)) _exit(3);
    say(out, "k", 1);
    pause();
}

static void a_taker_story(td_client *c, td_client *r)
{
    (void)r;
    td_array *x = ramp(c, 5);
    char handle[TD_HANDLE_TEXT], said;
    CU_ASSERT_EQUAL(td_send(x, handle, LONG_MS), TD_OK);
    other o = start(takes, handle);
    CU_ASSERT_TRUE(hears(&o, &said, 1));
    td_release(x);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_TRUE(status_of(c, "bytes_used") >= BYTES); /* the other holds it */
    end_killed(&o);
}

static void a_taker_is_killed(void)
{
    twice(a_taker_story);
}

static const char never_sent[] = "handle/0123456789abcdef0123456789abcdef";

static void waits(int out, const char *handle)
{
    td_client *c = td_connect(server.socket);
    say(out, "w", 1);
    td_release(td_take(c, handle, -1));
}

static bool somebody_waits(td_client *c)
{
    td_table *t = td_status(c, "sessions");
    bool found = false;
    for (int r = 0; t && r < t->rows; r++) {
        const td_cell *last = &t->cells[(r + 1) * t->columns - 1]; /* waits_for */
        found |= last->kind == TD_CELL_TEXT && strstr(last->text, never_sent) != NULL;
    }
    td_table_free(t);
    return found;
}

static void a_waiting_story(td_client *c, td_client *r)
{
    (void)r;
    char said;
    other o = start(waits, never_sent);
    CU_ASSERT_TRUE(hears(&o, &said, 1));
    for (int i = 0; i < TEST_LONG_MS / 10 && !somebody_waits(c); i++) test_sleep_ms(10);
    CU_ASSERT_TRUE(somebody_waits(c));
    end_killed(&o);
}

static void a_waiting_taker_is_killed(void)
{
    twice(a_waiting_story);
}

static void sends(int out, const char *lent)
{
    td_client *c = td_connect(server.socket);
    td_array *x = ramp(c, 9);
    char handle[TD_HANDLE_TEXT] = "";
    if (lent ? td_lend(x, handle, SHORT_MS) : td_send(x, handle, LONG_MS)) _exit(3);
    if (td_sync(c)) _exit(4);
    say(out, handle, sizeof handle);
    pause();
}

static void a_sender_story(td_client *c, td_client *r)
{
    char handle[TD_HANDLE_TEXT] = "";
    other o = start(sends, NULL);
    CU_ASSERT_TRUE(hears(&o, handle, sizeof handle));
    end_killed(&o);
    CU_ASSERT_TRUE(settles(c, "sessions", 2));
    td_array *y = td_take(r, handle, TAKE_MS), *z = td_add(y, 1);
    CU_ASSERT_TRUE(is_ramp(y, 9)); /* the dead process's memory */
    CU_ASSERT_TRUE(is_ramp(z, 10));
    td_release(y);
    td_release(z);
}

static void a_sender_is_killed(void)
{
    twice(a_sender_story);
}

/* ---- lending ----------------------------------------------------------------------------------------------------- */

static void both_write_story(td_client *c, td_client *r)
{
    td_array *x = ramp(c, 0);
    char handle[TD_HANDLE_TEXT];
    CU_ASSERT_EQUAL(td_lend(x, handle, LONG_MS), TD_OK);
    td_array *y = td_take(r, handle, TAKE_MS);
    CU_ASSERT_TRUE_FATAL(is_ramp(y, 0) && is_ramp(x, 0));
    ((float *)(uintptr_t)td_data(y))[0] = 100;
    CU_ASSERT_EQUAL(((const float *)td_data(x))[0], 100);
    td_scope scope;
    td_scope_begin(&scope);
    CU_ASSERT_EQUAL(td_item_f64(td_amax(x)), FLOATS - 1);
    CU_ASSERT_EQUAL(td_item_f64(td_amin(x)), 1); /* the daemon sees it, too */
    td_scope_end(&scope);
    td_release(x);
    td_release(y);
}

static void lent_memory_is_written_by_both(void)
{
    if (is_away()) return;
    twice(both_write_story);
}

/* What was sent can be read only; lent memory replaces that mapping by one that can be written. */
static void what_is_sent_is_read_only(void)
{
    if (is_away()) return;
    td_client *c = join_and_wait(), *r = join_and_wait();
    char handle[TD_HANDLE_TEXT];
    td_array *x = ramp(c, 0);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    int readable = mapped("r--s"), writable = mapped("rw-s");
    CU_ASSERT_EQUAL(td_send(x, handle, LONG_MS), TD_OK);
    check_taken(r, handle, 0);
    CU_ASSERT_TRUE(mapped("r--s") == readable + 1 && mapped("rw-s") == writable);
    CU_ASSERT_EQUAL(td_lend(x, handle, LONG_MS), TD_OK);
    check_taken(r, handle, 0);
    CU_ASSERT_EQUAL(mapped("rw-s"), writable + 1);
    td_release(x);
    td_disconnect(r);
    td_disconnect(c);
}

static void a_loan_story(td_client *c, td_client *r)
{
    char handle[TD_HANDLE_TEXT] = "";
    for (int taken = 0; taken < 2; taken++) {
        other o = start(sends, "lend");
        CU_ASSERT_TRUE(hears(&o, handle, sizeof handle));
        test_sleep_ms(4 * SHORT_MS);
        CU_ASSERT_EQUAL(status_of(c, "names"), 1); /* its lender lives, so it is not late */
        if (taken) check_taken(r, handle, 9);
        end_killed(&o);
        CU_ASSERT_TRUE(settles(c, "names", 0));
        CHECK_FAILS(td_take(c, handle, 0), TD_E_NOT_FOUND, handle);
    }
}

static void a_loan_lasts_as_long_as_its_lender(void)
{
    twice(a_loan_story);
}

/* ---- garbage ----------------------------------------------------------------------------------------------------- */

static void garbage_story(td_client *c, td_client *r)
{
    (void)r;
    static char endless[100000];
    memset(endless, 'a', sizeof endless - 1);
    memcpy(endless, "handle/", 7);
    const struct {
        const char *text;
        int timeout_ms, code;
        const char *words;
    } all[] = {{NULL, 0, TD_E_INVALID, "no handle"},
               {"", 0, TD_E_INVALID, "no handle"},
               {"weights", 0, TD_E_INVALID, "'weights' is no handle"},
               {"handl", -1, TD_E_INVALID, "no handle"},
               {"handle/", 0, TD_E_NOT_FOUND, "handle/"},
               {never_sent, 0, TD_E_NOT_FOUND, never_sent},
               {never_sent, SHORT_MS, TD_E_TIMEOUT, never_sent},
               {"handle/%s%n", 0, TD_E_NOT_FOUND, "%s%n"},
               {"handle/\n", SHORT_MS, TD_E_INVALID, "control character"},
               {endless, 0, TD_E_NOT_FOUND, "handle/aaa"},
               {endless, -1, TD_E_INVALID, "a name has 1 to"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK_FAILS(td_take(c, all[i].text, all[i].timeout_ms), all[i].code, all[i].words);
    char handle[TD_HANDLE_TEXT];
    CHECK_FAILS(td_send(NULL, handle, LONG_MS), TD_E_INVALID, "array");
    CHECK_FAILS(td_lend(NULL, handle, LONG_MS), TD_E_INVALID, "array");
}

static void garbage(void)
{
    twice(garbage_story);
}

/* The sender is told why. Who takes it waits in vain, or was faster than the failure and finds it in the value. */
static void a_failed_story(td_client *c, td_client *r)
{
    td_array *x = ramp(c, 0), *far = td_full(c, td_dims(1), 1e9, TD_INT64);
    td_array *bad = td_index_select(x, 0, far); /* only the daemon sees that there is no such place */
    char handle[TD_HANDLE_TEXT];
    float value;
    CU_ASSERT_EQUAL(td_send(bad, handle, LONG_MS), TD_OK);
    td_array *y = td_take(r, handle, SHORT_MS);
    if (y) CHECK_FAILS(td_read(y, &value, sizeof value), TD_E_INDEX, "out of bounds");
    else CU_ASSERT_EQUAL(td_last_error()->code, TD_E_TIMEOUT);
    td_clear_error();
    CHECK_FAILS(td_sync(c), TD_E_INDEX, "out of bounds");
    td_release(y);
    td_release(bad);
    td_release(far);
    td_release(x);
}

static void a_failed_tensor(void)
{
    twice(a_failed_story);
}

/* A program may not call again for an hour. */
static void release_and_rest(td_client *c, td_client *r, int n, int64_t floats)
{
    td_array *x[64];
    td_sync(c);
    int64_t before = status_of(r, "tensors"), left = n;
    for (int k = 0; k < n; k++) x[k] = td_full(c, td_dims(floats), k, TD_FLOAT32);
    CU_ASSERT_EQUAL(td_sync(c), TD_OK);
    CU_ASSERT_EQUAL(status_of(r, "tensors") - before, n);
    for (int k = 0; k < n; k++) td_release(x[k]);
    for (int i = 0; i < TEST_LONG_MS / 10 && left * floats * 4 >= TD_RELEASE_TOLD; i++) {
        left = status_of(r, "tensors") - before;
        if (i) test_sleep_ms(10);
    }
    CU_ASSERT_TRUE(left * floats * 4 < TD_RELEASE_TOLD);
}

static void what_is_released_is_for_others(void)
{
    td_client *c = join_and_wait(), *r = join_and_wait();
    release_and_rest(c, r, 1, 10 << 20);
    release_and_rest(c, r, 4, 1 << 20);
    release_and_rest(c, r, 64, 48 << 10);
    td_disconnect(r);
    td_disconnect(c);
}

TD_CUNIT_MAIN_WITH("client_handles", start_server, stop_server, {"the very same tensor", the_very_same_tensor},
                   {"on its way it lives", on_its_way_it_lives}, {"nobody takes it", nobody_takes_it},
                   {"many on their way", many_on_their_way}, {"a taker is killed", a_taker_is_killed},
                   {"a waiting taker is killed", a_waiting_taker_is_killed}, {"a sender is killed", a_sender_is_killed},
                   {"lent memory is written by both", lent_memory_is_written_by_both},
                   {"what is sent is read-only", what_is_sent_is_read_only},
                   {"a loan lasts as long as its lender", a_loan_lasts_as_long_as_its_lender}, {"garbage", garbage},
                   {"a failed tensor", a_failed_tensor},
                   {"what is released is for others", what_is_released_is_for_others})
