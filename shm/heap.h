/* A heap: extents of bytes handed out of segments. Book-keeping is in the daemon's private memory only.
 *
 * Used by the loop thread alone. Freed extents are recycled warm, inside their heap. Growing takes time, so it is
 * split: td_heap_alloc says what it lacks (need.h), someone makes a segment (td_budget_make, perhaps on a helper
 * thread), td_heap_adopt adds it. One heap for each session, one for the service, some of service segments for what
 * goes at once; all draw on one budget. */
#ifndef TENSORD_SHM_HEAP_H
#define TENSORD_SHM_HEAP_H

#include "shm/need.h"
#include "shm/segment.h"

#define TD_EXTENT_ALIGN 64 /* of every extent's offset and size; large ones (>= 2 MiB) start on a page */

typedef struct td_heap td_heap;

/* What the heaps of one user have committed. */
typedef struct td_budget_user {
    struct td_budget_user *next;
    uint32_t uid, heaps;
    uint64_t committed;
} td_budget_user;

/* What all heaps of a daemon may commit together. Used by the loop thread. */
typedef struct td_budget {
    uint64_t limit;      /* bytes that may be committed */
    uint64_t user_limit; /* of them by the heaps of one user's sessions, those that ended included; 0: no such limit */
    td_budget_user *users;
    uint64_t committed; /* bytes of segments that exist, or are being made */
    uint64_t work;      /* bytes beside the segments, for kernels to work with, which count as much */
    uint64_t used;      /* bytes of extents handed out */
    uint32_t segments;
    uint32_t next_segment_id;
    uint32_t generation;
    td_shm_backend backend;
    /* Makes a segment, on any thread: what td_budget_make() calls. NULL: td_segment_create(). Set before anything is
     * made.
     */
    int (*make)(td_segment **out, td_segment_kind kind, uint64_t size, void *arg, td_error *e);
    void *make_arg;
    uint64_t granule; /* segments are multiples of it, and few (a device's arenas); 0: pages, and they begin small */
    td_segment *warm; /* segments given back whole, kept for the next who needs one (bounded) */
    uint64_t warm_bytes, warm_limit;
    uint32_t warm_count, warm_most; /* each has two descriptors */
    /* Gives a segment back to the system; large ones take milliseconds. NULL: td_segment_free, right here. */
    void (*dispose)(td_segment *s, void *arg);
    void *dispose_arg;
    /* A segment leaves its heap, and its number will not come again: who has it mapped may let go of it. NULL: nobody.
     */
    void (*leaving)(const td_segment *s, void *arg);
    void *leaving_arg;
} td_budget;

typedef struct td_extent {
    td_segment *segment;   /* NULL: empty */
    uint64_t offset, size; /* bytes; size is what was asked for, rounded up to the alignment */
    void *block;           /* the heap's own */
} td_extent;

void td_budget_init(td_budget *b, uint64_t limit, td_shm_backend backend);
void td_budget_deinit(td_budget *b);
/* Memory that is no segment, promised to who makes it elsewhere. TD_E_MEMORY when there is no room. */
int td_budget_work(td_budget *b, uint64_t bytes, td_error *e);
void td_budget_work_done(td_budget *b, uint64_t bytes);
td_budget *td_heap_budget(const td_heap *h);
td_segment_kind td_heap_kind(const td_heap *h);

int td_heap_new(td_heap **out, td_budget *budget, td_segment_kind kind, uint32_t uid, td_error *e);
/* All extents must be back (asserted), unless the heap was orphaned. */
void td_heap_free(td_heap *h);
/* The owner has gone but extents are still in use by others: the heap frees itself with the last of them. `mapped` says
 * that a process may still have its segments mapped writable: then they are not recycled until td_heap_unmapped(). */
void td_heap_orphan(td_heap *h, bool mapped);
void td_heap_unmapped(td_heap *h);
/* The empty segments of an orphan go to another heap of the same process, which may have them mapped. Returns their
 * bytes. An orphan that is left with nothing should be told td_heap_unmapped(). */
uint64_t td_heap_hand_over(td_heap *from, td_heap *to);
/* The memory of one of its segments is no more: it counts for nobody, and others may have as much. Extents in it stay
 * until they are released. */
void td_heap_forgo(td_heap *h, td_segment *s);
/* A process may go on writing to its segments, and nobody will know for how long: they go back to the system one day,
 * and to no other heap. */
void td_heap_distrust(td_heap *h);

