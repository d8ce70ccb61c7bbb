/* A client whose frames go through a ring, by hand: it has a lease for one, mapped, and writes there what it likes. */
#ifndef TENSORD_TESTS_HOSTILE_RINGER_H
#define TENSORD_TESTS_HOSTILE_RINGER_H

#include "tests/hostile/counted.h"

#include <sys/mman.h>

/* A client with a lease, mapped. */
typedef struct ringer {
    raw r;
    uint32_t lease;
    unsigned char *segment;
    uint64_t size;
    td_ring_memory *memory;
    td_ring ring;
    td_writer writer;
} ringer;

static inline void ringer_open(ringer *x, uint64_t bytes)
{
    *x = (ringer){0};
    CU_ASSERT_TRUE_FATAL(raw_open(&x->r, d.socket));
    Td__Wire__Lease lease = TD__WIRE__LEASE__INIT;
    lease.bytes = bytes;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.lease = &lease;
    Td__Wire__Reply *reply = raw_ask(&x->r, &call);
    CU_ASSERT_PTR_NOT_NULL_FATAL(reply);
    CU_ASSERT_PTR_NOT_NULL_FATAL(reply->address);
    x->lease = reply->lease;
    x->size = reply->address->segment_size;
    x->segment = mmap(NULL, x->size, PROT_READ | PROT_WRITE, MAP_SHARED, raw_fd, 0);
    CU_ASSERT_NOT_EQUAL_FATAL(x->segment, MAP_FAILED);
    x->memory = (td_ring_memory *)(x->segment + reply->address->offset);
    td_writer_init(&x->writer);
}

static inline void ringer_close(ringer *x)
{
    td_writer_deinit(&x->writer);
    munmap(x->segment, x->size);
    raw_close(&x->r);
}

/* The code of the answer. */
static inline uint32_t ask_ring(ringer *x, uint32_t lease)
{
    Td__Wire__Ring ring = TD__WIRE__RING__INIT;
    ring.lease = lease;
    Td__Wire__Call call = TD__WIRE__CALL__INIT;
    call.ring = &ring;
    Td__Wire__Reply *reply = raw_ask(&x->r, &call);
    CU_ASSERT_PTR_NOT_NULL_FATAL(reply);
    return reply->error ? reply->error->code : TD_OK;
}

static inline void to_ring(ringer *x)
{
    td_ring_clear(x->memory);
    CU_ASSERT_EQUAL_FATAL(ask_ring(x, x->lease), TD_OK);
    td_ring_init(&x->ring, x->memory, false);
    td_reader_use_ring(&x->r.reader, &x->ring, x->r.fd);
    td_writer_use_ring(&x->writer, &x->ring);
}

static inline void send_call(ringer *x, Td__Wire__Call *call, uint64_t serial)
{
    call->serial = serial;
    uint8_t *p = td_writer_begin(&x->writer, 256);
    td_writer_end(&x->writer, td__wire__call__pack(call, p), TD_FRAME_CALL, -1);
}

#endif
