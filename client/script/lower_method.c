/* Python's own functions, methods and attributes of values. See lower.h. */
#include "client/script/lower.h"

#include <stdio.h>
#include <strings.h>

static uint32_t *arguments_for(td_lower *l, uint32_t call, uint32_t self, td_type_kind wanted, uint32_t *n)
{
    uint32_t count = td_low_node(l, call)->n, *values = td_low_array(l, count + 1);
    *n = 0;
    if (self != TD_IR_NONE) values[(*n)++] = self;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t arg = td_low_kid(l, call, k);
        if (td_low_node(l, arg)->kind == TD_N_KEYWORD)
            td_low_wrong(l, arg, "this function takes no names of arguments");
        values[(*n)++] = td_low_expr_for(l, arg, wanted);
    }
    return values;
}

uint32_t *td_low_arguments(td_lower *l, uint32_t call, uint32_t self, uint32_t *n)
{
    return arguments_for(l, call, self, TD_T_NONE, n);
}

/* ---- Python's own */

/* prim::NAME, or what the prelude has for values that no form of it takes. */
static uint32_t prim_or(td_lower *l, uint32_t call, const char *kind, const char *name, uint32_t n,
                        const uint32_t *values)
{
    uint32_t result;
    td_low_at(l, call);
    if (td_low_has_prim(l, name, n, values, &result)) return result;
    if (td_low_prelude_of(l, call, kind, name, n, values, &result)) return result;
    return td_low_prim(l, call, name, n, values);
}

/* min() and max(): of numbers and texts, of a list. */
static uint32_t fold(td_lower *l, uint32_t call, const char *name, uint32_t n, const uint32_t *values)
{
    uint32_t value = values[0];
    for (uint32_t k = 1; k < n; k++) value = prim_or(l, call, "two", name, 2, (uint32_t[]){value, values[k]});
    return n == 1 ? prim_or(l, call, "builtin", name, 1, &value) : value;
}

static uint32_t print(td_lower *l, uint32_t call)
{
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    td_low_at(l, call);
    td_low_do(l, TD_PRIM_PRINT, n, values);
    return td_low_made(l, td_ir_none(l->e));
}

/* float("-inf"), as it is written where Python has no other word for it. */
static bool endless(td_lower *l, uint32_t value, uint32_t *result)
{
    const char *word = td_low_constant_text(l, value);
    bool minus = word && *word == '-';
    if (!word) return false;
    word += minus || *word == '+';
    bool inf = strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0;
    if (!inf && strcasecmp(word, "nan") != 0) return false;
    double size = inf ? __builtin_inf() : __builtin_nan("");
    return *result = td_low_made(l, td_ir_float(l->e, minus && inf ? -size : size)), true;
}

/* format(x, ".3f") */
static uint32_t format(td_lower *l, uint32_t call)
{
    uint32_t n, *values = td_low_arguments(l, call, TD_IR_NONE, &n);
    if (n != 1 && n != 2) td_low_wrong(l, call, "'format' takes a value, and how it is written");
    td_low_at(l, call);
    uint32_t spec = n == 2 ? values[1] : td_low_made(l, td_ir_str(l->e, "", 0));
    return td_low_formatted(l, call, values[0], td_low_convert(l, call, spec, td_low_plain(l, TD_T_STR)));
}

/* int(x), float(x), bool(x), ... */
static uint32_t cast(td_lower *l, uint32_t call, const char *name, td_type_kind to, uint32_t n, const uint32_t *values)
{
    uint32_t constant;
    td_low_at(l, call);
    if (n == 1 && td_low_kind(l, values[0]) == to) return values[0];
    if (n == 1 && to == TD_T_FLOAT && endless(l, values[0], &constant)) return constant;
    if (n == 1 && td_low_kind(l, values[0]) == TD_T_TENSOR && to != TD_T_STR) {
        char item[16];
        snprintf(item, sizeof item, "item.%s", name);
        return td_low_prim(l, call, item, 1, values);
    }
    return n == 1 && to == TD_T_BOOL ? td_low_bool(l, call, values[0]) : td_low_prim(l, call, name, n, values);
}

