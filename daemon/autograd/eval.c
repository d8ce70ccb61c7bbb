/* Evaluating one node's gradients eagerly: the builder behind td_fx that issues each op at once.
 *
 * Everything a formula makes belongs to the evaluation and goes when the node is done; what is delivered gets a
 * reference of its own. With create_graph ops are recorded like anybody else's. A tensor made here by an op that is no
 * view is marked fresh: nobody else holds its bytes, so it may be added into or become a .grad. */
#include "daemon/autograd/backward.h"
#include "daemon/ops/fused.h"
#include "proto/ops/opid.h"
#include <stdlib.h>
#include <string.h>

void td_eval_clear(td_eval *v)
{
    for (int k = 0; k < v->ntemps; k++) td_tensor_unref(v->temps[k]);
    v->ntemps = v->at = 0;
}

int td_eval_failed(td_eval *v, int rc)
{
    v->lacks = v->need && td_need_may_pass(rc);
    return rc;
}

void td_eval_deinit(td_eval *v)
{
    td_eval_clear(v);
    free(v->temps);
    v->temps = NULL;
    v->room = 0;
}

/* The next op was run already, when the evaluation was begun before: *out is what it gave. */
static bool gave(td_eval *v, int nout, td_tensor **out)
{
    if (v->at == v->ntemps) return false;
    for (int o = 0; o < nout; o++) out[o] = v->temps[v->at++];
    return true;
}

static int keep(td_eval *v, td_tensor *t, td_error *e)
{
    if (v->ntemps == v->room) {
        int room = v->room ? 2 * v->room : 16;
        td_tensor **more = realloc(v->temps, (size_t)room * sizeof *more);
        if (!more) {
            td_tensor_unref(t);
            return td_no_memory(e, "for a gradient");
        }
        v->temps = more;
        v->room = room;
    }
    v->temps[v->ntemps++] = t;
    v->at = v->ntemps;
    return 0;
}

static int record(td_eval *v, const td_op *op, int nin, const td_input *in, const td_attrs *attrs, uint32_t flags,
                  int nout, td_tensor **out, td_error *e)
{
    td_call *c = td_call_new(op, v->who, nin, nout, e);
    if (!c) return e && e->code ? e->code : TD_E_SYSTEM;
    for (int i = 0; i < nin; i++) c->in[i] = in[i];
    c->flags = flags;
    for (int o = 0; o < nout && (flags & TD_CF_OUT); o++) c->out[o] = out[o];
    int rc = 0, n;
    if (attrs) td_attrs_copy(&c->attrs, attrs);
    else rc = td_attrs_decode(op, NULL, 0, &c->attrs, e);
    if (!rc) rc = td_autograd_run(c, TD_GRAD_ON, out, nout, &n, v->need, e);
    if (rc) td_call_free(c);
    return rc;
}

/* One that a row will come to again. */
static int run_seen(td_eval *v, const td_op *op, int nin, const td_input *in, const td_attrs *attrs, uint32_t flags,
                    int nout, td_tensor **out, td_error *e)
{
    td_call *c = td_call_new(op, v->who, nin, nout, e);
    if (!c) return e && e->code ? e->code : TD_E_SYSTEM;
    for (int i = 0; i < nin; i++) c->in[i] = in[i];
    c->flags = flags;
    int rc = 0;
    if (attrs) td_attrs_copy(&c->attrs, attrs);
    else rc = td_attrs_decode(op, NULL, 0, &c->attrs, e);
    if (!rc) rc = td_ops_prepare(c, v->need, e);
    for (int o = 0; o < nout; o++) out[o] = !rc && o < c->nout ? c->out[o] : NULL;
    if (!rc) td_recording_call(v->recording, c, "");
    if (rc || (c->flags & TD_CF_VIEW)) td_call_free(c);
    else c->who->submit(c->who, c);
    return rc;
}

static void mark_fresh(const td_op *op, const td_input *in, int nout, td_tensor **out)
{
    if (op->flags & TD_OF_VIEW) {
        in[0].tensor->flags &= ~TD_TF_FRESH;
        return;
    }
    for (int o = 0; o < nout; o++)
        if (out[o]) out[o]->flags |= TD_TF_FRESH;
}

