/* What ops save for a backward, told to a thread that wants to know: the way of an op has two places for it, before its
 * record and behind its end. grad/saved.c fills them. */
#ifndef TENSORD_CLIENT_TENSOR_SAVING_H
#define TENSORD_CLIENT_TENSOR_SAVING_H
#include "client/tensor/array.h"

typedef struct td_saving {
    td_on_saved take; /* NULL: nobody asks */
    void *context;
    int (*begin)(td_client *c, const char *op); /* under the lock, which is given up when this fails */
    void (*over)(td_client *c);                 /* under the lock: the op has failed */
    int (*tell)(td_client *c);                  /* not under the lock: what was saved; an error is the op's */
} td_saving;
extern _Thread_local td_saving td_is_saving __attribute__((tls_model("initial-exec")));

/* May what this thread asks for save something that somebody wants to know of? */
static inline bool td_wants_saved(void)
{
    return td_is_saving.take && !(td_mode() & (TD_RM_GRAD_OFF | TD_RM_INFERENCE));
}

/* td_enter for what may save something that this thread wants to know of; then, where td_wants_saved(), `over` is due,
 * or behind td_leave `tell`. */
static inline int td_enter_saving(td_client *c, const char *op)
{
    int rc = td_enter(c, op);
    return rc || !td_wants_saved() ? rc : td_is_saving.begin(c, op);
}

#endif
