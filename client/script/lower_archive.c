/* What the code of a TorchScript archive says in its own way: paths from __torch__, torch.NAME and ops.prim.NAME,
 * annotate() and its like, and attributes that methods assign. See lower.h.
 *
 * What ATen calls an op is a function of aten.py, or a row of the op table that takes the same. States are lists of one
 * item, which each function is given: so what a method assigns in a branch or a loop, those who called it see. */
#include "client/script/lower.h"

#include <stdio.h>

bool td_low_is_code(const td_lower *l)
{
    return l->units[l->unit].code || l->unit == l->aten;
}

/* ---- paths */

/* What a path begins with, when that has this kind; then *rest follows it. */
static bool path_of(td_lower *l, uint32_t node, td_script_name_kind kind, char *path, size_t size, const char **rest)
{
    unsigned is = td_low_node(l, node)->kind;
    if ((is != TD_N_ATTRIBUTE && is != TD_N_NAME) || !td_low_path(l, node, path, size)) return false;
    const td_script_name *known = td_low_known(l, path, rest);
    return known && known->kind == kind;
}

static uint32_t unit_named(const td_lower *l, const char *name, size_t length)
{
    for (uint32_t k = 0; k < l->world->nunits; k++) {
        const char *code = l->world->units[k].code;
        if (code && strncmp(code, name, length) == 0 && code[length] == 0) return k;
    }
    return TD_IR_NONE;
}

static const td_script_name *new_thing(td_lower *l, td_script_name_kind kind, const char *text, uint32_t unit)
{
    size_t n = strlen(text) + 1;
    td_script_name *t = td_low_take(l, sizeof *t);
    char *copy = memcpy(td_low_take(l, n), text, n);
    *t = (td_script_name){.name = copy, .kind = kind, .text = copy, .unit = unit, .object = TD_IR_NONE};
    return t;
}

/* __torch__.torch.nn.functional.relu */
static const td_script_name *function_at(td_lower *l, const char *path)
{
    const char *dot = strrchr(path, '.');
    uint32_t unit = dot ? unit_named(l, path, (size_t)(dot - path)) : TD_IR_NONE;
    if (unit == TD_IR_NONE || !td_low_find_function(l, unit, dot + 1)) return NULL;
    return new_thing(l, TD_SN_FUNCTION, dot + 1, unit);
}

/* __torch__.Point, of "class Point(NamedTuple):", or the call of it. */
uint32_t td_low_code_named(td_lower *l, uint32_t node)
{
    char path[512];
    const char *rest;
    uint32_t name = td_low_node(l, node)->kind == TD_N_CALL ? td_low_kid(l, node, 0) : node;
    if (!path_of(l, name, TD_SN_CODE, path, sizeof path, &rest)) return 0;
    const char *dot = strrchr(path, '.');
    uint32_t unit = dot ? unit_named(l, path, (size_t)(dot - path)) : TD_IR_NONE;
    uint32_t class = unit == TD_IR_NONE ? 0 : td_low_find_class(l, unit, dot + 1, strlen(dot + 1));
    uint32_t base = class && td_low_node(l, class)->n > 1 ? td_low_kid(l, class, 1) : 0;
    bool named = base && td_low_node(l, base)->kind == TD_N_NAME && strcmp(td_low_text(l, base), "NamedTuple") == 0;
    return named ? class : 0;
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), more = strlen(end);
    return n >= more && strcmp(path + n - more, end) == 0;
}

/* __torch__.torch.autograd.grad_mode.no_grad.__new__(...): objects of no other class are made. */
static const td_script_name *made_at(td_lower *l, uint32_t call, const char *path)
{
    if (ends_with(path, ".grad_mode.no_grad.__new__")) return new_thing(l, TD_SN_GRAD_OFF, "no_grad", 0);
    if (!function_at(l, path) && !td_low_code_named(l, call))
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "objects of classes that are no modules are not read yet: '%.100s'",
                      path);
    return NULL;
}

const td_script_name *td_low_code_thing(td_lower *l, uint32_t node)
{
    char path[512];
    const char *rest;
    bool call = td_low_node(l, node)->kind == TD_N_CALL;
    if (!path_of(l, call ? td_low_kid(l, node, 0) : node, TD_SN_CODE, path, sizeof path, &rest)) return NULL;
    return call ? made_at(l, node, path) : function_at(l, path);
}

