/* A ring: the bytes of a connection through memory that both sides map, with the socket as its bell.
 *
 * Two pipes of bytes, one each way. The bytes are those that the socket would carry; a frame's descriptor still goes
 * over the socket, before the frame's first byte is published here. Each side keeps its own positions to itself and
 * only publishes them: what it takes from the memory is the other's position, read once and checked, and bytes, copied
 * before they are looked at. So whatever is written there can only spoil what the writer says.
 *
 * Who is going to sleep says so and looks once more; the other sends a byte over the socket only then. While both are
 * busy no system call is made. */
#ifndef TENSORD_PROTO_WIRE_RING_H
#define TENSORD_PROTO_WIRE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one pipe: a power of two. Both sides must mean the same, so the handshake tells it. It bounds how much is
 * said before the other side has its turn: on a busy machine each turn is waited for. */
#define TD_RING_PIPE (UINT32_C(128) << 10)

/* Positions count bytes since the beginning, modulo 2^32. `asleep` and `full` count up: odd while it is so. */
typedef struct td_ring_ends {
    _Alignas(64) _Atomic uint32_t head; /* written by who puts */
    _Atomic uint32_t full;              /* who puts waits for room */
    _Atomic uint64_t rang;              /* td_clock_ns(): when who puts last saw that it must ring for bytes */
    _Alignas(64) _Atomic uint32_t tail; /* written by who takes */
    _Atomic uint32_t asleep;            /* who takes waits for bytes */
} td_ring_ends;

typedef struct td_ring_memory {
    td_ring_ends ends[2]; /* [0]: to the daemon, [1]: to the client */
    _Alignas(64) uint8_t bytes[2][TD_RING_PIPE];
} td_ring_memory;

/* One side's view. Reading and writing share nothing, so that two threads may do one each. */
typedef struct td_ring {
    td_ring_ends *in, *out;
    const uint8_t *in_bytes;
    uint8_t *out_bytes;
    uint32_t tail, head;               /* own positions: of `in`, of `out` */
    uint32_t asleep, full;             /* own counts */
    uint32_t heard_asleep, heard_full; /* the other's counts that a bell was sent for */
} td_ring;

/* Who offers the memory clears it first. */
void td_ring_clear(td_ring_memory *m);
void td_ring_init(td_ring *r, td_ring_memory *m, bool daemon);

/* Bytes taken; 0: there are none; -1: the other side's position is impossible. */
long td_ring_read(td_ring *r, void *to, size_t most);
/* Bytes put; 0: there is no room; -1 as above. */
long td_ring_write(td_ring *r, const void *from, size_t n);

/* Is there something to read; is there room to write? The latter is a hint: it goes by what the memory says. */
bool td_ring_readable(const td_ring *r);
uint32_t td_ring_waiting(const td_ring *r); /* so many bytes; what is impossible counts as none */
bool td_ring_writable(const td_ring *r);

/* Say that one is going to wait for bytes; look at td_ring_readable again before doing so. And that one no longer is.
 * Say it again before each wait: the bell that ended the last one may have been for bytes (or room) seen and used up
 * before one said so, and the other does not ring twice for the same word. */
void td_ring_sleep(td_ring *r);
void td_ring_wake(td_ring *r);
/* The same for room, and td_ring_writable. */
void td_ring_want_room(td_ring *r);
void td_ring_have_room(td_ring *r);

/* After a read: does the other side wait for room? After a write: for bytes? Told once for each time that it waits. */
bool td_ring_frees_writer(td_ring *r);
bool td_ring_frees_reader(td_ring *r);
/* A bell woke us that we waited for since `since`: when it was rung, which may be long ago. `now` where that is
 * unknown, or cannot be. */
uint64_t td_ring_rang(const td_ring *r, uint64_t since, uint64_t now);

#endif