static uint32_t length(td_lower *l, uint32_t call, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    td_low_at(l, call);
    if (kind == TD_T_TUPLE)
        return td_low_made(l, td_ir_int(l->e, td_type_parts(td_ir_now(l->e), td_low_type(l, value))));
    if (kind != TD_T_TENSOR) return td_low_prim(l, call, "len", 1, &value);
    return td_low_prim(l, call, "size.dim", 2, (uint32_t[]){value, td_low_made(l, td_ir_int(l->e, 0))});
}

static uint32_t list_of_tuple(td_lower *l, uint32_t call, uint32_t value)
{
    uint32_t n = td_type_parts(td_ir_now(l->e), td_low_type(l, value)), *items = td_low_array(l, n);
    for (uint32_t k = 0; k < n; k++) items[k] = td_low_item(l, value, k);
    return td_low_list(l, call, n, items);
}

/* list(x) */
static uint32_t list_of(td_lower *l, uint32_t call, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value);
    if (kind == TD_T_TUPLE) return list_of_tuple(l, call, value);
    return kind == TD_T_LIST ? td_low_prim(l, call, "copy", 1, &value) : td_low_prelude(l, call, "gathered", 1, &value);
}

static uint32_t tuple_of(td_lower *l, uint32_t call, uint32_t value)
{
    if (td_low_kind(l, value) == TD_T_TUPLE) return value;
    td_low_wrong(l, call, "'tuple' takes a tuple, not %s: how long one is, is known before it runs; use the list",
                 td_low_type_name(l, td_low_type(l, value)));
}

/* Put a list in order: argument k of the call says whether the largest come first. */
static uint32_t sort(td_lower *l, uint32_t call, uint32_t list, uint32_t k)
{
    uint32_t n = td_low_node(l, call)->n, in[2] = {list}, arg = n > k ? td_low_kid(l, call, k) : 0;
    bool named = arg && td_low_node(l, arg)->kind == TD_N_KEYWORD;
    if (n > k + 1 || (named && strcmp(td_low_text(l, arg), "reverse") != 0))
        td_low_wrong(l, n > k + 1 ? td_low_kid(l, call, k + 1) : arg,
                     "a list of a program is sorted by its items; only 'reverse' is known");
    if (arg)
        in[1] = td_low_convert(l, arg, td_low_expr(l, named ? td_low_kid(l, arg, 0) : arg), td_low_plain(l, TD_T_BOOL));
    else in[1] = td_low_made(l, td_ir_bool(l->e, false));
    td_low_at(l, call);
    if (td_low_has_prim(l, "sort", 2, in, &in[1]) || td_low_sort(l, call, list, in[1]))
        return td_low_made(l, td_ir_none(l->e));
    return td_low_prim(l, call, "sort", 2, in);
}

/* sorted(list), sorted(list, reverse=True) */
static uint32_t sorted(td_lower *l, uint32_t call)
{
    if (td_low_node(l, call)->n < 2) td_low_wrong(l, call, "'sorted' wants a list");
    uint32_t list = list_of(l, call, td_low_expr(l, td_low_kid(l, call, 1)));
    sort(l, call, list, 2);
    return list;
}

/* KIND_NAME of the prelude. */
static bool from_prelude(td_lower *l, uint32_t call, const char *kind, const char *name, uint32_t self, uint32_t *value)
{
    char full[64];
    snprintf(full, sizeof full, "%s_%.48s", kind, name);
    uint32_t function = td_low_find_prelude(l, full);
    return function && (*value = td_low_function_call(l, call, function, TD_IR_NONE, self), true);
}

