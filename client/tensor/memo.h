/* The last inference of each pointwise op. See memo.c. */
#ifndef TENSORD_CLIENT_TENSOR_MEMO_H
#define TENSORD_CLIENT_TENSOR_MEMO_H

#include "client/tensor/array.h"
#include "proto/ops/look.h"

enum { TD_MEMOS = 64, TD_MEMO_WORDS = 12 };

struct td_memo {
    uint64_t look[TD_LOOK_WORDS]; /* begins with the op's id: 0 for nothing */
    td_desc out;
    uint32_t nwords;
    uint32_t words[TD_MEMO_WORDS]; /* the attributes as a record has them */
};

td_memo *td_memo_first(td_client *c, const td_op *op);
/* Where calls like this one are remembered; NULL when they are not. */
static inline td_memo *td_memo_of(td_client *c, const td_op *op)
{
    if (!(op->flags & TD_OF_POINTWISE) || op->nouts != 1) return NULL;
    return c->tensor.memos ? &c->tensor.memos[op->id % TD_MEMOS] : td_memo_first(c, op);
}
bool td_memo_fits(const td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs);
void td_memo_keep(td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs,
                  const td_desc *out);

#endif
