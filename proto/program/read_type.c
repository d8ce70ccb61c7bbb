/* Types and literals of a program's text. */
#include "proto/base/device.h"
#include "proto/program/lex.h"
#include "proto/program/literal.h"
#include "proto/program/print.h"
#include "proto/program/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A word of the token, to be passed on; too long ones are no such word. */
static const char *word(const td_ir_reader *r, char out[64])
{
    size_t n = r->end - r->start;
    snprintf(out, 64, "%.*s", n < 63 ? (int)n : 0, r->text + r->start);
    return out;
}

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

static bool read_int(td_ir_reader *r, int64_t *v)
{
    char text[64];
    if (r->token != TD_TOK_INT) return td_ir_read_fail(r, r->start, "a whole number is expected here");
    errno = 0;
    *v = strtoll(word(r, text), NULL, 10);
    if (errno || !*text) return td_ir_read_fail(r, r->start, "a number that does not fit into 64 bits");
    td_ir_next(r);
    return true;
}

/* ---- tensors */

static bool read_size(td_ir_reader *r, td_tensor_type *t)
{
    int64_t size = TD_SIZE_ANY;
    if (t->rank == TD_MAX_DIMS) return td_ir_read_fail(r, r->start, "more than %d sizes", TD_MAX_DIMS);
    if (td_ir_at_sign(r, '*')) td_ir_next(r);
    else if (r->token == TD_TOK_NAME) {
        uint32_t symbol = td_ir_string(r->e, r->text + r->start, r->end - r->start);
        size = td_size_symbol(symbol);
        td_ir_next(r);
    } else {
        size_t at = r->start;
        if (!read_int(r, &size)) return false;
        if (size < 0) return td_ir_read_fail(r, at, "a size is a number, a name or *");
    }
    t->sizes[t->rank++] = size;
    return true;
}

static bool read_device(td_ir_reader *r, uint8_t *device)
{
    char text[64];
    size_t start = r->start;
    word(r, text);
    td_ir_next(r);
    if (td_ir_at_sign(r, ':')) {
        size_t n = strlen(text);
        td_ir_next(r);
        if (r->token == TD_TOK_INT && r->end - start < sizeof text)
            snprintf(text + n, sizeof text - n, ":%.*s", (int)(r->end - r->start), r->text + r->start);
        td_ir_next(r);
    }
    int number = td_device_number(text);
    if (number < 0) return td_ir_read_fail(r, start, "there is no such device");
    *device = (uint8_t)number;
    return true;
}

/* NAME = literal: what else is known of a tensor. */
static bool read_known(td_ir_reader *r, td_tensor_type *t)
{
    bool device = td_ir_at_name(r, "device");
    int64_t grad;
    if (!device && !td_ir_at_name(r, "requires_grad"))
        return td_ir_read_fail(r, r->start, "only device and requires_grad have values here");
    td_ir_next(r);
    if (!td_ir_expect(r, '=')) return false;
    if (device) return read_device(r, &t->device);
    size_t at = r->start;
    if (!read_int(r, &grad)) return false;
    if (grad != 0 && grad != 1) return td_ir_read_fail(r, at, "0 or 1 is expected here");
    t->grad = (uint8_t)grad;
    return true;
}

/* Is a name of something that is known, rather than of a size? */
static bool at_known(const td_ir_reader *r)
{
    return td_ir_at_name(r, "device") || td_ir_at_name(r, "requires_grad") || td_ir_at_name(r, "strides");
}

static uint32_t read_tensor(td_ir_reader *r, td_tensor_type *t)
{
    if (td_ir_at_sign(r, '(')) {
        td_ir_next(r);
        t->rank = 0;
        bool first = true, any = r->token == TD_TOK_DOTS, known = false;
        if (any) td_ir_next(r), first = false;
        while (!td_ir_at_sign(r, ')')) {
            if (!first && !td_ir_expect(r, ',')) return TD_IR_NONE;
            first = false;
            known |= at_known(r);
            if (any && !known) return td_ir_read_fail(r, r->start, "no size stands behind ..."), TD_IR_NONE;
            if (!(known ? read_known(r, t) : read_size(r, t))) return TD_IR_NONE;
        }
        td_ir_next(r);
        if (any) t->rank = TD_TYPE_ANY;
    }
    return td_ir_failed(r->e) ? TD_IR_NONE : td_type_tensor(r->e, t);
}