const td_script_name *td_low_code_method(td_lower *l, uint32_t object, const char *name)
{
    char full[256];
    const td_script_object *o = td_low_object(l, object);
    if (!o->class) return NULL;
    int n = snprintf(full, sizeof full, "%s.%s", o->class, name);
    if (n < 0 || (size_t)n >= sizeof full || !td_low_find_function(l, o->unit, full)) return NULL;
    td_script_name *made =
        memcpy(td_low_take(l, sizeof *made), new_thing(l, TD_SN_FUNCTION, full, o->unit), sizeof *made);
    made->object = object;
    return made;
}

uint32_t td_low_code_none_test(td_lower *l, uint32_t test, bool *is)
{
    char path[48];
    const char *rest;
    const td_ast_node *n = td_low_node(l, test);
    if (n->kind != TD_N_CALL || n->n != 3 || td_low_node(l, td_low_kid(l, test, 2))->kind != TD_N_NONE ||
        !path_of(l, td_low_kid(l, test, 0), TD_SN_ATEN, path, sizeof path, &rest))
        return 0;
    *is = strcmp(rest, "__is__") == 0;
    return *is || strcmp(rest, "__isnot__") == 0 ? td_low_kid(l, test, 1) : 0;
}

/* ---- values with a type */

static uint32_t typed_list(td_lower *l, uint32_t node, uint32_t type)
{
    uint32_t n = td_low_node(l, node)->n, *items = td_low_array(l, n), part = td_low_part(l, type, 0);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t item = td_low_kid(l, node, k);
        items[k] = td_low_convert(l, item, td_low_expr(l, item), part);
    }
    return td_low_op(l, TD_PRIM_LISTCONSTRUCT, n, items, type);
}

static uint32_t typed_argument(td_lower *l, uint32_t call, uint32_t *type)
{
    if (td_low_node(l, call)->n != 3) td_low_wrong(l, call, "this wants a type and a value");
    *type = td_low_type_of(l, td_low_kid(l, call, 1));
    uint32_t node = td_low_kid(l, call, 2);
    const td_ast_node *n = td_low_node(l, node);
    td_low_at(l, call);
    if (n->kind == TD_N_LIST && td_type_kind_of(td_ir_now(l->e), *type) == TD_T_LIST) return typed_list(l, node, *type);
    if (n->kind == TD_N_DICT && n->n == 0) return td_low_op(l, TD_PRIM_DICTCONSTRUCT, 0, NULL, *type);
    uint32_t list;
    return td_low_tolist(l, node, *type, &list) ? list : td_low_expr(l, node);
}

uint32_t td_low_annotate(td_lower *l, uint32_t call)
{
    if (td_low_any_number(l, td_low_kid(l, call, 1))) return td_low_expr(l, td_low_kid(l, call, 2));
    uint32_t type, value = typed_argument(l, call, &type);
    td_type_kind to = td_type_kind_of(td_ir_now(l->e), type);
    if (td_low_kind(l, value) == TD_T_TENSOR && to != TD_T_TENSOR && to != TD_T_OPTIONAL) {
        const char *item = to == TD_T_INT ? "item.int" : to == TD_T_BOOL ? "item.bool" : "item.float";
        value = td_low_prim(l, call, item, 1, &value);
    }
    return td_low_convert(l, call, value, type);
}

static uint32_t known_number(td_lower *l, uint32_t call)
{
    uint32_t value = td_low_expr(l, td_low_kid(l, call, 2)), type = td_low_type(l, value);
    bool may_be_none = td_low_node(l, td_low_kid(l, call, 1))->kind == TD_N_SUBSCRIPT;
    if (may_be_none || td_low_kind(l, value) != TD_T_OPTIONAL) return value;
    return td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, &value, td_low_part(l, type, 0));
}

