/* Requests that wait for what others do: for room in a queue, an item of one, a name.
 *
 * They are held beside the stream, which goes on, for whoever brings what one waits for may be another thread of the
 * same client. Each is answered when its time has come, by its serial, in the order in which the waits ended. What one
 * holds is charged and goes with the session; one that finds TD_HELD_MOST before it waits in the stream until there are
 * fewer. Callbacks only take note (td_held_over); what follows is a turn's work. */
#include "daemon/session/state.h"

#include <stdlib.h>

static uint64_t cost(const td_held *h)
{
    return 1 + (sizeof *h + h->n_ids * sizeof *h->ids) / 512;
}

int td_held_room(td_session *s)
{
    if (s->nheld < TD_HELD_MOST) return TD_OK;
    td_session_wait(s, "its own requests that wait for others", true, NULL);
    s->waits_for_held = true;
    return TD_AGAIN;
}

int td_held_new(td_held **out, td_session *s, const char *what, uint64_t serial, size_t n_ids, const uint32_t *ids,
                void (*finish)(td_session *s, td_held *h), td_error *e)
{
    const td_held plan = {
        .session = s, .next = s->held, .what = what, .serial = serial, .n_ids = n_ids, .finish = finish};
    int rc = td_account_charge(s->account, 0, cost(&plan), e);
    if (rc) return rc;
    td_held *h = malloc(sizeof *h + n_ids * sizeof *ids);
    if (!h) {
        td_account_discharge(s->account, 0, cost(&plan));
        return td_no_memory(e, "to wait for %s", what);
    }
    *h = plan;
    if (n_ids) memcpy(h->ids, ids, n_ids * sizeof *ids);
    if (h->next) h->next->prev = h;
    s->held = h;
    s->nheld++;
    *out = h;
    return TD_OK;
}

void td_held_over(td_held *h, const td_error *error)
{
    td_session *s = h->session;
    h->queue = NULL;
    h->name = NULL;
    h->failed = error != NULL;
    if (error) h->error = *error;
    *s->last_over = h;
    s->last_over = &h->next_over;
    s->io.resume(s->io.arg);
}

static void held_free(td_session *s, td_held *h)
{
    if (h->prev) h->prev->next = h->next;
    else s->held = h->next;
    if (h->next) h->next->prev = h->prev;
    s->nheld--;
    td_queue_item_free(h->item);
    td_tensor_unhold(h->tensor);
    td_account_discharge(s->account, 0, cost(h));
    free(h);
    if (!s->waits_for_held) return;
    s->waits_for_held = false;
    td_session_ready(s);
}

void td_held_finish(td_session *s)
{
    td_held *h = s->over;
    s->over = h->next_over;
    if (!s->over) s->last_over = &s->over;
    h->finish(s, h);
    held_free(s, h);
}

void td_held_refuse_gets(td_session *s, const td_queue_handle *of, const td_error *why)
{
    for (td_held *h = s->held, *next; h; h = next) {
        next = h->next;
        if (h->handle != of || !h->queue || h->queue->put) continue;
        td_queue_wait_cancel(s->service, h->queue);
        td_reply_error(s, h->serial, why);
        held_free(s, h);
    }
}

void td_held_cancel(td_session *s, uint64_t serial)
{
    td_held *h = s->held;
    while (h && h->serial != serial) h = h->next;
    if (!h || !(h->queue || h->name)) return; /* its answer is under way */
    td_error e = {0};
    td_fail(&e, TD_E_CANCELLED, "the client gave up waiting for %s", h->what);
    if (h->queue) td_queue_wait_cancel(s->service, h->queue);
    if (h->name) td_name_wait_free(h->name);
    td_held_over(h, &e);
}

/* The newest first, so that items go back to their queues in the order in which they were there. */
void td_held_drop(td_session *s)
{
    s->waits_for_held = false;
    while (s->held) {
        td_held *h = s->held;
        if (h->queue) td_queue_wait_cancel(s->service, h->queue);
        if (h->name) td_name_wait_free(h->name);
        if (h->item) td_queue_untake(s->service, h->handle->member, h->item);
        h->item = NULL;
        held_free(s, h);
    }
    s->over = NULL;
    s->last_over = &s->over;
}
