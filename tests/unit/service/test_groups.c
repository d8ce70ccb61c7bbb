/* Groups: who meets whom, how long it is waited for, memory that is made meanwhile, and that nothing stays behind. By a
 * clock that the test moves; the memory is made when the test says so. */
#include "daemon/service/group.h"
#include "daemon/service/roll.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { MS = 1000000, MOST = 64, FOR_EVER = UINT32_MAX };

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
    bool clean = !v.groups.all && !v.owners.all && live.storages == 0 && user->objects == 0 && user->bytes == 0;
    td_account_unref(session);
    td_account_unref(user);
    td_service_deinit(&v);
    return clean ? 0 : 1;
}

static void run(void)
{
    while (td_owners_run(&v, MOST)) continue;
}

static void pass(uint64_t ms)
{
    hand_clock_go_on(ms * MS);
    td_deadlines_run(&v);
}

/* A member, and what it was told of what it waits for. */
typedef struct one {
    td_group_member *m;
    td_group_wait *wait;
    td_group_part part;
    int told, code;
    bool there; /* the part was, when it was told of it */
    char message[sizeof((td_error *)NULL)->message];
} one;

static void told(void *arg, const td_error *error)
{
    one *o = arg;
    o->told++;
    o->code = error ? error->code : TD_OK;
    o->there = td_group_memory(o->m, o->part) != NULL;
    snprintf(o->message, sizeof o->message, "%s", error ? error->message : "");
}

static const td_group_form two = {2, 2, 0}, one_or_two = {1, 2, 0};

static one come(const char *name, const td_group_form *form, int rank)
{
    one o = {.part = TD_GROUP_BOARD};
    td_error e = {0};
    int rc = td_group_join(&o.m, &v, name, form, rank, session, &e);
    if (rc) printf("%s\n", e.message);
    CU_ASSERT_EQUAL_FATAL(rc, TD_OK);
    return o;
}

static int await(one *o, td_group_part part, uint32_t ms)
{
    td_error e = {0};
    o->part = part;
    o->told = o->code = 0;
    int rc = td_group_await(o->m, part, ms, &o->wait, told, o, &e);
    CU_ASSERT_EQUAL(o->told, 0); /* never from within */
    return rc;
}

static int regroup(one *o, uint32_t ms)
{
    td_error e = {0};
    o->part = TD_GROUP_BOARD;
    o->told = o->code = 0;
    return td_group_regroup(o->m, ms, &o->wait, told, o, &e);
}

static bool has(const one *o)
{
    return o->told == 1 && !o->code && o->there;
}

/* They are in an epoch, and have its board. */
static void meet(one o[2], const char *name, const td_group_form *form)
{
    for (int k = 0; k < 2; k++) {
        o[k] = come(name, form, form->least == form->most ? k : -1);
        if (form->least == form->most || k) continue;
        CU_ASSERT_EQUAL_FATAL(await(&o[0], TD_GROUP_BOARD, FOR_EVER), TD_WAIT);
        run();
    }
    for (int k = form->least < form->most; k < 2; k++)
        CU_ASSERT_EQUAL_FATAL(await(&o[k], TD_GROUP_BOARD, FOR_EVER), TD_WAIT);
    if (form->least < form->most) regroup(&o[0], FOR_EVER);
    run();
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_TRUE(has(&o[k]));
        CU_ASSERT_TRUE(td_group_rank_of(o[k].m) == (uint32_t)k && td_group_size_of(o[k].m) == 2);
    }
    CU_ASSERT_EQUAL(td_group_epoch_of(o[0].m), td_group_epoch_of(o[1].m));
}

static void all_leave(one *o, int n)
{
    for (int k = 0; k < n; k++) td_group_leave(o[k].m);
    run();
    CU_ASSERT_PTR_NULL(v.groups.all);
    CU_ASSERT_EQUAL(td_deadlines_run(&v), UINT64_MAX);
}

static void two_meet(void)
{
    one o[2];
    meet(o, "two", &two);
    CU_ASSERT_EQUAL(td_deadlines_run(&v), UINT64_MAX);
    uint32_t epoch = td_group_epoch_of(o[0].m);
    CU_ASSERT_EQUAL(await(&o[0], TD_GROUP_BOARD, 0), TD_OK); /* it is there */
    CU_ASSERT_EQUAL(regroup(&o[0], FOR_EVER), TD_WAIT);
    run();
    CU_ASSERT_TRUE(o[0].told == 0 && td_group_epoch_of(o[0].m) == epoch);
    CU_ASSERT_EQUAL(regroup(&o[1], FOR_EVER), TD_WAIT);
    run();
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE(has(&o[k]) && td_group_epoch_of(o[k].m) == epoch + 1);
    all_leave(o, 2);
    meet(o, "one or two", &one_or_two);
    all_leave(o, 2);
}

