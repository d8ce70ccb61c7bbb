/* What failed, and was not told yet: at the next sync, or at the next use of what it left as it was. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>

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