bool td_low_builtin(td_lower *l, uint32_t call, const char *name, uint32_t *value)
{
    static const struct {
        const char *name;
        td_type_kind to;
    } casts[] = {
        {"int", TD_T_INT}, {"float", TD_T_FLOAT}, {"bool", TD_T_BOOL}, {"complex", TD_T_COMPLEX}, {"str", TD_T_STR}};
    static const char *const plain[] = {"abs", "round", "sum", "ord", "chr", "pow", "repr"};
    uint32_t n, *values, method;
    if (td_low_prim_call(l, call, name, value) || td_low_gradients_of(l, call, name, value)) return true;
    if (strcmp(name, "isinstance") == 0 && td_low_node(l, call)->n == 3)
        return *value = td_low_isinstance(l, call), true;
    if (strcmp(name, "print") == 0) return *value = print(l, call), true;
    if (strcmp(name, "format") == 0) return *value = format(l, call), true;
    if (strcmp(name, "sorted") == 0) return *value = sorted(l, call), true;
    if (strcmp(name, "range") == 0 || strcmp(name, "enumerate") == 0 || strcmp(name, "zip") == 0)
        return *value = td_low_gathered(l, call), true;
    if (strcmp(name, "int") == 0 && td_low_node(l, call)->n == 3)
        return from_prelude(l, call, "builtin", name, TD_IR_NONE, value);
    for (unsigned i = 0; i < sizeof casts / sizeof *casts; i++)
        if (strcmp(casts[i].name, name) == 0) {
            values = arguments_for(l, call, TD_IR_NONE, casts[i].to, &n);
            return *value = cast(l, call, name, casts[i].to, n, values), true;
        }
    bool least = strcmp(name, "min") == 0 || strcmp(name, "max") == 0, sized = strcmp(name, "len") == 0;
    bool listed = strcmp(name, "list") == 0, found = least || sized || listed || strcmp(name, "tuple") == 0;
    for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++) found |= strcmp(plain[i], name) == 0;
    if (strcmp(name, "dict") == 0 && td_low_node(l, call)->n == 1) return *value = td_low_dict(l, call, 0, NULL), true;
    if (!found) return from_prelude(l, call, "builtin", name, TD_IR_NONE, value);
    const td_script_object *modules = sized ? td_low_container(l, td_low_thing(l, td_low_kid(l, call, 1))) : NULL;
    if (modules && td_low_node(l, call)->n == 2)
        return td_low_at(l, call), *value = td_low_made(l, td_ir_int(l->e, modules->items)), true;
    values = td_low_arguments(l, call, TD_IR_NONE, &n);
    if (n == 0 && listed) return *value = td_low_list(l, call, 0, NULL), true;
    if (n == 0) td_low_wrong(l, call, "'%s' wants arguments", name);
    if ((sized || listed) && n != 1) td_low_wrong(l, call, "'%s' takes one argument", name);
    td_type_kind kind = td_low_kind(l, values[0]);
    bool over = kind == TD_T_TUPLE && (strcmp(name, "sum") == 0 || (least && n == 1));
    uint32_t listing = over ? list_of_tuple(l, call, values[0]) : values[0];
    if (least) *value = fold(l, call, name, n, n == 1 ? &listing : values);
    else if (sized && (method = td_low_own_method(l, values[0], "__len__")))
        *value = td_low_own_call(l, td_low_no_arguments(l, call), method, values[0]);
    else if (sized) *value = length(l, call, values[0]);
    else if (listed) *value = list_of(l, call, values[0]);
    else if (strcmp(name, "tuple") == 0) *value = tuple_of(l, call, values[0]);
    else if (strcmp(name, "pow") == 0 && n == 2)
        *value = td_low_binary(l, call, TD_O_POWER, values[0], values[1], false);
    else if (strcmp(name, "round") == 0 && n == 2 && kind == TD_T_INT)
        *value = td_low_prelude(l, call, "round_int", n, values);
    else if (kind == TD_T_TENSOR && n == 1 && td_op_by_name(name))
        *value = td_low_op_call(l, call, td_op_by_name(name), TD_IR_NONE, 0);
    else values[0] = listing, *value = prim_or(l, call, "builtin", name, n, values);
    return true;
}

