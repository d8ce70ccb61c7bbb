/* A tensor op of a program: values become inputs and attributes of a call, which goes the way of every op.
 *
 * One that is made of others (td_op.compose) is taken apart here, by its formula over a builder that issues each; when
 * that has to wait half way, what was made is kept, and given to the formula when it runs once more. */
#include "daemon/graph/run.h"
#include "proto/ops/formula.h"
#include "proto/wire/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how calls end */

static void op_finished(td_call *c)
{
    if (c->cause && c->who->unwritten) c->who->unwritten(c->who, c);
}

static void shape_finished(td_call *c)
{
    td_exec *r = c->owner;
    if (!c->cause && !atomic_load(&c->k.failed)) td_ops_cut_to_count(c);
    op_finished(c);
    r->shaping = false;
    if (r->gone) free(r);
    else r->env.woken(r->env.arg);
}

/* ---- inputs */

static int type_error(const td_op *op, const char *name, const char *want, const td_val *v, td_error *e)
{
    return td_fail(e, TD_E_TYPE, "argument '%s' of %s must be %s, not %s", name, op->name, want, td_val_kind_name(v));
}

int td_exec_may_use(const td_exec *r, const td_tensor *t, bool write, td_error *e)
{
    td_issuer *who = r->who;
    int rc = who->may_touch ? who->may_touch(who, t->storage, write, e) : TD_OK;
    if (rc < 0) return TD_EXEC_BUSY;
    const td_cause *untold = !rc && who->untold ? who->untold(who, t->storage) : NULL;
    if (!untold) return rc;
    *e = untold->error;
    return e->code;
}

static int as_input(const td_exec *r, const td_op *op, const td_param *p, const td_val *v, td_input *in, td_error *e)
{
    switch (v->kind) {
    case TD_T_TENSOR: *in = td_in(v->tensor); return td_exec_may_use(r, v->tensor, p->flags & TD_PF_MUTATED, e);
    case TD_T_NONE:
        *in = td_in(NULL);
        if (p->kind == TD_P_OPTIONAL || p->kind == TD_P_OPTIONAL_LIST) return TD_OK;
        return type_error(op, p->name, "a tensor", v, e);
    default:
        if (p->kind != TD_P_NUMBER || !td_val_is_number(v))
            return type_error(op, p->name, p->kind == TD_P_NUMBER ? "a tensor or a number" : "a tensor", v, e);
        *in = td_in_number(td_val_scalar(v));
        return TD_OK;
    }
}

static bool is_list(const td_param *p)
{
    return p->kind == TD_P_LIST || p->kind == TD_P_OPTIONAL_LIST;
}

static bool is_sequence(const td_val *v)
{
    return v->kind == TD_T_LIST || v->kind == TD_T_TUPLE;
}

/* The next argument of the signature that is an attribute, or is not, from *place on; *place moves behind it. */
static const td_val *next_argument(const td_exec *r, uint32_t node, const td_op *op, bool attr, uint32_t *place)
{
    while ((op->attrs_at >> *place & 1) != attr) ++*place;
    return td_exec_in(r, node, (*place)++ + td_ir_writes_beside(&r->ir->nodes[node], op));
}

/* How many inputs the values come to. */
static int count_inputs(const td_exec *r, uint32_t node, const td_op *op, int *out, td_error *e)
{
    uint32_t place = 0;
    *out = 0;
    for (int p = 0; p < op->nparams; p++) {
        const td_val *v = next_argument(r, node, op, false, &place);
        if (!is_list(&op->params[p])) *out += 1;
        else if (!is_sequence(v)) return type_error(op, op->params[p].name, "a list of tensors", v, e);
        else if (v->box->n > TD_MAX_INPUTS)
            return td_fail(e, TD_E_INVALID, "%s takes at most %d tensors", op->name, TD_MAX_INPUTS);
        else *out += (int)v->box->n;
    }
    return TD_OK;
}

