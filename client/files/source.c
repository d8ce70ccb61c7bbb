/* Reading files in bounds. See source.h. */
#include "client/files/source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int td_source_init(td_source *s, int fd, td_error *e)
{
    struct stat st;
    if (fstat(fd, &st)) return td_fail_errno(e, errno, "the file cannot be looked at");
    if (S_ISDIR(st.st_mode)) return td_fail(e, TD_E_INVALID, "this is a directory");
    if (!S_ISREG(st.st_mode))
        return td_fail(e, TD_E_INVALID, "a file of this kind is read at many places, so it must be a regular file");
    *s = (td_source){.fd = fd, .size = (uint64_t)st.st_size};
    return TD_OK;
}

int td_source_read(const td_source *s, uint64_t at, void *to, size_t n, td_error *e)
{
    if (at > s->size || n > s->size - at) return td_fail(e, TD_E_INVALID, "the file ends too early");
    for (char *p = to; n;) {
        ssize_t got = pread(s->fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return td_fail_errno(e, errno, "the file cannot be read");
        if (got == 0) return td_fail(e, TD_E_INVALID, "the file was cut while it was read");
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return TD_OK;
}

/* ---- the window */

void td_window_init(td_window *w, const td_source *s, uint64_t at, uint64_t size)
{
    w->source = s;
    w->at = at;
    w->end = at + size;
    w->first = w->n = w->crc = 0;
}

uint64_t td_window_left(const td_window *w)
{
    return w->end - w->at + w->n;
}

uint64_t td_window_place(const td_window *w)
{
    return w->at - w->n;
}

static int fill(td_window *w, td_error *e)
{
    memmove(w->buffer, w->buffer + w->first, w->n);
    w->first = 0;
    uint64_t more = sizeof w->buffer - w->n;
    if (more > w->end - w->at) more = w->end - w->at;
    int rc = td_source_read(w->source, w->at, w->buffer + w->n, (size_t)more, e);
    if (rc) return rc;
    w->crc = (uint32_t)crc32_z(w->crc, w->buffer + w->n, (size_t)more);
    w->at += more;
    w->n += (uint32_t)more;
    return TD_OK;
}

const unsigned char *td_window_take(td_window *w, uint32_t n, td_error *e)
{
    if (n > td_window_left(w)) {
        td_fail(e, TD_E_INVALID, "it ends too early");
        return NULL;
    }
    if (n > w->n && fill(w, e)) return NULL;
    const unsigned char *p = w->buffer + w->first;
    w->first += n;
    w->n -= n;
    return p;
}

int td_window_copy(td_window *w, void *to, size_t n, td_error *e)
{
    for (char *p = to; n;) {
        uint32_t part = n < sizeof w->buffer ? (uint32_t)n : (uint32_t)sizeof w->buffer;
        const unsigned char *from = td_window_take(w, part, e);
        if (!from) return e->code;
        memcpy(p, from, part);
        p += part;
        n -= part;
    }
    return TD_OK;
}