/* 0 and *out, or TD_WAIT_GROW with *need = the segment it wants (td_budget_make it and td_heap_adopt it, then ask
 * again), or TD_E_MEMORY when the budget does not allow it (TD_E_QUOTA: the user's part of it). A request of 0 bytes
 * gives an extent of TD_EXTENT_ALIGN. */
int td_heap_alloc(td_heap *h, uint64_t bytes, td_extent *out, td_need *need, td_error *e);
/* The same, making the segment right here when one is lacking. */
int td_heap_alloc_now(td_heap *h, uint64_t bytes, td_extent *out, td_error *e);
/* Return an extent; *x becomes empty. A segment that is wholly free may go back to the warm list or to the system. */
void td_heap_release(td_heap *h, td_extent *x);
/* Keep the first `bytes` of an extent and give back what is behind them, as far as it is worth a piece of its own. */
void td_heap_shrink(td_heap *h, td_extent *x, uint64_t bytes);
/* The owning heap of an extent. */
td_heap *td_extent_heap(const td_extent *x);

/* Give back segments that hold nothing and that no client maps (td_segment.shared is 0), the one kept warm included;
 * returns their bytes. A live heap does this by itself for all but one. */
uint64_t td_heap_trim(td_heap *h);
/* At quiet moments, now and then: what was empty at the last call and is still so goes back to the budget, or, when a
 * client has it mapped, `ask` is told (NULL: nobody). `at_once`: what is empty now. Returns the bytes that were given
 * back or asked for, and says in *more whether another call may find something. */
uint64_t td_heap_settle(td_heap *h, bool at_once, void (*ask)(td_segment *s, void *arg), void *arg, bool *more);
/* The same for what waits warm: it goes back to the system. False: nothing waits any more. */
bool td_budget_settle(td_budget *b);
/* Descriptors are short: nothing waits warm any more. False: nothing did. */
bool td_budget_shed(td_budget *b);
/* Of what waits warm of a kind, what is larger than so many parts of `of` of the largest, and an eighth more. */
void td_budget_shed_larger(td_budget *b, td_segment_kind kind, uint32_t parts, uint32_t of);
/* The segments of a heap, one after the other (NULL starts): for sending descriptors and for clearing `shared`. */
td_segment *td_heap_next_segment(const td_heap *h, const td_segment *after);
/* The one with this number; NULL: it has gone. */
td_segment *td_heap_find_segment(const td_heap *h, uint32_t id, uint32_t generation);
/* Call `fn` for `most` of them behind the first `from`. How many that were: fewer, and these were the last. */
uint32_t td_heap_some_segments(const td_heap *h, uint32_t from, uint32_t most,
                               void (*fn)(const td_segment *s, void *arg), void *arg);

/* Make a segment as this budget's are made. Any thread. */
int td_budget_make(const td_budget *b, td_segment **out, td_segment_kind kind, uint64_t size, td_error *e);
/* Reserve budget for a segment that will be made elsewhere, and either give it to the heap or cancel. */
int td_heap_reserve(td_heap *h, uint64_t size, td_error *e);
void td_heap_adopt(td_heap *h, td_segment *s);
void td_heap_unreserve(td_heap *h, uint64_t size);

/* Has its user more committed than sessions may use? Then it may help that others of them give back what is empty. */
bool td_heap_user_strained(const td_heap *h);

typedef struct td_heap_stats {
    uint64_t committed, used, largest_free;
    uint32_t segments, extents;
} td_heap_stats;
void td_heap_get_stats(const td_heap *h, td_heap_stats *out);
uint64_t td_heap_idle(const td_heap *h); /* committed and not used */

/* What a client's descriptor is good for. Never blocks. REFUSED: `e` says why. MEMORY: a memfd sealed against
 * shrinking, of *size bytes. FILE: perhaps a file; what it is, only a thread that may block can find out. */
typedef enum td_import_kind { TD_IMPORT_REFUSED, TD_IMPORT_MEMORY, TD_IMPORT_FILE } td_import_kind;
td_import_kind td_import_examine(int fd, uint64_t *size, td_error *e);
/* Map such a memfd whole, as one extent that its segment ends with. Takes *fd over when it works. Not `writable`: its
 * maker sealed or opened it for reading only. */
int td_import_map(td_extent *out, td_budget *budget, uint32_t uid, int *fd, uint64_t size, bool *writable, td_error *e);

static inline void *td_extent_data(const td_extent *x)
{
    return x->segment ? x->segment->base + x->offset : NULL;
}

#endif
