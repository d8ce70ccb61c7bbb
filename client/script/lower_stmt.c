/* Statements. See lower.h. */
#include "client/script/lower.h"
#include "proto/wire/record.h"

/* ---- assignments */

/* Which of the targets is "*name"; as many as there are: none. */
static uint32_t star_of(td_lower *l, uint32_t target)
{
    uint32_t n = td_low_node(l, target)->n, k = 0;
    while (k < n && td_low_node(l, td_low_kid(l, target, k))->kind != TD_N_STARRED) k++;
    return k;
}

static uint32_t item_at(td_lower *l, uint32_t target, uint32_t list, int64_t k)
{
    return td_low_prim(l, target, "getitem", 2, (uint32_t[]){list, td_low_made(l, td_ir_int(l->e, k))});
}

/* a, *b, c = value: what stands before and behind, and a list of the rest. */
static void unpack_rest(td_lower *l, uint32_t target, uint32_t value, uint32_t star)
{
    uint32_t n = td_low_node(l, target)->n, behind = n - star - 1, rest, *items = td_low_array(l, n);
    td_low_at(l, target);
    if (td_low_kind(l, value) == TD_T_TUPLE) {
        uint32_t there = td_type_parts(td_ir_now(l->e), td_low_type(l, value)), *all = td_low_array(l, there + 1);
        if (there + 1 < n) td_low_wrong(l, target, "%u names for a tuple of %u", n - 1, there);
        for (uint32_t k = 0; k < there; k++) all[k] = td_low_item(l, value, k);
        for (uint32_t k = 0; k < star; k++) items[k] = all[k];
        for (uint32_t k = 0; k < behind; k++) items[star + 1 + k] = all[there - behind + k];
        rest = td_low_list(l, target, there + 1 - n, all + star);
    } else {
        uint32_t in[3] = {value, td_low_made(l, td_ir_int(l->e, star)), td_low_made(l, td_ir_int(l->e, behind))};
        rest = td_low_prelude(l, target, "rest_of", 3, in);
        for (uint32_t k = 0; k < star; k++) items[k] = item_at(l, target, value, k);
        for (uint32_t k = 0; k < behind; k++) items[star + 1 + k] = item_at(l, target, value, (int64_t)k - behind);
    }
    for (uint32_t k = 0; k < n; k++)
        if (k == star) td_low_assign(l, td_low_kid(l, td_low_kid(l, target, k), 0), rest);
        else td_low_assign(l, td_low_kid(l, target, k), items[k]);
}

static void unpack(td_lower *l, uint32_t target, uint32_t value) /* NOLINT(misc-no-recursion): once, for a list */
{
    uint32_t n = td_low_node(l, target)->n, type = td_low_type(l, value), *items = td_low_array(l, n);
    uint32_t star = star_of(l, target);
    td_type_kind kind = td_low_kind(l, value);
    if (star < n && (kind == TD_T_TUPLE || kind == TD_T_LIST)) {
        unpack_rest(l, target, value, star);
        return;
    }
    if (kind == TD_T_TUPLE) {
        uint32_t there = td_type_parts(td_ir_now(l->e), type);
        if (there != n) td_low_wrong(l, target, "%u names for a tuple of %u", n, there);
        for (uint32_t k = 0; k < n; k++) items[k] = td_low_item(l, value, k);
    } else if (kind == TD_T_LIST) {
        for (uint32_t k = 0; k < n; k++) items[k] = td_low_part(l, type, 0);
        uint32_t node = td_low_made(l, td_ir_op(l->e, TD_PRIM_LISTUNPACK, 1, &value, n, items));
        for (uint32_t k = 0; k < n; k++) items[k] = td_ir_out(td_ir_now(l->e), node, k);
    } else if (kind == TD_T_TENSOR) {
        uint32_t in[2] = {value, td_low_made(l, td_ir_int(l->e, 0))};
        uint32_t list = td_low_made(l, td_type_list(l->e, type));
        unpack(l, target, td_low_op(l, TD_IR_TD | td_op_by_name("unbind")->id, 2, in, list));
        return;
    } else {
        td_low_wrong(l, target, "%s cannot be unpacked; a tuple or a list can", td_low_type_name(l, type));
    }
    for (uint32_t k = 0; k < n; k++) td_low_assign(l, td_low_kid(l, target, k), items[k]);
}

