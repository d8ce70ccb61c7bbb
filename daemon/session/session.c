/* A session's work: frames, turns, waiting.
 *
 * The stream is worked off record by record. A step that cannot go on leaves everything as it was and suspends; on
 * resume the step is finished or run again. */
#include "daemon/session/state.h"
#include "proto/breath.h"
#include "proto/text.h"

#include <stdlib.h>
#include <time.h>

enum {
    MAX_SITES = 65535,
    TURN_NS = 250000,
    LOOK_EACH = 8,     /* records between two looks at the clock */
    BACKWARD_STEP = 8, /* nodes that count as one record there */
    CLONE_STEP = 128   /* records that a page of a clone's table counts as */
};

uint32_t td_session_id(const td_session *s)
{
    return s->id;
}

bool td_session_waits(const td_session *s)
{
    return s->wait.active && s->wait.external && !s->wait.ready;
}

/* ---- waiting */

void td_session_wait(td_session *s, const char *what, bool external, void (*finish)(td_session *))
{
    s->wait = (td_wait_state){.active = true, .what = what, .external = external, .finish = finish};
    s->waits_for_lease = s->waits_for_replies = s->waits_for_held =
        false; /* who gave that wait up is not woken from this one */
}

void td_session_ready(td_session *s)
{
    s->wait.ready = true;
    s->io.resume(s->io.arg);
}

void td_session_throttle(td_session *s, const char *what)
{
    td_session_wait(s, what, false, NULL);
    if (s->throttled) return;
    s->throttled = true;
    s->next_throttled = s->all->throttled;
    s->all->throttled = s;
}

static void unthrottle(td_session *s)
{
    if (!s->throttled) return;
    td_session **at = &s->all->throttled;
    while (*at != s) at = &(*at)->next_throttled;
    *at = s->next_throttled;
    s->throttled = false;
}

/* More than a part of what it may have in flight? A few tasks always may, or the workers would wait for the loop after
 * each large one. */
static bool too_much_under_way(const td_session *s, uint32_t part)
{
    enum { FEW = 4 };
    uint64_t pending = td_flow_pending(s->flow);
    if (pending > s->all->max_pending / part) return true;
    return pending > FEW / part && td_flow_pending_bytes(s->flow) > s->all->max_pending_bytes / part;
}

void td_session_look_again(void *session)
{
    unthrottle(session);
    td_session_ready(session);
}

bool td_session_forlorn(td_session *s)
{
    enum { LOOKS = 10, LOOK_MS = 100 }; /* counted, not timed: the daemon may have been stopped meanwhile */
    if (!s->wait.active || s->wait.ready || !s->throttled) return false;
    uint64_t now = td_now_ms(), pending = td_flow_pending(s->flow);
    if (!s->forlorn_looks || pending != s->forlorn_pending) {
        s->forlorn_looks = 1;
        s->forlorn_at_ms = now;
        s->forlorn_pending = pending;
    } else if (now - s->forlorn_at_ms >= LOOK_MS) {
        s->forlorn_looks++;
        s->forlorn_at_ms = now;
    }
    if (s->forlorn_looks > LOOKS) return true;
    td_deadline_disarm(s->service, &s->wait.deadline);
    td_deadline_arm(s->service, &s->wait.deadline, LOOK_MS, td_session_look_again, s);
    return false;
}

void td_sessions_collected(td_sessions *all)
{
    for (td_session *s = all->throttled, *next; s; s = next) {
        next = s->next_throttled;
        if (too_much_under_way(s, 2)) continue;
        unthrottle(s);
        td_session_ready(s);
    }
}

void td_session_cancel_wait(td_session *s)
{
    td_wait_state *w = &s->wait;
    unthrottle(s);
    if (!w->active) return;
    td_deadline_disarm(s->service, &w->deadline);
    if (w->tasks) td_waiter_cancel(w->tasks);
    td_session_wants(s, NULL);
    td_tensor_unref(w->tensor);
    *w = (td_wait_state){0};
}

/* ---- failures and call sites */

void td_session_refused(td_session *s, const td_error *why)
{
    if (s->io.refused && (why->code == TD_E_MEMORY || why->code == TD_E_QUOTA)) s->io.refused(s->io.arg, why);
}

void td_session_failed(td_session *s, td_cause *cause)
{
    if (!s->first_error) s->first_error = td_cause_ref(cause);
}

static void mark_told(const td_session *s, td_cause *c)
{
    c->told = s->id;
    c->told_at = td_sched_issued(s->service->sched);
}

/* Of a call that was sent by who did not know better: it is part of the same mistake. */
static bool was_told(const td_session *s, const td_call *c)
{
    return c->cause->told == s->id && td_sched_issued_until(c, c->cause->told_at);
}

static void forget_if_same(td_session *s, td_cause **c, const td_error *e)
{
    td_cause *old = *c;
    if (!old || !td_error_same(&old->error, e)) return;
    mark_told(s, old);
    *c = NULL;
    td_cause_unref(old);
}

