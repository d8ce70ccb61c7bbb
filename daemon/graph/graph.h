/* Programs: modules of the IR (proto/program) that were verified, and runs of them. The one door of this room.
 *
 * A program holds its module and the tensors that it captured; whoever may call it shares both. A run goes through the
 * module in bounded steps on the loop thread, as the stream of a session goes through records: each tensor op is a call
 * that records its gradient (daemon/autograd) and is issued (daemon/sched) as if a client had sent it, so its bits,
 * errors, versions and order are those of eager work. Numbers, lists and branches are worked out in between; only where
 * a branch or a number comes from a tensor's value does a run wait for that. */
#ifndef TENSORD_DAEMON_GRAPH_GRAPH_H
#define TENSORD_DAEMON_GRAPH_GRAPH_H

#include "daemon/autograd/autograd.h"
#include "daemon/graph/value.h"
#include "proto/program/values.h"

#include <stdio.h>

/* Of the mode of a record, or of a program's node (TD_RM_). */
static inline td_grad_mode td_grad_mode_of(uint32_t mode)
{
    if (mode & TD_RM_INFERENCE) return TD_GRAD_INFERENCE;
    return mode & TD_RM_GRAD_OFF ? TD_GRAD_OFF : TD_GRAD_ON;
}

typedef struct td_held_program td_held_program;

/* Of a module that the verifier has passed, and that is taken over when this succeeds. Any thread may do it: what takes
 * time is done here. */
int td_program_new(td_held_program **out, td_ir *ir, td_error *e);
/* And before it is run, on the loop. `captured`: a tensor for each of its captured names, in their order; the program
 * takes references. What it takes is charged to the account. */
int td_program_capture(td_held_program *p, uint32_t ncaptured, td_tensor *const *captured, td_account *account,
                       td_error *e);
/* Who frees what a large one leaves: a helper thread, by `give`. Without it, who lets go of it last. */
typedef struct td_program_end {
    void (*give)(void *arg, void (*work)(void *), void (*done)(void *), void *what);
    void *arg;
} td_program_end;
void td_program_end_by(td_held_program *p, const td_program_end *by);
/* The same module with other tensors in the place of those that it captured. What is known of the module is shared: on
 * the loop, and in no time. */
int td_program_like(td_held_program **out, const td_held_program *p, td_tensor *const *captured, td_account *account,
                    td_error *e);
/* Its module in the binary form, for who opens it elsewhere: a copy is kept. Any thread may do it, before the capture,
 * which charges it. */
int td_program_keep_bytes(td_held_program *p, const uint8_t *bytes, size_t n, td_error *e);
const uint8_t *td_program_bytes(const td_held_program *p, size_t *n);
td_ir *td_program_module(const td_held_program *p); /* borrowed */
uint32_t td_program_captured(const td_held_program *p, td_tensor *const **out);
uint64_t td_program_captured_bytes(const td_held_program *p); /* of these together, views as far as they reach */
/* For a table of what takes memory: true for the first who asks with this number, and what it takes of the daemon's own
 * memory, in objects, which *account pays for. */
bool td_program_list(td_held_program *p, uint32_t table, uint64_t *objects, td_account **account);
uint32_t td_program_nodes(const td_held_program *p);
uint32_t td_program_parameters(const td_held_program *p);
/* Has it a backward that adds to .grad? */
bool td_program_accumulates(const td_held_program *p);
/* How many rows of its nodes can be run as one call. */
uint32_t td_program_plans(const td_held_program *p);
/* What these are, for people; at most 64 KB. */
void td_program_tell_plans(const td_held_program *p, FILE *out);
td_held_program *td_program_ref(td_held_program *p);
void td_program_unref(td_held_program *p);

typedef struct td_exec td_exec;

/* What a run needs of whoever serves it, beside the issuer. */
typedef struct td_exec_env {
    void (*woken)(void *arg); /* what it waited for has come: take the next step. May be called from within a step */
    void *arg;
    const td_cause *(*lost)(void *arg); /* why a backward before failed, of which nobody was told; NULL: none did */
    uint32_t scope;                     /* whose gradients its backwards and its .grad speak of */
} td_exec_env;

/* A run that has yet to begin. `mode`: of the record (TD_RM_); all its nodes are of it, too. */
int td_exec_new(td_exec **out, td_held_program *p, td_issuer *who, const td_exec_env *env, uint32_t mode, td_error *e);
/* What its lists and texts are paid from, for arguments that are made of such. */
td_purse *td_exec_purse(td_exec *r);
/* A value for each parameter of the graph, checked against its type; the run takes references. */
int td_exec_begin(td_exec *r, uint32_t nargs, const td_val *args, td_error *e);
/* Go on for about `most` tensor ops. 0 and *done; an error ends it, told with the program's line. Memory is lacked as
 * by td_autograd_run: TD_WAIT_GROW, and a TD_E_MEMORY or TD_E_QUOTA that may pass, leave it where it is
 * (td_exec_lacks). It may also have to wait: td_exec_behind, td_exec_waits. With need NULL it grows by itself. */
int td_exec_step(td_exec *r, int most, bool *done, td_need *need, td_error *e);
/* What it has printed so far, lines of it; borrowed. NULL: nothing. */
const char *td_exec_said(const td_exec *r, size_t *n);
bool td_exec_lacks(const td_exec *r);
/* The last step went no further for the writes that are pending on this storage, whose value it wants. Borrowed. */
const td_storage *td_exec_behind(const td_exec *r);
/* ... for a call whose result's shape only its values tell: env.woken is called. */
bool td_exec_waits(const td_exec *r);
/* For the issuer's may_touch: is it a backward's last step that asks? */
bool td_exec_commits(const td_exec *r);
/* Then its pins are gone: true for the first who asks, who should tell those that wait for them. */
bool td_exec_unpinned(td_exec *r);
/* As td_backward_reads, of the one that it is at. */
bool td_exec_reads(const td_exec *r, const td_storage *s, uint32_t *most);
/* After done: what it returned, borrowed. */
uint32_t td_exec_results(const td_exec *r, const td_val **out);
/* Let go of it, about so many values at a time: true when it is gone. */
bool td_exec_drop(td_exec *r, int most);

/* Values as they come (proto/program/values.h), read in as many parts as one likes: in the end of all the words and
 * with all the tensors, which are borrowed. What was read when it failed is in out[], to be dropped. */
typedef struct td_vals_reading {
    td_purse *purse;
    const uint32_t *words; /* that are left, as are tensors */
    uint32_t left, depth;
    td_tensor *const *tensors;
    uint32_t ntensors;
    td_error *e;
} td_vals_reading;
int td_vals_begin(td_vals_reading *r, td_purse *p, const uint32_t *words, uint32_t nwords, td_tensor *const *tensors,
                  uint32_t ntensors, td_error *e);
int td_vals_read(td_vals_reading *r, uint32_t n, td_val *out, td_error *e);
int td_vals_end(const td_vals_reading *r, td_error *e);
/* And as they go: the first `room` of their tensors, in order and borrowed; *ntensors is how many there are. */
int td_vals_write(uint32_t n, const td_val *v, td_words *w, td_tensor **tensors, uint32_t room, uint32_t *ntensors,
                  td_error *e);

#endif
