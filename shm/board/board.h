/* A board: the rounds of a group of processes, on memory that all members write.
 *
 * A round is one collective. Each rank writes its call into the board and says that it is here. Whoever finds all here
 * compares the calls and swaps the round's fate from open to ready. Ranks that are awake claim chunks of the sum and do
 * them; whoever finds all chunks done swaps ready to done and wakes the sleepers. The daemon is not in the path.
 *
 * What it keeps:
 * - A round has one fate: a word that is only compared and swapped, from one state to a later one. No rank sees a round
 *   done that another sees failed.
 * - Every shared word has the number of its round in its upper bits; another number reads as "empty". So zeros are all
 *   that a board begins with, and nobody can die while it is being made ready.
 * - Every step is one atomic operation and may be done twice. Whoever dies between two steps leaves something that any
 *   waiter finishes. Only the claim of a chunk has an owner, whose own line names it: nobody does a living rank's
 * chunk.
 * - Done means that nobody reads an input any more. So a rank may overwrite its own as soon as its wait has returned.
 * - Which rank has gone, and from which round on it is missing, is said by the page alone (page.h). At a death the
 * daemon reads a line and a word of the board, and writes there nothing but bells. In a group that shrinks a round is
 * complete when all are here that are not out of it: as nobody who was here is out, all members see the same ones in
 * it, whenever they look.
 * - No address, size or count is taken from the board, and no loop is bounded by what stands there. A member that
 *   scribbles over it spoils numbers and wake-ups of its own group.
 *
 * A handle and its rounds are used by one thread. Nobody sleeps longer than TD_BOARD_SLICE_MS at a time. */
#ifndef TENSORD_SHM_BOARD_BOARD_H
#define TENSORD_SHM_BOARD_BOARD_H

#include "proto/base/dtype.h"
#include "proto/base/patience.h"
#include "shm/board/figures.h"
#include "shm/board/page.h"

/* -- Layout ----------------------------------------------------------------------------------------------------- */

#define TD_BOARD_SLOTS 64 /* rounds that the board has room for */
#define TD_BOARD_UNFINISHED                                                                                            \
    32 /* rounds that a rank may have arrived at and not left: a slot is over before its next use */
#define TD_BOARD_PAYLOAD 256 /* bytes that go with the call itself */
#define TD_BOARD_CHUNKS 1024 /* most chunks of a round */
#define TD_BOARD_SLICE_MS 100
#define TD_BOARD_SMALL (UINT64_C(64) << 10) /* bytes of a small slot */
#define TD_BOARD_LARGE (UINT64_C(4) << 20)  /* bytes of a large slot */

/* Rounds without large slots need td_board_bytes(members): words, and for each rank two small slots, and two small
 * results. Large slots are a piece of memory of its own, td_board_large_bytes(members), made when the first large round
 * comes. Both begin as zeros. */
uint64_t td_board_bytes(uint32_t members);
uint64_t td_board_large_bytes(uint32_t members);

/* Where slots begin in these pieces. `turn` is the number of the round modulo 2: what lay there two rounds ago was read
 * by all before the last one was over. */
uint64_t td_board_small_input(uint32_t members, uint32_t rank, unsigned turn);
uint64_t td_board_small_result(uint32_t members, unsigned turn);
uint64_t td_board_large_input(uint32_t members, uint32_t rank, unsigned turn);
uint64_t td_board_large_result(uint32_t members, unsigned turn);
/* A buffer of `bytes` for each rank: the inputs in the order of ranks, then the result, each from a page on. */
uint64_t td_board_buffer_bytes(uint32_t members, uint64_t bytes);
uint64_t td_board_buffer_input(uint64_t bytes, uint32_t rank);

/* -- Calls ------------------------------------------------------------------------------------------------------- */

const char *td_collective_name(unsigned kind); /* "all_reduce"; "?" for what is none */
/* Is something added up by the members, chunk by chunk? All other calls pass on what they are given. */
static inline bool td_collective_sums(unsigned kind)
{
    return kind == TD_COLL_ALL_REDUCE || kind == TD_COLL_REDUCE || kind == TD_COLL_REDUCE_SCATTER;
}