/* ---- types */

/* '(' type, ... ')' into parts; how many, or -1. */
static int read_parts(td_ir_reader *r, uint32_t *parts)
{
    int n = 0;
    if (!td_ir_expect(r, '(')) return -1;
    while (!td_ir_at_sign(r, ')')) {
        if (n && !td_ir_expect(r, ',')) return -1;
        if (n == TD_TYPE_SIZE)
            return td_ir_read_fail(r, r->start, "a type is made of more than %d others", TD_TYPE_SIZE), -1;
        if ((parts[n++] = td_ir_read_type(r)) == TD_IR_NONE) return -1;
    }
    td_ir_next(r);
    return n;
}

static uint32_t read_optional(td_ir_reader *r)
{
    td_ir_next(r);
    if (!td_ir_expect(r, '[')) return TD_IR_NONE;
    uint32_t of = td_ir_read_type(r);
    return td_ir_expect(r, ']') ? td_type_optional(r->e, of) : TD_IR_NONE;
}

static uint32_t read_base(td_ir_reader *r)
{
    char name[64];
    uint32_t parts[TD_TYPE_SIZE];
    td_tensor_type t = {TD_DTYPE_NONE, TD_TYPE_ANY, TD_TYPE_ANY, TD_TYPE_ANY, {0}};
    bool dict = td_ir_at_name(r, "Dict");
    if (td_ir_at_name(r, "Optional")) return read_optional(r);
    if (dict) td_ir_next(r);
    if (dict || td_ir_at_sign(r, '(')) {
        size_t at = r->start;
        int n = read_parts(r, parts);
        if (dict && n >= 0 && n != 2) td_ir_read_fail(r, at, "a Dict is of two types");
        if (n < 0 || r->error->code) return TD_IR_NONE;
        return dict ? td_type_dict(r->e, parts[0], parts[1]) : td_type_tuple(r->e, (uint32_t)n, parts);
    }
    word(r, name);
    int plain = r->token == TD_TOK_NAME ? index_of(td_plain_names, name) : -1;
    int dtype = r->token == TD_TOK_NAME ? index_of(td_tensor_names, name) : -1;
    if (plain < 0 && dtype < 0) return td_ir_read_fail(r, r->start, "a type is expected here"), TD_IR_NONE;
    td_ir_next(r);
    if (plain >= 0 && plain != TD_T_TENSOR) return td_type_plain(r->e, (td_type_kind)plain);
    if (dtype >= 0) t.dtype = (uint8_t)dtype;
    return read_tensor(r, &t);
}

uint32_t td_ir_read_type(td_ir_reader *r)
{
    if (r->depth >= TD_IR_DEPTH) return td_ir_read_fail(r, r->start, "types lie too deep in each other"), TD_IR_NONE;
    r->depth++;
    uint32_t type = read_base(r);
    while (!r->error->code && (td_ir_at_sign(r, '?') || td_ir_at_sign(r, '['))) {
        bool list = td_ir_at_sign(r, '[');
        td_ir_next(r);
        if (list && !td_ir_expect(r, ']')) break;
        type = list ? td_type_list(r->e, type) : td_type_optional(r->e, type);
    }
    r->depth--;
    return r->error->code ? TD_IR_NONE : type;
}

/* ---- literals */

static bool add_literal(td_ir_reader *r, const td_literal *v)
{
    uint32_t words[TD_LITERAL_WORDS], n = td_literal_put(words, v);
    for (uint32_t i = 0; i < n; i++)
        if (!td_ir_add_number(r, &r->words, words[i])) return false;
    return true;
}

