/* The portable backend: shm_open under a random name that is removed at once.
 *
 * Such a file cannot be sealed: whoever holds it writable can cut it. The SIGBUS guard keeps the daemon alive then. */
#include "shm/backend.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The descriptor is *fd. */
static int open_unique(int *fd, char *name, size_t size, td_error *e)
{
    for (int attempt = 0; attempt < 16; attempt++) {
        uint64_t r[2];
        if (getentropy(r, sizeof r)) return td_fail_errno(e, errno, "no random numbers for a segment's name");
        snprintf(name, size, "/tensord-%016llx%016llx", (unsigned long long)r[0], (unsigned long long)r[1]);
        *fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (*fd >= 0) return 0;
        if (errno != EEXIST) break;
    }
    return td_open_failed(errno, "cannot create a memory segment (shm_open)", e);
}

int td_posix_open(td_backing *out, td_error *e)
{
    char name[64];
    out->fd = out->read_fd = -1;
    int rc = open_unique(&out->fd, name, sizeof name, e);
    if (rc) return rc;
    out->read_fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    int err = errno;
    shm_unlink(name);
    if (out->read_fd < 0) return td_open_failed(err, "cannot open a memory segment for reading", e);
    if (fchmod(out->fd, 0400)) return td_fail_errno(e, errno, "cannot restrict a memory segment (fchmod)");
    return 0;
}
