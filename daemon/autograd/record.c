/* Recording: the way of every op. Prepares the call, makes a node when a gradient may be asked for later, submits.
 *
 * Order: what can be refused is refused before td_ops_prepare, because that moves versions; the node is made after it,
 * because only then are outputs (and how many) known. Where something moves, the room for the node is had before. Saved
 * inputs carry the version from before the call, saved outputs the one after. */
#include "daemon/autograd/region.h"
#include "proto/ops/opid.h"
#include <stdlib.h>
#include <string.h>

static inline int param_of(const td_grad_record *r, int i)
{
    return r->c->op->list_param < 0 ? i : td_op_param_of(r->c->op, r->c->nin, i);
}

/* Which inputs and outputs the wanted gradients keep, by parameter. */
static td_masks wanted_masks(const td_grad_record *r)
{
    td_masks m = {0};
    if (!r->formula) return m;
    for (int i = 0; i < r->c->nin; i++) {
        if (!td_record_wants(r, i)) continue;
        const td_fsaves *s = &r->formula->saves[param_of(r, i)];
        m.inputs |= s->inputs, m.outputs |= s->outputs, m.shapes |= s->shapes;
    }
    return m;
}

static inline bool input_in(const td_grad_record *r, uint32_t mask, int i)
{
    return mask && (mask >> param_of(r, i) & 1) && r->c->in[i].kind != TD_IN_ABSENT;
}

/* Formulas name single outputs only; a list may have more than the mask has bits. */
static inline bool output_in(uint32_t mask, int o)
{
    return o < 32 && mask >> o & 1;
}

/* Most tensors have nothing to do with gradients, nor has what they are views of. */
static inline bool requires_grad(const td_tensor *t)
{
    return (td_auto_of(t) || t->view_base) && td_requires_grad(t);
}

static int find_wants(td_grad_record *r, td_error *e)
{
    td_call *c = r->c;
    if (c->nin > 64) {
        r->many = calloc(c->nin, sizeof *r->many);
        if (!r->many) return td_no_memory(e, "for a node of the graph");
    }
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind != TD_IN_TENSOR || !requires_grad(c->in[i].tensor)) continue;
        r->nwants++;
        if (r->many) r->many[i] = true;
        else r->wants |= UINT64_C(1) << i;
    }
    return 0;
}

static bool in_place(const td_call *c)
{
    return c->nin > 0 && c->in[0].kind == TD_IN_TENSOR && c->in[0].tensor == c->out[0];
}

static int check_written(td_grad_record *r, td_grad_mode mode, td_error *e)
{
    td_call *c = r->c;
    int rc = 0;
    for (int o = 0; o < c->nout && r->writes && !rc; o++) {
        bool needs = r->nwants || td_requires_grad(c->out[o]);
        if (mode == TD_GRAD_ON && needs && (c->nout > 1 || !in_place(c)) && !td_op_replaces(c->op))
            return td_fail(e, TD_E_AUTOGRAD,
                           "functions with out=... arguments don't support automatic differentiation, but one of the "
                           "arguments requires grad. Write into a detach()ed tensor, or leave out= away");
        rc = td_check_write(c->out[o], mode, needs, e);
    }
    for (int i = 0; c->op->mutates && i < c->nin && !rc; i++)
        if (td_call_writes_input(c, i)) rc = td_check_write(c->in[i].tensor, mode, false, e);
    return rc;
}

static int check_saved(const td_grad_record *r, td_masks m, td_error *e)
{
    for (int i = 0; i < r->c->nin; i++)
        if (input_in(r, m.inputs, i) && r->c->in[i].kind == TD_IN_TENSOR &&
            (r->c->in[i].tensor->flags & TD_TF_INFERENCE))
            return td_fail(e, TD_E_AUTOGRAD,
                           "inference tensors cannot be saved for backward. To work around you can make a clone to get "
                           "a normal tensor and use it in autograd");
    return 0;
}

