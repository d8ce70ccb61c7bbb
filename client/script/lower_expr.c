/* Expressions. See lower.h. */
#include "client/script/lower.h"

uint32_t td_low_tuple(td_lower *l, uint32_t n, const uint32_t *values)
{
    uint32_t *types = td_low_array(l, n);
    for (uint32_t k = 0; k < n; k++) types[k] = td_low_type(l, values[k]);
    return td_low_op(l, TD_PRIM_TUPLECONSTRUCT, n, values, td_low_made(l, td_type_tuple(l->e, n, types)));
}

uint32_t td_low_item(td_lower *l, uint32_t tuple, uint32_t k)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t type = td_low_type(l, tuple), n = td_type_parts(ir, type), def = ir->values[tuple].def;
    if (!(def & TD_IR_PARAM) && ir->nodes[def].op == TD_PRIM_TUPLECONSTRUCT) return td_ir_in(ir, def, k);
    uint32_t *types = td_low_array(l, n);
    for (uint32_t i = 0; i < n; i++) types[i] = td_low_part(l, type, i);
    uint32_t node = td_low_made(l, td_ir_op(l->e, TD_PRIM_TUPLEUNPACK, 1, &tuple, n, types));
    return td_ir_out(td_ir_now(l->e), node, k);
}

/* The type that takes both of a list's items. */
static uint32_t item_type(td_lower *l, uint32_t node, uint32_t a, uint32_t b)
{
    uint32_t both = td_low_unify(l, a, b);
    td_type_kind ka = td_type_kind_of(td_ir_now(l->e), a), kb = td_type_kind_of(td_ir_now(l->e), b);
    if (both != TD_IR_NONE) return both;
    if (ka == TD_T_INT && kb == TD_T_FLOAT) return b;
    if (ka == TD_T_FLOAT && kb == TD_T_INT) return a;
    td_low_wrong(l, node, "a list has items of one type, not %s and %s; write a tuple", td_low_type_name(l, a),
                 td_low_type_name(l, b));
}

uint32_t td_low_list(td_lower *l, uint32_t node, uint32_t n, const uint32_t *values)
{
    uint32_t type = n ? td_low_type(l, values[0]) : td_low_plain(l, TD_T_NONE), *items = td_low_array(l, n);
    for (uint32_t k = 1; k < n; k++) type = item_type(l, node, type, td_low_type(l, values[k]));
    td_low_at(l, node);
    for (uint32_t k = 0; k < n; k++) items[k] = td_low_convert(l, node, values[k], type);
    return td_low_op(l, TD_PRIM_LISTCONSTRUCT, n, items, td_low_made(l, td_type_list(l->e, type)));
}

static uint32_t sequence(td_lower *l, uint32_t node, bool list)
{
    uint32_t n = td_low_node(l, node)->n, *values = td_low_array(l, n);
    if (td_low_has_star(l, node)) return td_low_starred(l, node, list);
    for (uint32_t k = 0; k < n; k++) values[k] = td_low_expr(l, td_low_kid(l, node, k));
    td_low_at(l, node);
    return list ? td_low_list(l, node, n, values) : td_low_tuple(l, n, values);
}

uint32_t td_low_dict(td_lower *l, uint32_t node, uint32_t n, uint32_t *values)
{
    uint32_t types[2] = {TD_IR_NONE, TD_IR_NONE};
    if (!n) types[0] = td_low_plain(l, TD_T_STR), types[1] = td_low_plain(l, TD_T_TENSOR); /* as in TorchScript */
    for (uint32_t k = 0; k < n; k++) {
        uint32_t type = td_low_type(l, values[k]),
                 at = td_low_node(l, node)->kind == TD_N_DICT ? td_low_kid(l, node, k) : node;
        types[k % 2] = k < 2 ? type : item_type(l, at, types[k % 2], type);
    }
    td_type_kind key = td_type_kind_of(td_ir_now(l->e), types[0]);
    if (key != TD_T_INT && key != TD_T_STR) td_low_wrong(l, node, "the keys of a dict are ints or texts");
    td_low_at(l, node);
    for (uint32_t k = 0; k < n; k++) values[k] = td_low_convert(l, node, values[k], types[k % 2]);
    return td_low_op(l, TD_PRIM_DICTCONSTRUCT, n, values, td_low_made(l, td_type_dict(l->e, types[0], types[1])));
}

static uint32_t dict(td_lower *l, uint32_t node)
{
    uint32_t n = td_low_node(l, node)->n, *values = td_low_array(l, n + 1);
    for (uint32_t k = 0; k < n; k += 2)
        if (!td_low_kid(l, node, k)) return td_low_starred_dict(l, node);
    for (uint32_t k = 0; k < n; k++) values[k] = td_low_expr(l, td_low_kid(l, node, k));
    return td_low_dict(l, node, n, values);
}

/* -5 and -(2 ** 63) are numbers. */
static bool negative(td_lower *l, uint32_t node, uint32_t *value)
{
    const td_ast_node *n = td_low_node(l, td_low_kid(l, node, 0));
    if (td_low_node(l, node)->op != TD_O_SUB || (n->kind != TD_N_INT && n->kind != TD_N_FLOAT)) return false;
    td_low_at(l, node);
    *value =
        td_low_made(l, n->kind == TD_N_FLOAT ? td_ir_float(l->e, -n->f) : td_ir_int(l->e, n->op ? INT64_MIN : -n->i));
    return true;
}

