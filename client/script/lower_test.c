/* Conditions: what is known without running, truth values, 'and' and 'or', comparisons, and what a test says of a
 * variable. See lower.h. */
#include "client/script/lower.h"
#include "proto/base/dtype.h"

static bool is_local(td_lower *l, uint32_t node)
{
    return td_low_node(l, node)->kind == TD_N_NAME && td_low_var(l, td_low_node(l, node)->text);
}

/* ---- isinstance(x, T) */

bool td_low_is_isinstance(td_lower *l, uint32_t node)
{
    const td_ast_node *n = td_low_node(l, node);
    uint32_t f = td_low_kid(l, node, 0);
    char path[64];
    const char *rest;
    if (n->kind != TD_N_CALL || n->n != 3) return false;
    if (td_low_node(l, f)->kind == TD_N_NAME)
        return strcmp(td_low_text(l, f), "isinstance") == 0 && !td_low_var(l, td_low_node(l, f)->text);
    if (td_low_node(l, f)->kind != TD_N_ATTRIBUTE || strcmp(td_low_text(l, f), "isinstance") != 0) return false;
    const td_script_name *from = td_low_path(l, f, path, sizeof path) ? td_low_known(l, path, &rest) : NULL;
    return from && from->kind == TD_SN_TENSORS; /* td.jit.isinstance() */
}

/* Is a value of this type an instance of what stands there? */
bool td_low_is_instance(td_lower *l, uint32_t type, uint32_t of)
{
    static const struct {
        const char *name;
        td_type_kind kind;
    } table[] = {{"Tensor", TD_T_TENSOR}, {"Parameter", TD_T_TENSOR}, {"int", TD_T_INT},    {"int", TD_T_BOOL},
                 {"float", TD_T_FLOAT},   {"bool", TD_T_BOOL},        {"str", TD_T_STR},    {"complex", TD_T_COMPLEX},
                 {"list", TD_T_LIST},     {"tuple", TD_T_TUPLE},      {"dict", TD_T_DICT},  {"List", TD_T_LIST},
                 {"Tuple", TD_T_TUPLE},   {"Dict", TD_T_DICT},        {"dtype", TD_T_DTYPE}};
    const td_ast_node *n = td_low_node(l, of);
    td_type_kind kind = td_type_kind_of(td_ir_now(l->e), type);
    if (n->kind == TD_N_TUPLE) {
        for (uint32_t k = 0; k < n->n; k++)
            if (td_low_is_instance(l, type, td_low_kid(l, of, k))) return true;
        return false;
    }
    if (n->kind == TD_N_SUBSCRIPT || n->kind == TD_N_BINARY || td_low_meant(l, of) != of)
        return td_low_is_of(l, type, of);
    if (n->kind != TD_N_NAME && n->kind != TD_N_ATTRIBUTE) td_low_wrong(l, of, "this is no type");
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind && strcmp(table[i].name, td_low_text(l, of)) == 0) return true;
    return false;
}

/* Optional[int], int | None */
static bool takes_none(td_lower *l, uint32_t of)
{
    unsigned kind = td_low_node(l, of = td_low_meant(l, of))->kind;
    return (kind == TD_N_SUBSCRIPT || kind == TD_N_BINARY) && td_low_is_of(l, td_low_plain(l, TD_T_NONE), of);
}

/* Types say it, unless it may be None: then *some, and it is the same as "is not None". */
static bool instance_truth(td_lower *l, uint32_t call, uint32_t type, bool *some)
{
    bool optional = td_type_kind_of(td_ir_now(l->e), type) == TD_T_OPTIONAL;
    *some = false;
    bool none = optional && takes_none(l, td_low_kid(l, call, 2));
    if (none && td_low_is_instance(l, type, td_low_kid(l, call, 2))) return true;
    if (none) td_low_wrong(l, call, "this holds of None alone; test 'is None'");
    bool is = td_low_is_instance(l, optional ? td_low_part(l, type, 0) : type, td_low_kid(l, call, 2));
    *some = is && optional;
    return is;
}

uint32_t td_low_isinstance(td_lower *l, uint32_t call)
{
    td_var *v = td_low_mixed_test(l, call);
    if (v) return td_low_mixed_is(l, v, call);
    uint32_t value = td_low_expr(l, td_low_kid(l, call, 1));
    bool some, is = instance_truth(l, call, td_low_type(l, value), &some);
    td_low_at(l, call);
    if (!some) return td_low_made(l, td_ir_bool(l->e, is));
    value = td_low_op(l, TD_PRIM_IS_NONE, 1, &value, td_low_plain(l, TD_T_BOOL));
    return td_low_op(l, TD_PRIM_NOT, 1, &value, td_low_plain(l, TD_T_BOOL));
}