int td_eval_op(td_eval *v, unsigned id, int nin, const td_input *in, const td_attrs *attrs, int nout, td_tensor **out,
               td_error *e)
{
    const td_op *op = td_op_by_id(id);
    if (gave(v, nout, out)) return 0;
    for (int o = 0; o < nout; o++) out[o] = NULL;
    uint32_t flags = op->flags & TD_OF_CREATION ? td_call_on(v->device) : 0;
    int rc = v->create_graph ? record(v, op, nin, in, attrs, flags, nout, out, e)
             : v->recording  ? run_seen(v, op, nin, in, attrs, flags, nout, out, e)
                             : td_ops_try(v->who, id, nin, in, attrs, flags, nout, out, v->need, e);
    if (rc) return td_eval_failed(v, rc);
    if (!v->create_graph) mark_fresh(op, in, nout, out);
    for (int o = 0; o < nout; o++)
        if (!rc) rc = keep(v, out[o], e);
        else td_tensor_unref(out[o]);
    return rc;
}

int td_eval_into(td_eval *v, unsigned id, int nin, const td_input *in, const td_attrs *attrs, td_tensor *dst,
                 td_error *e)
{
    td_tensor *nothing;
    if (gave(v, 1, &nothing)) return 0;
    int rc = v->create_graph ? record(v, td_op_by_id(id), nin, in, attrs, TD_CF_OUT, 1, &dst, e)
                             : td_ops_try(v->who, id, nin, in, attrs, TD_CF_OUT, 1, &dst, v->need, e);
    return rc ? td_eval_failed(v, rc) : keep(v, NULL, e);
}

/* ---- the builder */

static td_fval as_value(td_tensor *t)
{
    td_fval v = {t ? TD_F_TENSOR : TD_F_NONE, {t}};
    return v;
}

static td_input as_input(const td_fval *v)
{
    if (v->kind == TD_F_NUMBER) return td_in_number(*v->number);
    return td_in(v->kind ? v->ref : NULL);
}

static int build_op(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout,
                    td_fval *out)
{
    td_input few[8], *inputs = nin <= 8 ? few : td_fx_alloc(f, (size_t)nin * sizeof *inputs);
    td_tensor *made[8];
    if (nout > 8) return td_fail(f->error, TD_E_INTERNAL, "%s has more outputs than a formula takes", op->name);
    for (int i = 0; i < nin; i++) inputs[i] = as_input(&in[i]);
    int rc = td_eval_op(f->arg, op->id, nin, inputs, attrs, nout, made, f->error);
    for (int o = 0; o < nout && !rc; o++) out[o] = as_value(made[o]);
    return rc;
}

static void build_meta(td_fx *f, const td_fval *v, td_fmeta *m)
{
    (void)f;
    *m = td_fmeta_of(&((td_tensor *)v->ref)->desc);
}

td_fmeta td_node_meta(const td_node *n, const td_shape *s)
{
    const int64_t *at = n->ints + s->at;
    td_fmeta m = {.dtype = s->dtype, .ndim = s->ndim, .device = s->device, .shape = at};
    if (s->strided) m.stride = at + s->ndim, m.offset = at[2 * s->ndim];
    return m;
}

/* ---- one node */

/* The op of a write on a view is no node of the graph by itself: what it gave is the view of what the write made of the
 * base. So a backward comes to what is saved there by one way only, and lets go of it once. */
static int slice_history(td_tensor *out, td_node *slice, td_error *e)
{
    td_node *n;
    int rc = td_view_node(out, &slice->slice->base, (td_edge){td_node_ref(slice), 0}, &n, e);
    if (rc) return rc;
    rc = td_set_history(out, n, 0, e);
    td_node_unref(n);
    return rc;
}

/* A saved output with its place in the graph, for gradients of gradients. */
static int output_handle(td_eval *v, td_node *n, const td_saved *s, td_tensor **out, td_error *e)
{
    const td_op *op = td_op_by_id(n->op);
    if (!v->create_graph || op->outs[s->index].nondiff || !td_dtype_is_inexact((td_dtype)s->tensor->desc.dtype)) {
        *out = s->tensor;
        return 0;
    }
    if (gave(v, 1, out)) return 0;
    int rc = td_tensor_view(out, s->tensor, &s->tensor->desc, s->tensor->account, e);
    if (rc) return rc;
    rc = v->slice ? slice_history(*out, v->slice, e) : td_set_history(*out, n, s->index, e);
    if (!rc) return keep(v, *out, e);
    td_tensor_unref(*out);
    return rc;
}

