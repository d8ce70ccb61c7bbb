/* Functions: of the source, called as fn::NAME; inside of others, lowered where they are called. See lower.h. */
#include "client/script/lower.h"

#include <stdio.h>

/* ---- parameters and locals */

bool td_low_any_number(const td_lower *l, uint32_t annotation)
{
    const td_ast_node *n = td_low_node(l, annotation);
    if (!l->units[td_low_unit_of(l, annotation)].code) return false;
    if (n->kind == TD_N_SUBSCRIPT && td_low_node(l, td_low_kid(l, annotation, 0))->kind == TD_N_NAME &&
        strcmp(td_low_text(l, td_low_kid(l, annotation, 0)), "Optional") == 0)
        return td_low_any_number(l, td_low_kid(l, annotation, 1));
    return n->kind == TD_N_NAME && strcmp(td_low_text(l, annotation), "number") == 0;
}

/* The type of parameter k by annotation or comment; TD_IR_NONE: it has none. */
uint32_t td_low_type_of_param(td_lower *l, uint32_t function, uint32_t k)
{
    uint32_t params = td_low_kid(l, function, 0), types = td_low_kid(l, function, 2);
    uint32_t annotation = td_low_kid(l, td_low_kid(l, params, k), 0), n = td_low_node(l, params)->n;
    if (annotation && (td_low_any_number(l, annotation) || td_low_is_union(l, annotation))) return TD_IR_NONE;
    if (annotation) return td_low_type_of(l, annotation);
    uint32_t given = types ? td_low_node(l, types)->n : 0, without = n - given;
    if (types && given > n) td_low_wrong(l, types, "there are more types than parameters");
    return types && k >= without ? td_low_type_of(l, td_low_kid(l, types, k - without)) : TD_IR_NONE;
}

static void push_local(td_lower *l, uint32_t name, void *arg)
{
    uint32_t first = *(uint32_t *)arg;
    if (l->var_of[name] <= first) td_low_var_push(l, name);
}

static void push_locals(td_lower *l, uint32_t function)
{
    uint32_t params = td_low_kid(l, function, 0), first = l->nvars;
    for (uint32_t k = 0; k < td_low_node(l, params)->n; k++) {
        uint32_t param = td_low_kid(l, params, k), name = td_low_node(l, param)->text;
        if (l->var_of[name] > first) td_low_wrong(l, param, "two parameters have this name");
        td_low_var_push(l, name);
    }
    td_low_names_in(l, td_low_kid(l, function, 3), push_local, &first);
}

/* None, where the function ends without a 'return'. */
static uint32_t none_of(td_lower *l, uint32_t function, uint32_t none)
{
    if (l->promised == TD_IR_NONE) return none;
    td_type_kind kind = td_type_kind_of(td_ir_now(l->e), l->promised);
    if (kind != TD_T_OPTIONAL && kind != TD_T_NONE && td_low_kind(l, none) == TD_T_NONE)
        td_low_wrong(l, function, "'%.60s' may end without a 'return', and %s is wanted", td_low_text(l, function),
                     td_low_type_name(l, l->promised));
    return td_low_convert(l, function, none, l->promised);
}

/* What the function returns, at the end of its block. */
static uint32_t result_of(td_lower *l, uint32_t function)
{
    td_low_flow f = l->flow;
    td_low_at(l, function);
    if (f.returned.state == TD_FLAG_YES) return f.result;
    uint32_t none = l->promised == TD_IR_NONE || !f.gone ? td_low_made(l, td_ir_none(l->e))
                                                         : td_low_op(l, TD_PRIM_UNINITIALIZED, 0, NULL, l->promised);
    if (f.gone || f.returned.state == TD_FLAG_NO) {
        return f.gone ? none : none_of(l, function, none);
    }
    td_branch b;
    td_low_if(l, &b, f.returned.value, function);
    b.values[0] = f.result;
    td_low_else(l, &b);
    b.values[1] = none_of(l, function, none);
    td_low_end_if(l, &b);
    return b.result;
}

static uint32_t lower_body(td_lower *l, uint32_t function)
{
    uint32_t returns = td_low_kid(l, function, 1);
    bool one = returns && !td_low_any_number(l, returns) && !td_low_is_union(l, returns);
    l->promised = one ? td_low_type_of(l, returns) : TD_IR_NONE;
    l->flow = (td_low_flow){.result = TD_IR_NONE};
    td_low_block(l, td_low_kid(l, function, 3), 0);
    return result_of(l, function);
}