/* ---- what is known */

/* "is None", "== None" and their opposites. */
static bool is_by_none(const td_lower *l, uint32_t to)
{
    unsigned op = td_low_node(l, to)->op;
    bool one = op == TD_O_IS || op == TD_O_IS_NOT || op == TD_O_EQ || op == TD_O_NE;
    return one && td_low_node(l, td_low_kid(l, to, 0))->kind == TD_N_NONE;
}

/* "x is None" or "x is not None" of a local; isinstance() of one that may be None. */
static td_var *none_test(td_lower *l, uint32_t test, bool *is)
{
    const td_ast_node *n = td_low_node(l, test);
    bool some;
    if (td_low_is_isinstance(l, test) && is_local(l, td_low_kid(l, test, 1))) {
        td_var *v = td_low_var(l, td_low_node(l, td_low_kid(l, test, 1))->text);
        *is = false;
        return v->state == TD_VAR_SET && instance_truth(l, test, td_low_type(l, v->value), &some) && some ? v : NULL;
    }
    uint32_t of = td_low_is_code(l) ? td_low_code_none_test(l, test, is) : 0;
    if (of) {
        td_var *v = is_local(l, of) ? td_low_var(l, td_low_node(l, of)->text) : NULL;
        return v && v->state == TD_VAR_SET ? v : NULL;
    }
    if (n->kind != TD_N_COMPARE || n->n != 2) return NULL;
    uint32_t left = td_low_kid(l, test, 0), right = td_low_kid(l, test, 1);
    unsigned op = td_low_node(l, right)->op;
    if (!is_by_none(l, right)) return NULL;
    *is = op == TD_O_IS || op == TD_O_EQ;
    td_var *v = is_local(l, left) ? td_low_var(l, td_low_node(l, left)->text) : NULL;
    return v && v->state == TD_VAR_SET ? v : NULL;
}

/* Of "self.bias is None": by what is there. */
static td_truth thing_is_none(td_lower *l, uint32_t test)
{
    uint32_t right = td_low_kid(l, test, 1);
    unsigned op = td_low_node(l, right)->op;
    if (td_low_node(l, test)->n != 2 || !is_by_none(l, right)) return TD_SOMETIMES;
    const td_script_name *thing = td_low_thing(l, td_low_kid(l, test, 0));
    if (!thing || thing->kind == TD_SN_STATE) return TD_SOMETIMES;
    return (thing->kind == TD_SN_NONE) == (op == TD_O_IS || op == TD_O_EQ) ? TD_ALWAYS : TD_NEVER;
}

/* hasattr(self, "name") */
static td_truth has_attribute(td_lower *l, uint32_t test)
{
    uint32_t f = td_low_kid(l, test, 0), text = td_low_kid(l, test, 2);
    if (td_low_node(l, test)->n != 3 || td_low_node(l, f)->kind != TD_N_NAME ||
        td_low_var(l, td_low_node(l, f)->text) || strcmp(td_low_text(l, f), "hasattr") != 0 ||
        td_low_node(l, text)->kind != TD_N_STRING)
        return TD_SOMETIMES;
    const td_script_name *of = td_low_thing(l, td_low_kid(l, test, 1));
    if (!of || of->kind != TD_SN_OBJECT) return TD_SOMETIMES;
    return td_low_thing_of(l, of, td_low_text(l, text)) ? TD_ALWAYS : TD_NEVER;
}

static td_truth call_truth(td_lower *l, uint32_t test)
{
    char path[160], text[160];
    bool some;
    if (td_low_is_isinstance(l, test) && is_local(l, td_low_kid(l, test, 1))) {
        const td_var *v = td_low_var(l, td_low_node(l, td_low_kid(l, test, 1))->text);
        if (td_low_mixed_test(l, test)) return td_low_mixed_truth(l, v, test);
        if (v->state != TD_VAR_SET) return TD_SOMETIMES;
        bool is = instance_truth(l, test, td_low_type(l, v->value), &some);
        return some ? TD_SOMETIMES : is ? TD_ALWAYS : TD_NEVER;
    }
    td_truth has = has_attribute(l, test);
    if (has != TD_SOMETIMES) return has;
    if (!td_low_path(l, td_low_kid(l, test, 0), path, sizeof path)) return TD_SOMETIMES;
    const char *ours = td_low_below(l, path, text, sizeof text);
    if (ours && strcmp(ours, "jit.is_tracing") == 0) return TD_NEVER;
    return ours && strcmp(ours, "jit.is_scripting") == 0 ? TD_ALWAYS : TD_SOMETIMES;
}

