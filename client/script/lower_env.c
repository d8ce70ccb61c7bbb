/* Variables, and what becomes of them where two ways meet. See lower.h. */
#include "client/script/lower.h"

/* ---- variables */

td_var *td_low_var(td_lower *l, uint32_t name)
{
    return l->var_of[name] ? &l->vars[l->var_of[name] - 1] : NULL;
}

void td_low_var_push(td_lower *l, uint32_t name)
{
    enum { MOST = 4096 }; /* each If compares all */
    if (l->nvars == MOST)
        td_refuse(l->f, TD_E_QUOTA, (td_span){1, 0, 1, 0}, "functions of a program have at most %d variables", MOST);
    td_script_room(l->f, &l->vars, l->nvars, 1, &l->var_room, sizeof *l->vars);
    l->vars[l->nvars] = (td_var){.name = name, .declared = TD_IR_NONE, .outer = l->var_of[name]};
    l->var_of[name] = ++l->nvars;
}

void td_low_vars_pop(td_lower *l, uint32_t to)
{
    while (l->nvars > to) {
        td_var *v = &l->vars[--l->nvars];
        l->var_of[v->name] = v->outer;
    }
}

void td_low_set(td_lower *l, td_var *v, uint32_t value, td_span at)
{
    v->state = TD_VAR_SET, v->value = v->base = value, v->at = at;
    if (!l->blame && td_ir_now(l->e)->values[value].name == TD_IR_NONE)
        td_ir_name(l->e, value, td_ast_text(l->ast, v->name));
}

uint32_t td_low_get(td_lower *l, uint32_t node)
{
    const char *name = td_low_text(l, node);
    td_var *v = td_low_var(l, td_low_node(l, node)->text);
    if (v->state == TD_VAR_UNSET)
        td_low_wrong(l, node, "'%.60s' may have no value here; give it one on every way", name);
    if (v->state == TD_VAR_MIXED)
        td_low_wrong(l, node, "'%.60s' has two types here, by which way it came; %s", name,
                     v->value == TD_IR_NONE ? "give it one" : "test isinstance() before");
    if (v->state == TD_VAR_THING) return td_low_thing_value(l, node, v->thing);
    if (v->state == TD_VAR_FUNCTION) td_low_wrong(l, node, "'%.60s' is a function; a program can only call it", name);
    return v->value;
}

static void names_of_target(td_lower *l, uint32_t node, void (*found)(td_lower *, uint32_t, void *), void *arg)
{
    const td_ast_node *n = td_low_node(l, node);
    if (n->kind == TD_N_NAME) found(l, n->text, arg);
    if (n->kind == TD_N_TUPLE || n->kind == TD_N_LIST || n->kind == TD_N_STARRED)
        for (uint32_t k = 0; k < n->n; k++) names_of_target(l, td_low_kid(l, node, k), found, arg);
}

/* Names that statements below a node assign; not those of functions inside. */
void td_low_names_in(td_lower *l, uint32_t node, void (*found)(td_lower *l, uint32_t name, void *arg), void *arg)
{
    const td_ast_node *n = td_low_node(l, node);
    switch (n->kind) {
    case TD_N_FUNCTION: found(l, n->text, arg); break;
    case TD_N_ASSIGN:
        for (uint32_t k = 2; k < n->n; k++) names_of_target(l, td_low_kid(l, node, k), found, arg);
        break;
    case TD_N_DELETE:
        for (uint32_t k = 0; k < n->n; k++) names_of_target(l, td_low_kid(l, node, k), found, arg);
        break;
    case TD_N_FOR: names_of_target(l, td_low_kid(l, node, 0), found, arg); /* fall through */
    case TD_N_IF:
    case TD_N_WHILE:
    case TD_N_WITH:
    case TD_N_BLOCK:
        for (uint32_t k = 0; k < n->n; k++) td_low_names_in(l, td_low_kid(l, node, k), found, arg);
        break;
    case TD_N_ANN_ASSIGN:
    case TD_N_AUG_ASSIGN: names_of_target(l, td_low_kid(l, node, 0), found, arg); break;
    case TD_N_WITH_ITEM: names_of_target(l, td_low_kid(l, node, 1), found, arg); break;
    default: break;
    }
}

static void push_name(td_lower *l, uint32_t name, void *arg)
{
    (void)arg;
    td_low_var_push(l, name);
}

void td_low_push_target(td_lower *l, uint32_t target)
{
    names_of_target(l, target, push_name, NULL);
}

/* ---- what waits */

void td_low_nest(td_lower *l, uint32_t node)
{
    if (++l->nest >= TD_IR_MAX_NEST)
        td_low_refuse(
            l, TD_E_INVALID, node,
            "blocks are nested more than %d deep here (what follows a 'return' in an 'if' is one); write functions",
            TD_IR_MAX_NEST);
}

