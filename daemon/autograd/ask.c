/* Hooks in a backward: it stops at one, says what is asked, and goes on from the answer.
 *
 * While it waits nothing of it is pinned and nobody waits for it: the program may ask for anything meanwhile, also for
 * a backward through the same graph, and may take as long as it likes. What it writes that a node has saved, that
 * node's version tells, as in PyTorch. Hooks that come or go in between are looked for by their order. */
#include "daemon/autograd/backward.h"
#include "proto/ops/opid.h"
#include <stdlib.h>

/* ---- before anything is computed */

int td_ask_check(td_backward *b, const td_node *n, td_error *e)
{
    for (const td_hook *h = n->hooks; h; h = h->next) {
        if (!td_hook_is_own(h, b->owner)) return td_hook_foreign(h, n, b->owner, e);
        b->calls = true;
    }
    if (n->kind == TD_N_SLICE) return td_ask_check(b, n->slice->inner, e);
    const td_auto *leaf = n->kind == TD_N_LEAF && n->leaf ? td_auto_of(n->leaf) : NULL;
    for (const td_hook *h = leaf ? leaf->hooks : NULL; h; h = h->next) b->calls |= td_hook_is_own(h, b->owner);
    return 0;
}

int td_ask_check_leaf(const td_backward *b, const td_node *n, const td_node *leaf, td_error *e)
{
    const td_auto *a = leaf->leaf ? td_auto_of(leaf->leaf) : NULL;
    for (const td_hook *h = a ? a->hooks : NULL; h; h = h->next)
        if (!td_hook_is_own(h, b->owner) && td_hook_is_of(h, n)) return td_hook_foreign(h, leaf, b->owner, e);
    return 0;
}

/* ---- which comes next */

static const td_hook *next_of(const td_backward *b, const td_hook *h, int kind, const td_hook *best)
{
    for (; h; h = h->next) {
        bool meant = h->kind == kind && h->order > b->asking.last && h->order <= b->asking.until;
        if (meant && td_hook_is_own(h, b->owner) && (!best || h->order < best->order)) best = h;
    }
    return best;
}

static const td_hook *next_hook(const td_backward *b, const td_node *n, int kind)
{
    const td_auto *leaf = n->kind == TD_N_LEAF && n->leaf ? td_auto_of(n->leaf) : NULL;
    const td_hook *own = next_of(b, n->hooks, kind, NULL);
    return leaf ? next_of(b, leaf->hooks, kind, own) : own;
}

bool td_ask_has(const td_backward *b, const td_node *n, int kind)
{
    const td_auto *leaf = n->kind == TD_N_LEAF && n->leaf ? td_auto_of(n->leaf) : NULL;
    for (const td_hook *h = n->hooks; h; h = h->next)
        if (h->kind == kind && td_hook_is_own(h, b->owner)) return true;
    for (const td_hook *h = leaf ? leaf->hooks : NULL; h; h = h->next)
        if (h->kind == kind && td_hook_is_own(h, b->owner)) return true;
    return false;
}

/* ---- the question */

static void drop_tensors(td_tensor ***at, int n)
{
    for (int k = 0; *at && k < n; k++) td_tensor_unref((*at)[k]);
    free(*at);
    *at = NULL;
}

void td_question_over(td_backward *b)
{
    td_asking *a = &b->asking;
    drop_tensors(&a->at, a->n);
    drop_tensors(&a->given, a->wanted);
    a->on = a->answered = false;
}

void td_asking_end(td_backward *b)
{
    td_question_over(b);
    td_hook_owner_unref(b->owner);
    b->owner = NULL;
}

static int room_for(td_asking *a, int n, td_error *e)
{
    a->n = 0;
    a->at = calloc((unsigned)n + 1u, sizeof *a->at);
    return a->at ? 0 : td_no_memory(e, "for what a hook is given");
}

/* The program will have it: from here on it is nobody's alone. */
static void give(td_asking *a, td_tensor *t)
{
    if (t) t->flags &= ~TD_TF_FRESH;
    a->at[a->n++] = t ? td_tensor_ref(t) : NULL;
}

static void ask(td_backward *b, const td_hook *h, int first, int wanted)
{
    td_asking *a = &b->asking;
    a->on = true;
    a->kind = h->kind;
    a->nr = h->nr;
    a->hook = h->number;
    a->last = h->order;
    a->first = first;
    a->wanted = wanted;
}

