/* Planning a backward: everything that can be refused is refused here, before anything is computed.
 *
 * The graph is walked without recursion. Edges lead from newer to older nodes (leaves, the oldest, have the largest
 * number so that they run first), so one pass over the nodes by rising age says which lie on a way to a wanted input.
 * What the needed gradients saved is checked for its version and pinned. */
#include "daemon/autograd/backward.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(td_error *e)
{
    return td_fail(e, TD_E_MEMORY, "no memory to plan a backward");
}

static void *grown(void *p, uint32_t *room, size_t size)
{
    uint32_t more = *room ? 2 * *room : 64;
    void *q = realloc(p, more * size);
    if (q) *room = more;
    return q;
}

static int add_node(td_backward *b, td_node *n, td_error *e)
{
    if (td_map_get(&b->map, n) != UINT32_MAX) return 0;
    if (b->nnodes == b->room) {
        void *more = grown(b->nodes, &b->room, sizeof *b->nodes);
        if (!more) return no_memory(e);
        b->nodes = more;
    }
    if (!td_map_put(&b->map, n, b->nnodes)) return no_memory(e);
    b->nodes[b->nnodes++] = (td_bnode){.node = n};
    return 0;
}

/* All nodes that the roots reach: the array is its own queue. */
static int collect(td_backward *b, td_error *e)
{
    int err = 0;
    for (int r = 0; r < b->nroots && !err; r++) err = add_node(b, b->roots[r].node, e);
    for (uint32_t at = 0; at < b->nnodes && !err; at++) {
        td_node *n = b->nodes[at].node;
        for (int i = 0; i < n->nin && !err; i++)
            if (n->edges[i].node) err = add_node(b, n->edges[i].node, e);
    }
    return err;
}

/* ---- which nodes are needed */

static int by_age(const void *a, const void *b, void *arg)
{
    const td_bnode *nodes = ((td_backward *)arg)->nodes;
    const td_node *x = nodes[*(const uint32_t *)a].node, *y = nodes[*(const uint32_t *)b].node;
    uint64_t p = x->kind == TD_N_LEAF ? 0 : x->seq, q = y->kind == TD_N_LEAF ? 0 : y->seq;
    return p < q ? -1 : p > q;
}

static bool feeds_needed(const td_backward *b, const td_node *n)
{
    for (int i = 0; i < n->nin; i++)
        if (n->edges[i].node && b->nodes[td_map_get(&b->map, n->edges[i].node)].needed) return true;
    return false;
}

static int mark_needed(td_backward *b, td_error *e)
{
    if (!b->ninputs) {
        for (uint32_t k = 0; k < b->nnodes; k++) b->nodes[k].needed = true;
        return 0;
    }
    for (int c = 0; c < b->ncaptures; c++) {
        td_bnode *n = &b->nodes[b->captures[c].at];
        n->needed = n->captured = true;
    }
    uint32_t *order = malloc(b->nnodes * sizeof *order);
    if (!order) return no_memory(e);
    for (uint32_t k = 0; k < b->nnodes; k++) order[k] = k;
    qsort_r(order, b->nnodes, sizeof *order, by_age, b);
    for (uint32_t k = 0; k < b->nnodes; k++) {
        td_bnode *n = &b->nodes[order[k]];
        n->needed = n->needed || feeds_needed(b, n->node);
    }
    free(order);
    return 0;
}

uint32_t td_backward_child(const td_backward *b, const td_node *n, int i)
{
    if (!n->edges[i].node) return UINT32_MAX;
    uint32_t k = td_map_get(&b->map, n->edges[i].node);
    return b->nodes[k].needed ? k : UINT32_MAX;
}

static void count_deps(td_backward *b)
{
    for (uint32_t k = 0; k < b->nnodes; k++) {
        const td_node *n = b->nodes[k].node;
        for (int i = 0; b->nodes[k].needed && i < n->nin; i++) {
            uint32_t child = td_backward_child(b, n, i);
            if (child != UINT32_MAX) b->nodes[child].deps++;
        }
    }
}

/* ---- what was saved */

static int pin(td_backward *b, td_map *pinned, td_storage *s, td_error *e)
{
    if (td_map_get(pinned, s) != UINT32_MAX) return 0;
    if (b->npins == b->pins_room) {
        void *more = grown(b->pins, &b->pins_room, sizeof *b->pins);
        if (!more) return no_memory(e);
        b->pins = more;
    }
    if (!td_map_put(pinned, s, b->npins)) return no_memory(e);
    b->pins[b->npins++] = td_storage_ref(s);
    s->pinned++;
    return 0;
}

