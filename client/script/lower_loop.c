/* Loops: what they go over, what they carry, and lists made by one. See lower.h. */
#include "client/script/lower.h"

enum { MOST_RETRIES = 256 };
typedef enum iter_kind { OVER_RANGE, OVER_LIST, OVER_ROWS, OVER_NUMBERED, OVER_SIDE_BY_SIDE } iter_kind;

static uint32_t int_op(td_lower *l, unsigned op, uint32_t a, uint32_t b)
{
    return td_low_op(l, op, 2, (uint32_t[]){a, b}, td_low_plain(l, TD_T_INT));
}

static uint32_t int_value(td_lower *l, int64_t v)
{
    return td_low_made(l, td_ir_int(l->e, v));
}

/* ---- what a loop goes over */

static bool called(td_lower *l, uint32_t node, const char *name)
{
    uint32_t f = td_low_kid(l, node, 0);
    return td_low_node(l, node)->kind == TD_N_CALL && td_low_node(l, f)->kind == TD_N_NAME &&
           !td_low_var(l, td_low_node(l, f)->text) && strcmp(td_low_text(l, f), name) == 0;
}

static uint32_t an_int(td_lower *l, uint32_t node)
{
    return td_low_convert(l, node, td_low_expr(l, node), td_low_plain(l, TD_T_INT));
}

/* ceil((to - from) / step) = -((from - to) // step) */
static void over_range(td_lower *l, uint32_t node, td_iter *it)
{
    uint32_t n = td_low_node(l, node)->n - 1, a[3];
    if (n < 1 || n > 3) td_low_wrong(l, node, "'range' takes 1 to 3 ints");
    for (uint32_t k = 0; k < n; k++) a[k] = an_int(l, td_low_kid(l, node, k + 1));
    td_low_at(l, node);
    it->kind = OVER_RANGE, it->start = n > 1 ? a[0] : TD_IR_NONE, it->step = n > 2 ? a[2] : TD_IR_NONE;
    if (n == 1) it->count = a[0];
    else if (n == 2) it->count = int_op(l, TD_PRIM_SUB_INT, a[1], a[0]);
    else {
        uint32_t v = int_op(l, TD_PRIM_FLOORDIV_INT, int_op(l, TD_PRIM_SUB_INT, a[0], a[1]), a[2]);
        it->count = td_low_op(l, TD_PRIM_NEG_INT, 1, &v, td_low_plain(l, TD_T_INT));
    }
}

static void over_value(td_lower *l, uint32_t node, uint32_t value, td_iter *it)
{
    td_type_kind kind = td_low_kind(l, value);
    td_low_at(l, node);
    *it = (td_iter){.kind = kind == TD_T_TENSOR ? OVER_ROWS : OVER_LIST, .at = {value}};
    if (kind == TD_T_TENSOR) {
        uint32_t in[2] = {value, int_value(l, 0)};
        it->count = td_low_prim(l, node, "size.dim", 2, in);
    } else if (kind == TD_T_LIST || kind == TD_T_STR) {
        it->count = td_low_prim(l, node, "len", 1, &value);
    } else if (kind == TD_T_DICT) {
        value = td_low_prim(l, node, "keys", 1, &value);
        over_value(l, node, value, it);
    } else if (kind == TD_T_TUPLE) {
        uint32_t n = td_type_parts(td_ir_now(l->e), td_low_type(l, value)), *items = td_low_array(l, n);
        for (uint32_t k = 0; k < n; k++) items[k] = td_low_item(l, value, k);
        over_value(l, node, td_low_list(l, node, n, items), it);
    } else {
        td_low_wrong(l, node, "a program cannot go over %s%s", td_low_type_name(l, td_low_type(l, value)),
                     kind == TD_T_OPTIONAL ? "; test 'is not None' before" : "");
    }
}