static void note_unwritten(td_session *s, const td_call *c, td_tensor *t)
{
    if (t && !td_sched_overwritten(c, t->storage)) td_late_note(&s->late, t->storage, c->cause);
}

void td_session_told(td_session *s, const td_error *e)
{
    td_lates_told(&s->late, e);
    forget_if_same(s, &s->late_grad, e);
    forget_if_same(s, &s->first_error, e);
}

void td_session_tell_now(td_session *s, uint64_t serial, td_cause *c)
{
    td_error why = c->error; /* once it is told, the cause may go */
    mark_told(s, c);
    td_reply_error(s, serial, &why);
    td_session_told(s, &why);
}

typedef struct telling {
    td_session *s;
    uint64_t serial;
    td_cause *cause; /* a reference */
} telling;

static void tell(void *arg)
{
    telling *t = arg;
    if (!t->s->ended) td_session_tell_now(t->s, t->serial, t->cause);
    td_cause_unref(t->cause);
    td_session_promise_kept(t->s, 0);
    free(t);
}

void td_session_tell(td_session *s, uint64_t serial, td_cause *c)
{
    telling *t = malloc(sizeof *t);
    if (!t) {
        td_session_tell_now(s, serial, c);
        return;
    }
    *t = (telling){s, serial, td_cause_ref(c)};
    td_session_promise(s, 0);
    td_sched_after_flow(s->service->sched, s->flow, tell, t);
}

void td_session_unwritten(td_issuer *who, const td_call *c)
{
    td_session *s = td_session_of(who);
    if (s->ended || was_told(s, c)) return;
    td_session_failed(s, c->cause);
    for (int o = 0; c->flags & TD_CF_OUT && o < c->nout; o++) note_unwritten(s, c, c->out[o]);
    for (int i = 0; i < c->nin; i++)
        if (td_call_writes_input(c, i)) note_unwritten(s, c, c->in[i].tensor);
}

td_cause *td_session_cause(td_session *s, const td_error *why, td_error *e)
{
    td_cause *c = td_cause_new(why);
    td_error over = {0};
    td_session_refused(s, why);
    if (c && td_cause_charge(c, s->account, &over) == TD_OK) return c;
    td_cause_unref(c);
    if (!s->overdrawn) s->overdrawn = td_cause_new(&over);
    if (s->overdrawn && c) return td_cause_ref(s->overdrawn);
    td_no_memory(e, "to remember a failure");
    return NULL;
}

void td_session_site(td_session *s, uint32_t site)
{
    s->objects.site = site;
    if (site == s->last_site) return;
    s->last_site = site;
    const char *text = site < s->nsites ? s->sites[site] : NULL;
    size_t n = text ? strlen(text) : 0; /* set_site made it short enough */
    memcpy(s->issuer.where, text ? text : "", n + 1);
}

static int set_site(td_session *s, const Td__Wire__CallSite *c, td_error *e)
{
    if (c->id == 0 || c->id > MAX_SITES)
        return td_fail(e, TD_E_PROTOCOL, "call site %u; they go from 1 to %d", c->id, MAX_SITES);
    if (c->id >= s->nsites) {
        uint32_t n = s->nsites ? s->nsites : 64;
        while (n <= c->id) n *= 2;
        char **sites = realloc(s->sites, n * sizeof *sites);
        if (!sites) return td_no_memory(e, "for call sites");
        memset(sites + s->nsites, 0, (n - s->nsites) * sizeof *sites);
        s->sites = sites;
        uint32_t *renamed = realloc(s->renamed, n * sizeof *renamed);
        if (!renamed) return td_no_memory(e, "for call sites");
        memset(renamed + s->nsites, 0, (n - s->nsites) * sizeof *renamed);
        s->renamed = renamed;
        s->nsites = n;
    }
    char text[sizeof s->issuer.where]; /* as it will be shown: other programs get it in errors, too */
    td_text_visible(text, sizeof text, c->text ? c->text : "");
    if (!s->sites[c->id]) {
        if (td_account_charge(s->account, 0, 1, NULL)) return TD_OK; /* errors will not say where */
        s->ncharged_sites++;
    }
    if (s->sites[c->id] && strcmp(s->sites[c->id], text) != 0)
        s->renamed[c->id] = s->objects.now + 1; /* what was bound in this tick may have either text */
    free(s->sites[c->id]);
    s->sites[c->id] = strdup(text);
    s->last_site = 0;
    return TD_OK;
}

/* ---- frames and turns */

