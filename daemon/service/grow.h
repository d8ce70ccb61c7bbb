/* What a td_need says is to be made first, and takes long: a helper thread makes it while the loop goes on.
 *
 * A small segment is made at once. Invariant: a growth is its asker's again when `done` is called, and its bytes, which
 * were reserved in its heap before, are there then or are reserved no longer. */
#ifndef TENSORD_DAEMON_SERVICE_GROW_H
#define TENSORD_DAEMON_SERVICE_GROW_H

#include "daemon/tensor/tensor.h"

typedef struct td_service td_service;

typedef struct td_growth {
    td_heap *heap; /* with `size` bytes reserved */
    uint64_t size;
    void (*done)(struct td_growth *g); /* on the loop thread, perhaps at once; g->rc says how it went */
    void *arg;
    int rc;
    /* the rest is grow.c's */
    const td_budget *budget;
    td_segment_kind kind;
    td_segment *segment;
    td_error error; /* its code is rc when `done` is called */
} td_growth;

void td_grow(td_service *s, td_growth *g);
/* Fails as a growth with this error failed, for the call that lacked what the need says. */
int td_grow_refused(const td_error *why, const td_need *need, td_error *e);
/* Makes the work of a need, which is taken, and calls `done`, perhaps at once. */
int td_make_aside(td_service *s, td_need *need, void (*done)(void *arg), void *arg, td_error *e);

#endif