static _Noreturn void not_written(td_lower *l, uint32_t target, const td_script_name *thing)
{
    const td_script_name *base = td_low_thing(l, td_low_kid(l, target, 0));
    const char *name = td_low_text(l, target);
    if (thing && thing->kind == TD_SN_REFUSED) td_low_thing_value(l, target, thing);
    if (thing && thing->kind == TD_SN_TENSOR)
        td_low_wrong(l, target, "'%.60s' is a tensor, which is written with tensors; return the value", name);
    if (base && base->kind == TD_SN_OBJECT && !thing)
        td_low_wrong(l, target, "the module has no attribute '%.60s' to write; set it in __init__()", name);
    td_low_wrong(l, target, "a program writes attributes of modules: tensors, numbers, texts, lists and dicts of such");
}

/* A tensor of a module is written in place: it is the same one for all who see it. */
static void write_attribute(td_lower *l, uint32_t target, uint32_t value)
{
    const td_script_name *thing = td_low_thing(l, target), *base = td_low_thing(l, td_low_kid(l, target, 0));
    if (base && base->kind == TD_SN_GRAD_OFF) return; /* what a no_grad() that PyTorch inlined remembers */
    if (td_low_set_grad(l, target, value)) return;
    if (thing && thing->kind == TD_SN_STATE) {
        td_low_state_set(l, target, (uint32_t)thing->number.i, value);
        return;
    }
    if (!thing || thing->kind != TD_SN_TENSOR || td_low_kind(l, value) != TD_T_TENSOR) not_written(l, target, thing);
    td_low_write(l, target, td_low_thing_value(l, target, thing), value);
}

/* x = list(x.values()): a value of another kind than the annotation says, for which the name is bound anew. */
static bool is_another(td_lower *l, uint32_t value, uint32_t declared)
{
    uint32_t type = td_low_type(l, value), optional = td_type_kind_of(td_ir_now(l->e), type) == TD_T_OPTIONAL;
    td_type_kind kind = td_type_kind_of(td_ir_now(l->e), optional ? td_low_part(l, type, 0) : type);
    optional = td_type_kind_of(td_ir_now(l->e), declared) == TD_T_OPTIONAL;
    td_type_kind of = td_type_kind_of(td_ir_now(l->e), optional ? td_low_part(l, declared, 0) : declared);
    bool numbers = (kind == TD_T_BOOL || kind == TD_T_INT || kind == TD_T_FLOAT) &&
                   (of == TD_T_INT || of == TD_T_FLOAT || of == TD_T_COMPLEX);
    return kind != of && kind != TD_T_NONE && !numbers && (kind != TD_T_TUPLE || of != TD_T_LIST) && !td_low_is_code(l);
}

void td_low_assign(td_lower *l, uint32_t target, uint32_t value)
{
    const td_ast_node *n = td_low_node(l, target);
    td_low_at(l, target);
    if (n->kind == TD_N_TUPLE || n->kind == TD_N_LIST) unpack(l, target, value);
    else if (n->kind == TD_N_STARRED) td_low_wrong(l, target, "a program cannot unpack here; write each item");
    else if (n->kind == TD_N_SUBSCRIPT) td_low_subscript_set(l, target, value);
    else if (n->kind == TD_N_ATTRIBUTE) write_attribute(l, target, value);
    else {
        td_var *v = td_low_var(l, n->text);
        if (v->declared != TD_IR_NONE && is_another(l, value, v->declared)) v->declared = TD_IR_NONE;
        if (v->declared != TD_IR_NONE) value = td_low_convert(l, target, value, v->declared);
        td_low_set(l, v, value, n->span);
    }
}

static void declare(td_lower *l, uint32_t target, uint32_t annotation)
{
    const td_ast_node *n = td_low_node(l, target);
    if (n->kind != TD_N_NAME) td_low_wrong(l, target, "only a name can be given a type");
    td_low_var(l, n->text)->several = td_low_is_union(l, annotation);
    td_low_var(l, n->text)->declared = td_low_is_union(l, annotation) ? TD_IR_NONE : td_low_type_of(l, annotation);
}

static uint32_t as_declared(td_lower *l, uint32_t target, uint32_t value)
{
    uint32_t type = td_low_var(l, td_low_node(l, target)->text)->declared;
    return type == TD_IR_NONE ? value : td_low_convert(l, target, value, type);
}

