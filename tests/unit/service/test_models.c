/* Requests of models: whose turn it is, which join, which are too late, and that nothing stays behind. By a clock that
 * the test moves. */
#include "daemon/service/models.h"
#include "proto/ops/opid.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { MS = 1000000, MOST = 64, ROOM = 300 };

static td_service v;
static td_account *user, *session;

/* What a helper thread would do: at once, or, while it is slow, when the test says so. */
static struct {
    void (*work)(void *), (*done)(void *);
    void *arg;
} helper;
static int looks_asked, at_once_asked;
static bool helper_is_slow;

static void background(void *unused, void (*work)(void *), void (*done)(void *), void *arg)
{
    (void)unused;
    looks_asked++;
    if (helper_is_slow) {
        at_once_asked += helper.arg != NULL;
        helper.work = work, helper.done = done, helper.arg = arg;
        return;
    }
    work(arg);
    if (done) done(arg);
}

static void helper_answers(void)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(helper.arg);
    void *arg = helper.arg;
    helper.arg = NULL;
    helper.work(arg);
    if (helper.done) helper.done(arg);
}

static void ignore(void *unused)
{
    (void)unused;
}

static int init(void)
{
    td_service_options o = {.memory = 64 << 20, .background = background, .wake = ignore};
    hand_clock_stop(0);
    if (td_service_init(&v, &o, NULL)) return 1;
    user = td_service_uid_account(&v, 7, NULL);
    session = td_account_new(user);
    return user && session ? 0 : 1;
}

static int cleanup(void)
{
    td_live live = td_live_counts();
    bool clean = !v.models && !v.owners.all && !v.names && live.tensors == 0 && live.storages == 0 &&
                 session->bytes == 0 && session->objects == 0 && user->objects == 0;
    td_account_unref(session);
    td_account_unref(user);
    td_service_deinit(&v);
    return clean ? 0 : 1;
}

static void run(void)
{
    while (td_owners_run(&v, MOST)) continue;
}

/* ---- a model that gives what it is given, negated */

static const char text[] = "graph(%x : Tensor):\n"
                           "  %y : Tensor = td::neg(%x)\n"
                           "  return (%y)\n";

static td_held_program *program_of(const char *what)
{
    td_held_program *p = NULL;
    td_error e = {0};
    td_ir *ir = td_ir_read(what, strlen(what), &e);
    if (!ir || td_ir_verify(ir, 0, &e) || td_program_new(&p, ir, &e) || td_program_capture(p, 0, NULL, user, &e))
        printf("%s\n", e.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    return p;
}

static td_held_program *program(void)
{
    return program_of(text);
}

static td_model_how alone(void)
{
    td_model_how h = {.nin = 1, .nout = 1, .nsizes = 1, .sizes = {1}};
    h.in_rows[0] = h.out_rows[0] = -1;
    return h;
}

static td_model_how joined(uint32_t delay_us)
{
    td_model_how h = {.nin = 1, .nout = 1, .nsizes = 3, .sizes = {1, 2, 4}, .delay_us = delay_us};
    return h;
}

/* It is ready, and its loader has a way to it. */
static td_model_user model_of(const char *name, const char *what, td_model_how how)
{
    td_model_user u = {0};
    td_error e = {0};
    td_held_program *p = program_of(what);
    CU_ASSERT_EQUAL_FATAL(td_model_new(&u, &v, name, 0, 0, "{}", 2, session, &e), TD_OK);
    CU_ASSERT_EQUAL_FATAL(td_served_program(u.pinned, p, NULL, &e), TD_OK);
    CU_ASSERT_EQUAL_FATAL(td_model_ready(&u, &how, "{}", 2, session, &e), TD_OK);
    td_program_unref(p);
    return u;
}

static td_model_user model(const char *name, td_model_how how)
{
    return model_of(name, text, how);
}

static td_model_user join(const char *name)
{
    td_model_user u = {0};
    CU_ASSERT_EQUAL_FATAL(td_model_join(&u, &v, name, 0, NULL), TD_OK);
    return u;
}

static const td_model_counts *counts;
static uint32_t waiting, running, versions;

static void look(const td_model_info *m, void *name)
{
    if (strcmp(m->name, name) != 0) return;
    counts = m->counts;
    waiting = m->waiting;
    running = m->running;
    versions++;
}

static const td_model_counts *counts_of(const char *name)
{
    counts = NULL;
    versions = 0;
    td_model_some(&v, true, UINT32_MAX, look, (void *)(uintptr_t)name);
    return counts;
}

static td_model_user cold(const char *name, uint32_t number, unsigned flags, size_t card)
{
    td_model_user u = {0};
    td_error e = {0};
    char *of = calloc(1, card + 1);
    td_held_program *p = program();
    CU_ASSERT_EQUAL_FATAL(td_model_new(&u, &v, name, number, flags, of, card, session, &e), TD_OK);
    CU_ASSERT_EQUAL(td_model_ready(&u, &(td_model_how){.nin = 1}, NULL, 0, session, &e), TD_E_INVALID); /* no program */
    CU_ASSERT_EQUAL_FATAL(td_served_program(u.pinned, p, NULL, &e), TD_OK);
    td_program_unref(p);
    free(of);
    return u;
}

/* ---- asking */

/* Answers, in the order in which they came. */
static struct {
    int note, code;
    float first;
    int64_t rows;
} log_[ROOM];
static int answers;

static void told(void *arg, td_queued_item *out, const td_error *error)
{
    (void)arg;
    log_[answers++].code = error ? error->code : 0;
    td_queue_item_free(out);
}

static void then(void *arg, td_queued_item *out, const td_error *error)
{
    int *note = arg;
    const td_tensor *t = out ? out->tensors[0] : NULL;
    log_[answers].note = *note;
    log_[answers].code = error ? error->code : 0;
    log_[answers].first = t ? *(const float *)td_tensor_data(t) : 0;
    log_[answers++].rows = t ? t->desc.shape[0] : 0;
    td_queue_item_free(out);
}

static void add(td_queued_item *i, td_account *who, int rows, int columns, float x)
{
    td_place place = {.heap = v.heap, .account = who};
    td_storage *st = NULL;
    td_tensor *t = NULL;
    td_desc d;
    td_desc_contiguous(&d, TD_FLOAT32, 2, (int64_t[]){rows, columns}, NULL);
    CU_ASSERT_EQUAL_FATAL(td_storage_new(&st, &place, td_desc_nbytes(&d), NULL, NULL), TD_OK);
    for (int k = 0; k < rows * columns; k++) ((float *)st->data)[k] = x;
    CU_ASSERT_EQUAL_FATAL(td_tensor_new(&t, st, &d, who, NULL), TD_OK);
    td_storage_unref(st);
    CU_ASSERT_EQUAL_FATAL(td_queue_item_add(i, t, true, NULL), TD_OK);
    td_tensor_unref(t);
}

static td_queued_item *item_of(td_account *who, int rows, float x)
{
    td_queued_item *i = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&i, who, 1, 0, NULL), TD_OK);
    add(i, who, rows, 3, x);
    return i;
}

static td_queued_item *item(int rows, float x)
{
    return item_of(session, rows, x);
}

static int notes[ROOM];

/* A request of this number, whose answer is minus that. */
static td_await *ask_as(td_account *who, td_model_user *u, int note, int rows, int priority, uint64_t timeout_us)
{
    td_await *a = NULL;
    td_error e = {0};
    int rc = td_model_ask(&a, u, item_of(who, rows, (float)note), timeout_us, priority, 1, then, &e);
    if (rc) printf("%s\n", e.message);
    CU_ASSERT_EQUAL_FATAL(rc, TD_OK);
    notes[note] = note;
    a->arg = &notes[note];
    return a;
}

/* The same with other columns. */
static td_await *ask_wide(td_model_user *u, int note, int columns)
{
    td_await *a = NULL;
    td_queued_item *i = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&i, session, 1, 0, NULL), TD_OK);
    add(i, session, 1, columns, (float)note);
    CU_ASSERT_EQUAL_FATAL(td_model_ask(&a, u, i, UINT64_MAX, 0, 1, then, NULL), TD_OK);
    notes[note] = note;
    a->arg = &notes[note];
    return a;
}

static td_await *ask(td_model_user *u, int note, int rows, int priority, uint64_t timeout_us)
{
    return ask_as(session, u, note, rows, priority, timeout_us);
}

static bool came(int n, const int *order)
{
    bool good = answers == n;
    for (int k = 0; k < n && good; k++)
        good = log_[k].note == order[k] && !log_[k].code && log_[k].first == (float)-order[k];
    if (!good)
        for (int k = 0; k < answers; k++)
            printf("%d: %d, code %d, %g\n", k, log_[k].note, log_[k].code, (double)log_[k].first);
    answers = 0;
    return good;
}
#define CAME(...) CU_ASSERT_TRUE(came((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}))

static void end(const char *name)
{
    CU_ASSERT_EQUAL(td_model_retire(&v, name, 0, session, NULL), TD_OK);
    run();
}

static void each_has_its_turn(void)
{
    td_model_user a = model("fair", alone()), b = join("fair");
    td_account *other = td_account_new(user);
    for (int k = 1; k <= 5; k++) ask(&a, k, 1, 0, UINT64_MAX);
    ask_as(other, &b, 6, 1, 0, UINT64_MAX);
    ask_as(other, &b, 7, 1, 0, UINT64_MAX);
    CU_ASSERT_EQUAL(answers, 0); /* never from within */
    run();
    CAME(1, 6, 2, 7, 3, 4, 5);
    ask(&a, 1, 1, 0, UINT64_MAX); /* who asked much has not to wait for it later */
    ask_as(other, &b, 2, 1, 0, UINT64_MAX);
    run();
    CAME(1, 2);
    end("fair");
    td_model_leave(&a), td_model_leave(&b);
    td_account_unref(other);
}

