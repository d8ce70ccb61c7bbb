/* See words.h. */
#include "shm/board/words.h"
#include "shm/board/combine.h"

#include <stdio.h>

const char *td_board_say_call(const td_board_call *k, char *text, size_t size)
{
    const char *name = td_collective_name(k->kind);
    unsigned long long count = k->whole;
    unsigned nr = k->nr;
    const char *dtype = k->kind == TD_COLL_BARRIER ? "" : td_dtype_name((td_dtype)k->dtype);
    if (k->kind == TD_COLL_ALL_REDUCE)
        snprintf(text, size, "%s #%u (%s[%llu], %s)", name, nr, dtype, count, td_reduce_op_name(k->op));
    else if (k->kind == TD_COLL_BROADCAST)
        snprintf(text, size, "%s #%u (%s[%llu] of rank %u)", name, nr, dtype, count, k->root);
    else if (k->kind == TD_COLL_ALL_GATHER) snprintf(text, size, "%s #%u (%s[%llu])", name, nr, dtype, count);
    else snprintf(text, size, "%s #%u", name, nr);
    return text;
}