bool td_low_math(td_lower *l, uint32_t call, const char *name, uint32_t *value)
{
    char full[48];
    uint32_t n, *values;
    snprintf(full, sizeof full, "math.%s", name);
    bool whole = strcmp(name, "floor") == 0 || strcmp(name, "ceil") == 0;
    if (!whole && strcmp(name, "pow") != 0 && !td_prim_by_name(full))
        return from_prelude(l, call, "math", name, TD_IR_NONE, value);
    values = td_low_arguments(l, call, TD_IR_NONE, &n);
    if (strcmp(name, "pow") == 0 && n == 2)
        for (uint32_t k = 0; k < 2; k++) values[k] = td_low_convert(l, call, values[k], td_low_plain(l, TD_T_FLOAT));
    td_low_at(l, call);
    if (whole || strcmp(name, "pow") == 0) *value = td_low_prim(l, call, name, n, values);
    else if (!td_low_has_prim(l, full, n, values, value) && !td_low_prelude_of(l, call, "math", name, n, values, value))
        *value = td_low_prim(l, call, full, n, values);
    return true;
}

/* ---- methods */

static uint32_t item(td_lower *l, uint32_t call, uint32_t self)
{
    td_type_kind wanted = l->wanted_node == call ? l->wanted : TD_T_FLOAT;
    return td_low_prim(l, call,
                       wanted == TD_T_INT       ? "item.int"
                       : wanted == TD_T_BOOL    ? "item.bool"
                       : wanted == TD_T_COMPLEX ? "item.complex"
                                                : "item.float",
                       1, &self);
}

/* An op that writes nothing, and whose result can be copied to where its first argument lies: x.addmm_(...). */
static bool is_written(const td_op *op)
{
    return op && op->nparams && op->nouts == 1 && !op->outs[0].list &&
           !(op->flags & (TD_OF_VIEW | TD_OF_CREATION | TD_OF_DATA_SHAPE));
}

/* method_NAME of the prelude: what takes its arguments in another order than the function of that name. */
static uint32_t method_named(td_lower *l, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "method_%.48s", name);
    return td_low_find_prelude(l, full);
}

/* x.tolist() where a list of this type is wanted, in lists as deep as it says; false: it is something else. */
bool td_low_tolist(td_lower *l, uint32_t node, uint32_t type, uint32_t *value)
{
    uint32_t f = td_low_kid(l, node, 0), part = type, depth = 0;
    if (td_low_node(l, node)->kind != TD_N_CALL || td_low_node(l, node)->n != 1 ||
        td_low_node(l, f)->kind != TD_N_ATTRIBUTE || strcmp(td_low_text(l, f), "tolist") != 0)
        return false;
    for (; td_type_kind_of(td_ir_now(l->e), part) == TD_T_LIST; depth++) part = td_low_part(l, part, 0);
    td_type_kind kind = td_type_kind_of(td_ir_now(l->e), part);
    uint32_t self = td_low_expr(l, td_low_kid(l, f, 0));
    if (td_low_kind(l, self) != TD_T_TENSOR) return false;
    const char *of = kind == TD_T_INT ? "int" : kind == TD_T_FLOAT ? "float" : kind == TD_T_BOOL ? "bool" : NULL;
    char name[32];
    if (!of || depth < 1 || depth > 4)
        td_low_wrong(l, node, "'tolist' gives ints, floats or bools, in 1 to 4 lists within each other");
    else snprintf(name, sizeof name, "%u_%s", depth, of);
    td_low_at(l, node);
    return td_low_prelude_of(l, node, "tolist", name, 1, &self, value);
}

