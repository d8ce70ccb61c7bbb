/* Calls: whose they are, and the arguments of an op by its signature. See lower.h. */
#include "client/script/lower.h"

#include <stdio.h>

/* ---- names from outside */

bool td_low_path(td_lower *l, uint32_t node, char *out, size_t size)
{
    const td_ast_node *n = td_low_node(l, node);
    if (n->kind == TD_N_NAME) {
        snprintf(out, size, "%s", td_low_text(l, node));
        return !td_low_var(l, n->text) && strlen(td_low_text(l, node)) < size;
    }
    if (n->kind != TD_N_ATTRIBUTE || !td_low_path(l, td_low_kid(l, node, 0), out, size)) return false;
    size_t used = strlen(out);
    int more = snprintf(out + used, size - used, ".%s", td_low_text(l, node));
    return more > 0 && (size_t)more < size - used;
}

static const td_script_name usual[] = {{.name = "td", .kind = TD_SN_TENSORS},
                                       {.name = "tensord", .kind = TD_SN_TENSORS},
                                       {.name = "torch", .kind = TD_SN_TENSORS},
                                       {.name = "F", .kind = TD_SN_TENSORS, .text = "nn.functional"},
                                       {.name = "math", .kind = TD_SN_MATH}};

/* What a path begins with; *rest is what follows the dot, "" nothing. */
const td_script_name *td_low_known(const td_lower *l, const char *path, const char **rest)
{
    const td_script_names *given = &l->units[l->unit].names;
    const td_script_name *names = given->at ? given->at : usual;
    uint32_t n = given->at ? given->n : sizeof usual / sizeof *usual;
    for (uint32_t k = 0; k < n; k++) {
        size_t length = strlen(names[k].name);
        if (strncmp(path, names[k].name, length) != 0 || (path[length] && path[length] != '.')) continue;
        *rest = path + length + (path[length] == '.');
        return &names[k];
    }
    return NULL;
}

const char *td_low_below(const td_lower *l, const char *path, char *text, size_t size)
{
    const char *rest;
    const td_script_name *from = td_low_known(l, path, &rest);
    if (from && from->kind == TD_SN_OP && !*rest) return from->text;
    if (!from || from->kind != TD_SN_TENSORS) return NULL;
    snprintf(text, size, "%s%s%s", from->text ? from->text : "", from->text ? "." : "", rest);
    return text;
}

/* Of "nn.functional.relu": what names a function of tensors; NULL: what lies elsewhere. */
static const char *function_of(const char *rest)
{
    static const char *const folders[] = {"nn.functional.", "functional.", "ops.",          "special.",  "linalg.",
                                          "autograd.",      "jit.",        "nn.utils.rnn.", "nn.utils.", "utils."};
    if (strcmp(rest, "autograd.backward") == 0) return "autograd_backward";
    for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(rest, folders[i], strlen(folders[i])) == 0) rest += strlen(folders[i]);
    return strchr(rest, '.') ? NULL : rest;
}

bool td_low_dtype(td_lower *l, const char *name, uint32_t *value)
{
    static const struct {
        const char *name;
        td_dtype dtype;
    } table[] = {{"bool", TD_BOOL},       {"uint8", TD_UINT8},         {"int8", TD_INT8},
                 {"int16", TD_INT16},     {"short", TD_INT16},         {"int32", TD_INT32},
                 {"int", TD_INT32},       {"int64", TD_INT64},         {"long", TD_INT64},
                 {"float16", TD_FLOAT16}, {"half", TD_FLOAT16},        {"bfloat16", TD_BFLOAT16},
                 {"float32", TD_FLOAT32}, {"float", TD_FLOAT32},       {"float64", TD_FLOAT64},
                 {"double", TD_FLOAT64},  {"complex64", TD_COMPLEX64}, {"complex128", TD_COMPLEX128},
                 {"uint16", TD_UINT16},   {"uint32", TD_UINT32},       {"uint64", TD_UINT64}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) {
            *value = td_low_made(l, td_ir_dtype(l->e, table[i].dtype));
            return true;
        }
    return false;
}

static bool number_named(td_lower *l, const char *name, uint32_t *value)
{
    static const struct {
        const char *name;
        double v;
    } table[] = {{"pi", 3.141592653589793},
                 {"e", 2.718281828459045},
                 {"tau", 6.283185307179586},
                 {"inf", __builtin_inf()},
                 {"nan", 0}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) {
            double v = i == 4 ? __builtin_nan("") : table[i].v;
            *value = td_low_made(l, td_ir_float(l->e, v));
            return true;
        }
    return false;
}

