/* Large graphs in turns: how far one call goes, in nodes and edges, is bounded whatever hangs on the graph; what comes
 * out is what comes out in one go. Nothing here looks at the clock. */
#include "daemon/autograd/backward.h"
#include "tests/unit/grad_support.h"
#include <stdlib.h>

enum { N = 20000, MOST = 4, STEPS = MOST * TD_NODE_STEPS };

static td_tensor *leaf_of(double v)
{
    td_tensor *t = t_new(TD_FLOAT64, 1, (int64_t[]){1}, &v);
    td_set_requires_grad(t, true, NULL);
    return t;
}

/* x*w, n times: each node saves both of its inputs. The result is one tensor that holds all the nodes. */
static td_tensor *chain(td_tensor *x, td_tensor *w, int n)
{
    td_tensor *last = td_tensor_ref(x);
    for (int i = 0; i < n; i++) {
        td_tensor *next = t_run(TD_OP_MUL, 2, (td_tensor *[]){last, w}, NULL, TD_GRAD_ON, NULL);
        td_tensor_unref(last);
        last = next;
    }
    return last;
}

static uint32_t apart(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* Steps until it is done, or fails; each must be a small one. */
static int run(td_backward *b, long *calls, uint32_t *farthest, td_error *e)
{
    bool done = false;
    int err = 0;
    for (*calls = 0, *farthest = 0; !done && !err; ++*calls) {
        td_backward_stage stage = b->stage;
        uint32_t nodes = b->nnodes, at = b->at, pins = b->npins, leaves = b->nleaves;
        uint64_t recorded = t_ops;
        err = td_backward_step(b, MOST, &done, NULL, e);
        uint32_t far = apart(nodes, b->nnodes), moved[] = {apart(pins, b->npins), (uint32_t)(t_ops - recorded)};
        if (b->stage == stage && apart(at, b->at) > far) far = apart(at, b->at);
        if (b->stage == stage && stage != TD_BS_SEARCH && apart(leaves, b->nleaves) > far)
            far = apart(leaves, b->nleaves);
        for (int k = 0; k < 2; k++)
            if (moved[k] > far) far = moved[k];
        if (far > *farthest) *farthest = far;
    }
    return err;
}

static void a_backward(void)
{
    td_error e = {0};
    td_tensor *x = leaf_of(1), *w = leaf_of(1), *y = chain(x, w, N);
    setenv("TENSORD_PLANS", "0", 1); /* a row is one call */
    for (int k = 0; k < 2; k++) {    /* into all leaves, and to one input */
        td_backward *b;
        td_tensor *g = NULL;
        long calls;
        uint32_t far;
        uint32_t flags = TD_BW_RETAIN | (k ? 0 : TD_BW_ACCUMULATE);
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, k, &w, flags, 0, &e), 0);
        CU_ASSERT_EQUAL(b->nnodes, 0); /* it has not looked at the graph */
        CU_ASSERT_EQUAL(run(b, &calls, &far, &e), 0);
        CU_ASSERT(far <= STEPS + 4);
        CU_ASSERT(calls >= N / MOST + (k ? 9 : 6) * N / STEPS);
        if (k) td_backward_results(b, &g);
        CU_ASSERT_EQUAL(t_real(k ? g : td_grad(w, 0), 0), N);
        long drops = 1;
        for (uint32_t nodes = b->nnodes; !td_backward_drop(b, MOST); nodes = b->nnodes, drops++)
            CU_ASSERT(nodes - b->nnodes <= STEPS);
        CU_ASSERT(drops >= N / STEPS);
        td_tensor_unref(g);
    }
    unsetenv("TENSORD_PLANS");
    td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
}

