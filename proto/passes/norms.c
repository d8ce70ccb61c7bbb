/* 11, norms: a norm with running statistics behind a convolution or a linear layer goes into its weights.
 *
 * Only where captured tensors are constants (freeze.h), and only for who allows other bits: w * s in place of w once,
 * and not y * s in each run. What is worked out for that stands in front of the graph, where freezing finds it.
 *
 * A norm goes along dimension 1; that is the layer's own only where the layer has its full rank. Where that is not
 * known the program asks for it, and does what it did for other ranks. */
#include "proto/opid.h"
#include "proto/passes/facts.h"
#include "proto/passes/freeze.h"

enum {
    X = 0,
    WEIGHT = 1,
    BIAS = 2,
    GROUPS = 6,
    NORM_WEIGHT = 1,
    NORM_BIAS = 2,
    MEAN = 3,
    VAR = 4,
    TRAINING = 5,
    EPS = 7,
    ROOM = 48,     /* nodes that one needs at most */
    LOOK_BACK = 64 /* nodes in front of a norm, for what says its rank */
};

typedef struct layer {
    uint32_t op;
    uint8_t rank;      /* of what it takes and makes */
    bool only, turned; /* only: it takes no other; turned: its weight has the channels that come out second */
} layer;

static const layer layers[] = {{TD_OP_CONV1D, 3, false, false},          {TD_OP_CONV2D, 4, true, false},
                               {TD_OP_CONV3D, 5, false, false},          {TD_OP_CONV_TRANSPOSE1D, 3, false, true},
                               {TD_OP_CONV_TRANSPOSE2D, 4, false, true}, {TD_OP_CONV_TRANSPOSE3D, 5, false, true},
                               {TD_OP_LINEAR, 2, false, false}};

typedef struct folding {
    td_ir_edit *e;
    const td_ir *ir;
    uint32_t norm, node; /* node: the layer */
    const layer *is;
    uint32_t weight, bias; /* what they become */
} folding;

static const layer *layer_of(const td_ir *ir, uint32_t node)
{
    for (unsigned k = 0; node != TD_IR_NONE && k < sizeof layers / sizeof *layers; k++)
        if (ir->nodes[node].op == (TD_IR_TD | layers[k].op)) return &layers[k];
    return NULL;
}

static bool is_none(const td_ir *ir, uint32_t value)
{
    return td_type_kind_of(ir, ir->values[value].type) == TD_T_NONE;
}

/* A constant tensor of this type; or of a type that is worth it, when there is none yet. */
static bool is_float(const td_ir *ir, uint32_t value, td_dtype *dtype)
{
    td_tensor_type t;
    if (!td_is_frozen(ir, value)) return false;
    td_type_as_tensor(ir, ir->values[value].type, &t);
    if (*dtype == TD_DTYPE_NONE) *dtype = (td_dtype)t.dtype;
    return t.dtype == *dtype && (*dtype == TD_FLOAT32 || *dtype == TD_FLOAT64);
}

/* ---- which norm, behind which layer */

static bool is_norm(const td_ir_edit *e, uint32_t node)
{
    const td_ir *ir = td_ir_now(e);
    td_literal training, eps;
    if (ir->nodes[node].block == TD_IR_NONE || ir->nodes[node].op != (TD_IR_TD | TD_OP_BATCH_NORM)) return false;
    if (ir->blocks[ir->nodes[node].block].function) return false;
    if (td_ir_uses(e, td_ir_out(ir, node, 1)) || td_ir_uses(e, td_ir_out(ir, node, 2))) return false;
    return td_constant(ir, td_ir_in(ir, node, TRAINING), &training) && !training.small &&
           td_constant(ir, td_ir_in(ir, node, EPS), &eps) && eps.kind == TD_L_FLOAT;
}

static bool may_be_none(const td_ir *ir, uint32_t value, td_dtype *dtype)
{
    return is_none(ir, value) || is_float(ir, value, dtype);
}

/* As many channels as the norm has: a norm along another dimension has other sizes, mostly. */
static bool has_channels(const folding *f)
{
    td_tensor_type weight, mean;
    td_type_as_tensor(f->ir, f->ir->values[td_ir_in(f->ir, f->node, WEIGHT)].type, &weight);
    td_type_as_tensor(f->ir, f->ir->values[td_ir_in(f->ir, f->norm, MEAN)].type, &mean);
    return weight.rank == f->is->rank && mean.rank == 1 && weight.sizes[f->is->turned] == mean.sizes[0];
}

