/* Memory that a client brings: a memfd of its own, mapped as one segment of a heap of its own.
 *
 * Only what is sealed against shrinking is mapped, so that no later cut can pull a page away; what may still be punched
 * out is filled anew by the kernel, and the SIGBUS guard is there for the rest. The whole file counts to the budget,
 * for its holes become pages when they are read. The segment is never recycled: its maker goes on writing to it. */
#include "shm/arena.h"
#include "shm/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

td_import_kind td_import_examine(int fd, uint64_t *size, td_error *e)
{
    *size = 0;
    int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
    if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY) {
        td_fail(e, TD_E_INVALID, "the descriptor is not open for reading");
        return TD_IMPORT_REFUSED;
    }
    if (seals < 0) return TD_IMPORT_FILE; /* no memory of the kernel's own: even to look at it may block */
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) || fstatfs(fd, &fs)) {
        td_fail_errno(e, errno, "cannot examine the descriptor");
        return TD_IMPORT_REFUSED;
    }
    if (!(seals & F_SEAL_SHRINK)) {
        if (st.st_nlink) return TD_IMPORT_FILE; /* of a tmpfs */
        td_fail(e, TD_E_INVALID,
                "the memfd may still be cut: seal it with fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) (memfd_create with "
                "MFD_ALLOW_SEALING) before handing it over");
        return TD_IMPORT_REFUSED;
    }
    if (fs.f_type == HUGETLBFS_MAGIC) {
        td_fail(e, TD_E_UNSUPPORTED, "memory of MFD_HUGETLB can run out when it is touched; bring an ordinary memfd");
        return TD_IMPORT_REFUSED;
    }
    *size = (uint64_t)st.st_size;
    return TD_IMPORT_MEMORY;
}

static int build(td_segment *s, bool *writable, td_error *e)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    s->read_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->read_fd < 0) return td_fail_errno(e, errno, "cannot open the memory anew for reading");
    void *base = NULL;
    *writable = td_map_file(s->fd, s->size, PROT_READ | PROT_WRITE, &base, NULL) == 0;
    int rc = *writable ? 0 : td_map_file(s->fd, s->size, PROT_READ, &base, e);
    s->base = base;
    return rc ? rc : td_guard_add(s, e);
}

static int segment_of(td_segment **out, int *fd, uint64_t size, bool *writable, td_error *e)
{
    td_segment *s = *out = calloc(1, sizeof *s);
    if (!s) return td_no_memory(e, "for a segment's record");
    *s = (td_segment){
        .fd = *fd, .read_fd = -1, .size = td_page_round(size), .kind = TD_SEGMENT_SESSION, .foreign = true};
    *fd = -1;
    int rc = build(s, writable, e);
    if (rc) {
        td_segment_free(s);
        *out = NULL;
    }
    return rc;
}

/* The whole segment as one extent: small ones too, which would be cut into slots otherwise. */
static int take_whole(td_heap *h, uint64_t size, td_extent *out, td_error *e)
{
    td_chunk *c = td_chunk_take(h, td_page_round(size), TD_EXTENT_ALIGN);
    if (!c) return td_no_memory(e, "for a segment's record");
    *out = (td_extent){c->owner->segment, 0, (size + TD_EXTENT_ALIGN - 1) & ~(uint64_t)(TD_EXTENT_ALIGN - 1), c};
    h->extents++;
    h->used += out->size;
    h->budget->used += out->size;
    return 0;
}

int td_import_map(td_extent *out, td_budget *b, uint32_t uid, int *fd, uint64_t size, bool *writable, td_error *e)
{
    *out = (td_extent){0};
    if (!size || size > UINT64_C(1) << 46)
        return td_fail(e, TD_E_INVALID, "a memfd of %llu bytes cannot hold a tensor", (unsigned long long)size);
    td_heap *h;
    int rc = td_heap_new(&h, b, TD_SEGMENT_SESSION, uid, e);
    if (rc) return rc;
    td_segment *s = NULL;
    rc = td_heap_reserve(h, size, e);
    if (!rc && (rc = segment_of(&s, fd, size, writable, e))) td_heap_unreserve(h, size);
    if (!rc) {
        td_heap_adopt(h, s);
        rc = take_whole(h, size, out, e);
    }
    if (rc) td_heap_free(h);
    else td_heap_orphan(h, false); /* it ends with its one extent */
    return rc;
}
