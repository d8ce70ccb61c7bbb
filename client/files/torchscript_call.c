/* What stands in expressions: types, constants, paths, and prim:: ops by a table of forms. */
#include "client/files/torchscript_print.h"

#include "proto/base/device.h"
#include "proto/base/dtype.h"
#include "proto/program/prim.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- types */

void td_coding_type(td_coding *c, uint32_t type) /* NOLINT(misc-no-recursion): as deep as the type */
{
    static const char *const plain[] = {"NoneType", "int",    "float", "bool",  "complex",
                                        "str",      "Device", "int",   "Tensor"};
    static const char *const made[] = {"Optional[", "List[", "Tuple[", "Dict["};
    td_type_kind kind = td_type_kind_of(c->ir, type);
    if (kind <= TD_T_TENSOR) {
        td_printf(&c->p, "%s", plain[kind]);
        return;
    }
    td_printf(&c->p, "%s", made[kind - TD_T_OPTIONAL]);
    for (uint32_t k = 0; k < td_type_parts(c->ir, type); k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coding_type(c, td_type_part(c->ir, type, k));
    }
    td_printf(&c->p, kind == TD_T_TUPLE && !td_type_parts(c->ir, type) ? "()]" : "]");
}

void td_coding_as(td_coding *c, uint32_t value, uint32_t type)
{
    bool plain = td_type_kind_of(c->ir, type) <= TD_T_TENSOR;
    if (!plain) {
        td_printf(&c->p, "annotate(");
        td_coding_type(c, type);
        td_printf(&c->p, ", ");
    }
    td_coding_value(c, value);
    td_printf(&c->p, plain ? "" : ")");
}

/* ---- names */

bool td_coding_is_word(const char *text, size_t n)
{
    static const char *const taken[] = {"False",
                                        "None",
                                        "True",
                                        "and",
                                        "as",
                                        "assert",
                                        "async",
                                        "await",
                                        "break",
                                        "class",
                                        "continue",
                                        "def",
                                        "del",
                                        "elif",
                                        "else",
                                        "except",
                                        "finally",
                                        "for",
                                        "from",
                                        "global",
                                        "if",
                                        "import",
                                        "in",
                                        "is",
                                        "lambda",
                                        "nonlocal",
                                        "not",
                                        "or",
                                        "pass",
                                        "raise",
                                        "return",
                                        "try",
                                        "while",
                                        "with",
                                        "yield",
                                        "self",
                                        "torch",
                                        "ops",
                                        "annotate",
                                        "inf",
                                        "nan",
                                        "infj",
                                        "nanj",
                                        "int",
                                        "float",
                                        "bool",
                                        "complex",
                                        "str",
                                        "getattr",
                                        "fork",
                                        "awaitable",
                                        "unchecked_cast",
                                        "uninitialized",
                                        "print",
                                        "__torch__",
                                        "CONSTANTS",
                                        "range"};
    bool letter = n && ((text[0] | 32) >= 'a' ? (text[0] | 32) <= 'z' : text[0] == '_');
    for (size_t k = 1; letter && k < n; k++)
        letter =
            ((text[k] | 32) >= 'a' && (text[k] | 32) <= 'z') || text[k] == '_' || (text[k] >= '0' && text[k] <= '9');
    for (size_t k = 0; letter && k < sizeof taken / sizeof *taken; k++)
        letter = strlen(taken[k]) != n || memcmp(taken[k], text, n) != 0;
    return letter;
}

/* Bytes that are no letters as three octal digits. */
void td_coding_text(td_print *p, const char *bytes, size_t n)
{
    td_printf(p, "\"");
    for (size_t k = 0; k < n; k++) {
        unsigned char b = (unsigned char)bytes[k];
        if (b < ' ' || b > '~' || b == '"' || b == '\\') td_printf(p, "\\%03o", b);
        else td_print_bytes(p, bytes + k, 1);
    }
    td_printf(p, "\"");
}

static void path(td_coding *c, const char *name,
                 size_t n) /* NOLINT(misc-no-recursion): as deep as td_classes_new allows */
{
    size_t last = n;
    while (last && name[last - 1] != '.') last--;
    bool word = td_coding_is_word(name + last, n - last);
    td_printf(&c->p, word ? "" : "getattr(");
    if (last) path(c, name, last - 1);
    else td_printf(&c->p, "self");
    td_printf(&c->p, word ? "." : ", ");
    if (word) td_print_bytes(&c->p, name + last, n - last);
    else td_coding_text(&c->p, name + last, n - last), td_printf(&c->p, ")");
}

