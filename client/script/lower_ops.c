/* Which form of a prim:: op takes what is there, and operators over numbers, texts, lists and tensors. See lower.h. */
#include "client/script/lower.h"

#include <stdio.h>

/* ---- types as codes (proto/gen/prims.py): what of an op's signature a type fits */

typedef struct bound {
    uint32_t type[2]; /* t, u */
    unsigned cost;    /* numbers that are converted */
} bound;

static td_type_kind plain_code(char c)
{
    switch (c) {
    case 'i': return TD_T_INT;
    case 'f': return TD_T_FLOAT;
    case 'b': return TD_T_BOOL;
    case 'c': return TD_T_COMPLEX;
    case 's': return TD_T_STR;
    case 'v': return TD_T_DEVICE;
    case 'd': return TD_T_DTYPE;
    case 'T': return TD_T_TENSOR;
    default: return TD_T_KINDS;
    }
}

static const char *skip_code(const char *c)
{
    if (*c == '?' || *c == '[') return skip_code(c + 1);
    if (*c == '{') return skip_code(skip_code(c + 1));
    if (*c == '(') {
        for (c++; *c != ')';) c = skip_code(c);
    }
    return c + 1;
}

static bool bind_letter(td_lower *l, bound *b, unsigned k, uint32_t type)
{
    if (b->type[k] == TD_IR_NONE) b->type[k] = type;
    return b->type[k] == type || td_type_fits(td_ir_now(l->e), type, b->type[k]);
}

/* *c moves behind the code. `top`: a number may be converted. */
static bool fits_code(td_lower *l, const char **c, uint32_t type, bound *b, bool top)
{
    const td_ir *ir = td_ir_now(l->e);
    const char *at = *c, *inner = at + 1;
    td_type_kind kind = td_type_kind_of(ir, type), want = plain_code(*at);
    *c = skip_code(at);
    if (*at == '*') return true;
    if (*at == 't' || *at == 'u') return bind_letter(l, b, *at == 'u', type);
    if (*at == '?')
        return kind == TD_T_NONE ||
               fits_code(l, &inner, kind == TD_T_OPTIONAL ? td_low_part(l, type, 0) : type, b, top);
    if (*at == '[') return kind == TD_T_LIST && fits_code(l, &inner, td_low_part(l, type, 0), b, false);
    if (*at == '{')
        return kind == TD_T_DICT && fits_code(l, &inner, td_low_part(l, type, 0), b, false) &&
               fits_code(l, &inner, td_low_part(l, type, 1), b, false);
    if (want == kind) return true;
    static const uint8_t rank[TD_T_KINDS] = {[TD_T_BOOL] = 1, [TD_T_INT] = 2, [TD_T_FLOAT] = 3, [TD_T_COMPLEX] = 4};
    if (!top || want == TD_T_KINDS || !rank[kind] || rank[want] <= rank[kind]) return false;
    b->cost += rank[want] - rank[kind];
    return true;
}

static bool fits(td_lower *l, const td_prim *p, uint32_t n, const uint32_t *in, bound *b)
{
    const char *c = p->codes;
    *b = (bound){{TD_IR_NONE, TD_IR_NONE}, 0};
    for (uint32_t k = 0; k < n; k++)
        if (*c == '>' || !fits_code(l, &c, td_low_type(l, in[k]), b, true)) return false;
    return *c == '>';
}

static uint32_t type_of_code(td_lower *l, const char **c, const bound *b)
{
    char code = *(*c)++;
    uint32_t parts[2];
    if (code == 't' || code == 'u') return b->type[code == 'u'];
    if (code == '[') return td_low_made(l, td_type_list(l->e, type_of_code(l, c, b)));
    if (code == '?') return td_low_made(l, td_type_optional(l->e, type_of_code(l, c, b)));
    if (code != '(' && code != '{') return td_low_plain(l, plain_code(code));
    parts[0] = type_of_code(l, c, b), parts[1] = type_of_code(l, c, b);
    *c += code == '(';
    return td_low_made(l, code == '{' ? td_type_dict(l->e, parts[0], parts[1]) : td_type_tuple(l->e, 2, parts));
}

static const td_prim *form_of(td_lower *l, const char *name, uint32_t n, const uint32_t *in, bound *best)
{
    const td_prim *found = NULL;
    size_t length = strlen(name);
    for (unsigned id = 0; id < TD_PRIM_COUNT; id++) {
        const td_prim *p = td_prim_by_id(id);
        bound b;
        if (!p || !p->codes[0] || strncmp(p->name, name, length) != 0) continue;
        if (p->name[length] && (p->name[length] != '.' || strchr(name, '.'))) continue;
        if (fits(l, p, n, in, &b) && (!found || b.cost < best->cost)) found = p, *best = b;
    }
    return found;
}

