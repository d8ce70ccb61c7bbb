/* Figures: how many rounds a member has done, how long each took it from its arrival to the end, how often it was the
 * last to arrive, and how long it has been in rounds.
 *
 * They lie on the board behind the rounds. Each member writes its own alone, with plain stores and after the end of a
 * round, so they hold up nobody. Whoever reads them gets numbers that may be any: each is bounded as it is read. */
#ifndef TENSORD_SHM_BOARD_FIGURES_H
#define TENSORD_SHM_BOARD_FIGURES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Four to each power of two nanoseconds, up to half an hour. */
#define TD_FIGURES_TIMES 160

/* How far it was at a moment. */
typedef struct td_figures_mark {
    _Atomic uint64_t at, rounds, last, within;
} td_figures_mark;

typedef struct td_figures {
    _Alignas(128) _Atomic uint64_t left; /* the last round that it has seen the end of */
    _Atomic uint64_t left_at;            /* td_clock_ns() */
    _Atomic uint64_t failed;             /* how that one ended, td_round_outcome, and << 8 for whom; 0: it was done */
    _Atomic uint64_t rounds;             /* that were done */
    _Atomic uint64_t last;               /* to which it came last */
    _Atomic uint64_t within;             /* ns in rounds */
    td_figures_mark mark[2];             /* the older one is what `recently` counts from */
    _Atomic uint64_t times[TD_FIGURES_TIMES]; /* rounds by how long they took */
} td_figures;

/* What a member notes at the end of a round. */
typedef struct td_figures_round {
    uint64_t number, came, over; /* td_clock_ns() */
    bool last;                   /* it was the last to arrive */
    unsigned failed;
} td_figures_round;

void td_figures_note(td_figures *own, const td_figures_round *r);

/* What is read of a member's figures. */
typedef struct td_figures_seen {
    uint64_t left, left_at, rounds, last;
    unsigned failed;
    struct {
        double seconds; /* 10 to 20, fewer in a young group, more where no round has ended; 0: there was no round yet */
        double rounds, last, within; /* within: seconds in rounds */
    } recently;
} td_figures_seen;

void td_figures_read(const td_figures *of, uint64_t now, td_figures_seen *out);
/* Adds a member's times to `sum`, which begins as zeros. */
void td_figures_add(const td_figures *of, uint64_t sum[TD_FIGURES_TIMES]);
/* Seconds within which this part (0.5, 0.99) of the rounds ended; 0 of none. */
double td_figures_quantile(const uint64_t times[TD_FIGURES_TIMES], double part);

#endif
