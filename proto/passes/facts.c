/* Classes of what may share memory, found in three walks: what is one thing; what is written and what leaves; where
 * gradients may come from. */
#include "proto/passes/facts.h"
#include "proto/ops/opid.h"

#include <stdlib.h>

/* ---- which values have a class */

static uint8_t type_has_class(const td_facts *f, const td_ir *ir, uint32_t type)
{
    switch (td_type_kind_of(ir, type)) {
    case TD_T_TENSOR:
    case TD_T_LIST:
    case TD_T_DICT: return 1;
    default: break;
    }
    for (uint32_t k = 0; k < td_type_parts(ir, type); k++) /* parts are earlier types */
        if (f->has_class[td_type_part(ir, type, k)]) return 1;
    return 0;
}

static bool has_class(const td_facts *f, const td_ir *ir, uint32_t value)
{
    return f->has_class[ir->values[value].type];
}

/* ---- uniting */

static uint32_t root(td_facts *f, uint32_t class)
{
    while (f->classes[class] != class) {
        f->classes[class] = f->classes[f->classes[class]];
        class = f->classes[class];
    }
    return class;
}

/* TD_CLASS_ANY is 0, the least number, so that it stays what it is. */
static void unite(td_facts *f, uint32_t a, uint32_t b)
{
    a = root(f, a), b = root(f, b);
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    if (low == high) return;
    f->classes[high] = low;
    f->flags[low] |= f->flags[high];
}

static void unite_values(td_facts *f, const td_ir *ir, uint32_t a, uint32_t b)
{
    if (has_class(f, ir, a) && has_class(f, ir, b)) unite(f, a + 1, b + 1);
}

static void unite_with_any(td_facts *f, const td_ir *ir, uint32_t n, const uint32_t *values)
{
    for (uint32_t k = 0; k < n; k++)
        if (has_class(f, ir, values[k])) unite(f, TD_CLASS_ANY, values[k] + 1);
}

/* A list of numbers. An op of the table reads it, and nothing that it makes shares memory with it. */
static bool is_attribute(const td_ir *ir, uint32_t node, uint32_t value)
{
    uint32_t type = ir->values[value].type;
    return (ir->nodes[node].op & TD_IR_CLASS) == TD_IR_TD && td_type_kind_of(ir, type) == TD_T_LIST &&
           td_type_kind_of(ir, td_type_part(ir, type, 0)) == TD_T_INT;
}

/* All that the node takes and makes. */
static void unite_all(td_facts *f, const td_ir *ir, uint32_t node)
{
    const td_ir_node *n = &ir->nodes[node];
    uint32_t first = TD_IR_NONE;
    for (uint32_t k = 0; k < n->nin + n->nout; k++) {
        uint32_t value = k < n->nin ? ir->args[n->in + k] : ir->defs[n->out + k - n->nin];
        if (!has_class(f, ir, value) || is_attribute(ir, node, value)) continue;
        if (first == TD_IR_NONE) first = value;
        else unite(f, first + 1, value + 1);
    }
}

/* ---- what is one thing */

static void unite_control(td_facts *f, const td_ir *ir, uint32_t node)
{
    const td_ir_node *n = &ir->nodes[node];
    uint32_t loop = n->op == TD_PRIM_LOOP;
    for (uint32_t k = 0; k < n->nout; k++) {
        uint32_t out = ir->defs[n->out + k];
        for (uint32_t b = 0; b < n->nblocks; b++) unite_values(f, ir, out, td_ir_return(ir, n->child + b, k + loop));
        if (!loop) continue;
        unite_values(f, ir, out, ir->args[n->in + k + 2]);
        unite_values(f, ir, out, td_ir_param(ir, n->child, k + 1));
    }
}

/* Ops that are made of others may give a part of what they are given; these compute something whatever they are given.
 */
