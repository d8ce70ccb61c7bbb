/* See quick.h. */
#include "daemon/graph/quick.h"
#include "proto/program/literal.h"
#include "proto/program/prim.h"

bool td_quick_do(const td_quick *q, td_val *at)
{
    const td_val *a = &at[q->a], *b = &at[q->b];
    td_val *out = &at[q->out];
    bool ints = a->kind == TD_T_INT && b->kind == TD_T_INT, floats = a->kind == TD_T_FLOAT && b->kind == TD_T_FLOAT,
         bools = a->kind == TD_T_BOOL && b->kind == TD_T_BOOL;
    int64_t i;
    switch (q->prim) {
    case TD_PRIM_AND_INT: return ints && (*out = td_val_int(a->i & b->i), true);
    case TD_PRIM_OR_INT: return ints && (*out = td_val_int(a->i | b->i), true);
    case TD_PRIM_XOR_INT: return ints && (*out = td_val_int(a->i ^ b->i), true);
    case TD_PRIM_MIN_INT: return ints && (*out = td_val_int(a->i < b->i ? a->i : b->i), true);
    case TD_PRIM_MAX_INT: return ints && (*out = td_val_int(a->i > b->i ? a->i : b->i), true);
    case TD_PRIM_EQ_INT: return ints && (*out = td_val_bool(a->i == b->i), true);
    case TD_PRIM_NE_INT: return ints && (*out = td_val_bool(a->i != b->i), true);
    case TD_PRIM_LT_INT: return ints && (*out = td_val_bool(a->i < b->i), true);
    case TD_PRIM_LE_INT: return ints && (*out = td_val_bool(a->i <= b->i), true);
    case TD_PRIM_GT_INT: return ints && (*out = td_val_bool(a->i > b->i), true);
    case TD_PRIM_GE_INT: return ints && (*out = td_val_bool(a->i >= b->i), true);
    case TD_PRIM_ADD_FLOAT: return floats && (*out = td_val_float(a->re + b->re), true);
    case TD_PRIM_SUB_FLOAT: return floats && (*out = td_val_float(a->re - b->re), true);
    case TD_PRIM_MUL_FLOAT: return floats && (*out = td_val_float(a->re * b->re), true);
    case TD_PRIM_LT_FLOAT: return floats && (*out = td_val_bool(a->re < b->re), true);
    case TD_PRIM_LE_FLOAT: return floats && (*out = td_val_bool(a->re <= b->re), true);
    case TD_PRIM_GT_FLOAT: return floats && (*out = td_val_bool(a->re > b->re), true);
    case TD_PRIM_GE_FLOAT: return floats && (*out = td_val_bool(a->re >= b->re), true);
    case TD_PRIM_AND_BOOL: return bools && (*out = td_val_bool(a->i && b->i), true);
    case TD_PRIM_OR_BOOL: return bools && (*out = td_val_bool(a->i || b->i), true);
    case TD_PRIM_CONSTANT: *out = (td_val){.kind = q->kind, .i = q->i}; return true;
    case TD_PRIM_NOT: return a->kind == TD_T_BOOL && (*out = td_val_bool(!a->i), true);
    case TD_PRIM_FLOAT_INT: return a->kind == TD_T_INT && (*out = td_val_float((double)a->i), true);
    case TD_PRIM_ADD_INT: return ints && !__builtin_add_overflow(a->i, b->i, &i) && (*out = td_val_int(i), true);
    case TD_PRIM_SUB_INT: return ints && !__builtin_sub_overflow(a->i, b->i, &i) && (*out = td_val_int(i), true);
    case TD_PRIM_MUL_INT: return ints && !__builtin_mul_overflow(a->i, b->i, &i) && (*out = td_val_int(i), true);
    case TD_PRIM_FLOORDIV_INT:
        if (!ints || b->i <= 0) return false;
        *out = td_val_int(a->i / b->i - (a->i % b->i < 0));
        return true;
    case TD_PRIM_MOD_INT:
        if (!ints || b->i <= 0) return false;
        i = a->i % b->i;
        *out = td_val_int(i < 0 ? i + b->i : i);
        return true;
    case TD_PRIM_TRUEDIV_FLOAT:
        if (!floats || b->re == 0) return false;
        *out = td_val_float(a->re / b->re);
        return true;
    default: return false;
    }
}

/* A constant that is one number. */
static bool find_constant(const td_ir *ir, const td_ir_node *x, td_quick *q)
{
    td_literal l;
    if (!x->nwords || td_literal_get(ir->words + x->word, x->nwords, &l) != x->nwords) return false;
    if (l.kind == TD_L_INT) q->kind = TD_T_INT, q->i = l.i;
    else if (l.kind == TD_L_FLOAT) q->kind = TD_T_FLOAT, q->re = l.re;
    else if (l.kind == TD_L_BOOL) q->kind = TD_T_BOOL, q->i = l.small;
    else return false;
    return true;
}

static bool makes_number(const td_ir *ir, uint32_t node)
{
    td_type_kind kind = td_type_kind_of(ir, ir->values[td_ir_out(ir, node, 0)].type);
    return kind == TD_T_INT || kind == TD_T_FLOAT || kind == TD_T_BOOL;
}

void td_quick_find(const td_ir *ir, td_quick *out)
{
    for (uint32_t n = 0; n < ir->nnodes; n++) {
        const td_ir_node *x = &ir->nodes[n];
        td_quick q = {.prim = (uint16_t)(x->op & TD_IR_NUMBER)};
        out[n] = (td_quick){0};
        if ((x->op & TD_IR_CLASS) != TD_IR_PRIM || x->nout != 1 || x->nin > 2 || !makes_number(ir, n)) continue;
        if (q.prim == TD_PRIM_CONSTANT ? !find_constant(ir, x, &q) : !x->nin) continue;
        q.out = td_ir_out(ir, n, 0);
        q.a = x->nin ? td_ir_in(ir, n, 0) : q.out;
        q.b = x->nin > 1 ? td_ir_in(ir, n, 1) : q.a;
        out[n] = q;
    }
}
