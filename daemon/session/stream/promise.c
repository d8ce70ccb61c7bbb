/* Replies that come when tasks have ended: waits beside the stream that nobody else can end, in any number.
 *
 * A promise keeps its session's struct, for what it waits for may be another session's. When too much is promised the
 * stream waits. When the session ends, a promise lets go of what it refers to at once, so that what only it wanted is
 * not computed. */
#include "daemon/session/stream/stream.h"

#include <stdlib.h>

enum { COST = 128 /* of any reply to come, in bytes */ };

void *td_promise_new(td_session *s, const td_wait_kind *kind, size_t size, uint64_t serial, td_error *e)
{
    td_promise *p = calloc(1, size);
    if (!p) {
        td_no_memory(e, "for a reply");
        return NULL;
    }
    p->wait.kind = kind;
    p->wait.serial = serial;
    p->session = s;
    return p;
}

void td_promise_make(td_promise *p, uint64_t bytes)
{
    td_session *s = p->session;
    p->bytes = bytes + COST;
    p->next = s->beside.promises;
    if (p->next) p->next->prev = p;
    s->beside.promises = p;
    s->beside.promised += p->bytes;
    td_account_add(s->account, 0, 1); /* the stream waits when there are many */
    s->life.refs++;
}

static void over(td_session *s)
{
    s->life.refs--;
    if (s->life.ended) td_session_try_free(s);
    else if (s->beside.promised <= s->all->max_unread / 2) td_session_woken(s, TD_BY_REPLIES);
}

void td_promise_keep(void *promise)
{
    td_promise *p = promise;
    td_session *s = p->session;
    if (!s->life.ended) p->wait.kind->finish(s, &p->wait);
    *(p->prev ? &p->prev->next : &s->beside.promises) = p->next;
    if (p->next) p->next->prev = p->prev;
    s->beside.promised -= p->bytes;
    td_account_discharge(s->account, 0, 1);
    td_tensor_unref(p->wait.tensor);
    free(p);
    over(s);
}

void td_promises_forget(td_session *s)
{
    for (td_promise *p = s->beside.promises; p; p = p->next) {
        if (p->wait.kind->cancel) p->wait.kind->cancel(s, &p->wait);
        td_tensor_unref(p->wait.tensor);
        p->wait.tensor = NULL;
    }
}
