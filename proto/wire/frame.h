/* Framing: how messages and descriptors share one Unix stream socket.
 *
 * A frame is an 8-byte header (bytes of payload, kind, number of descriptors: 0 or 1) and a protobuf message of that
 * kind. A descriptor travels with the first byte of its frame. The reader keeps an owner for every descriptor at every
 * moment: taken by the frame's handler, or closed.
 *
 * A busy connection moves its bytes to a ring in shared memory (proto/wire/ring.h). The socket then carries bells,
 * bytes that mean nothing, and the descriptors, each with one such byte, before the frame that announces it. */
#ifndef TENSORD_PROTO_WIRE_FRAME_H
#define TENSORD_PROTO_WIRE_FRAME_H

#include "proto/base/status.h"
#include "proto/wire/ring.h"

#define TD_PROTOCOL 1
#define TD_FRAME_HEADER 8
#define TD_FRAME_MAX (UINT32_C(16) << 20)  /* payload bytes of one frame */
#define TD_READ_CHUNK (UINT32_C(64) << 10) /* of a buffer that frames of no great size need */

typedef enum td_frame_kind {
    TD_FRAME_HELLO = 1,
    TD_FRAME_BATCH = 2,
    TD_FRAME_CALL = 3,
    TD_FRAME_STOP = 4, /* through a stopper alone (wire.proto) */
    TD_FRAME_WELCOME = 16,
    TD_FRAME_REPLY = 17,
    TD_FRAME_EVENT = 18
} td_frame_kind;

/* Header fields, little endian: u32 payload bytes, u16 kind, u8 descriptors, u8 zero. */
void td_frame_put_header(uint8_t *h, uint32_t bytes, unsigned kind, unsigned descriptors);

typedef struct td_frame {
    unsigned kind;
    const uint8_t *payload; /* inside the reader's buffer, valid until the next td_reader_* call */
    uint8_t *block;         /* or in this, which is malloc's (td_reader_detach); owned as a descriptor is */
    uint32_t bytes;
    int fd; /* -1: none. The handler takes it (sets it to -1 in the frame) or td_frame_done closes it */
} td_frame;

void td_frame_done(td_frame *f);

/* Incremental reader: one for each connection. */
typedef struct td_reader {
    uint8_t *buffer;
    uint32_t capacity, start, end;
    int fd_received; /* not yet matched to a frame */
    int fd_behind;   /* one more, of a frame behind that one */
    uint32_t max_frame;
    uint32_t most;         /* bytes that its buffer may have without asking; 0: as many as a frame needs */
    uint32_t wanted;       /* that a frame needs, when these are more */
    uint32_t at_once;      /* bytes of a buffer that never grows, where each frame is far smaller; 0: it does */
    bool filled;           /* the last read found more than there was room for: the next buffer is a larger one */
    bool take_descriptors; /* false: received ones are closed at once and the peer is at fault */
    /* Closes what nobody took: that may block. NULL: close(). */
    void (*discard)(void *arg, int fd);
    void *discard_arg;
    td_ring *ring; /* where bytes come from; NULL: the socket */
    int socket;    /* with a ring: where descriptors come from */
} td_reader;

void td_reader_init(td_reader *r, bool take_descriptors);
void td_reader_deinit(td_reader *r);
/* Receive what there is (one recvmsg, MSG_DONTWAIT when `nonblocking`). >0 bytes; 0 end of file; -EAGAIN; other
 * negative errno. -EPROTO with `e` filled: truncated control data, too many or unwelcome descriptors. -ENOBUFS: the
 * frame in hand needs a buffer of r->wanted bytes, and may have r->most: nothing was read. */
long td_reader_fill(td_reader *r, int socket, bool nonblocking, td_error *e);
/* The next whole frame: 1 and *f; 0: more bytes are needed; -1: the peer broke the protocol (`e` says how). */
int td_reader_next(td_reader *r, td_frame *f, td_error *e);
/* The frame that came last gets the buffer where it lies for its own. Without memory it does not. */
void td_reader_detach(td_reader *r, td_frame *f);
/* From here on bytes come through the ring; what the socket brought behind the frame in hand was bells. */
void td_reader_use_ring(td_reader *r, td_ring *ring, int socket);
/* With a ring: take bells off the socket, without waiting. >0: there were some; 0: end of file; -EAGAIN: none; other
 * errors as above, such as a second descriptor while the frame of the first has not been read: who may get several
 * reads its frames first (td_reader_expects). */
