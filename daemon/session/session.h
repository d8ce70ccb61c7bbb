/* A session: one client's objects and its place in the order of things. The one door of this room.
 *
 * A session is one in-order stream: frames go in whole, and are worked off record by record in bounded turns. What waits for the future
 * (a lease, memory, a result whose shape depends on data) suspends the session; it says so, and asks to be resumed. What waits for others
 * to bring something (an item of a queue, room in one, a name) is held beside the stream and answered when it has come.
 * Everything it holds is charged to its account and goes with it. It knows no sockets: a td_session_io stands for its connection. */
#ifndef TENSORD_DAEMON_SESSION_SESSION_H
#define TENSORD_DAEMON_SESSION_SESSION_H

#include "daemon/service/service.h"
#include "daemon/session/stream/lines.h"
#include "proto/wire/frame.h"

enum { TD_HELD_MOST = 1024 }; /* requests of a session that wait for what others do; one more waits in the stream */

typedef struct td_session td_session;

typedef struct td_session_io {
    td_writer *writer;          /* where replies go */
    void (*wrote)(void *arg);   /* there is something in the writer */
    void (*resume)(void *arg);  /* run me again soon: called from within other calls, so only take note */
    void (*admit)(void *arg, bool on); /* may a descriptor come in now? NULL: never */
    void (*ring)(void *arg, td_ring_memory *m); /* once idle, go on through this; NULL: it cannot */
    /* Memory that ended sessions of the same process left goes into this heap; false: there is none. NULL: never. */
    bool (*inherit)(void *arg, td_heap *into);
    void (*refused)(void *arg, const td_error *why); /* it got no memory; NULL: nobody wants to know */
    int (*stopper)(void *arg, td_error *e); /* the client's end of one, which hears td_session_stop; or an error, -1. NULL: always that */
    bool (*room)(void *arg, uint64_t bytes); /* may its connection hold an answer as large? NULL: as all together may */
    td_share *share; /* of the workers: with the other sessions of its process; NULL: its own */
    void *arg;
} td_session_io;

/* All sessions of a daemon, and what they share. */
typedef struct td_sessions {
    td_service *service;
    td_session *first;
    uint32_t count, next_id;
    td_session *throttled; /* suspended until tasks end */
    td_session *wanting;   /* those that wait for the end of a lease, or have not had their turn since, ... */
    struct td_write_lease *write_leases; /* open ones, by their storages */
    uint64_t leases_begun;
    uint32_t lease_ms;     /* who needs what another writes to, or must not write what another's backward still reads,
                            * waits so long, and is then told who it is */
    td_session *for_leases, **last_for_leases; /* ... and that wait for one to change, as they came */
    td_session *backwards;                     /* those at a backward that still reads something */
    struct td_sent_of *sent; /* segments that somebody has a descriptor of */
    uint32_t rings;        /* sessions whose frames go through shared memory */
    struct td_remains *remains; /* of ended sessions */
    td_session *settle_next;    /* of a round of td_sessions_settle that is under way; NULL: none is */
    bool settle_later;          /* it has seen something that the next round may give back */
    td_session *ask_next;       /* of a round that asks all for memory, see objects/reclaim.c; NULL: none is under way */
    uint64_t ask_round;         /* the number of the last */
    uint64_t asked_ms;          /* when somebody was last asked */
    td_lines to_read;           /* programs that were sent: those that wait for a helper, and that helpers read */
    uint64_t freed_aside;       /* bytes that reading programs needed for a while: who gives back what malloc has clears it */
    td_lines to_unpack;         /* large frames: those that wait for a helper, and that helpers unpack, ... */
    uint64_t unpacked;          /* ... and the bytes that became of such and are not worked off */
    td_deadline look_to_unpack; /* whether these wait for others */
    uint32_t making;            /* sessions for which a segment is made, or was and they have not looked yet */
    uint64_t taken_ms;          /* when somebody last looked for those who were asked in vain */
    td_session *take_next;      /* of such a round; NULL: none is under way */
    uint64_t taken_bytes;       /* by the last */
    struct td_session_table *table; /* of status, that is being made; one at a time */
    uint32_t tables;            /* of what takes memory, that were begun: the number of the last */
    uint64_t table_from_ns;     /* no table of status before: who asks waits */
    char holders[480];          /* the biggest, as refused clients are told ... */
    uint64_t holders_of;        /* ... of that device and user ... */
    uint64_t holders_until_ns;  /* ... until then */
    uint64_t shed_ms;           /* when td_sessions_shed last looked at all of them */
    td_session *ending, *last_ending; /* ended, with tasks of theirs or jobs still under way */
    td_session *wither_next;    /* of a round over what these left queued; NULL: none is under way */
    td_deadline look_again;     /* for another one: somebody may have let go of it */
    uint64_t descriptors;  /* that were handed out and are counted by the server */
    uint64_t inline_limit; /* bytes of a value in a reply */
    size_t max_unread;     /* bytes of replies that the peer has not read: more, and its records wait */
    uint32_t max_pending;  /* tasks of one session in flight, ... */
    uint32_t pace;         /* ... and so many while they end quickly: what is known of them all then stays in the loop's cache */
    uint64_t ahead_ns;     /* estimated work that is enough for the workers until the loop looks again */
    uint64_t max_pending_bytes; /* that these will fill: who asks for much ahead of the kernels would have memory for all of it */
} td_sessions;

