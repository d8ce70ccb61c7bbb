/* Whose turn it is: processes in rotation, and the connections of each in rotation.
 *
 * A process counts once, however many connections it has: one with five hundred gets a turn where another gets one. */
#ifndef TENSORD_DAEMON_SERVER_TURNS_H
#define TENSORD_DAEMON_SERVER_TURNS_H

#include "daemon/session/session.h"

typedef struct td_peer td_peer;

/* The connections of one process. Those of processes that have no number here (another pid namespace) are one for each
 * user. */
typedef struct td_process {
    struct td_process *next, *prev; /* all */
    struct td_process *next_ready;  /* those that have a connection which is ready */
    td_peer_id id;
    uint32_t connections;
    uint64_t held; /* bytes that these hold, as intake.c has added up last */
    td_share *share;
    td_peer *first_ready, **last_ready;
} td_process;

typedef struct td_turns {
    td_process *processes, *first, **last;
    uint32_t ready, ready_processes; /* connections, processes with any */
} td_turns;

void td_turns_init(td_turns *t);
/* A connection of this process begins; NULL without memory. It ends. */
td_process *td_turns_join(td_turns *t, const td_peer_id *id);
void td_turns_leave(td_turns *t, td_process *p);
/* Behind all others of its process. It must not be ready already. */
void td_turns_add(td_turns *t, td_peer *peer);
void td_turns_remove(td_turns *t, td_peer *peer);
/* The next connection, which is then not ready any more; its process goes behind all others. NULL: there is none. */
td_peer *td_turns_next(td_turns *t);

#endif