static void over_parts(td_lower *l, uint32_t node, td_iter *it)
{
    uint32_t n = td_low_node(l, node)->n - 1;
    if (n < 1 || n > 8) td_low_wrong(l, node, "'zip' takes 1 to 8 things");
    it->kind = OVER_SIDE_BY_SIDE, it->n = n;
    it->inner = td_low_take(l, n * sizeof *it);
    for (uint32_t k = 0; k < n; k++) {
        td_low_over(l, td_low_kid(l, node, k + 1), &it->inner[k]);
        it->count = k ? int_op(l, TD_PRIM_MIN_INT, it->count, it->inner[k].count) : it->inner[0].count;
    }
}

static void over_numbered(td_lower *l, uint32_t node, td_iter *it)
{
    uint32_t n = td_low_node(l, node)->n - 1, start = td_low_kid(l, node, 2);
    if (n < 1 || n > 2) td_low_wrong(l, node, "'enumerate' takes one thing, and where to begin");
    it->kind = OVER_NUMBERED;
    it->inner = td_low_take(l, sizeof *it);
    td_low_over(l, td_low_kid(l, node, 1), it->inner);
    if (n == 2 && td_low_node(l, start)->kind == TD_N_KEYWORD) start = td_low_kid(l, start, 0);
    it->start = n == 2 ? an_int(l, start) : TD_IR_NONE;
    it->count = it->inner->count;
}

static bool is_value(td_lower *l, uint32_t node)
{
    return !called(l, node, "range") && !called(l, node, "zip") && !called(l, node, "enumerate");
}

void td_low_over(td_lower *l, uint32_t node, td_iter *it)
{
    *it = (td_iter){.start = TD_IR_NONE, .step = TD_IR_NONE};
    if (called(l, node, "range")) over_range(l, node, it);
    else if (called(l, node, "zip")) over_parts(l, node, it);
    else if (called(l, node, "enumerate")) over_numbered(l, node, it);
    else over_value(l, node, td_low_expr(l, node), it);
}

bool td_low_iter_known(td_lower *l, const td_iter *it, int64_t *n)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = it->kind == OVER_LIST ? ir->values[it->at[0]].def : TD_IR_PARAM;
    bool made = !(def & (TD_IR_PARAM | TD_IR_CAPTURED)) && ir->nodes[def].op == TD_PRIM_LISTCONSTRUCT;
    td_literal v;
    if (made && td_ir_uses(l->e, it->at[0]) == 1) return *n = ir->nodes[def].nin, true; /* by its length alone */
    return td_low_literal(l, it->count, &v) && v.kind == TD_L_INT && (*n = v.i, true);
}

/* The item of trip k. */
uint32_t td_low_iter_item(td_lower *l, uint32_t node, const td_iter *it, uint32_t k)
{
    uint32_t values[8] = {it->at[0], k};
    switch (it->kind) {
    case OVER_RANGE:
        if (it->step != TD_IR_NONE) k = int_op(l, TD_PRIM_MUL_INT, k, it->step);
        return it->start == TD_IR_NONE ? k : int_op(l, TD_PRIM_ADD_INT, it->start, k);
    case OVER_LIST: return td_low_prim(l, node, "getitem", 2, values);
    case OVER_ROWS:
        values[1] = int_value(l, 0), values[2] = k;
        return td_low_op(l, TD_IR_TD | td_op_by_name("select")->id, 3, values,
                         td_low_made(l, td_type_any_tensor(l->e)));
    case OVER_NUMBERED:
        values[0] = it->start == TD_IR_NONE ? k : int_op(l, TD_PRIM_ADD_INT, it->start, k);
        values[1] = td_low_iter_item(l, node, it->inner, k);
        return td_low_tuple(l, 2, values);
    default:
        for (uint32_t i = 0; i < it->n; i++) values[i] = td_low_iter_item(l, node, &it->inner[i], k);
        return td_low_tuple(l, it->n, values);
    }
}

/* ---- what is carried */

