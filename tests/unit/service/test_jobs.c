/* Owners that are no session: their jobs' turns, what these wait for, who pays, and that nothing stays behind. */
#include "daemon/service/service.h"
#include "proto/ops/opid.h"
#include "tests/support/hand_clock.h"
#include "tests/unit/cunit_main.h"

#include <stdlib.h>

enum { MS = 1000000, MOST = 8, LARGE = 1 << 20 /* floats: nobody computes them at once */ };

static td_service v;
static td_account *user;
/* Of a helper: it does its work when the test says so. */
static struct {
    bool on;
    void (*work)(void *);
    void (*done)(void *);
    void *arg;
} helper;

static void background(void *unused, void (*work)(void *), void (*done)(void *), void *arg)
{
    (void)unused;
    if (helper.on && done) {
        helper.work = work, helper.done = done, helper.arg = arg;
        return;
    }
    work(arg);
    if (done) done(arg);
}

static void helper_comes_back(void)
{
    helper.on = false;
    helper.work(helper.arg);
    helper.done(helper.arg);
}

static void ignore(void *unused)
{
    (void)unused;
}

static int init(void)
{
    td_service_options o = {.memory = 64 << 20, .workers = 1, .background = background, .wake = ignore};
    hand_clock_stop(0);
    if (td_service_init(&v, &o, NULL)) return 1;
    user = td_service_uid_account(&v, 7, NULL);
    return user ? 0 : 1;
}

static int cleanup(void)
{
    td_live live = td_live_counts();
    bool clean = !v.owners.all && !v.owners.ready && live.tensors == 0 && live.storages == 0 && user->bytes == 0 &&
                 user->objects == 0;
    td_account_unref(user);
    td_service_deinit(&v);
    return clean ? 0 : 1;
}

/* ---- a job that does what its test says */

typedef struct steps {
    td_job job;
    td_owner *owner;
    int *log, *taken; /* what each step notes, and where */
    int note, left, drops;
    uint64_t takes_ns;
    int (*then)(struct steps *x, td_error *e); /* instead of a step; NULL: it counts `left` down */
    td_tensor *in, *out;
    td_need need;
} steps;

static int lefts, dropped, failures;

static int take(td_job *j, td_error *e)
{
    steps *x = (steps *)(void *)j;
    if (x->log) x->log[(*x->taken)++] = x->note;
    hand_clock_go_on(x->takes_ns);
    int rc = x->then ? x->then(x, e) : --x->left > 0 ? TD_AGAIN : TD_OK;
    if (rc == TD_OK) {
        td_tensor_unref(x->out);
        free(x);
    }
    return rc;
}

static bool drop(td_job *j, int most)
{
    steps *x = (steps *)(void *)j;
    (void)most;
    if (x->drops-- > 0) return false;
    td_tensor_unref(x->out);
    free(x);
    dropped++;
    return true;
}

static void left(td_job *j)
{
    (void)j;
    lefts++;
}

static const td_job_kind kind = {"steps", .step = take, .drop = drop, .left = left, .cost = 1};

static steps *steps_new(td_owner *o, steps x)
{
    steps *n = malloc(sizeof *n);
    *n = x;
    n->job = td_owner_job(o, &kind);
    n->owner = o;
    return n;
}

static void give(td_owner *o, steps x)
{
    td_owner_give(o, &steps_new(o, x)->job);
}

static void failed(td_owner *o, const td_job_kind *of, const td_error *why)
{
    (void)o;
    failures += of == &kind && why->code == TD_E_INVALID;
}

static td_owner *owner(const char *name)
{
    td_owner *o = NULL;
    lefts = dropped = failures = 0;
    CU_ASSERT_EQUAL_FATAL(td_owner_new(&o, &v, user, name, NULL), TD_OK);
    o->failed = failed;
    return o;
}

static bool is_there(const td_owner *o)
{
    const td_owner *x = v.owners.all;
    while (x && x != o) x = x->next;
    return x != NULL;
}

