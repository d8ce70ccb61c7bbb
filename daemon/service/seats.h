/* What a group is made of; shared by group.c, door.c, mourn.c, limbo.c and roll.c only. */
#ifndef TENSORD_DAEMON_SERVICE_SEATS_H
#define TENSORD_DAEMON_SERVICE_SEATS_H

#include "daemon/service/group.h"
#include "daemon/service/roll.h"
#include "proto/base/hash.h"

#define TD_GONE_KEPT 4
#define TD_NO_RANK UINT32_MAX /* it is given one when the epoch begins */

/* One that came to the door and went. */
typedef struct td_gone {
    uint32_t rank, pid; /* rank: or TD_NO_RANK */
    char program[32];
    const char *how; /* "went" */
    uint64_t at_ms;
} td_gone;

typedef struct td_limbo td_limbo;
typedef struct td_epoch td_epoch;

struct td_group_member {
    td_named_group *group;
    td_epoch *epoch; /* where it has a seat; NULL: nowhere yet */
    uint32_t rank, pid;
    char program[32];
    td_group_member *next_at_door, **at_door; /* at_door NULL: it is not there */
    struct {
        td_limbo *of; /* its connection has ended, and its process may live; NULL: not so */
        td_group_member *next, **at;
        uint64_t ends; /* td_clock_ms() */
    } limbo;
};

typedef struct td_seat {
    td_group_member *member; /* NULL: nobody has it */
    td_rank_state how;       /* how its member went; TD_RANK_IN: it has not */
} td_seat;

struct td_epoch {
    td_epoch *next, **at; /* of the group */
    td_named_group *group;
    uint32_t number, size;
    uint32_t in;      /* seats whose members have not gone */
    uint32_t present; /* members that somebody points to: none, and it ends */
    uint64_t objects; /* charged */
    td_heap *heap;    /* of what its members write */
    struct {
        td_storage *storage;
        struct td_making *making; /* the job that does */
        uint64_t bytes;           /* of a buffer, of each rank; 0: nobody has said yet */
    } parts[TD_GROUP_PARTS];
    td_seat seats[];
};

struct td_named_group {
    UT_hash_handle hh;
    td_named_group *next, **at; /* of all */
    char name[TD_NAME_MAX + 1];
    bool is_named; /* who comes by this name finds it */
    td_service *service;
    td_group_form form;
    uint32_t present; /* members that somebody points to: none, and it ends */
    uint64_t objects; /* charged */
    td_owner *owner;  /* whose account pays for it, and whose jobs make its memory */
    td_epoch *epochs; /* those that somebody points to */
    td_epoch *now;    /* the present one; NULL: there is none */
    struct {
        td_group_member *first, **last; /* in the order in which they came */
        uint32_t count, fresh;          /* fresh: those that are in no epoch yet */
        td_deadline look;               /* whether the next epoch can begin, when somebody went */
    } door;
    td_group_member *adrift; /* in limbo, and in no epoch; linked as those at the door */
    td_group_wait *waits;
    td_gone gone[TD_GONE_KEPT];
    uint32_t ngone;
};

/* NULL: not yet. */
static inline td_page *td_epoch_page(const td_epoch *x)
{
    td_storage *st = x->parts[TD_GROUP_PAGE].storage;
    return st ? (td_page *)(void *)st->data : NULL;
}
static inline void *td_epoch_board(const td_epoch *x)
{
    td_storage *st = x->parts[TD_GROUP_BOARD].storage;
    return st ? st->data : NULL;
}

/* ---- group.c */
/* With its page, which names nobody yet. */
int td_epoch_new(td_epoch **out, td_named_group *g, uint32_t size, td_error *e);
/* Nobody points to a member of it. */
void td_epoch_end(td_epoch *x);
/* It is made, unless it is there. */
int td_epoch_want(td_epoch *x, td_group_part part, td_error *e);
/* To whoever waits for that: it is there, or why it is not. */
void td_epoch_tell(td_epoch *x, td_group_part part, const td_error *error);
/* Nobody points to a member of it. */
void td_group_end(td_named_group *g);
/* Whoever comes by its name from now on forms another. */
void td_group_unname(td_named_group *g);
/* The wait ends, with its callback as the last step. */
void td_group_wait_over(td_group_wait *w, const td_error *error);
/* The next epoch has begun: the wait is for its board from now on. */
void td_group_wait_for_board(td_group_wait *w, td_epoch *x);
/* All waits of a member. */
void td_group_cancel_waits(td_group_member *m);

/* ---- door.c */
/* The member that has this rank in the present epoch, or is going to have it in the next one; NULL: nobody. */
const td_group_member *td_group_holder(const td_named_group *g, uint32_t rank);
/* How many ranks it has: in the present epoch, else those that it is going to have. */
uint32_t td_group_ranks(const td_named_group *g);
/* Is it the living member of a seat in the present epoch? */
bool td_group_is_in(const td_group_member *m);
/* A member of the present epoch comes to the door. */
int td_door_come(td_group_member *m, td_error *e);
/* It waits for the next epoch no more, if it did; `how` one that is in no epoch went, for messages. */
void td_door_leave(td_group_member *m, const char *how);
/* Begin the next epoch, if that can be; `expel`: without those of the present one that have not come. An error is told
 * to all at the door as well. */
int td_door_look(td_named_group *g, bool expel, td_error *e);
/* Somebody went: look soon. */
void td_door_look_soon(td_named_group *g);
/* The error of one at the door whose deadline is over. */
int td_door_incomplete(const td_group_member *m, uint32_t waited_ms, td_error *e);
/* One that went is known to have died. */
void td_door_died(const td_group_member *m);

/* ---- mourn.c */
/* This is how a member has gone: the others learn of it. */
void td_group_tell(const td_group_member *m, td_rank_state how);
/* It has gone, and its seat with it. The member is no more. */
void td_group_over(td_group_member *m, td_rank_state how);
/* Nobody needs to know more of it. */
void td_group_forget(td_group_member *m);
/* The board is there: it is told of those that have gone before. */
void td_epoch_mourn_all(td_epoch *x);

/* ---- limbo.c */
/* Its process is watched from now on, or has ended and the member is no more. False: it cannot be watched. */
bool td_limbo_join(td_group_member *m);
/* It is watched no more. */
void td_limbo_leave(td_group_member *m);

#endif