uint32_t td_low_captured(td_lower *l, const char *name)
{
    const td_ir *ir = td_ir_now(l->e);
    for (uint32_t k = 0; k < ir->ncaptures; k++)
        if (strcmp(td_ir_chars(ir, ir->captures[k].name), name) == 0) return ir->captures[k].value;
    size_t n = strlen(name) + 1;
    char *shown = memcpy(td_low_take(l, n), name, n);
    for (char *c = shown; *c; c++)
        if (*c == '.') *c = '_';
    return td_low_made(l, td_ir_capture_new(l->e, td_low_made(l, td_type_any_tensor(l->e)), shown, name));
}

uint32_t td_low_number(td_lower *l, td_scalar s)
{
    switch (s.kind) {
    case TD_S_BOOL: return td_low_made(l, td_ir_bool(l->e, s.i));
    case TD_S_INT: return td_low_made(l, td_ir_int(l->e, s.i));
    case TD_S_FLOAT: return td_low_made(l, td_ir_float(l->e, s.re));
    default: return td_low_made(l, td_ir_complex(l->e, s.re, s.im));
    }
}

bool td_low_constant_name(td_lower *l, uint32_t node, const char *path, uint32_t *value)
{
    static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
    const char *rest;
    const td_script_name *n = td_low_known(l, path, &rest);
    td_low_at(l, node);
    if (!n) return false;
    for (unsigned k = 0; n->kind == TD_SN_TENSORS && k < sizeof formats / sizeof *formats; k++)
        if (strcmp(rest, formats[k]) == 0) return *value = td_low_made(l, td_ir_int(l->e, k)), true;
    if (n->kind == TD_SN_TENSORS && (td_low_dtype(l, rest, value) || number_named(l, rest, value))) return true;
    if (n->kind == TD_SN_MATH) return number_named(l, rest, value);
    if (*rest || n->kind < TD_SN_TENSOR) return false;
    *value = td_low_thing_value(l, node, n);
    return true;
}

/* ---- arguments by a signature: tensors, then attributes */

typedef struct call_of {
    uint32_t call, n, params, flags, *values; /* a value for each slot, or TD_IR_NONE */
    const td_op *op;
    const char *form; /* of another order of arguments; or NULL */
} call_of;

static const char *slot_name(const call_of *c, uint32_t k)
{
    return k < c->params ? c->op->params[k].name : c->op->attrs[k - c->params].name;
}

/* TD_IR_NONE: it has none of that name. */
static uint32_t find_slot(const call_of *c, const char *name)
{
    static const char *const also[][2] = {
        {"input", "x"},    {"self", "x"},     {"other", "y"},  {"index", "idx"}, {"tensors", "xs"},
        {"tensor1", "t1"}, {"tensor2", "t2"}, {"axis", "dim"}, {"axes", "dims"}, {"keepdims", "keepdim"},
        {"size", "shape"}, {"mat2", "y"},     {"vec", "y"},    {"bias", "b"},    {"weight", "w"}};
    for (uint32_t k = 0; k < c->n; k++)
        if (strcmp(slot_name(c, k), name) == 0) return k;
    for (unsigned i = 0; i < sizeof also / sizeof *also; i++)
        for (uint32_t k = 0; k < c->n && strcmp(also[i][0], name) == 0; k++)
            if (strcmp(slot_name(c, k), also[i][1]) == 0) return k;
    return TD_IR_NONE;
}

static uint32_t slot_named(td_lower *l, const call_of *c, uint32_t arg)
{
    const char *name = td_low_text(l, arg);
    uint32_t slot = find_slot(c, name);
    if (slot != TD_IR_NONE) return slot;
    td_low_wrong(l, arg, "'%s' has no argument '%.60s'; it is %s", c->op->name, name, c->op->signature);
}

/* Slots are tensors, then attributes; the arguments of a call come as the signature has them. */
static uint32_t slot_at(const call_of *c, uint32_t place)
{
    uint32_t attrs = (uint32_t)__builtin_popcount(c->op->attrs_at & ((1u << place) - 1));
    return c->op->attrs_at >> place & 1 ? c->params + attrs : place - attrs;
}

