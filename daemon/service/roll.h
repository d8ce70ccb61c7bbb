/* The roll of groups: rows that say what each group, and each of its ranks, is at. */
#ifndef TENSORD_DAEMON_SERVICE_ROLL_H
#define TENSORD_DAEMON_SERVICE_ROLL_H

#include "daemon/service/service.h"
#include "shm/board/board.h"
#include "shm/board/site.h"

typedef struct td_roll_row {
    const char *group;
    uint32_t epoch; /* 0: it forms */
    int rank;       /* -1: the row of the whole group, which comes first */
    uint32_t pid;
    char program[48], state[160], now[200], at[TD_SITE_TEXT];
    uint64_t round, last;                  /* rounds that it has come to; to which it came last */
    double per_second, last_share, within; /* of the last 10 to 20 seconds; within: the share that it was in rounds */
    double p50, p99;                       /* seconds of a round, from this rank's arrival to the end */
    double since;                          /* seconds; 0: not so */
} td_roll_row;

/* A walk through all groups, in parts; one at a time. Groups come and go meanwhile. */
typedef struct td_roll {
    struct td_named_group *group; /* the next; NULL: all are told */
    uint32_t rank;                /* the next of it, */
    bool added;                   /* of its second time: the row of the whole is told */
    /* What the ranks that were added come to. */
    uint64_t times[TD_FIGURES_TIMES], most, fewest, since;
    double rate, within, least, last; /* within: the sum; of the slowest: its share in rounds, and as the last */
    uint32_t slow, late, present, inside;
    td_board_call call;
} td_roll;

void td_roll_begin(td_roll *r, td_service *s);
/* At most so many steps; true: all are told. */
bool td_roll_some(td_roll *r, uint32_t most, void (*fn)(const td_roll_row *row, void *arg), void *arg);
/* It may end before all are told. */
void td_roll_end(td_service *s);
/* A group ends: a walk that is there goes on with the next. */
void td_roll_pass(struct td_named_group *g);

#endif
