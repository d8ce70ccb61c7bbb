/* format(value, spec), as Python writes it: a value's digits by the C library, then signs, groups and what fills. All
 * of it is bounded by the limits of a spec, so that it is one step. */
#include "daemon/graph/run.h"
#include "proto/program/spec.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN = TD_SPEC_PRECISION + 400,  /* the longest float: 309 digits before the point */
    GROUPED = 2 * TD_SPEC_WIDTH + 600 /* with zeros and ',' before it */
};

/* A number, in parts: -0x 00,123 .5e+10. */
typedef struct parts {
    const char *sign, *prefix;
    char shown[SHOWN]; /* digits, and what follows them */
    uint32_t digits;   /* how many characters of it are such */
} parts;

static const char *sign_of(const td_spec *s, bool minus)
{
    return minus ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
}

/* ---- ints */

static void binary(uint64_t v, char *out)
{
    unsigned n = 1;
    while (n < 64 && v >> n) n++;
    for (unsigned k = 0; k < n; k++) out[k] = (char)('0' + (v >> (n - 1 - k) & 1));
    out[n] = 0;
}

static void show_int(const td_spec *s, int64_t v, parts *p)
{
    uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned long long u = size;
    p->sign = sign_of(s, v < 0);
    p->prefix = "";
    switch (s->type) {
    case 'b': binary(size, p->shown), p->prefix = "0b"; break;
    case 'o': snprintf(p->shown, SHOWN, "%llo", u), p->prefix = "0o"; break;
    case 'x': snprintf(p->shown, SHOWN, "%llx", u), p->prefix = "0x"; break;
    case 'X': snprintf(p->shown, SHOWN, "%llX", u), p->prefix = "0X"; break;
    default: snprintf(p->shown, SHOWN, "%llu", u);
    }
    if (!s->alternate) p->prefix = "";
    p->digits = (uint32_t)strlen(p->shown);
}

/* ---- floats */

/* Like 'g', with at least one digit behind the point: "{:.3}". */
static void show_short(double v, int precision, char *out)
{
    int digits = precision > 1 ? precision : 1;
    snprintf(out, SHOWN, "%.*e", digits - 1, v);
    bool small = atoi(strchr(out, 'e') + 1) == digits - 1; /* 'g' would write no exponent yet */
    if (!small) snprintf(out, SHOWN, "%.*g", digits, v);
    else if (digits > 1) {
        char *e = strchr(out, 'e'), *zero = e;
        while (zero[-1] == '0') zero--;
        if (zero[-1] == '.') zero--;
        memmove(zero, e, strlen(e) + 1);
    }
    if (!strpbrk(out, ".e")) snprintf(out + strlen(out), SHOWN - strlen(out), ".0");
}

static void show_finite(const td_spec *s, double v, char *out)
{
    char form[8], type = s->type == 'n' ? 'g' : s->type == '%' ? 'f' : s->type;
    int precision = s->precision < 0 ? 6 : s->precision;
    if (!s->type && s->precision < 0) {
        td_prim_float_text(v, false, out, SHOWN);
        return;
    }
    if (!s->type) {
        show_short(v, precision, out);
        return;
    }
    snprintf(form, sizeof form, s->alternate ? "%%#.*%c" : "%%.*%c", type);
    snprintf(out, SHOWN - 1, form, precision, v);
}

static void show_float(const td_spec *s, double v, parts *p)
{
    bool upper = s->type && isupper((unsigned char)s->type);
    p->prefix = "";
    p->sign = sign_of(s, signbit(v) && !isnan(v));
    if (s->type == '%') v *= 100;
    if (isnan(v)) snprintf(p->shown, SHOWN, upper ? "NAN" : "nan");
    else if (isinf(v)) snprintf(p->shown, SHOWN, upper ? "INF" : "inf");
    else show_finite(s, fabs(v), p->shown);
    if (s->type == '%') snprintf(p->shown + strlen(p->shown), 2, "%%");
    p->digits = (uint32_t)strspn(p->shown, "0123456789");
}

/* ---- what stands around */

/* The digits from behind, with a sign between groups, up to `least` characters with zeros before. */
static uint32_t group(const td_spec *s, const parts *p, uint32_t least, char *out)
{
    uint32_t size = s->type && strchr("boxX", s->type) ? 4 : 3, n = 0;
    for (uint32_t k = 0; k < p->digits || n < least; k++) {
        if (s->group && k && k % size == 0) out[n++] = s->group;
        out[n++] = k < p->digits ? p->shown[p->digits - 1 - k] : '0';
    }
    for (uint32_t k = 0; k < n / 2; k++) {
        char c = out[k];
        out[k] = out[n - 1 - k], out[n - 1 - k] = c;
    }
    return n;
}

static char *put(char *out, const char *text, size_t n)
{
    return (char *)memcpy(out, text, n) + n;
}

static char *put_fill(char *out, const td_spec *s, uint32_t times)
{
    const char *fill = s->nfill ? s->fill : " ";
    for (; times; times--) out = put(out, fill, s->nfill ? s->nfill : 1);
    return out;
}

