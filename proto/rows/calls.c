/* td:: ops: a node's values become a call for each number of rows; one that is made of others is taken apart by its
 * formula, once for each, which must ask for the same ops in the same order. */
#include "proto/ops/formula.h"
#include "proto/rows/parts.h"
#include "proto/wire/record.h"

#include <stddef.h>
#include <string.h>

/* ---- one op */

typedef struct one_call {
    const td_op *op;
    int nin;
    td_fval *in; /* .ref: a td_rtensor */
    td_attrs *attrs;
    uint8_t device;
} one_call;

static int infer(td_rwalk *w, const one_call *c, int look, int room, td_error *e)
{
    td_rows_step(w, (uint64_t)c->nin / 8);
    td_operand *in = td_rows_alloc(w, (size_t)c->nin * sizeof *in);
    for (int k = 0; k < c->nin; k++) {
        if (c->in[k].kind == TD_F_TENSOR) in[k].desc = &((td_rtensor *)c->in[k].ref)->look[look];
        if (c->in[k].kind == TD_F_NUMBER) in[k].scalar = c->in[k].number;
    }
    td_inference f = {.op = c->op, .in = in, .nin = c->nin, .attrs = c->attrs, .out = w->made, .max_out = room};
    if (c->op->flags & TD_OF_CREATION) f.device = c->device;
    return td_op_infer(&f, e) ? -1 : f.nout;
}

static int room_of(const td_op *op)
{
    for (int k = 0; k < op->nouts; k++)
        if (op->outs[k].list) return TD_MAX_OUTPUTS;
    return op->nouts;
}

static void apply_rule(td_rwalk *w, const one_call *few, const one_call *many, int nout, td_rtensor **out)
{
    td_rtensor **in = td_rows_alloc(w, (size_t)few->nin * sizeof(td_rtensor *));
    for (int k = 0; k < few->nin; k++) in[k] = few->in[k].kind == TD_F_TENSOR ? few->in[k].ref : NULL;
    td_rcall c = {few->op, few->nin, nout, in, {few->attrs, many->attrs}, out};
    td_rows_rule(w, &c);
}

/* ---- ops that are made of others */

typedef struct part { /* an op that a formula asked for */
    struct part *next;
    one_call call;
    int nout;
    td_rtensor **out;
} part;

typedef struct taking {
    td_rwalk *w;
    int look;
    part *first, *last; /* of the first time; `last` of the second: what is next */
    uint8_t device;
} taking;

static bool is_same(const td_fval *a, const td_fval *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == TD_F_TENSOR) return a->ref == b->ref;
    if (a->kind == TD_F_NONE) return true;
    return td_rows_same_scalar(a->number, b->number);
}

static int fails(td_error *e)
{
    return td_fail(e, TD_E_UNSUPPORTED, "it goes other ways by the number of rows");
}

static void keep(td_rwalk *w, one_call *c, int nin, const td_fval *in, const td_attrs *attrs)
{
    c->nin = nin;
    c->in = td_rows_alloc(w, (size_t)nin * sizeof *c->in);
    c->attrs = td_rows_alloc(w, offsetof(td_attrs, ints) + attrs->nints * sizeof *attrs->ints); /* as much as is used */
    td_attrs_copy(c->attrs, attrs);
    for (int k = 0; k < nin; k++) {
        c->in[k] = in[k];
        if (in[k].kind != TD_F_NUMBER) continue;
        td_scalar *number = td_rows_alloc(w, sizeof *number);
        *number = *in[k].number;
        c->in[k].number = number;
    }
}

static int first_time(taking *t, const one_call *c, int room, part **out, td_error *e)
{
    td_rwalk *w = t->w;
    int n = infer(w, c, FEW, room, e);
    if (n < 0) return e->code;
    part *p = td_rows_alloc(w, sizeof *p);
    p->call = *c, p->nout = n;
    p->out = td_rows_alloc(w, (size_t)n * sizeof(td_rtensor *));
    for (int k = 0; k < n; k++) {
        p->out[k] = td_rows_alloc(w, sizeof **p->out);
        p->out[k]->look[FEW] = w->made[k];
    }
    *(t->last ? &t->last->next : &t->first) = p;
    t->last = *out = p;
    return TD_OK;
}