/* Of what is made again the node has no handle: it gets one, with the history that the input had. */
static int input_handle(td_eval *v, const td_node *n, const td_saved *s, td_tensor **out, td_error *e)
{
    const td_edge *edge = &n->edges[s->index];
    *out = s->tensor;
    if (!v->create_graph || !edge->node || gave(v, 1, out)) return 0;
    int rc = td_tensor_view(out, s->tensor, &s->tensor->desc, s->tensor->account, e);
    if (rc) return rc;
    rc = td_set_history(*out, edge->node, edge->nr, e);
    if (!rc) return keep(v, *out, e);
    td_tensor_unref(*out);
    return rc;
}

static int unpacked(td_eval *v, td_node *n, int k, td_tensor **out, td_error *e)
{
    if (gave(v, 1, out)) return 0;
    int rc = td_unpacked(v->of, n, k, v->create_graph, out, e);
    return rc ? rc : keep(v, *out, e);
}

/* What the wanted gradients use, by parameter: the rest may be overwritten, or freed, without anybody minding. */
static td_masks used(const td_node *n, const bool *want)
{
    const td_op *op = td_op_by_id(n->op);
    const td_formula *f = td_formula_of(op);
    td_masks m = {0};
    for (int i = 0; i < n->nin; i++) {
        if (!want[i]) continue;
        const td_fsaves *s = &f->saves[td_op_param_of(op, n->nin, i)];
        m.inputs |= s->inputs, m.outputs |= s->outputs;
    }
    return m;
}

/* Versions are looked at again: turns may have passed since the walk. */
static int unpack(td_eval *v, td_node *n, td_masks m, td_fval *in, td_fval *out, td_error *e)
{
    const td_op *op = td_op_by_id(n->op);
    int rc = 0;
    for (int k = 0; k < n->nsaved && !rc; k++) {
        const td_saved *s = &n->saved[k];
        int p = s->output ? s->index : td_op_param_of(op, n->nin, s->index);
        if (s->kind == TD_SV_NUMBER) in[s->index] = td_fv_at(&s->number);
        if (s->kind == TD_SV_NONE || s->kind == TD_SV_NUMBER) continue;
        if (!((s->output ? m.outputs : m.inputs) >> p & 1)) continue;
        td_saved made;
        if (s->kind == TD_SV_PACKED) {
            td_tensor *t;
            rc = unpacked(v, n, k, &t, e);
            if (!rc) (s->output ? out : in)[s->index] = as_value(t);
            continue;
        }
        bool again = s->kind == TD_SV_AGAIN;
        rc = td_remade_saved(v->of, s, &made, e);
        if (!rc) rc = td_saved_check(n, s = &made, e);
        td_tensor *t = rc ? NULL : s->tensor;
        if (!rc && s->output) rc = output_handle(v, n, s, &t, e);
        else if (!rc && again) rc = input_handle(v, n, s, &t, e);
        if (!rc) (s->output ? out : in)[s->index] = as_value(t);
    }
    return rc;
}

static td_dtype gradient_dtype(const td_node *n, td_tensor *const *g)
{
    for (int o = 0; o < n->nout; o++)
        if (g[o]) return (td_dtype)g[o]->desc.dtype;
    return TD_FLOAT32;
}

/* A node whose gradients are wanted. */
typedef struct asked {
    td_eval *v;
    td_node *node;
    td_tensor *const *g;
    td_attrs *attrs;
} asked;

