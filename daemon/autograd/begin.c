/* The beginning and the end of a backward: what it is asked for, and letting go of it.
 *
 * What can be refused by looking at the roots and inputs alone is refused here; the graph is looked at in turns
 * (walk.c). Letting go is done in turns too, for a graph that was given up may be large. */
#include "daemon/autograd/rows.h"
#include "proto/base/device.h"
#include <limits.h>
#include <stdlib.h>

static int no_memory(td_error *e)
{
    return td_no_memory(e, "to walk the graph of a backward");
}

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
    if (g->desc.ndim && g->desc.device != root->desc.device)
        return td_fail(e, TD_E_INVALID, "Mismatch in device: grad_output[%d] is on %s and output[%d] on %s", r,
                       td_device_name(g->desc.device), r, td_device_name(root->desc.device));
    if (td_dtype_is_complex((td_dtype)root->desc.dtype) != td_dtype_is_complex((td_dtype)g->desc.dtype))
        return td_fail(e, TD_E_TYPE,
                       "for complex tensors, both grad_output and output must have a complex dtype: got %s and %s",
                       td_dtype_name((td_dtype)g->desc.dtype), td_dtype_name((td_dtype)root->desc.dtype));
    return 0;
}

static int take_roots(td_backward *b, td_tensor *const *roots, td_tensor *const *grads, td_error *e)
{
    int rc = 0;
    for (int r = 0; r < b->nroots && !rc; r++) {
        td_tensor *g = grads ? grads[r] : NULL;
        if (!td_requires_grad(roots[r]))
            rc =
                td_fail(e, TD_E_AUTOGRAD, "element %d of tensors does not require grad and does not have a grad_fn", r);
        if (!rc) rc = check_seed(r, roots[r], g, e);
        if (!rc) rc = td_edge_of(roots[r], &b->roots[r], e);
        if (g) b->seeds[r] = td_tensor_ref(g);
        else b->shapes[r] = td_tensor_ref(roots[r]);
        if (!rc && roots[r]->storage->hazards)
            rc = td_tensor_view(&b->pending[r], roots[r], &roots[r]->desc, b->who->account, e);
    }
    return rc;
}

static int take_input(td_backward *b, int k, td_tensor *t, td_error *e)
{
    if (!td_requires_grad(t))
        return td_fail(e, TD_E_AUTOGRAD, "One of the differentiated Tensors does not require grad");
    int rc = b->flags & TD_BW_ACCUMULATE ? td_retain_grad(t, e) : 0; /* nothing for a leaf */
    if (rc) return rc;
    return td_edge_of(t, &b->wanted[k], e);
}

static size_t lists_bytes(const td_backward *b)
{
    return (size_t)b->nroots * (sizeof *b->roots + sizeof *b->seeds + sizeof *b->shapes + sizeof *b->pending) +
           (size_t)b->ninputs * (sizeof *b->wanted + sizeof *b->results + sizeof *b->captures) + 1;
}

static int make_room(td_backward *b, td_error *e)
{
    size_t r = (size_t)b->nroots, n = (size_t)b->ninputs;
    b->lists = td_array_grow(NULL, 0, lists_bytes(b));
    if (!b->lists) return no_memory(e);
    b->roots = b->lists;
    b->wanted = b->roots + r;
    b->seeds = (td_tensor **)(b->wanted + n);
    b->shapes = b->seeds + r;
    b->pending = b->shapes + r;
    b->results = b->pending + r;
    b->captures = (td_capture *)(b->results + n);
    return 0;
}

int td_backward_new(td_backward **out, td_issuer *who, int nroots, td_tensor *const *roots, td_tensor *const *grads,
                    int ninputs, td_tensor *const *inputs, uint32_t flags, uint32_t scope, td_error *e)
{
    *out = NULL;
    td_backward *b = td_array_grow(NULL, 0, sizeof *b);
    if (!b) return no_memory(e);
    if (flags & TD_BW_CREATE_GRAPH) flags |= TD_BW_RETAIN;
    static _Thread_local uint32_t loop_serial;
    if (!++loop_serial) loop_serial = 1;
    b->serial = loop_serial;
    b->who = who, b->flags = flags, b->scope = scope, b->nroots = nroots, b->ninputs = ninputs;
    b->eval = (td_eval){.who = who, .of = b, .create_graph = flags & TD_BW_CREATE_GRAPH};
    int rc = make_room(b, e);
    if (!rc) rc = take_roots(b, roots, grads, e);
    for (int k = 0; k < ninputs && !rc; k++) rc = take_input(b, k, inputs[k], e);
    if (rc) td_backward_free(b);
    else *out = b;
    return rc;
}

/* ---- the end */

static void drop_node(td_backward *b, td_bnode *n)
{
    if (n->node->visitor == b->serial) n->node->visitor = 0;
    if (n->watches && !--n->node->watched && n->node->flags & TD_NF_VOID) td_node_strip(n->node);
    td_bnode_let_go(n);
}

/* A part of the arrays; true: they are gone. */
static bool free_some(td_backward *b)
{
    const struct {
        void *p;
        size_t size;
    } all[] = {{b->nodes, b->room * sizeof *b->nodes},
               {b->pins, b->pins_room * sizeof *b->pins},
               {b->remades, b->remades_room * sizeof(td_remade)},
               {b->ready, b->order * sizeof *b->ready},
               {b->leaves, b->order * sizeof *b->leaves}};
    if (b->freed == sizeof all / sizeof all[0]) return td_map_drop(&b->map) && td_map_drop(&b->regions);
    b->left = td_array_shorten(all[b->freed].p, b->left ? b->left : all[b->freed].size);
    b->freed += !b->left;
    return false;
}

bool td_backward_drop(td_backward *b, int most)
{
    enum { LARGE = 1 << 14 };
    if (!b) return true;
    int64_t steps = (int64_t)most * TD_NODE_STEPS;
    td_eval_deinit(&b->eval);
    td_running_end(b);
    td_asking_end(b);
    td_row_drop(b);
    td_sums_drop(b);
    td_tensor_unref(b->moving);
    b->moving = NULL;
    for (; b->nnodes && steps > 0; steps--) drop_node(b, &b->nodes[--b->nnodes]);
    if (b->nnodes || !td_backward_unpin(b, &steps)) return false;
    while (!free_some(b))
        if (b->room > LARGE) return false; /* to give megabytes back takes long */
    for (int r = 0; r < b->nroots && b->roots; r++) td_node_unref(b->roots[r].node);
    for (int r = 0; r < b->nroots && b->seeds && b->shapes && b->pending; r++)
        td_tensor_unref(b->seeds[r]), td_tensor_unref(b->shapes[r]), td_tensor_unref(b->pending[r]);
    for (int k = 0; k < b->ninputs && b->wanted; k++) td_node_unref(b->wanted[k].node);
    for (int k = 0; k < b->ninputs && b->results; k++) td_tensor_unref(b->results[k]);
    td_anomaly_drop(b);
    td_array_free(b->lists, lists_bytes(b));
    td_array_free(b, sizeof *b);
    return true;
}

void td_backward_free(td_backward *b)
{
    while (!td_backward_drop(b, INT_MAX)) {
    }
}