/* "a, b = x, y" makes no tuple: so the lists of "a, b = [], []" get their types by what is appended. */
static bool assign_each(td_lower *l, uint32_t node)
{
    uint32_t from = td_low_kid(l, node, 0), to = td_low_kid(l, node, 2), n = td_low_node(l, from)->n;
    if (td_low_node(l, node)->n != 3 || td_low_kid(l, node, 1) || td_low_node(l, from)->kind != TD_N_TUPLE ||
        td_low_node(l, to)->kind != TD_N_TUPLE || td_low_node(l, to)->n != n || star_of(l, to) < n ||
        td_low_has_star(l, from))
        return false;
    uint32_t *values = td_low_array(l, n);
    for (uint32_t k = 0; k < n; k++) values[k] = td_low_expr(l, td_low_kid(l, from, k));
    for (uint32_t k = 0; k < n; k++) td_low_assign(l, td_low_kid(l, to, k), values[k]);
    return true;
}

static void assign(td_lower *l, uint32_t node)
{
    uint32_t annotation = td_low_kid(l, node, 1);
    const td_script_name *thing = td_low_thing(l, td_low_kid(l, node, 0));
    if (thing && !td_low_is_value(thing)) {
        for (uint32_t k = 2; k < td_low_node(l, node)->n; k++) td_low_set_thing(l, td_low_kid(l, node, k), thing);
        return;
    }
    if (assign_each(l, node)) return;
    uint32_t value = td_low_expr(l, td_low_kid(l, node, 0));
    if (annotation) {
        declare(l, td_low_kid(l, node, 2), annotation);
        value = as_declared(l, td_low_kid(l, node, 2), value);
    }
    for (uint32_t k = 2; k < td_low_node(l, node)->n; k++) td_low_assign(l, td_low_kid(l, node, k), value);
}

static bool is_call_of(td_lower *l, uint32_t node, const char *name)
{
    uint32_t f = td_low_kid(l, node, 0);
    return td_low_node(l, node)->kind == TD_N_CALL && td_low_node(l, f)->kind == TD_N_NAME &&
           strcmp(td_low_text(l, f), name) == 0;
}

static void annotated(td_lower *l, uint32_t node)
{
    uint32_t target = td_low_kid(l, node, 0), value = td_low_kid(l, node, 2);
    declare(l, target, td_low_kid(l, node, 1));
    if (!value) return;
    const td_ast_node *n = td_low_node(l, value);
    uint32_t type = td_low_var(l, td_low_node(l, target)->text)->declared;
    bool none = n->n == 0 || (n->n == 1 && n->kind == TD_N_CALL); /* {}, dict() */
    bool empty = none && type != TD_IR_NONE && td_type_kind_of(td_ir_now(l->e), type) == TD_T_DICT &&
                 (n->kind == TD_N_DICT || is_call_of(l, value, "dict") || is_call_of(l, value, "OrderedDict"));
    td_low_at(l, value);
    uint32_t list;
    if (type != TD_IR_NONE && td_low_tolist(l, value, type, &list)) {
        td_low_assign(l, target, list);
        return;
    }
    uint32_t made = empty ? td_low_op(l, TD_PRIM_DICTCONSTRUCT, 0, NULL, type) : td_low_expr(l, value);
    td_low_assign(l, target, as_declared(l, target, made));
}

/* What a subscript gave: a copy by an index, or, where that is seen when it runs, a copy or a view. */
static bool may_be_copy(td_lower *l, uint32_t value)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = ir->values[value].def;
    if (def & (TD_IR_PARAM | TD_IR_CAPTURED)) return false;
    return ir->nodes[def].op == TD_PRIM_IF || td_low_is_made_by(l, value, "index");
}

static void augmented(td_lower *l, uint32_t node)
{
    uint32_t target = td_low_kid(l, node, 0), before = td_low_expr(l, target);
    uint32_t by = td_low_expr(l, td_low_kid(l, node, 1));
    uint32_t after = td_low_binary(l, node, td_low_node(l, node)->op, before, by, true);
    unsigned kind = td_low_node(l, target)->kind;
    bool part = (kind == TD_N_SUBSCRIPT || kind == TD_N_ATTRIBUTE) && td_low_kind(l, before) == TD_T_TENSOR &&
                !may_be_copy(l, before);
    if (!part || !td_low_writes(td_low_node(l, node)->op)) td_low_assign(l, target, after);
}

