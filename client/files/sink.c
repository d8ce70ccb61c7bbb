/* Writing files. See sink.h. */
#include "client/files/sink.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { PIECE = 1 << 20 /* bytes that are still in the cache when they are written */ };

void td_sink_init(td_sink *s, int fd)
{
    s->fd = fd;
    s->at = 0;
    s->crc = s->used = 0;
}

static int write_all(int fd, const unsigned char *p, size_t n, td_error *e)
{
    while (n) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            int err = errno, rc = td_fail_errno(e, err, "the file cannot be written");
            errno = err;
            return rc;
        }
        p += put;
        n -= (size_t)put;
    }
    return TD_OK;
}

int td_sink_flush(td_sink *s, td_error *e)
{
    int rc = write_all(s->fd, s->buffer, s->used, e);
    s->used = 0;
    return rc;
}

int td_sink_put(td_sink *s, const void *bytes, size_t n, td_error *e)
{
    const unsigned char *p = bytes;
    bool large = n > sizeof s->buffer / 2;
    int rc = large || n > sizeof s->buffer - s->used ? td_sink_flush(s, e) : TD_OK;
    while (!rc && n) {
        size_t part = n < PIECE ? n : PIECE;
        s->crc = (uint32_t)crc32_z(s->crc, p, part);
        if (large) rc = write_all(s->fd, p, part, e);
        else memcpy(s->buffer + s->used, p, part), s->used += (uint32_t)part;
        s->at += part;
        p += part;
        n -= part;
    }
    return rc;
}

int td_sink_fill(td_sink *s, char byte, size_t n, td_error *e)
{
    char bytes[64];
    int rc = TD_OK;
    memset(bytes, byte, sizeof bytes);
    for (; !rc && n; n -= n < sizeof bytes ? n : sizeof bytes)
        rc = td_sink_put(s, bytes, n < sizeof bytes ? n : sizeof bytes, e);
    return rc;
}