/* Until those of the owner have ended and are collected; it may go with the last. */
static void finish_tasks(const td_owner *o)
{
    while (is_there(o) && td_flow_pending(o->flow)) {
        td_sched_help(v.sched);
        td_sched_collect(v.sched, 64);
        td_owners_collected(&v);
    }
}

static void end(td_owner *o)
{
    td_owner_end(o);
    while (td_owners_run(&v, MOST)) continue;
    finish_tasks(o);
    CU_ASSERT_FALSE_FATAL(is_there(o));
}

static td_tensor *tensor(td_owner *o, size_t n)
{
    td_place place = {.heap = v.heap, .account = o->account, .flags = TD_SF_SERVICE};
    td_storage *st = NULL;
    td_tensor *t = NULL;
    td_desc d;
    td_desc_contiguous(&d, TD_FLOAT32, 1, (int64_t[]){(int64_t)n}, NULL);
    CU_ASSERT_EQUAL_FATAL(td_storage_new(&st, &place, 4 * n, NULL, NULL), TD_OK);
    for (size_t i = 0; i < n; i++) ((float *)st->data)[i] = (float)i;
    CU_ASSERT_EQUAL_FATAL(td_tensor_new(&t, st, &d, o->account, NULL), TD_OK);
    td_storage_unref(st);
    return t;
}

/* ---- turns */

static void jobs_come_in_order(void)
{
    int log[16], n = 0;
    td_owner *o = owner("a");
    give(o, (steps){.log = log, .taken = &n, .note = 1, .left = 2});
    give(o, (steps){.log = log, .taken = &n, .note = 2, .left = 1});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL_FATAL(n, 3);
    CU_ASSERT_TRUE(log[0] == 1 && log[1] == 1 && log[2] == 2);
    CU_ASSERT_EQUAL(o->steps, 3);
    end(o);
}

static void nobody_waits_for_a_long_one(void)
{
    int log[64], n = 0;
    td_owner *a = owner("a"), *b = owner("b");
    give(a, (steps){.log = log, .taken = &n, .note = 1, .left = 1000});
    give(b, (steps){.log = log, .taken = &n, .note = 2, .left = 1});
    CU_ASSERT_TRUE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL_FATAL(n, MOST + 1);
    CU_ASSERT_EQUAL(log[MOST], 2);
    n = 0;
    give(b, (steps){.left = 1, .takes_ns = MS}); /* a step that takes long is a turn */
    give(b, (steps){.log = log, .taken = &n, .note = 2, .left = 1});
    CU_ASSERT_TRUE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(n, MOST);
    CU_ASSERT_TRUE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(n, 2 * MOST + 1);
    end(a);
    end(b);
}

/* ---- waiting */

static int wait_once(steps *x, td_error *e)
{
    (void)e;
    return x->left-- > 0 ? TD_WAIT : TD_OK;
}

static void who_waits_takes_no_turn(void)
{
    td_owner *o = owner("a");
    give(o, (steps){.left = 1, .then = wait_once});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    give(o, (steps){.left = 1}); /* it comes behind the one that waits */
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(o->steps, 1);
    td_owner_ready(o);
    td_owner_ready(o);
    CU_ASSERT_PTR_EQUAL(v.owners.ready, o);
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(o->steps, 3);
    end(o);
}

/* Copies, and goes on when that is there. */
static int copy(steps *x, td_error *e)
{
    td_attrs a;
    td_input in = td_in(x->in);
    td_access whole = {.lo = 0, .hi = 4 * LARGE};
    if (x->out) {
        CU_ASSERT_EQUAL(((float *)td_tensor_data(x->out))[LARGE - 1], (float)(LARGE - 1));
        return TD_OK;
    }
    td_attrs_init(&a);
    td_attrs_none(&a);
    int rc = td_ops_try(x->job.issuer, TD_OP_COPY, 1, &in, &a, TD_CF_SERVICE, 1, &x->out, &x->need, e);
    if (rc) return td_owner_lacks(x->owner, rc, &x->need, e);
    CU_ASSERT_PTR_EQUAL(td_owner_of(x->job.issuer), x->owner);
    whole.storage = x->out->storage;
    return td_owner_after(x->owner, 1, &whole);
}

