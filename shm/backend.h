/* Between segment.c and its two backends: a backend makes an empty, nameless file and nothing else.
 *
 * Both leave two descriptors, one writable and one that can never be made writable by mapping it; both are
 * close-on-exec. */
#ifndef TENSORD_SHM_BACKEND_H
#define TENSORD_SHM_BACKEND_H

#include "shm/segment.h"

typedef struct td_backing {
    int fd, read_fd; /* -1 when there is none */
} td_backing;

int td_memfd_open(td_backing *out, td_error *e);
int td_memfd_seal(int fd, td_segment_kind kind, td_error *e);
int td_posix_open(td_backing *out, td_error *e);

/* Map a file shared; 2 MiB aligned when it is that large. */
int td_map_file(int fd, uint64_t size, int protection, void **base, td_error *e);

/* The system refused to open something: TD_E_BUSY when it is for want of descriptors. */
int td_open_failed(int err, const char *what, td_error *e);

#define TD_HUGE_PAGE (UINT64_C(2) << 20)

/* The SIGBUS registry: addresses of segments that the handler may patch. */
int td_guard_add(td_segment *s, td_error *e);
void td_guard_remove(td_segment *s);

#endif
