/* Variables of several types: x: Union[int, str]. The IR has no value of several types, so where two ways leave two of
 * them it is a tuple, which has for each type what may be None, and one of them is not. No expression sees it, only
 * isinstance(), behind which the variable is one of these again. See lower.h. */
#include "client/script/lower.h"

enum { MOST = 8 }; /* types */

typedef struct members {
    uint32_t types[MOST], n;
} members;

static bool add(members *m, uint32_t type)
{
    for (uint32_t k = 0; k < m->n; k++)
        if (m->types[k] == type) return true;
    if (m->n == MOST) return false;
    m->types[m->n++] = type;
    return true;
}

/* Those of a variable, too; false: what may be None is none of several. */
static bool add_all(td_lower *l, members *m, const td_var *v)
{
    uint32_t type = v->value == TD_IR_NONE ? TD_IR_NONE : td_low_type(l, v->value);
    if (type == TD_IR_NONE) return false;
    td_type_kind kind = td_low_kind(l, v->value);
    if (v->state == TD_VAR_SET) return kind != TD_T_NONE && kind != TD_T_OPTIONAL && add(m, type);
    for (uint32_t k = 0; k < td_type_parts(td_ir_now(l->e), type); k++)
        if (!add(m, td_low_part(l, td_low_part(l, type, k), 0))) return false;
    return true;
}

static uint32_t optional(td_lower *l, uint32_t type)
{
    return td_low_made(l, td_type_optional(l->e, type));
}

/* The tuple of these items, which have such types but for None. */
static uint32_t tuple_of(td_lower *l, const members *m, const uint32_t *items)
{
    uint32_t types[MOST];
    for (uint32_t k = 0; k < m->n; k++) types[k] = optional(l, m->types[k]);
    return td_low_op(l, TD_PRIM_TUPLECONSTRUCT, m->n, items, td_low_made(l, td_type_tuple(l->e, m->n, types)));
}

/* The item of this type; None: it has another one. */
static uint32_t item_of(td_lower *l, const td_var *v, uint32_t type, uint32_t place)
{
    uint32_t all = td_low_type(l, v->value), item = TD_IR_NONE;
    if (v->state == TD_VAR_SET && all == type) item = v->value;
    for (uint32_t k = 0; v->state != TD_VAR_SET && k < td_type_parts(td_ir_now(l->e), all); k++)
        if (td_low_part(l, td_low_part(l, all, k), 0) == type) return td_low_item(l, v->value, k);
    if (item == TD_IR_NONE) item = td_low_made(l, td_ir_none(l->e));
    return td_low_convert(l, place, item, optional(l, type));
}

bool td_low_mix(td_lower *l, td_branch *b, const td_var *x, const td_var *y, uint32_t pair[2])
{
    const td_var *of[2] = {x, y};
    uint32_t items[MOST];
    members m = {.n = 0};
    if (!add_all(l, &m, x) || !add_all(l, &m, y)) return false;
    for (unsigned arm = 0; arm < 2; arm++) {
        td_ir_to_end(l->e, td_ir_child(l->e, b->node, arm));
        for (uint32_t k = 0; k < m.n; k++) items[k] = item_of(l, of[arm], m.types[k], b->place);
        pair[arm] = tuple_of(l, &m, items);
    }
    return true;
}

/* ---- tests */

td_var *td_low_mixed_test(td_lower *l, uint32_t call)
{
    uint32_t of = td_low_is_isinstance(l, call) ? td_low_kid(l, call, 1) : 0;
    td_var *v = of && td_low_node(l, of)->kind == TD_N_NAME ? td_low_var(l, td_low_node(l, of)->text) : NULL;
    return v && v->several && v->state == TD_VAR_MIXED && v->value != TD_IR_NONE ? v : NULL;
}

/* How many of its types are such; `which` in turn: bit k of those. */
static uint32_t which(td_lower *l, const td_var *v, uint32_t call, uint32_t *n)
{
    uint32_t type = td_low_type(l, v->value), found = 0;
    *n = td_type_parts(td_ir_now(l->e), type);
    for (uint32_t k = 0; k < *n; k++)
        if (td_low_is_instance(l, td_low_part(l, td_low_part(l, type, k), 0), td_low_kid(l, call, 2))) found |= 1u << k;
    return found;
}

td_truth td_low_mixed_truth(td_lower *l, const td_var *v, uint32_t call)
{
    uint32_t n, found = which(l, v, call, &n);
    return !found ? TD_NEVER : found == (1u << n) - 1 ? TD_ALWAYS : TD_SOMETIMES;
}

uint32_t td_low_mixed_is(td_lower *l, const td_var *v, uint32_t call)
{
    uint32_t n, found = which(l, v, call, &n), result = TD_IR_NONE, boolean = td_low_plain(l, TD_T_BOOL);
    td_low_at(l, call);
    for (uint32_t k = 0; k < n; k++) {
        if (!(found >> k & 1)) continue;
        uint32_t item = td_low_item(l, v->value, k), none = td_low_op(l, TD_PRIM_IS_NONE, 1, &item, boolean);
        uint32_t is = td_low_op(l, TD_PRIM_NOT, 1, &none, boolean);
        result = result == TD_IR_NONE ? is : td_low_prim(l, call, "or", 2, (uint32_t[]){result, is});
    }
    return result == TD_IR_NONE ? td_low_made(l, td_ir_bool(l->e, false)) : result;
}

void td_low_mixed_refine(td_lower *l, td_var *v, uint32_t call, bool holds)
{
    uint32_t n, found = which(l, v, call, &n), items[MOST], type = td_low_type(l, v->value);
    members m = {.n = 0};
    td_low_at(l, call);
    for (uint32_t k = 0; k < n; k++) {
        if ((found >> k & 1) != holds) continue;
        items[m.n] = td_low_item(l, v->value, k);
        m.types[m.n++] = td_low_part(l, td_low_part(l, type, k), 0);
    }
    if (m.n == 0 || m.n == n) return;
    if (m.n > 1) {
        v->value = tuple_of(l, &m, items);
        return;
    }
    v->value = td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, items, m.types[0]);
    v->state = TD_VAR_SET;
}
