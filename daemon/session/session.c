/* A session's work: turns, waiting.
 *
 * The stream is worked off record by record. A step that cannot go on leaves everything as it was and suspends; on
 * resume the step is finished or run again. */
#include "daemon/session/state.h"
#include "proto/base/breath.h"

#include <stdlib.h>

enum {
    ALONE_NS = 120000, /* of a turn, and what the last of its records takes */
    SHARED_NS = 40000, /* while there are others, who may wait for its end */
    LOOK_EACH = 8,     /* records between two looks at the clock */
    WORDS_EACH = 64    /* words of a record's lists that weigh as much as a record */
};

uint32_t td_session_id(const td_session *s)
{
    return s->id;
}

td_account *td_session_account(td_session *s)
{
    return s->account;
}

bool td_session_waits(const td_session *s)
{
    return s->wait.kind && s->wait.kind->external && !s->wait.over;
}

bool td_session_stands(const td_session *s, uint64_t *at)
{
    *at = s->stream.frames << 32 | s->stream.cursor;
    return td_session_waits(s) || (s->work.job && s->work.job->kind->endless);
}

/* ---- waiting */

void td_session_wait(td_session *s, const td_wait_kind *kind)
{
    s->wait = (td_wait){.kind = kind};
    if (kind->by == TD_BY_LEASES) td_session_awaits_leases(s);
}

static void tasks_ended(void *session)
{
    td_session *s = session;
    s->wait.tasks = NULL;
    td_session_ready(s);
}

void td_session_wait_for_tasks(td_session *s, const td_wait_kind *kind, const td_access *of)
{
    td_session_wait(s, kind);
    td_waiter *w = td_sched_after(s->service->sched, 1, of, tasks_ended, s);
    if (w) s->wait.tasks = w;
}

void td_session_ready(td_session *s)
{
    s->wait.over = true;
    s->io.resume(s->io.arg);
}

void td_session_woken(td_session *s, unsigned by)
{
    if (s->wait.kind && s->wait.kind->by == by && !s->wait.over) td_session_ready(s);
}

void td_session_throttle(td_session *s, const td_wait_kind *kind)
{
    td_session_wait(s, kind);
    if (s->pace.throttled) return;
    s->pace.throttled = true;
    s->pace.next_throttled = s->all->throttled;
    s->all->throttled = s;
}

static void unthrottle(td_session *s)
{
    if (!s->pace.throttled) return;
    td_session **at = &s->all->throttled;
    while (*at != s) at = &(*at)->pace.next_throttled;
    *at = s->pace.next_throttled;
    s->pace.throttled = s->pace.paced = false;
}

enum { LITTLE = 4 << 20 }; /* bytes that may always be asked for ahead */

/* More than so many tasks in flight, or than a part of the bytes? What is asked for ahead of the kernels has memory for
 * all of its results, while that of what they are done with is not free yet; so where that is much, beside what the
 * session has anyway, no more is asked for than keeps the workers at work until the loop looks again. Behind a task
 * that takes long, how much the workers have to do says nothing. */
static bool too_much_under_way(const td_session *s, uint64_t tasks, uint32_t part)
{
    enum { FEW = 4, SHARE = 16 };
    uint64_t pending = td_flow_pending(s->flow), bytes = td_flow_pending_bytes(s->flow);
    if (pending > tasks) return true;
    if (pending > FEW && td_account_strained(s->account))
        return true; /* each takes some KB of the daemon's own memory */
    if (pending > FEW / part && bytes > s->all->max_pending_bytes / part) return true;
    if (s->pace.ahead > s->all->pace && td_flow_ended(s->flow) == s->pace.was_ended) return false;
    uint64_t share = s->account->bytes / SHARE, much = share > LITTLE ? share : LITTLE;
    return bytes > much / part && td_flow_waiting_ns(s->flow) > s->all->ahead_ns / part;
}

int td_session_step(const td_session *s, int most)
{
    return td_flow_pending_bytes(s->flow) > LITTLE / 4 ? 1 : most;
}

void td_session_look_again(void *session)
{
    unthrottle(session);
    td_session_ready(session);
}

enum { FORLORN_LOOKS = 10, FORLORN_LOOK_MS = 100 }; /* counted, not timed: the daemon may have been stopped meanwhile */

