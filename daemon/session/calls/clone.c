/* A session that begins with all of another's references, as a forked child does: a job, a page of the other's
 * table at a time. It is welcome when it has them all; the other goes no further meanwhile.
 *
 * It begins when the other has come to the end of what it was sent before the fork. A run of a program that another
 * thread waits for is no part of that when it comes last, since nobody else knows its results. What stands behind one
 * may be long in coming, and so may what waits for others, or until answers are read: after a moment the clone begins
 * all the same, without what was not there. */
#include "daemon/session/calls/calls.h"

#include <stdlib.h>

enum {
    PAGE_RECORDS = 128, /* that a page counts as */
    PATIENCE_MS = 200,
    LOOK_MS = 20
};

struct td_clone {
    td_job job;
    td_session *session, *parent; /* parent: NULL when that has ended */
    td_clone *next, *prev;        /* of the parent's */
    uint32_t of;                  /* the parent's id */
    uint64_t frames;              /* that the parent is to have come to the end of */
    uint64_t asked_ms;
    bool holds;    /* the parent stands still */
    uint32_t page; /* the next to copy */
    bool objects_done;
    td_known_program *programs;  /* then the next of these, */
    struct td_known_node *nodes; /* and of these */
    uint32_t table_hash;
};

td_session *td_session_by_token(const td_sessions *all, uint32_t id, uint64_t token, const td_peer_id *who,
                                const char *what, td_error *e)
{
    for (td_session *p = all->first; p; p = p->next) {
        if (p->id != id) continue;
        if (p->token == token && p->uid == who->uid) return p;
        td_fail(e, TD_E_PERMISSION, "session %u is not yours %s", id, what);
        return NULL;
    }
    td_fail(e, TD_E_NOT_FOUND, "there is no session %u %s", id, what);
    return NULL;
}

static td_clone *clone_of(td_job *j)
{
    return (td_clone *)(void *)((char *)j - offsetof(td_clone, job));
}

/* A forked child's program is where its parent's was: what that was not told yet of what it wrote is told to both. */
static void inherit_failures(td_session *s, const td_session *parent)
{
    td_lates_copy(&s->failures.late, &parent->failures.late);
    if (parent->failures.late_grad && !s->failures.late_grad)
        s->failures.late_grad = td_cause_ref(parent->failures.late_grad);
}

/* It has what it wanted, or ends: the other goes on, also when further ones wait for what it does next. */
static bool drop(td_job *j, int most)
{
    (void)most;
    td_clone *c = clone_of(j);
    if (c->parent) {
        *(c->prev ? &c->prev->next : &c->parent->copies.clones) = c->next;
        if (c->next) c->next->prev = c->prev;
        if (!td_clones_hold(c->parent)) c->parent->io.resume(c->parent->io.arg);
    }
    free(c);
    return true;
}

/* TD_AGAIN: there is more. The parent stands still, so what comes next stays where it is. */
static int copy_some(td_session *s, td_clone *c, td_error *e)
{
    if (!c->objects_done) {
        int rc = td_objects_copy(&s->objects, &c->parent->objects, &c->page, e);
        if (rc) return rc;
        c->objects_done = true;
        c->programs = c->parent->programs.known;
        c->nodes = c->parent->graph.nodes;
    }
    int rc = td_known_programs_copy(s, &c->programs, PAGE_RECORDS, e);
    return rc ? rc : td_known_nodes_copy(s, &c->nodes, PAGE_RECORDS, e);
}

/* ---- where the parent is */

static bool is_idle(const td_session *p)
{
    return !p->stream.batch && !p->stream.call && !p->work.job && !(p->wait.kind && !p->wait.over);
}

/* Only its tasks have to end before it goes on with what is not there. */
static bool has_done_all(const td_session *p)
{
    return p->pace.throttled && p->stream.batch && p->stream.cursor == p->stream.batch->n_words && !p->work.job;
}

static bool at_last_program(const td_session *p)
{
    return td_session_runs_for_answer(p) && p->stream.batch && p->stream.cursor == p->stream.batch->n_words;
}

static bool has_come(const td_clone *c)
{
    const td_session *p = c->parent;
    return p->stream.frames > c->frames || !c->frames ||
           (p->stream.frames == c->frames && (is_idle(p) || has_done_all(p) || at_last_program(p)));
}

static bool is_held_up(const td_session *p)
{
    return (p->work.job && p->work.job->kind->endless) || td_session_waits(p) || td_session_unread(p);
}

bool td_clones_hold(const td_session *parent)
{
    for (const td_clone *c = parent->copies.clones; c; c = c->next)
        if (c->holds) return true;
    return false;
}

static const td_wait_kind for_parent = {"what was sent before a fork", .external = true};

void td_clones_look(const td_session *parent)
{
    for (td_clone *c = parent->copies.clones; c; c = c->next) {
        const td_wait *w = &c->session->wait;
        if (w->kind == &for_parent && !w->over && !c->holds && has_come(c)) td_session_ready(c->session);
    }
}

static void look(void *session)
{
    td_session_ready(session);
}

/* False: not yet, it waits. */
static bool begins(td_session *s, td_clone *c)
{
    if (c->holds) return true;
    c->holds = has_come(c);
    if (!c->holds && is_held_up(c->parent) && td_clock_ms() - c->asked_ms >= PATIENCE_MS)
        c->holds = s->copies.partial = true;
    if (c->holds) return true;
    td_session_wait(s, &for_parent);
    td_deadline_arm(s->service, &s->wait.deadline, LOOK_MS, look, s);
    return false;
}

static int step(td_job *j, td_error *e)
{
    td_session *s = td_session_of(j->issuer);
    td_clone *c = clone_of(j);
    if (!c->parent) return td_fail(e, TD_E_NOT_FOUND, "session %u has ended while it was cloned", c->of);
    if (!begins(s, c)) return TD_AGAIN;
    int rc = copy_some(s, c, e);
    if (rc) return rc;
    inherit_failures(s, c->parent);
    td_hook_owner *own = c->parent->graph.hooks ? td_session_hooks(s, e) : NULL;
    if (c->parent->graph.hooks && !own) return e->code;
    if (own) td_hook_owner_inherit(own, c->parent->graph.hooks);
    td_session_welcome(s, c->table_hash);
    drop(j, 1);
    return TD_OK;
}

int td_session_clone(td_session *s, const Td__Wire__Hello *h, const td_peer_id *who, td_error *e)
{
    static const td_job_kind kind = {"clone", .step = step, .drop = drop, .cost = PAGE_RECORDS};
    td_session *parent = td_session_by_token(s->all, h->clone_session, h->clone_token, who, "to clone", e);
    if (!parent) return e->code;
    td_clone *c = malloc(sizeof *c);
    if (!c) return td_no_memory(e, "to clone a session");
    *c = (td_clone){.job = td_session_job(s, &kind),
                    .session = s,
                    .parent = parent,
                    .next = parent->copies.clones,
                    .of = parent->id,
                    .frames = h->clone_frames,
                    .asked_ms = td_clock_ms(),
                    .table_hash = h->table_hash};
    if (c->next) c->next->prev = c;
    parent->copies.clones = c;
    s->work.job = &c->job;
    return TD_OK;
}

void td_clones_end(td_session *parent)
{
    for (td_clone *c = parent->copies.clones, *next; c; c = next) {
        next = c->next;
        c->next = c->prev = NULL;
        c->parent = NULL;
        c->session->io.resume(c->session->io.arg);
    }
    parent->copies.clones = NULL;
}
