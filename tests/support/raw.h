/* A client without manners: speaks the wire by hand, byte by byte if need be, to try what no library would send. */
#ifndef TENSORD_TESTS_SUPPORT_RAW_H
#define TENSORD_TESTS_SUPPORT_RAW_H

#include "proto/base/arena.h"
#include "proto/wire/frame.h"
#include "proto/wire/record.h"
#include "proto/wire/wire.pb-c.h"

typedef struct raw {
    int fd;
    td_reader reader;
    td_arena arena;
    uint64_t serial;
    uint32_t session;
    uint64_t token;
    char gone[512]; /* what the daemon said when it ended the connection */
} raw;

/* Connect; without a Hello. Then Hello and wait for the Welcome. */
bool raw_connect(raw *r, const char *path);
bool raw_hello(raw *r);
Td__Wire__Welcome *raw_hello_with(raw *r, const Td__Wire__Hello *h); /* NULL: refused (r->gone) */
bool raw_open(raw *r, const char *path);                             /* both */
void raw_close(raw *r);

/* Send exactly these bytes, with these descriptors. False when the daemon does not take them any more. */
bool raw_bytes(raw *r, const void *bytes, size_t n);
bool raw_bytes_fds(raw *r, const void *bytes, size_t n, const int *fds, int nfds);
bool raw_frame(raw *r, unsigned kind, const void *payload, size_t n);
bool raw_words(raw *r, const uint32_t *words, size_t n, const void *data, size_t ndata);
/* Send a call (its serial is set) and return the serial. */
uint64_t raw_call(raw *r, Td__Wire__Call *c);

/* The next reply within `ms`; valid until the next call here. NULL: none came, or the connection ended (r->gone). */
Td__Wire__Reply *raw_reply(raw *r, int ms);
/* A call and its reply. */
Td__Wire__Reply *raw_ask(raw *r, Td__Wire__Call *c);
/* Does the daemon end the connection within `ms`? */
bool raw_ended(raw *r, int ms);
/* A descriptor that came with the last reply; the caller's. -1: none. */
extern int raw_fd;

/* Where what raw_zeros() makes lies: $TENSORD_DEVICE, or the CPU. */
unsigned raw_device(void);
/* One number of the daemon's status; -1 when it cannot be had. */
int64_t raw_status(raw *r, const char *key);
/* What a daemon holds, to compare before and after. Descriptors are counted without those of segments, of which some
 * are kept warm. */
enum { RAW_COUNTED = 11 };
extern const char *const raw_counted[RAW_COUNTED];
/* As a new client sees them. */
bool raw_count(const char *path, int64_t *counts);
/* Ends are noticed in their own time, and what was left to do is done first: look until the counts are `before` again;
 * otherwise prints what differs. Of descriptors there may be fewer: one may just have been on its way to be closed. */
bool raw_count_again(const char *path, const int64_t *before);

/* Wait until so many wait for an item of this queue. */
bool raw_getters_wait(raw *r, const char *queue, int64_t want);
/* SYNC: true when all before worked; otherwise the error is in *code. */
bool raw_sync(raw *r, uint32_t *code);
/* A small float32 tensor of n zeros under `id`, on the device that TENSORD_DEVICE names. */
bool raw_zeros(raw *r, uint32_t id, uint32_t n);

#endif