/* Fill f for the node; the arrays live in f. */
static int open_fx(td_fx *f, asked *a)
{
    const td_node *n = a->node;
    td_fval *in = td_fx_values(f, n->nin), *out = td_fx_values(f, n->nout), *gs = td_fx_values(f, n->nout);
    td_fmeta *in_meta = td_fx_alloc(f, (size_t)n->nin * sizeof *in_meta);
    td_fmeta *out_meta = td_fx_alloc(f, (size_t)n->nout * sizeof *out_meta);
    memset(in_meta, 0, (size_t)n->nin * sizeof *in_meta);
    for (int i = 0; n->shapes && i < n->nin; i++)
        if (n->shapes[i].strided) in_meta[i] = td_node_meta(n, &n->shapes[i]);
    for (int o = 0; o < n->nout; o++) {
        out_meta[o] = td_node_meta(n, &n->outs[o]);
        gs[o] = as_value(a->g[o]);
    }
    f->in = in, f->out = out, f->g = gs, f->in_meta = in_meta, f->out_meta = out_meta;
    f->result = td_fx_values(f, n->nin);
    a->attrs->count = a->attrs->nints = 0;
    f->attrs = a->attrs;
    int rc = f->of->nattrs ? td_attrs_decode(f->of, n->attrs, n->nattrs, a->attrs, f->error) : 0;
    return rc ? rc : unpack(a->v, a->node, used(n, f->want), in, out, f->error);
}

static int run_fx(td_fx *f, void *arg)
{
    int rc = open_fx(f, arg);
    return rc ? rc : td_gradient_run(f);
}

static int missing(td_node *n, const bool *want, td_error *e)
{
    const td_op *op = td_op_by_id(n->op);
    const td_formula *f = td_formula_of(op);
    for (int i = 0; i < n->nin; i++) {
        int p = td_op_param_of(op, n->nin, i);
        if (want[i] && (!f || !f->saves[p].exists))
            return td_fail(e, TD_E_AUTOGRAD, "the derivative for '%s: %s' is not implemented", op->name,
                           op->params[p].name);
    }
    return 0;
}

/* Where the gradient of input i goes: shape and dtype that it must have. */
static td_fmeta target(const td_edge *edge, bool *open)
{
    const td_shape *s = &edge->node->outs[edge->nr];
    *open = s->open;
    return td_node_meta(edge->node, s);
}

static int deliver(td_eval *v, td_fx *f, const td_edge *edges, const bool *want, int i, td_tensor **result, td_error *e)
{
    bool open;
    if (!want[i] || f->result[i].kind == TD_F_NONE) return 0;
    td_fmeta to = target(&edges[i], &open);
    int rc = td_eval_conform(v, f->of, f->result[i], &to, open, &result[i], e);
    if (!rc && result[i]) td_tensor_ref(result[i]);
    return rc;
}

/* A tensor that goes to two places belongs to neither alone. */
static void mark_shared(int n, td_tensor **result)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i && result[i]; j++)
            if (result[i] == result[j]) result[i]->flags &= ~TD_TF_FRESH;
}

static int run_op(td_eval *v, td_node *n, td_tensor *const *g, const bool *want, td_tensor **result, td_error *e)
{
    td_fx f;
    td_attrs attrs;
    asked a = {v, n, g, &attrs};
    int rc = missing(n, want, e);
    if (rc) return rc;
    td_fx_init(&f);
    f.op = build_op, f.meta = build_meta, f.arg = v, f.create_graph = v->create_graph;
    f.of = td_op_by_id(n->op);
    f.nin = n->nin, f.nout = n->nout;
    f.given = n->given, f.want = want;
    f.error = e;
    v->device = n->nout ? n->outs[0].device : TD_CPU;
    f.dtype = gradient_dtype(n, g);
    rc = td_fx_guard(&f, run_fx, &a);
    for (int i = 0; i < n->nin && !rc; i++) rc = deliver(v, &f, n->edges, want, i, result, e);
    if (n->nin <= 64) mark_shared(n->nin, result);
    else
        for (int i = 0; i < n->nin; i++)
            if (result[i]) result[i]->flags &= ~TD_TF_FRESH;
    td_fx_deinit(&f);
    return rc;
}

/* ---- in place on a view */

/* A copy of g that lies in memory as the base does. */
static int copy_like_base(td_eval *v, const td_desc *base, td_tensor *g, td_tensor **out, td_error *e)
{
    td_input in = td_in(g);
    if (td_desc_is_contiguous(base)) return td_eval_op(v, TD_OP_COPY, 1, &in, NULL, 1, out, e);
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, base->ndim, base->shape);
    td_attrs_ints(&a, base->ndim, base->stride);
    td_attrs_dtype(&a, (td_dtype)g->desc.dtype);
    v->device = g->desc.device;
    int rc = td_eval_op(v, TD_OP_EMPTY_STRIDED, 0, NULL, &a, 1, out, e);
    return rc ? rc : td_eval_into(v, TD_OP_COPY, 1, &in, NULL, *out, e);
}

