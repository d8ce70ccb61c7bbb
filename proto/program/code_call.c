/* What one node does, as an expression of Python: operators, methods and functions, by tables of forms. */
#include "proto/program/code_print.h"

#include "proto/base/device.h"
#include "proto/base/dtype.h"
#include "proto/program/prim.h"
#include "proto/program/type.h"
#include "proto/wire/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- constants */

static void real(td_coder *c, double v)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        td_printf(&c->p, isnan(v) ? "td.nan" : v < 0 ? "-td.inf" : "td.inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    td_printf(&c->p, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

static uint32_t literal(td_coder *c, const uint32_t *words, uint32_t n) /* NOLINT(misc-no-recursion): lists of items */
{
    td_literal v;
    uint32_t used = td_literal_get(words, n, &v);
    switch (used ? v.kind : TD_L_NONE) {
    case TD_L_INT: td_printf(&c->p, "%" PRId64, v.i); break;
    case TD_L_FLOAT: real(c, v.re); break;
    case TD_L_BOOL: td_printf(&c->p, v.small ? "True" : "False"); break;
    case TD_L_COMPLEX:
        td_printf(&c->p, "complex(");
        real(c, v.re);
        td_printf(&c->p, ", ");
        real(c, v.im);
        td_printf(&c->p, ")");
        break;
    case TD_L_STR: td_print_string(&c->p, td_ir_chars(c->ir, v.small), c->ir->strings[v.small].length); break;
    case TD_L_DEVICE: td_printf(&c->p, "td.device(\"%s\")", td_device_name(v.small)); break;
    case TD_L_DTYPE: td_printf(&c->p, "td.%s", td_dtype_name((td_dtype)v.small)); break;
    case TD_L_LIST:
        td_printf(&c->p, "[");
        for (uint32_t k = 0; k < v.small && used < n; k++) {
            td_printf(&c->p, k ? ", " : "");
            used += literal(c, words + used, n - used);
        }
        td_printf(&c->p, "]");
        break;
    default: td_printf(&c->p, "None");
    }
    return used ? used : n;
}

static const td_ir_node *constant_of(const td_coder *c, uint32_t value)
{
    uint32_t def = c->ir->values[value].def;
    if (def & TD_IR_PARAM) return NULL;
    const td_ir_node *n = &c->ir->nodes[def];
    return n->op == (TD_IR_PRIM | TD_PRIM_CONSTANT) ? n : NULL;
}

static bool get_constant(const td_coder *c, uint32_t value, td_literal *v)
{
    const td_ir_node *n = constant_of(c, value);
    return n && n->nwords && td_literal_get(c->ir->words + n->word, n->nwords, v);
}

void td_coder_value(td_coder *c, uint32_t value)
{
    const td_ir_node *n = constant_of(c, value);
    if (n) literal(c, c->ir->words + n->word, n->nwords);
    else td_coder_name(c, value);
}

bool td_coder_is(const td_coder *c, uint32_t value, int64_t number)
{
    td_literal v;
    if (!get_constant(c, value, &v)) return false;
    return (v.kind == TD_L_INT && v.i == number) || (v.kind == TD_L_BOOL && v.small == (uint64_t)number);
}

/* An operand: a number with a sign stands in parentheses. */
static void operand(td_coder *c, uint32_t value)
{
    td_literal v;
    bool sign =
        get_constant(c, value, &v) && ((v.kind == TD_L_INT && v.i < 0) || (v.kind == TD_L_FLOAT && signbit(v.re)));
    td_printf(&c->p, sign ? "(" : "");
    td_coder_value(c, value);
    td_printf(&c->p, sign ? ")" : "");
}

static void values(td_coder *c, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = 0; k < n; k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coder_value(c, at[k]);
    }
}

/* $0 .. $9 are arguments, $* all of them, $+ all but the first. */
static void by_form(td_coder *c, const char *form, uint32_t n, const uint32_t *at)
{
    for (; *form; form++) {
        if (*form != '$') td_print_bytes(&c->p, form, 1);
        else if (*++form == '*') values(c, n, at);
        else if (*form == '+') values(c, n - 1, at + 1);
        else if ((uint32_t)(*form - '0') < n) operand(c, at[*form - '0']);
    }
}

/* ---- prim:: */

