/* Recorded writes that end later, and may fail: then everything is as if they had never been sent. Calls wait in a list
 * here until a test lets them run or fail, in any order that a scheduler might choose. */
#include "daemon/autograd/backward.h"
#include "daemon/ops/overlap.h"
#include "tests/unit/grad_support.h"

enum { MOST = 256 };
static struct {
    td_call *c;
    bool fails;
} later[MOST];
static int nlater;
static bool next_fails;

static void mark_hazards(const td_call *c)
{
    for (int o = 0; o < c->nout; o++) c->out[o]->storage->hazards = later;
}

static void submit_later(td_issuer *who, td_call *c)
{
    (void)who;
    CU_ASSERT_FATAL(nlater < MOST);
    td_call_hold(c);
    mark_hazards(c);
    later[nlater].c = c;
    later[nlater++].fails = next_fails;
}

static void end_one(int k)
{
    td_call *c = later[k].c;
    bool fails = later[k].fails;
    memmove(later + k, later + k + 1, (size_t)(--nlater - k) * sizeof *later);
    for (int o = 0; o < c->nout; o++) c->out[o]->storage->hazards = NULL;
    for (int i = 0; i < nlater; i++) mark_hazards(later[i].c);
    if (!fails) {
        t_submit(&t_who, c);
        return;
    }
    td_call_unwritten(c);
    td_call_free(c);
}

static void submit_now(td_issuer *who, td_call *c)
{
    submit_later(who, c);
    end_one(0);
}

static void end_all(void)
{
    while (nlater) end_one(0);
}

static void hold_calls(bool on)
{
    end_all();
    t_who.submit = on ? submit_later : submit_now;
}

static td_tensor *of(int rows, const double *v)
{
    return rows ? t_new(TD_FLOAT64, 2, (int64_t[]){rows, 3}, v) : t_new(TD_FLOAT64, 1, (int64_t[]){3}, v);
}

static td_tensor *leaf_of(int rows, const double *v)
{
    td_tensor *t = of(rows, v);
    CU_ASSERT_EQUAL(td_set_requires_grad(t, true, NULL), 0);
    return t;
}

static td_tensor *times(td_tensor *x, td_tensor *y)
{
    return t_run(TD_OP_MUL, 2, (td_tensor *[]){x, y}, NULL, TD_GRAD_ON, NULL);
}

static td_tensor *row_of(td_tensor *x, int64_t row)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_int(&a, 0);
    td_attrs_int(&a, row);
    return t_run(TD_OP_SELECT, 1, &x, &a, TD_GRAD_ON, NULL);
}

enum { BY_MUL, BY_COPY, BY_FILL, WAYS };

/* x.mul_(w), x.copy_(w), x.fill_(7) */
static int write_to(td_tensor *x, td_tensor *w, int way, bool fails)
{
    td_input mul[2] = {td_in(x), td_in(w)}, copy = td_in(w);
    td_tensor *out[64];
    td_error e = {0};
    td_attrs a;
    int n, err;
    next_fails = fails;
    td_attrs_init(&a);
    td_attrs_ints(&a, x->desc.ndim, x->desc.shape);
    td_attrs_scalar(&a, td_int(7));
    td_attrs_dtype(&a, TD_FLOAT64);
    if (way == BY_MUL) err = t_try(td_op_by_id(TD_OP_MUL), 2, mul, NULL, TD_GRAD_ON, x, out, &n, &e);
    else if (way == BY_COPY) err = t_try(td_op_by_id(TD_OP_COPY), 1, &copy, NULL, TD_GRAD_ON, x, out, &n, &e);
    else err = t_try(td_op_by_id(TD_OP_FULL), 0, NULL, &a, TD_GRAD_ON, x, out, &n, &e);
    next_fails = false;
    return err;
}

static int backward_of(td_tensor *root, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, root->desc.ndim, root->desc.shape);
    td_attrs_scalar(&a, td_int(1));
    td_attrs_dtype(&a, TD_FLOAT64);
    td_tensor *ones = t_run(TD_OP_FULL, 0, NULL, &a, TD_GRAD_OFF, NULL);
    int err = t_backward(1, &root, &ones, 0, NULL, NULL, TD_BW_RETAIN | TD_BW_ACCUMULATE, e);
    td_tensor_unref(ones);
    return err;
}

