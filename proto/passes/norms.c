/* 11, norms: a norm with running statistics behind a convolution or a linear layer goes into its weights.
 *
 * A norm goes along dimension 1; that is the layer's own only where the layer has its full rank. Where that is not
 * known the program asks for it, and does what it did for other ranks. */
#include "proto/passes/layers.h"

enum {
    X = 0,
    NORM_WEIGHT = 1,
    NORM_BIAS = 2,
    MEAN = 3,
    VAR = 4,
    TRAINING = 5,
    EPS = 7,
    LOOK_BACK = 64 /* nodes in front of a norm, for what says its rank */
};

/* ---- which norm, behind which layer */

static bool is_norm(const td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    td_literal training, eps;
    if (ir->nodes[node].op != (TD_IR_TD | TD_OP_BATCH_NORM)) return false;
    if (td_ir_uses(e, td_ir_out(ir, node, 1)) || td_ir_uses(e, td_ir_out(ir, node, 2))) return false;
    return td_constant(ir, td_ir_in(ir, node, TRAINING), &training) && !training.small &&
           td_constant(ir, td_ir_in(ir, node, EPS), &eps) && eps.kind == TD_L_FLOAT;
}

static uint32_t norm_in(const td_folding *f, uint32_t k)
{
    return td_ir_in(f->ir, f->user, k);
}

/* As many channels as the norm has: a norm along another dimension has other sizes, mostly. */
static bool has_channels(const td_folding *f)
{
    td_tensor_type mean;
    td_type_as_tensor(f->ir, f->ir->values[norm_in(f, MEAN)].type, &mean);
    return mean.rank == 1 && td_layer_channels(f) == mean.sizes[0];
}

static bool has_constants(const td_folding *f)
{
    td_dtype dtype = TD_DTYPE_NONE;
    return td_layer_is_constant(f, &dtype) && td_layer_takes(f, norm_in(f, MEAN), &dtype) &&
           td_layer_takes(f, norm_in(f, VAR), &dtype) && td_layer_takes_or_none(f, norm_in(f, NORM_WEIGHT), &dtype) &&
           td_layer_takes_or_none(f, norm_in(f, NORM_BIAS), &dtype);
}

static bool raises(const td_ir *ir, uint32_t block)
{
    for (uint32_t n = ir->blocks[block].first; n != TD_IR_NONE; n = ir->nodes[n].next)
        if (ir->nodes[n].op == TD_PRIM_RAISE) return true;
    return false;
}

/* If(ndim(value) == rank) else raise. */
static bool insists(const td_ir *ir, uint32_t node, uint32_t value, int64_t rank)
{
    if (ir->nodes[node].op != TD_PRIM_IF || !raises(ir, ir->nodes[node].child + 1)) return false;
    uint32_t equal = td_made_by(ir, td_ir_in(ir, node, 0), TD_PRIM_EQ_INT);
    int64_t n;
    if (equal == TD_IR_NONE || !td_constant_int(ir, td_ir_in(ir, equal, 1), &n) || n != rank) return false;
    uint32_t ndim = td_made_by(ir, td_ir_in(ir, equal, 0), TD_PRIM_NDIM);
    return ndim != TD_IR_NONE && td_ir_in(ir, ndim, 0) == value;
}

static bool rank_is_sure(const td_folding *f, uint32_t value)
{
    uint32_t node = f->ir->nodes[f->user].prev;
    for (int k = 0; node != TD_IR_NONE && k < LOOK_BACK; k++, node = f->ir->nodes[node].prev)
        if (insists(f->ir, node, value, f->is->rank)) return true;
    return f->is->only && td_maker(f->ir, value) == f->node;
}

static bool find(td_folding *f)
{
    uint32_t value = norm_in(f, X);
    return td_layer_find(f, value) && has_constants(f) && has_channels(f) &&
           (f->node == td_maker(f->ir, value) || rank_is_sure(f, value));
}

/* ---- the new weights */

static uint32_t new_bias(const td_folding *f, uint32_t scale)
{
    uint32_t b = td_layer_in(f, TD_LAYER_BIAS), mean = norm_in(f, MEAN), beta = norm_in(f, NORM_BIAS);
    if (td_is_none(f->ir, b)) {
        uint32_t moved = td_layer_product(f, TD_OP_MUL, mean, scale, mean);
        return td_is_none(f->ir, beta) ? td_layer_op(f, TD_OP_NEG, 1, &moved, f->ir->values[mean].type)
                                       : td_layer_sum(f, TD_OP_SUB, beta, moved, mean);
    }
    uint32_t shift = td_layer_product(f, TD_OP_MUL, td_layer_sum(f, TD_OP_SUB, b, mean, mean), scale, mean);
    return td_is_none(f->ir, beta) ? shift : td_layer_sum(f, TD_OP_ADD, shift, beta, mean);
}

