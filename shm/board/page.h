/* The page of a group: what the daemon says of it, in memory that the daemon alone writes and all members read.
 *
 * A page serves one epoch: a later epoch has another page, so what is said here of a rank is final once it is said.
 * Every question that must have one answer in all ranks is decided here or by the fate of a round (board.h): a rank is
 * in all rounds before `until` and in none from there on. `broken` is the first round that cannot come to its end, and
 * `thinned` the first that does without somebody.
 *
 * Words are atomic, texts are written before the state that makes them valid. */
#ifndef TENSORD_SHM_BOARD_PAGE_H
#define TENSORD_SHM_BOARD_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_BOARD_RANKS 256 /* most members of a group */

/* Numbers of rounds begin at 1 and have 48 bits: nine years of a round each microsecond. */
#define TD_BOARD_ROUND_BITS 48
#define TD_BOARD_RANK_BITS 16

typedef enum td_page_state {
    TD_PAGE_FORMING = 0, /* ranks are still awaited */
    TD_PAGE_OPEN = 1,
    TD_PAGE_ENDED = 2 /* there is a later epoch, or none: open rounds come to nothing */
} td_page_state;

typedef enum td_rank_state {
    TD_RANK_AWAITED = 0,
    TD_RANK_IN = 1,
    TD_RANK_LEFT = 2,     /* it said so */
    TD_RANK_DEAD = 3,     /* its process ended: it writes nothing any more. It may have left before */
    TD_RANK_EXPELLED = 4, /* the group goes on without it, its process lives */
    TD_RANK_REGROUPS = 5, /* it waits for the next epoch, and comes to no later round of this one */
    TD_RANK_CUT = 6       /* its connection ended, its process lives: it may be writing yet */
} td_rank_state;

/* What a death does to the rounds that the rank had not arrived at. All members of a group have the same. */
typedef enum td_page_policy {
    TD_PAGE_FAILS = 0,   /* none is completed any more */
    TD_PAGE_SHRINKS = 1, /* they are completed without it */
    TD_PAGE_POLICIES
} td_page_policy;
const char *td_page_policy_name(unsigned policy); /* "fail", "shrink" */

typedef struct td_page_rank {
    _Atomic uint32_t state; /* td_rank_state */
    _Atomic uint32_t pid;
    _Atomic uint64_t until; /* the first round that it has no part in; 0 while it is in all */
    char program[48];
    char label[56];
    _Atomic uint64_t out; /* the first round that is completed without it; 0: none is */
} td_page_rank;

typedef struct td_page {
    _Alignas(64) _Atomic uint32_t epoch;
    _Atomic uint32_t state; /* td_page_state */
    _Atomic uint32_t news;  /* moves with every change */
    _Atomic uint32_t door;  /* how many wait to come in */
    _Atomic uint32_t dead;  /* how many ranks are dead */
    uint32_t members;
    _Atomic uint64_t broken;  /* number << 16 | rank: from this round on none is completed, for want of this rank; 0 */
    uint32_t policy;          /* td_page_policy */
    _Atomic uint64_t thinned; /* from this round on somebody is missing, and rounds are completed all the same; 0 */
    td_page_rank rank[];
} td_page;

static inline size_t td_page_bytes(uint32_t members)
{
    return sizeof(td_page) + members * sizeof(td_page_rank);
}

/* Has the rank no part in this round, which is completed without it? Of a round that is complete the answer stays. */
static inline bool td_page_is_out(const td_page *page, uint32_t rank, uint64_t number)
{
    if (page->policy != TD_PAGE_SHRINKS) return false;
    uint64_t out = atomic_load(&page->rank[rank].out);
    return out && out <= number;
}

/* The daemon's side. Memory of td_page_bytes(members), cleared; nobody else has it mapped yet. */
void td_page_init(td_page *page, uint32_t members, uint32_t epoch, td_page_policy policy);
void td_page_set(td_page *page, td_page_state state);
/* A rank comes in. Texts that are too long are cut. */
void td_page_join(td_page *page, uint32_t rank, uint32_t pid, const char *program, const char *label);
void td_page_door(td_page *page, uint32_t waiting);
/* How a rank goes is said by td_board_post_mortem, which knows the round. */

#endif
