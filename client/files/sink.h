/* A file as writers see it: bytes one behind the other, to a descriptor that may be a pipe. */
#ifndef TENSORD_CLIENT_FILES_SINK_H
#define TENSORD_CLIENT_FILES_SINK_H

#include "proto/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct td_sink {
    int fd;        /* the caller's */
    uint64_t at;   /* bytes so far */
    uint32_t crc;  /* CRC-32 of them since it was set to 0 */
    uint32_t used; /* of the buffer */
    unsigned char buffer[1 << 16];
} td_sink;

void td_sink_init(td_sink *s, int fd);
/* What fails is TD_E_SYSTEM, and errno is what write() said. */
int td_sink_put(td_sink *s, const void *bytes, size_t n, td_error *e);
int td_sink_fill(td_sink *s, char byte, size_t n, td_error *e);
int td_sink_flush(td_sink *s, td_error *e);

/* Numbers as files have them, the low byte first; what comes behind. */
static inline unsigned char *td_put_le(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

#endif