void td_low_save(td_lower *l)
{
    uint32_t n = td_low_width(l);
    td_script_room(l->f, &l->saved, l->nsaved, n, &l->saved_room, sizeof *l->saved);
    if (n) memcpy(l->saved + l->nsaved, l->vars + l->frame, n * sizeof *l->vars);
    l->nsaved += n;
}

/* In the code of archives a type that the first arm writes behind a name is that of the other arm, too. */
void td_low_restore(td_lower *l, uint32_t from)
{
    for (uint32_t k = 0; k < td_low_width(l); k++) {
        td_var *v = &l->vars[l->frame + k];
        uint32_t declared = l->units[l->unit].code ? v->declared : TD_IR_NONE;
        *v = l->saved[from + k];
        if (v->declared == TD_IR_NONE) v->declared = declared;
    }
}

uint32_t td_low_flag(td_lower *l, td_flag flag)
{
    return flag.state == TD_FLAG_MAYBE ? flag.value : td_low_made(l, td_ir_bool(l->e, flag.state == TD_FLAG_YES));
}

/* ---- If */

void td_low_if(td_lower *l, td_branch *b, uint32_t condition, uint32_t place)
{
    *b = (td_branch){.parent = td_ir_cursor(l->e), .original = l->nsaved, .rng = l->rng, .before = l->flow};
    b->values[0] = b->values[1] = b->result = TD_IR_NONE;
    b->place = place;
    l->ifs++;
    td_low_nest(l, place);
    b->node = td_low_made(l, td_ir_if(l->e, condition));
    td_low_save(l);
    td_ir_to_end(l->e, td_ir_child(l->e, b->node, 0));
    l->rng = 0;
}

void td_low_else(td_lower *l, td_branch *b)
{
    b->first = l->nsaved;
    b->flow = l->flow;
    td_low_save(l);
    td_low_restore(l, b->original);
    l->flow = b->before;
    td_ir_to_end(l->e, td_ir_child(l->e, b->node, 1));
    l->rng = 0;
}

/* One more result; an arm that has no value gives one that nobody looks at. */
static uint32_t add_pair(td_lower *l, td_branch *b, uint32_t first, uint32_t second, uint32_t type)
{
    uint32_t pair[2] = {first, second};
    for (unsigned k = 0; k < 2; k++)
        if (pair[k] == TD_IR_NONE) {
            td_ir_to_end(l->e, td_ir_child(l->e, b->node, k));
            pair[k] = td_low_op(l, TD_PRIM_UNINITIALIZED, 0, NULL, type);
        }
    td_script_room(l->f, &l->pairs, l->npairs, 2, &l->pair_room, sizeof *l->pairs);
    l->pairs[l->npairs++] = pair[0];
    l->pairs[l->npairs++] = pair[1];
    return td_low_made(l, td_ir_out_new(l->e, b->node, type));
}

static td_flag merge_flag(td_lower *l, td_branch *b, td_flag before, td_flag x, td_flag y)
{
    static const td_flag no = {TD_FLAG_NO, 0};
    if (b->flow.gone) x = y.state == TD_FLAG_MAYBE && y.value != before.value ? no : y; /* nobody asks */
    if (l->flow.gone) y = x.state == TD_FLAG_MAYBE && x.value != before.value ? no : x;
    if (x.state == y.state && (x.state != TD_FLAG_MAYBE || x.value == y.value)) return x;
    td_ir_to_end(l->e, td_ir_child(l->e, b->node, 0));
    uint32_t first = td_low_flag(l, x);
    td_ir_to_end(l->e, td_ir_child(l->e, b->node, 1));
    uint32_t second = td_low_flag(l, y);
    return (td_flag){TD_FLAG_MAYBE, add_pair(l, b, first, second, td_low_plain(l, TD_T_BOOL))};
}

static bool same_flag(td_flag a, td_flag b)
{
    return a.state == b.state && a.value == b.value;
}

static uint32_t merge_value(td_lower *l, td_branch *b, uint32_t x, uint32_t y)
{
    if (x == y) return x;
    if (x != TD_IR_NONE && y != TD_IR_NONE) td_low_type_empty(l, b->place, x, y);
    uint32_t type = td_low_type(l, x == TD_IR_NONE ? y : x);
    if (x != TD_IR_NONE && y != TD_IR_NONE) {
        type = td_low_unify(l, td_low_type(l, x), td_low_type(l, y));
        if (type == TD_IR_NONE)
            td_low_wrong(l, b->place, "this is %s on one way and %s on the other",
                         td_low_type_name(l, td_low_type(l, x)), td_low_type_name(l, td_low_type(l, y)));
    }
    return add_pair(l, b, x, y, type);
}

/* Beside a way that is left by an error: what was there before, or nothing. */
static uint32_t gone_value(const td_branch *b, uint32_t other)
{
    return other == b->before.result ? other : TD_IR_NONE;
}

/* Does a way end so that nobody asks for its variables? */
static bool left(const td_low_flow *f)
{
    return f->gone || f->returned.state == TD_FLAG_YES;
}