/* TD_IR_NONE: it has no such method. */
static uint32_t tensor_method(td_lower *l, uint32_t call, uint32_t self, const char *name)
{
    static const char *const renamed[][2] = {
        {"dim", "ndim"}, {"ndimension", "ndim"}, {"numel", "numel"}, {"nelement", "numel"}};
    uint32_t n = td_low_node(l, call)->n, in[2] = {self};
    size_t size = strlen(name);
    char row[48];
    td_low_at(l, call);
    for (unsigned i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(renamed[i][0], name) == 0) return td_low_prim(l, call, renamed[i][1], 1, &self);
    if (td_low_copy_method(l, call, self, name, &in[1])) return in[1];
    if (strcmp(name, "size") == 0 && n == 1) return td_low_prim(l, call, "shape", 1, &self);
    if (strcmp(name, "size") == 0 && n == 2) {
        uint32_t dim = td_low_kid(l, call, 1);
        bool named = td_low_node(l, dim)->kind == TD_N_KEYWORD && strcmp(td_low_text(l, dim), "dim") == 0;
        in[1] = td_low_expr(l, named ? td_low_kid(l, dim, 0) : dim);
        return td_low_prim(l, call, "size.dim", 2, in);
    }
    if (strcmp(name, "item") == 0) return item(l, call, self);
    if (strcmp(name, "max") == 0 || strcmp(name, "min") == 0) {
        snprintf(row, sizeof row, n > 1 ? "%s_dim" : "a%s", name);
        return td_low_op_call(l, call, td_op_by_name(row), self, 0);
    }
    if (strcmp(name, "tolist") == 0)
        td_low_refuse(l, TD_E_UNSUPPORTED, call, "'tolist' gives a list of a type that is said: xs: list[float] = ...");
    uint32_t own = l->blame ? 0 : method_named(l, name);
    if (own) return td_low_function_call(l, call, own, TD_IR_NONE, self);
    const td_op *op = td_op_by_name(name);
    td_low_check_own(l, call, name, self);
    uint32_t function = l->blame || td_low_is_row(l, call, name, self) ? 0 : td_low_find_prelude(l, name);
    bool taken = function ? td_low_takes(l, call, function, self) : !op || td_low_row_takes(l, call, op, self);
    if (!l->blame && !taken && td_low_aten_takes(l, call, name, self))
        return td_low_aten_call(l, call, name, self, &in[1]) ? in[1] : TD_IR_NONE;
    if (function) return td_low_function_call(l, call, function, TD_IR_NONE, self);
    if (op && op->nparams && !(op->flags & TD_OF_CREATION)) return td_low_op_call(l, call, op, self, 0);
    snprintf(row, sizeof row, "%.*s", size ? (int)size - 1 : 0, name);
    op = size > 1 && name[size - 1] == '_' ? td_op_by_name(row) : NULL;
    if (op && !l->blame && !td_low_row_takes(l, call, op, self) && td_low_aten_takes(l, call, name, self))
        return td_low_aten_call(l, call, name, self, &in[1]) ? in[1] : TD_IR_NONE;
    if (op && op->flags & TD_OF_INPLACE) return td_low_op_call(l, call, op, self, TD_IR_INPLACE);
    if (is_written(op)) {
        in[1] = td_low_op_call(l, call, op, self, 0);
        return td_low_prelude(l, call, "copy_", 2, in);
    }
    return *name != '_' && td_low_aten_call(l, call, name, self, &in[1]) ? in[1] : TD_IR_NONE;
}

static uint32_t method_of_tensor(td_lower *l, uint32_t call, uint32_t self, const char *name)
{
    char text[64];
    uint32_t value = tensor_method(l, call, self, name);
    const char *usual = value == TD_IR_NONE ? td_low_usual_name(name, text, sizeof text) : NULL;
    if (usual) value = tensor_method(l, call, self, usual);
    if (value != TD_IR_NONE) return value;
    td_low_refuse(l, TD_E_UNSUPPORTED, td_low_kid(l, call, 0), "a Tensor of a program has no '%.60s'%s", name,
                  td_low_near_op(l, name));
}