/* However often it opens the model, and in whatever sessions. */
static void a_process_has_one_turn(void)
{
    td_model_user a = model("one turn", alone());
    td_account *of[3] = {session, td_account_new(user), td_account_new(user)};
    session->pid = of[1]->pid = 70, of[2]->pid = 71;
    for (int k = 1; k <= 6; k++) {
        td_model_user again = join("one turn");
        ask_as(of[k % 2], &again, k, 1, 0, UINT64_MAX);
        td_model_leave(&again);
    }
    ask_as(of[2], &a, 7, 1, 0, UINT64_MAX);
    ask_as(of[2], &a, 8, 1, 0, UINT64_MAX);
    run();
    CAME(1, 7, 2, 8, 3, 4, 5, 6);
    session->pid = 0;
    end("one turn");
    td_model_leave(&a);
    td_account_unref(of[1]), td_account_unref(of[2]);
}

/* Drawn: in whatever order they come and go, each priority's lines take turns. */
static void turns_of_many(void)
{
    enum { PROCESSES = 4, REQUESTS = 40 };
    td_model_user a = model("many turns", alone());
    td_account *of[PROCESSES];
    struct {
        int who, priority;
        td_await *at;
    } asked[REQUESTS + 1];
    uint32_t seed = 7;
    for (int k = 0; k < PROCESSES; k++) of[k] = td_account_new(user), of[k]->pid = 80 + (uint32_t)k;
    for (int round = 0; round < 20; round++) {
        int last[PROCESSES] = {0}, left = 0, open[2][PROCESSES] = {{0}}, between[PROCESSES][PROCESSES] = {{0}};
        for (int k = 1; k <= REQUESTS; k++) {
            seed = seed * 1664525 + 1013904223;
            asked[k].who = (int)(seed >> 24) % PROCESSES, asked[k].priority = (int)(seed >> 20) % 2;
            int priority = asked[k].priority ? INT32_MAX : INT32_MIN; /* as far as there are levels */
            asked[k].at = ask_as(of[asked[k].who], &a, k, 1, priority, UINT64_MAX);
        }
        for (int k = 1; k <= REQUESTS; k += 5) td_await_cancel(&v, asked[k].at), asked[k].at = NULL;
        for (int k = 1; k <= REQUESTS; k++)
            if (asked[k].at) left++, open[asked[k].priority][asked[k].who]++;
        run();
        CU_ASSERT_EQUAL(answers, left);
        for (int k = 0, before = 1; k < answers; k++) {
            int note = log_[k].note, who = asked[note].who, priority = asked[note].priority;
            CU_ASSERT_TRUE(priority <= before); /* the higher one first */
            if (priority < before) memset(last, 0, sizeof last), memset(between, 0, sizeof between);
            before = priority;
            CU_ASSERT_TRUE(note > last[who]);     /* a process's own in their order, ... */
            for (int i = 0; i < PROCESSES; i++) { /* ... and between two of them one of each that has some */
                if (last[who] && i != who)
                    CU_ASSERT_TRUE(between[who][i] == 1 || (!between[who][i] && !open[priority][i]));
                between[who][i] = 0;
                if (i != who) between[i][who]++;
            }
            last[who] = note;
            open[priority][who]--;
        }
        answers = 0;
    }
    end("many turns");
    td_model_leave(&a);
    for (int k = 0; k < PROCESSES; k++) td_account_unref(of[k]);
}

static void priority_comes_first(void)
{
    td_model_user a = model("first", alone()), b = join("first");
    ask(&a, 1, 1, 0, UINT64_MAX);
    ask(&a, 2, 1, -1, UINT64_MAX);
    ask(&b, 3, 1, 5, UINT64_MAX);
    ask(&a, 4, 1, 5, UINT64_MAX);
    ask(&b, 5, 1, 0, UINT64_MAX);
    run();
    CU_ASSERT_EQUAL(answers, 5);
    CU_ASSERT_TRUE(log_[0].note == 3 && log_[4].note == 2);
    answers = 0;
    end("first");
    td_model_leave(&a), td_model_leave(&b);
}

static void late_ones_cost_nothing(void)
{
    td_model_user a = model("late", alone());
    ask(&a, 1, 1, 0, 5000);
    ask(&a, 2, 1, 0, 50000);
    hand_clock_go_on(6 * MS);
    td_deadlines_run(&v);
    CU_ASSERT_TRUE(answers == 1 && log_[0].note == 1 && log_[0].code == TD_E_TIMEOUT);
    answers = 0;
    run();
    CAME(2);
    td_await *x = ask(&a, 3, 1, 0, UINT64_MAX);
    td_await_cancel(&v, x);
    run();
    CU_ASSERT_EQUAL(answers, 0);
    const td_model_counts *c = counts_of("late");
    CU_ASSERT_TRUE(c->runs == 1 && c->expired == 1 && c->cancelled == 1 && c->asked == 3 && waiting == 0);
    td_await *none = NULL;
    td_error e = {0};
    td_queued_item *i = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&i, session, 2, 0, NULL), TD_OK);
    add(i, session, 1, 3, 1);
    CU_ASSERT_EQUAL(td_model_ask(&none, &a, i, 0, 0, 1, then, &e), TD_E_TIMEOUT);
    add(i, session, 1, 3, 1);
    CU_ASSERT_EQUAL(td_model_ask(&none, &a, i, UINT64_MAX, 0, 1, then, &e), TD_E_INVALID); /* one too many */
    td_queue_item_free(i);
    end("late");
    td_model_leave(&a);
}

static void alike_ones_join(void)
{
    td_model_user a = model("joins", joined(0)), b = join("joins");
    for (int k = 1; k <= 4; k++) ask(k % 2 ? &a : &b, k, 1, 0, UINT64_MAX);
    run();
    CU_ASSERT_EQUAL(counts_of("joins")->runs, 1);
    CAME(1, 2, 3, 4);
    for (int k = 1; k <= 7; k++) ask(&a, k, 1, 0, UINT64_MAX); /* of sizes that were tried: 4, 2, 1 */
    run();
    CU_ASSERT_EQUAL(counts_of("joins")->runs, 4);
    CU_ASSERT_TRUE(counts->by_size[0] == 1 && counts->by_size[1] == 1 && counts->by_size[2] == 2);
    CAME(1, 2, 3, 4, 5, 6, 7);
    ask(&a, 1, 3, 0, UINT64_MAX); /* with others only as far as it fits, and as it was asked */
    ask(&a, 2, 2, 0, UINT64_MAX);
    ask(&a, 3, 1, 0, UINT64_MAX);
    run();
    CU_ASSERT_EQUAL(counts_of("joins")->runs, 6);
    CU_ASSERT_TRUE(log_[0].note == 1 && log_[1].note == 3 && log_[0].rows == 3 && log_[2].rows == 2);
    answers = 0;
    ask(&a, 1, 9, 0, UINT64_MAX); /* more than a batch has */
    run();
    CAME(1);
    td_await *gone = ask(&a, 1, 1, 0, UINT64_MAX);
    ask(&a, 2, 1, 0, UINT64_MAX);
    td_await_cancel(&v, gone);
    run();
    CAME(2);
    end("joins");
    td_model_leave(&a), td_model_leave(&b);
}

static void a_delay_is_waited_for(void)
{
    td_model_user a = model("waits", joined(4000));
    ask(&a, 1, 1, 0, UINT64_MAX);
    run();
    CU_ASSERT_EQUAL(answers, 0);
    hand_clock_go_on(2 * MS);
    td_deadlines_run(&v);
    run();
    CU_ASSERT_EQUAL(answers, 0);
    ask(&a, 2, 1, 0, UINT64_MAX);
    hand_clock_go_on(3 * MS);
    td_deadlines_run(&v);
    run();
    CAME(1, 2);
    CU_ASSERT_EQUAL(td_deadlines_run(&v), UINT64_MAX);
    ask(&a, 1, 1, 0, UINT64_MAX - 1);
    CU_ASSERT_EQUAL(td_deadlines_run(&v), 4000); /* to the microsecond */
    hand_clock_go_on(4 * MS);
    td_deadlines_run(&v);
    run();
    CAME(1);
    for (int k = 1; k <= 4; k++) ask(&a, k, 1, 0, UINT64_MAX); /* a whole batch waits for nobody */
    run();
    CAME(1, 2, 3, 4);
    ask(&a, 1, 1, 0, UINT64_MAX); /* nor does one that retires */
    CU_ASSERT_EQUAL(td_model_retire(&v, "waits", 0, session, NULL), TD_OK);
    run();
    CAME(1);
    td_model_leave(&a);
}

/* Memory of a run of four rows, and of one of two. */
static void wait_warm(uint64_t four)
{
    td_heap *h;
    td_extent x[2] = {0};
    CU_ASSERT_EQUAL_FATAL(td_heap_new(&h, &v.budget, TD_SEGMENT_SERVICE, 0, NULL), TD_OK);
    for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL(td_heap_alloc_now(h, four >> k, &x[k], NULL), TD_OK);
    for (int k = 0; k < 2; k++) td_heap_release(h, &x[k]);
    td_heap_trim(h);
    td_heap_free(h);
}