static int second_time(taking *t, const one_call *c, int room, part **out, td_error *e)
{
    part *p = t->last;
    bool same = p && p->call.op == c->op && p->call.nin == c->nin;
    for (int k = 0; same && k < c->nin; k++) same = is_same(&p->call.in[k], &c->in[k]);
    if (!same) return fails(e);
    int n = infer(t->w, c, MANY, room, e);
    if (n < 0) return e->code;
    if (n != p->nout) return fails(e);
    for (int k = 0; k < n; k++) p->out[k]->look[MANY] = t->w->made[k];
    apply_rule(t->w, &p->call, c, n, p->out);
    t->last = p->next;
    *out = p;
    return TD_OK;
}

static int ask(taking *t, td_fx *f, const one_call *given, int room, td_fval *out)
{
    one_call c = *given;
    part *p = NULL;
    td_rows_step(t->w, 1);
    keep(t->w, &c, given->nin, given->in, given->attrs);
    int rc = t->look == FEW ? first_time(t, &c, room, &p, f->error) : second_time(t, &c, room, &p, f->error);
    for (int k = 0; !rc && k < p->nout; k++) out[k] = (td_fval){TD_F_TENSOR, {p->out[k]}};
    if (!rc) f->nmade = p->nout;
    return rc;
}

/* The builder. Nothing leaves a formula over its head: it owns memory. */
static int build(td_fx *f, const td_op *op, int nin, const td_fval *in, const td_attrs *attrs, int nout, td_fval *out)
{
    taking *t = f->arg;
    td_rwalk *w = t->w;
    one_call c = {op, nin, (td_fval *)in, (td_attrs *)attrs, t->device};
    jmp_buf no, *before = w->no;
    w->no = &no;
    if (setjmp(no)) {
        w->no = before;
        return td_fail(f->error, TD_E_UNSUPPORTED, "%s", w->why);
    }
    int rc = ask(t, f, &c, nout < 0 ? -nout : nout, out);
    w->no = before;
    return rc;
}

static void meta_of(td_fx *f, const td_fval *v, td_fmeta *m)
{
    const taking *t = f->arg;
    *m = td_fmeta_of(&((td_rtensor *)v->ref)->look[t->look]);
}

typedef struct making {
    const one_call *call;
    int room, n;
    td_fval *out;
} making;

static int make(td_fx *f, void *arg)
{
    making *m = arg;
    return td_fx_make(f, m->call->op, m->call->nin, m->call->in, m->call->attrs, m->room, m->out, &m->n);
}

/* Once through the formula. */
static bool take(taking *t, making *m, td_error *e)
{
    td_fx *f = td_rows_alloc(t->w, sizeof *f);
    td_fx_init(f);
    f->op = build, f->meta = meta_of, f->arg = t, f->create_graph = false, f->error = e, f->of = m->call->op;
    int rc = td_fx_guard(f, make, m);
    td_fx_deinit(f);
    return !rc;
}

static _Noreturn void cannot(td_rwalk *w, const td_op *op, const td_error *e)
{
    td_rows_no(w, "%s: %.100s", op->name, e->message);
}

static int take_apart(td_rwalk *w, const one_call *few, const one_call *many, int room, td_rtensor **out)
{
    taking t = {.w = w, .device = few->device};
    making first = {few, room, 0, td_rows_alloc(w, (size_t)room * sizeof(td_fval))},
           second = {many, room, 0, td_rows_alloc(w, (size_t)room * sizeof(td_fval))};
    td_error e = {0};
    if (!take(&t, &first, &e)) cannot(w, few->op, &e);
    t.look = MANY, t.last = t.first;
    if (!take(&t, &second, &e) || t.last || first.n != second.n) cannot(w, few->op, &e);
    for (int k = 0; k < first.n; k++) {
        if (first.out[k].kind != TD_F_TENSOR || !is_same(&first.out[k], &second.out[k])) cannot(w, few->op, &e);
        out[k] = first.out[k].ref;
    }
    return first.n;
}