/* ---- what ends a way */

static void do_return(td_lower *l, uint32_t node)
{
    uint32_t kid = td_low_kid(l, node, 0), value;
    td_low_at(l, node);
    if (!kid) value = td_low_made(l, td_ir_none(l->e));
    else if (l->promised == TD_IR_NONE || !td_low_tolist(l, kid, l->promised, &value))
        value = td_low_expr_for(l, kid, td_low_wanted_by(l, l->promised));
    if (l->promised != TD_IR_NONE) value = td_low_convert(l, kid ? kid : node, value, l->promised);
    l->flow.result = value;
    l->flow.returned = l->flow.stop = l->flow.broke = (td_flag){TD_FLAG_YES, TD_IR_NONE};
}

static void do_raise(td_lower *l, uint32_t node, const char *kind, uint32_t message)
{
    uint32_t in[2];
    td_low_at(l, node);
    in[0] = td_low_made(l, td_ir_str(l->e, kind, strlen(kind)));
    in[1] = message == TD_IR_NONE ? td_low_made(l, td_ir_str(l->e, "", 0)) : message;
    if (td_low_kind(l, in[1]) != TD_T_STR) in[1] = td_low_prim(l, node, "str", 1, &in[1]);
    td_low_do(l, TD_PRIM_RAISE, 2, in);
}

void td_low_raise(td_lower *l, uint32_t node, const char *kind, uint32_t message)
{
    do_raise(l, node, kind, message);
    l->flow.gone = true;
}

static void raise_error(td_lower *l, uint32_t node)
{
    uint32_t error = td_low_kid(l, node, 0), name = error, message = TD_IR_NONE;
    if (td_low_node(l, error)->kind == TD_N_CALL) {
        name = td_low_kid(l, error, 0);
        uint32_t n = td_low_node(l, error)->n - 1, *parts = td_low_array(l, n);
        /* What an error of one's own has beside its text, by names, is nobody's in a program. */
        while (n && td_low_node(l, td_low_kid(l, error, n))->kind == TD_N_KEYWORD) n--;
        for (uint32_t k = 0; k < n; k++) parts[k] = td_low_expr(l, td_low_kid(l, error, k + 1));
        if (n) message = n == 1 ? parts[0] : td_low_tuple(l, n, parts);
    }
    unsigned kind = td_low_node(l, name)->kind; /* also td.ShapeError */
    if (kind != TD_N_ATTRIBUTE && (kind != TD_N_NAME || td_low_var(l, td_low_node(l, name)->text)))
        td_low_wrong(l, error, "a program raises E(\"text\"), where E is the name of an error");
    td_low_raise(l, node, td_low_text(l, name), message);
}

static void assertion(td_lower *l, uint32_t node)
{
    uint32_t test = td_low_kid(l, node, 0), message = td_low_kid(l, node, 1);
    td_branch b;
    if (td_low_truth(l, test) == TD_ALWAYS) return;
    uint32_t condition = td_low_test(l, test);
    td_low_at(l, node);
    td_low_if(l, &b, condition, node);
    td_low_else(l, &b);
    do_raise(l, node, "AssertionError", message ? td_low_expr(l, message) : TD_IR_NONE);
    td_low_end_if(l, &b);
    td_low_refine(l, test, true);
}

/* ---- if */

/* Does a block always end by a jump? */
static bool jumps(const td_lower *l, uint32_t node)
{
    const td_ast_node *n = td_low_node(l, node);
    if (n->kind == TD_N_RETURN || n->kind == TD_N_BREAK || n->kind == TD_N_CONTINUE) return true;
    if (n->kind == TD_N_IF) return jumps(l, td_low_kid(l, node, 1)) && jumps(l, td_low_kid(l, node, 2));
    if (n->kind == TD_N_WITH) return jumps(l, td_low_kid(l, node, 0));
    if (n->kind != TD_N_BLOCK) return false;
    for (uint32_t k = 0; k < n->n; k++)
        if (jumps(l, td_low_kid(l, node, k))) return true;
    return false;
}

/* Of a flag at the ends of If(stop) {} else {...}: where the second arm did not set it, it is what it was before,
 * false; in the first one it is set if it is the same as `stop`, which also counts where the second one is left by an
 * error. */