td_truth td_low_value_truth(td_lower *l, uint32_t value)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = ir->values[value].def;
    if (td_low_kind(l, value) != TD_T_BOOL) return TD_SOMETIMES;
    if (def & (TD_IR_PARAM | TD_IR_CAPTURED) || ir->nodes[def].op != TD_PRIM_CONSTANT) return TD_SOMETIMES;
    return ir->words[ir->nodes[def].word] >> 8 ? TD_ALWAYS : TD_NEVER;
}

/* Of a flag that a generic function was given. */
static td_truth constant_truth(td_lower *l, const td_var *v)
{
    return v->state == TD_VAR_SET ? td_low_value_truth(l, v->value) : TD_SOMETIMES;
}

/* Of a local what it is, where that is a constant of these kinds. */
static bool constant_of(td_lower *l, uint32_t node, td_literal *out)
{
    const td_ast_node *n = td_low_node(l, node);
    const td_ir *ir = td_ir_now(l->e);
    if (!is_local(l, node)) return false;
    const td_var *v = td_low_var(l, n->text);
    if (v->state != TD_VAR_SET) return false;
    uint32_t def = ir->values[v->value].def;
    if (def & (TD_IR_PARAM | TD_IR_CAPTURED) || ir->nodes[def].op != TD_PRIM_CONSTANT) return false;
    td_literal_get(ir->words + ir->nodes[def].word, ir->nodes[def].nwords, out);
    return true;
}

/* to == td.int64 */
static td_truth compared_dtype(td_lower *l, uint32_t node, uint32_t dtype, bool equal)
{
    char path[64], below[64];
    const char *name = td_low_path(l, node, path, sizeof path) ? td_low_below(l, path, below, sizeof below) : NULL;
    td_dtype other = name ? td_dtype_parse(name) : TD_DTYPE_NONE;
    if (other == TD_DTYPE_NONE) return TD_SOMETIMES;
    return (other == (td_dtype)dtype) == equal ? TD_ALWAYS : TD_NEVER;
}

/* mode == "linear", spatial == 2, of what a generic function was given. */
static td_truth compared(td_lower *l, uint32_t test)
{
    uint32_t to = td_low_kid(l, test, 1), right = td_low_kid(l, to, 0);
    const td_ast_node *n = td_low_node(l, right);
    td_literal v;
    unsigned op = td_low_node(l, to)->op;
    bool same;
    if (!l->blame || td_low_node(l, test)->n != 2 || (op != TD_O_EQ && op != TD_O_NE)) return TD_SOMETIMES;
    if (!constant_of(l, td_low_kid(l, test, 0), &v)) return TD_SOMETIMES;
    if (v.kind == TD_L_DTYPE) return compared_dtype(l, right, v.small, op == TD_O_EQ);
    if ((n->kind != TD_N_INT || n->op) && n->kind != TD_N_STRING) return TD_SOMETIMES;
    if (v.kind == TD_L_INT && n->kind == TD_N_INT) same = v.i == n->i;
    else if (v.kind == TD_L_STR && n->kind == TD_N_STRING)
        same = strcmp(td_ir_chars(td_ir_now(l->e), v.small), td_low_text(l, right)) == 0;
    else return TD_SOMETIMES;
    return same == (op == TD_O_EQ) ? TD_ALWAYS : TD_NEVER;
}

static td_truth negated(td_truth t)
{
    return t == TD_SOMETIMES ? t : t == TD_ALWAYS ? TD_NEVER : TD_ALWAYS;
}

