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

static int open_unique(char *name, size_t size, td_error *e)
{
    for (int attempt = 0; attempt < 16; attempt++) {
        uint64_t r[2];
        if (getentropy(r, sizeof r)) {
            td_fail_errno(e, errno, "no random numbers for a segment's name");
            return -1;
        }
        snprintf(name, size, "/tensord-%016llx%016llx", (unsigned long long)r[0], (unsigned long long)r[1]);
        int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) return fd;
        if (errno != EEXIST) break;
    }
    int err = errno;
    td_fail_errno(e, err, "cannot create a memory segment (shm_open)");
    return -1;
}

int td_posix_open(td_backing *out, td_error *e)
{
    char name[64];
    out->fd = out->read_fd = -1;
    int fd = open_unique(name, sizeof name, e);
    if (fd < 0) return TD_E_SYSTEM;
    out->fd = fd;
    out->read_fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    int err = errno;
    shm_unlink(name);
    if (out->read_fd < 0) return td_fail_errno(e, err, "cannot open a memory segment for reading");
    if (fchmod(out->fd, 0400)) return td_fail_errno(e, errno, "cannot restrict a memory segment (fchmod)");
    return 0;
}