/* Of what is None by its type nobody asks for another one: the way is never taken. */
static uint32_t unchecked_cast(td_lower *l, uint32_t call)
{
    if (td_low_any_number(l, td_low_kid(l, call, 1))) return known_number(l, call);
    uint32_t type, value = typed_argument(l, call, &type);
    td_low_at(l, call);
    if (td_low_kind(l, value) == TD_T_NONE) return td_low_op(l, TD_PRIM_UNINITIALIZED, 0, NULL, type);
    if (td_low_kind(l, value) != TD_T_OPTIONAL) return td_low_convert(l, call, value, type);
    if (td_low_code_dtype(l, td_low_type(l, value), type)) type = td_low_part(l, td_low_type(l, value), 0);
    return td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, &value, type);
}

static uint32_t uninitialized(td_lower *l, uint32_t call)
{
    if (td_low_node(l, call)->n != 2) td_low_wrong(l, call, "this wants a type");
    uint32_t type = td_low_type_of(l, td_low_kid(l, call, 1));
    td_low_at(l, call);
    return td_low_op(l, TD_PRIM_UNINITIALIZED, 0, NULL, type);
}

/* ---- dtypes, which are numbers there */

/* Which ways of a function are there is often said by numbers and texts that its call gives: the others may hold what
 * does not fit. */
bool td_low_code_fold(td_lower *l, unsigned op, uint32_t a, uint32_t b, uint32_t *result)
{
    const td_ir *ir = td_ir_now(l->e);
    td_literal x, y;
    int order;
    bool inside = l->unit == l->aten || l->units[l->unit].generic;
    if (!inside || !td_low_literal(l, a, &x) || !td_low_literal(l, b, &y) || x.kind != y.kind) return false;
    if (x.kind == TD_L_STR) order = strcmp(td_ir_chars(ir, x.small), td_ir_chars(ir, y.small));
    else if (x.kind == TD_L_INT) order = (x.i > y.i) - (x.i < y.i);
    else return false;
    switch (op) {
    case TD_O_EQ: *result = order == 0; break;
    case TD_O_NE: *result = order != 0; break;
    case TD_O_LT: *result = order < 0; break;
    case TD_O_LE: *result = order <= 0; break;
    case TD_O_GT: *result = order > 0; break;
    case TD_O_GE: *result = order >= 0; break;
    default: return false;
    }
    *result = td_low_made(l, td_ir_bool(l->e, *result));
    return true;
}

/* _count(list), in aten.py: len(list), and a constant of one that was written in the call and that nobody else has. */
static uint32_t count_of(td_lower *l, uint32_t call)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t value = td_low_expr(l, td_low_kid(l, call, 1)), def = ir->values[value].def;
    bool made = !(def & (TD_IR_PARAM | TD_IR_CAPTURED)) && ir->nodes[def].op == TD_PRIM_LISTCONSTRUCT;
    if (made && td_ir_uses(l->e, value) == 0) return td_low_made(l, td_ir_int(l->e, ir->nodes[def].nin));
    return td_low_prim(l, call, "len", 1, &value);
}

static td_type_kind inner_kind(const td_lower *l, uint32_t type)
{
    const td_ir *ir = td_ir_now(l->e);
    td_type_kind kind = td_type_kind_of(ir, type);
    return kind == TD_T_OPTIONAL ? td_type_kind_of(ir, td_type_part(ir, type, 0)) : kind;
}

bool td_low_code_dtype(const td_lower *l, uint32_t from, uint32_t to)
{
    return inner_kind(l, from) == TD_T_DTYPE && inner_kind(l, to) == TD_T_INT;
}

/* _dtype(x), in aten.py: of a number the dtype; of another value that. */
static uint32_t dtype_of(td_lower *l, uint32_t call)
{
    static const uint8_t table[] = {TD_UINT8,      TD_INT8,       TD_INT16,      TD_INT32,      TD_INT64,
                                    TD_FLOAT16,    TD_FLOAT32,    TD_FLOAT64,    TD_DTYPE_NONE, TD_COMPLEX64,
                                    TD_COMPLEX128, TD_BOOL,       TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE,
                                    TD_BFLOAT16,   TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE,
                                    TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE,
                                    TD_DTYPE_NONE, TD_DTYPE_NONE, TD_UINT16,     TD_UINT32,     TD_UINT64};
    uint32_t value = td_low_expr(l, td_low_kid(l, call, 1));
    td_literal v;
    td_type_kind kind = td_low_kind(l, value);
    if (kind != TD_T_INT && kind != TD_T_OPTIONAL) return value;
    if (!td_low_literal(l, value, &v) || v.kind != TD_L_INT)
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "a dtype that is known only when it runs is not read yet");
    td_dtype dtype = v.i >= 0 && v.i < (int64_t)sizeof table ? (td_dtype)table[v.i] : TD_DTYPE_NONE;
    if (dtype == TD_DTYPE_NONE)
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "the dtype with the number %lld is not known here", (long long)v.i);
    return td_low_made(l, td_ir_dtype(l->e, dtype));
}