td_truth td_low_truth(td_lower *l, uint32_t test)
{
    const td_ast_node *n = td_low_node(l, test);
    bool is;
    td_var *v = none_test(l, test, &is);
    if (v) {
        td_type_kind kind = td_low_kind(l, v->value);
        return kind == TD_T_OPTIONAL ? TD_SOMETIMES : (kind == TD_T_NONE) == is ? TD_ALWAYS : TD_NEVER;
    }
    if (n->kind == TD_N_BOOL || n->kind == TD_N_INT) return n->i ? TD_ALWAYS : TD_NEVER;
    if (n->kind == TD_N_COMPARE) {
        td_truth has = td_low_has_module(l, test);
        if (has == TD_SOMETIMES) has = compared(l, test);
        return has == TD_SOMETIMES ? thing_is_none(l, test) : has;
    }
    if (n->kind == TD_N_CALL) return call_truth(l, test);
    if ((l->blame || td_low_is_code(l)) && is_local(l, test)) return constant_truth(l, td_low_var(l, n->text));
    const td_script_name *thing = td_low_thing(l, test);
    if (thing && thing->kind == TD_SN_NONE) return TD_NEVER;
    if (thing && thing->kind == TD_SN_NUMBER && thing->number.kind == TD_S_BOOL)
        return thing->number.i ? TD_ALWAYS : TD_NEVER;
    if (n->kind == TD_N_NONE) return TD_NEVER;
    if (n->kind == TD_N_UNARY && n->op == TD_O_NOT) return negated(td_low_truth(l, td_low_kid(l, test, 0)));
    if (n->kind != TD_N_LOGIC) return TD_SOMETIMES;
    td_truth ends = n->op == TD_O_AND ? TD_NEVER : TD_ALWAYS, all = negated(ends);
    for (uint32_t k = 0; k < n->n; k++) {
        td_truth t = td_low_truth(l, td_low_kid(l, test, k));
        if (t == ends && all == negated(ends)) return ends; /* what stands before it always goes on to it */
        if (t == TD_SOMETIMES) all = TD_SOMETIMES;
    }
    return all;
}

void td_low_refine(td_lower *l, uint32_t test, bool holds)
{
    const td_ast_node *n = td_low_node(l, test);
    bool is;
    td_var *v = none_test(l, test, &is), *mixed = td_low_mixed_test(l, test);
    if (mixed && mixed >= l->vars + l->frame) td_low_mixed_refine(l, mixed, test, holds);
    if (v && is != holds && td_low_kind(l, v->value) == TD_T_OPTIONAL && v >= l->vars + l->frame) {
        td_low_at(l, test);
        v->value = td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, &v->value, td_low_part(l, td_low_type(l, v->value), 0));
    }
    if (n->kind == TD_N_UNARY && n->op == TD_O_NOT) td_low_refine(l, td_low_kid(l, test, 0), !holds);
    if (n->kind == TD_N_LOGIC && (n->op == TD_O_AND) == holds)
        for (uint32_t k = 0; k < n->n; k++) td_low_refine(l, td_low_kid(l, test, k), holds);
}

uint32_t td_low_bool(td_lower *l, uint32_t node, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    uint32_t result;
    td_low_at(l, node);
    if (kind == TD_T_BOOL) return value;
    if (kind == TD_T_TENSOR) return td_low_op(l, TD_PRIM_ITEM_BOOL, 1, &value, td_low_plain(l, TD_T_BOOL));
    if (kind == TD_T_NONE) return td_low_made(l, td_ir_bool(l->e, false));
    if (kind == TD_T_OPTIONAL) td_low_wrong(l, node, "this may be None; test 'is not None'");
    if (td_low_has_prim(l, "bool", 1, &value, &result)) return result;
    if (kind == TD_T_DICT) value = td_low_prim(l, node, "len", 1, &value);
    if (kind == TD_T_DICT) return td_low_prim(l, node, "bool", 1, &value);
    if (kind == TD_T_TUPLE)
        return td_low_made(l, td_ir_bool(l->e, td_type_parts(td_ir_now(l->e), td_low_type(l, value)) > 0));
    td_low_wrong(l, node, "%s is neither true nor false; compare it", td_low_type_name(l, td_low_type(l, value)));
}

/* From the k-th operand on: the next ones only where those before do not decide. `truth`: only that is asked for. */
static uint32_t logic_from(td_lower *l, uint32_t node, uint32_t k, bool truth)
{
    const td_ast_node *n = td_low_node(l, node);
    uint32_t kid = td_low_kid(l, node, k);
    bool conjunction = n->op == TD_O_AND;
    if (k + 1 == n->n) return truth ? td_low_test(l, kid) : td_low_expr(l, kid);
    td_truth t = td_low_truth(l, kid);
    if (t == (conjunction ? TD_ALWAYS : TD_NEVER) && none_test(l, kid, &(bool){0}))
        return logic_from(l, node, k + 1, truth);
    uint32_t value = truth ? td_low_test(l, kid) : td_low_expr(l, kid);
    td_branch b;
    td_low_if(l, &b, td_low_bool(l, kid, value), node);
    td_low_refine(l, kid, true);
    b.values[0] = conjunction ? logic_from(l, node, k + 1, truth) : value;
    td_low_else(l, &b);
    td_low_refine(l, kid, false);
    b.values[1] = conjunction ? value : logic_from(l, node, k + 1, truth);
    td_low_end_if(l, &b);
    return b.result;
}