static int take_inputs(const td_exec *r, uint32_t node, const td_op *op, td_input *in, td_error *e)
{
    int n = 0, rc = TD_OK;
    uint32_t place = 0;
    for (int p = 0; p < op->nparams && !rc; p++) {
        const td_val *v = next_argument(r, node, op, false, &place);
        if (!is_list(&op->params[p])) {
            rc = as_input(r, op, &op->params[p], v, &in[n++], e);
            continue;
        }
        for (uint32_t k = 0; k < v->box->n && !rc; k++)
            rc = as_input(r, op, &op->params[p], &v->box->items[k], &in[n++], e);
    }
    return rc;
}

/* ---- attributes */

static int no_room(const td_op *op, td_error *e)
{
    return td_fail(e, TD_E_INVALID, "%s takes at most %d integers in lists", op->name, TD_MAX_INTS);
}

static int push_ints(td_attrs *a, const td_op *op, const char *name, const td_val *v, td_error *e)
{
    int64_t ints[TD_MAX_INTS];
    if (v->kind == TD_T_INT) return td_attrs_ints(a, 1, &v->i) ? TD_OK : no_room(op, e);
    if (!is_sequence(v)) return type_error(op, name, "a list of ints", v, e);
    if (v->box->n > TD_MAX_INTS) return no_room(op, e);
    for (uint32_t k = 0; k < v->box->n; k++) {
        const td_val *x = &v->box->items[k];
        if (x->kind != TD_T_INT) return type_error(op, name, "a list of ints", x, e);
        ints[k] = x->i;
    }
    return td_attrs_ints(a, (int)v->box->n, ints) ? TD_OK : no_room(op, e);
}

static int push_text(td_attrs *a, const td_op *op, const char *name, const td_val *v, td_error *e)
{
    if (td_attrs_text(a, v->box->chars, v->box->n)) return TD_OK;
    return td_fail(e, TD_E_INVALID, "'%s' of %s has at most %d characters, none of them 0", name, op->name,
                   TD_MAX_TEXT);
}

static int push_attr(td_attrs *a, const td_op *op, const td_attr_def *d, const td_val *v, td_error *e)
{
    static const char *const wants[] = {[TD_A_INT] = "an int",      [TD_A_FLOAT] = "a float", [TD_A_BOOL] = "a bool",
                                        [TD_A_SCALAR] = "a number", [TD_A_DTYPE] = "a dtype", [TD_A_TEXT] = "a text"};
    bool whole = v->kind == TD_T_INT || v->kind == TD_T_BOOL;
    if (v->kind == TD_T_NONE && d->optional) return td_attrs_none(a) ? TD_OK : no_room(op, e);
    if (d->kind == TD_A_INTS) return push_ints(a, op, d->name, v, e);
    if (d->kind == TD_A_TEXT && v->kind == TD_T_STR) return push_text(a, op, d->name, v, e);
    bool done = false;
    if (d->kind == TD_A_INT && whole) done = td_attrs_int(a, v->i);
    else if (d->kind == TD_A_FLOAT && v->kind == TD_T_FLOAT) done = td_attrs_float(a, v->re);
    else if (d->kind == TD_A_FLOAT && whole) done = td_attrs_float(a, (double)v->i);
    else if (d->kind == TD_A_BOOL && whole) done = td_attrs_bool(a, v->i != 0);
    else if (d->kind == TD_A_SCALAR && td_val_is_number(v)) done = td_attrs_scalar(a, td_val_scalar(v));
    else if (d->kind == TD_A_DTYPE && v->kind == TD_T_DTYPE) done = td_attrs_dtype(a, (td_dtype)v->i);
    return done ? TD_OK : type_error(op, d->name, wants[d->kind], v, e);
}