static void settle(td_flag *first, td_flag *second, bool gone, td_flag before, td_flag stop)
{
    if (second->state == TD_FLAG_NO && !gone) *second = before;
    else if (before.state == TD_FLAG_MAYBE && before.value == stop.value) *first = (td_flag){TD_FLAG_YES, TD_IR_NONE};
}

void td_low_go_on(td_lower *l, uint32_t place, void (*next)(td_lower *l, void *arg), void *arg)
{
    td_low_flow before = l->flow;
    if (before.gone || before.stop.state == TD_FLAG_YES) return;
    if (before.stop.state == TD_FLAG_NO) {
        next(l, arg);
        return;
    }
    td_branch b;
    td_low_at(l, place);
    td_low_if(l, &b, before.stop.value, place);
    td_low_else(l, &b);
    l->flow.stop = l->flow.broke = l->flow.returned = (td_flag){TD_FLAG_NO, 0};
    next(l, arg);
    td_flag stop = before.stop;
    bool gone = l->flow.gone;
    settle(&b.flow.stop, &l->flow.stop, gone, before.stop, stop);
    settle(&b.flow.broke, &l->flow.broke, gone, before.broke, stop);
    settle(&b.flow.returned, &l->flow.returned, gone, before.returned, stop);
    td_low_end_if(l, &b);
}

typedef struct rest {
    uint32_t block, from;
} rest;

static void lower_rest(td_lower *l, void *arg)
{
    const rest *r = arg;
    td_low_block(l, r->block, r->from);
}

/* The statements of a block from one on, if they are reached. */
static void go_on(td_lower *l, uint32_t block, uint32_t from)
{
    rest r = {block, from};
    if (from < td_low_node(l, block)->n) td_low_go_on(l, td_low_kid(l, block, from), lower_rest, &r);
}

/* True: what follows in the block was lowered too. */
static bool if_statement(td_lower *l, uint32_t node, uint32_t block, uint32_t next)
{
    uint32_t test = td_low_kid(l, node, 0), arms[2] = {td_low_kid(l, node, 1), td_low_kid(l, node, 2)};
    td_truth t = td_low_truth(l, test);
    uint32_t condition = TD_IR_NONE;
    if (t == TD_SOMETIMES) condition = td_low_test(l, test);
    if (t == TD_SOMETIMES && td_low_is_code(l)) t = td_low_value_truth(l, condition); /* folded */
    if (t != TD_SOMETIMES) {
        uint32_t arm = arms[t == TD_NEVER];
        if (arm) td_low_block(l, arm, 0);
        return false;
    }
    bool ends[2] = {jumps(l, arms[0]), arms[1] && jumps(l, arms[1])};
    bool inside = ends[0] != ends[1] && next < td_low_node(l, block)->n;
    td_branch b;
    td_low_at(l, node);
    td_low_if(l, &b, condition, node);
    for (unsigned k = 0; k < 2; k++) {
        td_low_refine(l, test, k == 0);
        if (arms[k]) td_low_block(l, arms[k], 0);
        if (inside && !ends[k]) go_on(l, block, next);
        if (k == 0) td_low_else(l, &b);
    }
    bool first = b.flow.gone, second = l->flow.gone;
    td_low_end_if(l, &b);
    if (first != second) td_low_refine(l, test, second);
    return inside;
}

/* ---- the rest */

/* What changes nothing: who looks finds the lines; PyTorch's switches of its compiler. */
static bool is_idle(const char *name)
{
    static const char *const idle[] = {".record_function", ".strict_fusion", ".optimized_execution", ".fuser"};
    for (unsigned i = 0; i < sizeof idle / sizeof *idle; i++)
        if (strcmp(name, idle[i]) == 0) return true;
    return false;
}