/* Of what the last argument is a list, which then may come one by one: x.view(2, 3), einsum("ij,jk", x, y). */
static td_type_kind rest_of(const call_of *c, uint32_t place)
{
    uint32_t slot = slot_at(c, place);
    if (place + 1 != c->n) return TD_T_NONE;
    if (slot < c->params) return c->op->params[slot].kind == TD_P_LIST ? TD_T_TENSOR : TD_T_NONE;
    return c->op->attrs[slot - c->params].kind == TD_A_INTS ? TD_T_INT : TD_T_NONE;
}

static uint32_t rest_as_list(td_lower *l, call_of *c, uint32_t k)
{
    uint32_t n = td_low_node(l, c->call)->n, *items = td_low_array(l, n), used = 0;
    td_type_kind of = rest_of(c, c->n - 1);
    for (; k < n && td_low_node(l, td_low_kid(l, c->call, k))->kind != TD_N_KEYWORD; k++) {
        uint32_t arg = td_low_kid(l, c->call, k), value = td_low_expr(l, arg);
        if (of == TD_T_INT && td_low_kind(l, value) == TD_T_TENSOR) value = td_low_element(l, value, of);
        items[used++] = td_low_convert(l, arg, value, td_low_plain(l, of));
    }
    c->values[slot_at(c, c->n - 1)] = td_low_list(l, c->call, used, items);
    return k;
}

/* Of the form that ATen's op has in the table, "addmm(c, x, y, beta=beta)": the slot of this place, or of this name. */
static uint32_t slot_in_form(td_lower *l, const call_of *c, uint32_t arg, uint32_t place, const char *name)
{
    const char *at = strchr(c->form, '(') + 1;
    for (uint32_t k = 0; *at; k++) {
        size_t n = strcspn(at, "=,?!)"), said = n;
        bool this = name ? strlen(name) == n && memcmp(at, name, n) == 0 : k == place && at[n] != '=';
        if (at[n] == '=') at += n + 1, said = strcspn(at, ",?!)");
        for (uint32_t slot = 0; this && slot < c->n; slot++)
            if (strlen(slot_name(c, slot)) == said && memcmp(slot_name(c, slot), at, said) == 0) return slot;
        at += strcspn(at, ",)");
        if (*at != ',') break;
        at += 2;
    }
    td_low_wrong(l, arg, "'%s' has no such argument here; it is %s", c->op->name, c->op->signature);
}

static uint32_t slot_of(td_lower *l, const call_of *c, uint32_t arg, uint32_t place, bool named)
{
    if (c->form) return slot_in_form(l, c, arg, place, named ? td_low_text(l, arg) : NULL);
    return named ? slot_named(l, c, arg) : slot_at(c, place);
}

static void gather(td_lower *l, call_of *c, uint32_t self)
{
    uint32_t place = 0, count = td_low_node(l, c->call)->n;
    for (uint32_t k = 0; k < c->n; k++) c->values[k] = TD_IR_NONE;
    if (self != TD_IR_NONE) c->values[slot_at(c, place++)] = self;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t arg = td_low_kid(l, c->call, k);
        bool named = td_low_node(l, arg)->kind == TD_N_KEYWORD;
        if (!named && place >= c->n)
            td_low_wrong(l, arg, "'%s' takes %u arguments: %s", c->op->name, c->n, c->op->signature);
        bool several = !named && k + 1 < count && td_low_node(l, td_low_kid(l, c->call, k + 1))->kind != TD_N_KEYWORD;
        if (several && !c->form && rest_of(c, place) != TD_T_NONE) {
            k = rest_as_list(l, c, k) - 1;
            continue;
        }
        uint32_t at = slot_of(l, c, arg, named ? place : place++, named);
        if (c->values[at] != TD_IR_NONE) td_low_wrong(l, arg, "this argument is given twice");
        c->values[at] = td_low_or_fail(l, td_low_expr(l, named ? td_low_kid(l, arg, 0) : arg));
    }
}

static bool is_scalar(td_type_kind kind)
{
    return kind == TD_T_INT || kind == TD_T_FLOAT || kind == TD_T_BOOL || kind == TD_T_COMPLEX;
}

static _Noreturn void wrong_argument(td_lower *l, const call_of *c, uint32_t k, const char *want)
{
    td_low_wrong(l, c->call, "'%s' wants %s for '%s', not %s", c->op->name, want, slot_name(c, k),
                 td_low_type_name(l, td_low_type(l, c->values[k])));
}