/* ---- whose names are meant */

typedef struct scene {
    uint32_t unit, frame, promised, blame, *var_of;
    bool unrolled;
    td_low_flow flow;
} scene;

/* An array where no name is a variable. */
static uint32_t *empty_scope(td_lower *l)
{
    if (l->nscopes) return l->scopes[--l->nscopes];
    return memset(td_low_array(l, l->ast->ntexts), 0, l->ast->ntexts * sizeof(uint32_t));
}

static void enter_unit(td_lower *l, uint32_t unit, scene *before)
{
    *before = (scene){l->unit, l->frame, l->promised, l->blame, l->var_of, l->unrolled, l->flow};
    l->var_of = empty_scope(l);
    l->unit = unit;
    l->unrolled = false;
    l->f->source = l->units[unit].source;
}

static void leave_unit(td_lower *l, const scene *before)
{
    td_script_room(l->f, &l->scopes, l->nscopes, 1, &l->scope_room, sizeof *l->scopes);
    l->scopes[l->nscopes++] = l->var_of;
    l->unit = before->unit, l->frame = before->frame, l->promised = before->promised, l->blame = before->blame;
    l->var_of = before->var_of, l->unrolled = before->unrolled, l->flow = before->flow;
    l->f->source = l->units[l->unit].source;
}

/* ---- functions of the module */

static void set_self(td_lower *l, uint32_t object)
{
    td_script_name *thing = td_low_take(l, sizeof *thing);
    td_var *v = &l->vars[l->frame];
    *thing = (td_script_name){.name = td_ast_text(l->ast, v->name), .kind = TD_SN_OBJECT, .object = object};
    v->state = TD_VAR_THING, v->thing = thing, v->value = v->base = 0;
}

static void lower_function(td_lower *l, uint32_t function, uint32_t object, bool entry)
{
    uint32_t params = td_low_kid(l, function, 0), block = td_ir_cursor(l->e);
    bool bound = object != TD_IR_NONE;
    l->frame = l->nvars;
    push_locals(l, function);
    td_low_at(l, function);
    if (bound && td_low_node(l, params)->n == 0) td_low_wrong(l, function, "a method has 'self' first");
    if (bound) set_self(l, object);
    for (uint32_t k = bound; k < td_low_node(l, params)->n; k++) {
        uint32_t param = td_low_kid(l, params, k), type = td_low_type_of_param(l, function, k);
        td_var *v = &l->vars[l->frame + k];
        if (type == TD_IR_NONE && td_low_kid(l, param, 0) && td_low_is_union(l, td_low_kid(l, param, 0)))
            td_low_wrong(l, param,
                         "an argument from outside has one type, or one and None; "
                         "a function that the program calls may take several");
        if (type == TD_IR_NONE) type = td_low_plain(l, TD_T_TENSOR);
        v->declared = type;
        td_low_set(l, v, td_low_made(l, td_ir_param_new(l->e, block, type, td_low_text(l, param))),
                   td_low_node(l, param)->span);
    }
    td_low_take_cells(l, block, entry);
    uint32_t result = lower_body(l, function);
    if (entry) td_low_say_named(l, td_low_type(l, result));
    if (entry) result = td_low_with_states(l, result);
    td_ir_returns(l->e, td_ir_cursor(l->e), 1, &result);
    td_low_vars_pop(l, l->frame);
}

static td_low_function *slot_of(td_lower *l, uint32_t function, uint32_t object)
{
    for (uint32_t k = 0; k < l->nfunctions; k++)
        if (l->functions[k].node == function && l->functions[k].object == object) return &l->functions[k];
    return NULL;
}

static void new_slot(td_lower *l, uint32_t function, uint32_t object)
{
    td_script_room(l->f, &l->functions, l->nfunctions, 1, &l->function_room, sizeof *l->functions);
    l->functions[l->nfunctions++] = (td_low_function){function, object, TD_IR_NONE};
}

static bool is_taken(const td_lower *l, const char *name)
{
    const td_ir *ir = td_ir_now(l->e);
    for (uint32_t k = 0; k < ir->nfunctions; k++)
        if (ir->functions[k].name != TD_IR_NONE && strcmp(td_ir_chars(ir, ir->functions[k].name), name) == 0)
            return true;
    return false;
}

