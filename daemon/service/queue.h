/* What a queue is made of; shared by the files about queues only. */
#ifndef TENSORD_DAEMON_SERVICE_QUEUE_H
#define TENSORD_DAEMON_SERVICE_QUEUE_H

#include "daemon/service/service.h"
#include "proto/base/hash.h"

#define TD_DEATHS_KEPT 16 /* of a queue, by name */
/* How much fits into a queue that has as much room as there is: items; bytes of what they hold beside tensors. */
#define TD_QUEUE_MOST 65536
#define TD_QUEUE_MOST_BYTES (64u << 20)

typedef struct td_death {
    uint64_t at; /* puts until then: it is told after what came before it */
    char who[96];
} td_death;

/* Who waits, oldest first; a client may hold tens of thousands. */
typedef struct td_queue_waits {
    td_queue_wait *first, *last;
    uint32_t count;
} td_queue_waits;

struct td_named_queue {
    UT_hash_handle hh;
    char name[TD_NAME_MAX + 1];
    uint32_t capacity, size, deaths;
    bool sized; /* somebody said the capacity; until then it is 1, or ... */
    bool open;  /* ... TD_QUEUE_MOST, within TD_QUEUE_MOST_BYTES */
    uint64_t note_bytes;
    uint64_t bytes; /* of what lies in it, and of what waits for room */
    td_queued_item *first, **last;
    td_member *members;
    td_queue_waits putters, getters;
    uint64_t puts, gets;
    uint32_t producers, consumers; /* members */
    uint32_t producers_ever;       /* before the first producer an empty queue waits */
    bool ended;
    bool met;         /* somebody has joined as a consumer */
    bool keep_said;   /* somebody said keep_ms */
    uint32_t keep_ms; /* how long items stay when nobody has joined */
    td_deadline gone; /* armed: nobody has, and items lie in it */
    td_service *service;
    uint32_t watching; /* getters that deaths are told */
    bool mourned;      /* none of them has one to be told */
    td_deadline more;  /* armed: waits that can go on are left */
    td_death *dead;    /* the last TD_DEATHS_KEPT, in a ring; NULL before the first */
    td_dead remains;   /* of one that has gone: its items are let go of in parts */
};

#define TD_QUEUE_KEEP_MS 60000 /* unless said: so long items wait for the first consumer */
/* Has it no room for another item? */
bool td_queue_full(const td_named_queue *q);
/* How long items would stay if all left now. */
uint32_t td_queue_keeps(const td_named_queue *q);
/* Let waits that can go on do so, one at a time: some now, more soon. */
void td_queue_settle(td_service *s, td_named_queue *q);
/* The oldest item, or NULL; it is the caller's. */
td_queued_item *td_queue_pop(td_named_queue *q);
/* walk.c: a walk that is at the item, the putter or the queue goes on behind it. */
void td_items_pass(td_service *s, const td_queued_item *i);
void td_putters_pass(td_service *s, const td_queue_wait *w);
void td_queues_pass(td_service *s, const td_named_queue *q);

#endif
