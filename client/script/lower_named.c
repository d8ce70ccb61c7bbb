/* Named tuples: to the IR they are tuples, whose fields have names while a program is lowered. A tuple's type has a
 * mark for that (td_type_marked), the place of its class in l->named. A class is a function whose parameters are the
 * fields (TD_SN_NAMED), or in archives a class of annotations. The results of an op have the names of its signature;
 * outside they are a tuple. See lower.h. */
#include "client/script/lower.h"

#include <stdio.h>

/* ---- fields: a parameter, or a line of the class */

static uint32_t field(const td_lower *l, uint32_t class, uint32_t k)
{
    return td_low_kid(l, td_low_kid(l, class, 0), k);
}

static uint32_t fields(const td_lower *l, uint32_t class)
{
    return td_low_node(l, td_low_kid(l, class, 0))->n;
}

static const char *field_name(const td_lower *l, uint32_t class, uint32_t k)
{
    uint32_t node = field(l, class, k);
    return td_low_text(l, td_low_node(l, class)->kind == TD_N_CLASS ? td_low_kid(l, node, 0) : node);
}

static uint32_t field_type(td_lower *l, uint32_t class, uint32_t k)
{
    uint32_t node = field(l, class, k), annotation;
    if (td_low_node(l, class)->kind != TD_N_CLASS) annotation = td_low_kid(l, node, 0);
    else if (td_low_node(l, node)->kind == TD_N_ANN_ASSIGN) annotation = td_low_kid(l, node, 1);
    else td_low_refuse(l, TD_E_UNSUPPORTED, node, "a named tuple has fields with types, and nothing else");
    return annotation ? td_low_type_of(l, annotation) : td_low_plain(l, TD_T_TENSOR);
}

/* ---- types */

enum { MOST = 255 }; /* marks */

static uint32_t add(td_lower *l, uint32_t class, const td_op *op)
{
    td_script_room(l->f, &l->named, l->nnamed, 1, &l->named_room, sizeof *l->named);
    l->named[l->nnamed] = (td_low_named){class, TD_IR_NONE, op};
    return l->nnamed++;
}

static uint32_t find(td_lower *l, uint32_t class)
{
    for (uint32_t k = 0; k < l->nnamed; k++)
        if (!l->named[k].op && l->named[k].class == class) return k;
    if (l->nnamed == MOST) td_low_wrong(l, class, "a program has at most %d named tuples", MOST);
    return add(l, class, NULL);
}

static bool same_names(const td_op *a, const td_op *b)
{
    bool same = a->nouts == b->nouts;
    for (unsigned k = 0; same && k < a->nouts; k++) same = strcmp(a->outs[k].name, b->outs[k].name) == 0;
    return same;
}

/* Of an op's results; its place is l->nnamed when there are marks for no more. */
static uint32_t find_results(td_lower *l, const td_op *op)
{
    for (uint32_t k = 0; k < l->nnamed; k++)
        if (l->named[k].op && same_names(l->named[k].op, op)) return k;
    return l->nnamed == MOST ? MOST : add(l, 0, op);
}

uint32_t td_low_named_type(td_lower *l, uint32_t class)
{
    uint32_t before = l->nnamed, at = find(l, class), n = fields(l, class), *parts = td_low_array(l, n);
    if (at < before && l->named[at].type == TD_IR_NONE)
        td_low_wrong(l, class, "a named tuple cannot be a part of itself");
    if (l->named[at].type != TD_IR_NONE) return l->named[at].type;
    for (uint32_t k = 0; k < n; k++) parts[k] = field_type(l, class, k);
    uint32_t tuple = td_low_made(l, td_type_tuple(l->e, n, parts));
    return l->named[at].type = td_low_made(l, td_type_marked(l->e, tuple, at + 1));
}

/* What names the fields of a type; NULL: it is none of a named tuple. */
static const td_low_named *named(td_lower *l, uint32_t type)
{
    uint32_t mark = td_type_mark(td_ir_now(l->e), type);
    return mark ? &l->named[mark - 1] : NULL;
}

/* The class of a type; 0: it has none. */
static uint32_t class_of(td_lower *l, uint32_t type)
{
    const td_low_named *of = named(l, type);
    return of ? of->class : 0;
}

uint32_t td_low_named_class(td_lower *l, const td_script_name *name)
{
    uint32_t function = name->kind == TD_SN_NAMED ? td_low_find_function(l, name->unit, name->text) : 0;
    if (name->kind == TD_SN_NAMED && !function) td_low_wrong(l, 0, "'%.60s' has no fields", name->name);
    return function;
}

/* ---- values */

uint32_t td_low_named_value(td_lower *l, uint32_t node, uint32_t class, uint32_t n, uint32_t *values)
{
    uint32_t type = td_low_named_type(l, class);
    if (n != fields(l, class))
        td_low_wrong(l, node, "'%.60s' has %u fields, and %u are given", td_low_text(l, class), fields(l, class), n);
    td_low_at(l, node);
    for (uint32_t k = 0; k < n; k++) values[k] = td_low_convert(l, node, values[k], td_low_part(l, type, k));
    return td_low_op(l, TD_PRIM_TUPLECONSTRUCT, n, values, type);
}

