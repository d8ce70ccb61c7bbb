/* Loops over modules, and over tuples of different types: the body once for each. See lower.h. */
#include "client/script/lower.h"

typedef struct unroll {
    uint32_t node, trips, k; /* of a 'for', or of a list made by one */
    uint32_t target, over, block;
    td_iter *lists;             /* what else is gone over, in the order of the source */
    uint32_t nlists, at, tuple; /* TD_IR_NONE: it goes over modules */
} unroll;

static bool is_call(td_lower *l, uint32_t node, const char *name)
{
    uint32_t f = td_low_kid(l, node, 0);
    return td_low_node(l, node)->kind == TD_N_CALL && td_low_node(l, f)->kind == TD_N_NAME &&
           !td_low_var(l, td_low_node(l, f)->text) && strcmp(td_low_text(l, f), name) == 0;
}

/* The container of x, x.values(), x.keys(), x.items() and x.parameters(); *what: the first three, or "". */
static const td_script_object *container(td_lower *l, uint32_t node, const char **what)
{
    const td_script_name *display = td_low_display_of(l, node);
    const td_script_object *o = td_low_container(l, display ? display : td_low_thing(l, node));
    *what = o && o->kind == TD_OBJECT_PAIRS ? "items" : "";
    if (!o && td_low_node(l, node)->kind == TD_N_CALL && td_low_node(l, node)->n == 1) {
        uint32_t f = td_low_kid(l, node, 0);
        if (td_low_node(l, f)->kind != TD_N_ATTRIBUTE) return NULL;
        *what = td_low_text(l, f);
        if (strcmp(*what, "values") != 0 && strcmp(*what, "keys") != 0 && strcmp(*what, "items") != 0) return NULL;
        o = td_low_container(l, td_low_thing(l, td_low_kid(l, f, 0)));
    }
    if (o && !**what && o->kind == TD_OBJECT_DICT) *what = "keys";
    return o;
}

/* How often: as often as the shortest container; TD_IR_NONE: there is none. */
static uint32_t count(td_lower *l, uint32_t node)
{
    const char *what;
    bool zip = is_call(l, node, "zip");
    if (is_call(l, node, "enumerate")) return count(l, td_low_kid(l, node, 1));
    const td_script_object *o = zip ? NULL : container(l, node, &what);
    uint32_t least = o ? o->items : TD_IR_NONE;
    for (uint32_t k = 1; zip && k < td_low_node(l, node)->n; k++) {
        uint32_t n = count(l, td_low_kid(l, node, k));
        if (n < least) least = n;
    }
    return least;
}

/* Lists beside modules are lowered once, before all. */
static void find_lists(td_lower *l, unroll *u, uint32_t node)
{
    if (is_call(l, node, "enumerate")) find_lists(l, u, td_low_kid(l, node, 1));
    else if (is_call(l, node, "zip"))
        for (uint32_t k = 1; k < td_low_node(l, node)->n; k++) find_lists(l, u, td_low_kid(l, node, k));
    else if (count(l, node) == TD_IR_NONE) td_low_over(l, node, &u->lists[u->nlists++]);
}

static uint32_t part(td_lower *l, uint32_t target, uint32_t k, uint32_t n)
{
    const td_ast_node *t = td_low_node(l, target);
    if ((t->kind != TD_N_TUPLE && t->kind != TD_N_LIST) || t->n != n)
        td_low_wrong(l, target, "%u names are wanted here", n);
    return td_low_kid(l, target, k);
}

static uint32_t number(td_lower *l, int64_t v)
{
    return td_low_made(l, td_ir_int(l->e, v));
}

static void assign_key(td_lower *l, uint32_t target, const char *key)
{
    td_low_at(l, target);
    td_low_assign(l, target, td_low_made(l, td_ir_str(l->e, key, strlen(key))));
}

static void assign_item(td_lower *l, uint32_t target, const td_script_name *item, const char *what)
{
    bool both = strcmp(what, "items") == 0;
    if (strcmp(what, "keys") == 0) {
        assign_key(l, target, item->name);
        return;
    }
    if (both) assign_key(l, part(l, target, 0, 2), item->name);
    if (both) target = part(l, target, 1, 2);
    if (td_low_is_value(item)) td_low_assign(l, target, td_low_thing_value(l, target, item));
    else td_low_set_thing(l, target, item);
}