int td_session_frame(td_session *s, td_frame *f, td_error *e)
{
    td_arena_reset(&s->arena);
    s->objects.now = td_ticks(s->service);
    s->service->frames_in++;
    s->service->bytes_in += f->bytes + TD_FRAME_HEADER;
    if (f->kind == TD_FRAME_BATCH) {
        s->batch = td__wire__batch__unpack(&s->arena.allocator, f->bytes, f->payload);
        s->cursor = 0;
        if (!s->batch) return td_fail(e, TD_E_PROTOCOL, "a Batch of %u bytes is malformed", f->bytes);
        for (size_t i = 0; i < s->batch->n_sites; i++) {
            int rc = set_site(s, s->batch->sites[i], e);
            if (rc) return rc;
        }
        return TD_OK;
    }
    if (f->kind == TD_FRAME_CALL) {
        s->call = td__wire__call__unpack(&s->arena.allocator, f->bytes, f->payload);
        if (!s->call) return td_fail(e, TD_E_PROTOCOL, "a Call of %u bytes is malformed", f->bytes);
        td_import_receive(s, f);
        return TD_OK;
    }
    return td_fail(e, TD_E_PROTOCOL, "a frame of kind %u is not for the daemon", f->kind);
}

/* One record of the batch. */
static int step_batch(td_session *s, td_error *e)
{
    td_record r;
    int rc = td_record_parse(s->batch->words + s->cursor, s->batch->n_words - s->cursor, &r, e);
    if (rc) return rc;
    rc = r.op < TD_REC_FIRST ? td_step_op(s, &r, e) : td_step_control(s, &r, e);
    if (rc != TD_AGAIN) {
        s->cursor += r.words;
        td_session_lacks_nothing(s);
    }
    return rc;
}

/* Resumed: finish what was waited for. False: still waiting. */
static bool finish_wait(td_session *s)
{
    if (!s->wait.active) return true;
    if (!s->wait.ready) return false;
    td_deadline_disarm(s->service, &s->wait.deadline);
    if (s->wants) { /* its turn has come: those behind it may go on after this step */
        td_session_wants(s, NULL);
        td_session_leases_changed(s->all);
    }
    td_wait_state w = s->wait;
    s->wait.active = false;
    if (w.finish) w.finish(s);
    if (!s->wait.active) { /* finish may have begun another */
        td_tensor_unref(s->wait.tensor);
        s->wait = (td_wait_state){0};
    }
    return !s->wait.active;
}

/* A turn is bounded by its time too, for one record may be worth a thousand. */
static bool turn_over(uint64_t *until)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    td_breathe(); /* through a ring, a session is served without a system call */
    if (!*until) *until = now + TURN_NS;
    return now > *until;
}

/* Is so much under way already that more must wait? Then it waits. */
static bool held_back(td_session *s)
{
    if (too_much_under_way(s, 1)) {
        td_session_throttle(s, "its own pending tasks");
    } else if (s->promised > s->all->max_unread) {
        td_session_wait(s, "its own pending replies", false, NULL);
        s->waits_for_replies = true;
    } else {
        return false;
    }
    return true;
}

static bool unread(const td_session *s)
{
    return td_writer_pending(s->io.writer) > s->all->max_unread;
}

static td_run run_clone(td_session *s, int most, td_error *e)
{
    int rc = TD_AGAIN;
    uint64_t until = 0;
    for (; rc == TD_AGAIN; most -= CLONE_STEP) {
        if (most <= 0 || turn_over(&until)) return TD_RUN_MORE;
        rc = td_step_clone(s, e);
    }
    return rc ? TD_RUN_FATAL : TD_RUN_IDLE;
}

td_run td_session_run(td_session *s, int most, td_error *e)
{
    uint64_t until = 0;
    if (s->nclones) return TD_RUN_SUSPENDED;
    if (s->clone.of) return run_clone(s, most, e);
    for (int n = 0;; n++) {
        if (s->over && !unread(s)) {
            td_held_finish(s);
            if (--most <= 0) return TD_RUN_MORE;
            continue;
        }
        if (!finish_wait(s)) return s->over ? TD_RUN_STALLED : TD_RUN_SUSPENDED;
        if ((s->backward || n % LOOK_EACH == 0) && turn_over(&until)) return TD_RUN_MORE;
        if (s->backward) {
            if (held_back(s)) continue;
            most -= BACKWARD_STEP;
            if (td_step_backward(s, BACKWARD_STEP) == TD_AGAIN && most <= 0) return TD_RUN_MORE;
            continue;
        }
        int rc;
        if (s->batch && s->cursor < s->batch->n_words) {
            rc = step_batch(s, e);
        } else if (s->call) {
            rc = td_step_call(s);
            if (rc != TD_AGAIN) {
                s->call = NULL;
                td_session_lacks_nothing(s);
                s->call_until_ms = 0;
                td_import_drop(s);
            }
        } else {
            s->batch = NULL;
            return TD_RUN_IDLE;
        }
        if (rc > 0) return TD_RUN_FATAL;
        if (s->wait.active) continue;
        if (unread(s)) return TD_RUN_STALLED;
        if (!held_back(s) && --most <= 0) return TD_RUN_MORE;
    }
}
