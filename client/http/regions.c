/* See regions.h. */
#include "client/http/regions.h"
#include "proto/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static http_region *find(const http_regions *all, const char *name)
{
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->at[i].name, name) == 0) return &all->at[i];
    return NULL;
}

static int open_region(const char *key, uint64_t offset, uint64_t size, td_error *e)
{
    struct stat s;
    int fd = shm_open(key, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return td_fail_errno(e, errno, "the shared memory %.80s cannot be opened", key), -1;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || offset > (uint64_t)s.st_size || size > (uint64_t)s.st_size - offset) {
        td_fail(e, TD_E_INVALID, "the shared memory %.80s does not have the bytes %" PRIu64 " to %" PRIu64, key, offset,
                offset + size);
        close(fd);
        return -1;
    }
    return fd;
}

int http_regions_add(http_regions *all, const char *name, const char *key, uint64_t offset, uint64_t size, td_error *e)
{
    if (!*name || strlen(name) >= HTTP_REGION_NAME || strlen(key) >= HTTP_REGION_NAME)
        return td_fail(e, TD_E_INVALID, "the name or the key of a region is empty or too long");
    if (find(all, name)) return td_fail(e, TD_E_EXISTS, "the region %.80s is registered already", name);
    if (all->n == HTTP_REGIONS) return td_fail(e, TD_E_QUOTA, "there are %d regions already", HTTP_REGIONS);
    if (all->n == all->room) {
        int room = all->room ? 2 * all->room : 8;
        http_region *more = realloc(all->at, (size_t)room * sizeof *more);
        if (!more) return td_no_memory(e, "for a region");
        all->at = more, all->room = room;
    }
    int fd = open_region(key, offset, size, e);
    if (fd < 0) return e->code;
    http_region *r = &all->at[all->n++];
    *r = (http_region){.offset = offset, .size = size, .fd = fd};
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->key, sizeof r->key, "%s", key);
    return TD_OK;
}

void http_regions_remove(http_regions *all, const char *name)
{
    for (int i = all->n; i-- > 0;) {
        if (*name && strcmp(all->at[i].name, name) != 0) continue;
        close(all->at[i].fd);
        all->at[i] = all->at[--all->n];
    }
}

void http_regions_free(http_regions *all)
{
    http_regions_remove(all, "");
    free(all->at);
    *all = (http_regions){0};
}

int http_regions_put(const http_regions *all, const char *name, http_text *t, td_error *e)
{
    if (*name && !find(all, name)) return td_fail(e, TD_E_NOT_FOUND, "no region %.80s is registered", name);
    bool first = true;
    http_put(t, "[");
    for (int i = 0; i < all->n; i++) {
        const http_region *r = &all->at[i];
        if (*name && strcmp(r->name, name) != 0) continue;
        http_put(t, first ? "{\"name\":" : ",{\"name\":");
        http_put_quoted(t, r->name);
        http_put(t, ",\"key\":");
        http_put_quoted(t, r->key);
        http_put(t, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}", r->offset, r->size);
        first = false;
    }
    http_put(t, "]");
    return TD_OK;
}

static const http_region *within(const http_regions *all, const char *name, uint64_t at, uint64_t n, td_error *e)
{
    const http_region *r = find(all, name);
    if (!r) td_fail(e, TD_E_NOT_FOUND, "no region %.80s is registered", name);
    else if (at > r->size || n > r->size - at)
        td_fail(e, TD_E_INVALID,
                "the region %.80s has %" PRIu64 " bytes, and %" PRIu64 " from byte %" PRIu64 " on are asked for", name,
                r->size, n, at),
            r = NULL;
    return r;
}

static int cut(const char *name, td_error *e)
{
    return td_fail(e, TD_E_INVALID, "the region %.80s is shorter than it was when it was registered", name);
}

int http_region_read(const http_regions *all, const char *name, uint64_t at, void *to, uint64_t n, td_error *e)
{
    const http_region *r = within(all, name, at, n, e);
    if (!r) return e->code;
    for (uint64_t done = 0; done < n;) {
        ssize_t k = pread(r->fd, (char *)to + done, n - done, (off_t)(r->offset + at + done));
        if (k < 0 && errno != EINTR) return td_fail_errno(e, errno, "the region %.80s cannot be read", name);
        if (k == 0) return cut(name, e);
        if (k > 0) done += (uint64_t)k;
    }
    return TD_OK;
}

/* A region that was cut is not made longer again. */
int http_region_write(const http_regions *all, const char *name, uint64_t at, const void *from, uint64_t n, td_error *e)
{
    const http_region *r = within(all, name, at, n, e);
    struct stat s;
    if (!r) return e->code;
    if (fstat(r->fd, &s) || (uint64_t)s.st_size < r->offset + r->size) return cut(name, e);
    for (uint64_t done = 0; done < n;) {
        ssize_t k = pwrite(r->fd, (const char *)from + done, n - done, (off_t)(r->offset + at + done));
        if (k < 0 && errno != EINTR) return td_fail_errno(e, errno, "the region %.80s cannot be written", name);
        if (k > 0) done += (uint64_t)k;
    }
    return TD_OK;
}
