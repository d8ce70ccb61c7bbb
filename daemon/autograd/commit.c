/* The last step of a backward: what the leaves collected goes into their .grad, in all of them or in none.
 *
 * First it is asked whether each .grad may be touched: somebody may hold a write lease on it, or have yet to read it.
 * Then everything that may fail: sums and copies are made (where memory lacks it is begun again later, with those that
 * still hold), places for them too, in-place additions prepared. Then nothing can fail any more: gradients are put in
 * place, additions submitted. A first gradient is stolen when nobody
 * else holds it; later ones are added in place, but for create_graph, so that .grad stays the same tensor. */
#include "daemon/autograd/backward.h"
#include "proto/ops/opid.h"
#include <stdlib.h>

typedef struct step {
    td_tensor *leaf, *made; /* made: becomes .grad */
    td_call *add;           /* or: adds to it */
} step;

static void add_finished(td_call *c)
{
    if (c->cause && c->who->unwritten) c->who->unwritten(c->who, c);
}

static int prepare_add(td_backward *b, step *s, td_tensor *old, td_tensor *g, td_error *e)
{
    td_call *c = td_call_new(td_op_by_id(TD_OP_ADD), b->who, 2, 1, e);
    if (!c) return e && e->code ? e->code : TD_E_SYSTEM;
    c->in[0] = td_in(old);
    c->in[1] = td_in(g);
    c->out[0] = old;
    c->flags = TD_CF_OUT | TD_CF_DEFER;
    c->finished = add_finished;
    int rc = td_attrs_decode(c->op, NULL, 0, &c->attrs, e);
    if (!rc) rc = td_eval_failed(&b->eval, td_ops_prepare(c, b->eval.need, e));
    if (rc) td_call_free(c);
    else s->add = c;
    return rc;
}

static bool may_steal(const td_tensor *g)
{
    return (g->flags & TD_TF_FRESH) && g->storage->refs == 1 && td_desc_is_dense(&g->desc) &&
           g->storage->nbytes <= td_desc_nbytes(&g->desc);
}

static bool adds_in_place(const td_backward *b, const td_tensor *old, const td_tensor *g)
{
    return old && !(b->flags & TD_BW_CREATE_GRAPH) && !td_requires_grad(old) && old != g;
}

/* The k-th leaf's gradient; NULL when nothing becomes of it. */
static td_tensor *collected(const td_backward *b, uint32_t k, td_tensor **leaf)
{
    const td_bnode *bn = &b->nodes[b->leaves[k]];
    *leaf = bn->node->leaf; /* NULL: it has become something else meanwhile */
    bool wanted = *leaf && bn->grad && (!b->ninputs || bn->captured);
    return wanted ? bn->grad[0] : NULL;
}

static td_tensor *grad_of(const td_backward *b, const td_tensor *leaf)
{
    return td_grad_known(leaf, b->scope, b->who->session);
}

/* Negative: not yet. */
static int check_free(const td_backward *b, td_error *e)
{
    int rc = 0;
    td_tensor *leaf;
    for (uint32_t k = b->from; k < b->nleaves && b->who->may_touch && !rc; k++) {
        const td_tensor *g = collected(b, k, &leaf), *old = g ? grad_of(b, leaf) : NULL;
        if (old) rc = b->who->may_touch(b->who, old->storage, adds_in_place(b, old, g), e);
    }
    return rc;
}

/* ---- sums and copies: made one by one, in as many turns as memory takes to come */

static void drop_sum(td_sum *m)
{
    td_tensor_unref(m->old);
    td_tensor_unref(m->made);
    *m = (td_sum){0};
}

void td_sums_drop(td_backward *b)
{
    for (uint32_t k = 0; b->sums && k < b->nsums; k++) drop_sum(&b->sums[k]);
    free(b->sums);
    b->sums = NULL;
}