/* By name with its overload, or without. */
static const char *const prim_forms[][2] = {
    {"add", "$0 + $1"},
    {"sub", "$0 - $1"},
    {"mul", "$0 * $1"},
    {"truediv", "$0 / $1"},
    {"floordiv", "$0 // $1"},
    {"mod", "$0 % $1"},
    {"pow", "$0 ** $1"},
    {"neg", "-$0"},
    {"not", "not $0"},
    {"and", "$0 & $1"},
    {"or", "$0 | $1"},
    {"xor", "$0 ^ $1"},
    {"invert", "~$0"},
    {"lshift", "$0 << $1"},
    {"rshift", "$0 >> $1"},
    {"eq", "$0 == $1"},
    {"ne", "$0 != $1"},
    {"lt", "$0 < $1"},
    {"le", "$0 <= $1"},
    {"gt", "$0 > $1"},
    {"ge", "$0 >= $1"},
    {"is_none", "$0 is None"},
    {"real", "$0.real"},
    {"imag", "$0.imag"},
    {"floor", "math.floor($0)"},
    {"ceil", "math.ceil($0)"},
    {"getitem", "$0[$1]"},
    {"setitem", "$0[$1] = $2"},
    {"delitem", "del $0[$1]"},
    {"slice", "$0[$1:$2:$3]"},
    {"contains", "$1 in $0"},
    {"strip.left", "$0.lstrip()"},
    {"strip.right", "$0.rstrip()"},
    {"sort", "$0.sort(reverse=$1)"},
    {"item.int", "int($0)"},
    {"item.float", "float($0)"},
    {"item.bool", "bool($0)"},
    {"item.complex", "complex($0)"},
    {"shape", "$0.shape"},
    {"ndim", "$0.ndim"},
    {"dtype", "$0.dtype"},
    {"device", "$0.device"},
    {"requires_grad", "$0.requires_grad"},
    {"is_floating_point", "$0.is_floating_point"},
    {"is_complex", "$0.is_complex"},
    {"backward", "td.autograd.backward($0, $1, $3, $4)"},
    {"autograd_grad", "td.autograd.grad($0, $2, $1, $3, $4)"},
    {"autograd_grad_or_none", "td.autograd.grad($0, $2, $1, $3, $4, True)"},
    {"grad", "$0.grad"},
    {"set_grad", "$0.grad = $1"},
    {"set_requires_grad", "$0.requires_grad_($1)"},
    {"unchecked_cast", "$0"},
    {"Uninitialized", "None"},
    {"ListConstruct", "[$*]"},
    {"ListUnpack", "$0"},
    {"TupleUnpack", "$0"},
    {"Print", "print($*)"},
    {"formatted", "format($*)"},
};
/* Written as functions; all others are methods of the first argument. */
static const char *const functions[] = {"abs",   "min", "max", "int", "float", "bool", "complex",
                                        "round", "len", "str", "ord", "chr",   "sum",  "repr"};

/* Is it `text`, or of this family? */
static bool is_of(const char *name, const char *text)
{
    size_t n = strlen(text);
    return strncmp(name, text, n) == 0 && (!name[n] || name[n] == '.');
}

static void raise(td_coder *c, const uint32_t *at)
{
    td_literal kind;
    bool named = get_constant(c, at[0], &kind) && kind.kind == TD_L_STR &&
                 td_ir_is_name(td_ir_chars(c->ir, kind.small), c->ir->strings[kind.small].length);
    td_printf(&c->p, "raise %s(", named ? td_ir_chars(c->ir, kind.small) : "RuntimeError");
    td_coder_value(c, at[1]);
    td_printf(&c->p, ")");
}

static void dict(td_coder *c, uint32_t n, const uint32_t *at)
{
    td_printf(&c->p, "{");
    for (uint32_t k = 0; k + 1 < n; k += 2) {
        td_printf(&c->p, k ? ", " : "");
        td_coder_value(c, at[k]);
        td_printf(&c->p, ": ");
        td_coder_value(c, at[k + 1]);
    }
    td_printf(&c->p, "}");
}

static void prim(td_coder *c, const td_prim *p, uint32_t n, const uint32_t *at)
{
    if (p->id == TD_PRIM_RAISE) return raise(c, at);
    if (p->id == TD_PRIM_DICTCONSTRUCT) return dict(c, n, at);
    if (p->id == TD_PRIM_TUPLECONSTRUCT) return by_form(c, n == 1 ? "($*,)" : "($*)", n, at);
    for (size_t k = 0; k < sizeof prim_forms / sizeof prim_forms[0]; k++)
        if (is_of(p->name, prim_forms[k][0])) return by_form(c, prim_forms[k][1], n, at);
    const char *dot = strchr(p->name, '.');
    int length = dot ? (int)(dot - p->name) : (int)strlen(p->name);
    bool function = n == 0;
    for (size_t k = 0; k < sizeof functions / sizeof functions[0]; k++) function |= is_of(p->name, functions[k]);
    if (is_of(p->name, "math")) td_printf(&c->p, "math.%s(", dot + 1);
    else if (function) td_printf(&c->p, "%.*s(", length, p->name);
    else operand(c, at[0]), td_printf(&c->p, ".%.*s(", length, p->name), n--, at++;
    values(c, n, at);
    td_printf(&c->p, ")");
}

/* ---- td:: */

static const char *const operators[][2] = {
    {"add", "$0 + $1"},
    {"sub", "$0 - $1"},
    {"mul", "$0 * $1"},
    {"div", "$0 / $1"},
    {"matmul", "$0 @ $1"},
    {"pow", "$0 ** $1"},
    {"floor_divide", "$0 // $1"},
    {"remainder", "$0 % $1"},
    {"eq", "$0 == $1"},
    {"ne", "$0 != $1"},
    {"lt", "$0 < $1"},
    {"le", "$0 <= $1"},
    {"gt", "$0 > $1"},
    {"ge", "$0 >= $1"},
    {"bitwise_and", "$0 & $1"},
    {"bitwise_or", "$0 | $1"},
    {"bitwise_xor", "$0 ^ $1"},
    {"neg", "-$0"},
};

