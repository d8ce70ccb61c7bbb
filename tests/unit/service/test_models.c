/* Requests of models: whose turn it is, which join, which are too late, and that nothing stays behind. By a clock that
 * the test moves. */
#include "daemon/service/models.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { MS = 1000000, MOST = 64, ROOM = 64 };

static td_service v;
static td_account *user, *session;

static void background(void *unused, void (*work)(void *), void (*done)(void *), void *arg)
{
    (void)unused;
    work(arg);
    if (done) done(arg);
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
static uint32_t waiting, versions;

static void look(const td_model_info *m, void *name)
{
    if (strcmp(m->name, name) != 0) return;
    counts = m->counts;
    waiting = m->waiting;
    versions++;
}

static const td_model_counts *counts_of(const char *name)
{
    counts = NULL;
    versions = 0;
    td_model_some(&v, true, UINT32_MAX, look, (void *)(uintptr_t)name);
    return counts;
}

/* ---- asking */

/* Answers, in the order in which they came. */
static struct {
    int note, code;
    float first;
    int64_t rows;
} log_[ROOM];
static int answers;

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
    td_queued_item *i = item(1, 1);
    CU_ASSERT_EQUAL(td_model_ask(&none, &a, i, 0, 0, 1, then, &e), TD_E_TIMEOUT);
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
    end("looks");
    td_model_leave(&a);
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
    end("waits");
    td_model_leave(&a);
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

static void times_have_quantiles(void)
{
    td_times t = {0};
    for (int k = 1; k <= 1000; k++) td_times_add(&t, (uint64_t)k * 1000);
    CU_ASSERT_TRUE(td_times_quantile(&t, 0.5) >= 500 && td_times_quantile(&t, 0.5) <= 640);
    CU_ASSERT_TRUE(td_times_quantile(&t, 0.99) >= 990 && td_times_quantile(&t, 0.99) <= 1280);
    CU_ASSERT_EQUAL(t.count, 1000);
    td_times_add(&t, 0), td_times_add(&t, UINT64_MAX);
    CU_ASSERT_EQUAL(t.count, 1002);
}

TD_CUNIT_MAIN_WITH("models", init, cleanup, {"a batch mixes nobody", a_batch_mixes_nobody},
                   {"lanes are paid", lanes_are_paid}, {"each has its turn", each_has_its_turn},
                   {"a process has one turn", a_process_has_one_turn}, {"turns of many", turns_of_many},
                   {"priority comes first", priority_comes_first}, {"late ones cost nothing", late_ones_cost_nothing},
                   {"alike ones join", alike_ones_join}, {"by look", by_look},
                   {"a delay is waited for", a_delay_is_waited_for}, {"a full queue refuses", a_full_queue_refuses},
                   {"old versions end with their last request", old_versions_end_with_their_last_request},
                   {"a run without an end", a_run_without_an_end}, {"a slow one may go on", a_slow_one_may_go_on},
                   {"a loader that goes leaves nothing", a_loader_that_goes_leaves_nothing},
                   {"times have quantiles", times_have_quantiles})