long td_reader_bells(td_reader *r, td_error *e);
/* A descriptor came, and waits for its frame. */
static inline bool td_reader_expects(const td_reader *r)
{
    return r->fd_received >= 0;
}
/* Bytes that are buffered but not consumed. */
uint32_t td_reader_buffered(const td_reader *r);
/* Is a whole frame waiting? */
bool td_reader_ready(const td_reader *r);
/* Bytes of it, or of the one of which a part is here; 0: not even its header is. */
uint32_t td_reader_front(const td_reader *r);
/* Nothing is in it: it needs no buffer until something comes. */
void td_reader_rest(td_reader *r);

/* Outgoing bytes with descriptors at known places. */
typedef struct td_writer {
    uint8_t *buffer;
    size_t capacity, start, end;
    struct {
        size_t at; /* offset in the buffer of the frame that brings it */
        int fd;    /* owned until sent */
    } fds[16];
    int nfds;
    td_ring *ring;    /* where bytes go, ... */
    size_t ring_from; /* ... from this place in the buffer on; NULL: to the socket */
} td_writer;

void td_writer_init(td_writer *w);
void td_writer_deinit(td_writer *w); /* closes descriptors that were not sent */
/* Begin a frame of at most `bytes` payload; returns where to write the payload, or NULL without memory. */
uint8_t *td_writer_begin(td_writer *w, size_t bytes);
/* End it with the bytes really written. `fd` (or -1) is taken over. */
int td_writer_end(td_writer *w, size_t bytes, unsigned kind, int fd);
/* A whole frame, `bytes` of payload at `at` in a block of malloc, which is taken over as `fd` (or -1) is, with room for
 * a header before it. A large one is not copied where what waits to go out fits there, too. TD_E_SYSTEM without memory.
 */
int td_writer_hand_over(td_writer *w, uint8_t *block, size_t capacity, size_t at, size_t bytes, unsigned kind, int fd);
/* What is written from here on goes through the ring. */
void td_writer_use_ring(td_writer *w, td_ring *ring);
size_t td_writer_pending(const td_writer *w);
/* Bytes of memory that it takes: of a large buffer what has gone out, and what is free behind the rest, takes none. */
size_t td_writer_takes(const td_writer *w);
/* Nothing is in it: it needs no buffer until something is to go out. */
void td_writer_rest(td_writer *w);
/* Does what goes out next go through the socket? Also with a ring, until all is out that was written before. */
static inline bool td_writer_on_socket(const td_writer *w)
{
    return !w->ring || w->start < w->ring_from;
}
/* Does it wait for the socket to take more? With a ring, descriptors still go there. */
static inline bool td_writer_wants_socket(const td_writer *w)
{
    return td_writer_on_socket(w) || (w->nfds && w->fds[0].at == w->start);
}
/* No further descriptor can wait in it. */
bool td_writer_descriptors_full(const td_writer *w);
/* Send what the socket, or the ring, takes. Returns 0 when all is out, 1 when it is full (a ring's other side then
 * rings when there is room), negative errno on failure. *sent_fds counts descriptors handed over (NULL is fine). At
 * most one descriptor a sendmsg. */
int td_writer_flush(td_writer *w, int socket, bool nonblocking, int *sent_fds);
/* The same, without blocking and no more than some 100 KB: 2: there is more to go, and it would be taken. And with one
 * descriptor at the most, or none: 3: what is next brings one. */
int td_writer_flush_some(td_writer *w, int socket, bool descriptor, int *sent_fds);
/* Put into the ring what fits, without a word to who sleeps there: for what nobody waits for. What lies in the writer
 * must be just that. On a socket it waits for the next flush. */
void td_writer_flush_quietly(td_writer *w);

#endif
