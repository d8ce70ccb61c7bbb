/* What records a thread hears of what it asks for: each op, each look at a value, each number that goes into an op.
 *
 * This room tells it, and knows nothing of it: program/trace.c is one. Where none is on, all this costs is one look at
 * a thread's variable: who tells asks td_recording first. */
#ifndef TENSORD_CLIENT_TENSOR_RECORDER_H
#define TENSORD_CLIENT_TENSOR_RECORDER_H
#include "client/tensor/array.h"

typedef struct td_recorder {
    /* ---- told under the client's lock */

    /* An op was asked for, in the form in which the program asked: before what it is made of. */
    void (*op)(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
               const td_attrs *attrs, int nout, td_array *const *out);
    /* `made` has the same bytes as `of`, outside of its graph. */
    void (*data_of)(td_array *made, td_array *of);
    /* A tensor with the values at `data` was made. */
    void (*data)(td_array *made, const void *data);

    /* ---- told without it */

    /* Its value is looked at: "item". A program does not see what is then done by it. */
    void (*look)(const td_array *a, const char *how);
    /* This cannot be part of a program: the recording will fail. `a`: only if it belongs to it; NULL: whatever it is.
     */
    void (*refuse)(const td_array *a, const char *where, const char *what);

    /* ---- numbers that the program follows: each has a name, 0 for none */

    /* The size of a dimension, or with -1 the count of elements. */
    uint64_t (*size)(td_array *a, int dim);
    /* From now on these integers stand there, until they are gone; which stand there. */
    void (*stand)(int n, const int64_t *at, const uint64_t *names);
    void (*gone)(const int64_t *at);
    void (*standing)(td_ints v, uint64_t *names);
    /* The sizes of `a`, as what follows asks for something of that shape; gone after that. */
    td_ints (*shape)(td_array *a);
    /* What the attribute appended last was given as. */
    void (*give)(td_attrs *a, td_arg v);
    void (*give_ints)(td_attrs *a, td_ints v);
} td_recorder;

extern _Thread_local const td_recorder *td_recording __attribute__((tls_model("initial-exec"))); /* or NULL */

#endif