/* Is it the same as at so many looks before? */
static bool stands_still(td_session *s, uint64_t at)
{
    uint64_t now = td_clock_ms();
    if (!s->life.forlorn_looks || at != s->life.forlorn_pending) {
        s->life.forlorn_looks = 1;
        s->life.forlorn_at_ms = now;
        s->life.forlorn_pending = at;
    } else if (now - s->life.forlorn_at_ms >= FORLORN_LOOK_MS) {
        s->life.forlorn_looks++;
        s->life.forlorn_at_ms = now;
    }
    return s->life.forlorn_looks > FORLORN_LOOKS;
}

bool td_session_forlorn(td_session *s)
{
    if (s->work.job && s->work.job->kind->endless) return stands_still(s, UINT64_MAX);
    if (!s->wait.kind || s->wait.over || !s->pace.throttled) return false;
    if (s->pace.paced) return false; /* it will go on, whether one ends or not */
    if (stands_still(s, td_flow_pending(s->flow))) return true;
    td_deadline_disarm(s->service, &s->wait.deadline);
    td_deadline_arm(s->service, &s->wait.deadline, FORLORN_LOOK_MS, td_session_look_again, s);
    return false;
}

void td_sessions_collected(td_sessions *all)
{
    for (td_session *s = all->throttled, *next; s; s = next) {
        next = s->pace.next_throttled;
        if (too_much_under_way(s, all->pace / 2, 2)) continue;
        s->pace.ahead = all->pace;
        unthrottle(s);
        td_session_ready(s);
    }
}

void td_session_cancel_wait(td_session *s)
{
    td_wait *w = &s->wait;
    unthrottle(s);
    td_session_awaits_no_leases(s);
    if (!w->kind) return;
    td_deadline_disarm(s->service, &w->deadline);
    if (w->tasks) td_waiter_cancel(w->tasks);
    if (w->kind->cancel) w->kind->cancel(s, w);
    td_session_wants(s, NULL);
    td_tensor_unref(w->tensor);
    *w = (td_wait){0};
}

/* ---- failures and call sites */

void td_session_refused(td_session *s, const td_error *why)
{
    if (s->io.refused && (why->code == TD_E_MEMORY || why->code == TD_E_QUOTA)) s->io.refused(s->io.arg, why);
}

void td_session_failed(td_session *s, td_cause *cause)
{
    if (!s->failures.first) s->failures.first = td_cause_ref(cause);
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
    if (t && !td_sched_overwritten(c, t->storage)) td_late_note(&s->failures.late, t->storage, c->cause);
}

void td_session_told(td_session *s, const td_error *e)
{
    td_lates_told(&s->failures.late, e);
    forget_if_same(s, &s->failures.late_grad, e);
    forget_if_same(s, &s->failures.first, e);
}

void td_session_tell_now(td_session *s, uint64_t serial, td_cause *c)
{
    td_error why = c->error; /* once it is told, the cause may go */
    mark_told(s, c);
    td_reply_error(s, serial, &why);
    td_session_told(s, &why);
}

typedef struct telling {
    td_promise p;
    td_cause *cause; /* a reference */
} telling;

static void untold(td_session *s, td_wait *w)
{
    (void)s;
    td_cause_unref(((telling *)(void *)w)->cause);
}

static void tell(td_session *s, td_wait *w)
{
    td_session_tell_now(s, w->serial, ((telling *)(void *)w)->cause);
    untold(s, w);
}

void td_session_tell(td_session *s, uint64_t serial, td_cause *c)
{
    static const td_wait_kind for_tasks = {"what was sent before", .finish = tell, .cancel = untold};
    telling *t = td_promise_new(s, &for_tasks, sizeof *t, serial, NULL);
    if (!t) {
        td_session_tell_now(s, serial, c);
        return;
    }
    t->cause = td_cause_ref(c);
    td_promise_make(&t->p, 0);
    td_sched_after_flow(s->service->sched, s->flow, td_promise_keep, t);
}