static td_low_flow merge_flow(td_lower *l, td_branch *b)
{
    td_low_flow x = b->flow, y = l->flow, to = y;
    to.gone = x.gone && y.gone;
    to.result =
        merge_value(l, b, x.gone ? gone_value(b, y.result) : x.result, y.gone ? gone_value(b, x.result) : y.result);
    to.returned = merge_flag(l, b, b->before.returned, x.returned, y.returned);
    bool same = same_flag(x.stop, x.returned) && same_flag(y.stop, y.returned) && !x.gone && !y.gone;
    to.stop = same ? to.returned : merge_flag(l, b, b->before.stop, x.stop, y.stop);
    same = same_flag(x.stop, x.broke) && same_flag(y.stop, y.broke) && !x.gone && !y.gone;
    to.broke = same ? to.stop : merge_flag(l, b, b->before.broke, x.broke, y.broke);
    return to;
}

static bool is_mixed(const td_var *v)
{
    return v->several && v->state == TD_VAR_MIXED && v->value != TD_IR_NONE;
}

/* Of several types that it may have; false: they are one, or none that are known. */
static bool mix(td_lower *l, td_branch *b, const td_var *o, const td_var *x, td_var *y)
{
    uint32_t pair[2];
    bool set = x->state == TD_VAR_SET && y->state == TD_VAR_SET;
    if (is_mixed(o) && x->base == o->base && y->base == o->base) {
        *y = *o; /* tests alone said more of it */
        return true;
    }
    if (set && td_low_unify(l, td_low_type(l, x->value), td_low_type(l, y->value)) != TD_IR_NONE) return false;
    if (!td_low_mix(l, b, x, y, pair)) return false;
    y->state = TD_VAR_MIXED;
    y->base = y->value = add_pair(l, b, pair[0], pair[1], td_low_type(l, pair[0]));
    return true;
}

/* y is the variable now (of the second arm), x what the first one left, o what it was before. */
static void merge_var(td_lower *l, td_branch *b, const td_var *o, const td_var *x, td_var *y)
{
    bool no_x = left(&b->flow), no_y = left(&l->flow);
    if (no_x && no_y) {
        *y = *o;
        return;
    }
    const td_var *from = no_y ? x : y;
    if (x->state == y->state && x->base == y->base && x->thing == y->thing && !is_mixed(o)) { /* nobody assigned */
        bool both = x->value == y->value;
        *y = *(both ? x : o);
        return;
    }
    if (no_x || no_y) {
        td_var to = *from;
        if (from->base == o->base && from->state == o->state) to = *o;
        else if (from->state == TD_VAR_SET)
            to.base = to.value =
                add_pair(l, b, no_x ? TD_IR_NONE : x->value, no_y ? TD_IR_NONE : y->value, td_low_type(l, from->value));
        *y = to;
        return;
    }
    if (y->several && (x->state == TD_VAR_SET || is_mixed(x)) && (y->state == TD_VAR_SET || is_mixed(y)) &&
        mix(l, b, o, x, y))
        return;
    if (x->state != TD_VAR_SET || y->state != TD_VAR_SET) {
        y->value = y->base = TD_IR_NONE;
        y->state = x->state == TD_VAR_MIXED || y->state == TD_VAR_MIXED ? TD_VAR_MIXED : TD_VAR_UNSET;
        return;
    }
    td_low_type_empty(l, b->place, x->value, y->value);
    uint32_t type = td_low_unify(l, td_low_type(l, x->value), td_low_type(l, y->value));
    if (type == TD_IR_NONE) {
        y->state = TD_VAR_MIXED, y->value = y->base = TD_IR_NONE;
        return;
    }
    y->base = y->value = add_pair(l, b, x->value, y->value, type);
    td_ir_name(l->e, y->value, td_ast_text(l->ast, y->name));
}

static void return_pairs(td_lower *l, td_branch *b)
{
    uint32_t n = l->npairs / 2, *values = td_low_array(l, n);
    for (unsigned arm = 0; arm < 2; arm++) {
        for (uint32_t k = 0; k < n; k++) values[k] = l->pairs[2 * k + arm];
        td_ir_returns(l->e, td_ir_child(l->e, b->node, arm), n, values);
    }
}

void td_low_end_if(td_lower *l, td_branch *b)
{
    l->npairs = 0;
    for (uint32_t i = 0; i < td_low_width(l); i++) {
        td_var o = l->saved[b->original + i], x = l->saved[b->first + i];
        merge_var(l, b, &o, &x, &l->vars[l->frame + i]);
    }
    if (b->values[0] != TD_IR_NONE || b->values[1] != TD_IR_NONE)
        b->result = merge_value(l, b, b->values[0], b->values[1]);
    td_low_flow to = merge_flow(l, b);
    return_pairs(l, b);
    l->flow = to;
    l->nest--;
    l->ifs--;
    l->nsaved = b->original;
    l->rng = b->rng;
    td_ir_to_end(l->e, b->parent);
}
