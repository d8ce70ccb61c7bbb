/* Parsing and building records. The parser is the only reader of counts that came from outside: what it returned can be
 * walked without further checks. */
#include "proto/wire/record.h"

#include <stdlib.h>

int td_record_parse(const uint32_t *words, size_t count, td_record *r, td_error *e)
{
    if (count < TD_RECORD_HEAD)
        return td_fail(e, TD_E_PROTOCOL, "record is cut short: %zu words left, a head takes %d", count, TD_RECORD_HEAD);
    uint32_t w0 = words[0], w1 = words[1], total = words[2];
    r->op = (uint16_t)w0;
    r->mode = w0 >> 16 & ((1u << TD_RM_DEVICE) - 1);
    r->device = w0 >> (16 + TD_RM_DEVICE) & (TD_MAX_DEVICES - 1);
    r->flags = (uint8_t)(w0 >> 24);
    r->nin = w1 & 0xfff;
    r->nout = w1 >> 12 & 0xfff;
    r->words = total;
    uint32_t head = TD_RECORD_HEAD + (r->flags & TD_RF_SITE ? 1u : 0u), fixed = head + r->nin + r->nout;
    if (total < fixed || total > count)
        return td_fail(e, TD_E_PROTOCOL, "record of op %u says %u words; its ids need %u and %zu are left", r->op,
                       total, fixed, count);
    r->site = r->flags & TD_RF_SITE ? words[TD_RECORD_HEAD] : 0;
    r->in = words + head;
    r->out = r->in + r->nin;
    r->rest = words + fixed;
    r->nrest = total - fixed;
    for (unsigned i = 0; i < r->nin; i++)
        if (r->in[i] > TD_MAX_ID && r->in[i] != TD_NUMBER_BIT)
            return td_fail(e, TD_E_PROTOCOL, "input %u has id %u; ids go from 1 to %u", i, r->in[i], TD_MAX_ID);
    for (unsigned i = 0; i < r->nout; i++)
        if (r->out[i] == 0 || r->out[i] > TD_MAX_ID)
            return td_fail(e, TD_E_PROTOCOL, "output %u has id %u; ids go from 1 to %u", i, r->out[i], TD_MAX_ID);
    return TD_OK;
}

static double word_double(const uint32_t *w)
{
    uint64_t bits = td_words_u64(w);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void put_double(uint32_t *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    td_words_put_u64(w, bits);
}

static unsigned number_words(unsigned kind)
{
    return kind == TD_S_COMPLEX ? 5 : 3;
}

int td_record_number(const td_record *r, uint32_t *at, td_scalar *s, td_error *e)
{
    *s = (td_scalar){0};
    if (*at >= r->nrest) return td_fail(e, TD_E_PROTOCOL, "a number is announced as input but not there");
    const uint32_t *w = r->rest + *at;
    if (w[0] > TD_S_COMPLEX || r->nrest - *at < number_words(w[0]))
        return td_fail(e, TD_E_PROTOCOL, "a number is malformed (kind %u, %u words left)", w[0], r->nrest - *at);
    s->kind = (td_scalar_kind)w[0];
    if (s->kind <= TD_S_INT) s->i = (int64_t)td_words_u64(w + 1);
    else s->re = word_double(w + 1);
    if (s->kind == TD_S_BOOL) s->i = s->i != 0;
    if (s->kind == TD_S_COMPLEX) s->im = word_double(w + 3);
    *at += number_words(w[0]);
    return TD_OK;
}

static unsigned put_number(uint32_t *w, const td_scalar *s)
{
    w[0] = s->kind;
    if (s->kind <= TD_S_INT) td_words_put_u64(w + 1, (uint64_t)s->i);
    else put_double(w + 1, s->re);
    if (s->kind == TD_S_COMPLEX) put_double(w + 3, s->im);
    return number_words(s->kind);
}

void td_words_deinit(td_words *w)
{
    free(w->at);
    *w = (td_words){0};
}

uint32_t *td_words_room(td_words *w, size_t more)
{
    if (w->capacity - w->count < more) {
        size_t capacity = w->capacity ? w->capacity * 2 : 1024;
        while (capacity - w->count < more) capacity *= 2;
        uint32_t *at = realloc(w->at, capacity * sizeof *at);
        if (!at) return NULL;
        w->at = at;
        w->capacity = capacity;
    }
    return w->at + w->count;
}

/* Head, site and ids; returns where the rest begins, or NULL (with `e`). */
static uint32_t *put_head(td_words *w, unsigned op, unsigned mode, unsigned flags, uint32_t site, int nin,
                          const uint32_t *in, int nout, const uint32_t *out, size_t rest, td_error *e)
{
    size_t total = TD_RECORD_HEAD + (site ? 1u : 0u) + (size_t)nin + (size_t)nout + rest;
    if (nin > 0xfff || nout > 0xfff) {
        td_fail(e, TD_E_INVALID, "%d inputs and %d outputs: one call takes at most 4095 of each", nin, nout);
        return NULL;
    }
    uint32_t *p = td_words_room(w, total);
    if (!p) {
        td_no_memory(e, "for a record of %zu words", total);
        return NULL;
    }
    *p++ = op | mode << 16 | (flags | (site ? TD_RF_SITE : 0u)) << 24;
    *p++ = (uint32_t)nin | (uint32_t)nout << 12;
    *p++ = (uint32_t)total;
    if (site) *p++ = site;
    for (int i = 0; i < nin; i++) *p++ = in[i];
    for (int i = 0; i < nout; i++) *p++ = out[i];
    w->count += total;
    return p;
}

int td_words_op(td_words *w, const td_op *op, unsigned mode, unsigned flags, uint32_t site, int nin, const uint32_t *in,
                int nout, const uint32_t *out, const td_scalar *numbers, const td_attrs *attrs, td_error *e)
{
    size_t rest = attrs->count ? td_attrs_words(op, attrs) : 0;
    int nnumbers = 0;
    for (int i = 0; i < nin; i++)
        if (in[i] == TD_NUMBER_BIT) rest += number_words(numbers[nnumbers++].kind);
    uint32_t *p = put_head(w, op->id, mode, flags, site, nin, in, nout, out, rest, e);
    if (!p) return e ? e->code : TD_E_SYSTEM;
    for (int i = 0; i < nnumbers; i++) p += put_number(p, &numbers[i]);
    if (attrs->count) td_attrs_encode(op, attrs, p);
    return TD_OK;
}

int td_words_control(td_words *w, unsigned rec, unsigned mode, uint32_t site, int nin, const uint32_t *in, int nout,
                     const uint32_t *out, int nrest, const uint32_t *rest, td_error *e)
{
    uint32_t *p = put_head(w, rec, mode, 0, site, nin, in, nout, out, (size_t)nrest, e);
    if (!p) return e ? e->code : TD_E_SYSTEM;
    if (nrest) memcpy(p, rest, (size_t)nrest * sizeof *p);
    return TD_OK;
}