uint32_t td_low_test(td_lower *l, uint32_t test)
{
    td_truth t = td_low_truth(l, test);
    if (t == TD_SOMETIMES && td_low_node(l, test)->kind == TD_N_LOGIC) return logic_from(l, test, 0, true);
    if (t == TD_SOMETIMES) return td_low_bool(l, test, td_low_expr(l, test));
    td_low_at(l, test);
    return td_low_made(l, td_ir_bool(l->e, t == TD_ALWAYS));
}

uint32_t td_low_logic(td_lower *l, uint32_t node)
{
    td_truth t = td_low_truth(l, node);
    if (t == TD_SOMETIMES) return logic_from(l, node, 0, false);
    td_low_at(l, node);
    return td_low_made(l, td_ir_bool(l->e, t == TD_ALWAYS));
}

/* ---- comparisons */

static uint32_t negate(td_lower *l, uint32_t value)
{
    return td_low_op(l, TD_PRIM_NOT, 1, &value, td_low_plain(l, TD_T_BOOL));
}

static uint32_t is_none(td_lower *l, uint32_t node, uint32_t value, bool not )
{
    td_low_at(l, node);
    value = td_low_op(l, TD_PRIM_IS_NONE, 1, &value, td_low_plain(l, TD_T_BOOL));
    return not ? negate(l, value) : value;
}

static bool in_tuple(td_lower *l, uint32_t node, uint32_t item, uint32_t tuple, uint32_t *result)
{
    uint32_t n = td_type_parts(td_ir_now(l->e), td_low_type(l, tuple));
    *result = TD_IR_NONE;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t one = td_low_binary(l, node, TD_O_EQ, item, td_low_item(l, tuple, k), false), both[2] = {*result, one};
        if (td_low_kind(l, one) != TD_T_BOOL) return false;
        *result = k ? td_low_op(l, TD_PRIM_OR_BOOL, 2, both, td_low_plain(l, TD_T_BOOL)) : one;
    }
    if (n == 0) *result = td_low_made(l, td_ir_bool(l->e, false));
    return true;
}

static uint32_t contains(td_lower *l, uint32_t node, uint32_t item, uint32_t in, bool not )
{
    uint32_t result;
    td_low_at(l, node);
    if (td_low_kind(l, in) != TD_T_TUPLE) result = td_low_contains(l, node, in, item);
    else if (!in_tuple(l, node, item, in, &result)) td_low_wrong(l, node, "'in' a tuple wants numbers or texts");
    return not ? negate(l, result) : result;
}

static uint32_t compare_one(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t right, uint32_t b)
{
    if (td_low_node(l, right)->kind == TD_N_NONE) return is_none(l, node, a, op == TD_O_IS_NOT || op == TD_O_NE);
    if (op == TD_O_IS || op == TD_O_IS_NOT) {
        if (td_low_node(l, right)->kind != TD_N_NONE && td_low_kind(l, b) != TD_T_NONE)
            td_low_wrong(l, node, "a program compares by 'is' with None only; write '=='");
        return is_none(l, node, a, op == TD_O_IS_NOT);
    }
    if (op == TD_O_IN || op == TD_O_NOT_IN) return contains(l, node, a, b, op == TD_O_NOT_IN);
    return td_low_binary(l, node, op, a, b, false);
}

/* a < b < c: from the k-th on, where `a` is the value before it. */
static uint32_t compare_from(td_lower *l, uint32_t node, uint32_t k, uint32_t a)
{
    uint32_t to = td_low_kid(l, node, k), right = td_low_kid(l, to, 0);
    bool none = td_low_node(l, right)->kind == TD_N_NONE;
    uint32_t b = none ? a : td_low_keys_of(l, right);
    if (b == TD_IR_NONE) b = td_low_expr(l, right);
    if (none && !is_by_none(l, to)) td_low_wrong(l, node, "a program compares with None by 'is' and '==' only");
    uint32_t value = compare_one(l, node, td_low_node(l, to)->op, a, right, b);
    if (k + 1 == td_low_node(l, node)->n) return value;
    td_branch br;
    td_low_if(l, &br, td_low_bool(l, node, value), node);
    br.values[0] = compare_from(l, node, k + 1, b);
    td_low_else(l, &br);
    br.values[1] = value;
    td_low_end_if(l, &br);
    return br.result;
}

uint32_t td_low_compare(td_lower *l, uint32_t node)
{
    td_truth has = td_low_has_module(l, node);
    td_low_at(l, node);
    if (has != TD_SOMETIMES) return td_low_made(l, td_ir_bool(l->e, has == TD_ALWAYS));
    return compare_from(l, node, 1, td_low_expr(l, td_low_kid(l, node, 0)));
}
