/* What is known without running: modules, functions, the attributes of modules. See lower.h. */
#include "client/script/lower.h"

#include <stdlib.h>

const td_script_name *td_low_thing_of(td_lower *l, const td_script_name *object, const char *name)
{
    const td_script_names *in = &td_low_object(l, object->object)->names;
    for (uint32_t k = 0; k < in->n; k++)
        if (strcmp(in->at[k].name, name) == 0) return &in->at[k];
    return td_low_code_method(l, object->object, name);
}

const td_script_object *td_low_container(td_lower *l, const td_script_name *thing)
{
    if (!thing || thing->kind != TD_SN_OBJECT) return NULL;
    const td_script_object *o = td_low_object(l, thing->object);
    return o->kind == TD_OBJECT_PLAIN ? NULL : o;
}

bool td_low_holds_values(const td_script_object *o)
{
    for (uint32_t k = 0; k < o->items; k++)
        if (!td_low_is_value(&o->names.at[k])) return false;
    return o->kind != TD_OBJECT_DICT;
}

static _Noreturn void once(td_lower *l, uint32_t node)
{
    td_low_wrong(l, node, "this can only be gone over, once; write list(...) around it");
}

static const td_script_name *item_of(td_lower *l, uint32_t node, const td_script_name *base)
{
    const td_script_object *o = td_low_container(l, base);
    uint32_t key = td_low_kid(l, node, 1);
    td_known k;
    if (!o) return NULL;
    if (o->kind >= TD_OBJECT_ONCE) once(l, key);
    bool sliced = td_low_node(l, key)->kind == TD_N_SLICE && o->kind == TD_OBJECT_LIST && o->items;
    if (sliced && !td_low_holds_values(o)) return td_low_slice_of(l, key, base);
    bool literal = td_low_known_value(l, key, &k);
    if (!literal && td_low_holds_values(o)) return NULL; /* a list's item */
    if (!literal)
        td_low_wrong(l, key,
                     "the index of modules is written here, as they are of different kinds; or go over all by 'for'");
    if (k.text && o->kind == TD_OBJECT_DICT) {
        for (uint32_t i = 0; i < o->items; i++)
            if (strcmp(o->names.at[i].name, k.text) == 0) return &o->names.at[i];
        td_low_wrong(l, key, "there is no module '%.60s' in it", k.text);
    }
    int64_t at = k.i < 0 ? k.i + o->items : k.i;
    if (k.text || o->kind == TD_OBJECT_DICT || at < 0 || at >= o->items)
        td_low_wrong(l, key, "it has %u modules, %s", o->items,
                     o->kind == TD_OBJECT_DICT ? "by their names" : "from 0 on");
    return &o->names.at[at];
}

/* getattr(self, "name") */
static const td_script_name *got(td_lower *l, uint32_t call)
{
    uint32_t f = td_low_kid(l, call, 0), name = td_low_kid(l, call, 2);
    if (td_low_node(l, f)->kind != TD_N_NAME || strcmp(td_low_text(l, f), "getattr") != 0) return NULL;
    if (td_low_node(l, call)->n != 3 || td_low_node(l, name)->kind != TD_N_STRING) return NULL;
    const td_script_name *base = td_low_thing(l, td_low_kid(l, call, 1));
    return base && base->kind == TD_SN_OBJECT ? td_low_thing_of(l, base, td_low_text(l, name)) : NULL;
}

/* model.parameters() */
static const td_script_name *listing(td_lower *l, uint32_t call)
{
    const td_script_name *f = td_low_thing(l, td_low_kid(l, call, 0));
    if (!f || f->kind != TD_SN_LISTING) return NULL;
    if (td_low_node(l, call)->n > 1)
        td_low_wrong(l, td_low_kid(l, call, 1), "a program says '%.60s()' without arguments: of all modules inside",
                     f->name);
    td_script_name *thing = td_low_take(l, sizeof *thing);
    *thing = (td_script_name){.name = f->name, .kind = TD_SN_OBJECT, .object = f->object};
    return thing;
}

static const td_script_name *named(td_lower *l, uint32_t node)
{
    td_var *v = td_low_var(l, td_low_node(l, node)->text);
    const char *rest;
    if (v) return v->state == TD_VAR_THING ? v->thing : NULL;
    const td_script_name *known = td_low_known(l, td_low_text(l, node), &rest);
    return known && known->kind >= TD_SN_TENSOR ? known : NULL;
}

const td_script_name *td_low_thing(td_lower *l, uint32_t node)
{
    unsigned kind = td_low_node(l, node)->kind;
    if (kind == TD_N_NAME) return named(l, node);
    const td_script_name *code = td_low_is_code(l) ? td_low_code_thing(l, node) : NULL;
    if (code) return code;
    if (kind == TD_N_CALL) {
        const td_script_name *attribute = got(l, node);
        if (!attribute) attribute = listing(l, node);
        return attribute ? attribute : td_low_piece_of(l, node);
    }
    if (kind != TD_N_ATTRIBUTE && kind != TD_N_SUBSCRIPT) return NULL;
    const td_script_name *base = td_low_thing(l, td_low_kid(l, node, 0));
    if (!base || base->kind != TD_SN_OBJECT) return NULL;
    return kind == TD_N_SUBSCRIPT ? item_of(l, node, base) : td_low_thing_of(l, base, td_low_text(l, node));
}

