/* Attributes in memory, and writing them as words (attrs_words.h) in the shortest form that holds them. */
#include "proto/ops/attrs.h"

#include "proto/ops/attrs_words.h"
#include "proto/ops/op.h"
#include <assert.h>
#include <inttypes.h>

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

bool td_attrs_text(td_attrs *a, const char *text, size_t length)
{
    if (length > TD_MAX_TEXT || memchr(text, 0, length) || (int)(length / 8) >= TD_MAX_INTS - a->nints) return false;
    td_attr *at = next(a, TD_A_TEXT);
    if (!at) return false;
    at->count = (uint16_t)length;
    at->first = a->nints;
    a->nints = (uint16_t)(a->nints + td_attr_room(at));
    a->ints[a->nints - 1] = 0;
    memcpy(a->ints + at->first, text, length);
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

static size_t put_text(uint32_t *w, const char *text, unsigned length)
{
    size_t words = (length + 3) / 4;
    if (!w) return 1 + words;
    w[0] = tag(TD_A_TEXT, 0, FORM_NARROW, (int32_t)length);
    memset(w + 1, 0, words * sizeof *w);
    memcpy(w + 1, text, length);
    return 1 + words;
}

static size_t put(uint32_t *w, const td_attrs *a, int k)
{
    const td_attr *at = &a->at[k];
    switch (at->kind) {
    case TD_A_FLOAT: return put_float(w, TD_A_FLOAT, 0, at->f);
    case TD_A_SCALAR: return put_scalar(w, at->s);
    case TD_A_INTS: return put_ints(w, a->ints + at->first, at->count);
    case TD_A_TEXT: return put_text(w, td_attr_text(a, k), at->count);
    case TD_A_NONE: return put_int(w, TD_A_NONE, 0, 0);
    default: return put_int(w, at->kind, 0, at->i);
    }
}

/* The very bits: 0 and -0 differ, a NaN is itself. NOLINTBEGIN(bugprone-suspicious-memory-comparison) */
static bool same_bits(const double *a, const double *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}
/* NOLINTEND(bugprone-suspicious-memory-comparison) */

static bool same_scalar(const td_scalar *a, const td_scalar *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind <= TD_S_INT) return a->i == b->i;
    return same_bits(&a->re, &b->re) && (a->kind == TD_S_FLOAT || same_bits(&a->im, &b->im));
}

static bool is_default(const td_attr_def *def, const td_attrs *a, int k)
{
    const td_attr *at = &a->at[k];
    if (!def->has_default || def->value.kind != at->kind) return false;
    switch (at->kind) {
    case TD_A_NONE: return true;
    case TD_A_FLOAT: return same_bits(&at->f, &def->value.f);
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
