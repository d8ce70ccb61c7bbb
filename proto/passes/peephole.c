/* 7, peephole: a few nodes beside one another become fewer.
 *
 * Tensor ops are left alone where a bit could change: a gradient that is summed in another order, a result that would
 * share memory with something that is written. So a view of a view that undoes it goes only where each step has one
 * user (or no gradient passes), and what makes something new only where nobody could tell. */
#include "proto/ops/opid.h"
#include "proto/passes/facts.h"
#include "proto/passes/passes.h"

#include <math.h>

typedef struct peep {
    td_ir_edit *e;
    const td_ir *ir;
    td_facts *f;
    uint32_t node;
} peep;

static uint32_t in(const peep *p, uint32_t k)
{
    return td_ir_in(p->ir, p->node, k);
}

static uint32_t out(const peep *p)
{
    return td_ir_out(p->ir, p->node, 0);
}

static bool becomes(const peep *p, uint32_t value)
{
    return td_put_instead(p->e, out(p), value);
}

/* ---- numbers */

static bool is_int(const peep *p, uint32_t k, int64_t v)
{
    int64_t i;
    return td_constant_int(p->ir, in(p, k), &i) && i == v;
}

/* -0.0 is no 0.0 here. */
static bool is_float(const peep *p, uint32_t k, double v)
{
    td_literal l;
    return td_constant(p->ir, in(p, k), &l) && l.kind == TD_L_FLOAT && l.re == v && signbit(l.re) == signbit(v);
}

/* What leaves the other argument as it is. (x + 0.0 does not: of -0.0 it makes 0.0.) */
static bool neutral(const peep *p)
{
    switch (p->ir->nodes[p->node].op) {
    case TD_PRIM_ADD_INT:
    case TD_PRIM_OR_INT:
    case TD_PRIM_XOR_INT: return (is_int(p, 1, 0) && becomes(p, in(p, 0))) || (is_int(p, 0, 0) && becomes(p, in(p, 1)));
    case TD_PRIM_MUL_INT: return (is_int(p, 1, 1) && becomes(p, in(p, 0))) || (is_int(p, 0, 1) && becomes(p, in(p, 1)));
    case TD_PRIM_SUB_INT:
    case TD_PRIM_LSHIFT:
    case TD_PRIM_RSHIFT: return is_int(p, 1, 0) && becomes(p, in(p, 0));
    case TD_PRIM_FLOORDIV_INT:
    case TD_PRIM_POW_INT: return is_int(p, 1, 1) && becomes(p, in(p, 0));
    case TD_PRIM_SUB_FLOAT: return is_float(p, 1, 0) && becomes(p, in(p, 0));
    case TD_PRIM_MUL_FLOAT:
        return (is_float(p, 1, 1) && becomes(p, in(p, 0))) || (is_float(p, 0, 1) && becomes(p, in(p, 1)));
    case TD_PRIM_TRUEDIV_FLOAT: return is_float(p, 1, 1) && becomes(p, in(p, 0));
    default: return false;
    }
}

/* Twice the same is what it was. */
static bool undone(const peep *p)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), p->ir->nodes[p->node].op);
    return inner != TD_IR_NONE && becomes(p, td_ir_in(p->ir, inner, 0));
}

static bool made_from(const peep *p, uint32_t op)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), op);
    return inner != TD_IR_NONE && becomes(p, td_ir_in(p->ir, inner, 0));
}

/* ---- containers */

static bool unpack(const peep *p, uint32_t construct)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), construct), n = p->ir->nodes[p->node].nout;
    bool changed = false;
    if (inner == TD_IR_NONE || p->ir->nodes[inner].nin != n) return false;
    if (construct == TD_PRIM_LISTCONSTRUCT && td_class_flags(p->f, p->ir, in(p, 0)) & TD_CF_WRITES) return false;
    for (uint32_t k = 0; k < n; k++)
        changed |= td_put_instead(p->e, td_ir_out(p->ir, p->node, k), td_ir_in(p->ir, inner, k));
    return changed;
}

/* A cast that says nothing new. */
static bool cast(const peep *p)
{
    return p->ir->values[in(p, 0)].type == p->ir->values[out(p)].type && becomes(p, in(p, 0));
}

static bool turn_if(const peep *p)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), TD_PRIM_NOT);
    if (inner == TD_IR_NONE) return false;
    td_ir_set_in(p->e, p->node, 0, td_ir_in(p->ir, inner, 0));
    td_ir_swap_arms(p->e, p->node);
    return true;
}

/* ---- views */

/* Nothing that is written, returned or differentiated tells the two apart: along each step nobody else looks, or no
 * gradient passes there. */