static void refused_late(void)
{
    td_error e = {0};
    td_tensor *x = leaf_of(1), *w = leaf_of(1), *unused = leaf_of(1), *y = chain(x, w, N);
    td_backward *b;
    long calls;
    uint32_t far;
    CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 1, &unused, 0, 0, &e), 0);
    CU_ASSERT_EQUAL(run(b, &calls, &far, &e), TD_E_AUTOGRAD);
    CU_ASSERT(far <= STEPS + 4 && calls >= 3 * N / STEPS);
    td_backward_free(b);
    td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w), td_tensor_unref(unused);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
}

/* Given up half-way: what it pinned is let go of in turns, too, and all of it. */
static void given_up(void)
{
    td_error e = {0};
    td_tensor *x = leaf_of(1), *w = leaf_of(1), *y = chain(x, w, N);
    td_backward *b;
    bool done;
    CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
    while (b->stage < TD_BS_RUN || b->nready == 0) CU_ASSERT_EQUAL(td_backward_step(b, MOST, &done, NULL, &e), 0);
    CU_ASSERT(w->storage->pinned <= N && w->storage->pinned >= N - MOST);
    CU_ASSERT_EQUAL(b->npins, 2 * N);
    while (!done && w->storage->pinned > N - 100) CU_ASSERT_EQUAL(td_backward_step(b, 1, &done, NULL, &e), 0);
    CU_ASSERT(!done); /* a node that has run holds nothing */
    long drops = 1;
    for (uint32_t left = b->nnodes + b->npins; !td_backward_drop(b, MOST); left = b->nnodes + b->npins, drops++)
        CU_ASSERT(left - b->nnodes - b->npins <= STEPS);
    CU_ASSERT(drops >= 2 * (N - MOST) / STEPS);
    CU_ASSERT_EQUAL(w->storage->pinned, 0);
    td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
}

static void the_end_of_a_graph(void)
{
    td_tensor *x = leaf_of(1), *w = leaf_of(1), *y = chain(x, w, N);
    CU_ASSERT_EQUAL(td_autograd_nodes(), N + 2);
    td_dead_set_bound(50);
    td_tensor_unref(y);
    uint64_t before = td_autograd_nodes() + td_live_counts().tensors, after;
    CU_ASSERT(before >= 2 * N - 50);
    long turns = 0;
    for (bool more = true; more; turns++) {
        more = td_dead_collect(100);
        after = td_autograd_nodes() + td_live_counts().tensors;
        CU_ASSERT(before - after <= 100);
        before = after;
    }
    CU_ASSERT(turns >= (2 * N - 50) / 100);
    td_dead_set_bound(0);
    td_tensor_unref(x), td_tensor_unref(w);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
}

/* A leaf is used again while the graph that it was in is being let go of; at any point of that. */
static void a_leaf_goes_on(void)
{
    td_error e = {0};
    td_tensor *x = leaf_of(3), *w = leaf_of(1);
    for (int n = 1; n < 30; n++) {
        td_dead_set_bound(1);
        td_tensor_unref(chain(x, w, n));
        for (int k = 0; k < 3 * n; k++, td_dead_collect(1)) {
            td_tensor *z = t_run(TD_OP_MUL, 2, (td_tensor *[]){x, w}, NULL, TD_GRAD_ON, NULL);
            td_set_grad(x, 0, NULL, NULL);
            td_set_grad(w, 0, NULL, NULL);
            CU_ASSERT_EQUAL(t_backward(1, &z, NULL, 0, NULL, NULL, TD_BW_ACCUMULATE, &e), 0);
            CU_ASSERT_EQUAL(t_real(td_grad(x, 0), 0), 1);
            CU_ASSERT_EQUAL(t_real(td_grad(w, 0), 0), 3);
            td_tensor_unref(z);
        }
        td_dead_set_bound(0);
        td_dead_collect(0);
    }
    td_tensor_unref(x), td_tensor_unref(w);
    CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
}

static int not_yet_for; /* so often */
static int not_yet(td_issuer *who, const td_storage *s, bool write, td_error *e)
{
    (void)who, (void)s, (void)write, (void)e;
    return not_yet_for-- > 0 ? -1 : 0;
}