static double grad_of(td_tensor *root, td_tensor *leaf)
{
    td_error e = {0};
    td_set_grad(leaf, 0, NULL, NULL);
    int err = backward_of(root, &e);
    if (err) printf("%s: %s\n", e.op, e.message);
    CU_ASSERT_EQUAL(err, 0);
    double g = td_grad(leaf, 0) ? t_real(td_grad(leaf, 0), 0) : 0;
    td_set_grad(leaf, 0, NULL, NULL);
    return g;
}

static void drop_all(int n, td_tensor **t)
{
    for (int i = 0; i < n; i++) td_tensor_unref(t[i]);
}

/* ---- one write */

/* y = 2x, y2 = y*y; y is written in vain. */
static void with_a_history(void)
{
    for (int way = 0; way < WAYS; way++) {
        double two[3] = {2, 2, 2}, three[3] = {3, 3, 3};
        td_tensor *x = leaf_of(0, three), *w = leaf_of(0, two), *c = of(0, two), *y = times(x, c), *y2 = times(y, y);
        CU_ASSERT_EQUAL(td_retain_grad(y, NULL), 0);
        td_node *node = td_auto_of(y)->node;
        hold_calls(true);
        CU_ASSERT_EQUAL(write_to(y, w, way, true), 0);
        CU_ASSERT_PTR_NOT_EQUAL(td_auto_of(y)->node, node);
        CU_ASSERT_EQUAL(td_version_writes(y->version), 1);
        td_tensor *meanwhile = times(y, c);
        hold_calls(false);
        CU_ASSERT_PTR_EQUAL(td_auto_of(y)->node, node);
        CU_ASSERT(!strcmp(td_grad_fn(y), "mul") && td_requires_grad(y) && !td_is_leaf(y));
        CU_ASSERT_EQUAL(td_version_writes(y->version), 0);
        CU_ASSERT_EQUAL(grad_of(y2, x), 24); /* 8x */
        CU_ASSERT_EQUAL(t_real(td_grad(y, 0), 0), 12);
        CU_ASSERT_EQUAL(grad_of(meanwhile, x), 4); /* past what was not written */
        CU_ASSERT_EQUAL(grad_of(meanwhile, w), 0);
        td_set_grad(y, 0, NULL, NULL);
        drop_all(6, (td_tensor *[]){x, w, c, y, y2, meanwhile});
    }
}

static void without_a_history(void)
{
    for (int way = 0; way < WAYS; way++) {
        double two[3] = {2, 2, 2};
        td_tensor *w = leaf_of(0, two), *y = leaf_of(0, two), *y2 = times(y, y);
        td_set_requires_grad(y, false, NULL); /* y2 leads to it all the same */
        hold_calls(true);
        CU_ASSERT_EQUAL(write_to(y, w, way, true), 0);
        CU_ASSERT_EQUAL(td_requires_grad(y), way != BY_FILL);
        hold_calls(false);
        CU_ASSERT(!td_requires_grad(y) && td_is_leaf(y) && !td_grad_fn(y));
        CU_ASSERT_EQUAL(td_set_requires_grad(y, true, NULL), 0);
        CU_ASSERT_EQUAL(grad_of(y2, y), 4);
        drop_all(3, (td_tensor *[]){w, y, y2});
    }
}

static bool is_fn(const td_tensor *t, const char *name)
{
    const char *fn = td_grad_fn(t);
    bool ok = name ? fn && !strcmp(fn, name) : !fn;
    if (!ok) printf("grad_fn is %s, not %s\n", fn ? fn : "none", name ? name : "none");
    return ok;
}

