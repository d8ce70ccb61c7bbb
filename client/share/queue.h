/* A queue's handle: what queue.c and item.c share. */
#ifndef TENSORD_CLIENT_SHARE_QUEUE_H
#define TENSORD_CLIENT_SHARE_QUEUE_H

#include "client/tensor/array.h"
#include <stdatomic.h>

struct td_queue {
    td_client *client;
    char name[256];
    uint32_t number, session, capacity, role, keep_ms;
    td_reply_wait put; /* the put whose answer is still to come, ... */
    bool on_its_way;   /* ... if there is one */
    int expected;      /* tensors of an item: as many as the last one that had some */
    /* Threads in a call, also those that wait for the client's lock, and requests; the last one frees what was closed
     * meanwhile. Above 32 bits the generation of the process: those of a parent are not here. */
    _Atomic uint64_t users;
    unsigned late;     /* gets that were given up, and whose answers are still to come: until then no other is asked */
    _Atomic bool told; /* that it waits for nobody */
    bool leaving;      /* a thread closes it, ... */
    bool closed;       /* ... has closed it */
};

/* Enter the client, with the queue open in this very session, and be one of its users. */
int td_queue_enter(td_queue *q, const char *op);
/* One user more; under the lock, one less. */
void td_queue_use(td_queue *q);
void td_queue_unuse(td_queue *q);
int td_check_put(td_queue *q, td_list arrays);

/* What a put says, with the ids that it says it of. */
typedef struct td_put_call {
    Td__Wire__Call call;
    Td__Wire__QueuePut put;
    uint32_t ids[TD_MAX_ITEM];
} td_put_call;
void td_say_put(td_put_call *p, const td_queue *q, td_list arrays, const void *note, size_t note_size, uint32_t ms);

/* Under the lock, of a queue that was entered: put and get as td_async_put() and td_async_get() ask, and wait. */
int td_put_item(td_queue *q, td_list arrays, const void *note, size_t note_size, int timeout_ms);
int td_get_item(td_queue *q, td_queue_item *out, int timeout_ms);

#endif