static bool unseen(const peep *p, uint32_t inner)
{
    uint32_t x = td_ir_in(p->ir, inner, 0);
    if (p->ir->nodes[p->node].mode || p->ir->nodes[inner].mode) return false;
    unsigned flags = td_class_flags(p->f, p->ir, x);
    if (!(flags & TD_CF_GRAD)) return true;
    return !(flags & TD_CF_WRITES) && td_ir_uses(p->e, x) == 1 && td_ir_uses(p->e, in(p, 0)) == 1 &&
           td_ir_uses(p->e, out(p)) == 1;
}

static bool view_undone(const peep *p, uint32_t inner)
{
    return unseen(p, inner) && becomes(p, td_ir_in(p->ir, inner, 0));
}

static bool transpose(const peep *p)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), TD_IR_TD | TD_OP_TRANSPOSE);
    int64_t a[2], b[2];
    if (inner == TD_IR_NONE) return false;
    for (uint32_t k = 0; k < 2; k++)
        if (!td_constant_int(p->ir, in(p, k + 1), &a[k]) ||
            !td_constant_int(p->ir, td_ir_in(p->ir, inner, k + 1), &b[k]))
            return false;
    bool same = (a[0] == b[0] && a[1] == b[1]) || (a[0] == b[1] && a[1] == b[0]);
    return same && view_undone(p, inner);
}

static bool permute(const peep *p)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), TD_IR_TD | TD_OP_PERMUTE);
    int64_t a[TD_MAX_DIMS], b[TD_MAX_DIMS];
    if (inner == TD_IR_NONE || td_class_flags(p->f, p->ir, in(p, 1)) & TD_CF_WRITES ||
        td_class_flags(p->f, p->ir, td_ir_in(p->ir, inner, 1)) & TD_CF_WRITES)
        return false;
    int n = td_constant_ints(p->ir, in(p, 1), TD_MAX_DIMS, a);
    if (n < 0 || td_constant_ints(p->ir, td_ir_in(p->ir, inner, 1), TD_MAX_DIMS, b) != n) return false;
    for (int k = 0; k < n; k++) {
        int64_t via = a[k] < 0 ? a[k] + n : a[k];
        if (via < 0 || via >= n || (b[via] < 0 ? b[via] + n : b[via]) != k) return false;
    }
    return view_undone(p, inner);
}

static bool t(const peep *p)
{
    uint32_t inner = td_made_by(p->ir, in(p, 0), TD_IR_TD | TD_OP_T);
    return inner != TD_IR_NONE && view_undone(p, inner);
}

/* The inner result has no other user, so that nobody sees it. */
static bool twice(const peep *p)
{
    uint32_t op = p->ir->nodes[p->node].op, inner = td_made_by(p->ir, in(p, 0), op);
    if (inner == TD_IR_NONE || p->ir->nodes[inner].mode != p->ir->nodes[p->node].mode ||
        td_ir_uses(p->e, in(p, 0)) != 1 || !becomes(p, in(p, 0)))
        return false;
    td_class_unite(p->f, p->ir, in(p, 0), out(p));
    return true;
}

/* ---- */

static bool look(const peep *p)
{
    switch (p->ir->nodes[p->node].op) {
    case TD_PRIM_NOT:
    case TD_PRIM_INVERT:
    case TD_PRIM_NEG_FLOAT: return undone(p);
    case TD_PRIM_BOOL_INT: return made_from(p, TD_PRIM_INT_BOOL);
    case TD_PRIM_BOOL_FLOAT: return made_from(p, TD_PRIM_FLOAT_BOOL);
    case TD_PRIM_REAL: return made_from(p, TD_PRIM_COMPLEX_PARTS) || made_from(p, TD_PRIM_COMPLEX_FLOAT);
    case TD_PRIM_TUPLEUNPACK: return unpack(p, TD_PRIM_TUPLECONSTRUCT);
    case TD_PRIM_LISTUNPACK: return unpack(p, TD_PRIM_LISTCONSTRUCT);
    case TD_PRIM_UNCHECKED_CAST: return cast(p);
    case TD_PRIM_IF: return turn_if(p);
    case TD_IR_TD | TD_OP_T: return t(p);
    case TD_IR_TD | TD_OP_TRANSPOSE: return transpose(p);
    case TD_IR_TD | TD_OP_PERMUTE: return permute(p);
    case TD_IR_TD | TD_OP_DETACH:
    case TD_IR_TD | TD_OP_RELU: return twice(p);
    default: return neutral(p);
    }
}

bool td_pass_peephole(td_ir_edit *e, td_facts *f)
{
    const td_ir *ir = td_ir_now(e);
    bool changed = false;
    if (!td_facts_find(f, e)) return false;
    for (uint32_t k = 0; k < ir->nfunctions; k++)
        for (td_ir_walk w = td_walk_of(ir, ir->functions[k].block); w.step != TD_STEP_OVER; td_walk_on(&w))
            if (w.step == TD_STEP_NODE) changed |= look(&(peep){e, ir, f, w.node});
    return changed;
}