/* ---- calls */

static uint32_t format(td_lower *l, uint32_t call)
{
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    td_low_at(l, call);
    return td_low_op(l, TD_PRIM_FORMAT, n, values, td_low_plain(l, TD_T_STR));
}

/* "%s" % x */
static uint32_t percent(td_lower *l, uint32_t call)
{
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    if (!n) td_low_wrong(l, call, "'percentFormat' wants a format");
    td_low_at(l, call);
    return td_low_percent(l, call, values[0], n == 2 ? values[1] : td_low_tuple(l, n - 1, values + 1));
}

/* x is None, or not: often known by its type. */
static uint32_t none_test(td_lower *l, uint32_t call, bool is)
{
    uint32_t value = td_low_expr(l, td_low_kid(l, call, 1));
    td_type_kind kind = td_low_kind(l, value);
    td_low_at(l, call);
    if (kind != TD_T_OPTIONAL) return td_low_made(l, td_ir_bool(l->e, (kind == TD_T_NONE) == is));
    value = td_low_op(l, TD_PRIM_IS_NONE, 1, &value, td_low_plain(l, TD_T_BOOL));
    return is ? value : td_low_op(l, TD_PRIM_NOT, 1, &value, td_low_plain(l, TD_T_BOOL));
}

/* RaiseException("text", "builtins.ValueError"); what assert becomes says so in its text. */
static uint32_t raise_exception(td_lower *l, uint32_t call)
{
    static const char assertion[] = "AssertionError: ";
    uint32_t text = td_low_kid(l, call, 1), class = td_low_kid(l, call, 2), message;
    const char *kind = "RuntimeError", *said = td_low_node(l, text)->kind == TD_N_STRING ? td_low_text(l, text) : "";
    if (class && td_low_node(l, class)->kind == TD_N_STRING) {
        const char *dot = strrchr(td_low_text(l, class), '.');
        kind = dot ? dot + 1 : td_low_text(l, class);
    }
    bool asserted = strncmp(said, assertion, sizeof assertion - 1) == 0;
    td_low_at(l, call);
    if (asserted) kind = "AssertionError", said += sizeof assertion - 1;
    message = asserted ? td_low_made(l, td_ir_str(l->e, said, strlen(said))) : td_low_expr(l, text);
    td_low_raise(l, call, kind, message);
    return td_low_made(l, td_ir_none(l->e));
}

/* A form of the column `aten` that is just a call: "relu", "addmm(c, x, y, beta=beta)". */
static bool is_call(const char *form, size_t n, size_t name)
{
    if (n == name) return true;
    for (size_t k = name + 1; k + 1 < n; k++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_, =?!", form[k])) return false;
    return form[name] == '(' && form[n - 1] == ')' && !strstr(form, "dtype=");
}

/* The form of this name, behind what it asks for; NULL: the row has none. */
static const char *form_named(const td_op *op, const char *name, size_t length, bool *bare)
{
    for (const char *form = op->aten, *end; form; form = *end ? end + 2 : NULL) {
        end = strstr(form, "; ");
        if (!end) end = form + strlen(form);
        const char *at = strncmp(form, "[new] ", 6) == 0     ? form + 6
                         : strncmp(form, "[first] ", 8) == 0 ? form + 8
                                                             : form;
        if (strncmp(at, name, length) != 0 || !is_call(at, (size_t)(end - at), length)) continue;
        *bare = at + length == end;
        return at;
    }
    return NULL;
}

/* The row that ATen calls so, which takes `n` arguments and no more than it must; by the table that is written from. */
static const td_op *row_named(const char *name, size_t length, uint32_t n, const char **form)
{
    const td_op *found = NULL;
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        bool bare;
        const char *at = op ? form_named(op, name, length, &bare) : NULL;
        uint32_t most = op ? (uint32_t)op->nparams + op->nattrs : 0;
        if (!at || most < n || (found && most >= (uint32_t)found->nparams + found->nattrs)) continue;
        found = op, *form = bare ? NULL : at;
    }
    return found;
}