/* [] gets its type by what is put into it first. */
static void type_empty_list(td_lower *l, uint32_t list, const char *name, uint32_t n, const uint32_t *values)
{
    if (td_low_kind(l, list) != TD_T_LIST || n < 2) return;
    if (td_type_kind_of(td_ir_now(l->e), td_low_part(l, td_low_type(l, list), 0)) != TD_T_NONE) return;
    uint32_t type = td_low_type(l, values[n - 1]);
    if (strcmp(name, "extend") != 0) type = td_low_made(l, td_type_list(l->e, type));
    td_ir_retype(l->e, list, type);
}

/* A list without items is of the type that the list holds; another value is as it is. */
static uint32_t item_for(td_lower *l, uint32_t call, uint32_t list, uint32_t value)
{
    bool none = td_low_kind(l, value) == TD_T_LIST &&
                td_type_kind_of(td_ir_now(l->e), td_low_part(l, td_low_type(l, value), 0)) == TD_T_NONE;
    return none ? td_low_convert(l, call, value, td_low_part(l, td_low_type(l, list), 0)) : value;
}

/* d.get(key, otherwise) is None only if one of the two may be. */
static uint32_t get_or(td_lower *l, uint32_t call, uint32_t *values)
{
    uint32_t type = td_low_part(l, td_low_type(l, values[0]), 1);
    td_type_kind kind = td_low_kind(l, values[2]);
    bool maybe = td_type_kind_of(td_ir_now(l->e), type) == TD_T_OPTIONAL;
    if (maybe || kind == TD_T_NONE || kind == TD_T_OPTIONAL) return td_low_prim(l, call, "get", 3, values);
    values[2] = td_low_convert(l, call, values[2], type);
    uint32_t found = td_low_prim(l, call, "get", 3, values);
    return td_low_op(l, TD_PRIM_UNCHECKED_CAST, 1, &found, type);
}

/* What a kind is called in names of the prelude. */
static const char *prelude_kind(td_type_kind kind)
{
    static const char *const names[TD_T_KINDS] = {[TD_T_STR] = "str",
                                                  [TD_T_LIST] = "list",
                                                  [TD_T_DICT] = "dict",
                                                  [TD_T_FLOAT] = "float",
                                                  [TD_T_COMPLEX] = "complex"};
    return names[kind] ? names[kind] : "no";
}

static bool is_any_named(td_lower *l, uint32_t call)
{
    for (uint32_t k = 1; k < td_low_node(l, call)->n; k++)
        if (td_low_node(l, td_low_kid(l, call, k))->kind == TD_N_KEYWORD) return true;
    return false;
}