/* The op overwrites an input whose old value its gradient needs: keep a copy, with the old history. */
static int keep_copy(td_grad_record *r, td_need *need, td_error *e)
{
    td_call *c = r->c;
    td_edge edge;
    int rc = td_edge_of(c->out[0], &edge, e);
    if (rc) return rc;
    td_input in = td_in(c->out[0]);
    rc = td_ops_try(c->who, TD_OP_COPY, 1, &in, NULL, 0, 1, &r->kept, need, e);
    if (!rc && edge.node) rc = td_set_history(r->kept, edge.node, edge.nr, e);
    td_node_unref(edge.node);
    return rc;
}

static int begin(td_grad_record *r, td_grad_mode mode, td_need *need, td_error *e)
{
    td_call *c = r->c;
    r->writes = (c->flags & TD_CF_OUT) && c->nout;
    int rc = 0;
    if (mode == TD_GRAD_ON && !(c->op->flags & TD_OF_NONDIFF)) rc = find_wants(r, e);
    if (!rc && (r->writes || c->op->mutates)) rc = check_written(r, mode, e);
    if (rc || !r->nwants) return rc;
    r->formula = td_formula_of(c->op);
    r->masks = wanted_masks(r);
    rc = check_saved(r, r->masks, e);
    if (!rc && r->writes && in_place(c) && input_in(r, r->masks.inputs, 0)) rc = keep_copy(r, need, e);
    return rc;
}

/* Before the call is prepared only given outputs are known; others are taken for as large as they may be. */
static td_node_size measure(const td_grad_record *r, td_masks m, bool known)
{
    td_call *c = r->c;
    td_node_size z = {.nin = c->nin, .nout = c->nout, .shapes = m.shapes != 0};
    if (r->writes && !z.nin) z.nin = 1; /* should it fail, what it replaces is there */
    for (int i = 0; i < c->nin; i++) {
        z.nsaved += input_in(r, m.inputs, i);
        if (input_in(r, m.shapes, i) && c->in[i].kind == TD_IN_TENSOR)
            z.nints += td_shape_ints(&c->in[i].tensor->desc, true);
    }
    for (int o = 0; o < c->nout; o++) {
        z.nsaved += output_in(m.outputs, o);
        z.nints += known ? td_shape_ints(&c->out[o]->desc, false) : TD_MAX_DIMS;
    }
    if (c->op->nattrs) z.nattrs = (int)td_attrs_words(c->op, &c->attrs);
    return z;
}

static void put_shapes(td_grad_record *r, td_masks m)
{
    td_call *c = r->c;
    td_node *n = r->node;
    uint32_t at = 0;
    for (int o = 0; o < c->nout; o++) {
        at += td_node_put_shape(n, &n->outs[o], at, &c->out[o]->desc, false);
        n->outs[o].open = c->op->flags & TD_OF_DATA_SHAPE;
    }
    for (int i = 0; n->shapes && i < c->nin; i++)
        if (input_in(r, m.shapes, i) && c->in[i].kind == TD_IN_TENSOR)
            at += td_node_put_shape(n, &n->shapes[i], at, &c->in[i].tensor->desc, true);
}

/* The version that input i had before the call. */
static uint32_t version_before(const td_grad_record *r, const td_tensor *t)
{
    bool written = r->writes && t->version == r->c->out[0]->version;
    return written ? r->before : t->version->value;
}

/* What a region makes again need not be kept. */
static int save_input(const td_grad_record *r, td_saved *s, int i, td_error *e)
{
    td_tensor *t = r->c->in[i].tensor;
    bool kept = i == 0 && r->kept, picked = false;
    td_region *region = r->c->who->region;
    int rc = region ? td_region_pick(region, s, i, kept ? TD_PICK_OLD : TD_PICK_INPUT, &picked, e) : 0;
    if (rc || picked) return rc;
    if (kept) return td_save_input(s, r->kept, i, r->kept->version->value, e);
    return td_save_input(s, t, i, version_before(r, t), e);
}

static int save_output(const td_grad_record *r, td_saved *s, int o, td_error *e)
{
    bool picked = false;
    td_region *region = r->c->who->region;
    int rc = region ? td_region_pick(region, s, o, TD_PICK_OUTPUT, &picked, e) : 0;
    return rc || picked ? rc : td_save_output(s, r->c->out[o], o, e);
}

