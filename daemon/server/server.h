/* The server: sockets, peers, turns, signals. Everything that touches libuv is in this room.
 *
 * One loop thread. Each peer gets a bounded turn, then the next; replies are flushed at the end of a turn. A peer that
 * does not read its replies, or that has work pending, is not read from. */
#ifndef TENSORD_DAEMON_SERVER_SERVER_H
#define TENSORD_DAEMON_SERVER_SERVER_H

#include "daemon/server/listen.h"
#include "daemon/server/options.h"
#include "daemon/server/turns.h"
#include "daemon/session/session.h"
#include "proto/base/patience.h"

#include <uv.h>

#define TD_DISPOSE_AWAY (UINT64_C(256) << 10) /* segments of this size are freed by a helper thread */

enum {
    TD_TURN_RECORDS = 512, /* of one peer, before the next has its turn */
    TD_MAX_PEERS = 65536
};

typedef struct td_server td_server;
typedef struct td_watch td_watch;
typedef struct td_stopper td_stopper;

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* What the log is told of so many times a second at most. */
typedef struct td_seldom {
    uint64_t since_ms;
    uint32_t told, untold; /* since then, the log; since it was last told */
} td_seldom;

struct td_peer {
    td_server *server;
    struct td_peer *next, *prev;             /* all peers */
    struct td_peer *next_ready, *next_dirty; /* queued for a turn, for a flush */
    struct td_peer *next_watched;            /* its ring is looked at before the loop sleeps */
    struct td_peer *next_hungry;             /* waits for a larger buffer (intake.c) */
    bool ready, dirty, eof, broken, closing, blocked, stalled, full;
    bool wants;     /* input, when some comes; else it stays in the socket */
    bool came;      /* input may be there: it is looked for in the next turn */
    int fd, events; /* events: what the poll is armed for; -1: stopped */
    bool dismissed; /* it was told why it has to go */
    bool suspect;   /* its socket may hold descriptors of its making, which only a helper may close */
    int sent_fds;   /* descriptors handed over that the peer may not have received yet */
    uv_poll_t poll;
    td_reader reader;
    td_writer writer;
    td_ring ring;
    bool watched;
    td_peer_id id;
    td_session *session;
    td_process *process;
    td_watch *watch;
    td_stopper *stopper;        /* NULL: it has none */
    td_account *account;        /* pays for its buffers: the user's, then its session's; a reference */
    uint64_t counted;           /* bytes that it pays for */
    bool hungry, grown, narrow; /* grown: it has a large buffer; narrow: so is its socket's */
    uint64_t hungry_since_ms, began_ms,
        moved_ms;             /* its large buffer; when something came into that, or an answer went */
    uint64_t behind_since_ms; /* since when its session was seen to stand at one place; 0: it goes on */
    uint64_t behind_at;       /* that place */
};

struct td_server {
    uv_loop_t loop;
    td_options options;
    td_service service;
    td_sessions sessions;
    td_listener listener;
    uv_poll_t listening;
    uv_poll_t wake; /* tasks have ended: of wake_fd */
    uv_poll_t soon; /* of soon_fd */
    uv_poll_t root; /* of a private daemon: the end of the program it was started for */
    uv_timer_t deadlines, grace, retry, settle;
    uv_idle_t spin; /* keeps the loop from sleeping while somebody has a turn to come */
    uv_signal_t sigterm, sigint;
    uv_check_t check;
    td_peer *peers, *dirty;
    td_turns turns;
    td_peer *watched;   /* rings in use: nobody rings a bell for these */
    uint64_t last_news; /* ns: when a ring last had something, or was answered through */
    td_patience patience;
    uint64_t next_deadline; /* in ms, as the timer is set */
    int soon_fd;            /* a timer for one that is due sooner than libuv's knows; -1: there is none */
    bool settling;          /* the timer runs that looks for what lies idle */
    uint64_t seen;          /* what had happened (as below) when it last ran */
    uint64_t settled;       /* what had happened (td_service.frames_in, peers that came and went) when nothing did */
    uint64_t came_and_went;
    uint64_t most_bytes; /* of records of tensors, graphs and large frames, since malloc last gave some back */
    td_watch *watches;
    td_watch *ended;   /* of processes whose end is worked off, ... */
    td_peer *ended_at; /* ... and the next connection that may be of the first */
    uint32_t npeers;
    uint64_t refused;
    td_peer *hungry, **last_hungry;             /* who waits for larger buffers */
    uint64_t wire;                              /* bytes that all connections held, when it was looked at last */
    uint64_t added_up_ms;                       /* when what each process holds was added up for an answer */
    uint64_t refused_since_ms, refused_last_ms; /* answers, for want of room: one after the other since, and the last */
    td_deadline intake;                         /* whether somebody is in the way of others */
    td_seldom refusals, killed;                 /* clients that got no memory, that went without a word */
    int wake_fd;
    int spare_fd; /* closed to accept, and refuse, when descriptors run out */
    bool draining, spinning, had_client, retrying, root_lives;
    bool resumed;           /* somebody who waited can go on: another round before the loop sleeps */
    int helpers;            /* background jobs */
    struct td_aside *aside; /* jobs that may hang */
};

