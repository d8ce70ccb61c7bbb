/* What a group is made of; shared by group.c, mourn.c, limbo.c and roll.c only. */
#ifndef TENSORD_DAEMON_SERVICE_SEATS_H
#define TENSORD_DAEMON_SERVICE_SEATS_H

#include "daemon/service/group.h"
#include "daemon/service/roll.h"
#include "proto/base/hash.h"

#define TD_GONE_KEPT 4

/* One that took a seat and went, while the group formed. */
typedef struct td_gone {
    uint32_t rank, pid;
    char program[32];
    const char *how; /* "went" */
    uint64_t at_ms;
} td_gone;

typedef struct td_limbo td_limbo;

struct td_group_member {
    td_named_group *group;
    uint32_t rank, pid;
    char program[32];
    bool gave_up; /* its wait was over before all had come */
    struct {
        td_limbo *of; /* its connection has ended, and its process may live; NULL: not so */
        td_group_member *next, **at;
        uint64_t ends; /* td_clock_ms() */
    } limbo;
};

typedef struct td_seat {
    td_group_member *member; /* NULL: nobody has it */
    td_rank_state how;       /* in an epoch: how its member went; TD_RANK_IN: it has not */
} td_seat;

struct td_named_group {
    UT_hash_handle hh;
    td_named_group *next, **at; /* of all */
    char name[TD_NAME_MAX + 1];
    bool is_named; /* who comes by this name finds it */
    td_service *service;
    uint32_t size, taken, epoch; /* epoch 0: it forms */
    uint32_t present;            /* members that somebody points to: none, and it ends */
    uint64_t objects;            /* charged */
    td_owner *owner;             /* whose account pays for it, and whose jobs make its memory */
    td_heap *heap;               /* of what its members write */
    struct {
        td_storage *storage;
        bool making;
    } parts[TD_GROUP_PARTS];
    td_group_wait *waits;
    td_gone gone[TD_GONE_KEPT];
    uint32_t ngone;
    td_seat seats[];
};

/* NULL: not yet. */
static inline td_page *td_group_page(const td_named_group *g)
{
    td_storage *st = g->parts[TD_GROUP_PAGE].storage;
    return st ? (td_page *)(void *)st->data : NULL;
}
static inline void *td_group_board(const td_named_group *g)
{
    td_storage *st = g->parts[TD_GROUP_BOARD].storage;
    return st ? st->data : NULL;
}

/* Nobody points to a member of it. */
void td_group_end(td_named_group *g);
/* This is how a member has gone: the others learn of it. */
void td_group_tell(const td_group_member *m, td_rank_state how);
/* It has gone, and its seat with it. The member is no more. */
void td_group_over(td_group_member *m, td_rank_state how);
/* Its process is watched from now on, or has ended and the member is no more. False: it cannot be watched. */
bool td_limbo_join(td_group_member *m);
/* It is watched no more. */
void td_limbo_leave(td_group_member *m);
/* The board is there: it is told of those that have gone before. */
void td_group_mourn_all(td_named_group *g);
/* Who comes by its name from now on forms another. */
void td_group_unname(td_named_group *g);
/* The wait ends, with its callback as the last step. */
void td_group_wait_over(td_group_wait *w, const td_error *error);

#endif
