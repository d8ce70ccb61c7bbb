/* A segment: one piece of shared memory of fixed size, committed as a whole, that several processes map.
 *
 * Session segments are writable by the daemon and one session; service segments by the daemon alone (mapped first, then
 * sealed against later writable maps). Segments have no name: nothing is left behind whoever is killed. The size never
 * changes and no hole is ever punched in a mapped one. Two backends: memfd (sealed) and shm_open + shm_unlink. */
#ifndef TENSORD_SHM_SEGMENT_H
#define TENSORD_SHM_SEGMENT_H

#include "proto/base/status.h"
#include <stdatomic.h>

typedef enum td_shm_backend {
    TD_SHM_MEMFD = 0,
    TD_SHM_POSIX = 1,
    TD_SHM_DEVICE = 2 /* memory of a device, which this process does not map: whoever made the segment ends it */
} td_shm_backend;
typedef enum td_segment_kind { TD_SEGMENT_SESSION = 0, TD_SEGMENT_SERVICE = 1 } td_segment_kind;

typedef struct td_segment {
    uint32_t id; /* number in the daemon; reused only with another generation */
    uint32_t generation;
    uint8_t kind, backend;
    bool foreign;        /* a client made it, or may go on writing to it: never recycled */
    bool left;           /* somebody may have it mapped who was asked to unmap it, and says nothing: not recycled */
    int fd;              /* writable descriptor (memfd of a service segment: writes are sealed) */
    int read_fd;         /* read-only descriptor for those who may only read */
    unsigned char *base; /* the daemon's own mapping, 2 MiB aligned when the size allows; or an address of a device */
    uint64_t size;
    uint32_t uid; /* whose data may be in it: another uid gets it only zeroed */
    uint32_t
        shared;  /* clients that may have it mapped (kept by whoever sends the descriptor): not recycled while not 0 */
    void *guard; /* its place in the SIGBUS registry */
    void (*end)(
        struct td_segment *s); /* of a device's: gives its memory back. The record and descriptors go after it */
    void *maker;               /* of who made it */
    bool gone;                 /* its memory is no more, and counts for nobody (td_heap_forgo) */
    bool rested;               /* it was warm when somebody last looked (td_budget_settle) */
    struct td_segment *next;   /* of whoever holds it */
} td_segment;

/* Smallest and largest segment that the heaps ask for; a larger single request gets one of its own. */
#define TD_SEGMENT_MIN (UINT64_C(64) << 10)
#define TD_SEGMENT_MAX (UINT64_C(256) << 20)

/* Has the machine so much memory left? The kernel does not refuse what it lacks: it kills later, when the pages are
 * touched. So whoever takes much asks first. Small amounts are always there. */
bool td_system_has(uint64_t bytes);

/* A segment of a device's memory, at this address there; `fd` is its descriptor, or -1, and is taken over. */
int td_segment_of_device(td_segment **out, void *address, uint64_t size, int fd, void (*end)(td_segment *s),
                         void *maker, td_error *e);
/* Make, commit (fallocate as a whole: full is TD_E_MEMORY here, never a SIGBUS later; no descriptors left
 * is TD_E_BUSY), map, populate, seal. May take
 * tens of milliseconds for large sizes and may be called on any thread. `size` is rounded up to whole pages. */
int td_segment_create(td_segment **out, td_shm_backend backend, td_segment_kind kind, uint64_t size, td_error *e);
/* TD_E_BUSY: the process has no descriptors left. */
int td_no_descriptors(td_error *e);
/* Close its descriptors; it stays mapped here and wherever it is mapped. */
void td_segment_close(td_segment *s);
/* Unmap and close; the memory goes back when nobody else maps it. NULL is fine. */
void td_segment_free(td_segment *s);

/* For the other side: map a received descriptor. Maps exactly `size` bytes (checked against the file), shared,
 * 2 MiB aligned when large. Takes over nothing: the caller still owns and closes `fd`. */
int td_map_descriptor(int fd, uint64_t size, bool writable, void **base, td_error *e);
/* A part of it, whole pages, writable and private: what is written there nobody else sees, nor is it ever written back.
 */
int td_map_private(int fd, uint64_t offset, uint64_t size, void **base, td_error *e);
void td_unmap(void *base, uint64_t size);

/* Handle SIGBUS inside the daemon's own segments (a client may punch holes): maps a private page over the hole and
 * counts. Installed once; `td_sigbus_count` tells how many pages were lost that way. */
int td_sigbus_guard_install(td_error *e);
uint64_t td_sigbus_count(void);
/* A hole was patched in it: the daemon no longer sees in full what clients see, so it must not be used again. */
bool td_segment_damaged(const td_segment *s);

#endif