typedef struct loop {
    uint32_t ast, node, parent, body, original, rng, ncarried, *carried, *types; /* carried: variables by number */
    td_low_flow before;
    bool again;
} loop;

static void find_carried(td_lower *l, uint32_t name, void *arg)
{
    loop *p = arg;
    uint32_t v = l->var_of[name] - 1;
    for (uint32_t k = 0; k < p->ncarried; k++)
        if (p->carried[k] == v) return;
    if (l->vars[v].state == TD_VAR_SET) p->carried[p->ncarried++] = v;
}

static void begin_loop(td_lower *l, loop *p, uint32_t count, uint32_t condition)
{
    uint32_t parts[2] = {count, condition};
    td_low_at(l, p->ast);
    td_low_nest(l, p->ast);
    p->parent = td_ir_cursor(l->e), p->original = l->nsaved, p->rng = l->rng, p->before = l->flow;
    td_low_save(l);
    p->node = td_low_made(l, td_ir_loop(l->e, parts[0], parts[1]));
    p->body = td_ir_child(l->e, p->node, 0);
    for (uint32_t k = 0; k < p->ncarried; k++) {
        td_var *v = &l->vars[p->carried[k]];
        uint32_t base = v->several ? v->value : v->base; /* of several types it is what a test found */
        if (p->types[k] == TD_IR_NONE) p->types[k] = v->declared != TD_IR_NONE ? v->declared : td_low_type(l, base);
        base = td_low_convert(l, p->ast, base, p->types[k]); /* [] */
        v->value = v->base =
            td_low_made(l, td_ir_carry(l->e, p->node, base, p->types[k], td_ast_text(l->ast, v->name)));
    }
    td_ir_to_end(l->e, p->body);
    l->rng = 0;
}

static bool is_empty_list(td_lower *l, uint32_t type)
{
    const td_ir *ir = td_ir_now(l->e);
    return td_type_kind_of(ir, type) == TD_T_LIST && td_type_kind_of(ir, td_low_part(l, type, 0)) == TD_T_NONE;
}

/* What a variable is at the end of a trip fits what it is carried as? Otherwise once more, with a type that takes
 * both. */
static void check_type(td_lower *l, loop *p, uint32_t k)
{
    const td_var *v = &l->vars[p->carried[k]];
    const char *name = td_ast_text(l->ast, v->name);
    if (v->state == TD_VAR_MIXED || v->state == TD_VAR_UNSET)
        td_refuse(l->f, TD_E_TYPE, v->at, "'%.60s' has two types at the end of the loop; give it one", name);
    uint32_t type = td_low_type(l, v->value), both = td_low_unify(l, p->types[k], type);
    if (td_type_fits(td_ir_now(l->e), type, p->types[k])) return;
    if (is_empty_list(l, p->types[k]) && td_low_kind(l, v->value) == TD_T_LIST) both = type; /* it was [] before */
    if (both == TD_IR_NONE)
        td_refuse(l->f, TD_E_TYPE, v->at,
                  "'%.60s' becomes %s in the loop and was %s before; begin with one of this type", name,
                  td_low_type_name(l, type), td_low_type_name(l, p->types[k]));
    p->types[k] = both;
    p->again = true;
}

/* One more carried value, that only the loop's own flow needs. */
static uint32_t carry(td_lower *l, loop *p, uint32_t type, bool flag)
{
    td_ir_to_before(l->e, p->node);
    uint32_t start =
        flag ? td_low_made(l, td_ir_bool(l->e, false)) : td_low_op(l, TD_PRIM_UNINITIALIZED, 0, NULL, type);
    td_low_made(l, td_ir_carry(l->e, p->node, start, type, NULL));
    td_ir_to_end(l->e, p->body);
    return td_ir_now(l->e)->nodes[p->node].nout - 1;
}

typedef struct loop_ends {
    uint32_t n, returns[3], at[3]; /* what the body returns beside variables; which result that is */
} loop_ends;