static void with_statement(td_lower *l, uint32_t node)
{
    uint32_t mode = l->mode;
    for (uint32_t k = 1; k < td_low_node(l, node)->n; k++) {
        uint32_t item = td_low_kid(l, node, k), value = td_low_kid(l, item, 0);
        const td_script_name *thing = td_low_thing(l, value);
        char path[96] = "";
        if (thing && thing->kind == TD_SN_GRAD_OFF) {
            mode |= TD_RM_GRAD_OFF;
            continue;
        }
        if (td_low_node(l, value)->kind == TD_N_CALL) td_low_path(l, td_low_kid(l, value, 0), path, sizeof path);
        const char *dot = strrchr(path, '.'), *last = dot ? dot : "";
        if (is_idle(last)) continue;
        if (td_low_kid(l, item, 1) || (strcmp(last, ".no_grad") != 0 && strcmp(last, ".enable_grad") != 0))
            td_low_wrong(l, value, "a program has 'with td.no_grad()' and 'with td.enable_grad()' only");
        mode = strcmp(last, ".no_grad") == 0 ? mode | TD_RM_GRAD_OFF : mode & ~(uint32_t)TD_RM_GRAD_OFF;
    }
    uint32_t before = l->mode;
    l->mode = mode;
    td_ir_mode_now(l->e, mode);
    td_low_block(l, td_low_kid(l, node, 0), 0);
    l->mode = before;
    td_ir_mode_now(l->e, before);
}

static void delete_one(td_lower *l, uint32_t target) /* NOLINT(misc-no-recursion): as deep as the tree */
{
    const td_ast_node *n = td_low_node(l, target);
    if (n->kind == TD_N_SUBSCRIPT) {
        td_low_subscript_delete(l, target);
        return;
    }
    if (n->kind == TD_N_ATTRIBUTE) td_low_wrong(l, target, "a program deletes names and items, and no attributes");
    for (uint32_t k = 0; k < n->n; k++) delete_one(l, td_low_kid(l, target, k));
    if (n->kind != TD_N_NAME) return;
    td_low_get(l, target);
    td_low_var(l, n->text)->state = TD_VAR_UNSET;
}

static void expression(td_lower *l, uint32_t node)
{
    uint32_t value = td_low_kid(l, node, 0);
    if (td_low_node(l, value)->kind != TD_N_STRING && td_low_node(l, value)->kind != TD_N_DOTS) td_low_expr(l, value);
}

static void define(td_lower *l, uint32_t node)
{
    td_var *v = td_low_var(l, td_low_node(l, node)->text);
    v->state = TD_VAR_FUNCTION, v->value = v->base = node, v->at = td_low_node(l, node)->span;
}

static void leave_loop(td_lower *l, uint32_t node)
{
    if (l->unrolled)
        td_low_wrong(l, node,
                     "a loop over modules, or over a tuple of different types, goes over all of them; write 'if'");
    if (td_low_node(l, node)->kind == TD_N_BREAK) l->flow.broke = (td_flag){TD_FLAG_YES, TD_IR_NONE};
    l->flow.stop = (td_flag){TD_FLAG_YES, TD_IR_NONE};
}

static void statement(td_lower *l, uint32_t node)
{
    switch (td_low_node(l, node)->kind) {
    case TD_N_ASSIGN: assign(l, node); break;
    case TD_N_ANN_ASSIGN: annotated(l, node); break;
    case TD_N_AUG_ASSIGN: augmented(l, node); break;
    case TD_N_EXPR: expression(l, node); break;
    case TD_N_FOR: td_low_for(l, node); break;
    case TD_N_WHILE: td_low_while(l, node); break;
    case TD_N_WITH: with_statement(l, node); break;
    case TD_N_RETURN: do_return(l, node); break;
    case TD_N_RAISE: raise_error(l, node); break;
    case TD_N_ASSERT: assertion(l, node); break;
    case TD_N_FUNCTION: define(l, node); break;
    case TD_N_DELETE:
        for (uint32_t k = 0; k < td_low_node(l, node)->n; k++) delete_one(l, td_low_kid(l, node, k));
        break;
    case TD_N_BREAK:
    case TD_N_CONTINUE: leave_loop(l, node); break;
    default: break; /* pass */
    }
}

void td_low_block(td_lower *l, uint32_t block, uint32_t from)
{
    for (uint32_t k = from; k < td_low_node(l, block)->n; k++) {
        uint32_t node = td_low_kid(l, block, k);
        bool done = td_low_node(l, node)->kind == TD_N_IF && if_statement(l, node, block, k + 1);
        if (done) return;
        if (td_low_node(l, node)->kind != TD_N_IF) statement(l, node);
        if (l->flow.gone || l->flow.stop.state != TD_FLAG_NO) {
            go_on(l, block, k + 1);
            return;
        }
    }
}