/* A row of y = 2x, or of a leaf, is written in vain; another row was looked at meanwhile, or not. */
static void a_view(void)
{
    for (int k = 0; k < 8 * WAYS; k++) {
        bool history = k & 1, asked = k & 2, retained = history && k & 4;
        int way = k / 8;
        double three[6] = {3, 3, 3, 3, 3, 3}, two[3] = {2, 2, 2};
        td_tensor *x = leaf_of(2, three), *w = leaf_of(0, two), *c = of(0, two);
        td_tensor *y = history ? times(x, c) : of(2, three), *row = row_of(y, 0), *other = row_of(y, 1),
                  *named = row_of(y, 1);
        td_tensor *y2 = history ? times(y, y) : NULL;
        if (retained) CU_ASSERT_EQUAL(td_retain_grad(row, NULL), 0);
        if (!history) CU_ASSERT_EQUAL(td_set_requires_grad(named, true, NULL), 0);
        td_tensor *of_named = times(named, c);
        hold_calls(true);
        CU_ASSERT_EQUAL(write_to(row, w, way, true), 0);
        td_tensor *meanwhile = asked ? times(other, named) : NULL;
        if (asked) CU_ASSERT_EQUAL(td_requires_grad(row), history || way != BY_FILL);
        hold_calls(false);
        CU_ASSERT(is_fn(y, history ? "mul" : NULL) && td_requires_grad(y) == history);
        CU_ASSERT(is_fn(row, history ? "select" : NULL) && td_requires_grad(row) == history);
        CU_ASSERT(is_fn(other, history ? "select" : NULL) && td_requires_grad(other) == history);
        CU_ASSERT(is_fn(named, history ? "select" : NULL) && td_requires_grad(named));
        CU_ASSERT_EQUAL(td_version_writes(row->version), 0);
        if (history) {
            CU_ASSERT_EQUAL(grad_of(y2, x), 24);
            if (asked) CU_ASSERT_EQUAL(grad_of(meanwhile, x), 0); /* nothing of the first row */
            CU_ASSERT_EQUAL(grad_of(row, x), 2);
            CU_ASSERT_EQUAL(td_grad(row, 0) != NULL, retained);
        } else {
            CU_ASSERT_EQUAL(grad_of(of_named, named), 2);
            if (asked) CU_ASSERT_EQUAL(grad_of(meanwhile, w), 0);
        }
        td_set_grad(row, 0, NULL, NULL), td_set_grad(named, 0, NULL, NULL), td_set_grad(x, 0, NULL, NULL);
        drop_all(9, (td_tensor *[]){x, w, c, y, row, other, named, y2, of_named});
        td_tensor_unref(meanwhile);
    }
}

static void count_gone(void *arg, uint32_t hook)
{
    CU_ASSERT_EQUAL(hook, 7);
    ++*(int *)arg;
}

/* The program keeps what a write in vain saved, and lets go of it when the write has ended, though a graph leads there.
 */
static void what_was_packed(void)
{
    for (int of_a_row = 0; of_a_row < 2; of_a_row++) {
        double three[6] = {3, 3, 3, 3, 3, 3}, two[3] = {2, 2, 2};
        int gone = 0;
        td_error e = {0};
        td_hook_owner *owner = td_hook_owner_new(t_who.session, t_who.pid, count_gone, &gone, &e);
        td_tensor *x = leaf_of(2, three), *w = leaf_of(0, two), *c = of(0, two), *y = times(x, c), *row = row_of(y, 0);
        td_tensor *written = of_a_row ? row : y;
        hold_calls(true);
        CU_ASSERT_EQUAL(write_to(written, w, BY_MUL, true), 0);
        CU_ASSERT_EQUAL_FATAL(td_node_pack(td_auto_of(y)->node, 1, 7, owner, t_who.account, &e), 0);
        td_tensor *meanwhile = times(y, c);
        CU_ASSERT_EQUAL(gone, 0);
        hold_calls(false);
        CU_ASSERT_EQUAL(gone, 1);
        CU_ASSERT_EQUAL(grad_of(meanwhile, x), 4);
        drop_all(6, (td_tensor *[]){x, w, c, y, row, meanwhile});
        td_hook_owner_end(owner);
    }
}

/* Of two writes one fails, or both do; the second may end first where they do not touch. */
static void two_writes(void)
{
    for (int k = 0; k < 8 * WAYS * WAYS; k++) {
        bool fails[2] = {k & 1, k & 2}, second_first = k & 4;
        int way[2] = {k / 8 % WAYS, k / 8 / WAYS};
        double three[6] = {3, 3, 3, 3, 3, 3}, two[3] = {2, 2, 2};
        td_tensor *x = leaf_of(2, three), *w = leaf_of(0, two), *c = of(0, two), *y = times(x, c);
        td_tensor *row[2] = {row_of(y, 0), row_of(y, 1)}, *y2 = times(y, y);
        td_node *before = td_auto_of(y)->node;
        hold_calls(true);
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(write_to(second_first ? row[i] : y, w, way[i], fails[i]), 0);
            if (fails[i]) continue;
        }
        if (second_first) {
            int last = nlater - 1; /* what the second keeps a copy of comes before it */
            while (later[last].c->out[0] != row[1]) last--;
            while (nlater && later[0].c->out[0] != row[0]) end_one(0);
            while (nlater > 1) end_one(1);
        }
        hold_calls(false);
        double by[2] = {1, 1};
        for (int i = 0; i < 2; i++)
            if (!fails[i]) by[second_first ? i : 0] *= way[i] == BY_MUL ? 2 : 0;
        if (!second_first) by[1] = by[0];
        CU_ASSERT_EQUAL(td_version_writes(y->version), !fails[0] + !fails[1]);
        CU_ASSERT_EQUAL(td_auto_of(y)->node == before, fails[0] && fails[1]);
        CU_ASSERT(!td_auto_of(y)->node || !(td_auto_of(y)->node->flags & (TD_NF_VOID | TD_NF_PENDING)));
        td_error e = {0};
        if (td_requires_grad(y)) {
            td_set_grad(x, 0, NULL, NULL);
            CU_ASSERT_EQUAL(backward_of(y, &e), 0);
            for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(td_grad(x, 0) ? t_real(td_grad(x, 0), 3 * i) : 0, 2 * by[i]);
        }
        td_set_grad(x, 0, NULL, NULL), td_set_grad(w, 0, NULL, NULL);
        e = (td_error){0};
        CU_ASSERT_EQUAL(backward_of(y2, &e), fails[0] && fails[1] ? 0 : TD_E_VERSION);
        td_set_grad(x, 0, NULL, NULL);
        drop_all(7, (td_tensor *[]){x, w, c, y, row[0], row[1], y2});
    }
}

