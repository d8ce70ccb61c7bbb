/* Calls of ops written as text, and what inference makes of them as text: the tests of proto are tables of such pairs.
 *
 *     "cat f32[2,3] f32[2,3] | 0"            gives  "float32[4, 3]"
 *     "add i64[2] #1.5"                      gives  "float32[2]"
 *
 * Before the bar the operands: a dtype with its shape (f32[] is 0-d), with @strides after it when it is not contiguous,
 * #number, or _ for an absent one. After it the attributes in the order of the signature: numbers, true, false, none,
 * [lists] and dtypes, read as the signature's kinds say. Trailing attributes that are not given take their defaults. */
#ifndef TENSORD_TESTS_UNIT_OP_CALLS_H
#define TENSORD_TESTS_UNIT_OP_CALLS_H

#include "proto/ops/op.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CALL_MAX 64

typedef struct call {
    td_desc descs[CALL_MAX];
    td_scalar scalars[CALL_MAX];
    td_operand in[CALL_MAX];
    td_attrs attrs;
    td_desc out[CALL_MAX];
    td_inference f;
    td_error error;
    int nin;
} call;

__attribute__((noreturn)) static inline void call_bad(const char *what, const char *at)
{
    fprintf(stderr, "test text: %s at '%s'\n", what, at);
    abort();
}

/* A number of any kind: 3, 1.5, inf, nan, true, 2j. */
static inline td_scalar call_scalar(const char *text)
{
    char *end;
    if (!strcmp(text, "true") || !strcmp(text, "false")) return td_bool(text[0] == 't');
    long long i = strtoll(text, &end, 10);
    if (!*end) return td_int(i);
    double d = strtod(text, &end);
    if (*end == 'j') return td_complex(0, d);
    if (*end) call_bad("no number", text);
    return td_float(d);
}

/* "[1,2]" into v; returns how many. *end is what follows. */
static inline int call_list(const char *text, int64_t *v, const char **end)
{
    int n = 0;
    if (*text++ != '[') call_bad("no list", text);
    while (*text != ']') {
        char *next;
        v[n++] = strtoll(text, &next, 10);
        if (next == text) call_bad("no list", text);
        text = *next == ',' ? next + 1 : next;
    }
    *end = text + 1;
    return n;
}

static inline td_dtype call_dtype(const char *text, size_t n)
{
    static const struct {
        const char *name;
        td_dtype t;
    } names[] = {{"b", TD_BOOL},      {"u8", TD_UINT8},    {"i8", TD_INT8},       {"i16", TD_INT16},
                 {"i32", TD_INT32},   {"i64", TD_INT64},   {"f16", TD_FLOAT16},   {"bf16", TD_BFLOAT16},
                 {"f32", TD_FLOAT32}, {"f64", TD_FLOAT64}, {"c64", TD_COMPLEX64}, {"c128", TD_COMPLEX128},
                 {"u16", TD_UINT16},  {"u32", TD_UINT32},  {"u64", TD_UINT64}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == n && !strncmp(text, names[i].name, n)) return names[i].t;
    call_bad("no dtype", text);
}

static inline void call_operand(call *c, const char *word)
{
    td_operand *in = &c->in[c->nin];
    int64_t shape[16], stride[16];
    if (!strcmp(word, "_")) {
        *in = (td_operand){0};
    } else if (*word == '#') {
        c->scalars[c->nin] = call_scalar(word + 1);
        *in = (td_operand){.scalar = &c->scalars[c->nin]};
    } else {
        td_desc *d = &c->descs[c->nin];
        const char *at = strchr(word, '[');
        if (!at) call_bad("no operand", word);
        td_dtype t = call_dtype(word, (size_t)(at - word));
        int n = call_list(at, shape, &at);
        if (td_desc_contiguous(d, t, n, shape, &c->error)) call_bad(c->error.message, word);
        if (*at == '@' && call_list(at + 1, stride, &at) == n) memcpy(d->stride, stride, (size_t)n * sizeof *stride);
        if (!strcmp(at, "cuda")) d->device = TD_CUDA;
        *in = (td_operand){.desc = d};
    }
    c->nin++;
}

static inline void call_attr(call *c, const char *word)
{
    int64_t v[TD_MAX_INTS];
    const char *end;
    if (c->attrs.count >= c->f.op->nattrs) call_bad("too many attributes", word);
    unsigned kind = c->f.op->attrs[c->attrs.count].kind;
    if (!strcmp(word, "none")) td_attrs_none(&c->attrs);
    else if (kind == TD_A_INT) td_attrs_int(&c->attrs, strtoll(word, NULL, 10));
    else if (kind == TD_A_FLOAT) td_attrs_float(&c->attrs, strtod(word, NULL));
    else if (kind == TD_A_BOOL) td_attrs_bool(&c->attrs, !strcmp(word, "true"));
    else if (kind == TD_A_SCALAR) td_attrs_scalar(&c->attrs, call_scalar(word));
    else if (kind == TD_A_TEXT) td_attrs_text(&c->attrs, word, strlen(word));
    else if (kind == TD_A_DTYPE) td_attrs_dtype(&c->attrs, call_dtype(word, strlen(word)));
    else td_attrs_ints(&c->attrs, call_list(word, v, &end), v);
}

static inline void call_defaults(call *c)
{
    const td_op *op = c->f.op;
    for (int k = c->attrs.count; k < op->nattrs && op->attrs[k].has_default; k++) {
        const td_attr_def *def = &op->attrs[k];
        if (def->value.kind == TD_A_INTS) td_attrs_ints(&c->attrs, def->value.count, def->ints);
        else c->attrs.at[c->attrs.count++] = def->value;
    }
}

/* Read a call; the text is trusted, and a mistake in it ends the program. */
static inline void call_read(call *c, const char *text)
{
    char copy[512], *save = NULL;
    bool attrs = false;
    memset(c, 0, sizeof *c);
    snprintf(copy, sizeof copy, "%s", text);
    char *word = strtok_r(copy, " ", &save);
    c->f.op = td_op_by_name(word);
    if (!c->f.op) call_bad("no op", word);
    while ((word = strtok_r(NULL, " ", &save))) {
        if (!strcmp(word, "|")) attrs = true;
        else if (attrs) call_attr(c, word);
        else call_operand(c, word);
    }
    call_defaults(c);
    c->f.in = c->in, c->f.nin = c->nin, c->f.attrs = &c->attrs, c->f.out = c->out, c->f.max_out = CALL_MAX;
}

/* Outputs as text joined by "; ", with @strides+offset where they are views; or the message of the error. */
static inline const char *call_infer(call *c)
{
    static char text[4096];
    char part[256];
    size_t at = 0;
    if (td_op_infer(&c->f, &c->error)) return c->error.message;
    text[0] = 0;
    for (int i = 0; i < c->f.nout; i++) {
        const td_desc *d = &c->out[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? "; " : "", td_desc_text(d, part, sizeof part));
        if (c->f.op->flags & TD_OF_VIEW)
            at += (size_t)snprintf(text + at, sizeof text - at, "@%s+%lld",
                                   td_shape_text(d->ndim, d->stride, part, sizeof part), (long long)d->offset);
        else if (!td_desc_is_contiguous(d))
            at += (size_t)snprintf(text + at, sizeof text - at, "@%s",
                                   td_shape_text(d->ndim, d->stride, part, sizeof part));
    }
    return text;
}

#endif