static int put_saved(td_grad_record *r, td_masks m, td_error *e)
{
    td_call *c = r->c;
    td_saved *s = r->node->saved;
    int rc = 0;
    for (int i = 0; i < c->nin && !rc; i++) {
        if (!input_in(r, m.inputs, i)) continue;
        if (c->in[i].kind == TD_IN_NUMBER) td_save_number(s, c->in[i].number, i);
        else rc = save_input(r, s, i, e);
        s++;
    }
    for (int o = 0; o < c->nout && !rc; o++)
        if (output_in(m.outputs, o)) rc = save_output(r, s++, o, e);
    return rc;
}

static int put_edges(td_grad_record *r, td_error *e)
{
    td_call *c = r->c;
    td_node *n = r->node;
    int rc = 0;
    for (int i = 0; i < c->nin && !rc; i++) {
        n->given[i] = c->in[i].kind != TD_IN_ABSENT;
        if (td_record_wants(r, i)) rc = td_edge_of(c->in[i].tensor, &n->edges[i], e);
    }
    return rc;
}

static int make_node(td_grad_record *r, td_error *e)
{
    td_call *c = r->c;
    td_masks m = r->masks;
    td_node_size z = measure(r, m, true);
    int rc = 0;
    td_node *n = r->node = td_node_new(&z, c->who->account, e);
    if (!n) return e && e->code ? e->code : TD_E_SYSTEM;
    n->op = c->op->id;
    n->session = c->who->session, n->pid = c->who->pid;
    n->where = td_site_new(c->who->where);
    if (z.nattrs) td_attrs_encode(c->op, &c->attrs, n->attrs);
    put_shapes(r, m);
    rc = put_edges(r, e);
    if (!rc) rc = put_saved(r, m, e);
    return rc;
}

/* ---- room for the node, where prepare moves what cannot be moved back */

enum { EDGE_COST = 4 }; /* at most: a leaf's node, or that of a view and what it leads to */

static bool moves(const td_call *c, bool writes)
{
    return writes || c->op->flags & TD_OF_RANDOM || c->op->mutates;
}

/* At most, in objects: the node, what it saves, the nodes that it is the first to need. */
static uint64_t most_room(const td_grad_record *r)
{
    const td_call *c = r->c;
    td_node_size z = measure(r, r->masks, r->writes), slice = {.nin = c->nin + 1, .nout = 1, .nints = TD_MAX_DIMS};
    uint64_t n = td_node_cost(&z) + c->nout + EDGE_COST * (uint64_t)r->nwants;
    for (int o = 0; o < c->nout && r->writes; o++)
        if (c->out[o]->view_base) n += td_node_cost(&slice) + EDGE_COST;
    return n;
}

/* Prepare, when there will be room for the node. */
static int prepare(td_grad_record *r, bool cut, td_need *need, td_error *e)
{
    td_call *c = r->c;
    bool asks = (cut || r->nwants) && moves(c, r->writes);
    uint64_t room = asks ? most_room(r) : 0;
    int rc = room ? td_account_charge(c->who->account, 0, room, e) : 0;
    if (rc) return rc;
    rc = td_ops_prepare(c, need, e);
    if (room) td_account_discharge(c->who->account, 0, room);
    return rc;
}

static bool differentiable(const td_call *c, int o)
{
    const td_op *op = c->op;
    bool list = op->nouts == 1 && op->outs[0].list;
    return !op->outs[list ? 0 : o].nondiff && td_dtype_is_inexact((td_dtype)c->out[o]->desc.dtype);
}

static int attach(td_grad_record *r, td_error *e)
{
    td_call *c = r->c;
    int rc = 0;
    for (int o = 0; o < c->nout && !rc; o++) {
        if (r->writes) rc = td_rebase(c, r->node, e); /* there is one only: check_written */
        else if (differentiable(c, o)) rc = td_set_history(c->out[o], r->node, (uint32_t)o, e);
    }
    return rc;
}