/* The target of this trip. */
static void bind(td_lower *l, unroll *u, uint32_t target, uint32_t node)
{
    const char *what;
    uint32_t n = td_low_node(l, node)->n;
    td_low_at(l, node);
    if (u->tuple != TD_IR_NONE) {
        td_low_assign(l, target, td_low_item(l, u->tuple, u->k));
        return;
    }
    if (is_call(l, node, "enumerate")) {
        uint32_t start = n > 2 ? td_low_kid(l, node, 2) : 0, k = number(l, u->k);
        if (start && td_low_node(l, start)->kind == TD_N_KEYWORD) start = td_low_kid(l, start, 0);
        if (start) k = td_low_binary(l, node, TD_O_ADD, td_low_expr(l, start), k, false);
        td_low_assign(l, part(l, target, 0, 2), k);
        bind(l, u, part(l, target, 1, 2), td_low_kid(l, node, 1));
        return;
    }
    if (is_call(l, node, "zip")) {
        for (uint32_t k = 1; k < n; k++) bind(l, u, part(l, target, k - 1, n - 1), td_low_kid(l, node, k));
        return;
    }
    const td_script_object *o = container(l, node, &what);
    if (o) assign_item(l, target, &o->names.at[u->k], what);
    else td_low_assign(l, target, td_low_iter_item(l, node, &u->lists[u->at++], number(l, u->k)));
}

/* zip() ends with the shortest: what is shorter than the modules is known, or an error. */
static void check_lists(td_lower *l, unroll *u)
{
    int64_t n;
    for (uint32_t k = 0; k < u->nlists; k++) {
        const td_iter *it = &u->lists[k];
        if (td_low_iter_known(l, it, &n)) {
            if (n < u->trips) u->trips = n < 0 ? 0 : (uint32_t)n;
            continue;
        }
        td_low_at(l, u->over);
        td_low_prelude(l, u->over, "beside_modules", 2, (uint32_t[]){it->count, number(l, u->trips)});
    }
}

static bool begin(td_lower *l, unroll *u)
{
    u->trips = count(l, u->over);
    if (u->trips == TD_IR_NONE) return false;
    u->lists = td_low_take(l, (td_low_node(l, u->over)->n + 1) * sizeof *u->lists);
    find_lists(l, u, u->over);
    check_lists(l, u);
    return true;
}

static void trips(td_lower *l, void *arg)
{
    unroll *u = arg;
    if (u->k == u->trips) return;
    u->at = 0;
    bind(l, u, u->target, u->over);
    td_low_block(l, u->block, 0);
    u->k++;
    td_low_go_on(l, u->node, trips, u);
}

static void run(td_lower *l, unroll *u)
{
    bool unrolled = l->unrolled;
    uint32_t otherwise = td_low_kid(l, u->node, 3);
    u->block = td_low_kid(l, u->node, 2);
    if (otherwise)
        td_low_wrong(l, otherwise,
                     u->tuple == TD_IR_NONE ? "a loop over modules has no 'else'"
                                            : "a loop over a tuple of different types has no 'else'");
    l->unrolled = true;
    trips(l, u);
    l->unrolled = unrolled;
}

bool td_low_unroll(td_lower *l, uint32_t node)
{
    unroll u = {.node = node, .target = td_low_kid(l, node, 0), .over = td_low_kid(l, node, 1), .tuple = TD_IR_NONE};
    if (!begin(l, &u)) return false;
    run(l, &u);
    return true;
}

bool td_low_unroll_tuple(td_lower *l, uint32_t node, uint32_t value)
{
    unroll u = {.node = node, .target = td_low_kid(l, node, 0), .over = td_low_kid(l, node, 1), .tuple = value};
    uint32_t type = td_low_type(l, value), one;
    if (td_low_kind(l, value) != TD_T_TUPLE || !(u.trips = td_type_parts(td_ir_now(l->e), type))) return false;
    one = td_low_part(l, type, 0);
    for (uint32_t k = 1; k < u.trips && one != TD_IR_NONE; k++) one = td_low_unify(l, one, td_low_part(l, type, k));
    bool anyhow = l->blame && l->unit != l->prelude && l->unit != l->aten; /* flags that the trips leave stay known */
    if (one != TD_IR_NONE && !anyhow) return false;
    run(l, &u);
    return true;
}

/* A list of tensors as well, which may be gone over as such. */
static bool passes(td_lower *l, uint32_t node)
{
    const char *what;
    const td_script_object *o = container(l, node, &what);
    return o && o->kind >= TD_OBJECT_ONCE;
}

bool td_low_unroll_list(td_lower *l, uint32_t node, uint32_t *list)
{
    unroll u = {.node = node, .target = td_low_kid(l, node, 1), .over = td_low_kid(l, node, 2), .tuple = TD_IR_NONE};
    uint32_t vars = l->nvars;
    if (td_low_node(l, node)->n > 3 && passes(l, u.over)) return false;
    if (!begin(l, &u)) return false;
    if (td_low_node(l, node)->n > 3) td_low_wrong(l, td_low_kid(l, node, 3), "a list over modules takes all of them");
    uint32_t *values = td_low_array(l, u.trips);
    td_low_push_target(l, u.target);
    for (; u.k < u.trips; u.k++) {
        u.at = 0;
        bind(l, &u, u.target, u.over);
        values[u.k] = td_low_expr(l, td_low_kid(l, node, 0));
    }
    td_low_vars_pop(l, vars);
    return *list = td_low_list(l, node, u.trips, values), true;
}
