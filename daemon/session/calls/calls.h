/* What each record and each request of the protocol does. The door of this room.
 *
 * Invariant: a step does its work, or fails with an answer or a cause, or changes nothing and says what it waits for.
 * An error that it returns is the connection's end. */
#ifndef TENSORD_DAEMON_SESSION_CALLS_CALLS_H
#define TENSORD_DAEMON_SESSION_CALLS_CALLS_H

#include "daemon/session/objects/objects.h"

/* ---- call.c */

/* The request that is next is done. The results of a record's step. */
int td_step_call(td_session *s);
void td_call_failed(td_session *s, const Td__Wire__Call *call, td_error *why); /* that is its answer */
td_tensor *td_call_tensor(td_session *s, uint32_t id, td_error *e);            /* with a value; NULL with `e` */
int td_call_new_id(td_session *s, uint32_t id, td_error *e);                   /* may it be bound? */

/* ---- ops.c */

/* A record is done. TD_OK, TD_SUSPENDED, TD_AGAIN, or an error that is the connection's end. */
int td_step_op(td_session *s, const td_record *r, td_error *e);

/* ---- control.c */

int td_step_control(td_session *s, const td_record *r, td_error *e);
/* A control record fails: its outputs carry the cause, as an op's would. */
int td_record_failed(td_session *s, const td_record *r, const char *what, td_error *why, td_error *e);
/* The tensors behind ids; those that have values. `optional`: 0 is none. */
int td_session_tensors(td_session *s, const uint32_t *ids, int n, bool optional, td_tensor **out, td_error *e);
int td_session_values(td_session *s, const uint32_t *ids, int n, bool optional, td_tensor **out, td_error *e);

/* ---- values.c */

/* What a tensor is and where it stands. */
void td_facts_reply(td_session *s, uint64_t serial, const td_tensor *t, td_edition edition);
int td_read_reply(td_session *s, td_tensor *t, uint64_t serial, td_error *e);
/* Its bytes can be mapped; else says on which device it lies. */
int td_session_check_host(const td_tensor *t, td_error *e);
/* Its address, when everything pending on it has ended; none where nobody maps it. */
typedef struct td_address_form {
    bool descriptor; /* with one to read by, though it was sent before */
    bool quiet;      /* when all that the session sent before has ended, too */
    bool facts;      /* with what td_facts_reply() says */
    bool device;     /* of memory of a device, too */
} td_address_form;
int td_address_reply(td_session *s, td_tensor *t, uint64_t serial, td_address_form form, td_error *e);

/* ---- backward.c */

/* A backward begins; what it has asked is answered. */
int td_session_backward(td_session *s, const td_record *r, td_error *e);
int td_session_backward_go(td_session *s, const td_record *r, td_error *e);
/* A record that could not even be begun: whoever waits for its answer is told. False: nobody does. */
bool td_session_backward_refused(td_session *s, const td_record *r, td_error *why);
/* True, with the error, for a backward that would add to a .grad which its own session has leased. */
bool td_session_leases_grad(const td_session *s, const td_storage *st, td_error *e);

/* ---- hooks.c */