static void up_to_commit(td_backward *b, td_error *e)
{
    bool done = false;
    t_who.may_touch = not_yet;
    for (not_yet_for = 1; not_yet_for;) CU_ASSERT_EQUAL_FATAL(td_backward_step(b, 1, &done, NULL, e), 0);
    t_who.may_touch = NULL;
    CU_ASSERT_EQUAL_FATAL(b->stage, TD_BS_COMMIT);
}

/* Up to the last step, which then has no room for what one of the leaves needs. */
static void refuse_commit(td_backward *b, td_error *e)
{
    bool done = false;
    up_to_commit(b, e);
    uint64_t limit = t_who.account->limit_objects;
    t_who.account->limit_objects = t_who.account->objects;
    CU_ASSERT_EQUAL(td_backward_step(b, 1, &done, NULL, e), TD_E_QUOTA);
    t_who.account->limit_objects = limit;
}

/* One leaf's gradient would be added to, the other's copied: none changes, and no version says that it did. */
static void a_refused_commit(void)
{
    for (int k = 0; k < 2; k++) {
        td_error e = {0};
        td_backward *b;
        td_tensor *leaf[2] = {leaf_of(1), leaf_of(2)};
        td_tensor *old = t_new(TD_FLOAT64, 1, (int64_t[]){1}, (double[]){5});
        CU_ASSERT_EQUAL(td_set_grad(leaf[k], 0, old, &e), 0);
        td_tensor *y = t_run(TD_OP_ADD, 2, leaf, NULL, TD_GRAD_ON, NULL);
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
        refuse_commit(b, &e);
        td_backward_free(b);
        CU_ASSERT_EQUAL(old->version->value, 0);
        CU_ASSERT_EQUAL(t_real(old, 0), 5);
        CU_ASSERT_PTR_EQUAL(td_grad(leaf[k], 0), old);
        CU_ASSERT_PTR_NULL(td_grad(leaf[!k], 0));
        td_tensor_unref(y), td_tensor_unref(old), td_tensor_unref(leaf[0]), td_tensor_unref(leaf[1]);
    }
}

/* Somebody else has the .grad: nothing happens until it may be touched. */
static void a_commit_that_waits(void)
{
    td_error e = {0};
    td_backward *b;
    bool done = false;
    int turns = 0;
    td_tensor *x = leaf_of(1), *y = chain(x, x, 1), *old = t_new(TD_FLOAT64, 1, (int64_t[]){1}, (double[]){5});
    CU_ASSERT_EQUAL(td_set_grad(x, 0, old, &e), 0);
    CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
    t_who.may_touch = not_yet;
    for (not_yet_for = 3; !done && turns < 20; turns++) {
        CU_ASSERT_EQUAL(td_backward_step(b, 1000, &done, NULL, &e), 0);
        CU_ASSERT_EQUAL(t_real(old, 0), done ? 7 : 5);
    }
    t_who.may_touch = NULL;
    CU_ASSERT(done && turns == 4);
    td_backward_free(b);
    td_tensor_unref(x), td_tensor_unref(y), td_tensor_unref(old);
}