static int fill_zero(td_eval *v, td_tensor *t, td_error *e)
{
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, t->desc.ndim, t->desc.shape);
    td_attrs_scalar(&a, td_int(0));
    td_attrs_dtype(&a, (td_dtype)t->desc.dtype);
    return td_eval_into(v, TD_OP_FULL, 0, NULL, &a, t, e);
}

/* The op's own gradients, those of a view whose gradient is gv. */
static int run_inner(td_eval *v, td_node *inner, td_tensor *gv, const bool *want, td_tensor **result, td_error *e)
{
    td_input in = td_in(gv);
    td_tensor *g;
    bool any = false;
    for (int i = 0; i < inner->nin; i++) any |= want[i];
    if (!any) return 0;
    int rc = td_eval_op(v, TD_OP_COPY, 1, &in, NULL, 1, &g, e);
    return rc ? rc : run_op(v, inner, &g, want, result, e);
}

/* All of it was overwritten: nothing comes of what was there. */
static int run_whole(td_eval *v, td_node *n, td_tensor *const *g, const bool *want, td_tensor **result, td_error *e)
{
    td_node *inner = n->slice->inner;
    td_tensor *none;
    td_attrs a;
    td_attrs_init(&a);
    td_attrs_ints(&a, g[0]->desc.ndim, g[0]->desc.shape);
    td_attrs_scalar(&a, td_int(0));
    td_attrs_dtype(&a, (td_dtype)g[0]->desc.dtype);
    v->device = g[0]->desc.device;
    int rc = want[0] ? td_eval_op(v, TD_OP_FULL, 0, NULL, &a, 1, &none, e) : 0;
    if (!rc) rc = run_inner(v, inner, g[0], want + 1, result + 1, e);
    if (!rc && want[0]) result[0] = td_tensor_ref(none);
    return rc;
}

static int run_slice(td_eval *v, td_node *n, td_tensor *const *g, const bool *want, td_tensor **result, td_error *e)
{
    const td_slice *s = n->slice;
    td_node *inner = s->inner;
    bool reads = !td_op_replaces(td_op_by_id(inner->op)); /* the view that it writes */
    bool *wants = calloc((size_t)inner->nin + 1, sizeof *wants);
    td_tensor **made = calloc((size_t)inner->nin + 1, sizeof *made), *all, *part;
    int rc = wants && made ? 0 : td_no_memory(e, "for a gradient");
    for (int i = 0; i < inner->nin && !rc; i++)
        wants[i] = i == 0 && reads ? want[0] && inner->edges[0].node : want[1 + i];
    if (!rc) rc = copy_like_base(v, &s->base, g[0], &all, e);
    if (!rc) rc = td_view_of(v, all, &s->base, &s->view, &part, e);
    if (!rc) rc = run_inner(v, inner, part, wants, made, e);
    if (!rc && want[0]) {
        td_input own = td_in(reads ? made[0] : NULL);
        rc = own.tensor ? td_eval_into(v, TD_OP_COPY, 1, &own, NULL, part, e) : fill_zero(v, part, e);
        if (!rc) result[0] = td_tensor_ref(all);
    }
    for (int i = 0; made && i < inner->nin; i++) {
        if (!rc && !(i == 0 && reads)) result[1 + i] = made[i];
        else td_tensor_unref(made[i]);
    }
    free(wants);
    free(made);
    return rc;
}

int td_eval_node(td_eval *v, td_node *n, td_tensor *const *g, const bool *want, td_tensor **result, td_error *e)
{
    memset(result, 0, n->nin * sizeof *result);
    int rc;
    v->slice = n->kind == TD_N_SLICE ? n : NULL;
    if (!v->slice) rc = run_op(v, n, g, want, result, e);
    else rc = n->slice->whole ? run_whole(v, n, g, want, result, e) : run_slice(v, n, g, want, result, e);
    for (int i = 0; i < n->nin && rc; i++) {
        td_tensor_unref(result[i]);
        result[i] = NULL;
    }
    return rc;
}