/* Another session's backward waits for the write, wherever that leads. */
static void a_backward_meanwhile(void)
{
    for (int k = 0; k < 4 * WAYS; k++) {
        bool fails = k & 1, own = k & 2;
        int way = k / 4;
        double three[3] = {3, 3, 3}, two[3] = {2, 2, 2};
        td_error e = {0};
        td_tensor *x = leaf_of(0, three), *w = leaf_of(0, two), *c = of(0, two), *y = times(x, c);
        hold_calls(true);
        CU_ASSERT_EQUAL(write_to(y, w, way, fails), 0);
        td_tensor *z = times(y, c), *ones = of(0, (double[]){1, 1, 1});
        t_who.session = own ? 3 : 4;
        td_backward *b;
        bool done = false;
        CU_ASSERT_EQUAL_FATAL(td_backward_new(&b, &t_who, 1, &z, &ones, 0, NULL, TD_BW_ACCUMULATE, 0, &e), 0);
        int waits = 0;
        for (int turn = 0; turn < 200 && !done; turn++) {
            CU_ASSERT_EQUAL_FATAL(td_backward_step(b, 1, &done, NULL, &e), 0);
            if (!td_backward_behind(b)) continue;
            CU_ASSERT_PTR_EQUAL(td_backward_behind(b), y->storage);
            waits++;
            end_all();
        }
        CU_ASSERT_EQUAL(waits, !own);
        CU_ASSERT(done);
        td_backward_free(b);
        hold_calls(false);
        t_who.session = 3;
        double g = way == BY_MUL ? 8 : 0;
        if (!own) CU_ASSERT_EQUAL(td_grad(x, 0) ? t_real(td_grad(x, 0), 0) : 0, fails ? 4 : g);
        td_set_grad(x, 0, NULL, NULL), td_set_grad(w, 0, NULL, NULL);
        drop_all(6, (td_tensor *[]){x, w, c, y, z, ones});
    }
}

/* What a node saved is being written by another session: each of the writes is waited for before it is refused. */
static void what_was_saved_is_pending(void)
{
    for (int k = 0; k < 4; k++) {
        bool fails[2] = {k & 1, k & 2};
        double three[3] = {3, 3, 3}, two[3] = {2, 2, 2};
        td_error e = {0};
        td_tensor *x = leaf_of(0, three), *c = of(0, two), *a = times(x, c), *b = times(x, x), *z = times(a, b);
        td_tensor *saved[2] = {a, b}, *ones = of(0, (double[]){1, 1, 1});
        t_who.session = 4;
        hold_calls(true);
        for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(write_to(saved[i], c, BY_COPY, fails[i]), 0);
        t_who.session = 3;
        td_backward *w;
        bool done = false;
        int err = td_backward_new(&w, &t_who, 1, &z, &ones, 0, NULL, TD_BW_ACCUMULATE, 0, &e), waits = 0;
        for (int turn = 0; turn < 200 && !done && !err; turn++) {
            err = td_backward_step(w, 1, &done, NULL, &e);
            const td_storage *behind = td_backward_behind(w);
            if (!behind) continue;
            CU_ASSERT(!err && behind == saved[waits]->storage);
            waits++;
            end_one(0);
        }
        CU_ASSERT_EQUAL(waits, fails[0] ? 2 : 1);
        CU_ASSERT_EQUAL(err, fails[0] && fails[1] ? 0 : TD_E_VERSION);
        td_backward_free(w);
        hold_calls(false);
        CU_ASSERT_EQUAL(td_grad(x, 0) ? t_real(td_grad(x, 0), 0) : 0, err ? 0 : 54); /* 6x^2 */
        td_set_grad(x, 0, NULL, NULL);
        drop_all(6, (td_tensor *[]){x, c, a, b, z, ones});
    }
}