/* (x*w)*(x+w), the product kept its gradient, twice: what comes to .grad of x, w and the product the second time. */
static unsigned long gradients(uint32_t flags, bool late, double *out)
{
    td_error e = {0};
    td_tensor *x = leaf_of(3), *w = leaf_of(5);
    td_tensor *p = t_run(TD_OP_MUL, 2, (td_tensor *[]){x, w}, NULL, TD_GRAD_ON, NULL);
    td_tensor *s = t_run(TD_OP_ADD, 2, (td_tensor *[]){x, w}, NULL, TD_GRAD_ON, NULL);
    td_tensor *y = t_run(TD_OP_MUL, 2, (td_tensor *[]){p, s}, NULL, TD_GRAD_ON, NULL);
    CU_ASSERT_EQUAL(td_retain_grad(p, &e), 0);
    unsigned long ops = t_ops;
    for (int k = 0; k < 2; k++) {
        td_backward *b;
        bool done = late;
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, flags, 0, &e), 0);
        if (late) CU_ASSERT_EQUAL(t_steps(b, &e), 0);
        while (!done) CU_ASSERT_EQUAL_FATAL(td_backward_step(b, 1000, &done, NULL, &e), 0);
        td_backward_free(b);
    }
    ops = t_ops - ops;
    out[0] = t_real(td_grad(x, 0), 0), out[1] = t_real(td_grad(w, 0), 0), out[2] = t_real(td_grad(p, 0), 0);
    td_set_grad(x, 0, NULL, NULL), td_set_grad(w, 0, NULL, NULL), td_set_grad(p, 0, NULL, NULL);
    td_tensor_unref(y), td_tensor_unref(s), td_tensor_unref(p), td_tensor_unref(x), td_tensor_unref(w);
    return ops;
}

/* Whatever lacked memory, and how often: the same gradients, and nothing is computed twice. */
static void memory_that_comes_late(void)
{
    const uint32_t flags[] = {TD_BW_ACCUMULATE | TD_BW_RETAIN, TD_BW_ACCUMULATE | TD_BW_CREATE_GRAPH,
                              TD_BW_ACCUMULATE | TD_BW_RETAIN | TD_BW_ANOMALY};
    for (int k = 0; k < 3; k++) {
        double at_once[3], late[3];
        unsigned long waits = t_waits, ops = gradients(flags[k], false, at_once);
        CU_ASSERT_EQUAL(t_waits, waits);
        unsigned long again = gradients(flags[k], true, late);
        CU_ASSERT(t_waits - waits >= 6);
        if (!(flags[k] & TD_BW_ANOMALY)) CU_ASSERT_EQUAL(again, ops); /* there a first of two ops may be run again */
        for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(at_once[i], late[i]);
        CU_ASSERT_EQUAL(late[0], 2 * (5 * 8 + 15));
        CU_ASSERT_EQUAL(late[1], 2 * (3 * 8 + 15));
        CU_ASSERT_EQUAL(late[2], 2 * 8);
    }
}

/* What was added up before a wait counts no more when somebody has written to one of its terms meanwhile. */
static void a_sum_of_the_past(void)
{
    for (int changed = 0; changed < 2; changed++) {
        td_error e = {0};
        td_backward *b;
        bool done = false;
        td_need need = {0};
        td_tensor *leaf[2] = {leaf_of(1), leaf_of(2)};
        td_tensor *old = t_new(TD_FLOAT64, 1, (int64_t[]){1}, (double[]){5});
        CU_ASSERT_EQUAL(td_set_grad(leaf[0], 0, old, &e), 0);
        td_tensor *y = t_run(TD_OP_ADD, 2, leaf, NULL, TD_GRAD_ON, NULL);
        uint32_t flags = TD_BW_ACCUMULATE | TD_BW_CREATE_GRAPH;
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, flags, 0, &e), 0);
        up_to_commit(b, &e);
        *t_limit() = t_held() + 64; /* room for one sum */
        CU_ASSERT_EQUAL(td_backward_step(b, 1, &done, &need, &e), TD_E_QUOTA);
        *t_limit() = 0;
        unsigned long ops = t_ops;
        if (changed) t_run(TD_OP_ADD, 2, (td_tensor *[]){old, old}, NULL, TD_GRAD_OFF, old);
        CU_ASSERT_EQUAL(td_backward_step(b, 1, &done, &need, &e), 0);
        CU_ASSERT(done);
        CU_ASSERT_EQUAL(t_ops - ops, changed ? 3 : 1);
        CU_ASSERT_EQUAL(t_real(td_grad(leaf[0], 0), 0), changed ? 11 : 6);
        CU_ASSERT_EQUAL(t_real(td_grad(leaf[1], 0), 0), 1);
        td_backward_free(b);
        for (int k = 0; k < 2; k++) td_set_grad(leaf[k], 0, NULL, NULL), td_tensor_unref(leaf[k]);
        td_tensor_unref(y), td_tensor_unref(old);
    }
}