static bool has_constants(const folding *f)
{
    const td_ir *ir = f->ir;
    td_dtype dtype = TD_DTYPE_NONE;
    int64_t groups = 1;
    if (f->is->turned && (!td_constant_int(ir, td_ir_in(ir, f->node, GROUPS), &groups) || groups != 1)) return false;
    return ir->nodes[f->node].mode == ir->nodes[f->norm].mode && is_float(ir, td_ir_in(ir, f->node, WEIGHT), &dtype) &&
           may_be_none(ir, td_ir_in(ir, f->node, BIAS), &dtype) && is_float(ir, td_ir_in(ir, f->norm, MEAN), &dtype) &&
           is_float(ir, td_ir_in(ir, f->norm, VAR), &dtype) &&
           may_be_none(ir, td_ir_in(ir, f->norm, NORM_WEIGHT), &dtype) &&
           may_be_none(ir, td_ir_in(ir, f->norm, NORM_BIAS), &dtype);
}

static bool looks_only(const td_ir *ir, uint32_t user)
{
    if (user & TD_IR_PARAM) return false;
    uint32_t op = ir->nodes[user].op;
    return op == TD_PRIM_NDIM || op == TD_PRIM_SHAPE || op == TD_PRIM_SIZE_DIM || op == TD_PRIM_NUMEL;
}

/* Beside these two users it is only asked what it looks like. */
static bool used_by(const td_ir_edit *e, uint32_t value, uint32_t user, uint32_t other)
{
    for (uint32_t use = td_ir_use_first(e, value); use != TD_IR_NONE; use = td_ir_use_next(e, use)) {
        uint32_t who = td_ir_user(e, use);
        if (who != user && who != other && !looks_only(td_ir_now(e), who)) return false;
    }
    return true;
}