/* ---- random programs, once with writes that fail, and once without these */

enum { STEPS = 40, TENSORS = 64 };
typedef struct step {
    unsigned what, a, b, c;
    bool fails, done;
} step;
typedef struct program {
    step s[STEPS];
    td_tensor *t[TENSORS];
    bool exact[TENSORS]; /* not made of what was, when something was pending that fails: it requires grad or not as ever
                          */
    int n;
    bool apart; /* its way was another */
} program;

static bool apart(const td_call *a, const td_call *b)
{
    for (int o = 0; o < a->nout; o++) {
        for (int k = 0; k < b->nout; k++)
            if (a->out[o]->storage == b->out[k]->storage &&
                td_desc_overlap(&a->out[o]->desc, &b->out[k]->desc) != TD_APART)
                return false;
        for (int i = 0; i < b->nin; i++)
            if (a->out[o]->storage == td_call_in_storage(b, i) &&
                td_desc_overlap(&a->out[o]->desc, &b->in[i].tensor->desc) != TD_APART)
                return false;
    }
    return true;
}

static void end_any(unsigned pick)
{
    for (int k = (int)(pick % (unsigned)nlater);; k--) {
        bool first = true;
        for (int i = 0; i < k; i++) first &= apart(later[i].c, later[k].c) && apart(later[k].c, later[i].c);
        if (!first) continue;
        end_one(k);
        return;
    }
}

static bool any_fails(void)
{
    bool any = false;
    for (int i = 0; i < nlater; i++) any |= later[i].fails;
    return any;
}

static void add(program *p, td_tensor *t, bool exact)
{
    p->exact[p->n] = exact && !any_fails();
    p->t[p->n++] = t;
}

static void not_exact(program *p, const td_tensor *written)
{
    for (int i = 0; i < p->n; i++) p->exact[i] &= p->t[i]->storage != written->storage;
}

static int rank(const td_tensor *t)
{
    return t->desc.ndim;
}

/* What asks for what the pending writes may change is done where nothing is open, and in both. */
static bool allowed(step *s, bool first, bool now)
{
    if (first) s->done = !any_fails() && now;
    return s->done;
}

static void run_step(program *p, step *s, bool first)
{
    unsigned at = s->a % (unsigned)p->n, by = s->b % (unsigned)p->n;
    td_tensor *a = p->t[at], *b = p->t[by];
    bool exact = p->exact[at] && p->exact[by];
    switch (p->n < TENSORS - 2 ? s->what % 10 : 4) {
    case 0: add(p, times(a, b), exact); break;
    case 1: add(p, rank(a) == 2 ? row_of(a, s->c % 2) : times(a, a), p->exact[at]); break;
    case 2: /* a new leaf, also of what is there */
        if (s->c % 2) add(p, leaf_of(s->c & 2, (double[]){1, 2, 3, 4, 5, 6}), true);
        else if (allowed(s, first, p->exact[at] && td_is_leaf(a))) td_set_requires_grad(a, s->c & 2, NULL);
        break;
    case 3:
        if (allowed(s, first, p->exact[at] && td_requires_grad(a))) td_retain_grad(a, NULL);
        break;
    default:
        if (rank(b) > rank(a)) b = p->t[by = 0];
        if (!first && (s->fails || !s->done)) break;
        if (!p->exact[by] || any_fails()) not_exact(p, a);
        s->done = !write_to(a, b, (int)(s->c % WAYS), s->fails);
        p->apart |= !first && !s->done; /* refused for what was a leaf then, and is one no more */
        /* fall through */
    case 8:
    case 9:
        if (nlater && s->c & 8) end_any(s->c >> 4);
    }
}

static void run_program(program *p, bool first, bool held)
{
    add(p, leaf_of(0, (double[]){1, -1, 2}), true);
    add(p, leaf_of(2, (double[]){1, 2, 3, 2, 1, -1}), true);
    add(p, of(2, (double[]){1, 1, 2, 2, 1, -1}), true);
    hold_calls(held);
    for (int i = 0; i < STEPS; i++) run_step(p, &p->s[i], first);
    hold_calls(false);
}