/* A number becomes what the code wants. */
static uint32_t as_code(td_lower *l, const char *c, uint32_t value)
{
    td_type_kind kind = td_low_kind(l, value), want = plain_code(*c == '?' ? c[1] : *c);
    if (want == TD_T_KINDS || want == kind || kind == TD_T_NONE || kind == TD_T_OPTIONAL) return value;
    return td_low_convert(l, 0, value, td_low_plain(l, want));
}

bool td_low_has_prim(td_lower *l, const char *name, uint32_t n, const uint32_t *in, uint32_t *result)
{
    bound b = {0};
    const td_prim *p = form_of(l, name, n, in, &b);
    if (!p) return false;
    uint32_t *args = td_low_array(l, n);
    const char *c = p->codes;
    for (uint32_t k = 0; k < n; k++, c = skip_code(c)) args[k] = as_code(l, c, in[k]);
    c++;
    if (*c) *result = td_low_op(l, TD_IR_PRIM | p->id, n, args, type_of_code(l, &c, &b));
    else {
        td_low_do(l, TD_IR_PRIM | p->id, n, args);
        *result = td_low_made(l, td_ir_none(l->e));
    }
    return true;
}

static const char *const plural[TD_T_KINDS] = {[TD_T_INT] = "ints",
                                               [TD_T_FLOAT] = "floats",
                                               [TD_T_BOOL] = "bools",
                                               [TD_T_STR] = "strs",
                                               [TD_T_TENSOR] = "Tensors"};

/* "a list of ints" */
static const char *said(td_lower *l, uint32_t value, char text[64])
{
    uint32_t type = td_low_type(l, value);
    td_type_kind kind = td_low_kind(l, value);
    bool dict = kind == TD_T_DICT, holds = dict || kind == TD_T_LIST;
    const char *items = holds ? plural[td_type_kind_of(td_ir_now(l->e), td_low_part(l, type, dict))] : NULL;
    snprintf(text, 64, "%s%s%s", td_low_type_name(l, type), !items ? "" : dict ? " with " : " of ", items ? items : "");
    return text;
}

static _Noreturn void no_item(td_lower *l, uint32_t node, uint32_t from, uint32_t key)
{
    char text[64];
    td_type_kind kind = td_low_kind(l, from);
    const char *keys =
        kind == TD_T_DICT ? plural[td_type_kind_of(td_ir_now(l->e), td_low_part(l, td_low_type(l, from), 0))] : NULL;
    if (keys) td_low_wrong(l, node, "the keys of this dict are %s, and this is %s", keys, said(l, key, text));
    if (kind == TD_T_LIST || kind == TD_T_STR)
        td_low_wrong(l, node, "the index of %s is an int, and this is %s", td_low_type_name(l, td_low_type(l, from)),
                     said(l, key, text));
    td_low_wrong(l, node, "%s has no items", said(l, from, text));
}

static _Noreturn void no_place(td_lower *l, uint32_t node, uint32_t into, uint32_t key, uint32_t item)
{
    char a[64], b[64];
    td_type_kind kind = td_low_kind(l, into);
    if (kind == TD_T_TUPLE) td_low_wrong(l, node, "a tuple stays what it is; make another one, or take a list");
    if (kind != TD_T_LIST && kind != TD_T_DICT) td_low_wrong(l, node, "no item of %s can be set", said(l, into, a));
    if (kind == TD_T_LIST && td_low_kind(l, key) != TD_T_INT) no_item(l, node, into, key);
    td_low_wrong(l, node, "%s takes no item that is %s", said(l, into, a), said(l, item, b));
}

/* No form of prim::NAME takes these: in words, by what was written. */
static _Noreturn void no_form(td_lower *l, uint32_t node, const char *name, uint32_t n, const uint32_t *in)
{
    static const char *const signs[][2] = {{"contains", "in"}, {"neg", "-"}, {"invert", "~"}};
    char a[64], b[64];
    for (unsigned k = 0; k < sizeof signs / sizeof *signs; k++)
        if (strcmp(name, signs[k][0]) == 0) name = signs[k][1];
    for (uint32_t k = 0; k < n; k++)
        if (td_low_kind(l, in[k]) == TD_T_OPTIONAL)
            td_low_wrong(l, node, "'%s' cannot take what may be None; test 'is not None' before", name);
    if (strcmp(name, "getitem") == 0) no_item(l, node, in[0], in[1]);
    if (strcmp(name, "setitem") == 0) no_place(l, node, in[0], in[1], in[2]);
    if (n == 0) td_low_wrong(l, node, "'%s' wants arguments", name);
    if (n == 1) td_low_wrong(l, node, "'%s' cannot take %s", name, said(l, in[0], a));
    td_low_wrong(l, node, "'%s' cannot take %s and %s", name, said(l, in[0], a), said(l, in[1], b));
}