/* A method that is called where its name stands. */
static bool is_property(const td_script_name *thing)
{
    return thing->kind == TD_SN_FUNCTION && thing->alone && strncmp(thing->alone, "a property", 10) == 0;
}

bool td_low_is_value(const td_script_name *thing)
{
    return td_script_is_plain(thing->kind) || is_property(thing);
}

/* A list of tensors, or of their names and these; TD_IR_NONE: of something else. */
static uint32_t listed_values(td_lower *l, uint32_t node, const td_script_name *t)
{
    const td_script_object *o = td_low_container(l, t);
    if (!o || !td_low_holds_values(o)) return TD_IR_NONE;
    uint32_t *items = td_low_array(l, o->items),
             tensors = td_low_made(l, td_type_list(l->e, td_low_plain(l, TD_T_TENSOR)));
    for (uint32_t k = 0; k < o->items; k++) {
        const td_script_name *item = &o->names.at[k];
        items[k] = td_low_thing_value(l, node, item);
        uint32_t pair[2] = {TD_IR_NONE, items[k]};
        if (o->kind != TD_OBJECT_PAIRS) continue;
        pair[0] = td_low_made(l, td_ir_str(l->e, item->name, strlen(item->name)));
        items[k] = td_low_tuple(l, 2, pair);
    }
    return o->items ? td_low_list(l, node, o->items, items) : td_low_op(l, TD_PRIM_LISTCONSTRUCT, 0, NULL, tensors);
}

uint32_t td_low_thing_value(td_lower *l, uint32_t node, const td_script_name *t)
{
    uint32_t *items, listed;
    td_low_at(l, node);
    if (is_property(t))
        return td_low_function_call(l, node, td_low_find_function(l, t->unit, t->text), t->object, TD_IR_NONE);
    switch (t->kind) {
    case TD_SN_TENSOR: return td_low_captured(l, t->text ? t->text : t->name);
    case TD_SN_NUMBER: return td_low_number(l, t->number);
    case TD_SN_TEXT: return td_low_made(l, td_ir_str(l->e, t->text, strlen(t->text)));
    case TD_SN_NONE: return td_low_made(l, td_ir_none(l->e));
    case TD_SN_STATE: return td_low_state(l, (uint32_t)t->number.i);
    case TD_SN_DEVICE: return td_low_made(l, td_ir_device(l->e, (unsigned)t->number.i));
    case TD_SN_DTYPE: return td_low_made(l, td_ir_dtype(l->e, (td_dtype)t->number.i));
    case TD_SN_TUPLE:
    case TD_SN_DICT:
    case TD_SN_LIST:
        items = td_low_array(l, t->n);
        if (t->n && t->items[0].kind == TD_SN_OBJECT)
            td_low_wrong(l, node,
                         "'%.60s' is no list of values: of modules a program takes a ModuleList or a ModuleDict",
                         t->name);
        for (uint32_t k = 0; k < t->n; k++) items[k] = td_low_thing_value(l, node, &t->items[k]);
        if (t->kind == TD_SN_LIST) return td_low_list(l, node, t->n, items);
        if (t->kind == TD_SN_DICT) return td_low_dict(l, node, t->n, items);
        if (!t->text) return td_low_tuple(l, t->n, items);
        return td_low_named_value(l, node, td_low_find_function(l, t->unit, t->text), t->n, items);
    case TD_SN_REFUSED: td_low_refuse(l, TD_E_UNSUPPORTED, node, "%s", t->text);
    case TD_SN_OBJECT:
        if ((listed = listed_values(l, node, t)) != TD_IR_NONE) return listed;
        td_low_wrong(l, node, "'%.60s' is a module; a program can only call it", t->name);
    default: td_low_wrong(l, node, "'%.60s' is a function; a program can only call it", t->name);
    }
}

void td_low_check_written(td_lower *l, uint32_t node)
{
    const td_script_name *t = td_low_thing(l, node);
    if (t && (t->kind == TD_SN_LIST || t->kind == TD_SN_DICT))
        td_low_wrong(l, node, "'%.60s' is a constant of the program, which cannot change it; write to a copy", t->name);
}

void td_low_set_thing(td_lower *l, uint32_t target, const td_script_name *thing)
{
    const td_ast_node *n = td_low_node(l, target);
    const td_script_object *o = td_low_container(l, thing);
    bool passes = o && o->kind >= TD_OBJECT_ONCE;
    if (passes && (n->kind == TD_N_TUPLE || n->kind == TD_N_LIST)) {
        td_low_assign(l, target, td_low_thing_value(l, target, thing));
        return;
    }
    bool list = o && o->kind == TD_OBJECT_LIST && (n->kind == TD_N_TUPLE || n->kind == TD_N_LIST);
    if (list && n->n == o->items) {
        for (uint32_t k = 0; k < n->n; k++) td_low_set_thing(l, td_low_kid(l, target, k), &o->names.at[k]);
        return;
    }
    if (list) td_low_wrong(l, target, "%u names for %u modules", n->n, o->items);
    if (passes) once(l, target);
    if (n->kind != TD_N_NAME) td_low_wrong(l, target, "a module can be given a name only");
    td_var *v = td_low_var(l, n->text);
    v->state = TD_VAR_THING, v->thing = thing, v->value = v->base = 0, v->at = n->span;
}