static bool same_values(const td_tensor *a, const td_tensor *b)
{
    if (!a || !b) return a == b;
    for (int64_t k = 0; k < td_desc_numel(&a->desc); k++)
        if (t_real(a, k) != t_real(b, k) && t_real(a, k) == t_real(a, k)) return false;
    return true;
}

static bool no_value(const td_tensor *g)
{
    for (int64_t k = 0; g && k < td_desc_numel(&g->desc); k++)
        if (t_real(g, k) != 0) return false;
    return true;
}

static bool compare(program *p, program *q)
{
    bool ok = p->n == q->n;
    for (int i = 0; i < p->n && ok; i++) {
        td_tensor *a = p->t[i], *b = q->t[i];
        ok = same_values(a, b) && td_version_writes(a->version) == td_version_writes(b->version);
        if (p->exact[i]) ok = ok && td_requires_grad(a) == td_requires_grad(b) && td_is_leaf(a) == td_is_leaf(b);
        else ok = ok && td_requires_grad(a) >= td_requires_grad(b);
        if (!ok)
            printf("tensor %d: %g and %g, version %u and %u, requires_grad %d and %d, leaf %d and %d\n", i,
                   t_real(a, 0), t_real(b, 0), td_version_writes(a->version), td_version_writes(b->version),
                   td_requires_grad(a), td_requires_grad(b), td_is_leaf(a), td_is_leaf(b));
    }
    for (int i = 0; i < p->n && ok; i++) {
        if (!td_requires_grad(p->t[i])) continue;
        td_error e = {0}, f = {0};
        bool needs = td_requires_grad(q->t[i]);
        int err = backward_of(p->t[i], &e), other = needs ? backward_of(q->t[i], &f) : err;
        ok = err == other || (err == TD_E_VERSION && !p->exact[i]); /* what was saved meanwhile */
        if (!ok) printf("backward of %d: %d %s, %d %s (%d)\n", i, err, e.message, other, f.message, needs);
        for (int k = 0; k < p->n && ok && !err; k++) {
            td_tensor *g = td_grad(p->t[k], 0), *h = td_grad(q->t[k], 0);
            bool wanted = td_is_leaf(p->t[k]) && td_requires_grad(p->t[k]);
            bool meanwhile = !p->exact[i] && !g && !wanted; /* it was something else then */
            ok = same_values(g, h) || meanwhile || (k == i && !needs) || (!h && no_value(g)) ||
                 (!g && !p->exact[i] && no_value(h));
            if (!ok) printf("gradient of %d of %d: %g, %g\n", i, k, g ? t_real(g, 0) : -0.1, h ? t_real(h, 0) : -0.1);
        }
        for (int k = 0; k < p->n; k++) td_set_grad(p->t[k], 0, NULL, NULL), td_set_grad(q->t[k], 0, NULL, NULL);
    }
    return ok;
}

static void random_programs(void)
{
    static program p, q;
    int napart = 0;
    enum { PROGRAMS = 4000 };
    const char *given = getenv("TENSORD_PROGRAM");
    unsigned from = given ? (unsigned)atoi(given) : 0, to = given ? from + 1 : PROGRAMS;
    for (unsigned n = from; n < to; n++) {
        unsigned seed = n;
        memset(&p, 0, sizeof p);
        memset(&q, 0, sizeof q);
        for (int i = 0; i < STEPS; i++) {
            unsigned r[5];
            for (int k = 0; k < 5; k++) r[k] = (unsigned)rand_r(&seed) >> 4;
            p.s[i] = (step){.what = r[0], .a = r[1], .b = r[2], .c = r[3], .fails = r[4] % 2};
        }
        run_program(&p, true, n % 4);
        memcpy(q.s, p.s, sizeof q.s);
        run_program(&q, false, false);
        bool ok = q.apart || compare(&p, &q);
        napart += q.apart;
        if (!ok) printf("program %u\n", n);
        drop_all(p.n, p.t);
        drop_all(q.n, q.t);
        CU_ASSERT_FATAL(ok);
    }
    CU_ASSERT(napart < PROGRAMS / 20);
}

TD_CUNIT_MAIN_WITH("autograd_pending", t_setup, t_teardown, {"with a history", with_a_history},
                   {"without a history", without_a_history}, {"a view", a_view}, {"what was packed", what_was_packed},
                   {"two writes", two_writes}, {"a backward meanwhile", a_backward_meanwhile},
                   {"what was saved is pending", what_was_saved_is_pending}, {"random programs", random_programs})
