/* Groups: processes that do rounds of collectives together, by name.
 *
 * The service says who is in a group, makes the memory that its members share, and tells of each that goes. What they
 * do with it is theirs: a round passes through shared memory (shm/board/board.h), and none of it through the daemon.
 *
 * A group has epochs, one after the other. An epoch has its members, its page and its board, and none of these changes
 * but that members go. Whoever wants to be in the next epoch waits at the group's door: one that comes by the name, and
 * one that is in the present epoch and regroups. One rule says when the next epoch begins: when nobody is in the
 * present one who has not come to the door, or gone, and at least `least` are there. Its members are those of the
 * present epoch in their old order, then the others in the order in which they came. In a group of one size each member
 * keeps its rank, and the others have those of members that went.
 *
 * A group has its name as long as somebody is in its present epoch or at its door.
 *
 * Invariant: the page says of a member once that it has gone, and from which round on; nothing of that changes
 * afterwards, but that one that had left may die. A member at the door has one wait, for the board of the next epoch;
 * with that it leaves the door, however it ends. */
#ifndef TENSORD_DAEMON_SERVICE_GROUP_H
#define TENSORD_DAEMON_SERVICE_GROUP_H

#include "daemon/service/service.h"
#include "shm/board/board.h"
#include "shm/board/site.h"

typedef struct td_named_group td_named_group;
typedef struct td_group_member td_group_member;

enum { TD_GROUP_BUFFERS_MOST = 64 /* of an epoch */ };

/* A part of an epoch's memory. */
typedef enum td_group_part {
    TD_GROUP_PAGE,
    TD_GROUP_BOARD,
    TD_GROUP_SLOTS,
    TD_GROUP_BUFFERS, /* the first of them; the others follow */
    TD_GROUP_PARTS = TD_GROUP_BUFFERS + TD_GROUP_BUFFERS_MOST
} td_group_part;

/* What all members of a group say alike. */
typedef struct td_group_form {
    uint32_t least, most; /* members of an epoch */
    uint32_t policy;      /* td_page_policy */
} td_group_form;

/* What a member waits for: the board of the next epoch, or a part of the memory of its own. */
typedef struct td_group_wait {
    td_await await;
    struct td_group_wait *next, **at;
    td_group_member *member;
    struct td_epoch *epoch; /* whose memory it is; NULL: of the next one */
    td_group_part part;
    uint32_t waited_ms; /* so long at most; UINT32_MAX: no limit */
    /* error NULL: it is there. The wait is gone afterwards. The callback only takes note. */
    void (*then)(void *arg, const td_error *error);
} td_group_wait;

/* Come to the door of the group of this name, which is made when there is none. `rank`: in a group of one size, the
 * rank that it wants to have; -1: it is given one. TD_E_EXISTS: the rank is taken, the group is complete, or has
 * another form; the message names who is there. Then td_group_await() the board. */
int td_group_join(td_group_member **out, td_service *s, const char *name, const td_group_form *form, int rank,
                  const td_account *who, td_error *e);
/* A member of the present epoch comes to the door, and waits for the next one as td_group_await() has it. It has no
 * part in rounds of the present epoch that it has not arrived at. When its deadline comes and the next epoch could
 * begin but for members that have not come, these are expelled. Else it fails with TD_E_TIMEOUT, and the member stays
 * where it is. TD_E_EPOCH: it is in the present epoch no more. */
int td_group_regroup(td_group_member *m, uint32_t timeout_ms, td_group_wait **wait,
                     void (*then)(void *, const td_error *), void *arg, td_error *e);
/* Wait for a part of its memory: TD_OK: it is there; TD_WAIT: *wait is armed; or an error. `then` as above. */
int td_group_await(td_group_member *m, td_group_part part, uint32_t timeout_ms, td_group_wait **wait,
                   void (*then)(void *, const td_error *), void *arg, td_error *e);
/* Which part is buffer number `buffer` of its epoch. `bytes` of each rank, and of the result: whoever asks first says
 * how many. TD_E_MISMATCH: others asked for another size. */
int td_group_buffer(td_group_member *m, uint32_t buffer, uint64_t bytes, td_group_part *part, td_error *e);
/* Of the member's epoch. Borrowed; NULL: it is not there yet. */
td_storage *td_group_memory(const td_group_member *m, td_group_part part);
uint32_t td_group_rank_of(const td_group_member *m);
uint32_t td_group_size_of(const td_group_member *m);
uint32_t td_group_epoch_of(const td_group_member *m); /* 0: it is in none yet */

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
