/* Reading attributes from words that came from outside. Invariant: attributes that were read match the signature in
 * count, kinds, dtypes and room, whatever the words were. */
#include "proto/ops/attrs_words.h"
#include "proto/ops/op.h"

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

static bool take_text(reader *r, uint32_t t, td_attrs *a, td_attr *at)
{
    int n = tag_value(t), words = (n + 3) / 4;
    if (n < 0 || n > TD_MAX_TEXT || n / 8 >= TD_MAX_INTS - a->nints || tag_form(t) != FORM_NARROW) return false;
    if (r->end - r->at < words || memchr(r->at, 0, (size_t)n)) return false;
    at->count = (uint16_t)n;
    at->first = a->nints;
    a->nints = (uint16_t)(a->nints + td_attr_room(at));
    a->ints[a->nints - 1] = 0;
    memcpy(a->ints + at->first, r->at, (size_t)n);
    r->at += words;
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
    case TD_A_TEXT: return take_text(r, t, a, at);
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
    if (at->count) memcpy(a->ints + a->nints, def->ints, at->count * sizeof a->ints[0]);
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
