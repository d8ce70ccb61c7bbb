/* Comparisons of what has parts: tuples, lists, dicts, and of what may be None. See lower.h.
 *
 * Of tuples they are comparisons of the items, in place; of lists and dicts loops of the prelude (values.py), which
 * compare their items so again. */
#include "client/script/lower.h"

static uint32_t truth(td_lower *l, bool is)
{
    return td_low_made(l, td_ir_bool(l->e, is));
}

static uint32_t logic(td_lower *l, uint32_t op, uint32_t a, uint32_t b)
{
    return td_low_op(l, op, 2, (uint32_t[]){a, b}, td_low_plain(l, TD_T_BOOL));
}

/* A comparison of two items, which is a bool. */
static uint32_t of_items(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b)
{
    if (td_low_kind(l, a) == TD_T_TENSOR || td_low_kind(l, b) == TD_T_TENSOR)
        td_low_wrong(l, node, "'%s' of tuples, lists and dicts takes no Tensors in them", td_ast_op_text(op));
    uint32_t value = td_low_binary(l, node, op, a, b, false);
    td_low_at(l, node);
    return value;
}

/* Functions of values.py that compare items, which are smaller than what they are items of. */
static uint32_t of_prelude(td_lower *l, uint32_t node, const char *kind, const char *name, uint32_t a, uint32_t b)
{
    struct td_low_active *active = l->active;
    uint32_t result = TD_IR_NONE, both[2] = {a, b};
    l->active = NULL;
    td_low_prelude_of(l, node, kind, name, 2, both, &result);
    l->active = active;
    return result;
}

/* ---- tuples */

static uint32_t equal_tuples(td_lower *l, uint32_t node, uint32_t a, uint32_t b, uint32_t n)
{
    uint32_t all = TD_IR_NONE;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t one = of_items(l, node, TD_O_EQ, td_low_item(l, a, k), td_low_item(l, b, k));
        all = k ? logic(l, TD_PRIM_AND_BOOL, all, one) : one;
    }
    return n ? all : truth(l, true);
}

/* By the first items that differ; where none does the longer one is more. */
static uint32_t less_tuples(td_lower *l, uint32_t node, uint32_t a, uint32_t b, uint32_t na, uint32_t nb)
{
    uint32_t less = truth(l, na < nb);
    for (uint32_t k = na < nb ? na : nb; k-- > 0;) {
        uint32_t x = td_low_item(l, a, k), y = td_low_item(l, b, k), one = of_items(l, node, TD_O_LT, x, y);
        less = logic(l, TD_PRIM_AND_BOOL, of_items(l, node, TD_O_EQ, x, y), less);
        less = logic(l, TD_PRIM_OR_BOOL, one, less);
    }
    return less;
}

static uint32_t tuples(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t na = td_type_parts(ir, td_low_type(l, a)), nb = td_type_parts(ir, td_low_type(l, b));
    if (op == TD_O_LT) return less_tuples(l, node, a, b, na, nb);
    return na == nb ? equal_tuples(l, node, a, b, na) : truth(l, false);
}

/* ---- what may be None */

static uint32_t inside(td_lower *l, uint32_t value)
{
    if (td_low_kind(l, value) != TD_T_OPTIONAL) return value;
    return td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, &value, td_low_part(l, td_low_type(l, value), 0));
}

static uint32_t is_none(td_lower *l, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    if (kind != TD_T_OPTIONAL) return truth(l, kind == TD_T_NONE);
    return td_low_op(l, TD_PRIM_IS_NONE, 1, &value, td_low_plain(l, TD_T_BOOL));
}

/* Equal are None and None, and two others that are. */
static uint32_t equal_maybe(td_lower *l, uint32_t node, uint32_t a, uint32_t b)
{
    if (td_low_kind(l, a) == TD_T_NONE) return is_none(l, b);
    if (td_low_kind(l, b) == TD_T_NONE) return is_none(l, a);
    uint32_t none = is_none(l, a), either = logic(l, TD_PRIM_OR_BOOL, none, is_none(l, b));
    td_branch branch;
    td_low_if(l, &branch, either, node);
    branch.values[0] = logic(l, TD_PRIM_AND_BOOL, none, is_none(l, b));
    td_low_else(l, &branch);
    branch.values[1] = of_items(l, node, TD_O_EQ, inside(l, a), inside(l, b));
    td_low_end_if(l, &branch);
    return branch.result;
}

static bool maybe(td_lower *l, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    return kind == TD_T_NONE || kind == TD_T_OPTIONAL;
}

/* ---- all */

/* '==' or '<'; TD_IR_NONE: it is not for these. */
static uint32_t compared(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b)
{
    td_type_kind ka = td_low_kind(l, a), kb = td_low_kind(l, b);
    if (op == TD_O_EQ && (maybe(l, a) || maybe(l, b))) return equal_maybe(l, node, a, b);
    if (ka != kb) return TD_IR_NONE;
    if (ka == TD_T_TUPLE) return tuples(l, node, op, a, b);
    if (ka == TD_T_LIST) return of_prelude(l, node, "list", op == TD_O_EQ ? "eq" : "lt", a, b);
    return ka == TD_T_DICT && op == TD_O_EQ ? of_prelude(l, node, "dict", "eq", a, b) : TD_IR_NONE;
}

bool td_low_compared(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b, uint32_t *result)
{
    if (op < TD_O_EQ || op > TD_O_GE) return false;
    bool turned = op == TD_O_GT || op == TD_O_LE, not = op == TD_O_NE || op == TD_O_GE || op == TD_O_LE;
    unsigned as = op == TD_O_EQ || op == TD_O_NE ? TD_O_EQ : TD_O_LT;
    *result = compared(l, node, as, turned ? b : a, turned ? a : b);
    if (*result == TD_IR_NONE) return false;
    td_low_at(l, node);
    if (not ) *result = td_low_op(l, TD_PRIM_NOT, 1, result, td_low_plain(l, TD_T_BOOL));
    return true;
}

uint32_t td_low_contains(td_lower *l, uint32_t node, uint32_t in, uint32_t item)
{
    uint32_t result, args[2] = {in, item};
    td_low_at(l, node);
    if (td_low_has_prim(l, "contains", 2, args, &result)) return result;
    if (td_low_kind(l, in) == TD_T_LIST) return of_prelude(l, node, "list", "contains", in, item);
    return td_low_prim(l, node, "contains", 2, args);
}

bool td_low_sort(td_lower *l, uint32_t node, uint32_t list, uint32_t reverse)
{
    return td_low_kind(l, list) == TD_T_LIST && of_prelude(l, node, "list", "sort", list, reverse) != TD_IR_NONE;
}
