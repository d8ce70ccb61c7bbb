/* Attributes in memory and as 32-bit words.
 *
 * A tag word: bits 0-3 the kind, bits 4-5 the kind of a scalar, bits 6-7 the form, bits 8-31 a small signed value or
 * the length of a list. Forms: SMALL has its value in the tag; NARROW is a list of one word a number; WIDE has two
 * words a number, low half first. The writer takes the shortest form; the reader takes every form that is well made.
 * Invariant: attributes that were decoded match the signature in count, kinds, dtypes and room, whatever the words
 * were. */
#include "proto/attrs.h"

#include "proto/op.h"
#include <assert.h>
#include <inttypes.h>

enum { FORM_SMALL = 0, FORM_NARROW = 1, FORM_WIDE = 2 };

static uint32_t tag(unsigned kind, unsigned scalar_kind, unsigned form, int32_t value)
{
    return kind | scalar_kind << 4 | form << 6 | (uint32_t)value << 8;
}
static unsigned tag_kind(uint32_t w)
{
    return w & 15;
}
static unsigned tag_scalar(uint32_t w)
{
    return w >> 4 & 3;
}
static unsigned tag_form(uint32_t w)
{
    return w >> 6 & 3;
}
static int32_t tag_value(uint32_t w)
{
    return (int32_t)w >> 8;
}

/* ---- building */

static td_attr *next(td_attrs *a, td_attr_kind kind)
{
    if (a->count >= TD_MAX_ATTRS) return NULL;
    td_attr *at = &a->at[a->count++];
    at->kind = kind;
    at->count = 0;
    return at;
}

bool td_attrs_none(td_attrs *a)
{
    return next(a, TD_A_NONE) != NULL;
}

bool td_attrs_int(td_attrs *a, int64_t v)
{
    td_attr *at = next(a, TD_A_INT);
    if (at) at->i = v;
    return at != NULL;
}

bool td_attrs_float(td_attrs *a, double v)
{
    td_attr *at = next(a, TD_A_FLOAT);
    if (at) at->f = v;
    return at != NULL;
}

bool td_attrs_bool(td_attrs *a, bool v)
{
    td_attr *at = next(a, TD_A_BOOL);
    if (at) at->i = v ? 1 : 0;
    return at != NULL;
}

bool td_attrs_scalar(td_attrs *a, td_scalar v)
{
    td_attr *at = next(a, TD_A_SCALAR);
    if (at) at->s = v;
    return at != NULL;
}

bool td_attrs_dtype(td_attrs *a, td_dtype v)
{
    if (v == TD_DTYPE_NONE) return td_attrs_none(a);
    td_attr *at = next(a, TD_A_DTYPE);
    if (at) at->i = v;
    return at != NULL;
}

bool td_attrs_ints(td_attrs *a, int n, const int64_t *v)
{
    if (n < 0 || n > TD_MAX_INTS - a->nints) return false;
    td_attr *at = next(a, TD_A_INTS);
    if (!at) return false;
    at->count = (uint16_t)n;
    at->first = a->nints;
    for (int i = 0; i < n; i++) a->ints[a->nints + i] = v[i];
    a->nints = (uint16_t)(a->nints + n);
    return true;
}

void td_attrs_copy(td_attrs *to, const td_attrs *from)
{
    to->count = from->count;
    to->nints = from->nints;
    memcpy(to->at, from->at, from->count * sizeof from->at[0]);
    memcpy(to->ints, from->ints, from->nints * sizeof from->ints[0]);
}

/* ---- writing */

static bool small_int(int64_t v)
{
    return v >= -(1 << 23) && v < 1 << 23;
}

/* A float whose value is a small whole number, other than -0. */
static bool small_float(double v)
{
    return v > -8388608.0 && v < 8388608.0 && v == (double)(int32_t)v && !(v == 0 && __builtin_signbit(v));
}

static bool narrow(const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i] != (int32_t)v[i]) return false;
    return true;
}

/* Both return the words used; `w` may be NULL to count only. */
static size_t put_pair(uint32_t *w, const void *bits)
{
    uint64_t v;
    memcpy(&v, bits, 8);
    if (w) w[0] = (uint32_t)v, w[1] = (uint32_t)(v >> 32);
    return 2;
}