/* [a, b] that nobody has changed, as a list of what may be None: another list, which an op only reads. */
static bool as_optional_list(td_lower *l, uint32_t *value, uint32_t type)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = ir->values[*value].def, n;
    if (def & (TD_IR_PARAM | TD_IR_CAPTURED) || ir->nodes[def].op != TD_PRIM_LISTCONSTRUCT) return false;
    if (td_ir_uses(l->e, *value) || td_type_fits(ir, ir->values[*value].type, type)) return false;
    uint32_t *items = td_low_array(l, n = ir->nodes[def].nin);
    for (uint32_t k = 0; k < n; k++) items[k] = td_ir_in(ir, def, k);
    *value = td_low_op(l, TD_PRIM_LISTCONSTRUCT, n, items, type);
    return true;
}

/* Of tensors; one alone is a list of one where several may come one by one. */
static void check_list(td_lower *l, call_of *c, uint32_t k)
{
    uint32_t *v = &c->values[k], type = td_low_plain(l, TD_T_TENSOR);
    td_type_kind have = td_low_kind(l, *v);
    if (c->op->params[k].kind == TD_P_OPTIONAL_LIST) type = td_low_made(l, td_type_optional(l->e, type));
    if (have == TD_T_TENSOR && slot_at(c, c->n - 1) == k) *v = td_low_list(l, c->call, 1, v);
    else if (have != TD_T_LIST && have != TD_T_TUPLE) wrong_argument(l, c, k, "a list of Tensors");
    type = td_low_made(l, td_type_list(l->e, type));
    if (c->op->params[k].kind != TD_P_OPTIONAL_LIST || !as_optional_list(l, v, type))
        *v = td_low_convert(l, c->call, *v, type);
}

static void check_param(td_lower *l, call_of *c, uint32_t k)
{
    unsigned kind = c->op->params[k].kind;
    bool optional = kind == TD_P_OPTIONAL;
    if (c->values[k] == TD_IR_NONE) {
        if (!optional)
            td_low_wrong(l, c->call, "'%s' wants '%s': it is %s", c->op->name, slot_name(c, k), c->op->signature);
        c->values[k] = td_low_made(l, td_ir_none(l->e));
    }
    td_type_kind have = td_low_kind(l, c->values[k]);
    if (kind == TD_P_LIST || kind == TD_P_OPTIONAL_LIST) {
        check_list(l, c, k);
        return;
    }
    if (have == TD_T_TENSOR || (kind == TD_P_NUMBER && is_scalar(have))) return;
    if (optional && (have == TD_T_NONE || have == TD_T_OPTIONAL)) return;
    wrong_argument(l, c, k, kind == TD_P_NUMBER ? "a Tensor or a number" : "a Tensor");
}

static uint32_t default_of(td_lower *l, const td_attr_def *a)
{
    if (!a->has_default || a->value.kind == TD_A_NONE) return td_low_made(l, td_ir_none(l->e));
    if (a->kind == TD_A_INT) return td_low_made(l, td_ir_int(l->e, a->value.i));
    if (a->kind == TD_A_FLOAT) return td_low_made(l, td_ir_float(l->e, a->value.f));
    if (a->kind == TD_A_BOOL) return td_low_made(l, td_ir_bool(l->e, a->value.i));
    if (a->kind == TD_A_SCALAR) return td_low_number(l, a->value.s);
    if (a->kind == TD_A_DTYPE) return td_low_made(l, td_ir_dtype(l->e, (td_dtype)a->value.i));
    uint32_t n = a->value.count, *items = td_low_array(l, n);
    for (uint32_t k = 0; k < n; k++) items[k] = td_low_made(l, td_ir_int(l->e, a->ints[k]));
    return td_low_op(l, TD_PRIM_LISTCONSTRUCT, n, items, td_low_made(l, td_type_list(l->e, td_low_plain(l, TD_T_INT))));
}