static int take_attrs(const td_exec *r, uint32_t node, const td_op *op, td_attrs *a, td_error *e)
{
    int rc = TD_OK;
    uint32_t place = 0;
    for (int k = 0; k < op->nattrs && !rc; k++)
        rc = push_attr(a, op, &op->attrs[k], next_argument(r, node, op, true, &place), e);
    return rc;
}

/* ---- one call */

/* What is made is declared to be written by several at once, as a record's results are. */
static void declare_racy(const td_exec *r, uint32_t node, int n)
{
    if (!((r->ir->nodes[node].mode | r->mode) & TD_RM_RACY)) return;
    for (int k = 0; k < n; k++) r->outs[k]->storage->flags |= TD_SF_RACY;
}

static int room_for_outs(td_exec *r, int n, td_error *e)
{
    if (n <= r->max_outs) return TD_OK;
    td_tensor **outs = realloc(r->outs, ((size_t)n + 1) * sizeof *outs);
    if (!outs) return td_no_memory(e, "for %d results of an op", n);
    r->outs = outs;
    r->max_outs = n;
    return TD_OK;
}

static int most_outs(const td_op *op)
{
    for (int k = 0; k < op->nouts; k++)
        if (op->outs[k].list) return TD_MAX_OUTPUTS;
    return op->nouts;
}

/* Issue a call that has its inputs and attributes; results are in r->outs. The call is gone. */
static int issue(td_exec *r, uint32_t node, td_call *c, int *nout, td_need *need, td_error *e)
{
    uint32_t mode = r->ir->nodes[node].mode;
    bool shaped = c->op->flags & TD_OF_DATA_SHAPE;
    if (mode & TD_RM_SERVICE) c->flags |= TD_CF_SERVICE;
    c->flags |= td_call_on(mode >> TD_RM_DEVICE & (TD_MAX_DEVICES - 1));
    c->finished = shaped ? shape_finished : op_finished;
    c->owner = r;
    r->shaping = shaped;
    r->issued++;
    r->listed += c->nin;
    bool makes = !(c->flags & TD_CF_OUT || c->op->flags & TD_OF_VIEW);
    int rc = td_autograd_prepare(c, td_exec_mode(r, node), r->max_outs, need, e);
    if (!rc) {
        if (r->planning) td_plan_saw(r, node, c);
        td_autograd_issue(c, r->outs, nout);
        r->listed += *nout;
        if (makes) declare_racy(r, node, *nout);
        return TD_OK;
    }
    r->shaping = false;
    r->lacks = td_need_may_pass(rc);
    td_call_free(c);
    return rc;
}

/* In place: the first of the node's arguments is written, be it the op's or another. */
static int set_written(td_exec *r, uint32_t node, td_call *c, td_error *e)
{
    const td_val *v = td_exec_in(r, node, 0);
    if (v->kind != TD_T_TENSOR)
        return td_fail(e, TD_E_TYPE, "%s_ writes its first argument, which is no tensor", c->op->name);
    c->flags |= TD_CF_OUT;
    c->nout = 1;
    c->out[0] = v->tensor;
    return td_exec_may_use(r, v->tensor, true, e);
}

static int run_plain(td_exec *r, uint32_t node, const td_op *op, int *nout, td_need *need, td_error *e)
{
    int nin, most = most_outs(op), rc = count_inputs(r, node, op, &nin, e);
    if (!rc) rc = room_for_outs(r, most, e);
    td_call *c = rc ? NULL : td_call_new(op, r->who, nin, most, e);
    if (!c) return e->code;
    rc = take_inputs(r, node, op, c->in, e);
    if (!rc) rc = take_attrs(r, node, op, &c->attrs, e);
    if (!rc && r->ir->nodes[node].op & TD_IR_INPLACE) rc = set_written(r, node, c, e);
    if (!rc) return issue(r, node, c, nout, need, e);
    td_call_free(c);
    return rc;
}

/* ---- ops that are made of others */