/* On a way that may never be taken an unknown op is an error of that way; elsewhere of the whole. */
static uint32_t unknown_op(td_lower *l, uint32_t call, const char *root, const char *name)
{
    char text[200];
    if (strstr(name, "mkldnn") || strstr(name, "MKLDNN"))
        td_low_refuse(l, TD_E_UNSUPPORTED, call,
                      "PyTorch's optimize_for_inference() made this, and its files lack the weights of such layers; save "
                      "what torch.jit.freeze() gives");
    if (!l->ifs)
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "'%s.%.60s' of TorchScript is not known here yet", root, name);
    int n = snprintf(text, sizeof text, "'%s.%.60s' of TorchScript is not known here yet", root, name);
    td_low_at(l, call);
    td_low_raise(l, call, "NotImplementedError", td_low_made(l, td_ir_str(l->e, text, (size_t)n)));
    return td_low_made(l, td_ir_none(l->e));
}

bool td_low_aten_call(td_lower *l, uint32_t call, const char *name, uint32_t self, uint32_t *value)
{
    size_t n = strlen(name);
    bool in_place = n > 1 && name[n - 1] == '_' && name[n - 2] != '_';
    uint32_t function = td_low_find_function(l, l->aten, name);
    if (function) return *value = td_low_function_call(l, call, function, TD_IR_NONE, self), true;
    const char *form;
    uint32_t given = td_low_node(l, call)->n - (self == TD_IR_NONE);
    const td_op *op = row_named(name, n - in_place, given, &form);
    if (!op || (in_place && !(op->flags & TD_OF_INPLACE))) return false;
    return *value = td_low_op_call_as(l, call, op, self, in_place ? TD_IR_INPLACE : 0, form), true;
}

bool td_low_aten_takes(td_lower *l, uint32_t call, const char *name, uint32_t self)
{
    uint32_t function = td_low_find_function(l, l->aten, name);
    return function && td_low_takes(l, call, function, self);
}

static uint32_t aten(td_lower *l, uint32_t call, const char *name)
{
    bool is;
    uint32_t value;
    if (td_low_code_none_test(l, call, &is)) return none_test(l, call, is);
    if (strcmp(name, "format") == 0) return format(l, call);
    if (strcmp(name, "percentFormat") == 0) return percent(l, call);
    return td_low_aten_call(l, call, name, TD_IR_NONE, &value) ? value : unknown_op(l, call, "torch", name);
}

static uint32_t prim(td_lower *l, uint32_t call, const char *path)
{
    char name[80];
    if (strncmp(path, "prim.", 5) != 0)
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "'ops.%.80s' is an op of somebody's own, which is not known here",
                      path);
    path += 5;
    if (strcmp(path, "RaiseException") == 0) return raise_exception(l, call);
    snprintf(name, sizeof name, "prim_%.70s", path);
    uint32_t function = td_low_find_function(l, l->aten, name);
    if (function) return td_low_function_call(l, call, function, TD_IR_NONE, TD_IR_NONE);
    return unknown_op(l, call, "ops.prim", path);
}

static bool word(td_lower *l, uint32_t call, const char *name, uint32_t *value)
{
    if (strcmp(name, "annotate") == 0) *value = td_low_annotate(l, call);
    else if (strcmp(name, "unchecked_cast") == 0) *value = unchecked_cast(l, call);
    else if (strcmp(name, "uninitialized") == 0) *value = uninitialized(l, call);
    else if (strcmp(name, "_dtype") == 0 && l->unit == l->aten) *value = dtype_of(l, call);
    else if (strcmp(name, "_count") == 0 && l->unit == l->aten) *value = count_of(l, call);
    else if (strcmp(name, "fork") == 0 || strcmp(name, "awaitable") == 0)
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "'%s' begins what runs at the same time; this is not read yet", name);
    else return false;
    return true;
}