static void carry_flow(td_lower *l, loop *p, loop_ends *x, bool otherwise)
{
    td_low_flow *f = &l->flow;
    bool returned = f->returned.state != TD_FLAG_NO, broke = otherwise && f->broke.state != TD_FLAG_NO;
    *x = (loop_ends){.at = {TD_IR_NONE, TD_IR_NONE, TD_IR_NONE}};
    if (returned) {
        x->returns[x->n++] = td_low_flag(l, f->returned);
        x->at[0] = carry(l, p, td_low_plain(l, TD_T_BOOL), true);
        x->returns[x->n++] = f->result;
        x->at[1] = carry(l, p, td_low_type(l, f->result), false);
    }
    if (broke) {
        x->returns[x->n++] = td_low_flag(l, f->broke);
        x->at[2] = carry(l, p, td_low_plain(l, TD_T_BOOL), true);
    }
}

static uint32_t out_of(const td_lower *l, const loop *p, uint32_t k)
{
    return td_ir_out(td_ir_now(l->e), p->node, k);
}

/* The body is done; `condition` is whether there is another trip. */
static void end_loop(td_lower *l, loop *p, uint32_t condition, bool otherwise, td_flag *broke)
{
    loop_ends x;
    carry_flow(l, p, &x, otherwise);
    uint32_t n = p->ncarried + 1 + x.n, *returns = td_low_array(l, n);
    returns[0] = condition;
    for (uint32_t k = 0; k < p->ncarried; k++) {
        const td_var *v = &l->vars[p->carried[k]];
        returns[k + 1] = v->state == TD_VAR_SET ? v->value : out_of(l, p, k);
    }
    for (uint32_t k = 0; k < x.n; k++) returns[p->ncarried + 1 + k] = x.returns[k];
    td_ir_returns(l->e, p->body, n, returns);
    *broke = (td_flag){l->flow.broke.state == TD_FLAG_NO ? TD_FLAG_NO : TD_FLAG_MAYBE, TD_IR_NONE};
    l->nest--;
    td_ir_to_end(l->e, p->parent);
    td_low_restore(l, p->original);
    l->nsaved = p->original, l->rng = p->rng, l->flow = p->before;
    for (uint32_t k = 0; k < p->ncarried; k++) {
        td_var *v = &l->vars[p->carried[k]];
        v->value = v->base = out_of(l, p, k);
    }
    if (x.at[2] != TD_IR_NONE) broke->value = out_of(l, p, x.at[2]);
    if (x.at[0] == TD_IR_NONE) return;
    l->flow.returned = l->flow.stop = l->flow.broke = (td_flag){TD_FLAG_MAYBE, out_of(l, p, x.at[0])};
    l->flow.result = out_of(l, p, x.at[1]);
}

/* Take it all back, to lower it with other types. */
static void undo_loop(td_lower *l, loop *p)
{
    if (++l->retries > MOST_RETRIES)
        td_low_wrong(l, p->ast, "the types of loops in loops are hard to find here; annotate the variables");
    l->nest--;
    td_ir_to_end(l->e, p->parent);
    td_ir_erase(l->e, p->node);
    td_low_restore(l, p->original);
    l->nsaved = p->original, l->rng = p->rng, l->flow = p->before;
    p->again = false;
}

/* Is there another trip, as far as the flow says, and then `test`? */
static uint32_t goes_on(td_lower *l, loop *p, uint32_t test)
{
    td_flag broke = l->flow.broke;
    td_low_at(l, p->ast);
    if (broke.state == TD_FLAG_YES || l->flow.gone) return td_low_made(l, td_ir_bool(l->e, false));
    if (broke.state == TD_FLAG_NO) return test ? td_low_test(l, test) : td_low_made(l, td_ir_bool(l->e, true));
    td_branch b;
    td_low_if(l, &b, broke.value, p->ast);
    b.values[0] = td_low_made(l, td_ir_bool(l->e, false));
    td_low_else(l, &b);
    b.values[1] = test ? td_low_test(l, test) : td_low_made(l, td_ir_bool(l->e, true));
    td_low_end_if(l, &b);
    return b.result;
}