void td_session_unwritten(td_issuer *who, const td_call *c)
{
    td_session *s = td_session_of(who);
    if (s->life.ended || was_told(s, c)) return;
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
    if (!s->failures.overdrawn) s->failures.overdrawn = td_cause_new(&over);
    if (s->failures.overdrawn && c) return td_cause_ref(s->failures.overdrawn);
    td_no_memory(e, "to remember a failure");
    return NULL;
}

void td_session_site(td_session *s, uint32_t site)
{
    s->objects.site = site;
    if (site == s->sites.last) return;
    s->sites.last = site;
    const char *text = site < s->sites.count ? s->sites.texts[site] : NULL;
    size_t n = text ? strlen(text) : 0; /* set_site made it short enough */
    memcpy(s->issuer.where, text ? text : "", n + 1);
}

/* ---- turns */

/* One record of the batch; what names thousands of ids, or brings many bytes, is worth many. */
static int step_batch(td_session *s, td_error *e)
{
    td_record r;
    int rc =
        td_record_parse(s->stream.batch->words + s->stream.cursor, s->stream.batch->n_words - s->stream.cursor, &r, e);
    if (rc) return rc;
    s->stream.worth = 1 + (int)(r.words / WORDS_EACH);
    rc = r.op < TD_REC_FIRST ? td_step_op(s, &r, e) : td_step_control(s, &r, e);
    if (rc != TD_AGAIN) {
        s->stream.cursor += r.words;
        s->access.awaited_read = NULL;
        td_session_lacks_nothing(s);
    }
    return rc;
}

/* Resumed: finish what was waited for. False: still waiting. */
static bool finish_wait(td_session *s)
{
    td_wait *w = &s->wait;
    const td_wait_kind *kind = w->kind;
    if (!kind) return true;
    if (!w->over) return false;
    td_deadline_disarm(s->service, &w->deadline);
    if (s->access.wants) { /* its turn has come: those behind it may go on after this step */
        td_session_wants(s, NULL);
        td_session_leases_changed(s->all);
    }
    w->kind = NULL;
    if (kind->finish) kind->finish(s, w);
    if (w->kind) return false; /* it has begun another */
    td_tensor_unref(w->tensor);
    *w = (td_wait){0};
    return true;
}

/* A turn is bounded by its time too, for one record may be worth a thousand. */
static bool turn_over(const td_session *s, uint64_t *until)
{
    uint64_t now = td_clock_ns();
    td_breathe(); /* through a ring, a session is served without a system call */
    if (!*until) *until = now + (s->all->count > 1 ? SHARED_NS : ALONE_NS);
    return now > *until;
}

static void look_later(td_session *s);

enum { LOOK_MS = 10, LOOKS = 20, LONG_NS = 16000000 };

/* None of its tasks has ended, though the workers had processors? Where other programs have these nothing ends for long
 * either, and whatever were asked for ahead meanwhile would have memory. So it is their time that counts, and the
 * clock's only after many looks, for what runs on a device. */
static bool takes_long(td_session *s)
{
    uint64_t ended = td_flow_ended(s->flow), worked = td_sched_worked_ns(s->service->sched);
    bool first = !s->pace.was_worked_ns || ended != s->pace.was_ended;
    if (!first && worked - s->pace.was_worked_ns < LONG_NS && ++s->pace.looks < LOOKS) return false;
    s->pace.was_ended = ended;
    s->pace.was_worked_ns = worked;
    s->pace.looks = 0;
    return !first;
}

/* What comes behind a long one need not wait with those that do. */
static void go_further_ahead(void *session)
{
    td_session *s = session;
    if (takes_long(s))
        s->pace.ahead = s->pace.ahead < s->all->max_pending / 2 ? 2 * s->pace.ahead : s->all->max_pending;
    if (too_much_under_way(s, s->pace.ahead, 1)) look_later(s);
    else td_session_look_again(s);
}

static void look_later(td_session *s)
{
    s->pace.paced = s->pace.ahead < s->all->max_pending;
    if (s->pace.paced) td_deadline_arm(s->service, &s->wait.deadline, LOOK_MS, go_further_ahead, s);
}

/* Until most of them have ended, or for so long that one of them takes long. */
static void wait_for_own_tasks(td_session *s)
{
    static const td_wait_kind for_tasks = {"its own pending tasks"};
    td_session_throttle(s, &for_tasks);
    uint64_t ended = td_flow_ended(s->flow);
    if (ended != s->pace.was_ended) s->pace.was_worked_ns = 0;
    s->pace.was_ended = ended;
    look_later(s);
}