static void check_attr(td_lower *l, call_of *c, uint32_t k)
{
    static const uint8_t kinds[] = {[TD_A_INT] = TD_T_INT,
                                    [TD_A_FLOAT] = TD_T_FLOAT,
                                    [TD_A_BOOL] = TD_T_BOOL,
                                    [TD_A_DTYPE] = TD_T_DTYPE,
                                    [TD_A_TEXT] = TD_T_STR};
    const td_attr_def *a = &c->op->attrs[k - c->params];
    if (c->values[k] == TD_IR_NONE) {
        if (!a->has_default && a->kind == TD_A_DTYPE && c->op->flags & TD_OF_CREATION)
            c->values[k] = td_low_made(l, td_ir_dtype(l->e, TD_FLOAT32));
        else if (!a->has_default && !a->optional)
            td_low_wrong(l, c->call, "'%s' wants '%s': it is %s", c->op->name, a->name, c->op->signature);
        else c->values[k] = default_of(l, a);
        return;
    }
    uint32_t *v = &c->values[k], type;
    td_type_kind have = td_low_kind(l, *v);
    if (have == TD_T_NONE && a->optional) return;
    if (a->kind == TD_A_SCALAR) {
        if (!is_scalar(have)) wrong_argument(l, c, k, "a number");
        return;
    }
    bool whole = a->kind == TD_A_INT || a->kind == TD_A_INTS;
    if (have == TD_T_TENSOR && (whole || a->kind == TD_A_FLOAT)) {
        *v = td_low_element(l, *v, whole ? TD_T_INT : TD_T_FLOAT);
        have = td_low_kind(l, *v);
    }
    if (a->kind == TD_A_INTS) {
        type = td_low_made(l, td_type_list(l->e, td_low_plain(l, TD_T_INT)));
        if (have == TD_T_INT) *v = td_low_list(l, c->call, 1, v);
    } else {
        type = td_low_plain(l, (td_type_kind)kinds[a->kind]);
    }
    if (a->optional) type = td_low_made(l, td_type_optional(l->e, type));
    *v = td_low_convert(l, c->call, *v, type);
}

/* Several results are a named tuple; of some ops only the first is for programs. */
static uint32_t results(td_lower *l, const td_op *op, const call_of *c)
{
    static const char *const first_only[] = {"layer_norm", "batch_norm", "dropout",
                                             "nll_loss",   "max_pool2d", "adaptive_max_pool2d"};
    uint32_t tensor = td_low_made(l, td_type_any_tensor(l->e)), types[8], n = op->nouts, *in = td_low_array(l, c->n);
    for (uint32_t k = 0; k < c->n; k++) in[k] = c->values[slot_at(c, k)];
    if (n == 1)
        return td_low_op(l, TD_IR_TD | c->flags | op->id, c->n, in,
                         op->outs[0].list ? td_low_made(l, td_type_list(l->e, tensor)) : tensor);
    for (uint32_t k = 0; k < n && k < 8; k++) types[k] = tensor;
    uint32_t node = td_low_made(l, td_ir_op(l->e, TD_IR_TD | c->flags | op->id, c->n, in, n, types));
    if (op->flags & TD_OF_RANDOM) td_ir_rng(l->e, node, l->rng++);
    bool pair = td_low_is_code(l) && strcmp(op->name, "adaptive_max_pool2d") == 0; /* ATen's gives both */
    pair |= c->form && strstr(c->form, "_with_indices(");
    for (unsigned i = 0; !pair && i < sizeof first_only / sizeof *first_only; i++)
        if (strcmp(first_only[i], op->name) == 0) return td_low_made(l, td_ir_result(l->e, node));
    for (uint32_t k = 0; k < n && k < 8; k++) types[k] = td_ir_out(td_ir_now(l->e), node, k);
    return n ? td_low_results(l, op, types) : td_low_made(l, td_ir_none(l->e));
}

bool td_low_row_takes(td_lower *l, uint32_t call, const td_op *op, uint32_t self)
{
    call_of c = {call, (uint32_t)op->nparams + op->nattrs, op->nparams, 0, NULL, op, NULL};
    uint32_t place = self != TD_IR_NONE, count = td_low_node(l, call)->n, named = 0, wanted = 0;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t arg = td_low_kid(l, call, k);
        if (td_low_node(l, arg)->kind != TD_N_KEYWORD) place++;
        else if (find_slot(&c, td_low_text(l, arg)) == TD_IR_NONE) return false;
        else named++;
    }
    if (place > c.n && rest_of(&c, c.n - 1) == TD_T_NONE) return false;
    for (unsigned k = 0; k < op->nparams; k++) wanted += op->params[k].kind != TD_P_OPTIONAL;
    return place + named >= wanted;
}

uint32_t td_low_op_call(td_lower *l, uint32_t call, const td_op *op, uint32_t self, uint32_t flags)
{
    return td_low_op_call_as(l, call, op, self, flags, NULL);
}

uint32_t td_low_op_call_as(td_lower *l, uint32_t call, const td_op *op, uint32_t self, uint32_t flags, const char *form)
{
    call_of c = {call, (uint32_t)op->nparams + op->nattrs, op->nparams, flags, NULL, op, form};
    c.values = td_low_array(l, c.n);
    gather(l, &c, self);
    td_low_at(l, call);
    for (uint32_t k = 0; k < c.n; k++) {
        if (k < c.params) check_param(l, &c, k);
        else check_attr(l, &c, k);
    }
    return results(l, op, &c);
}