uint32_t td_low_results(td_lower *l, const td_op *op, const uint32_t *values)
{
    uint32_t at = find_results(l, op), *types = td_low_array(l, op->nouts);
    if (at == MOST) return td_low_tuple(l, op->nouts, values);
    for (uint32_t k = 0; k < op->nouts; k++) types[k] = td_low_type(l, values[k]);
    uint32_t tuple = td_low_made(l, td_type_tuple(l->e, op->nouts, types));
    return td_low_op(l, TD_PRIM_TUPLECONSTRUCT, op->nouts, values, td_low_made(l, td_type_marked(l->e, tuple, at + 1)));
}

static _Noreturn void no_result(td_lower *l, uint32_t node, const td_op *op)
{
    char names[128] = "";
    for (unsigned k = 0; k < op->nouts; k++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? ", " : "", op->outs[k].name);
    td_low_wrong(l, node, "these results are called %s; there is no '%.60s'", names, td_low_text(l, node));
}

bool td_low_named_item(td_lower *l, uint32_t node, uint32_t value, uint32_t *item)
{
    const td_low_named *of = named(l, td_low_type(l, value));
    uint32_t n = !of ? 0 : of->op ? of->op->nouts : fields(l, of->class);
    for (uint32_t k = 0; k < n; k++) {
        const char *name = of->op ? of->op->outs[k].name : field_name(l, of->class, k);
        if (strcmp(name, td_low_text(l, node)) == 0) return *item = td_low_item(l, value, k), true;
    }
    if (of && of->op) no_result(l, node, of->op);
    if (of) td_low_wrong(l, node, "'%.60s' has no field '%.60s'", td_low_text(l, of->class), td_low_text(l, node));
    return false;
}

/* ---- classes of one's own: what their unit calls own_NAME */

static uint32_t own_function(td_lower *l, uint32_t class, const char *name)
{
    const td_low_unit *u = &l->units[td_low_unit_of(l, class)];
    for (uint32_t k = 0; k < u->names.n; k++) {
        const td_script_name *n = &u->names.at[k];
        if (n->kind == TD_SN_FUNCTION && strncmp(n->name, "own_", 4) == 0 && strcmp(n->name + 4, name) == 0)
            return td_low_find_function(l, n->unit, n->text);
    }
    return 0;
}

uint32_t td_low_constructor(td_lower *l, uint32_t class)
{
    uint32_t function = own_function(l, class, "__init__");
    return function && td_low_unit_of(l, function) != l->unit ? function : 0; /* there the fields are meant */
}

uint32_t td_low_own_method(td_lower *l, uint32_t value, const char *name)
{
    uint32_t class = class_of(l, td_low_type(l, value));
    return class ? own_function(l, class, name) : 0;
}

/* ---- what becomes of them outside */

static bool has_named(td_lower *l, uint32_t type) /* NOLINT(misc-no-recursion): as deep as the type */
{
    const td_ir *ir = td_ir_now(l->e);
    if (class_of(l, type)) return true;
    uint32_t n = td_type_kind_of(ir, type) == TD_T_TENSOR ? 0 : td_type_parts(ir, type);
    for (uint32_t k = 0; k < n; k++)
        if (has_named(l, td_low_part(l, type, k))) return true;
    return false;
}

static void say(td_lower *l, td_print *p, uint32_t type);

static void say_parts(td_lower *l, td_print *p, uint32_t type) /* NOLINT(misc-no-recursion) */
{
    uint32_t n = td_type_parts(td_ir_now(l->e), type);
    for (uint32_t k = 0; k < n; k++) {
        td_printf(p, ", ");
        say(l, p, td_low_part(l, type, k));
    }
    td_printf(p, "]");
}

static void say_named(td_lower *l, td_print *p, uint32_t class)
{
    td_printf(p, "[\"n\", %u, \"%s\", [", td_low_unit_of(l, class), td_low_text(l, class));
    for (uint32_t k = 0; k < fields(l, class); k++) td_printf(p, "%s\"%s\"", k ? ", " : "", field_name(l, class, k));
    td_printf(p, "]");
}

/* As JSON: null, or ["t", part...], ["l", item], ["d", value], ["n", unit, name, [field...], part...]. */
static void say(td_lower *l, td_print *p, uint32_t type) /* NOLINT(misc-no-recursion) */
{
    const td_ir *ir = td_ir_now(l->e);
    td_type_kind kind = td_type_kind_of(ir, type);
    if (!has_named(l, type)) td_printf(p, "null");
    else if (kind == TD_T_OPTIONAL) say(l, p, td_low_part(l, type, 0));
    else if (kind == TD_T_TUPLE) {
        if (class_of(l, type)) say_named(l, p, class_of(l, type));
        else td_printf(p, "[\"t\"");
        say_parts(l, p, type);
    } else {
        td_printf(p, kind == TD_T_LIST ? "[\"l\", " : "[\"d\", ");
        say(l, p, td_low_part(l, type, kind == TD_T_DICT));
        td_printf(p, "]");
    }
}

void td_low_say_named(td_lower *l, uint32_t type)
{
    if (!l->gives || !has_named(l, type)) return;
    say(l, l->gives, type);
}