static bool computes(const td_op *op)
{
    static const uint16_t rows[] = {
        TD_OP_MATMUL,           TD_OP_CONV1D,     TD_OP_CONV3D,        TD_OP_CONV_TRANSPOSE1D, TD_OP_CONV_TRANSPOSE2D,
        TD_OP_CONV_TRANSPOSE3D, TD_OP_GROUP_NORM, TD_OP_LSTM_CELL,     TD_OP_GRU_CELL,         TD_OP_RNN_CELL,
        TD_OP_MSE_LOSS,         TD_OP_L1_LOSS,    TD_OP_CROSS_ENTROPY, TD_OP_SOFTSIGN,         TD_OP_LOGSIGMOID,
        TD_OP_TANHSHRINK,       TD_OP_RELU6};
    for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k] == op->id) return true;
    return false;
}

/* Results of an op are new, but for views; of one that writes or is made of others, nothing is said. */
static void unite_row(td_facts *f, const td_ir *ir, uint32_t node)
{
    const td_ir_node *n = &ir->nodes[node];
    const td_op *op = td_ir_row(n->op);
    if (n->op & TD_IR_INPLACE || (op->flags & TD_OF_VIEW && !op->compose)) {
        for (uint32_t k = 0; k < n->nout; k++) unite_values(f, ir, ir->args[n->in], ir->defs[n->out + k]);
    } else if (td_writes_any(ir, node) || (op->compose && !computes(op))) {
        unite_all(f, ir, node);
    }
}

static bool makes_class(const td_facts *f, const td_ir *ir, uint32_t node)
{
    for (uint32_t k = 0; k < ir->nodes[node].nout; k++)
        if (has_class(f, ir, td_ir_out(ir, node, k))) return true;
    return false;
}

static void unite_node(td_facts *f, const td_ir *ir, uint32_t node)
{
    const td_ir_node *n = &ir->nodes[node];
    if (td_reaches(ir, node)) {
        unite_with_any(f, ir, n->nin, ir->args + n->in);
        unite_with_any(f, ir, n->nout, ir->defs + n->out);
        return;
    }
    if ((n->op & TD_IR_CLASS) == TD_IR_TD) unite_row(f, ir, node);
    else if (n->nblocks) unite_control(f, ir, node);
    else if (n->op == TD_PRIM_SHAPE || n->op == TD_PRIM_STRIDE) return; /* a new list */
    else if (makes_class(f, ir, node) || td_prim_by_id(n->op)->flags & TD_PRF_MUTATES) unite_all(f, ir, node);
}

bool td_is_frozen(const td_ir *ir, uint32_t value)
{
    td_tensor_type t;
    if ((ir->values[value].def & TD_IR_CAPTURED) != TD_IR_CAPTURED) return false;
    if (td_type_kind_of(ir, ir->values[value].type) != TD_T_TENSOR) return false;
    td_type_as_tensor(ir, ir->values[value].type, &t);
    return t.dtype != TD_DTYPE_NONE;
}

static void unite_ends(td_facts *f, const td_ir *ir)
{
    for (uint32_t k = 0; k < ir->ncaptures; k++)
        if (!f->frozen || !td_is_frozen(ir, ir->captures[k].value)) unite_with_any(f, ir, 1, &ir->captures[k].value);
    for (uint32_t k = 0; k < ir->nfunctions; k++) {
        if (!td_ir_has_function(ir, k)) continue;
        const td_ir_block *b = &ir->blocks[ir->functions[k].block];
        unite_with_any(f, ir, b->nparams, ir->defs + b->param);
        if (k) unite_with_any(f, ir, b->nrets, ir->args + b->ret);
    }
}

/* ---- what happens to them */

static bool alive(const td_ir *ir, uint32_t node)
{
    return ir->nodes[node].block != TD_IR_NONE;
}