/* ---- the call */

static _Noreturn void no_call(td_lower *l, uint32_t function, const char *path)
{
    const char *last = strrchr(path, '.');
    const char *name = last ? last + 1 : path;
    char below[160];
    if (td_op_by_name(name) || (last && !td_low_known(l, path, &(const char *){NULL}) && td_low_has_maker(name)))
        td_low_refuse(l, TD_E_UNSUPPORTED, function, "a program cannot call '%.60s'; use td.%.40s", path, name);
    const char *rest, *ours = last ? td_low_below(l, path, below, sizeof below) : NULL;
    const char *near = ours ? td_low_near_op(l, name) : last ? "" : td_low_near_name(l, name);
    if (ours && (td_low_known(l, path, &rest)->kind == TD_SN_TENSORS) && *near)
        td_low_refuse(l, TD_E_UNSUPPORTED, function, "tensord has no '%.60s' that a program can call%s", ours, near);
    td_low_refuse(l, TD_E_UNSUPPORTED, function,
                  "a program cannot call '%.60s'; write what it does, or give its result as an argument%s", path, near);
}

static const td_script_name *forward_of(td_lower *l, uint32_t node, const td_script_name *module)
{
    const td_script_name *forward = td_low_thing_of(l, module, "forward");
    if (forward) return forward;
    td_low_wrong(l, node, "the module '%.60s' has no forward() that a program could call", module->name);
}

/* A function or a module from outside. */
static uint32_t call_thing(td_lower *l, uint32_t node, const td_script_name *t)
{
    uint32_t f = td_low_kid(l, node, 0);
    if (t->kind == TD_SN_OBJECT) t = forward_of(l, f, t);
    if (t->kind == TD_SN_REFUSED) td_low_refuse(l, TD_E_UNSUPPORTED, f, "%s", t->text);
    if (t->alone && td_low_node(l, node)->n > 1)
        td_low_refuse(l, TD_E_UNSUPPORTED, td_low_kid(l, node, 1), "%s", t->alone);
    uint32_t function = td_low_find_function(l, t->unit, t->text);
    if (!function) td_low_wrong(l, f, "there is no source of '%.60s'", t->name);
    return td_low_function_call(l, node, function, t->object, TD_IR_NONE);
}

/* relu(x) is the row, relu(x, inplace=True) the prelude's. */
bool td_low_is_row(td_lower *l, uint32_t call, const char *name, uint32_t self)
{
    const td_op *op = td_op_by_name(name);
    if (!op || op->nparams != 1 || op->params[0].kind == TD_P_LIST ||
        td_low_node(l, call)->n != 1u + (self == TD_IR_NONE))
        return false;
    for (unsigned k = 0; k < op->nattrs; k++)
        if (!op->attrs[k].has_default) return false;
    return td_low_node(l, td_low_kid(l, call, 1))->kind != TD_N_KEYWORD;
}

/* A function of tensord: of the prelude, one that makes tensors, or a row of the op table. */
static bool call_named(td_lower *l, uint32_t node, const char *name, bool rows, uint32_t *value)
{
    rows |= td_low_is_row(l, node, name, TD_IR_NONE);
    uint32_t function = rows ? 0 : td_low_find_prelude(l, name);
    if (function && !td_low_takes(l, node, function, TD_IR_NONE) && td_low_aten_takes(l, node, name, TD_IR_NONE))
        return td_low_aten_call(l, node, name, TD_IR_NONE, value);
    if (function) return *value = td_low_function_call(l, node, function, TD_IR_NONE, TD_IR_NONE), true;
    if (!rows && td_low_maker(l, node, name, value)) return true;
    const td_op *op = td_op_by_name(name);
    if (op && !rows && !td_low_row_takes(l, node, op, TD_IR_NONE) && td_low_aten_takes(l, node, name, TD_IR_NONE))
        return td_low_aten_call(l, node, name, TD_IR_NONE, value);
    return op && (*value = td_low_op_call(l, node, op, TD_IR_NONE, 0), true);
}

/* Whose order of arguments is another in nn.functional. */
static bool is_by_aten(const char *name)
{
    static const char *const names[] = {"batch_norm", "embedding", "instance_norm"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(names[k], name) == 0) return true;
    return false;
}