static void its_ops_are_its_own(void)
{
    td_owner *o = owner("model 'a'");
    td_tensor *in = tensor(o, LARGE);
    uint64_t before = o->account->bytes;
    give(o, (steps){.then = copy, .in = in});
    while (td_owners_run(&v, MOST)) continue; /* a segment is made on the way */
    CU_ASSERT_EQUAL(td_flow_pending(o->flow), 1);
    CU_ASSERT_EQUAL(o->account->bytes, before + 4 * LARGE);
    CU_ASSERT_EQUAL(user->bytes, o->account->bytes);
    finish_tasks(o);
    CU_ASSERT_PTR_EQUAL_FATAL(v.owners.ready, o);
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(o->account->bytes, before);
    td_tensor_unref(in);
    end(o);
}

static void memory_is_made_aside(void)
{
    td_owner *o = owner("a"), *other = owner("b");
    td_tensor *in = tensor(o, LARGE), *more = tensor(o, LARGE); /* no room is left beside them */
    helper.on = true;
    give(o, (steps){.then = copy, .in = in});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_PTR_NOT_NULL_FATAL(helper.work);
    give(other, (steps){.left = 1});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST)); /* others go on meanwhile */
    CU_ASSERT_EQUAL(other->steps, 1);
    helper_comes_back();
    while (td_owners_run(&v, MOST)) continue;
    finish_tasks(o);
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_PTR_NULL(o->first);
    td_tensor_unref(in);
    td_tensor_unref(more);
    end(o);
    end(other);
}

static int lacks_now_and_then(steps *x, td_error *e)
{
    td_need need = {.bytes = 1 << 20, .heap = v.heap};
    bool lacks = x->left == 3 || x->left == 1;
    if (x->left-- == 0) return TD_OK;
    int rc = lacks ? td_owner_lacks(x->owner, TD_WAIT_GROW, &need, e) : TD_AGAIN;
    CU_ASSERT_EQUAL(rc, lacks ? TD_WAIT : TD_AGAIN);
    return rc;
}

static void a_refusal_is_of_one_lack(void)
{
    td_owner *o = owner("a");
    helper.on = true;
    give(o, (steps){.then = lacks_now_and_then, .left = 3});
    while (td_owners_run(&v, MOST)) continue;
    o->growth.rc = TD_E_MEMORY; /* the system refuses it, and the step finds room without it */
    helper.done(helper.arg);
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_TRUE(o->steps == 3 && !failures);
    helper_comes_back();
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_TRUE(o->steps == 4 && !failures && !o->first);
    end(o);
}

static void nobody_wakes_who_waits_for_its_helper(void)
{
    td_owner *o = owner("a");
    helper.on = true;
    give(o, (steps){.then = lacks_now_and_then, .left = 1});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    td_owner_ready(o); /* of something else */
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(o->steps, 1);
    helper_comes_back();
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_TRUE(o->steps == 2 && !o->first);
    end(o);
}

static int too_much(steps *x, td_error *e)
{
    (void)e;
    int rc = td_owner_lacks(x->owner, TD_WAIT_GROW, &(td_need){.bytes = UINT64_C(1) << 40, .heap = v.heap}, e);
    CU_ASSERT_EQUAL(rc, TD_E_MEMORY);
    return TD_E_INVALID;
}

static void memory_that_nobody_has_is_an_error(void)
{
    td_owner *o = owner("a");
    give(o, (steps){.then = too_much});
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_PTR_NULL(o->first);
    end(o);
}

/* ---- ends */

static int fail(steps *x, td_error *e)
{
    (void)x;
    return td_fail(e, TD_E_INVALID, "as it was told to");
}

