/* SHA-256: of a file, as sha256sum prints it, and of whatever comes piece by piece. */
#ifndef TENSORD_CLIENT_ONNX_DIGEST_H
#define TENSORD_CLIENT_ONNX_DIGEST_H

#include "client/files/source.h"

enum { TD_DIGEST_TEXT = 65, TD_DIGEST_PIECE = 32 << 10 };

typedef struct td_digest {
    uint32_t h[8];
    uint64_t size;
    unsigned char rest[64]; /* size % 64 bytes that make no block yet */
} td_digest;

void td_digest_init(td_digest *d);
void td_digest_add(td_digest *d, const void *bytes, size_t n);
void td_digest_end(td_digest *d, char out[TD_DIGEST_TEXT]);
/* [at, at + n) of a source. */
int td_digest_read(td_digest *d, const td_source *s, uint64_t at, uint64_t n, td_error *e);
int td_digest_file(const td_source *s, char out[TD_DIGEST_TEXT], td_error *e);

#endif
