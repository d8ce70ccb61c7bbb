/* Waits of the stream: a session suspends until what it waits for has come, and says whom it waits for.
 *
 * Those that wait until a write lease or a backward ends are in a list of all sessions, in the order in which they
 * came; those whose turn has come are known until they have had it. */
#include "daemon/session/stream/stream.h"

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

void td_session_cancel_wait(td_session *s)
{
    td_wait *w = &s->wait;
    td_session_unthrottle(s);
    td_session_awaits_no_leases(s);
    if (!w->kind) return;
    td_deadline_disarm(s->service, &w->deadline);
    if (w->tasks) td_waiter_cancel(w->tasks);
    if (w->kind->cancel) w->kind->cancel(s, w);
    td_session_wants(s, NULL);
    td_tensor_unref(w->tensor);
    *w = (td_wait){0};
}

/* Resumed: finish what was waited for. False: still waiting. */
bool td_session_finish_wait(td_session *s)
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

void td_session_wants(td_session *s, const td_storage *st)
{
    if (st && !s->access.wants) {
        s->access.next_wanting = s->all->wanting;
        s->access.at_wanting = &s->all->wanting;
        if (s->access.next_wanting) s->access.next_wanting->access.at_wanting = &s->access.next_wanting;
        s->all->wanting = s;
    } else if (!st && s->access.wants) {
        *s->access.at_wanting = s->access.next_wanting;
        if (s->access.next_wanting) s->access.next_wanting->access.at_wanting = s->access.at_wanting;
    }
    s->access.wants = st;
}

void td_session_awaits_leases(td_session *s)
{
    if (s->access.at_for_leases) return;
    s->access.next_for_leases = NULL;
    s->access.at_for_leases = s->all->last_for_leases;
    *s->access.at_for_leases = s;
    s->all->last_for_leases = &s->access.next_for_leases;
}

void td_session_awaits_no_leases(td_session *s)
{
    if (!s->access.at_for_leases) return;
    *s->access.at_for_leases = s->access.next_for_leases;
    *(s->access.next_for_leases ? &s->access.next_for_leases->access.at_for_leases : &s->all->last_for_leases) =
        s->access.at_for_leases;
    s->access.at_for_leases = NULL;
}

void td_session_leases_changed(td_sessions *all)
{
    while (all->for_leases) {
        td_session *s = all->for_leases;
        td_session_awaits_no_leases(s);
        td_session_woken(s, TD_BY_LEASES);
    }
}