/* What is before the filling of '=', and what is behind. */
typedef struct body {
    const char *head, *text;
    uint32_t n, chars; /* of text: bytes, and characters */
    char align;
} body;

static int give(td_prim_call *c, const td_spec *s, const body *b)
{
    uint32_t head = (uint32_t)strlen(b->head), chars = head + b->chars, fill = s->nfill ? s->nfill : 1;
    uint32_t wide = s->width > 0 && (uint32_t)s->width > chars ? (uint32_t)s->width - chars : 0;
    uint32_t left = b->align == '>' ? wide : b->align == '^' ? wide / 2 : 0, inside = b->align == '=' ? wide : 0;
    int rc = td_val_box(c->purse, TD_T_STR, head + b->n + wide * fill, c->out, c->e); /* refused when too long */
    if (rc) return rc;
    char *out = put_fill(c->out->box->chars, s, left);
    out = put(out, b->head, head);
    out = put_fill(out, s, inside);
    out = put(out, b->text, b->n);
    put_fill(out, s, wide - left - inside);
    return TD_OK;
}

static int give_number(td_prim_call *c, const td_spec *s, const parts *p)
{
    char head[8], text[GROUPED];
    char align = !s->align ? '>' : s->align == 'z' ? '=' : s->align;
    uint32_t around = (uint32_t)(strlen(p->sign) + strlen(p->prefix) + strlen(p->shown)) - p->digits;
    bool zeros = p->digits && align == '=' && s->nfill == 1 && s->fill[0] == '0' && s->width > (int32_t)around;
    uint32_t n = group(s, p, zeros ? (uint32_t)s->width - around : 0, text);
    size_t rest = strlen(p->shown + p->digits);
    put(text + n, p->shown + p->digits, rest);
    snprintf(head, sizeof head, "%s%s", p->sign, p->prefix);
    return give(c, s, &(body){head, text, n + (uint32_t)rest, n + (uint32_t)rest, align});
}

/* ---- by type */

/* Bytes of its first `most` characters, and how many these are. */
static uint32_t cut(const td_boxed *text, uint32_t most, uint32_t *chars)
{
    uint32_t k = 0;
    for (*chars = 0; k < text->n; k++) {
        bool begins = ((unsigned char)text->chars[k] & 0xc0) != 0x80;
        if (begins && *chars == most) break;
        *chars += begins;
    }
    return k;
}

static int of_text(td_prim_call *c, const td_spec *s, const td_boxed *text)
{
    body b = {"", text->chars, .align = !s->align || s->align == 'z' ? '<' : s->align};
    b.n = cut(text, s->precision < 0 ? UINT32_MAX : (uint32_t)s->precision, &b.chars);
    return give(c, s, &b);
}

static int of_float(td_prim_call *c, const td_spec *s, double v)
{
    parts p;
    show_float(s, v, &p);
    return give_number(c, s, &p);
}

static int of_int(td_prim_call *c, const td_spec *s, int64_t v)
{
    parts p;
    if (s->type && strchr("eEfFgG%", s->type)) return of_float(c, s, (double)v);
    show_int(s, v, &p);
    return give_number(c, s, &p);
}

static int of_value(td_prim_call *c, const td_spec *s, const td_val *v)
{
    const char *wrong = td_spec_misfit(s, v->kind);
    if (wrong) return td_fail(c->e, TD_E_INVALID, "format(): %s", wrong);
    if (v->kind == TD_T_STR) return of_text(c, s, v->box);
    return v->kind == TD_T_FLOAT ? of_float(c, s, v->re) : of_int(c, s, v->i);
}

/* The number that a tensor is, once it is known. */
static int number_of(td_prim_call *c, td_tensor *t, td_val *out)
{
    td_scalar s;
    int rc = td_exec_item(c->run, t, &s, c->e);
    if (rc) return rc;
    if (s.kind == TD_S_BOOL) *out = td_val_bool(s.i);
    else if (s.kind == TD_S_INT) *out = td_val_int(s.i);
    else *out = (td_val){.kind = s.kind == TD_S_FLOAT ? TD_T_FLOAT : TD_T_COMPLEX, .re = s.re, .im = s.im};
    return TD_OK;
}

static int formatted(td_prim_call *c)
{
    const td_boxed *text = c->in[1]->box;
    td_val item;
    const td_val *v = c->in[0];
    td_spec s;
    if (v->kind == TD_T_TENSOR && v->tensor->desc.ndim == 0) {
        int rc = number_of(c, v->tensor, &item);
        if (rc) return rc;
        v = &item;
    }
    if (!text->n) {
        td_prim_call plain = *c;
        plain.in = &v;
        return td_prim_str(&plain);
    }
    const char *wrong = td_spec_read(text->chars, text->n, &s);
    return wrong ? td_fail(c->e, TD_E_INVALID, "format(): %s", wrong) : of_value(c, &s, v);
}

td_prim_fn *const td_prims_format[TD_PRIM_COUNT] = {
    [TD_PRIM_FORMATTED] = formatted,
};
