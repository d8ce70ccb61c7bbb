/* See words.h. */
#include "shm/board/words.h"
#include "shm/board/combine.h"

#include <stdio.h>

const char *td_board_say_call(const td_board_call *k, char *text, size_t size)
{
    const char *name = td_collective_name(k->kind);
    bool in_buffer = k->place == TD_BOARD_IN_BUFFER;
    unsigned long long count = in_buffer ? k->count : k->whole;
    unsigned nr = k->nr;
    const char *dtype = k->kind == TD_COLL_BARRIER ? "" : td_dtype_name((td_dtype)k->dtype);
    const char *op = td_reduce_op_name(k->op);
    switch (k->kind) {
    case TD_COLL_ALL_REDUCE:
        if (in_buffer)
            snprintf(text, size, "%s #%u (%s[%llu] at byte %llu of buffer %u, %s)", name, nr, dtype, count,
                     (unsigned long long)k->offset, k->root, op);
        else snprintf(text, size, "%s #%u (%s[%llu], %s)", name, nr, dtype, count, op);
        break;
    case TD_COLL_REDUCE:
        snprintf(text, size, "%s #%u (%s[%llu], %s, to rank %u)", name, nr, dtype, count, op, k->root);
        break;
    case TD_COLL_REDUCE_SCATTER:
        snprintf(text, size, "%s #%u (%s[%llu] to each, %s)", name, nr, dtype, count, op);
        break;
    case TD_COLL_BROADCAST:
        snprintf(text, size, "%s #%u (%s[%llu] of rank %u)", name, nr, dtype, count, k->root);
        break;
    case TD_COLL_SCATTER:
        snprintf(text, size, "%s #%u (%s[%llu] to each, of rank %u)", name, nr, dtype, count, k->root);
        break;
    case TD_COLL_GATHER: snprintf(text, size, "%s #%u (%s[%llu], to rank %u)", name, nr, dtype, count, k->root); break;
    case TD_COLL_ALL_GATHER:
        if (k->op) snprintf(text, size, "buffer #%u", nr);
        else snprintf(text, size, "%s #%u (%s[%llu])", name, nr, dtype, count);
        break;
    case TD_COLL_ALL_TO_ALL:
        if (k->op) snprintf(text, size, "%s #%u (%s, as many to each as it says)", name, nr, dtype);
        else snprintf(text, size, "%s #%u (%s[%llu] to each)", name, nr, dtype, count);
        break;
    default: snprintf(text, size, "%s #%u", name, nr);
    }
    return text;
}