/* "forward" of "layers.0" is layers_0_forward; of equal names the later ones have a number. */
static uint32_t named_function(td_lower *l, uint32_t function, uint32_t object)
{
    char name[160], full[176];
    const char *title = object == TD_IR_NONE ? NULL : td_low_object(l, object)->title;
    snprintf(name, sizeof name, "%.80s%s%.60s", title ? title : "", title && *title ? "_" : "",
             td_low_text(l, function));
    for (char *c = name; *c; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !(*c >= '0' && *c <= '9' && c > name)) *c = '_';
    snprintf(full, sizeof full, "%s", name);
    for (unsigned k = 2; is_taken(l, full); k++) snprintf(full, sizeof full, "%s_%u", name, k);
    return td_low_made(l, td_ir_function_new(l->e, full));
}

/* The number of a function, which is lowered when it is called first: nothing of its caller is seen there. */
static uint32_t number_of(td_lower *l, uint32_t call, uint32_t function, uint32_t object)
{
    td_low_function *slot = slot_of(l, function, object);
    if (slot && slot->number == TD_IR_NONE) td_low_wrong(l, call, "a program cannot call itself; write a loop");
    if (slot) return slot->number;
    uint32_t block = td_ir_cursor(l->e), rng = l->rng, mode = l->mode, *cells = l->cells;
    unsigned nest = l->nest;
    scene before;
    new_slot(l, function, object);
    enter_unit(l, td_low_unit_of(l, function), &before);
    l->rng = l->nest = 0, l->mode = 0, l->blame = 0;
    td_ir_mode_now(l->e, 0);
    uint32_t number = named_function(l, function, object);
    lower_function(l, function, object, false);
    slot_of(l, function, object)->number = number;
    leave_unit(l, &before);
    l->rng = rng, l->mode = mode, l->nest = nest, l->cells = cells;
    td_ir_mode_now(l->e, mode);
    td_ir_to_end(l->e, block);
    return number;
}

/* ---- calls */

/* x.reshape(2, 3) and meshgrid(x, y): a list of ints, or of tensors, takes all that are left. */
static bool takes_rest(td_lower *l, uint32_t call, uint32_t k, uint32_t type, uint32_t value)
{
    if (type == TD_IR_NONE || td_type_kind_of(td_ir_now(l->e), type) != TD_T_LIST) return false;
    td_type_kind kind = td_low_kind(l, value), part = td_type_kind_of(td_ir_now(l->e), td_low_part(l, type, 0));
    bool one = (kind == TD_T_INT && part == TD_T_INT) || (kind == TD_T_TENSOR && part == TD_T_TENSOR);
    return one && td_low_node(l, td_low_kid(l, call, k))->kind != TD_N_KEYWORD;
}

static uint32_t rest_of(td_lower *l, uint32_t call, uint32_t *k, uint32_t first)
{
    uint32_t n = td_low_node(l, call)->n, *items = td_low_array(l, n), used = 0;
    items[used++] = first;
    for (; *k + 1 < n && td_low_node(l, td_low_kid(l, call, *k + 1))->kind != TD_N_KEYWORD; ++*k) {
        uint32_t arg = td_low_kid(l, call, *k + 1);
        items[used++] = td_low_convert(l, arg, td_low_expr(l, arg), td_low_plain(l, td_low_kind(l, first)));
    }
    return td_low_list(l, call, used, items);
}

/* What a default is, where its function stands. */
static uint32_t default_value(td_lower *l, uint32_t call, uint32_t function, uint32_t node)
{
    scene before;
    enter_unit(l, td_low_unit_of(l, function), &before);
    if (l->units[l->unit].generic && !l->blame) l->blame = call;
    uint32_t value = td_low_expr(l, node);
    leave_unit(l, &before);
    return value;
}

/* Defaults, where no argument is; a default is lowered where it is used. */
static void fill_in(td_lower *l, uint32_t call, uint32_t function, bool bound, uint32_t *values)
{
    uint32_t params = td_low_kid(l, function, 0), n = td_low_node(l, params)->n;
    for (uint32_t k = bound; k < n; k++) {
        uint32_t param = td_low_kid(l, params, k), otherwise = td_low_kid(l, param, 1),
                 type = td_low_type_of_param(l, function, k);
        if (values[k] != TD_IR_NONE) continue;
        if (!otherwise) td_low_wrong(l, call, "the argument '%.60s' is missing", td_low_text(l, param));
        values[k] = default_value(l, call, function, otherwise);
        if (type != TD_IR_NONE) values[k] = td_low_convert(l, otherwise, values[k], type);
    }
}

