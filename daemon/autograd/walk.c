/* Looking at the graph before a backward: which nodes there are, which of them are needed, what they saved. Everything
 * that can be refused is refused here, before anything is computed.
 *
 * Each stage is a loop whose place is kept in the backward, so that a walk over a million nodes is made in turns. There
 * is no recursion. Nodes and edges never change once they are recorded, and the roots keep them; what was saved is
 * checked and pinned node by node, and checked again when it is read. */
#include "daemon/autograd/backward.h"
#include <stdio.h>

static int no_memory(td_error *e)
{
    return td_no_memory(e, "to walk the graph of a backward");
}

static void next_stage(td_backward *b, td_backward_stage stage)
{
    b->stage = stage;
    b->at = b->edge = 0;
}

/* ---- all that the roots reach */

uint32_t td_backward_find(const td_backward *b, const td_node *n)
{
    return n->visitor == b->serial ? n->visit : b->map.count ? td_map_get(&b->map, n) : UINT32_MAX;
}

static int add_node(td_backward *b, td_node *n, td_error *e)
{
    if (td_backward_find(b, n) != UINT32_MAX) return 0;
    if (b->nnodes == b->room) {
        void *more = td_array_more(b->nodes, &b->room, sizeof *b->nodes);
        if (!more) return no_memory(e);
        b->nodes = more;
    }
    if (n->visitor) {
        if (!td_map_put(&b->map, n, b->nnodes)) return no_memory(e);
    } else {
        n->visitor = b->serial;
        n->visit = b->nnodes;
    }
    b->nodes[b->nnodes++] = (td_bnode){.node = n, .needed = !b->ninputs};
    return 0;
}

/* Whether another's write is a part of the graph is known when it has ended. Of the issuer's own, the values that come
 * of it say so; but what it replaces is a part of the graph only if it fails. */
static bool is_open(td_backward *b, const td_node *n)
{
    if (!(n->flags & TD_NF_PENDING)) return false;
    if (n->session == b->who->session && !(n->flags & TD_NF_REPLACES)) return false;
    td_storage *s = td_node_writes(n);
    if (s->hazards) b->behind = s;
    return s->hazards;
}

bool td_backward_past(const td_backward *b, const td_node *n)
{
    return (n->flags & TD_NF_VOID) && b->nodes[td_backward_find(b, n)].past;
}

static td_node *edge_to(const td_backward *b, const td_node *n, uint32_t i)
{
    return i && td_backward_past(b, n) ? NULL : n->edges[i].node;
}

static void look_at(td_bnode *n)
{
    n->past = n->node->flags & TD_NF_VOID;
    if (n->watches || !(n->node->flags & TD_NF_PENDING)) return;
    n->watches = true;
    n->node->watched++;
}

/* The array is its own queue. */
static int walk(td_backward *b, int64_t *steps, td_error *e)
{
    int rc = 0;
    for (int r = 0; r < b->nroots && !rc && !b->nfirst; r++) rc = add_node(b, b->roots[r].node, e);
    if (!b->nfirst) b->nfirst = b->nnodes;
    while (b->at < b->nnodes && !rc && (*steps)-- > 0) {
        td_node *n = b->nodes[b->at].node;
        if (is_open(b, n)) {
            *steps = 0;
            return 0;
        }
        if (b->edge == 0) look_at(&b->nodes[b->at]);
        if (b->edge == n->nin) {
            b->at++;
            b->edge = 0;
        } else if (edge_to(b, n, b->edge++)) {
            rc = add_node(b, n->edges[b->edge - 1].node, e);
        }
    }
    if (rc || b->at < b->nnodes) return rc;
    b->order = b->nnodes + 1;
    b->ready = td_array_grow(NULL, 0, b->order * sizeof *b->ready);
    b->leaves = td_array_grow(NULL, 0, b->order * sizeof *b->leaves);
    next_stage(b, TD_BS_INPUTS);
    return b->ready && b->leaves ? 0 : no_memory(e);
}

/* ---- which of them are needed */

static int find_input(td_backward *b, int k, td_error *e)
{
    const td_edge *w = &b->wanted[k];
    uint32_t at = w->node ? td_backward_find(b, w->node) : UINT32_MAX;
    if (at != UINT32_MAX) {
        b->captures[b->ncaptures++] = (td_capture){at, w->nr, k};
        b->nodes[at].needed = b->nodes[at].captured = true;
        return 0;
    }
    if (b->flags & (TD_BW_ALLOW_UNUSED | TD_BW_ACCUMULATE)) return 0;
    return td_fail(
        e, TD_E_AUTOGRAD,
        "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
        "this is the desired behavior");
}