/* What a rank says with its arrival. All but `site` must be equal in all ranks. */
typedef struct td_board_call {
    uint8_t kind;   /* td_collective */
    uint8_t dtype;  /* td_dtype; TD_DTYPE_NONE of a barrier */
    uint8_t op;     /* td_reduce_op, of sums; else what the caller likes */
    uint8_t place;  /* td_board_place */
    uint16_t root;  /* of what one rank gives or gets */
    uint16_t bytes; /* of the payload, at most TD_BOARD_PAYLOAD */
    uint64_t count; /* elements of one rank, in this round: of sums, those that are added up */
    union {
        uint64_t whole;  /* elements of one rank in the whole call, which may take several rounds */
        uint64_t offset; /* in a buffer: the byte of each input where they begin; such a call takes one round */
    };
    uint32_t site;  /* the caller's number of the line that called, for messages */
    uint32_t nr;    /* of the call, which may take several rounds */
    uint64_t round; /* written by td_board_arrive */
} td_board_call;

/* Where the bytes of all ranks lie. */
typedef enum td_board_place {
    TD_BOARD_IN_CALL =
        0, /* behind the call: no chunks, each rank works the result out for itself when the round is done */
    TD_BOARD_IN_SMALL = 1, /* in small slots */
    TD_BOARD_IN_LARGE = 2, /* in large slots */
    TD_BOARD_REFUSED = 3, /* nowhere: this rank has no memory for its slot, and says why behind the call; so the call is
                           * another than that of ranks that have */
    TD_BOARD_IN_BUFFER = 4 /* in a buffer, where each rank writes its input itself; `root` is its number */
} td_board_place;

/* In memory that all have mapped? */
static inline bool td_board_in_slot(unsigned place)
{
    return place == TD_BOARD_IN_SMALL || place == TD_BOARD_IN_LARGE || place == TD_BOARD_IN_BUFFER;
}

/* What became of a round. OPEN is none: it goes on. */
typedef enum td_round_outcome {
    TD_OUTCOME_OPEN = 0,
    TD_OUTCOME_DONE = 1,
    TD_OUTCOME_MISMATCH = 2, /* `rank` called otherwise than the lowest rank (td_board_said has both calls) */
    TD_OUTCOME_MEMBER = 3,  /* `rank` had gone before it arrived; its state in the page says how. td_board.broken: so it
                               is with later rounds */
    TD_OUTCOME_GAVE_UP = 4, /* `rank` gave up waiting */
    TD_OUTCOME_ENDED = 5    /* the epoch was over before the round was complete */
} td_round_outcome;

/* -- A member's side --------------------------------------------------------------------------------------------- */

/* A member's handle. Nothing has to be closed. */
typedef struct td_board {
    unsigned char *base; /* own mapping, td_board_bytes(members) */
    const td_page *page; /* own mapping */
    uint32_t rank, members;
    uint32_t processors; /* that this process may use */
    uint8_t broken;      /* the outcome that the epoch came to, for `culprit`: later rounds come to it at once */
    uint16_t culprit;
    uint64_t next; /* number of the next round */
    td_patience patience;
} td_board;

/* A rank's own account of a round that it has arrived at, until it is over. */
typedef struct td_round {
    uint64_t number;
    td_board_call call;
    const void *const *in; /* by rank: the inputs, in own mappings; NULL for rounds without chunks */
    void *out;             /* the result, in an own mapping */
    uint64_t bytes;        /* of one input */
    uint32_t chunk_bytes, chunks;
    uint8_t outcome;  /* td_round_outcome */
    uint16_t culprit; /* the rank that MISMATCH, MEMBER and GAVE_UP tell of */
    /* Where it stands (td_board_step). */
    uint8_t at;
    bool drowsy;    /* it has said that it is going to sleep */
    bool quits;     /* its deadline is over */
    uint16_t line;  /* whose line is looked at */
    uint32_t chunk; /* claimed, or looked at */
    uint32_t seen;  /* the fate as it was last read */
    uint32_t bell;  /* as it was before the last look */
    uint32_t wake;  /* how many sleepers are to be woken */
    uint64_t word;  /* the cursor as it was last read */
    /* For its figures. */
    bool decided, noted; /* it found all here; its end is in the figures */
    uint64_t came;       /* td_clock_ns() */
} td_round;

/* `base` and `page` are mapped, and stay so. A rank's rounds count from 1 in each epoch. */
void td_board_open(td_board *b, void *base, const td_page *page, uint32_t rank, uint32_t members);

/* Begin the next round; never waits. `call` is copied (its `round` need not be set); `payload` has
 * call->bytes bytes. Where sums lie in slots, `in` has the own mapping of each rank's input and `out` that of the
 * result: both must stay until the round is over, and the own input must be written before. At most TD_BOARD_UNFINISHED
 * rounds may be unfinished; a round in slots must be over before the next but one in slots is begun. */
void td_board_arrive(td_board *b, td_round *r, const td_board_call *call, const void *payload, const void *const *in,
                     void *out);