static int ask_hook(td_backward *b, td_running *r, const td_hook *h, td_error *e)
{
    td_bnode *n = &b->nodes[r->at];
    td_asking *a = &b->asking;
    int nout = n->node->nout, nin = n->node->nin;
    int rc = room_for(a, nout + nin, e);
    if (rc) return rc;
    switch (h->kind) {
    case TD_HOOK_TENSOR: give(a, n->grad ? n->grad[h->nr] : NULL); break;
    case TD_HOOK_LEAF: give(a, n->node->leaf); break;
    case TD_HOOK_POST:
        for (int i = 0; i < nin; i++) give(a, r->result[i]); /* fallthrough */
    default:
        for (int o = 0; o < nout; o++) give(a, n->grad ? n->grad[o] : NULL);
    }
    int first = h->kind == TD_HOOK_POST ? nin : a->n;
    ask(b, h, first, h->kind == TD_HOOK_LEAF ? 0 : first);
    return 0;
}

/* ---- the answer */

static void put(td_tensor **at, td_tensor *given)
{
    td_tensor *old = *at;
    *at = given ? td_tensor_ref(given) : NULL;
    td_tensor_unref(old);
}

static void take_answer(td_backward *b, td_running *r)
{
    td_asking *a = &b->asking;
    td_bnode *n = &b->nodes[r->at];
    if (a->given && a->kind == TD_HOOK_TENSOR && n->grad) put(&n->grad[a->nr], a->given[0]);
    for (int k = 0; a->given && k < a->wanted && a->kind == TD_HOOK_PRE; k++)
        if (n->grad) put(&n->grad[k], a->given[k]);
    for (int k = 0; a->given && k < a->wanted && a->kind == TD_HOOK_POST; k++) put(&r->result[k], a->given[k]);
    td_question_over(b);
}

int td_ask_hooks(td_backward *b, td_running *r, int kind, bool *asked, td_error *e)
{
    td_asking *a = &b->asking;
    td_bnode *n = &b->nodes[r->at];
    *asked = false;
    if (a->answered) take_answer(b, r);
    if (!a->until) a->until = td_loop_hooks;
    const td_hook *h = next_hook(b, n->node, kind);
    if (!h) {
        a->last = a->until = 0; /* for the next step */
        return 0;
    }
    *asked = true;
    return ask_hook(b, r, h, e);
}

int td_ask_one(td_backward *b, const td_hook *h, td_error *e)
{
    int rc = room_for(&b->asking, 0, e);
    if (!rc) ask(b, h, 0, 1);
    return rc;
}

/* ---- functions */

/* What it saved: an output with its place in the graph, an input as it is. */
static int unpack(td_backward *b, td_node *n, int k, td_error *e)
{
    const td_saved *s = &n->saved[k];
    if (s->kind == TD_SV_NONE) {
        give(&b->asking, NULL);
        return 0;
    }
    int rc = td_saved_check(n, s, e);
    if (rc || s->kind != TD_SV_TENSOR) return rc;
    if (!s->output || !td_dtype_is_inexact((td_dtype)s->tensor->desc.dtype)) {
        give(&b->asking, s->tensor);
        return 0;
    }
    td_tensor *t;
    rc = td_tensor_view(&t, s->tensor, &s->tensor->desc, s->tensor->account, e);
    if (rc) return rc;
    rc = td_set_history(t, n, s->index, e);
    if (!rc) give(&b->asking, t);
    td_tensor_unref(t);
    return rc;
}

static int unpack_packed(td_backward *b, td_node *n, int k, td_error *e)
{
    td_tensor *t;
    int rc = td_unpacked(b, n, k, true, &t, e);
    if (rc) return rc;
    give(&b->asking, t);
    td_tensor_unref(t);
    return 0;
}