/* Given up while it waits, wherever that is: nothing is left of it (t_teardown looks). */
static void given_up_without_memory(void)
{
    for (int steps = 0; steps < 40; steps++) {
        td_error e = {0};
        td_backward *b;
        bool done = false;
        td_need need = {0};
        td_tensor *x = leaf_of(3), *y = chain(x, x, 3);
        uint32_t flags = TD_BW_ACCUMULATE | (steps % 2 ? TD_BW_CREATE_GRAPH : 0);
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, flags, 0, &e), 0);
        *t_limit() = t_held() + 64 * (uint64_t)(steps / 2) + 1;
        int err = 0;
        while (!done && !err) err = td_backward_step(b, 1, &done, &need, &e);
        CU_ASSERT(err == 0 || err == TD_E_QUOTA);
        *t_limit() = 0;
        td_backward_free(b);
        CU_ASSERT(done == (td_grad(x, 0) != NULL));
        td_set_grad(x, 0, NULL, NULL);
        td_tensor_unref(x), td_tensor_unref(y);
    }
}

static int slots_lost(td_tensor *const *z, int n)
{
    int lost = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < td_auto_of(z[i])->node->nsaved; k++)
            lost += td_auto_of(z[i])->node->saved[k].kind == TD_SV_LOST;
    return lost;
}

/* In place. */
static void double_it(td_tensor *y)
{
    td_input in[2] = {td_in(y), td_in_number(td_float(2))};
    td_tensor *out[1];
    td_error e = {0};
    int n;
    CU_ASSERT_EQUAL_FATAL(t_try(td_op_by_id(TD_OP_MUL), 2, in, NULL, TD_GRAD_ON, y, out, &n, &e), 0);
}

/* What very many nodes have saved is overwritten, and again before all of them know. A write that fails meanwhile
 * changes nothing in that. */
static void savers(bool fails)
{
    enum { BOUND = 16, FIRST = 64, LATE = 100 };
    static td_tensor *z[N + LATE];
    td_tensor *x = leaf_of(1), *w = leaf_of(1), *y = chain(x, w, 1);
    for (int i = 0; i < N; i++) z[i] = t_run(TD_OP_MUL, 2, (td_tensor *[]){y, w}, NULL, TD_GRAD_ON, NULL);
    td_dead_set_bound(BOUND);
    double_it(y);
    int lost = slots_lost(z, N), most = FIRST + BOUND;
    CU_ASSERT_TRUE(lost > 0 && lost <= most);
    for (int i = N; i < N + LATE; i++) z[i] = t_run(TD_OP_MUL, 2, (td_tensor *[]){y, w}, NULL, TD_GRAD_ON, NULL);
    double_it(y);
    if (fails) td_version_void(y->version, y->version->value);
    for (bool more = true; more;) {
        int before = slots_lost(z, N + LATE);
        more = td_dead_collect(BOUND);
        CU_ASSERT_TRUE_FATAL(slots_lost(z, N + LATE) - before <= BOUND);
    }
    CU_ASSERT_EQUAL(slots_lost(z, N + LATE), N + LATE);
    td_dead_set_bound(0);
    for (int i = 0; i < N + LATE; i++) td_tensor_unref(z[i]);
    td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w);
}

static void many_savers(void)
{
    savers(false);
    savers(true);
}

