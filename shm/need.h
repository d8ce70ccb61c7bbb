/* What a caller lacks: the word that goes from the heap up to whoever can wait.
 *
 * A function that takes memory has a td_need among its arguments. NULL says that its caller cannot wait: the function
 * grows the heap, and makes what a kernel wants, by itself. Otherwise it returns one of the codes of td_need_may_pass()
 * and has changed nothing but the td_need, which says what could not be had, where, and what may be tried before the
 * function is called again. The caller clears the td_need before the first call. */
#ifndef TENSORD_SHM_NEED_H
#define TENSORD_SHM_NEED_H

#include "proto/base/status.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct td_heap;

#define TD_WAIT_GROW (-1) /* td_need says what is to be made; then it is worth calling again */

/* What takes long to make: any thread calls make(arg), then frees arg. */
typedef struct td_need_work {
    void (*make)(const void *arg); /* NULL: nothing is to be made */
    void *arg;
} td_need_work;

typedef struct td_need {
    uint64_t bytes; /* TD_WAIT_GROW: of the segment to make (td_budget_make) and to adopt (td_heap_adopt) ... */
    struct td_heap *heap; /* ... by this heap */
    unsigned device;      /* whose memory lacks (proto/base/device.h) */
    td_need_work work;    /* TD_WAIT_GROW, instead of a segment: to make first. It is the caller's: taken, or dropped */
} td_need;

/* Is it a failure that may pass: for want of memory, or of what is due to an account? */
static inline bool td_need_may_pass(int rc)
{
    return rc == TD_WAIT_GROW || rc == TD_E_MEMORY || rc == TD_E_QUOTA;
}

/* Its caller gives up. */
static inline void td_need_drop(td_need *n)
{
    free(n->work.arg);
    *n = (td_need){0};
}

/* The work to make; it is not the need's any more. */
static inline td_need_work td_need_take_work(td_need *n)
{
    td_need_work w = n->work;
    n->work = (td_need_work){0};
    return w;
}

#endif