/* root.c: s->root_lives, until the process that options.root_fd names has ended */
int td_root_watch(td_server *s, td_error *e);

/* The whole program: returns what main() does. `devices`: kinds beside the CPU, up to a NULL. (command.c) */
int td_server_main(int argc, char **argv, const td_device_kind *const *devices);
int td_server_init(td_server *s, const td_options *o, const td_device_kind *const *devices, td_error *e);
/* Serve until it is time to end. */
void td_server_run(td_server *s);
/* Somebody lets go of much, or there is time to look: what will be malloc's to give back. */
void td_server_note_bytes(td_server *s);
void td_server_deinit(td_server *s);

/* peer.c */
void td_peer_accept(td_server *s);
/* One turn: read what is there, work on frames. */
void td_peer_turn(td_peer *p);
void td_peer_flush(td_peer *p);
void td_peer_make_ready(td_peer *p);
void td_peer_close(td_peer *p);
/* Tell the peer why, as far as its socket takes it, and end the connection. */
void td_peer_end_with(td_peer *p, const td_error *why);
void td_peer_wrote(td_peer *p);
bool td_peer_may_read(const td_peer *p); /* may its ring be read now? */

/* intake.c: what connections may buffer */
/* May one more connection of this process begin? */
bool td_intake_admits(td_server *s, const td_process *process);
/* Its account from here on; NULL: it ends. */
void td_intake_pay_by(td_peer *p, td_account *account);
/* Its buffers may have changed. */
void td_intake_count(td_peer *p);
/* May it have the buffer that the frame in hand needs? Else it is told (a turn) when it may. */
bool td_intake_grows(td_peer *p);
/* May it have an answer of so many bytes to be read? */
bool td_intake_room(td_peer *p, uint64_t bytes);
void td_intake_forget(td_peer *p);
/* It waits for room for a frame of which the rest can never come. */
bool td_intake_in_vain(const td_peer *p);
/* A socket takes less while memory is short. */
void td_intake_fit_socket(td_peer *p);
/* After turns: who waits may perhaps go on. */
void td_intake_look(td_server *s);

/* ring.c: peers whose bytes go through shared memory */
void td_peer_use_ring(td_peer *p, td_ring_memory *m); /* from here on, for what is read and for what is written */
void td_peer_watch_ring(td_peer *p);
/* All that there is for it was said: it may soon have more to say. */
void td_peer_answered(td_peer *p);
void td_peer_forget_ring(td_peer *p);
void td_peer_bell(td_peer *p);
/* Give a turn to those who have written. */
void td_rings_look(td_server *s);
/* May the loop sleep? False: something came, or is likely to come at once. */
bool td_rings_rest(td_server *s);

/* stopper.c: a second socket of a connection, by which calls of programs are ended */
int td_stopper_new(td_peer *p, td_error *e); /* the client's end; -1 with `e` */
void td_stopper_turn(td_stopper *x);         /* its peer has its turn */
void td_stopper_end(td_peer *p);

/* aside.c: what a client's descriptor may make hang, on threads that nothing else waits for */
int td_aside_init(td_server *s, td_error *e);
/* A td_service_options hook: `work` on such a thread, then `done` (NULL is fine) on the loop. */
void td_aside_run(void *server, void (*work)(void *), void (*done)(void *), void *arg);
/* Close a descriptor there. */
void td_aside_close(void *server, int fd);
/* Wait a moment for those that still run, and end. False: some hang, and may touch what they were given. */
bool td_aside_deinit(td_server *s);

/* watch.c: processes, by pidfd, one for all connections of a process */
td_watch *td_watch_ref(td_server *s, int socket, uint32_t pid);
void td_watch_unref(td_watch *w);
/* Its memory may be mapped until the process ends. Takes the heap over. */
void td_watch_keep(td_watch *w, td_heap *heap);
/* What is kept goes into this heap of the process's next session; false: there was nothing. */
bool td_watch_inherit(td_watch *w, td_heap *into);
/* Some of what follows when processes have ended; is there more? */
bool td_watches_clear(td_server *s);
/* The daemon ends, and with it whatever any process may still have mapped: the loop has closed all handles. */
void td_watches_deinit(td_server *s);
/* False when it is known to have ended. (A process of another pid namespace cannot be watched before Linux 6.5.) */
bool td_watch_alive(const td_watch *w);

#endif