uint32_t td_low_prim(td_lower *l, uint32_t node, const char *name, uint32_t n, const uint32_t *in)
{
    uint32_t result;
    td_low_at(l, node);
    if (td_low_has_prim(l, name, n, in, &result)) return result;
    no_form(l, node, name, n, in);
}

/* ---- operators */

typedef struct operator
{
    const char *text, *prim, *tensor;
}
operator_names;

static const operator_names operators[] = {
    [TD_O_ADD] = {"+", "add", "add"},
    [TD_O_SUB] = {"-", "sub", "sub"},
    [TD_O_MUL] = {"*", "mul", "mul"},
    [TD_O_MATMUL] = {"@", NULL, "matmul"},
    [TD_O_DIV] = {"/", "truediv", "div"},
    [TD_O_FLOOR] = {"//", "floordiv", "floor_divide"},
    [TD_O_MOD] = {"%", "mod", "remainder"},
    [TD_O_POWER] = {"**", "pow", "pow"},
    [TD_O_LEFT] = {"<<", "lshift", "bitwise_left_shift"},
    [TD_O_RIGHT] = {">>", "rshift", "bitwise_right_shift"},
    [TD_O_BIT_AND] = {"&", "and", "bitwise_and"},
    [TD_O_BIT_OR] = {"|", "or", "bitwise_or"},
    [TD_O_BIT_XOR] = {"^", "xor", "bitwise_xor"},
    [TD_O_EQ] = {"==", "eq", "eq"},
    [TD_O_NE] = {"!=", "ne", "ne"},
    [TD_O_LT] = {"<", "lt", "lt"},
    [TD_O_LE] = {"<=", "le", "le"},
    [TD_O_GT] = {">", "gt", "gt"},
    [TD_O_GE] = {">=", "ge", "ge"},
};

static bool is_number(td_type_kind kind)
{
    return kind == TD_T_INT || kind == TD_T_FLOAT || kind == TD_T_BOOL || kind == TD_T_COMPLEX;
}

/* One row with its attributes at their defaults. */
static uint32_t tensor_op(td_lower *l, const td_op *op, uint32_t flags, uint32_t n, const uint32_t *in)
{
    uint32_t args[TD_MAX_PARAMS + TD_MAX_ATTRS], used = 0;
    for (uint32_t k = 0; k < n; k++) args[used++] = in[k];
    for (unsigned k = 0; k < op->nattrs; k++) {
        const td_attr_def *a = &op->attrs[k];
        args[used++] = td_low_made(l, a->value.kind == TD_A_SCALAR ? td_ir_int(l->e, a->value.s.i) : td_ir_none(l->e));
    }
    return td_low_op(l, TD_IR_TD | flags | op->id, used, args, td_low_made(l, td_type_any_tensor(l->e)));
}

uint32_t td_low_tensor_op(td_lower *l, uint32_t node, const char *name, uint32_t n, const uint32_t *in)
{
    const td_op *op = td_op_by_name(name);
    if (!op || op->nparams != n) td_low_wrong(l, node, "there is no op '%s' of tensors", name);
    td_low_at(l, node);
    return tensor_op(l, op, 0, n, in);
}

static void no_operator(td_lower *l, uint32_t node, const char *text, uint32_t a, uint32_t b)
{
    bool none = td_low_kind(l, a) == TD_T_OPTIONAL || td_low_kind(l, b) == TD_T_OPTIONAL;
    td_low_wrong(l, node, "'%s' cannot take %s and %s%s", text, td_low_type_name(l, td_low_type(l, a)),
                 td_low_type_name(l, td_low_type(l, b)), none ? "; test 'is not None' before" : "");
}

static uint32_t join_tuples(td_lower *l, uint32_t a, uint32_t b)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t na = td_type_parts(ir, td_low_type(l, a)), nb = td_type_parts(ir, td_low_type(l, b));
    uint32_t *items = td_low_array(l, na + nb);
    for (uint32_t k = 0; k < na; k++) items[k] = td_low_item(l, a, k);
    for (uint32_t k = 0; k < nb; k++) items[na + k] = td_low_item(l, b, k);
    return td_low_tuple(l, na + nb, items);
}