/* The block behind a loop that was not broken. */
static void otherwise_block(td_lower *l, uint32_t node, uint32_t block, td_flag broke)
{
    if (!block) return;
    if (broke.state == TD_FLAG_NO) {
        td_low_block(l, block, 0);
        return;
    }
    td_branch b;
    td_low_at(l, node);
    td_low_if(l, &b, broke.value, node);
    td_low_else(l, &b);
    td_low_block(l, block, 0);
    td_low_end_if(l, &b);
}

typedef struct trips {
    uint32_t count, start, test, target, over, block, otherwise; /* nodes; values: count, start */
    td_iter it;
} trips;

static void set_unset(td_lower *l, uint32_t name, void *arg)
{
    (void)arg;
    td_var *v = td_low_var(l, name);
    if (v->state == TD_VAR_MIXED) v->state = TD_VAR_UNSET;
}

static void run_loop(td_lower *l, uint32_t node, trips *t)
{
    loop p = {.ast = node};
    td_flag broke;
    bool unrolled = l->unrolled;
    l->unrolled = false;
    p.carried = td_low_array(l, td_low_width(l) + 1), p.types = td_low_array(l, td_low_width(l) + 1);
    td_low_names_in(l, node, find_carried, &p);
    for (uint32_t k = 0; k < p.ncarried; k++) p.types[k] = TD_IR_NONE;
    do {
        if (p.again) undo_loop(l, &p);
        begin_loop(l, &p, t->count, t->start);
        if (t->target)
            td_low_assign(l, t->target, td_low_iter_item(l, t->over, &t->it, td_ir_param(td_ir_now(l->e), p.body, 0)));
        else td_low_refine(l, t->test, true);
        td_low_block(l, t->block, 0);
        for (uint32_t k = 0; k < p.ncarried && !l->flow.gone; k++) check_type(l, &p, k);
    } while (p.again);
    uint32_t condition = goes_on(l, &p, t->test);
    end_loop(l, &p, condition, t->otherwise != 0, &broke);
    l->unrolled = unrolled;
    td_low_names_in(l, node, set_unset, NULL);
    otherwise_block(l, node, t->otherwise, broke);
}

void td_low_for(td_lower *l, uint32_t node)
{
    trips t = {.target = td_low_kid(l, node, 0), .over = td_low_kid(l, node, 1), .block = td_low_kid(l, node, 2)};
    t.otherwise = td_low_kid(l, node, 3);
    if (td_low_unroll(l, node)) return;
    if (is_value(l, t.over)) {
        uint32_t value = td_low_expr(l, t.over);
        if (td_low_unroll_tuple(l, node, value)) return;
        over_value(l, t.over, value, &t.it);
    } else td_low_over(l, t.over, &t.it);
    td_low_at(l, node);
    t.count = t.it.count, t.start = td_low_made(l, td_ir_bool(l->e, true));
    run_loop(l, node, &t);
}

void td_low_while(td_lower *l, uint32_t node)
{
    trips t = {.test = td_low_kid(l, node, 0), .block = td_low_kid(l, node, 1), .otherwise = td_low_kid(l, node, 2)};
    if (td_low_truth(l, t.test) == TD_NEVER) {
        if (t.otherwise) td_low_block(l, t.otherwise, 0);
        return;
    }
    t.start = td_low_test(l, t.test);
    td_low_at(l, node);
    t.count = int_value(l, INT64_MAX);
    run_loop(l, node, &t);
}

/* ---- lists */

