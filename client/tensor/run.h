/* The way of an op by its row of the table, in parts: td_run() of tensord_bind.h goes it as a whole. */
#ifndef TENSORD_CLIENT_TENSOR_RUN_H
#define TENSORD_CLIENT_TENSOR_RUN_H
#include "client/tensor/array.h"

/* td_run() with the client's lock held, of an op that is not made of others; `c` is not NULL. */
int td_run_locked(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                  const td_attrs *attrs, int max_out, td_array **out, int *nout);

/* A further result goes to who wants it, or is released. */
void td_hand_over(td_array *a, td_array **out);

/* td_run_locked() of an op that is made of others: compose.c. */
int td_run_composed(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                    const td_attrs *attrs, int max_out, td_array **out, int *nout);

/* The op that a call of one that is made of others just is, on the same inputs, with its attributes in `to`;
 * *pick says which result is wanted. NULL: it is not, or not seen to be at once. */
const td_op *td_just(td_client *c, const td_op *op, int nin, const td_arg *in, const td_attrs *attrs, td_attrs *to,
                     int *pick);

/* Input i is NULL: is that an optional one, or comes it from a call that failed? */
int td_take_null(const td_op *op, int nin, int i);
/* May a result that looks like `want` be written into an array that looks like `have`? */
int td_check_written(const td_op *op, const char *where, const td_desc *want, const td_desc *have);

/* A list parameter among the inputs: copies it into `in` (room for TD_MAX_INPUTS) at *n. False when it is too long. */
bool td_give_list(td_arg *in, int *n, const td_op *op, td_list l);

#endif
