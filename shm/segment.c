/* Making and ending segments.
 *
 * Order matters: commit before anything is mapped (so that full memory is an error here and never a SIGBUS later), map
 * before sealing (a service segment takes no writable map afterwards). Large segments are first committed one page in
 * each 2 MiB and collapsed into huge pages where that is granted: everybody's first touch is then ten times cheaper. */
#include "shm/backend.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define CHECK_FROM (UINT64_C(16) << 20)

static int no_room(uint64_t bytes, td_error *e)
{
    return td_fail(
        e, TD_E_MEMORY,
        "the system has no room for a segment of %llu bytes; free memory, or start tensord with less --memory",
        (unsigned long long)bytes);
}

int td_no_descriptors(td_error *e)
{
    return td_fail(
        e, TD_E_BUSY,
        "the daemon is out of file descriptors: a connection takes one, and one more when it calls programs, a "
        "piece of shared memory two; raise its limit (ulimit -n) or close connections");
}

int td_open_failed(int err, const char *what, td_error *e)
{
    return err == EMFILE || err == ENFILE ? td_no_descriptors(e) : td_fail_errno(e, err, "%s", what);
}

static int commit(int fd, uint64_t offset, uint64_t bytes, td_error *e)
{
    int err;
    do err = fallocate(fd, 0, (off_t)offset, (off_t)bytes) ? errno : 0;
    while (err == EINTR);
    if (err == EOPNOTSUPP) err = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    if (!err) return 0;
    if (err == ENOSPC || err == ENOMEM || err == EFBIG) return no_room(bytes, e);
    return td_fail_errno(e, err, "cannot commit a segment of %llu bytes", (unsigned long long)bytes);
}

bool td_system_has(uint64_t bytes)
{
    unsigned long long kib = 0;
    char line[128];
    if (bytes < CHECK_FROM) return true;
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return bytes / 4096 < (uint64_t)sysconf(_SC_PHYS_PAGES);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    return bytes / 1024 < kib;
}

static int page_in(td_segment *s, td_error *e)
{
    if (s->size >= TD_HUGE_PAGE) {
        for (uint64_t at = 0; at + TD_HUGE_PAGE <= s->size; at += TD_HUGE_PAGE) {
            int rc = commit(s->fd, at, 1, e);
            if (rc) return rc;
        }
        madvise(s->base, s->size & ~(TD_HUGE_PAGE - 1), MADV_COLLAPSE); /* a wish: small pages do as well */
    }
    int rc = commit(s->fd, 0, s->size, e);
    if (rc) return rc;
    madvise(s->base, s->size, MADV_POPULATE_WRITE); /* a wish: the pages are there, first touch maps them otherwise */
    return 0;
}

static int build(td_segment *s, td_error *e)
{
    td_backing file = {-1, -1};
    int err = s->backend == TD_SHM_POSIX ? td_posix_open(&file, e) : td_memfd_open(&file, e);
    s->fd = file.fd;
    s->read_fd = file.read_fd;
    if (err) return err;
    if (ftruncate(s->fd, (off_t)s->size))
        return td_fail_errno(e, errno, "cannot size a segment to %llu bytes", (unsigned long long)s->size);
    if (s->size < TD_HUGE_PAGE && (err = commit(s->fd, 0, s->size, e))) return err;
    void *base;
    if ((err = td_map_file(s->fd, s->size, PROT_READ | PROT_WRITE, &base, e))) return err;
    s->base = base;
    if ((err = page_in(s, e))) return err;
    if (s->backend == TD_SHM_MEMFD && (err = td_memfd_seal(s->fd, s->kind, e))) return err;
    return td_guard_add(s, e);
}

int td_segment_create(td_segment **out, td_shm_backend backend, td_segment_kind kind, uint64_t size, td_error *e)
{
    *out = NULL;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!size || size > UINT64_C(1) << 46)
        return td_fail(e, TD_E_INVALID, "a segment of %llu bytes makes no sense", (unsigned long long)size);
    if (!td_system_has(size)) return no_room(size, e);
    td_segment *s = calloc(1, sizeof *s);
    if (!s) return td_no_memory(e, "for a segment's record");
    s->size = (size + page - 1) & ~(page - 1);
    s->backend = (uint8_t)backend;
    s->kind = (uint8_t)kind;
    s->fd = s->read_fd = -1;
    int rc = build(s, e);
    if (rc) {
        td_segment_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int td_segment_of_device(td_segment **out, void *address, uint64_t size, int fd, void (*end)(td_segment *s),
                         void *maker, td_error *e)
{
    td_segment *s = *out = calloc(1, sizeof *s);
    if (!s) return td_no_memory(e, "for a segment's record");
    *s = (td_segment){.backend = TD_SHM_DEVICE, .fd = fd, .read_fd = -1, .base = address, .size = size};
    s->end = end;
    s->maker = maker;
    return TD_OK;
}

void td_segment_close(td_segment *s)
{
    if (s->read_fd >= 0) close(s->read_fd);
    if (s->fd >= 0) close(s->fd);
    s->fd = s->read_fd = -1;
}

void td_segment_free(td_segment *s)
{
    if (!s) return;
    if (s->backend == TD_SHM_DEVICE) {
        if (s->end) s->end(s);
        td_segment_close(s);
        free(s);
        return;
    }
    td_guard_remove(s);
    if (s->base) munmap(s->base, s->size);
    /* Whoever was asked to unmap it and said nothing keeps the addresses, and not the memory. All others keep both:
     * what a process looks at stays as it was when the daemon, or its connection, has ended. */
    if (s->left && !s->foreign && s->fd >= 0)
        fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)s->size);
    td_segment_close(s);
    free(s);
}
