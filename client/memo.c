/* The last inference of each pointwise op, for programs that do the same again and again.
 *
 * A pointwise result follows from the op, the shapes, dtypes and devices of its arrays, the kinds of its numbers and
 * the values of its attributes, and (but for some rules, see below) from nothing else: strides do not matter, because
 * results are packed. So a call that agrees in all of these has the remembered result; anything else is inferred anew.
 */
#include "client/memo.h"

#include "proto/opid.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 64 };

/* dtype, ndim, device and layout at once. */
static uint32_t head_of(const td_desc *d)
{
    uint32_t head;
    _Static_assert(offsetof(td_desc, layout) == offsetof(td_desc, dtype) + 3, "four bytes in a row");
    memcpy(&head, &d->dtype, sizeof head);
    return head;
}

/* Some rules weigh the value of a number, not only its kind (integers to the power of -1). */
static bool weighs_numbers(const td_op *op)
{
    return op->id == TD_OP_POW || op->id == TD_OP_MASKED_FILL;
}

static uint32_t head_of_number(const td_scalar *s)
{
    return TD_MEMO_NUMBER + (s ? (uint32_t)s->kind + 1 : 0);
}

td_memo *td_memo_of(td_client *c, const td_op *op, int nin, const td_attrs *attrs)
{
    if (!(op->flags & TD_OF_POINTWISE) || op->nouts != 1 || nin > TD_MEMO_INPUTS || attrs->count > TD_MEMO_ATTRS)
        return NULL;
    if (!c->memos) c->memos = calloc(ENTRIES, sizeof *c->memos);
    return c->memos ? &c->memos[op->id % ENTRIES] : NULL;
}

bool td_memo_fits(const td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs)
{
    if (m->op != op || m->nin != nin || m->nattrs != attrs->count) return false;
    for (int i = 0; i < nin; i++) {
        const td_memo_input *k = &m->in[i];
        const td_desc *d = in[i].desc;
        if (d) {
            if (k->head != head_of(d)) return false;
            for (int j = 0; j < d->ndim; j++)
                if (k->shape[j] != d->shape[j]) return false;
        } else if (k->head != head_of_number(in[i].scalar) || (in[i].scalar && weighs_numbers(op))) {
            return false;
        }
    }
    for (int i = 0; i < attrs->count; i++)
        if (!td_attr_same(&m->attrs[i], &attrs->at[i])) return false;
    return true;
}

void td_memo_keep(td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs, const td_desc *out)
{
    m->op = NULL;
    size_t words = td_attrs_words(op, attrs);
    if (words > TD_MEMO_WORDS || attrs->nints) return;
    td_attrs_encode(op, attrs, m->words);
    m->nwords = (uint32_t)words;
    m->nin = nin;
    m->nattrs = attrs->count;
    memcpy(m->attrs, attrs->at, attrs->count * sizeof attrs->at[0]);
    for (int i = 0; i < nin; i++) {
        const td_desc *d = in[i].desc;
        m->in[i].head = d ? head_of(d) : head_of_number(in[i].scalar);
        if (d) memcpy(m->in[i].shape, d->shape, sizeof d->shape);
    }
    m->out = *out;
    m->op = op;
}
