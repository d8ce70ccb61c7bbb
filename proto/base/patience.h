/* Whether to look for a moment before sleeping, and for how long.
 *
 * An answer from a busy peer comes within microseconds. A wake-up costs 5 to 50 us, on a virtual machine whose
 * processors went to sleep 100 or more: then two that wait for each other wait for nothing else. So it is looked for as
 * long as a sleep would cost besides, which is learned from bells (td_ring_rang). Looking gives way to others at each
 * step, so it takes no time from anybody who has work; but where others have, giving way takes long, and where nothing
 * comes soon it is in vain, and takes a processor from who makes what is waited for. Both are learned: where too much
 * comes late none is made until enough came quickly again; after a long absence none for a while, which doubles with
 * each. */
#ifndef TENSORD_PROTO_BASE_PATIENCE_H
#define TENSORD_PROTO_BASE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct td_patience {
    uint64_t rest_until; /* no looking before */
    uint64_t rest;       /* ns: how long the next rest is */
    uint64_t wake;       /* ns: what a wake-up costs; 0: not known yet */
    unsigned late;       /* how often what was waited for came late, of late */
} td_patience;

/* Is it worth looking? */
bool td_patience_has(const td_patience *p, uint64_t now);
/* ns: how long what is waited for is worth looking for, 50,000 to 200,000. */
uint64_t td_patience_ns(const td_patience *p);
/* Look for up to `ns`; true as soon as something came. */
bool td_patience_look(td_patience *p, uint64_t ns, bool (*came)(void *arg), void *arg);
/* What came after all, without looking or after a look in vain, was there after so long: without the wake-up. */
void td_patience_took(td_patience *p, uint64_t ns);
/* From the bell until who slept had heard it. */
void td_patience_woke(td_patience *p, uint64_t ns);

#endif