static uint32_t unary(td_lower *l, uint32_t node)
{
    uint32_t kid = td_low_kid(l, node, 0), value;
    if (negative(l, node, &value)) return value;
    if (td_low_node(l, node)->op != TD_O_NOT)
        return td_low_unary(l, node, td_low_node(l, node)->op, td_low_expr(l, kid));
    if (td_low_truth(l, node) != TD_SOMETIMES) return td_low_test(l, node);
    value = td_low_test(l, kid);
    td_low_at(l, node);
    return td_low_op(l, TD_PRIM_NOT, 1, &value, td_low_plain(l, TD_T_BOOL));
}

static uint32_t choice(td_lower *l, uint32_t node)
{
    uint32_t test = td_low_kid(l, node, 0);
    td_truth t = td_low_truth(l, test);
    if (t != TD_SOMETIMES) return td_low_expr(l, td_low_kid(l, node, t == TD_ALWAYS ? 1 : 2));
    td_branch b;
    uint32_t condition = td_low_test(l, test);
    if (td_low_is_code(l)) t = td_low_value_truth(l, condition); /* folded */
    if (t != TD_SOMETIMES) return td_low_expr(l, td_low_kid(l, node, t == TD_ALWAYS ? 1 : 2));
    td_low_at(l, node);
    td_low_if(l, &b, condition, node);
    td_low_refine(l, test, true);
    b.values[0] = td_low_expr(l, td_low_kid(l, node, 1));
    td_low_else(l, &b);
    td_low_refine(l, test, false);
    b.values[1] = td_low_expr(l, td_low_kid(l, node, 2));
    td_low_end_if(l, &b);
    return b.result;
}

static uint32_t name(td_lower *l, uint32_t node)
{
    uint32_t value;
    if (td_low_var(l, td_low_node(l, node)->text)) return td_low_get(l, node);
    td_low_at(l, node);
    if (td_low_constant_name(l, node, td_low_text(l, node), &value)) return value;
    td_low_wrong(l, node, "a program does not know '%.60s'%s", td_low_text(l, node),
                 td_low_near_name(l, td_low_text(l, node)));
}

static uint32_t constant(td_lower *l, uint32_t node)
{
    const td_ast_node *n = td_low_node(l, node);
    td_low_at(l, node);
    switch (n->kind) {
    case TD_N_INT: return td_low_made(l, td_ir_int(l->e, n->i));
    case TD_N_FLOAT: return td_low_made(l, td_ir_float(l->e, n->f));
    case TD_N_IMAGINARY: return td_low_made(l, td_ir_complex(l->e, 0, n->f));
    case TD_N_BOOL: return td_low_made(l, td_ir_bool(l->e, n->i));
    case TD_N_STRING: return td_low_made(l, td_ir_str(l->e, td_low_text(l, node), l->ast->texts[n->text].size));
    case TD_N_NONE: return td_low_made(l, td_ir_none(l->e));
    case TD_N_STARRED: td_low_wrong(l, node, "a program cannot unpack here; write each item");
    default: td_low_wrong(l, node, "this is no value; it stands in [ ] only");
    }
}

static uint32_t any(td_lower *l, uint32_t node)
{
    uint32_t a, b;
    switch (td_low_node(l, node)->kind) {
    case TD_N_NAME: return name(l, node);
    case TD_N_TUPLE: return sequence(l, node, false);
    case TD_N_LIST: return sequence(l, node, true);
    case TD_N_DICT: return dict(l, node);
    case TD_N_UNARY: return unary(l, node);
    case TD_N_BINARY:
        a = td_low_expr(l, td_low_kid(l, node, 0)), b = td_low_expr(l, td_low_kid(l, node, 1));
        return td_low_binary(l, node, td_low_node(l, node)->op, a, b, false);
    case TD_N_LOGIC: return td_low_logic(l, node);
    case TD_N_COMPARE: return td_low_compare(l, node);
    case TD_N_CHOICE: return choice(l, node);
    case TD_N_CALL: return td_low_call(l, node);
    case TD_N_ATTRIBUTE: return td_low_attribute(l, node);
    case TD_N_SUBSCRIPT: return td_low_subscript(l, node);
    case TD_N_DICT_COMP:
    case TD_N_LIST_COMP: return td_low_comprehension(l, node);
    case TD_N_FORMAT: return td_low_format_string(l, node);
    case TD_N_GIVEN: return l->given[node & ~TD_LOW_GIVEN]->value;
    default: return constant(l, node);
    }
}

uint32_t td_low_expr(td_lower *l, uint32_t node)
{
    enum { DEEP = 800 }; /* of expressions, also through functions that call each other */
    if (l->deep == DEEP) td_low_wrong(l, node, "calls and expressions are nested more than %d deep", DEEP);
    l->deep++;
    uint32_t value = any(l, node);
    l->deep--;
    return value;
}

uint32_t td_low_expr_for(td_lower *l, uint32_t node, td_type_kind wanted)
{
    uint32_t outer = l->wanted_node;
    td_type_kind was = l->wanted;
    l->wanted_node = node, l->wanted = wanted;
    uint32_t value = td_low_expr(l, node);
    l->wanted_node = outer, l->wanted = was;
    return value;
}

td_type_kind td_low_wanted_by(td_lower *l, uint32_t type)
{
    const td_ir *ir = td_ir_now(l->e);
    td_type_kind kind = type == TD_IR_NONE ? TD_T_NONE : td_type_kind_of(ir, type);
    if (kind == TD_T_OPTIONAL) kind = td_type_kind_of(ir, td_low_part(l, type, 0));
    return kind == TD_T_INT || kind == TD_T_COMPLEX ? kind : TD_T_NONE;
}
