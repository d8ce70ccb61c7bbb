/* Where something stands in a source, and how it is refused: file, line, column, what is wrong and what to write
 * instead, then the line itself with a caret below.
 *
 *     train.py:14:9: a program cannot call 'np.log'; use td.log
 *             y = np.log(x)
 *                 ^~~~~~
 *
 * The first fault ends the work: it jumps to whoever began it, who owns all memory. */
#ifndef TENSORD_CLIENT_SCRIPT_FAULT_H
#define TENSORD_CLIENT_SCRIPT_FAULT_H

#include "client/tensord_script.h"

#include <setjmp.h>

/* Lines from 1; columns in bytes from 0, the end is behind the last, as Python's ast counts. */
typedef struct td_span {
    uint32_t line, column, end_line, end_column;
} td_span;

typedef struct td_fault {
    const td_script_source *source;
    td_error *error;
    jmp_buf out;
} td_fault;

_Noreturn void td_refuse(td_fault *f, td_code code, td_span at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void td_refuse_memory(td_fault *f);

/* Room in a list for `more` than n elements; what is in it may move. There are never more than INT32_MAX. */
void td_script_room(td_fault *f, void *list, uint32_t n, uint32_t more, uint32_t *room, size_t each);

static inline td_span td_span_to(td_span from, td_span to)
{
    return (td_span){from.line, from.column, to.end_line, to.end_column};
}

#endif