/* What only larger runs than any to come have wanted does not wait for the next. */
static void trials_leave_no_memory(void)
{
    enum { FOUR = 8 << 20 };
    td_model_how how = joined(0);
    how.nsizes = 2; /* up to two rows */
    for (uint32_t tried = 0; tried <= 4; tried += 2) {
        td_budget_shed(&v.budget);
        wait_warm(FOUR);
        CU_ASSERT_TRUE(v.budget.warm_bytes >= FOUR + FOUR / 2);
        how.tried = tried;
        td_model_user u = model_of("m", text, how);
        CU_ASSERT_EQUAL(v.budget.warm_bytes >= FOUR, tried <= 2);
        CU_ASSERT_TRUE(v.budget.warm_bytes >= FOUR / 2);
        CU_ASSERT_EQUAL(td_model_retire(&v, "m", 0, session, NULL), TD_OK);
        td_model_leave(&u);
        run();
    }
    td_budget_shed(&v.budget);
}

static void a_full_queue_refuses(void)
{
    td_model_how how = alone();
    how.queue = 2;
    td_model_user a = model("full", how);
    td_await *none = NULL;
    td_error e = {0};
    td_queued_item *i = item(1, 3);
    td_await *first = ask(&a, 1, 1, 0, UINT64_MAX);
    ask(&a, 2, 1, 0, UINT64_MAX);
    CU_ASSERT_EQUAL(td_model_ask(&none, &a, i, UINT64_MAX, 0, 1, then, &e), TD_E_BUSY);
    td_queue_item_free(i);
    CU_ASSERT_EQUAL(counts_of("full")->refused, 1);
    td_await_cancel(&v, first);
    ask(&a, 3, 1, 0, UINT64_MAX);
    run();
    CAME(2, 3);
    end("full");
    td_model_leave(&a);
}

static td_await *ask_full(td_account *who, td_model_user *u, int note, int rows, int priority)
{
    td_await *a = NULL;
    td_queued_item *i = item_of(who, rows, (float)note);
    int rc = td_model_ask(&a, u, i, UINT64_MAX, priority, 1, then, NULL);
    CU_ASSERT(rc == TD_OK || rc == TD_E_BUSY);
    if (rc) return td_queue_item_free(i), NULL;
    notes[note] = note;
    a->arg = &notes[note];
    return a;
}

/* Then these requests have given way, in this order. */
static bool gave_way(int n, const int *order)
{
    bool good = answers == n;
    for (int k = 0; k < n && good; k++) good = log_[k].note == order[k] && log_[k].code == TD_E_BUSY;
    answers = 0;
    return good;
}
#define GAVE_WAY(...) CU_ASSERT_TRUE(gave_way((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}))

/* Who has most of a full queue gives way, until all have as much. */
static void a_full_queue_is_shared(void)
{
    td_model_how how = alone();
    how.queue = 6;
    td_model_user a = model("shared", how);
    td_account *of[3] = {td_account_new(user), td_account_new(user), td_account_new(user)};
    for (uint32_t k = 0; k < 3; k++) of[k]->pid = 90 + k;
    for (int k = 1; k <= 6; k++) ask_full(of[0], &a, k, 1, k == 5);
    CU_ASSERT_PTR_NULL(ask_full(of[0], &a, 7, 1, 0));
    CU_ASSERT_EQUAL(counts_of("shared")->refused, 1);
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[1], &a, 11, 1, 0));
    GAVE_WAY(6); /* the newest of the lowest priority */
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[1], &a, 12, 1, 0));
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[1], &a, 13, 1, 0));
    GAVE_WAY(4, 3);
    CU_ASSERT_PTR_NULL(ask_full(of[1], &a, 14, 1, 0)); /* both have three */
    CU_ASSERT_PTR_NULL(ask_full(of[0], &a, 8, 1, 0));
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[2], &a, 21, 1, 0));
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[2], &a, 22, 1, 0));
    CU_ASSERT_EQUAL(answers, 2);
    answers = 0;
    CU_ASSERT_PTR_NULL(ask_full(of[2], &a, 23, 1, 0)); /* all have two */
    CU_ASSERT_EQUAL(counts_of("shared")->asked, 6);
    CU_ASSERT_EQUAL(counts_of("shared")->refused, 9);
    run();
    CU_ASSERT_EQUAL(answers, 6);
    int each[3] = {0};
    for (int k = 0; k < answers; k++) each[log_[k].note / 10] += log_[k].code == 0;
    CU_ASSERT(each[0] == 2 && each[1] == 2 && each[2] == 2);
    answers = 0;
    end("shared");
    td_model_leave(&a);
    for (int k = 0; k < 3; k++) td_account_unref(of[k]);
}

/* One more here and one less there is no better. */
static void an_odd_queue_is_shared(void)
{
    td_model_how how = alone();
    how.queue = 5;
    td_model_user a = model("odd", how);
    td_account *other = td_account_new(user);
    other->pid = 97;
    for (int k = 1; k <= 5; k++) ask_full(session, &a, k, 1, 0);
    CU_ASSERT_PTR_NOT_NULL(ask_full(other, &a, 11, 1, 0));
    CU_ASSERT_PTR_NOT_NULL(ask_full(other, &a, 12, 1, 0));
    GAVE_WAY(5, 4);
    CU_ASSERT_PTR_NULL(ask_full(other, &a, 13, 1, 0));
    run();
    CAME(1, 11, 2, 12, 3);
    end("odd");
    td_model_leave(&a);
    td_account_unref(other);
}

/* The same where not so many wait, and what they bring takes all that may. */
static void bytes_of_a_queue_are_shared(void)
{
    enum { ROWS = 100000 }; /* of 12 bytes; seven are more than the 8 MB that may wait */
    td_model_user a = model("bytes", alone());
    td_account *of[2] = {td_account_new(user), td_account_new(user)};
    of[0]->pid = 95, of[1]->pid = 96;
    int n = 1;
    while (ask_full(of[0], &a, n, ROWS, 0)) n++;
    CU_ASSERT(n > 3);
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[1], &a, 50, 1, 0));
    GAVE_WAY(n - 1);
    CU_ASSERT_PTR_NOT_NULL(ask_full(of[1], &a, 51, 1, 0));
    CU_ASSERT_EQUAL(answers, 0);
    run();
    CU_ASSERT_EQUAL(answers, n);
    answers = 0;
    end("bytes");
    td_model_leave(&a);
    td_account_unref(of[0]), td_account_unref(of[1]);
}

static void old_versions_end_with_their_last_request(void)
{
    td_model_user a = model("twice", alone());
    ask(&a, 1, 1, 0, UINT64_MAX);
    td_model_user b = model("twice", alone());
    ask(&a, 2, 1, 0, UINT64_MAX);
    counts_of("twice");
    CU_ASSERT_EQUAL(versions, 2);
    run();
    CU_ASSERT_EQUAL(answers, 2);
    answers = 0;
    counts_of("twice");
    CU_ASSERT_EQUAL(versions, 1);
    ask(&a, 3, 1, 0, UINT64_MAX);
    CU_ASSERT_EQUAL(td_name_drop(&v, "twice", session, NULL), TD_OK); /* it is answered all the same */
    td_error e = {0};
    td_await *none = NULL;
    td_queued_item *i = item(1, 3);
    CU_ASSERT_EQUAL(td_model_ask(&none, &a, i, UINT64_MAX, 0, 1, then, &e), TD_E_NOT_FOUND);
    td_queue_item_free(i);
    run();
    CAME(3);
    td_model_user c = model("twice", alone()); /* a way to the name leads to what has it next */
    ask(&a, 4, 1, 0, UINT64_MAX);
    run();
    CAME(4);
    end("twice");
    td_model_leave(&a), td_model_leave(&b), td_model_leave(&c);
    CU_ASSERT_PTR_NULL(v.models);
}

/* Some steps, as it would never rest. */
static void run_a_while(void)
{
    for (int k = 0; k < 200; k++) td_owners_run(&v, MOST);
}

/* Who asked is gone, or it was retired a minute ago: then a run without an end ends. */
static void a_run_without_an_end(void)
{
    static const char endless[] = "graph(%x : Tensor):\n"
                                  "  %yes : bool = prim::Constant[value=1]()\n"
                                  "  %n : int = prim::Constant[value=1000000000000000]()\n"
                                  "  %y : Tensor = prim::Loop(%n, %yes, %x)\n"
                                  "    block0(%i : int, %z : Tensor):\n"
                                  "      %w : Tensor = td::neg(%z)\n"
                                  "      -> (%yes, %w)\n"
                                  "  return (%y)\n";
    td_model_user a = model_of("endless", endless, alone());
    td_await *first = ask(&a, 1, 1, 0, UINT64_MAX);
    run_a_while();
    CU_ASSERT_EQUAL(answers, 0);
    td_await_cancel(&v, first);
    run(); /* rests */
    ask(&a, 2, 1, 0, 5000);
    run_a_while();
    hand_clock_go_on(6 * MS);
    td_deadlines_run(&v);
    CU_ASSERT_TRUE(answers == 1 && log_[0].code == TD_E_TIMEOUT);
    answers = 0;
    run();
    ask(&a, 3, 1, 0, UINT64_MAX);
    ask(&a, 4, 1, 0, UINT64_MAX);
    run_a_while();
    CU_ASSERT_EQUAL(td_model_retire(&v, "endless", 0, session, NULL), TD_OK);
    run_a_while();
    counts_of("endless");
    CU_ASSERT_TRUE(answers == 0 && versions == 1);
    hand_clock_go_on((uint64_t)TD_MODEL_GRACE_S * 1000 * MS + MS);
    td_deadlines_run(&v);
    CU_ASSERT_TRUE(answers == 2 && log_[0].code == TD_E_CANCELLED && log_[1].code == TD_E_CANCELLED);
    answers = 0;
    run();
    counts_of("endless");
    CU_ASSERT_EQUAL(versions, 0);
    CU_ASSERT_EQUAL(td_deadlines_run(&v), UINT64_MAX);
    td_model_leave(&a);
}

