/* An item on its way to a client: of a queue, or the outputs of a model.
 *
 * It may have thousands of tensors and a note of megabytes, so it travels in parts: a turn binds some, waits for some
 * to be computed, packs some. The reply is packed as it goes, the note last. Invariant: all of an item's tensors are
 * bound, or in the end none, and an item that was not bound is its owner's again. */
#ifndef TENSORD_DAEMON_SESSION_CALLS_DELIVER_H
#define TENSORD_DAEMON_SESSION_CALLS_DELIVER_H

#include "daemon/session/calls/calls.h"

typedef struct td_delivery td_delivery;

/* Whose item it is. */
typedef struct td_delivery_kind {
    /* More tensors came than ids were brought: answers that, and takes the item. */
    void (*leave)(td_session *s, td_delivery *d);
    /* All are bound: the item is the session's. Notes d->place and d->left. NULL: there is nothing to note. */
    void (*taken)(td_session *s, td_delivery *d);
    /* It was not taken: the item goes back, and d->item is NULL then. NULL: it is let go of. */
    void (*give_back)(td_session *s, td_delivery *d);
} td_delivery_kind;

/* A held request whose answer is an item, and what has become of that: of its tensors so many are bound to ids, were
 * waited for, are packed. Each kind of request has a struct that begins with it. */
struct td_delivery {
    td_held h;
    const td_delivery_kind *kind;
    td_queued_item *item; /* what came */
    int bound, there, packed;
    enum { TD_DELIVERY_TAKES, TD_DELIVERY_BINDS, TD_DELIVERY_AWAITS, TD_DELIVERY_PACKS, TD_DELIVERY_NOTES } stage;
    bool asleep;    /* it waits for its values */
    bool taken;     /* the item is the session's */
    uint64_t place; /* as it is told */
    uint32_t left;  /* behind it in the queue */
    size_t room;    /* that its tensors take in the reply, at most */
    size_t noted;
    td_long_reply reply;
    const td_storage *brings; /* the descriptor of its segment goes with the reply; NULL: none does */
    bool writable;            /* ... which is that */
    uint64_t outside;         /* see Item in the protocol */
    bool outside_rest;
    size_t n_ids;
    uint32_t *ids; /* to bind */
};

/* So many bytes of a kind of it, and room for the ids, which must be free. NULL with `e`. */
void *td_delivery_new(td_session *s, const td_wait_kind *wait, const td_delivery_kind *kind, size_t bytes,
                      uint64_t serial, size_t n_ids, const uint32_t *ids, td_error *e);
/* The `finish` of its wait: d->item has come, or its error. And its `cancel`. */
void td_delivery_finish(td_session *s, td_wait *w);
void td_delivery_cancel(td_session *s, td_wait *w);
/* What a tensor takes in such a reply at most, in bytes, and what all else takes. */
enum { TD_DELIVERY_REST = 64 };
size_t td_delivery_packs(const td_tensor *t);

#endif