void td_parts_drop(td_parts *p)
{
    for (uint32_t k = 0; k < p->nmade; k++) td_tensor_unref(p->made[k]);
    p->nmade = p->ncalls = 0;
}

void td_parts_free(td_parts *p)
{
    td_parts_drop(p);
    free(p->made);
    free(p->ends);
    *p = (td_parts){0};
}

static bool parts_room(td_parts *p, int n)
{
    if (p->ncalls == p->room_calls) {
        uint32_t room = p->room_calls ? 2 * p->room_calls : 16;
        uint32_t *ends = realloc(p->ends, room * sizeof *ends);
        if (!ends) return false;
        p->ends = ends, p->room_calls = room;
    }
    if (p->nmade + (uint32_t)n > p->room_made) {
        uint32_t room = 2 * p->room_made + (uint32_t)n;
        td_tensor **made = realloc(p->made, room * sizeof *made);
        if (!made) return false;
        p->made = made, p->room_made = room;
    }
    return true;
}

/* What the builder works on. */
typedef struct taking_apart {
    td_exec *r;
    uint32_t node, given; /* calls that were made before, and are given again */
    td_need *need;
    const td_op *op;
    const td_input *in;
    int nin, nout;
    const td_attrs *attrs;
    td_fval *out;
} taking_apart;

static bool gave(taking_apart *t, td_fx *f, int room, td_fval *out)
{
    const td_parts *p = &t->r->parts;
    if (t->given >= p->ncalls) return false;
    uint32_t from = t->given ? p->ends[t->given - 1] : 0, to = p->ends[t->given++];
    if (to - from > (uint32_t)room) to = from + (uint32_t)room; /* never, as the same formula asks again */
    for (uint32_t k = from; k < to; k++) out[k - from] = (td_fval){TD_F_TENSOR, {p->made[k]}};
    f->nmade = (int)(to - from);
    return true;
}

static int build_op(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout,
                    td_fval *out)
{
    taking_apart *t = f->arg;
    td_exec *r = t->r;
    td_parts *p = &r->parts;
    int n = 0, room = nout < 0 ? -nout : nout;
    if (gave(t, f, room, out)) return TD_OK;
    if (!parts_room(p, room)) return td_no_memory(f->error, "for what %s makes on its way", t->op->name);
    int rc = room_for_outs(r, room, f->error);
    td_call *c = rc ? NULL : td_call_new(op, r->who, nin, room, f->error);
    if (!c) return f->error->code;
    for (int k = 0; k < nin; k++) {
        if (in[k].kind == TD_F_NUMBER) c->in[k] = td_in_number(*in[k].number);
        else c->in[k] = td_in(in[k].kind ? in[k].ref : NULL);
    }
    td_attrs_copy(&c->attrs, attrs);
    rc = issue(r, t->node, c, &n, t->need, f->error);
    if (rc) return rc;
    for (int k = 0; k < n; k++) out[k] = (td_fval){TD_F_TENSOR, {p->made[p->nmade++] = r->outs[k]}};
    p->ends[p->ncalls++] = p->nmade;
    t->given = p->ncalls;
    f->nmade = n;
    return r->shaping ? TD_EXEC_PART : TD_OK;
}

static void build_meta(td_fx *f, const td_fval *v, td_fmeta *m)
{
    (void)f;
    *m = td_fmeta_of(&((td_tensor *)v->ref)->desc);
}

static int take_apart(td_fx *f, void *arg)
{
    taking_apart *t = arg;
    td_fval *in = td_fx_values(f, t->nin);
    for (int k = 0; k < t->nin; k++) {
        in[k] = td_fv_none();
        if (t->in[k].kind == TD_IN_TENSOR) in[k] = (td_fval){TD_F_TENSOR, {t->in[k].tensor}};
        else if (t->in[k].kind == TD_IN_NUMBER) in[k] = td_fv_at(&t->in[k].number);
    }
    return td_fx_make(f, t->op, t->nin, in, t->attrs, t->r->max_outs, t->out, &t->nout);
}

