/* The Linux backend: a memfd, which has no name and can be sealed.
 *
 * Its mode is set to 0400 once both descriptors are open: another uid that holds the read-only one cannot reopen it
 * writable through /proc. The owner's uid still could; between processes of one uid this protects against accidents. */
#include "shm/backend.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

int td_memfd_open(td_backing *out, td_error *e)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    out->read_fd = -1;
    out->fd = memfd_create("tensord", flags | MFD_NOEXEC_SEAL);
    if (out->fd < 0 && errno == EINVAL) out->fd = memfd_create("tensord", flags); /* before Linux 6.3 */
    if (out->fd < 0) return td_open_failed(errno, "cannot create a memory segment (memfd_create)", e);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", out->fd);
    out->read_fd =
        open(path, O_RDONLY | O_CLOEXEC); /* works in a process that is not dumpable: links of one's own are exempt */
    if (out->read_fd < 0)
        return td_open_failed(errno, "cannot open a read-only descriptor through /proc/self/fd (is /proc mounted?)", e);
    if (fchmod(out->fd, 0400)) return td_fail_errno(e, errno, "cannot restrict a memory segment (fchmod)");
    return 0;
}

int td_memfd_seal(int fd, td_segment_kind kind, td_error *e)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (kind == TD_SEGMENT_SERVICE) seals |= F_SEAL_FUTURE_WRITE; /* the daemon's own mapping is there already */
    if (!fcntl(fd, F_ADD_SEALS, seals)) return 0;
    if (errno == EINVAL && kind == TD_SEGMENT_SERVICE)
        return td_fail(
            e, TD_E_UNSUPPORTED,
            "cannot seal a memory segment: the kernel does not know F_SEAL_FUTURE_WRITE, which came with Linux "
            "5.1; run the daemon on Linux 5.1 or later");
    return td_fail_errno(e, errno, "cannot seal a memory segment");
}