void td_sessions_init(td_sessions *all, td_service *service);

typedef struct td_peer_id {
    uint32_t uid, pid;
} td_peer_id;

/* Begin with the connection's first frame (which must be HELLO); writes the Welcome. */
int td_session_new(td_session **out, td_sessions *all, const td_session_io *io, const td_peer_id *who, const td_frame *hello, td_error *e);
/* The connection is gone: lets go of everything, of what is much in turns (td_sessions_clear). Queues that it had not closed see a death. Running tasks keep the session's
 * struct until they end, by themselves. When the process still lives (`alive`) and may have its memory mapped, its heap is returned: call
 * td_heap_unmapped on it when the process is gone, and hand it over (td_heap_hand_over) to the next session of that process which wants memory; NULL otherwise. */
td_heap *td_session_end(td_session *s, bool alive);
/* Its process has ended, while what it sent is still worked off: its groups are told at once. */
void td_session_process_ended(td_session *s);

/* Who pays for what it holds. */
td_account *td_session_account(td_session *s);

/* What the client was at when it went without a word, as a killed one does; false when that was nothing, or it said that it would go. */
bool td_session_was_at(const td_session *s, char *text, size_t size);
const char *td_session_program(const td_session *s);

/* Take in one frame. Only when the session is idle (td_session_run said TD_RUN_IDLE). An error is the end of the connection. */
/* Takes f->fd when the frame is a call, and f->block if it likes. */
int td_session_frame(td_session *s, td_frame *f, td_error *e);

/* Its call of a program with this serial ends; not in its stream, which that run holds up. Unless `alone` so does a run
 * that has no serial. */
void td_session_stop(td_session *s, uint64_t call, bool alone);

typedef enum td_run {
    TD_RUN_IDLE,      /* everything it was given is done */
    TD_RUN_MORE,      /* the turn is over */
    TD_RUN_SUSPENDED, /* it will ask to be resumed */
    TD_RUN_STALLED,   /* its replies must be read first */
    TD_RUN_FATAL
} td_run;
/* Work off at most about `most` records. TD_RUN_FATAL: `e` says why the connection must end. */
td_run td_session_run(td_session *s, int most, td_error *e);
/* The same as a part of a turn: that is over at *until_ns, by td_clock_ns(), which is said at the first look when it is 0. */
td_run td_session_run_until(td_session *s, int most, uint64_t *until_ns, td_error *e);
/* After td_sched_collect: resume sessions that waited for tasks to end. */
void td_sessions_collected(td_sessions *all);

/* At quiet moments, now and then: memory that has been empty since the last time goes back to the system; clients that have it mapped are asked to
 * unmap it. Looks at about `most` sessions. */
typedef enum td_settled { TD_SETTLED, TD_SETTLE_LATER, TD_SETTLE_MORE } td_settled;
td_settled td_sessions_settle(td_sessions *all, int most);

/* Descriptors are short: what lies empty, and nobody has mapped, goes back to the system at once. False: there was nothing. */
bool td_sessions_shed(td_sessions *all);

/* Let go of about `most` of what ended sessions left and of what died with it; is there more? */
bool td_sessions_clear(td_sessions *all, int most);

uint32_t td_session_id(const td_session *s);
/* Is it waiting for something that only another session can bring? (Then a hang-up ends it at once.) */
bool td_session_waits(const td_session *s);
/* Or is it at something that may never end? Then *at is the place in its stream. */
bool td_session_stands(const td_session *s, uint64_t *at);
/* Of one whose client has gone: does it wait for what its own tasks leave (room, memory), and has none of these ended for a
 * second? Nobody else would ever end them. Or has it run a program for a second since? Asks to be resumed when there is more to be said. */
bool td_session_forlorn(td_session *s);

#endif