static bool read_float(td_ir_reader *r, double *v)
{
    char text[64];
    if (r->token != TD_TOK_FLOAT && r->token != TD_TOK_INT && !td_ir_at_name(r, "inf") && !td_ir_at_name(r, "nan"))
        return td_ir_read_fail(r, r->start, "a float is expected here");
    *v = strtod(word(r, text), NULL);
    td_ir_next(r);
    return true;
}

static bool read_string(td_ir_reader *r, td_type_kind kind, td_literal *v)
{
    size_t n, at = r->start;
    if (r->token != TD_TOK_STRING) return td_ir_read_fail(r, at, "a text in quotes is expected here");
    if (!td_ir_unquote(r, &n)) return false;
    char name[64];
    snprintf(name, sizeof name, "%.*s", n < 63 ? (int)n : 0, r->buffer);
    td_ir_next(r);
    if (kind == TD_T_STR) {
        v->small = td_ir_string(r->e, r->buffer, n);
        return !td_ir_failed(r->e);
    }
    int number = kind == TD_T_DEVICE ? td_device_number(name) : td_dtype_parse(name);
    if (number < 0 || number == TD_DTYPE_NONE)
        return td_ir_read_fail(r, at, kind == TD_T_DEVICE ? "there is no such device" : "there is no such dtype");
    v->small = (uint32_t)number;
    return true;
}

static bool read_list(td_ir_reader *r, uint32_t of)
{
    uint32_t tag = r->words.n, n = 0;
    if (!td_ir_expect(r, '[') || !td_ir_add_number(r, &r->words, 0)) return false;
    for (; !td_ir_at_sign(r, ']'); n++) {
        if (n && !td_ir_expect(r, ',')) return false;
        if (n == TD_LITERAL_MOST) return td_ir_read_fail(r, r->start, "too many items");
        if (!td_ir_read_literal(r, of)) return false;
    }
    r->words.at[tag] = TD_L_LIST | n << 8;
    td_ir_next(r);
    return true;
}

static bool read_complex(td_ir_reader *r, td_literal *v)
{
    return td_ir_expect(r, '[') && read_float(r, &v->re) && td_ir_expect(r, ',') && read_float(r, &v->im) &&
           td_ir_expect(r, ']');
}

/* As deep as types are large. */
bool td_ir_read_literal(td_ir_reader *r, uint32_t type)
{
    static const uint8_t kinds[TD_T_KINDS] = {
        [TD_T_INT] = TD_L_INT, [TD_T_FLOAT] = TD_L_FLOAT,   [TD_T_BOOL] = TD_L_BOOL,  [TD_T_COMPLEX] = TD_L_COMPLEX,
        [TD_T_STR] = TD_L_STR, [TD_T_DEVICE] = TD_L_DEVICE, [TD_T_DTYPE] = TD_L_DTYPE};
    const td_ir *ir = td_ir_now(r->e);
    td_type_kind kind = td_type_kind_of(ir, type);
    if (kind == TD_T_LIST) return read_list(r, td_type_part(ir, type, 0));
    td_literal v = {.kind = (td_literal_kind)kinds[kind]};
    size_t at = r->start;
    bool good = false;
    switch (v.kind) {
    case TD_L_INT: good = read_int(r, &v.i); break;
    case TD_L_BOOL:
        good = read_int(r, &v.i) && ((v.i == 0 || v.i == 1) || td_ir_read_fail(r, at, "0 or 1 is expected here"));
        v.small = (uint32_t)v.i;
        break;
    case TD_L_FLOAT: good = read_float(r, &v.re); break;
    case TD_L_COMPLEX: good = read_complex(r, &v); break;
    case TD_L_STR:
    case TD_L_DEVICE:
    case TD_L_DTYPE: good = read_string(r, kind, &v); break;
    default: td_ir_read_fail(r, at, "there are no constants of this type");
    }
    return good && add_literal(r, &v);
}