void td_coding_path(td_coding *c, const char *name)
{
    path(c, name, strlen(name));
}

/* ---- constants */

void td_coding_real(td_coding *c, double v)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        td_printf(&c->p, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    td_printf(&c->p, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

/* dtypes are numbers there. */
static int dtype_number(td_dtype dtype)
{
    static const int8_t table[] = {
        [TD_UINT8] = 0,   [TD_INT8] = 1,      [TD_INT16] = 2,   [TD_INT32] = 3,     [TD_INT64] = 4,
        [TD_FLOAT16] = 5, [TD_FLOAT32] = 6,   [TD_FLOAT64] = 7, [TD_COMPLEX64] = 9, [TD_COMPLEX128] = 10,
        [TD_BOOL] = 11,   [TD_BFLOAT16] = 15, [TD_UINT16] = 27, [TD_UINT32] = 28,   [TD_UINT64] = 29};
    return dtype < sizeof table ? table[dtype] : -1;
}

static void complex_number(td_coding *c, const td_literal *v)
{
    td_printf(&c->p, "complex(");
    td_coding_real(c, v->re);
    td_printf(&c->p, ", ");
    td_coding_real(c, v->im);
    td_printf(&c->p, ")");
}

static uint32_t literal(td_coding *c, const uint32_t *words, uint32_t n) /* NOLINT(misc-no-recursion): lists of items */
{
    td_literal v;
    uint32_t used = td_literal_get(words, n, &v);
    switch (used ? v.kind : TD_L_NONE) {
    case TD_L_INT: td_printf(&c->p, "%" PRId64, v.i); break;
    case TD_L_FLOAT: td_coding_real(c, v.re); break;
    case TD_L_BOOL: td_printf(&c->p, v.small ? "True" : "False"); break;
    case TD_L_COMPLEX: complex_number(c, &v); break;
    case TD_L_STR: td_coding_text(&c->p, td_ir_chars(c->ir, v.small), c->ir->strings[v.small].length); break;
    case TD_L_DEVICE: td_printf(&c->p, "torch.device(\"%s\")", td_device_name(v.small)); break;
    case TD_L_DTYPE: td_printf(&c->p, "%d", dtype_number((td_dtype)v.small)); break;
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

static const td_ir_node *made_by(const td_coding *c, uint32_t value)
{
    uint32_t def = c->ir->values[value].def;
    return def & TD_IR_PARAM ? NULL : &c->ir->nodes[def];
}

static const td_ir_node *constant_of(const td_coding *c, uint32_t value)
{
    const td_ir_node *n = made_by(c, value);
    return n && n->op == (TD_IR_PRIM | TD_PRIM_CONSTANT) ? n : NULL;
}

bool td_coding_constant(const td_coding *c, uint32_t value, td_literal *v)
{
    const td_ir_node *n = constant_of(c, value);
    *v = (td_literal){.kind = TD_L_NONE};
    return n && (!n->nwords || td_literal_get(c->ir->words + n->word, n->nwords, v));
}

int td_coding_items(const td_coding *c, uint32_t value, const uint32_t **at)
{
    const td_ir_node *n = made_by(c, value);
    if (!n || n->op != (TD_IR_PRIM | TD_PRIM_LISTCONSTRUCT)) return -1;
    *at = c->ir->args + n->in;
    return (int)n->nin;
}

bool td_coding_one(td_coding *c, uint32_t value, bool print)
{
    const uint32_t *items;
    const td_ir_node *n = constant_of(c, value);
    td_literal v = {.kind = TD_L_NONE};
    uint32_t used = n ? td_literal_get(c->ir->words + n->word, n->nwords, &v) : 0;
    if (!n && td_coding_items(c, value, &items) == 1) {
        if (print) td_coding_value(c, items[0]);
        return true;
    }
    if (!used || v.kind != TD_L_LIST || v.small != 1) return false;
    if (print) literal(c, c->ir->words + n->word + used, n->nwords - used);
    return true;
}

void td_coding_value(td_coding *c, uint32_t value)
{
    const td_ir_value *v = &c->ir->values[value];
    const td_ir_node *n = constant_of(c, value);
    bool captured = (v->def & TD_IR_CAPTURED) == TD_IR_CAPTURED;
    bool list = n && td_type_kind_of(c->ir, v->type) == TD_T_LIST;
    if (captured) {
        td_coding_path(c, td_ir_chars(c->ir, c->ir->captures[v->def & ~(uint32_t)TD_IR_CAPTURED].name));
        return;
    }
    if (!n) {
        td_printf(&c->p, "v%u", value);
        return;
    }
    if (list) {
        td_printf(&c->p, "annotate(");
        td_coding_type(c, v->type);
        td_printf(&c->p, ", ");
    }
    literal(c, c->ir->words + n->word, n->nwords);
    td_printf(&c->p, list ? ")" : "");
}

static void values(td_coding *c, uint32_t n, const uint32_t *at)
{
    for (uint32_t k = 0; k < n; k++) {
        td_printf(&c->p, k ? ", " : "");
        td_coding_value(c, at[k]);
    }
}

/* ---- prim:: */

/* By name with its overload, or without. $0 .. $9 are arguments, $* all of them. All else is torch.NAME($*), if it is
 * in `same`. */
static const char *const forms[][2] = {
    {"truediv", "torch.div($*)"},
    {"mod", "torch.remainder($*)"},
    {"pow.int", "int(torch.pow($*))"},
    {"abs", "ops.prim.abs($*)"},
    {"min", "ops.prim.min($*)"},
    {"max", "ops.prim.max($*)"},
    {"not", "torch.__not__($0)"},
    {"and", "torch.__and__($*)"},
    {"or", "torch.__or__($*)"},
    {"xor", "torch.__xor__($*)"},
    {"invert", "torch.__xor__($0, -1)"},
    {"lshift", "torch.__lshift__($*)"},
    {"rshift", "torch.__rshift__($*)"},
    {"is_none", "torch.__is__($0, None)"},
    {"int", "int($0)"},
    {"float", "float($0)"},
    {"bool", "bool($0)"},
    {"complex", "complex($*)"},
    {"item.int", "int($0)"},
    {"item.float", "float($0)"},
    {"item.bool", "bool($0)"},
    {"item.complex", "complex($0)"},
    {"getitem", "torch.__getitem__($*)"},
    {"setitem", "torch._set_item($*)"},
    {"delitem", "torch.Delete($*)"},
    {"contains", "torch.__contains__($*)"},
    {"strip.left", "torch.lstrip($*)"},
    {"strip.right", "torch.rstrip($*)"},
    {"shape", "torch.size($0)"},
    {"ndim", "torch.dim($0)"},
    {"dtype", "ops.prim.dtype($0)"},
    {"device", "ops.prim.device($0)"},
    {"requires_grad", "ops.prim.requires_grad($0)"},
    {"Print", "print($*)"},
    {"TupleUnpack", "$0"},
    {"ListUnpack", "$0"},
};
static const char *const same[] = {
    "add",    "sub",     "mul",   "floordiv", "neg",    "eq",    "ne",         "lt",       "le",    "gt",
    "ge",     "sum",     "floor", "ceil",     "len",    "slice", "append",     "insert",   "pop",   "extend",
    "clear",  "reverse", "sort",  "copy",     "index",  "count", "keys",       "values",   "items", "get",
    "update", "join",    "split", "replace",  "find",   "strip", "startswith", "endswith", "lower", "upper",
    "ord",    "chr",     "size",  "numel",    "stride", "str",   "format",     "pow",      "real",  "imag"};

static bool is_of(const char *name, const char *text)
{
    size_t n = strlen(text);
    return strncmp(name, text, n) == 0 && (!name[n] || name[n] == '.');
}

static void by_form(td_coding *c, const char *form, uint32_t n, const uint32_t *at)
{
    for (; *form; form++) {
        if (*form != '$') td_print_bytes(&c->p, form, 1);
        else if (*++form == '*') values(c, n, at);
        else if ((uint32_t)(*form - '0') < n) td_coding_value(c, at[*form - '0']);
    }
}

static void raise(td_coding *c, const uint32_t *at)
{
    td_literal kind;
    bool named = td_coding_constant(c, at[0], &kind) && kind.kind == TD_L_STR &&
                 td_coding_is_word(td_ir_chars(c->ir, kind.small), c->ir->strings[kind.small].length);
    td_printf(&c->p, "ops.prim.RaiseException(");
    td_coding_value(c, at[1]);
    td_printf(&c->p, ", \"builtins.%s\")", named ? td_ir_chars(c->ir, kind.small) : "RuntimeError");
}

static void dict(td_coding *c, uint32_t n, const uint32_t *at)
{
    td_printf(&c->p, "{");
    for (uint32_t k = 0; k + 1 < n; k += 2) {
        td_printf(&c->p, k ? ", " : "");
        td_coding_value(c, at[k]);
        td_printf(&c->p, ": ");
        td_coding_value(c, at[k + 1]);
    }
    td_printf(&c->p, "}");
}

/* What says its type: word(T, ...), or a list, tuple or dict as one. */
static void typed(td_coding *c, const char *word, uint32_t node, const char *open, const char *close)
{
    const td_ir_node *n = &c->ir->nodes[node];
    const uint32_t *at = c->ir->args + n->in;
    td_printf(&c->p, "%s(", word);
    td_coding_type(c, c->ir->values[td_ir_out(c->ir, node, 0)].type);
    td_printf(&c->p, "%s%s", n->nin || *open || n->op == (TD_IR_PRIM | TD_PRIM_DICTCONSTRUCT) ? ", " : "", open);
    if (n->op == (TD_IR_PRIM | TD_PRIM_DICTCONSTRUCT)) dict(c, n->nin, at);
    else values(c, n->nin, at);
    td_printf(&c->p, "%s)", close);
}

/* Of a dtype that a tensor has it is a question to the tensor. */
static void kind_of_dtype(td_coding *c, const char *name, uint32_t value)
{
    const td_ir_node *n = made_by(c, value);
    if (!n || n->op != (TD_IR_PRIM | TD_PRIM_DTYPE)) {
        td_coding_refuse(c, "'%s' of a dtype by itself has no name in ATen", name);
        return;
    }
    td_printf(&c->p, "torch.%s(", name);
    td_coding_value(c, c->ir->args[n->in]);
    td_printf(&c->p, ")");
}

static void by_name(td_coding *c, const char *name, uint32_t n, const uint32_t *at)
{
    size_t length = strcspn(name, ".");
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        if (is_of(name, forms[k][0])) return by_form(c, forms[k][1], n, at);
    bool math = strncmp(name, "math.", 5) == 0, known = math;
    for (size_t k = 0; !known && k < sizeof same / sizeof *same; k++)
        known = strlen(same[k]) == length && strncmp(same[k], name, length) == 0;
    if (!known) {
        td_coding_refuse(c, "the op 'prim::%s' has no name in ATen", name);
        return;
    }
    if (math) name += 5, length = strcspn(name, ".");
    td_printf(&c->p, "torch.%.*s(", (int)length, name);
    values(c, n, at);
    td_printf(&c->p, ")");
}

static void prim(td_coding *c, const td_prim *p, uint32_t node)
{
    uint32_t n = c->ir->nodes[node].nin;
    const uint32_t *at = c->ir->args + c->ir->nodes[node].in;
    switch (p->id) {
    case TD_PRIM_RAISE: raise(c, at); return;
    case TD_PRIM_DICTCONSTRUCT: typed(c, "annotate", node, "", ""); return;
    case TD_PRIM_LISTCONSTRUCT: typed(c, "annotate", node, "[", "]"); return;
    case TD_PRIM_TUPLECONSTRUCT: typed(c, "annotate", node, "(", n == 1 ? ",)" : ")"); return;
    case TD_PRIM_UNCHECKED_CAST: typed(c, "unchecked_cast", node, "", ""); return;
    case TD_PRIM_UNINITIALIZED: typed(c, "uninitialized", node, "", ""); return;
    case TD_PRIM_IS_FLOATING_POINT:
    case TD_PRIM_IS_COMPLEX: kind_of_dtype(c, p->name, at[0]); return;
    default: by_name(c, p->name, n, at);
    }
}

void td_coding_call(td_coding *c, uint32_t node)
{
    const td_ir_node *n = &c->ir->nodes[node];
    uint32_t number = n->op & TD_IR_NUMBER;
    switch (n->op & TD_IR_CLASS) {
    case TD_IR_PRIM: prim(c, td_prim_by_id(number), node); return;
    case TD_IR_TD: td_coding_row(c, node); return;
    case TD_IR_ATEN: td_coding_refuse(c, "'aten::%.80s' is not looked at", td_ir_chars(c->ir, number)); return;
    default: td_printf(&c->p, "self._%s_%u(", c->program, number);
    }
    values(c, n->nin, c->ir->args + n->in);
    td_printf(&c->p, ")");
}
