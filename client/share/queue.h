/* A queue's handle: what queue.c and item.c share. */
#ifndef TENSORD_CLIENT_QUEUE_H
#define TENSORD_CLIENT_QUEUE_H

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
/* Under the lock: one user less. */
void td_queue_unuse(td_queue *q);
int td_check_put(td_queue *q, td_list arrays);
/* An answer's item into these handles; *needs: it has more tensors than there are, and stayed where it is. */
int td_take_item(td_queue_item *item, int brought, uint32_t *needs, const td_reply *r, int *fd, td_error *e);

#endif