static int find_inputs(td_backward *b, int64_t *steps, td_error *e)
{
    int rc = 0;
    while (b->at < (uint32_t)b->ninputs && !rc && (*steps)-- > 0) rc = find_input(b, (int)b->at++, e);
    if (!rc && b->at == (uint32_t)b->ninputs) next_stage(b, b->ninputs ? TD_BS_SEARCH : TD_BS_CHECK);
    return rc;
}

static void enter(td_backward *b, uint32_t k)
{
    if (b->nodes[k].seen) return;
    b->nodes[k].seen = true;
    b->ready[b->nready] = k;
    b->leaves[b->nready++] = 0;
}

/* Depth first: a node is needed when it is wanted, or one of those that it leads to is needed. The stack lies where
 * later the ready nodes will (the nodes) and the leaves (the next edge of each). */
static void search(td_backward *b, int64_t *steps)
{
    while ((*steps)-- > 0) {
        if (!b->nready) {
            if (b->at == b->nfirst) {
                next_stage(b, TD_BS_CHECK);
                return;
            }
            enter(b, b->at++);
            continue;
        }
        uint32_t top = b->ready[b->nready - 1], *edge = &b->leaves[b->nready - 1];
        td_bnode *n = &b->nodes[top];
        if (*edge < n->node->nin) {
            const td_node *child = edge_to(b, n->node, (*edge)++);
            uint32_t k = child ? td_backward_find(b, child) : UINT32_MAX;
            if (k == UINT32_MAX) continue;
            n->needed |= b->nodes[k].needed; /* if it was seen before; else it says so itself when it is left */
            enter(b, k);
        } else if (--b->nready) {
            b->nodes[b->ready[b->nready - 1]].needed |= n->needed;
        }
    }
}

uint32_t td_backward_child(const td_backward *b, const td_node *n, int i)
{
    const td_node *to = edge_to(b, n, (uint32_t)i);
    if (!to) return UINT32_MAX;
    uint32_t k = td_backward_find(b, to);
    return b->nodes[k].needed ? k : UINT32_MAX;
}

/* ---- what was saved */

/* As often as it is saved: to know which were pinned before would take longer. */
int td_backward_pin(td_backward *b, td_storage *s, td_error *e)
{
    if (b->calls) return 0; /* what a hook writes would wait for its own backward: versions tell of it */
    if (b->npins == b->pins_room) {
        void *more = td_array_more(b->pins, &b->pins_room, sizeof *b->pins);
        if (!more) return no_memory(e);
        b->pins = more;
    }
    b->pins[b->npins++] = td_storage_ref(s);
    s->pinned++;
    return 0;
}

int td_node_freed(const td_node *n, td_error *e)
{
    return td_fail(
        e, TD_E_AUTOGRAD,
        "Trying to backward through the graph a second time (the saved tensors of '%s' have already been freed). "
        "Saved intermediate values of the graph are freed when you call backward() or grad(). Specify "
        "retain_graph=True if you need to backward through the graph a second time",
        td_node_name(n));
}

void td_backward_wants(const td_backward *b, const td_node *outer, const td_node *n, uint32_t *inputs,
                       uint32_t *outputs)
{
    if (n->kind == TD_N_FUNCTION) {
        bool any = false;
        for (int i = 0; i < n->nin && !any; i++) any = td_backward_child(b, n, i) != UINT32_MAX;
        *inputs = *outputs = any ? UINT32_MAX : 0;
        return;
    }
    const td_op *op = td_op_by_id(n->op);
    const td_formula *f = td_formula_of(op);
    int shift = outer != n; /* the edges of an op inside a slice begin at 1 */
    *inputs = *outputs = 0;
    for (int i = 0; f && i < n->nin; i++) {
        bool own = shift && i == 0 && !outer->edges[1].node;
        if (td_backward_child(b, outer, own ? 0 : i + shift) == UINT32_MAX) continue;
        const td_fsaves *s = &f->saves[td_op_param_of(op, n->nin, i)];
        *inputs |= s->inputs, *outputs |= s->outputs;
    }
}

/* Somebody who sent a write that failed takes it for written: that comes first. */
int td_backward_told(const td_backward *b, const td_storage *s, td_error *e)
{
    const td_cause *c = s->late && b->who->untold ? b->who->untold(b->who, s) : NULL;
    if (!c) return 0;
    if (e) *e = c->error;
    return c->error.code;
}

/* Written since, it seems; but not when that fails. Looked at once for each value that the node saved. */
static bool may_be_unwritten(td_backward *b, const td_node *n, const td_saved *s)
{
    uint32_t asks = b->asked == b->at ? b->asks : 0;
    if (s->kind != TD_SV_TENSOR || !s->tensor->storage->hazards || asks >= n->nsaved) return false;
    b->asked = b->at;
    b->asks = asks + 1;
    b->behind = s->tensor->storage;
    return true;
}