/* Of what is there now, or of what somebody has written, set or taken away since? */
static bool holds(const td_sum *m, const td_tensor *old)
{
    return m->made && m->old == old && (!old || m->version == old->version->value);
}

static int make_sum(td_backward *b, uint32_t k, td_tensor *old, td_tensor *g, td_error *e)
{
    if (!b->sums) b->sums = calloc(b->nsums = b->nleaves - b->from, sizeof *b->sums);
    if (!b->sums) return td_no_memory(e, "to accumulate gradients");
    td_sum *m = &b->sums[k - b->from];
    if (holds(m, old)) return 0;
    drop_sum(m);
    td_input in[2] = {td_in(old ? old : g), td_in(g)};
    td_tensor *made;
    int rc = td_eval_op(&b->eval, old ? TD_OP_ADD : TD_OP_COPY, old ? 2 : 1, in, NULL, 1, &made, e);
    if (rc) return rc;
    *m = (td_sum){.made = td_tensor_ref(made)};
    if (old) m->old = td_tensor_ref(old), m->version = old->version->value;
    td_eval_clear(&b->eval);
    return 0;
}

static int make_sums(td_backward *b, td_error *e)
{
    int rc = 0;
    for (uint32_t k = b->from; k < b->nleaves && !rc; k++) {
        td_tensor *leaf, *g = collected(b, k, &leaf), *old = g ? grad_of(b, leaf) : NULL;
        if (g && !adds_in_place(b, old, g) && (old || !may_steal(g))) rc = make_sum(b, k, old, g, e);
    }
    return rc;
}

/* ---- all at once */

static int prepare_step(td_backward *b, step *s, uint32_t k, td_tensor *g, td_error *e)
{
    td_tensor *old = grad_of(b, s->leaf);
    if (adds_in_place(b, old, g)) return prepare_add(b, s, old, g, e);
    s->made = old || !may_steal(g) ? b->sums[k - b->from].made : g;
    return td_grad_prepare(s->leaf, b->scope, s->made, e);
}

static int prepare(td_backward *b, step *steps, int *n, td_error *e)
{
    int rc = 0;
    for (uint32_t k = b->from; k < b->nleaves && !rc; k++) {
        td_tensor *leaf, *g = collected(b, k, &leaf);
        if (!g) continue;
        steps[*n] = (step){.leaf = leaf};
        rc = prepare_step(b, &steps[*n], k, g, e);
        *n += 1;
    }
    return rc;
}

static void take_effect(td_backward *b, const step *s)
{
    if (s->made) {
        s->made->flags &= ~TD_TF_FRESH;
        td_grad_put(s->leaf, b->scope, s->made);
    }
    if (!s->add) return;
    td_ops_conclude(s->add);
    b->who->submit(b->who, s->add);
}

static void give_up(const td_backward *b, const step *s)
{
    if (s->made) td_grad_unprepare(s->leaf, b->scope);
    td_call_free(s->add);
}

int td_backward_commit(td_backward *b, td_error *e)
{
    int n = 0, rc = check_free(b, e);
    if (!rc) rc = make_sums(b, e);
    if (rc) return rc;
    size_t bytes = ((size_t)(b->nleaves - b->from) + 1) * sizeof(step);
    step *steps = td_array_grow(NULL, 0, bytes);
    if (!steps) return td_no_memory(e, "to accumulate gradients");
    rc = prepare(b, steps, &n, e);
    for (int k = 0; k < n; k++) rc ? give_up(b, &steps[k]) : take_effect(b, &steps[k]);
    td_array_free(steps, bytes);
    if (!rc) td_sums_drop(b);
    return rc;
}

/* Its place in the list is the one behind those that wait for the end. */
int td_backward_commit_one(td_backward *b, uint32_t at, td_error *e)
{
    b->from = b->nleaves;
    b->leaves[b->nleaves++] = at;
    int rc = td_backward_commit(b, e);
    b->nleaves--;
    if (!rc) b->from = 0;
    return rc;
}