/* One picture alone is a batch of one to the op: If(single) squeeze(y) else y. Where that has the full rank it is y. */
static uint32_t behind_squeeze(const td_ir_edit *e, uint32_t value)
{
    const td_ir *ir = td_ir_now(e);
    uint32_t node = td_made_by(ir, value, TD_PRIM_IF), nr = ir->values[value].nr;
    if (node == TD_IR_NONE) return TD_IR_NONE;
    for (uint32_t arm = 0; arm < 2; arm++) {
        uint32_t block = ir->nodes[node].child + arm, sibling = ir->nodes[node].child + !arm;
        uint32_t y = td_ir_return(ir, block, nr), conv = td_made_by(ir, y, TD_IR_TD | TD_OP_CONV2D);
        uint32_t other = td_made_by(ir, td_ir_return(ir, sibling, nr), TD_IR_TD | TD_OP_SQUEEZE);
        if (conv != TD_IR_NONE && other != TD_IR_NONE && td_ir_in(ir, other, 0) == y &&
            ir->nodes[other].block == sibling && used_by(e, y, other, TD_IR_PARAM | block))
            return conv;
    }
    return TD_IR_NONE;
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

static bool rank_is_sure(const folding *f, uint32_t value)
{
    uint32_t node = f->ir->nodes[f->norm].prev;
    for (int k = 0; node != TD_IR_NONE && k < LOOK_BACK; k++, node = f->ir->nodes[node].prev)
        if (insists(f->ir, node, value, f->is->rank)) return true;
    return f->is->only && td_maker(f->ir, value) == f->node;
}

static bool find(folding *f)
{
    uint32_t value = td_ir_in(f->ir, f->norm, X), maker = td_maker(f->ir, value);
    if (maker == TD_IR_NONE || f->ir->nodes[maker].block != f->ir->nodes[f->norm].block ||
        !used_by(f->e, value, f->norm, f->norm))
        return false;
    f->node = layer_of(f->ir, maker) ? maker : behind_squeeze(f->e, value);
    f->is = layer_of(f->ir, f->node);
    return f->is && has_constants(f) && has_channels(f) && (f->node == maker || rank_is_sure(f, value)) &&
           td_ir_room(f->e) > ROOM;
}

/* ---- the new weights, in front of all */

static uint32_t op(const folding *f, uint32_t row, uint32_t nin, const uint32_t *in)
{
    uint32_t tensor = td_type_any_tensor(f->e);
    return td_ir_result(f->e, td_ir_op(f->e, TD_IR_TD | row, nin, in, 1, &tensor));
}

static uint32_t sum(const folding *f, uint32_t row, uint32_t a, uint32_t b)
{
    return op(f, row, 3, (uint32_t[]){a, b, td_ir_int(f->e, 1)});
}

static uint32_t product(const folding *f, uint32_t a, uint32_t b)
{
    return op(f, TD_OP_MUL, 2, (uint32_t[]){a, b});
}

/* One factor a channel, beside the weight's other dimensions. */
static uint32_t beside_weight(const folding *f, uint32_t scale)
{
    uint32_t sizes[8], n = f->is->rank, of = td_type_list(f->e, td_type_plain(f->e, TD_T_INT));
    for (uint32_t k = 0; k < n; k++) sizes[k] = td_ir_int(f->e, k == f->is->turned ? -1 : 1);
    uint32_t list = td_ir_result(f->e, td_ir_op(f->e, TD_PRIM_LISTCONSTRUCT, n, sizes, 1, &of));
    return op(f, TD_OP_VIEW, 2, (uint32_t[]){scale, list});
}

static uint32_t new_bias(const folding *f, uint32_t scale)
{
    uint32_t b = td_ir_in(f->ir, f->node, BIAS), mean = td_ir_in(f->ir, f->norm, MEAN);
    uint32_t beta = td_ir_in(f->ir, f->norm, NORM_BIAS);
    if (is_none(f->ir, b)) {
        mean = product(f, mean, scale);
        return is_none(f->ir, beta) ? op(f, TD_OP_NEG, 1, &mean) : sum(f, TD_OP_SUB, beta, mean);
    }
    uint32_t shift = product(f, sum(f, TD_OP_SUB, b, mean), scale);
    return is_none(f->ir, beta) ? shift : sum(f, TD_OP_ADD, shift, beta);
}

/* w * s, and (b - mean) * s + beta, where s = gamma / sqrt(var + eps). */
static void work_out(folding *f)
{
    const td_ir *ir = f->ir;
    td_literal eps;
    td_constant(ir, td_ir_in(ir, f->norm, EPS), &eps);
    uint32_t gamma = td_ir_in(ir, f->norm, NORM_WEIGHT), w = td_ir_in(ir, f->node, WEIGHT);
    td_ir_to_before(f->e, ir->blocks[ir->functions[0].block].first);
    td_ir_from_node(f->e, f->norm);
    td_ir_mode_now(f->e, TD_RM_GRAD_OFF);
    uint32_t var = sum(f, TD_OP_ADD, td_ir_in(ir, f->norm, VAR), td_ir_float(f->e, eps.re));
    uint32_t scale = op(f, TD_OP_RSQRT, 1, &var);
    if (!is_none(ir, gamma)) scale = product(f, scale, gamma);
    f->bias = new_bias(f, scale);
    f->weight = product(f, w, beside_weight(f, scale));
    td_ir_mode_now(f->e, 0);
}

/* ---- in place of both */

static void set_weights(const folding *f, uint32_t node)
{
    td_ir_set_in(f->e, node, WEIGHT, f->weight);
    td_ir_set_in(f->e, node, BIAS, f->bias);
}

/* An If at the cursor, whose second arm is the node, which moves there. */
static uint32_t or_else(const folding *f, uint32_t condition, uint32_t node)
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
static void where_rank_is_full(const folding *f)
{
    const td_ir_node n = f->ir->nodes[f->node];
    uint32_t in[8], x = td_ir_in(f->ir, f->node, X), v = td_ir_in(f->ir, f->norm, X);
    uint32_t types[] = {td_type_plain(f->e, TD_T_INT), td_type_plain(f->e, TD_T_BOOL), f->ir->values[v].type};
    for (uint32_t k = 0; k < n.nin; k++) in[k] = td_ir_in(f->ir, f->node, k);
    in[WEIGHT] = f->weight, in[BIAS] = f->bias;
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
    td_ir_to_before(f->e, f->norm);
    td_ir_from_node(f->e, f->norm);
    v = td_ir_in(f->ir, f->norm, X);
    branch = or_else(f, full, f->norm);
    td_ir_returns(f->e, td_ir_child(f->e, branch, 0), 1, &v);
}

static bool fold(td_ir_edit *e, uint32_t norm)
{
    folding f = {.e = e, .ir = td_ir_now(e), .norm = norm};
    if (!find(&f)) return false;
    work_out(&f);
    if (td_ir_failed(e)) return true;
    uint32_t value = td_ir_in(f.ir, norm, X);
    if (rank_is_sure(&f, value)) {
        set_weights(&f, f.node);
        td_put_instead(e, td_ir_out(f.ir, norm, 0), value);
        if (!td_ir_uses(e, td_ir_out(f.ir, norm, 0))) td_ir_erase(e, norm);
    } else {
        where_rank_is_full(&f);
    }
    return true;
}

bool td_pass_norms(td_ir_edit *e, td_facts *f)
{
    uint32_t nnodes = td_ir_now(e)->nnodes; /* what is made here is no norm */
    bool changed = false;
    (void)f;
    for (uint32_t n = 0; n < nnodes && !td_ir_failed(e); n++)
        if (is_norm(e, n)) changed |= fold(e, n);
    return changed;
}
