/* A file as readers see it: so many bytes, of which nothing is believed.
 *
 * Files are read and not mapped: another program may cut a file while it is read, and who had it mapped would die of
 * that. A read that finds fewer bytes than there were is an error like any other damage. */
#ifndef TENSORD_CLIENT_FILES_SOURCE_H
#define TENSORD_CLIENT_FILES_SOURCE_H

#include "proto/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct td_source {
    int fd;        /* the caller's */
    uint64_t size; /* when it was looked at */
} td_source;

/* Fails unless `fd` is a regular file (or a memfd), which can be read at any place. */
int td_source_init(td_source *s, int fd, td_error *e);
/* All of [at, at + n), or an error. */
int td_source_read(const td_source *s, uint64_t at, void *to, size_t n, td_error *e);

/* Numbers as files have them, the low byte first. */
static inline uint16_t td_le16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t td_le32(const unsigned char *p)
{
    return (uint32_t)td_le16(p) | (uint32_t)td_le16(p + 2) << 16;
}
static inline uint64_t td_le64(const unsigned char *p)
{
    return (uint64_t)td_le32(p) | (uint64_t)td_le32(p + 4) << 32;
}

/* One pass over a part of a file, a few bytes at a time. */
typedef struct td_window {
    const td_source *source;
    uint64_t at, end;  /* what follows what is buffered */
    uint32_t first, n; /* of the buffer, what is there */
    uint32_t crc;      /* CRC-32 of all before `at` */
    unsigned char buffer[8192];
} td_window;
void td_window_init(td_window *w, const td_source *s, uint64_t at, uint64_t size);
/* The next n bytes (at most a buffer full), good until the next call. NULL: the part ends before, or cannot be read. */
const unsigned char *td_window_take(td_window *w, uint32_t n, td_error *e);
/* The next n bytes, however many. */
int td_window_copy(td_window *w, void *to, size_t n, td_error *e);
uint64_t td_window_left(const td_window *w);
/* Where in the file the next byte is. */
uint64_t td_window_place(const td_window *w);

#endif