/* ---- a node's values */

static td_scalar scalar(const td_literal *v)
{
    switch (v->kind) {
    case TD_L_INT: return td_int(v->i);
    case TD_L_BOOL: return td_bool(v->small);
    case TD_L_FLOAT: return td_float(v->re);
    default: return (td_scalar){TD_S_COMPLEX, 0, v->re, v->im};
    }
}

static _Noreturn void no_such(td_rwalk *w, const td_op *op, const char *name)
{
    td_rows_no(w, "%s is given a '%s' that rests on the number of rows, or on what a tensor holds", op->name, name);
}

static td_fval operand(td_rwalk *w, const td_op *op, const td_param *p, const td_rvalue *v)
{
    if (v->kind == TD_T_NONE) return td_fv_none();
    if (v->kind == TD_T_TENSOR) return (td_fval){TD_F_TENSOR, {v->tensor}};
    bool known = v->kind == TD_T_INT || v->kind == TD_T_FLOAT || v->kind == TD_T_BOOL || v->kind == TD_T_COMPLEX;
    if (!known || v->tie != TD_FIXED) no_such(w, op, p->name);
    td_scalar *number = td_rows_alloc(w, sizeof *number);
    *number = scalar(&v->number);
    return td_fv_at(number);
}

static bool is_list(const td_param *p)
{
    return p->kind == TD_P_LIST || p->kind == TD_P_OPTIONAL_LIST;
}

static void take_operands(td_rwalk *w, uint32_t node, one_call *c)
{
    uint32_t place = 0;
    for (int pass = 0; pass < 2; pass++) {
        int n = 0;
        place = 0;
        for (int p = 0; p < c->op->nparams; p++) {
            while (c->op->attrs_at >> place & 1) place++;
            const td_rvalue *v = td_rows_in(w, node, place++);
            const td_param *param = &c->op->params[p];
            bool list = is_list(param);
            if (list && v->kind != TD_T_LIST) no_such(w, c->op, param->name);
            for (uint32_t k = 0; k < (list ? v->list->n : 1); k++, n++)
                if (pass) c->in[n] = operand(w, c->op, param, list ? &v->list->items[k] : v);
        }
        if (pass) break;
        if (n > TD_MAX_INPUTS) td_rows_no(w, "%s is given more than %d tensors", c->op->name, TD_MAX_INPUTS);
        c->nin = n;
        c->in = td_rows_alloc(w, (size_t)n * sizeof *c->in);
    }
}

/* For so many rows. */
static bool int_of(const td_rvalue *v, int look, int64_t *out)
{
    if (v->tie == TD_UNKNOWN || (v->kind != TD_T_INT && v->kind != TD_T_BOOL)) return false;
    *out = v->kind == TD_T_BOOL ? v->number.small : v->number.i;
    return v->tie != TD_COUNTS || !__builtin_mul_overflow(*out, td_rows_of[look], out);
}

static bool push_ints(td_attrs *a, const td_rvalue *v, int look)
{
    int64_t ints[TD_MAX_INTS];
    uint32_t n = v->kind == TD_T_LIST ? v->list->n : 1;
    if (n > TD_MAX_INTS) return false;
    for (uint32_t k = 0; k < n; k++)
        if (!int_of(v->kind == TD_T_LIST ? &v->list->items[k] : v, look, &ints[k])) return false;
    return td_attrs_ints(a, (int)n, ints);
}