/* The parameter that a named argument means, or how many there are. What aten.py calls self is the input of a function.
 */
static uint32_t param_of(td_lower *l, uint32_t function, uint32_t arg, bool bound)
{
    uint32_t params = td_low_kid(l, function, 0), n = td_low_node(l, params)->n;
    for (uint32_t k = 0; k < n; k++)
        if (td_low_node(l, td_low_kid(l, params, k))->text == td_low_node(l, arg)->text) return k;
    bool input = n && !bound && l->units[td_low_unit_of(l, function)].generic;
    input = input && strcmp(td_low_text(l, arg), "input") == 0;
    return input && strcmp(td_low_text(l, td_low_kid(l, params, 0)), "self") == 0 ? 0 : n;
}

bool td_low_takes(td_lower *l, uint32_t call, uint32_t function, uint32_t self)
{
    uint32_t params = td_low_kid(l, function, 0), n = td_low_node(l, params)->n, place = self != TD_IR_NONE,
             given = place;
    bool rest = false;
    for (uint32_t k = 1; k < td_low_node(l, call)->n; k++, given++) {
        uint32_t arg = td_low_kid(l, call, k);
        if (td_low_node(l, arg)->kind != TD_N_KEYWORD) place++;
        else if (param_of(l, function, arg, false) == n) return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t param = td_low_kid(l, params, k);
        rest |= td_low_kid(l, param, 0) != 0; /* which may take all that are left */
        if (!td_low_kid(l, param, 1) && k >= given) return false;
    }
    return place <= n || rest;
}

static void check_union(td_lower *l, uint32_t node, uint32_t annotation, uint32_t value)
{
    uint32_t type = td_low_type(l, value);
    if (annotation && td_low_is_union(l, annotation) && !td_low_is_of(l, type, annotation))
        td_low_wrong(l, node, "%s is none of the types that this argument may have", td_low_type_name(l, type));
}

/* Has it a parameter of several types? Then it is lowered for those that are given. */
static bool takes_union(td_lower *l, uint32_t function)
{
    uint32_t params = td_low_kid(l, function, 0);
    for (uint32_t k = 0; k < td_low_node(l, params)->n; k++) {
        uint32_t annotation = td_low_kid(l, td_low_kid(l, params, k), 0);
        if (annotation && td_low_is_union(l, annotation)) return true;
    }
    return false;
}

/* "'f' takes no 'y': it is f(x, n)"; at: of a parameter that is given otherwise. */
static _Noreturn void no_parameter(td_lower *l, uint32_t arg, uint32_t function, bool bound, uint32_t at)
{
    char known[120] = "";
    uint32_t params = td_low_kid(l, function, 0), n = td_low_node(l, params)->n;
    const char *name = td_low_text(l, function);
    bool named = td_low_node(l, arg)->kind == TD_N_KEYWORD;
    size_t used = 0;
    if (at < n)
        td_low_wrong(l, arg, "'%.60s' takes '%.60s' by its %s", name, td_low_text(l, td_low_kid(l, params, at)),
                     named ? "place" : "name");
    for (uint32_t k = bound; k < n && used < sizeof known; k++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", k > bound ? ", " : "",
                                 td_low_text(l, td_low_kid(l, params, k)));
    if (named)
        td_low_wrong(l, arg, "'%.60s' takes no '%.60s': it is %.60s(%s)", name, td_low_text(l, arg), name, known);
    td_low_wrong(l, arg, "'%.60s' takes no argument here: it is %.60s(%s)", name, name, known);
}

/* Arguments in the order of the parameters. `bound`: the first one is known,
 * and is `self` (TD_IR_NONE: no value). */