/* Without items: the type comes with the first. */
static uint32_t empty(td_lower *l, bool dict)
{
    uint32_t none = td_low_plain(l, TD_T_NONE);
    if (dict)
        return td_low_op(l, TD_PRIM_DICTCONSTRUCT, 0, NULL,
                         td_low_made(l, td_type_dict(l->e, td_low_plain(l, TD_T_INT), none)));
    return td_low_op(l, TD_PRIM_LISTCONSTRUCT, 0, NULL, td_low_made(l, td_type_list(l->e, none)));
}

static void put_item(td_lower *l, uint32_t node, uint32_t list, bool dict)
{
    uint32_t in[3] = {list, td_low_expr(l, td_low_kid(l, node, 0))};
    if (dict) in[2] = td_low_expr(l, td_low_kid(l, node, 1));
    td_type_kind key = td_low_kind(l, in[1]);
    td_low_at(l, node);
    if (dict && key != TD_T_INT && key != TD_T_STR) td_low_wrong(l, node, "the keys of a dict are ints or texts");
    td_ir_retype(l->e, list,
                 td_low_made(l, dict ? td_type_dict(l->e, td_low_type(l, in[1]), td_low_type(l, in[2]))
                                     : td_type_list(l->e, td_low_type(l, in[1]))));
    if (dict) td_low_prim(l, node, "setitem", 3, in);
    else td_low_do(l, TD_PRIM_APPEND, 2, in);
}

uint32_t td_low_gathered(td_lower *l, uint32_t node)
{
    td_iter it;
    loop p = {.ast = node};
    td_flag broke;
    td_low_over(l, node, &it);
    td_low_at(l, node);
    uint32_t list = empty(l, false), start = td_low_made(l, td_ir_bool(l->e, true));
    td_low_flow outer = l->flow;
    l->flow = (td_low_flow){.result = TD_IR_NONE};
    begin_loop(l, &p, it.count, start);
    uint32_t item = td_low_iter_item(l, node, &it, td_ir_param(td_ir_now(l->e), p.body, 0));
    td_ir_retype(l->e, list, td_low_made(l, td_type_list(l->e, td_low_type(l, item))));
    td_low_do(l, TD_PRIM_APPEND, 2, (uint32_t[]){list, item});
    end_loop(l, &p, td_low_made(l, td_ir_bool(l->e, true)), false, &broke);
    l->flow = outer;
    return list;
}

uint32_t td_low_comprehension(td_lower *l, uint32_t node)
{
    bool dict = td_low_node(l, node)->kind == TD_N_DICT_COMP;
    uint32_t target = td_low_kid(l, node, 1 + dict), n = td_low_node(l, node)->n, vars = l->nvars, first = 3 + dict;
    td_iter it;
    loop p = {.ast = node};
    td_flag broke;
    if (!dict && td_low_unroll_list(l, node, &vars)) return vars;
    td_low_over(l, td_low_kid(l, node, 2 + dict), &it);
    td_low_at(l, node);
    uint32_t list = empty(l, dict);
    uint32_t start = td_low_made(l, td_ir_bool(l->e, true));
    td_low_flow outer = l->flow;
    l->flow = (td_low_flow){.result = TD_IR_NONE};
    td_low_push_target(l, target);
    begin_loop(l, &p, it.count, start);
    td_low_assign(l, target, td_low_iter_item(l, node, &it, td_ir_param(td_ir_now(l->e), p.body, 0)));
    td_branch *b = td_low_take(l, n * sizeof *b);
    for (uint32_t k = first; k < n; k++) {
        td_low_if(l, &b[k - first], td_low_test(l, td_low_kid(l, node, k)), node);
        td_low_refine(l, td_low_kid(l, node, k), true);
    }
    put_item(l, node, list, dict);
    for (uint32_t k = n; k-- > first;) {
        td_low_else(l, &b[k - first]);
        td_low_end_if(l, &b[k - first]);
    }
    end_loop(l, &p, td_low_made(l, td_ir_bool(l->e, true)), false, &broke);
    td_low_vars_pop(l, vars);
    l->flow = outer;
    return list;
}
