/* Ids that an answer binds: handles are made before the question goes out, as the daemon is told their ids. What the
 * answer did not bind is dropped, what it bound and nobody wants is released. */
#ifndef TENSORD_CLIENT_TENSOR_AWAITED_H
#define TENSORD_CLIENT_TENSOR_AWAITED_H

#include "client/tensor/array.h"
#include "client/wire/request.h"

/* A question whose answer binds ids. */
typedef struct td_awaited {
    td_question question; /* first */
    int n;                /* handles; those that are still here at the end are dropped */
    td_array *at[];
} td_awaited;

static inline td_awaited *td_awaited_of(td_question *q)
{
    return (td_awaited *)q;
}

/* Of a request, with n handles; NULL: raised. */
td_awaited *td_awaited_new(td_request *r, int n);
/* The question's end (td_question.end): lets go of the handles. */
bool td_awaited_end(td_client *c, td_question *q, bool answered);
/* The answer has bound the first n of its ids, which nobody wants. */
void td_awaited_unwanted(td_awaited *b, int n);

/* The same of a handle that is in no question. */
void td_array_unwanted(td_array *a);

/* A call that was to bind these handles' ids failed. When the daemon said so, they are free; when its answer could not
 * be taken, they are released; when the wait was given up, they are released if the answer still comes. */
void td_abandon(td_client *c, const td_reply_wait *w, int n, td_array *const *at);

#endif
