/* Groups: a fixed number of processes that do rounds of collectives together, by name.
 *
 * The service says who is in a group, makes the memory that its members share, and tells of each that goes. What they
 * do with it is theirs: a round passes through shared memory (shm/board/board.h), and none of it through the daemon.
 *
 * A group forms until all of its seats are taken; then it has an epoch, which ends with the first member that goes. It
 * has its name until then, so that those who come afterwards form the next one. Invariant: the page says of a member
 * once that it has gone, and from which round on; nothing of that changes afterwards, but that one that had left may
 * die. */
#ifndef TENSORD_DAEMON_SERVICE_GROUP_H
#define TENSORD_DAEMON_SERVICE_GROUP_H

#include "daemon/service/service.h"
#include "shm/board/board.h"
#include "shm/board/site.h"

typedef struct td_named_group td_named_group;
typedef struct td_group_member td_group_member;

/* A part of a group's memory. */
typedef enum td_group_part { TD_GROUP_PAGE, TD_GROUP_BOARD, TD_GROUP_SLOTS, TD_GROUP_PARTS } td_group_part;

/* What a member waits for: that all have come, or a part of the memory. */
typedef struct td_group_wait {
    td_await await;
    struct td_group_wait *next, **at;
    td_group_member *member;
    td_group_part part; /* TD_GROUP_BOARD comes when all have */
    uint32_t waited_ms; /* so long at most; UINT32_MAX: no limit */
    /* error NULL: it is there. The wait is gone afterwards. The callback only takes note. */
    void (*then)(void *arg, const td_error *error);
} td_group_wait;

/* Take a seat: `rank`, or (-1) the lowest that is free, of a group of `size`, which is made when there is none of that
 * name that forms. TD_E_EXISTS: the seat is taken, or the size is another; the message names who has it. */
int td_group_join(td_group_member **out, td_service *s, const char *name, uint32_t size, int rank,
                  const td_account *who, td_error *e);
/* Wait for a part of its memory: TD_OK: it is there; TD_WAIT: *wait is armed; or an error. `then` as above. */
int td_group_await(td_group_member *m, td_group_part part, uint32_t timeout_ms, td_group_wait **wait,
                   void (*then)(void *, const td_error *), void *arg, td_error *e);
/* Borrowed; NULL: it is not there yet. */
td_storage *td_group_memory(const td_group_member *m, td_group_part part);
uint32_t td_group_rank_of(const td_group_member *m);
uint32_t td_group_size_of(const td_group_member *m);
uint32_t td_group_epoch_of(const td_group_member *m);

/* It leaves, and means to. Waits of its own end with TD_E_CLOSED. */
void td_group_leave(td_group_member *m);
/* Its connection has ended. `alive`: its process may live: if that ends within TD_GROUP_LIMBO_MS it has died, else it
 * has left. */
enum { TD_GROUP_LIMBO_MS = 50 };
void td_group_gone(td_group_member *m, bool alive);
/* Its process has ended, while what it sent may still be worked off: the others are told at once. */
void td_group_died(td_group_member *m);

/* At the end of the service: those that are left. */
void td_groups_clear(td_service *s);

#endif