/* Whoever waits in vain is told, and is at the door no more. */
static void in_vain(void)
{
    td_error e = {0};
    for (int how = 0; how < 4; how++) {
        one o = come("vain", &two, 0), other = {0};
        if (how == 0) { /* no time at all */
            CU_ASSERT_EQUAL(await(&o, TD_GROUP_BOARD, 0), TD_E_TIMEOUT);
        } else {
            CU_ASSERT_EQUAL(await(&o, TD_GROUP_BOARD, 100), TD_WAIT);
            CU_ASSERT_EQUAL(td_group_join(&other.m, &v, "vain", &two, 0, session, &e), TD_E_EXISTS);
            if (how == 1) td_await_cancel(&v, &o.wait->await);
            pass(how == 2 ? 99 : 100);
            CU_ASSERT_EQUAL(o.told, how == 3);
            if (how == 2) td_group_leave(o.m);
            CU_ASSERT_EQUAL(o.code, how == 3 ? TD_E_TIMEOUT : how == 2 ? TD_E_CLOSED : 0);
        }
        one again = {0};
        if (how != 2) { /* its rank is free, though it has not left yet */
            CU_ASSERT_EQUAL(td_group_join(&again.m, &v, "vain", &two, 0, session, &e), TD_OK);
            td_group_leave(again.m);
            td_group_leave(o.m);
        }
        run();
        CU_ASSERT_PTR_NULL(v.groups.all);
        CU_ASSERT_EQUAL(td_deadlines_run(&v), UINT64_MAX);
    }
}

/* Of a group of 20 the ranks 0, `step`, 2 `step`... come, `n` of them: what the first is told, who waits no longer, and
 * then the last. */
static void check_words(int n, int step, const char *come_first, const char *come_last, const char *missing)
{
    static const td_group_form many = {20, 20, 0};
    one o[20];
    char first[400], last[400];
    for (int k = 0; k < n; k++) {
        o[k] = come("many", &many, k * step);
        CU_ASSERT_EQUAL(await(&o[k], TD_GROUP_BOARD, 100), TD_WAIT);
    }
    pass(100);
    snprintf(first, sizeof first, "group 'many': %d of 20 came in 0.1 s: %s%s did not", n, come_first, missing);
    CU_ASSERT_STRING_EQUAL(o[0].message, first);
    snprintf(last, sizeof last, "group 'many': %d of 20 came in 0.1 s: %s", n - 1, come_last);
    CU_ASSERT_NSTRING_EQUAL(o[n - 1].message, last, strlen(last));
    CU_ASSERT_PTR_NOT_NULL(strstr(o[n - 1].message, "; rank 0 (pid 0, ) came and gave up 0.0 s ago"));
    all_leave(o, n);
}

#define WHO(rank) "rank " #rank " (pid 0, )"

/* Six are named, and six spans of ranks. */
static void who_came_and_who_did_not(void)
{
    check_words(2, 19, WHO(0) ", " WHO(19), WHO(19) "; ranks 0 to 18 did not; ", "; ranks 1 to 18");
    check_words(6, 3, WHO(0) ", " WHO(3) ", " WHO(6) ", " WHO(9) ", " WHO(12) ", " WHO(15),
                WHO(3) ", " WHO(6) ", " WHO(9) ", " WHO(12) ", " WHO(15) "; ranks 0 to 2, ",
                "; ranks 1 to 2, ranks 4 to 5, ranks 7 to 8, ranks 10 to 11, ranks 13 to 14, ranks 16 to 19");
    check_words(
        8, 2, WHO(0) ", " WHO(2) ", " WHO(4) ", " WHO(6) ", " WHO(8) ", " WHO(10) " and 2 more",
        WHO(2) ", " WHO(4) ", " WHO(6) ", " WHO(8) ", " WHO(10) ", " WHO(12) " and 1 more; ranks 0 to 1, rank 3, ",
        "; rank 1, rank 3, rank 5, rank 7, rank 9, rank 11 and more");
    check_words(
        19, 1, WHO(0) ", " WHO(1) ", " WHO(2) ", " WHO(3) ", " WHO(4) ", " WHO(5) " and 13 more",
        WHO(1) ", " WHO(2) ", " WHO(3) ", " WHO(4) ", " WHO(5) ", " WHO(6) " and 12 more; rank 0, rank 19 did not; ",
        "; rank 19");
}

