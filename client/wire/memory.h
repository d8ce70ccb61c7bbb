/* Memory that the daemon shares: segments that are mapped, and leases of parts of them. Under the lock.
 *
 * A segment stays mapped until the daemon asks for it back and nobody points into it: whoever does counts as a user. */
#ifndef TENSORD_CLIENT_WIRE_MEMORY_H
#define TENSORD_CLIENT_WIRE_MEMORY_H

#include "client/wire/client.h"

/* A segment as this process has mapped it. It stays mapped until the daemon asks for it back and no handle or lease
 * points into it. */
struct td_mapping {
    uint32_t segment, generation;
    uint64_t size;
    unsigned char *base; /* NULL: free slot */
    bool writable;
    bool unwanted;  /* the daemon asked for it */
    bool old;       /* the number means another segment by now */
    uint32_t users; /* handles and leases that point into it */
    int reader;     /* its descriptor, once private mappings are made of it; else 0 */
};

struct td_lease {
    td_client *client;
    uint32_t id;
    int32_t mapping; /* -1: none yet */
    unsigned char *bytes;
    uint64_t size;
    uint32_t session;   /* that holds it: a forked child may not put into its parent's */
    bool used;          /* announced: the daemon has it as a storage, no longer as a lease */
    td_array *whole;    /* all its bytes, of which the parts are views; NULL when one tensor took all */
    td_reply_wait wait; /* for the daemon to grant it */
};

/* Make the address usable: maps its segment unless it is mapped (then *fd is taken). The mapping counts one more user.
 */
int td_map_address(td_client *c, const Td__Wire__Address *at, int *fd, int32_t *mapping, unsigned char **bytes,
                   td_error *e);
/* The answer to a question for a segment's memory brought none. */
int td_no_descriptor(uint32_t segment, td_error *e);
void td_unuse_mapping(td_client *c, int32_t mapping);
/* The same, of memory that nobody will be given here again: it is unmapped at once when nobody else uses it. */
void td_end_mapping(td_client *c, int32_t mapping);

/* Ask for a lease; l->wait tells when it is there. NULL: this thread's error says why. */
td_lease *td_ask_lease(td_client *c, uint64_t bytes);
/* Ask for one and wait for it, or take one that was fetched ahead; NULL: raised. */
td_lease *td_lease_wait(td_client *c, uint64_t bytes);
/* Give it back; forget it, when the session it was of has gone. */
void td_drop_lease(td_lease *l);

#endif
