/* Types and literals as texts. */
#include "proto/program/print.h"

#include "proto/base/device.h"
#include "proto/program/text.h"
#include "proto/program/type.h"
#include "proto/base/text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *const td_plain_names[] = {"NoneType", "int",    "float", "bool",   "complex",
                                      "str",      "Device", "dtype", "Tensor", NULL};
const char *const td_tensor_names[] = {"Bool",   "Byte",     "Char",   "Short",  "Int",          "Long",
                                       "Half",   "BFloat16", "Float",  "Double", "ComplexFloat", "ComplexDouble",
                                       "UInt16", "UInt32",   "UInt64", NULL};

void td_print_bytes(td_print *p, const char *bytes, size_t n)
{
    if (!p->fixed && p->used + n >= p->room && !p->failed) {
        size_t room = 2 * p->room + n + 256;
        char *more = room < TD_IR_PRINTED ? realloc(p->text, room) : NULL;
        if (more) p->text = more, p->room = room;
        else p->failed = true;
    }
    if (p->failed) return;
    if (p->fixed && n >= p->room - p->used) n = p->room - p->used - 1;
    memcpy(p->text + p->used, bytes, n);
    p->used += n;
    p->text[p->used] = 0;
}

void td_printf(td_print *p, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    td_print_bytes(p, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

void td_print_string(td_print *p, const char *bytes, size_t n)
{
    td_print_bytes(p, "\"", 1);
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = td_text_char(bytes + i, &code);
        if (bytes[i] == '"' || bytes[i] == '\\') td_printf(p, "\\%c", bytes[i]);
        else if (bytes[i] == '\n') td_printf(p, "\\n");
        else if (td_text_shown(code)) td_print_bytes(p, bytes + i, length);
        else
            for (size_t k = 0; k < length; k++) td_printf(p, "\\x%02x", (unsigned char)bytes[i + k]);
        i += length;
    }
    td_print_bytes(p, "\"", 1);
}

/* ---- types */

static void print_size(td_print *p, const td_ir *ir, int64_t size)
{
    if (size >= 0) td_printf(p, "%" PRId64, size);
    else if (size == TD_SIZE_ANY) td_printf(p, "*");
    else td_printf(p, "%s", td_ir_chars(ir, td_size_string(size)));
}

static void print_tensor(td_print *p, const td_ir *ir, uint32_t type)
{
    td_tensor_type t;
    td_type_as_tensor(ir, type, &t);
    td_printf(p, "%s", t.dtype == TD_DTYPE_NONE ? "Tensor" : td_tensor_names[t.dtype]);
    if (t.rank == TD_TYPE_ANY && t.device == TD_TYPE_ANY && t.grad == TD_TYPE_ANY) return;
    td_printf(p, t.rank == TD_TYPE_ANY ? "(..." : "(");
    const char *comma = t.rank == TD_TYPE_ANY ? ", " : "";
    for (int i = 0; t.rank != TD_TYPE_ANY && i < t.rank; i++, comma = ", ") {
        td_printf(p, "%s", comma);
        print_size(p, ir, t.sizes[i]);
    }
    if (t.grad != TD_TYPE_ANY) td_printf(p, "%srequires_grad=%d", comma, t.grad), comma = ", ";
    if (t.device != TD_TYPE_ANY) td_printf(p, "%sdevice=%s", comma, td_device_name(t.device));
    td_printf(p, ")");
}

static void print_parts(td_print *p, const td_ir *ir, uint32_t type)
{
    td_printf(p, "(");
    for (uint32_t i = 0; i < td_type_parts(ir, type); i++) {
        if (i) td_printf(p, ", ");
        td_print_type(p, ir, td_type_part(ir, type, i));
    }
    td_printf(p, ")");
}

/* As deep as types are large: TD_TYPE_SIZE. */
void td_print_type(td_print *p, const td_ir *ir, uint32_t type)
{
    td_type_kind kind = td_type_kind_of(ir, type);
    switch (kind) {
    case TD_T_TENSOR: print_tensor(p, ir, type); break;
    case TD_T_OPTIONAL:
    case TD_T_LIST:
        td_print_type(p, ir, td_type_part(ir, type, 0));
        td_printf(p, kind == TD_T_LIST ? "[]" : "?");
        break;
    case TD_T_DICT: td_printf(p, "Dict"); /* fall through */
    case TD_T_TUPLE: print_parts(p, ir, type); break;
    default: td_printf(p, "%s", td_plain_names[kind]);
    }
}

const char *td_type_text(const td_ir *ir, uint32_t type, char *out, size_t size)
{
    td_print p = {.text = out, .room = size, .fixed = true};
    td_print_type(&p, ir, type);
    return out;
}

/* ---- literals */

/* The shortest digits that are read back as the same number, and that look like no int. */
static void print_float(td_print *p, double v)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    if (v != v) snprintf(text, sizeof text, "nan");
    td_printf(p, "%s%s", text, strpbrk(text, ".eni") ? "" : ".");
}

/* Items of lists that are still to come, of each list that is open. */
uint32_t td_print_literal(td_print *p, const td_ir *ir, const uint32_t *words, uint32_t n)
{
    td_literal v;
    uint32_t used = td_literal_get(words, n, &v);
    switch (v.kind) {
    case TD_L_INT: td_printf(p, "%" PRId64, v.i); break;
    case TD_L_FLOAT: print_float(p, v.re); break;
    case TD_L_BOOL: td_printf(p, "%u", v.small); break;
    case TD_L_STR: td_print_string(p, td_ir_chars(ir, v.small), ir->strings[v.small].length); break;
    case TD_L_DEVICE: td_printf(p, "\"%s\"", td_device_name(v.small)); break;
    case TD_L_DTYPE: td_printf(p, "\"%s\"", td_dtype_name((td_dtype)v.small)); break;
    case TD_L_COMPLEX:
        td_printf(p, "[");
        print_float(p, v.re);
        td_printf(p, ", ");
        print_float(p, v.im);
        td_printf(p, "]");
        break;
    case TD_L_LIST:
        td_printf(p, "[");
        for (uint32_t i = 0; i < v.small; i++) {
            if (i) td_printf(p, ", ");
            used += td_print_literal(p, ir, words + used, n - used);
        }
        td_printf(p, "]");
        break;
    default: td_printf(p, "\"\""); break;
    }
    return used;
}