/* Go on with a round as far as it goes without waiting: see who is here, do chunks that nobody has claimed or whose
 * claimer died. TD_OUTCOME_OPEN: others must do something first. Else the outcome; r->culprit is the rank that it tells
 * of. */
td_round_outcome td_board_poll(td_board *b, td_round *r);

/* td_board_poll, and wait for up to `ms` (at most TD_BOARD_SLICE_MS) for others: looking for a moment where that has
 * been worth it, then asleep. TD_OUTCOME_OPEN: the time is over, or a signal came. The caller then looks at its
 * connection, its deadline and its signals, and calls again. A round that is open may be left alone and taken up again.
 */
td_round_outcome td_board_wait(td_board *b, td_round *r, unsigned ms);

/* The caller's deadline is over: the round's fate becomes that this rank gave up, unless another is decided. The
 * outcome that all ranks see; it may be TD_OUTCOME_DONE. (One exception: where a dead rank's chunk is done again by a
 * rank that is stopped over it, the round is done for the others, and for this rank it is given up; its input must stay
 * as it is.) */
td_round_outcome td_board_give_up(td_board *b, td_round *r);

/* What a rank sent with its call, aligned to 64 bytes: after TD_OUTCOME_DONE, until this rank begins its next round. */
const void *td_board_payload(const td_board *b, const td_round *r, uint32_t rank);
/* A rank's call of this round, as it wrote it; false when it has not arrived. After TD_OUTCOME_MISMATCH: of rank 0 and
 * of r->culprit. */
bool td_board_said(const td_board *b, const td_round *r, uint32_t rank, td_board_call *call);
/* Which ranks have not arrived; how many. `ranks` has room for `most`. */
uint32_t td_board_missing(const td_board *b, const td_round *r, uint32_t *ranks, uint32_t most);

/* What a rank last said of itself, true or not: its last call, and when it made it (td_clock_ns). call->round is 0 when
 * there was none. For members and the daemon. */
void td_board_last(const void *base, uint32_t rank, td_board_call *call, uint64_t *since_ns);
/* How many rounds it has arrived at. */
uint64_t td_board_rounds(const void *base, uint32_t rank);
/* Its figures, of which as much is true. */
td_figures *td_board_figures(const void *base, uint32_t members, uint32_t rank);

/* -- The daemon's side ------------------------------------------------------------------------------------------- */

/* A rank has gone (`how`: any state from TD_RANK_LEFT on). Its state and the first round that it has no part in go to
 * the page; `broken` or `thinned` goes with it, and all who sleep on the board are woken. TD_RANK_DEAD is said once
 * its process has ended, and of a rank that had left as well: its chunks are then done by others. Takes TD_BOARD_SLOTS
 * steps, whatever stands on the board. The first round that it has no part in. */
uint64_t td_board_post_mortem(void *base, td_page *page, uint32_t rank, td_rank_state how);
/* Wake all who sleep on the board: after td_page_set. */
void td_board_wake(void *base, uint32_t members);

/* -- Steps, of which the above is made --------------------------------------------------------------------------- */

typedef enum td_board_did {
    TD_DID_STEP = 0,   /* one atomic operation: go on */
    TD_DID_CLAIM = 1,  /* r->chunk is this rank's: td_board_chunk, then go on */
    TD_DID_WAKE = 2,   /* td_board_rouse, then go on */
    TD_DID_WAIT = 3,   /* nothing to do as long as the fate is r->seen; td_board_drowse to sleep */
    TD_DID_SLEEP = 4,  /* drowsy, and still nothing to do: td_board_sleep, then go on */
    TD_DID_LINGER = 5, /* done, but a dead rank's chunk may still be in somebody's hands: go on soon */
    TD_DID_END = 6     /* r->outcome */
} td_board_did;

/* Write the call, where nobody looks yet, and get ready for steps. */
void td_board_begin(td_board *b, td_round *r, const td_board_call *call, const void *payload, const void *const *in,
                    void *out);
td_board_did td_board_step(td_board *b, td_round *r);
/* The part of each input and of the result that is chunk r->chunk. */
void td_board_chunk(const td_board *b, const td_round *r);
void td_board_rouse(const td_board *b, const td_round *r);
/* After TD_DID_WAIT: go on with saying that one is going to sleep, and look once more. */
void td_board_drowse(td_round *r);
/* Go on with giving up. */
void td_board_quit(td_round *r);
/* For up to `ms`, while no bell has been rung since r->bell was read; false when a signal came. */
bool td_board_sleep(const td_board *b, const td_round *r, unsigned ms);

#endif