/* (0,) * 3, of a number that is written here. */
static bool repeated(td_lower *l, uint32_t tuple, uint32_t times, uint32_t *result)
{
    enum { MOST = 4096 };
    td_literal v;
    uint32_t n = td_type_parts(td_ir_now(l->e), td_low_type(l, tuple));
    if (!td_low_literal(l, times, &v) || v.kind != TD_L_INT || v.i > MOST || n * (v.i > 0 ? v.i : 0) > MOST)
        return false;
    uint32_t count = v.i > 0 ? (uint32_t)v.i : 0, *items = td_low_array(l, n * count + 1);
    for (uint32_t k = 0; k < n * count; k++) items[k] = td_low_item(l, tuple, k % n);
    return *result = td_low_tuple(l, n * count, items), true;
}

/* Is a value the result of this row of the op table? */
bool td_low_is_made_by(td_lower *l, uint32_t value, const char *op)
{
    const td_ir *ir = td_ir_now(l->e);
    uint32_t def = ir->values[value].def;
    const td_op *row = def & TD_IR_PARAM || def & TD_IR_CAPTURED ? NULL : td_ir_row(ir->nodes[def].op);
    return row && strcmp(row->name, op) == 0;
}

/* Does "x op= y" write a tensor x? */
bool td_low_writes(unsigned op)
{
    return td_op_by_name(operators[op].tensor)->flags & TD_OF_INPLACE;
}

uint32_t td_low_binary(td_lower *l, uint32_t node, unsigned op, uint32_t a, uint32_t b, bool in_place)
{
    const operator_names *o = &operators[op];
    td_low_at(l, node);
    a = td_low_or_fail(l, a), b = td_low_or_fail(l, b);
    td_type_kind ka = td_low_kind(l, a), kb = td_low_kind(l, b);
    uint32_t result, in[2] = {a, b};
    if (td_low_code_fold(l, op, a, b, &result)) return result;
    if (op == TD_O_MOD && ka == TD_T_STR) return td_low_percent(l, node, a, b);
    if (ka == TD_T_TENSOR || kb == TD_T_TENSOR) {
        bool numbers = op != TD_O_MATMUL && (is_number(ka) || is_number(kb));
        if ((ka != TD_T_TENSOR || kb != TD_T_TENSOR) && !numbers) no_operator(l, node, o->text, a, b);
        const td_op *row = td_op_by_name(o->tensor);
        bool written = in_place && ka == TD_T_TENSOR && row->flags & TD_OF_INPLACE;
        return tensor_op(l, row, written ? TD_IR_INPLACE : 0, 2, in);
    }
    td_low_type_empty(l, node, a, b);
    if ((op == TD_O_EQ || op == TD_O_NE || op == TD_O_ADD) && ka == TD_T_LIST && kb == TD_T_TUPLE)
        in[1] = td_low_convert(l, node, b, td_low_type(l, a)), kb = TD_T_LIST; /* x.shape == (2, 3) */
    if ((op == TD_O_EQ || op == TD_O_NE || op == TD_O_ADD) && kb == TD_T_LIST && ka == TD_T_TUPLE)
        in[0] = td_low_convert(l, node, a, td_low_type(l, b)), ka = TD_T_LIST;
    if (op == TD_O_ADD && ka == TD_T_TUPLE && kb == TD_T_TUPLE) return join_tuples(l, a, b);
    if (op == TD_O_MUL && ka == TD_T_TUPLE && repeated(l, a, b, &result)) return result;
    if (op == TD_O_MUL && kb == TD_T_TUPLE && repeated(l, b, a, &result)) return result;
    if (in_place && op == TD_O_ADD && ka == TD_T_LIST && td_low_has_prim(l, "extend", 2, in, &result)) return a;
    if (op == TD_O_MUL && (kb == TD_T_LIST || kb == TD_T_STR)) in[0] = b, in[1] = a;
    if (o->prim && td_low_has_prim(l, o->prim, 2, in, &result)) return result;
    if (!td_low_compared(l, node, op, in[0], in[1], &result)) no_operator(l, node, o->text, a, b);
    return result;
}

uint32_t td_low_unary(td_lower *l, uint32_t node, unsigned op, uint32_t a)
{
    bool tensor = td_low_kind(l, a) == TD_T_TENSOR;
    td_low_at(l, node);
    if (op == TD_O_ADD && (tensor || is_number(td_low_kind(l, a)))) return a;
    if (tensor) return td_low_tensor_op(l, node, op == TD_O_SUB ? "neg" : "bitwise_not", 1, &a);
    if (op == TD_O_ADD) td_low_wrong(l, node, "'+' cannot take %s", td_low_type_name(l, td_low_type(l, a)));
    return td_low_prim(l, node, op == TD_O_SUB ? "neg" : "invert", 1, &a);
}