static int check_node(td_backward *b, const td_node *outer, const td_node *n, td_error *e)
{
    uint32_t inputs, outputs;
    const td_op *op = td_op_by_id(n->op);
    if (td_backward_past(b, outer)) return 0;
    td_backward_wants(b, outer, n, &inputs, &outputs);
    if ((n->flags & TD_NF_FREED) && (inputs | outputs)) return td_node_freed(n, e);
    int rc = 0;
    for (int k = 0; k < n->nsaved && !rc; k++) {
        const td_saved *s = &n->saved[k];
        int p = n->kind == TD_N_FUNCTION ? 0 : s->output ? s->index : td_op_param_of(op, n->nin, s->index);
        if (!((s->output ? outputs : inputs) >> p & 1)) continue;
        rc = s->kind == TD_SV_AGAIN ? td_remake_enter(b, s->region, e) : td_saved_check(n, s, e);
        if (rc == TD_E_VERSION && may_be_unwritten(b, n, s)) return rc;
        if (rc || s->kind != TD_SV_TENSOR) continue;
        rc = td_backward_told(b, s->tensor->storage, e);
        if (rc) return rc;
        rc = td_backward_pin(b, s->tensor->storage, e);
    }
    if (rc && e) {
        snprintf(e->op, sizeof e->op, "%s", td_node_name(n));
        snprintf(e->where, sizeof e->where, "%s", n->where);
    }
    return rc;
}

static void drop_pin(td_storage **pin)
{
    if (!*pin) return;
    if (!--(*pin)->pinned) (*pin)->flags &= (uint8_t)~TD_SF_OVERDUE;
    td_storage_unref(*pin);
    *pin = NULL;
}

bool td_backward_reads(const td_backward *b, const td_storage *s, uint32_t *most)
{
    for (uint32_t k = b->npins; s && k > 0 && *most > 0; k--, --*most)
        if (b->pins[k - 1] == s) return true;
    return !s && b->npins;
}

static bool unpin(td_backward *b, int64_t *steps)
{
    for (; b->npins && *steps > 0; --*steps) drop_pin(&b->pins[--b->npins]);
    return !b->npins;
}

void td_backward_unpin_node(td_backward *b, td_bnode *n)
{
    if (b->calls) n->npins = 0; /* they all went before anything was run */
    for (; n->npins; n->npins--) drop_pin(&b->pins[n->pins + n->npins - 1]);
}

static int check(td_backward *b, int64_t *steps, td_error *e)
{
    int rc = 0;
    while (b->at < b->nnodes && !rc && *steps > 0) {
        td_bnode *bn = &b->nodes[b->at++];
        const td_node *n = bn->node;
        *steps -= 1 + n->nin + n->nsaved;
        if (!bn->needed) continue;
        rc = td_ask_check(b, n, e);
        if (n->kind == TD_N_LEAF) continue;
        bn->pins = b->npins;
        if (!rc) rc = check_node(b, n, n->kind == TD_N_SLICE ? n->slice->inner : n, e);
        bn->npins = b->npins - bn->pins;
        if (b->behind) { /* once more when that is known */
            b->at--;
            *steps = 0;
            return 0;
        }
        for (int i = 0; i < n->nin; i++) {
            uint32_t child = td_backward_child(b, n, i);
            if (child == UINT32_MAX) continue;
            b->nodes[child].deps++;
            if (!rc && b->nodes[child].node->kind == TD_N_LEAF) rc = td_ask_check_leaf(b, n, b->nodes[child].node, e);
        }
    }
    if (rc || b->at < b->nnodes) return rc;
    if (b->calls && !unpin(b, steps)) return 0;
    next_stage(b, TD_BS_AGAIN);
    return 0;
}

static int remake_again(td_backward *b, int64_t *steps, td_error *e)
{
    int rc = td_remakes_walk(b, steps, e);
    if (!rc && b->at == b->nremades) next_stage(b, TD_BS_SEED);
    return rc;
}

bool td_backward_unpin(td_backward *b, int64_t *steps)
{
    return unpin(b, steps) && td_remakes_drop(b, steps);
}

int td_backward_walk(td_backward *b, int64_t *steps, td_error *e)
{
    switch (b->stage) {
    case TD_BS_WALK: return walk(b, steps, e);
    case TD_BS_INPUTS: return find_inputs(b, steps, e);
    case TD_BS_SEARCH: search(b, steps); return 0;
    case TD_BS_CHECK: return check(b, steps, e);
    default: return remake_again(b, steps, e);
    }
}