/* When all have come there are ten seconds to make the board, however little the last would have waited. */
static void time_for_the_board(void)
{
    for (uint32_t late = 0; late < 2; late++) {
        one o[2];
        for (int k = 0; k < 2; k++) {
            o[k] = come("late", &two, k);
            CU_ASSERT_EQUAL(await(&o[k], TD_GROUP_BOARD, 1), TD_WAIT);
        }
        pass(9999);
        for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL(o[k].told, 0);
        if (late) pass(1);
        run();
        for (int k = 0; k < 2; k++) {
            CU_ASSERT_EQUAL(o[k].told, 1);
            CU_ASSERT_EQUAL(o[k].code, late ? TD_E_TIMEOUT : TD_OK);
            if (late) CU_ASSERT_PTR_NOT_NULL(strstr(o[k].message, "was not made in time"));
        }
        all_leave(o, 2);
    }
}

/* Each is told of the part that it waits for, when that is there; buffers have a size, and there are so many. */
static void parts_of_the_memory(void)
{
    one o[2];
    td_error e = {0};
    td_group_part part, last;
    meet(o, "parts", &two);
    CU_ASSERT_EQUAL(td_group_buffer(o[0].m, TD_GROUP_BUFFERS_MOST, 10, &part, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_group_buffer(o[0].m, 0, 0, &part, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_group_buffer(o[0].m, 0, INT64_MAX / (2 * TD_BOARD_RANKS) + 1, &part, &e), TD_E_INVALID);
    CU_ASSERT_EQUAL(td_group_buffer(o[0].m, TD_GROUP_BUFFERS_MOST - 1, 100, &last, &e), TD_OK);
    CU_ASSERT_EQUAL(td_group_buffer(o[1].m, TD_GROUP_BUFFERS_MOST - 1, 99, &part, &e), TD_E_MISMATCH);
    CU_ASSERT_EQUAL(td_group_buffer(o[1].m, TD_GROUP_BUFFERS_MOST - 1, 101, &part, &e), TD_E_MISMATCH);
    CU_ASSERT_EQUAL(td_group_buffer(o[1].m, 0, INT64_MAX / (2 * TD_BOARD_RANKS), &part, &e), TD_OK);
    CU_ASSERT_EQUAL(await(&o[1], part, FOR_EVER), TD_WAIT); /* which is more than there is */
    CU_ASSERT_EQUAL(await(&o[0], last, FOR_EVER), TD_WAIT);
    run();
    CU_ASSERT_TRUE(has(&o[0]));
    CU_ASSERT_TRUE(o[1].told == 1 && o[1].code == TD_E_MEMORY);
    CU_ASSERT_EQUAL(td_group_buffer(o[0].m, 0, 10, &part, &e), TD_OK); /* less may be had */
    for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL(await(&o[k], part, FOR_EVER), TD_WAIT);
    run();
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE(has(&o[k]));
    CU_ASSERT_PTR_EQUAL(td_group_memory(o[0].m, part), td_group_memory(o[1].m, part));
    CU_ASSERT_EQUAL(td_group_buffer(o[0].m, 1, 10, &part, &e), TD_OK);
    CU_ASSERT_EQUAL(await(&o[0], part, FOR_EVER), TD_WAIT);
    td_group_leave(o[0].m); /* it waits no more, and the memory is for nobody */
    CU_ASSERT_TRUE(o[0].told == 1 && o[0].code == TD_E_CLOSED);
    CU_ASSERT_EQUAL(await(&o[1], part, FOR_EVER), TD_WAIT);
    td_group_leave(o[1].m);
    CU_ASSERT_TRUE(o[1].told == 1 && o[1].code == TD_E_CLOSED);
    run();
    CU_ASSERT_PTR_NULL(v.groups.all);
}

/* Two groups make memory at once: nobody is told of another's. */
static void two_groups_at_once(void)
{
    one a[2], b[2];
    for (int k = 0; k < 2; k++) a[k] = come("a", &two, k), b[k] = come("b", &two, k);
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_EQUAL(await(&a[k], TD_GROUP_BOARD, FOR_EVER), TD_WAIT);
        CU_ASSERT_EQUAL(await(&b[k], TD_GROUP_BOARD, FOR_EVER), TD_WAIT);
    }
    run();
    for (int k = 0; k < 2; k++) CU_ASSERT_TRUE(has(&a[k]) && has(&b[k]));
    for (int k = 0; k < 2; k++) td_group_leave(b[k].m);
    all_leave(a, 2);
}

/* The deadline of a member that regroups: where fewer may go on the others are expelled, else it stays where it is. */
static void without_the_late(void)
{
    for (int few = 0; few < 2; few++) {
        one o[2];
        meet(o, "late", few ? &one_or_two : &two);
        uint32_t epoch = td_group_epoch_of(o[0].m);
        CU_ASSERT_EQUAL(regroup(&o[0], 0), few ? TD_WAIT : TD_E_TIMEOUT);
        if (!few) {
            CU_ASSERT_EQUAL(regroup(&o[0], 100), TD_WAIT);
            pass(99);
            CU_ASSERT_EQUAL(o[0].told, 0);
            pass(1);
            CU_ASSERT_TRUE(o[0].told == 1 && o[0].code == TD_E_TIMEOUT);
            CU_ASSERT_TRUE(td_group_epoch_of(o[0].m) == epoch && td_group_size_of(o[0].m) == 2);
            CU_ASSERT_EQUAL(regroup(&o[0], 100), TD_WAIT); /* it may try again */
            CU_ASSERT_EQUAL(regroup(&o[1], 100), TD_WAIT);
        }
        run();
        CU_ASSERT_TRUE(has(&o[0]) && td_group_epoch_of(o[0].m) > epoch);
        CU_ASSERT_EQUAL(td_group_size_of(o[0].m), few ? 1 : 2);
        if (few) CU_ASSERT_EQUAL(regroup(&o[1], 0), TD_E_EPOCH);
        all_leave(o, 2);
    }
    one o[2];
    meet(o, "later", &one_or_two);
    CU_ASSERT_EQUAL(regroup(&o[0], 100), TD_WAIT);
    pass(100); /* its own deadline lets the epoch begin; the wait goes on for the board */
    CU_ASSERT_EQUAL(o[0].told, 0);
    run();
    CU_ASSERT_TRUE(has(&o[0]) && td_group_size_of(o[0].m) == 1);
    all_leave(o, 2);
}

/* The next epoch begins while a part of the one before is made, which nobody wants any more. */
static void made_for_nobody(void)
{
    one o[2];
    meet(o, "nobody", &two);
    CU_ASSERT_EQUAL(await(&o[0], TD_GROUP_SLOTS, FOR_EVER), TD_WAIT);
    td_await_cancel(&v, &o[0].wait->await);
    for (int k = 0; k < 2; k++) CU_ASSERT_EQUAL(regroup(&o[k], FOR_EVER), TD_WAIT);
    run();
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_TRUE(has(&o[k]));
        CU_ASSERT_PTR_NULL(td_group_memory(o[k].m, TD_GROUP_SLOTS));
    }
    all_leave(o, 2);
}