bool td_low_code_call(td_lower *l, uint32_t call, uint32_t *value)
{
    char path[512];
    const char *rest;
    uint32_t f = td_low_kid(l, call, 0);
    const td_ast_node *n = td_low_node(l, f);
    if (n->kind == TD_N_NAME) return !td_low_var(l, n->text) && word(l, call, td_low_text(l, f), value);
    if (path_of(l, f, TD_SN_ATEN, path, sizeof path, &rest)) return *value = aten(l, call, rest), true;
    if (path_of(l, f, TD_SN_ATEN_OPS, path, sizeof path, &rest)) return *value = prim(l, call, rest), true;
    uint32_t class = td_low_code_named(l, call);
    if (class) return *value = td_low_named_call(l, call, class), true;
    if (path_of(l, f, TD_SN_CODE, path, sizeof path, &rest) && !function_at(l, path))
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "objects of classes that are no modules are not read yet: '%.100s'",
                      path);
    if (n->kind != TD_N_ATTRIBUTE) return false;
    const td_script_name *base = td_low_thing(l, td_low_kid(l, f, 0));
    bool begun = base && base->kind == TD_SN_GRAD_OFF;
    return begun && (*value = td_low_made(l, td_ir_none(l->e)), true);
}

/* ---- states */

/* By the annotation in its class, or of a parameter. */
static uint32_t type_of_state(td_lower *l, const td_script_state *s)
{
    if (s->text) return td_low_type_of_param(l, td_low_find_function(l, s->unit, s->text), 0);
    const td_script_object *o = &l->world->objects[s->object];
    uint32_t class = td_low_find_class(l, o->unit, o->class, strlen(o->class)), block = td_low_kid(l, class, 0);
    for (uint32_t k = 0; k < td_low_node(l, block)->n; k++) {
        uint32_t line = td_low_kid(l, block, k), target = td_low_kid(l, line, 0);
        if (td_low_node(l, line)->kind != TD_N_ANN_ASSIGN || td_low_node(l, target)->kind != TD_N_NAME) continue;
        if (strcmp(td_low_text(l, target), s->name) == 0) return td_low_type_of(l, td_low_kid(l, line, 1));
    }
    td_low_wrong(l, class, "the attribute '%.60s' has no type", s->name);
}

void td_low_take_cells(td_lower *l, uint32_t block, bool entry)
{
    uint32_t n = l->world->nstates;
    l->cells = n ? td_low_array(l, n) : NULL;
    for (uint32_t k = 0; k < n; k++) {
        const td_script_state *s = &l->world->states[k];
        uint32_t type = type_of_state(l, s), list = td_low_made(l, td_type_list(l->e, type));
        uint32_t given = td_low_made(l, td_ir_param_new(l->e, block, entry ? type : list, s->name));
        l->cells[k] = entry ? td_low_op(l, TD_PRIM_LISTCONSTRUCT, 1, &given, list) : given;
    }
}

uint32_t td_low_state(td_lower *l, uint32_t state)
{
    uint32_t in[2] = {l->cells[state], td_low_made(l, td_ir_int(l->e, 0))};
    return td_low_op(l, TD_PRIM_GETITEM_LIST, 2, in, td_low_part(l, td_low_type(l, in[0]), 0));
}

void td_low_state_set(td_lower *l, uint32_t target, uint32_t state, uint32_t value)
{
    uint32_t in[3] = {l->cells[state], td_low_made(l, td_ir_int(l->e, 0))};
    in[2] = td_low_convert(l, target, value, td_low_part(l, td_low_type(l, in[0]), 0));
    td_low_do(l, TD_PRIM_SETITEM_LIST, 3, in);
}

uint32_t td_low_with_states(td_lower *l, uint32_t result)
{
    uint32_t n = l->world->nstates, *now = td_low_array(l, n), both[2] = {result};
    if (!n) return result;
    for (uint32_t k = 0; k < n; k++) now[k] = td_low_state(l, k);
    both[1] = td_low_tuple(l, n, now);
    return td_low_tuple(l, 2, both);
}