/* w * s, and (b - mean) * s + beta, where s = gamma / sqrt(var + eps). */
static void work_out(td_folding *f)
{
    td_literal eps;
    td_constant(f->ir, norm_in(f, EPS), &eps);
    uint32_t gamma = norm_in(f, NORM_WEIGHT), w = td_layer_in(f, TD_LAYER_WEIGHT), var = norm_in(f, VAR);
    td_layer_begin(f);
    uint32_t moved = td_layer_sum(f, TD_OP_ADD, var, td_ir_float(f->e, eps.re), var);
    uint32_t scale = td_layer_op(f, TD_OP_RSQRT, 1, &moved, f->ir->values[var].type);
    if (!td_is_none(f->ir, gamma)) scale = td_layer_product(f, TD_OP_MUL, scale, gamma, var);
    f->bias = new_bias(f, scale);
    f->weight = td_layer_product(f, TD_OP_MUL, w, td_layer_beside_weight(f, scale), w);
    td_layer_end(f);
}

/* ---- in place of both */

/* An If at the cursor, whose second arm is the node, which moves there. */
static uint32_t or_else(const td_folding *f, uint32_t condition, uint32_t node)
{
    uint32_t branch = td_ir_if(f->e, condition), y = td_ir_out(f->ir, node, 0);
    uint32_t out = td_ir_out_new(f->e, branch, f->ir->values[y].type);
    if (td_ir_failed(f->e)) return branch;
    td_ir_replace(f->e, y, out);
    td_ir_to_end(f->e, td_ir_child(f->e, branch, 1));
    td_ir_move(f->e, node);
    td_ir_returns(f->e, td_ir_child(f->e, branch, 1), 1, &y);
    return branch;
}

/* If(ndim(x) == rank) with the new weights, else both as they were. */
static void where_rank_is_full(const td_folding *f)
{
    const td_ir_node n = f->ir->nodes[f->node];
    uint32_t in[8], x = td_ir_in(f->ir, f->node, TD_LAYER_X), v = td_ir_in(f->ir, f->user, X);
    uint32_t types[] = {td_type_plain(f->e, TD_T_INT), td_type_plain(f->e, TD_T_BOOL), f->ir->values[v].type};
    for (uint32_t k = 0; k < n.nin; k++) in[k] = td_ir_in(f->ir, f->node, k);
    in[TD_LAYER_WEIGHT] = f->weight, in[TD_LAYER_BIAS] = f->bias;
    td_ir_to_before(f->e, f->node);
    td_ir_from_node(f->e, f->node);
    uint32_t ndim = td_ir_result(f->e, td_ir_op(f->e, TD_PRIM_NDIM, 1, &x, 1, &types[0]));
    uint32_t both[] = {ndim, td_ir_int(f->e, f->is->rank)};
    uint32_t full = td_ir_result(f->e, td_ir_op(f->e, TD_PRIM_EQ_INT, 2, both, 1, &types[1]));
    uint32_t branch = or_else(f, full, f->node);
    td_ir_to_end(f->e, td_ir_child(f->e, branch, 0));
    td_ir_mode_now(f->e, n.mode);
    uint32_t y = td_ir_result(f->e, td_ir_op(f->e, n.op, n.nin, in, 1, &types[2]));
    td_ir_mode_now(f->e, 0);
    td_ir_returns(f->e, td_ir_child(f->e, branch, 0), 1, &y);
    td_ir_to_before(f->e, f->user);
    td_ir_from_node(f->e, f->user);
    v = td_ir_in(f->ir, f->user, X);
    branch = or_else(f, full, f->user);
    td_ir_returns(f->e, td_ir_child(f->e, branch, 0), 1, &v);
}

bool td_fold_norm(td_ir_edit *e, uint32_t began, uint32_t norm)
{
    td_folding f = {.e = e, .ir = td_ir_now(e), .began = began, .user = norm};
    if (!is_norm(e, norm) || !find(&f)) return false;
    work_out(&f);
    if (td_ir_failed(e)) return true;
    uint32_t value = norm_in(&f, X);
    if (rank_is_sure(&f, value)) {
        td_layer_set(&f);
        td_put_instead(e, td_ir_out(f.ir, norm, 0), value);
        if (!td_ir_uses(e, td_ir_out(f.ir, norm, 0))) td_ir_erase(e, norm);
    } else {
        where_rank_is_full(&f);
    }
    return true;
}
