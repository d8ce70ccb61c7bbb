/* Requests that wait for what others do: for room in a queue, an item of one, a name.
 *
 * They are held beside the stream, which goes on, for whoever brings what one waits for may be another thread of the
 * same client. Each is answered when its time has come, by its serial, in the order in which the waits ended; an item
 * whose values are still computed then, when they are there. What one holds is charged and goes with the session; one
 * that finds TD_HELD_MOST before it waits in the stream until there are fewer. Callbacks only take note (td_held_over);
 * what follows is a turn's work, or that of several. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>

int td_held_room(td_session *s)
{
    static const td_wait_kind for_fewer = {"its own requests that wait for others", .by = TD_BY_HELD, .external = true};
    if (s->beside.nheld < TD_HELD_MOST) return TD_OK;
    td_session_wait(s, &for_fewer);
    return TD_AGAIN;
}

void *td_held_new(td_session *s, const td_wait_kind *kind, size_t bytes, uint64_t serial, td_error *e)
{
    if (td_account_charge(s->account, 0, td_objects_of(bytes), e)) return NULL;
    td_held *h = calloc(1, bytes);
    if (!h) {
        td_account_discharge(s->account, 0, td_objects_of(bytes));
        td_no_memory(e, "to wait for %s", kind->what);
        return NULL;
    }
    *h = (td_held){.wait = {.kind = kind, .serial = serial}, .session = s, .next = s->beside.held, .bytes = bytes};
    if (h->next) h->next->prev = h;
    else s->beside.oldest_held = h;
    s->beside.held = h;
    s->beside.nheld++;
    return h;
}

/* The first of those that are over. */
static void over_next(td_session *s, td_held *h)
{
    h->next_over = s->beside.over;
    s->beside.over = h;
    if (!h->next_over) s->beside.last_over = &h->next_over;
}

void td_held_next(td_held *h)
{
    h->wait.over = true;
    over_next(h->session, h);
}

void td_held_awaits(td_held *h, td_await *at)
{
    h->at = at;
    at->arg = h;
}

void td_held_over(td_held *h, const td_error *error)
{
    td_session *s = h->session;
    h->at = NULL;
    h->wait.over = true;
    h->wait.failed = error != NULL;
    if (error) h->error = *error;
    *s->beside.last_over = h;
    s->beside.last_over = &h->next_over;
    s->io.resume(s->io.arg);
}

/* Nobody else knows of it any more, and what came goes back. */
static void call_off(td_session *s, td_held *h)
{
    td_await_cancel(s->service, h->at);
    h->at = NULL;
    if (h->wait.kind->cancel) h->wait.kind->cancel(s, &h->wait);
}

static void held_free(td_session *s, td_held *h)
{
    if (h->prev) h->prev->next = h->next;
    else s->beside.held = h->next;
    if (h->next) h->next->prev = h->prev;
    else s->beside.oldest_held = h->prev;
    s->beside.nheld--;
    td_account_discharge(s->account, 0, td_objects_of(h->bytes));
    free(h);
    td_session_woken(s, TD_BY_HELD);
}

int td_held_finish(td_session *s)
{
    enum { PART = 64 };
    td_held *h = s->beside.over;
    s->beside.over = h->next_over;
    h->next_over = NULL;
    if (!s->beside.over) s->beside.last_over = &s->beside.over;
    h->goes_on = TD_HELD_ENDS;
    h->wait.kind->finish(s, &h->wait);
    if (h->goes_on == TD_HELD_ENDS) {
        held_free(s, h);
    } else if (h->goes_on == TD_HELD_MORE) {
        over_next(s, h);
        return PART;
    }
    return 1;
}

void td_held_refuse(td_session *s, td_held *h, const td_error *why)
{
    call_off(s, h);
    td_reply_error(s, h->wait.serial, why);
    held_free(s, h);
}

static td_held *find(const td_session *s, uint64_t serial)
{
    td_held *h = s->beside.held;
    while (h && h->wait.serial != serial) h = h->next;
    return h;
}

bool td_session_beside(const td_session *s, uint64_t serial)
{
    const td_promise *p = s->beside.promises;
    while (p && p->wait.serial != serial) p = p->next;
    return p || find(s, serial);
}

void td_held_cancel(td_session *s, uint64_t serial)
{
    td_held *h = find(s, serial);
    if (!h || h->wait.over) return; /* its answer is under way */
    td_error e = {0};
    td_fail(&e, TD_E_CANCELLED, "the client gave up waiting for %s", h->wait.kind->what);
    call_off(s, h);
    td_held_over(h, &e);
}

/* The newest first, so that items go back to their queues in the order in which they were there. */
void td_held_drop(td_session *s)
{
    while (s->beside.held) {
        td_held *h = s->beside.held;
        call_off(s, h);
        held_free(s, h);
    }
    s->beside.over = NULL;
    s->beside.last_over = &s->beside.over;
}