/* One that answers has a minute for each. */
static void a_slow_one_may_go_on(void)
{
    td_model_user a = model("slow", alone());
    for (int k = 1; k <= 3; k++) ask(&a, k, 1, 0, UINT64_MAX);
    CU_ASSERT_EQUAL(td_model_retire(&v, "slow", 0, session, NULL), TD_OK);
    for (int k = 1; k <= 3; k++) {
        hand_clock_go_on((uint64_t)(TD_MODEL_GRACE_S - 1) * 1000 * MS);
        while (answers < k) td_owners_run(&v, 1);
        hand_clock_go_on(2000 * MS);
        td_deadlines_run(&v);
    }
    CAME(1, 2, 3);
    run();
    td_model_leave(&a);
}

/* The daemon ends, and has dropped its names: of one retired model a request runs and another waits, and a second model
 * is being loaded. */
static void all_end_with_the_daemon(void)
{
    td_model_user a = model("runs", alone()), b = cold("loads", 0, 0, 0);
    for (int k = 1; k <= 2; k++) ask(&a, k, 1, 0, UINT64_MAX);
    CU_ASSERT_TRUE(counts_of("runs") && waiting == 2 && running == 1);
    CU_ASSERT_EQUAL(td_name_drop(&v, "runs", session, NULL), TD_OK);
    td_models_drop(&v);
    CU_ASSERT_EQUAL(answers, 2);
    for (int k = 0; k < answers; k++) CU_ASSERT_EQUAL(log_[k].code, TD_E_CANCELLED);
    answers = 0;
    run();
    td_model_leave(&a), td_model_leave(&b);
    CU_ASSERT_PTR_NULL(v.models);
    CU_ASSERT_PTR_NULL(v.owners.all);
    CU_ASSERT_EQUAL(td_deadlines_run(&v), UINT64_MAX);
}

static void a_loader_that_goes_leaves_nothing(void)
{
    td_model_user u = {0};
    td_error e = {0};
    td_held_program *p = program();
    CU_ASSERT_EQUAL_FATAL(td_model_new(&u, &v, "cold", 0, 0, "{}", 2, session, &e), TD_OK);
    CU_ASSERT_PTR_NULL(td_model_served(&u, &e)); /* not yet */
    CU_ASSERT_EQUAL_FATAL(td_served_program(u.pinned, p, NULL, &e), TD_OK);
    td_program_unref(p);
    td_model_user other;
    CU_ASSERT_EQUAL(td_model_join(&other, &v, "cold", 0, &e), TD_E_NOT_FOUND);
    td_await *a = ask(&u, 1, 1, 0, UINT64_MAX);
    td_model_leave(&u);
    CU_ASSERT_TRUE(answers == 1 && log_[0].code == TD_E_CANCELLED);
    answers = 0;
    (void)a;
    run();
    CU_ASSERT_PTR_NULL(v.models);
    CU_ASSERT_PTR_NULL(v.owners.all);
}

/* ---- which may join */

/* An input: rows of so many numbers, or `flat`: all of them in one dimension. */
typedef struct given {
    td_dtype dtype;
    int rows, columns, flat, from, turned, counted, written;
    float x;
} given;

/* With `from` numbers of another sort in front; counted: each number is one more than the last; turned: so is its
 * transpose, which is what lies there; written: its client has since
 * written to it. */
static void add_given(td_queued_item *i, given g)
{
    td_place place = {.heap = v.heap, .account = session};
    td_storage *st = NULL, *copy = NULL;
    td_tensor *t = NULL;
    td_desc d;
    int n = g.rows * g.columns;
    td_desc_contiguous(&d, g.dtype, g.flat ? 1 : 2, g.flat ? (int64_t[]){n} : (int64_t[]){g.rows, g.columns}, NULL);
    d.offset = g.from;
    if (g.turned) d.stride[0] = 1, d.stride[1] = g.rows;
    CU_ASSERT_EQUAL_FATAL(td_storage_new(&st, &place, (uint64_t)(n + g.from) * 4, NULL, NULL), TD_OK);
    for (int k = 0; k < n + g.from; k++)
        ((float *)st->data)[k] = k < g.from ? -7 : g.turned || g.counted ? g.x + (float)k : g.x;
    CU_ASSERT_EQUAL_FATAL(td_tensor_new(&t, st, &d, session, NULL), TD_OK);
    CU_ASSERT_EQUAL_FATAL(td_queue_item_add(i, t, true, NULL), TD_OK);
    if (g.written) {
        CU_ASSERT_EQUAL_FATAL(td_storage_new(&copy, &place, st->nbytes, NULL, NULL), TD_OK);
        memcpy(copy->data, st->data, st->nbytes);
        td_queued_copied(st, copy);
        td_storage_unref(copy);
        for (int k = 0; k < n + g.from; k++) ((float *)st->data)[k] = (float)g.written;
    }
    td_tensor_unref(t), td_storage_unref(st);
}

static td_queued_item *item_of_two(given x, given y)
{
    td_queued_item *i = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&i, session, 2, 0, NULL), TD_OK);
    add_given(i, x), add_given(i, y);
    return i;
}

/* Requests that are asked together: in how many runs are they answered? Each answer must be `want`. */
static uint64_t runs_of(td_model_user *u, int n, td_queued_item *const *in, const float *want)
{
    uint64_t before = counts_of(td_model_name(u->of))->runs;
    for (int k = 0; k < n; k++) {
        td_await *a = NULL;
        td_error e = {0};
        CU_ASSERT_EQUAL_FATAL(td_model_ask(&a, u, in[k], UINT64_MAX, 0, 1, then, &e), TD_OK);
        notes[k] = k;
        a->arg = &notes[k];
    }
    run();
    CU_ASSERT_EQUAL(answers, n);
    for (int k = 0; k < answers; k++) {
        CU_ASSERT_EQUAL(log_[k].code, 0);
        CU_ASSERT_EQUAL(log_[k].first, want[log_[k].note]);
    }
    answers = 0;
    return counts->runs - before;
}

/* y has no rows: requests with another y, or one that is not looked at, do not join. */
static void only_alike_ones_join(void)
{
    static const char sum[] = "graph(%x : Tensor, %y : Tensor):\n"
                              "  %zero : int = prim::Constant[value=0]()\n"
                              "  %one : int = prim::Constant[value=1]()\n"
                              "  %a : Tensor = td::add(%x, %one, %one)\n"
                              "  %r : Tensor = td::select(%y, %zero, %zero)\n"
                              "  %s : Tensor = td::select(%r, %zero, %zero)\n"
                              "  %z : Tensor = td::mul(%a, %s)\n"
                              "  return (%z)\n";
    const td_dtype F = TD_FLOAT32, I = TD_INT32;
    const struct {
        given x[2], y[2];
        int runs;
        float want[2];
    } all[] = {
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 1, .x = 3}, {F, 1, 1, .x = 3}}, 1, {6, 9}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 1, .x = 3}, {F, 1, 1, .x = 4}}, 2, {6, 12}},
        {{{F, 1, 3, .x = 1}, {F, 1, 4, .x = 2}}, {{F, 1, 1, .x = 3}, {F, 1, 1, .x = 3}}, 2, {6, 9}},
        {{{F, 1, 1, .x = 1}, {F, 1, 1, 1, .x = 2}}, {{F, 1, 1, .x = 3}, {F, 1, 1, .x = 3}}, 2, {6, 9}},
        {{{F, 1, 3, .x = 1}, {I, 1, 3, .x = 0}}, {{F, 1, 1, .x = 3}, {F, 1, 1, .x = 3}}, 2, {6, 3}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 16, .x = 3}, {F, 1, 16, .x = 3}}, 1, {6, 9}}, /* 64 bytes */
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 17, .x = 3}, {F, 1, 17, .x = 3}}, 2, {6, 9}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 1, .x = 3}, {F, 1, 1, .from = 1, .x = 3}}, 1, {6, 9}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}},
         {{F, 1, 1, .from = 1, .x = 4}, {F, 1, 1, .from = 1, .x = 3}},
         2,
         {8, 9}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}},
         {{F, 2, 2, .turned = 1, .x = 3}, {F, 2, 2, .counted = 1, .x = 3}},
         2,
         {6, 9}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 1, .x = 3, .written = 5}, {F, 1, 1, .x = 3}}, 1, {6, 9}},
        {{{F, 1, 3, .x = 1}, {F, 1, 3, .x = 2}}, {{F, 1, 1, .x = 3, .written = 5}, {F, 1, 1, .x = 5}}, 2, {6, 15}},
    };
    td_model_how how = {.nin = 2, .nout = 1, .nsizes = 1, .sizes = {2}, .in_rows = {0, -1}, .out_rows = {0}};
    td_model_user u = model_of("alike", sum, how);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        td_queued_item *in[2];
        for (int i = 0; i < 2; i++) in[i] = item_of_two(all[k].x[i], all[k].y[i]);
        uint64_t n = runs_of(&u, 2, in, all[k].want);
        if (n != (uint64_t)all[k].runs) printf("pair %zu: %d runs\n", k, (int)n);
        CU_ASSERT_EQUAL(n, all[k].runs);
    }
    end("alike");
    td_model_leave(&u);
}