static uint32_t *arguments(td_lower *l, uint32_t call, uint32_t function, bool bound, uint32_t self, uint32_t *count)
{
    uint32_t params = td_low_kid(l, function, 0), n = td_low_node(l, params)->n, *values = td_low_array(l, n + 1);
    bool generic = l->units[td_low_unit_of(l, function)].generic;
    for (uint32_t k = 0; k < n; k++) values[k] = TD_IR_NONE;
    if (bound && n) values[0] = self;
    for (uint32_t k = 1; k < td_low_node(l, call)->n; k++) {
        uint32_t arg = td_low_kid(l, call, k), value = arg;
        bool named = td_low_node(l, arg)->kind == TD_N_KEYWORD;
        uint32_t at = named ? param_of(l, function, arg, bound) : k - 1 + bound;
        unsigned place = at < n ? td_low_node(l, td_low_kid(l, params, at))->op : 0;
        if (at >= n || place == (named ? TD_PLACE_POSITION : TD_PLACE_KEYWORD))
            no_parameter(l, arg, function, bound, at);
        if (values[at] != TD_IR_NONE || (bound && at == 0)) td_low_wrong(l, arg, "this argument is given twice");
        if (named) value = td_low_kid(l, arg, 0);
        uint32_t type = td_low_type_of_param(l, function, at);
        values[at] = td_low_expr_for(l, value, td_low_wanted_by(l, type));
        if (generic && takes_rest(l, call, k, type, values[at])) values[at] = rest_of(l, call, &k, values[at]);
        if (type != TD_IR_NONE) values[at] = td_low_convert(l, value, values[at], type);
        else check_union(l, value, td_low_kid(l, td_low_kid(l, params, at), 0), values[at]);
    }
    fill_in(l, call, function, bound, values);
    *count = n;
    return values;
}

/* In place: its parameters are variables that have these values. */
static uint32_t inlined(td_lower *l, uint32_t call, uint32_t function, uint32_t object, uint32_t n,
                        const uint32_t *values)
{
    for (struct td_low_active *a = l->active; a; a = a->outer)
        if (a->node == function && a->object == object)
            td_low_wrong(l, call, "a program cannot call itself; write a loop");
    enum { MOST = 16384 }; /* also of those that make no node */
    if (++l->inlined > MOST) td_low_wrong(l, call, "functions inside of others are called more than %d times", MOST);
    struct td_low_active active = {function, object, l->active};
    l->active = &active;
    l->frame = l->nvars;
    push_locals(l, function);
    for (uint32_t k = 0; k < n; k++)
        if (values[k] == TD_IR_NONE) set_self(l, object);
        else td_low_set(l, &l->vars[l->frame + k], values[k], td_low_node(l, call)->span);
    uint32_t result = lower_body(l, function);
    td_low_vars_pop(l, l->frame);
    l->active = active.outer;
    return result;
}

uint32_t td_low_inline(td_lower *l, uint32_t call, uint32_t function)
{
    uint32_t n, frame = l->frame, promised = l->promised;
    uint32_t *values = arguments(l, call, function, false, TD_IR_NONE, &n);
    bool unrolled = l->unrolled;
    td_low_flow flow = l->flow;
    l->unrolled = false;
    uint32_t result = inlined(l, call, function, TD_IR_NONE, n, values);
    flow.gone = l->flow.gone;
    l->frame = frame, l->promised = promised, l->flow = flow, l->unrolled = unrolled;
    return result;
}

uint32_t td_low_named_call(td_lower *l, uint32_t call, uint32_t class)
{
    uint32_t n = td_low_node(l, call)->n - 1, *values, made = td_low_constructor(l, class);
    if (made) return td_low_function_call(l, call, made, TD_IR_NONE, TD_IR_NONE);
    if (td_low_node(l, class)->kind == TD_N_CLASS) values = td_low_arguments(l, call, TD_IR_NONE, &n);
    else values = arguments(l, call, class, false, TD_IR_NONE, &n);
    return td_low_named_value(l, call, class, n, values);
}

/* Of a generic function, or one of an archive's that is no method: it sees nothing of its caller but its arguments, of
 * which constants decide what is lowered at all. */
static uint32_t in_place(td_lower *l, uint32_t call, uint32_t function, uint32_t object, uint32_t n, uint32_t *values)
{
    scene before;
    enter_unit(l, td_low_unit_of(l, function), &before);
    if (!l->blame && l->units[l->unit].generic) l->blame = call;
    uint32_t result = inlined(l, call, function, object, n, values);
    before.flow.gone = l->flow.gone;
    leave_unit(l, &before);
    return result;
}

static uint32_t call_in_place(td_lower *l, uint32_t call, uint32_t function, uint32_t object, uint32_t self)
{
    uint32_t n, *values = arguments(l, call, function, object != TD_IR_NONE || self != TD_IR_NONE, self, &n);
    return in_place(l, call, function, object, n, values);
}

uint32_t td_low_own_call(td_lower *l, uint32_t call, uint32_t function, uint32_t self)
{
    return call_in_place(l, call, function, TD_IR_NONE, self);
}

uint32_t td_low_prelude(td_lower *l, uint32_t node, const char *name, uint32_t n, uint32_t *values)
{
    return in_place(l, node, td_low_find_prelude(l, name), TD_IR_NONE, n, values);
}

