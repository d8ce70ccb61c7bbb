/* Mapping a file: the daemon's own segments, and on the other side the descriptors a client received.
 *
 * A mapping never reaches past the file's end (that would be a SIGBUS), which is checked before. */
#include "shm/backend.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Address space for `size` bytes that starts on a 2 MiB boundary. */
static unsigned char *reserve_aligned(uint64_t size)
{
    uint64_t whole = size + TD_HUGE_PAGE;
    unsigned char *p = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    uint64_t skip = (uint64_t) - (uintptr_t)p & (TD_HUGE_PAGE - 1);
    if (skip) munmap(p, skip);
    if (whole > skip + size) munmap(p + skip + size, whole - skip - size);
    return p + skip;
}

int td_map_file(int fd, uint64_t size, int protection, void **base, td_error *e)
{
    unsigned char *at = NULL;
    *base = NULL;
    if (size >= TD_HUGE_PAGE && !(at = reserve_aligned(size)))
        return td_fail_errno(e, errno, "no address space for %llu bytes", (unsigned long long)size);
    void *p = mmap(at, size, protection, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    if (p == MAP_FAILED) {
        int err = errno;
        if (at) munmap(at, size);
        return td_fail_errno(e, err, "cannot map a segment of %llu bytes", (unsigned long long)size);
    }
    *base = p;
    return 0;
}

/* Has the file these bytes, in whole pages? */
static int check_pages(int fd, uint64_t offset, uint64_t size, td_error *e)
{
    struct stat st;
    uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1, end = offset + size;
    if (!size || (offset | size) & in_page)
        return td_fail(e, TD_E_INVALID, "a segment has whole pages, not %llu bytes", (unsigned long long)size);
    if (fstat(fd, &st)) return td_fail_errno(e, errno, "cannot examine a received descriptor");
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size + in_page < end) /* the last page may be begun only */
        return td_fail(e, TD_E_INVALID, "a received descriptor has %lld bytes where %llu were announced",
                       (long long)st.st_size, (unsigned long long)end);
    return TD_OK;
}

int td_map_descriptor(int fd, uint64_t size, bool writable, void **base, td_error *e)
{
    *base = NULL;
    int rc = check_pages(fd, 0, size, e);
    return rc ? rc : td_map_file(fd, size, PROT_READ | (writable ? PROT_WRITE : 0), base, e);
}

int td_map_private(int fd, uint64_t offset, uint64_t size, void **base, td_error *e)
{
    *base = NULL;
    int rc = check_pages(fd, offset, size, e);
    if (rc) return rc;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, (off_t)offset);
    if (p == MAP_FAILED)
        return td_fail_errno(
            e, errno, "cannot map %llu bytes privately (vm.max_map_count limits how many such mappings there are)",
            (unsigned long long)size);
    *base = p;
    return TD_OK;
}

void td_unmap(void *base, uint64_t size)
{
    if (base) munmap(base, size);
}