/* What only ATen's list has: PyTorch's functions take the same, below "linalg." by names that begin with linalg_. */
static bool call_aten(td_lower *l, uint32_t node, const char *rest, uint32_t *value)
{
    static const char *const below[] = {"linalg.", "fft.", "special."};
    const char *name = function_of(rest);
    char full[64];
    for (size_t k = 0; k < sizeof below / sizeof *below; k++) {
        size_t n = strlen(below[k]);
        if (strncmp(rest, below[k], n) != 0) continue;
        snprintf(full, sizeof full, "%.*s_%.48s", (int)n - 1, below[k], rest + n);
        if (td_low_aten_call(l, node, full, TD_IR_NONE, value)) return true;
    }
    if (!name || *name == '_') return false;
    return td_low_aten_call(l, node, name, TD_IR_NONE, value);
}

/* linalg_NAME and functional_NAME of the prelude, where others are meant than by the name alone. */
static bool call_own(td_lower *l, uint32_t node, const char *rest, uint32_t *value)
{
    static const char *const own[][2] = {
        {"linalg.", "linalg_"}, {"nn.functional.", "functional_"}, {"functional.", "functional_"}};
    char full[64];
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
        size_t n = strlen(own[k][0]);
        if (strncmp(rest, own[k][0], n) != 0) continue;
        snprintf(full, sizeof full, "%s%.48s", own[k][1], rest + n);
        uint32_t function = td_low_find_prelude(l, full);
        if (function) return *value = td_low_function_call(l, node, function, TD_IR_NONE, TD_IR_NONE), true;
    }
    return false;
}

/* Of "nn.functional.relu", "linalg.svd". */
static bool call_below(td_lower *l, uint32_t node, const char *rest, bool rows, uint32_t *value)
{
    const char *name = function_of(rest);
    char text[64];
    if (call_own(l, node, rest, value)) return true;
    if (!rows && is_by_aten(rest) && call_aten(l, node, rest, value)) return true;
    if (name && call_named(l, node, name, rows, value)) return true;
    if (rows) return false;
    if (call_aten(l, node, rest, value)) return true;
    name = name ? td_low_usual_name(name, text, sizeof text) : NULL;
    return name && (call_named(l, node, name, false, value) || call_aten(l, node, name, value));
}

/* What is called by a name alone; false: it is something else. */
static bool call_name(td_lower *l, uint32_t node, uint32_t f, uint32_t *value)
{
    if (td_low_var(l, td_low_node(l, f)->text)) return false;
    /* in aten.py "len" is Python's, beside a function of that name for archives */
    if (l->unit == l->aten && td_low_builtin(l, node, td_low_text(l, f), value)) return true;
    uint32_t function = td_low_find_function(l, l->unit, td_low_text(l, f));
    if (function) return *value = td_low_function_call(l, node, function, TD_IR_NONE, TD_IR_NONE), true;
    bool ordered = strcmp(td_low_text(l, f), "OrderedDict") == 0; /* as each dict is */
    return td_low_builtin(l, node, ordered ? "dict" : td_low_text(l, f), value);
}

/* What runs in the background elsewhere: a program finds by itself what may run at once. */
static bool is_fork(const char *name)
{
    return strcmp(name, "jit.fork") == 0 || strcmp(name, "jit._fork") == 0;
}