static int ask_function(td_backward *b, td_running *r, td_error *e)
{
    td_bnode *bn = &b->nodes[r->at];
    td_node *n = bn->node;
    const td_hook *h = n->hooks;
    while (h && h->kind != TD_HOOK_FUNCTION) h = h->next;
    if (!h) return td_fail(e, TD_E_INTERNAL, "a function without its hook");
    if (n->flags & TD_NF_FREED) return td_node_freed(n, e);
    int rc = room_for(&b->asking, n->nout + n->nsaved, e);
    for (int o = 0; o < n->nout && !rc; o++) give(&b->asking, bn->grad ? bn->grad[o] : NULL);
    for (int k = 0; k < n->nsaved && !rc; k++)
        rc = n->saved[k].kind == TD_SV_PACKED ? unpack_packed(b, n, k, e) : unpack(b, n, k, e);
    if (!rc) ask(b, h, n->nout, n->nin);
    return rc;
}

/* As those of an op: summed, cast and moved to be like the input. */
static int take_gradient(td_backward *b, td_running *r, int i, td_error *e)
{
    td_node *n = b->nodes[r->at].node;
    td_tensor *given = b->asking.given[i], *g;
    if (!given || td_backward_child(b, n, i) == UINT32_MAX) return 0;
    const td_edge *to = &n->edges[i];
    const td_shape *s = &to->node->outs[to->nr];
    td_fmeta meta = td_node_meta(to->node, s);
    td_fval v = {TD_F_TENSOR, {given}};
    int rc = td_eval_conform(&b->eval, td_op_by_id(TD_OP_COPY), v, &meta, s->open, &g, e);
    if (!rc) r->result[i] = td_tensor_ref(g);
    if (!rc) td_eval_clear(&b->eval);
    return rc;
}

int td_ask_function(td_backward *b, td_running *r, bool *done, td_error *e)
{
    td_asking *a = &b->asking;
    *done = false;
    if (!a->answered) return ask_function(b, r, e);
    int rc = 0;
    for (; a->given && r->i < a->wanted && !rc; r->i += !rc) rc = take_gradient(b, r, r->i, e);
    if (rc) return rc;
    td_question_over(b);
    a->last = a->until = 0;
    r->i = 0;
    *done = true;
    return 0;
}

/* ---- who asks, who answers */

void td_backward_answered_by(td_backward *b, td_hook_owner *owner)
{
    b->owner = td_hook_owner_ref(owner);
}

bool td_backward_asks(const td_backward *b, td_asked *out)
{
    const td_asking *a = &b->asking;
    if (!a->on) return false;
    *out = (td_asked){a->hook, a->kind, a->n, a->first, a->wanted, a->at};
    return true;
}

static int check_given(const td_tensor *was, const td_tensor *given, td_error *e)
{
    if (!given) return 0;
    if (!was) return td_fail(e, TD_E_AUTOGRAD, "a hook can't replace a None gradient with a non-None value");
    if (!td_desc_same_shape(&was->desc, &given->desc))
        return td_fail(e, TD_E_SHAPE, "hook has changed the size of value");
    if (was->desc.dtype != given->desc.dtype || was->desc.device != given->desc.device)
        return td_fail(e, TD_E_TYPE, "hook has changed the type of value (was %s got %s)",
                       td_dtype_name((td_dtype)was->desc.dtype), td_dtype_name((td_dtype)given->desc.dtype));
    return 0;
}

static int keep_given(td_asking *a, int n, td_tensor *const *given, td_error *e)
{
    if (n != a->wanted)
        return td_fail(e, TD_E_INVALID, "%d gradients are the answer to hook %u, not %d", a->wanted, a->hook, n);
    int rc = 0;
    for (int k = 0; k < n && !rc && a->kind < TD_HOOK_FUNCTION; k++) rc = check_given(a->at[k], given[k], e);
    if (rc) return rc;
    a->given = calloc((unsigned)n + 1u, sizeof *a->given);
    if (!a->given) return td_no_memory(e, "for a hook's answer");
    for (int k = 0; k < n; k++)
        if (given[k]) a->given[k] = td_tensor_ref(given[k]), given[k]->flags &= ~TD_TF_FRESH;
    return 0;
}

int td_backward_answer(td_backward *b, int n, td_tensor *const *given, td_error *e)
{
    td_asking *a = &b->asking;
    if (!a->on) return td_fail(e, TD_E_INVALID, "no hook was asked");
    int rc = given && a->wanted ? keep_given(a, n, given, e) : 0;
    a->on = false;
    a->answered = !rc;
    if (rc) b->failed = rc;
    return rc;
}