static size_t put_int(uint32_t *w, unsigned kind, unsigned sk, int64_t v)
{
    bool small = small_int(v);
    if (w) w[0] = tag(kind, sk, small ? FORM_SMALL : FORM_WIDE, small ? (int32_t)v : 0);
    return 1 + (small ? 0 : put_pair(w ? w + 1 : NULL, &v));
}

static size_t put_float(uint32_t *w, unsigned kind, unsigned sk, double v)
{
    bool small = small_float(v);
    if (w) w[0] = tag(kind, sk, small ? FORM_SMALL : FORM_WIDE, small ? (int32_t)v : 0);
    return 1 + (small ? 0 : put_pair(w ? w + 1 : NULL, &v));
}

static size_t put_scalar(uint32_t *w, td_scalar s)
{
    if (s.kind <= TD_S_INT) return put_int(w, TD_A_SCALAR, s.kind, s.i);
    if (s.kind == TD_S_FLOAT) return put_float(w, TD_A_SCALAR, s.kind, s.re);
    if (w) w[0] = tag(TD_A_SCALAR, s.kind, FORM_WIDE, 0);
    return 1 + put_pair(w ? w + 1 : NULL, &s.re) + put_pair(w ? w + 3 : NULL, &s.im);
}

static size_t put_ints(uint32_t *w, const int64_t *v, int n)
{
    bool half = narrow(v, n);
    if (!w) return 1 + (size_t)n * (half ? 1 : 2);
    w[0] = tag(TD_A_INTS, 0, half ? FORM_NARROW : FORM_WIDE, n);
    for (int i = 0; i < n; i++)
        if (half) w[1 + i] = (uint32_t)v[i];
        else put_pair(w + 1 + 2 * i, &v[i]);
    return 1 + (size_t)n * (half ? 1 : 2);
}

static size_t put(uint32_t *w, const td_attrs *a, int k)
{
    const td_attr *at = &a->at[k];
    switch (at->kind) {
    case TD_A_FLOAT: return put_float(w, TD_A_FLOAT, 0, at->f);
    case TD_A_SCALAR: return put_scalar(w, at->s);
    case TD_A_INTS: return put_ints(w, a->ints + at->first, at->count);
    case TD_A_NONE: return put_int(w, TD_A_NONE, 0, 0);
    default: return put_int(w, at->kind, 0, at->i);
    }
}

static bool same_scalar(const td_scalar *a, const td_scalar *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind <= TD_S_INT) return a->i == b->i;
    return !memcmp(&a->re, &b->re, 8) && (a->kind == TD_S_FLOAT || !memcmp(&a->im, &b->im, 8));
}

static bool is_default(const td_attr_def *def, const td_attrs *a, int k)
{
    const td_attr *at = &a->at[k];
    if (!def->has_default || def->value.kind != at->kind) return false;
    switch (at->kind) {
    case TD_A_NONE: return true;
    case TD_A_FLOAT: return !memcmp(&at->f, &def->value.f, 8);
    case TD_A_SCALAR: return same_scalar(&at->s, &def->value.s);
    case TD_A_INTS:
        return at->count == def->value.count &&
               (at->count == 0 || !memcmp(a->ints + at->first, def->ints, at->count * sizeof a->ints[0]));
    default: return at->i == def->value.i;
    }
}

static int count_sent(const td_op *op, const td_attrs *a)
{
    int n = a->count;
    while (n > 0 && is_default(&op->attrs[n - 1], a, n - 1)) n--;
    return n;
}

size_t td_attrs_words(const td_op *op, const td_attrs *a)
{
    size_t words = 0;
    assert(a->count == op->nattrs);
    for (int k = 0, n = count_sent(op, a); k < n; k++) words += put(NULL, a, k);
    return words;
}

size_t td_attrs_encode(const td_op *op, const td_attrs *a, uint32_t *words)
{
    size_t at = 0;
    assert(a->count == op->nattrs);
    for (int k = 0, n = count_sent(op, a); k < n; k++) at += put(words + at, a, k);
    return at;
}

/* ---- reading */

typedef struct reader {
    const uint32_t *at, *end;
} reader;

static bool take_pair(reader *r, void *bits)
{
    if (r->end - r->at < 2) return false;
    uint64_t v = r->at[0] | (uint64_t)r->at[1] << 32;
    memcpy(bits, &v, 8);
    r->at += 2;
    return true;
}

