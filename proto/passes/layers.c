/* See layers.h, and the pass itself: 11, what stands behind layers goes into their weights.
 *
 * Only where captured tensors are constants (freeze.h), and only for who allows other bits: w * s in place of w once,
 * and not y * s in each run. */
#include "proto/passes/layers.h"
#include "proto/passes/freeze.h"

static const td_layer layers[] = {{TD_OP_CONV1D, 3, false, false},          {TD_OP_CONV2D, 4, true, false},
                                  {TD_OP_CONV3D, 5, false, false},          {TD_OP_CONV_TRANSPOSE1D, 3, false, true},
                                  {TD_OP_CONV_TRANSPOSE2D, 4, false, true}, {TD_OP_CONV_TRANSPOSE3D, 5, false, true},
                                  {TD_OP_LINEAR, 2, false, false}};

enum { GROUPS = 6, ROOM = 48 /* nodes that one needs at most */ };

static const td_layer *layer_of(const td_ir *ir, uint32_t node)
{
    for (unsigned k = 0; node != TD_IR_NONE && k < sizeof layers / sizeof *layers; k++)
        if (ir->nodes[node].op == (TD_IR_TD | layers[k].op)) return &layers[k];
    return NULL;
}

/* ---- finding */

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

bool td_layer_find(td_folding *f, uint32_t value)
{
    uint32_t maker = td_maker(f->ir, value);
    if (maker == TD_IR_NONE || f->ir->nodes[maker].block != f->ir->nodes[f->user].block ||
        !used_by(f->e, value, f->user, f->user))
        return false;
    f->node = layer_of(f->ir, maker) ? maker : behind_squeeze(f->e, value);
    f->is = layer_of(f->ir, f->node);
    return f->is && td_ir_room(f->e) > ROOM;
}

/* Captured; or worked out of such before, by this pass. */
static bool is_constant(const td_folding *f, uint32_t value)
{
    uint32_t maker = td_maker(f->ir, value);
    return td_is_frozen(f->ir, value) || (maker != TD_IR_NONE && maker >= f->began);
}

bool td_layer_takes(const td_folding *f, uint32_t value, td_dtype *dtype)
{
    td_tensor_type t;
    if (!is_constant(f, value)) return false;
    td_type_as_tensor(f->ir, f->ir->values[value].type, &t);
    if (*dtype == TD_DTYPE_NONE) *dtype = (td_dtype)t.dtype;
    return t.dtype == *dtype && (*dtype == TD_FLOAT32 || *dtype == TD_FLOAT64);
}

bool td_layer_takes_or_none(const td_folding *f, uint32_t value, td_dtype *dtype)
{
    return td_is_none(f->ir, value) || td_layer_takes(f, value, dtype);
}

bool td_layer_is_constant(const td_folding *f, td_dtype *dtype)
{
    int64_t groups = 1;
    td_tensor_type weight;
    if (f->is->turned && (!td_constant_int(f->ir, td_layer_in(f, GROUPS), &groups) || groups != 1)) return false;
    if (f->ir->nodes[f->node].mode != f->ir->nodes[f->user].mode) return false;
    if (!td_layer_takes(f, td_layer_in(f, TD_LAYER_WEIGHT), dtype) ||
        !td_layer_takes_or_none(f, td_layer_in(f, TD_LAYER_BIAS), dtype))
        return false;
    td_type_as_tensor(f->ir, f->ir->values[td_layer_in(f, TD_LAYER_WEIGHT)].type, &weight);
    return weight.rank == f->is->rank;
}

int64_t td_layer_channels(const td_folding *f)
{
    td_tensor_type weight;
    td_type_as_tensor(f->ir, f->ir->values[td_layer_in(f, TD_LAYER_WEIGHT)].type, &weight);
    return weight.sizes[f->is->turned];
}

/* ---- working out */

/* Behind what others of this pass have put there. */
void td_layer_begin(const td_folding *f)
{
    uint32_t first = f->ir->blocks[f->ir->functions[0].block].first;
    while (first >= f->began) first = f->ir->nodes[first].next;
    td_ir_to_before(f->e, first);
    td_ir_from_node(f->e, f->user);
    td_ir_mode_now(f->e, TD_RM_GRAD_OFF);
}

void td_layer_end(const td_folding *f)
{
    td_ir_mode_now(f->e, 0);
}

uint32_t td_layer_op(const td_folding *f, uint32_t row, uint32_t nin, const uint32_t *in, uint32_t type)
{
    return td_ir_result(f->e, td_ir_op(f->e, TD_IR_TD | row, nin, in, 1, &type));
}

static uint32_t type_of(const td_folding *f, uint32_t value)
{
    return td_ir_failed(f->e) ? TD_IR_NONE : f->ir->values[value].type;
}

uint32_t td_layer_sum(const td_folding *f, uint32_t row, uint32_t a, uint32_t b, uint32_t like)
{
    return td_layer_op(f, row, 3, (uint32_t[]){a, b, td_ir_int(f->e, 1)}, type_of(f, like));
}

uint32_t td_layer_product(const td_folding *f, uint32_t row, uint32_t a, uint32_t b, uint32_t like)
{
    return td_layer_op(f, row, 2, (uint32_t[]){a, b}, type_of(f, like));
}

uint32_t td_layer_beside_weight(const td_folding *f, uint32_t factor)
{
    uint32_t sizes[8], n = f->is->rank, of = td_type_list(f->e, td_type_plain(f->e, TD_T_INT));
    for (uint32_t k = 0; k < n; k++) sizes[k] = td_ir_int(f->e, k == f->is->turned ? -1 : 1);
    uint32_t list = td_ir_result(f->e, td_ir_op(f->e, TD_PRIM_LISTCONSTRUCT, n, sizes, 1, &of));
    return td_layer_op(f, TD_OP_VIEW, 2, (uint32_t[]){factor, list}, td_type_any_tensor(f->e));
}

void td_layer_set(const td_folding *f)
{
    td_ir_set_in(f->e, f->node, TD_LAYER_WEIGHT, f->weight);
    td_ir_set_in(f->e, f->node, TD_LAYER_BIAS, f->bias);
}

/* ---- the pass */

bool td_pass_layers(td_ir_edit *e, td_facts *f)
{
    uint32_t began = td_ir_now(e)->nnodes; /* what is made here goes into no layer */
    bool changed = false;
    (void)f;
    for (uint32_t n = 0; n < began && !td_ir_failed(e); n++) {
        const td_ir *ir = td_ir_now(e);
        if (ir->nodes[n].block == TD_IR_NONE || ir->blocks[ir->nodes[n].block].function) continue;
        changed |= td_fold_norm(e, began, n) || td_fold_scale(e, began, n);
    }
    return changed;
}