static int rows;
static char states[8][64];

static void row(const td_roll_row *r, void *unused)
{
    (void)unused;
    if (rows < 8) snprintf(states[rows], sizeof states[rows], "%.8s %d %.40s", r->group, r->rank, r->state);
    rows++;
}

/* What is told of each, step by step; a group that ends meanwhile is passed. */
static void the_roll(void)
{
    td_roll r;
    one o[2], forms = come("forms", &two, 1);
    CU_ASSERT_EQUAL(await(&forms, TD_GROUP_BOARD, FOR_EVER), TD_WAIT);
    meet(o, "open", &two);
    rows = 0;
    td_roll_begin(&r, &v);
    while (!td_roll_some(&r, 1, row, NULL)) {
    }
    td_roll_end(&v);
    static const char *const want[] = {"open -1 open, 2 of 2",     "open 0 in",       "open 1 in",
                                       "forms -1 forming, 1 of 2", "forms 0 awaited", "forms 1 in"};
    CU_ASSERT_EQUAL(rows, 6);
    for (int k = 0; k < 6; k++) {
        if (strcmp(states[k], want[k]) != 0) printf("row %d: '%s'\n", k, states[k]);
        CU_ASSERT_STRING_EQUAL(states[k], want[k]);
    }
    td_roll_begin(&r, &v);
    CU_ASSERT_FALSE(td_roll_some(&r, 4, row, NULL)); /* it is at the first */
    rows = 0;
    for (int k = 0; k < 2; k++) td_group_leave(o[k].m);
    run();
    while (!td_roll_some(&r, 1, row, NULL)) {
    }
    td_roll_end(&v);
    CU_ASSERT_EQUAL(rows, 3); /* those of the other */
    all_leave(&forms, 1);
}

TD_CUNIT_MAIN_WITH("groups", init, cleanup, {"two meet", two_meet}, {"in vain", in_vain},
                   {"who came and who did not", who_came_and_who_did_not}, {"time for the board", time_for_the_board},
                   {"parts of the memory", parts_of_the_memory}, {"two groups at once", two_groups_at_once},
                   {"without the late", without_the_late}, {"made for nobody", made_for_nobody}, {"the roll", the_roll})
