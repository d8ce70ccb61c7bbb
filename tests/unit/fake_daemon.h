/* A daemon of 300 lines for the client's tests: one thread, any number of connections, the real framing and records.
 *
 * It computes full and add of float32; `log` always fails (its results are poisoned with "fake failure"); all other ops
 * give zeros of the inferred shape. It counts what it saw, so that tests can tell what went over the wire. */
#ifndef TENSORD_TESTS_UNIT_FAKE_DAEMON_H
#define TENSORD_TESTS_UNIT_FAKE_DAEMON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fake_daemon fake_daemon;

typedef struct fake_options {
    uint32_t other_op;    /* this op's hash differs in the Welcome's table */
    uint32_t protocol;    /* 0: ours */
    bool refuse;          /* answer Hello with an Event */
    bool reverse_replies; /* hold two replies back and send them in the opposite order */
    uint32_t die_at;      /* close the connection after so many records */
    bool slow_reader;     /* read a little at a time, with pauses */
    bool mixes_items; /* say with how many tensors an item is to be asked for, and send its note in the same answer */
    bool misgives;    /* ask for a hook's gradients with one id that was sent and one that was not; say nothing of
                             an edition that was published */
    uint64_t at_end;  /* addresses lie so many bytes before the end of the memory; 0: where they do */
    uint64_t lease_lacks; /* a lease has so many bytes less than were asked for */
    bool reads_only;      /* nobody may write at an address */
    uint32_t handle_kind; /* how addresses of tensors and leases say that they are to be mapped */
} fake_options;

typedef struct fake_counts {
    _Atomic uint64_t frames, records, ops, releases, released_ids, leases, lease_drops, maps, reads, descriptors_sent,
        protocol_errors, hellos, sites, unmapped, returns, asks;
} fake_counts;

fake_daemon *fake_start(const fake_options *options);
void fake_stop(fake_daemon *f);
const char *fake_path(const fake_daemon *f);
fake_counts *fake_seen(fake_daemon *f);
/* Ids that live in the session of the newest connection. */
int fake_live(fake_daemon *f);
/* Ask the newest connection to unmap the memory. */
void fake_unmap(fake_daemon *f);

#endif
