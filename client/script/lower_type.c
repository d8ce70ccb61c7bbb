/* Annotations. See lower.h. */
#include "client/script/lower.h"

static _Noreturn void no_type(td_lower *l, uint32_t node)
{
    td_low_wrong(l, node,
                 "a program has no such type: it has Tensor, int, float, bool, complex, str, dtype, device, "
                 "Optional, List, Tuple, Dict");
}

static _Noreturn void several(td_lower *l, uint32_t node)
{
    td_low_wrong(l, node, "a value has one type, or one and None; what the program calls may take several");
}

/* The last part of "List", "typing.List", "td.Tensor". */
static const char *last_name(td_lower *l, uint32_t node)
{
    const td_ast_node *n = td_low_node(l, node);
    if (n->kind != TD_N_NAME && n->kind != TD_N_ATTRIBUTE && n->kind != TD_N_STRING) no_type(l, node);
    return td_low_text(l, node);
}

static bool is_one_of(const char *name, const char *a, const char *b)
{
    return strcmp(name, a) == 0 || strcmp(name, b) == 0;
}

/* The class of named tuples that this names where it stands; 0: it is something else. */
static uint32_t class_named(td_lower *l, uint32_t node)
{
    const td_low_unit *u = &l->units[td_low_unit_of(l, node)];
    if (u->code) return td_low_code_named(l, node);
    for (uint32_t k = 0; k < u->names.n; k++)
        if (strcmp(u->names.at[k].name, td_low_text(l, node)) == 0) return td_low_named_class(l, &u->names.at[k]);
    return 0;
}

static uint32_t plain(td_lower *l, uint32_t node)
{
    static const struct {
        const char *name;
        td_type_kind kind;
    } table[] = {{"Tensor", TD_T_TENSOR},   {"int", TD_T_INT},       {"float", TD_T_FLOAT},  {"bool", TD_T_BOOL},
                 {"complex", TD_T_COMPLEX}, {"str", TD_T_STR},       {"dtype", TD_T_DTYPE},  {"device", TD_T_DEVICE},
                 {"None", TD_T_NONE},       {"Device", TD_T_DEVICE}, {"NoneType", TD_T_NONE}};
    const char *name = last_name(l, node);
    uint32_t class = class_named(l, node);
    if (class) return td_low_named_type(l, class);
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) return td_low_plain(l, table[i].kind);
    if (is_one_of(name, "list", "List")) return td_low_made(l, td_type_list(l->e, td_low_plain(l, TD_T_TENSOR)));
    no_type(l, node);
}

static uint32_t made_of(td_lower *l, uint32_t node)
{
    const char *name = last_name(l, td_low_kid(l, node, 0));
    uint32_t key = td_low_kid(l, node, 1);
    bool tuple = td_low_node(l, key)->kind == TD_N_TUPLE;
    uint32_t n = tuple ? td_low_node(l, key)->n : 1, *parts = td_low_array(l, n);
    for (uint32_t k = 0; k < n; k++) parts[k] = td_low_type_of(l, tuple ? td_low_kid(l, key, k) : key);
    if (strcmp(name, "Union") == 0) {
        uint32_t all = parts[0];
        for (uint32_t k = 1; k < n && all != TD_IR_NONE; k++) all = td_low_unify(l, all, parts[k]);
        if (all == TD_IR_NONE) several(l, node);
        return all;
    }
    if (is_one_of(name, "tuple", "Tuple")) return td_low_made(l, td_type_tuple(l->e, n, parts));
    if (is_one_of(name, "dict", "Dict") && n == 2) return td_low_made(l, td_type_dict(l->e, parts[0], parts[1]));
    if (is_one_of(name, "list", "List") && n == 1) return td_low_made(l, td_type_list(l->e, parts[0]));
    if (is_one_of(name, "Optional", "Final") && n == 1)
        return name[0] == 'F' ? parts[0] : td_low_made(l, td_type_optional(l->e, parts[0]));
    no_type(l, node);
}

uint32_t td_low_type_of(td_lower *l, uint32_t annotation)
{
    const td_ast_node *n = td_low_node(l, annotation);
    if (n->kind == TD_N_NONE) return td_low_plain(l, TD_T_NONE);
    if (n->kind == TD_N_SUBSCRIPT) return made_of(l, annotation);
    if (n->kind != TD_N_BINARY || n->op != TD_O_BIT_OR) return plain(l, annotation);
    uint32_t a = td_low_type_of(l, td_low_kid(l, annotation, 0)), b = td_low_type_of(l, td_low_kid(l, annotation, 1));
    uint32_t both = td_low_unify(l, a, b);
    if (both == TD_IR_NONE) several(l, annotation);
    return both;
}

/* ---- several types */

typedef struct types {
    uint32_t both, value; /* of all; of a value that is to be one of them */
    bool several, fits;
} types;

static void add_types(td_lower *l, uint32_t annotation, types *t) /* NOLINT(misc-no-recursion): as deep as the tree */
{
    const td_ast_node *n = td_low_node(l, annotation);
    uint32_t of = n->kind == TD_N_SUBSCRIPT ? td_low_kid(l, annotation, 0) : 0, key = td_low_kid(l, annotation, 1);
    bool named = n->kind == TD_N_NAME || n->kind == TD_N_ATTRIBUTE;
    if (named && strcmp(td_low_text(l, annotation), "Any") == 0) {
        t->several = t->fits = true;
    } else if (n->kind == TD_N_BINARY && n->op == TD_O_BIT_OR) {
        add_types(l, td_low_kid(l, annotation, 0), t);
        add_types(l, key, t);
    } else if (of && strcmp(last_name(l, of), "Union") == 0 && td_low_node(l, key)->kind == TD_N_TUPLE) {
        for (uint32_t k = 0; k < td_low_node(l, key)->n; k++) add_types(l, td_low_kid(l, key, k), t);
    } else {
        uint32_t type = td_low_type_of(l, annotation);
        t->both = t->both == TD_IR_NONE || t->several ? type : td_low_unify(l, t->both, type);
        t->several |= t->both == TD_IR_NONE;
        t->fits |= t->value != TD_IR_NONE && td_type_fits(td_ir_now(l->e), t->value, type);
    }
}

bool td_low_is_union(td_lower *l, uint32_t annotation)
{
    types t = {TD_IR_NONE, TD_IR_NONE, false, false};
    const td_ast_node *n = td_low_node(l, annotation);
    if (n->kind == TD_N_NAME || n->kind == TD_N_ATTRIBUTE) return strcmp(td_low_text(l, annotation), "Any") == 0;
    bool may_be = n->kind == TD_N_BINARY ||
                  (n->kind == TD_N_SUBSCRIPT && strcmp(last_name(l, td_low_kid(l, annotation, 0)), "Union") == 0);
    if (may_be) add_types(l, annotation, &t);
    return t.several;
}

bool td_low_is_of(td_lower *l, uint32_t type, uint32_t annotation)
{
    types t = {TD_IR_NONE, type, false, false};
    add_types(l, annotation, &t);
    return t.fits;
}