/* Inputs that do not agree on how many rows there are: such a request stays alone, as it may be broadcast. */
static void rows_that_disagree_stay_alone(void)
{
    static const char sum[] = "graph(%x : Tensor, %y : Tensor):\n"
                              "  %z : Tensor = td::mul(%x, %y)\n"
                              "  return (%z)\n";
    td_model_how how = {.nin = 2, .nout = 1, .nsizes = 2, .sizes = {4, 8}, .in_rows = {0, 0}, .out_rows = {0}};
    td_model_user u = model_of("disagree", sum, how);
    given one = {TD_FLOAT32, 1, 3, .x = 2}, two = {TD_FLOAT32, 2, 3, .x = 3}, flat = {TD_FLOAT32, 1, 3, 1, .x = 5};
    CU_ASSERT_EQUAL(runs_of(&u, 2, (td_queued_item *[]){item_of_two(one, one), item_of_two(one, one)}, (float[]){4, 4}),
                    1);
    CU_ASSERT_EQUAL(runs_of(&u, 3,
                            (td_queued_item *[]){item_of_two(one, one), item_of_two(one, two), item_of_two(one, one)},
                            (float[]){4, 6, 4}),
                    2);
    CU_ASSERT_EQUAL(runs_of(&u, 2, (td_queued_item *[]){item_of_two(two, one), item_of_two(two, one)}, (float[]){6, 6}),
                    2);
    CU_ASSERT_EQUAL(
        runs_of(&u, 2, (td_queued_item *[]){item_of_two(flat, flat), item_of_two(one, one)}, (float[]){25, 4}), 2);
    CU_ASSERT_EQUAL(counts_of("disagree")->rows, 2 + 3 + 2 + 4); /* one that disagrees counts as one */
    end("disagree");
    td_model_leave(&u);
}

/* A program that goes along its rows where it has more than three columns: joined are the others, each look after it
 * was looked at once, also when it is forgotten meanwhile. */
static void by_look(void)
{
    static const char wide[] = "graph(%x : Tensor):\n"
                               "  %one : int = prim::Constant[value=1]()\n"
                               "  %three : int = prim::Constant[value=3]()\n"
                               "  %zero : int = prim::Constant[value=0]()\n"
                               "  %none : NoneType = prim::Constant()\n"
                               "  %s : int[] = prim::shape(%x)\n"
                               "  %n : int = prim::getitem.list(%s, %one)\n"
                               "  %c : bool = prim::gt.int(%n, %three)\n"
                               "  %y : Tensor = prim::If(%c)\n"
                               "    block0():\n"
                               "      %a : Tensor = td::cumsum(%x, %zero, %none)\n"
                               "      %b : Tensor = td::neg(%a)\n"
                               "      -> (%b)\n"
                               "    block1():\n"
                               "      %d : Tensor = td::neg(%x)\n"
                               "      -> (%d)\n"
                               "  return (%y)\n";
    td_model_how how = joined(0);
    how.by_look = true;
    td_model_user a = model_of("looks", wide, how);
    uint64_t runs = 0;
    for (int columns = 1; columns < 40; columns = columns < 20 ? columns + 1 : columns < 30 ? 31 : 40) {
        for (int again = 0; again < 2; again++) {
            for (int k = 1; k <= 4; k++) ask_wide(&a, k, again ? columns : 3);
            run();
            CAME(1, 2, 3, 4);
            runs += !again || columns <= 3 ? 1 : 4;
            CU_ASSERT_EQUAL(counts_of("looks")->runs, runs);
        }
    }
    int before = looks_asked;
    for (int rows = 1; rows <= 2; rows++) { /* how many there are is no part of a look */
        td_queued_item *in[] = {item(rows, 1), item(rows, 2)};
        runs_of(&a, 2, in, (float[]){-1, -2});
    }
    CU_ASSERT_TRUE(looks_asked <= before + 1);
    helper_is_slow = true; /* until it has answered, those of a look stay alone; one is asked about at a time */
    for (int columns = 50; columns < 52; columns++) {
        for (int k = 1; k <= 4; k++) ask_wide(&a, k, columns);
        runs = counts_of("looks")->runs;
        run();
        CAME(1, 2, 3, 4);
        CU_ASSERT_EQUAL(counts_of("looks")->runs, runs + 4);
    }
    helper_answers();
    CU_ASSERT_EQUAL(at_once_asked, 0);
    helper_is_slow = false;
    end("looks");
    td_model_leave(&a);
}

/* Its rows stay apart, but come out elsewhere than its loader said. */
static void by_look_as_said(void)
{
    static const char turns[] = "graph(%x : Tensor):\n  %y : Tensor = td::t(%x)\n  return (%y)\n";
    td_model_how how = {.nin = 1, .nout = 1, .nsizes = 1, .sizes = {2}, .by_look = true};
    for (int said = 0; said < 2; said++) {
        how.out_rows[0] = (int8_t)said;
        td_model_user a = model_of("turned", turns, how);
        td_queued_item *in[] = {item(1, 1), item(1, 2)};
        CU_ASSERT_EQUAL(runs_of(&a, 2, in, (float[]){1, 2}), said ? 1 : 2);
        CU_ASSERT_EQUAL(counts_of("turned")->again, 0);
        end("turned");
        td_model_leave(&a);
    }
}

/* 64 requests at most; a size that was tried, where it is half of what there is; else what there is. */
static void sizes_of_runs(void)
{
    static const struct {
        int asked, nsizes, sizes[2], runs;
    } all[] = {{128, 1, {1024, 0}, 2}, {129, 1, {1024, 0}, 3}, {4, 2, {2, 8}, 2}, {5, 2, {2, 8}, 1},
               {7, 2, {2, 8}, 1},      {8, 2, {2, 8}, 1},      {9, 2, {2, 8}, 2}, {16, 2, {2, 8}, 2}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        td_model_how how = {.nin = 1, .nout = 1, .nsizes = (uint16_t)all[k].nsizes};
        for (int i = 0; i < all[k].nsizes; i++) how.sizes[i] = (uint16_t)all[k].sizes[i];
        td_model_user u = model("sizes", how);
        td_queued_item *in[ROOM];
        float want[ROOM];
        for (int i = 0; i < all[k].asked; i++) in[i] = item(1, (float)i), want[i] = (float)-i;
        CU_ASSERT_EQUAL(runs_of(&u, all[k].asked, in, want), all[k].runs);
        end("sizes");
        td_model_leave(&u);
    }
    td_model_how how = {.nin = 1, .nout = 1, .nsizes = 1, .sizes = {TD_MODEL_ROWS}};
    for (int behind = 255; behind <= 256; behind++) { /* of those that wait 256 are looked at */
        td_model_user u = model("behind", how);
        ask_wide(&u, 0, 5);
        for (int i = 1; i < behind; i++) ask(&u, i, 1, 0, UINT64_MAX);
        ask_wide(&u, behind, 5);
        run();
        CU_ASSERT_EQUAL(answers, behind + 1);
        CU_ASSERT_TRUE(log_[0].note == 0 && (log_[1].note == behind) == (behind < 256));
        answers = 0;
        end("behind");
        td_model_leave(&u);
    }
    how.delay_us = 4000;
    td_model_user u = model("rows", how);
    ask(&u, 1, TD_MODEL_ROWS, 0, UINT64_MAX);
    run();
    CAME(1);
    CU_ASSERT_EQUAL(counts_of("rows")->rows, TD_MODEL_ROWS);
    ask(&u, 1, TD_MODEL_ROWS, 0, UINT64_MAX); /* as many as there may be, and more: they wait for nobody */
    ask(&u, 2, TD_MODEL_ROWS + 1, 0, UINT64_MAX);
    ask(&u, 3, TD_MODEL_ROWS - 1, 0, UINT64_MAX);
    ask(&u, 4, 1, 0, UINT64_MAX);
    run();
    CAME(1, 2, 3, 4);
    CU_ASSERT_EQUAL(counts_of("rows")->runs, 4);
    CU_ASSERT_EQUAL(counts->rows, 2 * TD_MODEL_ROWS + 1 + TD_MODEL_ROWS - 1 + 1); /* too many are one */
    end("rows");
    td_model_leave(&u);
}

/* So many bytes of inputs wait as an eighth of the memory, and when they are taken others may come. */
static void inputs_that_wait_are_bounded(void)
{
    enum { ROWS = (2 << 20) / 12, FEW = 4 };
    td_model_user a = model("large", alone());
    for (int round = 0; round < 3; round++) {
        td_await *none = NULL, *first = NULL;
        td_error e = {0};
        for (int k = 1; k <= FEW; k++) {
            td_await *x = ask(&a, k, ROWS, 0, UINT64_MAX);
            if (k == 1) first = x;
        }
        td_queued_item *small = item(1, 3), *more = item(3, 3);
        CU_ASSERT_EQUAL(td_model_ask(&none, &a, more, UINT64_MAX, 0, 1, then, &e), TD_OK); /* to the brim */
        none->arg = &notes[0];
        CU_ASSERT_EQUAL(td_model_ask(&none, &a, small, UINT64_MAX, 0, 1, then, &e), TD_E_BUSY);
        td_await_cancel(&v, first);
        CU_ASSERT_EQUAL(td_model_ask(&none, &a, small, UINT64_MAX, 0, 1, then, &e), TD_OK);
        none->arg = &notes[0];
        run();
        CU_ASSERT_EQUAL(answers, FEW + 1);
        answers = 0;
    }
    end("large");
    td_model_leave(&a);
}

/* Two runs at once, where there are two lanes. */
static void lanes_run_beside_each_other(void)
{
    static const char endless[] = "graph(%x : Tensor):\n"
                                  "  %yes : bool = prim::Constant[value=1]()\n"
                                  "  %n : int = prim::Constant[value=1000000000000000]()\n"
                                  "  %y : Tensor = prim::Loop(%n, %yes, %x)\n"
                                  "    block0(%i : int, %z : Tensor):\n"
                                  "      %w : Tensor = td::neg(%z)\n"
                                  "      -> (%yes, %w)\n"
                                  "  return (%y)\n";
    td_model_how how = alone();
    how.lanes = 2;
    td_model_user a = model_of("lanes", endless, how);
    td_await *x[3];
    for (int k = 0; k < 3; k++) x[k] = ask(&a, k, 1, 0, UINT64_MAX);
    run_a_while();
    counts_of("lanes");
    CU_ASSERT_TRUE(running == 2 && waiting == 1 && answers == 0);
    td_await_cancel(&v, x[0]); /* the next comes in its place */
    run_a_while();
    counts_of("lanes");
    CU_ASSERT_TRUE(running == 2 && waiting == 0);
    td_await_cancel(&v, x[1]), td_await_cancel(&v, x[2]);
    run();
    counts_of("lanes");
    CU_ASSERT_EQUAL(running, 0);
    end("lanes");
    td_model_leave(&a);
}