uint32_t td_low_call(td_lower *l, uint32_t call)
{
    uint32_t node = td_low_spread(l, call);
    uint32_t f = td_low_kid(l, node, 0), value, method;
    const td_ast_node *n = td_low_node(l, f);
    char path[160];
    td_var *v = n->kind == TD_N_NAME ? td_low_var(l, n->text) : NULL;
    if (v && v->state == TD_VAR_SET && (method = td_low_own_method(l, v->value, "__call__")))
        return td_low_own_call(l, node, method, v->value);
    if (v && v->state == TD_VAR_FUNCTION) return td_low_inline(l, node, v->value);
    if (td_low_is_code(l) && td_low_code_call(l, node, &value)) return value;
    const td_script_name *thing = td_low_thing(l, node);
    if (thing) return td_low_thing_value(l, node, thing); /* getattr() */
    thing = td_low_thing(l, f);
    if (thing && thing->kind == TD_SN_OP && call_below(l, node, thing->text, false, &value)) return value;
    if (thing && thing->kind == TD_SN_NAMED) return td_low_named_call(l, node, td_low_named_class(l, thing));
    if (thing && thing->kind > TD_SN_OP && thing->kind != TD_SN_TYPE) return call_thing(l, node, thing);
    if (n->kind == TD_N_NAME && strcmp(td_low_text(l, f), "hasattr") == 0 && td_low_truth(l, node) != TD_SOMETIMES)
        return td_low_test(l, node);
    if (n->kind == TD_N_NAME && call_name(l, node, f, &value)) return value;
    if (!td_low_path(l, f, path, sizeof path)) {
        const td_script_name *of = n->kind == TD_N_ATTRIBUTE ? td_low_thing(l, td_low_kid(l, f, 0)) : NULL;
        if (of && of->kind == TD_SN_OBJECT)
            td_low_wrong(l, f, "'%.60s' has no '%.60s' that a program could call", of->name, td_low_text(l, f));
        if (n->kind == TD_N_ATTRIBUTE)
            return td_low_method(l, node, td_low_expr(l, td_low_kid(l, f, 0)), td_low_text(l, f));
        td_low_wrong(l, f, "a program cannot call this; it is no function");
    }
    const char *rest;
    const td_script_name *from = td_low_known(l, path, &rest);
    char below[160];
    if (from && from->kind == TD_SN_TENSORS && from->text) {
        snprintf(below, sizeof below, "%s.%s", from->text, rest);
        rest = below;
    }
    if (from && from->kind == TD_SN_MATH && td_low_math(l, node, rest, &value)) return value;
    if (from && !*rest && from->kind == TD_SN_OP && call_below(l, node, from->text, false, &value)) return value;
    if (from && !*rest && (from->kind == TD_SN_FUNCTION || from->kind == TD_SN_REFUSED))
        return call_thing(l, node, from);
    uint32_t out, bare = from && from->kind == TD_SN_TENSORS && !l->blame ? td_low_out_of(l, node, &out) : node;
    if (bare != node) {
        uint32_t in[2] = {td_low_expr(l, out), td_low_call(l, bare)};
        return td_low_prelude(l, node, "out_is", 2, in);
    }
    bool rows = from && (from->kind == TD_SN_OPS || (from->kind == TD_SN_TENSORS && strncmp(rest, "ops.", 4) == 0));
    if ((rows || (from && from->kind == TD_SN_TENSORS)) && call_below(l, node, rest, rows, &value)) return value;
    if (td_low_truth(l, node) != TD_SOMETIMES) return td_low_test(l, node); /* td.jit.is_scripting() */
    if (n->kind == TD_N_ATTRIBUTE && strcmp(td_low_text(l, f), "isinstance") == 0 && from &&
        from->kind == TD_SN_TENSORS && td_low_node(l, node)->n == 3)
        return td_low_isinstance(l, node);
    const char *ours = td_low_below(l, path, below, sizeof below);
    if (ours && strcmp(ours, "jit.annotate") == 0) return td_low_annotate(l, node);
    if (ours && is_fork(ours) && td_low_node(l, node)->n > 1) return td_low_call(l, td_low_inner_call(l, node));
    if (from && from->kind == TD_SN_TENSOR && *rest)
        return td_low_method(l, node, td_low_expr(l, td_low_kid(l, f, 0)), td_low_text(l, f));
    no_call(l, f, path);
}

uint32_t td_low_attribute(td_lower *l, uint32_t node)
{
    char path[160];
    uint32_t value, base = td_low_kid(l, node, 0);
    const td_script_name *thing = td_low_thing(l, node);
    if (thing) return td_low_thing_value(l, node, thing);
    thing = td_low_thing(l, base);
    if (thing && thing->kind == TD_SN_OBJECT)
        td_low_wrong(l, node, "'%.60s' has no '%.60s' that a program could use", thing->name, td_low_text(l, node));
    if (!td_low_path(l, node, path, sizeof path)) return td_low_attribute_of(l, node, td_low_expr(l, base));
    if (td_low_constant_name(l, node, path, &value)) return value;
    *strrchr(path, '.') = 0;
    if (td_low_constant_name(l, base, path, &value)) return td_low_attribute_of(l, node, value);
    const char *rest;
    const td_script_name *from = td_low_known(l, path, &rest);
    if (from && (from->kind == TD_SN_TENSOR || from->kind == TD_SN_TUPLE))
        return td_low_attribute_of(l, node, td_low_expr(l, base));
    td_low_wrong(l, node, "a program does not know '%.60s.%.60s'", path, td_low_text(l, node));
}