static void find_writes(td_facts *f, const td_ir *ir)
{
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        if (!alive(ir, n)) continue;
        for (uint32_t k = 0; k < ir->nodes[n].nin; k++)
            if (td_writes(ir, n, k) && has_class(f, ir, td_ir_in(ir, n, k)))
                f->flags[root(f, td_ir_in(ir, n, k) + 1)] |= TD_CF_WRITES;
        if (td_reaches(ir, n)) f->flags[TD_CLASS_ANY] |= TD_CF_WRITES;
    }
    const td_ir_block *graph = &ir->blocks[ir->functions[0].block];
    for (uint32_t k = 0; k < graph->nrets; k++)
        if (has_class(f, ir, ir->args[graph->ret + k])) f->flags[root(f, ir->args[graph->ret + k] + 1)] |= TD_CF_LEAVES;
}

static bool takes_grad(td_facts *f, const td_ir *ir, uint32_t node)
{
    for (uint32_t k = 0; k < ir->nodes[node].nin; k++)
        if (has_class(f, ir, td_ir_in(ir, node, k)) && f->flags[root(f, td_ir_in(ir, node, k) + 1)] & TD_CF_GRAD)
            return true;
    return false;
}

/* What an op makes of something with a gradient has one. */
static bool spread_grad(td_facts *f, const td_ir *ir)
{
    bool more = false;
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        const td_op *op = td_ir_row(ir->nodes[n].op);
        if (!alive(ir, n) || !op || !td_records(ir, n) || op->flags & TD_OF_NONDIFF || !takes_grad(f, ir, n)) continue;
        for (uint32_t k = 0; k < ir->nodes[n].nout; k++) {
            uint8_t *flags = &f->flags[root(f, td_ir_out(ir, n, k) + 1)];
            if (*flags & TD_CF_GRAD) continue;
            *flags |= TD_CF_GRAD;
            more = true;
        }
    }
    return more;
}

/* Nodes stand mostly behind what they use: a few rounds find it all; what takes longer is not worth knowing. */
static void find_grads(td_facts *f, const td_ir *ir)
{
    for (int round = 0; round < 4; round++)
        if (!spread_grad(f, ir)) return;
    for (uint32_t k = 0; k < f->nclasses; k++) f->flags[k] |= TD_CF_GRAD;
}

/* ---- */

static bool make_room(td_facts *f, const td_ir *ir)
{
    td_facts before = *f;
    td_facts_deinit(f);
    f->frozen = before.frozen, f->looks = before.looks;
    f->nvalues = ir->nvalues;
    f->nclasses = ir->nvalues + 1;
    f->classes = malloc(f->nclasses * sizeof *f->classes);
    f->flags = calloc(f->nclasses, 1);
    f->has_class = calloc(ir->ntypes + 1, 1);
    return f->classes && f->flags && f->has_class;
}

bool td_facts_find(td_facts *f, td_ir_edit *e)
{
    const td_ir *ir = td_ir_now(e);
    td_error error = {0};
    if (td_ir_failed(e)) return false;
    if (f->known && f->changes == td_ir_changes(e)) return true;
    if (!make_room(f, ir)) {
        td_no_memory(&error, "for what is known of a program");
        td_ir_fail(e, &error);
        return false;
    }
    for (uint32_t k = 0; k < ir->ntypes; k++) f->has_class[k] = type_has_class(f, ir, k);
    for (uint32_t k = 0; k < f->nclasses; k++) f->classes[k] = k;
    f->flags[TD_CLASS_ANY] = TD_CF_LEAVES | TD_CF_GRAD;
    unite_ends(f, ir);
    for (uint32_t n = 0; n < ir->nnodes; n++)
        if (alive(ir, n)) unite_node(f, ir, n);
    find_writes(f, ir);
    find_grads(f, ir);
    f->changes = td_ir_changes(e);
    f->known = true;
    return true;
}

void td_facts_deinit(td_facts *f)
{
    free(f->classes);
    free(f->flags);
    free(f->has_class);
    *f = (td_facts){0};
}

uint32_t td_class_of(td_facts *f, const td_ir *ir, uint32_t value)
{
    if (value >= f->nvalues) return TD_CLASS_ANY;
    return has_class(f, ir, value) ? root(f, value + 1) : TD_CLASS_NONE;
}