static void what_fails_goes_in_parts(void)
{
    td_owner *o = owner("a");
    give(o, (steps){.then = fail, .drops = 3});
    give(o, (steps){.left = 1});
    CU_ASSERT_TRUE(td_owners_run(&v, MOST)); /* the next one has been done, too */
    CU_ASSERT_TRUE(o->steps == 2 && failures == 1 && lefts == 1 && !dropped);
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_EQUAL(dropped, 1);
    end(o);
}

static int give_one(steps *x, td_error *e)
{
    (void)e;
    give(x->owner, (steps){.left = 1});
    return TD_OK;
}

static int end_owner(steps *x, td_error *e)
{
    (void)e;
    td_owner_end(x->owner);
    return TD_AGAIN;
}

/* Its end comes first, then a wait for what it has asked for. */
static int end_and_wait(steps *x, td_error *e)
{
    td_owner_end(x->owner);
    int rc = copy(x, e);
    CU_ASSERT_EQUAL(rc, TD_AGAIN);
    CU_ASSERT_PTR_NULL(x->owner->tasks);
    return rc;
}

static void an_owner_that_has_ended_waits_for_nothing(void)
{
    td_owner *o = owner("a");
    td_tensor *in = tensor(o, LARGE);
    give(o, (steps){.then = end_and_wait, .in = in});
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_EQUAL(dropped, 1);
    if (is_there(o)) finish_tasks(o);
    CU_ASSERT_PTR_NULL(v.owners.all);
    td_tensor_unref(in);
}

static void a_step_gives_more_and_ends_it(void)
{
    td_owner *o = owner("a");
    give(o, (steps){.then = give_one});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_EQUAL(o->steps, 2);
    give(o, (steps){.then = end_owner});
    give(o, (steps){.left = 1});
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_TRUE(lefts == 2 && dropped == 2);
    CU_ASSERT_PTR_NULL(v.owners.all);
}

static void an_owner_goes_with_its_last_task(void)
{
    td_owner *o = owner("a");
    td_tensor *in = tensor(o, LARGE);
    give(o, (steps){.then = copy, .in = in});
    give(o, (steps){.left = 1, .drops = 2});
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_EQUAL(td_flow_pending(o->flow), 1);
    td_owner_end(o);
    while (td_owners_run(&v, MOST)) continue;
    CU_ASSERT_EQUAL(dropped, 2);
    CU_ASSERT_PTR_EQUAL(v.owners.all, o);
    finish_tasks(o);
    CU_ASSERT_PTR_NULL(v.owners.all);
    td_tensor_unref(in);
}

static int grow(steps *x, td_error *e)
{
    return td_owner_lacks(x->owner, TD_WAIT_GROW, &(td_need){.bytes = 1 << 20, .heap = v.heap}, e);
}

static void an_owner_waits_for_its_helper(void)
{
    td_owner *o = owner("a");
    helper.on = true;
    give(o, (steps){.then = grow});
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    td_owner_end(o);
    CU_ASSERT_FALSE(td_owners_run(&v, MOST));
    CU_ASSERT_TRUE(is_there(o) && dropped == 1);
    helper_comes_back();
    CU_ASSERT_FALSE(is_there(o));
}

TD_CUNIT_MAIN_WITH("jobs", init, cleanup, {"jobs come in order", jobs_come_in_order},
                   {"nobody waits for a long one", nobody_waits_for_a_long_one},
                   {"who waits takes no turn", who_waits_takes_no_turn}, {"its ops are its own", its_ops_are_its_own},
                   {"memory is made aside", memory_is_made_aside},
                   {"a refusal is of one lack", a_refusal_is_of_one_lack},
                   {"nobody wakes who waits for its helper", nobody_wakes_who_waits_for_its_helper},
                   {"memory that nobody has is an error", memory_that_nobody_has_is_an_error},
                   {"what fails goes in parts", what_fails_goes_in_parts},
                   {"a step gives more, and ends it", a_step_gives_more_and_ends_it},
                   {"an owner that has ended waits for nothing", an_owner_that_has_ended_waits_for_nothing},
                   {"an owner goes with its last task", an_owner_goes_with_its_last_task},
                   {"an owner waits for its helper", an_owner_waits_for_its_helper})
