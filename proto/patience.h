/* Whether to look for a moment before sleeping, and for how long.
 *
 * A wake-up costs 5 to 50 us, an answer from a busy peer comes in less. Looking gives way to others at each step, so it
 * takes no time from anybody who has work; but where others have, giving way takes long, and where nothing comes soon
 * it is in vain, and takes a processor from who makes what is waited for. Both are learned: where too much comes late
 * none is made until enough came quickly again; after a long absence none for a while, which doubles with each. */
#ifndef TENSORD_PROTO_PATIENCE_H
#define TENSORD_PROTO_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#define TD_PATIENCE_NS UINT64_C(50000) /* how long an answer is worth looking for */

typedef struct td_patience {
    uint64_t rest_until; /* no looking before */
    uint64_t rest;       /* ns: how long the next rest is */
    unsigned late;       /* how often what was waited for came late, of late */
} td_patience;

/* Is it worth looking? */
bool td_patience_has(const td_patience *p, uint64_t now);
/* Look for up to `ns`; true as soon as something came. */
bool td_patience_look(td_patience *p, uint64_t ns, bool (*came)(void *arg), void *arg);
/* What came after all, without looking or after a look in vain, took so long. */
void td_patience_took(td_patience *p, uint64_t ns);

#endif