static bool take_int(reader *r, uint32_t t, int64_t *v)
{
    *v = tag_value(t);
    return tag_form(t) == FORM_SMALL || (tag_form(t) == FORM_WIDE && take_pair(r, v));
}

static bool take_float(reader *r, uint32_t t, double *v)
{
    *v = tag_value(t);
    return tag_form(t) == FORM_SMALL || (tag_form(t) == FORM_WIDE && take_pair(r, v));
}

static bool take_scalar(reader *r, uint32_t t, td_scalar *s)
{
    *s = (td_scalar){.kind = (td_scalar_kind)tag_scalar(t)};
    switch (s->kind) {
    case TD_S_BOOL: return take_int(r, t, &s->i) && (s->i == 0 || s->i == 1);
    case TD_S_INT: return take_int(r, t, &s->i);
    case TD_S_FLOAT: return take_float(r, t, &s->re);
    default: return tag_form(t) == FORM_WIDE && take_pair(r, &s->re) && take_pair(r, &s->im);
    }
}

static bool take_ints(reader *r, uint32_t t, td_attrs *a, td_attr *at)
{
    int n = tag_value(t);
    unsigned form = tag_form(t);
    if (n < 0 || n > TD_MAX_INTS - a->nints || form == FORM_SMALL || form > FORM_WIDE) return false;
    if (r->end - r->at < (form == FORM_WIDE ? 2 : 1) * (ptrdiff_t)n) return false;
    at->count = (uint16_t)n;
    at->first = a->nints;
    for (int i = 0; i < n; i++)
        if (form == FORM_NARROW) a->ints[a->nints + i] = (int32_t)*r->at++;
        else take_pair(r, &a->ints[a->nints + i]);
    a->nints = (uint16_t)(a->nints + n);
    return true;
}

static bool take(reader *r, uint32_t t, td_attrs *a, td_attr *at)
{
    at->kind = (uint8_t)tag_kind(t);
    at->count = 0;
    switch (at->kind) {
    case TD_A_NONE: return t == TD_A_NONE;
    case TD_A_INT: return take_int(r, t, &at->i);
    case TD_A_FLOAT: return take_float(r, t, &at->f);
    case TD_A_BOOL: return take_int(r, t, &at->i) && (at->i == 0 || at->i == 1);
    case TD_A_SCALAR: return take_scalar(r, t, &at->s);
    case TD_A_DTYPE: return take_int(r, t, &at->i) && at->i >= 0 && at->i < TD_DTYPE_COUNT;
    case TD_A_INTS: return take_ints(r, t, a, at);
    default: return false;
    }
}

static bool take_default(const td_attr_def *def, td_attrs *a, td_attr *at)
{
    if (!def->has_default) return false;
    *at = def->value;
    if (at->kind != TD_A_INTS) return true;
    if (at->count > TD_MAX_INTS - a->nints) return false;
    at->first = a->nints;
    memcpy(a->ints + a->nints, def->ints, at->count * sizeof a->ints[0]);
    a->nints = (uint16_t)(a->nints + at->count);
    return true;
}

static int malformed(const td_op *op, int k, td_error *e)
{
    return td_fail(e, TD_E_PROTOCOL, "%s: the words of attribute '%s' are malformed", op->name, op->attrs[k].name);
}

int td_attrs_decode(const td_op *op, const uint32_t *words, size_t count, td_attrs *a, td_error *e)
{
    reader r = {words, count ? words + count : words};
    td_attrs_init(a);
    for (int k = 0; k < op->nattrs; k++) {
        const td_attr_def *def = &op->attrs[k];
        td_attr *at = &a->at[k];
        a->count = (uint16_t)(k + 1);
        if (r.at == r.end) {
            if (!take_default(def, a, at))
                return td_fail(e, TD_E_INVALID, "%s: attribute '%s' is required", op->name, def->name);
            continue;
        }
        uint32_t t = *r.at++;
        if (tag_kind(t) != def->kind && !(t == TD_A_NONE && def->optional)) return malformed(op, k, e);
        if (!take(&r, t, a, at)) return malformed(op, k, e);
    }
    if (r.at == r.end) return TD_OK;
    return td_fail(e, TD_E_PROTOCOL, "%s: %zu words too many after its %d attributes", op->name, (size_t)(r.end - r.at),
                   op->nattrs);
}
