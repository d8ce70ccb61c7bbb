/* The last inference of each pointwise op. See memo.c. */
#ifndef TENSORD_CLIENT_MEMO_H
#define TENSORD_CLIENT_MEMO_H

#include "client/client.h"

enum { TD_MEMO_INPUTS = 3, TD_MEMO_ATTRS = 2, TD_MEMO_WORDS = 12 };
#define TD_MEMO_NUMBER UINT32_C(0xff000000) /* no layout is that large */

typedef struct td_memo_input {
    uint32_t head; /* dtype, ndim, device, layout; or TD_MEMO_NUMBER and the kind of the number */
    int64_t shape[TD_MAX_DIMS];
} td_memo_input;

struct td_memo {
    const td_op *op; /* NULL: empty */
    int nin, nattrs;
    td_memo_input in[TD_MEMO_INPUTS];
    td_attr attrs[TD_MEMO_ATTRS];
    td_desc out;
    uint32_t nwords;
    uint32_t words[TD_MEMO_WORDS]; /* the attributes as a record has them */
};

/* Where calls like this one are remembered; NULL when they are not. */
td_memo *td_memo_of(td_client *c, const td_op *op, int nin, const td_attrs *attrs);
bool td_memo_fits(const td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs);
void td_memo_keep(td_memo *m, const td_op *op, int nin, const td_operand *in, const td_attrs *attrs,
                  const td_desc *out);

#endif
