/* The last inference of each pointwise op, for programs that do the same again and again.
 *
 * A pointwise result follows from how the call looks (proto/ops/look.h), and from less than that: strides do not matter
 * but for what may lie channels last, because other results are packed, nor (but for some rules, see below) do the
 * values of numbers. So a call that agrees in the rest has the remembered result; anything else is inferred anew. */
#include "client/tensor/memo.h"
#include "client/tensor/internal.h"

#include <stdlib.h>

TD_LOOK_INLINE bool look(uint64_t *words, bool keeps, const td_op *op, int nin, const td_operand *in,
                         const td_attrs *attrs)
{
    td_looking l = td_look_begin(words, keeps);
    td_look_put(&l, (uint64_t)nin << 16 | op->id);
    if (l.differ) return false;
    for (int i = 0; i < nin; i++) {
        if (i >= 2 && !td_look_room(&l, TD_LOOK_OPERAND)) return false; /* two always fit */
        if (in[i].desc) td_look_tensor(&l, in[i].desc, in[i].desc->ndim == 4 || in[i].desc->ndim == 5);
        else if (!in[i].scalar) td_look_put(&l, TD_LOOK_ABSENT);
        else if (op->flags & TD_OF_WEIGHS) td_look_number(&l, in[i].scalar);
        else td_look_kind(&l, in[i].scalar);
    }
    td_look_attrs(&l, attrs);
    return td_look_good(&l);
}

td_memo *td_memo_first(td_client *c, const td_op *op)
{
    c->above.forget = td_tensors_forget;
    c->tensor.memos = calloc(TD_MEMOS, sizeof *c->tensor.memos);
    return c->tensor.memos ? &c->tensor.memos[op->id % TD_MEMOS] : NULL;
}

bool td_memo_fits(const td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs)
{
    return look((uint64_t *)m->look, false, op, nin, in, attrs);
}

void td_memo_keep(td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs, const td_desc *out)
{
    size_t words = td_attrs_words(op, attrs);
    if (words > TD_MEMO_WORDS || !look(m->look, true, op, nin, in, attrs)) {
        m->look[0] = 0;
        return;
    }
    td_attrs_encode(op, attrs, m->words);
    m->nwords = (uint32_t)words;
    m->out = *out;
}
