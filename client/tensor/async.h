/* A request for a tensor's value: what requests begin with whose answer has to be looked at afterwards. */
#ifndef TENSORD_CLIENT_TENSOR_ASYNC_H
#define TENSORD_CLIENT_TENSOR_ASYNC_H

#include "client/tensor/array.h"
#include "client/wire/request.h"

typedef struct td_value_request {
    td_request request; /* first */
    td_array *array;    /* a reference; NULL: none (yet) */
    void *buffer;
    size_t bytes;
    bool own_buffer;
    uint64_t writes; /* of the client, when its address was asked for */
} td_value_request;

extern const td_request_kind td_value_request_kind;

static inline td_value_request *td_value_request_of(td_request *r)
{
    return (td_value_request *)r;
}

/* Under the lock: ask where the tensor's bytes lie, once they are there. */
int td_ask_address(td_request *r, uint32_t ms);
void td_value_request_free(td_request *r); /* td_request_kind.free */

#endif