unsigned td_class_flags(td_facts *f, const td_ir *ir, uint32_t value)
{
    if (value >= f->nvalues) return TD_CF_WRITES | TD_CF_LEAVES | TD_CF_GRAD;
    return has_class(f, ir, value) ? f->flags[root(f, value + 1)] : 0;
}

void td_class_unite(td_facts *f, const td_ir *ir, uint32_t a, uint32_t b)
{
    if (a < f->nvalues && b < f->nvalues) unite_values(f, ir, a, b);
}

/* ---- what an op does */

/* The argument that is the op's attribute number `attr`. */
static uint32_t place_of_attr(const td_op *op, uint32_t attr)
{
    uint32_t k = 0;
    while (!(op->attrs_at >> k & 1) || attr--) k++;
    return k;
}

/* Some are written only if an attribute says so: running statistics in training. */
static bool is_off(const td_ir *ir, const td_ir_node *n, const td_param *p)
{
    td_literal l;
    if (!p->only_if) return false;
    uint32_t beside = td_ir_writes_beside(n, td_ir_row(n->op)), k = place_of_attr(td_ir_row(n->op), p->only_if - 1u);
    return td_constant(ir, ir->args[n->in + beside + k], &l) && l.kind == TD_L_BOOL && !l.small;
}

static bool row_writes(const td_ir *ir, const td_ir_node *n, uint32_t k)
{
    const td_op *op = td_ir_row(n->op);
    if (n->op & TD_IR_INPLACE && k == 0) return true;
    k -= td_ir_writes_beside(n, op);
    if (!op->mutates || op->attrs_at >> k & 1) return false;
    uint32_t param = 0;
    for (uint32_t i = 0; i < k; i++) param += !(op->attrs_at >> i & 1);
    return param < op->nparams && op->params[param].flags & TD_PF_MUTATED && !is_off(ir, n, &op->params[param]);
}

/* Beside what it writes in place. */
static bool row_mutates(const td_ir *ir, const td_ir_node *n)
{
    const td_op *op = td_ir_row(n->op);
    for (uint32_t k = 0; op->mutates && k < op->nparams; k++)
        if (op->params[k].flags & TD_PF_MUTATED && !is_off(ir, n, &op->params[k])) return true;
    return false;
}

bool td_reaches(const td_ir *ir, uint32_t node)
{
    uint32_t op = ir->nodes[node].op;
    switch (op & TD_IR_CLASS) {
    case TD_IR_TD: return false;
    case TD_IR_PRIM: return td_prim_by_id(op)->flags & TD_PRF_REACHES;
    default: return true;
    }
}

bool td_writes(const td_ir *ir, uint32_t node, uint32_t k)
{
    uint32_t op = ir->nodes[node].op;
    if (td_reaches(ir, node)) return true;
    if ((op & TD_IR_CLASS) == TD_IR_TD) return row_writes(ir, &ir->nodes[node], k);
    return k == 0 && td_prim_by_id(op)->flags & TD_PRF_MUTATES;
}

bool td_writes_any(const td_ir *ir, uint32_t node)
{
    uint32_t op = ir->nodes[node].op;
    switch (op & TD_IR_CLASS) {
    case TD_IR_TD: return op & TD_IR_INPLACE || row_mutates(ir, &ir->nodes[node]);
    case TD_IR_PRIM: return td_prim_by_id(op)->flags & (TD_PRF_MUTATES | TD_PRF_REACHES);
    default: return true;
    }
}

bool td_has_effect(const td_ir *ir, uint32_t node)
{
    uint32_t op = ir->nodes[node].op;
    switch (op & TD_IR_CLASS) {
    case TD_IR_TD: return td_ir_row(op)->flags & TD_OF_RANDOM;
    case TD_IR_PRIM: return td_prim_by_id(op)->flags & TD_PRF_EFFECT;
    default: return true;
    }
}
