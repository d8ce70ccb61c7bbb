/* Counts and reuse of this room's objects. All of it belongs to the loop thread.
 *
 * A freelist keeps a bounded number of dead objects, so that making and dropping a small tensor never reaches malloc;
 * more than that go back to malloc, so that a burst of a million leaves no million behind. */
#ifndef TENSORD_DAEMON_TENSOR_LIVE_H
#define TENSORD_DAEMON_TENSOR_LIVE_H

#include "daemon/tensor/tensor.h"
#include <assert.h>
#include <stdlib.h>

extern _Thread_local td_live td_loop_live;

#define TD_FREELIST_MOST 4096

typedef struct td_freelist {
    void *top; /* each dead object begins with the next one's address */
    uint32_t count;
} td_freelist;

/* late.c: the storage ends. */
void td_storage_drop_late(td_storage *s);

static inline void *td_freelist_take(td_freelist *f, size_t size)
{
    void *p = f->top;
    if (!p) return malloc(size);
    f->top = *(void **)p;
    f->count--;
    return p;
}

static inline void td_freelist_give(td_freelist *f, void *p)
{
    if (f->count >= TD_FREELIST_MOST) {
        free(p);
        return;
    }
    *(void **)p = f->top;
    f->top = p;
    f->count++;
}

static inline void td_freelist_empty(td_freelist *f)
{
    for (void *next; f->top; f->top = next) {
        next = *(void **)f->top;
        free(f->top);
    }
    f->count = 0;
}
void td_storages_forget_dead(void); /* storage.c */

#endif
