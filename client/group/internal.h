/* A group as one of its members has it: what the files of this room share.
 *
 * A group has a connection of its own, so whatever the program does with its other ones holds up no round, and the
 * daemon knows that this member has gone when the connection has. Rounds pass through the board (shm/board/board.h);
 * the connection is only looked at while a round is waited for. Calls of one group come one after the other: its lock
 * is held by each from its first step to its last, and stepped aside for. */
#ifndef TENSORD_CLIENT_GROUP_INTERNAL_H
#define TENSORD_CLIENT_GROUP_INTERNAL_H

#include "client/wire/memory.h"
#include "client/wire/stream.h"
#include "shm/board/board.h"
#include "shm/board/combine.h"
#include "shm/board/site.h"
#include "shm/board/words.h"

enum { TD_BUFFERS_MOST = 64 /* that the daemon makes in an epoch */ };
enum { TD_IN_FLIGHT = 2 }; /* rounds of one call that are under way at once */

typedef struct td_group_job td_group_job;

/* A round that is under way. */
typedef struct td_piece {
    td_round round;
    td_group_job *job;              /* whose bytes it moves; NULL: nobody's any more */
    uint64_t from;                  /* bytes of a column that went before */
    const void *in[TD_BOARD_RANKS]; /* the inputs of all ranks */
    void *out;
    bool open; /* its end has not been seen */
} td_piece;

struct td_group {
    pthread_mutex_t lock;
    td_client *client;
    char name[256];
    uint32_t least, most; /* members of an epoch */
    td_on_death on_death;
    int timeout_ms;      /* of calls that name none; < 0: for ever */
    unsigned generation; /* of the process that joined (td_fork_generation) */
    td_group_lost *lost; /* members of the epoch before that are not in this one */
    uint32_t nlost;
    /* All of this is the epoch's, and begins anew with it (epoch.c). */
    uint32_t rank, size, epoch;
    int32_t mapped[3]; /* by part of its memory: 1 + the mapping; 0: it is not mapped */
    td_board board;
    td_sites sites;
    unsigned char *memory, *large;          /* the board's small slots, and the large ones; NULL: not there yet */
    int32_t buffer_mapped[TD_BUFFERS_MOST]; /* by number: 1 + the mapping of its segment; 0: none */
    uint32_t buffers;                       /* that were made in this epoch */
    uint32_t calls;                         /* that were made */
    td_group_job *jobs, **last;             /* in the order of their calls; where the next one is put */
    td_piece pieces[TD_IN_FLIGHT];
    unsigned in_flight; /* rounds that are under way */
    bool passes[2]; /* of the last round and of the one before: others read its inputs until they come to the next */
    _Atomic unsigned wanted; /* threads that wait for the lock */
    struct {
        pthread_mutex_t lock;
        struct td_mail_line *lines;
        unsigned count;
        _Atomic unsigned calls; /* that are under way */
    } mail;                     /* mail.c */
    uint64_t last_round;        /* of the call that was done last; 0: none was */
    td_group_fault fault;
    td_error broken; /* code 0: calls can be made; else why they cannot */
};

struct td_group_buffer {
    td_group *group;
    uint32_t epoch, rank, size, number;
    uint64_t bytes; /* of each rank's input, and of the result */
    unsigned char *at;
    void *mapping; /* its own, of `mapped` bytes */
    uint64_t mapped;
};

/* What a call is, for words. */
typedef struct td_group_call {
    td_group *group;
    const char *where;
    td_board_call call;
    int64_t began_ms;
    int timeout_ms;
    uint32_t epoch; /* that it was made for */
    bool yields;    /* whoever wants the lock gets it in the middle of a wait */
} td_group_call;

enum { TD_GROUP_WANTED = -1 }; /* the result of such a wait, beside codes of errors */

/* This process joined: it was not forked from the one that did. */
static inline bool td_group_is_own(const td_group *g)
{
    return g->generation == td_fork_generation() && td_fork_intact();
}

static inline void td_group_lock(td_group *g)
{
    if (!pthread_mutex_trylock(&g->lock)) return;
    atomic_fetch_add(&g->wanted, 1);
    pthread_mutex_lock(&g->lock);
    atomic_fetch_sub(&g->wanted, 1);
}

enum { TD_GROUP_HANDLE = 1 }; /* the one group of its connection */

/* ---- epoch.c */
/* The seat has been asked for: the call's answer brings the epoch that the handle has from then on. What it had of an
 * earlier one is gone, whatever comes of it. */
int td_group_enter(td_group *g, const char *op, Td__Wire__Call *call);
/* Under the group's lock: maps a buffer. */
int td_group_map_buffer(td_group *g, td_group_buffer *b);
/* Under the group's lock: maps the large slots. */
int td_group_need_large(td_group *g);

/* ---- calls.c */
/* In a process that was forked: raises that it is no member. */
int td_group_refuse_child(const td_group *g, const char *op);

/* ---- mail.c */
/* What was sent and not taken stays with the daemon for a while. TD_E_BUSY: another thread is in a call. */
int td_group_mail_end(td_group *g);
/* After that, and the next epoch: messages can be sent again. */
void td_group_mail_go_on(td_group *g);

/* ---- wait.c */
/* Until the round is over; raises what became of it, unless it is done. With p->open it is not over: the program was
 * stopped, the daemon is lost, or TD_GROUP_WANTED. */
int td_group_await_round(td_group_call *c, td_piece *p);

/* ---- words.c */
/* "rank 3 (pid 74, train.py)" */
const char *td_group_say_rank(const td_group *g, uint32_t rank, char *text, size_t size);
/* Why an expelled rank can call nothing more; false: it was not expelled. */
bool td_group_was_expelled(const td_group *g, td_error *e);
/* "its last call was barrier #1203 at train.py:61, 31.2 s ago" */
const char *td_group_say_last(const td_group *g, uint32_t rank, char *text, size_t size);
/* TD_E_MEMBER: a rank has gone `before` ("before it sent a message"). */
int td_group_member_lost(td_group *g, uint32_t rank, const char *before);
/* The round has failed: the error, which stays with the group. */
int td_group_failed(td_group_call *c, const td_piece *p, td_round_outcome outcome);

/* ---- process.c */
/* What a process of this machine is at: its state's letter as in /proc, 0 when it cannot be seen; and the ms of
 * processor time that it has taken. */
char td_process_state(uint32_t pid, int64_t *worked_ms);

#endif
