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
    for (uint32_t k = 0; k < u->names.n; k++) {
        const td_script_name *n = &u->names.at[k];
        if (strcmp(n->name, td_low_text(l, node)) != 0) continue;
        if (n->kind == TD_SN_REFUSED) td_low_wrong(l, node, "%s", n->text);
        return td_low_named_class(l, n);
    }
    return 0;
}

uint32_t td_low_meant(td_lower *l, uint32_t annotation)
{
    for (unsigned deep = 0; deep < 64; deep++) {
        const td_low_unit *u = &l->units[td_low_unit_of(l, annotation)];
        const td_script_name *found = NULL;
        if (td_low_node(l, annotation)->kind != TD_N_NAME || u->code) break;
        for (uint32_t k = 0; k < u->names.n && !found; k++)
            if (strcmp(u->names.at[k].name, td_low_text(l, annotation)) == 0) found = &u->names.at[k];
        uint32_t holder = found && found->kind == TD_SN_TYPE ? td_low_find_function(l, found->unit, found->text) : 0;
        if (!holder) break;
        annotation = td_low_kid(l, td_low_kid(l, td_low_kid(l, holder, 0), 0), 0);
    }
    return annotation;
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
    if (strcmp(name, "Future") == 0 && n == 1) return parts[0]; /* fork() has called when it returns */
    if (is_one_of(name, "tuple", "Tuple")) return td_low_made(l, td_type_tuple(l->e, n, parts));
    if ((is_one_of(name, "dict", "Dict") || strcmp(name, "OrderedDict") == 0) && n == 2)
        return td_low_made(l, td_type_dict(l->e, parts[0], parts[1]));
    if (is_one_of(name, "list", "List") && n == 1) return td_low_made(l, td_type_list(l->e, parts[0]));
    if (is_one_of(name, "Optional", "Final") && n == 1)
        return name[0] == 'F' ? parts[0] : td_low_made(l, td_type_optional(l->e, parts[0]));
    no_type(l, node);
}

uint32_t td_low_type_of(td_lower *l, uint32_t annotation)
{
    annotation = td_low_meant(l, annotation);
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

static bool is_made_by(td_lower *l, const td_ast_node *n, uint32_t annotation, const char *name)
{
    return n->kind == TD_N_SUBSCRIPT && strcmp(last_name(l, td_low_kid(l, annotation, 0)), name) == 0;
}

/* The k-th part of X[a, b]; 0: it has no more. */
static uint32_t part_of(td_lower *l, uint32_t annotation, uint32_t k)
{
    uint32_t key = td_low_kid(l, annotation, 1);
    if (td_low_node(l, key)->kind == TD_N_TUPLE) return k < td_low_node(l, key)->n ? td_low_kid(l, key, k) : 0;
    return k ? 0 : key;
}

/* Of all that it may be, one that takes the others; TD_IR_NONE: there is none. */
static uint32_t unified(td_lower *l, uint32_t annotation) /* NOLINT(misc-no-recursion): as deep as the tree */
{
    annotation = td_low_meant(l, annotation);
    const td_ast_node *n = td_low_node(l, annotation);
    bool either = n->kind == TD_N_BINARY && n->op == TD_O_BIT_OR;
    if (!either && !is_made_by(l, n, annotation, "Union"))
        return td_low_is_union(l, annotation) ? TD_IR_NONE : td_low_type_of(l, annotation);
    uint32_t all = unified(l, either ? td_low_kid(l, annotation, 0) : part_of(l, annotation, 0)), next;
    for (uint32_t k = 1; all != TD_IR_NONE; k++) {
        next = either ? (k == 1 ? td_low_kid(l, annotation, 1) : 0) : part_of(l, annotation, k);
        if (!next) break;
        uint32_t type = unified(l, next);
        all = type == TD_IR_NONE ? type : td_low_unify(l, all, type);
    }
    return all;
}

bool td_low_is_union(td_lower *l, uint32_t annotation) /* NOLINT(misc-no-recursion): as deep as the tree */
{
    annotation = td_low_meant(l, annotation);
    const td_ast_node *n = td_low_node(l, annotation);
    if (n->kind == TD_N_NAME || n->kind == TD_N_ATTRIBUTE) return strcmp(td_low_text(l, annotation), "Any") == 0;
    if ((n->kind == TD_N_BINARY && n->op == TD_O_BIT_OR) || is_made_by(l, n, annotation, "Union"))
        return unified(l, annotation) == TD_IR_NONE;
    for (uint32_t k = 0, part; n->kind == TD_N_SUBSCRIPT && (part = part_of(l, annotation, k)); k++)
        if (td_low_is_union(l, part)) return true;
    return false;
}

/* A list, tuple or dict, by what is in it. */
static bool parts_are_of(td_lower *l, uint32_t type, uint32_t annotation) /* NOLINT(misc-no-recursion) */
{
    static const struct {
        const char *names[2];
        td_type_kind kind;
    } table[] = {{{"list", "List"}, TD_T_LIST}, {{"tuple", "Tuple"}, TD_T_TUPLE}, {{"dict", "Dict"}, TD_T_DICT}};
    const char *name = last_name(l, td_low_kid(l, annotation, 0));
    td_type_kind kind = td_type_kind_of(td_ir_now(l->e), type);
    uint32_t parts = kind == TD_T_DICT ? 2 : kind == TD_T_LIST ? 1 : td_type_parts(td_ir_now(l->e), type), k = 0;
    bool same = false;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        same |= table[i].kind == kind && is_one_of(name, table[i].names[0], table[i].names[1]);
    if (kind == TD_T_LIST && td_type_kind_of(td_ir_now(l->e), td_low_part(l, type, 0)) == TD_T_NONE) return same;
    for (uint32_t part; same && (part = part_of(l, annotation, k)); k++)
        if (k >= parts || !td_low_is_of(l, td_low_part(l, type, k), part)) return false;
    return same && k == parts;
}

bool td_low_is_of(td_lower *l, uint32_t type, uint32_t annotation) /* NOLINT(misc-no-recursion): as deep as the tree */
{
    annotation = td_low_meant(l, annotation);
    const td_ast_node *n = td_low_node(l, annotation);
    bool either = n->kind == TD_N_BINARY && n->op == TD_O_BIT_OR, optional = is_made_by(l, n, annotation, "Optional");
    uint32_t none = td_low_plain(l, TD_T_NONE);
    if (!td_low_is_union(l, annotation) && !either && !is_made_by(l, n, annotation, "Union"))
        return td_type_fits(td_ir_now(l->e), type, td_low_type_of(l, annotation));
    if (n->kind == TD_N_NAME || n->kind == TD_N_ATTRIBUTE) return true; /* Any */
    if (td_type_kind_of(td_ir_now(l->e), type) == TD_T_OPTIONAL)
        return td_low_is_of(l, none, annotation) && td_low_is_of(l, td_low_part(l, type, 0), annotation);
    if (optional && type == none) return true;
    if (either)
        return td_low_is_of(l, type, td_low_kid(l, annotation, 0)) ||
               td_low_is_of(l, type, td_low_kid(l, annotation, 1));
    if (!optional && !is_made_by(l, n, annotation, "Union")) return parts_are_of(l, type, annotation);
    for (uint32_t k = 0, part; (part = part_of(l, annotation, k)); k++)
        if (td_low_is_of(l, type, part)) return true;
    return false;
}
