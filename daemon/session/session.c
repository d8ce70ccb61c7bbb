/* A session's turns.
 *
 * The stream is worked off record by record. A step that cannot go on leaves everything as it was and suspends; on
 * resume the step is finished or run again. */
#include "daemon/session/calls/calls.h"
#include "proto/base/breath.h"

#include <assert.h>
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

/* A turn is bounded by its time too, for one record may be worth a thousand. */
static bool turn_over(const td_session *s, uint64_t *until)
{
    uint64_t now = td_clock_ns();
    td_breathe(); /* through a ring, a session is served without a system call */
    if (!*until) *until = now + (s->all->count > 1 ? SHARED_NS : ALONE_NS);
    return now > *until;
}

static int step_job(td_session *s, td_error *e)
{
    const td_job_kind *kind = s->work.job->kind;
    td_lap_is(s->service->laps, kind->name);
    int rc = kind->step(s->work.job, e);
    assert((rc >= 0 || rc == TD_AGAIN) && "any other would run again for ever");
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
        bool unread = s->beside.over && td_session_unread_for_held(s);
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
        if (s->wait.kind && !td_session_finish_wait(s)) return unread ? TD_RUN_STALLED : TD_RUN_SUSPENDED;
        int rc;
        if (s->work.job) {
            if (td_session_held_back(s)) continue;
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
        if (!td_session_held_back(s) && (most -= s->stream.worth) <= 0) return TD_RUN_MORE;
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