static int freed(const td_node *n, td_error *e)
{
    return td_fail(
        e, TD_E_AUTOGRAD,
        "Trying to backward through the graph a second time (the saved tensors of '%s' have already been freed). "
        "Saved intermediate values of the graph are freed when you call backward() or grad(). Specify "
        "retain_graph=True if you need to backward through the graph a second time",
        td_op_by_id(n->op)->name);
}

/* What the needed gradients of a node keep, by parameter. */
static void wanted(const td_backward *b, const td_node *outer, const td_node *n, uint32_t *inputs, uint32_t *outputs)
{
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

static int check_node(td_backward *b, td_map *pinned, const td_node *outer, const td_node *n, td_error *e)
{
    uint32_t inputs, outputs;
    const td_op *op = td_op_by_id(n->op);
    wanted(b, outer, n, &inputs, &outputs);
    if ((n->flags & TD_NF_FREED) && (inputs | outputs)) return freed(n, e);
    int err = 0;
    for (int k = 0; k < n->nsaved && !err; k++) {
        const td_saved *s = &n->saved[k];
        int p = s->output ? s->index : td_op_param_of(op, n->nin, s->index);
        if (!((s->output ? outputs : inputs) >> p & 1)) continue;
        err = td_saved_check(n, s, e);
        if (!err && s->kind == TD_SV_TENSOR) err = pin(b, pinned, s->tensor->storage, e);
    }
    if (err && e) {
        snprintf(e->op, sizeof e->op, "%s", op->name);
        snprintf(e->where, sizeof e->where, "%s", n->where);
    }
    return err;
}

static int check_saved(td_backward *b, td_error *e)
{
    td_map pinned = {0};
    int err = 0;
    for (uint32_t k = 0; k < b->nnodes && !err; k++) {
        const td_node *n = b->nodes[k].node;
        if (!b->nodes[k].needed || n->kind == TD_N_LEAF) continue;
        err = check_node(b, &pinned, n, n->kind == TD_N_SLICE ? n->slice->inner : n, e);
    }
    td_map_deinit(&pinned);
    return err;
}

void td_backward_unpin(td_backward *b)
{
    for (uint32_t k = 0; k < b->npins; k++) {
        b->pins[k]->pinned--;
        td_storage_unref(b->pins[k]);
    }
    b->npins = 0;
}

/* ---- roots and inputs */

static int check_seed(int r, td_tensor *root, td_tensor *g, td_error *e)
{
    char want[96], have[96];
    if (!g) {
        if (td_desc_numel(&root->desc) != 1)
            return td_fail(e, TD_E_AUTOGRAD, "grad can be implicitly created only for scalar outputs, not for shape %s",
                           td_shape_text(root->desc.ndim, root->desc.shape, want, sizeof want));
        if (td_dtype_is_complex((td_dtype)root->desc.dtype))
            return td_fail(e, TD_E_AUTOGRAD, "grad can be implicitly created only for real scalar outputs but got %s",
                           td_dtype_name((td_dtype)root->desc.dtype));
        return 0;
    }
    if (!td_desc_same_shape(&root->desc, &g->desc))
        return td_fail(e, TD_E_SHAPE,
                       "Mismatch in shape: grad_output[%d] has a shape of %s and output[%d] has a shape of %s", r,
                       td_shape_text(g->desc.ndim, g->desc.shape, have, sizeof have), r,
                       td_shape_text(root->desc.ndim, root->desc.shape, want, sizeof want));
    if (td_dtype_is_complex((td_dtype)root->desc.dtype) != td_dtype_is_complex((td_dtype)g->desc.dtype))
        return td_fail(e, TD_E_TYPE,
                       "for complex tensors, both grad_output and output must have a complex dtype: got %s and %s",
                       td_dtype_name((td_dtype)g->desc.dtype), td_dtype_name((td_dtype)root->desc.dtype));
    return 0;
}

static int take_roots(td_backward *b, td_tensor *const *roots, td_tensor *const *grads, td_error *e)
{
    int err = 0;
    for (int r = 0; r < b->nroots && !err; r++) {
        td_tensor *g = grads ? grads[r] : NULL;
        if (!td_requires_grad(roots[r]))
            err =
                td_fail(e, TD_E_AUTOGRAD, "element %d of tensors does not require grad and does not have a grad_fn", r);
        if (!err) err = check_seed(r, roots[r], g, e);
        if (!err) err = td_edge_of(roots[r], &b->roots[r], e);
        if (g) b->seeds[r] = td_tensor_ref(g);
        else b->shapes[r] = td_tensor_ref(roots[r]);
    }
    return err;
}

static int take_input(td_backward *b, int k, td_tensor *t, td_error *e)
{
    td_edge edge;
    if (!td_requires_grad(t))
        return td_fail(e, TD_E_AUTOGRAD, "One of the differentiated Tensors does not require grad");
    if ((b->flags & TD_BW_ACCUMULATE) && !td_is_leaf(t))
        return td_fail(e, TD_E_AUTOGRAD,
                       "backward(inputs=...) accumulates into leaves; input %d has a grad_fn: use grad()", k);
    int err = td_edge_of(t, &edge, e);
    if (err) return err;
    uint32_t at = td_map_get(&b->map, edge.node);
    td_node_unref(edge.node);
    if (at != UINT32_MAX) {
        b->captures[b->ncaptures++] = (td_capture){at, edge.nr, k};
        return 0;
    }
    if (b->flags & (TD_BW_ALLOW_UNUSED | TD_BW_ACCUMULATE)) return 0;
    return td_fail(
        e, TD_E_AUTOGRAD,
        "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
        "this is the desired behavior");
}

static int make_room(td_backward *b, td_error *e)
{
    b->roots = calloc((size_t)b->nroots + 1, sizeof *b->roots);
    b->seeds = calloc((size_t)b->nroots + 1, sizeof *b->seeds);
    b->shapes = calloc((size_t)b->nroots + 1, sizeof *b->shapes);
    b->results = calloc((size_t)b->ninputs + 1, sizeof *b->results);
    b->captures = calloc((size_t)b->ninputs + 1, sizeof *b->captures);
    return b->roots && b->seeds && b->shapes && b->results && b->captures ? 0 : no_memory(e);
}

static int plan(td_backward *b, td_tensor *const *roots, td_tensor *const *grads, td_tensor *const *inputs, td_error *e)
{
    int err = make_room(b, e);
    if (!err) err = take_roots(b, roots, grads, e);
    if (!err) err = collect(b, e);
    for (int k = 0; k < b->ninputs && !err; k++) err = take_input(b, k, inputs[k], e);
    if (!err) err = mark_needed(b, e);
    if (!err) err = check_saved(b, e);
    if (err) return err;
    count_deps(b);
    b->ready = malloc(((size_t)b->nnodes + 1) * sizeof *b->ready);
    b->leaves = malloc(((size_t)b->nnodes + 1) * sizeof *b->leaves);
    return b->ready && b->leaves ? 0 : no_memory(e);
}

int td_backward_new(td_backward **out, td_issuer *who, int nroots, td_tensor *const *roots, td_tensor *const *grads,
                    int ninputs, td_tensor *const *inputs, uint32_t flags, uint32_t scope, td_error *e)
{
    *out = NULL;
    td_backward *b = calloc(1, sizeof *b);
    if (!b) return no_memory(e);
    if (flags & TD_BW_CREATE_GRAPH) flags |= TD_BW_RETAIN;
    b->who = who, b->flags = flags, b->scope = scope, b->nroots = nroots, b->ninputs = ninputs;
    b->eval = (td_eval){.who = who, .create_graph = flags & TD_BW_CREATE_GRAPH};
    int err = plan(b, roots, grads, inputs, e);
    if (err) td_backward_free(b);
    else *out = b;
    return err;
}

static void drop_grads(td_bnode *n)
{
    for (int o = 0; n->grad && o < n->node->nout; o++) td_tensor_unref(n->grad[o]);
    free(n->grad);
    n->grad = NULL;
}

void td_backward_free(td_backward *b)
{
    if (!b) return;
    td_eval_deinit(&b->eval);
    for (uint32_t k = 0; k < b->nnodes; k++) drop_grads(&b->nodes[k]);
    for (int r = 0; r < b->nroots && b->roots; r++) td_node_unref(b->roots[r].node);
    for (int r = 0; r < b->nroots && b->seeds && b->shapes; r++)
        td_tensor_unref(b->seeds[r]), td_tensor_unref(b->shapes[r]);
    for (int k = 0; k < b->ninputs && b->results; k++) td_tensor_unref(b->results[k]);
    td_backward_unpin(b);
    td_anomaly_drop(b);
    td_map_deinit(&b->map);
    free(b->roots), free(b->seeds), free(b->shapes), free(b->results), free(b->captures);
    free(b->nodes), free(b->pins), free(b->ready), free(b->leaves);
    free(b);
}