bool td_low_prelude_of(td_lower *l, uint32_t node, const char *kind, const char *name, uint32_t n,
                       const uint32_t *values, uint32_t *result)
{
    char full[64];
    snprintf(full, sizeof full, "%s_%.48s", kind, name);
    uint32_t function = td_low_find_prelude(l, full);
    if (!function) return false;
    uint32_t count = td_low_node(l, td_low_kid(l, function, 0))->n, *all = td_low_array(l, count + 1);
    if (n > count) td_low_wrong(l, node, "'%.60s' takes fewer arguments", name);
    memcpy(all, values, n * sizeof *all);
    for (uint32_t k = n; k < count; k++) all[k] = TD_IR_NONE;
    fill_in(l, node, function, false, all);
    return *result = in_place(l, node, function, TD_IR_NONE, count, all), true;
}

uint32_t td_low_function_call(td_lower *l, uint32_t call, uint32_t function, uint32_t object, uint32_t self)
{
    const td_low_unit *unit = &l->units[td_low_unit_of(l, function)];
    bool bound = object != TD_IR_NONE;
    if (unit->generic || (unit->code && !bound) || takes_union(l, function))
        return call_in_place(l, call, function, object, self);
    uint32_t n, number = number_of(l, call, function, object);
    uint32_t *values = arguments(l, call, function, bound, TD_IR_NONE, &n);
    for (uint32_t k = bound; k < n; k++)
        if (td_low_type_of_param(l, function, k) == TD_IR_NONE)
            values[k] = td_low_convert(l, call, values[k], td_low_plain(l, TD_T_TENSOR));
    const td_ir *ir = td_ir_now(l->e);
    uint32_t block = ir->functions[number].block, type = ir->values[td_ir_return(ir, block, 0)].type;
    uint32_t nstates = l->world->nstates, *in = td_low_array(l, n - bound + nstates);
    memcpy(in, values + bound, (n - bound) * sizeof *in);
    if (nstates) memcpy(in + n - bound, l->cells, nstates * sizeof *in);
    td_low_at(l, call);
    return td_low_op(l, TD_IR_FN | number, n - bound + nstates, in, type);
}

/* ---- the whole */

/* The last of that name (NULL: of any) below a node. */
static uint32_t kid_named(const td_lower *l, uint32_t node, unsigned kind, const char *name, size_t length)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < td_low_node(l, node)->n; k++) {
        uint32_t kid = td_low_kid(l, node, k);
        if (td_low_node(l, kid)->kind != kind) continue;
        const char *text = td_low_text(l, kid);
        if (!name || (strncmp(text, name, length) == 0 && text[length] == 0)) found = kid;
    }
    return found;
}

uint32_t td_low_find_class(td_lower *l, uint32_t unit, const char *name, size_t length)
{
    return kid_named(l, l->units[unit].root, TD_N_CLASS, name, length);
}

uint32_t td_low_find_function(td_lower *l, uint32_t unit, const char *name)
{
    uint32_t root = l->units[unit].root;
    if (l->units[unit].fault.code) {
        *l->f->error = l->units[unit].fault;
        longjmp(l->f->out, 1);
    }
    const char *dot = name && l->units[unit].code ? strchr(name, '.') : NULL;
    if (!dot) return kid_named(l, root, TD_N_FUNCTION, name, name ? strlen(name) : 0);
    uint32_t class = td_low_find_class(l, unit, name, (size_t)(dot - name));
    return class ? kid_named(l, td_low_kid(l, class, 0), TD_N_FUNCTION, dot + 1, strlen(dot + 1)) : 0;
}

uint32_t td_low_find_prelude(td_lower *l, const char *name)
{
    return td_low_find_function(l, l->prelude, name);
}

void td_lower_program(td_lower *l, const td_script_name *entry)
{
    uint32_t function = td_low_find_function(l, entry->unit, entry->text);
    td_span begin = {1, 0, 1, 0};
    if (!function && entry->text)
        td_refuse(l->f, TD_E_NOT_FOUND, begin, "there is no function '%.60s' here", entry->text);
    if (!function) td_refuse(l->f, TD_E_NOT_FOUND, begin, "there is no function here; write 'def'");
    l->var_of = empty_scope(l);
    l->unit = entry->unit;
    new_slot(l, function, entry->object);
    td_low_made(l, td_ir_function_new(l->e, NULL));
    lower_function(l, function, entry->object, true);
}