static bool push_attr(const td_ir *ir, td_attrs *a, const td_attr_def *d, const td_rvalue *v, int look)
{
    int64_t i;
    if (v->kind == TD_T_NONE) return d->optional && td_attrs_none(a);
    if (d->kind == TD_A_INTS) return push_ints(a, v, look);
    if (v->kind == TD_T_TENSOR || v->kind == TD_T_LIST || v->tie == TD_UNKNOWN) return false;
    bool whole = v->kind == TD_T_INT || v->kind == TD_T_BOOL;
    if (d->kind == TD_A_INT) return int_of(v, look, &i) && td_attrs_int(a, i);
    if (v->tie != TD_FIXED) return false;
    switch (d->kind) {
    case TD_A_FLOAT: return td_attrs_float(a, !whole ? v->number.re : int_of(v, look, &i) ? (double)i : 0);
    case TD_A_BOOL: return whole && int_of(v, look, &i) && td_attrs_bool(a, i != 0);
    case TD_A_SCALAR: return td_attrs_scalar(a, scalar(&v->number));
    case TD_A_DTYPE: return v->kind == TD_T_DTYPE && td_attrs_dtype(a, (td_dtype)v->number.small);
    case TD_A_TEXT: {
        if (v->kind != TD_T_STR) return false;
        const td_ir_text *text = &ir->strings[v->number.small];
        return td_attrs_text(a, ir->chars + text->at, text->length);
    }
    default: return false;
    }
}

static void take_attrs(td_rwalk *w, uint32_t node, one_call *c, int look)
{
    uint32_t place = 0;
    td_attrs_init(c->attrs);
    for (int k = 0; k < c->op->nattrs; k++) {
        while (!(c->op->attrs_at >> place & 1)) place++;
        if (!push_attr(w->ir, c->attrs, &c->op->attrs[k], td_rows_in(w, node, place++), look))
            no_such(w, c->op, c->op->attrs[k].name);
    }
}

static int plain(td_rwalk *w, const one_call *few, const one_call *many, int room, td_rtensor **out)
{
    td_error e = {0};
    int n = infer(w, few, FEW, room, &e);
    if (n < 0) cannot(w, few->op, &e);
    for (int k = 0; k < n; k++) {
        out[k] = td_rows_alloc(w, sizeof *out[k]);
        out[k]->look[FEW] = w->made[k];
    }
    if (infer(w, many, MANY, room, &e) != n) cannot(w, few->op, &e);
    for (int k = 0; k < n; k++) out[k]->look[MANY] = w->made[k];
    apply_rule(w, few, many, n, out);
    return n;
}

static td_rvalue of_tensor(td_rtensor *t)
{
    return (td_rvalue){TD_T_TENSOR, TD_FIXED, {.tensor = t}};
}

void td_rows_call(td_rwalk *w, uint32_t node)
{
    const td_ir_node *n = &w->ir->nodes[node];
    const td_op *op = td_ir_row(n->op);
    if (n->op & TD_IR_INPLACE) td_rows_no(w, "%s_ writes a tensor", op->name);
    one_call few = {.op = op, .device = n->mode >> TD_RM_DEVICE & (TD_MAX_DEVICES - 1)};
    take_operands(w, node, &few);
    one_call many = few;
    td_attrs attrs[LOOKS];
    few.attrs = &attrs[FEW], many.attrs = &attrs[MANY];
    take_attrs(w, node, &few, FEW);
    take_attrs(w, node, &many, MANY);
    int room = room_of(op);
    td_rtensor **out = td_rows_alloc(w, (size_t)room * sizeof(td_rtensor *));
    int made = op->compose ? take_apart(w, &few, &many, room, out) : plain(w, &few, &many, room, out);
    if (op->nouts == 1 && op->outs[0].list) {
        td_rvalue list = td_rows_new_list(w, 0, NULL);
        for (int k = 0; k < made; k++) td_rows_push(w, list.list, of_tensor(out[k]));
        td_rows_out(w, node, 0, list);
        return;
    }
    if ((uint32_t)made < n->nout) td_rows_no(w, "%s gives less than it says", op->name);
    for (uint32_t k = 0; k < n->nout; k++) td_rows_out(w, node, k, of_tensor(out[k]));
}