/* Does the value say what is meant without it? */
static bool is_default(const td_coder *c, const td_attr_def *a, uint32_t value)
{
    td_literal v;
    const td_ir_node *n = constant_of(c, value);
    if (!n || !a->has_default) return false;
    if (a->value.kind == TD_A_NONE) return !n->nwords || (get_constant(c, value, &v) && v.kind == TD_L_NONE);
    if (!get_constant(c, value, &v)) return false;
    switch ((td_attr_kind)a->kind) {
    case TD_A_INT: return v.kind == TD_L_INT && v.i == a->value.i;
    case TD_A_BOOL: return v.kind == TD_L_BOOL && v.small == (uint64_t)a->value.i;
    case TD_A_FLOAT: return v.kind == TD_L_FLOAT && v.re == a->value.f;
    case TD_A_SCALAR:
        if (v.kind == TD_L_INT) return a->value.s.kind == TD_S_INT && v.i == a->value.s.i;
        return v.kind == TD_L_FLOAT && a->value.s.kind == TD_S_FLOAT && v.re == a->value.s.re;
    default: return false;
    }
}

static const td_attr_def *attr_at(const td_op *op, uint32_t k)
{
    unsigned before = (unsigned)__builtin_popcount(op->attrs_at & ((1u << k) - 1));
    return op->attrs_at >> k & 1 ? &op->attrs[before] : NULL;
}

/* How many arguments say anything: those at the end may be left out. */
static uint32_t said(const td_coder *c, const td_op *op, const uint32_t *at)
{
    uint32_t n = (uint32_t)op->nparams + op->nattrs;
    while (n > 0) {
        const td_attr_def *a = attr_at(op, n - 1);
        const td_ir_node *none = constant_of(c, at[n - 1]);
        if (a ? !is_default(c, a, at[n - 1]) : !none || none->nwords) break;
        n--;
    }
    return n;
}

static void arguments(td_coder *c, const td_op *op, uint32_t from, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = from; k < n; k++) {
        const td_attr_def *a = attr_at(op, k);
        td_printf(&c->p, k > from ? ", " : "");
        if (a && a->kind == TD_A_DTYPE) td_printf(&c->p, "%s=", a->name);
        td_coder_value(c, at[k]);
    }
}

/* y.copy_(x), y.fill_(3), or as out= has it. */
static void beside(td_coder *c, const td_op *op, const uint32_t *at)
{
    bool copy = strcmp(op->name, "copy") == 0, fill = strcmp(op->name, "full") == 0;
    if (copy || fill) {
        operand(c, at[0]);
        td_printf(&c->p, copy ? ".copy_(" : ".fill_(");
        td_coder_value(c, at[copy ? 1 : 2]);
    } else {
        td_printf(&c->p, "td.ops.%s(", op->name);
        arguments(c, op, 0, said(c, op, at + 1), at + 1);
        td_printf(&c->p, ", out=");
        td_coder_value(c, at[0]);
    }
    td_printf(&c->p, ")");
}

static bool is_copy(const td_op *op)
{
    return strcmp(op->name, "copy") == 0 || strcmp(op->name, "copy_kept") == 0;
}

static void row(td_coder *c, const td_ir_node *n, const td_op *op, const uint32_t *at)
{
    uint32_t count = said(c, op, at);
    bool in_place = n->op & TD_IR_INPLACE;
    if (td_ir_writes_beside(n, op)) return beside(c, op, at);
    for (size_t k = 0; k < sizeof operators / sizeof operators[0] && !in_place && count == op->nparams; k++)
        if (strcmp(op->name, operators[k][0]) == 0) return by_form(c, operators[k][1], count, at);
    if (is_copy(op)) return said(c, op, at) > 1 ? by_form(c, "$0.to($1)", 2, at) : by_form(c, "$0.clone()", 1, at);
    if (in_place) operand(c, at[0]), td_printf(&c->p, ".%s_(", op->name);
    else td_printf(&c->p, "td.ops.%s(", op->name);
    arguments(c, op, in_place, count, at);
    if (n->mode >> TD_RM_DEVICE) td_printf(&c->p, ", device=\"%s\"", td_device_name(n->mode >> TD_RM_DEVICE));
    td_printf(&c->p, ")");
}

void td_coder_call(td_coder *c, uint32_t node)
{
    const td_ir *ir = c->ir;
    const td_ir_node *n = &ir->nodes[node];
    const uint32_t *at = ir->args + n->in;
    uint32_t number = n->op & TD_IR_NUMBER;
    switch (n->op & TD_IR_CLASS) {
    case TD_IR_PRIM: prim(c, td_prim_by_id(number), n->nin, at); return;
    case TD_IR_TD: row(c, n, td_op_by_id(number), at); return;
    case TD_IR_ATEN: td_printf(&c->p, "torch.ops.aten.%.200s(", td_ir_chars(ir, number)); break;
    default: td_coder_function(c, number), td_printf(&c->p, "(");
    }
    values(c, n->nin, at);
    td_printf(&c->p, ")");
}
