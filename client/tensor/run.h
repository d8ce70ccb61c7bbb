/* Running an op by its row of the table: what the generated functions and the Python module stand on. */
#ifndef TENSORD_CLIENT_RUN_H
#define TENSORD_CLIENT_RUN_H
#include "client/tensor/array.h"

/* Run an op. `c` may be NULL when an input is an array. `in` are the tensor arguments in the order of the signature,
 * lists flattened, NULL arrays for absent optional ones; `attrs` the other arguments, complete. Up to `max_out` handles
 * are made into out[], one reference each, and *nout says how many. With `flags` TD_RF_OUT, out[] are given arrays that
 * are written instead. `where` is a text that lives as long as the client, told apart by its address, or NULL. */
int td_run(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
           const td_attrs *attrs, int max_out, td_array **out, int *nout);

enum { TD_MAX_LIST = TD_MAX_INPUTS - TD_MAX_PARAMS }; /* tensors of a list in one record */

/* The same with the client's lock held, for an op that is not made of others; `c` is not NULL. */
int td_run_locked(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                  const td_attrs *attrs, int max_out, td_array **out, int *nout);

/* Run an op whose only tensors are a list that must not have gaps (cat, stack), of any length: join.c. One result, made
 * into *out or (TD_RF_OUT) written into it. */
int td_run_list(const char *where, const td_op *op, unsigned flags, td_list l, const td_attrs *attrs, td_array **out);

/* A further result goes to who wants it, or is released. */
void td_hand_over(td_array *a, td_array **out);

/* The same for one that is: compose.c. */
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

/* The number that an argument is; and back. */
td_scalar td_scalar_of(td_arg a);
td_arg td_arg_of(td_scalar s);

/* Append the next attribute of `op` as it was given. False when it has the wrong kind or there is no room (this
 * thread's error says so). */
bool td_give_number(td_attrs *a, const td_op *op, td_arg v);
bool td_give_int(td_attrs *a, const td_op *op, int64_t v);
bool td_give_float(td_attrs *a, const td_op *op, double v);
bool td_give_bool(td_attrs *a, const td_op *op, bool v);
bool td_give_dtype(td_attrs *a, const td_op *op, td_dtype v);
bool td_give_text(td_attrs *a, const td_op *op, const char *v); /* NULL: none */
bool td_give_ints(td_attrs *a, const td_op *op, td_ints v);

/* A list parameter among the inputs: copies it into `in` (room for TD_MAX_INPUTS) at *n. False when it is too long. */
bool td_give_list(td_arg *in, int *n, const td_op *op, td_list l);

#endif
