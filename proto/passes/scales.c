/* 11, scales: a product, quotient, sum or difference with constants behind a convolution or a linear layer goes into
 * its weights: with one number, or one a channel.
 *
 * Sizes are compared from the last dimension on, and so is the layer's channel counted: whether there is a batch makes
 * no difference, as long as the constants have no dimension in front of the channels. */
#include "proto/passes/layers.h"

#include <math.h>

typedef struct scale {
    td_folding f;
    uint32_t op;    /* TD_OP_MUL, ... */
    uint32_t value; /* what the layer makes */
    uint32_t by;    /* what it is multiplied with, ... */
    td_literal number;
    bool is_number; /* one number; else one a channel */
} scale;

/* y by a number or by constants, or those by y where that is the same. */
static bool is_scale(scale *s)
{
    const td_ir *ir = s->f.ir;
    const td_ir_node *n = &ir->nodes[s->f.user];
    td_literal alpha = {.kind = TD_L_INT, .i = 1};
    s->op = n->op & ~TD_IR_TD;
    if ((n->op & TD_IR_CLASS) != TD_IR_TD) return false;
    if (s->op == TD_OP_ADD || s->op == TD_OP_SUB) {
        if (!td_constant(ir, td_ir_in(ir, s->f.user, 2), &alpha) || alpha.kind != TD_L_INT || alpha.i != 1)
            return false;
    } else if (s->op == TD_OP_DIV) {
        if (n->nin > 2 && !td_is_none(ir, td_ir_in(ir, s->f.user, 2))) return false; /* rounded */
    } else if (s->op != TD_OP_MUL) {
        return false;
    }
    bool turns = s->op == TD_OP_ADD || s->op == TD_OP_MUL;
    for (uint32_t k = 0; k < 1u + turns; k++) {
        s->value = td_ir_in(ir, s->f.user, k), s->by = td_ir_in(ir, s->f.user, !k);
        if (td_type_kind_of(ir, ir->values[s->value].type) == TD_T_TENSOR && td_layer_find(&s->f, s->value))
            return true;
    }
    return false;
}

/* What stands in for the bias has its sizes. */
static bool needs_bias(const scale *s)
{
    return (s->op == TD_OP_ADD || s->op == TD_OP_SUB) && td_is_none(s->f.ir, td_layer_in(&s->f, TD_LAYER_BIAS));
}

/* Constants that have the layer's channels in the channels' place and otherwise nothing but ones. */
static bool lies_along_channels(const scale *s)
{
    td_tensor_type t;
    int from_end = s->f.is->op == TD_OP_LINEAR ? 1 : s->f.is->rank - 1;
    td_type_as_tensor(s->f.ir, s->f.ir->values[s->by].type, &t);
    bool each = t.rank == from_end && t.sizes[0] == td_layer_channels(&s->f);
    for (int k = each; k < t.rank; k++)
        if (t.sizes[k] != 1) return false;
    return t.rank <= from_end && (each || !needs_bias(s));
}

/* Numbers by which weights stay what they are: not 0 to divide by, none that makes them infinite, or nothing. */
static bool is_sane(const scale *s)
{
    double size = s->number.kind == TD_L_INT ? fabs((double)s->number.i) : fabs(s->number.re);
    if (s->number.kind != TD_L_INT && s->number.kind != TD_L_FLOAT) return false;
    return size <= 1e6 && (size >= 1e-6 || (size == 0 && s->op != TD_OP_DIV));
}

static bool takes(scale *s)
{
    td_dtype dtype = TD_DTYPE_NONE;
    if (!td_layer_is_constant(&s->f, &dtype)) return false;
    s->is_number = td_constant(s->f.ir, s->by, &s->number);
    if (s->is_number) return is_sane(s) && !needs_bias(s);
    return td_layer_takes(&s->f, s->by, &dtype) && lies_along_channels(s);
}

/* ---- */

/* The constants in a row, or the number. */
static uint32_t in_a_row(const scale *s)
{
    td_ir_edit *e = s->f.e;
    if (s->is_number) return s->number.kind == TD_L_INT ? td_ir_int(e, s->number.i) : td_ir_float(e, s->number.re);
    td_tensor_type t;
    td_type_as_tensor(s->f.ir, s->f.ir->values[s->by].type, &t);
    if (!t.rank) t.sizes[0] = 1;
    t.rank = 1;
    uint32_t all = td_ir_int(e, -1), of = td_type_list(e, td_type_plain(e, TD_T_INT));
    uint32_t list = td_ir_result(e, td_ir_op(e, TD_PRIM_LISTCONSTRUCT, 1, &all, 1, &of));
    return td_layer_op(&s->f, TD_OP_VIEW, 2, (uint32_t[]){s->by, list}, td_type_tensor(e, &t));
}

/* y * c is w * c and b * c; y + c is b + c. */
static void work_out(scale *s)
{
    td_folding *f = &s->f;
    uint32_t b = td_layer_in(f, TD_LAYER_BIAS), w = td_layer_in(f, TD_LAYER_WEIGHT);
    td_layer_begin(f);
    uint32_t c = in_a_row(s);
    if (td_ir_failed(f->e)) return;
    f->weight = w, f->bias = b;
    if (s->op == TD_OP_ADD || s->op == TD_OP_SUB) {
        if (!td_is_none(f->ir, b)) f->bias = td_layer_sum(f, s->op, b, c, b);
        else f->bias = s->op == TD_OP_ADD ? c : td_layer_op(f, TD_OP_NEG, 1, &c, f->ir->values[c].type);
    } else {
        f->weight = td_layer_product(f, s->op, w, s->is_number ? c : td_layer_beside_weight(f, c), w);
        if (!td_is_none(f->ir, b)) f->bias = td_layer_product(f, s->op, b, c, b);
    }
    td_layer_end(f);
}

bool td_fold_scale(td_ir_edit *e, uint32_t began, uint32_t node)
{
    scale s = {.f = {.e = e, .ir = td_ir_now(e), .began = began, .user = node}};
    if (!is_scale(&s) || !takes(&s)) return false;
    work_out(&s);
    if (td_ir_failed(e)) return true;
    td_layer_set(&s.f);
    td_put_instead(e, td_ir_out(s.f.ir, node, 0), s.value);
    if (!td_ir_uses(e, td_ir_out(s.f.ir, node, 0))) td_ir_erase(e, node);
    return true;
}