uint32_t td_low_method(td_lower *l, uint32_t call, uint32_t self, const char *name)
{
    static const char *const writing[] = {"append", "insert", "pop",    "extend",  "clear",     "reverse",
                                          "sort",   "update", "remove", "popitem", "setdefault"};
    for (unsigned i = 0; i < sizeof writing / sizeof *writing; i++)
        if (strcmp(writing[i], name) == 0) td_low_check_written(l, td_low_kid(l, td_low_kid(l, call, 0), 0));
    self = td_low_or_fail(l, self);
    uint32_t method = td_low_own_method(l, self, name);
    if (method) return td_low_own_call(l, call, method, self);
    const char *kind = prelude_kind(td_low_kind(l, self));
    uint32_t result;
    if (td_low_kind(l, self) == TD_T_TENSOR) return method_of_tensor(l, call, self, name);
    if (td_low_kind(l, self) == TD_T_STR && strcmp(name, "format") == 0) return td_low_format_method(l, call, self);
    if (td_low_kind(l, self) == TD_T_LIST && strcmp(name, "sort") == 0) return sort(l, call, self, 1);
    static const char *const methods[] = {"append", "insert",     "pop",      "extend", "clear",   "reverse",
                                          "copy",   "index",      "count",    "keys",   "values",  "items",
                                          "get",    "update",     "join",     "split",  "replace", "find",
                                          "strip",  "startswith", "endswith", "lower",  "upper"};
    bool found = false;
    for (unsigned i = 0; i < sizeof methods / sizeof *methods; i++) found |= strcmp(methods[i], name) == 0;
    if ((!found || is_any_named(l, call)) && from_prelude(l, call, kind, name, self, &result)) return result;
    uint32_t n, *values = td_low_arguments(l, call, self, &n), function = td_low_kid(l, call, 0);
    td_low_at(l, call);
    if (td_low_kind(l, self) == TD_T_OPTIONAL) td_low_wrong(l, function, "this may be None; test 'is not None' before");
    if (!found)
        td_low_wrong(l, function, "%s of a program has no '%.60s'", td_low_type_name(l, td_low_type(l, self)), name);
    type_empty_list(l, self, name, n, values);
    if (n > 1 && td_low_kind(l, self) == TD_T_LIST && (strcmp(name, "append") == 0 || strcmp(name, "insert") == 0))
        values[n - 1] = item_for(l, call, self, values[n - 1]);
    if (strcmp(name, "pop") == 0 && n == 1) values[n++] = td_low_made(l, td_ir_int(l->e, -1));
    if (strcmp(name, "get") == 0 && n == 2) {
        uint32_t *more = td_low_array(l, 3);
        more[0] = values[0], more[1] = values[1], more[2] = td_low_made(l, td_ir_none(l->e));
        return td_low_prim(l, call, name, 3, more);
    }
    if (strcmp(name, "get") == 0 && n == 3 && td_low_kind(l, self) == TD_T_DICT) return get_or(l, call, values);
    return prim_or(l, call, kind, name, n, values);
}

static uint32_t last_two(td_lower *l, uint32_t node, uint32_t self)
{
    const td_op *op = td_op_by_name("transpose");
    td_low_at(l, node);
    uint32_t in[3] = {self, td_low_made(l, td_ir_int(l->e, -2)), td_low_made(l, td_ir_int(l->e, -1))};
    return td_low_op(l, TD_IR_TD | op->id, 3, in, td_low_made(l, td_type_any_tensor(l->e)));
}

uint32_t td_low_attribute_of(td_lower *l, uint32_t node, uint32_t self)
{
    static const char *const tensors[] = {"shape", "ndim", "dtype", "device", "requires_grad", "grad"};
    const char *name = td_low_text(l, node);
    td_low_at(l, node);
    self = td_low_or_fail(l, self);
    td_type_kind kind = td_low_kind(l, self);
    uint32_t item;
    if (td_low_named_item(l, node, self, &item)) return item;
    for (unsigned i = 0; kind == TD_T_TENSOR && i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(tensors[i], name) == 0) return td_low_prim(l, node, name, 1, &self);
    if (kind == TD_T_TENSOR && strcmp(name, "mT") == 0) return last_two(l, node, self);
    if (kind == TD_T_COMPLEX && (strcmp(name, "real") == 0 || strcmp(name, "imag") == 0))
        return td_low_prim(l, node, name, 1, &self);
    if (kind == TD_T_DTYPE && (strcmp(name, "is_floating_point") == 0 || strcmp(name, "is_complex") == 0))
        return td_low_prim(l, node, name, 1, &self);
    if (kind == TD_T_DEVICE && strcmp(name, "type") == 0) return td_low_prelude(l, node, "device_type", 1, &self);
    if (kind == TD_T_TENSOR && td_low_prelude_of(l, node, "attribute", name, 1, &self, &item)) return item;
    if (kind == TD_T_OPTIONAL) td_low_wrong(l, node, "this may be None; test 'is not None' before");
    td_low_wrong(l, node, "%s of a program has no '%.60s'", td_low_type_name(l, td_low_type(l, self)), name);
}