/* Its client writes to an input while the run reads it, after so many steps: it is answered for what it asked with. */
static void what_is_written_under_a_run(void)
{
    static const char adds[] = "graph(%x : Tensor):\n"
                               "  %yes : bool = prim::Constant[value=1]()\n"
                               "  %one : int = prim::Constant[value=1]()\n"
                               "  %n : int = prim::Constant[value=400]()\n"
                               "  %y : Tensor = prim::Loop(%n, %yes, %x)\n"
                               "    block0(%i : int, %z : Tensor):\n"
                               "      %w : Tensor = td::add(%z, %x, %one)\n"
                               "      -> (%yes, %w)\n"
                               "  return (%y)\n";
    td_model_user u = model_of("written", adds, alone());
    for (int steps = 0; steps < 40; steps += 3) {
        td_await *a = NULL;
        td_queued_item *i = item(1, 2);
        td_storage *st = td_storage_ref(i->tensors[0]->storage), *copy = NULL;
        CU_ASSERT_EQUAL_FATAL(td_model_ask(&a, &u, i, UINT64_MAX, 0, 1, then, NULL), TD_OK);
        a->arg = &notes[0];
        for (int k = 0; k < steps; k++) td_owners_run(&v, 1);
        CU_ASSERT_EQUAL_FATAL(answers, 0);
        td_place place = {.heap = v.heap, .account = session};
        CU_ASSERT_EQUAL_FATAL(td_storage_new(&copy, &place, st->nbytes, NULL, NULL), TD_OK);
        memcpy(copy->data, st->data, st->nbytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(st->queued);
        td_queued_copied(st, copy);
        for (int k = 0; k < 3; k++) ((float *)st->data)[k] = 100;
        td_storage_unref(copy), td_storage_unref(st);
        run();
        CU_ASSERT_TRUE(answers == 1 && log_[0].first == 2 * 401);
        answers = 0;
    }
    end("written");
    td_model_leave(&u);
}

/* One of a batch gives up after so many steps of its run: the others are answered, with their own. */
static void one_of_a_batch_gives_up(void)
{
    td_model_how how = joined(0);
    td_model_user u = model("fewer", how);
    int before = 0;
    for (int steps = 0; before < 4; steps++) {
        td_await *x[4];
        for (int k = 0; k < 4; k++) x[k] = ask(&u, k + 1, 1, 0, UINT64_MAX);
        for (int k = 0; k < steps; k++) td_owners_run(&v, 1);
        before = answers;
        if (!answers) td_await_cancel(&v, x[steps % 4]);
        run();
        CU_ASSERT_EQUAL(answers, before ? 4 : 3);
        for (int k = 0; k < answers; k++) {
            CU_ASSERT_TRUE(!log_[k].code && log_[k].first == (float)-log_[k].note);
            CU_ASSERT_TRUE(before || log_[k].note != steps % 4 + 1);
        }
        answers = 0;
        CU_ASSERT_TRUE_FATAL(steps < 1000);
    }
    end("fewer");
    td_model_leave(&u);
}

/* ---- what a batch returns */

static const td_storage *came_in[ROOM];

static void keep(void *arg, td_queued_item *out, const td_error *error)
{
    td_queued_item **to = arg;
    CU_ASSERT_TRUE_FATAL(out && !error);
    *to = out;
}

/* x: a row of `columns`; y: a number, the same of all. */
static td_queued_item *both(td_account *who, int columns)
{
    td_queued_item *i = NULL;
    CU_ASSERT_EQUAL_FATAL(td_queue_item_new(&i, who, 2, 0, NULL), TD_OK);
    add(i, who, 1, columns, 1);
    add(i, who, 1, 1, 2);
    return i;
}

/* Two that join, and whether their answers share a storage. */
static bool share(td_model_user *u, td_account *a, td_account *b)
{
    td_queued_item *out[2] = {NULL, NULL};
    td_account *of[2] = {a, b};
    uint64_t had = a->bytes + b->bytes;
    uint64_t runs = counts_of(u->of ? td_model_name(u->of) : "")->runs;
    for (int k = 0; k < 2; k++) {
        td_await *w;
        td_error e = {0};
        td_queued_item *in = both(of[k], 20000);
        came_in[k] = in->tensors[1]->storage;
        CU_ASSERT_EQUAL_FATAL(td_model_ask(&w, u, in, UINT64_MAX, 0, 1, keep, &e), TD_OK);
        w->arg = &out[k];
    }
    run();
    CU_ASSERT_EQUAL(counts->runs, runs + 1);
    CU_ASSERT_TRUE_FATAL(out[0] && out[1]);
    const td_storage *x = out[0]->tensors[0]->storage, *y = out[1]->tensors[0]->storage;
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE(x != came_in[k] && y != came_in[k]);
    CU_ASSERT_EQUAL(a->bytes + b->bytes - had, x == y ? 0 : x->nbytes + y->nbytes); /* what all have is the model's */
    td_queue_item_free(out[0]), td_queue_item_free(out[1]);
    return x == y;
}

static void a_batch_mixes_nobody(void)
{
    static const char sum[] = "graph(%x : Tensor, %y : Tensor):\n"
                              "  %z : Tensor = td::mul(%x, %y)\n"
                              "  return (%z)\n";
    static const char spread[] = "graph(%x : Tensor, %y : Tensor):\n"
                                 "  %r : int = prim::Constant[value=2]()\n"
                                 "  %c : int = prim::Constant[value=20000]()\n"
                                 "  %s : int[] = prim::ListConstruct(%r, %c)\n"
                                 "  %z : Tensor = td::expand(%y, %s)\n"
                                 "  return (%z)\n";
    td_model_how how = {.nin = 2, .nout = 1, .nsizes = 1, .sizes = {2}, .in_rows = {0, -1}, .out_rows = {0}};
    td_account *other = td_service_uid_account(&v, 8, NULL), *another = td_account_new(user),
               *foreign = td_account_new(other);
    session->uid = another->uid = 7, foreign->uid = 8;
    td_model_user u = model_of("sum", sum, how), w = model_of("spread", spread, how);
    CU_ASSERT_TRUE(share(&u, session, another)); /* one user's: no copies */
    CU_ASSERT_FALSE(share(&u, session, foreign));
    CU_ASSERT_FALSE(share(&u, foreign, session));
    share(&w, session, another); /* what came in goes out to nobody */
    share(&w, foreign, session);
    end("sum"), end("spread");
    td_model_leave(&u), td_model_leave(&w);
    CU_ASSERT_TRUE(another->bytes == 0 && foreign->bytes == 0 && other->objects == 0);
    td_account_unref(another), td_account_unref(foreign), td_account_unref(other);
}

static td_queued_item *kept[ROOM];

/* So many are asked together for `most` outputs each; their answers are in kept[]. */
static void ask_and_keep(td_model_user *u, int n, uint32_t most)
{
    for (int k = 0; k < n; k++) {
        td_await *a = NULL;
        td_error e = {0};
        CU_ASSERT_EQUAL_FATAL(td_model_ask(&a, u, item(1, (float)k), UINT64_MAX, 0, most, keep, &e), TD_OK);
        a->arg = &kept[k];
        kept[k] = NULL;
    }
    run();
    for (int k = 0; k < n; k++) CU_ASSERT_PTR_NOT_NULL_FATAL(kept[k]);
}

/* Outputs are the asker's own: not the model's weights, nor what another of the batch was given; and are paid by it. */
static void outputs_are_ones_own(void)
{
    static const char gives_weight[] = "captured %w : Tensor\n"
                                       "graph(%x : Tensor):\n"
                                       "  %one : int = prim::Constant[value=1]()\n"
                                       "  %n : Tensor = td::add(%w, %one, %one)\n"
                                       "  return (%w, %n)\n";
    td_model_user u = {0};
    td_error e = {0};
    td_held_program *p = NULL;
    td_queued_item *of = item(1, 5);
    td_ir *ir = td_ir_read(gives_weight, strlen(gives_weight), &e);
    CU_ASSERT_TRUE_FATAL(ir && !td_ir_verify(ir, 0, &e) && !td_program_new(&p, ir, &e));
    CU_ASSERT_EQUAL_FATAL(td_program_capture(p, 1, of->tensors, user, &e), TD_OK);
    CU_ASSERT_EQUAL_FATAL(td_model_new(&u, &v, "own", 0, 0, "{}", 2, session, &e), TD_OK);
    td_tensor *made = NULL; /* as its loader copies it */
    td_input in = td_in(of->tensors[0]);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_none(&a);
    td_issuer who = *td_served_issuer(u.pinned);
    who.heap = who.service_heap;
    CU_ASSERT_EQUAL_FATAL(td_ops_try(&who, TD_OP_COPY, 1, &in, &a, 0, 1, &made, NULL, &e), TD_OK);
    CU_ASSERT_EQUAL_FATAL(td_served_program(u.pinned, p, &made, &e), TD_OK);
    td_model_how how = {.nin = 1, .nout = 2, .nsizes = 1, .sizes = {2}, .out_rows = {-1, -1}};
    CU_ASSERT_EQUAL_FATAL(td_model_ready(&u, &how, "{}", 2, session, &e), TD_OK);
    td_program_unref(p);
    td_queue_item_free(of);
    uint64_t before = session->bytes;
    for (int n = 1; n <= 2; n++) {
        ask_and_keep(&u, n, 2);
        CU_ASSERT_TRUE(session->bytes >= before + (uint64_t)n * 2 * 12);
        for (int k = 0; k < n; k++) {
            const td_storage *w = kept[k]->tensors[0]->storage, *m = kept[k]->tensors[1]->storage;
            CU_ASSERT_TRUE(*(float *)w->data == 5 && *(float *)m->data == 6);
            CU_ASSERT_TRUE(w != made->storage && m != w);
            if (k) CU_ASSERT_TRUE(w != kept[0]->tensors[0]->storage && m != kept[0]->tensors[1]->storage);
        }
        for (int k = 0; k < n; k++) td_queue_item_free(kept[k]);
        CU_ASSERT_EQUAL(session->bytes, before);
    }
    td_tensor_unref(made);
    end("own");
    td_model_leave(&u);
}

/* What a batch gives has not its rows: then each is asked for once more, alone. */
static void batches_that_mix_rows(void)
{
    static const char *const texts[] = {"graph(%x : Tensor):\n"
                                        "  %zero : int = prim::Constant[value=0]()\n"
                                        "  %yes : bool = prim::Constant[value=1]()\n"
                                        "  %none : NoneType = prim::Constant()\n"
                                        "  %d : int[] = prim::ListConstruct(%zero)\n"
                                        "  %s : Tensor = td::sum(%x, %d, %yes, %none)\n"
                                        "  return (%s)\n",
                                        "graph(%x : Tensor):\n"
                                        "  %no : bool = prim::Constant[value=0]()\n"
                                        "  %none : NoneType = prim::Constant()\n"
                                        "  %s : Tensor = td::mean(%x, %none, %no, %none)\n"
                                        "  return (%s)\n"};
    for (int k = 0; k < 2; k++) {
        td_model_how how = {.nin = 1, .nout = 1, .nsizes = 1, .sizes = {2}};
        td_model_user u = model_of("mixes", texts[k], how);
        for (int times = 1; times <= 2; times++) {
            td_queued_item *in[] = {item(1, 3), item(1, 4), item(3, 5)};
            CU_ASSERT_EQUAL(runs_of(&u, 3, in, (float[]){3, 4, k ? 5 : 15}), 4);
            CU_ASSERT_EQUAL(counts_of("mixes")->again, 2 * times);
            for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(log_[i].note, i); /* before whoever came later */
        }
        end("mixes");
        td_model_leave(&u);
    }
}

/* Lists without a tensor count, too. */
static void as_many_lists_as_may_be(void)
{
    enum { VALUES = 4096 };
    for (int n = VALUES - 1; n <= VALUES; n++) {
        char of[256];
        snprintf(of, sizeof of,
                 "graph(%%x : Tensor):\n  %%a : Tensor[] = prim::ListConstruct()\n"
                 "  %%b : Tensor[][] = prim::ListConstruct(%%a)\n  %%n : int = prim::Constant[value=%d]()\n"
                 "  %%c : Tensor[][] = prim::mul.list(%%b, %%n)\n  return (%%c)\n",
                 n);
        td_model_user u = model_of("lists", of, alone());
        td_await *a = NULL;
        CU_ASSERT_EQUAL_FATAL(td_model_ask(&a, &u, item(1, 1), UINT64_MAX, 0, 1, told, NULL), TD_OK);
        a->arg = &notes[0];
        run();
        CU_ASSERT_TRUE(answers == 1 && log_[0].code == (n == VALUES ? TD_E_UNSUPPORTED : TD_OK));
        answers = 0;
        end("lists");
        td_model_leave(&u);
    }
}

/* As many tensors as a model may return, and as its asker wants; and one more. */
static void as_many_outputs_as_may_be(void)
{
    for (int n = TD_MODEL_ENDS; n <= TD_MODEL_ENDS + 1; n++) {
        char *of;
        size_t length;
        FILE *f = open_memstream(&of, &length);
        fprintf(f, "graph(%%x : Tensor):\n  %%y : Tensor = td::neg(%%x)\n  return (%%y");
        for (int k = 1; k < n; k++) fprintf(f, ", %%y");
        fprintf(f, ")\n");
        fclose(f);
        td_model_user u = model_of("outputs", of, alone());
        free(of);
        for (uint32_t most = TD_MODEL_ENDS; most >= TD_MODEL_ENDS - 1; most--) {
            td_await *a = NULL;
            td_error e = {0};
            CU_ASSERT_EQUAL_FATAL(td_model_ask(&a, &u, item(1, 1), UINT64_MAX, 0, most, then, &e), TD_OK);
            a->arg = &notes[0];
            run();
            CU_ASSERT_EQUAL_FATAL(answers, 1);
            CU_ASSERT_EQUAL(log_[0].code, n > TD_MODEL_ENDS      ? TD_E_UNSUPPORTED
                                          : most < TD_MODEL_ENDS ? TD_E_INVALID
                                                                 : TD_OK);
            answers = 0;
        }
        end("outputs");
        td_model_leave(&u);
    }
}

static void lanes_are_paid(void)
{
    uint64_t before = user->objects;
    td_model_user a = model("one", alone());
    uint64_t one = user->objects - before;
    td_model_how how = alone();
    how.lanes = TD_MODEL_LANES;
    td_model_user b = model("many", how);
    uint64_t many = user->objects - before - one;
    CU_ASSERT_TRUE(many >= one + (TD_MODEL_LANES - 1) * td_objects_of(4096));
    end("one"), end("many");
    td_model_leave(&a), td_model_leave(&b);
    CU_ASSERT_EQUAL(user->objects, before);
}

/* ---- what may be said of a model */

static void what_may_be_said(void)
{
    enum { GOOD = TD_OK, BAD = TD_E_INVALID, CARD = TD_MODEL_CARD };
    static char text_of_card[CARD + 1];
    static const struct {
        td_model_how how;
        size_t card;
        int code;
    } all[] = {{{.nin = 0, .nout = 1}, 2, BAD},
               {{.nin = 2, .nout = 1}, 2, BAD},
               {{.nin = 1, .nout = TD_MODEL_ENDS}, 2, GOOD},
               {{.nin = 1, .nout = TD_MODEL_ENDS + 1}, 2, BAD},
               {{.nin = 1, .lanes = TD_MODEL_LANES}, 2, GOOD},
               {{.nin = 1, .lanes = TD_MODEL_LANES + 1}, 2, BAD},
               {{.nin = 1, .queue = 64 * TD_MODEL_QUEUE}, 2, GOOD},
               {{.nin = 1, .queue = 64 * TD_MODEL_QUEUE + 1}, 2, BAD},
               {{.nin = 1, .nsizes = TD_MODEL_SIZES, .sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
                2,
                GOOD},
               {{.nin = 1, .nsizes = TD_MODEL_SIZES + 1}, 2, BAD},
               {{.nin = 1, .nsizes = 1, .sizes = {TD_MODEL_ROWS}}, 2, GOOD},
               {{.nin = 1, .nsizes = 1, .sizes = {TD_MODEL_ROWS + 1}}, 2, BAD},
               {{.nin = 1, .nsizes = 1, .sizes = {0}}, 2, BAD},
               {{.nin = 1, .nsizes = 2, .sizes = {2, 2}}, 2, BAD},
               {{.nin = 1, .nsizes = 2, .sizes = {2, 3}}, 2, GOOD},
               {{.nin = 1}, CARD, GOOD},
               {{.nin = 1}, CARD + 1, BAD}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        td_error e = {0};
        td_model_user u = cold("said", 0, 0, 1);
        int code = td_model_ready(&u, &all[k].how, text_of_card, all[k].card, session, &e);
        if (code != all[k].code) printf("case %zu: %d %s\n", k, code, e.message);
        CU_ASSERT_EQUAL(code, all[k].code);
        if (!code) end("said");
        td_model_leave(&u);
    }
    td_error e = {0};
    td_model_user u = cold("said", 0, 0, CARD), none = {0};
    CU_ASSERT_EQUAL(td_model_new(&none, &v, "other", 0, 0, text_of_card, CARD + 1, session, &e), TD_E_INVALID);
    uint64_t small = user->objects;
    td_model_leave(&u);
    uint64_t before = user->objects;
    u = cold("said", 0, 0, 1); /* a card that grows is paid for */
    CU_ASSERT_EQUAL(td_model_ready(&u, &all[2].how, text_of_card, CARD, session, NULL), TD_OK);
    CU_ASSERT_TRUE(user->objects - before + 1 >= small - before);
    end("said");
    td_model_leave(&u);
}

static void what_a_program_may_be(void)
{
    static const char adds[] = "graph(%x : Tensor):\n"
                               "  %no : bool = prim::Constant[value=0]()\n"
                               "  %gs : Tensor?[] = prim::ListConstruct()\n"
                               "  %all : Tensor[] = prim::ListConstruct()\n"
                               "  %outs : Tensor[] = prim::ListConstruct(%x)\n"
                               "  prim::backward(%outs, %gs, %all, %no, %no)\n"
                               "  return (%x)\n";
    for (int n = TD_MODEL_ENDS - 1; n <= TD_MODEL_ENDS + 1; n++) { /* the first: another program */
        char *of;
        size_t length;
        FILE *f = open_memstream(&of, &length);
        fprintf(f, "graph(%%x0 : Tensor");
        for (int k = 1; k < n; k++) fprintf(f, ", %%x%d : Tensor", k);
        fprintf(f, "):\n  return (%%x0)\n");
        fclose(f);
        td_model_user u = {0};
        td_error e = {0};
        td_held_program *p = program_of(n < TD_MODEL_ENDS ? adds : of);
        CU_ASSERT_EQUAL_FATAL(td_model_new(&u, &v, "program", 0, 0, "", 0, session, &e), TD_OK);
        CU_ASSERT_EQUAL(td_served_program(u.pinned, p, NULL, &e), n == TD_MODEL_ENDS ? TD_OK : TD_E_UNSUPPORTED);
        td_model_leave(&u);
        td_program_unref(p);
        free(of);
    }
}

/* A version of this number, ready; its loader goes. */
static uint32_t serves(const char *name, uint32_t number, unsigned flags)
{
    td_model_user u = cold(name, number, flags, 0);
    uint32_t is = td_served_number(u.pinned);
    td_model_how how = alone();
    CU_ASSERT_EQUAL_FATAL(td_model_ready(&u, &how, NULL, 0, session, NULL), TD_OK);
    td_model_leave(&u);
    run();
    return is;
}

/* Which the name means; 0: none is found. `asked`: of this number. */
static uint32_t found(const char *name, uint32_t asked_for)
{
    td_model_user u = {0};
    td_error e = {0};
    if (td_model_join(&u, &v, name, asked_for, &e)) {
        CU_ASSERT_EQUAL(e.code, TD_E_NOT_FOUND);
        return 0;
    }
    uint32_t is = td_served_number(td_model_served(&u, NULL));
    td_model_leave(&u);
    return is;
}

static void versions_by_number(void)
{
    enum { KEEP = TD_SERVED_KEEP_OLD };
    td_account *foreign = td_account_new(NULL);
    foreign->uid = session->uid + 1;
    CU_ASSERT_EQUAL(serves("numbers", 5, KEEP), 5);
    CU_ASSERT_EQUAL(serves("numbers", 3, KEEP), 3);
    CU_ASSERT_EQUAL(serves("numbers", 0, KEEP), 6); /* behind the last that there was */
    CU_ASSERT_TRUE(found("numbers", 0) == 6 && found("numbers", 5) == 5 && found("numbers", 3) == 3);
    CU_ASSERT_EQUAL(serves("numbers", 5, KEEP), 5); /* in place of the other */
    counts_of("numbers");
    CU_ASSERT_EQUAL(versions, 3);
    CU_ASSERT_EQUAL(td_model_serve(&v, "numbers", 3, foreign, NULL), TD_E_PERMISSION);
    CU_ASSERT_EQUAL(td_model_retire(&v, "numbers", 3, foreign, NULL), TD_E_PERMISSION);
    CU_ASSERT_EQUAL(found("numbers", 0), 5);
    CU_ASSERT_EQUAL(td_model_serve(&v, "numbers", 3, session, NULL), TD_OK);
    CU_ASSERT_EQUAL(td_model_retire(&v, "numbers", 6, session, NULL), TD_OK); /* another than what it means */
    CU_ASSERT_TRUE(found("numbers", 0) == 3 && found("numbers", 6) == 0);
    td_model_user pinned = {0};
    CU_ASSERT_EQUAL_FATAL(td_model_join(&pinned, &v, "numbers", 3, NULL), TD_OK);
    ask(&pinned, 1, 1, 0, UINT64_MAX);
    CU_ASSERT_EQUAL(td_model_retire(&v, "numbers", 3, session, NULL), TD_OK); /* it has to answer yet */
    CU_ASSERT_TRUE(found("numbers", 0) == 5 && found("numbers", 3) == 0);
    run();
    CAME(1);
    td_model_leave(&pinned);
    CU_ASSERT_EQUAL(td_model_retire(&v, "numbers", 5, session, NULL), TD_OK);
    CU_ASSERT_EQUAL(found("numbers", 0), 0);
    CU_ASSERT_PTR_NULL(td_name_find(&v, "numbers", NULL));
    serves("numbers", 1, KEEP), serves("numbers", 2, KEEP);
    CU_ASSERT_EQUAL(serves("numbers", 3, 0), 3); /* alone */
    CU_ASSERT_TRUE(found("numbers", 1) == 0 && found("numbers", 2) == 0);
    serves("numbers", 4, KEEP);
    end("numbers"); /* with all versions */
    CU_ASSERT_TRUE(found("numbers", 3) == 0 && !v.models);
    td_account_unref(foreign);
}

/* As long as somebody has it open, or until it is dropped. */
static void models_while_they_are_open(void)
{
    for (unsigned flags = 0; flags <= TD_SERVED_WHILE_OPEN; flags += TD_SERVED_WHILE_OPEN) {
        td_model_user a = cold("open", 0, flags, 0), b = {0};
        td_model_how how = alone();
        ask(&a, 1, 1, 0, UINT64_MAX); /* while it is made warm, which counts for nobody */
        run();
        CAME(1);
        CU_ASSERT_EQUAL_FATAL(td_model_ready(&a, &how, NULL, 0, session, NULL), TD_OK);
        CU_ASSERT_TRUE(counts_of("open")->asked == 0 && counts->runs == 0);
        CU_ASSERT_EQUAL_FATAL(td_model_join(&b, &v, "open", 0, NULL), TD_OK);
        td_model_leave(&a);
        CU_ASSERT_EQUAL(found("open", 0), 1);
        ask(&b, 2, 1, 0, UINT64_MAX);
        td_model_leave(&b);
        CU_ASSERT_EQUAL(found("open", 0), flags == 0);
        run();
        CAME(2);
        CU_ASSERT_EQUAL(v.models == NULL, flags != 0);
        if (!flags) end("open");
    }
}

static int walked;
static void walk(const td_model_info *m, void *unused)
{
    (void)m, (void)unused;
    walked++;
}

/* The table is made in parts, and where it is a model goes. */
static void a_walk_over_what_goes(void)
{
    static const char *const names[] = {"one", "two", "three"};
    for (int gone = 0; gone < 3; gone++) {
        for (int k = 0; k < 3; k++) serves(names[k], 0, 0);
        walked = 0;
        CU_ASSERT_FALSE(td_model_some(&v, true, 1, walk, NULL));
        end(names[gone]);
        while (!td_model_some(&v, false, 1, walk, NULL)) {
        }
        CU_ASSERT_EQUAL(walked, gone ? 2 : 3); /* they are in the order in which they came */
        for (int k = 0; k < 3; k++)
            if (k != gone) end(names[k]);
    }
}

static void times_have_quantiles(void)
{
    td_times t = {0};
    for (int k = 1; k <= 1000; k++) td_times_add(&t, (uint64_t)k * 1000);
    CU_ASSERT_TRUE(td_times_quantile(&t, 0.5) >= 500 && td_times_quantile(&t, 0.5) <= 640);
    CU_ASSERT_TRUE(td_times_quantile(&t, 0.99) >= 990 && td_times_quantile(&t, 0.99) <= 1280);
    CU_ASSERT_EQUAL(t.count, 1000);
    td_times_add(&t, 0), td_times_add(&t, UINT64_MAX);
    CU_ASSERT_EQUAL(t.count, 1002);
    struct {
        td_times t;
        uint64_t behind;
    } last = {{0}, 0};
    td_times_add(&last.t, (UINT64_C(1) << 32) * 1000); /* as far as there are places, and farther */
    td_times_add(&last.t, (UINT64_C(1) << 32) * 1000 - 1000);
    CU_ASSERT_TRUE(last.t.within[TD_MODEL_TIMES - 1] == 2 && !last.behind);
}

TD_CUNIT_MAIN_WITH(
    "models", init, cleanup, {"a batch mixes nobody", a_batch_mixes_nobody}, {"lanes are paid", lanes_are_paid},
    {"only alike ones join", only_alike_ones_join}, {"rows that disagree stay alone", rows_that_disagree_stay_alone},
    {"sizes of runs", sizes_of_runs}, {"inputs that wait are bounded", inputs_that_wait_are_bounded},
    {"lanes run beside each other", lanes_run_beside_each_other}, {"outputs are one's own", outputs_are_ones_own},
    {"batches that mix rows", batches_that_mix_rows}, {"as many outputs as may be", as_many_outputs_as_may_be},
    {"as many lists as may be", as_many_lists_as_may_be}, {"what is written under a run", what_is_written_under_a_run},
    {"one of a batch gives up", one_of_a_batch_gives_up}, {"each has its turn", each_has_its_turn},
    {"a process has one turn", a_process_has_one_turn}, {"turns of many", turns_of_many},
    {"priority comes first", priority_comes_first}, {"late ones cost nothing", late_ones_cost_nothing},
    {"alike ones join", alike_ones_join}, {"by look", by_look}, {"by look, as said", by_look_as_said},
    {"a delay is waited for", a_delay_is_waited_for}, {"trials leave no memory", trials_leave_no_memory},
    {"a full queue refuses", a_full_queue_refuses}, {"a full queue is shared", a_full_queue_is_shared},
    {"an odd queue is shared", an_odd_queue_is_shared}, {"bytes of a queue are shared", bytes_of_a_queue_are_shared},
    {"old versions end with their last request", old_versions_end_with_their_last_request},
    {"a run without an end", a_run_without_an_end}, {"a slow one may go on", a_slow_one_may_go_on},
    {"all end with the daemon", all_end_with_the_daemon},
    {"a loader that goes leaves nothing", a_loader_that_goes_leaves_nothing}, {"what may be said", what_may_be_said},
    {"what a program may be", what_a_program_may_be}, {"versions by number", versions_by_number},
    {"models while they are open", models_while_they_are_open}, {"a walk over what goes", a_walk_over_what_goes},
    {"times have quantiles", times_have_quantiles})