/* As run_plain: new references in r->outs. */
static int run_made(td_exec *r, uint32_t node, const td_op *op, int *nout, td_need *need, td_error *e)
{
    int nin, most = most_outs(op), rc = count_inputs(r, node, op, &nin, e);
    if (!rc) rc = room_for_outs(r, most, e);
    if (rc) return rc;
    td_input *in = malloc(((size_t)nin + 1) * sizeof *in);
    td_fval *out = malloc(((size_t)r->max_outs + 1) * sizeof *out);
    td_attrs attrs;
    td_attrs_init(&attrs);
    rc = in && out ? take_inputs(r, node, op, in, e) : td_no_memory(e, "for a call of %s", op->name);
    if (!rc) rc = take_attrs(r, node, op, &attrs, e);
    if (!rc) {
        taking_apart t = {r, node, 0, need, op, in, nin, 0, &attrs, out};
        td_fx f;
        td_fx_init(&f);
        f.op = build_op, f.meta = build_meta, f.arg = &t, f.error = e, f.of = op;
        f.create_graph = td_exec_mode(r, node) == TD_GRAD_ON;
        rc = td_fx_guard(&f, take_apart, &t);
        td_fx_deinit(&f);
        for (int k = 0; k < t.nout && !rc; k++) r->outs[k] = td_tensor_ref(out[k].ref);
        *nout = t.nout;
    }
    free(in);
    free(out);
    if (rc >= 0 && !r->lacks) td_parts_drop(&r->parts);
    return rc;
}

/* ---- */

void td_exec_set_place(td_exec *r, uint32_t node)
{
    uint32_t at = r->ir->nodes[node].source;
    if (at == r->source) return;
    r->source = at;
    td_place_text *p = &r->places[at % TD_EXEC_PLACES];
    if (p->next != (uint64_t)at + 1) {
        td_exec_place(r, node, p->text, sizeof p->text);
        p->next = (uint64_t)at + 1;
    }
    memcpy(r->who->where, p->text, sizeof p->text);
}

/* A list of tensors is one value. */
static int bind_list(td_exec *r, uint32_t node, int nout, td_error *e)
{
    td_val *v = td_exec_out(r, node, 0);
    int rc = td_val_box(&r->purse, TD_T_LIST, (uint32_t)nout, v, e);
    for (int k = 0; k < nout; k++) {
        if (rc) td_tensor_unref(r->outs[k]);
        else v->box->items[k] = td_val_tensor(r->outs[k]);
    }
    return rc;
}

static int bind(td_exec *r, uint32_t node, const td_op *op, int nout, td_error *e)
{
    const td_ir_node *x = &r->ir->nodes[node];
    if (x->op & TD_IR_INPLACE) {
        if (x->nout) *td_exec_out(r, node, 0) = td_val_ref(*td_exec_in(r, node, 0));
        return TD_OK;
    }
    if (op->nouts && op->outs[0].list) return bind_list(r, node, nout, e);
    for (int k = 0; k < nout; k++) {
        if ((uint32_t)k < x->nout) *td_exec_out(r, node, (uint32_t)k) = td_val_tensor(r->outs[k]);
        else td_tensor_unref(r->outs[k]);
    }
    return TD_OK;
}

int td_exec_op(td_exec *r, uint32_t node, td_need *need, td_error *e)
{
    const td_op *op = td_ir_row(r->ir->nodes[node].op);
    int nout = 0;
    td_exec_set_place(r, node);
    int rc = op->compose ? run_made(r, node, op, &nout, need, e) : run_plain(r, node, op, &nout, need, e);
    if (!rc) rc = bind(r, node, op, nout, e);
    if (!rc && r->shaping) return TD_EXEC_SHAPED;
    if (rc > 0 && !e->op[0]) snprintf(e->op, sizeof e->op, "%s", op->name);
    return rc;
}