/* Is so much under way already that more must wait? Then it waits. */
static bool held_back(td_session *s)
{
    static const td_wait_kind for_replies = {"its own pending replies", .by = TD_BY_REPLIES};
    if (s->work.job && s->work.job->kind->alone) return false;
    if (too_much_under_way(s, s->pace.ahead, 1)) {
        wait_for_own_tasks(s);
    } else if (s->beside.promised > s->all->max_unread) {
        td_session_wait(s, &for_replies);
    } else {
        return false;
    }
    return true;
}

bool td_session_unread(const td_session *s)
{
    return td_writer_pending(s->io.writer) > s->all->max_unread;
}

/* Is there no room for an answer, whatever it brings? */
static bool unread_for_held(const td_session *s)
{
    return td_session_unread(s) || td_writer_descriptors_full(s->io.writer);
}

static int step_job(td_session *s, td_error *e)
{
    const td_job_kind *kind = s->work.job->kind;
    td_lap_is(s->service->laps, kind->name);
    int rc = kind->step(s->work.job, e);
    s->work.steps++;
    td_session_reads(s, rc && kind->reads && kind->reads(s->work.job, NULL, &(uint32_t){0}));
    if (rc == TD_OK) {
        s->work.job = NULL;
        s->access.awaited_read = NULL;
    }
    return rc;
}

static bool has_records(const td_session *s)
{
    return s->stream.batch && s->stream.cursor < s->stream.batch->n_words;
}

static td_run run_until(td_session *s, int most, uint64_t *until, td_error *e)
{
    if (td_clones_hold(s)) return TD_RUN_SUSPENDED;
    for (int unseen = LOOK_EACH;; unseen += s->stream.worth) {
        bool unread = s->beside.over && unread_for_held(s);
        if (unread && !s->work.job) return TD_RUN_STALLED; /* a record may end what these answers are about */
        if ((s->work.job || s->beside.over || unseen >= LOOK_EACH) && turn_over(s, until)) return TD_RUN_MORE;
        if (unseen >= LOOK_EACH) unseen = 0;
        s->stream.worth = 1;
        if (s->beside.over && !unread) { /* what it is at goes on meanwhile: others may wait for its end */
            td_lap_is(s->service->laps, "held");
            most -= td_held_finish(s);
            if (most <= 0) return TD_RUN_MORE;
            continue;
        }
        if (!finish_wait(s)) return unread ? TD_RUN_STALLED : TD_RUN_SUSPENDED;
        int rc;
        if (s->work.job) {
            if (held_back(s)) continue;
            most -= s->work.job->kind->cost;
            rc = step_job(s, e);
            if (rc > 0) return TD_RUN_FATAL;
            if (rc == TD_AGAIN && most <= 0) return TD_RUN_MORE;
            if (rc == TD_OK && (has_records(s) || s->stream.call) && td_session_unread(s)) return TD_RUN_STALLED;
            continue;
        }
        if (has_records(s)) {
            rc = step_batch(s, e);
        } else if (s->stream.call) {
            rc = td_step_call(s);
            if (rc != TD_AGAIN) {
                s->stream.call = NULL;
                s->access.awaited_read = NULL;
                td_session_lacks_nothing(s);
                s->stream.call_until_ms = 0;
                td_import_drop(s);
            }
        } else {
            td_session_frame_over(s);
            return TD_RUN_IDLE;
        }
        if (rc > 0) return TD_RUN_FATAL;
        if (s->wait.kind) continue;
        if (td_session_unread(s) && !s->work.job)
            return TD_RUN_STALLED; /* others may wait for the end of what it began */
        if (!held_back(s) && (most -= s->stream.worth) <= 0) return TD_RUN_MORE;
    }
}

td_run td_session_run_until(td_session *s, int most, uint64_t *until, td_error *e)
{
    td_run how = run_until(s, most, until, e);
    td_clones_look(s);
    return how;
}

td_run td_session_run(td_session *s, int most, td_error *e)
{
    return td_session_run_until(s, most, &(uint64_t){0}, e);
}