/* A slot is let go of while the walk over all that saved the same stands on it: the walk goes on behind it. */
static void a_saver_goes_under_the_walk(void)
{
    enum { SAVERS = 300, FIRST = 64, GONE = 3 };
    td_tensor *z[SAVERS], *x = leaf_of(1), *w = leaf_of(1), *y = chain(x, w, 1);
    for (int i = 0; i < SAVERS; i++) z[i] = t_run(TD_OP_MUL, 2, (td_tensor *[]){y, w}, NULL, TD_GRAD_ON, NULL);
    td_dead_set_bound(1);
    double_it(y);
    int lost = slots_lost(z, SAVERS); /* the last that saved it come first */
    CU_ASSERT_TRUE_FATAL(lost >= FIRST && lost < SAVERS / 2);
    for (int i = 0; i < GONE; i++) td_saved_release(&td_auto_of(z[SAVERS - 1 - lost - i])->node->saved[0]);
    while (td_dead_collect(1)) {
    }
    CU_ASSERT_EQUAL(slots_lost(z, SAVERS), SAVERS - GONE);
    td_dead_set_bound(0);
    for (int i = 0; i < SAVERS; i++) td_tensor_unref(z[i]);
    td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w);
}

/* Another's backward over the same graph lets go of what was saved, between two turns of this one, which has looked at
 * it before: then this one is refused, and never goes on with less; and no row is made of what it did. */
static void another_frees_what_was_saved(void)
{
    int refused = 0;
    for (int at = 0; at < 60; at++) {
        td_error e = {0};
        td_tensor *x = leaf_of(1), *w = leaf_of(1), *y = chain(x, w, 60);
        td_backward *b, *other;
        bool done = false, over = false;
        uint32_t keeps = TD_BW_ACCUMULATE | TD_BW_RETAIN;
        setenv("TENSORD_PLANS", at % 2 ? "0" : "1", 1);
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &y, NULL, 0, NULL, keeps, 0, &e), 0);
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&other, &t_who, 1, &y, NULL, 0, NULL, TD_BW_ACCUMULATE, 1, &e), 0);
        for (int k = 0; k < at || b->stage < TD_BS_RUN; k++)
            CU_ASSERT_EQUAL_FATAL(td_backward_step(b, 1, &done, NULL, &e), 0);
        while (!over) CU_ASSERT_EQUAL_FATAL(td_backward_step(other, MOST, &over, NULL, &e), 0);
        int err = 0;
        bool left = b->stage == TD_BS_RUN && b->now.on + b->nready > 0;
        while (!err && !done) err = td_backward_step(b, MOST, &done, NULL, &e);
        if (left) CU_ASSERT(err == TD_E_AUTOGRAD && strstr(e.message, "have already been freed"));
        CU_ASSERT_EQUAL(t_real(td_grad(w, 1), 0), 60);
        if (err) CU_ASSERT_PTR_NULL(td_grad(w, 0));
        if (!err) CU_ASSERT_EQUAL(t_real(td_grad(w, 0), 0), 60);
        refused += err != 0;
        td_backward_free(b);
        td_backward_free(other);
        td_tensor_unref(y), td_tensor_unref(x), td_tensor_unref(w);
        CU_ASSERT_EQUAL(td_autograd_nodes(), 0);
    }
    CU_ASSERT(refused > 20);
    unsetenv("TENSORD_PLANS");
    td_rows_forget();
}

TD_CUNIT_MAIN_WITH("autograd_turns", t_setup, t_teardown, {"a backward", a_backward}, {"refused late", refused_late},
                   {"given up", given_up}, {"the end of a graph", the_end_of_a_graph},
                   {"a leaf goes on", a_leaf_goes_on}, {"a refused commit", a_refused_commit},
                   {"a commit that waits", a_commit_that_waits}, {"memory that comes late", memory_that_comes_late},
                   {"a sum of the past", a_sum_of_the_past}, {"given up without memory", given_up_without_memory},
                   {"many savers", many_savers}, {"a saver goes under the walk", a_saver_goes_under_the_walk},
                   {"another frees what was saved", another_frees_what_was_saved})