/* Something that requires grad is overwritten by what has none: the value has a history still, which ends here. */
static bool cuts(const td_grad_record *r, td_grad_mode mode)
{
    return mode == TD_GRAD_ON && !r->nwants && r->writes && r->c->nout && td_requires_grad(r->c->out[0]);
}

static bool any_differentiable(const td_call *c)
{
    for (int o = 0; o < c->nout; o++)
        if (differentiable(c, o)) return true;
    return false;
}

static void mark_outputs(const td_call *c, td_grad_mode mode)
{
    bool views = c->op->flags & TD_OF_VIEW;
    bool same = views && !(c->op->flags & TD_OF_NONDIFF);
    td_tensor *x = views ? c->in[0].tensor : NULL;
    for (int o = 0; o < c->nout; o++) {
        td_tensor *t = c->out[o];
        if (mode == TD_GRAD_INFERENCE ? !views || (x->flags & TD_TF_INFERENCE) : views && (x->flags & TD_TF_INFERENCE))
            t->flags |= TD_TF_INFERENCE;
        if (!same || mode == TD_GRAD_INFERENCE || t == x) continue;
        if (!t->view_base) t->view_base = td_tensor_ref(td_root_of(x));
        t->flags |= x->flags & (TD_TF_MULTI_VIEW | TD_TF_NO_GRAD_VIEW | TD_TF_FUNCTION_VIEW);
        if (c->op->flags & TD_OF_MULTI_VIEW) t->flags |= TD_TF_MULTI_VIEW;
        if (mode == TD_GRAD_OFF) t->flags |= TD_TF_NO_GRAD_VIEW;
    }
}

/* Of a call that will not be submitted after all: what it was given is what it was. */
static void drop_outputs(td_call *c)
{
    td_call_unwritten(c);
    for (int o = 0; o < c->nout && !(c->flags & TD_CF_OUT); o++) {
        td_tensor_unref(c->out[o]);
        c->out[o] = NULL;
    }
}

static void done(td_grad_record *r)
{
    td_node_unref(r->node);
    td_tensor_unref(r->kept);
    if (r->many) free(r->many);
}

void td_autograd_issue(td_call *c, td_tensor **out, int *nout)
{
    *nout = c->nout;
    for (int o = 0; o < c->nout; o++) out[o] = c->out[o];
    if (c->flags & TD_CF_VIEW) td_call_free(c);
    else c->who->submit(c->who, c);
}

int td_autograd_prepare(td_call *c, td_grad_mode mode, int max_out, td_need *need, td_error *e)
{
    td_grad_record r = {.c = c};
    td_region *region = c->who->region;
    bool prepared = false;
    int rc = c->nout > max_out ? td_fail(e, TD_E_INVALID, "room for %d outputs, %d wanted", max_out, c->nout) : 0;
    if (!rc) rc = begin(&r, mode, need, e);
    if (!rc && r.writes && c->nout) r.before = c->out[0]->version->value;
    bool cut = !rc && cuts(&r, mode);
    if (!rc && region) rc = td_region_begin(region, c, need, e);
    if (!rc) rc = prepare(&r, cut, need, e);
    if (!rc) {
        prepared = true;
        if (!r.writes) mark_outputs(c, mode);
        if (region) rc = td_region_give(region, c, e);
        if (!rc && (cut || (r.nwants && any_differentiable(c)))) {
            rc = r.writes ? td_write_begin(c, e) : 0;
            if (!rc) rc = make_node(&r, e);
            if (!rc) rc = attach(&r, e);
        }
    }
    if (region) td_region_end(region, c, rc);
    if (!rc && r.node) td_node_note(c->who->noted, r.node);
    if (rc && rc != TD_WAIT_GROW) td_call_error(c, e);
    if (rc && prepared) drop_outputs(c);
    done(&r);
    return rc;
}

int td_autograd_run(td_call *c, td_grad_mode mode, td_tensor **out, int max_out, int *nout, td_need *need, td_error *e)
{
    *nout = 0;
    int rc = td_autograd_prepare(c, mode, max_out, need, e);
    if (!rc) td_autograd_issue(c, out, nout);
    return rc;
}