td_hook_owner *td_session_hooks(td_session *s, td_error *e); /* borrowed; NULL with `e` */
int td_session_hook(td_session *s, const td_record *r, td_error *e);
td_noted *td_session_noted(td_session *s, td_error *e); /* borrowed; NULL with `e` */
int td_call_saved(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_session_hook_end(td_session *s, const td_record *r);
int td_session_function(td_session *s, const td_record *r, td_error *e);
int td_session_node_end(td_session *s, const td_record *r);
int td_call_node(td_session *s, const Td__Wire__Call *call, td_error *e);
/* Let go of about `most`: true when all are gone. */
bool td_known_nodes_drop(struct td_known_node **all, td_account *account, int most);
/* Some more of what another has, for a clone; TD_AGAIN: and *next. */
int td_known_nodes_copy(td_session *s, struct td_known_node **next, int most, td_error *e);

/* ---- program.c */

/* A run of one begins, as a job. */
int td_session_program_call(td_session *s, const td_record *r, td_error *e);
int td_call_stopper(td_session *s, const Td__Wire__Call *call, td_error *e);
/* Does it run one, whose results are known to nobody before the answer? */
bool td_session_runs_for_answer(const td_session *s);

/* ---- programs.c */

int td_call_program_new(td_session *s, const Td__Wire__Call *call, td_error *e);
td_held_program *td_session_program_of(const td_session *s, uint32_t id,
                                       td_error *e);                      /* borrowed; NULL: there is none */
int td_session_program_id(const td_session *s, uint32_t id, td_error *e); /* may one get this number? */
int td_session_program_add(td_session *s, uint32_t id, td_held_program *program,
                           td_error *e); /* takes it over when it works */
int td_session_program_end(td_session *s, const td_record *r, td_error *e);
void td_session_program_gone(td_session *s, uint32_t id); /* it is there */
/* The session ends: a helper that reads one for it need not improve it any more. */
void td_session_reading_unwanted(td_session *s);
/* Let go of about `most`: true when all are gone. */
bool td_known_programs_drop(td_known_program **all, int most);
td_held_program *td_known_programs_at(td_known_program **at); /* borrowed; and go on to the next one */
/* Some more of what another has, for a clone; TD_AGAIN: and *next. */
int td_known_programs_copy(td_session *s, td_known_program **next, int most, td_error *e);

/* ---- named.c */

/* Who opened one is answered. */
int td_session_program_open(td_session *s, uint64_t serial, uint32_t id, td_held_program *p, td_error *e);
int td_call_program_publish(td_session *s, const Td__Wire__Call *call, td_error *e);
/* What a program captures, copied some at a time: by `who`, into its service memory; what lies in service memory stays
 * there, unless `always`. */
typedef struct td_captures {
    td_held_program *of;
    td_issuer *who;
    td_tensor *const *captured;
    td_tensor **made; /* in their place, so many */
    uint32_t n, done;
    bool always;
} td_captures;
int td_captures_begin(td_captures *p, td_held_program *of, td_issuer *who, bool always, td_error *e);
int td_captures_some(td_session *s, td_captures *p,
                     td_error *e);               /* TD_OK: that was the last; TD_AGAIN: there are more */
bool td_captures_drop(td_captures *p, int most); /* true: all are let go of */
int td_call_program_captured(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_program_plans(td_session *s, const Td__Wire__Call *call, td_error *e);

/* ---- names.c */

int td_call_publish(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_program_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_drop(td_session *s, const Td__Wire__Call *call, td_error *e);
/* The value in service memory, which outlives the session: the tensor itself when it is there already, else a copy. A
 * new reference. */
int td_session_in_service(td_session *s, td_tensor *t, bool copy, td_tensor **out, td_error *e);
/* A copy; flags: TD_CF_SERVICE: in service memory. */
int td_session_copy(td_session *s, td_tensor *t, uint32_t flags, td_tensor **out, td_error *e);
int td_session_copy_by(td_session *s, td_issuer *who, td_tensor *t, uint32_t flags, td_tensor **out, td_error *e);
int td_call_name_look(td_session *s, const Td__Wire__Call *call, td_error *e);

int td_call_model_open(td_session *s, const Td__Wire__Call *call, td_error *e);

/* ---- models.c */

int td_call_model_publish(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_model_ready(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_model_close(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_model_serve(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_model_retire(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_session_model_id(const td_session *s, uint32_t id, td_error *e); /* may one get this number? */
/* Open one that has the name, and answer that. */
int td_session_model_open(td_session *s, uint64_t serial, uint32_t id, const char *name, uint32_t version, td_error *e);
td_model_user *td_session_model(td_session *s, uint32_t id, td_error *e); /* NULL with `e` */
void td_session_models_drop(td_session *s);

/* ---- infer.c */

int td_call_infer(td_session *s, const Td__Wire__Call *call, td_error *e);

/* ---- hand.c */

int td_call_hand(td_session *s, const Td__Wire__Call *call, td_error *e);

/* ---- queues.c */

td_queue_handle *td_session_queue(td_session *s, uint32_t id, td_error *e); /* that is open; NULL with `e` */
void td_queue_close_when_in(td_session *s, td_queue_handle *h);             /* the end of a closing one */
int td_call_queue_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_close(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_look(td_session *s, const Td__Wire__Call *call, td_error *e);
/* A session that has ended leaves these, with a death each. At most so many; true: there are no more. */
bool td_queue_handles_drop(td_queue_handle **all, td_service *service, td_account *account, int most);

/* ---- groups.c */

int td_call_group_open(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_group_memory(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_group_leave(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_group_regroup(td_session *s, const Td__Wire__Call *call, td_error *e);
/* A session that ends leaves its groups; `alive`: its process may live. */
void td_session_groups_drop(td_session *s, bool alive);

/* ---- items.c */

int td_call_queue_put(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_get(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_queue_return(td_session *s, const Td__Wire__Call *call, td_error *e);
/* The handle closes: its gets that still wait end so. */
void td_queue_refuse_gets(td_session *s, const td_queue_handle *of, const td_error *why);
/* The items that hold the storage as it is now are given a copy of it. */
int td_session_keep_items(td_session *s, td_storage *st, td_error *e);

/* ---- leases.c */

/* What its stream waits for, and whose write lease that is: "a write lease that train.py (pid 7) holds". */
const char *td_session_awaits(const td_session *s, char *buffer, size_t size);
int td_call_lease(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_ring(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_lease_drop(td_session *s, const Td__Wire__Call *call, td_error *e);
int td_call_write_begin(td_session *s, const Td__Wire__Call *call, td_error *e);
td_fill_lease *td_lease_find(td_session *s, uint32_t id);
/* Where a storage lies; `lease` 0: it is none. */
void td_lease_reply(td_session *s, uint64_t serial, td_storage *st, uint32_t lease);
int td_lease_new(td_session *s, uint64_t bytes, td_fill_lease **out, td_need *need, td_error *e);
/* Off the list; the extent is the caller's (or given back with `release`). */
void td_lease_take(td_session *s, td_fill_lease *l, td_extent *extent);
/* Of a session that has ended: at most so many; true when there are no more. */
bool td_leases_drop(td_fill_lease **leases, td_account *account, int most);
void td_ring_drop(td_session *s);
/* Open a write lease on a storage that has none; end it (TD_E_INVALID when there is none of this session). */
int td_write_lease_new(td_session *s, td_tensor *t, td_error *e);
int td_write_lease_end(td_session *s, td_storage *st, td_error *e);
bool td_write_leases_drop(td_write_lease **leases, td_account *account, int most);
/* Is a write lease in the way of touching this storage? TD_OK, TD_E_BUSY (own lease), or TD_AGAIN (somebody else's,
 * waiting). */
int td_session_leased(td_session *s, const td_storage *st, td_error *e);
static inline int td_session_check_lease(td_session *s, const td_storage *st, td_error *e)
{
    return st->flags & TD_SF_LEASED ? td_session_leased(s, st, e) : TD_OK;
}
/* The same for writing: somebody's backward in progress may have to read it first, and what lies in queues stays as it
 * is. */
int td_session_check_write(td_session *s, const td_storage *st, td_error *e);
/* Its job is a backward that has yet to read something, or not. */
void td_session_reads(td_session *s, bool on);

/* ---- import.c */

int td_call_import(td_session *s, const Td__Wire__Call *call, td_error *e);

/* ---- clone.c */

/* Another session of the same user, for whoever knows its token; NULL with `e` ("... to clone"). */
td_session *td_session_by_token(const td_sessions *all, uint32_t id, uint64_t token, const td_peer_id *who,
                                const char *what, td_error *e);
/* Begin as a clone. And the end of a session: those that copy its objects find none any more. */
int td_session_clone(td_session *s, const Td__Wire__Hello *h, const td_peer_id *who, td_error *e);
void td_clones_end(td_session *parent);
/* Must it stand still, so that its clones find what they want? And after a turn: perhaps it has come to where that is.
 */
bool td_clones_hold(const td_session *parent);
void td_clones_look(const td_session *parent);

/* ---- status.c */

int td_call_status(td_session *s, const Td__Wire__Call *call, td_error *e);
/* The table that is being made goes on behind a session that ends. */
void td_table_pass(td_session *s);

/* ---- tensors.c */

void td_table_pass_program(td_session *s, const td_known_program *p, td_known_program *next);

#endif
